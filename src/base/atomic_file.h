/* Files that are there whole or not at all: written beside their path under a name of their own, and renamed to it once
 * everything is on disk. Local; one thread at a time. */
#ifndef DCPAR_BASE_ATOMIC_FILE_H
#define DCPAR_BASE_ATOMIC_FILE_H

#include "dcpar.h"

typedef struct dcpar_atomic_file dcpar_atomic_file;

/* Begins a file that is to stand under `path`, or where the symbolic link there leads. Every failure here and below is
 * DCPAR_IO and names `path`. */
dcpar_status dcpar_atomic_file_create(const char *path, dcpar_atomic_file **out, dcpar_error *error);

/* Writes the next `bytes` bytes. After a failure the file can only be abandoned. */
dcpar_status dcpar_atomic_file_append(dcpar_atomic_file *file, const void *data, int64_t bytes, dcpar_error *error);

/* Waits until everything is on disk, then puts the file under its path, replacing what was there. `file` is gone
 * afterwards, whatever is returned. After a failure what was under the path is unharmed, unless it is only the
 * directory that could not be brought to disk: then the new file stands there, whole. */
dcpar_status dcpar_atomic_file_commit(dcpar_atomic_file *file, dcpar_error *error);

/* Removes what was written. NULL is allowed. */
void dcpar_atomic_file_abandon(dcpar_atomic_file *file);

#endif
