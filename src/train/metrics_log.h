/* DIR/metrics.jsonl: one JSON object an iteration, on disk as soon as the iteration is over. Local; rank 0 keeps it. */
#ifndef DCPAR_TRAIN_METRICS_LOG_H
#define DCPAR_TRAIN_METRICS_LOG_H

#include <stdio.h>

#include "report/report.h"

typedef struct dcpar_metrics_log {
    FILE *file;
    char *path;
} dcpar_metrics_log;

/* Opens `path` for more lines. Of what is there, the lines of iterations before `first` are kept; a run that goes on
 * from a checkpoint writes the others again. */
dcpar_status dcpar_metrics_log_open(const char *path, int64_t first, dcpar_metrics_log *log, dcpar_error *error);
dcpar_status dcpar_metrics_log_write(dcpar_metrics_log *log, const dcpar_report_iteration *iteration,
                                     dcpar_error *error);
void dcpar_metrics_log_close(dcpar_metrics_log *log);

#endif
