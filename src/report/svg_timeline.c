/* An iteration as a picture: ranks down, time across, one box per micro-batch; the plan above, the run below. */
#include <math.h>
#include <string.h>

#include "report/charts.h"
#include "report/svg.h"

static const double width = 1072, left = 62, right = 14;
static const double row_most = 24, rows_height = 320, row_least = 0.4; /* the height of one rank's row */
static const double name_height = 20, panel_gap = 12, axis_height = 26, least_label_height = 11.5;

/* The two sides of a timeline. */
typedef struct panel {
    const char *name;
    double seconds, step; /* where micro-batches end, and the optimizer step after it (0: not shown) */
    bool measured;
} panel;

static double known_or_zero(double value) { return isfinite(value) && value > 0 ? value : 0; }

static double box_start(const dcpar_report_box *box, bool measured) {
    return measured ? box->measured_start : box->planned_start;
}

static double box_seconds(const dcpar_report_box *box, bool measured) {
    return measured ? box->measured_seconds : box->planned_seconds;
}

static bool is_known(const dcpar_report_box *box, bool measured) {
    return isfinite(box_start(box, measured)) && isfinite(box_seconds(box, measured));
}

/* A side ends where it says; else, or when a box ends later, where its last box does. */
static panel panel_of(const dcpar_report_timeline *timeline, bool measured) {
    panel panel = {.name = measured ? "measured" : "planned",
                   .seconds = known_or_zero(measured ? timeline->measured_seconds : timeline->planned_seconds),
                   .step = known_or_zero(measured ? timeline->measured_step_seconds : timeline->planned_step_seconds),
                   .measured = measured};
    for (int64_t i = 0; i < timeline->count; ++i) {
        const dcpar_report_box *box = &timeline->boxes[i];
        if (is_known(box, measured))
            panel.seconds = fmax(panel.seconds, box_start(box, measured) + box_seconds(box, measured));
    }
    return panel;
}

static double idle_of(const dcpar_report_timeline *timeline, const panel *panel, int32_t world) {
    double busy = 0;
    for (int64_t i = 0; i < timeline->count; ++i)
        if (is_known(&timeline->boxes[i], panel->measured))
            busy += timeline->boxes[i].sp * box_seconds(&timeline->boxes[i], panel->measured);
    return fmax(0, 1 - busy / (panel->seconds * world));
}

/* Keeps sizes increasing; a size too many takes the last place's colour. */
static void add_size(dcpar_timeline_scale *scale, int32_t sp) {
    int32_t at = 0;
    while (at < scale->size_count && scale->sizes[at] < sp) ++at;
    if (at == DCPAR_TIMELINE_COLOURS || (at < scale->size_count && scale->sizes[at] == sp)) return;
    if (scale->size_count < DCPAR_TIMELINE_COLOURS) ++scale->size_count;
    memmove(&scale->sizes[at + 1], &scale->sizes[at], (size_t)(scale->size_count - at - 1) * sizeof *scale->sizes);
    scale->sizes[at] = sp;
}

dcpar_timeline_scale dcpar_timeline_scale_make(const dcpar_report *report) {
    dcpar_timeline_scale scale = {.world = report->world};
    for (int32_t i = 0; i < report->policy_count; ++i)
        for (int32_t j = 0; j < report->policies[i].timeline_count; ++j) {
            const dcpar_report_timeline *timeline = &report->policies[i].timelines[j];
            for (int measured = 0; measured < 2; ++measured) {
                const panel panel = panel_of(timeline, measured != 0);
                scale.seconds = fmax(scale.seconds, panel.seconds + panel.step);
                scale.has_step = scale.has_step || (panel.seconds > 0 && panel.step > 0);
            }
            for (int64_t k = 0; k < timeline->count; ++k) add_size(&scale, timeline->boxes[k].sp);
        }
    return scale;
}

int32_t dcpar_timeline_colour(const dcpar_timeline_scale *scale, int32_t sp) {
    for (int32_t i = 0; i < scale->size_count; ++i)
        if (scale->sizes[i] >= sp) return i;
    return DCPAR_TIMELINE_COLOURS - 1;
}

static double row_height(int32_t world) { return fmin(row_most, fmax(rows_height / world, row_least)); }

static void write_box_title(FILE *file, const dcpar_report_box *box) {
    char length[DCPAR_UNIT_TEXT], tokens[DCPAR_UNIT_TEXT], first[DCPAR_UNIT_TEXT], second[DCPAR_UNIT_TEXT];
    fprintf(file, "<title>%lld x %s tokens padded, %s real\n", (long long)box->sequences,
            dcpar_text_integer(box->padded_length, length), dcpar_text_integer(box->tokens, tokens));
    if (box->sp == 1)
        fprintf(file, "SP 1: rank %d", box->first_rank);
    else
        fprintf(file, "SP %d: ranks %d to %d", box->sp, box->first_rank, box->first_rank + box->sp - 1);
    fprintf(file, "\nlayers recomputed: %d", box->recompute);
    for (int measured = 0; measured < 2; ++measured)
        if (is_known(box, measured != 0))
            fprintf(file, "\n%s: %s from %s on", measured != 0 ? "measured" : "planned",
                    dcpar_text_seconds(box_seconds(box, measured != 0), first),
                    dcpar_text_seconds(fmax(0, box_start(box, measured != 0)), second));
    fputs("</title></rect>\n", file);
}

/* A label in the middle of a box when it fits across or, in a tall narrow box, upwards. */
static bool write_fitting(FILE *file, const char *label, double x, double y, double box_width, double box_height) {
    static const double character_width = 6.1, margin = 5;
    const double length = dcpar_text_columns(label) * character_width + margin;
    const bool across = length <= box_width && box_height >= least_label_height;
    const bool upwards = length <= box_height && box_width >= least_label_height;
    if (across)
        dcpar_svg_text(file, "label", x + box_width / 2, y + box_height / 2 + 4, label);
    else if (upwards)
        dcpar_svg_text_upwards(file, "label", x + box_width / 2 + 4, y + box_height / 2, label);
    return across || upwards;
}

/* "8 x 2,048", with the recomputed layers when there is room for them. */
static void write_box_label(FILE *file, const dcpar_report_box *box, double x, double y, double box_width,
                            double box_height) {
    char length[DCPAR_UNIT_TEXT], label[2 * DCPAR_UNIT_TEXT], more[3 * DCPAR_UNIT_TEXT];
    snprintf(label, sizeof label, "%lld \xc3\x97 %s", (long long)box->sequences,
             dcpar_text_integer(box->padded_length, length));
    snprintf(more, sizeof more, "%s, r %d", label, box->recompute);
    if (box->recompute > 0 && write_fitting(file, more, x, y, box_width, box_height)) return;
    write_fitting(file, label, x, y, box_width, box_height);
}

static void write_box(FILE *file, const dcpar_report_box *box, const panel *panel, const dcpar_timeline_scale *scale,
                      const dcpar_axis *x, double y) {
    const double row = row_height(scale->world);
    const double start = fmax(0, box_start(box, panel->measured));
    const double end = box_start(box, panel->measured) + box_seconds(box, panel->measured);
    const double from = dcpar_axis_place(x, start), whole_width = dcpar_axis_place(x, end) - from;
    if (!(whole_width > 0)) return;
    const double gap_x = fmin(1, whole_width / 4), gap_y = row >= 4 ? 1 : 0;
    const double box_height = box->sp * row - gap_y, box_width = whole_width - gap_x;
    const double box_y = y + box->first_rank * row;
    char class_name[16];
    snprintf(class_name, sizeof class_name, "s%d", dcpar_timeline_colour(scale, box->sp));
    dcpar_svg_rect_begin(file, class_name, from, box_y, box_width, box_height);
    write_box_title(file, box);
    write_box_label(file, box, from, box_y, box_width, box_height);
}

/* Names as many ranks as there is room for: every one, every second, every fourth, ... */
static void write_rank_names(FILE *file, int32_t world, double y) {
    const double row = row_height(world);
    int32_t every = 1;
    while (every * row < 13 && every < world) every *= 2;
    for (int32_t rank = 0; rank < world; rank += every) {
        char name[24];
        snprintf(name, sizeof name, "rank %d", rank);
        dcpar_svg_text(file, "e", left - 7, y + rank * row + fmin(row / 2, 12) + 4, name);
    }
}

static void write_panel_name(FILE *file, const dcpar_report_timeline *timeline, const panel *panel, int32_t world,
                             double y) {
    char seconds[DCPAR_UNIT_TEXT], step[DCPAR_UNIT_TEXT], idle[DCPAR_UNIT_TEXT], text[4 * DCPAR_UNIT_TEXT];
    int used = snprintf(text, sizeof text, "%s: %s, idle %s", panel->name, dcpar_text_seconds(panel->seconds, seconds),
                        dcpar_text_percent(idle_of(timeline, panel, world), idle));
    if (panel->step > 0)
        snprintf(text + used, sizeof text - (size_t)used, ", then the optimizer step: %s",
                 dcpar_text_seconds(panel->step, step));
    dcpar_svg_text(file, "strong", left, y + 12, text);
}

static void write_panel(FILE *file, const dcpar_report_timeline *timeline, const panel *panel,
                        const dcpar_timeline_scale *scale, const dcpar_axis *x, double y) {
    const double rows = row_height(scale->world) * scale->world;
    const double end = dcpar_axis_place(x, panel->seconds);
    write_panel_name(file, timeline, panel, scale->world, y);
    y += name_height;
    write_rank_names(file, scale->world, y);
    dcpar_svg_rect(file, "idle", left, y, end - left, rows);
    for (int64_t i = 0; i < timeline->count; ++i)
        if (is_known(&timeline->boxes[i], panel->measured)) write_box(file, &timeline->boxes[i], panel, scale, x, y);
    if (panel->step > 0)
        dcpar_svg_rect(file, "step", end, y, dcpar_axis_place(x, panel->seconds + panel->step) - end, rows);
    dcpar_svg_line(file, "end", end, y - 3, end, y + rows + 3);
}

static void write_time_axis(FILE *file, const dcpar_axis *x, double y) {
    dcpar_svg_line(file, "axis", x->begin, y, x->end, y);
    for (int i = 0; i < dcpar_axis_ticks(x); ++i) {
        char text[DCPAR_UNIT_TEXT];
        const double at = dcpar_axis_place(x, dcpar_axis_tick(x, i, text));
        dcpar_svg_line(file, "axis", at, y, at, y + 4);
        dcpar_svg_text(file, at > width - 30 ? "e" : "m", at > width - 30 ? x->end + 10 : at, y + 17, text);
    }
}

void dcpar_chart_timeline(FILE *file, const dcpar_report_timeline *timeline, const dcpar_timeline_scale *scale) {
    const panel panels[] = {panel_of(timeline, false), panel_of(timeline, true)};
    const double panel_height = name_height + row_height(scale->world) * scale->world;
    double height = axis_height;
    for (int i = 0; i < 2; ++i)
        if (panels[i].seconds > 0) height += panel_height + panel_gap;
    const dcpar_axis x = dcpar_axis_make(DCPAR_AXIS_SECONDS, 0, scale->seconds, left, width - right, 10);
    dcpar_svg_begin(file, "broad", width, height, "Timeline of an iteration");
    double y = 0;
    for (int i = 0; i < 2; ++i) {
        if (!(panels[i].seconds > 0)) continue;
        write_panel(file, timeline, &panels[i], scale, &x, y);
        y += panel_height + panel_gap;
    }
    write_time_axis(file, &x, y - panel_gap / 2);
    dcpar_svg_end(file);
}
