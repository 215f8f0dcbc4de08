/* FASTA: every record is one sequence of its residues' bytes.
 *
 * A line that starts with '>' begins a record, one that starts with ';' is a comment; every other line's bytes, blanks
 * left out, are residues. One pass over the file keeps a mark, the offset of a residue, for the first and every
 * MARK_DISTANCE-th residue of each record: reading goes on from the nearest mark, however long the record and however
 * its lines are broken. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "data/format.h"
#include "data/integers.h"

#define MARK_DISTANCE 65536
#define SCAN_BYTES (1 << 20)
#define READ_BYTES (1 << 15)

typedef struct fasta {
    char *path;
    int file;
    dcpar_integer_list marks;      /* file offsets of residues */
    dcpar_integer_list first_mark; /* of each record */
} fasta;

/* Where a walk through the file stands. */
typedef struct walk {
    bool line_start;
    bool skipping; /* the rest of a header or comment */
} walk;

typedef enum byte_kind { BYTE_IGNORED, BYTE_RECORD, BYTE_RESIDUE, BYTE_REFUSED } byte_kind;

static byte_kind next_byte(walk *at, unsigned char byte) {
    if (byte == '\n') {
        *at = (walk){true, false};
        return BYTE_IGNORED;
    }
    if (at->skipping) return BYTE_IGNORED;
    const bool line_start = at->line_start;
    at->line_start = false;
    if (line_start && (byte == '>' || byte == ';')) {
        at->skipping = true;
        return byte == '>' ? BYTE_RECORD : BYTE_IGNORED;
    }
    if (byte > ' ' && byte < 127 && byte != '>') return BYTE_RESIDUE;
    return byte == ' ' || (byte >= '\t' && byte <= '\r') ? BYTE_IGNORED : BYTE_REFUSED;
}

/* What the one pass of opening has found so far. */
typedef struct scan {
    fasta *content;
    dcpar_integer_list lengths;
    walk at;
    int64_t line;     /* from 1 */
    int64_t residues; /* of the last record */
} scan;

static dcpar_status refuse(const scan *state, unsigned char byte, dcpar_error *error) {
    const long long line = (long long)state->line;
    if (byte == '>')
        return dcpar_fail(error, DCPAR_INVALID, "%s, line %lld: '>' does not stand at the start of the line",
                          state->content->path, line);
    return dcpar_fail(error, DCPAR_INVALID, "%s, line %lld: byte 0x%02x is no residue", state->content->path, line,
                      byte);
}

static dcpar_status end_record(scan *state, dcpar_error *error) {
    if (state->content->first_mark.count == 0) return DCPAR_OK;
    return dcpar_integer_list_add(&state->lengths, state->residues, error);
}

static dcpar_status begin_record(scan *state, dcpar_error *error) {
    DCPAR_TRY(end_record(state, error));
    state->residues = 0;
    return dcpar_integer_list_add(&state->content->first_mark, state->content->marks.count, error);
}

static dcpar_status add_residue(scan *state, int64_t offset, dcpar_error *error) {
    if (state->content->first_mark.count == 0)
        return dcpar_fail(error, DCPAR_INVALID, "%s, line %lld: text before the first line that starts with '>'",
                          state->content->path, (long long)state->line);
    if (state->residues % MARK_DISTANCE == 0) DCPAR_TRY(dcpar_integer_list_add(&state->content->marks, offset, error));
    ++state->residues;
    return DCPAR_OK;
}

static dcpar_status scan_block(scan *state, const unsigned char *block, int64_t bytes, int64_t offset,
                               dcpar_error *error) {
    for (int64_t i = 0; i < bytes; ++i) {
        switch (next_byte(&state->at, block[i])) {
        case BYTE_IGNORED:
            if (block[i] == '\n') ++state->line;
            break;
        case BYTE_RECORD:
            DCPAR_TRY(begin_record(state, error));
            break;
        case BYTE_RESIDUE:
            DCPAR_TRY(add_residue(state, offset + i, error));
            break;
        case BYTE_REFUSED:
            return refuse(state, block[i], error);
        }
    }
    return DCPAR_OK;
}

static dcpar_status scan_blocks(scan *state, unsigned char *block, dcpar_error *error) {
    const fasta *content = state->content;
    int64_t got = SCAN_BYTES;
    for (int64_t offset = 0; got == SCAN_BYTES; offset += got) {
        DCPAR_TRY(dcpar_file_read_at(content->file, content->path, offset, block, SCAN_BYTES, &got, error));
        if (offset == 0) DCPAR_TRY(dcpar_file_refuse_gzip(block, got, content->path, error));
        DCPAR_TRY(scan_block(state, block, got, offset, error));
    }
    return end_record(state, error);
}

static dcpar_status scan_file(scan *state, dcpar_error *error) {
    unsigned char *block = malloc(SCAN_BYTES);
    if (block == NULL) return dcpar_fail_memory(error, "reading a FASTA file");
    const dcpar_status status = scan_blocks(state, block, error);
    free(block);
    if (status != DCPAR_OK) return status;
    DCPAR_TRY(dcpar_integer_list_shrink(&state->content->marks, error));
    DCPAR_TRY(dcpar_integer_list_shrink(&state->content->first_mark, error));
    return dcpar_integer_list_shrink(&state->lengths, error);
}

/* Compressed files are recognised, too, so that they are refused with a sentence that helps. */
static bool fasta_recognises(const char *path) {
    static const char *const suffixes[] = {".fa",    ".fasta",    ".faa",    ".fna",
                                           ".fa.gz", ".fasta.gz", ".faa.gz", ".fna.gz"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; ++i)
        if (dcpar_path_ends_in(path, suffixes[i])) return true;
    return false;
}

static dcpar_status fasta_open(const char *path, dcpar_dataset *dataset, dcpar_error *error) {
    fasta *content = calloc(1, sizeof *content);
    if (content == NULL) return dcpar_fail_memory(error, "a FASTA file");
    dataset->content = content;
    content->file = -1;
    content->path = strdup(path);
    if (content->path == NULL) return dcpar_fail_memory(error, "a FASTA file");
    int64_t bytes = 0;
    DCPAR_TRY(dcpar_file_open(path, &content->file, error));
    DCPAR_TRY(dcpar_file_size(content->file, path, &bytes, error));

    scan state = {content, {NULL, 0, 0}, {true, false}, 1, 0};
    const dcpar_status status = scan_file(&state, error);
    dataset->lengths = state.lengths.values;
    dataset->count = state.lengths.count;
    dataset->vocabulary = 256;
    return status;
}

static dcpar_status fasta_read(const dcpar_dataset *dataset, int64_t row, int64_t first, int64_t count, int32_t *tokens,
                               dcpar_error *error) {
    const fasta *content = dataset->content;
    int64_t offset = content->marks.values[content->first_mark.values[row] + first / MARK_DISTANCE];
    int64_t residue = -(first % MARK_DISTANCE); /* the first that is wanted is number 0 */
    walk at = {false, false};
    while (residue < count) {
        unsigned char block[READ_BYTES];
        int64_t got = 0;
        DCPAR_TRY(dcpar_file_read_at(content->file, content->path, offset, block, READ_BYTES, &got, error));
        if (got == 0) return dcpar_file_fail_shorter(error, content->path);
        offset += got;
        for (int64_t i = 0; i < got && residue < count; ++i) {
            const byte_kind kind = next_byte(&at, block[i]);
            if (kind == BYTE_RESIDUE && residue++ >= 0) tokens[residue - 1] = block[i];
            if (kind == BYTE_RECORD || kind == BYTE_REFUSED)
                return dcpar_fail(error, DCPAR_IO, "%s has changed since it was opened: sequence %lld is shorter now",
                                  content->path, (long long)row);
        }
    }
    return DCPAR_OK;
}

static void fasta_close(void *opened) {
    fasta *content = opened;
    if (content->file >= 0) close(content->file);
    free(content->marks.values);
    free(content->first_mark.values);
    free(content->path);
    free(content);
}

const dcpar_format dcpar_format_fasta = {"FASTA", fasta_recognises, fasta_open, fasta_read, fasta_close};
