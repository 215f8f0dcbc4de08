#define _XOPEN_SOURCE 700
#include "data/pieces.h"
#include "data_testing.h"

static dcpar_pieces *cut(const int64_t *lengths, int64_t count, int64_t limit) {
    dcpar_error error;
    dcpar_pieces *pieces = NULL;
    const dcpar_piece_options options = {.limit = limit};
    assert_ok(dcpar_pieces_create(lengths, count, &options, &pieces, &error));
    return pieces;
}

static void check_piece(const dcpar_pieces *pieces, int64_t piece, int64_t row, int64_t first, int64_t length) {
    const dcpar_piece at = dcpar_pieces_locate(pieces, piece);
    assert_int_equal(at.row, row);
    assert_int_equal(at.first, first);
    assert_int_equal(at.length, length);
    assert_int_equal(dcpar_pieces_lengths(pieces)[piece], length);
}

static void sequences_above_the_limit_are_cut(void **state) {
    (void)state;
    dcpar_pieces *pieces = cut((int64_t[]){10, 200, 100, 101, 0, 1}, 6, 100);
    assert_int_equal(dcpar_pieces_count(pieces), 8);
    assert_int_equal(dcpar_pieces_cut(pieces), 2);
    check_piece(pieces, 0, 0, 0, 10);
    check_piece(pieces, 1, 1, 0, 100);
    check_piece(pieces, 2, 1, 100, 100);
    check_piece(pieces, 3, 2, 0, 100);
    check_piece(pieces, 4, 3, 0, 100);
    check_piece(pieces, 5, 3, 100, 1);
    check_piece(pieces, 6, 4, 0, 0);
    check_piece(pieces, 7, 5, 0, 1);
    dcpar_pieces_destroy(pieces);
}

static void nothing_to_cut_changes_nothing(void **state) {
    (void)state;
    dcpar_pieces *pieces = cut((int64_t[]){3, 1, 2}, 3, 0);
    assert_int_equal(dcpar_pieces_count(pieces), 3);
    assert_int_equal(dcpar_pieces_cut(pieces), 0);
    check_piece(pieces, 2, 2, 0, 2);
    dcpar_pieces_destroy(pieces);
    pieces = cut(NULL, 0, 5);
    assert_int_equal(dcpar_pieces_count(pieces), 0);
    dcpar_pieces_destroy(pieces);
    dcpar_pieces_destroy(NULL);
}

static void what_cannot_be_cut_is_refused(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_pieces *pieces = NULL;
    const int64_t lengths[] = {5, -1}, long_lengths[] = {5, 5, (INT64_C(1) << 40) + 1};
    const dcpar_piece_options four = {.limit = 4}, negative[] = {{.limit = -7}, {.truncate = -7}, {.sample = -7}};
    assert_fails(dcpar_pieces_create(lengths, 2, &four, &pieces, &error), DCPAR_INVALID, "row 1 has length -1");
    assert_fails(dcpar_pieces_create(long_lengths, 3, &four, &pieces, &error), DCPAR_INVALID, "row 2");
    for (int i = 0; i < 3; ++i)
        assert_fails(dcpar_pieces_create(lengths, 1, &negative[i], &pieces, &error), DCPAR_INVALID, "-7");
    assert_null(pieces);
}

/* Every token of every sequence is in exactly one piece, in order. */
static void pieces_cover_each_sequence_once(void **state) {
    (void)state;
    const uint64_t seed = 21;
    print_message("seed %" PRIu64 "\n", seed);
    for (uint64_t round = 0; round < 50; ++round) {
        int64_t lengths[100];
        const int64_t limit = (int64_t)(dcpar_random(seed, round, 1000) % 50) + 1;
        for (uint64_t row = 0; row < 100; ++row) lengths[row] = (int64_t)(dcpar_random(seed, round, row) % 200);
        dcpar_pieces *pieces = cut(lengths, 100, limit);
        int64_t row = 0, next = 0;
        for (int64_t piece = 0; piece < dcpar_pieces_count(pieces); ++piece) {
            const dcpar_piece at = dcpar_pieces_locate(pieces, piece);
            if (at.row != row) {
                assert_int_equal(at.row, row + 1);
                assert_int_equal(next, lengths[row]);
                row = at.row, next = 0;
            }
            assert_int_equal(at.first, next);
            assert_true(at.length <= limit);
            next += at.length;
            assert_true(at.length == limit || next == lengths[row]);
        }
        assert_int_equal(row, 99);
        assert_int_equal(next, lengths[99]);
        dcpar_pieces_destroy(pieces);
    }
}

static void of_truncated_sequences_the_start_is_used(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_pieces *pieces = NULL;
    const dcpar_piece_options options = {.truncate = 50, .limit = 40};
    assert_ok(dcpar_pieces_create((int64_t[]){10, 200, 50}, 3, &options, &pieces, &error));
    assert_int_equal(dcpar_pieces_count(pieces), 5);
    assert_int_equal(dcpar_pieces_cut(pieces), 2);
    check_piece(pieces, 0, 0, 0, 10);
    check_piece(pieces, 1, 1, 0, 40);
    check_piece(pieces, 2, 1, 40, 10);
    check_piece(pieces, 4, 2, 40, 10);
    dcpar_pieces_destroy(pieces);
}

/* A sample has as many tokens as asked for, to within its last sequence; depends on the seed; keeps file order. */
static void a_sample_has_the_tokens_asked_for(void **state) {
    (void)state;
    dcpar_error error;
    int64_t lengths[1000], first_row[2];
    for (uint64_t row = 0; row < 1000; ++row) lengths[row] = (int64_t)(dcpar_random(7, 0, row) % 200);
    for (uint64_t seed = 0; seed < 2; ++seed) {
        const dcpar_piece_options options = {.truncate = 150, .sample = 5000, .seed = seed};
        dcpar_pieces *pieces = NULL;
        assert_ok(dcpar_pieces_create(lengths, 1000, &options, &pieces, &error));
        int64_t tokens = 0, row = -1;
        for (int64_t piece = 0; piece < dcpar_pieces_count(pieces); ++piece) {
            const dcpar_piece at = dcpar_pieces_locate(pieces, piece);
            assert_true(at.row > row);
            row = at.row;
            assert_int_equal(at.length, lengths[row] < 150 ? lengths[row] : 150);
            tokens += at.length;
        }
        assert_in_range(tokens, 5000, 5149);
        first_row[seed] = dcpar_pieces_locate(pieces, 0).row;
        dcpar_pieces_destroy(pieces);
    }
    assert_int_not_equal(first_row[0], first_row[1]);
    const dcpar_piece_options more_than_all = {.sample = INT64_MAX};
    dcpar_pieces *pieces = NULL;
    assert_ok(dcpar_pieces_create(lengths, 1000, &more_than_all, &pieces, &error));
    assert_int_equal(dcpar_pieces_count(pieces), 1000);
    dcpar_pieces_destroy(pieces);
}

static void tokens_are_read_by_piece(void **state) {
    (void)state;
    write_text("x.fa", ">a\nACG\n>b\nABCDEFGHIJ\n");
    dcpar_dataset *dataset = open_dataset("x.fa");
    dcpar_pieces *pieces = cut(dcpar_dataset_lengths(dataset), dcpar_dataset_count(dataset), 4);
    dcpar_error error;
    int32_t tokens[4];
    const char *const wanted[] = {"ACG", "ABCD", "EFGH", "IJ"};
    assert_int_equal(dcpar_pieces_count(pieces), 4);
    for (int64_t piece = 0; piece < 4; ++piece) {
        const int64_t length = (int64_t)strlen(wanted[piece]);
        assert_ok(dcpar_pieces_read(pieces, dataset, piece, 0, length, tokens, &error));
        for (int64_t i = 0; i < length; ++i) assert_int_equal(tokens[i], wanted[piece][i]);
    }
    assert_ok(dcpar_pieces_read(pieces, dataset, 2, 1, 2, tokens, &error));
    assert_int_equal(tokens[1], 'G');
    assert_fails(dcpar_pieces_read(pieces, dataset, 1, 1, 4, tokens, &error), DCPAR_INVALID, "piece 1 (row 1)");
    assert_fails(dcpar_pieces_read(pieces, dataset, 1, -1, 2, tokens, &error), DCPAR_INVALID, "piece 1");
    assert_fails(dcpar_pieces_read(pieces, dataset, 4, 0, 1, tokens, &error), DCPAR_INVALID, "piece 4");
    assert_fails(dcpar_pieces_read(pieces, dataset, -1, 0, 1, tokens, &error), DCPAR_INVALID, "piece -1");
    dcpar_pieces_destroy(pieces);
    dcpar_dataset_close(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_above_the_limit_are_cut),
        cmocka_unit_test(nothing_to_cut_changes_nothing),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
        cmocka_unit_test(pieces_cover_each_sequence_once),
        cmocka_unit_test(of_truncated_sequences_the_start_is_used),
        cmocka_unit_test(a_sample_has_the_tokens_asked_for),
        in_folder(tokens_are_read_by_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
