/* test_moe_ll.c - do the low-latency kernels deliver and sum every token, whatever the order of events?
 *
 * Aim: every output right (checks 12 to 14 of protocols.md section 4), no hang, no breach of the seam's
 * contract, the same steps with and without payload, and each check able to fail. Method: random groups,
 * routings and sizes over the adversarial fabrics of support_loop, several iterations in a row (both halves
 * of the buffers), send and receive in one launch and in two; then faults planted into right outputs. */
#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_ll.h"
#include "tests/support_moe.h"

static struct moe_options options_draw(struct rng *rng)
{
    static const struct {
        uint32_t nodes, local;
    } shape[] = { { 1, 2 }, { 1, 4 }, { 1, 8 }, { 2, 2 }, { 4, 2 }, { 8, 1 }, { 3, 3 } };
    const uint32_t at = (uint32_t)rng_below(rng, sizeof shape / sizeof shape[0]);
    struct moe_options o = moe_options_small(MOE_LOW_LATENCY, shape[at].nodes * shape[at].local,
                                             shape[at].local);
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
    o.zero_copy = false;
    o.num_sms = 1 + (uint32_t)rng_below(rng, 8);
    return o;
}

static void test_random_groups(void) { moe_test_random_groups(options_draw, 300); }
static void test_sizes_only_takes_the_same_steps(void) { moe_test_sizes_only(options_draw, 30); }

static struct moe_group *plain_group(enum moe_dtype dtype, uint64_t loop_seed)
{
    struct moe_options o = moe_options_small(MOE_LOW_LATENCY, 4, 2);
    o.dtype = dtype;
    o.hidden = 512;
    o.data = MOE_DATA_RANDOM;
    struct rng rng;
    rng_seed(&rng, 7);
    struct routing routing;
    moe_routing_draw(&routing, &o, DRAW_UNIFORM, false, true, &rng);
    const struct loop_options loop = { .payload = true, .seed = loop_seed, .deliver_percent = 50 };
    struct moe_group *group = moe_group_new(&o, &routing, &loop);
    CU_ASSERT_TRUE_FATAL(moe_group_run(group, 2, false));
    return group;
}

/* Check 12: arrival order differs from run to run, what is received does not. */
static void test_runs_hash_alike(void)
{
    uint64_t first = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct moe_group *group = plain_group(MOE_FP8, seed);
        const uint64_t hash = moe_group_hash(group);
        if (seed == 1) first = hash;
        CU_ASSERT_EQUAL(hash, first);
        moe_group_free(group);
    }
}

/* A range with at least two rows on rank 0, and its first row. */
static uint32_t range_find(const struct ll_rank *r, uint64_t *row)
{
    for (uint32_t i = 0; i < r->g.experts; i++) {
        if (r->range[i].count < 2) continue;
        *row = (uint64_t)(i / r->g.ranks) * r->g.ranks * r->g.tokens_max + r->range[i].begin;
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
    case PLANT_VALUE:  r->recv_x[row * r->g.row_bytes + 5] ^= 1; break;
    case PLANT_SCALE:  r->recv_scale[row * r->g.scale_count] *= 2; break;
    case PLANT_SOURCE:
        r->recv_source_token[row] = r->g.tokens_max - 1 - r->recv_source_token[row] + r->g.tokens_max;
        break;
    case PLANT_TWICE:  r->recv_source_token[row + 1] = r->recv_source_token[row];
        memcpy(r->recv_x + (row + 1) * r->g.row_bytes, r->recv_x + row * r->g.row_bytes, r->g.row_bytes);
        memcpy(r->recv_scale + (row + 1) * r->g.scale_count, r->recv_scale + row * r->g.scale_count,
               r->g.scale_count * sizeof(float));
        break;
    case PLANT_COUNT:  r->range[at].count--; break;
    case PLANT_TOTAL:  r->packed_count[at / r->g.ranks]++; break;
    case PLANT_SUM:
        for (uint32_t i = 0; i < r->g.hidden; i++) r->combined[i] = format_bf16_from_f32(3.0f);
        break;
    case PLANT_NAN:    r->combined[7] = format_bf16_from_f32(NAN); break;
    case PLANT_NONE:
    case PLANT_KINDS:  break;
    }
}

static void test_checks_catch_planted_faults(void)
{
    for (int fault = PLANT_NONE; fault < PLANT_KINDS; fault++) {
        struct moe_group *group = plain_group(MOE_FP8, 3);
        struct ll_rank *r = ll_rank_of(group->rank[0]);
        plant(r, (enum plant)fault);
        char text[256] = "";
        const uint32_t failed = moe_rank_check(group->rank[0], text, sizeof text);
        if (fault == PLANT_NONE) CU_ASSERT_EQUAL(failed, 0);
        if (fault != PLANT_NONE) CU_ASSERT_TRUE(failed > 0);
        const char *number = fault >= PLANT_SUM ? "check 14" : "check 13";
        if (fault != PLANT_NONE) CU_ASSERT_PTR_NOT_NULL(strstr(text, number));
        if (fault != PLANT_NONE && !strstr(text, number)) printf("\n      fault %d: \"%s\"\n", fault, text);
        moe_group_free(group);
    }
}

/* What is refused, and with which option's name. */
static void test_refusals(void)
{
    const struct { const char *option; uint32_t topk, hidden, experts, sms; } wrong[] = {
        { "num-topk", 12, 512, 24, 8 },
        { "hidden", 2, 640, 8, 8 },
        { "hidden", 2, 100, 8, 8 },
        { "num-experts", 2, 512, 10, 8 },
        { "num-sms", 2, 512, 8, 0 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct moe_options o = moe_options_small(MOE_LOW_LATENCY, 4, 2);
        o.dtype = MOE_FP8;
        o.topk = wrong[i].topk;
        o.hidden = wrong[i].hidden;
        o.experts = wrong[i].experts;
        o.num_sms = wrong[i].sms;
        char text[256] = "";
        CU_ASSERT_PTR_NOT_NULL(moe_options_refuse(&o, text, sizeof text));
        CU_ASSERT_EQUAL(strncmp(text, wrong[i].option, strlen(wrong[i].option)), 0);
    }
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("low-latency kernels", NULL, NULL);
    CU_add_test(suite, "random groups over adversarial fabrics", test_random_groups);
    CU_add_test(suite, "sizes only: the same steps", test_sizes_only_takes_the_same_steps);
    CU_add_test(suite, "runs hash alike", test_runs_hash_alike);
    CU_add_test(suite, "checks catch planted faults", test_checks_catch_planted_faults);
    CU_add_test(suite, "refusals", test_refusals);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    const unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
