/* What an MPI launcher's environment tells before MPI starts. */
#ifndef DCPAR_COMM_LAUNCH_H
#define DCPAR_COMM_LAUNCH_H

#include "dcpar_run.h"

/* This process's rank as the launcher gave it; 0 when there was none, or it does not say. */
int32_t dcpar_comm_launched_rank(void);

#endif
