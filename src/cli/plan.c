/* dcpar plan: what each iteration would do. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "data/pieces.h"
#include "report/plan_json.h"
#include "report/plan_text.h"

typedef struct plan_arguments {
    const char *lengths, *profile, *policy;
    cli_planning planning;
    int64_t iterations, first_iteration;
    bool json;
} plan_arguments;

static dcpar_status print_plan(const plan_arguments *arguments, const dcpar_plan *plan, dcpar_error *error) {
    if (arguments->json) return dcpar_plan_write_json(stdout, plan, error);
    return dcpar_plan_print(stdout, plan, (int32_t)arguments->planning.world, error);
}

static dcpar_status print_plans(const plan_arguments *arguments, dcpar_planner *planner, dcpar_error *error) {
    for (int64_t i = 0; arguments->iterations == 0 || i < arguments->first_iteration + arguments->iterations; ++i) {
        dcpar_plan *plan = NULL;
        dcpar_status status = dcpar_planner_next(planner, &plan, error);
        if (status == DCPAR_END) break;
        if (status == DCPAR_OK && i >= arguments->first_iteration) status = print_plan(arguments, plan, error);
        dcpar_plan_destroy(plan);
        if (status != DCPAR_OK) return status;
        if (cli_interrupted()) return dcpar_fail(error, DCPAR_INTERRUPTED, "interrupted");
    }
    const dcpar_epoch_summary summary = dcpar_planner_summary(planner);
    if (arguments->json) return dcpar_summary_write_json(stdout, &summary, error);
    return dcpar_summary_print(stdout, &summary, error);
}

/* What is used of each sequence: its start, or pieces that fit. */
static dcpar_status get_pieces(const plan_arguments *arguments, const dcpar_profile *profile,
                               const dcpar_planner_options *options, bool split, const int64_t *lengths, int64_t count,
                               dcpar_pieces **pieces, dcpar_error *error) {
    dcpar_piece_options use = {.truncate = arguments->planning.truncate};
    if (split) {
        const int64_t memory = options->memory > 0 ? options->memory : dcpar_profile_get_info(profile)->memory;
        const int64_t fits =
            dcpar_longest_fit(profile, options->world, memory, options->sp_sizes, options->sp_size_count, NULL);
        use.limit = fits > 0 ? fits : 1;
    }
    return dcpar_pieces_create(lengths, count, &use, pieces, error);
}

static dcpar_status plan(const plan_arguments *arguments, const dcpar_planner_options *options, bool split,
                         dcpar_error *error) {
    dcpar_profile *profile = NULL;
    dcpar_planner *planner = NULL;
    dcpar_pieces *pieces = NULL;
    int64_t *lengths = NULL, count = 0;
    dcpar_status status = dcpar_profile_load(arguments->profile, &profile, error);
    if (status == DCPAR_OK) status = dcpar_lengths_read(arguments->lengths, &lengths, &count, error);
    if (status == DCPAR_OK) status = get_pieces(arguments, profile, options, split, lengths, count, &pieces, error);
    if (status == DCPAR_OK)
        status = dcpar_planner_create(profile, dcpar_pieces_lengths(pieces), dcpar_pieces_count(pieces), options,
                                      &planner, error);
    if (status == DCPAR_OK && !arguments->json)
        dcpar_print_if_all_equal(stdout, dcpar_pieces_lengths(pieces), dcpar_pieces_count(pieces));
    if (status == DCPAR_OK) status = print_plans(arguments, planner, error);
    dcpar_planner_destroy(planner);
    dcpar_pieces_destroy(pieces);
    dcpar_profile_destroy(profile);
    free(lengths);
    return status;
}

static int run(int count, char **words) {
    plan_arguments arguments = {.policy = "buddy", .planning = CLI_PLANNING_INIT};
    const cli_option options[] = {
        {"profile", CLI_TEXT, &arguments.profile, 0, "FILE", "what micro-batches cost (dcpar profile)"},
        {"world", CLI_INTEGER, &arguments.planning.world, 1, "W", "ranks (1)"},
        {"memory", CLI_BYTES, &arguments.planning.memory, 1, "BYTES", "of a rank (the profile's)"},
        {"policy", CLI_TEXT, &arguments.policy, 0, "NAME", "bucket, inter, intra or buddy (buddy)"},
        CLI_PLANNING_OPTIONS(arguments.planning),
        {"iterations", CLI_INTEGER, &arguments.iterations, 1, "K", "print only so many (the whole epoch)"},
        {"first-iteration", CLI_INTEGER, &arguments.first_iteration, 0, "I", "print from this one on (0)"},
        {"json", CLI_FLAG, &arguments.json, 0, NULL, "one JSON object a line"},
        {0},
    };
    const cli_verb *verb = &cli_verb_plan;
    const int parsed = cli_parse(verb, count, words, options, &arguments.lengths, 1);
    if (parsed >= 0) return parsed;
    if (arguments.lengths == NULL)
        return cli_refuse(verb, "LENGTHS is missing: a file of lengths, -, data or a distribution");
    if (arguments.profile == NULL) return cli_refuse(verb, "--profile is missing");
    int missing = dcpar_lengths_is_drawn(arguments.lengths) ? -1 : cli_require_file(verb, arguments.lengths);
    if (missing < 0) missing = cli_require_file(verb, arguments.profile);
    if (missing >= 0) return missing;
    dcpar_planner_options planning = DCPAR_PLANNER_OPTIONS_INIT;
    int32_t sizes[64];
    bool split;
    const int set = cli_set_planning(verb, &arguments.planning, sizes, &planning, &split);
    if (set >= 0) return set;
    planning.policy = arguments.policy;
    cli_catch_interrupt();
    dcpar_error error = {0};
    return plan(&arguments, &planning, split, &error) == DCPAR_OK ? EXIT_DONE : cli_fail(verb, &error);
}

const cli_verb cli_verb_plan = {"plan", "LENGTHS", "print the plan of each iteration", run};
