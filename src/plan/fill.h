/* Filling: where an iteration's sequences go so that all ranks end by a target. */
#ifndef DCPAR_PLAN_FILL_H
#define DCPAR_PLAN_FILL_H

#include "plan/table.h"
#include "plan/widths.h"

/* What is to be placed. */
typedef struct dcpar_work {
    const dcpar_table *table;
    const dcpar_chain *chain;
    const int64_t *counts; /* [buckets] sequences */
    int32_t world;
} dcpar_work;

/* A micro-batch of `batch` sequences of `bucket`, or shorter ones, on aligned block `block` of the table's `column`.
 * Which sequences is not said: from the longest bucket down, placements take the longest that are left. */
typedef struct dcpar_placement {
    int32_t bucket, column, batch, block;
} dcpar_placement;

/* Placements in an order in which their blocks run them, widest first; made once and used again. */
typedef struct dcpar_filling {
    dcpar_placement *placements;
    int64_t count, capacity;
    double seconds; /* of the longest rank */
} dcpar_filling;

typedef struct dcpar_block {
    double load;
    int32_t number;
} dcpar_block;

/* A bucket under one target. */
typedef struct dcpar_fill_bucket {
    int64_t left;  /* sequences still to be placed */
    int32_t width; /* place in the chain of the width on which they take the fewest rank-seconds */
    double price;  /* rank-seconds that one takes there */
} dcpar_fill_bucket;

/* Memory for the search. */
typedef struct dcpar_fill_space {
    dcpar_block *blocks, *split; /* [world] each: of the present width */
    dcpar_fill_bucket *buckets;  /* [buckets] */
    dcpar_filling best, trial;
} dcpar_fill_space;

dcpar_status dcpar_fill_space_create(int32_t world, int32_t buckets, dcpar_fill_space *space, dcpar_error *error);
void dcpar_fill_space_destroy(dcpar_fill_space *space);

/* Adds a placement. */
dcpar_status dcpar_filling_add(dcpar_filling *filling, dcpar_placement placement, dcpar_error *error);

/* Finds the shortest filling it can, at least `bound` seconds long, in space->best. Every sequence has a width of the
 * chain on which it fits. */
dcpar_status dcpar_fill(const dcpar_work *work, double bound, dcpar_fill_space *space, dcpar_error *error);

/* Few sequences: looks for a filling shorter than space->best by branch and bound, for as long as it may. */
dcpar_status dcpar_fill_exactly(const dcpar_work *work, double bound, dcpar_fill_space *space, dcpar_error *error);

#endif
