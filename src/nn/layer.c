#include "nn/layer.h"

#include <string.h>

#include "base/error.h"
#include "comm/ulysses.h"

void dcpar_linear_forward(const dcpar_pass *pass, int64_t rows, int64_t inputs, int64_t outputs, const float *x,
                          const float *weight, float *y, bool add) {
    pass->device->multiply(&(dcpar_product){.m = rows,
                                            .n = outputs,
                                            .k = inputs,
                                            .a = x,
                                            .lda = inputs,
                                            .b = weight,
                                            .ldb = inputs,
                                            .b_transposed = true,
                                            .c = y,
                                            .ldc = outputs,
                                            .add = add,
                                            .scratch = pass->space.scratch});
}

void dcpar_linear_input_gradient(const dcpar_pass *pass, int64_t rows, int64_t inputs, int64_t outputs, const float *dy,
                                 const float *weight, float *dx) {
    pass->device->multiply(&(dcpar_product){.m = rows,
                                            .n = inputs,
                                            .k = outputs,
                                            .a = dy,
                                            .lda = outputs,
                                            .b = weight,
                                            .ldb = inputs,
                                            .c = dx,
                                            .ldc = inputs,
                                            .scratch = pass->space.scratch});
}

void dcpar_linear_weight_gradient(const dcpar_pass *pass, int64_t rows, int64_t inputs, int64_t outputs,
                                  const float *dy, const float *x, float *d_weight) {
    pass->device->multiply(&(dcpar_product){.m = outputs,
                                            .n = inputs,
                                            .k = rows,
                                            .a = dy,
                                            .lda = outputs,
                                            .a_transposed = true,
                                            .b = x,
                                            .ldb = inputs,
                                            .c = d_weight,
                                            .ldc = inputs,
                                            .add = true,
                                            .scratch = pass->space.scratch});
}

/* Sizes by short names. */
typedef struct sizes {
    int64_t rows, hidden, inner, heads, kv_heads, head_dim, q, kv;
} sizes;

static sizes sizes_of(const dcpar_pass *pass) {
    const dcpar_model_config *config = pass->shape.config;
    const int64_t heads = config->num_attention_heads, kv_heads = config->num_key_value_heads;
    return (sizes){.rows = pass->shape.local,
                   .hidden = config->hidden_size,
                   .inner = config->intermediate_size,
                   .heads = heads,
                   .kv_heads = kv_heads,
                   .head_dim = config->head_dim,
                   .q = heads * config->head_dim,
                   .kv = kv_heads * config->head_dim};
}

static void norm(const dcpar_pass *pass, const float *input, const float *weight) {
    const dcpar_model_config *config = pass->shape.config;
    pass->device->norm_forward(pass->shape.local, config->hidden_size, config->rms_norm_eps, input, weight,
                               pass->space.normed);
}

/* Takes space.normed, the gradient of a norm's output, back into the residual stream's. */
static void norm_gradient(const dcpar_pass *pass, const float *input, const float *weight, float *d_weight) {
    const dcpar_model_config *config = pass->shape.config;
    pass->device->norm_backward(pass->shape.local, config->hidden_size, config->rms_norm_eps, input, weight,
                                pass->space.normed, pass->space.stream, d_weight);
}

/* ------------------------------------------------------------------------------------------------- exchanges */

static dcpar_status to_heads(const dcpar_pass *pass, const float *mine, float *all, int64_t heads, int64_t width,
                             dcpar_error *error) {
    return dcpar_ulysses_to_heads(pass->group, pass->arena, mine, all, pass->shape.local, heads, width, error);
}

static dcpar_status to_tokens(const dcpar_pass *pass, const float *all, float *mine, int64_t heads, int64_t width,
                              dcpar_error *error) {
    return dcpar_ulysses_to_tokens(pass->group, pass->arena, all, mine, pass->shape.local, heads, width, error);
}

/* ------------------------------------------------------------------------------------------------- attention */

static dcpar_attention attention_of(const dcpar_pass *pass, const dcpar_layer_activations *kept, float *scratch) {
    const dcpar_sizes *shape = &pass->shape;
    return (dcpar_attention){.total = shape->total,
                             .sequences = pass->sequences,
                             .starts = pass->starts,
                             .heads = shape->heads,
                             .kv_heads = shape->kv_heads,
                             .head_dim = shape->config->head_dim,
                             .q = kept->q,
                             .k = kept->k,
                             .v = kept->v,
                             .scratch = scratch};
}

/* space.normed -> kept's q, k, v, log_sum and attended. */
static dcpar_status attention_forward(const dcpar_pass *pass, const dcpar_layer_tensors *weights,
                                      dcpar_layer_activations *kept, dcpar_error *error) {
    const sizes n = sizes_of(pass);
    const dcpar_workspace *space = &pass->space;
    const bool exchange = pass->shape.ranks > 1;
    float *q = exchange ? space->attention.q : kept->q;
    float *k = exchange ? space->attention.k : kept->k;
    float *v = exchange ? space->attention.v : kept->v;
    dcpar_linear_forward(pass, n.rows, n.hidden, n.q + 2 * n.kv, space->normed, weights->qkv, space->attention.qkv,
                         false);
    pass->device->rotate_split(n.rows, n.heads, n.kv_heads, n.head_dim, space->rotation, space->attention.qkv, q, k, v);
    if (exchange) {
        DCPAR_TRY(to_heads(pass, q, kept->q, n.heads, n.head_dim, error));
        DCPAR_TRY(to_heads(pass, k, kept->k, n.kv_heads, n.head_dim, error));
        DCPAR_TRY(to_heads(pass, v, kept->v, n.kv_heads, n.head_dim, error));
    }
    const dcpar_attention attention = attention_of(pass, kept, space->attention.scratch);
    float *attended = exchange ? space->attention.attended : kept->attended;
    pass->device->attention_forward(&attention, attended, kept->log_sum);
    return exchange ? to_tokens(pass, attended, kept->attended, n.heads, n.head_dim, error) : DCPAR_OK;
}

/* space.stream, the gradient of middle -> dqkv, the gradient of queries, keys and values before their rotation. */
static dcpar_status attention_backward(const dcpar_pass *pass, const dcpar_layer_tensors *weights,
                                       dcpar_layer_activations *kept, dcpar_error *error) {
    const sizes n = sizes_of(pass);
    const dcpar_workspace *space = &pass->space;
    const bool exchange = pass->shape.ranks > 1;
    float *d_attended = space->attention_backward.d_attended, *delta = space->attention_backward.delta;
    float *dk = space->attention_backward.dk, *dv = space->attention_backward.dv;
    dcpar_linear_input_gradient(pass, n.rows, n.q, n.hidden, space->stream, weights->output, d_attended);
    pass->device->row_dots(n.rows * n.heads, n.head_dim, d_attended, kept->attended, delta);
    if (exchange) {
        DCPAR_TRY(to_heads(pass, d_attended, space->attention_backward.d_attended_heads, n.heads, n.head_dim, error));
        DCPAR_TRY(to_heads(pass, delta, space->attention_backward.delta_heads, n.heads, 1, error));
        d_attended = space->attention_backward.d_attended_heads;
        delta = space->attention_backward.delta_heads;
    }
    const dcpar_attention attention = attention_of(pass, kept, space->attention_backward.scratch);
    float *dq = kept->q; /* queries are not needed any more once their own gradient is known */
    pass->device->attention_backward(&attention, kept->log_sum, d_attended, delta, dq, dk, dv);
    if (exchange) {
        DCPAR_TRY(to_tokens(pass, dq, space->attention_backward.dq_tokens, n.heads, n.head_dim, error));
        DCPAR_TRY(to_tokens(pass, dk, space->attention_backward.dk_tokens, n.kv_heads, n.head_dim, error));
        DCPAR_TRY(to_tokens(pass, dv, space->attention_backward.dv_tokens, n.kv_heads, n.head_dim, error));
        dq = space->attention_backward.dq_tokens;
        dk = space->attention_backward.dk_tokens;
        dv = space->attention_backward.dv_tokens;
    }
    pass->device->rotate_merge(n.rows, n.heads, n.kv_heads, n.head_dim, space->rotation, dq, dk, dv,
                               space->attention_backward.dqkv);
    return DCPAR_OK;
}

/* ----------------------------------------------------------------------------------------------------- layer */

dcpar_status dcpar_layer_forward(dcpar_pass *pass, const dcpar_layer_tensors *weights, const float *input,
                                 dcpar_layer_activations *kept, float *output, dcpar_error *error) {
    const sizes n = sizes_of(pass);
    const size_t row_bytes = (size_t)(n.rows * n.hidden) * sizeof(float);
    norm(pass, input, weights->norm_input);
    DCPAR_TRY(attention_forward(pass, weights, kept, error));
    memcpy(kept->middle, input, row_bytes);
    dcpar_linear_forward(pass, n.rows, n.q, n.hidden, kept->attended, weights->output, kept->middle, true);

    norm(pass, kept->middle, weights->norm_middle);
    dcpar_linear_forward(pass, n.rows, n.hidden, 2 * n.inner, pass->space.normed, weights->gate_up, kept->gate_up,
                         false);
    if (output == NULL) return DCPAR_OK;
    pass->device->swiglu_forward(n.rows, n.inner, kept->gate_up, pass->space.swiglu.product);
    memcpy(output, kept->middle, row_bytes);
    dcpar_linear_forward(pass, n.rows, n.inner, n.hidden, pass->space.swiglu.product, weights->down, output, true);
    return DCPAR_OK;
}

static void swiglu_part_backward(const dcpar_pass *pass, const dcpar_layer_tensors *weights,
                                 const dcpar_layer_tensors *gradients, dcpar_layer_activations *kept) {
    const sizes n = sizes_of(pass);
    const dcpar_device *device = pass->device;
    float *product = pass->space.swiglu.product, *normed = pass->space.normed, *stream = pass->space.stream;
    device->swiglu_forward(n.rows, n.inner, kept->gate_up, product);
    dcpar_linear_weight_gradient(pass, n.rows, n.inner, n.hidden, stream, product, gradients->down);
    dcpar_linear_input_gradient(pass, n.rows, n.inner, n.hidden, stream, weights->down, product);
    device->swiglu_backward(n.rows, n.inner, kept->gate_up, product);

    norm(pass, kept->middle, weights->norm_middle);
    dcpar_linear_weight_gradient(pass, n.rows, n.hidden, 2 * n.inner, kept->gate_up, normed, gradients->gate_up);
    dcpar_linear_input_gradient(pass, n.rows, n.hidden, 2 * n.inner, kept->gate_up, weights->gate_up, normed);
    norm_gradient(pass, kept->middle, weights->norm_middle, gradients->norm_middle);
}

dcpar_status dcpar_layer_backward(dcpar_pass *pass, const dcpar_layer_tensors *weights,
                                  const dcpar_layer_tensors *gradients, const float *input,
                                  dcpar_layer_activations *kept, dcpar_error *error) {
    const sizes n = sizes_of(pass);
    swiglu_part_backward(pass, weights, gradients, kept);

    const float *dqkv = pass->space.attention_backward.dqkv;
    float *normed = pass->space.normed;
    dcpar_linear_weight_gradient(pass, n.rows, n.q, n.hidden, pass->space.stream, kept->attended, gradients->output);
    DCPAR_TRY(attention_backward(pass, weights, kept, error));
    norm(pass, input, weights->norm_input);
    dcpar_linear_weight_gradient(pass, n.rows, n.hidden, n.q + 2 * n.kv, dqkv, normed, gradients->qkv);
    dcpar_linear_input_gradient(pass, n.rows, n.hidden, n.q + 2 * n.kv, dqkv, weights->qkv, normed);
    norm_gradient(pass, input, weights->norm_input, gradients->norm_input);
    return DCPAR_OK;
}
