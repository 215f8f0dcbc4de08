/* Filling (policy buddy): widest first, on blocks that are halved as widths narrow, for the smallest target that works.
 *
 * Everything placed before is at least as wide, so all ranks of a block are free at the same moment: a block has one
 * load and alignment costs no idle time. */
#include "plan/fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Targets are told apart to this share. */
#define PRECISION 1e-3
#define BISECTIONS 9

/* The share of a micro-batch's constant seconds that is charged to its sequences when widths are chosen. All of it
 * where memory says how many micro-batches there are, none where every rank runs as many as the others anyway; what
 * lies between depends on the iteration, so each is tried and the best result wins. */
static const double shares[] = {0, 0.25, 0.5, 0.75, 1};
enum { SHARE_COUNT = sizeof shares / sizeof shares[0] };

dcpar_status dcpar_fill_space_create(int32_t world, int32_t buckets, dcpar_fill_space *space, dcpar_error *error) {
    memset(space, 0, sizeof *space);
    space->blocks = malloc((size_t)world * sizeof *space->blocks);
    space->split = malloc((size_t)world * sizeof *space->split);
    space->buckets = malloc((size_t)buckets * sizeof *space->buckets);
    if (space->blocks != NULL && space->split != NULL && space->buckets != NULL) return DCPAR_OK;
    dcpar_fill_space_destroy(space);
    return dcpar_fail_memory(error, "the search for a plan");
}

void dcpar_fill_space_destroy(dcpar_fill_space *space) {
    free(space->blocks);
    free(space->split);
    free(space->buckets);
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

/* ---------------------------------------------------------------------------------------- widths, prices */

/* The width on which the bucket's sequences take the fewest rank-seconds, each micro-batch ending within the target; -1
 * when none does. Micro-batches may be filled up with shorter sequences: `sequences` are there in all. */
static dcpar_fill_bucket cheapest_width(const dcpar_work *work, int32_t bucket, int64_t sequences, double target,
                                        double share) {
    dcpar_fill_bucket cheapest = {work->counts[bucket], -1, INFINITY};
    for (int32_t i = 0; i < work->chain->count; ++i) {
        const int32_t column = work->chain->column[i];
        const dcpar_shapes *shapes = dcpar_table_at(work->table, bucket, column);
        int64_t batch = dcpar_shapes_within(shapes, target);
        if (batch > sequences) batch = sequences;
        if (batch == 0) continue;
        const double price = work->table->width[column] * dcpar_shapes_price(shapes, shapes->shape[batch].best, share);
        if (price >= cheapest.price) continue;
        cheapest.price = price;
        cheapest.width = i;
    }
    return cheapest;
}

/* Sets space->buckets for a target; false when some sequence does not end within it. */
static bool start_buckets(const dcpar_work *work, double share, double target, dcpar_fill_space *space) {
    int64_t sequences = 0;
    for (int32_t bucket = 0; bucket < work->table->buckets; ++bucket) {
        sequences += work->counts[bucket];
        space->buckets[bucket] = (dcpar_fill_bucket){0, -1, 0};
        if (work->counts[bucket] == 0) continue;
        space->buckets[bucket] = cheapest_width(work, bucket, sequences, target, share);
        if (space->buckets[bucket].width < 0) return false;
    }
    return true;
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

/* How many sequences a micro-batch of `bucket` may hold, at most `most`: all of the bucket's own, and shorter ones that
 * take fewer rank-seconds in it than elsewhere. */
static int32_t worth_taking(const dcpar_work *work, const dcpar_fill_space *space, int32_t bucket, int32_t column,
                            int32_t most) {
    const dcpar_shapes *shapes = dcpar_table_at(work->table, bucket, column);
    int64_t worth = space->buckets[bucket].left;
    for (int32_t shorter = bucket - 1; shorter >= 0 && worth < most; --shorter) {
        if (space->buckets[shorter].left == 0) continue;
        const double more = shapes->shape[worth + 1].seconds - shapes->shape[worth].seconds;
        if (work->table->width[column] * more >= space->buckets[shorter].price) break;
        worth += space->buckets[shorter].left;
    }
    return worth < most ? (int32_t)worth : most;
}

/* Takes the longest sequences that are left, from `bucket` down. */
static void take_sequences(dcpar_fill_space *space, int32_t bucket, int64_t batch) {
    for (; batch > 0; --bucket) {
        const int64_t taken = batch < space->buckets[bucket].left ? batch : space->buckets[bucket].left;
        space->buckets[bucket].left -= taken;
        batch -= taken;
    }
}

/* Places as many of the bucket's sequences as end within the target, the largest micro-batch that fits first, again and
 * again. */
static dcpar_status place_bucket(const dcpar_work *work, double target, int32_t bucket, int32_t column,
                                 int32_t block_count, dcpar_fill_space *space, dcpar_error *error) {
    const dcpar_shapes *shapes = dcpar_table_at(work->table, bucket, column);
    dcpar_block *blocks = space->blocks;
    const int32_t most = dcpar_shapes_within(shapes, target);
    while (space->buckets[bucket].left > 0 && most > 0) {
        const int32_t worth = worth_taking(work, space, bucket, column, most);
        int32_t batch = shapes->shape[worth].best;
        int32_t index = last_within(blocks, block_count, target - shapes->shape[batch].seconds);
        if (index < 0) {
            index = 0;
            batch = dcpar_shapes_within(shapes, target - blocks[0].load);
            if (batch > worth) batch = worth;
            if (batch == 0) return DCPAR_OK;
        }
        DCPAR_TRY(
            dcpar_filling_add(&space->trial, (dcpar_placement){bucket, column, batch, blocks[index].number}, error));
        load_block(blocks, block_count, index, shapes->shape[batch].seconds);
        take_sequences(space, bucket, batch);
    }
    return DCPAR_OK;
}

/* One filling within `target`, in space->trial; *placed is false when sequences are left over. */
static dcpar_status fill_within(const dcpar_work *work, double share, double target, dcpar_fill_space *space,
                                bool *placed, dcpar_error *error) {
    const dcpar_chain *chain = work->chain;
    *placed = false;
    space->trial.count = 0;
    if (!start_buckets(work, share, target, space)) return DCPAR_OK;
    int32_t block_count = 0, before = 0;
    bool carried = false; /* sequences that did not fit on the width they wanted try narrower ones */
    for (int32_t width = chain->count - 1; width >= 0; --width) {
        bool wanted = carried;
        for (int32_t bucket = 0; bucket < work->table->buckets && !wanted; ++bucket)
            wanted = space->buckets[bucket].width == width && space->buckets[bucket].left > 0;
        if (!wanted) continue;
        const int32_t column = chain->column[width];
        block_count = split_blocks(space, block_count, before, work->table->width[column], work->world);
        before = work->table->width[column];
        carried = false;
        for (int32_t bucket = work->table->buckets - 1; bucket >= 0; --bucket) {
            if (space->buckets[bucket].left == 0 || space->buckets[bucket].width < width) continue;
            DCPAR_TRY(place_bucket(work, target, bucket, column, block_count, space, error));
            carried |= space->buckets[bucket].left > 0;
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

/* Bisects the target for one share, between `low` and the best so far (INFINITY: none). */
static dcpar_status search_target(const dcpar_work *work, double share, double low, dcpar_fill_space *space,
                                  dcpar_error *error) {
    double step = 0.004;
    bool placed = false;
    while (space->best.seconds == INFINITY || !placed) { /* the first target that works, in growing steps */
        const double target = fmin(low * (1 + step), space->best.seconds * (1 - PRECISION));
        DCPAR_TRY(fill_within(work, share, target, space, &placed, error));
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
        DCPAR_TRY(fill_within(work, share, target, space, &placed, error));
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
    for (int32_t i = 0; i < SHARE_COUNT && space->best.seconds > bound * (1 + PRECISION); ++i) {
        if (space->best.seconds < INFINITY) { /* skip a share at once if it does not beat the best */
            bool placed = false;
            DCPAR_TRY(fill_within(work, shares[i], space->best.seconds * (1 - PRECISION), space, &placed, error));
            if (!placed) continue;
            keep_trial(space);
        }
        DCPAR_TRY(search_target(work, shares[i], bound, space, error));
    }
    return DCPAR_OK;
}
