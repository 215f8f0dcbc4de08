/* The training loop of one policy. */
#include "train/run.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/path.h"
#include "report/progress.h"
#include "report/units.h"
#include "train/batch.h"
#include "train/checkpoint.h"
#include "train/metrics_log.h"

/* The report shows timelines from this iteration on: not of the first, in which memory is touched for the first time.
 */
#define FIRST_TIMELINE 1

/* One policy's run on one rank. */
typedef struct run {
    const dcpar_training *training;
    const dcpar_profile *profile;
    const dcpar_pieces *pieces;
    dcpar_comm *world;
    bool speaks; /* rank 0 */
    dcpar_planner *planner;
    dcpar_engine *engine;
    dcpar_arena *arena;
    dcpar_transformer *model;
    dcpar_batch batch;
    dcpar_run_identity identity;
    int64_t epoch;              /* since the run's first */
    int64_t iterations;         /* of this session */
    int64_t tokens;             /* trained on, in earlier sessions too */
    int64_t planned_iterations; /* of the whole run */
    char *folder;               /* NULL: nothing is written */
    dcpar_metrics_log log;
    dcpar_record *record;
    dcpar_progress progress;
    double *times;
    int64_t times_capacity;
    int32_t last_timeline_sizes; /* SP sizes of the iteration whose timeline was kept last */
} run;

/* ------------------------------------------------------------------------------------------------- set-up */

/* One part in so many is left free. */
#define MEMORY_MARGIN 128

int64_t dcpar_training_memory(const dcpar_training *training) {
    return training->memory - training->memory / MEMORY_MARGIN;
}

static int64_t total_tokens(const int64_t *lengths, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) total += lengths[i];
    return total;
}

static dcpar_status open_planner(run *run, const char *policy, dcpar_error *error) {
    dcpar_planner_options options = run->training->planning;
    options.world = dcpar_comm_size(run->world);
    options.policy = policy;
    options.memory = dcpar_training_memory(run->training);
    return dcpar_planner_create(run->profile, dcpar_pieces_lengths(run->pieces), dcpar_pieces_count(run->pieces),
                                &options, &run->planner, error);
}

/* Plans everything that will be trained before the first step: what cannot run is known now. Says how many iterations
 * there will be. */
static dcpar_status plan_ahead(run *run, dcpar_error *error) {
    const dcpar_training *training = run->training;
    int64_t tokens = 0;
    run->planned_iterations = 0;
    for (int64_t epoch = 0; epoch < training->epochs; ++epoch) {
        dcpar_planner_start_epoch(run->planner, training->planning.epoch + epoch);
        for (;;) {
            if (training->iterations > 0 && run->planned_iterations == training->iterations) break;
            if (training->tokens > 0 && tokens >= training->tokens) break;
            dcpar_plan *plan = NULL;
            dcpar_status status = dcpar_planner_next(run->planner, &plan, error);
            if (status == DCPAR_END) break;
            if (status == DCPAR_OK) status = dcpar_plan_check(plan, training->memory, error);
            if (status == DCPAR_OK) tokens += dcpar_plan_metrics(plan).tokens;
            dcpar_plan_destroy(plan);
            if (status != DCPAR_OK) return status;
            ++run->planned_iterations;
        }
    }
    const dcpar_epoch_summary summary = dcpar_planner_summary(run->planner);
    if (run->speaks && !training->quiet) {
        char count[DCPAR_UNIT_TEXT], bytes[DCPAR_UNIT_TEXT], limit[DCPAR_UNIT_TEXT];
        const dcpar_worst_case worst = dcpar_planner_worst_case(run->planner);
        printf("  %lld iterations planned and checked, %s tokens; of %lld sequences %lld dropped (%lld empty, %lld too "
               "long)\n",
               (long long)run->planned_iterations, dcpar_text_count((double)tokens, count), (long long)summary.total,
               (long long)summary.dropped, (long long)summary.dropped_empty, (long long)summary.dropped_too_long);
        printf("  most memory: %s of %s for %d x %lld tokens on %d rank%s, %d layers recomputed\n",
               dcpar_text_bytes(worst.bytes, bytes), dcpar_text_bytes(training->memory, limit), worst.batch,
               (long long)worst.padded_length, worst.sp, worst.sp == 1 ? "" : "s", worst.recompute);
        fflush(stdout);
    }
    dcpar_planner_start_epoch(run->planner, training->planning.epoch);
    return DCPAR_OK;
}

static dcpar_status open_model(run *run, dcpar_error *error) {
    const dcpar_model_config *config = &run->training->model->config;
    const int64_t parameters = dcpar_transformer_parameter_count(config);
    dcpar_engine_options options = run->training->stepping;
    if (options.total_iterations == 0) options.total_iterations = run->planned_iterations;
    DCPAR_TRY(dcpar_engine_create(run->world, run->planner, parameters, &options, &run->engine, error));
    DCPAR_TRY(dcpar_arena_create(run->training->memory, &run->arena, error));
    const int64_t state = dcpar_engine_bytes(parameters, dcpar_comm_size(run->world));
    if (!dcpar_arena_reserve(run->arena, state))
        return dcpar_fail(error, DCPAR_DEVICE_MEMORY, "parameters, gradients and optimizer take %lld of %lld bytes",
                          (long long)state, (long long)run->training->memory);
    DCPAR_TRY(dcpar_transformer_create(config, dcpar_engine_parameters(run->engine),
                                       dcpar_engine_gradients(run->engine), run->arena, &run->model, error));
    dcpar_transformer_initialise(run->model, run->training->planning.seed);
    return DCPAR_OK;
}

static dcpar_status open_files(run *run, const char *policy, dcpar_error *error) {
    const dcpar_training *training = run->training;
    if (training->out == NULL) return DCPAR_OK;
    DCPAR_TRY(dcpar_path_join(training->out, training->policy_count > 1 ? policy : ".", &run->folder, error));
    char *path = NULL;
    if (training->resume) {
        DCPAR_TRY(dcpar_path_join(run->folder, "checkpoint.safetensors", &path, error));
        const dcpar_status status = dcpar_checkpoint_load(path, run->world, run->engine, run->model, run->planner,
                                                          &run->identity, &run->tokens, error);
        free(path);
        if (status != DCPAR_OK) return status;
        run->epoch = dcpar_planner_summary(run->planner).epoch - training->planning.epoch;
    }
    if (!run->speaks) return DCPAR_OK;
    DCPAR_TRY(dcpar_path_make_folder(run->folder, error));
    DCPAR_TRY(dcpar_path_join(run->folder, "metrics.jsonl", &path, error));
    const dcpar_status status = dcpar_metrics_log_open(path, dcpar_engine_iteration(run->engine), &run->log, error);
    free(path);
    return status;
}

static void close_run(run *run) {
    dcpar_progress_finish(&run->progress);
    dcpar_metrics_log_close(&run->log);
    dcpar_batch_destroy(&run->batch);
    dcpar_transformer_destroy(run->model);
    dcpar_arena_destroy(run->arena);
    dcpar_engine_destroy(run->engine);
    dcpar_planner_destroy(run->planner);
    free(run->folder);
    free(run->times);
}

/* ---------------------------------------------------------------------------------------------- iterations */

static dcpar_status run_turns(run *run, dcpar_error *error) {
    dcpar_turn turn;
    while (dcpar_engine_turn(run->engine, &turn, error)) {
        const dcpar_microbatch *microbatch = turn.microbatch;
        dcpar_tokens tokens;
        double loss;
        int64_t loss_tokens;
        DCPAR_TRY(dcpar_batch_fill(&run->batch, run->training->dataset, run->pieces, microbatch->rows,
                                   microbatch->row_count, microbatch->padded_length, microbatch->sp, turn.part, &tokens,
                                   error));
        DCPAR_TRY(
            dcpar_transformer_run(run->model, turn.group, &tokens, microbatch->recompute, &loss, &loss_tokens, error));
        dcpar_engine_add(run->engine, loss, run->batch.weight);
    }
    return DCPAR_OK;
}

static int32_t count_sizes(const dcpar_plan *plan) {
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    int32_t sizes = 0;
    for (int64_t i = 0; i < count; ++i) {
        bool seen = false;
        for (int64_t j = 0; j < i && !seen; ++j) seen = microbatches[j].sp == microbatches[i].sp;
        sizes += !seen;
    }
    return sizes;
}

/* The first ones, and at last whichever uses the most SP sizes. The same answer on all ranks. */
static bool is_worth_a_timeline(run *run) {
    if (run->iterations < FIRST_TIMELINE) return false;
    const int32_t sizes = count_sizes(dcpar_engine_plan(run->engine));
    const bool has_room = run->iterations < FIRST_TIMELINE + DCPAR_RECORD_TIMELINES;
    if (!has_room && sizes <= run->last_timeline_sizes) return false;
    run->last_timeline_sizes = sizes;
    return true;
}

static dcpar_status keep_timeline(run *run, const dcpar_result *result, dcpar_error *error) {
    int64_t count;
    const dcpar_plan *plan = dcpar_engine_plan(run->engine);
    dcpar_plan_microbatches(plan, &count);
    if (2 * count > run->times_capacity) {
        double *larger = realloc(run->times, (size_t)(2 * count) * sizeof *larger);
        if (larger == NULL) return dcpar_fail_memory(error, "measured times");
        run->times = larger;
        run->times_capacity = 2 * count;
    }
    DCPAR_TRY(dcpar_engine_times(run->engine, run->times, error));
    if (!run->speaks) return DCPAR_OK;
    return dcpar_record_add_timeline(run->record, result, plan, run->times,
                                     dcpar_profile_get_info(run->profile)->step_seconds, error);
}

/* After an iteration: figures to file, record and screen. */
static dcpar_status report_iteration(run *run, const dcpar_result *result, int64_t peak_bytes, dcpar_error *error) {
    const dcpar_report_iteration iteration = {
        .iteration = result->iteration,
        .tokens = result->plan.tokens,
        .loss = result->loss,
        .seconds = result->seconds,
        .predicted_seconds = result->plan.seconds + dcpar_profile_get_info(run->profile)->step_seconds,
        .idle_ratio = result->idle_ratio,
        .predicted_idle_ratio = result->plan.idle_ratio,
        .gradient_norm = result->gradient_norm,
        .learning_rate = result->learning_rate,
        .peak_bytes = peak_bytes,
        .predicted_peak_bytes = result->plan.peak_bytes,
    };
    if (is_worth_a_timeline(run)) DCPAR_TRY(keep_timeline(run, result, error));
    if (!run->speaks) return DCPAR_OK;
    char text[80];
    snprintf(text, sizeof text, "loss %.3f, %.0f tokens/s", result->loss, (double)iteration.tokens / result->seconds);
    dcpar_progress_update(&run->progress, result->iteration + 1, text);
    DCPAR_TRY(dcpar_record_add(run->record, &iteration, error));
    return run->log.file != NULL ? dcpar_metrics_log_write(&run->log, &iteration, error) : DCPAR_OK;
}

static dcpar_status save_checkpoint(run *run, dcpar_error *error) {
    if (run->folder == NULL) return DCPAR_OK;
    char *path = NULL;
    DCPAR_TRY(dcpar_path_join(run->folder, "checkpoint.safetensors", &path, error));
    const dcpar_status status = dcpar_checkpoint_save(path, run->world, run->engine, run->model, run->planner,
                                                      &run->identity, run->tokens, error);
    free(path);
    return status;
}

/* One iteration; DCPAR_END when the last epoch is over. */
static dcpar_status iterate(run *run, dcpar_error *error) {
    dcpar_status status = dcpar_engine_begin(run->engine, error);
    while (status == DCPAR_END && run->epoch + 1 < run->training->epochs) {
        dcpar_planner_start_epoch(run->planner, run->training->planning.epoch + ++run->epoch);
        status = dcpar_engine_begin(run->engine, error);
    }
    if (status != DCPAR_OK) return status;
    dcpar_arena_reset_peak(run->arena);
    dcpar_result result;
    DCPAR_TRY(run_turns(run, error));
    double peak = (double)dcpar_arena_peak(run->arena);
    DCPAR_TRY(dcpar_engine_step(run->engine, &result, error));
    DCPAR_TRY(dcpar_comm_all_reduce(run->world, &peak, 1, DCPAR_MAX, error));
    DCPAR_TRY(report_iteration(run, &result, (int64_t)peak, error));
    run->tokens += result.plan.tokens;
    ++run->iterations;
    return DCPAR_OK;
}

/* Whether any rank has been asked to stop. */
static dcpar_status asked_to_stop(const run *run, bool *stop, dcpar_error *error) {
    double asked = run->training->stop != NULL && run->training->stop();
    DCPAR_TRY(dcpar_comm_all_reduce(run->world, &asked, 1, DCPAR_MAX, error));
    *stop = asked > 0;
    return DCPAR_OK;
}

static dcpar_status iterate_all(run *run, dcpar_error *error) {
    const dcpar_training *training = run->training;
    for (;;) {
        const int64_t done = dcpar_engine_iteration(run->engine);
        bool stop;
        DCPAR_TRY(asked_to_stop(run, &stop, error));
        if (stop) {
            DCPAR_TRY(save_checkpoint(run, error));
            return dcpar_fail(error, DCPAR_INTERRUPTED, "interrupted after %lld iterations%s", (long long)done,
                              run->folder != NULL ? "; go on with --resume" : "");
        }
        if (training->iterations > 0 && done >= training->iterations) break;
        if (training->stop_after > 0 && run->iterations >= training->stop_after) break;
        if (training->tokens > 0 && run->tokens >= training->tokens) break;
        const dcpar_status status = iterate(run, error);
        if (status == DCPAR_END) break;
        if (status != DCPAR_OK) return status;
        if (training->checkpoint_every > 0 && (done + 1) % training->checkpoint_every == 0)
            DCPAR_TRY(save_checkpoint(run, error));
    }
    return save_checkpoint(run, error);
}

dcpar_status dcpar_run_policy(dcpar_comm *world, const dcpar_training *training, const dcpar_profile *profile,
                              const dcpar_pieces *pieces, const char *policy, dcpar_record *record,
                              dcpar_error *error) {
    run run = {.training = training, .profile = profile, .pieces = pieces, .world = world, .record = record};
    const int64_t *lengths = dcpar_dataset_lengths(training->dataset);
    const int64_t count = dcpar_dataset_count(training->dataset);
    run.speaks = dcpar_comm_rank(world) == 0;
    run.batch.by_sequence = training->weigh_sequences;
    run.identity =
        (dcpar_run_identity){training->model->text, training->planning.seed,
                             dcpar_dataset_fingerprint(training->dataset), count, total_tokens(lengths, count)};
    dcpar_progress_start(&run.progress, stderr, policy, 0, training->quiet || !run.speaks);
    dcpar_status status = open_planner(&run, policy, error);
    if (status == DCPAR_OK) status = plan_ahead(&run, error);
    run.progress.total = run.planned_iterations;
    if (status == DCPAR_OK) status = open_model(&run, error);
    if (status == DCPAR_OK) status = open_files(&run, policy, error);
    if (status == DCPAR_OK) status = iterate_all(&run, error);
    close_run(&run);
    return status;
}
