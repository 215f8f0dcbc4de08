/* Reading files, with sentences that name them. Everything here may be called by several threads at a time. */
#ifndef DCPAR_BASE_FILE_H
#define DCPAR_BASE_FILE_H

#include "dcpar.h"

/* DCPAR_IO, "cannot VERB PATH: why", where `code` is an errno. */
dcpar_status dcpar_file_fail(dcpar_error *error, const char *verb, const char *path, int code);

/* Opens for reading; the caller closes *file. */
dcpar_status dcpar_file_open(const char *path, int *file, dcpar_error *error);

/* The size of a regular file; anything else is refused. */
dcpar_status dcpar_file_size(int file, const char *path, int64_t *bytes, dcpar_error *error);

/* Reads up to `capacity` bytes, fewer (*got) only at the end of the file: from `offset` on, or from where the last
 * dcpar_file_read_next of a file or pipe ended. */
dcpar_status dcpar_file_read_at(int file, const char *path, int64_t offset, void *buffer, int64_t capacity,
                                int64_t *got, dcpar_error *error);
dcpar_status dcpar_file_read_next(int file, const char *path, void *buffer, int64_t capacity, int64_t *got,
                                  dcpar_error *error);

/* Reads exactly `bytes` bytes; the end of the file before that is dcpar_file_fail_shorter. */
dcpar_status dcpar_file_read_exactly(int file, const char *path, int64_t offset, void *buffer, int64_t bytes,
                                     dcpar_error *error);
dcpar_status dcpar_file_fail_shorter(dcpar_error *error, const char *path);

/* DCPAR_UNSUPPORTED when the first bytes of a file are those of gzip. */
dcpar_status dcpar_file_refuse_gzip(const void *start, int64_t bytes, const char *path, dcpar_error *error);

/* Whether `path` ends in `suffix`, upper or lower case. */
bool dcpar_path_ends_in(const char *path, const char *suffix);

#endif
