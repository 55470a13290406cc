/* test_verbs_worlds.c - one case, run in the simulated world and on live links, must give equal bytes in every output
 * tensor of every rank, and must pass the protocol's checks in both.
 *
 * Method: one routing and one set of options are run in the simulated world, with payload, and in live worlds.  One
 * live world is always over the stand-in network.  If there is an RDMA device, others are over verbs, with each of the
 * three ways to signal.  Otherwise the program says that it had no device. */
#include <stdio.h>
#include "models/case.h"
#include "models/moe/moe.h"
#include "tests/support_job.h"
#include "tests/support_live.h"
#include "tests/unit.h"
#ifdef HAVE_VERBS
#    include <infiniband/verbs.h>
#endif

enum { ITERATIONS = 2 };

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
    const enum live_signalling ways[] = { LIVE_SIGNAL_WRITE, LIVE_SIGNAL_ATOMIC, LIVE_SIGNAL_IMM };
    struct case_options c;
    g_auto(routing) routing = { 0 };
    struct moe_options options;
    struct moe_job job;
    case_init(&c);
    for (; *option; option += 2) CU_ASSERT_FATAL(case_set(&c, option[0], option[1], NULL));
    CU_ASSERT_FATAL(case_routing(&c, &routing, NULL) && case_moe_options(&c, &routing, 132, &options, NULL));
    moe_job_init(&job, &options, &routing);
    for (uint32_t i = 0; i < (verbs_here() ? 4 : 1); i++) {
        struct live_options live = support_options(i ? "verbs" : "shm", options.ranks_per_node);
        live.signalling = ways[i ? i - 1 : 0];
        live.nvlink_disabled = c.nvlink_disabled;
        job_two_worlds_over(&job.job, ITERATIONS, &live);
    }
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
    CASE("kernel", "nccl-ll", "num-ranks", "4", "ranks-per-node", "2", "num-tokens", "24", "hidden", "512",
         "num-experts", "32", "num-topk", "8", "data", "random", "num-sms", "4");
    CASE("kernel", "nccl-ll", "num-ranks", "4", "ranks-per-node", "1", "num-tokens", "24", "hidden", "512",
         "num-experts", "32", "num-topk", "8", "dtype", "bf16", "expand", "true", "num-sms", "4");
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
