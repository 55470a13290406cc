/* report_ranks.c - plots over ranks and over layers: which rank is slow, and where.  Knows nothing of the page
 * around them. */
#include "reports/report_plot.h"

#include <math.h>
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

/* Adds a dot for each rank. */
static void ranks_dots(const struct report_series *series, const char *phase, const GArray *samples,
                       struct report_figure *f)
{
    struct report_line *dots = report_line_add(f, NULL);
    const guint stride = samples->len / PLOT_DOTS_MAX + 1;
    for (guint i = 0; i < samples->len; i += stride) {
        /* if some dots are left out, those of the slowest ranks, which come last, are kept */
        const struct report_sample *sample = &g_array_index(samples, struct report_sample, samples->len - 1 - i);
        g_autofree char *text = compare_value_text(sample->value, "us");
        report_point_add(dots, sample->rank, sample->value, 3, report_series_class(series),
                         g_strdup_printf("%s, %s, rank %d: %s", phase, series->name, sample->rank, text));
    }
}

static void ranks_phase(const struct report_case *c, const char *phase, GString *out)
{
    struct report_figure f = { phase, "Dots: time of each rank", "rank", "us", RANKS_HEIGHT, .inset = 6 };
    GArray *samples[2] = { NULL, NULL };
    double least = INFINITY, most = 0, last_rank = 1;
    for (int s = 0; s < c->series_count; s++) {
        samples[s] = report_samples(c->series[s].record, phase, "time_us");
        ranks_dots(&c->series[s], phase, samples[s], &f);
        if (!samples[s]->len) continue;
        least = fmin(least, g_array_index(samples[s], struct report_sample, 0).value);
        most = fmax(most, g_array_index(samples[s], struct report_sample, samples[s]->len - 1).value);
        for (guint i = 0; i < samples[s]->len; i++)
            last_rank = fmax(last_rank, g_array_index(samples[s], struct report_sample, i).rank);
    }
    svg_scale_count(&f.x, PLOT_EDGE + 6, PLOT_END - 6, last_rank, 8);
    svg_scale_range(&f.y, PLOT_TOP + RANKS_HEIGHT, PLOT_TOP, least, most, PLOT_TICKS);
    if (most > 0) report_figure_axes(&f, out);
    for (int s = 0; s < c->series_count; s++) {
        const struct report_series *series = &c->series[s];
        if (most > 0 && samples[s]->len) {
            const double median = svg_scale_pixel(&f.y, report_samples_median(samples[s]));
            svg_line(out, PLOT_EDGE, median, PLOT_END, median, series->second ? "mid measured" : "mid predicted",
                     series->name);
        }
        g_array_unref(samples[s]);
    }
    if (most > 0) report_figure_lines(&f, out);
    else report_figure_clear(&f);
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
        "One dot per rank; the line is the median rank. If ranks are close together, the axis does not start at 0.%s",
        only);
    report_figures_begin(out, "Time of each rank", note);
    g_autoptr(GPtrArray) phases = report_case_phases(c, "time_us", PLOT_PHASES_MAX);
    for (guint p = 0; p < phases->len; p++) ranks_phase(c, g_ptr_array_index(phases, p), out);
    report_figures_end(out);
    if (!without) report_legend(c, out);
}

/* ---- layers ---- */

static const char layer_mark[] = "_layer";

/* Whether the phase is a layer of the phase `whole`; *layer gets the layer's number. */
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

/* Adds a line of the slowest rank's time over layers, and a thin line of the mean over ranks. */
static void layer_lines(const struct report_series *series, const char *whole, struct report_figure *f)
{
    struct report_line *mean = report_line_add(f, series->second ? "path thin measured" : "path thin predicted");
    struct report_line *slowest = report_line_add(f, series->second ? "path measured" : "path predicted");
    for (uint32_t i = 0; i < record_row_count(series->record); i++) {
        const struct record_row *row = record_row(series->record, i);
        uint32_t layer;
        if (row->rank != RECORD_ALL || strcmp(row->metric, "time_us") != 0 || !(row->value > 0) ||
            !layer_of(row->phase, whole, &layer))
            continue;
        const double slowest_us = report_slowest_us(series->record, row->phase);
        report_point_add(mean, layer, row->value, 0, NULL, NULL);
        g_autofree char *most = compare_value_text(slowest_us, "us");
        g_autofree char *middle = compare_value_text(row->value, "us");
        report_point_add(
            slowest, layer, slowest_us, 3, NULL,
            g_strdup_printf("%s, %s, layer %u: slowest rank %s, mean %s", whole, series->name, layer, most, middle));
    }
}

static void layers_phase(const struct report_case *c, const char *whole, GString *out)
{
    struct report_figure f = { whole, "Lines: time of each layer", "layer", "us", RANKS_HEIGHT, .inset = 6 };
    for (int s = 0; s < c->series_count; s++) layer_lines(&c->series[s], whole, &f);
    const struct report_range range = report_figure_range(&f);
    svg_scale_count(&f.x, PLOT_EDGE + 6, PLOT_END - 6, range.x_most, 8);
    svg_scale_set(&f.y, PLOT_TOP + RANKS_HEIGHT, PLOT_TOP, range.y_most, PLOT_TICKS);
    if (range.x_most > range.x_least) report_figure_draw(&f, out);
    else report_figure_clear(&f);
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
                             "Bold line: the slowest rank, which all wait for. Thin line: the mean of the ranks. Where "
                             "they part, a layer's load is uneven.");
        for (guint i = 0; i < wholes->len; i++) layers_phase(c, g_ptr_array_index(wholes, i), out);
        report_figures_end(out);
        report_legend(c, out);
    }
}
