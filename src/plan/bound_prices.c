/* A lower bound by prices: the dual of the linear programme over all that one rank may run.
 *
 * Give every sequence a price, and every rank of a group an equal part of its micro-batches' prices. If no rank can run
 * more than V worth of micro-batches within X, and the sequences are worth more than V times the ranks, X is impossible.
 * Any prices give a valid bound. Good ones charge sequences their work and a share of what opening a micro-batch costs:
 * the more the share, the scarcer memory is. Unlike the sum of work alone this sees that ranks run a whole number of
 * micro-batches, and that one which memory cuts short may leave too little time for another. */
#include <math.h>

#include "plan/bound.h"

/* Seconds are counted in steps, rounded down for what runs and up for what a rank has, so that the bound stays valid. */
#define STEPS 320

/* Micro-batches below this many steps would be rounded too much: they flow, at the best price a second among them. */
#define LEAST_STEPS 8

/* Prices of a sequence of each bucket would need memory for each: buckets beyond this many are left to the other bounds. */
#define MOST_BUCKETS 512

typedef struct price_problem {
    const dcpar_table *table;
    const int64_t *counts;
    int32_t world;
    double low, high; /* seconds: the bound so far, and the most that this one can say */
    double price[MOST_BUCKETS];
} price_problem;

/* fmax is a call, and these loops are where planning spends its time. */
static inline double larger(double a, double b) { return a > b ? a : b; }

/* Sets the prices for a share; longer sequences are never cheaper. Returns what all are worth together. */
static double set_prices(price_problem *problem, double share) {
    const dcpar_table *table = problem->table;
    double worth = 0, before = 0;
    for (int32_t bucket = 0; bucket < table->buckets; ++bucket) {
        double price = INFINITY;
        for (int32_t column = 0; column < table->widths; ++column) {
            const dcpar_shapes *shapes = dcpar_table_at(table, bucket, column);
            const int32_t most = dcpar_shapes_within(shapes, problem->low);
            if (most > 0) price = fmin(price, table->width[column] * dcpar_shapes_price(shapes, most, share));
        }
        problem->price[bucket] = before = price < INFINITY ? fmax(price, before) : before;
        worth += (double)problem->counts[bucket] * before;
    }
    return worth;
}

/* Raises most_worth[steps] by the bucket's micro-batches of one width, and *flow by the short ones. */
static void add_shapes(const price_problem *problem, int32_t bucket, int32_t column, double *most_worth, double *flow) {
    const dcpar_shapes *shapes = dcpar_table_at(problem->table, bucket, column);
    const double part = 1.0 / problem->table->width[column], steps_a_second = STEPS / problem->high;
    double worth = 0;
    int64_t left = problem->counts[bucket];
    int32_t from = bucket;
    for (int32_t batch = 1; batch <= shapes->most; ++batch, --left) {
        while (left == 0 && from > 0) left = problem->counts[--from]; /* the micro-batch is filled up with the next shorter */
        const double seconds = shapes->shape[batch].seconds;
        if (left == 0 || seconds > problem->high) return;
        worth += problem->price[from] * part;
        const int32_t steps = (int32_t)(seconds * steps_a_second);
        if (steps < LEAST_STEPS)
            *flow = larger(*flow, worth / seconds);
        else if (worth > most_worth[steps])
            most_worth[steps] = worth;
    }
}

/* The largest time for which the prices refute every plan; 0 when they refute none. */
static double refuted_by(const price_problem *problem, double worth) {
    double most_worth[STEPS + 1] = {0}, rank[STEPS + 1] = {0}, flow = 0;
    int32_t kinds[STEPS + 1], kind_count = 0;
    for (int32_t bucket = 0; bucket < problem->table->buckets; ++bucket)
        for (int32_t column = 0; column < problem->table->widths; ++column)
            add_shapes(problem, bucket, column, most_worth, &flow);
    flow *= problem->high / STEPS;
    double most = 0;
    for (int32_t steps = LEAST_STEPS; steps <= STEPS; ++steps) { /* those that are worth more than all shorter ones */
        if (most_worth[steps] <= most) continue;
        most = most_worth[steps];
        kinds[kind_count++] = steps;
    }
    /* rank[i]: the most that one rank runs within i steps. A time between i and i + 1 steps is charged as i; what flows
     * may use all of it. */
    for (int32_t i = 0; i <= STEPS; ++i) {
        rank[i] = larger(rank[i], (i > 0 ? rank[i - 1] : 0) + flow);
        if (problem->world * rank[i] * (1 + 1e-9) >= worth) return i * problem->high / STEPS;
        for (int32_t kind = 0; kind < kind_count && i + kinds[kind] <= STEPS; ++kind) {
            double *later = &rank[i + kinds[kind]];
            const double sum = rank[i] + most_worth[kinds[kind]];
            if (sum > *later) *later = sum;
        }
    }
    return problem->high;
}

double dcpar_bound_by_prices(const dcpar_table *table, const int64_t *counts, int32_t world, double low, double high) {
    if (table->buckets > MOST_BUCKETS || high <= low) return low;
    price_problem problem = {.table = table, .counts = counts, .world = world, .low = low, .high = high};
    double best = 0, best_share = 0;
    for (double share = 0; share <= 1; share += 0.25) {
        const double bound = refuted_by(&problem, set_prices(&problem, share));
        if (bound <= best) continue;
        best = bound;
        best_share = share;
    }
    const double middle = best_share;
    for (int side = -1; side <= 1; side += 2)
        best = fmax(best, refuted_by(&problem, set_prices(&problem, middle + side * 0.125)));
    return fmax(low, best);
}
