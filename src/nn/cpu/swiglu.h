/* SwiGLU: silu(gate) * up, with silu(x) = x / (1 + exp(-x)). */

/* The exponential's argument is never positive, so nothing overflows. */
ALWAYS_INLINE vector sigmoid(vector x) {
    const bits negative = (bits)(x < 0.0f);
    const vector power = exp_negative(pick(negative, x, -x));
    return pick(negative, power, 1.0f + zeros()) / (1.0f + power);
}

ALWAYS_INLINE vector swiglu(vector gate, vector up) { return gate * sigmoid(gate) * up; }

static void swiglu_forward(int64_t rows, int64_t width, const float *gate_up, float *output) {
    for (int64_t row = 0; row < rows; ++row) {
        const float *gate = gate_up + row * 2 * width, *up = gate + width;
        float *out = output + row * width;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) store(out + i, swiglu(load(gate + i), load(up + i)));
        const int64_t rest = width - i;
        if (rest > 0) store_some(out + i, swiglu(load_some(gate + i, rest), load_some(up + i, rest)), rest);
    }
}

/* With s = sigmoid(gate): d_up = d gate s,  d_gate = d up s (1 + gate (1 - s)). */
ALWAYS_INLINE void swiglu_gradient(vector *gate, vector *up, vector d) {
    const vector s = sigmoid(*gate), silu = *gate * s;
    const vector d_gate = d * *up * (s + silu * (1.0f - s));
    *up = d * silu;
    *gate = d_gate;
}

static void swiglu_backward(int64_t rows, int64_t width, float *gate_up, const float *d_output) {
    for (int64_t row = 0; row < rows; ++row) {
        float *gate_row = gate_up + row * 2 * width, *up_row = gate_row + width;
        const float *d = d_output + row * width;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            vector gate = load(gate_row + i), up = load(up_row + i);
            swiglu_gradient(&gate, &up, load(d + i));
            store(gate_row + i, gate);
            store(up_row + i, up);
        }
        const int64_t rest = width - i;
        if (rest > 0) {
            vector gate = load_some(gate_row + i, rest), up = load_some(up_row + i, rest);
            swiglu_gradient(&gate, &up, load_some(d + i, rest));
            store_some(gate_row + i, gate, rest);
            store_some(up_row + i, up, rest);
        }
    }
}
