/* test_two_worlds.c - one protocol, two worlds: the same routing, simulated with payload and run with real
 * bytes over shared memory, must leave the same bytes in every output tensor and pass every check; and the
 * simulated run must repeat bit for bit, times included, and not depend on whether payload is stored.
 *
 * Where a kernel leaves the order of rows to arrival, the family sorts them, as the public tests
 * compare. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sim/units.h"
#include "tests/support_live.h"
#include "tests/support_sim.h"
#include "traces/generate.h"
#include "traces/trace.h"
#include "tests/unit.h"

enum { RANKS_MAX = 16, TENSORS_MAX = 16, ITERATIONS = 3 };

struct live_group {
    struct bootstrap **bootstrap;
    struct live_world *world[RANKS_MAX];
    struct kernel_rank *rank[RANKS_MAX];
    struct fabric_ops ops;
};

/* A rank's clock is its thread's CPU time, so that other load on the machine makes no rank late. */
static uint64_t thread_now_ps(const struct fabric *f)
{
    (void)f;
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * PS_PER_S + (uint64_t)now.tv_nsec * PS_PER_NS;
}

static void live_group_init(struct live_group *g, const struct moe_job *job, bool nvlink_disabled)
{
    const struct moe_options *o = &job->options;
    struct fabric_needs needs;
    kernel_job_needs(&job->job, true, &needs);
    struct live_options options;
    live_options_init(&options);
    options.fabric = "shm";
    options.ranks_per_node = o->ranks_per_node;
    options.nvlink_disabled = nvlink_disabled;
    GError *error = NULL;
    g->bootstrap = support_bootstraps_new(o->ranks);
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &needs, g->bootstrap, o->ranks, g->world, &error));
    for (uint32_t r = 0; r < o->ranks; r++) {
        struct fabric *f = live_world_fabric(g->world[r]);
        g->ops = *f->ops;
        g->ops.now_ps = thread_now_ps;
        f->ops = &g->ops;
        g->rank[r] = kernel_rank_new(&job->job, f);
        CU_ASSERT_PTR_NOT_NULL_FATAL(g->rank[r]);
    }
}

static void live_group_clear(struct live_group *g, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        kernel_rank_free(g->rank[r]);
        live_world_free(g->world[r]);
    }
    support_bootstraps_free(g->bootstrap, ranks);
}

static void live_group_run(struct live_group *g, uint32_t ranks, uint32_t phase)
{
    uint32_t count = 0;
    struct fabric_worker **worker = NULL;
    for (uint32_t r = 0; r < ranks; r++) {
        const struct kernel_launch *kernel = kernel_rank_launch(g->rank[r], phase);
        worker = realloc(worker, (count + kernel->worker_count + 1) * sizeof *worker);
        memcpy(worker + count, kernel->worker, kernel->worker_count * sizeof *worker);
        count += kernel->worker_count;
    }
    char why[256] = "";
    const bool ended = support_worlds_run(g->world, ranks, worker, count, why, sizeof why);
    if (!ended) printf("\n      %s\n", why);
    CU_ASSERT_TRUE_FATAL(ended);
    free(worker);
}

static void compare_outputs(struct kernel_rank *a, struct kernel_rank *b)
{
    struct kernel_tensor x[TENSORS_MAX], y[TENSORS_MAX];
    const uint32_t count = kernel_rank_outputs(a, x, TENSORS_MAX);
    CU_ASSERT_EQUAL_FATAL(kernel_rank_outputs(b, y, TENSORS_MAX), count);
    CU_ASSERT(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_STRING_EQUAL(x[i].name, y[i].name);
        CU_ASSERT_EQUAL_FATAL(x[i].size_bytes, y[i].size_bytes);
        const bool same = !memcmp(x[i].data, y[i].data, x[i].size_bytes);
        if (!same) printf("\n      %s differs between the worlds\n", x[i].name);
        CU_ASSERT_TRUE(same);
    }
}

static void check_rank(const struct kernel_rank *rank)
{
    char text[256] = "";
    const uint32_t failures = kernel_rank_check(rank, text, sizeof text);
    if (failures) printf("\n      %u checks failed, first: %s\n", failures, text);
    CU_ASSERT_EQUAL(failures, 0);
}

/* Simulated times of all ranks and phases of three iterations. */
static void simulate_times(const struct moe_options *o, const struct routing *routing, bool payload,
                           bool nvlink_disabled, uint64_t *time)
{
    const struct cluster cluster = support_cluster(o->ranks_per_node);
    struct support_group sim;
    support_group_init(&sim, &cluster, o, routing, payload, nvlink_disabled);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        for (uint32_t phase = 0; phase < kernel_phase_count(&sim.job.job); phase++) {
            support_group_run(&sim, phase);
            for (uint32_t r = 0; r < o->ranks; r++) *time++ = sim.result[r].time_ps;
        }
    }
    support_group_clear(&sim);
}

static void check_repeats(const struct moe_options *o, const struct routing *routing, bool nvlink_disabled)
{
    struct moe_job job;
    moe_job_init(&job, o, routing);
    const size_t count = (size_t)ITERATIONS * kernel_phase_count(&job.job) * o->ranks;
    uint64_t *first = calloc(count, sizeof *first), *again = calloc(count, sizeof *again),
             *sizes = calloc(count, sizeof *sizes);
    simulate_times(o, routing, true, nvlink_disabled, first);
    simulate_times(o, routing, true, nvlink_disabled, again);
    simulate_times(o, routing, false, nvlink_disabled, sizes);
    CU_ASSERT_EQUAL(memcmp(first, again, count * sizeof *first), 0);
    CU_ASSERT_EQUAL(memcmp(first, sizes, count * sizeof *first), 0);
    free(first);
    free(again);
    free(sizes);
}

static void run_both(const struct moe_options *o, const struct routing *routing, bool nvlink_disabled)
{
    const struct cluster cluster = support_cluster(o->ranks_per_node);
    struct support_group sim;
    struct live_group live;
    support_group_init(&sim, &cluster, o, routing, true, nvlink_disabled);
    live_group_init(&live, &sim.job, nvlink_disabled);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        for (uint32_t phase = 0; phase < kernel_phase_count(&sim.job.job); phase++) {
            support_group_run(&sim, phase);
            live_group_run(&live, o->ranks, phase);
        }
        for (uint32_t r = 0; r < o->ranks; r++) {
            check_rank(sim.rank[r]);
            check_rank(live.rank[r]);
            compare_outputs(sim.rank[r], live.rank[r]);
        }
    }
    support_group_clear(&sim);
    live_group_clear(&live, o->ranks);
    check_repeats(o, routing, nvlink_disabled);
}

/* The first tokens of one (step, layer) of a sample trace. */
static struct routing sample(const char *path, uint32_t layer, uint32_t ranks, uint32_t tokens)
{
    GError *error = NULL;
    struct trace *trace = trace_open(path, &(struct trace_options){ .experts = 64 }, &error);
    if (!trace) puts(error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(trace);
    struct routing routing = { 0 };
    CU_ASSERT_TRUE_FATAL(trace_read(trace, 0, layer, ranks, &routing, &error));
    for (uint32_t r = 0; r < routing.ranks; r++) routing.rank[r].tokens = MIN(routing.rank[r].tokens, tokens - r % 3);
    trace_close(trace);
    return routing;
}

#define SAMPLE "traces/samples/prefill_ep8.npy.zst"

static struct moe_options ll_options(const struct routing *routing, uint32_t ranks_per_node)
{
    return (struct moe_options){
        .family = MOE_LOW_LATENCY,
        .ranks = routing->ranks,
        .ranks_per_node = ranks_per_node,
        .tokens_max = 48,
        .hidden = 1024,
        .topk = routing->topk,
        .experts = routing->experts,
        .dtype = MOE_FP8,
        .data = MOE_DATA_RANDOM,
        .seed = 7,
        .num_sms = 16,
        .expert_alignment = 1,
    };
}

static void test_low_latency(void)
{
    for (uint32_t variant = 0; variant < 6; variant++) {
        struct routing routing = sample(SAMPLE, variant % 3, 8, 48);
        struct moe_options o = ll_options(&routing, variant % 2 ? 8 : 4);
        o.dtype = variant < 3 ? MOE_FP8 : MOE_BF16;
        o.hook = variant == 2 || variant == 4;
        o.zero_copy = false;
        o.logfmt = variant == 0 || variant >= 4; /* by NVLink and by RDMA, rows that fit it and rows that do not */
        o.round_scale = variant == 1;
        o.data = variant == 5 ? MOE_DATA_PATTERN : MOE_DATA_RANDOM;
        run_both(&o, &routing, variant >= 4);
        routing_free(&routing);
    }
}

/* Ranks fail at each of the calls, in the first iteration or later; the others mask them in both worlds. */
static void test_masking(void)
{
    for (uint32_t variant = 0; variant < 6; variant++) {
        const uint32_t ranks = variant % 2 ? 4 : 8;
        struct routing routing = sample(SAMPLE, variant % 3, ranks, 48);
        struct moe_options o = ll_options(&routing, variant < 4 ? ranks : ranks / 2);
        o.hook = variant == 2 || variant == 3;
        o.mask_timeout_ps = 500000 * PS_PER_US; /* longer than a busy machine keeps a live rank from its turn */
        o.failure_count = ranks == 4 ? 2 : 3;
        o.failure[0] = (struct moe_failure){ .rank = 1, .call = MOE_CALL_DISPATCH, .iteration = variant / 4 };
        o.failure[1] = (struct moe_failure){ .rank = 3, .call = MOE_CALL_COMBINE };
        o.failure[2] = (struct moe_failure){ .rank = 5, .call = MOE_CALL_CLEAN };
        run_both(&o, &routing, variant >= 2);
        routing_free(&routing);
    }
}

static struct moe_options normal_options(const struct routing *routing, uint32_t ranks_per_node)
{
    struct moe_options o = ll_options(routing, ranks_per_node);
    o.family = MOE_NORMAL;
    o.num_sms = 4;
    o.tokens_max = 48;
    moe_options_recommend(&o);
    return o;
}

static void run_normal(uint32_t ranks, uint32_t ranks_per_node)
{
    for (uint32_t variant = 0; variant < 4; variant++) {
        struct routing routing = sample(SAMPLE, variant % 3, ranks > 8 ? 8 : ranks, 48);
        if (ranks > 8) { /* the samples have 8 ranks: each serves two */
            struct routing_rank *rank = g_new0(struct routing_rank, ranks);
            for (uint32_t r = 0; r < ranks; r++) rank[r] = routing.rank[r % 8];
            struct routing more = { .ranks = ranks, .topk = routing.topk, .experts = routing.experts, .rank = rank };
            struct moe_options o = normal_options(&more, ranks_per_node);
            o.dtype = variant % 2 ? MOE_BF16 : MOE_FP8;
            run_both(&o, &more, false);
            g_free(rank);
        } else {
            struct moe_options o = normal_options(&routing, ranks_per_node);
            o.dtype = variant % 2 ? MOE_BF16 : MOE_FP8;
            o.cached = variant >= 2;
            o.weights = variant == 1;
            o.num_bias = variant == 1 ? 2 : 0;
            run_both(&o, &routing, false);
        }
        routing_free(&routing);
    }
}

static void test_intranode(void)
{
    run_normal(2, 8);
    run_normal(4, 8);
    run_normal(8, 8);
}

static void test_internode(void)
{
    run_normal(4, 2);  /* 2 nodes of 2 */
    run_normal(8, 4);  /* 2 of 4 */
    run_normal(8, 2);  /* 4 of 2 */
    run_normal(16, 4); /* 4 of 4 */
}

static void test_v2(void)
{
    static const uint32_t shape[][2] = { { 8, 8 }, { 4, 2 }, { 8, 4 } };
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        struct routing routing = sample(SAMPLE, (uint32_t)i, shape[i][0], 48);
        struct moe_options o = normal_options(&routing, shape[i][1]);
        o.family = MOE_V2;
        run_both(&o, &routing, false);
        o.expand = true;
        run_both(&o, &routing, false);
        o.single_reduction = shape[i][0] <= shape[i][1];
        o.weights = !o.single_reduction;
        run_both(&o, &routing, false);
        routing_free(&routing);
    }
}

static void test_one_sided(void)
{
    for (uint32_t variant = 0; variant < 2; variant++) {
        struct routing routing = sample(SAMPLE, variant, 8, 48);
        struct moe_options o = normal_options(&routing, 8);
        o.family = MOE_ONE_SIDED;
        o.dtype = variant ? MOE_BF16 : MOE_FP8;
        run_both(&o, &routing, false);
        routing_free(&routing);
    }
}

static void test_mori(void)
{
    for (uint32_t variant = 0; variant < 4; variant++) {
        struct routing routing = sample(SAMPLE, variant / 2, 8, 48);
        struct moe_options o = normal_options(&routing, 8);
        o.family = variant & 1 ? MOE_MORI_LL : MOE_MORI;
        o.dtype = variant & 1 ? MOE_BF16 : MOE_FP8;
        o.zero_copy = variant & 2;
        run_both(&o, &routing, false);
        routing_free(&routing);
    }
}

const char unit_suite[] = "two worlds, the same bytes";

void unit_tests(CU_pSuite suite)
{
    CU_add_test(suite, "low latency, 8 ranks", test_low_latency);
    CU_add_test(suite, "low latency, ranks that fail", test_masking);
    CU_add_test(suite, "normal, intranode: 2, 4, 8 ranks", test_intranode);
    CU_add_test(suite, "normal, internode: 2 and 4 nodes of 2 and 4", test_internode);
    CU_add_test(suite, "V2, direct and hybrid", test_v2);
    CU_add_test(suite, "one-sided, 8 ranks", test_one_sided);
    CU_add_test(suite, "MoRI, 8 ranks", test_mori);
}
