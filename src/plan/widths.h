/* Which widths (SP sizes) a planner's groups take. */
#ifndef DCPAR_PLAN_WIDTHS_H
#define DCPAR_PLAN_WIDTHS_H

#include "plan/table.h"

/* A chain of columns of a cost table, increasing, in which each width divides the next: aligned blocks of such
 * widths are nested or disjoint. */
typedef struct dcpar_chain {
    int32_t count;
    int32_t column[64];
} dcpar_chain;

/* The chain for sequences counted by bucket: first the one on which the most of them fit, among those the one on which
 * they take the fewest rank-seconds. */
dcpar_chain dcpar_chain_choose(const dcpar_table *table, const int64_t *counts);

/* The narrowest column on which `bucket` fits, those that divide `world` before the others; -1 when none does. */
int32_t dcpar_column_that_fits(const dcpar_table *table, int32_t bucket, int32_t world);

#endif
