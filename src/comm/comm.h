/* The seam between the communicator's public functions (comm.c) and its implementations (local.c, mpi.c). */
#ifndef DCPAR_COMM_COMM_H
#define DCPAR_COMM_COMM_H

#include "dcpar_run.h"

/* What an implementation provides. Arguments have been checked: nothing is negative, products fit in 64 bits, `root`
 * is a rank. Every function but `abort` and `destroy` is collective. */
typedef struct dcpar_comm_functions {
    /* 1 <= width < size; called once per width. *out is NULL in an incomplete last group. */
    dcpar_status (*group)(dcpar_comm *world, int32_t width, dcpar_comm **out, dcpar_error *error);
    void (*destroy)(dcpar_comm *group); /* local: frees what `group` made */

    dcpar_status (*barrier)(dcpar_comm *comm, dcpar_error *error);
    dcpar_status (*all_reduce)(dcpar_comm *comm, double *values, int64_t count, dcpar_reduction reduction,
                               dcpar_error *error);
    dcpar_status (*reduce_scatter)(dcpar_comm *comm, const float *input, float *output, int64_t count,
                                   dcpar_error *error);
    dcpar_status (*all_gather)(dcpar_comm *comm, const void *input, void *output, int64_t bytes, dcpar_error *error);
    dcpar_status (*all_to_all)(dcpar_comm *comm, const void *input, void *output, int64_t bytes, dcpar_error *error);
    dcpar_status (*broadcast)(dcpar_comm *comm, void *data, int64_t bytes, int32_t root, dcpar_error *error);
    void (*abort)(dcpar_comm *comm, const char *text);
} dcpar_comm_functions;

typedef struct dcpar_comm_group_entry {
    int32_t width;
    dcpar_comm *group; /* NULL: this rank's group of that width is incomplete */
} dcpar_comm_group_entry;

/* Implementations put this first in their own struct. */
struct dcpar_comm {
    const dcpar_comm_functions *functions;
    dcpar_comm *world; /* itself, when this is the world */
    int32_t rank, size;
    int64_t largest_message; /* MPI: bytes one call carries for one rank; longer ones go in pieces (tests lower it) */
    dcpar_comm_group_entry *groups; /* of a world: the widths asked for so far */
    int32_t group_count;
};

/* Frees the groups that dcpar_comm_group made. Local. */
void dcpar_comm_destroy_groups(dcpar_comm *world);

/* sums[i] += values[i], and the like for doubles with any reduction: called in rank order, they give the same bits in
 * every implementation. A NaN wins over every number. */
void dcpar_combine_floats(float *sums, const float *values, int64_t count);
void dcpar_combine_doubles(double *results, const double *values, int64_t count, dcpar_reduction reduction);

#endif
