/* peers.h - stores between GPUs of a node over PCIe, or over a link for each pair of GPUs, if the cluster says that
 * they go there.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_PEERS_H
#define MODELS_HARDWARE_PEERS_H

#include <stdint.h>

struct world;
struct world_rank;

/* Finds the ways, where there are any. */
void peers_init(struct world *w);
/* Takes bytes over the PCIe, or the link, between two GPUs.  Returns when that is done; at once if they are in
 * different nodes. */
uint64_t peers_cross(struct world_rank *from, struct world_rank *to, uint64_t now_ps, uint64_t size_bytes);
/* The time from a store to a peer of the node until it is visible there, in addition to NVLink's. */
uint64_t peers_latency_ps(const struct world_rank *from, uint16_t peer);

#endif
