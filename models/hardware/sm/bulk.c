/* bulk.c - how long the SM's bulk copy engine takes to bring a row into a warp's shared memory and to store it from
 * there, once or several times.
 *
 * The engine of an SM serves all its warps one after the other: bytes in, and bytes out to the GPU's own memory or to a
 * peer, each at its own rate.  A warp has one buffer.  It waits for what it loads, and before the next load it waits
 * until its stores are written.  While one warp waits, the engine serves others. */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/gpu.h"
#include "models/hardware/sm/peers.h"

/* The extra passes of a row. `bytes` is the row's offset in its 128-byte line minus the offset of its place in shared
 * memory. */
static uint32_t passes_of(const uint8_t passes[CLUSTER_PLACES], uint32_t bytes)
{
    return passes[bytes % GPU_LINE_BYTES / (GPU_LINE_BYTES / CLUSTER_PLACES)];
}

static uint32_t passes_8(const uint8_t passes[CLUSTER_PLACES], bool all, uint32_t bytes)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < CLUSTER_PLACES; i++) sum += all ? passes[i] : passes_of(passes, bytes);
    return sum;
}

/* The offset of the buffer in its line of shared memory.  The engine moves units of 16 B, so the buffer begins one. */
static uint32_t buffer_line(const struct loop *p)
{
    enum { UNIT_BYTES = GPU_LINE_BYTES / CLUSTER_PLACES };
    return (p->shared_bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES % GPU_LINE_BYTES;
}

/* Packed rows lie at all distances from lines equally often, and so do spread buffers unless each of them begins at a
 * line. For both, the result is the average over all distances. */
uint32_t bulk_in_passes_8(const struct world *w, const struct loop *p)
{
    const uint32_t line = buffer_line(p);
    return passes_8(w->cluster->gpu.engine.passes.in, p->packed_source || (p->spread && line), p->source_line - line);
}

uint32_t bulk_out_passes_8(const struct world *w, const struct loop *p)
{
    const uint32_t line = buffer_line(p);
    return passes_8(w->cluster->gpu.engine.passes.out, p->packed || (p->spread && line), -line);
}

uint64_t bulk_rows(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start_ps,
                   uint32_t busy)
{
    struct world *w = rank->world;
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t now = sim_now_ps(w->sim), rounds = (work->rows + busy - 1) / busy;
    const uint64_t row_bytes = work->read_bytes / work->rows, once = 32 * 16 * (uint64_t)p->in_flight;
    const bool sum = work->kind == FABRIC_WORK_REDUCE;
    const uint32_t waits = sum ? (uint32_t)((row_bytes + once - 1) / once) : 0;
    const uint64_t longer_ps = pressure_load_ps(w->beside, &w->cluster->gpu, p->fresh, p->footprint_bytes);
    const uint64_t in_ps = gpu->engine.in_ps + longer_ps;
    const uint64_t wait_ps = p->fresh ? gpu->scan_row_ps + longer_ps : in_ps;
    const uint64_t out_ps = work->write_bytes ? gpu->engine.out_ps : 0; /* a row without bytes to write stays in shared
                                                                         * memory */
    const uint64_t first_ps = out_ps + (sum ? (p->steps + 1) * wait_ps : in_ps);
    const uint64_t row_ps = out_ps + (sum ? (p->steps + waits) * wait_ps : in_ps);
    /* A sum that stays in shared memory overwrites the row before it, so it waits until that row is stored. */
    const uint64_t staged_ps = sum && !work->write_bytes ? worker_staged_ps(rank->now.worker) : 0;
    if (staged_ps > start_ps + wait_ps) start_ps = staged_ps - wait_ps;
    uint64_t end = start_ps + rounds * (row_ps + p->sum_cycles * gpu->cycle_ps);
    if (sum && !p->fresh)
        end = later(end, own_reserve(rank, &rank->far[rank->now.worker->sm], now,
                                     rate_time(w->sum_far, work->read_bytes), work->read_bytes));
    if (!sum)
        end =
            later(end, own_reserve(rank, &rank->sm[rank->now.worker->sm], now,
                                   rate_time(w->bulk_in, work->read_bytes) + rate_time(w->bulk_out, work->write_bytes),
                                   work->read_bytes));
    const uint64_t memory_ps =
        own_reserve(rank, &rank->hbm, now, gpu_memory_ps(w, p, work->read_bytes, work->write_bytes, w->hbm_rows),
                    work->read_bytes + work->write_bytes);
    /* The waits of a sum out of the L2 are longer, the more of the sum's time the L2 is busy with all SMs' rows. */
    if (sum && p->fresh) end = start_ps + gpu_contended_ps(end - start_ps, memory_ps - now);
    return later(end, first_ps + memory_ps);
}

struct bulk_load bulk_load_of(struct world_rank *rank, const struct fabric_work *work, const struct loop *p,
                              uint64_t start_ps)
{
    const struct world *w = rank->world;
    const struct cluster_bulk *bulk = &w->cluster->gpu.engine;
    struct world_worker *ww = rank->now.worker;
    const uint64_t size = work->read_bytes, engine_ps = rate_time(w->bulk_in, size);
    worker_rest(ww)->shared_bytes = p->shared_bytes;
    const uint32_t rows = work->rows ? work->rows : 1,
                   passes = passes_of(bulk->passes.in, p->source_line - p->shared_bytes);
    const uint64_t far_ps = bulk->in_ps > bulk->in_l2_ps ? bulk->in_ps - bulk->in_l2_ps : 0;
    const uint64_t in_ps = bulk->in_l2_ps + gpu_far_ps(w, p, far_ps);
    return (struct bulk_load){
        .engine_ps = engine_ps + passes * engine_ps,
        .in_ps = in_ps,
        .end_ps = later(start_ps, worker_staged_ps(ww)) + rows * (in_ps + p->steps * w->cluster->gpu.scan_row_ps) +
                  (rows - 1) * bulk->out_ps,
    };
}

uint64_t bulk_stage(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start_ps)
{
    const struct bulk_load load = bulk_load_of(rank, work, p, start_ps);
    const uint64_t now = sim_now_ps(rank->world->sim), size = work->read_bytes;
    const uint64_t end =
        later(load.end_ps, own_reserve(rank, &rank->sm[rank->now.worker->sm], now, load.engine_ps, size));
    return later(end, own_reserve(rank, &rank->hbm, now, rate_time(rank->world->hbm_rows, size), size));
}

uint32_t bulk_off_line(struct world_worker *ww, const struct loop *p)
{
    return (p->target_line - worker_rest(ww)->shared_bytes) % GPU_LINE_BYTES;
}

/* (Two H200s, one SM, rows of 14336 B that lie 0, 32, 64 and 96 bytes off: 272, 331, 332 and 331 ns.) */
uint64_t bulk_put_ps(const struct world *w, uint32_t off_line, uint64_t size_bytes)
{
    const uint64_t pass_ps = rate_time(w->bulk_in, size_bytes);
    return rate_time(w->bulk_put, size_bytes) + passes_of(w->cluster->gpu.engine.passes.in, off_line) * pass_ps;
}

/* How much longer both ends of the links take for a row whose place in the peer's lines differs from its place in the
 * buffer's lines.  Such a row takes more packets. */
static uint64_t sectors_ps(const struct world *w, uint32_t off_line, uint64_t size_bytes)
{
    if (!off_line) return 0;
    const uint64_t line_ps = rate_time(w->bulk_link, size_bytes), sector_ps = rate_time(w->bulk_sector, size_bytes);
    return sector_ps > line_ps ? sector_ps - line_ps : 0;
}

/* The time is longer while the sender also sends to other peers and the target also receives from other senders. */
uint64_t bulk_link_take_ps(struct world_rank *from, const struct world_rank *to, uint32_t off_line, uint64_t size_bytes)
{
    const struct world *w = from->world;
    const uint64_t now = sim_now_ps(w->sim);
    const bool crossed = flows_others_busy(&from->egress_flows, to->fabric.rank, now) &&
                         flows_others_busy(&to->ingress_flows, from->fabric.rank, now);
    const uint64_t alone_ps = rate_time(w->bulk_link, size_bytes) + sectors_ps(w, off_line, size_bytes);
    from->egress_bytes_ps += link_slowed_ps(from->egress_slow, alone_ps);
    return link_slowed_ps(from->egress_slow, alone_ps + (crossed ? rate_time(w->bulk_crossing, size_bytes) : 0));
}

uint64_t bulk_link_arrive(struct world_rank *from, struct world_rank *to, uint64_t now_ps, uint64_t sent_ps,
                          uint32_t off_line, uint64_t size_bytes)
{
    struct world *w = from->world;
    const uint16_t source = from->fabric.rank, target = to->fabric.rank;
    const uint64_t take_ps =
        link_slowed_ps(to->ingress_slow, rate_time(w->ingress, size_bytes) + sectors_ps(w, off_line, size_bytes));
    uint64_t in_ps = port_reserve(&to->ingress, now_ps, take_ps, size_bytes);
    if (w->peer_way || w->pair_link) in_ps = later(in_ps, peers_cross(from, to, now_ps, size_bytes));
    flows_note(&from->egress_flows, target, sent_ps);
    flows_note(&to->ingress_flows, source, in_ps);
    return in_ps;
}

/* The engine has taken the store at left_ps.  The write to the memory takes out_ps.  A peer's memory also takes a round
 * trip over the links until the warp knows. */
uint64_t bulk_written_ps(const struct world *w, uint64_t left_ps, bool own)
{
    return left_ps + w->cluster->gpu.engine.out_ps + (own ? 0 : 2 * w->cluster->nvlink.latency_ps);
}

/* The worker goes on when the engine has taken the bytes.  They are written later. */
uint64_t bulk_store(struct world_rank *rank, uint16_t peer, uint32_t off_line, uint64_t size_bytes, uint64_t start_ps,
                    uint64_t *linked_ps)
{
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    struct world_rank *target = &w->rank[peer];
    struct rest *rest = worker_rest(ww);
    const bool own = target == rank;
    const uint64_t now = sim_now_ps(w->sim);
    const uint64_t engine_ps = own ? rate_time(w->bulk_out, size_bytes) + pressure_store_ps(w->beside, size_bytes)
                                   : bulk_put_ps(w, off_line, size_bytes);
    const uint64_t memory_ps = rate_time(w->hbm_rows, size_bytes);
    uint64_t end = later(start_ps, own_reserve(rank, &rank->sm[ww->sm], now, engine_ps, size_bytes));
    if (own) end = later(end, own_reserve(rank, &rank->hbm, now, memory_ps, size_bytes));
    *linked_ps = 0;
    if (!own) {
        const uint64_t out_ps = bulk_link_take_ps(rank, target, off_line, size_bytes);
        const uint64_t sent_ps = port_reserve(&rank->egress, now, out_ps, size_bytes);
        *linked_ps = later(sent_ps, bulk_link_arrive(rank, target, now, sent_ps, off_line, size_bytes));
        held_note(rank, target, start_ps, end, *linked_ps);
        *linked_ps = later(*linked_ps, port_reserve(&target->hbm, now, memory_ps, size_bytes));
    }
    const uint64_t left_ps = later(start_ps + rank_slowed_ps(rank, end - start_ps), *linked_ps);
    rest->staged_ps = later(rest->staged_ps, bulk_written_ps(w, left_ps, own));
    return end;
}
