/* Whole runs: the same losses on any number of ranks, stopping and going on, threads and MPI, what is refused. */
#define _XOPEN_SOURCE 700 /* mkdtemp, setenv */
#include <jansson.h>
#include <math.h>
#include <sys/wait.h>

#include "train/train.h"
#include "train_testing.h"

#define SEQUENCES 90
#define MOST_ITERATIONS 64

static char folder[64], data_path[80];
static int64_t file_lengths[SEQUENCES];

static int set_up(void **state) {
    (void)state;
    make_temporary(folder, sizeof folder);
    snprintf(data_path, sizeof data_path, "%s/data", folder);
    for (int i = 0; i < SEQUENCES; ++i) file_lengths[i] = 1 + (int64_t)exp(5 * dcpar_random_unit(11, 0, (uint64_t)i));
    make_files(data_path, file_lengths, SEQUENCES);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

/* Runs the training; `options` may change what it likes in it first. */
static dcpar_status train(int32_t world, const char *policy, const char *out, void (*options)(dcpar_training *),
                          dcpar_error *error) {
    dcpar_dataset *dataset = NULL;
    dcpar_model model = small_model();
    if (dcpar_dataset_open(data_path, &dataset, error) != DCPAR_OK) return error->status;
    dcpar_profile *profile = made_up_profile(&model, world, INT64_C(1) << 28);
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, out);
    dcpar_training training = {.dataset = dataset,
                               .model = &model,
                               .profile = profile,
                               .policies = {policy},
                               .policy_count = 1,
                               .planning = DCPAR_PLANNER_OPTIONS_INIT,
                               .stepping = DCPAR_ENGINE_OPTIONS_INIT,
                               .memory = INT64_C(1) << 28,
                               .epochs = 100,
                               .iterations = 20,
                               .out = path,
                               .quiet = true,
                               .command = "test"};
    training.planning.tokens_per_iteration = 400;
    training.stepping.learning_rate = 3e-3;
    training.stepping.warmup_iterations = 5;
    if (options != NULL) options(&training);
    const dcpar_status status = dcpar_comm_run_local(world, dcpar_train, &training, error);
    dcpar_profile_destroy(profile);
    dcpar_dataset_close(dataset);
    return status;
}

typedef struct metrics {
    int count;
    double iteration[MOST_ITERATIONS], loss[MOST_ITERATIONS], norm[MOST_ITERATIONS], rate[MOST_ITERATIONS];
    double peak[MOST_ITERATIONS], predicted_peak[MOST_ITERATIONS];
} metrics;

static metrics read_metrics(const char *out) {
    metrics metrics = {0};
    char path[200], line[4096];
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", folder, out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        assert_true(metrics.count < MOST_ITERATIONS);
        metrics.iteration[metrics.count] = json_number_value(json_object_get(object, "iteration"));
        metrics.loss[metrics.count] = json_number_value(json_object_get(object, "loss"));
        metrics.norm[metrics.count] = json_number_value(json_object_get(object, "gradient_norm"));
        metrics.peak[metrics.count] = json_number_value(json_object_get(object, "peak_bytes"));
        metrics.predicted_peak[metrics.count] = json_number_value(json_object_get(object, "predicted_peak_bytes"));
        metrics.rate[metrics.count++] = json_number_value(json_object_get(object, "learning_rate"));
        json_decref(object);
    }
    fclose(file);
    return metrics;
}

static void thirty_iterations(dcpar_training *training) { training->iterations = 30; }

static void losses_on_four_ranks_are_those_of_one(void **state) {
    (void)state;
    dcpar_error error = {0};
    assert_ok(train(4, "buddy", "four", thirty_iterations, &error));
    assert_ok(train(1, "buddy", "one", thirty_iterations, &error));
    const metrics four = read_metrics("four"), one = read_metrics("one");
    assert_int_equal(four.count, 30);
    assert_int_equal(one.count, 30);
    for (int i = 0; i < 30; ++i) {
        if (fabs(four.loss[i] - one.loss[i]) > 1e-4)
            fail_msg("iteration %d: loss %.7f on four ranks, %.7f on one", i, four.loss[i], one.loss[i]);
        assert_true(four.rate[i] == one.rate[i]);
    }
    assert_true(one.loss[29] < one.loss[0] - 0.5); /* it learns */
}

static void stop_after_five(dcpar_training *training) { training->stop_after = 5; }

static void resume(dcpar_training *training) { training->resume = true; }

static void a_resumed_run_goes_on_bit_for_bit(void **state) {
    (void)state;
    dcpar_error error = {0};
    for (int32_t i = 0; dcpar_policy_name(i) != NULL; ++i) {
        const char *policy = dcpar_policy_name(i);
        char whole[32], broken[32];
        snprintf(whole, sizeof whole, "whole-%s", policy);
        snprintf(broken, sizeof broken, "broken-%s", policy);
        assert_ok(train(2, policy, whole, NULL, &error));
        assert_ok(train(2, policy, broken, stop_after_five, &error));
        assert_int_equal(read_metrics(broken).count, 5);
        assert_ok(train(2, policy, broken, resume, &error));
        const metrics a = read_metrics(whole), b = read_metrics(broken);
        assert_int_equal(a.count, 20);
        assert_int_equal(b.count, 20);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void resume_with_other_data_is_refused(void **state) {
    (void)state;
    dcpar_error error = {0};
    char path[200];
    assert_ok(train(2, "buddy", "changed", stop_after_five, &error));
    snprintf(path, sizeof path, "%s/0003", data_path);
    FILE *file = fopen(path, "ab");
    fputc('a', file);
    fclose(file);
    assert_int_equal(train(2, "buddy", "changed", resume, &error), DCPAR_MISMATCH);
    assert_non_null(strstr(error.text, "the data has changed"));
    assert_int_equal(truncate(path, file_lengths[3]), 0);
    assert_ok(train(2, "buddy", "changed", resume, &error));
}

/* Case R2: what is left of the run is the same set of sequences, so losses are those of the unbroken run. */
static void a_run_resumed_on_other_ranks_goes_on(void **state) {
    (void)state;
    dcpar_error error = {0};
    assert_ok(train(2, "buddy", "unbroken", NULL, &error));
    assert_ok(train(2, "buddy", "moved", stop_after_five, &error));
    assert_ok(train(3, "buddy", "moved", resume, &error));
    const metrics a = read_metrics("unbroken"), b = read_metrics("moved");
    assert_int_equal(b.count, 20);
    for (int i = 0; i < 20; ++i) assert_true(fabs(a.loss[i] - b.loss[i]) <= 1e-4);
    assert_int_equal(train(3, "inter", "moved", resume, &error), DCPAR_MISMATCH);
}

static void until_3000_tokens(dcpar_training *training) { training->tokens = 3000; }

static void resume_until_3000_tokens(dcpar_training *training) {
    training->tokens = 3000;
    training->resume = true;
}

static void until_3000_tokens_but_two_iterations(dcpar_training *training) {
    training->tokens = 3000;
    training->stop_after = 2;
}

static void tokens_of_earlier_sessions_count(void **state) {
    (void)state;
    dcpar_error error = {0};
    assert_ok(train(2, "buddy", "once", until_3000_tokens, &error));
    assert_ok(train(2, "buddy", "twice", until_3000_tokens_but_two_iterations, &error));
    assert_ok(train(2, "buddy", "twice", resume_until_3000_tokens, &error));
    const metrics once = read_metrics("once"), twice = read_metrics("twice");
    assert_in_range(once.count, 3, 19);
    assert_memory_equal(&once, &twice, sizeof once);
}

static void measure_first(dcpar_training *training) {
    training->profile = NULL;
    training->memory = 800000; /* so little that layers are recomputed */
}

/* Predicted memory is that of the arena: every iteration's peak within 3 % (nearly always to the byte). */
static void memory_is_as_planned(void **state) {
    (void)state;
    dcpar_error error = {0};
    assert_ok(train(2, "buddy", "memory", measure_first, &error));
    const metrics metrics = read_metrics("memory");
    assert_int_equal(metrics.count, 20);
    for (int i = 0; i < metrics.count; ++i) {
        const double ratio = metrics.predicted_peak[i] / metrics.peak[i];
        if (!(ratio > 0.97 && ratio < 1.03))
            fail_msg("iteration %d: planned %g bytes, measured %g", i, metrics.predicted_peak[i], metrics.peak[i]);
    }
}

static bool always(void) { return true; }

static void interrupt(dcpar_training *training) { training->stop = always; }

static void an_interrupted_run_leaves_a_checkpoint(void **state) {
    (void)state;
    dcpar_error error = {0};
    char path[200];
    assert_int_equal(train(3, "buddy", "interrupted", interrupt, &error), DCPAR_INTERRUPTED);
    snprintf(path, sizeof path, "%s/interrupted/checkpoint.safetensors", folder);
    assert_int_equal(access(path, R_OK), 0);
    assert_ok(train(3, "buddy", "interrupted", resume, &error));
    assert_int_equal(read_metrics("interrupted").count, 20);
}

/* Runs a command of the shell in the test's folder, its output kept in `log`; returns its exit status. */
static int shell(const char *format, const char *launcher, const char *out) {
    char command[1500], full[2000];
    const char *program = getenv("DCPAR_PROGRAM");
    snprintf(command, sizeof command, format, launcher, program, out, out);
    snprintf(full, sizeof full, "cd %s && %s >log 2>&1", folder, command);
    const int status = system(full);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void threads_and_mpi_give_the_same_bits(void **state) {
    (void)state;
    if (getenv("DCPAR_PROGRAM") == NULL || getenv("DCPAR_MPIEXEC") == NULL) skip();
    const char *mpirun = getenv("DCPAR_MPIEXEC");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    const int ranks[] = {2, 3};
    for (int i = 0; i < 2; ++i) {
        char launcher[300], threads[64], mpi[64], format[600], ranks_text[32];
        /* the leaks would be the MPI library's own; the run on threads looks for ours */
        snprintf(launcher, sizeof launcher, "ASAN_OPTIONS=detect_leaks=0 %s -n %d --oversubscribe", mpirun, ranks[i]);
        snprintf(threads, sizeof threads, "threads%d", ranks[i]);
        snprintf(mpi, sizeof mpi, "mpi%d", ranks[i]);
        snprintf(ranks_text, sizeof ranks_text, "%d", ranks[i]);
        snprintf(format, sizeof format,
                 "%%s %%s profile --model tiny --world %s --memory 64M --longest 256 --out %%s.json --quiet",
                 ranks_text);
        assert_int_equal(shell(format, "", threads), 0);
        snprintf(format, sizeof format,
                 "%%s %%s train data --model tiny --ranks %s --memory 64M --profile %s.json --policy buddy "
                 "--tokens-per-iteration 500 --epochs 2 --iterations 6 --out %%s --quiet",
                 ranks_text, threads);
        assert_int_equal(shell(format, "", threads), 0);
        assert_int_equal(shell(format, launcher, mpi), 0);
        const metrics a = read_metrics(threads), b = read_metrics(mpi);
        assert_int_equal(a.count, 6);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_on_four_ranks_are_those_of_one),
        cmocka_unit_test(a_resumed_run_goes_on_bit_for_bit),
        cmocka_unit_test(resume_with_other_data_is_refused),
        cmocka_unit_test(a_run_resumed_on_other_ranks_goes_on),
        cmocka_unit_test(tokens_of_earlier_sessions_count),
        cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(an_interrupted_run_leaves_a_checkpoint),
        cmocka_unit_test(threads_and_mpi_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
