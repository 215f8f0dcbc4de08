/* Buckets: lengths are rounded up to a bound. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/buckets.h"

struct dcpar_buckets {
    int32_t count;
    int64_t bounds[];
};

dcpar_status dcpar_buckets_create(const int64_t *bounds, int32_t count, dcpar_buckets **out, dcpar_error *error) {
    if (count < 1) return dcpar_fail(error, DCPAR_INVALID, "at least one bucket bound is needed");
    for (int32_t i = 0; i < count; ++i) {
        if (bounds[i] < 1 || bounds[i] > DCPAR_LENGTH_MAX)
            return dcpar_fail(error, DCPAR_INVALID, "bucket bound %d is %lld; it must be 1 to 2^40", i,
                              (long long)bounds[i]);
        if (i > 0 && bounds[i] <= bounds[i - 1])
            return dcpar_fail(error, DCPAR_INVALID, "bucket bound %d (%lld) is not above the one before (%lld)", i,
                              (long long)bounds[i], (long long)bounds[i - 1]);
    }
    dcpar_buckets *buckets = malloc(sizeof *buckets + (size_t)count * sizeof *buckets->bounds);
    if (buckets == NULL) return dcpar_fail_memory(error, "buckets");
    buckets->count = count;
    memcpy(buckets->bounds, bounds, (size_t)count * sizeof *bounds);
    *out = buckets;
    return DCPAR_OK;
}

void dcpar_buckets_destroy(dcpar_buckets *buckets) { free(buckets); }

int32_t dcpar_buckets_count(const dcpar_buckets *buckets) { return buckets->count; }

int64_t dcpar_buckets_bound(const dcpar_buckets *buckets, int32_t bucket) { return buckets->bounds[bucket]; }

int32_t dcpar_buckets_find(const dcpar_buckets *buckets, int64_t length) {
    int32_t low = 0, high = buckets->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (buckets->bounds[middle] < length)
            low = middle + 1;
        else
            high = middle;
    }
    return low < buckets->count ? low : -1;
}

static dcpar_status check_length(int64_t length, int64_t row, dcpar_error *error) {
    if (length >= 0 && length <= DCPAR_LENGTH_MAX) return DCPAR_OK;
    return dcpar_fail(error, DCPAR_INVALID, "row %lld has a length of %lld; it must be 1 to 2^40", (long long)row,
                      (long long)length);
}

/* ------------------------------------------------------------------------------------------------ geometric */

dcpar_status dcpar_buckets_geometric(const int64_t *lengths, int64_t count, double ratio, dcpar_buckets **out,
                                     dcpar_error *error) {
    if (!(ratio > 1)) return dcpar_fail(error, DCPAR_INVALID, "a bucket ratio of %g is not above 1", ratio);
    int64_t shortest = INT64_MAX, longest = 0;
    for (int64_t i = 0; i < count; ++i) {
        DCPAR_TRY(check_length(lengths[i], i, error));
        if (lengths[i] > longest) longest = lengths[i];
        if (lengths[i] > 0 && lengths[i] < shortest) shortest = lengths[i];
    }
    if (longest == 0) return dcpar_fail(error, DCPAR_INVALID, "there is no sequence to make buckets for");
    int64_t bounds[4096]; /* downwards */
    int32_t used = 0;
    for (int64_t bound = longest; used < 4096;) {
        bounds[used++] = bound;
        const int64_t next = (int64_t)floor((double)bound / ratio);
        bound = next < bound ? next : bound - 1;
        if (bound < shortest) break;
    }
    if (bounds[used - 1] > (double)shortest * ratio)
        return dcpar_fail(error, DCPAR_INVALID, "a bucket ratio of %g needs more than 4096 buckets", ratio);
    for (int32_t i = 0; i < used / 2; ++i) {
        const int64_t swap = bounds[i];
        bounds[i] = bounds[used - 1 - i];
        bounds[used - 1 - i] = swap;
    }
    return dcpar_buckets_create(bounds, used, out, error);
}

/* --------------------------------------------------------------------------------------- minimal padding */

/* Lengths are counted in classes: one each up to EXACT, above it 1024 for each power of two (11 significant bits). */
#define EXACT_BITS 12
#define EXACT (1 << EXACT_BITS)
#define CLASS_BITS 10
#define CLASSES (EXACT + ((41 - EXACT_BITS) << CLASS_BITS) + 1)

static int32_t class_of(int64_t length) {
    if (length < EXACT) return (int32_t)length;
    const int top = 63 - __builtin_clzll((uint64_t)length);
    const int32_t fraction = (int32_t)((length >> (top - CLASS_BITS)) & ((1 << CLASS_BITS) - 1));
    return EXACT + ((top - EXACT_BITS) << CLASS_BITS) + fraction;
}

typedef struct length_class {
    int64_t bound; /* the longest length in it */
    double count;  /* sequences in this class and all before: for sums over ranges */
} length_class;

/* Counts lengths up to `longest` by class; returns the classes that occur, with running counts. */
static dcpar_status count_classes(const int64_t *lengths, int64_t count, int64_t longest, length_class **out,
                                  int32_t *used, dcpar_error *error) {
    length_class *classes = calloc(CLASSES + 1, sizeof *classes);
    if (classes == NULL) return dcpar_fail_memory(error, "length classes");
    for (int64_t i = 0; i < count; ++i) {
        const dcpar_status status = check_length(lengths[i], i, error);
        if (status != DCPAR_OK) {
            free(classes);
            return status;
        }
        if (lengths[i] == 0 || lengths[i] > longest) continue;
        length_class *class = &classes[class_of(lengths[i])];
        class->count += 1;
        if (lengths[i] > class->bound) class->bound = lengths[i];
    }
    int32_t kept = 0;
    double running = 0;
    for (int32_t i = 0; i < CLASSES; ++i) {
        if (classes[i].count == 0) continue;
        running += classes[i].count;
        classes[kept].bound = classes[i].bound;
        classes[kept++].count = running;
    }
    *out = classes;
    *used = kept;
    return DCPAR_OK;
}

/* Padded tokens when classes first..last share a bucket. The sum of real lengths is the same for every choice, so the
 * least padded tokens is the least padding. */
static double padded(const length_class *classes, int32_t first, int32_t last) {
    const double before = first > 0 ? classes[first - 1].count : 0;
    return (double)classes[last].bound * (classes[last].count - before);
}

/* best[j]: least padded tokens of classes 0..j with one bucket more than in previous[]; from[j]: where the last
 * bucket starts. The best start never moves left as j grows (the cost satisfies the quadrangle inequality), so
 * halving the range of j halves the range of starts: O(D log D) for D classes. */
static void add_bucket(const length_class *classes, const double *previous, double *best, int32_t *from, int32_t low,
                       int32_t high, int32_t start_low, int32_t start_high) {
    if (low > high) return;
    const int32_t middle = low + (high - low) / 2;
    best[middle] = INFINITY;
    for (int32_t start = start_low; start <= start_high && start <= middle; ++start) {
        const double before = start > 0 ? previous[start - 1] : 0;
        const double total = before + padded(classes, start, middle);
        if (total < best[middle]) {
            best[middle] = total;
            from[middle] = start;
        }
    }
    add_bucket(classes, previous, best, from, low, middle - 1, start_low, from[middle]);
    add_bucket(classes, previous, best, from, middle + 1, high, from[middle], start_high);
}

static int compare_bounds(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* Sorts bounds[count], leaves out repeated ones and zeros, and makes buckets of them. */
static dcpar_status create_from_any_order(int64_t *bounds, int32_t count, dcpar_buckets **out, dcpar_error *error) {
    qsort(bounds, (size_t)count, sizeof *bounds, compare_bounds);
    int32_t kept = 0;
    for (int32_t i = 0; i < count; ++i)
        if (bounds[i] > 0 && (kept == 0 || bounds[i] != bounds[kept - 1])) bounds[kept++] = bounds[i];
    return dcpar_buckets_create(bounds, kept, out, error);
}

static dcpar_status minimal_bounds(const length_class *classes, int32_t used, int32_t buckets, const int64_t *also,
                                   int32_t also_count, dcpar_buckets **out, dcpar_error *error) {
    if (buckets > used) buckets = used;
    double *rows = malloc(2 * (size_t)used * sizeof *rows);
    int32_t *from = malloc((size_t)buckets * (size_t)used * sizeof *from);
    int64_t *bounds = malloc(((size_t)buckets + (size_t)also_count) * sizeof *bounds);
    dcpar_status status = DCPAR_NO_MEMORY;
    if (rows == NULL || from == NULL || bounds == NULL) {
        dcpar_fail_memory(error, "the search for buckets");
        goto done;
    }
    double *previous = rows, *best = rows + used;
    for (int32_t j = 0; j < used; ++j) {
        previous[j] = padded(classes, 0, j);
        from[j] = 0;
    }
    for (int32_t k = 1; k < buckets; ++k) {
        add_bucket(classes, previous, best, from + (size_t)k * (size_t)used, 0, used - 1, 0, used - 1);
        double *swap = previous;
        previous = best;
        best = swap;
    }
    int32_t last = used - 1, left = buckets;
    memset(bounds, 0, (size_t)buckets * sizeof *bounds);
    while (last >= 0 && left > 0) {
        bounds[--left] = classes[last].bound;
        last = from[(size_t)left * (size_t)used + (size_t)last] - 1;
    }
    for (int32_t i = 0; i < also_count; ++i) bounds[buckets + i] = also[i];
    status = create_from_any_order(bounds, buckets + also_count, out, error);
done:
    free(rows);
    free(from);
    free(bounds);
    return status;
}

dcpar_status dcpar_buckets_minimal_with(const int64_t *lengths, int64_t count, int32_t buckets, const int64_t *also,
                                        int32_t also_count, int64_t longest, dcpar_buckets **out, dcpar_error *error) {
    if (buckets < 1) return dcpar_fail(error, DCPAR_INVALID, "%d buckets are not at least one", buckets);
    length_class *classes = NULL;
    int32_t used = 0;
    DCPAR_TRY(count_classes(lengths, count, longest, &classes, &used, error));
    dcpar_status status;
    if (used == 0)
        status = dcpar_fail(error, DCPAR_INVALID, "there is no sequence to make buckets for");
    else
        status = minimal_bounds(classes, used, buckets, also, also_count, out, error);
    free(classes);
    return status;
}

dcpar_status dcpar_buckets_minimal(const int64_t *lengths, int64_t count, int32_t buckets, dcpar_buckets **out,
                                   dcpar_error *error) {
    return dcpar_buckets_minimal_with(lengths, count, buckets, NULL, 0, DCPAR_LENGTH_MAX, out, error);
}
