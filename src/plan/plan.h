/* The plan as the planner builds it. */
#ifndef DCPAR_PLAN_PLAN_H
#define DCPAR_PLAN_PLAN_H

#include "dcpar.h"

struct dcpar_plan {
    int64_t epoch, iteration;
    int32_t world;
    int64_t count, capacity;
    dcpar_microbatch *microbatches;
    int64_t row_count, row_capacity;
    int64_t *rows;        /* all micro-batches' rows, one after another */
    int64_t *queue_start; /* [world + 1] */
    int64_t *queue;       /* indices of micro-batches, rank after rank */
    dcpar_metrics metrics;
};

dcpar_status dcpar_plan_create(int32_t world, int64_t epoch, int64_t iteration, dcpar_plan **out, dcpar_error *error);

/* Adds a micro-batch (without rows and start) that its ranks run after what they already have; its rows follow with
 * dcpar_plan_add_row. */
dcpar_status dcpar_plan_add(dcpar_plan *plan, const dcpar_microbatch *microbatch, dcpar_error *error);
dcpar_status dcpar_plan_add_row(dcpar_plan *plan, int64_t row, int64_t length, dcpar_error *error);

/* Queues, starts and metrics, once all micro-batches are in; `lower_bound` goes into the metrics. */
dcpar_status dcpar_plan_finish(dcpar_plan *plan, double lower_bound, dcpar_error *error);

#endif
