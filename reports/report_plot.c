/* report_plot.c - what all figures of the report share, and the bars: times of phases, bounds, busy shares.
 *
 * Every mark shows its numbers as a tip.  Knows nothing of the page around it. */
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
    return series->second ? "measured" : "predicted";
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

/* The value after a bar; there is room only for long times in seconds. */
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

/* A thin upright line in the bar at the mean. */
static void bar_mean(GString *out, const struct svg_scale *scale, double y, double mean)
{
    const double x = svg_scale_pixel(scale, mean);
    svg_line(out, x, y + 1, x, y + PLOT_BAR - 1, "whisker", NULL);
}

/* Phases that have a metric and are not one layer of another phase: layers are drawn as lines. */
static GPtrArray *whole_phases(const struct report_case *c, const char *metric)
{
    g_autoptr(GPtrArray) all = report_case_phases(c, metric, 10 * PLOT_PHASES_MAX);
    GPtrArray *phases = g_ptr_array_new();
    for (guint i = 0; i < all->len && phases->len < PLOT_PHASES_MAX; i++)
        if (!compare_phase_of_layer(g_ptr_array_index(all, i)) && strcmp(g_ptr_array_index(all, i), "step") != 0)
            g_ptr_array_add(phases, g_ptr_array_index(all, i));
    return phases;
}

static double times_most(const struct report_case *c, const GPtrArray *phases)
{
    double most = 0;
    for (guint p = 0; p < phases->len; p++)
        for (int s = 0; s < c->series_count; s++)
            most = fmax(most, report_slowest_us(c->series[s].record, g_ptr_array_index(phases, p)));
    return most;
}

/* The slowest rank's time, which decides, with the mean in it; only the mean, if the record does not tell more. */
static void times_bar(const struct report_series *series, const char *phase, const char *name,
                      const struct svg_scale *scale, double y, GString *out)
{
    const double mean = report_value(series->record, phase, "time_us");
    const double value = report_slowest_us(series->record, phase);
    const bool slowest = isfinite(compare_slowest_us(series->record, phase));
    if (!isfinite(value)) return;
    g_autofree char *text = compare_value_text(mean, "us"), *last = compare_value_text(value, "us");
    g_autofree char *tip =
        slowest ? g_strdup_printf("%s, %s: slowest rank %s, mean over ranks %s", phase, series->name, last, text)
                : g_strdup_printf("%s, %s: mean over ranks %s", phase, series->name, text);
    report_bar(out, scale, y, name, value, "us", report_series_class(series), tip);
    if (slowest && isfinite(mean) && mean < value) bar_mean(out, scale, y, mean);
}

void report_plot_times(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = whole_phases(c, "time_us");
    const char *kind = record_get(c->series[0].record, "kind");
    bool slowest = false;
    for (guint p = 0; p < phases->len; p++)
        for (int s = 0; s < c->series_count; s++)
            slowest |= isfinite(compare_slowest_us(c->series[s].record, g_ptr_array_index(phases, p)));
    if (phases->len > 0 && g_strcmp0(kind, "measure") != 0) { /* a step and a time slice do not fit on one axis */
        const double group = c->series_count * (PLOT_BAR + 2) + 8, bottom = phases->len * group;
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, times_most(c, phases), PLOT_TICKS);
        report_figures_begin(out, "Time of each phase",
                             slowest ? "Bars: the slowest rank, which all wait for. The line in a bar is the mean over "
                                       "ranks; a bar without one is the mean."
                                     : "Bars: the mean over ranks.");
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

/* The metrics prefix..suffix of a phase, for all ranks, that are above 0 in one of the explaining series: a metric of 0
 * explains nothing. */
static GPtrArray *explaining_metrics(const struct report_case *c, const char *phase, const char *prefix,
                                     const char *suffix)
{
    GPtrArray *metrics = g_ptr_array_new();
    for (int s = 0; s < report_explaining(c); s++)
        for (uint32_t i = 0; i < record_row_count(c->series[s].record); i++) {
            const struct record_row *row = record_row(c->series[s].record, i);
            if (row->rank == RECORD_ALL && strcmp(row->phase, phase) == 0 && row->value > 0 &&
                strlen(row->metric) > strlen(prefix) + strlen(suffix) && g_str_has_prefix(row->metric, prefix) &&
                g_str_has_suffix(row->metric, suffix) &&
                !g_ptr_array_find_with_equal_func(metrics, row->metric, g_str_equal, NULL))
                g_ptr_array_add(metrics, row->metric);
        }
    return metrics;
}

/* The height of the bars of one metric together. */
static double explaining_height(const struct report_case *c) { return report_explaining(c) * (PLOT_BAR + 2) + 3; }

/* A bar for each metric and prediction, named by the part of the metric's name between prefix and suffix. */
static void named_bars(const struct report_case *c, const char *phase, const GPtrArray *metrics, const char *prefix,
                       const char *suffix, const struct svg_scale *scale, GString *out)
{
    const bool share = strcmp(suffix, "_pct") == 0, two = report_explaining(c) == 2;
    for (guint i = 0; i < metrics->len; i++)
        for (int s = 0; s < report_explaining(c); s++) {
            const char *metric = g_ptr_array_index(metrics, i);
            const struct record_row *row = record_find(c->series[s].record, phase, RECORD_ALL, metric);
            const size_t length = strlen(metric) - strlen(prefix) - strlen(suffix);
            g_autofree char *name = g_strdelimit(g_strndup(metric + strlen(prefix), length), "_", ' ');
            const double value = row && row->value > 0 ? row->value : 0;
            report_bar(out, scale, 4 + i * explaining_height(c) + s * (PLOT_BAR + 2), s ? "" : name,
                       share ? fmin(value, 100) : value, share ? "%" : "us",
                       two     ? report_series_class(&c->series[s])
                       : share ? "busy"
                               : "bound",
                       NULL);
        }
}

/* Upright lines at the phase's times. */
static void report_time_lines(const struct report_case *c, const char *phase, const struct svg_scale *scale,
                              double bottom, GString *out)
{
    for (int s = 0; s < c->series_count; s++) {
        const double value = report_slowest_us(c->series[s].record, phase);
        if (!isfinite(value)) continue;
        g_autofree char *text = compare_value_text(value, "us");
        g_autofree char *tip = g_strdup_printf("%s, slowest rank: %s", c->series[s].name, text);
        const double x = svg_scale_pixel(scale, value);
        svg_line(out, x, 0, x, bottom, c->series[s].second ? "at measured" : "at predicted", tip);
    }
}

void report_plot_bounds(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = whole_phases(c, "bound_");
    if (phases->len > 0)
        report_figures_begin(out, "Time against its bounds",
                             "A bound is how long the busiest part of a kind is busy while the slowest rank runs. The "
                             "upright lines are the times of the slowest rank.");
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        g_autoptr(GPtrArray) metrics = explaining_metrics(c, phase, "bound_", "_us");
        double most = 0;
        for (int s = 0; s < report_explaining(c); s++)
            for (guint i = 0; i < metrics->len; i++)
                most = fmax(most, report_value(c->series[s].record, phase, g_ptr_array_index(metrics, i)));
        for (int s = 0; s < c->series_count; s++) most = fmax(most, report_slowest_us(c->series[s].record, phase));
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, most, PLOT_TICKS);
        const double bottom = metrics->len * explaining_height(c) + 4;
        report_figure_begin(out, phase, bottom + PLOT_AXIS, "Bars: bounds of a phase, lines: its times");
        svg_axis_below(out, &scale, 0, bottom, "us");
        named_bars(c, phase, metrics, "bound_", "_us", &scale, out);
        report_time_lines(c, phase, &scale, bottom, out);
        report_figure_end(out);
    }
    if (phases->len > 0) report_figures_end(out);
    if (phases->len > 0 && report_explaining(c) == 2) report_legend(c, out);
}

void report_plot_busy(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = whole_phases(c, "busy_");
    if (phases->len > 0)
        report_figures_begin(
            out, "How busy each resource was",
            "Share of the phase's time, the mean over ranks. One part can be far busier: the sentences name it.");
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        g_autoptr(GPtrArray) metrics = explaining_metrics(c, phase, "busy_", "_pct");
        struct svg_scale scale;
        svg_scale_set(&scale, PLOT_LEFT, PLOT_RIGHT, 100, PLOT_TICKS);
        const double bottom = metrics->len * explaining_height(c) + 4;
        report_figure_begin(out, phase, bottom + PLOT_AXIS, "Bars: busy share of each resource");
        svg_axis_below(out, &scale, 0, bottom, "% of the time");
        named_bars(c, phase, metrics, "busy_", "_pct", &scale, out);
        report_figure_end(out);
    }
    if (phases->len > 0) report_figures_end(out);
    if (phases->len > 0 && report_explaining(c) == 2) report_legend(c, out);
}
