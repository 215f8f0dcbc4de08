#define _POSIX_C_SOURCE 200809L /* mkdir */
#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

dcpar_status dcpar_path_join(const char *folder, const char *name, char **out, dcpar_error *error) {
    const size_t size = strlen(folder) + strlen(name) + 2;
    *out = malloc(size);
    if (*out == NULL) return dcpar_fail_memory(error, "a path");
    snprintf(*out, size, "%s/%s", folder, name);
    return DCPAR_OK;
}

dcpar_status dcpar_path_make_folder(const char *path, dcpar_error *error) {
    struct stat status;
    if (mkdir(path, 0777) == 0) return DCPAR_OK;
    const int code = errno;
    if (code == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return DCPAR_OK;
    return dcpar_fail(error, DCPAR_IO, "cannot make folder %s: %s", path, strerror(code));
}
