/* How long ranks take to meet and to exchange data.
 *
 *     comm_bench [ranks ...]                          ranks that are threads (default 2 4 8)
 *     mpirun -n 4 [--oversubscribe] comm_bench        ranks that are processes
 *
 * Every line is the median, over trials, of a trial's mean; rank 0's clock counts. "Small" operations carry 8 bytes
 * for each rank, "1 MiB" ones 1 MiB of this rank's in all. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "dcpar_run.h"

enum { TRIALS = 9, SMALL_BYTES = 8, LARGE_BYTES = 1 << 20 };

/* A trial is as many calls as take about this long. */
#define TRIAL_SECONDS 0.02

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *room_for(int64_t bytes) {
    void *room = calloc(1, (size_t)bytes);
    if (room == NULL) abort();
    return room;
}

/* Room for the largest operation; `bytes` is what each rank gives to each rank. */
typedef struct buffers {
    void *input, *output;
    int64_t bytes;
} buffers;

typedef dcpar_status (*operation)(dcpar_comm *comm, const buffers *buffers, dcpar_error *error);

static dcpar_status barrier(dcpar_comm *comm, const buffers *buffers, dcpar_error *error) {
    (void)buffers;
    return dcpar_comm_barrier(comm, error);
}

static dcpar_status all_to_all(dcpar_comm *comm, const buffers *buffers, dcpar_error *error) {
    return dcpar_comm_all_to_all(comm, buffers->input, buffers->output, buffers->bytes, error);
}

static dcpar_status all_gather(dcpar_comm *comm, const buffers *buffers, dcpar_error *error) {
    return dcpar_comm_all_gather(comm, buffers->input, buffers->output, buffers->bytes, error);
}

static dcpar_status reduce_scatter(dcpar_comm *comm, const buffers *buffers, dcpar_error *error) {
    return dcpar_comm_reduce_scatter(comm, buffers->input, buffers->output, buffers->bytes / (int64_t)sizeof(float),
                                     error);
}

/* Reduces as many bytes as the other operations carry. */
static dcpar_status all_reduce(dcpar_comm *comm, const buffers *buffers, dcpar_error *error) {
    const int64_t bytes = buffers->bytes == SMALL_BYTES ? SMALL_BYTES : buffers->bytes * dcpar_comm_size(comm);
    return dcpar_comm_all_reduce(comm, buffers->output, bytes / (int64_t)sizeof(double), DCPAR_SUM, error);
}

static dcpar_status time_calls(dcpar_comm *comm, operation call, const buffers *buffers, int64_t calls, double *seconds,
                               dcpar_error *error) {
    DCPAR_TRY(dcpar_comm_barrier(comm, error));
    const double start = now();
    for (int64_t i = 0; i < calls; ++i) DCPAR_TRY(call(comm, buffers, error));
    *seconds = (now() - start) / (double)calls;
    return dcpar_comm_broadcast(comm, seconds, sizeof *seconds, 0, error);
}

static int ascending(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static dcpar_status measure(dcpar_comm *comm, const char *name, operation call, const buffers *buffers,
                            dcpar_error *error) {
    double trials[TRIALS];
    DCPAR_TRY(time_calls(comm, call, buffers, 20, &trials[0], error)); /* warms up, and tells how many calls to make */
    const int64_t calls = (int64_t)(TRIAL_SECONDS / trials[0]) + 1;
    for (int trial = 0; trial < TRIALS; ++trial)
        DCPAR_TRY(time_calls(comm, call, buffers, calls, &trials[trial], error));
    qsort(trials, TRIALS, sizeof *trials, ascending);
    if (dcpar_comm_rank(comm) == 0)
        printf("%5d  %-20s  %10.2f us\n", (int)dcpar_comm_size(comm), name, 1e6 * trials[TRIALS / 2]);
    return DCPAR_OK;
}

static dcpar_status measure_all(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    const int64_t size = dcpar_comm_size(world);
    buffers small = {room_for(size * SMALL_BYTES), room_for(size * SMALL_BYTES), SMALL_BYTES};
    buffers large = {room_for(LARGE_BYTES), room_for(LARGE_BYTES), LARGE_BYTES / size / 8 * 8};
    const struct {
        const char *name;
        operation call;
        const buffers *buffers;
    } lines[] = {
        {"barrier", barrier, &small},
        {"all_to_all small", all_to_all, &small},
        {"all_reduce small", all_reduce, &small},
        {"all_to_all 1 MiB", all_to_all, &large},
        {"all_gather 1 MiB", all_gather, &large},
        {"reduce_scatter 1 MiB", reduce_scatter, &large},
        {"all_reduce 1 MiB", all_reduce, &large},
    };
    dcpar_status status = DCPAR_OK;
    for (size_t i = 0; i < sizeof lines / sizeof *lines && status == DCPAR_OK; ++i)
        status = measure(world, lines[i].name, lines[i].call, lines[i].buffers, error);
    free(small.input);
    free(small.output);
    free(large.input);
    free(large.output);
    return status;
}

static int run_local(int32_t ranks) {
    dcpar_error error;
    if (dcpar_comm_run_local(ranks, measure_all, NULL, &error) == DCPAR_OK) return 0;
    fprintf(stderr, "%s\n", error.text);
    return 1;
}

int main(int argc, char **argv) {
    dcpar_error error;
    if (dcpar_comm_mpi_launched()) {
        if (dcpar_comm_run_mpi(measure_all, NULL, &error) == DCPAR_OK) return 0;
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    int code = 0;
    for (int i = 1; i < argc; ++i) code |= run_local(atoi(argv[i]));
    for (int32_t ranks = 2; argc == 1 && ranks <= 8; ranks *= 2) code |= run_local(ranks);
    return code;
}
