#define _POSIX_C_SOURCE 200809L
#include "data/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/random.h"
#include "base/file.h"
#include "data/format.h"

/* Asked in this order: a folder is a folder, whatever its name ends in. */
static const dcpar_format *const formats[] = {&dcpar_format_folder, &dcpar_format_fasta, &dcpar_format_megatron};

const dcpar_format *dcpar_format_find(const char *path) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i)
        if (formats[i]->recognises(path)) return formats[i];
    return NULL;
}

static dcpar_status fail_unknown(const char *path, dcpar_error *error) {
    struct stat status;
    if (stat(path, &status) != 0) return dcpar_file_fail(error, "open", path, errno);
    return dcpar_fail(error, DCPAR_INVALID,
                      "%s is no dataset: a folder, a FASTA file (.fa, .fasta, .faa, .fna), or Megatron's NAME.bin with "
                      "NAME.idx is",
                      path);
}

static dcpar_status check_lengths(const dcpar_dataset *dataset, const char *path, dcpar_error *error) {
    for (int64_t row = 0; row < dataset->count; ++row)
        if (dataset->lengths[row] > DCPAR_LENGTH_MAX)
            return dcpar_fail(error, DCPAR_INVALID, "%s: sequence %lld has %lld tokens, above 2^40", path,
                              (long long)row, (long long)dataset->lengths[row]);
    return DCPAR_OK;
}

static dcpar_status describe(dcpar_dataset *dataset, const char *path, dcpar_error *error) {
    static const char format[] = "%s %s: %lld sequences, %lld tokens";
    const char *kind = dataset->format->kind;
    const long long count = (long long)dataset->count;
    long long tokens = 0;
    for (int64_t row = 0; row < dataset->count; ++row) tokens += dataset->lengths[row];
    const int length = snprintf(NULL, 0, format, kind, path, count, tokens);
    dataset->description = malloc((size_t)length + 1);
    if (dataset->description == NULL) return dcpar_fail_memory(error, "a dataset");
    snprintf(dataset->description, (size_t)length + 1, format, kind, path, count, tokens);
    return DCPAR_OK;
}

static dcpar_status open_into(dcpar_dataset *dataset, const char *path, dcpar_error *error) {
    DCPAR_TRY(dataset->format->open(path, dataset, error));
    DCPAR_TRY(check_lengths(dataset, path, error));
    return describe(dataset, path, error);
}

dcpar_status dcpar_dataset_open(const char *path, dcpar_dataset **out, dcpar_error *error) {
    const dcpar_format *format = dcpar_format_find(path);
    if (format == NULL) return fail_unknown(path, error);
    dcpar_dataset *dataset = calloc(1, sizeof *dataset);
    if (dataset == NULL) return dcpar_fail_memory(error, "a dataset");
    dataset->format = format;
    dataset->vocabulary = DCPAR_VOCABULARY_UNKNOWN;
    const dcpar_status status = open_into(dataset, path, error);
    if (status == DCPAR_OK)
        *out = dataset;
    else
        dcpar_dataset_close(dataset);
    return status;
}

void dcpar_dataset_close(dcpar_dataset *dataset) {
    if (dataset == NULL) return;
    if (dataset->content != NULL) dataset->format->close(dataset->content);
    free(dataset->lengths);
    free(dataset->description);
    free(dataset);
}

int64_t dcpar_dataset_count(const dcpar_dataset *dataset) { return dataset->count; }

const int64_t *dcpar_dataset_lengths(const dcpar_dataset *dataset) { return dataset->lengths; }

const char *dcpar_dataset_describe(const dcpar_dataset *dataset) { return dataset->description; }

static dcpar_status scan_vocabulary(const dcpar_dataset *dataset, int64_t *vocabulary, dcpar_error *error) {
    int32_t tokens[4096];
    const int64_t capacity = sizeof tokens / sizeof *tokens;
    int32_t largest = -1;
    for (int64_t row = 0; row < dataset->count; ++row) {
        for (int64_t first = 0; first < dataset->lengths[row]; first += capacity) {
            const int64_t left = dataset->lengths[row] - first, count = left < capacity ? left : capacity;
            DCPAR_TRY(dataset->format->read(dataset, row, first, count, tokens, error));
            for (int64_t i = 0; i < count; ++i) largest = tokens[i] > largest ? tokens[i] : largest;
        }
    }
    *vocabulary = (int64_t)largest + 1;
    return DCPAR_OK;
}

dcpar_status dcpar_dataset_vocabulary(dcpar_dataset *dataset, int64_t *vocabulary, dcpar_error *error) {
    if (dataset->vocabulary == DCPAR_VOCABULARY_UNKNOWN)
        DCPAR_TRY(scan_vocabulary(dataset, &dataset->vocabulary, error));
    *vocabulary = dataset->vocabulary;
    return DCPAR_OK;
}

dcpar_status dcpar_dataset_read(const dcpar_dataset *dataset, int64_t row, int64_t first, int64_t count,
                                int32_t *tokens, dcpar_error *error) {
    if (row < 0 || row >= dataset->count)
        return dcpar_fail(error, DCPAR_INVALID, "row %lld is not among the %lld sequences of %s", (long long)row,
                          (long long)dataset->count, dataset->description);
    if (first < 0 || count < 0 || first > dataset->lengths[row] - count)
        return dcpar_fail(error, DCPAR_INVALID, "row %lld has %lld tokens: cannot read %lld from token %lld on",
                          (long long)row, (long long)dataset->lengths[row], (long long)count, (long long)first);
    if (count == 0) return DCPAR_OK;
    return dataset->format->read(dataset, row, first, count, tokens, error);
}

static uint64_t chain(uint64_t hash, uint64_t value) { return dcpar_mix(hash ^ value); }

uint64_t dcpar_dataset_fingerprint(const dcpar_dataset *dataset) {
    uint64_t hash = 0;
    for (const char *letter = dataset->format->kind; *letter != '\0'; ++letter)
        hash = chain(hash, (unsigned char)*letter);
    hash = chain(hash, (uint64_t)dataset->count);
    for (int64_t row = 0; row < dataset->count; ++row) hash = chain(hash, (uint64_t)dataset->lengths[row]);
    return hash;
}
