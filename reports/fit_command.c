/* fit_command.c - eptwin fit: a record of measure in, a cluster file out.  Knows options and files only. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "reports/fit_cluster.h"
#include "reports/record.h"
#include "reports/whole_file.h"
#include "sim/command.h"

static const char fit_summary[] =
    "Makes a cluster file for this machine and link from what eptwin measure found, so that simulate can predict a\n"
    "replay on it.  Every number in it has a comment that names the rows that it came from.\n"
    "\n"
    "  eptwin measure --ranks 4 --output measured.csv\n"
    "  eptwin fit measured.csv --output here.ini\n"
    "  eptwin simulate --cluster here.ini --num-ranks 4";

static bool fit_run(const char *path, const char *output, const char *name, GError **error)
{
    struct record *record = record_read(path, error);
    GString *doubts = g_string_new(NULL);
    char *text = record ? fit_cluster_text(record, path, name, doubts, error) : NULL;
    const bool done = text && whole_file_write(output, text, strlen(text), error);
    if (done && doubts->len)
        fprintf(stderr, "eptwin fit: rows of %s lie on no line: was the machine busy with something else?\n",
                doubts->str);
    g_string_free(doubts, TRUE);
    g_free(text);
    record_free(record);
    return done;
}

int command_fit(int argc, char **argv)
{
    char *output = NULL, *name = NULL, **paths = NULL;
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "The cluster file to write (default '-': standard output)",
          "FILE" },
        { "name", 0, 0, G_OPTION_ARG_STRING, &name, "What the cluster is called (default: as the machine)", "NAME" },
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &paths, NULL, "MEASURED" },
        { 0 },
    };
    g_set_prgname("eptwin fit");
    GOptionContext *context = g_option_context_new(NULL);
    g_option_context_set_summary(context, fit_summary);
    g_option_context_add_main_entries(context, entries, NULL);
    GError *error = NULL;
    bool done = g_option_context_parse(context, &argc, &argv, &error);
    g_option_context_free(context);
    if (done && (!paths || g_strv_length(paths) != 1)) {
        g_set_error(&error, FIT_ERROR, 0, "expected one record of measure, found %u", paths ? g_strv_length(paths) : 0);
        done = false;
    }
    done = done && fit_run(paths[0], output ? output : "-", name, &error);
    if (!done) fprintf(stderr, "eptwin fit: %s\n", error->message);
    g_clear_error(&error);
    g_strfreev(paths);
    g_free(output);
    g_free(name);
    return done ? EXIT_OK : EXIT_BAD_INPUT;
}
