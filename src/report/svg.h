/* Small pieces that every picture of the report is made of: shapes, and axes with round ticks. */
#ifndef DCPAR_REPORT_SVG_H
#define DCPAR_REPORT_SVG_H

#include <stdio.h>

#include "report/units.h"

/* A picture of width x height units that fills its column: the open <svg>, with a text for those who cannot see it. */
void dcpar_svg_begin(FILE *file, const char *class_name, double width, double height, const char *label);
void dcpar_svg_end(FILE *file);

/* A part of the picture outside which nothing is drawn; coordinates stay the same. dcpar_svg_end closes it. */
void dcpar_svg_clip_begin(FILE *file, double x, double y, double width, double height);

/* A coordinate: two digits after the point at most, in every locale. */
void dcpar_svg_number(FILE *file, double value);

/* An open <rect> (its title may follow) and one that is closed. */
void dcpar_svg_rect_begin(FILE *file, const char *class_name, double x, double y, double width, double height);
void dcpar_svg_rect(FILE *file, const char *class_name, double x, double y, double width, double height);
void dcpar_svg_line(FILE *file, const char *class_name, double x0, double y0, double x1, double y1);
void dcpar_svg_text(FILE *file, const char *class_name, double x, double y, const char *text);
void dcpar_svg_text_upwards(FILE *file, const char *class_name, double x, double y, const char *text);

/* A linear axis: values from..to on pixels begin..end, ticks at multiples of `step` in units of `scale`. */
typedef struct dcpar_axis {
    double from, to, begin, end, scale, step;
    int digits;
    const char *unit; /* "ms", "k"; "" without */
} dcpar_axis;

typedef enum dcpar_axis_kind { DCPAR_AXIS_PLAIN, DCPAR_AXIS_SECONDS, DCPAR_AXIS_COUNT } dcpar_axis_kind;

/* About `ticks` ticks. from < to, both finite. */
dcpar_axis dcpar_axis_make(dcpar_axis_kind kind, double from, double to, double begin, double end, int ticks);
double dcpar_axis_place(const dcpar_axis *axis, double value);

/* How many ticks there are, and the i-th with its text. */
int dcpar_axis_ticks(const dcpar_axis *axis);
double dcpar_axis_tick(const dcpar_axis *axis, int i, char text[DCPAR_UNIT_TEXT]);

#endif
