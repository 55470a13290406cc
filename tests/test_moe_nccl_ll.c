/* test_moe_nccl_ll.c - do NCCL EP's low-latency kernels deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h.  Beyond that, a token's message must go to each rank only once, faults in rows,
 * counts, places and sums must be found, and each limit must be told. */
#include <stdio.h>
#include "models/moe/moe_nccl_ll.h"
#include "tests/support_moe.h"
#include "tests/unit.h"

static struct moe_options options_draw(struct rng *rng)
{
    static const uint32_t shape[][2] = { { 1, 2 }, { 1, 3 }, { 1, 8 }, { 2, 2 }, { 4, 2 }, { 8, 1 }, { 3, 3 } };
    const uint32_t *drawn = shape[rng_below(rng, sizeof shape / sizeof shape[0])];
    struct moe_options o = moe_options_small(MOE_NCCL_LL, drawn[0] * drawn[1], drawn[1]);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, 40);
    o.hidden = 512 * (1 + (uint32_t)rng_below(rng, 2));
    o.experts = o.ranks * (1 + (uint32_t)rng_below(rng, 6));
    o.topk = 1 + (uint32_t)rng_below(rng, o.experts < 9 ? o.experts : 9);
    o.dtype = rng_below(rng, 2) ? MOE_FP8 : MOE_BF16;
    o.data = (enum moe_data)rng_below(rng, 3);
    o.seed = rng_next(rng);
    o.round_scale = rng_below(rng, 2);
    o.expand = rng_below(rng, 2);
    o.hook = rng_below(rng, 2);
    /* At least two SMs, and at most 14 experts on each. */
    const uint32_t least = (o.experts + 13) / 14, most = o.experts;
    o.num_sms = (least < 2 ? 2 : least) + (uint32_t)rng_below(rng, most);
    return o;
}

TEST("random groups over adversarial fabrics") { moe_test_random_groups(options_draw, 300); }
TEST("sizes only: the same steps") { moe_test_sizes_only(options_draw, 30); }
TEST("two routings in turns on one fabric") { moe_test_routings_in_turns(options_draw, 60); }

static struct moe_options plain_options(bool expand)
{
    struct moe_options o = moe_options_small(MOE_NCCL_LL, 4, 2);
    o.dtype = MOE_FP8;
    o.hidden = 512;
    o.expand = expand;
    return o;
}

TEST("runs hash alike")
{
    moe_test_runs_hash_alike(plain_options(false), "combined_x");
    moe_test_runs_hash_alike(plain_options(true), "combined_x");
}

/* A message for each rank of a token, with a header of 16 or 48 bytes; rows come back in BF16, one for each choice or
 * one for each rank. */
TEST("bytes on the wire")
{
    for (uint32_t expand = 0; expand < 2; expand++) {
        struct moe_options o = plain_options(expand);
        g_autoptr(moe_group) group = moe_group_run_sizes(&o, DRAW_UNIFORM);
        uint64_t copies[2] = { 0 }, choices[2] = { 0 }; /* within the node, to other nodes */
        for (uint32_t r = 0; r < o.ranks; r++) {
            for (uint32_t t = 0; t < group->routing.rank[r].tokens; t++) {
                bool gone[4] = { false };
                for (uint32_t j = 0; j < o.topk; j++) {
                    const int32_t expert = group->routing.rank[r].experts[t * o.topk + j];
                    const uint32_t to = (uint32_t)expert / (o.experts / o.ranks);
                    if (expert < 0) continue;
                    choices[to / 2 != r / 2]++;
                    copies[to / 2 != r / 2] += !gone[to];
                    gone[to] = true;
                }
            }
        }
        const uint64_t message = (expand ? 16 : 48) + o.hidden + o.hidden / 128 * 4;
        for (uint32_t far = 0; far < 2; far++) {
            const uint64_t bytes = copies[far] * message + (expand ? choices : copies)[far] * 2 * o.hidden;
            CU_ASSERT_TRUE(copies[far] > 0 && copies[far] < choices[far]);
            CU_ASSERT_EQUAL(far ? loop_counts(group->loop)->put_bytes : loop_counts(group->loop)->store_bytes, bytes);
        }
    }
}

enum plant {
    PLANT_NONE,
    PLANT_VALUE,
    PLANT_TOKEN,
    PLANT_TWICE,
    PLANT_COUNT,
    PLANT_PLACE,
    PLANT_TOTAL,
    PLANT_SUM,
    PLANTS
};

static void plant(struct ll_rank *r, enum plant fault)
{
    const uint64_t at = nccl_ll_slot(r, 2, 0) * r->g.topk;
    uint32_t place = 0;
    while (place < r->g.topk && r->nccl->row[at + place] < 0) place++;
    CU_ASSERT_TRUE_FATAL(r->nccl->came[2] > 1 && place < r->g.topk);
    switch (fault) {
    case PLANT_VALUE: r->recv_x[(uint64_t)r->nccl->row[at + place] * r->g.row_bytes + 5] ^= 1; break;
    case PLANT_TOKEN: r->nccl->token[nccl_ll_slot(r, 2, 0)] = r->g.tokens_max; break;
    case PLANT_TWICE: r->nccl->token[nccl_ll_slot(r, 2, 1)] = r->nccl->token[nccl_ll_slot(r, 2, 0)]; break;
    case PLANT_COUNT: r->nccl->came[2]--; break;
    case PLANT_PLACE: r->nccl->row[at + place] = -1; break;
    case PLANT_TOTAL:
        if (nccl_ll_expert_major(r)) r->packed_count[1]++;
        else r->nccl->recv_expert[at + place]++;
        break;
    case PLANT_SUM:
        for (uint32_t i = 0; i < r->g.hidden; i++) r->combined[i] = 0x4040;
        break;
    case PLANT_NONE:
    case PLANTS: break;
    }
}

TEST("checks catch planted faults")
{
    for (uint32_t i = 0; i < 2 * PLANTS; i++) {
        const struct moe_options o = plain_options(i % 2);
        g_autoptr(moe_group) group = moe_group_drawn(&o, DRAW_UNIFORM, 3, 50);
        CU_ASSERT_TRUE_FATAL(moe_group_run(group, 2, false));
        plant(ll_rank_of(group->rank[0]), (enum plant)(i / 2));
        const int number = i / 2 == PLANT_NONE ? 0 : i / 2 == PLANT_SUM ? 14 : 13;
        if (!moe_group_expect(group, 0, number)) fprintf(stderr, "planted: fault %u\n", i / 2);
    }
}

TEST("refusals")
{
    const struct moe_options fine = plain_options(true);
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-topk: ", o.topk = 10; o.experts = 16);
    MOE_REFUSED("hidden: ", o.hidden = 640);
    MOE_REFUSED("num-tokens: ", o.tokens_max = 8193);
    MOE_REFUSED("num-experts: ", o.experts = 1 << 16; o.num_sms = 8192);
    MOE_REFUSED("num-experts: ", o.experts = 4; o.topk = 2; o.num_sms = 1);
    MOE_REFUSED("num-sms: ", o.experts = 60; o.num_sms = 4);
}
