/* The CPU's table of operations for one instruction set.
 *
 * Included by one small .c file for each set, which first says
 *     DCPAR_CPU_NAME       the table's name: dcpar_cpu_NAME
 *     DCPAR_LANES          floats in a vector register; wider vectors than the set has are terribly slow
 *     DCPAR_TILE_VECTORS   columns, in vectors, of the tile of a product that is held in registers
 * and turns the instruction set on with `#pragma GCC target`. */
#include "nn/matmul.h"

#include "nn/cpu/vector.h"

#include "nn/cpu/product.h"

#include "nn/cpu/attention.h"
#include "nn/cpu/loss.h"
#include "nn/cpu/norm.h"
#include "nn/cpu/rotate.h"
#include "nn/cpu/swiglu.h"

#define DCPAR_CPU_TABLE_OF(name) dcpar_cpu_##name
#define DCPAR_CPU_TABLE(name) DCPAR_CPU_TABLE_OF(name)
#define DCPAR_CPU_TEXT_OF(name) #name
#define DCPAR_CPU_TEXT(name) DCPAR_CPU_TEXT_OF(name)

extern const dcpar_device DCPAR_CPU_TABLE(DCPAR_CPU_NAME);

const dcpar_device DCPAR_CPU_TABLE(DCPAR_CPU_NAME) = {
    .name = DCPAR_CPU_TEXT(DCPAR_CPU_NAME),
    .product_scratch = PRODUCT_SCRATCH,
    .multiply = multiply,
    .multiply_plain = multiply_plain,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .rotate_split = rotate_split,
    .rotate_merge = rotate_merge,
    .attention_scratch = attention_scratch,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .row_dots = row_dots,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .cross_entropy = cross_entropy,
};
