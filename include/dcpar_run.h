/*
 * dcpar_run.h -- the runtime of Data-Centric Parallel: ranks that talk, and stepping through plans.
 *
 * A function is marked "collective" when every rank of the communicator has to call it, in the same order; "local"
 * functions may be called by any rank at any time.
 */
#ifndef DCPAR_RUN_H
#define DCPAR_RUN_H

#include "dcpar.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Communicators
 *
 * A dcpar_comm is one rank's view of a set of ranks that talk to each other. Two implementations stand behind it:
 * `local` (the ranks are threads of this process) and MPI. Reductions add in rank order, so that a sum has the same
 * bits every time. When a rank fails it calls dcpar_comm_abort: every other rank's present or next call then returns
 * DCPAR_PEER with that rank's sentence; nobody waits for ever.
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dcpar_comm dcpar_comm;

/* A rank's program. The status of the first rank that fails is the status of the whole run. */
typedef dcpar_status (*dcpar_rank_main)(dcpar_comm *world, void *argument, dcpar_error *error);

/* Runs `ranks` threads of this process as ranks 0..ranks-1, each calling `main_function(its comm, argument, ...)`, and
 * waits for all of them. A rank that returns an error aborts the others. Local. */
DCPAR_API dcpar_status dcpar_comm_run_local(int32_t ranks, dcpar_rank_main main_function, void *argument,
                                            dcpar_error *error);

/* True when this process was started by an MPI launcher (mpirun, srun), whether or not the library was built with MPI:
 * without it, dcpar_comm_run_mpi says so, where going on alone would do everything once per process. Local. */
DCPAR_API bool dcpar_comm_mpi_launched(void);

/* Initialises MPI if the caller has not, calls `main_function` with the world communicator, and finalises MPI if it
 * initialised it. DCPAR_UNSUPPORTED when the library was built without MPI. Collective over all MPI processes. */
DCPAR_API dcpar_status dcpar_comm_run_mpi(dcpar_rank_main main_function, void *argument, dcpar_error *error);

/* Local. */
DCPAR_API int32_t dcpar_comm_rank(const dcpar_comm *comm);
DCPAR_API int32_t dcpar_comm_size(const dcpar_comm *comm);

/* The communicator of this rank's aligned group of `width` consecutive ranks: those with the same rank / width.
 * Made once per width and kept; it belongs to `world`. *out is NULL on ranks of an incomplete last group (world size
 * not a multiple of width). Collective over `world`, for the first call of each width. */
DCPAR_API dcpar_status dcpar_comm_group(dcpar_comm *world, int32_t width, dcpar_comm **out, dcpar_error *error);

/* Collective. All ranks have arrived when it returns. */
DCPAR_API dcpar_status dcpar_comm_barrier(dcpar_comm *comm, dcpar_error *error);

typedef enum dcpar_reduction { DCPAR_SUM, DCPAR_MAX, DCPAR_MIN } dcpar_reduction;

/* Collective. values[count] of each rank are combined in place; every rank has the same bits afterwards. */
DCPAR_API dcpar_status dcpar_comm_all_reduce(dcpar_comm *comm, double *values, int64_t count, dcpar_reduction reduction,
                                             dcpar_error *error);

/* Collective. Rank i receives in output[count] the sum over ranks (in rank order, fp32) of input[i*count ...]: `input`
 * holds size * count floats. `output` may lie inside `input` at this rank's own part (input + rank * count). */
DCPAR_API dcpar_status dcpar_comm_reduce_scatter(dcpar_comm *comm, const float *input, float *output, int64_t count,
                                                 dcpar_error *error);

/* Collective. Every rank gives `bytes` bytes; output (size * bytes) holds them in rank order. `input` may be
 * output + rank * bytes. */
DCPAR_API dcpar_status dcpar_comm_all_gather(dcpar_comm *comm, const void *input, void *output, int64_t bytes,
                                             dcpar_error *error);

/* Collective. The `bytes` at input + j * bytes go to rank j, which finds them at output + (my rank) * bytes.
 * input and output are size * bytes each and do not overlap. */
DCPAR_API dcpar_status dcpar_comm_all_to_all(dcpar_comm *comm, const void *input, void *output, int64_t bytes,
                                             dcpar_error *error);

/* Collective. Rank `root`'s `bytes` bytes are copied to all. */
DCPAR_API dcpar_status dcpar_comm_broadcast(dcpar_comm *comm, void *data, int64_t bytes, int32_t root,
                                            dcpar_error *error);

/* Local. Ends the run: every rank's present or next call on any communicator of this world fails with DCPAR_PEER and
 * "rank R: TEXT" (under MPI the job is ended with that sentence on stderr). */
DCPAR_API void dcpar_comm_abort(dcpar_comm *comm, const char *text);

/* ------------------------------------------------------------------------------------------------------------------
 * Engine: stepping through plans with any model
 *
 * The engine owns the flat parameters and gradients of one rank's copy of the model, plans each iteration, hands this
 * rank its micro-batches, and steps ZeRO-1 AdamW (Rajbhandari et al., 2020; Loshchilov and Hutter, 2019): gradients are
 * sums over the whole iteration, reduce-scattered in rank order, divided by the iteration's weight, clipped by their
 * global norm, and applied on each rank's shard. A training loop is
 *
 *     while ((status = dcpar_engine_begin(engine, &error)) == DCPAR_OK) {
 *         dcpar_turn turn;
 *         while (dcpar_engine_turn(engine, &turn, &error)) {
 *             ... forward and backward of turn.microbatch->rows, this rank's part of it if turn.group is not NULL,
 *             ... adding the gradient of the SUM of losses to dcpar_engine_gradients(engine) ...
 *             dcpar_engine_add(engine, loss_sum, loss_tokens);
 *         }
 *         if ((status = dcpar_engine_step(engine, &result, &error)) != DCPAR_OK) break;
 *     }                                                       (status is DCPAR_END after the last iteration)
 *
 * With p > 1 each rank of a group adds the loss, the weight and the gradient of its own part of the tokens.
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dcpar_engine dcpar_engine;

typedef struct dcpar_engine_options {
    size_t size;                                 /* of this struct */
    double learning_rate, final_learning_rate;   /* after warm-up, and at the end of the cosine */
    int64_t warmup_iterations, total_iterations; /* linear from 0, then cosine; total 0: constant after warm-up */
    double beta1, beta2, epsilon, weight_decay;
    double clip_norm; /* 0: no clipping */
} dcpar_engine_options;

#define DCPAR_ENGINE_OPTIONS_INIT {sizeof(dcpar_engine_options), 3e-4, 3e-5, 20, 0, 0.9, 0.95, 1e-8, 0.1, 1.0}

/* An engine for `parameter_count` parameters (zeros at first: fill dcpar_engine_parameters the same on every rank).
 * `planner` may be NULL for who has a plan of their own: then dcpar_engine_turn hands out nothing, and every rank adds
 * what it has run. It and `world` are borrowed. Collective over `world`. */
DCPAR_API dcpar_status dcpar_engine_create(dcpar_comm *world, dcpar_planner *planner, int64_t parameter_count,
                                           const dcpar_engine_options *options, dcpar_engine **out, dcpar_error *error);
DCPAR_API void dcpar_engine_destroy(dcpar_engine *engine);

/* [parameter_count] each, 64-byte aligned, for as long as the engine lives. Local. */
DCPAR_API float *dcpar_engine_parameters(dcpar_engine *engine);
DCPAR_API float *dcpar_engine_gradients(dcpar_engine *engine);

/* Bytes that parameters, gradients and optimizer state take on one of `world` ranks. Local. */
DCPAR_API int64_t dcpar_engine_bytes(int64_t parameter_count, int32_t world);

/* Plans the next iteration, compares the plan's hash with all ranks' (DCPAR_PLAN when they differ), sets gradients to
 * zero. DCPAR_END after the epoch's last iteration. Collective over the world. */
DCPAR_API dcpar_status dcpar_engine_begin(dcpar_engine *engine, dcpar_error *error);

/* This rank's next micro-batch. */
typedef struct dcpar_turn {
    const dcpar_microbatch *microbatch;
    dcpar_comm *group; /* the ranks that share it; NULL when this rank runs it alone */
    int32_t part;      /* this rank's part, 0 .. microbatch->sp - 1 */
} dcpar_turn;

/* False when this rank has none left, or a rank of the group failed (then dcpar_engine_step says so). Collective over
 * the micro-batch's group: its ranks start together, so that waiting is not counted as work. */
DCPAR_API bool dcpar_engine_turn(dcpar_engine *engine, dcpar_turn *turn, dcpar_error *error);

/* Ends the turn, where there is a planner: this rank's sum of losses and what they are divided by in the end, loss
 * tokens (or sequences, for who weighs every sequence alike). Local. */
DCPAR_API void dcpar_engine_add(dcpar_engine *engine, double loss_sum, double weight);

/* What an iteration came to; the same on every rank. */
typedef struct dcpar_result {
    int64_t iteration; /* since the engine's first, from 0 */
    double loss;       /* mean over the iteration's weight; 0 when that is 0 */
    double weight;
    double gradient_norm, learning_rate;
    double seconds;      /* from begin to the end of the step */
    double work_seconds; /* of the longest rank, without the step */
    double step_seconds; /* of the step */
    double idle_ratio;   /* mean over ranks of (work_seconds - busy) / work_seconds */
    dcpar_metrics plan;  /* what was predicted */
} dcpar_result;

/* Ends the iteration: reduction, clipping, AdamW, new parameters on all ranks. Collective over the world. */
DCPAR_API dcpar_status dcpar_engine_step(dcpar_engine *engine, dcpar_result *result, dcpar_error *error);

/* The present iteration's plan, until the next begin. Local. */
DCPAR_API const dcpar_plan *dcpar_engine_plan(const dcpar_engine *engine);

/* Measured start and seconds of each of the plan's micro-batches, [2 * their count]: those of the group's slowest rank.
 * After dcpar_engine_step. Collective over the world. */
DCPAR_API dcpar_status dcpar_engine_times(dcpar_engine *engine, double *start_and_seconds, dcpar_error *error);

/* The optimizer's two moments, for checkpoints: [parameter_count] floats each. Saving gathers one of them (0 or 1) into
 * dcpar_engine_gradients; restoring takes it from there. Collective over the world. */
DCPAR_API dcpar_status dcpar_engine_gather_moment(dcpar_engine *engine, int which, dcpar_error *error);
DCPAR_API void dcpar_engine_restore_moment(dcpar_engine *engine, int which);

/* Iterations stepped so far: read, or set after restoring. Local. */
DCPAR_API int64_t dcpar_engine_iteration(const dcpar_engine *engine);
DCPAR_API void dcpar_engine_set_iteration(dcpar_engine *engine, int64_t iteration);

/* ------------------------------------------------------------------------------------------------------------------
 * Profiling any model (dual-layer, section 3.5)
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dcpar_probe {
    void *context;
    /* Runs a micro-batch of row->batch sequences of row->length tokens on `group` (NULL: this rank alone) with a model
     * of two layers, fills in the rest of *row. DCPAR_DEVICE_MEMORY: it does not fit; every other failure ends the
     * profile. Collective over the group. */
    dcpar_status (*measure)(void *context, dcpar_comm *group, dcpar_profile_row *row, dcpar_error *error);
} dcpar_probe;

typedef struct dcpar_measure_options {
    size_t size;               /* of this struct */
    int64_t shortest, longest; /* tokens: measured at these and at every power of two between */
    const char *partial_path;  /* rows are kept here as they come, and taken from here at the start; NULL: not */
    void (*progress)(void *context, int64_t done, int64_t total,
                     const dcpar_profile_row *last); /* rank 0; may be NULL */
    void *progress_context;
    bool (*stop)(void); /* true: keep what there is and return DCPAR_INTERRUPTED; may be NULL */
} dcpar_measure_options;

#define DCPAR_MEASURE_OPTIONS_INIT {sizeof(dcpar_measure_options), 64, 0, NULL, NULL, NULL, NULL}

/* Measures every legal SP size of info->world = the communicator's size: lengths as above, batches 1, 2, 4 ... until
 * memory or usefulness ends. Free groups measure other points at the same time; all ranks have the same profile in the
 * end, with the slowest rank's times. Collective over `world`. */
DCPAR_API dcpar_status dcpar_profile_measure(dcpar_comm *world, const dcpar_probe *probe,
                                             const dcpar_profile_info *info, const dcpar_measure_options *options,
                                             dcpar_profile **out, dcpar_error *error);

#ifdef __cplusplus
}
#endif

#endif
