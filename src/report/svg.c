#include "report/svg.h"

#include <math.h>
#include <string.h>

#include "report/html.h"

void dcpar_svg_number(FILE *file, double value) {
    const long long hundredths = llround(value * 100);
    const long long size = hundredths < 0 ? -hundredths : hundredths;
    fprintf(file, hundredths < 0 ? "-%lld" : "%lld", size / 100);
    if (size % 10 != 0)
        fprintf(file, ".%02lld", size % 100);
    else if (size % 100 != 0)
        fprintf(file, ".%lld", size % 100 / 10);
}

static void attribute(FILE *file, const char *name, double value) {
    fprintf(file, " %s=\"", name);
    dcpar_svg_number(file, value);
    fputc('"', file);
}

static void open_shape(FILE *file, const char *element, const char *class_name) {
    fprintf(file, "<%s class=\"%s\"", element, class_name);
}

void dcpar_svg_begin(FILE *file, const char *class_name, double width, double height, const char *label) {
    fprintf(file, "<svg class=\"chart %s\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 ",
            class_name);
    dcpar_svg_number(file, width);
    fputc(' ', file);
    dcpar_svg_number(file, height);
    fputs("\" aria-label=\"", file);
    dcpar_html_text(file, label);
    fputs("\">\n", file);
}

void dcpar_svg_clip_begin(FILE *file, double x, double y, double width, double height) {
    fputs("<svg overflow=\"hidden\"", file);
    attribute(file, "x", x);
    attribute(file, "y", y);
    attribute(file, "width", width);
    attribute(file, "height", height);
    fputs(" viewBox=\"", file);
    const double corners[] = {x, y, width, height};
    for (int i = 0; i < 4; ++i) {
        if (i > 0) fputc(' ', file);
        dcpar_svg_number(file, corners[i]);
    }
    fputs("\">\n", file);
}

void dcpar_svg_end(FILE *file) { fputs("</svg>\n", file); }

void dcpar_svg_rect_begin(FILE *file, const char *class_name, double x, double y, double width, double height) {
    open_shape(file, "rect", class_name);
    attribute(file, "x", x);
    attribute(file, "y", y);
    attribute(file, "width", width);
    attribute(file, "height", height);
    fputc('>', file);
}

void dcpar_svg_rect(FILE *file, const char *class_name, double x, double y, double width, double height) {
    dcpar_svg_rect_begin(file, class_name, x, y, width, height);
    fputs("</rect>\n", file);
}

void dcpar_svg_line(FILE *file, const char *class_name, double x0, double y0, double x1, double y1) {
    open_shape(file, "line", class_name);
    attribute(file, "x1", x0);
    attribute(file, "y1", y0);
    attribute(file, "x2", x1);
    attribute(file, "y2", y1);
    fputs(" />\n", file);
}

void dcpar_svg_text(FILE *file, const char *class_name, double x, double y, const char *text) {
    open_shape(file, "text", class_name);
    attribute(file, "x", x);
    attribute(file, "y", y);
    fputc('>', file);
    dcpar_html_text(file, text);
    fputs("</text>\n", file);
}

void dcpar_svg_text_upwards(FILE *file, const char *class_name, double x, double y, const char *text) {
    open_shape(file, "text", class_name);
    fputs(" transform=\"translate(", file);
    dcpar_svg_number(file, x);
    fputc(' ', file);
    dcpar_svg_number(file, y);
    fputs(") rotate(-90)\">", file);
    dcpar_html_text(file, text);
    fputs("</text>\n", file);
}

typedef struct axis_unit {
    double scale;
    const char *name;
    double from; /* used when the largest value is this many units: 2 minutes are better read as 120 seconds */
} axis_unit;

/* The largest unit that `largest` has enough of. */
static axis_unit unit_for(dcpar_axis_kind kind, double largest) {
    static const axis_unit plain[] = {{1, "", 0}},
                           count[] = {{1, "", 0}, {1e3, "k", 1}, {1e6, "M", 1}, {1e9, "G", 1}, {1e12, "T", 1}},
                           seconds[] = {{1e-9, "ns", 0}, {1e-6, "\xc2\xb5s", 1}, {1e-3, "ms", 1},
                                        {1, "s", 1},     {60, "min", 3},         {3600, "h", 3}};
    static const struct {
        const axis_unit *units;
        int count;
    } kinds[] = {[DCPAR_AXIS_PLAIN] = {plain, 1}, [DCPAR_AXIS_SECONDS] = {seconds, 6}, [DCPAR_AXIS_COUNT] = {count, 5}};
    int best = 0;
    for (int i = 0; i < kinds[kind].count; ++i)
        if (kinds[kind].units[i].scale * kinds[kind].units[i].from <= largest) best = i;
    return kinds[kind].units[best];
}

dcpar_axis dcpar_axis_make(dcpar_axis_kind kind, double from, double to, double begin, double end, int ticks) {
    const axis_unit unit = unit_for(kind, fmax(fabs(from), fabs(to)));
    const double wanted = (to - from) / unit.scale / ticks;
    const double power = pow(10, floor(log10(wanted)));
    const double lead = wanted / power;
    const double step = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
    const double digits = -floor(log10(step) + 1e-9);
    return (dcpar_axis){.from = from,
                        .to = to,
                        .begin = begin,
                        .end = end,
                        .scale = unit.scale,
                        .step = step,
                        .digits = digits > 0 ? (int)fmin(digits, 12) : 0,
                        .unit = unit.name};
}

double dcpar_axis_place(const dcpar_axis *axis, double value) {
    return axis->begin + (axis->end - axis->begin) * (value - axis->from) / (axis->to - axis->from);
}

static double first_tick(const dcpar_axis *axis) { return ceil(axis->from / axis->scale / axis->step - 1e-6); }

int dcpar_axis_ticks(const dcpar_axis *axis) {
    return (int)(floor(axis->to / axis->scale / axis->step + 1e-6) - first_tick(axis)) + 1;
}

double dcpar_axis_tick(const dcpar_axis *axis, int i, char text[DCPAR_UNIT_TEXT]) {
    const double tick = (first_tick(axis) + i) * axis->step;
    dcpar_text_fixed(tick, tick != 0 ? axis->digits : 0, text);
    if (tick != 0 && axis->unit[0] != '\0') strcat(strcat(text, " "), axis->unit);
    return tick * axis->scale;
}
