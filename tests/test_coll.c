/* test_coll.c - all-to-allv, all-gather and point-to-point.  They must leave the right bytes in the adversarial world,
 * in the simulated one and in a live one.  What they cannot do must be refused.  Simple loads must take the time that
 * arithmetic says.
 *
 * Method: jobs of many shapes, drawn from seeds; lists of messages, some of them empty, repeated, or from a rank to
 * itself. */
#include <stdio.h>
#include <string.h>
#include "models/coll/coll.h"
#include "models/coll/nccl_plan.h"
#include "sim/rng.h"
#include "sim/units.h"
#include "tests/support_job.h"
#include "tests/support_sim.h"
#include "traces/edges_make.h"
#include "tests/unit.h"

/* Draws messages from any source to any target.  Some pairs have several messages, and some messages have no bytes. */
static void edges_draw(struct edges *e, uint32_t ranks, uint32_t most_bytes, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    edges_alloc(e, ranks, ranks * 2 * ranks);
    uint32_t count = 0;
    for (uint32_t s = 0; s < ranks; s++) {
        const uint32_t messages = (uint32_t)rng_below(&rng, 2 * ranks);
        for (uint32_t i = 0; i < messages; i++) {
            e->target[count] = (uint16_t)rng_below(&rng, ranks);
            e->size_bytes[count++] = rng_below(&rng, 5) ? (uint32_t)rng_below(&rng, most_bytes) : 0;
        }
        e->first[s + 1] = count;
    }
    edges_finish(e);
}

/* Draws one message for each pair, of up to most_bytes. */
static void edges_pairs(struct edges *e, uint32_t ranks, uint32_t most_bytes, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    edges_alloc(e, ranks, ranks * (ranks - 1));
    for (uint32_t s = 0, i = 0; s < ranks; s++) {
        e->first[s + 1] = (s + 1) * (ranks - 1);
        for (uint32_t t = 0; t < ranks; t++) {
            if (t == s) continue;
            e->target[i] = (uint16_t)t;
            e->size_bytes[i++] = (uint32_t)rng_below(&rng, most_bytes + 1);
        }
    }
    edges_finish(e);
}

static struct coll_options options_of(enum coll_kernel kernel, uint32_t ranks, uint32_t ranks_per_node)
{
    return (struct coll_options){ .kernel = kernel,
                                  .ranks = ranks,
                                  .ranks_per_node = ranks_per_node,
                                  .num_sms = 3,
                                  .in_flight = 4,
                                  .nccl = { .found = 2, .channels = 3, .bus_bps = UINT64_C(2880000000000) },
                                  .size_bytes = 5000,
                                  .messages = 9 };
}

static const uint32_t shape[][2] = { { 4, 4 }, { 4, 2 }, { 4, 1 }, { 8, 4 }, { 6, 2 }, { 2, 1 } };
enum { SHAPES = sizeof shape / sizeof shape[0] };

static struct coll_job job_make(const struct coll_options *o, const struct edges *edges)
{
    struct coll_job job;
    char text[256] = "";
    CU_ASSERT_PTR_NULL(coll_options_refuse(o, edges, text, sizeof text));
    if (text[0]) puts(text);
    coll_job_init(&job, o, edges);
    return job;
}

/* Runs the job in the simulated and in a live world.  Then runs it in the adversarial world, in `seeds` orders of
 * steps. */
static void job_check(const struct coll_options *o, const struct edges *edges, bool nvlink_disabled, uint64_t seeds)
{
    const struct coll_job job = job_make(o, edges);
    job_two_worlds(&job.job, 2, nvlink_disabled);
    for (uint64_t seed = 0; seed < seeds; seed++) job_loop(&job.job, 1 + seed % 3, seed, nvlink_disabled);
}

TEST("alltoallv in all worlds")
{
    for (uint32_t i = 0; i < 2 * SHAPES; i++) {
        struct coll_options o = options_of(COLL_ALLTOALLV, shape[i % SHAPES][0], shape[i % SHAPES][1]);
        g_auto(edges) edges;
        o.in_flight = 1 + i % 5;
        if (i % 3 == 2) o.compute_ps = 5 * PS_PER_US, o.compute_sm_first = 2, o.compute_sms = 2;
        edges_draw(&edges, o.ranks, i % 2 ? 200000 : 3000, i);
        job_check(&o, &edges, i % 4 == 3, 6);
    }
}

/* The i-th options of a kernel: shapes, sizes and protocols in turns, sometimes with arithmetic beside. */
static struct coll_options options_drawn(enum coll_kernel kernel, uint32_t i, const uint64_t sizes[4])
{
    struct coll_options o = options_of(kernel, shape[i % SHAPES][0], shape[i % SHAPES][1]);
    o.size_bytes = sizes[i / 2 % 4];
    o.combine_bytes = kernel == COLL_AG_RS ? sizes[i / 3 % 4] : 0;
    o.protocol = (enum coll_protocol)(i % 4);
    o.nccl.mesh = i % 5 == 1;
    if (i % 5 == 4 && kernel != COLL_AG_RS) o.compute_ps = 3 * PS_PER_US, o.compute_sms = 4;
    return o;
}

TEST("allgather in all worlds")
{
    for (uint32_t i = 0; i < 4 * SHAPES; i++) {
        struct coll_options o = options_drawn(COLL_ALLGATHER, i, (const uint64_t[]){ 1, 64, 5000, 700000 });
        o.algorithm = (enum coll_algorithm[]){ COLL_HYBRID, COLL_RING, COLL_LEADER }[i % 3];
        if (o.algorithm == COLL_LEADER) o.issue = COLL_BY_COPY;
        job_check(&o, NULL, i % 7 == 3, 4);
    }
}

TEST("allreduce and reducescatter in all worlds")
{
    for (uint32_t i = 0; i < 4 * SHAPES; i++) {
        struct coll_options o = options_drawn(COLL_ALLREDUCE, i, (const uint64_t[]){ 1, 70, 40000, 700000 });
        o.num_sms = o.nccl.channels = 1 + i % 9;
        o.algorithm = (enum coll_algorithm[]){ COLL_CHOSEN, COLL_RING, COLL_TREE }[i % 3];
        job_check(&o, NULL, i % 7 == 3, 4);
        o = options_drawn(COLL_REDUCESCATTER, i, (const uint64_t[]){ 1, 70, 40000, 300000 });
        o.num_sms = o.nccl.channels = 1 + i % 5;
        job_check(&o, NULL, i % 7 == 3, 4);
    }
}

TEST("ag-rs and p2p in all worlds")
{
    for (uint32_t i = 0; i < 4 * SHAPES; i++) {
        struct coll_options o = options_drawn(COLL_P2P, i, (const uint64_t[]){ 1, 8, 4096, 150001 });
        job_check(&o, NULL, i % 7 == 3, 4);
        o = options_drawn(COLL_AG_RS, i, (const uint64_t[]){ 1, 5000, 90000, 70 });
        if (i < 2 * SHAPES) job_check(&o, NULL, i % 7 == 3, 4);
    }
}

/* Rows of each rank, drawn: often none, sometimes a hundred times as many as others have. */
static void rows_draw(uint32_t *rows, uint32_t ranks, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t most = (const uint32_t[]){ 1, 6, 60, 900 }[rng_below(&rng, 4)];
        rows[r] = (uint32_t)rng_below(&rng, most);
    }
    rows[rng_below(&rng, ranks)] = 1 + (uint32_t)seed;
}

/* Blocks of different sizes.  Dispatch is one kernel, or (before 2.29) a list of broadcasts as combine is one of
 * reductions.  Sizes that differ by far have different protocols in one kernel. */
TEST("blocks of different sizes in all worlds")
{
    static const enum coll_kernel kernels[] = { COLL_AG_RS, COLL_ALLGATHER, COLL_REDUCESCATTER };
    for (uint32_t i = 0; i < 6 * SHAPES; i++) {
        struct coll_options o = options_drawn(kernels[i / 2 % 3], i, (const uint64_t[]){ 1, 140, 900, 3000 });
        uint32_t rows[8];
        rows_draw(rows, o.ranks, i);
        o.rows = rows;
        o.algorithm = COLL_RING;
        if (i % 3) o.protocol = COLL_ANY;
        o.nccl.before_229 = i % 2;
        o.num_sms = o.nccl.channels = 1 + i % 5;
        job_check(&o, NULL, i % 7 == 3, 4);
    }
}

enum { WORKS_MOST = 64 };

/* Makes the works of a reduce-scatter of blocks of these bytes, of 8 ranks of a node with 24 channels.  Checks that the
 * works have each byte once, and that channels follow each other.  Returns how many works there are. */
static uint32_t works_made(const uint32_t *rows, bool before_229, struct nccl_plan *plan, uint32_t *plans,
                           struct nccl_work *work)
{
    struct coll_options o = options_of(COLL_REDUCESCATTER, 8, 8);
    o.nccl = (struct coll_nccl){ .found = 12, .channels = 24, .bus_bps = UINT64_C(2880000000000) };
    o.nccl.before_229 = before_229;
    o.rows = rows;
    o.size_bytes = 1;
    const uint32_t works = nccl_works_make(&o, plan, plans, work);
    uint64_t done[8] = { 0 };
    CU_ASSERT_FATAL(works <= o.ranks + o.nccl.channels && works <= WORKS_MOST);
    for (uint32_t i = 0; i < works; i++) {
        const uint32_t before = i ? work[i - 1].channel : 0;
        CU_ASSERT(work[i].channel == before || work[i].channel == before + 1);
        CU_ASSERT(work[i].size_bytes > 0 && work[i].begin == done[work[i].root]);
        CU_ASSERT(work[i].plan < *plans);
        done[work[i].root] += work[i].size_bytes;
    }
    CU_ASSERT_EQUAL(plan[0].channels, work[works - 1].channel + 1u);
    for (uint32_t r = 0; r < 8; r++) CU_ASSERT_EQUAL(done[r], rows[r]);
    return works;
}

TEST("works of a group of reductions")
{
    static const uint32_t even[] = { 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20 };
    static const uint32_t far[] = { 8 << 20, 100, 0, 399, 401, 8 << 20, 100, 0 };
    struct nccl_plan plan[NCCL_PLANS];
    struct nccl_work work[WORKS_MOST];
    uint32_t plans;
    /* 8 MiB by 24 channels are 11 cells of 32 KiB, rounded up; 256 cells fill 23 channels and three of the last. */
    works_made(even, false, plan, &plans, work);
    CU_ASSERT_EQUAL(plans, 1);
    CU_ASSERT_EQUAL(plan[0].channels, 24);
    CU_ASSERT_EQUAL(plan[0].protocol, COLL_SIMPLE);
    CU_ASSERT_EQUAL(work[0].size_bytes, 11 * 32768);
    CU_ASSERT_EQUAL(work[3].root, 1); /* in the channel where the first ends */
    CU_ASSERT_EQUAL(work[3].channel, 2);
    works_made(even, true, plan, &plans, work);
    CU_ASSERT_EQUAL(work[0].size_bytes, 22 * 16384);
    /* The smallest come first.  A plan has sizes of less than four times the least. */
    works_made(far, false, plan, &plans, work);
    CU_ASSERT_EQUAL(plans, 3);
    CU_ASSERT(work[0].root == 1 && work[1].root == 3 && work[2].root == 4 && work[3].root == 6);
    CU_ASSERT(work[1].plan == 0 && work[2].plan == 1 && work[4].plan == 2);
    CU_ASSERT(plan[0].protocol == COLL_LL && plan[2].protocol == COLL_SIMPLE);
}

TEST("NCCL's rings need the QPs that their channels use")
{
    static const uint32_t case_of[][4] = { /* ranks, ranks of a node, channels, QPs */
                                           { 4, 4, 9, 3 },   { 4, 2, 9, 5 }, { 4, 2, 1, 1 },
                                           { 16, 8, 24, 3 }, { 4, 1, 5, 5 }, { 4, 1, 9, 8 }
    };
    for (uint32_t i = 0; i < sizeof case_of / sizeof case_of[0]; i++) {
        struct coll_options o = options_of(COLL_ALLREDUCE, case_of[i][0], case_of[i][1]);
        struct fabric_needs needs;
        o.size_bytes = 64 << 20;
        o.protocol = COLL_SIMPLE;
        o.algorithm = COLL_RING;
        o.num_sms = o.nccl.channels = case_of[i][2];
        const struct coll_job job = job_make(&o, NULL);
        kernel_job_needs(&job.job, false, &needs);
        CU_ASSERT_EQUAL(needs.queue_count, case_of[i][3]);
    }
}

/* Small messages go by LL and large ones by Simple, in chunks and in parts.  Some have no bytes. */
TEST("messages by NCCL in all worlds")
{
    static const uint32_t most[] = { 1, 700, 30000, 700000 };
    for (uint32_t i = 0; i < 24; i++) {
        struct coll_options o = options_of(COLL_ALLTOALLV, 2 + i % 5, 8);
        g_auto(edges) edges;
        o.issue = COLL_BY_NCCL;
        o.own_part = i % 2;
        o.nccl.channels = 1 + i % 9;
        o.nccl.before_229 = i / 4 % 2;
        edges_pairs(&edges, o.ranks, most[i % 4], i);
        job_check(&o, &edges, false, 4);
    }
}

/* ---- refusals ---- */

static void expect_refused(const struct coll_options *o, const struct edges *edges, const char *what)
{
    char text[256] = "";
    const char *refusal = MADE(coll_options_refuse(o, edges, text, sizeof text));
    CU_ASSERT_PTR_NOT_NULL(strstr(refusal, what));
    if (!strstr(refusal, what)) printf("\n      %s\n", refusal);
}

TEST("what is refused")
{
    struct coll_options o = options_of(COLL_P2P, 4, 4);
    o.compute_ps = 1;
    expect_refused(&o, NULL, "compute-sms: expected at least one SM");
    o.compute_sms = 1;
    o.issue = COLL_BY_HOST;
    expect_refused(&o, NULL, "compute: expected a kernel that issues its puts, found a host's calls");
    o = options_of(COLL_ALLGATHER, 6, 4);
    expect_refused(&o, NULL, "num-ranks: expected a multiple of ranks-per-node 4, found 6");
    o = options_of(COLL_ALLGATHER, 4, 4);
    o.algorithm = COLL_HYBRID;
    o.size_bytes = 0;
    expect_refused(&o, NULL, "size: expected a block of at least 1 byte");
    o = options_of(COLL_ALLTOALLV, 4, 4);
    o.in_flight = 0;
    expect_refused(&o, NULL, "in-flight: expected at least 1");
    o = options_of(COLL_ALLGATHER, 8, 8);
    o.algorithm = COLL_LEADER;
    o.issue = COLL_BY_COPY;
    o.size_bytes = 0;
    expect_refused(&o, NULL, "size: expected a block of at least 1 byte");
    o = options_of(COLL_ALLTOALLV, 4, 4);
    g_auto(edges) edges;
    edges_draw(&edges, 5, 10, 1);
    o.in_flight = 1;
    expect_refused(&o, &edges, "matrix: expected num-ranks 4 endpoints, found 5");
}

/* ---- times ---- */

/* Returns the time of a phase's slowest rank.  A kernel takes 1 us to launch.  support_cluster's NIC moves 10 GB/s.  In
 * addition, a put takes 100 ns to post, 100 ns for the doorbell, 1 us to fetch, 1 us in the network, 1 us to deliver,
 * 100 ns to poll, and 10 ns a step. */
static double phase_us(const struct coll_options *o, const struct edges *edges, const struct cluster *cluster,
                       const char *name)
{
    const struct coll_job job = job_make(o, edges);
    struct job_sim sim;
    uint64_t time_ps = 0;
    job_sim_init(&sim, &job.job, cluster, false, false);
    for (uint32_t phase = 0; phase < kernel_phase_count(&job.job); phase++) {
        job_sim_run(&sim, phase);
        for (uint32_t r = 0; r < o->ranks; r++)
            if (strcmp(kernel_phase_name(&job.job, phase), name) == 0 && sim.time_ps[r] > time_ps)
                time_ps = sim.time_ps[r];
    }
    job_sim_clear(&sim);
    return (double)time_ps / (double)PS_PER_US;
}

/* Two ranks of one node.  The leader's host waits after its copy, after the barrier of leaders, after the gets and
 * after the copies to the other rank.  The other rank's host waits once more at the end.  That makes five waits.  Eight
 * copies follow each other: a rank's own block, the node's blocks, two to the output, two to the other rank, two by
 * that rank. */
TEST("times of a leader's all-gather")
{
    struct cluster cluster = support_cluster(2);
    struct coll_options o = options_of(COLL_ALLGATHER, 2, 2);
    o.algorithm = COLL_LEADER;
    o.issue = COLL_BY_COPY;
    o.size_bytes = 64;
    cluster.calls.copy_rate_bps = 800000000000;
    cluster.calls.copy_ps = 2 * PS_PER_US;
    const double least = phase_us(&o, NULL, &cluster, "allgather");
    cluster.calls.wait_ps = 3 * PS_PER_US;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allgather"), least + 5 * 3, 0.001);
    cluster.calls.copy_ps = 3 * PS_PER_US;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allgather"), least + 5 * 3 + 8, 0.001);
    /* Calls delay three copies: a rank's own block to the leader, and two to the other rank.  One of these waits 3 us
     * anyway. */
    cluster.calls.copy_peer_call_ps = 5 * PS_PER_US;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allgather"), least + 5 * 3 + 8 + 5 + 2 * 5 - 3, 0.1);
}

TEST("times of puts and gets")
{
    const struct cluster cluster = support_cluster(1);
    struct coll_options o = options_of(COLL_P2P, 2, 1);
    o.size_bytes = 100000; /* 10 us on the wire */
    o.messages = 1;
    /* A put takes launch, post and doorbell, fetch, network, the bytes, delivery, and the network for the
     * acknowledgement. */
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "put"), 1 + 0.2 + 1 + 1 + 10 + 1 + 1, 1.3);
    /* A get takes launch, post and doorbell, fetch and network for the question; then the peer's fetch, network, the
     * bytes and delivery for the answer. */
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "get"), 1 + 0.2 + 1 + 1 + 1 + 1 + 10 + 1, 1.3);
    /* A stream takes the time of all its bytes in turn.  The other times above count once, for the first message. */
    o.messages = o.in_flight = 64;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "put_stream"), 640 + 5.2, 6);
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "get_stream"), 640 + 6.2, 6);
}

/* A get within a node takes in proportion to its bytes, however many. */
TEST("times of long gets")
{
    const struct cluster cluster = support_cluster(2);
    struct coll_options o = options_of(COLL_P2P, 2, 2);
    o.messages = 1;
    o.size_bytes = 16 << 20;
    const double short_us = phase_us(&o, NULL, &cluster, "get");
    o.size_bytes = 256 << 20;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "get") / short_us, 16, 0.05);
}

/* Eight pieces of 512 KiB between two nodes.  Where two may be in flight, there are four bursts.  Each waits until the
 * last piece of the one before is acknowledged, 203 us later. */
TEST("bursts of an all-gather")
{
    struct cluster cluster = support_cluster(1);
    struct coll_options o = options_of(COLL_ALLGATHER, 2, 1);
    o.algorithm = COLL_HYBRID;
    o.size_bytes = 4 << 20;
    o.in_flight = 8;
    cluster.network.latency_ps = 100 * PS_PER_US;
    const double one_us = phase_us(&o, NULL, &cluster, "allgather");
    o.in_flight = 2;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allgather") - one_us, 3 * 203, 50);
}

/* Eight GPUs with a link for each pair.  Rings that all go from each rank to the next use one link of a GPU.  Eight
 * rings of a mesh use all seven, some of them twice, so they are four times as fast. */
TEST("rings in a mesh")
{
    struct cluster cluster = support_cluster(8);
    struct coll_options o = options_of(COLL_REDUCESCATTER, 8, 8);
    cluster.gpu.store_sm_rate_bps = cluster.gpu.reduce_sm_rate_bps = 800000000000;
    cluster.nvlink.over = CLUSTER_PEERS_BY_XGMI;
    o.size_bytes = 4 << 20;
    o.protocol = COLL_SIMPLE;
    o.num_sms = o.nccl.channels = 8;
    const double next_us = phase_us(&o, NULL, &cluster, "reducescatter");
    o.nccl.mesh = true;
    CU_ASSERT_DOUBLE_EQUAL(next_us / phase_us(&o, NULL, &cluster, "reducescatter"), 4, 0.4);
}

/* Each of seven workers begins with another peer, so a GPU sends by all its links: 29.4 MB at 100 GB/s. */
TEST("the hybrid all-gather in a mesh")
{
    struct cluster cluster = support_cluster(8);
    struct coll_options o = options_of(COLL_ALLGATHER, 8, 8);
    cluster.gpu.store_sm_rate_bps = 800000000000;
    cluster.nvlink.over = CLUSTER_PEERS_BY_XGMI;
    o.algorithm = COLL_HYBRID;
    o.size_bytes = 4 << 20;
    o.num_sms = 7;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allgather"), 294, 40);
}

/* MPI's peer answers each window of messages.  The next window is sent after the answer, which travels like a signal
 * and not like an acknowledgement. */
TEST("windows of MPI")
{
    const struct cluster cluster = support_cluster(1);
    struct coll_options o = options_of(COLL_P2P, 2, 1);
    o.size_bytes = 1000;
    o.messages = o.in_flight = 64;
    const double puts_us = phase_us(&o, NULL, &cluster, "put_stream");
    const struct coll_job puts = job_make(&o, NULL);
    CU_ASSERT_EQUAL(kernel_called(&puts.job, 1), KERNEL_BARE);
    o.process = true;
    const double one_us = phase_us(&o, NULL, &cluster, "put_stream");
    const struct coll_job one = job_make(&o, NULL);
    CU_ASSERT_EQUAL(kernel_called(&one.job, 1), KERNEL_PROCESS);
    o.in_flight = 16;
    CU_ASSERT_DOUBLE_EQUAL(one_us - puts_us, 0.2 + 1 + 1 + 1 - 1, 1);
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "put_stream") - one_us, 3 * 2 * (1 + 1 + 1 + 0.2), 3);
}

/* NCCL's sockets send a message of 4 B before each message.  The queue pair sends that message first. */
TEST("sockets and flags")
{
    struct cluster cluster = support_cluster(1);
    struct coll_options o = options_of(COLL_ALLREDUCE, 2, 1);
    o.algorithm = COLL_TREE;
    o.protocol = COLL_LL;
    o.size_bytes = 1000;
    const double plain_us = phase_us(&o, NULL, &cluster, "allreduce");
    o.sockets = true;
    const double more_us = phase_us(&o, NULL, &cluster, "allreduce") - plain_us;
    CU_ASSERT_DOUBLE_EQUAL(more_us, 2 * 0.2, 0.2); /* a post and a doorbell, once up the tree and once down */
    /* With LL's flags a message has 2000 B.  If ask_bytes is less, the message is asked for.  Its announcement takes 1
     * us and the question 1 us, once up the tree and once down. */
    o.sockets = false;
    cluster.nic.ask_bytes = 2100;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allreduce"), plain_us, 0.001);
    cluster.nic.ask_bytes = 1900;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allreduce") - plain_us, 2 * 2, 0.5);
}

/* Arithmetic on an SM that also stores takes time from the stores.  On another SM it takes none. */
TEST("arithmetic beside")
{
    const struct cluster cluster = support_cluster(4);
    struct coll_options o = options_of(COLL_ALLGATHER, 4, 4);
    o.size_bytes = 3 << 20;
    o.compute_ps = 500 * PS_PER_US;
    o.compute_sm_first = 8;
    o.compute_sms = 2;
    const double alone = phase_us(&o, NULL, &cluster, "allgather");
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "compute"), 501, 0.1); /* launch 1 us + arithmetic 500 us */
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allgather_overlap"), alone > 501 ? alone : 501, 2);
    o.compute_sm_first = 0;
    CU_ASSERT_DOUBLE_EQUAL(phase_us(&o, NULL, &cluster, "allgather_overlap"), alone + 500, 10);
}

/* Each endpoint has one port of 50 GB/s, and the latency between any two is 1 us.  The time must not be below the
 * bound, which is the time of the busiest receiver.  Above the bound it may be by 2 % and one latency. */
TEST("bounds of all-to-allv")
{
    static const struct {
        const char *spec;
        uint32_t ranks;
        double bound_us;
    } loads[] = {
        { "uniform:65536", 64, 82.57536 },  { "uniform:65536", 256, 334.2336 }, { "uniform:65536", 1024, 1340.86656 },
        { "lognormal:65536:0.35", 64, 0 },  { "lognormal:65536:0.6", 256, 0 },  { "lognormal:7168:2", 64, 0 },
        { "lognormal:65536:0.7", 1024, 0 },
    };
    GError *error = NULL;
    g_autoptr(cluster) cluster = MADE(cluster_load("tests/peers/port.ini", &error));
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        g_auto(edges) edges;
        uint64_t most = 0;
        CU_ASSERT_TRUE_FATAL(edges_make(loads[i].spec, loads[i].ranks, 7168, 3, &edges, NULL));
        for (uint32_t r = 0; r < edges.ranks; r++) most = MAX(most, edges.received_bytes[r]);
        const double bound_us = (double)most / 50e3;
        if (loads[i].bound_us > 0) CU_ASSERT_DOUBLE_EQUAL(bound_us, loads[i].bound_us, 1e-6);
        struct coll_options o = options_of(COLL_ALLTOALLV, loads[i].ranks, 1);
        o.in_flight = 64;
        const double took_us = phase_us(&o, &edges, cluster, "alltoallv");
        if (took_us > 1.02 * bound_us + 1) printf("\n      %s: %g us, bound %g\n", loads[i].spec, took_us, bound_us);
        CU_ASSERT(took_us >= bound_us && took_us <= 1.02 * bound_us + 1);
    }
}
