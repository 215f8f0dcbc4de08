/* Loss of every policy, over tokens or over time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/charts.h"
#include "report/figures.h"
#include "report/svg.h"

static const double width = 530, height = 290, left = 52, right = 20, top = 12, bottom = 44;
enum { policy_colours = 7, most_raw_points = 2000 };

typedef struct point {
    double x, y, weight; /* y is NAN where no loss is known */
} point;

typedef struct range {
    double from, to;
} range;

static void widen(range *range, double value) {
    range->from = fmin(range->from, value);
    range->to = fmax(range->to, value);
}

static double amount(const dcpar_report_iteration *iteration, dcpar_loss_over over) {
    return over == DCPAR_LOSS_OVER_TOKENS ? (double)iteration->tokens : iteration->seconds;
}

/* One point per iteration; x is what has been seen or passed after it. Returns how many: none when an x is unknown. */
static int64_t fill_points(const dcpar_report_policy *policy, dcpar_loss_over over, point *points) {
    double x = 0;
    for (int64_t i = 0; i < policy->count; ++i) {
        const dcpar_report_iteration *one = &policy->iterations[i];
        x += amount(one, over);
        points[i] = (point){x, isfinite(one->loss) ? one->loss : NAN, one->tokens > 0 ? (double)one->tokens : 1};
    }
    return isfinite(x) ? policy->count : 0;
}

/* Means of `window` neighbours at a time, weighted with tokens, into `out` (which may be `points`). */
static int64_t fill_means(const point *points, int64_t count, int64_t window, point *out) {
    int64_t made = 0;
    for (int64_t i = 0; i < count; i += window) {
        double x = 0, y = 0, weight = 0;
        const int64_t end = i + window < count ? i + window : count;
        for (int64_t j = i; j < end; ++j) {
            x += points[j].x;
            if (isnan(points[j].y)) continue;
            y += points[j].y * points[j].weight;
            weight += points[j].weight;
        }
        out[made++] = (point){x / (double)(end - i), weight > 0 ? y / weight : NAN, weight};
    }
    return made;
}

static int64_t window_of(int64_t count) { return (count + DCPAR_LOSS_POINTS - 1) / DCPAR_LOSS_POINTS; }

static int64_t count_losses(const point *points, int64_t count) {
    int64_t known = 0;
    for (int64_t i = 0; i < count; ++i) known += !isnan(points[i].y);
    return known;
}

/* A path that stops at unknown points and goes on after them. */
static void write_path(FILE *file, const char *line_class, const char *colour, const point *points, int64_t count,
                       const dcpar_axis *x, const dcpar_axis *y) {
    if (count_losses(points, count) == 0) return;
    fprintf(file, "<path class=\"%s %s\" d=\"", line_class, colour);
    bool drawing = false;
    for (int64_t i = 0; i < count; ++i) {
        if (isnan(points[i].y)) {
            drawing = false;
            continue;
        }
        fputc(drawing ? 'L' : 'M', file);
        dcpar_svg_number(file, dcpar_axis_place(x, points[i].x));
        fputc(' ', file);
        dcpar_svg_number(file, dcpar_axis_place(y, points[i].y));
        drawing = true;
    }
    fputs("\" />\n", file);
}

static void write_axes(FILE *file, const dcpar_axis *x, const dcpar_axis *y, const char *x_name) {
    char text[DCPAR_UNIT_TEXT];
    const double base = height - bottom;
    for (int i = 0; i < dcpar_axis_ticks(y); ++i) {
        const double at = dcpar_axis_place(y, dcpar_axis_tick(y, i, text));
        dcpar_svg_line(file, "grid", left, at, width - right, at);
        dcpar_svg_text(file, "e", left - 7, at + 4, text);
    }
    for (int i = 0; i < dcpar_axis_ticks(x); ++i) {
        const double at = dcpar_axis_place(x, dcpar_axis_tick(x, i, text));
        dcpar_svg_line(file, "axis", at, base, at, base + 4);
        dcpar_svg_text(file, "m", at, base + 18, text);
    }
    dcpar_svg_line(file, "axis", left, base, width - right, base);
    dcpar_svg_text(file, "m", (left + width - right) / 2, height - 6, x_name);
}

const char *dcpar_chart_policy_class(const dcpar_report *report, int32_t policy) {
    static const char *const classes[policy_colours] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6"};
    const int32_t baseline = dcpar_report_baseline(report);
    if (policy == baseline) return "kb";
    return classes[(baseline >= 0 && policy > baseline ? policy - 1 : policy) % policy_colours];
}

static int64_t most_iterations(const dcpar_report *report) {
    int64_t most = 0;
    for (int32_t i = 0; i < report->policy_count; ++i)
        if (report->policies[i].count > most) most = report->policies[i].count;
    return most;
}

bool dcpar_chart_has_loss(const dcpar_report *report, dcpar_loss_over over) {
    for (int32_t i = 0; i < report->policy_count; ++i) {
        const dcpar_report_policy *policy = &report->policies[i];
        int64_t losses = 0;
        double last = 0;
        for (int64_t j = 0; j < policy->count; ++j) {
            losses += isfinite(policy->iterations[j].loss);
            last += amount(&policy->iterations[j], over);
        }
        if (losses > 1 && isfinite(last) && last > 0) return true;
    }
    return false;
}

/* What the drawn lines span. */
static void find_ranges(const dcpar_report *report, dcpar_loss_over over, point *points, range *x, range *y) {
    *x = (range){0, 0};
    *y = (range){INFINITY, -INFINITY};
    for (int32_t i = 0; i < report->policy_count; ++i) {
        const int64_t count = fill_points(&report->policies[i], over, points);
        const int64_t means = fill_means(points, count, count > 0 ? window_of(count) : 1, points);
        for (int64_t j = 0; j < means; ++j) {
            widen(x, points[j].x);
            if (!isnan(points[j].y)) widen(y, points[j].y);
        }
    }
    const double margin = y->to > y->from ? 0.04 * (y->to - y->from) : fmax(fabs(y->to) * 0.05, 1e-6);
    y->from -= margin;
    y->to += margin;
}

dcpar_status dcpar_chart_loss(FILE *file, const dcpar_report *report, dcpar_loss_over over, dcpar_error *error) {
    point *points = malloc((size_t)(2 * most_iterations(report) + 1) * sizeof *points);
    if (points == NULL) return dcpar_fail_memory(error, "a report");
    const bool tokens = over == DCPAR_LOSS_OVER_TOKENS;
    range xs, ys;
    find_ranges(report, over, points, &xs, &ys);
    const dcpar_axis_kind kind = tokens ? DCPAR_AXIS_COUNT : DCPAR_AXIS_SECONDS;
    const dcpar_axis x = dcpar_axis_make(kind, 0, xs.to, left, width - right, 6);
    const dcpar_axis y = dcpar_axis_make(DCPAR_AXIS_PLAIN, ys.from, ys.to, height - bottom, top, 5);
    dcpar_svg_begin(file, "narrow", width, height, tokens ? "Loss over tokens" : "Loss over time");
    write_axes(file, &x, &y, tokens ? "tokens seen" : "time");
    dcpar_svg_clip_begin(file, left, top, width - left - right, height - top - bottom);
    for (int32_t i = 0; i < report->policy_count; ++i) {
        const char *colour = dcpar_chart_policy_class(report, i);
        const int64_t count = fill_points(&report->policies[i], over, points);
        if (count == 0) continue;
        const int64_t window = window_of(count);
        if (window > 1 && count <= most_raw_points) write_path(file, "line raw", colour, points, count, &x, &y);
        point *means = points + count;
        write_path(file, "line", colour, means, fill_means(points, count, window, means), &x, &y);
    }
    dcpar_svg_end(file);
    dcpar_svg_end(file);
    free(points);
    return DCPAR_OK;
}
