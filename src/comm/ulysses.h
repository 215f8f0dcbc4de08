/* Ulysses' exchange (Jacobs et al., "DeepSpeed Ulysses", 2023): from (part of the tokens, all heads) to (all tokens,
 * part of the heads) and back, in one all-to-all each.
 *
 * The row of tokens is cut into p equal parts in rank order, the heads likewise. Scratch for packing comes from
 * `arena` and is given back before returning. */
#ifndef DCPAR_COMM_ULYSSES_H
#define DCPAR_COMM_ULYSSES_H

#include "base/arena.h"
#include "dcpar_run.h"

/* mine [tokens_per_rank, heads, head_dim] -> all [p * tokens_per_rank, heads / p, head_dim]. p = size of `group`
 * divides `heads`. DCPAR_DEVICE_MEMORY when the arena has no room for scratch (before anything is sent). Collective. */
dcpar_status dcpar_ulysses_to_heads(dcpar_comm *group, dcpar_arena *arena, const float *mine, float *all,
                                    int64_t tokens_per_rank, int64_t heads, int64_t head_dim, dcpar_error *error);

/* The inverse: all [p * tokens_per_rank, heads / p, head_dim] -> mine [tokens_per_rank, heads, head_dim].
 * Collective. */
dcpar_status dcpar_ulysses_to_tokens(dcpar_comm *group, dcpar_arena *arena, const float *all, float *mine,
                                     int64_t tokens_per_rank, int64_t heads, int64_t head_dim, dcpar_error *error);

#endif
