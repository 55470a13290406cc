/* validate_command.c - eptwin validate: reads measured cases, and writes the same rows with predictions and the
 * distribution of the error.  Knows options, files and exit statuses.  The work is in validate_*.c. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "models/predict/estimate.h"
#include "models/predict/validate.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"

static const char validate_about[] =
    "Predicts every row of a CSV table of measured cases and reports the errors.\n"
    "\n"
    "  eptwin validate cases.csv --cluster h800-cx7 --output errors.csv\n"
    "  eptwin validate cases.csv --cluster h200 --by set --by num-sms -j 4 > errors.csv";

static const char validate_details[] =
    "Columns have the names of the options above without the dashes, or these:\n"
    "\n"
    "  phase           the measured phase: dispatch, combine, notify, ...; with + the sum of several:\n"
    "                  cached_notify_dispatch+dispatch\n"
    "  measured_us     its time, or\n"
    "  measured_gbs    its bandwidth; rows with neither are only predicted\n"
    "  measured_pct    or how long ranks waited, in percent of its time (metric awaited_max_pct, ...),\n"
    "\n"
    "                  or how much longer the load of --compute took than alone (compute_slowdown_pct)\n"
    "  outside_us      time in the measurement outside these phases, such as between events and kernels\n"
    "  seeds           the measurement is the mean over this many draws, with --seed and the numbers after it\n"
    "  metric          the record's metric to compare with (default: time_us_median, over ranks; bandwidth:\n"
    "                  logical_rdma_gbs, within a node logical_nvl_gbs); native_... rows, which are\n"
    "                  figures of other tools, are not predicted\n"
    "\n"
    "An empty cell means the default.  An option given here is the default of all rows and replaces a '?'.  All\n"
    "other columns are labels.  No column may appear twice.  The output adds posted_by (who posts to NICs: a\n"
    "backend, ? for times of no backend, or node if all ranks are on one), predicted_us, predicted_gbs, error_pct\n"
    "and bottleneck. Rows with the same case and different phases are simulated once.\n"
    "\n"
    "The summary goes to standard output, or to standard error if the rows go there.  Exit status: 0 every row\n"
    "was predicted, 1 some could not be (each reported with its line), 2 bad input.";

struct validate_options {
    struct case_options base;
    char *output;
    char **by, **paths;
    int jobs;
};

static bool options_parse(struct validate_options *o, int argc, char **argv, GError **error)
{
    GOptionEntry entries[] = {
        COMMAND_LINE_JOBS(&o->jobs, "Worker processes; with few cases also threads (default: one per core)"),
        { "by", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->by, "Also summarize by this column or option (may be repeated)",
          "COLUMN" },
        COMMAND_LINE_OUTPUT(&o->output, "Output file of the rows (default '-': standard output)"),
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + 2] = { { "Options", entries, false } };
    const struct command_line line = { .name = "validate",
                                       .arguments = "CASES.csv",
                                       .about = validate_about,
                                       .details = validate_details,
                                       .topics = topics };
    case_topics(&o->base, topics + 1);
    if (!command_line_parse(&line, argc, argv, &o->paths, error)) return false;
    if (g_strv_length(o->paths) != 1)
        return error_input(error, "expected one table of cases, as in: eptwin validate cases.csv --cluster FILE");
    if (o->jobs == 0) o->jobs = (int)g_get_num_processors();
    return true;
}

/* Refuses a mistake in the command line, which would spoil all rows, before any row is simulated. */
static bool options_check(const struct validate_options *o, const struct validate_table *table, GError **error)
{
    for (char **by = o->by; by && *by; by++)
        if (validate_column_find(table, *by) < 0 && !case_has(*by))
            return error_input(error, "--by: expected a column of %s or an option, found '%s'", table->path, *by);
    if (o->output && !new_file_possible(o->output, error)) return false;
    return validate_cluster_named(&o->base, table, error);
}

static uint32_t native_count(const struct validate_table *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->row_count; i++) count += table->row[i].native;
    return count;
}

static bool results_write(const struct validate_options *o, const struct validate_table *table, uint32_t problems,
                          GError **error)
{
    const bool rows_to_stdout = !o->output || strcmp(o->output, "-") == 0;
    g_autoptr(GString) text = g_string_new(NULL);
    validate_table_append(table, text);
    const bool good = whole_file_write(rows_to_stdout ? "-" : o->output, text->str, text->len, error);
    g_string_truncate(text, 0);
    validate_summary_append(table, o->by, text);
    if (problems)
        g_string_append_printf(text, "%u of %u row%s could not be predicted\n", problems, table->row_count,
                               table->row_count == 1 ? "" : "s");
    const uint32_t native = native_count(table);
    if (native)
        g_string_append_printf(text, "%u row%s not predicted: figures of other tools (metric native_...)\n", native,
                               native == 1 ? "" : "s");
    if (good) fputs(text->str, rows_to_stdout ? stderr : stdout);
    return good;
}

/* Prints how long the predictions will take.  The rows of one job are one prediction. */
static void estimate_say(const struct validate_options *o, const struct validate_table *table)
{
    struct estimate_many many = { 0 };
    struct cluster *cluster = NULL;
    g_autofree bool *seen = g_new0(bool, table->job_count + 1);
    g_autoptr(GPtrArray) clusters = g_ptr_array_new_with_free_func((GDestroyNotify)cluster_free);
    const char *of_cluster = NULL;
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct validate_row *row = &table->row[i];
        const char *path = row->options.cluster;
        if (validate_row_idle(row) || seen[row->job] || !path) continue;
        seen[row->job] = true;
        if (g_strcmp0(path, of_cluster) != 0) {
            cluster = cluster_load(path, NULL);
            if (cluster) g_ptr_array_add(clusters, cluster);
            of_cluster = path;
        }
        if (!cluster) continue;
        struct case_options c = row->options;
        case_node_settle(&c, cluster->nvlink.gpus);
        estimate_many_add(&many, &c, cluster, 1);
    }
    estimate_many_print(&many, "validate", (uint32_t)o->jobs);
}

static int validate_run(const struct validate_options *o)
{
    GError *error = NULL;
    g_autoptr(validate_table) table = validate_table_read(o->paths[0], &o->base, &error);
    if (!table) return command_line_fail("validate", error);
    if (table->warning) fputs(table->warning, stderr);
    if (!options_check(o, table, &error)) return command_line_fail("validate", error);
    estimate_say(o, table);
    if (!validate_table_run(table, (uint32_t)o->jobs, &error)) return command_line_fail("validate", error);
    const uint32_t problems = validate_problems_print(table);
    if (!results_write(o, table, problems, &error)) return command_line_fail("validate", error);
    return problems ? EXIT_RUN_FAILED : EXIT_OK;
}

int command_validate(int argc, char **argv)
{
    GError *error = NULL;
    struct validate_options options = { 0 };
    case_init(&options.base);
    const bool parsed = options_parse(&options, argc, argv, &error);
    const int status = parsed ? validate_run(&options) : command_line_fail("validate", error);
    return status;
}
