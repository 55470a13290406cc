/* nic.c - the NIC's ports: each sends the requests of its QPs and receives what other ports send.
 *
 *   post > QP's held list > doorbell > QP's ready list > port > fetch > network > port of the peer > visible
 *                                                    QP, window < acknowledgement <-'
 *
 * A QP has one port.  At a port, the QPs with pending requests take turns: the QP that has waited longest sends a
 * quantum of its first request.  A QP keeps its order because lists and links serve first come, first served.  Where
 * ways differ, a request also becomes visible only after the ones before it.  When a quantum is sent, its whole future
 * is known.  A doorbell is not an event: a port keeps the coming doorbells by time and looks at them when it is free.
 * What goes from a port to itself, between two ranks that share it, is turned round inside the NIC: it takes PCIe, but
 * neither the port's line nor the network, and its QPs take turns among themselves.  This file does not know who posts.
 */
#include "models/hardware/world_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static arena_name *qp_place(const struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    assert(peer < rank->fabric.rank_count && queue < rank->fabric.queue_count);
    if (rank->world->transport.queues) queue %= rank->world->transport.queues;
    return &rank->qp[(uint32_t)peer * rank->fabric.queue_count + queue];
}

enum { QUEUE_FIRST = 16 }; /* a port's queues start with so many places; always a power of two */

struct qp *nic_qp_find(struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    return qp_at(rank->world, *qp_place(rank, peer, queue));
}

struct qp *nic_qp(struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    struct world *w = rank->world;
    arena_name *place = qp_place(rank, peer, queue);
    if (*place) return qp_at(w, *place);
    struct qp *const qp = pool_get(&w->qps);
    *qp = (struct qp){ 0 };
    *place = arena_name_of(&w->arena, qp);
    return qp;
}

struct qp_rest *nic_qp_more(struct world *w, struct qp *qp)
{
    struct qp_rest *rest = qp_rest_of(w, qp);
    if (rest) return rest;
    rest = pool_get(&w->qp_rests);
    *rest = (struct qp_rest){ 0 };
    qp->rest = arena_name_of(&w->arena, rest);
    return rest;
}

void nic_qp_clear(struct world *w, struct qp *qp)
{
    struct qp_rest *const rest = qp_rest_of(w, qp);
    if (!rest || !rest->flow) return;
    dcqcn_flow_clear(rest->flow);
    free(rest->flow);
}

void nic_qp_rest(struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    struct world *w = rank->world;
    arena_name *const place = qp_place(rank, peer, queue);
    struct qp *const qp = qp_at(w, *place);
    struct qp_rest *const rest = qp_rest_of(w, qp);
    if (qp->held_last || qp->ready_last || qp->ack_last || qp->unknown || qp->unacked) return;
    if (rest && (rest->waiter || rest->flow || rest->answers)) return;
    if (rest) pool_put(&w->qp_rests, rest);
    pool_put(&w->qps, qp);
    *place = 0;
}

uint64_t nic_wire_bytes(const struct cluster_nic *nic, uint64_t size_bytes)
{
    const uint64_t packets = size_bytes ? (size_bytes + nic->mtu_bytes - 1) / nic->mtu_bytes : 1;
    return size_bytes + packets * nic->header_bytes;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t qp_key(const struct request *r, uint32_t queue)
{
    return (uint64_t)r->source << 40 | (uint64_t)r->target << 16 | queue;
}

/* The number among the source's ports of the one that a request's QP uses. */
static uint32_t port_choose(const struct world *w, const struct request *r)
{
    const struct world_rank *source = &w->rank[r->source];
    if (source->nic_count == 1) return 0;
    const uint32_t queue = w->transport.queues ? r->queue % w->transport.queues : r->queue;
    switch ((enum cluster_port_map)w->cluster->nic.port_map) {
    case CLUSTER_PORT_HASH: return (uint32_t)(mix(qp_key(r, queue)) % source->nic_count);
    case CLUSTER_PORT_QUEUE: return queue % source->nic_count;
    case CLUSTER_PORT_ROUND_ROBIN: break;
    }
    return ((uint32_t)r->target * source->fabric.queue_count + queue) % source->nic_count;
}

/* The same among the target's ports. */
static uint32_t peer_port_choose(const struct world *w, const struct request *r)
{
    return port_choose(w, r) % w->rank[r->target].nic_count;
}

/* The number among all of the port that the source uses, and of the target's. */
static uint32_t port_own(const struct world *w, const struct request *r)
{
    return w->rank[r->source].nic[port_choose(w, r)];
}

static uint32_t port_to(const struct world *w, const struct request *r)
{
    return w->rank[r->target].nic[peer_port_choose(w, r)];
}

/* The relay by which a QP's messages leave their node; NULL: through the source's own port. */
static struct relay *relay_of(const struct world *w, const struct request *r)
{
    if (!w->relay) return NULL;
    const struct network *n = w->network;
    const uint32_t own = port_own(w, r), to = port_to(w, r), all = n->ports_per_node;
    const uint32_t port = graph_relay_port(n->graph, own / all, own % all, n->leaf[n->port[to].leaf]);
    return port == UINT32_MAX || own / all == to / all ? NULL : &w->relay[own / all * all + port];
}

/* The port that a QP sends from. */
static uint32_t port_out(const struct world *w, const struct request *r)
{
    const struct relay *relay = relay_of(w, r);
    return relay ? (uint32_t)(relay - w->relay) : port_own(w, r);
}

/* What lies between that port and the memory that it reads. */
static const struct network_local *local_out(const struct world *w, const struct request *r)
{
    const struct relay *relay = relay_of(w, r);
    return relay ? &relay->local : &w->rank[r->source].local[port_choose(w, r)];
}

/* Whether a request goes to the port that it comes from. */
static bool turns_round(const struct world *w, const struct request *r)
{
    return w->ports_shared && port_out(w, r) == port_to(w, r);
}

static struct nic *nic_of(const struct world *w, const struct request *r)
{
    return &w->nic[port_out(w, r) + (turns_round(w, r) ? w->nic_count : 0)];
}

/* The number of its port. */
static uint32_t nic_number(const struct nic *nic) { return (uint32_t)(nic - nic->world->nic) % nic->world->nic_count; }

static bool nic_has_line(const struct nic *nic) { return nic < nic->world->nic + nic->world->nic_count; }

/* Wire bytes sent in quanta before the next one. */
static uint32_t request_early_bytes(const struct world *w, const struct request *r)
{
    const struct parcel *const parcel = parcel_of(w, r);
    return parcel ? parcel->early_bytes : 0;
}

/* The time that an acknowledgement takes back to the source.  What is turned round inside the NIC is known the instant
 * after it is there, not in the same one: its bytes are moved before their owner may write them again. */
static uint64_t back_ps(const struct world *w, const struct request *r)
{
    if (turns_round(w, r)) return 1;
    if (w->network->leaf_count < 2) return w->cluster->network.latency_ps;
    return network_back_ps(w->network, port_out(w, r), port_to(w, r));
}

/* The peer's port sends the acknowledgement along with its next quantum. */
static void acks_owe(const struct world *w, const struct request *r)
{
    if (!turns_round(w, r)) w->nic[port_to(w, r)].owed_bytes += w->cluster->nic.ack_bytes;
}

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
    if (!sim_event_pending(&nic->event)) sim_schedule_at(nic->world->sim, &nic->event, time_ps);
    else if (time_ps < sim_event_time_ps(&nic->event)) sim_reschedule_at(nic->world->sim, &nic->event, time_ps);
}

/* Whether the window has room for so many bytes; no quantum is larger than the window.  If there is no room, the NIC
 * looks again when the next credit is due. */
static bool window_open(struct nic *nic, uint64_t size_bytes)
{
    const uint64_t window_bytes = nic->world->transport.window_bytes, now = sim_now_ps(nic->world->sim);
    while (nic->credit_count && nic->credit[0].time_ps <= now) {
        assert(nic->outstanding_bytes >= nic->credit[0].size_bytes); /* credits return what was sent */
        nic->outstanding_bytes -= nic->credit[0].size_bytes;
        credit_pop(nic);
    }
    if (nic->outstanding_bytes + size_bytes <= window_bytes) return true;
    nic->stalled = true;
    if (nic->credit_count) nic_wake(nic, nic->credit[0].time_ps);
    return false;
}

static void credit_return(struct nic *nic, uint32_t size_bytes, uint64_t time_ps)
{
    if (!nic->world->transport.window_bytes) return;
    credit_push(nic, (struct credit){ time_ps, size_bytes });
    if (nic->stalled) nic_wake(nic, nic->credit[0].time_ps);
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

/* Bytes that have come in are acknowledged once the NIC has read behind them, where a transport wants that. */
static uint64_t flush_ps(const struct world *w) { return w->transport.flushed ? w->cluster->nic.read_ps : 0; }

/* The request's time of arrival is known from now on.  The source learns of the arrival one way later: then its QP has
 * room, its window opens, and its flush may return. */
static void request_known(struct world *w, struct qp *qp, struct request *r, uint64_t visible_ps)
{
    const uint64_t acked_ps = visible_ps + flush_ps(w) + back_ps(w, r);
    assert(visible_ps >= sim_now_ps(w->sim) && request_early_bytes(w, r) <= r->wire_bytes);
    credit_return(nic_of(w, r), r->wire_bytes - request_early_bytes(w, r), acked_ps);
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

static void ring_add(struct nic *nic, struct request *last, uint64_t time_ps);

/* A get has come in.  The peer's NIC answers it without help, as with a put the other way.  On a host the CPU does. */
static void get_answer(struct world *w, struct request *r, uint64_t in_ps)
{
    const uint16_t poster = r->source;
    assert(r->get && !r->answer); /* a get is answered once */
    credit_return(nic_of(w, r), r->wire_bytes, in_ps + back_ps(w, r));
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
    ring_add(nic_of(w, r), r, in_ps);
}

/* The request's last byte has come in at in_ps. */
static void request_in(struct world *w, struct qp *qp, struct request *r, uint64_t in_ps)
{
    if (r->get) get_answer(w, r, in_ps);
    else request_known(w, qp, r, in_ps + w->cluster->nic.deliver_ps);
}

/* ---- sending ---- */

/* A host works on packets as they come in.  If its CPU is free, it is done as soon as the last packet is in. */
void nic_request_received(struct sim *sim, struct sim_event *event)
{
    struct world *w = sim_owner(sim);
    struct request *r = fabric_container_of(event, struct request, event);
    const uint64_t done_ps = w->machine->receive(&w->rank[r->target], sim_now_ps(sim), r);
    request_in(w, qp_at(w, r->qp), r, later(done_ps, parcel_of(w, r)->in_ps));
}

/* Doorbell until the first byte leaves, beside the way through the node.  A signal's request holds all that is sent. */
static uint64_t request_fetch_ps(const struct cluster_nic *c, const struct request *r)
{
    return c->fetch_ps - (r->signal && !r->put ? c->read_ps : 0);
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

uint64_t nic_copied_ps(const struct world *w, uint64_t size_bytes)
{
    const struct cluster_node *node = &w->cluster->node;
    const uint64_t rate_bps = w->transport.copy_rate_bps;
    if (!rate_bps) return 0;
    const uint64_t staged_ps = node->staging_rate_bps ? units_transfer_ps(size_bytes, node->staging_rate_bps) : 0;
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
    const uint64_t copied_ps = r->put || r->answer ? nic_copied_ps(w, r->wire_bytes) : 0;
    if (!w->transport.copy_rate_bps)
        return world_thread_reserve(&w->rank[r->target], 0, in_ps, w->transport.receive_ps);
    return port_reserve(&w->nic[port_to(w, r)].receiving, in_ps, w->transport.receive_ps + copied_ps, r->wire_bytes);
}

/* What the way through a node takes.  A CPU that copies waits for that itself. */
static uint64_t inside_ps(const struct world *w, const struct network_local *local)
{
    return w->transport.copy_rate_bps ? 0 : local->latency_ps;
}

/* The whole request is sent, and its last byte comes in at in_ps. */
static void request_sent(struct world *w, struct qp *qp, struct request *r, uint64_t in_ps, uint64_t service_ps)
{
    in_ps += inside_ps(w, &w->rank[r->target].local[peer_port_choose(w, r)]);
    const bool signal = r->signal && !r->polled;
    if (r->put && signal && w->transport.order == TRANSPORT_FENCE)
        in_ps += flush_ps(w) + 2 * back_ps(w, r) + transport_notice_ps(&w->transport) + w->cluster->nic.fetch_ps -
                 w->cluster->nic.read_ps;
    in_ps += asked_ps(w, r);
    if (w->transport.receive_ps) in_ps = taken_in_ps(w, r, in_ps);
    else if (signal) in_ps = signal_applied_ps(w, r, in_ps);
    if (w->ways_differ) {
        struct qp_rest *rest = nic_qp_more(w, qp);
        rest->in_ps = later(in_ps, rest->in_ps);
        if (w->transport.order == TRANSPORT_WIRE || signal) in_ps = rest->in_ps;
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

/* Finds a message's way from this port to the peer's memory. */
static void passage_find(struct nic *nic, const struct request *r, struct passage *p)
{
    struct world *w = nic->world;
    const uint32_t from = nic_number(nic), to = port_to(w, r);
    uint64_t key = 0;
    if (w->network->leaf_count > 1) {
        const bool address = w->cluster->network.flow_key == CLUSTER_KEY_ADDRESS;
        key = mix(1 + (address ? (uint64_t)from << 32 | to : qp_key(r, r->queue)));
        if (w->cluster->network.routing == CLUSTER_SPRAY)
            key = (key >> 32) + nic_qp_more(w, qp_at(w, r->qp))->sprayed++;
    }
    p->count = 0;
    if (from != to) network_way(w->network, from, to, key, p);
    const struct network_local *local = &w->rank[r->target].local[peer_port_choose(w, r)];
    assert(p->count + local->in_count <= PASSAGE_LINKS_MAX);
    for (uint32_t i = 0; i < local->in_count; i++) p->link[p->count++] = local->in[i];
}

static struct link_state *nic_out(const struct nic *nic)
{
    return &nic->world->network->link[nic->world->network->port[nic_number(nic)].out];
}

/* The link to the port that a request goes to. */
static const struct link_state *nic_in(const struct world *w, const struct request *r)
{
    return &w->network->link[w->network->port[port_to(w, r)].in];
}

/* The time that bytes take on the port's line, and the latency of that line. */
static uint64_t line_ps(const struct nic *nic, uint64_t size_bytes)
{
    return nic_has_line(nic) ? rate_time(nic_out(nic)->rate, size_bytes) : 0;
}

static uint64_t line_latency_ps(const struct nic *nic) { return nic_has_line(nic) ? nic_out(nic)->latency_ps : 0; }

/* The port whose turns the QPs take. */
static struct port *nic_turns(struct nic *nic) { return nic_has_line(nic) ? &nic_out(nic)->port : &nic->turned; }

/* The latency between the GPU's memory and this port. */
static uint64_t nic_local(const struct world *w, const struct request *r) { return inside_ps(w, local_out(w, r)); }

/* To the relay's GPU by NVLink.  Returns when the last byte is there. */
static uint64_t relay_cross(const struct world *w, const struct request *r, const struct relay *relay, uint64_t now_ps,
                            uint64_t size_bytes)
{
    struct port *egress = &w->rank[r->source].egress;
    const uint64_t out_ps = port_reserve(egress, now_ps, rate_time(w->egress, size_bytes), size_bytes);
    if (!relay->rank) return out_ps;
    return later(out_ps, port_reserve(&relay->rank->ingress, now_ps, rate_time(w->ingress, size_bytes), size_bytes));
}

/* Reads size_bytes for the port from the GPU's memory.  Returns the time when the last byte is there.  The port reads
 * as it sends, so links at their limit hold it back. */
static uint64_t source_read(struct nic *nic, const struct request *r, uint64_t now_ps, uint64_t size_bytes)
{
    const struct world *w = nic->world;
    struct network *n = w->network;
    const struct network_local *local = local_out(w, r);
    const struct relay *relay = relay_of(w, r);
    uint64_t end_ps = relay ? relay_cross(w, r, relay, now_ps, size_bytes) : now_ps;
    for (uint32_t i = 0; i < local->out_count; i++) {
        struct link_state *link = &n->link[local->out[i]];
        const uint64_t read_ps = port_reserve(&link->port, now_ps, rate_time(link->rate, size_bytes), size_bytes);
        end_ps = read_ps > end_ps ? read_ps : end_ps;
    }
    return end_ps;
}

/* ---- DCQCN ---- */

static struct dcqcn_flow *flow_of(struct world *w, const struct request *r)
{
    struct qp_rest *rest = nic_qp_more(w, qp_at(w, r->qp));
    if (rest->flow) return rest->flow;
    rest->flow = memory_new(1, sizeof *rest->flow);
    dcqcn_flow_init(rest->flow, &w->dcqcn);
    return rest->flow;
}

/* Takes a message's bytes over its planned way.  Switches whose queues they find long may mark them. */
static uint64_t passage_go(struct world *w, const struct request *r, const struct passage *p, uint32_t size,
                           uint64_t head_ps, uint64_t tail_ps)
{
    const struct network_local *local = &w->rank[r->target].local[peer_port_choose(w, r)];
    bool marked = false;
    for (uint32_t i = 0; w->dcqcn.parameters && i + local->in_count < p->count; i++) {
        const uint64_t queue_bytes = passage_queue_bytes(w->network->link, p, i, head_ps);
        const uint32_t packets = (size - 1) / (uint32_t)w->cluster->nic.mtu_bytes + 1;
        marked |= queue_bytes && dcqcn_marks(&w->dcqcn, queue_bytes, packets);
    }
    const uint64_t in_ps = passage_take(w->network->link, p, size, tail_ps);
    if (marked) dcqcn_marked(&w->dcqcn, flow_of(w, r), in_ps, back_ps(w, r));
    return in_ps;
}

/* ---- whose turn it is ---- */

static void active_add(struct nic *nic, const struct request *first)
{
    if (nic->active_count == nic->active_max) {
        const uint32_t max = nic->active_max ? 2 * nic->active_max : QUEUE_FIRST;
        arena_name *grown = memory_grow(NULL, max, sizeof *grown);
        for (uint32_t i = 0; i < nic->active_count; i++)
            grown[i] = nic->active[(nic->active_first + i) & (nic->active_max - 1)];
        free(nic->active);
        nic->active = grown;
        nic->active_first = 0;
        nic->active_max = max;
    }
    nic->active[(nic->active_first + nic->active_count++) & (nic->active_max - 1)] = request_name(nic->world, first);
}

/* Takes out the QP whose turn it is.  If it has more requests, the caller adds it again at the end. */
static void active_take(struct nic *nic)
{
    assert(nic->active_count > 0);
    nic->active_first = (nic->active_first + 1) & (nic->active_max - 1);
    nic->active_count--;
}

/* The last request of the doorbell that rings next. */
static struct request *ring_soonest(const struct nic *nic)
{
    return request_at(nic->world, nic->ring[nic->ring_first]);
}

/* Makes ready the requests of all doorbells that have rung by now. */
static void rings_take(struct nic *nic, uint64_t now_ps)
{
    const struct world *w = nic->world;
    for (; nic->ring_count; nic->ring_count--) {
        struct request *const last = ring_soonest(nic);
        if (last->ring_ps > now_ps) return;
        struct qp *const qp = qp_at(w, last->qp);
        const arena_name first = last->next;
        nic->ring_first = (nic->ring_first + 1) & (nic->ring_max - 1);
        last->next = 0;
        if (qp->ready_last) request_at(w, qp->ready_last)->next = first;
        else active_add(nic, request_at(w, first));
        qp->ready_last = request_name(w, last);
    }
}

/* Schedules the port's next turn: once the port is free and a QP has pending requests, or the next doorbell rings. */
static void turn_schedule(struct nic *nic)
{
    if (!nic->active_count && !nic->ring_count) return;
    const uint64_t now = sim_now_ps(nic->world->sim);
    const uint64_t ring_ps = nic->active_count ? 0 : ring_soonest(nic)->ring_ps;
    nic_wake(nic, later(now, later(ring_ps, nic_turns(nic)->free_ps)));
}

void nic_qp_resume(struct sim *sim, struct sim_event *event)
{
    const struct world *w = sim_owner(sim);
    const struct request *r = fabric_container_of(event, struct parcel, resume_event)->request;
    struct nic *nic = nic_of(w, r);
    active_add(nic, r);
    if (!nic->stalled) turn_schedule(nic);
}

/* The QP whose turn it is, with r to send, has its next turn at go_ps at the soonest. */
static void qp_wait(struct nic *nic, struct request *r, uint64_t go_ps)
{
    struct world *w = nic->world;
    struct parcel *const parcel = world_request_parcel(w, r);
    active_take(nic);
    parcel->resume_event.kind = EVENT_RESUME;
    sim_schedule_at(w->sim, &parcel->resume_event, go_ps);
    turn_schedule(nic);
}

/* The QP's next bytes have reserved their places on the way for later.  Until then the port's other QPs go on. */
static void qp_hold(struct nic *nic, struct request *r, const struct passage *p, uint32_t size, uint64_t head_ps)
{
    struct world *w = nic->world;
    const uint64_t now = sim_now_ps(w->sim), go_ps = now + p->push_ps;
    const uint64_t tail_ps = go_ps + line_ps(nic, size) + w->cluster->nic.fetch_ps;
    world_request_parcel(w, r)->held_ps = passage_go(w, r, p, size, head_ps, tail_ps + line_latency_ps(nic));
    qp_wait(nic, r, go_ps);
}

static uint64_t request_held_ps(const struct world *w, const struct request *r)
{
    const struct parcel *const parcel = parcel_of(w, r);
    return parcel ? parcel->held_ps : 0;
}

/* The time that a request costs a port besides its bytes.  Only the request's first quantum pays it. */
static uint64_t request_work_ps(const struct world *w, const struct request *r)
{
    const struct cluster_nic *c = &w->cluster->nic;
    if (request_early_bytes(w, r)) return 0;
    return (r->put || r->answer ? c->message_ps : 0) + ((r->signal && !r->polled) || r->get ? c->signal_ps : 0);
}

/* Takes the acknowledgements that a port owes, to send them with its next quantum. */
static uint64_t acks_take(struct nic *nic)
{
    const uint64_t owed_bytes = nic->owed_bytes;
    nic->owed_bytes = 0;
    return owed_bytes;
}

/* Sends the next quantum of the request r at the head of the QP whose turn it is, on its planned way. */
static void quantum_send(struct nic *nic, struct request *r, const struct passage *p, uint32_t size, uint64_t head_ps)
{
    struct world *w = nic->world;
    struct qp *qp = qp_at(w, r->qp);
    struct port *turns = nic_turns(nic);
    const uint64_t now = sim_now_ps(w->sim), owed_bytes = acks_take(nic);
    active_take(nic);
    const uint64_t service_ps = request_work_ps(w, r) + line_ps(nic, size + owed_bytes);
    const uint64_t read_ps = source_read(nic, r, now, size),
                   fetch_ps = request_fetch_ps(&w->cluster->nic, r) + nic_local(w, r);
    uint64_t sent_ps = port_reserve(turns, now, service_ps, size + owed_bytes) + p->push_ps;
    sent_ps = sent_ps > read_ps ? sent_ps : read_ps;
    turns->free_ps = sent_ps;
    nic->outstanding_bytes += size;
    if (w->dcqcn.parameters) dcqcn_sent(&w->dcqcn, flow_of(w, r), now, size);
    if (w->options.timeline) world_timeline_nic_note(w, r, true, sent_ps - service_ps, sent_ps);
    const uint64_t tail_ps = now + line_ps(nic, size) + p->push_ps;
    const uint64_t there_ps = (tail_ps > read_ps ? tail_ps : read_ps) + fetch_ps + line_latency_ps(nic);
    const uint64_t held_ps = request_held_ps(w, r);
    const uint64_t in_ps = held_ps ? later(held_ps, there_ps) : passage_go(w, r, p, size, head_ps, there_ps);
    const uint32_t early_bytes = request_early_bytes(w, r);
    const bool last = early_bytes + size == r->wire_bytes;
    assert(early_bytes + size <= r->wire_bytes && in_ps >= now);
    const struct request *next = last ? request_at(w, r->next) : r;
    if (next) active_add(nic, next);
    else qp->ready_last = 0;
    turn_schedule(nic);
    struct parcel *parcel = last ? parcel_of(w, r) : world_request_parcel(w, r);
    if (parcel) {
        parcel->held_ps = 0;
        parcel->in_ps = later(parcel->in_ps, in_ps);
    }
    if (last) {
        const uint64_t in_service_ps = nic_has_line(nic) ? rate_time(nic_in(w, r)->rate, size) : 0;
        request_sent(w, qp, r, parcel ? parcel->in_ps : in_ps, in_service_ps);
        return;
    }
    parcel->early_bytes += size;
    credit_return(nic, size, in_ps + w->cluster->nic.deliver_ps + back_ps(w, r));
}

/* Whether the QP whose turn it is must wait: a signal where the requests before it must first be acknowledged, and
 * whatever comes sooner than the QP's rate allows.  Until then the port's other QPs go on. */
static bool qp_must_wait(struct nic *nic, struct request *r)
{
    struct world *w = nic->world;
    const uint64_t now = sim_now_ps(w->sim);
    uint64_t go_ps = now;
    if (w->transport.order == TRANSPORT_FENCE && r->signal && !r->put) go_ps = qp_at(w, r->qp)->done_ps;
    if (w->dcqcn.parameters && !request_held_ps(w, r))
        go_ps = later(go_ps, dcqcn_allows_ps(&w->dcqcn, flow_of(w, r), now));
    if (go_ps <= now) return false;
    qp_wait(nic, r, go_ps);
    return true;
}

/* What the QP whose turn it is sends next: of a train its first put, which becomes a request of its own. */
static struct request *next_take(struct nic *nic)
{
    struct world *w = nic->world;
    arena_name *const place = &nic->active[nic->active_first];
    struct request *const r = request_at(w, *place);
    if (!r->leads) return r;
    struct request *put = pool_get(&w->requests);
    *put = (struct request){ .next = *place,
                             .qp = r->qp,
                             .wire_bytes = r->put_bytes,
                             .source = r->source,
                             .target = r->target,
                             .queue = r->queue,
                             .places = 1,
                             .put = true };
    if (--r->puts == 0) {
        r->leads = false;
        r->parcel = 0;
    }
    *place = request_name(w, put);
    return put;
}

void nic_send_next(struct sim *sim, struct sim_event *event)
{
    struct nic *nic = fabric_container_of(event, struct nic, event);
    struct world *w = nic->world;
    nic->stalled = false;
    rings_take(nic, sim_now_ps(sim));
    if (!nic->active_count) {
        turn_schedule(nic);
        return;
    }
    struct request *r = next_take(nic);
    const uint32_t left_bytes = r->wire_bytes - request_early_bytes(w, r);
    const uint32_t size = w->quantum_bytes && left_bytes > w->quantum_bytes ? w->quantum_bytes : left_bytes;
    if (w->transport.window_bytes && !window_open(nic, size)) return;
    if (qp_must_wait(nic, r)) return;
    const uint64_t head_ps =
        sim_now_ps(sim) + request_fetch_ps(&w->cluster->nic, r) + nic_local(w, r) + line_latency_ps(nic);
    struct passage p;
    p.count = 0;
    p.push_ps = 0;
    p.now_ps = sim_now_ps(sim);
    p.hold_alone = w->cluster->network.queues == CLUSTER_QUEUE_FLOW;
    if (!request_held_ps(w, r)) {
        passage_find(nic, r, &p);
        passage_plan(w->network->link, &p, size, head_ps);
        if (p.push_ps && p.hold_alone) {
            qp_hold(nic, r, &p, size, head_ps);
            return;
        }
    }
    quantum_send(nic, r, &p, size, head_ps);
}

static void landing_look(const struct sim *sim, const struct sim_event *event,
                         void (*look)(const struct world_rank *rank, uint32_t word))
{
    const struct request *r = fabric_container_of(event, const struct request, event);
    const struct world *w = sim_owner(sim);
    if (r->signal) look(&w->rank[r->target], r->word);
}

/* A place in a ring buffer whose size is a power of two, which may be unused. */
static arena_name place_name(const arena_name *place, uint32_t first, uint32_t at, uint32_t max)
{
    return place[(first + at) & (max - 1)];
}

void nic_look_far(const struct sim *sim, const struct sim_event *event)
{
    if (event->kind == EVENT_LANDED) landing_look(sim, event, world_word_look_far);
    if (event->kind != EVENT_SEND) return;
    const struct nic *nic = fabric_container_of(event, const struct nic, event);
    const struct arena *arena = &nic->world->arena;
    if (nic->active_count) {
        arena_look_ahead(arena, nic->active[nic->active_first]);
        arena_look_ahead(arena, place_name(nic->active, nic->active_first, 1, nic->active_max));
    }
    if (nic->ring_count) {
        arena_look_ahead(arena, nic->ring[nic->ring_first]);
        arena_look_ahead(arena, place_name(nic->ring, nic->ring_first, 1, nic->ring_max));
    }
}

void nic_look_near(const struct sim *sim, const struct sim_event *event)
{
    if (event->kind == EVENT_LANDED) landing_look(sim, event, world_word_look_near);
    if (event->kind != EVENT_SEND) return;
    const struct nic *nic = fabric_container_of(event, const struct nic, event);
    const struct arena *arena = &nic->world->arena;
    if (nic->active_count) arena_look_ahead(arena, request_at(nic->world, nic->active[nic->active_first])->qp);
    if (nic->ring_count) {
        const struct request *last = ring_soonest(nic);
        arena_look_ahead(arena, last->qp);
        arena_look_ahead(arena, last->next);
    }
}

void nic_queue_ahead(const struct fabric *f, uint16_t peer, uint16_t queue)
{
    const struct world_rank *rank = fabric_container_of(f, const struct world_rank, fabric);
    arena_look_ahead(&rank->world->arena, *qp_place(rank, peer, queue));
}

void nic_init(struct world *w, uint32_t port)
{
    struct nic *nic = &w->nic[port];
    nic->event.kind = EVENT_SEND;
    nic->world = w;
}

void nic_clear(struct nic *nic)
{
    free(nic->active);
    free(nic->ring);
    free(nic->credit);
}

/* ---- doorbells ---- */

/* Searches from the end, because most doorbells are posted in the order in which they ring. */
static void ring_add(struct nic *nic, struct request *last, uint64_t time_ps)
{
    const struct world *w = nic->world;
    if (nic->ring_count == nic->ring_max) {
        const uint32_t max = nic->ring_max ? 2 * nic->ring_max : QUEUE_FIRST;
        arena_name *grown = memory_grow(NULL, max, sizeof *grown);
        for (uint32_t i = 0; i < nic->ring_count; i++)
            grown[i] = nic->ring[(nic->ring_first + i) & (nic->ring_max - 1)];
        free(nic->ring);
        nic->ring = grown;
        nic->ring_first = 0;
        nic->ring_max = max;
    }
    const uint32_t mask = nic->ring_max - 1;
    uint32_t place = nic->ring_count++;
    for (; place; place--) {
        const arena_name before = nic->ring[(nic->ring_first + place - 1) & mask];
        if (request_at(w, before)->ring_ps <= time_ps) break;
        nic->ring[(nic->ring_first + place) & mask] = before;
    }
    last->ring_ps = time_ps;
    nic->ring[(nic->ring_first + place) & mask] = request_name(w, last);
    if (!nic->stalled) turn_schedule(nic);
}

/* Doorbells of one QP ring in the order posted, even if a later poster was quicker. */
static void ring_schedule(const struct world *w, struct request *last, uint64_t ready_ps)
{
    struct qp *qp = qp_at(w, last->qp);
    if (ready_ps > qp->ring_ps) qp->ring_ps = ready_ps;
    ring_add(nic_of(w, last), last, qp->ring_ps);
}

void nic_ring(struct world_rank *source, struct qp *qp)
{
    const struct world *w = source->world;
    struct request *last = request_at(w, qp->held_last), *first = request_at(w, last->next), *next;
    qp->held_last = 0;
    if (!w->machine->send) {
        ring_schedule(w, last, sim_now_ps(w->sim)); /* a flush may ring for what was posted a while ago */
        return;
    }
    for (struct request *r = first; r; r = next) {
        next = r == last ? NULL : request_at(w, r->next);
        r->next = request_name(w, r); /* a doorbell of its own */
        ring_schedule(w, r, w->machine->send(source, r));
    }
}

/* Lets the last request posted on a QP, whose doorbell has not rung, stand for this one too, if it can.  A timeline
 * looks at each by itself, and a host works for each. */
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

void nic_post(struct world_rank *source, struct request *r, uint64_t ready_ps, bool defer)
{
    struct world *w = source->world;
    struct qp *qp = nic_qp(source, r->target, r->queue);
    world_bisection_note(w, r->source, r->target, r->wire_bytes);
    struct request *const held = request_at(w, qp->held_last);
    r->qp = arena_name_of(&w->arena, qp);
    qp->unknown += r->places;
    qp->unacked += w->queue_depth ? r->places : 0;
    if (!held || !train_join(w, held, r)) {
        const arena_name name = request_name(w, r);
        r->next = held ? held->next : name;
        if (held) held->next = name;
        qp->held_last = name;
    }
    if (!w->machine->send) qp->ring_ps = later(qp->ring_ps, ready_ps);
    if (w->options.timeline) world_timeline_post_note(w, r);
    if (!defer) nic_ring(source, qp);
}
