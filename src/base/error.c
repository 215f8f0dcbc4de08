#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *dcpar_status_name(dcpar_status status) {
    switch (status) {
#define NAME_CASE(name, code, text)                                                                                    \
    case DCPAR_##name:                                                                                                 \
        return #name;
        DCPAR_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
    }
    return "UNKNOWN";
}

const char *dcpar_status_text(dcpar_status status) {
    switch (status) {
#define TEXT_CASE(name, code, text)                                                                                    \
    case DCPAR_##name:                                                                                                 \
        return text;
        DCPAR_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
    }
    return "unknown status";
}

const char *dcpar_version(void) { return DCPAR_VERSION; }

dcpar_status dcpar_fail(dcpar_error *error, dcpar_status status, const char *format, ...) {
    if (error != NULL) {
        error->status = status;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

dcpar_status dcpar_fail_memory(dcpar_error *error, const char *what) {
    return dcpar_fail(error, DCPAR_NO_MEMORY, "the host has no memory for %s", what);
}

dcpar_status dcpar_fail_prefix(dcpar_error *error, dcpar_status status, const char *format, ...) {
    if (error != NULL) {
        char rest[sizeof error->text];
        memcpy(rest, error->text, sizeof rest);
        va_list arguments;
        va_start(arguments, format);
        const int used = vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        if (used < 0) error->text[0] = '\0';
        strncat(error->text, ": ", sizeof error->text - strlen(error->text) - 1);
        strncat(error->text, rest, sizeof error->text - strlen(error->text) - 1);
        error->status = status;
    }
    return status;
}
