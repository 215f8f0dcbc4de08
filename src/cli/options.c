/* Options, numbers and exit status. */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "comm/launch.h"
#include "dcpar_run.h"

#define MOST_OPTIONS 64
#define HELP_OPTION 1000

/* ------------------------------------------------------------------------------------------------- failure */

/* A launcher kills the other processes as soon as one ends in failure: the first one gets time to say why. */
static bool speaks(void) {
    if (dcpar_comm_launched_rank() == 0) return true;
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    return false;
}

int cli_fail(const cli_verb *verb, const dcpar_error *error) {
    if (speaks()) fprintf(stderr, "dcpar %s: %s\n", verb->name, error->text);
    switch (error->status) {
    case DCPAR_OK:
        return EXIT_DONE;
    case DCPAR_INVALID:
    case DCPAR_ILLEGAL_SIZE:
    case DCPAR_TOO_LONG:
    case DCPAR_MISMATCH:
    case DCPAR_UNSUPPORTED:
        return EXIT_WRONG_INPUT;
    case DCPAR_INTERRUPTED:
        return EXIT_INTERRUPTED;
    default:
        return EXIT_FAILED;
    }
}

int cli_refuse(const cli_verb *verb, const char *format, ...) {
    if (!speaks()) return EXIT_WRONG_INPUT;
    va_list values;
    va_start(values, format);
    fprintf(stderr, "dcpar %s: ", verb->name);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\n");
    va_end(values);
    return EXIT_WRONG_INPUT;
}

int cli_require_file(const cli_verb *verb, const char *path) {
    if (dcpar_comm_mpi_launched() || path == NULL || strcmp(path, "-") == 0 || access(path, F_OK) == 0) return -1;
    const int problem = errno;
    char tokens[4096];
    snprintf(tokens, sizeof tokens, "%s.bin", path);
    if (access(tokens, F_OK) == 0) return -1;
    return cli_refuse(verb, "%s: %s", path, strerror(problem));
}

/* ------------------------------------------------------------------------------------------------- numbers */

static bool read_integer(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0) return false;
    *out = value;
    return true;
}

static bool read_number(const char *text, double *out) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0) return false;
    *out = value;
    return true;
}

/* "1500000", "1.5G", "512MiB", "80GB": K, M, G and T are powers of 1024, written alone or with iB; with B they are
 * powers of 1000. */
static bool read_bytes(const char *text, int64_t *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value) || value < 0) return false;
    const char *const letters = "KMGT", *letter = *end != '\0' ? strchr(letters, *end & ~0x20) : NULL;
    if (*end != '\0' && letter == NULL) return false;
    if (letter != NULL) {
        const bool decimal = strcmp(end + 1, "B") == 0;
        if (!decimal && end[1] != '\0' && strcmp(end + 1, "iB") != 0) return false;
        value *= pow(decimal ? 1000 : 1024, (double)(letter - letters + 1));
    }
    if (value >= 9e18) return false;
    *out = (int64_t)value;
    return true;
}

static const char *expected(cli_kind kind) {
    if (kind == CLI_BYTES) return "bytes, such as 512M or 80G";
    return kind == CLI_INTEGER ? "an integer" : "a number that is not negative";
}

static int set_option(const cli_verb *verb, const cli_option *option, const char *text) {
    bool valid = true;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->value = true;
        return -1;
    case CLI_TEXT:
        *(const char **)option->value = text;
        return -1;
    case CLI_INTEGER:
        valid = read_integer(text, option->value);
        break;
    case CLI_BYTES:
        valid = read_bytes(text, option->value);
        break;
    case CLI_NUMBER:
        valid = read_number(text, option->value);
        break;
    }
    if (!valid) return cli_refuse(verb, "--%s %s: expected %s", option->name, text, expected(option->kind));
    if (option->kind != CLI_NUMBER && *(int64_t *)option->value < option->least)
        return cli_refuse(verb, "--%s %s: it must be at least %lld", option->name, text, (long long)option->least);
    return -1;
}

/* --------------------------------------------------------------------------------------------------- parse */

static void print_help(const cli_verb *verb, const cli_option *options) {
    printf("dcpar %s %s [options]\n\n%s\n\n", verb->name, verb->arguments, verb->summary);
    for (const cli_option *option = options; option->name != NULL; ++option) {
        char head[64];
        snprintf(head, sizeof head, "--%s %s", option->name, option->argument != NULL ? option->argument : "");
        printf("  %-32s %s\n", head, option->help);
    }
    printf("  %-32s %s\n", "--help", "print this");
}

int cli_parse(const cli_verb *verb, int count, char **arguments, const cli_option *options, const char **words,
              int most) {
    struct option list[MOST_OPTIONS + 2] = {{0}};
    int used = 0;
    for (; used < MOST_OPTIONS && options[used].name != NULL; ++used)
        list[used] = (struct option){options[used].name,
                                     options[used].kind == CLI_FLAG ? no_argument : required_argument, NULL, used + 2};
    list[used] = (struct option){"help", no_argument, NULL, HELP_OPTION};
    for (int i = 0; i < most; ++i) words[i] = NULL;
    int word_count = 0;
    optind = 1;
    opterr = 0;
    for (;;) {
        /* "-" first: other arguments come in order, as options with code 1. */
        const int before = optind, found = getopt_long(count, arguments, "-:h", list, NULL);
        if (found == -1) break;
        if (found == HELP_OPTION || found == 'h') {
            print_help(verb, options);
            return EXIT_DONE;
        }
        if (found == ':') return cli_refuse(verb, "%s needs an argument", arguments[before]);
        if (found == '?')
            return cli_refuse(verb, "option %s is not known; see dcpar %s --help", arguments[before], verb->name);
        if (found == 1 && optarg[0] != '\0' && optind - before == 1 && arguments[before] == optarg) {
            if (word_count == most) return cli_refuse(verb, "unexpected argument %s", optarg);
            words[word_count++] = optarg;
            continue;
        }
        const int status = set_option(verb, &options[found - 2], optarg);
        if (status >= 0) return status;
    }
    for (; optind < count; ++optind) { /* after "--" */
        if (word_count == most) return cli_refuse(verb, "unexpected argument %s", arguments[optind]);
        words[word_count++] = arguments[optind];
    }
    return -1;
}

/* ------------------------------------------------------------------------------------------------ planning */

static int set_sizes(const cli_verb *verb, const char *text, int32_t sizes[64], dcpar_planner_options *options) {
    int32_t count = 0;
    for (const char *rest = text; *rest != '\0'; ++count) {
        char *end;
        const long value = strtol(rest, &end, 10);
        if (end == rest || (*end != ',' && *end != '\0') || value < 1 || value > INT32_MAX || count == 64)
            return cli_refuse(verb, "--sp-sizes %s: expected up to 64 integers with commas between", text);
        if (count > 0 && value <= sizes[count - 1]) return cli_refuse(verb, "--sp-sizes %s: sizes must increase", text);
        sizes[count] = (int32_t)value;
        rest = *end == ',' ? end + 1 : end;
    }
    options->sp_sizes = sizes;
    options->sp_size_count = count;
    return -1;
}

int cli_set_planning(const cli_verb *verb, const cli_planning *planning, int32_t sizes[64],
                     dcpar_planner_options *options, bool *split) {
    if (planning->world > INT32_MAX || planning->g_min > INT32_MAX || planning->g_max > INT32_MAX ||
        planning->buckets > INT32_MAX)
        return cli_refuse(verb, "a number of ranks, repeats or buckets is above %d", INT32_MAX);
    options->world = (int32_t)planning->world;
    options->tokens_per_iteration = planning->tokens;
    options->sequences_per_iteration = planning->sequences;
    options->seed = (uint64_t)planning->seed;
    options->bucket_count = (int32_t)planning->buckets;
    options->epoch = planning->epoch;
    options->memory = planning->memory;
    options->g_min = (int32_t)planning->g_min;
    options->g_max = (int32_t)planning->g_max;
    if (strcmp(planning->order, "file") == 0)
        options->order = DCPAR_ORDER_FILE;
    else if (strcmp(planning->order, "seeded") != 0)
        return cli_refuse(verb, "--order %s: it is seeded or file", planning->order);
    *split = strcmp(planning->on_too_long, "split") == 0;
    if (strcmp(planning->on_too_long, "drop") == 0)
        options->on_too_long = DCPAR_TOO_LONG_DROP;
    else if (!*split && strcmp(planning->on_too_long, "refuse") != 0)
        return cli_refuse(verb, "--on-too-long %s: it is refuse, drop or split", planning->on_too_long);
    return planning->sp_sizes != NULL ? set_sizes(verb, planning->sp_sizes, sizes, options) : -1;
}

int32_t cli_split(char *text, const char **names, int32_t most) {
    int32_t count = 0;
    for (char *rest = text; rest != NULL;) {
        char *comma = strchr(rest, ',');
        if (comma != NULL) *comma = '\0';
        if (count == most) return -1;
        names[count++] = rest;
        rest = comma != NULL ? comma + 1 : NULL;
    }
    return count;
}

/* ----------------------------------------------------------------------------------------------- interrupt */

/* A signal handler has nowhere else to leave its word. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

void cli_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_interrupted(void) { return interrupted != 0; }
