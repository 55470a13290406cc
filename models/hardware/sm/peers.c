/* peers.c - GPUs of a node that store to each other over PCIe, because they have no NVLink. */
#include "models/hardware/sm/peers.h"
#include "models/hardware/world/world_internal.h"

void peers_init(struct world *w)
{
    const struct graph *g = w->network->graph;
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
