/* test_replay.c - what stands around the kernels in a replay: ranks that are not about to run the same thing are
 * found before they run, and times become the rows that replay/README.md promises.
 *
 * Method: plans made by hand, ranks as threads; times whose medians and percentiles are known. */
#include <stdio.h>
#include <string.h>
#include "replay/replay.h"
#include "tests/support_live.h"
#include "tests/unit.h"

enum { RANKS = 3, TOKENS = 4, TOPK = 2, EXPERTS = 6 };

struct rank_plan {
    struct live_command command;
    struct case_options case_options;
    struct replay_item item;
    struct moe_job job;
    struct replay_plan plan;
};

static void plan_make(struct rank_plan *p)
{
    const uint32_t tokens[RANKS] = { TOKENS, TOKENS, TOKENS };
    memset(p, 0, sizeof *p);
    p->command.name = "replay";
    live_options_init(&p->command.live);
    p->command.live.fabric = "shm";
    case_init(&p->case_options);
    routing_alloc(&p->item.load.routing, RANKS, TOPK, EXPERTS, tokens, 1);
    for (uint32_t i = 0; i < TOKENS * TOPK; i++) p->item.load.routing.rank[1].experts[i] = (int32_t)(i % EXPERTS);
    moe_job_init(&p->job, &(struct moe_options){ .family = MOE_LOW_LATENCY, .ranks = RANKS, .tokens_max = TOKENS },
                 &p->item.load.routing);
    p->item.job = &p->job.job;
    p->plan = (struct replay_plan){
        .command = &p->command,
        .case_options = &p->case_options,
        .item = &p->item,
        .item_count = 1,
        .warmup = 1,
        .repeat = 5,
        .check = true,
    };
}

static void plan_clear(struct rank_plan *p)
{
    routing_free(&p->item.load.routing);
    case_clear(&p->case_options);
}

/* ---- agreement ---- */

static GError *agree_error[RANKS];

static bool agree_call(struct bootstrap *b, void *context)
{
    struct rank_plan *plans = context;
    return replay_agree(&plans[b->rank].plan, b, &agree_error[b->rank]);
}

/* All ranks must find out, and say the same. */
static void expect_agreement(struct rank_plan *plans, const char *expected)
{
    struct bootstrap **b = support_bootstraps_new(RANKS);
    CU_ASSERT_EQUAL(support_bootstraps_run(b, RANKS, agree_call, plans), expected ? RANKS : 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (expected) {
            CU_ASSERT_PTR_NOT_NULL_FATAL(agree_error[rank]);
            CU_ASSERT_PTR_NOT_NULL(strstr(agree_error[rank]->message, expected));
            if (!strstr(agree_error[rank]->message, expected)) printf("\n      %s\n", agree_error[rank]->message);
        }
        g_clear_error(&agree_error[rank]);
        plan_clear(&plans[rank]);
    }
    support_bootstraps_free(b, RANKS);
}

static void plans_make(struct rank_plan *plans)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) plan_make(&plans[rank]);
}

static void test_agree(void)
{
    struct rank_plan plans[RANKS];
    plans_make(plans);
    CU_ASSERT_TRUE(case_set(&plans[1].case_options, "cluster", "elsewhere.ini", NULL)); /* only a path */
    expect_agreement(plans, NULL);

    plans_make(plans);
    CU_ASSERT_TRUE(case_set(&plans[2].case_options, "hidden", "4096", NULL));
    expect_agreement(plans, "hidden: expected the same on all ranks, found 7168 on rank 0 and 4096 on rank 2");

    plans_make(plans);
    plans[1].plan.repeat = 6;
    expect_agreement(plans, "repeat: expected the same on all ranks, found 5 on rank 0 and 6 on rank 1");

    plans_make(plans);
    plans[0].item.load.routing.rank[1].experts[3]++;
    expect_agreement(plans, "routing: expected the same on all ranks");

    plans_make(plans);
    plans[2].item.load.routing.rank[0].weights[0] = 0.5f;
    expect_agreement(plans, "routing: expected the same on all ranks");

    plans_make(plans);
    plans[2].command.live.fabric = "verbs";
    expect_agreement(plans, "fabric: expected the same on all ranks, found shm on rank 0 and verbs on rank 2");

    plans_make(plans);
    plans[1].plan.waits = true;
    expect_agreement(plans, "waits: expected the same on all ranks, found false on rank 0 and true on rank 1");

    plans_make(plans);
    plans[2].command.live.timeout_ms = 2000;
    expect_agreement(plans, "timeout: expected the same on all ranks, found 30 on rank 0 and 2 on rank 2");
}

/* Values of many bytes differ at their ends, and what follows them in the text is looked at, too. */
static void test_agree_long(void)
{
    g_autoptr(GString) matrix = g_string_new("4");
    struct rank_plan plans[RANKS];
    for (uint32_t i = 0; i < 5000; i++) g_string_append(matrix, "|4");
    plans_make(plans);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        plans[rank].case_options.traffic = g_strdup(matrix->str);
        if (rank == 1) plans[rank].case_options.traffic[matrix->len - 1] = '5';
    }
    expect_agreement(plans,
                     "traffic: expected the same on all ranks, found 4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|... "
                     "(10001 characters, SHA-256 ");
    plans_make(plans);
    for (uint32_t rank = 0; rank < RANKS; rank++) plans[rank].case_options.traffic = g_strdup(matrix->str);
    plans[2].plan.warmup = 2;
    expect_agreement(plans, "warmup: expected the same on all ranks, found 1 on rank 0 and 2 on rank 2");
}

/* ---- rows ---- */

static double row_value(const struct record *record, const char *phase, int32_t rank, const char *metric)
{
    const struct record_row *row = record_find(record, phase, rank, metric);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    return row->value;
}

/* Rank r's repetition k of phase p in item i takes 100 (p + 1) (i + 1) + 10 r + k microseconds. */
static struct replay_result result_make(uint32_t item, uint32_t ranks, uint32_t phases, uint32_t repeat)
{
    struct replay_result result = { .ranks = ranks, .phases = phases, .repeat = repeat };
    result.time_us = g_new(double, ranks *phases *repeat);
    result.traffic = g_new0(struct kernel_traffic, ranks * phases);
    result.disturbed = g_new0(bool, phases *repeat);
    result.disturbed[1] = result.disturbed[repeat] = true;
    result.repeated = 2;
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t p = 0; p < phases; p++) {
            for (uint32_t k = 0; k < repeat; k++)
                replay_result_times(&result, r, p)[k] = 100 * (p + 1) * (item + 1) + 10 * r + k;
            result.traffic[r * phases + p].logical_rdma_bytes = 1000 * (r + 1);
            result.traffic[r * phases + p].logical_nvl_bytes = 500000;
        }
    return result;
}

static void test_rows(void)
{
    struct rank_plan p;
    plan_make(&p);
    struct replay_item items[2] = { p.item, p.item };
    items[1].layer = 4;
    p.plan.item = items;
    p.plan.item_count = 2;
    p.plan.layers = "0,4";
    const uint32_t phases = kernel_phase_count(items[0].job);
    struct replay_result result[2];
    for (uint32_t i = 0; i < 2; i++) result[i] = result_make(i, RANKS, phases, 5);
    static const struct bootstrap_ops ops = { .name = "threads" };
    const struct bootstrap b = { .ops = &ops, .rank_count = RANKS };
    struct record *record = record_new();
    const struct contention contention = { .others = 0.25, .running = 3 };
    replay_record_fill(&p.plan, &b, result, &contention, record);
    CU_ASSERT_STRING_EQUAL(record_get(record, "busy"), "yes");
    CU_ASSERT_STRING_EQUAL(record_get(record, "cpu-others-pct"), "25.0");
    CU_ASSERT_STRING_EQUAL(record_get(record, "disturbed"), "dispatch 2/10|combine 2/10");
    CU_ASSERT_STRING_EQUAL(record_get(record, "iterations-repeated"), "4");
    CU_ASSERT_STRING_EQUAL(record_get(record, "kind"), "replay");
    CU_ASSERT_STRING_EQUAL(record_get(record, "layers"), "0,4");
    CU_ASSERT_STRING_EQUAL(record_get(record, "steps"), "0:1");
    CU_ASSERT_STRING_EQUAL(record_get(record, "layer"), "0");
    CU_ASSERT_STRING_EQUAL(record_get(record, "checks"), "passed");
    CU_ASSERT_STRING_EQUAL(record_get(record, "num-ranks"), "3");
    CU_ASSERT_EQUAL(row_value(record, "dispatch_layer0", 1, "time_us"), 112); /* median of 110 to 114 */
    CU_ASSERT_EQUAL(row_value(record, "dispatch_layer4", 1, "time_us"), 212);
    CU_ASSERT_EQUAL(row_value(record, "dispatch", 1, "time_us"), 162);
    CU_ASSERT_EQUAL(row_value(record, "dispatch", 1, "time_us_min"), 110);
    CU_ASSERT_DOUBLE_EQUAL(row_value(record, "dispatch_layer0", 1, "time_us_p90"), 113.6, 1e-9);
    CU_ASSERT_EQUAL(row_value(record, "combine_layer0", 0, "time_us"), 202);
    CU_ASSERT_DOUBLE_EQUAL(row_value(record, "dispatch_layer0", RECORD_ALL, "time_us"), 112, 1e-9);
    CU_ASSERT_EQUAL(row_value(record, "dispatch_layer0", RECORD_ALL, "time_us_max"), 122);
    CU_ASSERT_EQUAL(row_value(record, "dispatch_layer0", RECORD_ALL, "time_us_min"), 102);
    CU_ASSERT_DOUBLE_EQUAL(row_value(record, "dispatch_layer0", RECORD_ALL, "time_us_p90"), 120, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(row_value(record, "dispatch_layer0", 2, "logical_rdma_gbs"), 3000 / 122.0 / 1e3, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(row_value(record, "dispatch_layer0", RECORD_ALL, "logical_rdma_gbs"), 2000 / 112.0 / 1e3,
                           1e-12);
    CU_ASSERT_DOUBLE_EQUAL(row_value(record, "dispatch_layer0", RECORD_ALL, "logical_nvl_gbs"), 500 / 112.0, 1e-9);
    record_free(record);
    for (uint32_t i = 0; i < 2; i++) {
        g_free(result[i].time_us);
        g_free(result[i].traffic);
        g_free(result[i].disturbed);
    }
    plan_clear(&p);
}

const char unit_suite[] = "replay";

void unit_tests(CU_pSuite suite)
{
    CU_add_test(suite, "ranks agree or not", test_agree);
    CU_add_test(suite, "long options differ at their ends", test_agree_long);
    CU_add_test(suite, "rows", test_rows);
}
