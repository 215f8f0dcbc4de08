#define _XOPEN_SOURCE 700
#include "data_testing.h"

/* An index as it is written: little endian, built in memory so that tests can damage it. */
typedef struct index_file {
    unsigned char bytes[4096];
    size_t size;
} index_file;

static void put(index_file *index, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) index->bytes[index->size++] = (unsigned char)(value >> 8 * i);
}

static void put_header(index_file *index, int type, uint64_t sequences, uint64_t documents) {
    memcpy(index->bytes, "MMIDIDX\0\0", 9);
    index->size = 9;
    put(index, 1, 8);
    put(index, (uint64_t)type, 1);
    put(index, sequences, 8);
    put(index, documents, 8);
}

/* Sequences one after another, and one document of them all. */
static void make_index(index_file *index, int type, int width, const int32_t *lengths, int count) {
    put_header(index, type, (uint64_t)count, 2);
    for (int i = 0; i < count; ++i) put(index, (uint32_t)lengths[i], 4);
    uint64_t start = 0;
    for (int i = 0; i < count; ++i) {
        put(index, start, 8);
        start += (uint64_t)lengths[i] * (uint64_t)width;
    }
    put(index, 0, 8);
    put(index, (uint64_t)count, 8);
}

static void write_index(const index_file *index) { write_bytes("d.idx", index->bytes, index->size); }

static void write_tokens(const uint64_t *tokens, int count, int width) {
    unsigned char bytes[512] = {0};
    for (int i = 0; i < count; ++i)
        for (int k = 0; k < width; ++k) bytes[i * width + k] = (unsigned char)(tokens[i] >> 8 * k);
    write_bytes("d.bin", bytes, (size_t)(count * width));
}

/* The dataset most tests start from: sequences of 3, 0 and 2 tokens of 16 bits. */
static index_file make_example(void) {
    index_file index;
    make_index(&index, 8, 2, (int32_t[]){3, 0, 2}, 3);
    write_index(&index);
    write_tokens((uint64_t[]){1, 2, 3, 65535, 5}, 5, 2);
    return index;
}

static void check_tokens(const dcpar_dataset *dataset, int64_t row, const int32_t *wanted, int64_t count) {
    dcpar_error error;
    int32_t tokens[16];
    assert_int_equal(dcpar_dataset_lengths(dataset)[row], count);
    assert_ok(dcpar_dataset_read(dataset, row, 0, count, tokens, &error));
    for (int64_t i = 0; i < count; ++i) assert_int_equal(tokens[i], wanted[i]);
}

static void check_example(const char *path) {
    dcpar_dataset *dataset = open_dataset(path);
    assert_int_equal(dcpar_dataset_count(dataset), 3);
    check_tokens(dataset, 0, (int32_t[]){1, 2, 3}, 3);
    check_tokens(dataset, 1, NULL, 0);
    check_tokens(dataset, 2, (int32_t[]){65535, 5}, 2);
    dcpar_dataset_close(dataset);
}

static void any_of_the_three_names_opens_it(void **state) {
    (void)state;
    make_example();
    check_example("d");
    check_example("d.bin");
    check_example("d.idx");
    dcpar_error error;
    int64_t *lengths = NULL, count = 0;
    assert_ok(dcpar_lengths_read("d", &lengths, &count, &error));
    assert_int_equal(count, 3);
    assert_int_equal(lengths[2], 2);
    free(lengths);
}

static void a_file_with_the_plain_name_is_not_taken_for_it(void **state) {
    (void)state;
    make_example();
    write_text("d", "7\n");
    dcpar_error error;
    int64_t *lengths = NULL, count = 0;
    assert_ok(dcpar_lengths_read("d", &lengths, &count, &error));
    assert_int_equal(count, 1);
    assert_int_equal(lengths[0], 7);
    free(lengths);
}

static void every_integer_type_is_read(void **state) {
    (void)state;
    static const struct {
        int code, width;
        uint64_t largest;
        int64_t vocabulary;
    } types[] = {{1, 1, 255, 256},
                 {2, 1, 127, 128},
                 {3, 2, 32767, 32768},
                 {4, 4, 100000, 100001},
                 {5, 8, 2147483647, INT64_C(1) << 31},
                 {8, 2, 65535, 65536}};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
        index_file index;
        make_index(&index, types[i].code, types[i].width, (int32_t[]){2, 1}, 2);
        write_index(&index);
        write_tokens((uint64_t[]){0, types[i].largest, 9}, 3, types[i].width);
        dcpar_dataset *dataset = open_dataset("d");
        check_tokens(dataset, 0, (int32_t[]){0, (int32_t)types[i].largest}, 2);
        check_tokens(dataset, 1, (int32_t[]){9}, 1);
        dcpar_error error;
        int64_t vocabulary = 0;
        for (int again = 0; again < 2; ++again) {
            assert_ok(dcpar_dataset_vocabulary(dataset, &vocabulary, &error));
            assert_int_equal(vocabulary, types[i].vocabulary);
        }
        dcpar_dataset_close(dataset);
    }
}

static void other_types_are_refused(void **state) {
    (void)state;
    write_text("d.bin", "");
    for (int code = 0; code < 256; ++code) {
        index_file index;
        make_index(&index, code, 1, NULL, 0);
        write_index(&index);
        if ((code >= 1 && code <= 5) || code == 8) continue;
        char part[64];
        snprintf(part, sizeof part, "d.idx: type code %d %s", code,
                 code == 6 || code == 7 ? "says floating" : "is unknown");
        refuse_dataset("d", DCPAR_INVALID, part);
    }
}

static void tokens_out_of_range_are_refused_naming_the_sequence(void **state) {
    (void)state;
    index_file index;
    make_index(&index, 5, 8, (int32_t[]){1, 2, 1}, 3);
    write_index(&index);
    write_tokens((uint64_t[]){1, 2, (uint64_t)-1, UINT64_C(1) << 31}, 4, 8);
    dcpar_dataset *dataset = open_dataset("d");
    dcpar_error error;
    int32_t tokens[2];
    int64_t vocabulary = 0;
    assert_ok(dcpar_dataset_read(dataset, 1, 0, 1, tokens, &error));
    assert_fails(dcpar_dataset_read(dataset, 1, 0, 2, tokens, &error), DCPAR_INVALID,
                 "d.bin: token 1 of sequence 1 is -1");
    assert_fails(dcpar_dataset_read(dataset, 2, 0, 1, tokens, &error), DCPAR_INVALID, "token 0 of sequence 2");
    assert_fails(dcpar_dataset_vocabulary(dataset, &vocabulary, &error), DCPAR_INVALID, "sequence 1");
    dcpar_dataset_close(dataset);
}

static void sequences_may_lie_in_any_order_and_share_tokens(void **state) {
    (void)state;
    index_file index;
    put_header(&index, 1, 2, 1);
    put(&index, 2, 4), put(&index, 4, 4);
    put(&index, 2, 8), put(&index, 0, 8);
    put(&index, 0, 8);
    write_index(&index);
    write_text("d.bin", "abcdef");
    dcpar_dataset *dataset = open_dataset("d");
    check_text_row(dataset, 0, "cd");
    check_text_row(dataset, 1, "abcd");
    dcpar_dataset_close(dataset);
}

static void modes_of_multimodal_datasets_are_passed_over(void **state) {
    (void)state;
    index_file index = make_example();
    put(&index, 0, 1), put(&index, 1, 1), put(&index, 0, 1);
    write_index(&index);
    check_example("d");
}

static void a_dataset_without_sequences_is_no_error(void **state) {
    (void)state;
    index_file index;
    put_header(&index, 4, 0, 1);
    put(&index, 0, 8);
    write_index(&index);
    write_text("d.bin", "");
    dcpar_dataset *dataset = open_dataset("d");
    assert_int_equal(dcpar_dataset_count(dataset), 0);
    dcpar_error error;
    int64_t vocabulary = -1;
    assert_ok(dcpar_dataset_vocabulary(dataset, &vocabulary, &error));
    assert_int_equal(vocabulary, 0);
    dcpar_dataset_close(dataset);
}

static void an_index_cut_anywhere_is_refused(void **state) {
    (void)state;
    const index_file index = make_example();
    for (size_t size = 0; size < index.size; ++size) {
        write_bytes("d.idx", index.bytes, size);
        refuse_dataset("d", DCPAR_INVALID, "d.idx");
    }
    for (size_t more = 1; more < 20; ++more) {
        index_file longer = index;
        for (size_t i = 0; i < more; ++i) put(&longer, 0, 1);
        write_index(&longer);
        if (more != 3) refuse_dataset("d", DCPAR_INVALID, "d.idx"); /* 3: modes */
    }
}

static void tokens_cut_anywhere_are_refused_naming_the_sequence(void **state) {
    (void)state;
    make_example();
    size_t size = 0;
    unsigned char *bytes = read_bytes("d.bin", &size);
    assert_int_equal(size, 10);
    for (size_t cut = 0; cut < size; ++cut) {
        write_bytes("d.bin", bytes, cut);
        refuse_dataset("d", DCPAR_INVALID, cut < 6 ? "d.idx: sequence 0 is 6 bytes" : "d.idx: sequence 2 is 4 bytes");
    }
    free(bytes);
}

static void an_index_with_a_wrong_byte_breaks_nothing(void **state) {
    (void)state;
    index_file index = make_example();
    for (size_t at = 0; at < index.size; ++at) {
        for (int step = 1; step < 256; step *= 3) {
            index.bytes[at] = (unsigned char)(index.bytes[at] + step);
            write_index(&index);
            dcpar_error error;
            dcpar_dataset *dataset = NULL;
            if (dcpar_dataset_open("d", &dataset, &error) == DCPAR_OK) {
                int64_t vocabulary = 0;
                assert_true(dcpar_dataset_vocabulary(dataset, &vocabulary, &error) == DCPAR_OK || vocabulary == 0);
                dcpar_dataset_close(dataset);
            }
            index.bytes[at] = (unsigned char)(index.bytes[at] - step);
        }
    }
}

static void refuse_index(const index_file *index, const char *part) {
    write_index(index);
    refuse_dataset("d", DCPAR_INVALID, part);
}

static void wrong_numbers_in_an_index_are_named(void **state) {
    (void)state;
    const index_file example = make_example();
    index_file index = example;
    index.bytes[0] = 'X';
    refuse_index(&index, "d.idx does not start as an index");
    index = example;
    index.bytes[9] = 2;
    refuse_index(&index, "d.idx has version 2");
    index = example;
    memset(index.bytes + 18, 0xff, 8); /* sequences */
    refuse_index(&index, "d.idx has 86 bytes, which is not what an index of");
    memset(index.bytes + 18, 0, 8);
    index.bytes[18 + 7] = 0x40; /* 2^62 sequences: 12 times that is 0 modulo 2^64 */
    refuse_index(&index, "d.idx has 86 bytes, which is not what an index of");
    index = example;
    memset(index.bytes + 34 + 4, 0xff, 4);
    refuse_index(&index, "d.idx: sequence 1 has -1 tokens");
    index = example;
    index.bytes[34 + 12 + 16 + 7] = 0x80;
    refuse_index(&index, "d.idx: sequence 2 is 4 bytes from byte -");
    index = example;
    index.bytes[34 + 12 + 8] = 11; /* behind the end, though it is empty */
    refuse_index(&index, "d.idx: sequence 1 is 0 bytes from byte 11 on");
    index = example;
    index.bytes[34 + 36] = 4;
    refuse_index(&index, "d.idx: document bound 0 is 4");
    index = example;
    index.bytes[34 + 36] = 2, index.bytes[34 + 44] = 1;
    refuse_index(&index, "d.idx: document bound 1 is 1, not between 2 and 3");
}

static void a_missing_half_is_named(void **state) {
    (void)state;
    make_example();
    assert_int_equal(unlink("d.bin"), 0);
    refuse_dataset("d", DCPAR_IO, "d.bin");
    refuse_dataset("d.idx", DCPAR_IO, "d.bin");
    write_text("e.bin", "");
    refuse_dataset("e.bin", DCPAR_IO, "e.idx");
    refuse_dataset("e", DCPAR_IO, "cannot open e:");
}

static void tokens_that_shrink_after_opening_are_named(void **state) {
    (void)state;
    make_example();
    dcpar_dataset *dataset = open_dataset("d");
    assert_int_equal(truncate("d.bin", 7), 0);
    dcpar_error error;
    int32_t tokens[3];
    assert_ok(dcpar_dataset_read(dataset, 0, 0, 3, tokens, &error));
    assert_fails(dcpar_dataset_read(dataset, 2, 0, 1, tokens, &error), DCPAR_IO, "d.bin has become shorter");
    dcpar_dataset_close(dataset);
}

/* More sequences, document bounds and tokens than are read at once. */
static void large_datasets_are_read_by_several_threads(void **state) {
    (void)state;
    enum { count = 10000 };
    int32_t **wanted = calloc(count, sizeof *wanted);
    FILE *index = fopen("d.idx", "wb"), *tokens = fopen("d.bin", "wb");
    assert_non_null(wanted);
    assert_non_null(index);
    assert_non_null(tokens);
    index_file header;
    put_header(&header, 4, count, count + 1);
    assert_int_equal(fwrite(header.bytes, 1, header.size, index), header.size);
    int32_t lengths[count];
    int64_t starts[count + 1], bounds[count + 1];
    starts[0] = 0;
    for (int row = 0; row < count; ++row) {
        lengths[row] = row == 77 ? 30000 : (int32_t)(dcpar_random(4, 0, (uint64_t)row) % 20);
        starts[row + 1] = starts[row] + 4 * lengths[row];
        bounds[row] = row;
        wanted[row] = malloc(((size_t)lengths[row] + 1) * sizeof **wanted);
        assert_non_null(wanted[row]);
        for (int32_t at = 0; at < lengths[row]; ++at)
            wanted[row][at] = (int32_t)(dcpar_random(5, (uint64_t)row, (uint64_t)at) >> 33);
        fwrite(wanted[row], sizeof **wanted, (size_t)lengths[row], tokens);
    }
    bounds[count] = count;
    fwrite(lengths, sizeof *lengths, count, index);
    fwrite(starts, sizeof *starts, count, index);
    fwrite(bounds, sizeof *bounds, count + 1, index);
    fclose(index), fclose(tokens);
    dcpar_dataset *dataset = open_dataset("d.bin");
    assert_int_equal(dcpar_dataset_count(dataset), count);
    for (int row = 0; row < count; ++row) assert_int_equal(dcpar_dataset_lengths(dataset)[row], lengths[row]);
    check_slices(dataset, wanted, 14);
    int32_t *long_row = malloc(30000 * sizeof *long_row);
    assert_non_null(long_row);
    dcpar_error error;
    assert_ok(dcpar_dataset_read(dataset, 77, 0, 30000, long_row, &error));
    assert_memory_equal(long_row, wanted[77], 30000 * sizeof *long_row);
    free(long_row);
    dcpar_dataset_close(dataset);
    for (int row = 0; row < count; ++row) free(wanted[row]);
    free(wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_folder(any_of_the_three_names_opens_it),
        in_folder(a_file_with_the_plain_name_is_not_taken_for_it),
        in_folder(every_integer_type_is_read),
        in_folder(other_types_are_refused),
        in_folder(tokens_out_of_range_are_refused_naming_the_sequence),
        in_folder(sequences_may_lie_in_any_order_and_share_tokens),
        in_folder(modes_of_multimodal_datasets_are_passed_over),
        in_folder(a_dataset_without_sequences_is_no_error),
        in_folder(an_index_cut_anywhere_is_refused),
        in_folder(tokens_cut_anywhere_are_refused_naming_the_sequence),
        in_folder(an_index_with_a_wrong_byte_breaks_nothing),
        in_folder(wrong_numbers_in_an_index_are_named),
        in_folder(a_missing_half_is_named),
        in_folder(tokens_that_shrink_after_opening_are_named),
        in_folder(large_datasets_are_read_by_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
