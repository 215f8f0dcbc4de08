#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/safetensors.h"

static const char *const moment_names[2] = {"optimizer.first_moment", "optimizer.second_moment"};
#define PLANNER_NAME "planner.state"

/* The tensors of the file: planner state, the model's, the two moments. */
typedef struct layout {
    dcpar_safetensor *tensors;
    dcpar_tensor_view *views; /* of the model's tensors: tensors[1 + i] */
    int64_t model_count, count, parameters;
} layout;

static void free_layout(layout *layout) {
    free(layout->tensors);
    free(layout->views);
}

static dcpar_status make_layout(const dcpar_transformer *model, int64_t state_count, layout *layout,
                                dcpar_error *error) {
    memset(layout, 0, sizeof *layout);
    layout->model_count = dcpar_transformer_tensor_count(model);
    layout->count = layout->model_count + 3;
    layout->tensors = calloc((size_t)layout->count, sizeof *layout->tensors);
    layout->views = calloc((size_t)layout->model_count, sizeof *layout->views);
    if (layout->tensors == NULL || layout->views == NULL) {
        free_layout(layout);
        return dcpar_fail_memory(error, "the list of tensors");
    }
    layout->tensors[0] = (dcpar_safetensor){PLANNER_NAME, DCPAR_SAFETENSOR_I64, 1, {state_count}};
    for (int64_t i = 0; i < layout->model_count; ++i) {
        dcpar_tensor_view *view = &layout->views[i];
        dcpar_transformer_tensor(model, i, view);
        layout->tensors[1 + i] = (dcpar_safetensor){
            view->name, DCPAR_SAFETENSOR_F32, view->columns > 0 ? 2 : 1, {view->rows, view->columns}};
        const int64_t end = view->offset + view->rows * (view->columns > 0 ? view->columns : 1);
        if (end > layout->parameters) layout->parameters = end;
    }
    for (int i = 0; i < 2; ++i)
        layout->tensors[1 + layout->model_count + i] =
            (dcpar_safetensor){moment_names[i], DCPAR_SAFETENSOR_F32, 1, {layout->parameters}};
    return DCPAR_OK;
}

static int64_t values_of(const dcpar_tensor_view *view) { return view->rows * (view->columns > 0 ? view->columns : 1); }

/* ------------------------------------------------------------------------------------------------- save */

static dcpar_status begin_file(const char *path, const layout *layout, const dcpar_engine *engine,
                               const dcpar_run_identity *identity, int64_t trained, const int64_t *state,
                               dcpar_safetensors_writer **writer, dcpar_error *error) {
    char numbers[6][32];
    snprintf(numbers[0], sizeof numbers[0], "%" PRId64, dcpar_engine_iteration(engine));
    snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, identity->seed);
    snprintf(numbers[2], sizeof numbers[2], "%" PRIu64, identity->data);
    snprintf(numbers[3], sizeof numbers[3], "%" PRId64, identity->sequences);
    snprintf(numbers[4], sizeof numbers[4], "%" PRId64, identity->tokens);
    snprintf(numbers[5], sizeof numbers[5], "%" PRId64, trained);
    const dcpar_safetensors_text metadata[] = {{"format", "pt"},
                                               {"dcpar.model", identity->model},
                                               {"dcpar.iteration", numbers[0]},
                                               {"dcpar.seed", numbers[1]},
                                               {"dcpar.data", numbers[2]},
                                               {"dcpar.sequences", numbers[3]},
                                               {"dcpar.tokens", numbers[4]},
                                               {"dcpar.trained_tokens", numbers[5]},
                                               {"dcpar.version", DCPAR_VERSION}};
    DCPAR_TRY(dcpar_safetensors_create(path, layout->tensors, layout->count, metadata,
                                       sizeof metadata / sizeof metadata[0], writer, error));
    return dcpar_safetensors_append(*writer, state, dcpar_safetensor_bytes(&layout->tensors[0]), error);
}

static dcpar_status append_model(const layout *layout, const float *parameters, dcpar_safetensors_writer *writer,
                                 dcpar_error *error) {
    for (int64_t i = 0; i < layout->model_count; ++i)
        DCPAR_TRY(dcpar_safetensors_append(writer, parameters + layout->views[i].offset,
                                           values_of(&layout->views[i]) * (int64_t)sizeof(float), error));
    return DCPAR_OK;
}

dcpar_status dcpar_checkpoint_save(const char *path, dcpar_comm *world, dcpar_engine *engine,
                                   const dcpar_transformer *model, const dcpar_planner *planner,
                                   const dcpar_run_identity *identity, int64_t trained, dcpar_error *error) {
    const bool writes = dcpar_comm_rank(world) == 0;
    layout layout;
    int64_t *state = malloc(DCPAR_STATE_MAX * sizeof *state);
    if (state == NULL) return dcpar_fail_memory(error, "the planner's state");
    dcpar_safetensors_writer *writer = NULL;
    dcpar_status status = make_layout(model, dcpar_planner_state(planner, state), &layout, error);
    if (status != DCPAR_OK) {
        free(state);
        return status;
    }
    if (writes) {
        status = begin_file(path, &layout, engine, identity, trained, state, &writer, error);
        if (status == DCPAR_OK) status = append_model(&layout, dcpar_engine_parameters(engine), writer, error);
    }
    for (int i = 0; i < 2 && status == DCPAR_OK; ++i) {
        status = dcpar_engine_gather_moment(engine, i, error);
        if (status == DCPAR_OK && writes)
            status = dcpar_safetensors_append(writer, dcpar_engine_gradients(engine),
                                              layout.parameters * (int64_t)sizeof(float), error);
    }
    if (writes && status == DCPAR_OK)
        status = dcpar_safetensors_commit(writer, error);
    else
        dcpar_safetensors_abandon(writer);
    free_layout(&layout);
    free(state);
    if (status != DCPAR_OK) return status;
    return dcpar_comm_barrier(world, error);
}

/* ------------------------------------------------------------------------------------------------- load */

static uint64_t number_of(const dcpar_safetensors *file, const char *key) {
    const char *text = dcpar_safetensors_metadata(file, key);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static dcpar_status check_identity(const dcpar_safetensors *file, const dcpar_run_identity *identity,
                                   dcpar_error *error) {
    const char *model = dcpar_safetensors_metadata(file, "dcpar.model");
    if (model == NULL) return dcpar_fail(error, DCPAR_INVALID, "it is not a checkpoint of dcpar train");
    if (strcmp(model, identity->model) != 0)
        return dcpar_fail(error, DCPAR_MISMATCH, "its model is \"%s\", not \"%s\"", model, identity->model);
    if (number_of(file, "dcpar.seed") != identity->seed)
        return dcpar_fail(error, DCPAR_MISMATCH, "its seed is %" PRIu64 ", not %" PRIu64, number_of(file, "dcpar.seed"),
                          identity->seed);
    if (number_of(file, "dcpar.data") == identity->data) return DCPAR_OK;
    return dcpar_fail(
        error, DCPAR_MISMATCH,
        "the data has changed: there were %" PRIu64 " sequences of %" PRIu64 " tokens together, now there "
        "are %" PRId64 " of %" PRId64 "%s",
        number_of(file, "dcpar.sequences"), number_of(file, "dcpar.tokens"), identity->sequences, identity->tokens,
        number_of(file, "dcpar.sequences") == (uint64_t)identity->sequences ? " (lengths differ)" : "");
}

static dcpar_status load_planner(const dcpar_safetensors *file, dcpar_planner *planner, dcpar_error *error) {
    const int64_t index = dcpar_safetensors_find(file, PLANNER_NAME);
    if (index < 0) return dcpar_fail(error, DCPAR_INVALID, "it has no tensor \"%s\"", PLANNER_NAME);
    const dcpar_safetensor *tensor = dcpar_safetensors_at(file, index);
    if (tensor->type != DCPAR_SAFETENSOR_I64 || tensor->dimensions != 1 || tensor->shape[0] > DCPAR_STATE_MAX)
        return dcpar_fail(error, DCPAR_INVALID, "tensor \"%s\" is not a planner's state", PLANNER_NAME);
    int64_t *state = malloc(DCPAR_STATE_MAX * sizeof *state);
    if (state == NULL) return dcpar_fail_memory(error, "the planner's state");
    dcpar_status status = dcpar_safetensors_read(file, index, 0, tensor->shape[0], state, error);
    if (status == DCPAR_OK) status = dcpar_planner_restore(planner, state, (int32_t)tensor->shape[0], error);
    free(state);
    return status;
}

static dcpar_status load_tensor(const dcpar_safetensors *file, const dcpar_safetensor *tensor, int64_t count,
                                float *values, dcpar_error *error) {
    int64_t index;
    DCPAR_TRY(dcpar_safetensors_require(file, tensor, &index, error));
    return dcpar_safetensors_read(file, index, 0, count, values, error);
}

static dcpar_status load(const dcpar_safetensors *file, const layout *layout, dcpar_engine *engine,
                         dcpar_planner *planner, const dcpar_run_identity *identity, dcpar_error *error) {
    DCPAR_TRY(check_identity(file, identity, error));
    DCPAR_TRY(load_planner(file, planner, error));
    for (int64_t i = 0; i < layout->model_count; ++i)
        DCPAR_TRY(load_tensor(file, &layout->tensors[1 + i], values_of(&layout->views[i]),
                              dcpar_engine_parameters(engine) + layout->views[i].offset, error));
    for (int i = 0; i < 2; ++i) {
        DCPAR_TRY(load_tensor(file, &layout->tensors[1 + layout->model_count + i], layout->parameters,
                              dcpar_engine_gradients(engine), error));
        dcpar_engine_restore_moment(engine, i);
    }
    dcpar_engine_set_iteration(engine, (int64_t)number_of(file, "dcpar.iteration"));
    return DCPAR_OK;
}

dcpar_status dcpar_checkpoint_load(const char *path, dcpar_comm *world, dcpar_engine *engine,
                                   const dcpar_transformer *model, dcpar_planner *planner,
                                   const dcpar_run_identity *identity, int64_t *trained, dcpar_error *error) {
    layout layout;
    dcpar_safetensors *file = NULL;
    DCPAR_TRY(dcpar_safetensors_open(path, &file, error));
    dcpar_status status = make_layout(model, 0, &layout, error);
    if (status == DCPAR_OK) {
        status = load(file, &layout, engine, planner, identity, error);
        free_layout(&layout);
        *trained = (int64_t)number_of(file, "dcpar.trained_tokens");
        if (status != DCPAR_OK) dcpar_fail_prefix(error, status, "%s", path);
    }
    dcpar_safetensors_close(file);
    if (status != DCPAR_OK) return status;
    return dcpar_comm_barrier(world, error);
}
