/* Cases of gradients that went wrong elsewhere: weights (G1-G6), lengths that do not divide (L5, L6), packed rows (L7).
 *
 * A scene is what one iteration runs, written by hand; whatever the scene, loss, gradient norm and clipped gradient are
 * those of one rank that runs the same sequences one by one. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <math.h>

#include "comm/comm.h"
#include "nn/transformer.h"
#include "train/batch.h"
#include "train_testing.h"

#define MOST_RANKS 8
#define MOST_ROWS 64
#define CLIP 0.1

typedef struct part {
    int32_t first_rank, sp;
    int row_count;
    int64_t rows[MOST_ROWS];
} part;

typedef struct scene {
    int32_t world;
    int part_count;
    const part *parts;
    bool by_sequence;
    const dcpar_dataset *dataset;
    const dcpar_pieces *pieces;
} scene;

/* What an iteration came to. */
typedef struct outcome {
    dcpar_result result;
    float *moment; /* AdamW's first: (1 - beta1) times the clipped gradient */
    int64_t count;
} outcome;

/* Eight heads, so that 1, 2, 4 and 8 ranks are legal. */
static const dcpar_model_config eight_heads = {32, 40, 256, 16384, 2, 8, 8, 4, 10000, 1e-6, false};

typedef struct call {
    const scene *scene;
    outcome *outcomes; /* [world] */
} call;

static dcpar_status run_parts(const scene *scene, dcpar_comm *world, dcpar_engine *engine, dcpar_transformer *model,
                              dcpar_batch *batch, dcpar_error *error) {
    const int32_t rank = dcpar_comm_rank(world);
    for (int i = 0; i < scene->part_count; ++i) {
        const part *part = &scene->parts[i];
        dcpar_comm *group = NULL;
        if (part->sp > 1 && dcpar_comm_group(world, part->sp, &group, error) != DCPAR_OK) return error->status;
        if (rank < part->first_rank || rank >= part->first_rank + part->sp) continue;
        int64_t longest = 0, loss_tokens;
        for (int j = 0; j < part->row_count; ++j)
            if (dcpar_pieces_lengths(scene->pieces)[part->rows[j]] > longest)
                longest = dcpar_pieces_lengths(scene->pieces)[part->rows[j]];
        dcpar_tokens tokens;
        double loss;
        dcpar_status status = dcpar_batch_fill(batch, scene->dataset, scene->pieces, part->rows, part->row_count,
                                               longest, part->sp, rank - part->first_rank, &tokens, error);
        if (status == DCPAR_OK)
            status = dcpar_transformer_run(model, group, &tokens, i % 3, &loss, &loss_tokens, error);
        if (status != DCPAR_OK) return status;
        dcpar_engine_add(engine, loss, batch->weight);
    }
    return DCPAR_OK;
}

static dcpar_status run_rank(dcpar_comm *world, void *argument, dcpar_error *error) {
    const call *call = argument;
    outcome *outcome = &call->outcomes[dcpar_comm_rank(world)];
    dcpar_engine_options options = DCPAR_ENGINE_OPTIONS_INIT;
    options.clip_norm = CLIP;
    dcpar_engine *engine = NULL;
    dcpar_arena *arena = NULL;
    dcpar_transformer *model = NULL;
    dcpar_batch batch = {.by_sequence = call->scene->by_sequence};
    outcome->count = dcpar_transformer_parameter_count(&eight_heads);
    dcpar_status status = dcpar_engine_create(world, NULL, outcome->count, &options, &engine, error);
    if (status == DCPAR_OK) status = dcpar_arena_create(INT64_C(1) << 32, &arena, error);
    if (status == DCPAR_OK)
        status = dcpar_transformer_create(&eight_heads, dcpar_engine_parameters(engine), dcpar_engine_gradients(engine),
                                          arena, &model, error);
    if (status == DCPAR_OK) dcpar_transformer_initialise(model, 5);
    if (status == DCPAR_OK) status = dcpar_engine_begin(engine, error);
    if (status == DCPAR_OK) status = run_parts(call->scene, world, engine, model, &batch, error);
    if (status == DCPAR_OK) status = dcpar_engine_step(engine, &outcome->result, error);
    if (status == DCPAR_OK) status = dcpar_engine_gather_moment(engine, 0, error);
    if (status == DCPAR_OK) {
        outcome->moment = malloc((size_t)outcome->count * sizeof(float));
        memcpy(outcome->moment, dcpar_engine_gradients(engine), (size_t)outcome->count * sizeof(float));
    }
    dcpar_batch_destroy(&batch);
    dcpar_transformer_destroy(model);
    dcpar_arena_destroy(arena);
    dcpar_engine_destroy(engine);
    return status;
}

/* What all ranks agree on; the caller frees its moment. */
static outcome play(const scene *scene) {
    dcpar_error error = {0};
    outcome outcomes[MOST_RANKS] = {{.count = 0}};
    assert_ok(dcpar_comm_run_local(scene->world, run_rank, &(call){scene, outcomes}, &error));
    for (int32_t rank = 1; rank < scene->world; ++rank) {
        assert_true(outcomes[rank].result.loss == outcomes[0].result.loss);
        assert_true(outcomes[rank].result.gradient_norm == outcomes[0].result.gradient_norm);
        assert_true(outcomes[rank].result.learning_rate == outcomes[0].result.learning_rate);
        assert_memory_equal(outcomes[rank].moment, outcomes[0].moment, (size_t)outcomes[0].count * sizeof(float));
        free(outcomes[rank].moment);
    }
    return outcomes[0];
}

static double distance(const outcome *a, const outcome *b) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < a->count; ++i) {
        difference += pow((double)a->moment[i] - (double)b->moment[i], 2);
        size += pow((double)b->moment[i], 2);
    }
    return sqrt(difference / size);
}

/* The scene's sequences one by one on one rank. */
static outcome play_alone(const scene *asked) {
    part parts[MOST_ROWS];
    scene alone = *asked;
    alone.world = 1;
    alone.part_count = 0;
    alone.parts = parts;
    for (int i = 0; i < asked->part_count; ++i)
        for (int j = 0; j < asked->parts[i].row_count; ++j)
            parts[alone.part_count++] = (part){0, 1, 1, {asked->parts[i].rows[j]}};
    return play(&alone);
}

static void check(const scene *scene) {
    outcome got = play(scene), want = play_alone(scene);
    assert_true(want.result.gradient_norm > CLIP); /* it is clipped */
    assert_true(fabs(got.result.weight - want.result.weight) <= 1e-9 * want.result.weight);
    assert_true(fabs(got.result.loss - want.result.loss) <= 1e-6 * want.result.loss);
    assert_true(fabs(got.result.gradient_norm - want.result.gradient_norm) <= 1e-5 * want.result.gradient_norm);
    const double difference = distance(&got, &want);
    if (!(difference <= 1e-5)) fail_msg("clipped gradients differ by %g", difference);
    free(got.moment);
    free(want.moment);
}

/* ------------------------------------------------------------------------------------------------- scenes */

static char folder[64];
static dcpar_dataset *dataset;
static dcpar_pieces *pieces;

static scene scene_of(int32_t world, int part_count, const part *parts) {
    return (scene){world, part_count, parts, false, dataset, pieces};
}

/* The dataset's files have these lengths. */
static void given(const int64_t *lengths, int count) {
    char path[100], command[200];
    dcpar_error error;
    dcpar_pieces_destroy(pieces);
    dcpar_dataset_close(dataset);
    snprintf(path, sizeof path, "%s/data", folder);
    snprintf(command, sizeof command, "rm -rf %s", path);
    assert_int_equal(system(command), 0);
    make_files(path, lengths, count);
    assert_ok(dcpar_dataset_open(path, &dataset, &error));
    const dcpar_piece_options whole = {0};
    assert_ok(dcpar_pieces_create(dcpar_dataset_lengths(dataset), count, &whole, &pieces, &error));
}

static void g1_five_and_one_loss_tokens_weigh_a_sixth_each(void **state) {
    (void)state;
    given((const int64_t[]){6, 2}, 2);
    const part parts[] = {{0, 1, 1, {0}}, {1, 1, 1, {1}}};
    const scene scene = scene_of(2, 2, parts);
    check(&scene);
    outcome outcome = play(&scene);
    assert_true(outcome.result.weight == 6);
    free(outcome.moment);
}

static void g2_identical_sequences_in_any_shape(void **state) {
    (void)state;
    given((const int64_t[]){37}, 1);
    for (int32_t sp = 1; sp <= 2; ++sp)
        for (int batch = 1; batch <= 16; batch *= 4) {
            part parts[16];
            for (int i = 0; i < 16 / batch; ++i) parts[i] = (part){0, sp, batch, {0}}; /* row 0 again and again */
            const scene scene = scene_of(sp, 16 / batch, parts);
            check(&scene);
        }
}

static void g3_one_batch_on_any_number_of_ranks(void **state) {
    (void)state;
    given((const int64_t[]){40, 33, 12, 7}, 4);
    for (int32_t sp = 1; sp <= 8; sp *= 2) {
        const part parts[] = {{0, sp, 4, {0, 1, 2, 3}}};
        const scene scene = scene_of(sp, 1, parts);
        check(&scene);
    }
}

static void g4_a_micro_batch_without_loss_tokens_adds_zero(void **state) {
    (void)state;
    given((const int64_t[]){1, 101}, 2);
    const part parts[] = {{0, 1, 1, {0}}, {1, 1, 1, {1}}};
    const scene scene = scene_of(2, 2, parts);
    check(&scene);
    /* Nor does an iteration without any. */
    const part none[] = {{0, 1, 1, {0}}};
    const struct scene nothing = scene_of(2, 1, none);
    outcome outcome = play(&nothing);
    assert_true(outcome.result.loss == 0 && outcome.result.weight == 0 && outcome.result.gradient_norm == 0);
    for (int64_t i = 0; i < outcome.count; ++i) assert_true(outcome.moment[i] == 0);
    free(outcome.moment);
}

static void g6_a_long_sequence_on_four_ranks_and_short_ones_on_one(void **state) {
    (void)state;
    int64_t lengths[49] = {400};
    for (int i = 1; i < 49; ++i) lengths[i] = 5 + i % 7;
    given(lengths, 49);
    part parts[2] = {{0, 4, 1, {0}}, {4, 1, 48, {0}}};
    for (int i = 0; i < 48; ++i) parts[1].rows[i] = i + 1;
    scene scene = scene_of(5, 2, parts);
    check(&scene);
    scene.by_sequence = true;
    check(&scene);
    outcome outcome = play(&scene);
    assert_true(fabs(outcome.result.weight - 49) < 1e-9);
    free(outcome.moment);
}

static void l5_lengths_that_do_not_divide(void **state) {
    (void)state;
    given((const int64_t[]){8423, 1533, 3, 1}, 4);
    for (int32_t sp = 2; sp <= 8; sp *= 2) {
        const part parts[] = {{0, sp, 1, {0}}, {0, sp, 1, {1}}, {0, sp, 1, {2}}, {0, sp, 1, {3}}};
        const scene scene = scene_of(sp, 4, parts);
        check(&scene);
    }
}

static void l6_short_sequences_on_eight_ranks(void **state) {
    (void)state;
    given((const int64_t[]){1, 2, 15, 16, 17}, 5);
    const part alone[] = {{0, 8, 1, {0}}, {0, 8, 1, {1}}, {0, 8, 1, {2}}, {0, 8, 1, {3}}, {0, 8, 1, {4}}};
    const part beside[] = {{0, 1, 3, {0, 1, 2}}, {0, 8, 2, {3, 4}}};
    const scene scenes[] = {scene_of(8, 5, alone), scene_of(8, 2, beside)};
    for (int i = 0; i < 2; ++i) check(&scenes[i]);
}

/* ------------------------------------------------------------------------------------- engine without a model */

/* Rank 0 adds four times as often as rank 1. */
static dcpar_status ten_iterations(dcpar_comm *world, void *rates, dcpar_error *error) {
    dcpar_engine_options options = DCPAR_ENGINE_OPTIONS_INIT;
    options.warmup_iterations = 5;
    options.total_iterations = 10;
    dcpar_engine *engine = NULL;
    dcpar_status status = dcpar_engine_create(world, NULL, 3, &options, &engine, error);
    for (int i = 0; i < 10 && status == DCPAR_OK; ++i) {
        dcpar_result result;
        status = dcpar_engine_begin(engine, error);
        for (int j = 0; j < (dcpar_comm_rank(world) == 0 ? 4 : 1); ++j) {
            dcpar_engine_gradients(engine)[0] += 1;
            dcpar_engine_add(engine, 2, 1);
        }
        if (status == DCPAR_OK) status = dcpar_engine_step(engine, &result, error);
        if (status != DCPAR_OK) break;
        assert_int_equal(result.iteration, i);
        assert_true(result.weight == 5 && result.loss == 2 && result.gradient_norm == 1);
        ((double *)rates)[10 * dcpar_comm_rank(world) + i] = result.learning_rate;
    }
    if (status == DCPAR_OK) assert_int_equal(dcpar_engine_iteration(engine), 10);
    dcpar_engine_destroy(engine);
    return status;
}

static void g5_the_learning_rate_moves_once_an_iteration(void **state) {
    (void)state;
    dcpar_error error;
    double rates[20];
    assert_ok(dcpar_comm_run_local(2, ten_iterations, rates, &error));
    for (int i = 0; i < 10; ++i) {
        assert_true(rates[i] == rates[10 + i]);
        if (i > 0) assert_true(i <= 5 ? rates[i] > rates[i - 1] : rates[i] <= rates[i - 1]);
    }
}

static int set_up(void **state) {
    (void)state;
    make_temporary(folder, sizeof folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    dcpar_pieces_destroy(pieces);
    dcpar_dataset_close(dataset);
    remove_folder(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(g1_five_and_one_loss_tokens_weigh_a_sixth_each),
        cmocka_unit_test(g2_identical_sequences_in_any_shape),
        cmocka_unit_test(g3_one_batch_on_any_number_of_ranks),
        cmocka_unit_test(g4_a_micro_batch_without_loss_tokens_adds_zero),
        cmocka_unit_test(g5_the_learning_rate_moves_once_an_iteration),
        cmocka_unit_test(g6_a_long_sequence_on_four_ranks_and_short_ones_on_one),
        cmocka_unit_test(l5_lengths_that_do_not_divide),
        cmocka_unit_test(l6_short_sequences_on_eight_ranks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
