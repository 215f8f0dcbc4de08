/* The profile as the planner sees it: measured points, and interpolation between them. */
#ifndef DCPAR_PLAN_PROFILE_H
#define DCPAR_PLAN_PROFILE_H

#include "dcpar.h"

/* The five numbers of Eq. 4-6 at any (length, sp, batch). */
typedef struct dcpar_point {
    double forward, backward, constant_seconds;
    double layer_bytes, input_bytes, constant_bytes;
} dcpar_point;

/* Interpolates as dcpar_profile_cost documents. False when `sp` has no point that fits. */
bool dcpar_profile_point(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch, dcpar_point *out);

/* The largest batch worth planning with at this length and size: as many tokens as the largest measured batches of the
 * neighbouring lengths had, at least 1; 0 when `sp` has no point that fits. Memory is not looked at. */
int32_t dcpar_profile_most_batch(const dcpar_profile *profile, int64_t length, int32_t sp);

/* Eq. 4-6 on a point. */
dcpar_cost dcpar_point_cost(const dcpar_point *point, int32_t layers, int32_t recompute);

/* The fewest recomputed layers that fit into `memory` (Algorithm 1), or -1 when not even r = L does. */
int32_t dcpar_point_recompute(const dcpar_point *point, int32_t layers, int64_t memory);

#endif
