/* What the tests of readers and writers share: each test runs in an empty folder of its own, so that it can name files
 * plainly, and the folder is removed after it. */
#ifndef DCPAR_DATA_TESTING_H
#define DCPAR_DATA_TESTING_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

#endif
