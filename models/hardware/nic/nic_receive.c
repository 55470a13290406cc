/* nic_receive.c - requests that arrive at a port: bytes and signals become visible, atomics are executed, gets are
 * answered, and an acknowledgement tells the source.  Knows nothing of turns at the sending port and of paths. */
#include "models/hardware/nic/nic_internal.h"
#include "models/hardware/world/causes.h"
#include "models/hardware/world/world_timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Makes the target's port send an acknowledgement along with its next quantum. */
static void acks_owe(const struct world *w, const struct request *r)
{
    if (!turns_round(w, r)) w->nic[port_to(w, r)].owed_bytes += w->cluster->nic.ack_bytes;
}

static void payload_store(const struct world_rank *target, const struct parcel *parcel)
{
    assert(parcel->target_offset + parcel->payload_bytes <= target->fabric.heap_bytes);
    memcpy(target->fabric.heap + parcel->target_offset, parcel->payload, parcel->payload_bytes);
}

/* Runs when a request's last byte has arrived.  Stores the payload, lets a signal change its word, and completes a
 * get. */
void nic_request_landed(struct sim *sim, struct sim_event *event)
{
    struct world *w = sim_owner(sim);
    struct request *r = fabric_container_of(event, struct request, event);
    struct world_rank *target = &w->rank[r->target];
    const struct parcel *parcel = parcel_of(w, r);
    if (parcel && parcel->payload_bytes) {
        payload_store(target, parcel);
        if (w->box) free((void *)(uintptr_t)parcel->payload);
    }
    if (r->answer)
        world_qp_complete(w, r->target, nic_qp(target, r->source, r->queue), r->queue, r->places, sim_now_ps(sim));
    const bool signal = r->signal, add = r->add;
    const uint32_t word = r->word;
    const uint64_t value = r->value;
    world_request_free(w, r);
    if (signal) world_word_deliver(target, word, value, add);
}

/* Returns what lands at the peer: the request or, between parts, a copy of the request and of its bytes.  The originals
 * belong to the source, whose clock may be ahead of the peer's, so the source may reuse the bytes before they land. */
static struct request *landing_of(struct world *w, struct mail *m, const struct parcel *parcel)
{
    m->lands = !w->box;
    if (m->lands) return m->kept;
    struct request *own = pool_get(&w->requests);
    *own = *mail_request(m);
    own->parcel = 0;
    if (!parcel || !parcel->payload_bytes) return own;
    void *const bytes = memory_new(parcel->payload_bytes, 1);
    memcpy(bytes, parcel->payload, parcel->payload_bytes);
    *world_request_parcel(w, own) = (struct parcel){
        .payload = bytes, .target_offset = parcel->target_offset, .payload_bytes = parcel->payload_bytes, .request = own
    };
    return own;
}

/* Lets a request become visible at visible_ps, and sends its acknowledgement back.  When the acknowledgement arrives,
 * the source's QP has room, its window opens, and its flush may return. */
static void request_known(struct world *w, struct mail *m, uint64_t visible_ps)
{
    const struct request *const r = mail_request(m);
    assert(visible_ps >= sim_now_ps(w->sim) && visible_ps >= w->seen_ps);
    m->acked_ps = visible_ps + flush_ps(w) + back_ps(w, r);
    world_arrival_note(&w->rank[r->target], visible_ps);
    acks_owe(w, r);
    const bool held = r->signal && r->add && world_counter_hold(&w->rank[r->target], r->word, r->value, &visible_ps);
    const struct parcel *const parcel = parcel_of(w->rank[r->source].world, r);
    const bool signal = r->signal && !held, payload = parcel && parcel->payload_bytes;
    /* What a kernel passes on besides rows is small, and nobody reads it before a later signal.  So between parts it
     * comes at once, which needs neither a copy nor an event. */
    const bool early = payload && w->box && !w->options.payload;
    if (early) payload_store(&w->rank[r->target], parcel);
    if (!signal && !r->answer && (early || !payload)) return;
    struct request *const landing = landing_of(w, m, early ? NULL : parcel);
    landing->signal = signal;
    landing->event = (struct sim_event){ .kind = EVENT_LANDED };
    sim_schedule_at(w->sim, &landing->event, visible_ps);
}

/* Answers a get that comes in at in_ps.  The peer's NIC answers it without help, as if by a put in the opposite
 * direction.  On a host the CPU answers. */
static void get_answer(struct world *w, struct mail *m, uint64_t in_ps)
{
    const struct request *const get = mail_request(m);
    const struct parcel *const asked = parcel_of(w->rank[get->source].world, get);
    assert(get->get && !get->answer && in_ps >= w->seen_ps); /* a get is answered once */
    m->acked_ps = in_ps + back_ps(w, get);
    struct request *const r = pool_get(&w->requests);
    *r = *get;
    r->source = get->target;
    r->target = get->source;
    r->wire_bytes = get->answer_bytes;
    r->parcel = 0;
    if (asked)
        *world_request_parcel(w, r) = (struct parcel){ .payload = asked->payload,
                                                       .target_offset = asked->target_offset,
                                                       .payload_bytes = asked->payload_bytes,
                                                       .request = r };
    struct qp *const qp = nic_qp(&w->rank[r->source], r->target, r->queue);
    r->qp = arena_name_of(&w->arena, qp);
    nic_qp_more(w, qp)->answers++;
    if (w->record) causes_answered(w->record->causes, get, r);
    r->next = request_name(w, r);
    r->get = false;
    r->answer = true;
    if (w->machine->receive) in_ps = w->machine->receive(&w->rank[r->source], in_ps, r);
    nic_ring_add(nic_of(w, r), r, in_ps);
}

/* Answers a get, or delivers any other request, when its last byte has come in at in_ps. */
static void request_in(struct world *w, struct mail *m, uint64_t in_ps)
{
    if (mail_request(m)->get) get_answer(w, m, in_ps);
    else request_known(w, m, in_ps + w->cluster->nic.deliver_ps);
}

void nic_mail_told(struct world *w, struct mail *m)
{
    const struct request *const r = mail_request(m);
    if (!m->acked_ps) return;
    if (w->transport.window_bytes) nic_credit_return(nic_of(w, r), m->size_bytes, m->acked_ps);
    if (!m->last) return;
    struct qp *const qp = qp_at(w, r->qp);
    if (r->answer) qp_rest_of(w, qp)->answers--;
    else if (!r->get) world_qp_complete(w, r->source, qp, r->queue, r->places, m->acked_ps);
    if (m->kept && !m->lands) world_request_free(w, m->kept);
}

/* Makes the host work on a request.  The host works on packets as they come in.  If its CPU is free, the work is done
 * as soon as the last packet is in. */
void nic_request_received(struct sim *sim, struct sim_event *event)
{
    struct world *w = sim_owner(sim);
    struct request *r = fabric_container_of(event, struct request, event);
    const uint64_t done_ps = w->machine->receive(&w->rank[r->target], sim_now_ps(sim), r);
    struct mail m = { .kept = r, .size_bytes = r->wire_bytes - request_early_bytes(w, r), .last = true };
    request_in(w, &m, later(done_ps, parcel_of(w, r)->in_ps));
    nic_mail_told(w, &m);
}

/* Returns when a signal that comes in at in_ps has changed its word.  The target's NIC reads the word and changes it,
 * or a thread of the target does.  If the transport makes one request of a put and its signal (told), a thread tells
 * the GPU, and a signal alone is a plain write. */
static uint64_t signal_applied_ps(const struct world *w, const struct request *r, uint64_t in_ps)
{
    const struct cluster_nic *c = &w->cluster->nic;
    struct nic *nic = &w->nic[port_to(w, r)];
    if (w->transport.told && !r->put) return in_ps;
    if (w->transport.atomic_ps) return port_reserve(&nic->receiving, in_ps, w->transport.atomic_ps, 0);
    if (w->transport.message_ps) /* the signal takes turns with the requests that this thread posts */
        return world_thread_reserve(&w->rank[r->target], 0, in_ps, w->transport.message_ps) +
               (w->transport.told ? w->transport.proxy_ps : 0);
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

/* The extra time of a message that the target fetches.  An announcement goes to the target, the target's question comes
 * back, and the NIC reads the bytes.  0 for other requests. */
static uint64_t asked_ps(const struct world *w, const struct request *r)
{
    const uint64_t most_bytes = w->cluster->nic.ask_bytes;
    const bool asked = r->message && most_bytes && r->wire_bytes > most_bytes && !w->transport.copy_rate_bps;
    return asked ? 2 * back_ps(w, r) + w->cluster->nic.read_ps : 0;
}

/* Returns when a CPU has taken in a message that comes in at in_ps.  A CPU takes messages in one after another.  Where
 * CPUs copy bytes, each port has a CPU of its own.  Elsewhere the thread that posts takes messages in, too. */
static uint64_t taken_in_ps(const struct world *w, const struct request *r, uint64_t in_ps)
{
    const uint64_t copied_ps = r->put || r->answer ? nic_copied_ps(&w->rank[r->target], r->wire_bytes) : 0;
    if (!w->transport.copy_rate_bps)
        return world_thread_reserve(&w->rank[r->target], 0, in_ps, w->transport.receive_ps);
    return port_reserve(&w->nic[port_to(w, r)].receiving, in_ps, w->transport.receive_ps + copied_ps, r->wire_bytes);
}

/* Returns when both this request, which comes in at in_ps, and everything that its QP sent before are in.  A message to
 * a thread carries its own bytes and is fetched sooner than the puts before it, so it must be held back.  A NIC's
 * atomic has no such lead, because the NIC reads the word first. */
static uint64_t in_turn_ps(const struct world *from, const struct request *r, uint64_t in_ps)
{
    struct qp_rest *rest = qp_rest_of(from, qp_at(from, r->qp));
    return rest->in_ps = later(in_ps, rest->in_ps);
}

/* Returns when a request is taken in, in its order, and its signal is applied.  The request's last byte is at the peer
 * at in_ps. */
static uint64_t request_in_ps(struct world *w, const struct request *r, uint64_t in_ps)
{
    const struct world *const from = w->rank[r->source].world;
    in_ps += inside_ps(w, &w->rank[r->target].local[peer_port_choose(w, r)]);
    const bool signal = r->signal && !r->polled;
    if (r->put && signal && w->transport.order == TRANSPORT_FENCE)
        in_ps += flush_ps(w) + 2 * back_ps(w, r) + transport_notice_ps(&w->transport) + w->cluster->nic.fetch_ps -
                 w->cluster->nic.read_ps;
    in_ps += asked_ps(w, r);
    if (w->transport.message_ps) in_ps = in_turn_ps(from, r, in_ps);
    if (w->transport.receive_ps) in_ps = taken_in_ps(w, r, in_ps);
    else if (signal) in_ps = signal_applied_ps(w, r, in_ps);
    if (!w->ways_differ) return in_ps;
    const uint64_t turn_ps = in_turn_ps(from, r, in_ps);
    return w->transport.order == TRANSPORT_WIRE || signal ? turn_ps : in_ps;
}

/* How long the receiving port is busy with the last bytes of a request. */
static uint64_t in_service_ps(const struct world *w, struct mail *m)
{
    const struct request *const r = mail_request(m);
    if (turns_round(w, r)) return 0;
    const struct network *n = w->network;
    return rate_time(n->link[n->port[port_to(w, r)].in].rate, m->size_bytes);
}

void nic_mail_take(struct world *w, struct mail *m)
{
    struct request *const r = mail_request(m);
    struct parcel *const parcel = parcel_of(w->rank[r->source].world, r);
    if (parcel) parcel->in_ps = later(parcel->in_ps, m->there_ps);
    if (!m->last) {
        m->acked_ps = m->there_ps + w->cluster->nic.deliver_ps + back_ps(w, r);
        return;
    }
    const uint64_t in_ps = request_in_ps(w, r, parcel ? parcel->in_ps : m->there_ps);
    if (w->record) world_timeline_request(w->record, r, false, in_ps - in_service_ps(w, m), in_ps);
    if (!w->machine->receive) {
        request_in(w, m, in_ps);
        return;
    }
    const uint64_t work_ps = w->machine->link_ps(w, r), service_ps = in_service_ps(w, m);
    world_request_parcel(w, r)->in_ps = in_ps;
    r->event = (struct sim_event){ .kind = EVENT_RECEIVED };
    sim_schedule_at(w->sim, &r->event, in_ps - (work_ps < service_ps ? work_ps : service_ps));
}
