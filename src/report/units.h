/* Numbers as people read them. Each function writes at most DCPAR_UNIT_TEXT bytes into `text` and returns it. The
 * decimal point is a point in every locale. NaN and infinities become an en dash. */
#ifndef DCPAR_REPORT_UNITS_H
#define DCPAR_REPORT_UNITS_H

#include "dcpar.h"

#define DCPAR_UNIT_TEXT 48

/* "512 B", "1.50 GiB": three significant digits, binary units. */
const char *dcpar_text_bytes(int64_t bytes, char text[DCPAR_UNIT_TEXT]);

/* "950", "12.3 k", "1.20 M": three significant digits from 1,000 on. */
const char *dcpar_text_count(double count, char text[DCPAR_UNIT_TEXT]);

/* "12,345,678": every digit. */
const char *dcpar_text_integer(int64_t value, char text[DCPAR_UNIT_TEXT]);

/* "3.40 ms", "12.0 s", "5 min 20 s", "2 h 05 min", "3 d 04 h". */
const char *dcpar_text_seconds(double seconds, char text[DCPAR_UNIT_TEXT]);

/* A ratio of 0.0123 as "1.2 %". */
const char *dcpar_text_percent(double ratio, char text[DCPAR_UNIT_TEXT]);

/* With `digits` digits after the point: "1.250". */
const char *dcpar_text_fixed(double value, int digits, char text[DCPAR_UNIT_TEXT]);

/* The fewest digits that read back as the same double (JSON's form); "null" for what JSON has no word for. */
const char *dcpar_text_exact(double value, char text[DCPAR_UNIT_TEXT]);

/* How many columns UTF-8 text takes on a terminal (each code point one). */
int dcpar_text_columns(const char *text);

#endif
