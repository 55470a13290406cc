/* import_command.c - eptwin import: reads logs of other programs, and writes a table of measured cases or a record.
 * Knows options, files and what a case is.  The readers are in reports/import/. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "models/case.h"
#include "reports/import/import_table.h"
#include "reports/record.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/error.h"
#include "sim/stats.h"
#include "sim/version.h"

static const char import_about[] =
    "Converts measurements of other programs to a table of cases, which validate predicts row by row, or to the\n"
    "record of one case, which compare compares with a prediction.  It recognizes by content: console output of\n"
    "DeepEP's tests (V1 intranode, internode, low latency; V2), matrices of DeepXTrace, nccl-tests (console,\n"
    "JSON), perftest (console and --out_json), NVSHMEM's perftest, OSU, nvbandwidth (console and JSON), MORI's\n"
    "tuning rules, and profiles: PyTorch's JSON (also .gz), Nsight Systems' SQLite export.\n"
    "\n"
    "  eptwin import test.log --output measured.csv\n"
    "  eptwin validate measured.csv --cluster h800-cx7\n"
    "\n"
    "  eptwin import test.log --num-ranks 16 --record measured.csv\n"
    "  eptwin simulate --cluster h800-cx7 --kernel normal --num-ranks 16 --cached --output predicted.csv\n"
    "  eptwin compare predicted.csv measured.csv";

static const char import_details[] =
    "Options of the run that a log states become columns.  Options given here fill in those that it does not\n"
    "state; in rows of DeepEP's kernels they also replace stated ones, except the kernel.  A '?' marks a missing\n"
    "option without which the row would mislead, such as the ranks of a run over several nodes: validate refuses\n"
    "the row unless the option is given there.\n"
    "\n"
    "Bandwidths of different definitions stay in different columns: logical_rdma_gbs and logical_nvl_gbs count\n"
    "like DeepEP's tests, including local tokens; native_gbs is what a tool printed (busbw: native_bus_gbs), in\n"
    "GB/s of 1e9 bytes; 'counted' says which bytes.  'timed' says what was timed: a kernel, a call between\n"
    "events, half a round trip. Each case becomes one row with medians over ranks, unless --per-rank is given.\n"
    "With --kernel p2p, streams of puts and gets that perftest and NVSHMEM timed become rows of that kernel\n"
    "between two nodes, for validate and diagnose; perftest posts from a CPU (backend verbs).  In profiles it\n"
    "tells NCCL EP's (nccl-ll, nccl-ht), Hybrid-EP's, TensorRT-LLM's (one-sided) and MoRI's kernels (mori).\n"
    "\n"
    "A summary goes to standard output, or to standard error if the table goes there: what the logs contain, what\n"
    "they do not state, what was left out, and which lines were not recognized.  Exit status: 0 something was\n"
    "read, 2 bad input.";

struct import_arguments {
    struct case_options given;
    char *output, *record, *format;
    enum record_format record_format;
    int case_number;
    gboolean per_rank;
    char **paths;
};

static bool import_parse(struct import_arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry own[] = {
        COMMAND_LINE_OUTPUT(&a->output, "Output file of the table (default '-': standard output)"),
        { "record", 0, 0, G_OPTION_ARG_FILENAME, &a->record, "Write the record of one case instead", "FILE" },
        { "format", 0, 0, G_OPTION_ARG_STRING, &a->format, "Format of the record: csv (default), json or collectivex",
          "NAME" },
        { "case", 0, 0, G_OPTION_ARG_INT, &a->case_number, "With --record: which of several cases", "N" },
        { "per-rank", 0, 0, G_OPTION_ARG_NONE, &a->per_rank, "Write a row for each rank and line of the logs", NULL },
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + 2] = { { "Options", own, false } };
    const struct command_line line = {
        .name = "import", .arguments = "LOG...", .about = import_about, .details = import_details, .topics = topics
    };
    case_topics(&a->given, topics + 1);
    if (!command_line_parse(&line, argc, argv, &a->paths, error)) return false;
    if (!a->paths[0]) return error_input(error, "expected a log, as in: eptwin import test.log --output measured.csv");
    if (a->format && !record_format_parse(a->format, &a->record_format, error)) return false;
    if (!a->record && (a->format || a->case_number))
        return error_input(error, "--%s: expected --record with it, found none", a->format ? "format" : "case");
    if (a->record && a->output) return error_input(error, "--record: expected alone, found --output, too");
    return true;
}

static GArray *given_options(const struct case_options *given)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(struct import_given));
    for (uint32_t i = 0; case_option_name(i); i++) {
        if (!case_option_given(given, case_option_name(i))) continue;
        const struct import_given option = { case_option_name(i), case_option_text(given, i) };
        g_array_append_val(list, option);
    }
    return list;
}

/* ---- the record of one case ---- */

/* Records a phase's times and bandwidths by rank.  A rank with several lines counts with the mean of them.  The slowest
 * rank's time is known if all ranks were timed, or if the log says that it is this one. */
static void phase_record(struct record *record, const GPtrArray *rows, const char *phase, uint32_t ranks_all)
{
    static const struct {
        enum import_number number;
        const char *metric, *unit;
    } kept[] = {
        { IMPORT_US, "time_us", "us" },
        { IMPORT_LOGICAL_RDMA_GBS, "logical_rdma_gbs", "GB/s" },
        { IMPORT_LOGICAL_NVL_GBS, "logical_nvl_gbs", "GB/s" },
    };
    for (size_t k = 0; k < G_N_ELEMENTS(kept); k++) {
        g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
        g_autofree double *of_rank = g_new(double, rows->len), *value = g_new(double, rows->len);
        uint32_t ranks = 0;
        bool slowest = false;
        for (guint i = 0; i < rows->len; i++) {
            const struct import_row *row = g_ptr_array_index(rows, i);
            if (strcmp(row->cell[IMPORT_PHASE], phase) != 0 || !(row->number[kept[k].number] > 0) ||
                !g_hash_table_add(seen, GINT_TO_POINTER(row->rank)))
                continue;
            uint32_t count = 0;
            slowest |= row->cell[IMPORT_TIMED] && strstr(row->cell[IMPORT_TIMED], "slowest rank");
            for (guint j = i; j < rows->len; j++) {
                const struct import_row *other = g_ptr_array_index(rows, j);
                if (strcmp(other->cell[IMPORT_PHASE], phase) == 0 && other->rank == row->rank &&
                    other->number[kept[k].number] > 0)
                    value[count++] = other->number[kept[k].number];
            }
            of_rank[ranks++] = stats_mean(value, count);
            if (row->rank != IMPORT_NO_RANK)
                record_add(record, phase, row->rank, kept[k].metric, of_rank[ranks - 1], kept[k].unit);
        }
        if (!ranks) continue;
        record_add(record, phase, RECORD_ALL, kept[k].metric, stats_mean(of_rank, ranks), kept[k].unit);
        if (kept[k].number != IMPORT_US) continue;
        record_add(record, phase, RECORD_ALL, "time_us_median", stats_median(of_rank, ranks), "us");
        if (ranks < ranks_all && !slowest) {
            record_add(record, phase, RECORD_ALL, "ranks_measured", ranks, "");
            continue;
        }
        record_add(record, phase, RECORD_ALL, "time_us_max", stats_max(of_rank, ranks), "us");
        record_add(record, phase, RECORD_ALL, "time_us_min", stats_min(of_rank, ranks), "us");
    }
}

/* Records what the phase's times are times of, and which bytes its bandwidths count. */
static void phase_words(struct record *record, const struct import_row *row)
{
    const char *phase = row->cell[IMPORT_PHASE];
    if (row->cell[IMPORT_TIMED]) record_add_text(record, phase, RECORD_ALL, "timed", row->cell[IMPORT_TIMED]);
    if (row->cell[IMPORT_COUNTED]) record_add_text(record, phase, RECORD_ALL, "counted", row->cell[IMPORT_COUNTED]);
}

/* Sets the case's options from the user's options and then from the row, with the checks of simulate. */
static bool case_of_row(const struct import_row *row, const struct case_options *given, struct case_options *c,
                        GError **error)
{
    *c = *given;
    for (int i = IMPORT_OPTION_FIRST; i <= IMPORT_OPTION_LAST; i++) {
        const char *cell = row->cell[i];
        if (!cell) continue;
        if (strcmp(cell, "?") == 0)
            error_input(error, "%s:%u: %s: the log does not state it: give --%s", row->source, row->line,
                        import_column_name(i), import_column_name(i));
        else if (case_set(c, import_column_name(i), cell, error)) continue;
        else g_prefix_error(error, "%s:%u: ", row->source, row->line);
        return false;
    }
    return true;
}

/* Records rows that name a layer once more, each under its phase and layer. */
static void layers_record(struct record *record, const GPtrArray *rows, uint32_t ranks)
{
    g_autoptr(GPtrArray) layered = g_ptr_array_new_with_free_func((GDestroyNotify)import_row_free);
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < rows->len; i++) {
        const struct import_row *row = g_ptr_array_index(rows, i);
        if (!row->cell[IMPORT_LAYER]) continue;
        struct import_row *copy = import_row_copy(row);
        g_autofree char *phase = g_strdup_printf("%s_layer%s", row->cell[IMPORT_PHASE], row->cell[IMPORT_LAYER]);
        import_row_word(copy, IMPORT_PHASE, phase);
        g_ptr_array_add(layered, copy);
    }
    for (guint i = 0; i < layered->len; i++) {
        const struct import_row *row = g_ptr_array_index(layered, i);
        if (g_hash_table_add(seen, row->cell[IMPORT_PHASE]))
            phase_record(record, layered, row->cell[IMPORT_PHASE], ranks);
    }
}

static void case_words(struct record *record, const struct import_row *row)
{
    record_set(record, "kind", "import");
    record_set(record, "version", "%s", eptwin_version());
    record_set(record, "log", "%s", row->source);
    record_set(record, "tool", "%s, %s", row->cell[IMPORT_TOOL], row->cell[IMPORT_TEST]);
    if (row->cell[IMPORT_RUN_OPTIONS]) record_set(record, "run-options", "%s", row->cell[IMPORT_RUN_OPTIONS]);
}

static bool record_case_write(const struct import_arguments *a, const GPtrArray *rows, GError **error)
{
    const struct import_row *first = g_ptr_array_index(rows, 0);
    struct case_options c;
    if (!case_of_row(first, &a->given, &c, error)) return false;
    g_autoptr(record) record = record_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    case_words(record, first);
    case_record(&c, record);
    const uint32_t ranks = case_ranks(&c);
    for (guint i = 0; i < rows->len; i++) {
        const struct import_row *row = g_ptr_array_index(rows, i);
        if (!g_hash_table_add(seen, row->cell[IMPORT_PHASE])) continue;
        phase_record(record, rows, row->cell[IMPORT_PHASE], ranks);
        phase_words(record, row);
    }
    layers_record(record, rows, ranks);
    return record_write(record, a->record, a->record_format, error);
}

/* Writes the record of the only case, or of the one that --case names. */
static bool record_output(const struct import_arguments *a, const GPtrArray *rows, GError **error)
{
    g_autoptr(GPtrArray) cases = import_cases(rows);
    const int number = a->case_number ? a->case_number : 1;
    if (cases->len == 0) error_input(error, "--record: expected a case of dispatch or combine, found none");
    else if ((cases->len > 1 && !a->case_number) || number < 1 || (guint)number > cases->len) {
        g_autoptr(GString) list = g_string_new(NULL);
        import_cases_append(cases, list);
        fputs(list->str, stderr);
        g_autofree char *found = a->case_number ? g_strdup_printf("%d", a->case_number) : g_strdup("none");
        error_input(error, "--case: expected a number from 1 to %u, the cases above, found %s", cases->len, found);
    } else {
        return record_case_write(a, g_ptr_array_index(cases, number - 1), error);
    }
    return false;
}

/* ---- all together ---- */

static bool table_output(const struct import_arguments *a, const GPtrArray *rows, const GArray *given, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    import_table_append(rows, (const struct import_given *)(const void *)given->data, given->len, text);
    return whole_file_write(a->output ? a->output : "-", text->str, text->len, error);
}

static void summary_print(const GPtrArray *logs, const GPtrArray *rows, const char *said, FILE *out)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < logs->len; i++) import_summary_append(g_ptr_array_index(logs, i), rows, text);
    g_string_append(text, said);
    g_autoptr(GPtrArray) cases = import_cases(rows);
    import_cases_append(cases, text);
    fputs(text->str, out);
}

static bool import_run(const struct import_arguments *a, GError **error)
{
    g_autoptr(GPtrArray) logs = g_ptr_array_new_with_free_func((GDestroyNotify)import_log_free);
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    for (char **path = a->paths; *path; path++) {
        struct import_log *log = import_log_read(*path, error);
        if (!log) return false;
        g_ptr_array_add(logs, log);
        for (guint i = 0; i < log->rows->len; i++) g_ptr_array_add(all, g_ptr_array_index(log->rows, i));
    }
    g_autoptr(GArray) given = given_options(&a->given);
    g_autoptr(GString) said = g_string_new(NULL);
    import_rows_fill(all, (const struct import_given *)(const void *)given->data, given->len, said);
    g_autoptr(GPtrArray) merged = import_rows_merge(all);
    const bool to_stdout = strcmp(a->record ? a->record : a->output ? a->output : "-", "-") == 0;
    const bool good =
        a->record ? record_output(a, all, error) : table_output(a, a->per_rank ? all : merged, given, error);
    if (good) summary_print(logs, merged, said->str, to_stdout ? stderr : stdout);
    for (guint i = 0; i < given->len; i++) g_free((char *)g_array_index(given, struct import_given, i).text);
    return good;
}

int command_import(int argc, char **argv)
{
    GError *error = NULL;
    struct import_arguments a = { 0 };
    case_init(&a.given);
    const bool good = import_parse(&a, argc, argv, &error) && import_run(&a, &error);
    return good ? EXIT_OK : command_line_fail("import", error);
}
