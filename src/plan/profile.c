/* The profile: measured points (length, SP size, batch) and what lies between them; Eq. 4-6. */
#include "plan/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct dcpar_profile {
    dcpar_profile_info info;
    dcpar_profile_row *rows; /* as given */
    int64_t row_count;
    dcpar_profile_row *sorted; /* those that fit by (sp, length, batch), then those that do not */
    int64_t sorted_count;      /* how many fit */
};

/* A run of sorted rows. */
typedef struct row_range {
    const dcpar_profile_row *rows;
    int64_t count;
} row_range;

/* ------------------------------------------------------------------------------------------------ checks */

static bool is_time(double seconds, bool may_be_zero) {
    return isfinite(seconds) && (seconds > 0 || (may_be_zero && seconds == 0));
}

static dcpar_status check_row(const dcpar_profile_row *row, int64_t index, dcpar_error *error) {
    const long long number = (long long)index;
    if (row->length < 1 || row->length > DCPAR_LENGTH_MAX)
        return dcpar_fail(error, DCPAR_INVALID, "row %lld: a length of %lld is not 1 to 2^40", number,
                          (long long)row->length);
    if (row->sp < 1) return dcpar_fail(error, DCPAR_INVALID, "row %lld: an SP size of %d is below 1", number, row->sp);
    if (row->batch < 1)
        return dcpar_fail(error, DCPAR_INVALID, "row %lld: a batch of %d is below 1", number, row->batch);
    if (!row->fits) return DCPAR_OK;
    const struct {
        const char *name;
        double value;
        bool may_be_zero;
    } times[] = {{"forward", row->forward, false},
                 {"backward", row->backward, false},
                 {"constant_seconds", row->constant_seconds, true}};
    for (int i = 0; i < 3; ++i)
        if (!is_time(times[i].value, times[i].may_be_zero))
            return dcpar_fail(error, DCPAR_INVALID, "row %lld: %s is %g seconds; it must be finite and %s", number,
                              times[i].name, times[i].value, times[i].may_be_zero ? "not negative" : "positive");
    if (row->layer_bytes < 0 || row->input_bytes < 0 || row->constant_bytes < 0)
        return dcpar_fail(error, DCPAR_INVALID, "row %lld: bytes are negative", number);
    return DCPAR_OK;
}

static dcpar_status check_info(const dcpar_profile_info *info, dcpar_error *error) {
    if (info->layers < 1)
        return dcpar_fail(error, DCPAR_INVALID, "the profile's model has %d layers; it must have at least 1",
                          info->layers);
    if (info->heads < 0 || info->kv_heads < 0)
        return dcpar_fail(error, DCPAR_INVALID, "the profile's numbers of heads are negative");
    if (info->memory < 1)
        return dcpar_fail(error, DCPAR_INVALID, "the profile's memory is %lld bytes; it must be positive",
                          (long long)info->memory);
    if (info->max_length < 0) return dcpar_fail(error, DCPAR_INVALID, "the profile's longest length is negative");
    if (!is_time(info->step_seconds, true))
        return dcpar_fail(error, DCPAR_INVALID, "the profile's step_seconds is %g; it must be finite and not negative",
                          info->step_seconds);
    return DCPAR_OK;
}

/* ---------------------------------------------------------------------------------------------- create */

static int compare_rows(const void *left, const void *right) {
    const dcpar_profile_row *a = left, *b = right;
    if (a->sp != b->sp) return a->sp < b->sp ? -1 : 1;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    if (a->batch != b->batch) return a->batch < b->batch ? -1 : 1;
    return 0;
}

static int compare_fitting_first(const void *left, const void *right) {
    const dcpar_profile_row *a = left, *b = right;
    return a->fits != b->fits ? (a->fits ? -1 : 1) : compare_rows(left, right);
}

static dcpar_status check_unique(const dcpar_profile_row *rows, int64_t count, dcpar_error *error) {
    for (int64_t i = 1; i < count; ++i)
        if (compare_rows(&rows[i - 1], &rows[i]) == 0)
            return dcpar_fail(error, DCPAR_INVALID, "length %lld, SP size %d, batch %d stands in the profile twice",
                              (long long)rows[i].length, rows[i].sp, rows[i].batch);
    return DCPAR_OK;
}

dcpar_status dcpar_profile_create(const dcpar_profile_info *info, const dcpar_profile_row *rows, int64_t count,
                                  dcpar_profile **out, dcpar_error *error) {
    DCPAR_TRY(check_info(info, error));
    for (int64_t i = 0; i < count; ++i) DCPAR_TRY(check_row(&rows[i], i, error));
    dcpar_profile *profile = calloc(1, sizeof *profile);
    dcpar_profile_row *copy = malloc((size_t)(count > 0 ? count : 1) * sizeof *copy);
    dcpar_profile_row *sorted = malloc((size_t)(count > 0 ? count : 1) * sizeof *sorted);
    dcpar_status status = DCPAR_OK;
    if (profile == NULL || copy == NULL || sorted == NULL) {
        status = dcpar_fail_memory(error, "a profile");
        goto failed;
    }
    memcpy(copy, rows, (size_t)count * sizeof *copy);
    memcpy(sorted, rows, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_rows);
    status = check_unique(sorted, count, error);
    if (status != DCPAR_OK) goto failed;
    qsort(sorted, (size_t)count, sizeof *sorted, compare_fitting_first);
    int64_t kept = 0;
    while (kept < count && sorted[kept].fits) ++kept;
    if (kept == 0) {
        status = dcpar_fail(error, DCPAR_INVALID, "the profile has no row that fits into memory");
        goto failed;
    }
    profile->info = *info;
    profile->rows = copy;
    profile->row_count = count;
    profile->sorted = sorted;
    profile->sorted_count = kept;
    *out = profile;
    return DCPAR_OK;
failed:
    free(profile);
    free(copy);
    free(sorted);
    return status;
}

void dcpar_profile_destroy(dcpar_profile *profile) {
    if (profile == NULL) return;
    free(profile->rows);
    free(profile->sorted);
    free(profile);
}

const dcpar_profile_info *dcpar_profile_get_info(const dcpar_profile *profile) { return &profile->info; }

const dcpar_profile_row *dcpar_profile_get_rows(const dcpar_profile *profile, int64_t *count) {
    *count = profile->row_count;
    return profile->rows;
}

/* ----------------------------------------------------------------------------------------- interpolation */

static row_range rows_of_size(const dcpar_profile *profile, int32_t sp) {
    int64_t first = 0;
    while (first < profile->sorted_count && profile->sorted[first].sp < sp) ++first;
    int64_t last = first;
    while (last < profile->sorted_count && profile->sorted[last].sp == sp) ++last;
    return (row_range){profile->sorted + first, last - first};
}

/* The rows of the length that starts at `first` within a size's rows. */
static row_range rows_of_length(row_range size, int64_t first) {
    int64_t last = first;
    while (last < size.count && size.rows[last].length == size.rows[first].length) ++last;
    return (row_range){size.rows + first, last - first};
}

/* The two measured lengths whose piece covers `length`; both the same when only one was measured or `length` is below
 * all of them. */
static void neighbours(row_range size, int64_t length, row_range *low, row_range *high) {
    *low = *high = rows_of_length(size, 0);
    if (length <= low->rows[0].length) return;
    for (int64_t first = high->count; first < size.count; first += high->count) {
        *low = *high;
        *high = rows_of_length(size, first);
        if (length <= high->rows[0].length) return;
    }
}

static double line(double x0, double y0, double x1, double y1, double x) {
    if (x0 == x1) return y0;
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

/* Through two positive points; exact for any single power of x, within 1.5 % for sums of 1, x and x^2 over an
 * octave. */
static double power(double x0, double y0, double x1, double y1, double x) {
    if (x0 == x1) return y0 * x / x0;
    return y0 * pow(x / x0, log(y1 / y0) / log(x1 / x0));
}

static dcpar_point at_row(const dcpar_profile_row *row) {
    return (dcpar_point){row->forward,
                         row->backward,
                         row->constant_seconds,
                         (double)row->layer_bytes,
                         (double)row->input_bytes,
                         (double)row->constant_bytes};
}

/* A quantity that falls below the smaller of its neighbours by noise or extrapolation never falls below nothing. */
static double at_least(double value, double least) { return value > least ? value : least; }

/* At one measured length, between batches; a batch beyond a single measured one costs in proportion. */
static dcpar_point at_batch(row_range rows, int32_t batch) {
    int64_t i = 1;
    while (i < rows.count - 1 && rows.rows[i].batch < batch) ++i;
    const dcpar_point low = at_row(&rows.rows[0]);
    if (rows.count == 1) {
        const double ratio = (double)batch / rows.rows[0].batch;
        return (dcpar_point){low.forward * ratio,     low.backward * ratio,    low.constant_seconds * ratio,
                             low.layer_bytes * ratio, low.input_bytes * ratio, low.constant_bytes * fmax(ratio, 1)};
    }
    const double x0 = rows.rows[i - 1].batch, x1 = rows.rows[i].batch, x = batch;
    const dcpar_point a = at_row(&rows.rows[i - 1]), b = at_row(&rows.rows[i]);
    return (dcpar_point){at_least(line(x0, a.forward, x1, b.forward, x), 0.01 * low.forward),
                         at_least(line(x0, a.backward, x1, b.backward, x), 0.01 * low.backward),
                         at_least(line(x0, a.constant_seconds, x1, b.constant_seconds, x), 0),
                         at_least(line(x0, a.layer_bytes, x1, b.layer_bytes, x), 0),
                         at_least(line(x0, a.input_bytes, x1, b.input_bytes, x), 0),
                         at_least(line(x0, a.constant_bytes, x1, b.constant_bytes, x), 0)};
}

static void interpolate(row_range size, int64_t length, int32_t batch, dcpar_point *out) {
    row_range low, high;
    neighbours(size, length, &low, &high);
    const double x0 = (double)low.rows[0].length, x1 = (double)high.rows[0].length, x = (double)length;
    const dcpar_point a = at_batch(low, batch), b = at_batch(high, batch);
    if (x <= x0) {
        *out = a;
        return;
    }
    if (x0 == x1) { /* a single measured length: how much of what is constant grows is not known, so all of it does */
        const double ratio = x / x0;
        *out = (dcpar_point){a.forward * ratio,     a.backward * ratio,    a.constant_seconds * ratio,
                             a.layer_bytes * ratio, a.input_bytes * ratio, a.constant_bytes * fmax(ratio, 1)};
        return;
    }
    *out = (dcpar_point){power(x0, a.forward, x1, b.forward, x),
                         power(x0, a.backward, x1, b.backward, x),
                         at_least(line(x0, a.constant_seconds, x1, b.constant_seconds, x), 0),
                         at_least(line(x0, a.layer_bytes, x1, b.layer_bytes, x), 0),
                         at_least(line(x0, a.input_bytes, x1, b.input_bytes, x), 0),
                         at_least(line(x0, a.constant_bytes, x1, b.constant_bytes, x), 0)};
}

/* What needs as much as something that did not fit into the profile's memory, needs more than that memory. */
static void heed_what_did_not_fit(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch,
                                  dcpar_point *point) {
    const double kept = point->layer_bytes + profile->info.layers * point->input_bytes; /* with r = L */
    for (int64_t i = profile->sorted_count; i < profile->row_count; ++i) {
        const dcpar_profile_row *row = &profile->sorted[i];
        if (row->sp == sp && row->length <= length && row->batch <= batch)
            point->constant_bytes = at_least(point->constant_bytes, (double)profile->info.memory + 1 - kept);
    }
}

bool dcpar_profile_point(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch, dcpar_point *out) {
    const row_range size = rows_of_size(profile, sp);
    if (size.count == 0) return false;
    interpolate(size, length, batch, out);
    heed_what_did_not_fit(profile, length, sp, batch, out);
    return true;
}

static double most_tokens(row_range rows) {
    return (double)rows.rows[rows.count - 1].batch * (double)rows.rows[0].length;
}

int32_t dcpar_profile_most_batch(const dcpar_profile *profile, int64_t length, int32_t sp) {
    const row_range size = rows_of_size(profile, sp);
    if (size.count == 0) return 0;
    row_range low, high;
    neighbours(size, length, &low, &high);
    const double x0 = (double)low.rows[0].length, x1 = (double)high.rows[0].length, x = (double)length;
    if (x <= x0) return low.rows[low.count - 1].batch;
    const double share = x >= x1 ? 1 : (x - x0) / (x1 - x0);
    const double batch = (most_tokens(low) * (1 - share) + most_tokens(high) * share) / x;
    return batch < 1 ? 1 : batch > INT32_MAX ? INT32_MAX : (int32_t)batch;
}

/* --------------------------------------------------------------------------------------------- Eq. 4 to 6 */

/* Bytes as integers; anything above what can be counted is more than any memory. */
static int64_t whole_bytes(double bytes) { return bytes < 9e18 ? (int64_t)ceil(bytes) : INT64_MAX; }

dcpar_cost dcpar_point_cost(const dcpar_point *point, int32_t layers, int32_t recompute) {
    const double kept = recompute < layers ? layers - recompute : 1;
    return (dcpar_cost){layers * (point->forward + point->backward) + recompute * point->forward +
                            point->constant_seconds,
                        whole_bytes(kept * point->layer_bytes + layers * point->input_bytes + point->constant_bytes)};
}

int32_t dcpar_point_recompute(const dcpar_point *point, int32_t layers, int64_t memory) {
    if (dcpar_point_cost(point, layers, layers).bytes > memory) return -1;
    int32_t fits = layers, does_not = -1; /* the largest r known not to fit */
    while (fits - does_not > 1) {
        const int32_t middle = does_not + (fits - does_not) / 2;
        if (dcpar_point_cost(point, layers, middle).bytes <= memory)
            fits = middle;
        else
            does_not = middle;
    }
    return fits;
}

dcpar_status dcpar_profile_cost(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch,
                                int32_t recompute, dcpar_cost *out, dcpar_error *error) {
    if (length < 1 || length > DCPAR_LENGTH_MAX || batch < 1)
        return dcpar_fail(error, DCPAR_INVALID, "a batch of %d sequences of %lld tokens cannot be", batch,
                          (long long)length);
    if (recompute < 0 || recompute > profile->info.layers)
        return dcpar_fail(error, DCPAR_INVALID, "%d layers cannot be recomputed, the model has %d", recompute,
                          profile->info.layers);
    dcpar_point point;
    if (!dcpar_profile_point(profile, length, sp, batch, &point))
        return dcpar_fail(error, DCPAR_ILLEGAL_SIZE, "SP size %d has no row in the profile", sp);
    *out = dcpar_point_cost(&point, profile->info.layers, recompute);
    return DCPAR_OK;
}
