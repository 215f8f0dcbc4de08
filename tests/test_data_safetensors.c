#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "data/safetensors.h"
#include "data_testing.h"

#define F32 DCPAR_SAFETENSOR_F32
#define I64 DCPAR_SAFETENSOR_I64

static int64_t files_here(void) {
    DIR *names = opendir(".");
    assert_non_null(names);
    int64_t count = 0;
    for (const struct dirent *name; (name = readdir(names)) != NULL;) count += name->d_name[0] != '.';
    closedir(names);
    return count;
}

static const int64_t state_values[3] = {INT64_MIN, -1, INT64_C(1) << 40};
static const float weight_values[6] = {0.0f, -1.5f, 1e-40f, 3e38f, 5.0f, 6.0f};
static const float scalar_value = 0.25f;

static const dcpar_safetensor example[] = {
    {"state", I64, 1, {3}}, {"layer.0.weight", F32, 2, {2, 3}}, {"none", F32, 2, {0, 7}}, {"scale", F32, 0, {0}}};
static const dcpar_safetensors_text texts[] = {{"format", "dcpar"}, {"step", "12 \"quoted\" \xc3\xa9"}};

static void write_example(const char *path) {
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    assert_ok(dcpar_safetensors_create(path, example, 4, texts, 2, &writer, &error));
    assert_ok(dcpar_safetensors_append(writer, state_values, 5, &error)); /* portions of any size */
    assert_ok(dcpar_safetensors_append(writer, (const char *)state_values + 5, 19, &error));
    assert_ok(dcpar_safetensors_append(writer, weight_values, sizeof weight_values, &error));
    assert_ok(dcpar_safetensors_append(writer, NULL, 0, &error));
    assert_ok(dcpar_safetensors_append(writer, &scalar_value, sizeof scalar_value, &error));
    assert_ok(dcpar_safetensors_commit(writer, &error));
}

static dcpar_safetensors *open_tensors(const char *path) {
    dcpar_error error;
    dcpar_safetensors *file = NULL;
    assert_ok(dcpar_safetensors_open(path, &file, &error));
    return file;
}

static void check_example(const char *path) {
    dcpar_error error;
    dcpar_safetensors *file = open_tensors(path);
    assert_int_equal(dcpar_safetensors_count(file), 4);
    const char *const names[] = {"layer.0.weight", "none", "scale", "state"};
    for (int64_t i = 0; i < 4; ++i) {
        assert_string_equal(dcpar_safetensors_at(file, i)->name, names[i]);
        assert_int_equal(dcpar_safetensors_find(file, names[i]), i);
    }
    int64_t index = -1;
    for (int i = 0; i < 4; ++i) assert_ok(dcpar_safetensors_require(file, &example[i], &index, &error));
    assert_int_equal(index, 2);
    float weight[6], scale = 0.0f;
    int64_t numbers[3];
    assert_ok(dcpar_safetensors_read(file, 0, 0, 6, weight, &error));
    assert_memory_equal(weight, weight_values, sizeof weight);
    assert_ok(dcpar_safetensors_read(file, 0, 2, 3, weight, &error));
    assert_memory_equal(weight, weight_values + 2, 3 * sizeof *weight);
    assert_ok(dcpar_safetensors_read(file, 1, 0, 0, NULL, &error));
    assert_ok(dcpar_safetensors_read(file, 2, 0, 1, &scale, &error));
    assert_true(scale == scalar_value);
    assert_ok(dcpar_safetensors_read(file, 3, 0, 3, numbers, &error));
    assert_memory_equal(numbers, state_values, sizeof numbers);
    for (int i = 0; i < 2; ++i) assert_string_equal(dcpar_safetensors_metadata(file, texts[i].key), texts[i].text);
    assert_null(dcpar_safetensors_metadata(file, "absent"));
    dcpar_safetensors_close(file);
}

static void what_is_written_is_read_again(void **state) {
    (void)state;
    write_example("x.safetensors");
    check_example("x.safetensors");
    assert_int_equal(files_here(), 1);
    assert_int_equal(mkdir("sub", 0777), 0);
    write_example("sub/x.safetensors");
    check_example("sub/x.safetensors");
}

static void the_bytes_are_those_of_the_format(void **state) {
    (void)state;
    static const char wanted[] =
        "\x90\0\0\0\0\0\0\0"
        "{\"__metadata__\":{\"step\":\"7\"},\"n\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[8,16]}}      "
        "\x02\x01\0\0\0\0\0\0"
        "\0\0\x80\x3f\0\0\0\xc0";
    const dcpar_safetensor tensors[] = {{"n", I64, 1, {1}}, {"w", F32, 2, {2, 1}}};
    const dcpar_safetensors_text step = {"step", "7"};
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    assert_ok(dcpar_safetensors_create("x", tensors, 2, &step, 1, &writer, &error));
    assert_ok(dcpar_safetensors_append(writer, (int64_t[]){258}, 8, &error));
    assert_ok(dcpar_safetensors_append(writer, (float[]){1.0f, -2.0f}, 8, &error));
    assert_ok(dcpar_safetensors_commit(writer, &error));
    size_t size = 0;
    unsigned char *bytes = read_bytes("x", &size);
    assert_int_equal(size, sizeof wanted - 1);
    assert_memory_equal(bytes, wanted, size);
    free(bytes);
}

static void a_file_may_hold_nothing(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    assert_ok(dcpar_safetensors_create("x", NULL, 0, NULL, 0, &writer, &error));
    assert_ok(dcpar_safetensors_commit(writer, &error));
    dcpar_safetensors *file = open_tensors("x");
    assert_int_equal(dcpar_safetensors_count(file), 0);
    assert_int_equal(dcpar_safetensors_find(file, "w"), -1);
    assert_null(dcpar_safetensors_metadata(file, "step"));
    dcpar_safetensors_close(file);
}

/* ---------------------------------------------------------------------------------------------------------- writing */

static void refuse_tensors(const dcpar_safetensor *tensors, int64_t count, const char *part) {
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    assert_fails(dcpar_safetensors_create("x", tensors, count, NULL, 0, &writer, &error), DCPAR_INVALID, part);
    assert_null(writer);
    assert_int_equal(files_here(), 0);
}

static void tensors_that_cannot_be_stored_are_refused(void **state) {
    (void)state;
    refuse_tensors((dcpar_safetensor[]){{"a", F32, 1, {1}}, {"a", F32, 1, {1}}}, 2, "x: tensor a is given twice");
    refuse_tensors((dcpar_safetensor[]){{"__metadata__", F32, 1, {1}}}, 1, "__metadata__");
    refuse_tensors((dcpar_safetensor[]){{"\xff", F32, 1, {1}}}, 1, "not UTF-8");
    refuse_tensors((dcpar_safetensor[]){{"a", F32, 1, {-1}}}, 1, "x: tensor a has a shape");
    refuse_tensors((dcpar_safetensor[]){{"a", F32, 9, {1}}}, 1, "x: tensor a has a shape");
    refuse_tensors((dcpar_safetensor[]){{"a", F32, 2, {INT64_C(1) << 31, INT64_C(1) << 31}}}, 1, "x: tensor a");
    refuse_tensors((dcpar_safetensor[]){{"a", F32, 1, {INT64_C(1) << 60}}, {"b", F32, 1, {INT64_C(1) << 60}}}, 2,
                   "x: tensor b");
    refuse_tensors((dcpar_safetensor[]){{"w", F32, 1, {1}}, {"n", I64, 1, {1}}}, 2, "tensor n would not be aligned");
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    const dcpar_safetensors_text twice[] = {{"k", "1"}, {"k", "2"}}, latin[] = {{"k", "\xe9"}};
    assert_fails(dcpar_safetensors_create("x", NULL, 0, twice, 2, &writer, &error), DCPAR_INVALID,
                 "metadata 'k' is given twice");
    assert_fails(dcpar_safetensors_create("x", NULL, 0, latin, 1, &writer, &error), DCPAR_INVALID,
                 "metadata 'k' is not UTF-8");
    assert_null(writer);
}

static void too_few_and_too_many_values_are_refused(void **state) {
    (void)state;
    const dcpar_safetensor tensors[] = {{"a", F32, 1, {2}}, {"b", F32, 1, {2}}};
    const float values[5] = {0};
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    assert_ok(dcpar_safetensors_create("x", tensors, 2, NULL, 0, &writer, &error));
    assert_ok(dcpar_safetensors_append(writer, values, 12, &error));
    assert_fails(dcpar_safetensors_append(writer, values, 5, &error), DCPAR_INVALID, "x: 5 bytes");
    assert_fails(dcpar_safetensors_append(writer, values, -1, &error), DCPAR_INVALID, "x: -1 bytes");
    assert_fails(dcpar_safetensors_commit(writer, &error), DCPAR_INVALID, "x: tensor b lacks 4 bytes");
    assert_int_equal(files_here(), 0);
}

static void nothing_is_under_the_path_before_the_commit(void **state) {
    (void)state;
    write_text("x", "the old file");
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    assert_ok(dcpar_safetensors_create("x", example, 1, NULL, 0, &writer, &error));
    assert_ok(dcpar_safetensors_append(writer, state_values, sizeof state_values, &error));
    size_t size = 0;
    unsigned char *bytes = read_bytes("x", &size);
    assert_int_equal(size, 12);
    free(bytes);
    dcpar_safetensors_abandon(writer);
    dcpar_safetensors_abandon(NULL);
    assert_int_equal(files_here(), 1);
    write_example("x"); /* replaces it */
    check_example("x");
    assert_int_equal(files_here(), 1);
}

static void two_writers_of_one_path_do_each_other_no_harm(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_safetensors_writer *first = NULL, *second = NULL;
    assert_ok(dcpar_safetensors_create("x", example, 1, NULL, 0, &first, &error));
    assert_ok(dcpar_safetensors_append(first, state_values, sizeof state_values, &error));
    assert_ok(dcpar_safetensors_create("x", example, 4, NULL, 0, &second, &error));
    dcpar_safetensors_abandon(second);
    assert_ok(dcpar_safetensors_commit(first, &error));
    dcpar_safetensors *file = open_tensors("x");
    assert_int_equal(dcpar_safetensors_count(file), 1);
    dcpar_safetensors_close(file);
    assert_int_equal(files_here(), 1);
}

static void new_files_obey_the_umask(void **state) {
    (void)state;
    const mode_t kept = umask(027);
    write_example("x");
    umask(kept);
    struct stat status;
    assert_int_equal(stat("x", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
}

static void a_folder_that_is_not_there_is_named(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_safetensors_writer *writer = NULL;
    assert_fails(dcpar_safetensors_create("no/x", example, 4, NULL, 0, &writer, &error), DCPAR_IO, "no/x");
    assert_null(writer);
    assert_int_equal(mkdir("x", 0777), 0);
    assert_fails(dcpar_safetensors_create("x", NULL, 0, NULL, 0, &writer, &error), DCPAR_IO,
                 "x: it is not a regular file");
    assert_int_equal(rmdir("x"), 0);
    assert_ok(dcpar_safetensors_create("x", NULL, 0, NULL, 0, &writer, &error));
    assert_int_equal(mkdir("x", 0777), 0);
    assert_fails(dcpar_safetensors_commit(writer, &error), DCPAR_IO, "cannot replace x: ");
    assert_int_equal(files_here(), 1);
}

/* A limit on the size of files stands for a full disk: write() fails or is cut short in the same way. */
static void a_full_disk_leaves_the_old_file_and_nothing_else(void **state) {
    (void)state;
    write_example("x");
    struct rlimit kept, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    enum { count = 20000 };
    const dcpar_safetensor tensor = {"w", F32, 1, {count}};
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    const rlim_t limits[] = {0, 50, 30000};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
        dcpar_error error = {DCPAR_OK, ""};
        dcpar_safetensors_writer *writer = NULL;
        small = (struct rlimit){limits[i], kept.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        dcpar_status status = dcpar_safetensors_create("x", &tensor, 1, NULL, 0, &writer, &error);
        if (status == DCPAR_OK) status = dcpar_safetensors_append(writer, values, count * sizeof *values, &error);
        dcpar_safetensors_abandon(writer);
        setrlimit(RLIMIT_FSIZE, &kept);
        assert_int_equal(status, DCPAR_IO);
        assert_non_null(strstr(error.text, "cannot write x: "));
        assert_int_equal(files_here(), 1);
        check_example("x");
    }
    signal(SIGXFSZ, handler);
    free(values);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

static void refuse_file(dcpar_status wanted, const char *part) {
    dcpar_error error;
    dcpar_safetensors *file = NULL;
    assert_fails(dcpar_safetensors_open("x", &file, &error), wanted, part);
    assert_null(file);
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    write_example("x");
    size_t size = 0;
    unsigned char *bytes = read_bytes("x", &size);
    for (size_t cut = 0; cut < size; ++cut) {
        write_bytes("x", bytes, cut);
        refuse_file(DCPAR_INVALID, "x");
    }
    write_bytes("x", bytes, size);
    check_example("x");
    FILE *file = fopen("x", "ab");
    assert_non_null(file);
    fputc(0, file);
    fclose(file);
    refuse_file(DCPAR_INVALID, "x: 1 bytes at its end belong to no tensor");
    free(bytes);
}

static void a_file_with_a_wrong_byte_breaks_nothing(void **state) {
    (void)state;
    write_example("x");
    size_t size = 0;
    unsigned char *bytes = read_bytes("x", &size);
    for (size_t at = 0; at < size; ++at) {
        for (int step = 1; step < 256; step *= 4) {
            bytes[at] = (unsigned char)(bytes[at] + step);
            write_bytes("x", bytes, size);
            dcpar_error error;
            dcpar_safetensors *file = NULL;
            if (dcpar_safetensors_open("x", &file, &error) == DCPAR_OK) dcpar_safetensors_close(file);
            bytes[at] = (unsigned char)(bytes[at] - step);
        }
    }
    free(bytes);
}

/* A file with this header and `data` zero bytes. */
static void write_header(const char *header, size_t data) {
    unsigned char bytes[1024] = {0};
    const size_t size = strlen(header);
    bytes[0] = (unsigned char)size, bytes[1] = (unsigned char)(size >> 8);
    memcpy(bytes + 8, header, size);
    write_bytes("x", bytes, 8 + size + data);
}

static void refuse_header(const char *header, size_t data, const char *part) {
    write_header(header, data);
    refuse_file(DCPAR_INVALID, part);
}

#define TENSOR(name, shape, begin, end)                                                                                \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void tensors_may_stand_in_any_order_in_the_header(void **state) {
    (void)state;
    write_header(
        "{" TENSOR("b", "[2]", "4", "12") "," TENSOR("a", "[]", "0", "4") "," TENSOR("e", "[0]", "4", "4") "} ", 12);
    dcpar_safetensors *file = open_tensors("x");
    assert_int_equal(dcpar_safetensors_count(file), 3);
    dcpar_safetensors_close(file);
}

static void headers_that_are_wrong_are_refused_naming_the_tensor(void **state) {
    (void)state;
    refuse_header("", 0, "x: the header is not JSON");
    refuse_header("{", 0, "x: the header is not JSON");
    refuse_header("{}}", 0, "x: the header is not JSON");
    refuse_header("[]", 0, "x: the header does not start with '{'");
    refuse_header(" {}", 0, "x: the header does not start with '{'");
    refuse_header("{\"\xff\":1}", 0, "x: the header is not JSON");
    refuse_header("{}", 4, "x: 4 bytes at its end belong to no tensor");
    refuse_header("{\"w\":3}", 0, "x: tensor w has no dtype");
    refuse_header("{\"w\":{\"dtype\":\"F32\"}}", 0, "x: tensor w has no shape");
    refuse_header("{\"w\":{\"dtype\":\"F32\",\"shape\":[0]}}", 0, "x: tensor w has no data_offsets");
    refuse_header("{\"w\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0]}}", 0, "tensor w has no data_offsets");
    refuse_header("{" TENSOR("w", "[1]", "0", "4.0") "}", 4, "x: tensor w has no data_offsets");
    refuse_header("{" TENSOR("w", "[-1]", "0", "4") "}", 4, "x: tensor w has a shape that cannot be");
    refuse_header("{" TENSOR("w", "[1.0]", "0", "4") "}", 4, "x: tensor w has a shape that cannot be");
    refuse_header("{" TENSOR("w", "[4611686018427387904,4]", "0", "0") "}", 0, "tensor w has a shape that cannot be");
    refuse_header("{" TENSOR("w", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "x: tensor w has more than 8 dimensions");
    refuse_header("{" TENSOR("w", "[2]", "0", "4") "}", 4, "x: tensor w takes 8 bytes by its shape, but has 4");
    refuse_header("{" TENSOR("w", "[1]", "0", "4") "}", 3, "x: tensor w lies at bytes 0 to 4 of the data, which has 3");
    refuse_header("{" TENSOR("w", "[1]", "4", "0") "}", 4, "x: tensor w lies at bytes 4 to 0");
    refuse_header("{" TENSOR("w", "[1]", "-4", "0") "}", 4, "x: tensor w lies at bytes -4 to 0");
    refuse_header("{" TENSOR("w", "[1]", "99999999999999999999", "4") "}", 4, "x: the header is not JSON");
    refuse_header("{" TENSOR("a", "[1]", "0", "4") "," TENSOR("b", "[1]", "8", "12") "}", 12,
                  "x: tensor b has a hole before it");
    refuse_header("{" TENSOR("a", "[1]", "4", "8") "}", 8, "x: tensor a has a hole before it");
    refuse_header("{" TENSOR("a", "[2]", "0", "8") "," TENSOR("b", "[2]", "4", "12") "}", 12, "shares bytes");
    refuse_header("{" TENSOR("a", "[1]", "0", "4") "," TENSOR("b", "[1]", "0", "4") "}", 4, "shares bytes");
    refuse_header("{" TENSOR("a", "[1]", "0", "4") "," TENSOR("a", "[1]", "4", "8") "}", 8, "duplicate");
    refuse_header("{\"__metadata__\":3}", 0, "__metadata__");
    refuse_header("{\"__metadata__\":{\"step\":7}}", 0, "'step' is not text");
}

static void wild_sizes_and_other_types_are_refused(void **state) {
    (void)state;
    write_bytes("x", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    refuse_file(DCPAR_INVALID, "x says its header has 18446744073709551615 bytes");
    write_bytes("x", "\x01\xe1\xf5\x05\0\0\0\0{}", 10);
    refuse_file(DCPAR_INVALID, "x says its header has 100000001 bytes");
    write_bytes("x", "\x03\0\0\0\0\0\0\0{}", 10);
    refuse_file(DCPAR_INVALID, "x ends inside its header");
    write_header("{\"w\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2);
    refuse_file(DCPAR_UNSUPPORTED, "x: tensor w has dtype BF16");
    assert_int_equal(unlink("x"), 0);
    refuse_file(DCPAR_IO, "cannot open x: ");
}

static void a_tensor_that_is_not_as_wanted_is_refused(void **state) {
    (void)state;
    write_example("x");
    dcpar_error error;
    dcpar_safetensors *file = open_tensors("x");
    const dcpar_safetensor wanted[] = {{"absent", F32, 1, {1}},
                                       {"layer.0.weight", F32, 2, {3, 2}},
                                       {"layer.0.weight", F32, 1, {2}},
                                       {"layer.0.weight", I64, 2, {2, 3}}};
    const char *const sentences[] = {"x has no tensor absent", "x: tensor layer.0.weight is F32 [2, 3], not F32 [3, 2]",
                                     "x: tensor layer.0.weight is F32 [2, 3], not F32 [2]",
                                     "x: tensor layer.0.weight is F32 [2, 3], not I64 [2, 3]"};
    int64_t index = -1;
    for (int i = 0; i < 4; ++i)
        assert_fails(dcpar_safetensors_require(file, &wanted[i], &index, &error), DCPAR_MISMATCH, sentences[i]);
    assert_int_equal(index, -1);
    dcpar_safetensors_close(file);
}

static void only_values_inside_a_tensor_are_read(void **state) {
    (void)state;
    write_example("x");
    dcpar_error error;
    dcpar_safetensors *file = open_tensors("x");
    const int64_t weight = dcpar_safetensors_find(file, "layer.0.weight");
    float values[8];
    const int64_t wrong[][2] = {{0, 7}, {6, 1}, {-1, 2}, {1, -1}, {INT64_MAX, 1}, {1, INT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        assert_fails(dcpar_safetensors_read(file, weight, wrong[i][0], wrong[i][1], values, &error), DCPAR_INVALID,
                     "x: tensor layer.0.weight has 6 values");
    struct stat status;
    assert_int_equal(stat("x", &status), 0);
    assert_int_equal(truncate("x", status.st_size - 8), 0); /* the scale and the last weight */
    assert_ok(dcpar_safetensors_read(file, weight, 0, 5, values, &error));
    assert_fails(dcpar_safetensors_read(file, weight, 0, 6, values, &error), DCPAR_IO,
                 "tensor layer.0.weight: x has become shorter");
    dcpar_safetensors_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_folder(what_is_written_is_read_again),
        in_folder(the_bytes_are_those_of_the_format),
        in_folder(a_file_may_hold_nothing),
        in_folder(tensors_that_cannot_be_stored_are_refused),
        in_folder(too_few_and_too_many_values_are_refused),
        in_folder(nothing_is_under_the_path_before_the_commit),
        in_folder(two_writers_of_one_path_do_each_other_no_harm),
        in_folder(new_files_obey_the_umask),
        in_folder(a_folder_that_is_not_there_is_named),
        in_folder(a_full_disk_leaves_the_old_file_and_nothing_else),
        in_folder(a_file_cut_anywhere_is_refused),
        in_folder(a_file_with_a_wrong_byte_breaks_nothing),
        in_folder(tensors_may_stand_in_any_order_in_the_header),
        in_folder(headers_that_are_wrong_are_refused_naming_the_tensor),
        in_folder(wild_sizes_and_other_types_are_refused),
        in_folder(a_tensor_that_is_not_as_wanted_is_refused),
        in_folder(only_values_inside_a_tensor_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
