/* A folder: every regular file below it is one sequence of bytes. Files are opened when they are read. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "data/format.h"

typedef struct entry {
    char *path; /* below the root; "" is the root */
    int64_t bytes;
} entry;

typedef struct entry_list {
    entry *items;
    int64_t count, capacity;
} entry_list;

typedef struct folder {
    char *root;
    int root_file; /* paths are opened relative to it, so that a change of the working directory does no harm */
    entry_list files, pending; /* pending: folders yet to be visited, while the dataset is opened */
} folder;

static dcpar_status add_entry(entry_list *list, const char *parent, const char *name, int64_t bytes,
                              dcpar_error *error) {
    if (list->count == list->capacity) {
        const int64_t capacity = list->capacity == 0 ? 64 : list->capacity + list->capacity / 2;
        entry *items = realloc(list->items, (size_t)capacity * sizeof *items);
        if (items == NULL) return dcpar_fail_memory(error, "the files of a folder");
        list->items = items;
        list->capacity = capacity;
    }
    const size_t size = strlen(parent) + strlen(name) + 2;
    entry *added = &list->items[list->count];
    added->path = malloc(size);
    if (added->path == NULL) return dcpar_fail_memory(error, "the files of a folder");
    snprintf(added->path, size, "%s%s%s", parent, *parent == '\0' ? "" : "/", name);
    added->bytes = bytes;
    ++list->count;
    return DCPAR_OK;
}

static void free_entries(entry_list *list) {
    for (int64_t i = 0; i < list->count; ++i) free(list->items[i].path);
    free(list->items);
}

/* Fails with the whole path: the root, the folder below it (may be "") and the name in that (may be ""). */
static dcpar_status fail_at(const folder *content, const char *verb, const char *parent, const char *name, int code,
                            dcpar_error *error) {
    char path[sizeof error->text];
    snprintf(path, sizeof path, "%s%s%s%s%s", content->root, *parent == '\0' ? "" : "/", parent,
             *name == '\0' ? "" : "/", name);
    return dcpar_file_fail(error, verb, path, code);
}

/* Opens a file to learn that it can be read, so that a run does not find out hours later. */
static dcpar_status add_file(folder *content, int parent_file, const char *parent, const char *name,
                             dcpar_error *error) {
    const int file = openat(parent_file, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return fail_at(content, "open", parent, name, errno, error);
    struct stat status;
    const int code = fstat(file, &status) == 0 ? 0 : errno;
    close(file);
    if (code != 0) return fail_at(content, "read the size of", parent, name, code, error);
    return add_entry(&content->files, parent, name, (int64_t)status.st_size, error);
}

static dcpar_status add_name(folder *content, int parent_file, const char *parent, const char *name,
                             dcpar_error *error) {
    if (name[0] == '.') return DCPAR_OK;
    struct stat status;
    if (fstatat(parent_file, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_at(content, "read the kind of", parent, name, errno, error);
    if (S_ISDIR(status.st_mode)) return add_entry(&content->pending, parent, name, 0, error);
    if (S_ISREG(status.st_mode)) return add_file(content, parent_file, parent, name, error);
    return DCPAR_OK;
}

static dcpar_status visit_names(folder *content, DIR *names, const char *parent, dcpar_error *error) {
    for (;;) {
        errno = 0;
        const struct dirent *name = readdir(names);
        if (name == NULL) return errno == 0 ? DCPAR_OK : fail_at(content, "read", parent, "", errno, error);
        DCPAR_TRY(add_name(content, dirfd(names), parent, name->d_name, error));
    }
}

static dcpar_status visit_folder(folder *content, const char *path, dcpar_error *error) {
    const int file =
        openat(content->root_file, *path == '\0' ? "." : path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return fail_at(content, "open", path, "", errno, error);
    DIR *names = fdopendir(file);
    if (names == NULL) {
        const int code = errno;
        close(file);
        return fail_at(content, "open", path, "", code, error);
    }
    const dcpar_status status = visit_names(content, names, path, error);
    closedir(names);
    return status;
}

/* A list of folders to visit instead of recursion: one folder is open at a time, however deep they go. */
static dcpar_status visit_all(folder *content, dcpar_error *error) {
    DCPAR_TRY(add_entry(&content->pending, "", "", 0, error));
    while (content->pending.count > 0) {
        char *path = content->pending.items[--content->pending.count].path;
        const dcpar_status status = visit_folder(content, path, error);
        free(path);
        if (status != DCPAR_OK) return status;
    }
    return DCPAR_OK;
}

/* strcmp compares as unsigned bytes: the order is the same on every machine, whatever its locale. */
static int compare_paths(const void *left, const void *right) {
    return strcmp(((const entry *)left)->path, ((const entry *)right)->path);
}

static bool folder_recognises(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static dcpar_status folder_open(const char *path, dcpar_dataset *dataset, dcpar_error *error) {
    folder *content = calloc(1, sizeof *content);
    if (content == NULL) return dcpar_fail_memory(error, "a folder");
    dataset->content = content;
    content->root_file = -1;
    content->root = strdup(path);
    if (content->root == NULL) return dcpar_fail_memory(error, "a folder");
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; --end) content->root[end - 1] = '\0';
    DCPAR_TRY(dcpar_file_open(path, &content->root_file, error));
    DCPAR_TRY(visit_all(content, error));

    const entry_list *files = &content->files;
    dataset->lengths = malloc(((size_t)files->count + 1) * sizeof *dataset->lengths);
    if (dataset->lengths == NULL) return dcpar_fail_memory(error, "the lengths of a folder's files");
    if (files->count > 0) qsort(files->items, (size_t)files->count, sizeof *files->items, compare_paths);
    for (int64_t row = 0; row < files->count; ++row) dataset->lengths[row] = files->items[row].bytes;
    dataset->count = files->count;
    dataset->vocabulary = 256;
    return DCPAR_OK;
}

static dcpar_status read_bytes(int file, const char *path, int64_t first, int64_t count, int32_t *tokens,
                               dcpar_error *error) {
    unsigned char bytes[32768];
    while (count > 0) {
        const int64_t part = count < (int64_t)sizeof bytes ? count : (int64_t)sizeof bytes;
        DCPAR_TRY(dcpar_file_read_exactly(file, path, first, bytes, part, error));
        for (int64_t i = 0; i < part; ++i) tokens[i] = bytes[i];
        first += part;
        tokens += part;
        count -= part;
    }
    return DCPAR_OK;
}

static dcpar_status folder_read(const dcpar_dataset *dataset, int64_t row, int64_t first, int64_t count,
                                int32_t *tokens, dcpar_error *error) {
    const folder *content = dataset->content;
    const char *path = content->files.items[row].path;
    const int file = openat(content->root_file, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return fail_at(content, "open", path, "", errno, error);
    const dcpar_status status = read_bytes(file, path, first, count, tokens, error);
    close(file);
    return status == DCPAR_OK ? status : dcpar_fail_prefix(error, status, "%s", content->root);
}

static void folder_close(void *opened) {
    folder *content = opened;
    free_entries(&content->files);
    free_entries(&content->pending);
    if (content->root_file >= 0) close(content->root_file);
    free(content->root);
    free(content);
}

const dcpar_format dcpar_format_folder = {"folder", folder_recognises, folder_open, folder_read, folder_close};
