/* Checkpoints in the safetensors format: named tensors and a few words about them in one file.
 *
 *     8 bytes    size of the header, little endian
 *     header     JSON: {"__metadata__": {key: text}, name: {"dtype", "shape", "data_offsets": [begin, end]}, ...},
 *                padded with blanks to a multiple of 8 bytes
 *     data       the tensors' values, little endian, one after another without holes
 *
 * All of it is local. */
#ifndef DCPAR_DATA_SAFETENSORS_H
#define DCPAR_DATA_SAFETENSORS_H

#include "dcpar.h"

#define DCPAR_SAFETENSOR_DIMENSIONS 8

typedef enum dcpar_safetensor_type { DCPAR_SAFETENSOR_F32, DCPAR_SAFETENSOR_I64 } dcpar_safetensor_type;

typedef struct dcpar_safetensor {
    const char *name; /* UTF-8 */
    dcpar_safetensor_type type;
    int32_t dimensions; /* 0: a single value */
    int64_t shape[DCPAR_SAFETENSOR_DIMENSIONS];
} dcpar_safetensor;

typedef struct dcpar_safetensors_text {
    const char *key, *text; /* UTF-8 */
} dcpar_safetensors_text;

/* "F32" or "I64". */
const char *dcpar_safetensor_type_name(dcpar_safetensor_type type);

/* Bytes of one value. */
int64_t dcpar_safetensor_type_bytes(dcpar_safetensor_type type);

/* Bytes of all values; -1 when the shape has a negative dimension, too many of them, or too many values. */
int64_t dcpar_safetensor_bytes(const dcpar_safetensor *tensor);

/* --------------------------------------------------------------------------------------------------------- writing
 * The tensors are announced first; then their values are appended in the same order, in portions of any size, so that
 * nobody needs all of them at the same time. The file appears under its path when it is committed, whole and on disk
 * (base/atomic_file.h). One thread at a time. */

typedef struct dcpar_safetensors_writer dcpar_safetensors_writer;

/* Writes the header for tensors[count] and metadata[text_count]. DCPAR_INVALID, naming file and tensor or key: a name
 * twice, "__metadata__" as a tensor's name, text that is not UTF-8, a shape that cannot be, or a tensor whose first
 * value would not be aligned: list I64 before F32. DCPAR_IO when the file cannot be written. */
dcpar_status dcpar_safetensors_create(const char *path, const dcpar_safetensor *tensors, int64_t count,
                                      const dcpar_safetensors_text *metadata, int64_t text_count,
                                      dcpar_safetensors_writer **out, dcpar_error *error);

/* The next `bytes` bytes of values. DCPAR_INVALID when there are more than were announced. */
dcpar_status dcpar_safetensors_append(dcpar_safetensors_writer *writer, const void *values, int64_t bytes,
                                      dcpar_error *error);

/* Puts the file under its path. DCPAR_INVALID when values are missing, naming the first tensor that lacks some.
 * `writer` is gone afterwards; after a failure what was under the path is unharmed. */
dcpar_status dcpar_safetensors_commit(dcpar_safetensors_writer *writer, dcpar_error *error);

/* Ends writing; nothing is left of the file. NULL is allowed. */
void dcpar_safetensors_abandon(dcpar_safetensors_writer *writer);

/* --------------------------------------------------------------------------------------------------------- reading
 * Several threads may use an open file at the same time. */

typedef struct dcpar_safetensors dcpar_safetensors;

/* Opens a file and checks its header: the sizes of all tensors are those of their shapes, and together they are the
 * file's data without overlap, hole or rest. DCPAR_INVALID when not, DCPAR_UNSUPPORTED for a type that is not F32 or
 * I64; both name the file and the tensor. Values stay on disk. */
dcpar_status dcpar_safetensors_open(const char *path, dcpar_safetensors **out, dcpar_error *error);
void dcpar_safetensors_close(dcpar_safetensors *file);

/* The tensors, sorted by name; 0 <= index < count. */
int64_t dcpar_safetensors_count(const dcpar_safetensors *file);
const dcpar_safetensor *dcpar_safetensors_at(const dcpar_safetensors *file, int64_t index);

/* The index of a tensor, or -1. */
int64_t dcpar_safetensors_find(const dcpar_safetensors *file, const char *name);

/* *index of the tensor that has the name, type and shape of `wanted`; DCPAR_MISMATCH when there is none, saying what
 * there is instead. */
dcpar_status dcpar_safetensors_require(const dcpar_safetensors *file, const dcpar_safetensor *wanted, int64_t *index,
                                       dcpar_error *error);

/* The text of a metadata key, or NULL. */
const char *dcpar_safetensors_metadata(const dcpar_safetensors *file, const char *key);

/* Copies `count` values from value `first` of the flattened tensor on. DCPAR_INVALID when they are not all inside it,
 * DCPAR_IO when the file cannot be read or has become shorter; both name file and tensor. */
dcpar_status dcpar_safetensors_read(const dcpar_safetensors *file, int64_t index, int64_t first, int64_t count,
                                    void *values, dcpar_error *error);

#endif
