#define _POSIX_C_SOURCE 200809L /* getline, strdup */
#include "train/metrics_log.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/atomic_file.h"

static int64_t iteration_of(const char *line) {
    json_t *object = json_loads(line, 0, NULL);
    const json_t *value = json_object_get(object, "iteration");
    const int64_t iteration = json_is_integer(value) ? json_integer_value(value) : -1;
    json_decref(object);
    return iteration;
}

/* Replaces the file by its lines of iterations before `first`. */
static dcpar_status keep_before(const char *path, int64_t first, dcpar_error *error) {
    FILE *old = fopen(path, "r");
    if (old == NULL) return errno == ENOENT ? DCPAR_OK : dcpar_fail(error, DCPAR_IO, "%s: %s", path, strerror(errno));
    dcpar_atomic_file *file = NULL;
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    dcpar_status status = dcpar_atomic_file_create(path, &file, error);
    while (status == DCPAR_OK && (length = getline(&line, &size, old)) > 0) {
        const int64_t iteration = iteration_of(line);
        if (iteration >= 0 && iteration < first) status = dcpar_atomic_file_append(file, line, length, error);
    }
    if (status == DCPAR_OK)
        status = dcpar_atomic_file_commit(file, error);
    else
        dcpar_atomic_file_abandon(file);
    free(line);
    fclose(old);
    return status;
}

dcpar_status dcpar_metrics_log_open(const char *path, int64_t first, dcpar_metrics_log *log, dcpar_error *error) {
    DCPAR_TRY(keep_before(path, first, error));
    log->path = strdup(path);
    if (log->path == NULL) return dcpar_fail_memory(error, "the metrics file's name");
    log->file = fopen(path, "a");
    if (log->file != NULL) return DCPAR_OK;
    const dcpar_status status = dcpar_fail(error, DCPAR_IO, "%s: %s", path, strerror(errno));
    dcpar_metrics_log_close(log);
    return status;
}

dcpar_status dcpar_metrics_log_write(dcpar_metrics_log *log, const dcpar_report_iteration *iteration,
                                     dcpar_error *error) {
    json_t *object =
        json_pack("{s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "iteration",
                  (json_int_t)iteration->iteration, "loss", iteration->loss, "tokens", (json_int_t)iteration->tokens,
                  "tokens_per_second", (double)iteration->tokens / iteration->seconds, "seconds", iteration->seconds,
                  "predicted_seconds", iteration->predicted_seconds, "idle_ratio", iteration->idle_ratio,
                  "predicted_idle_ratio", iteration->predicted_idle_ratio, "gradient_norm", iteration->gradient_norm,
                  "learning_rate", iteration->learning_rate, "peak_bytes", (json_int_t)iteration->peak_bytes,
                  "predicted_peak_bytes", (json_int_t)iteration->predicted_peak_bytes);
    char *line = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (line == NULL)
        return dcpar_fail(error, DCPAR_INTERNAL, "iteration %lld has a number that JSON cannot hold",
                          (long long)iteration->iteration);
    const bool written = fprintf(log->file, "%s\n", line) > 0 && fflush(log->file) == 0;
    free(line);
    return written ? DCPAR_OK : dcpar_fail(error, DCPAR_IO, "%s: %s", log->path, strerror(errno));
}

void dcpar_metrics_log_close(dcpar_metrics_log *log) {
    if (log->file != NULL) fclose(log->file);
    free(log->path);
    *log = (dcpar_metrics_log){0};
}
