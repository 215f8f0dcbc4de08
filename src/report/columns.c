#include "report/columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *seconds_text(double seconds, char text[DCPAR_UNIT_TEXT]) {
    return isfinite(seconds) ? dcpar_text_seconds(seconds, text) : NULL;
}

static const char *percent_text(double ratio, char text[DCPAR_UNIT_TEXT]) {
    return isfinite(ratio) ? dcpar_text_percent(ratio, text) : NULL;
}

static const char *bytes_text(int64_t bytes, char text[DCPAR_UNIT_TEXT]) {
    return bytes > 0 ? dcpar_text_bytes(bytes, text) : NULL;
}

static const char *throughput_text(const dcpar_figures *figures, bool measured, char text[DCPAR_UNIT_TEXT]) {
    if (!isfinite(figures->throughput) || figures->measured != measured) return NULL;
    return dcpar_text_count(figures->throughput, text);
}

static const char *throughput(const dcpar_figures *figures, char *text) { return throughput_text(figures, true, text); }

static const char *planned_throughput(const dcpar_figures *figures, char *text) {
    return throughput_text(figures, false, text);
}

static const char *times_text(double times, char text[DCPAR_UNIT_TEXT]) {
    if (!isfinite(times)) return NULL;
    return strcat(strcpy(text, dcpar_text_fixed(times, 2, (char[DCPAR_UNIT_TEXT]){0})), " \xc3\x97");
}

static const char *speedup(const dcpar_figures *figures, char *text) {
    return figures->measured ? times_text(figures->speedup, text) : NULL;
}

static const char *planned_speedup(const dcpar_figures *figures, char *text) {
    return times_text(figures->planned_speedup, text);
}

static const char *idle(const dcpar_figures *figures, char *text) { return percent_text(figures->idle, text); }

static const char *planned_idle(const dcpar_figures *figures, char *text) {
    return percent_text(figures->planned_idle, text);
}

static const char *seconds(const dcpar_figures *figures, char *text) { return seconds_text(figures->seconds, text); }

static const char *planned_seconds(const dcpar_figures *figures, char *text) {
    return seconds_text(figures->planned_seconds, text);
}

static const char *median_error(const dcpar_figures *figures, char *text) { return percent_text(figures->error, text); }

static const char *peak(const dcpar_figures *figures, char *text) { return bytes_text(figures->peak_bytes, text); }

static const char *planned_peak(const dcpar_figures *figures, char *text) {
    return bytes_text(figures->planned_peak_bytes, text);
}

static const char *median_memory_error(const dcpar_figures *figures, char *text) {
    return percent_text(figures->memory_error, text);
}

static const char *last_loss(const dcpar_figures *figures, char *text) {
    return isfinite(figures->last_loss) ? dcpar_text_fixed(figures->last_loss, 4, text) : NULL;
}

static const char *iterations(const dcpar_figures *figures, char *text) {
    return dcpar_text_integer(figures->iterations, text);
}

static const char *tokens(const dcpar_figures *figures, char *text) {
    return dcpar_text_count((double)figures->tokens, text);
}

static const dcpar_column all_columns[] = {
    {"", "tokens/s", true, throughput},
    {"", "planned tokens/s", true, planned_throughput},
    {"speedup", "measured", true, speedup},
    {"speedup", "planned", true, planned_speedup},
    {"idle", "measured", true, idle},
    {"idle", "planned", true, planned_idle},
    {"seconds an iteration", "measured", true, seconds},
    {"seconds an iteration", "planned", true, planned_seconds},
    {"seconds an iteration", "error", true, median_error},
    {"peak memory", "measured", false, peak},
    {"peak memory", "planned", false, planned_peak},
    {"peak memory", "error", true, median_memory_error},
    {"", "last loss", true, last_loss},
    {"", "iterations", false, iterations},
    {"", "tokens", false, tokens},
};
enum { column_count = sizeof all_columns / sizeof *all_columns };
_Static_assert(column_count <= DCPAR_COLUMNS_MAX, "room for every column");

int dcpar_columns_choose(const dcpar_figures *figures, int32_t count, bool terminal,
                         const dcpar_column *columns[DCPAR_COLUMNS_MAX]) {
    int chosen = 0;
    for (int i = 0; i < column_count; ++i) {
        bool known = false;
        for (int32_t j = 0; j < count && !known; ++j) {
            char text[DCPAR_UNIT_TEXT];
            known = all_columns[i].text(&figures[j], text) != NULL;
        }
        if (known && (all_columns[i].on_terminal || !terminal)) columns[chosen++] = &all_columns[i];
    }
    return chosen;
}

int dcpar_columns_span(const dcpar_column *const *columns, int count, int first) {
    int span = 1;
    while (columns[first]->group[0] != '\0' && first + span < count &&
           strcmp(columns[first + span]->group, columns[first]->group) == 0)
        ++span;
    return span;
}
