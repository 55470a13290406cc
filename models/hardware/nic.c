/* nic.c - the NIC: sends the requests of its QPs, receives what others send.
 *
 *   post ─► QP's held list ─doorbell─► QP's ready list ─► tx port ─fetch, network─► rx port of the peer ─► visible
 *
 * Each time it sends, it picks one of the QPs that have something, each alike (from a seed: hardware arbitrates
 * between QPs, in an order that is not documented and that no two ranks share), and sends its first request.  Order
 * on a QP is kept because lists, tx and rx serve first come, first served.  Knows nothing of who posts. */
#include "models/hardware/world_internal.h"

#include <assert.h>
#include <stdlib.h>
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
    const bool add = r->add;
    world_request_put(target->world, r);
    world_word_deliver(target, word, value, add);
}

/* The NIC may have that many bytes more on their way, from known_ps on if it waits for room. */
static void window_open(struct nic *nic, uint32_t wire_bytes, uint64_t known_ps)
{
    nic->outstanding_bytes -= wire_bytes;
    if (!nic->stalled) return;
    nic->stalled = false;
    if (!sim_event_pending(&nic->event)) sim_schedule_at(nic->world->sim, &nic->event, known_ps);
}

/* The source learns of it one way later: its QP has room, its window opens, its flush may return. */
static void request_complete(struct request *r, uint64_t visible_ps)
{
    struct world *w = r->source->world;
    struct world_rank *poster = r->answer ? r->target : r->source, *peer = r->answer ? r->source : r->target;
    struct qp *qp = nic_qp(poster, peer->fabric.rank, r->queue);
    const uint64_t known_ps = visible_ps + (r->answer ? 0 : w->cluster->network.latency_ps);
    if (known_ps > qp->done_ps) qp->done_ps = known_ps;
    qp->outstanding -= r->places;
    world_space_wake(poster, known_ps);
    window_open(r->source->nic, r->wire_bytes, known_ps);
}

static void qp_ring(struct request *first, struct request *last);

static void answer_ring(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    struct request *r = fabric_container_of(event, struct request, event);
    qp_ring(r, r);
}

/* A get has come in: the peer's NIC answers it alone, as with a put the other way; on a host its CPU does. */
static void get_answer(struct sim *sim, struct request *r, uint64_t in_ps)
{
    struct world_rank *const poster = r->source;
    window_open(poster->nic, r->wire_bytes, in_ps);
    r->source = r->target;
    r->target = poster;
    r->wire_bytes = r->answer_bytes;
    r->get = false;
    r->answer = true;
    r->event.run = answer_ring;
    if (r->source->world->cluster->host.cores) in_ps = host_receive(r->source, in_ps, r);
    sim_schedule_at(sim, &r->event, in_ps);
}

static void request_in(struct sim *sim, struct request *r, uint64_t in_ps)
{
    struct world *w = r->target->world;
    const uint64_t visible_ps = in_ps + w->cluster->nic.deliver_ps;
    if (r->get) {
        get_answer(sim, r, in_ps);
        return;
    }
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

/* A host works on packets as they come in: where its CPU is free, it is done with the last one. */
static void request_received(struct sim *sim, struct sim_event *event)
{
    struct request *r = fabric_container_of(event, struct request, event);
    const uint64_t done_ps = host_receive(r->target, sim_now_ps(sim), r);
    request_in(sim, r, done_ps > r->in_ps ? done_ps : r->in_ps);
}

static void request_arrived(struct sim *sim, struct sim_event *event)
{
    struct request *r = fabric_container_of(event, struct request, event);
    struct world *w = r->target->world;
    const uint64_t now = sim_now_ps(sim);
    const uint64_t service_ps = rate_time(w->in_rate, r->wire_bytes);
    const uint64_t in_ps = port_reserve(&r->target->nic->rx, now, service_ps, r->wire_bytes);
    if (w->options.timeline) spans_nic_note(r, false, in_ps - service_ps, in_ps);
    if (!w->cluster->host.cores) {
        request_in(sim, r, in_ps);
        return;
    }
    const uint64_t work_ps = host_link_ps(r);
    r->in_ps = in_ps;
    r->event.run = request_received;
    sim_schedule_at(sim, &r->event, in_ps - (work_ps < service_ps ? work_ps : service_ps));
}

/* Takes the next request of some QP. */
static struct request *nic_pick(struct nic *nic)
{
    const uint32_t place = nic->active_count > 1 ? (uint32_t)rng_below(&nic->rng, nic->active_count) : 0;
    struct qp *qp = nic->active[place];
    struct request *r = qp->ready_first;
    qp->ready_first = r->next;
    if (!qp->ready_first) nic->active[place] = nic->active[--nic->active_count];
    return r;
}

static void nic_send_next(struct sim *sim, struct sim_event *event)
{
    struct nic *nic = fabric_container_of(event, struct nic, event);
    struct world *w = nic->world;
    const struct cluster_nic *c = &w->cluster->nic;
    if (!nic->active_count) return;
    if (c->window_bytes && nic->outstanding_bytes >= c->window_bytes) {
        nic->stalled = true;
        return;
    }
    struct request *r = nic_pick(nic);
    const uint64_t now = sim_now_ps(sim);
    nic->outstanding_bytes += r->wire_bytes;
    const uint64_t service_ps = (r->put || r->answer ? c->message_ps : 0) + (r->signal || r->get ? c->signal_ps : 0) +
                                rate_time(w->nic_rate, r->wire_bytes);
    const uint64_t sent_ps = port_reserve(&nic->tx, now, service_ps, r->wire_bytes);
    if (w->options.timeline) spans_nic_note(r, true, sent_ps - service_ps, sent_ps);
    r->event.run = request_arrived;
    sim_schedule_at(sim, &r->event, now + c->fetch_ps + w->cluster->network.latency_ps);
    if (nic->active_count) sim_schedule_at(sim, event, sent_ps);
}

bool nic_init(struct world *w, struct nic *nic, uint32_t qp_count, uint64_t seed)
{
    nic->event.run = nic_send_next;
    nic->world = w;
    nic->active = malloc(((size_t)qp_count + 1) * sizeof nic->active[0]);
    rng_seed(&nic->rng, seed);
    return nic->active != NULL;
}

void nic_clear(struct nic *nic)
{
    free(nic->active);
}

static void qp_ring(struct request *first, struct request *last)
{
    struct world_rank *source = last->source;
    struct nic *nic = source->nic;
    struct qp *qp = nic_qp(source, last->target->fabric.rank, last->queue);
    last->next = NULL;
    if (qp->ready_first) {
        qp->ready_last->next = first;
        qp->ready_last = last;
        return;
    }
    qp->ready_first = first;
    qp->ready_last = last;
    nic->active[nic->active_count++] = qp;
    if (nic->stalled || sim_event_pending(&nic->event)) return;
    const uint64_t now = sim_now_ps(source->world->sim);
    sim_schedule_at(source->world->sim, &nic->event, nic->tx.free_ps > now ? nic->tx.free_ps : now);
}

static void doorbell_rung(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    struct request *last = fabric_container_of(event, struct request, event);
    qp_ring(last->ring_first, last);
}

/* Doorbells of one QP ring in the order posted, whichever worker was quicker. */
static void ring_schedule(struct qp *qp, struct request *first, struct request *last, uint64_t ready_ps)
{
    if (ready_ps > qp->ring_ps) qp->ring_ps = ready_ps;
    last->ring_first = first;
    last->event.run = doorbell_rung;
    sim_schedule_at(last->source->world->sim, &last->event, qp->ring_ps);
}

void nic_ring(struct world_rank *source, struct qp *qp)
{
    struct request *first = qp->held_first, *last = qp->held_last, *next;
    qp->held_first = qp->held_last = NULL;
    if (!source->world->cluster->host.cores) {
        ring_schedule(qp, first, last, qp->held_ps);
        return;
    }
    for (struct request *r = first; r; r = next) {
        next = r == last ? NULL : r->next;
        ring_schedule(qp, r, r, host_send(source, r));
    }
}

void nic_post(struct request *r, uint64_t ready_ps, bool defer)
{
    struct world_rank *source = r->source;
    const uint16_t peer = r->target->fabric.rank;
    struct qp *qp = nic_qp(source, peer, r->queue);
    world_bisection_note(source->world, source->fabric.rank, peer, r->wire_bytes);
    qp->outstanding += r->places;
    r->next = NULL;
    if (qp->held_first) qp->held_last->next = r;
    else qp->held_first = r;
    qp->held_last = r;
    if (ready_ps > qp->held_ps) qp->held_ps = ready_ps;
    if (!defer) nic_ring(source, qp);
}
