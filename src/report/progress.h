/* A progress line for long work: "profile  12/40  30 %  elapsed 12.0 s, rest 28.0 s  length 4,096, SP 2".
 *
 * On a terminal one line is drawn over and over and removed at the end; elsewhere (a log file) a plain line is printed
 * now and then. One thread uses it. Writing errors are ignored: progress never stops the work. */
#ifndef DCPAR_REPORT_PROGRESS_H
#define DCPAR_REPORT_PROGRESS_H

#include <stdio.h>

#include "dcpar.h"

typedef struct dcpar_progress {
    FILE *file; /* NULL: quiet */
    char label[32];
    int64_t total;           /* units of work; 0: not known */
    double interval;         /* seconds between lines; may be changed after the start */
    double started, printed; /* on the monotonic clock */
    int columns;
    bool live; /* a terminal */
} dcpar_progress;

/* Starts the clock. `file` is usually stderr; `quiet`: print nothing ever. `label` is cut to 31 bytes. */
void dcpar_progress_start(dcpar_progress *progress, FILE *file, const char *label, int64_t total, bool quiet);

/* `done` units of work are behind us; prints when it is time. `text` (may be NULL) says what is being done. */
void dcpar_progress_update(dcpar_progress *progress, int64_t done, const char *text);

/* What dcpar_measure_options.progress wants, with a dcpar_progress as its context. */
void dcpar_progress_profile(void *progress, int64_t done, int64_t total, const dcpar_profile_row *last);

/* Removes the line from a terminal. May be called again. */
void dcpar_progress_finish(dcpar_progress *progress);

/* The line itself, without end of line, cut to `columns` columns. */
#define DCPAR_PROGRESS_LINE 512
void dcpar_progress_line(const char *label, int64_t done, int64_t total, double elapsed, const char *text, int columns,
                         char line[DCPAR_PROGRESS_LINE]);

#endif
