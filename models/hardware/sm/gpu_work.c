/* gpu_work.c - what local work costs a warp group: casts, copies and sums of rows.
 *
 * An operation is charged for what its site's loop does.  The bulk engine stores staged rows (bulk.c). */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/gpu.h"

static uint64_t stretch_bytes(const struct loop *p) { return GPU_WARP_LANES * (p->width_bytes ? p->width_bytes : 16u); }

static uint64_t stretches(const struct loop *p, uint64_t bytes) { return gpu_ceiling(bytes, stretch_bytes(p)); }

/* How long a warp alone takes for a sum.  The warp goes along the row in stretches.  It waits until the loads of a
 * stretch have come from all rows, and then runs the loop's instructions.  Then the warp stores the stretch itself, or
 * the bulk engine stores it after a fence. */
static uint64_t sum_ps(const struct world *w, const struct fabric_work *work, const struct loop *p)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t made = work->rows ? work->write_bytes / work->rows : 0;
    const uint64_t read = work->rows ? work->read_bytes / work->rows : 0;
    const uint64_t near_ps = gpu->load_again_ps ? gpu->load_again_ps : gpu->load_l2_ps, wait_ps = gpu_load_ps(w, p);
    const uint64_t turns = stretches(p, made);
    const uint64_t far_ps = wait_ps > near_ps ? turns * (wait_ps - near_ps) : 0; /* how much longer than near_ps its
                                                                                  * waits take */
    const uint64_t stretch_ps = near_ps + p->stretch_cycles * gpu->cycle_ps;
    const uint64_t alone_ps = p->sum_cycles * gpu->cycle_ps +
                              (made * stretch_ps + read * p->stretch_row_cycles * gpu->cycle_ps) / stretch_bytes(p);
    const uint64_t fences_ps = p->fenced ? 0 : turns * gpu->stage_ps;
    const uint64_t more = work->rows ? stretches(p, work->read_bytes) / work->rows : 0; /* stretches read for a sum */
    const uint64_t in_turn_ps = !p->stretch_row_cycles && more > turns ? (more - turns) * wait_ps : 0;
    return p->steps * wait_ps + far_ps + in_turn_ps + (alone_ps > fences_ps ? alone_ps - fences_ps : 0);
}

static uint64_t sums_service_ps(const struct world *w, const struct fabric_work *work)
{
    return rate_time(w->reduce_sm, work->read_bytes) +
           (w->reduce_made ? rate_time(w->reduce_made, work->write_bytes) : 0);
}

/* How long a warp alone takes if the bulk engine brings the next stretch while one is summed.  Waits for other warps'
 * requests to the engine are not included. */
static uint64_t sum_ahead_ps(const struct world *w, const struct fabric_work *work, const struct loop *p)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t rows = work->rows ? work->rows : 1;
    return p->steps * gpu_load_ps(w, p) + (stretches(p, work->write_bytes) * gpu->stretch_ps +
                                           stretches(p, work->read_bytes) * p->stretch_row_cycles * gpu->cycle_ps) /
                                              rows;
}

static const struct price *work_price(struct world_rank *rank, const struct fabric_work *work, const struct loop *p,
                                      uint32_t lanes)
{
    const struct world *w = rank->world;
    const bool whole = work->kind == FABRIC_WORK_CAST; /* all warps move one row together */
    const uint32_t rows = whole || !work->rows ? 1 : work->rows;
    const struct gpu_sharing sharing = gpu_program_sharing(rank, p);
    bool known;
    struct kept_price *kept =
        gpu_price_place(rank,
                        &(struct price_key){ p->digest, work->read_bytes, work->write_bytes, rows, lanes,
                                             sharing.groups_256, PRICE_WORK, sharing.rounds },
                        &known);
    if (known) return &kept->price;
    const struct loop_row row = { work->read_bytes / rows, work->write_bytes / rows, rows, lanes };
    const struct gpu_rows r = gpu_program(w, p, work->given, row, sharing, false);
    kept->price = (struct price){
        .ps = r.ps,
        .served_ps = r.served_ps + pressure_store_ps(w->beside, work->write_bytes),
        .memory_ps = gpu_memory_ps(w, p, work->read_bytes, work->write_bytes, w->hbm),
        .sm_bytes = work->read_bytes,
        .memory_bytes = work->read_bytes + work->write_bytes,
        .first_256 = r.ahead ? (r.ahead < work->rows ? GPU_WHOLE * r.ahead / work->rows : GPU_WHOLE) : 0,
        .bulk = p->engine == LOOP_BULK,
        .fixed = gpu_program_alone(p),
    };
    return &kept->price;
}

/* Other work that uses the memory makes the warps wait, too.  Nothing hides the wait for the first rows if all teams
 * ask for these at once: the part of the queue ahead that is such rows counts in full. */
uint64_t gpu_priced_work_end(struct world_rank *rank, const struct price *price, uint64_t start, uint64_t touch_ps)
{
    struct world_worker *ww = rank->now.worker;
    const uint64_t now = sim_now_ps(rank->world->sim);
    const uint64_t sm_ps = own_reserve(rank, &rank->sm[ww->sm], now, price->served_ps, price->sm_bytes) - now;
    const uint64_t memory_ps = own_reserve(rank, &rank->hbm, now, price->memory_ps, price->memory_bytes) - now;
    const uint64_t ahead_ps = memory_ps > price->memory_ps ? memory_ps - price->memory_ps : 0;
    const uint64_t first_ps = ahead_ps * price->first_256 / GPU_WHOLE;
    const uint64_t end = start + touch_ps + later(gpu_contended_ps(price->ps, memory_ps - first_ps) + first_ps, sm_ps);
    gpu_moved_note(ww, price->bulk, start, end);
    return end;
}

/* Charges rows of an operation whose loop is a program, and returns when they are done. */
static uint64_t program_work(struct world_rank *rank, const struct fabric_work *work, const struct loop *p,
                             uint64_t start, uint32_t lanes)
{
    struct world_worker *ww = rank->now.worker;
    const struct price *price = work_price(rank, work, p, lanes);
    const uint64_t end = gpu_priced_work_end(rank, price, start, gpu_touch_ps(ww, p));
    gpu_turn_note(rank, price);
    if (work->kind == FABRIC_WORK_COPY && p->engine == LOOP_LDST)
        rank->copied_ps[ww->sm] = later(rank->copied_ps[ww->sm], end);
    return end;
}

/* Charges a sum whose loop is no program, and returns when it is done. */
static uint64_t sum_work(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start,
                         uint32_t lanes)
{
    struct world_worker *ww = rank->now.worker;
    struct world *w = rank->world;
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t now = sim_now_ps(w->sim), both = work->read_bytes + work->write_bytes, rows = work->rows;
    const uint64_t touched_ps = gpu_touch_ps(ww, p), lead_ps = touched_ps + p->steps * gpu_load_ps(w, p);
    const uint64_t rounds = gpu_ceiling(rows, gpu_warps_busy(work->rows, lanes));
    uint64_t end = start + touched_ps, service_ps = 0;
    if (p->engine == LOOP_BULK) { /* the engine serves the requests of all warps one after another */
        const uint64_t requests_ps =
            (stretches(p, work->read_bytes) + stretches(p, work->write_bytes)) * gpu->engine.request_ps;
        const uint64_t turn_ps = own_reserve(rank, &rank->sm[ww->sm], now, requests_ps, work->read_bytes) - now;
        end += gpu_shared_ps(rounds * sum_ahead_ps(w, work, p), turn_ps);
    } else {
        service_ps = sums_service_ps(w, work);
        end += gpu_contended_ps(rounds * sum_ps(w, work, p), gpu_share_ps(rank, ww, service_ps));
    }
    service_ps += pressure_store_ps(w->beside, work->write_bytes);
    end = later(end, lead_ps + own_reserve(rank, &rank->sm[ww->sm], now, service_ps, work->read_bytes));
    gpu_moved_note(ww, false, start, end);
    return later(end, lead_ps + own_reserve(rank, &rank->hbm, now, rate_time(w->hbm, both), both));
}

/* The time of waits for memory, one after another.  Along an array, a wait costs only the L2's time if its bytes
 * came with those of the wait before it. */
static uint64_t waits_ps(const struct world *w, const struct loop *p, uint64_t waits)
{
    const uint64_t size_bytes = w->cluster->gpu.load_bytes;
    if (!p->stride || !size_bytes || !waits) return waits * gpu_load_ps(w, p);
    const uint64_t fetches = (waits - 1) * p->stride / size_bytes + 1, far = fetches < waits ? fetches : waits;
    return far * gpu_load_ps(w, p) + (waits - far) * w->cluster->gpu.load_l2_ps;
}

/* How long a scan takes, without the lookup of its array's pages. */
static uint64_t scan_ps(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint32_t lanes)
{
    const struct world *w = rank->world;
    if (p->program) return gpu_program_scan_ps(rank, rank->now.worker, p, work->given, work->rows, lanes);
    const uint64_t *size = work->given ? work->given->size : NULL;
    const bool counts = p->times && !p->one_by_one; /* one by one, it is a load */
    const uint32_t loads = counts ? loops_times(w->loops, (enum site)work->site, size, work->rows) : work->rows;
    if (p->chase)
        return gpu_ceiling(work->read_bytes * p->chase * w->cluster->gpu.cycle_ps, GPU_LINE_BYTES) +
               loads * w->cluster->gpu.scan_row_ps;
    const uint64_t waits = gpu_ceiling(loads, p->in_flight ? p->in_flight : 1);
    return waits_ps(w, p, waits);
}

/* scan_ps().  Scans without sizes often equal the last one at their site. */
static uint64_t scan_again_ps(struct world_rank *rank, const struct fabric_work *work, const struct loop *p,
                              uint32_t lanes)
{
    struct kept_scan *last = &rank->world->kept_scan[work->site];
    if (work->given || p->program || rank->pressure.load_ps) return scan_ps(rank, work, p, lanes);
    if (last->known && last->rows == work->rows && last->read_bytes == work->read_bytes) return last->ps;
    const uint64_t ps = scan_ps(rank, work, p, lanes);
    *last = (struct kept_scan){ work->read_bytes, ps, work->rows, true };
    return ps;
}

uint64_t gpu_scan_end(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start,
                      uint32_t lanes)
{
    struct world_worker *ww = rank->now.worker;
    if (p->peer) return start + rank->world->cluster->nvlink.peek_ps;
    uint64_t ps = scan_again_ps(rank, work, p, lanes);
    if (!p->program && !p->chase) ps += gpu_touch_ps(ww, p);
    if (p->chase) ps += bulk_ahead_ps(rank, ww->sm);
    gpu_scanned_note(ww, ps);
    return start + ps;
}

uint64_t gpu_work_end(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start,
                      uint32_t lanes)
{
    if (p->staged) return bulk_store(rank, rank->fabric.rank, 0, work->write_bytes, start, &(uint64_t){ 0 });
    if (p->program) return program_work(rank, work, p, start, lanes);
    if (work->kind == FABRIC_WORK_REDUCE && p->in_flight <= 1) return sum_work(rank, work, p, start, lanes);
    return bulk_rows(rank, work, p, start, gpu_warps_busy(work->rows, lanes));
}
