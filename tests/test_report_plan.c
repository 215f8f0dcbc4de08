#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "plan/plan.h"
#include "report/plan_json.h"
#include "report/plan_text.h"
#include "testing.h"

/* A plan on 4 ranks: one long sequence on all, two pairs, and single-rank work of which rank 3 has none. */
static dcpar_plan *small_plan(void) {
    static const dcpar_microbatch microbatches[] = {
        {.first_rank = 0, .sp = 4, .recompute = 12, .padded_length = 32768, .seconds = 0.4, .bytes = 3 << 29},
        {.first_rank = 0, .sp = 2, .recompute = 3, .padded_length = 8192, .seconds = 1.0 / 3},
        {.first_rank = 2, .sp = 2, .recompute = 3, .padded_length = 8192, .seconds = 0.3},
        {.first_rank = 0, .sp = 1, .padded_length = 128, .seconds = 0.1},
        {.first_rank = 1, .sp = 1, .padded_length = 128, .seconds = 0.12},
        {.first_rank = 2, .sp = 1, .padded_length = 1024, .seconds = 1e-5},
    };
    dcpar_error error;
    dcpar_plan *plan = NULL;
    assert_ok(dcpar_plan_create(4, 2, 5, &plan, &error));
    int64_t row = 100;
    for (size_t i = 0; i < sizeof microbatches / sizeof *microbatches; ++i) {
        assert_ok(dcpar_plan_add(plan, &microbatches[i], &error));
        for (size_t j = 0; j <= i; ++j)
            assert_ok(dcpar_plan_add_row(plan, row++, microbatches[i].padded_length - 28, &error));
    }
    assert_ok(dcpar_plan_finish(plan, 0.8, &error));
    return plan;
}

/* Everything that was written to `file`; freed by the caller. */
static char *text_of(FILE *file) {
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    char *text = calloc((size_t)size + 1, 1);
    assert_non_null(text);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    return text;
}

static void assert_keys(json_t *object, const char *const *keys, size_t count) {
    assert_int_equal(json_object_size(object), count);
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach(object, key, value) {
        assert_non_null(value);
        assert_string_equal(key, keys[i++]); /* jansson keeps the file's order */
    }
}

static void a_plan_in_json_reads_back_exactly_with_its_keys_in_order(void **state) {
    (void)state;
    static const char *const plan_keys[] = {"iteration",   "tokens",     "seconds",
                                            "lower_bound", "idle_ratio", "microbatches"};
    static const char *const microbatch_keys[] = {"first_rank", "sp",    "rows",   "padded_length",
                                                  "recompute",  "start", "seconds"};
    dcpar_error error;
    dcpar_plan *plan = small_plan();
    FILE *file = tmpfile();
    assert_ok(dcpar_plan_write_json(file, plan, &error));
    char *text = text_of(file);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_keys(root, plan_keys, 6);
    const dcpar_metrics metrics = dcpar_plan_metrics(plan);
    assert_int_equal(json_integer_value(json_object_get(root, "iteration")), 5);
    assert_int_equal(json_integer_value(json_object_get(root, "tokens")), metrics.tokens);
    assert_true(json_number_value(json_object_get(root, "seconds")) == metrics.seconds);
    assert_true(json_number_value(json_object_get(root, "lower_bound")) == metrics.lower_bound);
    assert_true(json_number_value(json_object_get(root, "idle_ratio")) == metrics.idle_ratio);
    json_t *list = json_object_get(root, "microbatches");
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    assert_int_equal(json_array_size(list), count);
    for (int64_t i = 0; i < count; ++i) {
        json_t *one = json_array_get(list, (size_t)i);
        assert_keys(one, microbatch_keys, 7);
        assert_int_equal(json_integer_value(json_object_get(one, "first_rank")), microbatches[i].first_rank);
        assert_int_equal(json_integer_value(json_object_get(one, "sp")), microbatches[i].sp);
        assert_int_equal(json_integer_value(json_object_get(one, "padded_length")), microbatches[i].padded_length);
        assert_int_equal(json_integer_value(json_object_get(one, "recompute")), microbatches[i].recompute);
        assert_true(json_number_value(json_object_get(one, "start")) == microbatches[i].start);
        assert_true(json_number_value(json_object_get(one, "seconds")) == microbatches[i].seconds);
        json_t *rows = json_object_get(one, "rows");
        assert_int_equal(json_array_size(rows), microbatches[i].row_count);
        for (int64_t j = 0; j < microbatches[i].row_count; ++j)
            assert_int_equal(json_integer_value(json_array_get(rows, (size_t)j)), microbatches[i].rows[j]);
    }
    json_decref(root);
    free(text);
    dcpar_plan_destroy(plan);
}

static void an_empty_plan_is_valid_json_and_text(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_plan *plan = NULL;
    assert_ok(dcpar_plan_create(2, 0, 0, &plan, &error));
    assert_ok(dcpar_plan_finish(plan, 0, &error));
    FILE *file = tmpfile();
    assert_ok(dcpar_plan_write_json(file, plan, &error));
    char *text = text_of(file);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "microbatches")), 0);
    json_decref(root);
    free(text);
    file = tmpfile();
    assert_ok(dcpar_plan_print(file, plan, 2, &error));
    fclose(file);
    dcpar_plan_destroy(plan);
}

static char *summary_text(dcpar_epoch_summary summary) {
    dcpar_error error;
    FILE *file = tmpfile();
    assert_ok(dcpar_summary_write_json(file, &summary, &error));
    return text_of(file);
}

static void a_summary_in_json_leaves_out_reasons_that_never_occurred(void **state) {
    (void)state;
    char *text = summary_text((dcpar_epoch_summary){0, 7, 90, 10, 100, 4, 6});
    assert_string_equal(text, "{\"summary\": {\"iterations\": 7, \"used\": 90, \"dropped\": 10, \"total\": 100, "
                              "\"dropped_by_reason\": {\"empty\": 4, \"too long\": 6}}}\n");
    free(text);
    text = summary_text((dcpar_epoch_summary){0, 7, 94, 6, 100, 0, 6});
    assert_non_null(strstr(text, "{\"too long\": 6}}}"));
    free(text);
    text = summary_text((dcpar_epoch_summary){0, 7, 100, 0, 100, 0, 0});
    assert_non_null(strstr(text, "\"dropped_by_reason\": {}}}"));
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    json_decref(root);
    free(text);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL) skip();
    dcpar_error error;
    dcpar_plan *plan = small_plan();
    const dcpar_epoch_summary summary = {0, 7, 100, 0, 100, 0, 0};
    assert_int_equal(dcpar_plan_write_json(full, plan, &error), DCPAR_IO);
    assert_string_equal(error.text, "the plan of iteration 5 could not be written");
    assert_int_equal(dcpar_summary_write_json(full, &summary, &error), DCPAR_IO);
    assert_int_equal(dcpar_plan_print(full, plan, 4, &error), DCPAR_IO);
    assert_int_equal(dcpar_summary_print(full, &summary, NULL), DCPAR_IO);
    dcpar_plan_destroy(plan);
    fclose(full);
}

static void a_plan_for_the_terminal_fits_and_holds_the_figures(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_plan *plan = small_plan();
    FILE *file = tmpfile();
    assert_ok(dcpar_plan_print(file, plan, 4, &error));
    char *text = text_of(file);
    assert_non_null(strstr(text, "iteration 5: "));
    assert_non_null(strstr(text, "853 ms   lower bound 800 ms: 6.7 % above it\n"));
    assert_non_null(strstr(text, "1.50 GiB"));
    assert_non_null(strstr(text, "32,768     4           1          12        1          1"));
    assert_non_null(strstr(text, "8,192     2       2 - 3           3        2          5      300 ms - 333 ms"));
    assert_non_null(strstr(text, "1x32,768"));
    assert_null(strstr(text, "=  =")); /* boxes without a label have no hole */
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        print_message("%s\n", line);
        assert_true(strlen(line) <= 100);
    }
    free(text);
    dcpar_plan_destroy(plan);
}

static void a_summary_for_the_terminal_adds_up(void **state) {
    (void)state;
    dcpar_error error;
    const dcpar_epoch_summary summary = {1, 7, 1990, 10, 2000, 4, 6};
    FILE *file = tmpfile();
    assert_ok(dcpar_summary_print(file, &summary, &error));
    char *text = text_of(file);
    assert_string_equal(text, "epoch 1: 7 iterations, used 1,990 + dropped 10 = total 2,000 sequences "
                              "(empty: 4, too long: 6)\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_in_json_reads_back_exactly_with_its_keys_in_order),
        cmocka_unit_test(an_empty_plan_is_valid_json_and_text),
        cmocka_unit_test(a_summary_in_json_leaves_out_reasons_that_never_occurred),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(a_plan_for_the_terminal_fits_and_holds_the_figures),
        cmocka_unit_test(a_summary_for_the_terminal_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
