/* The report's pictures: each writes one <svg>. */
#ifndef DCPAR_REPORT_CHARTS_H
#define DCPAR_REPORT_CHARTS_H

#include "report/report.h"

/* What the loss is drawn over. */
typedef enum dcpar_loss_over { DCPAR_LOSS_OVER_TOKENS, DCPAR_LOSS_OVER_SECONDS } dcpar_loss_over;

/* True when some policy has two losses to draw. */
bool dcpar_chart_has_loss(const dcpar_report *report, dcpar_loss_over over);

/* Every policy's loss as one line. Runs of more than DCPAR_LOSS_POINTS iterations are drawn as means over neighbouring
 * iterations, with the single losses faint behind them. */
#define DCPAR_LOSS_POINTS 60
dcpar_status dcpar_chart_loss(FILE *file, const dcpar_report *report, dcpar_loss_over over, dcpar_error *error);

/* The class of a policy's line and bar: "kb" for the baseline, "k0".."k6" for the others. */
const char *dcpar_chart_policy_class(const dcpar_report *report, int32_t policy);

/* Facts about the lengths, empty sequences not counted. */
typedef struct dcpar_length_facts {
    int64_t count, empty, tokens, shortest, median, percentile_99, longest;
    double longest_share; /* of all tokens that the longest 1 % of the sequences hold */
} dcpar_length_facts;

/* Histogram of lengths on a logarithmic axis, as shares of sequences and of tokens. *facts is filled; nothing is
 * written when every sequence is empty. */
dcpar_status dcpar_chart_lengths(FILE *file, const dcpar_report *report, dcpar_length_facts *facts, dcpar_error *error);

/* What all timelines of a report share: the time scale, and one colour per SP size. */
#define DCPAR_TIMELINE_COLOURS 8
typedef struct dcpar_timeline_scale {
    int32_t world;
    double seconds;                        /* that the width shows */
    int32_t sizes[DCPAR_TIMELINE_COLOURS]; /* increasing; more sizes than colours share the last */
    int32_t size_count;
    bool has_step; /* some timeline shows the optimizer step's seconds */
} dcpar_timeline_scale;

dcpar_timeline_scale dcpar_timeline_scale_make(const dcpar_report *report);
int32_t dcpar_timeline_colour(const dcpar_timeline_scale *scale, int32_t sp);

/* Planned above, measured below; a side of which no time is known is left out. */
void dcpar_chart_timeline(FILE *file, const dcpar_report_timeline *timeline, const dcpar_timeline_scale *scale);

#endif
