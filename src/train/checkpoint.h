/* Checkpoints: one safetensors file with the model under its usual names, the optimizer's moments, and where the run
 * stands. It does not depend on the number of ranks that wrote it. */
#ifndef DCPAR_TRAIN_CHECKPOINT_H
#define DCPAR_TRAIN_CHECKPOINT_H

#include "dcpar_run.h"
#include "nn/transformer.h"

/* What a run is: a checkpoint belongs to it when all of this is the same. */
typedef struct dcpar_run_identity {
    const char *model; /* dcpar_model.text */
    uint64_t seed;
    uint64_t data;             /* dcpar_dataset_fingerprint */
    int64_t sequences, tokens; /* of the dataset: to say what has changed */
} dcpar_run_identity;

/* Writes PATH atomically (rank 0); `trained`: tokens trained on so far. Collective. */
dcpar_status dcpar_checkpoint_save(const char *path, dcpar_comm *world, dcpar_engine *engine,
                                   const dcpar_transformer *model, const dcpar_planner *planner,
                                   const dcpar_run_identity *identity, int64_t trained, dcpar_error *error);

/* Puts parameters, moments, iteration and planner where they were. DCPAR_MISMATCH, saying what differs, when the
 * checkpoint is of another run. Every rank reads the file. Collective. */
dcpar_status dcpar_checkpoint_load(const char *path, dcpar_comm *world, dcpar_engine *engine,
                                   const dcpar_transformer *model, dcpar_planner *planner,
                                   const dcpar_run_identity *identity, int64_t *trained, dcpar_error *error);

#endif
