/* The whole model on one rank: gradients against differences of a naive model in double precision, recomputation,
 * memory to the byte, packing, padding, refusals. */
#include <stdio.h>

#include "nn_testing.h"

#define ROOM (INT64_C(8) << 20)

static const dcpar_model_config SMALL = {.hidden_size = 24,
                                         .intermediate_size = 20,
                                         .vocab_size = 11,
                                         .max_position_embeddings = 64,
                                         .num_hidden_layers = 3,
                                         .num_attention_heads = 4,
                                         .num_key_value_heads = 2,
                                         .head_dim = 6,
                                         .rope_theta = 100.0,
                                         .rms_norm_eps = 1e-5};

/* -------------------------------------------------------------------------------- the model in double precision */

static const double *tensor_of(const owned_model *m, const double *parameters, const char *name) {
    for (int64_t t = 0; t < dcpar_transformer_tensor_count(m->model); ++t) {
        dcpar_tensor_view view;
        dcpar_transformer_tensor(m->model, t, &view);
        if (strcmp(view.name, name) == 0) return parameters + view.offset;
    }
    fail_msg("no tensor is named %s", name);
    return NULL;
}

static const double *layer_tensor_of(const owned_model *m, const double *parameters, int32_t layer, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, name);
    return tensor_of(m, parameters, full);
}

/* y (+)= weight x */
static void linear(const double *weight, int64_t outputs, int64_t inputs, const double *x, double *y, bool add) {
    for (int64_t o = 0; o < outputs; ++o) {
        double sum = add ? y[o] : 0.0;
        for (int64_t i = 0; i < inputs; ++i) sum += weight[o * inputs + i] * x[i];
        y[o] = sum;
    }
}

static void norm_row(const double *weight, int64_t width, double eps, const double *x, double *y) {
    double squares = 0.0;
    for (int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] / sqrt(squares / (double)width + eps) * weight[i];
}

static void rotate(double *heads, int64_t count, int64_t dim, double theta, int64_t position) {
    for (int64_t h = 0; h < count; ++h, heads += dim)
        for (int64_t i = 0; i < dim / 2; ++i) {
            const double angle = (double)position * pow(theta, -2.0 * (double)i / (double)dim);
            const double a = heads[i], b = heads[i + dim / 2];
            heads[i] = a * cos(angle) - b * sin(angle);
            heads[i + dim / 2] = b * cos(angle) + a * sin(angle);
        }
}

enum { WIDEST = 64, LONGEST = 32 };

/* x += output(attention(norm(x))) for one sequence, x [length, hidden]. */
static void attention_part(const owned_model *m, const double *parameters, int32_t layer, int64_t length, double *x) {
    static double q[LONGEST][WIDEST], k[LONGEST][WIDEST], v[LONGEST][WIDEST];
    const dcpar_model_config *c = &m->config;
    const int64_t dim = c->head_dim, heads = c->num_attention_heads, kv = c->num_key_value_heads;
    double normed[WIDEST];
    for (int64_t t = 0; t < length; ++t) {
        norm_row(layer_tensor_of(m, parameters, layer, "input_layernorm"), c->hidden_size, c->rms_norm_eps,
                 x + t * c->hidden_size, normed);
        linear(layer_tensor_of(m, parameters, layer, "self_attn.q_proj"), heads * dim, c->hidden_size, normed, q[t], 0);
        linear(layer_tensor_of(m, parameters, layer, "self_attn.k_proj"), kv * dim, c->hidden_size, normed, k[t], 0);
        linear(layer_tensor_of(m, parameters, layer, "self_attn.v_proj"), kv * dim, c->hidden_size, normed, v[t], 0);
        rotate(q[t], heads, dim, c->rope_theta, t);
        rotate(k[t], kv, dim, c->rope_theta, t);
    }
    for (int64_t t = 0; t < length; ++t) {
        double attended[WIDEST] = {0};
        for (int64_t h = 0; h < heads; ++h) {
            const int64_t first = h / (heads / kv) * dim;
            double p[LONGEST] = {0}, sum = 0.0;
            for (int64_t j = 0; j <= t; ++j) {
                for (int64_t d = 0; d < dim; ++d) p[j] += q[t][h * dim + d] * k[j][first + d] / sqrt((double)dim);
                p[j] = exp(p[j]);
                sum += p[j];
            }
            for (int64_t j = 0; j <= t; ++j)
                for (int64_t d = 0; d < dim; ++d) attended[h * dim + d] += p[j] / sum * v[j][first + d];
        }
        linear(layer_tensor_of(m, parameters, layer, "self_attn.o_proj"), c->hidden_size, heads * dim, attended,
               x + t * c->hidden_size, true);
    }
}

/* x += down(silu(gate(norm(x))) * up(norm(x))) for one token. */
static void swiglu_part(const owned_model *m, const double *parameters, int32_t layer, double *x) {
    const dcpar_model_config *c = &m->config;
    double normed[WIDEST], gate[WIDEST], up[WIDEST];
    norm_row(layer_tensor_of(m, parameters, layer, "post_attention_layernorm"), c->hidden_size, c->rms_norm_eps, x,
             normed);
    linear(layer_tensor_of(m, parameters, layer, "mlp.gate_proj"), c->intermediate_size, c->hidden_size, normed, gate,
           false);
    linear(layer_tensor_of(m, parameters, layer, "mlp.up_proj"), c->intermediate_size, c->hidden_size, normed, up,
           false);
    for (int64_t i = 0; i < c->intermediate_size; ++i) gate[i] *= up[i] / (1.0 + exp(-gate[i]));
    linear(layer_tensor_of(m, parameters, layer, "mlp.down_proj"), c->hidden_size, c->intermediate_size, gate, x, true);
}

static double loss_of_sequence(const owned_model *m, const double *parameters, int64_t length, const int32_t *input,
                               const int32_t *target) {
    static double x[LONGEST * WIDEST];
    const dcpar_model_config *c = &m->config;
    const double *embedding = tensor_of(m, parameters, "model.embed_tokens.weight");
    const double *head = c->tie_word_embeddings ? embedding : tensor_of(m, parameters, "lm_head.weight");
    for (int64_t t = 0; t < length; ++t)
        memcpy(x + t * c->hidden_size, embedding + input[t] * c->hidden_size, (size_t)c->hidden_size * sizeof *x);
    for (int32_t layer = 0; layer < c->num_hidden_layers; ++layer) {
        attention_part(m, parameters, layer, length, x);
        for (int64_t t = 0; t < length; ++t) swiglu_part(m, parameters, layer, x + t * c->hidden_size);
    }
    double loss = 0.0;
    for (int64_t t = 0; t < length; ++t) {
        double normed[WIDEST], logits[WIDEST], sum = 0.0;
        if (target[t] < 0) continue;
        norm_row(tensor_of(m, parameters, "model.norm.weight"), c->hidden_size, c->rms_norm_eps, x + t * c->hidden_size,
                 normed);
        linear(head, c->vocab_size, c->hidden_size, normed, logits, false);
        for (int64_t i = 0; i < c->vocab_size; ++i) sum += exp(logits[i]);
        loss += log(sum) - logits[target[t]];
    }
    return loss;
}

static double loss_of_row(const owned_model *m, const double *parameters, const token_row *row) {
    double loss = 0.0;
    for (int64_t s = 0; s < row->sequences; ++s)
        loss += loss_of_sequence(m, parameters, row->starts[s + 1] - row->starts[s], row->input + row->starts[s],
                                 row->target + row->starts[s]);
    return loss;
}

/* --------------------------------------------------------------------------------------------------- gradients */

static void check_against_double_precision(const dcpar_model_config *config) {
    dcpar_error error;
    const int64_t lengths[] = {5, 1, 6};
    owned_model m = owned_model_create(config, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 3, 0, config->vocab_size, 5);
    const dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double *parameters = malloc((size_t)m.count * sizeof *parameters), loss;
    assert_non_null(parameters);
    for (int64_t i = 0; i < m.count; ++i) parameters[i] = m.parameters[i];
    int64_t loss_tokens;
    assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 1, &loss, &loss_tokens, &error));
    assert_int_equal(loss_tokens, 4 + 5);
    assert_true(fabs(loss - loss_of_row(&m, parameters, &row)) < 1e-5 * loss);

    for (int64_t t = 0; t < dcpar_transformer_tensor_count(m.model); ++t) {
        dcpar_tensor_view view;
        dcpar_transformer_tensor(m.model, t, &view);
        const int64_t size = view.columns > 0 ? view.rows * view.columns : view.rows;
        for (uint64_t trial = 0; trial < 4; ++trial) {
            const int64_t i = view.offset + (int64_t)(dcpar_random(9, (uint64_t)t, trial) % (uint64_t)size);
            const double step = 1e-5, middle = parameters[i];
            parameters[i] = middle + step;
            const double above = loss_of_row(&m, parameters, &row);
            parameters[i] = middle - step;
            const double below = loss_of_row(&m, parameters, &row);
            parameters[i] = middle;
            const double wanted = (above - below) / (2.0 * step);
            if (!(fabs(m.gradients[i] - wanted) <= 2e-5 + 1e-4 * fabs(wanted)))
                fail_msg("%s, place %lld: gradient %.8g, not %.8g", view.name, (long long)(i - view.offset),
                         m.gradients[i], wanted);
        }
    }
    free(parameters);
    token_row_destroy(&row);
    owned_model_destroy(&m);
}

static void gradients_are_those_of_a_naive_model_in_double_precision(void **state) {
    (void)state;
    dcpar_model_config config = SMALL;
    check_against_double_precision(&config);
    config.tie_word_embeddings = true;
    check_against_double_precision(&config);
    config.num_key_value_heads = 4;
    config.head_dim = 16;
    check_against_double_precision(&config);
}

static void gradients_are_added(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {7};
    owned_model m = owned_model_create(&SMALL, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 1, 0, SMALL.vocab_size, 5);
    const dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double loss;
    int64_t loss_tokens;
    assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 0, &loss, &loss_tokens, &error));
    float *once = aligned_floats(m.count);
    for (int64_t i = 0; i < m.count; ++i) once[i] = 2.0f * m.gradients[i];
    assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 0, &loss, &loss_tokens, &error));
    assert_true(relative_difference(m.gradients, once, m.count) < 1e-6);
    free(once);
    token_row_destroy(&row);
    owned_model_destroy(&m);
}

static void recomputing_any_number_of_layers_changes_no_bit_and_takes_the_memory_it_says(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {13, 4};
    dcpar_model_config config = SMALL, two_layers = SMALL;
    config.num_hidden_layers = 5;
    two_layers.num_hidden_layers = 2;
    owned_model m = owned_model_create(&config, ROOM, 0.3f), pair = owned_model_create(&two_layers, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 2, 3, config.vocab_size, 5);
    const dcpar_tokens tokens = token_row_part(&row, 0, 1);
    dcpar_layer_cost cost;
    assert_ok(dcpar_transformer_measure(pair.model, NULL, &tokens, &cost, &error));
    assert_true(cost.forward > 0.0 && cost.backward > 0.0 && cost.constant_seconds > 0.0);
    assert_int_equal(dcpar_arena_peak(pair.arena), 2 * cost.input_bytes + 2 * cost.layer_bytes + cost.constant_bytes);

    assert_true(dcpar_arena_reserve(m.arena, 4096));
    float *first = aligned_floats(m.count);
    double first_loss = 0.0;
    for (int32_t r = 0; r <= config.num_hidden_layers; ++r) {
        double loss;
        int64_t loss_tokens;
        memset(m.gradients, 0, (size_t)m.count * sizeof *m.gradients);
        dcpar_arena_reset_peak(m.arena);
        assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, r, &loss, &loss_tokens, &error));
        if (r == 0) {
            memcpy(first, m.gradients, (size_t)m.count * sizeof *first);
            first_loss = loss;
        }
        assert_true(loss == first_loss);
        assert_memory_equal(first, m.gradients, (size_t)m.count * sizeof *first);
        const int64_t kept = r < config.num_hidden_layers ? config.num_hidden_layers - r : 1;
        assert_int_equal(dcpar_arena_peak(m.arena) - 4096,
                         kept * cost.layer_bytes + config.num_hidden_layers * cost.input_bytes + cost.constant_bytes);
        assert_int_equal(dcpar_arena_used(m.arena), 4096);
    }
    free(first);
    token_row_destroy(&row);
    owned_model_destroy(&m);
    owned_model_destroy(&pair);
}

static void sequences_packed_in_one_row_are_sequences_run_alone(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {3, 5, 1, 7};
    owned_model m = owned_model_create(&SMALL, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 4, 0, SMALL.vocab_size, 5);
    dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double together, loss, apart = 0.0;
    int64_t loss_tokens;
    assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 0, &together, &loss_tokens, &error));
    float *packed = aligned_floats(m.count);
    memcpy(packed, m.gradients, (size_t)m.count * sizeof *packed);
    memset(m.gradients, 0, (size_t)m.count * sizeof *packed);
    for (int64_t s = 0; s < row.sequences; ++s) {
        const int64_t start = row.starts[s], alone[] = {0, lengths[s]};
        tokens =
            (dcpar_tokens){lengths[s], 1, alone, row.input + start, row.target + start, row.position + start, NULL};
        assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 3, &loss, &loss_tokens, &error));
        apart += loss;
    }
    assert_true(fabs(together - apart) < 1e-6 * apart);
    assert_true(relative_difference(packed, m.gradients, m.count) < 1e-5);
    free(packed);
    token_row_destroy(&row);
    owned_model_destroy(&m);
}

static void whatever_stands_in_padding_changes_nothing(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {6, 4};
    owned_model m = owned_model_create(&SMALL, ROOM, 0.3f);
    token_row rows[3];
    for (int i = 0; i < 3; ++i) rows[i] = token_row_create(lengths, 2, i == 0 ? 0 : 9, SMALL.vocab_size, 5);
    for (int64_t i = 10; i < 19; ++i) {
        rows[2].input[i] = i % 2 == 0 ? INT32_MAX : INT32_MIN;
        rows[2].target[i] = (int32_t)i * 1000;
        rows[2].position[i] = -7;
    }
    double loss[3];
    float *gradients[3];
    for (int i = 0; i < 3; ++i) {
        const dcpar_tokens tokens = token_row_part(&rows[i], 0, 1);
        int64_t loss_tokens;
        memset(m.gradients, 0, (size_t)m.count * sizeof *m.gradients);
        assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 1, &loss[i], &loss_tokens, &error));
        assert_int_equal(loss_tokens, 8);
        gradients[i] = aligned_floats(m.count);
        memcpy(gradients[i], m.gradients, (size_t)m.count * sizeof *m.gradients);
    }
    assert_true(loss[1] == loss[2] && fabs(loss[0] - loss[2]) < 1e-6 * loss[0]);
    assert_memory_equal(gradients[1], gradients[2], (size_t)m.count * sizeof *m.gradients);
    assert_true(relative_difference(gradients[0], gradients[2], m.count) < 1e-5); /* other sizes, other rounding */
    for (int i = 0; i < 3; ++i) {
        free(gradients[i]);
        token_row_destroy(&rows[i]);
    }
    owned_model_destroy(&m);
}

static void a_row_without_loss_adds_exactly_zero(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {1, 1, 1};
    owned_model m = owned_model_create(&SMALL, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 3, 2, SMALL.vocab_size, 5);
    dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double loss = 7.0;
    int64_t loss_tokens = 7;
    assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 1, &loss, &loss_tokens, &error));
    assert_true(loss == 0.0 && loss_tokens == 0);
    for (int64_t i = 0; i < m.count; ++i) assert_true(m.gradients[i] == 0.0f);

    const int64_t no_starts[] = {0};
    tokens = (dcpar_tokens){0, 0, no_starts, NULL, NULL, NULL, NULL};
    assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 1, &loss, &loss_tokens, &error));
    assert_true(loss == 0.0 && loss_tokens == 0);
    token_row_destroy(&row);
    owned_model_destroy(&m);
}

/* ----------------------------------------------------------------------------------------- logits in chunks */

static void rows_longer_than_a_chunk_of_logits_are_sums_of_their_sequences(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {700, 900};
    dcpar_model_config config = SMALL;
    config.num_hidden_layers = 1;
    owned_model m = owned_model_create(&config, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 2, 0, config.vocab_size, 5);
    dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double together, loss, apart = 0.0;
    int64_t loss_tokens;
    assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 0, &together, &loss_tokens, &error));
    assert_int_equal(loss_tokens, 1598);
    float *packed = aligned_floats(m.count);
    memcpy(packed, m.gradients, (size_t)m.count * sizeof *packed);
    memset(m.gradients, 0, (size_t)m.count * sizeof *packed);
    for (int64_t s = 0; s < 2; ++s) {
        const int64_t start = row.starts[s], alone[] = {0, lengths[s]};
        tokens =
            (dcpar_tokens){lengths[s], 1, alone, row.input + start, row.target + start, row.position + start, NULL};
        assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, 0, &loss, &loss_tokens, &error));
        apart += loss;
    }
    assert_true(fabs(together - apart) < 1e-6 * apart);
    assert_true(relative_difference(packed, m.gradients, m.count) < 1e-5);
    free(packed);
    token_row_destroy(&row);
    owned_model_destroy(&m);
}

/* -------------------------------------------------------------------------------------------------- refusals */

static void memory_that_is_short_by_one_byte_is_refused_before_anything_is_done(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {16};
    dcpar_model_config two_layers = SMALL;
    two_layers.num_hidden_layers = 2;
    owned_model m = owned_model_create(&two_layers, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 1, 0, SMALL.vocab_size, 5);
    const dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double loss;
    int64_t loss_tokens;
    for (int32_t r = 0; r <= 2; ++r) {
        dcpar_arena_reset_peak(m.arena);
        assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, r, &loss, &loss_tokens, &error));
        const int64_t peak = dcpar_arena_peak(m.arena);
        assert_true(dcpar_arena_reserve(m.arena, ROOM - peak));
        assert_ok(dcpar_transformer_run(m.model, NULL, &tokens, r, &loss, &loss_tokens, &error));
        assert_true(dcpar_arena_reserve(m.arena, 1));
        dcpar_arena_reset_peak(m.arena);
        assert_int_equal(dcpar_transformer_run(m.model, NULL, &tokens, r, &loss, &loss_tokens, &error),
                         DCPAR_DEVICE_MEMORY);
        assert_non_null(strstr(error.text, "bytes"));
        assert_int_equal(dcpar_arena_peak(m.arena), ROOM - peak + 1);
        dcpar_layer_cost cost;
        assert_int_equal(dcpar_transformer_measure(m.model, NULL, &tokens, &cost, &error), DCPAR_DEVICE_MEMORY);
        assert_true(dcpar_arena_reserve(m.arena, peak - ROOM - 1));
        assert_int_equal(dcpar_arena_used(m.arena), 0);
    }
    token_row_destroy(&row);
    owned_model_destroy(&m);
}

static void rows_and_models_that_make_no_sense_are_refused(void **state) {
    (void)state;
    dcpar_error error;
    const int64_t lengths[] = {4, 4};
    owned_model m = owned_model_create(&SMALL, ROOM, 0.3f);
    token_row row = token_row_create(lengths, 2, 0, SMALL.vocab_size, 5);
    const dcpar_tokens tokens = token_row_part(&row, 0, 1);
    double loss;
    int64_t loss_tokens;
    assert_int_equal(dcpar_transformer_run(m.model, NULL, &tokens, 4, &loss, &loss_tokens, &error), DCPAR_INVALID);
    row.input[5] = (int32_t)SMALL.vocab_size;
    assert_int_equal(dcpar_transformer_run(m.model, NULL, &tokens, 0, &loss, &loss_tokens, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "token 5 is 11"));
    row.input[5] = 0;
    row.target[5] = (int32_t)SMALL.vocab_size;
    assert_int_equal(dcpar_transformer_run(m.model, NULL, &tokens, 0, &loss, &loss_tokens, &error), DCPAR_INVALID);
    assert_non_null(strstr(error.text, "target 11"));
    row.target[5] = 0;
    row.position[3] = -1;
    assert_int_equal(dcpar_transformer_run(m.model, NULL, &tokens, 0, &loss, &loss_tokens, &error), DCPAR_INVALID);
    row.position[3] = 3;
    row.starts[1] = 9;
    assert_int_equal(dcpar_transformer_run(m.model, NULL, &tokens, 0, &loss, &loss_tokens, &error), DCPAR_INVALID);
    dcpar_layer_cost cost;
    assert_int_equal(dcpar_transformer_measure(m.model, NULL, &tokens, &cost, &error), DCPAR_INVALID);

    dcpar_model_config wrong = SMALL;
    wrong.head_dim = 5;
    dcpar_transformer *none = NULL;
    assert_int_equal(dcpar_transformer_create(&wrong, m.parameters, m.gradients, m.arena, &none, &error),
                     DCPAR_INVALID);
    wrong = SMALL;
    wrong.num_key_value_heads = 3;
    assert_int_equal(dcpar_transformer_create(&wrong, m.parameters, m.gradients, m.arena, &none, &error),
                     DCPAR_INVALID);
    wrong = SMALL;
    wrong.vocab_size = 0;
    assert_int_equal(dcpar_transformer_create(&wrong, m.parameters, m.gradients, m.arena, &none, &error),
                     DCPAR_INVALID);
    assert_non_null(strstr(error.text, "vocab_size"));
    assert_null(none);
    token_row_destroy(&row);
    owned_model_destroy(&m);
}

/* ------------------------------------------------------------------------------------------- tensors, weights */

static void tensors_tile_the_parameters_and_bear_names_of_hugging_face(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; ++tied) {
        dcpar_model_config config = SMALL;
        config.tie_word_embeddings = tied;
        owned_model m = owned_model_create(&config, ROOM, 0.3f);
        int64_t offset = 0;
        dcpar_tensor_view view;
        for (int64_t t = 0; t < dcpar_transformer_tensor_count(m.model); ++t) {
            dcpar_transformer_tensor(m.model, t, &view);
            assert_int_equal(view.offset, offset);
            offset += view.columns > 0 ? view.rows * view.columns : view.rows;
        }
        assert_int_equal(offset, m.count);
        assert_string_equal(view.name, tied ? "model.norm.weight" : "lm_head.weight");
        dcpar_transformer_tensor(m.model, 1 + 9 + 6, &view);
        assert_string_equal(view.name, "model.layers.1.mlp.down_proj.weight");
        assert_int_equal(view.rows, config.hidden_size);
        assert_int_equal(view.columns, config.intermediate_size);
        owned_model_destroy(&m);
    }
}

static void first_weights_depend_on_the_seed_alone_and_have_the_spread_that_is_said(void **state) {
    (void)state;
    owned_model m = owned_model_create(&SMALL, ROOM, 0.3f), again = owned_model_create(&SMALL, ROOM, 0.1f);
    dcpar_transformer_initialise(m.model, 3);
    dcpar_transformer_initialise(again.model, 3);
    assert_memory_equal(m.parameters, again.parameters, (size_t)m.count * sizeof *m.parameters);
    dcpar_transformer_initialise(again.model, 4);
    assert_memory_not_equal(m.parameters, again.parameters, (size_t)m.count * sizeof *m.parameters);
    for (int64_t t = 0; t < dcpar_transformer_tensor_count(m.model); ++t) {
        dcpar_tensor_view view;
        dcpar_transformer_tensor(m.model, t, &view);
        const float *values = m.parameters + view.offset;
        double squares = 0.0;
        const bool into_stream = strstr(view.name, "o_proj") != NULL || strstr(view.name, "down_proj") != NULL;
        const double deviation = into_stream ? 0.02 / sqrt(2.0 * SMALL.num_hidden_layers) : 0.02;
        for (int64_t i = 0; i < view.rows * view.columns; ++i) squares += (double)values[i] * values[i];
        if (view.columns == 0)
            assert_true(values[0] == 1.0f && values[view.rows - 1] == 1.0f);
        else
            assert_true(fabs(sqrt(squares / (double)(view.rows * view.columns)) / deviation - 1.0) < 0.15);
    }
    owned_model_destroy(&m);
    owned_model_destroy(&again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_a_naive_model_in_double_precision),
        cmocka_unit_test(gradients_are_added),
        cmocka_unit_test(recomputing_any_number_of_layers_changes_no_bit_and_takes_the_memory_it_says),
        cmocka_unit_test(sequences_packed_in_one_row_are_sequences_run_alone),
        cmocka_unit_test(whatever_stands_in_padding_changes_nothing),
        cmocka_unit_test(a_row_without_loss_adds_exactly_zero),
        cmocka_unit_test(rows_longer_than_a_chunk_of_logits_are_sums_of_their_sequences),
        cmocka_unit_test(memory_that_is_short_by_one_byte_is_refused_before_anything_is_done),
        cmocka_unit_test(rows_and_models_that_make_no_sense_are_refused),
        cmocka_unit_test(tensors_tile_the_parameters_and_bear_names_of_hugging_face),
        cmocka_unit_test(first_weights_depend_on_the_seed_alone_and_have_the_spread_that_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
