/* How long the dataset's sequences are: shares of sequences and of tokens, on a logarithmic axis. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/charts.h"
#include "report/svg.h"

static const double width = 1072, height = 270, left = 52, right = 14, top = 12, bottom = 44;
enum { most_bins = 96 };

/* Bin i holds lengths from least * factor^i on, below the next one's. */
typedef struct bins {
    double least, factor;
    int count;
    double sequences[most_bins], tokens[most_bins]; /* shares */
} bins;

static int compare_lengths(const void *left_length, const void *right_length) {
    const int64_t a = *(const int64_t *)left_length, b = *(const int64_t *)right_length;
    return (a > b) - (a < b);
}

/* The lengths above 0, sorted; freed by the caller. */
static int64_t *sorted_lengths(const dcpar_report *report, int64_t *count) {
    int64_t *sorted = malloc((size_t)(report->length_count + 1) * sizeof *sorted);
    *count = 0;
    for (int64_t i = 0; sorted != NULL && i < report->length_count; ++i)
        if (report->lengths[i] > 0) sorted[(*count)++] = report->lengths[i];
    if (sorted != NULL) qsort(sorted, (size_t)*count, sizeof *sorted, compare_lengths);
    return sorted;
}

static dcpar_length_facts facts_of(const int64_t *sorted, int64_t count, int64_t all) {
    dcpar_length_facts facts = {.count = count, .empty = all - count};
    if (count == 0) return facts;
    const int64_t last = count - 1;
    const int64_t longest = (count + 99) / 100;
    int64_t held = 0;
    for (int64_t i = 0; i < count; ++i) {
        facts.tokens += sorted[i];
        if (i >= count - longest) held += sorted[i];
    }
    facts.shortest = sorted[0];
    facts.median = sorted[last / 2];
    facts.percentile_99 = sorted[(int64_t)floor(0.99 * (double)last)];
    facts.longest = sorted[last];
    facts.longest_share = (double)held / (double)facts.tokens;
    return facts;
}

/* Steps of a power of two to the 1/4 when lengths are close together, else to the 1/2 or 1. */
static void fill_bins(const int64_t *sorted, const dcpar_length_facts *facts, bins *bins) {
    const double octaves = log2((double)facts->longest / (double)facts->shortest);
    const double per_octave = octaves <= 8 ? 4 : octaves <= 20 ? 2 : 1;
    const double first = floor(per_octave * log2((double)facts->shortest));
    memset(bins, 0, sizeof *bins);
    bins->least = exp2(first / per_octave);
    bins->factor = exp2(1 / per_octave);
    for (int64_t i = 0; i < facts->count; ++i) {
        const int bin = (int)(floor(per_octave * log2((double)sorted[i])) - first);
        bins->sequences[bin] += 1 / (double)facts->count;
        bins->tokens[bin] += (double)sorted[i] / (double)facts->tokens;
        bins->count = bin + 1;
    }
}

static double highest_share(const bins *bins) {
    double highest = 0;
    for (int i = 0; i < bins->count; ++i) highest = fmax(highest, fmax(bins->sequences[i], bins->tokens[i]));
    return highest;
}

static double place_length(const bins *bins, double length) {
    return left + (width - left - right) * log(length / bins->least) / log(bins->factor) / bins->count;
}

/* Ticks at 1, 2 and 5 times powers of ten, named when there is room. */
static void write_length_axis(FILE *file, const bins *bins) {
    static const double leads[] = {1, 2, 5};
    char text[DCPAR_UNIT_TEXT];
    const double base = height - bottom, end = bins->least * pow(bins->factor, bins->count) * 1.0001;
    const bool roomy = place_length(bins, 2 * bins->least) - left > 40;
    for (double power = 1; power <= end; power *= 10)
        for (int i = 0; i < 3; ++i) {
            const double length = power * leads[i];
            if (length < bins->least * 0.9999 || length > end) continue;
            const double at = place_length(bins, length);
            dcpar_svg_line(file, "axis", at, base, at, base + (i == 0 ? 6 : 4));
            if (roomy || i == 0) dcpar_svg_text(file, "m", at, base + 19, dcpar_text_integer((int64_t)length, text));
        }
    dcpar_svg_line(file, "axis", left, base, width - right, base);
    dcpar_svg_text(file, "m", (left + width - right) / 2, height - 6, "length in tokens (logarithmic)");
}

static void write_bar(FILE *file, const char *class_name, const char *what, double share, double from, double to,
                      const dcpar_axis *y, const char *lengths) {
    if (share <= 0) return;
    char percent[DCPAR_UNIT_TEXT];
    const double at = dcpar_axis_place(y, share);
    dcpar_svg_rect_begin(file, class_name, from, at, to - from, y->begin - at);
    fprintf(file, "<title>%s tokens: %s of all %s</title></rect>\n", lengths, dcpar_text_percent(share, percent), what);
}

static void write_bars(FILE *file, const bins *bins, const dcpar_axis *y) {
    const double bin_width = (width - left - right) / bins->count;
    for (int i = 0; i < bins->count; ++i) {
        char from[DCPAR_UNIT_TEXT], to[DCPAR_UNIT_TEXT], lengths[2 * DCPAR_UNIT_TEXT + 8];
        const double least = bins->least * pow(bins->factor, i);
        dcpar_text_integer((int64_t)ceil(least - 1e-6), from);
        dcpar_text_integer((int64_t)ceil(least * bins->factor - 1e-6) - 1, to);
        snprintf(lengths, sizeof lengths, "%s to %s", from, to);
        const double start = left + i * bin_width, gap = fmin(2, bin_width / 10);
        const double middle = start + bin_width / 2;
        write_bar(file, "h0", "sequences", bins->sequences[i], start + gap, middle, y, lengths);
        write_bar(file, "h1", "tokens", bins->tokens[i], middle, start + bin_width - gap, y, lengths);
    }
}

static void write_histogram(FILE *file, const bins *bins) {
    const double highest = highest_share(bins);
    const dcpar_axis y = dcpar_axis_make(DCPAR_AXIS_PLAIN, 0, highest * 1.04, height - bottom, top, 4);
    dcpar_svg_begin(file, "broad", width, height, "Histogram of sequence lengths");
    for (int i = 0; i < dcpar_axis_ticks(&y); ++i) {
        char text[DCPAR_UNIT_TEXT];
        const double share = dcpar_axis_tick(&y, i, text), at = dcpar_axis_place(&y, share);
        dcpar_svg_line(file, "grid", left, at, width - right, at);
        dcpar_text_fixed(share * 100, y.digits > 2 ? y.digits - 2 : 0, text);
        dcpar_svg_text(file, "e", left - 7, at + 4, strcat(text, " %"));
    }
    write_bars(file, bins, &y);
    write_length_axis(file, bins);
    dcpar_svg_end(file);
}

dcpar_status dcpar_chart_lengths(FILE *file, const dcpar_report *report, dcpar_length_facts *facts,
                                 dcpar_error *error) {
    int64_t count;
    int64_t *sorted = sorted_lengths(report, &count);
    if (sorted == NULL) return dcpar_fail_memory(error, "a report");
    *facts = facts_of(sorted, count, report->length_count);
    if (count > 0) {
        bins bins;
        fill_bins(sorted, facts, &bins);
        write_histogram(file, &bins);
    }
    free(sorted);
    return DCPAR_OK;
}
