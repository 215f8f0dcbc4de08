#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "data/format.h"

static dcpar_status read_dataset(const char *path, int64_t **lengths, int64_t *count, dcpar_error *error) {
    dcpar_dataset *dataset = NULL;
    DCPAR_TRY(dcpar_dataset_open(path, &dataset, error));
    *lengths = dataset->lengths;
    *count = dataset->count;
    dataset->lengths = NULL; /* handed over */
    dcpar_dataset_close(dataset);
    return DCPAR_OK;
}

dcpar_status dcpar_lengths_read(const char *path, int64_t **lengths, int64_t *count, dcpar_error *error) {
    if (strcmp(path, "-") == 0) return dcpar_lengths_read_text(STDIN_FILENO, "standard input", lengths, count, error);
    if (dcpar_lengths_is_drawn(path)) return dcpar_lengths_draw(path, lengths, count, error);
    if (dcpar_format_find(path) != NULL) return read_dataset(path, lengths, count, error);
    int file = -1;
    DCPAR_TRY(dcpar_file_open(path, &file, error));
    /* The name alone is enough: a .npy file cut off in its first bytes is to be called that. */
    const bool is_npy = dcpar_path_ends_in(path, ".npy") || dcpar_lengths_is_npy(file);
    const dcpar_status status = is_npy ? dcpar_lengths_read_npy(file, path, lengths, count, error)
                                       : dcpar_lengths_read_text(file, path, lengths, count, error);
    close(file);
    return status;
}
