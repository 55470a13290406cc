/* graph_check.c - checks that the parts of a graph reach each other, and names those that do not. */
#include "models/hardware/machine/graph.h"

#include "models/hardware/machine/route.h"
#include "sim/error.h"

/* Marks in seen[] the switch `from` and all switches that it reaches. */
static void reach(const struct graph *g, uint32_t from, uint8_t *seen)
{
    g_autoptr(GArray) queue = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(queue, from);
    seen[from] = 1;
    for (guint at = 0; at < queue->len; at++) {
        const GArray *out = graph_part(g, g_array_index(queue, uint32_t, at))->out;
        for (guint i = 0; i < out->len; i++) {
            const struct link *link = graph_link(g, g_array_index(out, uint32_t, i));
            if (link->down || seen[link->to] || graph_part(g, link->to)->kind != PART_SWITCH) continue;
            seen[link->to] = 1;
            g_array_append_val(queue, link->to);
        }
    }
}

/* Whether a link of the port is down.  Such a port counts as connected: it was meant to have a link. */
static bool port_is_cut(const struct graph *g, uint32_t port)
{
    const GArray *out = graph_part(g, port)->out;
    for (guint i = 0; i < out->len; i++)
        if (graph_link(g, g_array_index(out, uint32_t, i))->down) return true;
    return false;
}

/* Finds the first port of a node that is up, and returns it in *up.  Returns false if a port has no link at all, or
 * if no port is up. */
static bool node_check(const struct graph *g, uint32_t node, uint32_t *up, GError **error)
{
    *up = UINT32_MAX;
    for (uint32_t i = 0; i < g->nics * g->ports; i++) {
        const uint32_t port = graph_port(g, node, i);
        const bool linked = graph_port_switch(g, port) != UINT32_MAX;
        if (linked && *up == UINT32_MAX) *up = port;
        if (linked || port_is_cut(g, port)) continue;
        return error_input(error, "%s: [network]: expected a link from %s to a switch, found none", g->cluster->path,
                           graph_part(g, port)->name);
    }
    if (*up != UINT32_MAX) return true;
    return error_input(error, "%s: [network]: expected a port of node %u that is up, found none", g->cluster->path,
                       node);
}

/* Whether a way within the node has at most ROUTE_INSIDE_MAX links: struct network_local has room for no more.  A way
 * to a port may have one more.  Its last link has no rate, so struct network_local leaves it out. */
static bool inside_way(const struct graph *g, uint32_t from, uint32_t to)
{
    struct route way;
    return route_find(g, from, to, &way, 1) && way.count <= ROUTE_INSIDE_MAX + (graph_part(g, to)->kind == PART_PORT);
}

bool graph_node_reaches(const struct graph *g, uint32_t node, GError **error)
{
    for (uint32_t gpu = 0; gpu < g->gpus; gpu++) {
        uint32_t count, lost = UINT32_MAX;
        const uint32_t from = graph_gpu(g, node, gpu), first = graph_gpu_ports(g, gpu, &count);
        for (uint32_t p = first; g->nics && p < first + count && lost == UINT32_MAX; p++)
            if (!inside_way(g, from, graph_port(g, node, p))) lost = graph_port(g, node, p);
        const bool peers = g->cluster->nvlink.gpus > 1 && g->cluster->nvlink.over == CLUSTER_PEERS_BY_PCIE;
        for (uint32_t other = 0; peers && other < g->gpus && lost == UINT32_MAX; other++)
            if (other != gpu && !inside_way(g, from, graph_gpu(g, node, other))) lost = graph_gpu(g, node, other);
        if (lost == UINT32_MAX) continue;
        struct route way;
        g_autofree char *found = route_find(g, from, lost, &way, 1)
                                     ? g_strdup_printf("one of more than %d links", ROUTE_INSIDE_MAX)
                                     : g_strdup("none");
        return error_input(error, "%s: [node]: expected a way from %s to %s, found %s", g->cluster->path,
                           graph_part(g, from)->name, graph_part(g, lost)->name, found);
    }
    return true;
}

/* Checks each node in which a link is down.  There is no way around NVLink, so its links must not be down. */
static bool links_inside_check(const struct graph *g, GError **error)
{
    for (uint32_t i = 0; i < g->link->len; i++) {
        const struct link *link = graph_link(g, i);
        const struct part *from = graph_part(g, link->from), *to = graph_part(g, link->to);
        if (!link->down || from->node == GRAPH_NO_NODE || to->node == GRAPH_NO_NODE) continue;
        if (from->kind == PART_NVLINK || to->kind == PART_NVLINK)
            return error_input(
                error, "%s: [nvlink]: expected a way from %s to %s, found none: expected rate=FACTOR in place of down",
                g->cluster->path, from->name, to->name);
        if (!graph_node_reaches(g, from->node, error)) return false;
    }
    return true;
}

bool graph_reaches(const struct graph *g, GError **error)
{
    if (!links_inside_check(g, error)) return false;
    g_autofree uint8_t *seen = g_new0(uint8_t, g->part->len);
    uint32_t first = UINT32_MAX, up;
    for (uint32_t node = 0; node < g->nodes; node++) {
        if (!node_check(g, node, &up, error)) return false;
        if (first == UINT32_MAX) reach(g, graph_port_switch(g, up), seen);
        if (first == UINT32_MAX) first = up;
        for (uint32_t i = 0; i < g->nics * g->ports; i++) {
            const uint32_t port = graph_port(g, node, i), above = graph_port_switch(g, port);
            if (above == UINT32_MAX || seen[above]) continue;
            return error_input(error, "%s: [network]: expected a way from %s to %s, found none", g->cluster->path,
                               graph_part(g, first)->name, graph_part(g, port)->name);
        }
    }
    return true;
}
