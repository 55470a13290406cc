/* test_steps.c - the time that a library's call takes around its kernel (models/predict/steps.h), and the steps of
 * Hybrid-EP's calls (models/moe/moe_hybrid_ep.c).
 *
 * Method: steps by hand on a machine of round numbers, one of them at a time; then the calls of a rank that received a
 * known number of rows, in one node and in two. */
#include "models/moe/moe_internal.h"
#include "models/predict/steps.h"
#include "sim/units.h"
#include "tests/unit.h"

#define GB_S(n) (UINT64_C(8000000000) * (n))

static const struct cluster machine = {
    .gpu = { .hbm_rate_bps = GB_S(1000) },
    .calls = { .copy_ps = 2 * PS_PER_US, .nccl_call_ps = 20 * PS_PER_US, .host_sync_ps = 50 * PS_PER_US },
};
static const struct steps_in in = { .peers_bps = GB_S(100), .port_bps = GB_S(10) };

TEST("copies")
{
    const struct kernel_steps steps = { .call = "c", .copied_bytes = 1000000, .copies = 3 };
    CU_ASSERT_EQUAL(steps_ps(&machine, &in, 8, 8, &steps), 3 * 2 * PS_PER_US + 2 * PS_PER_US); /* 3 calls of 2 us; 1 MB
                                                                                                * is read and written at
                                                                                                * 1000 GB/s */
    CU_ASSERT_EQUAL(steps_ps(&machine, &in, 8, 8, &(struct kernel_steps){ .call = "c" }), 0);
}

TEST("the host's wait")
{
    const struct kernel_steps steps = { .call = "c", .host_waits = true };
    CU_ASSERT_EQUAL(steps_ps(&machine, &in, 2, 8, &steps), 50 * PS_PER_US);
}

/* The call takes 20 us.  In one node, 7 parts of 1 MB come by NVLink, in 10 us each.  In two nodes of 4, each NIC
 * brings one part of the other node in 100 us, and 6 parts come by NVLink meanwhile.  At the end, the GPU reads all
 * parts, in 1 us each. */
TEST("a gather in a node, and between nodes")
{
    const struct kernel_steps steps = { .call = "c", .gathered_bytes = 1000000 };
    CU_ASSERT_EQUAL(steps_ps(&machine, &in, 8, 8, &steps), (20 + 70 + 8) * PS_PER_US);
    CU_ASSERT_EQUAL(steps_ps(&machine, &in, 8, 4, &steps), (20 + 100 + 8) * PS_PER_US);
    CU_ASSERT_EQUAL(steps_ps(&machine, &in, 2, 1, &steps), (20 + 100 + 2) * PS_PER_US);
}

/* ---- Hybrid-EP ---- */

static const char *phase_name(const struct kernel_job *job, uint32_t phase)
{
    static const char *const name[] = { "layout", "dispatch", "combine" };
    (void)job;
    return name[phase];
}

static void traffic_known(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    (void)rank;
    traffic->tokens_received = phase == 1 ? 300 : 100;
    traffic->tokens_sent = phase == 1 ? 200 : 300;
}

static struct kernel_steps steps_of(uint32_t phase, uint32_t per_node, enum moe_dtype dtype)
{
    static const struct kernel_family family = { .phase_name = phase_name, .traffic = traffic_known };
    struct routing_rank share[8] = { [0].tokens = 100 };
    const struct routing routing = { .ranks = 8, .rank = share };
    const struct moe_options o = { .family = MOE_HYBRID_EP,
                                   .ranks = 8,
                                   .ranks_per_node = per_node,
                                   .hidden = 1280,
                                   .experts = 32,
                                   .dtype = dtype,
                                   .hybrid_ep = true };
    struct fabric fabric = { .rank = 0 };
    const struct kernel_job job = { .family = &family };
    const struct moe_rank rank = { .kernel.job = &job, .options = &o, .fabric = &fabric, .routing = &routing };
    struct kernel_steps steps = { 0 };
    moe_hybrid_ep_steps(&rank.kernel, phase, &steps);
    return steps;
}

/* 300 rows of 1280 values, with 4 B for each of the node's 32 experts and, in FP8, for each 128 values. */
TEST("Hybrid-EP in one node")
{
    struct kernel_steps s = steps_of(1, 8, MOE_FP8);
    CU_ASSERT_STRING_EQUAL(s.call, "dispatch_call");
    CU_ASSERT_EQUAL(s.copied_bytes, 300 * (1280 + 40 + 128));
    CU_ASSERT_TRUE(s.copies == 3 && s.gathered_bytes == 100 * 32 && s.host_waits);
    s = steps_of(2, 8, MOE_FP8);
    CU_ASSERT_STRING_EQUAL(s.call, "combine_call");
    CU_ASSERT_TRUE(s.copied_bytes == 300 * (2560 + 128) && s.copies == 2 && !s.gathered_bytes && !s.host_waits);
    CU_ASSERT_PTR_NULL(steps_of(0, 8, MOE_FP8).call);
}

/* Two nodes of 4 ranks.  A row brings probabilities of 16 experts.  100 tokens send probabilities of all 32 experts. */
TEST("Hybrid-EP in two nodes")
{
    const struct kernel_steps s = steps_of(1, 4, MOE_BF16);
    CU_ASSERT_EQUAL(s.copied_bytes, 300 * (2560 + 64) + 100 * (2560 + 128));
    CU_ASSERT_EQUAL(s.copies, 4);
    CU_ASSERT_EQUAL(steps_of(2, 4, MOE_BF16).copied_bytes, 300 * (2560 + 64));
}
