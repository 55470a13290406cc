/* test_egress.c - a GPU's links, which its CPCs (groups of SMs) share evenly.  Tests the shares alone, then the choice
 * of SMs for a kernel's blocks, then bulk stores in a simulated world. */
#include "models/hardware/machine/egress.h"
#include "models/hardware/world/world.h"
#include "sim/rng.h"
#include "sim/units.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

#include <string.h>

/* ---- shares ---- */

/* Returns the time at which the bytes up to the mark have left, if no more bytes are asked for. */
static uint64_t out_ps(struct egress *e, uint32_t cpc, uint64_t mark, uint64_t now_ps)
{
    for (uint64_t again_ps; (again_ps = egress_look(e, cpc, mark, now_ps)); now_ps = again_ps)
        CU_ASSERT_FATAL(again_ps > now_ps);
    return now_ps;
}

static bool near(uint64_t a_ps, uint64_t b_ps) { return a_ps <= b_ps + 20 && b_ps <= a_ps + 20; }
#define NEAR(a, b) CU_ASSERT(near(a, b))

TEST("shares")
{
    struct egress e = { .cpcs = 3 };
    const uint64_t lone = egress_ask(&e, 1, 500, 1000);
    NEAR(out_ps(&e, 1, lone, 500), 1500); /* a CPC alone gets all of the links */
    const uint64_t little = egress_ask(&e, 0, 10000, 1000), much = egress_ask(&e, 2, 10000, 3000);
    NEAR(out_ps(&e, 0, little, 10000), 12000); /* two CPCs get half of the links each */
    NEAR(out_ps(&e, 2, much, 12000), 14000);   /* after that, this CPC gets all of the links */
    const uint64_t first = egress_ask(&e, 0, 20000, 1000), second = egress_ask(&e, 0, 20000, 1000);
    const uint64_t other = egress_ask(&e, 1, 20000, 1000);
    NEAR(out_ps(&e, 0, first, 20000), 22000); /* two requests of one CPC and one of another: each CPC gets half */
    NEAR(out_ps(&e, 1, other, 22000), 22000);
    NEAR(out_ps(&e, 0, second, 22000), 23000);
    CU_ASSERT_EQUAL(egress_look(&e, 2, much, 30000), 0);
}

/* Whatever is asked for at any time, the links are never idle while bytes are left, and never exceed their rate. */
TEST("shares keep the links busy")
{
    struct rng rng = rng_seeded(7);
    for (uint32_t run = 0; run < 50; run++) {
        struct egress e = { .cpcs = 1 + (uint32_t)rng_below(&rng, CLUSTER_CPCS_MAX) };
        uint64_t now_ps = 0, idle_ps = 0, mark[CLUSTER_CPCS_MAX] = { 0 };
        for (uint32_t i = 0; i < 300; i++) {
            now_ps += rng_below(&rng, 4000);
            const uint32_t cpc = (uint32_t)rng_below(&rng, e.cpcs);
            const uint64_t link_ps = 1 + rng_below(&rng, 5000);
            mark[cpc] = egress_ask(&e, cpc, now_ps, link_ps);
            idle_ps = (idle_ps > now_ps ? idle_ps : now_ps) + link_ps;
        }
        uint64_t last_ps = now_ps;
        for (uint32_t c = 0; c < e.cpcs; c++) last_ps = out_ps(&e, c, mark[c], last_ps);
        CU_ASSERT(last_ps >= idle_ps && last_ps <= idle_ps + 300 * (uint64_t)CLUSTER_CPCS_MAX);
    }
}

TEST("places")
{
    struct cluster_dies dies;
    uint8_t at[12];
    CU_ASSERT_TRUE_FATAL(cluster_parse_cpcs("2 0-1 | 1 2", &dies));
    const struct cluster_cpcs *cpcs = cluster_cpcs_of(&dies, 3);
    CU_ASSERT(dies.kinds == 1 && cpcs->pairs == 5 && cpcs->cpcs == 3);
    egress_place(cpcs, 12, true, at);
    CU_ASSERT_EQUAL(memcmp(at, ((const uint8_t[]){ 2, 2, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2 }), 12), 0);
    egress_place(cpcs, 12, false, at);
    CU_ASSERT_EQUAL(memcmp(at, ((const uint8_t[]){ 2, 0, 1, 2, 0, 1, 1, 2, 1, 2, 2, 0 }), 12), 0);
}

/* ---- a world ---- */

enum { ROWS = 20, ROW_BYTES = 1000, WARPS = 4, SMS = 3 };

/* A warp that brings rows into shared memory and stores each row to a rank, as often as `times` says.  Before that, it
 * reads an array by this many loads. */
struct sender {
    struct fabric_worker worker;
    uint16_t peer;
    uint32_t rows, times, loads;
    bool staged;
    uint64_t end_ps;
};

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct sender *s = fabric_container_of(w, struct sender, worker);
    if (s->loads) {
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .rows = 1, .site = SITE_INTER_COUNTS_SUM });
        s->loads--;
        return WORKER_MORE;
    }
    if (!s->staged && !s->rows) {
        s->end_ps = fabric_now_ps(w->fabric);
        return WORKER_DONE;
    }
    if (!s->staged)
        fabric_work(
            w, &(struct fabric_work){
                   .kind = FABRIC_WORK_COPY, .rows = 1, .read_bytes = ROW_BYTES, .site = SITE_V2_ROW_STAGE_ALONE });
    for (uint32_t i = 0; s->staged && i < s->times; i++)
        (void)!fabric_store(
            w, &(struct fabric_write){ .charge_bytes = ROW_BYTES, .peer = s->peer, .site = SITE_V2_STORE_ALONE });
    s->rows -= s->staged;
    s->staged = !s->staged;
    return WORKER_MORE;
}

static void sender_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    (void)w;
    snprintf(text, text_size, "waits for nothing");
}

static const struct worker_role sender_role = { .step = sender_step, .describe = sender_describe };

/* Runs workers of rank 0 of two. */
static void rank_run(const struct cluster *cluster, struct sender *sender, uint32_t count)
{
    const struct world_options options = { .ranks = 2, .ranks_per_node = 2, .needs = { .word_count = 1 } };
    g_autoptr(world) world = world_new(cluster, &options);
    struct fabric_worker *worker[SMS * WARPS], **by_rank[2] = { worker, worker };
    const uint32_t counts[2] = { count, 0 };
    struct world_result result[2];
    char text[200];
    for (uint32_t i = 0; i < count; i++) {
        const uint16_t sm = sender[i].worker.sm;
        sender[i].worker = fabric_worker_of(world_fabric(world, 0), &sender_role);
        sender[i].worker.index = i;
        sender[i].worker.sm = sm;
        worker[i] = &sender[i].worker;
    }
    CU_ASSERT_TRUE_FATAL(world_run(world, by_rank, counts, result, text, sizeof text));
}

static double end_us(const struct sender *sender) { return (double)sender->end_ps / (double)PS_PER_US; }

/* Three SMs of rank 0, two of them in one CPC, store to the ranks peer[].  us[] gets the time of each SM in
 * microseconds. */
static void senders_run(const struct cluster *cluster, const uint16_t *peer, double *us)
{
    struct sender sender[SMS * WARPS];
    for (uint32_t i = 0; i < SMS * WARPS; i++)
        sender[i] =
            (struct sender){ .worker.sm = (uint16_t)(i % SMS), .peer = peer[i / SMS], .rows = ROWS, .times = 1 };
    rank_run(cluster, sender, SMS * WARPS);
    for (uint32_t i = 0; i < SMS; i++) us[i] = 0;
    for (uint32_t i = 0; i < SMS * WARPS; i++)
        if (end_us(&sender[i]) > us[i % SMS]) us[i % SMS] = end_us(&sender[i]);
}

static struct cluster shared_cluster(void)
{
    struct cluster c = support_cluster(2);
    c.gpu.engine = (struct cluster_bulk){
        .in_rate_bps = 800000000000, .out_rate_bps = 32000000000, .put_rate_bps = 32000000000, .ahead_bytes = 6500
    };
    c.nvlink.bulk_rate_bps = 8000000000; /* 1 GB/s, so a row takes 1 us */
    c.nvlink.latency_ps = 10 * PS_PER_NS;
    CU_ASSERT_TRUE_FATAL(cluster_parse_cpcs("0 0 1", &c.gpu.cpcs));
    return c;
}

#define WITHIN(us, expected) CU_ASSERT((us) > 0.97 * (expected) && (us) < 1.05 * (expected))

TEST("crowded CPCs end late")
{
    const uint16_t peer[WARPS] = { 1, 1, 1, 1 };
    const double rows_us = WARPS * ROWS; /* the rows of one SM take this time in us if they get all of the links */
    struct cluster c = shared_cluster();
    double us[SMS];
    senders_run(&c, peer, us);
    WITHIN(us[2], 2 * rows_us); /* SM 2's CPC has half of the links */
    WITHIN(us[0], 3 * rows_us);
    WITHIN(us[1], 3 * rows_us);
    CU_ASSERT_TRUE_FATAL(cluster_parse_cpcs("0 1 2", &c.gpu.cpcs));
    senders_run(&c, peer, us);
    for (uint32_t i = 0; i < SMS; i++) WITHIN(us[i], 3 * rows_us);
    c.nvlink.bulk_rate_bps = 20 * c.nvlink.bulk_rate_bps; /* more than the engines bring, so a row takes 0.25 us */
    senders_run(&c, peer, us);
    for (uint32_t i = 0; i < SMS; i++) WITHIN(us[i], rows_us / 4);
}

/* Half of the warps store to their own GPU.  Their rows are queued between rows that wait for the links. */
TEST("own stores wait behind others")
{
    const uint16_t peer[WARPS] = { 0, 1, 0, 1 };
    struct cluster c = shared_cluster();
    double us[SMS];
    senders_run(&c, peer, us);
    WITHIN(us[2], WARPS / 2 * ROWS * (2 + 0.25)); /* a row to the peer takes 2 us by half of the links, and a row to its
                                                   * own GPU 0.25 us */
}

/* Two warps of an SM have a row for the peer twice, a third one loads a row. */
TEST("warps take turns, and loads wait for stores")
{
    struct cluster c = shared_cluster();
    struct sender sender[] = { { .peer = 1, .rows = 1, .times = 2, .staged = true },
                               { .peer = 1, .rows = 1, .times = 2, .staged = true },
                               { .peer = 1, .rows = 1 } };
    rank_run(&c, sender, 3);
    WITHIN(end_us(&sender[0]), 3);
    WITHIN(end_us(&sender[1]), 4);
    WITHIN(end_us(&sender[2]), 2);
}

/* One warp of each SM reads while another one has ten rows for a rank.  A load waits for 6.5 KB of its SM's stores to
 * the peer, and for no store of another SM or to its own GPU.  The first load begins before the stores do. */
TEST("loads wait behind stores of their SM")
{
    struct cluster c = shared_cluster();
    struct sender sender[] = { { .peer = 1, .rows = 1, .times = 10, .staged = true },
                               { .peer = 0, .rows = 1, .times = 10, .staged = true, .worker.sm = 2 },
                               { .loads = 2 },
                               { .loads = 3 },
                               { .loads = 3, .worker.sm = 1 },
                               { .loads = 3, .worker.sm = 2 } };
    rank_run(&c, sender, 6);
    WITHIN(end_us(&sender[0]), 10);
    WITHIN(end_us(&sender[2]), 6.5);
    WITHIN(end_us(&sender[3]), 10);
    CU_ASSERT(end_us(&sender[4]) < 0.1 && end_us(&sender[5]) < 0.1);
}
