/* nic.c - the NIC: sends the requests of its QPs, receives what others send.
 *
 *   post ─► QP's held list ─doorbell─► QP's ready list ─► tx port ─fetch, network─► rx port of the peer ─► visible
 *                                                                              QP, window ◄─ acknowledgement ─┘
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

/* ---- credits: what comes back with an acknowledgement ---- */

static void credit_push(struct nic *nic, struct credit credit)
{
    if (nic->credit_count == nic->credit_max) {
        nic->credit_max = nic->credit_max ? 2 * nic->credit_max : 64;
        nic->credit = realloc(nic->credit, nic->credit_max * sizeof nic->credit[0]);
        if (!nic->credit) abort();
    }
    uint32_t place = nic->credit_count++;
    for (; place && nic->credit[(place - 1) / 2].time_ps > credit.time_ps; place = (place - 1) / 2)
        nic->credit[place] = nic->credit[(place - 1) / 2];
    nic->credit[place] = credit;
}

static void credit_pop(struct nic *nic)
{
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
    if (!sim_event_pending(&nic->event)) sim_schedule_at(nic->world->sim, &nic->event, time_ps);
    else if (time_ps < nic->event.time_ps) sim_reschedule_at(nic->world->sim, &nic->event, time_ps);
}

/* Whether the window has room for so many bytes; a message that is larger goes alone.  Where it has none, the NIC looks
 * again when it may have. */
static bool window_open(struct nic *nic, uint64_t size_bytes)
{
    const uint64_t window_bytes = nic->world->cluster->nic.window_bytes, now = sim_now_ps(nic->world->sim);
    while (nic->credit_count && nic->credit[0].time_ps <= now) {
        nic->outstanding_bytes -= nic->credit[0].size_bytes;
        credit_pop(nic);
    }
    if (!nic->outstanding_bytes || nic->outstanding_bytes + size_bytes <= window_bytes) return true;
    nic->stalled = true;
    if (nic->credit_count) nic_wake(nic, nic->credit[0].time_ps);
    return false;
}

static void credit_return(struct nic *nic, const struct request *r, uint64_t time_ps)
{
    if (!nic->world->cluster->nic.window_bytes) return;
    credit_push(nic, (struct credit){ time_ps, r->wire_bytes });
    if (nic->stalled) nic_wake(nic, nic->credit[0].time_ps);
}

static void qp_complete(struct world_rank *poster, struct qp *qp, uint32_t places, uint64_t time_ps)
{
    struct world *w = poster->world;
    if (time_ps > qp->done_ps) qp->done_ps = time_ps;
    qp->unknown -= places;
    for (uint32_t i = 0; w->queue_depth && i < places; i++) {
        struct ack *const ack = pool_get(&w->acks);
        *ack = (struct ack){ .time_ps = qp->done_ps };
        if (qp->ack_first) qp->ack_last->next = ack;
        else qp->ack_first = ack;
        qp->ack_last = ack;
    }
    if (qp->waiter) world_space_wake(poster, qp, qp->done_ps);
}

/* The last byte is there, and with a signal what the word becomes; a get is complete. */
static void request_landed(struct sim *sim, struct sim_event *event)
{
    struct request *r = fabric_container_of(event, struct request, event);
    struct world_rank *target = r->target;
    if (r->payload_bytes) {
        assert(r->target_offset + r->payload_bytes <= target->fabric.heap_bytes);
        memcpy(target->fabric.heap + r->target_offset, r->payload, r->payload_bytes);
    }
    if (r->answer)
        qp_complete(target, nic_qp(target, r->source->fabric.rank, r->queue), r->places, sim_now_ps(sim));
    const bool signal = r->signal, add = r->add;
    const uint32_t word = r->word;
    const uint64_t value = r->value;
    pool_put(&target->world->requests, r);
    if (signal) world_word_deliver(target, word, value, add);
}

/* From now on it is known when the request will have arrived.  Its source learns of it one way later: then its QP has
 * room, its window opens, its flush may return. */
static void request_known(struct request *r, uint64_t visible_ps)
{
    struct world *w = r->source->world;
    const uint64_t acked_ps = visible_ps + w->cluster->network.latency_ps;
    credit_return(r->source->nic, r, acked_ps);
    if (!r->answer)
        qp_complete(r->source, nic_qp(r->source, r->target->fabric.rank, r->queue), r->places, acked_ps);
    if (!r->signal && !r->payload_bytes && !r->answer) {
        pool_put(&w->requests, r);
        return;
    }
    r->event.run = request_landed;
    sim_schedule_at(w->sim, &r->event, visible_ps);
}

static void qp_ring(struct request *first, struct request *last);

static void answer_ring(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    struct request *r = fabric_container_of(event, struct request, event);
    qp_ring(r, r);
}

/* A get has come in: the peer's NIC answers it alone, as with a put the other way; on a host its CPU does. */
static void get_answer(struct request *r, uint64_t in_ps)
{
    struct world_rank *const poster = r->source;
    credit_return(poster->nic, r, in_ps + poster->world->cluster->network.latency_ps);
    r->source = r->target;
    r->target = poster;
    r->wire_bytes = r->answer_bytes;
    r->get = false;
    r->answer = true;
    r->event.run = answer_ring;
    if (poster->world->cluster->host.cores) in_ps = host_receive(r->source, in_ps, r);
    sim_schedule_at(poster->world->sim, &r->event, in_ps);
}

/* Its last byte is in at in_ps. */
static void request_in(struct request *r, uint64_t in_ps)
{
    if (r->get) get_answer(r, in_ps);
    else request_known(r, in_ps + r->source->world->cluster->nic.deliver_ps);
}

/* ---- sending ---- */

/* A host works on packets as they come in: where its CPU is free, it is done with the last one. */
static void request_received(struct sim *sim, struct sim_event *event)
{
    struct request *r = fabric_container_of(event, struct request, event);
    const uint64_t done_ps = host_receive(r->target, sim_now_ps(sim), r);
    request_in(r, done_ps > r->in_ps ? done_ps : r->in_ps);
}

/* Its first byte comes to the peer's NIC at head_ps: all messages take equally long to there, so they come in the order
 * sent, and the time when the last byte is in is known now. */
static void request_send(struct request *r, uint64_t head_ps)
{
    struct world *w = r->source->world;
    const uint64_t service_ps = rate_time(w->in_rate, r->wire_bytes);
    const uint64_t in_ps = port_reserve(&r->target->nic->rx, head_ps, service_ps, r->wire_bytes);
    if (w->options.timeline) spans_nic_note(r, false, in_ps - service_ps, in_ps);
    if (!w->cluster->host.cores) {
        request_in(r, in_ps);
        return;
    }
    const uint64_t work_ps = host_link_ps(r);
    r->in_ps = in_ps;
    r->event.run = request_received;
    sim_schedule_at(w->sim, &r->event, in_ps - (work_ps < service_ps ? work_ps : service_ps));
}

static void nic_send_next(struct sim *sim, struct sim_event *event)
{
    struct nic *nic = fabric_container_of(event, struct nic, event);
    struct world *w = nic->world;
    const struct cluster_nic *c = &w->cluster->nic;
    nic->stalled = false;
    if (!nic->active_count) return;
    const uint32_t place = nic->active_count > 1 ? (uint32_t)rng_below(&nic->rng, nic->active_count) : 0;
    struct qp *qp = nic->active[place];
    struct request *r = qp->ready_first;
    if (c->window_bytes && !window_open(nic, r->wire_bytes)) return;
    qp->ready_first = r->next;
    if (!qp->ready_first) nic->active[place] = nic->active[--nic->active_count];
    const uint64_t now = sim_now_ps(sim);
    nic->outstanding_bytes += r->wire_bytes;
    const uint64_t service_ps = (r->put || r->answer ? c->message_ps : 0) + (r->signal || r->get ? c->signal_ps : 0) +
                                rate_time(w->nic_rate, r->wire_bytes);
    const uint64_t sent_ps = port_reserve(&nic->tx, now, service_ps, r->wire_bytes);
    if (w->options.timeline) spans_nic_note(r, true, sent_ps - service_ps, sent_ps);
    if (nic->active_count) sim_schedule_at(sim, event, sent_ps);
    request_send(r, now + c->fetch_ps + w->cluster->network.latency_ps);
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
    free(nic->credit);
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
        /* A flush may ring for what was posted a while ago. */
        ring_schedule(qp, first, last, later(qp->held_ps, sim_now_ps(source->world->sim)));
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
    qp->unknown += r->places;
    qp->unacked += source->world->queue_depth ? r->places : 0;
    r->next = NULL;
    if (qp->held_first) qp->held_last->next = r;
    else qp->held_first = r;
    qp->held_last = r;
    if (ready_ps > qp->held_ps) qp->held_ps = ready_ps;
    if (!defer) nic_ring(source, qp);
}
