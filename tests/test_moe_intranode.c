/* test_moe_intranode.c - do the intranode kernels deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h.  Chunk sizes are drawn, too. */
#include "tests/support_plant.h"
#include "tests/unit.h"

static struct moe_options options_draw(struct rng *rng)
{
    struct moe_options o = moe_options_small(MOE_NORMAL, 2u << rng_below(rng, 3), 8);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, rng_below(rng, 3) ? 60 : 300);
    o.hidden = 128 * (1 + (uint32_t)rng_below(rng, 4));
    o.topk = 1 + (uint32_t)rng_below(rng, 8);
    o.experts = o.ranks * (8 + (uint32_t)rng_below(rng, 8));
    moe_options_vary(&o, rng);
    o.num_sms = 2 * (1 + (uint32_t)rng_below(rng, 5));
    o.dispatch.nvl_send = 1 + (uint32_t)rng_below(rng, 12);
    o.dispatch.nvl_recv = o.dispatch.nvl_send + 1 + (uint32_t)rng_below(rng, 20);
    o.combine.nvl_send = 1 + (uint32_t)rng_below(rng, 12);
    o.combine.nvl_recv = o.combine.nvl_send + 22 + (uint32_t)rng_below(rng, 20);
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 400); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }
TEST("routings in turns") { moe_test_routings_in_turns(options_draw, 60); }

/* The bytes on the wire are those of PROTOCOLS.md: slots of hidden, scales, source index and top-k. */
TEST("bytes on the wire")
{
    struct moe_options o = moe_options_small(MOE_NORMAL, 2, 8);
    o.hidden = 7168;
    o.topk = 8;
    o.experts = 32;
    o.tokens_max = 64;
    o.dtype = MOE_FP8;
    for (int cached = 0; cached < 2; cached++) {
        o.cached = cached;
        g_autoptr(moe_group) group = moe_group_run_sizes(&o, DRAW_NEXT_RANK);
        const uint64_t dispatch = 7168 + 224 + 4 + (cached ? 0 : 8 * (8 + 4)), combine = 14336 + 4;
        const uint64_t notify = cached ? 0 : 2 * (2 + 16) * 4;
        CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, 128 * (dispatch + combine) + notify);
        struct kernel_traffic traffic;
        kernel_rank_traffic(group->rank[0], cached ? 1 : 2, &traffic);
        CU_ASSERT_EQUAL(traffic.logical_nvl_bytes, 64 * 7392);
        CU_ASSERT_EQUAL(traffic.logical_rdma_bytes, 0);
        CU_ASSERT_EQUAL(traffic.tokens_sent, 64);
        kernel_rank_traffic(group->rank[0], cached ? 3 : 4, &traffic);
        CU_ASSERT_EQUAL(traffic.logical_nvl_bytes, 64 * 14336);
    }
}

TEST("refusals")
{
    const struct moe_options fine = moe_options_small(MOE_NORMAL, 4, 8);
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-sms: expected an even number", o.num_sms = 5);
    MOE_REFUSED("dispatch nvl-buffer: expected more than nvl-chunk 6, found 6",
                o.dispatch.nvl_recv = o.dispatch.nvl_send);
    MOE_REFUSED("combine nvl-buffer: expected at least nvl-chunk + 22 = 31, found 30", o.combine.nvl_recv = 30);
    MOE_REFUSED("num-ranks: the kernels for one node take 2, 4 or 8 (v2: larger NVLink domains), found 3", o.ranks = 3,
                o.experts = 12);
    MOE_REFUSED("num-topk: expected at most 32", o.topk = 33, o.experts = 64);
    MOE_REFUSED("weights: a cached dispatch", o.cached = o.weights = true);
    MOE_REFUSED("expert-alignment", o.expert_alignment = 0);
    MOE_REFUSED("hidden: ue8m0 needs a multiple of 512", o.round_scale = o.ue8m0 = true);
    MOE_REFUSED("num-experts: expected at most 1024", o.experts = 5000);
}

static const struct plant_family family = {
    .kernels = MOE_NORMAL,
    .ranks_per_node = 8,
    .worst_tokens = true,
    .row_check = 4,
    .cached_check = 8,
    .sum_check = 9,
    .hang = "rank 0 worker 0: notify waits for rank 2 in",
};

void unit_tests(CU_pSuite suite) { plant_tests_add(suite, &family); }
