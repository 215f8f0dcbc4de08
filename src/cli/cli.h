/* What the verbs of `dcpar` share: options, numbers, exit status. */
#ifndef DCPAR_CLI_CLI_H
#define DCPAR_CLI_CLI_H

#include "dcpar.h"

/* Exit status: success; something failed; the input was wrong; interrupted. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG_INPUT = 2, EXIT_INTERRUPTED = 130 };

typedef enum cli_kind { CLI_TEXT, CLI_INTEGER, CLI_BYTES, CLI_NUMBER, CLI_FLAG } cli_kind;

/* One option. `value` points to const char *, int64_t, int64_t, double or bool by kind. Integers and bytes are at least
 * `least`. */
typedef struct cli_option {
    const char *name; /* "world" for --world */
    cli_kind kind;
    void *value;
    int64_t least;
    const char *argument; /* what help calls its argument */
    const char *help;
} cli_option;

typedef struct cli_verb {
    const char *name, *arguments, *summary;
    int (*run)(int count, char **arguments);
} cli_verb;

extern const cli_verb cli_verb_plan, cli_verb_profile, cli_verb_train;

/* Reads options (ended by one without a name) and at most `most` other arguments into words[] (the rest NULL).
 * Returns -1 to go on, else the exit status: help was asked for and printed, or a sentence went to stderr. */
int cli_parse(const cli_verb *verb, int count, char **arguments, const cli_option *options, const char **words,
              int most);

/* Prints "dcpar VERB: sentence" on stderr; returns the exit status that belongs to it. Of several processes under MPI
 * only the first one prints: what fails on one is known to all (dcpar_comm_run_mpi). */
int cli_fail(const cli_verb *verb, const dcpar_error *error);

/* The same with a sentence of its own, for wrong input. */
int cli_refuse(const cli_verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The options of planning that several verbs have, as they were given. */
typedef struct cli_planning {
    int64_t world, tokens, sequences, seed, epoch, memory, g_min, g_max; /* 0: not given */
    const char *order, *on_too_long, *sp_sizes;                          /* sp_sizes may be NULL */
    int64_t truncate, buckets;
} cli_planning;

/* The rows of an option list for them. */
#define CLI_PLANNING_OPTIONS(planning)                                                                                 \
    {"tokens-per-iteration", CLI_INTEGER, &(planning).tokens, 1, "N", "tokens between two optimizer steps"},           \
        {"sequences-per-iteration",                                                                                    \
         CLI_INTEGER,                                                                                                  \
         &(planning).sequences,                                                                                        \
         1,                                                                                                            \
         "N",                                                                                                          \
         "sequences between two optimizer steps"},                                                                     \
        {"order", CLI_TEXT, &(planning).order, 0, "seeded|file", "order of sequences (seeded)"},                       \
        {"seed", CLI_INTEGER, &(planning).seed, 0, "S", "of order and weights (0)"},                                   \
        {"epoch", CLI_INTEGER, &(planning).epoch, 0, "E", "the first epoch, from 0 (0)"},                              \
        {"on-too-long",           CLI_TEXT,                                                                            \
         &(planning).on_too_long, 0,                                                                                   \
         "refuse|drop|split",     "what to do with sequences that fit on no group (refuse)"},                          \
        {"truncate", CLI_INTEGER, &(planning).truncate, 1, "TOKENS", "of longer sequences use only their start"},      \
        {"buckets", CLI_INTEGER, &(planning).buckets, 1, "N", "lengths are padded to, at most (64)"},                  \
        {"sp-sizes", CLI_TEXT, &(planning).sp_sizes, 0, "P,P,...", "only these SP sizes (every legal one)"},           \
        {"g-min", CLI_INTEGER, &(planning).g_min, 1, "G", "inter, intra: least accumulation"},                         \
        {"g-max", CLI_INTEGER, &(planning).g_max, 1, "G", "inter, intra: most accumulation"}

#define CLI_PLANNING_INIT {1, 0, 0, 0, 0, 0, 0, 0, "seeded", "refuse", NULL, 0, 0}

/* Checks them and fills `options` (not its policy) and sizes[64], which it points to; *split: cut what fits nowhere.
 * Returns -1 to go on, else the exit status. */
int cli_set_planning(const cli_verb *verb, const cli_planning *planning, int32_t sizes[64],
                     dcpar_planner_options *options, bool *split);

/* -1 under MPI, where files are looked for by dcpar_comm_run_mpi's ranks; -1 when `path` (or PATH.bin, or standard
 * input "-") is there or is NULL; else says that it is not, exit status 2. */
int cli_require_file(const cli_verb *verb, const char *path);

/* "a,b,c" cut in place into at most `most` names; returns how many, or -1 when there are more. */
int32_t cli_split(char *text, const char **names, int32_t most);

/* After this, the first interrupt makes cli_interrupted true, and work ends where it can go on later; the second
 * kills. */
void cli_catch_interrupt(void);
bool cli_interrupted(void);

#endif
