/* Counter-based random numbers: a value is a pure function of (seed, stream, counter), so any element can be had
 * alone, on any rank, in any order. Mixing is SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014). */
#ifndef DCPAR_BASE_RANDOM_H
#define DCPAR_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t dcpar_mix(uint64_t value) {
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static inline uint64_t dcpar_random(uint64_t seed, uint64_t stream, uint64_t counter) {
    return dcpar_mix(dcpar_mix(dcpar_mix(seed) ^ stream) ^ counter);
}

/* Uniform in [0, 1). */
static inline double dcpar_random_unit(uint64_t seed, uint64_t stream, uint64_t counter) {
    return (double)(dcpar_random(seed, stream, counter) >> 11) * 0x1.0p-53;
}

#endif
