/* What every micro-batch shape of a planner costs: one table, made once, from which policies only read. */
#ifndef DCPAR_PLAN_TABLE_H
#define DCPAR_PLAN_TABLE_H

#include "dcpar.h"

/* One (bucket, width, batch) with the number of recomputed layers that Algorithm 1 gives it. */
typedef struct dcpar_shape {
    double seconds; /* never less than with a smaller batch or of a shorter bucket */
    int64_t bytes;
    int32_t recompute;
    int32_t best; /* of the batches up to this one, that with the least seconds a sequence */
} dcpar_shape;

/* The shapes of one (bucket, width): shape[b] for b = 1 .. most. most = 0: nothing fits. */
typedef struct dcpar_shapes {
    int32_t most;
    double constant; /* seconds of a micro-batch before its first sequence: what opening one more costs */
    dcpar_shape *shape;
} dcpar_shapes;

typedef struct dcpar_table {
    int32_t buckets, widths;
    int32_t width[64];    /* SP sizes, increasing */
    int64_t *bound;       /* [buckets] padded length */
    dcpar_shapes *shapes; /* [buckets * widths] */
    dcpar_shape *storage;
} dcpar_table;

/* No micro-batch holds more sequences than this: beyond it nothing is gained, and tables stay small. */
#define DCPAR_MOST_BATCH 1024

/* `counts[bucket]` is how many sequences there are: larger batches are not needed. */
dcpar_status dcpar_table_create(const dcpar_profile *profile, const dcpar_buckets *buckets, const int64_t *counts,
                                const int32_t *widths, int32_t width_count, int64_t memory, bool recompute_all,
                                dcpar_table *table, dcpar_error *error);
void dcpar_table_destroy(dcpar_table *table);

static inline const dcpar_shapes *dcpar_table_at(const dcpar_table *table, int32_t bucket, int32_t width) {
    return &table->shapes[bucket * table->widths + width];
}

/* Seconds of one rank for each sequence of a micro-batch, when its sequences are charged only a `share` of its
 * constant. */
static inline double dcpar_shapes_price(const dcpar_shapes *shapes, int32_t batch, double share) {
    return (shapes->shape[batch].seconds - (1 - share) * shapes->constant) / batch;
}

/* The largest batch of these shapes that takes at most `seconds`; 0 when not even one sequence does. */
int32_t dcpar_shapes_within(const dcpar_shapes *shapes, double seconds);

/* The shape of one (length, sp, batch) within `memory`, the length rounded up to whole parts for `sp` ranks; false when
 * it does not fit. `best` is not set. */
bool dcpar_shape_at(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch, int64_t memory,
                    bool recompute_all, dcpar_shape *out);

#endif
