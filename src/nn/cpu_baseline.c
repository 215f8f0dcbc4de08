/* Four floats a vector: every machine has it, and GCC makes scalar code of it where there is none. */
#define DCPAR_CPU_NAME baseline
#define DCPAR_LANES 4
#define DCPAR_TILE_VECTORS 2
#include "nn/cpu/table.h"
