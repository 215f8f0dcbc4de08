/* Vectors of DCPAR_LANES floats as GCC's vector types, and the few functions on them that C does not have. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES DCPAR_LANES
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef float vector __attribute__((vector_size(LANES * 4)));
typedef float vector_in_memory __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t bits __attribute__((vector_size(LANES * 4)));

ALWAYS_INLINE int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

ALWAYS_INLINE vector load(const float *from) { return *(const vector_in_memory *)from; }

ALWAYS_INLINE void store(float *to, vector value) { *(vector_in_memory *)to = value; }

/* The last `count` < LANES floats of a row, zeros after them. */
ALWAYS_INLINE vector load_some(const float *from, int64_t count) {
    vector value = {0};
    memcpy(&value, from, (size_t)count * sizeof *from);
    return value;
}

ALWAYS_INLINE void store_some(float *to, vector value, int64_t count) {
    memcpy(to, &value, (size_t)count * sizeof *to);
}

ALWAYS_INLINE vector zeros(void) { return (vector){0}; }

/* yes where mask is all ones, no where it is zero. */
ALWAYS_INLINE vector pick(bits mask, vector yes, vector no) {
    return (vector)(((bits)yes & mask) | ((bits)no & ~mask));
}

ALWAYS_INLINE vector larger(vector a, vector b) { return pick((bits)(a > b), a, b); }

ALWAYS_INLINE float sum_lanes(vector value) {
    float lanes[LANES];
    store(lanes, value);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    return lanes[0];
}

ALWAYS_INLINE float largest_lane(vector value) {
    float largest = value[0];
    for (int lane = 1; lane < LANES; ++lane) largest = value[lane] > largest ? value[lane] : largest;
    return largest;
}

/* e^x for x <= 0, relative error about 1e-7. exp(x) = 2^n e^r with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to
 * the integer n, whose low bits then stand in the mantissa, ready to be shifted into the exponent. The polynomial is
 * the one of degree 6 with the least relative error that starts 1 + r. Below -87 the result is exactly zero:
 * denormals would cost several times as much wherever they are used. NaN stays NaN. */
ALWAYS_INLINE vector exp_negative(vector x) {
    const float round = 12582912.0f;
    const vector shifted = x * 1.44269504088896341f + round;
    const vector n = shifted - round;
    const vector r = (x - n * 0.693359375f) - n * -2.12194440054690583e-4f; /* ln 2 in two parts */
    const vector tail =
        ((((r * 0x1.6a21aep-10f + 0x1.123b6ap-7f) * r + 0x1.5558fap-5f) * r + 0x1.55549p-3f) * r + 0x1.fffffcp-2f);
    const vector mantissa = (tail * r) * r + r + 1.0f;
    const vector result = (vector)((bits)mantissa + ((bits)shifted << 23));
    return (vector)((bits)result & ~(bits)(x < -87.0f));
}
