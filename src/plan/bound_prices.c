/* A lower bound by prices: the dual of the linear programme over all that one rank may run.
 *
 * Give every sequence a price, and every rank of a group an equal part of its micro-batches' prices. If no rank can
 * run more than V worth of micro-batches within X, and the sequences are worth more than V times the ranks, X is
 * impossible. Any prices give a valid bound. Good ones charge sequences their work and a share of what opening a
 * micro-batch costs: the more the share, the scarcer memory is. Unlike the sum of work alone this sees that ranks
 * run a whole number of micro-batches, and that one which memory cuts short may leave too little time for another. */
#include <math.h>

#include "plan/bound.h"

/* Seconds are counted in steps, rounded down for what runs and up for what a rank has, so that the bound stays
 * valid. */
#define STEPS 320

/* Micro-batches below this many steps would be rounded too much: they flow, at the best price a second among them. */
#define LEAST_STEPS 8

/* Beyond this many buckets the bound is left to the other arguments: prices are kept for each bucket. */
#define MOST_BUCKETS 256

/* The shares of a micro-batch's constant that are charged. All are looked at together: what a micro-batch takes is the
 * same for all, and processors add several numbers as fast as one. */
static const double shares[] = {0, 0.125, 0.25, 0.5, 0.75, 1};
enum { SHARES = sizeof shares / sizeof shares[0] };

/* What something is worth by each share. */
typedef struct worth {
    double by[SHARES];
} worth;

typedef struct price_problem {
    const dcpar_table *table;
    const int64_t *counts;
    double low, high; /* seconds: the bound so far, and the most that this one can say */
    worth price[MOST_BUCKETS];
    worth most[STEPS + 1]; /* of one rank's part in one micro-batch of so many steps */
    worth flow;            /* the same a second, among the short micro-batches */
} price_problem;

/* Like fmax, which is a call. */
static inline double larger(double a, double b) { return a > b ? a : b; }

/* Sets the prices: a longer sequence is never cheaper. Returns what all are worth together. */
static worth set_prices(price_problem *problem) {
    const dcpar_table *table = problem->table;
    worth all = {{0}}, before = {{0}};
    for (int32_t bucket = 0; bucket < table->buckets; ++bucket) {
        worth price;
        for (int s = 0; s < SHARES; ++s) price.by[s] = INFINITY;
        for (int32_t column = 0; column < table->widths; ++column) {
            const dcpar_shapes *shapes = dcpar_table_at(table, bucket, column);
            const int32_t batch = dcpar_shapes_within(shapes, problem->low);
            for (int s = 0; s < SHARES && batch > 0; ++s)
                price.by[s] = fmin(price.by[s], table->width[column] * dcpar_shapes_price(shapes, batch, shares[s]));
        }
        for (int s = 0; s < SHARES; ++s) {
            if (price.by[s] < INFINITY) before.by[s] = larger(before.by[s], price.by[s]);
            all.by[s] += (double)problem->counts[bucket] * before.by[s];
        }
        problem->price[bucket] = before;
    }
    return all;
}

/* Raises problem->most and ->flow by the bucket's micro-batches of one width, filled up with shorter sequences. */
static void add_shapes(price_problem *problem, int32_t bucket, int32_t column) {
    const dcpar_shapes *shapes = dcpar_table_at(problem->table, bucket, column);
    const double part = 1.0 / problem->table->width[column], steps_a_second = STEPS / problem->high;
    worth sum = {{0}};
    int64_t left = problem->counts[bucket];
    int32_t from = bucket;
    for (int32_t batch = 1; batch <= shapes->most; ++batch, --left) {
        while (left == 0 && from > 0) left = problem->counts[--from];
        const double seconds = shapes->shape[batch].seconds;
        if (left == 0 || seconds > problem->high) return;
        for (int s = 0; s < SHARES; ++s) sum.by[s] += problem->price[from].by[s] * part;
        const int32_t steps = (int32_t)(seconds * steps_a_second);
        if (steps < LEAST_STEPS) {
            for (int s = 0; s < SHARES; ++s) problem->flow.by[s] = larger(problem->flow.by[s], sum.by[s] / seconds);
        } else {
            worth *most = &problem->most[steps];
            for (int s = 0; s < SHARES; ++s) most->by[s] = larger(most->by[s], sum.by[s]);
        }
    }
}

/* The lengths in steps that are worth more than all shorter ones, by some share; returns how many. */
static int32_t list_lengths(const price_problem *problem, int32_t *lengths) {
    worth most = {{0}};
    int32_t count = 0;
    for (int32_t steps = LEAST_STEPS; steps <= STEPS; ++steps) {
        bool more = false;
        for (int s = 0; s < SHARES; ++s) {
            more |= problem->most[steps].by[s] > most.by[s];
            most.by[s] = larger(most.by[s], problem->most[steps].by[s]);
        }
        if (more) lengths[count++] = steps;
    }
    return count;
}

/* The largest time within which no plan can end by the prices of some share, when all sequences are worth `all` and
 * spread over `world` ranks. rank[i] is the most that one rank runs within i steps. A time between i and i + 1 steps
 * is charged as i; what flows may use all of it. */
static double refuted_by(const price_problem *problem, worth all, int32_t world) {
    worth rank[STEPS + 1] = {{{0}}}, before = {{0}};
    int32_t lengths[STEPS + 1];
    const int32_t count = list_lengths(problem, lengths);
    const double step = problem->high / STEPS;
    for (int32_t i = 0; i <= STEPS; ++i) {
        bool refuted = false;
        for (int s = 0; s < SHARES; ++s) {
            before.by[s] = rank[i].by[s] = larger(rank[i].by[s], before.by[s] + problem->flow.by[s] * step);
            refuted |= world * before.by[s] * (1 + 1e-9) < all.by[s];
        }
        if (!refuted) return i * step;
        for (int32_t k = 0; k < count && i + lengths[k] <= STEPS; ++k) {
            worth *later = &rank[i + lengths[k]];
            const worth *one = &problem->most[lengths[k]];
            for (int s = 0; s < SHARES; ++s) later->by[s] = larger(later->by[s], before.by[s] + one->by[s]);
        }
    }
    return problem->high;
}

double dcpar_bound_by_prices(const dcpar_table *table, const int64_t *counts, int32_t world, double low, double high) {
    if (table->buckets > MOST_BUCKETS || high <= low) return low;
    price_problem problem = {.table = table, .counts = counts, .low = low, .high = high};
    const worth all = set_prices(&problem);
    for (int32_t bucket = 0; bucket < table->buckets; ++bucket)
        for (int32_t column = 0; column < table->widths; ++column) add_shapes(&problem, bucket, column);
    return fmax(low, refuted_by(&problem, all, world));
}
