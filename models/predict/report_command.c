/* report_command.c - eptwin report: reads records, and writes one HTML page or text.
 *
 * Knows options and files, and finds the cluster file of a record's cluster: one given by --cluster, or one that
 * ships with eptwin. */
#include <glib.h>
#include <string.h>

#include "models/predict/machines.h"
#include "reports/record.h"
#include "reports/sweep_results.h"
#include "reports/report.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/version.h"

static const char report_about[] =
    "Shows records: times and bandwidths of each phase (predicted and measured side by side if both are given),\n"
    "bounds, busy shares, the spread over ranks and the sources of the numbers.  A measurement is shown with the\n"
    "first prediction of the same case.  The page is one self-contained file.\n"
    "\n"
    "  eptwin report report.html predicted.csv measured.csv\n"
    "  eptwin report --text predicted.csv measured.csv\n"
    "  eptwin report --output report.html *.csv\n"
    "  eptwin report report.html sweep.csv\n"
    "\n"
    "Results of `eptwin sweep` become curves, the Pareto front of SMs and time, and the best points.  A step\n"
    "shows what overlaps on the streams of a few ranks.  A prediction is shown with a drawing of its cluster,\n"
    "which highlights the bottleneck; the cluster must be in `eptwin cluster list` or given with --cluster.";

enum { REPORT_TEXT_WIDTH = 100, REPORT_FILE_BYTES_MAX = 256 << 20 };

struct report_run {
    char *output;
    gboolean text;
    char **clusters;
    char **paths;
    guint first, count; /* the records are `count` paths from paths[first] on */
};

static bool report_run_parse(struct report_run *run, int argc, char **argv, GError **error)
{
    GOptionEntry entries[] = {
        COMMAND_LINE_OUTPUT(&run->output, "Write to FILE ('-': standard output)"),
        { "text", 0, 0, G_OPTION_ARG_NONE, &run->text, "Write text for a terminal instead of HTML", NULL },
        { "cluster", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &run->clusters,
          "A cluster file of the records, besides those that ship with eptwin (may be repeated)", "FILE" },
        { 0 },
    };
    const struct command_topic topics[] = { { "Options", entries, false }, { 0 } };
    const struct command_line line = {
        .name = "report", .arguments = "[OUT.html] RECORD...", .about = report_about, .topics = topics
    };
    const bool done = command_line_parse(&line, argc, argv, &run->paths, error);
    if (!done) return false;
    run->count = run->paths ? g_strv_length(run->paths) : 0;
    if (!run->output && !run->text && run->count > 0) {
        if (!g_str_has_suffix(run->paths[0], ".html") && strcmp(run->paths[0], "-") != 0)
            return error_input(error, "expected the page's name (OUT.html) first, or --output or --text, found '%s'",
                               run->paths[0]);
        run->output = run->paths[0];
        run->first = 1;
        run->count--;
    }
    if (run->count == 0) return error_input(error, "expected records, found none");
    return true;
}

/* The contents of the files: records with their paths, and sweeps. */
struct report_input {
    GPtrArray *records, *paths, *sweeps;
};

static void record_unref(gpointer record) { record_free(record); }
static void sweep_unref(gpointer table) { sweep_table_free(table); }

static bool report_input_add(struct report_input *input, const struct report_run *run, char *path, GError **error)
{
    size_t size_bytes;
    const char *source = strcmp(path, "-") == 0 ? "standard input" : path;
    /* A prediction may be named beside each of its measurements, as for compare. */
    if (g_ptr_array_find_with_equal_func(input->paths, path, g_str_equal, NULL)) return true;
    g_autofree char *text = whole_file_read(path, REPORT_FILE_BYTES_MAX, &size_bytes, error);
    if (!text) return false;
    if (sweep_results_told(text)) {
        if (run->text)
            return error_input(error, "--text: expected records, found the sweep %s (see `eptwin sweep show`)", source);
        struct sweep_table *table = sweep_table_parse(source, text, error);
        if (table) g_ptr_array_add(input->sweeps, table);
        return table != NULL;
    }
    struct record *record = record_parse(source, text, size_bytes, error);
    if (!record) return false;
    g_ptr_array_add(input->records, record);
    g_ptr_array_add(input->paths, path);
    return record_kind_check(record, source, error);
}

/* ---- the page ---- */

static struct drawing *machine_draw(void *context, const struct record *record)
{
    return machines_draw(context, record);
}

static bool report_run_write(const struct report_run *run, const struct report_input *input, struct machines *m,
                             GError **error)
{
    const struct report_machines machines = { machine_draw, m };
    g_autoptr(GPtrArray) cases = report_cases_new((const struct record *const *)input->records->pdata,
                                                  (const char *const *)input->paths->pdata, input->records->len);
    g_autoptr(GString) page = run->text ? report_text(cases, REPORT_TEXT_WIDTH)
                                        : report_html(cases, input->sweeps, &machines, eptwin_version());
    return whole_file_write(run->output ? run->output : "-", page->str, page->len, error);
}

int command_report(int argc, char **argv)
{
    struct report_run run = { 0 };
    struct report_input input = { g_ptr_array_new_with_free_func(record_unref), g_ptr_array_new(),
                                  g_ptr_array_new_with_free_func(sweep_unref) };
    GError *error = NULL;
    struct machines *machines = NULL;
    bool done = report_run_parse(&run, argc, argv, &error) && (machines = machines_new(run.clusters, &error)) != NULL;
    if (done && run.output)
        done = new_file_spares(run.output, (const char *const *)run.paths + run.first, run.count, &error);
    for (guint i = 0; done && i < run.count; i++)
        done = report_input_add(&input, &run, run.paths[run.first + i], &error);
    done = done && report_run_write(&run, &input, machines, &error);
    machines_free(machines);
    g_ptr_array_unref(input.records);
    g_ptr_array_unref(input.paths);
    g_ptr_array_unref(input.sweeps);
    return done ? EXIT_OK : command_line_fail("report", error);
}
