/* dcqcn.h - DCQCN: switches mark packets, receivers send notifications, senders set the rate of each QP.
 *
 *     sender ──packets──► switch: the longer its queue, the more it marks ──► receiver
 *        ▲                                                                        │
 *        └── rate cut on a notification (CNP), raised by time and bytes ◄── at most one CNP an interval and QP
 *
 * Sources: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 3; NVIDIA's
 * parameters of the algorithm ("DCQCN CC Parameters").  This file calculates what switches, receivers and senders do at
 * given times.  It knows no NIC, no link and no event.  The sender asks when the QP's rate lets it send, and reports
 * what was sent and what was marked. */
#ifndef MODELS_HARDWARE_DCQCN_H
#define MODELS_HARDWARE_DCQCN_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "sim/rng.h"

/* The sender's end of one QP.  Rates are bytes a picosecond. */
struct dcqcn_flow {
    double rate, target, alpha;
    double debt_bytes; /* bytes that were sent before its rates allowed them, as of paid_ps */
    uint64_t paid_ps;
    uint64_t cnp_sent_ps;              /* when the receiver last sent a notification */
    uint64_t cut_ps;                   /* when the rate was last cut */
    uint64_t alpha_ps, raise_ps;       /* when alpha is next updated; when the timer next raises the rate */
    uint64_t raise_bytes;              /* bytes sent since the byte counter last raised the rate */
    uint32_t raises_time, raises_byte; /* raises by the timer and by the byte counter since the last cut */
    bool slowed;                       /* its rate is below the line's; only then does it limit the QP */
    bool cnp_in_period;                /* a notification has come since alpha was last updated */
    bool cut;                          /* its rate has been cut since it last had the line's rate */
    uint64_t *cnp;                     /* ring buffer of the times at which notifications arrive, the soonest first */
    uint32_t cnp_first, cnp_count, cnp_max;
};

struct dcqcn {
    const struct cluster_dcqcn *parameters;
    double line; /* rate of a port, in bytes a picosecond */
    struct rng rng;
};

/* line_bps is the rate of a NIC's port.  The seed decides which packets are marked. */
void dcqcn_init(struct dcqcn *dcqcn, const struct cluster_dcqcn *parameters, uint64_t line_bps, uint64_t seed);
void dcqcn_flow_init(struct dcqcn_flow *flow, const struct dcqcn *dcqcn);
void dcqcn_flow_clear(struct dcqcn_flow *flow);

/* Whether a switch marks at least one of `packets` packets that arrive at a queue of queue_bytes bytes. */
bool dcqcn_marks(struct dcqcn *dcqcn, uint64_t queue_bytes, uint32_t packets);

/* Returns now_ps if the QP may send now.  Otherwise returns when to ask again: when the rate allows it to send or, if
 * that is sooner, when the rate rises.  A flow's now_ps never decreases. */
uint64_t dcqcn_allows_ps(const struct dcqcn *dcqcn, struct dcqcn_flow *flow, uint64_t now_ps);
/* Notes that the QP sends size_bytes at now_ps. */
void dcqcn_sent(const struct dcqcn *dcqcn, struct dcqcn_flow *flow, uint64_t now_ps, uint64_t size_bytes);
/* Notes that marked bytes arrive at the receiver at in_ps.  The notification takes back_ps to the sender. */
void dcqcn_marked(const struct dcqcn *dcqcn, struct dcqcn_flow *flow, uint64_t in_ps, uint64_t back_ps);

#endif
