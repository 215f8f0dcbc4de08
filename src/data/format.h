/* The seam between datasets and their file formats: each format is one file and one table of functions. */
#ifndef DCPAR_DATA_FORMAT_H
#define DCPAR_DATA_FORMAT_H

#include "data/dataset.h"

#define DCPAR_VOCABULARY_UNKNOWN (-1)

typedef struct dcpar_format {
    const char *kind; /* part of the fingerprint: it never changes */

    /* Whether `path` is to be opened by this format; says nothing of what is inside. */
    bool (*recognises)(const char *path);

    /* Sets count, lengths and content, and the vocabulary if it is known without reading all tokens. After a failure
     * `close` is called too, with whatever content there is by then (or NULL). */
    dcpar_status (*open)(const char *path, dcpar_dataset *dataset, dcpar_error *error);

    /* As dcpar_dataset_read, with arguments that have been checked; for several threads at a time. */
    dcpar_status (*read)(const dcpar_dataset *dataset, int64_t row, int64_t first, int64_t count, int32_t *tokens,
                         dcpar_error *error);

    void (*close)(void *content);
} dcpar_format;

struct dcpar_dataset {
    const dcpar_format *format;
    int64_t count;
    int64_t *lengths; /* [count], malloc'ed, owned */
    int64_t vocabulary;
    void *content; /* the format's own */
    char *description;
};

extern const dcpar_format dcpar_format_folder, dcpar_format_fasta, dcpar_format_megatron;

/* The format that recognises `path`, or NULL. */
const dcpar_format *dcpar_format_find(const char *path);

/* The two kinds of LENGTHS that are files but not datasets; `file` is open, `path` is for messages. As
 * dcpar_lengths_read. */
dcpar_status dcpar_lengths_read_text(int file, const char *path, int64_t **lengths, int64_t *count, dcpar_error *error);
dcpar_status dcpar_lengths_read_npy(int file, const char *path, int64_t **lengths, int64_t *count, dcpar_error *error);

/* Lengths drawn from the distribution that `text` names, as dcpar_lengths_read. */
dcpar_status dcpar_lengths_draw(const char *text, int64_t **lengths, int64_t *count, dcpar_error *error);

/* Whether the file starts as .npy files do; false for what cannot be read twice, a pipe. */
bool dcpar_lengths_is_npy(int file);

#endif
