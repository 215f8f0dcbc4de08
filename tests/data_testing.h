/* What the tests of readers and writers share: each test runs in an empty folder of its own, so that it can name files
 * plainly, and the folder is removed after it. */
#ifndef DCPAR_DATA_TESTING_H
#define DCPAR_DATA_TESTING_H

#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "data/dataset.h"
#include "testing.h"

#define in_folder(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

static int enter_folder(void **state) {
    char *folder = strdup("/tmp/dcpar-test-XXXXXX");
    if (folder == NULL || mkdtemp(folder) == NULL || chdir(folder) != 0) return -1;
    *state = folder;
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static int leave_folder(void **state) {
    char *folder = *state;
    const int failed = chdir("/") != 0 || nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0;
    free(folder);
    return failed ? -1 : 0;
}

static inline void write_bytes(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text) { write_bytes(path, text, strlen(text)); }

/* The whole file, malloc'ed. */
static inline unsigned char *read_bytes(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *count = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*count + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    fclose(file);
    return bytes;
}

/* The call fails with `wanted`, and its sentence holds `part`. */
#define assert_fails(call, wanted, part)                                                                               \
    do {                                                                                                               \
        error.text[0] = '\0';                                                                                          \
        const dcpar_status status_ = (call);                                                                           \
        if (status_ != (wanted) || strstr(error.text, (part)) == NULL)                                                 \
            fail_msg("%s: %s: \"%s\" should be %s with \"%s\"", #call, dcpar_status_name(status_), error.text,         \
                     dcpar_status_name(wanted), (part));                                                               \
    } while (0)

static inline dcpar_dataset *open_dataset(const char *path) {
    dcpar_error error;
    dcpar_dataset *dataset = NULL;
    assert_ok(dcpar_dataset_open(path, &dataset, &error));
    return dataset;
}

static inline void refuse_dataset(const char *path, dcpar_status wanted, const char *part) {
    dcpar_error error;
    dcpar_dataset *dataset = NULL;
    assert_fails(dcpar_dataset_open(path, &dataset, &error), wanted, part);
    assert_null(dataset);
}

/* Row `row` holds exactly the bytes of `text`. */
static inline void check_text_row(const dcpar_dataset *dataset, int64_t row, const char *text) {
    dcpar_error error;
    int32_t tokens[256];
    const int64_t length = (int64_t)strlen(text);
    assert_int_equal(dcpar_dataset_lengths(dataset)[row], length);
    assert_ok(dcpar_dataset_read(dataset, row, 0, length, tokens, &error));
    for (int64_t i = 0; i < length; ++i) assert_int_equal(tokens[i], (unsigned char)text[i]);
}

/* A thread that reads random slices of random rows and counts what is not wanted[row][token]. */
typedef struct slice_reader {
    const dcpar_dataset *dataset;
    int32_t *const *wanted;
    uint64_t seed, number;
    int64_t wrong;
} slice_reader;

static inline void *read_slices(void *argument) {
    slice_reader *reader = argument;
    const int64_t *lengths = dcpar_dataset_lengths(reader->dataset), rows = dcpar_dataset_count(reader->dataset);
    for (uint64_t i = 0; i < 100; ++i) {
        const uint64_t number = dcpar_random(reader->seed, reader->number, i);
        const int64_t row = (int64_t)(number % (uint64_t)rows);
        const int64_t first = (int64_t)(number >> 16 & 0xffffff) % (lengths[row] + 1);
        const int64_t count = (int64_t)(number >> 40) % (lengths[row] - first + 1);
        int32_t *tokens = malloc(((size_t)count + 1) * sizeof *tokens);
        if (tokens == NULL || dcpar_dataset_read(reader->dataset, row, first, count, tokens, NULL) != DCPAR_OK)
            ++reader->wrong;
        else
            reader->wrong += memcmp(tokens, reader->wanted[row] + first, (size_t)count * sizeof *tokens) != 0;
        free(tokens);
    }
    return NULL;
}

/* Four threads read random slices at the same time. */
static inline void check_slices(const dcpar_dataset *dataset, int32_t *const *wanted, uint64_t seed) {
    enum { readers = 4 };
    pthread_t threads[readers];
    slice_reader each[readers];
    print_message("seed %" PRIu64 "\n", seed);
    for (int i = 0; i < readers; ++i) {
        each[i] = (slice_reader){dataset, wanted, seed, (uint64_t)i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_slices, &each[i]), 0);
    }
    for (int i = 0; i < readers; ++i) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < readers; ++i) assert_int_equal(each[i].wrong, 0);
}

#endif
