/* support_sim.h - a small cluster with round numbers, for tests of the simulated world. */
#ifndef TESTS_SUPPORT_SIM_H
#define TESTS_SUPPORT_SIM_H

#include "models/cluster.h"
#include "models/hardware/world/world.h"

/* A cluster of GPUs with round rates: store 1 GB/s a warp and 10 GB/s an SM, NVLink 100 GB/s, NIC 10 GB/s, latencies of
 * 1 us. */
struct cluster support_cluster(uint32_t gpus_per_node);

/* Runs one kernel on every rank, as world_run_program() does.  All are launched at the same time.  Sets result[ranks].
 */
bool world_run(struct world *w, struct fabric_worker ***worker, const uint32_t *worker_count,
               struct world_result *result, char *text, size_t text_size);

typedef struct world world;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(world, world_free)

#endif
