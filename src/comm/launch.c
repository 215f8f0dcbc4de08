/* Was this process started by an MPI launcher?
 *
 * The environment tells, and a plain start inside a cluster's allocation must not be taken for one:
 *
 *   OMPI_COMM_WORLD_SIZE      Open MPI's mpirun sets it for the processes it starts, whatever their number.
 *   PMI_SIZE                  MPICH, Intel MPI, Cray, Flux, and Slurm's `srun --mpi=pmi2`. More than 1: launched. Just
 *                             1: launched as well, unless within a Slurm step, where the shell of `srun --pty` has it.
 *   SLURM_STEP_NUM_TASKS      `srun` sets it, with SLURM_PROCID. More than 1: launched. A batch script and the shell of
 *                             `salloc` have none, or 1 (they have SLURM_NTASKS, which says nothing: it is the job's).
 */
#include <errno.h>
#include <stdlib.h>

#include "dcpar_run.h"

/* The variable's value when it is a positive whole number, else 0. */
static long tasks_in(const char *variable) {
    const char *text = getenv(variable);
    if (text == NULL) return 0;
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && value > 0 ? value : 0;
}

bool dcpar_comm_mpi_launched(void) {
    if (tasks_in("OMPI_COMM_WORLD_SIZE") >= 1) return true;
    const long pmi_tasks = tasks_in("PMI_SIZE"), step_tasks = tasks_in("SLURM_STEP_NUM_TASKS");
    if (pmi_tasks > 1 || (pmi_tasks == 1 && step_tasks == 0)) return true;
    return step_tasks > 1 && getenv("SLURM_PROCID") != NULL;
}
