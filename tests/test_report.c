#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/figures.h"
#include "report/svg.h"
#include "report_example.h"
#include "testing.h"

static char folder[] = "/tmp/dcpar_report_XXXXXX";
static char path[64];

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/report.html", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when a test left a file */
}

static char *contents(const char *name) {
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = calloc((size_t)size + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    return text;
}

static char *written(const dcpar_report *report) {
    dcpar_error error;
    assert_ok(dcpar_report_write(report, path, &error));
    return contents(path);
}

static int files_in_folder(void) {
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    int count = 0;
    while (readdir(directory) != NULL) ++count;
    closedir(directory);
    return count - 2;
}

/* Without strstr: under the address sanitizer every call of it measures the whole rest of the text. */
static int64_t occurrences(const char *text, const char *word) {
    const size_t length = strlen(word);
    int64_t count = 0;
    for (; *text != '\0'; ++text) count += *text == *word && strncmp(text, word, length) == 0;
    return count;
}

/* ------------------------------------------------------------------------------------- well-formed pages */

enum { deepest = 32, longest_name = 32 };

/* Goes past a tag's attributes, each name="value"; returns where the tag ends ('>' or "/>"). */
static const char *skip_attributes(const char *at) {
    while (*at == ' ') {
        ++at;
        at += strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-12");
        if (*at == '/') break;
        assert_true(at[0] == '=' && at[1] == '"');
        at = strchr(at + 2, '"');
        assert_non_null(at);
        ++at;
    }
    return at;
}

static void assert_entity(const char *at) {
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof entities / sizeof *entities; ++i)
        if (strncmp(at, entities[i], strlen(entities[i])) == 0) return;
    fail_msg("bare & at %.40s", at);
}

/* Every tag is closed in order, every attribute quoted, every special character escaped. */
static void assert_well_formed(const char *text) {
    static const char doctype[] = "<!DOCTYPE html>";
    char names[deepest][longest_name];
    int depth = 0;
    assert_memory_equal(text, doctype, sizeof doctype - 1);
    for (const char *at = text + sizeof doctype - 1; *at != '\0'; ++at) {
        if (*at == '&') assert_entity(at);
        if (*at != '<') continue;
        const bool closing = at[1] == '/';
        const char *name = at + 1 + closing;
        const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz123P");
        assert_in_range(length, 1, longest_name - 1);
        if (closing) {
            assert_true(depth > 0);
            --depth;
            assert_int_equal(strlen(names[depth]), length);
            assert_memory_equal(names[depth], name, length);
            at = name + length;
            assert_int_equal(*at, '>');
            continue;
        }
        at = skip_attributes(name + length);
        if (*at == '/') {
            ++at;
        } else {
            assert_true(depth < deepest);
            snprintf(names[depth++], longest_name, "%.*s", (int)length, name);
        }
        assert_int_equal(*at, '>');
    }
    assert_int_equal(depth, 0);
}

static void assert_page(const char *text) {
    assert_well_formed(text);
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "src="));
    assert_int_equal(occurrences(text, "http"), occurrences(text, "xmlns=\"http")); /* nothing is loaded */
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
}

static void a_page_is_well_formed_and_needs_nothing_else_for_every_world(void **state) {
    (void)state;
    static const int32_t worlds[] = {1, 2, 3, 6, 8, 32, 1024};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; ++i) {
        report_example *example = example_create(worlds[i], 100, 11);
        char *text = written(&example->report);
        assert_page(text);
        int64_t boxes = 0;
        for (int j = 0; j < example_policies * example_timelines; ++j) boxes += 2 * example->timelines[j].count;
        assert_int_equal(occurrences(text, " tokens padded, "), boxes);
        free(text);
        example_destroy(example);
    }
}

static void the_same_report_gives_the_same_bytes_in_every_locale(void **state) {
    (void)state;
    report_example *example = example_create(4, 70, 3);
    char *first = written(&example->report);
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) print_message("no German locale here: same locale twice\n");
    char *second = written(&example->report);
    setlocale(LC_ALL, "C");
    assert_string_equal(first, second);
    free(first);
    free(second);
    example_destroy(example);
}

static void names_are_escaped_and_broken_text_is_replaced(void **state) {
    (void)state;
    report_example *example = example_create(2, 5, 3);
    const dcpar_report_fact fact = {"<key>", "a & b \"c\" 'd' \xff \xc3 \xed\xa0\x80 \x01 \xc3\xa9"};
    example->report.title = "<script>alert(1)</script> & more";
    example->report.facts = &fact;
    example->report.fact_count = 1;
    example->policies[0].name = "<b>&\"x\"";
    example->policies[1].summary = "</h3>";
    char *text = written(&example->report);
    assert_page(text);
    assert_non_null(strstr(text, "<title>&lt;script&gt;alert(1)&lt;/script&gt; &amp; more</title>"));
    assert_non_null(strstr(text, "<dt>&lt;key&gt;</dt><dd>a &amp; b &quot;c&quot; &#39;d&#39; \xef\xbf\xbd "
                                 "\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd \xc3\xa9</dd>"));
    assert_non_null(strstr(text, "&lt;b&gt;&amp;&quot;x&quot;"));
    assert_non_null(strstr(text, "&lt;/h3&gt;"));
    free(text);
    example_destroy(example);
}

/* -------------------------------------------------------------------------------------------- missing parts */

static void a_report_without_anything_is_still_a_page(void **state) {
    (void)state;
    const dcpar_report report = {.title = "", .world = 1};
    char *text = written(&report);
    assert_page(text);
    assert_non_null(strstr(text, "No iteration was run."));
    assert_null(strstr(text, "<h2>Loss"));
    assert_null(strstr(text, "<h2>Timelines"));
    free(text);
    const int64_t empty[] = {0, 0};
    const dcpar_report_policy idle = {.name = DCPAR_REPORT_BASELINE};
    const dcpar_report nothing_ran = {
        .title = "x", .world = 2, .lengths = empty, .length_count = 2, .policies = &idle, .policy_count = 1};
    text = written(&nothing_ran);
    assert_page(text);
    assert_non_null(strstr(text, "Every sequence is empty."));
    free(text);
}

static void unknown_numbers_are_left_out(void **state) {
    (void)state;
    report_example *example = example_create(4, 30, 5);
    for (int64_t i = 0; i < example_policies * 30; ++i) {
        dcpar_report_iteration *one = &example->iterations[i];
        one->loss = one->seconds = one->idle_ratio = one->gradient_norm = one->learning_rate = NAN;
        one->peak_bytes = 0;
    }
    for (int i = 0; i < example_policies * example_timelines; ++i) {
        example->timelines[i].measured_seconds = example->timelines[i].measured_step_seconds = NAN;
        for (int64_t j = 0; j < example->timelines[i].count; ++j) {
            dcpar_report_box *box = (dcpar_report_box *)&example->timelines[i].boxes[j];
            box->measured_start = box->measured_seconds = NAN;
        }
    }
    char *text = written(&example->report);
    assert_page(text);
    assert_null(strstr(text, "<h2>Loss"));
    assert_null(strstr(text, "<th>measured</th>"));
    assert_null(strstr(text, ">measured:"));
    assert_non_null(strstr(text, "is planned to train on"));
    assert_non_null(strstr(text, "<th>planned tokens/s</th>"));
    assert_null(strstr(text, "<th>tokens/s</th>"));
    assert_null(strstr(text, "Error:"));
    free(text);
    example_destroy(example);
}

static void single_unknown_losses_are_gaps(void **state) {
    (void)state;
    report_example *example = example_create(2, 40, 5);
    example->iterations[0].loss = example->iterations[20].loss = example->iterations[39].loss = NAN;
    example->iterations[45].loss = INFINITY;
    example->report.policy_count = 1;
    char *text = written(&example->report);
    assert_page(text);
    const char *line = strstr(text, "<path class=\"line kb\" d=\"M");
    assert_non_null(line);
    const char *gap = strchr(line + 26, 'M');
    assert_true(gap != NULL && gap < strstr(line, "/>"));
    dcpar_figures figures;
    dcpar_error error;
    assert_ok(dcpar_figures_make(&example->report, &figures, &error));
    assert_true(figures.last_loss == example->iterations[38].loss);
    free(text);
    example_destroy(example);
}

/* Where the first axis after `text` begins. */
static double left_edge(const char *text) {
    static const char start[] = "<line class=\"axis\" x1=\"";
    const char *axis = strstr(text, start);
    assert_non_null(axis);
    return strtod(axis + sizeof start - 1, NULL);
}

static void extreme_lengths_and_many_sp_sizes_have_their_place(void **state) {
    (void)state;
    const int64_t lengths[] = {1, 2, 3, DCPAR_LENGTH_MAX, 0, 5};
    dcpar_report_box boxes[20];
    for (int i = 0; i < 20; ++i)
        boxes[i] = (dcpar_report_box){.sp = 20 - i,
                                      .sequences = 1,
                                      .padded_length = 1,
                                      .planned_start = i,
                                      .planned_seconds = i % 3,
                                      .measured_start = -1,
                                      .measured_seconds = 2};
    const dcpar_report_timeline timeline = {.planned_seconds = 1, .measured_seconds = NAN, .boxes = boxes, .count = 20};
    const dcpar_report_policy policy = {.name = "x", .timelines = &timeline, .timeline_count = 1};
    const dcpar_report report = {
        .title = "x", .world = 20, .lengths = lengths, .length_count = 6, .policies = &policy, .policy_count = 1};
    char *text = written(&report);
    assert_page(text);
    assert_non_null(strstr(text, "SP 8 and more"));
    assert_null(strstr(text, "class=\"s8\""));
    assert_null(strstr(text, "width=\"-"));
    const char *timelines = strstr(text, "<h2>Timelines");
    assert_non_null(timelines);
    const double left = left_edge(timelines);
    int64_t seen = 0;
    for (const char *at = strstr(timelines, "<rect class=\"s"); at != NULL; at = strstr(at + 1, "<rect class=\"s")) {
        double x;
        if (sscanf(at, "<rect class=\"s%*d\" x=\"%lf", &x) != 1) continue;
        assert_true(x >= left); /* even a box with a start of -1 */
        ++seen;
    }
    assert_true(seen > 20);
    free(text);
}

/* ------------------------------------------------------------------------------------------------- numbers */

static const dcpar_report_iteration slow_iterations[] = {{.iteration = 0,
                                                          .tokens = 1000,
                                                          .loss = 5,
                                                          .seconds = 1,
                                                          .predicted_seconds = 1.1,
                                                          .idle_ratio = 0.5,
                                                          .predicted_idle_ratio = NAN,
                                                          .peak_bytes = 1 << 20},
                                                         {.iteration = 1,
                                                          .tokens = 3000,
                                                          .loss = 4,
                                                          .seconds = 3,
                                                          .predicted_seconds = 3,
                                                          .idle_ratio = 0.1,
                                                          .predicted_idle_ratio = NAN,
                                                          .peak_bytes = 3 << 20},
                                                         {.iteration = 2,
                                                          .tokens = 500,
                                                          .loss = NAN,
                                                          .seconds = NAN,
                                                          .predicted_seconds = 0.5,
                                                          .idle_ratio = NAN,
                                                          .predicted_idle_ratio = NAN}};
static const dcpar_report_iteration fast_iterations[] = {{.iteration = 0,
                                                          .tokens = 4500,
                                                          .loss = 4.25,
                                                          .seconds = 1.5,
                                                          .predicted_seconds = 1.8,
                                                          .idle_ratio = 0.02,
                                                          .predicted_idle_ratio = 0.01,
                                                          .peak_bytes = 5 << 20}};
static const dcpar_report_policy two_policies[] = {
    {.name = "gro\xc3\x9f", .iterations = fast_iterations, .count = 1},
    {.name = DCPAR_REPORT_BASELINE, .iterations = slow_iterations, .count = 3}};
static const dcpar_report two_policy_report = {.title = "two", .world = 2, .policies = two_policies, .policy_count = 2};

static void figures_are_sums_over_sums_and_medians(void **state) {
    (void)state;
    dcpar_figures figures[2];
    dcpar_error error;
    assert_ok(dcpar_figures_make(&two_policy_report, figures, &error));
    assert_true(fabs(figures[1].throughput - 1000) < 1e-9);
    assert_true(fabs(figures[0].throughput - 3000) < 1e-9);
    assert_true(fabs(figures[0].planned_speedup - 4500 / 1.8 / figures[1].planned_throughput) < 1e-12);
    assert_true(fabs(figures[0].speedup - 3) < 1e-12 && fabs(figures[1].speedup - 1) < 1e-12);
    assert_true(fabs(figures[1].idle - (0.5 * 1 + 0.1 * 3) / 4) < 1e-12);
    assert_true(isnan(figures[1].planned_idle));
    assert_true(fabs(figures[1].seconds - 2) < 1e-12);
    assert_true(fabs(figures[1].error - 0.05) < 1e-12); /* of 0.1 and 0 */
    assert_int_equal(figures[1].peak_bytes, 3 << 20);
    assert_int_equal(figures[1].tokens, 4500);
    assert_true(figures[1].last_loss == 4);
}

static void what_was_only_planned_is_not_compared_with_what_was_measured(void **state) {
    (void)state;
    const dcpar_report_iteration planned = {.tokens = 9000, .loss = NAN, .seconds = NAN, .predicted_seconds = 1};
    const dcpar_report_policy policies[] = {
        {.name = "plan", .iterations = &planned, .count = 1}, two_policies[0], two_policies[1]};
    const dcpar_report report = {.title = "x", .world = 2, .policies = policies, .policy_count = 3};
    dcpar_figures figures[3];
    dcpar_error error;
    assert_ok(dcpar_figures_make(&report, figures, &error));
    assert_true(fabs(figures[0].throughput - 9000) < 1e-9);
    assert_false(figures[0].measured);
    assert_true(isnan(figures[0].speedup));
    assert_int_equal(dcpar_figures_fastest(figures, 3), 1);
    assert_int_equal(dcpar_figures_slowest(figures, 3), 2);
    char *text = written(&report);
    assert_page(text);
    assert_non_null(strstr(text, "<td>9.00 k</td>"));
    free(text);
}

static void the_table_is_aligned_on_the_terminal(void **state) {
    (void)state;
    dcpar_error error;
    FILE *file = tmpfile();
    assert_ok(dcpar_report_print_table(file, &two_policy_report, &error));
    rewind(file);
    char text[1024];
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(
        text,
        "                            speedup               idle       seconds an iteration\n"
        "policy  tokens/s  measured  planned  measured  planned  measured  planned   error  last loss\n"
        "gro\xc3\x9f      3.00 k    3.00 \xc3\x97   2.56 \xc3\x97     2.0 %    1.0 %    1.50 s   1.80 s  20.0 %     "
        "4.2500\n"
        "bucket    1.00 k    1.00 \xc3\x97   1.00 \xc3\x97    20.0 %        \xe2\x80\x93    2.00 s   1.53 s   "
        "5.0 %     "
        "4.0000\n");
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL) return;
    assert_int_equal(dcpar_report_print_table(full, &two_policy_report, &error), DCPAR_IO);
    fclose(full);
}

static void the_result_is_said_in_one_sentence(void **state) {
    (void)state;
    char *text = written(&two_policy_report);
    assert_non_null(strstr(text, "<b>gro\xc3\x9f</b> trained on 3.00\xc2\xa0times as many tokens per second as "
                                 "<b>bucket</b> (3.00\xc2\xa0k against 1.00\xc2\xa0k); its ranks were idle "
                                 "2.0\xc2\xa0% of the time, and with the latter 20.0\xc2\xa0%."));
    free(text);
    dcpar_report one = two_policy_report;
    one.policy_count = 1;
    text = written(&one);
    assert_non_null(strstr(text, "<b>gro\xc3\x9f</b> ran 1\xc2\xa0iteration at 3.00\xc2\xa0k tokens per second; its "
                                 "ranks were idle 2.0\xc2\xa0% of the time."));
    assert_null(strstr(text, "speedup</th>"));
    free(text);
}

static void all_timelines_share_one_time_scale(void **state) {
    (void)state;
    const dcpar_report_box box = {
        .sp = 1, .sequences = 1, .padded_length = 8, .planned_seconds = 0.5, .measured_seconds = 2};
    const dcpar_report_timeline timelines[] = {
        {.planned_seconds = 1, .measured_seconds = 2, .boxes = &box, .count = 1},
        {.planned_seconds = 0.5, .measured_seconds = 4, .boxes = &box, .count = 1}};
    const dcpar_report_policy policies[] = {{.name = "a", .timelines = timelines, .timeline_count = 1},
                                            {.name = "b", .timelines = timelines + 1, .timeline_count = 1}};
    const dcpar_report report = {.title = "scale", .world = 1, .policies = policies, .policy_count = 2};
    const double seconds[] = {1, 2, 0.5, 4};
    char *text = written(&report);
    const double left = left_edge(text);
    const char *at = text;
    double scale = 0;
    for (int i = 0; i < 4; ++i) {
        at = strstr(at + 1, "<line class=\"end\" x1=\"");
        assert_non_null(at);
        const double width = strtod(at + 22, NULL) - left;
        if (i == 0) scale = width;
        assert_true(fabs(width - scale * seconds[i]) < 0.05);
    }
    free(text);
}

static void axes_have_a_few_round_ticks_inside(void **state) {
    (void)state;
    const uint64_t seed = 5;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 20000; ++i) {
        const double from = i % 3 == 0 ? 0 : 100 * dcpar_random_unit(seed, 0, i);
        const double to = from + pow(10, 12 * dcpar_random_unit(seed, 1, i) - 4);
        const int wanted = 2 + (int)(i % 10);
        const dcpar_axis axis = dcpar_axis_make((dcpar_axis_kind)(i % 3), from, to, 0, 100, wanted);
        const int ticks = dcpar_axis_ticks(&axis);
        assert_in_range(ticks, wanted >= 4 ? 1 : 0, wanted + 1);
        for (int j = 0; j < ticks; ++j) {
            char text[DCPAR_UNIT_TEXT];
            const double place = dcpar_axis_place(&axis, dcpar_axis_tick(&axis, j, text));
            assert_true(place > -0.01 && place < 100.01);
            assert_true(strlen(text) < 24);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ failures */

static void a_report_that_fails_leaves_the_old_file_and_nothing_else(void **state) {
    (void)state;
    dcpar_error error;
    report_example *example = example_create(4, 20, 3);
    char *old = written(&example->report);
    assert_int_equal(files_in_folder(), 1);

    dcpar_report_box *box = (dcpar_report_box *)&example->timelines[1].boxes[2];
    const dcpar_report_box kept = *box;
    box->first_rank = 3;
    box->sp = 2;
    assert_int_equal(dcpar_report_write(&example->report, path, &error), DCPAR_INVALID);
    assert_string_equal(error.text, "policy bucket, iteration 13: micro-batch 2 is on ranks 3 to 4 of a world of 4");
    *box = kept;

    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    const struct rlimit small = {4096, limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const dcpar_status status = dcpar_report_write(&example->report, path, &error);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(status, DCPAR_IO);
    assert_non_null(strstr(error.text, path));

    assert_int_equal(files_in_folder(), 1);
    char *now = contents(path);
    assert_string_equal(old, now);
    free(old);
    free(now);
    example_destroy(example);
}

static void what_is_not_a_file_is_refused_and_links_are_followed(void **state) {
    (void)state;
    dcpar_error error;
    char name[96];
    snprintf(name, sizeof name, "%s/no/such/folder.html", folder);
    assert_int_equal(dcpar_report_write(&two_policy_report, name, &error), DCPAR_IO);
    assert_non_null(strstr(error.text, "folder.html: No such file"));
    assert_int_equal(dcpar_report_write(&two_policy_report, folder, &error), DCPAR_IO);
    assert_non_null(strstr(error.text, "not a regular file"));
    assert_int_equal(dcpar_report_write(&two_policy_report, "/dev/null", NULL), DCPAR_IO);
    dcpar_report no_world = two_policy_report;
    no_world.world = 0;
    assert_int_equal(dcpar_report_write(&no_world, path, &error), DCPAR_INVALID);

    char *text = written(&two_policy_report);
    snprintf(name, sizeof name, "%s/link.html", folder);
    assert_int_equal(symlink(path, name), 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_ok(dcpar_report_write(&two_policy_report, name, &error));
    struct stat status;
    assert_int_equal(lstat(name, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    unlink(name);
    char *again = contents(path);
    assert_string_equal(text, again);
    free(text);
    free(again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_well_formed_and_needs_nothing_else_for_every_world),
        cmocka_unit_test(the_same_report_gives_the_same_bytes_in_every_locale),
        cmocka_unit_test(names_are_escaped_and_broken_text_is_replaced),
        cmocka_unit_test(a_report_without_anything_is_still_a_page),
        cmocka_unit_test(unknown_numbers_are_left_out),
        cmocka_unit_test(single_unknown_losses_are_gaps),
        cmocka_unit_test(extreme_lengths_and_many_sp_sizes_have_their_place),
        cmocka_unit_test(figures_are_sums_over_sums_and_medians),
        cmocka_unit_test(what_was_only_planned_is_not_compared_with_what_was_measured),
        cmocka_unit_test(the_table_is_aligned_on_the_terminal),
        cmocka_unit_test(the_result_is_said_in_one_sentence),
        cmocka_unit_test(all_timelines_share_one_time_scale),
        cmocka_unit_test(axes_have_a_few_round_ticks_inside),
        cmocka_unit_test(a_report_that_fails_leaves_the_old_file_and_nothing_else),
        cmocka_unit_test(what_is_not_a_file_is_refused_and_links_are_followed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
