/* The report's file: checked before, written beside its place, and put there whole. */
#define _XOPEN_SOURCE 700
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "report/page.h"

static dcpar_status fail_io(dcpar_error *error, const char *path, int code) {
    char reason[128];
    if (strerror_r(code, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", code);
    return dcpar_fail(error, DCPAR_IO, "cannot write %s: %s", path, reason);
}

/* ------------------------------------------------------------------------------------------------- checks */

static dcpar_status check_timeline(const dcpar_report *report, const dcpar_report_policy *policy,
                                   const dcpar_report_timeline *timeline, dcpar_error *error) {
    for (int64_t i = 0; i < timeline->count; ++i) {
        const dcpar_report_box *box = &timeline->boxes[i];
        const int64_t end = (int64_t)box->first_rank + box->sp;
        if (box->first_rank < 0 || box->sp < 1 || end > report->world)
            return dcpar_fail(error, DCPAR_INVALID,
                              "policy %s, iteration %lld: micro-batch %lld is on ranks %d to %lld of a world of %d",
                              policy->name, (long long)timeline->iteration, (long long)i, box->first_rank,
                              (long long)end - 1, report->world);
    }
    return DCPAR_OK;
}

static dcpar_status check(const dcpar_report *report, dcpar_error *error) {
    if (report->world < 1)
        return dcpar_fail(error, DCPAR_INVALID, "a report on a world of %d ranks cannot be", report->world);
    for (int32_t i = 0; i < report->policy_count; ++i)
        for (int32_t j = 0; j < report->policies[i].timeline_count; ++j)
            DCPAR_TRY(check_timeline(report, &report->policies[i], &report->policies[i].timelines[j], error));
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------------- writing */

/* The file that `path` names, through symbolic links; it need not exist. Freed by the caller. */
static dcpar_status find_target(const char *path, char **target, dcpar_error *error) {
    struct stat status;
    const bool exists = stat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode))
        return dcpar_fail(error, DCPAR_IO, "cannot write %s: it is not a regular file", path);
    char *found = exists ? realpath(path, NULL) : strdup(path);
    if (found == NULL) return errno == ENOMEM ? dcpar_fail_memory(error, "a report") : fail_io(error, path, errno);
    *target = found;
    return DCPAR_OK;
}

/* A new file beside `target`. Its name is one that no other writer uses: what exists is never opened. */
static dcpar_status create_beside(const char *target, char **name, FILE **file, dcpar_error *error) {
    enum { most_tries = 100 };
    const size_t size = strlen(target) + 48;
    char *tried = malloc(size);
    if (tried == NULL) return dcpar_fail_memory(error, "a report");
    int descriptor = -1;
    for (int i = 0; i < most_tries && descriptor < 0; ++i) {
        snprintf(tried, size, "%s.%ld.%d.tmp", target, (long)getpid(), i);
        descriptor = open(tried, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST) break;
    }
    FILE *opened = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (opened == NULL) {
        const int code = errno;
        if (descriptor >= 0) {
            close(descriptor);
            unlink(tried);
        }
        free(tried);
        return fail_io(error, target, code);
    }
    *name = tried;
    *file = opened;
    return DCPAR_OK;
}

static dcpar_status write_page(FILE *file, const dcpar_report *report, const char *path, dcpar_error *error) {
    dcpar_figures *figures = calloc((size_t)report->policy_count + 1, sizeof *figures);
    if (figures == NULL) return dcpar_fail_memory(error, "a report");
    dcpar_status status = dcpar_figures_make(report, figures, error);
    if (status == DCPAR_OK) status = dcpar_page_write(file, report, figures, error);
    free(figures);
    if (status != DCPAR_OK) return status;
    if (fflush(file) != 0 || ferror(file) || fsync(fileno(file)) != 0) return fail_io(error, path, errno);
    return DCPAR_OK;
}

dcpar_status dcpar_report_write(const dcpar_report *report, const char *path, dcpar_error *error) {
    DCPAR_TRY(check(report, error));
    char *target = NULL, *name = NULL;
    FILE *file = NULL;
    DCPAR_TRY(find_target(path, &target, error));
    dcpar_status status = create_beside(target, &name, &file, error);
    if (status == DCPAR_OK) {
        status = write_page(file, report, path, error);
        if (fclose(file) != 0 && status == DCPAR_OK) status = fail_io(error, path, errno);
        if (status == DCPAR_OK && rename(name, target) != 0) status = fail_io(error, path, errno);
        if (status != DCPAR_OK) unlink(name);
    }
    free(name);
    free(target);
    return status;
}
