#define _GNU_SOURCE /* MAP_NORESERVE */
#include "base/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/error.h"

struct dcpar_arena {
    unsigned char *base;
    int64_t limit, top, reserved, peak;
};

dcpar_status dcpar_arena_create(int64_t limit, dcpar_arena **out, dcpar_error *error) {
    if (limit <= 0)
        return dcpar_fail(error, DCPAR_INVALID, "a memory limit of %lld bytes is not positive", (long long)limit);
    dcpar_arena *arena = calloc(1, sizeof *arena);
    if (arena == NULL) return dcpar_fail_memory(error, "an arena");
    void *base = mmap(NULL, (size_t)limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        free(arena);
        return dcpar_fail(error, DCPAR_NO_MEMORY, "the host cannot reserve %lld bytes of address space",
                          (long long)limit);
    }
    arena->base = base;
    arena->limit = limit;
    *out = arena;
    return DCPAR_OK;
}

void dcpar_arena_destroy(dcpar_arena *arena) {
    if (arena == NULL) return;
    munmap(arena->base, (size_t)arena->limit);
    free(arena);
}

static void note_peak(dcpar_arena *arena) {
    const int64_t used = arena->top + arena->reserved;
    if (used > arena->peak) arena->peak = used;
}

void *dcpar_arena_push(dcpar_arena *arena, int64_t bytes) {
    const int64_t room = arena->limit - arena->reserved - arena->top;
    if (bytes < 0 || bytes > room) return NULL;
    const int64_t rounded = (bytes + DCPAR_ARENA_ALIGNMENT - 1) / DCPAR_ARENA_ALIGNMENT * DCPAR_ARENA_ALIGNMENT;
    if (rounded > room) return NULL;
    void *start = arena->base + arena->top;
    arena->top += rounded;
    note_peak(arena);
    return start;
}

int64_t dcpar_arena_mark(const dcpar_arena *arena) { return arena->top; }

void dcpar_arena_pop(dcpar_arena *arena, int64_t mark) { arena->top = mark; }

bool dcpar_arena_reserve(dcpar_arena *arena, int64_t bytes) {
    if (bytes > arena->limit - arena->reserved - arena->top) return false;
    arena->reserved += bytes;
    note_peak(arena);
    return true;
}

int64_t dcpar_arena_limit(const dcpar_arena *arena) { return arena->limit; }
int64_t dcpar_arena_used(const dcpar_arena *arena) { return arena->top + arena->reserved; }
int64_t dcpar_arena_peak(const dcpar_arena *arena) { return arena->peak; }
void dcpar_arena_reset_peak(dcpar_arena *arena) { arena->peak = arena->top + arena->reserved; }
