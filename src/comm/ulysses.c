#include "comm/ulysses.h"

#include <string.h>

#include "base/error.h"

/* One exchange seen from one rank: it holds p blocks [tokens, heads / p, head_dim], one for each rank. */
typedef struct exchange {
    int64_t ranks, tokens;
    int64_t part_floats; /* of one token: the heads of one rank */
    int64_t block_bytes; /* of one rank's block */
    float *blocks;       /* [ranks][tokens][part_floats], in the arena */
} exchange;

static dcpar_status prepare(exchange *exchange, dcpar_comm *group, dcpar_arena *arena, int64_t tokens, int64_t heads,
                            int64_t head_dim, dcpar_error *error) {
    const int64_t ranks = dcpar_comm_size(group);
    if (tokens < 0 || heads < 1 || head_dim < 1)
        return dcpar_fail(error, DCPAR_INVALID, "an exchange of %lld tokens, %lld heads of size %lld is asked for",
                          (long long)tokens, (long long)heads, (long long)head_dim);
    if (heads % ranks != 0)
        return dcpar_fail(error, DCPAR_ILLEGAL_SIZE, "%lld heads cannot be divided among %lld ranks", (long long)heads,
                          (long long)ranks);
    if (head_dim > INT64_MAX / (int64_t)sizeof(float) / heads ||
        (tokens > 0 && heads * head_dim > INT64_MAX / (int64_t)sizeof(float) / tokens))
        return dcpar_fail(error, DCPAR_INVALID, "an exchange of %lld tokens x %lld heads x %lld passes 2^63 bytes",
                          (long long)tokens, (long long)heads, (long long)head_dim);
    exchange->ranks = ranks;
    exchange->tokens = tokens;
    exchange->part_floats = heads / ranks * head_dim;
    exchange->block_bytes = tokens * exchange->part_floats * (int64_t)sizeof(float);
    exchange->blocks = dcpar_arena_push(arena, ranks * exchange->block_bytes);
    if (exchange->blocks == NULL)
        return dcpar_fail(error, DCPAR_DEVICE_MEMORY, "no room for an exchange of %lld bytes: %lld of %lld are in use",
                          (long long)(ranks * exchange->block_bytes), (long long)dcpar_arena_used(arena),
                          (long long)dcpar_arena_limit(arena));
    return DCPAR_OK;
}

/* Between rows [tokens][ranks][part] and blocks [ranks][tokens][part]. */
static void pack(const exchange *exchange, const float *rows) {
    const int64_t ranks = exchange->ranks, tokens = exchange->tokens, part = exchange->part_floats;
    for (int64_t rank = 0; rank < ranks; ++rank)
        for (int64_t token = 0; token < tokens; ++token)
            memcpy(exchange->blocks + (rank * tokens + token) * part, rows + (token * ranks + rank) * part,
                   (size_t)part * sizeof(float));
}

static void unpack(const exchange *exchange, float *rows) {
    const int64_t ranks = exchange->ranks, tokens = exchange->tokens, part = exchange->part_floats;
    for (int64_t rank = 0; rank < ranks; ++rank)
        for (int64_t token = 0; token < tokens; ++token)
            memcpy(rows + (token * ranks + rank) * part, exchange->blocks + (rank * tokens + token) * part,
                   (size_t)part * sizeof(float));
}

/* The block that comes from rank i is rows i * tokens .. of `all`, just where it is wanted: only the sending side
 * packs here, and only the receiving side unpacks on the way back. */
dcpar_status dcpar_ulysses_to_heads(dcpar_comm *group, dcpar_arena *arena, const float *mine, float *all,
                                    int64_t tokens_per_rank, int64_t heads, int64_t head_dim, dcpar_error *error) {
    const int64_t mark = dcpar_arena_mark(arena);
    exchange exchange;
    DCPAR_TRY(prepare(&exchange, group, arena, tokens_per_rank, heads, head_dim, error));
    pack(&exchange, mine);
    const dcpar_status status = dcpar_comm_all_to_all(group, exchange.blocks, all, exchange.block_bytes, error);
    dcpar_arena_pop(arena, mark);
    return status;
}

dcpar_status dcpar_ulysses_to_tokens(dcpar_comm *group, dcpar_arena *arena, const float *all, float *mine,
                                     int64_t tokens_per_rank, int64_t heads, int64_t head_dim, dcpar_error *error) {
    const int64_t mark = dcpar_arena_mark(arena);
    exchange exchange;
    DCPAR_TRY(prepare(&exchange, group, arena, tokens_per_rank, heads, head_dim, error));
    const dcpar_status status = dcpar_comm_all_to_all(group, all, exchange.blocks, exchange.block_bytes, error);
    if (status == DCPAR_OK) unpack(&exchange, mine);
    dcpar_arena_pop(arena, mark);
    return status;
}
