#include "report/plan_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/units.h"

enum { columns = 88, most_timeline_ranks = 16 };

/* Micro-batches of one shape. */
typedef struct plan_shape {
    int64_t padded_length;
    int32_t sp, recompute;
    int64_t least_batch, most_batch, microbatches, sequences;
    double least_seconds, most_seconds, rank_seconds;
} plan_shape;

static int compare_integers(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Longest first, as the plan runs them. */
static int compare_shapes(const void *left, const void *right) {
    const plan_shape *a = left, *b = right;
    if (a->padded_length != b->padded_length) return compare_integers(b->padded_length, a->padded_length);
    if (a->sp != b->sp) return compare_integers(b->sp, a->sp);
    return compare_integers(b->recompute, a->recompute);
}

static plan_shape shape_of(const dcpar_microbatch *microbatch) {
    return (plan_shape){.padded_length = microbatch->padded_length,
                        .sp = microbatch->sp,
                        .recompute = microbatch->recompute,
                        .least_batch = microbatch->row_count,
                        .most_batch = microbatch->row_count,
                        .microbatches = 1,
                        .sequences = microbatch->row_count,
                        .least_seconds = microbatch->seconds,
                        .most_seconds = microbatch->seconds,
                        .rank_seconds = microbatch->sp * microbatch->seconds};
}

static void merge_shape(plan_shape *into, const plan_shape *one) {
    if (one->least_batch < into->least_batch) into->least_batch = one->least_batch;
    if (one->most_batch > into->most_batch) into->most_batch = one->most_batch;
    into->least_seconds = fmin(into->least_seconds, one->least_seconds);
    into->most_seconds = fmax(into->most_seconds, one->most_seconds);
    into->microbatches += one->microbatches;
    into->sequences += one->sequences;
    into->rank_seconds += one->rank_seconds;
}

/* Sorts one shape per micro-batch and merges equal ones; returns how many are left. */
static int64_t merge_shapes(plan_shape *shapes, int64_t count) {
    qsort(shapes, (size_t)count, sizeof *shapes, compare_shapes);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (kept > 0 && compare_shapes(&shapes[kept - 1], &shapes[i]) == 0)
            merge_shape(&shapes[kept - 1], &shapes[i]);
        else
            shapes[kept++] = shapes[i];
    }
    return kept;
}

/* Prints right-aligned in `width` columns, whatever bytes the text needs. */
static void print_cell(FILE *file, const char *text, int width) {
    fprintf(file, "%*s%s", width - dcpar_text_columns(text), "", text);
}

/* "3", or "2-5" when the two differ. */
static const char *text_range(const char *least, const char *most, char text[2 * DCPAR_UNIT_TEXT]) {
    if (strcmp(least, most) == 0)
        snprintf(text, 2 * DCPAR_UNIT_TEXT, "%s", least);
    else
        snprintf(text, 2 * DCPAR_UNIT_TEXT, "%s - %s", least, most);
    return text;
}

static void print_shape(FILE *file, const plan_shape *shape, double rank_seconds) {
    char text[DCPAR_UNIT_TEXT], least[DCPAR_UNIT_TEXT], most[DCPAR_UNIT_TEXT], range[2 * DCPAR_UNIT_TEXT];
    print_cell(file, dcpar_text_integer(shape->padded_length, text), 11);
    print_cell(file, dcpar_text_integer(shape->sp, text), 6);
    print_cell(
        file,
        text_range(dcpar_text_integer(shape->least_batch, least), dcpar_text_integer(shape->most_batch, most), range),
        12);
    print_cell(file, dcpar_text_integer(shape->recompute, text), 12);
    print_cell(file, dcpar_text_integer(shape->microbatches, text), 9);
    print_cell(file, dcpar_text_integer(shape->sequences, text), 11);
    print_cell(file,
               text_range(dcpar_text_seconds(shape->least_seconds, least),
                          dcpar_text_seconds(shape->most_seconds, most), range),
               21);
    print_cell(file, dcpar_text_percent(shape->rank_seconds / rank_seconds, text), 11);
    fputc('\n', file);
}

static dcpar_status print_shapes(FILE *file, const dcpar_microbatch *microbatches, int64_t count, double rank_seconds,
                                 dcpar_error *error) {
    plan_shape *shapes = malloc((size_t)(count > 0 ? count : 1) * sizeof *shapes);
    if (shapes == NULL) return dcpar_fail_memory(error, "a plan's table");
    for (int64_t i = 0; i < count; ++i) shapes[i] = shape_of(&microbatches[i]);
    const int64_t kept = merge_shapes(shapes, count);
    fprintf(file, "\n%11s%6s%12s%12s%9s%11s%21s%11s\n", "length", "SP", "batch", "recomputed", "count", "sequences",
            "seconds each", "rank time");
    for (int64_t i = 0; i < kept; ++i) print_shape(file, &shapes[i], rank_seconds);
    free(shapes);
    return DCPAR_OK;
}

/* Draws "[== 4x8,192 ==]" into line[from, to), or "[4x8,192]" when it is tight, or no label. */
static void draw_box(char *line, int from, int to, const char *label) {
    if (to <= from) return;
    memset(line + from, '=', (size_t)(to - from));
    line[from] = '[';
    if (to - from > 1) line[to - 1] = ']';
    const int length = (int)strlen(label), room = to - from - 2 - length;
    if (length == 0 || room < 0) return;
    char *at = line + from + 1 + room / 2;
    memcpy(at, label, (size_t)length);
    if (room >= 2) at[-1] = at[length] = ' ';
}

static void print_rank(FILE *file, const dcpar_plan *plan, int32_t rank, double columns_per_second) {
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    const int64_t *queue = dcpar_plan_queue(plan, rank, &count);
    char line[columns + 1];
    memset(line, '.', columns);
    line[columns] = '\0';
    for (int64_t i = 0; i < count; ++i) {
        const dcpar_microbatch *microbatch = &microbatches[queue[i]];
        char length[DCPAR_UNIT_TEXT], label[2 * DCPAR_UNIT_TEXT] = "";
        if (microbatch->first_rank == rank)
            snprintf(label, sizeof label, "%lldx%s", (long long)microbatch->row_count,
                     dcpar_text_integer(microbatch->padded_length, length));
        const double end = (microbatch->start + microbatch->seconds) * columns_per_second;
        draw_box(line, (int)floor(microbatch->start * columns_per_second + 0.5), (int)fmin(floor(end + 0.5), columns),
                 label);
    }
    fprintf(file, "  rank %2d  %s\n", rank, line);
}

static void print_timeline(FILE *file, const dcpar_plan *plan, int32_t world, double seconds) {
    char text[DCPAR_UNIT_TEXT];
    fprintf(file, "\n  %*s0", 8, "");
    print_cell(file, dcpar_text_seconds(seconds, text), columns - 1);
    fputc('\n', file);
    for (int32_t rank = 0; rank < world; ++rank) print_rank(file, plan, rank, columns / seconds);
    fprintf(file, "  %*seach box: batch x padded length, on all ranks of its group; dots: idle\n", 8, "");
}

static void print_line(FILE *file, const char *name, const char *value) {
    fprintf(file, "  %-13s", name);
    print_cell(file, value, 10);
}

static void print_figures(FILE *file, const dcpar_metrics *metrics) {
    char text[DCPAR_UNIT_TEXT];
    print_line(file, "predicted", dcpar_text_seconds(metrics->seconds, text));
    fprintf(file, "   lower bound %s", dcpar_text_seconds(metrics->lower_bound, text));
    if (metrics->lower_bound > 0)
        fprintf(file, ": %s above it", dcpar_text_percent(metrics->seconds / metrics->lower_bound - 1, text));
    fputc('\n', file);
    print_line(file, "tokens/s", dcpar_text_count(metrics->throughput, text));
    fputc('\n', file);
    print_line(file, "idle", dcpar_text_percent(metrics->idle_ratio, text));
    fputc('\n', file);
    print_line(file, "padding", dcpar_text_percent(metrics->padding_ratio, text));
    fputc('\n', file);
    print_line(file, "peak memory", dcpar_text_bytes(metrics->peak_bytes, text));
    fputs("   a rank\n", file);
}

static dcpar_status check_written(FILE *file, const char *what, dcpar_error *error) {
    if (fflush(file) != 0 || ferror(file)) return dcpar_fail(error, DCPAR_IO, "%s could not be written", what);
    return DCPAR_OK;
}

dcpar_status dcpar_plan_print(FILE *file, const dcpar_plan *plan, int32_t world, dcpar_error *error) {
    const dcpar_metrics metrics = dcpar_plan_metrics(plan);
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    char tokens[DCPAR_UNIT_TEXT], sequences[DCPAR_UNIT_TEXT], pieces[DCPAR_UNIT_TEXT];
    fprintf(file, "iteration %lld: %s tokens in %s sequences, %s micro-batches on %d ranks\n",
            (long long)dcpar_plan_iteration(plan), dcpar_text_integer(metrics.tokens, tokens),
            dcpar_text_integer(metrics.sequences, sequences), dcpar_text_integer(count, pieces), world);
    print_figures(file, &metrics);
    DCPAR_TRY(print_shapes(file, microbatches, count, metrics.seconds * world, error));
    if (world <= most_timeline_ranks && metrics.seconds > 0) print_timeline(file, plan, world, metrics.seconds);
    return check_written(file, "the plan", error);
}

void dcpar_print_if_all_equal(FILE *file, const int64_t *lengths, int64_t count) {
    int64_t shortest = INT64_MAX, longest = 0;
    char text[DCPAR_UNIT_TEXT];
    for (int64_t i = 0; i < count; ++i) {
        if (lengths[i] == 0) continue;
        if (lengths[i] < shortest) shortest = lengths[i];
        if (lengths[i] > longest) longest = lengths[i];
    }
    if (shortest == longest)
        fprintf(file,
                "All sequences have a length of %s: there is nothing to gain from treating lengths differently.\n",
                dcpar_text_integer(longest, text));
}

dcpar_status dcpar_summary_print(FILE *file, const dcpar_epoch_summary *summary, dcpar_error *error) {
    char used[DCPAR_UNIT_TEXT], dropped[DCPAR_UNIT_TEXT], total[DCPAR_UNIT_TEXT], number[DCPAR_UNIT_TEXT];
    fprintf(file, "epoch %lld: %s iterations, used %s + dropped %s = total %s sequences", (long long)summary->epoch,
            dcpar_text_integer(summary->iterations, number), dcpar_text_integer(summary->used, used),
            dcpar_text_integer(summary->dropped, dropped), dcpar_text_integer(summary->total, total));
    const char *separator = " (";
    if (summary->dropped_empty != 0) {
        fprintf(file, "%sempty: %s", separator, dcpar_text_integer(summary->dropped_empty, number));
        separator = ", ";
    }
    if (summary->dropped_too_long != 0) {
        fprintf(file, "%stoo long: %s", separator, dcpar_text_integer(summary->dropped_too_long, number));
        separator = ", ";
    }
    fputs(separator[0] == ',' ? ")\n" : "\n", file);
    return check_written(file, "the summary", error);
}
