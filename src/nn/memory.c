#include "nn/memory.h"

#include "base/arena.h"

/* Logits of at most this many tokens exist at one time; fewer, but at least LEAST_CHUNK, when the vocabulary is so
 * large that they would pass LOGITS_TARGET floats. */
enum { MOST_CHUNK = 1024, LEAST_CHUNK = 128, LOGITS_TARGET = 1 << 22 };

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

static int64_t chunk_of(int64_t vocab, int64_t local) {
    const int64_t wanted = LOGITS_TARGET / vocab;
    const int64_t chunk = wanted < LEAST_CHUNK ? LEAST_CHUNK : at_most(wanted, MOST_CHUNK);
    return at_most(chunk, local);
}

dcpar_sizes dcpar_sizes_of(const dcpar_model_config *config, const dcpar_device *device, int64_t total, int32_t ranks) {
    return (dcpar_sizes){
        .config = config,
        .total = total,
        .local = total / ranks,
        .ranks = ranks,
        .heads = config->num_attention_heads / ranks,
        .kv_heads = config->num_key_value_heads / ranks,
        .chunk = chunk_of(config->vocab_size, total / ranks),
        .product_scratch = device->product_scratch,
        .attention_scratch = device->attention_scratch(config->head_dim),
    };
}

/* Hands out aligned pieces of `base`, or only counts when it is NULL. */
typedef struct carver {
    unsigned char *base;
    int64_t used, most;
} carver;

static int64_t aligned(int64_t bytes) {
    return (bytes + DCPAR_ARENA_ALIGNMENT - 1) / DCPAR_ARENA_ALIGNMENT * DCPAR_ARENA_ALIGNMENT;
}

static float *carve(carver *c, int64_t floats) {
    float *piece = c->base == NULL ? NULL : (float *)(void *)(c->base + c->used);
    c->used += aligned(floats * (int64_t)sizeof(float));
    if (c->used > c->most) c->most = c->used;
    return piece;
}

int64_t dcpar_layer_layout(const dcpar_sizes *s, void *base, dcpar_layer_activations *out) {
    const int64_t head_dim = s->config->head_dim;
    carver c = {.base = base};
    out->q = carve(&c, s->total * s->heads * head_dim);
    out->k = carve(&c, s->total * s->kv_heads * head_dim);
    out->v = carve(&c, s->total * s->kv_heads * head_dim);
    out->log_sum = carve(&c, s->heads * s->total);
    out->attended = carve(&c, s->local * s->config->num_attention_heads * head_dim);
    out->middle = carve(&c, s->local * s->config->hidden_size);
    out->gate_up = carve(&c, s->local * 2 * s->config->intermediate_size);
    return c.most;
}

int64_t dcpar_workspace_layout(const dcpar_sizes *s, void *base, dcpar_workspace *out) {
    const dcpar_model_config *config = s->config;
    const int64_t q = s->local * config->num_attention_heads * config->head_dim;
    const int64_t kv = s->local * config->num_key_value_heads * config->head_dim;
    const bool exchange = s->ranks > 1;
    carver c = {.base = base};
    *out = (dcpar_workspace){0};
    out->stream = carve(&c, s->local * config->hidden_size);
    out->normed = carve(&c, s->local * config->hidden_size);
    out->rotation = carve(&c, s->local * config->head_dim);
    out->scratch = carve(&c, s->product_scratch);
    const int64_t phases = c.used;

    out->attention.scratch = carve(&c, s->attention_scratch);
    if (exchange) {
        out->attention.q = carve(&c, q);
        out->attention.k = carve(&c, kv);
        out->attention.v = carve(&c, kv);
    }
    out->attention.qkv = carve(&c, q + 2 * kv);
    if (exchange) out->attention.attended = out->attention.qkv;

    c.used = phases;
    out->swiglu.product = carve(&c, s->local * config->intermediate_size);

    c.used = phases;
    out->attention_backward.scratch = carve(&c, s->attention_scratch);
    out->attention_backward.d_attended = carve(&c, q);
    out->attention_backward.delta = carve(&c, s->local * config->num_attention_heads);
    if (exchange) {
        out->attention_backward.d_attended_heads = carve(&c, q);
        out->attention_backward.delta_heads = carve(&c, s->total * s->heads);
        out->attention_backward.dq_tokens = out->attention_backward.d_attended;
        out->attention_backward.dk_tokens = carve(&c, kv);
        out->attention_backward.dv_tokens = carve(&c, kv);
    }
    out->attention_backward.dk = carve(&c, kv);
    out->attention_backward.dv = carve(&c, kv);
    out->attention_backward.dqkv = carve(&c, q + 2 * kv);

    c.used = phases;
    out->loss.logits = carve(&c, s->chunk * config->vocab_size);
    out->loss.d_stream = carve(&c, s->chunk * config->hidden_size);
    return c.most;
}

/* What dcpar_ulysses_* takes from the arena for a moment: a copy of what it sends, at most all query heads. */
static int64_t exchange_scratch(const dcpar_sizes *s) {
    const int64_t floats = s->local * s->config->num_attention_heads * s->config->head_dim;
    return s->ranks > 1 ? aligned(floats * (int64_t)sizeof(float)) : 0;
}

dcpar_memory_need dcpar_memory_of(const dcpar_sizes *shape) {
    dcpar_layer_activations activations;
    dcpar_workspace workspace;
    return (dcpar_memory_need){
        .layer = dcpar_layer_layout(shape, NULL, &activations),
        .input = aligned(shape->local * shape->config->hidden_size * (int64_t)sizeof(float)),
        .constant = dcpar_workspace_layout(shape, NULL, &workspace) + exchange_scratch(shape),
    };
}

int64_t dcpar_memory_peak(const dcpar_memory_need *need, int64_t layers, int64_t recompute) {
    const int64_t kept = recompute < layers ? layers - recompute : 1;
    return layers * need->input + kept * need->layer + need->constant;
}
