/* A whole training: profile, what is used of the data, policies one after another, report. */
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "report/plan_text.h"
#include "report/progress.h"
#include "report/report.h"
#include "report/units.h"
#include "train/probe.h"
#include "train/run.h"

/* ------------------------------------------------------------------------------------------- data and profile */

/* What is used of the data: cut at the most tokens that any group takes, or whole sequences. */
static dcpar_status get_pieces(dcpar_comm *world, const dcpar_training *training, const dcpar_profile *profile,
                               dcpar_pieces **pieces, dcpar_error *error) {
    dcpar_piece_options options = training->use;
    if (training->split) {
        const int64_t fits = dcpar_longest_fit(profile, dcpar_comm_size(world), dcpar_training_memory(training),
                                               training->planning.sp_sizes, training->planning.sp_size_count, NULL);
        options.limit = fits > 0 ? fits : 1;
    }
    return dcpar_pieces_create(dcpar_dataset_lengths(training->dataset), dcpar_dataset_count(training->dataset),
                               &options, pieces, error);
}

/* Profiles from the shortest to the longest of the sequences that are used: no need to measure beyond. Below the
 * shortest measured length the shortest is charged, which plans more memory than is used, so that is measured, too. */
static void set_lengths(const dcpar_training *training, dcpar_measure_options *options) {
    const int64_t *lengths = dcpar_dataset_lengths(training->dataset), truncate = training->use.truncate;
    int64_t longest = 1;
    for (int64_t i = 0; i < dcpar_dataset_count(training->dataset); ++i) {
        if (lengths[i] > longest) longest = lengths[i];
        if (lengths[i] > 0 && lengths[i] < options->shortest) options->shortest = lengths[i];
    }
    options->longest = truncate > 0 && longest > truncate ? truncate : longest;
}

/* Measures a profile, unless one was given. */
static dcpar_status get_profile(dcpar_comm *world, const dcpar_training *training, dcpar_profile **measured,
                                dcpar_error *error) {
    const int32_t ranks = dcpar_comm_size(world);
    if (training->profile != NULL) {
        const dcpar_profile_info wanted = dcpar_model_info(training->model, ranks, training->memory);
        if (!training->resume || dcpar_profile_get_info(training->profile)->world == ranks)
            return dcpar_profile_belongs(training->profile, &wanted, error);
        if (dcpar_comm_rank(world) == 0 && !training->quiet)
            printf("The profile is of %d ranks, not %d: measuring again\n",
                   dcpar_profile_get_info(training->profile)->world, ranks);
    }
    dcpar_progress progress;
    dcpar_progress_start(&progress, stderr, "profile", 0, training->quiet || dcpar_comm_rank(world) != 0);
    dcpar_measure_options options = DCPAR_MEASURE_OPTIONS_INIT;
    options.progress = dcpar_progress_profile;
    options.progress_context = &progress;
    options.stop = training->stop;
    set_lengths(training, &options);
    dcpar_status status = dcpar_model_profile(world, training->model, training->memory, &options, measured, error);
    dcpar_progress_finish(&progress);
    if (status == DCPAR_OK && training->out != NULL && dcpar_comm_rank(world) == 0) {
        char *path = NULL;
        status = dcpar_path_join(training->out, "profile.json", &path, error);
        if (status == DCPAR_OK) status = dcpar_profile_save(*measured, path, error);
        free(path);
    }
    return status;
}

static dcpar_status write_report(const dcpar_training *training, const dcpar_profile *profile,
                                 const dcpar_pieces *pieces, int32_t world, const dcpar_record *records, int32_t count,
                                 dcpar_error *error) {
    dcpar_report_policy policies[DCPAR_MOST_POLICIES];
    for (int32_t i = 0; i < count; ++i) policies[i] = dcpar_record_policy(&records[i]);
    char seed[32], memory[DCPAR_UNIT_TEXT], size[80], texts[DCPAR_UNIT_TEXT];
    const dcpar_planner_options *planning = &training->planning;
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)planning->seed);
    if (planning->tokens_per_iteration > 0)
        snprintf(size, sizeof size, "%s tokens", dcpar_text_integer(planning->tokens_per_iteration, texts));
    else if (planning->sequences_per_iteration > 0)
        snprintf(size, sizeof size, "%s sequences", dcpar_text_integer(planning->sequences_per_iteration, texts));
    else
        snprintf(size, sizeof size, "each policy's own");
    const dcpar_report_fact facts[] = {
        {"Command", training->command},
        {"Data", dcpar_dataset_describe(training->dataset)},
        {"Model", training->model->text},
        {"Device", dcpar_profile_get_info(profile)->device},
        {"Memory a rank", dcpar_text_bytes(training->memory, memory)},
        {"Iteration", size},
        {"Seed", seed},
    };
    const dcpar_report report = {.title = "dcpar train",
                                 .facts = facts,
                                 .fact_count = sizeof facts / sizeof facts[0],
                                 .lengths = dcpar_pieces_lengths(pieces),
                                 .length_count = dcpar_pieces_count(pieces),
                                 .world = world,
                                 .policies = policies,
                                 .policy_count = count};
    if (!training->quiet) {
        printf("\n");
        DCPAR_TRY(dcpar_report_print_table(stdout, &report, error));
    }
    if (training->out == NULL) return DCPAR_OK;
    char *path = NULL;
    DCPAR_TRY(dcpar_path_join(training->out, "report.html", &path, error));
    const dcpar_status status = dcpar_report_write(&report, path, error);
    if (status == DCPAR_OK && !training->quiet) printf("\nReport: %s\n", path);
    free(path);
    return status;
}

static void print_sample(const dcpar_pieces *pieces) {
    int64_t tokens = 0;
    char sequences[DCPAR_UNIT_TEXT], text[DCPAR_UNIT_TEXT];
    for (int64_t i = 0; i < dcpar_pieces_count(pieces); ++i) tokens += dcpar_pieces_lengths(pieces)[i];
    printf("of these a sample: %s sequences, %s tokens\n", dcpar_text_integer(dcpar_pieces_count(pieces), sequences),
           dcpar_text_integer(tokens, text));
}

static dcpar_status train_all(dcpar_comm *world, const dcpar_training *training, const dcpar_profile *profile,
                              const dcpar_pieces *pieces, dcpar_error *error) {
    const bool speaks = dcpar_comm_rank(world) == 0;
    dcpar_record records[DCPAR_MOST_POLICIES] = {0};
    dcpar_status status = DCPAR_OK;
    int32_t count = 0;
    if (speaks && !training->quiet) {
        printf("%s\n%s\n", dcpar_dataset_describe(training->dataset), training->model->text);
        if (training->use.sample > 0) print_sample(pieces);
        if (dcpar_pieces_cut(pieces) > 0)
            printf("%lld sequences are cut: they fit on no group as a whole\n", (long long)dcpar_pieces_cut(pieces));
        dcpar_print_if_all_equal(stdout, dcpar_pieces_lengths(pieces), dcpar_pieces_count(pieces));
    }
    for (; count < training->policy_count && status == DCPAR_OK; ++count) {
        const char *policy = training->policies[count];
        snprintf(records[count].policy, sizeof records[count].policy, "%s", policy);
        for (int32_t i = 0; dcpar_policy_name(i) != NULL; ++i)
            if (strcmp(dcpar_policy_name(i), policy) == 0) records[count].summary = dcpar_policy_summary(i);
        if (speaks && !training->quiet) printf("%s\n", policy);
        status = dcpar_run_policy(world, training, profile, pieces, policy, &records[count], error);
    }
    const bool interrupted = status == DCPAR_INTERRUPTED;
    if (speaks && (status == DCPAR_OK || (interrupted && records[0].count > 0))) {
        const dcpar_status written =
            write_report(training, profile, pieces, dcpar_comm_size(world), records, count, interrupted ? NULL : error);
        if (!interrupted) status = written;
    }
    for (int32_t i = 0; i < count; ++i) dcpar_record_destroy(&records[i]);
    return status;
}

dcpar_status dcpar_train(dcpar_comm *world, void *argument, dcpar_error *error) {
    const dcpar_training *training = argument;
    dcpar_profile *measured = NULL;
    dcpar_pieces *pieces = NULL;
    dcpar_status status = DCPAR_OK;
    if (training->out != NULL && dcpar_comm_rank(world) == 0) status = dcpar_path_make_folder(training->out, error);
    if (status == DCPAR_OK) status = get_profile(world, training, &measured, error);
    const dcpar_profile *profile = measured != NULL ? measured : training->profile;
    if (status == DCPAR_OK) status = get_pieces(world, training, profile, &pieces, error);
    if (status == DCPAR_OK) status = train_all(world, training, profile, pieces, error);
    dcpar_pieces_destroy(pieces);
    dcpar_profile_destroy(measured);
    return status;
}
