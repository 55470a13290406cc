/* nic_turns.c - a port's lists: the QPs that take turns at it, and the window that acknowledgements open again.  Does
 * not know what is sent in a turn. */
#include "models/hardware/nic/nic_internal.h"

#include <assert.h>
#include <stdlib.h>

/* ---- credits: an acknowledgement gives window bytes back ---- */

static void credit_push(struct nic *nic, struct credit credit)
{
    if (nic->credit_count == nic->credit_max) {
        nic->credit_max = nic->credit_max ? 2 * nic->credit_max : 64;
        nic->credit = memory_grow(nic->credit, nic->credit_max, sizeof nic->credit[0]);
    }
    uint32_t place = nic->credit_count++;
    for (; place && nic->credit[(place - 1) / 2].time_ps > credit.time_ps; place = (place - 1) / 2)
        nic->credit[place] = nic->credit[(place - 1) / 2];
    nic->credit[place] = credit;
}

static void credit_pop(struct nic *nic)
{
    assert(nic->credit_count > 0);
    const struct credit last = nic->credit[--nic->credit_count];
    uint32_t place = 0;
    for (uint32_t child = 1; child < nic->credit_count; child = 2 * place + 1) {
        if (child + 1 < nic->credit_count && nic->credit[child + 1].time_ps < nic->credit[child].time_ps) child++;
        if (nic->credit[child].time_ps >= last.time_ps) break;
        nic->credit[place] = nic->credit[child];
        place = child;
    }
    if (nic->credit_count) nic->credit[place] = last;
}

static void nic_wake(struct nic *nic, uint64_t time_ps)
{
    if (nic->apart) return;
    if (!sim_event_pending(&nic->event)) sim_schedule_at(nic->world->sim, &nic->event, time_ps);
    else if (time_ps < sim_event_time_ps(&nic->event)) sim_reschedule_at(nic->world->sim, &nic->event, time_ps);
}

bool nic_window_open(struct nic *nic, uint64_t size_bytes, uint64_t now_ps)
{
    const uint64_t window_bytes = nic->world->transport.window_bytes;
    while (nic->credit_count && nic->credit[0].time_ps <= now_ps) {
        assert(nic->outstanding_bytes >= nic->credit[0].size_bytes); /* credits return only what was sent */
        nic->outstanding_bytes -= nic->credit[0].size_bytes;
        credit_pop(nic);
    }
    if (nic->outstanding_bytes + size_bytes <= window_bytes) return true;
    nic->stalled = true;
    if (nic->credit_count) nic_wake(nic, nic->credit[0].time_ps);
    return false;
}

void nic_credit_return(struct nic *nic, uint32_t size_bytes, uint64_t time_ps)
{
    if (!nic->world->transport.window_bytes) return;
    credit_push(nic, (struct credit){ time_ps, size_bytes });
    if (nic->stalled) nic_wake(nic, nic->credit[0].time_ps);
}

/* ---- whose turn it is ---- */

arena_name *nic_queue_grow(arena_name *queue, uint32_t *first, uint32_t *max)
{
    const uint32_t count = *max;
    *max = count ? 2 * count : NIC_QUEUE_FIRST;
    arena_name *grown = memory_grow(NULL, *max, sizeof *grown);
    for (uint32_t i = 0; i < count; i++) grown[i] = queue[(*first + i) & (count - 1)];
    free(queue);
    *first = 0;
    return grown;
}

void nic_active_add(struct nic *nic, const struct request *first)
{
    if (nic->active_count == nic->active_max)
        nic->active = nic_queue_grow(nic->active, &nic->active_first, &nic->active_max);
    nic->active[(nic->active_first + nic->active_count++) & (nic->active_max - 1)] = request_name(nic->world, first);
}

void nic_active_take(struct nic *nic)
{
    assert(nic->active_count > 0);
    nic->active_first = (nic->active_first + 1) & (nic->active_max - 1);
    nic->active_count--;
}

uint64_t nic_turn_ps(const struct nic *nic)
{
    if (nic->stalled) return nic->credit_count ? nic->credit[0].time_ps : UINT64_MAX;
    const uint64_t free_ps = nic->line ? nic->line->port.free_ps : nic->turned.free_ps;
    if (nic->active_count) return free_ps;
    return nic->ring_count ? later(nic_ring_soonest(nic)->ring_ps, free_ps) : UINT64_MAX;
}

void nic_turn_schedule(struct nic *nic)
{
    if (nic->apart || (!nic->active_count && !nic->ring_count)) return;
    nic_wake(nic, later(sim_now_ps(nic->world->sim), nic_turn_ps(nic)));
}
