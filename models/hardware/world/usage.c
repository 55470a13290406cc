/* usage.c - reads the state of ports from time to time, and says what each port did between two such looks.
 *
 * A port knows its total busy time and the time until which it is busy.  Work after the time of a look is not done yet.
 * It counts in later looks: in each of them, at most the time since the previous look. */
#include "models/hardware/world/usage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "models/hardware/machine/link.h"
#include "sim/memory.h"
#include "sim/units.h"

struct watched {
    const struct port *port;
    enum world_usage_kind kind;
    bool worked;
    uint64_t seen_ps, done_ps; /* its busy time at the last look; how much of that was done then */
};

struct usage {
    struct sim_event event;
    struct watched *watched;
    uint32_t watched_count, watched_max;
    uint64_t begin_ps, interval_ps, due_ps, last_ps, events; /* due_ps: of the next look */
    uint64_t total_ps[WORLD_USAGE_KINDS];
    uint32_t count;
    struct {
        uint64_t time_ps, total_ps[WORLD_USAGE_KINDS];
    } look[WORLD_USAGE_MAX + 1]; /* one of these looks is at the program's end */
};

static const uint64_t FIRST_INTERVAL_PS = 100 * PS_PER_NS;

void usage_watch(struct usage *u, const struct port *port, enum world_usage_kind kind)
{
    if (u->watched_count == u->watched_max) {
        u->watched_max = u->watched_max ? 2 * u->watched_max : 1024;
        u->watched = memory_grow(u->watched, u->watched_max, sizeof u->watched[0]);
    }
    u->watched[u->watched_count++] = (struct watched){ .port = port, .kind = kind };
}

/* What a port has done since the last look. */
static uint64_t port_done(struct watched *p, uint64_t now_ps, uint64_t since_ps)
{
    const uint64_t busy_ps = p->port->busy_ps;
    const uint64_t ahead_ps = p->port->free_ps > now_ps ? p->port->free_ps - now_ps : 0;
    const uint64_t done_ps = busy_ps > ahead_ps ? busy_ps - ahead_ps : 0;
    if (busy_ps < p->seen_ps) p->done_ps = 0; /* a launch has set the port's busy time to 0 */
    p->seen_ps = busy_ps;
    uint64_t more_ps = done_ps > p->done_ps ? done_ps - p->done_ps : 0;
    if (more_ps > now_ps - since_ps) more_ps = now_ps - since_ps;
    p->done_ps += more_ps;
    p->worked |= more_ps > 0;
    return more_ps;
}

static void look(struct usage *u, uint64_t now_ps)
{
    if (now_ps <= u->last_ps) return;
    for (uint32_t i = 0; i < u->watched_count; i++)
        u->total_ps[u->watched[i].kind] += port_done(&u->watched[i], now_ps, u->last_ps);
    assert(u->count <= WORLD_USAGE_MAX);
    u->look[u->count].time_ps = now_ps;
    memcpy(u->look[u->count++].total_ps, u->total_ps, sizeof u->total_ps);
    u->last_ps = now_ps;
}

void usage_look_until(struct usage *u, uint64_t until_ps)
{
    for (; u && u->due_ps <= until_ps; u->due_ps += u->interval_ps) {
        look(u, u->due_ps);
        if (u->count < WORLD_USAGE_MAX) continue;
        for (uint32_t i = 0; i < WORLD_USAGE_MAX / 2; i++) u->look[i] = u->look[2 * i + 1];
        u->count /= 2;
        u->interval_ps *= 2;
    }
}

void usage_event_run(struct sim *sim, struct sim_event *event)
{
    struct usage *u = fabric_container_of(event, struct usage, event);
    u->events++;
    usage_look_until(u, sim_now_ps(sim));
    sim_schedule_at(sim, event, u->due_ps);
}

struct usage *usage_new(uint8_t kind)
{
    struct usage *u = memory_new(1, sizeof *u);
    u->event.kind = kind;
    return u;
}

void usage_free(struct usage *u)
{
    if (!u) return;
    free(u->watched);
    free(u);
}

void usage_begin(struct usage *u, uint64_t now_ps, struct sim *sim)
{
    u->watched_count = u->count = 0;
    memset(u->total_ps, 0, sizeof u->total_ps);
    u->begin_ps = u->last_ps = now_ps;
    u->interval_ps = FIRST_INTERVAL_PS;
    u->due_ps = u->begin_ps + u->interval_ps;
    if (!sim) return;
    if (sim_event_pending(&u->event)) sim_reschedule_at(sim, &u->event, u->due_ps);
    else sim_schedule_at(sim, &u->event, u->due_ps);
}

void usage_end(struct usage *u, uint64_t now_ps)
{
    if (u) look(u, now_ps);
}

uint32_t usage_idle(const struct usage *u) { return u && sim_event_pending(&u->event); }

uint64_t usage_events(const struct usage *u) { return u ? u->events : 0; }

uint32_t usage_shares(const struct usage *u, enum world_usage_kind kind, double share[WORLD_USAGE_MAX + 1],
                      uint64_t *interval_ps)
{
    uint64_t parts = 0, time_ps = u->begin_ps, total_ps = 0;
    for (uint32_t i = 0; i < u->watched_count; i++) parts += u->watched[i].worked && u->watched[i].kind == kind;
    *interval_ps = u->interval_ps;
    for (uint32_t i = 0; parts && i < u->count; i++) {
        const uint64_t more_ps = u->look[i].total_ps[kind] - total_ps, width_ps = u->look[i].time_ps - time_ps;
        share[i] = (double)more_ps / (double)width_ps / (double)parts;
        assert(share[i] <= 1 + 1e-9);
        total_ps += more_ps;
        time_ps += width_ps;
    }
    return parts ? u->count : 0;
}

const char *world_usage_name(enum world_usage_kind kind)
{
    static const char *const name[WORLD_USAGE_KINDS] = { "sm",     "hbm",    "nvlink_egress", "nvlink_ingress",
                                                         "nic_tx", "nic_rx", "link",          "core" };
    assert(kind < WORLD_USAGE_KINDS);
    return name[kind];
}
