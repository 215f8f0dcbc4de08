/* The report's sections, from what ran to what the words mean. */
#ifndef DCPAR_REPORT_PAGE_H
#define DCPAR_REPORT_PAGE_H

#include "report/figures.h"

/* Writes the whole page. The caller checks `file` for writing errors. */
dcpar_status dcpar_page_write(FILE *file, const dcpar_report *report, const dcpar_figures *figures, dcpar_error *error);

#endif
