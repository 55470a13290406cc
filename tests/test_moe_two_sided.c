/* test_moe_two_sided.c - do the NVLink two-sided kernels deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h. */
#include "tests/support_moe.h"
#include "tests/unit.h"

/* Long rows, few SMs and many tokens fill the FIFOs.  Rows of 64 kB fit three to an entry and twelve to a FIFO. */
static struct moe_options options_draw(struct rng *rng)
{
    struct moe_options o = moe_options_in_node(MOE_TWO_SIDED, rng_below(rng, 4) ? 20 : 3, 32000, rng);
    const bool full = o.hidden == 32000 && o.ranks <= 3 && o.tokens_max <= 40;
    if (!full && o.hidden == 32000) o.hidden = 512;
    o.num_sms = 2 * ((o.ranks + 7) / 8) + (full ? 0 : (uint32_t)rng_below(rng, 9));
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 200); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }

/* A token goes once to each of its ranks and comes back.  Both ways have whole lines of 128 bytes. */
TEST("bytes on the wire")
{
    for (int fp8 = 0; fp8 < 2; fp8++) {
        struct moe_options o = moe_options_small(MOE_TWO_SIDED, 4, 4);
        o.num_sms = 20;
        o.dtype = fp8 ? MOE_FP8 : MOE_BF16;
        const uint64_t dispatch = fp8 ? 59 * 128 : 113 * 128; /* FP8: 7168 + 224 + 64 bytes; BF16: 14336 + 64 bytes */
        moe_test_stored_bytes(&o, dispatch + 14336);
    }
}

TEST("runs hash alike") { moe_test_runs_hash_alike(moe_options_small(MOE_TWO_SIDED, 4, 4), "combined_x"); }

TEST("refusals")
{
    const struct moe_options fine = moe_options_small(MOE_TWO_SIDED, 8, 8);
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-ranks: expected at most 4 for two-sided kernels, which stay in one NVLink domain, found 8",
                o.ranks_per_node = 4);
    MOE_REFUSED("num-sms: two-sided takes at least 18 for 65 ranks, found 17",
                o.ranks = o.ranks_per_node = o.experts = 65, o.num_sms = 17);
    MOE_REFUSED("hidden: a block of two-sided has 232192 bytes of shared memory for a row, found 128000",
                o.hidden = 128 * 1000);
}
