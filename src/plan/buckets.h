/* Buckets: what the planner needs beside the public functions. */
#ifndef DCPAR_PLAN_BUCKETS_H
#define DCPAR_PLAN_BUCKETS_H

#include "dcpar.h"

/* As dcpar_buckets_minimal over the lengths up to `longest`, with the bounds also[also_count] (any order, zeros
 * ignored) added where they are not there already. */
dcpar_status dcpar_buckets_minimal_with(const int64_t *lengths, int64_t count, int32_t buckets, const int64_t *also,
                                        int32_t also_count, int64_t longest, dcpar_buckets **out, dcpar_error *error);

#endif
