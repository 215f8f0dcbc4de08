/* Microseconds of what ranks say to each other.
 *
 *     comm_bench                                among 2, 4 and 8 threads of this process
 *     mpirun -n 4 --oversubscribe comm_bench    among these processes
 *
 * The best of several rounds counts, so that what else runs on the machine is left out. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "dcpar_run.h"

#define ROUNDS 7
#define ROUND_SECONDS 0.05 /* about how long the calls of one round take */
#define LARGE_BYTES (INT64_C(1) << 20)

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* What is called again and again. */
typedef struct work {
    dcpar_comm *comm;
    char *input, *output; /* [size * LARGE_BYTES] */
    int64_t bytes;        /* a rank gives to all the others together */
} work;

typedef struct measurement {
    const char *name;
    dcpar_status (*call)(const work *work, dcpar_error *error);
    int64_t bytes;
} measurement;

static dcpar_status barrier(const work *work, dcpar_error *error) { return dcpar_comm_barrier(work->comm, error); }

static dcpar_status all_to_all(const work *work, dcpar_error *error) {
    return dcpar_comm_all_to_all(work->comm, work->input, work->output, work->bytes / dcpar_comm_size(work->comm),
                                 error);
}

static dcpar_status all_reduce(const work *work, dcpar_error *error) {
    return dcpar_comm_all_reduce(work->comm, (double *)(void *)work->input, work->bytes / (int64_t)sizeof(double),
                                 DCPAR_MAX, error);
}

static dcpar_status reduce_scatter(const work *work, dcpar_error *error) {
    const int64_t floats = work->bytes / (int64_t)sizeof(float);
    return dcpar_comm_reduce_scatter(work->comm, (float *)(void *)work->input, (float *)(void *)work->output,
                                     floats / dcpar_comm_size(work->comm), error);
}

static dcpar_status all_gather(const work *work, dcpar_error *error) {
    return dcpar_comm_all_gather(work->comm, work->input, work->output, work->bytes, error);
}

static const measurement measurements[] = {
    {"barrier", barrier, 0},
    {"all_reduce of 1 double", all_reduce, 8},
    {"all_to_all of 64 bytes", all_to_all, 64},
    {"all_to_all of 4 KiB", all_to_all, 4096},
    {"all_to_all of 64 KiB", all_to_all, INT64_C(1) << 16},
    {"all_to_all of 1 MiB", all_to_all, LARGE_BYTES},
    {"all_gather of 1 MiB", all_gather, LARGE_BYTES},
    {"reduce_scatter of 1 MiB", reduce_scatter, LARGE_BYTES},
};

/* Seconds of `calls` calls, the slowest rank's; all ranks get the same. */
static dcpar_status time_calls(const measurement *measurement, const work *work, int64_t calls, double *seconds,
                               dcpar_error *error) {
    DCPAR_TRY(dcpar_comm_barrier(work->comm, error));
    const double start = now();
    for (int64_t i = 0; i < calls; ++i) DCPAR_TRY(measurement->call(work, error));
    *seconds = now() - start;
    return dcpar_comm_all_reduce(work->comm, seconds, 1, DCPAR_MAX, error);
}

static dcpar_status measure(const measurement *measurement, work *work, dcpar_error *error) {
    double seconds = 0.0, best = 0.0;
    int64_t calls = 4;
    work->bytes = measurement->bytes;
    DCPAR_TRY(time_calls(measurement, work, calls, &seconds, error));
    calls += (int64_t)(ROUND_SECONDS / seconds * (double)calls);
    for (int round = 0; round < ROUNDS; ++round) {
        DCPAR_TRY(time_calls(measurement, work, calls, &seconds, error));
        if (round == 0 || seconds < best) best = seconds;
    }
    if (dcpar_comm_rank(work->comm) == 0)
        printf("%d ranks  %-24s %10.2f us\n", (int)dcpar_comm_size(work->comm), measurement->name,
               1e6 * best / (double)calls);
    return DCPAR_OK;
}

static dcpar_status measure_all(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    const size_t room = (size_t)dcpar_comm_size(world) * (size_t)LARGE_BYTES;
    work work = {.comm = world, .input = calloc(1, room), .output = calloc(1, room)};
    dcpar_status status =
        work.input != NULL && work.output != NULL ? DCPAR_OK : dcpar_fail_memory(error, "what is exchanged");
    for (size_t i = 0; i < sizeof measurements / sizeof *measurements && status == DCPAR_OK; ++i)
        status = measure(&measurements[i], &work, error);
    free(work.input);
    free(work.output);
    return status;
}

int main(void) {
    dcpar_error error;
    dcpar_status status = DCPAR_OK;
    if (dcpar_comm_mpi_launched())
        status = dcpar_comm_run_mpi(measure_all, NULL, &error);
    else
        for (int32_t ranks = 2; ranks <= 8 && status == DCPAR_OK; ranks *= 2)
            status = dcpar_comm_run_local(ranks, measure_all, NULL, &error);
    if (status != DCPAR_OK) fprintf(stderr, "%s\n", error.text);
    return status == DCPAR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
