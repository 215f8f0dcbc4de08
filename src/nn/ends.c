#include "nn/ends.h"

#include <math.h>
#include <string.h>

int64_t dcpar_live_tokens(const dcpar_pass *pass, int32_t rank) {
    const int64_t live = pass->starts[pass->sequences] - rank * pass->shape.local;
    if (live < 0) return 0;
    return live < pass->shape.local ? live : pass->shape.local;
}

void dcpar_rotation_angles(const dcpar_pass *pass, const int32_t *position, int64_t live) {
    const int64_t head_dim = pass->shape.config->head_dim, half = head_dim / 2;
    float *rotation = pass->space.rotation;
    for (int64_t i = 0; i < half; ++i) {
        const double frequency = pow(pass->shape.config->rope_theta, -2.0 * (double)i / (double)head_dim);
        for (int64_t row = 0; row < live; ++row) {
            const double angle = frequency * position[row];
            rotation[row * head_dim + i] = (float)cos(angle);
            rotation[row * head_dim + half + i] = (float)sin(angle);
        }
    }
    memset(rotation + live * head_dim, 0, (size_t)((pass->shape.local - live) * head_dim) * sizeof *rotation);
}

void dcpar_embedding_forward(const dcpar_pass *pass, const float *embedding, const int32_t *input, int64_t live,
                             float *x) {
    const int64_t hidden = pass->shape.config->hidden_size;
    for (int64_t row = 0; row < live; ++row)
        memcpy(x + row * hidden, embedding + input[row] * hidden, (size_t)hidden * sizeof *x);
    memset(x + live * hidden, 0, (size_t)((pass->shape.local - live) * hidden) * sizeof *x);
}

void dcpar_embedding_backward(const dcpar_pass *pass, const int32_t *input, int64_t live, float *d_embedding) {
    const int64_t hidden = pass->shape.config->hidden_size;
    for (int64_t row = 0; row < live; ++row) {
        const float *restrict from = pass->space.stream + row * hidden;
        float *restrict to = d_embedding + input[row] * hidden;
        for (int64_t i = 0; i < hidden; ++i) to[i] += from[i];
    }
}

static double loss_of_chunk(const dcpar_pass *pass, const dcpar_model_tensors *weights,
                            const dcpar_model_tensors *gradients, const dcpar_tokens *tokens, int64_t first,
                            int64_t rows) {
    const dcpar_model_config *config = pass->shape.config;
    const dcpar_device *device = pass->device;
    const int64_t hidden = config->hidden_size, vocab = config->vocab_size;
    float *x = pass->space.stream + first * hidden, *normed = pass->space.normed;
    float *logits = pass->space.loss.logits, *d_x = pass->space.loss.d_stream;
    device->norm_forward(rows, hidden, config->rms_norm_eps, x, weights->norm, normed);
    dcpar_linear_forward(pass, rows, hidden, vocab, normed, weights->head, logits, false);
    const double loss = device->cross_entropy(rows, vocab, logits, tokens->target + first,
                                              tokens->weight != NULL ? tokens->weight + first : NULL);
    dcpar_linear_weight_gradient(pass, rows, hidden, vocab, logits, normed, gradients->head);
    dcpar_linear_input_gradient(pass, rows, hidden, vocab, logits, weights->head, normed);
    memset(d_x, 0, (size_t)(rows * hidden) * sizeof *d_x);
    device->norm_backward(rows, hidden, config->rms_norm_eps, x, weights->norm, normed, d_x, gradients->norm);
    memcpy(x, d_x, (size_t)(rows * hidden) * sizeof *x);
    return loss;
}

double dcpar_loss(const dcpar_pass *pass, const dcpar_model_tensors *weights, const dcpar_model_tensors *gradients,
                  const dcpar_tokens *tokens, int64_t live) {
    const int64_t chunk = pass->shape.chunk;
    double loss = 0.0;
    for (int64_t first = 0; first < live; first += chunk)
        loss += loss_of_chunk(pass, weights, gradients, tokens, first, live - first < chunk ? live - first : chunk);
    return loss;
}
