/* transport.c - the transport of a cluster file, and how long its threads take to notice completions; see
 * transport.h. */
#include "models/hardware/machine/transport.h"

struct transport transport_of(const struct cluster_nic *nic)
{
    return (struct transport){
        .name = "as the file says",
        .provider = nic->provider,
        .poster = nic->posting,
        .post_ps = nic->post_ps,
        .doorbell_ps = nic->doorbell_ps,
        .library_ps = nic->library_ps,
        .proxy_ps = nic->proxy_ps,
        .threads = nic->proxy_threads ? nic->proxy_threads : 1,
        .queue_depth = nic->queue_depth,
        .window_bytes = nic->window_bytes,
    };
}

uint64_t transport_notice_ps(const struct transport *t)
{
    return t->counter_ps * TRANSPORT_COUNTERS / 2 + t->counter_ps / 2;
}

/* NVSHMEM's thread reads a counter for each peer in order.  The last completion may be the first peer's.  Each other
 * peer then costs one more read, which finds that peer's counter complete. */
uint64_t transport_quiet_ps(const struct transport *t, uint32_t peers)
{
    return t->counter_ps ? transport_notice_ps(t) + (peers - 1) * t->counter_ps : 0;
}
