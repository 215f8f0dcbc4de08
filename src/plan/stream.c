/* Which sequence comes next: a permutation of the rows that any rank can evaluate at any position. */
#include "base/random.h"
#include "dcpar.h"

#define FEISTEL_ROUNDS 6

int64_t dcpar_stream_row(uint64_t seed, int64_t epoch, int64_t count, int64_t position) {
    if (count <= 1) return 0;
    /* Two halves of equal width whose square is at least `count`: at most 4 walks on average. */
    int half = 1;
    while (half < 32 && ((uint64_t)1 << (2 * half)) < (uint64_t)count) ++half;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    const uint64_t key = dcpar_random(seed, 0x73747265616d, (uint64_t)epoch);
    uint64_t value = (uint64_t)position;
    do {
        uint64_t left = value >> half, right = value & mask;
        for (uint64_t round = 0; round < FEISTEL_ROUNDS; ++round) {
            const uint64_t next = left ^ (dcpar_mix(key ^ (round << 56) ^ right) & mask);
            left = right;
            right = next;
        }
        value = left << half | right;
    } while (value >= (uint64_t)count);
    return (int64_t)value;
}
