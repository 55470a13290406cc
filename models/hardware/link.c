/* link.c - plans and takes passages over links; see link.h. */
#include "models/hardware/link.h"

static inline uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

void passage_plan(const struct link_state *state, struct passage *p, uint64_t head_ps)
{
    uint64_t come_ps = head_ps, room_ps = UINT64_MAX;
    p->push_ps = p->wait_ps = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct link_state *s = &state[p->link[i]];
        p->start_ps[i] = p->ready_ps[i] = later(come_ps, s->port.free_ps);
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
        s->port.free_ps = later(s->port.free_ps, taken_ps + service_ps);
        s->port.busy_ps += service_ps;
        s->port.bytes += size_bytes;
        tail_ps = later(tail_ps, end_ps) + s->latency_ps;
    }
    return tail_ps;
}
