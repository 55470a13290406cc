/* sweep_table.c - the results of a sweep as points.  Knows columns; draws nothing. */
#include "reports/sweep_table.h"

#include <math.h>
#include <string.h>

#include "reports/record.h"
#include "sim/error.h"
#include "sim/memory.h"

/* The columns that the report reads. */
struct columns {
    int phase, time, problem;
};

static void point_free(gpointer pointer)
{
    struct sweep_point *point = pointer;
    if (point) FREE_ALL(point->time_us, point);
}

void sweep_table_free(struct sweep_table *table)
{
    if (!table) return;
    g_ptr_array_unref(table->options);
    g_ptr_array_unref(table->names);
    g_ptr_array_unref(table->phases);
    g_ptr_array_unref(table->points);
    if (table->file) sweep_results_free(table->file);
    FREE_ALL(table->source, table->problem, table);
}

static int place_of(const GPtrArray *words, const char *word)
{
    for (guint i = 0; i < words->len; i++)
        if (strcmp(g_ptr_array_index(words, i), word) == 0) return (int)i;
    return -1;
}

int sweep_table_name(const struct sweep_table *table, const char *name) { return place_of(table->names, name); }
int sweep_table_phase(const struct sweep_table *table, const char *phase) { return place_of(table->phases, phase); }

/* ---- reading ---- */

static void header_read(struct sweep_table *table)
{
    g_auto(GStrv) line = g_strsplit(table->file->header, "\n", 0);
    for (char **l = line; *l && **l; l++) {
        const char *said = *l + strspn(*l, "# ");
        if (!g_str_has_prefix(said, RECORD_WORK_KEYS ": ") && !g_str_has_prefix(said, "kind: "))
            g_ptr_array_add(table->options, g_strdup(said));
    }
}

static bool columns_find(struct sweep_table *table, struct columns *c)
{
    const struct sweep_results *file = table->file;
    *c = (struct columns){ sweep_results_column(file, "phase"), sweep_results_column(file, "slowest_us"),
                           sweep_results_column(file, "problem") };
    for (uint32_t i = 0; i < file->names; i++) g_ptr_array_add(table->names, file->column[1 + i]);
    return c->time > 0 && sweep_results_column(file, "speedup") > 0 && sweep_results_column(file, "bottleneck") > 0 &&
           c->problem > 0;
}

/* Makes the point of these rows.  NULL if none of the rows has a time. */
static struct sweep_point *point_new(const struct sweep_table *table, const GPtrArray *rows, const struct columns *c)
{
    struct sweep_point *point = g_new0(struct sweep_point, 1);
    bool timed = false;
    point->value = (char *const *)g_ptr_array_index(rows, 0) + 1;
    point->time_us = g_new(double, table->phases->len + 1);
    for (guint i = 0; i < table->phases->len; i++) point->time_us[i] = NAN;
    for (guint r = 0; r < rows->len; r++) {
        char *const *cell = g_ptr_array_index(rows, r);
        const double time_us = sweep_cell_number(cell, c->time);
        const int phase = sweep_table_phase(table, cell[c->phase]);
        if (!isfinite(time_us) || phase < 0) continue;
        timed = true;
        point->time_us[phase] = time_us;
    }
    if (timed) return point;
    point_free(point);
    return NULL;
}

/* Notes the phase of a row with a time.  Counts a row without a time, and keeps the problem of the first such row. */
static void row_survey(struct sweep_table *table, char *const *cell, const struct columns *c)
{
    if (!isfinite(sweep_cell_number(cell, c->time))) {
        table->impossible++;
        if (!table->problem)
            table->problem = *cell[c->problem]
                                 ? g_strdup(cell[c->problem])
                                 : g_strdup_printf("slowest_us: expected a time, found '%s'", cell[c->time]);
    } else if (sweep_table_phase(table, cell[c->phase]) < 0) {
        g_ptr_array_add(table->phases, cell[c->phase]);
    }
}

/* Reads all rows twice: first for the phases, then for the points, in the order of their first rows. */
static void rows_read(struct sweep_table *table, const struct columns *c)
{
    const struct sweep_results *file = table->file;
    for (guint i = 0; i < file->row->len; i++) row_survey(table, g_ptr_array_index(file->row, i), c);
    for (guint i = 0; i < file->row->len; i++) {
        const GPtrArray *rows = sweep_results_point(file, i);
        struct sweep_point *point = rows ? point_new(table, rows, c) : NULL;
        if (point) g_ptr_array_add(table->points, point);
    }
}

/* The text as UTF-8 without control characters, so that any page can show it. */
static char *text_clean(const char *text)
{
    char *clean = g_utf8_make_valid(text, -1);
    for (char *c = clean; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\n' && *c != '\r') || *c == 127) *c = ' ';
    return clean;
}

struct sweep_table *sweep_table_parse(const char *source, const char *text, GError **error)
{
    g_autofree char *clean = text_clean(text);
    struct sweep_table *table = g_new0(struct sweep_table, 1);
    const char *rows;
    struct columns columns;
    *table = (struct sweep_table){
        .source = g_strdup(source),
        .file = sweep_results_parse(clean, &rows),
        .baseline = "",
        .compare = -1,
        .options = g_ptr_array_new_with_free_func(g_free),
        .names = g_ptr_array_new(),
        .phases = g_ptr_array_new(),
        .points = g_ptr_array_new_with_free_func(point_free),
    };
    if (table->file && columns_find(table, &columns)) {
        const uint32_t left_out = sweep_results_add_text(table->file, rows);
        const char *goal = sweep_results_ranked_by(table->file);
        header_read(table);
        if (!left_out) rows_read(table, &columns);
        if (table->file->baseline) table->baseline = table->file->baseline;
        table->goal = goal ? sweep_table_phase(table, goal) : -1;
        if (left_out)
            error_input(error, "%s: expected lines of a point's number and %u more cells, found %u others", source,
                        g_strv_length(table->file->column) - 1, left_out);
        else if (!table->points->len)
            error_input(error, "%s: expected a point with times, found none%s%s", source, table->problem ? ": " : "",
                        table->problem ? table->problem : "");
    } else {
        error_input(error, "%s: expected the columns of a sweep, found others", source);
    }
    if (table->points->len) return table;
    sweep_table_free(table);
    return NULL;
}

/* ---- values ---- */

double sweep_value_number(const char *value)
{
    char *end;
    const double number = g_ascii_strtod(value, &end);
    return end == value || !isfinite(number) ? NAN : number;
}

static const char *value_unit(const char *value)
{
    char *end;
    g_ascii_strtod(value, &end);
    return end;
}

bool sweep_table_numeric(const struct sweep_table *table, int name)
{
    const char *unit = NULL;
    for (guint i = 0; i < table->points->len; i++) {
        const char *value = ((const struct sweep_point *)g_ptr_array_index(table->points, i))->value[name];
        if (isnan(sweep_value_number(value))) return false;
        if (unit && strcmp(unit, value_unit(value)) != 0) return false;
        unit = value_unit(value);
    }
    return true;
}

static gint by_number(gconstpointer a, gconstpointer b)
{
    const double x = sweep_value_number(*(char *const *)a), y = sweep_value_number(*(char *const *)b);
    return x < y ? -1 : x > y;
}

GPtrArray *sweep_table_values(const struct sweep_table *table, int name)
{
    GPtrArray *values = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < table->points->len; i++) {
        char *value = ((const struct sweep_point *)g_ptr_array_index(table->points, i))->value[name];
        if (g_hash_table_add(seen, value)) g_ptr_array_add(values, value);
    }
    if (sweep_table_numeric(table, name)) g_ptr_array_sort(values, by_number);
    return values;
}
