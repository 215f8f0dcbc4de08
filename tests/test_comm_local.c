/* Ranks that are threads of this process. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <stdio.h>
#include <time.h>

#include "comm_cases.h"
#include "testing.h"

static const int32_t worlds[] = {1, 2, 3, 4, 6, 8};

#define FOR_EACH_WORLD(ranks)                                                                                          \
    for (size_t world_ = 0; world_ < sizeof worlds / sizeof worlds[0]; ++world_)                                       \
        for (int32_t ranks = worlds[world_], once_ = 1; once_; once_ = 0)

static void every_operation_gives_what_rank_order_says(void **state) {
    (void)state;
    /* Small ones go through mailboxes (8 KiB), large ones do not. */
    int64_t counts[] = {0, 1, 7, 1000, 1025, 9000, -1};
    dcpar_error error;
    FOR_EACH_WORLD(ranks) assert_ok(dcpar_comm_run_local(ranks, case_operations, counts, &error));
}

static void groups_of_every_width_work_like_worlds(void **state) {
    (void)state;
    dcpar_error error;
    FOR_EACH_WORLD(ranks) assert_ok(dcpar_comm_run_local(ranks, case_groups, NULL, &error));
}

static void operations_of_world_and_groups_interleave(void **state) {
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    dcpar_error error;
    FOR_EACH_WORLD(ranks) assert_ok(dcpar_comm_run_local(ranks, case_interleavings, &seed, &error));
}

static void sums_have_the_same_bits_every_time_on_every_rank(void **state) {
    (void)state;
    dcpar_error error;
    FOR_EACH_WORLD(ranks) assert_ok(dcpar_comm_run_local(ranks, case_same_bits, NULL, &error));
}

static void a_nan_of_one_rank_reaches_all(void **state) {
    (void)state;
    dcpar_error error;
    FOR_EACH_WORLD(ranks) assert_ok(dcpar_comm_run_local(ranks, case_not_a_number, NULL, &error));
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(3, case_arguments, NULL, &error));
    assert_int_equal(dcpar_comm_run_local(0, case_arguments, NULL, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_comm_run_local(-1, case_arguments, NULL, NULL), DCPAR_INVALID);
}

static void ulysses_goes_to_heads_and_back(void **state) {
    (void)state;
    dcpar_error error;
    FOR_EACH_WORLD(ranks) assert_ok(dcpar_comm_run_local(ranks, case_ulysses, NULL, &error));
}

/* ---------------------------------------------------------------------------------------------- ranks that fail */

/* What each rank saw; written by that rank only, read after the run. */
typedef struct seen {
    dcpar_status status;
    char text[512];
} seen;

static dcpar_status note(seen *seen, dcpar_status status, const dcpar_error *error) {
    seen->status = status;
    if (status != DCPAR_OK) snprintf(seen->text, sizeof seen->text, "%s", error->text);
    return status;
}

static dcpar_status rank_2_fails(dcpar_comm *world, void *argument, dcpar_error *error) {
    seen *mine = (seen *)argument + dcpar_comm_rank(world);
    if (dcpar_comm_rank(world) == 2) return dcpar_fail(error, DCPAR_IO, "the disk is full");
    return note(mine, dcpar_comm_barrier(world, error), error);
}

static void a_failing_rank_ends_the_waiting_of_all_with_its_sentence(void **state) {
    (void)state;
    seen seen[4] = {{0}};
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(4, rank_2_fails, seen, &error), DCPAR_IO);
    assert_string_equal(error.text, "rank 2: the disk is full");
    for (int rank = 0; rank < 4; ++rank) {
        if (rank == 2) continue;
        assert_int_equal(seen[rank].status, DCPAR_PEER);
        assert_string_equal(seen[rank].text, "rank 2: the disk is full");
    }
}

static dcpar_status rank_5_aborts_from_its_group(dcpar_comm *world, void *argument, dcpar_error *error) {
    seen *mine = (seen *)argument + dcpar_comm_rank(world);
    dcpar_comm *group = NULL;
    DCPAR_TRY(dcpar_comm_group(world, 2, &group, error));
    if (dcpar_comm_rank(world) == 5) {
        dcpar_comm_abort(group, "overheated");
        dcpar_comm_abort(group, "a second sentence nobody hears");
        return DCPAR_OK;
    }
    /* The ranks wait in different groups; then the next call fails as well, also in a group made only now. */
    dcpar_status status = DCPAR_OK;
    while (status == DCPAR_OK) status = dcpar_comm_barrier(group, error);
    note(mine, status, error);
    DCPAR_TRY(dcpar_comm_group(world, 3, &group, error));
    double value = 0;
    EXPECT(dcpar_comm_all_reduce(group, &value, 1, DCPAR_SUM, error) == DCPAR_PEER);
    return status;
}

static void an_abort_reaches_all_groups_and_later_calls(void **state) {
    (void)state;
    seen seen[6] = {{0}};
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(6, rank_5_aborts_from_its_group, seen, &error), DCPAR_PEER);
    assert_string_equal(error.text, "rank 5: overheated");
    for (int rank = 0; rank < 5; ++rank) {
        assert_int_equal(seen[rank].status, DCPAR_PEER);
        assert_string_equal(seen[rank].text, "rank 5: overheated");
    }
}

static dcpar_status rank_1_leaves(dcpar_comm *world, void *argument, dcpar_error *error) {
    seen *mine = (seen *)argument + dcpar_comm_rank(world);
    if (dcpar_comm_rank(world) == 1) return DCPAR_OK;
    note(mine, dcpar_comm_barrier(world, error), error);
    return DCPAR_OK;
}

static void a_rank_that_leaves_early_does_not_hang_the_others(void **state) {
    (void)state;
    seen seen[3] = {{0}};
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(3, rank_1_leaves, seen, &error));
    assert_int_equal(seen[0].status, DCPAR_PEER);
    assert_string_equal(seen[0].text, "rank 1 has left");
    assert_int_equal(seen[2].status, DCPAR_PEER);
    assert_string_equal(seen[2].text, "rank 1 has left");
}

static dcpar_status the_first_two_leave_first(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    enum { LARGE = 5000 };
    dcpar_comm *group = NULL;
    DCPAR_TRY(dcpar_comm_barrier(world, error));
    DCPAR_TRY(dcpar_comm_group(world, 2, &group, error));
    if (dcpar_comm_rank(world) < 2) return DCPAR_OK;
    for (int i = 0; i < 100; ++i) DCPAR_TRY(check_all_to_all(group, (uint64_t)i, i % 10 == 0 ? LARGE : 8, error));
    return DCPAR_OK;
}

static void who_leaves_does_not_disturb_groups_he_is_not_in(void **state) {
    (void)state;
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(4, the_first_two_leave_first, NULL, &error));
}

static dcpar_status ranks_disagree(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    char data[64] = {0}, all[3 * 64];
    if (dcpar_comm_rank(world) == 1) return dcpar_comm_broadcast(world, data, 64, 0, error);
    return dcpar_comm_all_gather(world, data, all, 64, error);
}

static void different_calls_are_told_apart(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(3, ranks_disagree, NULL, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "rank 0 calls all_gather of 64 bytes"));
    assert_non_null(strstr(error.text, "rank 1 calls broadcast of 64 bytes"));
}

/* All but the last rank wait in the operation, which the last one never calls. */
static dcpar_status the_last_leaves(dcpar_comm *world, void *argument, dcpar_error *error) {
    const checked_operation operation = *(const checked_operation *)argument;
    const int32_t last = dcpar_comm_size(world) - 1;
    if (dcpar_comm_rank(world) == last) return DCPAR_OK;
    char sentence[64];
    snprintf(sentence, sizeof sentence, "rank %d has left", (int)last);
    EXPECT(operation(world, 1, 3000, error) == DCPAR_PEER);
    EXPECT(strcmp(error->text, sentence) == 0);
    return DCPAR_OK; /* the others leave as well, but the first to leave is named */
}

static void every_operation_tells_who_left_first(void **state) {
    (void)state;
    dcpar_error error;
    for (int64_t i = 0; i < CHECKED_OPERATIONS; ++i) {
        checked_operation operation = checked_operations[i];
        for (int32_t ranks = 2; ranks <= 8; ++ranks)
            assert_ok(dcpar_comm_run_local(ranks, the_last_leaves, &operation, &error));
    }
}

/* The world's barrier tells the others that rank 3 is gone; only then rank 2 makes its pair with it. */
static dcpar_status pair_up_with_who_has_left(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    dcpar_comm *pair = NULL;
    if (dcpar_comm_rank(world) == 3) return DCPAR_OK;
    EXPECT(dcpar_comm_barrier(world, error) == DCPAR_PEER);
    if (dcpar_comm_rank(world) != 2) return DCPAR_OK;
    DCPAR_TRY(dcpar_comm_group(world, 2, &pair, error));
    EXPECT(dcpar_comm_barrier(pair, error) == DCPAR_PEER);
    EXPECT(strcmp(error->text, "rank 3 has left") == 0);
    return DCPAR_OK;
}

static void a_group_made_with_a_rank_that_has_left_does_not_wait_for_it(void **state) {
    (void)state;
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(4, pair_up_with_who_has_left, NULL, &error));
}

static dcpar_status fail_in_turn(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    if (dcpar_comm_rank(world) == 1) return dcpar_fail(error, DCPAR_PLAN, "the first");
    return dcpar_comm_barrier(world, error) == DCPAR_PEER ? dcpar_fail(error, DCPAR_IO, "a later one") : DCPAR_OK;
}

static void the_first_failure_is_that_of_the_run(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(3, fail_in_turn, NULL, &error), DCPAR_PLAN);
    assert_string_equal(error.text, "rank 1: the first");
    assert_int_equal(dcpar_comm_run_local(3, fail_in_turn, NULL, NULL), DCPAR_PLAN);
}

static dcpar_status fail_without_words(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)world;
    (void)argument;
    (void)error;
    return DCPAR_IO;
}

static void a_failure_without_words_gets_those_of_its_status(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(1, fail_without_words, NULL, &error), DCPAR_IO);
    assert_string_equal(error.text, "rank 0: a file could not be read or written");
}

/* Buffers are freed as soon as a call returns: a reader left behind would be caught by the sanitizers. */
static dcpar_status rank_0_fails_some_time(dcpar_comm *world, void *argument, dcpar_error *error) {
    const int64_t moment = *(const int64_t *)argument;
    dcpar_comm *group = NULL;
    DCPAR_TRY(dcpar_comm_group(world, 3, &group, error));
    for (int64_t i = 0;; ++i) {
        if (dcpar_comm_rank(world) == 0 && i == moment) return dcpar_fail(error, DCPAR_IO, "at moment %d", (int)i);
        DCPAR_TRY(check_all_reduce(group, (uint64_t)i, 2000, error));
        DCPAR_TRY(check_all_to_all(group, (uint64_t)i, 4000, error));
    }
}

static void a_failure_frees_no_memory_under_a_reader(void **state) {
    (void)state;
    dcpar_error error;
    for (int64_t moment = 0; moment < 60; ++moment) {
        assert_int_equal(dcpar_comm_run_local(6, rank_0_fails_some_time, &moment, &error), DCPAR_IO);
        assert_non_null(strstr(error.text, "rank 0: at moment"));
    }
}

static dcpar_status use_stack(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    enum { BYTES = 8 << 20 };
    volatile char stack[BYTES];
    for (int64_t i = 0; i < BYTES; i += 4096) stack[i] = (char)i;
    EXPECT(stack[4096] == 0);
    return dcpar_comm_barrier(world, error);
}

static void ranks_have_as_much_stack_as_a_program(void **state) {
    (void)state;
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(4, use_stack, NULL, &error));
}

/* --------------------------------------------------------------------------------------------------- launchers */

static bool launched_with(const char *const *variables) {
    static const char *const known[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) unsetenv(known[i]);
    for (; *variables != NULL; variables += 2) setenv(variables[0], variables[1], 1);
    return dcpar_comm_mpi_launched();
}

#define LAUNCHED_WITH(...) launched_with((const char *const[]){__VA_ARGS__, NULL})

static void launchers_are_known_and_allocations_are_not_taken_for_them(void **state) {
    (void)state;
    assert_false(LAUNCHED_WITH("HOME", "/"));
    assert_true(LAUNCHED_WITH("OMPI_COMM_WORLD_SIZE", "1"));
    assert_true(LAUNCHED_WITH("OMPI_COMM_WORLD_SIZE", "4"));
    assert_true(LAUNCHED_WITH("PMI_SIZE", "1"));
    assert_true(LAUNCHED_WITH("PMI_SIZE", "4"));
    assert_false(LAUNCHED_WITH("PMI_SIZE", "four"));
    assert_true(LAUNCHED_WITH("SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "8"));
    /* A batch script; the shell of `salloc`; the shell of `srun --pty`; mpiexec within the latter. */
    assert_false(LAUNCHED_WITH("SLURM_PROCID", "0", "SLURM_NTASKS", "8"));
    assert_false(LAUNCHED_WITH("SLURM_NTASKS", "8"));
    assert_false(LAUNCHED_WITH("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1", "PMI_SIZE", "1"));
    assert_true(LAUNCHED_WITH("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1", "PMI_SIZE", "4"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_gives_what_rank_order_says),
        cmocka_unit_test(groups_of_every_width_work_like_worlds),
        cmocka_unit_test(operations_of_world_and_groups_interleave),
        cmocka_unit_test(sums_have_the_same_bits_every_time_on_every_rank),
        cmocka_unit_test(a_nan_of_one_rank_reaches_all),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(ulysses_goes_to_heads_and_back),
        cmocka_unit_test(a_failing_rank_ends_the_waiting_of_all_with_its_sentence),
        cmocka_unit_test(an_abort_reaches_all_groups_and_later_calls),
        cmocka_unit_test(a_rank_that_leaves_early_does_not_hang_the_others),
        cmocka_unit_test(who_leaves_does_not_disturb_groups_he_is_not_in),
        cmocka_unit_test(every_operation_tells_who_left_first),
        cmocka_unit_test(a_group_made_with_a_rank_that_has_left_does_not_wait_for_it),
        cmocka_unit_test(the_first_failure_is_that_of_the_run),
        cmocka_unit_test(a_failure_without_words_gets_those_of_its_status),
        cmocka_unit_test(different_calls_are_told_apart),
        cmocka_unit_test(a_failure_frees_no_memory_under_a_reader),
        cmocka_unit_test(ranks_have_as_much_stack_as_a_program),
        cmocka_unit_test(launchers_are_known_and_allocations_are_not_taken_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
