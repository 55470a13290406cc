/* report_sizes.c - the plot of bandwidths by size, which records of measure hold: METRIC_gbs_BYTES.
 *
 * One line an operation, both axes logarithmic.  Knows nothing of the page around. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

enum { SIZES_HEIGHT = 240 };

struct sizes_line {
    const char *phase;
    GArray *points; /* struct sizes_point, ascending */
};

struct sizes_point {
    double size_bytes, gbs;
};

static bool sizes_point_of(const struct record_row *row, struct sizes_point *point)
{
    const char *at = strstr(row->metric, "_gbs_");
    guint64 size;
    if (row->rank != RECORD_ALL || !at || !(row->value > 0)) return false;
    if (!g_ascii_string_to_unsigned(at + strlen("_gbs_"), 10, 1, G_MAXINT64, &size, NULL)) return false;
    *point = (struct sizes_point){ (double)size, row->value };
    return true;
}

static gint sizes_order(gconstpointer a, gconstpointer b)
{
    const struct sizes_point *x = a, *y = b;
    return x->size_bytes < y->size_bytes ? -1 : x->size_bytes > y->size_bytes;
}

/* Gathers the lines of the first phases that have bandwidths; crowds (_xN) come after single ranks.  Returns how
 * many. */
static int sizes_gather(const struct record *record, struct sizes_line lines[PLOT_COLOURS])
{
    int count = 0;
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (int crowds = 0; crowds < 2; crowds++)
        for (guint p = 0; p < phases->len && count < PLOT_COLOURS; p++) {
            const char *phase = g_ptr_array_index(phases, p);
            if ((strstr(phase, "_x") != NULL) != (crowds == 1)) continue;
            struct sizes_line line = { phase, g_array_new(FALSE, FALSE, sizeof(struct sizes_point)) };
            for (uint32_t i = 0; i < record_row_count(record); i++) {
                const struct record_row *row = record_row(record, i);
                struct sizes_point point;
                if (strcmp(row->phase, phase) != 0 || !sizes_point_of(row, &point)) continue;
                g_array_append_val(line.points, point);
            }
            g_array_sort(line.points, sizes_order);
            if (line.points->len > 1) lines[count++] = line;
            else g_array_free(line.points, TRUE);
        }
    return count;
}

static void sizes_scales_set(const struct sizes_line *lines, int count, struct svg_scale *x, struct svg_scale *y)
{
    double least = INFINITY, most = 0, slowest = INFINITY, fastest = 0;
    for (int l = 0; l < count; l++)
        for (guint i = 0; i < lines[l].points->len; i++) {
            const struct sizes_point *point = &g_array_index(lines[l].points, struct sizes_point, i);
            least = fmin(least, point->size_bytes);
            most = fmax(most, point->size_bytes);
            slowest = fmin(slowest, point->gbs);
            fastest = fmax(fastest, point->gbs);
        }
    svg_scale_log(x, PLOT_EDGE, PLOT_END, least, most, 2);
    svg_scale_log(y, PLOT_TOP + SIZES_HEIGHT, PLOT_TOP, slowest, fastest, 10);
}

static void sizes_draw(const struct sizes_line *line, int number, const struct svg_scale *x, const struct svg_scale *y,
                       GString *out)
{
    char class[16];
    g_snprintf(class, sizeof class, "path c%d", number);
    svg_path_begin(out);
    for (guint i = 0; i < line->points->len; i++) {
        const struct sizes_point *point = &g_array_index(line->points, struct sizes_point, i);
        svg_path_add(out, svg_scale_pixel(x, point->size_bytes), svg_scale_pixel(y, point->gbs));
    }
    svg_path_end(out, class);
    for (guint i = 0; i < line->points->len; i++) {
        const struct sizes_point *point = &g_array_index(line->points, struct sizes_point, i);
        g_autofree char *tip = g_strdup_printf("%s: %.0f bytes, %.4g GB/s", line->phase, point->size_bytes, point->gbs);
        svg_dot(out, svg_scale_pixel(x, point->size_bytes), svg_scale_pixel(y, point->gbs), 3, class + strlen("path "),
                tip);
    }
}

void report_plot_sizes(const struct report_case *c, GString *out)
{
    struct sizes_line lines[PLOT_COLOURS];
    const char *names[PLOT_COLOURS];
    const int count = sizes_gather(c->series[0].record, lines);
    if (count > 0) {
        struct svg_scale x, y;
        const double bottom = PLOT_TOP + SIZES_HEIGHT;
        sizes_scales_set(lines, count, &x, &y);
        report_figures_begin(out, "Bandwidth by size",
                             "Where a line rises, each message costs its time; where it is flat, its bytes do.");
        report_figure_begin(out, NULL, bottom + PLOT_AXIS, "Lines: bandwidth by size");
        svg_axis_left(out, &y, PLOT_EDGE, PLOT_END, "GB/s");
        svg_axis_below_bytes(out, &x, PLOT_TOP, bottom);
        for (int l = 0; l < count; l++) {
            sizes_draw(&lines[l], l, &x, &y, out);
            names[l] = lines[l].phase;
        }
        report_figure_end(out);
        report_figures_end(out);
        report_legend_names(names, (guint)count, out);
    }
    for (int l = 0; l < count; l++) g_array_free(lines[l].points, TRUE);
}
