/* report_usage.c - how busy each kind of part was over the time of a phase: small multiples with the same axes. */
#include "reports/report_plot.h"

#include <math.h>

enum { USAGE_HEIGHT = 90, USAGE_PHASES_MAX = 12, USAGE_LEAST_PCT = 2 /* smaller shares make no figure */ };

static const char *const kinds[][2] = {
    { "used_sm", "SMs" },
    { "used_hbm", "GPU memory and L2" },
    { "used_nvlink_egress", "NVLink out" },
    { "used_nvlink_ingress", "NVLink in" },
    { "used_nic_tx", "NICs out" },
    { "used_nic_rx", "NICs in" },
    { "used_link", "links between switches, of PCIe" },
    { "used_core", "cores" },
};

static double share_most(const double *share, uint32_t count)
{
    double most = 0;
    for (uint32_t i = 0; i < count; i++) most = fmax(most, share[i]);
    return most;
}

/* The busy shares in percent of a kind of part, for each interval.  NULL if the part was never busy enough for a
 * figure.  The caller frees them. */
static double *usage_shares(const struct record *record, const char *phase, size_t kind, uint32_t *count)
{
    const struct record_row *row = record_find(record, phase, RECORD_ALL, kinds[kind][0]);
    g_autofree double *share = row ? record_row_list(row, count) : NULL;
    return share && share_most(share, *count) >= USAGE_LEAST_PCT ? g_steal_pointer(&share) : NULL;
}

/* Draws the shares of one kind of part over time.  interval_us > 0. */
static void usage_figure(const struct record *record, const char *phase, size_t kind, double interval_us, uint32_t most,
                         GString *out)
{
    uint32_t count = 0;
    g_autofree double *share = usage_shares(record, phase, kind, &count);
    if (!share) return;
    g_autofree char *caption = g_strdup_printf("%s, %s", phase, kinds[kind][1]);
    struct report_figure f = { caption, "Line: busy share over time", "us", "% busy", USAGE_HEIGHT, .upright = true };
    struct report_line *line = report_line_add(&f, "path predicted");
    for (uint32_t i = 0; i < 2 * count; i++) /* two points for each interval, at the height of its share */
        report_point_add(line, (i + 1) / 2 * interval_us, CLAMP(share[i / 2], 0.0, 100.0), 0, NULL, NULL);
    svg_scale_set(&f.x, PLOT_EDGE, PLOT_END, interval_us * most, PLOT_TICKS);
    svg_scale_set(&f.y, PLOT_TOP + USAGE_HEIGHT, PLOT_TOP, 100, 2);
    report_figure_draw(&f, out);
}

/* The largest number of intervals of a kind of part in the phase; 0: there is nothing to draw. */
static uint32_t usage_most(const struct record *record, const char *phase)
{
    uint32_t most = 0;
    for (size_t kind = 0; kind < G_N_ELEMENTS(kinds); kind++) {
        uint32_t count = 0;
        g_autofree double *share = usage_shares(record, phase, kind, &count);
        if (share) most = MAX(most, count);
    }
    return most;
}

void report_plot_usage(const struct report_case *c, GString *out)
{
    const struct record *record = c->series[0].record;
    g_autoptr(GPtrArray) phases = report_case_phases(c, "used_interval_us", USAGE_PHASES_MAX);
    bool any = false;
    for (guint p = 0; p < phases->len; p++) {
        const char *phase = g_ptr_array_index(phases, p);
        const double interval_us = record_value(record, phase, RECORD_ALL, "used_interval_us");
        const uint32_t most = usage_most(record, phase);
        if (!(interval_us > 0) || !isfinite(interval_us) || !most) continue;
        if (!any)
            report_figures_begin_many(out, "How busy parts were over time",
                                      "The mean over the parts that did anything, from the phase's start until all of "
                                      "its data have arrived. Kinds of parts that are never 2 % busy are left out.");
        any = true;
        for (size_t kind = 0; kind < G_N_ELEMENTS(kinds); kind++)
            usage_figure(record, phase, kind, interval_us, most, out);
    }
    if (any) report_figures_end(out);
}
