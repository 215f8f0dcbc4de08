#define _XOPEN_SOURCE 700
#include <math.h>

#include "data_testing.h"

static int64_t *drawn(const char *text, int64_t *count) {
    dcpar_error error;
    int64_t *lengths = NULL;
    assert_true(dcpar_lengths_is_drawn(text));
    assert_ok(dcpar_lengths_read(text, &lengths, count, &error));
    assert_non_null(lengths);
    return lengths;
}

/* The share of lengths that are at most `most`. */
static double share_up_to(const char *text, int64_t most) {
    int64_t count, under = 0;
    int64_t *lengths = drawn(text, &count);
    for (int64_t row = 0; row < count; ++row) under += lengths[row] <= most;
    free(lengths);
    return (double)under / (double)count;
}

static double mean_of(const char *text) {
    int64_t count;
    int64_t *lengths = drawn(text, &count);
    double sum = 0;
    for (int64_t row = 0; row < count; ++row) sum += (double)lengths[row];
    free(lengths);
    return sum / (double)count;
}

/* 100,000 draws: a share is known to 0.005 with more than three deviations. */
static void check_share(const char *text, int64_t most, double wanted) {
    const double share = share_up_to(text, most);
    if (fabs(share - wanted) > 0.005)
        fail_msg("%s: %.4f are at most %lld, not %.4f", text, share, (long long)most, wanted);
}

static void shares_are_those_of_the_distribution(void **state) {
    (void)state;
    check_share("uniform:max=100", 25, 0.25);
    check_share("uniform:min=51,max=100", 75, 0.5);
    check_share("pareto:alpha=2,min=100", 199, 1 - 0.25);
    check_share("pareto:alpha=0.5,min=100", 399, 0.5);
    check_share("zipf:exponent=1,max=1023", 31, 0.5);
    check_share("zipf:exponent=2,max=999", 9, (1 - 0.1) / (1 - 0.001));
    check_share("lognormal:mean=1000,sigma=1", 606, 0.5); /* the median is mean exp(-sigma^2 / 2) */
    check_share("lognormal:mean=1000,sigma=1", 1648, 0.8413);
    check_share("bimodal:short=100,long=100000,share=0.3,sigma=0.1", 1000, 0.7);
}

static void a_lognormal_has_its_mean(void **state) {
    (void)state;
    assert_true(fabs(mean_of("lognormal:mean=1000,sigma=0.5") - 999.5) < 10);
}

static void what_falls_outside_becomes_min_or_max(void **state) {
    (void)state;
    int64_t count, low = 0, high = 0;
    int64_t *lengths = drawn("lognormal:mean=1024,sigma=1.5,min=128,max=8192,count=1000", &count);
    assert_int_equal(count, 1000);
    for (int64_t row = 0; row < count; ++row) {
        assert_in_range(lengths[row], 128, 8192);
        low += lengths[row] == 128;
        high += lengths[row] == 8192;
    }
    assert_true(low > 0 && high > 0);
    free(lengths);
    lengths = drawn("pareto:alpha=0.001,count=1000", &count); /* beyond what a double holds */
    for (int64_t row = 0; row < count; ++row) assert_in_range(lengths[row], 1, DCPAR_LENGTH_MAX);
    free(lengths);
}

static void a_row_depends_on_the_seed_alone(void **state) {
    (void)state;
    int64_t few, many, same = 0;
    int64_t *short_list = drawn("uniform:max=1000000,count=100", &few);
    int64_t *long_list = drawn("uniform:max=1000000,count=200", &many);
    assert_memory_equal(short_list, long_list, 100 * sizeof *short_list);
    free(long_list);
    long_list = drawn("uniform:max=1000000,count=100,seed=1", &many);
    for (int i = 0; i < 100; ++i) same += short_list[i] == long_list[i];
    assert_true(same < 3);
    free(short_list);
    free(long_list);
    free(drawn("uniform:max=5,count=0", &many));
    assert_int_equal(many, 0);
}

static void refuse(const char *text, const char *part) {
    dcpar_error error;
    int64_t *lengths = NULL, count = -1;
    assert_fails(dcpar_lengths_read(text, &lengths, &count, &error), DCPAR_INVALID, part);
    assert_non_null(strstr(error.text, text));
    assert_null(lengths);
}

static void what_is_no_parameter_is_refused(void **state) {
    (void)state;
    refuse("lognormal:mean=1024", "sigma is missing");
    refuse("uniform:count=5", "max is missing");
    refuse("uniform:", "\"\" is not a parameter of uniform");
    refuse("uniform:max=5,", "\"\" is not a parameter");
    refuse("uniform:max", "\"max\" is not a parameter");
    refuse("uniform:mean=5,max=9", "\"mean=5\" is not a parameter of uniform");
    refuse("uniform:averyveryverylongname=5", "is not a parameter");
    refuse("uniform:max=", "max must be a number");
    refuse("uniform:max=5x", "max must be a number");
    refuse("uniform:max=-5", "max must be a number");
    refuse("uniform:max=inf", "max must be a number");
    refuse("uniform:min=9,max=5", "min not above max");
    refuse("uniform:min=0,max=5", "from 1 to 1099511627776");
    refuse("uniform:max=1e13", "from 1 to 1099511627776");
    refuse("uniform:max=5,count=1e10", "count is above");
    assert_false(dcpar_lengths_is_drawn("uniform"));
    assert_false(dcpar_lengths_is_drawn("uni:max=5"));
    assert_false(dcpar_lengths_is_drawn("./uniform:max=5"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_folder(shares_are_those_of_the_distribution),  cmocka_unit_test(a_lognormal_has_its_mean),
        in_folder(what_falls_outside_becomes_min_or_max), cmocka_unit_test(a_row_depends_on_the_seed_alone),
        in_folder(what_is_no_parameter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
