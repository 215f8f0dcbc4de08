/* Plans for people: what one iteration does, in 100 columns. */
#ifndef DCPAR_REPORT_PLAN_TEXT_H
#define DCPAR_REPORT_PLAN_TEXT_H

#include <stdio.h>

#include "dcpar.h"

/* Prints the plan's figures, a row for every kind of micro-batch (padded length, SP size, recomputed layers) and, for
 * worlds that fit on a screen, a timeline. `world` is the number of ranks the plan was made for. DCPAR_IO when `file`
 * cannot be written. */
dcpar_status dcpar_plan_print(FILE *file, const dcpar_plan *plan, int32_t world, dcpar_error *error);

/* Says when all lengths that are not 0 are equal: then there is nothing to gain from treating them differently. */
void dcpar_print_if_all_equal(FILE *file, const int64_t *lengths, int64_t count);

/* Prints an epoch's counts: used + dropped = total, with the reasons. */
dcpar_status dcpar_summary_print(FILE *file, const dcpar_epoch_summary *summary, dcpar_error *error);

#endif
