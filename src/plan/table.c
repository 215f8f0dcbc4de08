#include "plan/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/profile.h"

bool dcpar_shape_at(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch, int64_t memory,
                    bool recompute_all, dcpar_shape *out) {
    const int32_t layers = dcpar_profile_get_info(profile)->layers;
    dcpar_point point;
    length = (length + sp - 1) / sp * sp;
    if (!dcpar_profile_point(profile, length, sp, batch, &point)) return false;
    const int32_t fewest = dcpar_point_recompute(&point, layers, memory);
    if (fewest < 0) return false;
    const int32_t recompute = recompute_all ? layers : fewest;
    const dcpar_cost cost = dcpar_point_cost(&point, layers, recompute);
    *out = (dcpar_shape){cost.seconds, cost.bytes, recompute, 0};
    return true;
}

/* Fills the shapes of one (bucket, width) into `room` (its first element stays unused); returns how many fit. Times
 * are measured, so a larger batch or a greater length can seem faster: it counts as no faster than a smaller one.
 * `shorter`: the shapes of the bucket before, NULL for the first. */
static int32_t fill_shapes(const dcpar_profile *profile, int64_t bound, int32_t sp, int64_t count, int64_t memory,
                           bool recompute_all, const dcpar_shapes *shorter, dcpar_shape *room) {
    int32_t most = dcpar_profile_most_batch(profile, bound, sp);
    if (most > DCPAR_MOST_BATCH) most = DCPAR_MOST_BATCH;
    if (most > count) most = (int32_t)count;
    int32_t batch = 1;
    while (batch <= most && dcpar_shape_at(profile, bound, sp, batch, memory, recompute_all, &room[batch])) {
        room[batch].best = batch;
        if (shorter != NULL && batch <= shorter->most)
            room[batch].seconds = fmax(room[batch].seconds, shorter->shape[batch].seconds);
        if (batch > 1) {
            const dcpar_shape *before = &room[batch - 1], *best = &room[before->best];
            room[batch].seconds = fmax(room[batch].seconds, before->seconds);
            if (best->seconds / before->best <= room[batch].seconds / batch) room[batch].best = before->best;
        }
        ++batch;
    }
    return batch - 1;
}

/* The constant is where a line through the first two batches starts; shapes with one batch have that of the bucket
 * before. */
static double find_constant(const dcpar_shapes *shapes, const dcpar_shapes *shorter) {
    if (shapes->most > 1) return fmax(0, 2 * shapes->shape[1].seconds - shapes->shape[2].seconds);
    return shorter != NULL ? shorter->constant : 0;
}

int32_t dcpar_shapes_within(const dcpar_shapes *shapes, double seconds) {
    if (shapes->most == 0 || shapes->shape[shapes->most].seconds <= seconds) return shapes->most; /* the usual case */
    int32_t fits = 0, does_not = shapes->most;
    while (does_not - fits > 1) {
        const int32_t middle = fits + (does_not - fits) / 2;
        if (shapes->shape[middle].seconds <= seconds)
            fits = middle;
        else
            does_not = middle;
    }
    return fits;
}

dcpar_status dcpar_table_create(const dcpar_profile *profile, const dcpar_buckets *buckets, const int64_t *counts,
                                const int32_t *widths, int32_t width_count, int64_t memory, bool recompute_all,
                                dcpar_table *table, dcpar_error *error) {
    memset(table, 0, sizeof *table);
    const int32_t count = dcpar_buckets_count(buckets);
    const size_t cells = (size_t)count * (size_t)width_count;
    table->buckets = count;
    table->widths = width_count;
    memcpy(table->width, widths, (size_t)width_count * sizeof *widths);
    table->bound = malloc((size_t)count * sizeof *table->bound);
    table->shapes = calloc(cells, sizeof *table->shapes);
    table->storage = malloc(cells * (DCPAR_MOST_BATCH + 1) * sizeof *table->storage);
    if (table->bound == NULL || table->shapes == NULL || table->storage == NULL) {
        dcpar_table_destroy(table);
        return dcpar_fail_memory(error, "the table of micro-batch costs");
    }
    size_t used = 0;
    int64_t sequences = 0; /* of this bucket and all shorter ones: what its micro-batches may hold */
    for (int32_t bucket = 0; bucket < count; ++bucket) {
        table->bound[bucket] = dcpar_buckets_bound(buckets, bucket);
        sequences += counts[bucket];
        for (int32_t width = 0; width < width_count; ++width) {
            dcpar_shapes *shapes = &table->shapes[bucket * width_count + width];
            const dcpar_shapes *shorter = bucket > 0 ? shapes - width_count : NULL;
            shapes->shape = table->storage + used;
            shapes->most = fill_shapes(profile, table->bound[bucket], widths[width], sequences, memory, recompute_all,
                                       shorter, shapes->shape);
            shapes->constant = find_constant(shapes, shorter);
            used += (size_t)shapes->most + 1;
        }
    }
    return DCPAR_OK;
}

void dcpar_table_destroy(dcpar_table *table) {
    free(table->bound);
    free(table->shapes);
    free(table->storage);
    memset(table, 0, sizeof *table);
}
