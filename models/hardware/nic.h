/* nic.h - work requests, QPs and the ports of NICs: from doorbell to visible.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_NIC_H
#define MODELS_HARDWARE_NIC_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "models/fabric.h"
#include "models/hardware/link.h"
#include "sim/sim.h"

struct world;
struct world_rank;

/* A work request on its way: posted, sent, arrived, visible. */
struct request {
    struct sim_event event;
    struct request *next;           /* on its QP's held or ready list */
    struct world_rank *source, *target;
    uint64_t value;                 /* of a signal */
    uint64_t target_offset;
    const void *payload;            /* of a put or an answered get, or NULL: nothing is stored; until it is there, the
                                     * source's */
    uint64_t in_ps;                 /* when the last byte of what was sent of it is in */
    uint64_t held_ps;               /* when the quantum is in that holds its places on the way already, 0: none does */
    uint32_t payload_bytes, wire_bytes;
    uint32_t sent_bytes, early_bytes;       /* of those; of these, in quanta before the last */
    union {
        uint32_t word;              /* of a signal */
        uint32_t answer_bytes;      /* of a get: on the wire, back */
    };
    uint16_t queue;
    uint8_t places;                 /* of the queue that it takes */
    bool put, signal, add;          /* a put with a signal is one request that takes two places */
    bool get, answer;               /* a get on its way there; the bytes on their way back, source being the peer */
};

/* A completion on its way back to a QP, which then has room for one request more. */
struct ack { struct ack *next; uint64_t time_ps; };

/* A worker that found a QP full, or flushes it and finds it at work. */
struct waiter { struct waiter *next; uint32_t worker; bool flush; };

struct qp {
    struct request *held_first, *held_last;     /* posted, doorbell not rung yet */
    struct request *ready_first, *ready_last;   /* rung, not sent yet */
    uint64_t held_ps, ring_ps;                  /* when the last held one is posted; the last doorbell rings */
    uint64_t lock_ps;                           /* until when a warp that rings has it to itself */
    uint64_t in_ps;                             /* where ways differ: when the last byte sent so far is in */
    uint64_t done_ps;                           /* when all whose completion is known are complete */
    struct ack *ack_first, *ack_last;           /* where requests are limited: completions on their way, in order */
    struct waiter *waiter;
    uint32_t unknown;                           /* requests posted whose completion is not known yet */
    uint32_t unacked;                           /* those, and those whose ack is on its way; where limited */
};

/* Bytes of a window that are free again at a time. */
struct credit { uint64_t time_ps; uint32_t size_bytes; };

/* A doorbell that will ring, and the requests that it covers. */
struct ring { uint64_t time_ps; struct qp *qp; struct request *first, *last; };

/* A port of a NIC, with its number in the network. */
struct nic {
    struct sim_event event;         /* sends the next quantum */
    struct world *world;
    struct qp **active;             /* QPs with something to send, a ring: who has waited longest first */
    uint32_t active_first, active_count, active_max;
    struct ring *ring;              /* doorbells to ring, a ring: the soonest first */
    uint32_t ring_first, ring_count, ring_max;
    struct port atomic;
    uint64_t owed_bytes;            /* acknowledgements to send */
    uint64_t outstanding_bytes;     /* sent, not acknowledged; where there is a window */
    struct credit *credit;          /* a heap, the soonest first */
    uint32_t credit_count, credit_max;
    bool stalled;                   /* by its window, and nobody knows for how long */
};

/* ---- qp.c: requests, and who waits for room ---- */

/* Fills a request with a put or a signal. */
struct request *world_request_write(struct world_rank *source, const struct fabric_write *write);
struct request *world_request_signal(struct world_rank *source, const struct fabric_signal *signal);
/* The first with the second behind it. */
struct request *world_request_write_signal(struct world_rank *source, const struct fabric_write *write,
                                           const struct fabric_signal *signal);
struct request *world_request_read(struct world_rank *source, const struct fabric_read *read);
/* Whether a QP has no room for so many requests more: then the worker that is being stepped steps again when it has. */
bool world_queue_full(struct world_rank *rank, uint16_t peer, uint16_t queue, uint32_t places);
/* fabric_flush() of both kinds of rank. */
int world_flush(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue);
/* A completion of the QP will be known at time_ps: whom that lets go on steps then. */
void world_space_wake(struct world_rank *rank, struct qp *qp, uint64_t time_ps);

/* ---- nic.c ---- */

/* Hands a request to its QP; held back when defer is set, else the QP's held ones and it become ready. */
void nic_post(struct request *r, uint64_t ready_ps, bool defer);
struct qp *nic_qp(struct world_rank *rank, uint16_t peer, uint16_t queue);
/* NULL: it has nothing to do, and never had or has been given back. */
struct qp *nic_qp_find(struct world_rank *rank, uint16_t peer, uint16_t queue);
/* Gives it back if it has nothing to do and nobody waits for it. */
void nic_qp_rest(struct world_rank *rank, uint16_t peer, uint16_t queue);
/* Bytes on the wire for a message: headers for each packet of the MTU. */
uint64_t nic_wire_bytes(const struct cluster_nic *nic, uint64_t size_bytes);
void nic_init(struct world *w, uint32_t port);
void nic_clear(struct nic *nic);
/* Rings the doorbell for what a QP holds back.  A host works on each of these now; it goes when that is done. */
void nic_ring(struct world_rank *source, struct qp *qp);

#endif
