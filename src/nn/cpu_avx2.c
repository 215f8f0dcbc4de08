#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define DCPAR_CPU_NAME avx2
#define DCPAR_LANES 8
#define DCPAR_TILE_VECTORS 2
#include "nn/cpu/table.h"
#endif
