/* Accumulation (Eq. 3): how often each batch of an iteration runs so that all end at the same time. */
#include <math.h>

#include "base/error.h"
#include "dcpar.h"

/* Times are measured; two that differ by less than this are the same. */
#define SAME_TIME 1e-12

/* The search tries every count, so counts are kept to what it does in well under a second. */
#define MOST_REPEATS (1 << 22)

static double largest(const double *values, int32_t count) {
    double most = values[0];
    for (int32_t i = 1; i < count; ++i)
        if (values[i] > most) most = values[i];
    return most;
}

/* How often a batch of `seconds` runs within `limit`. */
static double repeats(double limit, double seconds) { return floor(limit / seconds * (1 + SAME_TIME)); }

/* The rank-seconds of work when every batch runs as often as fits in `span`; what is not work is idle. */
static double filled_work(const double *seconds, const int32_t *sp, int32_t count, double span) {
    double work = 0;
    for (int32_t i = 0; i < count; ++i) work += sp[i] * repeats(span, seconds[i]) * seconds[i];
    return work;
}

static bool appears_before(const double *seconds, int32_t index) {
    for (int32_t i = 0; i < index; ++i)
        if (seconds[i] == seconds[index]) return true;
    return false;
}

/* The span (time of the longest batch) with the smallest idle ratio. Every optimum has a batch that fills its span, so
 * it is enough to try each batch as the longest, as often as the cap allows. */
static double best_span(const double *seconds, const int32_t *sp, int32_t count, int32_t world, double cap) {
    const double slowest = largest(seconds, count);
    double best = slowest, best_idle = INFINITY;
    for (int32_t i = 0; i < count; ++i) {
        if (appears_before(seconds, i)) continue;
        const double most = repeats(cap, seconds[i]);
        for (double g = ceil(slowest / seconds[i] * (1 - SAME_TIME)); g <= most; ++g) {
            const double span = g * seconds[i];
            const double idle = 1 - filled_work(seconds, sp, count, span) / (world * span);
            if (idle < best_idle - SAME_TIME || (idle < best_idle + SAME_TIME && span > best)) {
                best_idle = fmin(idle, best_idle);
                best = span;
            }
        }
    }
    return best;
}

static dcpar_status check_input(const double *seconds, const int32_t *sp, int32_t count, int32_t world, int32_t g_min,
                                int32_t g_max, dcpar_error *error) {
    if (count < 1) return dcpar_fail(error, DCPAR_INVALID, "an iteration needs at least one batch, %d given", count);
    if (g_min < 1 || g_max < 1)
        return dcpar_fail(error, DCPAR_INVALID, "accumulation limits %d and %d must be at least 1", g_min, g_max);
    int64_t ranks = 0;
    for (int32_t i = 0; i < count; ++i) {
        if (!isfinite(seconds[i]) || seconds[i] <= 0)
            return dcpar_fail(error, DCPAR_INVALID, "batch %d: a time of %g seconds is not positive", i, seconds[i]);
        if (sp[i] < 1) return dcpar_fail(error, DCPAR_INVALID, "batch %d: an SP size of %d is below 1", i, sp[i]);
        ranks += sp[i];
    }
    if (ranks > world)
        return dcpar_fail(error, DCPAR_INVALID, "the batches take %lld ranks, the world has %d", (long long)ranks,
                          world);
    return DCPAR_OK;
}

dcpar_status dcpar_accumulate(const double *seconds, const int32_t *sp, int32_t count, int32_t world, int32_t g_min,
                              int32_t g_max, int32_t *g, double *idle_ratio, dcpar_error *error) {
    DCPAR_TRY(check_input(seconds, sp, count, world, g_min, g_max, error));
    const double cap = g_max * largest(seconds, count);
    for (int32_t i = 0; i < count; ++i)
        if (repeats(cap, seconds[i]) > MOST_REPEATS)
            return dcpar_fail(error, DCPAR_INVALID, "batch %d of %g seconds would run more than %d times in %g seconds",
                              i, seconds[i], MOST_REPEATS, cap);
    const double span = best_span(seconds, sp, count, world, cap);

    double most = 0, longest = 0;
    for (int32_t i = 0; i < count; ++i) {
        most = fmax(most, repeats(span, seconds[i]));
        longest = fmax(longest, repeats(span, seconds[i]) * seconds[i]);
    }
    double scale = 1;
    if (most < g_min) scale = fmax(1, fmin(ceil(g_min / most), repeats(cap, longest)));
    for (int32_t i = 0; i < count; ++i) g[i] = (int32_t)(scale * repeats(span, seconds[i]));
    if (idle_ratio != NULL) *idle_ratio = 1 - filled_work(seconds, sp, count, span) / (world * span);
    return DCPAR_OK;
}
