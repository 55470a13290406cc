/* graph_make.c - turns a cluster's [node], [network] and [links] into parts and links. */
#include "models/hardware/machine/graph.h"

#include <string.h>

#include "sim/error.h"

enum { PARTS_MAX = 1 << 20, LINKS_MAX = 1 << 22, PLACES_MAX = 64 };
enum { NODES_PER_LEAF = 16, LEAVES_PER_POD = 4, SPINES = 4 }; /* used for numbers that the cluster file does not give */

/* ---- nodes ---- */

static uint32_t part_add(struct graph *g, enum part_kind kind, uint32_t node, uint32_t tier, const char *name)
{
    struct part part = { .kind = kind, .node = node, .tier = tier, .out = g_array_new(FALSE, FALSE, sizeof(uint32_t)) };
    g_strlcpy(part.name, name, sizeof part.name);
    g_array_append_val(g->part, part);
    g_hash_table_insert(g->names, g_strdup(part.name), GUINT_TO_POINTER(g->part->len));
    return g->part->len - 1;
}

static void link_add_one(struct graph *g, const struct link *link)
{
    const uint32_t number = g->link->len;
    g_array_append_val(g->link, *link);
    graph_link(g, number)->built_bps = link->rate_bps;
    g_array_append_val(graph_part(g, link->from)->out, number);
}

/* Adds a link for each direction. */
static void link_add(struct graph *g, uint32_t a, uint32_t b, uint64_t rate_bps, uint64_t latency_ps, uint64_t buffer)
{
    link_add_one(g, &(struct link){ a, b, rate_bps, latency_ps, buffer, false, 0 });
    link_add_one(g, &(struct link){ b, a, rate_bps, latency_ps, buffer, false, 0 });
}

static uint32_t node_part(struct graph *g, enum part_kind kind, uint32_t node, const char *what, uint32_t number)
{
    char name[PART_NAME_BYTES];
    g_snprintf(name, sizeof name, "n%u.%s%u", node, what, number);
    return part_add(g, kind, node, 0, name);
}

/* The rate of bytes that are first copied and then sent by one of several ports.  The bytes of one port are not copied
 * and sent at the same time.  Ports do not wait for each other, but all their copies together move at most
 * copied_bps. */
static uint64_t in_turn_bps(uint64_t copied_bps, uint64_t port_bps, uint32_t ports)
{
    if (!copied_bps || !port_bps) return MAX(copied_bps, port_bps * ports);
    const uint64_t both_bps = (uint64_t)((unsigned __int128)copied_bps * port_bps / (copied_bps + port_bps));
    return MIN(both_bps * ports, copied_bps);
}

/* Connects GPUs to the first root complex through the host's memory, in a node whose NICs do not reach GPU memory. */
static void node_stage(struct graph *g, uint32_t node, uint32_t root)
{
    const struct cluster_node *c = &g->cluster->node;
    const uint32_t memory = node_part(g, PART_MEMORY, node, "mem", 0);
    const uint64_t copied_bps = c->staging_rate_bps ? c->staging_rate_bps : c->pcie_rate_bps;
    const uint64_t rate_bps = c->staging == CLUSTER_STAGING_IN_TURN
                                  ? in_turn_bps(copied_bps, g->cluster->nic.rate_bps, g->ports)
                                  : copied_bps;
    for (uint32_t i = 0; i < g->gpus; i++)
        link_add(g, graph_gpu(g, node, i), memory, rate_bps, c->staging_latency_ps, 0);
    link_add(g, memory, root, 0, 0, 0);
}

/* Makes a node's PCIe.  GPUs and NICs are dealt out in order over PCIe switches, and the switches over root
 * complexes.  Each socket has one root complex. */
static void node_pcie(struct graph *g, uint32_t node)
{
    const struct cluster_node *c = &g->cluster->node;
    const uint32_t sockets = MAX(c->sockets, 1), switches = c->pcie_switches;
    uint32_t root[PLACES_MAX], above[PLACES_MAX];
    for (uint32_t i = 0; i < sockets; i++) {
        root[i] = node_part(g, PART_ROOT, node, "root", i);
        const uint64_t between_bps = c->socket_rate_bps ? c->socket_rate_bps : c->root_rate_bps;
        for (uint32_t j = 0; j < i; j++) link_add(g, root[j], root[i], between_bps, c->socket_latency_ps, 0);
    }
    for (uint32_t i = 0; i < switches; i++) {
        above[i] = node_part(g, PART_PCIE_SWITCH, node, "pcie", i);
        link_add(g, above[i], root[i * sockets / switches], c->root_rate_bps, c->root_latency_ps, 0);
    }
    const uint32_t places = switches ? switches : sockets;
    const uint32_t *place = switches ? above : root;
    const bool through_root = !switches && c->root_rate_bps;
    const bool root_limits = through_root && (!c->pcie_rate_bps || c->root_rate_bps < c->pcie_rate_bps);
    const uint64_t rate_bps = root_limits ? c->root_rate_bps : c->pcie_rate_bps;
    const uint64_t more_ps = switches ? 0 : c->root_latency_ps / 2;
    for (uint32_t i = 0; i < g->gpus && !c->staging; i++)
        link_add(g, graph_gpu(g, node, i), place[i * places / g->gpus], rate_bps, more_ps, 0);
    for (uint32_t i = 0; i < g->nics; i++)
        link_add(g, graph_nic(g, node, i), place[i * places / g->nics], c->pcie_rate_bps, more_ps, 0);
    if (c->staging) node_stage(g, node, root[0]);
}

/* Finds a part of the node by its name within the node, such as "nic0".  Adds a root complex or a PCIe switch that is
 * not there yet.  UINT32_MAX: there is no such GPU or NIC, or the name is too long. */
static uint32_t inside_find(struct graph *g, uint32_t node, const char *name)
{
    const char *kind = cluster_inside_kind(name);
    g_autofree char *full = g_strdup_printf("n%u.%s", node, name);
    const uint32_t part = graph_find(g, full);
    if (part != UINT32_MAX || !strcmp(kind, "g") || !strcmp(kind, "nic") || strlen(full) >= PART_NAME_BYTES)
        return part;
    return part_add(g, !strcmp(kind, "root") ? PART_ROOT : PART_PCIE_SWITCH, node, 0, full);
}

/* Whether the name is of a GPU or NIC that this run leaves out because it has fewer ranks a node than the cluster has
 * GPUs. */
static bool inside_unused(const struct graph *g, const char *name)
{
    const uint64_t number = g_ascii_strtoull(name + strcspn(name, "0123456789"), NULL, 10);
    const char *kind = cluster_inside_kind(name);
    if (!strcmp(kind, "nic"))
        return number >= g->nics && number < graph_node_nics(g->cluster, graph_node_gpus(g->cluster, 0));
    return !strcmp(kind, "g") && number >= g->gpus && number < graph_node_gpus(g->cluster, 0);
}

/* Makes a node's PCIe from [links]. */
static bool node_written(struct graph *g, uint32_t node, GError **error)
{
    for (uint32_t i = 0; i < g->cluster->link_count; i++) {
        const struct cluster_link *written = &g->cluster->link[i];
        if (!written->inside || inside_unused(g, written->from) || inside_unused(g, written->to)) continue;
        const uint32_t a = inside_find(g, node, written->from), b = inside_find(g, node, written->to);
        if (a == UINT32_MAX || b == UINT32_MAX)
            return error_input(error, "%s: [links]: expected parts of a node of %u GPUs and %u NICs, found \"%s\"",
                               written->place, g->gpus, g->nics, a == UINT32_MAX ? written->from : written->to);
        if (a == b || graph_link_between(g, a, b) != UINT32_MAX)
            return error_input(error, "%s: [links]: expected two parts that are not joined yet, found %s and %s",
                               written->place, written->from, written->to);
        link_add(g, a, b, written->rate_bps, written->latency_ps, 0);
    }
    return true;
}

static bool node_make(struct graph *g, uint32_t node, GError **error)
{
    const struct cluster *c = g->cluster;
    for (uint32_t i = 0; i < g->gpus; i++) node_part(g, PART_GPU, node, "g", i);
    for (uint32_t i = 0; i < g->nics; i++) node_part(g, PART_NIC, node, "nic", i);
    for (uint32_t i = 0; i < g->nics; i++) {
        for (uint32_t p = 0; p < g->ports; p++) {
            char name[PART_NAME_BYTES];
            g_snprintf(name, sizeof name, "n%u.nic%u.p%u", node, i, p);
            link_add(g, graph_nic(g, node, i), part_add(g, PART_PORT, node, 0, name), 0, 0, 0);
        }
    }
    if (!cluster_node_written(c)) node_pcie(g, node);
    else if (!node_written(g, node, error)) return false;
    if (c->nvlink.gpus < 2 || c->nvlink.over == CLUSTER_PEERS_BY_PCIE) return true;
    char name[PART_NAME_BYTES];
    const uint32_t domain = node * g->gpus / c->nvlink.gpus;
    if (c->nvlink.gpus > g->gpus) g_snprintf(name, sizeof name, "nvlink%u", domain);
    else g_snprintf(name, sizeof name, "n%u.nvlink", node);
    uint32_t nvlink = graph_find(g, name);
    if (nvlink == UINT32_MAX) nvlink = part_add(g, PART_NVLINK, node, 0, name);
    for (uint32_t i = 0; i < g->gpus; i++) {
        const uint64_t egress_bps = c->nvlink.egress_rate_bps, latency_ps = c->nvlink.latency_ps;
        link_add_one(g, &(struct link){ graph_gpu(g, node, i), nvlink, egress_bps, latency_ps, 0, false, 0 });
        link_add_one(g, &(struct link){ nvlink, graph_gpu(g, node, i), c->nvlink.ingress_rate_bps, 0, 0, false, 0 });
    }
    return true;
}

static bool nic_of_check(const struct graph *g, GError **error)
{
    const struct cluster_nics_of *of = &g->cluster->node.nic_of;
    uint32_t least = of->count;
    for (uint32_t i = 0; i < of->count; i++)
        if (of->nic[i] >= g->nics) least = 0;
    if (!of->count || least >= g->gpus) return true;
    return error_input(error, "%s: [node] nic-of: expected a NIC below %u for each of %u GPUs, found others",
                       g->cluster->path, g->nics, g->gpus);
}

static bool nodes_make(struct graph *g, GError **error)
{
    if (!nic_of_check(g, error)) return false;
    for (uint32_t i = 0; i < g->nodes; i++)
        if (!node_make(g, i, error)) return false;
    return !cluster_node_written(g->cluster) || graph_node_reaches(g, 0, error);
}

/* ---- networks ---- */

static uint32_t switch_add(struct graph *g, const char *what, uint32_t number, uint32_t tier)
{
    char name[PART_NAME_BYTES];
    g_snprintf(name, sizeof name, "%s%u", what, number);
    return part_add(g, PART_SWITCH, GRAPH_NO_NODE, tier, name);
}

/* Makes a port's cable.  The NIC sends at its own rate.  The switch sends at its own rate, if it has one, but no faster
 * than the NIC receives. */
static void port_connect(struct graph *g, uint32_t port, uint32_t leaf, uint64_t rate_bps, const uint64_t latency_ps[2])
{
    const struct cluster *c = g->cluster;
    const uint64_t out_bps = rate_bps && rate_bps < c->nic.rate_bps ? rate_bps : c->nic.rate_bps;
    link_add_one(g, &(struct link){ port, leaf, c->nic.rate_bps, latency_ps[0], 0, false, 0 });
    link_add_one(g, &(struct link){ leaf, port, out_bps, latency_ps[1], c->network.buffer_bytes, false, 0 });
}

static void port_connect_default(struct graph *g, uint32_t port, uint32_t leaf)
{
    const struct cluster_network *n = &g->cluster->network;
    const uint64_t latency_ps[2] = { n->latency_ps / 2, n->latency_ps - n->latency_ps / 2 };
    port_connect(g, port, leaf, n->rate_bps, latency_ps);
}

static uint64_t uplink_bps(const struct graph *g, uint32_t ports_below, uint32_t uplinks)
{
    const struct cluster_network *n = &g->cluster->network;
    if (n->uplink_rate_bps) return n->uplink_rate_bps;
    const double over = n->oversubscription > 0 ? n->oversubscription : 1;
    return MAX((uint64_t)((double)ports_below * (double)g->cluster->nic.rate_bps / over / uplinks), 1000000);
}

static void up_connect(struct graph *g, uint32_t lower, uint32_t upper, uint64_t rate_bps)
{
    const struct cluster_network *n = &g->cluster->network;
    link_add(g, lower, upper, rate_bps, n->hop_ps, n->buffer_bytes);
}

static void nodes_connect(struct graph *g, const uint32_t *leaf, uint32_t rails)
{
    const struct cluster_network *n = &g->cluster->network;
    const uint32_t per_leaf = n->nodes_per_leaf ? n->nodes_per_leaf : NODES_PER_LEAF, ports = g->nics * g->ports;
    for (uint32_t node = 0; node < g->nodes; node++)
        for (uint32_t p = 0; p < ports; p++)
            port_connect_default(g, graph_port(g, node, p), leaf[node / per_leaf * rails + (rails > 1 ? p : 0)]);
}

/* Makes leaves below common spines.  Each leaf connects nodes_per_leaf nodes.  With rails, a leaf connects only one
 * port of each of these nodes, and these ports have equal indices. */
static void leaf_spine_make(struct graph *g, bool rail)
{
    const struct cluster_network *n = &g->cluster->network;
    const uint32_t per_leaf = n->nodes_per_leaf ? n->nodes_per_leaf : NODES_PER_LEAF, ports = g->nics * g->ports;
    const uint32_t rails = rail ? ports : 1, groups = (g->nodes + per_leaf - 1) / per_leaf;
    const uint32_t leaves = groups * rails, spines = n->spines ? n->spines : SPINES;
    g_autofree uint32_t *leaf = g_new(uint32_t, leaves);
    for (uint32_t i = 0; i < leaves; i++) leaf[i] = switch_add(g, "leaf", i, 0);
    const uint64_t rate_bps = uplink_bps(g, rail ? per_leaf : per_leaf * ports, spines);
    for (uint32_t s = 0; s < spines && leaves > 1; s++) {
        const uint32_t spine = switch_add(g, "spine", s, 1);
        for (uint32_t i = 0; i < leaves; i++) up_connect(g, leaf[i], spine, rate_bps);
    }
    nodes_connect(g, leaf, rails);
}

/* Makes pods of leaves and spines, and cores above them.  The s-th spine of each pod is below the cores s, s + spines
 * and so on. */
static void fat_tree_make(struct graph *g)
{
    const struct cluster_network *n = &g->cluster->network;
    const uint32_t per_leaf = n->nodes_per_leaf ? n->nodes_per_leaf : NODES_PER_LEAF, ports = g->nics * g->ports;
    const uint32_t a_pod = n->leaves_per_pod ? n->leaves_per_pod : LEAVES_PER_POD;
    const uint32_t spines = n->spines ? n->spines : SPINES;
    const uint32_t leaves = (g->nodes + per_leaf - 1) / per_leaf, pods = (leaves + a_pod - 1) / a_pod;
    const uint32_t cores = MAX(n->cores ? n->cores : spines, spines);
    const uint64_t up_bps = uplink_bps(g, per_leaf * ports, spines);
    g_autofree uint32_t *leaf = g_new(uint32_t, leaves), *core = g_new(uint32_t, cores);
    for (uint32_t i = 0; i < cores; i++) core[i] = switch_add(g, "core", i, 2);
    for (uint32_t i = 0; i < leaves; i++) leaf[i] = switch_add(g, "leaf", i, 0);
    for (uint32_t pod = 0; pod < pods; pod++) {
        for (uint32_t s = 0; s < spines; s++) {
            const uint32_t spine = switch_add(g, "spine", pod * spines + s, 1);
            for (uint32_t i = pod * a_pod; i < MIN(leaves, (pod + 1) * a_pod); i++)
                up_connect(g, leaf[i], spine, up_bps);
            const uint32_t up = (cores - s + spines - 1) / spines;
            for (uint32_t i = s; i < cores; i += spines) up_connect(g, spine, core[i], up_bps * a_pod / up);
        }
    }
    nodes_connect(g, leaf, 1);
}

/* Makes groups of switches.  One link joins each pair of switches in a group, and one link joins each pair of groups.
 * The switches of a group take the links between groups in turn. */
static void dragonfly_make(struct graph *g)
{
    const struct cluster_network *n = &g->cluster->network;
    const uint32_t per_leaf = n->nodes_per_leaf ? n->nodes_per_leaf : NODES_PER_LEAF, ports = g->nics * g->ports;
    const uint32_t a_group = n->leaves_per_pod ? n->leaves_per_pod : LEAVES_PER_POD;
    const uint32_t groups = ((g->nodes + per_leaf - 1) / per_leaf + a_group - 1) / a_group;
    const uint64_t rate_bps = uplink_bps(g, per_leaf * ports, MAX(a_group - 1, 1));
    g_autofree uint32_t *leaf = g_new(uint32_t, groups * a_group);
    for (uint32_t i = 0; i < groups * a_group; i++) leaf[i] = switch_add(g, "leaf", i, 0);
    for (uint32_t group = 0; group < groups; group++) {
        for (uint32_t i = 0; i < a_group; i++)
            for (uint32_t j = 0; j < i; j++)
                up_connect(g, leaf[group * a_group + j], leaf[group * a_group + i], rate_bps);
        for (uint32_t other = 0; other < group; other++)
            up_connect(g, leaf[other * a_group + (group - 1) % a_group], leaf[group * a_group + other % a_group],
                       rate_bps);
    }
    nodes_connect(g, leaf, 1);
}

/* ---- written links ---- */

/* Finds a port or a switch by its name, and adds a switch that is not there yet.  Where a NIC has one port, the NIC's
 * name stands for the port.  UINT32_MAX: the name is of a node's part that does not exist. */
static uint32_t end_find(struct graph *g, const char *name)
{
    uint32_t part = graph_find(g, name);
    if (part != UINT32_MAX && graph_part(g, part)->kind == PART_NIC && g->ports == 1) {
        g_autofree char *port = g_strconcat(name, ".p0", NULL);
        part = graph_find(g, port);
    }
    if (part != UINT32_MAX || (name[0] == 'n' && g_ascii_isdigit(name[1]))) return part;
    return part_add(g, PART_SWITCH, GRAPH_NO_NODE, 0, name);
}

static bool written_add(struct graph *g, const struct cluster_link *written, GError **error)
{
    const char *const name[2] = { written->from, written->to };
    uint32_t end[2];
    for (int i = 0; i < 2; i++) {
        end[i] = strlen(name[i]) < PART_NAME_BYTES ? end_find(g, name[i]) : UINT32_MAX;
        const enum part_kind kind = end[i] == UINT32_MAX ? PART_KINDS : graph_part(g, end[i])->kind;
        if (kind == PART_PORT || kind == PART_SWITCH) continue;
        return error_input(
            error,
            "%s: [links]: expected a port as n0.nic0.p0 (nodes: %u, NICs of each: %u, ports of a NIC: %u), "
            "or a switch's name, found \"%s\"",
            written->place, g->nodes, g->nics, g->ports, name[i]);
    }
    if (end[0] == end[1] || graph_link_between(g, end[0], end[1]) != UINT32_MAX)
        return error_input(error, "%s: [links]: expected two parts that are not joined yet, found %s and %s",
                           written->place, name[0], name[1]);
    const int port = graph_part(g, end[1])->kind == PART_PORT;
    if (graph_part(g, end[0])->kind == PART_SWITCH && !port)
        link_add(g, end[0], end[1], written->rate_bps, written->latency_ps, g->cluster->network.buffer_bytes);
    else
        port_connect(g, end[port], end[!port], written->rate_bps,
                     (const uint64_t[2]){ written->latency_ps, written->latency_ps });
    return true;
}

/* An upper bound of the number of links that the topology's generator makes between switches. */
static uint64_t network_links(const struct graph *g)
{
    const struct cluster_network *n = &g->cluster->network;
    const uint64_t per_leaf = n->nodes_per_leaf ? n->nodes_per_leaf : NODES_PER_LEAF;
    const uint64_t leaves = g->nodes / per_leaf + 1, spines = n->spines ? n->spines : SPINES;
    const uint64_t pod = n->leaves_per_pod ? n->leaves_per_pod : LEAVES_PER_POD, pods = leaves / pod + 1;
    switch ((enum cluster_topology)n->topology) {
    case CLUSTER_RAIL: return leaves * g->nics * g->ports * spines;
    case CLUSTER_LEAF_SPINE: return leaves * spines;
    case CLUSTER_FAT_TREE: return leaves * spines + pods * (spines + MAX(n->cores, spines));
    case CLUSTER_DRAGONFLY: return pods * (pod * pod + pods);
    default: return 0;
    }
}

static bool network_make(struct graph *g, GError **error)
{
    if (network_links(g) > LINKS_MAX)
        return error_input(error, "%s: [network]: expected at most %d links between switches, found more",
                           g->cluster->path, LINKS_MAX);
    switch ((enum cluster_topology)g->cluster->network.topology) {
    case CLUSTER_SINGLE: {
        const uint32_t one = switch_add(g, "switch", 0, 0);
        for (uint32_t i = 0; i < g->nodes; i++)
            for (uint32_t p = 0; p < g->nics * g->ports; p++) port_connect_default(g, graph_port(g, i, p), one);
        break;
    }
    case CLUSTER_LEAF_SPINE: leaf_spine_make(g, false); break;
    case CLUSTER_RAIL: leaf_spine_make(g, true); break;
    case CLUSTER_FAT_TREE: fat_tree_make(g); break;
    case CLUSTER_DRAGONFLY: dragonfly_make(g); break;
    case CLUSTER_LINKS: break;
    }
    for (uint32_t i = 0; i < g->cluster->link_count; i++)
        if (!g->cluster->link[i].inside && !written_add(g, &g->cluster->link[i], error)) return false;
    return true;
}

static void part_clear(gpointer data) { g_array_unref(((struct part *)data)->out); }

struct graph *graph_new(const struct cluster *c, uint32_t nodes, uint32_t gpus, GError **error)
{
    struct graph *g = g_new0(struct graph, 1);
    g->cluster = c;
    g->nodes = nodes;
    g->gpus = gpus ? gpus : graph_node_gpus(c, 0);
    g->nics = graph_node_nics(c, g->gpus);
    g->ports = MAX(c->nic.ports, 1);
    g->part = g_array_new(FALSE, FALSE, sizeof(struct part));
    g_array_set_clear_func(g->part, part_clear);
    g->link = g_array_new(FALSE, FALSE, sizeof(struct link));
    g->names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const uint64_t a_node = (uint64_t)g->gpus + (uint64_t)g->nics * (g->ports + 1);
    if (MAX(c->node.sockets, c->node.pcie_switches) > PLACES_MAX) {
        error_input(error, "%s: [node]: expected at most %d sockets and PCIe switches, found %u and %u", c->path,
                    PLACES_MAX, c->node.sockets, c->node.pcie_switches);
    } else if (nodes * a_node > PARTS_MAX) {
        error_input(error, "%s: [node]: expected at most %d parts, found %u nodes of %u GPUs and %u NICs of %u ports",
                    c->path, PARTS_MAX, nodes, g->gpus, g->nics, g->ports);
    } else if (nodes_make(g, error) && (!g->nics || (network_make(g, error) && graph_reaches(g, error)))) {
        return g;
    }
    graph_free(g);
    return NULL;
}
