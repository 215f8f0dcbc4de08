#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "report/progress.h"
#include "report/units.h"
#include "testing.h"

#define DASH "\xe2\x80\x93"

static void bytes_counts_and_seconds_have_three_digits_and_a_unit(void **state) {
    (void)state;
    char text[DCPAR_UNIT_TEXT];
    assert_string_equal(dcpar_text_bytes(0, text), "0 B");
    assert_string_equal(dcpar_text_bytes(512, text), "512 B");
    assert_string_equal(dcpar_text_bytes(999, text), "999 B");
    assert_string_equal(dcpar_text_bytes(1023, text), "1.00 KiB");
    assert_string_equal(dcpar_text_bytes(3 << 19, text), "1.50 MiB");
    assert_string_equal(dcpar_text_bytes(INT64_C(80) << 30, text), "80.0 GiB");
    assert_string_equal(dcpar_text_bytes(INT64_MAX, text), "8.00 EiB");
    assert_string_equal(dcpar_text_bytes(-2048, text), "-2.00 KiB");

    assert_string_equal(dcpar_text_count(0, text), "0");
    assert_string_equal(dcpar_text_count(950, text), "950");
    assert_string_equal(dcpar_text_count(9.5, text), "9.50");
    assert_string_equal(dcpar_text_count(999.6, text), "1.00 k");
    assert_string_equal(dcpar_text_count(9996, text), "10.0 k");
    assert_string_equal(dcpar_text_count(12345, text), "12.3 k");
    assert_string_equal(dcpar_text_count(999499, text), "999 k");
    assert_string_equal(dcpar_text_count(999500, text), "1.00 M");
    assert_string_equal(dcpar_text_count(NAN, text), DASH);

    assert_string_equal(dcpar_text_seconds(0, text), "0 s");
    assert_string_equal(dcpar_text_seconds(2.5e-7, text), "250 ns");
    assert_string_equal(dcpar_text_seconds(12e-6, text), "12.0 \xc2\xb5s");
    assert_string_equal(dcpar_text_seconds(0.0034, text), "3.40 ms");
    assert_string_equal(dcpar_text_seconds(0.9996, text), "1.00 s");
    assert_string_equal(dcpar_text_seconds(59.96, text), "1 min 00 s");
    assert_string_equal(dcpar_text_seconds(320, text), "5 min 20 s");
    assert_string_equal(dcpar_text_seconds(3599.7, text), "1 h 00 min");
    assert_string_equal(dcpar_text_seconds(7500, text), "2 h 05 min");
    assert_string_equal(dcpar_text_seconds(86399, text), "1 d 00 h");
    assert_string_equal(dcpar_text_seconds(273600, text), "3 d 04 h");
    assert_string_equal(dcpar_text_seconds(-0.5, text), "-500 ms");
    assert_string_equal(dcpar_text_seconds(INFINITY, text), DASH);

    assert_string_equal(dcpar_text_percent(0.0123, text), "1.2 %");
    assert_string_equal(dcpar_text_percent(1, text), "100 %");
    assert_string_equal(dcpar_text_percent(-0.0001, text), "0.0 %");
    assert_string_equal(dcpar_text_percent(NAN, text), DASH);
    assert_string_equal(dcpar_text_fixed(-0.0004, 3, text), "0.000");
    assert_string_equal(dcpar_text_fixed(1e300, 2, text), "1.00e+300");
}

static void integers_are_grouped_by_three(void **state) {
    (void)state;
    char text[DCPAR_UNIT_TEXT];
    assert_string_equal(dcpar_text_integer(0, text), "0");
    assert_string_equal(dcpar_text_integer(999, text), "999");
    assert_string_equal(dcpar_text_integer(1000, text), "1,000");
    assert_string_equal(dcpar_text_integer(-12345678, text), "-12,345,678");
    assert_string_equal(dcpar_text_integer(INT64_MIN, text), "-9,223,372,036,854,775,808");
}

static void exact_numbers_read_back_as_the_same_double(void **state) {
    (void)state;
    char text[DCPAR_UNIT_TEXT];
    assert_string_equal(dcpar_text_exact(0.1, text), "0.1");
    assert_string_equal(dcpar_text_exact(NAN, text), "null");
    const uint64_t seed = 7;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 20000; ++i) {
        const double exponent = 600 * dcpar_random_unit(seed, 0, i) - 300;
        const double value = (dcpar_random_unit(seed, 1, i) - 0.5) * pow(10, exponent);
        assert_true(strtod(dcpar_text_exact(value, text), NULL) == value);
    }
}

static void no_number_overflows_its_text(void **state) {
    (void)state;
    const double values[] = {0,       -1e-320, 1e-12, 0.9994999, 9.9949999, 99.9499,
                             999.499, 1e6,     1e14,  1e15,      1e22,      -1.7e308};
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
        char text[DCPAR_UNIT_TEXT];
        assert_true(strlen(dcpar_text_count(values[i], text)) < 24);
        assert_true(strlen(dcpar_text_seconds(values[i], text)) < 24);
        assert_true(strlen(dcpar_text_percent(values[i], text)) < 32);
        assert_true(strlen(dcpar_text_exact(values[i], text)) < 32);
        assert_true(strlen(dcpar_text_fixed(values[i], 17, text)) < DCPAR_UNIT_TEXT);
    }
}

static void a_progress_line_says_what_is_done_and_what_is_left(void **state) {
    (void)state;
    char line[DCPAR_PROGRESS_LINE];
    dcpar_progress_line("profile", 12, 40, 12, "SP 2", 100, line);
    assert_string_equal(line, "profile  12/40  30 %  elapsed 12.0 s, rest 28.0 s  SP 2");
    dcpar_progress_line("read", 1234, 0, 3, NULL, 100, line);
    assert_string_equal(line, "read  1,234  elapsed 3.00 s");
    dcpar_progress_line("train", 0, 10, 0.5, "", 100, line);
    assert_string_equal(line, "train  0/10  0 %  elapsed 500 ms");
    dcpar_progress_line("train", 10, 10, 5, NULL, 100, line);
    assert_string_equal(line, "train  10/10  100 %  elapsed 5.00 s");
    dcpar_progress_line("train", 1, 2, 5e-6, NULL, 25, line);
    assert_string_equal(line, "train  1/2  50 %  elapsed");
    dcpar_progress_line("\xc2\xb5\xc2\xb5", 1, 0, 0, NULL, 1, line);
    assert_string_equal(line, "\xc2\xb5");
    char text[2 * DCPAR_PROGRESS_LINE];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    dcpar_progress_line("long", 1, 2, 1, text, 80, line);
    assert_int_equal(strlen(line), 80);
}

/* What an update and the end of a progress line write into a plain file. */
static void written_progress(bool quiet, double interval, char *text, size_t size) {
    FILE *file = tmpfile();
    assert_non_null(file);
    dcpar_progress progress;
    dcpar_progress_start(&progress, file, "work", 4, quiet);
    assert_false(progress.live);
    if (!quiet) assert_true(progress.interval >= 1);
    progress.interval = interval;
    for (int64_t done = 1; done <= 4; ++done) dcpar_progress_update(&progress, done, "text");
    dcpar_progress_finish(&progress);
    dcpar_progress_finish(&progress);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void a_log_file_gets_plain_lines_now_and_then_and_quiet_gets_none(void **state) {
    (void)state;
    char text[2048];
    written_progress(false, 0, text, sizeof text);
    assert_non_null(strstr(text, "work  1/4  25 %"));
    assert_non_null(strstr(text, "work  4/4  100 %"));
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\x1b'));
    written_progress(false, 60, text, sizeof text);
    assert_string_equal(text, "");
    written_progress(true, 0, text, sizeof text);
    assert_string_equal(text, "");
}

static void a_terminal_gets_one_line_that_is_removed(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    dcpar_progress progress;
    dcpar_progress_start(&progress, file, "work", 4, false);
    progress.live = true;
    progress.interval = 0;
    dcpar_progress_update(&progress, 1, NULL);
    dcpar_progress_update(&progress, 2, NULL);
    dcpar_progress_finish(&progress);
    char text[512];
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_null(strchr(text, '\n'));
    assert_string_equal(text + strlen(text) - 4, "\r\x1b[K");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_counts_and_seconds_have_three_digits_and_a_unit),
        cmocka_unit_test(integers_are_grouped_by_three),
        cmocka_unit_test(exact_numbers_read_back_as_the_same_double),
        cmocka_unit_test(no_number_overflows_its_text),
        cmocka_unit_test(a_progress_line_says_what_is_done_and_what_is_left),
        cmocka_unit_test(a_log_file_gets_plain_lines_now_and_then_and_quiet_gets_none),
        cmocka_unit_test(a_terminal_gets_one_line_that_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
