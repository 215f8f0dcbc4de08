/* Micro-batches as the model takes them: sequences read from the dataset, padded, and cut over the ranks of a group. */
#ifndef DCPAR_TRAIN_BATCH_H
#define DCPAR_TRAIN_BATCH_H

#include "data/pieces.h"
#include "nn/transformer.h"

/* Room for one rank's part of a micro-batch, made once and used again; starts as zeros. */
typedef struct dcpar_batch {
    bool by_sequence; /* every sequence weighs 1, its loss tokens alike, instead of every loss token */
    double weight;    /* of this rank's part, after dcpar_batch_fill */
    int64_t *starts;
    int32_t *input, *target, *position, *sequence;
    float *token_weight;
    int64_t sequence_capacity, token_capacity, length_capacity;
} dcpar_batch;

void dcpar_batch_destroy(dcpar_batch *batch);

/* Part `part` of `sp` of a micro-batch: every row is padded to padded_length, rounded up to whole parts. What a token
 * predicts is the next of its own sequence; the last one and padding predict nothing. *tokens points into `batch`.
 * Fails as dcpar_pieces_read does. Local. */
dcpar_status dcpar_batch_fill(dcpar_batch *batch, const dcpar_dataset *dataset, const dcpar_pieces *pieces,
                              const int64_t *rows, int64_t row_count, int64_t padded_length, int32_t sp, int32_t part,
                              dcpar_tokens *tokens, dcpar_error *error);

/* A micro-batch of made-up tokens below `vocabulary`, for measuring. */
dcpar_status dcpar_batch_fill_any(dcpar_batch *batch, int64_t vocabulary, int64_t row_count, int64_t padded_length,
                                  int32_t sp, int32_t part, dcpar_tokens *tokens, dcpar_error *error);

#endif
