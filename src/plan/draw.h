/* Drawing batches by bucket: how policies that follow the publication choose what comes next. */
#ifndef DCPAR_PLAN_DRAW_H
#define DCPAR_PLAN_DRAW_H

#include "plan/planner.h"

/* The rows of each bucket and how far each has been used. */
typedef struct dcpar_draw {
    int64_t *members; /* rows, bucket after bucket */
    int64_t *start;   /* [buckets + 1] */
    int64_t *taken;   /* [buckets] sequences that are used up */
    int64_t *claimed; /* [buckets] batches drawn in this iteration, not placed yet */
    int32_t *batch;   /* [buckets] sequences a micro-batch */
    int32_t *column;  /* [buckets] the table's column; -1 for a bucket without sequences */
    int32_t reserved; /* a bucket that was drawn when there was no room for it: it goes first; -1: none */
    int64_t draws;    /* in this epoch */
} dcpar_draw;

/* batch and column are left for the caller to fill. */
dcpar_status dcpar_draw_create(const dcpar_planner *planner, dcpar_draw *draw, dcpar_error *error);
void dcpar_draw_destroy(dcpar_draw *draw);
void dcpar_draw_start_epoch(dcpar_draw *draw, int32_t buckets);

/* Draws a bucket whose groups take at most `room` ranks: in seeded order with a chance that is proportional to its
 * batches that are left, in file order the one with the earliest row. -1 when there is none. */
int32_t dcpar_draw_next(const dcpar_planner *planner, dcpar_draw *draw, int32_t room);

/* Adds the bucket's next micro-batch on `block`, if it has sequences left. */
dcpar_status dcpar_draw_place(dcpar_planner *planner, dcpar_draw *draw, dcpar_plan *plan, int32_t bucket, int32_t block,
                              dcpar_error *error);

/* All that was claimed has been placed. */
void dcpar_draw_end_iteration(dcpar_draw *draw, int32_t buckets);

/* As the functions of a policy. */
int32_t dcpar_draw_save(const dcpar_planner *planner, const dcpar_draw *draw, int64_t *values);
bool dcpar_draw_restore(const dcpar_planner *planner, dcpar_draw *draw, const int64_t *values, int32_t count);

#endif
