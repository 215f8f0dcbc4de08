/* Ranks that are threads: what every communicator does (comm_cases.h), and how a run ends when a rank fails. */
#define _POSIX_C_SOURCE 200809L /* setenv, nanosleep */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm_cases.h"
#include "testing.h"

#define MOST_RANKS 8

/* ------------------------------------------------------------------------------------------------------- the cases */

static dcpar_status run_cases(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    for (int i = 0; i < COMM_CASES; ++i) {
        const dcpar_status status = comm_cases[i].run(world, error);
        if (status != DCPAR_OK) return dcpar_fail_prefix(error, status, "%s", comm_cases[i].name);
    }
    return DCPAR_OK;
}

static void every_case_holds_on_any_number_of_ranks(void **state) {
    (void)state;
    static const int32_t ranks[] = {1, 2, 3, 4, 6, 8};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; ++i) {
        dcpar_error error;
        assert_ok(dcpar_comm_run_local(ranks[i], run_cases, NULL, &error));
    }
}

/* -------------------------------------------------------------------------------------------------------- failures */

/* What the ranks of a run that ends badly do, and what each of them saw. */
typedef struct failing_run {
    int32_t culprit;
    int32_t width;  /* the others wait in groups of this width */
    int operation;  /* in which they wait, an index into operation_checks */
    int64_t count;
    dcpar_status ending; /* what the culprit returns */
    bool aborts;         /* calls dcpar_comm_abort first */
    dcpar_status status[MOST_RANKS];
    dcpar_error error[MOST_RANKS];
} failing_run;

static void wait_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

static dcpar_status end_badly(dcpar_comm *world, const failing_run *run, dcpar_error *error) {
    wait_a_little(); /* most of the time the others are asleep by now */
    if (run->aborts) dcpar_comm_abort(world, "the lamp is out");
    return run->ending == DCPAR_OK ? DCPAR_OK : dcpar_fail(error, run->ending, "the lamp is out");
}

static dcpar_status wait_or_end(dcpar_comm *world, void *argument, dcpar_error *error) {
    failing_run *run = argument;
    const int32_t rank = dcpar_comm_rank(world);
    dcpar_comm *group = NULL;
    const trial trial = {.seed = 3, .count = run->count};
    DCPAR_TRY(dcpar_comm_group(world, run->width, &group, error));
    if (rank == run->culprit) return end_badly(world, run, error);
    dcpar_status status = DCPAR_OK;
    while (status == DCPAR_OK) status = operation_checks[run->operation](group, &trial, &run->error[rank]);
    run->status[rank] = status;
    return DCPAR_OK;
}

static void assert_others_saw(const failing_run *run, int32_t ranks, const char *sentence) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
        if (rank == run->culprit) continue;
        assert_int_equal(run->status[rank], DCPAR_PEER);
        assert_string_equal(run->error[rank].text, sentence);
    }
}

static void a_rank_that_fails_ends_every_operation_of_the_others_with_its_sentence(void **state) {
    (void)state;
    for (int32_t ranks = 2; ranks <= MOST_RANKS; ranks += 2)
        for (int operation = 0; operation < OPERATIONS; ++operation) {
            failing_run run = {.culprit = ranks - 1, .width = ranks, .operation = operation, .count = 5000,
                               .ending = DCPAR_IO};
            dcpar_error error;
            char sentence[64];
            snprintf(sentence, sizeof sentence, "rank %d: the lamp is out", (int)run.culprit);
            assert_int_equal(dcpar_comm_run_local(ranks, wait_or_end, &run, &error), DCPAR_IO);
            assert_string_equal(error.text, sentence);
            assert_others_saw(&run, ranks, sentence);
        }
}

/* Groups of 2 among 8: the groups without the culprit go on until his failure breaks them too. */
static void an_abort_reaches_groups_that_the_rank_is_no_member_of(void **state) {
    (void)state;
    failing_run run = {.culprit = 5, .width = 2, .operation = 0, .count = 64, .ending = DCPAR_OK, .aborts = true};
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(8, wait_or_end, &run, &error), DCPAR_PEER);
    assert_string_equal(error.text, "rank 5: the lamp is out");
    assert_others_saw(&run, 8, "rank 5: the lamp is out");
}

static void a_rank_that_leaves_early_does_not_leave_the_others_waiting(void **state) {
    (void)state;
    for (int operation = 0; operation < OPERATIONS; ++operation) {
        failing_run run = {.culprit = 2, .width = 4, .operation = operation, .count = 3000, .ending = DCPAR_OK};
        dcpar_error error;
        assert_ok(dcpar_comm_run_local(4, wait_or_end, &run, &error));
        assert_others_saw(&run, 4, "rank 2 has left");
    }
}

/* Rank 3 leaves; ranks 0 and 1 exchange a thousand times afterwards. */
static dcpar_status leave_or_go_on(dcpar_comm *world, void *argument, dcpar_error *error) {
    _Atomic bool *has_left = argument;
    dcpar_comm *pair = NULL;
    DCPAR_TRY(dcpar_comm_group(world, 2, &pair, error));
    if (world->rank >= 2) {
        atomic_store(has_left, world->rank == 3);
        return DCPAR_OK;
    }
    wait_a_little();
    for (uint64_t turn = 0; turn < 1000; ++turn) {
        const trial trial = {.seed = turn, .count = 100};
        DCPAR_TRY(check_all_to_all(pair, &trial, error));
    }
    return DCPAR_OK;
}

static void a_rank_that_leaves_does_not_disturb_groups_of_others(void **state) {
    (void)state;
    _Atomic bool has_left = false;
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(4, leave_or_go_on, &has_left, &error));
}

static dcpar_status fail_in_turn(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    if (world->rank == 1) return dcpar_fail(error, DCPAR_PLAN, "the first");
    const dcpar_status status = dcpar_comm_barrier(world, error);
    return status == DCPAR_PEER ? dcpar_fail(error, DCPAR_IO, "the second") : status;
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

static void a_failure_without_words_gets_the_words_of_its_status(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(1, fail_without_words, NULL, &error), DCPAR_IO);
    assert_string_equal(error.text, "rank 0: a file could not be read or written");
}

static dcpar_status call_something_else(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    char data[64] = {0}, all[8 * 64];
    return world->rank == 2 ? dcpar_comm_all_gather(world, data, all, 64, error)
                            : dcpar_comm_broadcast(world, data, 64, 0, error);
}

static void ranks_that_call_different_operations_are_told_so(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(4, call_something_else, NULL, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "rank 0 calls broadcast of 64 bytes"));
    assert_non_null(strstr(error.text, "rank 2 calls all_gather of 64 bytes"));
}

/* ------------------------------------------------------------------------------------------ failures at random */

typedef struct random_failure {
    uint64_t seed;
    int32_t culprit;
    int64_t steps;
} random_failure;

static dcpar_status fail_after_steps(dcpar_comm *world, void *argument, dcpar_error *error) {
    const random_failure *failure = argument;
    const bool culprit = world->rank == failure->culprit;
    DCPAR_TRY(run_random_steps(world, failure->seed, failure->steps + (culprit ? 0 : 1000), error));
    return dcpar_fail(error, DCPAR_IO, "enough");
}

static void a_failure_at_any_moment_ends_the_run(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        const int32_t ranks = (int32_t)(dcpar_random(seed, 1, 0) % 7) + 2;
        random_failure failure = {.seed = seed, .culprit = (int32_t)(dcpar_random(seed, 2, 0) % (uint64_t)ranks),
                                  .steps = (int64_t)(dcpar_random(seed, 3, 0) % 40)};
        char sentence[64];
        dcpar_error error;
        snprintf(sentence, sizeof sentence, "rank %d: enough", (int)failure.culprit);
        const dcpar_status status = dcpar_comm_run_local(ranks, fail_after_steps, &failure, &error);
        if (status != DCPAR_IO || strcmp(error.text, sentence) != 0)
            fail_msg("seed %llu: %s instead of \"%s\"", (unsigned long long)seed, error.text, sentence);
    }
}

/* ----------------------------------------------------------------------------------------------------- starting */

static void a_run_needs_a_rank(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_local(0, run_cases, NULL, &error), DCPAR_INVALID);
    assert_int_equal(dcpar_comm_run_local(-3, run_cases, NULL, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "-3 ranks"));
}

static dcpar_status fill_the_stack(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    volatile char large[12 << 20];
    for (size_t i = 0; i < sizeof large; i += 4096) large[i] = (char)world->rank;
    return large[4096] == (char)world->rank ? DCPAR_OK : dcpar_fail(error, DCPAR_INTERNAL, "the stack is shared");
}

static void a_rank_has_a_large_stack(void **state) {
    (void)state;
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(4, fill_the_stack, NULL, &error));
}

static void only_a_launcher_s_environment_is_taken_for_a_launch(void **state) {
    (void)state;
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",     "SLURM_STEP_NUM_TASKS",
                                            "SLURM_PROCID",         "SLURM_NTASKS", "SLURM_JOB_ID"};
    static const struct {
        const char *values[6]; /* NULL: not set */
        bool launched;
    } starts[] = {
        {{NULL}, false},                                        /* a shell */
        {{"1"}, true},                                          /* mpirun -n 1 */
        {{"4"}, true},                                          /* mpirun -n 4 */
        {{NULL, "4"}, true},                                    /* MPICH */
        {{NULL, "1"}, true},                                    /* MPICH, one process */
        {{NULL, NULL, NULL, NULL, "16", "77"}, false},          /* within salloc */
        {{NULL, NULL, "1", "0", "16", "77"}, false},            /* within salloc with an interactive step */
        {{NULL, "1", "1", "0", "1", "77"}, false},              /* srun --pty bash */
        {{NULL, NULL, "16", "3", "16", "77"}, true},            /* srun -n 16 */
        {{"4", NULL, "1", "0", "16", "77"}, true},              /* mpirun within salloc */
        {{"many", "", "-2", "0"}, false},                       /* nonsense */
    };
    for (size_t start = 0; start < sizeof starts / sizeof *starts; ++start) {
        for (int i = 0; i < 6; ++i) {
            if (starts[start].values[i] != NULL)
                setenv(variables[i], starts[start].values[i], 1);
            else
                unsetenv(variables[i]);
        }
        if (dcpar_comm_mpi_launched() != starts[start].launched) fail_msg("start %d is misjudged", (int)start);
    }
    for (int i = 0; i < 6; ++i) unsetenv(variables[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_holds_on_any_number_of_ranks),
        cmocka_unit_test(a_rank_that_fails_ends_every_operation_of_the_others_with_its_sentence),
        cmocka_unit_test(an_abort_reaches_groups_that_the_rank_is_no_member_of),
        cmocka_unit_test(a_rank_that_leaves_early_does_not_leave_the_others_waiting),
        cmocka_unit_test(a_rank_that_leaves_does_not_disturb_groups_of_others),
        cmocka_unit_test(the_first_failure_is_that_of_the_run),
        cmocka_unit_test(a_failure_without_words_gets_the_words_of_its_status),
        cmocka_unit_test(ranks_that_call_different_operations_are_told_so),
        cmocka_unit_test(a_failure_at_any_moment_ends_the_run),
        cmocka_unit_test(a_run_needs_a_rank),
        cmocka_unit_test(a_rank_has_a_large_stack),
        cmocka_unit_test(only_a_launcher_s_environment_is_taken_for_a_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
