/* test_moe_ll.c - do the low-latency kernels deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h.  Iterations use both halves of the buffers.  Send and receive are in one launch or
 * in two. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_ll.h"
#include "tests/support_moe.h"
#include "tests/unit.h"

static struct moe_options options_draw(struct rng *rng)
{
    static const struct {
        uint32_t nodes, local;
    } shape[] = { { 1, 2 }, { 1, 4 }, { 1, 8 }, { 2, 2 }, { 4, 2 }, { 8, 1 }, { 3, 3 } };
    const uint32_t at = (uint32_t)rng_below(rng, sizeof shape / sizeof shape[0]);
    struct moe_options o = moe_options_small(MOE_LOW_LATENCY, shape[at].nodes * shape[at].local, shape[at].local);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, 40);
    o.hidden = 512 * (1 + (uint32_t)rng_below(rng, 2));
    o.topk = 1 + (uint32_t)rng_below(rng, 4);
    o.experts = o.ranks * (2 + (uint32_t)rng_below(rng, 4));
    o.dtype = rng_below(rng, 2) ? MOE_FP8 : MOE_BF16;
    o.data = (enum moe_data)rng_below(rng, 3);
    o.seed = rng_next(rng);
    o.round_scale = rng_below(rng, 2);
    o.ue8m0 = o.round_scale && rng_below(rng, 2);
    o.hook = rng_below(rng, 2);
    o.logfmt = rng_below(rng, 2);
    o.zero_copy = !o.logfmt && rng_below(rng, 2);
    o.num_sms = 1 + (uint32_t)rng_below(rng, 8);
    o.host_words = rng_below(rng, 3) == 0;
    return o;
}

TEST("random groups over adversarial fabrics") { moe_test_random_groups(options_draw, 300); }
TEST("sizes only: the same steps") { moe_test_sizes_only(options_draw, 30); }
TEST("two routings in turns on one fabric") { moe_test_routings_in_turns(options_draw, 60); }

static struct moe_options plain_options(void)
{
    struct moe_options o = moe_options_small(MOE_LOW_LATENCY, 4, 2);
    o.dtype = MOE_FP8;
    o.hidden = 512;
    return o;
}

/* The order of arrival differs from run to run, but the result does not.  The check sorts received rows each time that
 * it reads them, so the fault is planted in the sums. */
TEST("runs hash alike") { moe_test_runs_hash_alike(plain_options(), "combined_x"); }

/* Finds a range with at least two rows on rank 0.  *row gets its first row. */
static uint32_t range_find(const struct ll_rank *r, uint64_t *row)
{
    for (uint32_t i = 0; i < r->g.experts; i++) {
        if (r->range_count[i] < 2) continue;
        *row = (uint64_t)(i / r->g.ranks) * r->g.ranks * r->g.tokens_max + r->range_begin[i];
        return i;
    }
    CU_FAIL_FATAL("no expert received two rows of one rank");
    return 0;
}

enum plant {
    PLANT_NONE,
    PLANT_VALUE,
    PLANT_SCALE,
    PLANT_SOURCE,
    PLANT_TWICE,
    PLANT_COUNT,
    PLANT_TOTAL,
    PLANT_SUM,
    PLANT_NAN,
    PLANT_KINDS
};

static void plant(struct ll_rank *r, enum plant fault)
{
    uint64_t row = 0;
    const uint32_t at = range_find(r, &row);
    switch (fault) {
    case PLANT_VALUE: r->recv_x[row * r->g.row_bytes + 5] ^= 1; break;
    case PLANT_SCALE: r->recv_scale[row * r->g.scale_count] *= 2; break;
    case PLANT_SOURCE:
        r->recv_source_token[row] = r->g.tokens_max - 1 - r->recv_source_token[row] + r->g.tokens_max;
        break;
    case PLANT_TWICE:
        r->recv_source_token[row + 1] = r->recv_source_token[row];
        memcpy(r->recv_x + (row + 1) * r->g.row_bytes, r->recv_x + row * r->g.row_bytes, r->g.row_bytes);
        memcpy(r->recv_scale + (row + 1) * r->g.scale_count, r->recv_scale + row * r->g.scale_count,
               r->g.scale_count * sizeof(float));
        break;
    case PLANT_COUNT: r->range_count[at]--; break;
    case PLANT_TOTAL: r->packed_count[at / r->g.ranks]++; break;
    case PLANT_SUM:
        for (uint32_t i = 0; i < r->g.hidden; i++) r->combined[i] = format_bf16_from_f32(3.0f);
        break;
    case PLANT_NAN: r->combined[7] = format_bf16_from_f32(NAN); break;
    case PLANT_NONE:
    case PLANT_KINDS: break;
    }
}

TEST("checks catch planted faults")
{
    for (int fault = PLANT_NONE; fault < PLANT_KINDS; fault++) {
        const struct moe_options o = plain_options();
        g_autoptr(moe_group) group = moe_group_drawn(&o, DRAW_UNIFORM, 3, 50);
        CU_ASSERT_TRUE_FATAL(moe_group_run(group, 2, false));
        plant(ll_rank_of(group->rank[0]), (enum plant)fault);
        const int number = fault == PLANT_NONE ? 0 : fault >= PLANT_SUM ? 14 : 13;
        if (!moe_group_expect(group, 0, number)) fprintf(stderr, "planted: fault %d\n", fault);
    }
}

/* Options that are refused, each with its name in the message. */
TEST("refusals")
{
    const struct {
        const char *option;
        uint32_t topk, hidden, experts, sms, tokens;
    } wrong[] = {
        { "num-topk", 12, 512, 24, 8, 8 },
        { "hidden", 2, 640, 8, 8, 8 },
        { "hidden", 2, 100, 8, 8, 8 },
        { "num-experts", 2, 512, 10, 8, 8 },
        { "num-experts", 2, 512, 1 << 22, 8, 8 },
        { "num-sms", 2, 512, 8, 0, 8 },
        { "num-tokens", 2, 512, 8, 8, 1 << 16 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct moe_options o = plain_options();
        o.topk = wrong[i].topk;
        o.hidden = wrong[i].hidden;
        o.experts = wrong[i].experts;
        o.num_sms = wrong[i].sms;
        o.tokens_max = wrong[i].tokens;
        moe_test_refused(&o, wrong[i].option);
    }
}
