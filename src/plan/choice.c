/* Choice (Algorithm 1): the best batch, SP size and number of recomputed layers for one length. */
#include "base/error.h"
#include "plan/profile.h"
#include "plan/table.h"

dcpar_status dcpar_choose(const dcpar_profile *profile, int64_t length, int64_t memory, const int32_t *sizes,
                          int32_t size_count, bool recompute_all, dcpar_choice *out, dcpar_error *error) {
    if (length < 1 || length > DCPAR_LENGTH_MAX)
        return dcpar_fail(error, DCPAR_INVALID, "a length of %lld is not 1 to 2^40", (long long)length);
    dcpar_choice best = {0};
    for (int32_t i = 0; i < size_count; ++i) {
        const int32_t most = dcpar_profile_most_batch(profile, length, sizes[i]);
        dcpar_shape shape;
        for (int32_t batch = 1; batch <= most && batch <= DCPAR_MOST_BATCH; ++batch) {
            if (!dcpar_shape_at(profile, length, sizes[i], batch, memory, recompute_all, &shape)) break;
            const double throughput = (double)batch * (double)length / (sizes[i] * shape.seconds);
            if (throughput > best.throughput)
                best = (dcpar_choice){batch, sizes[i], shape.recompute, {shape.seconds, shape.bytes}, throughput};
        }
    }
    if (best.batch == 0)
        return dcpar_fail(error, DCPAR_TOO_LONG, "a sequence of %lld tokens fits into %lld bytes on no legal SP size",
                          (long long)length, (long long)memory);
    *out = best;
    return DCPAR_OK;
}

/* The longest length that fits on groups of `sp` with everything recomputed. */
static int64_t longest_on(const dcpar_profile *profile, int32_t sp, int64_t memory) {
    const int64_t limit = dcpar_profile_get_info(profile)->max_length;
    int64_t fits = 0, does_not = limit > 0 ? limit + 1 : DCPAR_LENGTH_MAX + 1;
    dcpar_shape shape;
    while (does_not - fits > 1) {
        const int64_t middle = fits + (does_not - fits) / 2;
        if (dcpar_shape_at(profile, middle, sp, 1, memory, true, &shape))
            fits = middle;
        else
            does_not = middle;
    }
    return fits;
}

int64_t dcpar_longest_fit(const dcpar_profile *profile, int32_t world, int64_t memory, const int32_t *sp_sizes,
                          int32_t sp_size_count, int32_t *sp) {
    int32_t legal[64];
    if (sp_sizes == NULL) {
        const dcpar_profile_info *info = dcpar_profile_get_info(profile);
        sp_size_count = dcpar_legal_sizes(world, info->heads, info->kv_heads, legal);
        sp_sizes = legal;
    }
    int64_t longest = 0;
    for (int32_t i = 0; i < sp_size_count; ++i) {
        const int64_t length = longest_on(profile, sp_sizes[i], memory);
        if (length <= longest) continue;
        longest = length;
        if (sp != NULL) *sp = sp_sizes[i];
    }
    return longest;
}
