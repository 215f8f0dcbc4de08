/* Your own model and your own loop, with dcpar: the ten lines that plan and step end in "dcpar". Around them stand
 * what C asks for, declarations and clean-up, and the options.
 *
 *     cc own_model.c $(pkg-config --cflags --libs dcpar) -lm && ./a.out
 *
 * The model predicts each byte from the one before it: a table of 256 x 256 scores. Data are made up. It runs on two
 * ranks that are threads; with dcpar_comm_run_mpi in place of dcpar_comm_run_local, on as many machines as MPI has. */
#include <dcpar_run.h> /* dcpar */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define VOCABULARY 256
#define PARAMETERS (VOCABULARY * VOCABULARY)
#define SEQUENCES 400

static int64_t lengths[SEQUENCES];

static void make_lengths(void) {
    for (int i = 0; i < SEQUENCES; ++i) lengths[i] = 20 + (int64_t)exp(rand() / (double)RAND_MAX * 9);
}

/* Byte `place` of sequence `row`: it mostly counts up. */
static int byte_at(int64_t row, int64_t place) { return (int)((row + place * (1 + row % 2)) % VOCABULARY); }

/* Adds the gradient of the SUM of losses of tokens first .. last - 1 of a sequence; returns that sum. */
static double forward_backward(const float *scores, float *gradient, int64_t row, int64_t first, int64_t last) {
    double loss = 0;
    for (int64_t place = first; place < last; ++place) {
        const int from = byte_at(row, place) * VOCABULARY, to = byte_at(row, place + 1);
        double total = 0;
        for (int i = 0; i < VOCABULARY; ++i) total += exp(scores[from + i]);
        for (int i = 0; i < VOCABULARY; ++i) gradient[from + i] += (float)(exp(scores[from + i]) / total);
        gradient[from + to] -= 1;
        loss += log(total) - scores[from + to];
    }
    return loss;
}

static dcpar_status train(dcpar_comm *world, void *unused, dcpar_error *error) {
    (void)unused;
    /* One measured point is a profile when costs grow with tokens; with attention: dcpar_profile_measure. */
    const dcpar_profile_info info = {.model = "bigram", .layers = 1, .memory = 1 << 20}; /* dcpar */
    const dcpar_profile_row row = {1000, 1, 1, true, 1e-3, 1e-3, 1e-4, 4000, 4000, 1000}; /* dcpar */
    dcpar_planner_options planning = {.size = sizeof planning, .world = 2, .policy = "buddy"};
    dcpar_engine_options stepping = DCPAR_ENGINE_OPTIONS_INIT;
    dcpar_profile *profile = NULL;
    dcpar_planner *planner = NULL;
    dcpar_engine *engine = NULL;
    dcpar_turn turn;
    dcpar_result result;
    planning.tokens_per_iteration = 50000;
    stepping.learning_rate = 0.1;
    dcpar_status status = dcpar_profile_create(&info, &row, 1, &profile, error); /* dcpar */
    if (!status) status = dcpar_planner_create(profile, lengths, SEQUENCES, &planning, &planner, error); /* dcpar */
    if (!status) status = dcpar_engine_create(world, planner, PARAMETERS, &stepping, &engine, error); /* dcpar */
    for (int epoch = 0; epoch < 3 && status == DCPAR_OK; ++epoch) {
        dcpar_planner_start_epoch(planner, epoch);
        while ((status = dcpar_engine_begin(engine, error)) == DCPAR_OK) { /* dcpar */
            while (dcpar_engine_turn(engine, &turn, error)) { /* dcpar */
                double loss = 0, tokens = 0;
                for (int64_t i = 0; i < turn.microbatch->row_count; ++i) {
                    const int64_t sequence = turn.microbatch->rows[i], predicted = lengths[sequence] - 1;
                    loss += forward_backward(dcpar_engine_parameters(engine), dcpar_engine_gradients(engine), sequence,
                                             0, predicted);
                    tokens += (double)predicted;
                }
                dcpar_engine_add(engine, loss, tokens); /* dcpar */
            }
            if ((status = dcpar_engine_step(engine, &result, error)) != DCPAR_OK) break; /* dcpar */
            if (dcpar_comm_rank(world) == 0)
                printf("iteration %2lld  loss %.3f  idle %4.1f %%\n", (long long)result.iteration, result.loss,
                       100 * result.idle_ratio);
        }
        if (status == DCPAR_END) status = DCPAR_OK;
    }
    dcpar_engine_destroy(engine);
    dcpar_planner_destroy(planner);
    dcpar_profile_destroy(profile);
    return status;
}

int main(void) {
    dcpar_error error;
    make_lengths();
    if (dcpar_comm_run_local(2, train, NULL, &error) == DCPAR_OK) return 0;
    fprintf(stderr, "%s\n", error.text);
    return 1;
}
