/* Pieces: what is used of a dataset, and in which parts. Sequences may be truncated (`--truncate`), sampled
 * (`--sample`) and cut so that every part fits (`--on-too-long=split`).
 *
 * A sequence of n > limit tokens becomes ceil(n / limit) pieces: all of `limit` tokens but the last, which has what is
 * left. Shorter sequences, empty ones too, are one piece each. Pieces stand in the order of rows, then tokens: piece
 * numbers take the place of row numbers from there on. Everything here is local; a dcpar_pieces is never changed once
 * made, so that several threads may use it. */
#ifndef DCPAR_DATA_PIECES_H
#define DCPAR_DATA_PIECES_H

#include "data/dataset.h"

typedef struct dcpar_pieces dcpar_pieces;

/* In the order in which they apply; 0 of each: everything is used, whole. */
typedef struct dcpar_piece_options {
    int64_t truncate; /* of longer sequences only so many tokens are used, their first */
    int64_t sample;   /* only the first sequences of a random order that together have so many tokens */
    uint64_t seed;    /* of that order */
    int64_t limit;    /* longer sequences are cut into pieces of so many tokens */
} dcpar_piece_options;

/* Pieces of lengths[count] (not kept). DCPAR_INVALID for an option below 0 or a length that is negative or above
 * DCPAR_LENGTH_MAX, naming the row. Memory: 8 bytes a piece and 8 a row; with `sample` 8 more for each of its rows, and
 * while it is drawn one byte for each row there is. */
dcpar_status dcpar_pieces_create(const int64_t *lengths, int64_t count, const dcpar_piece_options *options,
                                 dcpar_pieces **out, dcpar_error *error);
void dcpar_pieces_destroy(dcpar_pieces *pieces);

int64_t dcpar_pieces_count(const dcpar_pieces *pieces);
const int64_t *dcpar_pieces_lengths(const dcpar_pieces *pieces); /* [count] */
int64_t dcpar_pieces_cut(const dcpar_pieces *pieces);            /* how many sequences `limit` cut */

/* Where a piece comes from: the sequence's row and the piece's first token in it. O(log rows).
 * 0 <= piece < count. */
typedef struct dcpar_piece {
    int64_t row, first, length;
} dcpar_piece;
dcpar_piece dcpar_pieces_locate(const dcpar_pieces *pieces, int64_t piece);

/* As dcpar_dataset_read, by piece: copies `count` tokens of `piece` from its token `first` on. `dataset` is the one
 * whose lengths were cut. */
dcpar_status dcpar_pieces_read(const dcpar_pieces *pieces, const dcpar_dataset *dataset, int64_t piece, int64_t first,
                               int64_t count, int32_t *tokens, dcpar_error *error);

#endif
