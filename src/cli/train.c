/* dcpar train: train the reference model under one or several policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "train/train.h"

typedef struct train_arguments {
    const char *data, *model_name, *profile_path, *policies, *out, *resume, *weigh;
    cli_planning planning;
    int64_t ranks;
} train_arguments;

/* The command as it was typed, for the report. Words with blanks are not quoted: it is for reading. */
static char *join_words(int count, char **words) {
    size_t size = sizeof "dcpar";
    for (int i = 0; i < count; ++i) size += strlen(words[i]) + 1;
    char *text = malloc(size);
    if (text == NULL) return NULL;
    strcpy(text, "dcpar");
    for (int i = 0; i < count; ++i) strcat(strcat(text, " "), words[i]);
    return text;
}

static dcpar_status check_policies(const dcpar_training *training, dcpar_error *error) {
    for (int32_t i = 0; i < training->policy_count; ++i) {
        bool known = false;
        for (int32_t j = 0; dcpar_policy_name(j) != NULL; ++j)
            known |= strcmp(dcpar_policy_name(j), training->policies[i]) == 0;
        if (!known)
            return dcpar_fail(error, DCPAR_INVALID, "--policy: there is no policy \"%s\"", training->policies[i]);
        for (int32_t j = 0; j < i; ++j)
            if (strcmp(training->policies[j], training->policies[i]) == 0)
                return dcpar_fail(error, DCPAR_INVALID, "--policy: \"%s\" is there twice", training->policies[i]);
    }
    return DCPAR_OK;
}

/* The profile that was given, or the one that the resumed run left. */
static dcpar_status load_profile(const train_arguments *arguments, dcpar_profile **profile, dcpar_error *error) {
    if (arguments->profile_path != NULL) return dcpar_profile_load(arguments->profile_path, profile, error);
    if (arguments->resume == NULL) return DCPAR_OK;
    char path[4096];
    snprintf(path, sizeof path, "%s/profile.json", arguments->resume);
    return dcpar_profile_load(path, profile, error);
}

typedef struct train_call {
    const train_arguments *arguments;
    const dcpar_training *training;
} train_call;

/* Opens what the arguments name and trains: on `world`, or on as many threads as were asked for. */
static dcpar_status train(dcpar_comm *world, void *argument, dcpar_error *error) {
    const train_arguments *arguments = ((train_call *)argument)->arguments;
    dcpar_training training = *((train_call *)argument)->training;
    dcpar_model model;
    dcpar_dataset *dataset = NULL;
    dcpar_profile *profile = NULL;
    int64_t vocabulary = 0;
    DCPAR_TRY(check_policies(&training, error));
    DCPAR_TRY(dcpar_model_read(arguments->model_name, &model, error));
    dcpar_status status = load_profile(arguments, &profile, error);
    if (status == DCPAR_OK) status = dcpar_dataset_open(arguments->data, &dataset, error);
    if (status == DCPAR_OK) status = dcpar_dataset_vocabulary(dataset, &vocabulary, error);
    if (status == DCPAR_OK && vocabulary > model.config.vocab_size)
        status = dcpar_fail(error, DCPAR_INVALID, "%s has tokens up to %lld; the model's vocabulary has %lld",
                            arguments->data, (long long)vocabulary - 1, (long long)model.config.vocab_size);
    if (status == DCPAR_OK) {
        training.dataset = dataset;
        training.model = &model;
        training.profile = profile;
        if (training.memory == 0 && profile != NULL) training.memory = dcpar_profile_get_info(profile)->memory;
        if (training.memory == 0) training.memory = INT64_C(4) << 30;
        status = world != NULL ? dcpar_train(world, &training, error)
                               : dcpar_comm_run_local((int32_t)arguments->ranks, dcpar_train, &training, error);
    }
    dcpar_dataset_close(dataset);
    dcpar_profile_destroy(profile);
    return status;
}

static int run(int count, char **words) {
    train_arguments arguments = {
        .model_name = "demo", .policies = "buddy", .weigh = "tokens", .planning = CLI_PLANNING_INIT, .ranks = 1};
    dcpar_training training = {.stepping = DCPAR_ENGINE_OPTIONS_INIT, .epochs = 1, .checkpoint_every = 50};
    const cli_option options[] = {
        {"model", CLI_TEXT, &arguments.model_name, 0, "FILE|NAME",
         "a Hugging Face config.json, or tiny, demo, small (demo)"},
        {"ranks", CLI_INTEGER, &arguments.ranks, 1, "N", "ranks as threads; under mpirun or srun: theirs (1)"},
        {"memory", CLI_BYTES, &training.memory, 1, "BYTES", "of a rank (the profile's, or 4G)"},
        {"profile", CLI_TEXT, &arguments.profile_path, 0, "FILE", "from dcpar profile (measured first)"},
        {"policy", CLI_TEXT, &arguments.policies, 0, "NAME,...",
         "bucket, inter, intra, buddy; several run in turn (buddy)"},
        CLI_PLANNING_OPTIONS(arguments.planning),
        {"sample", CLI_INTEGER, &training.use.sample, 1, "TOKENS",
         "use only sequences drawn at random, so many tokens"},
        {"epochs", CLI_INTEGER, &training.epochs, 1, "E", "(1)"},
        {"iterations", CLI_INTEGER, &training.iterations, 1, "K", "optimizer steps, at most"},
        {"tokens", CLI_INTEGER, &training.tokens, 1, "N", "end when so many tokens have been trained on"},
        {"weigh", CLI_TEXT, &arguments.weigh, 0, "tokens|sequences",
         "what weighs the same in loss and gradient (tokens)"},
        {"stop-after", CLI_INTEGER, &training.stop_after, 1, "K",
         "end this session after K iterations; go on with --resume"},
        {"learning-rate", CLI_NUMBER, &training.stepping.learning_rate, 0, "X", "after warm-up (3e-4)"},
        {"final-learning-rate", CLI_NUMBER, &training.stepping.final_learning_rate, 0, "X",
         "at the cosine's end (3e-5)"},
        {"warmup", CLI_INTEGER, &training.stepping.warmup_iterations, 0, "K", "iterations of linear warm-up (20)"},
        {"weight-decay", CLI_NUMBER, &training.stepping.weight_decay, 0, "X", "AdamW's (0.1)"},
        {"clip", CLI_NUMBER, &training.stepping.clip_norm, 0, "X", "largest gradient norm, 0: none (1)"},
        {"checkpoint-every", CLI_INTEGER, &training.checkpoint_every, 0, "K", "iterations; 0: only at the end (50)"},
        {"out", CLI_TEXT, &arguments.out, 0, "DIR", "for metrics.jsonl, report.html and checkpoints"},
        {"resume", CLI_TEXT, &arguments.resume, 0, "DIR", "go on from the checkpoint in DIR, with the same options"},
        {"quiet", CLI_FLAG, &training.quiet, 0, NULL, "print nothing"},
        {0},
    };
    const cli_verb *verb = &cli_verb_train;
    const int parsed = cli_parse(verb, count, words, options, &arguments.data, 1);
    if (parsed >= 0) return parsed;
    if (arguments.data == NULL)
        return cli_refuse(verb, "DATA is missing: a folder, a FASTA file, or tokens in Megatron's .bin/.idx format");
    int missing = cli_require_file(verb, arguments.data);
    if (missing < 0) missing = cli_require_file(verb, arguments.profile_path);
    if (missing < 0) missing = cli_require_file(verb, arguments.resume);
    if (missing >= 0) return missing;
    if (arguments.ranks > 4096) return cli_refuse(verb, "--ranks %lld: at most 4096", (long long)arguments.ranks);
    if (arguments.resume != NULL && arguments.out != NULL && strcmp(arguments.resume, arguments.out) != 0)
        return cli_refuse(verb, "--resume %s goes on in its own folder, not in --out %s", arguments.resume,
                          arguments.out);
    int32_t sizes[64];
    training.planning = (dcpar_planner_options)DCPAR_PLANNER_OPTIONS_INIT;
    const int set = cli_set_planning(verb, &arguments.planning, sizes, &training.planning, &training.split);
    if (set >= 0) return set;
    training.use.truncate = arguments.planning.truncate;
    training.use.seed = training.planning.seed;
    training.weigh_sequences = strcmp(arguments.weigh, "sequences") == 0;
    if (!training.weigh_sequences && strcmp(arguments.weigh, "tokens") != 0)
        return cli_refuse(verb, "--weigh %s: it is tokens or sequences", arguments.weigh);
    char *policies = malloc(strlen(arguments.policies) + 1), *command = join_words(count, words);
    if (policies == NULL || command == NULL) return cli_refuse(verb, "the host is out of memory");
    strcpy(policies, arguments.policies);
    training.policy_count = cli_split(policies, training.policies, DCPAR_MOST_POLICIES);
    training.out = arguments.resume != NULL ? arguments.resume : arguments.out;
    training.resume = arguments.resume != NULL;
    training.command = command;
    training.stop = cli_interrupted;
    cli_catch_interrupt();
    dcpar_error error = {0};
    train_call call = {&arguments, &training};
    int status;
    if (training.policy_count < 0)
        status = cli_refuse(verb, "--policy: at most %d policies", DCPAR_MOST_POLICIES);
    else if ((dcpar_comm_mpi_launched() ? dcpar_comm_run_mpi(train, &call, &error) : train(NULL, &call, &error)) ==
             DCPAR_OK)
        status = EXIT_DONE;
    else
        status = cli_fail(verb, &error);
    free(policies);
    free(command);
    return status;
}

const cli_verb cli_verb_train = {"train", "DATA", "train the reference model; plans, runs, reports", run};
