/* validate_table.c - cases in CSV: read by libcsv into rows with options, and written back with predictions.
 *
 * Knows columns and cells.  Knows no simulation and no statistics. */
#include "models/predict/validate.h"

#include <csv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "reports/whole_file.h"
#include "reports/record.h"
#include "reports/wait_matrix.h"
#include "sim/nearest.h"
#include "sim/text.h"

enum { FILE_BYTES_MAX = 1 << 30, SEEDS_MAX = 1000 };

static const char *const measured_names[] = { "phase",      "measured_us", "measured_gbs", "measured_pct",
                                              "outside_us", "seeds",       "metric",       NULL };
static const char *const result_names[] = { "posted_by", "predicted_us", "predicted_gbs", "error_pct", "bottleneck" };

/* ---- reading ---- */

struct reader {
    struct validate_table *table;
    const struct case_options *base;
    GPtrArray *cell; /* cells of the current row */
    GArray *row;     /* struct validate_row */
    uint32_t line;   /* the line on which the current row began */
    GError *error;   /* the error of the header */
};

static void reader_cell(void *text, size_t size_bytes, void *context)
{
    struct reader *reader = context;
    char *cell = g_strndup(text, size_bytes);
    g_ptr_array_add(reader->cell, g_strstrip(g_strdelimit(cell, "\r\n", ' '))); /* a label is one line */
}

static char **reader_cells_take(struct reader *reader)
{
    g_ptr_array_add(reader->cell, NULL);
    char **cells = (char **)g_ptr_array_free(reader->cell, FALSE);
    reader->cell = g_ptr_array_new();
    return cells;
}

static bool column_is(const char *name, const char *wanted) { return g_ascii_strcasecmp(name, wanted) == 0; }

static bool measured_parse(const char *name, const char *text, double *value, char **problem)
{
    const char *end = text_decimal(text, value);
    if (end && *end == '\0' && *value >= 1e-6 && *value <= 1e12) return true;
    *problem = g_strdup_printf("%s: expected a number from 1e-6 to 1e12, found '%s'", name, text);
    return false;
}

static bool share_parse(const char *text, double *value, char **problem)
{
    const char *end = text_decimal(text, value);
    if (end && *end == '\0' && isfinite(*value) && *value >= 0) return true;
    *problem = g_strdup_printf("measured_pct: expected a number from 0, found '%s'", text);
    return false;
}

static bool seeds_parse(const char *text, uint32_t *seeds, char **problem)
{
    guint64 value = 0;
    const bool good = text_whole(text, 1, SEEDS_MAX, &value);
    if (!good) *problem = g_strdup_printf("seeds: expected a whole number from 1 to %d, found '%s'", SEEDS_MAX, text);
    *seeds = (uint32_t)value;
    return good;
}

/* Whether the record has the metric in percent of a time: how long ranks wait, or how much longer the load of --compute
 * takes. */
static bool metric_is_pct(const char *metric)
{
    return wait_share_find(metric) < WAIT_SHARES ||
           (g_str_has_prefix(metric, "compute_") && g_str_has_suffix(metric, "slowdown_pct"));
}

/* Returns a text that says what is wrong with the row's values, or NULL.  A row has at most one measured value.  A
 * share needs a metric that names it, and is of one phase. */
static char *row_values_refuse(const struct validate_row *row)
{
    const bool us = isfinite(row->measured_us), gbs = isfinite(row->measured_gbs), share = validate_row_waits(row);
    if (us && gbs) return g_strdup("measured_us, measured_gbs: expected one of them, found both");
    if (share && (us || gbs)) return g_strdup("measured_pct: expected no other measured value, found one");
    if (share && (!row->metric || !metric_is_pct(row->metric)))
        return g_strdup_printf("metric: expected a share of waiting as %s, or compute_slowdown_pct, found '%s'",
                               wait_share_name(0), row->metric ? row->metric : "");
    if (share && row->phase && g_strv_length(row->phase) > 1)
        return g_strdup("measured_pct: expected one phase, found several");
    return NULL;
}

static bool phases_parse(const char *text, struct validate_row *row)
{
    row->phase = text_added(text);
    if (!row->phase) row->problem = g_strdup_printf("phase: expected different phases joined by +, found '%s'", text);
    return row->phase;
}

/* Sets what the cell's column stands for.  On failure returns false and sets row->problem. */
static bool row_cell_take(struct validate_row *row, const char *name, const char *text)
{
    g_autoptr(GError) error = NULL;
    if (column_is(name, "metric")) return row->metric = *text ? text : NULL, true;
    if (*text == '\0') return true; /* the default stays */
    if (column_is(name, "phase")) return phases_parse(text, row);
    if (column_is(name, "outside_us")) return measured_parse(name, text, &row->outside_us, &row->problem);
    if (column_is(name, "seeds")) return seeds_parse(text, &row->seeds, &row->problem);
    if (column_is(name, "measured_us")) return measured_parse(name, text, &row->measured_us, &row->problem);
    if (column_is(name, "measured_gbs")) return measured_parse(name, text, &row->measured_gbs, &row->problem);
    if (column_is(name, "measured_pct")) return share_parse(text, &row->measured_pct, &row->problem);
    if (!case_has(name)) return true;
    if (case_set(&row->options, name, text, &error)) return true;
    row->problem = g_strdup(error->message);
    return false;
}

/* Replaces a '?', which stands for an unknown value, by the command line's value.  If the command line gives no value,
 * returns false and sets row->problem. */
static bool unknown_fill(struct validate_row *row, const char *name, char **cell)
{
    if (strcmp(*cell, "?") != 0 || !case_has(name)) return true;
    for (uint32_t i = 0; case_option_name(i); i++) {
        if (strcmp(case_option_name(i), case_option_find(name)) != 0) continue;
        if (!case_option_given(&row->options, name)) break; /* the row's options begin with the given ones */
        g_free(*cell);
        *cell = case_option_text(&row->options, i);
        return true;
    }
    row->problem = g_strdup_printf("%s: expected a value, found '?': give --%s", name, case_option_find(name));
    return false;
}

static void row_fill(struct validate_row *row, const struct validate_table *table)
{
    const uint32_t found = g_strv_length(row->cell);
    if (found != table->column_count) {
        row->problem = g_strdup_printf("expected %u fields as in the header, found %u", table->column_count, found);
        return;
    }
    for (uint32_t i = 0; i < found; i++)
        if (!unknown_fill(row, table->column[i], &row->cell[i]) || !row_cell_take(row, table->column[i], row->cell[i]))
            return;
    row->native = row->metric && g_str_has_prefix(row->metric, "native_");
    if (!row->native) row->problem = row_values_refuse(row);
    if (!row->problem && !row->phase) row->problem = g_strdup("phase: expected the name of a phase, found nothing");
    g_autofree char *folder = g_path_get_dirname(table->path);
    case_files_resolve(&row->options, folder);
}

/* The name of the option that the column sets, however the column is spelt; else the column's own name. */
static const char *column_meaning(const char *name)
{
    const char *option = case_option_find(name);
    return option ? option : name;
}

/* The known column whose name a label may misspell; NULL: none. */
static const char *label_nearest(const char *name)
{
    for (uint32_t i = 0; measured_names[i]; i++)
        if (column_is(name, measured_names[i])) return NULL;
    if (case_has(name)) return NULL;
    const char *measured = nearest_find(name, measured_names);
    return measured ? measured : case_option_nearest(name);
}

/* Refuses two columns for one option, because the last would win without a word.  Warns of misspelt columns, because
 * their options would keep the defaults without a word. */
static void header_check(struct reader *reader)
{
    struct validate_table *table = reader->table;
    GString *warning = g_string_new(NULL);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL); /* name by meaning */
    for (uint32_t i = 0; i < table->column_count && !reader->error; i++) {
        const char *name = table->column[i];
        const bool import =
            column_is(name, "rank") && column_is(table->column[0], "log"); /* eptwin import writes both */
        const char *nearest = import ? NULL : label_nearest(name);
        g_autofree char *meaning = g_ascii_strdown(column_meaning(name), -1);
        const char *before = *name ? g_hash_table_lookup(seen, meaning) : NULL;
        if (before)
            error_input(&reader->error, "%s:%u: expected each column once, found '%s' and '%s'", table->path,
                        reader->line, before, name);
        g_hash_table_insert(seen, g_steal_pointer(&meaning), table->column[i]);
        if (nearest)
            g_string_append_printf(warning, "%s:%u: warning: column '%s' is taken as a label; did you mean '%s'?\n",
                                   table->path, reader->line, name, nearest);
    }
    table->warning = g_string_free(warning, warning->len == 0);
}

static void reader_row(int end, void *context)
{
    (void)end;
    struct reader *reader = context;
    struct validate_table *table = reader->table;
    char **cells = reader_cells_take(reader);
    if (!table->column) {
        table->column = cells;
        table->column_count = g_strv_length(cells);
        header_check(reader);
        return;
    }
    struct validate_row row = {
        .line = reader->line,
        .cell = cells,
        .seeds = 1,
        .measured_us = NAN,
        .measured_gbs = NAN,
        .measured_pct = NAN,
        .predicted_pct = NAN,
        .predicted_us = NAN,
        .predicted_gbs = NAN,
        .error_pct = NAN,
    };
    row.options = *reader->base;
    row_fill(&row, table);
    g_array_append_val(reader->row, row);
}

static bool parse_refuse(const struct reader *reader, struct csv_parser *parser, GError **error)
{
    const int code = csv_error(parser);
    return error_input(error, "%s:%u: expected CSV, found %s", reader->table->path, reader->line,
                       code == CSV_EPARSE ? "a quote within a field or one that is not closed" : csv_strerror(code));
}

/* Parses the text.  Feeds libcsv line by line, because libcsv does not count lines.  A quoted field may span several
 * lines. */
static bool reader_parse(struct reader *reader, const char *text, size_t size_bytes, GError **error)
{
    struct csv_parser parser;
    csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
    bool good = true;
    uint32_t line = 1;
    const char *at = text;
    for (const char *end = text + size_bytes; good && !reader->error && at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t line_bytes = (size_t)((newline ? newline + 1 : end) - at);
        const bool comment = !parser.quoted && *at == '#';
        if (!parser.quoted) reader->line = line;
        good = comment || csv_parse(&parser, at, line_bytes, reader_cell, reader_row, reader) == line_bytes;
        at += line_bytes;
    }
    if (good && !reader->error) good = csv_fini(&parser, reader_cell, reader_row, reader) == 0;
    if (!good) parse_refuse(reader, &parser, error);
    csv_free(&parser);
    if (!reader->error) return good;
    g_clear_error(error);
    g_propagate_error(error, reader->error);
    return false;
}

/* The text of all options.  Rows with equal text are one case and are simulated once. */
static char *row_key(const struct validate_row *row)
{
    GString *key = g_string_new(NULL);
    g_string_append_printf(key, "%u\n", row->seeds);
    for (uint32_t i = 0; case_option_name(i); i++) {
        g_autofree char *text = case_option_text(&row->options, i);
        g_string_append_printf(key, "%s\n", text ? text : "");
    }
    for (char **s = row->settings; s && *s; s++) g_string_append_printf(key, "%s\n", *s);
    return g_string_free(key, FALSE);
}

/* Whether two rows are certainly one case.  If not, row_key() tells.  Most tables have a row for each phase of a case,
 * so this saves most keys. */
static bool row_repeats(const struct validate_row *row, const struct validate_row *before)
{
    return !validate_row_idle(before) && !row->settings && !before->settings && row->seeds == before->seeds &&
           memcmp(&row->options, &before->options, sizeof row->options) == 0;
}

void validate_jobs_number(struct validate_table *table)
{
    table->job_count = 0;
    g_autoptr(GHashTable) number = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (uint32_t i = 0; i < table->row_count; i++) {
        struct validate_row *row = &table->row[i];
        if (validate_row_idle(row)) continue;
        if (i && row_repeats(row, row - 1)) {
            row->job = row[-1].job;
            continue;
        }
        char *key = row_key(row);
        gpointer known;
        if (g_hash_table_lookup_extended(number, key, NULL, &known)) {
            row->job = GPOINTER_TO_UINT(known);
            g_free(key);
        } else {
            row->job = table->job_count++;
            g_hash_table_insert(number, key, GUINT_TO_POINTER(row->job));
        }
    }
}

/* Refuses a record, whose rows have a metric each and which says of itself what made it. */
static bool text_is_table(const char *path, const char *text, GError **error)
{
    static const char kind[] = "# kind: ";
    if (!g_str_has_prefix(text, kind)) return true;
    const char *made_by = text + strlen(kind);
    return error_input(error, "%s: expected a table of measured rows, found a record of eptwin %.*s", path,
                       (int)MIN(strcspn(made_by, "\r\n"), 20), made_by);
}

static bool table_columns_check(const struct validate_table *table, GError **error)
{
    const char *problem = NULL;
    if (!table->column) problem = "expected a header line with the names of columns, found nothing";
    else if (validate_column_find(table, "phase") < 0) problem = "expected a column 'phase', found none";
    else if (table->row_count == 0) problem = "expected a case a line after the header, found none";
    if (!problem) return true;
    return error_input(error, "%s: %s", table->path, problem);
}

bool validate_cluster_named(const struct case_options *base, const struct validate_table *table, GError **error)
{
    if (!base->cluster && validate_column_find(table, "cluster") >= 0) return true;
    if (!base->cluster)
        return error_input(error, "--cluster: expected a cluster file, found none (nor a column 'cluster')");
    g_autoptr(cluster) cluster = cluster_load(base->cluster, error);
    return cluster != NULL;
}

struct validate_table *validate_table_read(const char *path, const struct case_options *base, GError **error)
{
    size_t size_bytes;
    g_autofree char *text = whole_file_read(path, FILE_BYTES_MAX, &size_bytes, error);
    return text ? validate_table_parse(path, text, size_bytes, base, error) : NULL;
}

struct validate_table *validate_table_parse(const char *path, const char *text, size_t size_bytes,
                                            const struct case_options *base, GError **error)
{
    struct validate_table *table = g_new0(struct validate_table, 1);
    table->path = g_strdup(path);
    struct reader reader = {
        .table = table,
        .base = base,
        .cell = g_ptr_array_new(),
        .row = g_array_new(FALSE, FALSE, sizeof(struct validate_row)),
    };
    bool good = text_is_table(path, text, error) && reader_parse(&reader, text, size_bytes, error);
    table->row_count = reader.row->len;
    table->row = (struct validate_row *)(void *)g_array_free(reader.row, FALSE);
    g_strfreev(reader_cells_take(&reader));
    g_ptr_array_free(reader.cell, TRUE);
    if (good && table_columns_check(table, error)) {
        validate_jobs_number(table);
        return table;
    }
    validate_table_free(table);
    return NULL;
}

struct validate_row validate_row_copy(const struct validate_row *row)
{
    struct validate_row copy = {
        .line = row->line,
        .phase = g_strdupv(row->phase),
        .settings = g_strdupv(row->settings),
        .native = row->native,
        .metric = row->metric,
        .measured_us = row->measured_us,
        .measured_gbs = row->measured_gbs,
        .measured_pct = row->measured_pct,
        .outside_us = row->outside_us,
        .seeds = row->seeds,
        .known = row->known,
        .problem = g_strdup(row->problem),
        .predicted_us = NAN,
        .predicted_gbs = NAN,
        .predicted_pct = NAN,
        .error_pct = NAN,
    };
    copy.options = row->options;
    return copy;
}

void validate_row_clear(struct validate_row *row)
{
    g_strfreev(row->cell);
    g_strfreev(row->phase);
    g_strfreev(row->settings);
    g_free(row->problem);
    g_free(row->posted_by);
    g_free(row->bottleneck);
}

void validate_table_free(struct validate_table *table)
{
    if (!table) return;
    for (uint32_t i = 0; i < table->row_count; i++) validate_row_clear(&table->row[i]);
    g_free(table->row);
    g_free(table->warning);
    g_strfreev(table->column);
    g_free(table->path);
    g_free(table);
}

int validate_column_find(const struct validate_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->column_count; i++)
        if (column_is(table->column[i], name)) return (int)i;
    return -1;
}

/* ---- writing ---- */

/* The rows that have one problem. */
struct problem_rows {
    uint32_t count, last_line;
};

/* Returns the rows of each problem, by its text. */
static GHashTable *problems_count(const struct validate_table *table)
{
    GHashTable *problems = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        if (!row->problem) continue;
        struct problem_rows *rows = g_hash_table_lookup(problems, row->problem);
        if (!rows) g_hash_table_insert(problems, row->problem, rows = g_new0(struct problem_rows, 1));
        rows->count++;
        rows->last_line = row->line;
    }
    return problems;
}

uint32_t validate_problems_print(const struct validate_table *table)
{
    g_autoptr(GHashTable) problems = problems_count(table);
    g_autofree char *path = text_printable(table->path, strlen(table->path));
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        struct problem_rows *rows = row->problem ? g_hash_table_lookup(problems, row->problem) : NULL;
        if (!rows || !rows->count) continue; /* no problem, or one that an earlier row has told */
        g_autofree char *problem = text_printable(row->problem, strlen(row->problem));
        fprintf(stderr, "%s:%u: %s", path, row->line, problem);
        if (rows->count > 1)
            fprintf(stderr, " (and %u more row%s, to line %u)", rows->count - 1, rows->count == 2 ? "" : "s",
                    rows->last_line);
        fputc('\n', stderr);
        count += rows->count;
        rows->count = 0;
    }
    return count;
}

static bool column_is_result(const char *name)
{
    for (uint32_t i = 0; i < G_N_ELEMENTS(result_names); i++)
        if (column_is(name, result_names[i])) return true;
    return false;
}

static void number_append(GString *out, double value, const char *format)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    if (isfinite(value)) g_string_append(out, g_ascii_formatd(text, sizeof text, format, value));
}

static void row_append(const struct validate_table *table, const struct validate_row *row, GString *out)
{
    const uint32_t cells = g_strv_length(row->cell); /* a bad row may have any number of cells */
    for (uint32_t i = 0; i < table->column_count; i++) {
        if (column_is_result(table->column[i])) continue;
        if (i < cells) record_csv_field_append(out, row->cell[i]);
        g_string_append_c(out, ',');
    }
    if (row->posted_by) record_csv_field_append(out, row->posted_by);
    g_string_append_c(out, ',');
    number_append(out, row->predicted_us, "%.3f");
    g_string_append_c(out, ',');
    number_append(out, row->predicted_gbs, "%.3f");
    g_string_append_c(out, ',');
    number_append(out, row->error_pct, "%.2f");
    g_string_append_c(out, ',');
    if (row->bottleneck) record_csv_field_append(out, row->bottleneck);
    g_string_append_c(out, '\n');
}

void validate_table_append(const struct validate_table *table, GString *out)
{
    for (uint32_t i = 0; i < table->column_count; i++) {
        if (column_is_result(table->column[i])) continue;
        record_csv_field_append(out, table->column[i]);
        g_string_append_c(out, ',');
    }
    for (uint32_t i = 0; i < G_N_ELEMENTS(result_names); i++)
        g_string_append_printf(out, "%s%c", result_names[i], i + 1 < G_N_ELEMENTS(result_names) ? ',' : '\n');
    for (uint32_t i = 0; i < table->row_count; i++) row_append(table, &table->row[i], out);
}
