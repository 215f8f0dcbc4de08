/* Few sequences: branch and bound over micro-batches, widths and blocks. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "plan/fill.h"

/* The search is for small instances; a larger one is left to the fast filling. */
#define MOST_SEQUENCES 16
#define MOST_RANKS 64
#define MOST_NODES 10000

typedef struct exact_search {
    const dcpar_work *work;
    double bound, best;              /* seconds */
    int32_t bucket[MOST_SEQUENCES];  /* of each sequence, the longest first */
    double area[MOST_SEQUENCES + 1]; /* rank-seconds that this sequence and all after it take at least */
    int32_t sequences;
    double load[MOST_RANKS], loaded; /* by rank, and their sum */
    dcpar_placement path[MOST_SEQUENCES], found[MOST_SEQUENCES];
    int32_t depth, found_count;
    int32_t nodes;
} exact_search;

/* The least rank-seconds of one sequence of `bucket`, in a micro-batch that may be padded to more. */
static double area_of_one(const dcpar_work *work, int32_t bucket) {
    double least = INFINITY;
    for (int32_t i = 0; i < work->chain->count; ++i) {
        const int32_t column = work->chain->column[i];
        const dcpar_shapes *shapes = dcpar_table_at(work->table, bucket, column);
        if (shapes->most == 0) continue;
        const int32_t batch = shapes->shape[shapes->most].best;
        least = fmin(least, work->table->width[column] * shapes->shape[batch].seconds / batch);
    }
    return least;
}

/* Whether every rank from `first` is as loaded as the one `width` before it, for `width` ranks. */
static bool loaded_alike(const exact_search *search, int32_t first, int32_t width) {
    for (int32_t rank = first; rank < first + width; ++rank)
        if (search->load[rank] != search->load[rank - width]) return false;
    return true;
}

/* Whether the block at `first`, or a wider one around it, stands beside one that is loaded alike in the same next wider
 * block: then it is the same choice again. place: of the block's width in the chain. */
static bool chosen_before(const exact_search *search, int32_t first, int32_t place) {
    const dcpar_work *work = search->work;
    const dcpar_chain *chain = work->chain;
    for (int32_t i = place; i < chain->count; ++i) {
        const int32_t width = work->table->width[chain->column[i]], start = first / width * width;
        if (start + width > work->world) return false;
        if (start < width) continue;
        const int32_t around = i + 1 < chain->count ? work->table->width[chain->column[i + 1]] : work->world;
        const bool beside = start / around == (start - width) / around || i + 1 == chain->count;
        if (beside && loaded_alike(search, start, width)) return true;
    }
    return false;
}

static bool hopeless(const exact_search *search, int32_t next) {
    return search->loaded + search->area[next] >= search->best * (1 - 1e-9) * search->work->world;
}

static void visit(exact_search *search, int32_t next, int64_t code);

/* Tries every block of one shape for the `batch` longest sequences that are left; `code` numbers shapes so that
 * micro-batches of one bucket are tried in one order only. */
static void try_shape(exact_search *search, int32_t next, int32_t place, int32_t batch, int64_t code) {
    const dcpar_work *work = search->work;
    const int32_t column = work->chain->column[place];
    const int32_t width = work->table->width[column], bucket = search->bucket[next];
    const double seconds = dcpar_table_at(work->table, bucket, column)->shape[batch].seconds;
    for (int32_t first = 0; first + width <= work->world; first += width) {
        if (chosen_before(search, first, place)) continue;
        double start = 0, before[MOST_RANKS];
        for (int32_t i = 0; i < width; ++i) start = fmax(start, search->load[first + i]);
        /* Widths go down along a plan, not along this search, so a rank's load is the sum of what it runs. */
        if (start + seconds >= search->best * (1 - 1e-9)) continue;
        for (int32_t i = 0; i < width; ++i) {
            before[i] = search->load[first + i];
            search->load[first + i] += seconds;
        }
        search->loaded += width * seconds;
        search->path[search->depth++] = (dcpar_placement){bucket, column, batch, first / width};
        visit(search, next + batch, code);
        --search->depth;
        search->loaded -= width * seconds;
        for (int32_t i = 0; i < width; ++i) search->load[first + i] = before[i];
        if (search->best <= search->bound || search->nodes > MOST_NODES) return;
    }
}

static void keep_path(exact_search *search) {
    double longest = 0;
    for (int32_t rank = 0; rank < search->work->world; ++rank) longest = fmax(longest, search->load[rank]);
    if (longest >= search->best) return;
    search->best = longest;
    search->found_count = search->depth;
    for (int32_t i = 0; i < search->depth; ++i) search->found[i] = search->path[i];
}

static void visit(exact_search *search, int32_t next, int64_t code) {
    if (++search->nodes > MOST_NODES || hopeless(search, next)) return;
    if (next == search->sequences) {
        keep_path(search);
        return;
    }
    const dcpar_work *work = search->work;
    if (search->depth > 0 && search->bucket[next] != search->path[search->depth - 1].bucket) code = 0;
    for (int32_t i = 0; i < work->chain->count; ++i) {
        const int32_t column = work->chain->column[i];
        const dcpar_shapes *shapes = dcpar_table_at(work->table, search->bucket[next], column);
        const int32_t left = search->sequences - next;
        for (int32_t batch = shapes->most < left ? shapes->most : left; batch >= 1; --batch) {
            const int64_t this_code = (int64_t)i * (DCPAR_MOST_BATCH + 1) + (DCPAR_MOST_BATCH - batch);
            if (this_code >= code) try_shape(search, next, i, batch, this_code);
        }
    }
}

/* The order in which plans run: widest first. Few elements, so by insertion. */
static void sort_by_width(exact_search *search) {
    for (int32_t i = 1; i < search->found_count; ++i) {
        const dcpar_placement moved = search->found[i];
        int32_t place = i;
        while (place > 0 && search->found[place - 1].column < moved.column) {
            search->found[place] = search->found[place - 1];
            --place;
        }
        search->found[place] = moved;
    }
}

dcpar_status dcpar_fill_exactly(const dcpar_work *work, double bound, dcpar_fill_space *space, dcpar_error *error) {
    int64_t sequences = 0;
    for (int32_t bucket = 0; bucket < work->table->buckets; ++bucket) sequences += work->counts[bucket];
    if (sequences > MOST_SEQUENCES || work->world > MOST_RANKS || space->best.seconds <= bound * (1 + 1e-9))
        return DCPAR_OK;
    exact_search search = {.work = work, .bound = bound, .best = space->best.seconds};
    for (int32_t bucket = work->table->buckets - 1; bucket >= 0; --bucket)
        for (int64_t i = 0; i < work->counts[bucket]; ++i) search.bucket[search.sequences++] = bucket;
    for (int32_t i = search.sequences - 1; i >= 0; --i)
        search.area[i] = search.area[i + 1] + area_of_one(work, search.bucket[i]);
    visit(&search, 0, 0);
    if (search.found_count == 0) return DCPAR_OK;
    sort_by_width(&search);
    space->best.count = 0;
    space->best.seconds = search.best;
    for (int32_t i = 0; i < search.found_count; ++i) DCPAR_TRY(dcpar_filling_add(&space->best, search.found[i], error));
    return DCPAR_OK;
}
