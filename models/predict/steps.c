/* steps.c - the time of a library's call: a kernel and the steps around it.  Knows no kernel by name. */
#include "models/predict/steps.h"

#include <assert.h>
#include "sim/units.h"

static uint64_t gather_ps(const struct cluster *c, const struct steps_in *in, uint32_t ranks, uint32_t per_node,
                          uint64_t rank_bytes)
{
    const uint32_t local = MIN(ranks, per_node);
    uint64_t in_ps = 0, far_ps = 0;
    if (local > 1) in_ps = units_transfer_ps(rank_bytes * (ranks - ranks / local), in->peers_bps);
    if (ranks > local) far_ps = units_transfer_ps(rank_bytes * (ranks - local) / local, in->port_bps);
    return c->calls.nccl_call_ps + MAX(in_ps, far_ps);
}

uint64_t steps_ps(const struct cluster *c, const struct steps_in *in, uint32_t ranks, uint32_t per_node,
                  const struct kernel_steps *steps)
{
    assert(steps->call && ranks > 0 && per_node > 0);
    uint64_t ps = steps->copies * c->calls.copy_ps + units_transfer_ps(2 * steps->copied_bytes, c->gpu.hbm_rate_bps);
    if (steps->gathered_bytes)
        ps += gather_ps(c, in, ranks, per_node, steps->gathered_bytes) +
              units_transfer_ps(ranks * steps->gathered_bytes, c->gpu.hbm_rate_bps);
    return ps + (steps->host_waits ? c->calls.host_sync_ps : 0);
}
