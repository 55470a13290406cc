/* test_moe_nccl_ht.c - do NCCL EP's high throughput and Hybrid-EP bring every token to the ranks that need it, and sum
 * what their experts make of it, whatever the order of events?
 *
 * Aim and method: see support_moe.h.  In some groups, pipelines have more chunks and rows than stages, or none. */
#include "tests/support_moe.h"
#include "tests/unit.h"

/* In one draw of four there are several chunks of 64 tokens for a block. */
static struct moe_options options_vary(struct moe_options o, struct rng *rng)
{
    const bool many = rng_below(rng, 4) == 0;
    o.cached = o.weights = o.worst_tokens = o.ue8m0 = false;
    o.num_bias = 0;
    o.expand = rng_below(rng, 2);
    if (!o.expand) o.expert_alignment = 1;
    if (!o.expand && rng_below(rng, 2)) o.family = MOE_HYBRID_EP;
    o.experts = o.ranks * 4 * (1 + (uint32_t)rng_below(rng, 3));
    o.topk = 1 + (uint32_t)rng_below(rng, o.experts < 12 ? o.experts : 12);
    o.hidden = 512 * (1 + (uint32_t)rng_below(rng, 2));
    if (many) o.tokens_max = 64 + (uint32_t)rng_below(rng, 500);
    o.num_sms = 1 + (uint32_t)rng_below(rng, many ? 3 : 20);
    return o;
}
static struct moe_options options_draw(struct rng *rng)
{
    return options_vary(moe_options_in_node(MOE_NCCL_HT, 12, 1024, rng), rng);
}
static struct moe_options options_draw_far(struct rng *rng)
{
    static const uint32_t shape[][2] = { { 2, 1 }, { 2, 2 }, { 3, 2 }, { 4, 1 }, { 2, 4 }, { 5, 1 } };
    return options_vary(moe_options_in_nodes(MOE_NCCL_HT, shape, sizeof shape / sizeof shape[0], rng), rng);
}

TEST("random groups within a node") { moe_test_random_groups(options_draw, 120); }
TEST("random groups between nodes") { moe_test_random_groups(options_draw_far, 120); }
TEST("sizes only takes the same steps")
{
    moe_test_sizes_only(options_draw, 20);
    moe_test_sizes_only(options_draw_far, 20);
}

/* A token goes to a rank once or, by experts, once for each of its experts there, with a probability for each expert,
 * and what the rank made of it is loaded from there. */
TEST("bytes on the wire")
{
    for (uint32_t expand = 0; expand < 2; expand++) {
        struct moe_options o = moe_options_small(MOE_NCCL_HT, 8, 8);
        o.hidden = 512;
        o.expand = expand;
        g_autoptr(moe_group) group = moe_group_run_sizes(&o, DRAW_UNIFORM);
        uint64_t own = 0, all = 0;
        for (uint32_t r = 0; r < o.ranks; r++)
            for (uint32_t t = 0; t < group->routing.rank[r].tokens; t++) {
                uint32_t copies[8] = { 0 };
                for (uint32_t j = 0; j < o.topk; j++) {
                    const int32_t expert = group->routing.rank[r].experts[t * o.topk + j];
                    if (expert >= 0) copies[(uint32_t)expert / (o.experts / o.ranks)]++;
                }
                for (uint32_t i = 0; i < o.ranks; i++) {
                    const uint32_t rows = expand ? copies[i] : copies[i] > 0;
                    all += rows;
                    own += i == r ? rows : 0;
                }
            }
        CU_ASSERT_TRUE(own > 0 && own < all);
        const uint64_t token = o.dtype == MOE_FP8 ? o.hidden + o.hidden / 32 : 2 * o.hidden;
        CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, all * (token + 4 * o.experts));
        CU_ASSERT_EQUAL(loop_counts(group->loop)->get_bytes, (all - own) * 2 * o.hidden);
        CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, 0);
    }
}

static struct moe_options plain_options(bool expand)
{
    struct moe_options o = moe_options_small(MOE_NCCL_HT, 4, 4);
    o.expand = expand;
    return o;
}

TEST("runs hash alike")
{
    moe_test_runs_hash_alike(plain_options(false), "combined_x");
    moe_test_runs_hash_alike(plain_options(true), "combined_x");
}

TEST("faults are found")
{
    static const struct moe_fault fault[] = {
        { "recv_x", 4 }, { "recv_topk_idx", 5 }, { "expert_counts", 3 }, { "combined_x", 9 }, { "expanded_x", 4 }
    };
    for (uint32_t expand = 0; expand < 2; expand++) {
        const struct moe_options o = plain_options(expand);
        moe_test_faults(&o, fault, sizeof fault / sizeof fault[0] - !expand);
    }
}

TEST("refusals")
{
    struct moe_options fine = moe_options_small(MOE_NCCL_HT, 8, 8);
    fine.hidden = 7168;
    fine.experts = 256;
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-ranks: nccl-ht takes at most 32 nodes, found 33", o.ranks = o.experts = 33; o.ranks_per_node = 1);
    MOE_REFUSED("num-experts: nccl-ht takes a multiple of 4 for each node, found 6", o.ranks = o.experts = 6);
    MOE_REFUSED("expert-alignment: nccl-ht takes a power of two, and with --expand only, found 3", o.expand = true;
                o.expert_alignment = 3);
    MOE_REFUSED("expert-alignment: nccl-ht takes a power of two, and with --expand only, found 2",
                o.expert_alignment = 2);
    MOE_REFUSED("num-tokens: nccl-ht takes at most 8192, found 8193", o.tokens_max = 8193);
    MOE_REFUSED("hidden: nccl-ht takes a multiple of 512 in FP8, found 7296", o.dtype = MOE_FP8; o.hidden = 7296);
    MOE_REFUSED("hidden: nccl-ht's blocks have 232448 B of shared memory", o.hidden = 8320);
}
