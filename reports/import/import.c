/* import.c - a log line by line, or document by document: the reader that knows each, unknown lines, and rows in
 * memory. Knows no program's format; those stand in *_log.c. */
#include "reports/import/import.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "reports/import/profile.h"
#include "reports/record.h"
#include "reports/whole_file.h"
#include "sim/stats.h"

enum { LOG_BYTES_MAX = 1 << 30, LINE_BYTES_MAX = 1 << 20 };

static const struct import_reader *const readers[] = {
    &import_deepep_v1, &import_deepep_v2, &import_deepxtrace,  &import_nccl_tests, &import_perftest,
    &import_nvshmem,   &import_osu,       &import_nvbandwidth, &import_mori,       &import_collectivex,
};
enum { READERS = sizeof readers / sizeof readers[0] };

static const char *const column_names[IMPORT_COLUMNS] = {
    [IMPORT_TOOL] = "tool",
    [IMPORT_TEST] = "test",
    [IMPORT_SET] = "set",
    [IMPORT_KERNEL] = "kernel",
    [IMPORT_NUM_RANKS] = "num-ranks",
    [IMPORT_RANKS_PER_NODE] = "ranks-per-node",
    [IMPORT_NUM_TOKENS] = "num-tokens",
    [IMPORT_HIDDEN] = "hidden",
    [IMPORT_NUM_TOPK] = "num-topk",
    [IMPORT_NUM_EXPERTS] = "num-experts",
    [IMPORT_NUM_TOPK_GROUPS] = "num-topk-groups",
    [IMPORT_DTYPE] = "dtype",
    [IMPORT_DISABLE_NVLINK] = "disable-nvlink",
    [IMPORT_HOOK] = "hook",
    [IMPORT_CACHED] = "cached",
    [IMPORT_EXPAND] = "expand",
    [IMPORT_MASKED_PLACES] = "masked-places",
    [IMPORT_NUM_SMS] = "num-sms",
    [IMPORT_NUM_BIAS] = "num-bias",
    [IMPORT_EXPERT_ALIGNMENT] = "expert-alignment",
    [IMPORT_NVL_CHUNK] = "nvl-chunk",
    [IMPORT_RDMA_CHUNK] = "rdma-chunk",
    [IMPORT_NVL_BUFFER] = "nvl-buffer",
    [IMPORT_RDMA_BUFFER] = "rdma-buffer",
    [IMPORT_COMBINE_NVL_CHUNK] = "combine-nvl-chunk",
    [IMPORT_COMBINE_RDMA_CHUNK] = "combine-rdma-chunk",
    [IMPORT_COMBINE_NVL_BUFFER] = "combine-nvl-buffer",
    [IMPORT_COMBINE_RDMA_BUFFER] = "combine-rdma-buffer",
    [IMPORT_BACKEND] = "backend",
    [IMPORT_MESSAGES] = "messages",
    [IMPORT_MESSAGE] = "size",
    [IMPORT_SIZE] = "size_bytes",
    [IMPORT_VALUE_TYPE] = "value_type",
    [IMPORT_OPERATOR] = "operator",
    [IMPORT_IN_PLACE] = "in_place",
    [IMPORT_SCOPE] = "scope",
    [IMPORT_DEVICE] = "device",
    [IMPORT_QPS] = "qps",
    [IMPORT_TX_DEPTH] = "tx_depth",
    [IMPORT_MTU] = "mtu",
    [IMPORT_CONNECTION] = "connection",
    [IMPORT_LINK] = "link",
    [IMPORT_MEMORY] = "memory",
    [IMPORT_ITERATIONS] = "iterations",
    [IMPORT_RUN_OPTIONS] = "run_options",
    [IMPORT_PHASE] = "phase",
    [IMPORT_LAYER] = "layer",
    [IMPORT_PEER] = "peer",
    [IMPORT_METRIC] = "metric",
    [IMPORT_COUNTED] = "counted",
    [IMPORT_TIMED] = "timed",
};

static const char *const number_names[IMPORT_NUMBERS] = {
    [IMPORT_US] = "measured_us",
    [IMPORT_US_MIN] = "time_us_min",
    [IMPORT_US_MAX] = "time_us_max",
    [IMPORT_LOGICAL_RDMA_GBS] = "logical_rdma_gbs",
    [IMPORT_LOGICAL_NVL_GBS] = "logical_nvl_gbs",
    [IMPORT_NATIVE_GBS] = "native_gbs",
    [IMPORT_NATIVE_BUS_GBS] = "native_bus_gbs",
    [IMPORT_NATIVE_PEAK_GBS] = "native_peak_gbs",
    [IMPORT_NATIVE_CYCLES] = "native_cycles",
    [IMPORT_COUNTED_BYTES] = "counted_bytes",
};

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

void import_row_number(struct import_row *row, enum import_number number, double value)
{
    row->number[number] = isfinite(value) && value > 0 ? value : NAN;
}

/* The fields by which two rows are of one case and phase. */
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

/* The median over ranks of the medians of each rank's rows (sorted by rank); NAN without any. */
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

GPtrArray *import_rows_merge(const GPtrArray *rows)
{
    g_autoptr(GHashTable) group_of = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    for (guint i = 0; i < rows->len; i++) {
        struct import_row *row = g_ptr_array_index(rows, i);
        char *key = row_key(row);
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
    GPtrArray *merged = g_ptr_array_new_with_free_func((GDestroyNotify)import_row_free);
    for (guint i = 0; i < groups->len; i++) g_ptr_array_add(merged, group_merge(g_ptr_array_index(groups, i)));
    return merged;
}

uint32_t import_bus_ranks(double algorithm_gbs, double bus_gbs)
{
    if (!(algorithm_gbs >= 1) || !(bus_gbs < algorithm_gbs)) return 0; /* too few digits, or no such factor */
    const double ranks = algorithm_gbs / (algorithm_gbs - bus_gbs);
    const double doubt = ranks * ranks * 0.01 / algorithm_gbs; /* of two digits behind the point */
    return doubt < 0.4 && fabs(ranks - round(ranks)) <= doubt + 0.01 ? (uint32_t)round(ranks) : 0;
}

/* ---- facts in a log besides its rows ---- */

void import_log_skip(struct import_log *log, const char *why)
{
    for (guint i = 0; i < log->skips->len; i++) {
        struct import_skip *skip = &g_array_index(log->skips, struct import_skip, i);
        if (strcmp(skip->why, why) != 0) continue;
        skip->count++;
        return;
    }
    const struct import_skip skip = { .why = g_strdup(why), .count = 1, .line = log->line };
    g_array_append_val(log->skips, skip);
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

static void unknown_add(struct import_log *log, const char *line)
{
    log->unknown_count++;
    if (log->unknown->len >= IMPORT_UNKNOWN_SHOWN) return;
    g_autofree char *start = g_strndup(line, IMPORT_UNKNOWN_TEXT);
    struct import_unknown unknown = { .line = log->line, .text = g_utf8_make_valid(start, -1) };
    for (char *c = unknown.text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    g_strstrip(unknown.text);
    g_array_append_val(log->unknown, unknown);
}

static void skip_clear(void *skip) { g_free(((struct import_skip *)skip)->why); }
static void unknown_clear(void *unknown) { g_free(((struct import_unknown *)unknown)->text); }

struct import_log *import_log_new(const char *source)
{
    struct import_log *log = g_new0(struct import_log, 1);
    log->source = g_utf8_make_valid(source, -1);
    log->rows = g_ptr_array_new_with_free_func((GDestroyNotify)import_row_free);
    log->skips = g_array_new(FALSE, FALSE, sizeof(struct import_skip));
    g_array_set_clear_func(log->skips, skip_clear);
    log->notes = g_ptr_array_new_with_free_func(g_free);
    log->unknown = g_array_new(FALSE, FALSE, sizeof(struct import_unknown));
    g_array_set_clear_func(log->unknown, unknown_clear);
    return log;
}

void import_log_free(struct import_log *log)
{
    if (!log) return;
    g_ptr_array_unref(log->rows);
    g_array_unref(log->skips);
    g_ptr_array_unref(log->notes);
    g_array_unref(log->unknown);
    g_free(log->source);
    g_free(log);
}

/* ---- text ---- */

/* Offers a line to the reader that took the line before, then to all others; returns the reader that took it, or -1. */
static int line_offer(void **state, struct import_log *log, const char *line, int last)
{
    if (last >= 0 && readers[last]->line && readers[last]->line(state[last], log, line)) return last;
    for (int i = 0; i < READERS; i++)
        if (i != last && readers[i]->line && readers[i]->line(state[i], log, line)) return i;
    return -1;
}

static void text_read(struct import_log *log, char *text, size_t size_bytes)
{
    void *state[READERS];
    for (int i = 0; i < READERS; i++) state[i] = g_malloc0(MAX(readers[i]->state_bytes, 1));
    int last = -1;
    char *at = text;
    for (char *end = text + size_bytes; at < end;) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t line_bytes = (size_t)((newline ? newline : end) - at);
        log->line++;
        at[line_bytes] = '\0';
        const char *line = line_bytes <= LINE_BYTES_MAX ? import_line_clean(at, line_bytes) : NULL;
        if (!line) import_log_skip(log, "longer than 1 MiB");
        else if (*line) {
            const int taken = line_offer(state, log, line, last);
            if (taken >= 0) last = taken;
            else if (line[strspn(line, "-*=_ ")]) unknown_add(log, line); /* a rule says nothing */
        }
        at += line_bytes + 1;
    }
    log->line_count = log->line;
    for (int i = 0; i < READERS; i++) {
        if (readers[i]->end) readers[i]->end(state[i], log);
        g_free(state[i]);
    }
}

/* ---- JSON ---- */

/* perftest's variant for classes of service has a key without quotes: not JSON, but plain. */
static char *json_repair(const char *text)
{
    if (!strstr(text, "\nsl:")) return NULL;
    g_auto(GStrv) part = g_strsplit(text, "\nsl:", 0);
    return g_strjoinv("\n\"sl\":", part);
}

static bool json_take(struct import_log *log, const json_t *root)
{
    for (int i = 0; i < READERS; i++)
        if (readers[i]->json && readers[i]->json(log, root)) return true;
    return false;
}

static uint32_t lines_count(const char *text, size_t size_bytes)
{
    uint32_t count = 0;
    for (size_t i = 0; i < size_bytes; i++) count += text[i] == '\n';
    return count;
}

/* One document, or several one after another. */
static bool json_read(struct import_log *log, const char *text, size_t size_bytes, GError **error)
{
    size_t at = 0;
    log->line = 1;
    for (;;) {
        const size_t blank = strspn(text + at, " \t\r\n");
        log->line += lines_count(text + at, blank);
        at += blank;
        if (at >= size_bytes) break;
        json_error_t failure;
        json_t *root =
            json_loadb(text + at, size_bytes - at, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &failure);
        if (!root) {
            g_set_error(error, IMPORT_ERROR, IMPORT_ERROR_FORMAT, "%s:%u: expected JSON, found %s", log->source,
                        log->line + (uint32_t)MAX(failure.line, 1) - 1, failure.text);
            return false;
        }
        if (!json_take(log, root)) unknown_add(log, "a JSON document of none of the known programs");
        json_decref(root);
        const size_t used = (size_t)failure.position;
        log->line += lines_count(text + at, used);
        at += MAX(used, 1);
    }
    log->line_count = log->line;
    return true;
}

struct import_log *import_log_parse(const char *source, char *text, size_t size_bytes, GError **error)
{
    struct import_log *log = import_log_new(source);
    const size_t mark = g_str_has_prefix(text, "\xef\xbb\xbf") ? 3 : 0;
    const bool json = text[mark + strspn(text + mark, " \t\r\n")] == '{' && strlen(text) == size_bytes;
    bool good = true;
    if (json) {
        g_autofree char *repaired = json_repair(text + mark);
        const char *document = repaired ? repaired : text + mark;
        good = json_read(log, document, strlen(document), error);
    } else {
        text_read(log, text + mark, size_bytes - mark);
    }
    if (good) return log;
    import_log_free(log);
    return NULL;
}

/* The command that reads a log of a machine, not of a measurement; else "". */
static const char *advice(const struct import_unknown *first)
{
    static const char *const marks[] = { "<system", "<topology", "# Topology file", "vendid=", "CA '", "GPU0", "==(" };
    for (size_t i = 0; first && i < G_N_ELEMENTS(marks); i++)
        if (strstr(first->text, marks[i])) return "; `eptwin probe` reads what tools say of machines";
    return "";
}

struct import_log *import_log_read(const char *path, GError **error)
{
    size_t size_bytes;
    if (profile_begins(path)) return profile_log_read(path, error);
    char *text = whole_file_read(path, LOG_BYTES_MAX, &size_bytes, error);
    if (!text) return NULL;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    struct import_log *log = import_log_parse(name, text, size_bytes, error);
    g_free(text);
    if (!log || log->rows->len) return log;
    const struct import_unknown *first = log->unknown->len ? (const void *)log->unknown->data : NULL;
    g_autofree char *where = first ? g_strdup_printf(" (line %u: \"%s\")", first->line, first->text) : g_strdup("");
    g_set_error(error, IMPORT_ERROR, IMPORT_ERROR_NOTHING,
                "%s: expected a measurement of DeepEP, DeepXTrace, nccl-tests, perftest, "
                "NVSHMEM, OSU, nvbandwidth, MORI or CollectiveX, found none in %u lines%s%s",
                name, log->line_count, where, advice(first));
    import_log_free(log);
    return NULL;
}
