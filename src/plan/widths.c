/* Widths: the chain of nested group sizes, and the one size of policies that have only one. */
#include "plan/widths.h"

#include <math.h>

/* Numbers of heads with very many divisors have very many chains; the first ones tried hold the smallest steps. */
#define MOST_CHAINS 20000

typedef struct chain_search {
    const dcpar_table *table;
    const int64_t *counts;
    dcpar_chain path, best;
    int64_t best_left_out;
    double best_work;
    int32_t tried;
} chain_search;

/* Rank-seconds a sequence of `bucket` takes on `column`. */
static double work_of(const dcpar_table *table, int32_t bucket, int32_t column) {
    const dcpar_shapes *shapes = dcpar_table_at(table, bucket, column);
    if (shapes->most == 0) return INFINITY;
    const int32_t batch = shapes->shape[shapes->most].best;
    return table->width[column] * shapes->shape[batch].seconds / batch;
}

static void judge(chain_search *search) {
    int64_t left_out = 0;
    double work = 0;
    for (int32_t bucket = 0; bucket < search->table->buckets; ++bucket) {
        double least = INFINITY;
        for (int32_t i = 0; i < search->path.count; ++i)
            least = fmin(least, work_of(search->table, bucket, search->path.column[i]));
        if (least < INFINITY)
            work += (double)search->counts[bucket] * least;
        else
            left_out += search->counts[bucket];
    }
    ++search->tried;
    if (left_out < search->best_left_out || (left_out == search->best_left_out && work < search->best_work)) {
        search->best = search->path;
        search->best_left_out = left_out;
        search->best_work = work;
    }
}

static bool divides(const dcpar_table *table, int32_t narrow, int32_t wide) {
    return table->width[wide] % table->width[narrow] == 0;
}

/* Whether a width could still be put between the last one of the path and `next`. */
static bool skips_one(const chain_search *search, int32_t next) {
    const int32_t last = search->path.count > 0 ? search->path.column[search->path.count - 1] : -1;
    for (int32_t between = last + 1; between < next; ++between)
        if ((last < 0 || divides(search->table, last, between)) && divides(search->table, between, next)) return true;
    return false;
}

/* Visits every chain that cannot be made longer. */
static void extend(chain_search *search) {
    dcpar_chain *path = &search->path;
    bool longest = true;
    const int32_t last = path->count > 0 ? path->column[path->count - 1] : -1;
    for (int32_t next = last + 1; next < search->table->widths; ++next) {
        if (last >= 0 && !divides(search->table, last, next)) continue;
        longest = false;
        if (skips_one(search, next) || search->tried >= MOST_CHAINS) continue;
        path->column[path->count++] = next;
        extend(search);
        --path->count;
    }
    if (longest) judge(search);
}

dcpar_chain dcpar_chain_choose(const dcpar_table *table, const int64_t *counts) {
    chain_search search = {.table = table, .counts = counts, .best_left_out = INT64_MAX, .best_work = INFINITY};
    extend(&search);
    return search.best;
}

int32_t dcpar_column_that_fits(const dcpar_table *table, int32_t bucket, int32_t world) {
    int32_t first = -1;
    for (int32_t column = 0; column < table->widths; ++column) {
        if (dcpar_table_at(table, bucket, column)->most == 0) continue;
        if (world % table->width[column] == 0) return column;
        if (first < 0) first = column;
    }
    return first;
}
