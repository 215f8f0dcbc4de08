#define _XOPEN_SOURCE 700
#include "data_testing.h"

static void check_fasta(const char *text, const char *const *wanted, int64_t count) {
    write_text("x.fa", text);
    dcpar_dataset *dataset = open_dataset("x.fa");
    assert_int_equal(dcpar_dataset_count(dataset), count);
    for (int64_t row = 0; row < count; ++row) check_text_row(dataset, row, wanted[row]);
    dcpar_dataset_close(dataset);
}

static void refuse_fasta(const char *text, const char *part) {
    write_text("x.fa", text);
    refuse_dataset("x.fa", DCPAR_INVALID, part);
}

static void records_are_sequences_of_residues(void **state) {
    (void)state;
    const char *const wanted[] = {"ACGTACGT", "MKV*"};
    check_fasta(">one first record\nACGT\nACGT\n>two\nMKV*\n", wanted, 2);
    check_fasta(">one\nACGTACGT\n>two\nMKV*", wanted, 2); /* no last newline */
    check_fasta(">\nA\nC\nG\nT\nA\nC\nG\nT\n>\nM\nK\nV\n*\n", wanted, 2);
}

static void crlf_blanks_and_comments_are_left_out(void **state) {
    (void)state;
    const char *const wanted[] = {"ACGTACGT", "MKV"};
    check_fasta(">one\r\nACGT\r\nACGT\r\n>two\r\nMKV\r\n", wanted, 2);
    check_fasta("\n\r\n; of the file\n>one\n;of the record\nACGT ACGT\n\n\n>two\n\tM K V \n;>no record\n", wanted, 2);
}

static void letters_stay_as_they_are(void **state) {
    (void)state;
    const char *const wanted[] = {"acgtNNnn-.AC;GT"};
    check_fasta(">soft-masked\nacgtNNnn-.\nAC;GT\n", wanted, 1);
}

static void headers_may_hold_anything(void **state) {
    (void)state;
    const char *const wanted[] = {"A", "C"};
    check_fasta(">x > y ; z \xc3\xa9 \x01\nA\n>>\nC", wanted, 2);
}

static void empty_records_have_length_zero(void **state) {
    (void)state;
    const char *const wanted[] = {"", "AC", "", ""};
    check_fasta(">a\n>b\nAC\n>c\n\n  \n>d", wanted, 4);
    check_fasta(">a\n>b\nAC\n>c\n>d\n", wanted, 4);
}

static void a_file_without_records_is_no_error(void **state) {
    (void)state;
    check_fasta("", NULL, 0);
    check_fasta("\n\n;nothing\n", NULL, 0);
}

static void text_that_is_no_fasta_is_refused_naming_the_line(void **state) {
    (void)state;
    refuse_fasta("ACGT\n>a\n", "x.fa, line 1: text before the first line that starts with '>'");
    refuse_fasta("; comment\n\nACGT\n", "x.fa, line 3");
    refuse_fasta(">a\nAC\nAC>b\n", "x.fa, line 3: '>'");
    refuse_fasta(">a\nAC\n >b\nAC\n", "x.fa, line 3: '>'");
    refuse_fasta(">a\nAC\n\xc3\xa9\n", "x.fa, line 3: byte 0xc3 is no residue");
    refuse_fasta(">a\nAC\x7f\n", "x.fa, line 2: byte 0x7f");
    write_bytes("x.fa", ">a\nA\0C\n", 7);
    refuse_dataset("x.fa", DCPAR_INVALID, "x.fa, line 2: byte 0x00");
}

static void compressed_and_absent_files_are_named(void **state) {
    (void)state;
    write_bytes("x.fa.gz", "\x1f\x8b\x08\x00\x00", 5);
    refuse_dataset("x.fa.gz", DCPAR_UNSUPPORTED, "x.fa.gz is compressed with gzip");
    write_bytes("x.fa", "\x1f\x8b\x08\x00\x00", 5);
    refuse_dataset("x.fa", DCPAR_UNSUPPORTED, "x.fa is compressed");
    refuse_dataset("absent.fasta", DCPAR_IO, "absent.fasta");
    assert_int_equal(symlink("/dev/null", "null.fna"), 0);
    refuse_dataset("null.fna", DCPAR_INVALID, "null.fna is not a regular file");
}

static void every_usual_ending_is_known(void **state) {
    (void)state;
    const char *const names[] = {"a.fa", "a.fasta", "a.faa", "a.fna", "A.FASTA"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        write_text(names[i], ">\nAC\n");
        dcpar_dataset *dataset = open_dataset(names[i]);
        check_text_row(dataset, 0, "AC");
        dcpar_error error;
        int64_t vocabulary = 0;
        assert_ok(dcpar_dataset_vocabulary(dataset, &vocabulary, &error));
        assert_int_equal(vocabulary, 256);
        dcpar_dataset_close(dataset);
    }
}

/* Records around the distance of marks (65,536 residues) and blocks, with lines of any length. */
static void slices_are_found_across_lines_and_marks(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 65535, 65536, 65537, 0, 131072, 300001, 7};
    enum { records = sizeof lengths / sizeof *lengths };
    int32_t *wanted[records];
    FILE *file = fopen("x.fa", "w");
    assert_non_null(file);
    for (int64_t row = 0; row < records; ++row) {
        wanted[row] = malloc(((size_t)lengths[row] + 1) * sizeof *wanted[row]);
        assert_non_null(wanted[row]);
        fprintf(file, ">record %d\n", (int)row);
        for (int64_t at = 0; at < lengths[row]; ++at) {
            const uint64_t number = dcpar_random(3, (uint64_t)row, (uint64_t)at);
            wanted[row][at] = "ACGTN"[number % 5];
            fputc(wanted[row][at], file);
            if (number >> 8 & 1 && row % 2 == 0) fputs(number >> 9 & 1 ? "\n" : "\r\n", file);
            if ((number >> 16) % 50000 == 0) fprintf(file, "\n;%*d\n", (int)(number >> 32) % 40000 + 1, 0);
        }
        fputs("\n", file);
    }
    fclose(file);
    dcpar_dataset *dataset = open_dataset("x.fa");
    assert_int_equal(dcpar_dataset_count(dataset), records);
    for (int64_t row = 0; row < records; ++row) assert_int_equal(dcpar_dataset_lengths(dataset)[row], lengths[row]);
    check_slices(dataset, wanted, 13);
    dcpar_error error;
    int32_t token = 0;
    for (int64_t at = 65530; at < 65545; ++at) {
        assert_ok(dcpar_dataset_read(dataset, 7, at, 1, &token, &error));
        assert_int_equal(token, wanted[7][at]);
    }
    dcpar_dataset_close(dataset);
    for (int64_t row = 0; row < records; ++row) free(wanted[row]);
}

static void a_file_that_changed_is_named(void **state) {
    (void)state;
    write_text("x.fa", ">a\nACGT\n>b\nACGT\n");
    dcpar_dataset *dataset = open_dataset("x.fa");
    dcpar_error error;
    int32_t tokens[4];
    assert_int_equal(truncate("x.fa", 13), 0); /* two residues of b */
    assert_ok(dcpar_dataset_read(dataset, 0, 0, 4, tokens, &error));
    assert_ok(dcpar_dataset_read(dataset, 1, 0, 2, tokens, &error));
    assert_fails(dcpar_dataset_read(dataset, 1, 0, 3, tokens, &error), DCPAR_IO, "x.fa has become shorter");
    write_text("x.fa", ">a\nAC\n>\n>b\nACGT\n");
    assert_fails(dcpar_dataset_read(dataset, 0, 0, 4, tokens, &error), DCPAR_IO, "x.fa has changed");
    dcpar_dataset_close(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_folder(records_are_sequences_of_residues),
        in_folder(crlf_blanks_and_comments_are_left_out),
        in_folder(letters_stay_as_they_are),
        in_folder(headers_may_hold_anything),
        in_folder(empty_records_have_length_zero),
        in_folder(a_file_without_records_is_no_error),
        in_folder(text_that_is_no_fasta_is_refused_naming_the_line),
        in_folder(compressed_and_absent_files_are_named),
        in_folder(every_usual_ending_is_known),
        in_folder(slices_are_found_across_lines_and_marks),
        in_folder(a_file_that_changed_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
