/* What tests of training share: a small dataset on disk, a small model, a made-up profile that gives every
 * width work. */
#ifndef DCPAR_TRAIN_TESTING_H
#define DCPAR_TRAIN_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "data/dataset.h"
#include "testing.h"
#include "train/probe.h"

#define LAYERS 3

/* Four heads, so that 1, 2 and 4 ranks are legal. */
static inline dcpar_model small_model(void) {
    return (dcpar_model){{16, 24, 256, 4096, LAYERS, 4, 4, 4, 10000, 1e-6, false}, "a small model for tests"};
}

/* A folder of `count` files, file i of lengths[i] bytes; under /tmp, removed by remove_folder. */
static inline void make_files(const char *folder, const int64_t *lengths, int count) {
    assert_int_equal(mkdir(folder, 0777), 0);
    for (int i = 0; i < count; ++i) {
        char path[300];
        snprintf(path, sizeof path, "%s/%04d", folder, i);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        for (int64_t j = 0; j < lengths[i]; ++j)
            fputc((int)(dcpar_random(7, (uint64_t)i, (uint64_t)j) % 11) + 'a', file);
        assert_int_equal(fclose(file), 0);
    }
}

static inline void make_temporary(char *path, size_t size) {
    snprintf(path, size, "/tmp/dcpar-train-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static inline void remove_folder(const char *path) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* Costs by formula: `memory` bytes a rank, a token takes one byte a kept layer, and times favour narrow groups. */
static inline dcpar_profile *made_up_profile(const dcpar_model *model, int32_t world, int64_t memory) {
    dcpar_profile_info info = dcpar_model_info(model, world, memory);
    dcpar_profile_row rows[400];
    int64_t count = 0;
    for (int32_t sp = 1; sp <= 4; sp *= 2)
        for (int64_t length = 4; length <= 512; length *= 2)
            for (int32_t batch = 1; batch <= 8; batch *= 2) {
                const double tokens = (double)batch * (double)length / sp;
                rows[count++] = (dcpar_profile_row){.length = length,
                                                    .sp = sp,
                                                    .batch = batch,
                                                    .fits = true,
                                                    .forward = 1e-5 + 1e-6 * tokens * (1 + (double)length / 64),
                                                    .backward = 2e-5 + 2e-6 * tokens * (1 + (double)length / 64),
                                                    .constant_seconds = 1e-5 + 1e-6 * tokens,
                                                    .layer_bytes = (int64_t)tokens,
                                                    .input_bytes = 0,
                                                    .constant_bytes = 0};
            }
    dcpar_profile *profile = NULL;
    dcpar_error error;
    assert_ok(dcpar_profile_create(&info, rows, count, &profile, &error));
    return profile;
}

#endif
