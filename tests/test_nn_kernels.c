/* Every operation of every device table against one written naively in double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "nn/device.h"
#include "testing.h"

#define SEED UINT64_C(20240611)

static float *random_floats(int64_t count, uint64_t stream) {
    float *values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; ++i) values[i] = (float)(2.0 * dcpar_random_unit(SEED, stream, (uint64_t)i) - 1.0);
    return values;
}

static float *zero_floats(int64_t count) {
    float *values = calloc((size_t)(count > 0 ? count : 1), sizeof *values);
    assert_non_null(values);
    return values;
}

/* |got - wanted| <= tolerance * (1 + |wanted|) everywhere. */
static void assert_close(const char *what, const float *got, const double *wanted, int64_t count, double tolerance) {
    for (int64_t i = 0; i < count; ++i)
        if (!(fabs((double)got[i] - wanted[i]) <= tolerance * (1.0 + fabs(wanted[i]))))
            fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, got[i], wanted[i]);
}

/* ------------------------------------------------------------------------------------------------- products */

static void check_product(void (*multiply)(const dcpar_product *), float *scratch, int64_t m, int64_t n, int64_t k,
                          int variant) {
    const bool a_transposed = variant & 1, b_transposed = variant & 2, add = variant & 4;
    const int64_t lda = (a_transposed ? m : k) + 3, ldb = (b_transposed ? k : n) + 1, ldc = n + 2;
    float *a = random_floats(lda * (a_transposed ? k : m), 1), *b = random_floats(ldb * (b_transposed ? n : k), 2);
    float *c = random_floats(ldc * m, 3);
    double *wanted = malloc((size_t)(ldc * m) * sizeof *wanted);
    assert_non_null(wanted);
    for (int64_t i = 0; i < ldc * m; ++i) wanted[i] = c[i];
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double sum = add ? c[i * ldc + j] : 0.0;
            for (int64_t l = 0; l < k; ++l)
                sum +=
                    (double)a[a_transposed ? l * lda + i : i * lda + l] * b[b_transposed ? j * ldb + l : l * ldb + j];
            wanted[i * ldc + j] = sum;
        }
    multiply(&(dcpar_product){m, n, k, a, lda, a_transposed, b, ldb, b_transposed, c, ldc, add, scratch});
    assert_close("product", c, wanted, ldc * m, 1e-5);
    free(a);
    free(b);
    free(c);
    free(wanted);
}

static void products_are_right_for_all_transpositions_and_odd_sizes(void **state) {
    (void)state;
    const int64_t sizes[][3] = {{1, 1, 1},      {3, 5, 7},   {97, 65, 129}, {6, 64, 128},
                                {130, 33, 300}, {4, 200, 1}, {7, 530, 260}, {200, 16, 9}};
    const dcpar_device *device;
    for (int32_t index = 0; (device = dcpar_device_at(index)) != NULL; ++index) {
        float *scratch = random_floats(device->product_scratch, 9);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
            for (int variant = 0; variant < 8; ++variant) {
                check_product(device->multiply, scratch, sizes[i][0], sizes[i][1], sizes[i][2], variant);
                check_product(device->multiply_plain, scratch, sizes[i][0], sizes[i][1], sizes[i][2], variant);
            }
        free(scratch);
    }
}

/* ---------------------------------------------------------------------------------------------------- norms */

static void check_norm(const dcpar_device *device, int64_t rows, int64_t width) {
    const double eps = 1e-5;
    float *x = random_floats(rows * width, 1), *w = random_floats(width, 2), *dy = random_floats(rows * width, 3);
    float *y = zero_floats(rows * width), *dx = random_floats(rows * width, 4), *dw = random_floats(width, 5);
    double *want_y = calloc((size_t)(rows * width), sizeof(double));
    double *want_dx = calloc((size_t)(rows * width), sizeof(double)), *want_dw = calloc((size_t)width, sizeof(double));
    for (int64_t i = 0; i < width; ++i) want_dw[i] = dw[i];
    for (int64_t row = 0; row < rows; ++row) {
        const float *xr = x + row * width, *dyr = dy + row * width;
        double squares = 0.0, along = 0.0;
        for (int64_t i = 0; i < width; ++i) squares += (double)xr[i] * xr[i];
        const double s = 1.0 / sqrt(squares / (double)width + eps);
        for (int64_t i = 0; i < width; ++i) along += (double)xr[i] * w[i] * dyr[i];
        for (int64_t i = 0; i < width; ++i) {
            want_y[row * width + i] = s * xr[i] * w[i];
            want_dx[row * width + i] = dx[row * width + i] + s * w[i] * dyr[i];
            want_dx[row * width + i] -= s * s * s * along * xr[i] / (double)width;
            want_dw[i] += s * xr[i] * dyr[i];
        }
    }
    device->norm_forward(rows, width, eps, x, w, y);
    device->norm_backward(rows, width, eps, x, w, dy, dx, dw);
    assert_close("norm", y, want_y, rows * width, 1e-5);
    assert_close("d norm", dx, want_dx, rows * width, 1e-5);
    assert_close("d norm weight", dw, want_dw, width, 1e-5);
    device->norm_forward(rows, width, eps, x, w, x);
    assert_memory_equal(x, y, (size_t)(rows * width) * sizeof *y);
    free(x), free(w), free(dy), free(y), free(dx), free(dw), free(want_y), free(want_dx), free(want_dw);
}

static void norms_and_their_gradients_are_right(void **state) {
    (void)state;
    const dcpar_device *device;
    for (int32_t index = 0; (device = dcpar_device_at(index)) != NULL; ++index)
        for (int64_t width = 1; width <= 70; width += 23) check_norm(device, 5, width);
}

/* ------------------------------------------------------------------------------------------------- rotations */

static void rotation_turns_pairs_and_merging_is_its_transpose(void **state) {
    (void)state;
    const int64_t rows = 3, heads = 4, kv_heads = 2, dim = 6, all = heads + 2 * kv_heads;
    float *qkv = random_floats(rows * all * dim, 1), *back = zero_floats(rows * all * dim);
    float *rotation = zero_floats(rows * dim);
    float *q = zero_floats(rows * heads * dim), *k = zero_floats(rows * kv_heads * dim);
    float *v = zero_floats(rows * kv_heads * dim);
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < dim / 2; ++i) {
            rotation[row * dim + i] = cosf((float)(row + i));
            rotation[row * dim + dim / 2 + i] = sinf((float)(row + i));
        }
    const dcpar_device *device;
    for (int32_t index = 0; (device = dcpar_device_at(index)) != NULL; ++index) {
        device->rotate_split(rows, heads, kv_heads, dim, rotation, qkv, q, k, v);
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t head = 0; head < all; ++head)
                for (int64_t i = 0; i < dim; ++i) {
                    const float *from = qkv + (row * all + head) * dim;
                    const double angle = (double)(row + i % (dim / 2));
                    double wanted = from[i];
                    if (head < heads + kv_heads && i < dim / 2)
                        wanted = from[i] * cos(angle) - from[i + dim / 2] * sin(angle);
                    if (head < heads + kv_heads && i >= dim / 2)
                        wanted = from[i] * cos(angle) + from[i - dim / 2] * sin(angle);
                    const float *got = head < heads              ? q + (row * heads + head) * dim
                                       : head < heads + kv_heads ? k + (row * kv_heads + head - heads) * dim
                                                                 : v + (row * kv_heads + head - heads - kv_heads) * dim;
                    assert_close("rotation", got + i, &wanted, 1, 1e-6);
                }
        device->rotate_merge(rows, heads, kv_heads, dim, rotation, q, k, v, back); /* its transpose undoes it */
        for (int64_t i = 0; i < rows * all * dim; ++i) {
            const double wanted = qkv[i];
            assert_close("rotated back", back + i, &wanted, 1, 1e-6);
        }
    }
    free(qkv), free(back), free(rotation), free(q), free(k), free(v);
}

/* ------------------------------------------------------------------------------------------------- attention */

/* Gradients and outputs of attention, in double. */
typedef struct reference {
    double *output, *log_sum, *dq, *dk, *dv;
} reference;

static void attend_naively(const dcpar_attention *x, const float *d_output, reference *r) {
    const int64_t dim = x->head_dim, group = x->heads / x->kv_heads;
    const double scale = 1.0 / sqrt((double)dim);
    double *p = malloc((size_t)x->total * sizeof *p), *dp = malloc((size_t)x->total * sizeof *dp);
    assert_true(p != NULL && dp != NULL);
    for (int64_t s = 0; s < x->sequences; ++s)
        for (int64_t h = 0; h < x->heads; ++h)
            for (int64_t i = x->starts[s]; i < x->starts[s + 1]; ++i) {
                const int64_t qi = (i * x->heads + h) * dim;
                double sum, most = -INFINITY, along = 0.0;
                for (int64_t j = x->starts[s]; j <= i; ++j) {
                    const int64_t kj = (j * x->kv_heads + h / group) * dim;
                    p[j] = dp[j] = 0.0;
                    for (int64_t d = 0; d < dim; ++d) {
                        p[j] += scale * x->q[qi + d] * x->k[kj + d];
                        dp[j] += (double)d_output[qi + d] * x->v[kj + d];
                    }
                    most = fmax(most, p[j]);
                }
                sum = exp(p[i] - most);
                for (int64_t j = x->starts[s]; j < i; ++j) sum += exp(p[j] - most);
                r->log_sum[h * x->total + i] = most + log(sum);
                for (int64_t j = x->starts[s]; j <= i; ++j) {
                    p[j] = exp(p[j] - most) / sum;
                    along += p[j] * dp[j];
                }
                for (int64_t j = x->starts[s]; j <= i; ++j) {
                    const int64_t kj = (j * x->kv_heads + h / group) * dim;
                    const double ds = p[j] * (dp[j] - along) * scale;
                    for (int64_t d = 0; d < dim; ++d) {
                        r->output[qi + d] += p[j] * x->v[kj + d];
                        r->dq[qi + d] += ds * x->k[kj + d];
                        r->dk[kj + d] += ds * x->q[qi + d];
                        r->dv[kj + d] += p[j] * d_output[qi + d];
                    }
                }
            }
    free(p);
    free(dp);
}

static void check_attention(const dcpar_device *device, const int64_t *starts, int64_t sequences, int64_t padding,
                            int64_t heads, int64_t kv_heads, int64_t dim, float spread) {
    const int64_t total = starts[sequences] + padding, wide = total * heads * dim, narrow = total * kv_heads * dim;
    float *q = random_floats(wide, 1), *k = random_floats(narrow, 2), *v = random_floats(narrow, 3);
    float *d_output = random_floats(wide, 4), *output = random_floats(wide, 5), *dk = random_floats(narrow, 6);
    float *dv = random_floats(narrow, 7), *log_sum = zero_floats(heads * total), *delta = zero_floats(total * heads);
    float *scratch = random_floats(device->attention_scratch(dim), 8);
    for (int64_t i = 0; i < wide; ++i) q[i] *= spread;
    reference r = {calloc((size_t)wide, 8), calloc((size_t)(heads * total), 8), calloc((size_t)wide, 8),
                   calloc((size_t)narrow, 8), calloc((size_t)narrow, 8)};
    const dcpar_attention x = {total, sequences, starts, heads, kv_heads, dim, q, k, v, scratch};
    attend_naively(&x, d_output, &r);
    device->attention_forward(&x, output, log_sum);
    assert_close("attention", output, r.output, wide, 2e-5);
    for (int64_t h = 0; h < heads; ++h)
        assert_close("log sum", log_sum + h * total, r.log_sum + h * total, starts[sequences], 1e-5);
    device->row_dots(total * heads, dim, d_output, output, delta);
    device->attention_backward(&x, log_sum, d_output, delta, q, dk, dv);
    assert_close("dq", q, r.dq, wide, 1e-4);
    assert_close("dk", dk, r.dk, narrow, 1e-4);
    assert_close("dv", dv, r.dv, narrow, 1e-4);
    free(q), free(k), free(v), free(d_output), free(output), free(dk), free(dv), free(log_sum), free(delta);
    free(scratch), free(r.output), free(r.log_sum), free(r.dq), free(r.dk), free(r.dv);
}

static void attention_and_its_gradients_are_right(void **state) {
    (void)state;
    const int64_t one[] = {0, 1}, long_one[] = {0, 333}, edges[] = {0, 64, 160, 257}, many[] = {0, 3, 8, 8, 9, 16, 116};
    const dcpar_device *device;
    for (int32_t index = 0; (device = dcpar_device_at(index)) != NULL; ++index) {
        check_attention(device, one, 1, 0, 1, 1, 2, 1.0f);
        check_attention(device, one, 1, 3, 2, 1, 10, 1.0f);
        check_attention(device, long_one, 1, 0, 2, 2, 64, 1.0f);
        check_attention(device, long_one, 1, 0, 2, 2, 8, 60.0f); /* some probabilities far below the denormals */
        check_attention(device, edges, 3, 7, 4, 2, 24, 3.0f);
        check_attention(device, many, 6, 2, 6, 2, 20, 1.0f);
        check_attention(device, many, 0, 5, 2, 1, 4, 1.0f); /* nothing but padding */
    }
}

/* -------------------------------------------------------------------------------------------- SwiGLU and loss */

static void check_swiglu(const dcpar_device *device, int64_t rows, int64_t width) {
    float *gate_up = random_floats(rows * 2 * width, 1), *d = random_floats(rows * width, 2);
    float *output = zero_floats(rows * width);
    double *want = calloc((size_t)(rows * width), 8), *want_d = calloc((size_t)(rows * 2 * width), 8);
    for (int64_t i = 0; i < rows * 2 * width; ++i) gate_up[i] *= i % 5 == 0 ? 100.0f : 4.0f;
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < width; ++i) {
            const int64_t g = row * 2 * width + i, u = g + width;
            const double s = 1.0 / (1.0 + exp(-(double)gate_up[g])), dy = d[row * width + i];
            want[row * width + i] = gate_up[g] * s * gate_up[u];
            want_d[g] = dy * gate_up[u] * s * (1.0 + gate_up[g] * (1.0 - s));
            want_d[u] = dy * gate_up[g] * s;
        }
    device->swiglu_forward(rows, width, gate_up, output);
    device->swiglu_backward(rows, width, gate_up, d);
    assert_close("swiglu", output, want, rows * width, 1e-5);
    assert_close("d swiglu", gate_up, want_d, rows * 2 * width, 1e-5);
    free(gate_up), free(d), free(output), free(want), free(want_d);
}

static void swiglu_and_its_gradient_are_right(void **state) {
    (void)state;
    const dcpar_device *device;
    for (int32_t index = 0; (device = dcpar_device_at(index)) != NULL; ++index)
        for (int64_t width = 1; width <= 70; width += 23) check_swiglu(device, 3, width);
}

static void check_loss(const dcpar_device *device, int64_t vocab, const float *weight) {
    const int64_t rows = 4;
    const int32_t target[] = {0, -1, (int32_t)vocab - 1, (int32_t)vocab / 2};
    float *logits = random_floats(rows * vocab, 1);
    double *want = calloc((size_t)(rows * vocab), 8), loss = 0.0;
    for (int64_t i = 0; i < rows * vocab; ++i) logits[i] *= i % 3 == 0 ? 90.0f : 5.0f;
    for (int64_t row = 0; row < rows; ++row) {
        if (target[row] < 0) continue;
        const double scale = weight != NULL ? weight[row] : 1.0;
        double sum = exp(logits[row * vocab]);
        for (int64_t i = 1; i < vocab; ++i) sum += exp(logits[row * vocab + i]);
        for (int64_t i = 0; i < vocab; ++i)
            want[row * vocab + i] = scale * (exp(logits[row * vocab + i]) / sum - (i == target[row]));
        loss += scale * (log(sum) - logits[row * vocab + target[row]]);
    }
    const double got = device->cross_entropy(rows, vocab, logits, target, weight);
    assert_true(fabs(got - loss) <= 1e-5 * (1.0 + fabs(loss)));
    assert_close("d logits", logits, want, rows * vocab, 1e-6);
    free(logits), free(want);
}

static void cross_entropy_and_its_gradient_are_right(void **state) {
    (void)state;
    const dcpar_device *device;
    for (int32_t index = 0; (device = dcpar_device_at(index)) != NULL; ++index) {
        const int64_t sizes[] = {1, 3, 16, 61, 256};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
            check_loss(device, sizes[i], NULL);
            check_loss(device, sizes[i], (const float[]){0.25f, 7.0f, 3.0f, 0.0f});
        }
    }
}

static void a_number_that_is_none_is_not_hidden(void **state) {
    (void)state;
    const dcpar_device *device;
    for (int32_t index = 0; (device = dcpar_device_at(index)) != NULL; ++index) {
        float gate_up[4] = {NAN, 1.0f, 1.0f, 1.0f}, output[2], logits[3] = {0.0f, NAN, 1.0f};
        const int32_t target = 0;
        device->swiglu_forward(1, 2, gate_up, output);
        assert_true(isnan(output[0]) && !isnan(output[1]));
        assert_true(isnan(device->cross_entropy(1, 3, logits, &target, NULL)));
    }
}

static void the_best_table_comes_first_and_the_last_runs_anywhere(void **state) {
    (void)state;
    int32_t count = 0;
    while (dcpar_device_at(count) != NULL) ++count;
    assert_true(count >= 1);
    assert_string_equal(dcpar_device_at(count - 1)->name, "baseline");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_table_comes_first_and_the_last_runs_anywhere),
        cmocka_unit_test(products_are_right_for_all_transpositions_and_odd_sizes),
        cmocka_unit_test(norms_and_their_gradients_are_right),
        cmocka_unit_test(rotation_turns_pairs_and_merging_is_its_transpose),
        cmocka_unit_test(attention_and_its_gradients_are_right),
        cmocka_unit_test(swiglu_and_its_gradient_are_right),
        cmocka_unit_test(cross_entropy_and_its_gradient_are_right),
        cmocka_unit_test(a_number_that_is_none_is_not_hidden),
    };
    dcpar_device_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
