/* Lengths drawn from a distribution: "lognormal:mean=1024,sigma=1.5,count=100000". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "data/format.h"

#define NAME_MAX_BYTES 16
#define MOST_PARAMETERS 4
#define TWO_PI 6.283185307179586

/* Streams of random numbers for one length. */
enum { FIRST, SECOND, WHICH };

typedef struct drawing {
    double value[MOST_PARAMETERS]; /* as the distribution names them */
    double count, min, max, seed;
} drawing;

typedef struct distribution {
    const char *name;
    const char *parameter[MOST_PARAMETERS + 1]; /* all of them needed */
    bool needs_max;
    double (*draw)(const drawing *drawing, uint64_t row);
} distribution;

static double unit(const drawing *drawing, uint64_t stream, uint64_t row) {
    return dcpar_random_unit((uint64_t)drawing->seed, stream, row);
}

/* exp(normal): its mean is `mean`, the normal's deviation `sigma` (Box and Muller, 1958). */
static double lognormal(const drawing *drawing, double mean, double sigma, uint64_t row) {
    const double radius = sqrt(-2 * log(1 - unit(drawing, FIRST, row)));
    return mean * exp(sigma * radius * cos(TWO_PI * unit(drawing, SECOND, row)) - sigma * sigma / 2);
}

static double draw_lognormal(const drawing *drawing, uint64_t row) {
    return lognormal(drawing, drawing->value[0], drawing->value[1], row);
}

/* Two lognormals; `share` of the sequences are of the long kind. */
static double draw_bimodal(const drawing *drawing, uint64_t row) {
    const bool is_long = unit(drawing, WHICH, row) < drawing->value[2];
    return lognormal(drawing, drawing->value[is_long ? 1 : 0], drawing->value[3], row);
}

static double draw_uniform(const drawing *drawing, uint64_t row) {
    return drawing->min + floor(unit(drawing, FIRST, row) * (drawing->max - drawing->min + 1));
}

/* P(length > x) = (min / x)^alpha. */
static double draw_pareto(const drawing *drawing, uint64_t row) {
    return drawing->min * pow(1 - unit(drawing, FIRST, row), -1 / drawing->value[0]);
}

/* A density of x^-exponent between min and max + 1, rounded down. */
static double draw_zipf(const drawing *drawing, uint64_t row) {
    const double power = 1 - drawing->value[0], u = unit(drawing, FIRST, row);
    const double low = drawing->min, high = drawing->max + 1;
    if (fabs(power) < 1e-9) return low * pow(high / low, u);
    return pow(pow(low, power) + u * (pow(high, power) - pow(low, power)), 1 / power);
}

static const distribution distributions[] = {
    {"lognormal", {"mean", "sigma"}, false, draw_lognormal},
    {"bimodal", {"short", "long", "share", "sigma"}, false, draw_bimodal},
    {"uniform", {NULL}, true, draw_uniform},
    {"pareto", {"alpha"}, false, draw_pareto},
    {"zipf", {"exponent"}, true, draw_zipf},
};
enum { DISTRIBUTION_COUNT = sizeof distributions / sizeof *distributions };

static const distribution *find(const char *text) {
    const size_t size = strcspn(text, ":");
    if (text[size] != ':') return NULL;
    for (int i = 0; i < DISTRIBUTION_COUNT; ++i)
        if (strlen(distributions[i].name) == size && strncmp(text, distributions[i].name, size) == 0)
            return &distributions[i];
    return NULL;
}

bool dcpar_lengths_is_drawn(const char *text) { return find(text) != NULL; }

/* ---------------------------------------------------------------------------------------------- parameters */

/* Where the value of `name` goes, or NULL. */
static double *place_of(const distribution *kind, drawing *drawing, const char *name) {
    for (int i = 0; kind->parameter[i] != NULL; ++i)
        if (strcmp(kind->parameter[i], name) == 0) return &drawing->value[i];
    if (strcmp(name, "count") == 0) return &drawing->count;
    if (strcmp(name, "min") == 0) return &drawing->min;
    if (strcmp(name, "max") == 0) return &drawing->max;
    return strcmp(name, "seed") == 0 ? &drawing->seed : NULL;
}

static dcpar_status read_parameters(const distribution *kind, const char *text, drawing *drawing, dcpar_error *error) {
    for (const char *at = strchr(text, ':'); *at != '\0';) {
        ++at; /* over ':' or ',' */
        char name[NAME_MAX_BYTES] = "";
        const size_t size = strcspn(at, "=,");
        if (size < sizeof name) memcpy(name, at, size);
        double *value = place_of(kind, drawing, name);
        if (value == NULL || at[size] != '=')
            return dcpar_fail(error, DCPAR_INVALID, "%s: \"%.*s\" is not a parameter of %s with a value", text,
                              (int)strcspn(at, ","), at, kind->name);
        char *end;
        const char *number = at + size + 1;
        *value = strtod(number, &end);
        if (end == number || (*end != ',' && *end != '\0') || !isfinite(*value) || *value < 0)
            return dcpar_fail(error, DCPAR_INVALID, "%s: %s must be a number that is not negative", text, name);
        at = end;
    }
    return DCPAR_OK;
}

static dcpar_status check_parameters(const distribution *kind, const char *text, const drawing *drawing,
                                     dcpar_error *error) {
    for (int i = 0; kind->parameter[i] != NULL; ++i)
        if (isnan(drawing->value[i]))
            return dcpar_fail(error, DCPAR_INVALID, "%s: %s is missing", text, kind->parameter[i]);
    if (isnan(drawing->max)) return dcpar_fail(error, DCPAR_INVALID, "%s: max is missing", text);
    if (drawing->count > 1e9) return dcpar_fail(error, DCPAR_INVALID, "%s: count is above 1000000000", text);
    if (drawing->seed >= 0x1p53) return dcpar_fail(error, DCPAR_INVALID, "%s: seed is above 2^53", text);
    if (!(drawing->min >= 1 && drawing->max >= drawing->min && drawing->max <= (double)DCPAR_LENGTH_MAX))
        return dcpar_fail(error, DCPAR_INVALID, "%s: min and max must be from 1 to %lld, min not above max", text,
                          (long long)DCPAR_LENGTH_MAX);
    return DCPAR_OK;
}

dcpar_status dcpar_lengths_draw(const char *text, int64_t **lengths, int64_t *count, dcpar_error *error) {
    const distribution *kind = find(text);
    if (kind == NULL) return dcpar_fail(error, DCPAR_INVALID, "%s: no distribution of that name", text);
    drawing drawing = {{NAN, NAN, NAN, NAN}, 100000, 1, kind->needs_max ? NAN : (double)DCPAR_LENGTH_MAX, 0};
    DCPAR_TRY(read_parameters(kind, text, &drawing, error));
    DCPAR_TRY(check_parameters(kind, text, &drawing, error));
    const int64_t wanted = (int64_t)drawing.count;
    int64_t *drawn = malloc((size_t)(wanted > 0 ? wanted : 1) * sizeof *drawn);
    if (drawn == NULL) return dcpar_fail_memory(error, "lengths");
    drawing.min = floor(drawing.min);
    drawing.max = floor(drawing.max);
    for (int64_t row = 0; row < wanted; ++row) {
        const double length = kind->draw(&drawing, (uint64_t)row);
        drawn[row] = (int64_t)fmin(fmax(floor(length), drawing.min), drawing.max); /* NaN becomes min */
    }
    *lengths = drawn;
    *count = wanted;
    return DCPAR_OK;
}
