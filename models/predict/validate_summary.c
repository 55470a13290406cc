/* validate_summary.c - how far predictions are off: the distribution of the error over groups of rows.
 * Knows rows and numbers; knows no simulation. */
#include "models/predict/validate.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "reports/text_table.h"
#include "sim/stats.h"

struct group {
    char *name;    /* "128", "dispatch" */
    GArray *error; /* double: error_pct of its rows */
};

static void group_free(gpointer data)
{
    struct group *group = data;
    g_free(group->name);
    g_array_free(group->error, TRUE);
    g_free(group);
}

/* The group with this name, which is made if it does not exist.  named: the groups by their names. */
static struct group *group_find(GPtrArray *groups, GHashTable *named, const char *name)
{
    struct group *group = g_hash_table_lookup(named, name);
    if (group) return group;
    group = g_new(struct group, 1);
    *group = (struct group){ .name = g_strdup(name), .error = g_array_new(FALSE, FALSE, sizeof(double)) };
    g_ptr_array_add(groups, group);
    g_hash_table_insert(named, group->name, group);
    return group;
}

/* Orders numbers by value, then words alphabetically. */
static gint group_compare(gconstpointer a, gconstpointer b)
{
    const struct group *one = *(struct group *const *)a, *other = *(struct group *const *)b;
    char *end_one, *end_other;
    const double left = g_ascii_strtod(one->name, &end_one), right = g_ascii_strtod(other->name, &end_other);
    const bool number_one = *one->name && !*end_one, number_other = *other->name && !*end_other;
    if (number_one && number_other && left != right) return left < right ? -1 : 1;
    if (number_one != number_other) return number_one ? -1 : 1;
    return strcmp(one->name, other->name);
}

static void group_row_append(struct text_table *table, const char *by, const struct group *group)
{
    const size_t count = group->error->len;
    const double *signed_error = (const double *)(void *)group->error->data;
    g_autofree double *size = g_new(double, count + 1);
    double worst = 0;
    assert(count > 0); /* a group is made for its first row */
    for (size_t i = 0; i < count; i++) {
        size[i] = fabs(signed_error[i]);
        if (size[i] >= fabs(worst)) worst = signed_error[i];
    }
    text_table_cell(table, "%s", by);
    text_table_cell(table, "%s", group->name);
    text_table_cell(table, "%zu", count);
    text_table_cell(table, "%.1f", stats_median(size, count));
    text_table_cell(table, "%.1f", stats_percentile(size, count, 90));
    text_table_cell(table, "%+.1f", worst);
    text_table_cell(table, "%+.1f", stats_mean(signed_error, count));
}

/* The group of a row for `by`: the cell of that column or, if it has none, the option's value; "-" if the row has
 * neither, or its kernel does not take the option.  Free it. */
static char *row_group_name(const struct validate_table *table, const struct validate_row *row, const char *by)
{
    const int column = validate_column_find(table, by);
    if (column >= 0 && *row->cell[column]) return g_strdup(row->cell[column]);
    const struct case_options resolved = case_resolved(&row->options);
    char *text = NULL;
    for (uint32_t i = 0; case_option_name(i) && !text; i++)
        if (strcmp(case_option_name(i), by) == 0 && case_option_applies(i, resolved.kernel))
            text = case_option_text(&resolved, i);
    return text ? text : g_strdup("-");
}

/* Appends a line for each group of rows by the column or option `by`.  NULL: all rows are one group.  Returns how many
 * groups there are. */
static guint groups_append(const struct validate_table *table, const char *by, struct text_table *out)
{
    g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func(group_free);
    g_autoptr(GHashTable) named = g_hash_table_new(g_str_hash, g_str_equal);
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        if (row->problem || isnan(row->error_pct)) continue;
        g_autofree char *name = by ? row_group_name(table, row, by) : g_strdup("");
        g_array_append_val(group_find(groups, named, name)->error, row->error_pct);
    }
    g_ptr_array_sort(groups, group_compare);
    for (guint i = 0; i < groups->len; i++) group_row_append(out, by ? by : "all", groups->pdata[i]);
    return groups->len;
}

static bool by_is_always(const char *by)
{
    return strcmp(by, "phase") == 0 || strcmp(by, "kernel") == 0 || strcmp(by, "num-tokens") == 0;
}

void validate_summary_append(const struct validate_table *table, char **by, GString *out)
{
    static const char *const titles[] = { "by", "", "cases", "median %", "p90 %", "worst %", "bias %" };
    g_autoptr(text_table) text = text_table_new("llrrrrr", titles);
    if (!groups_append(table, NULL, text)) return;
    groups_append(table, "phase", text);
    groups_append(table, "kernel", text);
    groups_append(table, "num-tokens", text);
    for (; by && *by; by++) {
        const char *option = case_option_find(*by), *name = option ? option : *by;
        if (!by_is_always(name)) groups_append(table, name, text);
    }
    text_table_append(text, out);
}
