/* cluster_command.c - `eptwin cluster`: what there is to know of cluster files before anything runs on them. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "models/cluster.h"
#include "models/cluster_show.h"
#include "models/hardware/transport.h"
#include "sim/command.h"
#include "sim/share.h"
#include "sim/units.h"

static command_function list_run, show_run, check_run, backends_run;

static const struct subcommand {
    const char *name;
    command_function *run;
    const char *arguments, *purpose, *details;
} subcommands[] = {
    { "list", list_run, "", "name every cluster file that ships with eptwin",
      "One line each: the name that --cluster takes, the machine, and the file.  The files of the first folder that\n"
      "has a name count: the source tree's, then the executable's, then PREFIX/share/eptwin/clusters.\n" },
    { "show", show_run, "FILE [NODES]", "draw a cluster's node and network, with the rates along each way",
      "Which NIC each GPU uses and over what, what hangs on each switch and how far it is oversubscribed, and one way\n"
      "of each kind between two GPUs.  NODES: how many (default: as the file says, or enough for every kind of way).\n"
      "\n  eptwin cluster show h800-cx7\n" },
    { "check", check_run, "FILE...", "read cluster files and refuse what cannot be",
      "Values, sections, links that dangle or stand twice, NICs that nothing reaches: file and line of the first.\n" },
    { "backends", backends_run, "", "list what --backend takes: who posts to NICs, and at what cost",
      "One row each: who posts, times of a request, of a doorbell and to a thread of the host, and where the numbers\n"
      "come from.  Without --backend, a cluster file's [nic] says all that itself.\n" },
};

static void help_print(FILE *out)
{
    fputs("eptwin cluster - cluster files: the machines that eptwin can predict\n\n"
          "  eptwin cluster SUBCOMMAND --help      explain a subcommand\n\n",
          out);
    for (size_t i = 0; i < G_N_ELEMENTS(subcommands); i++)
        fprintf(out, "%-8s%s\n", subcommands[i].name, subcommands[i].purpose);
    fputs("\nWherever a command takes --cluster, it takes a name from the list or a file of your own: copy the\n"
          "nearest one and change what differs.  Exit status: 0 success, 1 the run failed, 2 bad input.\n\n"
          "  eptwin cluster list\n"
          "  eptwin cluster show h800-cx7\n",
          out);
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

enum { NODES_MAX = 65536 };

static int show_run(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    guint64 nodes = 0;
    if (argc < 2 || argc > 3 || (argc == 3 && !g_ascii_string_to_unsigned(argv[2], 10, 1, NODES_MAX, &nodes, NULL))) {
        fprintf(stderr, "eptwin cluster show: expected FILE [NODES], NODES from 1 to %d\n", NODES_MAX);
        return EXIT_BAD_INPUT;
    }
    struct cluster *cluster = cluster_load(argv[1], &error);
    struct graph *graph = NULL;
    if (cluster) graph = graph_new(cluster, nodes ? (uint32_t)nodes : cluster_show_nodes(cluster), 0, &error);
    if (graph) cluster_show(cluster, graph, stdout);
    else fprintf(stderr, "eptwin cluster show: %s\n", error->message);
    const int status = graph ? EXIT_OK : EXIT_BAD_INPUT;
    graph_free(graph);
    cluster_free(cluster);
    return status;
}

static int check_run(int argc, char **argv)
{
    int status = EXIT_OK;
    if (argc < 2) {
        fprintf(stderr, "eptwin cluster check: expected files, found none\n");
        return EXIT_BAD_INPUT;
    }
    for (int i = 1; i < argc; i++) {
        g_autoptr(GError) error = NULL;
        struct cluster *cluster = cluster_load(argv[i], &error);
        struct graph *graph = cluster ? graph_new(cluster, cluster_show_nodes(cluster), 0, &error) : NULL;
        if (graph) printf("%s: ok\n", cluster->path);
        else fprintf(stderr, "eptwin cluster check: %s\n", error->message);
        if (!graph) status = EXIT_BAD_INPUT;
        graph_free(graph);
        cluster_free(cluster);
    }
    return status;
}

static int backends_run(int argc, char **argv)
{
    static const char *const order[] = { "in order", "signals wait for acknowledgements", "put in order by software" };
    if (argc > 1) {
        fprintf(stderr, "eptwin cluster backends: expected no argument, found '%s'\n", argv[1]);
        return EXIT_BAD_INPUT;
    }
    for (uint32_t i = 0; transport_at(i); i++) {
        const struct transport *t = transport_at(i);
        printf("%-10s %s\n           request %.3g us, doorbell %.3g us", t->name, t->what, units_us(t->post_ps),
               units_us(t->doorbell_ps));
        if (t->poster == CLUSTER_POST_PROXY)
            printf(", %u thread%s %.3g us away", t->threads, t->threads > 1 ? "s" : "", units_us(t->proxy_ps));
        if (t->queues) printf(", %u QP%s a peer", t->queues, t->queues > 1 ? "s" : "");
        printf(", %s\n           %s\n", order[t->order], t->source);
    }
    return EXIT_OK;
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
    else help_print(stderr);
    return EXIT_BAD_INPUT;
}
