/* test_moe_pplx.c - does pplx bring every token to each of its experts and sum their results, whatever the order of
 * events?
 *
 * Aim and method: see support_moe.h.  In some groups, a rank gets more rows than it may receive before the counts are
 * known. */
#include "tests/support_moe.h"
#include "tests/unit.h"

/* In one draw of four, a rank may get more than 256 rows from another. */
static struct moe_options options_draw(struct rng *rng)
{
    static const uint32_t shape[][2] = {
        { 2, 2 }, { 3, 3 }, { 8, 8 }, { 2, 1 }, { 4, 2 }, { 6, 2 }, { 8, 4 }, { 6, 3 }
    };
    const uint32_t *drawn = shape[rng_below(rng, sizeof shape / sizeof shape[0])];
    struct moe_options o = moe_options_small(MOE_PPLX, drawn[0], drawn[1]);
    const bool many = rng_below(rng, 4) == 0;
    o.tokens_max = 1 + (uint32_t)rng_below(rng, many ? 200 : 40);
    o.hidden = 128 * (1 + (uint32_t)rng_below(rng, 3));
    o.experts = o.ranks * (1 + (uint32_t)rng_below(rng, 8));
    o.topk = 1 + (uint32_t)rng_below(rng, o.experts < 8 ? o.experts : 8);
    moe_options_vary(&o, rng);
    o.cached = o.weights = o.worst_tokens = o.ue8m0 = false;
    o.num_bias = 0;
    o.hook = rng_below(rng, 2);
    o.num_sms = 1 + (uint32_t)rng_below(rng, many ? 8 : 50);
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 300); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }

/* At first each rank may send 256 rows to another, and the hot rank gets more.  By NVLink, the hot rank reads the
 * additional rows itself.  By the NIC, they are put later. */
TEST("more rows than a rank may have at first")
{
    for (uint32_t nodes = 1; nodes <= 2; nodes++) {
        struct moe_options o = moe_options_small(MOE_PPLX, 4, 4 / nodes);
        o.tokens_max = 300;
        g_autoptr(moe_group) group = moe_group_drawn(&o, DRAW_HOT_RANK, nodes, 50);
        CU_ASSERT_TRUE_FATAL(moe_group_run(group, 2, false));
        CU_ASSERT_EQUAL(moe_group_check(group), 0);
        CU_ASSERT_TRUE(loop_counts(group->loop)->get_bytes > 0);
    }
}

/* Each choice has a row, which goes to its expert with scales and comes back in BF16.  Counts go to all ranks.  Rows
 * that are put carry 16 bytes more. */
TEST("bytes on the wire")
{
    struct moe_options o = moe_options_small(MOE_PPLX, 8, 4);
    o.dtype = MOE_FP8;
    g_autoptr(moe_group) group = moe_group_run_sizes(&o, DRAW_UNIFORM);
    uint64_t far = 0, near = 0, own = 0;
    for (uint32_t r = 0; r < o.ranks; r++)
        for (uint32_t i = 0; i < group->routing.rank[r].tokens * o.topk; i++) {
            if (group->routing.rank[r].experts[i] < 0) continue;
            const uint32_t to = (uint32_t)group->routing.rank[r].experts[i] / (o.experts / o.ranks);
            far += to / 4 != r / 4;
            near += to / 4 == r / 4;
            own += to == r;
        }
    CU_ASSERT_TRUE(far > 0 && near > own);
    const uint64_t row = o.hidden + o.hidden / 128 * 4, slot = (row + 15) / 16 * 16 + 16;
    CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, far * (slot + 2 * o.hidden) + 8 * 4 * 4 * o.experts);
    CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes,
                    (near - own) * row + near * 2 * o.hidden + 8 * 3 * 4 * o.experts);
    CU_ASSERT_EQUAL(loop_counts(group->loop)->get_bytes, 0);
}

TEST("runs hash alike") { moe_test_runs_hash_alike(moe_options_small(MOE_PPLX, 4, 2), "combined_x"); }

TEST("faults are found")
{
    static const struct moe_fault fault[] = { { "recv_x", 2 }, { "expert_counts", 3 }, { "combined_x", 9 } };
    const struct moe_options o = moe_options_small(MOE_PPLX, 4, 2);
    moe_test_faults(&o, fault, sizeof fault / sizeof fault[0]);
}

TEST("refusals")
{
    const struct moe_options fine = moe_options_small(MOE_PPLX, 8, 8);
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-ranks: pplx's kernels reach 32 nodes of 8 ranks here, found 1 of 9",
                o.ranks = o.ranks_per_node = o.experts = 9);
}
