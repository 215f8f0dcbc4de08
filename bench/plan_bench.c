/* How good plans are, and how long it takes to make them.
 *
 *     plan_bench [lengths.txt [iterations]]
 *
 * Costs are those published for GPT-7B on 64 ranks with room for 6,449 tokens each: a group of p ranks takes
 * sum of (a1 l^2 + a2 l) / p + 16 L h l / 2^20 / p / v_p milliseconds for its sequences and b1 for itself. Lengths are
 * lognormal with the mean of English Wikipedia's articles, or those of a file, rounded up to 128; those above 191,872
 * are left out. Times are those of the processor, so that other programs do not count, and medians. Ratios are those of
 * a plan's time to its own lower bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/random.h"
#include "data/dataset.h"
#include "dcpar.h"

enum { LONGEST = 191872, UNIT = 128, LENGTHS = 1000000, ROOM = 6449, MOST_ITERATIONS = 1000 };

/* Seconds of one group without the constant; v[i] is for 2^i ranks. */
static double group_seconds(int64_t length, int32_t sp, double batch) {
    static const double v[] = {0, 119.54, 104.07, 96.5, 10.33, 5.94, 4.87};
    const int place = __builtin_ctz((unsigned)sp);
    const double tokens = (double)length;
    const double exchange = place > 0 ? 16.0 * 32 * 4096 * tokens / 1048576 / sp / v[place] : 0;
    return 1e-3 * batch * ((5.128e-6 * tokens * tokens + 0.1839576 * tokens) / sp + exchange);
}

/* Batches of 1, 2, 4, .. and the largest that there is room for. */
static dcpar_status make_profile(double constant, double room, dcpar_profile **out, dcpar_error *error) {
    static dcpar_profile_row rows[8000];
    int64_t count = 0;
    for (int32_t sp = 1; sp <= 64; sp *= 2)
        for (int64_t length = UNIT; length <= 1 << 18; length = (length * 5 / 4 + UNIT - 1) / UNIT * UNIT) {
            const double fits = room * sp / (double)length;
            const int32_t most = fits < 1024 ? (int32_t)fits : 1024;
            for (int32_t batch = 1; batch <= most; batch = batch < most && 2 * batch > most ? most : 2 * batch) {
                const double seconds = group_seconds(length, sp, batch);
                rows[count++] = (dcpar_profile_row){.length = length,
                                                    .sp = sp,
                                                    .batch = batch,
                                                    .fits = true,
                                                    .forward = seconds / 3,
                                                    .backward = seconds * 2 / 3,
                                                    .constant_seconds = 1e-3 * constant,
                                                    .layer_bytes = length * batch / sp};
            }
        }
    const dcpar_profile_info info = {.model = "gpt-7b",
                                     .device = "published",
                                     .method = "ulysses",
                                     .version = "1",
                                     .layers = 1,
                                     .memory = (int64_t)room};
    return dcpar_profile_create(&info, rows, count, out, error);
}

/* Rounds up to UNIT and leaves out the longest; returns how many stay. */
static int64_t round_lengths(int64_t *lengths, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t length = (lengths[i] + UNIT - 1) / UNIT * UNIT;
        if (length > 0 && length <= LONGEST) lengths[kept++] = length;
    }
    return kept;
}

static dcpar_status make_lengths(const char *path, int64_t **lengths, int64_t *count, dcpar_error *error) {
    if (path != NULL) {
        const dcpar_status status = dcpar_lengths_read(path, lengths, count, error);
        if (status != DCPAR_OK) return status;
    } else {
        *lengths = malloc(LENGTHS * sizeof **lengths);
        if (*lengths == NULL) return DCPAR_NO_MEMORY;
        *count = LENGTHS;
        for (uint64_t i = 0; i < LENGTHS; ++i) {
            const double radius = sqrt(-2 * log(1 - dcpar_random_unit(1, 0, i)));
            const double normal = radius * cos(6.283185307179586 * dcpar_random_unit(1, 1, i));
            (*lengths)[i] = (int64_t)(430 * exp(1.3 * normal)) + 1;
        }
    }
    *count = round_lengths(*lengths, *count);
    return DCPAR_OK;
}

static double processor_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

typedef struct setting {
    const char *name, *policy;
    int32_t world;
    int64_t sequences;
    double constant, room; /* milliseconds, tokens */
} setting;

static dcpar_status measure(const setting *setting, const int64_t *lengths, int64_t count, int32_t iterations,
                            dcpar_error *error) {
    dcpar_profile *profile = NULL;
    dcpar_planner *planner = NULL;
    dcpar_status status = make_profile(setting->constant, setting->room, &profile, error);
    if (status != DCPAR_OK) return status;
    dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
    options.world = setting->world;
    options.policy = setting->policy;
    options.sequences_per_iteration = setting->sequences;
    options.on_too_long = DCPAR_TOO_LONG_DROP;
    double start = processor_now();
    status = dcpar_planner_create(profile, lengths, count, &options, &planner, error);
    const double create = processor_now() - start;
    double times[MOST_ITERATIONS], ratios = 0, worst = 0, idle = 0, padding = 0, tokens = 0, seconds = 0;
    int32_t plans = 0;
    while (status == DCPAR_OK && plans < iterations) {
        dcpar_plan *plan = NULL;
        start = processor_now();
        status = dcpar_planner_next(planner, &plan, error);
        if (status != DCPAR_OK) break;
        times[plans++] = processor_now() - start;
        const dcpar_metrics metrics = dcpar_plan_metrics(plan);
        ratios += metrics.seconds / metrics.lower_bound;
        worst = fmax(worst, metrics.seconds / metrics.lower_bound);
        idle += metrics.idle_ratio;
        padding += metrics.padding_ratio;
        tokens += (double)metrics.tokens;
        seconds += metrics.seconds;
        status = dcpar_plan_check(plan, options.memory > 0 ? options.memory : (int64_t)setting->room, error);
        dcpar_plan_destroy(plan);
    }
    if (status == DCPAR_OK || status == DCPAR_END) {
        qsort(times, (size_t)plans, sizeof *times, compare_doubles);
        printf("%-8s %6d %6lld  %-18s %7.4f %7.4f %6.1f %% %6.1f %% %10.0f %9.3f %9.1f\n", setting->policy,
               setting->world, (long long)setting->sequences, setting->name, ratios / plans, worst, 100 * idle / plans,
               100 * padding / plans, tokens / seconds, 1e3 * times[plans / 2], 1e3 * create);
        status = DCPAR_OK;
    }
    dcpar_planner_destroy(planner);
    dcpar_profile_destroy(profile);
    return status;
}

int main(int argc, char **argv) {
    static const setting settings[] = {
        {"", "buddy", 64, 512, 629.3563, ROOM},
        {"", "buddy", 64, 2048, 629.3563, ROOM},
        {"", "buddy", 32, 512, 629.3563, ROOM},
        {"", "buddy", 16, 128, 629.3563, ROOM},
        {"", "buddy", 256, 2048, 629.3563, ROOM},
        {"", "buddy", 1024, 8192, 629.3563, ROOM},
        {"constant x 0.1", "buddy", 64, 512, 62.93563, ROOM},
        {"constant x 10", "buddy", 64, 512, 6293.563, ROOM},
        {"memory x 0.5", "buddy", 64, 512, 629.3563, ROOM / 2},
        {"memory x 2", "buddy", 64, 512, 629.3563, ROOM * 2},
        {"", "bucket", 64, 512, 629.3563, ROOM},
        {"", "inter", 64, 512, 629.3563, ROOM},
        {"", "intra", 64, 512, 629.3563, ROOM},
    };
    const int32_t iterations = argc > 2 ? atoi(argv[2]) : 40;
    int64_t *lengths = NULL, count = 0;
    dcpar_error error = {DCPAR_NO_MEMORY, "the host is out of memory"};
    if (argc > 3 || iterations < 1 || iterations > MOST_ITERATIONS) {
        fprintf(stderr, "usage: %s [lengths.txt [iterations]]\n", argv[0]);
        return 2;
    }
    dcpar_status status = make_lengths(argc > 1 ? argv[1] : NULL, &lengths, &count, &error);
    printf("policy    ranks  seqs.  setting           over bound   worst     idle  padding   tokens/s   ms/plan "
           "ms/create\n");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0] && status == DCPAR_OK; ++i)
        status = measure(&settings[i], lengths, count, iterations, &error);
    if (status != DCPAR_OK) fprintf(stderr, "%s\n", error.text);
    free(lengths);
    return status == DCPAR_OK ? 0 : 1;
}
