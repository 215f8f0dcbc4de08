/* Pieces: sequences above a limit cut into several, so that every piece fits (`--on-too-long=split`).
 *
 * A sequence of n > limit tokens becomes ceil(n / limit) pieces: all of `limit` tokens but the last, which has what is
 * left. Shorter sequences, empty ones too, are one piece each. Pieces stand in the order of rows, then tokens: piece
 * numbers take the place of row numbers from there on. Everything here is local; a dcpar_pieces is never changed once
 * made, so that several threads may use it. */
#ifndef DCPAR_DATA_PIECES_H
#define DCPAR_DATA_PIECES_H

#include "data/dataset.h"

typedef struct dcpar_pieces dcpar_pieces;

/* Cuts lengths[count] (not kept) at `limit` >= 1 tokens. DCPAR_INVALID for a limit below 1 or a length that is negative
 * or above DCPAR_LENGTH_MAX, naming the row. Memory: 8 bytes a piece and 8 a row. */
dcpar_status dcpar_pieces_create(const int64_t *lengths, int64_t count, int64_t limit, dcpar_pieces **out,
                                 dcpar_error *error);
void dcpar_pieces_destroy(dcpar_pieces *pieces);

int64_t dcpar_pieces_count(const dcpar_pieces *pieces);
const int64_t *dcpar_pieces_lengths(const dcpar_pieces *pieces); /* [count] */
int64_t dcpar_pieces_cut(const dcpar_pieces *pieces);            /* how many sequences were cut */

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
