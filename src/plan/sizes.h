/* Legal sequence-parallel sizes: helpers for the planner's other files. */
#ifndef DCPAR_PLAN_SIZES_H
#define DCPAR_PLAN_SIZES_H

#include "dcpar.h"

/* "1, 2, 4" into text[size]. */
void dcpar_sizes_text(const int32_t *sizes, int32_t count, char *text, size_t size);

#endif
