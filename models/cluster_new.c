/* cluster_new.c - `eptwin cluster new`: a commented cluster file from a few options; see cluster_command.h.
 *
 * The file includes the GPU's shipped file and a NIC's part, so that every number keeps its source.  Its own lines give
 * the shape: the number of NICs, their rate and their switches.  The text is read back before it is written, so every
 * file that this command writes passes `eptwin cluster check`. */
#include "models/cluster_command.h"
#include "models/cluster_values.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/share.h"
#include "sim/text.h"

static const char about[] =
    "Writes a commented cluster file: a shipped GPU, the NICs, and the switches between them.\n"
    "\n"
    "  eptwin cluster new --gpu h100 --nic 8x400G --nodes 16 --topology rail --oversubscription 2:1 --output mine.ini\n"
    "      then: eptwin cluster show mine.ini, eptwin simulate --cluster mine.ini --num-ranks 128\n"
    "  eptwin cluster new --gpu h200 --nic 4x2x200G --fabric roce\n"
    "      four NICs of two ports each for the GPUs of a node, RoCEv2";

struct arguments {
    char *gpu, *gpus, *nodes, *nic, *fabric, *topology, *oversubscription, *nodes_per_leaf, *name, *output;
};

/* The options, parsed. */
struct plan {
    const struct arguments *a;
    struct cluster *gpu;                                     /* the shipped cluster that --gpu names */
    uint64_t nodes, gpus, nics, ports, gbit, nodes_per_leaf; /* nodes_per_leaf: 0 is the default */
    double over;
    bool roce;
    uint32_t topology; /* index into topologies */
};

/* The ports of a switch.  LINE_SHARE: for NICs that are neither of 200 nor of 400 Gbit/s, the share of the line rate
 * that payload and headers use. */
enum { SWITCH_PORTS = 64 };
#define LINE_SHARE 0.934

static const struct {
    const char *name, *what;
    bool leaves;
} topologies[] = {
    { "single", "one switch that has all ports", false },
    { "leaf-spine", "leaves with all ports of their nodes, joined by spines", true },
    { "rail", "a leaf for the ports of one number of all nodes, joined by spines", true },
    { "fat-tree", "pods of leaves and spines, joined by cores", true },
};

static bool refuse(GError **error, const char *option, const char *expected, const char *found)
{
    return error_input(error, "--%s: expected %s, found '%s'", option, expected, found);
}

/* Parses "8x400G" or, if a NIC has two ports, "4x2x200G". */
static bool nic_parse(const char *text, struct plan *p, GError **error)
{
    static const char expected[] =
        "NICs of a node x rate, as 8x400G, or with ports x between, as 4x2x200G (100G to 800G)";
    g_auto(GStrv) part = g_strsplit(text, "x", 4);
    const guint count = g_strv_length(part);
    if (count < 2 || count > 3) return refuse(error, "nic", expected, text);
    char *rate = part[count - 1];
    const size_t length = strlen(rate);
    if (length < 2 || g_ascii_toupper(rate[length - 1]) != 'G') return refuse(error, "nic", expected, text);
    rate[length - 1] = '\0';
    p->ports = 1;
    if (!text_whole(part[0], 1, 1024, &p->nics) || (count == 3 && !text_whole(part[1], 1, 8, &p->ports)) ||
        !text_whole(rate, 100, 800, &p->gbit))
        return refuse(error, "nic", expected, text);
    return true;
}

/* Loads the shipped file of this name, if its NIC and network can be replaced.  They can be if the file has none, or
 * if its NICs are ConnectX with one port each on one switch.  Otherwise returns NULL. */
static struct cluster *gpu_load(const char *name)
{
    g_autofree char *path = share_find(SHARE_CLUSTERS, name);
    struct cluster *c = path ? cluster_load(path, NULL) : NULL;
    const bool bare = c && !c->nic.rate_bps && !c->host.cores;
    const bool plain = c && c->nic.provider == CLUSTER_PROVIDER_MLX5 && c->nic.ports == 1 && !c->node.nics &&
                       !c->node.pcie_rate_bps && c->network.topology == CLUSTER_SINGLE;
    if (bare || plain) return c;
    cluster_free(c);
    return NULL;
}

static char **gpus_known(void)
{
    g_auto(GStrv) names = share_names(SHARE_CLUSTERS);
    GPtrArray *list = g_ptr_array_new();
    for (char **n = names; *n; n++) {
        g_autoptr(cluster) c = gpu_load(*n);
        if (c) g_ptr_array_add(list, g_strdup(*n));
    }
    g_ptr_array_add(list, NULL);
    return (char **)g_ptr_array_free(list, FALSE);
}

static bool gpu_find(struct plan *p, GError **error)
{
    p->gpu = gpu_load(p->a->gpu);
    if (p->gpu) return true;
    g_auto(GStrv) known = gpus_known();
    g_autofree char *list = g_strjoinv(", ", known), *meant = text_meant(p->a->gpu, (const char *const *)known);
    return error_input(error, "--gpu: expected one of %s, found '%s'%s", list, p->a->gpu, meant);
}

/* Reads a number from 1, which stays as it is if there is no text. */
static bool count_parse(const char *option, const char *text, uint32_t most, uint64_t *count, GError **error)
{
    g_autofree char *expected = g_strdup_printf("a whole number from 1 to %u", most);
    return !text || text_whole(text, 1, most, count) || refuse(error, option, expected, text);
}

static bool plan_make(struct plan *p, GError **error)
{
    const struct arguments *a = p->a;
    if (!a->gpu) return refuse(error, "gpu", "the name of a GPU such as h100", "none");
    if (!gpu_find(p, error)) return false;
    p->nodes = 1;
    p->gpus = p->gpu->nvlink.gpus;
    if (!count_parse("nodes", a->nodes, 65535, &p->nodes, error) ||
        !count_parse("gpus", a->gpus, 1024, &p->gpus, error) ||
        !count_parse("nodes-per-leaf", a->nodes_per_leaf, 65535, &p->nodes_per_leaf, error))
        return false;
    if (a->nic && !nic_parse(a->nic, p, error)) return false;
    if (!a->nic && (a->topology || a->oversubscription || a->fabric))
        return refuse(error, "nic", "NICs such as 8x400G for a network", "none");
    if (!a->nic && p->nodes > 1) return refuse(error, "nic", "NICs such as 8x400G between nodes", "none");
    p->over = 1;
    if (a->oversubscription && !cluster_value_parse(KIND_FACTOR, NULL, a->oversubscription, &p->over))
        return refuse(error, "oversubscription", "a ratio such as 2:1", a->oversubscription);
    p->roce = !g_strcmp0(a->fabric, "roce");
    if (a->fabric && !p->roce && strcmp(a->fabric, "infiniband") != 0)
        return refuse(error, "fabric", "infiniband or roce", a->fabric);
    for (p->topology = 0; a->topology && strcmp(a->topology, topologies[p->topology].name) != 0; p->topology++)
        if (p->topology + 1 == G_N_ELEMENTS(topologies))
            return refuse(error, "topology", "single, leaf-spine, rail or fat-tree", a->topology);
    if (p->topology || (p->over <= 1 && !p->nodes_per_leaf)) return true;
    return refuse(error, "topology", "leaf-spine, rail or fat-tree for leaves and their uplinks",
                  a->topology ? a->topology : "none");
}

/* ---- the text ---- */

G_GNUC_PRINTF(3, 4) static void line(GString *out, const char *comment, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_string_append_printf(out, *comment ? "%-28s # %s\n" : "%s%s\n", text, comment);
}

/* The number of nodes below a leaf: as many as its 64 ports can hold in addition to the uplinks, and at most all nodes.
 */
static uint32_t nodes_a_leaf(const struct plan *p)
{
    const double down = floor(SWITCH_PORTS * p->over / (1 + p->over));
    const guint64 of_a_node = p->topology == 2 ? 1 : p->nics * p->ports;
    return (uint32_t)CLAMP(down / (double)of_a_node, 1, (double)p->nodes);
}

static void network_append(const struct plan *p, GString *out)
{
    g_string_append(out, "\n[network]\n");
    line(out, topologies[p->topology].what, "topology = %s", topologies[p->topology].name);
    line(out, "that `eptwin cluster show` draws; a run has as many as its ranks need", "nodes = %u", (guint)p->nodes);
    if (!topologies[p->topology].leaves) return;
    if (p->nodes_per_leaf) line(out, "nodes below a leaf", "nodes-per-leaf = %u", (guint)p->nodes_per_leaf);
    else
        line(out, "[D] at most what a switch of 64 ports holds beside its uplinks: put yours", "nodes-per-leaf = %u",
             nodes_a_leaf(p));
    line(out, "of a leaf's ports over its uplinks", "oversubscription = %.4g:1", p->over);
    if (p->roce)
        line(out, "[D] 5.1: 64 B end to end RoCE 3.6 us on one leaf, 5.6 across, by two switches more", "hop = 1 us");
    else line(out, "[D] 5.1: 64 B end to end IB 2.8 us on one leaf, 3.7 across, by two switches more", "hop = 450 ns");
    line(out, "of several ways; ecmp: by hash of the flow, as Ethernet without more", "routing = %s",
         p->roce ? "ecmp" : "adaptive");
}

static void nic_append(const struct plan *p, GString *out)
{
    g_string_append(out, "\n[nic]\n");
    if (p->ports > 1) line(out, "of a NIC", "ports = %u", (guint)p->ports);
    if (p->ports > 1)
        line(out, "QPs are dealt out over the ports: hash, round-robin or queue", "port-map = round-robin");
    line(out, "of a port", "line-rate = %u Gbit/s", (guint)p->gbit);
    if (p->gbit == 400 || p->gbit == 200) return; /* the NIC's shipped part has this rate already */
    line(out, "[D] of the line what ConnectX-7 moves of 400 Gbit/s: measure yours", "rate = %.4g GB/s",
         LINE_SHARE * (double)p->gbit / 8);
}

static char *plan_text(const struct plan *p, const char *command)
{
    const struct arguments *a = p->a;
    GString *out = g_string_new(NULL);
    g_string_append_printf(out, "# %u node%s of %u GPU%s as %s.ini has them", (guint)p->nodes, p->nodes > 1 ? "s" : "",
                           (guint)p->gpus, p->gpus == 1 ? "" : "s", a->gpu);
    if (a->nic) g_string_append_printf(out, ", NICs %s, %s", a->nic, p->roce ? "RoCEv2" : "InfiniBand");
    g_string_append_printf(out,
                           ".\n# Written by: %s\n# What this file does not say, the files that it includes do, each "
                           "number with its source.\n# `eptwin cluster keys` explains the keys, `eptwin cluster show "
                           "FILE` draws the machine.\n\n[cluster]\n",
                           command);
    g_string_append_printf(out, "name = %s\n", a->name ? a->name : a->gpu);
    g_string_append_printf(out, "include = %s%s%s.ini\n", p->roce ? "parts/roce.ini|" : "",
                           !a->nic          ? ""
                           : p->gbit <= 200 ? "parts/connectx6.ini|"
                                            : "parts/connectx7.ini|",
                           a->gpu);
    if (p->gpus != p->gpu->nvlink.gpus) {
        g_string_append(out, "\n[nvlink]\n");
        line(out, "of a node, joined by NVLink", "gpus = %u", (guint)p->gpus);
    }
    if (!a->nic) return g_string_free(out, FALSE);
    g_string_append(out, "\n[node]\n");
    line(out, "GPUs are dealt over them in order", "nics = %u", (guint)p->nics);
    nic_append(p, out);
    network_append(p, out);
    return g_string_free(out, FALSE);
}

/* Checks the text: reads it back as a cluster with `nodes` nodes. */
static bool text_check(const char *text, uint32_t nodes, GError **error)
{
    g_autofree char *path = NULL;
    const int file = g_file_open_tmp("eptwin-XXXXXX.ini", &path, error);
    if (file < 0) return false;
    close(file);
    bool good = g_file_set_contents(path, text, -1, error);
    g_autoptr(cluster) cluster = good ? cluster_load(path, error) : NULL;
    struct graph *graph = cluster ? graph_new(cluster, nodes, 0, error) : NULL;
    good = graph != NULL;
    graph_free(graph);
    g_unlink(path);
    return good;
}

static bool parse(struct arguments *a, int argc, char **argv, GError **error)
{
    GOptionEntry own[] = {
        { "gpu", 0, 0, G_OPTION_ARG_STRING, &a->gpu,
          "Shipped cluster file that describes the GPUs and NVLink, such as h100, h200, b200", "NAME" },
        { "gpus", 0, 0, G_OPTION_ARG_STRING, &a->gpus, "GPUs per node (default: as in that file)", "N" },
        { "nodes", 0, 0, G_OPTION_ARG_STRING, &a->nodes, "Nodes (default 1)", "N" },
        { "nic", 0, 0, G_OPTION_ARG_STRING, &a->nic,
          "NICs per node and their rate, or NICs, ports per NIC, and the rate of a port", "8x400G|4x2x200G" },
        { "fabric", 0, 0, G_OPTION_ARG_STRING, &a->fabric, "infiniband (default) or roce", "NAME" },
        { "topology", 0, 0, G_OPTION_ARG_STRING, &a->topology, "single (default), leaf-spine, rail or fat-tree",
          "NAME" },
        { "oversubscription", 0, 0, G_OPTION_ARG_STRING, &a->oversubscription,
          "Total rate of a leaf's ports over that of its uplinks (default 1:1)", "A:1" },
        { "nodes-per-leaf", 0, 0, G_OPTION_ARG_STRING, &a->nodes_per_leaf,
          "Nodes below a leaf (default: what a 64-port switch holds)", "N" },
        { "name", 0, 0, G_OPTION_ARG_STRING, &a->name, "Name of the machine in results (default: the GPU's)", "TEXT" },
        COMMAND_LINE_OUTPUT(&a->output, "Write the file here (default: standard output)"),
        { 0 },
    };
    const struct command_topic topics[] = { { "Options", own, false }, { 0 } };
    const struct command_line line = { .name = "cluster new", .about = about, .topics = topics };
    return command_line_parse(&line, argc, argv, NULL, error);
}

int cluster_new_run(int argc, char **argv)
{
    struct arguments a = { 0 };
    struct plan plan = { .a = &a };
    GError *error = NULL;
    g_autofree char *words = g_strjoinv(" ", argv + 1), *command = g_strconcat("eptwin cluster new ", words, NULL);
    bool good = parse(&a, argc, argv, &error) && plan_make(&plan, &error);
    g_autofree char *text = good ? plan_text(&plan, command) : NULL;
    good = good && text_check(text, (uint32_t)plan.nodes, &error) &&
           whole_file_write(a.output ? a.output : "-", text, strlen(text), &error);
    cluster_free(plan.gpu);
    return good ? EXIT_OK : command_line_fail("cluster new", error);
}
