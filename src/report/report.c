/* The report's file: checked before, and put there whole. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "report/report.h"

#include <stdlib.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "report/page.h"

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

/* The page's text, malloc'ed. */
static dcpar_status make_page(const dcpar_report *report, char **text, size_t *size, dcpar_error *error) {
    *text = NULL;
    dcpar_figures *figures = calloc((size_t)report->policy_count + 1, sizeof *figures);
    FILE *memory = open_memstream(text, size);
    if (figures == NULL || memory == NULL) {
        if (memory != NULL) fclose(memory);
        free(figures);
        return dcpar_fail_memory(error, "a report");
    }
    dcpar_status status = dcpar_figures_make(report, figures, error);
    if (status == DCPAR_OK) status = dcpar_page_write(memory, report, figures, error);
    free(figures);
    if (fclose(memory) != 0 && status == DCPAR_OK) status = dcpar_fail_memory(error, "a report");
    return status;
}

static dcpar_status write_file(const char *path, const char *text, size_t size, dcpar_error *error) {
    dcpar_atomic_file *file = NULL;
    DCPAR_TRY(dcpar_atomic_file_create(path, &file, error));
    const dcpar_status status = dcpar_atomic_file_append(file, text, (int64_t)size, error);
    if (status == DCPAR_OK) return dcpar_atomic_file_commit(file, error);
    dcpar_atomic_file_abandon(file);
    return status;
}

dcpar_status dcpar_report_write(const dcpar_report *report, const char *path, dcpar_error *error) {
    DCPAR_TRY(check(report, error));
    char *text;
    size_t size;
    dcpar_status status = make_page(report, &text, &size, error);
    if (status == DCPAR_OK) status = write_file(path, text, size, error);
    free(text);
    return status;
}
