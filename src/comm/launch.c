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

#include "comm/launch.h"

/* The variable's value when it is a whole number that is not negative, else -1. */
static long number_in(const char *variable) {
    const char *text = getenv(variable);
    if (text == NULL) return -1;
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && value >= 0 ? value : -1;
}

bool dcpar_comm_mpi_launched(void) {
    if (number_in("OMPI_COMM_WORLD_SIZE") >= 1) return true;
    const long pmi_tasks = number_in("PMI_SIZE"), step_tasks = number_in("SLURM_STEP_NUM_TASKS");
    if (pmi_tasks > 1 || (pmi_tasks == 1 && step_tasks < 1)) return true;
    return step_tasks > 1 && getenv("SLURM_PROCID") != NULL;
}

int32_t dcpar_comm_launched_rank(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    if (!dcpar_comm_mpi_launched()) return 0;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; ++i) {
        const long rank = number_in(variables[i]);
        if (rank >= 0 && rank <= INT32_MAX) return (int32_t)rank;
    }
    return 0;
}
