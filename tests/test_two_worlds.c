/* test_two_worlds.c - one protocol in two worlds.  A routing is simulated with payload, and run with real bytes over
 * shared memory.  Both must leave the same bytes in every output tensor and pass every check.  The simulated run must
 * repeat bit for bit, times included, and must not depend on whether payload is stored.
 *
 * If the order of a kernel's rows depends on their arrival, the family sorts them before the comparison, as the public
 * tests do. */
#include <stdio.h>
#include "models/moe/moe.h"
#include "sim/units.h"
#include "tests/support_job.h"
#include "traces/trace.h"
#include "tests/unit.h"

static void run_both(const struct moe_options *o, const struct routing *routing, bool nvlink_disabled)
{
    enum { ITERATIONS = 3 };
    char text[256];
    struct moe_job job;
    const char *refusal = moe_options_refuse(o, text, sizeof text);
    if (refusal) puts(refusal);
    CU_ASSERT_PTR_NULL_FATAL(refusal);
    moe_job_init(&job, o, routing);
    job_two_worlds(&job.job, ITERATIONS, nvlink_disabled);
}

/* Returns the first tokens of one (step, layer) of a sample trace. */
static struct routing sampled(const char *path, uint32_t layer, uint32_t ranks, uint32_t tokens)
{
    GError *error = NULL;
    g_autoptr(trace) trace = trace_open(path, &(struct trace_options){ .experts = 64 }, &error);
    if (!trace) puts(error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(trace);
    struct routing routing = { 0 };
    CU_ASSERT_TRUE_FATAL(trace_read(trace, 0, layer, ranks, &routing, &error));
    for (uint32_t r = 0; r < routing.ranks; r++) routing.rank[r].tokens = MIN(routing.rank[r].tokens, tokens - r % 3);
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

TEST("low latency, 8 ranks")
{
    for (uint32_t variant = 0; variant < 6; variant++) {
        g_auto(routing) routing = sampled(SAMPLE, variant % 3, 8, 48);
        struct moe_options o = ll_options(&routing, variant % 2 ? 8 : 4);
        o.dtype = variant < 3 ? MOE_FP8 : MOE_BF16;
        o.hook = variant == 2 || variant == 4;
        o.zero_copy = variant == 2;              /* two nodes */
        o.logfmt = variant == 0 || variant >= 4; /* by NVLink and by RDMA, with rows that fit LogFMT and rows that do
                                                  * not */
        o.round_scale = variant == 1;
        o.data = variant == 5 ? MOE_DATA_PATTERN : MOE_DATA_RANDOM;
        run_both(&o, &routing, variant >= 4);
    }
}

/* Ranks fail at each of the calls, in the first iteration or later.  The others must mask them in both worlds. */
TEST("low latency, ranks that fail")
{
    for (uint32_t variant = 0; variant < 6; variant++) {
        const uint32_t ranks = variant % 2 ? 4 : 8;
        g_auto(routing) routing = sampled(SAMPLE, variant % 3, ranks, 48);
        struct moe_options o = ll_options(&routing, variant < 4 ? ranks : ranks / 2);
        o.hook = variant == 2 || variant == 3;
        o.mask_timeout_ps = 500000 * PS_PER_US; /* longer than a busy machine can keep a living rank from running */
        o.failure_count = ranks == 4 ? 2 : 3;
        o.failure[0] = (struct moe_failure){ .rank = 1, .call = MOE_CALL_DISPATCH, .iteration = variant / 4 };
        o.failure[1] = (struct moe_failure){ .rank = 3, .call = MOE_CALL_COMBINE };
        o.failure[2] = (struct moe_failure){ .rank = 5, .call = MOE_CALL_CLEAN };
        run_both(&o, &routing, variant >= 2);
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
        g_auto(routing) routing = sampled(SAMPLE, variant % 3, ranks > 8 ? 8 : ranks, 48);
        if (ranks > 8) { /* the samples have 8 ranks, so each serves two ranks of the case */
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
    }
}

TEST("normal, intranode: 2, 4, 8 ranks")
{
    run_normal(2, 8);
    run_normal(4, 8);
    run_normal(8, 8);
}

TEST("normal, internode: 2 and 4 nodes of 2 and 4")
{
    run_normal(4, 2);  /* 2 nodes of 2 */
    run_normal(8, 4);  /* 2 nodes of 4 */
    run_normal(8, 2);  /* 4 nodes of 2 */
    run_normal(16, 4); /* 4 nodes of 4 */
}

TEST("V2, direct and hybrid")
{
    static const uint32_t shape[][2] = { { 8, 8 }, { 4, 2 }, { 8, 4 } };
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        g_auto(routing) routing = sampled(SAMPLE, (uint32_t)i, shape[i][0], 48);
        struct moe_options o = normal_options(&routing, shape[i][1]);
        o.family = MOE_V2;
        run_both(&o, &routing, false);
        o.expand = true;
        run_both(&o, &routing, false);
        o.direct = true;
        run_both(&o, &routing, false);
        o.single_reduction = true;
        o.weights = false;
        run_both(&o, &routing, false);
    }
}

TEST("one-sided and two-sided, 8 ranks")
{
    for (uint32_t variant = 0; variant < 2; variant++) {
        g_auto(routing) routing = sampled(SAMPLE, variant, 8, 48);
        struct moe_options o = normal_options(&routing, 8);
        o.family = MOE_ONE_SIDED;
        o.dtype = variant ? MOE_BF16 : MOE_FP8;
        run_both(&o, &routing, false);
        o.family = MOE_TWO_SIDED;
        run_both(&o, &routing, false);
    }
}

TEST("MoRI, 8 ranks, within a node and between nodes")
{
    for (uint32_t variant = 0; variant < 4; variant++) {
        g_auto(routing) routing = sampled(SAMPLE, variant / 2, 8, 48);
        struct moe_options o = normal_options(&routing, 8);
        o.family = variant & 1 ? MOE_MORI_LL : MOE_MORI;
        o.dtype = variant & 1 ? MOE_BF16 : MOE_FP8;
        o.zero_copy = variant & 2;
        run_both(&o, &routing, false);
        o.zero_copy = false;
        o.ranks_per_node = variant & 2 ? 2 : 4; /* 4 nodes of 2, or 2 nodes of 4 */
        run_both(&o, &routing, false);
    }
}

TEST("pplx, 8 ranks, in a node and between nodes")
{
    for (uint32_t variant = 0; variant < 4; variant++) {
        g_auto(routing) routing = sampled(SAMPLE, variant % 3, 8, 48);
        struct moe_options o = normal_options(&routing, 8u >> variant);
        o.family = MOE_PPLX;
        o.hook = variant >= 2;
        o.dtype = variant % 2 ? MOE_BF16 : MOE_FP8;
        o.num_sms = variant < 2 ? 4 : 64; /* fewer blocks than tokens, or more */
        run_both(&o, &routing, false);
    }
}

TEST("NCCL EP's high throughput and Hybrid-EP, 8 ranks, in a node and between nodes")
{
    for (uint32_t variant = 0; variant < 4; variant++) {
        g_auto(routing) routing = sampled(SAMPLE, variant % 3, 8, 48);
        struct moe_options o = normal_options(&routing, 8u >> variant % 3);
        o.family = MOE_HYBRID_EP;
        o.dtype = variant % 2 ? MOE_BF16 : MOE_FP8;
        o.num_sms = variant < 2 ? 16 : 1;
        run_both(&o, &routing, false);
        o.family = MOE_NCCL_HT;
        run_both(&o, &routing, false);
        o.expand = true;
        o.expert_alignment = 4;
        run_both(&o, &routing, false);
    }
}

TEST("NCCL EP's low latency, 8 ranks")
{
    for (uint32_t variant = 0; variant < 6; variant++) {
        g_auto(routing) routing = sampled(SAMPLE, variant % 3, 8, 48);
        struct moe_options o = ll_options(&routing, 8u >> variant / 2);
        o.family = MOE_NCCL_LL;
        o.expand = variant % 2;
        o.dtype = variant % 3 ? MOE_BF16 : MOE_FP8;
        o.hook = variant == 1 || variant == 2;
        run_both(&o, &routing, false);
    }
}

TEST("MegaMoE, 8 ranks")
{
    for (uint32_t variant = 0; variant < 2; variant++) {
        g_auto(routing) routing = sampled(SAMPLE, variant, 8, 48);
        struct moe_options o = normal_options(&routing, 8);
        o.family = MOE_MEGA;
        o.intermediate = 256;
        o.ue8m0 = o.round_scale = variant;
        run_both(&o, &routing, false);
    }
}
