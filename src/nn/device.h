/* What a device has to offer so that the model can run on it: a small table of operations on row-major fp32 matrices.
 *
 * The layer, the model and the loss call nothing else. The CPU's table is compiled once for each instruction set
 * (cpu/ holds the bodies) and chosen when running; every operation of every table is tested against one written
 * naively in double precision. All operations are local, run on the calling thread, and cannot fail. */
#ifndef DCPAR_NN_DEVICE_H
#define DCPAR_NN_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* c[m, n] = a[m, k] b[k, n], or c += with `add`; a transposed operand is stored as [k, m] or [n, k]. */
typedef struct dcpar_product {
    int64_t m, n, k;
    const float *a;
    int64_t lda; /* floats from one stored row to the next */
    bool a_transposed;
    const float *b;
    int64_t ldb;
    bool b_transposed;
    float *c;
    int64_t ldc;
    bool add;
    float *scratch; /* [product_scratch] floats */
} dcpar_product;

/* Causal attention of every sequence of a row with itself. Query head h reads key head h / (heads / kv_heads). Tokens
 * from starts[sequences] to `total` belong to no sequence; their outputs and gradients are zeros. */
typedef struct dcpar_attention {
    int64_t total, sequences;
    const int64_t *starts; /* [sequences + 1] */
    int64_t heads, kv_heads, head_dim;
    const float *q;     /* [total, heads, head_dim] */
    const float *k, *v; /* [total, kv_heads, head_dim] */
    float *scratch;     /* [attention_scratch(head_dim)] floats */
} dcpar_attention;

typedef struct dcpar_device {
    const char *name;

    int64_t product_scratch;
    void (*multiply)(const dcpar_product *product);
    void (*multiply_plain)(const dcpar_product *product); /* needs no library; `multiply` where there is none */

    /* output = input / rms(input) * weight, row by row; input and output [rows, width] may be the same. */
    void (*norm_forward)(int64_t rows, int64_t width, double eps, const float *input, const float *weight,
                         float *output);
    /* Adds to d_input and d_weight. */
    void (*norm_backward)(int64_t rows, int64_t width, double eps, const float *input, const float *weight,
                          const float *d_output, float *d_input, float *d_weight);

    /* Turns queries and keys by the rotary angles and takes the fused rows apart: qkv [rows, heads + 2 kv_heads,
     * head_dim] -> q [rows, heads, head_dim], k, v [rows, kv_heads, head_dim]. rotation [rows, head_dim]: cosines of
     * head_dim / 2 angles, then their sines; element i is paired with i + head_dim / 2. */
    void (*rotate_split)(int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim, const float *rotation,
                         const float *qkv, float *q, float *k, float *v);
    /* Its transpose: turns back and puts together. */
    void (*rotate_merge)(int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim, const float *rotation,
                         const float *dq, const float *dk, const float *dv, float *dqkv);

    int64_t (*attention_scratch)(int64_t head_dim);
    /* output [total, heads, head_dim]; log_sum [heads, total]: log of the sum of exponentials of scaled scores. */
    void (*attention_forward)(const dcpar_attention *attention, float *output, float *log_sum);
    /* delta [total, heads]: sum over head_dim of d_output * output. dq may be q; dk, dv may not be k, v. */
    void (*attention_backward)(const dcpar_attention *attention, const float *log_sum, const float *d_output,
                               const float *delta, float *dq, float *dk, float *dv);
    /* sums[i] = sum over width of a[i] * b[i]; a, b [rows, width]. */
    void (*row_dots)(int64_t rows, int64_t width, const float *a, const float *b, float *sums);

    /* output = silu(gate) * up; gate_up [rows, 2 width]: gate, then up; output [rows, width]. */
    void (*swiglu_forward)(int64_t rows, int64_t width, const float *gate_up, float *output);
    /* gate_up becomes its own gradient; d_output [rows, width]. */
    void (*swiglu_backward)(int64_t rows, int64_t width, float *gate_up, const float *d_output);

    /* Cross-entropy of logits [rows, vocab] with target[rows], times weight[rows] unless that is NULL; a negative
     * target has no loss. logits become the gradient of the sum of losses. Returns that sum. */
    double (*cross_entropy)(int64_t rows, int64_t vocab, float *logits, const int32_t *target, const float *weight);
} dcpar_device;

/* The CPU's tables that can run on this machine, best first; NULL past the last. */
const dcpar_device *dcpar_device_at(int32_t index);

/* Lets matrix products of the calling thread use `threads` threads and returns how many they used before. A rank is
 * one thread of computation: ranks that are threads of one process must not each start a team. */
int dcpar_device_threads(int threads);

#endif
