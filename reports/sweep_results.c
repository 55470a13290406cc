/* sweep_results.c - reads and writes the text of a sweep's file; see sweep_results.h. */
#include "reports/sweep_results.h"

#include <math.h>
#include <string.h>

#include "reports/record.h"

enum { COLUMNS_MAX = 1000 }; /* more columns than all options and metrics together */
static const char kind_line[] = "# kind: sweep";

static void row_free(void *row) { g_strfreev(row); }
static void rows_free(void *rows) { g_ptr_array_unref(rows); }

struct sweep_results *sweep_results_alloc(void)
{
    struct sweep_results *results = g_new0(struct sweep_results, 1);
    results->inputs = g_ptr_array_new_with_free_func(g_free);
    results->row = g_ptr_array_new_with_free_func(row_free);
    results->points_of = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, rows_free);
    return results;
}

void sweep_results_free(struct sweep_results *results)
{
    if (!results) return;
    g_hash_table_unref(results->points_of);
    g_ptr_array_unref(results->row);
    g_ptr_array_unref(results->inputs);
    g_strfreev(results->column);
    g_free(results->header);
    g_free(results->baseline);
    g_free(results);
}

/* The line without its end, which is a line feed or both of a carriage return and a line feed. */
static char *line_of(const char *line, const char *end)
{
    return g_strndup(line, (size_t)(end - line) - (end > line && end[-1] == '\r'));
}

bool sweep_results_told(const char *text)
{
    const char *end = strchr(text, '\n');
    g_autofree char *line = end ? line_of(text, end) : NULL;
    return g_strcmp0(line, kind_line) == 0;
}

/* Searches from the end, because a swept name before the column "phase" may be "phase", too. */
int sweep_results_column(const struct sweep_results *results, const char *name)
{
    for (int i = (int)g_strv_length(results->column) - 1; i >= 0; i--)
        if (strcmp(results->column[i], name) == 0) return i;
    return -1;
}

uint64_t sweep_results_points(const struct sweep_results *results) { return g_hash_table_size(results->points_of); }

double sweep_cell_number(char *const *cell, int column)
{
    double value;
    return column >= 0 && record_number_parse(cell[column], &value) ? value : NAN;
}

const char *sweep_results_ranked_by(const struct sweep_results *results)
{
    const int phase = sweep_results_column(results, "phase"), time = sweep_results_column(results, "slowest_us");
    const char *longest = NULL;
    double longest_us = -1;
    for (guint i = 0; phase >= 0 && i < results->row->len; i++) {
        char *const *row = g_ptr_array_index(results->row, i);
        const double us = sweep_cell_number(row, time);
        if (us >= 0 && (strcmp(row[phase], "layer") == 0 || strcmp(row[phase], "step") == 0)) return row[phase];
        if (!(us > longest_us)) continue;
        longest_us = us;
        longest = row[phase];
    }
    return longest;
}

char *sweep_results_key(const struct sweep_results *results, char *const *cell)
{
    GString *key = g_string_new(NULL);
    for (uint32_t i = 0; i < results->names; i++) g_string_append_printf(key, "%s,", cell[1 + i]);
    return g_string_free(key, FALSE);
}

const GPtrArray *sweep_results_point(const struct sweep_results *results, guint i)
{
    char *const *cell = g_ptr_array_index(results->row, i);
    g_autofree char *key = sweep_results_key(results, cell);
    const GPtrArray *rows = g_hash_table_lookup(results->points_of, key);
    return g_ptr_array_index(rows, 0) == cell ? rows : NULL;
}

void sweep_results_add_row(struct sweep_results *results, char **cell)
{
    char *key = sweep_results_key(results, cell);
    GPtrArray *rows = g_hash_table_lookup(results->points_of, key);
    if (rows) {
        g_free(key);
    } else {
        rows = g_ptr_array_new();
        g_hash_table_insert(results->points_of, key, rows);
    }
    g_ptr_array_add(rows, cell);
    g_ptr_array_add(results->row, cell);
}

/* The cells of a line; NULL if the line lacks some. */
static char **line_cells(const struct sweep_results *results, const char *line, const char *end)
{
    g_autofree char *copy = line_of(line, end);
    g_auto(GStrv) cell = g_strsplit(copy, ",", COLUMNS_MAX);
    double point;
    const bool whole = g_strv_length(cell) == g_strv_length(results->column);
    return whole && record_number_parse(cell[0], &point) && point >= 0 ? g_steal_pointer(&cell) : NULL;
}

/* Whether rows are the same but for the numbers of their points. */
static bool cells_same(char *const *one, char *const *other)
{
    return g_strv_equal((const char *const *)one + 1, (const char *const *)other + 1);
}

/* Whether a point has this very row already, as where a file holds the same rows twice. */
static bool row_known(const struct sweep_results *results, char *const *cell)
{
    g_autofree char *key = sweep_results_key(results, cell);
    const GPtrArray *rows = g_hash_table_lookup(results->points_of, key);
    for (guint i = 0; rows && i < rows->len; i++)
        if (cells_same(g_ptr_array_index(rows, i), cell)) return true;
    return false;
}

uint32_t sweep_results_add_text(struct sweep_results *results, const char *text)
{
    uint32_t left_out = 0;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        g_auto(GStrv) cell = line_cells(results, text, end);
        left_out += !cell;
        if (cell && !row_known(results, cell)) sweep_results_add_row(results, g_steal_pointer(&cell));
    }
    return left_out;
}

uint32_t sweep_results_line(const struct sweep_results *results, const char *text, char *const *cell)
{
    uint32_t number = 1;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1, number++) {
        g_auto(GStrv) found = line_cells(results, text, end);
        if (found && cells_same(found, cell)) break;
    }
    return number;
}

/* ---- text ---- */

static const char input_line[] = "# input: ", points_line[] = "# points: ", baseline_line[] = "# baseline: ";

/* Reads the header: the lines that hold for all points.  Inputs, the number of points and the baseline are kept apart,
 * because another run of the sweep may add to them or change them. */
static const char *header_take(const char *text, struct sweep_results *file)
{
    g_autoptr(GString) header = g_string_new(NULL);
    while (*text == '#') {
        const char *end = strchr(text, '\n');
        if (!end) break;
        g_autofree char *line = line_of(text, end);
        if (g_str_has_prefix(line, points_line)) file->points = g_ascii_strtoull(line + strlen(points_line), NULL, 10);
        else if (g_str_has_prefix(line, input_line)) g_ptr_array_add(file->inputs, g_strdup(line + strlen(input_line)));
        else if (!g_str_has_prefix(line, baseline_line)) g_string_append_printf(header, "%s\n", line);
        else if (!file->baseline) file->baseline = g_strdup(line + strlen(baseline_line));
        text = end + 1;
    }
    file->header = g_strdup(header->str);
    return text;
}

struct sweep_results *sweep_results_parse(const char *text, const char **rows)
{
    struct sweep_results *file = sweep_results_alloc();
    const char *columns = header_take(text, file), *end = strchr(columns, '\n');
    g_autofree char *line = end ? line_of(columns, end) : g_strdup("");
    file->column = g_strsplit(sweep_results_told(text) ? line : "", ",", COLUMNS_MAX);
    const int phase = sweep_results_column(file, "phase");
    if (phase >= 1 && strcmp(file->column[0], "point") == 0) {
        file->names = (uint32_t)phase - 1;
        *rows = end + 1;
        return file;
    }
    sweep_results_free(file);
    return NULL;
}

char *sweep_results_begin(const struct sweep_results *results)
{
    g_autofree char *columns = g_strjoinv(",", results->column);
    GString *text = g_string_new(results->header);
    for (guint i = 0; i < results->inputs->len; i++)
        g_string_append_printf(text, "%s%s\n", input_line, (const char *)g_ptr_array_index(results->inputs, i));
    g_string_append_printf(text, "%s%" G_GUINT64_FORMAT "\n%s%s\n%s\n", points_line, results->points, baseline_line,
                           results->baseline ? results->baseline : "", columns);
    return g_string_free(text, FALSE);
}
