/* report_streams.c - the streams of a few ranks in a step: which kernels run at the same time, and which wait.
 *
 * It is drawn from rows "spans_us" of a step's record.  Such a row belongs to one kernel on one rank.  It has four
 * numbers for each run of the kernel: its stream, its begin, the time at which the last rank began the kernel, and its
 * end.  Knows nothing of the page around it. */
#include "reports/report_plot.h"

#include <math.h>
#include <string.h>

enum { STREAMS = 3, LANE_HEIGHT = 18, LANE_GAP = 4, RANKS_MAX = 6, SPAN_NUMBERS = 4 };
static const char metric[] = "spans_us";

struct streams {
    const struct record *record;
    GPtrArray *kernels; /* char *: names; their index gives the colour */
    GArray *ranks;      /* int32_t */
    double end_us;
    bool used[STREAMS];
};

static void row_survey(struct streams *s, const struct record_row *row)
{
    uint32_t count = 0, r = 0;
    g_autofree double *number = record_row_list(row, &count);
    if (!number || count % SPAN_NUMBERS) return;
    while (r < s->ranks->len && g_array_index(s->ranks, int32_t, r) != row->rank) r++;
    if (r == RANKS_MAX) return;
    if (r == s->ranks->len) g_array_append_val(s->ranks, row->rank);
    if (!g_ptr_array_find_with_equal_func(s->kernels, row->phase, g_str_equal, NULL))
        g_ptr_array_add(s->kernels, row->phase);
    for (uint32_t i = 0; i < count; i += SPAN_NUMBERS) {
        if (number[i] >= 0 && number[i] < STREAMS) s->used[(int)number[i]] = true;
        if (isfinite(number[i + 3])) s->end_us = fmax(s->end_us, number[i + 3]);
    }
}

/* The top of a stream's lane.  Streams without kernels have no lane. */
static double lane_top(const struct streams *s, int stream)
{
    int above = 0;
    for (int i = 0; i < stream; i++) above += s->used[i];
    return PLOT_TOP + above * (LANE_HEIGHT + LANE_GAP);
}

/* Draws one run of a kernel from the SPAN_NUMBERS numbers of span.  The bar is half as high for the time in which the
 * kernel waits. */
static void span_draw(const struct streams *s, const double *span, const char *kernel, guint colour,
                      const struct svg_scale *x, GString *out)
{
    const double begin = span[1], met = CLAMP(span[2], begin, fmax(span[3], begin)), end = span[3];
    if (!(span[0] >= 0 && span[0] < STREAMS) || !(end >= begin)) return;
    const double top = lane_top(s, (int)span[0]);
    char since[32], until[32];
    svg_number_text(since, sizeof since, begin, 5);
    svg_number_text(until, sizeof until, end, 5);
    g_autofree char *tip =
        g_strdup_printf("%s: %s to %s us%s", kernel, since, until, met > begin ? ", waits first" : "");
    g_autofree char *class = report_colour_class(colour);
    const double from = svg_scale_pixel(x, begin), turn = svg_scale_pixel(x, met), to = svg_scale_pixel(x, end);
    if (turn > from) svg_rect(out, from, top + LANE_HEIGHT / 2.0, turn - from, LANE_HEIGHT / 2.0, class, tip);
    svg_rect(out, turn, top, fmax(to - turn, 0.5), LANE_HEIGHT, class, tip);
}

static void rank_draw(const struct streams *s, int32_t rank, const struct svg_scale *x, GString *out)
{
    static const char *const names[STREAMS] = { "main", "comm", "side" };
    const double bottom = lane_top(s, STREAMS) - LANE_GAP;
    g_autofree char *caption = g_strdup_printf("rank %d", rank);
    report_figure_begin(out, caption, bottom + PLOT_AXIS, "Bars: when each kernel ran, by stream");
    svg_axis_below(out, x, PLOT_TOP, bottom, "us");
    for (int i = 0; i < STREAMS; i++)
        if (s->used[i]) svg_text(out, PLOT_EDGE - 4, lane_top(s, i) + LANE_HEIGHT - 5, "small", "end", names[i]);
    for (uint32_t i = 0; i < record_row_count(s->record); i++) {
        const struct record_row *row = record_row(s->record, i);
        uint32_t count = 0;
        guint colour = 0;
        if (row->rank != rank || strcmp(row->metric, metric) != 0) continue;
        g_autofree double *number = record_row_list(row, &count);
        if (!number || count % SPAN_NUMBERS) continue;
        g_ptr_array_find_with_equal_func(s->kernels, row->phase, g_str_equal, &colour);
        for (uint32_t k = 0; k < count; k += SPAN_NUMBERS) span_draw(s, number + k, row->phase, colour, x, out);
    }
    report_figure_end(out);
}

static void record_draw(const struct record *record, GString *out)
{
    struct streams s = { .record = record,
                         .kernels = g_ptr_array_new(),
                         .ranks = g_array_new(FALSE, FALSE, sizeof(int32_t)) };
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        if (row->rank >= 0 && strcmp(row->metric, metric) == 0) row_survey(&s, row);
    }
    if (s.ranks->len && s.end_us > 0) {
        struct svg_scale x;
        svg_scale_count(&x, PLOT_EDGE, PLOT_END, s.end_us, PLOT_TICKS);
        report_figures_begin(out, "Which kernels overlap",
                             "The last two simulated layers on a few ranks, among them the rank that others wait for "
                             "most. While a bar has half its height, the kernel waits for the last rank to start it.");
        for (guint r = 0; r < s.ranks->len; r++) rank_draw(&s, g_array_index(s.ranks, int32_t, r), &x, out);
        report_figures_end(out);
        report_legend_names((const char *const *)s.kernels->pdata, s.kernels->len, out);
    }
    g_ptr_array_unref(s.kernels);
    g_array_unref(s.ranks);
}

void report_plot_streams(const struct report_case *c, GString *out)
{
    for (int i = 0; i < c->series_count; i++) record_draw(c->series[i].record, out);
}
