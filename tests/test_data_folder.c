#define _XOPEN_SOURCE 700
#include "data_testing.h"

static void make_folder(const char *path) { assert_int_equal(mkdir(path, 0777), 0); }

static void files_are_sequences_sorted_by_path(void **state) {
    (void)state;
    make_folder("d"), make_folder("d/b"), make_folder("d/b/deep"), make_folder("d/empty");
    write_text("d/z", "last");
    write_text("d/b/deep/x", "\xff\x80");
    write_text("d/b/one", "1");
    write_text("d/a", "");
    write_text("d/b.txt", "dot");
    write_text("d/B", "upper");
    dcpar_dataset *dataset = open_dataset("d");
    assert_int_equal(dcpar_dataset_count(dataset), 6);
    const char *const wanted[] = {"upper", "", "dot", "\xff\x80", "1", "last"}; /* '.' is before '/' */
    for (int64_t row = 0; row < 6; ++row) check_text_row(dataset, row, wanted[row]);
    dcpar_error error;
    int64_t vocabulary = 0;
    assert_ok(dcpar_dataset_vocabulary(dataset, &vocabulary, &error));
    assert_int_equal(vocabulary, 256);
    assert_string_equal(dcpar_dataset_describe(dataset), "folder d: 6 sequences, 15 tokens");
    dcpar_dataset_close(dataset);
}

static void hidden_names_links_and_odd_files_are_left_out(void **state) {
    (void)state;
    make_folder("d"), make_folder("d/.git"), make_folder("outside");
    write_text("d/seen", "yes");
    write_text("d/.hidden", "no");
    write_text("d/.git/config", "no");
    write_text("outside/file", "no");
    assert_int_equal(symlink("../outside", "d/linked_folder"), 0);
    assert_int_equal(symlink("../outside/file", "d/linked_file"), 0);
    assert_int_equal(symlink("nowhere", "d/broken"), 0);
    assert_int_equal(symlink(".", "d/loop"), 0);
    assert_int_equal(mkfifo("d/pipe", 0666), 0);
    dcpar_dataset *dataset = open_dataset("d/");
    assert_int_equal(dcpar_dataset_count(dataset), 1);
    check_text_row(dataset, 0, "yes");
    assert_string_equal(dcpar_dataset_describe(dataset), "folder d/: 1 sequences, 3 tokens");
    dcpar_dataset_close(dataset);
}

static void a_link_to_a_folder_may_be_the_dataset(void **state) {
    (void)state;
    make_folder("d");
    write_text("d/a", "A");
    assert_int_equal(symlink("d", "link"), 0);
    dcpar_dataset *dataset = open_dataset("link");
    check_text_row(dataset, 0, "A");
    dcpar_dataset_close(dataset);
}

static void an_empty_folder_has_no_sequences(void **state) {
    (void)state;
    make_folder("d.fasta"); /* a folder whatever it is called */
    dcpar_dataset *dataset = open_dataset("d.fasta");
    assert_int_equal(dcpar_dataset_count(dataset), 0);
    assert_non_null(dcpar_dataset_lengths(dataset));
    dcpar_error error;
    assert_fails(dcpar_dataset_read(dataset, 0, 0, 0, NULL, &error), DCPAR_INVALID, "row 0");
    dcpar_dataset_close(dataset);
}

static void thousands_of_files_in_nested_folders_are_read(void **state) {
    (void)state;
    enum { folders = 40, files = 75 };
    make_folder("d");
    for (int i = 0; i < folders; ++i) {
        char path[64], text[32];
        snprintf(path, sizeof path, i % 4 == 0 ? "d/%03d" : "d/%03d/%03d", i / 4 * 4, i);
        make_folder(path);
        for (int j = 0; j < files; ++j) {
            snprintf(path, sizeof path, i % 4 == 0 ? "d/%03d/f%03d" : "d/%03d/%03d/f%03d", i / 4 * 4,
                     i % 4 == 0 ? j : i, j);
            snprintf(text, sizeof text, "%d.%d", i, j);
            write_text(path, text);
        }
    }
    dcpar_dataset *dataset = open_dataset("d");
    assert_int_equal(dcpar_dataset_count(dataset), folders * files);
    int64_t row = 0;
    for (int top = 0; top < folders; top += 4) {
        for (int k = 1; k <= 4; ++k) { /* digits are before 'f': the folders below come first */
            for (int j = 0; j < files; ++j) {
                char text[32];
                snprintf(text, sizeof text, "%d.%d", top + k % 4, j);
                check_text_row(dataset, row++, text);
            }
        }
    }
    dcpar_dataset_close(dataset);
}

static void the_working_directory_may_change_while_a_folder_is_open(void **state) {
    (void)state;
    make_folder("d");
    write_text("d/a", "A");
    dcpar_dataset *dataset = open_dataset("d");
    assert_int_equal(chdir("/"), 0);
    check_text_row(dataset, 0, "A");
    dcpar_dataset_close(dataset);
    assert_int_equal(chdir(*state), 0);
}

static void a_file_that_cannot_be_read_is_named(void **state) {
    (void)state;
    make_folder("d"), make_folder("d/sub");
    write_text("d/sub/secret", "text");
    assert_int_equal(chmod("d/sub/secret", 0), 0);
    assert_int_equal(chmod(".", 0777), 0);
    const bool root = geteuid() == 0; /* who may read everything */
    if (root) assert_int_equal(seteuid(65534), 0);
    refuse_dataset("d", DCPAR_IO, "d/sub/secret");
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod("d/sub", 0), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    refuse_dataset("d/", DCPAR_IO, "cannot open d/sub: ");
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod("d/sub", 0777), 0);
}

static void paths_that_are_no_dataset_are_refused(void **state) {
    (void)state;
    refuse_dataset("absent", DCPAR_IO, "absent");
    write_text("text", "hello");
    refuse_dataset("text", DCPAR_INVALID, "text is no dataset");
}

static void files_that_shrink_or_vanish_are_named(void **state) {
    (void)state;
    make_folder("d"), make_folder("d/sub");
    write_text("d/sub/a", "0123456789");
    write_text("d/sub/b", "0123456789");
    dcpar_dataset *dataset = open_dataset("d");
    assert_int_equal(truncate("d/sub/a", 5), 0);
    assert_int_equal(unlink("d/sub/b"), 0);
    dcpar_error error;
    int32_t tokens[10];
    assert_ok(dcpar_dataset_read(dataset, 0, 0, 5, tokens, &error));
    assert_fails(dcpar_dataset_read(dataset, 0, 0, 10, tokens, &error), DCPAR_IO, "sub/a has become shorter");
    assert_fails(dcpar_dataset_read(dataset, 0, 6, 1, tokens, &error), DCPAR_IO, "sub/a has become shorter");
    assert_fails(dcpar_dataset_read(dataset, 1, 0, 1, tokens, &error), DCPAR_IO, "d/sub/b");
    dcpar_dataset_close(dataset);
}

static void only_tokens_inside_a_sequence_are_read(void **state) {
    (void)state;
    make_folder("d");
    write_text("d/a", "0123456789");
    dcpar_dataset *dataset = open_dataset("d");
    dcpar_error error;
    int32_t tokens[10] = {0};
    assert_ok(dcpar_dataset_read(dataset, 0, 3, 4, tokens, &error));
    for (int i = 0; i < 4; ++i) assert_int_equal(tokens[i], '3' + i);
    assert_ok(dcpar_dataset_read(dataset, 0, 10, 0, NULL, &error));
    assert_fails(dcpar_dataset_read(dataset, 0, 0, 11, tokens, &error), DCPAR_INVALID, "row 0 has 10 tokens");
    assert_fails(dcpar_dataset_read(dataset, 0, 9, 2, tokens, &error), DCPAR_INVALID, "row 0");
    assert_fails(dcpar_dataset_read(dataset, 0, 11, 0, tokens, &error), DCPAR_INVALID, "row 0");
    assert_fails(dcpar_dataset_read(dataset, 0, -1, 2, tokens, &error), DCPAR_INVALID, "row 0");
    assert_fails(dcpar_dataset_read(dataset, 0, 1, -1, tokens, &error), DCPAR_INVALID, "row 0");
    assert_fails(dcpar_dataset_read(dataset, 0, 1, INT64_MAX, tokens, &error), DCPAR_INVALID, "row 0");
    assert_fails(dcpar_dataset_read(dataset, 0, INT64_MAX, 1, tokens, &error), DCPAR_INVALID, "row 0");
    assert_fails(dcpar_dataset_read(dataset, 1, 0, 1, tokens, &error), DCPAR_INVALID, "row 1");
    assert_fails(dcpar_dataset_read(dataset, -1, 0, 1, tokens, &error), DCPAR_INVALID, "row -1");
    dcpar_dataset_close(dataset);
}

static uint64_t fingerprint(const char *path) {
    dcpar_dataset *dataset = open_dataset(path);
    const uint64_t hash = dcpar_dataset_fingerprint(dataset);
    dcpar_dataset_close(dataset);
    return hash;
}

static void the_fingerprint_tells_kind_count_and_lengths(void **state) {
    (void)state;
    make_folder("d"), make_folder("same");
    write_text("d/a", "12"), write_text("d/b", "3");
    write_text("same/x", "ab"), write_text("same/y", "c");
    const uint64_t first = fingerprint("d");
    assert_true(fingerprint("same") == first);
    write_text("f.fa", ">\nab\n>\nc\n");
    assert_true(fingerprint("f.fa") != first);
    write_text("d/c", "");
    const uint64_t second = fingerprint("d");
    assert_true(second != first);
    write_text("d/a", "1"), write_text("d/b", "23"); /* the same lengths in another order */
    assert_true(fingerprint("d") != second);
}

static void several_threads_read_at_the_same_time(void **state) {
    (void)state;
    enum { files = 8, bytes = 100000 };
    make_folder("d");
    int32_t *wanted[files];
    for (int64_t row = 0; row < files; ++row) {
        wanted[row] = malloc(bytes * sizeof *wanted[row]);
        assert_non_null(wanted[row]);
        unsigned char text[bytes];
        for (int64_t at = 0; at < bytes; ++at) {
            text[at] = (unsigned char)dcpar_random(1, (uint64_t)row, (uint64_t)at);
            wanted[row][at] = text[at];
        }
        char path[16];
        snprintf(path, sizeof path, "d/%d", (int)row);
        write_bytes(path, text, bytes);
    }
    dcpar_dataset *dataset = open_dataset("d");
    check_slices(dataset, wanted, 12);
    dcpar_dataset_close(dataset);
    for (int64_t row = 0; row < files; ++row) free(wanted[row]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_folder(files_are_sequences_sorted_by_path),
        in_folder(hidden_names_links_and_odd_files_are_left_out),
        in_folder(a_link_to_a_folder_may_be_the_dataset),
        in_folder(an_empty_folder_has_no_sequences),
        in_folder(thousands_of_files_in_nested_folders_are_read),
        in_folder(the_working_directory_may_change_while_a_folder_is_open),
        in_folder(a_file_that_cannot_be_read_is_named),
        in_folder(paths_that_are_no_dataset_are_refused),
        in_folder(files_that_shrink_or_vanish_are_named),
        in_folder(only_tokens_inside_a_sequence_are_read),
        in_folder(the_fingerprint_tells_kind_count_and_lengths),
        in_folder(several_threads_read_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
