/* report_machine.c - the machine that a case's prediction is for, with the parts that bound it marked.
 *
 * The caller supplies the drawing.  This file knows the words of records, but no cluster. */
#include "reports/report_plot.h"

#include <string.h>

static const char *row_text(const struct record *record, const char *phase, const char *metric)
{
    const struct record_row *row = record_find(record, phase, RECORD_ALL, metric);
    return row ? record_row_text(row) : NULL;
}

/* Adds the name to the marks if it is new and on the drawing.  Returns whether it is on the drawing. */
static bool mark_add(GPtrArray *marks, const struct drawing *drawing, const char *name)
{
    if (!name || !drawing_has(drawing, name)) return false;
    if (!g_ptr_array_find_with_equal_func(marks, name, g_str_equal, NULL)) g_ptr_array_add(marks, (gpointer)name);
    return true;
}

/* Marks what bounds a phase, and returns its name: the busiest resource (for links, the link itself) or, if none is
 * busy for half of the time, the part with the longest bound.  A latency is not a part: it is returned, but not
 * marked. */
static const char *phase_mark(const struct record *record, const char *phase, GPtrArray *marks,
                              const struct drawing *drawing)
{
    const char *const names[] = { row_text(record, phase, "bottleneck"), row_text(record, phase, "bound_tightest") };
    for (int i = 0; i < 2; i++) {
        const char *name = g_strcmp0(names[i], "link") == 0 ? row_text(record, phase, "busiest_link") : names[i];
        if (g_strcmp0(name, "latency") != 0 && mark_add(marks, drawing, name)) return name;
    }
    return "latency";
}

/* Finds the marks, and the words "dispatch: NIC of rank 0, sending, 97 % busy; combine: latency." */
static void marks_find(const struct record *record, const struct drawing *drawing, GPtrArray *marks, GString *words)
{
    g_autoptr(GPtrArray) phases = compare_phases(record);
    for (guint p = 0; p < MIN(phases->len, (guint)PLOT_PHASES_MAX); p++) {
        const char *phase = g_ptr_array_index(phases, p);
        if (compare_phase_of_layer(phase) || !record_find(record, phase, RECORD_ALL, "bottleneck")) continue;
        const char *mark = phase_mark(record, phase, marks, drawing);
        struct compare_limit limit;
        compare_limit_find(record, phase, &limit);
        const bool waits = strcmp(limit.resource, "latency") == 0 || strcmp(limit.part, limit.resource) == 0;
        g_autofree char *named = waits ? g_strdup(mark) : compare_limit_text(&limit);
        g_string_append_printf(words, "%s%s: %s", words->len ? "; " : "Marked is what bounds each phase. ", phase,
                               named);
    }
    if (words->len) g_string_append_c(words, '.');
}

static void machine_draw(const struct report_case *c, const struct report_series *series,
                         const struct report_machines *machines, GString *out)
{
    const struct record *record = series->record;
    g_autoptr(drawing) drawing = machines ? machines->draw(machines->context, record) : NULL;
    if (!drawing) return;
    g_autoptr(GPtrArray) marks = g_ptr_array_new();
    g_autoptr(GString) words = g_string_new(NULL);
    marks_find(record, drawing, marks, words);
    g_ptr_array_add(marks, NULL);
    if (report_explaining(c) == 1) g_string_append(out, "<h3>The machine</h3>\n");
    else g_string_append_printf(out, "<h3>The machine of the %s</h3>\n", series->name);
    if (words->len) svg_escape_within(out, "<p class=\"note\">", words->str, "</p>\n");
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
