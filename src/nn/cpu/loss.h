/* Cross-entropy over a vocabulary. */

/* logits - largest become exponentials; returns their sum. */
ALWAYS_INLINE float exponentials(int64_t count, float *x, float largest) {
    vector sum = zeros();
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const vector power = exp_negative(load(x + i) - largest);
        store(x + i, power);
        sum += power;
    }
    float total = sum_lanes(sum);
    if (i < count) {
        vector power = exp_negative(load_some(x + i, count - i) - largest);
        store_some(x + i, power, count - i);
        for (int64_t lane = 0; lane < count - i; ++lane) total += power[lane];
    }
    return total;
}

ALWAYS_INLINE float largest_of(int64_t count, const float *x) {
    float largest = x[0];
    int64_t i = 0;
    if (count >= LANES) {
        vector most = load(x);
        for (i = LANES; i + LANES <= count; i += LANES) most = larger(load(x + i), most);
        largest = largest_lane(most);
    }
    for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static double cross_entropy(int64_t rows, int64_t vocab, float *logits, const int32_t *target, const float *weight) {
    double loss = 0.0;
    for (int64_t row = 0; row < rows; ++row) {
        float *x = logits + row * vocab;
        if (target[row] < 0) {
            memset(x, 0, (size_t)vocab * sizeof *x);
            continue;
        }
        const float largest = largest_of(vocab, x), right = x[target[row]];
        const float sum = exponentials(vocab, x, largest);
        const float scale = weight != NULL ? weight[row] : 1.0f, share = scale / sum;
        loss += (double)scale * (log((double)sum) + (double)largest - (double)right);
        for (int64_t i = 0; i < vocab; ++i) x[i] *= share;
        x[target[row]] -= scale;
    }
    return loss;
}
