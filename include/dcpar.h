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

#ifdef __cplusplus
}
#endif

#endif
