/* report_scatter.c - predicted against measured times of all cases, on two equal logarithmic axes. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

enum { SCATTER_SIZE = 330 };

/* Whether the row becomes a dot: it must be a time for all ranks, and both its values must be above 0. */
static bool scatter_row(const struct compare_row *row)
{
    return row->rank == RECORD_ALL && strcmp(row->metric, "time_us") == 0 && row->predicted > 0 && row->measured > 0;
}

/* Draws the line on which predicted is `factor` times measured. */
static void scatter_diagonal(const struct svg_scale *x, const struct svg_scale *y, double factor, const char *class,
                             GString *out)
{
    const double from = fmax(x->from, x->from / factor), to = fmin(x->to, x->to / factor);
    svg_line(out, svg_scale_pixel(x, from), svg_scale_pixel(y, from * factor), svg_scale_pixel(x, to),
             svg_scale_pixel(y, to * factor), class, NULL);
}

static void scatter_dots(const struct report_case *c, struct report_line *dots)
{
    for (guint r = 0; c->compare && r < c->compare->rows->len; r++) {
        const struct compare_row *row = &g_array_index(c->compare->rows, struct compare_row, r);
        if (!scatter_row(row)) continue;
        g_autofree char *predicted = compare_value_text(row->predicted, "us");
        g_autofree char *measured = compare_value_text(row->measured, "us");
        report_point_add(dots, row->measured, row->predicted, 4, "predicted",
                         g_strdup_printf("%s: %s, predicted %s, measured %s, error %+.1f %%", c->title, row->phase,
                                         predicted, measured, row->error_pct));
    }
}

void report_plot_scatter(const GPtrArray *cases, GString *out)
{
    struct report_figure f = { NULL,           "Dots: predicted against measured time of each phase",
                               "measured, us", "predicted, us",
                               SCATTER_SIZE,   .upright = true };
    struct report_line *dots = report_line_add(&f, NULL);
    for (guint i = 0; i < cases->len; i++) scatter_dots(g_ptr_array_index(cases, i), dots);
    const struct report_range range = report_figure_range(&f);
    const double least = fmin(range.x_least, range.y_least), most = fmax(range.x_most, range.y_most);
    if (report_line_count(dots) < 3) {
        report_figure_clear(&f);
        return;
    }
    svg_scale_log(&f.x, PLOT_EDGE + 10, PLOT_EDGE + 10 + SCATTER_SIZE, least, most, 10);
    svg_scale_log(&f.y, PLOT_TOP + SCATTER_SIZE, PLOT_TOP, least, most, 10);
    report_figures_begin(
        out, "Predicted against measured time",
        "On the line they agree; the dashed lines are 10 % off. For a dot above it the prediction is too long.");
    report_figure_axes(&f, out);
    scatter_diagonal(&f.x, &f.y, 1, "axis", out);
    scatter_diagonal(&f.x, &f.y, 1.1, "band", out);
    scatter_diagonal(&f.x, &f.y, 0.9, "band", out);
    report_figure_lines(&f, out);
    report_figures_end(out);
}
