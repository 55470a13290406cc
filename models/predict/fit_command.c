/* fit_command.c - eptwin fit: reads records of measure, and writes a cluster file.  Knows only options and files. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "models/cluster.h"
#include "reports/fit_cluster.h"
#include "reports/record.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"

static const char fit_about[] =
    "Makes a cluster file for this machine and link from records of eptwin measure, so that simulate can predict\n"
    "a replay on it.  A comment on each value names the rows that it comes from.  From several records of the\n"
    "same machine and link it takes the median of each row: speeds drift, so measure at different times.\n"
    "\n"
    "  eptwin measure --ranks 4 --output measured.csv\n"
    "  eptwin fit measured.csv --output here.ini\n"
    "  eptwin simulate --cluster here.ini --num-ranks 4\n"
    "\n"
    "From a record of --fabric cuda it makes [gpu] and [nvlink], each value with an interval, and names the keys\n"
    "that such a record cannot provide; --include takes them from another file:\n"
    "\n"
    "  eptwin fit gpus.csv --include h200 --output gpus.ini";

/* Reads the records, and merges them into one.  NULL and *error if one cannot be read or does not fit the others. */
static struct record *fit_read(char **paths, uint32_t count, GError **error)
{
    g_autofree struct record **records = g_new0(struct record *, count);
    struct record *all = NULL;
    bool fine = true;
    for (uint32_t i = 0; fine && i < count; i++) fine = (records[i] = record_read(paths[i], error)) != NULL;
    if (fine) all = fit_records_median(records, paths, count, error);
    for (uint32_t i = 0; i < count; i++) record_free(records[i]);
    return all;
}

static bool fit_run(char **paths, const char *output, const char *name, const char *include, GError **error)
{
    g_autoptr(record) record = fit_read(paths, g_strv_length(paths), error);
    g_autofree char *source = g_strjoinv(", ", paths);
    g_autoptr(GString) doubts = g_string_new(NULL);
    g_autofree char *text = NULL;
    if (record && fit_gpu_record(record)) text = fit_gpu_text(record, source, name, include, doubts, error);
    else if (record && include) error_input(error, "--include: expected a record of GPUs, found %s", source);
    else if (record) text = fit_cluster_text(record, source, name, doubts, error);
    const bool whole = text && (include || !fit_gpu_record(record)); /* else other files add the keys that it lacks */
    g_autoptr(cluster) cluster = whole ? cluster_parse(output, text, error) : NULL;
    const bool done = text && (cluster || !whole) && whole_file_write(output, text, strlen(text), error);
    if (whole && !cluster) g_prefix_error(error, "%s: makes no sound file: ", source);
    if (done && doubts->len)
        fprintf(stderr,
                "eptwin fit: rows of %s lie on no line or far apart: was the machine busy with something else?\n",
                doubts->str);
    return done;
}

int command_fit(int argc, char **argv)
{
    g_autofree char *output = NULL;
    g_autofree char *name = NULL;
    g_autofree char *include = NULL;
    g_auto(GStrv) paths = NULL;
    GOptionEntry entries[] = {
        COMMAND_LINE_OUTPUT(&output, "The cluster file to write (default '-': standard output)"),
        { "name", 0, 0, G_OPTION_ARG_STRING, &name, "Name of the cluster (default: the machine's)", "NAME" },
        { "include", 0, 0, G_OPTION_ARG_STRING, &include,
          "GPUs: the cluster file with the keys that the record cannot provide, named as in `include`", "NAME" },
        { 0 },
    };
    const struct command_topic topics[] = { { "Options", entries, false }, { 0 } };
    const struct command_line line = {
        .name = "fit", .arguments = "MEASURED...", .about = fit_about, .topics = topics
    };
    GError *error = NULL;
    bool done = command_line_parse(&line, argc, argv, &paths, &error);
    if (done && !paths[0]) {
        error_input(&error, "expected at least one record of measure, found none");
        done = false;
    }
    if (done && output) done = new_file_spares(output, (const char *const *)paths, g_strv_length(paths), &error);
    done = done && fit_run(paths, output ? output : "-", name, include, &error);
    return done ? EXIT_OK : command_line_fail("fit", error);
}
