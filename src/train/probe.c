/* Profiling the reference model. */
#include "train/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "nn/device.h"
#include "nn/memory.h"
#include "train/batch.h"

/* ------------------------------------------------------------------------------------------------ subject */

/* The processor's name as Linux gives it. */
static void processor_name(char *name, size_t size) {
    snprintf(name, size, "processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL) return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(name, size, "%s", colon + 2);
        name[strcspn(name, "\n")] = '\0';
        break;
    }
    fclose(file);
}

void dcpar_device_text(char text[DCPAR_TEXT]) {
    char name[80];
    processor_name(name, sizeof name);
    snprintf(text, DCPAR_TEXT, "cpu %s, %s", name, dcpar_device_at(0)->name);
}

dcpar_profile_info dcpar_model_info(const dcpar_model *model, int32_t world, int64_t memory) {
    dcpar_profile_info info = {.method = "ulysses",
                               .version = DCPAR_VERSION,
                               .layers = model->config.num_hidden_layers,
                               .heads = model->config.num_attention_heads,
                               .kv_heads = model->config.num_key_value_heads,
                               .world = world,
                               .memory = memory,
                               .max_length = model->config.max_position_embeddings};
    memcpy(info.model, model->text, sizeof info.model);
    dcpar_device_text(info.device);
    return info;
}

dcpar_status dcpar_profile_belongs(const dcpar_profile *profile, const dcpar_profile_info *wanted, dcpar_error *error) {
    const dcpar_profile_info *info = dcpar_profile_get_info(profile);
    const struct {
        const char *what, *has, *wanted;
    } texts[] = {{"model", info->model, wanted->model},
                 {"device", info->device, wanted->device},
                 {"method", info->method, wanted->method},
                 {"version", info->version, wanted->version}};
    for (int i = 0; i < 4; ++i)
        if (strcmp(texts[i].has, texts[i].wanted) != 0)
            return dcpar_fail(error, DCPAR_MISMATCH, "the profile's %s is \"%s\", not \"%s\"", texts[i].what,
                              texts[i].has, texts[i].wanted);
    if (info->world != wanted->world)
        return dcpar_fail(error, DCPAR_MISMATCH, "the profile was measured on %d ranks, not %d", info->world,
                          wanted->world);
    return DCPAR_OK;
}

/* -------------------------------------------------------------------------------------------------- probe */

typedef struct model_probe {
    const dcpar_model *model;
    dcpar_model_config two_layers;
    int64_t memory, state_bytes; /* of a rank; and what parameters, gradients and optimizer of the full model take */
    float *parameters, *gradients;
    dcpar_transformer *transformer;
    dcpar_arena *arena;
    dcpar_batch batch;
} model_probe;

static void close_probe(model_probe *probe) {
    dcpar_batch_destroy(&probe->batch);
    dcpar_transformer_destroy(probe->transformer);
    dcpar_arena_destroy(probe->arena);
    free(probe->parameters);
    free(probe->gradients);
}

static dcpar_status open_probe(const dcpar_model *model, int32_t world, int64_t memory, model_probe *probe,
                               dcpar_error *error) {
    memset(probe, 0, sizeof *probe);
    probe->model = model;
    probe->two_layers = model->config;
    probe->two_layers.num_hidden_layers = 2;
    probe->memory = memory;
    probe->state_bytes = dcpar_engine_bytes(dcpar_transformer_parameter_count(&model->config), world);
    const size_t bytes =
        (size_t)(dcpar_transformer_parameter_count(&probe->two_layers) + 16) * sizeof(float) / 64 * 64 + 64;
    probe->parameters = aligned_alloc(64, bytes);
    probe->gradients = aligned_alloc(64, bytes);
    if (probe->parameters == NULL || probe->gradients == NULL) {
        close_probe(probe);
        return dcpar_fail_memory(error, "a model of two layers");
    }
    memset(probe->gradients, 0, bytes);
    /* Two whole layers can take more than a full model that recomputes; what fits is decided below, not by
     * this limit. */
    dcpar_status status = dcpar_arena_create(memory > INT64_MAX / 4 ? memory : 4 * memory, &probe->arena, error);
    if (status == DCPAR_OK)
        status = dcpar_transformer_create(&probe->two_layers, probe->parameters, probe->gradients, probe->arena,
                                          &probe->transformer, error);
    if (status != DCPAR_OK)
        close_probe(probe);
    else
        dcpar_transformer_initialise(probe->transformer, 0);
    return status;
}

/* Bytes of the full model with all layers recomputed, the least it can take. */
static int64_t least_bytes(const model_probe *probe, int64_t total, int32_t sp) {
    const dcpar_sizes shape = dcpar_sizes_of(&probe->model->config, dcpar_device_at(0), total, sp);
    const dcpar_memory_need need = dcpar_memory_of(&shape);
    const int64_t layers = probe->model->config.num_hidden_layers;
    return probe->state_bytes + dcpar_memory_peak(&need, layers, layers);
}

static dcpar_status measure(void *context, dcpar_comm *group, dcpar_profile_row *row, dcpar_error *error) {
    model_probe *probe = context;
    if (least_bytes(probe, row->batch * row->length, row->sp) > probe->memory)
        return dcpar_fail(error, DCPAR_DEVICE_MEMORY, "%d sequences of %lld tokens do not fit on %d ranks", row->batch,
                          (long long)row->length, row->sp);
    dcpar_tokens tokens;
    dcpar_layer_cost cost;
    DCPAR_TRY(dcpar_batch_fill_any(&probe->batch, probe->model->config.vocab_size, row->batch, row->length, row->sp,
                                   group != NULL ? dcpar_comm_rank(group) : 0, &tokens, error));
    DCPAR_TRY(dcpar_transformer_measure(probe->transformer, group, &tokens, &cost, error));
    row->forward = cost.forward;
    row->backward = cost.backward;
    row->constant_seconds = cost.constant_seconds;
    row->layer_bytes = cost.layer_bytes;
    row->input_bytes = cost.input_bytes;
    row->constant_bytes = cost.constant_bytes + probe->state_bytes;
    return DCPAR_OK;
}

/* The longest sequence that fits on any legal size, below the model's limit. */
static int64_t longest_that_fits(const model_probe *probe, int32_t world) {
    int32_t sizes[64];
    const dcpar_model_config *config = &probe->model->config;
    const int32_t count = dcpar_legal_sizes(world, config->num_attention_heads, config->num_key_value_heads, sizes);
    int64_t longest = 0;
    for (int32_t i = 0; i < count; ++i) {
        int64_t fits = 0, does_not = config->max_position_embeddings + 1;
        while (does_not - fits > 1) {
            const int64_t middle = fits + (does_not - fits) / 2;
            if (least_bytes(probe, (middle + sizes[i] - 1) / sizes[i] * sizes[i], sizes[i]) <= probe->memory)
                fits = middle;
            else
                does_not = middle;
        }
        if (fits > longest) longest = fits;
    }
    return longest;
}

/* Seconds of one optimizer step of the full model: the second of two, since the first one touches new memory. */
static dcpar_status measure_step(dcpar_comm *world, const dcpar_model *model, double *seconds, dcpar_error *error) {
    dcpar_engine_options options = DCPAR_ENGINE_OPTIONS_INIT;
    dcpar_engine *engine = NULL;
    dcpar_result result = {0};
    DCPAR_TRY(
        dcpar_engine_create(world, NULL, dcpar_transformer_parameter_count(&model->config), &options, &engine, error));
    dcpar_status status = DCPAR_OK;
    for (int i = 0; i < 2 && status == DCPAR_OK; ++i) status = dcpar_engine_step(engine, &result, error);
    *seconds = result.step_seconds;
    dcpar_engine_destroy(engine);
    return status;
}

dcpar_status dcpar_model_profile(dcpar_comm *world, const dcpar_model *model, int64_t memory,
                                 const dcpar_measure_options *options, dcpar_profile **out, dcpar_error *error) {
    model_probe probe;
    const int32_t ranks = dcpar_comm_size(world);
    DCPAR_TRY(open_probe(model, ranks, memory, &probe, error));
    dcpar_measure_options all = *options;
    const int64_t longest = longest_that_fits(&probe, ranks);
    dcpar_profile_info info = dcpar_model_info(model, ranks, memory);
    dcpar_status status = DCPAR_OK;
    if (longest == 0) {
        status =
            dcpar_fail(error, DCPAR_TOO_LONG,
                       "not even one token fits into %lld bytes a rank: parameters, gradients and optimizer take %lld",
                       (long long)memory, (long long)probe.state_bytes);
    }
    if (all.longest == 0 || all.longest > longest) all.longest = longest;
    if (all.shortest > all.longest) all.shortest = all.longest;
    const dcpar_probe callbacks = {&probe, measure};
    if (status == DCPAR_OK) status = measure_step(world, model, &info.step_seconds, error);
    if (status == DCPAR_OK) status = dcpar_profile_measure(world, &callbacks, &info, &all, out, error);
    close_probe(&probe);
    return status;
}
