/* transport.h - who posts requests to a NIC, at what cost, and which order the transport keeps.
 *
 * A cluster's [nic] describes the cluster's own transport.  models/backends.ini describes those that --backend names.
 * This module knows no fabric and no protocol. */
#ifndef MODELS_HARDWARE_TRANSPORT_H
#define MODELS_HARDWARE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"

enum transport_order {
    TRANSPORT_WIRE,     /* the NIC keeps the order of a QP's requests */
    TRANSPORT_FENCE,    /* a signal is sent once the requests before it are acknowledged */
    TRANSPORT_RECEIVER, /* requests arrive in any order; the receiver's software restores it */
};

struct transport {
    const char *name, *what, *source;
    uint32_t provider; /* enum cluster_provider: the driver of the NICs on which the times were measured; unknown: no
                        * driver is named, as for TCP */
    enum cluster_posting poster;
    uint64_t post_ps;       /* the poster's time for one request; where a thread posts, the warp's time to hand the
                             * request over */
    uint64_t doorbell_ps;   /* how long the thread or the warp takes to ring the doorbell; a warp locks the QP
                             * meanwhile */
    uint64_t library_ps;    /* the poster's extra time if the library's code posts instead of the kernel's */
    uint64_t proxy_ps;      /* how long a word takes from the GPU to a thread of the host */
    uint32_t threads;       /* threads that post for a GPU */
    uint32_t fifo_depth;    /* requests that may wait for a thread; 0: any number */
    uint32_t queue_depth;   /* requests in flight on a QP; 0: as the kernels ask */
    uint64_t window_bytes;  /* bytes in flight on a port; 0: no limit */
    uint32_t queues;        /* QPs to each peer; 0: as the kernels ask */
    uint64_t atomic_ps;     /* a receiver thread's time for a signal, if NICs lack atomics; 0: NICs have them */
    uint64_t message_ps;    /* the target thread's time for a signal, if signals are messages to it; 0: NICs apply
                             * signals */
    uint64_t answer_ps;     /* the asking thread's time for the answer to such a message */
    bool told;              /* a put with a signal is one request.  The thread that takes it in tells the GPU, by a word
                             * in the host's memory.  Other signals are writes */
    uint64_t copy_rate_bps; /* rate at which a CPU at each end copies the bytes; 0: NICs fetch and deliver them */
    uint64_t receive_ps;    /* a CPU's time for a message that has arrived, without its copy; 0: NICs deliver it */
    enum transport_order order;
    uint64_t mapped_ps;  /* a thread's extra time for a request, if the thread reaches GPU memory without GDRCopy */
    bool flushed;        /* a request is acknowledged only when its bytes are in memory, so the peer's NIC reads memory
                          * after it has written them */
    bool uccl;           /* the library's kernels are UCCL's port of DeepEP's */
    bool host_words;     /* words that threads of peers change are in the host's memory, where GPUs poll them */
    uint64_t counter_ps; /* a thread's time to ask the NIC for a counter; 0: the NIC writes completions to memory */
};

/* A thread that asks the NIC for counters asks for three in rotation: one of its completions and two of errors. */
enum { TRANSPORT_COUNTERS = 3 };

/* A warp that posts and rings releases its stores three times: by a fence after the request, by storing the queue's
 * record, and by storing to the doorbell (ibgda_submit_requests, ibgda_post_send: DeepEP's ibgda_device.cuh). */
enum { TRANSPORT_RELEASES = 3 };

/* The mean time from a completion until the thread notices it.  On average the thread polls half of the counters before
 * it reaches the right one.  Half of the time of the last read is added, because the NIC's answer shows its state
 * halfway through the read.  0 if completions are in memory. */
uint64_t transport_notice_ps(const struct transport *transport);
/* How long a thread takes, from the last completion on, to report that all requests to `peers` peers are complete.  0
 * if completions are in memory. */
uint64_t transport_quiet_ps(const struct transport *transport, uint32_t peers);

/* The transport that the cluster's [nic] describes. */
struct transport transport_of(const struct cluster_nic *nic);
#endif
