/* The plan: an iteration's micro-batches, each rank's queue, and what the plan amounts to. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

dcpar_status dcpar_plan_create(int32_t world, int64_t epoch, int64_t iteration, dcpar_plan **out, dcpar_error *error) {
    dcpar_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) return dcpar_fail_memory(error, "a plan");
    plan->world = world;
    plan->epoch = epoch;
    plan->iteration = iteration;
    *out = plan;
    return DCPAR_OK;
}

void dcpar_plan_destroy(dcpar_plan *plan) {
    if (plan == NULL) return;
    free(plan->microbatches);
    free(plan->rows);
    free(plan->queue_start);
    free(plan->queue);
    free(plan);
}

/* Makes room for one element more. */
static dcpar_status grow(void **array, int64_t count, int64_t *capacity, size_t size, dcpar_error *error) {
    if (count < *capacity) return DCPAR_OK;
    const int64_t wanted = *capacity > 0 ? 2 * *capacity : 64;
    void *larger = realloc(*array, (size_t)wanted * size);
    if (larger == NULL) return dcpar_fail_memory(error, "a plan");
    *array = larger;
    *capacity = wanted;
    return DCPAR_OK;
}

dcpar_status dcpar_plan_add(dcpar_plan *plan, const dcpar_microbatch *microbatch, dcpar_error *error) {
    DCPAR_TRY(grow((void **)&plan->microbatches, plan->count, &plan->capacity, sizeof *plan->microbatches, error));
    plan->microbatches[plan->count] = *microbatch;
    plan->microbatches[plan->count].rows = NULL;
    plan->microbatches[plan->count].row_count = 0;
    plan->microbatches[plan->count].tokens = 0;
    ++plan->count;
    return DCPAR_OK;
}

dcpar_status dcpar_plan_add_row(dcpar_plan *plan, int64_t row, int64_t length, dcpar_error *error) {
    DCPAR_TRY(grow((void **)&plan->rows, plan->row_count, &plan->row_capacity, sizeof *plan->rows, error));
    plan->rows[plan->row_count++] = row;
    dcpar_microbatch *last = &plan->microbatches[plan->count - 1];
    ++last->row_count;
    last->tokens += length;
    return DCPAR_OK;
}

/* Rank queues by counting; micro-batches were added in the order in which each rank runs them. */
static void fill_queues(dcpar_plan *plan) {
    int64_t *next = plan->queue_start;
    for (int64_t i = 0; i < plan->count; ++i)
        for (int32_t j = 0; j < plan->microbatches[i].sp; ++j) ++next[plan->microbatches[i].first_rank + j + 1];
    for (int32_t rank = 0; rank < plan->world; ++rank) next[rank + 1] += next[rank];
    for (int64_t i = plan->count - 1; i >= 0; --i)
        for (int32_t j = 0; j < plan->microbatches[i].sp; ++j) {
            const int32_t rank = plan->microbatches[i].first_rank + j;
            plan->queue[--next[rank + 1]] = i;
        }
    /* Filling from the back moved each rank's end to its start, one place to the right of where it belongs. */
    memmove(next, next + 1, (size_t)plan->world * sizeof *next);
}

static void fill_starts_and_metrics(dcpar_plan *plan, double *free_at, double lower_bound) {
    dcpar_metrics *metrics = &plan->metrics;
    double busy = 0;
    const int64_t *rows = plan->rows;
    for (int64_t i = 0; i < plan->count; ++i) {
        dcpar_microbatch *microbatch = &plan->microbatches[i];
        microbatch->rows = rows;
        rows += microbatch->row_count;
        double *ranks = free_at + microbatch->first_rank;
        microbatch->start = 0;
        for (int32_t j = 0; j < microbatch->sp; ++j)
            if (ranks[j] > microbatch->start) microbatch->start = ranks[j];
        const double end = microbatch->start + microbatch->seconds;
        for (int32_t j = 0; j < microbatch->sp; ++j) ranks[j] = end;
        if (end > metrics->seconds) metrics->seconds = end;
        busy += microbatch->sp * microbatch->seconds;
        metrics->sequences += microbatch->row_count;
        metrics->tokens += microbatch->tokens;
        metrics->padded_tokens += microbatch->row_count * microbatch->padded_length;
        if (microbatch->bytes > metrics->peak_bytes) metrics->peak_bytes = microbatch->bytes;
    }
    metrics->lower_bound = lower_bound < metrics->seconds ? lower_bound : metrics->seconds;
    if (metrics->seconds > 0) {
        metrics->idle_ratio = 1 - busy / (plan->world * metrics->seconds);
        if (metrics->idle_ratio < 0) metrics->idle_ratio = 0;
        metrics->throughput = (double)metrics->tokens / metrics->seconds;
    }
    if (metrics->padded_tokens > 0)
        metrics->padding_ratio = 1 - (double)metrics->tokens / (double)metrics->padded_tokens;
}

dcpar_status dcpar_plan_finish(dcpar_plan *plan, double lower_bound, dcpar_error *error) {
    int64_t entries = 0;
    for (int64_t i = 0; i < plan->count; ++i) entries += plan->microbatches[i].sp;
    plan->queue_start = calloc((size_t)plan->world + 2, sizeof *plan->queue_start);
    plan->queue = malloc((size_t)(entries + 1) * sizeof *plan->queue);
    double *free_at = calloc((size_t)plan->world, sizeof *free_at);
    if (plan->queue_start == NULL || plan->queue == NULL || free_at == NULL) {
        free(free_at);
        return dcpar_fail_memory(error, "a plan");
    }
    fill_queues(plan);
    plan->queue_start[plan->world] = entries;
    fill_starts_and_metrics(plan, free_at, lower_bound);
    free(free_at);
    return DCPAR_OK;
}

int64_t dcpar_plan_epoch(const dcpar_plan *plan) { return plan->epoch; }

int64_t dcpar_plan_iteration(const dcpar_plan *plan) { return plan->iteration; }

const dcpar_microbatch *dcpar_plan_microbatches(const dcpar_plan *plan, int64_t *count) {
    *count = plan->count;
    return plan->microbatches;
}

const int64_t *dcpar_plan_queue(const dcpar_plan *plan, int32_t rank, int64_t *count) {
    *count = plan->queue_start[rank + 1] - plan->queue_start[rank];
    return plan->queue + plan->queue_start[rank];
}

dcpar_metrics dcpar_plan_metrics(const dcpar_plan *plan) { return plan->metrics; }

uint64_t dcpar_plan_hash(const dcpar_plan *plan) {
    uint64_t hash = dcpar_mix((uint64_t)plan->world);
    const int64_t head[] = {plan->epoch, plan->iteration, plan->count};
    for (int i = 0; i < 3; ++i) hash = dcpar_mix(hash ^ (uint64_t)head[i]);
    for (int64_t i = 0; i < plan->count; ++i) {
        const dcpar_microbatch *microbatch = &plan->microbatches[i];
        const int64_t fields[] = {microbatch->first_rank, microbatch->sp, microbatch->recompute,
                                  microbatch->padded_length, microbatch->row_count};
        for (int j = 0; j < 5; ++j) hash = dcpar_mix(hash ^ (uint64_t)fields[j]);
        for (int64_t j = 0; j < microbatch->row_count; ++j) hash = dcpar_mix(hash ^ (uint64_t)microbatch->rows[j]);
    }
    return hash;
}
