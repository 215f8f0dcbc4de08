/* Filling micro-batches. */
#include "train/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

void dcpar_batch_destroy(dcpar_batch *batch) {
    free(batch->starts);
    free(batch->input);
    free(batch->target);
    free(batch->position);
    free(batch->sequence);
    free(batch->token_weight);
    memset(batch, 0, sizeof *batch);
}

static bool grow(int32_t **values, int64_t count) {
    int32_t *larger = realloc(*values, (size_t)count * sizeof *larger);
    if (larger != NULL) *values = larger;
    return larger != NULL;
}

static dcpar_status make_room(dcpar_batch *batch, int64_t sequences, int64_t local, int64_t length,
                              dcpar_error *error) {
    if (sequences >= batch->sequence_capacity) {
        int64_t *larger = realloc(batch->starts, (size_t)(sequences + 1) * sizeof *larger);
        if (larger == NULL) return dcpar_fail_memory(error, "a micro-batch");
        batch->starts = larger;
        batch->sequence_capacity = sequences + 1;
    }
    if (local > batch->token_capacity) {
        if (!grow(&batch->input, local) || !grow(&batch->target, local) || !grow(&batch->position, local))
            return dcpar_fail_memory(error, "a micro-batch");
        float *larger = realloc(batch->token_weight, (size_t)local * sizeof *larger);
        if (larger == NULL) return dcpar_fail_memory(error, "a micro-batch");
        batch->token_weight = larger;
        batch->token_capacity = local;
    }
    if (length > batch->length_capacity) {
        if (!grow(&batch->sequence, length)) return dcpar_fail_memory(error, "a micro-batch");
        batch->length_capacity = length;
    }
    return DCPAR_OK;
}

/* Copies what of a sequence (count real tokens in batch->sequence, then padding, `stride` in all, starting at token
 * `start` of the row) lies in this rank's part, tokens first .. first + local - 1. */
static void copy_part(dcpar_batch *batch, int64_t count, int64_t start, int64_t stride, int64_t first, int64_t local) {
    const int64_t from = start > first ? start : first;
    const int64_t to = start + stride < first + local ? start + stride : first + local;
    const double weight = batch->by_sequence && count > 1 ? 1.0 / (double)(count - 1) : 1.0;
    for (int64_t token = from; token < to; ++token) {
        const int64_t place = token - start, at = token - first;
        batch->input[at] = place < count ? batch->sequence[place] : 0;
        batch->target[at] = place + 1 < count ? batch->sequence[place + 1] : -1;
        batch->position[at] = (int32_t)place;
        batch->token_weight[at] = (float)weight;
        if (place + 1 < count) batch->weight += weight;
    }
}

/* The shape of this rank's part, with room for it. */
static dcpar_status begin(dcpar_batch *batch, int64_t row_count, int64_t stride, int32_t sp, dcpar_tokens *tokens,
                          dcpar_error *error) {
    const int64_t local = row_count * stride / sp;
    DCPAR_TRY(make_room(batch, row_count, local, stride, error));
    for (int64_t i = 0; i <= row_count; ++i) batch->starts[i] = i * stride;
    batch->weight = 0.0;
    *tokens = (dcpar_tokens){row_count * stride, row_count,       batch->starts,      batch->input,
                             batch->target,      batch->position, batch->token_weight};
    return DCPAR_OK;
}

static int64_t stride_of(int64_t padded_length, int32_t sp) { return (padded_length + sp - 1) / sp * sp; }

dcpar_status dcpar_batch_fill(dcpar_batch *batch, const dcpar_dataset *dataset, const dcpar_pieces *pieces,
                              const int64_t *rows, int64_t row_count, int64_t padded_length, int32_t sp, int32_t part,
                              dcpar_tokens *tokens, dcpar_error *error) {
    const int64_t stride = stride_of(padded_length, sp), local = row_count * stride / sp, first = part * local;
    DCPAR_TRY(begin(batch, row_count, stride, sp, tokens, error));
    for (int64_t i = 0; i < row_count; ++i) {
        if (i * stride >= first + local || (i + 1) * stride <= first) continue;
        const int64_t length = dcpar_pieces_lengths(pieces)[rows[i]];
        DCPAR_TRY(dcpar_pieces_read(pieces, dataset, rows[i], 0, length, batch->sequence, error));
        copy_part(batch, length, i * stride, stride, first, local);
    }
    return DCPAR_OK;
}

dcpar_status dcpar_batch_fill_any(dcpar_batch *batch, int64_t vocabulary, int64_t row_count, int64_t padded_length,
                                  int32_t sp, int32_t part, dcpar_tokens *tokens, dcpar_error *error) {
    const int64_t stride = stride_of(padded_length, sp), local = row_count * stride / sp;
    DCPAR_TRY(begin(batch, row_count, stride, sp, tokens, error));
    for (int64_t i = 0; i < stride; ++i)
        batch->sequence[i] = (int32_t)(dcpar_random(0, 0, (uint64_t)i) % (uint64_t)vocabulary);
    for (int64_t i = 0; i < row_count; ++i) copy_part(batch, stride, i * stride, stride, part * local, local);
    return DCPAR_OK;
}
