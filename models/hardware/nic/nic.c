/* nic.c - the NIC's ports: each sends the requests of its QPs.
 *
 *     post > QP's held list > doorbell > QP's ready list > port > fetch > network > port of the peer > visible
 *                                                      QP, window < acknowledgement <-'
 *
 * A QP has one port.  At a port, the QPs with pending requests take turns: the QP that has waited longest sends a
 * quantum of its first request.  A QP keeps its order because lists and links serve first come, first served.  Where
 * requests take different paths, a signal becomes visible only after the requests before it, and so does a put if the
 * NIC keeps the order.  Within a part of a world, a quantum's links are all planned when it is sent.  Between parts,
 * they are planned when the window ends.  A doorbell is not an event: a port keeps the coming doorbells by time and
 * reads them when it is free.  Two ranks may share a port.  Their messages to each other turn round inside the NIC and
 * use PCIe, but neither the port's line nor the network.  The QPs of such messages take turns among themselves.  If the
 * cluster does not say PCIe's rate, they go by the line as all others, or nothing would be their limit.
 * Posting is in nic_doorbell.c, and what happens to requests that arrive is in nic_receive.c. */
#include "models/hardware/nic/nic_internal.h"
#include "models/hardware/world/world_timeline.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the way of a quantum ---- */

/* The time from the doorbell until the first byte leaves, without the latency inside the node.  A signal without a put
 * carries its bytes in the request, so read_ps, the read of a payload, is left out. */
static uint64_t request_fetch_ps(const struct cluster_nic *c, const struct request *r)
{
    return c->fetch_ps - (r->signal && !r->put ? c->read_ps : 0);
}

static void passage_begin(const struct world *w, struct passage *p, uint64_t now_ps)
{
    p->count = 0;
    p->push_ps = 0;
    p->now_ps = now_ps;
    p->hold_alone = w->cluster->network.queues == CLUSTER_QUEUE_FLOW;
}

/* Finds a message's way from this port to the peer's memory. */
static void passage_find(struct nic *nic, const struct request *r, struct passage *p)
{
    struct world *w = nic->world;
    const uint32_t from = nic->number, to = port_to(w, r);
    uint64_t key = 0;
    if (w->network->leaf_count > 1) {
        const bool address = w->cluster->network.flow_key == CLUSTER_KEY_ADDRESS;
        key = mix(1 + (address ? (uint64_t)from << 32 | to : qp_key(r, r->queue)));
        if (w->cluster->network.routing == CLUSTER_SPRAY)
            key = (key >> 32) + nic_qp_more(w, qp_at(w, r->qp))->sprayed++;
    }
    p->count = 0;
    if (!turns_round(w, r)) network_way(w->network, from, to, key, p);
    const struct network_local *local = &w->rank[r->target].local[peer_port_choose(w, r)];
    assert(p->count + local->in_count <= PASSAGE_LINKS_MAX);
    for (uint32_t i = 0; i < local->in_count; i++) p->link[p->count++] = local->in[i];
}

/* The time that bytes take on the port's line, and that line's latency; 0 for messages inside the NIC. */
static uint64_t line_ps(const struct nic *nic, uint64_t size_bytes)
{
    return nic->line ? rate_time(nic->line->rate, size_bytes) : 0;
}

static uint64_t line_latency_ps(const struct nic *nic) { return nic->line ? nic->line->latency_ps : 0; }

/* The latency between the GPU's memory and this port. */
static uint64_t nic_local(const struct world *w, const struct request *r) { return inside_ps(w, local_out(w, r)); }

/* Sends bytes to the relay's GPU by NVLink.  Returns when the last byte is there. */
static uint64_t relay_cross(const struct world *w, const struct request *r, const struct relay *relay, uint64_t now_ps,
                            uint64_t size_bytes)
{
    struct world_rank *source = &w->rank[r->source];
    const uint64_t bytes_ps = rate_time(w->egress, size_bytes);
    const uint64_t out_ps = port_reserve(&source->egress, now_ps, bytes_ps, size_bytes);
    source->egress_bytes_ps += bytes_ps;
    held_note(source, relay->rank ? relay->rank : source, now_ps, now_ps, out_ps);
    if (!relay->rank) return out_ps;
    return later(out_ps, port_reserve(&relay->rank->ingress, now_ps, rate_time(w->ingress, size_bytes), size_bytes));
}

/* Makes the port read size_bytes from the GPU's memory.  Returns when the last byte is at the port.  The port reads
 * while it sends, so links at their limit slow the read. */
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

/* Sends a quantum's bytes over the planned way.  Switches with long queues may mark them.  Returns when the last byte
 * is at the peer. */
static uint64_t passage_go(struct world *w, const struct request *r, const struct passage *p, uint32_t size,
                           uint64_t head_ps, uint64_t tail_ps)
{
    const struct network_local *local = &w->rank[r->target].local[peer_port_choose(w, r)];
    bool marked = false;
    for (uint32_t i = 0; w->dcqcn.parameters && i + local->in_count < p->count; i++) {
        const uint64_t queue_bytes = passage_queue_bytes(w->network->link, p, i, head_ps);
        const uint32_t packets = (size - 1) / (uint32_t)w->cluster->nic.mtu_bytes + 1;
        marked |= queue_bytes && dcqcn_marks(&w->whole->dcqcn, queue_bytes, packets);
    }
    const uint64_t in_ps = passage_take(w->network->link, p, size, tail_ps);
    if (marked) dcqcn_marked(&w->dcqcn, flow_of(w, r), in_ps, back_ps(w, r));
    return in_ps;
}

/* Sends a quantum's bytes over their only way, if its links need no planning (ways_straight).  Returns when the last
 * byte is at the peer. */
static uint64_t straight_go(const struct world *w, const struct request *r, uint32_t size, uint64_t head_ps,
                            uint64_t tail_ps)
{
    const struct network *n = w->network;
    const struct world_rank *target = &w->rank[r->target];
    const uint32_t port = peer_port_choose(w, r), to = target->nic[port];
    const struct network_local *local = &target->local[port];
    struct crossing c = { head_ps, tail_ps };
    if (!turns_round(w, r)) link_cross(&n->link[n->port[to].in], size, &c);
    for (uint32_t i = 0; i < local->in_count; i++) link_cross(&n->link[local->in[i]], size, &c);
    return c.tail_ps;
}

/* ---- whose turn it is ---- */

void nic_qp_resume(struct sim *sim, struct sim_event *event)
{
    const struct world *w = sim_owner(sim);
    const struct request *r = fabric_container_of(event, struct parcel, resume_event)->request;
    struct nic *nic = nic_of(w, r);
    nic_active_add(nic, r);
    if (!nic->stalled) nic_turn_schedule(nic);
}

/* Takes the QP whose turn it is out of the rotation until go_ps. r is its next request. */
static void qp_wait(struct nic *nic, struct request *r, uint64_t go_ps)
{
    struct world *w = nic->world;
    struct parcel *const parcel = world_request_parcel(w, r);
    nic_active_take(nic);
    parcel->resume_event.kind = EVENT_RESUME;
    sim_schedule_at(w->sim, &parcel->resume_event, go_ps);
    nic_turn_schedule(nic);
}

/* Reserves the links for the QP's next bytes, from the time at which there is room.  Until that time only the port's
 * other QPs send. */
static void qp_hold(struct nic *nic, struct request *r, const struct passage *p, uint32_t size, uint64_t head_ps)
{
    struct world *w = nic->world;
    const uint64_t go_ps = p->now_ps + p->push_ps;
    const uint64_t tail_ps = go_ps + line_ps(nic, size) + w->cluster->nic.fetch_ps;
    world_request_parcel(w, r)->held_ps = passage_go(w, r, p, size, head_ps, tail_ps + line_latency_ps(nic));
    qp_wait(nic, r, go_ps);
}

static uint64_t request_held_ps(const struct world *w, const struct request *r)
{
    const struct parcel *const parcel = parcel_of(w, r);
    return parcel ? parcel->held_ps : 0;
}

/* The time that a request costs a port in addition to its bytes.  Only the request's first quantum pays it. */
static uint64_t request_work_ps(const struct world *w, const struct request *r, uint32_t early_bytes)
{
    const struct cluster_nic *c = &w->cluster->nic;
    if (early_bytes) return 0;
    return (r->put || r->answer ? c->message_ps : 0) + ((r->signal && !r->polled) || r->get ? c->signal_ps : 0);
}

/* Returns the bytes of the acknowledgements that a port owes, and clears them.  They go out with its next quantum. */
static uint64_t acks_take(struct nic *nic)
{
    const uint64_t owed_bytes = nic->owed_bytes;
    nic->owed_bytes = 0;
    return owed_bytes;
}

/* Whether the port's quanta go as mail to another part of the world. */
static bool nic_mails(const struct nic *nic) { return nic->world->box && nic->line; }

/* Hands a quantum of r to the peer: by mail if the peer is in another part, otherwise at once.  The peer writes in_ps
 * into the QP's struct qp_rest.  This part owns the QP, so it makes that struct before. */
static void mail_go(const struct nic *nic, struct request *r, struct mail *m)
{
    struct world *w = nic->world;
    if (w->ways_differ || w->transport.message_ps) (void)nic_qp_more(w, qp_at(w, r->qp));
    if (nic_mails(nic) && m->last && !parcel_of(w, r) && !w->record) {
        m->kept = NULL;
        m->sent = *r;
        pool_put(&w->requests, r);
        return;
    }
    m->kept = r;
    if (nic_mails(nic)) return;
    nic_mail_take(w, m);
    nic_mail_told(w, m);
}

/* Sends the next quantum of r, the first request of the QP whose turn it is.  The quantum goes over the planned links.
 * If it goes as mail, its links are planned later. */
static void quantum_send(struct nic *nic, struct request *r, const struct passage *p, uint32_t size, uint64_t head_ps)
{
    struct world *w = nic->world;
    struct qp *qp = qp_at(w, r->qp);
    struct port *turns = nic_turns(nic);
    const uint64_t now = p->now_ps, owed_bytes = acks_take(nic);
    nic_active_take(nic);
    const uint32_t early_bytes = request_early_bytes(w, r);
    const uint64_t service_ps = request_work_ps(w, r, early_bytes) + line_ps(nic, size + owed_bytes);
    const uint64_t read_ps = source_read(nic, r, now, size);
    uint64_t sent_ps = port_reserve(turns, now, service_ps, size + owed_bytes) + p->push_ps;
    sent_ps = sent_ps > read_ps ? sent_ps : read_ps;
    turns->free_ps = sent_ps;
    nic->outstanding_bytes += size;
    if (w->dcqcn.parameters) dcqcn_sent(&w->dcqcn, flow_of(w, r), now, size);
    if (w->record) world_timeline_request(w->record, r, true, sent_ps - service_ps, sent_ps);
    const uint64_t tail_ps = now + line_ps(nic, size) + p->push_ps;
    const uint64_t there_ps = (tail_ps > read_ps ? tail_ps : read_ps) + head_ps - now;
    const uint64_t held_ps = request_held_ps(w, r);
    struct mail own, *const mail = nic_mails(nic) ? mailbox_add(w->box, r->target / w->part_ranks, now) : &own;
    mail->sent_ps = now;
    mail->head_ps = head_ps;
    mail->there_ps = there_ps;
    mail->acked_ps = 0;
    mail->size_bytes = size;
    mail->lands = false;
    if (held_ps) mail->there_ps = later(held_ps, there_ps);
    else if (!nic_mails(nic))
        mail->there_ps = w->ways_straight ? straight_go(w, r, size, head_ps, there_ps)
                                          : passage_go(w, r, p, size, head_ps, there_ps);
    mail->last = early_bytes + size == r->wire_bytes;
    assert(early_bytes + size <= r->wire_bytes && mail->there_ps >= now);
    const struct request *next = mail->last ? request_at(w, r->next) : r;
    if (next) nic_active_add(nic, next);
    else qp->ready_last = 0;
    nic_turn_schedule(nic);
    struct parcel *parcel = mail->last ? parcel_of(w, r) : world_request_parcel(w, r);
    if (parcel) parcel->held_ps = 0;
    if (!mail->last) parcel->early_bytes += size;
    mail_go(nic, r, mail);
}

/* Whether the QP whose turn it is must wait.  A signal without a put waits if the transport wants the requests before
 * it to be acknowledged first.  Any request waits until the QP's rate allows it.  Meanwhile the port's other QPs
 * send. */
static bool qp_must_wait(struct nic *nic, struct request *r, uint64_t now)
{
    struct world *w = nic->world;
    uint64_t go_ps = now;
    if (w->transport.order == TRANSPORT_FENCE && r->signal && !r->put) go_ps = qp_at(w, r->qp)->done_ps;
    if (w->dcqcn.parameters && !request_held_ps(w, r))
        go_ps = later(go_ps, dcqcn_allows_ps(&w->dcqcn, flow_of(w, r), now));
    if (go_ps <= now) return false;
    qp_wait(nic, r, go_ps);
    return true;
}

/* Returns the next request of the QP whose turn it is.  If that request leads a train, returns the train's first put,
 * as a request of its own. */
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

static void turn_take(struct nic *nic, uint64_t now)
{
    struct world *w = nic->world;
    nic->stalled = false;
    nic_rings_take(nic, now);
    if (!nic->active_count) {
        nic_turn_schedule(nic);
        return;
    }
    struct request *r = next_take(nic);
    const uint32_t left_bytes = r->wire_bytes - request_early_bytes(w, r);
    const uint32_t size = w->quantum_bytes && left_bytes > w->quantum_bytes ? w->quantum_bytes : left_bytes;
    if (w->transport.window_bytes && !nic_window_open(nic, size, now)) return;
    if (qp_must_wait(nic, r, now)) return;
    const uint64_t head_ps = now + request_fetch_ps(&w->cluster->nic, r) + nic_local(w, r) + line_latency_ps(nic);
    struct passage p;
    passage_begin(w, &p, now);
    if (!w->ways_straight && !request_held_ps(w, r) && !nic_mails(nic)) {
        passage_find(nic, r, &p);
        passage_plan(w->network->link, &p, size, head_ps);
        if (p.push_ps && p.hold_alone) {
            qp_hold(nic, r, &p, size, head_ps);
            return;
        }
    }
    quantum_send(nic, r, &p, size, head_ps);
}

void nic_send_next(struct sim *sim, struct sim_event *event)
{
    turn_take(fabric_container_of(event, struct nic, event), sim_now_ps(sim));
}

/* ---- turns that are no events ---- */

/* The name at index `at` of a ring buffer.  The entry may be unused, because a prefetch of any name is allowed.  The
 * buffer's size is a power of two. */
static arena_name place_name(const arena_name *place, uint32_t first, uint32_t at, uint32_t max)
{
    return place[(first + at) & (max - 1)];
}

/* Prefetches the requests of a port's coming turns, and then the QPs of those that come sooner. */
enum { TURNS_FAR = 5, TURNS_NEAR = 2 };

static inline __attribute__((always_inline)) void turn_look_far(const struct nic *nic)
{
    const struct world *w = nic->world;
    if (nic->active_count)
        request_look_ahead(w, place_name(nic->active, nic->active_first, TURNS_FAR, nic->active_max));
    if (nic->ring_count) request_look_ahead(w, place_name(nic->ring, nic->ring_first, TURNS_FAR, nic->ring_max));
}

static inline __attribute__((always_inline)) void turn_look_near(const struct nic *nic)
{
    const struct world *w = nic->world;
    if (nic->active_count > TURNS_NEAR) {
        const arena_name name = place_name(nic->active, nic->active_first, TURNS_NEAR, nic->active_max);
        qp_look_ahead(w, request_at(w, name)->qp);
    }
    if (nic->ring_count > TURNS_NEAR) {
        const arena_name name = place_name(nic->ring, nic->ring_first, TURNS_NEAR, nic->ring_max);
        const struct request *last = request_at(w, name);
        qp_look_ahead(w, last->qp);
        request_look_ahead(w, last->next);
    }
}

/* Whether no two ports read memory over one link.  Their reads would have to be made in the order of their turns. */
static bool reads_apart(const struct world *w)
{
    const uint32_t links = w->network->graph->link->len;
    uint32_t *reader = memory_new((size_t)links + 1, sizeof reader[0]); /* [links] 1 + a port that reads by it */
    bool apart = true;
    for (uint32_t r = 0; r < w->options.ranks; r++) {
        const struct world_rank *rank = &w->rank[r];
        for (uint32_t i = 0; i < rank->nic_count; i++) {
            for (uint32_t l = 0; l < rank->local[i].out_count; l++) {
                uint32_t *const of = &reader[rank->local[i].out[l]];
                apart &= !*of || *of == rank->nic[i] + 1;
                *of = rank->nic[i] + 1;
            }
        }
    }
    free(reader);
    return apart;
}

void nic_turns_init(struct world *whole)
{
    if (!whole->boxes || whole->relay || whole->peer_way || whole->dcqcn.parameters || whole->options.timeline) return;
    for (uint32_t p = 0; p < whole->parts; p++)
        if (whole->part[p]->ports_turn) return;
    if (!reads_apart(whole)) return;
    for (uint32_t i = 0; i < whole->nic_count; i++) whole->nic[i].apart = true;
}

void nic_turns_take(struct world *w, uint64_t end_ps)
{
    for (uint32_t i = w->port_first; i < w->port_end; i++) {
        struct nic *nic = &w->nic[i];
        if (!nic->apart) return;
        for (uint64_t turn_ps; (turn_ps = nic_turn_ps(nic)) < end_ps; w->turns_taken++) {
            turn_look_far(nic);
            turn_look_near(nic);
            turn_take(nic, turn_ps);
        }
    }
}

uint64_t nic_turns_next_ps(const struct world *w)
{
    uint64_t next_ps = UINT64_MAX;
    for (uint32_t i = w->port_first; i < w->port_end; i++) {
        if (!w->nic[i].apart) break;
        const uint64_t turn_ps = nic_turn_ps(&w->nic[i]);
        next_ps = turn_ps < next_ps ? turn_ps : next_ps;
    }
    return next_ps;
}

/* ---- mail ---- */

/* Plans the links of a quantum as of the time when it was sent, and sends it over them. */
static void mail_way(const struct world *w, struct mail *m)
{
    const struct request *r = mail_request(m);
    if (w->ways_straight) {
        m->there_ps = straight_go(w, r, m->size_bytes, m->head_ps, m->there_ps);
        return;
    }
    struct world *from = w->rank[r->source].world;
    struct passage p;
    passage_begin(from, &p, m->sent_ps);
    passage_find(nic_of(from, r), r, &p);
    passage_plan(from->network->link, &p, m->size_bytes, m->head_ps);
    assert(!p.push_ps); /* worlds whose buffers can be full are not divided into parts */
    m->there_ps = passage_go(from, r, &p, m->size_bytes, m->head_ps, m->there_ps);
}

void nic_mails_way(struct world *w, struct mailbox *const *box)
{
    mailbox_collect_all(w->box, box);
    for (uint32_t i = 0; i < w->box->in_count; i++) {
        struct mail *m = w->box->in[i].mail;
        mail_way(w, m);
        (void)back_ps(w, mail_request(m)); /* a first call finds the ways back, so make it here, on one thread */
    }
}

static void word_of_look(const struct world *w, struct mail *m,
                         void (*look)(const struct world_rank *rank, uint32_t word))
{
    const struct request *r = mail_request(m);
    if (r->signal) look(&w->rank[r->target], r->word);
}

void nic_mails_take(struct world *w)
{
    enum { WORD_BEHIND = 8, WATCH_BEHIND = 12, MAIL_BEHIND = 16 }; /* how many mails later each is done */
    struct mail_due *const in = w->box->in;
    const uint32_t count = w->box->in_count;
    for (uint32_t i = 0; i < count + MAIL_BEHIND; i++) {
        const uint32_t word = i - WORD_BEHIND, watch = i - WATCH_BEHIND, taken = i - MAIL_BEHIND;
        if (i < count) {
            __builtin_prefetch(in[i].mail, 1);
            __builtin_prefetch((const char *)in[i].mail + ARENA_LINE_BYTES, 1);
        }
        if (word < count) word_of_look(w, in[word].mail, world_word_look_far);
        if (watch < count) word_of_look(w, in[watch].mail, world_word_look_near);
        if (taken >= count) continue;
        if (!w->ways_shared) mail_way(w, in[taken].mail);
        nic_mail_take(w, in[taken].mail);
    }
}

void nic_mails_told(struct world *w)
{
    enum { QP_AHEAD = 8 };
    struct mail *const mail = w->box->mail;
    const uint32_t count = w->box->count;
    for (uint32_t i = 0; i < count; i++) {
        if (i + QP_AHEAD < count) qp_look_ahead(w, mail_request(&mail[i + QP_AHEAD])->qp);
        nic_mail_told(w, &mail[i]);
    }
    mailbox_clear(w->box);
}

/* ---- events ---- */

static void landing_look(const struct sim *sim, const struct sim_event *event,
                         void (*look)(const struct world_rank *rank, uint32_t word))
{
    const struct request *r = fabric_container_of(event, const struct request, event);
    const struct world *w = sim_owner(sim);
    if (r->signal) look(&w->rank[r->target], r->word);
}

void nic_look_far(const struct sim *sim, const struct sim_event *event)
{
    if (event->kind == EVENT_LANDED) landing_look(sim, event, world_word_look_far);
    if (event->kind == EVENT_SEND) turn_look_far(fabric_container_of(event, const struct nic, event));
}

void nic_look_near(const struct sim *sim, const struct sim_event *event)
{
    if (event->kind == EVENT_LANDED) landing_look(sim, event, world_word_look_near);
    if (event->kind == EVENT_SEND) turn_look_near(fabric_container_of(event, const struct nic, event));
}

void nic_init(struct world *w, uint32_t port)
{
    struct nic *nic = &w->nic[port];
    nic->event.kind = EVENT_SEND;
    nic->world = w;
    nic->number = port % w->nic_count;
    nic->line = port < w->nic_count ? &w->network->link[w->network->port[port].out] : NULL;
}

void nic_clear(struct nic *nic)
{
    free(nic->active);
    free(nic->ring);
    free(nic->credit);
}
