#define _XOPEN_SOURCE 700
#include <fcntl.h>

#include "data_testing.h"

static void check_lengths(const char *path, const int64_t *wanted, int64_t wanted_count) {
    dcpar_error error;
    int64_t *lengths = NULL, count = -1;
    assert_ok(dcpar_lengths_read(path, &lengths, &count, &error));
    assert_int_equal(count, wanted_count);
    assert_non_null(lengths);
    for (int64_t row = 0; row < count; ++row) assert_int_equal(lengths[row], wanted[row]);
    free(lengths);
}

static void check_text(const char *text, const int64_t *wanted, int64_t count) {
    write_text("L", text);
    check_lengths("L", wanted, count);
}

/* A refusal names the file and, where `part` asks for it, the line; outputs are left alone. */
static void refuse_file(const char *path, dcpar_status wanted, const char *part) {
    dcpar_error error;
    int64_t *lengths = NULL, count = -1;
    assert_fails(dcpar_lengths_read(path, &lengths, &count, &error), wanted, part);
    assert_non_null(strstr(error.text, path));
    assert_null(lengths);
    assert_int_equal(count, -1);
}

static void refuse_text(const char *text, const char *part) {
    write_text("L", text);
    refuse_file("L", DCPAR_INVALID, part);
}

static void text_is_one_integer_a_line(void **state) {
    (void)state;
    check_text("10\n200\n0\n1099511627776\n", (int64_t[]){10, 200, 0, INT64_C(1) << 40}, 4);
}

static void last_newlines_blanks_crlf_and_comments_are_fine(void **state) {
    (void)state;
    const int64_t wanted[] = {10, 20};
    check_text("10\n20", wanted, 2);
    check_text("10\r\n20\r\n", wanted, 2);
    check_text("10\r\n20\r", wanted, 2);
    check_text("# tokens of each file\n10\n  # more\n\t20 \n", wanted, 2);
    check_text("10\n20\n\n \r\n\n", wanted, 2);
    check_text("010\n0000000000000000000000000020\n", wanted, 2);
}

static void no_lengths_are_no_error(void **state) {
    (void)state;
    check_text("", NULL, 0);
    check_text("\n", NULL, 0);
    check_text("\n\n# nothing", NULL, 0);
}

static void text_that_is_no_length_is_refused_naming_the_line(void **state) {
    (void)state;
    refuse_text("1\n9223372036854775807\n", "line 2: \"9223372036854775807\" is above 2^40");
    refuse_text("1\n2\n-5", "line 3: \"-5\" is negative");
    refuse_text("abc\n", "line 1: \"abc\" is not an integer");
    refuse_text("1\n1099511627777\n", "line 2");
    refuse_text("1\n99999999999999999999999999999999999999\n", "line 2");
    refuse_text("1\n18446744073709551621\n", "line 2"); /* 5 modulo 2^64 */
    refuse_text("1\n-9223372036854775809\n", "line 2");
    refuse_text("# lengths\r\n7\r\n1.5\r\n", "line 3: \"1.5\"");
    refuse_text("1 2\n", "line 1");
    refuse_text("1,2\n", "line 1");
    refuse_text("0x10\n", "line 1");
    refuse_text("+4\n", "line 1");
    refuse_text("-\n", "line 1: \"-\" is not an integer");
    refuse_text("1e3\n", "line 1");
    refuse_text("5\n\n6\n", "line 2: the line is blank");
    refuse_text("5\r6\r", "line 1: \"5?6\"");
    refuse_text("a line that goes on and on and on and on and on\n",
                "line 1: \"a line that goes on and on and on an...\"");
}

static void bytes_that_are_no_text_are_refused(void **state) {
    (void)state;
    write_bytes("L", "1\n2\0\n", 5);
    refuse_file("L", DCPAR_INVALID, "line 2: \"2?\"");
    write_bytes("L", "\xff\xfe\n", 3);
    refuse_file("L", DCPAR_INVALID, "line 1");
    write_bytes("L", "\x1f\x8b\x08\x00", 4);
    refuse_file("L", DCPAR_UNSUPPORTED, "gzip");
}

static void a_file_that_is_not_there_is_named(void **state) {
    (void)state;
    refuse_file("absent.txt", DCPAR_IO, "absent.txt");
    refuse_file("absent.npy", DCPAR_IO, "absent.npy");
}

/* More than two blocks of the reader, with lines of many sizes, so that block ends fall anywhere. */
static void long_texts_are_read_across_blocks(void **state) {
    (void)state;
    const uint64_t seed = 11;
    print_message("seed %" PRIu64 "\n", seed);
    const int64_t count = 400000;
    int64_t *wanted = malloc((size_t)count * sizeof *wanted);
    FILE *file = fopen("L", "w");
    assert_non_null(wanted);
    assert_non_null(file);
    for (int64_t row = 0; row < count; ++row) {
        const uint64_t number = dcpar_random(seed, 0, (uint64_t)row);
        wanted[row] = (int64_t)(number >> 24 >> number % 40);
        fprintf(file, number % 7 == 0 ? " %" PRId64 "\r\n" : "%" PRId64 "\n", wanted[row]);
        if (number % 1000 == 0) fprintf(file, "#%*d\n", (int)(number % 5000) + 1, 0);
    }
    fclose(file);
    check_lengths("L", wanted, count);

    file = fopen("L", "a");
    assert_non_null(file);
    fputs("12x\n", file);
    fclose(file);
    refuse_file("L", DCPAR_INVALID, "\"12x\"");
    free(wanted);
}

static void a_line_that_never_ends_is_refused(void **state) {
    (void)state;
    const size_t size = 3 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '0', size);
    memcpy(text, "7\n", 2);
    write_bytes("L", text, size);
    refuse_file("L", DCPAR_INVALID, "line 2 has more than");
    free(text);
}

static void standard_input_is_read(void **state) {
    (void)state;
    const int kept = dup(STDIN_FILENO);
    write_text("L", "3\n4\n");
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_equal(write(pipe_ends[1], "5\n6", 3), 3);
    close(pipe_ends[1]);
    assert_true(dup2(pipe_ends[0], STDIN_FILENO) >= 0);
    close(pipe_ends[0]);
    check_lengths("-", (int64_t[]){5, 6}, 2);

    const int file = open("L", O_RDONLY);
    assert_true(dup2(file, STDIN_FILENO) >= 0);
    close(file);
    check_lengths("-", (int64_t[]){3, 4}, 2);

    write_text("L", "3\nfour\n");
    const int bad = open("L", O_RDONLY);
    assert_true(dup2(bad, STDIN_FILENO) >= 0);
    close(bad);
    dcpar_error error;
    int64_t *lengths = NULL, count = 0;
    assert_fails(dcpar_lengths_read("-", &lengths, &count, &error), DCPAR_INVALID, "standard input, line 2");
    dup2(kept, STDIN_FILENO);
    close(kept);
}

static void datasets_give_their_lengths(void **state) {
    (void)state;
    assert_int_equal(mkdir("files", 0777), 0);
    write_text("files/b", "12345");
    write_text("files/a", "");
    check_lengths("files", (int64_t[]){0, 5}, 2);
    write_text("x.fa", ">a\nACGT\n>b\nAC\n");
    check_lengths("x.fa", (int64_t[]){4, 2}, 2);
}

/* ------------------------------------------------------------------------------------------------------------ .npy */

/* A .npy file of `version` whose header says `dictionary`, with `bytes` bytes of values. Returns its size. */
static size_t make_npy(unsigned char *out, int version, const char *dictionary, const void *values, size_t bytes) {
    const size_t header = strlen(dictionary), size_bytes = version == 1 ? 2 : 4;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    for (size_t i = 0; i < size_bytes; ++i) out[8 + i] = (unsigned char)(header >> 8 * i);
    memcpy(out + 8 + size_bytes, dictionary, header);
    memcpy(out + 8 + size_bytes + header, values, bytes);
    return 8 + size_bytes + header + bytes;
}

static void write_npy(int version, const char *dictionary, const void *values, size_t bytes) {
    unsigned char file[512] = {0};
    write_bytes("L.npy", file, make_npy(file, version, dictionary, values, bytes));
}

#define DICTIONARY(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }      \n"

static void every_integer_type_of_npy_is_read(void **state) {
    (void)state;
    const int64_t wanted[] = {1, 2, 127};
    for (int version = 1; version <= 3; ++version) {
        write_npy(version, DICTIONARY("|u1", "(3,)"), "\1\2\x7f", 3);
        check_lengths("L.npy", wanted, 3);
    }
    write_npy(1, DICTIONARY("|i1", "(3,)"), "\1\2\x7f", 3);
    check_lengths("L.npy", wanted, 3);
    write_npy(1, DICTIONARY("<u2", "(3,)"), "\1\0\2\0\x7f\0", 6);
    check_lengths("L.npy", wanted, 3);
    write_npy(1, DICTIONARY(">i2", "(3,)"), "\0\1\0\2\0\x7f", 6);
    check_lengths("L.npy", wanted, 3);
    write_npy(1, DICTIONARY("<i4", "(3,)"), "\1\0\0\0\2\0\0\0\x7f\0\0\0", 12);
    check_lengths("L.npy", wanted, 3);
    write_npy(1, DICTIONARY(">u4", "(3,)"), "\0\0\0\1\0\0\0\2\0\0\0\x7f", 12);
    check_lengths("L.npy", wanted, 3);
    write_npy(1, DICTIONARY("<i8", "(3,)"), "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\x7f\0\0\0\0\0\0\0", 24);
    check_lengths("L.npy", wanted, 3);
    write_npy(1, DICTIONARY(">u8", "(3,)"), "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\x7f", 24);
    check_lengths("L.npy", wanted, 3);
    write_npy(1, DICTIONARY("<u2", "(1,)"), "\xff\xfe", 2);
    check_lengths("L.npy", (int64_t[]){0xfeff}, 1);
    write_npy(1, DICTIONARY("<i8", "(0,)"), "", 0);
    check_lengths("L.npy", NULL, 0);
    write_npy(1, "{\"shape\":(1,),\"fortran_order\":True,\"descr\":\"<u2\"}", "\7\0", 2);
    check_lengths("L.npy", (int64_t[]){7}, 1);
}

static void npy_is_known_by_its_first_bytes_too(void **state) {
    (void)state;
    write_npy(1, DICTIONARY("|u1", "(2,)"), "\5\6", 2);
    assert_int_equal(rename("L.npy", "lengths"), 0);
    check_lengths("lengths", (int64_t[]){5, 6}, 2);
}

static void refuse_npy(const char *dictionary, const void *values, size_t bytes, const char *part) {
    write_npy(1, dictionary, values, bytes);
    refuse_file("L.npy", DCPAR_INVALID, part);
}

static void npy_that_is_no_list_of_lengths_is_refused(void **state) {
    (void)state;
    refuse_npy(DICTIONARY("<i2", "(2,)"), "\1\0\xff\xff", 4, "row 1: length -1 is negative");
    refuse_npy(DICTIONARY("<u8", "(1,)"), "\xff\xff\xff\xff\xff\xff\xff\xff", 8,
               "row 0: length 9223372036854775807 is above 2^40");
    refuse_npy(DICTIONARY("<i8", "(1,)"), "\1\0\0\0\0\1\0\0", 8, "row 0: length 1099511627777 is above 2^40");
    refuse_npy(DICTIONARY("<f8", "(1,)"), "\0\0\0\0\0\0\0\0", 8, "'<f8'");
    refuse_npy(DICTIONARY("|b1", "(1,)"), "\1", 1, "'|b1'");
    refuse_npy(DICTIONARY("|O", "(1,)"), "\1", 1, "'|O'");
    refuse_npy("{'descr': [('a', '<i4')], 'shape': (1,)}", "\1\0\0\0", 4, "records");
    refuse_npy(DICTIONARY("<i2", "(2, 1)"), "\1\0\1\0", 4, "one dimension");
    refuse_npy(DICTIONARY("<i2", "()"), "\1\0", 2, "one dimension");
    refuse_npy(DICTIONARY("<i2", "(-1,)"), "\1\0", 2, "one dimension");
    refuse_npy(DICTIONARY("<i2", "(2,)"), "\1\0\1", 3, "2 integers of 2 bytes, but has 3 bytes");
    refuse_npy(DICTIONARY("<i2", "(2,)"), "\1\0\1\0\1\0", 6, "has 6 bytes");
    refuse_npy(DICTIONARY("<i8", "(99999999999999999999,)"), "\1\0\1\0", 4, "has 4 bytes");
    refuse_npy(DICTIONARY("<i8", "(2305843009213693952,)"), "", 0, "has 0 bytes"); /* 2^61 x 8 = 0 modulo 2^64 */
    refuse_npy("{'descr': '<i2'}", "\1\0", 2, "header");
    refuse_npy("{'shape': (1,)}", "\1\0", 2, "header");
    refuse_npy("", "\1\0", 2, "header");
    refuse_npy("{'descr", "\1\0", 2, "header");
    write_text("L.npy", "5\n6\n7\n8\n9\n10\n");
    refuse_file("L.npy", DCPAR_INVALID, "does not start as a .npy file does");
}

static void npy_cut_anywhere_is_refused(void **state) {
    (void)state;
    unsigned char file[512] = {0};
    const size_t size = make_npy(file, 1, DICTIONARY("<i4", "(3,)"), "\1\0\0\0\2\0\0\0\3\0\0\0", 12);
    for (size_t bytes = 0; bytes < size; ++bytes) {
        write_bytes("L.npy", file, bytes);
        refuse_file("L.npy", DCPAR_INVALID, "L.npy");
    }
    write_bytes("L.npy", file, size);
    check_lengths("L.npy", (int64_t[]){1, 2, 3}, 3);
}

/* Any byte may be wrong: the answer may differ, but nothing may break (sanitizers watch). */
static void npy_with_a_wrong_byte_breaks_nothing(void **state) {
    (void)state;
    unsigned char file[512] = {0};
    const size_t size = make_npy(file, 1, DICTIONARY("<i4", "(3,)"), "\1\0\0\0\2\0\0\0\3\0\0\0", 12);
    for (size_t at = 0; at < size; ++at) {
        for (int step = 1; step < 256; step *= 3) {
            file[at] = (unsigned char)(file[at] + step);
            write_bytes("L.npy", file, size);
            dcpar_error error;
            int64_t *lengths = NULL, count = 0;
            if (dcpar_lengths_read("L.npy", &lengths, &count, &error) == DCPAR_OK) free(lengths);
            file[at] = (unsigned char)(file[at] - step);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_folder(text_is_one_integer_a_line),
        in_folder(last_newlines_blanks_crlf_and_comments_are_fine),
        in_folder(no_lengths_are_no_error),
        in_folder(text_that_is_no_length_is_refused_naming_the_line),
        in_folder(bytes_that_are_no_text_are_refused),
        in_folder(a_file_that_is_not_there_is_named),
        in_folder(long_texts_are_read_across_blocks),
        in_folder(a_line_that_never_ends_is_refused),
        in_folder(standard_input_is_read),
        in_folder(datasets_give_their_lengths),
        in_folder(every_integer_type_of_npy_is_read),
        in_folder(npy_is_known_by_its_first_bytes_too),
        in_folder(npy_that_is_no_list_of_lengths_is_refused),
        in_folder(npy_cut_anywhere_is_refused),
        in_folder(npy_with_a_wrong_byte_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
