/* AdamW on one rank's shard, and the learning rate. Pure arithmetic: nothing here talks. */
#ifndef DCPAR_TRAIN_OPTIMIZER_H
#define DCPAR_TRAIN_OPTIMIZER_H

#include "dcpar_run.h"

/* The learning rate of iteration `iteration` (from 0): linear warm-up, then a cosine down to the final rate. */
double dcpar_learning_rate(const dcpar_engine_options *options, int64_t iteration);

/* The sum of squares of values[count], in double. */
double dcpar_sum_of_squares(const float *values, int64_t count);

/* One AdamW step number `step` (from 1) on [count] parameters, with gradients multiplied by `scale` first. */
void dcpar_adamw(const dcpar_engine_options *options, double learning_rate, double scale, int64_t step, int64_t count,
                 const float *gradients, float *parameters, float *first_moment, float *second_moment);

#endif
