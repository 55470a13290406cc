/* report_text.c - the report for a terminal: bars of characters, then the table and words of compare.
 *
 * Writes no escape sequences, so that its output reads equally well in a file. */
#include "reports/report.h"

#include <math.h>

enum { TEXT_PHASES_MAX = 40, NAME_MAX_SHOWN = 40 };

/* Appends a bar that fills a fraction (0 to 1) of `width` characters, exact to an eighth of a character. */
static void text_bar_append(GString *out, double fraction, int width)
{
    static const char *const parts[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    const int eighths = (int)lround(CLAMP(fraction, 0, 1) * width * 8);
    for (int i = 0; i < eighths / 8; i++) g_string_append(out, "█");
    g_string_append(out, parts[eighths % 8]);
    if (eighths == 0) g_string_append(out, parts[1]);
}

/* Appends a name, cut or filled up to `width` characters, so that the bars begin at one column. */
static void text_name_append(GString *out, const char *name, int width)
{
    const glong length = g_utf8_strlen(name, -1);
    g_autofree char *cut = g_utf8_substring(name, 0, MIN(length, width));
    g_string_append(out, cut);
    for (glong i = MIN(length, width); i < width + 1; i++) g_string_append_c(out, ' ');
}

static void text_times(const struct report_case *c, int width, GString *out)
{
    g_autoptr(GPtrArray) phases = report_case_phases(c, "time_us", TEXT_PHASES_MAX);
    double value_max = 0;
    int names = 15;
    for (guint p = 0; p < phases->len; p++) {
        names = MAX(names, (int)MIN(g_utf8_strlen(g_ptr_array_index(phases, p), -1), NAME_MAX_SHOWN));
        for (int s = 0; s < c->series_count; s++)
            value_max = fmax(value_max, report_slowest_us(c->series[s].record, g_ptr_array_index(phases, p)));
    }
    const int bar = MAX(width - (names + 1) - 10 - 14, 10);
    for (guint p = 0; p < phases->len; p++) {
        const char *name = g_ptr_array_index(phases, p); /* before its first bar only */
        for (int s = 0; s < c->series_count; s++) {
            const double value = report_slowest_us(c->series[s].record, g_ptr_array_index(phases, p));
            if (!isfinite(value) || value_max <= 0) continue;
            g_autofree char *text = compare_value_text(value, "us");
            text_name_append(out, name, names);
            name = "";
            text_name_append(out, c->series[s].name, 9);
            text_bar_append(out, value / value_max, bar);
            g_string_append_printf(out, " %s\n", text);
        }
    }
    if (phases->len) g_string_append_c(out, '\n');
}

/* Appends the least, median and largest of sorted times of ranks, in words. */
static void text_samples(const GArray *samples, GString *out)
{
    const struct report_sample *first = &g_array_index(samples, struct report_sample, 0);
    const struct report_sample *last = &first[samples->len - 1];
    g_autofree char *least = compare_value_text(first->value, "us"), *most = compare_value_text(last->value, "us");
    g_autofree char *median = compare_value_text(report_samples_median(samples), "us");
    if (first->value < last->value)
        g_string_append_printf(out, "%u ranks from %s (rank %d) to %s (rank %d), median %s\n", samples->len, least,
                               first->rank, most, last->rank, median);
    else g_string_append_printf(out, "%u ranks, each %s\n", samples->len, least);
}

/* Appends each phase's times over the ranks, in words. */
static void text_ranks(const struct report_case *c, GString *out)
{
    g_autoptr(GPtrArray) phases = report_case_phases(c, "time_us", TEXT_PHASES_MAX);
    bool any = false;
    for (guint p = 0; p < phases->len; p++)
        for (int s = 0; s < c->series_count; s++) {
            const char *phase = g_ptr_array_index(phases, p);
            g_autoptr(GArray) samples = report_samples(c->series[s].record, phase, "time_us");
            if (samples->len > 1) {
                g_string_append_printf(out, "%s, %s: ", phase, c->series[s].name);
                text_samples(samples, out);
                any = true;
            }
        }
    if (any) g_string_append_c(out, '\n');
}

static void text_case(const struct report_case *c, int width, GString *out)
{
    g_string_append_printf(out, "%s\n", c->title);
    for (int s = 0; s < c->series_count; s++)
        g_string_append_printf(out, "%s: %s\n", c->series[s].name, c->series[s].path);
    g_string_append_c(out, '\n');
    const gsize before = out->len;
    if (c->compare) compare_verdict_append(c->compare, out);
    else compare_verdict_alone_append(c->series[0].record, out);
    if (c->compare && !c->title_differs) compare_difference_append(c->compare, out);
    if (out->len > before) g_string_append_c(out, '\n');
    text_times(c, width, out);
    text_ranks(c, out);
    if (c->compare) {
        compare_table_append(c->compare, out);
        g_string_append_c(out, '\n');
        compare_words_append(c->compare, false, out);
        return;
    }
    compare_alone_append(c->series[0].record, false, TEXT_PHASES_MAX, out);
}

GString *report_text(const GPtrArray *cases, int width)
{
    GString *out = g_string_new(NULL);
    for (guint i = 0; i < cases->len; i++) {
        if (i) g_string_append_c(out, '\n');
        text_case(g_ptr_array_index(cases, i), width, out);
    }
    return out;
}
