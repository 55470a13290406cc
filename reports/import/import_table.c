/* import_table.c - imported rows as CSV and in words.  Knows columns; knows no program's format. */
#include "reports/import/import_table.h"

#include <math.h>
#include <string.h>
#include "reports/record.h"

static bool unstated(const char *cell) { return !cell || strcmp(cell, "?") == 0; }

static int column_find(const char *name)
{
    for (int i = IMPORT_OPTION_FIRST; i <= IMPORT_OPTION_LAST; i++)
        if (strcmp(import_column_name(i), name) == 0) return i;
    return -1;
}

static const char *given_text(const struct import_given *given, uint32_t count, const char *name)
{
    for (uint32_t k = 0; k < count; k++)
        if (strcmp(given[k].name, name) == 0) return given[k].text;
    return NULL;
}

/* STREAM_MOST: the most messages of a stream's row.  With more, the time of the first message does not matter. */
enum { STREAM_MOST = 1000 };

/* Whether the row is a bandwidth of puts or gets.  Tools keep many of these in flight. */
static bool stream_is(const struct import_row *row)
{
    const char *phase = row->cell[IMPORT_PHASE];
    if (row->cell[IMPORT_KERNEL] || !row->cell[IMPORT_SIZE]) return false;
    if (g_strcmp0(row->cell[IMPORT_METRIC], "native_gbs") != 0) return false;
    return g_strcmp0(phase, "put") == 0 || g_strcmp0(phase, "get") == 0;
}

static void stream_become(struct import_row *row)
{
    const bool put = g_strcmp0(row->cell[IMPORT_PHASE], "put") == 0;
    import_row_word(row, IMPORT_KERNEL, "p2p");
    import_row_word(row, IMPORT_NUM_RANKS, "2");
    import_row_word(row, IMPORT_RANKS_PER_NODE, "1");
    g_autofree char *size = g_strdup_printf("%sB", row->cell[IMPORT_SIZE]);
    import_row_word(row, IMPORT_MESSAGE, size);
    if (strcmp(row->cell[IMPORT_TOOL], "perftest") == 0) import_row_word(row, IMPORT_BACKEND, "verbs");
    import_row_word(row, IMPORT_PHASE, put ? "put_stream" : "get_stream");
    const char *iterations = row->cell[IMPORT_ITERATIONS];
    if (iterations) import_row_count(row, IMPORT_MESSAGES, MIN(g_ascii_strtoull(iterations, NULL, 10), STREAM_MOST));
    g_clear_pointer(&row->cell[IMPORT_METRIC], g_free);
}

/* Puts one option into its column, except the kernel, which stays.  If rows have another text there, said gets how many
 * they are, and the first such text. */
static void option_fill(const GPtrArray *rows, const struct import_given *given, int column, GString *said)
{
    uint32_t count = 0;
    g_autofree char *first = NULL;
    for (guint i = 0; i < rows->len; i++) {
        struct import_row *row = g_ptr_array_index(rows, i);
        const char *cell = row->cell[column];
        const bool kernel = column == IMPORT_KERNEL;
        if ((!row->cell[IMPORT_KERNEL] && !kernel) || g_strcmp0(cell, given->text) == 0) continue;
        if (kernel || !unstated(cell)) count++;
        if (count == 1 && !first) first = g_strdup(cell ? cell : row->cell[IMPORT_TEST]);
        if (!kernel) import_row_word(row, column, given->text);
    }
    const char *rows_word = count == 1 ? "" : "s";
    if (count && column == IMPORT_KERNEL)
        g_string_append_printf(said, "--kernel %s: without effect on %u row%s of tests of %s\n", given->text, count,
                               rows_word, first);
    else if (count)
        g_string_append_printf(said, "--%s %s: instead of the log's %s, in %u row%s\n", given->name, given->text, first,
                               count, rows_word);
}

void import_rows_fill(const GPtrArray *rows, const struct import_given *given, uint32_t count, GString *said)
{
    for (guint i = 0; i < rows->len; i++) {
        struct import_row *row = g_ptr_array_index(rows, i);
        const char *kernel = given_text(given, count, "kernel");
        if (g_strcmp0(kernel, "p2p") == 0 && stream_is(row)) stream_become(row);
        if (row->may && g_strcmp0(kernel, row->may) == 0) import_row_become(row, row->may);
    }
    for (uint32_t k = 0; k < count; k++) {
        const int column = column_find(given[k].name);
        if (column >= 0) option_fill(rows, &given[k], column, said);
    }
}

/* ---- CSV ---- */

static void field_append(GString *out, const char *text)
{
    if (out->len && out->str[out->len - 1] != '\n') g_string_append_c(out, ',');
    record_csv_field_append(out, text);
}

static void number_append(GString *out, double value)
{
    char text[RECORD_NUMBER_MAX] = "";
    if (!isnan(value)) g_ascii_formatd(text, sizeof text, "%.10g", value); /* no log prints more digits */
    field_append(out, text);
}

/* The bandwidth that is used for a row without a time. */
static double rate_of(const struct import_row *row)
{
    const char *metric = row->cell[IMPORT_METRIC];
    if (row->cell[IMPORT_MESSAGE]) return row->number[IMPORT_NATIVE_GBS];
    for (int i = 0; metric && i < IMPORT_NUMBERS; i++)
        if (strcmp(import_number_name(i), metric) == 0 && g_str_has_suffix(metric, "_gbs")) return row->number[i];
    return NAN;
}

struct used {
    bool cell[IMPORT_COLUMNS], number[IMPORT_NUMBERS], rank, rate, several;
};

static struct used columns_used(const GPtrArray *rows)
{
    struct used used = { 0 };
    for (guint i = 0; i < rows->len; i++) {
        const struct import_row *row = g_ptr_array_index(rows, i);
        for (int k = 0; k < IMPORT_COLUMNS; k++) used.cell[k] |= row->cell[k] != NULL;
        for (int k = 0; k < IMPORT_NUMBERS; k++) used.number[k] |= !isnan(row->number[k]);
        used.rank |= row->rank != IMPORT_NO_RANK;
        used.rate |= !isnan(rate_of(row));
        used.several |= row->lines > 1;
    }
    return used;
}

static void header_append(const struct used *used, const struct import_given *given, uint32_t count, GString *out)
{
    field_append(out, "log");
    field_append(out, "line");
    for (int i = 0; i < IMPORT_COLUMNS; i++)
        if (used->cell[i]) field_append(out, import_column_name(i));
    for (uint32_t k = 0; k < count; k++)
        if (column_find(given[k].name) < 0) field_append(out, given[k].name);
    if (used->rank) field_append(out, "rank");
    if (used->several) {
        field_append(out, "ranks_measured");
        field_append(out, "lines");
    }
    if (used->rate) field_append(out, "measured_gbs");
    for (int i = 0; i < IMPORT_NUMBERS; i++)
        if (used->number[i]) field_append(out, import_number_name(i));
    g_string_append_c(out, '\n');
}

static void row_append(const struct import_row *row, const struct used *used, const struct import_given *given,
                       uint32_t count, GString *out)
{
    g_autofree char *line = g_strdup_printf("%u", row->line), *rank = g_strdup_printf("%d", row->rank);
    g_autofree char *ranks = g_strdup_printf("%u", row->ranks), *lines = g_strdup_printf("%u", row->lines);
    field_append(out, row->source);
    field_append(out, line);
    for (int i = 0; i < IMPORT_COLUMNS; i++)
        if (used->cell[i]) field_append(out, row->cell[i] ? row->cell[i] : "");
    for (uint32_t k = 0; k < count; k++)
        if (column_find(given[k].name) < 0) field_append(out, row->cell[IMPORT_KERNEL] ? given[k].text : "");
    if (used->rank) field_append(out, row->rank == IMPORT_NO_RANK ? "" : rank);
    if (used->several) {
        field_append(out, ranks);
        field_append(out, lines);
    }
    if (used->rate) number_append(out, rate_of(row));
    for (int i = 0; i < IMPORT_NUMBERS; i++)
        if (used->number[i]) number_append(out, row->number[i]);
    g_string_append_c(out, '\n');
}

void import_table_append(const GPtrArray *rows, const struct import_given *given, uint32_t count, GString *out)
{
    const struct used used = columns_used(rows);
    header_append(&used, given, count, out);
    for (guint i = 0; i < rows->len; i++) row_append(g_ptr_array_index(rows, i), &used, given, count, out);
}

/* ---- cases ---- */

static char *case_key(const struct import_row *row)
{
    GString *key = g_string_new(row->source);
    for (int i = 0; i <= IMPORT_OPTION_LAST; i++) g_string_append_printf(key, "\n%s", row->cell[i] ? row->cell[i] : "");
    if (row->cell[IMPORT_RUN_OPTIONS]) g_string_append(key, row->cell[IMPORT_RUN_OPTIONS]);
    return g_string_free(key, FALSE);
}

GPtrArray *import_cases(const GPtrArray *rows)
{
    g_autoptr(GHashTable) case_of = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GPtrArray *cases = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    for (guint i = 0; i < rows->len; i++) {
        struct import_row *row = g_ptr_array_index(rows, i);
        const char *metric = row->cell[IMPORT_METRIC];
        if (!row->cell[IMPORT_KERNEL] || g_strcmp0(row->cell[IMPORT_SET], "tuning") == 0 ||
            (metric && g_str_has_prefix(metric, "native_")))
            continue;
        import_group_add(case_of, cases, case_key(row), row);
    }
    return cases;
}

/* ---- words ---- */

void import_cases_append(const GPtrArray *cases, GString *out)
{
    for (guint i = 0; i < cases->len; i++) {
        const GPtrArray *rows = g_ptr_array_index(cases, i);
        const struct import_row *first = g_ptr_array_index(rows, 0);
        g_string_append_printf(out, "case %u  %s:%u ", i + 1, first->source, first->line);
        for (int k = IMPORT_OPTION_FIRST; k <= IMPORT_OPTION_LAST; k++)
            if (first->cell[k]) g_string_append_printf(out, " %s=%s", import_column_name(k), first->cell[k]);
        g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
        for (guint k = 0; k < rows->len; k++) {
            char *phase = ((const struct import_row *)g_ptr_array_index(rows, k))->cell[IMPORT_PHASE];
            if (g_hash_table_add(seen, phase)) g_string_append_printf(out, "%s %s", k ? "," : ":", phase);
        }
        g_string_append_c(out, '\n');
    }
}

/* Appends how many rows each tool and test has. */
static void tools_append(const struct import_log *log, const GPtrArray *rows, GString *out)
{
    for (guint i = 0; i < rows->len;) {
        const struct import_row *first = g_ptr_array_index(rows, i);
        if (first->source != log->source) {
            i++;
            continue;
        }
        uint32_t count = 0, tuning = 0;
        for (; i < rows->len; i++, count++) {
            const struct import_row *row = g_ptr_array_index(rows, i);
            if (row->source != log->source || strcmp(row->cell[IMPORT_TOOL], first->cell[IMPORT_TOOL]) != 0 ||
                g_strcmp0(row->cell[IMPORT_TEST], first->cell[IMPORT_TEST]) != 0)
                break;
            tuning += g_strcmp0(row->cell[IMPORT_SET], "tuning") == 0;
        }
        g_string_append_printf(out, "  %s, %s: %u row%s", first->cell[IMPORT_TOOL],
                               first->cell[IMPORT_TEST] ? first->cell[IMPORT_TEST] : "unnamed", count,
                               count == 1 ? "" : "s");
        if (tuning) g_string_append_printf(out, ", %u of them tried by a tuner", tuning);
        const bool stream = !first->cell[IMPORT_KERNEL] && stream_is(first);
        g_string_append(out, first->cell[IMPORT_KERNEL] ? "\n"
                             : stream ? " of figures of its own; --kernel p2p makes them rows to predict\n"
                                      : " of figures of its own\n");
    }
}

/* Appends the options that change a prediction and that no row of the log's kernels states. */
static void unstated_append(const struct import_log *log, const GPtrArray *rows, GString *out)
{
    static const enum import_column wanted[] = { IMPORT_NUM_RANKS, IMPORT_NUM_TOKENS, IMPORT_HIDDEN, IMPORT_NUM_TOPK,
                                                 IMPORT_NUM_EXPERTS };
    g_autoptr(GString) missing = g_string_new(NULL);
    g_autoptr(GString) needed = g_string_new(NULL);
    for (size_t k = 0; k < G_N_ELEMENTS(wanted); k++) {
        bool kernel = false, absent = false, open = false;
        for (guint i = 0; i < rows->len; i++) {
            const struct import_row *row = g_ptr_array_index(rows, i);
            if (row->source != log->source || !row->cell[IMPORT_KERNEL] || row->cell[IMPORT_MESSAGE]) continue;
            kernel = true;
            absent |= !row->cell[wanted[k]];
            open |= row->cell[wanted[k]] && strcmp(row->cell[wanted[k]], "?") == 0;
        }
        GString *list = open ? needed : missing;
        if (kernel && (absent || open))
            g_string_append_printf(list, "%s--%s", list->len ? ", " : "", import_column_name(wanted[k]));
    }
    if (needed->len) g_string_append_printf(out, "  not in the log, and no default would do: give %s\n", needed->str);
    if (missing->len)
        g_string_append_printf(out, "  not in the log: %s; unless given, the defaults of simulate stand for them\n",
                               missing->str);
}

void import_summary_append(const struct import_log *log, const GPtrArray *rows, GString *out)
{
    const char *lines = log->line_count == 1 ? "line" : "lines";
    g_string_append_printf(out, "%s: %u %s\n", log->source, log->line_count, log->counted ? log->counted : lines);
    tools_append(log, rows, out);
    unstated_append(log, rows, out);
    for (guint i = 0; i < log->notes->len; i++)
        g_string_append_printf(out, "  note: %s\n", (const char *)g_ptr_array_index(log->notes, i));
    for (guint i = 0; i < log->skips->len; i++) {
        const struct import_skip *skip = &g_array_index(log->skips, struct import_skip, i);
        g_string_append_printf(out, "  left out: %u (first in line %u): %s\n", skip->count, skip->line, skip->why);
    }
    if (log->unknown_count) g_string_append_printf(out, "  unknown lines: %u\n", log->unknown_count);
    for (guint i = 0; i < log->unknown->len; i++) {
        const struct import_unknown *unknown = &g_array_index(log->unknown, struct import_unknown, i);
        g_string_append_printf(out, "    line %u: %s\n", unknown->line, unknown->text);
    }
}
