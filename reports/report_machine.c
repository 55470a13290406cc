/* report_machine.c - the machine of a case's prediction, with marks on what bounds the prediction.
 *
 * The caller supplies the drawing.  This file knows the words of records, but no cluster. */
#include "reports/report_plot.h"

#include <string.h>

static const char *row_text(const struct record *record, const char *phase, const char *metric)
{
    const struct record_row *row = record_find(record, phase, RECORD_ALL, metric);
    return row ? record_row_text(row) : NULL;
}

/* Adds the name to the marks if it is new and on the drawing. */
static void mark_add(GPtrArray *marks, const struct drawing *drawing, const char *name)
{
    if (!name || !drawing_has(drawing, name)) return;
    if (!g_ptr_array_find_with_equal_func(marks, name, g_str_equal, NULL)) g_ptr_array_add(marks, (gpointer)name);
}

/* Marks the kind of part that bounds a phase or, if links bound the phase, the busiest link.  Marks nothing if latency
 * bounds the phase, or if no single part does. */
static void phase_mark(const struct record *record, const char *phase, const struct compare_limit *limit,
                       GPtrArray *marks, const struct drawing *drawing)
{
    const bool link = strcmp(limit->resource, "link") == 0;
    if (!compare_limit_waits(limit))
        mark_add(marks, drawing, link ? row_text(record, phase, "busiest_link") : limit->resource);
}

static void marks_find(const struct record *record, const struct drawing *drawing, GPtrArray *marks)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint p = 0; p < MIN(phases->len, (guint)PLOT_PHASES_MAX); p++) {
        const char *phase = g_ptr_array_index(phases, p);
        if (compare_phase_of_layer(phase) || !record_find(record, phase, RECORD_ALL, "bottleneck")) continue;
        struct compare_limit limit;
        compare_limit_find(record, phase, &limit);
        phase_mark(record, phase, &limit, marks, drawing);
    }
}

static void machine_draw(const struct report_case *c, const struct report_series *series,
                         const struct report_machines *machines, GString *out)
{
    const struct record *record = series->record;
    g_autoptr(drawing) drawing = machines ? machines->draw(machines->context, record) : NULL;
    if (!drawing) return;
    g_autoptr(GPtrArray) marks = g_ptr_array_new();
    marks_find(record, drawing, marks);
    if (report_explaining(c) == 1) g_string_append(out, "<h3>The machine</h3>\n");
    else g_string_append_printf(out, "<h3>The machine of the %s</h3>\n", series->name);
    if (marks->len) g_string_append(out, "<p class=\"note\">The bottleneck of each phase is highlighted.</p>\n");
    g_ptr_array_add(marks, NULL);
    g_string_append(out, "<div class=\"scroll machine-box\" tabindex=\"0\" role=\"region\" aria-label=\"Drawing: ");
    svg_escape_append(out, c->title);
    g_string_append_printf(out, ", %s\">\n", series->name);
    drawing_svg_append(drawing, (const char *const *)marks->pdata, out);
    g_string_append(out, "</div>\n");
}

void report_plot_machine(const struct report_case *c, const struct report_machines *machines, GString *out)
{
    for (int s = 0; s < report_explaining(c); s++) machine_draw(c, &c->series[s], machines, out);
}
