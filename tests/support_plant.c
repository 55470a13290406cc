/* support_plant.c - planted faults and the checks that find them; see support_plant.h.  It knows moe_ht.h but no
 * kernel. */
#include "tests/support_plant.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>
#include "models/moe/moe_ht.h"

enum { RANK = 1 }; /* the rank whose outputs are spoilt */

static const struct plant_family *tested;

/* Makes a group of 4 ranks with rows in FP8, and does not run it. */
static struct moe_group *group_new(bool cached, bool worst, bool weights)
{
    struct moe_options o = moe_options_small(tested->kernels, 4, tested->ranks_per_node);
    o.cached = cached;
    o.worst_tokens = worst;
    o.weights = weights;
    o.dtype = MOE_FP8;
    o.hidden = 256;
    return moe_group_drawn(&o, DRAW_UNIFORM, 3, 50);
}

static struct moe_group *group_run(bool cached, bool worst, bool weights)
{
    struct moe_group *group = group_new(cached, worst, weights);
    CU_ASSERT_TRUE_FATAL(moe_group_run(group, cached ? 2 : 1, false));
    moe_group_expect(group, RANK, 0);
    return group;
}

/* Flips a bit of an output, asserts that check `number` finds it, and flips it back. */
static void output_plant(struct moe_group *group, const char *name, uint64_t at, int number)
{
    uint64_t size = 0;
    uint8_t *data = moe_group_output(group, RANK, name, &size);
    CU_ASSERT_TRUE_FATAL(data && size > 0);
    data[at % size] ^= 0x10;
    const bool found = moe_group_expect(group, RANK, number);
    data[at % size] ^= 0x10;
    if (!moe_group_expect(group, RANK, 0) || !found)
        fprintf(stderr, "planted: %s, byte %llu\n", name, (unsigned long long)(at % size));
}

static void test_planted_outputs(void)
{
    g_autoptr(moe_group) group = group_run(false, false, true);
    output_plant(group, "recv_before", 4 * 2, 2);
    output_plant(group, "expert_counts", 4, 3);
    for (uint64_t at = 0; at < 5000; at += 997) {
        output_plant(group, "recv_x", at, tested->row_check);
        output_plant(group, "recv_scales", at, tested->row_check);
        output_plant(group, "recv_meta", at, tested->row_check);
        output_plant(group, "recv_topk_idx", at, 5);
        output_plant(group, "recv_topk_weights", at, 6);
        output_plant(group, "combined_x", at, tested->sum_check);
    }
    output_plant(group, "combined_topk_weights", 2, 10);
}

/* Layouts and sizes are no outputs.  Their faults are planted where the checks read them. */
static struct ht_rank *rank_spoilt(struct moe_group *group) { return (struct ht_rank *)group->rank[RANK]; }

static void test_planted_layout(void)
{
    g_autoptr(moe_group) group = group_run(false, false, false);
    struct ht_layout *layout = &rank_spoilt(group)->layout;
    uint32_t *count[] = { &layout->tokens_per_rank[3], &layout->tokens_per_node[0], &layout->tokens_per_expert[5] };
    for (size_t i = 0; i < sizeof count / sizeof count[0]; i++) {
        ++*count[i];
        moe_group_expect(group, RANK, 1);
        --*count[i];
    }
    layout->bits[2] ^= 1;
    moe_group_expect(group, RANK, 1);
    layout->bits[2] ^= 1;
    moe_group_expect(group, RANK, 0);
}

/* First the number of received rows is made one too small, then the number of allocated rows. */
static void test_planted_size(void)
{
    for (int worst = 0; worst <= tested->worst_tokens; worst++) {
        g_autoptr(moe_group) group = group_run(false, worst, false);
        struct ht_rank *rank = rank_spoilt(group);
        rank->recv_before[rank->g.ranks]--;
        moe_group_expect(group, RANK, 2);
        rank->recv_before[rank->g.ranks]++;
        rank->t.recv_rows_max--;
        moe_group_expect(group, RANK, worst ? 7 : 2);
        rank->t.recv_rows_max++;
        moe_group_expect(group, RANK, 0);
    }
}

/* Swaps two rows.  Each row is right, but their order is not. */
static void test_planted_order(void)
{
    g_autoptr(moe_group) group = group_run(true, false, false);
    uint8_t *row = moe_group_output(group, RANK, "recv_x", NULL), copy[256];
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    memcpy(copy, row, 256);
    memcpy(row, row + 256, 256);
    memcpy(row + 256, copy, 256);
    moe_group_expect(group, RANK, tested->cached_check);
}

/* With a worst-case size, the tail of the experts must hold -1, and the list of counts must stay empty. */
static void test_planted_worst_tokens(void)
{
    g_autoptr(moe_group) group = group_run(false, true, false);
    uint64_t size = 0;
    CU_ASSERT_PTR_NOT_NULL(moe_group_output(group, RANK, "recv_topk_idx", &size));
    CU_ASSERT_EQUAL(size, 40 * 4 * 4 * sizeof(int64_t));
    output_plant(group, "recv_topk_idx", size - 1, 7);
    output_plant(group, "recv_before", 4 * 2, 7);
}

/* An error in a sum of rows that is within the public test's tolerance must still be found. */
static void test_planted_last_bit(void)
{
    g_autoptr(moe_group) group = group_run(false, false, false);
    uint16_t *row = moe_group_output(group, RANK, "combined_x", NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    row[3] ^= 1;
    moe_group_expect(group, RANK, tested->sum_check);
}

static void test_runs_hash_alike(void)
{
    struct moe_options o = moe_options_small(tested->kernels, 4, tested->ranks_per_node);
    o.weights = true;
    moe_test_runs_hash_alike(o, "recv_x");
}

/* One rank never starts.  All others must hang, and print that they wait for it. */
static void test_missing_rank_is_named(void)
{
    g_autoptr(moe_group) group = group_new(false, false, false);
    group->launched[2] = kernel_phase_count(&group->job.job);
    CU_ASSERT_FALSE(moe_group_run(group, 1, true));
    CU_ASSERT_PTR_NOT_NULL(strstr(loop_hang(group->loop), tested->hang));
}

void plant_tests_add(CU_pSuite suite, const struct plant_family *family)
{
    tested = family;
    CU_ADD_TEST(suite, test_planted_outputs);
    CU_ADD_TEST(suite, test_planted_layout);
    CU_ADD_TEST(suite, test_planted_size);
    CU_ADD_TEST(suite, test_planted_order);
    if (family->worst_tokens) CU_ADD_TEST(suite, test_planted_worst_tokens);
    CU_ADD_TEST(suite, test_planted_last_bit);
    CU_ADD_TEST(suite, test_runs_hash_alike);
    CU_ADD_TEST(suite, test_missing_rank_is_named);
}
