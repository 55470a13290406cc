/* nic_internal.h - private to the files of the NIC: how names refer to requests and QPs, which ports a request uses,
 * and the functions that the files of the NIC call in one another.
 *
 *   nic_doorbell.c   posts, doorbells, trains of puts
 *   nic_turns.c      whose turn it is at a port, and the window
 *   nic.c            the way of a quantum
 *   nic_mail.c       quanta between nodes that are parts
 *   nic_receive.c    what has come in: bytes, signals and atomics, gets, acknowledgements */
#ifndef MODELS_HARDWARE_NIC_INTERNAL_H
#define MODELS_HARDWARE_NIC_INTERNAL_H

#include "models/hardware/nic/nic_mail.h"
#include "models/hardware/world/world_internal.h"

enum { NIC_QUEUE_FIRST = 16 }; /* the first size of a port's queues; sizes are powers of two */

/* ---- names ---- */

/* The request of that name; NULL: the name is 0. */
static inline struct request *request_at(const struct world *w, arena_name name) { return arena_at(&w->arena, name); }
static inline arena_name request_name(const struct world *w, const struct request *r)
{
    return arena_name_of(&w->arena, r);
}
static inline struct qp *qp_at(const struct world *w, arena_name name) { return arena_at(&w->arena, name); }
static inline __attribute__((always_inline)) void request_look_ahead(const struct world *w, arena_name name)
{
    arena_look_ahead(&w->arena, name, sizeof(struct request));
}
static inline __attribute__((always_inline)) void qp_look_ahead(const struct world *w, arena_name name)
{
    arena_look_ahead(&w->arena, name, sizeof(struct qp));
}
static inline struct qp_rest *qp_rest_of(const struct world *w, const struct qp *qp)
{
    return qp->rested ? arena_at(&w->arena, qp->more) : NULL;
}
/* The place that holds the name of the QP's last ack. */
static inline arena_name *qp_ack_last(const struct world *w, struct qp *qp)
{
    return qp->rested ? &qp_rest_of(w, qp)->ack_last : &qp->more;
}
static inline struct parcel *parcel_of(const struct world *w, const struct request *r)
{
    return r->leads ? NULL : arena_at(&w->arena, r->parcel);
}

/* ---- by which ports ---- */

/* Spreads a number's bits evenly (the finaliser of SplitMix64). */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t qp_key(const struct request *r, uint32_t queue)
{
    return (uint64_t)r->source << 40 | (uint64_t)r->target << 16 | queue;
}

/* The index, among the source's ports, of the port that a request's QP uses. */
static inline uint32_t port_choose(const struct world *w, const struct request *r)
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

/* The index, among the target's ports, of the port that the request comes to. */
static inline uint32_t peer_port_choose(const struct world *w, const struct request *r)
{
    const uint32_t count = w->rank[r->target].nic_count;
    return count == 1 ? 0 : port_choose(w, r) % count;
}

/* The numbers, among all ports, of the source's port and of the target's. */
static inline uint32_t port_own(const struct world *w, const struct request *r)
{
    return w->rank[r->source].nic[port_choose(w, r)];
}

static inline uint32_t port_to(const struct world *w, const struct request *r)
{
    return w->rank[r->target].nic[peer_port_choose(w, r)];
}

/* The relay by which a QP's messages leave their node; NULL: they leave by the source's own port. */
static inline struct relay *relay_of(const struct world *w, const struct request *r)
{
    if (!w->relay) return NULL;
    const struct network *n = w->network;
    const uint32_t own = port_own(w, r), to = port_to(w, r), all = n->ports_per_node;
    const uint32_t port = graph_relay_port(n->graph, own / all, own % all, n->leaf[n->port[to].leaf]);
    return port == UINT32_MAX || own / all == to / all ? NULL : &w->relay[own / all * all + port];
}

/* The port that a QP sends from. */
static inline uint32_t port_out(const struct world *w, const struct request *r)
{
    const struct relay *relay = relay_of(w, r);
    return relay ? (uint32_t)(relay - w->relay) : port_own(w, r);
}

/* The links between the source's port and the memory that it reads. */
static inline const struct network_local *local_out(const struct world *w, const struct request *r)
{
    const struct relay *relay = relay_of(w, r);
    return relay ? &relay->local : &w->rank[r->source].local[port_choose(w, r)];
}

/* Whether a request goes to the port that sends it. */
static inline bool turns_round(const struct world *w, const struct request *r)
{
    return w->ports_turn && port_out(w, r) == port_to(w, r);
}

static inline struct nic *nic_of(const struct world *w, const struct request *r)
{
    return &w->nic[port_out(w, r) + (turns_round(w, r) ? w->nic_count : 0)];
}

/* The wire bytes of the request's quanta that are already sent. */
static inline uint32_t request_early_bytes(const struct world *w, const struct request *r)
{
    const struct parcel *const parcel = parcel_of(w, r);
    return parcel ? parcel->early_bytes : 0;
}

/* How long an acknowledgement takes back to the source.  A message that turns round inside the NIC is acknowledged 1 ps
 * after it arrives, so that its bytes are copied before their owner may write them again. */
static inline uint64_t back_ps(const struct world *w, const struct request *r)
{
    if (turns_round(w, r)) return 1;
    if (__builtin_expect(w->network->leaf_count < 2, 1)) return w->cluster->network.latency_ps;
    return network_back_ps(w->network, port_out(w, r), port_to(w, r));
}

/* The latency of bytes through a node; 0 if CPUs copy them, because a CPU waits until its copy is done. */
static inline uint64_t inside_ps(const struct world *w, const struct network_local *local)
{
    return w->transport.copy_rate_bps ? 0 : local->latency_ps;
}

/* How long an acknowledgement waits because the NIC reads memory after it has written the bytes.  0: the transport does
 * not ask for that read. */
static inline uint64_t flush_ps(const struct world *w) { return w->transport.flushed ? w->cluster->nic.read_ps : 0; }

/* The server whose time the QPs share in turns. */
static inline struct port *nic_turns(struct nic *nic) { return nic->line ? &nic->line->port : &nic->turned; }

/* ---- nic_turns.c ---- */

/* Gives bytes back to the window at time_ps. */
void nic_credit_return(struct nic *nic, uint32_t size_bytes, uint64_t time_ps);
/* When the port takes its next turn: once it is free and a QP has pending requests, or when the next doorbell rings.  A
 * port that is stalled waits for a credit.  UINT64_MAX: it waits for something that is not known yet. */
uint64_t nic_turn_ps(const struct nic *nic);
/* Schedules that turn, if the port's turns are events. */
void nic_turn_schedule(struct nic *nic);
/* Returns a ring buffer of twice as many entries as the full one, in its place. */
arena_name *nic_queue_grow(arena_name *queue, uint32_t *first, uint32_t *max);
/* Adds a QP to those that take turns; `first` is the request that it sends first. */
void nic_active_add(struct nic *nic, const struct request *first);

/* Removes the QP whose turn it is.  If it has more requests, the caller adds it again at the end. */
void nic_active_take(struct nic *nic);
/* Whether the window has room for size_bytes now.  No quantum is larger than the window.  If there is no room, the NIC
 * tries again when the next credit is due. */
bool nic_window_open(struct nic *nic, uint64_t size_bytes, uint64_t now_ps);

/* ---- nic_doorbell.c ---- */

/* Schedules a QP's doorbell to ring at time_ps; last is the last request that it covers. */
void nic_ring_add(struct nic *nic, struct request *last, uint64_t time_ps);
/* Makes ready the requests of all doorbells that have rung by now. */
void nic_rings_take(struct nic *nic, uint64_t now_ps);
/* The last request of the doorbell that rings next. */
static inline struct request *nic_ring_soonest(const struct nic *nic)
{
    return request_at(nic->world, nic->ring[nic->ring_first]);
}

/* ---- nic_receive.c ---- */

/* Takes in a quantum at the peer, whose world is w.  The quantum's links are planned, and it arrives at m->there_ps.
 * Sets m->acked_ps if that time is known now. */
void nic_mail_take(struct world *w, struct mail *m);
/* Tells the source, whose world is w, at which time the quantum is acknowledged.  After the last quantum the source
 * frees the request. */
void nic_mail_told(struct world *w, struct mail *m);

#endif
