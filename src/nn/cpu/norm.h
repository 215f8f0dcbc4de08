/* RMSNorm, and dot products of rows. */

ALWAYS_INLINE float dot(int64_t width, const float *a, const float *b) {
    vector sum = zeros();
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) sum += load(a + i) * load(b + i);
    if (i < width) sum += load_some(a + i, width - i) * load_some(b + i, width - i);
    return sum_lanes(sum);
}

static void row_dots(int64_t rows, int64_t width, const float *a, const float *b, float *sums) {
    for (int64_t row = 0; row < rows; ++row) sums[row] = dot(width, a + row * width, b + row * width);
}

ALWAYS_INLINE float inverse_rms(int64_t width, double eps, const float *x) {
    return 1.0f / sqrtf(dot(width, x, x) / (float)width + (float)eps);
}

static void norm_forward(int64_t rows, int64_t width, double eps, const float *input, const float *weight,
                         float *output) {
    for (int64_t row = 0; row < rows; ++row) {
        const float *x = input + row * width;
        float *y = output + row * width;
        const float scale = inverse_rms(width, eps, x);
        for (int64_t i = 0; i < width; ++i) y[i] = x[i] * scale * weight[i];
    }
}

/* With y = s x w and s = 1 / rms(x):  dx = s (w dy) - x s^3 mean(x w dy),  dw = sum over rows of s x dy. */
static void norm_backward(int64_t rows, int64_t width, double eps, const float *restrict input,
                          const float *restrict weight, const float *restrict d_output, float *restrict d_input,
                          float *restrict d_weight) {
    for (int64_t row = 0; row < rows; ++row) {
        const float *x = input + row * width, *dy = d_output + row * width;
        float *dx = d_input + row * width;
        const float scale = inverse_rms(width, eps, x);
        vector sum = zeros();
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) sum += load(x + i) * load(weight + i) * load(dy + i);
        if (i < width)
            sum += load_some(x + i, width - i) * load_some(weight + i, width - i) * load_some(dy + i, width - i);
        const float along = scale * scale * scale * sum_lanes(sum) / (float)width;
        for (i = 0; i < width; ++i) {
            dx[i] += scale * weight[i] * dy[i] - along * x[i];
            d_weight[i] += scale * x[i] * dy[i];
        }
    }
}
