/* A stack of device memory that knows to the byte what is in use.
 *
 * Activations live in it: forward pushes, backward pops. The limit is the rank's memory; asking for more returns
 * NULL, which callers report as DCPAR_DEVICE_MEMORY. Model state that is allocated elsewhere is counted with
 * dcpar_arena_reserve so that `used` and `peak` speak of all that the rank holds. One thread at a time. */
#ifndef DCPAR_BASE_ARENA_H
#define DCPAR_BASE_ARENA_H

#include "dcpar.h"

#define DCPAR_ARENA_ALIGNMENT 64 /* bytes; every allocation starts on and is rounded up to it */

typedef struct dcpar_arena dcpar_arena;

/* `limit` in bytes; address space is reserved at once, pages are taken as they are touched. */
dcpar_status dcpar_arena_create(int64_t limit, dcpar_arena **out, dcpar_error *error);
void dcpar_arena_destroy(dcpar_arena *arena);

/* Returns `bytes` aligned bytes (contents undefined), or NULL when the limit would be passed. */
void *dcpar_arena_push(dcpar_arena *arena, int64_t bytes);

/* The present top, and going back to it: everything pushed since then is gone. */
int64_t dcpar_arena_mark(const dcpar_arena *arena);
void dcpar_arena_pop(dcpar_arena *arena, int64_t mark);

/* Counts `bytes` (negative to give back) held outside the arena against its limit. False when they do not fit. */
bool dcpar_arena_reserve(dcpar_arena *arena, int64_t bytes);

int64_t dcpar_arena_limit(const dcpar_arena *arena);
int64_t dcpar_arena_used(const dcpar_arena *arena); /* reserved bytes included */
int64_t dcpar_arena_peak(const dcpar_arena *arena); /* the most that was used since the last reset */
void dcpar_arena_reset_peak(dcpar_arena *arena);

#endif
