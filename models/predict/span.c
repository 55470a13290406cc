/* span.c - the time of each kernel of a chain, and of the whole chain.  Each kernel but the first is launched before
 * the previous one has ended.  Knows no kernel by name. */
#include "models/predict/span.h"

#include <assert.h>
#include <glib.h>
#include "sim/stats.h"
#include "sim/units.h"

void span_add(struct span *span, struct world_result *result, bool follows, bool host_waits,
              const struct cluster *cluster)
{
    const struct cluster_gpu *gpu = &cluster->gpu;
    if (follows) {
        const uint64_t setup_ps = gpu->setup_ps ? gpu->setup_ps : gpu->launch_ps;
        const uint64_t body_ps = result->time_ps - MIN(result->time_ps, gpu->launch_ps);
        const uint64_t told_ps = host_waits && span->counts_ps ? span->counts_ps + cluster->calls.host_sync_ps : 0;
        const uint64_t start_ps = MAX(span->let_ps, told_ps);
        const uint64_t begin_ps = start_ps + gpu->begin_ps;
        const uint64_t go_ps = MAX(begin_ps, span->end_ps) + setup_ps, end_ps = go_ps + body_ps;
        assert(span->let_ps <= span->end_ps && start_ps >= span->let_ps);
        result->time_ps = end_ps - begin_ps;
        span->awaits_ps = span->end_ps - MIN(begin_ps, span->end_ps);
        span->end_ps = span->let_ps = end_ps;
    } else {
        /* The SMs meet.  Then the first SM reads the phase of the closing barrier and signals the peers with a release.
         * Then the next kernel may begin, because only one thread waits for the peers (DeepEP dd758ca,
         * nvlink_barrier_wo_local_sync()). */
        const uint64_t signalled_ps = 2 * gpu->poll_ps + gpu->scan_row_ps + cluster->node.release_system_ps;
        const uint64_t let_ps = MIN(result->let_ps + signalled_ps, result->time_ps);
        *span = (struct span){ .end_ps = result->time_ps, .let_ps = let_ps, .counts_ps = result->counts_ps };
    }
}

void span_record(const struct span *span, uint32_t ranks, const char *name, struct record *record)
{
    g_autofree double *time_us = g_new(double, ranks);
    double rdma_bytes = 0, nvl_bytes = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        time_us[r] = units_us(span[r].end_ps);
        rdma_bytes += (double)span[r].rdma_bytes / ranks;
        nvl_bytes += (double)span[r].nvl_bytes / ranks;
    }
    const double mean_us = stats_mean(time_us, ranks);
    assert(ranks > 0 && mean_us > 0);
    record_add(record, name, RECORD_ALL, "time_us", mean_us, "us");
    record_add(record, name, RECORD_ALL, "logical_rdma_gbs", rdma_bytes / mean_us / 1e3, "GB/s");
    record_add(record, name, RECORD_ALL, "logical_nvl_gbs", nvl_bytes / mean_us / 1e3, "GB/s");
    record_add(record, name, RECORD_ALL, "time_us_median", stats_median(time_us, ranks), "us");
    record_add(record, name, RECORD_ALL, "time_us_max", stats_max(time_us, ranks), "us");
    record_add(record, name, RECORD_ALL, "time_us_min", stats_min(time_us, ranks), "us");
}
