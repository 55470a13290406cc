/* cluster_command.c - `eptwin cluster`: shows, checks and makes cluster files; runs no case. */
#include <string.h>

#include "models/backends.h"
#include "models/cluster_command.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/share.h"
#include "sim/text.h"
#include "sim/units.h"

static command_function list_run, show_run, check_run, backends_run, keys_run;

static const struct subcommand subcommands[] = {
    { "list", list_run, "list the cluster files that ship with eptwin", "",
      "One line each: the name for --cluster, the machine, and the file.  If a name exists in several folders, the\n"
      "first one counts: the source tree, then the executable's folder, then PREFIX/share/eptwin/clusters.\n" },
    { "show", show_run, "draw a cluster's node and network, with the rates along each path",
      "FILE [NODES] [--svg OUT] [--mark NAME]...",
      "The drawing shows which NIC each GPU uses and through what, what is attached to each switch and its\n"
      "oversubscription, and one path of each kind between two GPUs.  NODES: number of nodes (default: as in the\n"
      "file, or enough for every kind of path).\n"
      "\n"
      "--svg OUT    a picture instead of text ('-': on standard output), with the same names of parts as in results\n"
      "--mark NAME  highlight a part that a result names: leaf0-spine1, n0.nic0, nic_tx, bisection, ... (may be "
      "repeated)\n"
      "\n"
      "  eptwin cluster show h800-cx7\n"
      "  eptwin cluster show gh200-alps 64 --svg alps.svg --mark leaf0-leaf3\n" },
    { "check", check_run, "read cluster files and report impossible values", "FILE...",
      "Checks values, sections, dangling or duplicate links and unreachable NICs, and reports file and line of the\n"
      "first problem.  For a valid file it lists the keys that have no effect with the file's number of nodes.\n" },
    { "new", cluster_new_run, "write a commented cluster file from a few options", "", NULL },
    { "keys", keys_run, "explain the keys of cluster files", "[SECTION | SECTION.KEY | all | --man]",
      "Without arguments: the format of a cluster file and its most important keys.  --man: all keys as the manual\n"
      "page eptwin-cluster(5).\n"
      "\n"
      "  eptwin cluster keys nic\n"
      "  eptwin cluster keys nic.rate\n" },
    { "backends", backends_run, "list the values of --backend: who posts to NICs, and at what cost", "",
      "One row each: who posts, the times of a request, of a doorbell and to a host thread, and the source of the\n"
      "numbers.  Without --backend, [nic] of the cluster file sets all this.\n" },
    { 0 },
};

static const char begin[] = "eptwin cluster - cluster files: the machines that eptwin can predict\n\n"
                            "  eptwin cluster SUBCOMMAND --help      explain a subcommand\n\n";
static const char end[] =
    "\n"
    "--cluster takes a name from the list or the path of your own file.  To write one, copy the nearest file and\n"
    "change what differs.  Exit status: 0 success, 1 the run failed, 2 bad input.\n"
    "\n"
    "  eptwin cluster list\n"
    "  eptwin cluster show h800-cx7\n";

/* Lists the shipped files.  If one is broken, prints its error on standard error and goes on with the others. */
static int list_run(int argc, char **argv)
{
    if (argc > 1) {
        return command_line_fail("cluster list",
                                 g_error_new(EPTWIN_ERROR, ERROR_INPUT, "expected no argument, found '%s'", argv[1]));
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
        GError *error = NULL;
        g_autofree char *path = share_find(SHARE_CLUSTERS, *name);
        g_autoptr(cluster) cluster = cluster_load(path, &error);
        if (cluster) printf("%-*s  %-24s  %s\n", width, *name, cluster->name, path);
        else status = command_line_fail("cluster list", error);
    }
    return status;
}

enum { NODES_MAX = 65536 };

struct show_arguments {
    char *svg;
    char **marks, **words;
    guint64 nodes;
};

static bool show_parse(struct show_arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry entries[] = {
        { "svg", 0, 0, G_OPTION_ARG_FILENAME, &a->svg, NULL, NULL },
        { "mark", 0, 0, G_OPTION_ARG_STRING_ARRAY, &a->marks, NULL, NULL },
        { 0 },
    };
    const struct command_topic topics[] = { { "Options", entries, false }, { 0 } };
    const struct command_line line = { .name = "cluster show", .topics = topics }; /* the group explains it */
    if (!command_line_parse(&line, argc, argv, &a->words, error)) return false;
    const guint count = g_strv_length(a->words);
    if (count < 1 || count > 2)
        return error_input(error, "expected FILE [NODES], found %s", count ? "more words" : "none");
    if (count == 2 && !text_whole(a->words[1], 1, NODES_MAX, &a->nodes))
        return error_input(error, "NODES: expected a whole number from 1 to %d, found '%s'", NODES_MAX, a->words[1]);
    return !a->marks || a->svg || error_input(error, "--mark: needs --svg");
}

static bool svg_write(const struct show_arguments *a, const struct cluster *cluster, const struct graph *graph,
                      GError **error)
{
    g_autoptr(drawing) drawing = cluster_draw(cluster, graph);
    for (char **mark = a->marks; mark && *mark; mark++) {
        if (drawing_has(drawing, *mark)) continue;
        return error_input(
            error, "--mark: expected the name of a part, of a link as PART-PART, or of a resource of %s, found \"%s\"",
            cluster->name, *mark);
    }
    g_autoptr(GString) text = g_string_new(NULL);
    drawing_svg_append(drawing, (const char *const *)a->marks, text);
    return whole_file_write(a->svg, text->str, text->len, error);
}

static int show_run(int argc, char **argv)
{
    GError *error = NULL;
    struct show_arguments a = { 0 };
    struct cluster *cluster = NULL;
    struct graph *graph = NULL;
    bool good = show_parse(&a, argc, argv, &error) && (cluster = cluster_load(a.words[0], &error)) != NULL;
    if (good) graph = graph_new(cluster, a.nodes ? (uint32_t)a.nodes : cluster_show_nodes(cluster), 0, &error);
    good = graph && (!a.svg || (new_file_spares(a.svg, (const char *const *)&cluster->path, 1, &error) &&
                                svg_write(&a, cluster, graph, &error)));
    if (good && !a.svg) cluster_show(cluster, graph, stdout);
    graph_free(graph);
    cluster_free(cluster);
    return good ? EXIT_OK : command_line_fail("cluster show", error);
}

static void check_print(const struct graph *graph)
{
    g_autoptr(GPtrArray) notes = cluster_notes(graph, NULL, graph->nics > 0 && graph->nodes > 1);
    printf("%s: ok\n", graph->cluster->path);
    for (guint i = 0; i < notes->len; i++) printf("  note: %s\n", (char *)notes->pdata[i]);
}

static int check_run(int argc, char **argv)
{
    int status = EXIT_OK;
    if (argc < 2) {
        fprintf(stderr, "eptwin cluster check: expected files, found none\n");
        return EXIT_BAD_INPUT;
    }
    for (int i = 1; i < argc; i++) {
        GError *error = NULL;
        g_autoptr(cluster) cluster = cluster_load(argv[i], &error);
        struct graph *graph = cluster ? graph_new(cluster, cluster_show_nodes(cluster), 0, &error) : NULL;
        if (graph) check_print(graph);
        else status = command_line_fail("cluster check", error);
        graph_free(graph);
    }
    return status;
}

static int keys_run(int argc, char **argv)
{
    GError *error = NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    if (argc > 2) {
        fprintf(stderr, "eptwin cluster keys: expected one word or none, found '%s'\n", argv[2]);
        return EXIT_BAD_INPUT;
    }
    if (argc == 2 && !strcmp(argv[1], "--man")) cluster_teach_man(text);
    else if (!cluster_teach(argc == 2 ? argv[1] : NULL, text, &error)) return command_line_fail("cluster keys", error);
    fputs(text->str, stdout);
    return EXIT_OK;
}

static int backends_run(int argc, char **argv)
{
    static const char *const order[] = { "in order", "signals wait for acknowledgements", "put in order by software" };
    if (argc > 1) {
        return command_line_fail("cluster backends",
                                 g_error_new(EPTWIN_ERROR, ERROR_INPUT, "expected no argument, found '%s'", argv[1]));
    }
    for (uint32_t i = 0; backends_at(i); i++) {
        const struct transport *t = backends_at(i);
        printf("%-10s %s\n           request %.3g us, doorbell %.3g us", t->name, t->what, units_us(t->post_ps),
               units_us(t->doorbell_ps));
        if (t->poster == CLUSTER_POST_PROXY)
            printf(", %u thread%s %.3g us away", t->threads, t->threads > 1 ? "s" : "", units_us(t->proxy_ps));
        if (t->queues) printf(", %u QP%s a peer", t->queues, t->queues > 1 ? "s" : "");
        printf(", %s%s\n           %s\n", order[t->order],
               t->host_words ? ", GPUs poll words in the host's memory" : "", t->source);
    }
    return EXIT_OK;
}

int command_cluster(int argc, char **argv)
{
    return command_group_run(&(struct command_group){ "cluster", begin, end, subcommands }, argc, argv);
}
