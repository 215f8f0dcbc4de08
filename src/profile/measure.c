/* The profiler: which points are measured, by whom, and when it is enough.
 *
 * A chain is one (SP size, length): its batches 1, 2, 4 ... are measured one after another until one does not fit or a
 * larger one is no longer worth it. Each group of a size works on a chain of its own, all groups at the same time, so
 * that ranks disturb each other as they do in training. After every point all ranks exchange what they measured: the
 * state below is the same everywhere, and so is every decision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "dcpar_run.h"
#include "profile/file.h"

/* A doubled batch has to raise throughput by this share to be followed by another one. */
#define WORTH_IT 0.05
#define MOST_BATCH 1024

/* Each point is measured this often, and the median kept; long ones once. */
#define REPEATS 3
#define LONG_SECONDS 0.5

typedef struct chain {
    int64_t length;
    int32_t next_batch; /* 0: finished */
} chain;

typedef struct profiler {
    dcpar_comm *world;
    const dcpar_probe *probe;
    const dcpar_profile_info *info;
    const dcpar_measure_options *options;
    dcpar_profile_row *rows; /* measured, or read from the partial file */
    int64_t count, capacity;
    int64_t chains_done, chains_total;
} profiler;

/* -------------------------------------------------------------------------------------------------- rows */

static dcpar_status add_row(profiler *state, const dcpar_profile_row *row, dcpar_error *error) {
    if (state->count == state->capacity) {
        const int64_t capacity = state->capacity > 0 ? 2 * state->capacity : 64;
        dcpar_profile_row *larger = realloc(state->rows, (size_t)capacity * sizeof *larger);
        if (larger == NULL) return dcpar_fail_memory(error, "the profile's rows");
        state->rows = larger;
        state->capacity = capacity;
    }
    state->rows[state->count++] = *row;
    return DCPAR_OK;
}

static const dcpar_profile_row *find_row(const profiler *state, int64_t length, int32_t sp, int32_t batch) {
    for (int64_t i = 0; i < state->count; ++i)
        if (state->rows[i].length == length && state->rows[i].sp == sp && state->rows[i].batch == batch)
            return &state->rows[i];
    return NULL;
}

static bool same_subject(const dcpar_profile_info *a, const dcpar_profile_info *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->device, b->device) == 0 && strcmp(a->method, b->method) == 0 &&
           strcmp(a->version, b->version) == 0 && a->layers == b->layers && a->world == b->world &&
           a->memory == b->memory;
}

/* Rank 0 reads what an interrupted run has left; everybody gets it. A file of something else is not used. */
static dcpar_status take_up(profiler *state, dcpar_error *error) {
    int64_t count = 0;
    dcpar_profile_row *rows = NULL;
    if (dcpar_comm_rank(state->world) == 0 && state->options->partial_path != NULL) {
        dcpar_profile_info info;
        if (dcpar_profile_read(state->options->partial_path, &info, &rows, &count, NULL) != DCPAR_OK ||
            !same_subject(&info, state->info))
            count = 0;
    }
    dcpar_status status = dcpar_comm_broadcast(state->world, &count, sizeof count, 0, error);
    if (status == DCPAR_OK && count > 0) {
        if (rows == NULL) rows = malloc((size_t)count * sizeof *rows);
        status = rows == NULL ? dcpar_fail_memory(error, "the profile's rows")
                              : dcpar_comm_broadcast(state->world, rows, count * (int64_t)sizeof *rows, 0, error);
        for (int64_t i = 0; i < count && status == DCPAR_OK; ++i) status = add_row(state, &rows[i], error);
    }
    free(rows);
    return status;
}

/* ------------------------------------------------------------------------------------------- one point */

static int compare_times(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double *values, int32_t count) {
    qsort(values, (size_t)count, sizeof *values, compare_times);
    return values[count / 2];
}

/* Measures one point on this rank's group, until the median can be trusted. */
static dcpar_status measure_point(const profiler *state, dcpar_comm *group, dcpar_profile_row *row,
                                  dcpar_error *error) {
    double forward[REPEATS], backward[REPEATS], constant[REPEATS];
    int32_t done = 0;
    double slowest = 0;
    while (done < REPEATS && (done == 0 || slowest < LONG_SECONDS)) {
        const dcpar_status status = state->probe->measure(state->probe->context, group, row, error);
        if (status == DCPAR_DEVICE_MEMORY) {
            *row = (dcpar_profile_row){.length = row->length, .sp = row->sp, .batch = row->batch};
            return DCPAR_OK;
        }
        if (status != DCPAR_OK) return status;
        forward[done] = row->forward;
        backward[done] = row->backward;
        constant[done++] = row->constant_seconds;
        slowest = row->forward + row->backward + row->constant_seconds;
        if (group != NULL) DCPAR_TRY(dcpar_comm_all_reduce(group, &slowest, 1, DCPAR_MAX, error));
    }
    row->forward = median(forward, done);
    row->backward = median(backward, done);
    row->constant_seconds = median(constant, done);
    row->fits = true;
    return DCPAR_OK;
}

/* The row of a group from those of its ranks: it fits if it fits on all, and takes as long as the slowest. */
static dcpar_profile_row combine(const dcpar_profile_row *rows, int32_t count) {
    dcpar_profile_row row = rows[0];
    for (int32_t i = 1; i < count; ++i) {
        row.fits = row.fits && rows[i].fits;
        row.forward = fmax(row.forward, rows[i].forward);
        row.backward = fmax(row.backward, rows[i].backward);
        row.constant_seconds = fmax(row.constant_seconds, rows[i].constant_seconds);
        if (rows[i].layer_bytes > row.layer_bytes) row.layer_bytes = rows[i].layer_bytes;
        if (rows[i].input_bytes > row.input_bytes) row.input_bytes = rows[i].input_bytes;
        if (rows[i].constant_bytes > row.constant_bytes) row.constant_bytes = rows[i].constant_bytes;
    }
    if (!row.fits) row = (dcpar_profile_row){.length = row.length, .sp = row.sp, .batch = row.batch};
    return row;
}

/* ------------------------------------------------------------------------------------------------- chains */

static double throughput(const dcpar_profile_row *row, int32_t layers) {
    return row->batch / (layers * (row->forward + row->backward) + row->constant_seconds);
}

/* Whether the batch after `row` is worth measuring. */
static bool goes_on(const profiler *state, const dcpar_profile_row *row) {
    if (!row->fits || row->batch >= MOST_BATCH) return false;
    const dcpar_profile_row *half = find_row(state, row->length, row->sp, row->batch / 2);
    const int32_t layers = state->info->layers;
    return half == NULL || throughput(row, layers) > (1 + WORTH_IT) * throughput(half, layers);
}

/* Moves a chain past every batch that is measured already. */
static void advance(const profiler *state, chain *chain, int32_t sp) {
    const dcpar_profile_row *row;
    while (chain->next_batch > 0 && (row = find_row(state, chain->length, sp, chain->next_batch)) != NULL)
        chain->next_batch = goes_on(state, row) ? 2 * row->batch : 0;
}

/* Every group measures the next point of its chain (groups without one take part in the exchange only). */
static dcpar_status measure_together(profiler *state, int32_t sp, const chain *chains, const int32_t *chain_of,
                                     int32_t group_count, dcpar_error *error) {
    const int32_t rank = dcpar_comm_rank(state->world), ranks = dcpar_comm_size(state->world), mine = rank / sp;
    dcpar_comm *group = NULL;
    if (sp > 1) DCPAR_TRY(dcpar_comm_group(state->world, sp, &group, error));
    dcpar_profile_row *all = malloc((size_t)ranks * sizeof *all);
    if (all == NULL) return dcpar_fail_memory(error, "the profile's rows");
    dcpar_profile_row row = {0};
    dcpar_status status = dcpar_comm_barrier(state->world, error);
    if (status == DCPAR_OK && mine < group_count && chain_of[mine] >= 0) {
        row.length = chains[chain_of[mine]].length;
        row.sp = sp;
        row.batch = chains[chain_of[mine]].next_batch;
        status = measure_point(state, group, &row, error);
    }
    if (status == DCPAR_OK) status = dcpar_comm_all_gather(state->world, &row, all, (int64_t)sizeof row, error);
    for (int32_t i = 0; i < group_count && status == DCPAR_OK; ++i) {
        if (chain_of[i] < 0) continue;
        const dcpar_profile_row combined = combine(all + i * sp, sp);
        status = add_row(state, &combined, error);
    }
    free(all);
    return status;
}

/* Rank 0 keeps the rows and shows progress; all learn whether somebody wants to stop. */
static dcpar_status after_each(profiler *state, dcpar_error *error) {
    dcpar_status status = DCPAR_OK;
    if (dcpar_comm_rank(state->world) == 0) {
        if (state->options->partial_path != NULL)
            status = dcpar_profile_write(state->info, state->rows, state->count, state->options->partial_path, error);
        if (state->options->progress != NULL)
            state->options->progress(state->options->progress_context, state->chains_done, state->chains_total,
                                     state->count > 0 ? &state->rows[state->count - 1] : NULL);
    }
    if (status != DCPAR_OK) return status;
    double stop = state->options->stop != NULL && state->options->stop();
    DCPAR_TRY(dcpar_comm_all_reduce(state->world, &stop, 1, DCPAR_MAX, error));
    if (stop > 0) return dcpar_fail(error, DCPAR_INTERRUPTED, "profiling was interrupted; what was measured is kept");
    return DCPAR_OK;
}

/* Gives every group without a chain the next one, the longest first, so that groups measure alike ones together. */
static int32_t assign(const chain *chains, int32_t count, int32_t *chain_of, int32_t group_count) {
    int32_t busy = 0;
    for (int32_t i = 0; i < group_count; ++i) {
        if (chain_of[i] >= 0 && chains[chain_of[i]].next_batch == 0) chain_of[i] = -1;
        for (int32_t j = count - 1; j >= 0 && chain_of[i] < 0; --j) {
            bool taken = chains[j].next_batch == 0;
            for (int32_t k = 0; k < group_count; ++k) taken |= chain_of[k] == j;
            if (!taken) chain_of[i] = j;
        }
        busy += chain_of[i] >= 0;
    }
    return busy;
}

static dcpar_status measure_size(profiler *state, int32_t sp, const int64_t *lengths, int32_t length_count,
                                 dcpar_error *error) {
    const int32_t group_count = dcpar_comm_size(state->world) / sp;
    chain *chains = malloc((size_t)length_count * sizeof *chains);
    int32_t *chain_of = malloc((size_t)group_count * sizeof *chain_of);
    dcpar_status status =
        chains != NULL && chain_of != NULL ? DCPAR_OK : dcpar_fail_memory(error, "the order of measurements");
    for (int32_t i = 0; i < length_count && status == DCPAR_OK; ++i)
        chains[i] = (chain){(lengths[i] + sp - 1) / sp * sp, 1};
    for (int32_t i = 0; i < group_count && status == DCPAR_OK; ++i) chain_of[i] = -1;
    const int64_t done_before = state->chains_done;
    while (status == DCPAR_OK) {
        state->chains_done = done_before;
        for (int32_t i = 0; i < length_count; ++i) {
            advance(state, &chains[i], sp);
            state->chains_done += chains[i].next_batch == 0;
        }
        status = after_each(state, error);
        if (status != DCPAR_OK || assign(chains, length_count, chain_of, group_count) == 0) break;
        status = measure_together(state, sp, chains, chain_of, group_count, error);
    }
    free(chains);
    free(chain_of);
    return status;
}

/* Memory is not a line: what is measured says little of what lies far above it. Where a length fits and longer ones do
 * not, the length in the middle is the next to be measured; returns 0 where that is not so, or not worth the time. */
static int64_t length_between(const profiler *state, int32_t sp) {
    int64_t fits = 0, too_long = DCPAR_LENGTH_MAX;
    for (int64_t i = 0; i < state->count; ++i) {
        const dcpar_profile_row *row = &state->rows[i];
        if (row->sp != sp || row->batch != 1) continue;
        if (row->fits && row->length > fits) fits = row->length;
        if (!row->fits && row->length < too_long) too_long = row->length;
    }
    if (fits == 0 || too_long == DCPAR_LENGTH_MAX) return 0;
    const int64_t middle = (fits + (too_long - fits) / 2) / sp * sp;
    return middle - fits > fits / 16 ? middle : 0;
}

static dcpar_status measure_all_of_size(profiler *state, int32_t sp, const int64_t *lengths, int32_t length_count,
                                        dcpar_error *error) {
    DCPAR_TRY(measure_size(state, sp, lengths, length_count, error));
    int64_t between;
    while ((between = length_between(state, sp)) > 0) {
        ++state->chains_total;
        DCPAR_TRY(measure_size(state, sp, &between, 1, error));
    }
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------------ the whole */

/* The shortest, the powers of two above it, the longest. */
static int32_t choose_lengths(const dcpar_measure_options *options, int64_t lengths[64]) {
    int32_t count = 0;
    int64_t power = 1;
    while (power <= options->shortest) power *= 2;
    if (options->shortest < options->longest) lengths[count++] = options->shortest;
    /* A power close to an end would be measured twice for nothing. */
    if (power < options->shortest + options->shortest / 4) power *= 2;
    for (; power < options->longest - options->longest / 8; power *= 2) lengths[count++] = power;
    lengths[count++] = options->longest;
    return count;
}

dcpar_status dcpar_profile_measure(dcpar_comm *world, const dcpar_probe *probe, const dcpar_profile_info *info,
                                   const dcpar_measure_options *options, dcpar_profile **out, dcpar_error *error) {
    if (options->size != sizeof *options)
        return dcpar_fail(error, DCPAR_INVALID, "the profiler's options are those of another version of the library");
    if (options->shortest < 1 || options->longest < options->shortest)
        return dcpar_fail(error, DCPAR_INVALID, "lengths from %lld to %lld cannot be profiled",
                          (long long)options->shortest, (long long)options->longest);
    profiler state = {.world = world, .probe = probe, .info = info, .options = options};
    int32_t sizes[64];
    int64_t lengths[64];
    const int32_t size_count = dcpar_legal_sizes(dcpar_comm_size(world), info->heads, info->kv_heads, sizes);
    const int32_t length_count = choose_lengths(options, lengths);
    state.chains_total = (int64_t)size_count * length_count;
    dcpar_status status = take_up(&state, error);
    for (int32_t i = 0; i < size_count && status == DCPAR_OK; ++i)
        status = measure_all_of_size(&state, sizes[i], lengths, length_count, error);
    if (status == DCPAR_OK) status = dcpar_profile_create(info, state.rows, state.count, out, error);
    free(state.rows);
    return status;
}
