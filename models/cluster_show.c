/* cluster_show.c - prints a cluster: which parts are linked to each other, and the rates of paths between two GPUs. */
#include "models/cluster_command.h"

#include <string.h>

#include "sim/units.h"

enum { LEAF_NODES = 16, POD_LEAVES = 4 };

/* A rate as "50 GB/s"; "" for a link that is never the limit. */
static char *rate_text(uint64_t rate_bps)
{
    return rate_bps ? g_strdup_printf("%.4g GB/s", (double)rate_bps / 8e9) : g_strdup("");
}

uint32_t cluster_show_nodes(const struct cluster *c)
{
    const struct cluster_network *n = &c->network;
    const uint32_t leaf = n->nodes_per_leaf ? n->nodes_per_leaf : LEAF_NODES;
    const uint32_t pod = leaf * (n->leaves_per_pod ? n->leaves_per_pod : POD_LEAVES);
    if (n->nodes) return n->nodes;
    switch ((enum cluster_topology)n->topology) {
    case CLUSTER_LEAF_SPINE:
    case CLUSTER_RAIL: return leaf + 1;
    case CLUSTER_FAT_TREE:
    case CLUSTER_DRAGONFLY: return pod + 1;
    default: return 2;
    }
}

/* ---- node ---- */

/* Prints the rate and the far end of each link of a path: " -57 GB/s- n0.pcie0". */
static void towards_print(const struct graph *g, const struct route *way, FILE *out)
{
    for (uint32_t i = 0; i < way->count; i++) {
        const struct link *link = graph_link(g, way->link[i]);
        g_autofree char *rate = rate_text(link->rate_bps);
        fprintf(out, " -%s- %s", rate, graph_part(g, link->to)->name);
    }
}

static void gpu_print(const struct graph *g, uint32_t gpu, FILE *out)
{
    uint32_t count;
    const uint32_t first = graph_gpu_ports(g, gpu, &count), from = graph_gpu(g, 0, gpu);
    for (uint32_t i = 0; i < count && g->nics; i += g->ports) {
        struct route way;
        const uint32_t nic = graph_nic(g, 0, (first + i) / g->ports);
        fprintf(out, "  %s", i ? "     " : graph_part(g, from)->name);
        if (route_find(g, from, nic, &way, 1)) towards_print(g, &way, out);
        g_autofree char *rate = rate_text(graph_port_out_bps(g, 0, first + i));
        fprintf(out, "  %u port%s of %s\n", g->ports, g->ports > 1 ? "s" : "", rate);
    }
    if (!g->nics) fprintf(out, "  %s\n", graph_part(g, from)->name);
}

static void node_print(const struct cluster *c, const struct graph *g, FILE *out)
{
    fprintf(out, "node: %u GPU%s, %u NIC%s%s\n", g->gpus, g->gpus > 1 ? "s" : "", g->nics, g->nics == 1 ? "" : "s",
            c->node.staging ? ", bytes staged in host memory" : "");
    for (uint32_t i = 0; i < g->gpus; i++) gpu_print(g, i, out);
    const struct graph_peer_rates peers = graph_gpu_peer_rates(g, 0, 0);
    g_autofree char *egress = rate_text(peers.out_bps), *ingress = rate_text(peers.in_bps);
    if (c->nvlink.gpus > 1)
        fprintf(out, "  %s of %u GPUs: %s out, %s in, %.4g us\n",
                c->nvlink.over == CLUSTER_PEERS_BY_PCIE   ? "peers by PCIe"
                : c->nvlink.over == CLUSTER_PEERS_BY_XGMI ? "peers by xGMI"
                                                          : "NVLink domains",
                c->nvlink.gpus, egress, ingress, units_us(c->nvlink.latency_ps));
    else fprintf(out, "  no NVLink\n");
}

/* ---- network ---- */

/* Prints the ports and lower switches below a switch, and then its other links, each with its rate. */
static void switch_print(const struct graph *g, uint32_t part, FILE *out)
{
    const struct part *p = graph_part(g, part);
    uint32_t ports = 0, links = 0, up = 0, down = 0;
    uint64_t below_bps = 0, links_bps = 0, down_bps = 0;
    for (guint i = 0; i < p->out->len; i++) {
        const struct link *link = graph_link(g, g_array_index(p->out, uint32_t, i));
        const struct part *to = graph_part(g, link->to);
        if (link->down) continue;
        if (to->kind == PART_PORT) {
            ports++;
            below_bps += link->rate_bps;
        } else if (to->tier >= p->tier) {
            links++;
            up += to->tier > p->tier;
            links_bps += link->rate_bps;
        } else {
            down++;
            down_bps += link->rate_bps;
        }
    }
    fprintf(out, "  %-9s", p->name);
    g_autofree char *below = rate_text(below_bps), *above = rate_text(links_bps), *under = rate_text(down_bps);
    if (ports) fprintf(out, " %u port%s, %s", ports, ports > 1 ? "s" : "", below);
    if (down) fprintf(out, " %u link%s to switches below, %s", down, down > 1 ? "s" : "", under);
    if (links)
        fprintf(out, "%s %u link%s %s, %s", ports || down ? ";" : "", links, links > 1 ? "s" : "",
                ports || !up ? "to other switches" : "to switches above", above);
    if (ports && links) fprintf(out, "; %.3g:1", (double)below_bps / (double)links_bps);
    fprintf(out, "\n");
}

static void network_print(const struct cluster *c, const struct graph *g, FILE *out)
{
    static const char *const topology[] = { "single switch", "leaf-spine", "rail", "fat-tree", "dragonfly", "links" };
    static const char *const routing[] = { "ecmp", "adaptive", "static", "spray" };
    if (!g->nics) {
        fprintf(out, "network: none\n");
        return;
    }
    fprintf(out, "network: %s of %u node%s, routing %s", topology[c->network.topology], g->nodes,
            g->nodes == 1 ? "" : "s", routing[c->network.routing]);
    if (c->network.buffer_bytes)
        fprintf(out, ", lossless behind buffers of %.4g KB a %s", (double)c->network.buffer_bytes / 1e3,
                c->network.queues == CLUSTER_QUEUE_FLOW ? "flow" : "port");
    if (c->network.cross_rail == CLUSTER_CROSS_BY_NVLINK) fprintf(out, ", to other rails by NVLink first");
    if (c->dcqcn.cnp_ps)
        fprintf(out, ", DCQCN marks from %.4g to %.4g KB", (double)c->dcqcn.mark_from_bytes / 1e3,
                (double)c->dcqcn.mark_all_bytes / 1e3);
    fprintf(out, "\n");
    for (uint32_t i = 0; i < g->part->len; i++)
        if (graph_part(g, i)->kind == PART_SWITCH) switch_print(g, i, out);
}

/* ---- paths ---- */

/* Prints a path with the rates and latencies of its links.  more_ps is the path's time beyond these latencies. */
static void way_print(const struct graph *g, const struct route *way, uint64_t more_ps, FILE *out)
{
    const struct link *first = graph_link(g, way->link[0]);
    fprintf(out, "  %s", graph_part(g, first->from)->name);
    for (uint32_t i = 0; i < way->count; i++) {
        const struct link *link = graph_link(g, way->link[i]);
        g_autofree char *rate = rate_text(link->rate_bps);
        fprintf(out, " -%s- %s", rate, graph_part(g, link->to)->name);
    }
    g_autofree char *rate = rate_text(route_rate_bps(g, way));
    fprintf(out, "\n    %s, %.4g us\n", rate, units_us(route_latency_ps(g, way) + more_ps));
}

static bool way_append(const struct graph *g, uint32_t from, uint32_t to, struct route *way, uint32_t *ways)
{
    struct route part[ROUTES_MAX];
    const uint32_t found = route_find(g, from, to, part, ROUTES_MAX);
    if (!found || way->count + part[0].count > ROUTE_LINKS_MAX) return false;
    for (uint32_t i = 0; i < part[0].count; i++) way->link[way->count++] = part[0].link[i];
    *ways = MAX(*ways, found);
    return true;
}

/* Finds the path by NVLink from the node's first GPU to another. */
static bool way_by_nvlink(const struct graph *g, uint32_t to, struct route *way)
{
    const uint32_t first = graph_gpu(g, 0, 0);
    const GArray *out = graph_part(g, first)->out;
    for (guint i = 0; i < out->len; i++) {
        const uint32_t link = g_array_index(out, uint32_t, i), nvlink = graph_link(g, link)->to;
        if (graph_part(g, nvlink)->kind != PART_NVLINK) continue;
        const uint32_t on = graph_link_between(g, nvlink, to);
        if (on == UINT32_MAX) continue;
        way->link[way->count++] = link;
        way->link[way->count++] = on;
        return true;
    }
    return false;
}

bool cluster_show_way(const struct graph *g, uint32_t node, uint32_t gpu, struct route *way, uint32_t *ways)
{
    uint32_t count, port = graph_gpu_ports(g, 0, &count);
    const uint32_t in = graph_port(g, node, graph_gpu_ports(g, gpu, &count));
    *way = (struct route){ 0 };
    *ways = 0;
    const uint32_t relay = graph_relay_port(g, 0, port, graph_port_switch(g, in));
    if (relay != UINT32_MAX && !way_by_nvlink(g, graph_gpu(g, 0, graph_port_gpu(g, relay)), way)) return false;
    if (relay != UINT32_MAX) port = relay;
    const uint32_t from = graph_gpu(g, 0, relay == UINT32_MAX ? 0 : graph_port_gpu(g, relay)),
                   out = graph_port(g, 0, port);
    return way_append(g, from, out, way, ways) && way_append(g, out, in, way, ways) &&
           way_append(g, in, graph_gpu(g, node, gpu), way, ways);
}

/* Prints paths to GPUs of the same node: one by NVLink or, over PCIe, one for each number of links. */
static void ways_inside_print(const struct graph *g, FILE *out)
{
    bool seen[ROUTE_LINKS_MAX + 1] = { false };
    const bool pcie = g->cluster->nvlink.over == CLUSTER_PEERS_BY_PCIE;
    for (uint32_t gpu = 1; gpu < g->gpus; gpu++) {
        struct route way = { 0 };
        const uint32_t to = graph_gpu(g, 0, gpu);
        const bool found = pcie ? route_find(g, graph_gpu(g, 0, 0), to, &way, 1) > 0 : way_by_nvlink(g, to, &way);
        if (!found || seen[way.count]) continue;
        seen[way.count] = true;
        way_print(g, &way, pcie ? g->cluster->nvlink.latency_ps : 0, out);
    }
}

/* Prints, for each number of links, the path to the first GPU that so many links reach. */
static void ways_print(const struct graph *g, FILE *out)
{
    bool seen[ROUTE_LINKS_MAX + 1] = { false };
    fprintf(out, "paths from n0.g0:\n");
    if (g->cluster->nvlink.gpus > 1) ways_inside_print(g, out);
    for (uint32_t node = 1; node < g->nodes && g->nics; node++) {
        for (uint32_t gpu = 0; gpu < g->gpus; gpu++) {
            struct route way;
            uint32_t ways;
            if (!cluster_show_way(g, node, gpu, &way, &ways) || seen[way.count]) continue;
            seen[way.count] = true;
            way_print(g, &way, 0, out);
            if (ways > 1) fprintf(out, "    and %u like it\n", ways - 1);
        }
    }
}

/* ---- values of other hardware ---- */

static bool assumed_alike(const struct cluster_assumed *a, const struct cluster_assumed *b)
{
    return !strcmp(a->section, b->section) && !strcmp(a->file, b->file);
}

/* Prints the keys of one section that are assumed from one file.  first is the index of the first such key. */
static void assumed_print(const struct cluster *c, uint32_t first, FILE *out)
{
    enum { COLUMNS = 100 };
    const struct cluster_assumed *a = &c->assumed[first];
    int column = fprintf(out, "  [%s] as %s:", a->section, a->file);
    for (uint32_t i = first; i < c->assumed_count; i++) {
        if (!assumed_alike(a, &c->assumed[i])) continue;
        if (i > first) column += fprintf(out, ",");
        if (column + (int)strlen(c->assumed[i].key) + 2 > COLUMNS) fprintf(out, "\n     "), column = 5;
        column += fprintf(out, " %s", c->assumed[i].key);
    }
    fputc('\n', out);
}

static void all_assumed_print(const struct cluster *c, FILE *out)
{
    if (c->assumed_count) fprintf(out, "not measured on this machine, but taken from other hardware:\n");
    for (uint32_t i = 0; i < c->assumed_count; i++) {
        uint32_t first = 0;
        while (!assumed_alike(&c->assumed[first], &c->assumed[i])) first++;
        if (first == i) assumed_print(c, first, out);
    }
}

void cluster_show(const struct cluster *c, const struct graph *g, FILE *out)
{
    fprintf(out, "%s (%s)\n", c->name, c->path);
    if (c->host.cores) {
        fprintf(out, "a host of %u core%s: ranks are processes\n", c->host.cores, c->host.cores == 1 ? "" : "s");
        return;
    }
    node_print(c, g, out);
    network_print(c, g, out);
    if (c->nvlink.gpus > 1 || (g->nics && g->nodes > 1)) ways_print(g, out);
    all_assumed_print(c, out);
}
