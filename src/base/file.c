#define _POSIX_C_SOURCE 200809L
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

dcpar_status dcpar_file_fail(dcpar_error *error, const char *verb, const char *path, int code) {
    char reason[128];
    if (strerror_r(code, reason, sizeof reason) != 0)
        return dcpar_fail(error, DCPAR_IO, "cannot %s %s: error %d", verb, path, code);
    return dcpar_fail(error, DCPAR_IO, "cannot %s %s: %s", verb, path, reason);
}

dcpar_status dcpar_file_open(const char *path, int *file, dcpar_error *error) {
    const int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0) return dcpar_file_fail(error, "open", path, errno);
    *file = opened;
    return DCPAR_OK;
}

dcpar_status dcpar_file_size(int file, const char *path, int64_t *bytes, dcpar_error *error) {
    struct stat status;
    if (fstat(file, &status) != 0) return dcpar_file_fail(error, "read the size of", path, errno);
    if (!S_ISREG(status.st_mode)) return dcpar_fail(error, DCPAR_INVALID, "%s is not a regular file", path);
    *bytes = (int64_t)status.st_size;
    return DCPAR_OK;
}

dcpar_status dcpar_file_read_at(int file, const char *path, int64_t offset, void *buffer, int64_t capacity,
                                int64_t *got, dcpar_error *error) {
    int64_t done = 0;
    while (done < capacity) {
        const ssize_t part = pread(file, (char *)buffer + done, (size_t)(capacity - done), (off_t)(offset + done));
        if (part == 0) break;
        if (part > 0)
            done += part;
        else if (errno != EINTR)
            return dcpar_file_fail(error, "read", path, errno);
    }
    *got = done;
    return DCPAR_OK;
}

dcpar_status dcpar_file_read_next(int file, const char *path, void *buffer, int64_t capacity, int64_t *got,
                                  dcpar_error *error) {
    int64_t done = 0;
    while (done < capacity) {
        const ssize_t part = read(file, (char *)buffer + done, (size_t)(capacity - done));
        if (part == 0) break;
        if (part > 0)
            done += part;
        else if (errno != EINTR)
            return dcpar_file_fail(error, "read", path, errno);
    }
    *got = done;
    return DCPAR_OK;
}

dcpar_status dcpar_file_read_exactly(int file, const char *path, int64_t offset, void *buffer, int64_t bytes,
                                     dcpar_error *error) {
    int64_t got = 0;
    DCPAR_TRY(dcpar_file_read_at(file, path, offset, buffer, bytes, &got, error));
    return got == bytes ? DCPAR_OK : dcpar_file_fail_shorter(error, path);
}

dcpar_status dcpar_file_fail_shorter(dcpar_error *error, const char *path) {
    return dcpar_fail(error, DCPAR_IO, "%s has become shorter since it was opened", path);
}

dcpar_status dcpar_file_refuse_gzip(const void *start, int64_t bytes, const char *path, dcpar_error *error) {
    if (bytes < 2 || memcmp(start, "\x1f\x8b", 2) != 0) return DCPAR_OK;
    return dcpar_fail(error, DCPAR_UNSUPPORTED, "%s is compressed with gzip: gunzip it first", path);
}

bool dcpar_path_ends_in(const char *path, const char *suffix) {
    const size_t length = strlen(path), end = strlen(suffix);
    return length >= end && strcasecmp(path + length - end, suffix) == 0;
}
