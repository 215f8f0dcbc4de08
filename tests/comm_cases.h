/* What every communicator has to do, whatever its ranks are: cases that each rank calls with its world.
 *
 * They run on threads or in processes of their own, where nothing can be asserted: they return a status and say what
 * was wrong. Every operation is compared, bit by bit, with what a plain loop over the ranks gives. */
#ifndef DCPAR_COMM_CASES_H
#define DCPAR_COMM_CASES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/random.h"
#include "comm/comm.h"
#include "comm/ulysses.h"

typedef struct comm_case {
    const char *name;
    dcpar_status (*run)(dcpar_comm *world, dcpar_error *error);
} comm_case;

/* ------------------------------------------------------------------------------------------------------ the data */

/* One operation to be checked. */
typedef struct trial {
    uint64_t seed;  /* the same on all ranks of the communicator, another for every trial */
    int64_t count;  /* bytes, floats or doubles of one rank */
    bool in_place;
} trial;

/* What rank `rank` holds at place `index`. */
static inline unsigned char byte_of(const trial *trial, int32_t rank, int64_t index) {
    return (unsigned char)((dcpar_random(trial->seed, 0, (uint64_t)rank) | 1) * (uint64_t)(index + 1) >> 40);
}

/* Of very different magnitudes, so that sums in another order have other bits. */
static inline double number_of(const trial *trial, int32_t rank, int64_t index) {
    const uint64_t draw = dcpar_random(trial->seed, (uint64_t)rank, (uint64_t)index);
    return ((double)(draw >> 11) * 0x1.0p-53 - 0.5) * (double)(INT64_C(1) << draw % 24);
}

/* Never NULL, not even for 0 bytes. */
static inline void *room_for(int64_t bytes) {
    void *room = malloc((size_t)bytes + 1);
    if (room == NULL) abort();
    return room;
}

static inline unsigned char *bytes_of(const trial *trial, int32_t rank, int64_t count) {
    unsigned char *bytes = room_for(count);
    for (int64_t i = 0; i < count; ++i) bytes[i] = byte_of(trial, rank, i);
    return bytes;
}

static inline dcpar_status wrong(dcpar_error *error, const dcpar_comm *comm, const char *operation,
                                 const trial *trial) {
    return dcpar_fail(error, DCPAR_INTERNAL, "rank %d of %d has wrong results of %s with %lld a rank%s, seed %llu",
                      (int)comm->rank, (int)comm->size, operation, (long long)trial->count,
                      trial->in_place ? " in place" : "", (unsigned long long)trial->seed);
}

/* --------------------------------------------------------------------------------------------------- operations */

static inline dcpar_status check_all_to_all(dcpar_comm *comm, const trial *trial, dcpar_error *error) {
    const int32_t size = dcpar_comm_size(comm), mine = dcpar_comm_rank(comm);
    const int64_t bytes = trial->count;
    unsigned char *input = bytes_of(trial, mine, size * bytes), *output = room_for(size * bytes);
    dcpar_status status = dcpar_comm_all_to_all(comm, input, output, bytes, error);
    bool right = true;
    for (int32_t rank = 0; rank < size; ++rank)
        for (int64_t i = 0; i < bytes; ++i)
            right = right && (status != DCPAR_OK || output[rank * bytes + i] == byte_of(trial, rank, mine * bytes + i));
    if (!right) status = wrong(error, comm, "all_to_all", trial);
    free(input);
    free(output);
    return status;
}

static inline dcpar_status check_all_gather(dcpar_comm *comm, const trial *trial, dcpar_error *error) {
    const int32_t size = dcpar_comm_size(comm), mine = dcpar_comm_rank(comm);
    const int64_t bytes = trial->count;
    unsigned char *input = bytes_of(trial, mine, bytes), *output = room_for(size * bytes);
    unsigned char *place = output + mine * bytes;
    if (trial->in_place) memcpy(place, input, (size_t)bytes);
    dcpar_status status = dcpar_comm_all_gather(comm, trial->in_place ? place : input, output, bytes, error);
    bool right = true;
    for (int32_t rank = 0; rank < size; ++rank)
        for (int64_t i = 0; i < bytes; ++i)
            right = right && (status != DCPAR_OK || output[rank * bytes + i] == byte_of(trial, rank, i));
    if (!right) status = wrong(error, comm, "all_gather", trial);
    free(input);
    free(output);
    return status;
}

static inline dcpar_status check_broadcast(dcpar_comm *comm, const trial *trial, dcpar_error *error) {
    const int32_t root = (int32_t)(trial->seed % (uint64_t)dcpar_comm_size(comm));
    unsigned char *data = bytes_of(trial, dcpar_comm_rank(comm), trial->count);
    dcpar_status status = dcpar_comm_broadcast(comm, data, trial->count, root, error);
    bool right = true;
    for (int64_t i = 0; i < trial->count; ++i)
        right = right && (status != DCPAR_OK || data[i] == byte_of(trial, root, i));
    if (!right) status = wrong(error, comm, "broadcast", trial);
    free(data);
    return status;
}

static inline double reduced(const dcpar_comm *comm, const trial *trial, int64_t index, dcpar_reduction reduction) {
    double result = number_of(trial, 0, index);
    for (int32_t rank = 1; rank < comm->size; ++rank) {
        const double value = number_of(trial, rank, index);
        if (reduction == DCPAR_SUM) result += value;
        if (reduction == DCPAR_MAX) result = fmax(result, value);
        if (reduction == DCPAR_MIN) result = fmin(result, value);
    }
    return result;
}

static inline dcpar_status check_all_reduce(dcpar_comm *comm, const trial *trial, dcpar_error *error) {
    const dcpar_reduction reduction = (dcpar_reduction)(trial->seed % 3);
    double *values = room_for(trial->count * (int64_t)sizeof *values);
    for (int64_t i = 0; i < trial->count; ++i) values[i] = number_of(trial, dcpar_comm_rank(comm), i);
    dcpar_status status = dcpar_comm_all_reduce(comm, values, trial->count, reduction, error);
    bool right = true;
    for (int64_t i = 0; i < trial->count; ++i)
        right = right && (status != DCPAR_OK || values[i] == reduced(comm, trial, i, reduction));
    if (!right) status = wrong(error, comm, "all_reduce", trial);
    free(values);
    return status;
}

static inline float float_sum(const dcpar_comm *comm, const trial *trial, int64_t index) {
    float sum = (float)number_of(trial, 0, index);
    for (int32_t rank = 1; rank < comm->size; ++rank) sum += (float)number_of(trial, rank, index);
    return sum;
}

static inline dcpar_status check_reduce_scatter(dcpar_comm *comm, const trial *trial, dcpar_error *error) {
    const int32_t size = dcpar_comm_size(comm), mine = dcpar_comm_rank(comm);
    const int64_t count = trial->count;
    float *input = room_for(size * count * (int64_t)sizeof *input);
    float *apart = room_for(count * (int64_t)sizeof *apart);
    float *output = trial->in_place ? input + mine * count : apart;
    for (int64_t i = 0; i < size * count; ++i) input[i] = (float)number_of(trial, mine, i);
    dcpar_status status = dcpar_comm_reduce_scatter(comm, input, output, count, error);
    bool right = true;
    for (int64_t i = 0; i < count; ++i)
        right = right && (status != DCPAR_OK || output[i] == float_sum(comm, trial, mine * count + i));
    if (!right) status = wrong(error, comm, "reduce_scatter", trial);
    free(input);
    free(apart);
    return status;
}

static inline dcpar_status check_barrier(dcpar_comm *comm, const trial *trial, dcpar_error *error) {
    (void)trial;
    return dcpar_comm_barrier(comm, error);
}

typedef dcpar_status (*operation_check)(dcpar_comm *comm, const trial *trial, dcpar_error *error);

static const operation_check operation_checks[] = {check_all_to_all, check_all_gather,     check_broadcast,
                                                   check_all_reduce, check_reduce_scatter, check_barrier};
enum { OPERATIONS = sizeof operation_checks / sizeof *operation_checks };

/* Every operation with each of these sizes: nothing, odd ones, around what goes through a mailbox, and long. */
static inline dcpar_status check_operations(dcpar_comm *comm, uint64_t seed, dcpar_error *error) {
    static const int64_t counts[] = {0, 1, 7, 255, 1024, 1025, 8192, 8193, 20011};
    for (size_t size = 0; size < sizeof counts / sizeof *counts; ++size)
        for (int operation = 0; operation < OPERATIONS; ++operation) {
            seed += 1;
            const trial trial = {.seed = seed, .count = counts[size], .in_place = seed % 2 == 0};
            DCPAR_TRY(operation_checks[operation](comm, &trial, error));
        }
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------------ worlds, groups */

static inline dcpar_status every_operation_works_on_the_world(dcpar_comm *world, dcpar_error *error) {
    return check_operations(world, 1000, error);
}

static inline dcpar_status take_group(dcpar_comm *world, int32_t width, dcpar_comm **group, dcpar_error *error) {
    const int32_t first = world->rank / width * width;
    DCPAR_TRY(dcpar_comm_group(world, width, group, error));
    const bool complete = first + width <= world->size;
    if (complete != (*group != NULL) ||
        (complete && (dcpar_comm_size(*group) != width || dcpar_comm_rank(*group) != world->rank - first)))
        return dcpar_fail(error, DCPAR_INTERNAL, "rank %d of %d has a wrong group of %d", (int)world->rank,
                          (int)world->size, (int)width);
    return DCPAR_OK;
}

/* Groups of one width have data of their own. */
static inline uint64_t group_seed(const dcpar_comm *world, int32_t width, uint64_t seed) {
    return seed + (uint64_t)(world->rank / width) * 100000;
}

static inline dcpar_status every_operation_works_on_groups_of_any_width(dcpar_comm *world, dcpar_error *error) {
    for (int32_t width = 1; width <= world->size + 1; ++width) {
        dcpar_comm *group = NULL, *again = NULL;
        DCPAR_TRY(take_group(world, width, &group, error));
        if (group != NULL) DCPAR_TRY(check_operations(group, group_seed(world, width, 7000), error));
        DCPAR_TRY(take_group(world, width, &again, error));
        if (again != group) return dcpar_fail(error, DCPAR_INTERNAL, "a group of %d is made twice", (int)width);
    }
    return DCPAR_OK;
}

/* All ranks draw the same steps; those of an incomplete group have nothing to do in some. */
static inline dcpar_status run_random_steps(dcpar_comm *world, uint64_t seed, int64_t steps, dcpar_error *error) {
    for (int64_t step = 0; step < steps; ++step) {
        const uint64_t draw = dcpar_random(seed, 0, (uint64_t)step);
        const int32_t width = (int32_t)(draw % (uint64_t)world->size) + 1;
        const int64_t count = draw % 7 == 0 ? (int64_t)(draw >> 20) % 20000 : (int64_t)(draw >> 20) % 300;
        const trial trial = {.seed = group_seed(world, width, draw >> 8), .count = count, .in_place = draw >> 60 & 1};
        dcpar_comm *group = NULL;
        DCPAR_TRY(take_group(world, width, &group, error));
        if (group != NULL) DCPAR_TRY(operation_checks[(draw >> 32) % OPERATIONS](group, &trial, error));
    }
    return DCPAR_OK;
}

static inline dcpar_status operations_of_groups_and_world_mix_at_random(dcpar_comm *world, dcpar_error *error) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        const dcpar_status status = run_random_steps(world, seed, 150, error);
        if (status != DCPAR_OK) return dcpar_fail_prefix(error, status, "seed %llu", (unsigned long long)seed);
    }
    return DCPAR_OK;
}

static inline dcpar_status messages_longer_than_one_call_carries_go_in_pieces(dcpar_comm *world, dcpar_error *error) {
    for (int32_t width = 2; width <= world->size; ++width) {
        dcpar_comm *group = NULL;
        DCPAR_TRY(take_group(world, width, &group, error));
        if (group == NULL) continue;
        const int64_t largest = group->largest_message;
        group->largest_message = 1000;
        const dcpar_status status = check_operations(group, group_seed(world, width, 4000), error);
        group->largest_message = largest;
        DCPAR_TRY(status);
    }
    return DCPAR_OK;
}

static inline dcpar_status a_nan_of_one_rank_reaches_all(dcpar_comm *world, dcpar_error *error) {
    for (int reduction = DCPAR_SUM; reduction <= DCPAR_MIN; ++reduction)
        for (int32_t rank = 0; rank < world->size; ++rank) {
            double values[2] = {world->rank == rank ? (double)NAN : 1.0, 2.0};
            DCPAR_TRY(dcpar_comm_all_reduce(world, values, 2, (dcpar_reduction)reduction, error));
            if (!isnan(values[0]) || isnan(values[1]))
                return dcpar_fail(error, DCPAR_INTERNAL, "rank %d: reduction %d loses the NaN of rank %d",
                                  (int)world->rank, reduction, (int)rank);
        }
    return DCPAR_OK;
}

static inline dcpar_status wants(dcpar_status wanted, dcpar_status got, const char *what, dcpar_error *error) {
    if (got == wanted) return DCPAR_OK;
    return dcpar_fail(error, DCPAR_INTERNAL, "%s gives %s instead of %s", what, dcpar_status_name(got),
                      dcpar_status_name(wanted));
}

static inline dcpar_status calls_that_make_no_sense_are_refused(dcpar_comm *world, dcpar_error *error) {
    dcpar_error refused;
    double value = 0.0;
    dcpar_comm *group = NULL;
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_comm_all_reduce(world, &value, -1, DCPAR_SUM, &refused), "-1 values", error));
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_comm_all_gather(world, &value, &value, INT64_MIN, NULL), "no bytes", error));
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_comm_reduce_scatter(world, NULL, NULL, INT64_MAX / 3, &refused),
                    "a product past 2^63", error));
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_comm_broadcast(world, &value, 8, world->size, &refused), "a wrong root",
                    error));
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_comm_broadcast(world, &value, 8, -1, &refused), "root -1", error));
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_comm_group(world, 0, &group, &refused), "width 0", error));
    if (world->size > 1) {
        DCPAR_TRY(dcpar_comm_group(world, 1, &group, error));
        DCPAR_TRY(wants(DCPAR_INVALID, dcpar_comm_group(group, 1, &group, &refused), "a group of a group", error));
    }
    return dcpar_comm_barrier(world, error); /* nobody is left behind */
}

/* ------------------------------------------------------------------------------------------------------ Ulysses */

/* The value of (token of the whole row, head, place in the head). */
static inline float activation(int64_t token, int64_t head, int64_t place) {
    return (float)(token * 1000 + head * 10 + place);
}

/* Is rows [tokens, heads, dim] that part of the activations which starts at this token and this head? */
static inline bool is_part(const float *rows, int64_t first_token, int64_t tokens, int64_t first_head, int64_t heads,
                           int64_t dim) {
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t head = 0; head < heads; ++head)
            for (int64_t place = 0; place < dim; ++place)
                if (rows[(token * heads + head) * dim + place] !=
                    activation(first_token + token, first_head + head, place))
                    return false;
    return true;
}

static inline dcpar_status exchange_and_back(dcpar_comm *group, dcpar_arena *arena, int64_t tokens, int64_t heads,
                                             int64_t dim, float *mine, float *all, dcpar_error *error) {
    const int64_t ranks = dcpar_comm_size(group), rank = dcpar_comm_rank(group), used = dcpar_arena_used(arena);
    for (int64_t i = 0; i < tokens * heads * dim; ++i)
        mine[i] = activation(rank * tokens + i / (heads * dim), i / dim % heads, i % dim);
    DCPAR_TRY(dcpar_ulysses_to_heads(group, arena, mine, all, tokens, heads, dim, error));
    if (!is_part(all, 0, ranks * tokens, rank * (heads / ranks), heads / ranks, dim))
        return dcpar_fail(error, DCPAR_INTERNAL, "rank %d has wrong heads", (int)rank);
    memset(mine, 0, (size_t)(tokens * heads * dim) * sizeof *mine);
    DCPAR_TRY(dcpar_ulysses_to_tokens(group, arena, all, mine, tokens, heads, dim, error));
    if (!is_part(mine, rank * tokens, tokens, 0, heads, dim))
        return dcpar_fail(error, DCPAR_INTERNAL, "rank %d has wrong tokens", (int)rank);
    if (dcpar_arena_used(arena) != used)
        return dcpar_fail(error, DCPAR_INTERNAL, "rank %d does not give its scratch back", (int)rank);
    return DCPAR_OK;
}

static inline dcpar_status check_ulysses(dcpar_comm *group, dcpar_arena *arena, int64_t tokens, int64_t heads,
                                         int64_t dim, dcpar_error *error) {
    const int64_t bytes = tokens * heads * dim * (int64_t)sizeof(float);
    float *mine = room_for(bytes), *all = room_for(bytes);
    const dcpar_status status = exchange_and_back(group, arena, tokens, heads, dim, mine, all, error);
    free(mine);
    free(all);
    return status;
}

static inline dcpar_status check_refusals_of_ulysses(dcpar_comm *world, dcpar_arena *arena, dcpar_error *error) {
    dcpar_error refused;
    float none = 0.0f;
    const int64_t heads = 4 * world->size, too_many = dcpar_arena_limit(arena);
    DCPAR_TRY(wants(DCPAR_DEVICE_MEMORY,
                    dcpar_ulysses_to_heads(world, arena, &none, &none, too_many, heads, 1, &refused), "no room",
                    error));
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_ulysses_to_tokens(world, arena, &none, &none, INT64_MAX / 8, heads, 8,
                                                           &refused), "a product past 2^63", error));
    DCPAR_TRY(wants(DCPAR_INVALID, dcpar_ulysses_to_heads(world, arena, &none, &none, -1, heads, 1, &refused),
                    "-1 tokens", error));
    if (world->size > 1)
        DCPAR_TRY(wants(DCPAR_ILLEGAL_SIZE,
                        dcpar_ulysses_to_heads(world, arena, &none, &none, 1, heads + 1, 1, &refused),
                        "heads that cannot be divided", error));
    return DCPAR_OK;
}

static inline dcpar_status ulysses_exchanges_tokens_for_heads_and_back(dcpar_comm *world, dcpar_error *error) {
    dcpar_arena *arena = NULL;
    DCPAR_TRY(dcpar_arena_create(INT64_C(1) << 20, &arena, error));
    dcpar_status status = DCPAR_OK;
    for (int32_t width = 1; width <= world->size && status == DCPAR_OK; ++width) {
        dcpar_comm *group = NULL;
        status = take_group(world, width, &group, error);
        if (group == NULL) continue;
        const int64_t tokens[] = {0, 1, 5, 64};
        for (int i = 0; i < 4 && status == DCPAR_OK; ++i)
            status = check_ulysses(group, arena, tokens[i], width * (1 + i % 3), 1 + 3 * i, error);
    }
    if (status == DCPAR_OK) status = check_refusals_of_ulysses(world, arena, error);
    dcpar_arena_destroy(arena);
    return status;
}

#define COMM_CASE(name) {#name, name}

static const comm_case comm_cases[] = {
    COMM_CASE(every_operation_works_on_the_world),
    COMM_CASE(every_operation_works_on_groups_of_any_width),
    COMM_CASE(operations_of_groups_and_world_mix_at_random),
    COMM_CASE(messages_longer_than_one_call_carries_go_in_pieces),
    COMM_CASE(a_nan_of_one_rank_reaches_all),
    COMM_CASE(calls_that_make_no_sense_are_refused),
    COMM_CASE(ulysses_exchanges_tokens_for_heads_and_back),
};
enum { COMM_CASES = sizeof comm_cases / sizeof *comm_cases };

#endif
