/* Ranks that are MPI processes: what every communicator does (comm_cases.h), and how a job ends when a rank fails.
 *
 *     test_comm_mpi           starts itself under $DCPAR_MPIEXEC and looks at how the jobs end
 *     test_comm_mpi SCENE     one process of such a job
 *
 * Without MPI there is one test: the library says so. */
#define _POSIX_C_SOURCE 200809L /* popen, nanosleep, setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "comm/comm.h"
#include "comm_cases.h"
#include "testing.h"

/* ---------------------------------------------------------------------------------------- scenes: one rank of a job */

/* With so small a largest message that most operations go in pieces. */
static dcpar_status case_pieces(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    enum { LARGEST = 1000 };
    static const int64_t counts[] = {250, 251, 1000, 1001, 3500};
    for (int32_t width = 2; width <= dcpar_comm_size(world); ++width) {
        dcpar_comm *group = NULL;
        DCPAR_TRY(dcpar_comm_group(world, width, &group, error));
        if (group == NULL) continue;
        const int64_t largest = group->largest_message;
        group->largest_message = LARGEST;
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i)
            DCPAR_TRY(check_every_operation(group, counts[i], error));
        group->largest_message = largest;
    }
    return DCPAR_OK;
}

static dcpar_status run_cases(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    int64_t counts[] = {0, 1, 7, 1000, 9000, -1};
    uint64_t seed = 5;
    DCPAR_TRY(case_operations(world, counts, error));
    DCPAR_TRY(case_groups(world, NULL, error));
    DCPAR_TRY(case_interleavings(world, &seed, error));
    DCPAR_TRY(case_same_bits(world, NULL, error));
    DCPAR_TRY(case_pieces(world, NULL, error));
    DCPAR_TRY(case_not_a_number(world, NULL, error));
    DCPAR_TRY(case_arguments(world, NULL, error));
    DCPAR_TRY(case_ulysses(world, NULL, error));
    if (dcpar_comm_rank(world) == 0) printf("all cases hold on %d ranks\n", (int)dcpar_comm_size(world));
    return DCPAR_OK;
}

static dcpar_status fail_while_others_wait(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    if (dcpar_comm_rank(world) == 1) return dcpar_fail(error, DCPAR_IO, "the lamp is out");
    return dcpar_comm_barrier(world, error);
}

static dcpar_status abort_while_others_wait(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    if (dcpar_comm_rank(world) == 2) dcpar_comm_abort(world, "the lamp is out");
    return dcpar_comm_barrier(world, error);
}

static dcpar_status fail_when_others_are_done(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    return dcpar_comm_rank(world) == 1 ? dcpar_fail(error, DCPAR_IO, "the lamp is out") : DCPAR_OK;
}

static dcpar_status fail_all_at_once(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    return dcpar_fail(error, DCPAR_PLAN, "no lamp for %d ranks", (int)dcpar_comm_size(world));
}

/* In one call of two ranks, and then in the world's. */
static dcpar_status leave_while_others_wait(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    dcpar_comm *pair = NULL;
    DCPAR_TRY(dcpar_comm_group(world, 2, &pair, error));
    if (pair != NULL) DCPAR_TRY(dcpar_comm_barrier(pair, error));
    return dcpar_comm_rank(world) == 1 ? DCPAR_OK : dcpar_comm_barrier(world, error);
}

static dcpar_status leave_while_a_group_waits(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    dcpar_comm *pair = NULL;
    double value = 1.0;
    DCPAR_TRY(dcpar_comm_group(world, 2, &pair, error));
    return dcpar_comm_rank(world) == 2 ? dcpar_comm_all_reduce(pair, &value, 1, DCPAR_SUM, error) : DCPAR_OK;
}

/* Longer than the patience of the ranks that are done. */
static dcpar_status go_on_when_others_are_done(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    enum { TURNS = 4, NANOSECONDS = 500000000 };
    dcpar_comm *pair = NULL;
    DCPAR_TRY(dcpar_comm_group(world, 2, &pair, error));
    for (int turn = 0; turn < TURNS && dcpar_comm_rank(world) >= 2; ++turn) {
        if (dcpar_comm_rank(world) == 2) nanosleep(&(struct timespec){.tv_nsec = NANOSECONDS}, NULL);
        DCPAR_TRY(dcpar_comm_barrier(pair, error));
    }
    if (dcpar_comm_rank(world) == 2) printf("the second pair is done\n");
    return DCPAR_OK;
}

/* Rank 0 has sent and is done; rank 3 waits for one of the others to pass it on, and not for rank 0. */
static dcpar_status pass_on_late(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)argument;
    enum { SECONDS = 2 };
    const int32_t rank = dcpar_comm_rank(world);
    int32_t value = rank == 0 ? 7 : 0;
    if (rank == 1 || rank == 2) nanosleep(&(struct timespec){.tv_sec = SECONDS}, NULL);
    DCPAR_TRY(dcpar_comm_broadcast(world, &value, sizeof value, 0, error));
    if (rank == 3) printf("the value is %d\n", (int)value);
    return DCPAR_OK;
}

static const struct {
    const char *name;
    dcpar_rank_main run;
} scenes[] = {
    {"cases", run_cases},
    {"fail", fail_while_others_wait},
    {"abort", abort_while_others_wait},
    {"late", fail_when_others_are_done},
    {"all", fail_all_at_once},
    {"leave", leave_while_others_wait},
    {"leave_pair", leave_while_a_group_waits},
    {"go_on", go_on_when_others_are_done},
    {"pass_on", pass_on_late},
};

static int play_scene(const char *name) {
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; ++i) {
        if (strcmp(scenes[i].name, name) != 0) continue;
        if (!dcpar_comm_mpi_launched()) printf("the launch is not recognised\n");
        dcpar_error error;
        const dcpar_status status = dcpar_comm_run_mpi(scenes[i].run, NULL, &error);
        if (status != DCPAR_OK) printf("%s: %s\n", dcpar_status_name(status), error.text);
        return status == DCPAR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    return EXIT_FAILURE;
}

/* ---------------------------------------------------------------------------------------------------------- tests */

#ifdef DCPAR_HAVE_MPI

static const char *this_program;

typedef struct job {
    int exit_status;
    double seconds;
    char output[1 << 16];
} job;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* What MPI itself never frees is not ours to answer for. */
static job run_job(int ranks, const char *scene) {
    const char *launcher = getenv("DCPAR_MPIEXEC");
    if (launcher == NULL) skip();
    job job = {.exit_status = -1};
    char command[4096];
    snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 %s -n %d %s %s 2>&1", launcher, ranks, this_program,
             scene);
    const double start = now();
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    job.output[fread(job.output, 1, sizeof job.output - 1, pipe)] = '\0';
    const int ending = pclose(pipe);
    job.seconds = now() - start;
    if (WIFEXITED(ending)) job.exit_status = WEXITSTATUS(ending);
    return job;
}

static void assert_job_says(const job *job, const char *sentence) {
    if (strstr(job->output, sentence) == NULL) fail_msg("\"%s\" is missing in:\n%s", sentence, job->output);
}

/* A job that fails ends within seconds, with an exit status, and says which rank failed. */
static void assert_job_fails(int ranks, const char *scene, const char *sentence) {
    const job job = run_job(ranks, scene);
    assert_job_says(&job, sentence);
    assert_true(job.exit_status > 0);
    if (job.seconds > 20.0) fail_msg("the job takes %.1f s to fail", job.seconds);
}

static void every_case_holds_on_any_number_of_processes(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 4; ++ranks) {
        char sentence[64];
        snprintf(sentence, sizeof sentence, "all cases hold on %d ranks", ranks);
        const job job = run_job(ranks, "cases");
        assert_job_says(&job, sentence);
        assert_int_equal(job.exit_status, 0);
        assert_null(strstr(job.output, "not recognised"));
    }
}

static void a_rank_that_fails_ends_the_job_and_is_named(void **state) {
    (void)state;
    assert_job_fails(4, "fail", "rank 1: the lamp is out");
}

static void a_rank_that_aborts_ends_the_job_and_is_named(void **state) {
    (void)state;
    assert_job_fails(4, "abort", "rank 2: the lamp is out");
}

static void a_failure_is_known_to_ranks_that_are_done(void **state) {
    (void)state;
    assert_job_fails(3, "late", "IO: rank 1: the lamp is out");
}

static void a_failure_of_all_is_that_of_the_first_rank(void **state) {
    (void)state;
    assert_job_fails(3, "all", "PLAN: rank 0: no lamp for 3 ranks");
}

static void a_rank_that_leaves_early_does_not_leave_the_others_waiting(void **state) {
    (void)state;
    assert_job_fails(3, "leave", "rank 1: has left while rank 0 waits for it");
    assert_job_fails(4, "leave_pair", "rank 3: has left while rank 2 waits for it");
}

static void ranks_that_are_done_let_others_take_their_time(void **state) {
    (void)state;
    const job job = run_job(4, "go_on");
    assert_job_says(&job, "the second pair is done");
    assert_int_equal(job.exit_status, 0);
    const struct job other = run_job(4, "pass_on");
    assert_job_says(&other, "the value is 7");
    assert_int_equal(other.exit_status, 0);
}

int main(int count, char **arguments) {
    if (count == 2) return play_scene(arguments[1]);
    this_program = arguments[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_holds_on_any_number_of_processes),
        cmocka_unit_test(a_rank_that_fails_ends_the_job_and_is_named),
        cmocka_unit_test(a_rank_that_aborts_ends_the_job_and_is_named),
        cmocka_unit_test(a_failure_is_known_to_ranks_that_are_done),
        cmocka_unit_test(a_failure_of_all_is_that_of_the_first_rank),
        cmocka_unit_test(a_rank_that_leaves_early_does_not_leave_the_others_waiting),
        cmocka_unit_test(ranks_that_are_done_let_others_take_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void without_mpi_the_library_says_so(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_comm_run_mpi(run_cases, NULL, &error), DCPAR_UNSUPPORTED);
    assert_string_equal(error.text, "dcpar is built without MPI");
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    assert_int_equal(dcpar_comm_run_mpi(run_cases, NULL, &error), DCPAR_UNSUPPORTED);
    assert_string_equal(error.text, "this process was started by an MPI launcher, but dcpar is built without MPI");
}

int main(int count, char **arguments) {
    if (count == 2) return play_scene(arguments[1]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_mpi_the_library_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
