/* Ranks that are threads of this process.
 *
 * Every operation is: say where the data is, meet, copy from where the others said, and (unless the data went through
 * a mailbox) meet again so that nobody touches what is still being read. Small data is copied into the rank's mailbox
 * first; there are two, used in turn, so that one meeting is enough: who comes to the next one has read the last.
 *
 * The first meeting is broken when a rank fails or leaves. The second never is: all who passed the first one reach it,
 * so a failure elsewhere cannot free memory under a reader. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "comm/gate.h"

#define RANK_STACK_BYTES ((size_t)16 << 20)
#define MAILBOX_BYTES INT64_C(8192)
#define CACHE_LINE 64
#define BLOCK 1024 /* elements summed at a time, so that partial sums stay in the nearest cache */

typedef enum operation { BARRIER, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, BROADCAST } operation;

static const char *const operation_names[] = {"barrier",    "all_reduce", "reduce_scatter",
                                              "all_gather", "all_to_all", "broadcast"};

/* What a rank says when it comes to a meeting. */
typedef struct slot {
    _Alignas(CACHE_LINE) const void *data;
    int64_t bytes;
    operation what;
    int32_t detail; /* the root or the reduction */
} slot;

/* A set of ranks that meet: the world or a group. */
typedef struct meeting {
    struct meeting *next;
    int32_t first, size; /* ranks first .. first + size - 1 of the world */
    _Alignas(CACHE_LINE) dcpar_gate entry;
    _Alignas(CACHE_LINE) dcpar_gate exit;
    slot *slots;              /* [2][size] */
    unsigned char *mailboxes; /* [2][size][MAILBOX_BYTES] */
} meeting;

/* What all ranks of a run share. */
typedef struct run {
    int32_t ranks;
    pthread_mutex_t lock; /* for everything below */
    meeting *meetings;
    int32_t *leavers; /* [leaver_count] ranks whose main has returned, in that order */
    int32_t leaver_count;
    int32_t failed_rank; /* the first that failed, or -1 */
    dcpar_error failure; /* its sentence, "rank R: ..." */
} run;

/* One rank's view of a meeting. */
typedef struct local_comm {
    dcpar_comm base;
    run *run;
    meeting *meeting;
    int parity; /* which slot and mailbox the next operation uses */
} local_comm;

static const dcpar_comm_functions local_functions;

static local_comm *as_local(dcpar_comm *comm) { return (local_comm *)comm; }

static void copy(void *to, const void *from, int64_t bytes) {
    if (bytes > 0) memcpy(to, from, (size_t)bytes);
}

/* ----------------------------------------------------------------------------------------------------- meetings */

static void meeting_destroy(meeting *meeting) {
    if (meeting == NULL) return;
    free(meeting->slots);
    free(meeting->mailboxes);
    free(meeting);
}

static meeting *meeting_create(int32_t first, int32_t size) {
    meeting *made = aligned_alloc(CACHE_LINE, sizeof *made);
    if (made == NULL) return NULL;
    memset(made, 0, sizeof *made);
    made->first = first;
    made->size = size;
    made->slots = aligned_alloc(CACHE_LINE, 2 * (size_t)size * sizeof *made->slots);
    made->mailboxes = aligned_alloc(CACHE_LINE, 2 * (size_t)size * MAILBOX_BYTES);
    if (made->slots == NULL || made->mailboxes == NULL) {
        meeting_destroy(made);
        return NULL;
    }
    return made;
}

static bool has_member(const meeting *meeting, int32_t world_rank) {
    return world_rank >= meeting->first && world_rank < meeting->first + meeting->size;
}

/* The member that left first, or -1. With the lock held. */
static int32_t first_leaver(const run *run, const meeting *meeting) {
    for (int32_t i = 0; i < run->leaver_count; ++i)
        if (has_member(meeting, run->leavers[i])) return run->leavers[i];
    return -1;
}

/* The meeting of these ranks, made by whoever asks first. NULL: no memory. With the lock held. */
static meeting *find_meeting(run *run, int32_t first, int32_t size) {
    for (meeting *each = run->meetings; each != NULL; each = each->next)
        if (each->first == first && each->size == size) return each;
    meeting *made = meeting_create(first, size);
    if (made == NULL) return NULL;
    if (run->failed_rank >= 0 || first_leaver(run, made) >= 0) dcpar_gate_break(&made->entry);
    made->next = run->meetings;
    run->meetings = made;
    return made;
}

/* ----------------------------------------------------------------------------------------------------- failures */

/* The sentence for a broken meeting. */
static dcpar_status fail_peer(const local_comm *comm, dcpar_error *error) {
    run *run = comm->run;
    pthread_mutex_lock(&run->lock);
    const dcpar_status status = run->failed_rank >= 0 ? dcpar_fail(error, DCPAR_PEER, "%s", run->failure.text)
                                                      : dcpar_fail(error, DCPAR_PEER, "rank %d has left",
                                                                   (int)first_leaver(run, comm->meeting));
    pthread_mutex_unlock(&run->lock);
    return status;
}

static void fail_run(run *run, int32_t world_rank, const char *text) {
    pthread_mutex_lock(&run->lock);
    if (run->failed_rank < 0) {
        run->failed_rank = world_rank;
        dcpar_fail(&run->failure, DCPAR_PEER, "rank %d: %s", (int)world_rank, text);
        for (meeting *each = run->meetings; each != NULL; each = each->next) dcpar_gate_break(&each->entry);
    }
    pthread_mutex_unlock(&run->lock);
}

static void leave_run(run *run, int32_t world_rank) {
    pthread_mutex_lock(&run->lock);
    run->leavers[run->leaver_count++] = world_rank;
    for (meeting *each = run->meetings; each != NULL; each = each->next)
        if (has_member(each, world_rank)) dcpar_gate_break(&each->entry);
    pthread_mutex_unlock(&run->lock);
}

static void local_abort(dcpar_comm *comm, const char *text) { fail_run(as_local(comm)->run, comm->world->rank, text); }

/* ---------------------------------------------------------------------------------------------- meet and part */

static bool same_call(const slot *a, const slot *b) {
    return a->what == b->what && a->bytes == b->bytes && a->detail == b->detail;
}

static slot *slots_of_turn(const local_comm *comm) {
    return comm->meeting->slots + (comm->parity != 0 ? comm->base.size : 0);
}

/* All ranks see the same calls, so all of them fail or none. */
static dcpar_status check_calls(const local_comm *comm, const slot *slots, dcpar_error *error) {
    for (int32_t rank = 1; rank < comm->base.size; ++rank) {
        const slot *a = &slots[0], *b = &slots[rank];
        if (!same_call(a, b))
            return dcpar_fail(
                error, DCPAR_INVALID, "rank %d calls %s of %lld bytes (%d) while rank %d calls %s of %lld bytes (%d)",
                (int)comm->meeting->first, operation_names[a->what], (long long)a->bytes, (int)a->detail,
                (int)(comm->meeting->first + rank), operation_names[b->what], (long long)b->bytes, (int)b->detail);
    }
    return DCPAR_OK;
}

/* Shows `bytes` at `data` (NULL: nothing to show) to all and waits for them. Afterwards (*slots)[rank].data is what
 * each rank shows, until this rank calls `part`. */
static dcpar_status meet(local_comm *comm, operation what, int32_t detail, const void *data, int64_t bytes,
                         const slot **slots, dcpar_error *error) {
    slot *all = slots_of_turn(comm);
    slot *mine = &all[comm->base.rank];
    *mine = (slot){.data = data, .bytes = bytes, .what = what, .detail = detail};
    if (bytes <= MAILBOX_BYTES && data != NULL) {
        const int64_t mailbox = comm->parity * comm->base.size + comm->base.rank;
        mine->data = comm->meeting->mailboxes + mailbox * MAILBOX_BYTES;
        copy(comm->meeting->mailboxes + mailbox * MAILBOX_BYTES, data, bytes);
    }
    comm->parity = 1 - comm->parity;
    if (!dcpar_gate_pass(&comm->meeting->entry, (uint32_t)comm->base.size)) return fail_peer(comm, error);
    *slots = all;
    return check_calls(comm, all, error);
}

static void wait_for_all(local_comm *comm) { dcpar_gate_pass(&comm->meeting->exit, (uint32_t)comm->base.size); }

static void part(local_comm *comm, int64_t bytes) {
    if (bytes > MAILBOX_BYTES) wait_for_all(comm);
}

/* --------------------------------------------------------------------------------------------------- operations */

static dcpar_status local_barrier(dcpar_comm *comm, dcpar_error *error) {
    const slot *slots;
    return meet(as_local(comm), BARRIER, 0, NULL, 0, &slots, error);
}

/* values[begin .. end) of all ranks, combined in rank order, to `output`, which may be one of them. */
static void combine_range(const slot *slots, int32_t size, double *output, int64_t begin, int64_t end,
                          dcpar_reduction reduction) {
    double block[BLOCK];
    for (int64_t start = begin; start < end; start += BLOCK) {
        const int64_t count = end - start < BLOCK ? end - start : BLOCK;
        copy(block, (const double *)slots[0].data + start, count * (int64_t)sizeof *block);
        for (int32_t rank = 1; rank < size; ++rank)
            dcpar_combine_doubles(block, (const double *)slots[rank].data + start, count, reduction);
        copy(output + start, block, count * (int64_t)sizeof *block);
    }
}

static int64_t slice_start(int64_t count, int32_t size, int32_t rank) {
    return count / size * rank + (rank < count % size ? rank : count % size);
}

static dcpar_status local_all_reduce(dcpar_comm *base, double *values, int64_t count, dcpar_reduction reduction,
                                     dcpar_error *error) {
    local_comm *comm = as_local(base);
    const int64_t bytes = count * (int64_t)sizeof *values;
    const slot *slots;
    DCPAR_TRY(meet(comm, ALL_REDUCE, (int32_t)reduction, values, bytes, &slots, error));
    if (bytes <= MAILBOX_BYTES) {
        combine_range(slots, base->size, values, 0, count, reduction);
        return DCPAR_OK;
    }
    /* Each combines one slice in place (nobody else reads that slice), then all take the others' slices. */
    combine_range(slots, base->size, values, slice_start(count, base->size, base->rank),
                  slice_start(count, base->size, base->rank + 1), reduction);
    wait_for_all(comm);
    for (int32_t rank = 0; rank < base->size; ++rank) {
        const int64_t begin = slice_start(count, base->size, rank), end = slice_start(count, base->size, rank + 1);
        if (rank != base->rank)
            copy(values + begin, (const double *)slots[rank].data + begin, (end - begin) * (int64_t)sizeof *values);
    }
    wait_for_all(comm);
    return DCPAR_OK;
}

static dcpar_status local_reduce_scatter(dcpar_comm *base, const float *input, float *output, int64_t count,
                                         dcpar_error *error) {
    local_comm *comm = as_local(base);
    const int64_t bytes = base->size * count * (int64_t)sizeof *input;
    const slot *slots;
    DCPAR_TRY(meet(comm, REDUCE_SCATTER, 0, input, bytes, &slots, error));
    float block[BLOCK]; /* because `output` may be this rank's part of `input` */
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int64_t part_count = count - start < BLOCK ? count - start : BLOCK;
        const int64_t offset = base->rank * count + start;
        copy(block, (const float *)slots[0].data + offset, part_count * (int64_t)sizeof *block);
        for (int32_t rank = 1; rank < base->size; ++rank)
            dcpar_combine_floats(block, (const float *)slots[rank].data + offset, part_count);
        copy(output + start, block, part_count * (int64_t)sizeof *block);
    }
    part(comm, bytes);
    return DCPAR_OK;
}

static dcpar_status local_all_gather(dcpar_comm *base, const void *input, void *output, int64_t bytes,
                                     dcpar_error *error) {
    local_comm *comm = as_local(base);
    const slot *slots;
    DCPAR_TRY(meet(comm, ALL_GATHER, 0, input, bytes, &slots, error));
    for (int32_t rank = 0; rank < base->size; ++rank) {
        unsigned char *place = (unsigned char *)output + rank * bytes;
        if (place != input) copy(place, slots[rank].data, bytes);
    }
    part(comm, bytes);
    return DCPAR_OK;
}

static dcpar_status local_all_to_all(dcpar_comm *base, const void *input, void *output, int64_t bytes,
                                     dcpar_error *error) {
    local_comm *comm = as_local(base);
    const slot *slots;
    DCPAR_TRY(meet(comm, ALL_TO_ALL, 0, input, base->size * bytes, &slots, error));
    for (int32_t step = 0; step < base->size; ++step) {
        const int32_t rank = (base->rank + step) % base->size; /* not all from the same rank at once */
        copy((unsigned char *)output + rank * bytes, (const unsigned char *)slots[rank].data + base->rank * bytes,
             bytes);
    }
    part(comm, base->size * bytes);
    return DCPAR_OK;
}

static dcpar_status local_broadcast(dcpar_comm *base, void *data, int64_t bytes, int32_t root, dcpar_error *error) {
    local_comm *comm = as_local(base);
    const slot *slots;
    DCPAR_TRY(meet(comm, BROADCAST, root, base->rank == root ? data : NULL, bytes, &slots, error));
    if (base->rank != root) copy(data, slots[root].data, bytes);
    part(comm, bytes);
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------------------- groups */

static dcpar_status local_group(dcpar_comm *world, int32_t width, dcpar_comm **out, dcpar_error *error) {
    local_comm *parent = as_local(world);
    run *run = parent->run;
    const int32_t first = world->rank / width * width;
    *out = NULL;
    if (first + width > world->size) return DCPAR_OK;

    local_comm *group = calloc(1, sizeof *group);
    if (group == NULL) return dcpar_fail_memory(error, "a group");
    pthread_mutex_lock(&run->lock);
    meeting *meeting = find_meeting(run, first, width);
    pthread_mutex_unlock(&run->lock);
    if (meeting == NULL) {
        free(group);
        return dcpar_fail_memory(error, "a group");
    }
    *group = (local_comm){
        .base = {.functions = &local_functions, .world = world, .rank = world->rank - first, .size = width},
        .run = run,
        .meeting = meeting};
    *out = &group->base;
    return DCPAR_OK;
}

static void local_destroy(dcpar_comm *group) { free(as_local(group)); }

static const dcpar_comm_functions local_functions = {
    .group = local_group,
    .destroy = local_destroy,
    .barrier = local_barrier,
    .all_reduce = local_all_reduce,
    .reduce_scatter = local_reduce_scatter,
    .all_gather = local_all_gather,
    .all_to_all = local_all_to_all,
    .broadcast = local_broadcast,
    .abort = local_abort,
};

/* -------------------------------------------------------------------------------------------------------- a run */

typedef struct rank_thread {
    pthread_t thread;
    bool started;
    local_comm comm;
    dcpar_rank_main main_function;
    void *argument;
    dcpar_status status;
} rank_thread;

static void *run_rank(void *argument) {
    rank_thread *thread = argument;
    run *run = thread->comm.run;
    const int32_t rank = thread->comm.base.rank;
    dcpar_error error = {DCPAR_OK, ""};
    thread->status = thread->main_function(&thread->comm.base, thread->argument, &error);
    if (thread->status != DCPAR_OK)
        fail_run(run, rank, error.text[0] != '\0' ? error.text : dcpar_status_text(thread->status));
    leave_run(run, rank);
    return NULL;
}

static void start_threads(run *run, rank_thread *threads, const pthread_attr_t *attributes) {
    for (int32_t rank = 0; rank < run->ranks; ++rank) {
        if (pthread_create(&threads[rank].thread, attributes, run_rank, &threads[rank]) != 0) {
            threads[rank].status = DCPAR_NO_MEMORY;
            fail_run(run, rank, "the host cannot start its thread");
            return;
        }
        threads[rank].started = true;
    }
}

/* The status of the run: that of the first rank that failed. */
static dcpar_status outcome(const run *run, const rank_thread *threads, dcpar_error *error) {
    if (run->failed_rank < 0) return DCPAR_OK;
    const dcpar_status status = threads[run->failed_rank].status;
    /* A rank that aborts and then returns success has failed all the same. */
    return dcpar_fail(error, status != DCPAR_OK ? status : DCPAR_PEER, "%s", run->failure.text);
}

static dcpar_status run_threads(run *run, rank_thread *threads, dcpar_error *error) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return dcpar_fail_memory(error, "the attributes of threads");
    pthread_attr_setstacksize(&attributes, RANK_STACK_BYTES);
    start_threads(run, threads, &attributes);
    pthread_attr_destroy(&attributes);
    for (int32_t rank = 0; rank < run->ranks; ++rank)
        if (threads[rank].started) pthread_join(threads[rank].thread, NULL);
    return outcome(run, threads, error);
}

static void run_destroy(run *run, rank_thread *threads) {
    for (int32_t rank = 0; threads != NULL && rank < run->ranks; ++rank)
        dcpar_comm_destroy_groups(&threads[rank].comm.base);
    while (run->meetings != NULL) {
        meeting *next = run->meetings->next;
        meeting_destroy(run->meetings);
        run->meetings = next;
    }
    free(threads);
    free(run->leavers);
    pthread_mutex_destroy(&run->lock);
}

dcpar_status dcpar_comm_run_local(int32_t ranks, dcpar_rank_main main_function, void *argument, dcpar_error *error) {
    if (ranks < 1) return dcpar_fail(error, DCPAR_INVALID, "a run with %d ranks is asked for", (int)ranks);
    run run = {.ranks = ranks, .failed_rank = -1};
    pthread_mutex_init(&run.lock, NULL);
    rank_thread *threads = calloc((size_t)ranks, sizeof *threads);
    run.leavers = calloc((size_t)ranks, sizeof *run.leavers);
    meeting *world = run.leavers != NULL ? find_meeting(&run, 0, ranks) : NULL;
    dcpar_status status;
    if (threads == NULL || world == NULL) {
        status = dcpar_fail_memory(error, "the ranks of a run");
    } else {
        for (int32_t rank = 0; rank < ranks; ++rank) {
            rank_thread *thread = &threads[rank];
            thread->comm = (local_comm){
                .base = {.functions = &local_functions, .world = &thread->comm.base, .rank = rank, .size = ranks},
                .run = &run,
                .meeting = world};
            thread->main_function = main_function;
            thread->argument = argument;
        }
        status = run_threads(&run, threads, error);
    }
    run_destroy(&run, threads);
    return status;
}
