/* support_sim.h - simulated worlds for tests: a small cluster with round numbers, and running moe ranks on it. */
#ifndef TESTS_SUPPORT_SIM_H
#define TESTS_SUPPORT_SIM_H

#include <stdbool.h>
#include "models/cluster.h"
#include "models/hardware/world/world.h"
#include "models/moe/moe.h"

/* GPUs of round rates: store 1 GB/s a warp and 10 GB/s an SM, NVLink 100 GB/s, NIC 10 GB/s, latencies of 1 us. */
struct cluster support_cluster(uint32_t gpus_per_node);

/* A world with ranks on it. */
struct support_group {
    struct moe_job job;
    struct world *world;
    struct kernel_rank **rank;
    struct world_result *result;
};

/* Asserts (CUnit, fatal) that everything could be made. */
void support_group_init(struct support_group *group, const struct cluster *cluster, const struct moe_options *options,
                        const struct routing *routing, bool payload, bool nvlink_disabled);
void support_group_clear(struct support_group *group);
/* Launches the phase on all ranks and runs it; asserts that it ends. */
void support_group_run(struct support_group *group, uint32_t phase);

#endif
