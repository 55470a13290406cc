/* network.c - ways between ports; see network.h. */
#include "models/hardware/machine/network.h"

#include <assert.h>
#include "sim/memory.h"

/* A link inside a node gets latency 0, because network_local has the latency of the way through the node. */
static void link_init(const struct graph *g, struct link_state *state, uint32_t number)
{
    const struct link *link = graph_link(g, number);
    const bool inside =
        graph_part(g, link->from)->node != GRAPH_NO_NODE && graph_part(g, link->to)->node != GRAPH_NO_NODE;
    *state = (struct link_state){ .rate = rate_make(link->rate_bps),
                                  .latency_ps = inside ? 0 : link->latency_ps,
                                  .wait_max_ps = UINT64_MAX };
    if (link->buffer_bytes && link->rate_bps) state->wait_max_ps = rate_time(state->rate, link->buffer_bytes);
}

/* The index of a switch in n->leaf.  Adds a switch that is not there yet. */
static uint32_t leaf_number(struct network *n, uint32_t part, GHashTable *numbers)
{
    const uint32_t known = GPOINTER_TO_UINT(g_hash_table_lookup(numbers, GUINT_TO_POINTER(part + 1)));
    if (known) return known - 1;
    n->leaf = g_renew(uint32_t, n->leaf, n->leaf_count + 1);
    n->leaf[n->leaf_count] = part;
    g_hash_table_insert(numbers, GUINT_TO_POINTER(part + 1), GUINT_TO_POINTER(++n->leaf_count));
    return n->leaf_count - 1;
}

struct network *network_new(const struct graph *g)
{
    struct network *n = g_new0(struct network, 1);
    n->graph = g;
    n->ports_per_node = g->nics * g->ports;
    n->link = g_new0(struct link_state, g->link->len + 1);
    n->port = g_new0(struct network_port, (gsize)g->nodes * n->ports_per_node + 1);
    for (uint32_t i = 0; i < g->link->len; i++) link_init(g, &n->link[i], i);
    g_autoptr(GHashTable) numbers = g_hash_table_new(NULL, NULL);
    for (uint32_t i = 0; i < g->nodes * n->ports_per_node; i++) {
        const uint32_t part = graph_port(g, i / n->ports_per_node, i % n->ports_per_node);
        const uint32_t above = graph_port_switch(g, part);
        if (above == UINT32_MAX) continue; /* the port is down, so its users have another port */
        n->port[i] = (struct network_port){ .out = graph_link_between(g, part, above),
                                            .in = graph_link_between(g, above, part),
                                            .leaf = leaf_number(n, above, numbers) };
    }
    for (uint32_t i = 0; n->leaf_count > 1 && i < g->link->len; i++)
        if (graph_part(g, graph_link(g, i)->from)->kind == PART_SWITCH)
            n->link[i].idles = memory_new(1, sizeof(struct idles));
    n->ways = g_new0(struct network_ways, (gsize)n->leaf_count * n->leaf_count + 1);
    return n;
}

void network_free(struct network *n)
{
    if (!n) return;
    for (uint32_t i = 0; i < n->leaf_count * n->leaf_count; i++) g_free(n->ways[i].way);
    g_free(n->ways);
    for (uint32_t i = 0; i < n->graph->link->len; i++) idles_free(n->link[i].idles);
    g_free(n->leaf);
    g_free(n->port);
    g_free(n->link);
    g_free(n);
}

void network_local(const struct network *n, uint32_t node, uint32_t gpu, uint32_t port, struct network_local *local)
{
    const struct graph *g = n->graph;
    const uint32_t from = graph_gpu(g, node, gpu), to = graph_port(g, node, port);
    struct route way;
    *local = (struct network_local){ 0 };
    if (!route_find(g, from, to, &way, 1)) return;
    local->latency_ps = route_latency_ps(g, &way);
    for (uint32_t i = 0; i < way.count && local->out_count < G_N_ELEMENTS(local->out); i++)
        if (graph_link(g, way.link[i])->rate_bps) local->out[local->out_count++] = way.link[i];
    if (!route_find(g, to, from, &way, 1)) return;
    for (uint32_t i = 0; i < way.count && local->in_count < G_N_ELEMENTS(local->in); i++)
        if (graph_link(g, way.link[i])->rate_bps) local->in[local->in_count++] = way.link[i];
}

void network_peers(const struct network *n, uint32_t node, uint32_t from_gpu, uint32_t to_gpu,
                   struct network_local *local)
{
    const struct graph *g = n->graph;
    struct route way;
    *local = (struct network_local){ 0 };
    if (!route_find(g, graph_gpu(g, node, from_gpu), graph_gpu(g, node, to_gpu), &way, 1)) return;
    local->latency_ps = route_latency_ps(g, &way);
    for (uint32_t i = 0; i < way.count && local->out_count < G_N_ELEMENTS(local->out); i++)
        if (graph_link(g, way.link[i])->rate_bps) local->out[local->out_count++] = way.link[i];
}

static const struct network_ways *ways_between(struct network *n, uint32_t from, uint32_t to)
{
    struct network_ways *ways = &n->ways[(gsize)n->port[from].leaf * n->leaf_count + n->port[to].leaf];
    if (ways->count) return ways;
    struct route found[ROUTES_MAX];
    ways->count = route_find(n->graph, n->leaf[n->port[from].leaf], n->leaf[n->port[to].leaf], found, ROUTES_MAX);
    g_assert(ways->count);
    ways->way = g_memdup2(found, ways->count * sizeof found[0]);
    return ways;
}

/* When all links of the way will be free.  The earlier this is, the less time bytes sent now have to wait. */
static uint64_t way_queue_ps(const struct network *n, const struct route *way)
{
    uint64_t most_ps = 0;
    for (uint32_t i = 0; i < way->count; i++) most_ps = MAX(most_ps, n->link[way->link[i]].port.free_ps);
    return most_ps;
}

static const struct route *way_choose(const struct network *n, const struct network_ways *ways, uint64_t flow_key)
{
    if (n->graph->cluster->network.routing == CLUSTER_SPRAY) return &ways->way[flow_key % ways->count];
    const uint32_t hashed = (uint32_t)((flow_key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % ways->count;
    const struct route *best = &ways->way[hashed];
    if (n->graph->cluster->network.routing == CLUSTER_STATIC) return &ways->way[0];
    if (n->graph->cluster->network.routing == CLUSTER_ECMP) return best;
    uint64_t least_ps = way_queue_ps(n, best);
    for (uint32_t i = 1; i < ways->count; i++) {
        const struct route *way = &ways->way[(hashed + i) % ways->count];
        const uint64_t queue_ps = way_queue_ps(n, way);
        if (queue_ps >= least_ps) continue;
        least_ps = queue_ps;
        best = way;
    }
    return best;
}

void network_way(struct network *n, uint32_t from, uint32_t to, uint64_t flow_key, struct passage *p)
{
    p->count = 0;
    if (n->port[from].leaf != n->port[to].leaf) {
        const struct network_ways *ways = ways_between(n, from, to);
        const struct route *way = ways->count > 1 ? way_choose(n, ways, flow_key) : ways->way;
        for (uint32_t i = 0; i < way->count; i++) p->link[p->count++] = way->link[i];
    }
    assert(p->count < PASSAGE_LINKS_MAX);
    p->link[p->count++] = n->port[to].in;
}

uint64_t network_back_ps(struct network *n, uint32_t from, uint32_t to)
{
    uint64_t back_ps = n->link[n->port[to].out].latency_ps + n->link[n->port[from].in].latency_ps;
    if (n->port[from].leaf != n->port[to].leaf) back_ps += route_latency_ps(n->graph, ways_between(n, to, from)->way);
    return back_ps;
}

bool network_buffers_finite(const struct network *n)
{
    bool finite = false;
    for (uint32_t i = 0; i < n->graph->link->len; i++) finite |= n->link[i].wait_max_ps != UINT64_MAX;
    return finite;
}

void network_uses_clear(struct network *n)
{
    for (uint32_t i = 0; i < n->graph->link->len; i++) n->link[i].port.busy_ps = n->link[i].port.bytes = 0;
}

/* Leaves out a port's own links, because these are shown as nic_tx and nic_rx. */
bool network_link_inner(const struct network *n, uint32_t i)
{
    const struct link *link = graph_link(n->graph, i);
    return graph_part(n->graph, link->from)->kind != PART_PORT && graph_part(n->graph, link->to)->kind != PART_PORT;
}
