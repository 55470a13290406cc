/* test_verbs_worlds.c - one case, run in the simulated world and on live links, gives equal bytes in every output
 * tensor of every rank and passes the protocol's checks in both.
 *
 * Method: one routing, one set of options; the simulated world with payload on one side, live worlds on the
 * other: over the stand-in network always, over verbs in its three ways to signal where there is an RDMA device
 * (else the program says that it had none). */
#include <stdio.h>
#include <string.h>
#include "models/case.h"
#include "models/cluster.h"
#include "models/hardware/world/world.h"
#include "models/moe/moe.h"
#include "tests/support_live.h"
#include "tests/unit.h"
#ifdef HAVE_VERBS
#    include <infiniband/verbs.h>
#endif

enum { RANKS_MAX = 8, ITERATIONS = 2, TENSORS_MAX = 32, PHASES_MAX = 8 };

struct twin {
    struct moe_job job;
    struct routing routing;
    bool nvlink_disabled;
    struct fabric_needs needs;
    struct cluster *cluster;
    struct world *world; /* simulated */
    struct bootstrap **b;
    struct live_world *live[RANKS_MAX];
    struct kernel_rank *simulated[RANKS_MAX], *real[RANKS_MAX];
};

static void twin_options(struct twin *twin, const char *const *option)
{
    struct case_options c;
    GError *error = NULL;
    case_init(&c);
    for (bool fine = true; *option && fine; option += 2) fine = case_set(&c, option[0], option[1], &error);
    struct moe_options options = { 0 };
    if (!error && case_routing(&c, &twin->routing, &error)) case_moe_options(&c, &twin->routing, 132, &options, &error);
    twin->nvlink_disabled = c.nvlink_disabled;
    if (error) printf("\n      %s\n", error->message);
    CU_ASSERT_PTR_NULL_FATAL(error);
    moe_job_init(&twin->job, &options, &twin->routing);
    CU_ASSERT_FATAL(twin->job.options.ranks <= RANKS_MAX && kernel_phase_count(&twin->job.job) <= PHASES_MAX);
    kernel_job_needs(&twin->job.job, true, &twin->needs);
}

static void twin_simulated_run(struct twin *twin)
{
    const struct moe_options *o = &twin->job.options;
    const struct world_options options = {
        .ranks = o->ranks,
        .ranks_per_node = o->ranks_per_node,
        .nvlink_disabled = twin->nvlink_disabled,
        .payload = true,
        .needs = twin->needs,
    };
    twin->cluster = cluster_load("h800-cx7", NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(twin->cluster);
    twin->world = world_new(twin->cluster, &options);
    CU_ASSERT_PTR_NOT_NULL_FATAL(twin->world);
    for (uint32_t r = 0; r < o->ranks; r++)
        twin->simulated[r] = kernel_rank_new(&twin->job.job, world_fabric(twin->world, r));
    for (uint32_t i = 0; i < ITERATIONS * kernel_phase_count(&twin->job.job); i++) {
        struct fabric_worker **worker[RANKS_MAX];
        uint32_t count[RANKS_MAX];
        struct world_result result[RANKS_MAX];
        char why[256] = "";
        for (uint32_t r = 0; r < o->ranks; r++) {
            const struct kernel_launch *kernel =
                kernel_rank_launch(twin->simulated[r], i % kernel_phase_count(&twin->job.job));
            worker[r] = kernel->worker;
            count[r] = kernel->worker_count;
        }
        const bool fine = world_run(twin->world, worker, count, result, why, sizeof why);
        if (!fine) printf("\n      simulated: %s\n", why);
        CU_ASSERT_TRUE_FATAL(fine);
    }
}

static void twin_live_open(struct twin *twin, const struct live_options *options)
{
    struct fabric_needs needs = twin->needs;
    needs.queue_count = MAX(needs.queue_count, 1);
    needs.queue_depth = MAX(needs.queue_depth, 1);
    GError *error = NULL;
    twin->b = support_bootstraps_new(twin->job.options.ranks);
    const bool fine = support_worlds_new(options, &needs, twin->b, twin->job.options.ranks, twin->live, &error);
    if (!fine) printf("\n      %s\n", error->message);
    CU_ASSERT_TRUE_FATAL(fine);
    for (uint32_t r = 0; r < twin->job.options.ranks; r++)
        twin->real[r] = kernel_rank_new(&twin->job.job, live_world_fabric(twin->live[r]));
}

static void twin_live_run(struct twin *twin)
{
    const struct moe_options *o = &twin->job.options;
    for (uint32_t i = 0; i < ITERATIONS * kernel_phase_count(&twin->job.job); i++) {
        GPtrArray *workers = g_ptr_array_new();
        char why[256] = "";
        for (uint32_t r = 0; r < o->ranks; r++) {
            const struct kernel_launch *kernel =
                kernel_rank_launch(twin->real[r], i % kernel_phase_count(&twin->job.job));
            for (uint32_t w = 0; w < kernel->worker_count; w++) g_ptr_array_add(workers, kernel->worker[w]);
        }
        const bool fine = support_worlds_run(twin->live, o->ranks, (struct fabric_worker **)workers->pdata,
                                             workers->len, why, sizeof why);
        g_ptr_array_free(workers, TRUE);
        if (!fine) printf("\n      live: %s\n", why);
        CU_ASSERT_TRUE_FATAL(fine);
    }
}

static void twin_live_close(struct twin *twin)
{
    for (uint32_t r = 0; r < twin->job.options.ranks; r++) {
        kernel_rank_free(twin->real[r]);
        live_world_free(twin->live[r]);
    }
    support_bootstraps_free(twin->b, twin->job.options.ranks);
}

static void twin_compare(const struct twin *twin)
{
    for (uint32_t r = 0; r < twin->job.options.ranks; r++) {
        struct kernel_tensor a[TENSORS_MAX], b[TENSORS_MAX];
        char text[256] = "";
        CU_ASSERT_EQUAL(kernel_rank_check(twin->simulated[r], text, sizeof text), 0);
        CU_ASSERT_EQUAL(kernel_rank_check(twin->real[r], text, sizeof text), 0);
        if (text[0]) printf("\n      rank %u: %s\n", r, text);
        const uint32_t count = kernel_rank_outputs(twin->simulated[r], a, TENSORS_MAX);
        CU_ASSERT_FATAL(count >= 2 && count <= TENSORS_MAX);
        CU_ASSERT_EQUAL_FATAL(kernel_rank_outputs(twin->real[r], b, TENSORS_MAX), count);
        uint64_t compared_bytes = 0;
        for (uint32_t i = 0; i < count; i++) {
            CU_ASSERT_STRING_EQUAL(a[i].name, b[i].name);
            CU_ASSERT_EQUAL_FATAL(a[i].size_bytes, b[i].size_bytes);
            const bool equal = a[i].size_bytes == 0 || memcmp(a[i].data, b[i].data, a[i].size_bytes) == 0;
            if (!equal) printf("\n      rank %u: %s differs\n", r, a[i].name);
            CU_ASSERT_TRUE(equal);
            compared_bytes += a[i].size_bytes;
        }
        CU_ASSERT(compared_bytes > twin->job.options.hidden);
    }
}

static bool verbs_here(void)
{
    int count = 0;
#ifdef HAVE_VERBS
    struct ibv_device **list = ibv_get_device_list(&count);
    if (list) ibv_free_device_list(list);
#endif
    return count > 0;
}

static void run_case(const char *const *option)
{
    struct twin twin = { 0 };
    twin_options(&twin, option);
    twin_simulated_run(&twin);
    const enum live_signalling ways[] = { LIVE_SIGNAL_WRITE, LIVE_SIGNAL_ATOMIC, LIVE_SIGNAL_IMM };
    for (uint32_t i = 0; i < (verbs_here() ? 4 : 1); i++) {
        struct live_options options = support_options(i ? "verbs" : "shm", 8);
        options.signalling = ways[i ? i - 1 : 0];
        options.ranks_per_node = twin.job.options.ranks_per_node;
        options.nvlink_disabled = twin.nvlink_disabled;
        twin_live_open(&twin, &options);
        twin_live_run(&twin);
        twin_compare(&twin);
        twin_live_close(&twin);
    }
    for (uint32_t r = 0; r < twin.job.options.ranks; r++) kernel_rank_free(twin.simulated[r]);
    world_free(twin.world);
    cluster_free(twin.cluster);
    routing_free(&twin.routing);
}

#define CASE(...) run_case((const char *const[]){ __VA_ARGS__, NULL })

TEST("low latency")
{
    CASE("kernel", "ll", "num-ranks", "2", "disable-nvlink", "true", "num-tokens", "40", "hidden", "512", "num-experts",
         "16", "num-topk", "4", "data", "random", "num-sms", "4");
    CASE("kernel", "ll", "num-ranks", "4", "disable-nvlink", "true", "num-tokens", "24", "hidden", "512", "num-experts",
         "32", "num-topk", "8", "routing", "zipf:1.2", "dtype", "bf16", "num-sms", "4");
    CASE("kernel", "ll", "num-ranks", "8", "ranks-per-node", "2", "num-tokens", "12", "hidden", "512", "num-experts",
         "64", "num-topk", "8", "routing", "hot-rank:0.3", "data", "random", "num-sms", "4");
}

TEST("internode")
{
    CASE("kernel", "normal", "num-ranks", "4", "ranks-per-node", "2", "num-tokens", "64", "hidden", "512",
         "num-experts", "32", "num-topk", "4", "data", "random", "num-sms", "4", "weights", "true");
    CASE("kernel", "normal", "num-ranks", "8", "ranks-per-node", "2", "num-tokens", "48", "hidden", "512",
         "num-experts", "64", "num-topk", "8", "routing", "zipf:1.2", "dtype", "bf16", "num-sms", "4");
    CASE("kernel", "normal", "num-ranks", "8", "ranks-per-node", "4", "num-tokens", "48", "hidden", "512",
         "num-experts", "64", "num-topk", "8", "routing", "hot-rank:0.3", "num-sms", "4");
}

TEST("v2")
{
    CASE("kernel", "v2", "num-ranks", "4", "ranks-per-node", "1", "num-tokens", "48", "hidden", "512", "num-experts",
         "32", "num-topk", "4", "data", "random", "num-sms", "4");
    CASE("kernel", "v2", "num-ranks", "8", "ranks-per-node", "2", "num-tokens", "32", "hidden", "512", "num-experts",
         "64", "num-topk", "6", "data", "random", "num-sms", "4");
}

bool unit_begin(char **argv)
{
    (void)argv;
    if (!verbs_here()) printf("no RDMA device on this machine: live worlds are over shared memory only\n");
    return true;
}
