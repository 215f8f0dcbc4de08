/* The report of a run: one HTML file that needs nothing else, and the same result as a table for the terminal.
 *
 * The caller fills plain structs. A number that is not known is NAN (seconds, ratios, loss) or 0 (bytes); it is left
 * out or shown as a dash. Strings are UTF-8 and may hold any character. Nothing is kept after a call. Everything here
 * is local. The same input gives the same bytes: there is no date unless the facts hold one. */
#ifndef DCPAR_REPORT_REPORT_H
#define DCPAR_REPORT_REPORT_H

#include <stdio.h>

#include "dcpar.h"

/* One micro-batch in a timeline. Times are seconds from the iteration's start; measured ones those of the group's
 * slowest rank, NAN when nothing was measured. */
typedef struct dcpar_report_box {
    int32_t first_rank, sp; /* ranks first_rank .. first_rank + sp - 1 */
    int32_t recompute;      /* layers */
    int64_t padded_length, sequences, tokens;
    double planned_start, planned_seconds;
    double measured_start, measured_seconds;
} dcpar_report_box;

/* One iteration as boxes. The seconds end where the last rank finishes its micro-batches and all meet for the
 * optimizer step; the step's own seconds follow (NAN or 0: not shown). */
typedef struct dcpar_report_timeline {
    int64_t iteration;
    double planned_seconds, measured_seconds;
    double planned_step_seconds, measured_step_seconds;
    const dcpar_report_box *boxes;
    int64_t count;
} dcpar_report_timeline;

/* One iteration as numbers. `seconds` and `predicted_seconds` are those of the whole iteration, the optimizer step
 * included. */
typedef struct dcpar_report_iteration {
    int64_t iteration;
    int64_t tokens; /* of real sequences, padding not counted */
    double loss;
    double seconds, predicted_seconds;
    double idle_ratio, predicted_idle_ratio;
    double gradient_norm, learning_rate;
    int64_t peak_bytes, predicted_peak_bytes; /* of the rank that uses the most */
} dcpar_report_iteration;

typedef struct dcpar_report_policy {
    const char *name;
    const char *summary; /* one short sentence; NULL: none */
    const dcpar_report_iteration *iterations;
    int64_t count;
    const dcpar_report_timeline *timelines; /* a few */
    int32_t timeline_count;
} dcpar_report_policy;

/* What ran: command, model, device, seed, memory, ... */
typedef struct dcpar_report_fact {
    const char *key, *value;
} dcpar_report_fact;

typedef struct dcpar_report {
    const char *title;
    const dcpar_report_fact *facts;
    int32_t fact_count;
    const int64_t *lengths; /* of the dataset's sequences, 0 for empty ones; NULL: no histogram */
    int64_t length_count;
    int32_t world; /* ranks */
    const dcpar_report_policy *policies;
    int32_t policy_count;
} dcpar_report;

/* The policy that speedups are relative to; without it there is no speedup. */
#define DCPAR_REPORT_BASELINE "bucket"

/* Writes the HTML file. It replaces `path` atomically: on failure `path` is as it was and nothing else is left.
 * Refused: a world below 1; a box that leaves the world, naming its policy and iteration; a `path` that exists and is
 * no regular file. */
dcpar_status dcpar_report_write(const dcpar_report *report, const char *path, dcpar_error *error);

/* Prints one row per policy: tokens/s, speedup and idle measured and planned, an iteration's seconds, last loss.
 * Columns of which nothing is known are left out. DCPAR_IO when `file` cannot be written. */
dcpar_status dcpar_report_print_table(FILE *file, const dcpar_report *report, dcpar_error *error);

#endif
