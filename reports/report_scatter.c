/* report_scatter.c - predicted against measured times of all cases, both axes logarithmic and alike. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

enum { SCATTER_SIZE = 330 };

/* The rows that become dots: times for all ranks, above 0. */
static bool scatter_row(const struct compare_row *row)
{
    return row->rank == RECORD_ALL && strcmp(row->metric, "time_us") == 0 && row->predicted > 0 && row->measured > 0;
}

static guint scatter_range(const GPtrArray *cases, double *least, double *most)
{
    guint count = 0;
    *least = INFINITY;
    *most = 0;
    for (guint i = 0; i < cases->len; i++) {
        const struct report_case *c = g_ptr_array_index(cases, i);
        for (guint r = 0; c->compare && r < c->compare->rows->len; r++) {
            const struct compare_row *row = &g_array_index(c->compare->rows, struct compare_row, r);
            if (!scatter_row(row)) continue;
            *least = fmin(*least, fmin(row->predicted, row->measured));
            *most = fmax(*most, fmax(row->predicted, row->measured));
            count++;
        }
    }
    return count;
}

/* The line on which predicted is this many times measured. */
static void scatter_diagonal(const struct svg_scale *x, const struct svg_scale *y, double factor, const char *class,
                             GString *out)
{
    const double from = fmax(x->from, x->from / factor), to = fmin(x->to, x->to / factor);
    svg_line(out, svg_scale_pixel(x, from), svg_scale_pixel(y, from * factor), svg_scale_pixel(x, to),
             svg_scale_pixel(y, to * factor), class, NULL);
}

static void scatter_dots(const struct report_case *c, const struct svg_scale *x, const struct svg_scale *y,
                         GString *out)
{
    for (guint r = 0; c->compare && r < c->compare->rows->len; r++) {
        const struct compare_row *row = &g_array_index(c->compare->rows, struct compare_row, r);
        if (!scatter_row(row)) continue;
        g_autofree char *tip = g_strdup_printf("%s: %s, predicted %.4g us, measured %.4g us, error %+.1f %%", c->title,
                                               row->phase, row->predicted, row->measured, row->error_pct);
        svg_dot(out, svg_scale_pixel(x, row->measured), svg_scale_pixel(y, row->predicted), 4, "predicted", tip);
    }
}

void report_plot_scatter(const GPtrArray *cases, GString *out)
{
    double least, most;
    if (scatter_range(cases, &least, &most) < 3) return;
    struct svg_scale x, y;
    const double bottom = PLOT_TOP + SCATTER_SIZE;
    svg_scale_log(&x, PLOT_EDGE + 10, PLOT_EDGE + 10 + SCATTER_SIZE, least, most, 10);
    svg_scale_log(&y, bottom, PLOT_TOP, least, most, 10);
    report_figures_begin(
        out, "Predicted against measured time",
        "On the line they agree; the dashed lines are 10 % off. A dot above it was predicted too long.");
    report_figure_begin(out, NULL, bottom + PLOT_AXIS, "Dots: predicted against measured time of each phase");
    svg_axis_left(out, &y, x.pixel_from, x.pixel_to, "predicted, us");
    svg_axis_below(out, &x, PLOT_TOP, bottom, "measured, us");
    scatter_diagonal(&x, &y, 1, "axis", out);
    scatter_diagonal(&x, &y, 1.1, "band", out);
    scatter_diagonal(&x, &y, 0.9, "band", out);
    for (guint i = 0; i < cases->len; i++) scatter_dots(g_ptr_array_index(cases, i), &x, &y, out);
    report_figure_end(out);
    report_figures_end(out);
}
