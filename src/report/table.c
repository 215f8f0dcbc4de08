/* The result table on the terminal. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/columns.h"
#include "report/report.h"

static const char gap[] = "  ";
static const char dash[] = "\xe2\x80\x93";

static void print_right(FILE *file, const char *text, int width) {
    fprintf(file, "%s%*s%s", gap, width - dcpar_text_columns(text), "", text);
}

static void print_left(FILE *file, const char *text, int width) {
    fprintf(file, "%s%*s", text, width - dcpar_text_columns(text), "");
}

static void widen(int *width, const char *text) {
    const int columns = dcpar_text_columns(text);
    if (columns > *width) *width = columns;
}

static const char *cell(const dcpar_column *column, const dcpar_figures *figures, char text[DCPAR_UNIT_TEXT]) {
    const char *known = column->text(figures, text);
    return known != NULL ? known : dash;
}

/* The columns a group covers, the gaps between them included. */
static int span_width(const int *widths, int span) {
    int width = (span - 1) * (int)strlen(gap);
    for (int i = 0; i < span; ++i) width += widths[i];
    return width;
}

static void find_widths(const dcpar_column *const *columns, int count, const dcpar_figures *figures, int32_t rows,
                        int *widths) {
    for (int i = 0; i < count; ++i) {
        widths[i] = dcpar_text_columns(columns[i]->name);
        for (int32_t row = 0; row < rows; ++row) {
            char text[DCPAR_UNIT_TEXT];
            widen(&widths[i], cell(columns[i], &figures[row], text));
        }
    }
    for (int i = 0; i < count; i += dcpar_columns_span(columns, count, i)) {
        const int span = dcpar_columns_span(columns, count, i);
        const int missing = dcpar_text_columns(columns[i]->group) - span_width(widths + i, span);
        if (missing > 0) widths[i + span - 1] += missing;
    }
}

static void print_head(FILE *file, const dcpar_column *const *columns, int count, const int *widths, int first) {
    int grouped = count; /* columns up to the last that has a group */
    while (grouped > 0 && columns[grouped - 1]->group[0] == '\0') --grouped;
    if (grouped > 0) {
        print_left(file, "", first);
        for (int i = 0; i < grouped; i += dcpar_columns_span(columns, count, i))
            print_right(file, columns[i]->group, span_width(widths + i, dcpar_columns_span(columns, count, i)));
        fputc('\n', file);
    }
    print_left(file, "policy", first);
    for (int i = 0; i < count; ++i) print_right(file, columns[i]->name, widths[i]);
    fputc('\n', file);
}

dcpar_status dcpar_report_print_table(FILE *file, const dcpar_report *report, dcpar_error *error) {
    const int32_t rows = report->policy_count;
    dcpar_figures *figures = calloc((size_t)rows + 1, sizeof *figures);
    if (figures == NULL) return dcpar_fail_memory(error, "a report");
    const dcpar_status status = dcpar_figures_make(report, figures, error);
    if (status != DCPAR_OK) {
        free(figures);
        return status;
    }
    const dcpar_column *columns[DCPAR_COLUMNS_MAX];
    int widths[DCPAR_COLUMNS_MAX], first = (int)strlen("policy");
    const int count = dcpar_columns_choose(figures, rows, true, columns);
    find_widths(columns, count, figures, rows, widths);
    for (int32_t row = 0; row < rows; ++row) widen(&first, report->policies[row].name);
    print_head(file, columns, count, widths, first);
    for (int32_t row = 0; row < rows; ++row) {
        print_left(file, report->policies[row].name, first);
        for (int i = 0; i < count; ++i) {
            char text[DCPAR_UNIT_TEXT];
            print_right(file, cell(columns[i], &figures[row], text), widths[i]);
        }
        fputc('\n', file);
    }
    free(figures);
    if (fflush(file) != 0 || ferror(file)) return dcpar_fail(error, DCPAR_IO, "the result table could not be written");
    return DCPAR_OK;
}
