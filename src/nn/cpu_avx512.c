#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,prefer-vector-width=512")
#define DCPAR_CPU_NAME avx512
#define DCPAR_LANES 16
#define DCPAR_TILE_VECTORS 4
#include "nn/cpu/table.h"
#endif
