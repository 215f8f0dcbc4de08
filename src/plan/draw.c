/* Drawing batches by bucket. */
#include "plan/draw.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

#define DRAW_STREAM 0x64726177

/* Rows by bucket, by counting. */
static void list_members(const dcpar_planner *planner, dcpar_draw *draw) {
    const int32_t buckets = planner->table->buckets;
    draw->start[0] = 0;
    for (int32_t bucket = 0; bucket < buckets; ++bucket) {
        draw->start[bucket + 1] = draw->start[bucket] + planner->bucket_count[bucket];
        draw->taken[bucket] = draw->start[bucket];
    }
    for (int64_t row = 0; row < planner->count; ++row) {
        const int32_t bucket = dcpar_planner_bucket(planner, row);
        if (bucket >= 0) draw->members[draw->taken[bucket]++] = row;
    }
}

dcpar_status dcpar_draw_create(const dcpar_planner *planner, dcpar_draw *draw, dcpar_error *error) {
    const size_t buckets = (size_t)planner->table->buckets;
    memset(draw, 0, sizeof *draw);
    draw->members = malloc((size_t)planner->usable * sizeof *draw->members);
    draw->start = malloc((buckets + 1) * sizeof *draw->start);
    draw->taken = malloc(buckets * sizeof *draw->taken);
    draw->claimed = malloc(buckets * sizeof *draw->claimed);
    draw->batch = malloc(buckets * sizeof *draw->batch);
    draw->column = malloc(buckets * sizeof *draw->column);
    if (draw->members == NULL || draw->start == NULL || draw->taken == NULL || draw->claimed == NULL ||
        draw->batch == NULL || draw->column == NULL) {
        dcpar_draw_destroy(draw);
        return dcpar_fail_memory(error, "the rows of each bucket");
    }
    list_members(planner, draw);
    dcpar_draw_start_epoch(draw, planner->table->buckets);
    return DCPAR_OK;
}

void dcpar_draw_destroy(dcpar_draw *draw) {
    free(draw->members);
    free(draw->start);
    free(draw->taken);
    free(draw->claimed);
    free(draw->batch);
    free(draw->column);
    memset(draw, 0, sizeof *draw);
}

void dcpar_draw_start_epoch(dcpar_draw *draw, int32_t buckets) {
    memset(draw->taken, 0, (size_t)buckets * sizeof *draw->taken);
    draw->reserved = -1;
    draw->draws = 0;
    dcpar_draw_end_iteration(draw, buckets);
}

void dcpar_draw_end_iteration(dcpar_draw *draw, int32_t buckets) {
    memset(draw->claimed, 0, (size_t)buckets * sizeof *draw->claimed);
}

/* Batches that are neither used nor claimed, the last one perhaps a smaller one. */
static int64_t batches_left(const dcpar_draw *draw, int32_t bucket) {
    const int64_t left = draw->start[bucket + 1] - draw->start[bucket] - draw->taken[bucket];
    if (left == 0) return 0;
    const int64_t batches = (left + draw->batch[bucket] - 1) / draw->batch[bucket] - draw->claimed[bucket];
    return batches > 0 ? batches : 0;
}

/* The dataset's row at place `index` of a bucket in this epoch. */
static int64_t member(const dcpar_planner *planner, const dcpar_draw *draw, int32_t bucket, int64_t index) {
    const int64_t count = draw->start[bucket + 1] - draw->start[bucket];
    if (planner->options.order == DCPAR_ORDER_SEEDED)
        index = dcpar_stream_row(planner->options.seed ^ dcpar_mix((uint64_t)bucket), planner->epoch, count, index);
    return draw->members[draw->start[bucket] + index];
}

static bool may_draw(const dcpar_planner *planner, const dcpar_draw *draw, int32_t bucket, int32_t room) {
    return draw->column[bucket] >= 0 && planner->table->width[draw->column[bucket]] <= room &&
           batches_left(draw, bucket) > 0;
}

static int32_t earliest(const dcpar_planner *planner, const dcpar_draw *draw, int32_t room) {
    int32_t first = -1;
    int64_t first_row = 0;
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
        if (!may_draw(planner, draw, bucket, room)) continue;
        const int64_t row =
            member(planner, draw, bucket, draw->taken[bucket] + draw->claimed[bucket] * draw->batch[bucket]);
        if (first < 0 || row < first_row) {
            first = bucket;
            first_row = row;
        }
    }
    return first;
}

static int32_t random_bucket(const dcpar_planner *planner, dcpar_draw *draw, int32_t room) {
    int64_t total = 0;
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket)
        if (may_draw(planner, draw, bucket, room)) total += batches_left(draw, bucket);
    if (total == 0) return -1;
    const uint64_t seed = planner->options.seed ^ dcpar_mix((uint64_t)planner->epoch);
    int64_t ticket = (int64_t)(dcpar_random(seed, DRAW_STREAM, (uint64_t)draw->draws++) % (uint64_t)total);
    for (int32_t bucket = 0;; ++bucket) {
        if (!may_draw(planner, draw, bucket, room)) continue;
        ticket -= batches_left(draw, bucket);
        if (ticket < 0) return bucket;
    }
}

static int32_t pick(const dcpar_planner *planner, dcpar_draw *draw, int32_t room) {
    return planner->options.order == DCPAR_ORDER_FILE ? earliest(planner, draw, room)
                                                      : random_bucket(planner, draw, room);
}

int32_t dcpar_draw_next(const dcpar_planner *planner, dcpar_draw *draw, int32_t room) {
    int32_t bucket = draw->reserved;
    if (bucket >= 0 && may_draw(planner, draw, bucket, room))
        draw->reserved = -1;
    else
        bucket = pick(planner, draw, planner->options.world);
    if (bucket < 0) return -1;
    if (planner->table->width[draw->column[bucket]] > room) {
        if (draw->reserved < 0) draw->reserved = bucket;
        bucket = pick(planner, draw, room);
    }
    if (bucket >= 0) ++draw->claimed[bucket];
    return bucket;
}

dcpar_status dcpar_draw_place(dcpar_planner *planner, dcpar_draw *draw, dcpar_plan *plan, int32_t bucket, int32_t block,
                              dcpar_error *error) {
    const int64_t left = draw->start[bucket + 1] - draw->start[bucket] - draw->taken[bucket];
    const int32_t batch = left < draw->batch[bucket] ? (int32_t)left : draw->batch[bucket];
    if (batch == 0) return DCPAR_OK;
    DCPAR_TRY(dcpar_planner_add(planner, plan, bucket, draw->column[bucket], batch, block, error));
    for (int32_t i = 0; i < batch; ++i)
        DCPAR_TRY(dcpar_planner_add_row(planner, plan, member(planner, draw, bucket, draw->taken[bucket] + i), error));
    draw->taken[bucket] += batch;
    return DCPAR_OK;
}

int32_t dcpar_draw_save(const dcpar_planner *planner, const dcpar_draw *draw, int64_t *values) {
    values[0] = draw->reserved;
    values[1] = draw->draws;
    memcpy(values + 2, draw->taken, (size_t)planner->table->buckets * sizeof *values);
    return 2 + planner->table->buckets;
}

bool dcpar_draw_restore(const dcpar_planner *planner, dcpar_draw *draw, const int64_t *values, int32_t count) {
    const int32_t buckets = planner->table->buckets;
    if (count != 2 + buckets || values[0] < -1 || values[0] >= buckets) return false;
    for (int32_t bucket = 0; bucket < buckets; ++bucket)
        if (values[2 + bucket] < 0 || values[2 + bucket] > planner->bucket_count[bucket]) return false;
    draw->reserved = (int32_t)values[0];
    draw->draws = values[1];
    memcpy(draw->taken, values + 2, (size_t)buckets * sizeof *values);
    return true;
}
