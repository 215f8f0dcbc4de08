/* A lower bound on the time of any plan. */
#ifndef DCPAR_PLAN_BOUND_H
#define DCPAR_PLAN_BOUND_H

#include "plan/table.h"

/* Seconds that no plan of counts[bucket] sequences takes less than, on `world` ranks with the widths and batches of
 * `table`, whatever the widths, the batches, the placement and the order. 0 without sequences. */
double dcpar_bound(const dcpar_table *table, const int64_t *counts, int32_t world);

/* One part of it: a bound between `low`, which is one already, and `high`. */
double dcpar_bound_by_prices(const dcpar_table *table, const int64_t *counts, int32_t world, double low, double high);

#endif
