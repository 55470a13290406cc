/* verbs.h - what link_verbs.c, verbs_nic.c and verbs_qp.c share: the NICs that a rank has opened, and its QPs.
 *
 * A rank uses one to VERBS_NICS_MAX NICs.  Queue q to each peer uses the NIC with index q modulo the number of NICs.
 * Two ranks may have different numbers of NICs.  A run's operations use only the fields of struct verbs_qp. */
#ifndef REPLAY_VERBS_H
#define REPLAY_VERBS_H

#include <glib.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "replay/live.h"

enum {
    VERBS_NICS_MAX = 4,
    VERBS_BATCH_MAX = 32,       /* work requests of one doorbell */
    VERBS_SOFT_ROCE = 0xffffff, /* the vendor ID of rdma_rxe */
    VERBS_RETRIES = 6,          /* retries of a packet before its QP gives up; for soft-RoCE 7 means "for ever" */
};

/* An opened device with one of its ports and GIDs, and the objects that this rank has made on it. */
struct verbs_nic {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;         /* the rank's memory: words and heap */
    struct ibv_mr *scratch_mr; /* the scratch memory of link_verbs.c */
    struct ibv_cq *send_cq;
    struct ibv_cq *receive_cq; /* for LIVE_SIGNAL_IMM; otherwise NULL */
    uint32_t completions_free; /* entries of send_cq that no posted work request will use */
    struct ibv_device_attr device_attr;
    struct ibv_port_attr port_attr;
    union ibv_gid gid;
    uint8_t port, gid_index;
    bool global; /* peers are addressed by GID (always on Ethernet) */
    char name[IBV_SYSFS_NAME_MAX];
};

/* What another NIC needs to reach this one. */
struct verbs_address {
    uint8_t gid[16];
    uint32_t memory_key, scratch_key;
    uint16_t lid;
    uint8_t mtu; /* enum ibv_mtu */
    uint8_t ethernet;
};
_Static_assert(sizeof(struct verbs_address) == 28, "crosses the bootstrap");

/* A QP to one peer.  completed <= posted - chained <= posted always holds.  A request that asked for no completion
 * is known to be complete only when a later one that asked completes. */
struct verbs_qp {
    struct ibv_qp *qp; /* NULL if verbs do not reach this peer */
    struct verbs_nic *nic;
    uint64_t posted, completed;              /* work requests posted, chained ones included; work requests completed */
    uint64_t signalled;                      /* number of the last request that asked for a completion */
    uint64_t probe;                          /* number of the last request that is a probe; 0: none */
    uint64_t signals_sent, signals_received; /* for LIVE_SIGNAL_IMM */
    uint64_t peer_memory, peer_ring;         /* addresses at the peer */
    uint32_t peer_memory_key, peer_scratch_key;
    uint32_t inline_bytes;
    uint16_t peer, queue;
    uint16_t chained;       /* requests that are built, but whose doorbell has not rung */
    uint16_t receives_owed; /* receive requests to post again */
    struct ibv_send_wr *wr; /* [VERBS_BATCH_MAX], a chain */
    struct ibv_sge *sge;    /* [VERBS_BATCH_MAX] */
};

struct verbs_qp_limits {
    uint32_t send_depth, receive_depth;
    uint32_t inline_bytes; /* requested size; verbs_qp_make() replaces it by the size that the device grants */
};

/* ---- verbs_nic.c -------------------------------------------------------------------------------------- */

/* Returns the names of the NICs of the rank with index local_rank on its host.  In o->device, "a,b" gives successive
 * local ranks one NIC each, and "a+b" gives a rank two NICs.  Without o->device, the result is one of the NICs with
 * an active port.  It is NULL-terminated; free it with g_strfreev().  NULL and *error if there is no NIC. */
char **verbs_nic_names(const struct live_options *o, uint32_t local_rank, GError **error);

/* Opens the device and chooses a port and a GID.  Even after a failure, verbs_nic_close() must follow. */
bool verbs_nic_open(struct verbs_nic *nic, const char *name, const struct live_options *o, GError **error);
void verbs_nic_close(struct verbs_nic *nic);

/* Registers the rank's memory for remote writes, and for atomics if signals need them. */
bool verbs_nic_register(struct verbs_nic *nic, const struct live_options *o, const struct live_memory *memory,
                        GError **error);
/* Whether the NIC carries out other ranks' atomic additions to words of its rank's memory. */
static inline bool verbs_nic_atomics(const struct verbs_nic *nic)
{
    return nic->device_attr.atomic_cap != IBV_ATOMIC_NONE;
}
/* Registers other memory, which *error calls `what`. */
struct ibv_mr *verbs_memory_register(const struct verbs_nic *nic, void *base, uint64_t size_bytes, int access,
                                     const char *what, GError **error);
/* Makes the completion queues.  The queue for sends has send_entries, or as many as the device allows.  If
 * receive_entries is 0, there is no queue for receives. */
bool verbs_nic_queues_make(struct verbs_nic *nic, uint32_t send_entries, uint32_t receive_entries, GError **error);

struct verbs_address verbs_nic_address(const struct verbs_nic *nic);

/* Reads all asynchronous events.  If one of them ends the run, returns false and describes the event in text. */
bool verbs_nic_events_check(struct verbs_nic *nic, char *text, size_t text_size);
/* Whether the port is still active. */
bool verbs_nic_port_active(const struct verbs_nic *nic);

/* ---- verbs_qp.c --------------------------------------------------------------------------------------- */

/* Makes the QP, so that receive requests can be posted.  Sets limits->inline_bytes to the number that the device
 * grants. */
bool verbs_qp_make(struct verbs_qp *qp, struct verbs_nic *nic, struct verbs_qp_limits *limits, GError **error);

struct verbs_connection {
    struct verbs_address peer;
    uint32_t peer_qp_number, packet_number, peer_packet_number;
};
bool verbs_qp_connect(struct verbs_qp *qp, const struct live_options *o, const struct verbs_connection *c,
                      GError **error);

/* Returns n, where 4.096 us x 2^n is how long a packet may stay unacknowledged.  n is chosen so that a dead peer is
 * reported well before o->timeout_ms.  For soft-RoCE n is larger, if o->timeout_ms allows it, because soft-RoCE does
 * not stop the timer when everything is acknowledged (Linux 6.1, drivers/infiniband/sw/rxe/rxe_comp.c).  When the
 * timer ends, soft-RoCE sends everything in flight again. */
uint8_t verbs_timeout_exponent(const struct verbs_nic *nic, const struct live_options *o);

/* Describes a failed completion in text: "QP 17 (queue 2) in state ERR: transport retry counter exceeded (...)". */
void verbs_qp_describe(const struct verbs_qp *qp, const struct live_options *o, const struct ibv_wc *wc, char *text,
                       size_t text_size);

#endif
