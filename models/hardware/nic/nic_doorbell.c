/* nic_doorbell.c - requests are posted on a QP, held back, and handed to its port when the doorbell rings.  Puts of
 * equal sizes that store nothing are posted as a train.  Knows nothing of how a port sends. */
#include "models/hardware/nic/nic_internal.h"
#include "models/hardware/world/causes.h"
#include "models/hardware/world/world_timeline.h"

void nic_rings_take(struct nic *nic, uint64_t now_ps)
{
    const struct world *w = nic->world;
    for (; nic->ring_count; nic->ring_count--) {
        struct request *const last = nic_ring_soonest(nic);
        if (last->ring_ps > now_ps) return;
        struct qp *const qp = qp_at(w, last->qp);
        const arena_name first = last->next;
        nic->ring_first = (nic->ring_first + 1) & (nic->ring_max - 1);
        last->next = 0;
        if (qp->ready_last) request_at(w, qp->ready_last)->next = first;
        else nic_active_add(nic, request_at(w, first));
        qp->ready_last = request_name(w, last);
    }
}

/* The place of a doorbell behind those that ring no later.  Most doorbells are posted in the order in which they
 * ring. */
static uint32_t ring_place(const struct nic *nic, uint64_t time_ps)
{
    const struct world *w = nic->world;
    const uint32_t mask = nic->ring_max - 1;
    uint32_t low = 0, high = nic->ring_count;
    for (uint32_t at = high - 1; low < high; at = (low + high) / 2) {
        if (request_at(w, nic->ring[(nic->ring_first + at) & mask])->ring_ps <= time_ps) low = at + 1;
        else high = at;
    }
    return low;
}

void nic_ring_add(struct nic *nic, struct request *last, uint64_t time_ps)
{
    if (nic->ring_count == nic->ring_max) nic->ring = nic_queue_grow(nic->ring, &nic->ring_first, &nic->ring_max);
    const uint32_t mask = nic->ring_max - 1, place = ring_place(nic, time_ps);
    uint32_t to = nic->ring_first + nic->ring_count++;
    for (const uint32_t end = nic->ring_first + place; to != end; to--)
        nic->ring[to & mask] = nic->ring[(to - 1) & mask];
    last->ring_ps = time_ps;
    nic->ring[to & mask] = request_name(nic->world, last);
    if (!nic->stalled) nic_turn_schedule(nic);
}

/* Schedules the doorbell for ready_ps, but no sooner than the QP's earlier doorbells.  Their posters may have been
 * slower than this one's. */
static void ring_schedule(const struct world *w, struct request *last, uint64_t ready_ps)
{
    struct qp *qp = qp_at(w, last->qp);
    qp_ring_after(qp, ready_ps);
    nic_ring_add(nic_of(w, last), last, qp->ring_ps);
}

void nic_ring(struct world_rank *source, struct qp *qp)
{
    const struct world *w = source->world;
    struct request *last = request_at(w, qp->held_last), *first = request_at(w, last->next), *next;
    qp->held_last = 0;
    if (!w->machine->send) {
        ring_schedule(w, last, sim_now_ps(w->sim)); /* a flush may ring for requests posted earlier */
        return;
    }
    for (struct request *r = first; r; r = next) {
        next = r == last ? NULL : request_at(w, r->next);
        r->next = request_name(w, r); /* the request gets a doorbell of its own */
        ring_schedule(w, r, w->machine->send(source, r));
    }
}

/* Joins r to `last`, the QP's last posted request, whose doorbell has not rung. `last` must be a put that stores
 * nothing and has no signal.  If r has a signal or another size, it ends the train.  With a timeline there are no
 * trains, because it shows each request.  A host has none, because it spends time on each request.  Returns false if r
 * stays a request of its own. */
static bool train_join(struct world *w, struct request *last, struct request *r)
{
    const uint32_t put_bytes = last->leads ? last->put_bytes : last->wire_bytes;
    if (w->options.timeline || w->machine->send) return false;
    if (!last->put || last->signal || (!last->leads && last->parcel) || last->wire_bytes != put_bytes) return false;
    if (r->parcel || r->get || last->queue != r->queue) return false;
    if (!last->leads) last->puts = 0;
    last->puts++;
    last->put_bytes = put_bytes;
    last->leads = true;
    last->wire_bytes = r->wire_bytes;
    last->word = r->word;
    last->value = r->value;
    last->places = r->places;
    last->put = r->put;
    last->signal = r->signal;
    last->add = r->add;
    last->polled = r->polled;
    world_request_free(w, r);
    return true;
}

void nic_post(struct world_rank *source, struct qp *qp, struct request *r, uint64_t ready_ps, bool defer)
{
    struct world *w = source->world;
    struct request *const held = request_at(w, qp->held_last);
    r->qp = arena_name_of(&w->arena, qp);
    struct qp *const room = nic_room(source, qp, r->queue);
    qp->unknown += r->places;
    if (room != qp) room->unknown += r->places;
    room->unacked += w->queue_depth ? r->places : 0;
    if (!held || !train_join(w, held, r)) {
        const arena_name name = request_name(w, r);
        r->next = held ? held->next : name;
        if (held) held->next = name;
        qp->held_last = name;
    }
    if (!w->machine->send) qp_ring_after(qp, ready_ps);
    if (w->record) causes_post(w->record->causes, r);
    if (!defer) nic_ring(source, qp);
}
