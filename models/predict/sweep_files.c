/* sweep_files.c - the files of a plan: merges complete points of several files, numbers them, adds speedups, and
 * writes them. Knows columns; simulates nothing. */
#include "models/predict/sweep.h"

#include <math.h>
#include <string.h>

#include "reports/record.h"
#include "reports/whole_file.h"
#include "sim/version.h"

static const char *const kernel_columns[] = {
    "phase",
    "phases",
    "time_us",
    "time_us_median",
    "slowest_us",
    "logical_rdma_gbs",
    "logical_nvl_gbs",
    "physical_nic_gbs",
    "physical_nvl_gbs",
    "bottleneck",
    "bottleneck_busy_pct",
    "efficiency_pct",
    "speedup",
    "problem",
    NULL,
};
/* slowest_us is the time until the last rank's end, as the median of the draws; least_us and most_us are the least and
 * the most of the draws. */
static const char *const step_columns[] = {
    "phase",       "phases",     "slowest_us",  "least_us",       "most_us", "tokens_per_s_gpu",
    "compute_pct", "wire_pct",   "waiting_pct", "contention_pct", "sms_pct", "host_pct",
    "hidden_pct",  "bottleneck", "speedup",     "problem",        NULL,
};

const char *const *sweep_metric_columns(bool of_steps) { return of_steps ? step_columns : kernel_columns; }

/* The header: the values that all points share, each a line "# key: value". */
static char *plan_header(const struct sweep_plan *plan)
{
    GString *text = g_string_new("# kind: sweep\n");
    g_string_append_printf(text, "# version: %s\n", eptwin_version());
    for (uint32_t i = 0; case_option_name(i); i++) {
        const char *name = case_option_name(i);
        /* in a step, options that are not given are left out: the net, the phase or --batch may decide them */
        const bool said = !sweep_plan_of_steps(plan) || case_option_given(&plan->base, name);
        g_autofree char *value = said ? case_option_text(&plan->base, i) : NULL;
        if (value && !sweep_plan_find(plan, name)) g_string_append_printf(text, "# %s: %s\n", name, value);
    }
    for (uint32_t i = 0; step_option_name(i); i++) {
        g_autofree char *value = step_option_text(&plan->step, i);
        if (value && !sweep_plan_find(plan, step_option_name(i)))
            g_string_append_printf(text, "# %s: %s\n", step_option_name(i), value);
    }
    g_autoptr(GString) work = g_string_new(NULL);
    for (guint i = 0; i < plan->names->len; i++) {
        const struct sweep_name *name = &g_array_index(plan->names, struct sweep_name, i);
        if (sweep_name_is_work(name->name)) g_string_append_printf(work, " %s", name->name);
    }
    if (work->len) g_string_append_printf(text, "# " RECORD_WORK_KEYS ":%s\n", work->str);
    for (guint i = 0; i < plan->settings->len; i++)
        g_string_append_printf(text, "# set: %s\n", (char *)g_ptr_array_index(plan->settings, i));
    return g_string_free(text, FALSE);
}

struct sweep_results *sweep_results_new(const struct sweep_plan *plan)
{
    struct sweep_results *results = sweep_results_alloc();
    results->header = plan_header(plan);
    char **inputs = sweep_plan_inputs(plan);
    for (char **input = inputs; *input; input++) g_ptr_array_add(results->inputs, *input);
    g_free(inputs);
    results->points = sweep_plan_points(plan);
    results->baseline = sweep_plan_baseline(plan);
    results->names = plan->names->len;
    const char *const *metrics = sweep_metric_columns(sweep_plan_of_steps(plan));
    const uint32_t count = g_strv_length((char **)metrics);
    results->column = g_new0(char *, 1 + results->names + count + 1);
    results->column[0] = g_strdup("point");
    for (uint32_t i = 0; i < results->names; i++)
        results->column[1 + i] = g_strdup(g_array_index(plan->names, struct sweep_name, i).name);
    for (uint32_t i = 0; i < count; i++) results->column[1 + results->names + i] = g_strdup(metrics[i]);
    return results;
}

bool sweep_results_of_steps(const struct sweep_results *results)
{
    return sweep_results_column(results, "tokens_per_s_gpu") > 0;
}

/* The rows of a point; NULL: there are none yet. */
static const GPtrArray *rows_of(const struct sweep_results *results, const struct sweep_plan *plan, uint64_t point)
{
    g_autoptr(GString) key = g_string_new(NULL);
    for (uint32_t i = 0; i < results->names; i++) g_string_append_printf(key, "%s,", sweep_plan_value(plan, point, i));
    return g_hash_table_lookup(results->points_of, key->str);
}

bool sweep_results_have(const struct sweep_results *results, const struct sweep_plan *plan, uint64_t point)
{
    return rows_of(results, plan, point) != NULL;
}

/* ---- files ---- */

/* The line of a header that has the same key as `line`; NULL: none has. */
static const char *header_line(char *const *lines, const char *line)
{
    const size_t key = strcspn(line + strlen("# "), ":") + strlen("# ");
    for (; *lines; lines++)
        if (strncmp(*lines, line, key) == 0) return *lines;
    return NULL;
}

/* The first line that one header has and the other lacks, for the message.  Freed by the caller. */
static char *header_difference(const char *own, const char *found)
{
    g_auto(GStrv) a = g_strsplit(own, "\n", 0), b = g_strsplit(found, "\n", 0);
    for (char **line = a; *line; line++) {
        if (g_strv_contains((const char *const *)b, *line)) continue;
        const char *other = header_line(b, *line);
        return g_strdup_printf("expected '%s', found %s%s%s", *line, other ? "'" : "none", other ? other : "",
                               other ? "'" : "");
    }
    for (char **line = b; *line; line++)
        if (!g_strv_contains((const char *const *)a, *line))
            return g_strdup_printf("expected no line '%s', found it", *line);
    return g_strdup("the same");
}

static bool point_whole(const GPtrArray *rows, int phases)
{
    for (guint i = 0; i < rows->len; i++) {
        double count;
        char *const *cell = g_ptr_array_index(rows, i);
        if (!record_number_parse(cell[phases], &count) || count != rows->len) return false;
    }
    return true;
}

/* Whether a row says the same as those before it of its point and phase.  Numbers of points and speedups may differ,
 * because they depend on the whole plan. */
static bool row_agrees(const struct sweep_results *file, const GPtrArray *before, char *const *cell, char **problem)
{
    const int phase = sweep_results_column(file, "phase"), speedup = sweep_results_column(file, "speedup");
    for (guint i = 0; before && i < before->len; i++) {
        char *const *other = g_ptr_array_index(before, i);
        if (other == cell) break;
        if (strcmp(other[phase], cell[phase]) != 0) continue;
        for (int c = phase + 1; cell[c]; c++) {
            if (c == speedup || strcmp(other[c], cell[c]) == 0) continue;
            *problem = g_strdup_printf("%s: expected '%s', as another row of this point and phase has, found '%s'",
                                       file->column[c], other[c], cell[c]);
            return false;
        }
    }
    return true;
}

/* Adds the complete points of `source` that `results` lacks.  False and *error if a row of its text contradicts another
 * one. */
static bool whole_points_add(struct sweep_results *results, struct sweep_results *source, const char *path,
                             const char *text, GError **error)
{
    const int phases = sweep_results_column(source, "phases");
    g_autoptr(GPtrArray) kept = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
    for (guint i = 0; i < source->row->len; i++) {
        char **cell = g_ptr_array_index(source->row, i);
        g_autofree char *key = sweep_results_key(source, cell), *problem = NULL;
        const GPtrArray *own = g_hash_table_lookup(results->points_of, key);
        const GPtrArray *found = g_hash_table_lookup(source->points_of, key);
        if (!row_agrees(source, own, cell, &problem) || !row_agrees(source, found, cell, &problem))
            return error_input(error, "%s:%u: %s", path, sweep_results_line(source, text, cell), problem);
        if (!own && point_whole(found, phases)) g_ptr_array_add(kept, g_strdupv(cell));
    }
    for (guint i = 0; i < kept->len; i++) sweep_results_add_row(results, g_steal_pointer(&kept->pdata[i]));
    return true;
}

static bool metrics_are(char **column, bool of_steps)
{
    return g_strv_equal((const char *const *)column, sweep_metric_columns(of_steps));
}

/* Parses the text of a file with all columns of kernels or of steps. */
static struct sweep_results *file_begin(const char *path, const char *text, const char **rows, GError **error)
{
    g_autoptr(sweep_results) file = sweep_results_parse(text, rows);
    char **metrics = file ? file->column + 1 + file->names : NULL;
    if (file && (metrics_are(metrics, false) || metrics_are(metrics, true))) return g_steal_pointer(&file);
    return error_null(error, "%s: expected the results of a sweep, found others", path);
}

/* The length of an input's name and value, which stand before its digest. */
static size_t input_name_bytes(const char *input)
{
    const char *digest = strrchr(input, ' ');
    return digest ? (size_t)(digest - input) : strlen(input);
}

/* The input with the same name and value; NULL if there is none. */
static const char *input_find(const GPtrArray *inputs, const char *input)
{
    const size_t bytes = input_name_bytes(input);
    for (guint i = 0; i < inputs->len; i++) {
        const char *other = g_ptr_array_index(inputs, i);
        if (input_name_bytes(other) == bytes && memcmp(input, other, bytes) == 0) return other;
    }
    return NULL;
}

/* Adds the file's inputs that `results` lacks.  False and *error if an input has another digest, or if the file has no
 * inputs. */
static bool inputs_add(struct sweep_results *results, const struct sweep_results *file, const char *path,
                       GError **error)
{
    for (guint i = 0; i < file->inputs->len; i++) {
        const char *found = g_ptr_array_index(file->inputs, i), *own = input_find(results->inputs, found);
        if (!own) g_ptr_array_add(results->inputs, g_strdup(found));
        if (!own || strcmp(own, found) == 0) continue;
        const size_t bytes = input_name_bytes(own);
        return error_input(
            error, "%s: holds results of another %.*s: expected digest%s, found%s; choose another file or remove it",
            path, (int)bytes, own, own + bytes, found + bytes);
    }
    if (file->inputs->len) return true;
    return error_input(error, "%s: expected digests of its inputs, found none; choose another file or remove it", path);
}

static bool text_add(struct sweep_results *results, const char *path, const char *text, GError **error)
{
    const char *rows;
    g_autoptr(sweep_results) file = file_begin(path, text, &rows, error);
    if (!file) return false;
    g_autofree char *own = g_strjoinv(",", results->column), *found = g_strjoinv(",", file->column);
    g_autofree char *header = header_difference(results->header, file->header);
    const bool same = strcmp(results->header, file->header) == 0;
    if (!same || strcmp(own, found) != 0)
        return error_input(error, "%s: holds another sweep: %s%s; choose another file or remove it", path,
                           same ? "its columns are " : header, same ? found : "");
    if (!inputs_add(results, file, path, error)) return false;
    sweep_results_add_text(file, rows);
    return whole_points_add(results, file, path, text, error);
}

bool sweep_results_add_file(struct sweep_results *results, const char *path, GError **error)
{
    size_t size_bytes;
    if (!g_file_test(path, G_FILE_TEST_EXISTS)) return true;
    g_autofree char *text = whole_file_read(path, SWEEP_FILE_BYTES_MAX, &size_bytes, error);
    if (!text) return false;
    /* If the run was killed before it wrote the columns, the file has no rows. */
    if (size_bytes == 0 || (g_str_has_prefix(text, "# kind: sweep") && !strstr(text, "\npoint,"))) return true;
    return text_add(results, path, text, error);
}

struct sweep_results *sweep_results_read(const char *path, GError **error)
{
    size_t size_bytes;
    g_autofree char *text = whole_file_read(path, SWEEP_FILE_BYTES_MAX, &size_bytes, error);
    const char *rows;
    g_autoptr(sweep_results) file = text ? file_begin(path, text, &rows, error) : NULL;
    if (!file) return NULL;
    struct sweep_results *whole = sweep_results_alloc();
    whole->header = g_strdup(file->header);
    for (guint i = 0; i < file->inputs->len; i++)
        g_ptr_array_add(whole->inputs, g_strdup(g_ptr_array_index(file->inputs, i)));
    whole->column = g_strdupv(file->column);
    whole->names = file->names;
    whole->points = file->points;
    whole->baseline = g_strdup(file->baseline);
    sweep_results_add_text(file, rows);
    if (whole_points_add(whole, file, path, text, error)) return whole;
    sweep_results_free(whole);
    return NULL;
}

/* ---- numbers, order, speedups ---- */

static void cell_set(char **cell, int column, char *text)
{
    g_free(cell[column]);
    cell[column] = text;
}

static void point_number(struct sweep_results *results, const struct sweep_plan *plan, uint64_t point)
{
    const GPtrArray *rows = rows_of(results, plan, point);
    for (guint i = 0; rows && i < rows->len; i++)
        cell_set(g_ptr_array_index(rows, i), 0, g_strdup_printf("%" G_GUINT64_FORMAT, point));
}

/* The values of the point that a row is compared with.  For a name that the baseline does not set, this is the row's
 * value. */
static char *baseline_key(const struct sweep_results *results, char *const *cell)
{
    GString *key = g_string_new(NULL);
    g_auto(GStrv) part = g_strsplit(results->baseline ? results->baseline : "", ",", 0);
    for (uint32_t i = 0; i < results->names; i++) {
        const char *value = cell[1 + i], *name = results->column[1 + i];
        for (char **p = part; *p; p++)
            if (g_str_has_prefix(*p, name) && (*p)[strlen(name)] == '=') value = *p + strlen(name) + 1;
        g_string_append_printf(key, "%s,", value);
    }
    return g_string_free(key, FALSE);
}

/* Sets the row's speedup: how many times faster the slowest rank ends the phase than at the baseline.  It is empty if
 * there is no baseline. */
static void row_speedup(struct sweep_results *results, char **cell)
{
    const int phase = sweep_results_column(results, "phase"), time = sweep_results_column(results, "slowest_us");
    const int speedup = sweep_results_column(results, "speedup");
    g_autofree char *key = baseline_key(results, cell);
    const GPtrArray *base = g_hash_table_lookup(results->points_of, key);
    cell_set(cell, speedup, g_strdup(""));
    if (!results->baseline || !*results->baseline) return;
    for (guint k = 0; base && k < base->len; k++) {
        char *const *other = g_ptr_array_index(base, k);
        const double ratio = sweep_cell_number(other, time) / sweep_cell_number(cell, time);
        if (strcmp(cell[phase], other[phase]) != 0 || !isfinite(ratio)) continue;
        char text[RECORD_NUMBER_MAX];
        cell_set(cell, speedup, g_strdup(g_ascii_formatd(text, sizeof text, "%.4g", ratio)));
    }
}

/* Orders rows by the numbers of their points. */
static gint row_order(gconstpointer a, gconstpointer b)
{
    char *const *x = *(char *const *const *)a, *const *y = *(char *const *const *)b;
    const double left = sweep_cell_number(x, 0), right = sweep_cell_number(y, 0);
    return left < right ? -1 : left > right;
}

bool sweep_results_write(struct sweep_results *results, const struct sweep_plan *plan, const char *path, GError **error)
{
    const uint64_t points = plan ? sweep_plan_points(plan) : 0;
    for (uint64_t i = 0; i < points; i++) point_number(results, plan, i);
    for (guint i = 0; i < results->row->len; i++) row_speedup(results, g_ptr_array_index(results->row, i));
    g_ptr_array_sort(results->row, row_order); /* the sort is stable, so the rows of a point keep their order */
    g_autofree char *begin = sweep_results_begin(results);
    g_autoptr(GString) text = g_string_new(begin);
    for (guint i = 0; i < results->row->len; i++) {
        g_autofree char *line = g_strjoinv(",", g_ptr_array_index(results->row, i));
        g_string_append_printf(text, "%s\n", line);
    }
    return whole_file_write(path, text->str, text->len, error);
}
