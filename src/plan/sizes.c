/* Legal sequence-parallel sizes. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plan/sizes.h"

static bool divides(int32_t sp, int32_t whole) { return whole <= 0 || whole % sp == 0; }

int32_t dcpar_legal_sizes(int32_t world, int32_t heads, int32_t kv_heads, int32_t sizes[64]) {
    int32_t count = 0;
    for (int32_t sp = 1; sp <= world && count < 64; ++sp) {
        /* Without a condition on heads any size would do; powers of two are what networks are built for. */
        if (heads <= 0 && kv_heads <= 0 && (sp & (sp - 1)) != 0) continue;
        if (divides(sp, heads) && divides(sp, kv_heads)) sizes[count++] = sp;
    }
    return count;
}

void dcpar_sizes_text(const int32_t *sizes, int32_t count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < count && used < size; ++i)
        used += (size_t)snprintf(text + used, size - used, i == 0 ? "%d" : ", %d", sizes[i]);
}

dcpar_status dcpar_check_size(int32_t sp, int32_t world, int32_t heads, int32_t kv_heads, dcpar_error *error) {
    int32_t sizes[64];
    char legal[300], reason[100];
    const int32_t count = dcpar_legal_sizes(world, heads, kv_heads, sizes);
    for (int32_t i = 0; i < count; ++i)
        if (sizes[i] == sp) return DCPAR_OK;
    dcpar_sizes_text(sizes, count, legal, sizeof legal);
    if (sp < 1)
        snprintf(reason, sizeof reason, "it is below 1");
    else if (!divides(sp, heads))
        snprintf(reason, sizeof reason, "%d heads are not divisible by %d", heads, sp);
    else if (!divides(sp, kv_heads))
        snprintf(reason, sizeof reason, "%d key-value heads are not divisible by %d", kv_heads, sp);
    else if (sp > world)
        snprintf(reason, sizeof reason, "the world has only %d ranks", world);
    else
        snprintf(reason, sizeof reason, "it is not a power of two");
    return dcpar_fail(error, DCPAR_ILLEGAL_SIZE, "SP size %d is not legal: %s; legal sizes are %s", sp, reason, legal);
}
