/* cluster_command.c - `eptwin cluster`: what there is to know of cluster files before anything runs on them. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "models/cluster.h"
#include "sim/command.h"
#include "sim/share.h"

static command_function list_run;

static const struct subcommand {
    const char *name;
    command_function *run;
    const char *arguments, *purpose, *details;
} subcommands[] = {
    { "list", list_run, "", "name every cluster file that ships with eptwin",
      "One line each: the name that --cluster takes, the machine, and the file.  The files of the first folder that\n"
      "has a name count: the source tree's, then the executable's, then PREFIX/share/eptwin/clusters.\n" },
};

static void help_print(FILE *out)
{
    fputs("eptwin cluster - cluster files: the machines that eptwin can predict\n\n"
          "  eptwin cluster SUBCOMMAND --help      explain a subcommand\n\n", out);
    for (size_t i = 0; i < G_N_ELEMENTS(subcommands); i++)
        fprintf(out, "%-8s%s\n", subcommands[i].name, subcommands[i].purpose);
    fputs("\nWherever a command takes --cluster, it takes a name from the list or a file of your own: copy the\n"
          "nearest one and change what differs.  Exit status: 0 success, 1 the run failed, 2 bad input.\n\n"
          "  eptwin cluster list\n", out);
}

/* Prints a broken file's error on standard error and goes on with the others. */
static int list_run(int argc, char **argv)
{
    if (argc > 1) {
        fprintf(stderr, "eptwin cluster list: expected no argument, found '%s'\n", argv[1]);
        return EXIT_BAD_INPUT;
    }
    g_auto(GStrv) names = share_names(SHARE_CLUSTERS);
    if (!*names) {
        g_auto(GStrv) folders = share_folders(SHARE_CLUSTERS);
        g_autofree char *places = g_strjoinv(", ", folders);
        fprintf(stderr, "eptwin cluster list: found no cluster file in %s\n", places);
        return EXIT_RUN_FAILED;
    }
    int width = 0, status = EXIT_OK;
    for (char **name = names; *name; name++) width = MAX(width, (int)strlen(*name));
    for (char **name = names; *name; name++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *path = share_find(SHARE_CLUSTERS, *name);
        struct cluster *cluster = cluster_load(path, &error);
        if (cluster) printf("%-*s  %-24s  %s\n", width, *name, cluster->name, path);
        else {
            fprintf(stderr, "eptwin cluster list: %s\n", error->message);
            status = EXIT_BAD_INPUT;
        }
        cluster_free(cluster);
    }
    return status;
}

int command_cluster(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "", *const next = argc > 2 ? argv[2] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        help_print(stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(subcommands); i++) {
        const struct subcommand *s = &subcommands[i];
        if (strcmp(name, s->name) != 0) continue;
        if (strcmp(next, "--help") != 0 && strcmp(next, "-h") != 0) return s->run(argc - 1, argv + 1);
        printf("Usage:\n  eptwin cluster %s%s%s\n\n%c%s.\n\n%s", s->name, *s->arguments ? " " : "", s->arguments,
               g_ascii_toupper(*s->purpose), s->purpose + 1, s->details);
        return EXIT_OK;
    }
    if (argc > 1)
        fprintf(stderr, "eptwin cluster: unknown subcommand '%s', expected one that eptwin cluster --help lists\n",
                name);
    else
        help_print(stderr);
    return EXIT_BAD_INPUT;
}
