/* Datasets: where sequences come from. Every reader gives the same three things: how many sequences, how long each
 * is, and the tokens of one by row number. */
#ifndef DCPAR_DATA_DATASET_H
#define DCPAR_DATA_DATASET_H

#include "dcpar.h"

typedef struct dcpar_dataset dcpar_dataset;

/* Opens, by looking at what `path` is:
 *   a folder            every regular file below it (recursively, hidden names and links left out, sorted by path) is
 *                       one sequence of bytes: tokens 0..255
 *   NAME.fa .fasta .faa .fna   every FASTA record is one sequence of its residues' bytes (line breaks left out)
 *   NAME.bin / NAME.idx / NAME Megatron's indexed dataset: every sequence (not document) is one sequence of tokens
 * Errors name the file (and record). */
dcpar_status dcpar_dataset_open(const char *path, dcpar_dataset **out, dcpar_error *error);
void dcpar_dataset_close(dcpar_dataset *dataset);

int64_t dcpar_dataset_count(const dcpar_dataset *dataset);
const int64_t *dcpar_dataset_lengths(const dcpar_dataset *dataset); /* [count]; 0 for an empty sequence */
int64_t dcpar_dataset_vocabulary(const dcpar_dataset *dataset);     /* every token is below it */

/* Copies `count` tokens of sequence `row` from its token `first` on. A file that has become shorter since it was opened
 * is an error that names it. */
dcpar_status dcpar_dataset_read(const dcpar_dataset *dataset, int64_t row, int64_t first, int64_t count,
                                int32_t *tokens, dcpar_error *error);

/* A hash of kind, count and all lengths: what a resumed run compares. */
uint64_t dcpar_dataset_fingerprint(const dcpar_dataset *dataset);

/* One line for a person: kind, path, number of sequences and tokens. */
const char *dcpar_dataset_describe(const dcpar_dataset *dataset);

/* Reads LENGTHS: a text file of one integer a line ("-" is standard input), a .npy file of integers (any integer type,
 * one dimension, little or big endian), or any dataset that dcpar_dataset_open takes. A text line that is not an integer,
 * a negative length, or one above 2^40 is refused, naming the file and the line (from 1) or row (from 0). Zeros are kept
 * (the planner counts them as dropped: "empty"). *lengths is malloc'ed; the caller frees it. A last newline, blank
 * lines at the end, and \r\n are fine. */
dcpar_status dcpar_lengths_read(const char *path, int64_t **lengths, int64_t *count, dcpar_error *error);

#endif
