/* AdamW (Loshchilov and Hutter, 2019) and the learning rate. */
#include "train/optimizer.h"

#include <math.h>

double dcpar_learning_rate(const dcpar_engine_options *options, int64_t iteration) {
    const int64_t warmup = options->warmup_iterations, total = options->total_iterations;
    if (iteration < warmup) return options->learning_rate * (double)(iteration + 1) / (double)(warmup + 1);
    if (total <= warmup) return options->learning_rate;
    const double pi = 3.14159265358979323846;
    const double progress = fmin(1, (double)(iteration - warmup) / (double)(total - warmup));
    const double range = options->learning_rate - options->final_learning_rate;
    return options->final_learning_rate + 0.5 * range * (1 + cos(pi * progress));
}

double dcpar_sum_of_squares(const float *values, int64_t count) {
    double sums[8] = {0}; /* independent, so that additions overlap */
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; ++j) sums[j] += (double)values[i + j] * values[i + j];
    for (; i < count; ++i) sums[0] += (double)values[i] * values[i];
    double total = 0;
    for (int j = 0; j < 8; ++j) total += sums[j];
    return total;
}

void dcpar_adamw(const dcpar_engine_options *options, double learning_rate, double scale, int64_t step, int64_t count,
                 const float *gradients, float *parameters, float *first_moment, float *second_moment) {
    const float beta1 = (float)options->beta1, beta2 = (float)options->beta2;
    const float rate = (float)(learning_rate / (1 - pow(options->beta1, (double)step)));
    const float correction = (float)(1 / sqrt(1 - pow(options->beta2, (double)step)));
    const float epsilon = (float)options->epsilon, factor = (float)scale;
    const float decay = (float)(1 - learning_rate * options->weight_decay);
    for (int64_t i = 0; i < count; ++i) {
        const float gradient = gradients[i] * factor;
        const float first = beta1 * first_moment[i] + (1 - beta1) * gradient;
        const float second = beta2 * second_moment[i] + (1 - beta2) * gradient * gradient;
        first_moment[i] = first;
        second_moment[i] = second;
        parameters[i] = decay * parameters[i] - rate * first / (sqrtf(second) * correction + epsilon);
    }
}
