/* link.c - plans and takes passages over links; see link.h. */
#include "models/hardware/machine/link.h"

#include <assert.h>
#include <stdlib.h>
#include "sim/memory.h"

enum { IDLES_FIRST = 16, IDLES_MAX = 4096 }; /* idle times of a link; both are powers of two */

/* ---- idle times ---- */

static struct idle *idle_at(const struct idles *idles, uint32_t place)
{
    return &idles->idle[(idles->first + place) & (idles->max - 1)];
}

static void idles_grow(struct idles *idles)
{
    const uint32_t max = idles->max ? 2 * idles->max : IDLES_FIRST;
    struct idle *grown = memory_new(max, sizeof *grown);
    for (uint32_t i = 0; i < idles->count; i++) grown[i] = *idle_at(idles, i);
    free(idles->idle);
    *idles = (struct idles){ grown, 0, idles->count, max };
}

/* Inserts an idle time at a place.  If there are too many, the soonest one is dropped. */
static void idle_insert(struct idles *idles, uint32_t place, struct idle idle)
{
    assert(place <= idles->count && idles->count <= idles->max);
    if (idle.from_ps >= idle.to_ps) return;
    if (idles->count == idles->max && idles->max < IDLES_MAX) idles_grow(idles);
    if (idles->count == idles->max) {
        if (!place) return;
        idles->first = (idles->first + 1) & (idles->max - 1);
        idles->count--;
        place--;
    }
    for (uint32_t i = idles->count++; i > place; i--) *idle_at(idles, i) = *idle_at(idles, i - 1);
    *idle_at(idles, place) = idle;
}

static void idle_remove(struct idles *idles, uint32_t place)
{
    assert(place < idles->count);
    for (uint32_t i = place; i + 1 < idles->count; i++) *idle_at(idles, i) = *idle_at(idles, i + 1);
    idles->count--;
}

/* Returns when a link begins to take bytes that arrive at come_ps and keep it busy for service_ps. */
static uint64_t link_start(const struct link_state *s, uint64_t come_ps, uint64_t service_ps)
{
    if (!s->idles || come_ps >= s->port.free_ps) return later(come_ps, s->port.free_ps);
    for (uint32_t i = 0; i < s->idles->count; i++) {
        const struct idle *idle = idle_at(s->idles, i);
        const uint64_t start_ps = later(come_ps, idle->from_ps);
        if (start_ps + service_ps <= idle->to_ps) return start_ps;
    }
    return s->port.free_ps;
}

/* Keeps the link busy for service_ps from start_ps on. blocked: the next link has no room, so the bytes stay on this
 * link until start_ps, and nothing else can use this link before that time. */
static void link_occupy(struct link_state *s, uint64_t now_ps, uint64_t start_ps, uint64_t service_ps, bool blocked)
{
    struct idles *idles = s->idles;
    if (!idles || start_ps >= s->port.free_ps) {
        if (idles && !blocked)
            idle_insert(idles, idles->count, (struct idle){ later(s->port.free_ps, now_ps), start_ps });
        s->port.free_ps = later(s->port.free_ps, start_ps + service_ps);
        return;
    }
    while (idles->count && idle_at(idles, 0)->to_ps <= now_ps) {
        idles->first = (idles->first + 1) & (idles->max - 1);
        idles->count--;
    }
    for (uint32_t i = 0; i < idles->count; i++) {
        const struct idle idle = *idle_at(idles, i);
        if (start_ps < idle.from_ps || start_ps + service_ps > idle.to_ps) continue;
        idle_remove(idles, i);
        idle_insert(idles, i, (struct idle){ start_ps + service_ps, idle.to_ps });
        idle_insert(idles, i, (struct idle){ idle.from_ps, start_ps });
        return;
    }
    s->port.free_ps = later(s->port.free_ps, start_ps + service_ps);
}

void idles_free(struct idles *idles)
{
    if (idles) free(idles->idle);
    free(idles);
}

/* ---- passages ---- */

void passage_plan(const struct link_state *state, struct passage *p, uint64_t size_bytes, uint64_t head_ps)
{
    uint64_t come_ps = head_ps, room_ps = UINT64_MAX;
    p->push_ps = p->wait_ps = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct link_state *s = &state[p->link[i]];
        p->start_ps[i] = p->ready_ps[i] = link_start(s, come_ps, s->idles ? rate_time(s->rate, size_bytes) : 0);
        p->wait_ps = later(p->wait_ps, p->start_ps[i] - come_ps);
        if (s->wait_max_ps < room_ps) room_ps = s->wait_max_ps;
        come_ps = p->start_ps[i] + s->latency_ps;
    }
    if (p->wait_ps <= room_ps) return;
    for (uint32_t i = p->count; i-- > 0;) {
        const struct link_state *s = &state[p->link[i]];
        come_ps = i ? p->start_ps[i - 1] + state[p->link[i - 1]].latency_ps : head_ps;
        const uint64_t wait_ps = p->start_ps[i] - come_ps;
        const uint64_t push_ps = wait_ps > s->wait_max_ps ? wait_ps - s->wait_max_ps : 0;
        if (i) p->start_ps[i - 1] += push_ps;
        else p->push_ps = push_ps;
    }
}

uint64_t passage_queue_bytes(const struct link_state *state, const struct passage *p, uint32_t place, uint64_t head_ps)
{
    const struct link_state *s = &state[p->link[place]];
    const uint64_t come_ps =
        place ? p->start_ps[place - 1] + state[p->link[place - 1]].latency_ps : head_ps + p->push_ps;
    if (p->start_ps[place] <= come_ps || !s->rate) return 0;
    return (uint64_t)(((unsigned __int128)(p->start_ps[place] - come_ps) << 20) / s->rate);
}

uint64_t passage_take(struct link_state *state, const struct passage *p, uint64_t size_bytes, uint64_t tail_ps)
{
    for (uint32_t i = 0; i < p->count; i++) {
        struct link_state *s = &state[p->link[i]];
        const uint64_t service_ps = rate_time(s->rate, size_bytes), end_ps = p->start_ps[i] + service_ps;
        const uint64_t taken_ps = p->hold_alone ? p->ready_ps[i] : p->start_ps[i];
        link_occupy(s, p->now_ps, taken_ps, service_ps, p->start_ps[i] > p->ready_ps[i] && !p->hold_alone);
        s->port.busy_ps += service_ps;
        s->port.bytes += size_bytes;
        tail_ps = later(tail_ps, end_ps) + s->latency_ps;
    }
    return tail_ps;
}
