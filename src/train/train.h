/* Training the reference model under one or several policies, one after another, for comparison. */
#ifndef DCPAR_TRAIN_TRAIN_H
#define DCPAR_TRAIN_TRAIN_H

#include "data/pieces.h"
#include "dcpar_run.h"
#include "train/model_file.h"

#define DCPAR_MOST_POLICIES 16

typedef struct dcpar_training {
    const dcpar_dataset *dataset; /* shared by ranks that are threads */
    const dcpar_model *model;
    const dcpar_profile *profile; /* NULL: measured first; as well when `resume` finds one of another number of ranks */
    const char *policies[DCPAR_MOST_POLICIES];
    int32_t policy_count;
    dcpar_planner_options planning; /* policy, world and buckets are set by the run */
    dcpar_engine_options stepping;  /* total_iterations 0: as many as there will be */
    int64_t memory;                 /* bytes a rank */
    bool split;                     /* sequences that do not fit are cut into pieces that do */
    dcpar_piece_options use;        /* what is used of the data; its limit is set by the run */
    bool weigh_sequences;           /* every sequence weighs the same, instead of every token */
    int64_t epochs;
    int64_t iterations;       /* at most; 0: no limit */
    int64_t tokens;           /* stop when so many have been trained on, earlier sessions included; 0: no limit */
    int64_t stop_after;       /* iterations of this session; 0: no limit */
    int64_t checkpoint_every; /* iterations; 0: only at the end */
    const char *out;          /* folder; NULL: nothing is written */
    bool resume;              /* from the checkpoint in `out` */
    bool quiet;
    const char *command; /* for the report */
    bool (*stop)(void);  /* true: write a checkpoint and end with DCPAR_INTERRUPTED */
} dcpar_training;

/* A rank's whole run; `argument` is a dcpar_training. What people see is printed by rank 0. Collective. */
dcpar_status dcpar_train(dcpar_comm *world, void *argument, dcpar_error *error);

#endif
