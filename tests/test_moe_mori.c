/* test_moe_mori.c - do MoRI's kernels within a node deliver and sum every token, whatever the order of events?
 *
 * Aim: every output right (models/moe checks, bit for bit), no hang, no breach of the seam's contract, the same steps
 * with and without payload; the bytes that PROTOCOLS.md 1.14 gives, and an error for each limit.
 * Method: random groups, routings and sizes over the adversarial fabrics of support_loop, several iterations in a
 * row. */
#include "tests/support_moe.h"
#include "tests/unit.h"

static struct moe_options options_draw(struct rng *rng)
{
    static const uint32_t ranks[] = { 2, 3, 4, 8 };
    const uint32_t count = ranks[rng_below(rng, sizeof ranks / sizeof ranks[0])];
    struct moe_options o = moe_options_small(rng_below(rng, 2) ? MOE_MORI : MOE_MORI_LL, count, count);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, rng_below(rng, 3) ? 40 : 150);
    o.hidden = 128 * ((uint32_t)rng_below(rng, 4) + (rng_below(rng, 8) ? 1 : 30)); /* up to four passes of combine */
    o.topk = 1 + (uint32_t)rng_below(rng, 8);
    o.experts = o.ranks * (8 + (uint32_t)rng_below(rng, 8));
    moe_options_vary(&o, rng);
    o.cached = o.weights = o.worst_tokens = false;
    o.num_bias = 0;
    o.num_sms = 1 + (uint32_t)rng_below(rng, 5);
    o.num_warps = 3 + (uint32_t)rng_below(rng, 14);
    o.zero_copy = rng_below(rng, 2);
    return o;
}

static void test_random_groups(void) { moe_test_random_groups(options_draw, 300); }
static void test_sizes_only_takes_the_same_steps(void) { moe_test_sizes_only(options_draw, 30); }

/* A token goes once to each of its ranks: the row, its scales, eight experts and their weights.  It comes back by
 * stores, or by reads of what other ranks have. */
static void test_bytes_on_the_wire(void)
{
    for (int variant = 0; variant < 4; variant++) {
        const bool ll = variant & 1, pulls = variant & 2;
        struct moe_options o = moe_options_small(ll ? MOE_MORI_LL : MOE_MORI, 4, 4);
        o.dtype = MOE_FP8;
        o.zero_copy = pulls;
        moe_test_stored_bytes(&o, 7168 + 224 + 64 + (pulls ? 0 : 14336));
    }
}

static void test_runs_hash_alike(void)
{
    struct moe_options o = moe_options_small(MOE_MORI, 4, 4);
    moe_test_runs_hash_alike(&o, "combined_x");
}

static void test_refusals(void)
{
    const struct moe_options fine = moe_options_small(MOE_MORI_LL, 8, 8);
    char text[256] = "";
    CU_ASSERT_PTR_NULL(moe_options_refuse(&fine, text, sizeof text));
    struct moe_options o = fine;
    o.ranks_per_node = 4;
    moe_test_refused(&o, "num-ranks: MoRI's kernels here reach the ranks of one node, at most 8; found 8 of 4 a node");
    o = fine, o.ranks = o.ranks_per_node = o.experts = 9;
    moe_test_refused(&o, "num-ranks: MoRI's kernels here reach the ranks of one node, at most 8; found 9 of 9 a node");
    o = fine, o.num_warps = 2;
    moe_test_refused(&o, "num-warps: expected 3 to 16, found 2");
    o = fine, o.num_warps = 17, o.family = MOE_MORI;
    moe_test_refused(&o, "num-warps: expected 1 to 16, found 17");
    o = fine, o.num_warps = 8, o.family = MOE_ONE_SIDED;
    moe_test_refused(&o, "num-warps: only MoRI's kernels have it");
    o = fine, o.cached = true;
    moe_test_refused(&o, "cached: MoRI's kernels here have none");
    o = fine, o.weights = true;
    moe_test_refused(&o, "weights: MoRI's kernels here have none");
    o = fine, o.num_bias = 1;
    moe_test_refused(&o, "num-bias: MoRI's kernels here have none");
    o = fine, o.worst_tokens = true;
    moe_test_refused(&o, "worst-tokens: MoRI's kernels here have none");
}

const char unit_suite[] = "moe_mori";

void unit_tests(CU_pSuite suite)
{
    CU_ADD_TEST(suite, test_random_groups);
    CU_ADD_TEST(suite, test_sizes_only_takes_the_same_steps);
    CU_ADD_TEST(suite, test_bytes_on_the_wire);
    CU_ADD_TEST(suite, test_runs_hash_alike);
    CU_ADD_TEST(suite, test_refusals);
}
