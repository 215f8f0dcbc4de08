/* A made-up run for tests of the report: several policies on any number of ranks, with noise on what was measured. */
#ifndef DCPAR_REPORT_EXAMPLE_H
#define DCPAR_REPORT_EXAMPLE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "report/report.h"

enum { example_policies = 4, example_timelines = 2, example_lengths = 20000, example_boxes = 1 << 14 };

typedef struct report_example {
    dcpar_report report;
    dcpar_report_policy policies[example_policies];
    dcpar_report_timeline timelines[example_policies * example_timelines];
    dcpar_report_iteration *iterations;
    dcpar_report_box *boxes;
    int64_t *lengths;
    double *free_at; /* [world] */
} report_example;

static inline int64_t example_length(uint64_t seed, int64_t row) {
    const double u = dcpar_random_unit(seed, 1, (uint64_t)row), v = dcpar_random_unit(seed, 2, (uint64_t)row);
    const double normal = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
    const double length = exp(6.3 + 1.15 * normal);
    return length < 16 ? 16 : length > 32768 ? 32768 : (int64_t)length;
}

/* The start of a block of `sp` ranks that is free soonest. */
static inline int32_t example_block(const double *free_at, int32_t world, int32_t sp, double *start) {
    int32_t best = 0;
    *start = INFINITY;
    for (int32_t first = 0; first + sp <= world; first += sp) {
        double from = 0;
        for (int32_t i = 0; i < sp; ++i) from = fmax(from, free_at[first + i]);
        if (from < *start) {
            *start = from;
            best = first;
        }
    }
    return best;
}

static inline int example_wider_first(const void *left, const void *right) {
    const dcpar_report_box *a = left, *b = right;
    if (a->sp != b->sp) return (b->sp > a->sp) - (b->sp < a->sp);
    return (b->planned_seconds > a->planned_seconds) - (b->planned_seconds < a->planned_seconds);
}

/* `quality` 0: one wide SP size in random order; 3: sizes by length, widest first. */
static inline int64_t example_plan(report_example *example, dcpar_report_box *boxes, int quality, uint64_t seed) {
    const int32_t world = example->report.world;
    int64_t count = 0, tokens = 0;
    const int64_t wanted = (int64_t)world * 24000;
    for (int64_t row = 0; tokens < wanted && count < example_boxes / 8; ++row) {
        dcpar_report_box *box = &boxes[count++];
        int64_t padded = 256;
        const int64_t length = example_length(seed, row);
        while (padded < length) padded *= 2;
        int32_t sp = 1;
        while (sp * 2 <= world && sp * 4096 < padded) sp *= 2;
        if (quality == 0)
            while (sp * 2 <= world && sp < 4) sp *= 2;
        if (quality == 1)
            while (sp * 2 <= world && sp < 2) sp *= 2;
        const int64_t batch = padded >= 4096 ? 1 : 4096 / padded;
        const double filled = 0.8 + 0.2 * dcpar_random_unit(seed, 3, (uint64_t)row);
        const double work = (double)(padded * batch) * (1 + (double)padded / 24000);
        *box = (dcpar_report_box){.sp = sp,
                                  .recompute = padded > 8192   ? 6
                                               : padded > 4096 ? 2
                                                               : 0,
                                  .padded_length = padded,
                                  .sequences = batch,
                                  .tokens = (int64_t)((double)(padded * batch) * filled)};
        box->planned_seconds = work / 30000 / sp * (1 + 0.12 * log2(sp)) + 0.01;
        tokens += box->tokens;
    }
    if (quality >= 2) qsort(boxes, (size_t)count, sizeof *boxes, example_wider_first);
    return count;
}

/* Starts, planned or measured; returns the last end. */
static inline double example_place(report_example *example, dcpar_report_box *boxes, int64_t count, bool measured) {
    const int32_t world = example->report.world;
    memset(example->free_at, 0, (size_t)world * sizeof *example->free_at);
    double end = 0;
    for (int64_t i = 0; i < count; ++i) {
        dcpar_report_box *box = &boxes[i];
        double start = 0;
        if (!measured) box->first_rank = example_block(example->free_at, world, box->sp, &start);
        for (int32_t j = 0; j < box->sp; ++j) start = fmax(start, example->free_at[box->first_rank + j]);
        const double seconds = measured ? box->measured_seconds : box->planned_seconds;
        if (measured)
            box->measured_start = start;
        else
            box->planned_start = start;
        for (int32_t j = 0; j < box->sp; ++j) example->free_at[box->first_rank + j] = start + seconds;
        end = fmax(end, start + seconds);
    }
    return end;
}

static inline void example_fill_timeline(report_example *example, dcpar_report_timeline *timeline,
                                         dcpar_report_box *boxes, int quality, int64_t iteration, uint64_t seed) {
    const int64_t count = example_plan(example, boxes, quality, seed);
    *timeline = (dcpar_report_timeline){.iteration = iteration,
                                        .boxes = boxes,
                                        .count = count,
                                        .planned_step_seconds = 0.06,
                                        .measured_step_seconds = 0.07};
    timeline->planned_seconds = example_place(example, boxes, count, false);
    for (int64_t i = 0; i < count; ++i)
        boxes[i].measured_seconds = boxes[i].planned_seconds * (0.97 + 0.09 * dcpar_random_unit(seed, 4, (uint64_t)i));
    timeline->measured_seconds = example_place(example, boxes, count, true);
}

static inline void example_fill_iterations(report_example *example, int policy, int64_t count, uint64_t seed) {
    static const double seconds[] = {2.4, 1.8, 1.3, 1.05}, idle[] = {0.31, 0.19, 0.08, 0.012};
    dcpar_report_iteration *iterations = example->iterations + policy * count;
    for (int64_t i = 0; i < count; ++i) {
        const double noise = dcpar_random_unit(seed, 10 + (uint64_t)policy, (uint64_t)i) - 0.5;
        const double wide = dcpar_random_unit(seed, 20 + (uint64_t)policy, (uint64_t)i) - 0.5;
        iterations[i] = (dcpar_report_iteration){.iteration = i,
                                                 .tokens = (int64_t)((1 + 0.2 * wide) * 24000 * example->report.world),
                                                 .loss = 2.1 + 7 * exp(-(double)i / ((double)count / 4)) + 0.5 * noise,
                                                 .seconds = seconds[policy] * (1 + 0.2 * wide + 0.05 * noise),
                                                 .predicted_seconds = seconds[policy] * (1 + 0.2 * wide),
                                                 .idle_ratio = idle[policy] + 0.01 * noise,
                                                 .predicted_idle_ratio = idle[policy] * 0.9,
                                                 .gradient_norm = 1 + noise,
                                                 .learning_rate = 3e-4,
                                                 .peak_bytes = (INT64_C(37) << 27) + policy * (1 << 28),
                                                 .predicted_peak_bytes = INT64_C(39) << 27};
    }
    example->policies[policy].iterations = iterations;
    example->policies[policy].count = count;
}

/* Freed with example_destroy. */
static inline report_example *example_create(int32_t world, int64_t iterations, uint64_t seed) {
    static const char *const names[][2] = {
        {"bucket", "one SP size for every length; batches fill the memory"},
        {"packed", "sequences packed up to the memory's limit"},
        {"intra", "SP size, batch and recomputed layers by length, with balanced accumulation"},
        {"buddy", "widest first on the block that is free soonest; short sequences fill the gaps"}};
    static const dcpar_report_fact facts[] = {
        {"command", "dcpar compare --data wikipedia.txt --model tiny --ranks 8 --policies bucket,packed,intra,buddy"},
        {"model", "decoder, 8 layers, hidden 512, 8 heads, 25.2 M parameters"},
        {"device", "2 cores of an x86-64 processor with AVX2, 15.6 GiB"},
        {"memory", "5 GiB a rank"},
        {"seed", "1234"}};
    report_example *example = calloc(1, sizeof *example);
    example->iterations = calloc((size_t)(example_policies * iterations), sizeof *example->iterations);
    example->boxes = calloc(example_boxes, sizeof *example->boxes);
    example->lengths = calloc(example_lengths, sizeof *example->lengths);
    example->free_at = calloc((size_t)world, sizeof *example->free_at);
    example->report = (dcpar_report){.title = "Four policies on a small decoder",
                                     .facts = facts,
                                     .fact_count = 5,
                                     .lengths = example->lengths,
                                     .length_count = example_lengths,
                                     .world = world,
                                     .policies = example->policies,
                                     .policy_count = example_policies};
    for (int64_t i = 0; i < example_lengths; ++i) example->lengths[i] = i % 997 == 0 ? 0 : example_length(seed, i);
    for (int i = 0; i < example_policies; ++i) {
        example->policies[i] = (dcpar_report_policy){.name = names[i][0],
                                                     .summary = names[i][1],
                                                     .timelines = example->timelines + i * example_timelines,
                                                     .timeline_count = example_timelines};
        example_fill_iterations(example, i, iterations, seed);
        for (int j = 0; j < example_timelines; ++j) {
            const int place = i * example_timelines + j;
            example_fill_timeline(example, &example->timelines[place], example->boxes + place * (example_boxes / 8), i,
                                  j * 10 + 3, seed + (uint64_t)(100 * j));
        }
    }
    return example;
}

static inline void example_destroy(report_example *example) {
    free(example->iterations);
    free(example->boxes);
    free(example->lengths);
    free(example->free_at);
    free(example);
}

#endif
