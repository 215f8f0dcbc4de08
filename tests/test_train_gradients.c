/* Same sequences, same gradient: whatever the policy, the number of ranks, the widths, the accumulation and r; on
 * threads, and on MPI processes, where the program starts itself under $DCPAR_MPIEXEC. */
#define _XOPEN_SOURCE 700 /* mkdtemp, setenv */
#include <math.h>
#include <sys/wait.h>

#include "base/error.h"
#include "nn/transformer.h"
#include "train/batch.h"
#include "train_testing.h"

#define SEQUENCES 24
#define MOST_RANKS 4

/* Uneven, some that divide by nothing, one of one token, one that needs four ranks. */
static const int64_t file_lengths[SEQUENCES] = {1,  2,  3,  5,  7,  8,  9,  12, 13, 16, 17, 20,
                                                21, 25, 30, 31, 33, 40, 41, 50, 64, 77, 90, 150};

typedef struct setting {
    const char *policy;
    int32_t world;
    int32_t recompute; /* -1: as planned */
    int64_t memory;
    const dcpar_dataset *dataset;
    dcpar_pieces *pieces;
    dcpar_model model;
    dcpar_profile *profile;
    bool by_sequence;
    /* filled by rank 0, under MPI by every rank */
    double *gradient; /* of the first iteration, summed over ranks */
    dcpar_result results[MOST_RANKS];
    int64_t rows[SEQUENCES], row_count; /* of that iteration */
    int32_t widest;
    int64_t longest_queue, shortest_queue;
} setting;

/* Sequence after sequence on one rank, not padded: what everything is compared to. */
static void reference(const setting *setting, double *gradient, double *loss, double *weight) {
    dcpar_error error;
    const int64_t count = dcpar_transformer_parameter_count(&setting->model.config);
    float *parameters = aligned_alloc(64, (size_t)(count + 16) / 16 * 64);
    float *sums = aligned_alloc(64, (size_t)(count + 16) / 16 * 64);
    dcpar_arena *arena = NULL;
    dcpar_transformer *model = NULL;
    dcpar_batch batch = {0};
    assert_ok(dcpar_arena_create(INT64_C(1) << 30, &arena, &error));
    assert_ok(dcpar_transformer_create(&setting->model.config, parameters, sums, arena, &model, &error));
    dcpar_transformer_initialise(model, 5);
    *loss = *weight = 0;
    for (int64_t i = 0; i < setting->row_count; ++i) {
        dcpar_tokens tokens;
        double loss_sum;
        int64_t loss_tokens;
        const int64_t length = dcpar_pieces_lengths(setting->pieces)[setting->rows[i]];
        memset(sums, 0, (size_t)count * sizeof *sums);
        assert_ok(dcpar_batch_fill(&batch, setting->dataset, setting->pieces, &setting->rows[i], 1, length, 1, 0,
                                   &tokens, &error));
        assert_ok(dcpar_transformer_run(model, NULL, &tokens, 0, &loss_sum, &loss_tokens, &error));
        if (loss_tokens == 0) continue;
        const double scale = setting->by_sequence ? 1.0 / (double)loss_tokens : 1.0;
        for (int64_t j = 0; j < count; ++j) gradient[j] += scale * sums[j];
        *loss += scale * loss_sum;
        *weight += scale * (double)loss_tokens;
    }
    dcpar_batch_destroy(&batch);
    dcpar_transformer_destroy(model);
    dcpar_arena_destroy(arena);
    free(parameters);
    free(sums);
}

/* The world of this job of MPI processes; NULL: ranks are threads. */
static dcpar_comm *job;

static int32_t first_world(void) { return job != NULL ? dcpar_comm_size(job) : 1; }
static int32_t last_world(void) { return job != NULL ? dcpar_comm_size(job) : MOST_RANKS; }

static bool keeps(const dcpar_comm *world) { return job != NULL || dcpar_comm_rank(world) == 0; }

static void note_plan(setting *setting, const dcpar_plan *plan) {
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    for (int64_t i = 0; i < count; ++i) {
        if (microbatches[i].sp > setting->widest) setting->widest = microbatches[i].sp;
        for (int64_t j = 0; j < microbatches[i].row_count; ++j)
            setting->rows[setting->row_count++] = microbatches[i].rows[j];
    }
}

/* One rank's first iteration. */
static dcpar_status iterate(setting *setting, dcpar_comm *world, dcpar_engine *engine, dcpar_transformer *model,
                            dcpar_batch *batch, dcpar_error *error) {
    const int64_t count = dcpar_transformer_parameter_count(&setting->model.config);
    dcpar_turn turn;
    dcpar_status status = dcpar_engine_begin(engine, error);
    int64_t turns = 0;
    while (status == DCPAR_OK && dcpar_engine_turn(engine, &turn, error)) {
        dcpar_tokens tokens;
        double loss;
        int64_t loss_tokens;
        const dcpar_microbatch *microbatch = turn.microbatch;
        status = dcpar_batch_fill(batch, setting->dataset, setting->pieces, microbatch->rows, microbatch->row_count,
                                  microbatch->padded_length, microbatch->sp, turn.part, &tokens, error);
        const int32_t recompute = setting->recompute < 0 ? microbatch->recompute : setting->recompute;
        if (status == DCPAR_OK)
            status = dcpar_transformer_run(model, turn.group, &tokens, recompute, &loss, &loss_tokens, error);
        if (status != DCPAR_OK) return status;
        if (!setting->by_sequence) assert_true(batch->weight == (double)loss_tokens);
        dcpar_engine_add(engine, loss, batch->weight);
        ++turns;
    }
    if (status != DCPAR_OK) return status;
    double longest = (double)turns, shortest = (double)turns, *sum = malloc((size_t)count * sizeof *sum);
    assert_non_null(sum);
    for (int64_t i = 0; i < count; ++i) sum[i] = (double)dcpar_engine_gradients(engine)[i];
    dcpar_result result, results[MOST_RANKS];
    status = dcpar_comm_all_reduce(world, sum, count, DCPAR_SUM, error);
    if (status == DCPAR_OK) status = dcpar_comm_all_reduce(world, &longest, 1, DCPAR_MAX, error);
    if (status == DCPAR_OK) status = dcpar_comm_all_reduce(world, &shortest, 1, DCPAR_MIN, error);
    if (status == DCPAR_OK) status = dcpar_engine_step(engine, &result, error);
    if (status == DCPAR_OK) status = dcpar_comm_all_gather(world, &result, results, sizeof result, error);
    if (status == DCPAR_OK && keeps(world)) {
        memcpy(setting->gradient, sum, (size_t)count * sizeof *sum);
        memcpy(setting->results, results, sizeof results);
        setting->longest_queue = (int64_t)longest;
        setting->shortest_queue = (int64_t)shortest;
        note_plan(setting, dcpar_engine_plan(engine));
    }
    free(sum);
    return status;
}

static dcpar_status run_rank(dcpar_comm *world, void *argument, dcpar_error *error) {
    setting *setting = argument;
    dcpar_planner_options planning = DCPAR_PLANNER_OPTIONS_INIT;
    planning.world = setting->world;
    planning.policy = setting->policy;
    planning.sequences_per_iteration = SEQUENCES;
    planning.seed = 3;
    dcpar_engine_options stepping = DCPAR_ENGINE_OPTIONS_INIT;
    dcpar_planner *planner = NULL;
    dcpar_engine *engine = NULL;
    dcpar_arena *arena = NULL;
    dcpar_transformer *model = NULL;
    dcpar_batch batch = {0};
    const int64_t count = dcpar_transformer_parameter_count(&setting->model.config);
    batch.by_sequence = setting->by_sequence;
    dcpar_status status = dcpar_planner_create(setting->profile, dcpar_pieces_lengths(setting->pieces),
                                               dcpar_pieces_count(setting->pieces), &planning, &planner, error);
    if (status == DCPAR_OK) status = dcpar_engine_create(world, planner, count, &stepping, &engine, error);
    if (status == DCPAR_OK) status = dcpar_arena_create(INT64_C(1) << 28, &arena, error);
    if (status == DCPAR_OK)
        status = dcpar_transformer_create(&setting->model.config, dcpar_engine_parameters(engine),
                                          dcpar_engine_gradients(engine), arena, &model, error);
    if (status == DCPAR_OK) dcpar_transformer_initialise(model, 5);
    if (status == DCPAR_OK) status = iterate(setting, world, engine, model, &batch, error);
    dcpar_batch_destroy(&batch);
    dcpar_transformer_destroy(model);
    dcpar_arena_destroy(arena);
    dcpar_engine_destroy(engine);
    dcpar_planner_destroy(planner);
    return status;
}

static double relative_difference(const double *a, const double *b, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; ++i) {
        difference += pow(a[i] - b[i], 2);
        size += pow(b[i], 2);
    }
    return sqrt(difference / size);
}

static void check(setting *setting) {
    dcpar_error error = {0};
    const int64_t count = dcpar_transformer_parameter_count(&setting->model.config);
    double *expected = calloc((size_t)count, sizeof *expected);
    setting->gradient = calloc((size_t)count, sizeof *setting->gradient);
    setting->row_count = setting->widest = 0;
    setting->profile = made_up_profile(&setting->model, setting->world, setting->memory);
    assert_ok(job != NULL ? run_rank(job, setting, &error)
                          : dcpar_comm_run_local(setting->world, run_rank, setting, &error));
    double loss, weight, norm = 0;
    reference(setting, expected, &loss, &weight);
    const double difference = relative_difference(setting->gradient, expected, count);
    if (!(difference <= 1e-5))
        fail_msg("%s, %d ranks, r %d, memory %lld: gradients differ by %g", setting->policy, setting->world,
                 setting->recompute, (long long)setting->memory, difference);
    for (int64_t i = 0; i < count; ++i) norm += pow(expected[i] / weight, 2);
    for (int32_t rank = 0; rank < setting->world; ++rank) {
        const dcpar_result *result = &setting->results[rank], *first = &setting->results[0];
        assert_true(result->loss == first->loss && result->gradient_norm == first->gradient_norm &&
                    result->learning_rate == first->learning_rate && result->weight == first->weight);
        assert_true(fabs(result->loss - loss / weight) <= 1e-6 * result->loss);
        assert_true(fabs(result->gradient_norm - sqrt(norm)) <= 1e-5 * sqrt(norm));
        assert_true(fabs(result->weight - weight) <= 1e-12 * weight);
    }
    dcpar_profile_destroy(setting->profile);
    free(setting->gradient);
    free(expected);
}

static char folder[64], data_path[80];
static dcpar_dataset *dataset;
static dcpar_pieces *pieces;

static int set_up(void **state) {
    (void)state;
    dcpar_error error;
    make_temporary(folder, sizeof folder);
    snprintf(data_path, sizeof data_path, "%s/data", folder);
    make_files(data_path, file_lengths, SEQUENCES);
    assert_ok(dcpar_dataset_open(data_path, &dataset, &error));
    const dcpar_piece_options whole = {0};
    assert_ok(dcpar_pieces_create(dcpar_dataset_lengths(dataset), SEQUENCES, &whole, &pieces, &error));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    dcpar_pieces_destroy(pieces);
    dcpar_dataset_close(dataset);
    remove_folder(folder);
    return 0;
}

static setting setting_of(const char *policy, int32_t world, int64_t memory) {
    return (setting){.policy = policy,
                     .world = world,
                     .recompute = -1,
                     .memory = memory,
                     .dataset = dataset,
                     .pieces = pieces,
                     .model = small_model()};
}

static void gradients_do_not_depend_on_policy_world_or_widths(void **state) {
    (void)state;
    for (int32_t i = 0; dcpar_policy_name(i) != NULL; ++i)
        for (int32_t world = first_world(); world <= last_world(); ++world) {
            /* Memory for the longest sequence on one rank with everything kept, on as many ranks as there are with
             * everything recomputed, and something between. */
            const int32_t widest = world >= 4 ? 4 : world >= 2 ? 2 : 1;
            const int64_t memories[] = {1000, 152 / widest + 2, 3 * 152 / widest};
            for (int j = 0; j < 3; ++j) {
                setting setting = setting_of(dcpar_policy_name(i), world, memories[j]);
                check(&setting);
                if (j == 1 && strcmp(setting.policy, "buddy") == 0) assert_int_equal(setting.widest, widest);
            }
        }
}

static void gradients_do_not_depend_on_recomputation(void **state) {
    (void)state;
    for (int32_t world = first_world(); world <= last_world(); ++world)
        for (int32_t recompute = 0; recompute <= LAYERS; ++recompute) {
            setting setting = setting_of("buddy", world, 80);
            if (world == 1) setting.memory = 1000;
            setting.recompute = recompute;
            check(&setting);
        }
}

/* Case G6: by option every sequence weighs the same, in whatever parts and on however many ranks it runs. */
static void sequences_may_weigh_the_same(void **state) {
    (void)state;
    for (int32_t world = first_world(); world <= last_world(); ++world) {
        setting setting = setting_of("buddy", world, world == 1 ? 1000 : 80);
        setting.by_sequence = true;
        check(&setting);
        assert_true(fabs(setting.results[0].weight - (SEQUENCES - 1)) < 1e-6); /* one has no loss token */
    }
}

static void ranks_run_different_numbers_of_microbatches(void **state) {
    (void)state;
    if (job != NULL && dcpar_comm_size(job) != 3) skip();
    setting setting = setting_of("buddy", 3, 80);
    check(&setting);
    assert_true(setting.longest_queue > setting.shortest_queue);
}

static const char *this_program;

static void gradients_over_mpi_are_the_same(void **state) {
    (void)state;
    const char *mpiexec = getenv("DCPAR_MPIEXEC");
    if (job != NULL || mpiexec == NULL) skip();
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a rank that fails must not leave the others waiting */
    for (int ranks = 1; ranks <= MOST_RANKS; ++ranks) {
        char command[1000];
        /* the leaks would be the MPI library's own; the run on threads looks for ours */
        snprintf(command, sizeof command,
                 "ASAN_OPTIONS=detect_leaks=0 '%s' -n %d '%s' >'%s/log' 2>&1 || { cat '%s/log'; false; }", mpiexec,
                 ranks, this_program, folder, folder);
        const int status = system(command);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("%d ranks: %s failed", ranks, command);
    }
}

static int run_all(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_do_not_depend_on_policy_world_or_widths),
        cmocka_unit_test(gradients_do_not_depend_on_recomputation),
        cmocka_unit_test(ranks_run_different_numbers_of_microbatches),
        cmocka_unit_test(sequences_may_weigh_the_same),
        cmocka_unit_test(gradients_over_mpi_are_the_same),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

static dcpar_status run_job(dcpar_comm *world, void *unused, dcpar_error *error) {
    (void)unused;
    job = world;
    return run_all() == 0 ? DCPAR_OK : dcpar_fail(error, DCPAR_INVALID, "a test failed");
}

int main(int count, char **arguments) {
    (void)count;
    this_program = arguments[0];
    if (!dcpar_comm_mpi_launched()) return run_all();
    dcpar_error error;
    return dcpar_comm_run_mpi(run_job, NULL, &error) == DCPAR_OK ? 0 : 1;
}
