/* Status and errors: how every function of the library reports failure. */
#ifndef DCPAR_BASE_ERROR_H
#define DCPAR_BASE_ERROR_H

#include "dcpar.h"

#if defined(__GNUC__)
#define DCPAR_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define DCPAR_PRINTF(text, first)
#endif

/* Writes one sentence into `error` (which may be NULL) and returns `status`, so that callers can write
 * `return dcpar_fail(error, DCPAR_INVALID, "row %lld has length %lld", ...)`. */
dcpar_status dcpar_fail(dcpar_error *error, dcpar_status status, const char *format, ...) DCPAR_PRINTF(3, 4);

/* The sentence for "the host has no memory for WHAT". */
dcpar_status dcpar_fail_memory(dcpar_error *error, const char *what);

/* Puts "PREFIX: " before the sentence that `error` holds; returns its status. */
dcpar_status dcpar_fail_prefix(dcpar_error *error, dcpar_status status, const char *format, ...) DCPAR_PRINTF(3, 4);

/* Returns from the calling function when `call` fails. */
#define DCPAR_TRY(call)                                                                                                \
    do {                                                                                                               \
        const dcpar_status dcpar_try_status_ = (call);                                                                 \
        if (dcpar_try_status_ != DCPAR_OK) return dcpar_try_status_;                                                   \
    } while (0)

#endif
