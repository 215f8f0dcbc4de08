/* Transformer-1D, the reference model: a decoder as current language models have it.
 *
 *     x = embedding[token];  L times: x += attention(norm(x)); x += swiglu(norm(x));  logits = norm(x) head
 *
 * RMSNorm, rotary positions, grouped key-value heads, causal attention that never stores an s x s matrix, SwiGLU,
 * cross-entropy. Everything is fp32. A micro-batch is a row of tokens cut into sequences by `starts`; a group of p
 * ranks cuts the row into p equal parts, and Ulysses' all-to-all turns (part of the tokens, all heads) into (all
 * tokens, part of the heads) around attention (Jacobs et al., 2023).
 *
 * Gradients are sums over loss tokens, not means: whoever steps the optimizer divides by the iteration's loss tokens
 * (DESIGN rule 1). With p > 1 each rank adds the gradient of its own part of the tokens, so that the sum over all
 * ranks of the world is the gradient of the iteration. */
#ifndef DCPAR_NN_TRANSFORMER_H
#define DCPAR_NN_TRANSFORMER_H

#include "base/arena.h"
#include "dcpar.h"
#include "dcpar_run.h"

/* Named as in a Hugging Face config.json. */
typedef struct dcpar_model_config {
    int64_t hidden_size, intermediate_size, vocab_size, max_position_embeddings;
    int32_t num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim;
    double rope_theta, rms_norm_eps;
    bool tie_word_embeddings;
} dcpar_model_config;

/* One micro-batch as one rank of its group sees it. */
typedef struct dcpar_tokens {
    int64_t total;           /* tokens of the whole row, padding included: a multiple of the group's size */
    int64_t sequences;       /* number of sequences in the row */
    const int64_t *starts;   /* [sequences + 1] first token of each sequence in the whole row; starts[0] = 0. Tokens
                                from starts[sequences] to total are padding that belongs to no sequence: whatever
                                stands there changes neither loss nor gradient */
    const int32_t *input;    /* [total / p] this rank's token ids */
    const int32_t *target;   /* [total / p] what each predicts; negative: no loss there (padding, last token) */
    const int32_t *position; /* [total / p] place in its sequence, for the rotary embedding */
    const float *weight;     /* [total / p] what the loss there is multiplied by; NULL: 1 everywhere */
} dcpar_tokens;

typedef struct dcpar_transformer dcpar_transformer;

/* How many parameters (and so floats of gradient) a model with config->num_hidden_layers layers has. */
int64_t dcpar_transformer_parameter_count(const dcpar_model_config *config);

/* A model over `parameters` and `gradients`, both [dcpar_transformer_parameter_count(config)] floats owned by the
 * caller, 64-byte aligned; nothing is initialised. Activations come from `arena` when a micro-batch runs. */
dcpar_status dcpar_transformer_create(const dcpar_model_config *config, float *parameters, float *gradients,
                                      dcpar_arena *arena, dcpar_transformer **out, dcpar_error *error);
void dcpar_transformer_destroy(dcpar_transformer *model);

/* Fills the parameters from `seed` alone: the same weights for any number of ranks. Normal(0, 0.02), the two
 * projections back into the residual stream divided by sqrt(2 L); norms are one. */
void dcpar_transformer_initialise(dcpar_transformer *model, uint64_t seed);

/* The named tensors inside the flat parameters, in order, with Hugging Face (Llama) names and shapes: for
 * checkpoints. */
typedef struct dcpar_tensor_view {
    char name[96];
    int64_t offset, rows, columns; /* columns is 0 for a vector of `rows` */
} dcpar_tensor_view;
int64_t dcpar_transformer_tensor_count(const dcpar_transformer *model);
void dcpar_transformer_tensor(const dcpar_transformer *model, int64_t index, dcpar_tensor_view *view);

/* Forward and backward of one micro-batch, the first `recompute` of the L layers recomputed in the backward pass.
 * Adds to the gradients; *loss_sum and *loss_tokens are this rank's part (sums, not means).
 * `group` may be NULL for p = 1. DCPAR_DEVICE_MEMORY when the arena's limit is reached: all ranks of the group alike,
 * before any exchange, with gradients then undefined. Collective over `group`. */
dcpar_status dcpar_transformer_run(dcpar_transformer *model, dcpar_comm *group, const dcpar_tokens *tokens,
                                   int32_t recompute, double *loss_sum, int64_t *loss_tokens, dcpar_error *error);

/* What the second layer of a two-layer model costs (the paper's dual-layer profile, section 3.5). */
typedef struct dcpar_layer_cost {
    double forward, backward; /* seconds of ONE layer; backward without recomputation */
    double constant_seconds;  /* seconds of everything else in the micro-batch: embedding, head, loss */
    int64_t layer_bytes;      /* m: what one layer keeps when it is not recomputed, its input not counted */
    int64_t input_bytes;      /* m_inp: one layer's input */
    int64_t constant_bytes;   /* activations and buffers outside: peak of the arena - L m_inp - (L - r) m, r < L;
                                 bytes reserved in the arena are not counted in */
} dcpar_layer_cost;

/* Runs one micro-batch on a model that has two layers, nothing recomputed, and measures. Collective over `group`. */
dcpar_status dcpar_transformer_measure(dcpar_transformer *two_layers, dcpar_comm *group, const dcpar_tokens *tokens,
                                       dcpar_layer_cost *cost, dcpar_error *error);

#endif
