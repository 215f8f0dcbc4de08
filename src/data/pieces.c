#include "data/pieces.h"

#include <stdlib.h>

#include "base/error.h"

struct dcpar_pieces {
    int64_t limit, rows, count, cut;
    int64_t *lengths;     /* [count] */
    int64_t *first_piece; /* [rows + 1] of each row; the last is `count` */
};

static int64_t pieces_of(int64_t length, int64_t limit) { return length <= limit ? 1 : (length - 1) / limit + 1; }

/* How many pieces there will be. Their number may be absurd, but it does not overflow: it stays below the number of
 * bytes that could be addressed. */
static dcpar_status count_pieces(const int64_t *lengths, int64_t rows, int64_t limit, int64_t *count,
                                 dcpar_error *error) {
    const int64_t most = INT64_MAX / (int64_t)sizeof *lengths - 1;
    int64_t sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
        if (lengths[row] < 0 || lengths[row] > DCPAR_LENGTH_MAX)
            return dcpar_fail(error, DCPAR_INVALID, "row %lld has length %lld, which is not between 0 and 2^40",
                              (long long)row, (long long)lengths[row]);
        const int64_t added = pieces_of(lengths[row], limit);
        if (added > most - sum) return dcpar_fail_memory(error, "the pieces of sequences that were cut");
        sum += added;
    }
    *count = sum;
    return DCPAR_OK;
}

static void fill(dcpar_pieces *pieces, const int64_t *lengths) {
    int64_t piece = 0;
    for (int64_t row = 0; row < pieces->rows; ++row) {
        pieces->first_piece[row] = piece;
        int64_t left = lengths[row];
        for (; left > pieces->limit; left -= pieces->limit) pieces->lengths[piece++] = pieces->limit;
        pieces->lengths[piece++] = left;
        if (lengths[row] > pieces->limit) ++pieces->cut;
    }
    pieces->first_piece[pieces->rows] = piece;
}

dcpar_status dcpar_pieces_create(const int64_t *lengths, int64_t count, int64_t limit, dcpar_pieces **out,
                                 dcpar_error *error) {
    if (limit < 1)
        return dcpar_fail(error, DCPAR_INVALID, "sequences cannot be cut into pieces of %lld tokens", (long long)limit);
    int64_t total = 0;
    DCPAR_TRY(count_pieces(lengths, count, limit, &total, error));
    dcpar_pieces *pieces = calloc(1, sizeof *pieces);
    if (pieces == NULL) return dcpar_fail_memory(error, "the pieces of sequences that were cut");
    pieces->limit = limit;
    pieces->rows = count;
    pieces->count = total;
    pieces->lengths = malloc(((size_t)total + 1) * sizeof *pieces->lengths);
    pieces->first_piece = malloc(((size_t)count + 1) * sizeof *pieces->first_piece);
    if (pieces->lengths == NULL || pieces->first_piece == NULL) {
        dcpar_pieces_destroy(pieces);
        return dcpar_fail_memory(error, "the pieces of sequences that were cut");
    }
    fill(pieces, lengths);
    *out = pieces;
    return DCPAR_OK;
}

void dcpar_pieces_destroy(dcpar_pieces *pieces) {
    if (pieces == NULL) return;
    free(pieces->lengths);
    free(pieces->first_piece);
    free(pieces);
}

int64_t dcpar_pieces_count(const dcpar_pieces *pieces) { return pieces->count; }

const int64_t *dcpar_pieces_lengths(const dcpar_pieces *pieces) { return pieces->lengths; }

int64_t dcpar_pieces_cut(const dcpar_pieces *pieces) { return pieces->cut; }

dcpar_piece dcpar_pieces_locate(const dcpar_pieces *pieces, int64_t piece) {
    int64_t low = 0, high = pieces->rows; /* first_piece[low] <= piece < first_piece[high] */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (pieces->first_piece[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    return (dcpar_piece){low, (piece - pieces->first_piece[low]) * pieces->limit, pieces->lengths[piece]};
}

dcpar_status dcpar_pieces_read(const dcpar_pieces *pieces, const dcpar_dataset *dataset, int64_t piece, int64_t first,
                               int64_t count, int32_t *tokens, dcpar_error *error) {
    if (piece < 0 || piece >= pieces->count)
        return dcpar_fail(error, DCPAR_INVALID, "piece %lld is not among the %lld pieces", (long long)piece,
                          (long long)pieces->count);
    const dcpar_piece at = dcpar_pieces_locate(pieces, piece);
    if (first < 0 || count < 0 || first > at.length - count)
        return dcpar_fail(error, DCPAR_INVALID,
                          "piece %lld (row %lld) has %lld tokens: cannot read %lld from token %lld on",
                          (long long)piece, (long long)at.row, (long long)at.length, (long long)count,
                          (long long)first);
    return dcpar_dataset_read(dataset, at.row, at.first + first, count, tokens, error);
}
