/* parts.c - windows, and the threads that run a world's parts in them; see parts.h. */
#include "models/hardware/world/parts.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "models/hardware/nic/nic_mail.h"
#include "models/hardware/world/usage.h"
#include "models/hardware/world/world_internal.h"
#include "sim/progress.h"

/* ---- the window ---- */

/* The shortest window, in simulated time, for which threads pay.  They meet at the end of each window, and a meeting
 * takes microseconds of real time. */
static const uint64_t WINDOW_LEAST_PS = 100 * PS_PER_NS;

/* The shortest latency from a NIC to the network plus the shortest latency from the network to a NIC. */
static uint64_t lines_ps(const struct network *n)
{
    uint64_t out_ps = UINT64_MAX, in_ps = UINT64_MAX;
    for (uint32_t i = 0; i < n->graph->nodes * n->ports_per_node; i++) {
        const uint64_t o = n->link[n->port[i].out].latency_ps, p = n->link[n->port[i].in].latency_ps;
        if (n->port[i].out == n->port[i].in) continue; /* the port is down */
        out_ps = o < out_ps ? o : out_ps;
        in_ps = p < in_ps ? p : in_ps;
    }
    return out_ps == UINT64_MAX ? 0 : out_ps + in_ps;
}

/* The shortest time from the arrival of a signal until it has changed its word, as nic_receive.c computes it. */
static uint64_t applied_ps(const struct world *w)
{
    const struct transport *t = &w->transport;
    if (t->told) return 0; /* a signal alone is a write */
    if (t->receive_ps) return t->receive_ps;
    if (t->atomic_ps) return t->atomic_ps;
    return t->message_ps ? t->message_ps : w->cluster->nic.read_ps;
}

/* The shortest time from a port's turn until the peer sees the get, put or signal that it sends.  A signal is fetched
 * with its request, so it needs no read of a payload. */
static uint64_t window_ps(const struct world *w)
{
    const struct cluster_nic *c = &w->cluster->nic;
    const uint64_t get_ps = c->fetch_ps, signal_ps = c->fetch_ps - c->read_ps + applied_ps(w) + c->deliver_ps;
    return lines_ps(w->network) + (get_ps < signal_ps ? get_ps : signal_ps);
}

const char *parts_why_whole(const struct world *w)
{
    const struct world_options *o = &w->options;
    if (o->ranks <= w->network->graph->gpus) return "all ranks are of one node";
    if (w->cluster->host.cores) return "all ranks of a host share its cores";
    if (w->network->graph->gpus % o->ranks_per_node) return "an NVLink domain reaches into two nodes";
    if (network_buffers_finite(w->network)) return "a full buffer holds back senders at once";
    if (w->transport.order == TRANSPORT_FENCE) return "a signal waits until the source knows of what was before it";
    return window_ps(w) >= WINDOW_LEAST_PS ? NULL : "what is sent is seen too soon";
}

/* ---- threads ---- */

struct crew {
    struct world *whole;
    void (*begin)(struct world *part);
    uint64_t window_ps, events; /* the length of a window; how many events struct progress has been told of */
    atomic_uint threads;        /* 0: not known yet */
    atomic_uint arrived, meetings;
    atomic_uint asleep; /* threads that sleep until the last thread arrives and wakes them */
    atomic_uint *taken; /* [parts] the last window in which a thread took the part to run it */
};

struct member {
    struct crew *crew;
    uint32_t number;
    pthread_t thread;
};

/* Lets the core know that its thread only waits. */
static inline void spin(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits until all threads have called this.  Parts of one window take tens of microseconds more or less than one
 * another, and to wake a sleeper takes as long, so a thread spins for such a time before it sleeps.  It sleeps so that
 * threads without a core of their own can run. */
static void crew_meet(struct crew *c)
{
    enum { SPINS = 1024 }; /* of some 40 ns each */
    const unsigned threads = atomic_load(&c->threads), meeting = atomic_load(&c->meetings);
    if (threads == 1) return;
    if (atomic_fetch_add(&c->arrived, 1) + 1 == threads) {
        atomic_store(&c->arrived, 0);
        atomic_store(&c->meetings, meeting + 1);
        if (atomic_load(&c->asleep)) syscall(SYS_futex, &c->meetings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
        return;
    }
    for (uint32_t spins = 0; spins < SPINS; spins++, spin())
        if (atomic_load(&c->meetings) != meeting) return;
    atomic_fetch_add(&c->asleep, 1);
    while (atomic_load(&c->meetings) == meeting)
        syscall(SYS_futex, &c->meetings, FUTEX_WAIT_PRIVATE, meeting, NULL, NULL, 0);
    atomic_fetch_sub(&c->asleep, 1);
}

static uint64_t soonest_ps(const struct world *whole)
{
    uint64_t soonest = UINT64_MAX;
    for (uint32_t p = 0; p < whole->parts; p++)
        if (whole->part[p]->next_ps < soonest) soonest = whole->part[p]->next_ps;
    return soonest;
}

/* Does, on one thread, the work that follows a window for all parts. */
static void window_end(struct crew *c)
{
    uint64_t events = 0;
    busy_notes_take(c->whole);
    usage_look_until(c->whole->usage, world_latest_ps(c->whole));
    if (!c->whole->options.progress) return;
    for (uint32_t p = 0; p < c->whole->parts; p++) events += sim_event_count(c->whole->part[p]->sim);
    progress_advance(c->whole->options.progress, events - c->events);
    c->events = events;
}

static uint64_t part_next_ps(const struct world *w)
{
    const uint64_t event_ps = sim_next_ps(w->sim, &w->idle), turn_ps = nic_turns_next_ps(w);
    return event_ps < turn_ps ? event_ps : turn_ps;
}

static void part_take(struct world *w, uint64_t end_ps)
{
    w->seen_ps = end_ps;
    nic_mails_take(w);
    w->seen_ps = 0;
}

/* Runs parts until end_ps: those of the thread, whose memory its core may still have in its caches, and then those that
 * no other thread has taken yet. */
static void parts_run_before(struct crew *c, uint32_t self, uint32_t window, uint64_t end_ps)
{
    const struct world *const whole = c->whole;
    const uint32_t threads = atomic_load(&c->threads);
    for (uint32_t i = 0; i < threads; i++) {
        for (uint32_t p = (self + i) % threads; p < whole->parts; p += threads) {
            struct world *w = whole->part[p];
            if (w->next_ps >= end_ps || atomic_load(&c->taken[p]) == window) continue;
            if (atomic_exchange(&c->taken[p], window) == window) continue;
            sim_run_before(w->sim, end_ps, &w->idle);
            nic_turns_take(w, end_ps);
        }
    }
}

/* Runs the window with this number, which ends at end_ps. */
static void parts_window(struct crew *c, uint32_t self, uint32_t window, uint64_t end_ps)
{
    struct world *const whole = c->whole;
    const uint32_t threads = atomic_load(&c->threads);
    parts_run_before(c, self, window, end_ps);
    crew_meet(c);
    for (uint32_t p = self; p < whole->parts; p += threads) {
        mailbox_collect(whole->part[p]->box, whole->boxes, p);
        if (!whole->ways_shared) part_take(whole->part[p], end_ps);
    }
    crew_meet(c);
    if (whole->ways_shared) {
        if (self == 0) nic_mails_way(whole, whole->boxes);
        crew_meet(c);
        for (uint32_t p = self; p < whole->parts; p += threads) part_take(whole->part[p], end_ps);
        crew_meet(c);
    }
    if (self == 0) window_end(c);
    for (uint32_t p = self; p < whole->parts; p += threads) {
        struct world *w = whole->part[p];
        nic_mails_told(w);
        w->next_ps = part_next_ps(w);
    }
    crew_meet(c);
}

static void *crew_work(void *context)
{
    const struct member *m = context;
    struct crew *c = m->crew;
    while (!atomic_load(&c->threads)) sched_yield();
    const struct world *const whole = c->whole;
    const uint32_t threads = atomic_load(&c->threads);
    uint32_t window = 0;
    for (uint32_t p = m->number; p < whole->parts; p += threads) {
        c->begin(whole->part[p]);
        whole->part[p]->next_ps = part_next_ps(whole->part[p]);
    }
    crew_meet(c);
    for (uint64_t from_ps; (from_ps = soonest_ps(c->whole)) < UINT64_MAX;)
        parts_window(c, m->number, ++window, from_ps + c->window_ps);
    return NULL;
}

void parts_run(struct world *whole, void (*begin)(struct world *part))
{
    const uint32_t most = whole->options.timeline ? 1 : whole->options.threads;
    const uint32_t wanted = most < whole->parts ? most : whole->parts;
    struct crew c = { .whole = whole, .begin = begin, .window_ps = window_ps(whole) };
    struct member *member = memory_new((size_t)wanted + 1, sizeof member[0]);
    c.taken = memory_new(whole->parts, sizeof c.taken[0]);
    uint32_t threads = 1;
    for (uint32_t p = 0; p < whole->parts; p++) c.events += sim_event_count(whole->part[p]->sim);
    member[0] = (struct member){ .crew = &c };
    for (; threads < wanted; threads++) {
        member[threads] = (struct member){ .crew = &c, .number = threads };
        if (pthread_create(&member[threads].thread, NULL, crew_work, &member[threads])) break; /* fewer suffice */
    }
    atomic_store(&c.threads, threads);
    (void)crew_work(&member[0]);
    while (--threads) pthread_join(member[threads].thread, NULL);
    free(member);
    free(c.taken);
}
