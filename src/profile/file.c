/* The profile as a JSON file. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/atomic_file.h"
#include "profile/file.h"

#define FORMAT "dcpar-profile"
#define FORMAT_VERSION 1

/* ------------------------------------------------------------------------------------------------- save */

static json_t *row_to_json(const dcpar_profile_row *row) {
    json_t *object = json_pack("{s:I, s:i, s:i, s:b}", "length", (json_int_t)row->length, "sp", (int)row->sp, "batch",
                               (int)row->batch, "fits", (int)row->fits);
    if (object == NULL || !row->fits) return object;
    json_t *costs =
        json_pack("{s:f, s:f, s:f, s:I, s:I, s:I}", "forward", row->forward, "backward", row->backward,
                  "constant_seconds", row->constant_seconds, "layer_bytes", (json_int_t)row->layer_bytes, "input_bytes",
                  (json_int_t)row->input_bytes, "constant_bytes", (json_int_t)row->constant_bytes);
    if (costs == NULL || json_object_update_new(object, costs) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *info_to_json(const dcpar_profile_info *info) {
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:f}", "format", FORMAT,
                     "format_version", FORMAT_VERSION, "model", info->model, "device", info->device, "method",
                     info->method, "version", info->version, "layers", (int)info->layers, "heads", (int)info->heads,
                     "kv_heads", (int)info->kv_heads, "world", (int)info->world, "memory", (json_int_t)info->memory,
                     "max_length", (json_int_t)info->max_length, "step_seconds", info->step_seconds);
}

static dcpar_status write_text(const char *path, const json_t *head, const json_t *rows, dcpar_error *error) {
    dcpar_atomic_file *file = NULL;
    DCPAR_TRY(dcpar_atomic_file_create(path, &file, error));
    char *text = json_dumps(head, JSON_INDENT(1));
    dcpar_status status = text != NULL ? DCPAR_OK : dcpar_fail_memory(error, "the profile's file");
    /* One row a line: the head without its closing brace, then the rows. */
    if (status == DCPAR_OK) status = dcpar_atomic_file_append(file, text, (int64_t)strlen(text) - 2, error);
    if (status == DCPAR_OK) status = dcpar_atomic_file_append(file, ",\n \"rows\": [\n", 13, error);
    free(text);
    for (size_t i = 0; i < json_array_size(rows) && status == DCPAR_OK; ++i) {
        char *row = json_dumps(json_array_get(rows, i), JSON_COMPACT);
        if (row == NULL) status = dcpar_fail_memory(error, "the profile's file");
        if (status == DCPAR_OK) status = dcpar_atomic_file_append(file, i > 0 ? ",\n  " : "  ", i > 0 ? 4 : 2, error);
        if (status == DCPAR_OK) status = dcpar_atomic_file_append(file, row, (int64_t)strlen(row), error);
        free(row);
    }
    if (status == DCPAR_OK) status = dcpar_atomic_file_append(file, "\n ]\n}\n", 6, error);
    if (status == DCPAR_OK) return dcpar_atomic_file_commit(file, error);
    dcpar_atomic_file_abandon(file);
    return status;
}

dcpar_status dcpar_profile_write(const dcpar_profile_info *info, const dcpar_profile_row *rows, int64_t count,
                                 const char *path, dcpar_error *error) {
    json_t *head = info_to_json(info), *list = json_array();
    dcpar_status status = head != NULL && list != NULL ? DCPAR_OK : dcpar_fail_memory(error, "the profile's file");
    for (int64_t i = 0; i < count && status == DCPAR_OK; ++i)
        if (json_array_append_new(list, row_to_json(&rows[i])) != 0)
            status = dcpar_fail_memory(error, "the profile's file");
    if (status == DCPAR_OK) status = write_text(path, head, list, error);
    json_decref(head);
    json_decref(list);
    return status;
}

dcpar_status dcpar_profile_save(const dcpar_profile *profile, const char *path, dcpar_error *error) {
    int64_t count;
    const dcpar_profile_row *rows = dcpar_profile_get_rows(profile, &count);
    return dcpar_profile_write(dcpar_profile_get_info(profile), rows, count, path, error);
}

/* ------------------------------------------------------------------------------------------------- load */

static dcpar_status read_text_field(const json_t *object, const char *key, char *text, dcpar_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) return dcpar_fail(error, DCPAR_INVALID, "\"%s\" is missing or not a text", key);
    if (json_string_length(value) >= DCPAR_TEXT)
        return dcpar_fail(error, DCPAR_INVALID, "\"%s\" is longer than %d bytes", key, DCPAR_TEXT - 1);
    strcpy(text, json_string_value(value));
    return DCPAR_OK;
}

static dcpar_status read_integer(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                                 dcpar_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) return dcpar_fail(error, DCPAR_INVALID, "\"%s\" is missing or not an integer", key);
    const int64_t number = json_integer_value(value);
    if (number < low || number > high)
        return dcpar_fail(error, DCPAR_INVALID, "\"%s\" is %lld; it must be %lld to %lld", key, (long long)number,
                          (long long)low, (long long)high);
    *out = number;
    return DCPAR_OK;
}

static dcpar_status read_int(const json_t *object, const char *key, int32_t *out, dcpar_error *error) {
    int64_t value = 0;
    DCPAR_TRY(read_integer(object, key, INT32_MIN, INT32_MAX, &value, error));
    *out = (int32_t)value;
    return DCPAR_OK;
}

static dcpar_status read_number(const json_t *object, const char *key, double *out, dcpar_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) return dcpar_fail(error, DCPAR_INVALID, "\"%s\" is missing or not a number", key);
    *out = json_number_value(value);
    return DCPAR_OK;
}

static dcpar_status read_info(const json_t *root, dcpar_profile_info *info, dcpar_error *error) {
    char format[DCPAR_TEXT];
    int64_t version = 0;
    DCPAR_TRY(read_text_field(root, "format", format, error));
    if (strcmp(format, FORMAT) != 0)
        return dcpar_fail(error, DCPAR_INVALID, "it is not a profile: \"format\" is \"%s\"", format);
    DCPAR_TRY(read_integer(root, "format_version", INT64_MIN, INT64_MAX, &version, error));
    if (version != FORMAT_VERSION)
        return dcpar_fail(error, DCPAR_MISMATCH, "its format has version %lld, this program reads version %d",
                          (long long)version, FORMAT_VERSION);
    memset(info, 0, sizeof *info);
    DCPAR_TRY(read_text_field(root, "model", info->model, error));
    DCPAR_TRY(read_text_field(root, "device", info->device, error));
    DCPAR_TRY(read_text_field(root, "method", info->method, error));
    DCPAR_TRY(read_text_field(root, "version", info->version, error));
    DCPAR_TRY(read_int(root, "layers", &info->layers, error));
    DCPAR_TRY(read_int(root, "heads", &info->heads, error));
    DCPAR_TRY(read_int(root, "kv_heads", &info->kv_heads, error));
    DCPAR_TRY(read_int(root, "world", &info->world, error));
    DCPAR_TRY(read_integer(root, "memory", 1, INT64_MAX, &info->memory, error));
    DCPAR_TRY(read_integer(root, "max_length", 0, INT64_MAX, &info->max_length, error));
    return read_number(root, "step_seconds", &info->step_seconds, error);
}

static dcpar_status read_row(const json_t *object, dcpar_profile_row *row, dcpar_error *error) {
    memset(row, 0, sizeof *row);
    const json_t *fits = json_object_get(object, "fits");
    if (!json_is_boolean(fits)) return dcpar_fail(error, DCPAR_INVALID, "\"fits\" is missing or not true or false");
    row->fits = json_is_true(fits);
    DCPAR_TRY(read_integer(object, "length", INT64_MIN, INT64_MAX, &row->length, error));
    DCPAR_TRY(read_int(object, "sp", &row->sp, error));
    DCPAR_TRY(read_int(object, "batch", &row->batch, error));
    if (!row->fits) return DCPAR_OK;
    DCPAR_TRY(read_number(object, "forward", &row->forward, error));
    DCPAR_TRY(read_number(object, "backward", &row->backward, error));
    DCPAR_TRY(read_number(object, "constant_seconds", &row->constant_seconds, error));
    DCPAR_TRY(read_integer(object, "layer_bytes", INT64_MIN, INT64_MAX, &row->layer_bytes, error));
    DCPAR_TRY(read_integer(object, "input_bytes", INT64_MIN, INT64_MAX, &row->input_bytes, error));
    return read_integer(object, "constant_bytes", INT64_MIN, INT64_MAX, &row->constant_bytes, error);
}

static dcpar_status read_profile(const json_t *root, dcpar_profile_info *info, dcpar_profile_row **rows, int64_t *count,
                                 dcpar_error *error) {
    DCPAR_TRY(read_info(root, info, error));
    const json_t *list = json_object_get(root, "rows");
    if (!json_is_array(list)) return dcpar_fail(error, DCPAR_INVALID, "\"rows\" is missing or not a list");
    *count = (int64_t)json_array_size(list);
    *rows = malloc((size_t)(*count + 1) * sizeof **rows);
    if (*rows == NULL) return dcpar_fail_memory(error, "the profile's rows");
    for (int64_t i = 0; i < *count; ++i) {
        const dcpar_status status = read_row(json_array_get(list, (size_t)i), &(*rows)[i], error);
        if (status == DCPAR_OK) continue;
        free(*rows);
        *rows = NULL;
        return dcpar_fail_prefix(error, status, "row %lld", (long long)i);
    }
    return DCPAR_OK;
}

dcpar_status dcpar_profile_read(const char *path, dcpar_profile_info *info, dcpar_profile_row **rows, int64_t *count,
                                dcpar_error *error) {
    json_error_t problem;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (root == NULL) {
        if (problem.line < 0) return dcpar_fail(error, DCPAR_IO, "%s: %s", path, problem.text);
        return dcpar_fail(error, DCPAR_INVALID, "%s: line %d: %s", path, problem.line, problem.text);
    }
    dcpar_status status = read_profile(root, info, rows, count, error);
    json_decref(root);
    if (status != DCPAR_OK) return dcpar_fail_prefix(error, status, "%s", path);
    return DCPAR_OK;
}

dcpar_status dcpar_profile_load(const char *path, dcpar_profile **out, dcpar_error *error) {
    dcpar_profile_info info;
    dcpar_profile_row *rows = NULL;
    int64_t count;
    DCPAR_TRY(dcpar_profile_read(path, &info, &rows, &count, error));
    const dcpar_status status = dcpar_profile_create(&info, rows, count, out, error);
    free(rows);
    if (status != DCPAR_OK) return dcpar_fail_prefix(error, status, "%s", path);
    return DCPAR_OK;
}
