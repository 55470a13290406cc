/* transport.h - who posts requests to a NIC, at what cost, and what the transport keeps in order: one row each.
 *
 * A cluster's [nic] says it of its own; --backend names a row of the table, whose numbers hold for any machine that
 * runs that library.  Nothing else asks by name.  Knows no fabric and no protocol. */
#ifndef MODELS_HARDWARE_TRANSPORT_H
#define MODELS_HARDWARE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"

enum transport_order {
    TRANSPORT_WIRE,             /* the NIC keeps a QP's requests in order */
    TRANSPORT_FENCE,            /* a signal is sent when what went before it is acknowledged */
    TRANSPORT_RECEIVER,         /* the receiver's software puts in order what comes in any */
};

struct transport {
    const char *name, *what, *source;
    enum cluster_posting poster;
    uint64_t post_ps;           /* of the poster (the warp, or who hands over to a thread) for one request */
    uint64_t doorbell_ps;       /* of whoever rings: the warp, which locks the QP meanwhile, or the thread */
    uint64_t proxy_ps;          /* from the GPU to a thread of the host */
    uint32_t threads;           /* of a GPU */
    uint32_t fifo_depth;        /* requests that wait for a thread; 0: any number */
    uint32_t queue_depth;       /* requests outstanding on a QP; 0: as the kernels ask */
    uint64_t window_bytes;      /* outstanding on a port; 0: no limit */
    uint32_t queues;            /* QPs of a peer; 0: as the kernels ask */
    uint64_t atomic_ps;         /* of a receiver's thread for a signal, where NICs have no atomics; 0: they do */
    enum transport_order order;
    uint64_t mapped_ps;         /* more for a thread that reads GPU memory without GDRCopy */
};

/* What the cluster's [nic] says. */
struct transport transport_of(const struct cluster_nic *nic);
/* The row of that name, NULL: none. */
const struct transport *transport_find(const char *name);
/* By number, NULL after the last. */
const struct transport *transport_at(uint32_t index);

#endif
