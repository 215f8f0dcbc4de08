/* The model on groups of ranks (threads of this process) against one rank alone. */
#include "nn_testing.h"

#define ROOM (INT64_C(8) << 20)
#define MOST_RANKS 8

static const dcpar_model_config EIGHT_HEADS = {.hidden_size = 32,
                                               .intermediate_size = 24,
                                               .vocab_size = 13,
                                               .max_position_embeddings = 1024,
                                               .num_hidden_layers = 2,
                                               .num_attention_heads = 8,
                                               .num_key_value_heads = 8,
                                               .head_dim = 6,
                                               .rope_theta = 1000.0,
                                               .rms_norm_eps = 1e-5};

/* One micro-batch on a group; every rank has its own model. */
typedef struct group_run {
    owned_model models[MOST_RANKS];
    const token_row *row;
    int32_t recompute;
    bool measure;
    double loss[MOST_RANKS];
    int64_t loss_tokens[MOST_RANKS];
    dcpar_layer_cost cost[MOST_RANKS];
    dcpar_status status[MOST_RANKS];
    dcpar_error error[MOST_RANKS];
} group_run;

/* Runs on the ranks' threads, where nothing may be asserted. */
static dcpar_status rank_main(dcpar_comm *world, void *argument, dcpar_error *error) {
    (void)error;
    group_run *run = argument;
    const int32_t rank = dcpar_comm_rank(world);
    const dcpar_tokens tokens = token_row_part(run->row, rank, dcpar_comm_size(world));
    if (run->measure)
        run->status[rank] =
            dcpar_transformer_measure(run->models[rank].model, world, &tokens, &run->cost[rank], &run->error[rank]);
    else
        run->status[rank] = dcpar_transformer_run(run->models[rank].model, world, &tokens, run->recompute,
                                                  &run->loss[rank], &run->loss_tokens[rank], &run->error[rank]);
    return DCPAR_OK;
}

static void group_run_start(group_run *run, int32_t ranks) {
    dcpar_error error;
    assert_ok(dcpar_comm_run_local(ranks, rank_main, run, &error));
}

static void create_models(group_run *run, int32_t ranks, const dcpar_model_config *config) {
    for (int32_t rank = 0; rank < ranks; ++rank) run->models[rank] = owned_model_create(config, ROOM, 0.25f);
}

static void destroy_models(group_run *run, int32_t ranks) {
    for (int32_t rank = 0; rank < ranks; ++rank) owned_model_destroy(&run->models[rank]);
}

/* The row on `ranks` ranks gives the gradients and the loss of one rank, where it has no padding. */
static void check_group(const dcpar_model_config *config, const int64_t *lengths, int64_t sequences, int32_t ranks,
                        int32_t recompute) {
    dcpar_error error;
    token_row row = token_row_create(lengths, sequences, 0, config->vocab_size, 5);
    const int64_t padding = (ranks - row.total % ranks) % ranks;
    token_row padded = token_row_create(lengths, sequences, padding, config->vocab_size, 5);
    for (int64_t i = row.total; i < padded.total; ++i) padded.input[i] = padded.target[i] = padded.position[i] = 9999;
    owned_model alone = owned_model_create(config, ROOM, 0.25f);
    const dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double loss = 0.0, wanted_loss;
    int64_t loss_tokens = 0, wanted_tokens;
    assert_ok(dcpar_transformer_run(alone.model, NULL, &tokens, 0, &wanted_loss, &wanted_tokens, &error));

    group_run run = {.row = &padded, .recompute = recompute};
    create_models(&run, ranks, config);
    group_run_start(&run, ranks);
    float *sum = aligned_floats(alone.count);
    for (int32_t rank = 0; rank < ranks; ++rank) {
        if (run.status[rank] != DCPAR_OK) fail_msg("rank %d: %s", rank, run.error[rank].text);
        loss += run.loss[rank];
        loss_tokens += run.loss_tokens[rank];
        for (int64_t i = 0; i < alone.count; ++i) sum[i] += run.models[rank].gradients[i];
    }
    assert_int_equal(loss_tokens, wanted_tokens);
    const double difference = relative_difference(sum, alone.gradients, alone.count);
    if (!(fabs(loss - wanted_loss) <= 1e-6 * wanted_loss) || !(difference <= 1e-5))
        fail_msg("%lld tokens on %d ranks: loss %.9g, not %.9g; gradients differ by %g", (long long)row.total, ranks,
                 loss, wanted_loss, difference);
    free(sum);
    destroy_models(&run, ranks);
    owned_model_destroy(&alone);
    token_row_destroy(&row);
    token_row_destroy(&padded);
}

static void groups_of_any_size_give_the_gradient_of_one_rank_at_any_length(void **state) {
    (void)state;
    const int64_t lengths[] = {843, 153, 3, 1};
    const int32_t groups[] = {1, 2, 4, 8};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; ++g)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i)
            check_group(&EIGHT_HEADS, &lengths[i], 1, groups[g], (int32_t)(i % 3));
}

static void groups_run_packed_rows_and_grouped_key_heads(void **state) {
    (void)state;
    const int64_t packed[] = {3, 5, 1, 7, 70};
    dcpar_model_config config = EIGHT_HEADS;
    config.num_key_value_heads = 4;
    config.tie_word_embeddings = true;
    for (int32_t ranks = 1; ranks <= 4; ranks *= 2)
        for (int32_t recompute = 0; recompute <= 2; ++recompute) check_group(&config, packed, 5, ranks, recompute);
    check_group(&config, packed, 4, 2, 0); /* case L7 */
    config.num_attention_heads = 6;        /* groups need not be powers of two */
    config.num_key_value_heads = 3;
    check_group(&config, packed, 5, 3, 0);
}

static void the_peak_on_every_rank_is_the_formula_to_the_byte(void **state) {
    (void)state;
    const int64_t lengths[] = {50, 11};
    for (int32_t ranks = 1; ranks <= 8; ranks *= 2) {
        token_row row = token_row_create(lengths, 2, (ranks - 61 % ranks) % ranks, EIGHT_HEADS.vocab_size, 5);
        group_run measured = {.row = &row, .measure = true}, run = {.row = &row};
        dcpar_model_config config = EIGHT_HEADS;
        create_models(&measured, ranks, &config);
        group_run_start(&measured, ranks);
        config.num_hidden_layers = 4;
        create_models(&run, ranks, &config);
        for (run.recompute = 0; run.recompute <= 4; ++run.recompute) {
            for (int32_t rank = 0; rank < ranks; ++rank) dcpar_arena_reset_peak(run.models[rank].arena);
            group_run_start(&run, ranks);
            for (int32_t rank = 0; rank < ranks; ++rank) {
                const dcpar_layer_cost *cost = &measured.cost[rank];
                assert_int_equal(measured.status[rank], DCPAR_OK);
                assert_int_equal(run.status[rank], DCPAR_OK);
                assert_true(cost->forward > 0.0 && cost->backward > 0.0 && cost->constant_seconds > 0.0);
                const int64_t kept = run.recompute < 4 ? 4 - run.recompute : 1;
                assert_int_equal(dcpar_arena_peak(run.models[rank].arena),
                                 kept * cost->layer_bytes + 4 * cost->input_bytes + cost->constant_bytes);
            }
        }
        destroy_models(&measured, ranks);
        destroy_models(&run, ranks);
        token_row_destroy(&row);
    }
}

static void memory_that_is_short_on_one_rank_is_refused_on_all_and_nobody_hangs(void **state) {
    (void)state;
    const int64_t lengths[] = {40};
    token_row row = token_row_create(lengths, 1, 0, EIGHT_HEADS.vocab_size, 5);
    group_run run = {.row = &row};
    create_models(&run, 4, &EIGHT_HEADS);
    assert_true(dcpar_arena_reserve(run.models[2].arena, ROOM - 1000));
    for (int measure = 0; measure < 2; ++measure) {
        run.measure = measure;
        group_run_start(&run, 4);
        for (int32_t rank = 0; rank < 4; ++rank) {
            assert_int_equal(run.status[rank], DCPAR_DEVICE_MEMORY);
            assert_int_equal(dcpar_arena_used(run.models[rank].arena), rank == 2 ? ROOM - 1000 : 0);
        }
        assert_non_null(strstr(run.error[0].text, "another rank"));
    }
    assert_true(dcpar_arena_reserve(run.models[2].arena, 1000 - ROOM));
    run.measure = false;
    group_run_start(&run, 4);
    for (int32_t rank = 0; rank < 4; ++rank) assert_int_equal(run.status[rank], DCPAR_OK);
    destroy_models(&run, 4);
    token_row_destroy(&row);
}

static void heads_that_cannot_be_dealt_to_the_group_are_refused(void **state) {
    (void)state;
    const int64_t lengths[] = {40};
    dcpar_model_config config = EIGHT_HEADS;
    config.num_key_value_heads = 2;
    token_row row = token_row_create(lengths, 1, 0, config.vocab_size, 5);
    group_run run = {.row = &row};
    create_models(&run, 4, &config);
    group_run_start(&run, 4);
    for (int32_t rank = 0; rank < 4; ++rank) {
        assert_int_equal(run.status[rank], DCPAR_ILLEGAL_SIZE);
        assert_non_null(strstr(run.error[rank].text, "8 heads and 2 key-value heads"));
    }
    destroy_models(&run, 4);
    token_row_destroy(&row);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_any_size_give_the_gradient_of_one_rank_at_any_length),
        cmocka_unit_test(groups_run_packed_rows_and_grouped_key_heads),
        cmocka_unit_test(the_peak_on_every_rank_is_the_formula_to_the_byte),
        cmocka_unit_test(memory_that_is_short_on_one_rank_is_refused_on_all_and_nobody_hangs),
        cmocka_unit_test(heads_that_cannot_be_dealt_to_the_group_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
