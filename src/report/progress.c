#define _POSIX_C_SOURCE 200809L
#include "report/progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "report/units.h"

static const double live_interval = 0.1, plain_interval = 10; /* seconds */
static const int default_columns = 100;
static const char clear_line[] = "\r\x1b[K";

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int terminal_columns(int file) {
    struct winsize size;
    if (ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return default_columns;
    return size.ws_col - 1; /* a full line would make some terminals wrap */
}

void dcpar_progress_start(dcpar_progress *progress, FILE *file, const char *label, int64_t total, bool quiet) {
    *progress = (dcpar_progress){.file = quiet ? NULL : file, .total = total, .started = now()};
    snprintf(progress->label, sizeof progress->label, "%s", label);
    progress->printed = progress->started;
    if (progress->file == NULL) return;
    progress->live = isatty(fileno(file)) == 1;
    progress->interval = progress->live ? live_interval : plain_interval;
    progress->columns = progress->live ? terminal_columns(fileno(file)) : default_columns;
}

/* Appends to a line of DCPAR_PROGRESS_LINE bytes. */
static void append(char *line, const char *before, const char *text) {
    const size_t used = strlen(line);
    snprintf(line + used, DCPAR_PROGRESS_LINE - used, "%s%s", before, text);
}

/* Cuts UTF-8 text after `columns` code points. */
static void cut(char *line, int columns) {
    for (char *at = line; *at != '\0'; ++at) {
        const bool starts_code_point = ((unsigned char)*at & 0xc0) != 0x80;
        if (!starts_code_point || columns-- > 0) continue;
        *at = '\0';
        return;
    }
}

void dcpar_progress_line(const char *label, int64_t done, int64_t total, double elapsed, const char *text, int columns,
                         char line[DCPAR_PROGRESS_LINE]) {
    char number[DCPAR_UNIT_TEXT];
    line[0] = '\0';
    append(line, "", label);
    append(line, "  ", dcpar_text_integer(done, number));
    if (total > 0) {
        append(line, "/", dcpar_text_integer(total, number));
        append(line, "  ", dcpar_text_fixed(floor(100 * (double)done / (double)total), 0, number));
        append(line, " %", "");
    }
    append(line, "  elapsed ", dcpar_text_seconds(elapsed, number));
    if (done > 0 && done < total) {
        const double rest = elapsed * (double)(total - done) / (double)done;
        append(line, ", rest ", dcpar_text_seconds(rest, number));
    }
    if (text != NULL && *text != '\0') append(line, "  ", text);
    cut(line, columns);
}

void dcpar_progress_update(dcpar_progress *progress, int64_t done, const char *text) {
    if (progress->file == NULL) return;
    const double time = now();
    if (time - progress->printed < progress->interval) return;
    progress->printed = time;
    char line[DCPAR_PROGRESS_LINE];
    dcpar_progress_line(progress->label, done, progress->total, time - progress->started, text, progress->columns,
                        line);
    if (progress->live)
        fprintf(progress->file, "%s%s", clear_line, line);
    else
        fprintf(progress->file, "%s\n", line);
    fflush(progress->file);
}

void dcpar_progress_profile(void *context, int64_t done, int64_t total, const dcpar_profile_row *last) {
    dcpar_progress *progress = context;
    char text[80] = "", length[DCPAR_UNIT_TEXT];
    if (last != NULL)
        snprintf(text, sizeof text, "length %s, SP %d, batch %d", dcpar_text_integer(last->length, length), last->sp,
                 last->batch);
    progress->total = total;
    dcpar_progress_update(progress, done, text);
}

void dcpar_progress_finish(dcpar_progress *progress) {
    if (progress->file == NULL || !progress->live || progress->printed == progress->started) return;
    fputs(clear_line, progress->file);
    fflush(progress->file);
    progress->printed = progress->started;
}
