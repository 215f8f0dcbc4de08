/* How fast the reference model trains on one core, against what its matrix product alone reaches.
 *
 *     engine_bench [iterations] [tokens]        (default 3 iterations of one sequence of 2048 tokens)
 *
 * Hidden 512, 8 heads, 8 layers, SwiGLU 1408, vocabulary 256, fp32. An iteration is forward, backward and a step of
 * AdamW. Model FLOPs are what the mathematics needs, the same for every program:
 *
 *     6 x (weights in matrix products) x tokens  +  layers x 3 x (2 x 2 x tokens^2 / 2 x hidden)
 *
 * the second part being causal attention: two products forward, twice that backward. engine_bench.py measures PyTorch
 * with the same model and formula. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "nn/device.h"
#include "nn/transformer.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static void *allocate(int64_t bytes) {
    void *memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %lld bytes\n", (long long)bytes);
        exit(1);
    }
    memset(memory, 0, (size_t)(bytes + 63) / 64 * 64);
    return memory;
}

/* The layers' products, forward and for the input's gradient, on matrices of their own. */
typedef struct products {
    dcpar_product product[8];
    double flops;
    float *x, *y, *weight, *scratch;
} products;

static products products_create(const dcpar_model_config *c, int64_t tokens) {
    const int64_t q = (int64_t)c->num_attention_heads * c->head_dim;
    const int64_t kv = (int64_t)c->num_key_value_heads * c->head_dim;
    const int64_t shapes[4][2] = {{q + 2 * kv, c->hidden_size},
                                  {c->hidden_size, q},
                                  {2 * c->intermediate_size, c->hidden_size},
                                  {c->hidden_size, c->intermediate_size}};
    const int64_t widest = 2 * c->intermediate_size + c->hidden_size + q + 2 * kv;
    products all = {.x = allocate(tokens * widest * 4),
                    .y = allocate(tokens * widest * 4),
                    .weight = allocate(widest * widest * 4),
                    .scratch = allocate(dcpar_device_at(0)->product_scratch * 4)};
    for (int64_t i = 0; i < tokens * widest; ++i) all.x[i] = (float)dcpar_random_unit(1, 1, (uint64_t)i) - 0.5f;
    for (int64_t i = 0; i < widest * widest; ++i) all.weight[i] = (float)dcpar_random_unit(1, 2, (uint64_t)i) - 0.5f;
    for (int i = 0; i < 8; ++i) {
        const int64_t outputs = shapes[i / 2][0], inputs = shapes[i / 2][1];
        const bool forward = i % 2 == 0;
        all.product[i] = (dcpar_product){.m = tokens,
                                         .n = forward ? outputs : inputs,
                                         .k = forward ? inputs : outputs,
                                         .a = all.x,
                                         .lda = forward ? inputs : outputs,
                                         .b = all.weight,
                                         .ldb = inputs,
                                         .b_transposed = forward,
                                         .c = all.y,
                                         .ldc = forward ? outputs : inputs,
                                         .scratch = all.scratch};
        all.flops += 2.0 * (double)(tokens * outputs * inputs);
    }
    return all;
}

/* FLOP/s of all of them together, each by its best of five. */
static double products_rate(const products *all) {
    double seconds = 0.0;
    for (int i = 0; i < 8; ++i) {
        double best = INFINITY;
        for (int trial = 0; trial < 5; ++trial) {
            const double start = now();
            dcpar_device_at(0)->multiply(&all->product[i]);
            best = fmin(best, now() - start);
        }
        seconds += best;
    }
    return all->flops / seconds;
}

static void products_destroy(products *all) { free(all->x), free(all->y), free(all->weight), free(all->scratch); }

/* AdamW that also clears the gradients. */
static void step(int64_t count, float *restrict parameters, float *restrict gradients, float *restrict first,
                 float *restrict second, float scale, int number) {
    const float beta1 = 0.9f, beta2 = 0.95f, rate = 3e-4f, decay = 0.1f, eps = 1e-8f;
    const float correct1 = 1.0f / (1.0f - powf(beta1, (float)number));
    const float correct2 = 1.0f / (1.0f - powf(beta2, (float)number));
    for (int64_t i = 0; i < count; ++i) {
        const float g = scale * gradients[i];
        gradients[i] = 0.0f;
        first[i] = beta1 * first[i] + (1.0f - beta1) * g;
        second[i] = beta2 * second[i] + (1.0f - beta2) * g * g;
        parameters[i] -= rate * (first[i] * correct1 / (sqrtf(second[i] * correct2) + eps) + decay * parameters[i]);
    }
}

int main(int argc, char **argv) {
    const int iterations = argc > 1 ? atoi(argv[1]) : 3;
    const int64_t tokens = argc > 2 ? atoll(argv[2]) : 2048;
    if (iterations < 1 || iterations > 1000 || tokens < 1) {
        fprintf(stderr, "usage: %s [iterations] [tokens]\n", argv[0]);
        return 2;
    }
    const dcpar_model_config config = {.hidden_size = 512,
                                       .intermediate_size = 1408,
                                       .vocab_size = 256,
                                       .max_position_embeddings = 2048,
                                       .num_hidden_layers = 8,
                                       .num_attention_heads = 8,
                                       .num_key_value_heads = 8,
                                       .head_dim = 64,
                                       .rope_theta = 10000.0,
                                       .rms_norm_eps = 1e-5};
    const int64_t count = dcpar_transformer_parameter_count(&config);
    float *parameters = allocate(count * 4), *gradients = allocate(count * 4);
    float *first = allocate(count * 4), *second = allocate(count * 4);
    int32_t *input = allocate((tokens + 1) * 4), *position = allocate(tokens * 4);
    const int64_t starts[2] = {0, tokens};
    for (int64_t i = 0; i <= tokens; ++i)
        input[i] = (int32_t)(dcpar_random(1, 0, (uint64_t)i) % (uint64_t)config.vocab_size);
    for (int64_t i = 0; i < tokens; ++i) position[i] = (int32_t)i;
    const dcpar_tokens row = {tokens, 1, starts, input, input + 1, position, NULL};

    dcpar_error error;
    dcpar_arena *arena = NULL;
    dcpar_transformer *model = NULL;
    if (dcpar_arena_create(INT64_C(1) << 40, &arena, &error) != DCPAR_OK ||
        dcpar_transformer_create(&config, parameters, gradients, arena, &model, &error) != DCPAR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    dcpar_transformer_initialise(model, 1);
    dcpar_device_threads(1);

    static double seconds[1000], run_seconds[1000], rates[1000];
    products all = products_create(&config, tokens);
    products_rate(&all);
    double loss = 0.0;
    for (int i = -1; i < iterations; ++i) { /* the first only warms up */
        const double start = now();
        int64_t loss_tokens = 0;
        if (dcpar_transformer_run(model, NULL, &row, 0, &loss, &loss_tokens, &error) != DCPAR_OK) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        const double middle = now();
        step(count, parameters, gradients, first, second, 1.0f / (float)loss_tokens, i + 2);
        if (i < 0) continue;
        run_seconds[i] = middle - start;
        seconds[i] = now() - start;
        rates[i] = products_rate(&all); /* in turn, since machines change their speed */
    }
    const double hidden = (double)config.hidden_size, layers = config.num_hidden_layers, t = (double)tokens;
    const double embedding = (double)config.vocab_size * hidden, norms = (2.0 * layers + 1.0) * hidden;
    const double flops = 6.0 * ((double)count - embedding - norms) * t + layers * 3.0 * (2.0 * t * t * hidden);
    const double whole = median(seconds, iterations), rate = median(rates, iterations);
    printf("device                %s\n", dcpar_device_at(0)->name);
    printf("loss                  %.4f\n", loss / t);
    printf("model_gflop           %.1f\n", flops * 1e-9);
    printf("product_gflops        %.1f\n", rate * 1e-9);
    printf("forward_backward_s    %.4f\n", median(run_seconds, iterations));
    printf("iteration_s           %.4f\n", whole);
    printf("iteration_gflops      %.1f\n", flops / whole * 1e-9);
    printf("ratio                 %.3f\n", flops / whole / rate);
    printf("activations_mb        %.1f\n", (double)dcpar_arena_peak(arena) * 1e-6);
    products_destroy(&all);
    dcpar_transformer_destroy(model);
    dcpar_arena_destroy(arena);
    free(parameters), free(gradients), free(first), free(second), free(input), free(position);
    return 0;
}
