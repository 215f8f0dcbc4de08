/* One policy's run: everything planned and checked ahead, then iteration after iteration, with checkpoints and
 * metrics. */
#ifndef DCPAR_TRAIN_RUN_H
#define DCPAR_TRAIN_RUN_H

#include "data/pieces.h"
#include "train/record.h"
#include "train/train.h"

/* Bytes that plans may use of training->memory: a planner that fills memory to the last byte would fail on the rounding
 * of what it interpolates. */
int64_t dcpar_training_memory(const dcpar_training *training);

/* Trains under `policy` and keeps what the report shows in `record` (rank 0). DCPAR_INTERRUPTED, after a checkpoint,
 * when training->stop says so. Collective over `world`. */
dcpar_status dcpar_run_policy(dcpar_comm *world, const dcpar_training *training, const dcpar_profile *profile,
                              const dcpar_pieces *pieces, const char *policy, dcpar_record *record, dcpar_error *error);

#endif
