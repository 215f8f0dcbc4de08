/* Datasets: where sequences come from. Every reader gives the same three things: how many sequences, how long each
 * is, and the tokens of one by row number.
 *
 * dcpar_dataset_read may be called by several threads at the same time (ranks may be threads); every other function
 * by one thread at a time, and not while another one reads. All of them are local. */
#ifndef DCPAR_DATA_DATASET_H
#define DCPAR_DATA_DATASET_H

#include "dcpar.h"

typedef struct dcpar_dataset dcpar_dataset;

/* Opens, by looking at what `path` is:
 *   a folder            every regular file below it (recursively, hidden names and links left out, sorted by path as
 *                       plain bytes) is one sequence of bytes: tokens 0..255
 *   NAME.fa .fasta .faa .fna   every FASTA record is one sequence of its residues' bytes (blanks, line breaks and lines
 *                       that start with ';' left out); gzip is refused
 *   NAME.bin / NAME.idx / NAME Megatron's indexed dataset of integer tokens: every sequence (not document) is one
 *                       sequence of tokens
 * Contents stay on disk: memory is 8 bytes a sequence for its length, and for finding it the path of a file, 16 bytes
 * (and 8 more per 65,536 residues) of a FASTA record, 8 bytes of a Megatron sequence.
 * DCPAR_IO when something cannot be read, DCPAR_INVALID when it is not what it should be; both name the file and the
 * line or sequence. A dataset without sequences is no error. */
dcpar_status dcpar_dataset_open(const char *path, dcpar_dataset **out, dcpar_error *error);
void dcpar_dataset_close(dcpar_dataset *dataset);

int64_t dcpar_dataset_count(const dcpar_dataset *dataset);
const int64_t *dcpar_dataset_lengths(const dcpar_dataset *dataset); /* [count]; 0 for an empty sequence */

/* *vocabulary: every token is below it. 256 where tokens are bytes (128 where they are signed). For wider tokens the
 * first call reads the whole dataset, and fails as dcpar_dataset_read does; later calls know the answer. */
dcpar_status dcpar_dataset_vocabulary(dcpar_dataset *dataset, int64_t *vocabulary, dcpar_error *error);

/* Copies `count` tokens of sequence `row` from its token `first` on. DCPAR_INVALID when they are not all inside the
 * sequence, or when a token is negative or above 2^31 - 1, naming the sequence. A file that has become shorter since it
 * was opened is DCPAR_IO and named. On failure tokens[] is undefined. */
dcpar_status dcpar_dataset_read(const dcpar_dataset *dataset, int64_t row, int64_t first, int64_t count,
                                int32_t *tokens, dcpar_error *error);

/* A hash of kind, count and all lengths: what a resumed run compares. */
uint64_t dcpar_dataset_fingerprint(const dcpar_dataset *dataset);

/* One line for a person: kind, path, number of sequences and tokens. */
const char *dcpar_dataset_describe(const dcpar_dataset *dataset);

/* Reads LENGTHS: a text file of one integer a line ("-" is standard input), a .npy file of integers (any integer type,
 * one dimension, little or big endian), any dataset that dcpar_dataset_open takes, or lengths drawn from a
 * distribution:
 *
 *     lognormal:mean=M,sigma=S                         exp(normal) with this mean; sigma is the normal's deviation
 *     bimodal:short=M,long=M,share=Q,sigma=S           two of them; Q of the sequences are of the long kind
 *     uniform:max=N    zipf:exponent=A,max=N           a density of x^-A    pareto:alpha=A    P(> x) = (min / x)^A
 *
 * each with count=100000, min=1, max=2^40 and seed=0, where not given; what falls outside becomes min or max. A row's
 * length depends on the seed and the row alone. A file of such a name is read as "./lognormal:...".
 *
 * Refused as DCPAR_INVALID, naming the file and the line (from 1) or row (from 0): a text line that is not an integer,
 * a negative length, one above 2^40. Zeros are kept (the planner counts them as dropped: "empty"). In text a last
 * newline, blank lines at the end, blanks around the number, \r\n and lines that start with '#' are fine. A file
 * without lengths gives *count = 0 and is no error. *lengths is malloc'ed, never NULL; the caller frees it. Memory: 8
 * bytes a length. */
dcpar_status dcpar_lengths_read(const char *path, int64_t **lengths, int64_t *count, dcpar_error *error);

/* Whether LENGTHS names a distribution, not a file. */
bool dcpar_lengths_is_drawn(const char *text);

#endif
