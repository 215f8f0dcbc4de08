/* Lengths as a .npy file: "\x93NUMPY", version, size of the header, a header that is a Python dictionary such as
 *
 *     {'descr': '<i8', 'fortran_order': False, 'shape': (1000,), }
 *
 * and the integers. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "data/format.h"
#include "data/integers.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define HEADER_LIMIT 65536 /* bytes; that of one dimension takes 118 */

typedef struct npy {
    dcpar_integer_type type;
    int64_t count;
    int64_t offset; /* of the first integer */
} npy;

bool dcpar_lengths_is_npy(int file) {
    char magic[MAGIC_BYTES];
    int64_t got = 0;
    return dcpar_file_read_at(file, "", 0, magic, MAGIC_BYTES, &got, NULL) == DCPAR_OK && got == MAGIC_BYTES &&
           memcmp(magic, MAGIC, MAGIC_BYTES) == 0;
}

static dcpar_status refuse_header(const char *path, dcpar_error *error) {
    return dcpar_fail(error, DCPAR_INVALID, "%s: the header of the .npy file is damaged", path);
}

static const char *skip_blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

/* After blanks, `letter`: returns what follows it, or NULL. */
static const char *expect(const char *at, char letter) {
    at = skip_blanks(at);
    return *at == letter ? at + 1 : NULL;
}

/* A quoted word: its start and length, and what follows the closing quote; or NULL. */
static const char *read_word(const char *at, const char **word, size_t *length) {
    at = skip_blanks(at);
    if (*at != '\'' && *at != '"') return NULL;
    const char *end = strchr(at + 1, *at);
    if (end == NULL) return NULL;
    *word = at + 1;
    *length = (size_t)(end - at - 1);
    return end + 1;
}

static bool is_word(const char *word, size_t length, const char *wanted) {
    return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

/* "(5,)" and what follows, or NULL. */
static const char *read_shape(const char *at, int64_t *count) {
    at = expect(at, '(');
    if (at == NULL) return NULL;
    at = skip_blanks(at);
    if (*at < '0' || *at > '9') return NULL;
    char *digits_end = NULL;
    *count = strtoll(at, &digits_end, 10); /* saturates; checked against the size of the file */
    at = expect(digits_end, ',');
    return at == NULL ? NULL : expect(at, ')');
}

/* "<i8": byte order, kind, bytes. */
static bool read_type(const char *word, size_t length, dcpar_integer_type *type) {
    if (length != 3 || strchr("<>|", word[0]) == NULL || strchr("iu", word[1]) == NULL) return false;
    if (strchr("1248", word[2]) == NULL || (word[0] == '|' && word[2] != '1')) return false;
    *type = (dcpar_integer_type){word[2] - '0', word[1] == 'i', word[0] == '>'};
    return true;
}

/* `at` stands behind the ':' of 'descr'. Returns what follows the value, or NULL with the error written. */
static const char *read_descr(const char *at, const char *path, dcpar_integer_type *type, dcpar_error *error) {
    const char *word = NULL;
    size_t length = 0;
    const char *next = read_word(at, &word, &length);
    if (next != NULL && read_type(word, length, type)) return next;
    if (next == NULL)
        dcpar_fail(error, DCPAR_INVALID, "%s holds records, not integers", path);
    else
        dcpar_fail(error, DCPAR_INVALID, "%s holds values of type '%.*s', not integers of 1, 2, 4 or 8 bytes", path,
                   (int)(length < 32 ? length : 32), word);
    return NULL;
}

static dcpar_status parse_header(const char *header, const char *path, npy *array, dcpar_error *error) {
    bool has_type = false, has_shape = false;
    const char *at = expect(header, '{');
    while (at != NULL && *skip_blanks(at) != '}') {
        const char *key = NULL;
        size_t length = 0;
        at = read_word(at, &key, &length);
        if (at != NULL) at = expect(at, ':');
        if (at == NULL) return refuse_header(path, error);
        if (is_word(key, length, "descr")) {
            at = read_descr(at, path, &array->type, error);
            if (at == NULL) return DCPAR_INVALID;
            has_type = true;
        } else if (is_word(key, length, "shape")) {
            at = read_shape(at, &array->count);
            if (at == NULL) return dcpar_fail(error, DCPAR_INVALID, "%s does not hold an array of one dimension", path);
            has_shape = true;
        } else { /* 'fortran_order': without meaning in one dimension */
            at += strcspn(at, ",}");
        }
        at = skip_blanks(at);
        if (*at == ',') ++at;
    }
    return at != NULL && has_type && has_shape ? DCPAR_OK : refuse_header(path, error);
}

/* Reads the size of the header, then the header, then what it says. */
static dcpar_status read_header(int file, const char *path, int64_t bytes, npy *array, dcpar_error *error) {
    unsigned char start[MAGIC_BYTES + 2 + 4];
    int64_t got = 0;
    DCPAR_TRY(dcpar_file_read_at(file, path, 0, start, sizeof start, &got, error));
    if (got < (int64_t)sizeof start || memcmp(start, MAGIC, MAGIC_BYTES) != 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s does not start as a .npy file does", path);
    const int version = start[MAGIC_BYTES];
    if (version < 1 || version > 3)
        return dcpar_fail(error, DCPAR_UNSUPPORTED, "%s has version %d of .npy: 1, 2 and 3 are known", path, version);
    const int64_t size_bytes = version == 1 ? 2 : 4;
    int64_t size = 0;
    DCPAR_TRY(dcpar_integers_read(file, path, MAGIC_BYTES + 2, (dcpar_integer_type){(int32_t)size_bytes, false, false},
                                  1, &size, error));
    array->offset = MAGIC_BYTES + 2 + size_bytes + size;
    if (size > HEADER_LIMIT || array->offset > bytes) return refuse_header(path, error);
    char *header = malloc((size_t)size + 1);
    if (header == NULL) return dcpar_fail_memory(error, "the header of a .npy file");
    dcpar_status status = dcpar_file_read_exactly(file, path, MAGIC_BYTES + 2 + size_bytes, header, size, error);
    header[size] = '\0';
    if (status == DCPAR_OK) status = parse_header(header, path, array, error);
    free(header);
    return status;
}

static dcpar_status read_values(int file, const char *path, const npy *array, int64_t *values, dcpar_error *error) {
    for (int64_t first = 0; first < array->count; first += DCPAR_INTEGERS_AT_ONCE) {
        const int64_t left = array->count - first;
        const int64_t part = left < DCPAR_INTEGERS_AT_ONCE ? left : DCPAR_INTEGERS_AT_ONCE;
        DCPAR_TRY(dcpar_integers_read(file, path, array->offset + first * array->type.bytes, array->type, part,
                                      values + first, error));
        for (int64_t row = first; row < first + part; ++row)
            if (values[row] < 0 || values[row] > DCPAR_LENGTH_MAX)
                return dcpar_fail(error, DCPAR_INVALID, "%s, row %lld: length %lld is %s", path, (long long)row,
                                  (long long)values[row], values[row] < 0 ? "negative" : "above 2^40");
    }
    return DCPAR_OK;
}

dcpar_status dcpar_lengths_read_npy(int file, const char *path, int64_t **lengths, int64_t *count, dcpar_error *error) {
    npy array = {{0, false, false}, 0, 0};
    int64_t bytes = 0;
    DCPAR_TRY(dcpar_file_size(file, path, &bytes, error));
    DCPAR_TRY(read_header(file, path, bytes, &array, error));
    const int64_t room = bytes - array.offset;
    if (array.count > room / array.type.bytes || array.count * array.type.bytes != room)
        return dcpar_fail(error, DCPAR_INVALID, "%s should hold %lld integers of %d bytes, but has %lld bytes of them",
                          path, (long long)array.count, array.type.bytes, (long long)room);
    int64_t *values = malloc(((size_t)array.count + 1) * sizeof *values);
    if (values == NULL) return dcpar_fail_memory(error, "lengths");
    const dcpar_status status = read_values(file, path, &array, values, error);
    if (status != DCPAR_OK) {
        free(values);
        return status;
    }
    *lengths = values;
    *count = array.count;
    return DCPAR_OK;
}
