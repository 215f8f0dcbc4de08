/* Profile, cost (Eq. 4-6), legal sizes and choice (Algorithm 1). */
#include "plan/profile.h"
#include "plan_testing.h"

static const dcpar_profile_info small_info = {
    .model = "m", .device = "d", .method = "u", .version = "1", .layers = 4, .memory = 1000};

static dcpar_profile *profile_of(const dcpar_profile_row *rows, int64_t count) {
    dcpar_profile *profile = NULL;
    dcpar_error error;
    assert_ok(dcpar_profile_create(&small_info, rows, count, &profile, &error));
    return profile;
}

static dcpar_cost cost_of(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch, int32_t recompute) {
    dcpar_cost cost;
    dcpar_error error;
    assert_ok(dcpar_profile_cost(profile, length, sp, batch, recompute, &cost, &error));
    return cost;
}

/* ------------------------------------------------------------------------------------------------- cost */

static void cost_is_that_of_equations_4_to_6(void **state) {
    (void)state;
    const dcpar_profile_row row = {100, 2, 3, true, 0.5, 1.25, 0.75, 40, 8, 300};
    dcpar_profile *profile = profile_of(&row, 1);
    /* T = 4 (0.5 + 1.25) + r 0.5 + 0.75; M = max(4 - r, 1) 40 + 4 * 8 + 300 */
    const double seconds[] = {7.75, 8.25, 8.75, 9.25, 9.75};
    const int64_t bytes[] = {492, 452, 412, 372, 372};
    for (int32_t r = 0; r <= 4; ++r) {
        const dcpar_cost cost = cost_of(profile, 100, 2, 3, r);
        assert_float_equal(cost.seconds, seconds[r], 1e-12);
        assert_int_equal(cost.bytes, bytes[r]);
    }
    dcpar_cost cost;
    dcpar_error error;
    assert_int_equal(dcpar_profile_cost(profile, 100, 4, 3, 0, &cost, &error), DCPAR_ILLEGAL_SIZE);
    assert_int_equal(dcpar_profile_cost(profile, 0, 2, 3, 0, &cost, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_profile_cost(profile, 100, 2, 0, 0, &cost, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_profile_cost(profile, 100, 2, 1, 5, &cost, &error), DCPAR_INVALID);
    dcpar_profile_destroy(profile);
}

static void measured_points_are_met_exactly(void **state) {
    (void)state;
    random_source random = start_random(6);
    dcpar_profile_row rows[2 * 5 * 4];
    int64_t count = 0;
    for (int32_t sp = 1; sp <= 2; ++sp)
        for (int64_t length = 10; length <= 50; length += 10)
            for (int32_t batch = 1; batch <= 8; batch *= 2)
                rows[count++] = (dcpar_profile_row){length,
                                                    sp,
                                                    batch,
                                                    true,
                                                    random_real(&random, 0.1, 1),
                                                    random_real(&random, 0.1, 1),
                                                    random_real(&random, 0, 1),
                                                    random_between(&random, 0, 1000),
                                                    random_between(&random, 0, 100),
                                                    random_between(&random, 0, 100)};
    dcpar_profile *profile = profile_of(rows, count);
    for (int64_t i = 0; i < count; ++i) {
        dcpar_point point;
        assert_true(dcpar_profile_point(profile, rows[i].length, rows[i].sp, rows[i].batch, &point));
        assert_float_equal(point.forward, rows[i].forward, 1e-12);
        assert_float_equal(point.backward, rows[i].backward, 1e-12);
        assert_float_equal(point.constant_seconds, rows[i].constant_seconds, 1e-12);
        assert_float_equal(point.layer_bytes, (double)rows[i].layer_bytes, 1e-9);
        assert_float_equal(point.input_bytes, (double)rows[i].input_bytes, 1e-9);
        assert_float_equal(point.constant_bytes, (double)rows[i].constant_bytes, 1e-9);
    }
    dcpar_profile_destroy(profile);
}

static void between_points_times_follow_a_power_and_bytes_a_line(void **state) {
    (void)state;
    const dcpar_profile_row rows[] = {
        {100, 1, 1, true, 1, 2, 0.5, 100, 10, 50},
        {400, 1, 1, true, 16, 8, 2, 400, 40, 50}, /* forward grows with the square, backward with the length */
        {100, 1, 3, true, 3, 6, 0.5, 300, 30, 50},
        {400, 1, 3, true, 48, 24, 2, 1200, 120, 50},
    };
    dcpar_profile *profile = profile_of(rows, 4);
    dcpar_point point;
    assert_true(dcpar_profile_point(profile, 200, 1, 1, &point));
    assert_float_equal(point.forward, 4, 1e-9);
    assert_float_equal(point.backward, 4, 1e-9);
    assert_float_equal(point.constant_seconds, 1, 1e-9);
    assert_float_equal(point.layer_bytes, 200, 1e-9);
    assert_true(dcpar_profile_point(profile, 200, 1, 2, &point));
    assert_float_equal(point.forward, 8, 1e-9);
    assert_float_equal(point.layer_bytes, 400, 1e-9);
    assert_true(dcpar_profile_point(profile, 1, 1, 1, &point)); /* below the shortest the shortest is charged */
    assert_float_equal(point.forward, 1, 1e-9);
    assert_true(dcpar_profile_point(profile, 800, 1, 1, &point)); /* beyond the longest the last piece goes on */
    assert_float_equal(point.forward, 64, 1e-9);
    assert_true(dcpar_profile_point(profile, 100, 1, 5, &point));
    assert_float_equal(point.forward, 5, 1e-9);
    assert_false(dcpar_profile_point(profile, 100, 2, 1, &point));
    dcpar_profile_destroy(profile);
}

static void a_profile_of_one_point_is_valid(void **state) { /* P4 */
    (void)state;
    const dcpar_profile_row rows[] = {{64, 1, 1, true, 1, 2, 0, 10, 1, 0}, {64, 1, 2, false, 0, 0, 0, 0, 0, 0}};
    dcpar_profile *profile = profile_of(rows, 2);
    int64_t count;
    assert_ptr_not_equal(dcpar_profile_get_rows(profile, &count), rows);
    assert_int_equal(count, 2);
    assert_int_equal(dcpar_profile_most_batch(profile, 64, 1), 1);
    assert_float_equal(cost_of(profile, 64, 1, 1, 0).seconds, 12, 1e-12);
    dcpar_profile_destroy(profile);
}

/* --------------------------------------------------------------------------------------------- refusals */

/* Whatever lines drawn through the points say: what did not fit does not fit. */
static void what_did_not_fit_is_never_planned(void **state) {
    (void)state;
    const dcpar_profile_row rows[] = {
        {100, 1, 1, true, 1, 2, 0, 10, 1, 50}, {200, 1, 1, true, 2, 4, 0, 20, 2, 60},
        {300, 1, 1, false, 0, 0, 0, 0, 0, 0},  {100, 1, 2, true, 2, 4, 0, 20, 2, 60},
        {200, 1, 2, false, 0, 0, 0, 0, 0, 0},  {100, 2, 1, true, 1, 2, 0, 5, 1, 25},
        {200, 2, 1, true, 1, 2, 0, 10, 1, 25},
    };
    dcpar_profile *profile = profile_of(rows, 7);
    assert_true(cost_of(profile, 299, 1, 1, 4).bytes <= small_info.memory);
    assert_true(cost_of(profile, 300, 1, 1, 4).bytes > small_info.memory);
    assert_true(cost_of(profile, 199, 1, 2, 4).bytes <= small_info.memory);
    assert_true(cost_of(profile, 200, 1, 2, 4).bytes > small_info.memory);
    assert_true(cost_of(profile, 300, 2, 1, 4).bytes <= small_info.memory);
    int32_t sp = 0;
    assert_int_equal(dcpar_longest_fit(profile, 1, small_info.memory, NULL, 0, &sp), 299);
    dcpar_profile_destroy(profile);
}

static void bad_rows_are_refused_by_number(void **state) { /* P1 */
    (void)state;
    const dcpar_profile_row good = {64, 1, 1, true, 1, 2, 0, 10, 1, 0};
    const double bad[] = {0, NAN, INFINITY, -1};
    dcpar_profile_row rows[3] = {good, good, good};
    rows[0].batch = 2;
    rows[1].batch = 3;
    dcpar_profile *profile = NULL;
    dcpar_error error;
    for (int field = 0; field < 3; ++field)
        for (int i = 0; i < 4; ++i) {
            dcpar_profile_row broken[3] = {rows[0], rows[1], rows[2]};
            double *times[] = {&broken[1].forward, &broken[1].backward, &broken[1].constant_seconds};
            *times[field] = bad[i];
            if (field == 2 && bad[i] == 0) continue; /* a constant part may be nothing */
            assert_int_equal(dcpar_profile_create(&small_info, broken, 3, &profile, &error), DCPAR_INVALID);
            assert_non_null(strstr(error.text, "row 1"));
        }
    dcpar_profile_row other[] = {good, good, good, good, good, good};
    other[0].length = 0, other[1].sp = 0, other[2].batch = 0;
    other[3].layer_bytes = -1, other[4].input_bytes = -1, other[5].constant_bytes = -1;
    for (int i = 0; i < 6; ++i) {
        assert_int_equal(dcpar_profile_create(&small_info, &other[i], 1, &profile, &error), DCPAR_INVALID);
        assert_non_null(strstr(error.text, "row 0"));
    }
    const dcpar_profile_row twice[] = {good, rows[0], good};
    assert_int_equal(dcpar_profile_create(&small_info, twice, 3, &profile, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "twice"));
    const dcpar_profile_row nothing = {.length = 64, .sp = 1, .batch = 1};
    assert_int_equal(dcpar_profile_create(&small_info, &nothing, 1, &profile, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_profile_create(&small_info, &good, 0, &profile, &error), DCPAR_INVALID);
    assert_null(profile);
}

/* ---------------------------------------------------------------------------------------- legal sizes */

static void sizes_divide_heads_and_key_value_heads(void **state) { /* L1 */
    (void)state;
    int32_t sizes[64];
    dcpar_error error;
    assert_int_equal(dcpar_legal_sizes(8, 28, 0, sizes), 4);
    assert_int_equal(sizes[0], 1);
    assert_int_equal(sizes[1], 2);
    assert_int_equal(sizes[2], 4);
    assert_int_equal(sizes[3], 7);
    assert_int_equal(dcpar_legal_sizes(8, 28, 4, sizes), 3);
    assert_int_equal(dcpar_legal_sizes(6, 0, 0, sizes), 3);
    assert_int_equal(sizes[2], 4);
    assert_int_equal(dcpar_check_size(8, 8, 28, 4, &error), DCPAR_ILLEGAL_SIZE);
    assert_non_null(strstr(error.text, "28 heads are not divisible by 8"));
    assert_non_null(strstr(error.text, "1, 2, 4"));
    assert_int_equal(dcpar_check_size(7, 8, 28, 4, &error), DCPAR_ILLEGAL_SIZE);
    assert_non_null(strstr(error.text, "4 key-value heads are not divisible by 7"));
    assert_int_equal(dcpar_check_size(16, 8, 32, 16, &error), DCPAR_ILLEGAL_SIZE);
    assert_non_null(strstr(error.text, "8 ranks"));
    assert_int_equal(dcpar_check_size(0, 8, 32, 16, &error), DCPAR_ILLEGAL_SIZE);
    assert_int_equal(dcpar_check_size(3, 8, 0, 0, &error), DCPAR_ILLEGAL_SIZE);
    assert_int_equal(dcpar_check_size(4, 8, 28, 4, &error), DCPAR_OK);
}

/* ------------------------------------------------------------------------------------------------ choice */

static void recomputed_layers_are_the_fewest_that_fit(void **state) {
    (void)state;
    random_source random = start_random(7);
    for (int trial = 0; trial < 2000; ++trial) {
        const dcpar_point point = {.forward = 1,
                                   .backward = 2,
                                   .layer_bytes = (double)random_between(&random, 0, 50),
                                   .input_bytes = (double)random_between(&random, 0, 9),
                                   .constant_bytes = (double)random_between(&random, 0, 100)};
        const int32_t layers = (int32_t)random_between(&random, 1, 12);
        const int64_t memory = random_between(&random, 0, 700);
        int32_t expected = 0;
        while (expected <= layers && dcpar_point_cost(&point, layers, expected).bytes > memory) ++expected;
        assert_int_equal(dcpar_point_recompute(&point, layers, memory), expected <= layers ? expected : -1);
    }
}

static void the_choice_has_the_highest_throughput(void **state) {
    (void)state;
    random_source random = start_random(8);
    const int32_t sizes[] = {1, 2, 4, 8};
    for (int trial = 0; trial < 100; ++trial) {
        cost_formula formula = simple_formula();
        formula.constant_seconds = random_real(&random, 0, 5e-3);
        formula.exchange = random_real(&random, 0, 1e-6);
        formula.most_batch = 16;
        dcpar_profile *profile = profile_by_formula(&formula, sizes, 4);
        const int64_t length = 8 * random_between(&random, 2, 1000);
        for (int all = 0; all <= 1; ++all) {
            double best = 0;
            for (int i = 0; i < 4; ++i)
                for (int32_t batch = 1; batch <= dcpar_profile_most_batch(profile, length, sizes[i]); ++batch)
                    for (int32_t r = all ? formula.layers : 0; r <= formula.layers; ++r) {
                        const dcpar_cost cost = cost_of(profile, length, sizes[i], batch, r);
                        if (cost.bytes > formula.memory) continue;
                        best = fmax(best, batch * (double)length / (sizes[i] * cost.seconds));
                        break;
                    }
            dcpar_choice choice;
            dcpar_error error;
            const dcpar_status status = dcpar_choose(profile, length, formula.memory, sizes, 4, all, &choice, &error);
            if (best == 0) {
                assert_int_equal(status, DCPAR_TOO_LONG);
                continue;
            }
            assert_int_equal(status, DCPAR_OK);
            assert_float_equal(choice.throughput, best, 1e-9 * best);
            assert_true(choice.cost.bytes <= formula.memory);
            assert_true(!all || choice.recompute == formula.layers);
        }
        dcpar_profile_destroy(profile);
    }
}

static void the_longest_that_fits_is_exact(void **state) {
    (void)state;
    cost_formula formula = simple_formula();
    const int32_t sizes[] = {1, 2, 4};
    formula.layer_bytes = 10;
    formula.input_bytes = 0;
    formula.constant_bytes = 0;
    formula.memory = 10 * 256; /* one layer's activations of 256 tokens on a rank, the rest recomputed */
    dcpar_profile *profile = profile_by_formula(&formula, sizes, 3);
    int32_t sp = 0;
    assert_int_equal(dcpar_longest_fit(profile, 1, formula.memory, NULL, 0, &sp), 256);
    assert_int_equal(sp, 1);
    assert_int_equal(dcpar_longest_fit(profile, 4, formula.memory, NULL, 0, &sp), 1024);
    assert_int_equal(sp, 4);
    assert_int_equal(dcpar_longest_fit(profile, 4, formula.memory, &sizes[1], 1, &sp), 512);
    assert_int_equal(dcpar_longest_fit(profile, 4, 5, NULL, 0, &sp), 0);
    dcpar_profile_destroy(profile);
    formula.max_length = 600;
    profile = profile_by_formula(&formula, sizes, 3);
    assert_int_equal(dcpar_longest_fit(profile, 4, formula.memory, NULL, 0, &sp), 600);
    dcpar_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_is_that_of_equations_4_to_6),
        cmocka_unit_test(measured_points_are_met_exactly),
        cmocka_unit_test(between_points_times_follow_a_power_and_bytes_a_line),
        cmocka_unit_test(a_profile_of_one_point_is_valid),
        cmocka_unit_test(what_did_not_fit_is_never_planned),
        cmocka_unit_test(bad_rows_are_refused_by_number),
        cmocka_unit_test(sizes_divide_heads_and_key_value_heads),
        cmocka_unit_test(recomputed_layers_are_the_fewest_that_fit),
        cmocka_unit_test(the_choice_has_the_highest_throughput),
        cmocka_unit_test(the_longest_that_fits_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
