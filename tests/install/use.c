/* The smallest program that uses both public headers: it is compiled as C and as C++ against what was installed. */
#include <dcpar.h>
#include <dcpar_run.h>
#include <stdio.h>

int main(void) {
    const int64_t bounds[] = {256, 1024};
    dcpar_planner_options options = DCPAR_PLANNER_OPTIONS_INIT;
    dcpar_buckets *buckets = NULL;
    dcpar_error error = {DCPAR_OK, ""};
    if (dcpar_buckets_create(bounds, 2, &buckets, &error) != DCPAR_OK) return fprintf(stderr, "%s\n", error.text), 1;
    printf("dcpar %s %s %d %d\n", dcpar_version(), options.policy, (int)dcpar_buckets_find(buckets, 700),
           dcpar_engine_bytes(1000, 1) > 0);
    dcpar_buckets_destroy(buckets);
    return 0;
}
