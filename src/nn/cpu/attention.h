/* Causal attention in blocks, forward and backward, that never stores an s x s matrix (after Dao et al.,
 * "FlashAttention", 2022).
 *
 * Scores are kept transposed, [keys, queries], with queries side by side in the lanes of vectors: the softmax's
 * maxima and sums are then vertical operations, keys and values are read where they lie, one number at a time, and
 * head_dim need not be a multiple of anything. */

enum { QUERY_BLOCK = 64, KEY_BLOCK = 96 };

/* One head of one sequence. Rows of q, k, v are `*_stride` floats apart. */
typedef struct attention_head {
    int64_t length, dim, q_stride, kv_stride;
    const float *q, *k, *v;
    float scale;
} attention_head;

static int64_t round_to_lanes(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

/* The block buffers below, one after the other. */
typedef struct attention_buffers {
    float *q_columns;  /* [dim, QUERY_BLOCK] scaled queries, transposed */
    float *o_columns;  /* [dim, QUERY_BLOCK] outputs, or gradients of queries, transposed */
    float *scores;     /* [KEY_BLOCK, QUERY_BLOCK] */
    float *d_scores;   /* [KEY_BLOCK, QUERY_BLOCK] */
    float *do_columns; /* [dim, QUERY_BLOCK] gradients of outputs, transposed */
    float *q_rows;     /* [QUERY_BLOCK, dim rounded up to lanes] scaled queries */
    float *do_rows;    /* likewise, gradients of outputs */
    float *d_kv;       /* [KEY_BLOCK, dim rounded up to lanes] */
} attention_buffers;

static int64_t carve_attention(int64_t dim, float *base, attention_buffers *out) {
    const int64_t columns = dim * QUERY_BLOCK, square = KEY_BLOCK * QUERY_BLOCK;
    const int64_t padded = round_to_lanes(dim);
    const int64_t sizes[8] = {
        columns, columns, square, square, columns, QUERY_BLOCK * padded, QUERY_BLOCK * padded, KEY_BLOCK * padded};
    float **places[8] = {&out->q_columns,  &out->o_columns, &out->scores,  &out->d_scores,
                         &out->do_columns, &out->q_rows,    &out->do_rows, &out->d_kv};
    int64_t used = 0;
    for (int i = 0; i < 8; ++i) {
        if (base != NULL) *places[i] = base + used;
        used += (sizes[i] + 15) / 16 * 16;
    }
    return used;
}

static int64_t attention_scratch(int64_t head_dim) {
    attention_buffers unused;
    return carve_attention(head_dim, NULL, &unused);
}

/* to[d, lane] = scale * from[lane, d], zeros in lanes beyond `count`. */
static void transpose_in(int64_t count, int64_t lanes, int64_t dim, const float *from, int64_t stride, float scale,
                         float *to) {
    for (int64_t d = 0; d < dim; ++d)
        for (int64_t lane = 0; lane < lanes; ++lane)
            to[d * QUERY_BLOCK + lane] = lane < count ? scale * from[lane * stride + d] : 0.0f;
}

/* to[row, d] = scale * from[row, d], zeros beyond `dim`. */
static void copy_rows(int64_t count, int64_t dim, const float *from, int64_t stride, float scale, float *to) {
    const int64_t padded = round_to_lanes(dim);
    for (int64_t row = 0; row < count; ++row)
        for (int64_t d = 0; d < padded; ++d) to[row * padded + d] = d < dim ? scale * from[row * stride + d] : 0.0f;
}

/* A key later than the query has no part in it: minus infinity, whose exponential is exactly zero. Keys
 * first_key .. + keys against queries first_query ... */
static void mask_later_keys(int64_t keys, int64_t lanes, int64_t first_key, int64_t first_query, float *scores) {
    for (int64_t key = 0; key < keys; ++key) {
        const int64_t hidden = at_most(first_key + key - first_query, lanes);
        for (int64_t lane = 0; lane < hidden; ++lane) scores[key * QUERY_BLOCK + lane] = -INFINITY;
    }
}

/* Scores of one vector of queries become exponentials; `most` and `sum` follow. Returns what older sums and outputs
 * have to be multiplied by. */
ALWAYS_INLINE vector softmax_lanes(int64_t keys, float *scores, vector *most, vector *sum) {
    vector block_most = *most;
    for (int64_t key = 0; key < keys; ++key) block_most = larger(load(scores + key * QUERY_BLOCK), block_most);
    const vector older = exp_negative(*most - block_most);
    vector block_sum = zeros();
    for (int64_t key = 0; key < keys; ++key) {
        const vector power = exp_negative(load(scores + key * QUERY_BLOCK) - block_most);
        store(scores + key * QUERY_BLOCK, power);
        block_sum += power;
    }
    *most = block_most;
    *sum = *sum * older + block_sum;
    return older;
}

static void attend_block(const attention_head *head, const attention_buffers *space, int64_t first, float *output,
                         int64_t output_stride, float *log_sum) {
    const int64_t queries = at_most(head->length - first, QUERY_BLOCK), lanes = round_to_lanes(queries);
    const int64_t dim = head->dim;
    _Alignas(64) float most[QUERY_BLOCK], sum[QUERY_BLOCK];
    for (int64_t lane = 0; lane < lanes; ++lane) {
        most[lane] = -INFINITY;
        sum[lane] = 0.0f;
    }
    transpose_in(queries, lanes, dim, head->q + first * head->q_stride, head->q_stride, head->scale, space->q_columns);
    for (int64_t key = 0; key < first + queries; key += KEY_BLOCK) {
        const int64_t keys = at_most(first + queries - key, KEY_BLOCK);
        multiply_block(keys, lanes, dim, head->k + key * head->kv_stride, head->kv_stride, 1, space->q_columns,
                       QUERY_BLOCK, space->scores, QUERY_BLOCK, false);
        if (key + keys - 1 > first) mask_later_keys(keys, lanes, key, first, space->scores);
        for (int64_t lane = 0; lane < lanes; lane += LANES) {
            vector lane_most = load(most + lane), lane_sum = load(sum + lane);
            const vector older = softmax_lanes(keys, space->scores + lane, &lane_most, &lane_sum);
            store(most + lane, lane_most);
            store(sum + lane, lane_sum);
            for (int64_t d = 0; key > 0 && d < dim; ++d) {
                float *o = space->o_columns + d * QUERY_BLOCK + lane;
                store(o, load(o) * older);
            }
        }
        multiply_block(dim, lanes, keys, head->v + key * head->kv_stride, 1, head->kv_stride, space->scores,
                       QUERY_BLOCK, space->o_columns, QUERY_BLOCK, key > 0);
    }
    for (int64_t query = 0; query < queries; ++query) {
        const float share = 1.0f / sum[query];
        for (int64_t d = 0; d < dim; ++d)
            output[query * output_stride + d] = space->o_columns[d * QUERY_BLOCK + query] * share;
        log_sum[query] = most[query] + logf(sum[query]);
    }
}

/* One head of one sequence: `tokens` from `start` on. */
static attention_head head_at(const dcpar_attention *x, int64_t start, int64_t length, int64_t head) {
    const int64_t kv_head = head / (x->heads / x->kv_heads);
    const int64_t q_stride = x->heads * x->head_dim, kv_stride = x->kv_heads * x->head_dim;
    return (attention_head){
        .length = length,
        .dim = x->head_dim,
        .q_stride = q_stride,
        .kv_stride = kv_stride,
        .q = x->q + start * q_stride + head * x->head_dim,
        .k = x->k + start * kv_stride + kv_head * x->head_dim,
        .v = x->v + start * kv_stride + kv_head * x->head_dim,
        .scale = 1.0f / sqrtf((float)x->head_dim),
    };
}

static void zero_padding(const dcpar_attention *x, int64_t heads, float *rows) {
    const int64_t end = x->starts[x->sequences], width = heads * x->head_dim;
    memset(rows + end * width, 0, (size_t)((x->total - end) * width) * sizeof *rows);
}

static void attention_forward(const dcpar_attention *x, float *output, float *log_sum) {
    attention_buffers space;
    carve_attention(x->head_dim, x->scratch, &space);
    for (int64_t sequence = 0; sequence < x->sequences; ++sequence) {
        const int64_t start = x->starts[sequence], length = x->starts[sequence + 1] - start;
        for (int64_t h = 0; h < x->heads; ++h) {
            const attention_head head = head_at(x, start, length, h);
            for (int64_t first = 0; first < length; first += QUERY_BLOCK)
                attend_block(&head, &space, first, output + (start + first) * head.q_stride + h * x->head_dim,
                             head.q_stride, log_sum + h * x->total + start + first);
        }
    }
    zero_padding(x, x->heads, output);
}

/* Gradients of one block of queries; keys and values gather theirs in dk and dv. */
typedef struct attention_gradients {
    const float *log_sum, *d_output, *delta; /* from this head's first token on; delta is `delta_stride` apart */
    int64_t delta_stride;
    float *dq, *dk, *dv; /* strides as of q, k and v */
} attention_gradients;

/* scores become probabilities P, and d_scores P (d_scores - delta). */
ALWAYS_INLINE void probability_gradients(int64_t keys, float *scores, float *d_scores, vector log_sum, vector delta) {
    for (int64_t key = 0; key < keys; ++key) {
        float *p = scores + key * QUERY_BLOCK, *d = d_scores + key * QUERY_BLOCK;
        const vector probability = exp_negative(load(p) - log_sum);
        store(p, probability);
        store(d, probability * (load(d) - delta));
    }
}

/* to[key, d] += sum over queries of weights[key, query] * rows[query, d]: straight into the gradient where whole
 * vectors fit its rows, by way of `sum` where they do not. */
static void add_weighted_rows(int64_t keys, int64_t queries, int64_t dim, const float *weights, const float *rows,
                              float *sum, float *to, int64_t stride) {
    const int64_t padded = round_to_lanes(dim);
    if (padded == dim) {
        multiply_block(keys, dim, queries, weights, QUERY_BLOCK, 1, rows, dim, to, stride, true);
        return;
    }
    multiply_block(keys, padded, queries, weights, QUERY_BLOCK, 1, rows, padded, sum, padded, false);
    for (int64_t key = 0; key < keys; ++key)
        for (int64_t d = 0; d < dim; ++d) to[key * stride + d] += sum[key * padded + d];
}

static void attend_block_backward(const attention_head *head, const attention_buffers *space, int64_t first,
                                  const attention_gradients *g) {
    const int64_t queries = at_most(head->length - first, QUERY_BLOCK), lanes = round_to_lanes(queries);
    const int64_t dim = head->dim;
    const float *q = head->q + first * head->q_stride, *d_output = g->d_output + first * head->q_stride;
    _Alignas(64) float log_sum[QUERY_BLOCK], delta[QUERY_BLOCK];
    for (int64_t lane = 0; lane < lanes; ++lane) { /* unused lanes get probability zero */
        log_sum[lane] = lane < queries ? g->log_sum[first + lane] : INFINITY;
        delta[lane] = lane < queries ? g->delta[(first + lane) * g->delta_stride] : 0.0f;
    }
    transpose_in(queries, lanes, dim, q, head->q_stride, head->scale, space->q_columns);
    transpose_in(queries, lanes, dim, d_output, head->q_stride, 1.0f, space->do_columns);
    copy_rows(queries, dim, q, head->q_stride, head->scale, space->q_rows);
    copy_rows(queries, dim, d_output, head->q_stride, 1.0f, space->do_rows);
    for (int64_t key = 0; key < first + queries; key += KEY_BLOCK) {
        const int64_t keys = at_most(first + queries - key, KEY_BLOCK);
        const float *k = head->k + key * head->kv_stride, *v = head->v + key * head->kv_stride;
        multiply_block(keys, lanes, dim, k, head->kv_stride, 1, space->q_columns, QUERY_BLOCK, space->scores,
                       QUERY_BLOCK, false);
        multiply_block(keys, lanes, dim, v, head->kv_stride, 1, space->do_columns, QUERY_BLOCK, space->d_scores,
                       QUERY_BLOCK, false);
        if (key + keys - 1 > first) mask_later_keys(keys, lanes, key, first, space->scores);
        for (int64_t lane = 0; lane < lanes; lane += LANES)
            probability_gradients(keys, space->scores + lane, space->d_scores + lane, load(log_sum + lane),
                                  load(delta + lane));
        add_weighted_rows(keys, queries, dim, space->scores, space->do_rows, space->d_kv, g->dv + key * head->kv_stride,
                          head->kv_stride);
        add_weighted_rows(keys, queries, dim, space->d_scores, space->q_rows, space->d_kv,
                          g->dk + key * head->kv_stride, head->kv_stride);
        multiply_block(dim, lanes, keys, k, 1, head->kv_stride, space->d_scores, QUERY_BLOCK, space->o_columns,
                       QUERY_BLOCK, key > 0);
    }
    for (int64_t query = 0; query < queries; ++query)
        for (int64_t d = 0; d < dim; ++d)
            g->dq[(first + query) * head->q_stride + d] = head->scale * space->o_columns[d * QUERY_BLOCK + query];
}

static void attention_backward(const dcpar_attention *x, const float *log_sum, const float *d_output,
                               const float *delta, float *dq, float *dk, float *dv) {
    attention_buffers space;
    carve_attention(x->head_dim, x->scratch, &space);
    const size_t kv_bytes = (size_t)(x->total * x->kv_heads * x->head_dim) * sizeof *dk;
    memset(dk, 0, kv_bytes);
    memset(dv, 0, kv_bytes);
    for (int64_t sequence = 0; sequence < x->sequences; ++sequence) {
        const int64_t start = x->starts[sequence], length = x->starts[sequence + 1] - start;
        for (int64_t h = 0; h < x->heads; ++h) {
            const attention_head head = head_at(x, start, length, h);
            const int64_t q_offset = head.q - x->q, kv_offset = head.k - x->k;
            const attention_gradients gradients = {
                .log_sum = log_sum + h * x->total + start,
                .d_output = d_output + q_offset,
                .delta = delta + start * x->heads + h,
                .delta_stride = x->heads,
                .dq = dq + q_offset,
                .dk = dk + kv_offset,
                .dv = dv + kv_offset,
            };
            for (int64_t first = 0; first < length; first += QUERY_BLOCK)
                attend_block_backward(&head, &space, first, &gradients);
        }
    }
    zero_padding(x, x->heads, dq);
}
