/* sweep_text.c - a sweep's results for people: the best points, and fronts of SMs against time.
 * Knows columns; reads no file. */
#include "models/predict/sweep.h"

#include <math.h>
#include <string.h>

#include "reports/compare.h"
#include "reports/text_table.h"
#include "sim/text.h"

enum { FRONTS_SHOWN = 8 };

/* Whether a column of the results has figures that points can be ranked by. */
static bool is_figure(const char *metric)
{
    static const char *const others[] = { "phase", "phases", "bottleneck", "problem", NULL };
    return !g_strv_contains(others, metric) && (g_strv_contains(sweep_metric_columns(false), metric) ||
                                                g_strv_contains(sweep_metric_columns(true), metric));
}

bool sweep_goal_parse(const char *text, struct sweep_goal *goal, GError **error)
{
    const char *dot = strrchr(text, '.');
    *goal = (struct sweep_goal){ 0 };
    if (!dot || dot == text || !dot[1])
        return error_input(
            error, "--best: expected PHASE.METRIC, as in combine.slowest_us or dispatch+combine.slowest_us, found '%s'",
            text);
    const char *metric = dot + 1;
    if (!is_figure(metric))
        return error_input(error, "--best: expected a metric that is a column of the results, found '%s'", metric);
    g_autofree char *phases = g_strndup(text, (gsize)(dot - text));
    if (strchr(phases, '+') && !strstr(metric, "_us"))
        return error_input(error, "--best: expected one phase, or a time, which adds up over phases; found '%s'", text);
    goal->phase = text_added(phases);
    if (!goal->phase) return error_input(error, "--best: expected different phases joined by +, found '%s'", phases);
    goal->metric = g_strdup(metric);
    static const char *const more[] = { "_gbs", "_per_s", "efficiency", "speedup", "hidden" };
    for (size_t i = 0; i < G_N_ELEMENTS(more); i++) goal->more_is_better |= strstr(metric, more[i]) != NULL;
    return true;
}

void sweep_goal_clear(struct sweep_goal *goal)
{
    g_strfreev(goal->phase);
    g_free(goal->metric);
    *goal = (struct sweep_goal){ 0 };
}

/* Further columns of the table for steps. */
static const struct {
    const char *title, *column;
    int decimals;
} step_shown[] = { { "tokens/s, GPU", "tokens_per_s_gpu", 0 },
                   { "wire %", "wire_pct", 1 },
                   { "waiting %", "waiting_pct", 1 },
                   { "hidden %", "hidden_pct", 1 } };

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
    g_string_append(format, "rr");
    for (size_t i = 0; sweep_results_of_steps(results) && i < G_N_ELEMENTS(step_shown); i++) {
        g_ptr_array_add(titles, (gpointer)step_shown[i].title);
        g_string_append_c(format, 'r');
    }
    g_ptr_array_add(titles, (gpointer) "bound by");
    g_string_append_c(format, 'l');
    return text_table_new(format->str, (const char *const *)titles->pdata);
}

char *sweep_figure_text(double figure) { return g_strdup_printf(fabs(figure) < 1e5 ? "%.5g" : "%.0f", figure); }

static void point_cells(const struct sweep_results *results, const struct sweep_ranked *point,
                        const struct sweep_goal *goal, struct text_table *table)
{
    char *const *row = point->row;
    for (uint32_t i = 0; i < results->names; i++) text_table_cell(table, "%s", row[1 + i]);
    g_autofree char *figure = sweep_figure_text(goal->more_is_better ? -point->value : point->value);
    text_table_cell(table, "%s", figure);
    g_autofree char *speedup = compare_speedup_text(point->speedup);
    text_table_cell(table, "%s", speedup);
    for (size_t i = 0; sweep_results_of_steps(results) && i < G_N_ELEMENTS(step_shown); i++)
        text_table_cell(table, "%.*f", step_shown[i].decimals,
                        sweep_cell_number(row, sweep_results_column(results, step_shown[i].column)));
    const double busy = sweep_cell_number(row, sweep_results_column(results, "bottleneck_busy_pct"));
    const char *bound = row[sweep_results_column(results, "bottleneck")];
    if (isfinite(busy) && !compare_limit_waits(&(struct compare_limit){ .resource = bound }))
        text_table_cell(table, "%s, %.0f %% busy", bound, busy);
    else text_table_cell(table, "%s", bound);
}

/* Appends the front of the points that have the values `work`, of all names but the settings of a launch.  A point is
 * on the front if every better point has more SMs.  Points are sorted by SMs. */
static void front_append(const struct sweep_results *results, const GArray *list, const bool *beside, const char *work,
                         const struct sweep_goal *goal, GString *out)
{
    const int sms = sweep_results_column(results, "num-sms");
    g_autoptr(GArray) front = g_array_new(FALSE, FALSE, sizeof(struct sweep_ranked));
    double fewest = INFINITY;
    for (guint i = 0; i < list->len; i++) { /* the best first */
        const struct sweep_ranked *point = &g_array_index(list, struct sweep_ranked, i);
        g_autofree char *own = sweep_values_text(results, point->row, beside);
        const double count = sweep_cell_number(point->row, sms);
        if (strcmp(own, work) != 0 || !(count < fewest)) continue;
        fewest = count;
        g_array_append_val(front, *point);
    }
    g_string_append_printf(out,
                           "\n"
                           "Pareto front of SMs and time%s%s:\n",
                           *work ? ", " : "", work);
    g_autoptr(text_table) table = points_table(results, goal);
    for (guint i = front->len; i > 0; i--)
        point_cells(results, &g_array_index(front, struct sweep_ranked, i - 1), goal, table);
    text_table_append(table, out);
}

static void fronts_append(const struct sweep_results *results, const GArray *list, const struct sweep_goal *goal,
                          GString *out)
{
    if (sweep_results_column(results, "num-sms") < 0) return;
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autofree bool *beside = g_new0(bool, results->names + 1);
    for (uint32_t i = 0; i < results->names; i++) beside[i] = !sweep_name_is_launch(results->column[1 + i]);
    uint32_t more = 0;
    for (guint i = 0; i < list->len; i++) {
        char *work = sweep_values_text(results, g_array_index(list, struct sweep_ranked, i).row, beside);
        if (!g_hash_table_add(seen, work)) continue;
        if (g_hash_table_size(seen) <= FRONTS_SHOWN) front_append(results, list, beside, work, goal, out);
        else more++;
    }
    if (more)
        g_string_append_printf(out,
                               "\n"
                               "(%u more fronts: sweep fewer values, or read the file)\n",
                               more);
}

static void best_append(const struct sweep_results *results, const GArray *list, const struct sweep_goal *goal,
                        uint32_t limit, GString *out)
{
    g_autofree char *work = sweep_names_text(results, true), *settings = sweep_names_text(results, false);
    const bool each = *work && *settings;
    g_autoptr(GArray) shown = sweep_rank_shown(results, list);
    if (each) g_string_append_printf(out, "the best %s for each %s\n\n", settings, work);
    g_autoptr(text_table) table = points_table(results, goal);
    for (guint i = 0; i < MIN(limit, shown->len); i++)
        point_cells(results, &g_array_index(shown, struct sweep_ranked, i), goal, table);
    text_table_append(table, out);
    if (shown->len > limit)
        g_string_append_printf(out, "(the %s %u of %u)\n", *work ? "first" : "best", limit, shown->len);
}

GArray *sweep_points_rank(const struct sweep_results *results, const struct sweep_goal *goal, GError **error)
{
    if (sweep_results_column(results, goal->metric) < 0)
        return error_null(error, "--best: expected a metric that is a column of the results, found '%s'", goal->metric);
    g_autoptr(GArray) list = sweep_rank(results, goal);
    if (list->len) return g_steal_pointer(&list);
    const int problem = sweep_results_column(results, "problem");
    const char *why = results->row->len ? ((char **)g_ptr_array_index(results->row, 0))[problem] : "";
    if (*why) return error_null(error, "expected a point that can be predicted, found none: %s", why);
    g_autofree char *phases = g_strjoinv("+", goal->phase);
    return error_null(error, "--best: expected a point with a number in %s.%s, found none", phases, goal->metric);
}

static void left_append(GString *out, uint64_t points, const char *why)
{
    if (points)
        g_string_append_printf(out, "(%" G_GUINT64_FORMAT " point%s %s)\n", points, points == 1 ? "" : "s", why);
}

void sweep_left_append(const struct sweep_results *results, guint shown, GString *out)
{
    const int problem = sweep_results_column(results, "problem");
    const uint64_t points = sweep_results_points(results);
    uint64_t impossible = 0;
    for (guint i = 0; i < results->row->len; i++) /* of a point that cannot be there is one row */
        impossible += *((char **)g_ptr_array_index(results->row, i))[problem] != '\0';
    left_append(out, impossible, "impossible: column 'problem' says why");
    left_append(out, points > impossible + shown ? points - impossible - shown : 0, "without a value for --best");
    left_append(out, results->points > points ? results->points - points : 0,
                "not in the file: the sweep has not finished");
}

bool sweep_text_append(const struct sweep_results *results, const struct sweep_goal *goal, uint32_t limit, GString *out,
                       GError **error)
{
    g_autoptr(GArray) list = sweep_points_rank(results, goal, error);
    if (!list) return false;
    best_append(results, list, goal, limit, out);
    sweep_left_append(results, list->len, out);
    fronts_append(results, list, goal, out);
    return true;
}
