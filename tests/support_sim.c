/* support_sim.c - see support_sim.h. */
#include "tests/support_sim.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include "sim/units.h"

struct cluster support_cluster(uint32_t gpus_per_node)
{
    const struct cluster_work work = { .row_ps = 100 * PS_PER_NS,
                                       .warp_rate_bps = 8000000000,
                                       .sm_rate_bps = 80000000000 };
    return (struct cluster){
        .name = "test",
        .path = "test",
        .gpu = { .sms = 16,
                 .launch_ps = PS_PER_US,
                 .step_ps = 10 * PS_PER_NS,
                 .poll_ps = 100 * PS_PER_NS,
                 .fence_ps = 500 * PS_PER_NS,
                 .flag_ps = 200 * PS_PER_NS,
                 .hbm_rate_bps = 8000000000000,
                 .store = work,
                 .copy_sm_rate_bps = work.sm_rate_bps,
                 .reduce = work,
                 .reduce_load_rate_bps = 80000000000,
                 .scan_rate_bps = 80000000000,
                 .scan_row_ps = PS_PER_NS,
                 .peek_ps = 500 * PS_PER_NS },
        .nvlink = { .gpus = gpus_per_node,
                    .egress_rate_bps = 800000000000,
                    .ingress_rate_bps = 800000000000,
                    .latency_ps = PS_PER_US },
        .nic = { .gpus_per_nic = 1,
                 .rate_bps = 80000000000,
                 .mtu_bytes = 4096,
                 .signal_bytes = 32,
                 .fetch_ps = PS_PER_US,
                 .deliver_ps = PS_PER_US,
                 .post_ps = 100 * PS_PER_NS,
                 .doorbell_ps = 100 * PS_PER_NS,
                 .proxy_threads = 1 },
        .network = { .latency_ps = PS_PER_US },
    };
}

void support_group_init(struct support_group *group, const struct cluster *cluster, const struct moe_options *options,
                        const struct routing *routing, bool payload, bool nvlink_disabled)
{
    char text[256];
    const char *refusal = moe_options_refuse(options, text, sizeof text);
    if (refusal) puts(refusal);
    CU_ASSERT_PTR_NULL_FATAL(refusal);
    *group = (struct support_group){ 0 };
    moe_job_init(&group->job, options, routing);
    struct fabric_needs needs;
    kernel_job_needs(&group->job.job, payload, &needs);
    const struct world_options world = {
        .ranks = options->ranks,
        .ranks_per_node = options->ranks_per_node,
        .nvlink_disabled = nvlink_disabled,
        .payload = payload,
        .needs = needs,
    };
    group->world = world_new(cluster, &world);
    CU_ASSERT_PTR_NOT_NULL_FATAL(group->world);
    group->rank = calloc(options->ranks, sizeof group->rank[0]);
    group->result = calloc(options->ranks, sizeof group->result[0]);
    for (uint32_t r = 0; r < options->ranks; r++) {
        group->rank[r] = kernel_rank_new(&group->job.job, world_fabric(group->world, r));
        CU_ASSERT_PTR_NOT_NULL_FATAL(group->rank[r]);
    }
}

void support_group_clear(struct support_group *group)
{
    for (uint32_t r = 0; r < group->job.options.ranks; r++) kernel_rank_free(group->rank[r]);
    world_free(group->world);
    free(group->rank);
    free(group->result);
}

void support_group_run(struct support_group *group, uint32_t phase)
{
    const uint32_t ranks = group->job.options.ranks;
    struct fabric_worker ***worker = calloc(ranks, sizeof *worker);
    uint32_t *count = calloc(ranks, sizeof *count);
    for (uint32_t r = 0; r < ranks; r++) {
        const struct kernel_launch *kernel = kernel_rank_launch(group->rank[r], phase);
        worker[r] = kernel->worker;
        count[r] = kernel->worker_count;
    }
    char text[256] = "";
    const bool ended =
        world_run(group->world, (struct fabric_worker * *const *)worker, count, group->result, text, sizeof text);
    if (!ended) printf("\n      %s\n", text);
    CU_ASSERT_TRUE_FATAL(ended);
    free(worker);
    free(count);
}
