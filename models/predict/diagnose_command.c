/* diagnose_command.c - eptwin diagnose: reads measurements and the description of the cluster on which they were made,
 * and prints the likely cause of the difference. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "models/predict/diagnose.h"
#include "reports/import/profile.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"

static const char diagnose_about[] =
    "Finds the cause that best explains why measurements differ from what the cluster should reach.\n"
    "\n"
    "  eptwin import deepep.log --num-ranks 16 --output measured.csv\n"
    "  eptwin diagnose measured.csv --cluster h800-cx7\n"
    "  eptwin diagnose --list";

static const char diagnose_details[] =
    "MEASURED.csv is the output of import or replay, or a table for validate.  The cluster file describes the\n"
    "machine as it should be.\n"
    "\n"
    "Each known cause is simulated and all rows are predicted again.  Causes are ranked by the likelihood of the\n"
    "remaining error, and by how many public threads ended with them.  Rows that a cause makes worse contradict\n"
    "it.  If one cause leaves much unexplained, a second one is tried, too.  Rows of different sizes, phases and\n"
    "numbers of nodes distinguish causes; one row rarely does.  Records of replay --waits distinguish causes that\n"
    "make phases equally long, because they say whom ranks waited for.\n"
    "\n"
    "With --baseline GOOD.csv, measurements of the same machine without the fault in any of these forms, errors\n"
    "of the prediction cancel and smaller faults become visible.\n"
    "\n"
    "Diagnose never contradicts what rows state: which bytes a bandwidth counts ('counted'), GPU or host memory\n"
    "('memory'), who sends ('library', 'tool', the options backend and deepep).  Large tables are answered twice:\n"
    "first from a few rows and small cases, on standard error, then from all.\n"
    "\n"
    "Exit status: 0 success, 1 a row could not be predicted, 2 bad input.";

struct diagnose_options {
    struct case_options base;
    char **paths;
    char *baseline, *output;
    int jobs, most;
    gboolean list, flat, first;
    uint32_t rows; /* of the table that is diagnosed */
    GError *first_error;
    bool told; /* only the first answer was asked for, and it has been printed */
};

static bool options_parse(struct diagnose_options *o, int argc, char **argv, GError **error)
{
    GOptionEntry entries[] = {
        COMMAND_LINE_JOBS(&o->jobs, "Worker processes (default: one per core)"),
        { "baseline", 0, 0, G_OPTION_ARG_FILENAME, &o->baseline, "Measurements of the same machine without the fault",
          "GOOD.csv" },
        COMMAND_LINE_OUTPUT(&o->output,
                            "Write all causes with their probabilities to FILE as CSV ('-': standard output)"),
        { "most", 0, 0, G_OPTION_ARG_INT, &o->most, "Causes to show (default 3)", "N" },
        { "flat", 0, 0, G_OPTION_ARG_NONE, &o->flat, "Give all causes the same prior probability", NULL },
        { "first", 0, 0, G_OPTION_ARG_NONE, &o->first, "Stop after the first answer, from a few rows", NULL },
        { "list", 0, 0, G_OPTION_ARG_NONE, &o->list, "List the known causes and exit", NULL },
        { 0 },
    };
    struct command_topic topics[CASE_TOPICS + 2] = { { "Options", entries, false } };
    const struct command_line line = { .name = "diagnose",
                                       .arguments = "MEASURED.csv",
                                       .about = diagnose_about,
                                       .details = diagnose_details,
                                       .topics = topics };
    case_topics(&o->base, topics + 1);
    if (!command_line_parse(&line, argc, argv, &o->paths, error)) return false;
    if (o->list && *o->paths) return error_input(error, "--list: expected no table with it, found '%s'", *o->paths);
    if (!o->list && g_strv_length(o->paths) != 1)
        return error_input(error,
                           "expected one table of measurements, as in: eptwin diagnose measured.csv --cluster FILE");
    if (o->most < 1) return error_input(error, "--most: expected a whole number from 1, found %d", o->most);
    const char *const inputs[] = { o->list ? "-" : o->paths[0], o->baseline ? o->baseline : "-" };
    if (o->output && (!new_file_possible(o->output, error) || !new_file_spares(o->output, inputs, 2, error)))
        return false;
    if (!o->jobs) o->jobs = (int)g_get_num_processors();
    return true;
}

static void causes_print(void)
{
    for (const struct cause *c = diagnose_causes(); c->id; c++)
        printf("%-17s %s\n%18scheck:  %s\n%18schange: %s\n", c->id, c->text, "", c->check, "", c->change);
}

/* A table whose rows all have a cluster; NULL and *error if it cannot be used. */
static struct validate_table *table_open(const struct diagnose_options *o, const char *path, GError **error)
{
    if (profile_begins(path))
        return error_null(error, "%s: expected measured cases, found a profile: eptwin explain-trace %s --cluster FILE",
                          path, path);
    g_autoptr(validate_table) table = diagnose_table_read(path, &o->base, error);
    if (!table || !validate_cluster_named(&o->base, table, error)) return NULL;
    if (table->warning) fputs(table->warning, stderr);
    return g_steal_pointer(&table);
}

/* Prints the text, unless standard output gets the table. */
static bool diagnosis_print(const struct diagnose_options *o, const struct diagnosis *diagnosis,
                            const struct validate_table *table, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL), rows = g_string_new(NULL);
    diagnosis_table(diagnosis, rows);
    if (o->output && !whole_file_write(o->output, rows->str, rows->len, error)) return false;
    if (o->output && strcmp(o->output, "-") == 0) return true;
    diagnosis_text(diagnosis, table, (uint32_t)o->most, text);
    fputs(text->str, stdout);
    return true;
}

/* Prints the first answer: in full if only that was asked for, else in one line. */
static void first_told(const struct diagnosis *d, const struct validate_table *few, void *context)
{
    struct diagnose_options *o = context;
    GError *error = NULL;
    g_autoptr(GString) line = g_string_new(NULL);
    if (o->first) {
        o->told = diagnosis_print(o, d, few, &error);
        if (error) o->first_error = error;
        if (o->told && g_strcmp0(o->output, "-") != 0)
            printf("\nThe first answer, of %u of %u rows; without --first all are looked at.\n", few->row_count,
                   o->rows);
        return;
    }
    diagnosis_line(d, line);
    fprintf(stderr, "eptwin diagnose: first answer, of %u of %u rows in small: %s\n", few->row_count, o->rows,
            line->str);
}

static int diagnose(struct diagnose_options *o, GError **error)
{
    g_autoptr(validate_table) baseline = o->baseline ? table_open(o, o->baseline, error) : NULL;
    g_autoptr(validate_table) table = *error ? NULL : table_open(o, o->paths[0], error);
    if (!table) return error_status(*error);
    const struct diagnose_how how = { .workers = (uint32_t)o->jobs,
                                      .flat = o->flat,
                                      .baseline = baseline,
                                      .first_only = o->first,
                                      .first = first_told,
                                      .context = o };
    o->rows = table->row_count;
    g_autoptr(diagnosis) diagnosis = diagnose_run(table, &how, error);
    const uint32_t problems = validate_problems_print(table) + (baseline ? validate_problems_print(baseline) : 0);
    if (o->first_error && !*error) g_propagate_error(error, g_steal_pointer(&o->first_error));
    const bool told = o->told || (diagnosis && diagnosis_print(o, diagnosis, table, error));
    return !told ? error_status(*error) : problems ? EXIT_RUN_FAILED : EXIT_OK;
}

int command_diagnose(int argc, char **argv)
{
    GError *error = NULL;
    struct diagnose_options options = { .most = 3 };
    case_init(&options.base);
    int status = EXIT_OK;
    if (options_parse(&options, argc, argv, &error)) {
        if (options.list) causes_print();
        else status = diagnose(&options, &error);
    }
    if (error) status = command_line_fail("diagnose", error);
    return status;
}
