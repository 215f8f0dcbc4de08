#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "testing.h"

static void every_status_has_a_name_and_a_sentence(void **state) {
    (void)state;
    for (int code = DCPAR_OK; code <= DCPAR_INTERRUPTED; ++code) {
        assert_string_not_equal(dcpar_status_name(code), "UNKNOWN");
        assert_true(strlen(dcpar_status_text(code)) > 3);
    }
    assert_string_equal(dcpar_status_name(99), "UNKNOWN");
}

static void errors_carry_one_sentence_and_may_be_null(void **state) {
    (void)state;
    dcpar_error error;
    assert_int_equal(dcpar_fail(&error, DCPAR_INVALID, "row %d is bad", 3), DCPAR_INVALID);
    assert_string_equal(error.text, "row 3 is bad");
    assert_int_equal(dcpar_fail_prefix(&error, DCPAR_IO, "file %s", "x"), DCPAR_IO);
    assert_string_equal(error.text, "file x: row 3 is bad");
    assert_int_equal(dcpar_fail(NULL, DCPAR_IO, "nobody listens"), DCPAR_IO);
}

static void an_arena_counts_to_the_byte_and_refuses_past_its_limit(void **state) {
    (void)state;
    dcpar_error error;
    dcpar_arena *arena = NULL;
    assert_ok(dcpar_arena_create(1024, &arena, &error));
    assert_true(dcpar_arena_reserve(arena, 256));
    const int64_t mark = dcpar_arena_mark(arena);
    char *first = dcpar_arena_push(arena, 100);
    assert_non_null(first);
    assert_int_equal((uintptr_t)first % DCPAR_ARENA_ALIGNMENT, 0);
    assert_int_equal(dcpar_arena_used(arena), 256 + 128);
    assert_null(dcpar_arena_push(arena, 1024 - 256 - 128 + 1));
    assert_non_null(dcpar_arena_push(arena, 1024 - 256 - 128));
    assert_int_equal(dcpar_arena_peak(arena), 1024);
    assert_false(dcpar_arena_reserve(arena, 1));
    dcpar_arena_pop(arena, mark);
    assert_int_equal(dcpar_arena_used(arena), 256);
    assert_int_equal(dcpar_arena_peak(arena), 1024);
    dcpar_arena_reset_peak(arena);
    assert_int_equal(dcpar_arena_peak(arena), 256);
    dcpar_arena_destroy(arena);
    assert_int_equal(dcpar_arena_create(0, &arena, &error), DCPAR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_sentence),
        cmocka_unit_test(errors_carry_one_sentence_and_may_be_null),
        cmocka_unit_test(an_arena_counts_to_the_byte_and_refuses_past_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
