/* Policy `bucket`: the paper's baseline (section 2.3), tuned as well as it can be. One SP size for all, the smallest
 * that fits the longest sequence; batch sizes cut so that the times of all buckets are alike. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "plan/draw.h"

typedef struct bucket_state {
    dcpar_draw draw;
    int32_t groups;
    int64_t rounds; /* micro-batches a group runs in an iteration */
} bucket_state;

/* The largest batch of a bucket that takes at most `target` seconds, at least 1. */
static int32_t batch_within(const dcpar_planner *planner, int32_t bucket, int32_t column, double target) {
    const int32_t batch = dcpar_shapes_within(dcpar_table_at(planner->table, bucket, column), target);
    if (batch > planner->bucket_count[bucket]) return (int32_t)planner->bucket_count[bucket];
    return batch > 0 ? batch : 1;
}

typedef struct chance {
    double seconds, weight;
} chance;

static int compare_chances(const void *left, const void *right) {
    const double a = ((const chance *)left)->seconds, b = ((const chance *)right)->seconds;
    return a < b ? -1 : a > b;
}

/* The expected longest of `groups` independent draws. */
static double expected_longest(chance *chances, int32_t count, int32_t groups) {
    double total = 0, below = 0, before = 0, longest = 0;
    qsort(chances, (size_t)count, sizeof *chances, compare_chances);
    for (int32_t i = 0; i < count; ++i) total += chances[i].weight;
    for (int32_t i = 0; i < count; ++i) {
        below += chances[i].weight;
        const double all_within = pow(fmin(below / total, 1), groups);
        longest += chances[i].seconds * (all_within - before);
        before = all_within;
    }
    return longest;
}

/* Tokens of a round of `groups` micro-batches, and its expected seconds, when bucket times are cut to `target`. */
static double expected_tokens(const dcpar_planner *planner, int32_t column, int32_t groups, double target,
                              chance *chances, double *seconds) {
    double batches = 0;
    int32_t count = 0;
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
        if (planner->bucket_count[bucket] == 0) continue;
        const dcpar_shapes *shapes = dcpar_table_at(planner->table, bucket, column);
        const int32_t batch = batch_within(planner, bucket, column, target);
        const double weight = (double)planner->bucket_count[bucket] / batch;
        chances[count++] = (chance){shapes->shape[batch].seconds, weight};
        batches += weight;
    }
    *seconds = expected_longest(chances, count, groups);
    return groups * (double)planner->usable_tokens / batches;
}

/* Tries every time that some batch of some bucket takes; returns the one with the best throughput. */
static double best_target(const dcpar_planner *planner, int32_t column, int32_t groups, chance *chances) {
    double best = 0, best_throughput = 0;
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
        const dcpar_shapes *shapes = dcpar_table_at(planner->table, bucket, column);
        for (int32_t batch = 1; batch <= shapes->most; ++batch) {
            double seconds;
            const double target = shapes->shape[batch].seconds;
            const double tokens = expected_tokens(planner, column, groups, target, chances, &seconds);
            if (tokens / seconds <= best_throughput) continue;
            best_throughput = tokens / seconds;
            best = target;
        }
    }
    return best;
}

static void destroy(dcpar_planner *planner) {
    bucket_state *state = planner->state;
    dcpar_draw_destroy(&state->draw);
    free(state);
}

static dcpar_status create(dcpar_planner *planner, dcpar_error *error) {
    const dcpar_table *table = planner->table;
    const int32_t column = planner->chain.column[0];
    bucket_state *state = calloc(1, sizeof *state);
    chance *chances = malloc((size_t)table->buckets * sizeof *chances);
    if (state == NULL || chances == NULL) {
        free(state);
        free(chances);
        return dcpar_fail_memory(error, "policy bucket");
    }
    state->groups = planner->options.world / table->width[column];
    const dcpar_status status = dcpar_draw_create(planner, &state->draw, error);
    if (status != DCPAR_OK) {
        free(state);
        free(chances);
        return status;
    }
    const double target = best_target(planner, column, state->groups, chances);
    double seconds;
    const double tokens = expected_tokens(planner, column, state->groups, target, chances, &seconds);
    free(chances);
    for (int32_t bucket = 0; bucket < table->buckets; ++bucket) {
        const bool used = planner->bucket_count[bucket] > 0;
        state->draw.column[bucket] = used ? column : -1;
        state->draw.batch[bucket] = used ? batch_within(planner, bucket, column, target) : 1;
    }
    double wanted = (double)planner->options.tokens_per_iteration;
    if (planner->options.sequences_per_iteration > 0)
        wanted =
            (double)planner->options.sequences_per_iteration * (double)planner->usable_tokens / (double)planner->usable;
    state->rounds = wanted > tokens ? (int64_t)(wanted / tokens + 0.5) : 1;
    planner->state = state;
    return DCPAR_OK;
}

static void start_epoch(dcpar_planner *planner) {
    bucket_state *state = planner->state;
    dcpar_draw_start_epoch(&state->draw, planner->table->buckets);
}

static dcpar_status next(dcpar_planner *planner, dcpar_plan *plan, dcpar_error *error) {
    bucket_state *state = planner->state;
    for (int64_t round = 0; round < state->rounds; ++round)
        for (int32_t group = 0; group < state->groups; ++group) {
            const int32_t bucket = dcpar_draw_next(planner, &state->draw, planner->options.world);
            if (bucket < 0) break;
            DCPAR_TRY(dcpar_draw_place(planner, &state->draw, plan, bucket, group, error));
            dcpar_draw_end_iteration(&state->draw, planner->table->buckets);
        }
    return DCPAR_OK;
}

static int32_t save(const dcpar_planner *planner, int64_t *values) {
    const bucket_state *state = planner->state;
    return dcpar_draw_save(planner, &state->draw, values);
}

static bool restore(dcpar_planner *planner, const int64_t *values, int32_t count) {
    bucket_state *state = planner->state;
    return dcpar_draw_restore(planner, &state->draw, values, count);
}

const dcpar_policy dcpar_policy_bucket = {
    .name = "bucket",
    .summary = "one SP size for all, batch sizes cut to one time (the paper's baseline)",
    .recompute_all = true,
    .one_size = true,
    .draws = true,
    .create = create,
    .destroy = destroy,
    .start_epoch = start_epoch,
    .next = next,
    .save = save,
    .restore = restore,
};
