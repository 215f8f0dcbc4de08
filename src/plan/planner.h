/* The planner from inside: what policies share and how they are plugged in. */
#ifndef DCPAR_PLAN_PLANNER_H
#define DCPAR_PLAN_PLANNER_H

#include "plan/plan.h"
#include "plan/table.h"
#include "plan/widths.h"

/* A policy is a table of functions. */
typedef struct dcpar_policy {
    const char *name, *summary;
    bool recompute_all; /* r = L whatever the memory */
    bool one_size;      /* one SP size for all, the smallest on which the longest sequence fits */
    bool draws;         /* takes sequences by bucket, not in the order of the stream */
    dcpar_status (*create)(dcpar_planner *planner, dcpar_error *error);
    void (*destroy)(dcpar_planner *planner);
    void (*start_epoch)(dcpar_planner *planner);
    /* Adds the next iteration's micro-batches and their rows to `plan`; there is at least one sequence left. */
    dcpar_status (*next)(dcpar_planner *planner, dcpar_plan *plan, dcpar_error *error);
    /* Where the policy stands: writes values, returns how many; the same number is read back. */
    int32_t (*save)(const dcpar_planner *planner, int64_t *values);
    bool (*restore)(dcpar_planner *planner, const int64_t *values, int32_t count);
} dcpar_policy;

extern const dcpar_policy dcpar_policy_bucket, dcpar_policy_inter, dcpar_policy_intra, dcpar_policy_buddy;

struct dcpar_planner {
    const dcpar_policy *policy;
    dcpar_planner_options options; /* pointers in it are not kept */
    const int64_t *lengths;
    int64_t count;
    int64_t limit;     /* longer sequences are dropped */
    uint64_t identity; /* of lengths, seed, order and, if the policy draws, buckets: what a saved state belongs to */

    dcpar_buckets *buckets;
    int64_t *bucket_count;  /* [buckets] sequences that are used */
    int64_t *bucket_tokens; /* [buckets] their tokens */
    int64_t usable, usable_tokens, longest, dropped_empty, dropped_too_long;

    dcpar_table costs;        /* all legal sizes, r as Algorithm 1 has it: what the lower bound rests on */
    dcpar_table full_costs;   /* with r = L, for policies that recompute all; else empty */
    const dcpar_table *table; /* the one of the two that the policy plans with */
    dcpar_chain chain;        /* columns that the policy may use */

    int64_t epoch, iteration, used;
    int64_t *iteration_count; /* [buckets] sequences of the plan that is being made */
    double iteration_bound;   /* its lower bound, when the policy has computed it; else 0 */
    void *state;              /* the policy's own */
};

/* The row at `position` of the epoch, in the order asked for. */
int64_t dcpar_planner_row(const dcpar_planner *planner, int64_t position);

/* The bucket of a row, or -1 when it is dropped. */
int32_t dcpar_planner_bucket(const dcpar_planner *planner, int64_t row);

/* Adds a micro-batch without rows: `batch` sequences of `bucket` on block `block` of the table's `column`. */
dcpar_status dcpar_planner_add(dcpar_planner *planner, dcpar_plan *plan, int32_t bucket, int32_t column, int32_t batch,
                               int32_t block, dcpar_error *error);

/* Adds a row to the last micro-batch. */
dcpar_status dcpar_planner_add_row(dcpar_planner *planner, dcpar_plan *plan, int64_t row, dcpar_error *error);

#endif
