/* compare_text.c - a comparison in words: the table, the bottleneck of each phase, the spread of a set of errors.
 * Knows no files. */
#include "reports/compare.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "reports/text_table.h"
#include "sim/stats.h"

void compare_spread_find(const double *error_pct, uint32_t count, struct compare_spread *spread)
{
    *spread = (struct compare_spread){ .count = count };
    if (count == 0) return;
    g_autofree double *size = g_new(double, count);
    for (uint32_t i = 0; i < count; i++) {
        assert(isfinite(error_pct[i]));
        size[i] = fabs(error_pct[i]);
        if (size[i] > size[spread->worst_index]) spread->worst_index = i;
    }
    spread->worst_pct = size[spread->worst_index];
    spread->bias_pct = stats_mean(error_pct, count);
    spread->median_pct = stats_median(size, count);
    spread->p90_pct = stats_percentile(size, count, 90.0);
}

char *compare_metric_name(const char *metric)
{
    char *name = g_strdup(metric);
    char *unit = strstr(name, "_us");
    if (unit) memmove(unit, unit + 3, strlen(unit + 3) + 1);
    else if (g_str_has_suffix(name, "_gbs")) name[strlen(name) - 4] = '\0';
    return g_strdelimit(name, "_", ' ');
}

bool compare_row_shown(const struct compare_row *row)
{
    return !compare_phase_of_layer(row->phase) || row->rank != RECORD_ALL || strcmp(row->metric, "slowest_us") == 0 ||
           strcmp(row->metric, "time_us") == 0;
}

char *compare_row_name(const struct compare_row *row)
{
    if (strcmp(row->metric, "slowest_us") == 0) return g_strdup(row->of_step ? "longest" : "slowest rank");
    if (strcmp(row->metric, "layers_us") == 0) return g_strdup("all layers");
    if (strcmp(row->metric, "time_us") == 0 && row->rank == RECORD_ALL && !row->whole)
        return g_strdup("mean over ranks");
    g_autofree char *name = compare_metric_name(row->metric);
    return row->rank == RECORD_ALL ? g_strdup(name) : g_strdup_printf("%s, rank %d", name, row->rank);
}

char *compare_value_text(double value, const char *unit)
{
    if (!isfinite(value)) return g_strdup("-");
    const double size = fabs(value);
    const int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    return g_strdup_printf("%.*f%s%s", digits, value, *unit ? " " : "", unit);
}

char *compare_speedup_text(double ratio)
{
    if (!isfinite(ratio) || ratio <= 0) return g_strdup("-");
    if (fabs(ratio - 1) < 0.005) return g_strdup("the same");
    return g_strdup_printf("%.2f times %s", ratio > 1 ? ratio : 1 / ratio, ratio > 1 ? "faster" : "slower");
}

char *compare_change_text(const struct compare_row *row)
{
    const bool time = strcmp(row->unit, "us") == 0;
    const double ratio = row->measured / row->predicted;
    if (time || !isfinite(ratio) || ratio <= 0 || fabs(ratio - 1) < 0.005) return compare_speedup_text(1 / ratio);
    return g_strdup_printf("%.2f times", ratio);
}

static void compare_row_cells(const struct compare *compare, const struct compare_row *row, bool same_phase,
                              struct text_table *table)
{
    g_autofree char *name = compare_row_name(row), *change = compare_change_text(row);
    g_autofree char *predicted = compare_value_text(row->predicted, row->unit);
    g_autofree char *measured = compare_value_text(row->measured, row->unit);
    struct compare_limit first, second;
    compare_limit_find(compare->predicted, row->phase, &first);
    compare_limit_find(compare->measured, row->phase, &second);
    g_autofree char *first_text = compare_limit_text(&first), *second_text = compare_limit_text(&second);
    text_table_cell(table, "%s", same_phase ? "" : row->phase);
    text_table_cell(table, "%s", name);
    text_table_cell(table, "%s", predicted);
    text_table_cell(table, "%s", measured);
    if (compare_what_if(compare)) {
        text_table_cell(table, "%s", change);
        if (!compare_record_predicted(compare->predicted)) return; /* nothing says what bounds a measurement */
        text_table_cell(table, "%s", same_phase ? "" : first_text);
        text_table_cell(table, "%s", same_phase ? "" : second_text);
        return;
    }
    if (isfinite(row->error_pct)) text_table_cell(table, "%+.1f %%", row->error_pct);
    else text_table_cell(table, "-");
    if (row->worst_rank == COMPARE_NO_RANK) text_table_cell(table, "%s", "");
    else text_table_cell(table, "%+.1f %% (rank %d)", row->worst_error_pct, row->worst_rank);
    text_table_cell(table, "%s", same_phase || !first.resource ? "" : first_text);
}

void compare_table_append(const struct compare *compare, GString *out)
{
    const bool what_if = compare_what_if(compare);
    const char *const titles[] = { "phase",
                                   "metric",
                                   compare->predicted_name,
                                   compare->measured_name,
                                   what_if ? "second is" : "error",
                                   what_if ? "first is bound by" : "worst rank",
                                   what_if ? "second is bound by" : "bound by" };
    g_autoptr(text_table) table = text_table_new(!what_if                                       ? "llrrrrl"
                                                 : compare_record_predicted(compare->predicted) ? "llrrrll"
                                                                                                : "llrrr",
                                                 titles);
    const char *phase = NULL;
    for (guint i = 0; i < compare->rows->len; i++) {
        const struct compare_row *row = &g_array_index(compare->rows, struct compare_row, i);
        if (!compare_row_shown(row)) continue;
        compare_row_cells(compare, row, phase && strcmp(phase, row->phase) == 0, table);
        phase = row->phase;
    }
    text_table_append(table, out);
}

bool compare_limit_waits(const struct compare_limit *limit)
{
    static const char *const names[] = { COMPARE_STEPS,   COMPARE_LATE,    COMPARE_BEFORE,
                                         COMPARE_TIMEOUT, COMPARE_NO_PART, NULL };
    return limit->resource && g_strv_contains(names, limit->resource);
}

/* "busiest: NIC of rank 0, sending, 70 %", followed by the rival if there is one.  Freed by the caller. */
static char *busiest_text(const struct compare_limit *limit)
{
    /* the text below begins with "busiest", so the names lose this word */
    const char *name[] = { limit->part, limit->rival };
    for (int i = 0; i < 2; i++)
        if (name[i] && g_str_has_prefix(name[i], "busiest ")) name[i] += strlen("busiest ");
    if (!limit->rival) return g_strdup_printf("busiest: %s, %.0f %%", name[0], limit->busy_pct);
    return g_strdup_printf("busiest: %s, %.0f %%; %s, %.0f %%", name[0], limit->busy_pct, name[1],
                           limit->rival_busy_pct);
}

char *compare_limit_text(const struct compare_limit *limit)
{
    if (!limit->resource) return g_strdup("-");
    if (compare_limit_waits(limit) || !isfinite(limit->busy_pct))
        return g_strdup(compare_limit_waits(limit) ? limit->resource : limit->part);
    return g_strdup_printf("%s, %.0f %% busy", limit->part, limit->busy_pct);
}

const char *compare_limit_article(const struct compare_limit *limit)
{
    return limit->resource && !compare_limit_waits(limit) && strstr(limit->part, " of ") ? "the " : "";
}

char *compare_limit_work(const struct compare_limit *limit)
{
    enum { WORTH_NAMING_PERCENT = 10 };
    const double bytes = limit->bytes;
    if (compare_limit_waits(limit) && limit->busy_pct >= WORTH_NAMING_PERCENT && limit->part != limit->resource)
        return busiest_text(limit);
    if (compare_limit_waits(limit) || !isfinite(bytes)) return g_strdup("");
    g_autofree char *size = bytes >= 1e6   ? g_strdup_printf("%.4g MB", bytes / 1e6)
                            : bytes >= 1e3 ? g_strdup_printf("%.4g kB", bytes / 1e3)
                                           : g_strdup_printf("%.0f B", bytes);
    return isfinite(limit->rate_gbs) ? g_strdup_printf("%s at %.4g GB/s", size, limit->rate_gbs)
                                     : g_steal_pointer(&size);
}

void compare_limit_append(const struct record *record, const char *phase, GString *out, const char *before,
                          const char *after)
{
    struct compare_limit limit;
    compare_limit_find(record, phase, &limit);
    if (!limit.resource && !*limit.bound) return;
    g_string_append(out, before);
    if (limit.resource) {
        const bool none = strcmp(limit.resource, COMPARE_NO_PART) == 0, waiting = compare_limit_waits(&limit);
        static const char *const plurals[] = { COMPARE_STEPS, COMPARE_LATE, NULL };
        const bool several = g_strv_contains(plurals, limit.resource);
        g_autofree char *work = compare_limit_work(&limit);
        if (none) g_string_append(out, "No single part is the bottleneck");
        else
            g_string_append_printf(out, "The bottleneck%s %s%s", several ? "s are" : " is",
                                   compare_limit_article(&limit), waiting ? limit.resource : limit.part);
        if (waiting && !none && limit.busy_pct < 0.5) g_string_append(out, ": no part is busy");
        else if (isfinite(limit.busy_pct) && !none)
            g_string_append_printf(
                out, waiting ? ": nothing is busy for more than %.0f %% of the time" : ", busy %.0f %% of the time",
                limit.busy_pct);
        if ((none || !waiting) && *work) g_string_append_printf(out, " (%s)", work);
    }
    if (*limit.bound) {
        g_autofree char *bound = compare_value_text(limit.bound_us, "us");
        g_string_append_printf(out, "%sthe tightest bound is %s (%s)", limit.resource ? "; " : "Of the bounds, ",
                               limit.bound, bound);
        if (isfinite(limit.efficiency_pct))
            g_string_append_printf(out, ", %.0f %% of the slowest rank's time", limit.efficiency_pct);
    }
    g_string_append_printf(out, ".%s", after);
}

/* Appends a sentence if the measurement contradicts the bound of the prediction. */
static void compare_contradiction_append(const struct compare *compare, const struct compare_row *row, GString *out)
{
    struct compare_limit limit;
    compare_limit_find(compare->predicted, row->phase, &limit);
    const double slowest_us = compare_slowest_us(compare->measured, row->phase);
    const double measured_us = isfinite(slowest_us) ? slowest_us : row->measured;
    if (*limit.bound && measured_us < limit.bound_us * 0.98)
        g_string_append_printf(out,
                               "  The measurement is faster than the bound %s allows: what was measured is not what "
                               "the cluster file describes.\n",
                               limit.bound);
}

/* Appends a line if other programs used the machine during the measurement, with the values that are therefore in
 * doubt.  name: what the record is called: "measured", or "first" or "second" of two measurements. */
static void busy_append(const struct record *record, const char *name, GString *out)
{
    const char *busy = record_get(record, "busy"), *disturbed = record_get(record, "disturbed");
    const bool phases = disturbed && strcmp(disturbed, "none") != 0;
    if (g_strcmp0(busy, "yes") != 0 && !phases) return;
    const bool alone = strcmp(name, "measured") == 0;
    g_string_append_printf(out, "The machine was %s while %s%s was measured",
                           phases && g_strcmp0(busy, "yes") != 0 ? "disturbed" : "busy", alone ? "this" : "the ",
                           alone ? "" : name);
    const char *others = record_get(record, "cpu-others-pct"), *steal = record_get(record, "cpu-steal-pct");
    const bool had = others && g_ascii_strtod(others, NULL) > 0;
    if (had) g_string_append_printf(out, ": others used %s %% of its CPUs", others);
    if (steal && g_ascii_strtod(steal, NULL) > 0)
        g_string_append_printf(out, "%s the hypervisor took %s %%", had ? "," : ":", steal);
    g_string_append_c(out, '.');
    if (phases) {
        g_auto(GStrv) phase = g_strsplit(disturbed, "|", -1);
        g_autofree char *list = g_strjoinv(", ", phase);
        g_string_append_printf(out, "  Doubt these times: %s.", list);
    }
    g_string_append_c(out, '\n');
}

/* The largest ratio of a phase's measured time to the predicted one, both as means over ranks.  Single layers are not
 * counted.  The result is 1 if no phase is slower than predicted. */
static double compare_slower(const struct compare *compare)
{
    double slower = 1;
    for (guint i = 0; i < compare->rows->len; i++) {
        const struct compare_row *row = &g_array_index(compare->rows, struct compare_row, i);
        if (row->rank == RECORD_ALL && !strcmp(row->metric, "time_us") && !compare_phase_of_layer(row->phase))
            slower = fmax(slower, row->measured / row->predicted);
    }
    return slower;
}

/* On a sound machine only one prediction in twenty is off by more than this factor (README: How accurate it is). */
#define WORTH_A_DIAGNOSIS 1.3

static void compare_diagnosis_append(const struct compare *compare, GString *out)
{
    const double slower = compare_slower(compare);
    if (slower < WORTH_A_DIAGNOSIS || !compare_record_predicted(compare->predicted) || compare_what_if(compare)) return;
    g_string_append_printf(out,
                           "Measured up to %.1f times as slow as predicted (means over ranks).  To find the cause, run "
                           "eptwin diagnose on the measured record with --cluster FILE.\n",
                           slower);
}

/* Appends "20.0 % too low", or nothing if the prediction is right. */
static void compare_error_append(double error_pct, const char *before, GString *out)
{
    if (fabs(error_pct) >= 0.05)
        g_string_append_printf(out, "%s%.1f %% too %s", before, fabs(error_pct), error_pct < 0 ? "low" : "high");
}

/* Appends a phase's time in both records, and how these times differ.  They are the slowest rank's times if both
 * records have these, else means over ranks. */
static void compare_phase_append(const struct compare *compare, const struct compare_row *row, GString *out)
{
    const bool slowest = strcmp(row->metric, "slowest_us") == 0;
    const struct compare_row *mean = slowest ? compare_row_find(compare, row->phase, "time_us") : NULL;
    g_autofree char *predicted = compare_value_text(row->predicted, "us");
    g_autofree char *measured = compare_value_text(row->measured, "us");
    g_autofree char *change = compare_change_text(row), *of_mean = mean ? compare_change_text(mean) : NULL;
    g_string_append_printf(out, "%s: %s %s, %s %s%s", row->phase, compare->predicted_name, predicted,
                           compare->measured_name, measured,
                           row->whole ? ""
                           : slowest  ? (row->of_step ? " (longest)" : " (slowest rank)")
                                      : " (mean over ranks)");
    if (compare_what_if(compare)) {
        g_string_append_printf(out, ": %s%s", strcmp(change, "the same") != 0 ? "the second is " : "", change);
        if (mean && strcmp(of_mean, change) != 0) g_string_append_printf(out, "; mean over ranks: %s", of_mean);
    } else {
        compare_error_append(row->error_pct, ", ", out);
        if (mean) compare_error_append(mean->error_pct, "; mean over ranks ", out);
    }
    g_string_append(out, ".\n");
}

/* Whether two bottlenecks are of one kind: both directions of NICs are, and so are those of NVLink. */
static bool kinds_same(const char *a, const char *b)
{
    const size_t length = strcspn(a, "_");
    return length == strcspn(b, "_") && strncmp(a, b, length) == 0;
}

/* Says whether the bound of a phase has moved to another part in the second of two predictions.  page: also names the
 * bounds, which no table of a page does, but not the second's if the verdict names it. */
static void compare_bounds_append(const struct compare *compare, const char *phase, bool page, GString *out)
{
    struct compare_limit first, second;
    compare_limit_find(compare->predicted, phase, &first);
    compare_limit_find(compare->measured, phase, &second);
    g_autofree char *first_text = compare_limit_text(&first), *second_text = compare_limit_text(&second);
    if (!first.resource || !second.resource) return;
    const bool named = !page || compare_verdict_bounds(compare->measured, phase);
    const bool same = strcmp(first_text, second_text) == 0;
    const char *moved = !kinds_same(first.resource, second.resource) ? "moved"
                        : strcmp(first.part, second.part) != 0       ? "moved to another part of that kind"
                                                                     : "not moved";
    if (same && compare_limit_waits(&first) && (!page || named)) return; /* no part bounds either */
    const char *first_the = compare_limit_article(&first), *second_the = compare_limit_article(&second);
    if (!page || (named && same)) g_string_append_printf(out, "  The bound has %s.\n", moved);
    else if (same) g_string_append_printf(out, "  Both are bound by %s%s.\n", first_the, first_text);
    else if (named)
        g_string_append_printf(out, "  The first is bound by %s%s: the bound has %s.\n", first_the, first_text, moved);
    else
        g_string_append_printf(out, "  The first is bound by %s%s; the second by %s%s: the bound has %s.\n", first_the,
                               first_text, second_the, second_text, moved);
}

void compare_words_append(const struct compare *compare, bool page, GString *out)
{
    for (guint i = 0; i < compare->rows->len; i++) {
        const struct compare_row *row = &g_array_index(compare->rows, struct compare_row, i);
        if (row != compare_headline(compare, row->phase)) continue;
        if (compare_phase_of_layer(row->phase)) continue; /* only the table shows single layers */
        compare_phase_append(compare, row, out);
        if (compare_what_if(compare)) {
            compare_bounds_append(compare, row->phase, page, out);
        } else {
            if (!page || !compare_verdict_bounds(compare->predicted, row->phase))
                compare_limit_append(compare->predicted, row->phase, out, "  ", "\n");
            compare_contradiction_append(compare, row, out);
        }
    }
    if (!compare_record_predicted(compare->predicted)) busy_append(compare->predicted, compare->predicted_name, out);
    if (!compare_record_predicted(compare->measured)) busy_append(compare->measured, compare->measured_name, out);
    compare_diagnosis_append(compare, out);
    for (guint i = 0; i < compare->lonely->len; i++)
        g_string_append_printf(out, "%s: only in one of the records.\n",
                               (const char *)g_ptr_array_index(compare->lonely, i));
}
