/* import_rows.c - a log's rows, skips and notes in memory, and the merging of rows.  Knows no reader. */
#include "reports/import/import.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "sim/stats.h"

#define TEXT(name, text) text,
static const char *const column_names[] = { IMPORT_COLUMNS_ALL(TEXT) };
static const char *const number_names[] = { IMPORT_NUMBERS_ALL(TEXT) };

const char *import_column_name(enum import_column column) { return column_names[column]; }
const char *import_number_name(enum import_number number) { return number_names[number]; }

/* ---- rows ---- */

struct import_row *import_row_add(struct import_log *log, const char *tool, const char *test, const char *phase)
{
    struct import_row *row = g_new0(struct import_row, 1);
    row->source = log->source;
    row->line = log->line;
    row->rank = IMPORT_NO_RANK;
    row->lines = 1;
    for (int i = 0; i < IMPORT_NUMBERS; i++) row->number[i] = NAN;
    import_row_word(row, IMPORT_TOOL, tool);
    import_row_word(row, IMPORT_TEST, test);
    import_row_word(row, IMPORT_PHASE, phase);
    g_ptr_array_add(log->rows, row);
    return row;
}

struct import_row *import_row_copy(const struct import_row *row)
{
    struct import_row *copy = g_memdup2(row, sizeof *row);
    for (int i = 0; i < IMPORT_COLUMNS; i++) copy->cell[i] = g_strdup(row->cell[i]);
    return copy;
}

void import_row_free(struct import_row *row)
{
    for (int i = 0; i < IMPORT_COLUMNS; i++) g_free(row->cell[i]);
    g_free(row);
}

void import_row_become(struct import_row *row, const char *kernel)
{
    static const enum import_column asked[] = { IMPORT_NUM_RANKS, IMPORT_NUM_TOKENS, IMPORT_HIDDEN };
    import_row_word(row, IMPORT_KERNEL, kernel);
    for (size_t i = 0; i < G_N_ELEMENTS(asked); i++)
        if (!row->cell[asked[i]]) import_row_word(row, asked[i], "?");
    g_clear_pointer(&row->cell[IMPORT_METRIC], g_free);
}

void import_row_word(struct import_row *row, enum import_column column, const char *text)
{
    g_free(row->cell[column]);
    row->cell[column] = text && *text ? g_utf8_make_valid(text, -1) : NULL;
}

void import_row_count(struct import_row *row, enum import_column column, uint64_t count)
{
    g_free(row->cell[column]);
    row->cell[column] = g_strdup_printf("%" G_GUINT64_FORMAT, count);
}

void import_row_count_unless_0(struct import_row *row, enum import_column column, uint64_t count)
{
    if (count) import_row_count(row, column, count);
}

void import_row_number(struct import_row *row, enum import_number number, double value)
{
    row->number[number] = isfinite(value) && value > 0 ? value : NAN;
}

void import_row_size(struct import_row *row, double size_bytes)
{
    if (size_bytes >= 0) import_row_count(row, IMPORT_SIZE, (uint64_t)MIN(size_bytes, 1e18));
    import_row_number(row, IMPORT_COUNTED_BYTES, size_bytes);
}

/* Text that is equal for rows of one case and phase. */
static char *row_key(const struct import_row *row)
{
    GString *key = g_string_new(row->source);
    for (int i = 0; i < IMPORT_COLUMNS; i++) g_string_append_printf(key, "\n%s", row->cell[i] ? row->cell[i] : "");
    if (row->cell[IMPORT_PEER]) g_string_append_printf(key, "\n%d", row->rank);
    return g_string_free(key, FALSE);
}

static gint row_order(gconstpointer a, gconstpointer b)
{
    const struct import_row *const *x = a, *const *y = b;
    if ((*x)->rank != (*y)->rank) return (*x)->rank < (*y)->rank ? -1 : 1;
    return (*x)->line < (*y)->line ? -1 : (*x)->line > (*y)->line;
}

/* The median over ranks of each rank's median (rows are sorted by rank); NAN: there is none. */
static double group_median(const GPtrArray *group, enum import_number number)
{
    g_autofree double *of_rank = g_new(double, group->len), *value = g_new(double, group->len);
    uint32_t ranks = 0;
    for (guint i = 0; i < group->len;) {
        const struct import_row *first = g_ptr_array_index(group, i);
        uint32_t count = 0;
        for (; i < group->len && ((struct import_row *)g_ptr_array_index(group, i))->rank == first->rank; i++) {
            const struct import_row *row = g_ptr_array_index(group, i);
            if (!isnan(row->number[number])) value[count++] = row->number[number];
        }
        if (count) of_rank[ranks++] = stats_median(value, count);
    }
    return ranks ? stats_median(of_rank, ranks) : NAN;
}

static struct import_row *group_merge(GPtrArray *group)
{
    struct import_row *merged = import_row_copy(g_ptr_array_index(group, 0));
    g_ptr_array_sort(group, row_order);
    merged->lines = group->len;
    merged->ranks = 0;
    int32_t last = IMPORT_NO_RANK;
    for (guint i = 0; i < group->len; i++) {
        const struct import_row *row = g_ptr_array_index(group, i);
        merged->ranks += row->rank != last;
        last = row->rank;
        merged->number[IMPORT_US_MIN] = fmin(merged->number[IMPORT_US_MIN], row->number[IMPORT_US_MIN]);
        merged->number[IMPORT_US_MAX] = fmax(merged->number[IMPORT_US_MAX], row->number[IMPORT_US_MAX]);
    }
    for (int i = 0; i < IMPORT_NUMBERS; i++)
        if (i != IMPORT_US_MIN && i != IMPORT_US_MAX) merged->number[i] = group_median(group, i);
    if (!merged->cell[IMPORT_PEER] && group->len > 1) merged->rank = IMPORT_NO_RANK;
    return merged;
}

void import_group_add(GHashTable *group_of, GPtrArray *groups, char *key, struct import_row *row)
{
    GPtrArray *group = g_hash_table_lookup(group_of, key);
    if (group) {
        g_free(key);
    } else {
        group = g_ptr_array_new();
        g_ptr_array_add(groups, group);
        g_hash_table_insert(group_of, key, group);
    }
    g_ptr_array_add(group, row);
}

GPtrArray *import_rows_merge(const GPtrArray *rows)
{
    g_autoptr(GHashTable) group_of = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    for (guint i = 0; i < rows->len; i++) {
        struct import_row *row = g_ptr_array_index(rows, i);
        import_group_add(group_of, groups, row_key(row), row);
    }
    GPtrArray *merged = g_ptr_array_new_with_free_func((GDestroyNotify)import_row_free);
    for (guint i = 0; i < groups->len; i++) g_ptr_array_add(merged, group_merge(g_ptr_array_index(groups, i)));
    return merged;
}

uint32_t import_bus_ranks(double algorithm_gbs, double bus_gbs)
{
    if (!(algorithm_gbs >= 1) || !(bus_gbs < algorithm_gbs)) return 0; /* too few digits, or another factor */
    const double ranks = algorithm_gbs / (algorithm_gbs - bus_gbs);
    const double doubt = ranks * ranks * 0.01 / algorithm_gbs; /* because only two decimals are printed */
    return doubt < 0.4 && fabs(ranks - round(ranks)) <= doubt + 0.01 ? (uint32_t)round(ranks) : 0;
}

/* ---- other facts of a log ---- */

bool import_log_skip(struct import_log *log, const char *why)
{
    for (guint i = 0; i < log->skips->len; i++) {
        struct import_skip *skip = &g_array_index(log->skips, struct import_skip, i);
        if (strcmp(skip->why, why) != 0) continue;
        skip->count++;
        return true;
    }
    const struct import_skip skip = { .why = import_log_keep(log, why, -1), .count = 1, .line = log->line };
    g_array_append_val(log->skips, skip);
    return true;
}

bool import_row_drop(struct import_log *log, struct import_row *row, const char *why)
{
    g_ptr_array_remove(log->rows, row);
    return import_log_skip(log, why);
}

void import_log_note(struct import_log *log, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *note = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    for (guint i = 0; i < log->notes->len; i++)
        if (strcmp(g_ptr_array_index(log->notes, i), note) == 0) {
            g_free(note);
            return;
        }
    g_ptr_array_add(log->notes, note);
}

char *import_log_keep(struct import_log *log, const char *text, gssize length)
{
    return g_string_chunk_insert_len(log->texts, text, length);
}

struct import_log *import_log_new(const char *source)
{
    struct import_log *log = g_new0(struct import_log, 1);
    log->source = g_utf8_make_valid(source, -1);
    log->texts = g_string_chunk_new(4096);
    log->rows = g_ptr_array_new_with_free_func((GDestroyNotify)import_row_free);
    log->skips = g_array_new(FALSE, FALSE, sizeof(struct import_skip));
    log->notes = g_ptr_array_new_with_free_func(g_free);
    log->unknown = g_array_new(FALSE, FALSE, sizeof(struct import_unknown));
    return log;
}

void import_log_free(struct import_log *log)
{
    if (!log) return;
    g_ptr_array_unref(log->rows);
    g_array_unref(log->skips);
    g_ptr_array_unref(log->notes);
    g_array_unref(log->unknown);
    g_string_chunk_free(log->texts);
    g_free(log->source);
    g_free(log);
}
