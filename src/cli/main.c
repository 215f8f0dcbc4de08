/* dcpar: Data-Centric Parallel training on the command line. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const cli_verb *const verbs[] = {&cli_verb_profile, &cli_verb_plan, &cli_verb_train};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void print_help(FILE *file) {
    fprintf(file, "dcpar %s: Data-Centric Parallel training on sequences of very different lengths\n\n",
            dcpar_version());
    for (int i = 0; i < VERB_COUNT; ++i)
        fprintf(file, "  dcpar %-8s %-10s %s\n", verbs[i]->name, verbs[i]->arguments, verbs[i]->summary);
    fprintf(file, "\n`dcpar VERB --help` explains a verb. Policies:\n\n");
    for (int32_t i = 0; dcpar_policy_name(i) != NULL; ++i)
        fprintf(file, "  %-8s %s\n", dcpar_policy_name(i), dcpar_policy_summary(i));
}

int main(int count, char **arguments) {
    if (count < 2) {
        print_help(stderr);
        return EXIT_WRONG_INPUT;
    }
    if (strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0 || strcmp(arguments[1], "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(arguments[1], "--version") == 0) {
        printf("dcpar %s\n", dcpar_version());
        return EXIT_DONE;
    }
    for (int i = 0; i < VERB_COUNT; ++i)
        if (strcmp(arguments[1], verbs[i]->name) == 0) return verbs[i]->run(count - 1, arguments + 1);
    fprintf(stderr, "dcpar: there is no verb \"%s\"; there are", arguments[1]);
    for (int i = 0; i < VERB_COUNT; ++i) fprintf(stderr, "%s %s", i > 0 ? "," : "", verbs[i]->name);
    fprintf(stderr, "\n");
    return EXIT_WRONG_INPUT;
}
