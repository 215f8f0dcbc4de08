/* The page around the report's content, and text that is safe inside it. The page is also well-formed XML. */
#ifndef DCPAR_REPORT_HTML_H
#define DCPAR_REPORT_HTML_H

#include <stdio.h>

/* Escapes text for elements and attributes. What is not valid UTF-8 or not allowed in XML becomes U+FFFD. */
void dcpar_html_text(FILE *file, const char *text);

/* From the doctype to the open <main>, and from there to the end. */
void dcpar_html_begin(FILE *file, const char *title);
void dcpar_html_end(FILE *file);

#endif
