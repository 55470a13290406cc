/* test_replay.c - the parts of a replay around the kernels.  Ranks with different programs or options must be found
 * before they run.  Times must become the rows that replay/README.md promises.
 *
 * Method: plans made by hand, with threads as ranks; times whose medians and percentiles are known. */
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "replay/replay.h"
#include "sim/units.h"
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

static void plan_clear(struct rank_plan *p) { routing_free(&p->item.load.routing); }

/* ---- agreement ---- */

static GError *agree_error[RANKS];

static bool agree_call(struct bootstrap *b, void *context)
{
    struct rank_plan *plans = context;
    return replay_agree(&plans[b->rank].plan, b, &agree_error[b->rank]);
}

/* Asserts that all ranks find the difference between their plans, and report it in the same words. */
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

TEST("ranks agree or not")
{
    struct rank_plan plans[RANKS];
    plans_make(plans);
    CU_ASSERT_TRUE(case_set(&plans[1].case_options, "cluster", "elsewhere.ini", NULL)); /* the path of a file may
                                                                                         * differ */
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

/* Long values may differ only at their ends.  Text that follows them must be compared, too. */
TEST("long options differ at their ends")
{
    g_autoptr(GString) matrix = g_string_new("4");
    struct rank_plan plans[RANKS];
    for (uint32_t i = 0; i < 5000; i++) g_string_append(matrix, "|4");
    plans_make(plans);
    for (uint32_t rank = 0; rank < RANKS; rank++) plans[rank].case_options.traffic = g_intern_string(matrix->str);
    matrix->str[matrix->len - 1] = '5';
    plans[1].case_options.traffic = g_intern_string(matrix->str);
    expect_agreement(plans, "traffic: expected the same on all ranks, found "
                            "4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|4|... (10001 characters, SHA-256 ");
    plans_make(plans);
    for (uint32_t rank = 0; rank < RANKS; rank++) plans[rank].case_options.traffic = g_intern_string(matrix->str);
    plans[2].plan.warmup = 2;
    expect_agreement(plans, "warmup: expected the same on all ranks, found 1 on rank 0 and 2 on rank 2");
}

/* One rank has another value of an option.  Tests every option of a case, except those that name files. */
TEST("every option is agreed on")
{
    static const char *const values[] = {
        "true",  "3",     "16",        "512",  "1|1|1",  "1|1;1|1",    "random", "normal", "bf16",          "ring",
        "64KiB", "x",     "max",       "0:1",  "1ms",    "greedy",     "1",      "64",     "1000us",        "2",
        "copy",  "ibgda", "hybrid-ep", "8:16", "simple", "1@dispatch", "loop",   "alone",  "rank:1 slow=2", "1:2x",
        "2.28",  "a",     "2026-04",   "cold"
    };
    uint32_t checked = 0, paths = 0;
    for (uint32_t i = 0; case_option_name(i); i++) {
        const char *const name = case_option_name(i);
        struct rank_plan plans[RANKS];
        if (g_strv_contains((const char *const[]){ "cluster", "trace", "trace-weights", NULL }, name)) {
            paths++;
            continue;
        }
        plans_make(plans);
        g_autofree char *before = case_option_text(&plans[1].case_options, i);
        g_autofree char *after = NULL;
        for (size_t k = 0; k < G_N_ELEMENTS(values) && (!after || g_strcmp0(before, after) == 0); k++) {
            g_free(after);
            (void)case_set(&plans[1].case_options, name, values[k], NULL);
            after = case_option_text(&plans[1].case_options, i);
        }
        if (g_strcmp0(before, after) == 0) printf("\n      %s: no other value\n", name);
        CU_ASSERT_NOT_EQUAL(g_strcmp0(before, after), 0);
        g_autofree char *expected = g_strdup_printf("%s: expected the same on all ranks, found ", name);
        expect_agreement(plans, expected);
        checked++;
    }
    CU_ASSERT(checked > 30 && paths == 3);
}

/* ---- iterations ---- */

static double row_value(const struct record *record, const char *phase, int32_t rank, const char *metric)
{
    const struct record_row *row = MADE(record_find(record, phase, rank, metric));
    return row->value;
}

enum { WARMUP = 2, REPEAT = 3, WARMUP_MS = 200, CHECKS_MAX = 16 };

/* A kernel that takes WARMUP_MS in warm-ups and almost no time afterwards.  It notes when its outputs are checked. */
struct stub_rank {
    struct kernel_rank base;
    struct fabric_worker worker, *list[1];
    struct kernel_launch launch;
    uint64_t end_ps;
    uint32_t launches;
};
static struct {
    uint32_t checked[CHECKS_MAX], count;
} stub_checks;

static struct stub_rank *stub_of(struct kernel_rank *rank) { return fabric_container_of(rank, struct stub_rank, base); }

static void stub_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    (void)job, (void)payload;
    *needs = (struct fabric_needs){ .word_count = 1 };
}
static uint32_t stub_phase_count(const struct kernel_job *job) { return (void)job, 1; }
static const char *stub_phase_name(const struct kernel_job *job, uint32_t phase)
{
    return (void)job, (void)phase, "stub";
}

static enum worker_step stub_step(struct fabric_worker *w)
{
    const struct stub_rank *r = fabric_container_of(w, struct stub_rank, worker);
    return fabric_now_ps(w->fabric) < r->end_ps ? WORKER_WAIT : WORKER_DONE;
}
static void stub_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    (void)w;
    g_strlcpy(text, "waits for rank 0", text_size);
}
static const struct worker_role stub_role = { .step = stub_step, .describe = stub_describe };

static struct kernel_rank *stub_new(const struct kernel_job *job, struct fabric *fabric)
{
    struct stub_rank *r = kernel_alloc(1, sizeof *r);
    (void)job;
    r->worker = fabric_worker_of(fabric, &stub_role);
    r->list[0] = &r->worker;
    return &r->base;
}

static struct kernel_launch *stub_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct stub_rank *r = stub_of(rank);
    (void)phase;
    r->launch = (struct kernel_launch){ .phase = "stub", .worker = r->list, .worker_count = 1 };
    const uint64_t now_ps = fabric_now_ps(r->worker.fabric);
    r->end_ps = r->launches++ < WARMUP ? now_ps + WARMUP_MS * UINT64_C(1000) * PS_PER_US : now_ps;
    return &r->launch;
}

static void stub_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    (void)rank, (void)phase, (void)traffic;
}

static uint32_t stub_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    (void)text, (void)text_size;
    if (stub_checks.count < CHECKS_MAX)
        stub_checks.checked[stub_checks.count++] = fabric_container_of(rank, const struct stub_rank, base)->launches;
    return 0;
}

static const struct kernel_family stub_family = {
    .needs = stub_needs,
    .phase_count = stub_phase_count,
    .phase_name = stub_phase_name,
    .rank_new = stub_new,
    .launch = stub_launch,
    .traffic = stub_traffic,
    .check = stub_check,
};

static bool stub_run(struct bootstrap *b, void *context)
{
    g_autoptr(GError) error = NULL;
    const bool fine = replay_rank_main(b, context, &error);
    if (!fine) printf("\n      %s\n", error->message);
    return fine;
}

/* Neither warm-ups nor their waits count.  Outputs are checked after the first iteration, even a warm-up, and after the
 * last. */
TEST("iterations that count and that are checked")
{
    struct rank_plan p;
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "eptwin-replay-XXXXXX", NULL);
    CU_ASSERT_FATAL(close(g_mkstemp(path)) == 0);
    plan_make(&p);
    p.job.job = (struct kernel_job){ .family = &stub_family, .ranks = 1, .ranks_per_node = 1, .num_sms = 1 };
    p.command.output = path;
    p.command.cpus = 1;
    p.plan.warmup = WARMUP;
    p.plan.repeat = REPEAT;
    p.plan.waits = true;
    stub_checks.count = 0;
    struct bootstrap **b = support_bootstraps_new(1);
    CU_ASSERT_EQUAL(support_bootstraps_run(b, 1, stub_run, &p.plan), 0);
    support_bootstraps_free(b, 1);
    CU_ASSERT_FATAL(stub_checks.count >= 2); /* three if the machine was busy */
    CU_ASSERT_EQUAL(stub_checks.checked[0], 1);
    CU_ASSERT_EQUAL(stub_checks.checked[1], WARMUP + REPEAT);
    g_autoptr(record) record = MADE(record_read(path, NULL));
    CU_ASSERT(row_value(record, "stub", 0, "time_us_p90") < WARMUP_MS * 1000 / 2.0);
    const struct record_row *waits = record_find(record, "stub", 0, "waits_us");
    uint32_t ranks = 0;
    g_autofree double *waits_us = waits ? record_row_list(waits, &ranks) : NULL;
    CU_ASSERT_FATAL(waits_us && ranks == 1);
    CU_ASSERT(waits_us[0] <
              WARMUP_MS * 1000 / 4.0); /* with the waits of warm-ups, it would be at least two thirds of WARMUP_MS */
    g_unlink(path);
    p.command.output = NULL;
    plan_clear(&p);
}

/* ---- rows ---- */

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

TEST("rows")
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
    g_autoptr(record) record = record_new();
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
    for (uint32_t i = 0; i < 2; i++) {
        g_free(result[i].time_us);
        g_free(result[i].traffic);
        g_free(result[i].disturbed);
    }
    plan_clear(&p);
}
