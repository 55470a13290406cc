/* test_moe_mega.c - does MegaMoE bring every token to its experts and sum their results, whatever the order of events?
 *
 * Aim and method: see support_moe.h. */
#include "tests/support_moe.h"
#include "tests/unit.h"

/* With few experts and many tokens, blocks have more than 16 rows, and some experts have several blocks. */
static struct moe_options options_draw(struct rng *rng)
{
    static const uint32_t ranks[] = { 2, 3, 4, 8, 12 };
    const uint32_t count = ranks[rng_below(rng, sizeof ranks / sizeof ranks[0])];
    struct moe_options o = moe_options_small(MOE_MEGA, count, count);
    const bool few = rng_below(rng, 3) == 0;
    o.tokens_max = 1 + (uint32_t)rng_below(rng, few ? 90 : 30);
    o.hidden = 256 * (1 + (uint32_t)rng_below(rng, 3));
    o.intermediate = 128 * (1 + (uint32_t)rng_below(rng, 3));
    o.mega_first = rng_below(rng, 3) == 0;
    o.experts = o.ranks * (few ? 1 + (uint32_t)rng_below(rng, 2) : 3 + (uint32_t)rng_below(rng, 8));
    o.topk = 1 + (uint32_t)rng_below(rng, o.experts < 8 ? o.experts : 8);
    moe_options_vary(&o, rng);
    o.dtype = MOE_FP8;
    o.cached = o.weights = o.worst_tokens = false;
    o.num_bias = 0;
    o.expert_alignment = 1;
    o.num_sms = 2 * (1 + (uint32_t)rng_below(rng, 8));
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 200); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }

TEST("runs hash alike")
{
    struct moe_options o = moe_options_small(MOE_MEGA, 4, 4);
    o.dtype = MOE_FP8;
    o.hidden = 256;
    moe_test_runs_hash_alike(o, "combined_x");
}

TEST("faults are found")
{
    static const struct moe_fault fault[] = { { "recv_x", 2 }, { "combined_x", 9 } };
    struct moe_options o = moe_options_small(MOE_MEGA, 4, 4);
    o.dtype = MOE_FP8;
    o.hidden = 256;
    moe_test_faults(&o, fault, sizeof fault / sizeof fault[0]);
}

TEST("refusals")
{
    struct moe_options fine = moe_options_small(MOE_MEGA, 8, 8);
    fine.dtype = MOE_FP8;
    fine.hidden = 256;
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-ranks: mega-moe takes at most 72, found 73", o.ranks = o.ranks_per_node = o.experts = 73);
}
