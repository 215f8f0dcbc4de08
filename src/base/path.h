/* Names of files and folders. Local. */
#ifndef DCPAR_BASE_PATH_H
#define DCPAR_BASE_PATH_H

#include "dcpar.h"

/* "FOLDER/NAME", malloc'ed. */
dcpar_status dcpar_path_join(const char *folder, const char *name, char **out, dcpar_error *error);

/* Makes a folder, unless there is one. */
dcpar_status dcpar_path_make_folder(const char *path, dcpar_error *error);

#endif
