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

/* True when this process was started by an MPI launcher (mpirun, srun) and the library was built with MPI. Local. */
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
DCPAR_API dcpar_status dcpar_comm_all_reduce(dcpar_comm *comm, double *values, int64_t count,
                                             dcpar_reduction reduction, dcpar_error *error);

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

#ifdef __cplusplus
}
#endif

#endif
