/* The plan checker: replays a plan against the rules that every plan keeps. It trusts nothing the builder derived. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "plan/plan.h"

static dcpar_status check_microbatch(const dcpar_plan *plan, int64_t index, int64_t memory, dcpar_error *error) {
    const dcpar_microbatch *microbatch = &plan->microbatches[index];
    const long long number = (long long)index;
    if (microbatch->sp < 1 || microbatch->first_rank < 0 || microbatch->first_rank + microbatch->sp > plan->world)
        return dcpar_fail(error, DCPAR_PLAN, "micro-batch %lld: ranks %d to %d are not all in a world of %d", number,
                          microbatch->first_rank, microbatch->first_rank + microbatch->sp - 1, plan->world);
    if (microbatch->first_rank % microbatch->sp != 0)
        return dcpar_fail(error, DCPAR_PLAN, "micro-batch %lld: first rank %d is not a multiple of its SP size %d",
                          number, microbatch->first_rank, microbatch->sp);
    if (microbatch->row_count < 1) return dcpar_fail(error, DCPAR_PLAN, "micro-batch %lld has no sequence", number);
    if (microbatch->bytes > memory)
        return dcpar_fail(error, DCPAR_PLAN, "micro-batch %lld takes %lld bytes, more than the %lld a rank has", number,
                          (long long)microbatch->bytes, (long long)memory);
    if (!isfinite(microbatch->seconds) || microbatch->seconds <= 0)
        return dcpar_fail(error, DCPAR_PLAN, "micro-batch %lld takes %g seconds", number, microbatch->seconds);
    return DCPAR_OK;
}

static int compare_rows(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static dcpar_status check_rows(const dcpar_plan *plan, int64_t *sorted, dcpar_error *error) {
    int64_t count = 0;
    for (int64_t i = 0; i < plan->count; ++i)
        for (int64_t j = 0; j < plan->microbatches[i].row_count; ++j) sorted[count++] = plan->microbatches[i].rows[j];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_rows);
    for (int64_t i = 1; i < count; ++i)
        if (sorted[i] == sorted[i - 1])
            return dcpar_fail(error, DCPAR_PLAN, "row %lld runs twice in one iteration", (long long)sorted[i]);
    return DCPAR_OK;
}

/* Runs every queue: a micro-batch goes once all its ranks have it at their head. What cannot go on is a cyclic wait, or
 * a rank that is missing. */
static dcpar_status replay(const dcpar_plan *plan, int64_t *head, int32_t *arrived, int64_t *ready,
                           dcpar_error *error) {
    int64_t ready_count = 0, done = 0;
    for (int32_t rank = 0; rank < plan->world; ++rank) head[rank] = plan->queue_start[rank];
    for (int32_t rank = 0; rank < plan->world; ++rank) {
        if (head[rank] == plan->queue_start[rank + 1]) continue;
        const int64_t index = plan->queue[head[rank]];
        if (++arrived[index] == plan->microbatches[index].sp) ready[ready_count++] = index;
    }
    while (ready_count > 0) {
        const dcpar_microbatch *microbatch = &plan->microbatches[ready[--ready_count]];
        const int64_t running = microbatch - plan->microbatches;
        ++done;
        for (int32_t j = 0; j < microbatch->sp; ++j) {
            const int32_t rank = microbatch->first_rank + j;
            if (head[rank] == plan->queue_start[rank + 1] || plan->queue[head[rank]] != running)
                return dcpar_fail(error, DCPAR_PLAN, "rank %d does not have micro-batch %lld where its group runs it",
                                  rank, (long long)running);
            if (++head[rank] == plan->queue_start[rank + 1]) continue;
            const int64_t index = plan->queue[head[rank]];
            if (++arrived[index] == plan->microbatches[index].sp) ready[ready_count++] = index;
        }
    }
    for (int32_t rank = 0; rank < plan->world; ++rank)
        if (head[rank] != plan->queue_start[rank + 1])
            return dcpar_fail(error, DCPAR_PLAN, "rank %d waits for ever at micro-batch %lld", rank,
                              (long long)plan->queue[head[rank]]);
    if (done != plan->count)
        return dcpar_fail(error, DCPAR_PLAN, "%lld of %lld micro-batches stand in no queue",
                          (long long)(plan->count - done), (long long)plan->count);
    return DCPAR_OK;
}

dcpar_status dcpar_plan_check(const dcpar_plan *plan, int64_t memory, dcpar_error *error) {
    for (int64_t i = 0; i < plan->count; ++i) DCPAR_TRY(check_microbatch(plan, i, memory, error));
    int64_t *rows = malloc((size_t)(plan->row_count + 1) * sizeof *rows);
    int64_t *head = malloc((size_t)plan->world * sizeof *head);
    int32_t *arrived = calloc((size_t)plan->count + 1, sizeof *arrived);
    int64_t *ready = malloc((size_t)(plan->count + 1) * sizeof *ready);
    dcpar_status status;
    if (rows == NULL || head == NULL || arrived == NULL || ready == NULL) {
        status = dcpar_fail_memory(error, "the plan checker");
    } else {
        status = check_rows(plan, rows, error);
        if (status == DCPAR_OK) status = replay(plan, head, arrived, ready, error);
    }
    free(rows);
    free(head);
    free(arrived);
    free(ready);
    return status;
}
