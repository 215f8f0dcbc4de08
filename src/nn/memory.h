/* How much memory a micro-batch needs and where everything lies in it: pure functions of the shape.
 *
 * The arena during a micro-batch, from the bottom:
 *
 *     workspace | x_0 | x_1 | layer 0's | x_2 | layer 1's | ...      (x_i: input of layer i)
 *
 * What a recomputed layer keeps is popped again at once. The first layers are the recomputed ones, so the stack only
 * grows in the forward and only shrinks in the backward pass, and its peak is
 *
 *     M = L m_inp + max(L - r, 1) m + M_C
 *
 * to the byte: 1, since a recomputed layer's activations exist again while its backward runs. M_C is the workspace
 * and the scratch of exchanges, which is on top of the stack for a moment. Gradients of activations live in the
 * workspace. */
#ifndef DCPAR_NN_MEMORY_H
#define DCPAR_NN_MEMORY_H

#include "nn/device.h"
#include "nn/transformer.h"

/* One micro-batch on one rank of its group. */
typedef struct dcpar_sizes {
    const dcpar_model_config *config;
    int64_t total;                              /* tokens of the whole row */
    int64_t local;                              /* of this rank: total / ranks */
    int64_t ranks;                              /* p */
    int64_t heads, kv_heads;                    /* of this rank inside attention */
    int64_t chunk;                              /* tokens whose logits exist at one time */
    int64_t product_scratch, attention_scratch; /* floats */
} dcpar_sizes;

dcpar_sizes dcpar_sizes_of(const dcpar_model_config *config, const dcpar_device *device, int64_t total, int32_t ranks);

/* What a layer keeps from forward to backward besides its input. Inside attention all tokens of the row are there with
 * this rank's part of the heads. Norms and the product of gate and up are computed again from these. */
typedef struct dcpar_layer_activations {
    float *q;        /* [total, heads, head_dim] */
    float *k, *v;    /* [total, kv_heads, head_dim] */
    float *log_sum;  /* [heads, total] */
    float *attended; /* [local, all heads, head_dim] */
    float *middle;   /* [local, hidden] between attention and SwiGLU */
    float *gate_up;  /* [local, 2 intermediate] */
} dcpar_layer_activations;

/* Used again by every layer. Members of one of the phases overlap those of all other phases. */
typedef struct dcpar_workspace {
    float *stream;   /* [local, hidden] the last layer's output, then the gradient of the residual stream */
    float *normed;   /* [local, hidden] output of a norm, then its gradient */
    float *rotation; /* [local, head_dim] cosines and sines of the rotary angles */
    float *scratch;  /* [product_scratch] of matrix products */

    struct {
        float *scratch;
        float *q, *k, *v; /* [local, all heads, head_dim] before the exchange; NULL without one */
        float *qkv;       /* [local, all heads + 2 kv_heads, head_dim] */
        float *attended;  /* [total, heads, head_dim] before the exchange back, in qkv's place; NULL without one */
    } attention;
    struct {
        float *product; /* [local, intermediate] silu(gate) up, or its gradient */
    } swiglu;
    struct {
        float *scratch;
        float *d_attended;       /* [local, all heads, head_dim] */
        float *delta;            /* [local, all heads] */
        float *d_attended_heads; /* [total, heads, head_dim]; NULL without exchange, like the next */
        float *delta_heads;      /* [total, heads] */
        float *dk, *dv;          /* [total, kv_heads, head_dim] */
        float *dq_tokens;        /* [local, all heads, head_dim] in d_attended's place; NULL without exchange */
        float *dk_tokens, *dv_tokens;
        float *dqkv;
    } attention_backward;
    struct {
        float *logits;   /* [chunk, vocab] */
        float *d_stream; /* [chunk, hidden] */
    } loss;
} dcpar_workspace;

/* Bytes, and the pointers when `base` is not NULL. `out` may not be NULL. */
int64_t dcpar_layer_layout(const dcpar_sizes *shape, void *base, dcpar_layer_activations *out);
int64_t dcpar_workspace_layout(const dcpar_sizes *shape, void *base, dcpar_workspace *out);

/* m, m_inp and M_C of the formula above. */
typedef struct dcpar_memory_need {
    int64_t layer, input, constant;
} dcpar_memory_need;
dcpar_memory_need dcpar_memory_of(const dcpar_sizes *shape);

/* The formula. */
int64_t dcpar_memory_peak(const dcpar_memory_need *need, int64_t layers, int64_t recompute);

#endif
