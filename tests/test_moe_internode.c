/* test_moe_internode.c - do the internode kernels deliver and sum every token, whatever the order of events?
 *
 * Aim: every output right (models/moe checks, bit for bit), no hang, no breach of the seam's contract, the same
 * steps with and without payload, and each check able to fail.
 * Method: random groups, routings, sizes and chunk sizes over the adversarial fabrics of support_loop, several
 * iterations in a row; then known faults planted into right outputs. */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/moe/moe_ht.h"
#include "tests/support_moe.h"

/* The smallest legal rings, and up to somewhat larger ones. */
static void chunks_draw(struct moe_chunks *c, uint32_t nodes, uint32_t warps, uint32_t reducers, struct rng *rng)
{
    c->nvl_send = 1 + (uint32_t)rng_below(rng, 10);
    c->rdma_send = warps + (uint32_t)rng_below(rng, 8);
    uint32_t part = c->nvl_send > c->rdma_send ? c->nvl_send : c->rdma_send;
    if (part < c->nvl_send + warps) part = c->nvl_send + warps;
    c->nvl_recv = nodes * (part + 1 + (uint32_t)rng_below(rng, 10));
    c->rdma_recv = c->rdma_send * (2 + (uint32_t)rng_below(rng, 4));
    while (c->rdma_recv + 2 < 2 * c->rdma_send + reducers) c->rdma_recv += c->rdma_send;
}

static struct moe_options options_draw(struct rng *rng)
{
    static const struct { uint32_t nodes, local; } shape[] = {
        { 2, 2 }, { 2, 4 }, { 4, 2 }, { 4, 4 }, { 2, 8 }, { 3, 2 }, { 8, 2 }
    };
    const uint32_t at = (uint32_t)rng_below(rng, sizeof shape / sizeof shape[0]);
    struct moe_options o = moe_options_small(MOE_NORMAL, shape[at].nodes * shape[at].local, shape[at].local);
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
    o.worst_tokens = !o.cached && rng_below(rng, 4) == 0;
    o.expert_alignment = 1u << rng_below(rng, 4);
    o.bias_count = (uint32_t)rng_below(rng, 3);
    o.num_sms = 2 * (1 + (uint32_t)rng_below(rng, 3));
    chunks_draw(&o.dispatch, 1, 1, 1, rng);
    const uint32_t nodes = o.ranks / o.ranks_per_node, warps = nodes < 24 ? 24 / nodes : 1;
    chunks_draw(&o.combine, nodes, warps, nodes * warps - o.ranks_per_node, rng);
    return o;
}

static void test_random_groups(void) { moe_test_random_groups(options_draw, 400); }
static void test_sizes_only_takes_the_same_steps(void) { moe_test_sizes_only(options_draw, 30); }

static struct moe_group *plain_group(bool cached, bool worst, bool weights)
{
    struct moe_options o = moe_options_small(MOE_NORMAL, 4, 2);
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

/* The wire carries what protocols.md gives: padded slots, one copy for each node, ranges and counts. */
static void test_bytes_on_the_wire(void)
{
    for (int cached = 0; cached < 2; cached++)
        for (int fp8 = 0; fp8 < 2; fp8++) {
            struct moe_options o = moe_options_small(MOE_NORMAL, 16, 8);
            o.hidden = 7168;
            o.topk = 8;
            o.experts = 256;
            o.tokens_max = 64;
            o.dtype = fp8 ? MOE_FP8 : MOE_BF16;
            o.weights = !cached;
            o.cached = cached;
            struct rng rng;
            rng_seed(&rng, 11);
            struct routing routing;
            moe_routing_draw(&routing, &o, DRAW_UNIFORM, false, false, &rng);
            const struct loop_options loop = { .seed = 3, .deliver_percent = 50 };
            struct moe_group *group = moe_group_new(&o, &routing, &loop);
            CU_ASSERT_TRUE(moe_group_run(group, 1, false));
            uint64_t copies = 0, abroad = 0, rows = 0;
            for (uint32_t r = 0; r < 16; r++)
                for (uint32_t t = 0; t < 64; t++) {
                    uint32_t ranks = 0;
                    for (uint32_t j = 0; j < 8; j++) {
                        const int32_t e = group->routing.rank[r].experts[t * 8 + j];
                        if (e >= 0) ranks |= 1u << e / 16;
                    }
                    rows += (uint32_t)__builtin_popcount(ranks);
                    copies += (ranks & 0xff ? 1 : 0) + (ranks >> 8 ? 1 : 0);
                    abroad += (r < 8 ? ranks >> 8 : ranks & 0xff) != 0;
                }
            const uint64_t dispatch = fp8 ? (cached ? 7408 : 7472) : (cached ? 14352 : 14416);
            const uint64_t combine = cached ? 14352 : 14384;
            const uint64_t counts = cached ? 0 : 16 * (8 + 128 + 1) * 4, ranges = 16 * 2 * 72;
            CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, abroad * (dispatch + combine) + counts + ranges);
            const uint64_t counts_nvl = cached ? 0 : 16 * 7 * (2 + 16) * 4;
            CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, rows * (dispatch + combine) + counts_nvl);
            struct moe_traffic traffic, sum = { 0 };
            for (uint32_t r = 0; r < 16; r++) {
                moe_rank_traffic(group->rank[r], cached ? 1 : 2, &traffic);
                sum.logical_rdma_bytes += traffic.logical_rdma_bytes;
                sum.logical_nvl_bytes += traffic.logical_nvl_bytes;
            }
            CU_ASSERT_EQUAL(sum.logical_rdma_bytes, copies * (fp8 ? 7392 : 14336));
            CU_ASSERT_EQUAL(sum.logical_nvl_bytes, rows * (fp8 ? 7392 : 14336));
            moe_group_free(group);
        }
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
        CU_ASSERT_EQUAL(plant(group, "recv_x", at), 4);
        CU_ASSERT_EQUAL(plant(group, "recv_scales", at), 4);
        CU_ASSERT_EQUAL(plant(group, "recv_meta", at), 4);
        CU_ASSERT_EQUAL(plant(group, "recv_topk_idx", at), 5);
        CU_ASSERT_EQUAL(plant(group, "recv_topk_weights", at), 6);
        CU_ASSERT_EQUAL(plant(group, "combined_x", at), 9);
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
    CU_ASSERT_EQUAL(first_failure(group, 1), 8);
    moe_group_free(group);
}

/* Worst-case size: the tail holds -1, the list of counts stays empty. */
static void test_planted_worst_tokens(void)
{
    struct moe_group *group = plain_group(false, true, false);
    CU_ASSERT_TRUE_FATAL(moe_group_run(group, 1, false));
    CU_ASSERT_EQUAL(first_failure(group, 1), 0);
    uint64_t size = 0;
    CU_ASSERT_PTR_NOT_NULL(moe_group_output(group, 1, "recv_topk_idx", &size));
    CU_ASSERT_EQUAL(size, 40 * 4 * 4 * sizeof(int64_t));
    CU_ASSERT_EQUAL(plant(group, "recv_topk_idx", size - 1), 7);
    CU_ASSERT_EQUAL(plant(group, "recv_before", 4 * 2), 7);
    moe_group_free(group);
}

/* Check 12: outputs of many runs in other orders of events are the same. */
static void test_hash_pressure(void)
{
    uint64_t hash = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct moe_options o = moe_options_small(MOE_NORMAL, 4, 2);
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
    const struct moe_options fine = moe_options_small(MOE_NORMAL, 16, 8);
    char text[256] = "";
    CU_ASSERT_PTR_NULL(moe_options_refuse(&fine, text, sizeof text));
    struct moe_options o = fine;
    o.ranks = 40, o.experts = 80;
    refused(&o, "num-ranks: expected 2, 3, 4, 6, 8, 12, 16, 18 or 20 nodes of 8 ranks, found 40");
    o = fine, o.ranks_per_node = 1;
    refused(&o, "ranks-per-node: the kernels for several nodes take 2, 4 or 8, found 1");
    o = fine, o.dispatch.rdma_recv = 130;
    refused(&o, "dispatch rdma-buffer: expected a multiple of rdma-chunk 20, found 130");
    o = fine, o.combine.rdma_recv = o.combine.rdma_send;
    refused(&o, "combine rdma-buffer: expected at least twice");
    o = fine, o.combine.nvl_recv = 287;
    refused(&o, "combine nvl-buffer: expected a multiple of the number of nodes 2, found 287");
    o = fine, o.combine.nvl_recv = 24;
    refused(&o, "combine nvl-buffer: expected more than 12 slots for each of 2 nodes, found 12");
    o = fine, o.combine.nvl_recv = 30;
    refused(&o, "combine nvl-buffer: expected nvl-chunk 4 and 12 more slots for each of 2 nodes, found 15");
    o = fine, o.combine.rdma_send = 8, o.combine.rdma_recv = 128;
    refused(&o, "combine rdma-chunk: expected at least 12");
    o = fine, o.combine.rdma_recv = 24;
    refused(&o, "combine rdma-buffer: expected at least two chunks of 12 and 14 more, found 24");
}

/* A peer that never starts: all others hang, and say for whom they wait. */
static void test_missing_rank_is_named(void)
{
    struct moe_group *group = plain_group(false, false, false);
    group->launched[2] = moe_phase_count(&group->options);
    CU_ASSERT_FALSE(moe_group_run(group, 1, true));
    CU_ASSERT_PTR_NOT_NULL(strstr(loop_hang(group->loop), "rank 0 worker 0: notify waits for rank 2 in"));
    moe_group_free(group);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("moe_internode", NULL, NULL);
    CU_ADD_TEST(suite, test_random_groups);
    CU_ADD_TEST(suite, test_sizes_only_takes_the_same_steps);
    CU_ADD_TEST(suite, test_bytes_on_the_wire);
    CU_ADD_TEST(suite, test_planted_faults);
    CU_ADD_TEST(suite, test_planted_layout);
    CU_ADD_TEST(suite, test_planted_order);
    CU_ADD_TEST(suite, test_planted_worst_tokens);
    CU_ADD_TEST(suite, test_hash_pressure);
    CU_ADD_TEST(suite, test_refusals);
    CU_ADD_TEST(suite, test_missing_rank_is_named);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    const unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
