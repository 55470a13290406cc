/* sweep_compare.c - the values of one swept name next to each other, for each combination of the others.
 *
 * Knows columns; reads no file. */
#include "models/predict/sweep.h"

#include <math.h>
#include <string.h>

#include "reports/compare.h"
#include "reports/text_table.h"

enum { COMPARED_MAX = 16 };

/* A comparison: the values of a name and, for each combination of the other names, a point for each value. */
struct side_by_side {
    const struct sweep_results *results;
    const struct sweep_goal *goal;
    uint32_t name;     /* its index among the names */
    GPtrArray *values; /* char *, in their order in the plan */
    GPtrArray *combos; /* struct sweep_ranked *[values]; NULL if that point is impossible */
};

int sweep_compare_column(const struct sweep_results *results, const char *name, GError **error)
{
    const char *of_case = case_option_find(name), *of_step = step_option_find(name);
    for (uint32_t i = 0; i < results->names; i++)
        if (strcmp(results->column[1 + i], of_case ? of_case : of_step ? of_step : name) == 0) return 1 + (int)i;
    g_autoptr(GString) swept = g_string_new(NULL);
    for (uint32_t i = 0; i < results->names; i++)
        g_string_append_printf(swept, "%s%s", i ? ", " : "", results->column[1 + i]);
    error_input(error, "--compare: expected a name that is swept (%s), found '%s'",
                swept->len ? swept->str : "there is none", name);
    return -1;
}

/* The cells of a combination's first possible point. */
static char *const *cells_of(const struct side_by_side *s, guint combo)
{
    const struct sweep_ranked *const *at = g_ptr_array_index(s->combos, combo);
    while (!*at) at++; /* a combination has at least one point */
    return (*at)->row;
}

static char *others_of(const struct side_by_side *s, char *const *cell)
{
    GString *key = g_string_new(NULL);
    for (uint32_t i = 0; i < s->results->names; i++)
        if (i != s->name) g_string_append_printf(key, "%s,", cell[1 + i]);
    return g_string_free(key, FALSE);
}

static bool values_gather(struct side_by_side *s, const GArray *points, GError **error)
{
    for (guint i = 0; i < points->len && s->values->len <= COMPARED_MAX; i++) {
        char *const *cell = g_array_index(points, struct sweep_ranked, i).row;
        if (!g_ptr_array_find_with_equal_func(s->values, cell[1 + s->name], g_str_equal, NULL))
            g_ptr_array_add(s->values, cell[1 + s->name]);
    }
    if (s->values->len <= COMPARED_MAX) return true;
    return error_input(error, "--compare: expected at most %d values of %s, found more", COMPARED_MAX,
                       s->results->column[1 + s->name]);
}

static void combos_gather(struct side_by_side *s, const GArray *points)
{
    g_autoptr(GHashTable) places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < points->len; i++) {
        const struct sweep_ranked *point = &g_array_index(points, struct sweep_ranked, i);
        char *const *cell = point->row, *key = others_of(s, cell);
        const struct sweep_ranked **combo = g_hash_table_lookup(places, key);
        guint value = 0;
        if (!combo) {
            combo = g_new0(const struct sweep_ranked *, s->values->len);
            g_ptr_array_add(s->combos, combo);
            g_hash_table_insert(places, key, combo);
        } else {
            g_free((char *)key);
        }
        g_ptr_array_find_with_equal_func(s->values, cell[1 + s->name], g_str_equal, &value);
        combo[value] = point;
    }
}

static double figure_of(const struct side_by_side *s, const struct sweep_ranked *point)
{
    return s->goal->more_is_better ? -point->value : point->value;
}

/* Adds the cell of a value's figure, compared with the first value's: "175.1, 3.46 times faster". */
static void figure_cell(const struct side_by_side *s, const struct sweep_ranked *const *combo, guint value,
                        struct text_table *table)
{
    if (!combo[value]) {
        text_table_cell(table, "-");
        return;
    }
    const double own = figure_of(s, combo[value]), first = combo[0] ? figure_of(s, combo[0]) : NAN;
    const bool time = strstr(s->goal->metric, "_us") != NULL;
    const struct compare_row row = { .unit = time ? "us" : "", .predicted = first, .measured = own };
    g_autofree char *change = compare_change_text(&row);
    g_autofree char *figure = sweep_figure_text(own);
    if (value == 0 || !isfinite(first)) text_table_cell(table, "%s", figure);
    else text_table_cell(table, "%s, %s", figure, change);
}

/* Adds the cell of the longest phase's bottleneck: once if it is equal for all values, else one for each value. */
static void bound_cell(const struct side_by_side *s, const struct sweep_ranked *const *combo, struct text_table *table)
{
    const int bottleneck = sweep_results_column(s->results, "bottleneck");
    g_autoptr(GString) text = g_string_new(NULL);
    const char *first = NULL;
    bool moved = false;
    for (guint v = 0; v < s->values->len; v++) {
        const char *bound = combo[v] ? combo[v]->row[bottleneck] : "-";
        g_string_append_printf(text, "%s%s", v ? " / " : "", bound);
        moved |= first && strcmp(first, bound) != 0;
        if (!first) first = bound;
    }
    text_table_cell(table, "%s", moved ? text->str : first);
}

static struct text_table *table_begin(const struct side_by_side *s)
{
    g_autoptr(GPtrArray) titles = g_ptr_array_new();
    g_autoptr(GString) format = g_string_new(NULL);
    for (uint32_t i = 0; i < s->results->names; i++)
        if (i != s->name) g_ptr_array_add(titles, s->results->column[1 + i]);
    for (guint v = 0; v < s->values->len; v++) g_ptr_array_add(titles, g_ptr_array_index(s->values, v));
    for (guint i = 0; i < titles->len; i++) g_string_append_c(format, 'r');
    g_ptr_array_add(titles, (gpointer) "bound by");
    g_string_append_c(format, 'l');
    return text_table_new(format->str, (const char *const *)titles->pdata);
}

static void rows_append(const struct side_by_side *s, uint32_t limit, GString *out)
{
    g_autofree char *phases = g_strjoinv("+", s->goal->phase);
    g_string_append_printf(out, "%s.%s by %s, the others against %s\n\n", phases, s->goal->metric,
                           s->results->column[1 + s->name], (char *)g_ptr_array_index(s->values, 0));
    g_autoptr(text_table) table = table_begin(s);
    for (guint i = 0; i < MIN(limit, s->combos->len); i++) {
        const struct sweep_ranked *const *combo = g_ptr_array_index(s->combos, i);
        char *const *cell = cells_of(s, i);
        for (uint32_t k = 0; k < s->results->names; k++)
            if (k != s->name) text_table_cell(table, "%s", cell[1 + k]);
        for (guint v = 0; v < s->values->len; v++) figure_cell(s, combo, v, table);
        bound_cell(s, combo, table);
    }
    text_table_append(table, out);
    if (s->combos->len > limit) g_string_append_printf(out, "(the first %u of %u)\n", limit, s->combos->len);
}

/* ---- gains along the other name ---- */

enum { BAR_COLUMNS = 20 };

/* By how many percent a value's figure is better than the first value's; NAN if either point is impossible. */
static double gain_pct(const struct side_by_side *s, const struct sweep_ranked *const *combo, guint value)
{
    if (!combo[0] || !combo[value]) return NAN;
    const double first = figure_of(s, combo[0]), own = figure_of(s, combo[value]);
    return 100 * ((s->goal->more_is_better ? own / first : first / own) - 1);
}

/* The index of the only other name, if its values are numbers that rise from combination to combination; else -1. */
static int along_find(const struct side_by_side *s)
{
    if (s->results->names != 2 || s->combos->len < 2) return -1;
    const int along = s->name == 0 ? 1 : 0;
    double before = -INFINITY;
    for (guint i = 0; i < s->combos->len; i++) {
        const double number = sweep_cell_number(cells_of(s, i), 1 + along);
        if (!(number > before)) return -1;
        before = number;
    }
    return along;
}

static const char *along_value(const struct side_by_side *s, guint combo, int along)
{
    return cells_of(s, combo)[1 + along];
}

/* Whether a gain in percent counts as a gain.  The table calls smaller differences "the same". */
static bool pays(double gain) { return gain >= 0.5; }

/* Appends where the value is better than the first one: "schedule stages is better than sequential from batch 128 on".
 * If the gain comes or goes more than once, appends at how many values there is a gain. */
static void verdict_append(const struct side_by_side *s, guint value, int along, GString *out)
{
    const char *name = s->results->column[1 + s->name], *other = s->results->column[1 + along];
    const char *own = s->values->pdata[value], *first = s->values->pdata[0];
    int changes = 0, turn = 0, better = 0, known = 0;
    for (guint i = 0, paid = 0; i < s->combos->len; i++) {
        const double gain = gain_pct(s, s->combos->pdata[i], value);
        if (isnan(gain)) continue;
        if (known++ && pays(gain) != paid) changes++, turn = (int)i;
        paid = pays(gain);
        better += paid;
    }
    g_string_append_printf(out, "%s %s is ", name, own);
    if (known == 0) g_string_append_printf(out, "nowhere to be held against %s.\n", first);
    else if (better == 0) g_string_append_printf(out, "nowhere better than %s here.\n", first);
    else if (better == known) g_string_append_printf(out, "better than %s everywhere here.\n", first);
    else if (changes == 1)
        g_string_append_printf(out, "%s than %s from %s %s on, of those here.\n",
                               pays(gain_pct(s, s->combos->pdata[turn], value)) ? "better" : "no better", first, other,
                               along_value(s, (guint)turn, along));
    else g_string_append_printf(out, "better than %s at %d of %d values of %s.\n", first, better, known, other);
}

/* Adds a cell with a bar: of a gain to the right of '|', of a loss to the left. */
static void bar_cell(struct text_table *table, double gain, double most)
{
    const int length = most > 0 && isfinite(gain) ? (int)lround(BAR_COLUMNS * fabs(gain) / most) : 0;
    g_autofree char *bar = g_strnfill((gsize)length, '#');
    text_table_cell(table, "%*s|%s", BAR_COLUMNS, gain < 0 ? bar : "", gain < 0 ? "" : bar);
}

static double gain_most(const struct side_by_side *s)
{
    double most = 0;
    for (guint v = 1; v < s->values->len; v++)
        for (guint i = 0; i < s->combos->len; i++) most = fmax(most, fabs(gain_pct(s, s->combos->pdata[i], v)));
    return most; /* fmax() ignores NAN */
}

/* Appends the gain of each value over the first one, drawn along the only other name, and where it becomes a gain. */
static void gains_append(const struct side_by_side *s, GString *out)
{
    const int along = along_find(s);
    for (guint v = 1; along >= 0 && v < s->values->len; v++) {
        g_autofree char *title = g_strdup_printf("gain of %s, %%", (char *)s->values->pdata[v]);
        const char *const titles[] = { s->results->column[1 + along], title, "" };
        g_autoptr(text_table) table = text_table_new("rrl", titles);
        for (guint i = 0; i < s->combos->len; i++) {
            const double gain = gain_pct(s, s->combos->pdata[i], v);
            text_table_cell(table, "%s", along_value(s, i, along));
            text_table_cell(table, isnan(gain) ? "-" : "%+.1f", gain);
            bar_cell(table, gain, gain_most(s));
        }
        g_string_append_c(out, '\n');
        text_table_append(table, out);
    }
    if (along >= 0) g_string_append_c(out, '\n');
    for (guint v = 1; along >= 0 && v < s->values->len; v++) verdict_append(s, v, along, out);
}

bool sweep_compare_append(const struct sweep_results *results, const struct sweep_goal *goal, const char *name,
                          uint32_t limit, GString *out, GError **error)
{
    const int column = sweep_compare_column(results, name, error);
    g_autoptr(GArray) points = column < 0 ? NULL : sweep_points_rank(results, goal, error);
    if (!points) return false;
    g_array_sort(points, sweep_number_order);
    struct side_by_side s = { .results = results,
                              .goal = goal,
                              .name = (uint32_t)column - 1,
                              .values = g_ptr_array_new(),
                              .combos = g_ptr_array_new_with_free_func(g_free) };
    const bool good = values_gather(&s, points, error);
    if (good) {
        combos_gather(&s, points);
        rows_append(&s, limit, out);
        gains_append(&s, out);
        sweep_left_append(results, points->len, out);
    }
    g_ptr_array_unref(s.values);
    g_ptr_array_unref(s.combos);
    return good;
}
