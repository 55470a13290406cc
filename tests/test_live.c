/* test_live.c - the live world without its data path, which the conformance suite tests.  Tests how peers are reached,
 * barriers, runs that hang, options and shapes that cannot work, and that nothing stays behind.
 *
 * Method: threads make ranks and one thread steps them.  Where processes matter, ranks are real processes. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "replay/live_internal.h"
#include "tests/support_bootstrap.h"
#include "tests/support_catch.h"
#include "tests/support_live.h"
#include "tests/unit.h"

enum { RANKS = 4, WORDS = 16, HEAP_BYTES = 1 << 16 };

static const struct fabric_needs small = { HEAP_BYTES, WORDS, 2, 4, 0, false };

static struct live_options options_make(const char *link, uint32_t ranks_per_node)
{
    struct live_options options = support_options(link, ranks_per_node);
    options.timeout_ms = 200;
    return options;
}

/* ---- paths ---- */

TEST("paths")
{
    const struct live_options options = options_make("shm", 2);
    struct bootstrap **b = support_bootstraps_new(RANKS);
    struct live_world *world[RANKS] = { NULL };
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &small, b, RANKS, world, NULL));
    const struct fabric *f = live_world_fabric(world[1]);
    CU_ASSERT_EQUAL(fabric_path(f, 1), FABRIC_SELF);
    CU_ASSERT_EQUAL(fabric_path(f, 0), FABRIC_NVLINK);
    CU_ASSERT_EQUAL(fabric_path(f, 2), FABRIC_RDMA);
    CU_ASSERT_TRUE(f->payload);
    CU_ASSERT_EQUAL(f->rank, 1);
    CU_ASSERT_EQUAL(f->heap_bytes, HEAP_BYTES);
    CU_ASSERT_EQUAL(live_world_local_ranks(world[1]), RANKS);
    CU_ASSERT(live_world_cpus(world[1]) >= 1);
    CU_ASSERT_STRING_EQUAL(live_world_failure(world[1]), "");
    for (uint32_t rank = 0; rank < RANKS; rank++) live_world_free(world[rank]);
    support_bootstraps_free(b, RANKS);
}

/* Each index gets a CPU of the set.  After the last CPU, the first one follows again. */
TEST("bound to CPUs")
{
    cpu_set_t all, one, seen;
    CU_ASSERT_FATAL(sched_getaffinity(0, sizeof all, &all) == 0);
    const uint32_t count = (uint32_t)CPU_COUNT(&all);
    CPU_ZERO(&seen);
    for (uint32_t i = 0; i < 2 * count; i++) {
        CU_ASSERT(live_cpu_bind(&all, i) && sched_getaffinity(0, sizeof one, &one) == 0);
        CU_ASSERT_EQUAL(CPU_COUNT(&one), 1);
        CPU_OR(&seen, &seen, &one);
        CU_ASSERT_EQUAL(CPU_COUNT(&seen), (int)MIN(i + 1, count));
    }
    CU_ASSERT(CPU_EQUAL(&seen, &all));
    sched_setaffinity(0, sizeof all, &all);
}

/* ---- worlds that cannot be made ---- */

TEST("options refused")
{
    struct live_options options = options_make("pigeon", 1);
    support_worlds_refused(&options, &small, "fabric: expected shm, verbs or ofi, found 'pigeon'");
    options = options_make("shm", 0);
    support_worlds_refused(&options, &small, "ranks-per-node: expected at least 1, found 0");
    options = options_make("shm", 1);
    options.gpu_memory = true;
    support_worlds_refused(&options, &small, "gpu-memory: expected --fabric verbs");
    options.gpu_memory = false;
    const struct fabric_needs no_queue = { HEAP_BYTES, WORDS, 0, 4, 0, false },
                              huge = { UINT64_C(1) << 60, WORDS, 2, 4, 0, false };
    support_worlds_refused(&options, &no_queue, "at least one queue of depth 1");
    support_worlds_refused(&options, &huge, "shared memory: expected 1152921504606");
}

/* Only one rank fails.  The others must learn that, and which rank it is. */
static bool refuse_one(struct bootstrap *b, void *context)
{
    GError **error = context;
    const struct live_options options = options_make("shm", 1);
    struct fabric_needs needs = small;
    if (b->rank == 2) needs.heap_bytes = UINT64_C(1) << 60;
    struct live_world *world = live_world_new(&options, &needs, b, &error[b->rank]);
    live_world_free(world);
    return world != NULL;
}

TEST("one rank refused")
{
    struct bootstrap **b = support_bootstraps_new(RANKS);
    GError *error[RANKS] = { NULL };
    CU_ASSERT_EQUAL(support_bootstraps_run(b, RANKS, refuse_one, error), RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(error[rank]);
        CU_ASSERT_PTR_NOT_NULL(strstr(error[rank]->message, "rank 2: shared memory"));
        g_error_free(error[rank]);
    }
    support_bootstraps_free(b, RANKS);
}

/* Ranks that ask for different shapes must not map each other. */
static bool refuse_shape(struct bootstrap *b, void *context)
{
    (void)context;
    const struct live_options options = options_make("shm", 1);
    struct fabric_needs needs = small;
    needs.heap_bytes += b->rank * 4096;
    g_autoptr(GError) error = NULL;
    struct live_world *world = live_world_new(&options, &needs, b, &error);
    live_world_free(world);
    return error && strstr(error->message, "shared memory of rank");
}

TEST("shapes differ")
{
    struct bootstrap **b = support_bootstraps_new(2);
    CU_ASSERT_EQUAL(support_bootstraps_run(b, 2, refuse_shape, NULL), 0);
    support_bootstraps_free(b, 2);
}

/* ---- runs ---- */

struct waiter {
    struct fabric_worker worker;
    uint32_t steps, steps_done; /* 0 steps: without end */
};

static enum worker_step waiter_step(struct fabric_worker *w)
{
    struct waiter *waiter = fabric_container_of(w, struct waiter, worker);
    waiter->steps_done++;
    if (!waiter->steps) {
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .rows = 1 }); /* reads a word, as a worker that
                                                                                       * polls does */
        return WORKER_WAIT;
    }
    return waiter->steps_done < waiter->steps ? WORKER_MORE : WORKER_DONE;
}

static void waiter_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    snprintf(text, text_size, "the count of rank %u", w->fabric->rank + 7);
}

static const struct worker_role waiter_role = { .step = waiter_step, .describe = waiter_describe };

/* Workers that are done are not stepped again.  A worker that waits for ever, even if it reads meanwhile, ends the run,
 * and the error has that worker's description. */
TEST("hang")
{
    const struct live_options options = options_make(NULL, 8);
    struct bootstrap **b = support_bootstraps_new(1);
    struct live_world *world = NULL;
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &small, b, 1, &world, NULL));
    struct waiter waiter[3] = { { .steps = 5 }, { .steps = 0 }, { .steps = 1 } };
    struct fabric_worker *workers[3];
    for (uint32_t i = 0; i < 3; i++) {
        waiter[i].worker = fabric_worker_of(live_world_fabric(world), &waiter_role);
        waiter[i].worker.index = i;
        workers[i] = &waiter[i].worker;
    }
    GError *error = NULL;
    CU_ASSERT_FALSE(live_world_run(world, workers, 3, &error));
    CU_ASSERT(error_is(&error, "rank 0: no progress for 200 ms: 1 of 3 workers left, worker 1: the count of rank 7"));
    CU_ASSERT_EQUAL(waiter[0].steps_done, 5);
    CU_ASSERT_EQUAL(waiter[2].steps_done, 1);
    waiter[1].steps = waiter[1].steps_done + 3;
    CU_ASSERT_TRUE(live_world_run(world, workers + 1, 1, &error));
    CU_ASSERT_EQUAL(waiter[1].steps_done, waiter[1].steps);
    CU_ASSERT_TRUE(live_world_run(world, NULL, 0, &error));
    live_world_free(world);
    support_bootstraps_free(b, 1);
}

/* ---- barriers, between real processes ---- */

static int barrier_child(struct bootstrap *b, void *context)
{
    const struct live_options options = options_make(context, 3);
    struct live_options patient = options;
    patient.timeout_ms = 20000;
    struct live_world *world = live_world_new(&patient, &small, b, NULL);
    if (!world) return 3;
    struct fabric *f = live_world_fabric(world);
    struct fabric_worker worker = { .fabric = f };
    int status = 0;
    for (uint32_t round = 1; round <= 100 && status == 0; round++) {
        /* Each rank signals that it came, then enters the barrier.  After the barrier, the signals of all ranks must be
         * there. */
        for (uint16_t peer = 0; peer < f->rank_count && status == 0; peer++) {
            const struct fabric_signal signal = { .value = round, .word = f->rank, .peer = peer };
            int rc;
            while ((rc = fabric_signal(&worker, &signal)) == -EAGAIN)
                if (live_world_progress(world) < 0) status = 4;
            if (rc < 0) status = 4;
            while (fabric_flush(&worker, peer, 0) == -EAGAIN)
                if (live_world_progress(world) < 0) status = 4;
        }
        if (!live_world_barrier(world, NULL)) status = 5;
        for (uint32_t rank = 0; rank < f->rank_count; rank++)
            if (fabric_load(f, rank) < round) status = 6;
    }
    if (!bootstrap_barrier(b, NULL)) status = 7;
    live_world_free(world);
    return status;
}

TEST("barrier")
{
    CU_ASSERT_EQUAL(bootstrap_fork_run(1, 20000, barrier_child, NULL), 0);
    CU_ASSERT_EQUAL(bootstrap_fork_run(5, 20000, barrier_child, NULL), 0);
    CU_ASSERT_EQUAL(bootstrap_fork_run(6, 20000, barrier_child, "shm"), 0);
    CU_ASSERT_EQUAL(bootstrap_fork_run(8, 20000, barrier_child, NULL), 0);
}

/* A barrier to which one rank never comes names that rank. */
TEST("barrier alone")
{
    const struct live_options options = options_make(NULL, 8);
    struct bootstrap **b = support_bootstraps_new(2);
    struct live_world *world[2] = { NULL };
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &small, b, 2, world, NULL));
    GError *error = NULL;
    CU_ASSERT_FALSE(live_world_barrier(world[0], &error));
    CU_ASSERT(error_holds(&error, "barrier: waits for rank 1"));
    for (uint32_t rank = 0; rank < 2; rank++) live_world_free(world[rank]);
    support_bootstraps_free(b, 2);
}

/* A kernel of one world ends while its link still holds data for which a peer waits.  Then only the rank's other world
 * runs.  The first link must still be polled, even during an exchange. */
TEST("two worlds")
{
    const struct live_options options = options_make("shm", 1);
    struct bootstrap **b = support_bootstraps_new(2);
    struct live_world *first[2] = { NULL }, *second[2] = { NULL };
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &small, b, 2, first, NULL));
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &small, b, 2, second, NULL));
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct live_world **sends = turn ? first : second, **runs = turn ? second : first;
        struct fabric_worker sender = fabric_worker_of(live_world_fabric(sends[0]), &waiter_role);
        struct waiter waiter = { fabric_worker_of(live_world_fabric(runs[0]), &waiter_role), 3, 0 };
        struct fabric_worker *worker = &waiter.worker;
        CU_ASSERT_EQUAL(fabric_signal(&sender, &(struct fabric_signal){ .value = 7, .word = 3, .peer = 1 }), 0);
        CU_ASSERT_EQUAL(fabric_load(live_world_fabric(sends[1]), 3), 0);
        CU_ASSERT_TRUE(live_world_run(runs[0], &worker, 1, NULL));
        CU_ASSERT_EQUAL(fabric_load(live_world_fabric(sends[1]), 3), 7);
        CU_ASSERT_EQUAL(fabric_signal(&sender, &(struct fabric_signal){ .value = 8, .word = 3, .peer = 1 }), 0);
        while (b[0]->serve(b[0]->serve_context)) continue;
        CU_ASSERT_EQUAL(fabric_load(live_world_fabric(sends[1]), 3), 8);
    }
    live_world_free(first[0]);
    CU_ASSERT_PTR_EQUAL(b[0]->serve_context, second[0]);
    live_world_free(second[0]);
    CU_ASSERT_PTR_NULL(b[0]->serve);
    live_world_free(second[1]);
    CU_ASSERT_PTR_EQUAL(b[1]->serve_context, first[1]);
    live_world_free(first[1]);
    support_bootstraps_free(b, 2);
}

/* ---- the rank that holds up a run, between real processes ---- */

struct stuck {
    struct fabric_worker worker;
    const char *says;
};

static enum worker_step stuck_step(struct fabric_worker *w)
{
    (void)w;
    return WORKER_WAIT;
}

static void stuck_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    snprintf(text, text_size, "%s", fabric_container_of(w, struct stuck, worker)->says);
}

static const struct worker_role stuck_role = { .step = stuck_step, .describe = stuck_describe };

/* What the two workers of each rank wait for, and the rank that must be found at fault. */
static const struct stuck_case {
    const char *says[4][2];
    const char *expected;
} stuck_cases[] = {
    { { { "sender to rank 3 waits for free slots", "receiver waits for rank 1" },
        { "forwarder to rank 0 waits for rank 2" },
        { "has no room on the queue to rank 3" },
        { "waits for its own senders" } },
      "eptwin: rank 3 holds up the run: " },
    { { { "counter waits for rank 2" }, { "waits for rank 0" }, { "stops" }, { "waits for rank 0" } },
      "eptwin: rank 2 holds up the run: stopped by a signal" },
    { { { "waits for its senders", "reducer waits for row 7 of rank 1 from rank 3" },
        { "waits for rank -1" },
        { "waits for rank 0" },
        { "waits for rank 0" } },
      "eptwin: rank 1 holds up the run: " },
};

static int stuck_child(struct bootstrap *b, void *context)
{
    const struct stuck_case *c = context;
    struct live_options options = options_make(NULL, 8);
    options.timeout_ms = b->rank == 0 ? 300 : 20000;
    struct live_world *world = live_world_new(&options, &small, b, NULL);
    if (!world) return 3;
    struct stuck stuck[2];
    struct fabric_worker *workers[2];
    uint32_t count = 0;
    if (strcmp(c->says[b->rank][0], "stops") == 0) raise(SIGSTOP);
    for (; count < 2 && c->says[b->rank][count]; count++) {
        stuck[count] =
            (struct stuck){ fabric_worker_of(live_world_fabric(world), &stuck_role), c->says[b->rank][count] };
        stuck[count].worker.index = count;
        workers[count] = &stuck[count].worker;
    }
    g_autoptr(GError) error = NULL;
    const bool ran = live_world_run(world, workers, count, &error);
    const bool heard = !ran && g_error_matches(error, BOOTSTRAP_ERROR, BOOTSTRAP_PEER_FAILED);
    live_world_free(world);
    return heard ? 1 : 9;
}

TEST("root of a hang")
{
    for (size_t i = 0; i < G_N_ELEMENTS(stuck_cases); i++) {
        struct stuck_case c = stuck_cases[i];
        g_autofree char *text = fork_text(4, 20000, stuck_child, &c, 1);
        ASSERT_CONTAINS(text, c.expected);
        ASSERT_CONTAINS(text, " workers left, worker ");
    }
}

/* ---- nothing stays ---- */

static uint32_t descriptors_count(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* Returns the number of mappings of ranks' memory in this process. */
static uint32_t mappings_count(void)
{
    g_autofree char *maps = NULL;
    CU_ASSERT_TRUE_FATAL(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
    uint32_t count = 0;
    for (const char *at = maps; (at = strstr(at, "memfd:eptwin-rank")); at++) count++;
    return count;
}

/* A world has no name in the file system, so closing its descriptors and mappings leaves nothing of it. */
TEST("nothing left")
{
    const struct live_options options = options_make("shm", 1);
    struct bootstrap **b = support_bootstraps_new(RANKS);
    const uint32_t descriptors = descriptors_count();
    struct live_world *world[RANKS] = { NULL };
    CU_ASSERT_EQUAL(mappings_count(), 0);
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &small, b, RANKS, world, NULL));
    CU_ASSERT_EQUAL(descriptors_count(), descriptors + RANKS);
    CU_ASSERT_EQUAL(mappings_count(), RANKS * RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) live_world_free(world[rank]);
    CU_ASSERT_EQUAL(descriptors_count(), descriptors);
    CU_ASSERT_EQUAL(mappings_count(), 0);
    support_bootstraps_free(b, RANKS);
}

/* ---- memory that is not the peer's ---- */

/* The fields of a rank's message about its memory: host[96], then process, descriptor, device, inode and size. */
enum { HELLO_FIELD = 96, FIELD_DEVICE = 2, FIELD_INODE = 3, FIELD_SIZE = 4 };

struct liar {
    struct bootstrap base;
    struct bootstrap *inner;
    uint32_t exchange, field;
};

/* Rank 1 reports one fact about its memory wrongly, as if its descriptor had become another object. */
static bool liar_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct liar *liar = (struct liar *)b;
    g_autofree uint8_t *said = g_memdup2(in, size_bytes);
    if (liar->exchange++ == 1 && b->rank == 1) said[HELLO_FIELD + 8 * liar->field] ^= 1;
    return bootstrap_allgather(liar->inner, said, size_bytes, out, error);
}

static const struct bootstrap_ops liar_ops = { .name = "liar", .allgather = liar_allgather };

static bool liar_refused(struct bootstrap *b, void *context)
{
    struct liar liar = {
        { .ops = &liar_ops, .rank = b->rank, .rank_count = b->rank_count }, b, 0, *(const uint32_t *)context
    };
    const struct live_options options = options_make("shm", 1);
    g_autoptr(GError) error = NULL;
    struct live_world *world = live_world_new(&options, &small, &liar.base, &error);
    live_world_free(world);
    return !world && error && strstr(error->message, "rank 0: shared memory of rank 1") &&
           strstr(error->message, "Stale file handle");
}

TEST("memory of somebody else")
{
    for (uint32_t field = FIELD_DEVICE; field <= FIELD_SIZE; field++) {
        struct bootstrap **b = support_bootstraps_new(2);
        CU_ASSERT_EQUAL(support_bootstraps_run(b, 2, liar_refused, &field), 0);
        support_bootstraps_free(b, 2);
    }
}

/* ---- the time until a hang is reported ---- */

/* Rank 0 hangs for its timeout.  Rank 1 waits in an exchange, which would fail after 1.7 times that.  The hang must be
 * reported before. */
static int punctual_child(struct bootstrap *b, void *context)
{
    (void)context;
    struct live_options options = options_make(NULL, 8);
    options.timeout_ms = 1000;
    struct live_world *world = live_world_new(&options, &small, b, NULL);
    if (!world) return 3;
    struct stuck stuck = { fabric_worker_of(live_world_fabric(world), &stuck_role), "waits for the end" };
    struct fabric_worker *worker = &stuck.worker;
    const bool fine = b->rank == 0 ? live_world_run(world, &worker, 1, NULL) : bootstrap_barrier(b, NULL);
    live_world_free(world);
    return fine ? 0 : 1;
}

TEST("a hang is told in time")
{
    fork_says(2, 1700, punctual_child, NULL, 1, "eptwin: rank 0 holds up the run: no progress for 1000 ms");
}

/* ---- a link that fails because its peer dies ---- */

/* Rank 0's link fails at once.  If `dies`, rank 1 is killed 50 ms later. */
static int widowed_child(struct bootstrap *b, void *context)
{
    const bool *dies = context;
    const struct live_options options = options_make("shm", 1);
    struct live_world *world = live_world_new(&options, &small, b, NULL);
    if (!world) return 3;
    struct stuck stuck = { fabric_worker_of(live_world_fabric(world), &stuck_role), "waits for the end" };
    struct fabric_worker *worker = &stuck.worker;
    g_autoptr(GError) error = NULL;
    if (b->rank == 0) {
        live_broken(world, -EIO);
        if (!live_world_run(world, &worker, 1, &error) &&
            !g_error_matches(error, BOOTSTRAP_ERROR, BOOTSTRAP_PEER_FAILED))
            bootstrap_abort(b, error->message);
    } else if (*dies) {
        g_usleep(50000);
        raise(SIGKILL);
    } else {
        bootstrap_barrier(b, NULL);
    }
    live_world_free(world);
    return 1;
}

TEST("the dead peer of a failed link is named")
{
    bool dies = true;
    fork_says(2, 20000, widowed_child, &dies, 1, "eptwin: rank 1 was killed by signal 9");
    dies = false;
    fork_says(2, 20000, widowed_child, &dies, 1, "eptwin: rank 0 gave up: rank 0: Input/output error");
}
