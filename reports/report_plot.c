/* report_plot.c - the report's plots, as SVG in the page's text.
 *
 *      LEFT                                     RIGHT   WIDTH
 *      |phase   ███████████████████████              |
 *      |        ██████████████████████████  170 us   |
 *
 * Every mark carries its numbers as a tip.  Knows nothing of the page around. */
#include "reports/report.h"

#include <math.h>
#include <string.h>

#include "reports/svg.h"

enum {
    PLOT_WIDTH = 900,
    PLOT_LEFT = 170,
    PLOT_RIGHT = 790,
    PLOT_BAR = 15,
    PLOT_GAP = 14,
    PLOT_AXIS = 24,
    PLOT_TICKS = 6,
    PLOT_PHASES_MAX = 40, /* more would be a wall: the tables hold them */
    PLOT_DOTS_MAX = 400,  /* of one strip; beyond, evenly spaced ones in order of value */
};

static const char *report_series_class(const struct report_series *series)
{
    return series->predicted ? "predicted" : "measured";
}

static void report_legend(const struct report_case *c, GString *out)
{
    g_string_append(out, "<p class=\"legend\">");
    for (int s = 0; s < c->series_count; s++) {
        g_string_append_printf(out, "<span class=\"key %s\"></span>", report_series_class(&c->series[s]));
        svg_escape_append(out, c->series[s].name);
        g_string_append_c(out, ' ');
    }
    g_string_append(out, "</p>\n");
}

static double report_value_max(const struct report_case *c, const GPtrArray *phases, const char *metric)
{
    double value_max = 0;
    for (guint p = 0; p < phases->len; p++)
        for (int s = 0; s < c->series_count; s++) {
            const double value = report_value(c->series[s].record, g_ptr_array_index(phases, p), metric);
            if (value > value_max) value_max = value;
        }
    return value_max;
}

/* One bar with its number at the end. */
static void report_bar(const struct report_series *series, const char *phase, const struct svg_scale *scale, double y,
                       GString *out)
{
    const double value = report_value(series->record, phase, "time_us");
    if (!isfinite(value)) return;
    char *text = compare_value_text(value, "us");
    char *tip = g_strdup_printf("%s, %s: %s", phase, series->name, text);
    const double x = svg_scale_pixel(scale, 0), end = svg_scale_pixel(scale, value);
    svg_rect(out, x, y, MAX(end - x, 1), PLOT_BAR, report_series_class(series), tip);
    svg_text(out, end + 6, y + PLOT_BAR - 3, "small strong", "start", text);
    g_free(tip);
    g_free(text);
}

void report_plot_times(const struct report_case *c, GString *out)
{
    GPtrArray *phases = report_case_phases(c, "time_us", PLOT_PHASES_MAX);
    if (phases->len > 0) {
        const double group = c->series_count * (PLOT_BAR + 2) + PLOT_GAP, bottom = phases->len * group + 4;
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, report_value_max(c, phases, "time_us"), PLOT_TICKS);
        g_string_append(out, "<h3>Time of each phase</h3>\n");
        report_legend(c, out);
        svg_begin(out, PLOT_WIDTH, bottom + PLOT_AXIS, "Bars: time of each phase");
        svg_axis_below(out, &scale, 0, bottom, "us");
        for (guint p = 0; p < phases->len; p++) {
            const char *phase = g_ptr_array_index(phases, p);
            const double y = p * group + PLOT_GAP / 2.0;
            svg_text(out, PLOT_LEFT - 10, y + (group - PLOT_GAP) / 2 + 4, "label", "end", phase);
            for (int s = 0; s < c->series_count; s++)
                report_bar(&c->series[s], phase, &scale, y + s * (PLOT_BAR + 2), out);
        }
        svg_end(out);
    }
    g_ptr_array_free(phases, TRUE);
}

/* The record that explains: the prediction where there is one. */
static const struct record *report_explaining(const struct report_case *c) { return c->series[0].record; }

/* Rows of a phase (for all ranks) whose metric is prefix..suffix; not those of 0, which have no part in it. */
static GPtrArray *report_rows_like(const struct record *record, const char *phase, const char *prefix,
                                   const char *suffix)
{
    GPtrArray *rows = g_ptr_array_new();
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank == RECORD_ALL && strcmp(row->phase, phase) == 0 && row->value > 0 &&
            strlen(row->metric) > strlen(prefix) + strlen(suffix) && g_str_has_prefix(row->metric, prefix) &&
            g_str_has_suffix(row->metric, suffix))
            g_ptr_array_add(rows, (gpointer)row);
    }
    return rows;
}

/* The part of the metric's name between prefix and suffix, as words. */
static char *report_metric_middle(const struct record_row *row, const char *prefix, const char *suffix)
{
    const size_t length = strlen(row->metric) - strlen(prefix) - strlen(suffix);
    return g_strdelimit(g_strndup(row->metric + strlen(prefix), length), "_", ' ');
}

/* Bars of the rows of one phase below its name; returns where they end. */
static double report_named_bars(const GPtrArray *rows, const char *phase, const char *prefix, const char *suffix,
                                const struct svg_scale *scale, const char *class, double y, GString *out)
{
    svg_text(out, 0, y + 12, "label strong", "start", phase);
    y += 18;
    for (guint i = 0; i < rows->len; i++, y += PLOT_BAR + 3) {
        const struct record_row *row = g_ptr_array_index(rows, i);
        char *name = report_metric_middle(row, prefix, suffix);
        char *text = compare_value_text(row->value, row->unit);
        const double x = svg_scale_pixel(scale, 0), end = svg_scale_pixel(scale, row->value);
        svg_text(out, PLOT_LEFT - 10, y + PLOT_BAR - 3, "small", "end", name);
        svg_rect(out, x, y, MAX(end - x, 1), PLOT_BAR, class, text);
        svg_text(out, end + 6, y + PLOT_BAR - 3, "small", "start", text);
        g_free(text);
        g_free(name);
    }
    return y + PLOT_GAP;
}

/* Of the slowest rank, which the bounds are for. */
static double report_slowest_us(const struct record *record, const char *phase)
{
    const double slowest_us = report_value(record, phase, "time_us_max");
    return isfinite(slowest_us) ? slowest_us : report_value(record, phase, "time_us");
}

/* Upright lines where the phase's times lie. */
static void report_time_lines(const struct report_case *c, const char *phase, const struct svg_scale *scale, double top,
                              double bottom, GString *out)
{
    for (int s = 0; s < c->series_count; s++) {
        const double value = report_slowest_us(c->series[s].record, phase);
        if (!isfinite(value)) continue;
        char *text = compare_value_text(value, "us");
        char *tip = g_strdup_printf("%s: %s", c->series[s].name, text);
        const double x = svg_scale_pixel(scale, value);
        svg_line(out, x, top, x, bottom, s == 0 && c->series[0].predicted ? "at predicted" : "at measured", tip);
        g_free(tip);
        g_free(text);
    }
}

void report_plot_bounds(const struct report_case *c, GString *out)
{
    const struct record *record = report_explaining(c);
    GPtrArray *phases = report_case_phases(c, "bound_", PLOT_PHASES_MAX);
    if (phases->len > 0)
        g_string_append(out, "<h3>Time against its bounds</h3>\n<p class=\"note\">No phase can be "
                             "faster than its longest bound. The upright lines are the times of the "
                             "slowest rank.</p>\n");
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        GPtrArray *rows = report_rows_like(record, phase, "bound_", "_us");
        double value_max = 0;
        for (guint i = 0; i < rows->len; i++)
            value_max = MAX(value_max, ((const struct record_row *)g_ptr_array_index(rows, i))->value);
        for (int s = 0; s < c->series_count; s++)
            value_max = fmax(value_max, report_slowest_us(c->series[s].record, phase));
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, value_max, PLOT_TICKS);
        const double bottom = 18 + rows->len * (PLOT_BAR + 3) + 4;
        svg_begin(out, PLOT_WIDTH, bottom + PLOT_AXIS, "Bars: bounds of a phase, lines: its times");
        svg_axis_below(out, &scale, 18, bottom, "us");
        report_named_bars(rows, phase, "bound_", "_us", &scale, "bound", 0, out);
        report_time_lines(c, phase, &scale, 14, bottom, out);
        svg_end(out);
        g_ptr_array_free(rows, TRUE);
    }
    g_ptr_array_free(phases, TRUE);
}

void report_plot_busy(const struct report_case *c, GString *out)
{
    const struct record *record = report_explaining(c);
    GPtrArray *phases = report_case_phases(c, "busy_", PLOT_PHASES_MAX);
    if (phases->len > 0) {
        double bottom = 0;
        GPtrArray **rows = g_new0(GPtrArray *, phases->len);
        for (guint p = 0; p < phases->len; p++) {
            rows[p] = report_rows_like(record, g_ptr_array_index(phases, p), "busy_", "_pct");
            bottom += 18 + rows[p]->len * (PLOT_BAR + 3) + PLOT_GAP;
        }
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, 100, 5);
        g_string_append(out, "<h3>How busy each resource was</h3>\n<p class=\"note\">Share of the phase's time; the "
                             "busiest is what more of would help first.</p>\n");
        svg_begin(out, PLOT_WIDTH, bottom + PLOT_AXIS, "Bars: busy share of each resource");
        svg_axis_below(out, &scale, 0, bottom, "%");
        double y = 0;
        for (guint p = 0; p < phases->len; p++) {
            y = report_named_bars(rows[p], g_ptr_array_index(phases, p), "busy_", "_pct", &scale, "busy", y, out);
            g_ptr_array_free(rows[p], TRUE);
        }
        svg_end(out);
        g_free(rows);
    }
    g_ptr_array_free(phases, TRUE);
}

/* A strip of dots, one a rank, spread over the strip's height by their order so that equal ones stay apart. */
static void report_strip(const struct report_series *series, const char *phase, const GArray *samples,
                         const struct svg_scale *scale, double y, GString *out)
{
    const guint step = samples->len / PLOT_DOTS_MAX + 1;
    for (guint i = 0; i < samples->len; i += step) {
        const struct report_sample *sample = &g_array_index(samples, struct report_sample, i);
        char *text = compare_value_text(sample->value, "us");
        char *tip = g_strdup_printf("%s, %s, rank %d: %s", phase, series->name, sample->rank, text);
        const double offset = ((i / step * 5) % 8 - 3.5) * 1.4;
        svg_dot(out, svg_scale_pixel(scale, sample->value), y + offset, 3, report_series_class(series), tip);
        g_free(tip);
        g_free(text);
    }
    if (samples->len == 0) return;
    const double x = svg_scale_pixel(scale, report_samples_median(samples));
    svg_line(out, x, y - 10, x, y + 10, "median", "median");
}

static void report_ranks_phase(const struct report_case *c, const char *phase, GString *out)
{
    enum { STRIP = 26 };
    GArray *samples[2] = { NULL, NULL };
    double value_max = 0;
    for (int s = 0; s < c->series_count; s++) {
        samples[s] = report_samples(c->series[s].record, phase, "time_us");
        const guint count = samples[s]->len;
        if (count) value_max = MAX(value_max, g_array_index(samples[s], struct report_sample, count - 1).value);
    }
    if (value_max > 0) {
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, value_max, PLOT_TICKS);
        const double bottom = 20 + c->series_count * STRIP;
        svg_begin(out, PLOT_WIDTH, bottom + PLOT_AXIS, "Dots: time of each rank");
        svg_axis_below(out, &scale, 18, bottom, "us");
        svg_text(out, 0, 12, "label strong", "start", phase);
        for (int s = 0; s < c->series_count; s++) {
            const double y = 20 + s * STRIP + STRIP / 2.0;
            char *name = g_strdup_printf("%s%s", c->series[s].name, samples[s]->len ? "" : " (not by rank)");
            svg_text(out, PLOT_LEFT - 10, y + 4, "small", "end", name);
            g_free(name);
            report_strip(&c->series[s], phase, samples[s], &scale, y, out);
        }
        svg_end(out);
    }
    for (int s = 0; s < c->series_count; s++) g_array_free(samples[s], TRUE);
}

void report_plot_ranks(const struct report_case *c, GString *out)
{
    bool ranks = false;
    for (int s = 0; s < c->series_count && !ranks; s++) {
        const struct record *record = c->series[s].record;
        for (uint32_t i = 0; i < record_row_count(record) && !ranks; i++) {
            const struct record_row *row = record_row(record, i);
            ranks = row->rank != RECORD_ALL && strcmp(row->metric, "time_us") == 0;
        }
    }
    if (!ranks) return;
    g_string_append(out, "<h3>Time of each rank</h3>\n<p class=\"note\">One dot a rank; the upright line is the "
                         "median rank.</p>\n");
    GPtrArray *phases = report_case_phases(c, "time_us", PLOT_PHASES_MAX);
    for (guint p = 0; p < phases->len; p++) report_ranks_phase(c, g_ptr_array_index(phases, p), out);
    g_ptr_array_free(phases, TRUE);
}

/* ---- predicted against measured, on logarithmic axes ---- */

enum { SCATTER_SIZE = 420, SCATTER_LEFT = 70, SCATTER_TOP = 10 };

struct report_log_scale {
    double from, to; /* decades */
};

static double report_scatter_x(const struct report_log_scale *scale, double value)
{
    return SCATTER_LEFT + (log10(value) - scale->from) / (scale->to - scale->from) * SCATTER_SIZE;
}

static double report_scatter_y(const struct report_log_scale *scale, double value)
{
    return SCATTER_TOP + SCATTER_SIZE - (log10(value) - scale->from) / (scale->to - scale->from) * SCATTER_SIZE;
}

/* The rows that become dots: times for all ranks, above 0. */
static bool report_scatter_row(const struct compare_row *row)
{
    return row->rank == RECORD_ALL && strcmp(row->metric, "time_us") == 0 && row->predicted > 0 && row->measured > 0;
}

static guint report_scatter_range(const GPtrArray *cases, struct report_log_scale *scale)
{
    double low = INFINITY, high = 0;
    guint count = 0;
    for (guint i = 0; i < cases->len; i++) {
        const struct report_case *c = g_ptr_array_index(cases, i);
        for (guint r = 0; c->compare && r < c->compare->rows->len; r++) {
            const struct compare_row *row = &g_array_index(c->compare->rows, struct compare_row, r);
            if (!report_scatter_row(row)) continue;
            low = fmin(low, fmin(row->predicted, row->measured));
            high = fmax(high, fmax(row->predicted, row->measured));
            count++;
        }
    }
    if (count) *scale = (struct report_log_scale){ log10(low) - 0.08, log10(high) + 0.08 };
    return count;
}

static void report_scatter_frame(const struct report_log_scale *scale, GString *out)
{
    static const int leads[] = { 1, 2, 5 };
    const double bottom = SCATTER_TOP + SCATTER_SIZE, right = SCATTER_LEFT + SCATTER_SIZE;
    for (int decade = (int)floor(scale->from); decade <= (int)ceil(scale->to); decade++)
        for (int i = 0; i < 3; i++) {
            const double value = leads[i] * pow(10.0, decade);
            if (log10(value) < scale->from || log10(value) > scale->to) continue;
            const double x = report_scatter_x(scale, value), y = report_scatter_y(scale, value);
            char text[32];
            g_snprintf(text, sizeof text, "%g", value);
            svg_line(out, x, SCATTER_TOP, x, bottom, "grid", NULL);
            svg_line(out, SCATTER_LEFT, y, right, y, "grid", NULL);
            svg_text(out, x, bottom + 15, "small", "middle", text);
            svg_text(out, SCATTER_LEFT - 6, y + 4, "small", "end", text);
        }
    svg_text(out, SCATTER_LEFT + SCATTER_SIZE / 2.0, bottom + 34, "small strong", "middle", "measured, us");
    svg_text(out, SCATTER_LEFT + 8, SCATTER_TOP + 16, "small strong", "start", "predicted, us");
    const double offsets[] = { 0, log10(1.1), log10(0.9) };
    for (int i = 0; i < 3; i++) { /* predicted = measured, 10 % above and below; clipped at the frame */
        const double from = pow(10, scale->from - fmin(offsets[i], 0)), to = pow(10, scale->to - fmax(offsets[i], 0));
        const double factor = pow(10, offsets[i]);
        svg_line(out, report_scatter_x(scale, from), report_scatter_y(scale, from * factor),
                 report_scatter_x(scale, to), report_scatter_y(scale, to * factor), i ? "band" : "axis", NULL);
    }
}

void report_plot_scatter(const GPtrArray *cases, GString *out)
{
    struct report_log_scale scale;
    if (report_scatter_range(cases, &scale) < 3) return;
    g_string_append(out, "<h3>Predicted against measured time</h3>\n<p class=\"note\">On the line they agree; the "
                         "dashed lines are 10 % off.</p>\n<div class=\"square\">");
    svg_begin(out, SCATTER_LEFT + SCATTER_SIZE + 20, SCATTER_TOP + SCATTER_SIZE + 42,
              "Dots: predicted against measured time of each phase");
    report_scatter_frame(&scale, out);
    for (guint i = 0; i < cases->len; i++) {
        const struct report_case *c = g_ptr_array_index(cases, i);
        for (guint r = 0; c->compare && r < c->compare->rows->len; r++) {
            const struct compare_row *row = &g_array_index(c->compare->rows, struct compare_row, r);
            if (!report_scatter_row(row)) continue;
            char *tip = g_strdup_printf("%s: %s, predicted %.4g us, measured %.4g us, error %+.1f %%", c->title,
                                        row->phase, row->predicted, row->measured, row->error_pct);
            svg_dot(out, report_scatter_x(&scale, row->measured), report_scatter_y(&scale, row->predicted), 4,
                    "predicted", tip);
            g_free(tip);
        }
    }
    svg_end(out);
    g_string_append(out, "</div>\n");
}
