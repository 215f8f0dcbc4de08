#include "report/plan_json.h"

#include "base/error.h"
#include "report/units.h"

static void write_microbatch(FILE *file, const dcpar_microbatch *microbatch) {
    char text[DCPAR_UNIT_TEXT];
    fprintf(file, "{\"first_rank\": %d, \"sp\": %d, \"rows\": [", microbatch->first_rank, microbatch->sp);
    for (int64_t i = 0; i < microbatch->row_count; ++i)
        fprintf(file, i == 0 ? "%lld" : ", %lld", (long long)microbatch->rows[i]);
    fprintf(file, "], \"padded_length\": %lld, \"recompute\": %d", (long long)microbatch->padded_length,
            microbatch->recompute);
    fprintf(file, ", \"start\": %s", dcpar_text_exact(microbatch->start, text));
    fprintf(file, ", \"seconds\": %s}", dcpar_text_exact(microbatch->seconds, text));
}

static dcpar_status end_line(FILE *file, const char *what, dcpar_error *error) {
    fputc('\n', file);
    if (fflush(file) != 0 || ferror(file)) return dcpar_fail(error, DCPAR_IO, "%s could not be written", what);
    return DCPAR_OK;
}

dcpar_status dcpar_plan_write_json(FILE *file, const dcpar_plan *plan, dcpar_error *error) {
    const dcpar_metrics metrics = dcpar_plan_metrics(plan);
    int64_t count;
    const dcpar_microbatch *microbatches = dcpar_plan_microbatches(plan, &count);
    char text[DCPAR_UNIT_TEXT];
    const long long iteration = (long long)dcpar_plan_iteration(plan);
    fprintf(file, "{\"iteration\": %lld, \"tokens\": %lld", iteration, (long long)metrics.tokens);
    fprintf(file, ", \"seconds\": %s", dcpar_text_exact(metrics.seconds, text));
    fprintf(file, ", \"lower_bound\": %s", dcpar_text_exact(metrics.lower_bound, text));
    fprintf(file, ", \"idle_ratio\": %s, \"microbatches\": [", dcpar_text_exact(metrics.idle_ratio, text));
    for (int64_t i = 0; i < count; ++i) {
        if (i > 0) fputs(", ", file);
        write_microbatch(file, &microbatches[i]);
    }
    fputs("]}", file);
    char what[64];
    snprintf(what, sizeof what, "the plan of iteration %lld", iteration);
    return end_line(file, what, error);
}

dcpar_status dcpar_summary_write_json(FILE *file, const dcpar_epoch_summary *summary, dcpar_error *error) {
    fprintf(file, "{\"summary\": {\"iterations\": %lld, \"used\": %lld, \"dropped\": %lld, \"total\": %lld",
            (long long)summary->iterations, (long long)summary->used, (long long)summary->dropped,
            (long long)summary->total);
    fputs(", \"dropped_by_reason\": {", file);
    if (summary->dropped_empty != 0) fprintf(file, "\"empty\": %lld", (long long)summary->dropped_empty);
    if (summary->dropped_empty != 0 && summary->dropped_too_long != 0) fputs(", ", file);
    if (summary->dropped_too_long != 0) fprintf(file, "\"too long\": %lld", (long long)summary->dropped_too_long);
    fputs("}}}", file);
    return end_line(file, "the summary", error);
}
