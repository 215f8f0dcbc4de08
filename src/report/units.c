#include "report/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* printf writes the locale's decimal point, which may be any character: whatever belongs to no number becomes a '.'. */
static void plain_point(char *text) {
    char *to = text;
    bool in_point = false;
    for (const char *from = text; *from != '\0'; ++from) {
        const bool is_point = strchr("0123456789+-e", *from) == NULL;
        if (!is_point)
            *to++ = *from;
        else if (!in_point)
            *to++ = '.';
        in_point = is_point;
    }
    *to = '\0';
}

static const char *unknown(char text[DCPAR_UNIT_TEXT]) { return strcpy(text, "\xe2\x80\x93"); /* an en dash */ }

const char *dcpar_text_fixed(double value, int digits, char text[DCPAR_UNIT_TEXT]) {
    if (!isfinite(value)) return unknown(text);
    snprintf(text, DCPAR_UNIT_TEXT, fabs(value) < 1e15 ? "%.*f" : "%.*e", digits, value);
    plain_point(text);
    if (strspn(text, "-0.") == strlen(text) && text[0] == '-') memmove(text, text + 1, strlen(text));
    return text;
}

/* Three significant digits of a value below 1000, and its unit. */
static const char *three_digits(double value, const char *unit, char text[DCPAR_UNIT_TEXT]) {
    const double size = fabs(value);
    dcpar_text_fixed(value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, text);
    const size_t used = strlen(text);
    snprintf(text + used, DCPAR_UNIT_TEXT - used, "%s%s", *unit != '\0' ? " " : "", unit);
    return text;
}

/* The first unit in which `value` prints as less than 1000; each is `step` times the one before. */
static const char *in_units(double value, double step, const char *const *units, char text[DCPAR_UNIT_TEXT]) {
    while (fabs(value) >= 999.5 && units[1] != NULL) {
        value /= step;
        ++units;
    }
    return three_digits(value, *units, text);
}

const char *dcpar_text_bytes(int64_t bytes, char text[DCPAR_UNIT_TEXT]) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
    if (bytes > -1000 && bytes < 1000) {
        snprintf(text, DCPAR_UNIT_TEXT, "%d B", (int)bytes);
        return text;
    }
    return in_units((double)bytes / 1024, 1024, units, text);
}

const char *dcpar_text_count(double count, char text[DCPAR_UNIT_TEXT]) {
    static const char *const units[] = {"k", "M", "G", "T", "P", "E", NULL};
    if (!isfinite(count)) return unknown(text);
    if (fabs(count) >= 999.5) return in_units(count / 1000, 1000, units, text);
    return count == floor(count) ? dcpar_text_fixed(count, 0, text) : three_digits(count, "", text);
}

const char *dcpar_text_integer(int64_t value, char text[DCPAR_UNIT_TEXT]) {
    char digits[24];
    const uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    const int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)size);
    char *to = text;
    if (value < 0) *to++ = '-';
    for (int i = 0; i < count; ++i) {
        if (i > 0 && (count - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}

const char *dcpar_text_seconds(double seconds, char text[DCPAR_UNIT_TEXT]) {
    static const char *const units[] = {"ns", "\xc2\xb5s", "ms", NULL};
    if (!isfinite(seconds)) return unknown(text);
    if (seconds == 0) return strcpy(text, "0 s");
    const double size = fabs(seconds);
    if (size < 0.9995) return in_units(seconds * 1e9, 1000, units, text);
    if (size < 59.95) return three_digits(seconds, "s", text);
    if (size >= 1e15) return unknown(text);
    static const struct {
        int64_t large, small; /* seconds */
        const char *format;
    } pairs[] = {{60, 1, "%s%lld min %02lld s"}, {3600, 60, "%s%lld h %02lld min"}, {86400, 3600, "%s%lld d %02lld h"}};
    const int pair = size < 3599.5 ? 0 : size < 86370 ? 1 : 2;
    const int64_t small = (int64_t)floor(size / (double)pairs[pair].small + 0.5);
    const int64_t ratio = pairs[pair].large / pairs[pair].small;
    snprintf(text, DCPAR_UNIT_TEXT, pairs[pair].format, seconds < 0 ? "-" : "", (long long)(small / ratio),
             (long long)(small % ratio));
    return text;
}

const char *dcpar_text_percent(double ratio, char text[DCPAR_UNIT_TEXT]) {
    if (!isfinite(ratio)) return unknown(text);
    dcpar_text_fixed(ratio * 100, fabs(ratio) < 0.9995 ? 1 : 0, text);
    return strcat(text, " %");
}

const char *dcpar_text_exact(double value, char text[DCPAR_UNIT_TEXT]) {
    if (!isfinite(value)) return strcpy(text, "null");
    for (int digits = 15; digits <= 17; ++digits) {
        snprintf(text, DCPAR_UNIT_TEXT, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    plain_point(text);
    return text;
}

int dcpar_text_columns(const char *text) {
    int columns = 0;
    for (; *text != '\0'; ++text) columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}
