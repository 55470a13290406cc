/* sweep_text.c - a sweep's results for people: the best points, and fronts of SMs against time.
 * Knows columns; reads no file. */
#include "models/predict/sweep.h"

#include <math.h>
#include <string.h>

#include "reports/record.h"
#include "reports/text_table.h"

enum { FRONTS_SHOWN = 8 };

bool sweep_goal_parse(const char *text, struct sweep_goal *goal, GError **error)
{
    const char *dot = strrchr(text, '.');
    *goal = (struct sweep_goal){ 0 };
    if (!dot || dot == text || !dot[1]) {
        g_set_error(error, SWEEP_ERROR, SWEEP_ERROR_INPUT,
                    "--best: expected PHASE.METRIC, as in combine.time_us or "
                    "dispatch+combine.time_us, found '%s'",
                    text);
        return false;
    }
    g_autofree char *phases = g_strndup(text, (gsize)(dot - text));
    goal->phase = g_strsplit(phases, "+", 0);
    goal->metric = g_strdup(dot + 1);
    goal->more_is_better = strstr(goal->metric, "_gbs") || strstr(goal->metric, "efficiency");
    return true;
}

void sweep_goal_clear(struct sweep_goal *goal)
{
    g_strfreev(goal->phase);
    g_free(goal->metric);
    *goal = (struct sweep_goal){ 0 };
}

static double cell_value(char *const *cell, int column)
{
    double value;
    return record_number_parse(cell[column], &value) ? value : NAN;
}

double sweep_goal_value(const struct sweep_results *results, const GPtrArray *rows, const struct sweep_goal *goal)
{
    const int metric = sweep_results_column(results, goal->metric), phase = sweep_results_column(results, "phase");
    const bool sums = strstr(goal->metric, "time_us") != NULL;
    double value = 0;
    for (char **p = goal->phase; *p; p++) {
        double found = NAN;
        for (guint i = 0; i < rows->len; i++) {
            char *const *cell = g_ptr_array_index(rows, i);
            if (strcmp(cell[phase], *p) == 0) found = cell_value(cell, metric);
        }
        value = sums ? value + found : found;
    }
    return value;
}

/* A point with its figure. */
struct ranked {
    const GPtrArray *rows;
    double value, speedup;
    uint64_t number;
};

static gint ranked_order(gconstpointer a, gconstpointer b)
{
    const struct ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The point's baseline over the point, by the goal; NAN where there is none. */
static double goal_speedup(const struct sweep_results *results, const GPtrArray *rows, const struct sweep_goal *goal)
{
    const int phase = sweep_results_column(results, "phase"), time = sweep_results_column(results, "time_us");
    const int speedup = sweep_results_column(results, "speedup");
    double own = 0, base = 0;
    for (char **p = goal->phase; *p; p++)
        for (guint i = 0; i < rows->len; i++) {
            char *const *cell = g_ptr_array_index(rows, i);
            if (strcmp(cell[phase], *p) != 0) continue;
            own += cell_value(cell, time);
            base += cell_value(cell, time) * cell_value(cell, speedup);
        }
    return own > 0 ? base / own : NAN;
}

/* All points that have a figure, the best first. */
static GArray *points_rank(const struct sweep_results *results, const struct sweep_goal *goal)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(struct ranked));
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < results->row->len; i++) {
        char **cell = g_ptr_array_index(results->row, i);
        g_autoptr(GString) key = g_string_new(NULL);
        for (uint32_t k = 0; k < results->names; k++) g_string_append_printf(key, "%s,", cell[1 + k]);
        const GPtrArray *rows = g_hash_table_lookup(results->points_of, key->str);
        if (!g_hash_table_add(seen, (gpointer)rows)) continue;
        struct ranked point = { .rows = rows,
                                .value = sweep_goal_value(results, rows, goal),
                                .speedup = goal_speedup(results, rows, goal),
                                .number = (uint64_t)cell_value(cell, 0) };
        if (!isfinite(point.value)) continue;
        if (goal->more_is_better) point.value = -point.value;
        g_array_append_val(list, point);
    }
    g_array_sort(list, ranked_order);
    return list;
}

/* The row of the goal's longest phase. */
static char *const *longest_row(const struct sweep_results *results, const GPtrArray *rows,
                                const struct sweep_goal *goal)
{
    const int phase = sweep_results_column(results, "phase"), time = sweep_results_column(results, "time_us");
    char *const *longest = g_ptr_array_index(rows, 0);
    double most = -1;
    for (guint i = 0; i < rows->len; i++) {
        char *const *cell = g_ptr_array_index(rows, i);
        const double us = cell_value(cell, time);
        if (!g_strv_contains((const char *const *)goal->phase, cell[phase]) || !(us > most)) continue;
        most = us;
        longest = cell;
    }
    return longest;
}

static struct text_table *points_table(const struct sweep_results *results, const struct sweep_goal *goal)
{
    g_autoptr(GPtrArray) titles = g_ptr_array_new();
    g_autoptr(GString) format = g_string_new(NULL);
    for (uint32_t i = 0; i < results->names; i++) {
        g_ptr_array_add(titles, results->column[1 + i]);
        g_string_append_c(format, 'r');
    }
    g_autofree char *phases = g_strjoinv("+", goal->phase);
    g_autofree char *title = g_strdup_printf("%s.%s", phases, goal->metric);
    g_ptr_array_add(titles, title);
    g_ptr_array_add(titles, (gpointer) "against baseline");
    g_ptr_array_add(titles, (gpointer) "bound by");
    g_string_append(format, "rrl");
    struct text_table *table = text_table_new(format->str, (const char *const *)titles->pdata);
    return table;
}

static void speedup_cell(struct text_table *table, double ratio)
{
    if (!isfinite(ratio)) text_table_cell(table, "-");
    else if (fabs(ratio - 1) < 0.0005) text_table_cell(table, "the same");
    else text_table_cell(table, "%.2f x %s", ratio > 1 ? ratio : 1 / ratio, ratio > 1 ? "faster" : "slower");
}

static void point_cells(const struct sweep_results *results, const struct ranked *point, const struct sweep_goal *goal,
                        struct text_table *table)
{
    char *const *cell = g_ptr_array_index(point->rows, 0);
    for (uint32_t i = 0; i < results->names; i++) text_table_cell(table, "%s", cell[1 + i]);
    text_table_cell(table, "%.5g", goal->more_is_better ? -point->value : point->value);
    speedup_cell(table, point->speedup);
    char *const *longest = longest_row(results, point->rows, goal);
    const double busy = cell_value(longest, sweep_results_column(results, "bottleneck_busy_pct"));
    const char *bound = longest[sweep_results_column(results, "bottleneck")];
    if (isfinite(busy) && strcmp(bound, "latency") != 0) text_table_cell(table, "%s, %.0f %% busy", bound, busy);
    else text_table_cell(table, "%s", bound);
}

/* What the kernels are told, as against what they work on. */
static bool is_launch(const char *name)
{
    return strcmp(name, "num-sms") == 0 || g_str_has_suffix(name, "-chunk") || g_str_has_suffix(name, "-buffer");
}

static char *work_of(const struct sweep_results *results, const GPtrArray *rows)
{
    char *const *cell = g_ptr_array_index(rows, 0);
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < results->names; i++)
        if (!is_launch(results->column[1 + i]))
            g_string_append_printf(text, "%s%s %s", text->len ? ", " : "", results->column[1 + i], cell[1 + i]);
    return g_string_free(text, FALSE);
}

/* For one kind of work the points that no other beats with as few SMs: by fewer SMs, each better than all before. */
static void front_append(const struct sweep_results *results, const GArray *list, const char *work,
                         const struct sweep_goal *goal, GString *out)
{
    const int sms = sweep_results_column(results, "num-sms");
    g_autoptr(GArray) front = g_array_new(FALSE, FALSE, sizeof(struct ranked));
    double fewest = INFINITY;
    for (guint i = 0; i < list->len; i++) { /* the best first */
        const struct ranked *point = &g_array_index(list, struct ranked, i);
        g_autofree char *own = work_of(results, point->rows);
        const double count = cell_value(g_ptr_array_index(point->rows, 0), sms);
        if (strcmp(own, work) != 0 || !(count < fewest)) continue;
        fewest = count;
        g_array_append_val(front, *point);
    }
    g_string_append_printf(out, "\nfewer SMs against time%s%s: nothing beats these\n", *work ? ", " : "", work);
    struct text_table *table = points_table(results, goal);
    for (guint i = front->len; i > 0; i--)
        point_cells(results, &g_array_index(front, struct ranked, i - 1), goal, table);
    text_table_append(table, out);
    text_table_free(table);
}

static void fronts_append(const struct sweep_results *results, const GArray *list, const struct sweep_goal *goal,
                          GString *out)
{
    if (sweep_results_column(results, "num-sms") < 0) return;
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    uint32_t more = 0;
    for (guint i = 0; i < list->len; i++) {
        char *work = work_of(results, g_array_index(list, struct ranked, i).rows);
        if (g_hash_table_contains(seen, work)) {
            g_free(work);
            continue;
        }
        if (g_hash_table_size(seen) < FRONTS_SHOWN) front_append(results, list, work, goal, out);
        else more++;
        g_hash_table_add(seen, work);
    }
    if (more) g_string_append_printf(out, "\n(%u more fronts: sweep less at a time, or read the file)\n", more);
}

bool sweep_text_append(const struct sweep_results *results, const struct sweep_goal *goal, uint32_t limit, GString *out,
                       GError **error)
{
    if (sweep_results_column(results, goal->metric) < 0) {
        g_set_error(error, SWEEP_ERROR, SWEEP_ERROR_INPUT,
                    "--best: expected a metric that is a column of the results, "
                    "found '%s'",
                    goal->metric);
        return false;
    }
    GArray *list = points_rank(results, goal);
    const uint64_t points = sweep_results_points(results);
    if (!list->len) {
        const int problem = sweep_results_column(results, "problem");
        const char *why = results->row->len ? ((char **)g_ptr_array_index(results->row, 0))[problem] : "";
        g_set_error(error, SWEEP_ERROR, SWEEP_ERROR_INPUT, "expected a point with the phases of --best, found none%s%s",
                    *why ? ": " : "", why);
        g_array_unref(list);
        return false;
    }
    struct text_table *table = points_table(results, goal);
    for (guint i = 0; i < MIN(limit, list->len); i++)
        point_cells(results, &g_array_index(list, struct ranked, i), goal, table);
    text_table_append(table, out);
    text_table_free(table);
    if (list->len > limit) g_string_append_printf(out, "(the best %u of %u)\n", limit, list->len);
    if (points > list->len)
        g_string_append_printf(out, "(%" G_GUINT64_FORMAT " points cannot be: column 'problem' says why)\n",
                               points - list->len);
    fronts_append(results, list, goal, out);
    g_array_unref(list);
    return true;
}
