/* What every test program includes: cmocka with its prerequisites. */
#ifndef DCPAR_TESTING_H
#define DCPAR_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dcpar.h"

/* A call that has to succeed; prints the sentence when it does not. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        const dcpar_status status_ = (call);                                                                           \
        if (status_ != DCPAR_OK) fail_msg("%s: %s: %s", #call, dcpar_status_name(status_), error.text);                \
    } while (0)

#endif
