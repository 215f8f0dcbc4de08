/* Where each tensor lies in the flat parameters, and so in the flat gradients.
 *
 * The order is Hugging Face's: embedding, the layers, the last norm, the head (not there when it is tied to the
 * embedding). Query, key and value weights are neighbours, as are gate and up: each is one matrix product. */
#ifndef DCPAR_NN_TENSORS_H
#define DCPAR_NN_TENSORS_H

#include "nn/transformer.h"

/* One layer's tensors in the parameters or in the gradients. Weights are [outputs, inputs]. */
typedef struct dcpar_layer_tensors {
    float *qkv;         /* [(heads + 2 kv_heads) head_dim, hidden] */
    float *output;      /* [hidden, heads head_dim] */
    float *gate_up;     /* [2 intermediate, hidden] */
    float *down;        /* [hidden, intermediate] */
    float *norm_input;  /* [hidden] */
    float *norm_middle; /* [hidden] */
} dcpar_layer_tensors;

typedef struct dcpar_model_tensors {
    float *embedding; /* [vocab, hidden] */
    float *norm;      /* [hidden] */
    float *head;      /* [vocab, hidden]; the embedding when tied */
} dcpar_model_tensors;

dcpar_layer_tensors dcpar_tensors_of_layer(const dcpar_model_config *config, float *flat, int32_t layer);
dcpar_model_tensors dcpar_tensors_of_model(const dcpar_model_config *config, float *flat);

int64_t dcpar_tensors_count(const dcpar_model_config *config);
void dcpar_tensors_view(const dcpar_model_config *config, int64_t index, dcpar_tensor_view *view);

/* See dcpar_transformer_initialise. */
void dcpar_tensors_initialise(const dcpar_model_config *config, float *flat, uint64_t seed);

/* DCPAR_INVALID with the field that makes no model. */
dcpar_status dcpar_model_config_check(const dcpar_model_config *config, dcpar_error *error);

#endif
