#include "comm/comm.h"

#include <stdlib.h>

#include "base/error.h"

int32_t dcpar_comm_rank(const dcpar_comm *comm) { return comm->rank; }
int32_t dcpar_comm_size(const dcpar_comm *comm) { return comm->size; }

/* ------------------------------------------------------------------------------------------------------- groups */

static dcpar_status remember_group(dcpar_comm *world, int32_t width, dcpar_comm *group, dcpar_error *error) {
    const size_t count = (size_t)world->group_count + 1;
    dcpar_comm_group_entry *groups = realloc(world->groups, count * sizeof *groups);
    if (groups == NULL) {
        if (group != NULL) world->functions->destroy(group);
        return dcpar_fail_memory(error, "a list of groups");
    }
    groups[count - 1] = (dcpar_comm_group_entry){width, group};
    world->groups = groups;
    world->group_count += 1;
    return DCPAR_OK;
}

dcpar_status dcpar_comm_group(dcpar_comm *world, int32_t width, dcpar_comm **out, dcpar_error *error) {
    if (width < 1) return dcpar_fail(error, DCPAR_INVALID, "a group of %d ranks is asked for", (int)width);
    if (world->world != world)
        return dcpar_fail(error, DCPAR_INVALID,
                          "a group of %d ranks is asked of a group of %d; groups are made of the "
                          "world",
                          (int)width, (int)world->size);
    if (width >= world->size) {
        *out = width == world->size ? world : NULL;
        return DCPAR_OK;
    }
    for (int32_t i = 0; i < world->group_count; ++i) {
        if (world->groups[i].width == width) {
            *out = world->groups[i].group;
            return DCPAR_OK;
        }
    }
    dcpar_comm *group = NULL;
    DCPAR_TRY(world->functions->group(world, width, &group, error));
    DCPAR_TRY(remember_group(world, width, group, error));
    *out = group;
    return DCPAR_OK;
}

void dcpar_comm_destroy_groups(dcpar_comm *world) {
    for (int32_t i = 0; i < world->group_count; ++i)
        if (world->groups[i].group != NULL) world->functions->destroy(world->groups[i].group);
    free(world->groups);
    world->groups = NULL;
    world->group_count = 0;
}

/* --------------------------------------------------------------------------------------------------- operations */

/* `count` elements of `element` bytes for each rank: not negative, and together fewer than 2^63 bytes. */
static dcpar_status check_count(const dcpar_comm *comm, const char *operation, int64_t count, int64_t element,
                                dcpar_error *error) {
    if (count < 0 || count > INT64_MAX / element / comm->size)
        return dcpar_fail(error, DCPAR_INVALID, "rank %d calls %s with a size of %lld", (int)comm->rank, operation,
                          (long long)count);
    return DCPAR_OK;
}

dcpar_status dcpar_comm_barrier(dcpar_comm *comm, dcpar_error *error) { return comm->functions->barrier(comm, error); }

dcpar_status dcpar_comm_all_reduce(dcpar_comm *comm, double *values, int64_t count, dcpar_reduction reduction,
                                   dcpar_error *error) {
    DCPAR_TRY(check_count(comm, "all_reduce", count, sizeof *values, error));
    return comm->functions->all_reduce(comm, values, count, reduction, error);
}

dcpar_status dcpar_comm_reduce_scatter(dcpar_comm *comm, const float *input, float *output, int64_t count,
                                       dcpar_error *error) {
    DCPAR_TRY(check_count(comm, "reduce_scatter", count, sizeof *input, error));
    return comm->functions->reduce_scatter(comm, input, output, count, error);
}

dcpar_status dcpar_comm_all_gather(dcpar_comm *comm, const void *input, void *output, int64_t bytes,
                                   dcpar_error *error) {
    DCPAR_TRY(check_count(comm, "all_gather", bytes, 1, error));
    return comm->functions->all_gather(comm, input, output, bytes, error);
}

dcpar_status dcpar_comm_all_to_all(dcpar_comm *comm, const void *input, void *output, int64_t bytes,
                                   dcpar_error *error) {
    DCPAR_TRY(check_count(comm, "all_to_all", bytes, 1, error));
    return comm->functions->all_to_all(comm, input, output, bytes, error);
}

dcpar_status dcpar_comm_broadcast(dcpar_comm *comm, void *data, int64_t bytes, int32_t root, dcpar_error *error) {
    DCPAR_TRY(check_count(comm, "broadcast", bytes, 1, error));
    if (root < 0 || root >= comm->size)
        return dcpar_fail(error, DCPAR_INVALID, "rank %d calls broadcast from rank %d of %d", (int)comm->rank,
                          (int)root, (int)comm->size);
    return comm->functions->broadcast(comm, data, bytes, root, error);
}

void dcpar_comm_abort(dcpar_comm *comm, const char *text) { comm->functions->abort(comm, text); }

/* --------------------------------------------------------------------------------------------------- arithmetic */

void dcpar_combine_floats(float *sums, const float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

static double larger(double a, double b) { return b > a || b != b ? b : a; }
static double smaller(double a, double b) { return b < a || b != b ? b : a; }

void dcpar_combine_doubles(double *results, const double *values, int64_t count, dcpar_reduction reduction) {
    switch (reduction) {
    case DCPAR_SUM:
        for (int64_t i = 0; i < count; ++i) results[i] += values[i];
        break;
    case DCPAR_MAX:
        for (int64_t i = 0; i < count; ++i) results[i] = larger(results[i], values[i]);
        break;
    case DCPAR_MIN:
        for (int64_t i = 0; i < count; ++i) results[i] = smaller(results[i], values[i]);
        break;
    }
}
