#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/atomic_file.h"
#include "data/safetensors.h"

#define ALIGNMENT 8
#define METADATA_KEY "__metadata__"

struct dcpar_safetensors_writer {
    dcpar_atomic_file *file;
    char *path;
    json_t *header; /* kept for its names, in the order in which values come */
    int64_t bytes, appended;
};

static dcpar_status fail_header(const dcpar_safetensors_writer *writer, dcpar_error *error) {
    return dcpar_fail(error, DCPAR_NO_MEMORY, "the host has no memory for the header of %s", writer->path);
}

static dcpar_status add_metadata(dcpar_safetensors_writer *writer, const dcpar_safetensors_text *metadata,
                                 int64_t count, dcpar_error *error) {
    if (count == 0) return DCPAR_OK;
    json_t *texts = json_object();
    if (json_object_set_new(writer->header, METADATA_KEY, texts) != 0) return fail_header(writer, error);
    for (int64_t i = 0; i < count; ++i) {
        if (json_object_get(texts, metadata[i].key) != NULL)
            return dcpar_fail(error, DCPAR_INVALID, "%s: metadata '%s' is given twice", writer->path, metadata[i].key);
        if (json_object_set_new(texts, metadata[i].key, json_string(metadata[i].text)) != 0)
            return dcpar_fail(error, DCPAR_INVALID, "%s: metadata '%s' is not UTF-8", writer->path, metadata[i].key);
    }
    return DCPAR_OK;
}

static json_t *make_shape(const dcpar_safetensor *tensor) {
    json_t *shape = json_array();
    for (int32_t i = 0; i < tensor->dimensions; ++i) json_array_append_new(shape, json_integer(tensor->shape[i]));
    return shape;
}

static dcpar_status add_tensor(dcpar_safetensors_writer *writer, const dcpar_safetensor *tensor, dcpar_error *error) {
    const int64_t bytes = dcpar_safetensor_bytes(tensor), begin = writer->bytes;
    if (strcmp(tensor->name, METADATA_KEY) == 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s: no tensor may be called %s", writer->path, tensor->name);
    if (json_object_get(writer->header, tensor->name) != NULL)
        return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s is given twice", writer->path, tensor->name);
    if (bytes < 0 || bytes > INT64_MAX - begin)
        return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s has a shape that cannot be", writer->path, tensor->name);
    if (begin % dcpar_safetensor_type_bytes(tensor->type) != 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s would not be aligned: list %s tensors first",
                          writer->path, tensor->name, dcpar_safetensor_type_name(tensor->type));
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dcpar_safetensor_type_name(tensor->type), "shape",
                              make_shape(tensor), "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes));
    if (entry == NULL) return fail_header(writer, error);
    if (json_object_set_new(writer->header, tensor->name, entry) != 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s has a name that is not UTF-8", writer->path,
                          tensor->name);
    writer->bytes += bytes;
    return DCPAR_OK;
}

/* Size and text in one piece, the text padded so that data starts aligned. */
static dcpar_status write_header(const dcpar_safetensors_writer *writer, dcpar_error *error) {
    const size_t size = json_dumpb(writer->header, NULL, 0, JSON_COMPACT);
    const size_t padded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *bytes = malloc(8 + padded);
    if (bytes == NULL) return fail_header(writer, error);
    for (int i = 0; i < 8; ++i) bytes[i] = (char)((uint64_t)padded >> 8 * i & 0xff);
    memset(bytes + 8, ' ', padded);
    dcpar_status status = DCPAR_OK;
    if (size == 0 || json_dumpb(writer->header, bytes + 8, size, JSON_COMPACT) != size)
        status = fail_header(writer, error);
    else
        status = dcpar_atomic_file_append(writer->file, bytes, (int64_t)(8 + padded), error);
    free(bytes);
    return status;
}

static dcpar_status start(dcpar_safetensors_writer *writer, const dcpar_safetensor *tensors, int64_t count,
                          const dcpar_safetensors_text *metadata, int64_t text_count, dcpar_error *error) {
    if (writer->path == NULL || writer->header == NULL) return dcpar_fail_memory(error, "writing tensors");
    DCPAR_TRY(add_metadata(writer, metadata, text_count, error));
    for (int64_t i = 0; i < count; ++i) DCPAR_TRY(add_tensor(writer, &tensors[i], error));
    DCPAR_TRY(dcpar_atomic_file_create(writer->path, &writer->file, error));
    return write_header(writer, error);
}

dcpar_status dcpar_safetensors_create(const char *path, const dcpar_safetensor *tensors, int64_t count,
                                      const dcpar_safetensors_text *metadata, int64_t text_count,
                                      dcpar_safetensors_writer **out, dcpar_error *error) {
    dcpar_safetensors_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) return dcpar_fail_memory(error, "writing tensors");
    const size_t size = strlen(path) + 1;
    writer->path = malloc(size);
    if (writer->path != NULL) memcpy(writer->path, path, size);
    writer->header = json_object();
    const dcpar_status status = start(writer, tensors, count, metadata, text_count, error);
    if (status == DCPAR_OK)
        *out = writer;
    else
        dcpar_safetensors_abandon(writer);
    return status;
}

dcpar_status dcpar_safetensors_append(dcpar_safetensors_writer *writer, const void *values, int64_t bytes,
                                      dcpar_error *error) {
    if (bytes < 0 || bytes > writer->bytes - writer->appended)
        return dcpar_fail(error, DCPAR_INVALID, "%s: %lld bytes of values follow %lld, but only %lld were announced",
                          writer->path, (long long)bytes, (long long)writer->appended, (long long)writer->bytes);
    DCPAR_TRY(dcpar_atomic_file_append(writer->file, values, bytes, error));
    writer->appended += bytes;
    return DCPAR_OK;
}

static dcpar_status check_complete(const dcpar_safetensors_writer *writer, dcpar_error *error) {
    const char *name;
    json_t *entry;
    json_object_foreach(writer->header, name, entry) {
        const json_t *end = json_array_get(json_object_get(entry, "data_offsets"), 1);
        if (end != NULL && json_integer_value(end) > writer->appended)
            return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s lacks %lld bytes of values", writer->path, name,
                              (long long)(json_integer_value(end) - writer->appended));
    }
    return DCPAR_OK;
}

dcpar_status dcpar_safetensors_commit(dcpar_safetensors_writer *writer, dcpar_error *error) {
    dcpar_status status = check_complete(writer, error);
    if (status == DCPAR_OK) {
        dcpar_atomic_file *file = writer->file;
        writer->file = NULL; /* gone after a commit, whatever comes of it */
        status = dcpar_atomic_file_commit(file, error);
    }
    dcpar_safetensors_abandon(writer);
    return status;
}

void dcpar_safetensors_abandon(dcpar_safetensors_writer *writer) {
    if (writer == NULL) return;
    dcpar_atomic_file_abandon(writer->file);
    json_decref(writer->header);
    free(writer->path);
    free(writer);
}
