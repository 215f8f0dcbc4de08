/* The columns of the result table, on the page and on the terminal. */
#ifndef DCPAR_REPORT_COLUMNS_H
#define DCPAR_REPORT_COLUMNS_H

#include "report/figures.h"
#include "report/units.h"

typedef struct dcpar_column {
    const char *group; /* above the names of neighbouring columns; "" for none */
    const char *name;
    bool on_terminal; /* also in the short table */
    /* The cell, or NULL when the number is not known. */
    const char *(*text)(const dcpar_figures *figures, char text[DCPAR_UNIT_TEXT]);
} dcpar_column;

#define DCPAR_COLUMNS_MAX 16

/* The columns of which at least one policy knows something; returns how many. */
int dcpar_columns_choose(const dcpar_figures *figures, int32_t count, bool terminal,
                         const dcpar_column *columns[DCPAR_COLUMNS_MAX]);

/* How many columns from columns[first] on are of one group; 1 without a group. */
int dcpar_columns_span(const dcpar_column *const *columns, int count, int first);

#endif
