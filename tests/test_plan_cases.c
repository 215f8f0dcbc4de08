/* Inputs that broke real training stacks, reduced to their bones, and what the planner answers. */
#include "plan_testing.h"

static dcpar_planner_options options_of(int32_t world, const char *policy) {
    dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
    options.world = world;
    options.policy = policy;
    return options;
}

static dcpar_planner *planner_for(const dcpar_profile *profile, const int64_t *lengths, int64_t count,
                                  dcpar_planner_options options) {
    dcpar_planner *planner = NULL;
    dcpar_error error;
    assert_ok(dcpar_planner_create(profile, lengths, count, &options, &planner, &error));
    return planner;
}

/* Plays an epoch and returns its summary; every plan passes the checker. */
static dcpar_epoch_summary play(dcpar_planner *planner) {
    dcpar_plan *plan = NULL;
    dcpar_error error;
    int64_t sequences = 0;
    while (dcpar_planner_next(planner, &plan, &error) == DCPAR_OK) {
        assert_ok(dcpar_plan_check(plan, INT64_MAX, &error));
        sequences += dcpar_plan_metrics(plan).sequences;
        dcpar_plan_destroy(plan);
    }
    const dcpar_epoch_summary summary = dcpar_planner_summary(planner);
    assert_int_equal(summary.used, sequences);
    assert_int_equal(summary.used + summary.dropped, summary.total);
    assert_int_equal(summary.dropped, summary.dropped_empty + summary.dropped_too_long);
    return summary;
}

/* Plays `lengths` under every policy: all of them run. */
static void assert_all_run(const cost_formula *formula, const int64_t *lengths, int64_t count, int32_t world) {
    dcpar_profile *profile = profile_for_world(formula, world);
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        dcpar_planner *planner = planner_for(profile, lengths, count, options_of(world, dcpar_policy_name(p)));
        const dcpar_epoch_summary summary = play(planner);
        assert_int_equal(summary.used, count);
        assert_true(summary.iterations >= 1);
        dcpar_planner_destroy(planner);
    }
    dcpar_profile_destroy(profile);
}

/* A formula by which a rank holds exactly `tokens` tokens. */
static cost_formula holds(int64_t tokens) {
    cost_formula formula = simple_formula();
    formula.layer_bytes = 100;
    formula.input_bytes = 0;
    formula.constant_bytes = 0;
    formula.memory = 100 * tokens;
    return formula;
}

/* --------------------------------------------------------------------------------------- legal sizes */

static void an_illegal_size_is_refused_with_the_legal_ones(void **state) { /* L1 */
    (void)state;
    cost_formula formula = simple_formula();
    formula.heads = 28;
    formula.kv_heads = 4;
    dcpar_profile *profile = profile_for_world(&formula, 8);
    const int64_t lengths[] = {100};
    const int32_t asked[] = {1, 8};
    dcpar_planner_options options = options_of(8, "buddy");
    options.sp_sizes = asked;
    options.sp_size_count = 2;
    dcpar_planner *planner = NULL;
    dcpar_error error;
    assert_int_equal(dcpar_planner_create(profile, lengths, 1, &options, &planner, &error), DCPAR_ILLEGAL_SIZE);
    assert_non_null(strstr(error.text, "28 heads are not divisible by 8"));
    assert_non_null(strstr(error.text, "1, 2, 4"));
    dcpar_profile_destroy(profile);
}

static void a_profile_of_a_larger_world_serves_a_smaller_one(void **state) { /* L3 */
    (void)state;
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 8);
    const int64_t lengths[] = {4096, 8192, 100};
    dcpar_planner *planner = planner_for(profile, lengths, 3, options_of(4, "buddy"));
    assert_int_equal(play(planner).used, 3);
    dcpar_planner_destroy(planner);
    dcpar_profile_destroy(profile);
    /* Measured on 8 ranks alone, nothing is left for 4. */
    const int32_t eight = 8;
    profile = profile_by_formula(&formula, &eight, 1);
    const dcpar_planner_options options = options_of(4, "buddy");
    dcpar_error error;
    assert_int_equal(dcpar_planner_create(profile, lengths, 3, &options, &planner, &error), DCPAR_ILLEGAL_SIZE);
    assert_non_null(strstr(error.text, "1, 2, 4"));
    dcpar_profile_destroy(profile);
}

static void a_width_that_does_not_divide_the_world_still_runs(void **state) { /* L2, L4 */
    (void)state;
    const cost_formula formula = holds(100);
    int64_t lengths[100];
    for (int i = 0; i < 100; ++i) lengths[i] = 301 + i % 90; /* four ranks each */
    for (int32_t world = 4; world <= 24; ++world) assert_all_run(&formula, lengths, 100, world);
}

/* ---------------------------------------------------------------------- data that does not fill a batch */

static void buckets_with_fewer_sequences_than_a_batch_run(void **state) { /* B1 */
    (void)state;
    const cost_formula formula = holds(2048);
    const int64_t lengths[] = {2000, 1500, 900, 901, 902, 903, 904, 905, 906, 907, 300, 301, 40, 41, 42, 43};
    assert_all_run(&formula, lengths, 16, 1);
    assert_all_run(&formula, lengths, 16, 8);
}

/* Every iteration is one plan for all ranks, so none can take another number of steps; here all are one micro-batch
 * each. */
static void rank_sized_batches_that_no_world_divides_are_all_run(void **state) { /* B2 */
    (void)state;
    const cost_formula formula = holds(100);
    static const int counts[] = {230, 232, 231, 234, 230, 230, 227, 234};
    int64_t lengths[1848];
    int count = 0;
    for (int rank = 0; rank < 8; ++rank)
        for (int i = 0; i < counts[rank]; ++i) lengths[count++] = 100;
    assert_all_run(&formula, lengths, count, 8);
}

static void two_sides_that_fill_unequally_meet_in_one_plan(void **state) { /* B3 */
    (void)state;
    const cost_formula formula = holds(100);
    const int64_t lengths[] = {95, 95, 95, 95, 95, 20, 20, 20, 20, 20};
    assert_all_run(&formula, lengths, 10, 2);
}

static void fewer_sequences_than_ranks_run(void **state) { /* B4, B5 */
    (void)state;
    const cost_formula formula = holds(4096);
    int64_t lengths[64];
    for (int i = 0; i < 64; ++i) lengths[i] = 100 + 7 * i;
    assert_all_run(&formula, lengths, 3, 7);
    assert_all_run(&formula, lengths, 4, 9);
    for (int32_t world = 2; world <= 9; ++world) {
        assert_all_run(&formula, lengths, world - 1, world);
        assert_all_run(&formula, lengths, world, world);
        assert_all_run(&formula, lengths, world + 1, world);
        assert_all_run(&formula, lengths, 2 * world - 1, world);
    }
}

static void seven_sequences_on_eight_ranks_are_one_iteration(void **state) { /* B6 */
    (void)state;
    cost_formula formula = holds(100);
    formula.most_batch = 1;
    const int64_t lengths[] = {90, 90, 90, 90, 90, 90, 90};
    dcpar_profile *profile = profile_for_world(&formula, 8);
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        dcpar_planner *planner = planner_for(profile, lengths, 7, options_of(8, dcpar_policy_name(p)));
        const dcpar_epoch_summary summary = play(planner);
        assert_int_equal(summary.iterations, 1);
        assert_int_equal(summary.used, 7);
        dcpar_planner_destroy(planner);
    }
    dcpar_profile_destroy(profile);
}

static void a_remainder_of_a_batch_runs(void **state) { /* B7 */
    (void)state;
    cost_formula formula = holds(400);
    formula.most_batch = 4;
    int64_t lengths[31];
    for (int i = 0; i < 31; ++i) lengths[i] = 100;
    assert_all_run(&formula, lengths, 31, 8);
}

/* ------------------------------------------------------- sequences that do not fit, lengths that cannot be */

static void lengths_that_cannot_be_are_refused_by_row(void **state) { /* S1 */
    (void)state;
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 4);
    const int64_t bad[] = {INT64_MAX, -5, INT64_MIN, DCPAR_LENGTH_MAX + 1};
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p)
        for (int i = 0; i < 4; ++i)
            for (int drop = 0; drop <= 1; ++drop) {
                const int64_t lengths[] = {10, bad[i], 10};
                dcpar_planner_options options = options_of(4, dcpar_policy_name(p));
                options.on_too_long = (dcpar_too_long)drop;
                dcpar_planner *planner = NULL;
                dcpar_error error;
                assert_int_equal(dcpar_planner_create(profile, lengths, 3, &options, &planner, &error), DCPAR_INVALID);
                assert_non_null(strstr(error.text, "row 1"));
                assert_null(planner);
            }
    dcpar_profile_destroy(profile);
}

static void empty_sequences_are_dropped_and_counted(void **state) { /* S1b */
    (void)state;
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 4);
    const int64_t lengths[] = {0, 5, 0};
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        const dcpar_planner_options options = options_of(4, dcpar_policy_name(p));
        dcpar_planner *planner = planner_for(profile, lengths, 3, options);
        const dcpar_epoch_summary summary = play(planner);
        assert_int_equal(summary.used, 1);
        assert_int_equal(summary.dropped_empty, 2);
        dcpar_planner_destroy(planner);
        dcpar_error error;
        planner = NULL;
        assert_int_equal(dcpar_planner_create(profile, lengths, 1, &options, &planner, &error), DCPAR_INVALID);
        assert_non_null(strstr(error.text, "nothing to train on"));
        assert_int_equal(dcpar_planner_create(profile, lengths, 0, &options, &planner, &error), DCPAR_INVALID);
        assert_non_null(strstr(error.text, "nothing to train on"));
    }
    dcpar_profile_destroy(profile);
}

static void a_sequence_that_fits_nowhere_is_refused_or_dropped(void **state) { /* S2 */
    (void)state;
    const cost_formula formula = holds(50);
    dcpar_profile *profile = profile_for_world(&formula, 3); /* sizes 1 and 2 */
    const int64_t lengths[] = {10, 200, 10};
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        dcpar_planner_options options = options_of(3, dcpar_policy_name(p));
        dcpar_planner *planner = NULL;
        dcpar_error error;
        assert_int_equal(dcpar_planner_create(profile, lengths, 3, &options, &planner, &error), DCPAR_TOO_LONG);
        assert_string_equal(error.text, "row 1 has 200 tokens; the most that fits is 100, on 2 ranks");
        options.on_too_long = DCPAR_TOO_LONG_DROP;
        planner = planner_for(profile, lengths, 3, options);
        const dcpar_epoch_summary summary = play(planner);
        assert_int_equal(summary.used, 2);
        assert_int_equal(summary.dropped_too_long, 1);
        dcpar_planner_destroy(planner);
        assert_int_equal(dcpar_planner_create(profile, lengths + 1, 1, &options, &planner, &error), DCPAR_INVALID);
    }
    dcpar_profile_destroy(profile);
}

static void sequences_longer_than_the_last_bucket_are_too_long(void **state) {
    (void)state;
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 4);
    const int64_t lengths[] = {10, 200, 10}, bound = 100;
    dcpar_buckets *buckets = NULL;
    dcpar_error error;
    assert_ok(dcpar_buckets_create(&bound, 1, &buckets, &error));
    dcpar_planner_options options = options_of(4, "buddy");
    options.buckets = buckets;
    dcpar_planner *planner = NULL;
    assert_int_equal(dcpar_planner_create(profile, lengths, 3, &options, &planner, &error), DCPAR_TOO_LONG);
    assert_non_null(strstr(error.text, "row 1 has 200 tokens; the last bucket ends at 100"));
    options.on_too_long = DCPAR_TOO_LONG_DROP;
    planner = planner_for(profile, lengths, 3, options);
    assert_int_equal(play(planner).dropped_too_long, 1);
    dcpar_planner_destroy(planner);
    dcpar_buckets_destroy(buckets);
    dcpar_profile_destroy(profile);
}

static void boundaries_of_memory_are_exact(void **state) { /* S3 */
    (void)state;
    const cost_formula formula = holds(64);
    const struct {
        int64_t length;
        int32_t sp; /* 0: does not fit */
    } cases[] = {{64, 1}, {65, 2}, {128, 2}, {129, 4}, {256, 4}, {257, 0}};
    dcpar_profile *profile = profile_for_world(&formula, 4);
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p)
        for (int i = 0; i < 6; ++i) {
            const dcpar_planner_options options = options_of(4, dcpar_policy_name(p));
            dcpar_planner *planner = NULL;
            dcpar_plan *plan = NULL;
            dcpar_error error;
            const dcpar_status status = dcpar_planner_create(profile, &cases[i].length, 1, &options, &planner, &error);
            assert_int_equal(status, cases[i].sp > 0 ? DCPAR_OK : DCPAR_TOO_LONG);
            if (status != DCPAR_OK) continue;
            assert_ok(dcpar_planner_next(planner, &plan, &error));
            int64_t count;
            assert_true(dcpar_plan_microbatches(plan, &count)[0].sp >= cases[i].sp);
            if (strcmp(options.policy, "bucket") == 0)
                assert_int_equal(dcpar_plan_microbatches(plan, &count)[0].sp, cases[i].sp);
            dcpar_plan_destroy(plan);
            dcpar_planner_destroy(planner);
        }
    dcpar_profile_destroy(profile);
}

static void lengths_that_are_all_alike_run(void **state) { /* S6 */
    (void)state;
    const cost_formula formula = simple_formula();
    int64_t ones[100], same[100];
    for (int i = 0; i < 100; ++i) ones[i] = 1, same[i] = 777;
    assert_all_run(&formula, ones, 100, 8);
    assert_all_run(&formula, same, 100, 6);
}

/* ------------------------------------------------------------------------------------------------- size */

static void nothing_overflows_with_billions_of_tokens(void **state) { /* N1 */
    (void)state;
    cost_formula formula = simple_formula();
    formula.square = 0;
    formula.memory = INT64_C(1) << 60;
    enum { COUNT = 100000 };
    int64_t *lengths = malloc(COUNT * sizeof *lengths), total = 0;
    for (int i = 0; i < COUNT; ++i) total += lengths[i] = 30000 + i % 41000;
    lengths[COUNT / 2] = INT64_C(65536) * 65536;
    total += lengths[COUNT / 2] - (30000 + COUNT / 2 % 41000);
    assert_true(total > INT64_C(9000000000));
    dcpar_profile *profile = profile_for_world(&formula, 4096);
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        dcpar_planner_options options = options_of(4096, dcpar_policy_name(p));
        dcpar_plan *plan = NULL;
        dcpar_error error;
        options.tokens_per_iteration = total;
        dcpar_planner *planner = planner_for(profile, lengths, COUNT, options);
        int64_t tokens = 0;
        while (dcpar_planner_next(planner, &plan, &error) == DCPAR_OK) {
            assert_ok(dcpar_plan_check(plan, formula.memory, &error));
            const dcpar_metrics metrics = dcpar_plan_metrics(plan);
            assert_true(metrics.padded_tokens >= metrics.tokens && metrics.tokens > 0);
            assert_true(isfinite(metrics.seconds));
            tokens += metrics.tokens;
            dcpar_plan_destroy(plan);
        }
        assert_true(tokens == total);
        dcpar_planner_destroy(planner);
    }
    free(lengths);
    dcpar_profile_destroy(profile);
}

static void ten_million_lengths_are_planned_at_once(void **state) { /* N2, N3 */
    (void)state;
    random_source random = start_random(16);
    cost_formula formula = simple_formula();
    formula.memory = 1000 + 4 * 11 * (INT64_C(1) << 18);
#ifdef __SANITIZE_ADDRESS__
    enum { COUNT = 1000000 };
#else
    enum { COUNT = 10000000 };
#endif
    int64_t *lengths = malloc(COUNT * sizeof *lengths);
    for (int i = 0; i < COUNT; ++i) lengths[i] = random_between(&random, 1, 1000);
    lengths[COUNT / 3] = 1000000;
    dcpar_profile *profile = profile_for_world(&formula, 8);
    const double start = now();
    dcpar_planner *planner = planner_for(profile, lengths, COUNT, options_of(8, "buddy"));
    dcpar_plan *plan = NULL;
    dcpar_error error;
    assert_ok(dcpar_planner_next(planner, &plan, &error));
    print_message("%d lengths: first plan after %.2f s\n", COUNT, now() - start);
    assert_true(now() - start < 10);
    dcpar_plan_destroy(plan);
    int64_t longest_runs = 0;
    while (dcpar_planner_next(planner, &plan, &error) == DCPAR_OK) {
        int64_t count;
        const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
        for (int64_t i = 0; i < count && longest_runs == 0; ++i)
            for (int64_t j = 0; j < microbatches[i].row_count; ++j)
                longest_runs += microbatches[i].rows[j] == COUNT / 3;
        dcpar_plan_destroy(plan);
        if (longest_runs > 0) break;
    }
    assert_int_equal(longest_runs, 1);
    dcpar_planner_destroy(planner);
    free(lengths);
    dcpar_profile_destroy(profile);
}

/* --------------------------------------------------------------------------------------------- options */

static void options_that_cannot_be_are_refused(void **state) {
    (void)state;
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 4);
    const int64_t lengths[] = {10, 20};
    dcpar_planner_options broken[8];
    for (int i = 0; i < 8; ++i) broken[i] = options_of(4, "buddy");
    broken[0].world = 0;
    broken[1].policy = "fastest";
    broken[2].policy = NULL;
    broken[3].tokens_per_iteration = -1;
    broken[4].tokens_per_iteration = broken[4].sequences_per_iteration = 10;
    broken[5].size = 8;
    broken[6].memory = -1;
    broken[7].g_max = -1;
    for (int i = 0; i < 8; ++i) {
        dcpar_planner *planner = NULL;
        dcpar_error error;
        assert_int_equal(dcpar_planner_create(profile, lengths, 2, &broken[i], &planner, &error), DCPAR_INVALID);
        assert_null(planner);
    }
    dcpar_error error;
    dcpar_planner *planner = NULL;
    assert_int_equal(dcpar_planner_create(profile, lengths, 2, &broken[1], &planner, &error), DCPAR_INVALID);
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        assert_non_null(strstr(error.text, dcpar_policy_name(p)));
        assert_non_null(dcpar_policy_summary(p));
    }
    assert_null(dcpar_policy_name(-1));
    dcpar_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_illegal_size_is_refused_with_the_legal_ones),
        cmocka_unit_test(a_profile_of_a_larger_world_serves_a_smaller_one),
        cmocka_unit_test(a_width_that_does_not_divide_the_world_still_runs),
        cmocka_unit_test(buckets_with_fewer_sequences_than_a_batch_run),
        cmocka_unit_test(rank_sized_batches_that_no_world_divides_are_all_run),
        cmocka_unit_test(two_sides_that_fill_unequally_meet_in_one_plan),
        cmocka_unit_test(fewer_sequences_than_ranks_run),
        cmocka_unit_test(seven_sequences_on_eight_ranks_are_one_iteration),
        cmocka_unit_test(a_remainder_of_a_batch_runs),
        cmocka_unit_test(lengths_that_cannot_be_are_refused_by_row),
        cmocka_unit_test(empty_sequences_are_dropped_and_counted),
        cmocka_unit_test(a_sequence_that_fits_nowhere_is_refused_or_dropped),
        cmocka_unit_test(sequences_longer_than_the_last_bucket_are_too_long),
        cmocka_unit_test(boundaries_of_memory_are_exact),
        cmocka_unit_test(lengths_that_are_all_alike_run),
        cmocka_unit_test(nothing_overflows_with_billions_of_tokens),
        cmocka_unit_test(ten_million_lengths_are_planned_at_once),
        cmocka_unit_test(options_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
