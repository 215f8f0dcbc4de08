/* What every implementation of the communicator has to do: bodies of tests, run by each rank.
 *
 * They return a status instead of using cmocka's assertions, which only the first thread of a program may use. Elements
 * are a function of (salt, rank, index), so that every rank can tell what every other one holds. */
#ifndef DCPAR_COMM_CASES_H
#define DCPAR_COMM_CASES_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "comm/ulysses.h"
#include "dcpar_run.h"

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) return dcpar_fail(error, DCPAR_INTERNAL, "%s:%d: %s", __FILE__, __LINE__, #condition);       \
    } while (0)

/* Runs `call`, then `cleanup` whatever came out, then returns if it failed. */
#define TRY_THEN(call, cleanup)                                                                                        \
    do {                                                                                                               \
        const dcpar_status try_then_status_ = (call);                                                                  \
        cleanup;                                                                                                       \
        if (try_then_status_ != DCPAR_OK) return try_then_status_;                                                     \
    } while (0)

static double element(uint64_t salt, int32_t rank, int64_t index) {
    return dcpar_random_unit(salt, (uint64_t)rank, (uint64_t)index) - 0.5;
}

static bool same_bits(const void *a, const void *b, size_t bytes) { return bytes == 0 || memcmp(a, b, bytes) == 0; }

/* ------------------------------------------------------------------------------------------- one operation each */

static double combined(uint64_t salt, int32_t size, int64_t index, dcpar_reduction reduction) {
    double result = element(salt, 0, index);
    for (int32_t rank = 1; rank < size; ++rank) {
        const double value = element(salt, rank, index);
        if (reduction == DCPAR_SUM) result += value;
        if (reduction == DCPAR_MAX && value > result) result = value;
        if (reduction == DCPAR_MIN && value < result) result = value;
    }
    return result;
}

static dcpar_status all_reduce_in(dcpar_comm *comm, uint64_t salt, int64_t count, double *values, dcpar_error *error) {
    const dcpar_reduction reduction = (dcpar_reduction)(salt % 3);
    for (int64_t i = 0; i < count; ++i) values[i] = element(salt, dcpar_comm_rank(comm), i);
    DCPAR_TRY(dcpar_comm_all_reduce(comm, values, count, reduction, error));
    for (int64_t i = 0; i < count; ++i) {
        const double expected = combined(salt, dcpar_comm_size(comm), i, reduction);
        EXPECT(same_bits(&values[i], &expected, sizeof expected));
    }
    return DCPAR_OK;
}

static dcpar_status check_all_reduce(dcpar_comm *comm, uint64_t salt, int64_t count, dcpar_error *error) {
    double *values = calloc((size_t)count + 1, sizeof *values);
    TRY_THEN(all_reduce_in(comm, salt, count, values, error), free(values));
    return DCPAR_OK;
}

static float summed(uint64_t salt, int32_t size, int64_t index) {
    float sum = (float)element(salt, 0, index);
    for (int32_t rank = 1; rank < size; ++rank) sum += (float)element(salt, rank, index);
    return sum;
}

/* With an odd salt the output is this rank's part of the input. */
static dcpar_status reduce_scatter_in(dcpar_comm *comm, uint64_t salt, int64_t count, float *input, float *apart,
                                      dcpar_error *error) {
    const int32_t size = dcpar_comm_size(comm), rank = dcpar_comm_rank(comm);
    float *output = salt % 2 != 0 ? input + rank * count : apart;
    for (int64_t i = 0; i < size * count; ++i) input[i] = (float)element(salt, rank, i);
    DCPAR_TRY(dcpar_comm_reduce_scatter(comm, input, output, count, error));
    for (int64_t i = 0; i < size * count; ++i) {
        const bool mine = i / (count > 0 ? count : 1) == rank;
        const float expected = mine ? summed(salt, size, i) : (float)element(salt, rank, i);
        EXPECT(same_bits(mine ? &output[i - rank * count] : &input[i], &expected, sizeof expected));
    }
    return DCPAR_OK;
}

static dcpar_status check_reduce_scatter(dcpar_comm *comm, uint64_t salt, int64_t count, dcpar_error *error) {
    float *input = calloc((size_t)(dcpar_comm_size(comm) * count) + 1, sizeof *input);
    float *apart = calloc((size_t)count + 1, sizeof *apart);
    TRY_THEN(reduce_scatter_in(comm, salt, count, input, apart, error), free(input); free(apart));
    return DCPAR_OK;
}

static unsigned char byte_of(uint64_t salt, int32_t rank, int64_t index) {
    return (unsigned char)dcpar_random(salt, (uint64_t)rank, (uint64_t)index);
}

/* With an odd salt the input is its own place in the output. */
static dcpar_status all_gather_in(dcpar_comm *comm, uint64_t salt, int64_t bytes, unsigned char *apart,
                                  unsigned char *output, dcpar_error *error) {
    const int32_t size = dcpar_comm_size(comm), rank = dcpar_comm_rank(comm);
    unsigned char *input = salt % 2 != 0 ? output + rank * bytes : apart;
    for (int64_t i = 0; i < bytes; ++i) input[i] = byte_of(salt, rank, i);
    DCPAR_TRY(dcpar_comm_all_gather(comm, input, output, bytes, error));
    for (int32_t from = 0; from < size; ++from)
        for (int64_t i = 0; i < bytes; ++i) EXPECT(output[from * bytes + i] == byte_of(salt, from, i));
    return DCPAR_OK;
}

static dcpar_status check_all_gather(dcpar_comm *comm, uint64_t salt, int64_t bytes, dcpar_error *error) {
    unsigned char *apart = calloc((size_t)bytes + 1, 1);
    unsigned char *output = calloc((size_t)(dcpar_comm_size(comm) * bytes) + 1, 1);
    TRY_THEN(all_gather_in(comm, salt, bytes, apart, output, error), free(apart); free(output));
    return DCPAR_OK;
}

static dcpar_status all_to_all_in(dcpar_comm *comm, uint64_t salt, int64_t bytes, unsigned char *input,
                                  unsigned char *output, dcpar_error *error) {
    const int32_t size = dcpar_comm_size(comm), rank = dcpar_comm_rank(comm);
    for (int64_t i = 0; i < size * bytes; ++i) input[i] = byte_of(salt, rank, i);
    DCPAR_TRY(dcpar_comm_all_to_all(comm, input, output, bytes, error));
    for (int32_t from = 0; from < size; ++from)
        for (int64_t i = 0; i < bytes; ++i) EXPECT(output[from * bytes + i] == byte_of(salt, from, rank * bytes + i));
    return DCPAR_OK;
}

static dcpar_status check_all_to_all(dcpar_comm *comm, uint64_t salt, int64_t bytes, dcpar_error *error) {
    unsigned char *input = calloc((size_t)(dcpar_comm_size(comm) * bytes) + 1, 1);
    unsigned char *output = calloc((size_t)(dcpar_comm_size(comm) * bytes) + 1, 1);
    TRY_THEN(all_to_all_in(comm, salt, bytes, input, output, error), free(input); free(output));
    return DCPAR_OK;
}

static dcpar_status broadcast_in(dcpar_comm *comm, uint64_t salt, int64_t bytes, unsigned char *data,
                                 dcpar_error *error) {
    const int32_t root = (int32_t)(salt % (uint64_t)dcpar_comm_size(comm));
    for (int64_t i = 0; i < bytes; ++i) data[i] = byte_of(salt, dcpar_comm_rank(comm), i);
    DCPAR_TRY(dcpar_comm_broadcast(comm, data, bytes, root, error));
    for (int64_t i = 0; i < bytes; ++i) EXPECT(data[i] == byte_of(salt, root, i));
    return DCPAR_OK;
}

static dcpar_status check_broadcast(dcpar_comm *comm, uint64_t salt, int64_t bytes, dcpar_error *error) {
    unsigned char *data = calloc((size_t)bytes + 1, 1);
    TRY_THEN(broadcast_in(comm, salt, bytes, data, error), free(data));
    return DCPAR_OK;
}

typedef dcpar_status (*checked_operation)(dcpar_comm *comm, uint64_t salt, int64_t count, dcpar_error *error);

static const checked_operation checked_operations[] = {
    check_all_reduce, check_reduce_scatter, check_all_gather, check_all_to_all, check_broadcast,
};

#define CHECKED_OPERATIONS ((int64_t)(sizeof checked_operations / sizeof checked_operations[0]))

static dcpar_status check_every_operation(dcpar_comm *comm, int64_t count, dcpar_error *error) {
    DCPAR_TRY(dcpar_comm_barrier(comm, error));
    for (int64_t i = 0; i < CHECKED_OPERATIONS; ++i)
        for (uint64_t salt = 0; salt < 6; ++salt) DCPAR_TRY(checked_operations[i](comm, salt, count, error));
    return DCPAR_OK;
}

/* -------------------------------------------------------------------------------------------------- whole cases */

/* `argument` points to a list of counts that ends with -1. */
static dcpar_status case_operations(dcpar_comm *world, void *argument, dcpar_error *error) {
    for (const int64_t *count = argument; *count >= 0; ++count) DCPAR_TRY(check_every_operation(world, *count, error));
    return DCPAR_OK;
}

static dcpar_status case_groups(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    const int32_t size = dcpar_comm_size(world), rank = dcpar_comm_rank(world);
    for (int32_t width = 1; width <= size + 1; ++width) {
        dcpar_comm *group = NULL, *again = NULL;
        DCPAR_TRY(dcpar_comm_group(world, width, &group, error));
        DCPAR_TRY(dcpar_comm_group(world, width, &again, error));
        EXPECT(group == again);
        EXPECT((group != NULL) == (rank / width * width + width <= size));
        if (group == NULL) continue;
        EXPECT(dcpar_comm_size(group) == width);
        EXPECT(dcpar_comm_rank(group) == rank % width);
        DCPAR_TRY(check_every_operation(group, 33, error));
        if (width < size) EXPECT(dcpar_comm_group(group, 1, &again, NULL) == DCPAR_INVALID);
    }
    return DCPAR_OK;
}

/* `argument` points to the seed. Steps in which the world, or some groups of some width, do something. */
static dcpar_status case_interleavings(dcpar_comm *world, void *argument, dcpar_error *error) {
    enum { STEPS = 1500, LARGEST = 300, YIELDS = 4 };
    const uint64_t seed = *(const uint64_t *)argument;
    const int32_t size = dcpar_comm_size(world), rank = dcpar_comm_rank(world);
    for (uint64_t step = 0; step < STEPS; ++step) {
        const int32_t width = 1 + (int32_t)(dcpar_random(seed, 1, step) % (uint64_t)size);
        const uint64_t takes_part = dcpar_random(seed + (uint64_t)(rank / width), 2, step) % 3;
        const int64_t operation = (int64_t)(dcpar_random(seed, 3, step) % (uint64_t)CHECKED_OPERATIONS);
        const int64_t count = (int64_t)(dcpar_random(seed, 4, step) % LARGEST) * (step % 10 == 0 ? 20 : 1);
        dcpar_comm *group = NULL;
        DCPAR_TRY(dcpar_comm_group(world, width, &group, error));
        for (uint64_t i = dcpar_random(seed + (uint64_t)rank, 5, step) % YIELDS; i > 0; --i) sched_yield();
        if (group != NULL && (takes_part > 0 || width == size))
            DCPAR_TRY(checked_operations[operation](group, seed + step, count, error));
    }
    return DCPAR_OK;
}

/* The same sums again and again have the same bits, on all ranks. */
static dcpar_status case_same_bits(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    enum { COUNT = 1300, TIMES = 10, MOST_RANKS = 8 };
    const int32_t size = dcpar_comm_size(world), rank = dcpar_comm_rank(world);
    double first[COUNT], values[COUNT];
    uint64_t hashes[MOST_RANKS];
    EXPECT(size <= MOST_RANKS);
    for (int time = 0; time < TIMES; ++time) {
        for (int64_t i = 0; i < COUNT; ++i) values[i] = element(7, rank, i) * (i % 5 == 0 ? 1e12 : 1.0);
        DCPAR_TRY(dcpar_comm_all_reduce(world, values, COUNT, DCPAR_SUM, error));
        if (time == 0) memcpy(first, values, sizeof first);
        EXPECT(same_bits(first, values, sizeof first));
        uint64_t hash = 0;
        for (int64_t i = 0; i < COUNT; ++i) {
            uint64_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            hash = dcpar_mix(hash ^ bits);
        }
        DCPAR_TRY(dcpar_comm_all_gather(world, &hash, hashes, sizeof hash, error));
        for (int32_t i = 0; i < size; ++i) EXPECT(hashes[i] == hash);
    }
    return DCPAR_OK;
}

/* A rank's not-a-number is everybody's. */
static dcpar_status case_not_a_number(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    for (int reduction = DCPAR_SUM; reduction <= DCPAR_MIN; ++reduction) {
        for (int32_t bad = 0; bad < dcpar_comm_size(world); ++bad) {
            double value = dcpar_comm_rank(world) == bad ? strtod("nan", NULL) : 1.0;
            DCPAR_TRY(dcpar_comm_all_reduce(world, &value, 1, (dcpar_reduction)reduction, error));
            EXPECT(value != value);
        }
    }
    return DCPAR_OK;
}

static dcpar_status case_arguments(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    double value = 0;
    float number = 0;
    dcpar_comm *group = NULL;
    dcpar_error said;
    EXPECT(dcpar_comm_group(world, 0, &group, &said) == DCPAR_INVALID);
    EXPECT(dcpar_comm_all_reduce(world, &value, -1, DCPAR_SUM, &said) == DCPAR_INVALID);
    EXPECT(strstr(said.text, "all_reduce") != NULL && strstr(said.text, "-1") != NULL);
    EXPECT(dcpar_comm_all_reduce(world, &value, INT64_MAX / 4, DCPAR_SUM, &said) == DCPAR_INVALID);
    EXPECT(dcpar_comm_reduce_scatter(world, &number, &number, -1, &said) == DCPAR_INVALID);
    EXPECT(dcpar_comm_all_gather(world, &value, &value, -1, &said) == DCPAR_INVALID);
    EXPECT(dcpar_comm_all_to_all(world, &value, &value, -1, &said) == DCPAR_INVALID);
    EXPECT(dcpar_comm_broadcast(world, &value, -1, 0, &said) == DCPAR_INVALID);
    EXPECT(dcpar_comm_broadcast(world, &value, 1, -1, &said) == DCPAR_INVALID);
    EXPECT(dcpar_comm_broadcast(world, &value, 1, dcpar_comm_size(world), &said) == DCPAR_INVALID);
    return dcpar_comm_barrier(world, error);
}

/* ------------------------------------------------------------------------------------------- Ulysses' exchange */

/* What stands at (token of the whole row, head, place within the head). */
static float activation(int64_t token, int64_t head, int64_t place) {
    return (float)element(11, (int32_t)head, token * 100 + place);
}

static dcpar_status ulysses_in(dcpar_comm *group, dcpar_arena *arena, int64_t tokens, int64_t heads, int64_t head_dim,
                               float *mine, float *all, float *back, dcpar_error *error) {
    const int64_t size = dcpar_comm_size(group), rank = dcpar_comm_rank(group), part = heads / size;
    const int64_t used = dcpar_arena_used(arena);
    for (int64_t i = 0; i < tokens * heads * head_dim; ++i)
        mine[i] = activation(rank * tokens + i / head_dim / heads, i / head_dim % heads, i % head_dim);
    DCPAR_TRY(dcpar_ulysses_to_heads(group, arena, mine, all, tokens, heads, head_dim, error));
    for (int64_t i = 0; i < size * tokens * part * head_dim; ++i)
        EXPECT(all[i] == activation(i / head_dim / part, rank * part + i / head_dim % part, i % head_dim));
    DCPAR_TRY(dcpar_ulysses_to_tokens(group, arena, all, back, tokens, heads, head_dim, error));
    EXPECT(same_bits(mine, back, (size_t)(tokens * heads * head_dim) * sizeof *mine));
    EXPECT(dcpar_arena_used(arena) == used);
    return DCPAR_OK;
}

static dcpar_status check_ulysses(dcpar_comm *group, dcpar_arena *arena, int64_t tokens, int64_t heads,
                                  int64_t head_dim, dcpar_error *error) {
    const size_t count = (size_t)(tokens * heads * head_dim) + 1;
    float *mine = calloc(count, sizeof *mine), *all = calloc(count, sizeof *all), *back = calloc(count, sizeof *back);
    TRY_THEN(ulysses_in(group, arena, tokens, heads, head_dim, mine, all, back, error), free(mine); free(all);
             free(back));
    return DCPAR_OK;
}

static dcpar_status ulysses_of_widths(dcpar_comm *world, dcpar_arena *arena, dcpar_error *error) {
    for (int32_t width = 1; width <= dcpar_comm_size(world); ++width) {
        dcpar_comm *group = NULL;
        DCPAR_TRY(dcpar_comm_group(world, width, &group, error));
        if (group == NULL) continue;
        DCPAR_TRY(check_ulysses(group, arena, 0, width, 4, error));
        DCPAR_TRY(check_ulysses(group, arena, 1, width, 1, error));
        DCPAR_TRY(check_ulysses(group, arena, 5, 3 * width, 7, error));
        DCPAR_TRY(check_ulysses(group, arena, 64, 2 * width, 32, error));
        dcpar_error said;
        if (width > 1)
            EXPECT(dcpar_ulysses_to_heads(group, arena, NULL, NULL, 1, width + 1, 1, &said) == DCPAR_ILLEGAL_SIZE);
        EXPECT(dcpar_ulysses_to_heads(group, arena, NULL, NULL, 1, width, dcpar_arena_limit(arena), &said) ==
               DCPAR_DEVICE_MEMORY);
        EXPECT(dcpar_ulysses_to_tokens(group, arena, NULL, NULL, -1, width, 1, &said) == DCPAR_INVALID);
        EXPECT(dcpar_ulysses_to_tokens(group, arena, NULL, NULL, INT64_MAX / 2, width, 8, &said) == DCPAR_INVALID);
    }
    return DCPAR_OK;
}

static dcpar_status case_ulysses(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    dcpar_arena *arena = NULL;
    DCPAR_TRY(dcpar_arena_create(1 << 20, &arena, error));
    TRY_THEN(ulysses_of_widths(world, arena, error), dcpar_arena_destroy(arena));
    return DCPAR_OK;
}

#endif
