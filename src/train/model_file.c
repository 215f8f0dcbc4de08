/* Reading the model's configuration. */
#include "train/model_file.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Small enough for a processor, over bytes. */
static const struct {
    const char *name;
    dcpar_model_config config;
} built_in[] = {
    {"tiny", {64, 176, 256, 65536, 2, 4, 4, 16, 10000, 1e-6, false}},
    {"demo", {128, 352, 256, 65536, 4, 4, 4, 32, 10000, 1e-6, false}},
    {"small", {512, 1408, 256, 65536, 8, 8, 8, 64, 10000, 1e-6, false}},
};
enum { BUILT_IN_COUNT = sizeof built_in / sizeof built_in[0] };

const char *dcpar_model_name(int32_t index) {
    return index >= 0 && index < BUILT_IN_COUNT ? built_in[index].name : NULL;
}

static dcpar_status read_integer(const json_t *root, const char *key, int64_t fallback, int64_t most, int64_t *out,
                                 dcpar_error *error) {
    const json_t *value = json_object_get(root, key);
    if (value == NULL || json_is_null(value)) {
        if (fallback <= 0) return dcpar_fail(error, DCPAR_INVALID, "\"%s\" is missing", key);
        *out = fallback;
        return DCPAR_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > most)
        return dcpar_fail(error, DCPAR_INVALID, "\"%s\" must be an integer from 1 to %lld", key, (long long)most);
    *out = json_integer_value(value);
    return DCPAR_OK;
}

static dcpar_status read_number(const json_t *root, const char *key, double fallback, double *out, dcpar_error *error) {
    const json_t *value = json_object_get(root, key);
    *out = value == NULL || json_is_null(value) ? fallback : json_number_value(value);
    if (value != NULL && !json_is_null(value) && (!json_is_number(value) || !(*out > 0)))
        return dcpar_fail(error, DCPAR_INVALID, "\"%s\" must be a positive number", key);
    return DCPAR_OK;
}

static dcpar_status read_config(const json_t *root, dcpar_model_config *config, dcpar_error *error) {
    const int64_t most = INT64_C(1) << 24;
    int64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
    if (!json_is_object(root)) return dcpar_fail(error, DCPAR_INVALID, "it is not a JSON object");
    DCPAR_TRY(read_integer(root, "hidden_size", 0, most, &config->hidden_size, error));
    DCPAR_TRY(read_integer(root, "intermediate_size", 0, most, &config->intermediate_size, error));
    DCPAR_TRY(read_integer(root, "vocab_size", 0, most, &config->vocab_size, error));
    DCPAR_TRY(
        read_integer(root, "max_position_embeddings", 0, DCPAR_LENGTH_MAX, &config->max_position_embeddings, error));
    DCPAR_TRY(read_integer(root, "num_hidden_layers", 0, 100000, &layers, error));
    DCPAR_TRY(read_integer(root, "num_attention_heads", 0, 100000, &heads, error));
    DCPAR_TRY(read_integer(root, "num_key_value_heads", heads, heads, &kv_heads, error));
    DCPAR_TRY(read_integer(root, "head_dim", config->hidden_size / heads, most, &head_dim, error));
    if (heads % kv_heads != 0)
        return dcpar_fail(error, DCPAR_INVALID,
                          "\"num_attention_heads\" (%lld) is not a multiple of \"num_key_value_heads\" (%lld)",
                          (long long)heads, (long long)kv_heads);
    if (head_dim % 2 != 0)
        return dcpar_fail(error, DCPAR_INVALID, "\"head_dim\" is %lld; rotary positions need an even one",
                          (long long)head_dim);
    config->num_hidden_layers = (int32_t)layers;
    config->num_attention_heads = (int32_t)heads;
    config->num_key_value_heads = (int32_t)kv_heads;
    config->head_dim = (int32_t)head_dim;
    DCPAR_TRY(read_number(root, "rope_theta", 10000, &config->rope_theta, error));
    DCPAR_TRY(read_number(root, "rms_norm_eps", 1e-6, &config->rms_norm_eps, error));
    config->tie_word_embeddings = json_is_true(json_object_get(root, "tie_word_embeddings"));
    return DCPAR_OK;
}

static void describe(dcpar_model *model) {
    const dcpar_model_config *config = &model->config;
    snprintf(model->text, sizeof model->text,
             "transformer-1d hidden %lld ffn %lld layers %d heads %d/%d x %d vocab %lld%s",
             (long long)config->hidden_size, (long long)config->intermediate_size, config->num_hidden_layers,
             config->num_attention_heads, config->num_key_value_heads, config->head_dim, (long long)config->vocab_size,
             config->tie_word_embeddings ? " tied" : "");
}

dcpar_status dcpar_model_read(const char *name_or_path, dcpar_model *out, dcpar_error *error) {
    for (int32_t i = 0; i < BUILT_IN_COUNT; ++i)
        if (strcmp(name_or_path, built_in[i].name) == 0) {
            out->config = built_in[i].config;
            describe(out);
            return DCPAR_OK;
        }
    json_error_t problem;
    json_t *root = json_load_file(name_or_path, JSON_REJECT_DUPLICATES, &problem);
    if (root == NULL && problem.line < 0) {
        char names[200] = "";
        for (int32_t i = 0; i < BUILT_IN_COUNT; ++i) strcat(strcat(names, i > 0 ? ", " : ""), built_in[i].name);
        return dcpar_fail(error, DCPAR_INVALID, "model \"%s\" is neither a file that can be read nor one of %s",
                          name_or_path, names);
    }
    if (root == NULL)
        return dcpar_fail(error, DCPAR_INVALID, "%s: line %d: %s", name_or_path, problem.line, problem.text);
    const dcpar_status status = read_config(root, &out->config, error);
    json_decref(root);
    if (status != DCPAR_OK) return dcpar_fail_prefix(error, status, "%s", name_or_path);
    describe(out);
    return DCPAR_OK;
}
