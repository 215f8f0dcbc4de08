/* Rotary positions: element i of a head and element i + head_dim / 2 are turned together. */

/* `direction` 1 turns by the angles, -1 turns back. */
ALWAYS_INLINE void rotate_head(int64_t half, const float *restrict rotation, float direction,
                               const float *restrict from, float *restrict to) {
    const float *cosine = rotation, *sine = rotation + half;
    for (int64_t i = 0; i < half; ++i) {
        const float a = from[i], b = from[i + half], turn = direction * sine[i];
        to[i] = a * cosine[i] - b * turn;
        to[i + half] = b * cosine[i] + a * turn;
    }
}

static void rotate_split(int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim, const float *rotation,
                         const float *qkv, float *q, float *k, float *v) {
    for (int64_t row = 0; row < rows; ++row, rotation += head_dim) {
        for (int64_t head = 0; head < heads; ++head, q += head_dim, qkv += head_dim)
            rotate_head(head_dim / 2, rotation, 1.0f, qkv, q);
        for (int64_t head = 0; head < kv_heads; ++head, k += head_dim, qkv += head_dim)
            rotate_head(head_dim / 2, rotation, 1.0f, qkv, k);
        memcpy(v, qkv, (size_t)(kv_heads * head_dim) * sizeof *v);
        v += kv_heads * head_dim;
        qkv += kv_heads * head_dim;
    }
}

static void rotate_merge(int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim, const float *rotation,
                         const float *dq, const float *dk, const float *dv, float *dqkv) {
    for (int64_t row = 0; row < rows; ++row, rotation += head_dim) {
        for (int64_t head = 0; head < heads; ++head, dq += head_dim, dqkv += head_dim)
            rotate_head(head_dim / 2, rotation, -1.0f, dq, dqkv);
        for (int64_t head = 0; head < kv_heads; ++head, dk += head_dim, dqkv += head_dim)
            rotate_head(head_dim / 2, rotation, -1.0f, dk, dqkv);
        memcpy(dqkv, dv, (size_t)(kv_heads * head_dim) * sizeof *dqkv);
        dv += kv_heads * head_dim;
        dqkv += kv_heads * head_dim;
    }
}
