/* test_moe_internode.c - do the internode kernels deliver and sum every token, whatever the order of events?
 *
 * Aim and method: see support_moe.h.  Chunk sizes are drawn, too. */
#include "tests/support_plant.h"
#include "tests/unit.h"

/* Draws rings between the smallest valid ones and somewhat larger ones. */
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
    static const uint32_t shape[][2] = { { 2, 2 }, { 2, 4 }, { 4, 2 }, { 4, 4 }, { 2, 8 }, { 3, 2 }, { 8, 2 } };
    struct moe_options o = moe_options_in_nodes(MOE_NORMAL, shape, sizeof shape / sizeof shape[0], rng);
    o.num_sms = 2 * (1 + (uint32_t)rng_below(rng, 3));
    chunks_draw(&o.dispatch, 1, 1, 1, rng);
    o.uccl = rng_below(rng, 3) == 0;
    o.host_words = rng_below(rng, 3) == 0;
    static const uint32_t versions[] = { 0, 0, 20250225, 20250601, 20250701 };
    o.deepep = versions[rng_below(rng, sizeof versions / sizeof versions[0])];
    const uint32_t nodes = o.ranks / o.ranks_per_node, warps = (o.uccl || o.deepep ? 16 : 24) / nodes;
    chunks_draw(&o.combine, nodes, warps, nodes * warps - o.ranks_per_node, rng);
    return o;
}

TEST("random groups") { moe_test_random_groups(options_draw, 400); }
TEST("sizes only takes the same steps") { moe_test_sizes_only(options_draw, 30); }
TEST("routings in turns") { moe_test_routings_in_turns(options_draw, 60); }

/* The bytes on the wire are those of PROTOCOLS.md: padded slots, one copy for each node, ranges and counts. */
TEST("bytes on the wire")
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
            g_autoptr(moe_group) group = moe_group_run_sizes(&o, DRAW_UNIFORM);
            const struct moe_copies copies = moe_routing_copies(&group->routing, &o);
            const uint64_t dispatch = fp8 ? (cached ? 7408 : 7472) : (cached ? 14352 : 14416);
            const uint64_t combine = cached ? 14352 : 14384;
            const uint64_t counts = cached ? 0 : 16 * (8 + 128 + 1) * 4, ranges = 16 * 2 * 72;
            const uint64_t slots = dispatch + combine;
            CU_ASSERT_EQUAL(loop_counts(group->loop)->put_bytes, copies.abroad * slots + counts + ranges);
            const uint64_t counts_nvl = cached ? 0 : 16 * 7 * (2 + 16) * 4;
            CU_ASSERT_EQUAL(loop_counts(group->loop)->store_bytes, copies.to_ranks * slots + counts_nvl);
            struct kernel_traffic traffic, sum = { 0 };
            for (uint32_t r = 0; r < 16; r++) {
                kernel_rank_traffic(group->rank[r], cached ? 1 : 2, &traffic);
                sum.logical_rdma_bytes += traffic.logical_rdma_bytes;
                sum.logical_nvl_bytes += traffic.logical_nvl_bytes;
            }
            CU_ASSERT_EQUAL(sum.logical_rdma_bytes, copies.to_nodes * (fp8 ? 7392 : 14336));
            CU_ASSERT_EQUAL(sum.logical_nvl_bytes, copies.to_ranks * (fp8 ? 7392 : 14336));
        }
}

/* ---- a fabric that watches whether the posted operations of a rank have arrived when notify signals ---- */

enum { WATCHED_RANKS = 16, WATCHED_QUEUES = 64 };

/* What each rank has posted on each QP since its last flush of that QP returned 0. */
static struct quiet_watch {
    const struct fabric_ops *below;
    struct fabric_ops ops;
    bool notifies[WATCHED_RANKS];  /* whether the rank's current kernel is a notify */
    bool signalled[WATCHED_RANKS]; /* whether that kernel has signalled */
    bool put[WATCHED_RANKS][WATCHED_RANKS][WATCHED_QUEUES], any[WATCHED_RANKS][WATCHED_RANKS][WATCHED_QUEUES];
    uint32_t early, late; /* how often notify signalled too soon; early: with its first signal; late: with any signal
                           * before its counts had arrived */
    uint32_t seen;
} quiet;

static int quiet_put(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                     const struct fabric_signal *signal)
{
    const int rc = quiet.below->put(f, w, write, signal);
    if (!rc) quiet.put[f->rank][write->peer][write->queue] = quiet.any[f->rank][write->peer][write->queue] = true;
    return rc;
}

static int quiet_signal(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    const int rc = quiet.below->signal(f, w, signal);
    if (rc) return rc;
    if (quiet.notifies[f->rank]) {
        bool put = false, any = false;
        for (uint32_t peer = 0; peer < f->rank_count; peer++)
            for (uint32_t q = 0; q < f->queue_count; q++) {
                put |= quiet.put[f->rank][peer][q];
                any |= quiet.any[f->rank][peer][q];
            }
        quiet.early += !quiet.signalled[f->rank] && any;
        quiet.late += put;
        quiet.signalled[f->rank] = true;
        quiet.seen++;
    }
    if (fabric_path(f, signal->peer) == FABRIC_RDMA) quiet.any[f->rank][signal->peer][signal->queue] = true;
    return 0;
}

static int quiet_flush(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    const int rc = quiet.below->flush(f, w, peer, queue);
    if (!rc) quiet.put[f->rank][peer][queue] = quiet.any[f->rank][peer][queue] = false;
    return rc;
}

static struct kernel_launch *quiet_next(void *context, uint32_t rank)
{
    struct moe_group *group = context;
    if (group->launched[rank] == group->until) return NULL;
    const uint32_t phase = group->launched[rank]++ % kernel_phase_count(&group->job.job);
    quiet.notifies[rank] = strstr(kernel_phase_name(&group->job.job, phase), "notify") != NULL;
    quiet.signalled[rank] = false;
    return kernel_rank_launch(group->rank[rank], phase);
}

/* A rank's notify may signal other ranks only after everything that the rank has posted has arrived.  It may signal
 * them again only after the counts that it sends have arrived.  Otherwise the next kernel might zero words and fill
 * buffers too early. */
TEST("notify is quiet")
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct rng rng = rng_seeded(seed);
        struct moe_options o = options_draw(&rng);
        if (o.ranks > WATCHED_RANKS) continue;
        struct routing routing;
        moe_routing_draw(&routing, &o, DRAW_UNIFORM, false, o.weights, &rng);
        const struct loop_options loop = { .seed = seed, .deliver_percent = 20, .refuse_percent = 5 };
        g_autoptr(moe_group) group = moe_group_new(&o, &routing, &loop);
        quiet = (struct quiet_watch){ .below = loop_fabric(group->loop, 0)->ops };
        quiet.ops = *quiet.below;
        quiet.ops.put = quiet_put;
        quiet.ops.signal = quiet_signal;
        quiet.ops.flush = quiet_flush;
        for (uint32_t r = 0; r < o.ranks; r++) loop_fabric(group->loop, r)->ops = &quiet.ops;
        CU_ASSERT_FATAL(loop_fabric(group->loop, 0)->queue_count <= WATCHED_QUEUES);
        group->until = 2 * kernel_phase_count(&group->job.job);
        CU_ASSERT_TRUE(loop_run(group->loop, quiet_next, group, false));
        CU_ASSERT(quiet.seen > 0);
        CU_ASSERT_EQUAL(quiet.early, 0);
        CU_ASSERT_EQUAL(quiet.late, 0);
    }
}

TEST("refusals")
{
    const struct moe_options fine = moe_options_small(MOE_NORMAL, 16, 8);
    moe_test_refused(&fine, NULL);
    MOE_REFUSED("num-ranks: expected 2, 3, 4, 6, 8, 12, 16, 18 or 20 nodes of 8 ranks, for which DeepEP has "
                "normal kernels (v2: up to 32 nodes), found 5",
                o.ranks = 40, o.experts = 80);
    MOE_REFUSED("ranks-per-node: the kernels for several nodes take 2, 4 or 8, found 1", o.ranks_per_node = 1);
    MOE_REFUSED("dispatch rdma-buffer: expected a multiple of rdma-chunk 20, found 130", o.dispatch.rdma_recv = 130);
    MOE_REFUSED("combine rdma-buffer: expected at least twice", o.combine.rdma_recv = o.combine.rdma_send);
    MOE_REFUSED("combine nvl-buffer: expected a multiple of the number of nodes 2, found 287",
                o.combine.nvl_recv = 287);
    MOE_REFUSED("combine nvl-buffer: expected more than 12 slots for each of 2 nodes, found 12",
                o.combine.nvl_recv = 24);
    MOE_REFUSED("combine nvl-buffer: expected nvl-chunk 4 and 12 more slots for each of 2 nodes, found 15",
                o.combine.nvl_recv = 30);
    MOE_REFUSED("combine rdma-chunk: expected at least 12", o.combine.rdma_send = 8, o.combine.rdma_recv = 128);
    MOE_REFUSED("combine rdma-buffer: expected at least two chunks of 12 and 14 more, found 24",
                o.combine.rdma_recv = 24);
}

static const struct plant_family family = {
    .kernels = MOE_NORMAL,
    .ranks_per_node = 2,
    .worst_tokens = true,
    .row_check = 4,
    .cached_check = 8,
    .sum_check = 9,
    .hang = "rank 0 worker 0: notify waits for rank 2 in",
};

void unit_tests(CU_pSuite suite) { plant_tests_add(suite, &family); }
