/* graph.c - finds parts and links of a graph, and edits links. */
#include "models/hardware/machine/graph.h"

struct part *graph_part(const struct graph *g, uint32_t part) { return &g_array_index(g->part, struct part, part); }
struct link *graph_link(const struct graph *g, uint32_t link) { return &g_array_index(g->link, struct link, link); }

uint32_t graph_find(const struct graph *g, const char *name)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(g->names, name)) - 1;
}

uint32_t graph_link_between(const struct graph *g, uint32_t from, uint32_t to)
{
    const GArray *out = graph_part(g, from)->out;
    for (guint i = 0; i < out->len; i++) {
        const uint32_t link = g_array_index(out, uint32_t, i);
        if (graph_link(g, link)->to == to && !graph_link(g, link)->down) return link;
    }
    return UINT32_MAX;
}

struct graph_made_with graph_made_with(const struct cluster *c)
{
    const struct cluster_nvlink *nvlink = &c->nvlink;
    return (struct graph_made_with){
        .nic_bps = c->nic.rate_bps,
        .peers_out_bps = nvlink->egress_rate_bps,
        .peers_in_bps = nvlink->ingress_rate_bps,
        .nic_line_bps = c->nic.line_rate_bps ? c->nic.line_rate_bps : c->nic.rate_bps,
        .nvlink_line_bps = nvlink->line_rate_bps ? nvlink->line_rate_bps : nvlink->egress_rate_bps,
    };
}

bool graph_peers_by_pcie(const struct cluster *from, struct cluster *to)
{
    const uint64_t rate_bps = from->node.pcie_rate_bps;
    *to = *from;
    to->nvlink = (struct cluster_nvlink){ .gpus = from->nvlink.gpus,
                                          .over = CLUSTER_PEERS_BY_PCIE,
                                          .egress_rate_bps = rate_bps,
                                          .ingress_rate_bps = rate_bps,
                                          .latency_ps = from->nvlink.latency_ps };
    return rate_bps > 0;
}

uint32_t graph_node_gpus(const struct cluster *c, uint32_t ranks_per_node)
{
    const uint32_t domain = MAX(c->nvlink.gpus, 1), share = MAX(c->nic.gpus_per_nic, 1);
    const uint32_t gpus = c->node.gpus ? c->node.gpus : MAX(domain, share);
    return ranks_per_node > 1 && ranks_per_node < gpus ? ranks_per_node : gpus;
}

uint32_t graph_node_nics(const struct cluster *c, uint32_t gpus)
{
    const uint32_t share = MAX(c->nic.gpus_per_nic, 1);
    if (!c->nic.rate_bps) return 0;
    return c->node.nics ? c->node.nics : (gpus + share - 1) / share;
}

/* The number of a node's first part, its GPU 0.  The node's other GPUs follow, then its NICs, ports and other parts. */
static uint32_t node_first(const struct graph *g, uint32_t node)
{
    char name[PART_NAME_BYTES];
    g_snprintf(name, sizeof name, "n%u.g0", node);
    return graph_find(g, name);
}

uint32_t graph_gpu(const struct graph *g, uint32_t node, uint32_t gpu) { return node_first(g, node) + gpu; }
uint32_t graph_nic(const struct graph *g, uint32_t node, uint32_t nic) { return node_first(g, node) + g->gpus + nic; }
uint32_t graph_port(const struct graph *g, uint32_t node, uint32_t port)
{
    return node_first(g, node) + g->gpus + g->nics + port;
}

uint32_t graph_gpu_ports(const struct graph *g, uint32_t gpu, uint32_t *count)
{
    if (g->only_nic) {
        *count = g->ports;
        return (g->only_nic - 1) * g->ports;
    }
    if (g->cluster->node.nic_of.count) {
        *count = g->ports;
        return g->cluster->node.nic_of.nic[gpu] * g->ports;
    }
    if (g->nics > g->gpus) {
        const uint32_t first = gpu * g->nics / g->gpus, end = (gpu + 1) * g->nics / g->gpus;
        *count = (end - first) * g->ports;
        return first * g->ports;
    }
    *count = g->ports;
    return g->nics ? gpu * g->nics / g->gpus * g->ports : 0;
}

uint32_t graph_port_gpu(const struct graph *g, uint32_t port)
{
    for (uint32_t gpu = 0; gpu < g->gpus; gpu++) {
        uint32_t count;
        const uint32_t first = graph_gpu_ports(g, gpu, &count);
        if (port >= first && port < first + count) return gpu;
    }
    return 0;
}

uint32_t graph_relay_port(const struct graph *g, uint32_t node, uint32_t own, uint32_t to_switch)
{
    if (g->cluster->network.cross_rail != CLUSTER_CROSS_BY_NVLINK) return UINT32_MAX;
    if (graph_port_switch(g, graph_port(g, node, own)) == to_switch) return UINT32_MAX;
    for (uint32_t port = 0; port < g->nics * g->ports; port++)
        if (graph_port_switch(g, graph_port(g, node, port)) == to_switch) return port;
    return UINT32_MAX;
}

uint32_t graph_port_switch(const struct graph *g, uint32_t port_part)
{
    const GArray *out = graph_part(g, port_part)->out;
    for (guint i = 0; i < out->len; i++) {
        const struct link *link = graph_link(g, g_array_index(out, uint32_t, i));
        if (!link->down && graph_part(g, link->to)->kind == PART_SWITCH) return link->to;
    }
    return UINT32_MAX;
}

uint64_t graph_port_out_bps(const struct graph *g, uint32_t node, uint32_t port)
{
    const uint32_t part = graph_port(g, node, port), above = graph_port_switch(g, part);
    return above == UINT32_MAX ? 0 : graph_link(g, graph_link_between(g, part, above))->rate_bps;
}

static uint64_t port_in_bps(const struct graph *g, uint32_t node, uint32_t port)
{
    const uint32_t part = graph_port(g, node, port), above = graph_port_switch(g, part);
    return above == UINT32_MAX ? 0 : graph_link(g, graph_link_between(g, above, part))->rate_bps;
}

uint64_t graph_line_bps(const struct graph *g)
{
    uint64_t most_bps = 0;
    for (uint32_t i = 0; i < g->nodes * g->nics * g->ports; i++)
        most_bps = MAX(most_bps, graph_port_out_bps(g, i / (g->nics * g->ports), i % (g->nics * g->ports)));
    return most_bps;
}

void graph_least_in(const struct graph *g, uint64_t *peers_bps, uint64_t *port_bps)
{
    const uint32_t ports = g->nics * g->ports;
    *peers_bps = *port_bps = 0;
    for (uint32_t i = 0; i < g->nodes * g->gpus; i++) {
        const uint64_t in_bps = graph_gpu_peer_rates(g, i / g->gpus, i % g->gpus).in_bps;
        if (in_bps && (!*peers_bps || in_bps < *peers_bps)) *peers_bps = in_bps;
    }
    for (uint32_t i = 0; i < g->nodes * ports; i++) {
        const uint64_t in_bps = port_in_bps(g, i / ports, i % ports);
        const uint64_t out_bps = graph_port_out_bps(g, i / ports, i % ports), least_bps = MIN(in_bps, out_bps);
        if (least_bps && (!*port_bps || least_bps < *port_bps)) *port_bps = least_bps;
    }
}

uint64_t graph_staging_bps(const struct graph *g, uint32_t node, uint32_t gpu)
{
    const uint64_t rate_bps = g->cluster->node.staging_rate_bps;
    const uint32_t part = graph_gpu(g, node, gpu);
    const GArray *out = graph_part(g, part)->out;
    for (guint i = 0; i < out->len; i++) {
        const struct link *link = graph_link(g, g_array_index(out, uint32_t, i));
        if (graph_part(g, link->to)->kind != PART_MEMORY || link->rate_bps == link->built_bps) continue;
        return (uint64_t)((double)rate_bps * (double)link->rate_bps / (double)link->built_bps);
    }
    return rate_bps;
}

struct graph_peer_rates graph_gpu_peer_rates(const struct graph *g, uint32_t node, uint32_t gpu)
{
    const struct cluster_nvlink *c = &g->cluster->nvlink;
    const uint32_t part = graph_gpu(g, node, gpu);
    const GArray *out = graph_part(g, part)->out;
    for (guint i = 0; i < out->len; i++) {
        const struct link *away = graph_link(g, g_array_index(out, uint32_t, i));
        if (graph_part(g, away->to)->kind != PART_NVLINK) continue;
        const uint32_t back = graph_link_between(g, away->to, part);
        const struct link *in = back == UINT32_MAX ? away : graph_link(g, back);
        return (struct graph_peer_rates){ away->rate_bps, in->rate_bps, away->built_bps, in->built_bps };
    }
    return (struct graph_peer_rates){ c->egress_rate_bps, c->ingress_rate_bps, c->egress_rate_bps,
                                      c->ingress_rate_bps };
}

void graph_free(struct graph *g)
{
    if (!g) return;
    g_array_unref(g->part);
    g_array_unref(g->link);
    g_hash_table_unref(g->names);
    g_free(g);
}

void graph_scale(struct graph *g, uint32_t a, uint32_t b, double factor)
{
    const uint32_t link[2] = { graph_link_between(g, a, b), graph_link_between(g, b, a) };
    for (int i = 0; i < 2; i++)
        if (link[i] != UINT32_MAX)
            graph_link(g, link[i])->rate_bps = MAX((uint64_t)((double)graph_link(g, link[i])->rate_bps * factor), 1);
}

void graph_cut(struct graph *g, uint32_t a, uint32_t b)
{
    const uint32_t link[2] = { graph_link_between(g, a, b), graph_link_between(g, b, a) };
    for (int i = 0; i < 2; i++)
        if (link[i] != UINT32_MAX) graph_link(g, link[i])->down = true;
}
