/*
 * dcpar.h -- Data-Centric Parallel planning.
 *
 * One data flow, and this header follows it from top to bottom:
 *
 *     lengths -> buckets -> profile -> choice (b, p, r) per bucket -> plan per iteration
 *
 * Words used everywhere:
 *
 *   sequence      one training sample: its row number in the dataset (from 0) and its length in tokens
 *   bucket        all sequences padded to one common length s
 *   micro-batch   b sequences that one group runs in one forward and backward
 *   group         p consecutive ranks, aligned to a multiple of p, that share a micro-batch (p: SP size)
 *   iteration     everything between two optimizer steps
 *   plan          an iteration's micro-batches, and for each rank its ordered queue of them
 *   world W       the number of ranks; a rank is one process (or thread) with one device
 *   r             how many layers are recomputed in the backward pass
 *
 * Conventions
 *   - Lengths, tokens, rows and bytes are 64-bit; times are seconds as double.
 *   - Every function that can fail returns a dcpar_status and, when `error` is not NULL, one sentence in it that
 *     names the offending row, rank, file or option. On failure outputs are left untouched.
 *   - Everything here is local (no communication) and deterministic: the same inputs give the same plan on every
 *     rank, to the byte. There is no global state; one object may be used by one thread at a time.
 *   - Options structs start with their size: initialise them with the *_INIT macro, then set fields by name.
 *   - "Eq." and "Algorithm" refer to "Training Variable Long Sequences with Data-Centric Parallel".
 */
#ifndef DCPAR_H
#define DCPAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DCPAR_VERSION_MAJOR 0
#define DCPAR_VERSION_MINOR 1
#define DCPAR_VERSION_PATCH 0
#define DCPAR_VERSION "0.1.0"

#if defined(__GNUC__)
#define DCPAR_API __attribute__((visibility("default")))
#else
#define DCPAR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Status and errors
 * --------------------------------------------------------------------------------------------------------------- */

/* One list for code, name and default sentence. */
#define DCPAR_STATUS_LIST(X)                                                                                           \
    X(OK, 0, "success")                                                                                                \
    X(END, 1, "the epoch has no more sequences")                                                                       \
    X(INVALID, 2, "the input is not valid")                                                                            \
    X(ILLEGAL_SIZE, 3, "the sequence-parallel size is not legal")                                                      \
    X(TOO_LONG, 4, "a sequence fits on no legal group of ranks")                                                       \
    X(MISMATCH, 5, "the file belongs to another model, device, method, version or dataset")                            \
    X(IO, 6, "a file could not be read or written")                                                                    \
    X(NO_MEMORY, 7, "the host is out of memory")                                                                       \
    X(DEVICE_MEMORY, 8, "the device memory limit is reached")                                                          \
    X(UNSUPPORTED, 9, "this build or method does not support it")                                                      \
    X(PEER, 10, "another rank failed")                                                                                 \
    X(PLAN, 11, "the plan breaks a rule")                                                                              \
    X(INTERNAL, 12, "internal error")                                                                                  \
    X(INTERRUPTED, 13, "interrupted")

typedef enum dcpar_status {
#define DCPAR_STATUS_ENUM(name, code, text) DCPAR_##name = code,
    DCPAR_STATUS_LIST(DCPAR_STATUS_ENUM)
#undef DCPAR_STATUS_ENUM
} dcpar_status;

/* What went wrong, in one sentence without a final newline. */
typedef struct dcpar_error {
    dcpar_status status;
    char text[504];
} dcpar_error;

/* The status' name ("TOO_LONG"), and its default sentence. Never NULL. */
DCPAR_API const char *dcpar_status_name(dcpar_status status);
DCPAR_API const char *dcpar_status_text(dcpar_status status);

/* The version of the library that is linked, "major.minor.patch". */
DCPAR_API const char *dcpar_version(void);

/* ------------------------------------------------------------------------------------------------------------------
 * Lengths: 1 to DCPAR_LENGTH_MAX tokens. A length of 0 is an empty sequence: dropped and counted.
 * --------------------------------------------------------------------------------------------------------------- */

#define DCPAR_LENGTH_MAX (INT64_C(1) << 40)

/* ------------------------------------------------------------------------------------------------------------------
 * Stream: which sequence comes next
 * --------------------------------------------------------------------------------------------------------------- */

/* The row at `position` (0 <= position < count) of epoch `epoch`: a permutation of 0..count-1 keyed by seed and epoch,
 * computed for any position in O(1) time and memory (a Feistel network with cycle walking), so that no rank holds a
 * shuffled array. `count` >= 1. */
DCPAR_API int64_t dcpar_stream_row(uint64_t seed, int64_t epoch, int64_t count, int64_t position);

/* ------------------------------------------------------------------------------------------------------------------
 * Buckets: lengths are rounded up to a bound
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dcpar_buckets dcpar_buckets;

/* Bounds given by the caller: strictly increasing, 1 .. DCPAR_LENGTH_MAX. */
DCPAR_API dcpar_status dcpar_buckets_create(const int64_t *bounds, int32_t count, dcpar_buckets **out,
                                            dcpar_error *error);

/* Bounds grow by `ratio` (> 1) down from the longest length, so that padding of no sequence passes ratio - 1. Zeros
 * among lengths[count] are ignored. */
DCPAR_API dcpar_status dcpar_buckets_geometric(const int64_t *lengths, int64_t count, double ratio, dcpar_buckets **out,
                                               dcpar_error *error);

/* At most `buckets` bounds that together pad lengths[count] the least: a dynamic programme over the distinct lengths
 * (those above 4096 rounded to 11 significant bits first, 0.1 %). O(count) time, O(1) memory in `count`. */
DCPAR_API dcpar_status dcpar_buckets_minimal(const int64_t *lengths, int64_t count, int32_t buckets,
                                             dcpar_buckets **out, dcpar_error *error);

DCPAR_API void dcpar_buckets_destroy(dcpar_buckets *buckets);
DCPAR_API int32_t dcpar_buckets_count(const dcpar_buckets *buckets);
DCPAR_API int64_t dcpar_buckets_bound(const dcpar_buckets *buckets, int32_t bucket);

/* The smallest bucket that holds `length`, or -1 when it is above the last bound. */
DCPAR_API int32_t dcpar_buckets_find(const dcpar_buckets *buckets, int64_t length);

/* ------------------------------------------------------------------------------------------------------------------
 * Profile: what a micro-batch costs (dual-layer profile, section 3.5)
 * --------------------------------------------------------------------------------------------------------------- */

/* One measured point: `batch` sequences of `length` tokens on a group of `sp` ranks. Times are seconds of one rank's
 * clock, bytes those of one rank. */
typedef struct dcpar_profile_row {
    int64_t length;
    int32_t sp, batch;
    bool fits;                /* false: out of memory; the other fields are then 0 */
    double forward, backward; /* t_f, t_b: ONE layer; backward without recomputation */
    double constant_seconds;  /* T_C: embedding, head, loss */
    int64_t layer_bytes;      /* m: what one layer keeps when it is not recomputed, its input not counted */
    int64_t input_bytes;      /* m_inp: one layer's input */
    int64_t constant_bytes;   /* M_C: parameters, gradients, optimizer, buffers */
} dcpar_profile_row;

#define DCPAR_TEXT 128

typedef struct dcpar_profile_info {
    char model[DCPAR_TEXT];  /* what was measured; with the next three it makes the fingerprint */
    char device[DCPAR_TEXT]; /* processor or accelerator, its memory included */
    char method[DCPAR_TEXT]; /* sequence-parallel method: "ulysses" */
    char version[DCPAR_TEXT];
    int32_t layers;          /* L of the full model */
    int32_t heads, kv_heads; /* an SP size divides both; 0: any size is legal */
    int32_t world;           /* ranks the profile was measured with; 0: does not matter */
    int64_t memory;          /* bytes a rank may use: the default capacity */
    int64_t max_length;      /* the longest sequence the model takes; 0: no limit */
    double step_seconds;     /* one optimizer step: reduction, update, gather */
} dcpar_profile_info;

typedef struct dcpar_profile dcpar_profile;

/* A profile over copies of `info` and rows[count]. Refused, naming the row: a time that is NaN, infinite, negative or
 * (t_f, t_b) zero; negative bytes; a length, SP size or batch below 1; the same point twice; no row that fits. */
DCPAR_API dcpar_status dcpar_profile_create(const dcpar_profile_info *info, const dcpar_profile_row *rows,
                                            int64_t count, dcpar_profile **out, dcpar_error *error);
DCPAR_API void dcpar_profile_destroy(dcpar_profile *profile);

DCPAR_API const dcpar_profile_info *dcpar_profile_get_info(const dcpar_profile *profile);
DCPAR_API const dcpar_profile_row *dcpar_profile_get_rows(const dcpar_profile *profile, int64_t *count);

/* The profile as a JSON file. Saving replaces the file atomically. Loading checks as dcpar_profile_create does and
 * prefixes the sentence with the path. */
DCPAR_API dcpar_status dcpar_profile_save(const dcpar_profile *profile, const char *path, dcpar_error *error);
DCPAR_API dcpar_status dcpar_profile_load(const char *path, dcpar_profile **out, dcpar_error *error);

typedef struct dcpar_cost {
    double seconds; /* of the whole micro-batch, forward and backward */
    int64_t bytes;  /* the most one rank uses */
} dcpar_cost;

/* The cost of a micro-batch of `batch` sequences of `length` tokens on `sp` ranks with `recompute` layers recomputed:
 *
 *     T = L (t_f + t_b) + r t_f + T_C                       (Eq. 4, 5)
 *     M = max(L - r, 1) m + L m_inp + M_C                   (Eq. 6)
 *
 * The 1 in M: while a recomputed layer runs its backward pass its activations exist again, so recomputing the last
 * layer saves nothing. Between measured lengths times follow a power law and bytes a line; between measured batches
 * both follow a line. Below the shortest measured length the shortest is charged; beyond the longest and the largest
 * the last piece is continued. DCPAR_ILLEGAL_SIZE when `sp` was never measured. */
DCPAR_API dcpar_status dcpar_profile_cost(const dcpar_profile *profile, int64_t length, int32_t sp, int32_t batch,
                                          int32_t recompute, dcpar_cost *out, dcpar_error *error);

/* ------------------------------------------------------------------------------------------------------------------
 * Legal sequence-parallel sizes
 * --------------------------------------------------------------------------------------------------------------- */

/* Writes the legal SP sizes, increasing, into sizes[64] and returns how many: those that divide `heads` and `kv_heads`
 * (0: no condition) and are at most `world`. Groups of a size that does not divide the world leave the last ranks to
 * smaller groups. */
DCPAR_API int32_t dcpar_legal_sizes(int32_t world, int32_t heads, int32_t kv_heads, int32_t sizes[64]);

/* DCPAR_ILLEGAL_SIZE with a sentence that says why `sp` is not legal and lists what is. */
DCPAR_API dcpar_status dcpar_check_size(int32_t sp, int32_t world, int32_t heads, int32_t kv_heads, dcpar_error *error);

/* ------------------------------------------------------------------------------------------------------------------
 * Choice: the best (b, p, r) of one bucket (Algorithm 1)
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dcpar_choice {
    int32_t batch, sp, recompute;
    dcpar_cost cost;
    double throughput; /* b s / (p T), tokens per rank-second (Eq. 1) */
} dcpar_choice;

/* The (b, p, r) with the highest throughput for sequences of `length` tokens within `memory` bytes a rank, over
 * sizes[size_count] and the batches the profile allows. `recompute_all`: r stays L (DCP-inter); else r is the smallest
 * that fits, which is what Algorithm 1's text means: the largest k <= L with M(r = L - k) <= memory. DCPAR_TOO_LONG
 * when nothing fits. */
DCPAR_API dcpar_status dcpar_choose(const dcpar_profile *profile, int64_t length, int64_t memory, const int32_t *sizes,
                                    int32_t size_count, bool recompute_all, dcpar_choice *out, dcpar_error *error);

/* ------------------------------------------------------------------------------------------------------------------
 * Accumulation: how often each batch of an iteration runs (Eq. 3)
 * --------------------------------------------------------------------------------------------------------------- */

/* g[i] >= 1 for `count` batches that take seconds[i] on sp[i] ranks, all at the same time on `world` ranks, with
 * g[i] seconds[i] <= g_max max(seconds): the exact minimum of the idle ratio
 *
 *     sum_i sp[i] (max_j g_j T_j - g_i T_i) / (world max_j g_j T_j)          (ranks without a batch idle throughout)
 *
 * and among equals the longest iteration (the step is paid less often). If every g[i] < g_min, all are multiplied by
 * ceil(g_min / max g), or by as much as the cap still allows: the cap is never passed.
 * O(n^2 G): once it is said which batch is the longest and how often it runs, every other g is the largest that fits.
 * *idle_ratio may be NULL. */
DCPAR_API dcpar_status dcpar_accumulate(const double *seconds, const int32_t *sp, int32_t count, int32_t world,
                                        int32_t g_min, int32_t g_max, int32_t *g, double *idle_ratio,
                                        dcpar_error *error);

/* ------------------------------------------------------------------------------------------------------------------
 * Plan: an iteration's micro-batches
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dcpar_microbatch {
    int32_t first_rank, sp; /* ranks first_rank .. first_rank + sp - 1; first_rank is a multiple of sp */
    int32_t recompute;      /* layers recomputed in backward */
    int64_t padded_length;  /* each sequence is padded to it */
    const int64_t *rows;    /* [row_count] sequences, by row of the dataset */
    int64_t row_count;
    int64_t tokens; /* real tokens, padding not counted */
    double start;   /* predicted, seconds from the iteration's start */
    double seconds; /* predicted */
    int64_t bytes;  /* predicted, the most one rank uses */
} dcpar_microbatch;

typedef struct dcpar_metrics {
    int64_t sequences, tokens, padded_tokens;
    double seconds;       /* of the longest rank, the step's synchronisation not counted */
    double lower_bound;   /* no plan of these sequences in these buckets takes less */
    double idle_ratio;    /* mean over ranks of (seconds - busy) / seconds */
    double padding_ratio; /* padding / padded_tokens */
    double throughput;    /* tokens / seconds */
    int64_t peak_bytes;   /* of the most memory-hungry micro-batch */
} dcpar_metrics;

typedef struct dcpar_plan dcpar_plan;

DCPAR_API void dcpar_plan_destroy(dcpar_plan *plan);
DCPAR_API int64_t dcpar_plan_epoch(const dcpar_plan *plan);
DCPAR_API int64_t dcpar_plan_iteration(const dcpar_plan *plan); /* within the epoch, from 0 */

/* All micro-batches; they live as long as the plan. */
DCPAR_API const dcpar_microbatch *dcpar_plan_microbatches(const dcpar_plan *plan, int64_t *count);

/* The micro-batches of one rank in the order in which it runs them: indices into the above. */
DCPAR_API const int64_t *dcpar_plan_queue(const dcpar_plan *plan, int32_t rank, int64_t *count);

DCPAR_API dcpar_metrics dcpar_plan_metrics(const dcpar_plan *plan);

/* The same on every rank and machine for the same plan: what ranks compare. */
DCPAR_API uint64_t dcpar_plan_hash(const dcpar_plan *plan);

/* Replays the plan: legal aligned groups, every rank of a group holds the micro-batch in its queue, no cyclic wait,
 * no row twice, memory within `memory`. DCPAR_PLAN with the rule that is broken. */
DCPAR_API dcpar_status dcpar_plan_check(const dcpar_plan *plan, int64_t memory, dcpar_error *error);

/* ------------------------------------------------------------------------------------------------------------------
 * Planner: from lengths and a profile to one plan after another
 * --------------------------------------------------------------------------------------------------------------- */

typedef enum dcpar_order { DCPAR_ORDER_SEEDED, DCPAR_ORDER_FILE } dcpar_order;
typedef enum dcpar_too_long { DCPAR_TOO_LONG_REFUSE, DCPAR_TOO_LONG_DROP } dcpar_too_long;

typedef struct dcpar_planner_options {
    size_t size; /* of this struct */
    int32_t world;
    const char *policy;           /* a name that dcpar_policy_name lists */
    int64_t tokens_per_iteration; /* at most one of these two; both 0: the policy's own */
    int64_t sequences_per_iteration;
    uint64_t seed;
    int64_t epoch; /* the first */
    dcpar_order order;
    dcpar_too_long on_too_long; /* what to do with sequences that fit on no group */
    int64_t memory;             /* bytes a rank may use; 0: the profile's */
    int32_t g_min, g_max;       /* `inter`, `intra`: limits of accumulation; 0: the policy's own */
    const int32_t *sp_sizes;    /* only these SP sizes; NULL: every legal one */
    int32_t sp_size_count;
    const dcpar_buckets *buckets; /* copied; NULL: the planner makes bucket_count of them, with the least padding */
    int32_t bucket_count;         /* at most; 0: DCPAR_DEFAULT_BUCKETS */
} dcpar_planner_options;

#define DCPAR_DEFAULT_BUCKETS 64
#define DCPAR_PLANNER_OPTIONS_INIT                                                                                     \
    {sizeof(dcpar_planner_options), 1, "buddy", 0, 0,    0, 0,    DCPAR_ORDER_SEEDED,                                  \
     DCPAR_TOO_LONG_REFUSE,         0, 0,       0, NULL, 0, NULL, 0}

typedef struct dcpar_planner dcpar_planner;

/* Policies by number; NULL past the last. */
DCPAR_API const char *dcpar_policy_name(int32_t index);
DCPAR_API const char *dcpar_policy_summary(int32_t index);

/* A planner for lengths[count] (the array is borrowed and must outlive the planner; `profile` is not kept). Everything
 * that can be refused is refused here, before the first iteration: no sequences; a length out of range, naming the row;
 * an illegal SP size; a sequence that fits nowhere, naming the row, its length and the most that fits. */
DCPAR_API dcpar_status dcpar_planner_create(const dcpar_profile *profile, const int64_t *lengths, int64_t count,
                                            const dcpar_planner_options *options, dcpar_planner **out,
                                            dcpar_error *error);
DCPAR_API void dcpar_planner_destroy(dcpar_planner *planner);

/* The next iteration's plan, owned by the caller. DCPAR_END when every sequence of the epoch has been given. */
DCPAR_API dcpar_status dcpar_planner_next(dcpar_planner *planner, dcpar_plan **out, dcpar_error *error);

/* Goes to the start of `epoch`. */
DCPAR_API void dcpar_planner_start_epoch(dcpar_planner *planner, int64_t epoch);

typedef struct dcpar_epoch_summary {
    int64_t epoch, iterations;    /* plans given so far in this epoch */
    int64_t used, dropped, total; /* sequences; used + dropped = total at the end of an epoch */
    int64_t dropped_empty, dropped_too_long;
} dcpar_epoch_summary;
DCPAR_API dcpar_epoch_summary dcpar_planner_summary(const dcpar_planner *planner);

/* Where the planner stands, as numbers to be saved with a checkpoint: values[DCPAR_STATE_MAX], the count is returned.
 * Restoring into a planner with the same lengths, seed, order and options goes on exactly there. With another policy,
 * world size, profile or buckets the rest of the epoch is the same set of sequences when both policies follow the
 * stream
 * (`bucket`, `buddy`); otherwise DCPAR_MISMATCH. */
#define DCPAR_STATE_MAX 8192
DCPAR_API int32_t dcpar_planner_state(const dcpar_planner *planner, int64_t *values);
DCPAR_API dcpar_status dcpar_planner_restore(dcpar_planner *planner, const int64_t *values, int32_t count,
                                             dcpar_error *error);

/* The most memory-hungry micro-batch that this planner can ever plan: known before the first step. */
typedef struct dcpar_worst_case {
    int64_t bytes, padded_length;
    int32_t sp, batch, recompute;
} dcpar_worst_case;
DCPAR_API dcpar_worst_case dcpar_planner_worst_case(const dcpar_planner *planner);

/* The most tokens one sequence may have within `memory` on the legal sizes, and on how many ranks. 0 if none. */
DCPAR_API int64_t dcpar_longest_fit(const dcpar_profile *profile, int32_t world, int64_t memory,
                                    const int32_t *sp_sizes, int32_t sp_size_count, int32_t *sp);

#ifdef __cplusplus
}
#endif

#endif
