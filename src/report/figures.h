/* What a policy's iterations amount to: the numbers of the result table. */
#ifndef DCPAR_REPORT_FIGURES_H
#define DCPAR_REPORT_FIGURES_H

#include "report/report.h"

/* NAN (bytes: 0) where nothing is known. */
typedef struct dcpar_figures {
    int64_t iterations, tokens;
    bool measured;                   /* false: throughput is planned, because nothing was measured */
    double throughput;               /* sum of tokens / sum of seconds */
    double planned_throughput;       /* sum of tokens / sum of planned seconds */
    double speedup, planned_speedup; /* over the baseline's; NAN without a baseline */
    double idle, planned_idle;       /* of all rank-seconds: means weighted with each iteration's seconds */
    double seconds, planned_seconds; /* mean of an iteration */
    double error, memory_error;      /* medians over iterations of |planned / measured - 1| */
    double last_loss;
    int64_t peak_bytes, planned_peak_bytes;
} dcpar_figures;

/* Fills figures[report->policy_count]. */
dcpar_status dcpar_figures_make(const dcpar_report *report, dcpar_figures *figures, dcpar_error *error);

/* The policy with the highest throughput, the one with the lowest (of the measured ones if there are any), and the
 * baseline; -1 when there is none. */
int32_t dcpar_figures_fastest(const dcpar_figures *figures, int32_t count);
int32_t dcpar_figures_slowest(const dcpar_figures *figures, int32_t count);
int32_t dcpar_report_baseline(const dcpar_report *report);

#endif
