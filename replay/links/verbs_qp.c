/* verbs_qp.c - makes, connects and describes RC queue pairs.
 *
 * This file knows nothing of posted requests. */
#ifdef HAVE_VERBS
#    include "replay/links/verbs.h"

#    include <errno.h>
#    include <string.h>

enum {
    /* Exponents for 17 ms, 1.07 s and 69 s.  With a time below the minimum, a busy host would be taken for a dead one.
     * Even full queues of a slow link delay an answer by less than the maximum. */
    VERBS_TIMEOUT_EXPONENT_MIN = 12,
    VERBS_TIMEOUT_EXPONENT_MAX = 18,
    VERBS_TIMEOUT_EXPONENT_SOFT = 24, /* the maximum for soft-RoCE */
    VERBS_READS_MAX = 16,             /* reads and atomics in flight of one QP */
    VERBS_RNR_TIMER = 5, /* 60 us: how long a sender waits before it tries again, if the receiver has no receive
                          * request */
    VERBS_RNR_RETRIES_FOREVER = 7, /* a receiver without a receive request is alive; the world's timeout limits the
                                    * wait for it */
    VERBS_HOP_LIMIT = 64,
};

uint8_t verbs_timeout_exponent(const struct verbs_nic *nic, const struct live_options *o)
{
    const double patience_us = o->timeout_ms * 1000.0 / 4;
    const bool soft = nic->device_attr.vendor_id == VERBS_SOFT_ROCE;
    uint8_t exponent = soft ? VERBS_TIMEOUT_EXPONENT_SOFT : VERBS_TIMEOUT_EXPONENT_MAX;
    while (exponent > VERBS_TIMEOUT_EXPONENT_MIN &&
           4.096 * (double)(1u << exponent) * (VERBS_RETRIES + 1) > patience_us)
        exponent--;
    return exponent;
}

static const char *verbs_qp_state_name(const struct verbs_qp *qp)
{
    static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "unknown" };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    if (ibv_query_qp(qp->qp, &attr, IBV_QP_STATE, &init) != 0) return "unknown";
    return (unsigned)attr.qp_state < G_N_ELEMENTS(names) ? names[attr.qp_state] : "unknown";
}

void verbs_qp_describe(const struct verbs_qp *qp, const struct live_options *o, const struct ibv_wc *wc, char *text,
                       size_t text_size)
{
    char more[96] = "";
    const double try_ms = 4.096e-3 * (double)(1u << verbs_timeout_exponent(qp->nic, o));
    if (wc->status == IBV_WC_RETRY_EXC_ERR)
        g_snprintf(more, sizeof more, " (no answer to %d tries in %.1f s)", VERBS_RETRIES + 1,
                   try_ms * (VERBS_RETRIES + 1) / 1000);
    else if (wc->vendor_err) g_snprintf(more, sizeof more, " (vendor error 0x%x)", wc->vendor_err);
    g_snprintf(text, (gulong)text_size, "QP %u (queue %u) of %s in state %s: %s%s", qp->qp->qp_num, qp->queue,
               qp->nic->name, verbs_qp_state_name(qp), ibv_wc_status_str(wc->status), more);
}

/* ---- making -------------------------------------------------------------------------------------------- */

static void verbs_qp_refuse(const struct verbs_qp *qp, const struct verbs_qp_limits *limits, int code, GError **error)
{
    const struct verbs_nic *nic = qp->nic;
    error_run(error,
              "device %s: no QP for rank %u, queue %u (%u sends): %s; the device allows %d QPs of %d, the cgroup may "
              "allow less (rdma.max): use fewer SMs (queues) or more devices",
              nic->name, qp->peer, qp->queue, limits->send_depth, g_strerror(code), nic->device_attr.max_qp,
              nic->device_attr.max_qp_wr);
}

static bool verbs_qp_init(const struct verbs_qp *qp, GError **error)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = qp->nic->port,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    };
    if (verbs_nic_atomics(qp->nic)) attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    const int rc = ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (rc) error_run(error, "device %s: QP %u to INIT: %s", qp->nic->name, qp->qp->qp_num, g_strerror(rc));
    return rc == 0;
}

bool verbs_qp_make(struct verbs_qp *qp, struct verbs_nic *nic, struct verbs_qp_limits *limits, GError **error)
{
    struct ibv_qp_init_attr init = {
        .send_cq = nic->send_cq,
        .recv_cq = nic->receive_cq ? nic->receive_cq : nic->send_cq,
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = limits->send_depth, .max_recv_wr = limits->receive_depth, .max_send_sge = 1 },
    };
    qp->nic = nic;
    do {
        init.cap.max_inline_data = limits->inline_bytes;
        errno = 0;
        qp->qp = ibv_create_qp(nic->pd, &init);
        if (qp->qp || errno != EINVAL || !limits->inline_bytes) break;
        limits->inline_bytes /= 2; /* a device does not say how much it grants; most devices refuse a number that is
                                    * too large */
    } while (true);
    if (!qp->qp) {
        verbs_qp_refuse(qp, limits, errno ? errno : EIO, error);
        return false;
    }
    qp->inline_bytes = MIN(limits->inline_bytes, init.cap.max_inline_data);
    qp->wr = g_new0(struct ibv_send_wr, VERBS_BATCH_MAX);
    qp->sge = g_new0(struct ibv_sge, VERBS_BATCH_MAX);
    return verbs_qp_init(qp, error);
}

/* ---- connecting ---------------------------------------------------------------------------------------- */

static int verbs_qp_receive_ready(const struct verbs_qp *qp, const struct live_options *o,
                                  const struct verbs_connection *c)
{
    const struct verbs_nic *nic = qp->nic;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = MIN(nic->port_attr.active_mtu, (enum ibv_mtu)c->peer.mtu),
        .dest_qp_num = c->peer_qp_number,
        .rq_psn = c->peer_packet_number,
        .max_dest_rd_atomic = (uint8_t)MIN(nic->device_attr.max_qp_rd_atom, VERBS_READS_MAX),
        .min_rnr_timer = VERBS_RNR_TIMER,
        .ah_attr = {
            .dlid = c->peer.lid,
            .sl = (uint8_t)o->service_level,
            .port_num = nic->port,
            .is_global = nic->global,
        },
    };
    if (nic->global) {
        memcpy(attr.ah_attr.grh.dgid.raw, c->peer.gid, sizeof c->peer.gid);
        attr.ah_attr.grh.sgid_index = nic->gid_index;
        attr.ah_attr.grh.hop_limit = VERBS_HOP_LIMIT;
        attr.ah_attr.grh.traffic_class = (uint8_t)o->traffic_class;
    }
    return ibv_modify_qp(qp->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int verbs_qp_send_ready(const struct verbs_qp *qp, const struct live_options *o,
                               const struct verbs_connection *c)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = verbs_timeout_exponent(qp->nic, o),
        .retry_cnt = VERBS_RETRIES,
        .rnr_retry = VERBS_RNR_RETRIES_FOREVER,
        .sq_psn = c->packet_number,
        .max_rd_atomic = (uint8_t)MIN(qp->nic->device_attr.max_qp_init_rd_atom, VERBS_READS_MAX),
    };
    return ibv_modify_qp(qp->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

bool verbs_qp_connect(struct verbs_qp *qp, const struct live_options *o, const struct verbs_connection *c,
                      GError **error)
{
    if (c->peer.ethernet != (qp->nic->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET))
        return error_run(error, "device %s: expected rank %u on the same kind of link, found %s", qp->nic->name,
                         qp->peer, c->peer.ethernet ? "Ethernet" : "InfiniBand");
    const char *step = "RTR";
    int rc = verbs_qp_receive_ready(qp, o, c);
    if (rc == 0) {
        step = "RTS";
        rc = verbs_qp_send_ready(qp, o, c);
    }
    if (rc)
        error_run(error, "device %s: cannot connect to rank %u (QP %u to %s): %s", qp->nic->name, qp->peer,
                  qp->qp->qp_num, step, g_strerror(rc));
    return rc == 0;
}

#endif
