/* The program as people meet it: what it prints, and how it refuses. */
#define _XOPEN_SOURCE 700 /* mkdtemp, popen */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

static char folder[64], output[1 << 16];

/* Runs `dcpar ARGUMENTS` in the test's folder; both streams go to output. Returns the exit status. */
static int dcpar(const char *arguments) {
    char command[1000];
    snprintf(command, sizeof command, "cd %s && '%s' %s 2>&1", folder, getenv("DCPAR_PROGRAM"), arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t size = fread(output, 1, sizeof output - 1, pipe);
    output[size] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_file(const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* One sentence, one line, with these words in it. */
static void assert_refused(const char *arguments, const char *words) {
    const int status = dcpar(arguments);
    if (status != 2 || strstr(output, words) == NULL || strchr(output, '\n') != strrchr(output, '\n'))
        fail_msg("dcpar %s: exit status %d, expected 2 and \"%s\", got: %s", arguments, status, words, output);
}

/* Heads 28, kv 28; up to 100 tokens fit on one rank, 200 on two: a token takes 10 bytes. */
static const char profile[] = "{\"format\": \"dcpar-profile\", \"format_version\": 1, \"model\": \"m\", \"device\": "
                              "\"d\", \"method\": \"ulysses\","
                              "\"version\": \"1\", \"layers\": 1, \"heads\": 28, \"kv_heads\": 28, \"world\": 0, "
                              "\"memory\": 1000, \"max_length\": 0,"
                              "\"step_seconds\": 0.1, \"rows\": ["
                              "{\"length\": 100, \"sp\": 1, \"batch\": 1, \"fits\": true, \"forward\": 1, "
                              "\"backward\": 2, \"constant_seconds\": 0.5,"
                              " \"layer_bytes\": 1000, \"input_bytes\": 0, \"constant_bytes\": 0},"
                              "{\"length\": 100, \"sp\": 2, \"batch\": 1, \"fits\": true, \"forward\": %s, "
                              "\"backward\": 1.2, \"constant_seconds\": 0.5,"
                              " \"layer_bytes\": 500, \"input_bytes\": 0, \"constant_bytes\": 0}]}";

static void write_profile(const char *name, const char *forward) {
    char text[2000];
    snprintf(text, sizeof text, profile, forward);
    write_file(name, text);
}

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dcpar-cli-XXXXXX");
    if (getenv("DCPAR_PROGRAM") == NULL) return 0;
    assert_non_null(mkdtemp(folder));
    write_profile("profile.json", "0.6");
    write_file("lengths.txt", "10\n100\n20\n0\n77\n");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return getenv("DCPAR_PROGRAM") == NULL ? 0 : system(command);
}

static void a_plan_in_json_has_every_sequence_once(void **state) {
    (void)state;
    assert_int_equal(dcpar("plan lengths.txt --profile profile.json --world 2 --sequences-per-iteration 3 --json"), 0);
    int seen[5] = {0}, iterations = 0;
    bool summary = false;
    for (char *line = strtok(output, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        size_t i, j;
        json_t *microbatch, *row;
        json_array_foreach(json_object_get(object, "microbatches"), i, microbatch)
            json_array_foreach(json_object_get(microbatch, "rows"), j, row)++ seen[json_integer_value(row)];
        iterations += json_object_get(object, "microbatches") != NULL;
        json_t *total = json_object_get(object, "summary");
        if (total != NULL) {
            summary = true;
            assert_int_equal(json_integer_value(json_object_get(total, "used")), 4);
            assert_int_equal(json_integer_value(json_object_get(total, "dropped")), 1);
            assert_int_equal(json_integer_value(json_object_get(total, "total")), 5);
            json_t *reasons = json_object_get(total, "dropped_by_reason");
            assert_int_equal(json_integer_value(json_object_get(reasons, "empty")), 1);
        }
        json_decref(object);
    }
    assert_int_equal(iterations, 2);
    assert_true(summary);
    for (int row = 0; row < 5; ++row) assert_int_equal(seen[row], row == 3 ? 0 : 1);
}

static void lengths_come_from_standard_input(void **state) {
    (void)state;
    assert_int_equal(dcpar("plan - --profile profile.json --world 3 <lengths.txt"), 0);
    assert_non_null(strstr(output, "used"));
}

static void what_is_wrong_is_said_in_one_sentence(void **state) {
    (void)state;
    write_file("bad.txt", "5\n-5\n");
    assert_refused("plan bad.txt --profile profile.json", "line 2");
    write_file("bad.txt", "5\n6\n9223372036854775807\n");
    assert_refused("plan bad.txt --profile profile.json", "line 3");
    write_file("bad.txt", "abc\n");
    assert_refused("plan bad.txt --profile profile.json", "line 1");
    write_file("bad.txt", "");
    assert_refused("plan bad.txt --profile profile.json", "nothing to train on");
    write_file("bad.txt", "0\n");
    assert_refused("plan bad.txt --profile profile.json", "nothing to train on");
    assert_refused("plan lengths.txt --profile profile.json --world 8 --sp-sizes 8", "28 heads are not divisible by 8");
    assert_refused("plan lengths.txt --profile profile.json --world 8 --sp-sizes 8", "1, 2, 4");
    assert_refused("plan lengths.txt --profile profile.json --policy best", "bucket, inter, intra, buddy");
    assert_refused("plan lengths.txt --profile profile.json --wrld 8", "--wrld");
    assert_refused("plan lengths.txt --profile profile.json --world two", "--world two");
    assert_refused("plan lengths.txt --profile profile.json --world 0", "at least 1");
    assert_refused("plan lengths.txt --profile profile.json --world", "needs an argument");
    assert_refused("plan lengths.txt", "--profile is missing");
    assert_refused("plan --profile profile.json", "LENGTHS is missing");
    assert_refused("plan lengths.txt more.txt --profile profile.json", "unexpected argument more.txt");
    assert_refused("plan lengths.txt --profile profile.json --tokens-per-iteration 5 --sequences-per-iteration 5",
                   "only one");
    assert_refused("train . --weigh ranks", "--weigh ranks: it is tokens or sequences");
    assert_refused("training", "no verb \"training\"");
    assert_refused("train lengths.txt --model giant", "neither a file");
    assert_refused("plan none.txt --profile profile.json", "none.txt");
    assert_refused("plan lengths.txt --profile none.json", "none.json");
}

static void a_sequence_that_fits_nowhere_is_refused_dropped_or_cut(void **state) {
    (void)state;
    write_file("long.txt", "10\n500\n10\n");
    assert_refused("plan long.txt --profile profile.json --world 2",
                   "row 1 has 500 tokens; the most that fits is 200, on 2");
    assert_int_equal(dcpar("plan long.txt --profile profile.json --world 2 --on-too-long drop --json"), 0);
    assert_non_null(strstr(output, "\"dropped_by_reason\": {\"too long\": 1}"));
    assert_int_equal(dcpar("plan long.txt --profile profile.json --world 2 --on-too-long split --json"), 0);
    assert_non_null(strstr(output, "\"used\": 5"));
}

static void long_sequences_may_be_truncated(void **state) {
    (void)state;
    write_file("long.txt", "10\n500\n10\n");
    assert_int_equal(dcpar("plan long.txt --profile profile.json --world 2 --truncate 150 --json"), 0);
    assert_non_null(strstr(output, "\"used\": 3"));
    assert_non_null(strstr(output, "\"tokens\": 170"));
}

static void lengths_that_are_all_equal_are_pointed_out(void **state) { /* S6 */
    (void)state;
    write_file("equal.txt", "70\n70\n0\n70\n");
    assert_int_equal(dcpar("plan equal.txt --profile profile.json"), 0);
    const char *said = strstr(output, "All sequences have a length of 70: there is nothing to gain");
    assert_non_null(said);
    assert_null(strstr(strchr(said, '\n'), "nothing to gain")); /* once is enough */
    assert_int_equal(dcpar("plan lengths.txt --profile profile.json"), 0);
    assert_null(strstr(output, "nothing to gain"));
}

static void the_number_of_buckets_is_as_asked(void **state) {
    (void)state;
    assert_int_equal(dcpar("plan lengths.txt --profile profile.json --buckets 1 --json"), 0);
    for (const char *rest = output; (rest = strstr(rest, "\"padded_length\": ")) != NULL; ++rest)
        assert_int_equal(strtol(rest + strlen("\"padded_length\": "), NULL, 10), 100);
    assert_refused("plan lengths.txt --profile profile.json --buckets 5000", "5000 buckets: there may be 1 to 4096");
}

static void a_bad_time_in_a_profile_is_refused_by_row(void **state) {
    (void)state;
    const char *const times[] = {"0", "-1", "1e999", "null"};
    for (int i = 0; i < 4; ++i) {
        write_profile("broken.json", times[i]);
        assert_int_equal(dcpar("plan lengths.txt --profile broken.json"), 2);
        assert_non_null(strstr(output, "broken.json"));
        if (i != 2) assert_non_null(strstr(output, "row 1"));
    }
    write_file("broken.json", "{");
    assert_refused("plan lengths.txt --profile broken.json", "line 1");
}

static void help_and_version_are_there(void **state) {
    (void)state;
    assert_int_equal(dcpar("--help"), 0);
    assert_non_null(strstr(output, "buddy"));
    assert_int_equal(dcpar("plan --help"), 0);
    assert_non_null(strstr(output, "--tokens-per-iteration"));
    assert_int_equal(dcpar("--version"), 0);
    assert_non_null(strstr(output, DCPAR_VERSION));
    assert_int_equal(dcpar(""), 2);
}

static void nothing_is_left_of_a_failed_profile(void **state) {
    (void)state;
    char path[200];
    assert_refused("profile --model tiny --memory 100K --out p.json", "not even one token fits");
    snprintf(path, sizeof path, "%s/p.json", folder);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(dcpar("profile --model tiny --memory 64M --longest 64 --out nowhere/p.json"), 1);
    assert_non_null(strstr(output, "nowhere/p.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_in_json_has_every_sequence_once),
        cmocka_unit_test(lengths_come_from_standard_input),
        cmocka_unit_test(what_is_wrong_is_said_in_one_sentence),
        cmocka_unit_test(a_sequence_that_fits_nowhere_is_refused_dropped_or_cut),
        cmocka_unit_test(long_sequences_may_be_truncated),
        cmocka_unit_test(lengths_that_are_all_equal_are_pointed_out),
        cmocka_unit_test(the_number_of_buckets_is_as_asked),
        cmocka_unit_test(a_bad_time_in_a_profile_is_refused_by_row),
        cmocka_unit_test(help_and_version_are_there),
        cmocka_unit_test(nothing_is_left_of_a_failed_profile),
    };
    if (getenv("DCPAR_PROGRAM") == NULL) return 0;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
