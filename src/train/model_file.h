/* The model: a Hugging Face config.json, or one of a few names. */
#ifndef DCPAR_TRAIN_MODEL_FILE_H
#define DCPAR_TRAIN_MODEL_FILE_H

#include "nn/transformer.h"

typedef struct dcpar_model {
    dcpar_model_config config;
    char text[DCPAR_TEXT]; /* for the fingerprint: everything that changes cost or memory, "llama h512 l8 ..." */
} dcpar_model;

/* Reads `path`, or takes the built-in model of that name. Keys of config.json that the model does not have are ignored;
 * optional are num_key_value_heads (num_attention_heads), head_dim (hidden_size / num_attention_heads), rope_theta
 * (10000), rms_norm_eps (1e-6), tie_word_embeddings (false). DCPAR_INVALID names the file and the key. Local. */
dcpar_status dcpar_model_read(const char *name_or_path, dcpar_model *out, dcpar_error *error);

/* Names of built-in models, NULL past the last. */
const char *dcpar_model_name(int32_t index);

#endif
