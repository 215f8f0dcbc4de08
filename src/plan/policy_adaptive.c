/* Policies `inter` and `intra`, as published (sections 3.3 and 3.4): every bucket has its own batch and SP size,
 * batches are drawn until the ranks are taken, and each runs as often as Eq. 3 says. `intra` also chooses how many
 * layers are recomputed (Algorithm 1). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "plan/draw.h"

/* What the publication leaves to the user; these keep an iteration near the time of its longest batch. */
#define DEFAULT_G_MIN 1
#define DEFAULT_G_MAX 4

/* To find the accumulation limit that gives the tokens asked for, this many iterations are played. */
#define TRIAL_ITERATIONS 24
#define MOST_G_MAX 1024

typedef struct adaptive_state {
    dcpar_draw draw;
    int32_t g_min, g_max;
    int32_t *drawn;  /* [world] buckets of this iteration, in the order of their groups */
    int32_t *repeat; /* [buckets] g of each */
    int32_t *groups; /* [buckets] groups that run it */
    double *seconds; /* [buckets] scratch for dcpar_accumulate */
    int32_t *sp, *g, *which;
} adaptive_state;

static void destroy(dcpar_planner *planner) {
    adaptive_state *state = planner->state;
    dcpar_draw_destroy(&state->draw);
    free(state->drawn);
    free(state->repeat);
    free(state->groups);
    free(state->seconds);
    free(state->sp);
    free(state->g);
    free(state->which);
    free(state);
}

/* Algorithm 1's choice for every bucket, among the widths of the chain. */
static void choose_shapes(const dcpar_planner *planner, dcpar_draw *draw) {
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
        double least = INFINITY;
        draw->column[bucket] = -1;
        draw->batch[bucket] = 1;
        for (int32_t i = 0; i < planner->chain.count; ++i) {
            const int32_t column = planner->chain.column[i];
            const dcpar_shapes *shapes = dcpar_table_at(planner->table, bucket, column);
            if (planner->bucket_count[bucket] == 0 || shapes->most == 0) continue;
            const int64_t count = planner->bucket_count[bucket];
            const int32_t batch = shapes->shape[shapes->most < count ? shapes->most : count].best;
            const double cost = planner->table->width[column] * shapes->shape[batch].seconds / batch;
            if (cost >= least) continue;
            least = cost;
            draw->column[bucket] = column;
            draw->batch[bucket] = batch;
        }
    }
}

static const dcpar_shape *shape_of(const dcpar_planner *planner, const dcpar_draw *draw, int32_t bucket) {
    return &dcpar_table_at(planner->table, bucket, draw->column[bucket])->shape[draw->batch[bucket]];
}

/* repeat[] of every bucket that groups[] has groups for. Groups of one bucket are one entry of Eq. 3 with their ranks
 * together: they take equally long. */
static dcpar_status accumulate(const dcpar_planner *planner, adaptive_state *state, int32_t g_min, int32_t g_max,
                               dcpar_error *error) {
    int32_t count = 0;
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
        if (state->groups[bucket] == 0) continue;
        state->seconds[count] = shape_of(planner, &state->draw, bucket)->seconds;
        state->sp[count] = state->groups[bucket] * planner->table->width[state->draw.column[bucket]];
        state->which[count++] = bucket;
    }
    DCPAR_TRY(dcpar_accumulate(state->seconds, state->sp, count, planner->options.world, g_min, g_max, state->g, NULL,
                               error));
    for (int32_t i = 0; i < count; ++i) state->repeat[state->which[i]] = state->g[i];
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------- the limit for tokens asked for */

/* Draws an iteration's groups as if buckets never ran out. */
static void draw_trial(const dcpar_planner *planner, adaptive_state *state, int64_t trial) {
    const dcpar_draw *draw = &state->draw;
    int32_t room = planner->options.world;
    uint64_t counter = 0;
    memset(state->groups, 0, (size_t)planner->table->buckets * sizeof *state->groups);
    for (;;) {
        double total = 0;
        for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket)
            if (draw->column[bucket] >= 0 && planner->table->width[draw->column[bucket]] <= room)
                total += ceil((double)planner->bucket_count[bucket] / draw->batch[bucket]);
        if (total == 0) return;
        double ticket = total * dcpar_random_unit(planner->options.seed, (uint64_t)trial, counter++);
        for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
            if (draw->column[bucket] < 0 || planner->table->width[draw->column[bucket]] > room) continue;
            ticket -= ceil((double)planner->bucket_count[bucket] / draw->batch[bucket]);
            if (ticket >= 0) continue;
            ++state->groups[bucket];
            room -= planner->table->width[draw->column[bucket]];
            break;
        }
    }
}

/* Mean tokens of an iteration under `g_max`. */
static dcpar_status trial_tokens(const dcpar_planner *planner, adaptive_state *state, int32_t g_max, double *tokens,
                                 dcpar_error *error) {
    *tokens = 0;
    for (int64_t trial = 0; trial < TRIAL_ITERATIONS; ++trial) {
        draw_trial(planner, state, trial);
        DCPAR_TRY(accumulate(planner, state, 1, g_max, error));
        for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
            if (state->groups[bucket] == 0) continue;
            const double mean = (double)planner->bucket_tokens[bucket] / (double)planner->bucket_count[bucket];
            *tokens += (double)state->groups[bucket] * state->repeat[bucket] * state->draw.batch[bucket] * mean /
                       TRIAL_ITERATIONS;
        }
    }
    return DCPAR_OK;
}

/* The limit under which iterations hold about `wanted` tokens: more tokens with every step up, so by bisection. */
static dcpar_status limit_for_tokens(const dcpar_planner *planner, adaptive_state *state, double wanted,
                                     dcpar_error *error) {
    int32_t low = 1, high = 1;
    double low_tokens, high_tokens;
    DCPAR_TRY(trial_tokens(planner, state, 1, &low_tokens, error));
    high_tokens = low_tokens;
    while (high_tokens < wanted && high < MOST_G_MAX) {
        low = high;
        low_tokens = high_tokens;
        high *= 2;
        DCPAR_TRY(trial_tokens(planner, state, high, &high_tokens, error));
    }
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        double tokens;
        DCPAR_TRY(trial_tokens(planner, state, middle, &tokens, error));
        if (tokens < wanted) {
            low = middle;
            low_tokens = tokens;
        } else {
            high = middle;
            high_tokens = tokens;
        }
    }
    state->g_min = 1;
    state->g_max = wanted - low_tokens < high_tokens - wanted ? low : high;
    return DCPAR_OK;
}

/* -------------------------------------------------------------------------------------- create and next */

static dcpar_status set_limits(const dcpar_planner *planner, adaptive_state *state, dcpar_error *error) {
    const dcpar_planner_options *options = &planner->options;
    state->g_min = options->g_min > 0 ? options->g_min : DEFAULT_G_MIN;
    state->g_max = options->g_max > 0 ? options->g_max : DEFAULT_G_MAX;
    if (options->g_max > 0 || options->g_min > 0) return DCPAR_OK;
    if (options->tokens_per_iteration > 0)
        return limit_for_tokens(planner, state, (double)options->tokens_per_iteration, error);
    if (options->sequences_per_iteration > 0)
        return limit_for_tokens(
            planner, state,
            (double)options->sequences_per_iteration * (double)planner->usable_tokens / (double)planner->usable, error);
    return DCPAR_OK;
}

static dcpar_status create(dcpar_planner *planner, dcpar_error *error) {
    const size_t buckets = (size_t)planner->table->buckets;
    adaptive_state *state = calloc(1, sizeof *state);
    if (state == NULL) return dcpar_fail_memory(error, "the policy");
    planner->state = state; /* destroyed with the planner, whatever fails below */
    DCPAR_TRY(dcpar_draw_create(planner, &state->draw, error));
    state->drawn = malloc((size_t)planner->options.world * sizeof *state->drawn);
    state->repeat = calloc(buckets, sizeof *state->repeat);
    state->groups = calloc(buckets, sizeof *state->groups);
    state->seconds = malloc(buckets * sizeof *state->seconds);
    state->sp = malloc(buckets * sizeof *state->sp);
    state->g = malloc(buckets * sizeof *state->g);
    state->which = malloc(buckets * sizeof *state->which);
    if (state->drawn == NULL || state->repeat == NULL || state->groups == NULL || state->seconds == NULL ||
        state->sp == NULL || state->g == NULL || state->which == NULL)
        return dcpar_fail_memory(error, "the policy");
    choose_shapes(planner, &state->draw);
    return set_limits(planner, state, error);
}

static void start_epoch(dcpar_planner *planner) {
    adaptive_state *state = planner->state;
    dcpar_draw_start_epoch(&state->draw, planner->table->buckets);
}

/* Draws until the ranks are taken; the wide ones first, so that every group is aligned. */
static int32_t draw_groups(const dcpar_planner *planner, adaptive_state *state) {
    int32_t room = planner->options.world, count = 0;
    memset(state->groups, 0, (size_t)planner->table->buckets * sizeof *state->groups);
    while (room > 0) {
        const int32_t bucket = dcpar_draw_next(planner, &state->draw, room);
        if (bucket < 0) break;
        const int32_t width = planner->table->width[state->draw.column[bucket]];
        int32_t place = count++;
        while (place > 0 && planner->table->width[state->draw.column[state->drawn[place - 1]]] < width) {
            state->drawn[place] = state->drawn[place - 1];
            --place;
        }
        state->drawn[place] = bucket;
        ++state->groups[bucket];
        room -= width;
    }
    return count;
}

static dcpar_status next(dcpar_planner *planner, dcpar_plan *plan, dcpar_error *error) {
    adaptive_state *state = planner->state;
    const int32_t count = draw_groups(planner, state);
    DCPAR_TRY(accumulate(planner, state, state->g_min, state->g_max, error));
    int32_t most = 0;
    for (int32_t i = 0; i < count; ++i)
        if (state->repeat[state->drawn[i]] > most) most = state->repeat[state->drawn[i]];
    for (int32_t turn = 0; turn < most; ++turn) { /* groups of one bucket take turns: its end is spread over them */
        int32_t first_rank = 0;
        for (int32_t i = 0; i < count; ++i) {
            const int32_t bucket = state->drawn[i], width = planner->table->width[state->draw.column[bucket]];
            if (turn < state->repeat[bucket])
                DCPAR_TRY(dcpar_draw_place(planner, &state->draw, plan, bucket, first_rank / width, error));
            first_rank += width;
        }
    }
    dcpar_draw_end_iteration(&state->draw, planner->table->buckets);
    return DCPAR_OK;
}

static int32_t save(const dcpar_planner *planner, int64_t *values) {
    const adaptive_state *state = planner->state;
    return dcpar_draw_save(planner, &state->draw, values);
}

static bool restore(dcpar_planner *planner, const int64_t *values, int32_t count) {
    adaptive_state *state = planner->state;
    return dcpar_draw_restore(planner, &state->draw, values, count);
}

const dcpar_policy dcpar_policy_inter = {
    .name = "inter",
    .summary = "batch and SP size by length, accumulation for balance (DCP-inter)",
    .recompute_all = true,
    .draws = true,
    .create = create,
    .destroy = destroy,
    .start_epoch = start_epoch,
    .next = next,
    .save = save,
    .restore = restore,
};

const dcpar_policy dcpar_policy_intra = {
    .name = "intra",
    .summary = "as inter, and no more layers recomputed than memory asks for (DCP-intra)",
    .draws = true,
    .create = create,
    .destroy = destroy,
    .start_epoch = start_epoch,
    .next = next,
    .save = save,
    .restore = restore,
};
