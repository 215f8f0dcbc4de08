#include "nn/device.h"

#include <stddef.h>

extern const dcpar_device dcpar_cpu_baseline;

#if defined(__x86_64__)

extern const dcpar_device dcpar_cpu_avx2, dcpar_cpu_avx512;

const dcpar_device *dcpar_device_at(int32_t index) {
    const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx512 && index-- == 0) return &dcpar_cpu_avx512;
    if (has_avx2 && index-- == 0) return &dcpar_cpu_avx2;
    return index == 0 ? &dcpar_cpu_baseline : NULL;
}

#else

const dcpar_device *dcpar_device_at(int32_t index) { return index == 0 ? &dcpar_cpu_baseline : NULL; }

#endif
