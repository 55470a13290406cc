/* gpu.c - what the seam's operations cost a warp group on a GPU.
 *
 * An operation moves its bytes at the rate of its warps when they are alone, but not before the ports that it
 * crosses (SM, NVLink egress and ingress, HBM) have moved them too, each at its own rate and first come,
 * first served; then come the latencies of its rows, one after another on each warp.  Ports are asked at the
 * time of the step, so that requests of one step do not stand before those that other workers make meanwhile.
 */
#include "models/hardware/world_internal.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

/* When an operation on warps of the worker begins; 0: all of them. */
static uint64_t lane_begin(struct world_worker *ww, uint32_t warps, uint32_t *lanes)
{
    struct stepping *now = &ww->rank->now;
    const uint32_t all = ww->worker->warps;
    *lanes = warps && warps < all ? warps : all;
    if (now->lane_warps + *lanes > all) {
        now->lane_start_ps = ww->cursor_ps;
        now->lane_warps = 0;
    }
    now->lane_warps = (uint16_t)(now->lane_warps + *lanes);
    return now->lane_start_ps;
}

static void lane_end(struct world_worker *ww, uint64_t end_ps)
{
    struct stepping *now = &ww->rank->now;
    const uint64_t start_ps = now->lane_start_ps;
    if (end_ps > start_ps) end_ps = start_ps + rank_slowed_ps(ww->rank, end_ps - start_ps);
    now->last_end_ps = end_ps;
    if (end_ps > ww->cursor_ps) ww->cursor_ps = end_ps;
}

/* Rows are dealt out to warps, one warp a row: how many are busy. */
static uint32_t warps_busy(uint32_t rows, uint32_t lanes) { return rows && rows < lanes ? rows : lanes; }

/* Warp groups of one SM move rows in lockstep phases (a chunk, a barrier, a release), and what was measured
 * is that each then takes as long as if all that are at it shared the SM evenly, whether or not another is
 * just between two chunks. Those are at it that moved rows since this one last began to. */
static uint64_t sm_share_ps(struct world_rank *rank, struct world_worker *ww, uint64_t service_ps)
{
    const uint64_t since_ps = ww->moved_from_ps ? ww->moved_from_ps : sim_now_ps(rank->world->sim);
    uint32_t groups = 1;
    const uint32_t own = ww->worker->index + 1;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next)
        groups += i != own && rank->mover[i - 1].moved_to_ps > since_ps;
    return groups * service_ps;
}

/* The same of groups that are not in step: each of the others takes its share for the part of its turns that it moves
 * rows.  So does the own one where not even its warps are in step, since each looks for its rows itself. */
static uint64_t sm_mixed_ps(struct world_rank *rank, struct world_worker *ww, bool sought, uint64_t service_ps)
{
    enum { WHOLE = 256 };
    const uint64_t since_ps = ww->moved_from_ps ? ww->moved_from_ps : sim_now_ps(rank->world->sim);
    const uint32_t own = ww->worker->index + 1, part = rank->mover[own - 1].moving_256;
    uint64_t parts = sought && part ? part : WHOLE;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next) {
        const struct mover *m = &rank->mover[i - 1];
        if (i != own && m->moved_to_ps > since_ps) parts += m->moving_256 ? m->moving_256 : WHOLE;
    }
    return service_ps * parts / WHOLE;
}

static void moved_note(struct world_worker *ww, uint64_t from_ps, uint64_t to_ps)
{
    struct mover *m = &ww->rank->mover[ww->worker->index];
    if (ww->moved_from_ps && from_ps > ww->moved_from_ps && m->moved_to_ps > ww->moved_from_ps) {
        const uint64_t part = 256 * (m->moved_to_ps - ww->moved_from_ps) / (from_ps - ww->moved_from_ps);
        m->moving_256 = (uint32_t)(part < 1 ? 1 : part > 256 ? 256 : part) & 0x3ff;
    }
    ww->moved_from_ps = from_ps;
    m->moved_to_ps = to_ps;
}

/* Takes bytes through the sender's egress and the receiver's ingress.  Where flows cross, that is, the egress is busy
 * for other receivers too and the ingress for other senders too, packets wait for each other at the head of the line
 * before a store's bytes flow. */
static uint64_t nvlink_cross(struct world_rank *from, struct world_rank *to, uint64_t now_ps, uint64_t size_bytes,
                             rate_q20 egress)
{
    struct world *w = from->world;
    const uint16_t source = from->fabric.rank, target = to->fabric.rank;
    uint64_t out_ps = rate_time(egress ? egress : w->egress, size_bytes), in_ps = rate_time(w->ingress, size_bytes);
    const bool out_busy = flows_others_busy(&from->egress_flows, target, now_ps);
    if (out_busy && flows_others_busy(&to->ingress_flows, source, now_ps)) {
        out_ps += w->cluster->nvlink.crossing_ps;
        in_ps += w->cluster->nvlink.crossing_ps;
    }
    if (from->egress.free_ps <= now_ps) from->egress_since_ps = now_ps;
    out_ps = port_reserve(&from->egress, now_ps, link_slowed_ps(from->egress_slow, out_ps), size_bytes);
    in_ps = port_reserve(&to->ingress, now_ps, link_slowed_ps(to->ingress_slow, in_ps), size_bytes);
    if (w->peer_way) in_ps = later(in_ps, world_pcie_cross(from, to, now_ps, size_bytes));
    flows_note(&from->egress_flows, target, out_ps);
    flows_note(&to->ingress_flows, source, in_ps);
    world_bisection_note(w, source, target, size_bytes);
    return later(out_ps, in_ps);
}

static const struct fabric_pattern plain;
enum { LANES = 32 };
enum { SECTOR_BYTES = 32, WORD_BYTES = 4 }; /* what a word takes that no other is written beside, and what it is */
enum { STORE_IN_FLIGHT = 4 };               /* loads behind store-warp-rate; with more, store-deep-rate */

static uint64_t ceiling(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

/* A wait for memory of a kernel that says its pattern.  Rows just written are in the L2 but for those that others have
 * driven out, more of them the nearer all together come to what it holds. */
static uint64_t load_ps(const struct world *w, const struct fabric_pattern *p)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    if (p->again == FABRIC_AT_HAND && gpu->load_l1_ps) return gpu->load_l1_ps;
    if (p->again) return gpu->load_again_ps ? gpu->load_again_ps : gpu->load_l2_ps;
    if (!p->fresh || (gpu->l2_bytes && p->footprint_bytes >= gpu->l2_bytes)) return gpu->load_ps;
    const uint64_t more_ps = gpu->load_ps > gpu->load_l2_ps ? gpu->load_ps - gpu->load_l2_ps : 0;
    return gpu->load_l2_ps +
           (gpu->l2_bytes ? (uint64_t)((double)more_ps * (double)p->footprint_bytes / (double)gpu->l2_bytes) : 0);
}

/* The latencies of the rows of one warp: turns of load, wait and store one after another, and before them waits for
 * what says where a row lies, which take as long as a turn where memory's own are not known. */
static uint64_t rows_latency_ps(const struct world *w, const struct work_rates *k, const struct fabric_pattern *p,
                                uint32_t rows, uint32_t busy)
{
    const uint64_t turns = p->engine == FABRIC_BULK && p->turns ? p->turns : 1;
    const uint64_t step_ps = w->cluster->gpu.load_ps ? load_ps(w, p) : k->row_ps;
    return ceiling(rows, busy) * (turns * k->row_ps + p->steps * step_ps);
}

/* The number of a pattern among those that the rank has used.  Not where it lies: that is the linker's choice, and what
 * is predicted must not depend on it.  All patterns after the last number share it. */
static uint32_t pattern_number(struct world_rank *rank, const struct fabric_pattern *p)
{
    for (uint32_t i = 0; i < rank->pattern_count; i++)
        if (rank->pattern[i] == p) return i;
    if (rank->pattern_count == WORLD_PATTERNS_MAX) return WORLD_PATTERNS_MAX - 1;
    rank->pattern[rank->pattern_count] = p;
    return rank->pattern_count++;
}

/* The first wait of a worker for an array that nobody has just written: its pages are looked up, too. */
static uint64_t touch_ps(struct world_worker *ww, const struct fabric_pattern *p)
{
    if (p->fresh && !p->unseen) return 0;
    uint32_t *touched = &ww->rank->mover[ww->worker->index].touched;
    /* Which pattern it is tells arrays apart; those that ranks make are told apart by what they say. */
    const bool made = p->engine != FABRIC_LDST || p->footprint_bytes;
    const uint32_t number =
        made ? (3u * p->turns + 5u * p->in_flight + p->steps) % WORLD_PATTERNS_MAX : pattern_number(ww->rank, p);
    const uint32_t bit = 1u << (number + (made ? WORLD_PATTERNS_MAX : 0));
    if (*touched & bit) return 0;
    *touched |= bit;
    return ww->rank->world->cluster->gpu.touch_ps;
}

/* What a warp takes for one row when nobody else is at work. */
static uint64_t row_ps(const struct world *w, const struct fabric_pattern *p, uint64_t row_bytes)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t in_flight = p->in_flight ? p->in_flight : 1, wait_ps = load_ps(w, p), steps_ps = p->steps * wait_ps;
    if (p->engine == FABRIC_BULK) { /* the first part, then as many at once as are on their way */
        const uint64_t turns = p->turns ? p->turns : 1;
        const uint64_t part_ps = gpu->bulk.row_ps + (wait_ps > gpu->load_l2_ps ? wait_ps - gpu->load_l2_ps : 0);
        return steps_ps + part_ps * (in_flight + turns - 1) / in_flight + rate_time(w->bulk.warp, row_bytes);
    }
    /* The loads of a turn go out once the stores of the one before have their values. */
    const uint64_t turns = ceiling(row_bytes, LANES * (p->width_bytes ? p->width_bytes : 16u) * in_flight);
    return gpu->row_ps + (p->sought ? gpu->seek_ps : 0) + steps_ps + turns * wait_ps + rate_time(w->row, row_bytes);
}

static bool priced(const struct world *w, const struct fabric_pattern *p)
{
    return p && w->cluster->gpu.load_ps && !p->staged && (p->engine == FABRIC_LDST || p->in_flight > 1);
}

/* Sums of rows that many loads bring at once, and scans that count bytes, are bulk.c's and scan-rate's. */
static bool priced_rows(const struct world *w, const struct fabric_work *work)
{
    const struct fabric_pattern *p = work->pattern;
    return priced(w, p) && !(work->kind == FABRIC_WORK_REDUCE && p->engine == FABRIC_LDST && p->in_flight > 1);
}

/* Warps that wait for memory in turn and then for their SM's share of it: the waits hide the shares of others but for a
 * part, most where both are alike.  (Copies by 1 to 32 warps of an SM: within 7 %, tests/accuracy/measured.) */
static uint64_t shared_ps(uint64_t chain_ps, uint64_t share_ps)
{
    const double chain = (double)chain_ps, share = (double)share_ps;
    return (uint64_t)sqrt(hypot(chain * chain, share * share));
}

/* The warps of a group take rows in rounds, of which the last may not have one for each; in each round they share their
 * SM with the other groups' warps. */
static uint64_t rounds_ps(struct world_rank *rank, struct world_worker *ww, uint32_t rows, uint32_t busy, bool sought,
                          uint64_t alone_ps, uint64_t row_bytes, rate_q20 sm)
{
    const uint32_t full = rows / busy, rest = rows % busy;
    uint64_t sum_ps = full * shared_ps(alone_ps, sm_mixed_ps(rank, ww, sought, rate_time(sm, busy * row_bytes)));
    if (rest) sum_ps += shared_ps(alone_ps, sm_mixed_ps(rank, ww, sought, rate_time(sm, rest * row_bytes)));
    return sum_ps;
}

static int priced_store(struct world_rank *rank, const struct fabric_write *write)
{
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    const struct fabric_pattern *p = write->pattern;
    const uint64_t now = sim_now_ps(w->sim), size = write->charge_bytes;
    uint32_t lanes;
    const uint64_t start = lane_begin(ww, write->warps, &lanes);
    const uint32_t rows = write->rows ? write->rows : 1, busy = warps_busy(rows, lanes);
    const uint64_t behind_ps = worker_behind_ps(ww);
    const bool bulk = p->engine == FABRIC_BULK, split = bulk && p->shared_bytes && write->peer != rank->fabric.rank;
    const rate_q20 sm = split ? w->bulk_split : w->store.sm;
    const uint64_t lead_ps = (p->steps + 1) * load_ps(w, p); /* until the first byte moves */
    const uint64_t served_ps = port_reserve(&rank->sm[ww->sm], now, rate_time(sm, size), size);
    uint64_t end = start + touch_ps(ww, p) +
                   rounds_ps(rank, ww, rows, busy, p->sought, row_ps(w, p, size / rows), size / rows, sm);
    end = later(end, lead_ps + served_ps);
    end = later(end, lead_ps + port_reserve(&rank->hbm, now, rate_time(w->hbm, size), size));
    if (write->peer != rank->fabric.rank) {
        const uint64_t there_ps = nvlink_cross(rank, &w->rank[write->peer], now, size,
                                               !bulk             ? p->lined ? 0 : w->egress_unaligned
                                               : p->shared_bytes ? w->egress_split
                                                                 : 0);
        if (!p->posted || there_ps > rank->egress.free_ps) end = later(end, lead_ps + there_ps);
    }
    lane_end(ww, end);
    /* The first warp comes later to its row, if it has one. */
    const uint32_t all = ww->worker->warps;
    if (behind_ps && (all - write->first % all) % all < rows) worker_rest(ww)->first_ps = ww->cursor_ps + behind_ps;
    moved_note(ww, start, end);
    rank->stored_ps[ww->sm] = later(rank->stored_ps[ww->sm], end);
    if (write->peer != rank->fabric.rank) rank->put_ps[ww->sm] = later(rank->put_ps[ww->sm], end);
    ww->unfenced = true;
    world_store_payload(rank, write);
    return 0;
}

/* A stream's next operation: it begins once the host, in one thread for all streams, has asked for it. */
static uint64_t stream_begin(struct world_rank *rank, uint64_t call_ps)
{
    uint32_t lanes;
    const uint64_t start = lane_begin(rank->now.worker, 0, &lanes);
    if (!rank->now.worker->worker->stream) return start;
    return later(start, port_reserve(&rank->calls, rank->start_ps, call_ps, 0));
}

static uint64_t copy_own(struct world_rank *rank, const struct fabric_work *work)
{
    const struct world *w = rank->world;
    const struct cluster_calls *calls = &w->cluster->calls;
    const uint64_t start = stream_begin(rank, calls->copy_call_ps), both = work->read_bytes + work->write_bytes;
    return later(start, port_reserve(&rank->hbm, start, rate_time(w->hbm, both), both)) + calls->copy_ps;
}

/* The copy engine begins when the worker has come here, and takes no SM. */
static int copy_store(struct world_rank *rank, const struct fabric_write *write)
{
    struct world *w = rank->world;
    const struct cluster_calls *calls = &w->cluster->calls;
    const bool own = write->peer == rank->fabric.rank;
    const uint64_t call_ps = own || !calls->copy_peer_call_ps ? calls->copy_call_ps : calls->copy_peer_call_ps;
    const uint64_t start = stream_begin(rank, call_ps), size = write->charge_bytes;
    uint64_t end = port_reserve(&rank->hbm, start, rate_time(w->hbm, own ? 2 * size : size), size);
    if (!own) {
        const uint64_t link_ps = rate_time(rate_make(calls->copy_rate_bps), size);
        end = later(end, port_reserve(&rank->egress, start, link_ps, size));
        end = later(end, port_reserve(&w->rank[write->peer].ingress, start, link_ps, size));
        world_bisection_note(w, rank->fabric.rank, write->peer, size);
    }
    lane_end(rank->now.worker, later(start, end) + calls->copy_ps);
    world_store_payload(rank, write);
    return 0;
}

static int gpu_store(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && fabric_path(f, write->peer) != FABRIC_RDMA);
    if (write->pattern && write->pattern->engine == FABRIC_COPY) return copy_store(rank, write);
    if (priced(w, write->pattern)) return priced_store(rank, write);
    const uint64_t now = sim_now_ps(w->sim), size = write->charge_bytes;
    uint32_t lanes;
    const uint64_t start = lane_begin(ww, write->warps, &lanes);
    const uint32_t rows = write->rows ? write->rows : 1, busy = warps_busy(rows, lanes);
    const struct fabric_pattern *p = write->pattern ? write->pattern : &plain;
    if (p->staged) {
        if (p->alone && rank->shares.cpcs) {
            bulk_turn_take(ww, write->peer, size);
            lane_end(ww, later(start, now + 1)); /* its turns keep it longer */
        } else {
            lane_end(ww, bulk_store(rank, write->peer, size, start));
        }
        world_store_payload(rank, write);
        return 0;
    }
    const bool bulk = p->engine == FABRIC_BULK, deep = !bulk && p->in_flight > STORE_IN_FLIGHT;
    const struct work_rates *k = bulk ? &w->bulk : &w->store;
    const rate_q20 warp = deep ? w->store_deep : k->warp;
    const uint64_t service_ps = rate_time(w->store.sm, size) + (bulk ? bulk_passes_ps(w, p, size) : 0),
                   latency_ps = rows_latency_ps(w, k, p, rows, busy);
    /* Bulk copies of several warps overlap each other's latencies, which the engine's turns do not hide; loads and
     * stores of one group go in step. */
    const uint64_t alone_ps = rate_time(warp, size) / busy + (bulk ? latency_ps : 0);
    const uint64_t wait_ps = bulk && alone_ps > service_ps ? alone_ps - service_ps : 0;
    uint64_t end = start + alone_ps;
    if (!deep && !bulk) end = later(end, start + sm_share_ps(rank, ww, service_ps));
    end = later(end, port_reserve(&rank->sm[ww->sm], now, service_ps, size) + wait_ps);
    end = later(end, port_reserve(&rank->hbm, now, rate_time(w->hbm, size), size));
    if (write->peer != f->rank)
        end = later(end, nvlink_cross(rank, &w->rank[write->peer], now, size, p->packed ? w->egress_split : 0));
    lane_end(ww, end + (bulk ? 0 : latency_ps));
    moved_note(ww, start, rank->now.last_end_ps);
    ww->unfenced = true;
    ww->drains = bulk;
    world_store_payload(rank, write);
    return 0;
}

/* A fence follows the request, and the queue's record and the doorbell are stored with release: three waits for what
 * the SM's other warps are storing.  (DeepEP's code on an H100, beside seven warps that copy rows: a put takes 0.8 to
 * 1.0 us more, an atomic 0.65.) */
static uint64_t post_releases_ps(const struct world_rank *rank, const struct world_worker *ww, uint64_t start_ps)
{
    enum { POST_RELEASES = 3 };
    const struct cluster_gpu *gpu = &rank->world->cluster->gpu;
    if (rank->copied_ps[ww->sm] <= start_ps || gpu->release_stores_ps < gpu->release_ps) return 0;
    return POST_RELEASES * (gpu->release_stores_ps - gpu->release_ps);
}

/* When the NIC may see a request that the worker posts now; the worker is busy for the posting.  A warp that rings has
 * its QP to itself meanwhile; one that hands over to a thread waits where that has as many as it takes. */
static uint64_t post_by(struct world_rank *rank, uint64_t post_ps, uint32_t warps, uint16_t peer, uint16_t queue,
                        bool defer)
{
    const struct transport *t = &rank->world->transport;
    struct world_worker *ww = rank->now.worker;
    uint32_t lanes;
    const uint64_t start = lane_begin(ww, warps, &lanes);
    uint64_t end = start + post_ps;
    if (t->poster == CLUSTER_POST_GPU) {
        if (!defer) end += post_releases_ps(rank, ww, start);
        if (!defer) {
            struct qp *qp = nic_qp(rank, peer, queue);
            end = later(end, qp->lock_ps) + t->doorbell_ps;
            qp->lock_ps = end;
        }
        lane_end(ww, end);
        return end;
    }
    struct port *thread = &rank->proxy[queue % t->threads];
    const uint64_t full_ps = t->fifo_depth * t->doorbell_ps;
    if (t->fifo_depth && thread->free_ps > end + full_ps) end = thread->free_ps - full_ps;
    lane_end(ww, end);
    rank->posting.busy_ps += t->doorbell_ps / t->threads;
    const uint64_t looks_ps =
        t->counter_ps * (TRANSPORT_COUNTERS - 1) / 2; /* an idle thread asks for errors meanwhile */
    const uint64_t done_ps = port_reserve(thread, end + t->proxy_ps + looks_ps, t->doorbell_ps, 0);
    rank->posting.free_ps = later(rank->posting.free_ps, done_ps);
    return done_ps;
}

static uint64_t post(struct world_rank *rank, uint32_t warps, uint16_t peer, uint16_t queue, bool defer)
{
    return post_by(rank, rank->world->transport.post_ps, warps, peer, queue, defer);
}

/* A CPU that copies what it sends is busy with it. */
static void copy_charge(struct world_rank *rank, const struct fabric_write *write)
{
    struct world_worker *ww = rank->now.worker;
    const uint64_t copied_ps = nic_copied_ps(rank->world, write->charge_bytes);
    if (copied_ps) lane_end(ww, ww->cursor_ps + copied_ps);
}

static int gpu_put(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    struct world_rank *rank = rank_of(f);
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && write->peer != f->rank);
    if (world_queue_full(rank, write->peer, write->queue, 1)) return -EAGAIN;
    const bool defer = write->flags & FABRIC_DEFER;
    const struct transport *t = &rank->world->transport;
    const uint64_t post_ps = t->post_ps + (write->flags & FABRIC_LIBRARY ? t->library_ps : 0);
    const uint64_t ready_ps = post_by(rank, post_ps, write->warps, write->peer, write->queue, defer);
    nic_post(rank, world_request_write(rank, write), ready_ps + nic_copied_ps(rank->world, 0), defer);
    copy_charge(rank, write);
    return 0;
}

/* A thread that orders by a fence posts the signal once the put is acknowledged, and serves nobody till then.  An idle
 * way is counted: what else its port has to send is not known here. */
static void fence_wait(struct world_rank *rank, const struct fabric_write *write)
{
    const struct world *w = rank->world;
    const struct transport *t = &w->transport;
    const struct cluster_nic *nic = &w->cluster->nic;
    if (t->order != TRANSPORT_FENCE || t->poster != CLUSTER_POST_PROXY) return;
    struct port *thread = &rank->proxy[write->queue % t->threads];
    thread->free_ps += nic->fetch_ps + units_transfer_ps(write->charge_bytes, nic->rate_bps) +
                       2 * w->cluster->network.latency_ps + nic->deliver_ps + (t->flushed ? nic->read_ps : 0) +
                       transport_notice_ps(t);
}

/* Two requests are written, or one where the peer polls the data; one doorbell rings. */
static int gpu_put_signal(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write,
                          const struct fabric_signal *signal)
{
    struct world_rank *rank = rank_of(f);
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && write->peer != f->rank && signal->word < f->word_count);
    if (world_queue_full(rank, write->peer, write->queue, 2)) return -EAGAIN;
    if (!(write->flags & FABRIC_POLLED)) (void)post(rank, write->warps, write->peer, write->queue, true);
    const uint64_t ready_ps = post(rank, write->warps, write->peer, write->queue, false);
    fence_wait(rank, write);
    nic_post(rank, world_request_write_signal(rank, write, signal), ready_ps + nic_copied_ps(rank->world, 0), false);
    copy_charge(rank, write);
    return 0;
}

/* Loads bring the bytes through the peer's egress and the own ingress, and wait for the first of them. */
static int gpu_get_nvlink(struct world_rank *rank, struct world_worker *ww, const struct fabric_read *read)
{
    struct world *w = rank->world;
    const uint64_t now = sim_now_ps(w->sim), size = read->charge_bytes;
    uint32_t lanes;
    const uint64_t start = lane_begin(ww, 0, &lanes), service_ps = rate_time(w->store.sm, size);
    uint64_t end = start + rate_time(w->store.warp, size) / lanes;
    end = later(end, start + sm_share_ps(rank, ww, service_ps));
    end = later(end, port_reserve(&rank->sm[ww->sm], now, service_ps, size));
    end = later(end, port_reserve(&rank->hbm, now, rate_time(w->hbm, size), size));
    end = later(end, nvlink_cross(&w->rank[read->peer], rank, now, size, 0));
    lane_end(ww, end + w->cluster->gpu.peek_ps);
    moved_note(ww, start, rank->now.last_end_ps);
    world_load_payload(rank, read);
    return 0;
}

static int gpu_get(struct fabric *f, struct fabric_worker *worker, const struct fabric_read *read)
{
    struct world_rank *rank = rank_of(f);
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && read->peer != f->rank);
    if (fabric_path(f, read->peer) != FABRIC_RDMA) return gpu_get_nvlink(rank, ww, read);
    if (world_queue_full(rank, read->peer, read->queue, 1)) return -EAGAIN;
    nic_post(rank, world_request_read(rank, read), post(rank, 0, read->peer, read->queue, false), false);
    return 0;
}

static int gpu_signal(struct fabric *f, struct fabric_worker *worker, const struct fabric_signal *signal)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && signal->word < f->word_count);
    const enum fabric_path path = fabric_path(f, signal->peer);
    if (path == FABRIC_RDMA) {
        const struct transport *t = &w->transport;
        if (world_queue_full(rank, signal->peer, signal->queue, 1)) return -EAGAIN;
        const uint64_t post_ps = t->post_ps + (signal->library ? t->library_ps : 0);
        nic_post(rank, world_request_signal(rank, signal),
                 post_by(rank, post_ps, signal->warps, signal->peer, signal->queue, false), false);
        return 0;
    }
    if (worker->stream) {
        const struct cluster_calls *calls = &w->cluster->calls;
        const uint64_t start = stream_begin(rank, calls->word_call_ps);
        const uint64_t handed_ps = path == FABRIC_SELF ? calls->handed_ps : calls->handed_peer_ps;
        const uint64_t way_ps = path == FABRIC_SELF ? 0 : w->cluster->nvlink.latency_ps;
        lane_end(ww, start + calls->word_ps);
        const uint64_t seen_ps = start + (handed_ps ? handed_ps : calls->word_ps + way_ps);
        world_word_schedule(&w->rank[signal->peer], signal->word, signal->value, signal->add, seen_ps);
        return 0;
    }
    uint32_t lanes;
    const uint64_t start = later(lane_begin(ww, 0, &lanes), signal->apart ? worker_first_ps(ww) : 0);
    /* A release waits for all stores of its SM that are on their way, its own and those of the other warps. */
    if (!signal->apart || ww->unfenced) lane_end(ww, later(start, worker_staged_ps(ww)));
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t fenced_ps = ww->unfenced ? later(start, rank->sm[ww->sm].free_ps) + gpu->fence_ps : start;
    if (ww->unfenced && signal->apart) worker_rest(ww)->first_ps = fenced_ps;
    else if (ww->unfenced) lane_end(ww, fenced_ps);
    if (ww->unfenced && ww->drains) (void)port_reserve(&rank->sm[ww->sm], sim_now_ps(w->sim), gpu->engine.drain_ps, 0);
    else if (signal->release)
        lane_end(ww, later(later(start, rank->stored_ps[ww->sm]) + gpu->release_system_ps,
                           rank->put_ps[ww->sm] ? rank->put_ps[ww->sm] + gpu->fence_ps : 0));
    if (signal->to_host) lane_end(ww, start + gpu->host_fence_ps);
    ww->unfenced = false;
    const uint64_t done_ps = later(signal->apart ? fenced_ps : 0, ww->cursor_ps);
    const uint64_t visible_ps =
        done_ps + (path == FABRIC_SELF ? w->cluster->gpu.flag_ps : w->cluster->nvlink.latency_ps);
    /* A kernel ends when its peers have what it stored there. */
    if (path == FABRIC_NVLINK) rank->end_ps = later(rank->end_ps, done_ps + gpu->peek_ps);
    world_word_schedule(&w->rank[signal->peer], signal->word, signal->value, signal->add, visible_ps);
    return 0;
}

/* Packets of all SMs take turns on their way out.  So what they send at the same time is there at the same time, too,
 * and who waits for its own stores waits for theirs. */
static uint64_t left_ps(const struct world_rank *rank, uint16_t sm)
{
    return rank->put_ps[sm] > rank->egress_since_ps ? rank->egress.free_ps : 0;
}

static void gpu_signal_add(struct fabric *f, struct fabric_worker *worker, uint32_t word, uint64_t addend,
                           enum fabric_scope scope)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && word < f->word_count);
    const uint64_t now = sim_now_ps(w->sim);
    struct stepping *step = &rank->now;
    const uint64_t staged_ps = worker_staged_ps(ww);
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    if (gpu->load_ps) {
        uint32_t lanes;
        const bool behind = !step->lane_warps;
        if (behind) step->last_end_ps = lane_begin(ww, 0, &lanes);
        /* A release waits for all stores of its SM that are on their way; in the step of a store its lane does. */
        const bool own = ww->unfenced && !behind;
        const uint64_t stored_ps = own ? 0 : later(rank->stored_ps[ww->sm], left_ps(rank, ww->sm));
        const uint64_t idle_ps = step->last_end_ps + gpu->release_ps;
        const uint64_t busy_ps = stored_ps ? stored_ps + later(gpu->release_stores_ps, gpu->release_ps) : 0;
        if (scope == FABRIC_DEVICE) lane_end(ww, later(idle_ps, busy_ps));
    }
    uint64_t seen_ps = later(step->last_end_ps, staged_ps);
    /* Shared memory has it at once, and a look there takes no poll. */
    if (gpu->load_ps && scope == FABRIC_BLOCK) seen_ps = later(now, seen_ps > w->poll_ps ? seen_ps - w->poll_ps : 0);
    else seen_ps += gpu->flag_ps;
    world_word_schedule(rank, word, addend, true, seen_ps);
}

/* What a bulk copy costs its SM: in to shared memory, out again. */
static uint64_t bulk_service_ps(const struct world *w, const struct fabric_work *work)
{
    return rate_time(w->bulk.sm, work->read_bytes) + bulk_passes_ps(w, work->pattern, work->read_bytes);
}

/* Casts, copies and reductions.  A reducing warp walks along the row: each stretch that it writes waits for
 * the loads of that stretch from all rows, so its time goes with the bytes written, and only little with the
 * bytes read. */
static uint64_t rows_work(struct world_rank *rank, const struct fabric_work *work, uint64_t start, uint32_t lanes)
{
    struct world_worker *ww = rank->now.worker;
    struct world *w = rank->world;
    const struct fabric_pattern *p = work->pattern ? work->pattern : &plain;
    const bool bulk = p->engine == FABRIC_BULK;
    const struct work_rates *k = work->kind == FABRIC_WORK_CAST     ? &w->cast
                                 : work->kind == FABRIC_WORK_REDUCE ? &w->reduce
                                 : bulk                             ? &w->bulk
                                                                    : &w->copy;
    const uint64_t now = sim_now_ps(w->sim), both = work->read_bytes + work->write_bytes;
    const uint32_t busy = warps_busy(work->rows, lanes);
    if (p->staged) return bulk_store(rank, rank->fabric.rank, work->write_bytes, start);
    if (p->footprint_bytes && (bulk || p->in_flight > 1)) return bulk_rows(rank, work, start, busy);
    const uint64_t service_ps = bulk ? bulk_service_ps(w, work) : rate_time(k->sm, work->read_bytes),
                   latency_ps = rows_latency_ps(w, k, p, work->rows, busy);
    uint64_t end = start + latency_ps;
    if (work->kind == FABRIC_WORK_REDUCE)
        end += (rate_time(k->warp, work->write_bytes) + rate_time(w->reduce_load, work->read_bytes)) / busy;
    else end += rate_time(k->warp, work->read_bytes) / busy;
    if (work->kind != FABRIC_WORK_REDUCE && !p->packed_source)
        end = later(end, start + sm_share_ps(rank, ww, service_ps));
    end = later(end, port_reserve(&rank->sm[ww->sm], now, service_ps, work->read_bytes));
    end = later(end, port_reserve(&rank->hbm, now, rate_time(w->hbm, both), both));
    if (work->kind != FABRIC_WORK_REDUCE) moved_note(ww, start, end);
    return end;
}

static uint64_t stretches(const struct fabric_pattern *p, uint64_t bytes)
{
    return ceiling(bytes, LANES * (p->width_bytes ? p->width_bytes : 16u));
}

/* What a sum takes a warp alone.  It walks along the row: each stretch waits for that of all rows, and then the bulk
 * engine stores it after a fence, or the warp itself. */
static uint64_t sum_ps(const struct world *w, const struct fabric_work *work)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const struct fabric_pattern *p = work->pattern;
    const uint64_t made = work->rows ? work->write_bytes / work->rows : 0;
    const uint64_t near_ps = gpu->load_again_ps ? gpu->load_again_ps : gpu->load_l2_ps, wait_ps = load_ps(w, p);
    const uint64_t turns = stretches(p, made);
    const uint64_t far_ps = wait_ps > near_ps ? turns * (wait_ps - near_ps) : 0; /* the rates are of rows near it */
    const uint64_t alone_ps = gpu->reduce.row_ps + rate_time(w->reduce.warp, made) +
                              rate_time(w->reduce_load, work->rows ? work->read_bytes / work->rows : 0);
    const uint64_t fences_ps = p->fenced ? 0 : turns * gpu->stage_ps;
    const uint64_t looks = p->places > 1 && work->rows ? stretches(p, work->read_bytes) * (p->places - 1u) : 0;
    const uint64_t looks_ps = looks ? looks * gpu->look_ps / work->rows : 0;
    return p->steps * wait_ps + far_ps + looks_ps + (alone_ps > fences_ps ? alone_ps - fences_ps : 0);
}

static uint64_t sums_service_ps(const struct world *w, const struct fabric_work *work)
{
    return rate_time(w->reduce.sm, work->read_bytes) +
           (w->reduce_made ? rate_time(w->reduce_made, work->write_bytes) : 0);
}

/* A warp alone whose rows the bulk engine brings, the next stretch while one is summed: it waits for its own turns. */
static uint64_t sum_ahead_ps(const struct world *w, const struct fabric_work *work)
{
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const uint64_t rows = work->rows ? work->rows : 1;
    return work->pattern->steps * load_ps(w, work->pattern) +
           (stretches(work->pattern, work->write_bytes) * gpu->stretch_ps +
            stretches(work->pattern, work->read_bytes) * gpu->stretch_row_ps) /
               rows;
}

/* Sums contend for their SM at each stretch: the more of the time they have it, the longer each waits for it.  (1 to 24
 * warps, 1 to 8 rows, in the L2 and not: within 8 %, tests/accuracy/measured.) */
static uint64_t contended_ps(uint64_t chain_ps, uint64_t share_ps)
{
    const double chain = (double)chain_ps, share = (double)share_ps;
    return share_ps ? (uint64_t)(chain + share * share / (share + chain)) : chain_ps;
}

/* From a row's request until its place in shared memory is free for another: it comes, and is summed. */
static uint64_t turn_ps(const struct world *w, uint64_t rows, uint64_t row_bytes)
{
    return rows ? w->cluster->gpu.engine.in_ps + rate_time(w->bulk.warp, row_bytes) + rate_time(w->sum_sm, row_bytes)
                : 0;
}

/* Sums of rows that the engine brings whole, some at once, while others' rows come out of the same memory. */
static uint64_t brought_ps(struct world_rank *rank, const struct fabric_work *work)
{
    const struct world *w = rank->world;
    const struct fabric_pattern *p = work->pattern;
    const uint64_t now = sim_now_ps(w->sim), both = work->read_bytes + work->write_bytes, rows = work->rows;
    const uint64_t turns_ps = turn_ps(w, rows, rows ? work->read_bytes / rows : 0) * (rows + p->in_flight - 1u);
    const uint64_t sm_ps =
        port_reserve(&rank->sm[rank->now.worker->sm], now, rate_time(w->sum_sm, work->read_bytes), work->read_bytes);
    const uint64_t hbm_ps = port_reserve(&rank->hbm, now, rate_time(p->fresh ? w->fresh : w->hbm, both), both);
    const uint64_t chain_ps = p->steps * w->cluster->gpu.load_ps + turns_ps / p->in_flight;
    return touch_ps(rank->now.worker, p) + contended_ps(chain_ps, later(sm_ps, hbm_ps) - now);
}

/* Copies by warps that wait together: in each round of rows the SM stands still for the waits before and behind the
 * bytes of all, which share it. */
static uint64_t in_step_ps(struct world_rank *rank, const struct fabric_work *work, uint32_t lanes)
{
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    const struct fabric_pattern *p = work->pattern;
    const uint64_t now = sim_now_ps(w->sim);
    const uint64_t bytes = work->write_bytes + (uint64_t)work->rows * p->scattered * (SECTOR_BYTES - WORD_BYTES);
    const uint64_t both = work->read_bytes + bytes;
    const uint32_t busy = warps_busy(work->rows, lanes);
    const uint64_t rounds = ceiling(work->rows, busy ? busy : 1);
    const uint64_t waits_ps = (p->steps + p->after) * load_ps(w, p);
    const uint64_t alone_ps = row_ps(w, p, work->rows ? work->read_bytes / work->rows : 0) - p->steps * load_ps(w, p);
    const uint64_t sm_ps = port_reserve(&rank->sm[ww->sm], now, rate_time(w->copy.sm, bytes), bytes) - now;
    const uint64_t hbm_ps = port_reserve(&rank->hbm, now, rate_time(p->fresh ? w->fresh : w->hbm, both), both) - now;
    return touch_ps(ww, p) + rounds * waits_ps + later(later(sm_ps, hbm_ps), rounds * alone_ps);
}

/* The same of kernels that say their patterns.  A row that is read once and written to several places
 * leaves its SM as often. */
static uint64_t priced_work(struct world_rank *rank, const struct fabric_work *work, uint64_t start, uint32_t lanes)
{
    struct world_worker *ww = rank->now.worker;
    struct world *w = rank->world;
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const struct fabric_pattern *p = work->pattern;
    const uint64_t now = sim_now_ps(w->sim), both = work->read_bytes + work->write_bytes, rows = work->rows;
    const uint64_t row_bytes = rows ? work->read_bytes / rows : 0;
    if (p->in_step && work->kind == FABRIC_WORK_COPY) return start + in_step_ps(rank, work, lanes);
    if (work->kind == FABRIC_WORK_REDUCE && p->engine == FABRIC_BULK) return start + brought_ps(rank, work);
    const uint64_t touched_ps = touch_ps(ww, p), lead_ps = touched_ps + p->steps * load_ps(w, p);
    uint64_t end = start + touched_ps;
    uint64_t service_ps = rate_time(w->copy.sm, work->read_bytes);
    switch (work->kind) {
    case FABRIC_WORK_CAST: /* all warps at a row: one wait for it, then their SM's rate */
        end += gpu->cast.row_ps + load_ps(w, p) + rate_time(w->cast.sm, work->read_bytes);
        service_ps = rate_time(w->cast.sm, work->read_bytes);
        break;
    case FABRIC_WORK_REDUCE:
        if (p->engine == FABRIC_LDST && p->ahead) { /* the engine takes requests in turn */
            const uint64_t chain_ps = ceiling(rows, warps_busy((uint32_t)rows, lanes)) * sum_ahead_ps(w, work);
            const uint64_t requests = stretches(p, work->read_bytes) + stretches(p, work->write_bytes);
            service_ps = requests * gpu->engine.request_ps;
            const uint64_t turn_ps = port_reserve(&rank->sm[ww->sm], now, service_ps, work->read_bytes) - now;
            end += shared_ps(chain_ps, turn_ps);
            service_ps = 0;
            break;
        }
        service_ps = sums_service_ps(w, work);
        end += contended_ps(ceiling(rows, warps_busy((uint32_t)rows, lanes)) * sum_ps(w, work),
                            sm_share_ps(rank, ww, service_ps));
        break;
    default: end += ceiling(rows, warps_busy((uint32_t)rows, lanes)) * row_ps(w, p, row_bytes);
    }
    const bool several = work->kind == FABRIC_WORK_COPY && work->write_bytes > work->read_bytes;
    if (several) service_ps += rate_time(w->bulk_out, work->write_bytes - work->read_bytes);
    end = later(end, lead_ps + port_reserve(&rank->sm[ww->sm], now, service_ps, work->read_bytes));
    moved_note(ww, start, end);
    end = later(end, lead_ps + port_reserve(&rank->hbm, now, rate_time(p->fresh ? w->fresh : w->hbm, both), both));
    if (work->kind == FABRIC_WORK_COPY && p->engine == FABRIC_LDST)
        rank->copied_ps[ww->sm] = later(rank->copied_ps[ww->sm], end);
    return end;
}

static void gpu_work(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index);
    uint32_t lanes;
    const uint64_t behind_ps = worker_behind_ps(ww);
    const uint64_t start = lane_begin(ww, work->warps, &lanes);
    switch (work->kind) {
    case FABRIC_WORK_AWAIT:
        lane_end(ww, stream_begin(rank, w->cluster->calls.word_call_ps) + w->cluster->calls.await_ps);
        break;
    case FABRIC_WORK_LAUNCH: lane_end(ww, stream_begin(rank, w->cluster->calls.launch_call_ps) + gpu->launch_ps); break;
    case FABRIC_WORK_HOST:
        lane_end(ww, start + w->cluster->calls.wait_ps);
        rank->calls.free_ps = later(rank->calls.free_ps, ww->cursor_ps);
        break;
    case FABRIC_WORK_PEEK: lane_end(ww, start + gpu->peek_ps); break;
    case FABRIC_WORK_STAGE: lane_end(ww, bulk_stage(rank, work, start)); break;
    case FABRIC_WORK_SCAN:
        if (priced(w, work->pattern) && !work->read_bytes) {
            const struct fabric_pattern *p = work->pattern;
            const uint64_t waits = ceiling(work->rows, p->in_flight ? p->in_flight : 1);
            lane_end(ww, start + touch_ps(ww, p) + waits * load_ps(w, p));
            break;
        }
        lane_end(ww, start + rate_time(w->scan, work->read_bytes) + work->rows * gpu->scan_row_ps);
        break;
    case FABRIC_WORK_COMPUTE:
        lane_end(ww,
                 later(start + work->busy_ps, port_reserve(&rank->sm[ww->sm], sim_now_ps(w->sim), work->busy_ps, 0)));
        break;
    case FABRIC_WORK_COPY:
        if (work->pattern && work->pattern->engine == FABRIC_COPY) {
            lane_end(ww, copy_own(rank, work));
            break;
        }
        /* fall through */
    case FABRIC_WORK_CAST:
    case FABRIC_WORK_REDUCE:
        lane_end(ww,
                 priced_rows(w, work) ? priced_work(rank, work, start, lanes) : rows_work(rank, work, start, lanes));
        break;
    }
    if (behind_ps) worker_rest(ww)->first_ps = ww->cursor_ps + behind_ps;
    if (f->payload && work->run) work->run(work->context, work->argument);
}

static const struct fabric_ops gpu_fabric_ops = {
    .name = "sim-gpu",
    .now_ps = world_now_ps,
    .store = gpu_store,
    .put = gpu_put,
    .signal = gpu_signal,
    .put_signal = gpu_put_signal,
    .get = gpu_get,
    .signal_add = gpu_signal_add,
    .flush = world_flush,
    .work = gpu_work,
    .watch = world_watch,
};

static void gpu_init(struct world *w)
{
    const struct cluster *c = w->cluster;
    const struct {
        struct work_rates *to;
        const struct cluster_work *from;
    } kinds[] = {
        { &w->store, &c->gpu.store },
        { &w->copy, &c->gpu.copy },
        { &w->bulk, c->gpu.bulk.sm_rate_bps ? &c->gpu.bulk : &c->gpu.copy },
        { &w->cast, &c->gpu.cast },
        { &w->reduce, &c->gpu.reduce },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        *kinds[i].to = (struct work_rates){ kinds[i].from->row_ps, rate_make(kinds[i].from->warp_rate_bps),
                                            rate_make(kinds[i].from->sm_rate_bps) };
    w->hbm = rate_make(c->gpu.hbm_rate_bps);
    w->hbm_rows = c->gpu.hbm_rows_rate_bps ? rate_make(c->gpu.hbm_rows_rate_bps) : w->hbm;
    w->l2 = rate_make(c->gpu.l2_bytes ? c->gpu.l2_rate_bps : 0);
    w->store_deep = c->gpu.store_deep_rate_bps ? rate_make(c->gpu.store_deep_rate_bps) : w->store.warp;
    w->row = rate_make(c->gpu.row_rate_bps);
    w->fresh = rate_make(c->gpu.fresh_rate_bps ? c->gpu.fresh_rate_bps : c->gpu.hbm_rate_bps);
    w->reduce_made = rate_make(c->gpu.reduce_made_sm_rate_bps);
    w->sum_sm = rate_make(c->gpu.sum_sm_rate_bps);
    w->egress_unaligned = rate_make(c->nvlink.unaligned_rate_bps);
    w->egress_split = rate_make(c->nvlink.split_rate_bps);
    w->bulk_skew = rate_make(c->gpu.bulk_skew_rate_bps);
    w->reduce_load = rate_make(c->gpu.reduce_load_rate_bps);
    w->scan = rate_make(c->gpu.scan_rate_bps);
    const struct cluster_bulk *engine = &c->gpu.engine;
    w->bulk_in = rate_make(engine->in_rate_bps);
    w->bulk_out = rate_make(engine->out_rate_bps ? engine->out_rate_bps : c->gpu.store.sm_rate_bps);
    w->bulk_put = rate_make(engine->put_rate_bps ? engine->put_rate_bps : c->gpu.store.sm_rate_bps);
    w->bulk_split = engine->split_rate_bps ? rate_make(engine->split_rate_bps) : w->store.sm;
    w->bulk_link = rate_make(c->nvlink.bulk_rate_bps ? c->nvlink.bulk_rate_bps : c->nvlink.egress_rate_bps);
    w->bulk_crossing = rate_make(c->nvlink.bulk_crossing_rate_bps);
    w->bulk_sector = c->nvlink.sector_rate_bps ? rate_make(c->nvlink.sector_rate_bps) : w->bulk_link;
    w->sm_count = c->gpu.sms;
    w->launch_ps = c->gpu.launch_ps;
    w->poll_ps = c->gpu.poll_ps;
    w->egress = rate_make(c->nvlink.egress_rate_bps);
    w->ingress = rate_make(c->nvlink.ingress_rate_bps);
}

static uint64_t gpu_step_begin(struct world_rank *rank, uint64_t now_ps)
{
    return now_ps + rank_slowed_ps(rank, rank->world->cluster->gpu.step_ps);
}

static void gpu_step_end(struct world_rank *rank) { (void)rank; }

static void gpu_step_due(struct world_worker *ww)
{
    if (!bulk_turns_park(ww)) world_worker_step(ww);
}

const struct world_machine gpu_machine = {
    .ops = &gpu_fabric_ops,
    .init = gpu_init,
    .step_due = gpu_step_due,
    .step_begin = gpu_step_begin,
    .step_end = gpu_step_end,
};
