/* nic.c - the NIC: takes requests in the order of their doorbells, sends one after another, receives what others send.
 *
 *   post ─► QP's held list ─doorbell─► NIC list ─► tx port ─fetch, network─► rx port of the peer ─► visible
 *
 * Order on a QP is kept because tx and rx serve first come, first served.  Knows nothing of who posts. */
#include "models/hardware/world_internal.h"

#include <assert.h>
#include <string.h>

struct qp *nic_qp(struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    assert(peer < rank->fabric.rank_count && queue < rank->fabric.queue_count);
    return &rank->qp[(uint32_t)peer * rank->fabric.queue_count + queue];
}

uint64_t nic_wire_bytes(const struct cluster_nic *nic, uint64_t size_bytes)
{
    const uint64_t packets = size_bytes ? (size_bytes + nic->mtu_bytes - 1) / nic->mtu_bytes : 1;
    return size_bytes + packets * nic->header_bytes;
}

static void request_visible(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    struct request *r = fabric_container_of(event, struct request, event);
    struct world_rank *target = r->target;
    const uint32_t word = r->word;
    const uint64_t value = r->value;
    world_request_put(target->world, r);
    world_word_deliver(target, word, value, false);
}

/* The source learns of it one way later: its QP has room, its window opens, its flush may return. */
static void request_complete(struct request *r, uint64_t visible_ps)
{
    struct world *w = r->source->world;
    struct qp *qp = nic_qp(r->source, r->target->fabric.rank, r->queue);
    const uint64_t known_ps = visible_ps + w->cluster->network.latency_ps;
    if (known_ps > qp->done_ps) qp->done_ps = known_ps;
    qp->outstanding--;
    world_space_wake(r->source, known_ps);
    struct nic *nic = r->source->nic;
    nic->outstanding_bytes -= r->wire_bytes;
    if (!nic->stalled) return;
    nic->stalled = false;
    if (!sim_event_pending(&nic->event)) sim_schedule_at(w->sim, &nic->event, known_ps);
}

static void request_arrived(struct sim *sim, struct sim_event *event)
{
    struct request *r = fabric_container_of(event, struct request, event);
    struct world *w = r->target->world;
    const uint64_t now = sim_now_ps(sim);
    uint64_t in_ps = port_reserve(&r->target->nic->rx, now, rate_time(w->nic_rate, r->wire_bytes), r->wire_bytes);
    if (w->cluster->host.cores) in_ps = host_receive(r->target, in_ps, r->signal ? 0 : r->wire_bytes);
    const uint64_t visible_ps = in_ps + w->cluster->nic.deliver_ps;
    if (r->payload_bytes) {
        assert(r->target_offset + r->payload_bytes <= r->target->fabric.heap_bytes);
        memcpy(r->target->fabric.heap + r->target_offset, r->payload, r->payload_bytes);
    }
    request_complete(r, visible_ps);
    if (!r->signal) {
        world_request_put(w, r);
        return;
    }
    r->event.run = request_visible;
    sim_schedule_at(sim, &r->event, visible_ps);
}

static void nic_send_next(struct sim *sim, struct sim_event *event)
{
    struct nic *nic = fabric_container_of(event, struct nic, event);
    struct request *r = nic->first;
    if (!r) return;
    struct world *w = r->source->world;
    const struct cluster_nic *c = &w->cluster->nic;
    const uint64_t now = sim_now_ps(sim);
    if (r->ready_ps > now) {
        sim_schedule_at(sim, event, r->ready_ps);
        return;
    }
    if (c->window_bytes && nic->outstanding_bytes && nic->outstanding_bytes + r->wire_bytes > c->window_bytes) {
        nic->stalled = true;
        return;
    }
    nic->first = r->next;
    nic->outstanding_bytes += r->wire_bytes;
    const uint64_t service_ps = (r->signal ? c->signal_ps : c->message_ps) + rate_time(w->nic_rate, r->wire_bytes);
    const uint64_t sent_ps = port_reserve(&nic->tx, now, service_ps, r->wire_bytes);
    r->event.run = request_arrived;
    sim_schedule_at(sim, &r->event, now + c->fetch_ps + w->cluster->network.latency_ps);
    if (nic->first) sim_schedule_at(sim, event, sent_ps);
}

void nic_init(struct nic *nic)
{
    nic->event.run = nic_send_next;
}

static void list_append(struct nic *nic, struct request *first, struct request *last)
{
    if (nic->first) nic->last->next = first;
    else nic->first = first;
    nic->last = last;
}

void nic_ring(struct world_rank *source, struct qp *qp, uint64_t ready_ps)
{
    struct world *w = source->world;
    struct nic *nic = source->nic;
    for (struct request *held = qp->held_first; held; held = held->next) held->ready_ps = ready_ps;
    const bool idle = !nic->first && !nic->stalled;
    list_append(nic, qp->held_first, qp->held_last);
    qp->held_first = qp->held_last = NULL;
    if (!idle || sim_event_pending(&nic->event)) return;
    sim_schedule_at(w->sim, &nic->event, nic->tx.free_ps > ready_ps ? nic->tx.free_ps : ready_ps);
}

void nic_post(struct request *r, uint64_t ready_ps, bool defer)
{
    struct world_rank *source = r->source;
    const uint16_t peer = r->target->fabric.rank;
    struct qp *qp = nic_qp(source, peer, r->queue);
    world_bisection_note(source->world, source->fabric.rank, peer, r->wire_bytes);
    qp->outstanding++;
    r->next = NULL;
    if (qp->held_first) qp->held_last->next = r;
    else qp->held_first = r;
    qp->held_last = r;
    if (!defer) nic_ring(source, qp, ready_ps);
}
