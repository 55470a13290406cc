/* sweep_rank.c - ranks points of a sweep; see sweep_rank.h.  Knows columns; reads no file. */
#include "reports/sweep_rank.h"

#include <math.h>
#include <string.h>

#include "reports/record.h"

bool sweep_name_is_launch(const char *name)
{
    return strcmp(name, "num-sms") == 0 || g_str_has_suffix(name, "-chunk") || g_str_has_suffix(name, "-buffer");
}

/* For each swept name, whether it describes the work.  Freed by the caller. */
static bool *names_work(const struct sweep_results *results)
{
    static const char work_line[] = "# " RECORD_WORK_KEYS ": ";
    bool *of = g_new0(bool, results->names + 1);
    g_auto(GStrv) line = g_strsplit(results->header, "\n", 0);
    for (char **l = line; *l; l++) {
        if (!g_str_has_prefix(*l, work_line)) continue;
        g_auto(GStrv) work = g_strsplit(*l + strlen(work_line), " ", -1);
        for (uint32_t i = 0; i < results->names; i++)
            of[i] = g_strv_contains((const char *const *)work, results->column[1 + i]);
    }
    return of;
}

char *sweep_names_text(const struct sweep_results *results, bool work)
{
    g_autofree bool *of = names_work(results);
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < results->names; i++)
        if (of[i] == work) g_string_append_printf(text, "%s%s", text->len ? ", " : "", results->column[1 + i]);
    return g_string_free(text, FALSE);
}

char *sweep_values_text(const struct sweep_results *results, char *const *row, const bool *of)
{
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < results->names; i++)
        if (of[i]) g_string_append_printf(text, "%s%s %s", text->len ? ", " : "", results->column[1 + i], row[1 + i]);
    return g_string_free(text, FALSE);
}

/* The point of these rows.  Its value, the sum over the goal's phases, is NAN if a phase has no figure. */
static struct sweep_ranked ranked_of(const struct sweep_results *results, const GPtrArray *rows,
                                     const struct sweep_goal *goal)
{
    const int phase = sweep_results_column(results, "phase"), time = sweep_results_column(results, "slowest_us");
    const int speedup = sweep_results_column(results, "speedup"), metric = sweep_results_column(results, goal->metric);
    struct sweep_ranked point = { .row = g_ptr_array_index(rows, 0) };
    double own_us = 0, base_us = 0, longest_us = -1;
    for (char **p = goal->phase; *p; p++) {
        double found = NAN;
        for (guint i = 0; i < rows->len; i++) {
            char *const *cell = g_ptr_array_index(rows, i);
            if (strcmp(cell[phase], *p) != 0) continue;
            const double us = sweep_cell_number(cell, time);
            found = sweep_cell_number(cell, metric);
            own_us += us;
            base_us += us * sweep_cell_number(cell, speedup);
            if (!(us > longest_us)) continue;
            longest_us = us;
            point.row = cell;
        }
        point.value += found;
    }
    if (goal->more_is_better) point.value = -point.value;
    point.speedup = own_us > 0 ? base_us / own_us : NAN;
    point.number = (uint64_t)sweep_cell_number(point.row, 0);
    return point;
}

static gint ranked_order(gconstpointer a, gconstpointer b)
{
    const struct sweep_ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return sweep_number_order(a, b);
}

GArray *sweep_rank(const struct sweep_results *results, const struct sweep_goal *goal)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(struct sweep_ranked));
    for (guint i = 0; i < results->row->len; i++) {
        const GPtrArray *rows = sweep_results_point(results, i);
        const struct sweep_ranked point = rows ? ranked_of(results, rows, goal) : (struct sweep_ranked){ .value = NAN };
        if (isfinite(point.value)) g_array_append_val(list, point);
    }
    g_array_sort(list, ranked_order);
    return list;
}

gint sweep_number_order(gconstpointer a, gconstpointer b)
{
    const struct sweep_ranked *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

GArray *sweep_rank_shown(const struct sweep_results *results, const GArray *ranked)
{
    g_autofree bool *work = names_work(results);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    bool any_work = false, any_setting = false;
    for (uint32_t i = 0; i < results->names; i++) *(work[i] ? &any_work : &any_setting) = true;
    GArray *shown = g_array_new(FALSE, FALSE, sizeof(struct sweep_ranked));
    for (guint i = 0; i < ranked->len; i++) {
        const struct sweep_ranked *point = &g_array_index(ranked, struct sweep_ranked, i);
        if (!any_work || !any_setting || g_hash_table_add(seen, sweep_values_text(results, point->row, work)))
            g_array_append_val(shown, *point);
    }
    if (any_work) g_array_sort(shown, sweep_number_order);
    return shown;
}
