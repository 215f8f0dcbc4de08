/* What the tests of the reference model share: a model with its memory, and rows of tokens cut for ranks. */
#ifndef DCPAR_NN_TESTING_H
#define DCPAR_NN_TESTING_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "nn/transformer.h"
#include "testing.h"

typedef struct owned_model {
    dcpar_model_config config;
    int64_t count;
    float *parameters, *gradients;
    dcpar_arena *arena;
    dcpar_transformer *model;
} owned_model;

static inline float *aligned_floats(int64_t count) {
    const size_t bytes = ((size_t)count * sizeof(float) + 63) / 64 * 64;
    float *values = aligned_alloc(64, bytes);
    assert_non_null(values);
    memset(values, 0, bytes);
    return values;
}

/* Weights uniform in +-spread around zero, norms around one. The arena is full of NaN, so that nothing that is read
 * before it is written stays unseen. */
static inline owned_model owned_model_create(const dcpar_model_config *config, int64_t memory, float spread) {
    dcpar_error error;
    owned_model m = {.config = *config, .count = dcpar_transformer_parameter_count(config)};
    m.parameters = aligned_floats(m.count);
    m.gradients = aligned_floats(m.count);
    assert_ok(dcpar_arena_create(memory, &m.arena, &error));
    memset(dcpar_arena_push(m.arena, memory / DCPAR_ARENA_ALIGNMENT * DCPAR_ARENA_ALIGNMENT), 0xff, (size_t)memory);
    dcpar_arena_pop(m.arena, 0);
    dcpar_arena_reset_peak(m.arena);
    assert_ok(dcpar_transformer_create(config, m.parameters, m.gradients, m.arena, &m.model, &error));
    for (int64_t t = 0; t < dcpar_transformer_tensor_count(m.model); ++t) {
        dcpar_tensor_view view;
        dcpar_transformer_tensor(m.model, t, &view);
        const int64_t size = view.columns > 0 ? view.rows * view.columns : view.rows;
        for (int64_t i = 0; i < size; ++i) {
            const double unit = 2.0 * dcpar_random_unit(77, (uint64_t)t, (uint64_t)i) - 1.0;
            m.parameters[view.offset + i] = (float)((view.columns > 0 ? 0.0 : 1.0) + spread * unit);
        }
    }
    return m;
}

static inline void owned_model_destroy(owned_model *m) {
    dcpar_transformer_destroy(m->model);
    dcpar_arena_destroy(m->arena);
    free(m->parameters);
    free(m->gradients);
}

/* A whole row: sequences one after the other, then padding. */
typedef struct token_row {
    int64_t total, sequences, *starts;
    int32_t *input, *target, *position;
} token_row;

/* Random tokens, the same for the same `seed` whatever the padding; the last token of a sequence has no target. */
static inline token_row token_row_create(const int64_t *lengths, int64_t sequences, int64_t padding, int64_t vocab,
                                         uint64_t seed) {
    token_row row = {.total = padding, .sequences = sequences};
    row.starts = calloc((size_t)sequences + 1, sizeof *row.starts);
    assert_non_null(row.starts);
    for (int64_t s = 0; s < sequences; ++s) row.starts[s + 1] = row.starts[s] + lengths[s];
    row.total = row.starts[sequences] + padding;
    row.input = calloc((size_t)row.total + 1, sizeof *row.input);
    row.target = calloc((size_t)row.total + 1, sizeof *row.target);
    row.position = calloc((size_t)row.total + 1, sizeof *row.position);
    assert_true(row.input != NULL && row.target != NULL && row.position != NULL);
    for (int64_t i = 0; i < row.total; ++i)
        row.input[i] = (int32_t)(dcpar_random(seed, 0, (uint64_t)i) % (uint64_t)vocab);
    for (int64_t s = 0; s < sequences; ++s)
        for (int64_t i = row.starts[s]; i < row.starts[s + 1]; ++i) {
            row.position[i] = (int32_t)(i - row.starts[s]);
            row.target[i] = i + 1 < row.starts[s + 1] ? row.input[i + 1] : -1;
        }
    for (int64_t i = row.starts[sequences]; i < row.total; ++i) row.target[i] = -1;
    return row;
}

static inline void token_row_destroy(token_row *row) {
    free(row->starts);
    free(row->input);
    free(row->target);
    free(row->position);
}

static inline dcpar_tokens token_row_part(const token_row *row, int32_t rank, int32_t ranks) {
    const int64_t first = rank * (row->total / ranks);
    return (dcpar_tokens){row->total,          row->sequences,        row->starts, row->input + first,
                          row->target + first, row->position + first, NULL};
}

/* |a - b| / |b|. */
static inline double relative_difference(const float *a, const float *b, int64_t count) {
    double difference = 0.0, size = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(difference / (size > 0.0 ? size : 1.0));
}

#endif
