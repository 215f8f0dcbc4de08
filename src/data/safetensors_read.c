#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/error.h"
#include "base/file.h"
#include "data/safetensors.h"

#define METADATA_KEY "__metadata__"
#define SIZE_BYTES 8
#define HEADER_LIMIT 100000000 /* bytes, as in the format's own implementation */

/* A tensor and where its values lie in the file's data. */
typedef struct placed {
    dcpar_safetensor tensor; /* its name belongs to the header */
    int64_t begin, end;
} placed;

struct dcpar_safetensors {
    char *path;
    int file;
    json_t *header;
    placed *tensors; /* [count] */
    int64_t count, data_start, data_bytes;
};

static dcpar_status read_header(dcpar_safetensors *file, dcpar_error *error) {
    unsigned char bytes[SIZE_BYTES];
    int64_t file_bytes = 0;
    uint64_t size = 0;
    DCPAR_TRY(dcpar_file_size(file->file, file->path, &file_bytes, error));
    if (file_bytes < SIZE_BYTES)
        return dcpar_fail(error, DCPAR_INVALID, "%s has %lld bytes, too few for a safetensors file", file->path,
                          (long long)file_bytes);
    DCPAR_TRY(dcpar_file_read_exactly(file->file, file->path, 0, bytes, SIZE_BYTES, error));
    for (int i = 0; i < SIZE_BYTES; ++i) size |= (uint64_t)bytes[i] << 8 * i;
    if (size > HEADER_LIMIT)
        return dcpar_fail(error, DCPAR_INVALID, "%s says its header has %llu bytes: more than %d are not read",
                          file->path, (unsigned long long)size, HEADER_LIMIT);
    if ((int64_t)size > file_bytes - SIZE_BYTES)
        return dcpar_fail(error, DCPAR_INVALID, "%s ends inside its header: it has %lld bytes, the header alone %llu",
                          file->path, (long long)file_bytes, (unsigned long long)size);
    file->data_start = SIZE_BYTES + (int64_t)size;
    file->data_bytes = file_bytes - file->data_start;

    char *text = malloc((size_t)size + 1);
    if (text == NULL) return dcpar_fail_memory(error, "the header of a safetensors file");
    dcpar_status status = dcpar_file_read_exactly(file->file, file->path, SIZE_BYTES, text, (int64_t)size, error);
    json_error_t reason;
    if (status == DCPAR_OK) {
        file->header = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &reason);
        if (file->header == NULL)
            status = dcpar_fail(error, DCPAR_INVALID, "%s: the header is not JSON: %s", file->path, reason.text);
        else if (text[0] != '{')
            status = dcpar_fail(error, DCPAR_INVALID, "%s: the header does not start with '{'", file->path);
    }
    free(text);
    return status;
}

static dcpar_status check_metadata(const dcpar_safetensors *file, dcpar_error *error) {
    json_t *texts = json_object_get(file->header, METADATA_KEY), *text;
    const char *key;
    if (texts != NULL && !json_is_object(texts))
        return dcpar_fail(error, DCPAR_INVALID, "%s: %s is not a JSON object", file->path, METADATA_KEY);
    json_object_foreach(texts, key, text) {
        if (!json_is_string(text))
            return dcpar_fail(error, DCPAR_INVALID, "%s: metadata '%s' is not text", file->path, key);
    }
    return DCPAR_OK;
}

static dcpar_status refuse(const dcpar_safetensors *file, const char *name, const char *why, dcpar_error *error) {
    return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s %s", file->path, name, why);
}

static dcpar_status parse_type(const dcpar_safetensors *file, const json_t *type, dcpar_safetensor *tensor,
                               dcpar_error *error) {
    static const dcpar_safetensor_type known[] = {DCPAR_SAFETENSOR_F32, DCPAR_SAFETENSOR_I64};
    if (!json_is_string(type)) return refuse(file, tensor->name, "has no dtype", error);
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        if (strcmp(json_string_value(type), dcpar_safetensor_type_name(known[i])) != 0) continue;
        tensor->type = known[i];
        return DCPAR_OK;
    }
    return dcpar_fail(error, DCPAR_UNSUPPORTED, "%s: tensor %s has dtype %.16s: only F32 and I64 are read", file->path,
                      tensor->name, json_string_value(type));
}

static dcpar_status parse_shape(const dcpar_safetensors *file, const json_t *shape, dcpar_safetensor *tensor,
                                dcpar_error *error) {
    if (!json_is_array(shape)) return refuse(file, tensor->name, "has no shape", error);
    if (json_array_size(shape) > DCPAR_SAFETENSOR_DIMENSIONS)
        return refuse(file, tensor->name, "has more than 8 dimensions", error);
    tensor->dimensions = (int32_t)json_array_size(shape);
    for (int32_t i = 0; i < tensor->dimensions; ++i) {
        const json_t *extent = json_array_get(shape, (size_t)i);
        tensor->shape[i] = json_is_integer(extent) ? json_integer_value(extent) : -1;
    }
    if (dcpar_safetensor_bytes(tensor) < 0) return refuse(file, tensor->name, "has a shape that cannot be", error);
    return DCPAR_OK;
}

static dcpar_status parse_tensor(const dcpar_safetensors *file, const char *name, const json_t *entry, placed *out,
                                 dcpar_error *error) {
    out->tensor.name = name;
    DCPAR_TRY(parse_type(file, json_object_get(entry, "dtype"), &out->tensor, error));
    DCPAR_TRY(parse_shape(file, json_object_get(entry, "shape"), &out->tensor, error));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return refuse(file, name, "has no data_offsets", error);
    out->begin = json_integer_value(begin);
    out->end = json_integer_value(end);
    if (out->begin < 0 || out->end < out->begin || out->end > file->data_bytes)
        return dcpar_fail(error, DCPAR_INVALID,
                          "%s: tensor %s lies at bytes %lld to %lld of the data, which has %lld bytes", file->path,
                          name, (long long)out->begin, (long long)out->end, (long long)file->data_bytes);
    const int64_t bytes = dcpar_safetensor_bytes(&out->tensor);
    if (out->end - out->begin != bytes)
        return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s takes %lld bytes by its shape, but has %lld", file->path,
                          name, (long long)bytes, (long long)(out->end - out->begin));
    return DCPAR_OK;
}

static int compare_places(const void *left, const void *right) {
    const placed *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end); /* an empty tensor before the one that starts there, too */
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const placed *)left)->tensor.name, ((const placed *)right)->tensor.name);
}

/* Each tensor starts where the one before it ends, and the last ends where the file does. Bytes that belong to two
 * tensors or to none would let one file mean different things to different readers. */
static dcpar_status check_places(const dcpar_safetensors *file, dcpar_error *error) {
    int64_t covered = 0;
    for (int64_t i = 0; i < file->count; ++i) {
        const placed *at = &file->tensors[i];
        if (at->begin != covered)
            return refuse(file, at->tensor.name,
                          at->begin > covered ? "has a hole before it" : "shares bytes with another tensor", error);
        covered = at->end;
    }
    if (covered != file->data_bytes)
        return dcpar_fail(error, DCPAR_INVALID, "%s: %lld bytes at its end belong to no tensor", file->path,
                          (long long)(file->data_bytes - covered));
    return DCPAR_OK;
}

static dcpar_status parse_tensors(dcpar_safetensors *file, dcpar_error *error) {
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (file->tensors == NULL) return dcpar_fail_memory(error, "the tensors of a file");
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (strcmp(name, METADATA_KEY) == 0) continue;
        DCPAR_TRY(parse_tensor(file, name, entry, &file->tensors[file->count], error));
        ++file->count;
    }
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_places);
    DCPAR_TRY(check_places(file, error));
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_names);
    return DCPAR_OK;
}

static dcpar_status open_file(dcpar_safetensors *file, const char *path, dcpar_error *error) {
    file->path = strdup(path);
    if (file->path == NULL) return dcpar_fail_memory(error, "a safetensors file");
    DCPAR_TRY(dcpar_file_open(path, &file->file, error));
    DCPAR_TRY(read_header(file, error));
    DCPAR_TRY(check_metadata(file, error));
    return parse_tensors(file, error);
}

dcpar_status dcpar_safetensors_open(const char *path, dcpar_safetensors **out, dcpar_error *error) {
    dcpar_safetensors *file = calloc(1, sizeof *file);
    if (file == NULL) return dcpar_fail_memory(error, "a safetensors file");
    file->file = -1;
    const dcpar_status status = open_file(file, path, error);
    if (status == DCPAR_OK)
        *out = file;
    else
        dcpar_safetensors_close(file);
    return status;
}

void dcpar_safetensors_close(dcpar_safetensors *file) {
    if (file == NULL) return;
    if (file->file >= 0) close(file->file);
    json_decref(file->header);
    free(file->tensors);
    free(file->path);
    free(file);
}

int64_t dcpar_safetensors_count(const dcpar_safetensors *file) { return file->count; }

const dcpar_safetensor *dcpar_safetensors_at(const dcpar_safetensors *file, int64_t index) {
    return &file->tensors[index].tensor;
}

int64_t dcpar_safetensors_find(const dcpar_safetensors *file, const char *name) {
    const placed key = {.tensor = {.name = name}};
    const placed *found = bsearch(&key, file->tensors, (size_t)file->count, sizeof key, compare_names);
    return found == NULL ? -1 : (int64_t)(found - file->tensors);
}

/* "F32 [2, 3]" */
static void describe(const dcpar_safetensor *tensor, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s [", dcpar_safetensor_type_name(tensor->type));
    for (int32_t i = 0; i < tensor->dimensions && used < size; ++i)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i == 0 ? "" : ", ", (long long)tensor->shape[i]);
    if (used < size) snprintf(text + used, size - used, "]");
}

dcpar_status dcpar_safetensors_require(const dcpar_safetensors *file, const dcpar_safetensor *wanted, int64_t *index,
                                       dcpar_error *error) {
    const int64_t found = dcpar_safetensors_find(file, wanted->name);
    if (found < 0) return dcpar_fail(error, DCPAR_MISMATCH, "%s has no tensor %s", file->path, wanted->name);
    const dcpar_safetensor *tensor = &file->tensors[found].tensor;
    if (tensor->type != wanted->type || tensor->dimensions != wanted->dimensions ||
        memcmp(tensor->shape, wanted->shape, (size_t)wanted->dimensions * sizeof *wanted->shape) != 0) {
        char has[200], needs[200];
        describe(tensor, has, sizeof has);
        describe(wanted, needs, sizeof needs);
        return dcpar_fail(error, DCPAR_MISMATCH, "%s: tensor %s is %s, not %s", file->path, wanted->name, has, needs);
    }
    *index = found;
    return DCPAR_OK;
}

const char *dcpar_safetensors_metadata(const dcpar_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, METADATA_KEY), key));
}

dcpar_status dcpar_safetensors_read(const dcpar_safetensors *file, int64_t index, int64_t first, int64_t count,
                                    void *values, dcpar_error *error) {
    const placed *at = &file->tensors[index];
    const int64_t width = dcpar_safetensor_type_bytes(at->tensor.type), total = (at->end - at->begin) / width;
    if (first < 0 || count < 0 || first > total - count)
        return dcpar_fail(error, DCPAR_INVALID, "%s: tensor %s has %lld values: cannot read %lld from value %lld on",
                          file->path, at->tensor.name, (long long)total, (long long)count, (long long)first);
    const int64_t offset = file->data_start + at->begin + first * width;
    const dcpar_status status = dcpar_file_read_exactly(file->file, file->path, offset, values, count * width, error);
    return status == DCPAR_OK ? status : dcpar_fail_prefix(error, status, "tensor %s", at->tensor.name);
}
