#define _POSIX_C_SOURCE 200809L /* clock_gettime */
/* The engine: plans an iteration, hands out its micro-batches, and steps ZeRO-1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "train/optimizer.h"

#define ALIGNMENT 64

struct dcpar_engine {
    dcpar_comm *world;
    dcpar_planner *planner;
    dcpar_engine_options options;
    int64_t parameter_count;
    int64_t shard; /* floats a rank steps: world size * shard >= parameter_count, the rest is zero */
    float *parameters, *gradients;
    float *moments[2]; /* [shard] each */

    int64_t iteration;
    dcpar_plan *plan;
    int64_t next_turn; /* place in this rank's queue */
    bool in_turn;
    double begun, turn_started; /* on the monotonic clock */
    double busy, ended;         /* seconds of work, and when the last turn ended, from `begun` */
    double loss, weight;
    double *times;       /* [2 * micro-batches] start and end of those this rank took part in */
    dcpar_status failed; /* of a turn: reported by the step */
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int64_t shard_of(int64_t parameter_count, int32_t world) {
    const int64_t floats = ALIGNMENT / (int64_t)sizeof(float);
    const int64_t shard = (parameter_count + world - 1) / world;
    return (shard + floats - 1) / floats * floats;
}

int64_t dcpar_engine_bytes(int64_t parameter_count, int32_t world) {
    return shard_of(parameter_count, world) * (2 * world + 2) * (int64_t)sizeof(float);
}

static float *allocate(int64_t count) {
    float *values = aligned_alloc(ALIGNMENT, (size_t)count * sizeof *values);
    if (values != NULL) memset(values, 0, (size_t)count * sizeof *values);
    return values;
}

dcpar_status dcpar_engine_create(dcpar_comm *world, dcpar_planner *planner, int64_t parameter_count,
                                 const dcpar_engine_options *options, dcpar_engine **out, dcpar_error *error) {
    if (options->size != sizeof *options)
        return dcpar_fail(error, DCPAR_INVALID, "the engine's options are those of another version of the library");
    if (parameter_count < 1) return dcpar_fail(error, DCPAR_INVALID, "a model without parameters cannot be trained");
    dcpar_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) return dcpar_fail_memory(error, "the engine");
    const int32_t ranks = dcpar_comm_size(world);
    engine->world = world;
    engine->planner = planner;
    engine->options = *options;
    engine->parameter_count = parameter_count;
    engine->shard = shard_of(parameter_count, ranks);
    engine->parameters = allocate(engine->shard * ranks);
    engine->gradients = allocate(engine->shard * ranks);
    for (int i = 0; i < 2; ++i) engine->moments[i] = allocate(engine->shard);
    if (engine->parameters == NULL || engine->gradients == NULL || engine->moments[0] == NULL ||
        engine->moments[1] == NULL) {
        dcpar_engine_destroy(engine);
        return dcpar_fail_memory(error, "parameters, gradients and optimizer state");
    }
    *out = engine;
    return DCPAR_OK;
}

void dcpar_engine_destroy(dcpar_engine *engine) {
    if (engine == NULL) return;
    free(engine->parameters);
    free(engine->gradients);
    free(engine->moments[0]);
    free(engine->moments[1]);
    free(engine->times);
    dcpar_plan_destroy(engine->plan);
    free(engine);
}

float *dcpar_engine_parameters(dcpar_engine *engine) { return engine->parameters; }

float *dcpar_engine_gradients(dcpar_engine *engine) { return engine->gradients; }

const dcpar_plan *dcpar_engine_plan(const dcpar_engine *engine) { return engine->plan; }

int64_t dcpar_engine_iteration(const dcpar_engine *engine) { return engine->iteration; }

void dcpar_engine_set_iteration(dcpar_engine *engine, int64_t iteration) { engine->iteration = iteration; }

/* ----------------------------------------------------------------------------------------------- begin */

/* Every rank has made its plan by itself; they must be one plan, or ranks would wait for each other for ever. */
static dcpar_status compare_plans(dcpar_engine *engine, dcpar_status planned, dcpar_error *error) {
    const uint64_t hash = planned == DCPAR_OK ? dcpar_plan_hash(engine->plan) : 0;
    const double high = (double)(hash >> 32), low = (double)(hash & 0xffffffff), state = (double)planned;
    double most[6] = {high, low, state, -high, -low, -state};
    DCPAR_TRY(dcpar_comm_all_reduce(engine->world, most, 6, DCPAR_MAX, error));
    if (most[0] == -most[3] && most[1] == -most[4] && most[2] == -most[5]) return planned;
    return dcpar_fail(
        error, DCPAR_PLAN,
        "ranks made different plans for iteration %lld: they must have the same lengths, profile, options "
        "and version",
        (long long)engine->iteration);
}

/* All ranks make a group's communicator together, also those that are in no such group or run nothing there: made in
 * the turns, ranks would come to it in different orders, or not at all. Those that are made already cost nothing. */
static dcpar_status make_groups(dcpar_engine *engine, dcpar_error *error) {
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(engine->plan, &count);
    for (int64_t i = 0; i < count; ++i) {
        dcpar_comm *group;
        if (microbatches[i].sp > 1) DCPAR_TRY(dcpar_comm_group(engine->world, microbatches[i].sp, &group, error));
    }
    return DCPAR_OK;
}

/* The next plan, the same on all ranks, and room for its times. */
static dcpar_status make_plan(dcpar_engine *engine, dcpar_error *error) {
    dcpar_error planning = {0};
    dcpar_status planned = dcpar_planner_next(engine->planner, &engine->plan, &planning);
    int64_t count = 0;
    if (planned == DCPAR_OK) {
        dcpar_plan_microbatches(engine->plan, &count);
        double *times = realloc(engine->times, (size_t)(2 * count) * sizeof *times);
        if (times == NULL)
            planned = dcpar_fail_memory(&planning, "measured times");
        else
            engine->times = times;
    }
    if (planned != DCPAR_OK && error != NULL) *error = planning;
    DCPAR_TRY(compare_plans(engine, planned, error));
    memset(engine->times, 0, (size_t)(2 * count) * sizeof *engine->times);
    return make_groups(engine, error);
}

dcpar_status dcpar_engine_begin(dcpar_engine *engine, dcpar_error *error) {
    dcpar_plan_destroy(engine->plan);
    engine->plan = NULL;
    if (engine->planner != NULL) DCPAR_TRY(make_plan(engine, error));
    memset(engine->gradients, 0, (size_t)(engine->shard * dcpar_comm_size(engine->world)) * sizeof(float));
    engine->next_turn = 0;
    engine->in_turn = false;
    engine->busy = engine->ended = engine->loss = engine->weight = 0;
    engine->failed = DCPAR_OK;
    DCPAR_TRY(dcpar_comm_barrier(engine->world, error));
    engine->begun = now();
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------------ turns */

bool dcpar_engine_turn(dcpar_engine *engine, dcpar_turn *turn, dcpar_error *error) {
    if (engine->plan == NULL) return false;
    int64_t count;
    const int32_t rank = dcpar_comm_rank(engine->world);
    const int64_t *queue = dcpar_plan_queue(engine->plan, rank, &count);
    if (engine->next_turn == count || engine->failed != DCPAR_OK) return false;
    int64_t total;
    const dcpar_microbatch *microbatch = &dcpar_plan_microbatches(engine->plan, &total)[queue[engine->next_turn]];
    *turn = (dcpar_turn){microbatch, NULL, rank - microbatch->first_rank};
    if (microbatch->sp > 1) {
        engine->failed = dcpar_comm_group(engine->world, microbatch->sp, &turn->group, error);
        if (engine->failed == DCPAR_OK) engine->failed = dcpar_comm_barrier(turn->group, error);
        if (engine->failed != DCPAR_OK) return false;
    }
    engine->turn_started = now();
    engine->in_turn = true;
    return true;
}

static void end_turn(dcpar_engine *engine) {
    int64_t count;
    const int64_t index = dcpar_plan_queue(engine->plan, dcpar_comm_rank(engine->world), &count)[engine->next_turn++];
    const double end = now();
    engine->in_turn = false;
    engine->busy += end - engine->turn_started;
    engine->ended = end - engine->begun;
    engine->times[2 * index] = engine->turn_started - engine->begun;
    engine->times[2 * index + 1] = engine->ended;
}

void dcpar_engine_add(dcpar_engine *engine, double loss_sum, double weight) {
    if (engine->in_turn) end_turn(engine);
    engine->loss += loss_sum;
    engine->weight += weight;
}

dcpar_status dcpar_engine_times(dcpar_engine *engine, double *start_and_seconds, dcpar_error *error) {
    int64_t count;
    dcpar_plan_microbatches(engine->plan, &count);
    memcpy(start_and_seconds, engine->times, (size_t)(2 * count) * sizeof *start_and_seconds);
    DCPAR_TRY(dcpar_comm_all_reduce(engine->world, start_and_seconds, 2 * count, DCPAR_MAX, error));
    for (int64_t i = 0; i < count; ++i) start_and_seconds[2 * i + 1] -= start_and_seconds[2 * i];
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------------- step */

/* The iteration's sums over all ranks, and the longest rank. */
static dcpar_status sum_up(dcpar_engine *engine, dcpar_result *result, dcpar_error *error) {
    double sums[3] = {engine->loss, engine->weight, engine->busy}, longest = engine->ended;
    DCPAR_TRY(dcpar_comm_all_reduce(engine->world, sums, 3, DCPAR_SUM, error));
    DCPAR_TRY(dcpar_comm_all_reduce(engine->world, &longest, 1, DCPAR_MAX, error));
    result->weight = sums[1];
    result->loss = sums[1] > 0 ? sums[0] / sums[1] : 0;
    result->work_seconds = longest;
    const double mean_busy = sums[2] / dcpar_comm_size(engine->world);
    result->idle_ratio = longest > 0 ? (longest - mean_busy) / longest : 0;
    return DCPAR_OK;
}

/* Reduces gradients, steps this rank's shard and gathers the new parameters. */
static dcpar_status update(dcpar_engine *engine, dcpar_result *result, dcpar_error *error) {
    const int32_t rank = dcpar_comm_rank(engine->world);
    float *gradients = engine->gradients + rank * engine->shard,
          *parameters = engine->parameters + rank * engine->shard;
    DCPAR_TRY(dcpar_comm_reduce_scatter(engine->world, engine->gradients, gradients, engine->shard, error));
    double squares = dcpar_sum_of_squares(gradients, engine->shard);
    DCPAR_TRY(dcpar_comm_all_reduce(engine->world, &squares, 1, DCPAR_SUM, error));
    double scale = result->weight > 0 ? 1 / result->weight : 0;
    result->gradient_norm = sqrt(squares) * scale;
    if (!isfinite(result->gradient_norm))
        return dcpar_fail(error, DCPAR_INVALID, "iteration %lld: the gradient norm is %g", (long long)engine->iteration,
                          result->gradient_norm);
    if (engine->options.clip_norm > 0 && result->gradient_norm > engine->options.clip_norm)
        scale *= engine->options.clip_norm / result->gradient_norm;
    result->learning_rate = dcpar_learning_rate(&engine->options, engine->iteration);
    dcpar_adamw(&engine->options, result->learning_rate, scale, engine->iteration + 1, engine->shard, gradients,
                parameters, engine->moments[0], engine->moments[1]);
    return dcpar_comm_all_gather(engine->world, parameters, engine->parameters,
                                 engine->shard * (int64_t)sizeof *parameters, error);
}

dcpar_status dcpar_engine_step(dcpar_engine *engine, dcpar_result *result, dcpar_error *error) {
    if (engine->failed != DCPAR_OK) return engine->failed;
    *result = (dcpar_result){.iteration = engine->iteration};
    DCPAR_TRY(
        sum_up(engine, result, error)); /* all ranks have arrived when it returns: waiting is no part of the step */
    const double started = now();
    DCPAR_TRY(update(engine, result, error));
    const double ended = now();
    double seconds[2] = {ended - (engine->plan != NULL ? engine->begun : started), ended - started};
    DCPAR_TRY(dcpar_comm_all_reduce(engine->world, seconds, 2, DCPAR_MAX, error));
    result->seconds = seconds[0];
    result->step_seconds = seconds[1];
    if (engine->plan != NULL) result->plan = dcpar_plan_metrics(engine->plan);
    ++engine->iteration;
    return DCPAR_OK;
}

/* -------------------------------------------------------------------------------------------- checkpoints */

dcpar_status dcpar_engine_gather_moment(dcpar_engine *engine, int which, dcpar_error *error) {
    return dcpar_comm_all_gather(engine->world, engine->moments[which], engine->gradients,
                                 engine->shard * (int64_t)sizeof(float), error);
}

void dcpar_engine_restore_moment(dcpar_engine *engine, int which) {
    const int64_t first = dcpar_comm_rank(engine->world) * engine->shard;
    memcpy(engine->moments[which], engine->gradients + first, (size_t)engine->shard * sizeof(float));
}
