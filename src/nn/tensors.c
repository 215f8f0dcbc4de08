#include "nn/tensors.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/random.h"

#define WEIGHT_DEVIATION 0.02 /* of the normal distribution that weights start from */

enum { Q, K, V, OUTPUT, GATE, UP, DOWN, NORM_INPUT, NORM_MIDDLE, LAYER_TENSORS };

typedef struct tensor {
    const char *name;
    int64_t rows, columns; /* columns 0: a vector */
} tensor;

static int64_t size_of(tensor t) { return t.columns > 0 ? t.rows * t.columns : t.rows; }

static tensor layer_tensor(const dcpar_model_config *c, int64_t which) {
    const int64_t q = (int64_t)c->num_attention_heads * c->head_dim;
    const int64_t kv = (int64_t)c->num_key_value_heads * c->head_dim;
    const tensor all[LAYER_TENSORS] = {
        [Q] = {"self_attn.q_proj.weight", q, c->hidden_size},
        [K] = {"self_attn.k_proj.weight", kv, c->hidden_size},
        [V] = {"self_attn.v_proj.weight", kv, c->hidden_size},
        [OUTPUT] = {"self_attn.o_proj.weight", c->hidden_size, q},
        [GATE] = {"mlp.gate_proj.weight", c->intermediate_size, c->hidden_size},
        [UP] = {"mlp.up_proj.weight", c->intermediate_size, c->hidden_size},
        [DOWN] = {"mlp.down_proj.weight", c->hidden_size, c->intermediate_size},
        [NORM_INPUT] = {"input_layernorm.weight", c->hidden_size, 0},
        [NORM_MIDDLE] = {"post_attention_layernorm.weight", c->hidden_size, 0},
    };
    return all[which];
}

static int64_t offset_in_layer(const dcpar_model_config *config, int64_t which) {
    int64_t offset = 0;
    for (int64_t i = 0; i < which; ++i) offset += size_of(layer_tensor(config, i));
    return offset;
}

static int64_t layer_offset(const dcpar_model_config *config, int64_t layer) {
    return config->vocab_size * config->hidden_size + layer * offset_in_layer(config, LAYER_TENSORS);
}

int64_t dcpar_transformer_parameter_count(const dcpar_model_config *config) {
    const int64_t head = config->tie_word_embeddings ? 0 : config->vocab_size * config->hidden_size;
    return layer_offset(config, config->num_hidden_layers) + config->hidden_size + head;
}

dcpar_layer_tensors dcpar_tensors_of_layer(const dcpar_model_config *config, float *flat, int32_t layer) {
    float *base = flat + layer_offset(config, layer);
    return (dcpar_layer_tensors){
        .qkv = base + offset_in_layer(config, Q),
        .output = base + offset_in_layer(config, OUTPUT),
        .gate_up = base + offset_in_layer(config, GATE),
        .down = base + offset_in_layer(config, DOWN),
        .norm_input = base + offset_in_layer(config, NORM_INPUT),
        .norm_middle = base + offset_in_layer(config, NORM_MIDDLE),
    };
}

dcpar_model_tensors dcpar_tensors_of_model(const dcpar_model_config *config, float *flat) {
    float *norm = flat + layer_offset(config, config->num_hidden_layers);
    return (dcpar_model_tensors){
        .embedding = flat,
        .norm = norm,
        .head = config->tie_word_embeddings ? flat : norm + config->hidden_size,
    };
}

int64_t dcpar_tensors_count(const dcpar_model_config *config) {
    return 2 + (int64_t)config->num_hidden_layers * LAYER_TENSORS + (config->tie_word_embeddings ? 0 : 1);
}

void dcpar_tensors_view(const dcpar_model_config *config, int64_t index, dcpar_tensor_view *view) {
    const int64_t in_layers = (int64_t)config->num_hidden_layers * LAYER_TENSORS;
    const int64_t norm = layer_offset(config, config->num_hidden_layers);
    *view = (dcpar_tensor_view){.rows = config->vocab_size, .columns = config->hidden_size};
    if (index == 0) {
        snprintf(view->name, sizeof view->name, "model.embed_tokens.weight");
    } else if (index <= in_layers) {
        const int64_t layer = (index - 1) / LAYER_TENSORS, which = (index - 1) % LAYER_TENSORS;
        const tensor t = layer_tensor(config, which);
        snprintf(view->name, sizeof view->name, "model.layers.%lld.%s", (long long)layer, t.name);
        view->offset = layer_offset(config, layer) + offset_in_layer(config, which);
        view->rows = t.rows;
        view->columns = t.columns;
    } else if (index == in_layers + 1) {
        snprintf(view->name, sizeof view->name, "model.norm.weight");
        view->offset = norm;
        view->rows = config->hidden_size;
        view->columns = 0;
    } else {
        snprintf(view->name, sizeof view->name, "lm_head.weight");
        view->offset = norm + config->hidden_size;
    }
}

/* Box-Muller: two normal values of each pair of uniform ones. Values depend on seed, tensor and place alone. */
static void fill_normal(uint64_t seed, uint64_t stream, double deviation, float *values, int64_t count) {
    const double two_pi = 6.283185307179586;
    for (int64_t i = 0; i < count; i += 2) {
        const double u = 1.0 - dcpar_random_unit(seed, stream, (uint64_t)i);
        const double angle = two_pi * dcpar_random_unit(seed, stream, (uint64_t)i + 1);
        const double radius = deviation * sqrt(-2.0 * log(u));
        values[i] = (float)(radius * cos(angle));
        if (i + 1 < count) values[i + 1] = (float)(radius * sin(angle));
    }
}

static bool enters_residual_stream(const dcpar_model_config *config, int64_t index) {
    const int64_t which = (index - 1) % LAYER_TENSORS;
    const bool in_layer = index >= 1 && index <= (int64_t)config->num_hidden_layers * LAYER_TENSORS;
    return in_layer && (which == OUTPUT || which == DOWN);
}

void dcpar_tensors_initialise(const dcpar_model_config *config, float *flat, uint64_t seed) {
    for (int64_t index = 0; index < dcpar_tensors_count(config); ++index) {
        dcpar_tensor_view view;
        dcpar_tensors_view(config, index, &view);
        float *values = flat + view.offset;
        if (view.columns == 0) {
            for (int64_t i = 0; i < view.rows; ++i) values[i] = 1.0f;
            continue;
        }
        const double narrower = enters_residual_stream(config, index) ? sqrt(2.0 * config->num_hidden_layers) : 1.0;
        fill_normal(seed, (uint64_t)index, WEIGHT_DEVIATION / narrower, values, view.rows * view.columns);
    }
}

dcpar_status dcpar_model_config_check(const dcpar_model_config *c, dcpar_error *error) {
    const struct {
        const char *name;
        int64_t value;
    } positive[] = {
        {"hidden_size", c->hidden_size},
        {"intermediate_size", c->intermediate_size},
        {"vocab_size", c->vocab_size},
        {"num_hidden_layers", c->num_hidden_layers},
        {"num_attention_heads", c->num_attention_heads},
        {"num_key_value_heads", c->num_key_value_heads},
        {"head_dim", c->head_dim},
    };
    for (size_t i = 0; i < sizeof positive / sizeof *positive; ++i)
        if (positive[i].value <= 0)
            return dcpar_fail(error, DCPAR_INVALID, "the model's %s is %lld; it has to be positive", positive[i].name,
                              (long long)positive[i].value);
    if (c->head_dim % 2 != 0)
        return dcpar_fail(error, DCPAR_INVALID, "the model's head_dim %d is odd; rotary positions pair its elements",
                          c->head_dim);
    if (c->num_attention_heads % c->num_key_value_heads != 0)
        return dcpar_fail(error, DCPAR_INVALID,
                          "the model's num_attention_heads %d is not a multiple of its num_key_value_heads %d",
                          c->num_attention_heads, c->num_key_value_heads);
    if (!(c->rope_theta > 0.0) || !isfinite(c->rope_theta))
        return dcpar_fail(error, DCPAR_INVALID, "the model's rope_theta %g is not positive", c->rope_theta);
    if (!(c->rms_norm_eps > 0.0) || !isfinite(c->rms_norm_eps))
        return dcpar_fail(error, DCPAR_INVALID, "the model's rms_norm_eps %g is not positive", c->rms_norm_eps);
    return DCPAR_OK;
}
