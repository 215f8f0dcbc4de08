/* Profile files without the checks that a finished profile needs: the profiler keeps its rows in such files as they
 * come. All of this is local. */
#ifndef DCPAR_PROFILE_FILE_H
#define DCPAR_PROFILE_FILE_H

#include "dcpar.h"

/* Replaces `path` atomically. */
dcpar_status dcpar_profile_write(const dcpar_profile_info *info, const dcpar_profile_row *rows, int64_t count,
                                 const char *path, dcpar_error *error);

/* *rows is malloc'ed: free it. Sentences start with the path. */
dcpar_status dcpar_profile_read(const char *path, dcpar_profile_info *info, dcpar_profile_row **rows, int64_t *count,
                                dcpar_error *error);

#endif
