#include "data/pieces.h"

#include <stdlib.h>

#include "base/error.h"

struct dcpar_pieces {
    int64_t limit, rows, count, cut;
    int64_t *row;         /* [rows] of the dataset, increasing; NULL: all of them */
    int64_t *lengths;     /* [count] */
    int64_t *first_piece; /* [rows + 1] of each row; the last is `count` */
};

static const char *const what = "the pieces of sequences";

static int64_t used_of(int64_t length, int64_t truncate) {
    return truncate > 0 && length > truncate ? truncate : length;
}

static int64_t pieces_of(int64_t length, int64_t limit) { return length <= limit ? 1 : (length - 1) / limit + 1; }

static dcpar_status check(const int64_t *lengths, int64_t rows, const dcpar_piece_options *options,
                          dcpar_error *error) {
    if (options->truncate < 0 || options->sample < 0 || options->limit < 0)
        return dcpar_fail(error, DCPAR_INVALID,
                          "sequences cannot be truncated to %lld, sampled to %lld or cut into pieces of %lld tokens",
                          (long long)options->truncate, (long long)options->sample, (long long)options->limit);
    for (int64_t row = 0; row < rows; ++row)
        if (lengths[row] < 0 || lengths[row] > DCPAR_LENGTH_MAX)
            return dcpar_fail(error, DCPAR_INVALID, "row %lld has length %lld, which is not between 0 and 2^40",
                              (long long)row, (long long)lengths[row]);
    return DCPAR_OK;
}

/* Draws rows until they have `sample` tokens together, or all are drawn. */
static dcpar_status draw(dcpar_pieces *pieces, const int64_t *lengths, int64_t rows, const dcpar_piece_options *options,
                         dcpar_error *error) {
    bool *drawn = calloc((size_t)rows + 1, sizeof *drawn);
    if (drawn == NULL) return dcpar_fail_memory(error, what);
    int64_t tokens = 0;
    pieces->rows = 0;
    for (int64_t i = 0; i < rows && tokens < options->sample; ++i, ++pieces->rows) {
        const int64_t row = dcpar_stream_row(options->seed, -1, rows, i); /* an order that is no epoch's */
        drawn[row] = true;
        tokens += used_of(lengths[row], options->truncate);
    }
    pieces->row = malloc(((size_t)pieces->rows + 1) * sizeof *pieces->row);
    if (pieces->row != NULL)
        for (int64_t row = 0, next = 0; row < rows; ++row)
            if (drawn[row]) pieces->row[next++] = row;
    free(drawn);
    return pieces->row != NULL ? DCPAR_OK : dcpar_fail_memory(error, what);
}

static int64_t row_of(const dcpar_pieces *pieces, int64_t i) { return pieces->row != NULL ? pieces->row[i] : i; }

/* How many pieces there will be. Their number may be absurd, but it does not overflow: it stays below the number of
 * bytes that could be addressed. */
static dcpar_status count_pieces(dcpar_pieces *pieces, const int64_t *lengths, int64_t truncate, dcpar_error *error) {
    const int64_t most = INT64_MAX / (int64_t)sizeof *lengths - 1;
    for (int64_t i = 0; i < pieces->rows; ++i) {
        const int64_t added = pieces_of(used_of(lengths[row_of(pieces, i)], truncate), pieces->limit);
        if (added > most - pieces->count) return dcpar_fail_memory(error, what);
        pieces->count += added;
    }
    return DCPAR_OK;
}

static void fill(dcpar_pieces *pieces, const int64_t *lengths, int64_t truncate) {
    int64_t piece = 0;
    for (int64_t i = 0; i < pieces->rows; ++i) {
        pieces->first_piece[i] = piece;
        int64_t left = used_of(lengths[row_of(pieces, i)], truncate);
        if (left > pieces->limit) ++pieces->cut;
        for (; left > pieces->limit; left -= pieces->limit) pieces->lengths[piece++] = pieces->limit;
        pieces->lengths[piece++] = left;
    }
    pieces->first_piece[pieces->rows] = piece;
}

static dcpar_status make(dcpar_pieces *pieces, const int64_t *lengths, int64_t rows, const dcpar_piece_options *options,
                         dcpar_error *error) {
    pieces->limit = options->limit > 0 ? options->limit : DCPAR_LENGTH_MAX;
    pieces->rows = rows;
    if (options->sample > 0) DCPAR_TRY(draw(pieces, lengths, rows, options, error));
    DCPAR_TRY(count_pieces(pieces, lengths, options->truncate, error));
    pieces->lengths = malloc(((size_t)pieces->count + 1) * sizeof *pieces->lengths);
    pieces->first_piece = malloc(((size_t)pieces->rows + 1) * sizeof *pieces->first_piece);
    if (pieces->lengths == NULL || pieces->first_piece == NULL) return dcpar_fail_memory(error, what);
    fill(pieces, lengths, options->truncate);
    return DCPAR_OK;
}

dcpar_status dcpar_pieces_create(const int64_t *lengths, int64_t count, const dcpar_piece_options *options,
                                 dcpar_pieces **out, dcpar_error *error) {
    DCPAR_TRY(check(lengths, count, options, error));
    dcpar_pieces *pieces = calloc(1, sizeof *pieces);
    if (pieces == NULL) return dcpar_fail_memory(error, what);
    const dcpar_status status = make(pieces, lengths, count, options, error);
    if (status == DCPAR_OK)
        *out = pieces;
    else
        dcpar_pieces_destroy(pieces);
    return status;
}

void dcpar_pieces_destroy(dcpar_pieces *pieces) {
    if (pieces == NULL) return;
    free(pieces->row);
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
    return (dcpar_piece){row_of(pieces, low), (piece - pieces->first_piece[low]) * pieces->limit,
                         pieces->lengths[piece]};
}

dcpar_status dcpar_pieces_read(const dcpar_pieces *pieces, const dcpar_dataset *dataset, int64_t piece, int64_t first,
                               int64_t count, int32_t *tokens, dcpar_error *error) {
    if (piece < 0 || piece >= pieces->count)
        return dcpar_fail(error, DCPAR_INVALID, "piece %lld is not among the %lld pieces", (long long)piece,
                          (long long)pieces->count);
    const dcpar_piece at = dcpar_pieces_locate(pieces, piece);
    if (first < 0 || count < 0 || first > at.length - count)
        return dcpar_fail(
            error, DCPAR_INVALID, "piece %lld (row %lld) has %lld tokens: cannot read %lld from token %lld on",
            (long long)piece, (long long)at.row, (long long)at.length, (long long)count, (long long)first);
    return dcpar_dataset_read(dataset, at.row, at.first + first, count, tokens, error);
}
