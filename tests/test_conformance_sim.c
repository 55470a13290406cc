/* test_conformance_sim.c - the simulated world keeps the contract of models/fabric.h.  Some worlds are one NVLink
 * domain, others have nodes, or NVLink disabled.  GPUs post by themselves or by a proxy.  One world is a host whose
 * ranks share cores. */
#include "sim/units.h"
#include "tests/support_conformance.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

struct sim_world {
    struct world *world;
    uint32_t rank_count;
};

/* Runs workers in the simulated world.  The suite lists the workers of all ranks.  The world wants a list for each
 * rank, numbered from 0. */
static bool sim_world_run(void *context, struct fabric_worker **worker, uint32_t worker_count, char *why,
                          size_t why_size)
{
    struct sim_world *sim = context;
    struct fabric_worker *of_rank[CONFORMANCE_RANKS][CONFORMANCE_WORKERS], **by_rank[CONFORMANCE_RANKS];
    uint32_t count[CONFORMANCE_RANKS] = { 0 };
    struct world_result result[CONFORMANCE_RANKS];
    for (uint32_t r = 0; r < sim->rank_count; r++) by_rank[r] = of_rank[r];
    for (uint32_t i = 0; i < worker_count; i++) by_rank[worker[i]->fabric->rank][worker[i]->index] = worker[i];
    for (uint32_t i = 0; i < worker_count; i++) count[worker[i]->fabric->rank]++;
    return world_run(sim->world, by_rank, count, result, why, why_size);
}

static void run_suite(const struct cluster *cluster, uint32_t rank_count, uint32_t ranks_per_node, bool nvlink_disabled,
                      uint64_t seed)
{
    const struct world_options options = {
        .ranks = rank_count,
        .ranks_per_node = ranks_per_node,
        .nvlink_disabled = nvlink_disabled,
        .payload = true,
        .needs = CONFORMANCE_NEEDS,
    };
    struct sim_world sim = { .world = world_new(cluster, &options), .rank_count = rank_count };
    CU_ASSERT_PTR_NOT_NULL_FATAL(sim.world);
    struct fabric *fabric[CONFORMANCE_RANKS];
    for (uint32_t r = 0; r < rank_count; r++) fabric[r] = world_fabric(sim.world, r);
    const struct conformance_world world = {
        .context = &sim,
        .rank_count = rank_count,
        .fabric = fabric,
        .run = sim_world_run,
        .refuses = nvlink_disabled || ranks_per_node < rank_count,
    };
    CU_ASSERT_EQUAL(conformance_run(&world, seed), 0);
    world_free(sim.world);
}

TEST("one NVLink domain")
{
    const struct cluster cluster = support_cluster(8);
    run_suite(&cluster, 1, 8, false, 1);
    run_suite(&cluster, 8, 8, false, 2);
}

TEST("nodes with a network")
{
    const struct cluster cluster = support_cluster(2);
    for (uint64_t seed = 1; seed <= 5; seed++) run_suite(&cluster, 8, 2, false, seed);
    run_suite(&cluster, 3, 1, false, 6);
}

TEST("NVLink disabled, one NIC each and one for all")
{
    struct cluster cluster = support_cluster(8);
    run_suite(&cluster, 5, 8, true, 1);
    cluster.nic.gpus_per_nic = 5;
    cluster.nic.window_bytes = 20000;
    run_suite(&cluster, 5, 8, true, 2);
}

TEST("posting by a proxy")
{
    struct cluster cluster = support_cluster(1);
    cluster.nic.posting = CLUSTER_POST_PROXY;
    cluster.nic.proxy_ps = 2 * PS_PER_US;
    cluster.nic.proxy_threads = 2;
    run_suite(&cluster, 4, 1, false, 1);
}

TEST("ranks on the cores of a host")
{
    const struct cluster_work row = { 100 * PS_PER_NS, 8000000000 };
    struct cluster cluster = support_cluster(2);
    cluster.host = (struct cluster_host){
        .cores = 2,
        .step_ps = 100 * PS_PER_NS,
        .poll_ps = PS_PER_US,
        .switch_ps = PS_PER_US,
        .store_ps = 100 * PS_PER_NS,
        .store_rate_bps = 80000000000,
        .put = { 2, { 0, 10000 }, { PS_PER_US, 2 * PS_PER_US } },
        .signal_ps = PS_PER_US,
        .copy = row,
        .cast = row,
        .reduce = row,
        .scan_rate_bps = 80000000000,
    };
    run_suite(&cluster, 8, 2, false, 1);
    run_suite(&cluster, 4, 8, false, 2);
}
