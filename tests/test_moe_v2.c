/* test_moe_v2.c - do the V2 kernels, direct and hybrid, deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h. */
#include "models/moe/moe_v2.h"
#include "tests/support_plant.h"
#include "tests/unit.h"

static struct moe_options options_draw(struct rng *rng)
{
    static const uint32_t shape[][2] = { { 1, 2 }, { 1, 4 }, { 1, 8 }, { 1, 9 }, { 1, 20 }, { 2, 9 }, { 2, 12 },
                                         { 2, 2 }, { 2, 4 }, { 4, 2 }, { 4, 4 }, { 5, 3 },  { 8, 1 } };
    struct moe_options o = moe_options_in_nodes(MOE_V2, shape, sizeof shape / sizeof shape[0], rng);
    o.expand = rng_below(rng, 3) == 0;
    o.direct = rng_below(rng, 3) == 0;
    o.single_reduction = (o.direct || o.ranks <= o.ranks_per_node) && rng_below(rng, 3) == 0;
    if (o.expand && o.single_reduction) o.weights = false;
    o.num_sms = 1 + (o.ranks > o.ranks_per_node) + (uint32_t)rng_below(rng, 5);
    o.device_sms = rng_below(rng, 2) ? o.num_sms + (uint32_t)rng_below(rng, 4) : 0;
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 400); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }
TEST("routings in turns") { moe_test_routings_in_turns(options_draw, 20); }

/* The wire carries slots padded to 32 bytes, and no credits.  There is one copy for each node or, in direct mode, for
 * each rank. */
TEST("bytes on the wire")
{
    for (int fp8 = 0; fp8 < 2; fp8++) {
        struct moe_options o = moe_options_small(MOE_V2, 4, 2);
        o.hidden = 7168;
        o.topk = 6;
        o.experts = 256;
        o.tokens_max = 64;
        o.dtype = fp8 ? MOE_FP8 : MOE_BF16;
        o.weights = true;
        struct moe_group *group = moe_group_run_sizes(&o, DRAW_UNIFORM);
        const struct moe_copies copies = moe_routing_copies(&group->routing, &o);
        const uint64_t dispatch = fp8 ? 7168 + 224 + 96 : 14336 + 96, combine = 14336 + 64;
        CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, copies.abroad * (dispatch + combine));
        CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, copies.to_ranks * (dispatch + combine));
        moe_group_free(group);
        o.direct = true;
        group = moe_group_run_sizes(&o, DRAW_UNIFORM);
        const struct moe_copies each = moe_routing_copies(&group->routing, &o);
        const uint64_t put_bytes = loop_counts(group->loop)->put_bytes, rows_bytes = dispatch + combine;
        CU_ASSERT_TRUE(put_bytes > each.abroad * rows_bytes && put_bytes % rows_bytes == 0);
        CU_ASSERT_EQUAL(put_bytes + loop_counts(group->loop)->store_bytes, each.to_ranks * rows_bytes);
        moe_group_free(group);
    }
}

/* A faster link, or fewer bytes of a token on the link, needs more SMs.  The number is always even and at least
 * four. */
TEST("analytic sms")
{
    struct moe_options o = moe_options_small(MOE_V2, 8, 8);
    o.topk = 8;
    o.experts = 256;
    CU_ASSERT_EQUAL(moe_v2_sms(&o, 50, 1), 4);
    const uint32_t slow = moe_v2_sms(&o, 50, 160), fast = moe_v2_sms(&o, 50, 400);
    CU_ASSERT_TRUE(fast > slow && slow % 2 == 0 && fast % 2 == 0);
    /* A token goes to 5.293 ranks, 7/8 of them on other GPUs.  So 160 GB/s carry 34.5 GB/s of tokens, each of which is
     * written 5.293 times. */
    CU_ASSERT_EQUAL(slow, 6);
    o.ranks = 32;
    CU_ASSERT_TRUE(moe_v2_sms(&o, 50, 160) >= 4 && moe_v2_sms(&o, 25, 160) <= moe_v2_sms(&o, 50, 160));
}

TEST("refusals")
{
    const struct moe_options fine = moe_options_small(MOE_V2, 16, 8);
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("ranks-per-node: v2's hybrid kernels take at most 64 (--direct: as many as there are)", o.ranks = 130,
                o.ranks_per_node = 65, o.experts = 130);
    MOE_REFUSED(NULL, o.ranks = 130, o.ranks_per_node = 65, o.experts = 130, o.direct = true);
    MOE_REFUSED("num-ranks: v2 takes at most 32 nodes, found 33", o.ranks = 66, o.ranks_per_node = 2, o.experts = 132);
    MOE_REFUSED("num-ranks: v2 takes at most 2048, found 2049", o.ranks = o.ranks_per_node = o.experts = 2049);
    MOE_REFUSED("num-sms: v2 takes at least 2 over several nodes, found 1", o.num_sms = 1);
    MOE_REFUSED("single-reduction: v2 has it within one node only", o.single_reduction = true);
    MOE_REFUSED("weights: v2 carries none back", o.ranks = 8, o.expand = o.single_reduction = o.weights = true);
}

static const struct plant_family family = {
    .kernels = MOE_V2,
    .ranks_per_node = 2,
    .row_check = 16,
    .cached_check = 16,
    .sum_check = 16,
    .hang = "the begin of the kernel waits for rank 2 in a barrier",
};

void unit_tests(CU_pSuite suite) { plant_tests_add(suite, &family); }
