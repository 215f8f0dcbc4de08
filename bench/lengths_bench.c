/* How fast a list of lengths is read as text, and how much memory that takes.
 *
 *     lengths_bench [millions] [path]           (default 20 million lines, in a file that is removed again)
 *
 * The lines are seeded lengths of 1 to 7 digits, as token counts of documents have. The best of five readings counts:
 * the file is in the page cache then, so that it is the reader that is measured and not the disk. */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "data/dataset.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double peak_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

/* Lengths spread evenly over their logarithm. */
static int64_t length_at(int64_t row) {
    const uint64_t number = dcpar_random(1, 0, (uint64_t)row);
    return (int64_t)(number >> 41 >> number % 23) + 1;
}

/* Returns the bytes written, or -1. */
static long write_lengths(const char *path, int64_t count) {
    FILE *file = fopen(path, "w");
    if (file == NULL) return -1;
    for (int64_t row = 0; row < count; ++row) fprintf(file, "%lld\n", (long long)length_at(row));
    const long bytes = ftell(file);
    return fclose(file) == 0 ? bytes : -1;
}

static int measure(const char *path, int64_t count, long bytes) {
    const double before = peak_bytes();
    double best = 0.0;
    for (int trial = 0; trial < 5; ++trial) {
        dcpar_error error;
        int64_t *lengths = NULL, read = 0, wrong = 0;
        const double start = now();
        if (dcpar_lengths_read(path, &lengths, &read, &error) != DCPAR_OK) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        const double seconds = now() - start;
        if (trial == 0 || seconds < best) best = seconds;
        for (int64_t row = 0; row < count && row < read; ++row) wrong += lengths[row] != length_at(row);
        free(lengths);
        if (read != count || wrong != 0) {
            fprintf(stderr, "%lld lengths were read, %lld of them wrong\n", (long long)read, (long long)wrong);
            return 1;
        }
    }
    printf("lengths               %lld\n", (long long)count);
    printf("seconds               %.3f\n", best);
    printf("million_lengths_per_s %.1f\n", 1e-6 * (double)count / best);
    printf("megabytes_per_s       %.0f\n", 1e-6 * (double)bytes / best);
    printf("peak_bytes_a_length   %.2f\n", (peak_bytes() - before) / (double)count);
    return 0;
}

int main(int argc, char **argv) {
    const int64_t millions = argc > 1 ? atoll(argv[1]) : 20;
    if (millions < 1 || millions > 10000) {
        fprintf(stderr, "usage: %s [millions] [path]\n", argv[0]);
        return 2;
    }
    char temporary[] = "/tmp/lengths-XXXXXX";
    const int file = argc > 2 ? -1 : mkstemp(temporary);
    if (file >= 0) close(file);
    if (argc <= 2 && file < 0) {
        perror(temporary);
        return 1;
    }
    const char *path = argc > 2 ? argv[2] : temporary;
    const int64_t count = millions * 1000000;
    const long bytes = write_lengths(path, count);
    if (bytes < 0) perror(path);
    const int code = bytes < 0 ? 1 : measure(path, count, bytes);
    unlink(path);
    return code;
}
