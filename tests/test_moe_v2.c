/* test_moe_v2.c - do the V2 kernels, direct and hybrid, deliver and sum every token, whatever the order of events?
 *
 * Aim: every output right (models/moe checks, bit for bit), no hang, no breach of the seam's contract, the same
 * steps with and without payload, and each check able to fail.
 * Method: random groups, routings, sizes and chunk sizes over the adversarial fabrics of support_loop, several
 * iterations in a row; then known faults planted into right outputs. */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/moe/moe_v2.h"
#include "tests/support_moe.h"

static struct moe_options options_draw(struct rng *rng)
{
    static const struct { uint32_t nodes, local; } shape[] = {
        { 1, 2 }, { 1, 4 }, { 1, 8 }, { 2, 2 }, { 2, 4 }, { 4, 2 }, { 4, 4 }, { 5, 3 }, { 8, 1 }
    };
    const uint32_t at = (uint32_t)rng_below(rng, sizeof shape / sizeof shape[0]);
    struct moe_options o = moe_options_small(MOE_V2, shape[at].nodes * shape[at].local, shape[at].local);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, rng_below(rng, 3) ? 40 : 150);
    o.hidden = 128 * (1 + (uint32_t)rng_below(rng, 4));
    o.topk = 1 + (uint32_t)rng_below(rng, 4);
    o.experts = o.ranks * (2 + (uint32_t)rng_below(rng, 8));
    o.dtype = rng_below(rng, 2) ? MOE_FP8 : MOE_BF16;
    o.data = (enum moe_data)rng_below(rng, 3);
    o.seed = rng_next(rng);
    o.round_scale = rng_below(rng, 2);
    o.ue8m0 = o.round_scale && o.hidden % 512 == 0;
    o.cached = rng_below(rng, 3) == 0;
    o.weights = !o.cached && rng_below(rng, 2);
    o.expert_alignment = 1u << rng_below(rng, 4);
    o.bias_count = (uint32_t)rng_below(rng, 3);
    o.num_sms = 2 * (1 + (uint32_t)rng_below(rng, 3));
    return o;
}

static void test_random_groups(void) { moe_test_random_groups(options_draw, 400); }
static void test_sizes_only_takes_the_same_steps(void) { moe_test_sizes_only(options_draw, 30); }

static struct moe_group *plain_group(bool cached, bool worst, bool weights)
{
    struct moe_options o = moe_options_small(MOE_V2, 4, 2);
    o.cached = cached;
    o.worst_tokens = worst;
    o.weights = weights;
    o.dtype = MOE_FP8;
    o.hidden = 256;
    struct rng rng;
    rng_seed(&rng, 7);
    struct routing routing;
    moe_routing_draw(&routing, &o, DRAW_UNIFORM, false, true, &rng);
    const struct loop_options loop = { .payload = true, .seed = 3, .deliver_percent = 50 };
    return moe_group_new(&o, &routing, &loop);
}

/* The wire carries padded slots, one copy for each node and no credits. */
static void test_bytes_on_the_wire(void)
{
    for (int fp8 = 0; fp8 < 2; fp8++) {
        struct moe_options o = moe_options_small(MOE_V2, 4, 2);
        o.hidden = 7168;
        o.topk = 6;
        o.experts = 256;
        o.tokens_max = 64;
        o.dtype = fp8 ? MOE_FP8 : MOE_BF16;
        o.weights = true;
        struct rng rng;
        rng_seed(&rng, 11);
        struct routing routing;
        moe_routing_draw(&routing, &o, DRAW_UNIFORM, false, false, &rng);
        const struct loop_options loop = { .seed = 3, .deliver_percent = 50 };
        struct moe_group *group = moe_group_new(&o, &routing, &loop);
        CU_ASSERT_TRUE(moe_group_run(group, 1, false));
        uint64_t abroad = 0, rows = 0;
        for (uint32_t r = 0; r < 4; r++)
            for (uint32_t t = 0; t < 64; t++) {
                uint32_t ranks = 0;
                for (uint32_t j = 0; j < 6; j++) {
                    const int32_t e = group->routing.rank[r].experts[t * 6 + j];
                    if (e >= 0) ranks |= 1u << e / 64;
                }
                rows += (uint32_t)__builtin_popcount(ranks);
                abroad += (r < 2 ? ranks >> 2 : ranks & 3) != 0;
            }
        const uint64_t dispatch = fp8 ? 7168 + 224 + 80 : 14336 + 80, combine = 14336 + 48;
        CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, abroad * (dispatch + combine));
        CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, rows * (dispatch + combine));
        moe_group_free(group);
    }
}

/* More of the link, or fewer bytes a token on it, needs more SMs; never an odd number, never fewer than four. */
static void test_analytic_sms(void)
{
    struct moe_options o = moe_options_small(MOE_V2, 8, 8);
    o.topk = 8;
    o.experts = 256;
    CU_ASSERT_EQUAL(moe_v2_sms(&o, 50, 1), 4);
    const uint32_t slow = moe_v2_sms(&o, 50, 160), fast = moe_v2_sms(&o, 50, 400);
    CU_ASSERT_TRUE(fast > slow && slow % 2 == 0 && fast % 2 == 0);
    /* 5.293 ranks a token, 7/8 of them abroad: 160 GB/s carry 34.5 GB/s of tokens, to be written 5.293 times. */
    CU_ASSERT_EQUAL(slow, 6);
    o.ranks = 32;
    CU_ASSERT_TRUE(moe_v2_sms(&o, 50, 160) >= 4 && moe_v2_sms(&o, 25, 160) <= moe_v2_sms(&o, 50, 160));
}

/* ---- planted faults ------------------------------------------------------------------------------------ */

/* The number of the first check that fails on the rank, 0 if none. */
static int first_failure(struct moe_group *group, uint32_t rank)
{
    char text[256] = "";
    int number = 0;
    if (moe_rank_check(group->rank[rank], text, sizeof text)) sscanf(text, "check %d:", &number);
    return number;
}

/* Flips a bit of an output, sees which check says so, and puts it right again. */
static int plant(struct moe_group *group, const char *name, uint64_t at)
{
    uint64_t size = 0;
    uint8_t *data = moe_group_output(group, 1, name, &size);
    if (!data || size == 0) return -1;
    at %= size;
    data[at] ^= 0x10;
    const int number = first_failure(group, 1);
    data[at] ^= 0x10;
    return first_failure(group, 1) ? -2 : number;
}

static void test_planted_faults(void)
{
    struct moe_group *group = plain_group(false, false, true);
    CU_ASSERT_TRUE_FATAL(moe_group_run(group, 1, false));
    CU_ASSERT_EQUAL(first_failure(group, 1), 0);
    CU_ASSERT_EQUAL(plant(group, "recv_before", 4 * 2), 2);
    CU_ASSERT_EQUAL(plant(group, "expert_counts", 4), 3);
    for (uint64_t at = 0; at < 5000; at += 997) {
        CU_ASSERT_EQUAL(plant(group, "recv_x", at), 16);
        CU_ASSERT_EQUAL(plant(group, "recv_scales", at), 16);
        CU_ASSERT_EQUAL(plant(group, "recv_meta", at), 16);
        CU_ASSERT_EQUAL(plant(group, "recv_topk_idx", at), 5);
        CU_ASSERT_EQUAL(plant(group, "recv_topk_weights", at), 6);
        CU_ASSERT_EQUAL(plant(group, "combined_x", at), 16);
    }
    CU_ASSERT_EQUAL(plant(group, "combined_topk_weights", 2), 10);
    moe_group_free(group);
}

/* Layouts are no output: the faults go where the checks look. */
static void test_planted_layout(void)
{
    struct moe_group *group = plain_group(false, false, false);
    CU_ASSERT_TRUE_FATAL(moe_group_run(group, 1, false));
    struct ht_layout *layout = &((struct ht_rank *)group->rank[1])->layout;
    uint32_t *count[] = { &layout->tokens_per_rank[3], &layout->tokens_per_node[0], &layout->tokens_per_expert[5] };
    for (size_t i = 0; i < sizeof count / sizeof count[0]; i++) {
        ++*count[i];
        CU_ASSERT_EQUAL(first_failure(group, 1), 1);
        --*count[i];
    }
    layout->bits[2] ^= 1;
    CU_ASSERT_EQUAL(first_failure(group, 1), 1);
    layout->bits[2] ^= 1;
    CU_ASSERT_EQUAL(first_failure(group, 1), 0);
    moe_group_free(group);
}

/* Two rows swapped: each is right, their order is not. */
static void test_planted_order(void)
{
    struct moe_group *group = plain_group(true, false, false);
    CU_ASSERT_TRUE_FATAL(moe_group_run(group, 2, false));
    CU_ASSERT_EQUAL(first_failure(group, 1), 0);
    uint8_t *row = moe_group_output(group, 1, "recv_x", NULL), copy[256];
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    memcpy(copy, row, 256);
    memcpy(row, row + 256, 256);
    memcpy(row + 256, copy, 256);
    CU_ASSERT_EQUAL(first_failure(group, 1), 16);
    moe_group_free(group);
}

/* Check 12: outputs of many runs in other orders of events are the same. */
static void test_hash_pressure(void)
{
    uint64_t hash = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct moe_options o = moe_options_small(MOE_V2, 4, 2);
        o.weights = true;
        struct rng rng;
        rng_seed(&rng, 5);
        struct routing routing;
        moe_routing_draw(&routing, &o, DRAW_UNIFORM, true, true, &rng);
        const struct loop_options loop = { .payload = true, .seed = seed, .deliver_percent = 30, .refuse_percent = 5 };
        struct moe_group *group = moe_group_new(&o, &routing, &loop);
        CU_ASSERT_TRUE(moe_group_run(group, 1, false));
        if (seed == 0) hash = moe_group_hash(group);
        CU_ASSERT_EQUAL(moe_group_hash(group), hash);
        uint8_t *data = moe_group_output(group, 2, "recv_x", NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(data);
        data[1] ^= 1;
        CU_ASSERT_NOT_EQUAL(moe_group_hash(group), hash);
        moe_group_free(group);
    }
}

/* ---- refusals and hangs -------------------------------------------------------------------------------- */

static void refused(const struct moe_options *o, const char *word)
{
    char text[256] = "";
    CU_ASSERT_PTR_NOT_NULL(moe_options_refuse(o, text, sizeof text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, word));
    if (!strstr(text, word)) fprintf(stderr, "expected '%s' in '%s'\n", word, text);
}

static void test_refusals(void)
{
    const struct moe_options fine = moe_options_small(MOE_V2, 16, 8);
    char text[256] = "";
    CU_ASSERT_PTR_NULL(moe_options_refuse(&fine, text, sizeof text));
    struct moe_options o = fine;
    o.ranks_per_node = 16;
    refused(&o, "ranks-per-node: v2 takes at most 8, found 16");
    o = fine, o.ranks = 42, o.ranks_per_node = 2, o.experts = 84;
    refused(&o, "num-ranks: v2 takes at most 20 nodes, found 21");
    o = fine, o.worst_tokens = true;
    refused(&o, "worst-tokens: v2");
}

/* A peer that never starts: all others hang, and say for whom they wait. */
static void test_missing_rank_is_named(void)
{
    struct moe_group *group = plain_group(false, false, false);
    group->launched[2] = moe_phase_count(&group->options);
    CU_ASSERT_FALSE(moe_group_run(group, 1, true));
    CU_ASSERT_PTR_NOT_NULL(strstr(loop_hang(group->loop), "the end of the kernel waits for channel"));
    moe_group_free(group);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("moe_v2", NULL, NULL);
    CU_ADD_TEST(suite, test_random_groups);
    CU_ADD_TEST(suite, test_sizes_only_takes_the_same_steps);
    CU_ADD_TEST(suite, test_bytes_on_the_wire);
    CU_ADD_TEST(suite, test_planted_faults);
    CU_ADD_TEST(suite, test_planted_layout);
    CU_ADD_TEST(suite, test_planted_order);
    CU_ADD_TEST(suite, test_analytic_sms);
    CU_ADD_TEST(suite, test_hash_pressure);
    CU_ADD_TEST(suite, test_refusals);
    CU_ADD_TEST(suite, test_missing_rank_is_named);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    const unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
