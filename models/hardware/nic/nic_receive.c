/* nic_receive.c - what comes in at a port: bytes and signals become visible, atomics are done, gets are answered, and
 * the source learns of it by an acknowledgement.  Knows nothing of turns and ways. */
#include "models/hardware/nic/nic_internal.h"
#include "models/hardware/world/world_timeline.h"

#include <assert.h>
#include <string.h>

/* The peer's port sends the acknowledgement along with its next quantum. */
static void acks_owe(const struct world *w, const struct request *r)
{
    if (!turns_round(w, r)) w->nic[port_to(w, r)].owed_bytes += w->cluster->nic.ack_bytes;
}

/* The last byte has arrived: the payload is stored, a signal changes its word, and a get is complete. */
void nic_request_landed(struct sim *sim, struct sim_event *event)
{
    struct world *w = sim_owner(sim);
    struct request *r = fabric_container_of(event, struct request, event);
    struct world_rank *target = &w->rank[r->target];
    const struct parcel *parcel = parcel_of(w, r);
    if (parcel && parcel->payload_bytes) {
        assert(parcel->target_offset + parcel->payload_bytes <= target->fabric.heap_bytes);
        memcpy(target->fabric.heap + parcel->target_offset, parcel->payload, parcel->payload_bytes);
    }
    if (r->answer) world_qp_complete(w, r->target, nic_qp(target, r->source, r->queue), r->places, sim_now_ps(sim));
    const bool signal = r->signal, add = r->add;
    const uint32_t word = r->word;
    const uint64_t value = r->value;
    world_request_free(w, r);
    if (signal) world_word_deliver(target, word, value, add);
}

/* The request's time of arrival is known from now on.  The source learns of the arrival one way later: then its QP has
 * room, its window opens, and its flush may return. */
static void request_known(struct world *w, struct qp *qp, struct request *r, uint64_t visible_ps)
{
    const uint64_t acked_ps = visible_ps + flush_ps(w) + back_ps(w, r);
    assert(visible_ps >= sim_now_ps(w->sim) && request_early_bytes(w, r) <= r->wire_bytes);
    nic_credit_return(nic_of(w, r), r->wire_bytes - request_early_bytes(w, r), acked_ps);
    world_arrival_note(&w->rank[r->target], visible_ps);
    acks_owe(w, r);
    if (r->answer) qp_rest_of(w, qp)->answers--;
    else world_qp_complete(w, r->source, qp, r->places, acked_ps);
    if (r->signal && r->add && world_counter_hold(&w->rank[r->target], r->word, r->value, &visible_ps))
        r->signal = false;
    const struct parcel *const parcel = parcel_of(w, r);
    if (!r->signal && !r->answer && !(parcel && parcel->payload_bytes)) {
        world_request_free(w, r);
        return;
    }
    r->event = (struct sim_event){ .kind = EVENT_LANDED };
    sim_schedule_at(w->sim, &r->event, visible_ps);
}

/* A get has come in.  The peer's NIC answers it without help, as with a put the other way.  On a host the CPU does. */
static void get_answer(struct world *w, struct request *r, uint64_t in_ps)
{
    const uint16_t poster = r->source;
    assert(r->get && !r->answer); /* a get is answered once */
    nic_credit_return(nic_of(w, r), r->wire_bytes, in_ps + back_ps(w, r));
    r->source = r->target;
    r->target = poster;
    r->wire_bytes = r->answer_bytes;
    struct parcel *const parcel = parcel_of(w, r);
    if (parcel) parcel->early_bytes = 0;
    if (parcel) parcel->in_ps = parcel->held_ps = 0;
    struct qp *const qp = nic_qp(&w->rank[r->source], r->target, r->queue);
    r->qp = arena_name_of(&w->arena, qp);
    nic_qp_more(w, qp)->answers++;
    r->next = request_name(w, r);
    r->get = false;
    r->answer = true;
    if (w->machine->receive) in_ps = w->machine->receive(&w->rank[r->source], in_ps, r);
    nic_ring_add(nic_of(w, r), r, in_ps);
}

/* The request's last byte has come in at in_ps. */
static void request_in(struct world *w, struct qp *qp, struct request *r, uint64_t in_ps)
{
    if (r->get) get_answer(w, r, in_ps);
    else request_known(w, qp, r, in_ps + w->cluster->nic.deliver_ps);
}

/* A host works on packets as they come in.  If its CPU is free, it is done as soon as the last packet is in. */
void nic_request_received(struct sim *sim, struct sim_event *event)
{
    struct world *w = sim_owner(sim);
    struct request *r = fabric_container_of(event, struct request, event);
    const uint64_t done_ps = w->machine->receive(&w->rank[r->target], sim_now_ps(sim), r);
    request_in(w, qp_at(w, r->qp), r, later(done_ps, parcel_of(w, r)->in_ps));
}

/* When a signal that is in at in_ps has changed its word: the target's NIC reads the word first, or a thread there
 * adds it up. */
static uint64_t signal_applied_ps(const struct world *w, const struct request *r, uint64_t in_ps)
{
    const struct cluster_nic *c = &w->cluster->nic;
    struct nic *nic = &w->nic[port_to(w, r)];
    if (w->transport.atomic_ps) return port_reserve(&nic->receiving, in_ps, w->transport.atomic_ps, 0);
    if (w->transport.message_ps) /* in turn with what that thread posts */
        return world_thread_reserve(&w->rank[r->target], 0, in_ps, w->transport.message_ps);
    in_ps += c->read_ps;
    return c->atomic_ps ? port_reserve(&nic->atomic, in_ps, c->atomic_ps, 0) : in_ps;
}

uint64_t nic_copied_ps(const struct world_rank *rank, uint64_t size_bytes)
{
    const struct world *w = rank->world;
    const struct cluster_node *node = &w->cluster->node;
    const uint64_t rate_bps = w->transport.copy_rate_bps;
    if (!rate_bps) return 0;
    const uint64_t staged_ps = rank->staging_bps ? units_transfer_ps(size_bytes, rank->staging_bps) : 0;
    return units_transfer_ps(size_bytes, rate_bps) + (node->staging ? node->staging_latency_ps + staged_ps : 0);
}

/* A message that is fetched: its announcement goes there, the question comes back, and the NIC reads the bytes. */
static uint64_t asked_ps(const struct world *w, const struct request *r)
{
    const uint64_t most_bytes = w->cluster->nic.ask_bytes;
    const bool asked = r->message && most_bytes && r->wire_bytes > most_bytes && !w->transport.copy_rate_bps;
    return asked ? 2 * back_ps(w, r) + w->cluster->nic.read_ps : 0;
}

/* A message has come in at in_ps for a CPU to take it in, one after another: the thread that posts, too, or where a CPU
 * copies one that serves the port. */
static uint64_t taken_in_ps(const struct world *w, const struct request *r, uint64_t in_ps)
{
    const uint64_t copied_ps = r->put || r->answer ? nic_copied_ps(&w->rank[r->target], r->wire_bytes) : 0;
    if (!w->transport.copy_rate_bps)
        return world_thread_reserve(&w->rank[r->target], 0, in_ps, w->transport.receive_ps);
    return port_reserve(&w->nic[port_to(w, r)].receiving, in_ps, w->transport.receive_ps + copied_ps, r->wire_bytes);
}

/* When a request that is in at in_ps is in behind all that its QP has sent before it.  A message to a thread carries
 * its own bytes and is fetched sooner than those before it, so it must be held back; a NIC's atomic reads its word
 * first, which takes as long as that fetch. */
static uint64_t in_turn_ps(struct world *w, struct qp *qp, uint64_t in_ps)
{
    struct qp_rest *rest = nic_qp_more(w, qp);
    return rest->in_ps = later(in_ps, rest->in_ps);
}

void nic_request_sent(struct world *w, struct qp *qp, struct request *r, uint64_t in_ps, uint64_t service_ps)
{
    in_ps += inside_ps(w, &w->rank[r->target].local[peer_port_choose(w, r)]);
    const bool signal = r->signal && !r->polled;
    if (r->put && signal && w->transport.order == TRANSPORT_FENCE)
        in_ps += flush_ps(w) + 2 * back_ps(w, r) + transport_notice_ps(&w->transport) + w->cluster->nic.fetch_ps -
                 w->cluster->nic.read_ps;
    in_ps += asked_ps(w, r);
    if (w->transport.message_ps) in_ps = in_turn_ps(w, qp, in_ps);
    if (w->transport.receive_ps) in_ps = taken_in_ps(w, r, in_ps);
    else if (signal) in_ps = signal_applied_ps(w, r, in_ps);
    if (w->ways_differ) {
        const uint64_t turn_ps = in_turn_ps(w, qp, in_ps);
        if (w->transport.order == TRANSPORT_WIRE || signal) in_ps = turn_ps;
    }
    if (w->options.timeline) world_timeline_nic_note(w, r, false, in_ps - service_ps, in_ps);
    if (!w->machine->receive) {
        request_in(w, qp, r, in_ps);
        return;
    }
    const uint64_t work_ps = w->machine->link_ps(w, r);
    world_request_parcel(w, r)->in_ps = in_ps;
    r->event = (struct sim_event){ .kind = EVENT_RECEIVED };
    sim_schedule_at(w->sim, &r->event, in_ps - (work_ps < service_ps ? work_ps : service_ps));
}
