/* report_sweep.c - a sweep as figures: curves in small multiples, the front of SMs against time, the best points.
 *
 * The values of one swept name run along the axis: SMs if they were swept, else the name with the most values, and
 * names whose values are numbers come first.  Each value of a second name is a line.  The other names give panels.  All
 * panels have one axis of time, so that they can be compared.  Knows nothing of the page around it. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

#include "reports/sweep_table.h"

enum {
    PANELS_MAX = 24,
    FRONTS_MAX = 12,
    FRONT_DOTS_MAX = 1500,
    BEST_MAX = 40,
    PANEL_HEIGHT = 150,
    CAPTION_VALUES = 20
};

/* What figures show of each point: the time of one phase. */
struct sweep_measure {
    const struct sweep_table *table;
    int phase;
    const char *name;
};

/* The names whose values are along the axis and on the lines (-1: no name), and the panels. */
struct sweep_layout {
    int along, lines;
    bool numeric, log;
    GPtrArray *along_values, *line_values;
    GPtrArray *panels; /* a GPtrArray of points for each panel */
    GPtrArray *captions;
    guint panels_left_out;
};

static double measure_of(const struct sweep_measure *m, const struct sweep_point *point)
{
    return point->time_us[m->phase];
}

static struct sweep_measure measure_new(const struct sweep_table *table, int phase)
{
    const char *name = g_ptr_array_index(table->phases, phase);
    return (struct sweep_measure){ table, phase, strcmp(name, "layer") == 0 ? "dispatch + combine" : name };
}

/* ---- the layout ---- */

static guint value_count(const struct sweep_table *table, int name)
{
    g_autoptr(GPtrArray) values = sweep_table_values(table, name);
    return values->len;
}

static int along_choose(const struct sweep_table *table)
{
    int best = -1;
    guint most = 1;
    const int sms = sweep_table_name(table, "num-sms");
    if (sms >= 0 && sms != table->compare && value_count(table, sms) > 1) return sms;
    for (int numeric = 1; numeric >= 0 && best < 0; numeric--)
        for (int i = 0; i < (int)table->names->len; i++) {
            const guint count = value_count(table, i);
            if (count <= most || i == table->compare || (numeric && !sweep_table_numeric(table, i))) continue;
            most = count;
            best = i;
        }
    return best;
}

/* The name whose values give the lines.  It is the name that is compared if this has at most PLOT_COLOURS values, else
 * the innermost other name with 2 to PLOT_COLOURS values.  -1: there is none. */
static int lines_choose(const struct sweep_table *table, int along)
{
    if (table->compare >= 0 && value_count(table, table->compare) <= PLOT_COLOURS) return table->compare;
    for (int i = (int)table->names->len - 1; i >= 0; i--) {
        const guint count = value_count(table, i);
        if (i != along && count > 1 && count <= PLOT_COLOURS) return i;
    }
    return -1;
}

static void points_unref(gpointer points) { g_ptr_array_unref(points); }

/* Groups points that have the same value for every name n whose varies[n] is true.  These values become the group's
 * caption: "num-tokens 128, hidden 7168". */
static void points_group(const struct sweep_table *table, const bool *varies, GPtrArray **groups, GPtrArray **captions)
{
    g_autoptr(GHashTable) places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    *groups = g_ptr_array_new_with_free_func(points_unref);
    *captions = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < table->points->len; i++) {
        struct sweep_point *point = g_ptr_array_index(table->points, i);
        g_autoptr(GString) key = g_string_new(NULL);
        for (guint n = 0; n < table->names->len; n++)
            if (varies[n])
                g_string_append_printf(key, "%s%s %s", key->len ? ", " : "",
                                       (const char *)g_ptr_array_index(table->names, n), point->value[n]);
        gpointer place;
        if (!g_hash_table_lookup_extended(places, key->str, NULL, &place)) {
            place = GUINT_TO_POINTER((*groups)->len);
            g_hash_table_insert(places, g_strdup(key->str), place);
            g_ptr_array_add(*groups, g_ptr_array_new());
            g_ptr_array_add(*captions, g_strdup(key->str));
        }
        g_ptr_array_add(g_ptr_array_index(*groups, GPOINTER_TO_UINT(place)), point);
    }
}

static void layout_panels(struct sweep_layout *l, const struct sweep_table *table)
{
    g_autofree bool *varies = g_new0(bool, table->names->len + 1);
    for (int i = 0; i < (int)table->names->len; i++)
        varies[i] = i != l->along && i != l->lines && value_count(table, i) > 1;
    points_group(table, varies, &l->panels, &l->captions);
    l->panels_left_out = l->panels->len > PANELS_MAX ? l->panels->len - PANELS_MAX : 0;
}

static void layout_set(struct sweep_layout *l, const struct sweep_table *table)
{
    *l = (struct sweep_layout){ .along = along_choose(table) };
    if (l->along < 0) return;
    l->lines = lines_choose(table, l->along);
    l->along_values = sweep_table_values(table, l->along);
    l->line_values = l->lines >= 0 ? sweep_table_values(table, l->lines) : g_ptr_array_new();
    l->numeric = sweep_table_numeric(table, l->along);
    const double first = sweep_value_number(g_ptr_array_index(l->along_values, 0));
    const double last = sweep_value_number(g_ptr_array_index(l->along_values, l->along_values->len - 1));
    l->log = l->numeric && first > 0 && last / first >= 8;
    layout_panels(l, table);
}

static void layout_clear(struct sweep_layout *l)
{
    if (l->along < 0) return;
    g_ptr_array_unref(l->along_values);
    g_ptr_array_unref(l->line_values);
    g_ptr_array_unref(l->panels);
    g_ptr_array_unref(l->captions);
}

/* ---- curves ---- */

/* The number at which a value stands on the axis: its own number, or its index if the values are not all numbers of one
 * unit. */
static double along_number(const struct sweep_layout *l, const char *value)
{
    guint place = 0;
    if (l->numeric) return sweep_value_number(value);
    g_ptr_array_find_with_equal_func(l->along_values, value, g_str_equal, &place);
    return place;
}

/* Puts ticks at the values, as many as there is room for. */
static void along_axis(const struct sweep_layout *l, struct svg_scale *x)
{
    const guint count = l->along_values->len;
    const double first = along_number(l, g_ptr_array_index(l->along_values, 0));
    const double last = along_number(l, g_ptr_array_index(l->along_values, count - 1));
    *x = (struct svg_scale){
        .pixel_from = PLOT_EDGE + 8, .pixel_to = PLOT_END - 16, .from = first, .to = last, .log = l->log
    };
    double end = -INFINITY;
    for (guint i = 0; i < count && x->tick_count < SVG_TICKS_MAX; i++) {
        const char *value = g_ptr_array_index(l->along_values, i);
        const double at = along_number(l, value), pixel = svg_scale_pixel(x, at);
        g_autofree char *fit = report_name_fit(value, CAPTION_VALUES);
        const double half = svg_text_width(fit) / 2 + 2;
        if (pixel - half < end || pixel + half > PLOT_WIDTH) continue;
        end = pixel + half;
        x->tick[x->tick_count++] = at;
    }
}

static void along_axis_draw(const struct sweep_layout *l, const struct sweep_table *table, const struct svg_scale *x,
                            double bottom, GString *out)
{
    for (guint i = 0; i < l->along_values->len; i++) {
        const char *value = g_ptr_array_index(l->along_values, i);
        const double at = along_number(l, value);
        bool ticked = false;
        for (int t = 0; t < x->tick_count; t++) ticked |= x->tick[t] == at;
        if (!ticked) continue;
        g_autofree char *fit = report_name_fit(value, CAPTION_VALUES);
        svg_line(out, svg_scale_pixel(x, at), bottom, svg_scale_pixel(x, at), bottom + 4, "axis", NULL);
        svg_text(out, svg_scale_pixel(x, at), bottom + 16, "small", "middle", fit);
    }
    g_autofree char *name = report_name_fit(g_ptr_array_index(table->names, l->along), 40);
    svg_text(out, (PLOT_EDGE + PLOT_END) / 2.0, bottom + 32, "small", "middle", name);
}

static void curve_add(const struct sweep_measure *m, const struct sweep_layout *l, const GPtrArray *points, guint line,
                      struct report_figure *f)
{
    struct report_line *curve = report_line_add(f, report_colours[line % PLOT_COLOURS]);
    const char *wanted = l->lines >= 0 ? g_ptr_array_index(l->line_values, line) : NULL;
    for (guint i = 0; i < points->len; i++) {
        const struct sweep_point *point = g_ptr_array_index(points, i);
        const double time_us = measure_of(m, point);
        if ((wanted && strcmp(point->value[l->lines], wanted) != 0) || !isfinite(time_us)) continue;
        const char *name = g_ptr_array_index(m->table->names, l->along), *value = point->value[l->along];
        g_autofree char *time = compare_value_text(time_us, "us");
        char *tip = wanted ? g_strdup_printf("%s %s, %s %s: %s", name, value,
                                             (const char *)g_ptr_array_index(m->table->names, l->lines), wanted, time)
                           : g_strdup_printf("%s %s: %s", name, value, time);
        report_point_add(curve, along_number(l, value), time_us, 3, NULL, tip);
    }
}

static double measure_most(const struct sweep_measure *m)
{
    double most = 0;
    for (guint i = 0; i < m->table->points->len; i++)
        most = fmax(most, measure_of(m, g_ptr_array_index(m->table->points, i)));
    return most;
}

static void legend_lines(const struct sweep_table *table, const struct sweep_layout *l, GString *out)
{
    if (l->lines < 0) return;
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < l->line_values->len; i++)
        g_ptr_array_add(names, g_strdup_printf("%s %s", (const char *)g_ptr_array_index(table->names, l->lines),
                                               (const char *)g_ptr_array_index(l->line_values, i)));
    report_legend_names((const char *const *)names->pdata, names->len, out);
}

static void curves_figures(const struct sweep_measure *m, const struct sweep_layout *l, bool named, GString *out)
{
    for (guint p = 0; p < MIN(l->panels->len, PANELS_MAX); p++) {
        const char *caption = named ? m->name : g_ptr_array_index(l->captions, p);
        struct report_figure f = {
            *caption ? caption : NULL, "Lines: time of each point", NULL, "us", PANEL_HEIGHT, .inset = 8
        };
        along_axis(l, &f.x);
        svg_scale_set(&f.y, PLOT_TOP + PANEL_HEIGHT, PLOT_TOP, measure_most(m), PLOT_TICKS);
        for (guint line = 0; line < MAX(l->line_values->len, 1); line++)
            curve_add(m, l, g_ptr_array_index(l->panels, p), line, &f);
        report_figure_axes(&f, out);
        along_axis_draw(l, m->table, &f.x, PLOT_TOP + PANEL_HEIGHT, out);
        report_figure_lines(&f, out);
    }
}

static void curves_of(const struct sweep_measure *m, const struct sweep_layout *l, GString *out)
{
    report_figures_begin_many(out, m->name, NULL);
    curves_figures(m, l, false, out);
    report_figures_end(out);
    legend_lines(m->table, l, out);
}

/* Draws curves of the goal and, if the goal is a layer, of dispatch and of combine.  Each of the three has a row of
 * panels.  If each has only one panel, all three are in one row. */
static void curves(const struct sweep_measure *goal, const struct sweep_layout *l, GString *out)
{
    static const char *const halves[] = { "dispatch", "combine" };
    const bool one = l->panels->len == 1;
    if (one) report_figures_begin_many(out, "Time", NULL);
    for (int i = -1; i < 2; i++) {
        const int phase = i < 0 ? goal->phase : sweep_table_phase(goal->table, halves[i]);
        if (phase < 0 || (i >= 0 && phase == goal->phase)) continue;
        const struct sweep_measure m = measure_new(goal->table, phase);
        if (one) curves_figures(&m, l, true, out);
        else curves_of(&m, l, out);
    }
    if (one) report_figures_end(out);
    if (one) legend_lines(goal->table, l, out);
    if (l->panels_left_out)
        g_string_append_printf(out, "<p class=\"note\">%u more panel%s: sweep fewer values, or read the file.</p>\n",
                               l->panels_left_out, l->panels_left_out == 1 ? "" : "s");
}

/* ---- the front of SMs against time ---- */

struct front_dot {
    double sms, time_us;
    const struct sweep_point *point;
};

static gint front_order(gconstpointer a, gconstpointer b)
{
    const struct front_dot *p = a, *q = b;
    if (p->sms != q->sms) return p->sms < q->sms ? -1 : 1;
    return p->time_us < q->time_us ? -1 : p->time_us > q->time_us;
}

/* Makes the dots of one combination of values that describe work, ordered by SMs. */
static GArray *front_find(const struct sweep_measure *m, const GPtrArray *points, int sms)
{
    GArray *dots = g_array_new(FALSE, FALSE, sizeof(struct front_dot));
    for (guint i = 0; i < points->len; i++) {
        const struct sweep_point *point = g_ptr_array_index(points, i);
        const struct front_dot dot = { sweep_value_number(point->value[sms]), measure_of(m, point), point };
        if (isfinite(dot.sms) && isfinite(dot.time_us)) g_array_append_val(dots, dot);
    }
    g_array_sort(dots, front_order);
    return dots;
}

/* Adds the dots to the figure, and joins those on the front by a line.  A dot is on the front if no dot with at most as
 * many SMs has a shorter time. */
static void front_add(const struct sweep_measure *m, const GArray *dots, struct report_figure *f)
{
    const guint stride = dots->len / FRONT_DOTS_MAX + 1;
    struct report_line *above = report_line_add(f, NULL), *front = report_line_add(f, report_colours[1]);
    double best = INFINITY;
    for (guint i = 0; i < dots->len; i++) {
        const struct front_dot *dot = &g_array_index(dots, struct front_dot, i);
        const bool on_front = dot->time_us < best;
        if (!on_front && i % stride) continue;
        best = fmin(best, dot->time_us);
        GString *tip = g_string_new(NULL);
        for (guint n = 0; n < m->table->names->len; n++)
            g_string_append_printf(tip, "%s %s, ", (const char *)g_ptr_array_index(m->table->names, n),
                                   dot->point->value[n]);
        g_autofree char *time = compare_value_text(dot->time_us, "us");
        g_string_append(tip, time);
        report_point_add(on_front ? front : above, dot->sms, dot->time_us, on_front ? 4 : 2.5,
                         on_front ? NULL : "bound", g_string_free(tip, FALSE));
    }
}

static void fronts(const struct sweep_measure *m, GString *out)
{
    const int sms = sweep_table_name(m->table, "num-sms");
    if (sms < 0 || value_count(m->table, sms) < 2 || !sweep_table_numeric(m->table, sms)) return;
    g_autoptr(GPtrArray) works = NULL, captions = NULL;
    g_autofree bool *varies = g_new0(bool, m->table->names->len + 1);
    for (guint n = 0; n < m->table->names->len; n++)
        varies[n] = !sweep_name_is_launch(g_ptr_array_index(m->table->names, n)) && value_count(m->table, (int)n) > 1;
    points_group(m->table, varies, &works, &captions);
    g_autofree char *heading = g_strdup_printf("SMs against time of %s", m->name);
    report_figures_begin_many(out, heading,
                              "Each dot is a point. No point with as few SMs beats a point on the line; points above "
                              "it waste SMs or time. Where the line is flat, more SMs gain nothing.");
    double most_sms = 0;
    g_autoptr(GPtrArray) values = sweep_table_values(m->table, sms);
    for (guint i = 0; i < values->len; i++) most_sms = fmax(most_sms, sweep_value_number(g_ptr_array_index(values, i)));
    for (guint i = 0; i < MIN(works->len, FRONTS_MAX); i++) {
        const char *caption = g_ptr_array_index(captions, i);
        struct report_figure f = { *caption ? caption : NULL, "Dots: SMs against time", "SMs", "us",
                                   .height = PANEL_HEIGHT };
        g_autoptr(GArray) dots = front_find(m, g_ptr_array_index(works, i), sms);
        front_add(m, dots, &f);
        svg_scale_count(&f.x, PLOT_EDGE, PLOT_END - 8, most_sms, 8);
        svg_scale_set(&f.y, PLOT_TOP + PANEL_HEIGHT, PLOT_TOP, report_figure_range(&f).y_most, PLOT_TICKS);
        report_figure_draw(&f, out);
    }
    report_figures_end(out);
    if (works->len > FRONTS_MAX)
        g_string_append_printf(out, "<p class=\"note\">Left out: %u more.</p>\n", works->len - FRONTS_MAX);
}

/* ---- the best points ---- */

/* The points that the table shows. */
static GArray *best_choose(const struct sweep_measure *m)
{
    char *phase[] = { g_ptr_array_index(m->table->phases, m->phase), NULL };
    const struct sweep_goal goal = { .phase = phase, .metric = (char[]){ "slowest_us" } };
    g_autoptr(GArray) ranked = sweep_rank(m->table->file, &goal);
    return sweep_rank_shown(m->table->file, ranked);
}

static const char *bottleneck_of(const struct sweep_measure *m, const GArray *best, guint i)
{
    const struct sweep_results *file = m->table->file;
    return g_array_index(best, struct sweep_ranked, i).row[sweep_results_column(file, "bottleneck")];
}

static void best_row(const struct sweep_measure *m, const GArray *best, guint i, GString *out)
{
    const struct sweep_ranked *point = &g_array_index(best, struct sweep_ranked, i);
    g_string_append(out, "<tr>");
    for (guint n = 0; n < m->table->names->len; n++)
        report_html_cell(out, sweep_table_numeric(m->table, (int)n) ? "n" : "", point->row[1 + n]);
    report_html_number(out, compare_value_text(point->value, "us"));
    if (*m->table->baseline) report_html_number(out, compare_speedup_text(point->speedup));
    report_html_cell(out, "", bottleneck_of(m, best, i));
    g_string_append(out, "</tr>\n");
}

/* A range in words: "519.9 us" if both ends read the same, else "497.4 us to 519.9 us". */
static char *range_text(double least, double most, char *(*text)(double))
{
    g_autofree char *from = text(least), *to = text(most);
    return strcmp(from, to) == 0 ? g_strdup(from) : g_strdup_printf("%s to %s", from, to);
}

static char *us_text(double us) { return compare_value_text(us, "us"); }

/* Appends the verdict: the time of the best settings, and their gain over the baseline. */
static void verdict(const struct sweep_measure *m, bool titled, GString *out)
{
    g_autofree char *work = sweep_names_text(m->table->file, true), *settings = sweep_names_text(m->table->file, false);
    g_autoptr(GArray) best = best_choose(m);
    double least = INFINITY, most = 0, gain_least = INFINITY, gain_most = 0;
    const guint count = *work ? best->len : MIN(best->len, 1);
    for (guint i = 0; i < count; i++) {
        const struct sweep_ranked *point = &g_array_index(best, struct sweep_ranked, i);
        const double gain = point->speedup;
        least = fmin(least, point->value);
        most = fmax(most, point->value);
        gain_least = fmin(gain_least, isnan(gain) ? 0 : gain);
        gain_most = fmax(gain_most, gain);
    }
    if (!count) return;
    const char *bound = bottleneck_of(m, best, 0);
    for (guint i = 1; i < count; i++)
        if (strcmp(bound, bottleneck_of(m, best, i)) != 0) bound = "";
    g_autofree char *times = range_text(least, most, us_text);
    g_autoptr(GString) text = g_string_new(m->name);
    g_string_append_printf(text, "%s: %s", *settings ? " at best" : "", times);
    if (*m->table->baseline && gain_least > 0) {
        g_autofree char *gains = gain_least >= 1.005 && gain_most / gain_least >= 1.005
                                     ? g_strdup_printf("%.2f to %.2f times faster", gain_least, gain_most)
                                     : range_text(gain_least, gain_most, compare_speedup_text);
        g_string_append_printf(text, ", against the baseline %s", gains);
    }
    if (*bound) g_string_append_printf(text, "; bound by %s", bound);
    g_string_append_c(text, '.');
    text->str[0] = g_ascii_toupper(text->str[0]);
    report_html_verdict(out, text->str, titled);
}

static void best_table(const struct sweep_measure *m, GString *out)
{
    g_autofree char *work = sweep_names_text(m->table->file, true), *settings = sweep_names_text(m->table->file, false);
    const bool each = *work && *settings;
    g_autoptr(GArray) best = best_choose(m);
    g_autoptr(GPtrArray) titles = g_ptr_array_new();
    g_autoptr(GString) format = g_string_new(NULL);
    for (guint n = 0; n < m->table->names->len; n++) {
        g_ptr_array_add(titles, g_ptr_array_index(m->table->names, n));
        g_string_append_c(format, sweep_table_numeric(m->table, (int)n) ? 'r' : 'l');
    }
    g_string_append(format, *m->table->baseline ? "rrl" : "r l");
    g_ptr_array_add(titles, (gpointer)m->name);
    g_ptr_array_add(titles, (gpointer) "against the baseline");
    g_ptr_array_add(titles, (gpointer) "bound by");
    g_autofree char *heading = each    ? g_strdup_printf("The best %s for each %s", settings, work)
                               : *work ? g_strdup("The points")
                                       : g_strdup("The best points");
    g_autofree char *name = g_strdup_printf("%s of %s", heading, m->table->source);
    svg_escape_within(out, "<h3>", heading, "</h3>\n");
    report_html_table_begin(out, name, format->str, (const char *const *)titles->pdata);
    for (guint i = 0; i < MIN(best->len, BEST_MAX); i++) best_row(m, best, i, out);
    report_html_table_end(out);
    if (best->len > BEST_MAX)
        g_string_append_printf(out, "<p class=\"note\">The %s %d of %u; the file has all.</p>\n",
                               *work ? "first" : "best", BEST_MAX, best->len);
}

/* ---- the section ---- */

static void options_list(const struct sweep_table *table, GString *out)
{
    static const char *const titles[] = { "key", "value" };
    g_autofree char *name = g_strdup_printf("What all points of %s have in common", table->source);
    g_string_append(out,
                    "<details><summary>What all points have in common</summary>\n"
                    "<p class=\"note\">Options as given: a size or a number of SMs of 0 is left to the kernels.</p>\n");
    report_html_table_begin(out, name, "ll", titles);
    for (guint i = 0; i < table->options->len; i++) {
        const char *line = g_ptr_array_index(table->options, i), *colon = strstr(line, ": ");
        g_autofree char *key = colon ? g_strndup(line, (gsize)(colon - line)) : g_strdup(line);
        g_string_append(out, "<tr>");
        report_html_cell(out, "", key);
        report_html_cell(out, "wide", colon ? colon + 2 : "");
        g_string_append(out, "</tr>\n");
    }
    report_html_table_end(out);
    g_string_append(out, "</details>\n");
}

/* The value of an option that is equal in all points, or NULL. */
static const char *option_of(const struct sweep_table *table, const char *key)
{
    for (guint i = 0; i < table->options->len; i++) {
        const char *line = g_ptr_array_index(table->options, i);
        const size_t length = strlen(key);
        if (g_str_has_prefix(line, key) && g_str_has_prefix(line + length, ": ")) return line + length + 2;
    }
    return NULL;
}

/* Appends the values that are equal in all points, if the file gives them: "; normal kernels, 16 ranks, routing.ept, on
 * h800-cx7". */
static void title_options_append(const struct sweep_table *table, GString *title)
{
    static const struct {
        const char *key, *before, *behind;
    } said[] = {
        { "kernel", "", " kernels" }, { "num-ranks", "", " ranks" }, { "trace", "", "" }, { "cluster", "on ", "" }
    };
    const char *before = ": ";
    for (size_t i = 0; i < G_N_ELEMENTS(said); i++) {
        const char *value = option_of(table, said[i].key);
        if (!value || strcmp(value, "0") == 0) continue;
        g_autofree char *plain = compare_value_plain(said[i].key, value);
        g_string_append_printf(title, "%s%s%s%s", before, said[i].before, plain, said[i].behind);
        before = ", ";
    }
}

char *report_sweep_title(const struct sweep_table *table)
{
    GString *title = g_string_new("Sweep of ");
    for (guint n = 0; n < table->names->len; n++)
        g_string_append_printf(title, "%s%s", n ? ", " : "", (const char *)g_ptr_array_index(table->names, n));
    if (!table->names->len) g_string_append(title, "one point");
    title_options_append(table, title);
    return g_string_free(title, FALSE);
}

void report_sweep(const struct sweep_table *table, bool titled, GString *out)
{
    const struct sweep_measure goal = measure_new(table, table->goal);
    struct sweep_layout layout;
    layout_set(&layout, table);
    verdict(&goal, titled, out);
    svg_escape_within(out, "<p class=\"path\">", table->source, "</p>\n");
    g_string_append_printf(out, "<p>%u point%s; times are the slowest rank's", table->points->len,
                           table->points->len == 1 ? "" : "s");
    if (sweep_table_phase(table, "layer") == goal.phase)
        g_string_append(out, ", those of dispatch + combine with a layer's other kernels");
    if (*table->baseline) {
        g_string_append(out, ", gains against the baseline ");
        g_auto(GStrv) part = g_strsplit(table->baseline, ",", -1);
        g_autofree char *spaced = g_strjoinv(", ", part);
        svg_escape_append(out, spaced);
    }
    g_string_append(out, ".</p>\n");
    if (table->impossible) {
        g_string_append_printf(out,
                               "<p class=\"note\">%u more are impossible, the first because of: ", table->impossible);
        svg_escape_append(out, table->problem);
        g_string_append(out, "</p>\n");
    }
    best_table(&goal, out);
    if (layout.along >= 0) curves(&goal, &layout, out);
    fronts(&goal, out);
    options_list(table, out);
    layout_clear(&layout);
}
