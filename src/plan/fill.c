/* Filling (policy buddy): widest first, on blocks that are halved as widths narrow, for the smallest target that works.
 *
 * Everything placed before is at least as wide, so all ranks of a block are free at the same moment: a block has one load
 * and alignment costs no idle time. */
#include "plan/fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Targets are told apart to this share. */
#define PRECISION 1e-3
#define BISECTIONS 9

/* No single rule is best everywhere; each is tried, the best result wins. */
typedef struct fill_rule {
    bool fullest; /* the block on which least time is left over, not the one that is free first */
    bool spread;  /* micro-batches no larger than what spreads a bucket over the ranks */
} fill_rule;

static const fill_rule rules[] = {{true, false}, {false, false}, {false, true}};
enum { RULE_COUNT = sizeof rules / sizeof rules[0] };

dcpar_status dcpar_fill_space_create(int32_t world, int32_t buckets, dcpar_fill_space *space, dcpar_error *error) {
    memset(space, 0, sizeof *space);
    space->blocks = malloc((size_t)world * sizeof *space->blocks);
    space->split = malloc((size_t)world * sizeof *space->split);
    space->left = malloc((size_t)buckets * sizeof *space->left);
    space->order = malloc((size_t)buckets * sizeof *space->order);
    if (space->blocks != NULL && space->split != NULL && space->left != NULL && space->order != NULL) return DCPAR_OK;
    dcpar_fill_space_destroy(space);
    return dcpar_fail_memory(error, "the search for a plan");
}

void dcpar_fill_space_destroy(dcpar_fill_space *space) {
    free(space->blocks);
    free(space->split);
    free(space->left);
    free(space->order);
    free(space->best.placements);
    free(space->trial.placements);
    memset(space, 0, sizeof *space);
}

dcpar_status dcpar_filling_add(dcpar_filling *filling, dcpar_placement placement, dcpar_error *error) {
    if (filling->count == filling->capacity) {
        const int64_t capacity = filling->capacity > 0 ? 2 * filling->capacity : 256;
        dcpar_placement *larger = realloc(filling->placements, (size_t)capacity * sizeof *larger);
        if (larger == NULL) return dcpar_fail_memory(error, "the search for a plan");
        filling->placements = larger;
        filling->capacity = capacity;
    }
    filling->placements[filling->count++] = placement;
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------ widths, order */

/* The chain's place of the width on which the bucket's sequences take the fewest rank-seconds, each micro-batch ending
 * within the target; -1 when none does. */
static int32_t cheapest_width(const dcpar_work *work, int32_t bucket, double target) {
    double least = INFINITY;
    int32_t cheapest = -1;
    for (int32_t i = 0; i < work->chain->count; ++i) {
        const int32_t column = work->chain->column[i];
        const dcpar_shapes *shapes = dcpar_table_at(work->table, bucket, column);
        int64_t batch = dcpar_shapes_within(shapes, target);
        if (batch > work->counts[bucket]) batch = work->counts[bucket];
        if (batch == 0) continue;
        batch = shapes->shape[batch].best;
        const double cost = work->table->width[column] * shapes->shape[batch].seconds / (double)batch;
        if (cost < least) {
            least = cost;
            cheapest = i;
        }
    }
    return cheapest;
}

/* Buckets from the longest length down, those without sequences left out; buckets are in order of length. */
static int32_t list_buckets(const dcpar_work *work, int32_t *order) {
    int32_t count = 0;
    for (int32_t bucket = work->table->buckets - 1; bucket >= 0; --bucket)
        if (work->counts[bucket] > 0) order[count++] = bucket;
    return count;
}

/* ------------------------------------------------------------------------------------------------- blocks */

/* Blocks are kept in order of load. Gives the blocks of `width` ranks: parts of the present ones (of `before` ranks),
 * which inherit their load, and ranks that no wider block covers, which are free. */
static int32_t split_blocks(dcpar_fill_space *space, int32_t count, int32_t before, int32_t width, int32_t world) {
    const int32_t parts = before > 0 ? before / width : 0, covered = count * parts, total = world / width;
    int32_t used = 0;
    for (int32_t number = covered; number < total; ++number) space->split[used++] = (dcpar_block){0, number};
    for (int32_t i = 0; i < count; ++i)
        for (int32_t part = 0; part < parts; ++part)
            space->split[used++] = (dcpar_block){space->blocks[i].load, space->blocks[i].number * parts + part};
    dcpar_block *swap = space->blocks;
    space->blocks = space->split;
    space->split = swap;
    return total;
}

/* The last block whose load is at most `limit`; -1 when there is none. */
static int32_t last_within(const dcpar_block *blocks, int32_t count, double limit) {
    int32_t within = -1, above = count;
    while (above - within > 1) {
        const int32_t middle = within + (above - within) / 2;
        if (blocks[middle].load <= limit)
            within = middle;
        else
            above = middle;
    }
    return within;
}

/* Adds to a block's load and moves it to its place. */
static void load_block(dcpar_block *blocks, int32_t count, int32_t index, double seconds) {
    dcpar_block block = blocks[index];
    block.load += seconds;
    const int32_t place = index + last_within(blocks + index + 1, count - index - 1, block.load) + 1;
    memmove(blocks + index, blocks + index + 1, (size_t)(place - index) * sizeof *blocks);
    blocks[place] = block;
}

/* -------------------------------------------------------------------------------------------------- fill */

/* Places as many of the bucket's sequences as end within the target, the largest micro-batch that fits first, again and
 * again. */
static dcpar_status place_bucket(const dcpar_work *work, fill_rule rule, double target, int32_t bucket, int32_t column,
                                 int32_t block_count, dcpar_fill_space *space, dcpar_error *error) {
    const dcpar_shapes *shapes = dcpar_table_at(work->table, bucket, column);
    dcpar_block *blocks = space->blocks;
    int64_t *left = &space->left[bucket];
    int64_t most = dcpar_shapes_within(shapes, target);
    if (rule.spread && most > (*left + block_count - 1) / block_count) most = (*left + block_count - 1) / block_count;
    while (*left > 0 && most > 0) {
        int32_t batch = shapes->shape[most < *left ? most : *left].best;
        int32_t index = last_within(blocks, block_count, target - shapes->shape[batch].seconds);
        if (index < 0) {
            index = 0;
            batch = dcpar_shapes_within(shapes, target - blocks[0].load);
            if (batch > *left) batch = (int32_t)*left;
            if (batch == 0) return DCPAR_OK;
        } else if (!rule.fullest) {
            index = 0;
        }
        DCPAR_TRY(dcpar_filling_add(&space->trial, (dcpar_placement){bucket, column, batch, blocks[index].number},
                                    error));
        load_block(blocks, block_count, index, shapes->shape[batch].seconds);
        *left -= batch;
    }
    return DCPAR_OK;
}

/* One filling within `target`, in space->trial; *placed is false when sequences are left over. */
static dcpar_status fill_within(const dcpar_work *work, fill_rule rule, double target, dcpar_fill_space *space,
                                bool *placed, dcpar_error *error) {
    const dcpar_chain *chain = work->chain;
    const int32_t bucket_count = list_buckets(work, space->order);
    int32_t wanted[64] = {0}; /* buckets that want each width */
    *placed = false;
    space->trial.count = 0;
    memcpy(space->left, work->counts, (size_t)work->table->buckets * sizeof *space->left);
    for (int32_t i = 0; i < bucket_count; ++i) {
        const int32_t width = cheapest_width(work, space->order[i], target);
        if (width < 0) return DCPAR_OK;
        ++wanted[width];
    }
    int32_t block_count = 0, before = 0;
    bool carried = false; /* sequences that did not fit on the width they wanted try narrower ones */
    for (int32_t width = chain->count - 1; width >= 0; --width) {
        if (wanted[width] == 0 && !carried) continue;
        const int32_t column = chain->column[width];
        block_count = split_blocks(space, block_count, before, work->table->width[column], work->world);
        before = work->table->width[column];
        carried = false;
        for (int32_t i = 0; i < bucket_count; ++i) {
            const int32_t bucket = space->order[i];
            if (space->left[bucket] == 0 || cheapest_width(work, bucket, target) < width) continue;
            DCPAR_TRY(place_bucket(work, rule, target, bucket, column, block_count, space, error));
            carried |= space->left[bucket] > 0;
        }
    }
    space->trial.seconds = block_count > 0 ? space->blocks[block_count - 1].load : 0;
    *placed = !carried;
    return DCPAR_OK;
}

static void keep_trial(dcpar_fill_space *space) {
    const dcpar_filling swap = space->best;
    space->best = space->trial;
    space->trial = swap;
}

/* Bisects the target for one rule, between `low` and the best so far (INFINITY: none). */
static dcpar_status search_target(const dcpar_work *work, fill_rule rule, double low, dcpar_fill_space *space,
                                  dcpar_error *error) {
    double step = 0.004;
    bool placed = false;
    while (space->best.seconds == INFINITY || !placed) { /* the first target that works, in growing steps */
        const double target = fmin(low * (1 + step), space->best.seconds * (1 - PRECISION));
        DCPAR_TRY(fill_within(work, rule, target, space, &placed, error));
        if (placed) {
            keep_trial(space);
        } else {
            if (target >= space->best.seconds * (1 - PRECISION)) return DCPAR_OK;
            low = target;
            step *= 2;
        }
    }
    for (int i = 0; i < BISECTIONS && space->best.seconds > low * (1 + PRECISION); ++i) {
        const double target = 0.5 * (low + space->best.seconds);
        DCPAR_TRY(fill_within(work, rule, target, space, &placed, error));
        if (placed)
            keep_trial(space);
        else
            low = target;
    }
    return DCPAR_OK;
}

dcpar_status dcpar_fill(const dcpar_work *work, double bound, dcpar_fill_space *space, dcpar_error *error) {
    space->best.count = 0;
    space->best.seconds = INFINITY;
    for (int32_t i = 0; i < RULE_COUNT && space->best.seconds > bound * (1 + PRECISION); ++i) {
        if (space->best.seconds < INFINITY) { /* skip a rule at once if it does not beat the best */
            bool placed = false;
            DCPAR_TRY(fill_within(work, rules[i], space->best.seconds * (1 - PRECISION), space, &placed, error));
            if (!placed) continue;
            keep_trial(space);
        }
        DCPAR_TRY(search_target(work, rules[i], bound, space, error));
    }
    return DCPAR_OK;
}
