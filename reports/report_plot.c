/* report_plot.c - the common part of all figures of the report, and the figures made of bars: times of phases, bounds,
 * busy shares.
 *
 * Every mark shows its numbers as a tip.  Knows nothing of the page around it. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

struct report_line {
    GArray *points; /* struct point */
    const char *class;
};
struct point {
    double x, y, radius;
    const char *class;
    char *tip;
};

/* ---- figures ---- */

static void figures_begin(GString *out, const char *heading, const char *note, const char *class)
{
    if (heading) svg_escape_within(out, "<h3>", heading, "</h3>\n");
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
    if (caption) svg_escape_within(out, "<figcaption>", caption, "</figcaption>\n");
    svg_begin(out, PLOT_WIDTH, height, text);
}

void report_figure_end(GString *out)
{
    svg_end(out);
    g_string_append(out, "</figure>\n");
}

const char *const report_colours[PLOT_COLOURS] = { "path c0", "path c1", "path c2", "path c3",
                                                   "path c4", "path c5", "path c6", "path c7" };

static void line_free(gpointer line)
{
    g_array_unref(((struct report_line *)line)->points);
    g_free(line);
}
static void point_clear(gpointer point) { g_free(((struct point *)point)->tip); }

struct report_line *report_line_add(struct report_figure *figure, const char *class)
{
    struct report_line *line = g_new(struct report_line, 1);
    *line = (struct report_line){ g_array_new(FALSE, FALSE, sizeof(struct point)), class };
    g_array_set_clear_func(line->points, point_clear);
    if (!figure->lines) figure->lines = g_ptr_array_new_with_free_func(line_free);
    g_ptr_array_add(figure->lines, line);
    return line;
}

void report_point_add(struct report_line *line, double x, double y, double radius, const char *class, char *tip)
{
    const struct point point = { x, y, radius, class ? class : strrchr(line->class, ' ') + 1, tip };
    g_array_append_val(line->points, point);
}

guint report_line_count(const struct report_line *line) { return line->points->len; }

struct report_range report_figure_range(const struct report_figure *figure)
{
    struct report_range range = { INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (guint l = 0; figure->lines && l < figure->lines->len; l++) {
        const struct report_line *line = g_ptr_array_index(figure->lines, l);
        for (guint i = 0; i < line->points->len; i++) {
            const struct point *point = &g_array_index(line->points, struct point, i);
            range.x_least = fmin(range.x_least, point->x);
            range.x_most = fmax(range.x_most, point->x);
            range.y_least = fmin(range.y_least, point->y);
            range.y_most = fmax(range.y_most, point->y);
        }
    }
    return range;
}

void report_figure_axes(const struct report_figure *f, GString *out)
{
    const double bottom = PLOT_TOP + f->height;
    report_figure_begin(out, f->caption, bottom + PLOT_AXIS, f->label);
    svg_axis_left(out, &f->y, f->x.pixel_from - f->inset, PLOT_END, f->y_unit);
    if (f->sizes) svg_axis_below_bytes(out, &f->x, PLOT_TOP, bottom);
    else if (f->x_unit) svg_axis_below(out, &f->x, f->upright ? PLOT_TOP : bottom, bottom, f->x_unit);
}

static gint points_order(gconstpointer a, gconstpointer b)
{
    const struct point *p = a, *q = b;
    return p->x < q->x ? -1 : p->x > q->x;
}

static void line_draw(const struct report_figure *f, const struct report_line *line, GString *out)
{
    GArray *points = line->points;
    g_array_sort(points, points_order);
    if (line->class) svg_path_begin(out);
    for (guint i = 0; line->class && i < points->len; i++) {
        const struct point *point = &g_array_index(points, struct point, i);
        svg_path_add(out, svg_scale_pixel(&f->x, point->x), svg_scale_pixel(&f->y, point->y));
    }
    if (line->class) svg_path_end(out, line->class);
    for (guint i = 0; i < points->len; i++) {
        const struct point *point = &g_array_index(points, struct point, i);
        if (point->radius > 0)
            svg_dot(out, svg_scale_pixel(&f->x, point->x), svg_scale_pixel(&f->y, point->y), point->radius,
                    point->class, point->tip);
    }
}

void report_figure_clear(struct report_figure *f) { g_clear_pointer(&f->lines, g_ptr_array_unref); }

void report_figure_lines(struct report_figure *f, GString *out)
{
    for (guint l = 0; f->lines && l < f->lines->len; l++) line_draw(f, g_ptr_array_index(f->lines, l), out);
    report_figure_clear(f);
    report_figure_end(out);
}

void report_figure_draw(struct report_figure *f, GString *out)
{
    report_figure_axes(f, out);
    report_figure_lines(f, out);
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

char *report_colour_class(guint number)
{
    return g_strdup_printf("c%u%s", number % PLOT_COLOURS, number < PLOT_COLOURS ? "" : " again");
}

void report_legend_names(const char *const *names, guint count, GString *out)
{
    g_string_append(out, "<p class=\"legend\">");
    for (guint i = 0; i < count; i++) {
        g_autofree char *class = report_colour_class(i);
        g_string_append_printf(out, "<span><i class=\"key %s\"></i>", class);
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

/* The text of a bar's value.  A time of a second or more is given in seconds, because in us its text is too long. */
static char *bar_value_text(double value, const char *unit)
{
    char number[32];
    if (strcmp(unit, "us") != 0 || !(value >= 1e6)) return compare_value_text(value, unit);
    svg_number_text(number, sizeof number, value / 1e6, 4);
    return g_strconcat(number, " s", NULL);
}

enum { BAR_STEP = PLOT_BAR + 2, NAME_GAP = 3 };

struct report_bars report_bars_begin(GString *out, const char *caption, const char *label, const char *unit,
                                     guint names, guint together, double most)
{
    struct report_bars bars = { .together = together, .bottom = names * (together * BAR_STEP + NAME_GAP) + 4.0 };
    svg_scale_set(&bars.scale, PLOT_LEFT, PLOT_RIGHT, most, PLOT_TICKS);
    report_figure_begin(out, caption, bars.bottom + PLOT_AXIS, label);
    svg_axis_below(out, &bars.scale, 0, bars.bottom, unit);
    return bars;
}

double report_bar(GString *out, const struct report_bars *bars, guint index, guint which, const char *name,
                  double value, const char *unit, const char *class, const char *tip)
{
    g_autofree char *text = bar_value_text(value, unit), *fit = report_name_fit(name, 15);
    const double y = 4 + index * (bars->together * BAR_STEP + NAME_GAP) + which * BAR_STEP;
    const double x = svg_scale_pixel(&bars->scale, 0);
    if (which == 0) svg_text(out, PLOT_LEFT - 8, y + PLOT_BAR - 3, "small", "end", fit);
    svg_rect(out, x, y, MAX(svg_scale_pixel(&bars->scale, value) - x, 1), PLOT_BAR, class, tip ? tip : text);
    svg_text(out, PLOT_WIDTH, y + PLOT_BAR - 3, "small value", "end", text);
    return y;
}

/* The phases that have the metric, without those that are one layer of another phase: layers are drawn as lines. */
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

/* Whether the record's times are over all kernels of a step, so that the longest is no rank's time. */
static bool of_step(const struct record *record) { return g_strcmp0(record_get(record, "kind"), "step") == 0; }

/* Draws the bar of a phase's slowest rank, which decides, with an upright line at the mean.  If the record does not
 * have the slowest rank's time, draws the mean's bar. */
static void times_bar(const struct report_case *c, int s, const char *phase, const struct report_bars *bars,
                      guint index, GString *out)
{
    const struct report_series *series = &c->series[s];
    const double mean = record_value(series->record, phase, RECORD_ALL, "time_us");
    const double value = report_slowest_us(series->record, phase);
    const bool slowest = isfinite(compare_slowest_us(series->record, phase));
    if (!isfinite(value)) return;
    g_autofree char *text = compare_value_text(mean, "us"), *last = compare_value_text(value, "us");
    g_autofree char *tip =
        slowest ? g_strdup_printf(of_step(series->record) ? "%s, %s: longest %s, mean %s"
                                                          : "%s, %s: slowest rank %s, mean over ranks %s",
                                  phase, series->name, last, text)
                : g_strdup_printf("%s, %s: mean over ranks %s", phase, series->name, text);
    const double y = report_bar(out, bars, index, (guint)s, phase, value, "us", report_series_class(series), tip);
    const double x = svg_scale_pixel(&bars->scale, mean);
    if (slowest && isfinite(mean) && mean < value) svg_line(out, x, y + 1, x, y + PLOT_BAR - 1, "whisker", NULL);
}

void report_plot_times(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = whole_phases(c, "time_us");
    bool slowest = false;
    for (guint p = 0; p < phases->len; p++)
        for (int s = 0; s < c->series_count; s++)
            slowest |= isfinite(compare_slowest_us(c->series[s].record, g_ptr_array_index(phases, p)));
    /* times of measured operations, such as a step and a time slice, do not fit on one axis */
    if (!phases->len || g_strcmp0(record_get(c->series[0].record, "kind"), "measure") == 0) return;
    report_figures_begin(out, "Time of each phase",
                         of_step(c->series[0].record)
                             ? "Bars: the longest of a step's kernels, on any rank. The line in a bar is the mean."
                         : slowest ? "Bars: the slowest rank, which all wait for. The line in a bar is the mean over "
                                     "ranks; a bar without one is the mean."
                                   : "Bars: the mean over ranks.");
    const struct report_bars bars = report_bars_begin(out, NULL, "Bars: time of each phase", "us", phases->len,
                                                      (guint)c->series_count, times_most(c, phases));
    for (guint p = 0; p < phases->len; p++)
        for (int s = 0; s < c->series_count; s++) times_bar(c, s, g_ptr_array_index(phases, p), &bars, p, out);
    report_figure_end(out);
    report_figures_end(out);
    report_legend(c, out);
}

/* ---- bounds, busy shares ---- */

/* The names of the phase's metrics that begin with prefix, end with suffix and hold for all ranks. Leaves out metrics
 * that are 0 in every explaining series, because they explain nothing. */
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

/* Begins a figure with a bar for each metric and prediction.  A bar's name is the part of the metric's name between
 * prefix and suffix. */
static struct report_bars named_bars(const struct report_case *c, const char *phase, const char *prefix,
                                     const char *suffix, const char *label, double most, GString *out)
{
    g_autoptr(GPtrArray) metrics = explaining_metrics(c, phase, prefix, suffix);
    const bool share = strcmp(suffix, "_pct") == 0;
    const int together = report_explaining(c);
    for (int s = 0; s < together && !share; s++)
        for (guint i = 0; i < metrics->len; i++)
            most = fmax(most, record_value(c->series[s].record, phase, RECORD_ALL, g_ptr_array_index(metrics, i)));
    const struct report_bars bars =
        report_bars_begin(out, phase, label, share ? "% of the time" : "us", metrics->len, (guint)together, most);
    for (guint i = 0; i < metrics->len; i++)
        for (int s = 0; s < together; s++) {
            const char *metric = g_ptr_array_index(metrics, i);
            const double found = record_value(c->series[s].record, phase, RECORD_ALL, metric),
                         value = found > 0 ? found : 0;
            const size_t length = strlen(metric) - strlen(prefix) - strlen(suffix);
            g_autofree char *name = g_strdelimit(g_strndup(metric + strlen(prefix), length), "_", ' ');
            report_bar(out, &bars, i, (guint)s, name, share ? fmin(value, 100) : value, share ? "%" : "us",
                       together == 2 ? report_series_class(&c->series[s])
                       : share       ? "busy"
                                     : "bound",
                       NULL);
        }
    return bars;
}

/* Draws upright lines at the phase's times. */
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
        double most = 0;
        for (int s = 0; s < c->series_count; s++) most = fmax(most, report_slowest_us(c->series[s].record, phase));
        const struct report_bars bars =
            named_bars(c, phase, "bound_", "_us", "Bars: bounds of a phase, lines: its times", most, out);
        report_time_lines(c, phase, &bars.scale, bars.bottom, out);
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
            "Share of the phase's time, the mean over ranks. A single part can be far busier: the text names it.");
    for (guint p = 0; p < phases->len; p++) {
        named_bars(c, g_ptr_array_index(phases, p), "busy_", "_pct", "Bars: busy share of each resource", 100, out);
        report_figure_end(out);
    }
    if (phases->len > 0) report_figures_end(out);
    if (phases->len > 0 && report_explaining(c) == 2) report_legend(c, out);
}
