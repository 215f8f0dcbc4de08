#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "nn/transformer.h"

#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "nn/ends.h"

struct dcpar_transformer {
    dcpar_model_config config;
    float *parameters, *gradients;
    dcpar_arena *arena;
    const dcpar_device *device;
};

/* Seconds of each layer, when somebody wants them. */
typedef struct stopwatch {
    double *forward, *backward; /* [layers] */
} stopwatch;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

dcpar_status dcpar_transformer_create(const dcpar_model_config *config, float *parameters, float *gradients,
                                      dcpar_arena *arena, dcpar_transformer **out, dcpar_error *error) {
    DCPAR_TRY(dcpar_model_config_check(config, error));
    dcpar_transformer *model = malloc(sizeof *model);
    if (model == NULL) return dcpar_fail_memory(error, "a model");
    *model = (dcpar_transformer){.config = *config,
                                 .parameters = parameters,
                                 .gradients = gradients,
                                 .arena = arena,
                                 .device = dcpar_device_at(0)};
    *out = model;
    return DCPAR_OK;
}

void dcpar_transformer_destroy(dcpar_transformer *model) { free(model); }

void dcpar_transformer_initialise(dcpar_transformer *model, uint64_t seed) {
    dcpar_tensors_initialise(&model->config, model->parameters, seed);
}

int64_t dcpar_transformer_tensor_count(const dcpar_transformer *model) { return dcpar_tensors_count(&model->config); }

void dcpar_transformer_tensor(const dcpar_transformer *model, int64_t index, dcpar_tensor_view *view) {
    dcpar_tensors_view(&model->config, index, view);
}

/* ------------------------------------------------------------------------------------------- what is refused */

static int32_t ranks_of(const dcpar_comm *group) { return group == NULL ? 1 : dcpar_comm_size(group); }

static int32_t rank_of(const dcpar_comm *group) { return group == NULL ? 0 : dcpar_comm_rank(group); }

static dcpar_status check_split(const dcpar_model_config *config, int32_t ranks, const dcpar_tokens *tokens,
                                dcpar_error *error) {
    if (config->num_attention_heads % ranks != 0 || config->num_key_value_heads % ranks != 0)
        return dcpar_fail(error, DCPAR_ILLEGAL_SIZE,
                          "%d heads and %d key-value heads cannot be dealt to a group of %d ranks",
                          config->num_attention_heads, config->num_key_value_heads, ranks);
    if (tokens->total < 0 || tokens->total % ranks != 0)
        return dcpar_fail(error, DCPAR_INVALID, "a row of %lld tokens cannot be cut into %d equal parts",
                          (long long)tokens->total, ranks);
    if (tokens->sequences < 0 || tokens->starts[0] != 0)
        return dcpar_fail(error, DCPAR_INVALID, "the first of %lld sequences does not start at token 0",
                          (long long)tokens->sequences);
    for (int64_t i = 0; i < tokens->sequences; ++i)
        if (tokens->starts[i + 1] < tokens->starts[i] || tokens->starts[i + 1] > tokens->total)
            return dcpar_fail(error, DCPAR_INVALID, "sequence %lld goes from token %lld to %lld of a row of %lld",
                              (long long)i, (long long)tokens->starts[i], (long long)tokens->starts[i + 1],
                              (long long)tokens->total);
    return DCPAR_OK;
}

static dcpar_status check_tokens(const dcpar_model_config *config, const dcpar_tokens *tokens, int64_t live,
                                 dcpar_error *error) {
    for (int64_t i = 0; i < live; ++i) {
        if (tokens->input[i] < 0 || tokens->input[i] >= config->vocab_size || tokens->target[i] >= config->vocab_size)
            return dcpar_fail(error, DCPAR_INVALID,
                              "this rank's token %lld is %d with target %d; the vocabulary has %lld", (long long)i,
                              tokens->input[i], tokens->target[i], (long long)config->vocab_size);
        if (tokens->position[i] < 0)
            return dcpar_fail(error, DCPAR_INVALID, "this rank's token %lld has the negative position %d", (long long)i,
                              tokens->position[i]);
    }
    return DCPAR_OK;
}

/* One rank's limit may be tighter than another's, so the ranks agree before anything is exchanged. */
static dcpar_status agree_on_memory(dcpar_comm *group, const dcpar_arena *arena, int64_t need, dcpar_error *error) {
    const int64_t room = dcpar_arena_limit(arena) - dcpar_arena_used(arena);
    double fits = need <= room ? 1.0 : 0.0;
    if (ranks_of(group) > 1) DCPAR_TRY(dcpar_comm_all_reduce(group, &fits, 1, DCPAR_MIN, error));
    if (fits == 1.0) return DCPAR_OK;
    return dcpar_fail(error, DCPAR_DEVICE_MEMORY,
                      "the micro-batch needs %lld bytes on each rank; this rank has %lld of its %lld left%s",
                      (long long)need, (long long)room, (long long)dcpar_arena_limit(arena),
                      need <= room ? ", another rank of the group less" : "");
}

/* ------------------------------------------------------------------------------------------------------- run */

/* A layer's input and what it keeps, and the arena's top before they came. */
typedef struct layer_place {
    float *input;
    dcpar_layer_activations kept;
    int64_t mark;
} layer_place;

static float *push_input(const dcpar_pass *pass, layer_place *place) {
    place->mark = dcpar_arena_mark(pass->arena);
    place->input = dcpar_arena_push(pass->arena, dcpar_memory_of(&pass->shape).input);
    return place->input;
}

static void push_kept(const dcpar_pass *pass, layer_place *place) {
    const int64_t bytes = dcpar_memory_of(&pass->shape).layer;
    dcpar_layer_layout(&pass->shape, dcpar_arena_push(pass->arena, bytes), &place->kept);
}

static dcpar_status layers_forward(dcpar_transformer *model, dcpar_pass *pass, layer_place *places, int32_t recompute,
                                   const stopwatch *watch, dcpar_error *error) {
    const int32_t layers = model->config.num_hidden_layers;
    for (int32_t i = 0; i < layers; ++i) {
        const double start = now();
        const dcpar_layer_tensors weights = dcpar_tensors_of_layer(&model->config, model->parameters, i);
        float *output = i + 1 < layers ? push_input(pass, &places[i + 1]) : pass->space.stream;
        const int64_t mark = dcpar_arena_mark(pass->arena);
        push_kept(pass, &places[i]);
        DCPAR_TRY(dcpar_layer_forward(pass, &weights, places[i].input, &places[i].kept, output, error));
        if (i < recompute) dcpar_arena_pop(pass->arena, mark);
        if (watch != NULL) watch->forward[i] = now() - start;
    }
    return DCPAR_OK;
}

static dcpar_status layers_backward(dcpar_transformer *model, dcpar_pass *pass, layer_place *places, int32_t recompute,
                                    const stopwatch *watch, dcpar_error *error) {
    const int32_t layers = model->config.num_hidden_layers;
    for (int32_t i = layers - 1; i >= 0; --i) {
        const double start = now();
        const dcpar_layer_tensors weights = dcpar_tensors_of_layer(&model->config, model->parameters, i);
        const dcpar_layer_tensors gradients = dcpar_tensors_of_layer(&model->config, model->gradients, i);
        if (i + 1 < layers && i < recompute) dcpar_arena_pop(pass->arena, places[i + 1].mark);
        if (i < recompute) {
            push_kept(pass, &places[i]);
            DCPAR_TRY(dcpar_layer_forward(pass, &weights, places[i].input, &places[i].kept, NULL, error));
        }
        DCPAR_TRY(dcpar_layer_backward(pass, &weights, &gradients, places[i].input, &places[i].kept, error));
        if (watch != NULL) watch->backward[i] = now() - start;
    }
    return DCPAR_OK;
}

static int64_t count_loss_tokens(const int32_t *target, int64_t live) {
    int64_t count = 0;
    for (int64_t i = 0; i < live; ++i) count += target[i] >= 0;
    return count;
}

/* Everything fits, as has been agreed: no push fails from here on. */
static dcpar_status run_in_arena(dcpar_transformer *model, dcpar_pass *pass, const dcpar_tokens *tokens,
                                 int32_t recompute, layer_place *places, const stopwatch *watch, double *loss_sum,
                                 dcpar_error *error) {
    const int64_t live = dcpar_live_tokens(pass, rank_of(pass->group));
    const dcpar_model_tensors weights = dcpar_tensors_of_model(&model->config, model->parameters);
    const dcpar_model_tensors gradients = dcpar_tensors_of_model(&model->config, model->gradients);
    void *workspace = dcpar_arena_push(pass->arena, dcpar_workspace_layout(&pass->shape, NULL, &pass->space));
    dcpar_workspace_layout(&pass->shape, workspace, &pass->space);

    dcpar_rotation_angles(pass, tokens->position, live);
    dcpar_embedding_forward(pass, weights.embedding, tokens->input, live, push_input(pass, &places[0]));
    DCPAR_TRY(layers_forward(model, pass, places, recompute, watch, error));
    *loss_sum = dcpar_loss(pass, &weights, &gradients, tokens, live);
    DCPAR_TRY(layers_backward(model, pass, places, recompute, watch, error));
    dcpar_embedding_backward(pass, tokens->input, live, gradients.embedding);
    return DCPAR_OK;
}

static dcpar_status run(dcpar_transformer *model, dcpar_comm *group, const dcpar_tokens *tokens, int32_t recompute,
                        const stopwatch *watch, double *loss_sum, int64_t *loss_tokens, dcpar_error *error) {
    const dcpar_model_config *config = &model->config;
    if (recompute < 0 || recompute > config->num_hidden_layers)
        return dcpar_fail(error, DCPAR_INVALID, "%d of %d layers cannot be recomputed", recompute,
                          config->num_hidden_layers);
    DCPAR_TRY(check_split(config, ranks_of(group), tokens, error));
    dcpar_pass pass = {
        .device = model->device,
        .group = group,
        .arena = model->arena,
        .shape = dcpar_sizes_of(config, model->device, tokens->total, ranks_of(group)),
        .starts = tokens->starts,
        .sequences = tokens->sequences,
    };
    const int64_t live = dcpar_live_tokens(&pass, rank_of(group));
    DCPAR_TRY(check_tokens(config, tokens, live, error));
    const dcpar_memory_need need = dcpar_memory_of(&pass.shape);
    DCPAR_TRY(
        agree_on_memory(group, model->arena, dcpar_memory_peak(&need, config->num_hidden_layers, recompute), error));

    layer_place *places = calloc((size_t)config->num_hidden_layers, sizeof *places);
    if (places == NULL) return dcpar_fail_memory(error, "the list of layers");
    const int64_t mark = dcpar_arena_mark(model->arena);
    const int threads = dcpar_device_threads(1);
    double loss = 0.0;
    const dcpar_status status = run_in_arena(model, &pass, tokens, recompute, places, watch, &loss, error);
    dcpar_device_threads(threads);
    dcpar_arena_pop(model->arena, mark);
    free(places);
    if (status != DCPAR_OK) return status;
    *loss_sum = loss;
    *loss_tokens = count_loss_tokens(tokens->target, live);
    return DCPAR_OK;
}

dcpar_status dcpar_transformer_run(dcpar_transformer *model, dcpar_comm *group, const dcpar_tokens *tokens,
                                   int32_t recompute, double *loss_sum, int64_t *loss_tokens, dcpar_error *error) {
    return run(model, group, tokens, recompute, NULL, loss_sum, loss_tokens, error);
}

/* --------------------------------------------------------------------------------------------------- measure */

/* The system gives pages when they are touched first, which takes longer than the work on them: a model that has run
 * before does not pay for it, so a measurement must not either. */
static void touch(void *memory, int64_t bytes) {
    volatile unsigned char *byte = memory;
    const int64_t step = 1024;
    for (int64_t i = 0; i < bytes; i += step) {
        const unsigned char value = byte[i];
        byte[i] = value;
    }
}

dcpar_status dcpar_transformer_measure(dcpar_transformer *model, dcpar_comm *group, const dcpar_tokens *tokens,
                                       dcpar_layer_cost *cost, dcpar_error *error) {
    const dcpar_model_config *config = &model->config;
    if (config->num_hidden_layers != 2)
        return dcpar_fail(error, DCPAR_INVALID, "a model of %d layers is not the two that are measured",
                          config->num_hidden_layers);
    DCPAR_TRY(check_split(config, ranks_of(group), tokens, error));
    const dcpar_sizes shape = dcpar_sizes_of(config, model->device, tokens->total, ranks_of(group));
    const dcpar_memory_need need = dcpar_memory_of(&shape);
    const int64_t mark = dcpar_arena_mark(model->arena), peak = dcpar_memory_peak(&need, 2, 0);
    void *activations = dcpar_arena_push(model->arena, peak);
    if (activations != NULL) touch(activations, peak); /* otherwise the run says on all ranks what is missing */
    dcpar_arena_pop(model->arena, mark);
    touch(model->gradients, dcpar_transformer_parameter_count(config) * (int64_t)sizeof(float));

    double forward[2], backward[2], loss;
    int64_t loss_tokens;
    const stopwatch watch = {.forward = forward, .backward = backward};
    const double start = now();
    DCPAR_TRY(run(model, group, tokens, 0, &watch, &loss, &loss_tokens, error));
    const double whole = now() - start;
    *cost = (dcpar_layer_cost){
        .forward = forward[1],   /* the second to run, */
        .backward = backward[0], /* in either direction */
        .constant_seconds = whole - forward[0] - forward[1] - backward[0] - backward[1],
        .layer_bytes = need.layer,
        .input_bytes = need.input,
        .constant_bytes = need.constant,
    };
    return DCPAR_OK;
}
