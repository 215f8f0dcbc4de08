/* Ranks that are MPI processes.
 *
 * MPI's own reductions may add in any order; here they are exchanges of data and additions in rank order. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, clock_gettime */
#include "base/error.h"
#include "comm/comm.h"

#ifndef DCPAR_HAVE_MPI

dcpar_status dcpar_comm_run_mpi(dcpar_rank_main main_function, void *argument, dcpar_error *error) {
    (void)main_function;
    (void)argument;
    return dcpar_fail(error, DCPAR_UNSUPPORTED, "%s",
                      dcpar_comm_mpi_launched()
                          ? "this process was started by an MPI launcher, but dcpar is built without MPI"
                          : "dcpar is built without MPI");
}

#else

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/mpi_board.h"

/* Scratch of one reduction; longer ones go in pieces. */
#define SCRATCH_BYTES (INT64_C(4) << 20)

/* So many values are reduced by every rank for itself. */
#define FEW_VALUES 512

/* How long a failed rank gives the others to end by themselves before it ends the job, and how often a rank that is
 * done looks whether somebody waits for it. */
#define PATIENCE_SECONDS 1.0

/* At the end of a run ranks sleep this long between looks: others may be working still. */
#define LOOK_NANOSECONDS 1000000

typedef struct mpi_comm {
    dcpar_comm base;
    MPI_Comm handle;
    dcpar_mpi_board *board; /* of the world */
    int64_t calls;          /* collective calls so far, for the board */
} mpi_comm;

static const dcpar_comm_functions mpi_functions;

static mpi_comm *as_mpi(dcpar_comm *comm) { return (mpi_comm *)comm; }

/* DCPAR_PEER with MPI's own words when `code` is an error. */
static dcpar_status check(const char *operation, int code, dcpar_error *error) {
    if (code == MPI_SUCCESS) return DCPAR_OK;
    char words[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    MPI_Error_string(code, words, &length);
    return dcpar_fail(error, DCPAR_PEER, "%s: %s", operation, words);
}

#define TRY_MPI(operation, call) DCPAR_TRY(check((operation), (call), error))

static int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Around everything in which ranks wait for each other. */
static mpi_comm *enter(dcpar_comm *base) {
    mpi_comm *comm = as_mpi(base);
    comm->calls += 1;
    dcpar_mpi_board_enter(comm->board, base->size, comm->calls);
    return comm;
}

static dcpar_status leave(mpi_comm *comm, dcpar_status status) {
    dcpar_mpi_board_leave(comm->board);
    return status;
}

/* ------------------------------------------------------------------------------------------------ long messages */

/* The type of a block of `bytes` bytes whose neighbour starts `stride` bytes further: MPI's counts are ints, but with
 * it every count is 1, and a piece of every rank's long block is one call. */
static dcpar_status make_block_type(int64_t bytes, int64_t stride, MPI_Datatype *out, dcpar_error *error) {
    MPI_Datatype flat;
    TRY_MPI("MPI_Type_contiguous", MPI_Type_contiguous((int)bytes, MPI_BYTE, &flat));
    int code = MPI_Type_create_resized(flat, 0, (MPI_Aint)stride, out);
    MPI_Type_free(&flat);
    TRY_MPI("MPI_Type_create_resized", code);
    code = MPI_Type_commit(out);
    if (code != MPI_SUCCESS) MPI_Type_free(out);
    return check("MPI_Type_commit", code, error);
}

/* One piece: `bytes` at input + j * input_stride to rank j, those of rank i to output + i * output_stride. */
static dcpar_status exchange_piece(mpi_comm *comm, const unsigned char *input, int64_t input_stride,
                                   unsigned char *output, int64_t output_stride, int64_t bytes, dcpar_error *error) {
    MPI_Datatype sent, received;
    DCPAR_TRY(make_block_type(bytes, input_stride, &sent, error));
    dcpar_status status = make_block_type(bytes, output_stride, &received, error);
    if (status == DCPAR_OK) {
        status = check("MPI_Alltoall", MPI_Alltoall(input, 1, sent, output, 1, received, comm->handle), error);
        MPI_Type_free(&received);
    }
    MPI_Type_free(&sent);
    return status;
}

/* The same with blocks of any length. */
static dcpar_status exchange(mpi_comm *comm, const unsigned char *input, int64_t input_stride, unsigned char *output,
                             int64_t output_stride, int64_t bytes, dcpar_error *error) {
    const int64_t largest = comm->base.largest_message;
    if (bytes <= largest && input_stride == bytes && output_stride == bytes)
        return check("MPI_Alltoall",
                     MPI_Alltoall(input, (int)bytes, MPI_BYTE, output, (int)bytes, MPI_BYTE, comm->handle), error);
    for (int64_t start = 0; start < bytes; start += largest)
        DCPAR_TRY(exchange_piece(comm, input + start, input_stride, output + start, output_stride,
                                 smaller_of(bytes - start, largest), error));
    return DCPAR_OK;
}

/* One piece of every rank's block; this rank's is in `output` already. */
static dcpar_status gather_piece(mpi_comm *comm, unsigned char *output, int64_t stride, int64_t bytes,
                                 dcpar_error *error) {
    MPI_Datatype received;
    DCPAR_TRY(make_block_type(bytes, stride, &received, error));
    const int code = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output, 1, received, comm->handle);
    MPI_Type_free(&received);
    return check("MPI_Allgather", code, error);
}

static dcpar_status gather(mpi_comm *comm, const void *input, void *output, int64_t bytes, dcpar_error *error) {
    const int64_t largest = comm->base.largest_message;
    unsigned char *mine = (unsigned char *)output + comm->base.rank * bytes;
    if (bytes > 0 && mine != input) memcpy(mine, input, (size_t)bytes);
    if (bytes <= largest)
        return check("MPI_Allgather",
                     MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output, (int)bytes, MPI_BYTE, comm->handle),
                     error);
    for (int64_t start = 0; start < bytes; start += largest)
        DCPAR_TRY(
            gather_piece(comm, (unsigned char *)output + start, bytes, smaller_of(bytes - start, largest), error));
    return DCPAR_OK;
}

/* --------------------------------------------------------------------------------------------------- operations */

static dcpar_status mpi_barrier(dcpar_comm *base, dcpar_error *error) {
    mpi_comm *comm = enter(base);
    return leave(comm, check("MPI_Barrier", MPI_Barrier(comm->handle), error));
}

static dcpar_status mpi_all_gather(dcpar_comm *base, const void *input, void *output, int64_t bytes,
                                   dcpar_error *error) {
    mpi_comm *comm = enter(base);
    return leave(comm, gather(comm, input, output, bytes, error));
}

static dcpar_status mpi_all_to_all(dcpar_comm *base, const void *input, void *output, int64_t bytes,
                                   dcpar_error *error) {
    mpi_comm *comm = enter(base);
    return leave(comm, exchange(comm, input, bytes, output, bytes, bytes, error));
}

static dcpar_status mpi_broadcast(dcpar_comm *base, void *data, int64_t bytes, int32_t root, dcpar_error *error) {
    mpi_comm *comm = enter(base);
    dcpar_status status = DCPAR_OK;
    for (int64_t start = 0; start < bytes && status == DCPAR_OK; start += base->largest_message) {
        const int64_t piece = smaller_of(bytes - start, base->largest_message);
        status = check("MPI_Bcast", MPI_Bcast((unsigned char *)data + start, (int)piece, MPI_BYTE, root, comm->handle),
                       error);
    }
    return leave(comm, status);
}

/* How many of `count` elements of each rank go in one piece, and scratch for that many of all ranks. */
static dcpar_status make_scratch(const dcpar_comm *comm, int64_t count, int64_t element, int64_t *piece, void **scratch,
                                 dcpar_error *error) {
    const int64_t fitting = SCRATCH_BYTES / element / comm->size;
    *piece = smaller_of(count, fitting > 0 ? fitting : 1);
    *scratch = malloc((size_t)(comm->size * *piece * element));
    return *scratch != NULL ? DCPAR_OK : dcpar_fail_memory(error, "a reduction");
}

/* results[count] = blocks[rank][count], combined in rank order. */
static void combine_blocks(const double *blocks, int32_t ranks, int64_t count, double *results,
                           dcpar_reduction reduction) {
    memcpy(results, blocks, (size_t)count * sizeof *results);
    for (int32_t rank = 1; rank < ranks; ++rank)
        dcpar_combine_doubles(results, blocks + rank * count, count, reduction);
}

/* values[size][slice]: each rank combines one slice, then all take the others'. */
static dcpar_status reduce_slices(dcpar_comm *base, double *values, int64_t slice, dcpar_reduction reduction,
                                  double *scratch, dcpar_error *error) {
    const int64_t bytes = slice * (int64_t)sizeof *values;
    double *mine = values + base->rank * slice;
    DCPAR_TRY(mpi_all_to_all(base, values, scratch, bytes, error));
    combine_blocks(scratch, base->size, slice, mine, reduction);
    return mpi_all_gather(base, mine, values, bytes, error);
}

/* Every rank combines all of values[count]: one exchange instead of two, for few values. */
static dcpar_status reduce_whole(dcpar_comm *base, double *values, int64_t count, dcpar_reduction reduction,
                                 double *scratch, dcpar_error *error) {
    DCPAR_TRY(mpi_all_gather(base, values, scratch, count * (int64_t)sizeof *values, error));
    combine_blocks(scratch, base->size, count, values, reduction);
    return DCPAR_OK;
}

static dcpar_status mpi_all_reduce(dcpar_comm *base, double *values, int64_t count, dcpar_reduction reduction,
                                   dcpar_error *error) {
    if (count == 0) return DCPAR_OK;
    int64_t piece;
    void *scratch;
    DCPAR_TRY(make_scratch(base, count, sizeof *values, &piece, &scratch, error));
    dcpar_status status = DCPAR_OK;
    int64_t done = 0;
    while (count - done > FEW_VALUES && status == DCPAR_OK) {
        const int64_t slice = smaller_of((count - done) / base->size, piece);
        if (slice == 0) break;
        status = reduce_slices(base, values + done, slice, reduction, scratch, error);
        done += slice * base->size;
    }
    for (; done < count && status == DCPAR_OK; done += piece)
        status = reduce_whole(base, values + done, smaller_of(count - done, piece), reduction, scratch, error);
    free(scratch);
    return status;
}

static dcpar_status mpi_reduce_scatter(dcpar_comm *base, const float *input, float *output, int64_t count,
                                       dcpar_error *error) {
    if (count == 0) return DCPAR_OK;
    int64_t piece;
    void *scratch;
    DCPAR_TRY(make_scratch(base, count, sizeof *input, &piece, &scratch, error));
    const int64_t stride = count * (int64_t)sizeof *input;
    const float *received = scratch;
    mpi_comm *comm = enter(base);
    dcpar_status status = DCPAR_OK;
    for (int64_t start = 0; start < count; start += piece) {
        const int64_t here = smaller_of(count - start, piece);
        const int64_t bytes = here * (int64_t)sizeof *input;
        status = exchange(comm, (const unsigned char *)(input + start), stride, scratch, bytes, bytes, error);
        if (status != DCPAR_OK) break;
        memcpy(output + start, received, (size_t)bytes);
        for (int32_t rank = 1; rank < base->size; ++rank)
            dcpar_combine_floats(output + start, received + rank * here, here);
    }
    free(scratch);
    return leave(comm, status);
}

static void mpi_abort(dcpar_comm *comm, const char *text) {
    fprintf(stderr, "dcpar: rank %d: %s\n", (int)comm->world->rank, text);
    fflush(stderr);
    MPI_Abort(as_mpi(comm->world)->handle, EXIT_FAILURE);
}

/* ------------------------------------------------------------------------------------------------------- groups */

static dcpar_status mpi_group(dcpar_comm *world, int32_t width, dcpar_comm **out, dcpar_error *error) {
    const int32_t first = world->rank / width * width;
    const bool complete = first + width <= world->size;
    mpi_comm *group = calloc(1, sizeof *group);
    if (group == NULL) return dcpar_fail_memory(error, "a group");
    group->base = (dcpar_comm){.functions = &mpi_functions,
                               .world = world,
                               .rank = world->rank - first,
                               .size = width,
                               .largest_message = world->largest_message};
    group->board = as_mpi(world)->board;
    /* The new communicator inherits the error handler. */
    mpi_comm *comm = enter(world);
    const int code =
        MPI_Comm_split(comm->handle, complete ? world->rank / width : MPI_UNDEFINED, world->rank, &group->handle);
    *out = complete && code == MPI_SUCCESS ? &group->base : NULL;
    if (*out == NULL) free(group);
    return leave(comm, check("MPI_Comm_split", code, error));
}

static void mpi_destroy(dcpar_comm *group) {
    MPI_Comm_free(&as_mpi(group)->handle);
    free(as_mpi(group));
}

static const dcpar_comm_functions mpi_functions = {
    .group = mpi_group,
    .destroy = mpi_destroy,
    .barrier = mpi_barrier,
    .all_reduce = mpi_all_reduce,
    .reduce_scatter = mpi_reduce_scatter,
    .all_gather = mpi_all_gather,
    .all_to_all = mpi_all_to_all,
    .broadcast = mpi_broadcast,
    .abort = mpi_abort,
};

/* -------------------------------------------------------------------------------------------------------- a run */

/* What is set up before the ranks' mains are called, so that ending a run needs nothing that may be lacking. */
typedef struct run {
    mpi_comm world;
    MPI_Comm ending; /* of its own: another rank may be within an exchange of `world` that will never be complete */
    dcpar_mpi_board board;
    int *statuses; /* [size] */
} run;

static void run_close(run *run) {
    dcpar_comm_destroy_groups(&run->world.base);
    free(run->statuses);
    dcpar_mpi_board_close(&run->board);
    if (run->ending != MPI_COMM_NULL) MPI_Comm_free(&run->ending);
    if (run->world.handle != MPI_COMM_NULL) MPI_Comm_free(&run->world.handle);
}

static dcpar_status run_open(run *run, dcpar_error *error) {
    *run = (struct run){.world.handle = MPI_COMM_NULL, .ending = MPI_COMM_NULL, .board.window = MPI_WIN_NULL};
    int rank = 0, size = 0;
    TRY_MPI("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &run->world.handle));
    MPI_Comm_set_errhandler(run->world.handle, MPI_ERRORS_RETURN);
    TRY_MPI("MPI_Comm_dup", MPI_Comm_dup(run->world.handle, &run->ending));
    TRY_MPI("MPI_Comm_rank", MPI_Comm_rank(run->world.handle, &rank));
    TRY_MPI("MPI_Comm_size", MPI_Comm_size(run->world.handle, &size));
    run->world.base = (dcpar_comm){
        .functions = &mpi_functions, .world = &run->world.base, .rank = rank, .size = size, .largest_message = INT_MAX};
    dcpar_mpi_board_open(&run->board, run->world.handle);
    run->world.board = &run->board;
    run->statuses = calloc((size_t)size, sizeof *run->statuses);
    return run->statuses != NULL ? DCPAR_OK : dcpar_fail_memory(error, "the ranks of a run");
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* How many calls this rank has made in its group of `width`. */
static int64_t calls_in(const run *run, int32_t width) {
    const dcpar_comm *world = &run->world.base;
    if (width == world->size) return run->world.calls;
    for (int32_t i = 0; i < world->group_count; ++i)
        if (world->groups[i].width == width && world->groups[i].group != NULL)
            return as_mpi(world->groups[i].group)->calls;
    return 0;
}

/* The first rank that is within a call which this rank has not made and never will, or -1. */
static int32_t who_waits(run *run) {
    const dcpar_comm *world = &run->world.base;
    for (int32_t rank = 0; rank < world->size; ++rank) {
        int32_t width;
        int64_t calls;
        if (rank != world->rank && dcpar_mpi_board_read(&run->board, rank, &width, &calls) &&
            rank / width == world->rank / width && calls > calls_in(run, width))
            return rank;
    }
    return -1;
}

/* Waits until all ranks' statuses are here. False when they will not come: this rank has failed and the others do not
 * end, or it is done and another waits for it, or MPI fails; `sentence` says so unless it tells a failure already. */
static bool wait_for_statuses(run *run, MPI_Request *request, dcpar_error *sentence) {
    double start = seconds();
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        if (seconds() - start > PATIENCE_SECONDS) {
            if (sentence->status != DCPAR_OK) return false;
            const int32_t rank = who_waits(run);
            if (rank >= 0) {
                dcpar_fail(sentence, DCPAR_PEER, "has left while rank %d waits for it", (int)rank);
                return false;
            }
            start = seconds();
        }
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NANOSECONDS}, NULL);
    }
    if (!done && sentence->status == DCPAR_OK) dcpar_fail(sentence, DCPAR_PEER, "MPI fails at the end of the run");
    return done != 0;
}

/* All ranks get the status and the sentence of the first rank that failed. When they cannot, the job is ended. */
static dcpar_status agree(run *run, dcpar_status mine, dcpar_error *error) {
    dcpar_comm *world = &run->world.base;
    const int status = mine;
    MPI_Request request;
    dcpar_error sentence = {mine, ""};
    if (mine != DCPAR_OK)
        dcpar_fail(&sentence, mine, "%s", error->text[0] != '\0' ? error->text : dcpar_status_text(mine));

    TRY_MPI("MPI_Iallgather", MPI_Iallgather(&status, 1, MPI_INT, run->statuses, 1, MPI_INT, run->ending, &request));
    if (!wait_for_statuses(run, &request, &sentence)) {
        mpi_abort(world, sentence.text);
        return dcpar_fail(error, sentence.status, "%s", sentence.text);
    }
    for (int32_t rank = 0; rank < world->size; ++rank) {
        if (run->statuses[rank] == DCPAR_OK) continue;
        TRY_MPI("MPI_Bcast", MPI_Bcast(sentence.text, sizeof sentence.text, MPI_CHAR, rank, run->ending));
        return dcpar_fail(error, (dcpar_status)run->statuses[rank], "rank %d: %s", (int)rank, sentence.text);
    }
    return DCPAR_OK;
}

static dcpar_status run_world(dcpar_rank_main main_function, void *argument, dcpar_error *error) {
    run run;
    dcpar_status status = run_open(&run, error);
    if (status == DCPAR_OK) {
        error->text[0] = '\0';
        status = agree(&run, main_function(&run.world.base, argument, error), error);
    }
    run_close(&run);
    return status;
}

dcpar_status dcpar_comm_run_mpi(dcpar_rank_main main_function, void *argument, dcpar_error *error) {
    dcpar_error unheard;
    if (error == NULL) error = &unheard;
    int initialized = 0, finalized = 0, provided = 0;
    MPI_Finalized(&finalized);
    if (finalized) return dcpar_fail(error, DCPAR_INVALID, "MPI has been finalised: one process can run it once");
    MPI_Initialized(&initialized);
    if (!initialized) TRY_MPI("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided));
    const dcpar_status status = run_world(main_function, argument, error);
    if (!initialized) MPI_Finalize();
    return status;
}

#endif
