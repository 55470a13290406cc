/* report_plot.c - what all figures of the report share, and the bars: times of phases, bounds, busy shares.
 * Every mark carries its numbers as a tip.  Knows nothing of the page around. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

/* ---- figures ---- */

static void figures_begin(GString *out, const char *heading, const char *note, const char *class)
{
    if (heading) {
        g_string_append(out, "<h3>");
        svg_escape_append(out, heading);
        g_string_append(out, "</h3>\n");
    }
    if (note) g_string_append_printf(out, "<p class=\"note\">%s</p>\n", note);
    g_string_append_printf(out, "<div class=\"%s\">\n", class);
}

void report_figures_begin(GString *out, const char *heading, const char *note)
{
    figures_begin(out, heading, note, "figures");
}

void report_figures_begin_many(GString *out, const char *heading, const char *note)
{
    figures_begin(out, heading, note, "figures many");
}

void report_figures_end(GString *out) { g_string_append(out, "</div>\n"); }

void report_figure_begin(GString *out, const char *caption, double height, const char *label)
{
    g_autofree char *text = caption ? g_strdup_printf("%s: %s", label, caption) : g_strdup(label);
    g_string_append(out, "<figure>");
    if (caption) {
        g_string_append(out, "<figcaption>");
        svg_escape_append(out, caption);
        g_string_append(out, "</figcaption>\n");
    }
    svg_begin(out, PLOT_WIDTH, height, text);
}

void report_figure_end(GString *out)
{
    svg_end(out);
    g_string_append(out, "</figure>\n");
}

const char *report_series_class(const struct report_series *series)
{
    return series->predicted ? "predicted" : "measured";
}

void report_legend(const struct report_case *c, GString *out)
{
    if (c->series_count < 2) return;
    g_string_append(out, "<p class=\"legend\">");
    for (int s = 0; s < c->series_count; s++) {
        g_string_append_printf(out, "<span><i class=\"key %s\"></i>", report_series_class(&c->series[s]));
        svg_escape_append(out, c->series[s].name);
        g_string_append(out, "</span> ");
    }
    g_string_append(out, "</p>\n");
}

void report_legend_names(const char *const *names, guint count, GString *out)
{
    g_string_append(out, "<p class=\"legend\">");
    for (guint i = 0; i < count; i++) {
        g_string_append_printf(out, "<span><i class=\"key c%u\"></i>", i % PLOT_COLOURS);
        svg_escape_append(out, names[i]);
        g_string_append(out, "</span> ");
    }
    g_string_append(out, "</p>\n");
}

char *report_name_fit(const char *name, glong letters)
{
    g_autofree char *valid = g_utf8_make_valid(name, -1);
    if (g_utf8_strlen(valid, -1) <= letters) return g_steal_pointer(&valid);
    g_autofree char *cut = g_utf8_substring(valid, 0, letters - 1);
    return g_strconcat(cut, "\342\200\246", NULL);
}

/* ---- bars ---- */

/* A value behind a bar: long times are seconds there, for which there is room. */
static char *bar_value_text(double value, const char *unit)
{
    char number[32];
    if (strcmp(unit, "us") != 0 || !(value >= 1e6)) return compare_value_text(value, unit);
    svg_number_text(number, sizeof number, value / 1e6, 4);
    return g_strconcat(number, " s", NULL);
}

void report_bar(GString *out, const struct svg_scale *scale, double y, const char *name, double value, const char *unit,
                const char *class, const char *tip)
{
    g_autofree char *text = bar_value_text(value, unit), *fit = report_name_fit(name, 15);
    const double x = svg_scale_pixel(scale, 0);
    if (*name) svg_text(out, PLOT_LEFT - 8, y + PLOT_BAR - 3, "small", "end", fit);
    svg_rect(out, x, y, MAX(svg_scale_pixel(scale, value) - x, 1), PLOT_BAR, class, tip ? tip : text);
    svg_text(out, PLOT_WIDTH, y + PLOT_BAR - 3, "small value", "end", text);
}

/* A thin line from the bar's end to the slowest rank. */
static void bar_whisker(GString *out, const struct svg_scale *scale, double y, double mean, double slowest)
{
    if (!(slowest > mean)) return;
    const double from = svg_scale_pixel(scale, mean), to = svg_scale_pixel(scale, slowest), middle = y + PLOT_BAR / 2.0;
    svg_line(out, from, middle, to, middle, "whisker", NULL);
    svg_line(out, to, y + 3, to, y + PLOT_BAR - 3, "whisker", NULL);
}

/* Phases with times that are no layer's part of another. */
static GPtrArray *whole_phases(const struct report_case *c)
{
    g_autoptr(GPtrArray) all = report_case_phases(c, "time_us", 10 * PLOT_PHASES_MAX);
    GPtrArray *phases = g_ptr_array_new();
    for (guint i = 0; i < all->len && phases->len < PLOT_PHASES_MAX; i++)
        if (!compare_phase_of_layer(g_ptr_array_index(all, i))) g_ptr_array_add(phases, g_ptr_array_index(all, i));
    return phases;
}

static double times_most(const struct report_case *c, const GPtrArray *phases)
{
    double most = 0;
    for (guint p = 0; p < phases->len; p++)
        for (int s = 0; s < c->series_count; s++)
            most = fmax(most, fmax(report_value(c->series[s].record, g_ptr_array_index(phases, p), "time_us"),
                                   report_slowest_us(c->series[s].record, g_ptr_array_index(phases, p))));
    return most;
}

static void times_bar(const struct report_series *series, const char *phase, const char *name,
                      const struct svg_scale *scale, double y, GString *out)
{
    const double value = report_value(series->record, phase, "time_us");
    const double slowest = report_slowest_us(series->record, phase);
    if (!isfinite(value)) return;
    g_autofree char *text = compare_value_text(value, "us"), *last = compare_value_text(slowest, "us");
    g_autofree char *tip = slowest > value
                               ? g_strdup_printf("%s, %s: %s, slowest rank %s", phase, series->name, text, last)
                               : g_strdup_printf("%s, %s: %s", phase, series->name, text);
    report_bar(out, scale, y, name, value, "us", report_series_class(series), tip);
    bar_whisker(out, scale, y, value, slowest);
}

void report_plot_times(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = whole_phases(c);
    const char *kind = record_get(c->series[0].record, "kind");
    if (phases->len > 0 && g_strcmp0(kind, "measure") != 0) { /* a step and a slice have no axis in common */
        const double group = c->series_count * (PLOT_BAR + 2) + 8, bottom = phases->len * group;
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, times_most(c, phases), PLOT_TICKS);
        report_figures_begin(out, "Time of each phase",
                             "Bars: the mean over ranks. The thin line reaches to the slowest rank.");
        report_figure_begin(out, NULL, bottom + PLOT_AXIS, "Bars: time of each phase");
        svg_axis_below(out, &scale, 0, bottom, "us");
        for (guint p = 0; p < phases->len; p++) {
            const char *phase = g_ptr_array_index(phases, p);
            for (int s = 0; s < c->series_count; s++)
                times_bar(&c->series[s], phase, s ? "" : phase, &scale, p * group + 4 + s * (PLOT_BAR + 2), out);
        }
        report_figure_end(out);
        report_figures_end(out);
        report_legend(c, out);
    }
}

/* ---- bounds, busy shares ---- */

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

/* A bar a row, named by what its metric has between prefix and suffix. */
static void named_bars(const GPtrArray *rows, const char *prefix, const char *suffix, const struct svg_scale *scale,
                       const char *class, GString *out)
{
    for (guint i = 0; i < rows->len; i++) {
        const struct record_row *row = g_ptr_array_index(rows, i);
        const size_t length = strlen(row->metric) - strlen(prefix) - strlen(suffix);
        g_autofree char *name = g_strdelimit(g_strndup(row->metric + strlen(prefix), length), "_", ' ');
        const bool share = strcmp(suffix, "_pct") == 0;
        report_bar(out, scale, 4 + i * (PLOT_BAR + 5), name, share ? fmin(row->value, 100) : row->value, row->unit,
                   class, NULL);
    }
}

/* Upright lines where the phase's times lie. */
static void report_time_lines(const struct report_case *c, const char *phase, const struct svg_scale *scale,
                              double bottom, GString *out)
{
    for (int s = 0; s < c->series_count; s++) {
        const double value = report_slowest_us(c->series[s].record, phase);
        if (!isfinite(value)) continue;
        g_autofree char *text = compare_value_text(value, "us");
        g_autofree char *tip = g_strdup_printf("%s, slowest rank: %s", c->series[s].name, text);
        const double x = svg_scale_pixel(scale, value);
        svg_line(out, x, 0, x, bottom, c->series[s].predicted ? "at predicted" : "at measured", tip);
    }
}

void report_plot_bounds(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = report_case_phases(c, "bound_", PLOT_PHASES_MAX);
    if (phases->len > 0)
        report_figures_begin(out, "Time against its bounds",
                             "No phase can be faster than its longest bound. The upright lines are the times of the "
                             "slowest rank.");
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        g_autoptr(GPtrArray) rows = report_rows_like(report_explaining(c), phase, "bound_", "_us");
        double most = 0;
        for (guint i = 0; i < rows->len; i++)
            most = fmax(most, ((const struct record_row *)g_ptr_array_index(rows, i))->value);
        for (int s = 0; s < c->series_count; s++) most = fmax(most, report_slowest_us(c->series[s].record, phase));
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, most, PLOT_TICKS);
        const double bottom = rows->len * (PLOT_BAR + 5) + 4;
        report_figure_begin(out, phase, bottom + PLOT_AXIS, "Bars: bounds of a phase, lines: its times");
        svg_axis_below(out, &scale, 0, bottom, "us");
        named_bars(rows, "bound_", "_us", &scale, "bound", out);
        report_time_lines(c, phase, &scale, bottom, out);
        report_figure_end(out);
    }
    if (phases->len > 0) report_figures_end(out);
}

void report_plot_busy(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = report_case_phases(c, "busy_", PLOT_PHASES_MAX);
    if (phases->len > 0)
        report_figures_begin(out, "How busy each resource was",
                             "Share of the phase's time. More of the busiest would help first.");
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        g_autoptr(GPtrArray) rows = report_rows_like(report_explaining(c), phase, "busy_", "_pct");
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, 100, PLOT_TICKS);
        const double bottom = rows->len * (PLOT_BAR + 5) + 4;
        report_figure_begin(out, phase, bottom + PLOT_AXIS, "Bars: busy share of each resource");
        svg_axis_below(out, &scale, 0, bottom, "% of the time");
        named_bars(rows, "busy_", "_pct", &scale, "busy", out);
        report_figure_end(out);
    }
    if (phases->len > 0) report_figures_end(out);
}
