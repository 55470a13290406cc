/* test_moe_mori.c - do MoRI's kernels deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h. */
#include "models/moe/moe_mori.h"
#include "tests/support_moe.h"
#include "tests/unit.h"

/* Long rows take up to four passes of combine. */
static struct moe_options options_draw(struct rng *rng)
{
    struct moe_options o = moe_options_in_node(rng_below(rng, 2) ? MOE_MORI : MOE_MORI_LL, 8, 4224, rng);
    o.num_warps = 3 + (uint32_t)rng_below(rng, 14);
    o.zero_copy = rng_below(rng, 2);
    return o;
}

static struct moe_options options_draw_nodes(struct rng *rng)
{
    static const uint32_t shape[][2] = { { 2, 1 }, { 4, 2 }, { 6, 2 }, { 8, 4 }, { 6, 3 }, { 4, 1 } };
    const uint32_t *drawn = shape[rng_below(rng, sizeof shape / sizeof shape[0])];
    struct moe_options o = options_draw(rng);
    o.family = rng_below(rng, 2) ? MOE_MORI_LL : MOE_MORI;
    o.experts = drawn[0] * (o.experts / o.ranks);
    o.ranks = drawn[0];
    o.ranks_per_node = drawn[1];
    o.zero_copy = false;
    /* Between nodes, sums are rounded twice.  With equal values both roundings may err in the same direction, so the
     * pattern is not used. */
    if (o.data == MOE_DATA_PATTERN) o.data = MOE_DATA_RANDOM;
    o.num_sms = 2 + (uint32_t)rng_below(rng, 4);
    o.rdma_sms = (uint32_t)rng_below(rng, o.num_sms);
    o.device_sms = o.num_sms + (uint32_t)rng_below(rng, 3);
    o.num_warps = 1 + (uint32_t)rng_below(rng, 16);
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 300); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }
TEST("random nodes") { moe_test_random_groups(options_draw_nodes, 300); }
TEST("nodes take the same steps") { moe_test_sizes_only(options_draw_nodes, 30); }

/* A token goes once to each of its ranks: the row, its scales, eight experts and their weights.  It comes back by
 * stores, or the token's rank reads it from the other ranks. */
TEST("bytes on the wire")
{
    for (int variant = 0; variant < 4; variant++) {
        const bool ll = variant & 1, pulls = variant & 2;
        struct moe_options o = moe_options_small(ll ? MOE_MORI_LL : MOE_MORI, 4, 4);
        o.dtype = MOE_FP8;
        o.zero_copy = pulls;
        moe_test_stored_bytes(&o, 7168 + 224 + 64 + (pulls ? 0 : 14336));
    }
}

/* In low latency, each token goes to the other node and comes back as one sum, even if no rank there needs it.
 * Otherwise only needed tokens go.  Within a node, ranks store rows to each other and read the results. */
TEST("bytes between nodes")
{
    for (int ll = 0; ll < 2; ll++) {
        struct moe_options o = moe_options_small(ll ? MOE_MORI_LL : MOE_MORI, 8, 4);
        o.num_warps = 4;
        o.topk = 2;
        g_autoptr(moe_group) group = moe_group_run_sizes(&o, DRAW_UNIFORM);
        const struct moe_copies copies = moe_routing_copies(&group->routing, &o);
        const uint64_t row = o.hidden * (o.dtype == MOE_FP8 ? 1 : 2) + (o.dtype == MOE_FP8 ? o.hidden / 128 * 4 : 0);
        const uint64_t slot = row + 8 * o.topk + 4;
        uint64_t tokens = 0;
        for (uint32_t r = 0; r < o.ranks; r++) tokens += group->routing.rank[r].tokens;
        CU_ASSERT_TRUE(copies.abroad < tokens);
        CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, (ll ? tokens : copies.abroad) * (slot + 2 * o.hidden));
        CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, copies.to_ranks * slot);
    }
}

/* 22 warps share the sum of a row of 7168 values: 326 values each, and 322 for the last.  A warp needs two passes of
 * 256 B, and two passes over the remainder, which wait for each row.  Whole passes ask for 1, 2, 4, 6, 8 or 10 rows at
 * once. */
TEST("passes of a sum")
{
    static const uint32_t bytes[] = { 256, 256, 128, 12 };
    for (uint32_t pass = 0; pass < 4; pass++) {
        const struct mori_part p = mori_part_of(7168, 22, 1, pass);
        CU_ASSERT_EQUAL(p.from, 326);
        CU_ASSERT_EQUAL(p.bytes, bytes[pass]);
        CU_ASSERT_EQUAL(p.last, pass == 3);
        uint32_t at_once = 0;
        for (uint32_t rows = 1; rows <= 16; rows++) at_once |= (uint32_t)mori_rows_at_once(&p, rows) << rows;
        CU_ASSERT_EQUAL(at_once, pass < 2 ? 1 << 1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10 : 0);
    }
    CU_ASSERT_EQUAL(mori_part_of(7168, 22, 21, 0).values, 322);
}

TEST("runs hash alike") { moe_test_runs_hash_alike(moe_options_small(MOE_MORI, 4, 4), "combined_x"); }

TEST("refusals")
{
    const struct moe_options fine = moe_options_small(MOE_MORI_LL, 8, 8);
    moe_test_refused(&fine, NULL);
    struct moe_options o = fine;
    o.ranks_per_node = 4;
    moe_test_refused(&o, NULL);
    struct moe_options far = o;
    far.num_sms = 1;
    moe_test_refused(&far, "num-sms: MoRI's kernels between nodes need 2, found 1");
    far.num_sms = 8, far.num_warps = 17;
    moe_test_refused(&far, "num-warps: expected 1 to 16, found 17");
    far.num_warps = 0, far.ranks_per_node = 16, far.ranks = far.experts = 32;
    moe_test_refused(&far, "num-ranks: MoRI's kernels reach 32 nodes of 8 ranks here, found 2 of 16");

    MOE_REFUSED("num-ranks: MoRI's kernels here reach the ranks of one node, at most 8; found 9 of 9 a node",
                o.ranks = o.ranks_per_node = o.experts = 9);
    MOE_REFUSED("num-warps: expected 3 to 16, found 2", o.num_warps = 2);
    MOE_REFUSED("num-warps: expected 1 to 16, found 17", o.num_warps = 17, o.family = MOE_MORI);
}
