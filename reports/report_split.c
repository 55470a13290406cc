/* report_split.c - bars that split the time of communication kernels into parts, by phase and by layer.  They are drawn
 * from rows "split_PART_us", as `eptwin explain-trace` writes them.  Knows nothing of the page around them. */
#include "reports/report_plot.h"

#include <string.h>

enum { PARTS = 6 };
static const char *const parts[PARTS] = { "wire", "waiting", "contention", "imbalance", "launch", "unknown" };

struct split_bar {
    char *name;
    double us[PARTS];
};

static void bar_clear(gpointer bar) { g_free(((struct split_bar *)bar)->name); }

static struct split_bar *bar_find(GArray *bars, const char *name)
{
    for (guint i = 0; i < bars->len; i++)
        if (strcmp(g_array_index(bars, struct split_bar, i).name, name) == 0)
            return &g_array_index(bars, struct split_bar, i);
    const struct split_bar bar = { .name = g_strdup(name) };
    g_array_append_val(bars, bar);
    return &g_array_index(bars, struct split_bar, bars->len - 1);
}

/* The index of the part whose time the row has, or -1. */
static int part_of(const struct record_row *row)
{
    if (row->rank != RECORD_ALL || !g_str_has_prefix(row->metric, "split_")) return -1;
    for (int p = 0; p < PARTS; p++)
        if (strncmp(row->metric + 6, parts[p], strlen(parts[p])) == 0) return p;
    return -1;
}

/* The bars: one for each layer, summed over phases, if by_layer; else one for each phase. */
static GArray *bars_new(const struct record *record, bool by_layer)
{
    GArray *bars = g_array_new(FALSE, TRUE, sizeof(struct split_bar));
    g_array_set_clear_func(bars, bar_clear);
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        const char *layer = strstr(row->phase, "_layer");
        const int part = part_of(row);
        if (part < 0 || (layer != NULL) != by_layer || bars->len == PLOT_PHASES_MAX) continue;
        g_autofree char *name = by_layer ? g_strdup_printf("layer %s", layer + 6) : g_strdup(row->phase);
        bar_find(bars, name)->us[part] += row->value;
    }
    return bars;
}

static double bar_sum(const struct split_bar *bar)
{
    double sum = 0;
    for (int p = 0; p < PARTS; p++) sum += bar->us[p];
    return sum;
}

static void bar_draw(const struct split_bar *bar, const struct report_bars *bars, guint index, GString *out)
{
    double from = 0;
    const double y = report_bar(out, bars, index, 0, bar->name, bar_sum(bar) / 1e3, "ms", "busy", NULL);
    for (int p = 0; p < PARTS; p++) {
        if (!(bar->us[p] > 0)) continue;
        const double x = svg_scale_pixel(&bars->scale, from / 1e3);
        const double end = svg_scale_pixel(&bars->scale, (from + bar->us[p]) / 1e3);
        g_autofree char *tip = g_strdup_printf("%s: %s %.2f ms, %.0f %%", bar->name, parts[p], bar->us[p] / 1e3,
                                               bar->us[p] / bar_sum(bar) * 100);
        g_autofree char *class = g_strdup_printf("c%d", p);
        svg_rect(out, x, y, MAX(end - x, 0.5), PLOT_BAR, class, tip);
        from += bar->us[p];
    }
}

static void bars_figure(const GArray *bars, const char *caption, GString *out)
{
    double most = 0;
    for (guint i = 0; i < bars->len; i++) most = MAX(most, bar_sum(&g_array_index(bars, struct split_bar, i)));
    const struct report_bars figure =
        report_bars_begin(out, caption, "Bars: time by what it went to", "ms", bars->len, 1, most / 1e3);
    for (guint i = 0; i < bars->len; i++) bar_draw(&g_array_index(bars, struct split_bar, i), &figure, i, out);
    report_figure_end(out);
}

void report_plot_split(const struct report_case *c, GString *out)
{
    const struct record *record = c->series[c->series_count - 1].record;
    g_autoptr(GArray) phases = bars_new(record, false), layers = bars_new(record, true);
    if (!phases->len) return;
    report_figures_begin(out, "Where the time of communication kernels went",
                         "Over all recorded ranks and calls. Wire is predicted; the unexplained rest is unknown.");
    bars_figure(phases, "By phase", out);
    if (layers->len) bars_figure(layers, "By layer, in order", out);
    report_figures_end(out);
    report_legend_names(parts, PARTS, out);
}
