/* What the planner's tests share: random numbers that can be repeated, and profiles by formula. */
#ifndef DCPAR_PLAN_TESTING_H
#define DCPAR_PLAN_TESTING_H

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "testing.h"

typedef struct random_source {
    uint64_t seed, stream, counter;
} random_source;

/* Prints its seed. */
static inline random_source start_random(uint64_t seed) {
    print_message("seed %" PRIu64 "\n", seed);
    return (random_source){seed, 0, 0};
}

/* Uniform in low .. high, both included. */
static inline int64_t random_between(random_source *source, int64_t low, int64_t high) {
    return low + (int64_t)(dcpar_random(source->seed, source->stream, source->counter++) % (uint64_t)(high - low + 1));
}

static inline double random_real(random_source *source, double low, double high) {
    return low + (high - low) * dcpar_random_unit(source->seed, source->stream, source->counter++);
}

static inline double now(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The cost of a micro-batch of b sequences of l tokens on p ranks by formula: one layer's forward and backward take
 * b (square l + linear) l / p + exchange b l (1 - 1 / p) each, and keep layer_bytes b l / p. */
typedef struct cost_formula {
    double square, linear, exchange, constant_seconds;
    double layer_bytes, input_bytes; /* a token */
    int64_t constant_bytes, memory, max_length;
    int32_t layers, heads, kv_heads;
    int32_t most_batch;
} cost_formula;

static inline cost_formula simple_formula(void) {
    return (cost_formula){.square = 1e-9,
                          .linear = 1e-6,
                          .exchange = 1e-7,
                          .constant_seconds = 1e-3,
                          .layer_bytes = 10,
                          .input_bytes = 1,
                          .constant_bytes = 1000,
                          .memory = 1000 + 4 * 11 * 4096,
                          .layers = 4,
                          .most_batch = 64};
}

static inline dcpar_profile_row formula_row(const cost_formula *formula, int64_t length, int32_t sp, int32_t batch) {
    const double tokens = (double)batch * (double)length;
    const double seconds = tokens * (formula->square * (double)length + formula->linear) / sp +
                           formula->exchange * tokens * (1 - 1.0 / sp);
    return (dcpar_profile_row){.length = length,
                               .sp = sp,
                               .batch = batch,
                               .fits = true,
                               .forward = seconds,
                               .backward = 2 * seconds,
                               .constant_seconds = formula->constant_seconds,
                               .layer_bytes = (int64_t)(formula->layer_bytes * tokens / sp),
                               .input_bytes = (int64_t)(formula->input_bytes * tokens / sp),
                               .constant_bytes = formula->constant_bytes};
}

/* Measured at lengths 16, 32, .. 2^20 and batches 1, 2, 4, .. most_batch on each of the sizes. */
static inline dcpar_profile *profile_by_formula(const cost_formula *formula, const int32_t *sizes, int32_t size_count) {
    static dcpar_profile_row rows[64 * 32 * 16];
    int64_t count = 0;
    for (int32_t i = 0; i < size_count; ++i)
        for (int64_t length = 16; length <= INT64_C(1) << 20; length *= 2)
            for (int32_t batch = 1; batch <= formula->most_batch; batch *= 2)
                rows[count++] = formula_row(formula, length, sizes[i], batch);
    const dcpar_profile_info info = {.model = "formula",
                                     .device = "none",
                                     .method = "ulysses",
                                     .version = "1",
                                     .layers = formula->layers,
                                     .heads = formula->heads,
                                     .kv_heads = formula->kv_heads,
                                     .memory = formula->memory,
                                     .max_length = formula->max_length};
    dcpar_profile *profile = NULL;
    dcpar_error error;
    assert_ok(dcpar_profile_create(&info, rows, count, &profile, &error));
    return profile;
}

/* Measured on every size that is legal in the world. */
static inline dcpar_profile *profile_for_world(const cost_formula *formula, int32_t world) {
    int32_t sizes[64];
    const int32_t count = dcpar_legal_sizes(world, formula->heads, formula->kv_heads, sizes);
    return profile_by_formula(formula, sizes, count);
}

#endif
