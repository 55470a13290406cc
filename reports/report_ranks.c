/* report_ranks.c - plots over ranks and over layers: which rank is slow, and where.  Knows nothing of the page
 * around. */
#include "reports/report_plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_HEIGHT = 150 };

/* ---- ranks ---- */

static bool has_ranks(const struct record *record)
{
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank != RECORD_ALL && strcmp(row->metric, "time_us") == 0) return true;
    }
    return false;
}

/* A dot a rank, and a line at the median. */
static void ranks_dots(const struct report_series *series, const char *phase, const GArray *samples,
                       const struct svg_scale *x, const struct svg_scale *y, GString *out)
{
    if (samples->len == 0) return;
    const double median = svg_scale_pixel(y, report_samples_median(samples));
    svg_line(out, PLOT_EDGE, median, PLOT_END, median, series->second ? "mid measured" : "mid predicted", series->name);
    const guint step = samples->len / PLOT_DOTS_MAX + 1;
    for (guint i = 0; i < samples->len; i += step) {
        /* if some are left out, the slowest ones, which come last, are kept */
        const struct report_sample *sample = &g_array_index(samples, struct report_sample, samples->len - 1 - i);
        g_autofree char *text = compare_value_text(sample->value, "us");
        g_autofree char *tip = g_strdup_printf("%s, %s, rank %d: %s", phase, series->name, sample->rank, text);
        svg_dot(out, svg_scale_pixel(x, sample->rank), svg_scale_pixel(y, sample->value), 3,
                report_series_class(series), tip);
    }
}

static void ranks_phase(const struct report_case *c, const char *phase, GString *out)
{
    GArray *samples[2] = { NULL, NULL };
    double least = INFINITY, most = 0, last_rank = 1;
    for (int s = 0; s < c->series_count; s++) {
        samples[s] = report_samples(c->series[s].record, phase, "time_us");
        for (guint i = 0; i < samples[s]->len; i++) {
            const struct report_sample *sample = &g_array_index(samples[s], struct report_sample, i);
            least = fmin(least, sample->value);
            most = fmax(most, sample->value);
            last_rank = fmax(last_rank, sample->rank);
        }
    }
    if (most > 0) {
        struct svg_scale x, y;
        const double bottom = PLOT_TOP + RANKS_HEIGHT;
        svg_scale_count(&x, PLOT_EDGE + 6, PLOT_END - 6, last_rank, 8);
        svg_scale_range(&y, bottom, PLOT_TOP, least, most, PLOT_TICKS);
        report_figure_begin(out, phase, bottom + PLOT_AXIS, "Dots: time of each rank");
        svg_axis_left(out, &y, PLOT_EDGE, PLOT_END, "us");
        svg_axis_below(out, &x, bottom, bottom, "rank");
        for (int s = 0; s < c->series_count; s++) ranks_dots(&c->series[s], phase, samples[s], &x, &y, out);
        report_figure_end(out);
    }
    for (int s = 0; s < c->series_count; s++) g_array_free(samples[s], TRUE);
}

void report_plot_ranks(const struct report_case *c, GString *out)
{
    const struct report_series *with = NULL, *without = NULL;
    for (int s = 0; s < c->series_count; s++)
        if (has_ranks(c->series[s].record)) with = &c->series[s];
        else without = &c->series[s];
    if (!with) return;
    g_autofree char *only = without && c->series_count == 2
                                ? g_strdup_printf(" Of the %s alone: the %s has no ranks%s.", with->name, without->name,
                                                  without->predicted ? ", which --per-rank gives" : "")
                                : g_strdup("");
    g_autofree char *note = g_strdup_printf(
        "One dot a rank; the line is the median rank. Where ranks lie close together, the axis does not begin at 0.%s",
        only);
    report_figures_begin(out, "Time of each rank", note);
    g_autoptr(GPtrArray) phases = report_case_phases(c, "time_us", PLOT_PHASES_MAX);
    for (guint p = 0; p < phases->len; p++) ranks_phase(c, g_ptr_array_index(phases, p), out);
    report_figures_end(out);
    if (!without) report_legend(c, out);
}

/* ---- layers ---- */

static const char layer_mark[] = "_layer";

struct layer_point {
    uint32_t layer;
    double mean, slowest;
};

static gint layer_order(gconstpointer a, gconstpointer b)
{
    const struct layer_point *x = a, *y = b;
    return x->layer < y->layer ? -1 : x->layer > y->layer;
}

/* The number of the phase's layer, if the phase is a layer of whole. */
static bool layer_of(const char *phase, const char *whole, uint32_t *layer)
{
    const size_t length = strlen(whole);
    guint64 number;
    if (strncmp(phase, whole, length) != 0 || !g_str_has_prefix(phase + length, layer_mark)) return false;
    if (!g_ascii_string_to_unsigned(phase + length + strlen(layer_mark), 10, 0, G_MAXINT32, &number, NULL))
        return false;
    *layer = (uint32_t)number;
    return true;
}

static GArray *layer_points(const struct record *record, const char *whole)
{
    GArray *points = g_array_new(FALSE, FALSE, sizeof(struct layer_point));
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        struct layer_point point;
        if (row->rank != RECORD_ALL || strcmp(row->metric, "time_us") != 0 || !(row->value > 0) ||
            !layer_of(row->phase, whole, &point.layer))
            continue;
        point.mean = row->value;
        point.slowest = report_slowest_us(record, row->phase);
        g_array_append_val(points, point);
    }
    g_array_sort(points, layer_order);
    return points;
}

static void layer_lines(const struct report_series *series, const char *whole, const GArray *points,
                        const struct svg_scale *x, const struct svg_scale *y, GString *out)
{
    for (int slowest = 0; slowest < 2; slowest++) {
        svg_path_begin(out);
        for (guint i = 0; i < points->len; i++) {
            const struct layer_point *point = &g_array_index(points, struct layer_point, i);
            svg_path_add(out, svg_scale_pixel(x, point->layer),
                         svg_scale_pixel(y, slowest ? point->slowest : point->mean));
        }
        g_autofree char *class = g_strconcat(slowest ? "path " : "path thin ", report_series_class(series), NULL);
        svg_path_end(out, class);
    }
    for (guint i = 0; i < points->len && points->len <= PLOT_DOTS_MAX; i++) {
        const struct layer_point *point = &g_array_index(points, struct layer_point, i);
        g_autofree char *tip = g_strdup_printf("%s, %s, layer %u: slowest rank %.4g us, mean %.4g us", whole,
                                               series->name, point->layer, point->slowest, point->mean);
        svg_dot(out, svg_scale_pixel(x, point->layer), svg_scale_pixel(y, point->slowest), 3,
                report_series_class(series), tip);
    }
}

static void layers_phase(const struct report_case *c, const char *whole, GString *out)
{
    GArray *points[2] = { NULL, NULL };
    double most = 0, least_layer = INFINITY, most_layer = 0;
    for (int s = 0; s < c->series_count; s++) {
        points[s] = layer_points(c->series[s].record, whole);
        for (guint i = 0; i < points[s]->len; i++) {
            const struct layer_point *point = &g_array_index(points[s], struct layer_point, i);
            most = fmax(most, fmax(point->slowest, point->mean));
            least_layer = fmin(least_layer, point->layer);
            most_layer = fmax(most_layer, point->layer);
        }
    }
    if (most > 0 && most_layer > least_layer) {
        struct svg_scale x, y;
        const double bottom = PLOT_TOP + RANKS_HEIGHT;
        svg_scale_count(&x, PLOT_EDGE + 6, PLOT_END - 6, most_layer, 8);
        svg_scale_set(&y, bottom, PLOT_TOP, most, PLOT_TICKS);
        report_figure_begin(out, whole, bottom + PLOT_AXIS, "Lines: time of each layer");
        svg_axis_left(out, &y, PLOT_EDGE, PLOT_END, "us");
        svg_axis_below(out, &x, bottom, bottom, "layer");
        for (int s = 0; s < c->series_count; s++) layer_lines(&c->series[s], whole, points[s], &x, &y, out);
        report_figure_end(out);
    }
    for (int s = 0; s < c->series_count; s++) g_array_free(points[s], TRUE);
}

void report_plot_layers(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = report_case_phases(c, "time_us", G_MAXUINT);
    g_autoptr(GPtrArray) wholes = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < phases->len; i++) {
        const char *phase = g_ptr_array_index(phases, i), *mark = g_strrstr(phase, layer_mark);
        g_autofree char *whole = mark ? g_strndup(phase, (gsize)(mark - phase)) : NULL;
        uint32_t layer;
        if (!whole || !layer_of(phase, whole, &layer)) continue;
        if (!g_ptr_array_find_with_equal_func(wholes, whole, g_str_equal, NULL) && wholes->len < PLOT_PHASES_MAX)
            g_ptr_array_add(wholes, g_steal_pointer(&whole));
    }
    if (wholes->len) {
        report_figures_begin(out, "Time of each layer",
                             "Strong line: the slowest rank, which everybody waits for. Thin line: the mean of the "
                             "ranks. Where they part, a layer's load is uneven.");
        for (guint i = 0; i < wholes->len; i++) layers_phase(c, g_ptr_array_index(wholes, i), out);
        report_figures_end(out);
        report_legend(c, out);
    }
}
