/* Buckets and the stream. */
#include "plan_testing.h"

/* ---------------------------------------------------------------------------------------------- buckets */

static int64_t padded_tokens(const int64_t *lengths, int32_t count, const int64_t *bounds, int32_t bucket_count) {
    int64_t total = 0;
    for (int32_t i = 0; i < count; ++i) {
        int32_t bucket = 0;
        while (bucket < bucket_count && bounds[bucket] < lengths[i]) ++bucket;
        if (bucket == bucket_count) return INT64_MAX;
        total += bounds[bucket];
    }
    return total;
}

/* The least padded tokens over all ways to take at most `buckets` of the lengths as bounds. */
static int64_t least_padded(const int64_t *lengths, int32_t count, int32_t buckets) {
    int64_t sorted[16], best = INT64_MAX;
    int32_t distinct = 0;
    for (int64_t value = 1; value <= 40; ++value)
        for (int32_t i = 0; i < count; ++i)
            if (lengths[i] == value) {
                sorted[distinct++] = value;
                break;
            }
    for (uint32_t set = 1; set < 1u << distinct; ++set) {
        int64_t bounds[16];
        int32_t used = 0;
        for (int32_t i = 0; i < distinct; ++i)
            if (set >> i & 1) bounds[used++] = sorted[i];
        if (used > buckets) continue;
        const int64_t padded = padded_tokens(lengths, count, bounds, used);
        if (padded < best) best = padded;
    }
    return best;
}

static int64_t padded_by(const dcpar_buckets *buckets, const int64_t *lengths, int32_t count) {
    int64_t total = 0;
    for (int32_t i = 0; i < count; ++i)
        if (lengths[i] > 0) total += dcpar_buckets_bound(buckets, dcpar_buckets_find(buckets, lengths[i]));
    return total;
}

static void minimal_buckets_pad_no_more_than_any_others(void **state) {
    (void)state;
    random_source random = start_random(2);
    for (int trial = 0; trial < 500; ++trial) {
        int64_t lengths[10];
        const int32_t count = (int32_t)random_between(&random, 1, 10);
        for (int32_t i = 0; i < count; ++i) lengths[i] = random_between(&random, 1, 40);
        const int32_t wanted = (int32_t)random_between(&random, 1, 6);
        dcpar_buckets *buckets = NULL;
        dcpar_error error;
        assert_ok(dcpar_buckets_minimal(lengths, count, wanted, &buckets, &error));
        assert_true(dcpar_buckets_count(buckets) <= wanted);
        assert_int_equal(padded_by(buckets, lengths, count), least_padded(lengths, count, wanted));
        dcpar_buckets_destroy(buckets);
    }
}

static void minimal_buckets_hold_the_longest_of_all_lengths(void **state) {
    (void)state;
    random_source random = start_random(3);
    int64_t lengths[2000];
    for (int i = 0; i < 2000; ++i)
        lengths[i] = random_between(&random, 0, INT64_C(1) << random_between(&random, 0, 40));
    lengths[77] = DCPAR_LENGTH_MAX;
    dcpar_buckets *buckets = NULL;
    dcpar_error error;
    assert_ok(dcpar_buckets_minimal(lengths, 2000, 24, &buckets, &error));
    assert_int_equal(dcpar_buckets_count(buckets), 24);
    assert_int_equal(dcpar_buckets_bound(buckets, 23), DCPAR_LENGTH_MAX);
    for (int32_t i = 0; i < 2000; ++i) {
        const int32_t bucket = dcpar_buckets_find(buckets, lengths[i]);
        assert_true(bucket >= 0);
        assert_true(dcpar_buckets_bound(buckets, bucket) >= lengths[i]);
        assert_true(bucket == 0 || dcpar_buckets_bound(buckets, bucket - 1) < lengths[i]);
    }
    dcpar_buckets_destroy(buckets);
}

static void geometric_buckets_bound_the_padding_of_every_sequence(void **state) {
    (void)state;
    random_source random = start_random(4);
    for (int trial = 0; trial < 200; ++trial) {
        int64_t lengths[50];
        const double ratio = random_real(&random, 1.05, 3);
        for (int i = 0; i < 50; ++i) lengths[i] = random_between(&random, 0, 1 << random_between(&random, 0, 20));
        lengths[0] = random_between(&random, 1, 1 << 20);
        dcpar_buckets *buckets = NULL;
        dcpar_error error;
        assert_ok(dcpar_buckets_geometric(lengths, 50, ratio, &buckets, &error));
        for (int i = 0; i < 50; ++i) {
            if (lengths[i] == 0) continue;
            const int32_t bucket = dcpar_buckets_find(buckets, lengths[i]);
            assert_true(bucket >= 0);
            assert_true((double)dcpar_buckets_bound(buckets, bucket) <= ratio * (double)lengths[i] * (1 + 1e-12));
        }
        dcpar_buckets_destroy(buckets);
    }
}

static void buckets_that_cannot_be_are_refused(void **state) {
    (void)state;
    dcpar_buckets *buckets = NULL;
    dcpar_error error;
    const int64_t same[] = {5, 5}, zero[] = {0, 5}, above[] = {5, DCPAR_LENGTH_MAX + 1}, nothing[] = {0, 0};
    const int64_t negative[] = {3, -5}, wide[] = {1, DCPAR_LENGTH_MAX};
    assert_int_equal(dcpar_buckets_create(same, 2, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_create(zero, 2, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_create(above, 2, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_create(same, 0, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_minimal(nothing, 2, 4, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_minimal(same, 2, 0, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_geometric(nothing, 2, 2, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_geometric(same, 2, 1, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_geometric(same, 2, NAN, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_geometric(wide, 2, 1.0001, &buckets, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_buckets_minimal(negative, 2, 4, &buckets, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "row 1"));
    assert_int_equal(dcpar_buckets_geometric(negative, 2, 2, &buckets, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "row 1"));
    assert_null(buckets);
}

/* ----------------------------------------------------------------------------------------------- stream */

static void the_stream_is_a_permutation_for_every_count(void **state) {
    (void)state;
    random_source random = start_random(5);
    for (int64_t count = 1; count <= 5000; count += count < 300 ? 1 : random_between(&random, 100, 500)) {
        bool *seen = calloc((size_t)count, sizeof *seen);
        const uint64_t seed = (uint64_t)random_between(&random, 0, INT64_MAX - 1);
        for (int64_t position = 0; position < count; ++position) {
            const int64_t row = dcpar_stream_row(seed, 3, count, position);
            assert_true(row >= 0 && row < count);
            assert_false(seen[row]);
            seen[row] = true;
        }
        free(seen);
    }
}

static void another_epoch_or_seed_gives_another_order(void **state) {
    (void)state;
    int same_epoch = 0, same_seed = 0;
    for (int64_t position = 0; position < 1000; ++position) {
        const int64_t row = dcpar_stream_row(7, 0, 1000, position);
        same_epoch += row == dcpar_stream_row(7, 1, 1000, position);
        same_seed += row == dcpar_stream_row(8, 0, 1000, position);
    }
    assert_true(same_epoch < 10); /* one is expected */
    assert_true(same_seed < 10);
}

/* Chi-square of where the first of 8 rows goes, and of which row comes first, over many epochs. */
static void every_row_is_as_likely_at_every_position(void **state) {
    (void)state;
    enum { COUNT = 8, EPOCHS = 20000 };
    for (int64_t position = 0; position < COUNT; ++position) {
        int seen[COUNT] = {0};
        for (int64_t epoch = 0; epoch < EPOCHS; ++epoch) ++seen[dcpar_stream_row(1, epoch, COUNT, position)];
        double chi_square = 0;
        for (int i = 0; i < COUNT; ++i) chi_square += pow(seen[i] - EPOCHS / COUNT, 2) / (EPOCHS / (double)COUNT);
        assert_true(chi_square < 24.3); /* 7 degrees of freedom: passed once in a thousand */
    }
}

static void a_position_of_a_huge_stream_costs_no_more_than_of_a_small_one(void **state) {
    (void)state;
    const int64_t counts[] = {1000, INT64_C(1) << 40, INT64_MAX};
    for (int i = 0; i < 3; ++i) {
        const double start = now();
        for (int64_t position = 0; position < 10000; ++position) {
            const int64_t row = dcpar_stream_row(1, 0, counts[i], position < 1000 ? position : counts[i] - 1);
            assert_true(row >= 0 && row < counts[i]);
        }
        assert_true(now() - start < 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minimal_buckets_pad_no_more_than_any_others),
        cmocka_unit_test(minimal_buckets_hold_the_longest_of_all_lengths),
        cmocka_unit_test(geometric_buckets_bound_the_padding_of_every_sequence),
        cmocka_unit_test(buckets_that_cannot_be_are_refused),
        cmocka_unit_test(the_stream_is_a_permutation_for_every_count),
        cmocka_unit_test(another_epoch_or_seed_gives_another_order),
        cmocka_unit_test(every_row_is_as_likely_at_every_position),
        cmocka_unit_test(a_position_of_a_huge_stream_costs_no_more_than_of_a_small_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
