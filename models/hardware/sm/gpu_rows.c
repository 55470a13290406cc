/* gpu_rows.c - the cost of a loop's waits for memory. */
#include "models/hardware/sm/gpu.h"

#include <math.h>

/* How many bytes have gone through the L2 since a recent write or a call brought the loop's data there.  UINT64_MAX:
 * the data are not in the L2. */
static uint64_t since_bytes(const struct world *w, const struct loop *p)
{
    const uint64_t touched_bytes = w->options.needs.touched_bytes;
    if (p->fresh) return p->footprint_bytes;
    return touched_bytes && w->cluster->gpu.l2_bytes ? touched_bytes : UINT64_MAX;
}

/* Rows that were in the L2 are still there unless other bytes have driven them out.  The closer the sum of the bytes
 * since then comes to the L2's size, the more rows are driven out. */
uint64_t gpu_far_ps(const struct world *w, const struct loop *p, uint64_t more_ps)
{
    const uint64_t l2_bytes = w->cluster->gpu.l2_bytes, since = since_bytes(w, p);
    const uint64_t longer_ps = pressure_load_ps(w->beside, &w->cluster->gpu, p->fresh, p->footprint_bytes);
    if (since == UINT64_MAX || (l2_bytes && since >= l2_bytes)) return more_ps + longer_ps;
    return longer_ps + (l2_bytes ? (uint64_t)((double)more_ps * (double)since / (double)l2_bytes) : 0);
}

uint64_t gpu_memory_ps(const struct world *w, const struct loop *p, uint64_t read_bytes, uint64_t write_bytes,
                       rate_q20 far)
{
    const uint64_t both = read_bytes + write_bytes, l2 = w->cluster->gpu.l2_bytes;
    const uint64_t kernel = p->footprint_bytes * both / (read_bytes ? read_bytes : 1);
    if (!p->fresh || !w->l2) return rate_time(far, both);
    const uint64_t kept = kernel > l2 ? both * l2 / kernel : both;
    return rate_time(w->l2, kept) + rate_time(far, both - kept);
}

uint64_t gpu_load_ps(const struct world *w, const struct loop *p)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    if (p->peer) return w->cluster->nvlink.peek_ps;
    if (p->again == LOOP_AT_HAND && gpu->load_l1_ps) return gpu->load_l1_ps;
    if (p->again) return gpu->load_again_ps ? gpu->load_again_ps : gpu->load_l2_ps;
    return gpu->load_l2_ps + gpu_far_ps(w, p, gpu->load_ps > gpu->load_l2_ps ? gpu->load_ps - gpu->load_l2_ps : 0);
}

/* A worker's first wait for an array includes the lookup of the array's pages, unless the array has just been written
 * and this SM has used those pages.  The site's number, modulo 32, tells arrays apart. */
uint64_t gpu_touch_ps(struct world_worker *ww, const struct loop *p)
{
    if (p->fresh && !p->unseen) return 0;
    const uint32_t bit = UINT32_C(1) << p->number % 32;
    if (ww->touched & bit) return 0;
    ww->touched |= bit;
    return worker_rank(ww)->world->cluster->gpu.touch_ps;
}

/* Warps wait for memory and then for their share of the SM.  The longer of the two times hides most of the shorter one,
 * and least of it where both are equally long.  (Copies by 1 to 32 warps of an SM: within 7 %,
 * tests/accuracy/measured.) */
uint64_t gpu_shared_ps(uint64_t chain_ps, uint64_t share_ps)
{
    const double chain = (double)chain_ps * (double)chain_ps, share = (double)share_ps * (double)share_ps;
    return (uint64_t)sqrt(sqrt(chain * chain + share * share));
}

uint64_t gpu_contended_ps(uint64_t chain_ps, uint64_t share_ps)
{
    const double chain = (double)chain_ps, share = (double)share_ps;
    return share_ps ? (uint64_t)(chain + share * share / (share + chain)) : chain_ps;
}
