/* nic.h - work requests, QPs and the ports of NICs, from the doorbell until bytes are visible.  Private to
 * models/hardware. */
#ifndef MODELS_HARDWARE_NIC_H
#define MODELS_HARDWARE_NIC_H

#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"
#include "models/hardware/world/arena.h"
#include "models/hardware/nic/dcqcn.h"
#include "models/hardware/machine/link.h"
#include "sim/sim.h"

struct loop;
struct mailbox;
struct world;
struct world_rank;

/* A work request, from its posting until its bytes are visible.  Large worlds have millions of them, so a request is
 * small.  It refers to other objects by arena name, not by pointer.  Its event shares memory with members that are
 * needed only before the request is sent.  Puts of one doorbell that store nothing and have equal sizes form a train.
 * The request at the end of a train leads it: it stands for the puts before it, and each put becomes a request of its
 * own when its turn comes. */
struct request {
    union {
        struct sim_event event; /* once it is sent */
        struct {
            uint64_t ring_ps; /* set in the last request of a doorbell: when the doorbell rings */
            arena_name next;  /* the next request on its QP's held or ready list; its own name if it is on neither */
            uint32_t puts;    /* how many puts come before it in the train that it leads */
        };
    };
    uint64_t value; /* of a signal */
    union {
        arena_name parcel;  /* its struct parcel; 0: it has none */
        uint32_t put_bytes; /* if it leads a train: wire bytes of each put before it */
    };
    arena_name qp; /* the QP that it was posted on; for an answer, the peer's QP */
    uint32_t wire_bytes;
    union {
        uint32_t word;         /* of a signal */
        uint32_t answer_bytes; /* of a get: wire bytes of its answer */
    };
    uint16_t source, target; /* ranks */
    uint16_t queue;
    uint8_t places;                    /* places that it takes on its QP's queue */
    bool put : 1, signal : 1, add : 1; /* a put with a signal is one request that takes two places */
    bool polled : 1;                   /* a put with a signal: the receiver polls the data, so the signal is no message
                                        * of its own */
    bool get : 1, answer : 1;          /* a get on its way to the peer; its answer on the way back, with the peer as
                                        * source */
    bool message : 1;                  /* a put that the peer's library receives */
    bool leads : 1;                    /* it leads a train, and has no parcel yet */
};
_Static_assert(sizeof(struct request) == 48, "large worlds have millions");

/* Members that only some requests need: those that carry bytes to store, are sent in several quanta, are held back,
 * or go between hosts. */
struct parcel {
    const void *payload; /* bytes of a put or an answered get.  They belong to the source until they have arrived */
    uint64_t target_offset;
    uint32_t payload_bytes;        /* 0: nothing is stored */
    uint32_t early_bytes;          /* wire bytes sent in quanta before the last */
    uint64_t in_ps;                /* when the last byte sent so far comes in */
    uint64_t held_ps;              /* when the quantum that has reserved its links comes in; 0: no quantum has reserved
                                    * any */
    struct sim_event resume_event; /* ends the wait of its QP */
    struct request *request;
};
_Static_assert(sizeof(struct parcel) % ARENA_UNIT_BYTES == 0, "it has a name");

/* A completion on its way back to a QP.  When it arrives, the QP has room for one more request. */
struct ack {
    struct ack *next;
    uint64_t time_ps;
};

/* A worker that found a QP full, or that flushes a QP with unfinished requests. */
struct waiter {
    struct waiter *next;
    uint32_t worker;
    bool flush;
};

/* A queue pair from a rank to a peer.  It is small because large worlds have millions. */
struct qp {
    arena_name held_last;  /* the last posted request whose doorbell has not rung; its `next` is the first one */
    arena_name ready_last; /* the last request whose doorbell has rung and that is not sent; the first such request is
                            * in its port's `active` */
    arena_name more;       /* names its last ack; if `rested`: its struct qp_rest, which then has the name of the ack */
    uint32_t unknown : 31; /* places of posted requests whose time of completion is not known yet */
    uint32_t rested : 1;
    uint32_t unacked;  /* places of unknown requests and of those whose ack is on its way; kept only if requests in
                        * flight are limited */
    uint32_t early_ps; /* the warp's lock ends at least this long before ring_ps */
    uint64_t ring_ps;  /* when its last doorbell rings; if requests are held, the soonest time at which their doorbell
                        * rings */
    uint64_t done_ps;  /* when all requests whose completion time is known are complete */
};
_Static_assert(sizeof(struct qp) == 40, "large worlds have millions");

/* Members that only few QPs need. */
struct qp_rest {
    struct waiter *waiter;
    uint64_t in_ps;          /* when everything sent so far is in; kept only if ways differ or signals are messages to a
                              * thread */
    uint32_t sprayed;        /* quanta sent so far; kept only if quanta take all ways in turn */
    uint32_t answers;        /* answers to the peer's gets that it still has to send */
    struct dcqcn_flow *flow; /* its rate; NULL: there is no DCQCN, or the QP has not sent yet */
    arena_name ack_last;     /* the last completion on its way, whose `next` is the soonest; kept only if requests in
                              * flight are limited.  Where requests complete in order, the very last is not listed: it
                              * comes at done_ps */
};
_Static_assert(sizeof(struct qp_rest) % ARENA_UNIT_BYTES == 0, "it has a name");

/* Until this time the warp that rings the doorbell has the QP to itself.  early_ps can hold at most 4 ms.  That is
 * enough: a lock that ends more than 4 ms before ring_ps has ended for any warp that posts now. */
static inline uint64_t qp_lock_ps(const struct qp *qp) { return qp->ring_ps - qp->early_ps; }
static inline void qp_lock_set(struct qp *qp, uint64_t lock_ps)
{
    const uint64_t early_ps = qp->ring_ps - lock_ps;
    qp->early_ps = early_ps < UINT32_MAX ? (uint32_t)early_ps : UINT32_MAX;
}
/* Lets the doorbell ring no sooner than time_ps.  The lock stays as it is. */
static inline void qp_ring_after(struct qp *qp, uint64_t time_ps)
{
    const uint64_t lock_ps = qp_lock_ps(qp);
    if (time_ps <= qp->ring_ps) return;
    qp->ring_ps = time_ps;
    qp_lock_set(qp, lock_ps);
}

/* Bytes that a window gets back at time_ps. */
struct credit {
    uint64_t time_ps;
    uint32_t size_bytes;
};

/* A port of a NIC.  A world's array has one for each port in the network, in the order of the ports' numbers, and then
 * one more for each port, for messages from the port to itself.  A port's turns are events, or it takes those of a
 * window together when the window ends (nic_turns_take()). */
struct nic {
    struct sim_event event; /* its next turn */
    struct world *world;
    struct link_state *line; /* its link to the network; NULL: it serves the port's messages to itself */
    uint32_t number;    /* the port's number; a port's other struct nic, for messages to itself, has the same number */
    arena_name *active; /* ring buffer with an entry for each QP that has pending requests: the request that the QP
                         * sends next.  The QP that has waited longest comes first */
    uint32_t active_first, active_count, active_max;
    arena_name *ring; /* ring buffer of doorbells that have yet to ring, soonest first.  An entry is the last request
                       * that the doorbell covers; the `next` of that request is the first one */
    uint32_t ring_first, ring_count, ring_max;
    struct port turned;         /* serves messages that the NIC sends to itself */
    struct port atomic;         /* the NIC's unit for atomics */
    struct port receiving;      /* the host thread that takes in messages, if the transport has one */
    uint64_t owed_bytes;        /* of acknowledgements to send */
    uint64_t outstanding_bytes; /* bytes sent and not acknowledged; used only if there is a window */
    struct credit *credit;      /* a heap, the soonest first */
    uint32_t credit_count, credit_max;
    bool used;    /* a rank uses it */
    bool stalled; /* the window is full: the port waits for a credit */
    bool apart;   /* its turns are no events */
};

/* ---- qp.c: QPs and requests ---- */

/* The rank's QP to a peer for a queue.  It is made when it is first asked for. */
struct qp *nic_qp(struct world_rank *rank, uint16_t peer, uint16_t queue);
/* The QP that counts the places of the queue's requests.  Where the requests to all peers share a channel, it is the QP
 * to the rank itself, which sends nothing.  Elsewhere it is `qp`. */
struct qp *nic_room(struct world_rank *rank, struct qp *qp, uint16_t queue);
/* The QP, or NULL if it was never used or has been given back. */
struct qp *nic_qp_find(struct world_rank *rank, uint16_t peer, uint16_t queue);
/* A QP's struct qp_rest, which is made when it is first asked for. */
struct qp_rest *nic_qp_more(struct world *w, struct qp *qp);
/* Gives back the memory of a QP that has no requests in flight and for which no worker waits. */
void nic_qp_give_back(struct world_rank *rank, uint16_t peer, uint16_t queue);
/* Frees what the QPs of a rank hold. */
void nic_qps_clear(struct world_rank *rank);
/* Prefetches the QP, if there is one. */
void nic_queue_ahead(const struct world_rank *rank, uint16_t peer, uint16_t queue);

/* Makes a request of a put or of a signal. */
struct request *world_request_write(struct world_rank *source, const struct fabric_write *write, const struct loop *p);
struct request *world_request_signal(struct world_rank *source, const struct fabric_signal *signal);
/* Makes one request of a put and the signal behind it. */
struct request *world_request_write_signal(struct world_rank *source, const struct fabric_write *write,
                                           const struct loop *p, const struct fabric_signal *signal);
struct request *world_request_read(struct world_rank *source, const struct fabric_read *read);
/* A request's struct parcel, which is made when it is first asked for. */
struct parcel *world_request_parcel(struct world *w, struct request *r);
void world_request_free(struct world *w, struct request *r);

/* ---- qp_room.c: workers that wait for room ---- */

/* Whether a QP of the rank lacks room for `places` more places.  If it does, the stepped worker is woken when there is
 * room. */
bool world_queue_full(struct world_rank *rank, struct qp *qp, uint32_t places);
/* fabric_flush() for the ranks of GPUs and of hosts. */
int world_flush(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue);
/* Completes requests that take `places` places of the poster's QP, at time_ps.  Where requests complete in order, this
 * may be later than time_ps: no request completes before those that were posted earlier. */
void world_qp_complete(struct world *w, uint16_t poster, struct qp *qp, uint16_t queue, uint32_t places,
                       uint64_t time_ps);

/* ---- nic_doorbell.c ---- */

/* Hands a request to its QP, which is that of the request's target and queue.  With defer, the QP holds the request
 * back.  Without defer, the doorbell rings for this request and for all that are held back. */
void nic_post(struct world_rank *source, struct qp *qp, struct request *r, uint64_t ready_ps, bool defer);
/* Rings the doorbell for the requests that a QP holds back.  A host first spends CPU time on each of them. */
void nic_ring(struct world_rank *source, struct qp *qp);

/* ---- nic_receive.c ---- */

/* How long a CPU at the rank's end copies size_bytes of a message.  0 if the transport has no CPU copy.  Where NICs do
 * not reach GPU memory, this includes the copy between the GPU's memory and the host's. */
uint64_t nic_copied_ps(const struct world_rank *rank, uint64_t size_bytes);

/* ---- nic.c, and nic_receive.c for two of the events ---- */

/* Lets ports take their turns without events, where nothing else in the world sees a turn before its window ends. */
void nic_turns_init(struct world *whole);
/* Takes the turns before end_ps of the part's ports whose turns are no events. */
void nic_turns_take(struct world *w, uint64_t end_ps);
/* When the next of these ports takes its next turn; UINT64_MAX: none does before something else happens. */
uint64_t nic_turns_next_ps(const struct world *w);

/* Plans the ways of all mail of a window that has ended, in a world whose parts share ways.  In other worlds,
 * nic_mails_take() plans them. */
void nic_mails_way(struct world *whole, struct mailbox *const *box);
/* nic_mails_take() takes in the mail that a part's box has collected.  When all parts have done so, nic_mails_told()
 * tells the part when the mail that it sent arrived. */
void nic_mails_take(struct world *w);
void nic_mails_told(struct world *w);

/* The handlers of a NIC's events. */
sim_handler nic_send_next, nic_request_received, nic_request_landed, nic_qp_resume;
/* Both prefetch what an event of a NIC will read, and ignore other events. nic_look_far() runs earlier. nic_look_near()
 * then follows the names that nic_look_far() has fetched. */
void nic_look_far(const struct sim *sim, const struct sim_event *event);
void nic_look_near(const struct sim *sim, const struct sim_event *event);
void nic_init(struct world *w, uint32_t port);
void nic_clear(struct nic *nic);

#endif
