/* report_sizes.c - the plot of bandwidths by size in records of measure: METRIC_gbs_BYTES.
 *
 * There is one line for each operation, and both axes are logarithmic.  Knows nothing of the page around it. */
#include "reports/report_plot.h"

#include <string.h>

enum { SIZES_HEIGHT = 240 };

static void sizes_point_add(const struct record_row *row, struct report_line *line)
{
    const char *at = strstr(row->metric, "_gbs_");
    guint64 size;
    if (row->rank != RECORD_ALL || !at || !(row->value > 0)) return;
    if (!g_ascii_string_to_unsigned(at + strlen("_gbs_"), 10, 1, G_MAXINT64, &size, NULL)) return;
    report_point_add(line, (double)size, row->value, 3, NULL,
                     g_strdup_printf("%s: %" G_GUINT64_FORMAT " bytes, %.4g GB/s", row->phase, size, row->value));
}

/* Adds the line of a phase that has at least two bandwidths. */
static bool sizes_line(const struct record *record, const char *phase, struct report_figure *f, guint number)
{
    struct report_line *line = report_line_add(f, report_colours[number]);
    for (uint32_t i = 0; i < record_row_count(record); i++)
        if (strcmp(record_row(record, i)->phase, phase) == 0) sizes_point_add(record_row(record, i), line);
    if (report_line_count(line) > 1) return true;
    g_ptr_array_remove(f->lines, line);
    return false;
}

void report_plot_sizes(const struct report_case *c, GString *out)
{
    struct report_figure f = { NULL, "Lines: bandwidth by size", NULL, "GB/s", SIZES_HEIGHT, .sizes = true };
    const char *names[PLOT_COLOURS];
    guint count = 0;
    g_autoptr(GPtrArray) phases = compare_phases(c->series[0].record);
    for (int crowds = 0; crowds < 2; crowds++) /* first single ranks, then crowds (_xN) */
        for (guint p = 0; p < phases->len && count < PLOT_COLOURS; p++) {
            const char *phase = g_ptr_array_index(phases, p);
            if ((strstr(phase, "_x") != NULL) != (crowds == 1)) continue;
            if (sizes_line(c->series[0].record, phase, &f, count)) names[count++] = phase;
        }
    const struct report_range range = report_figure_range(&f);
    if (!count) report_figure_clear(&f);
    if (!count) return;
    svg_scale_log(&f.x, PLOT_EDGE, PLOT_END, range.x_least, range.x_most, 2);
    svg_scale_log(&f.y, PLOT_TOP + SIZES_HEIGHT, PLOT_TOP, range.y_least, range.y_most, 10);
    report_figures_begin(out, "Bandwidth by size",
                         "Where a line rises, the cost per message dominates; where it is flat, the bytes do.");
    report_figure_draw(&f, out);
    report_figures_end(out);
    report_legend_names(names, count, out);
}
