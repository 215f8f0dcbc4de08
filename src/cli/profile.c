/* dcpar profile: measure what micro-batches cost on this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "dcpar_run.h"
#include "report/progress.h"
#include "report/units.h"
#include "train/probe.h"

typedef struct profile_arguments {
    const char *model_name, *out;
    int64_t world, memory, shortest, longest;
    bool quiet;
    char *partial_path;
    dcpar_progress progress;
} profile_arguments;

static void summarise(const profile_arguments *arguments, const dcpar_profile *profile) {
    int64_t count, fit = 0;
    int32_t sp = 1;
    char memory[DCPAR_UNIT_TEXT], step[DCPAR_UNIT_TEXT];
    const dcpar_profile_info *info = dcpar_profile_get_info(profile);
    const dcpar_profile_row *rows = dcpar_profile_get_rows(profile, &count);
    for (int64_t i = 0; i < count; ++i) fit += rows[i].fits;
    const int64_t longest = dcpar_longest_fit(profile, info->world, info->memory, NULL, 0, &sp);
    printf("%s\n%s\n%lld points measured, %lld fit into %s a rank; optimizer step %s\n"
           "longest sequence that fits: %lld tokens, on %d rank%s\nProfile: %s\n",
           info->model, info->device, (long long)count, (long long)fit, dcpar_text_bytes(info->memory, memory),
           dcpar_text_seconds(info->step_seconds, step), (long long)longest, sp, sp == 1 ? "" : "s", arguments->out);
}

static dcpar_status profile_rank(dcpar_comm *world, void *argument, dcpar_error *error) {
    profile_arguments *arguments = argument;
    const bool speaks = dcpar_comm_rank(world) == 0;
    dcpar_measure_options options = DCPAR_MEASURE_OPTIONS_INIT;
    options.shortest = arguments->shortest;
    options.longest = arguments->longest;
    options.partial_path = arguments->partial_path;
    options.stop = cli_interrupted;
    if (speaks) {
        dcpar_progress_start(&arguments->progress, stderr, "profile", 0, arguments->quiet);
        options.progress = dcpar_progress_profile;
        options.progress_context = &arguments->progress;
    }
    dcpar_profile *profile = NULL;
    dcpar_model model;
    dcpar_status status = dcpar_model_read(arguments->model_name, &model, error);
    if (status == DCPAR_OK) status = dcpar_model_profile(world, &model, arguments->memory, &options, &profile, error);
    if (speaks) dcpar_progress_finish(&arguments->progress);
    if (status == DCPAR_OK && speaks) {
        status = dcpar_profile_save(profile, arguments->out, error);
        if (status == DCPAR_OK) remove(arguments->partial_path);
        if (status == DCPAR_OK && !arguments->quiet) summarise(arguments, profile);
    }
    dcpar_profile_destroy(profile);
    return status;
}

static int run(int count, char **words) {
    profile_arguments arguments = {.world = 1, .shortest = 64};
    const char *none[1];
    const cli_option options[] = {
        {"model", CLI_TEXT, &arguments.model_name, 0, "FILE|NAME", "a Hugging Face config.json, or tiny, demo, small"},
        {"world", CLI_INTEGER, &arguments.world, 1, "W", "ranks, as threads of this process (1)"},
        {"memory", CLI_BYTES, &arguments.memory, 1, "BYTES", "of a rank"},
        {"out", CLI_TEXT, &arguments.out, 0, "FILE", "the profile; FILE.partial keeps what is measured until then"},
        {"shortest", CLI_INTEGER, &arguments.shortest, 1, "TOKENS", "first length measured (64)"},
        {"longest", CLI_INTEGER, &arguments.longest, 1, "TOKENS", "last length measured (the most that fits)"},
        {"quiet", CLI_FLAG, &arguments.quiet, 0, NULL, "print nothing"},
        {0},
    };
    const cli_verb *verb = &cli_verb_profile;
    const int parsed = cli_parse(verb, count, words, options, none, 0);
    if (parsed >= 0) return parsed;
    if (arguments.model_name == NULL) return cli_refuse(verb, "--model is missing");
    if (arguments.memory == 0) return cli_refuse(verb, "--memory is missing: bytes that a rank may use, such as 2G");
    if (arguments.out == NULL) return cli_refuse(verb, "--out is missing: where the profile is to be written");
    if (arguments.world > 4096) return cli_refuse(verb, "--world %lld: at most 4096 ranks", (long long)arguments.world);
    dcpar_error error = {0};
    const size_t size = strlen(arguments.out) + sizeof ".partial";
    arguments.partial_path = malloc(size);
    if (arguments.partial_path == NULL) return cli_refuse(verb, "the host is out of memory");
    snprintf(arguments.partial_path, size, "%s.partial", arguments.out);
    cli_catch_interrupt();
    const dcpar_status status = dcpar_comm_mpi_launched()
                                    ? dcpar_comm_run_mpi(profile_rank, &arguments, &error)
                                    : dcpar_comm_run_local((int32_t)arguments.world, profile_rank, &arguments, &error);
    free(arguments.partial_path);
    return status == DCPAR_OK ? EXIT_DONE : cli_fail(verb, &error);
}

const cli_verb cli_verb_profile = {"profile", "", "measure what micro-batches of a model cost on this machine", run};
