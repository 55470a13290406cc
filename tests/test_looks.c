/* test_looks.c - does a read of a word in the host's memory wait for other reads of the same 64-byte line?
 *
 * Aim: models/hardware/world/looks.c.  Such a read is called a look.  Method: a few workers of one GPU read words and
 * note when each read is over.  The checks add up the times by hand, in ns: a look takes 1200, and a step 10.  Looks
 * wait in a queue if they are at the same line. */
#include "models/hardware/world/world.h"
#include "sim/units.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

#include <stdio.h>

enum { WORKERS_MAX = 8, WORD = 3, LOOK_NS = 1200, STEP_NS = 10, POLL_NS = 40 };

enum role {
    ONCE,    /* reads once */
    ENDER,   /* joins the queue with one of its warps, and ends when it has read */
    POLLER,  /* reads until WORD has the launch's value, does other work, and reads once more */
    WATCHER, /* waits for WORD's value in the GPU's own memory */
    RAISER,  /* raises WORD */
};

struct looker {
    struct fabric_worker worker;
    enum role role;
    uint32_t place, words;
    uint8_t warps;
    struct site_given other; /* how long the other work lasts */
    uint64_t start_ns;       /* when the worker begins, after the launch */
    uint32_t stage;
    uint64_t seen_ps, again_ps; /* seen_ps: when the first read or wait was over; again_ps: the duration of the second
                                 * read */
};

struct scene {
    uint32_t count, launch;
    uint64_t begin_ps;
    struct looker looker[WORKERS_MAX];
};
static struct scene scene;

static void look(struct looker *l, bool polls)
{
    const struct fabric_work work = { .kind = FABRIC_WORK_SCAN,
                                      .site = polls ? SITE_HOST_WORD_POLL : SITE_HOST_WORD_LOOK,
                                      .argument = l->place,
                                      .warps = l->role == ENDER,
                                      .rows = l->words };
    fabric_work(&l->worker, &work);
}

static uint64_t now_ps(const struct looker *l) { return fabric_now_ps(l->worker.fabric) - scene.begin_ps; }

/* Steps a poller through its stages: read, wait for the word, other work, the second read, end. */
static enum worker_step poller_step(struct looker *l, bool come)
{
    switch (l->stage++) {
    case 0: look(l, true); return WORKER_MORE;
    case 1:
        if (!come) {
            l->stage--;
            return WORKER_WAIT;
        }
        l->seen_ps = now_ps(l);
        fabric_work(&l->worker,
                    &(struct fabric_work){ .kind = FABRIC_WORK_COPY, .site = SITE_ARITHMETIC, .given = &l->other });
        return WORKER_MORE;
    case 2:
        l->again_ps = now_ps(l);
        look(l, false);
        return WORKER_MORE;
    default: l->again_ps = now_ps(l) - l->again_ps; return WORKER_DONE;
    }
}

static enum worker_step looker_step(struct fabric_worker *w)
{
    struct looker *l = fabric_container_of(w, struct looker, worker);
    if (scene.begin_ps == UINT64_MAX) scene.begin_ps = fabric_now_ps(w->fabric);
    const bool come = fabric_load(w->fabric, WORD) == scene.launch;
    const uint64_t start_ps = scene.begin_ps + l->start_ns * PS_PER_NS;
    fabric_wake_at(w, start_ps);
    if (fabric_now_ps(w->fabric) < start_ps) return WORKER_WAIT;
    switch (l->role) {
    case POLLER: return poller_step(l, come);
    case WATCHER:
        if (!come) return WORKER_WAIT;
        l->seen_ps = now_ps(l);
        return WORKER_DONE;
    case RAISER: fabric_signal_add(w, WORD, 1, SITE_NONE); return WORKER_DONE;
    default:
        if (!l->stage++) {
            look(l, l->role == ENDER);
            return WORKER_MORE;
        }
        l->seen_ps = now_ps(l);
        return WORKER_DONE;
    }
}

static void looker_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    snprintf(text, text_size, "looker %u", w->index);
}

static const struct worker_role looker_role = { .step = looker_step, .describe = looker_describe };

static struct looker *looker_add(enum role role, uint32_t place, uint32_t words, uint64_t start_ns)
{
    struct looker *l = &scene.looker[scene.count++];
    *l = (struct looker){ .role = role, .place = place, .words = words, .warps = 1, .start_ns = start_ns };
    l->other.size[0] = 50 * PS_PER_US;
    return l;
}

static void scene_launch(struct world *world)
{
    struct fabric_worker *worker[WORKERS_MAX], **by_rank[1] = { worker };
    struct world_result result[1];
    char text[200];
    scene.launch++;
    scene.begin_ps = UINT64_MAX;
    for (uint32_t i = 0; i < scene.count; i++) {
        struct looker *l = &scene.looker[i];
        l->stage = 0;
        l->worker = fabric_worker_of(world_fabric(world, 0), &looker_role);
        l->worker.index = i & 0x7ffffff;
        l->worker.sm = (uint16_t)i;
        l->worker.warps = l->warps;
        worker[i] = &l->worker;
        if (l->role == POLLER || l->role == WATCHER) fabric_watch(worker[i], WORD, 1, 0);
    }
    CU_ASSERT_TRUE_FATAL(world_run(world, by_rank, &scene.count, result, text, sizeof text));
}

static struct world *world_begin(struct cluster *cluster)
{
    const struct world_options options = { .ranks = 1, .ranks_per_node = 1, .needs = { .word_count = WORD + 1 } };
    scene = (struct scene){ 0 };
    *cluster = support_cluster(1);
    cluster->node.host_look_ps = LOOK_NS * PS_PER_NS;
    cluster->gpu.poll_ps = POLL_NS * PS_PER_NS;
    return world_new(cluster, &options);
}

#define SEEN(looker, ns) CU_ASSERT_EQUAL((looker)->seen_ps, (uint64_t)(ns)*PS_PER_NS)

/* A worker that is alone in the queue takes the time of one read.  If it reads two words one after another, it takes
 * the time of two reads. */
TEST("a look alone")
{
    struct cluster cluster;
    g_autoptr(world) world = world_begin(&cluster);
    const struct looker *one = looker_add(ONCE, 0, 1, 0), *two = looker_add(ONCE, 8, 2, 0);
    scene_launch(world);
    SEEN(one, STEP_NS + LOOK_NS);
    SEEN(two, STEP_NS + 2 * LOOK_NS);
}

/* A worker that polls is always in the queue, with all its warps.  A worker that reads another 64-byte line does not
 * wait behind it. */
TEST("a line")
{
    struct cluster cluster;
    g_autoptr(world) world = world_begin(&cluster);
    looker_add(POLLER, 16, 1, 0)->warps = 4;
    const struct looker *behind = looker_add(ONCE, 23, 1, 20000), *other = looker_add(ONCE, 24, 1, 20000);
    looker_add(RAISER, 0, 0, 90000);
    for (uint32_t launch = 0; launch < 2; launch++) { /* the first launch must leave no worker in the queue */
        scene_launch(world);
        SEEN(behind, 20000 + STEP_NS + 5 * LOOK_NS);
        SEEN(other, 20000 + STEP_NS + LOOK_NS);
    }
}

/* A worker that joins the queue waits behind those that have joined, and leaves it when it ends. */
TEST("lookers that end")
{
    struct cluster cluster;
    g_autoptr(world) world = world_begin(&cluster);
    const struct looker *first = looker_add(ENDER, 0, 1, 0), *second = looker_add(ENDER, 1, 1, 0);
    scene.looker[0].warps = scene.looker[1].warps = 4;
    const struct looker *later = looker_add(ONCE, 2, 1, 20000);
    scene_launch(world);
    SEEN(first, STEP_NS + LOOK_NS);
    SEEN(second, STEP_NS + 2 * LOOK_NS);
    SEEN(later, 20000 + STEP_NS + LOOK_NS);
}

/* Each poller sees a changed word after the time of half of the queue's reads, but not before the time of one read.
 * Then the poller leaves the queue. */
TEST("looks in vain")
{
    struct cluster cluster;
    for (uint32_t pollers = 1; pollers <= 5; pollers += 4) {
        g_autoptr(world) world = world_begin(&cluster);
        const struct looker *watcher = looker_add(WATCHER, 0, 0, 0);
        for (uint32_t i = 0; i < pollers; i++) looker_add(POLLER, i, 1, 0);
        looker_add(RAISER, 0, 0, 30000);
        scene_launch(world);
        const uint64_t half_ns = pollers * LOOK_NS / 2, changed_ps = watcher->seen_ps - POLL_NS * PS_PER_NS;
        for (uint32_t i = 0; i < pollers; i++) {
            const struct looker *l = &scene.looker[1 + i];
            CU_ASSERT_EQUAL(l->seen_ps - changed_ps, (half_ns > LOOK_NS ? half_ns : LOOK_NS) * PS_PER_NS);
            CU_ASSERT_EQUAL(l->again_ps, (STEP_NS + LOOK_NS) * PS_PER_NS);
        }
    }
}
