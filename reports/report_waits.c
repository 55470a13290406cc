/* report_waits.c - which ranks wait for which: maps of rank by rank (predicted, measured, and their ratio), and the
 * ranks that others wait for longest.
 *
 * They are drawn from rows "waits_us", a list for each rank.  Knows nothing of the page around them.  Colours go from
 * light green to dark red.  They differ in lightness, too, so that colour-blind readers can tell them apart.  Every
 * cell shows its numbers as a tip. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>
#include "reports/wait_matrix.h"

enum {
    CELLS_MAX = 64, /* the most cells on a side; if there are more ranks, several share a cell */
    HEAT_SIZE = 330,
    HEAT_SHADES = 8,   /* classes h0 to h7 */
    RATIO_SHADES = 9,  /* classes r0 to r8; r4: a ratio near 1 */
    WAITED_MAX = 10,   /* how many of the ranks that others wait for longest are listed */
    SCALE_HEIGHT = 46, /* height of the scale of colours below a map */
};

static const double ratio_limit[RATIO_SHADES - 1] = { 0.25, 0.5, 0.71, 0.9, 1.11, 1.41, 2, 4 };

/* How far a ratio is from 1, in either direction. */
static double ratio_distance(double ratio) { return ratio > 0 ? fabs(log(ratio)) : 0; }

/* The worst value of the ranks that share a cell: the longest wait, or the ratio furthest from 1. */
static double cell_value(const struct wait_matrix *m, guint row, guint column, guint step, bool ratio)
{
    double worst = NAN;
    for (guint r = row * step; r < MIN((row + 1) * step, m->ranks); r++)
        for (guint c = column * step; m->us[r] && c < MIN((column + 1) * step, m->ranks); c++) {
            const double value = m->us[r][c];
            if (isnan(worst) || (ratio ? ratio_distance(value) > ratio_distance(worst) : value > worst)) worst = value;
        }
    return worst;
}

/* The matrix of measured over predicted waits, where both are long enough for a ratio. */
static struct wait_matrix matrix_ratio(const struct wait_matrix *predicted, const struct wait_matrix *measured)
{
    struct wait_matrix m = { predicted->ranks, g_new0(double *, predicted->ranks) };
    const double least = fmax(wait_matrix_most_us(predicted), wait_matrix_most_us(measured)) * 0.001;
    for (guint rank = 0; rank < m.ranks; rank++) {
        if (!predicted->us[rank] || !measured->us[rank]) continue;
        m.us[rank] = g_new(double, m.ranks);
        for (guint peer = 0; peer < m.ranks; peer++) {
            const double p = predicted->us[rank][peer], q = measured->us[rank][peer];
            m.us[rank][peer] = isfinite(p) && isfinite(q) && p > least && q > least ? q / p : NAN;
        }
    }
    return m;
}

/* ---- a map ---- */

static int shade_of(double value, double most, bool ratio)
{
    int shade = 0;
    if (!ratio) return value > 0 ? (int)CLAMP(value / most * HEAT_SHADES, 0, HEAT_SHADES - 1) : 0;
    while (shade < RATIO_SHADES - 1 && value >= ratio_limit[shade]) shade++;
    return shade;
}

static void cells_draw(const struct wait_matrix *m, double most, bool ratio, GString *out)
{
    const guint step = (m->ranks + CELLS_MAX - 1) / CELLS_MAX, side = (m->ranks + step - 1) / step;
    g_string_append_printf(out, "<g class=\"heat\" transform=\"translate(%d %d) scale(%.4f)\">\n", PLOT_EDGE, PLOT_TOP,
                           (double)HEAT_SIZE / side);
    for (guint row = 0; row < side; row++)
        for (guint column = 0; column < side; column++) {
            const double value = cell_value(m, row, column, step, ratio);
            char number[32];
            if (isnan(value)) continue;
            svg_number_text(number, sizeof number, value, 3);
            g_string_append_printf(out, "<rect x=\"%u\" y=\"%u\" class=\"%c%d\"><title>%u for %u: %s</title></rect>",
                                   column, row, ratio ? 'r' : 'h', shade_of(value, most, ratio), row * step,
                                   column * step, number);
        }
    g_string_append(out, "</g>\n");
}

/* Writes the numbers of ranks to the left of the map and below it. */
static void ranks_draw(const struct wait_matrix *m, GString *out)
{
    struct svg_scale scale;
    svg_scale_count(&scale, 0, 1, m->ranks - 1, 8);
    const double cell = (double)HEAT_SIZE / m->ranks;
    for (int i = 0; i < scale.tick_count; i++) {
        char text[16];
        g_snprintf(text, sizeof text, "%.0f", scale.tick[i]);
        const double at = (scale.tick[i] + 0.5) * cell;
        svg_text(out, PLOT_EDGE - 6, PLOT_TOP + at + 4, "small", "end", text);
        svg_text(out, PLOT_EDGE + at, PLOT_TOP + HEAT_SIZE + 15, "small", "middle", text);
    }
    svg_text(out, 0, PLOT_TOP - 11, "small", "start", "waiting rank");
    svg_text(out, PLOT_EDGE + HEAT_SIZE / 2.0, PLOT_TOP + HEAT_SIZE + 31, "small", "middle", "rank that it waits for");
}

static void shades_draw(double most, bool ratio, double y, GString *out)
{
    const int count = ratio ? RATIO_SHADES : HEAT_SHADES;
    const double width = (double)HEAT_SIZE / count;
    struct svg_texts texts = { 0 };
    if (!ratio) { /* a scale of times ends in the largest time and its unit */
        char number[32];
        svg_number_text(number, sizeof number, most, 3);
        g_autofree char *text = g_strconcat(number, " us", NULL);
        svg_text_apart(out, &texts, PLOT_WIDTH, y + 24, "end", text);
    }
    for (int i = 0; i < count; i++) {
        char class[8], text[32];
        g_snprintf(class, sizeof class, "%c%d", ratio ? 'r' : 'h', i);
        svg_rect(out, PLOT_EDGE + i * width, y, width, 10, class, NULL);
        if (!ratio && i % 2) continue;
        if (ratio && i == 0) continue;
        const double value = ratio ? ratio_limit[i - 1] : most * i / count;
        svg_number_text(text, sizeof text, value, 3);
        svg_text_apart(out, &texts, PLOT_EDGE + i * width, y + 24, "middle", text);
    }
}

static void map_draw(const struct wait_matrix *m, const char *caption, double most, bool ratio, GString *out)
{
    const double bottom = PLOT_TOP + HEAT_SIZE + PLOT_AXIS;
    report_figure_begin(out, caption, bottom + SCALE_HEIGHT - 14,
                        ratio ? "Map: waits of the one over those of the other" : "Map: who waits for whom");
    cells_draw(m, most, ratio, out);
    ranks_draw(m, out);
    shades_draw(most, ratio, bottom + 2, out);
    report_figure_end(out);
}

/* ---- ranks that others wait for ---- */

struct waited {
    guint rank;
    double mean_us;
};

static gint waited_order(gconstpointer a, gconstpointer b)
{
    const struct waited *x = a, *y = b;
    if (x->mean_us != y->mean_us) return x->mean_us > y->mean_us ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* Lists how long each rank is waited for, longest first: the mean over the ranks that wait for it. */
static GArray *waited_find(const struct wait_matrix *m)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(struct waited));
    g_autofree double *mean_us = g_new(double, m->ranks);
    wait_matrix_awaited(m, 0, mean_us);
    for (guint peer = 0; peer < m->ranks; peer++) {
        const struct waited w = { peer, mean_us[peer] };
        if (!isnan(w.mean_us)) g_array_append_val(list, w);
    }
    g_array_sort(list, waited_order);
    return list;
}

static void waited_draw(const struct wait_matrix *m, const char *caption, const char *class, GString *out)
{
    g_autoptr(GArray) list = waited_find(m);
    const guint count = MIN(list->len, WAITED_MAX);
    if (!count) return;
    const struct report_bars bars = report_bars_begin(out, caption, "Bars: ranks that are waited for", "us", count, 1,
                                                      g_array_index(list, struct waited, 0).mean_us);
    for (guint i = 0; i < count; i++) {
        const struct waited *w = &g_array_index(list, struct waited, i);
        g_autofree char *name = g_strdup_printf("rank %u", w->rank);
        report_bar(out, &bars, i, 0, name, w->mean_us, "us", class, NULL);
    }
    report_figure_end(out);
}

static void waits_phase(const struct report_case *c, const char *phase, GString *out)
{
    struct wait_matrix m[2] = { { 0, NULL }, { 0, NULL } };
    double most = 0;
    for (int s = 0; s < c->series_count; s++)
        if (wait_matrix_read(c->series[s].record, phase, &m[s])) most = fmax(most, wait_matrix_most_us(&m[s]));
    for (int s = 0; s < c->series_count && most > 0; s++) {
        g_autofree char *caption = g_strdup_printf("%s, %s", phase, c->series[s].name);
        if (m[s].ranks) map_draw(&m[s], caption, most, false, out);
    }
    if (most > 0 && m[0].ranks && m[0].ranks == m[1].ranks) {
        g_autofree char *caption = g_strdup_printf("%s, %s / %s", phase, c->series[1].name, c->series[0].name);
        struct wait_matrix ratio = matrix_ratio(&m[0], &m[1]);
        map_draw(&ratio, caption, 0, true, out);
        wait_matrix_clear(&ratio);
    }
    for (int s = 0; s < c->series_count && most > 0; s++) {
        g_autofree char *caption = g_strdup_printf("%s, %s: waited for the longest", phase, c->series[s].name);
        if (m[s].ranks) waited_draw(&m[s], caption, report_series_class(&c->series[s]), out);
    }
    for (int s = 0; s < 2; s++) wait_matrix_clear(&m[s]);
}

/* The phases that have a row "waits_us" of a rank. */
static GPtrArray *waits_phases(const struct report_case *c)
{
    GPtrArray *phases = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (int s = 0; s < c->series_count; s++)
        for (uint32_t i = 0; i < record_row_count(c->series[s].record); i++) {
            const struct record_row *row = record_row(c->series[s].record, i);
            if (row->rank >= 0 && strcmp(row->metric, "waits_us") == 0 && phases->len < PLOT_PHASES_MAX &&
                g_hash_table_add(seen, row->phase))
                g_ptr_array_add(phases, row->phase);
        }
    return phases;
}

void report_plot_waits(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = waits_phases(c);
    if (!phases->len) return;
    g_string_append(out, "<h3>Who waits for whom</h3>\n"
                         "<p class=\"note\">Each row is a rank, each column a rank that it waits for; the colour is "
                         "the mean waiting time of a worker that waited for it. A dark column is a rank that keeps "
                         "others waiting; a dark row is one that gets everything late. The diagonal is a rank's own "
                         "work. Ratios of very short waits have no colour.</p>\n");
    for (guint p = 0; p < phases->len; p++) {
        report_figures_begin_many(out, NULL, NULL);
        waits_phase(c, g_ptr_array_index(phases, p), out);
        report_figures_end(out);
    }
}
