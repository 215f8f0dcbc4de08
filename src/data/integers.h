/* Integers as files store them, and growing lists of them. */
#ifndef DCPAR_DATA_INTEGERS_H
#define DCPAR_DATA_INTEGERS_H

#include "dcpar.h"

typedef struct dcpar_integer_type {
    int32_t bytes; /* 1, 2, 4 or 8 */
    bool is_signed, big_endian;
} dcpar_integer_type;

#define DCPAR_INTEGERS_AT_ONCE 4096

/* Reads values[count], count <= DCPAR_INTEGERS_AT_ONCE, that start at byte `offset`. Unsigned values above 2^63 - 1
 * become 2^63 - 1. Fails as dcpar_file_read_exactly. May be called by several threads at a time. */
dcpar_status dcpar_integers_read(int file, const char *path, int64_t offset, dcpar_integer_type type, int64_t count,
                                 int64_t *values, dcpar_error *error);

/* A list that starts as {NULL, 0, 0}. values is malloc'ed: free(values), or hand it on. */
typedef struct dcpar_integer_list {
    int64_t *values;
    int64_t count, capacity;
} dcpar_integer_list;

/* Makes room for at least one more value, capacity growing by half. */
dcpar_status dcpar_integer_list_grow(dcpar_integer_list *list, dcpar_error *error);

/* Gives unused capacity back; values is not NULL afterwards. */
dcpar_status dcpar_integer_list_shrink(dcpar_integer_list *list, dcpar_error *error);

static inline dcpar_status dcpar_integer_list_add(dcpar_integer_list *list, int64_t value, dcpar_error *error) {
    if (list->count == list->capacity) {
        const dcpar_status status = dcpar_integer_list_grow(list, error);
        if (status != DCPAR_OK) return status;
    }
    list->values[list->count++] = value;
    return DCPAR_OK;
}

#endif
