/* test_world.c - does the simulated hardware take as long as its parameters say?
 *
 * Aim: models/hardware.  Method: small workers play a script of operations on the cluster of support_sim.h.  Its
 * numbers are round, so every expected time is added up by hand next to the check.  These sums are in ns.  On GPUs a
 * kernel's time begins with a launch of 1000, on hosts without one.  Then come a step of 10 and what the script does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/backends.h"
#include "models/hardware/world/world.h"
#include "models/kernels/loops.h"
#include "sim/timeline.h"
#include "sim/units.h"
#include "tests/support_catch.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

enum { WORKERS_MAX = 64, OPERATIONS_MAX = 8, RANKS_MAX = 8, WORDS = 16 };
enum verb { END, REST, STORE, PUT, PUT_SIGNAL, SIGNAL, ADD, TOUCH, WAIT, FLUSH, COPY, SUM, CAST, LOOK };

struct operation {
    enum verb verb;
    uint16_t peer, queue;
    uint32_t word; /* SIGNAL, ADD: raised to 1; TOUCH: left unchanged; WAIT: until it is at least 1 */
    uint64_t size_bytes;
    uint8_t warps, rows;
    const char *loop; /* as in a sheet; not for TOUCH; NULL: loop_of() */
    uint8_t places;   /* COPY: number of targets */
    bool defer;       /* for PUT */
    uint8_t first;    /* for STORE: the first warp */
};

/* A worker that does its operations in one step, as long as none makes it wait.  A REST ends the step. */
struct player {
    struct fabric_worker worker;
    struct stage *stage;
    const uint8_t *source; /* PUT: the bytes to send, or NULL for sizes only */
    uint16_t rank;
    uint32_t at, steps;
    struct operation operation[OPERATIONS_MAX];
};

struct stage {
    struct cluster cluster;
    struct world_options options;
    uint32_t player_count;
    struct player player[WORKERS_MAX];
    bool counts;             /* WAIT: the worker watches for the value 1 instead of any change */
    const char *loop[SITES]; /* the loop of each site */
    struct world_result result[RANKS_MAX];
    char text[200];
    const uint8_t *watched; /* LOOK reads this byte at alarm_ps[] and stores it in looked[] */
    uint64_t alarm_ps[OPERATIONS_MAX];
    uint8_t looked[OPERATIONS_MAX];
};

/* Waits until the operation's time, then notes the byte.  Returns false while it waits. */
static bool byte_look(struct player *p)
{
    struct stage *s = p->stage;
    fabric_wake_at(&p->worker, s->alarm_ps[p->at]);
    if (fabric_now_ps(p->worker.fabric) < s->alarm_ps[p->at]) return false;
    s->looked[p->at] = *s->watched;
    return true;
}

/* The operation's loop.  A row takes 100 ns and 1 ns a byte by default. */
static const char *loop_of(const struct operation *o)
{
    const bool rows = o->verb == STORE || o->verb == COPY || o->verb == CAST;
    return o->loop || !rows ? o->loop : "{ store bytes, chain (bytes + 100) / 4 }";
}

/* Returns the site that has the operation's loop in the stage's sheet. */
static uint8_t site_of(const struct stage *s, const struct operation *o)
{
    const char *loop = loop_of(o);
    uint8_t site = SITE_NONE;
    while (loop && (!site || !s->loop[site] || strcmp(s->loop[site], loop))) site++;
    return site;
}

static bool operation_play(struct player *p, const struct operation *o)
{
    const uint8_t site = site_of(p->stage, o);
    const struct fabric_write write = {
        .charge_bytes = o->size_bytes,
        .peer = o->peer,
        .queue = o->queue,
        .warps = o->warps,
        .rows = o->rows,
        .defer = o->defer,
        .first = o->first,
        .site = site,
        .data = p->source,
        .size_bytes = p->source ? (uint32_t)o->size_bytes : 0,
    };
    const struct fabric_signal signal = {
        .value = 1, .word = o->word, .peer = o->peer, .queue = o->queue, .warps = o->warps, .site = site
    };
    const struct fabric_work work = {
        .kind = o->verb == SUM    ? FABRIC_WORK_REDUCE
                : o->verb == CAST ? FABRIC_WORK_CAST
                                  : FABRIC_WORK_COPY,
        .warps = o->warps,
        .rows = o->rows,
        .read_bytes = o->size_bytes,
        .write_bytes = o->verb == SUM ? o->size_bytes / 2 : o->places * o->size_bytes,
        .site = site,
    };
    switch (o->verb) {
    case STORE: return fabric_store(&p->worker, &write) == 0;
    case PUT: return fabric_put(&p->worker, &write, NULL) == 0;
    case PUT_SIGNAL: return fabric_put(&p->worker, &write, &signal) == 0;
    case SIGNAL: return fabric_signal(&p->worker, &signal) == 0;
    case ADD: fabric_signal_add(&p->worker, o->word, 1, site); return true;
    case TOUCH: fabric_signal_add(&p->worker, o->word, 0, SITE_NONE); return true;
    case WAIT: return fabric_load(p->worker.fabric, o->word) >= 1;
    case FLUSH: return fabric_flush(&p->worker, o->peer, o->queue) == 0;
    case COPY:
    case SUM:
    case CAST: fabric_work(&p->worker, &work); return true;
    case LOOK: return byte_look(p);
    case END:
    case REST: break;
    }
    return false;
}

static enum worker_step player_step(struct fabric_worker *w)
{
    struct player *p = fabric_container_of(w, struct player, worker);
    p->steps++;
    if (p->at < OPERATIONS_MAX && p->operation[p->at].verb == REST) p->at++;
    for (; p->at < OPERATIONS_MAX && p->operation[p->at].verb != END; p->at++)
        if (p->operation[p->at].verb == REST) return WORKER_MORE;
        else if (!operation_play(p, &p->operation[p->at])) return WORKER_WAIT;
    return WORKER_DONE;
}

static void player_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct player *p = fabric_container_of(w, const struct player, worker);
    snprintf(text, text_size, "player %u waits for word %u", w->index, p->operation[p->at].word);
}

static const struct worker_role player_role = { .step = player_step, .describe = player_describe };

static struct stage *stage_new(uint32_t ranks, uint32_t ranks_per_node)
{
    struct stage *s = MADE(calloc(1, sizeof *s));
    s->cluster = support_cluster(ranks_per_node);
    s->options = (struct world_options){
        .ranks = ranks,
        .ranks_per_node = ranks_per_node,
        .needs = { .word_count = WORDS, .queue_count = 4 },
    };
    return s;
}

/* Replaces a stage by a new one. */
static void stage_renew(struct stage **s, uint32_t ranks, uint32_t ranks_per_node)
{
    free(*s);
    *s = stage_new(ranks, ranks_per_node);
}

/* Adds a player with `warps` warps on an SM of its own, and its operations up to the first END. */
static void stage_add(struct stage *s, uint16_t rank, uint16_t warps, const struct operation *operation, uint32_t count)
{
    CU_ASSERT_FATAL(s->player_count < WORKERS_MAX && count <= OPERATIONS_MAX);
    struct player *p = &s->player[s->player_count++];
    p->rank = rank;
    p->stage = s;
    for (uint32_t i = 0; i + 1 < s->player_count; i++) p->worker.index += s->player[i].rank == rank;
    p->worker = (struct fabric_worker){
        .index = p->worker.index,
        .sm = (uint16_t)p->worker.index,
        .warps = (uint8_t)warps,
    };
    memcpy(p->operation, operation, count * sizeof *operation);
}

#define STORES(to, ...) \
    (struct operation) { .verb = STORE, .peer = (to), .size_bytes = __VA_ARGS__ }
#define PUTS(to, ...) \
    (struct operation) { .verb = PUT, .peer = (to), .size_bytes = __VA_ARGS__ }
#define COPIES(n, ...) \
    (struct operation) { .verb = COPY, .rows = (n), .size_bytes = __VA_ARGS__ }
#define SIGNALS(to, ...) \
    (struct operation) { .verb = SIGNAL, .peer = (to), .word = __VA_ARGS__ }
#define WAITS(which) \
    (struct operation) { .verb = WAIT, .word = (which) }

#define PLAY(stage, rank, warps, ...) \
    stage_add(stage, rank, warps, (const struct operation[]){ __VA_ARGS__ }, \
              sizeof((const struct operation[]){ __VA_ARGS__ }) / sizeof(struct operation))

static bool stage_launch(struct stage *s, struct world *world)
{
    struct fabric_worker *worker[RANKS_MAX][WORKERS_MAX], **by_rank[RANKS_MAX];
    uint32_t count[RANKS_MAX] = { 0 };
    for (uint32_t r = 0; r < s->options.ranks; r++) by_rank[r] = worker[r];
    for (uint32_t i = 0; i < s->player_count; i++) {
        struct player *p = &s->player[i];
        p->at = 0;
        p->worker.fabric = world_fabric(world, p->rank);
        p->worker.role = worker_role_number(&p->worker.fabric->roles, &player_role);
        worker[p->rank][count[p->rank]++] = &p->worker;
        for (uint32_t o = 0; o < OPERATIONS_MAX; o++)
            if (p->operation[o].verb == WAIT && s->counts) fabric_watch(&p->worker, p->operation[o].word, 1, 1);
            else if (p->operation[o].verb == WAIT) fabric_watch(&p->worker, p->operation[o].word, 1, 0);
    }
    return world_run(world, by_rank, count, s->result, s->text, sizeof s->text);
}

/* Whether a line for the site may be this loop.  The loop must have the form of the site's shipped line. */
static bool site_fits(uint32_t site, const char *loop)
{
    struct loop shipped;
    loops_make(loops_shipped(), (enum site)site, NULL, &shipped);
    return shipped.program == (strchr(loop, '{') != NULL) && shipped.engine != LOOP_COPY &&
           shipped.staged == (strstr(loop, "from-shared") != NULL) &&
           shipped.to_shared == (strstr(loop, "to-shared") != NULL);
}

/* Makes a sheet with the loops of all operations, in place of the last one. */
static const struct loops *stage_loops(struct stage *s)
{
    static struct loops *loops;
    GError *error = NULL;
    g_autoptr(GString) text = g_string_new("");
    memset(s->loop, 0, sizeof s->loop);
    for (uint32_t i = 0; i < WORKERS_MAX * OPERATIONS_MAX; i++) {
        const char *loop = loop_of(&s->player[i / OPERATIONS_MAX].operation[i % OPERATIONS_MAX]);
        uint32_t site = SITE_NONE + 1;
        while (loop && (s->loop[site] ? strcmp(s->loop[site], loop) != 0 : !site_fits(site, loop))) site++;
        if (!loop || s->loop[site]) continue;
        s->loop[site] = loop;
        g_string_append_printf(text, "%s %s @ test:1\n", loops_site_name((enum site)site), loop);
    }
    if (!text->len) return loops_shipped();
    loops_free(loops);
    loops = loops_parse("sheet", text->str, text->len, &error);
    if (error) printf("\n      %s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(loops);
    return loops;
}

static struct world *stage_world(struct stage *s)
{
    s->options.loops = stage_loops(s);
    return MADE(world_new(&s->cluster, &s->options));
}

/* Runs the stage in a new world.  Does not free the stage.  Returns how many events ran. */
static uint64_t stage_run(struct stage *s)
{
    g_autoptr(world) world = stage_world(s);
    const bool ended = stage_launch(s, world);
    if (!ended) printf("\n      %s\n", s->text);
    CU_ASSERT_TRUE_FATAL(ended);
    return world_event_count(world);
}

static bool took(const struct stage *s, uint32_t rank, uint64_t time_ps)
{
    const bool as_expected = s->result[rank].time_ps == time_ps;
    if (!as_expected)
        printf("\n      rank %u took %lu ps, expected %lu\n", rank, (unsigned long)s->result[rank].time_ps,
               (unsigned long)time_ps);
    return as_expected;
}

/* Runs the stage.  Asserts that the kernel of the rank took this time. */
static void stage_takes(struct stage *s, uint32_t rank, uint64_t time_ps)
{
    stage_run(s);
    CU_ASSERT(took(s, rank, time_ps));
}

static bool about(uint64_t time_ps, uint64_t expected_ps)
{
    const bool as_expected = time_ps + 2 * PS_PER_NS > expected_ps && time_ps < expected_ps + 2 * PS_PER_NS;
    if (!as_expected) printf("\n      %lu ps, expected %lu\n", (unsigned long)time_ps, (unsigned long)expected_ps);
    return as_expected;
}

/* ---- GPUs and NVLink ---- */

/* GPUs without NVLink store over the PCIe of their node, which they share.  Four GPUs are below two PCIe roots, with
 * 0.5 GB/s from root to root. */
TEST("stores over PCIe")
{
    g_autofree struct stage *s = stage_new(4, 4);
    s->cluster.nvlink.over = CLUSTER_PEERS_BY_PCIE;
    s->cluster.node = (struct cluster_node){
        .gpus = 4, .nics = 1, .sockets = 2, .pcie_rate_bps = 32000000000, .socket_rate_bps = 4000000000
    };
    PLAY(s, 0, 1, STORES(1, 4000)); /* both GPUs are below one root, so the warp's 1 GB/s is the limit */
    stage_takes(s, 0, 5110000);     /* launch 1000 + step 10 + 4000 B at 1 GB/s + row 100 */
    s->player[0].operation[0].peer = 2;
    stage_takes(s, 0, 9000000); /* launch 1000 + 8000 from root to root, while the step passes */
    PLAY(s, 1, 1, STORES(3, 4000));
    stage_run(s); /* both stores cross the roots, one after the other */
    CU_ASSERT(took(s, 0, 9000000) && took(s, 1, 17000000));
    uint64_t seen_ps[2];
    for (uint16_t peer = 1; peer < 3; peer++) { /* a flag arrives 300 ns later across the sockets */
        stage_renew(&s, 4, 4);
        s->cluster.nvlink.over = CLUSTER_PEERS_BY_PCIE;
        s->cluster.node =
            (struct cluster_node){ .gpus = 4, .nics = 1, .sockets = 2, .socket_latency_ps = 300 * PS_PER_NS };
        PLAY(s, 0, 1, SIGNALS(peer, 1));
        PLAY(s, peer, 1, WAITS(1));
        stage_run(s);
        seen_ps[peer - 1] = s->result[peer].time_ps;
    }
    CU_ASSERT_EQUAL(seen_ps[1], seen_ps[0] + 300 * PS_PER_NS);
}

/* With xGMI, each of five GPUs has a quarter of its 100 GB/s for each other GPU. */
TEST("stores over a link for each pair")
{
    for (uint16_t peers = 1; peers < 3; peers++) {
        g_autofree struct stage *s = stage_new(5, 5);
        s->cluster.nvlink.over = CLUSTER_PEERS_BY_XGMI;
        s->cluster.nvlink.gpus = 5;
        for (int i = 0; i < 16; i++) PLAY(s, 0, 16, STORES((uint16_t)(1 + i % peers), 10000, .rows = 16));
        stage_takes(s, 0, peers == 1 ? 7400000 : 4200000); /* launch 1000 + 16 or 8 stores of 400, while the step
                                                            * passes */
        CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_EGRESS].busy_ps, 1600000);
    }
}

TEST("one store")
{
    g_autofree struct stage *s = stage_new(2, 2);
    PLAY(s, 0, 1, STORES(1, 1000));
    stage_takes(s, 0, 2110000);     /* launch 1000 + step 10 + 1000 B at 1 GB/s + row 100 */
    CU_ASSERT(took(s, 1, 1000000)); /* a launch alone */
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_SM].busy_ps, 100000);
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_HBM].busy_ps, 1000);
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_EGRESS].busy_ps, 10000);
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_EGRESS].bytes, 1000);
    CU_ASSERT_EQUAL(s->result[1].use[WORLD_NVLINK_INGRESS].busy_ps, 10000);
    CU_ASSERT_EQUAL(s->result[1].use[WORLD_NVLINK_EGRESS].bytes, 0);
    stage_renew(&s, 2, 2);
    PLAY(s, 0, 1, STORES(1, 0));
    PLAY(s, 1, 1, STORES(1, 1000));
    stage_takes(s, 0, 1110000);     /* launch 1000 + step 10 + row 100; no bytes */
    CU_ASSERT(took(s, 1, 2110000)); /* a store to the rank itself uses no link */
    CU_ASSERT_EQUAL(s->result[1].use[WORLD_NVLINK_EGRESS].bytes, 0);
}

TEST("rows and warps")
{
    g_autofree struct stage *s = stage_new(1, 1);
    PLAY(s, 0, 4, COPIES(8, 8000));
    stage_run(s);
    CU_ASSERT(about(s->result[0].time_ps,
                    3210000)); /* launch 1000 + step 10 + 8000 B on 4 warps 2000 + two rows for each warp 200 */
    stage_renew(&s, 1, 1);
    PLAY(s, 0, 4, COPIES(1, 1000, .warps = 1), COPIES(1, 1000, .warps = 1), COPIES(1, 1000, .warps = 1),
         COPIES(1, 1000, .warps = 1));
    stage_run(s);
    CU_ASSERT(about(s->result[0].time_ps, 2110000)); /* the copies run at the same time, each on a warp of its own */
    stage_renew(&s, 1, 1);
    PLAY(s, 0, 1, COPIES(1, 1000, .warps = 1), COPIES(1, 1000, .warps = 1));
    stage_run(s);
    CU_ASSERT(about(s->result[0].time_ps, 3210000)); /* on one warp, the copies run one after the other */
}

/* GB/s that one SM of an H200 was measured to move.  Rows that are read start at byte .line of a 128-byte line, and the
 * buffers in shared memory at byte .shared.  Every kind of mismatch is here (rows `bulk ... source=` and `shared=` of
 * `measure`). */
static const struct {
    uint8_t line, shared;
    double gbs;
} bulk_measured[] = {
    { 0, 0, 50.1 },   { 16, 0, 36.0 },    { 32, 0, 41.9 },  { 48, 0, 31.5 },   { 64, 0, 41.9 },  { 80, 0, 31.5 },
    { 96, 0, 41.9 },  { 112, 0, 36.0 },   { 0, 16, 25.2 },  { 16, 16, 31.3 },  { 32, 16, 25.2 }, { 48, 16, 27.9 },
    { 64, 16, 22.9 }, { 80, 16, 27.9 },   { 96, 16, 22.9 }, { 112, 16, 27.9 }, { 0, 32, 41.9 },  { 32, 32, 50.0 },
    { 0, 48, 23.0 },  { 48, 48, 31.3 },   { 0, 64, 41.9 },  { 64, 64, 50.0 },  { 0, 80, 23.0 },  { 0, 96, 41.9 },
    { 0, 112, 25.2 }, { 112, 112, 31.4 },
};

static double bulk_gbs(const char *data)
{
    enum { SIZE = 24 * 64 * 14336 };
    g_autofree struct stage *s = stage_new(1, 1);
    s->cluster.gpu.load_ps = s->cluster.gpu.load_l2_ps = s->cluster.gpu.cycle_ps = 1; /* so short that waits take no
                                                                                       * time */
    s->cluster.gpu.engine =
        (struct cluster_bulk){ .in_rate_bps = 252 * 8000000000ull,
                               .out_rate_bps = 631 * 800000000ull,
                               .passes = { { 0, 2, 1, 3, 1, 3, 1, 2 }, { 0, 3, 0, 3, 0, 3, 0, 3 } } };
    s->cluster.gpu.hbm_rate_bps = 4050 * 8000000000ull;
    char loop[120];
    snprintf(loop, sizeof loop, "{ bulk-read 0, bulk-in bytes, bulk-wait, bulk-out bytes } %s", data);
    PLAY(s, 0, 24, COPIES(24, SIZE, .loop = loop));
    stage_run(s);
    return SIZE / ((double)(s->result[0].time_ps - 1010000) * 1e-3);
}

TEST("bulk copies")
{
    double spread_s = 0; /* seconds for 8 GB, one at each of eight places of a line of shared memory */
    for (size_t i = 0; i < sizeof bulk_measured / sizeof bulk_measured[0]; i++) {
        char data[40];
        snprintf(data, sizeof data, "source-line %u, shared %u", bulk_measured[i].line, bulk_measured[i].shared);
        CU_ASSERT_DOUBLE_EQUAL(bulk_gbs(data) / bulk_measured[i].gbs, 1, 0.02);
        if (bulk_measured[i].line == 0) spread_s += 1 / bulk_measured[i].gbs;
    }
    CU_ASSERT_DOUBLE_EQUAL(bulk_gbs("spread, shared 4") * spread_s / 8, 1, 0.02);
    CU_ASSERT_DOUBLE_EQUAL(bulk_gbs("spread, shared 128") / bulk_measured[0].gbs, 1, 0.02);
}

#define STAGE_ROW \
    { \
        .verb = COPY, .rows = 1, .size_bytes = 1000, .loop = "bulk 1, to-shared" \
    }
#define STAGED_TO(rank) \
    { \
        .verb = STORE, .peer = rank, .size_bytes = 1000, .loop = "from-shared" \
    }

static void bulk_halves(struct stage *s)
{
    s->cluster.gpu.engine = (struct cluster_bulk){ .in_ps = 200 * PS_PER_NS,
                                                   .out_ps = 50 * PS_PER_NS,
                                                   .in_rate_bps = 80000000000,
                                                   .out_rate_bps = 40000000000,
                                                   .put_rate_bps = 32000000000 };
}

/* One load feeds several stores.  The engine takes 100 ns to bring 1000 B in, 200 ns to write them to its own GPU, and
 * 250 ns to bring them in and write them to a peer. */
TEST("bulk halves")
{
    g_autofree struct stage *s = stage_new(2, 2);
    bulk_halves(s);
    PLAY(s, 0, 1, STAGE_ROW);
    stage_takes(s, 0, 1210000); /* launch 1000 + step 10 + wait for the row 200 */
    stage_renew(&s, 2, 2);
    bulk_halves(s);
    PLAY(s, 0, 1, STAGE_ROW, STAGED_TO(0), STAGED_TO(1));
    PLAY(s, 1, 1, STAGE_ROW);
    stage_takes(s, 0, 1450000); /* launch 1000 + the engine's 100 + 200 + 150, while the step passes */
    CU_ASSERT(took(s, 1, 1210000));
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_EGRESS].busy_ps, 10000);
    /* The row is written at the peer 50 ns later, and the path there and back takes 2 us. */
    CU_ASSERT_EQUAL(s->result[0].let_ps, 3500000);
    stage_renew(&s, 2, 2);
    bulk_halves(s);
    PLAY(s, 0, 1, STAGE_ROW, STAGED_TO(1), STAGE_ROW);
    stage_takes(s, 0, 3500000); /* launch 1000 + the engine's 100 + 150 + 50 + 2000 until the buffer is free, + wait for
                                 * the second row 200 */
}

/* A buffer in shared memory may not begin at a 128-byte line.  Then links carry less, both out of a GPU and into the
 * peer. */
TEST("bulk sectors")
{
    g_autofree struct stage *s = stage_new(2, 2);
    bulk_halves(s);
    s->cluster.nvlink.bulk_rate_bps = 8000000000;
    s->cluster.nvlink.sector_rate_bps = 4000000000;
    PLAY(s, 0, 1, STAGE_ROW, STAGED_TO(1));
    PLAY(s, 1, 1, STAGE_ROW, STAGED_TO(0));
    s->player[1].operation[0].loop = "bulk 1, to-shared, shared 32";
    stage_takes(s, 0, 2000000);     /* launch 1000 + 1000 B at 1 GB/s, while the step passes */
    CU_ASSERT(took(s, 1, 3000000)); /* launch 1000 + 1000 B at half of that rate */
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_INGRESS].busy_ps - s->result[1].use[WORLD_NVLINK_INGRESS].busy_ps,
                    1000000); /* the ingress takes 1000 longer, too */
}

/* Rows that were just written are in the L2, as far as it can hold them. */
TEST("fresh rows")
{
    static const struct {
        const char *loop;
        uint64_t ns;
    } rows[] = {
        { "{ repeat 2 { load bytes by bytes, use } }", 400 },
        { "{ load bytes by bytes, use } fresh", 80 },
        { "{ load bytes by bytes, use } fresh, footprint 500", 80 + 60 },
        { "{ load bytes by bytes, use } fresh, footprint 1001", 200 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        g_autofree struct stage *s = stage_new(1, 1);
        s->cluster.gpu.load_ps = 200000;
        s->cluster.gpu.load_l2_ps = 80000;
        s->cluster.gpu.cycle_ps = 1;
        s->cluster.gpu.l2_bytes = 1000;
        PLAY(s, 0, 1, COPIES(1, 2000, .loop = rows[i].loop));
        stage_run(s);
        CU_ASSERT(about(s->result[0].time_ps, (1010 + rows[i].ns) * PS_PER_NS));
    }
}

/* Warps take rows in rounds.  If there are more rows than warps, a last round with fewer rows takes only its share of
 * the time of a round, unless the worker has moved rows before and is alone on its SM, and its warps do not look for
 * their rows. */
TEST("rounds of warps")
{
    static const struct {
        uint32_t rows;
        uint64_t first_ns, then_ns;
    } copies[] = {
        { 1, 200, 200 }, { 3, 200, 200 }, { 4, 200, 200 }, { 5, 250, 400 }, { 8, 400, 400 }, { 9, 450, 600 }
    };
    for (size_t i = 0; i < 3 * sizeof copies / sizeof copies[0]; i++) {
        const uint32_t rows = copies[i / 3].rows, before = i % 3;
        const struct operation copy =
            COPIES(rows, 1000 * rows,
                   .loop = before == 2 ? "{ load bytes by bytes, use } sought" : "{ load bytes by bytes, use }");
        const uint64_t first_ns = copies[i / 3].first_ns;
        g_autofree struct stage *s = stage_new(1, 1);
        s->cluster.gpu.load_ps = 200000;
        s->cluster.gpu.cycle_ps = 1;
        if (before) PLAY(s, 0, 4, copy, { .verb = REST }, copy);
        else PLAY(s, 0, 4, copy);
        stage_run(s);
        const uint64_t then_ns = before ? 10 + (before == 1 ? copies[i / 3].then_ns : first_ns) : 0;
        CU_ASSERT(about(s->result[0].time_ps, (1010 + first_ns + then_ns) * PS_PER_NS));
    }
}

/* Two rows of 1024 B are summed into one.  One warp takes for each 512 B of the sum a wait of 200, 312 instructions,
 * and 256 instructions for each row.  Loops compiled for three rows also look twice for each of the four pieces of 512
 * B, 128 instructions each.  The SM reads the rows in 2048 ns, or in 4096 ns if two workers share it.  In addition,
 * each worker waits for share^2 / (share + alone), where `share` is that time of the SM and `alone` is the time of the
 * warp. */
TEST("sums")
{
    static const struct {
        bool looks;
        uint8_t workers;
        double ns;
    } sums[] = {
        { false, 1, 2048 + 1024 },
        { true, 1, 3072 + 819.2 },
        { false, 2, 2048 + 4096.0 * 4096 / (4096 + 2048) },
        { true, 2, 3072 + 4096.0 * 4096 / (4096 + 3072) },
    };
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        g_autofree struct stage *s = stage_new(1, 1);
        s->cluster.gpu.load_ps = s->cluster.gpu.load_l2_ps = 200 * PS_PER_NS;
        s->cluster.gpu.cycle_ps = PS_PER_NS;
        s->cluster.gpu.reduce_sm_rate_bps = 8000000000;
        for (uint32_t k = 0; k < sums[i].workers; k++) {
            PLAY(s, 0, 1,
                 { .verb = SUM,
                   .rows = 1,
                   .size_bytes = 2048,
                   .loop = sums[i].looks ? "load 1, fenced, sum-stretch 312, sum-row 256 + 2 * 128"
                                         : "load 1, fenced, sum-stretch 312, sum-row 256" });
            s->player[k].worker.sm = 0;
        }
        stage_run(s);
        CU_ASSERT(about(s->result[0].time_ps, (uint64_t)((1010 + sums[i].ns) * PS_PER_NS)));
    }
}

/* Two rows are stored, each in 1250 ns by one of four warps, and each is then released.  While the first warp releases,
 * another warp begins the next row.  If the first warp itself has the next row, it waits for its release.  The next
 * release also waits for the first one. */
TEST("a release apart")
{
    static const struct {
        bool apart;
        uint8_t first; /* the warp of the second row */
        uint64_t fence_ns, ns;
    } rows[] = {
        { false, 2, 300, 1250 + 300 + 1250 + 300 }, { true, 2, 300, 1250 + 1250 + 300 },
        { true, 0, 300, 1250 + 300 + 1250 + 300 },  { true, 2, 2000, 1250 + 2000 + 2000 },
        { true, 3, 300, 1250 + 1250 + 300 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct operation release = SIGNALS(0, 3, .loop = rows[i].apart ? "apart" : NULL);
        const struct operation store =
            STORES(0, 1000, .warps = 1, .rows = 1, .first = 1, .loop = "{ load bytes by bytes, use }");
        g_autofree struct stage *s = stage_new(1, 1);
        s->cluster.gpu.load_ps = 1250 * PS_PER_NS;
        s->cluster.gpu.cycle_ps = 1;
        s->cluster.gpu.store_sm_rate_bps = UINT64_C(8000000000000000); /* so fast that sharing the SM takes no time */
        s->cluster.nvlink.fence_ps = rows[i].fence_ns * PS_PER_NS;
        struct operation second = store;
        second.first = rows[i].first;
        PLAY(s, 0, 4, store, release, second, release);
        stage_takes(s, 0, (1010 + rows[i].ns) * PS_PER_NS);
    }
}

/* Returns the time of a rank whose worker stores a row to rank 1, waits and releases.  Two other workers have stored a
 * row to `peer`, and also wait or have ended.  Without others, the release takes fence_ns. */
static uint64_t crowded_ps(uint16_t peer, bool ended, uint64_t fence_ns, uint64_t crowd_ns)
{
    const struct operation rest = { .verb = REST }, release = SIGNALS(1, 3);
    g_autofree struct stage *s = stage_new(2, 2);
    s->cluster.gpu.load_ps = 200 * PS_PER_NS;
    s->cluster.gpu.cycle_ps = 1;
    s->cluster.nvlink.fence_ps = fence_ns * PS_PER_NS;
    s->cluster.nvlink.fence_crowd_ps = crowd_ns * PS_PER_NS;
    s->cluster.nvlink.fence_crowd_half = 1;
    for (uint32_t i = 0; i < 3; i++) {
        const struct operation store = STORES(i ? peer : 1, 1000, .loop = "{ load bytes by bytes, store bytes }");
        if (i && ended) PLAY(s, 0, 1, store);
        else if (i) PLAY(s, 0, 1, store, rest, rest);
        else PLAY(s, 0, 1, store, rest, release);
    }
    stage_run(s);
    return s->result[0].time_ps;
}

/* While two other workers store to peers, a release takes a round trip (2 us) and two thirds of `fence-crowd`.  With
 * one other worker it would be half of `fence-crowd`.  If the release alone takes longer than that, it takes its own
 * time.  Workers that store to their own GPU, or that have ended, do not count. */
TEST("releases in a crowd")
{
    CU_ASSERT_EQUAL(crowded_ps(1, false, 2000, 900), crowded_ps(1, false, 2000, 0) + 600 * PS_PER_NS);
    CU_ASSERT_EQUAL(crowded_ps(1, false, 2500, 900), crowded_ps(1, false, 2500, 0) + 100 * PS_PER_NS);
    CU_ASSERT_EQUAL(crowded_ps(1, false, 3000, 900), crowded_ps(1, false, 3000, 0));
    CU_ASSERT_EQUAL(crowded_ps(0, false, 2000, 900), crowded_ps(0, false, 2000, 0));
    CU_ASSERT_EQUAL(crowded_ps(1, true, 2000, 900), crowded_ps(1, true, 2000, 0));
}

/* Loops that are programs.  A load waits 200 ns, or 100 ns if the L2 has the bytes.  A byte takes 1 ns into an SM, 2 ns
 * out of it, and 3 ns to a peer.  The engine brings bytes after 400 ns, or 300 ns from the L2.  Stores reach the SM
 * when the step is due, 10 ns before it begins. */
TEST("programs")
{
    static const char unseen[] = "{ load bytes by bytes, use } fresh, unseen",
                      mixed[] = "{ load 512, use, store bytes by bytes }",
                      back[] = "{ store bytes by bytes, load 1 by 1 from shared, use }",
                      behind[] = "{ store bytes by bytes, load 1 by 1 from shared, use } fresh";
    static const struct {
        struct operation operation;
        uint32_t warps;
        uint64_t ns;
    } runs[] = {
        { COPIES(1, 1000, .loop = back), 2, 2001 },
        { COPIES(1, 1000, .loop = behind), 2, 2100 }, /* loads wait for stores */
        { COPIES(1, 1000, .loop = "{ load bytes by bytes, use }"), 2, 1200 },
        { COPIES(2, 2000, .loop = "{ load bytes by bytes, use }"), 2, 2200 },
        { COPIES(3, 3000, .loop = "{ load bytes by bytes, use }"), 2, 3200 },
        { COPIES(1, 1000, .loop = "{ load bytes by bytes, use } fresh"), 2, 1100 },
        { COPIES(1, 1000, .loop = unseen), 2, 1800 },
        { COPIES(1, 1000, .loop = "{ bulk-in bytes, bulk-wait }"), 2, 1400 },
        { COPIES(1, 1000, .loop = "{ bulk-in bytes, bulk-wait } fresh"), 2, 1300 },
        { { .verb = SUM, .rows = 3, .size_bytes = 3000, .loop = "{ first 1 { alu rows * bytes } }" }, 2, 3000 },
        { { .verb = SUM, .rows = 3, .size_bytes = 3000, .loop = "{ first warps { alu 1000 } }" }, 2, 1000 },
        { STORES(0, 1000, .rows = 1, .loop = "{ store bytes by bytes }"), 1, 1990 },
        { STORES(1, 1000, .rows = 1, .loop = "{ store bytes by bytes }"), 1, 2990 },
        { STORES(1, 1000, .rows = 1, .loop = mixed), 1, 200 + 512 + 3512 - 10 },
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        g_autofree struct stage *s = stage_new(2, 2);
        s->cluster.gpu.load_ps = 200 * PS_PER_NS;
        s->cluster.gpu.load_l2_ps = 100 * PS_PER_NS;
        s->cluster.gpu.touch_ps = strstr(runs[i].operation.loop, "unseen") ? 700 * PS_PER_NS : 0;
        s->cluster.gpu.load_behind_stores = runs[i].operation.loop == behind;
        s->cluster.gpu.cycle_ps = PS_PER_NS;
        s->cluster.gpu.engine.in_ps = 400 * PS_PER_NS;
        s->cluster.gpu.engine.in_l2_ps = 300 * PS_PER_NS;
        s->cluster.gpu.engine.in_rate_bps = 8000000000;
        s->cluster.gpu.engine.out_rate_bps = 4000000000;
        s->cluster.gpu.store_sm_rate_bps = 2000000000; /* 4 ns a byte: 1 ns into the SM, then 3 ns out */
        PLAY(s, 0, runs[i].warps, runs[i].operation);
        stage_run(s);
        if (!about(s->result[0].time_ps, (1010 + runs[i].ns) * PS_PER_NS))
            printf("\n      %s: %g ns\n", runs[i].operation.loop, (double)s->result[0].time_ps / 1e3 - 1010);
        CU_ASSERT(about(s->result[0].time_ps, (1010 + runs[i].ns) * PS_PER_NS));
    }
}

/* Rows are summed straight from memory.  There is a wait of 200 ns before each row, and one for each 512 B in flight.
 * Adding takes its time after these waits.  Two such workers share their SM's loads, but not if the rows are in the L2.
 * There twelve waits are longer, the more of the time the memory is busy: by 1200 ns * 1200 / (2400 + 1200), or by half
 * of the 2400 ns behind another SM's rows. */
TEST("rows summed out of memory")
{
    static const struct {
        uint32_t workers;
        const char *loop;
        uint64_t ns, memory_ns;
        bool apart; /* each on an SM of its own */
    } sums[] = {
        { 1, "wait 2, load 2, footprint 1", 600, 0, false },
        { 1, "wait 2, load 2, sum 1000, footprint 1", 1600, 0, false },
        { 2, "wait 2, load 2, footprint 1", 2038, 0, false },
        { 2, "wait 2, load 2, fresh, footprint 1", 600, 0, false },
        { 1, "wait 2, load 2, fresh, footprint 1", 2800, 1200, false },
        { 2, "wait 2, load 2, fresh, footprint 1", 3600, 1200, true },
    };
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        g_autofree struct stage *s = stage_new(1, 1);
        s->cluster.gpu.scan_row_ps = s->cluster.gpu.load_ps = s->cluster.gpu.engine.in_ps = 200 * PS_PER_NS;
        s->cluster.gpu.sum_far_sm_rate_bps = 8000000000;
        s->cluster.gpu.cycle_ps = PS_PER_NS;
        const uint64_t size = sums[i].memory_ns ? 10240 : 1024;
        const struct operation sum = { .verb = SUM, .rows = 1, .size_bytes = size, .loop = sums[i].loop };
        s->cluster.gpu.sum_far_sm_rate_bps *= sums[i].workers == 1 ? 1000 : 1;
        if (sums[i].memory_ns) s->cluster.gpu.hbm_rate_bps = size * UINT64_C(12000000000) / sums[i].memory_ns;
        for (uint32_t k = 0; k < sums[i].workers; k++) {
            PLAY(s, 0, 1, sum);
            s->player[k].worker.sm = sums[i].apart ? k : 0;
        }
        stage_run(s);
        CU_ASSERT(about(s->result[0].time_ps, (1010 + sums[i].ns) * PS_PER_NS));
    }
}

/* Only a release waits for these stores.  The release also waits for the stores of the other SM, which began at the
 * same time. */
TEST("posted stores")
{
    for (uint32_t senders = 1; senders <= 2; senders++) {
        g_autofree struct stage *s = stage_new(2, 2);
        s->cluster.gpu.load_ps = s->cluster.gpu.load_l2_ps = 100 * PS_PER_NS;
        s->cluster.gpu.release_ps = 300 * PS_PER_NS;
        s->cluster.gpu.release_stores_ps = 700 * PS_PER_NS;
        s->cluster.nvlink.egress_rate_bps = 8000000000;
        s->cluster.gpu.store_sm_rate_bps = UINT64_C(8000000000000000);
        s->cluster.gpu.cycle_ps = 1;
        for (uint32_t i = 0; i < senders; i++)
            PLAY(s, 0, 1, STORES(1, 1000, .loop = "{ load bytes by bytes, use } posted"), { .verb = REST },
                 { .verb = ADD, .word = 3 }, { .verb = REST },
                 COPIES(i ? 0 : 1, i ? 0 : 5000, .loop = "{ repeat 10 { load 500, use } }"));
        stage_run(s);
        /* launch 1000 + step 10 + 1000 for each sender + 700 + the first worker's copy, ten times 100 */
        CU_ASSERT(about(s->result[0].time_ps, (1010 + 1000 * senders + 700 + 1000) * PS_PER_NS));
    }
}

/* An addition for the whole GPU is seen only after a release. */
TEST("scopes")
{
    g_autofree struct stage *s = stage_new(1, 1);
    s->cluster.gpu.load_ps = 200000;
    s->cluster.gpu.release_ps = 300000;
    PLAY(s, 0, 1, { .verb = ADD, .word = 3 });
    PLAY(s, 0, 1, WAITS(3));
    stage_takes(s, 0, 1520000); /* launch 1000 + step 10 + release 300 + word 100 + poll 100 + step 10 */
}

/* Teams that sum at the same time all ask for their first rows at once.  So a team waits for the first rows of those
 * ahead of it, half of their bytes here, and only then do its own waits hide what it queues for. */
TEST("first rows of sums")
{
    const struct operation sum = {
        .verb = SUM,
        .size_bytes = 4000,
        .warps = 2,
        .rows = 4,
        .loop =
            "{ first 1 { repeat rows { bulk-left 1, bulk-in bytes } }, others 1 { repeat rows { bulk-wait, alu 7 } } }"
    };
    double alone_ns = 0;
    for (uint32_t teams = 0; teams <= 2; teams++) {
        g_autofree struct stage *s = stage_new(1, 1);
        s->cluster.gpu.engine.in_ps = 2000 * PS_PER_NS;
        s->cluster.gpu.hbm_rate_bps = teams ? 8000000000 : UINT64_C(8000000000000000);
        for (uint32_t i = 0; i < teams || !i; i++) PLAY(s, 0, 2, sum);
        stage_run(s);
        const double took_ns = (double)s->result[0].time_ps / PS_PER_NS - 1010;
        const double memory_ns = 6000, first_ns = teams == 2 ? memory_ns / 2 : 0,
                     queue_ns = teams * memory_ns - first_ns;
        if (!teams) alone_ns = took_ns;
        else CU_ASSERT_DOUBLE_EQUAL(took_ns, first_ns + alone_ns + queue_ns * queue_ns / (queue_ns + alone_ns), 20);
    }
    CU_ASSERT(alone_ns > 4000);
}

/* A release waits for the stores that its SM has made so far, not for those that another warp makes meanwhile. */
TEST("a release beside stores")
{
    g_autofree struct stage *s = stage_new(2, 2);
    s->cluster.gpu.release_ps = 300 * PS_PER_NS;
    s->cluster.gpu.release_stores_ps = 1700 * PS_PER_NS;
    PLAY(s, 0, 1, STORES(1, 1000)); /* from 1010 to 2110 */
    PLAY(s, 0, 1, COPIES(1, 400), { .verb = REST }, { .verb = ADD, .word = 3 });
    s->player[1].worker.sm = 0;
    stage_run(s); /* launch 1000 + step 10 + copy 500 + step 10 + release 1700 */
    CU_ASSERT(about(s->result[0].time_ps, 3220000));
}

/* A barrier of the grid opens after what its blocks have done: after a copy of another warp, or after a peer's answer
 * to what it was told. */
TEST("grid barrier")
{
    static const struct operation before[] = { { .verb = REST }, COPIES(1, 700), SIGNALS(1, 5) };
    static const uint64_t came_ns[] = { 1010, 1810, 1410 }; /* launch 1000 + step 10 + nothing, copy 800, answer 400 */
    for (uint64_t barrier_ns = 0; barrier_ns <= 900; barrier_ns += 900)
        for (int i = 0; i < 3; i++) {
            g_autofree struct stage *s = stage_new(2, 2);
            s->cluster.gpu.release_ps = 300 * PS_PER_NS;
            s->cluster.gpu.grid_barrier_ps = barrier_ns * PS_PER_NS;
            s->cluster.nvlink.peek_ps = 400 * PS_PER_NS;
            PLAY(s, 0, 1, before[i]);
            PLAY(s, 0, 1, { .verb = REST }, { .verb = ADD, .word = 3, .loop = "grid" });
            PLAY(s, 0, 1, WAITS(3));
            /* + barrier, or release 300 and a look 100, + step 10 */
            stage_takes(s, 0, (came_ns[i] + (barrier_ns ? 900 : 400) + 10) * PS_PER_NS);
        }
}

/* An addition of 0 changes nothing, so a worker that watches the word is not stepped. */
TEST("nothing added")
{
    g_autofree struct stage *s = stage_new(1, 1);
    PLAY(s, 0, 1, { .verb = TOUCH, .word = 3 }, STORES(0, 1000), { .verb = ADD, .word = 3 });
    PLAY(s, 0, 1, WAITS(3));
    PLAY(s, 0, 1, WAITS(3));
    stage_takes(s, 0, 2320000); /* launch 1000 + step 10 + store 1100 + word 100 + poll 100 + step 10 */
    CU_ASSERT_EQUAL(s->player[1].steps, 2);
    CU_ASSERT_EQUAL(s->player[2].steps, 2);
}

/* A worker waits for a counter that it alone watches.  It must not go on before the additions are done, although it
 * takes a step in between.  It must go on at the same time as with events. */
TEST("counters")
{
    for (int i = 0; i < 4; i++) { /* with or without events; the worker's own counter is either word */
        g_autofree struct stage *s = stage_new(1, 1);
        s->counts = i % 2;
        const uint32_t first = i / 2 ? 3 : 4, then = 7 - first;
        PLAY(s, 0, 1, STORES(0, 1000), { .verb = ADD, .word = 3 });
        PLAY(s, 0, 1, { .verb = ADD, .word = 4 });
        PLAY(s, 0, 1, WAITS(first), WAITS(then));
        stage_takes(s, 0, 2320000); /* launch 1000 + step 10 + store 1100 + word 100 + poll 100 + step 10; word 4 is
                                     * raised at 1110 and causes a step at 1210 */
        CU_ASSERT_EQUAL(s->player[2].steps, 3);
    }
}

TEST("signals")
{
    g_autofree struct stage *s = stage_new(2, 2);
    PLAY(s, 0, 1, STORES(1, 1000), SIGNALS(1, 3));
    PLAY(s, 1, 1, WAITS(3));
    stage_takes(s, 0, 3110000);     /* launch 1000 + step 10 + store 1100 + fence 500 + 500 until the peer has the
                                     * signal */
    CU_ASSERT(took(s, 1, 3720000)); /* launch 1000 + rank 0's step, store and fence 1610 + NVLink 1000 + poll 100 + step
                                     * 10 */
    stage_renew(&s, 2, 2);          /* the data carry flags, so there is no fence */
    PLAY(s, 0, 1, STORES(1, 1000), SIGNALS(1, 3, .loop = "polled"));
    PLAY(s, 1, 1, WAITS(3));
    stage_takes(s, 0, 2610000);
    CU_ASSERT(took(s, 1, 3220000)); /* launch 1000 + rank 0's step and store 1110 + NVLink 1000 + poll 100 + step 10 */
    stage_renew(&s, 2, 2);          /* nothing was stored, so there is no fence */
    PLAY(s, 0, 1, SIGNALS(1, 3));
    PLAY(s, 1, 1, WAITS(3));
    stage_takes(s, 0, 1510000);
    CU_ASSERT(took(s, 1, 2120000)); /* launch 1000 + step 10 + NVLink 1000 + poll 100 + step 10 */
    stage_renew(&s, 1, 1);          /* within the GPU a signal takes 100 */
    PLAY(s, 0, 1, SIGNALS(0, 1));
    PLAY(s, 0, 1, { .verb = ADD, .word = 2 });
    PLAY(s, 0, 1, WAITS(1), WAITS(2));
    stage_takes(s, 0, 1220000); /* launch 1000 + step 10 + signal 100 + poll 100 + step 10 */
}

/* In a world with NICs, all signals of one step that arrive at one time are one event, whichever ranks get them.  The
 * signals of a later step are another event. */
TEST("signals of one step")
{
    const struct operation one = SIGNALS(1, 3), other = SIGNALS(2, 3);
    const struct operation two = SIGNALS(1, 4), rest = { .verb = REST };
    g_autofree struct stage *s = stage_new(6, 3);
    PLAY(s, 0, 1, one);
    PLAY(s, 1, 1, WAITS(3));
    const uint64_t alone = stage_run(s);
    CU_ASSERT(took(s, 1, 2120000)); /* launch 1000 + step 10 + NVLink 1000 + poll 100 + step 10 */
    stage_renew(&s, 6, 3);
    PLAY(s, 0, 1, one, other, two);
    PLAY(s, 1, 1, WAITS(3), WAITS(4));
    PLAY(s, 2, 1, WAITS(3));
    CU_ASSERT_EQUAL(stage_run(s), alone + 1); /* one more event: the step of rank 2 */
    CU_ASSERT(took(s, 1, 2120000) && took(s, 2, 2120000));
    stage_renew(&s, 6, 3);
    PLAY(s, 0, 1, one, rest, two);
    PLAY(s, 1, 1, WAITS(3), WAITS(4));
    CU_ASSERT_EQUAL(stage_run(s), alone + 2); /* two more events: the second step of rank 0, and its signal, which
                                               * arrives before rank 1 polls */
    CU_ASSERT(took(s, 1, 2120000));
}

/* If a later signal arrives before an earlier one, the worker that waits for both is woken at the right time. */
TEST("signals overtake")
{
    g_autofree struct stage *s = stage_new(3, 3);
    PLAY(s, 0, 1, STORES(2, 10000), SIGNALS(2, 3));
    PLAY(s, 1, 1, SIGNALS(2, 4));
    PLAY(s, 1, 1, WAITS(5));
    PLAY(s, 2, 1, WAITS(4), SIGNALS(1, 5), WAITS(3));
    stage_takes(s, 1, 3230000);      /* launch 1000 + (step 10 + NVLink 1000 + poll 100 + step 10) to rank 2 + (1000 +
                                      * 100 + 10) back */
    CU_ASSERT(took(s, 2, 12720000)); /* launch 1000 + step 10 + store 10100 + fence 500 + NVLink 1000 + poll 100 + step
                                      * 10 */
    stage_renew(&s, 1, 1);           /* two workers wait for one counter, and one of them has nothing else to do */
    PLAY(s, 0, 1, { .verb = ADD, .word = 2 });
    PLAY(s, 0, 1, WAITS(2));
    PLAY(s, 0, 1, WAITS(2), SIGNALS(0, 3));
    PLAY(s, 0, 1, WAITS(3));
    g_autoptr(world) world = stage_world(s);
    CU_ASSERT_TRUE_FATAL(stage_launch(s, world));
    CU_ASSERT(took(s, 0, 1430000)); /* launch 1000 + (step 10 + word 100 + poll 100 + step 10) for the first wait + (100
                                     * + 100 + 10) for the second */
    CU_ASSERT_EQUAL(world_fabric(world, 0)->words[2], 1);
    CU_ASSERT_EQUAL(world_fabric(world, 0)->words[3], 1);
}

/* 16 SMs at 10 GB/s each share an egress of 100 GB/s.  Their stores of 1000 ns leave at intervals of 100 ns. */
TEST("egress is shared")
{
    g_autofree struct stage *s = stage_new(2, 2);
    for (int i = 0; i < 16; i++) PLAY(s, 0, 16, STORES(1, 10000, .rows = 16));
    stage_takes(s, 0, 2600000); /* launch 1000 + 16 * 100, while the step passes */
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_EGRESS].busy_ps, 1600000);
    CU_ASSERT_EQUAL(s->result[1].use[WORLD_NVLINK_INGRESS].bytes, 160000);
    stage_renew(&s, 2, 2); /* four SMs do not fill the egress, so the SM is the limit */
    for (int i = 0; i < 4; i++) PLAY(s, 0, 16, STORES(1, 10000, .rows = 16));
    stage_takes(s, 0, 2000000); /* launch 1000 + bytes 1000, while the step passes */
}

/* Four ranks store to one rank, each the same number of bytes, and their workers take turns.  Rank r's last store is
 * number 12 + r. */
TEST("ingress is shared")
{
    g_autofree struct stage *s = stage_new(5, 5);
    for (uint16_t r = 1; r <= 4; r++)
        for (int i = 0; i < 4; i++) PLAY(s, r, 16, STORES(0, 10000, .rows = 16));
    stage_run(s);
    for (uint32_t r = 1; r <= 4; r++) CU_ASSERT(took(s, r, 1000000 + (12 + r) * 100000));
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_INGRESS].busy_ps, 1600000);
    CU_ASSERT_EQUAL(s->result[1].use[WORLD_NVLINK_EGRESS].busy_ps, 400000);
}

/* A second launch begins when the first is done, and takes the same time. */
TEST("launches follow each other")
{
    g_autofree struct stage *s = stage_new(2, 2);
    PLAY(s, 0, 1, STORES(1, 1000));
    PLAY(s, 1, 2, COPIES(2, 600));
    g_autoptr(world) world = stage_world(s);
    for (uint64_t i = 0; i < 3; i++) {
        CU_ASSERT_TRUE_FATAL(stage_launch(s, world));
        CU_ASSERT(took(s, 0, 2110000));
        CU_ASSERT(took(s, 1, 1410000)); /* launch 1000 + step 10 + 600 B on two warps 300 + row 100 */
        CU_ASSERT_EQUAL(s->result[0].use[WORLD_NVLINK_EGRESS].bytes, 1000);
    }
}

/* The two kernels of each rank.  Kernel k has player k of the rank. */
struct two_kernels {
    struct stage *stage;
    struct world *world;
    struct fabric_worker *worker[RANKS_MAX];
};

static void two_kernels_launch(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                               uint32_t *worker_count)
{
    struct two_kernels *two = context;
    *worker_count = 0;
    for (uint32_t i = 0, seen = 0; i < two->stage->player_count; i++) {
        struct player *p = &two->stage->player[i];
        if (p->rank != rank || seen++ != kernel) continue;
        p->worker.index = 0;
        p->worker.fabric = world_fabric(two->world, (uint16_t)rank);
        p->worker.role = worker_role_number(&p->worker.fabric->roles, &player_role);
        for (uint32_t o = 0; o < OPERATIONS_MAX; o++)
            if (p->operation[o].verb == WAIT) fabric_watch(&p->worker, p->operation[o].word, 1, 0);
        two->worker[rank] = &p->worker;
        *worker = &two->worker[rank];
        *worker_count = 1;
    }
}

/* Rank 1 comes 3000 ns late.  Its second kernel waits for the kernel that rank 0 ran long before.  Rank 0's second
 * kernel waits for rank 1's first.  No barrier is in between.  A word that rises while no worker watches it must be
 * seen by the next kernel. */
TEST("kernels follow each other")
{
    for (int nics = 0; nics <= 1; nics++) {
        g_autofree struct stage *s = stage_new(2, nics ? 1 : 2);
        struct two_kernels two = { .stage = s };
        PLAY(s, 0, 1, SIGNALS(1, 3));
        PLAY(s, 0, 1, WAITS(4));
        PLAY(s, 1, 1, COPIES(1, 400), SIGNALS(0, 4));
        PLAY(s, 1, 1, WAITS(3));
        two.world = stage_world(s);
        const uint64_t arrival_ps[2] = { 0, 3000000 };
        struct world_result result[2][2];
        const struct world_program program = {
            .kernels = 2, .launch = two_kernels_launch, .context = &two, .arrival_ps = arrival_ps, .result = result[0]
        };
        uint32_t kernel = 0;
        CU_ASSERT_TRUE(world_run_program(two.world, &program, &kernel, s->text, sizeof s->text));
        /* Rank 1's signal leaves at 3000 + step 10 + copy 500.  It is seen after NVLink 1000 + poll 100 + step 10, or
         * by the NIC after post and doorbell 200 + fetch and network 2000 + 32 B 3.2 + delivery 1000 + 110. */
        const uint64_t first_ps = nics ? 1210000 : 1510000, seen_ps = nics ? 6823200 : 4620000;
        CU_ASSERT_EQUAL(result[0][0].time_ps, first_ps);
        CU_ASSERT_EQUAL(result[0][1].begin_ps, 3000000);
        CU_ASSERT_EQUAL(result[0][1].time_ps, nics ? 1710000 : 2010000);
        CU_ASSERT_EQUAL(result[1][0].begin_ps, first_ps); /* the end of the first kernel, plus what a launch takes */
        CU_ASSERT_EQUAL(result[1][0].time_ps, 1000000 + seen_ps - first_ps);
        CU_ASSERT_EQUAL(result[1][1].time_ps, 1010000);
        world_free(two.world);
    }
}

/* A slow GPU takes longer for its own work, but the links do not. */
TEST("slow rank")
{
    const uint32_t slow[2] = { 0, 2 * WORLD_SLOW_ONE };
    g_autofree struct stage *s = stage_new(2, 2);
    s->options.slow = slow;
    for (uint16_t r = 0; r < 2; r++) PLAY(s, r, 1, COPIES(1, 400), SIGNALS(0, r));
    PLAY(s, 0, 1, WAITS(1));
    stage_takes(s, 1, 2520000);     /* launch 1000 + twice (step 10 + row 100 + bytes 400) + 500 until the peer has the
                                     * signal */
    CU_ASSERT(took(s, 0, 3130000)); /* launch 1000 + rank 1's step and copy 1020 + NVLink 1000 + poll 100 + step 10 */
}

/* Three workers store rows whose ends are 200 and 100 ns apart, and release them, on one SM or each on its own SM.  A
 * fence takes 500 ns.  Returns the time of rank 0. */
static uint64_t releases_ps(bool together)
{
    g_autofree struct stage *s = stage_new(2, 2);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t size_bytes = i ? 1100 + 100 * i : 1000;
        PLAY(s, 0, 1, STORES(0, size_bytes), SIGNALS(1, 3 + i));
    }
    for (uint32_t i = 0; together && i < s->player_count; i++) s->player[i].worker.sm = 0;
    stage_run(s);
    return s->result[0].time_ps;
}

/* The second and third releases come during the fence of the first, so both wait for the next fence. */
TEST("releases of one SM")
{
    CU_ASSERT_EQUAL(releases_ps(false), 3410 * PS_PER_NS); /* launch 1000 + step 10 + store 1400 + fence 500 + 500 until
                                                            * the peer has the signal */
    CU_ASSERT_EQUAL(releases_ps(true), 3610 * PS_PER_NS);  /* launch 1000 + step 10 + store 1100 + two fences of 500 +
                                                            * 500 until the peer has the signal */
}

/* Releases of one step wait for each other.  On a slowed GPU each release takes longer, and the waiting is not slowed a
 * second time. */
TEST("releases of a slow rank")
{
    for (uint32_t factor = 1; factor <= 8; factor *= 8) {
        const uint32_t slow[1] = { factor * WORLD_SLOW_ONE };
        g_autofree struct stage *s = stage_new(1, 1);
        s->options.slow = slow;
        s->cluster.gpu.load_ps = 200 * PS_PER_NS;
        s->cluster.gpu.release_ps = 300 * PS_PER_NS;
        const struct operation release = { .verb = ADD, .word = 3 };
        PLAY(s, 0, 1, release, release, release, release);
        stage_takes(s, 0, (1000 + factor * (10 + 4 * 300)) * PS_PER_NS);
    }
}

/* If the link is the limit, a store from a slowed GPU takes as long as before, until the GPU is slower than the link.
 * An SM reports how long it was busy. */
TEST("stores of a slow rank")
{
    uint64_t time_ps[3], busy_ps[3];
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t slow[2] = { (i == 2 ? 1000 : i + 1) * WORLD_SLOW_ONE, 0 };
        g_autofree struct stage *s = stage_new(2, 2);
        s->options.slow = slow;
        s->cluster.gpu.step_ps = 0;
        s->cluster.nvlink.egress_rate_bps = 80000000; /* 10 MB/s */
        s->cluster.gpu.store_sm_rate_bps = 8000000000;
        PLAY(s, 0, 1, STORES(1, 1000, .rows = 1));
        stage_run(s);
        time_ps[i] = s->result[0].time_ps;
        busy_ps[i] = s->result[0].use[WORLD_SM].busy_ps;
    }
    CU_ASSERT_EQUAL(time_ps[0], 101000 * PS_PER_NS); /* launch 1000; 1000 B at 10 MB/s */
    CU_ASSERT_EQUAL(time_ps[1], time_ps[0]);
    CU_ASSERT_EQUAL(time_ps[2], 1101000 * PS_PER_NS); /* launch 1000; 1000 times the row's 1100 */
    CU_ASSERT_EQUAL(busy_ps[0], 1000 * PS_PER_NS);
    CU_ASSERT_EQUAL(busy_ps[1], 2 * busy_ps[0]);
}

/* ---- NIC ---- */

TEST("one put")
{
    g_autofree struct stage *s = stage_new(2, 1);
    PLAY(s, 0, 1, PUTS(1, 10000), SIGNALS(1, 5));
    PLAY(s, 1, 1, WAITS(5));
    stage_takes(s, 0, 1410000); /* launch 1000 + step 10 + twice (post 100 + doorbell 100) */
    /* Counted from the end of the launch, the bytes are sent from 210 to 1210.  They arrive from 2210 (fetch 1000,
     * network 1000) to 3210.  The signal's 32 B follow until 3213.2, and are delivered 1000 later.  Then come poll 100
     * and step 10. */
    CU_ASSERT(took(s, 1, 5323200));
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NIC_TX].bytes, 10032);
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NIC_TX].busy_ps, 1003200);
    CU_ASSERT_EQUAL(s->result[1].use[WORLD_NIC_RX].busy_ps, 1003200);
    stage_renew(&s, 2, 1); /* headers of 100 B on each of three packets; 5 ns for a request */
    s->cluster.nic.header_bytes = 100;
    s->cluster.nic.message_ps = 5000;
    PLAY(s, 0, 1, PUTS(1, 10000));
    stage_run(s);
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NIC_TX].bytes, 10300);
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NIC_TX].busy_ps, 1035000);
    CU_ASSERT_EQUAL(s->result[1].use[WORLD_NIC_RX].busy_ps, 1030000);
}

static bool busiest_is(const struct world *w, enum world_resource kind, const char *name, uint64_t busy_ps,
                       uint64_t bytes)
{
    struct world_part part;
    if (!world_busiest(w, 0, kind, &part)) return !name;
    return name && !strcmp(part.name, name) && part.busy_ps == busy_ps && part.bytes == bytes;
}

/* The put above, in ns from the end of the launch.  If rank 1 waits for the signal, all bytes count, although rank 0's
 * kernel ends at 410.  If no rank waits, only 200 of the 1003.2 ns from 210 on fall into the slowest kernel. */
TEST("busiest parts")
{
    for (int waits = 0; waits < 2; waits++) {
        g_autofree struct stage *s = stage_new(2, 1);
        PLAY(s, 0, 1, PUTS(1, 10000), SIGNALS(1, 5));
        if (waits) PLAY(s, 1, 1, WAITS(5));
        g_autoptr(world) w = stage_world(s);
        CU_ASSERT_TRUE_FATAL(stage_launch(s, w));
        CU_ASSERT(
            busiest_is(w, WORLD_NIC_TX, "NIC of rank 0, sending", waits ? 1003200 : 200000, waits ? 10032 : 2000));
        CU_ASSERT(busiest_is(w, WORLD_NIC_RX, waits ? "NIC of rank 1, receiving" : NULL, 1003200, 10032));
        CU_ASSERT(busiest_is(w, WORLD_LINK, NULL, 0, 0) && busiest_is(w, WORLD_NVLINK_EGRESS, NULL, 0, 0));
        CU_ASSERT_EQUAL(s->result[1].arrived_ps - s->result[1].begin_ps,
                        4213200); /* received at 3213.2, delivered 1000 later */
        struct world_part part;
        CU_ASSERT_TRUE(world_busiest(w, 0, WORLD_NIC_TX, &part));
        CU_ASSERT_EQUAL(part.rate_bps, UINT64_C(80000000000));
        CU_ASSERT_DOUBLE_EQUAL(part.over_mean, 2, 1e-9); /* one of two NICs sends */
    }
}

/* A post waits three times for stores of other warps of its SM.  Each wait is 350 ns longer than without such
 * stores. */
TEST("a post beside copies")
{
    uint64_t seen_ps[2];
    for (uint16_t sm = 0; sm < 2; sm++) {
        g_autofree struct stage *s = stage_new(2, 1);
        s->cluster.gpu.load_ps = 200 * PS_PER_NS;
        s->cluster.gpu.release_ps = 300 * PS_PER_NS;
        s->cluster.gpu.release_stores_ps = 650 * PS_PER_NS;
        s->cluster.gpu.cycle_ps = 1;
        PLAY(s, 0, 1, COPIES(1, 100000, .places = 1, .loop = "{ repeat bytes / 500 { load 500, use } }"));
        PLAY(s, 0, 1, SIGNALS(1, 5));
        s->player[0].worker.sm = 0;
        s->player[1].worker.sm = sm;
        PLAY(s, 1, 1, WAITS(5));
        stage_run(s);
        seen_ps[sm] = s->result[1].time_ps;
    }
    CU_ASSERT_EQUAL(seen_ps[0], seen_ps[1] + 3 * 350 * PS_PER_NS);
}

/* If the put is its own flag, there is one request, and no atomic waits at the target. */
TEST("put that is its own flag")
{
    for (int polled = 0; polled < 2; polled++) {
        const char *loop = polled ? "polled" : NULL;
        g_autofree struct stage *s = stage_new(2, 1);
        s->cluster.nic.read_ps = 400 * PS_PER_NS;
        PLAY(s, 0, 1, { .verb = PUT_SIGNAL, .peer = 1, .size_bytes = 10000, .word = 5, .loop = loop });
        PLAY(s, 1, 1, WAITS(5));
        stage_takes(s, 0, polled ? 1210000 : 1310000); /* launch 1000 + step 10 + post 100 for each request + one
                                                        * doorbell 100 */
        /* After that: fetch 1000, bytes 1000, network 1000, delivery 1000, poll 100, step 10.  A separate signal also
         * takes 3.2 for its 32 B, and 400 for the read of the word. */
        CU_ASSERT(took(s, 1, polled ? 5320000 : 5420000 + 3200 + 400000));
        CU_ASSERT_EQUAL(s->result[0].use[WORLD_NIC_TX].bytes, polled ? 10000 : 10032);
    }
}

/* A lone signal carries its bytes in the request, so the fetch of 1000 lacks the read of a payload, 400.  At the
 * target, the word is read before it is changed. */
TEST("lone signal")
{
    g_autofree struct stage *s = stage_new(2, 1);
    s->cluster.nic.read_ps = 400 * PS_PER_NS;
    s->cluster.nic.library_ps = 4 * PS_PER_US;
    PLAY(s, 0, 2, SIGNALS(1, 5, .warps = 1, .loop = "library"), SIGNALS(1, 6, .queue = 1, .warps = 1));
    PLAY(s, 1, 1, WAITS(6));
    stage_takes(s, 0, 5210000); /* launch 1000 + step 10 + the library's post 4100 + doorbell 100; the kernel's 200 pass
                                 * meanwhile */
    CU_ASSERT(took(s, 1, 1210000 + 3003200 + 110000)); /* launch 1000, step 10, posting 200; fetch 600, network 1000,
                                                        * read 400, delivery 1000, 32 B 3.2; poll 100, step 10 */
}

TEST("incast")
{
    g_autofree struct stage *s = stage_new(3, 1);
    for (uint16_t r = 1; r <= 2; r++) PLAY(s, r, 1, PUTS(0, 10000), SIGNALS(0, r));
    PLAY(s, 0, 1, WAITS(1), WAITS(2));
    /* Counted from the end of the launch, both puts arrive from 2210 to 4210, and their signals at 4213.2 and 4216.4.
     * Delivery takes 1000, so the words change at 5213.2 and 5216.4.  The poll from 5213.2 on takes 100 and sees both
     * words.  A step of 10 follows. */
    stage_takes(s, 0, 6323200);
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NIC_RX].bytes, 20064);
    s->cluster.network.rate_bps = 40000000000; /* switch ports are half as fast: puts arrive until 2210 + 4 * 1000, and
                                                * the first signal takes 6.4 more; the rest is as above */
    stage_takes(s, 0, 8326400);
    s->cluster.network.rate_bps = 160000000000; /* switch ports are faster, so the NIC is the limit */
    stage_takes(s, 0, 6323200);
}

TEST("deferred doorbells")
{
    for (int defer = 0; defer <= 1; defer++) {
        g_autofree struct stage *s = stage_new(2, 1);
        PLAY(s, 0, 1, PUTS(1, 4000, .defer = defer), SIGNALS(1, 5));
        PLAY(s, 1, 1, WAITS(5));
        /* If the put is deferred, there is one doorbell less.  But the put is sent with the signal, 310 after the
         * launch and not 210. */
        stage_takes(s, 0, defer ? 1310000 : 1410000);
        CU_ASSERT(took(s, 1, defer ? 4823200 : 4723200));
    }
    g_autofree struct stage *s = stage_new(2, 1); /* a flush also rings; from the end of the launch: sent at 110,
                                                   * received at 2210, delivered at 3210, known at 4210; then a step of
                                                   * 10 */
    PLAY(s, 0, 1, PUTS(1, 1000, .defer = true), { .verb = FLUSH, .peer = 1 });
    stage_takes(s, 0, 5220000);
}

static bool text_dropped(void *context, const void *text, size_t size_bytes)
{
    (void)context, (void)text, (void)size_bytes;
    return true;
}

static struct timeline *timeline_nowhere(void) { return timeline_new(&(struct timeline_sink){ text_dropped, NULL }); }

/* One request may stand for several puts.  They must take as long as separate puts.  With a timeline, puts are
 * separate. */
TEST("trains of puts")
{
    g_autoptr(timeline) timeline = timeline_nowhere();
    for (int odd = 0; odd <= 1; odd++) {
        struct stage *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = stage_new(3, 1);
            s[i]->options.timeline = i ? timeline : NULL;
            s[i]->cluster.nic.window_bytes = odd ? 5000 : 0;
            for (uint16_t r = 0; r < 2; r++)
                PLAY(s[i], r, 1, PUTS(2, 4000, .defer = true), PUTS(2, 4000, .defer = true),
                     PUTS(2, odd ? 9000 : 4000, .defer = true), PUTS(2, 700, .queue = 1), PUTS(2, 4000, .defer = true),
                     SIGNALS(2, 5u + r), { .verb = FLUSH, .peer = 2 });
            PLAY(s[i], 2, 1, WAITS(5));
            PLAY(s[i], 2, 1, WAITS(6));
            stage_run(s[i]);
        }
        for (uint32_t r = 0; r < 3; r++) CU_ASSERT_EQUAL(s[0]->result[r].time_ps, s[1]->result[r].time_ps);
        CU_ASSERT(s[0]->result[2].use[WORLD_NIC_RX].bytes >= 2 * (4 * 4000 + 700));
        CU_ASSERT_EQUAL(s[0]->result[2].use[WORLD_NIC_RX].bytes, s[1]->result[2].use[WORLD_NIC_RX].bytes);
        free(s[0]);
        free(s[1]);
    }
}

TEST("queue depth")
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        g_autofree struct stage *s = stage_new(2, 1);
        s->options.needs.queue_depth = depth;
        PLAY(s, 0, 1, PUTS(1, 1000), PUTS(1, 1000));
        /* Counted from the end of the launch, the first put is sent at 210, received at 2310, delivered at 3310 and
         * known at 4310.  Then come a step of 10 and the posting of the second put, 200. */
        stage_takes(s, 0, depth == 1 ? 5520000 : 1410000);
        s->options.needs.queue_depth = 3 - depth; /* the cluster's depth counts instead of this one */
        s->cluster.nic.queue_depth = depth;
        stage_takes(s, 0, depth == 1 ? 5520000 : 1410000);
    }
}

/* Rank 0's time for two puts to these peers, the second one on `queue`, where threads post and one place is there. */
static uint64_t two_puts_ps(bool channels, uint16_t first, uint16_t second, uint16_t queue)
{
    g_autofree struct stage *s = stage_new(3, 1);
    s->cluster.nic.posting = CLUSTER_POST_PROXY;
    s->options.needs.queue_depth = 1;
    s->options.needs.channels = channels;
    PLAY(s, 0, 1, PUTS(first, 1000), PUTS(second, 1000, .queue = queue));
    stage_run(s);
    return s->result[0].time_ps;
}

/* A channel's one place is that of all peers.  Its other channels have places of their own. */
TEST("a channel's depth is shared by peers")
{
    const uint64_t waits_ps = two_puts_ps(false, 1, 1, 0), free_ps = two_puts_ps(false, 1, 2, 0);
    CU_ASSERT(waits_ps > free_ps + 4 * PS_PER_US);
    CU_ASSERT_EQUAL(two_puts_ps(true, 1, 2, 0), waits_ps);
    CU_ASSERT_EQUAL(two_puts_ps(true, 1, 1, 0), waits_ps);
    CU_ASSERT_EQUAL(two_puts_ps(true, 1, 2, 1), two_puts_ps(false, 1, 2, 1));
}

/* Three puts of 1000 B and a signal of 32 B.  The acknowledgement of a request comes 4100 ns after its first byte was
 * sent.  Only then is there room in the window again. */
TEST("window")
{
    /* done_ps is when the signal is seen.  The times below are in ns from the end of the launch.  With no window, the
     * signal leaves at 810.  With 2500 B, the third put waits until 4310, and the signal leaves behind it at 4410.
     * With 1500 B, the puts leave one at a time, at 210, 4310 and 8410, and the signal leaves at 8510. */
    static const uint64_t window[] = { 0, 2500, 1500 }, done_ps[] = { 4923200, 8523200, 12623200 };
    for (int i = 0; i < 3; i++) {
        g_autofree struct stage *s = stage_new(2, 1);
        s->cluster.nic.window_bytes = window[i];
        PLAY(s, 0, 1, PUTS(1, 1000), PUTS(1, 1000), PUTS(1, 1000), SIGNALS(1, 5));
        PLAY(s, 1, 1, WAITS(5));
        stage_takes(s, 1, done_ps[i]); /* launch 1000, and after the signal leaves: fetch and network 2000 + 32 B 3.2 +
                                        * delivery 1000 + poll 100 + step 10 */
        CU_ASSERT(took(s, 0, 1810000));
    }
}

/* To any number of peers, no more bytes pass in a round trip than the window has. */
TEST("window bounds the rate")
{
    enum { PUTS = 7, ROUND_TRIP_NS = 4100 };
    for (uint64_t window = 1000; window <= 3000; window += 1000) {
        g_autofree struct stage *s = stage_new(8, 1);
        s->cluster.nic.window_bytes = window;
        for (uint16_t peer = 1; peer < 8; peer++)
            PLAY(s, 0, 1, PUTS(peer, 1000), PUTS(peer, 1000), { .verb = FLUSH, .peer = peer });
        stage_run(s);
        const uint64_t bytes = PUTS * 2 * 1000, took_ns = (s->result[0].time_ps - 1210000) / PS_PER_NS;
        CU_ASSERT(bytes * ROUND_TRIP_NS <= window * took_ns + 10 * window); /* allows for one step of 10 ns */
        CU_ASSERT(bytes * ROUND_TRIP_NS >= window * took_ns * 8 / 10);
    }
}

/* A worker that posts puts until one is refused.  It notes when it sees a changed word, and when its alarm comes. */
struct impatient {
    struct fabric_worker worker;
    uint32_t puts, word;
    uint64_t alarm_ps, seen_ps, rang_ps;
};

static enum worker_step impatient_step(struct fabric_worker *w)
{
    struct impatient *i = fabric_container_of(w, struct impatient, worker);
    const uint64_t now = fabric_now_ps(w->fabric);
    if (!i->seen_ps && fabric_load(w->fabric, i->word)) i->seen_ps = now;
    if (!i->rang_ps && now >= i->alarm_ps) i->rang_ps = now;
    if (!i->rang_ps) fabric_wake_at(w, i->alarm_ps);
    for (; i->puts; i->puts--)
        if (fabric_put(w, &(struct fabric_write){ .charge_bytes = 1000, .peer = 1 }, NULL) == -EAGAIN)
            return WORKER_WAIT;
    return WORKER_DONE;
}

static const struct worker_role impatient_role = { .step = impatient_step, .describe = player_describe };

/* A worker that waits for room in a queue must see other events before there is room: a word and its alarm. */
TEST("room and other things")
{
    for (int alarm = 0; alarm <= 1; alarm++) {
        g_autofree struct stage *s = stage_new(4, 2);
        s->options.needs.queue_depth = 1;
        g_autoptr(world) world = stage_world(s);
        struct impatient i = { .puts = 2, .word = 3, .alarm_ps = alarm ? 1500 * PS_PER_NS : 100 * PS_PER_US };
        i.worker = fabric_worker_of(world_fabric(world, 0), &impatient_role);
        struct player other = { .worker = fabric_worker_of(world_fabric(world, 2), &player_role),
                                .operation = { SIGNALS(0, 3) } };
        struct fabric_worker *first[1] = { &i.worker }, *third[1] = { &other.worker };
        struct fabric_worker **worker[4] = { first, NULL, third, NULL };
        const uint32_t count[4] = { 1, 0, 1, 0 };
        s->cluster.nvlink.gpus = 2;
        fabric_watch(&i.worker, 3, 1, 0);
        CU_ASSERT_TRUE(world_run(world, worker, count, s->result, s->text, sizeof s->text));
        /* The signal takes step 10, post 100, doorbell 100, 2000 on the way, 3.2 for its bytes and delivery 1000.  It
         * is seen after a poll of 100, before room comes at 4310. */
        CU_ASSERT_EQUAL(i.seen_ps, 3313200);
        CU_ASSERT_EQUAL(i.rang_ps, alarm ? 1500000 : 0);
        CU_ASSERT(took(s, 0, 5520000));
    }
}

/* A worker that waits for word 4.  If `awaits`, its steps say so by fabric_watch().  It watches word 3, too. */
struct patient {
    struct fabric_worker worker;
    bool awaits;
    uint32_t steps;
    uint64_t last_ps;
};

static enum worker_step patient_step(struct fabric_worker *w)
{
    struct patient *p = fabric_container_of(w, struct patient, worker);
    p->steps++;
    p->last_ps = fabric_now_ps(w->fabric);
    if (fabric_load(w->fabric, 4)) return WORKER_DONE;
    if (p->awaits) fabric_watch(w, 4, 1, 1);
    return WORKER_WAIT;
}

static const struct worker_role patient_role = { .step = patient_step, .describe = player_describe };

static struct patient patient_run(uint64_t poll_ps, bool awaits)
{
    g_autofree struct stage *s = stage_new(2, 1);
    s->cluster.gpu.poll_ps = poll_ps;
    g_autoptr(world) world = stage_world(s);
    struct patient p = { .worker = fabric_worker_of(world_fabric(world, 0), &patient_role), .awaits = awaits };
    struct player other = { .worker = fabric_worker_of(world_fabric(world, 1), &player_role),
                            .operation = { SIGNALS(0, 3), SIGNALS(0, 4) } };
    struct fabric_worker *first[1] = { &p.worker }, *second[1] = { &other.worker };
    struct fabric_worker **worker[2] = { first, second };
    const uint32_t count[2] = { 1, 1 };
    fabric_watch(&p.worker, 3, 2, 0);
    CU_ASSERT_TRUE(world_run(world, worker, count, s->result, s->text, sizeof s->text));
    return p;
}

/* A step that would find nothing is left out.  The other steps come at the same times as without fabric_watch().
 * The words are raised 200 ns apart, so the poll after the first word sees the second one only if a poll takes longer.
 */
TEST("awaited words")
{
    for (uint64_t poll_ps = 100000; poll_ps <= 500000; poll_ps += 400000) {
        const struct patient plain = patient_run(poll_ps, false), awaiting = patient_run(poll_ps, true);
        CU_ASSERT_EQUAL(plain.steps, poll_ps == 100000 ? 3 : 2);
        CU_ASSERT_EQUAL(awaiting.steps, 2);
        CU_ASSERT_EQUAL(awaiting.last_ps, plain.last_ps);
    }
}

/* All bytes of a put are at the peer when its last byte arrives, and not when its first byte does. */
TEST("bytes come last")
{
    g_autofree struct stage *s = stage_new(2, 1);
    s->options.payload = true;
    s->options.needs.heap_bytes = 20000;
    PLAY(s, 0, 1, PUTS(1, 10000, .defer = false));
    g_autoptr(world) world = stage_world(s);
    uint8_t *from = world_fabric(world, 0)->heap, *to = world_fabric(world, 1)->heap;
    memset(from, 7, 10000);
    s->player[0].source = from;
    s->watched = &to[9999];
    /* Rank 1 reads the byte at 4000 and 4300 ns.  The first byte is received at 2210.  The last byte is received at
     * 3210 and delivered at 4210. */
    struct glance {
        uint64_t at_ps;
        uint8_t expected;
    } const glance[] = { { 4000000, 0 }, { 4300000, 7 } };
    for (int i = 0; i < 2; i++) s->alarm_ps[i] = glance[i].at_ps;
    PLAY(s, 1, 1, { .verb = LOOK }, { .verb = LOOK });
    CU_ASSERT_TRUE(stage_launch(s, world));
    for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(s->looked[i], glance[i].expected);
}

TEST("proxy")
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        g_autofree struct stage *s = stage_new(2, 1);
        s->cluster.nic.posting = CLUSTER_POST_PROXY;
        s->cluster.nic.proxy_ps = 500 * PS_PER_NS;
        s->cluster.nic.doorbell_ps = 300 * PS_PER_NS;
        s->cluster.nic.proxy_threads = threads;
        PLAY(s, 0, 1, SIGNALS(1, 1), SIGNALS(1, 2, .queue = 1));
        PLAY(s, 1, 1, WAITS(2));
        stage_takes(s, 0, 1210000); /* launch 1000 + step 10 + 2 * 100; the worker only hands requests over */
        /* Counted from the end of the launch, the second signal is handed over at 210 and reaches the proxy at 710.
         * The proxy takes 300 for each signal.  One thread is busy with the first signal until 910.  Then come fetch
         * and network 2000, 32 B 3.2, delivery 1000, poll 100 and step 10. */
        CU_ASSERT(took(s, 1, threads == 1 ? 5323200 : 5123200));
        CU_ASSERT_EQUAL(s->result[0].use[WORLD_POSTING].busy_ps, 600000 / threads);
    }
}

/* Warps that ring for one QP do so one after another.  Warps of different QPs do not wait for each other. */
TEST("warps of one QP")
{
    for (uint16_t queue = 0; queue <= 1; queue++) {
        g_autofree struct stage *s = stage_new(2, 1);
        PLAY(s, 0, 1, PUTS(1, 1000));
        PLAY(s, 0, 1, PUTS(1, 1000, .queue = queue));
        stage_takes(s, 0, queue ? 1210000 : 1310000); /* launch 1000 + step 10 + post 100 + doorbell 100, and the other
                                                       * warp's doorbell 100 if both use one QP */
    }
}

/* Other fields of a transport: how many requests may wait for a thread, what stays in order, and how long a signal
 * takes. */
TEST("transports")
{
    g_autofree struct stage *s = stage_new(2, 1);
    struct transport t = transport_of(&s->cluster.nic);
    s->options.transport = &t;
    t.order = TRANSPORT_FENCE;
    PLAY(s, 0, 1, PUTS(1, 1000), SIGNALS(1, 1));
    PLAY(s, 1, 1, WAITS(1));
    stage_takes(s, 1, 8423200); /* launch 1000 + the put's acknowledgement at 4310 + the signal's fetch, network and
                                 * bytes 2003.2 + delivery 1000 + poll 100 + step 10 */
    t.order = TRANSPORT_WIRE;
    t.atomic_ps = 500 * PS_PER_NS;
    stage_takes(s, 1, 5023200); /* launch 1000 + the signal sent at 410 + its fetch, network and bytes 2003.2 + atomic
                                 * 500 + delivery 1000 + poll 100 + step 10 */
    stage_renew(&s, 2, 1);      /* one request may wait for the thread, so the worker hands over the next one when the
                                 * thread begins with the one before */
    t = transport_of(&s->cluster.nic);
    s->options.transport = &t;
    t.poster = CLUSTER_POST_PROXY;
    t.proxy_ps = 500 * PS_PER_NS;
    t.doorbell_ps = 300 * PS_PER_NS;
    t.fifo_depth = 1;
    PLAY(s, 0, 1, SIGNALS(1, 1), SIGNALS(1, 2), SIGNALS(1, 3));
    stage_takes(s, 0, 2110000); /* launch 1000 + 1110: requests are handed over at 110, 610 and 1110; the thread begins
                                 * with each 500 later */
    t.fifo_depth = 0;
    stage_takes(s, 0, 1310000);
    for (uint32_t i = 0; backends_at(i); i++) {
        CU_ASSERT_PTR_EQUAL(backends_find(backends_at(i)->name), backends_at(i));
        CU_ASSERT(backends_at(i)->threads > 0 && backends_at(i)->doorbell_ps > 0 && backends_at(i)->source);
    }
    CU_ASSERT_PTR_NULL(backends_find("carrier pigeon"));
    CU_ASSERT(backends_find("ibrc")->message_ps == 1329 * PS_PER_NS && backends_find("ibrc")->queues == 1);
    CU_ASSERT(backends_find("uccl-efa")->order == TRANSPORT_RECEIVER && backends_find("uccl-efa")->threads == 4);
    CU_ASSERT(backends_find("uccl-efa")->provider == CLUSTER_PROVIDER_EFA && backends_find("uccl-efa")->host_words);
    CU_ASSERT(backends_find("uccl")->uccl && !backends_find("uccl")->host_words &&
              backends_find("uccl-2025")->host_words);
    CU_ASSERT(backends_find("tcp")->provider == CLUSTER_PROVIDER_UNKNOWN && backends_find("libfabric")->flushed);
}

/* With `flush`, returns the time until rank 0 knows that its put is complete.  Otherwise, returns the time until rank 1
 * has seen the second of two puts with signals. */
static uint64_t counted_ps(enum cluster_posting poster, enum transport_order order, bool flush, uint64_t counter_ps)
{
    g_autofree struct stage *s = stage_new(2, 1);
    struct transport t = transport_of(&s->cluster.nic);
    s->options.transport = &t;
    t.poster = poster;
    t.counter_ps = counter_ps;
    t.proxy_ps = 500 * PS_PER_NS;
    t.order = order;
    if (flush) {
        PLAY(s, 0, 1, PUTS(1, 1000), { .verb = FLUSH, .peer = 1 });
    } else {
        PLAY(s, 0, 1, { .verb = PUT_SIGNAL, .peer = 1, .size_bytes = 1000, .word = 1 },
             { .verb = PUT_SIGNAL, .peer = 1, .queue = 1, .size_bytes = 1000, .word = 2 });
        PLAY(s, 1, 1, WAITS(2));
    }
    stage_run(s);
    return s->result[!flush].time_ps;
}

static uint64_t thread_ps(enum cluster_posting poster, enum transport_order order, bool flush)
{
    return counted_ps(poster, order, flush, 0);
}

/* Besides posting, a host's thread waits at fences and tells the GPU of acknowledgements. */
TEST("threads wait")
{
    /* The thread waits until the first put is acknowledged: fetch, 100 ns of bytes, network, delivery, network back.
     * Then it waits for the acknowledgement of the second put, whose signal is fetched and sent. */
    CU_ASSERT_EQUAL(thread_ps(CLUSTER_POST_PROXY, TRANSPORT_FENCE, false) -
                        thread_ps(CLUSTER_POST_PROXY, TRANSPORT_WIRE, false),
                    7100000);
    /* Reading a counter takes 400 ns.  An idle thread reads two error counters, so a request waits for half of these
     * reads, 400 ns.  A completion is seen after half a round of three counters and half of a read.  That is 800 ns,
     * before the first signal and again before the second. */
    CU_ASSERT_EQUAL(counted_ps(CLUSTER_POST_PROXY, TRANSPORT_FENCE, false, 400000) -
                        thread_ps(CLUSTER_POST_PROXY, TRANSPORT_FENCE, false),
                    2000000);
    /* 400 until the thread sees the request, 800 until it sees the completion, and a read of 400 for the other rank */
    CU_ASSERT_EQUAL(counted_ps(CLUSTER_POST_PROXY, TRANSPORT_WIRE, true, 400000) -
                        thread_ps(CLUSTER_POST_PROXY, TRANSPORT_WIRE, true),
                    1600000);
    /* The request takes 500 ns to the thread, and the acknowledgement 500 ns back. */
    CU_ASSERT_EQUAL(thread_ps(CLUSTER_POST_PROXY, TRANSPORT_WIRE, true) -
                        thread_ps(CLUSTER_POST_GPU, TRANSPORT_WIRE, true),
                    2 * 500 * PS_PER_NS);
}

/* The NIC reads once after each put, before it acknowledges the put.  A read takes 300 ns. */
TEST("flushed")
{
    uint64_t took_ps[2][2];
    for (uint32_t flushed = 0; flushed < 2; flushed++) {
        for (uint32_t fence = 0; fence < 2; fence++) {
            g_autofree struct stage *s = stage_new(2, 1);
            s->cluster.nic.read_ps = 300 * PS_PER_NS;
            struct transport t = transport_of(&s->cluster.nic);
            s->options.transport = &t;
            t.poster = CLUSTER_POST_PROXY;
            t.flushed = flushed;
            t.order = fence ? TRANSPORT_FENCE : TRANSPORT_WIRE;
            PLAY(s, 0, 1, { .verb = PUT_SIGNAL, .peer = 1, .size_bytes = 1000, .word = 1 },
                 { .verb = PUT_SIGNAL, .peer = 1, .queue = 1, .size_bytes = 1000, .word = 2 },
                 { .verb = FLUSH, .peer = 1, .queue = 1 });
            PLAY(s, 1, 1, WAITS(2));
            stage_run(s);
            took_ps[flushed][fence] = s->result[fence].time_ps;
        }
    }
    CU_ASSERT_EQUAL(took_ps[1][0] - took_ps[0][0], 300000); /* rank 0 waits for one read */
    CU_ASSERT_EQUAL(took_ps[1][1] - took_ps[0][1], 600000); /* the fence waits for one read, and the second signal for
                                                             * another */
}

static struct world_result copied_play(uint32_t rank, bool staged, bool copied, bool signal)
{
    g_autofree struct stage *s = stage_new(2, 1);
    struct transport t = transport_of(&s->cluster.nic);
    s->cluster.node = (struct cluster_node){ .staging = staged ? CLUSTER_STAGING_YES : CLUSTER_STAGING_NO,
                                             .staging_rate_bps = 16000000000,
                                             .staging_latency_ps = 5 * PS_PER_US };
    s->options.transport = &t;
    t.copy_rate_bps = copied ? 8000000000 : 0;
    t.receive_ps = copied ? 200 * PS_PER_NS : 0;
    if (signal) {
        PLAY(s, 0, 1, { .verb = PUT_SIGNAL, .peer = 1, .size_bytes = 10000, .word = 1 });
        PLAY(s, 1, 1, WAITS(1));
    } else {
        PLAY(s, 0, 1, PUTS(1, 10000), PUTS(1, 10000));
    }
    stage_run(s);
    return s->result[rank];
}

/* The CPU at each end copies a byte in 1 ns.  The receiver's CPU takes 200 ns more for each message.  If messages
 * are staged, each copy takes 5 us and 0.5 ns for each byte in addition, and bytes do not take the path through the
 * node. */
TEST("copied")
{
    for (uint32_t staged = 0; staged < 2; staged++) {
        const uint64_t copy_ps = staged ? 20000000 : 10000000;
        CU_ASSERT_EQUAL(copied_play(0, staged, true, false).time_ps - copied_play(0, staged, false, false).time_ps,
                        2 * copy_ps);
        const uint64_t more_ps =
            copied_play(1, staged, true, true).time_ps - copied_play(1, staged, false, true).time_ps;
        CU_ASSERT_EQUAL(more_ps, 200000 + copy_ps + (staged ? 48000 - 5000000 : 32000) -
                                     100000); /* The signal's 32 B are copied, too, and there is one post of 100 ns
                                               * less.  Staged bytes save 5 us of the path through the node. */
        const struct world_result received = copied_play(1, staged, true, true);
        const uint64_t taken_ps = received.use[WORLD_RECEIVING].busy_ps;
        CU_ASSERT_TRUE(taken_ps >= 200000 + copy_ps && taken_ps < 300000 + copy_ps);
        CU_ASSERT_EQUAL(copied_play(0, staged, true, true).use[WORLD_RECEIVING].busy_ps, 0);
        CU_ASSERT_EQUAL(copied_play(1, staged, false, true).use[WORLD_RECEIVING].busy_ps, 0);
    }
}

/* Makes a stage of two ranks, whose hosts' threads post by the transport *t: a post takes 5 us. */
static struct stage *stage_threads(struct transport *t)
{
    struct stage *s = stage_new(2, 1);
    *t = transport_of(&s->cluster.nic);
    s->options.transport = t;
    s->cluster.nic.read_ps = 70 * PS_PER_NS;
    t->poster = CLUSTER_POST_PROXY;
    t->doorbell_ps = 5 * PS_PER_US;
    return s;
}

/* Rank 0 puts a message with a signal to rank 1.  If `busy`, rank 1 posts two puts at the same time.  Returns rank 1's
 * time. */
static uint64_t message_ps(uint64_t size_bytes, bool busy, uint64_t receive_ps, uint64_t ask_bytes)
{
    struct transport t;
    g_autofree struct stage *s = stage_threads(&t);
    t.receive_ps = receive_ps;
    s->cluster.nic.ask_bytes = ask_bytes;
    PLAY(s, 0, 1, { .verb = PUT_SIGNAL, .peer = 1, .size_bytes = size_bytes, .word = 1 });
    if (busy) PLAY(s, 1, 1, PUTS(0, 100), PUTS(0, 100), WAITS(1));
    else PLAY(s, 1, 1, WAITS(1));
    stage_run(s);
    return s->result[1].time_ps;
}

/* A message that a thread receives is one request.  The NIC does not handle its signal, and the message waits for what
 * the thread sends.  A message larger than ask_bytes is asked for: its announcement arrives (1000 ns), the question
 * goes back (1000 ns), and the NIC reads (70 ns). */
TEST("two-sided")
{
    const uint64_t one_sided_ps = message_ps(1000, false, 0, 0), taken_ps = message_ps(1000, false, 1000, 0);
    CU_ASSERT(taken_ps + 5000000 < one_sided_ps); /* the thread has one request of 5 us less */
    CU_ASSERT_EQUAL(message_ps(1000, false, 901000, 0) - taken_ps, 900000);
    CU_ASSERT_EQUAL(message_ps(1000, false, 1000, 1100) - taken_ps, 0);
    CU_ASSERT_EQUAL(message_ps(1000, false, 1000, 999) - taken_ps, 2070000);
    const uint64_t behind_ps = message_ps(1000, true, 3000000, 0) - message_ps(1000, true, 1000, 0);
    CU_ASSERT_EQUAL(behind_ps, 2999000); /* the thread has sent both puts by 10 us, and then receives the message */
    CU_ASSERT(message_ps(1000, true, 1000, 0) > taken_ps);
}

/* Rank 0 puts with a signal to rank 1, or signals alone.  Returns rank 1's time. */
static uint64_t told_ps(bool told, bool put, uint64_t message_ps)
{
    struct transport t;
    g_autofree struct stage *s = stage_threads(&t);
    t.proxy_ps = 2 * PS_PER_US;
    t.message_ps = message_ps;
    t.told = told;
    if (put) PLAY(s, 0, 1, { .verb = PUT_SIGNAL, .peer = 1, .size_bytes = 1000, .word = 1 });
    else PLAY(s, 0, 1, SIGNALS(1, 1));
    PLAY(s, 1, 1, WAITS(1));
    stage_run(s);
    return s->result[1].time_ps;
}

/* A put and its signal are one request.  The thread takes it in and tells the GPU (2 us).  A signal alone is a write,
 * for which the thread takes no time and the NIC reads nothing. */
TEST("told")
{
    CU_ASSERT_EQUAL(told_ps(true, true, 9000) - told_ps(true, true, 1000), 8000);
    CU_ASSERT_EQUAL(told_ps(true, false, 9000), told_ps(true, false, 1000));
    CU_ASSERT_EQUAL(told_ps(false, false, 9000) - told_ps(true, false, 9000), 9000);
    CU_ASSERT_EQUAL(told_ps(false, false, 0) - told_ps(true, false, 0), 70000);
    const uint64_t two_ps = told_ps(false, true, 1000), one_ps = told_ps(true, true, 1000);
    CU_ASSERT(two_ps > one_ps + 2800000 && two_ps < one_ps + 3200000); /* one post of 5 us less, 2 us more at the end */
}

/* Ranks 0 and 1 may share a NIC, and ranks 2 and 3 another.  QPs of a shared NIC take turns, so the signals are sent
 * one right after the other. */
static void shared_nic_play(struct stage *s)
{
    for (uint16_t r = 0; r < 2; r++) {
        PLAY(s, r, 1, PUTS((uint16_t)(2 + r), 10000), SIGNALS((uint16_t)(2 + r), 1));
        PLAY(s, (uint16_t)(2 + r), 1, WAITS(1));
    }
    stage_run(s);
}

TEST("shared NIC")
{
    g_autofree struct stage *s = stage_new(4, 1);
    shared_nic_play(s);
    CU_ASSERT(took(s, 2, 5323200) && took(s, 3, 5323200)); /* each rank has a NIC, so both take the time of one put */
    stage_renew(&s, 4, 1);
    s->cluster.nic.gpus_per_nic = 2;
    shared_nic_play(s);
    CU_ASSERT(took(s, 3, 6326400)); /* launch 1000 + step and posting 210 + both messages 2 * 1003.2 + fetch and network
                                     * 2000 + delivery 1000 + poll and step 110 */
    CU_ASSERT(took(s, 2, 6323200)); /* 3.2 sooner than rank 3 */
    CU_ASSERT_EQUAL(s->result[0].use[WORLD_NIC_TX].bytes, 20064);
    stage_renew(&s, 2, 1);
    s->cluster.nic.gpus_per_nic = 2;
    PLAY(s, 0, 1, PUTS(1, 10000), SIGNALS(1, 1));
    PLAY(s, 1, 1, WAITS(1));
    stage_takes(s, 1, 5323200); /* what the two send each other takes the line's time, as between NICs */
}

/* QPs of one rank take turns, too, however many bytes one of them has.  Each QP keeps its order. */
TEST("turns of QPs")
{
    g_autofree struct stage *s = stage_new(4, 1);
    PLAY(s, 0, 1, PUTS(1, 10000), PUTS(1, 10000), PUTS(1, 10000), SIGNALS(1, 1), PUTS(2, 10000), SIGNALS(2, 1));
    PLAY(s, 1, 1, WAITS(1));
    PLAY(s, 2, 1, WAITS(1));
    /* The first put is sent 210 ns after the launch, and all other puts are posted before it ends.  Then the QPs to
     * ranks 1 and 2 take turns: a put to 1, the put to 2, a put to 1, the signal to 2, the signal to 1. */
    stage_takes(s, 2, 5323200 + 3 * 1000000);
    CU_ASSERT(took(s, 1, 5323200 + 3 * 1000000 + 3200));
}

/* ---- host, hangs, timeline ---- */

static struct stage *host_stage_new(uint32_t cores)
{
    struct stage *s = stage_new(2, 2);
    s->cluster = (struct cluster){
        .name = "host",
        .path = "host",
        .nic.gpus_per_nic = 1,
        .host = { .cores = cores,
                  .step_ps = 10 * PS_PER_NS,
                  .poll_ps = 100 * PS_PER_NS,
                  .store_ps = 100 * PS_PER_NS,
                  .store_rate_bps = 8000000000,
                  .scan_rate_bps = 8000000000,
                  .copy = { 100 * PS_PER_NS, 8000000000 } },
    };
    return s;
}

TEST("host cores")
{
    for (uint32_t cores = 1; cores <= 2; cores++) {
        g_autofree struct stage *s = host_stage_new(cores);
        for (uint16_t r = 0; r < 2; r++) PLAY(s, r, 1, COPIES(1, 1000));
        stage_takes(s, 0, 1110000);     /* step 10, row 100, 1000 B at 1 GB/s; no launch */
        CU_ASSERT(took(s, 1, 1110000)); /* on one core rank 1 runs after rank 0, but its time counts from its begin */
        CU_ASSERT_EQUAL(s->result[0].use[WORLD_CORE].busy_ps, cores == 1 ? 2220000 : 1110000);
    }
    g_autofree struct stage *s = host_stage_new(2); /* one process has one thread for all its workers */
    for (int i = 0; i < 2; i++) PLAY(s, 0, 1, COPIES(1, 1000));
    stage_takes(s, 0, 2220000);
}

/* Rank 1 gets only half of the core.  After each step it pauses for as long as the step took.  A step takes row 100 and
 * 1000 B at 1 GB/s, and the first step 20 more to check two workers.  Rank 0 may run during the pause. */
TEST("a slow rank on a host")
{
    const uint32_t slow[2] = { 0, 2 * WORLD_SLOW_ONE };
    for (int beside = 1; beside <= 2; beside++) {
        g_autofree struct stage *s = host_stage_new(1);
        s->options.slow = slow;
        const struct operation copy = COPIES(1, 1000);
        for (int i = 0; i < beside; i++) PLAY(s, 0, 1, copy);
        for (int i = 0; i < 2; i++) PLAY(s, 1, 1, copy);
        stage_takes(s, 0, beside == 1 ? 1110000 : 3320000); /* the second step of rank 1 runs between the two of rank
                                                             * 0 */
        CU_ASSERT(took(s, 1, 3340000));
        CU_ASSERT_EQUAL(s->result[1].use[WORLD_CORE].busy_ps, beside == 1 ? 3330000 : 3340000);
    }
}

/* Ranks 0 and 1 share a core.  Rank 1 has two workers, which step in one round.  The round also checks both workers
 * (20) and the link (7).  A change of ranks takes 50.  If rank 1's slice lasts longer than 50 + 27 + the first worker's
 * 1100, the second worker follows at once.  Otherwise rank 0 runs in between. */
TEST("host turns")
{
    for (int lasts = 0; lasts <= 1; lasts++) {
        g_autofree struct stage *s = host_stage_new(1);
        s->cluster.host.progress_ps = 7 * PS_PER_NS;
        s->cluster.host.switch_ps = 50 * PS_PER_NS;
        s->cluster.host.slice_ps = (lasts ? 1178 : 1177) * PS_PER_NS;
        PLAY(s, 0, 1, COPIES(1, 1000));
        for (int i = 0; i < 2; i++) PLAY(s, 1, 1, COPIES(1, 1000));
        stage_takes(s, 1, lasts ? 2227000 : 3444000); /* 27 + 2 * 1100; if rank 0 runs in between, two changes of 50 and
                                                       * rank 0's checks 17 and copy 1100 more */
        CU_ASSERT(took(s, 0, 1117000));
    }
}

TEST("host copies")
{
    for (uint8_t places = 1; places <= 3; places++) {
        g_autofree struct stage *s = host_stage_new(2);
        PLAY(s, 0, 1, COPIES(1, 1000, .places = places));
        stage_takes(s, 0, (10 + places * 1100) * PS_PER_NS); /* step 10; row 100 and bytes 1000 for each target */
    }
}

/* Sums with weights and sums without have separate costs.  The cost of a row is that of a row of 14336 bytes. */
TEST("host sums")
{
    for (int weighted = 0; weighted <= 1; weighted++) {
        g_autofree struct stage *s = host_stage_new(2);
        s->cluster.host.reduce = (struct cluster_work){ .row_ps = 400 * PS_PER_NS, .warp_rate_bps = 800000000 };
        s->cluster.host.sum = (struct cluster_work){ .row_ps = 200 * PS_PER_NS, .warp_rate_bps = 8000000000 };
        PLAY(s, 0, 1, { .verb = SUM, .rows = 2, .size_bytes = 4 * 14336, .loop = weighted ? "weighted" : NULL });
        stage_takes(s, 0, weighted ? 574250000 : 57754000); /* step 10; two rows are made; 57344 B are read */
    }
}

/* A cast costs one row, whether the kernel counts the row whole or in the parts that a GPU's warps take. */
TEST("host casts")
{
    for (uint8_t parts = 1; parts <= 31; parts += 30) {
        g_autofree struct stage *s = host_stage_new(2);
        s->cluster.host.cast = (struct cluster_work){ .row_ps = 300 * PS_PER_NS, .warp_rate_bps = 8000000000 };
        PLAY(s, 0, 1, { .verb = CAST, .rows = parts, .size_bytes = 1000 });
        stage_takes(s, 0, 1310000); /* step 10, row 300, 1000 B at 1 GB/s */
    }
}

/* A word is seen a poll and a step after the store.  Ranks that take turns on one core pay for each change of ranks. */
TEST("host signals")
{
    g_autofree struct stage *s = host_stage_new(2);
    PLAY(s, 0, 1, STORES(1, 1000), SIGNALS(1, 4));
    PLAY(s, 1, 1, WAITS(4));
    stage_takes(s, 0, 1110000);
    CU_ASSERT(took(s, 1, 1220000)); /* a poll of 100 and a step of 10 after rank 0's end */
    uint64_t time_ps[2];
    for (uint32_t i = 0; i < 2; i++) {
        g_autofree struct stage *turns = host_stage_new(1);
        turns->cluster.host.switch_ps = i * 50 * PS_PER_NS;
        PLAY(turns, 0, 1, SIGNALS(1, 1), WAITS(2), SIGNALS(1, 3));
        PLAY(turns, 1, 1, WAITS(1), SIGNALS(0, 2), WAITS(3));
        stage_run(turns);
        time_ps[i] = turns->result[1].time_ps;
    }
    CU_ASSERT(time_ps[1] >= time_ps[0] + 2 * 50 * PS_PER_NS);
}

static struct stage *host_link_new(uint64_t nic_rate_bps)
{
    struct stage *s = host_stage_new(2);
    s->options.ranks_per_node = 1;
    s->cluster.host.put = (struct cluster_curve){ 2, { 0, 1000 }, { 200 * PS_PER_NS, 1200 * PS_PER_NS } };
    s->cluster.host.interrupt_ps = 50 * PS_PER_NS;
    s->cluster.host.signal_ps = 30 * PS_PER_NS;
    s->cluster.nic = (struct cluster_nic){ .gpus_per_nic = 1, .rate_bps = nic_rate_bps, .mtu_bytes = 4096 };
    s->cluster.network.latency_ps = 500 * PS_PER_NS;
    return s;
}

/* Both ends work for a put and for a signal.  The sender works when its doorbell rings.  If a request arrives at an
 * idle core, it costs an interrupt. */
TEST("host puts")
{
    for (int defer = 0; defer < 2; defer++) {
        g_autofree struct stage *s = host_link_new(8000000000);
        PLAY(s, 0, 1, PUTS(1, 1000, .defer = defer), COPIES(1, 1000), SIGNALS(1, 1));
        PLAY(s, 1, 1, WAITS(1));
        stage_takes(s, 0, 2340000); /* step 10 + put (200 + 1000) + copy (100 + 1000) + signal 30 */
        /* The put leaves at 1210, or behind the copy at 2310, and begins to arrive 500 later.  The receiver takes an
         * interrupt of 50 and 1200 for the put, while its bytes arrive in 1000.  The signal arrives meanwhile and takes
         * 30, a poll of 100 and a step of 10. */
        CU_ASSERT(took(s, 1, defer ? 4200000 : 3100000));
    }
}

/* Packets are processed as they arrive.  Behind a slow link, the time of processing is hidden.  Until the packets
 * arrive, the process does other work. */
TEST("host behind a slow link")
{
    g_autofree struct stage *s = host_link_new(800000000);
    PLAY(s, 0, 1, PUTS(1, 1000), SIGNALS(1, 1), WAITS(2));
    PLAY(s, 1, 1, COPIES(1, 2000), { .verb = ADD, .word = 5 }, WAITS(1));
    PLAY(s, 1, 1, WAITS(5), SIGNALS(0, 2));
    stage_takes(s, 1, 11900000);    /* rank 0's step and put 1210 + link 10000 + network 500 + interrupt 50 + signal 30
                                     * + poll 100 + step 10 */
    CU_ASSERT(took(s, 0, 2840000)); /* the word is raised at 2120; then signal 30 + network 500 + interrupt 50 + signal
                                     * 30 + poll 100 + step 10 */
}

TEST("kernel that never ends")
{
    g_autofree struct stage *s = stage_new(3, 3);
    PLAY(s, 0, 1, STORES(1, 10));
    PLAY(s, 1, 1, STORES(0, 10));
    PLAY(s, 1, 1, WAITS(7));
    PLAY(s, 2, 1, WAITS(8));
    g_autoptr(world) world = stage_world(s);
    CU_ASSERT_FALSE(stage_launch(s, world));
    CU_ASSERT_STRING_EQUAL(s->text, "rank 1: player 1 waits for word 7");
}

/* Recording must not change any time, and must record every operation and port. */
TEST("timeline")
{
    g_autoptr(timeline) timeline = timeline_nowhere();
    g_autofree struct stage *s = stage_new(4, 2);
    PLAY(s, 0, 2, STORES(1, 1000), SIGNALS(1, 3), PUTS(2, 1000), SIGNALS(2, 3));
    PLAY(s, 1, 1, WAITS(3));
    PLAY(s, 2, 1, WAITS(3), COPIES(1, 100));
    stage_run(s);
    struct world_result without[RANKS_MAX];
    memcpy(without, s->result, sizeof without);
    s->options.timeline = timeline;
    stage_run(s);
    CU_ASSERT_EQUAL(memcmp(without, s->result, sizeof without), 0);
    /* a store, its egress and its ingress; a signal; the post of a put and of a signal, each sent and received; a
     * copy */
    /* also two arrows; and each of two requests enters and leaves two counters */
    const uint64_t once = 3 + 1 + 2 * 3 + 1 + 2 + 2 * 4;
    CU_ASSERT_EQUAL(timeline_entry_count(timeline), once);
    struct world *world = stage_world(s);
    CU_ASSERT(stage_launch(s, world));
    world_timeline_note(world, "kernel", s->result);
    /* In addition: the kernel on each rank, and the path that decides its time.  No waits are recorded here, so the
     * path is only the last worker's work. */
    CU_ASSERT_EQUAL(timeline_entry_count(timeline), 2 * once + 4 + 1);
    const struct fabric_ops *wrapped = world_fabric(world, 0)->ops;
    world_free(world);
    s->options.timeline = NULL;
    world = stage_world(s);
    CU_ASSERT_PTR_NOT_EQUAL(world_fabric(world, 0)->ops, wrapped); /* without a timeline, the fabric is not wrapped */
    world_timeline_note(world, "kernel", s->result);
    world_free(world);
}

/* With too many workers the run ends with one line of text, before it reads any worker. */
TEST("too many workers")
{
    g_autofree struct stage *s = stage_new(1, 1);
    int status = 0;
    fflush(NULL);
    catch_start();
    const pid_t child = fork();
    if (child == 0) {
        struct fabric_worker **none[] = { NULL };
        struct world *world = stage_world(s);
        (void)world_run(world, none, (const uint32_t[]){ 1 << 22 }, s->result, s->text, sizeof s->text);
        _exit(0);
    }
    CU_ASSERT_FATAL(child > 0 && waitpid(child, &status, 0) == child);
    g_autofree char *text = catch_end();
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CU_ASSERT_STRING_EQUAL(
        text, "eptwin: rank 0: expected at most 4194303 workers (warp groups) in a kernel, found 4194304\n");
}
