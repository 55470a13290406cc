/* sweep_table.c - reads the file of a sweep into points.  Knows columns; draws nothing. */
#include "reports/sweep_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/record.h"
#include "sim/error.h"

static const char first_line[] = "# kind: sweep\n";

/* The columns that the report reads. */
struct columns {
    guint count;
    int phase, time, speedup, bottleneck, problem;
};

bool sweep_table_told(const char *text) { return g_str_has_prefix(text, first_line); }

static void point_free(gpointer pointer)
{
    struct sweep_point *point = pointer;
    if (!point) return;
    g_strfreev(point->value);
    g_strfreev(point->bottleneck);
    g_free(point->time_us);
    g_free(point->speedup);
    g_free(point);
}

void sweep_table_free(struct sweep_table *table)
{
    if (!table) return;
    g_ptr_array_unref(table->options);
    g_ptr_array_unref(table->names);
    g_ptr_array_unref(table->phases);
    g_ptr_array_unref(table->points);
    g_strfreev(table->work);
    g_free(table->source);
    g_free(table->baseline);
    g_free(table->problem);
    g_free(table);
}

static int place_of(const GPtrArray *words, const char *word)
{
    for (guint i = 0; i < words->len; i++)
        if (strcmp(g_ptr_array_index(words, i), word) == 0) return (int)i;
    return -1;
}

int sweep_table_name(const struct sweep_table *table, const char *name) { return place_of(table->names, name); }
int sweep_table_phase(const struct sweep_table *table, const char *phase) { return place_of(table->phases, phase); }

bool sweep_table_is_work(const struct sweep_table *table, int name)
{
    return g_strv_contains((const char *const *)table->work, g_ptr_array_index(table->names, name));
}

/* ---- reading ---- */

/* Reads the header lines; returns the text after them. */
static const char *header_read(struct sweep_table *table, const char *text)
{
    static const char work_line[] = RECORD_WORK_KEYS ": ";
    for (const char *end; *text == '#' && (end = strchr(text, '\n')); text = end + 1) {
        g_autofree char *line = g_strndup(text, (gsize)(end - text));
        const char *said = line + strspn(line, "# ");
        if (g_str_has_prefix(said, "baseline: ")) {
            g_free(table->baseline);
            table->baseline = g_strdup(said + strlen("baseline: "));
        } else if (g_str_has_prefix(said, work_line)) {
            g_strfreev(table->work);
            table->work = g_strsplit(said + strlen(work_line), " ", -1);
        } else if (!g_str_has_prefix(said, "kind: ") && !g_str_has_prefix(said, "points: ") &&
                   !g_str_has_prefix(said, "input: ")) {
            g_ptr_array_add(table->options, g_strdup(said));
        }
    }
    return text;
}

static bool columns_read(struct sweep_table *table, char **title, struct columns *c, GError **error)
{
    *c = (struct columns){ g_strv_length(title), -1, -1, -1, -1, -1 };
    for (int i = 0; title[i]; i++) {
        if (strcmp(title[i], "phase") == 0) c->phase = i;
        if (strcmp(title[i], "slowest_us") == 0) c->time = i;
        if (strcmp(title[i], "speedup") == 0) c->speedup = i;
        if (strcmp(title[i], "bottleneck") == 0) c->bottleneck = i;
        if (strcmp(title[i], "problem") == 0) c->problem = i;
    }
    if (c->phase > 0 && c->time > 0 && c->speedup > 0 && c->bottleneck > 0 && c->problem > 0 &&
        strcmp(title[0], "point") == 0) {
        for (int i = 1; i < c->phase; i++) g_ptr_array_add(table->names, g_strdup(title[i]));
        return true;
    }
    return error_false(error, RECORD_ERROR, RECORD_ERROR_FORMAT, "%s: expected the columns of a sweep, found others",
                       table->source);
}

static double cell_number(const char *cell)
{
    double value;
    return record_number_parse(cell, &value) ? value : NAN;
}

/* The point of a row: the last one if it has the row's number, else a new one. */
static struct sweep_point *row_point(struct sweep_table *table, char **cell, GHashTable *by_values)
{
    GString *key = g_string_new(NULL);
    for (guint i = 0; i < table->names->len; i++) g_string_append_printf(key, "%s,", cell[1 + i]);
    struct sweep_point *point = g_hash_table_lookup(by_values, key->str);
    if (point) {
        g_string_free(key, TRUE);
        return point;
    }
    point = g_new0(struct sweep_point, 1);
    point->value = g_new0(char *, table->names->len + 1);
    point->bottleneck = g_new0(char *, table->phases->len + 1);
    point->time_us = g_new(double, table->phases->len + 1);
    point->speedup = g_new(double, table->phases->len + 1);
    for (guint i = 0; i < table->names->len; i++) point->value[i] = g_strdup(cell[1 + i]);
    for (guint i = 0; i < table->phases->len; i++) {
        point->bottleneck[i] = g_strdup("");
        point->time_us[i] = point->speedup[i] = NAN;
    }
    g_hash_table_insert(by_values, g_string_free(key, FALSE), point);
    g_ptr_array_add(table->points, point);
    return point;
}

static void row_read(struct sweep_table *table, char **cell, const struct columns *c, GHashTable *by_values)
{
    const int phase = sweep_table_phase(table, cell[c->phase]);
    if (phase < 0) return;
    struct sweep_point *point = row_point(table, cell, by_values);
    point->time_us[phase] = cell_number(cell[c->time]);
    point->speedup[phase] = cell_number(cell[c->speedup]);
    g_free(point->bottleneck[phase]);
    point->bottleneck[phase] = g_strdup(cell[c->bottleneck]);
}

/* Notes the row's phase, or the problem of a point without times. */
static void row_survey(struct sweep_table *table, char **cell, const struct columns *c)
{
    if (!isfinite(cell_number(cell[c->time]))) {
        table->impossible++;
        if (!table->problem) table->problem = g_strdup(cell[c->problem]);
    } else if (sweep_table_phase(table, cell[c->phase]) < 0) {
        g_ptr_array_add(table->phases, g_strdup(cell[c->phase]));
    }
}

/* Reads all rows twice: first the phases, then the points. */
static void rows_read(struct sweep_table *table, char **line, const struct columns *c)
{
    g_autoptr(GHashTable) by_values = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (int pass = 0; pass < 2; pass++)
        for (char **l = line; *l && l[1]; l++) { /* a line without its end was cut */
            g_auto(GStrv) cell = g_strsplit(*l, ",", 0);
            if (g_strv_length(cell) != c->count) continue;
            if (pass == 0) row_survey(table, cell, c);
            else if (isfinite(cell_number(cell[c->time]))) row_read(table, cell, c, by_values);
        }
}

/* Makes text fit for every reader of a page: UTF-8 without control characters. */
static char *text_clean(const char *text)
{
    char *clean = g_utf8_make_valid(text, -1);
    for (char *c = clean; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\n') || *c == 127) *c = ' ';
    return clean;
}

struct sweep_table *sweep_table_parse(const char *source, const char *text, GError **error)
{
    g_autofree char *clean = text_clean(text);
    struct sweep_table *table = g_new0(struct sweep_table, 1);
    *table = (struct sweep_table){
        .source = g_strdup(source),
        .baseline = g_strdup(""),
        .work = g_new0(char *, 1),
        .compare = -1,
        .options = g_ptr_array_new_with_free_func(g_free),
        .names = g_ptr_array_new_with_free_func(g_free),
        .phases = g_ptr_array_new_with_free_func(g_free),
        .points = g_ptr_array_new_with_free_func(point_free),
    };
    g_auto(GStrv) line = g_strsplit(header_read(table, clean), "\n", 0);
    g_auto(GStrv) title = g_strsplit(line[0] ? line[0] : "", ",", 0);
    struct columns columns;
    if (columns_read(table, title, &columns, error)) {
        rows_read(table, line + 1, &columns);
        if (table->points->len) return table;
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_FORMAT, "%s: expected a point with times, found none%s%s", source,
                    table->problem ? ": " : "", table->problem ? table->problem : "");
    }
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
