#include "train/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void dcpar_record_destroy(dcpar_record *record) {
    free(record->iterations);
    for (int32_t i = 0; i < record->timeline_count; ++i) free((void *)record->timelines[i].boxes);
    memset(record, 0, sizeof *record);
}

dcpar_status dcpar_record_add(dcpar_record *record, const dcpar_report_iteration *iteration, dcpar_error *error) {
    if (record->count == record->capacity) {
        const int64_t capacity = record->capacity > 0 ? 2 * record->capacity : 256;
        dcpar_report_iteration *larger = realloc(record->iterations, (size_t)capacity * sizeof *larger);
        if (larger == NULL) return dcpar_fail_memory(error, "the run's record");
        record->iterations = larger;
        record->capacity = capacity;
    }
    record->iterations[record->count++] = *iteration;
    return DCPAR_OK;
}

dcpar_status dcpar_record_add_timeline(dcpar_record *record, const dcpar_result *result, const dcpar_plan *plan,
                                       const double *times, double planned_step_seconds, dcpar_error *error) {
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    dcpar_report_box *boxes = malloc((size_t)count * sizeof *boxes);
    if (boxes == NULL) return dcpar_fail_memory(error, "a timeline");
    for (int64_t i = 0; i < count; ++i) {
        const dcpar_microbatch *from = &microbatches[i];
        boxes[i] = (dcpar_report_box){.first_rank = from->first_rank,
                                      .sp = from->sp,
                                      .recompute = from->recompute,
                                      .padded_length = from->padded_length,
                                      .sequences = from->row_count,
                                      .tokens = from->tokens,
                                      .planned_start = from->start,
                                      .planned_seconds = from->seconds,
                                      .measured_start = times[2 * i],
                                      .measured_seconds = times[2 * i + 1]};
    }
    if (record->timeline_count == DCPAR_RECORD_TIMELINES)
        free((void *)record->timelines[--record->timeline_count].boxes);
    record->timelines[record->timeline_count++] = (dcpar_report_timeline){.iteration = result->iteration,
                                                                          .planned_seconds = result->plan.seconds,
                                                                          .measured_seconds = result->work_seconds,
                                                                          .planned_step_seconds = planned_step_seconds,
                                                                          .measured_step_seconds = result->step_seconds,
                                                                          .boxes = boxes,
                                                                          .count = count};
    return DCPAR_OK;
}

dcpar_report_policy dcpar_record_policy(const dcpar_record *record) {
    return (dcpar_report_policy){record->policy, record->summary,   record->iterations,
                                 record->count,  record->timelines, record->timeline_count};
}
