/* nvshmem_log.c - NVSHMEM's perftest (NVIDIA/nvshmem, perftest/common/utils.cu): tables, and the lines of
 * NVSHMEM_MACHINE_READABLE_OUTPUT.
 *
 * algbw is the size over the latency.  busbw is algbw times the factor of nccl-tests.  If busbw is 0 in a whole
 * table, the run had one PE, and nothing crossed a link.  GB is 1e9 bytes.  The size of alltoall, fcollect and
 * reducescatter counts all PEs. */
#include "reports/import/import.h"

#include <math.h>
#include <string.h>

struct nvshmem_state {
    char *test, *run;
    struct import_titles titles;
    GPtrArray *table; /* rows of the table that is being read; NULL: none */
    double size_last; /* size of the table's last row; a line whose size is no larger is not a row */
};

static const struct import_part phases[] = { { "alltoall", "alltoall" },
                                             { "fcollect", "all_gather" },
                                             { "reducescatter", "reduce_scatter" },
                                             { "reduction", "all_reduce" },
                                             { "bcast", "broadcast" },
                                             { "broadcast", "broadcast" },
                                             { "put", "put" },
                                             { "_p_", "put" },
                                             { "_st_", "put" },
                                             { "get", "get" },
                                             { "_g_", "get" },
                                             { "signal", "signal" },
                                             { "atomic", "atomic" },
                                             { "_at_", "atomic" },
                                             { "barrier", "barrier" },
                                             { "sync", "barrier" },
                                             { NULL, NULL } };

static const char *phase_of(const char *test)
{
    const char *phase = import_part_find(phases, test);
    return phase ? phase : test ? "operation" : "collective";
}

static const struct import_meaning meanings[] = { { "latency", "(us)", IMPORT_US, 1 },
                                                  { "min_lat(us)", NULL, IMPORT_US_MIN, 1 },
                                                  { "max_lat(us)", NULL, IMPORT_US_MAX, 1 },
                                                  { "algbw(GB/s)", NULL, IMPORT_NATIVE_GBS, 1 },
                                                  { "", "BW (GB/s", IMPORT_NATIVE_GBS, 1 },
                                                  { "busbw(GB/s)", NULL, IMPORT_NATIVE_BUS_GBS, 1 },
                                                  { NULL, NULL, 0, 0 } };

/* The largest of a table's numbers; 0 if all are 0. */
static double table_most(const struct nvshmem_state *s, enum import_number number)
{
    double most = 0;
    for (guint i = 0; i < s->table->len; i++)
        most = fmax(most, ((const struct import_row *)g_ptr_array_index(s->table, i))->number[number]);
    return most;
}

static bool has_bus(const struct nvshmem_state *s)
{
    for (uint32_t i = 0; i < s->titles.count; i++)
        if (strcmp(s->titles.title[i], "busbw(GB/s)") == 0) return true;
    return false;
}

/* Ends a table: sets the number of PEs, or adds a note if the run had only one PE. */
static void table_end(struct nvshmem_state *s, struct import_log *log)
{
    if (s->table && s->table->len && has_bus(s)) {
        const char *phase = ((struct import_row *)g_ptr_array_index(s->table, 0))->cell[IMPORT_PHASE];
        const bool shared =
            strcmp(phase, "alltoall") == 0 || strcmp(phase, "all_gather") == 0 || strcmp(phase, "reduce_scatter") == 0;
        const double algorithm_gbs = table_most(s, IMPORT_NATIVE_GBS), bus_gbs = table_most(s, IMPORT_NATIVE_BUS_GBS);
        const uint32_t ranks = import_bus_ranks(algorithm_gbs, bus_gbs);
        if (bus_gbs == 0 && algorithm_gbs > 0)
            import_log_note(log, "NVSHMEM, %s: busbw is 0 throughout: a run of one PE, nothing crossed a link",
                            s->test ? s->test : phase);
        for (guint i = 0; shared && ranks && i < s->table->len; i++)
            import_row_count(g_ptr_array_index(s->table, i), IMPORT_NUM_RANKS, ranks);
    }
    if (s->table) g_ptr_array_unref(s->table);
    s->table = NULL;
    s->titles.count = 0;
    s->size_last = 0;
}

/* Reads a test's name right before a table's header: "#alltoall_device". */
static bool name_take(struct nvshmem_state *s, struct import_log *log, const char *line)
{
    const char *at = line + 1 + strspn(line + 1, " ");
    if (*line != '#' || !g_ascii_isalpha(*at) || strpbrk(at, " \t")) return false;
    static const struct import_part parts[] = { { "shmem_", "" },  { "_device", "" },   { "_on_stream", "" },
                                                { "device_", "" }, { "alltoall", "" },  { "fcollect", "" },
                                                { "bcast", "" },   { "reduction", "" }, { "reducescatter", "" },
                                                { "barrier", "" }, { "sync", "" },      { "broadcast", "" },
                                                { NULL, NULL } };
    if (!import_part_find(parts, at)) return false;
    table_end(s, log);
    s->test = import_log_keep(log, at, -1);
    return true;
}

static bool header_take(struct nvshmem_state *s, struct import_log *log, const char *line)
{
    if (!g_str_has_prefix(line, "size(B)")) return false;
    table_end(s, log);
    g_auto(GStrv) words = import_words(line, 2);
    import_titles_set(&s->titles, log, words);
    s->table = g_ptr_array_new();
    return true;
}

static void options_set(struct import_row *row, const struct nvshmem_state *s, double size)
{
    import_row_size(row, size);
    import_row_word(row, IMPORT_RUN_OPTIONS, s->run);
}

/* Sets the number or word that the word's column stands for.  False: a number was expected, and the word is not one. */
static bool word_take(struct import_row *row, const char *title, const char *word)
{
    const struct import_meaning *meaning = import_meaning_find(meanings, title);
    double value;
    if (strcmp(title, "type") == 0) import_row_word(row, IMPORT_VALUE_TYPE, word);
    if (strcmp(title, "redop") == 0) import_row_word(row, IMPORT_OPERATOR, word);
    if (strcmp(title, "scope") == 0) import_row_word(row, IMPORT_SCOPE, word);
    if (!strchr(title, '(') || g_str_has_prefix(title, "size")) return true;
    if (!import_number_read(word, &value)) return false;
    if (meaning) import_row_number(row, meaning->number, value * meaning->scale);
    return true;
}

static bool row_take(struct nvshmem_state *s, struct import_log *log, const char *line)
{
    if (!s->table || !g_ascii_isdigit(*line)) return false;
    g_auto(GStrv) words = import_words(line, 1);
    const uint32_t count = g_strv_length(words);
    double size;
    if (!import_number_read(words[0], &size) || count > s->titles.count || size <= s->size_last) return false;
    s->size_last = size;
    if (count < s->titles.count) return import_log_skip(log, "line cut short");
    struct import_row *row = import_row_add(log, "nvshmem", s->test ? s->test : "unnamed", phase_of(s->test));
    options_set(row, s, size);
    bool good = true;
    for (uint32_t i = 1; i < count; i++) good = word_take(row, s->titles.title[i], words[i]) && good;
    const bool latency = row->number[IMPORT_US] > 0, rate = row->number[IMPORT_NATIVE_GBS] > 0;
    import_row_word(row, IMPORT_METRIC, rate && !latency ? "native_gbs" : "native_us");
    import_row_word(row, IMPORT_COUNTED, "size as printed");
    if (good && (latency || rate)) {
        g_ptr_array_add(s->table, row);
        return true;
    }
    return import_row_drop(log, row, "line without a latency or bandwidth of a known unit");
}

/* Reads "&&&& PERF shmem_put_latency___Thread___size__8___latency 1.234560 -us". */
static bool perf_take(struct nvshmem_state *s, struct import_log *log, const char *line)
{
    const char *at = import_scan(line, "&&&& PERF ");
    if (!at || !strstr(at, "___size__")) return false;
    g_auto(GStrv) words = import_words(at, 1);
    g_auto(GStrv) parts = g_strsplit(words[0], "___", 0);
    double size, value;
    if (g_strv_length(words) != 3 || g_strv_length(parts) != 4 || !g_str_has_prefix(parts[2], "size__") ||
        !import_number_read(parts[2] + 6, &size) || !import_number_read(words[1], &value))
        return false;
    const char *unit = words[2] + strspn(words[2], "+-");
    const bool latency = strcmp(unit, "us") == 0, rate = g_str_has_prefix(unit, "GB/s");
    if ((!latency && !rate) || !(value > 0))
        return import_log_skip(log, "line without a latency or bandwidth of a known unit");
    struct import_row *row = import_row_add(log, "nvshmem", parts[0], phase_of(parts[0]));
    options_set(row, s, size);
    if (strcmp(parts[1], "None") != 0) import_row_word(row, IMPORT_SCOPE, parts[1]);
    import_row_number(row, latency ? IMPORT_US : IMPORT_NATIVE_GBS, value);
    import_row_word(row, IMPORT_METRIC, latency ? "native_us" : "native_gbs");
    import_row_word(row, IMPORT_COUNTED, "size as printed");
    return true;
}

static bool other_take(struct nvshmem_state *s, struct import_log *log, const char *line)
{
    if (g_str_has_prefix(line, "min_size: ") && strstr(line, "iterations: ")) {
        s->run = import_log_keep(log, line, -1);
        return true;
    }
    static const char known[] = "Runtime options after parsing|Note: Above is full list|NVSHMEM v|mype: |"
                                "Job Name ";
    return import_begins(line, known);
}

static bool nvshmem_line(void *state, struct import_log *log, const char *line)
{
    struct nvshmem_state *s = state;
    return name_take(s, log, line) || header_take(s, log, line) || row_take(s, log, line) || perf_take(s, log, line) ||
           other_take(s, log, line);
}

static void nvshmem_end(void *state, struct import_log *log) { table_end(state, log); }

const struct import_reader import_nvshmem = {
    .name = "nvshmem",
    .state_bytes = sizeof(struct nvshmem_state),
    .line = nvshmem_line,
    .end = nvshmem_end,
};
