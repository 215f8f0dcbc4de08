/* Accumulation (Eq. 3) against exhaustive search. */
#include "plan_testing.h"

/* The same measure, written anew. */
static double idle_ratio(const double *seconds, const int32_t *sp, const int32_t *g, int32_t count, int32_t world) {
    double longest = 0, work = 0;
    for (int32_t i = 0; i < count; ++i) {
        longest = fmax(longest, g[i] * seconds[i]);
        work += sp[i] * g[i] * seconds[i];
    }
    return 1 - work / (world * longest);
}

static double longest_of(const double *seconds, const int32_t *g, int32_t count) {
    double longest = 0;
    for (int32_t i = 0; i < count; ++i) longest = fmax(longest, (g != NULL ? g[i] : 1) * seconds[i]);
    return longest;
}

/* Tries every g[index..] that the cap allows. */
static double exhaustive(const double *seconds, const int32_t *sp, int32_t *g, int32_t count, int32_t world, double cap,
                         int32_t index) {
    if (index == count) return idle_ratio(seconds, sp, g, count, world);
    double best = INFINITY;
    for (g[index] = 1; g[index] * seconds[index] <= cap * (1 + 1e-12); ++g[index])
        best = fmin(best, exhaustive(seconds, sp, g, count, world, cap, index + 1));
    return best;
}

static void the_idle_ratio_is_that_of_exhaustive_search(void **state) {
    (void)state;
    random_source random = start_random(1);
    for (int trial = 0; trial < 10000; ++trial) {
        double seconds[4];
        int32_t sp[4], g[4], tried[4], ranks = 0;
        const int32_t count = (int32_t)random_between(&random, 1, 4);
        const bool whole = random_between(&random, 0, 1) == 0; /* ties are likely among whole numbers */
        for (int32_t i = 0; i < count; ++i) {
            seconds[i] = whole ? (double)random_between(&random, 1, 6) : random_real(&random, 0.2, 1);
            sp[i] = 1 << random_between(&random, 0, 2);
            ranks += sp[i];
        }
        const int32_t world = ranks + (int32_t)random_between(&random, 0, 3);
        const int32_t g_max = (int32_t)random_between(&random, 1, 3);
        const double cap = g_max * longest_of(seconds, NULL, count);
        double idle;
        dcpar_error error;
        assert_ok(dcpar_accumulate(seconds, sp, count, world, 1, g_max, g, &idle, &error));
        assert_float_equal(idle, exhaustive(seconds, sp, tried, count, world, cap, 0), 1e-9);
        assert_float_equal(idle, idle_ratio(seconds, sp, g, count, world), 1e-9);
        assert_true(longest_of(seconds, g, count) <= cap * (1 + 1e-9));
        for (int32_t i = 0; i < count; ++i) assert_true(g[i] >= 1);
    }
}

static void among_equals_the_longest_iteration_wins(void **state) {
    (void)state;
    const double seconds[] = {1, 2};
    const int32_t sp[] = {1, 1};
    int32_t g[2];
    double idle;
    dcpar_error error;
    assert_ok(dcpar_accumulate(seconds, sp, 2, 2, 1, 3, g, &idle, &error));
    assert_float_equal(idle, 0, 1e-12);
    assert_int_equal(g[0], 6);
    assert_int_equal(g[1], 3);
}

static void many_short_batches_and_a_long_one_take_under_a_millisecond(void **state) { /* P2 */
    (void)state;
    const double seconds[] = {0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 10};
    const int32_t sp[] = {1, 1, 1, 1, 1, 1, 1, 1};
    int32_t g[8];
    double idle, least = INFINITY;
    dcpar_error error;
    for (int trial = 0; trial < 5; ++trial) { /* the best of some, for the machine may be busy */
        const double start = now();
        assert_ok(dcpar_accumulate(seconds, sp, 8, 8, 1, 5, g, &idle, &error));
        least = fmin(least, now() - start);
    }
    print_message("%.3f ms\n", 1e3 * least);
    assert_float_equal(idle, 0, 1e-9);
    for (int i = 0; i < 7; ++i) assert_int_equal(g[i], 5000);
    assert_int_equal(g[7], 5);
#ifndef __SANITIZE_ADDRESS__
    assert_true(least < 1e-3);
#endif
}

static void a_least_count_yields_to_the_cap(void **state) { /* P3 */
    (void)state;
    const double seconds[] = {1, 1, 2, 4};
    const int32_t sp[] = {1, 1, 1, 1};
    int32_t g[4];
    dcpar_error error;
    assert_ok(dcpar_accumulate(seconds, sp, 4, 4, 15, 5, g, NULL, &error));
    const int32_t full[] = {20, 20, 10, 5}; /* the longest balanced iteration within 5 * 4 seconds has g >= 15 anyway */
    for (int i = 0; i < 4; ++i) assert_int_equal(g[i], full[i]);
    assert_ok(dcpar_accumulate(seconds, sp, 4, 4, 1000, 5, g, NULL, &error));
    for (int i = 0; i < 4; ++i) assert_true(g[i] * seconds[i] <= 5 * 4);
}

static void a_least_count_multiplies_all(void **state) {
    (void)state;
    /* The best idle ratio is that of g = {1, 1}: any other within 7 seconds leaves the second rank idle for longer. */
    const double seconds[] = {1, 1};
    const int32_t sp[] = {1, 1};
    int32_t g[2];
    dcpar_error error;
    assert_ok(dcpar_accumulate(seconds, sp, 2, 2, 7, 7, g, NULL, &error));
    assert_int_equal(g[0], 7);
    assert_int_equal(g[1], 7);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    const double good[] = {1, 2}, bad[] = {0, NAN, INFINITY, -1};
    const int32_t sp[] = {1, 2}, no_sp[] = {1, 0};
    int32_t g[2];
    dcpar_error error;
    for (int i = 0; i < 4; ++i) {
        const double seconds[] = {1, bad[i]};
        assert_int_equal(dcpar_accumulate(seconds, sp, 2, 3, 1, 5, g, NULL, &error), DCPAR_INVALID);
        assert_non_null(strstr(error.text, "batch 1"));
    }
    assert_int_equal(dcpar_accumulate(good, sp, 0, 3, 1, 5, g, NULL, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_accumulate(good, sp, 2, 2, 1, 5, g, NULL, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_accumulate(good, no_sp, 2, 3, 1, 5, g, NULL, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_accumulate(good, sp, 2, 3, 1, 0, g, NULL, &error), DCPAR_INVALID);
    const double extreme[] = {1e-9, 2};
    assert_int_equal(dcpar_accumulate(extreme, sp, 2, 3, 1, 5, g, NULL, &error), DCPAR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_idle_ratio_is_that_of_exhaustive_search),
        cmocka_unit_test(among_equals_the_longest_iteration_wins),
        cmocka_unit_test(many_short_batches_and_a_long_one_take_under_a_millisecond),
        cmocka_unit_test(a_least_count_yields_to_the_cap),
        cmocka_unit_test(a_least_count_multiplies_all),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
