/* Megatron-LM's indexed dataset: NAME.bin holds tokens, NAME.idx says where each sequence of them lies.
 *
 * The index, little endian:
 *
 *     9 bytes    "MMIDIDX\0\0"
 *     uint64     version, 1
 *     uint8      code of the tokens' type
 *     uint64     number of sequences S
 *     uint64     number of document bounds D
 *     int32[S]   tokens of each sequence
 *     int64[S]   where each sequence starts, in bytes of NAME.bin
 *     int64[D]   document bounds: numbers of sequences, not decreasing
 *     int8[S]    modes, in multimodal datasets only; ignored */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "data/format.h"
#include "data/integers.h"

#define MAGIC "MMIDIDX\0"
#define MAGIC_BYTES 9
#define VERSION_AT 9
#define TYPE_AT 17
#define COUNTS_AT 18
#define HEADER_BYTES 34
#define SUFFIX_LENGTH 4

static const dcpar_integer_type int32_little = {4, true, false}, int64_little = {8, true, false};

typedef struct megatron {
    char *index_path, *tokens_path;
    int index_file, tokens_file;
    int64_t tokens_bytes; /* the size of NAME.bin */
    dcpar_integer_type type;
    int64_t sequences, documents;
    int64_t *starts; /* [sequences], bytes */
} megatron;

/* How long NAME is in NAME, NAME.bin or NAME.idx. */
static size_t name_length(const char *path) {
    const size_t length = strlen(path);
    if (length <= SUFFIX_LENGTH) return length;
    const char *end = path + length - SUFFIX_LENGTH;
    return strcmp(end, ".bin") == 0 || strcmp(end, ".idx") == 0 ? length - SUFFIX_LENGTH : length;
}

static char *with_suffix(const char *path, const char *suffix) {
    const size_t length = name_length(path), size = length + strlen(suffix) + 1;
    char *whole = malloc(size);
    if (whole != NULL) snprintf(whole, size, "%.*s%s", (int)length, path, suffix);
    return whole;
}

/* NAME alone is a dataset only when there is no such file: a list of lengths may stand beside NAME.idx. */
static bool megatron_recognises(const char *path) {
    if (name_length(path) < strlen(path)) return true;
    char *index_path = with_suffix(path, ".idx");
    const bool found = index_path != NULL && access(path, F_OK) != 0 && access(index_path, F_OK) == 0;
    free(index_path);
    return found;
}

static dcpar_status set_type(megatron *content, int64_t code, dcpar_error *error) {
    static const dcpar_integer_type types[] = {
        [1] = {1, false, false}, [2] = {1, true, false}, [3] = {2, true, false},
        [4] = {4, true, false},  [5] = {8, true, false}, [8] = {2, false, false},
    };
    if (code == 6 || code == 7)
        return dcpar_fail(error, DCPAR_INVALID, "%s: type code %lld says floating-point numbers, which are no tokens",
                          content->index_path, (long long)code);
    if (code >= (int64_t)(sizeof types / sizeof *types) || types[code].bytes == 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s: type code %lld is unknown", content->index_path, (long long)code);
    content->type = types[code];
    return DCPAR_OK;
}

/* The sizes that the header promises have to be those of the file, so that nothing is allocated for a wild count. */
static dcpar_status check_index_size(const megatron *content, int64_t bytes, dcpar_error *error) {
    const int64_t room = bytes - HEADER_BYTES, sequences = content->sequences, documents = content->documents;
    if (sequences <= room / 12 && documents <= room / 8) {
        const int64_t left = room - 12 * sequences - 8 * documents;
        if (left == 0 || left == sequences) return DCPAR_OK;
    }
    return dcpar_fail(error, DCPAR_INVALID,
                      "%s has %lld bytes, which is not what an index of %lld sequences and %lld document bounds takes",
                      content->index_path, (long long)bytes, (long long)sequences, (long long)documents);
}

static dcpar_status read_header(megatron *content, dcpar_error *error) {
    const char *path = content->index_path;
    int64_t bytes = 0, version = 0, code = 0, counts[2];
    DCPAR_TRY(dcpar_file_size(content->index_file, path, &bytes, error));
    if (bytes < HEADER_BYTES)
        return dcpar_fail(error, DCPAR_INVALID, "%s has %lld bytes, too few for the header of an index", path,
                          (long long)bytes);
    char magic[MAGIC_BYTES];
    DCPAR_TRY(dcpar_file_read_exactly(content->index_file, path, 0, magic, MAGIC_BYTES, error));
    if (memcmp(magic, MAGIC, MAGIC_BYTES) != 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s does not start as an index of Megatron's does", path);
    DCPAR_TRY(dcpar_integers_read(content->index_file, path, VERSION_AT, int64_little, 1, &version, error));
    if (version != 1)
        return dcpar_fail(error, DCPAR_INVALID, "%s has version %lld: only 1 is known", path, (long long)version);
    DCPAR_TRY(dcpar_integers_read(content->index_file, path, TYPE_AT, (dcpar_integer_type){1, false, false}, 1, &code,
                                  error));
    DCPAR_TRY(set_type(content, code, error));
    DCPAR_TRY(dcpar_integers_read(content->index_file, path, COUNTS_AT, (dcpar_integer_type){8, false, false}, 2,
                                  counts, error));
    content->sequences = counts[0];
    content->documents = counts[1];
    return check_index_size(content, bytes, error);
}

static dcpar_status read_array(const megatron *content, int64_t offset, dcpar_integer_type type, int64_t count,
                               int64_t *values, dcpar_error *error) {
    for (int64_t i = 0; i < count; i += DCPAR_INTEGERS_AT_ONCE) {
        const int64_t part = count - i < DCPAR_INTEGERS_AT_ONCE ? count - i : DCPAR_INTEGERS_AT_ONCE;
        DCPAR_TRY(dcpar_integers_read(content->index_file, content->index_path, offset + i * type.bytes, type, part,
                                      values + i, error));
    }
    return DCPAR_OK;
}

static dcpar_status check_sequences(const megatron *content, const int64_t *lengths, dcpar_error *error) {
    for (int64_t row = 0; row < content->sequences; ++row) {
        const int64_t bytes = lengths[row] * content->type.bytes, start = content->starts[row];
        if (lengths[row] < 0)
            return dcpar_fail(error, DCPAR_INVALID, "%s: sequence %lld has %lld tokens", content->index_path,
                              (long long)row, (long long)lengths[row]);
        if (start < 0 || start > content->tokens_bytes || bytes > content->tokens_bytes - start)
            return dcpar_fail(error, DCPAR_INVALID,
                              "%s: sequence %lld is %lld bytes from byte %lld on, but %s has only %lld bytes",
                              content->index_path, (long long)row, (long long)bytes, (long long)start,
                              content->tokens_path, (long long)content->tokens_bytes);
    }
    return DCPAR_OK;
}

/* Documents play no part in planning; bounds out of order tell that the index is damaged. */
static dcpar_status check_documents(const megatron *content, dcpar_error *error) {
    const int64_t offset = HEADER_BYTES + 12 * content->sequences;
    int64_t bounds[DCPAR_INTEGERS_AT_ONCE], least = 0;
    for (int64_t first = 0; first < content->documents; first += DCPAR_INTEGERS_AT_ONCE) {
        const int64_t left = content->documents - first;
        const int64_t part = left < DCPAR_INTEGERS_AT_ONCE ? left : DCPAR_INTEGERS_AT_ONCE;
        DCPAR_TRY(read_array(content, offset + 8 * first, int64_little, part, bounds, error));
        for (int64_t i = 0; i < part; ++i) {
            if (bounds[i] < least || bounds[i] > content->sequences)
                return dcpar_fail(error, DCPAR_INVALID, "%s: document bound %lld is %lld, not between %lld and %lld",
                                  content->index_path, (long long)(first + i), (long long)bounds[i], (long long)least,
                                  (long long)content->sequences);
            least = bounds[i];
        }
    }
    return DCPAR_OK;
}

static dcpar_status read_index(megatron *content, dcpar_dataset *dataset, dcpar_error *error) {
    DCPAR_TRY(read_header(content, error));
    const size_t bytes = ((size_t)content->sequences + 1) * sizeof(int64_t);
    dataset->lengths = malloc(bytes);
    content->starts = malloc(bytes);
    if (dataset->lengths == NULL || content->starts == NULL) return dcpar_fail_memory(error, "a dataset's index");
    const int64_t sequences = content->sequences;
    DCPAR_TRY(read_array(content, HEADER_BYTES, int32_little, sequences, dataset->lengths, error));
    DCPAR_TRY(read_array(content, HEADER_BYTES + 4 * sequences, int64_little, sequences, content->starts, error));
    DCPAR_TRY(check_sequences(content, dataset->lengths, error));
    DCPAR_TRY(check_documents(content, error));
    dataset->count = sequences;
    if (content->type.bytes == 1) dataset->vocabulary = content->type.is_signed ? 128 : 256;
    return DCPAR_OK;
}

static dcpar_status megatron_open(const char *path, dcpar_dataset *dataset, dcpar_error *error) {
    megatron *content = calloc(1, sizeof *content);
    if (content == NULL) return dcpar_fail_memory(error, "a dataset's index");
    dataset->content = content;
    content->index_file = content->tokens_file = -1;
    content->index_path = with_suffix(path, ".idx");
    content->tokens_path = with_suffix(path, ".bin");
    if (content->index_path == NULL || content->tokens_path == NULL)
        return dcpar_fail_memory(error, "a dataset's index");
    DCPAR_TRY(dcpar_file_open(content->index_path, &content->index_file, error));
    DCPAR_TRY(dcpar_file_open(content->tokens_path, &content->tokens_file, error));
    DCPAR_TRY(dcpar_file_size(content->tokens_file, content->tokens_path, &content->tokens_bytes, error));
    return read_index(content, dataset, error);
}

static dcpar_status megatron_read(const dcpar_dataset *dataset, int64_t row, int64_t first, int64_t count,
                                  int32_t *tokens, dcpar_error *error) {
    const megatron *content = dataset->content;
    int64_t values[DCPAR_INTEGERS_AT_ONCE];
    for (int64_t done = 0; done < count; done += DCPAR_INTEGERS_AT_ONCE) {
        const int64_t part = count - done < DCPAR_INTEGERS_AT_ONCE ? count - done : DCPAR_INTEGERS_AT_ONCE;
        const int64_t offset = content->starts[row] + (first + done) * content->type.bytes;
        DCPAR_TRY(dcpar_integers_read(content->tokens_file, content->tokens_path, offset, content->type, part, values,
                                      error));
        for (int64_t i = 0; i < part; ++i) {
            if (values[i] < 0 || values[i] > INT32_MAX)
                return dcpar_fail(
                    error, DCPAR_INVALID, "%s: token %lld of sequence %lld is %lld, not between 0 and 2^31 - 1",
                    content->tokens_path, (long long)(first + done + i), (long long)row, (long long)values[i]);
            tokens[done + i] = (int32_t)values[i];
        }
    }
    return DCPAR_OK;
}

static void megatron_close(void *opened) {
    megatron *content = opened;
    if (content->index_file >= 0) close(content->index_file);
    if (content->tokens_file >= 0) close(content->tokens_file);
    free(content->starts);
    free(content->index_path);
    free(content->tokens_path);
    free(content);
}

const dcpar_format dcpar_format_megatron = {"Megatron", megatron_recognises, megatron_open, megatron_read,
                                            megatron_close};
