/* The profiler, with a probe that computes its costs instead of measuring; and profile files. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dcpar_run.h"
#include "testing.h"

#define MOST_RANKS 6

typedef struct trial {
    int32_t world, heads;
    int64_t limit; /* tokens a rank that fit */
    const char *partial;
    int stop_after; /* calls of stop on rank 0 */
    int32_t fail_rank;
    dcpar_profile *profiles[MOST_RANKS];
    pthread_mutex_t lock;
    int calls;
} trial;

static __thread int stops_left;

static bool stop(void) { return stops_left-- == 0; }

/* Faster with a larger batch up to 4; out of memory above the limit, which ranks learn at different times: only the
 * last rank of a group says so. */
static dcpar_status measure(void *context, dcpar_comm *group, dcpar_profile_row *row, dcpar_error *error) {
    trial *trial = context;
    pthread_mutex_lock(&trial->lock);
    ++trial->calls;
    pthread_mutex_unlock(&trial->lock);
    if (trial->fail_rank >= 0 && group != NULL && dcpar_comm_rank(group) == trial->fail_rank) {
        snprintf(error->text, sizeof error->text, "the probe broke");
        return error->status = DCPAR_INTERNAL;
    }
    if (group != NULL && dcpar_comm_barrier(group, error) != DCPAR_OK) return error->status;
    if (row->batch * row->length / row->sp > trial->limit) {
        error->status = DCPAR_DEVICE_MEMORY;
        return DCPAR_DEVICE_MEMORY;
    }
    const double slower = group != NULL ? 1 + 0.1 * dcpar_comm_rank(group) : 1;
    const int32_t paid = row->batch < 4 ? 4 : row->batch;
    row->forward = 1e-6 * slower * (double)(paid * row->length) / row->sp;
    row->backward = 2 * row->forward;
    row->constant_seconds = 1e-6;
    row->layer_bytes = row->batch * row->length / row->sp;
    row->input_bytes = 1;
    row->constant_bytes = 1;
    return DCPAR_OK;
}

static dcpar_status run_rank(dcpar_comm *world, void *argument, dcpar_error *error) {
    trial *trial = argument;
    const dcpar_probe probe = {trial, measure};
    const dcpar_profile_info info = {.model = "m",
                                     .device = "d",
                                     .method = "ulysses",
                                     .version = "1",
                                     .layers = 2,
                                     .heads = trial->heads,
                                     .kv_heads = trial->heads,
                                     .world = trial->world,
                                     .memory = 1 << 20};
    dcpar_measure_options options = DCPAR_MEASURE_OPTIONS_INIT;
    options.shortest = 10;
    options.longest = 200;
    options.partial_path = trial->partial;
    stops_left = dcpar_comm_rank(world) == 0 ? trial->stop_after : -1;
    options.stop = stop;
    return dcpar_profile_measure(world, &probe, &info, &options, &trial->profiles[dcpar_comm_rank(world)], error);
}

static dcpar_status run(trial *trial, dcpar_error *error) {
    pthread_mutex_init(&trial->lock, NULL);
    trial->calls = 0;
    const dcpar_status status = dcpar_comm_run_local(trial->world, run_rank, trial, error);
    pthread_mutex_destroy(&trial->lock);
    return status;
}

static void assert_same_row(const dcpar_profile_row *a, const dcpar_profile_row *b) {
    assert_true(a->length == b->length && a->sp == b->sp && a->batch == b->batch && a->fits == b->fits);
    assert_true(a->forward == b->forward && a->backward == b->backward && a->constant_seconds == b->constant_seconds);
    assert_true(a->layer_bytes == b->layer_bytes && a->input_bytes == b->input_bytes);
    assert_int_equal(a->constant_bytes, b->constant_bytes);
}

static void destroy(trial *trial) {
    for (int32_t i = 0; i < trial->world; ++i) dcpar_profile_destroy(trial->profiles[i]);
}

static void all_ranks_have_the_same_profile_of_every_legal_size(void **state) {
    (void)state;
    for (int32_t world = 1; world <= MOST_RANKS; ++world) {
        dcpar_error error = {0};
        trial trial = {.world = world, .heads = 12, .limit = 150, .stop_after = -1, .fail_rank = -1};
        assert_ok(run(&trial, &error));
        int64_t count, other;
        const dcpar_profile_row *rows = dcpar_profile_get_rows(trial.profiles[0], &count);
        for (int32_t rank = 1; rank < world; ++rank) {
            const dcpar_profile_row *same = dcpar_profile_get_rows(trial.profiles[rank], &other);
            assert_int_equal(count, other);
            for (int64_t i = 0; i < count; ++i) assert_same_row(&rows[i], &same[i]);
        }
        int32_t sizes[64];
        const int32_t size_count = dcpar_legal_sizes(world, 12, 12, sizes);
        for (int32_t i = 0; i < size_count; ++i) {
            bool any = false, too_long = false;
            for (int64_t j = 0; j < count; ++j) {
                if (rows[j].sp != sizes[i]) continue;
                any |= rows[j].fits;
                assert_int_equal(rows[j].length % sizes[i], 0);
                /* a batch of 8 is no longer worth it, and is seen not to be */
                assert_true(rows[j].batch <= 8);
                too_long |= !rows[j].fits;
                assert_int_equal(rows[j].fits, rows[j].batch * rows[j].length / sizes[i] <= 150);
                if (rows[j].fits) { /* the slowest rank's time */
                    const double paid = rows[j].batch < 4 ? 4 : rows[j].batch;
                    const double expected =
                        1e-6 * (1 + 0.1 * (sizes[i] - 1)) * paid * (double)rows[j].length / sizes[i];
                    assert_true(rows[j].forward > 0.999 * expected && rows[j].forward < 1.001 * expected);
                }
            }
            assert_true(any);
            assert_true(too_long); /* memory ended some chain, and it went on elsewhere */
        }
        destroy(&trial);
    }
}

/* What lies far above the longest length that was measured is not known: the longest that fits is looked for. */
static void the_longest_length_that_fits_is_found(void **state) {
    (void)state;
    for (int64_t limit = 10; limit <= 15; ++limit) { /* 10 is measured first, then 16 */
        dcpar_error error = {0};
        trial trial = {.world = 1, .heads = 4, .limit = limit, .stop_after = -1, .fail_rank = -1};
        assert_ok(run(&trial, &error));
        int64_t count, longest = 0;
        const dcpar_profile_row *rows = dcpar_profile_get_rows(trial.profiles[0], &count);
        for (int64_t i = 0; i < count; ++i)
            if (rows[i].fits && rows[i].length > longest) longest = rows[i].length;
        assert_int_equal(longest, limit);
        destroy(&trial);
    }
}

static void an_interrupted_profile_goes_on(void **state) {
    (void)state;
    char folder[] = "/tmp/dcpar-profile-XXXXXX", partial[64];
    assert_non_null(mkdtemp(folder));
    snprintf(partial, sizeof partial, "%s/partial", folder);
    dcpar_error error = {0};
    trial whole = {.world = 3, .heads = 4, .limit = 150, .stop_after = -1, .fail_rank = -1};
    assert_ok(run(&whole, &error));
    trial broken = {.world = 3, .heads = 4, .limit = 150, .partial = partial, .stop_after = 4, .fail_rank = -1};
    assert_int_equal(run(&broken, &error), DCPAR_INTERRUPTED);
    assert_true(broken.calls > 0 && broken.calls < whole.calls);
    trial rest = {.world = 3, .heads = 4, .limit = 150, .partial = partial, .stop_after = -1, .fail_rank = -1};
    assert_ok(run(&rest, &error));
    assert_int_equal(rest.calls + broken.calls, whole.calls);
    int64_t count, other;
    dcpar_profile_get_rows(whole.profiles[0], &count);
    dcpar_profile_get_rows(rest.profiles[0], &other);
    assert_int_equal(count, other);
    destroy(&whole);
    destroy(&rest);
    assert_int_equal(unlink(partial), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void a_probe_that_breaks_on_one_rank_ends_all(void **state) {
    (void)state;
    dcpar_error error = {0};
    trial trial = {.world = 4, .heads = 4, .limit = 150, .stop_after = -1, .fail_rank = 1};
    assert_int_equal(run(&trial, &error), DCPAR_INTERNAL);
    assert_non_null(strstr(error.text, "the probe broke"));
}

static void a_saved_profile_is_loaded_as_it_was(void **state) {
    (void)state;
    char folder[] = "/tmp/dcpar-profile-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/profile.json", folder);
    dcpar_error error = {0};
    trial trial = {.world = 2, .heads = 4, .limit = 150, .stop_after = -1, .fail_rank = -1};
    assert_ok(run(&trial, &error));
    dcpar_profile *loaded = NULL;
    assert_ok(dcpar_profile_save(trial.profiles[0], path, &error));
    assert_ok(dcpar_profile_load(path, &loaded, &error));
    int64_t count, other;
    const dcpar_profile_row *a = dcpar_profile_get_rows(trial.profiles[0], &count);
    const dcpar_profile_row *b = dcpar_profile_get_rows(loaded, &other);
    assert_int_equal(count, other);
    for (int64_t i = 0; i < count; ++i) assert_same_row(&a[i], &b[i]);
    assert_string_equal(dcpar_profile_get_info(loaded)->method, "ulysses");
    dcpar_profile_destroy(loaded);
    destroy(&trial);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_have_the_same_profile_of_every_legal_size),
        cmocka_unit_test(the_longest_length_that_fits_is_found),
        cmocka_unit_test(an_interrupted_profile_goes_on),
        cmocka_unit_test(a_probe_that_breaks_on_one_rank_ends_all),
        cmocka_unit_test(a_saved_profile_is_loaded_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
