/* A lower bound on the time of any plan.
 *
 * A target X is impossible when the least rank-seconds that the sequences need, with shapes that end within X, are more
 * than the ranks have in X. The bound is the largest X that this argument refutes, for three measures of a rank's time:
 * the time itself, and two dual feasible functions (Fekete and Schepers, 2001), which map times so that whatever fits
 * into one rank's X still does: they see that of two micro-batches longer than X/2 no rank runs both. */
#include "plan/bound.h"

#include <math.h>

/* A bucket with at most this many sequences is covered exactly, by a small dynamic programme; more by their ratio. */
#define EXACT_COUNT 16

#define BISECTIONS 40

typedef struct bound_problem {
    const dcpar_table *table;
    const int64_t *counts;
    int32_t world;
} bound_problem;

/* The dual feasible function with threshold `part` * target; part = 0 is the time itself. */
static double measure(double seconds, double target, double part) {
    if (part > 0 && seconds > target * (1 - part)) return target;
    return seconds < target * part ? 0 : seconds;
}

/* Ranks that groups of `column` or a wider one can cover. */
static int32_t ranks_of(const bound_problem *problem, int32_t column) {
    int32_t most = 0;
    for (int32_t i = column; i < problem->table->widths; ++i) {
        const int32_t ranks = problem->world / problem->table->width[i] * problem->table->width[i];
        if (ranks > most) most = ranks;
    }
    return most;
}

/* The least measure of one micro-batch for each batch up to EXACT_COUNT, over the widths. */
static void least_by_batch(const bound_problem *problem, int32_t bucket, double target, double part, double *least) {
    for (int32_t batch = 1; batch <= EXACT_COUNT; ++batch) least[batch] = INFINITY;
    for (int32_t column = 0; column < problem->table->widths; ++column) {
        const dcpar_shapes *shapes = dcpar_table_at(problem->table, bucket, column);
        for (int32_t batch = 1; batch <= shapes->most && batch <= EXACT_COUNT; ++batch) {
            const double seconds = shapes->shape[batch].seconds;
            if (seconds > target) break;
            least[batch] = fmin(least[batch], problem->table->width[column] * measure(seconds, target, part));
        }
    }
}

/* The least measure that covers all `count` sequences of a bucket; INFINITY when none of its shapes ends in time. */
static double cover_exactly(const bound_problem *problem, int32_t bucket, double target, double part) {
    double least[EXACT_COUNT + 1], cover[EXACT_COUNT + 1] = {0};
    const int32_t count = (int32_t)problem->counts[bucket];
    least_by_batch(problem, bucket, target, part, least);
    for (int32_t total = 1; total <= count; ++total) {
        cover[total] = INFINITY;
        for (int32_t batch = 1; batch <= total; ++batch)
            cover[total] = fmin(cover[total], least[batch] + cover[total - batch]);
    }
    return cover[count];
}

static double cover_by_ratio(const bound_problem *problem, int32_t bucket, double target, double part) {
    double least = INFINITY;
    for (int32_t column = 0; column < problem->table->widths; ++column) {
        const dcpar_shapes *shapes = dcpar_table_at(problem->table, bucket, column);
        const int32_t most = dcpar_shapes_within(shapes, target);
        const double width = problem->table->width[column];
        if (most == 0) continue;
        if (part == 0) {
            const int32_t batch = shapes->shape[most].best;
            least = fmin(least, width * shapes->shape[batch].seconds / batch);
            continue;
        }
        for (int32_t batch = 1; batch <= most; ++batch)
            least = fmin(least, width * measure(shapes->shape[batch].seconds, target, part) / batch);
    }
    return least * (double)problem->counts[bucket];
}

/* The narrowest column on which one sequence ends in time; table->widths when there is none. */
static int32_t narrowest(const bound_problem *problem, int32_t bucket, double target) {
    int32_t column = 0;
    while (column < problem->table->widths && dcpar_shapes_within(dcpar_table_at(problem->table, bucket, column), target) == 0)
        ++column;
    return column;
}

/* Whether no plan ends within `target`. */
static bool refuted(const bound_problem *problem, double target, double part, bool exact) {
    double need[64] = {0}; /* by the narrowest column that its sequences can take */
    for (int32_t bucket = 0; bucket < problem->table->buckets; ++bucket) {
        if (problem->counts[bucket] == 0) continue;
        const int32_t column = narrowest(problem, bucket, target);
        if (column == problem->table->widths) return true;
        need[column] += exact && problem->counts[bucket] <= EXACT_COUNT ? cover_exactly(problem, bucket, target, part)
                                                                         : cover_by_ratio(problem, bucket, target, part);
    }
    double total = 0;
    for (int32_t column = problem->table->widths - 1; column >= 0; --column) {
        total += need[column];
        if (total > ranks_of(problem, column) * target * (1 + 1e-12)) return true;
    }
    return false;
}

/* The largest refuted target between `low` (refuted) and `high` (which may be refuted too), to a ten-thousandth. */
static double largest_refuted(const bound_problem *problem, double low, double high, double part, bool exact) {
    if (high <= low || refuted(problem, high, part, exact)) return high;
    for (int i = 0; i < BISECTIONS && high - low > 1e-4 * high; ++i) {
        const double middle = 0.5 * (low + high);
        if (refuted(problem, middle, part, exact))
            low = middle;
        else
            high = middle;
    }
    return low;
}

double dcpar_bound(const dcpar_table *table, const int64_t *counts, int32_t world) {
    const bound_problem problem = {table, counts, world};
    double high = 0;
    int64_t sequences = 0;
    for (int32_t bucket = 0; bucket < table->buckets; ++bucket) {
        sequences += counts[bucket];
        double least = INFINITY;
        for (int32_t column = 0; column < table->widths && counts[bucket] > 0; ++column) {
            const dcpar_shapes *shapes = dcpar_table_at(table, bucket, column);
            if (shapes->most > 0) least = fmin(least, shapes->shape[1].seconds);
        }
        if (counts[bucket] > 0) high += (double)counts[bucket] * least;
    }
    if (sequences == 0) return 0;
    double bound = largest_refuted(&problem, 0, high, 0, false);
    /* The finer measures matter when ranks run few micro-batches each; they start from what is known already. */
    const double few = 4.0 * world;
    bound = largest_refuted(&problem, bound, 1.25 * bound, 0, true);
    if ((double)sequences <= few) {
        bound = largest_refuted(&problem, bound, fmin(high, 2 * bound), 0.5, true);
        bound = largest_refuted(&problem, bound, fmin(high, 2 * bound), 1.0 / 3, true);
    }
    return bound;
}
