#define _XOPEN_SOURCE 700
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

#define MOST_TRIES 100
#define NAME_ROOM 48 /* what a temporary name is longer than the path */

struct dcpar_atomic_file {
    char *path, *temporary;
    int file; /* -1 when closed */
};

/* What exists is never opened: another writer may be at it, or a link may lead elsewhere. */
static dcpar_status create_temporary(dcpar_atomic_file *file, dcpar_error *error) {
    const size_t size = strlen(file->path) + NAME_ROOM;
    file->temporary = malloc(size);
    if (file->temporary == NULL) return dcpar_fail_memory(error, "a file to write");
    for (int i = 0; i < MOST_TRIES; ++i) {
        snprintf(file->temporary, size, "%s.%ld.%d.tmp", file->path, (long)getpid(), i);
        file->file = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->file >= 0) return DCPAR_OK;
        if (errno != EEXIST) break;
    }
    return dcpar_file_fail(error, "create", file->path, errno);
}

/* The file that `path` names, through symbolic links; it need not exist. malloc'ed. */
static dcpar_status find_target(const char *path, char **target, dcpar_error *error) {
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return dcpar_fail(error, DCPAR_IO, "cannot write %s: it is not a regular file", path);
    const bool link = lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
    *target = link ? realpath(path, NULL) : strdup(path);
    if (*target != NULL) return DCPAR_OK;
    return errno == ENOMEM ? dcpar_fail_memory(error, "a file to write") : dcpar_file_fail(error, "write", path, errno);
}

static void free_file(dcpar_atomic_file *file) {
    free(file->path);
    free(file->temporary);
    free(file);
}

dcpar_status dcpar_atomic_file_create(const char *path, dcpar_atomic_file **out, dcpar_error *error) {
    dcpar_atomic_file *file = calloc(1, sizeof *file);
    if (file == NULL) return dcpar_fail_memory(error, "a file to write");
    file->file = -1;
    dcpar_status status = find_target(path, &file->path, error);
    if (status == DCPAR_OK) status = create_temporary(file, error);
    if (status == DCPAR_OK)
        *out = file;
    else
        free_file(file);
    return status;
}

dcpar_status dcpar_atomic_file_append(dcpar_atomic_file *file, const void *data, int64_t bytes, dcpar_error *error) {
    for (int64_t done = 0; done < bytes;) {
        const ssize_t part = write(file->file, (const char *)data + done, (size_t)(bytes - done));
        if (part >= 0)
            done += part;
        else if (errno != EINTR)
            return dcpar_file_fail(error, "write", file->path, errno);
    }
    return DCPAR_OK;
}

/* A rename is on disk once its directory is. Some file systems cannot say (EINVAL): nothing more can be done then. */
static dcpar_status sync_directory(const char *path, dcpar_error *error) {
    char *directory = strdup(path);
    if (directory == NULL) return dcpar_fail_memory(error, "a file to write");
    char *slash = strrchr(directory, '/');
    if (slash != NULL) slash[slash == directory ? 1 : 0] = '\0';
    const int opened = open(slash == NULL ? "." : directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    const int code = opened >= 0 && fsync(opened) == 0 ? 0 : errno;
    if (opened >= 0) close(opened);
    return code == 0 || code == EINVAL ? DCPAR_OK : dcpar_file_fail(error, "write the directory of", path, code);
}

static dcpar_status finish(dcpar_atomic_file *file, dcpar_error *error) {
    if (fsync(file->file) != 0) return dcpar_file_fail(error, "write", file->path, errno);
    const int closed = close(file->file);
    file->file = -1;
    if (closed != 0) return dcpar_file_fail(error, "write", file->path, errno);
    if (rename(file->temporary, file->path) != 0) return dcpar_file_fail(error, "replace", file->path, errno);
    return DCPAR_OK;
}

dcpar_status dcpar_atomic_file_commit(dcpar_atomic_file *file, dcpar_error *error) {
    const dcpar_status status = finish(file, error);
    if (status != DCPAR_OK) {
        dcpar_atomic_file_abandon(file);
        return status;
    }
    const dcpar_status synced = sync_directory(file->path, error);
    free_file(file);
    return synced;
}

void dcpar_atomic_file_abandon(dcpar_atomic_file *file) {
    if (file == NULL) return;
    if (file->file >= 0) close(file->file);
    unlink(file->temporary);
    free_file(file);
}
