/* Every policy in many worlds: each sequence once, plans that pass the checker, the same plans again, resuming. */
#include "plan_testing.h"

static const int32_t worlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24};
enum { WORLD_COUNT = sizeof worlds / sizeof worlds[0] };

static const int32_t heads[][2] = {{0, 0}, {12, 12}, {28, 4}, {16, 2}, {6, 3}};
enum { HEADS_COUNT = sizeof heads / sizeof heads[0] };

enum { COUNT = 80 };

/* Mostly short ones; the longest need several ranks where there are. */
static void draw_lengths(random_source *random, const dcpar_profile *profile, int32_t world, int64_t *lengths) {
    const int64_t longest = dcpar_longest_fit(profile, world, dcpar_profile_get_info(profile)->memory, NULL, 0, NULL);
    for (int i = 0; i < COUNT; ++i) {
        const double part = pow(random_real(random, 0, 1), 6);
        lengths[i] = 1 + (int64_t)(part * (double)(longest - 1));
        if (random_between(random, 0, 30) == 0) lengths[i] = 0;
    }
    lengths[COUNT / 2] = longest;
}

static dcpar_planner *planner_for(const dcpar_profile *profile, const int64_t *lengths, int64_t count,
                                  dcpar_planner_options options) {
    dcpar_planner *planner = NULL;
    dcpar_error error;
    assert_ok(dcpar_planner_create(profile, lengths, count, &options, &planner, &error));
    return planner;
}

/* Plays the rest of an epoch: checks every plan, counts rows into seen[], returns the hashes mixed into one. */
static uint64_t play(dcpar_planner *planner, int64_t memory, int32_t *seen, int64_t *iterations) {
    uint64_t hash = 0;
    dcpar_plan *plan = NULL;
    dcpar_error error;
    dcpar_status status;
    for (*iterations = 0; (status = dcpar_planner_next(planner, &plan, &error)) == DCPAR_OK; ++*iterations) {
        assert_ok(dcpar_plan_check(plan, memory, &error));
        int64_t count;
        const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
        for (int64_t i = 0; i < count; ++i)
            for (int64_t j = 0; j < microbatches[i].row_count; ++j) ++seen[microbatches[i].rows[j]];
        const dcpar_metrics metrics = dcpar_plan_metrics(plan);
        assert_true(metrics.lower_bound > 0 && metrics.lower_bound <= metrics.seconds);
        assert_true(metrics.idle_ratio >= 0 && metrics.idle_ratio < 1);
        hash = dcpar_mix(hash ^ dcpar_plan_hash(plan));
        dcpar_plan_destroy(plan);
    }
    assert_int_equal(status, DCPAR_END);
    return hash;
}

static void assert_each_once(const int32_t *seen, const int64_t *lengths, const char *policy, int32_t world) {
    for (int i = 0; i < COUNT; ++i)
        if (seen[i] != (lengths[i] > 0)) fail_msg("%s, %d ranks: row %d runs %d times", policy, world, i, seen[i]);
}

static void every_policy_runs_each_sequence_once_in_every_world(void **state) {
    (void)state;
    random_source random = start_random(9);
    for (int h = 0; h < HEADS_COUNT; ++h)
        for (int w = 0; w < WORLD_COUNT; ++w) {
            cost_formula formula = simple_formula();
            formula.heads = heads[h][0];
            formula.kv_heads = heads[h][1];
            formula.most_batch = 16;
            dcpar_profile *profile = profile_for_world(&formula, worlds[w]);
            int64_t lengths[COUNT];
            draw_lengths(&random, profile, worlds[w], lengths);
            for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
                dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
                options.world = worlds[w];
                options.policy = dcpar_policy_name(p);
                options.order = (dcpar_order)random_between(&random, 0, 1);
                if (random_between(&random, 0, 1) == 0) options.sequences_per_iteration = 31;
                uint64_t hashes[2] = {0};
                for (int again = 0; again < 2; ++again) { /* R4: the same plans of epoch 1 twice */
                    dcpar_planner *planner = planner_for(profile, lengths, COUNT, options);
                    for (int64_t epoch = again; epoch < 2; ++epoch) {
                        int32_t seen[COUNT] = {0};
                        int64_t iterations;
                        dcpar_planner_start_epoch(planner, epoch);
                        hashes[again] = play(planner, formula.memory, seen, &iterations);
                        assert_each_once(seen, lengths, options.policy, worlds[w]);
                        const dcpar_epoch_summary summary = dcpar_planner_summary(planner);
                        assert_int_equal(summary.used + summary.dropped, COUNT);
                        assert_int_equal(summary.total, COUNT);
                        assert_int_equal(summary.iterations, iterations);
                        assert_int_equal(summary.epoch, epoch);
                    }
                    dcpar_planner_destroy(planner);
                }
                assert_true(hashes[0] == hashes[1]);
            }
            dcpar_profile_destroy(profile);
        }
}

static void another_seed_or_epoch_gives_other_plans(void **state) {
    (void)state;
    random_source random = start_random(10);
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 8);
    int64_t lengths[COUNT], iterations;
    draw_lengths(&random, profile, 8, lengths);
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        int32_t seen[COUNT] = {0};
        dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
        options.world = 8;
        options.policy = dcpar_policy_name(p);
        options.sequences_per_iteration = 31;
        dcpar_planner *planner = planner_for(profile, lengths, COUNT, options);
        const uint64_t first = play(planner, formula.memory, seen, &iterations);
        dcpar_planner_start_epoch(planner, 1);
        assert_true(first != play(planner, formula.memory, seen, &iterations));
        dcpar_planner_destroy(planner);
        options.seed = 1;
        planner = planner_for(profile, lengths, COUNT, options);
        assert_true(first != play(planner, formula.memory, seen, &iterations));
        dcpar_planner_destroy(planner);
    }
    dcpar_profile_destroy(profile);
}

static void an_epoch_that_was_interrupted_goes_on_exactly(void **state) { /* R1 */
    (void)state;
    random_source random = start_random(11);
    const cost_formula formula = simple_formula();
    for (int32_t world = 4; world <= 8; world += 2) {
        dcpar_profile *profile = profile_for_world(&formula, world);
        int64_t lengths[COUNT];
        draw_lengths(&random, profile, world, lengths);
        for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p)
            for (int stop = 0; stop <= 3; ++stop) {
                dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
                options.world = world;
                options.policy = dcpar_policy_name(p);
                options.sequences_per_iteration = 13;
                options.seed = 5;
                dcpar_planner *unbroken = planner_for(profile, lengths, COUNT, options);
                dcpar_planner_start_epoch(unbroken, 3);
                dcpar_error error;
                for (int i = 0; i < stop; ++i) {
                    dcpar_plan *plan = NULL;
                    assert_ok(dcpar_planner_next(unbroken, &plan, &error));
                    dcpar_plan_destroy(plan);
                }
                static int64_t values[DCPAR_STATE_MAX];
                const int32_t count = dcpar_planner_state(unbroken, values);
                assert_true(count <= DCPAR_STATE_MAX);
                dcpar_planner *resumed = planner_for(profile, lengths, COUNT, options);
                assert_ok(dcpar_planner_restore(resumed, values, count, &error));
                int32_t seen[COUNT] = {0}, seen_again[COUNT] = {0};
                int64_t iterations, iterations_again;
                assert_true(play(unbroken, formula.memory, seen, &iterations) ==
                            play(resumed, formula.memory, seen_again, &iterations_again));
                assert_int_equal(iterations, iterations_again);
                assert_memory_equal(seen, seen_again, sizeof seen);
                assert_int_equal(dcpar_planner_summary(resumed).used, dcpar_planner_summary(unbroken).used);
                /* The next epoch too. */
                dcpar_planner_start_epoch(unbroken, 4);
                dcpar_planner_start_epoch(resumed, 4);
                assert_true(play(unbroken, formula.memory, seen, &iterations) ==
                            play(resumed, formula.memory, seen_again, &iterations_again));
                dcpar_planner_destroy(unbroken);
                dcpar_planner_destroy(resumed);
            }
        dcpar_profile_destroy(profile);
    }
}

static void buddy_goes_on_with_the_same_sequences_in_another_world(void **state) { /* R2 */
    (void)state;
    random_source random = start_random(12);
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 8);
    int64_t lengths[COUNT];
    draw_lengths(&random, profile, 4, lengths); /* what fits on 4 fits on 8 */
    dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
    options.world = 8;
    options.sequences_per_iteration = 20;
    dcpar_planner *before = planner_for(profile, lengths, COUNT, options);
    dcpar_error error;
    for (int i = 0; i < 3; ++i) {
        dcpar_plan *plan = NULL;
        assert_ok(dcpar_planner_next(before, &plan, &error));
        dcpar_plan_destroy(plan);
    }
    int64_t values[DCPAR_STATE_MAX];
    const int32_t count = dcpar_planner_state(before, values);
    int32_t rest[COUNT] = {0};
    int64_t iterations;
    play(before, formula.memory, rest, &iterations);
    for (int32_t world = 4; world <= 7; ++world) {
        options.world = world;
        dcpar_planner *after = planner_for(profile, lengths, COUNT, options);
        assert_ok(dcpar_planner_restore(after, values, count, &error));
        int32_t rest_again[COUNT] = {0};
        play(after, formula.memory, rest_again, &iterations);
        assert_memory_equal(rest, rest_again, sizeof rest);
        dcpar_planner_destroy(after);
    }
    dcpar_planner_destroy(before);
    dcpar_profile_destroy(profile);
}

static void a_state_of_something_else_is_refused(void **state) { /* R3 */
    (void)state;
    random_source random = start_random(13);
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 4);
    int64_t lengths[COUNT], values[DCPAR_STATE_MAX];
    draw_lengths(&random, profile, 4, lengths);
    dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
    options.world = 4;
    dcpar_error error;
    dcpar_planner *planner = planner_for(profile, lengths, COUNT, options);
    const int32_t count = dcpar_planner_state(planner, values);
    assert_ok(dcpar_planner_restore(planner, values, count, &error));

    assert_int_equal(dcpar_planner_restore(planner, values, count - 1, &error), DCPAR_MISMATCH);
    assert_int_equal(dcpar_planner_restore(planner, values, 0, &error), DCPAR_MISMATCH);
    for (int damaged = 0; damaged < count; ++damaged) {
        int64_t broken[DCPAR_STATE_MAX];
        memcpy(broken, values, (size_t)count * sizeof *values);
        broken[damaged] = -7;
        assert_int_equal(dcpar_planner_restore(planner, broken, count, &error), DCPAR_MISMATCH);
    }
    dcpar_planner *shrunk = planner_for(profile, lengths, COUNT - 1, options);
    assert_int_equal(dcpar_planner_restore(shrunk, values, count, &error), DCPAR_MISMATCH);
    assert_non_null(strstr(error.text, "lengths"));
    dcpar_planner_destroy(shrunk);

    int64_t changed[COUNT];
    memcpy(changed, lengths, sizeof changed);
    changed[3] = lengths[3] == 1 ? 2 : 1;
    dcpar_planner *other = planner_for(profile, changed, COUNT, options);
    assert_int_equal(dcpar_planner_restore(other, values, count, &error), DCPAR_MISMATCH);
    dcpar_planner_destroy(other);

    options.seed = 2;
    other = planner_for(profile, lengths, COUNT, options);
    assert_int_equal(dcpar_planner_restore(other, values, count, &error), DCPAR_MISMATCH);
    dcpar_planner_destroy(other);

    options.seed = 0;
    options.policy = "inter";
    other = planner_for(profile, lengths, COUNT, options);
    assert_int_equal(dcpar_planner_restore(other, values, count, &error), DCPAR_MISMATCH);
    assert_non_null(strstr(error.text, "inter"));
    dcpar_planner_destroy(other);
    dcpar_planner_destroy(planner);
    dcpar_profile_destroy(profile);
}

static void buddy_follows_the_file_when_asked(void **state) {
    (void)state;
    random_source random = start_random(14);
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 4);
    int64_t lengths[COUNT];
    draw_lengths(&random, profile, 4, lengths);
    dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
    options.world = 4;
    options.order = DCPAR_ORDER_FILE;
    options.sequences_per_iteration = 10;
    dcpar_planner *planner = planner_for(profile, lengths, COUNT, options);
    dcpar_plan *plan = NULL;
    dcpar_error error;
    int64_t before = -1;
    while (dcpar_planner_next(planner, &plan, &error) == DCPAR_OK) {
        int64_t count, first = COUNT, last = -1;
        const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
        for (int64_t i = 0; i < count; ++i)
            for (int64_t j = 0; j < microbatches[i].row_count; ++j) {
                first = microbatches[i].rows[j] < first ? microbatches[i].rows[j] : first;
                last = microbatches[i].rows[j] > last ? microbatches[i].rows[j] : last;
            }
        assert_true(first > before);
        before = last;
        dcpar_plan_destroy(plan);
    }
    dcpar_planner_destroy(planner);
    dcpar_profile_destroy(profile);
}

/* Every sequence of a micro-batch is at most as long as what it is padded to, and tokens are those of the sequences. */
static void sequences_fit_what_they_are_padded_to(void **state) {
    (void)state;
    random_source random = start_random(15);
    const cost_formula formula = simple_formula();
    dcpar_profile *profile = profile_for_world(&formula, 8);
    int64_t lengths[COUNT];
    draw_lengths(&random, profile, 8, lengths);
    for (int32_t p = 0; dcpar_policy_name(p) != NULL; ++p) {
        dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
        options.world = 8;
        options.policy = dcpar_policy_name(p);
        options.tokens_per_iteration = 30000;
        dcpar_planner *planner = planner_for(profile, lengths, COUNT, options);
        const dcpar_worst_case worst = dcpar_planner_worst_case(planner);
        dcpar_plan *plan = NULL;
        dcpar_error error;
        while (dcpar_planner_next(planner, &plan, &error) == DCPAR_OK) {
            int64_t count;
            const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
            for (int64_t i = 0; i < count; ++i) {
                int64_t tokens = 0;
                for (int64_t j = 0; j < microbatches[i].row_count; ++j) {
                    tokens += lengths[microbatches[i].rows[j]];
                    assert_true(lengths[microbatches[i].rows[j]] <= microbatches[i].padded_length);
                }
                assert_int_equal(tokens, microbatches[i].tokens);
                assert_true(microbatches[i].bytes <= worst.bytes);
                dcpar_cost cost; /* what the plan says is what the profile says, padded to whole parts */
                const int64_t sp = microbatches[i].sp;
                assert_ok(dcpar_profile_cost(profile, (microbatches[i].padded_length + sp - 1) / sp * sp, (int32_t)sp,
                                             (int32_t)microbatches[i].row_count, microbatches[i].recompute, &cost,
                                             &error));
                assert_float_equal(cost.seconds, microbatches[i].seconds, 1e-9);
                assert_int_equal(cost.bytes, microbatches[i].bytes);
            }
            dcpar_plan_destroy(plan);
        }
        dcpar_planner_destroy(planner);
    }
    dcpar_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_runs_each_sequence_once_in_every_world),
        cmocka_unit_test(another_seed_or_epoch_gives_other_plans),
        cmocka_unit_test(an_epoch_that_was_interrupted_goes_on_exactly),
        cmocka_unit_test(buddy_goes_on_with_the_same_sequences_in_another_world),
        cmocka_unit_test(a_state_of_something_else_is_refused),
        cmocka_unit_test(buddy_follows_the_file_when_asked),
        cmocka_unit_test(sequences_fit_what_they_are_padded_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
