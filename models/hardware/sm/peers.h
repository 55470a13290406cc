/* peers.h - stores between GPUs of a node over PCIe, or over one link for each pair of GPUs, where the cluster says
 * so.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_PEERS_H
#define MODELS_HARDWARE_PEERS_H

#include <stdint.h>

struct world;
struct world_rank;

/* Finds the ways over PCIe, or makes the links of pairs, if GPUs store over them. */
void peers_init(struct world *w);
/* Takes bytes over the PCIe, or the link, between two GPUs.  Returns when they have crossed.  If the GPUs are in
 * different nodes, returns now_ps. */
uint64_t peers_cross(struct world_rank *from, struct world_rank *to, uint64_t now_ps, uint64_t size_bytes);
/* How much longer than by NVLink it takes until a store to a peer of the node is visible there. */
uint64_t peers_latency_ps(const struct world_rank *from, uint16_t peer);

#endif
