/* The planner: checks everything that can be refused, then gives one plan after another. */
#include "plan/planner.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "plan/bound.h"
#include "plan/buckets.h"
#include "plan/profile.h"
#include "plan/sizes.h"

/* Policies keep a number for each bucket in their saved state. */
#define MOST_BUCKETS 4096

/* ---------------------------------------------------------------------------------------------- policies */

static const dcpar_policy *const policies[] = {&dcpar_policy_bucket, &dcpar_policy_inter, &dcpar_policy_intra,
                                               &dcpar_policy_buddy};
static const int32_t policy_count = sizeof policies / sizeof policies[0];

const char *dcpar_policy_name(int32_t index) {
    return index >= 0 && index < policy_count ? policies[index]->name : NULL;
}

const char *dcpar_policy_summary(int32_t index) {
    return index >= 0 && index < policy_count ? policies[index]->summary : NULL;
}

static dcpar_status find_policy(const char *name, const dcpar_policy **out, dcpar_error *error) {
    char names[200] = "";
    size_t used = 0;
    for (int32_t i = 0; i < policy_count; ++i) {
        if (name != NULL && strcmp(name, policies[i]->name) == 0) {
            *out = policies[i];
            return DCPAR_OK;
        }
        used += strlen(policies[i]->name) + 2;
        if (used < sizeof names) strcat(strcat(names, i == 0 ? "" : ", "), policies[i]->name);
    }
    return dcpar_fail(error, DCPAR_INVALID, "there is no policy \"%s\"; there are %s", name != NULL ? name : "", names);
}

/* ------------------------------------------------------------------------------------------------ checks */

static dcpar_status check_options(const dcpar_planner_options *options, dcpar_error *error) {
    if (options->size != sizeof *options)
        return dcpar_fail(error, DCPAR_INVALID, "the planner's options are those of another version of the library");
    if (options->world < 1) return dcpar_fail(error, DCPAR_INVALID, "a world of %d ranks is below 1", options->world);
    if (options->tokens_per_iteration < 0 || options->sequences_per_iteration < 0)
        return dcpar_fail(error, DCPAR_INVALID, "the size of an iteration is negative");
    if (options->tokens_per_iteration > 0 && options->sequences_per_iteration > 0)
        return dcpar_fail(error, DCPAR_INVALID,
                          "an iteration is either %lld tokens or %lld sequences: only one can be asked for",
                          (long long)options->tokens_per_iteration, (long long)options->sequences_per_iteration);
    if (options->memory < 0 || options->g_min < 0 || options->g_max < 0 || options->epoch < 0)
        return dcpar_fail(error, DCPAR_INVALID, "memory, epoch and accumulation limits cannot be negative");
    if (options->buckets != NULL && dcpar_buckets_count(options->buckets) > MOST_BUCKETS)
        return dcpar_fail(error, DCPAR_INVALID, "%d buckets are more than %d", dcpar_buckets_count(options->buckets),
                          MOST_BUCKETS);
    if (options->bucket_count < 0 || options->bucket_count > MOST_BUCKETS)
        return dcpar_fail(error, DCPAR_INVALID, "%d buckets: there may be 1 to %d", options->bucket_count,
                          MOST_BUCKETS);
    return DCPAR_OK;
}

/* The sizes to plan with: legal, asked for, and measured. */
static dcpar_status find_sizes(const dcpar_profile *profile, const dcpar_planner_options *options, int32_t sizes[64],
                               int32_t *count, dcpar_error *error) {
    const dcpar_profile_info *info = dcpar_profile_get_info(profile);
    int32_t wanted[64], wanted_count = 0;
    if (options->sp_sizes == NULL) {
        wanted_count = dcpar_legal_sizes(options->world, info->heads, info->kv_heads, wanted);
    } else {
        for (int32_t i = 0; i < options->sp_size_count; ++i) {
            DCPAR_TRY(dcpar_check_size(options->sp_sizes[i], options->world, info->heads, info->kv_heads, error));
            if (wanted_count < 64 && (wanted_count == 0 || options->sp_sizes[i] > wanted[wanted_count - 1]))
                wanted[wanted_count++] = options->sp_sizes[i];
        }
    }
    *count = 0;
    for (int32_t i = 0; i < wanted_count; ++i)
        if (dcpar_profile_most_batch(profile, 1, wanted[i]) > 0) sizes[(*count)++] = wanted[i];
    if (*count > 0) return DCPAR_OK;
    char text[300];
    dcpar_sizes_text(wanted, wanted_count, text, sizeof text);
    return dcpar_fail(error, DCPAR_ILLEGAL_SIZE,
                      "the profile has no measurement for any SP size that is legal on %d ranks (%s)", options->world,
                      text);
}

/* What fits, before there are buckets. */
typedef struct fitting {
    int32_t sizes[64], size_count;
    int64_t longest_on[64]; /* tokens that fit on each size */
    int64_t used_on[64];    /* the longest length of the dataset that does */
    int64_t longest;        /* tokens that fit on any */
    int32_t longest_sp;
} fitting;

static dcpar_status find_fitting(const dcpar_profile *profile, const dcpar_planner_options *options, fitting *fit,
                                 dcpar_error *error) {
    memset(fit, 0, sizeof *fit);
    DCPAR_TRY(find_sizes(profile, options, fit->sizes, &fit->size_count, error));
    for (int32_t i = 0; i < fit->size_count; ++i) {
        fit->longest_on[i] =
            dcpar_longest_fit(profile, options->world, options->memory, &fit->sizes[i], 1, &fit->longest_sp);
        if (fit->longest_on[i] > fit->longest) fit->longest = fit->longest_on[i];
    }
    for (int32_t i = fit->size_count - 1; i >= 0; --i)
        if (fit->longest_on[i] == fit->longest) fit->longest_sp = fit->sizes[i];
    return DCPAR_OK;
}

static dcpar_status fail_too_long(const dcpar_planner *planner, int64_t row, int64_t longest, int32_t sp,
                                  dcpar_error *error) {
    return dcpar_fail(error, DCPAR_TOO_LONG, "row %lld has %lld tokens; the most that fits is %lld, on %d rank%s",
                      (long long)row, (long long)planner->lengths[row], (long long)longest, sp, sp == 1 ? "" : "s");
}

/* One pass over the lengths: refuses what cannot be, finds the longest that is used on each size. */
static dcpar_status check_lengths(dcpar_planner *planner, fitting *fit, dcpar_error *error) {
    uint64_t identity = dcpar_mix(planner->options.seed) ^ (uint64_t)planner->options.order;
    for (int64_t row = 0; row < planner->count; ++row) {
        const int64_t length = planner->lengths[row];
        if (length < 0 || length > DCPAR_LENGTH_MAX)
            return dcpar_fail(error, DCPAR_INVALID, "row %lld has a length of %lld; it must be 1 to 2^40",
                              (long long)row, (long long)length);
        identity = (identity ^ (uint64_t)length) * UINT64_C(0x9e3779b97f4a7c15);
        identity ^= identity >> 29;
        if (length > fit->longest && planner->options.on_too_long == DCPAR_TOO_LONG_REFUSE)
            return fail_too_long(planner, row, fit->longest, fit->longest_sp, error);
        for (int32_t i = 0; i < fit->size_count; ++i)
            if (length <= fit->longest_on[i] && length > fit->used_on[i]) fit->used_on[i] = length;
    }
    planner->identity = identity ^ (uint64_t)planner->count;
    return DCPAR_OK;
}

/* ----------------------------------------------------------------------------------------------- buckets */

static dcpar_status make_buckets(dcpar_planner *planner, const dcpar_buckets *given, const fitting *fit,
                                 dcpar_error *error) {
    if (given == NULL) {
        /* Padding must not push a sequence onto more ranks than it needs: the longest that fits on each size is a
         * bound. */
        const int32_t asked = planner->options.bucket_count, count = asked > 0 ? asked : DCPAR_DEFAULT_BUCKETS;
        return dcpar_buckets_minimal_with(planner->lengths, planner->count, count, fit->used_on, fit->size_count,
                                          fit->longest, &planner->buckets, error);
    }
    int64_t bounds[MOST_BUCKETS];
    const int32_t count = dcpar_buckets_count(given);
    for (int32_t i = 0; i < count; ++i) bounds[i] = dcpar_buckets_bound(given, i);
    return dcpar_buckets_create(bounds, count, &planner->buckets, error);
}

int32_t dcpar_planner_bucket(const dcpar_planner *planner, int64_t row) {
    const int64_t length = planner->lengths[row];
    return length < 1 || length > planner->limit ? -1 : dcpar_buckets_find(planner->buckets, length);
}

static void count_buckets(dcpar_planner *planner) {
    const size_t bytes = (size_t)dcpar_buckets_count(planner->buckets) * sizeof *planner->bucket_count;
    memset(planner->bucket_count, 0, bytes);
    memset(planner->bucket_tokens, 0, bytes);
    planner->usable = planner->usable_tokens = planner->longest = 0;
    planner->dropped_empty = planner->dropped_too_long = 0;
    for (int64_t row = 0; row < planner->count; ++row) {
        const int64_t length = planner->lengths[row];
        const int32_t bucket = dcpar_planner_bucket(planner, row);
        if (bucket < 0) {
            ++*(length == 0 ? &planner->dropped_empty : &planner->dropped_too_long);
            continue;
        }
        ++planner->bucket_count[bucket];
        planner->bucket_tokens[bucket] += length;
        ++planner->usable;
        planner->usable_tokens += length;
        if (length > planner->longest) planner->longest = length;
    }
}

static dcpar_status check_anything_left(const dcpar_planner *planner, dcpar_error *error) {
    if (planner->usable > 0) return DCPAR_OK;
    return dcpar_fail(
        error, DCPAR_INVALID, "there is nothing to train on: of %lld sequences %lld are empty and %lld too long",
        (long long)planner->count, (long long)planner->dropped_empty, (long long)planner->dropped_too_long);
}

/* --------------------------------------------------------------------------------------- costs and widths */

static dcpar_status make_tables(dcpar_planner *planner, const dcpar_profile *profile, const fitting *fit,
                                dcpar_error *error) {
    dcpar_table_destroy(&planner->costs);
    dcpar_table_destroy(&planner->full_costs);
    DCPAR_TRY(dcpar_table_create(profile, planner->buckets, planner->bucket_count, fit->sizes, fit->size_count,
                                 planner->options.memory, false, &planner->costs, error));
    if (planner->policy->recompute_all)
        DCPAR_TRY(dcpar_table_create(profile, planner->buckets, planner->bucket_count, fit->sizes, fit->size_count,
                                     planner->options.memory, true, &planner->full_costs, error));
    planner->table = planner->policy->recompute_all ? &planner->full_costs : &planner->costs;
    return DCPAR_OK;
}

static bool fits_in_chain(const dcpar_planner *planner, int32_t bucket) {
    for (int32_t i = 0; i < planner->chain.count; ++i)
        if (dcpar_table_at(planner->table, bucket, planner->chain.column[i])->most > 0) return true;
    return false;
}

static void choose_widths(dcpar_planner *planner) {
    if (!planner->policy->one_size) {
        planner->chain = dcpar_chain_choose(planner->table, planner->bucket_count);
        return;
    }
    planner->chain.count = 0;
    for (int32_t bucket = planner->table->buckets - 1; bucket >= 0 && planner->chain.count == 0; --bucket) {
        const int32_t column = dcpar_column_that_fits(planner->table, bucket, planner->options.world);
        if (column >= 0) planner->chain = (dcpar_chain){1, {column}};
    }
}

/* Lowers the limit to the longest bucket whose padded length fits on the chosen widths. */
static dcpar_status limit_to_widths(dcpar_planner *planner, bool *changed, dcpar_error *error) {
    int64_t limit = 0;
    *changed = false;
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket) {
        if (planner->bucket_count[bucket] == 0) continue;
        if (!fits_in_chain(planner, bucket)) {
            *changed = true;
            break;
        }
        limit = planner->table->bound[bucket];
    }
    if (!*changed) return DCPAR_OK;
    if (planner->options.on_too_long == DCPAR_TOO_LONG_REFUSE) {
        for (int64_t row = 0; row < planner->count; ++row)
            if (planner->lengths[row] > limit && dcpar_planner_bucket(planner, row) >= 0) {
                const int32_t widest = planner->table->width[planner->chain.column[planner->chain.count - 1]];
                return dcpar_fail(error, DCPAR_TOO_LONG,
                                  "row %lld has %lld tokens, padded to %lld; the longest bucket that fits is %lld, on "
                                  "%d rank%s",
                                  (long long)row, (long long)planner->lengths[row],
                                  (long long)planner->table->bound[dcpar_planner_bucket(planner, row)],
                                  (long long)limit, widest, widest == 1 ? "" : "s");
            }
    }
    planner->limit = limit;
    return DCPAR_OK;
}

/* ---------------------------------------------------------------------------------------------- create */

static dcpar_status set_up(dcpar_planner *planner, const dcpar_profile *profile, const dcpar_planner_options *options,
                           dcpar_error *error) {
    fitting fit;
    DCPAR_TRY(find_fitting(profile, &planner->options, &fit, error));
    DCPAR_TRY(check_lengths(planner, &fit, error));
    planner->limit = fit.longest;
    bool any = false;
    for (int32_t i = 0; i < fit.size_count; ++i) any |= fit.used_on[i] > 0;
    if (!any) {
        for (int64_t row = 0; row < planner->count; ++row)
            ++*(planner->lengths[row] == 0 ? &planner->dropped_empty : &planner->dropped_too_long);
        return check_anything_left(planner, error);
    }
    DCPAR_TRY(make_buckets(planner, options->buckets, &fit, error));
    const int64_t last = dcpar_buckets_bound(planner->buckets, dcpar_buckets_count(planner->buckets) - 1);
    if (planner->limit > last) {
        for (int64_t row = 0; row < planner->count && options->on_too_long == DCPAR_TOO_LONG_REFUSE; ++row)
            if (planner->lengths[row] > last)
                return dcpar_fail(error, DCPAR_TOO_LONG, "row %lld has %lld tokens; the last bucket ends at %lld",
                                  (long long)row, (long long)planner->lengths[row], (long long)last);
        planner->limit = last;
    }
    const size_t buckets = (size_t)dcpar_buckets_count(planner->buckets);
    planner->bucket_count = calloc(buckets, sizeof *planner->bucket_count);
    planner->bucket_tokens = calloc(buckets, sizeof *planner->bucket_tokens);
    planner->iteration_count = calloc(buckets, sizeof *planner->iteration_count);
    if (planner->bucket_count == NULL || planner->bucket_tokens == NULL || planner->iteration_count == NULL)
        return dcpar_fail_memory(error, "the planner");
    bool changed = true;
    while (changed) {
        count_buckets(planner);
        DCPAR_TRY(check_anything_left(planner, error));
        DCPAR_TRY(make_tables(planner, profile, &fit, error));
        choose_widths(planner);
        DCPAR_TRY(limit_to_widths(planner, &changed, error));
    }
    for (size_t i = 0; i < buckets && planner->policy->draws; ++i)
        planner->identity = dcpar_mix(planner->identity ^ (uint64_t)dcpar_buckets_bound(planner->buckets, (int32_t)i));
    return planner->policy->create(planner, error);
}

dcpar_status dcpar_planner_create(const dcpar_profile *profile, const int64_t *lengths, int64_t count,
                                  const dcpar_planner_options *options, dcpar_planner **out, dcpar_error *error) {
    DCPAR_TRY(check_options(options, error));
    const dcpar_policy *policy = NULL;
    DCPAR_TRY(find_policy(options->policy, &policy, error));
    dcpar_planner *planner = calloc(1, sizeof *planner);
    if (planner == NULL) return dcpar_fail_memory(error, "the planner");
    planner->policy = policy;
    planner->options = *options;
    if (planner->options.memory == 0) planner->options.memory = dcpar_profile_get_info(profile)->memory;
    planner->lengths = lengths;
    planner->count = count;
    const dcpar_status status = set_up(planner, profile, options, error);
    planner->options.sp_sizes = NULL;
    planner->options.buckets = NULL;
    if (status != DCPAR_OK) {
        dcpar_planner_destroy(planner);
        return status;
    }
    dcpar_planner_start_epoch(planner, options->epoch);
    *out = planner;
    return DCPAR_OK;
}

void dcpar_planner_destroy(dcpar_planner *planner) {
    if (planner == NULL) return;
    if (planner->state != NULL) planner->policy->destroy(planner);
    dcpar_table_destroy(&planner->costs);
    dcpar_table_destroy(&planner->full_costs);
    dcpar_buckets_destroy(planner->buckets);
    free(planner->bucket_count);
    free(planner->bucket_tokens);
    free(planner->iteration_count);
    free(planner);
}

void dcpar_planner_start_epoch(dcpar_planner *planner, int64_t epoch) {
    planner->epoch = epoch;
    planner->iteration = 0;
    planner->used = 0;
    planner->policy->start_epoch(planner);
}

/* -------------------------------------------------------------------------------------------------- next */

int64_t dcpar_planner_row(const dcpar_planner *planner, int64_t position) {
    if (planner->options.order == DCPAR_ORDER_FILE) return position;
    return dcpar_stream_row(planner->options.seed, planner->epoch, planner->count, position);
}

dcpar_status dcpar_planner_add(dcpar_planner *planner, dcpar_plan *plan, int32_t bucket, int32_t column, int32_t batch,
                               int32_t block, dcpar_error *error) {
    const dcpar_shape *shape = &dcpar_table_at(planner->table, bucket, column)->shape[batch];
    const int32_t sp = planner->table->width[column];
    const dcpar_microbatch microbatch = {.first_rank = block * sp,
                                         .sp = sp,
                                         .recompute = shape->recompute,
                                         .padded_length = planner->table->bound[bucket],
                                         .seconds = shape->seconds,
                                         .bytes = shape->bytes};
    planner->iteration_count[bucket] += batch;
    return dcpar_plan_add(plan, &microbatch, error);
}

dcpar_status dcpar_planner_add_row(dcpar_planner *planner, dcpar_plan *plan, int64_t row, dcpar_error *error) {
    return dcpar_plan_add_row(plan, row, planner->lengths[row], error);
}

dcpar_status dcpar_planner_next(dcpar_planner *planner, dcpar_plan **out, dcpar_error *error) {
    if (planner->used == planner->usable)
        return dcpar_fail(error, DCPAR_END, "epoch %lld has no more sequences", (long long)planner->epoch);
    memset(planner->iteration_count, 0, (size_t)planner->costs.buckets * sizeof *planner->iteration_count);
    planner->iteration_bound = 0;
    dcpar_plan *plan = NULL;
    DCPAR_TRY(dcpar_plan_create(planner->options.world, planner->epoch, planner->iteration, &plan, error));
    dcpar_status status = planner->policy->next(planner, plan, error);
    if (status == DCPAR_OK && planner->iteration_bound == 0)
        planner->iteration_bound = dcpar_bound(&planner->costs, planner->iteration_count, planner->options.world);
    if (status == DCPAR_OK) status = dcpar_plan_finish(plan, planner->iteration_bound, error);
    if (status != DCPAR_OK) {
        dcpar_plan_destroy(plan);
        return status;
    }
    planner->used += plan->metrics.sequences;
    ++planner->iteration;
    *out = plan;
    return DCPAR_OK;
}

dcpar_epoch_summary dcpar_planner_summary(const dcpar_planner *planner) {
    const int64_t dropped = planner->dropped_empty + planner->dropped_too_long;
    return (dcpar_epoch_summary){
        planner->epoch,         planner->iteration,       planner->used, dropped, planner->count,
        planner->dropped_empty, planner->dropped_too_long};
}

dcpar_worst_case dcpar_planner_worst_case(const dcpar_planner *planner) {
    dcpar_worst_case worst = {0};
    for (int32_t bucket = 0; bucket < planner->table->buckets; ++bucket)
        for (int32_t i = 0; i < planner->chain.count; ++i) {
            const dcpar_shapes *shapes = dcpar_table_at(planner->table, bucket, planner->chain.column[i]);
            for (int32_t batch = 1; batch <= shapes->most; ++batch) {
                const dcpar_shape *shape = &shapes->shape[batch];
                if (shape->bytes <= worst.bytes) continue;
                worst = (dcpar_worst_case){shape->bytes, planner->table->bound[bucket],
                                           planner->table->width[planner->chain.column[i]], batch, shape->recompute};
            }
        }
    return worst;
}

/* ------------------------------------------------------------------------------------------------- state */

#define STATE_FORMAT 1

/* values: format, identity, whether the policy draws, usable, epoch, iteration, used, the policy's own. */
enum { STATE_HEAD = 7 };

int32_t dcpar_planner_state(const dcpar_planner *planner, int64_t *values) {
    const int64_t head[STATE_HEAD] = {
        STATE_FORMAT,   (int64_t)planner->identity, planner->policy->draws, planner->usable,
        planner->epoch, planner->iteration,         planner->used};
    memcpy(values, head, sizeof head);
    return STATE_HEAD + planner->policy->save(planner, values + STATE_HEAD);
}

dcpar_status dcpar_planner_restore(dcpar_planner *planner, const int64_t *values, int32_t count, dcpar_error *error) {
    if (count < STATE_HEAD || values[0] != STATE_FORMAT)
        return dcpar_fail(error, DCPAR_MISMATCH, "the planner's saved state is not of this version");
    if (values[2] != planner->policy->draws)
        return dcpar_fail(error, DCPAR_MISMATCH, "policy %s cannot go on where a policy of another kind stopped",
                          planner->policy->name);
    if (values[1] != (int64_t)planner->identity)
        return dcpar_fail(
            error, DCPAR_MISMATCH,
            "the planner's saved state belongs to other lengths, another seed, another order or other buckets");
    if (values[3] != planner->usable)
        return dcpar_fail(error, DCPAR_MISMATCH,
                          "%lld sequences of the planner's saved state fit, %lld of these do: the rest of the epoch "
                          "would not be the same",
                          (long long)values[3], (long long)planner->usable);
    const bool possible = values[4] >= 0 && values[5] >= 0 && values[6] >= 0 && values[6] <= planner->usable;
    if (possible) {
        dcpar_planner_start_epoch(planner, values[4]);
        planner->iteration = values[5];
        planner->used = values[6];
        if (planner->policy->restore(planner, values + STATE_HEAD, count - STATE_HEAD)) return DCPAR_OK;
    }
    return dcpar_fail(error, DCPAR_MISMATCH, "the planner's saved state is damaged");
}
