/* peers.c - GPUs of a node that store to each other over PCIe, because they have no NVLink, or by a link for each pair
 * of them (xGMI). */
#include "models/hardware/sm/gpu.h"
#include "models/hardware/sm/peers.h"

void peers_init(struct world *w)
{
    const struct graph *g = w->network->graph;
    if (g->cluster->nvlink.over == CLUSTER_PEERS_BY_XGMI && g->cluster->nvlink.gpus > 1) {
        w->pair_link = memory_new((uint64_t)g->nodes * g->gpus * g->gpus, sizeof w->pair_link[0]);
        w->pair = rate_make(graph_gpu_peer_rates(g, 0, 0).built_out_bps / (g->cluster->nvlink.gpus - 1));
    }
    if (g->cluster->nvlink.over != CLUSTER_PEERS_BY_PCIE) return;
    w->peer_way = memory_new((uint64_t)g->nodes * g->gpus * g->gpus, sizeof w->peer_way[0]);
    for (uint32_t i = 0; i < g->nodes * g->gpus * g->gpus; i++)
        network_peers(w->network, i / g->gpus / g->gpus, i / g->gpus % g->gpus, i % g->gpus, &w->peer_way[i]);
}

uint64_t peers_cross(struct world_rank *from, struct world_rank *to, uint64_t now_ps, uint64_t size_bytes)
{
    const struct world *w = from->world;
    const uint32_t gpus = w->network->graph->gpus, node = from->fabric.rank / gpus;
    if (to->fabric.rank / gpus != node) return now_ps;
    if (w->pair_link) {
        struct port *link = &w->pair_link[from->fabric.rank * gpus + to->fabric.rank % gpus];
        return port_reserve(link, now_ps, link_slowed_ps(from->egress_slow, rate_time(w->pair, size_bytes)),
                            size_bytes);
    }
    const struct network_local *way = &w->peer_way[from->fabric.rank * gpus + to->fabric.rank % gpus];
    uint64_t end_ps = now_ps;
    for (uint32_t i = 0; i < way->out_count; i++) {
        struct link_state *link = &w->network->link[way->out[i]];
        end_ps = later(end_ps, port_reserve(&link->port, now_ps, rate_time(link->rate, size_bytes), size_bytes));
    }
    return end_ps;
}

uint64_t peers_latency_ps(const struct world_rank *from, uint16_t peer)
{
    const struct world *w = from->world;
    const uint32_t gpus = w->network->graph->gpus;
    if (peer / gpus != from->fabric.rank / gpus) return 0;
    return w->peer_way[from->fabric.rank * gpus + peer % gpus].latency_ps;
}
