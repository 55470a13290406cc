/* support_sim.h - a small cluster with round numbers, for tests of the simulated world. */
#ifndef TESTS_SUPPORT_SIM_H
#define TESTS_SUPPORT_SIM_H

#include "models/cluster.h"
#include "models/hardware/world/world.h"

/* A cluster of GPUs with round rates: store 1 GB/s a warp and 10 GB/s an SM, NVLink 100 GB/s, NIC 10 GB/s, latencies of
 * 1 us. */
struct cluster support_cluster(uint32_t gpus_per_node);

typedef struct world world;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(world, world_free)

#endif
