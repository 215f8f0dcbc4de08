#include "data/integers.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"

#define FIRST_CAPACITY 1024

static inline int64_t load(const unsigned char *at, int32_t bytes, bool is_signed, bool big_endian) {
    uint64_t value = 0;
    for (int32_t i = 0; i < bytes; ++i) value = value << 8 | at[big_endian ? i : bytes - 1 - i];
    if (!is_signed) return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    const uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    return (int64_t)((value ^ sign) - sign);
}

/* One loop for each width: with a constant number of bytes a load is one instruction. */
static void load_all(const unsigned char *at, dcpar_integer_type type, int64_t count, int64_t *values) {
    switch (type.bytes) {
#define LOAD_CASE(bytes)                                                                                               \
    case bytes:                                                                                                        \
        for (int64_t i = 0; i < count; ++i) values[i] = load(at + i * bytes, bytes, type.is_signed, type.big_endian);  \
        break;
        LOAD_CASE(1)
        LOAD_CASE(2)
        LOAD_CASE(4)
        LOAD_CASE(8)
#undef LOAD_CASE
    }
}

dcpar_status dcpar_integers_read(int file, const char *path, int64_t offset, dcpar_integer_type type, int64_t count,
                                 int64_t *values, dcpar_error *error) {
    unsigned char raw[DCPAR_INTEGERS_AT_ONCE * 8];
    DCPAR_TRY(dcpar_file_read_exactly(file, path, offset, raw, count * type.bytes, error));
    load_all(raw, type, count, values);
    return DCPAR_OK;
}

static dcpar_status set_capacity(dcpar_integer_list *list, int64_t capacity, dcpar_error *error) {
    int64_t *values = realloc(list->values, (size_t)capacity * sizeof *values);
    if (values == NULL)
        return dcpar_fail(error, DCPAR_NO_MEMORY, "the host has no memory for a list of %lld integers",
                          (long long)capacity);
    list->values = values;
    list->capacity = capacity;
    return DCPAR_OK;
}

dcpar_status dcpar_integer_list_grow(dcpar_integer_list *list, dcpar_error *error) {
    return set_capacity(list, list->capacity == 0 ? FIRST_CAPACITY : list->capacity + list->capacity / 2, error);
}

dcpar_status dcpar_integer_list_shrink(dcpar_integer_list *list, dcpar_error *error) {
    return set_capacity(list, list->count == 0 ? 1 : list->count, error);
}
