/* Lengths as text, one integer a line. Lists of hundreds of millions of lines are read, so lines are taken out of large
 * blocks and digits are read here: strtoll would cost more than everything else together. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "data/format.h"
#include "data/integers.h"

#define BLOCK_BYTES (1 << 20) /* and no line may be longer */

typedef struct text {
    const char *path;
    dcpar_integer_list lengths;
    int64_t line;       /* the number of the line being read, from 1 */
    int64_t blank_line; /* the first blank one since the last integer; 0: none */
} text;

/* As much of a line as a sentence has room for, in printable letters. */
static void quote(const char *line, const char *end, char out[40]) {
    size_t length = 0;
    while (line < end && length < 36) {
        out[length++] = isprint((unsigned char)*line) ? *line : '?';
        ++line;
    }
    snprintf(out + length, 4, "%s", line < end ? "..." : "");
}

static dcpar_status refuse_line(const text *state, const char *line, const char *end, const char *why,
                                dcpar_error *error) {
    char quoted[40];
    quote(line, end, quoted);
    return dcpar_fail(error, DCPAR_INVALID, "%s, line %lld: \"%s\" %s", state->path, (long long)state->line, quoted,
                      why);
}

static bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

/* Digits up to the first other letter. What is above DCPAR_LENGTH_MAX stays above it without growing on. */
static inline const char *read_digits(const char *at, const char *end, int64_t *value) {
    int64_t sum = 0;
    for (; at < end && (unsigned char)(*at - '0') < 10; ++at)
        if (sum <= DCPAR_LENGTH_MAX) sum = 10 * sum + (*at - '0');
    *value = sum;
    return at;
}

/* A line that is not simply digits with a legal value. */
static dcpar_status add_odd_line(text *state, const char *line, const char *end, dcpar_error *error) {
    while (end > line && is_blank(end[-1])) --end;
    while (line < end && is_blank(*line)) ++line;
    if (line == end) {
        if (state->blank_line == 0) state->blank_line = state->line;
        return DCPAR_OK;
    }
    if (*line == '#') return DCPAR_OK;
    const bool negative = *line == '-';
    int64_t value = 0;
    const char *digits = line + negative, *rest = read_digits(digits, end, &value);
    if (rest == digits || rest < end) return refuse_line(state, line, end, "is not an integer", error);
    if (negative) return refuse_line(state, line, end, "is negative", error);
    if (value > DCPAR_LENGTH_MAX) return refuse_line(state, line, end, "is above 2^40", error);
    if (state->blank_line != 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s, line %lld: the line is blank, and lengths follow it", state->path,
                          (long long)state->blank_line);
    return dcpar_integer_list_add(&state->lengths, value, error);
}

/* Takes whole lines from the front of block[0, bytes); *used is where the first unfinished one starts. */
static dcpar_status add_lines(text *state, const char *block, int64_t bytes, int64_t *used, dcpar_error *error) {
    const char *line = block, *const stop = block + bytes;
    while (line < stop) {
        int64_t value = 0;
        const char *end = read_digits(line, stop, &value);
        if (end > line && end < stop && *end == '\n' && value <= DCPAR_LENGTH_MAX && state->blank_line == 0) {
            DCPAR_TRY(dcpar_integer_list_add(&state->lengths, value, error));
        } else {
            end = memchr(line, '\n', (size_t)(stop - line));
            if (end == NULL) break;
            DCPAR_TRY(add_odd_line(state, line, end, error));
        }
        line = end + 1;
        ++state->line;
    }
    *used = line - block;
    return DCPAR_OK;
}

static dcpar_status read_blocks(text *state, int file, char *block, dcpar_error *error) {
    int64_t kept = 0, got = 0; /* block[0, kept) is an unfinished line */
    bool first = true;
    do {
        DCPAR_TRY(dcpar_file_read_next(file, state->path, block + kept, BLOCK_BYTES - kept, &got, error));
        if (first) DCPAR_TRY(dcpar_file_refuse_gzip(block, got, state->path, error));
        first = false;
        const int64_t bytes = kept + got;
        int64_t used = 0;
        DCPAR_TRY(add_lines(state, block, bytes, &used, error));
        if (used == 0 && bytes == BLOCK_BYTES)
            return dcpar_fail(error, DCPAR_INVALID, "%s, line %lld has more than %d bytes", state->path,
                              (long long)state->line, BLOCK_BYTES);
        kept = bytes - used;
        memmove(block, block + used, (size_t)kept);
    } while (got > 0);
    return kept > 0 ? add_odd_line(state, block, block + kept, error) : DCPAR_OK;
}

dcpar_status dcpar_lengths_read_text(int file, const char *path, int64_t **lengths, int64_t *count,
                                     dcpar_error *error) {
    text state = {path, {NULL, 0, 0}, 1, 0};
    char *block = malloc(BLOCK_BYTES);
    if (block == NULL) return dcpar_fail_memory(error, "reading lengths");
    dcpar_status status = read_blocks(&state, file, block, error);
    free(block);
    if (status == DCPAR_OK) status = dcpar_integer_list_shrink(&state.lengths, error);
    if (status != DCPAR_OK) {
        free(state.lengths.values);
        return status;
    }
    *lengths = state.lengths.values;
    *count = state.lengths.count;
    return DCPAR_OK;
}
