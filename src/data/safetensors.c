#include "data/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read and written as they lie in memory");

static const struct {
    const char *name;
    int64_t bytes;
} types[] = {[DCPAR_SAFETENSOR_F32] = {"F32", 4}, [DCPAR_SAFETENSOR_I64] = {"I64", 8}};

const char *dcpar_safetensor_type_name(dcpar_safetensor_type type) { return types[type].name; }

int64_t dcpar_safetensor_type_bytes(dcpar_safetensor_type type) { return types[type].bytes; }

int64_t dcpar_safetensor_bytes(const dcpar_safetensor *tensor) {
    if (tensor->dimensions < 0 || tensor->dimensions > DCPAR_SAFETENSOR_DIMENSIONS) return -1;
    int64_t bytes = types[tensor->type].bytes;
    for (int32_t i = 0; i < tensor->dimensions; ++i) {
        const int64_t extent = tensor->shape[i];
        if (extent < 0 || (extent > 0 && bytes > INT64_MAX / extent)) return -1;
        bytes *= extent;
    }
    return bytes;
}
