/* Policy `buddy`: the stream says which sequences an iteration has, and every one goes where all ranks end together. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/bound.h"
#include "plan/fill.h"
#include "plan/planner.h"

/* An iteration's tokens when nobody says: enough sequences a rank for balance, and a few of the longest. */
#define DEFAULT_SEQUENCES_PER_RANK 16
#define DEFAULT_LONGEST 4

typedef struct taken_row {
    int64_t row;
    int32_t bucket;
} taken_row;

typedef struct buddy_state {
    int64_t position; /* in the stream */
    int64_t tokens;   /* an iteration; 0: count sequences */
    int64_t sequences;
    taken_row *taken; /* of this iteration, in stream order */
    int64_t *sorted;  /* their rows by bucket */
    int64_t capacity;
    int64_t *next_of; /* [buckets] places in sorted[] */
    int64_t *counts;  /* [buckets] */
    dcpar_fill_space space;
} buddy_state;

static void destroy(dcpar_planner *planner) {
    buddy_state *state = planner->state;
    dcpar_fill_space_destroy(&state->space);
    free(state->taken);
    free(state->sorted);
    free(state->next_of);
    free(state->counts);
    free(state);
}

static void set_size(const dcpar_planner *planner, buddy_state *state) {
    state->tokens = planner->options.tokens_per_iteration;
    state->sequences = planner->options.sequences_per_iteration;
    if (state->tokens > 0 || state->sequences > 0) return;
    const double mean = (double)planner->usable_tokens / (double)planner->usable;
    const double balanced = DEFAULT_SEQUENCES_PER_RANK * mean * planner->options.world;
    const double several = DEFAULT_LONGEST * (double)planner->longest;
    const double tokens = balanced > several ? balanced : several;
    state->tokens = tokens < (double)planner->usable_tokens ? (int64_t)tokens : planner->usable_tokens;
}

static dcpar_status create(dcpar_planner *planner, dcpar_error *error) {
    const size_t buckets = (size_t)planner->table->buckets;
    buddy_state *state = calloc(1, sizeof *state);
    if (state == NULL) return dcpar_fail_memory(error, "policy buddy");
    planner->state = state;
    state->next_of = calloc(buckets, sizeof *state->next_of);
    state->counts = calloc(buckets, sizeof *state->counts);
    if (state->next_of == NULL || state->counts == NULL) return dcpar_fail_memory(error, "policy buddy");
    set_size(planner, state);
    return dcpar_fill_space_create(planner->options.world, planner->table->buckets, &state->space, error);
}

static void start_epoch(dcpar_planner *planner) {
    buddy_state *state = planner->state;
    state->position = 0;
}

static dcpar_status grow_rows(buddy_state *state, int64_t count, dcpar_error *error) {
    if (count < state->capacity) return DCPAR_OK;
    const int64_t capacity = state->capacity > 0 ? 2 * state->capacity : 1024;
    taken_row *taken = realloc(state->taken, (size_t)capacity * sizeof *taken);
    if (taken != NULL) state->taken = taken;
    int64_t *sorted = realloc(state->sorted, (size_t)capacity * sizeof *sorted);
    if (sorted != NULL) state->sorted = sorted;
    if (taken == NULL || sorted == NULL) return dcpar_fail_memory(error, "the rows of an iteration");
    state->capacity = capacity;
    return DCPAR_OK;
}

/* Takes sequences from the stream until the next one would be too many; at least one. */
static dcpar_status take(dcpar_planner *planner, buddy_state *state, int64_t *count, dcpar_error *error) {
    int64_t tokens = 0;
    *count = 0;
    for (; state->position < planner->count; ++state->position) {
        const int64_t row = dcpar_planner_row(planner, state->position);
        const int32_t bucket = dcpar_planner_bucket(planner, row);
        if (bucket < 0) continue;
        const int64_t length = planner->lengths[row];
        const bool full = state->sequences > 0 ? *count == state->sequences : tokens > state->tokens - length;
        if (*count > 0 && full) break;
        DCPAR_TRY(grow_rows(state, *count, error));
        state->taken[(*count)++] = (taken_row){row, bucket};
        ++state->counts[bucket];
        tokens += length;
    }
    return DCPAR_OK;
}

/* sorted[]: the rows from the longest bucket down, in stream order within each. */
static void sort_by_bucket(const dcpar_planner *planner, buddy_state *state, int64_t count) {
    int64_t start = 0;
    for (int32_t bucket = planner->table->buckets - 1; bucket >= 0; --bucket) {
        state->next_of[bucket] = start;
        start += state->counts[bucket];
    }
    for (int64_t i = 0; i < count; ++i) state->sorted[state->next_of[state->taken[i].bucket]++] = state->taken[i].row;
}

/* next_of[bucket]: where in sorted[] the placements of each bucket start to take rows. */
static void start_taking(const dcpar_planner *planner, buddy_state *state) {
    const dcpar_filling *filling = &state->space.best;
    const size_t bytes = (size_t)planner->table->buckets * sizeof *state->next_of;
    memset(state->next_of, 0, bytes);
    for (int64_t i = 0; i < filling->count; ++i)
        state->next_of[filling->placements[i].bucket] += filling->placements[i].batch;
    int64_t start = 0;
    for (int32_t bucket = planner->table->buckets - 1; bucket >= 0; --bucket) {
        const int64_t taken = state->next_of[bucket];
        state->next_of[bucket] = start;
        start += taken;
    }
}

static dcpar_status emit(dcpar_planner *planner, buddy_state *state, dcpar_plan *plan, dcpar_error *error) {
    start_taking(planner, state);
    for (int64_t i = 0; i < state->space.best.count; ++i) {
        const dcpar_placement *placement = &state->space.best.placements[i];
        DCPAR_TRY(dcpar_planner_add(planner, plan, placement->bucket, placement->column, placement->batch,
                                    placement->block, error));
        for (int32_t j = 0; j < placement->batch; ++j) {
            const int64_t row = state->sorted[state->next_of[placement->bucket]++];
            DCPAR_TRY(dcpar_planner_add_row(planner, plan, row, error));
        }
    }
    return DCPAR_OK;
}

static dcpar_status next(dcpar_planner *planner, dcpar_plan *plan, dcpar_error *error) {
    buddy_state *state = planner->state;
    memset(state->counts, 0, (size_t)planner->table->buckets * sizeof *state->counts);
    int64_t count;
    DCPAR_TRY(take(planner, state, &count, error));
    sort_by_bucket(planner, state, count);
    const dcpar_work work = {planner->table, &planner->chain, state->counts, planner->options.world};
    planner->iteration_bound = dcpar_bound(planner->table, state->counts, planner->options.world);
    DCPAR_TRY(dcpar_fill(&work, planner->iteration_bound, &state->space, error));
    DCPAR_TRY(dcpar_fill_exactly(&work, planner->iteration_bound, &state->space, error));
    return emit(planner, state, plan, error);
}

static int32_t save(const dcpar_planner *planner, int64_t *values) {
    const buddy_state *state = planner->state;
    values[0] = state->position;
    return 1;
}

static bool restore(dcpar_planner *planner, const int64_t *values, int32_t count) {
    buddy_state *state = planner->state;
    if (count != 1 || values[0] < 0 || values[0] > planner->count) return false;
    state->position = values[0];
    return true;
}

const dcpar_policy dcpar_policy_buddy = {
    .name = "buddy",
    .summary = "sequences in stream order, each where all ranks end together (ours)",
    .create = create,
    .destroy = destroy,
    .start_epoch = start_epoch,
    .next = next,
    .save = save,
    .restore = restore,
};
