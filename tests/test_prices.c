/* test_prices.c - is each operation of an SM priced in exactly one way, whatever its site?
 *
 * Aim: models/hardware/sm.  Method: at each site of the shipped sheets, a worker of an H200 does each operation that
 * the form of the site's line permits.  There are several ways of pricing, each with keys of its own.  The keys of one
 * way after another are made 1000 times dearer.  An operation must then take longer with the keys of exactly one way.
 * Any operation may wait for loads, too.  A scan without a program only does that:
 * it must take longer with the keys of loads, and with no others.  A scan of a peer's memory takes longer with the key
 * of the path to the peer, a get with that and those of programs, a scan of the host's memory with no key of the GPU.
 */
#include "models/cluster.h"
#include "models/kernels/loops.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

#include <stdio.h>

enum way { SUMS, WORDS, PROGRAMS, PEERS, LOADS, WAYS };
enum { STORE = FABRIC_WORK_KINDS, GET, KINDS, ADD = KINDS, DEAR = 1000 };

struct one {
    struct fabric_worker worker;
    struct site_given given; /* all sizes that a line may name */
    enum site site;
    uint32_t
        kind; /* a value of enum fabric_work_kind; STORE, to a peer; GET, from a peer; ADD, to a word of its rank */
    bool done;
};

static enum worker_step one_step(struct fabric_worker *w)
{
    struct one *one = fabric_container_of(w, struct one, worker);
    enum { ROWS = 4, BYTES = 8192 };
    const struct fabric_work work = { .kind = (enum fabric_work_kind)one->kind,
                                      .site = (uint8_t)one->site,
                                      .given = &one->given,
                                      .rows = ROWS,
                                      .read_bytes = ROWS * BYTES,
                                      .write_bytes = ROWS * BYTES };
    const struct fabric_write write = {
        .site = (uint8_t)one->site, .given = &one->given, .peer = 1, .rows = ROWS, .charge_bytes = ROWS * BYTES
    };
    const struct fabric_read read = { .site = (uint8_t)one->site, .peer = 1, .charge_bytes = ROWS * BYTES };
    if (one->done) return WORKER_DONE;
    one->done = true;
    switch (one->kind) {
    case ADD: fabric_signal_add(w, 0, 1, one->site); break;
    case STORE: CU_ASSERT_EQUAL(fabric_store(w, &write), 0); break;
    case GET: CU_ASSERT_EQUAL(fabric_get(w, &read), 0); break;
    default: fabric_work(w, &work); break;
    }
    return WORKER_MORE;
}

static struct loop loop_of(enum site site)
{
    struct loop loop = { 0 };
    if (site) loops_make(loops_shipped(), site, (const uint64_t[SITE_SIZES]){ 64, 64, 64, 64 }, &loop);
    return loop;
}

static uint64_t time_of(const struct cluster *cluster, enum site site, uint32_t kind)
{
    static const struct worker_role role = { .step = one_step };
    const struct world_options options = { .ranks = 2, .ranks_per_node = 2, .needs = { .word_count = 1 } };
    struct world *world = MADE(world_new(cluster, &options));
    struct fabric *f = world_fabric(world, 0);
    struct one one = {
        .worker = fabric_worker_of(f, &role), .given.size = { 64, 64, 64, 64 }, .site = site, .kind = kind
    };
    one.worker.warps = loop_of(site).one_by_one ? 1 : 4;
    struct fabric_worker *worker = &one.worker, **workers[2] = { &worker, NULL };
    struct world_result result[2];
    char text[100];
    CU_ASSERT_TRUE_FATAL(world_run(world, workers, (const uint32_t[]){ 1, 0 }, result, text, sizeof text));
    world_free(world);
    return result[0].time_ps;
}

static void dearer(struct cluster *cluster, enum way way)
{
    enum { KEYS = 5 };
    struct cluster_gpu *gpu = &cluster->gpu;
    uint64_t *const times[WAYS][KEYS] = { [SUMS] = { &gpu->stretch_ps },
                                          [PROGRAMS] = { &gpu->cycle_ps, &gpu->access_ps, &gpu->engine.turn_ps },
                                          [PEERS] = { &cluster->nvlink.peek_ps },
                                          [LOADS] = { &gpu->load_ps, &gpu->load_again_ps, &gpu->load_l1_ps,
                                                      &gpu->load_l2_ps, &gpu->scan_row_ps } };
    uint64_t *const rates[WAYS][KEYS] = {
        [SUMS] = { &gpu->reduce_made_sm_rate_bps }, [WORDS] = { &gpu->hbm_rows_rate_bps }
    };
    for (int i = 0; i < KEYS; i++) {
        if (times[way][i]) *times[way][i] *= DEAR;
        if (rates[way][i]) *rates[way][i] /= DEAR;
    }
}

/* Whether a line of that form permits an operation of that kind. */
static bool permits(const struct loop *loop, uint32_t kind)
{
    if (kind == GET || loop->peer) return loop->peer && kind == (loop->program ? GET : (uint32_t)FABRIC_WORK_SCAN);
    if (loop->host) return kind == FABRIC_WORK_SCAN;
    if (loop->staged) return kind == STORE;
    if (loop->to_shared) return kind == FABRIC_WORK_COPY;
    return loop->program || (kind != STORE && kind != FABRIC_WORK_CAST);
}

TEST("one way for each operation")
{
    g_autoptr(cluster) base = cluster_load("models/clusters/h200.ini", NULL);
    uint32_t operations = 0, scans = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(base);
    base->gpu.l2_rate_bps = 0; /* programs and bulk rows share this key, so it is left out */
    for (uint32_t site = SITE_NONE + 1; site < SITES; site++) {
        const struct loop loop = loop_of((enum site)site);
        const bool counted = loop.sum_cycles || loop.stretch_row_cycles || loop.chase; /* the line gives cycles */
        if (loop.engine >= LOOP_COPY) continue;                                        /* no work of SMs */
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            if (!permits(&loop, kind)) continue;
            const uint64_t usual_ps = time_of(base, (enum site)site, kind);
            uint32_t ways = 0;
            for (enum way way = SUMS; way < WAYS; way++) {
                struct cluster dear = *base;
                dearer(&dear, way);
                ways |= (uint32_t)(time_of(&dear, (enum site)site, kind) > usual_ps) << way;
            }
            if (counted) ways &= ~(1u << PROGRAMS);
            const bool loads = kind == FABRIC_WORK_SCAN && !loop.program && !loop.peer;
            const uint32_t one = ways & ~(1u << LOADS | (kind == GET ? 1u << PEERS : 0));
            bool good = one && !(one & (one - 1));
            if (kind == GET) good &= ways >> PEERS & 1;
            if (loads) good = ways == (loop.host ? 0 : 1u << LOADS);
            if (loop.program && kind == FABRIC_WORK_SCAN) { /* without bytes, so that some programs do nothing */
                good = !(one & ~(1u << PROGRAMS));
                scans += one != 0;
            }
            if (!good) printf("\n      %s, operation %u: ways %x\n", loops_site_name((enum site)site), kind, ways);
            CU_ASSERT(good);
            operations++;
        }
    }
    CU_ASSERT(operations >= SITES - SITE_NONE - 2);
    CU_ASSERT(scans > 0);
}

/* An addition costs what an atomic of the whole GPU costs, or nothing if its line says that it is something else. */
TEST("additions")
{
    g_autoptr(cluster) base = cluster_load("models/clusters/h200.ini", NULL);
    uint32_t free_of_charge = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(base);
    struct cluster dear = *base;
    dear.gpu.release_ps *= DEAR;
    for (uint32_t site = SITE_NONE; site < SITES; site++) {
        const struct loop loop = loop_of((enum site)site);
        const bool dearer = time_of(&dear, (enum site)site, ADD) > time_of(base, (enum site)site, ADD);
        CU_ASSERT_EQUAL(dearer, loop.adds == LOOP_ADDS_GPU);
        free_of_charge += !dearer;
    }
    CU_ASSERT_EQUAL(free_of_charge, 12);
}
