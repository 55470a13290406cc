/* gpu_rows.c - what the rows of a loop cost a warp: waits for memory one after another, and its rates. */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/gpu.h"

#include <math.h>
#include <string.h>

/* Rows just written are in the L2 but for those that others have driven out, more of them the nearer all together come
 * to what it holds. */
uint64_t gpu_far_ps(const struct world *w, const struct loop *p, uint64_t more_ps)
{
    const uint64_t l2_bytes = w->cluster->gpu.l2_bytes;
    const uint64_t longer_ps = pressure_load_ps(w, p->fresh, p->footprint_bytes);
    if (!p->fresh || (l2_bytes && p->footprint_bytes >= l2_bytes)) return more_ps + longer_ps;
    return longer_ps + (l2_bytes ? (uint64_t)((double)more_ps * (double)p->footprint_bytes / (double)l2_bytes) : 0);
}

uint64_t gpu_load_ps(const struct world *w, const struct loop *p)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    if (p->again == LOOP_AT_HAND && gpu->load_l1_ps) return gpu->load_l1_ps;
    if (p->again) return gpu->load_again_ps ? gpu->load_again_ps : gpu->load_l2_ps;
    return gpu->load_l2_ps + gpu_far_ps(w, p, gpu->load_ps > gpu->load_l2_ps ? gpu->load_ps - gpu->load_l2_ps : 0);
}

/* The first wait of a worker for an array that nobody has just written: its pages are looked up, too.  Which site it is
 * tells arrays apart. */
uint64_t gpu_touch_ps(struct world_worker *ww, const struct loop *p)
{
    if (p->fresh && !p->unseen) return 0;
    const uint32_t bit = UINT32_C(1) << p->number % 32;
    if (ww->touched & bit) return 0;
    ww->touched |= bit;
    return worker_rank(ww)->world->cluster->gpu.touch_ps;
}

void gpu_loop_make(struct world_rank *rank, uint8_t site, struct fabric_given *given)
{
    _Static_assert((int)FABRIC_SIZES == (int)LOOP_SIZES, "a kernel gives what a sheet names");
    rank->loop = entries_grow(rank->loop, rank->loop_count, &rank->loop_max, sizeof rank->loop[0]);
    memset(rank->rounds, 0, sizeof rank->rounds); /* loops may have moved */
    given->launch = rank->launch;
    given->slot = rank->loop_count++;
    loops_make(rank->world->loops, (enum site)site, given->size, &rank->loop[given->slot]);
}

/* A row through a warp's shared memory, part after part. */
static uint64_t bulk_row_ps(const struct world *w, const struct loop *p, uint64_t row_bytes)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t turns = p->turns ? p->turns : 1, wait_ps = gpu_load_ps(w, p);
    const uint64_t more_ps = wait_ps > gpu->load_l2_ps ? wait_ps - gpu->load_l2_ps : 0;
    return turns * (gpu->bulk.row_ps + more_ps) + rate_time(w->bulk.warp, row_bytes);
}

/* Further sources are loaded and further copies stored through the SM's ports, each at its own rate. */
uint64_t gpu_ports_ps(const struct world *w, const struct loop *p, uint64_t size_bytes)
{
    return (p->sources > 1 ? (p->sources - 1) * rate_time(w->bulk_in, size_bytes) : 0) +
           p->kept * rate_time(w->bulk_out, size_bytes);
}

uint64_t gpu_rows_share_ps(const struct world *w, const struct loop *p, rate_q20 sm, uint64_t rows, uint64_t row_bytes)
{
    const uint64_t passes_ps = p->engine == LOOP_BULK ? bulk_passes_ps(w, p, rows * row_bytes) : 0;
    return rate_time(sm, rows * row_bytes) + passes_ps + gpu_ports_ps(w, p, rows * row_bytes);
}

/* What a warp takes for one row when nobody else is at work. */
uint64_t gpu_row_ps(const struct world *w, const struct loop *p, uint64_t row_bytes)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t in_flight = p->in_flight ? p->in_flight : 1, wait_ps = gpu_load_ps(w, p),
                   steps_ps = p->steps * wait_ps;
    if (p->engine == LOOP_BULK) return steps_ps + bulk_row_ps(w, p, row_bytes);
    /* The loads of a turn go out once the stores of the one before have their values. */
    const uint64_t access = GPU_WARP_LANES * (p->width_bytes ? p->width_bytes : 16u), turn = access * in_flight;
    const uint64_t turns =
        p->rest_alone ? row_bytes / turn + gpu_ceiling(row_bytes % turn, access) : gpu_ceiling(row_bytes, turn);
    const uint64_t turn_ps = wait_ps + (p->sought ? gpu->seek_ps : 0);
    return gpu->row_ps + steps_ps + turns * turn_ps + rate_time(w->copy_sm, row_bytes) + gpu_ports_ps(w, p, row_bytes);
}

/* Warps that wait for memory in turn and then for their SM's share of it: the waits hide the shares of others but for a
 * part, most where both are alike.  (Copies by 1 to 32 warps of an SM: within 7 %, tests/accuracy/measured.) */
uint64_t gpu_shared_ps(uint64_t chain_ps, uint64_t share_ps)
{
    const double chain = (double)chain_ps * (double)chain_ps, share = (double)share_ps * (double)share_ps;
    return (uint64_t)sqrt(sqrt(chain * chain + share * share));
}

/* Rounds of rows without and with a last one that is not full; what others do is in `others`, as 256ths of an SM. */
static uint64_t rounds_ps(const struct rounds *r, uint64_t others_256)
{
    uint64_t sum_ps = 0;
    if (r->full) sum_ps = r->full * gpu_shared_ps(r->alone_ps, r->full_share_ps * others_256 / GPU_WHOLE);
    if (r->rest) sum_ps += gpu_shared_ps(r->alone_ps, r->rest_share_ps * others_256 / GPU_WHOLE);
    return sum_ps;
}

static void rounds_make(const struct world *w, struct rounds *r)
{
    const struct loop *p = r->loop;
    r->load_ps = gpu_load_ps(w, p);
    r->alone_ps = gpu_row_ps(w, p, r->row_bytes);
    r->served_ps = gpu_rows_share_ps(w, p, r->sm, r->rows, r->row_bytes);
    r->full = r->rows / r->busy;
    r->rest = r->rows % r->busy;
    r->full_share_ps = gpu_rows_share_ps(w, p, r->sm, r->busy, r->row_bytes);
    r->rest_share_ps = gpu_rows_share_ps(w, p, r->sm, r->rest, r->row_bytes);
    r->sum_ps = rounds_ps(r, GPU_WHOLE);
}

const struct rounds *gpu_rounds(struct world_rank *rank, const struct loop *p, uint32_t rows, uint32_t busy,
                                uint64_t row_bytes, rate_q20 sm)
{
    struct rounds *r = &rank->rounds[(p->number + rows) % RANK_ROUNDS];
    if (r->loop != p || r->row_bytes != row_bytes || r->sm != sm || r->rows != rows || r->busy != busy) {
        *r = (struct rounds){ .loop = p, .row_bytes = row_bytes, .sm = sm, .rows = rows, .busy = busy };
        rounds_make(rank->world, r);
    }
    return r;
}

/* Rows that the bulk engine moves one part at a time stand in line at the engine (the SM's port), and nowhere else. */
uint64_t gpu_rounds_ps(struct world_rank *rank, struct world_worker *ww, const struct rounds *r)
{
    if (r->loop->engine == LOOP_BULK) return r->sum_ps;
    return rounds_ps(r, gpu_mixed_ps(rank, ww, r->loop->sought, GPU_WHOLE));
}
