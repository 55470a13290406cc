/* report_sizes.c - the plot of bandwidths by size, which records of measure hold: METRIC_gbs_BYTES.
 *
 * One line an operation; sizes are logarithmic, bandwidths linear.  Knows nothing of the page around. */
#include "reports/report.h"

#include <math.h>
#include <string.h>

#include "reports/svg.h"

enum {
    SIZES_WIDTH = 900,
    SIZES_LEFT = 60,
    SIZES_RIGHT = 860,
    SIZES_TOP = 10,
    SIZES_BOTTOM = 270,
    SIZES_LINES_MAX = 8, /* as many as there are colours */
};

struct sizes_line {
    const char *phase;
    GArray *points; /* struct sizes_point, ascending */
};

struct sizes_point {
    double size_bytes, gbs;
};

struct sizes_scale {
    double from, to;      /* decades of bytes */
    struct svg_scale gbs; /* upwards */
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

/* The lines of the first phases that have any; crowds (_xN) come after those who were alone.  Returns how many. */
static int sizes_gather(const struct record *record, struct sizes_line lines[SIZES_LINES_MAX])
{
    int count = 0;
    GPtrArray *phases = compare_phases(record);
    for (int crowds = 0; crowds < 2; crowds++)
        for (guint p = 0; p < phases->len && count < SIZES_LINES_MAX; p++) {
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
    g_ptr_array_free(phases, TRUE);
    return count;
}

static void sizes_scale_set(struct sizes_scale *scale, const struct sizes_line *lines, int count)
{
    double least = INFINITY, most = 0, gbs_max = 0;
    for (int l = 0; l < count; l++)
        for (guint i = 0; i < lines[l].points->len; i++) {
            const struct sizes_point *point = &g_array_index(lines[l].points, struct sizes_point, i);
            least = fmin(least, point->size_bytes);
            most = fmax(most, point->size_bytes);
            gbs_max = fmax(gbs_max, point->gbs);
        }
    scale->from = log10(least);
    scale->to = fmax(log10(most), scale->from + 0.1);
    svg_scale_set(&scale->gbs, SIZES_BOTTOM, SIZES_TOP, gbs_max, 5);
}

static double sizes_x(const struct sizes_scale *scale, double size_bytes)
{
    return SIZES_LEFT + (log10(size_bytes) - scale->from) / (scale->to - scale->from) * (SIZES_RIGHT - SIZES_LEFT);
}

static void sizes_frame(const struct sizes_scale *scale, GString *out)
{
    for (double size = 1; size <= 1e15; size *= 4) {
        const double decade = log10(size);
        if (decade < scale->from - 1e-9 || decade > scale->to + 1e-9) continue;
        char *text = g_format_size_full((guint64)size, G_FORMAT_SIZE_IEC_UNITS);
        svg_line(out, sizes_x(scale, size), SIZES_TOP, sizes_x(scale, size), SIZES_BOTTOM, "grid", NULL);
        svg_text(out, sizes_x(scale, size), SIZES_BOTTOM + 16, "small", "middle", text);
        g_free(text);
    }
    for (int i = 0; i * scale->gbs.tick <= scale->gbs.value_to * 1.001; i++) {
        const double y = svg_scale_pixel(&scale->gbs, i * scale->gbs.tick);
        char text[32];
        g_snprintf(text, sizeof text, "%.6g", i * scale->gbs.tick);
        svg_line(out, SIZES_LEFT, y, SIZES_RIGHT, y, i ? "grid" : "axis", NULL);
        svg_text(out, SIZES_LEFT - 8, y + 4, "small", "end", text);
    }
    svg_text(out, SIZES_LEFT + 6, SIZES_TOP + 12, "small strong", "start", "GB/s");
}

static void sizes_draw(const struct sizes_scale *scale, const struct sizes_line *line, int number, GString *out)
{
    char class[8];
    g_snprintf(class, sizeof class, "c%d", number);
    for (guint i = 0; i < line->points->len; i++) {
        const struct sizes_point *point = &g_array_index(line->points, struct sizes_point, i);
        const double x = sizes_x(scale, point->size_bytes), y = svg_scale_pixel(&scale->gbs, point->gbs);
        char *tip = g_strdup_printf("%s: %.0f bytes, %.4g GB/s", line->phase, point->size_bytes, point->gbs);
        if (i + 1 < line->points->len)
            svg_line(out, x, y, sizes_x(scale, point[1].size_bytes), svg_scale_pixel(&scale->gbs, point[1].gbs), class,
                     NULL);
        svg_dot(out, x, y, 3.5, class, tip);
        g_free(tip);
    }
}

void report_plot_sizes(const struct report_case *c, GString *out)
{
    struct sizes_line lines[SIZES_LINES_MAX];
    const int count = sizes_gather(c->series[0].record, lines);
    if (count > 0) {
        struct sizes_scale scale;
        sizes_scale_set(&scale, lines, count);
        g_string_append(out, "<h3>Bandwidth by size</h3>\n<p class=\"legend\">");
        for (int l = 0; l < count; l++) {
            g_string_append_printf(out, "<span class=\"key c%d\"></span>", l);
            svg_escape_append(out, lines[l].phase);
            g_string_append_c(out, ' ');
        }
        g_string_append(out, "</p>\n");
        svg_begin(out, SIZES_WIDTH, SIZES_BOTTOM + 26, "Lines: bandwidth by size");
        sizes_frame(&scale, out);
        for (int l = 0; l < count; l++) sizes_draw(&scale, &lines[l], l, out);
        svg_end(out);
    }
    for (int l = 0; l < count; l++) g_array_free(lines[l].points, TRUE);
}
