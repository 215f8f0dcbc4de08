#include "report/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Sums over the iterations in which `value` and `weight` are known. */
typedef struct weighted_sum {
    double values, weights;
} weighted_sum;

static void add(weighted_sum *sum, double value, double weight) {
    if (!isfinite(value) || !isfinite(weight) || weight <= 0) return;
    sum->values += value * weight;
    sum->weights += weight;
}

static double mean(const weighted_sum *sum) { return sum->weights > 0 ? sum->values / sum->weights : NAN; }

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double seconds_ratio(const dcpar_report_iteration *one) { return one->predicted_seconds / one->seconds; }

static double memory_ratio(const dcpar_report_iteration *one) {
    if (one->predicted_peak_bytes == 0 || one->peak_bytes == 0) return NAN;
    return (double)one->predicted_peak_bytes / (double)one->peak_bytes;
}

/* `ratio`: planned over measured; `space` holds policy->count doubles. */
static double median_error(const dcpar_report_policy *policy, double (*ratio)(const dcpar_report_iteration *),
                           double *space) {
    int64_t count = 0;
    for (int64_t i = 0; i < policy->count; ++i) {
        const double error = fabs(ratio(&policy->iterations[i]) - 1);
        if (isfinite(error)) space[count++] = error;
    }
    if (count == 0) return NAN;
    qsort(space, (size_t)count, sizeof *space, compare_doubles);
    return (space[(count - 1) / 2] + space[count / 2]) / 2;
}

static dcpar_figures figures_of(const dcpar_report_policy *policy, double *space) {
    weighted_sum rate = {0}, planned_rate = {0}, idle = {0}, planned_idle = {0}, seconds = {0}, planned = {0};
    dcpar_figures figures = {.iterations = policy->count, .speedup = NAN, .planned_speedup = NAN, .last_loss = NAN};
    for (int64_t i = 0; i < policy->count; ++i) {
        const dcpar_report_iteration *one = &policy->iterations[i];
        figures.tokens += one->tokens;
        add(&rate, (double)one->tokens / one->seconds, one->seconds);
        add(&planned_rate, (double)one->tokens / one->predicted_seconds, one->predicted_seconds);
        add(&idle, one->idle_ratio, one->seconds);
        add(&planned_idle, one->predicted_idle_ratio, one->predicted_seconds);
        add(&seconds, one->seconds, 1);
        add(&planned, one->predicted_seconds, 1);
        if (isfinite(one->loss)) figures.last_loss = one->loss;
        if (one->peak_bytes > figures.peak_bytes) figures.peak_bytes = one->peak_bytes;
        if (one->predicted_peak_bytes > figures.planned_peak_bytes)
            figures.planned_peak_bytes = one->predicted_peak_bytes;
    }
    figures.measured = rate.weights > 0;
    figures.planned_throughput = mean(&planned_rate);
    figures.throughput = figures.measured ? mean(&rate) : figures.planned_throughput;
    figures.idle = mean(&idle);
    figures.planned_idle = mean(&planned_idle);
    figures.seconds = mean(&seconds);
    figures.planned_seconds = mean(&planned);
    figures.error = median_error(policy, seconds_ratio, space);
    figures.memory_error = median_error(policy, memory_ratio, space);
    return figures;
}

dcpar_status dcpar_figures_make(const dcpar_report *report, dcpar_figures *figures, dcpar_error *error) {
    int64_t most = 1;
    for (int32_t i = 0; i < report->policy_count; ++i)
        if (report->policies[i].count > most) most = report->policies[i].count;
    double *space = malloc((size_t)most * sizeof *space);
    if (space == NULL) return dcpar_fail_memory(error, "a report");
    for (int32_t i = 0; i < report->policy_count; ++i) figures[i] = figures_of(&report->policies[i], space);
    free(space);
    const int32_t baseline = dcpar_report_baseline(report);
    for (int32_t i = 0; baseline >= 0 && i < report->policy_count; ++i) {
        figures[i].planned_speedup = figures[i].planned_throughput / figures[baseline].planned_throughput;
        if (figures[i].measured == figures[baseline].measured)
            figures[i].speedup = figures[i].throughput / figures[baseline].throughput;
    }
    return DCPAR_OK;
}

/* The policy whose throughput, times `sign`, is the highest. A measured one always wins over one only planned. */
static int32_t find_extreme(const dcpar_figures *figures, int32_t count, double sign) {
    int32_t best = -1;
    for (int32_t i = 0; i < count; ++i) {
        const dcpar_figures *one = &figures[i];
        if (!isfinite(one->throughput)) continue;
        const bool better = best < 0 || (one->measured != figures[best].measured
                                             ? one->measured
                                             : sign * one->throughput > sign * figures[best].throughput);
        if (better) best = i;
    }
    return best;
}

int32_t dcpar_figures_fastest(const dcpar_figures *figures, int32_t count) { return find_extreme(figures, count, 1); }

int32_t dcpar_figures_slowest(const dcpar_figures *figures, int32_t count) { return find_extreme(figures, count, -1); }

int32_t dcpar_report_baseline(const dcpar_report *report) {
    for (int32_t i = 0; i < report->policy_count; ++i)
        if (strcmp(report->policies[i].name, DCPAR_REPORT_BASELINE) == 0) return i;
    return -1;
}
