/* The plan's own arithmetic, and the checker against plans that are broken on purpose. */
#include "plan/plan.h"
#include "plan_testing.h"

typedef struct part {
    int32_t first_rank, sp;
    double seconds;
    int32_t rows;
} part;

/* A plan of micro-batches in the order given; rows are numbered 0, 1, 2, .. and have 10 tokens each. */
static dcpar_plan *plan_of(int32_t world, const part *parts, int count) {
    dcpar_plan *plan = NULL;
    dcpar_error error;
    int64_t row = 0;
    assert_ok(dcpar_plan_create(world, 2, 5, &plan, &error));
    for (int i = 0; i < count; ++i) {
        const dcpar_microbatch microbatch = {.first_rank = parts[i].first_rank,
                                             .sp = parts[i].sp,
                                             .padded_length = 16,
                                             .seconds = parts[i].seconds,
                                             .bytes = 100 * (i + 1)};
        assert_ok(dcpar_plan_add(plan, &microbatch, &error));
        for (int32_t j = 0; j < parts[i].rows; ++j) assert_ok(dcpar_plan_add_row(plan, row++, 10, &error));
    }
    assert_ok(dcpar_plan_finish(plan, 1.5, &error));
    return plan;
}

static const part good[] = {{0, 4, 1, 1}, {0, 2, 2, 2}, {2, 1, 1, 1}, {3, 1, 3, 1}, {2, 1, 0.5, 1}};

static void queues_starts_and_metrics_are_those_of_the_micro_batches(void **state) {
    (void)state;
    dcpar_plan *plan = plan_of(4, good, 5);
    dcpar_error error;
    assert_ok(dcpar_plan_check(plan, 500, &error));
    const int64_t queues[4][3] = {{0, 1}, {0, 1}, {0, 2, 4}, {0, 3}};
    const int64_t lengths[] = {2, 2, 3, 2};
    for (int32_t rank = 0; rank < 4; ++rank) {
        int64_t count;
        const int64_t *queue = dcpar_plan_queue(plan, rank, &count);
        assert_int_equal(count, lengths[rank]);
        for (int64_t i = 0; i < count; ++i) assert_int_equal(queue[i], queues[rank][i]);
    }
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    const double starts[] = {0, 1, 1, 1, 2};
    assert_int_equal(count, 5);
    for (int i = 0; i < 5; ++i) assert_float_equal(microbatches[i].start, starts[i], 1e-12);
    assert_int_equal(microbatches[1].rows[1], 2);
    assert_int_equal(microbatches[1].tokens, 20);
    const dcpar_metrics metrics = dcpar_plan_metrics(plan);
    assert_int_equal(metrics.sequences, 6);
    assert_int_equal(metrics.tokens, 60);
    assert_int_equal(metrics.padded_tokens, 96);
    assert_int_equal(metrics.peak_bytes, 500);
    assert_float_equal(metrics.seconds, 4, 1e-12);
    assert_float_equal(metrics.lower_bound, 1.5, 1e-12);
    assert_float_equal(metrics.idle_ratio, 1 - (4 + 4 + 1 + 3 + 0.5) / 16, 1e-12);
    assert_float_equal(metrics.padding_ratio, 36.0 / 96, 1e-12);
    assert_float_equal(metrics.throughput, 15, 1e-12);
    assert_int_equal(dcpar_plan_epoch(plan), 2);
    assert_int_equal(dcpar_plan_iteration(plan), 5);
    dcpar_plan_destroy(plan);
}

static void an_empty_plan_is_a_plan(void **state) {
    (void)state;
    dcpar_plan *plan = plan_of(3, good, 0);
    dcpar_error error;
    int64_t count;
    assert_ok(dcpar_plan_check(plan, 0, &error));
    dcpar_plan_queue(plan, 2, &count);
    assert_int_equal(count, 0);
    dcpar_plan_destroy(plan);
}

/* The checker's answer for the good plan after a change. */
#define assert_broken(word, ...)                                                                                       \
    do {                                                                                                               \
        dcpar_plan *plan = plan_of(4, good, 5);                                                                        \
        dcpar_error error;                                                                                             \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(dcpar_plan_check(plan, 500, &error), DCPAR_PLAN);                                             \
        if (strstr(error.text, word) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, word);                \
        dcpar_plan_destroy(plan);                                                                                      \
    } while (0)

static void every_broken_rule_is_found(void **state) {
    (void)state;
    assert_broken("not a multiple", plan->microbatches[1].first_rank = 1);
    assert_broken("world of 4", plan->microbatches[3].first_rank = 4);
    assert_broken("world of 4", plan->microbatches[0].sp = 8);
    assert_broken("world of 4", plan->microbatches[0].sp = 0);
    assert_broken("row 3 runs twice", plan->rows[0] = 3);
    assert_broken("600 bytes", plan->microbatches[2].bytes = 600);
    assert_broken("no sequence", plan->microbatches[2].row_count = 0);
    assert_broken("seconds", plan->microbatches[2].seconds = NAN);
    assert_broken("seconds", plan->microbatches[2].seconds = 0);
    /* Rank 1 meets its two groups in the other order: 0 and 1 wait for each other. */
    assert_broken("waits for ever", plan->queue[plan->queue_start[1]] = 1, plan->queue[plan->queue_start[1] + 1] = 0);
    /* Rank 3 leaves out the group of all, rank 1 leaves out its last one. */
    assert_broken("waits for ever", plan->queue[plan->queue_start[3]] = 3, plan->queue[plan->queue_start[3] + 1] = 3);
    assert_broken("waits for ever", plan->queue[plan->queue_start[1] + 1] = 2);
}

static void a_micro_batch_that_no_queue_holds_is_found(void **state) {
    (void)state;
    dcpar_plan *plan = plan_of(4, good, 5);
    dcpar_error error;
    for (int32_t rank = 3; rank <= 4; ++rank) --plan->queue_start[rank]; /* rank 2's last one goes */
    plan->queue[plan->queue_start[3]] = 0;
    plan->queue[plan->queue_start[3] + 1] = 3;
    plan->queue_start[4] = plan->queue_start[3] + 2;
    assert_int_equal(dcpar_plan_check(plan, 500, &error), DCPAR_PLAN);
    assert_non_null(strstr(error.text, "no queue"));
    dcpar_plan_destroy(plan);
}

static void hashes_tell_plans_apart(void **state) {
    (void)state;
    dcpar_plan *plan = plan_of(4, good, 5), *same = plan_of(4, good, 5);
    const uint64_t hash = dcpar_plan_hash(plan);
    assert_true(hash == dcpar_plan_hash(same));
    same->rows[3] = 99;
    assert_true(hash != dcpar_plan_hash(same));
    dcpar_plan_destroy(same);
    same = plan_of(4, good, 5);
    same->microbatches[1].recompute = 1;
    assert_true(hash != dcpar_plan_hash(same));
    dcpar_plan_destroy(same);
    same = plan_of(8, good, 5);
    assert_true(hash != dcpar_plan_hash(same));
    dcpar_plan_destroy(same);
    dcpar_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_starts_and_metrics_are_those_of_the_micro_batches),
        cmocka_unit_test(an_empty_plan_is_a_plan),
        cmocka_unit_test(every_broken_rule_is_found),
        cmocka_unit_test(a_micro_batch_that_no_queue_holds_is_found),
        cmocka_unit_test(hashes_tell_plans_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
