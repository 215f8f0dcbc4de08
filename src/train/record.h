/* What a run remembers for its report: every iteration's figures, a few iterations' timelines. Local; rank 0
 * keeps it. */
#ifndef DCPAR_TRAIN_RECORD_H
#define DCPAR_TRAIN_RECORD_H

#include "dcpar_run.h"
#include "report/report.h"

#define DCPAR_RECORD_TIMELINES 3

typedef struct dcpar_record {
    char policy[32];
    const char *summary;
    dcpar_report_iteration *iterations;
    int64_t count, capacity;
    dcpar_report_timeline timelines[DCPAR_RECORD_TIMELINES];
    int32_t timeline_count;
} dcpar_record;

void dcpar_record_destroy(dcpar_record *record);

dcpar_status dcpar_record_add(dcpar_record *record, const dcpar_report_iteration *iteration, dcpar_error *error);

/* Adds a timeline, in the last one's place when there are DCPAR_RECORD_TIMELINES: `times` as dcpar_engine_times gives
 * them. */
dcpar_status dcpar_record_add_timeline(dcpar_record *record, const dcpar_result *result, const dcpar_plan *plan,
                                       const double *times, double planned_step_seconds, dcpar_error *error);

dcpar_report_policy dcpar_record_policy(const dcpar_record *record);

#endif
