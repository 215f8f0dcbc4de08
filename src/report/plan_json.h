/* Plans and summaries as JSON, one object a line. Numbers keep their exact value: reading gives the same double. */
#ifndef DCPAR_REPORT_PLAN_JSON_H
#define DCPAR_REPORT_PLAN_JSON_H

#include <stdio.h>

#include "dcpar.h"

/* {"iteration", "tokens", "seconds", "lower_bound", "idle_ratio", "microbatches": [{"first_rank", "sp", "rows",
 * "padded_length", "recompute", "start", "seconds"}]}: rows count from 0. The line is flushed, so that a reader at the
 * other end of a pipe has it at once and a full disk is noticed (DCPAR_IO). */
dcpar_status dcpar_plan_write_json(FILE *file, const dcpar_plan *plan, dcpar_error *error);

/* {"summary": {"iterations", "used", "dropped", "total", "dropped_by_reason": {"empty", "too long"}}}: reasons that
 * never occurred are left out. */
dcpar_status dcpar_summary_write_json(FILE *file, const dcpar_epoch_summary *summary, dcpar_error *error);

#endif
