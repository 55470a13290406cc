/* live_run.c - the loop that steps the workers of a rank and polls its links, until all workers are done or none can
 * go on. */
#include "replay/live_internal.h"

#include <assert.h>
#include <string.h>
#include <time.h>
#include "models/waits.h"
#include "sim/units.h"

enum {
    LIVE_SPIN_ROUNDS = 300, /* rounds without progress, some us, after which a rank with a CPU of its own yields */
    LIVE_CLOCK_ROUNDS = 64, /* rounds without progress from one reading of the clock to the next */
    LIVE_SLEEP_SHARE = 16,  /* the rank sleeps for 1/16 of the time that it has been idle */
};
static const uint64_t LIVE_SLEEP_AFTER_PS = 5000 * PS_PER_US;   /* after this idle time the rank may sleep */
static const uint64_t LIVE_SLEEP_MAX_PS = 1000 * PS_PER_US;     /* longest sleep at a time */
static const uint64_t LIVE_CHECK_AFTER_PS = 100000 * PS_PER_US; /* an idle rank checks this often whether another
                                                                 * has died */

const char *live_world_failure(const struct live_world *world)
{
    if (!world->broken) return "";
    return world->link && world->link->failure[0] ? world->link->failure : g_strerror(-world->broken);
}

int live_world_progress(struct live_world *world)
{
    if (!world->link) return 0;
    if (!world->polls_timed) return live_broken(world, world->link->ops->progress(world->link));
    const uint64_t start_ps = live_now_ps(&world->fabric);
    const int rc = live_broken(world, world->link->ops->progress(world->link));
    if (rc > 0) world->polled_ps += live_now_ps(&world->fabric) - start_ps;
    return rc;
}

bool live_worlds_progress(struct live_world *first)
{
    bool moved = false;
    for (struct live_world *world = first; world; world = world->next) moved |= live_world_progress(world) > 0;
    return moved;
}

void live_world_time_polls(struct live_world *world, bool on) { world->polls_timed = on; }
uint64_t live_world_polled_ps(const struct live_world *world) { return world->polled_ps; }

/* Waits after a round without progress.  If the host has a CPU for every rank, the rank spins at first, because the
 * awaited data may come within a few hundred nanoseconds.  After that, or if ranks share CPUs, the rank yields to the
 * ranks for which it waits.  After a long idle time it sleeps.  A rank that wakes up takes a CPU from a rank that
 * works, so it sleeps the longer, the longer it has been idle. */
static void live_wait(const struct live_world *world, uint64_t idle_rounds, uint64_t idle_ps)
{
    if (world->local_ranks <= world->cpu_count && idle_rounds < LIVE_SPIN_ROUNDS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb" ::: "memory");
#endif
    } else if (idle_ps < LIVE_SLEEP_AFTER_PS) {
        sched_yield();
    } else {
        const uint64_t sleep_ps = MIN(idle_ps / LIVE_SLEEP_SHARE, LIVE_SLEEP_MAX_PS);
        const struct timespec sleep_time = { .tv_nsec = (long)(sleep_ps / PS_PER_NS) };
        nanosleep(&sleep_time, NULL);
    }
}

/* Steps each active worker once, and keeps those that are not done, in order.  Then polls the links of all worlds of
 * this rank.  The link of a kernel that has ended may still hold messages for which other ranks wait. */
static bool live_round(struct live_world *world, uint32_t *active_count)
{
    const uint64_t before = world->operations;
    bool moved = false;
    uint32_t kept = 0;
    world->wake_ps = 0;
    for (uint32_t i = 0; i < *active_count; i++) {
        struct fabric_worker *w = world->active[i];
        assert(w->fabric->rank == world->fabric.rank); /* the worker's fabric may be one that wraps world->fabric */
        const enum worker_step step = fabric_worker_step(w);
        moved |= step != WORKER_WAIT;
        if (step != WORKER_DONE) world->active[kept++] = w;
    }
    assert(kept <= *active_count);
    *active_count = kept;
    moved |= live_worlds_progress(live_worlds(world->bootstrap));
    return moved || world->operations != before;
}

static void live_peer_add(struct bootstrap_wait *wait, uint16_t peer)
{
    for (uint32_t i = 0; i < wait->peer_count; i++)
        if (wait->peer[i] == peer) return;
    if (wait->peer_count < BOOTSTRAP_WAIT_PEERS) wait->peer[wait->peer_count++] = peer;
}

/* Tells which peers the workers wait for.  The text describes the first worker that names a peer or, if no worker does,
 * the first worker. */
static void live_tell(void *context, struct bootstrap_wait *wait)
{
    const struct live_world *world = context;
    *wait = (struct bootstrap_wait){ .serial = world->runs };
    for (uint32_t i = 0; i < world->active_count; i++) {
        const struct fabric_worker *w = world->active[i];
        char text[200] = "";
        fabric_worker_describe(w, text, sizeof text);
        const int32_t peer = waits_peer(text, world->fabric.rank_count);
        const bool named = peer != WAITS_NOBODY && peer != world->fabric.rank;
        if (!wait->text[0] || (named && !wait->peer_count))
            g_snprintf(wait->text, sizeof wait->text, "%u of %u workers left, worker %u: %s", world->active_count,
                       world->worker_count, w->index, text[0] ? text : "(silent)");
        if (named) live_peer_add(wait, (uint16_t)peer);
        if (!named && waits_anybody(text)) wait->anybody = true;
    }
}

static bool live_hang(struct live_world *world, GError **error)
{
    struct bootstrap_wait wait, mine;
    live_tell(world, &mine);
    wait = mine;
    g_snprintf(wait.text, sizeof wait.text, "no progress for %u ms: %.*s", world->options.timeout_ms,
               (int)sizeof mine.text - 40, mine.text);
    return bootstrap_hang(world->bootstrap, &wait, error);
}

/* Ends the run of a rank because a link of its world `broken` has failed. */
static bool live_fail(struct live_world *world, const struct live_world *broken, GError **error)
{
    if (!bootstrap_watch(world->bootstrap, error)) return false;
    return error_run(error, "rank %u: %s", world->fabric.rank, live_world_failure(broken));
}

static bool live_run_active(struct live_world *world, uint32_t active_count, GError **error)
{
    const uint64_t timeout_ps = world->options.timeout_ms * UINT64_C(1000) * PS_PER_US;
    uint64_t idle_rounds = 0, idle_since_ps = 0, idle_ps = 0, check_ps = LIVE_CHECK_AFTER_PS;
    while (active_count) {
        const bool moved = live_round(world, &active_count);
        world->active_count = active_count;
        const struct live_world *broken = live_worlds(world->bootstrap);
        while (broken && !broken->broken) broken = broken->next;
        if (broken) return live_fail(world, broken, error);
        if (moved) {
            idle_rounds = 0;
            continue;
        }
        if (idle_rounds == 0) {
            idle_ps = 0;
            check_ps = LIVE_CHECK_AFTER_PS;
            idle_since_ps = live_now_ps(&world->fabric);
        } else if (idle_rounds % LIVE_CLOCK_ROUNDS == 0 || idle_ps >= LIVE_SLEEP_AFTER_PS) {
            idle_ps = live_now_ps(&world->fabric) - idle_since_ps;
            const bool wakes = world->wake_ps > live_now_ps(&world->fabric); /* a wait that ends at a known time is
                                                                              * not a hang */
            if (idle_ps > timeout_ps && !wakes) return live_hang(world, error);
            if (idle_ps > check_ps) {
                if (!bootstrap_check(world->bootstrap, error)) return false;
                check_ps = idle_ps + LIVE_CHECK_AFTER_PS;
            }
        }
        live_wait(world, idle_rounds++, idle_ps);
    }
    return true;
}

bool live_world_run(struct live_world *world, struct fabric_worker **workers, uint32_t worker_count, GError **error)
{
    if (worker_count > world->active_max) {
        world->active = g_renew(struct fabric_worker *, world->active, worker_count);
        world->active_max = worker_count;
    }
    if (worker_count) memcpy(world->active, workers, sizeof *workers * worker_count);
    struct bootstrap *b = world->bootstrap;
    assert(!b->tell); /* only one run at a time */
    world->runs++;
    world->active_count = world->worker_count = worker_count;
    b->tell = live_tell;
    b->tell_context = world;
    const bool fine = live_run_active(world, worker_count, error);
    b->tell = NULL;
    assert(!fine || world->active_count == 0);
    return fine;
}

/* Steps a worker that makes a barrier.  In round k, a rank signals rank + 2^k and waits for rank - 2^k.  Each word
 * has one writer, which raises it once in each barrier. */
static enum worker_step live_barrier_step(struct fabric_worker *w)
{
    struct live_barrier *barrier = fabric_container_of(w, struct live_barrier, worker);
    const struct fabric *f = w->fabric;
    while ((UINT32_C(1) << barrier->seen) < f->rank_count) {
        const uint32_t word = f->word_count + barrier->seen;
        assert(barrier->seen < LIVE_BARRIER_WORDS && barrier->posted - barrier->seen <= 1);
        if (barrier->posted == barrier->seen) {
            const struct fabric_signal signal = {
                .value = barrier->generation,
                .word = word,
                .peer = (uint16_t)((f->rank + (UINT32_C(1) << barrier->seen)) % f->rank_count),
            };
            if (fabric_signal(w, &signal) < 0) return WORKER_WAIT;
            barrier->posted++;
        }
        if (fabric_load(f, word) < barrier->generation) return WORKER_WAIT;
        /* A peer is at most one barrier ahead, because its next barrier needs this rank. */
        assert(fabric_load(f, word) <= barrier->generation + 1);
        barrier->seen++;
    }
    return WORKER_DONE;
}

static void live_barrier_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct live_barrier *barrier = fabric_container_of(w, struct live_barrier, worker);
    const struct fabric *f = w->fabric;
    const uint32_t step = (UINT32_C(1) << barrier->seen) % f->rank_count;
    g_snprintf(text, (gulong)text_size, "barrier: waits for rank %u", (f->rank + f->rank_count - step) % f->rank_count);
}

static const struct worker_role live_barrier_role = { .step = live_barrier_step, .describe = live_barrier_describe };

bool live_world_barrier(struct live_world *world, GError **error)
{
    struct live_barrier *barrier = &world->barrier;
    barrier->worker = fabric_worker_of(&world->fabric, &live_barrier_role);
    barrier->generation++;
    barrier->posted = barrier->seen = 0;
    struct fabric_worker *worker = &barrier->worker;
    return live_world_run(world, &worker, 1, error);
}
