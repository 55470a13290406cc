/* test_moe_one_sided.c - do the NVLink one-sided kernels deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h. */
#include "tests/support_moe.h"
#include "tests/unit.h"

/* Long rows take up to three passes of combine. */
static struct moe_options options_draw(struct rng *rng)
{
    static const uint32_t topk[] = { 1, 2, 4, 6, 8 };
    struct moe_options o = moe_options_in_node(MOE_ONE_SIDED, 20, 4224, rng);
    o.topk = topk[rng_below(rng, sizeof topk / sizeof topk[0])];
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 300); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }

/* A token goes once to each of its ranks: the row, its scales, eight experts and their weights. */
TEST("bytes on the wire")
{
    for (int fp8 = 0; fp8 < 2; fp8++) {
        struct moe_options o = moe_options_small(MOE_ONE_SIDED, 4, 4);
        o.dtype = fp8 ? MOE_FP8 : MOE_BF16;
        moe_test_stored_bytes(&o, (fp8 ? 7168 + 224 : 14336) + 64);
    }
}

TEST("runs hash alike") { moe_test_runs_hash_alike(moe_options_small(MOE_ONE_SIDED, 4, 4), "combined_x"); }

TEST("refusals")
{
    const struct moe_options fine = moe_options_small(MOE_ONE_SIDED, 8, 8);
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-ranks: expected at most 4 for one-sided kernels, which stay in one NVLink domain, found 8",
                o.ranks_per_node = 4);
    MOE_REFUSED("num-ranks: one-sided takes at most 64, found 65", o.ranks = o.ranks_per_node = o.experts = 65);
    MOE_REFUSED("num-topk: one-sided takes 1, 2, 4, 6, 8, 10 or 16, found 3", o.topk = 3);
}
