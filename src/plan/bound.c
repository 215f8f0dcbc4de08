/* A lower bound on the time of any plan.
 *
 * A target X is impossible when the least rank-seconds that the sequences need, with micro-batches that end within X,
 * are more than the ranks have in X. The bound is the largest X that this argument refutes, for three measures of a
 * rank's time: the time itself, and two dual feasible functions (Fekete and Schepers, 2001), which map times so that
 * whatever fits into one rank's X still does: they see that of two micro-batches longer than X/2 no rank runs both.
 *
 * A micro-batch is padded to its longest sequence and may hold shorter ones. Exchanging sequences never lengthens a
 * micro-batch when each takes the longest that are left, so the least rank-seconds are those of a cut of the sorted
 * sequences into runs: a small dynamic programme. */
#include "plan/bound.h"

#include <math.h>
#include <string.h>

/* Steps that the programme may take for one look at a target, and where all three measures are searched. */
#define MOST_STEPS 500000
#define FEW_STEPS 2000

/* A look is at a target this much above the bound so far. */
#define LOOK_AHEAD 1.06

#define BISECTIONS 40

typedef struct bound_problem {
    const dcpar_table *table;
    const int64_t *counts;
    int64_t sequences;
    int32_t world;
    bool exact; /* by the dynamic programme */
} bound_problem;

/* The least measure, and the narrowest width, of micro-batches of the present bucket or any longer one: a sequence may
 * always be padded to more than it needs. */
typedef struct least_shapes {
    int32_t most, narrowest;
    double measure[DCPAR_MOST_BATCH + 1];
    double share; /* the least rank-seconds of one sequence */
} least_shapes;

/* The dual feasible function with threshold `part` * target; part = 0 is the time itself. */
static double measure(double seconds, double target, double part) {
    if (part > 0 && seconds > target * (1 - part)) return target;
    return seconds < target * part ? 0 : seconds;
}

/* Takes one bucket more into account. */
static void add_shapes(const bound_problem *problem, int32_t bucket, double target, double part, least_shapes *least) {
    for (int32_t column = problem->table->widths - 1; column >= 0; --column) {
        const dcpar_shapes *shapes = dcpar_table_at(problem->table, bucket, column);
        const int32_t width = problem->table->width[column];
        int32_t most = dcpar_shapes_within(shapes, target);
        if (most == 0) continue;
        if (column < least->narrowest) least->narrowest = column;
        least->share = fmin(least->share, width * dcpar_shapes_price(shapes, shapes->shape[most].best, 1));
        if (!problem->exact) continue;
        if (most > problem->sequences) most = (int32_t)problem->sequences;
        while (least->most < most) least->measure[++least->most] = INFINITY;
        for (int32_t batch = 1; batch <= most; ++batch) {
            const double value = width * measure(shapes->shape[batch].seconds, target, part);
            if (value < least->measure[batch]) least->measure[batch] = value;
        }
    }
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

/* The least measure that covers the longest sequences, as they are added one by one. cover[done]: that of all so
 * far; cover[done + 1 .. reached]: that of more, by the runs known so far. No run is longer than DCPAR_MOST_BATCH,
 * so what lies further back can go. */
typedef struct run_cover {
    double cover[2 * DCPAR_MOST_BATCH + 1];
    int32_t done, reached;
} run_cover;

/* Lets every run start at the next sequence, of which `left` are left; returns the least measure of those up to it. */
static double extend_cover(run_cover *runs, const least_shapes *least, int64_t left) {
    if (runs->done == DCPAR_MOST_BATCH) {
        memmove(runs->cover, runs->cover + runs->done, (DCPAR_MOST_BATCH + 1) * sizeof *runs->cover);
        runs->reached -= runs->done;
        runs->done = 0;
    }
    double *cover = runs->cover + runs->done;
    const int32_t most = least->most < left ? least->most : (int32_t)left;
    while (runs->reached < runs->done + most) runs->cover[++runs->reached] = INFINITY;
    const double before = cover[0];
    for (int32_t batch = 1; batch <= most; ++batch) {
        const double value = before + least->measure[batch];
        cover[batch] = value < cover[batch] ? value : cover[batch];
    }
    ++runs->done;
    return cover[1];
}

/* No plan that ends within `target` takes less than the time returned, INFINITY if there is none at all: for each
 * width, what is needed by the sequences that need at least that width, on the ranks that such groups can cover. The
 * longest come first, so these are the first ones. */
static double least_seconds(const bound_problem *problem, double target, double part) {
    least_shapes least; /* these two are large: no more of them is set than is used */
    run_cover runs;
    double need = 0, seconds = 0;
    int64_t left = problem->sequences;
    least.narrowest = problem->table->widths;
    least.share = INFINITY;
    least.most = runs.done = runs.reached = 0;
    runs.cover[0] = 0;
    for (int32_t bucket = problem->table->buckets - 1; bucket >= 0; --bucket) {
        add_shapes(problem, bucket, target, part, &least);
        if (problem->counts[bucket] == 0) continue;
        if (least.narrowest == problem->table->widths) return INFINITY;
        if (problem->exact)
            for (int64_t i = 0; i < problem->counts[bucket]; ++i) need = extend_cover(&runs, &least, left--);
        else
            need += (double)problem->counts[bucket] * least.share;
        seconds = fmax(seconds, need / ranks_of(problem, least.narrowest));
    }
    return seconds;
}

static bool refuted(const bound_problem *problem, double target, double part) {
    return least_seconds(problem, target, part) > target * (1 + 1e-12);
}

/* The largest refuted target between `low` (refuted) and `high` (which may be refuted too), to a ten-thousandth. */
static double largest_refuted(const bound_problem *problem, double low, double high, double part) {
    if (high <= low || refuted(problem, high, part)) return high;
    for (int i = 0; i < BISECTIONS && high - low > 1e-4 * high; ++i) {
        const double middle = 0.5 * (low + high);
        if (refuted(problem, middle, part))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A plan either ends after the target or takes what all plans within the target take at least. */
static double look_ahead(const bound_problem *problem, double bound) {
    double target;
    do {
        target = LOOK_AHEAD * bound;
        bound = fmax(bound, fmin(target, least_seconds(problem, target, 0)));
    } while (bound == target);
    return bound;
}

/* Every sequence alone, one after another: a plan, if a poor one. Also counts the sequences, and the programme's
 * steps. */
static double one_by_one(const dcpar_table *table, const int64_t *counts, int64_t *sequences, double *steps) {
    double seconds = 0, most = 0;
    *sequences = 0;
    *steps = 0;
    for (int32_t bucket = table->buckets - 1; bucket >= 0; --bucket) {
        double least = INFINITY;
        for (int32_t column = 0; column < table->widths; ++column) {
            const dcpar_shapes *shapes = dcpar_table_at(table, bucket, column);
            most = fmax(most, shapes->most);
            if (shapes->most > 0) least = fmin(least, shapes->shape[1].seconds);
        }
        if (counts[bucket] == 0) continue;
        seconds += (double)counts[bucket] * least;
        *sequences += counts[bucket];
        *steps += (double)counts[bucket] * most;
    }
    return seconds;
}

double dcpar_bound(const dcpar_table *table, const int64_t *counts, int32_t world) {
    bound_problem problem = {.table = table, .counts = counts, .world = world};
    double steps;
    const double high = one_by_one(table, counts, &problem.sequences, &steps);
    if (problem.sequences == 0) return 0;
    /* A smaller target never needs less, so the answer lies between what the largest and what the smallest needs. */
    double bound = fmin(high, least_seconds(&problem, high, 0));
    bound = largest_refuted(&problem, bound, fmin(high, least_seconds(&problem, bound, 0)), 0);
    double limit;
    do {
        limit = fmin(high, 1.2 * bound);
        bound = dcpar_bound_by_prices(table, counts, world, bound, limit);
    } while (bound == limit && limit < high);
    problem.exact = steps <= MOST_STEPS;
    if (steps <= FEW_STEPS)
        for (int divisor = 1; divisor <= 3; ++divisor)
            bound = largest_refuted(&problem, bound, fmin(high, 2 * bound), divisor == 1 ? 0 : 1.0 / divisor);
    else if (problem.exact)
        bound = look_ahead(&problem, bound);
    return bound;
}
