#include "report/page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "report/charts.h"
#include "report/columns.h"
#include "report/html.h"
#include "report/svg.h"

/* Writes printf-formatted text that is known to need no escaping. */
#define PUT(...) fprintf(file, __VA_ARGS__)

/* The same for sentences: a number stays on one line with the unit or word after it. */
static void write_sentence(FILE *file, const char *format, ...) DCPAR_PRINTF(2, 3);

static void write_sentence(FILE *file, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (const char *at = text; *at != '\0'; ++at) {
        const bool after_number = at > text && at[-1] >= '0' && at[-1] <= '9';
        if (*at == ' ' && after_number)
            fputs("\xc2\xa0", file);
        else
            fputc(*at, file);
    }
}

/* ------------------------------------------------------------------------------------------------ what ran */

static void write_facts(FILE *file, const dcpar_report *report) {
    char number[DCPAR_UNIT_TEXT];
    PUT("<dl class=\"facts\">\n");
    for (int32_t i = 0; i < report->fact_count; ++i) {
        PUT("<dt>");
        dcpar_html_text(file, report->facts[i].key);
        PUT("</dt><dd>");
        dcpar_html_text(file, report->facts[i].value);
        PUT("</dd>\n");
    }
    PUT("<dt>ranks</dt><dd>%s</dd>\n</dl>\n", dcpar_text_integer(report->world, number));
}

/* -------------------------------------------------------------------------------------------------- result */

static double known_idle(const dcpar_figures *figures) {
    return isfinite(figures->idle) ? figures->idle : figures->planned_idle;
}

static void write_name(FILE *file, const dcpar_report *report, int32_t policy) {
    PUT("<b>");
    dcpar_html_text(file, report->policies[policy].name);
    PUT("</b>");
}

static void write_single_result(FILE *file, const dcpar_report *report, const dcpar_figures *figures, int32_t policy) {
    const dcpar_figures *one = &figures[policy];
    char number[DCPAR_UNIT_TEXT], rate[DCPAR_UNIT_TEXT];
    write_name(file, report, policy);
    write_sentence(file, " %s %s %s at %s tokens per second", one->measured ? "ran" : "planned",
                   dcpar_text_integer(one->iterations, number), one->iterations == 1 ? "iteration" : "iterations",
                   dcpar_text_count(one->throughput, rate));
    if (isfinite(known_idle(one)))
        write_sentence(file, "; its ranks %s idle %s of the time", one->measured ? "were" : "would be",
                       dcpar_text_percent(known_idle(one), number));
    PUT(".");
}

static void write_comparison(FILE *file, const dcpar_report *report, const dcpar_figures *figures, int32_t best,
                             int32_t other) {
    char ratio[DCPAR_UNIT_TEXT], first[DCPAR_UNIT_TEXT], second[DCPAR_UNIT_TEXT];
    const bool measured = figures[best].measured;
    write_name(file, report, best);
    write_sentence(file, " %s %s times as many tokens per second as ",
                   measured ? "trained on" : "is planned to train on",
                   dcpar_text_fixed(figures[best].throughput / figures[other].throughput, 2, ratio));
    write_name(file, report, other);
    write_sentence(file, " (%s against %s)", dcpar_text_count(figures[best].throughput, first),
                   dcpar_text_count(figures[other].throughput, second));
    if (isfinite(known_idle(&figures[best])) && isfinite(known_idle(&figures[other])))
        write_sentence(file, "; its ranks %s idle %s of the time, and with the latter %s",
                       measured ? "were" : "would be", dcpar_text_percent(known_idle(&figures[best]), first),
                       dcpar_text_percent(known_idle(&figures[other]), second));
    PUT(".");
}

/* The fastest policy against the baseline, or against the slowest when the baseline is missing or the fastest. */
static void write_result_sentence(FILE *file, const dcpar_report *report, const dcpar_figures *figures) {
    const int32_t best = dcpar_figures_fastest(figures, report->policy_count);
    if (best < 0) {
        PUT("<p class=\"lead\">No iteration was run.</p>\n");
        return;
    }
    const int32_t baseline = dcpar_report_baseline(report);
    const bool has_baseline = baseline >= 0 && baseline != best && isfinite(figures[best].speedup);
    const int32_t other = has_baseline ? baseline : dcpar_figures_slowest(figures, report->policy_count);
    PUT("<p class=\"lead\">");
    if (best == other)
        write_single_result(file, report, figures, best);
    else
        write_comparison(file, report, figures, best, other);
    PUT("</p>\n");
}

static void write_table_head(FILE *file, const dcpar_column *const *columns, int count) {
    PUT("<thead>\n<tr><th></th>");
    for (int i = 0; i < count; i += dcpar_columns_span(columns, count, i))
        PUT("<th class=\"group\" colspan=\"%d\">%s</th>", dcpar_columns_span(columns, count, i), columns[i]->group);
    PUT("</tr>\n<tr><th>policy</th>");
    for (int i = 0; i < count; ++i) PUT("<th>%s</th>", columns[i]->name);
    PUT("</tr>\n</thead>\n");
}

/* A bar under the throughput: the eye compares faster than it reads. */
static void write_bar(FILE *file, const dcpar_report *report, int32_t policy, double share) {
    if (!isfinite(share)) return;
    PUT("<span class=\"bar %s\" style=\"width:", dcpar_chart_policy_class(report, policy));
    dcpar_svg_number(file, 100 * share);
    PUT("%%\"></span>");
}

static void write_table(FILE *file, const dcpar_report *report, const dcpar_figures *figures) {
    const dcpar_column *columns[DCPAR_COLUMNS_MAX];
    const int count = dcpar_columns_choose(figures, report->policy_count, false, columns);
    const int32_t best = dcpar_figures_fastest(figures, report->policy_count);
    PUT("<div class=\"wide\"><table>\n");
    write_table_head(file, columns, count);
    PUT("<tbody>\n");
    for (int32_t i = 0; i < report->policy_count; ++i) {
        PUT("<tr%s><th>", i == best && report->policy_count > 1 ? " class=\"best\"" : "");
        dcpar_html_text(file, report->policies[i].name);
        PUT("</th>");
        for (int j = 0; j < count; ++j) {
            char text[DCPAR_UNIT_TEXT];
            const char *cell = columns[j]->text(&figures[i], text);
            PUT("<td>%s", cell != NULL ? cell : "\xe2\x80\x93");
            if (j == 0 && cell != NULL && best >= 0 && report->policy_count > 1)
                write_bar(file, report, i, fmin(1, figures[i].throughput / figures[best].throughput));
            PUT("</td>");
        }
        PUT("</tr>\n");
    }
    PUT("</tbody>\n</table></div>\n");
}

static void write_result(FILE *file, const dcpar_report *report, const dcpar_figures *figures) {
    PUT("<section>\n<h2>Result</h2>\n");
    write_result_sentence(file, report, figures);
    bool has_error = false;
    for (int32_t i = 0; i < report->policy_count; ++i) has_error = has_error || isfinite(figures[i].error);
    if (report->policy_count > 0) {
        write_table(file, report, figures);
        PUT("<p class=\"soft\">Tokens are those of real sequences, padding not counted. Seconds include the optimizer "
            "step.%s</p>\n",
            has_error ? " Error: how far what was planned is from what was measured, median over the iterations." : "");
    }
    PUT("</section>\n");
}

/* ---------------------------------------------------------------------------------------------------- loss */

static void write_policy_legend(FILE *file, const dcpar_report *report) {
    PUT("<ul class=\"legend\">\n");
    for (int32_t i = 0; i < report->policy_count; ++i) {
        PUT("<li><svg width=\"26\" height=\"10\"><path class=\"line %s\" d=\"M1 5H25\" /></svg>",
            dcpar_chart_policy_class(report, i));
        dcpar_html_text(file, report->policies[i].name);
        PUT("</li>\n");
    }
    PUT("</ul>\n");
}

static dcpar_status write_loss_chart(FILE *file, const dcpar_report *report, dcpar_loss_over over, const char *caption,
                                     dcpar_error *error) {
    if (!dcpar_chart_has_loss(report, over)) return DCPAR_OK;
    PUT("<figure><figcaption>%s</figcaption><div class=\"wide\">\n", caption);
    DCPAR_TRY(dcpar_chart_loss(file, report, over, error));
    PUT("</div></figure>\n");
    return DCPAR_OK;
}

static dcpar_status write_loss(FILE *file, const dcpar_report *report, dcpar_error *error) {
    if (!dcpar_chart_has_loss(report, DCPAR_LOSS_OVER_TOKENS)) return DCPAR_OK;
    int64_t most = 0;
    for (int32_t i = 0; i < report->policy_count; ++i)
        if (report->policies[i].count > most) most = report->policies[i].count;
    PUT("<section>\n<h2>Loss</h2>\n");
    if (report->policy_count > 1) write_policy_legend(file, report);
    PUT("<div class=\"pair\">\n");
    DCPAR_TRY(write_loss_chart(file, report, DCPAR_LOSS_OVER_TOKENS, "Over tokens seen: what was learnt from the data",
                               error));
    DCPAR_TRY(write_loss_chart(file, report, DCPAR_LOSS_OVER_SECONDS, "Over time: how soon it was learnt", error));
    PUT("</div>\n");
    if (most > DCPAR_LOSS_POINTS)
        PUT("<p class=\"soft\">Lines are means over neighbouring iterations, weighted with their tokens; faint lines "
            "are the single iterations.</p>\n");
    PUT("</section>\n");
    return DCPAR_OK;
}

/* ------------------------------------------------------------------------------------------------- lengths */

/* One entry of a legend: a patch of colour and what it means. */
static void write_swatch(FILE *file, const char *class_name, const char *meaning) {
    PUT("<li><svg width=\"22\" height=\"14\"><rect class=\"%s\" width=\"22\" height=\"14\" /></svg>%s</li>\n",
        class_name, meaning);
}

static void write_length_facts(FILE *file, const dcpar_length_facts *facts) {
    char count[DCPAR_UNIT_TEXT], tokens[DCPAR_UNIT_TEXT], median[DCPAR_UNIT_TEXT], most[DCPAR_UNIT_TEXT],
        longest[DCPAR_UNIT_TEXT], share[DCPAR_UNIT_TEXT];
    PUT("<p>");
    write_sentence(file,
                   "%s sequences with %s tokens. Half of them have at most %s tokens, 99 %% at most %s, the longest "
                   "%s. The longest 1 %% of the sequences hold %s of all tokens.",
                   dcpar_text_integer(facts->count, count), dcpar_text_count((double)facts->tokens, tokens),
                   dcpar_text_integer(facts->median, median), dcpar_text_integer(facts->percentile_99, most),
                   dcpar_text_integer(facts->longest, longest), dcpar_text_percent(facts->longest_share, share));
    if (facts->empty > 0)
        write_sentence(file, " Empty sequences, left out here: %s.", dcpar_text_integer(facts->empty, count));
    PUT("</p>\n");
}

static dcpar_status write_lengths(FILE *file, const dcpar_report *report, dcpar_error *error) {
    if (report->lengths == NULL || report->length_count == 0) return DCPAR_OK;
    PUT("<section>\n<h2>Lengths of the sequences</h2>\n<ul class=\"legend\">\n");
    write_swatch(file, "h0", "share of sequences");
    write_swatch(file, "h1", "share of tokens");
    PUT("</ul>\n<figure><div class=\"wide\">\n");
    dcpar_length_facts facts;
    DCPAR_TRY(dcpar_chart_lengths(file, report, &facts, error));
    PUT("</div></figure>\n");
    if (facts.count > 0)
        write_length_facts(file, &facts);
    else
        PUT("<p>Every sequence is empty.</p>\n");
    PUT("</section>\n");
    return DCPAR_OK;
}

/* ----------------------------------------------------------------------------------------------- timelines */

static void write_timeline_legend(FILE *file, const dcpar_timeline_scale *scale) {
    PUT("<ul class=\"legend\">\n");
    for (int32_t i = 0; i < scale->size_count; ++i) {
        char class_name[16], meaning[48];
        snprintf(class_name, sizeof class_name, "s%d", i);
        snprintf(meaning, sizeof meaning, "SP %d%s", scale->sizes[i],
                 i == DCPAR_TIMELINE_COLOURS - 1 ? " and more" : "");
        write_swatch(file, class_name, meaning);
    }
    write_swatch(file, "idle", "idle");
    PUT("<li><svg width=\"10\" height=\"16\"><path class=\"end\" d=\"M5 0V16\" /></svg>all ranks meet for the "
        "optimizer step</li>\n");
    if (scale->has_step) write_swatch(file, "step", "optimizer step");
    PUT("</ul>\n");
}

static void write_timeline_caption(FILE *file, const dcpar_report_timeline *timeline) {
    char tokens[DCPAR_UNIT_TEXT], sequences[DCPAR_UNIT_TEXT], count[DCPAR_UNIT_TEXT];
    int64_t token_sum = 0, sequence_sum = 0;
    for (int64_t i = 0; i < timeline->count; ++i) {
        token_sum += timeline->boxes[i].tokens;
        sequence_sum += timeline->boxes[i].sequences;
    }
    PUT("<figcaption>Iteration %lld: %s tokens in %s sequence%s, %s micro-batch%s</figcaption>\n",
        (long long)timeline->iteration, dcpar_text_integer(token_sum, tokens),
        dcpar_text_integer(sequence_sum, sequences), sequence_sum == 1 ? "" : "s",
        dcpar_text_integer(timeline->count, count), timeline->count == 1 ? "" : "es");
}

/* A hatch for idle time; pictures refer to it by name. */
static void write_hatch(FILE *file) {
    PUT("<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
        "<pattern id=\"idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
        "<rect class=\"hatch\" width=\"6\" height=\"6\" /><path class=\"hatchline\" d=\"M0 0V6\" /></pattern></defs>"
        "</svg>\n");
}

static void write_timelines(FILE *file, const dcpar_report *report) {
    const dcpar_timeline_scale scale = dcpar_timeline_scale_make(report);
    if (!(scale.seconds > 0)) return;
    PUT("<section>\n<h2>Timelines</h2>\n");
    write_hatch(file);
    PUT("<p>Ranks run down, time runs across, and all pictures share one time scale. A box is a micro-batch on its "
        "group of ranks, with batch \xc3\x97 padded length and, after r, the number of recomputed layers.</p>\n");
    write_timeline_legend(file, &scale);
    for (int32_t i = 0; i < report->policy_count; ++i) {
        const dcpar_report_policy *policy = &report->policies[i];
        if (policy->timeline_count == 0) continue;
        PUT("<h3>");
        dcpar_html_text(file, policy->name);
        if (policy->summary != NULL && policy->summary[0] != '\0') {
            PUT("<small>");
            dcpar_html_text(file, policy->summary);
            PUT("</small>");
        }
        PUT("</h3>\n");
        for (int32_t j = 0; j < policy->timeline_count; ++j) {
            PUT("<figure>");
            write_timeline_caption(file, &policy->timelines[j]);
            PUT("<div class=\"wide\">\n");
            dcpar_chart_timeline(file, &policy->timelines[j], &scale);
            PUT("</div></figure>\n");
        }
    }
    PUT("</section>\n");
}

/* --------------------------------------------------------------------------------------------------- words */

static void write_words(FILE *file) {
    static const char *const words[][2] = {
        {"sequence", "one training sample, with a length in tokens"},
        {"padded length", "the length of the bucket that a sequence is rounded up to"},
        {"rank", "one process with one device"},
        {"group, SP size", "consecutive ranks that share a micro-batch; the SP size says how many"},
        {"micro-batch", "sequences that one group runs in one forward and backward"},
        {"iteration", "everything between two optimizer steps"},
        {"policy", "the rule that makes plans"},
        {"plan", "an iteration\xe2\x80\x99s micro-batches: who runs which, when, and for how long"},
        {"idle", "mean over ranks of (iteration time \xe2\x88\x92 busy time) / iteration time"},
        {"recomputed layers", "layers that keep no activations and run again in the backward pass, to save memory"},
        {"speedup", "tokens per second over those of the policy \xe2\x80\x9c" DCPAR_REPORT_BASELINE "\xe2\x80\x9d"},
    };
    PUT("<section>\n<h2>Words</h2>\n<dl class=\"words\">\n");
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i) PUT("<dt>%s</dt><dd>%s</dd>\n", words[i][0], words[i][1]);
    PUT("</dl>\n</section>\n");
}

dcpar_status dcpar_page_write(FILE *file, const dcpar_report *report, const dcpar_figures *figures,
                              dcpar_error *error) {
    dcpar_html_begin(file, report->title);
    PUT("<h1>");
    dcpar_html_text(file, report->title);
    PUT("</h1>\n");
    write_facts(file, report);
    write_result(file, report, figures);
    DCPAR_TRY(write_loss(file, report, error));
    DCPAR_TRY(write_lengths(file, report, error));
    write_timelines(file, report);
    write_words(file);
    dcpar_html_end(file);
    return DCPAR_OK;
}
