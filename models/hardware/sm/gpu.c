/* gpu.c - what the seam's operations cost a warp group on a GPU.
 *
 * An operation takes as long as its warps need alone.  It ends no sooner than the ports that it crosses (SM, NVLink
 * egress and ingress, HBM) have moved its bytes, each at its own rate, first come, first served.  Ports are reserved
 * from the time of the step on, even for an operation that begins later in the step.  Otherwise the requests of other
 * workers would wait for ports that are idle until that operation begins. */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/gpu.h"
#include "models/hardware/sm/peers.h"
#include "models/hardware/world/stepping.h"

#include <assert.h>
#include <errno.h>

/* Takes bytes through the sender's egress and the receiver's ingress.  Returns when the last byte is in. */
static uint64_t nvlink_cross(struct world_rank *from, struct world_rank *to, uint64_t now_ps, uint64_t size_bytes,
                             rate_q20 egress)
{
    struct world *w = from->world;
    const uint64_t wire_ps = link_slowed_ps(from->egress_slow, rate_time(egress ? egress : w->egress, size_bytes));
    from->egress_bytes_ps += wire_ps;
    if (from->egress.free_ps <= now_ps) from->egress_since_ps = now_ps;
    const uint64_t out_ps = port_reserve(&from->egress, now_ps, wire_ps, size_bytes);
    return later(out_ps, bulk_link_arrive(from, to, now_ps, out_ps, 0, size_bytes));
}

static const struct price *store_price(struct world_rank *rank, const struct fabric_write *write, const struct loop *p,
                                       uint32_t lanes)
{
    const struct world *w = rank->world;
    const bool bulk = p->engine == LOOP_BULK, away = write->peer != rank->fabric.rank;
    const uint64_t size = loop_wire_bytes(p, write->charge_bytes);
    const uint32_t rows = write->rows ? write->rows : 1;
    const struct gpu_sharing sharing = gpu_program_sharing(rank, p);
    const enum price_kind kind = away ? PRICE_STORE_PEER : PRICE_STORE_OWN;
    bool known;
    struct kept_price *kept = gpu_price_place(
        rank, &(struct price_key){ p->digest, size, 0, rows, lanes, sharing.groups_256, kind, sharing.rounds }, &known);
    if (known) return &kept->price;
    const struct loop_row row = { size / rows, size / rows, rows, lanes };
    const struct gpu_rows r = gpu_program(w, p, write->given, row, sharing, away);
    kept->price = (struct price){
        .ps = r.ps,
        .lead_ps = r.lead_ps,
        .served_ps = r.served_ps,
        .memory_ps = gpu_memory_ps(w, p, size, 0, w->hbm),
        .sm_bytes = size,
        .memory_bytes = size,
        .egress = !bulk             ? p->lined ? 0 : w->egress_unaligned
                  : p->shared_bytes ? w->egress_split
                                    : 0,
        .bulk = bulk,
        .posted = p->posted,
        .fixed = gpu_program_alone(p),
    };
    return &kept->price;
}

/* Stores rows of this price at `peer`, which may be the worker's own rank, from start_ps on.  First the worker waits
 * for touch_ps. */
static void price_store(struct world_rank *rank, struct world_worker *ww, uint16_t peer, const struct price *price,
                        uint64_t start_ps, uint64_t touch_ps)
{
    struct world *w = rank->world;
    const bool away = peer != rank->fabric.rank;
    const uint64_t now = sim_now_ps(w->sim), size = price->sm_bytes, lead_ps = price->lead_ps;
    uint64_t end = start_ps + touch_ps + price->ps;
    end = later(end, lead_ps + own_reserve(rank, &rank->sm[ww->sm], now, price->served_ps, size));
    end = later(end, lead_ps + own_reserve(rank, &rank->hbm, now, price->memory_ps, size));
    gpu_lane_end(ww, end);
    if (away) {
        const uint64_t there_ps = nvlink_cross(rank, &w->rank[peer], now, size, price->egress);
        held_note(rank, &w->rank[peer], start_ps, end, lead_ps + there_ps);
        if (!price->posted || there_ps > rank->egress.free_ps) gpu_lane_reach(ww, lead_ps + there_ps);
    }
    end = rank->now.last_end_ps;
    gpu_moved_note(ww, price->bulk, start_ps, end);
    rank->stored_ps[ww->sm] = later(rank->stored_ps[ww->sm], end);
    if (away) rank->put_ps[ww->sm] = later(rank->put_ps[ww->sm], end);
    ww->unfenced = true;
    if (!price->bulk && away && !ww->puts) {
        ww->puts = true;
        rank->putting++;
    }
}

/* Charges the stepped worker for a store of this price.  First the worker waits for touch_ps. */
static void store_charge(struct world_rank *rank, const struct fabric_write *write, const struct price *price,
                         uint64_t touch_ps)
{
    struct world_worker *ww = rank->now.worker;
    uint32_t lanes;
    const uint64_t start = gpu_lane_begin(ww, write->warps, &lanes), behind_ps = worker_behind_ps(ww);
    price_store(rank, ww, write->peer, price, start, touch_ps);
    /* If the first warp has a row, it begins that row later than the other warps begin theirs. */
    const uint32_t all = ww->worker->warps, rows = write->rows ? write->rows : 1;
    if (behind_ps && (all - write->first % all) % all < rows) worker_rest(ww)->first_ps = ww->cursor_ps + behind_ps;
}

static int priced_store(struct world_rank *rank, const struct fabric_write *write, const struct loop *p)
{
    struct world_worker *ww = rank->now.worker;
    const uint32_t all = ww->worker->warps, lanes = write->warps && write->warps < all ? write->warps : all;
    const struct price *price = store_price(rank, write, p, lanes);
    store_charge(rank, write, price, gpu_touch_ps(ww, p));
    gpu_turn_note(rank, price);
    world_store_payload(rank, write);
    return 0;
}

/* Returns when a stream's next operation begins.  If its line says `by-host`, it begins once the host has asked for
 * it.  One thread of the host asks for the operations of all streams. */
static uint64_t stream_begin(struct world_rank *rank, const struct loop *p, uint64_t call_ps)
{
    uint32_t lanes;
    const uint64_t start = gpu_lane_begin(rank->now.worker, 0, &lanes);
    if (!p->by_host) return start;
    return later(start, port_reserve(&rank->calls, rank->start_ps, call_ps, 0));
}

/* Charges what is no work on rows and begins at start_ps: arithmetic, or a call of the host that neither copies bytes
 * nor writes a word. */
static void call_work(struct world_rank *rank, const struct loop *p, uint64_t start_ps)
{
    const struct cluster *c = rank->world->cluster;
    struct world_worker *ww = rank->now.worker;
    if (p->engine == LOOP_ARITHMETIC) {
        const uint64_t now = sim_now_ps(rank->world->sim);
        gpu_lane_end(ww, later(start_ps + p->lasts_ps, own_reserve(rank, &rank->sm[ww->sm], now, p->lasts_ps, 0)));
        return;
    }
    if (p->engine == LOOP_WAIT) {
        gpu_lane_reach(ww, start_ps + c->calls.wait_ps);
        rank->calls.free_ps = later(rank->calls.free_ps, ww->cursor_ps);
        return;
    }
    const bool launch = p->engine == LOOP_LAUNCH;
    const uint64_t start = stream_begin(rank, p, launch ? c->calls.launch_call_ps : c->calls.word_call_ps);
    gpu_lane_end_from(ww, start, start + (launch ? c->gpu.launch_ps : c->calls.await_ps));
}

static void copy_own(struct world_rank *rank, const struct fabric_work *work, const struct loop *p)
{
    const struct world *w = rank->world;
    const struct cluster_calls *calls = &w->cluster->calls;
    const uint64_t start = stream_begin(rank, p, calls->copy_call_ps), both = work->read_bytes + work->write_bytes;
    const uint64_t end = later(start, own_reserve(rank, &rank->hbm, start, rate_time(w->hbm, both), both));
    gpu_lane_end_from(rank->now.worker, start, end + calls->copy_ps);
}

/* Stores by the copy engine.  The store begins when the worker has come to this operation, and takes no SM. */
static int copy_store(struct world_rank *rank, const struct fabric_write *write, const struct loop *p)
{
    struct world *w = rank->world;
    const struct cluster_calls *calls = &w->cluster->calls;
    const bool own = write->peer == rank->fabric.rank;
    const uint64_t call_ps = own || !calls->copy_peer_call_ps ? calls->copy_call_ps : calls->copy_peer_call_ps;
    const uint64_t start = stream_begin(rank, p, call_ps), size = write->charge_bytes;
    const uint64_t end = own_reserve(rank, &rank->hbm, start, rate_time(w->hbm, own ? 2 * size : size), size);
    gpu_lane_end_from(rank->now.worker, start, later(start, end) + calls->copy_ps);
    if (!own) {
        const uint64_t link_ps = rate_time(rate_make(calls->copy_rate_bps), size);
        const uint64_t out_ps = port_reserve(&rank->egress, start, link_ps, size);
        rank->egress_bytes_ps += link_ps;
        const uint64_t in_ps = port_reserve(&w->rank[write->peer].ingress, start, link_ps, size);
        held_note(rank, &w->rank[write->peer], start, start, later(out_ps, in_ps));
        gpu_lane_reach(rank->now.worker, later(out_ps, in_ps) + calls->copy_ps);
    }
    world_store_payload(rank, write);
    return 0;
}

static __attribute__((noinline)) int rows_store(struct fabric *f, struct fabric_worker *worker,
                                                const struct fabric_write *write)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && fabric_path(f, write->peer) != FABRIC_RDMA);
    const struct price *price = gpu_turn_price(rank);
    if (price) {
        store_charge(rank, write, price, 0);
        world_store_payload(rank, write);
        return 0;
    }
    const struct loop *p = world_loop(rank, write->site, write->given);
    if (p->engine == LOOP_COPY) return copy_store(rank, write, p);
    if (!p->staged) return priced_store(rank, write, p);
    const uint64_t now = sim_now_ps(w->sim), size = write->charge_bytes;
    uint32_t lanes;
    const uint64_t start = gpu_lane_begin(ww, write->warps, &lanes);
    if (p->alone && rank->shares.cpcs) {
        bulk_turn_take(ww, write->peer, bulk_off_line(ww, p), size);
        gpu_lane_end(ww, later(start, now + 1)); /* the worker is parked until the store has left the SM */
    } else {
        uint64_t linked_ps;
        gpu_lane_end(ww, bulk_store(rank, write->peer, bulk_off_line(ww, p), size, start, &linked_ps));
        gpu_lane_reach(ww, linked_ps);
    }
    world_store_payload(rank, write);
    return 0;
}

static int gpu_store(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    if (world_store_begins(rank_of(f), write)) return world_store_in_turn(f, worker, write);
    return rows_store(f, worker, write);
}

/* How long the releases of a posting warp wait for stores that the SM's other warps are making.  (DeepEP's code on
 * an H100, with seven more warps that copy rows: a put takes 0.8 to 1.0 us more, an atomic 0.65 us.) */
static uint64_t post_releases_ps(const struct world_rank *rank, const struct world_worker *ww, uint64_t start_ps)
{
    const struct cluster_gpu *gpu = &rank->world->cluster->gpu;
    if (rank->copied_ps[ww->sm] <= start_ps || gpu->release_stores_ps < gpu->release_ps) return 0;
    return TRANSPORT_RELEASES * (gpu->release_stores_ps - gpu->release_ps);
}

/* Notes that the worker has posted from start_ps to end_ps.  Warps of a worker that post at the same time count once.
 */
static void posted_note(struct world_rank *rank, const struct world_worker *ww, uint64_t start_ps, uint64_t end_ps)
{
    const uint64_t from_ps = later(start_ps, rank->now.posted_ps);
    if (!rank->posted_ps)
        rank->posted_ps = arena_take(&rank->world->arena, rank->worker_max * sizeof rank->posted_ps[0]);
    if (end_ps <= from_ps) return;
    rank->posted_ps[ww->worker->index] += end_ps - from_ps;
    rank->now.posted_ps = end_ps;
}

/* Returns when the NIC may see a request that the worker posts now.  Posting keeps the worker busy.  A warp that rings
 * has its QP to itself meanwhile.  A warp that hands a request to a thread waits while the thread's queue is full. */
static uint64_t post_by(struct world_rank *rank, struct qp *qp, uint64_t post_ps, uint32_t warps, uint16_t queue,
                        bool defer)
{
    const struct transport *t = &rank->world->transport;
    struct world_worker *ww = rank->now.worker;
    uint32_t lanes;
    const uint64_t start = gpu_lane_begin(ww, warps, &lanes);
    uint64_t end = start + rank_slowed_ps(rank, post_ps);
    if (t->poster == CLUSTER_POST_GPU) {
        if (!defer) {
            end += rank_slowed_ps(rank, post_releases_ps(rank, ww, start));
            end = later(end, qp_lock_ps(qp)) + rank_slowed_ps(rank, t->doorbell_ps);
            qp_ring_after(qp, end);
            qp_lock_set(qp, end);
        }
        gpu_lane_end_from(ww, end, end);
        posted_note(rank, ww, start, end);
        return end;
    }
    struct port *thread = &rank->proxy[queue % t->threads];
    const uint64_t full_ps = t->fifo_depth * t->doorbell_ps;
    if (t->fifo_depth && thread->free_ps > end + full_ps) end = thread->free_ps - full_ps;
    gpu_lane_end_from(ww, end, end);
    const uint64_t looks_ps =
        t->counter_ps * (TRANSPORT_COUNTERS - 1) / 2; /* an idle thread goes on reading error counters, so a
                                                       * request waits for half of these reads on average */
    return world_thread_reserve(rank, queue, end + t->proxy_ps + looks_ps, t->doorbell_ps);
}

/* Charges a thread for the answer to its signal, if signals are messages to the target's thread.  The model does not
 * follow the answer's arrival: the thread takes the answer in right after posting. */
static void answer_charge(struct world_rank *rank, uint16_t queue)
{
    const uint64_t answer_ps = rank->world->transport.answer_ps;
    if (answer_ps) (void)world_thread_reserve(rank, queue, 0, answer_ps);
}

static uint64_t post(struct world_rank *rank, struct qp *qp, uint32_t warps, uint16_t queue, bool defer)
{
    return post_by(rank, qp, rank->world->transport.post_ps, warps, queue, defer);
}

/* Whether the worker is a thread of the host and posts itself. */
static bool host_posts(const struct world_rank *rank, const struct loop *p)
{
    return p && p->by_host && rank->world->transport.poster == CLUSTER_POST_PROXY;
}

/* Returns when the NIC may see a request of a worker that is itself a thread of the host. */
static uint64_t post_by_host(struct world_rank *rank, const struct fabric_write *write)
{
    const struct transport *t = &rank->world->transport;
    uint32_t lanes;
    const uint64_t start = gpu_lane_begin(rank->now.worker, write->warps, &lanes);
    return world_thread_reserve(rank, write->queue, start, t->doorbell_ps);
}

/* nic_copied_ps(), without a call where no CPU copies. */
static uint64_t copied_ps(const struct world_rank *rank, uint64_t size_bytes)
{
    return rank->world->transport.copy_rate_bps ? nic_copied_ps(rank, size_bytes) : 0;
}

/* Keeps the worker busy while a CPU copies what it sends.  A slowed GPU does not slow the CPU. */
static void copy_charge(struct world_rank *rank, const struct fabric_write *write)
{
    struct world_worker *ww = rank->now.worker;
    const uint64_t busy_ps = copied_ps(rank, write->charge_bytes);
    if (busy_ps) gpu_lane_reach(ww, ww->cursor_ps + busy_ps);
}

/* The poster's time for a put, or for a signal alone. */
static uint64_t put_post_ps(const struct world_rank *rank, const struct loop *p)
{
    const struct transport *t = &rank->world->transport;
    return t->post_ps + (p && p->library ? t->library_ps : 0);
}

/* Keeps a thread busy that orders requests by a fence.  The thread posts the signal once the put is acknowledged, and
 * serves no other request until then.  The wait is that of an idle port, because the port's other work is not known
 * here. */
static void fence_wait(struct world_rank *rank, const struct fabric_write *write)
{
    const struct world *w = rank->world;
    const struct transport *t = &w->transport;
    const struct cluster_nic *nic = &w->cluster->nic;
    if (t->order != TRANSPORT_FENCE || t->poster != CLUSTER_POST_PROXY) return;
    const uint64_t rate_bps = graph_link(w->network->graph, w->network->port[rank->nic[0]].out)->rate_bps;
    struct port *thread = &rank->proxy[write->queue % t->threads];
    thread->free_ps += nic->fetch_ps + units_transfer_ps(write->charge_bytes, rate_bps) +
                       2 * w->cluster->network.latency_ps + nic->deliver_ps + (t->flushed ? nic->read_ps : 0) +
                       transport_notice_ps(t);
}

/* Posts a put and a signal.  They are one request where the peer polls the data, where CPUs take messages in, or where
 * a thread tells the peer of the signal.  Elsewhere they are two requests.  One doorbell rings for both. */
static __attribute__((noinline)) int put_signal(struct world_rank *rank, const struct fabric_write *write,
                                                const struct fabric_signal *signal)
{
    assert(signal->word < rank->fabric.word_count);
    struct qp *const qp = nic_qp(rank, write->peer, write->queue);
    if (world_queue_full(rank, nic_room(rank, qp, write->queue), 2)) return -EAGAIN;
    const struct loop *p = world_loop(rank, write->site, write->given);
    const struct transport *t = &rank->world->transport;
    const bool one = (p && p->polled) || t->receive_ps || t->told;
    uint64_t ready_ps;
    if (host_posts(rank, p)) {
        if (!one) (void)post_by_host(rank, write);
        ready_ps = post_by_host(rank, write);
    } else {
        if (!one) (void)post(rank, qp, write->warps, write->queue, true);
        ready_ps = post_by(rank, qp, put_post_ps(rank, p), write->warps, write->queue, false);
    }
    if (!one) answer_charge(rank, write->queue);
    fence_wait(rank, write);
    nic_post(rank, qp, world_request_write_signal(rank, write, p, signal), ready_ps + copied_ps(rank, 0), false);
    copy_charge(rank, write);
    return 0;
}

static int gpu_put(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write,
                   const struct fabric_signal *signal)
{
    struct world_rank *rank = rank_of(f);
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && write->peer != f->rank);
    if (signal) return put_signal(rank, write, signal);
    struct qp *const qp = nic_qp(rank, write->peer, write->queue);
    struct qp *const room = nic_room(rank, qp, write->queue);
    if (world_queue_full(rank, room, 1)) return -EAGAIN;
    const struct loop *p = world_loop(rank, write->site, write->given);
    const uint64_t ready_ps = host_posts(rank, p)
                                  ? post_by_host(rank, write)
                                  : post_by(rank, qp, put_post_ps(rank, p), write->warps, write->queue, write->defer);
    const bool defer = write->defer && room == qp; /* the thread of a channel posts at once what it is handed */
    nic_post(rank, qp, world_request_write(rank, write, p), ready_ps + copied_ps(rank, 0), defer);
    copy_charge(rank, write);
    return 0;
}

/* The price of a get by `lanes` warps, each of which reads a part. */
static struct price get_price(struct world_rank *rank, const struct fabric_read *read, const struct loop *p,
                              uint32_t lanes)
{
    const struct world *w = rank->world;
    const uint64_t size = read->charge_bytes;
    const struct loop_row row = { size / lanes, 0, lanes, lanes };
    const struct gpu_sharing sharing = gpu_program_sharing(rank, p);
    bool known;
    struct kept_price *kept = gpu_price_place(
        rank, &(struct price_key){ p->digest, size, 0, row.rows, lanes, sharing.groups_256, PRICE_GET, sharing.rounds },
        &known);
    if (known) return kept->price;
    const struct gpu_rows r = gpu_program(w, p, NULL, row, sharing, false);
    kept->price = (struct price){ .ps = r.ps, .served_ps = r.served_ps, .memory_ps = rate_time(w->hbm, size) };
    return kept->price;
}

/* Loads from a peer by NVLink: the bytes come through the peer's egress and the loader's ingress.  The worker waits for
 * the first bytes. */
static int gpu_get_nvlink(struct world_rank *rank, struct world_worker *ww, const struct fabric_read *read)
{
    struct world *w = rank->world;
    const uint64_t now = sim_now_ps(w->sim), size = read->charge_bytes, peek_ps = w->cluster->nvlink.peek_ps;
    uint32_t lanes;
    const uint64_t start = gpu_lane_begin(ww, read->warps, &lanes);
    const struct price price = get_price(rank, read, world_loop(rank, read->site, NULL), lanes);
    gpu_lane_end(ww, start + price.ps);
    gpu_lane_reach(ww, own_reserve(rank, &rank->sm[ww->sm], now, price.served_ps, size) + peek_ps);
    gpu_lane_reach(ww, own_reserve(rank, &rank->hbm, now, price.memory_ps, size) + peek_ps);
    const uint64_t crossed_ps = nvlink_cross(&w->rank[read->peer], rank, now, size, w->egress_load) + peek_ps;
    held_note(&w->rank[read->peer], rank, start, rank->now.last_end_ps, crossed_ps);
    gpu_lane_reach(ww, crossed_ps);
    gpu_moved_note(ww, false, start, rank->now.last_end_ps);
    world_load_payload(rank, read);
    return 0;
}

static int gpu_get(struct fabric *f, struct fabric_worker *worker, const struct fabric_read *read)
{
    struct world_rank *rank = rank_of(f);
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && read->peer != f->rank);
    if (fabric_path(f, read->peer) != FABRIC_RDMA) return gpu_get_nvlink(rank, ww, read);
    struct qp *const qp = nic_qp(rank, read->peer, read->queue);
    if (world_queue_full(rank, nic_room(rank, qp, read->queue), 1)) return -EAGAIN;
    nic_post(rank, qp, world_request_read(rank, read), post(rank, qp, 0, read->queue, false), false);
    return 0;
}

/* How long it takes until a worker's stores are performed.  The way to a peer and back takes longer while other warp
 * groups of the GPU, on whichever SM, store to peers.  (2 to 8 groups on 1 to 48 SMs of two H200s, within 15 %:
 * tests/accuracy/measured.)  The worker also waits for the whole system's answer, which `fence` includes.  On one
 * machine that answer takes 0.58 us, and on another 1.54 us.  On an idle GPU of the second, a fence takes 0.6 us more.
 * While 132 SMs store, a fence takes equally long on both (h100-x2 and h200-x2: after_fence_sys at=peer). */
static uint64_t fence_ps(const struct world_rank *rank, const struct world_worker *ww)
{
    const struct cluster *c = rank->world->cluster;
    const uint64_t others = rank->putting - ww->puts, half = c->nvlink.fence_crowd_half;
    const uint64_t alone_ps = later(c->nvlink.fence_ps, c->node.release_system_ps);
    if (!others || !c->nvlink.fence_crowd_ps) return alone_ps;
    return later(alone_ps, 2 * c->nvlink.latency_ps + c->nvlink.fence_crowd_ps * others / (others + (half ? half : 1)));
}

/* Returns when a fence for the whole system, which begins at from_ps, ends.  An SM serves such fences in rounds.  A
 * fence that comes in the middle of a round waits for the next round.  Of fences that come at one time, one begins the
 * round, and the others count as coming in the middle of it. */
static uint64_t fence_round_ps(struct world_rank *rank, uint16_t sm, uint64_t from_ps, uint64_t fence_ps)
{
    uint64_t *last_ps = &rank->fenced_ps[sm]; /* the end of the last round so far */
    if (from_ps >= *last_ps) *last_ps = from_ps + fence_ps;
    else if (from_ps + fence_ps >= *last_ps) *last_ps += fence_ps;
    return *last_ps;
}

/* Returns when the worker's stores are performed.  A group that stores to peers takes no part in rounds: `fence-crowd`
 * was clocked with several groups an SM, so it includes them. */
static uint64_t fence_end_ps(struct world_rank *rank, const struct world_worker *ww, uint64_t from_ps)
{
    const uint64_t takes_ps = rank_slowed_ps(rank, fence_ps(rank, ww));
    if (ww->puts) return from_ps + takes_ps;
    return fence_round_ps(rank, ww->sm, from_ps, takes_ps);
}

/* Ends a release for the stores of the SM's other warps.  The worker itself may have stored nothing. */
static void release_end(struct world_rank *rank, struct world_worker *ww, uint64_t start_ps)
{
    const struct cluster *c = rank->world->cluster;
    const uint64_t stored_ps = later(start_ps, rank->stored_ps[ww->sm]), put_ps = rank->put_ps[ww->sm];
    gpu_lane_end_from(ww, stored_ps, stored_ps + c->node.release_system_ps);
    if (put_ps) gpu_lane_reach(ww, put_ps + rank_slowed_ps(rank, c->nvlink.fence_ps));
}

/* Lets a stream write a word. */
static __attribute__((noinline)) int stream_word(struct world_rank *rank, const struct loop *p,
                                                 const struct fabric_signal *signal)
{
    const struct world *w = rank->world;
    const struct cluster_calls *calls = &w->cluster->calls;
    const bool own = signal->peer == rank->fabric.rank;
    const uint64_t start = stream_begin(rank, p, calls->word_call_ps);
    const uint64_t handed_ps = own ? calls->handed_ps : calls->handed_peer_ps;
    const uint64_t way_ps = own ? 0 : w->cluster->nvlink.latency_ps;
    gpu_lane_end_from(rank->now.worker, start, start + calls->word_ps);
    const uint64_t seen_ps = start + (handed_ps ? handed_ps : calls->word_ps + way_ps);
    world_word_schedule(&w->rank[signal->peer], signal->word, signal->value, signal->add, seen_ps);
    return 0;
}

static int gpu_signal(struct fabric *f, struct fabric_worker *worker, const struct fabric_signal *signal)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && signal->word < f->word_count);
    const enum fabric_path path = fabric_path(f, signal->peer);
    const struct loop *p = &w->loop[signal->site];
    if (path == FABRIC_RDMA) {
        struct qp *const qp = nic_qp(rank, signal->peer, signal->queue);
        if (world_queue_full(rank, nic_room(rank, qp, signal->queue), 1)) return -EAGAIN;
        nic_post(rank, qp, world_request_signal(rank, signal),
                 post_by(rank, qp, put_post_ps(rank, p), signal->warps, signal->queue, false), false);
        answer_charge(rank, signal->queue);
        return 0;
    }
    if (p->by_host) return stream_word(rank, p, signal);
    uint32_t lanes;
    const uint64_t start = later(gpu_lane_begin(ww, 0, &lanes), p->apart ? worker_first_ps(ww) : 0);
    /* A release waits for all stores of its SM that have not arrived, whichever warp made them. */
    const uint64_t staged_ps = later(start, worker_staged_ps(ww)), sm_ps = later(start, rank->sm[ww->sm].free_ps);
    if (!p->apart || ww->unfenced) gpu_lane_end_from(ww, staged_ps, staged_ps);
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    if (p->polled && ww->unfenced) { /* the peer polls the last store itself, so no fence is needed */
        gpu_lane_end_from(ww, sm_ps, sm_ps);
        ww->unfenced = false;
    }
    const uint64_t fenced_ps = ww->unfenced ? fence_end_ps(rank, ww, sm_ps) : start;
    if (ww->unfenced && p->apart) worker_rest(ww)->first_ps = fenced_ps;
    else if (ww->unfenced) gpu_lane_end_from(ww, fenced_ps, fenced_ps);
    if (p->releases) release_end(rank, ww, start);
    if (p->host_stored) gpu_lane_end_from(ww, start, start + w->cluster->node.host_fence_ps);
    ww->unfenced = false;
    const uint64_t done_ps = later(p->apart ? fenced_ps : 0, ww->cursor_ps);
    const uint64_t own_ps = p->to_host ? w->transport.proxy_ps : gpu->poll_ps;
    uint64_t visible_ps =
        done_ps + bulk_ahead_ps(rank, ww->sm) + (path == FABRIC_SELF ? own_ps : w->cluster->nvlink.latency_ps);
    if (w->peer_way && path != FABRIC_SELF) visible_ps += peers_latency_ps(rank, signal->peer);
    /* A kernel does not end before its peers have answered its signals. */
    if (path == FABRIC_NVLINK) {
        rank->told_ps[ww->sm] = later(rank->told_ps[ww->sm], done_ps + w->cluster->nvlink.peek_ps);
        rank->end_ps = later(rank->end_ps, done_ps + w->cluster->nvlink.peek_ps);
    }
    world_word_schedule(&w->rank[signal->peer], signal->word, signal->value, signal->add, visible_ps);
    return 0;
}

/* When the SM's stores to peers will have left the GPU; 0: they have left already.  Packets of all SMs take turns on
 * their way out.  What several SMs send at one time therefore also arrives at one time.  So a warp that waits for its
 * own stores waits for all of them. */
static uint64_t left_ps(const struct world_rank *rank, uint16_t sm)
{
    return rank->put_ps[sm] > rank->egress_since_ps ? rank->egress.free_ps : 0;
}

/* Makes the worker's addition an atomic of the whole GPU.  It waits until the stores that its SM has made so far have
 * arrived and peers have answered the SM's signals.  In the step of a store (`behind` is false), the store's lane
 * already waits for the stores. */
static void add_release(struct world_rank *rank, struct world_worker *ww, bool behind)
{
    const struct cluster_gpu *gpu = &rank->world->cluster->gpu;
    const uint64_t from_ps = rank->now.last_end_ps, own_ps = rank->stored_ps[ww->sm];
    const uint64_t stored_ps =
        ww->unfenced && !behind ? 0 : later(own_ps < from_ps ? own_ps : from_ps, left_ps(rank, ww->sm));
    gpu_lane_end_from(ww, from_ps, from_ps + gpu->release_ps);
    gpu_lane_reach(ww, rank->told_ps[ww->sm]);
    if (stored_ps) gpu_lane_reach(ww, stored_ps + rank_slowed_ps(rank, later(gpu->release_stores_ps, gpu->release_ps)));
}

/* From the last block's coming to its grid's barrier until those that wait have seen that it is open. */
static uint64_t grid_barrier_ps(const struct cluster_gpu *gpu)
{
    return gpu->grid_barrier_ps > gpu->poll_ps ? gpu->grid_barrier_ps : gpu->release_ps + gpu->poll_ps;
}

static void gpu_signal_add(struct fabric *f, struct fabric_worker *worker, uint32_t word, uint64_t addend,
                           enum site site)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index && word < f->word_count);
    const uint64_t now = sim_now_ps(w->sim), staged_ps = worker_staged_ps(ww);
    struct stepping *step = &rank->now;
    const struct cluster_gpu *gpu = &w->cluster->gpu;
    const enum loop_adds adds = w->loop[site].adds;
    uint32_t lanes;
    const bool behind = !step->lane_warps;
    if (behind) step->last_end_ps = gpu_lane_begin(ww, 0, &lanes);
    if (adds == LOOP_ADDS_GPU) add_release(rank, ww, behind);
    uint64_t seen_ps = later(step->last_end_ps, staged_ps);
    /* Shared memory has the value at once, and reading it there takes no poll. */
    if (adds == LOOP_ADDS_SHARED) seen_ps = later(now, seen_ps > w->poll_ps ? seen_ps - w->poll_ps : 0);
    else if (adds == LOOP_ADDS_GRID) seen_ps = later(now, rank->end_ps) + grid_barrier_ps(gpu) - gpu->poll_ps;
    else seen_ps += bulk_ahead_ps(rank, ww->sm) + gpu->poll_ps;
    world_word_schedule(rank, word, addend, true, seen_ps);
}

/* Gives the first warp alone work to do, after its earlier work. */
static void first_work(struct world_rank *rank, struct world_worker *ww, const struct fabric_work *work,
                       const struct loop *p)
{
    const uint64_t start = later(ww->cursor_ps, worker_first_ps(ww));
    const uint64_t end = (work->kind == FABRIC_WORK_SCAN ? gpu_scan_end : gpu_work_end)(rank, work, p, start, 1);
    worker_rest(ww)->first_ps = start + rank_slowed_ps(rank, end - start);
}

static __attribute__((noinline)) void rows_work(struct fabric *f, struct fabric_worker *worker,
                                                const struct fabric_work *work)
{
    struct world_rank *rank = rank_of(f);
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index);
    const struct price *price = gpu_turn_price(rank);
    const struct loop *p = price ? NULL : world_loop(rank, work->site, work->given);
    if (!price && p->apart) {
        first_work(rank, ww, work, p);
        return;
    }
    uint32_t lanes;
    const uint64_t behind_ps = worker_behind_ps(ww);
    const uint64_t start = gpu_lane_begin(ww, work->warps, &lanes);
    if (price) gpu_lane_end(ww, gpu_priced_work_end(rank, price, start, 0));
    else if (p->engine == LOOP_COPY) copy_own(rank, work, p);
    else if (p->engine > LOOP_COPY) call_work(rank, p, start);
    else if (p->to_shared && p->alone && rank->shares.cpcs) {
        bulk_turn_load(ww, work->read_bytes, bulk_load_of(rank, work, p, start));
        gpu_lane_end(ww, later(start, sim_now_ps(rank->world->sim) + 1)); /* parked until the row is there */
    } else if (p->to_shared) gpu_lane_end(ww, bulk_stage(rank, work, p, start));
    else gpu_lane_end(ww, gpu_work_end(rank, work, p, start, lanes));
    if (behind_ps) worker_rest(ww)->first_ps = ww->cursor_ps + behind_ps;
    if (f->payload && work->run) work->run(work->context, work->argument);
}

/* A scan: it uses no port, moves no rows, and most steps begin with some. */
static void gpu_scan(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work)
{
    struct world_rank *rank = rank_of(f);
    struct world_worker *ww = rank->now.worker;
    assert(ww && ww->worker->index == worker->index);
    const struct loop *p = world_loop(rank, work->site, work->given);
    if (p->apart) {
        first_work(rank, ww, work, p);
        return;
    }
    uint32_t lanes;
    const uint64_t behind_ps = worker_behind_ps(ww), start = gpu_lane_begin(ww, work->warps, &lanes);
    if (p->host) {
        const struct cluster_node *node = &rank->world->cluster->node;
        gpu_lane_end(ww, looks_take(&rank->looks, rank->worker_max, node, worker, work, p, start));
        ww->looks |= p->host == LOOP_HOST_POLLED;
    } else {
        gpu_lane_end(ww, gpu_scan_end(rank, work, p, start, lanes));
    }
    if (behind_ps) worker_rest(ww)->first_ps = ww->cursor_ps + behind_ps;
    if (f->payload && work->run) work->run(work->context, work->argument);
}

static void gpu_work(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work)
{
    if (world_rows_begin(rank_of(f), work->site)) world_work_in_turn(f, worker, work);
    else if (work->kind == FABRIC_WORK_SCAN) gpu_scan(f, worker, work);
    else rows_work(f, worker, work);
}

static void gpu_ahead(const struct fabric *f, uint32_t word, uint16_t peer, uint16_t queue)
{
    const struct world_rank *rank = fabric_container_of(f, const struct world_rank, fabric);
    world_word_look_far(rank, word);
    if (peer != f->rank) nic_queue_ahead(rank, peer, queue);
}

static const struct fabric_ops gpu_fabric_ops = {
    .now_ps = world_now_ps,
    .store = gpu_store,
    .put = gpu_put,
    .signal = gpu_signal,
    .get = gpu_get,
    .signal_add = gpu_signal_add,
    .flush = world_flush,
    .work = gpu_work,
    .watch = world_watch,
    .wake_at = world_wake_at,
    .ahead = gpu_ahead,
};

static void gpu_init(struct world *w)
{
    const struct cluster *c = w->cluster;
    const struct graph_peer_rates peers = graph_gpu_peer_rates(w->network->graph, 0, 0);
    w->store_sm = rate_make(c->gpu.store_sm_rate_bps);
    w->reduce_sm = rate_make(c->gpu.reduce_sm_rate_bps);
    w->hbm = rate_make(c->gpu.hbm_rate_bps);
    w->hbm_rows = c->gpu.hbm_rows_rate_bps ? rate_make(c->gpu.hbm_rows_rate_bps) : w->hbm;
    w->l2 = rate_make(c->gpu.l2_bytes ? c->gpu.l2_rate_bps : 0);
    w->reduce_made = rate_make(c->gpu.reduce_made_sm_rate_bps);
    w->sum_far = rate_make(c->gpu.sum_far_sm_rate_bps);
    w->egress_unaligned = rate_make(c->nvlink.unaligned_rate_bps);
    w->egress_split = rate_make(c->nvlink.split_rate_bps);
    w->egress_load = rate_make(c->nvlink.load_rate_bps);
    const struct cluster_bulk *engine = &c->gpu.engine;
    w->bulk_in = rate_make(engine->in_rate_bps);
    w->bulk_out = rate_make(engine->out_rate_bps ? engine->out_rate_bps : c->gpu.store_sm_rate_bps);
    w->bulk_put =
        gpu_rate_without(rate_make(engine->put_rate_bps ? engine->put_rate_bps : c->gpu.store_sm_rate_bps), w->bulk_in);
    w->bulk_link = rate_make(c->nvlink.bulk_rate_bps ? c->nvlink.bulk_rate_bps : peers.built_out_bps);
    w->bulk_crossing = rate_make(c->nvlink.bulk_crossing_rate_bps);
    w->bulk_sector = c->nvlink.sector_rate_bps ? rate_make(c->nvlink.sector_rate_bps) : w->bulk_link;
    w->sm_count = c->gpu.sms;
    w->gpu_number = gpu_number(c, w->options.needs.touched_bytes);
    w->launch_ps = c->gpu.launch_ps;
    w->poll_ps = c->gpu.poll_ps;
    w->egress = rate_make(peers.built_out_bps);
    w->ingress = rate_make(peers.built_in_bps);
}

static uint64_t gpu_step_begin(struct world_rank *rank, uint64_t now_ps)
{
    return now_ps + rank_slowed_ps(rank, rank->world->cluster->gpu.step_ps);
}

/* Moves the next row of a worker that moves rows in turn, as a step of it would.  Returns false if the row needs a
 * step.  It does if its price is not fixed, if other kernels slow the memory, if a timeline records it, or if the
 * worker uses its struct rest or has a sum to read. */
static bool row_next(struct world_worker *ww)
{
    struct world_rank *rank = worker_rank(ww);
    struct turns *row = worker_turns(ww);
    struct sim *sim = rank->world->sim;
    if (ww->rested || ww->due || !row->price.fixed || rank->pressure.load_ps || rank->pressure.store_ps ||
        rank->fabric.ops != &gpu_fabric_ops)
        return false;
    const uint64_t now = sim_now_ps(sim), start = gpu_step_begin(rank, now);
    ww->cursor_ps = start;
    rank->now = (struct stepping){ .worker = ww, .lane_start_ps = start, .last_end_ps = start };
    if (!row->stores) gpu_lane_end(ww, gpu_priced_work_end(rank, &row->price, start, 0));
    else price_store(rank, ww, row->peer, &row->price, start, 0);
    rank->now.worker = NULL;
    assert(ww->cursor_ps > now);
    ww->in_turn = --row->left > 0;
    ww->settled_ps = now;
    sim_schedule_at(sim, &ww->event, ww->cursor_ps);
    return true;
}

static void gpu_step_due(struct world_worker *ww)
{
    if (ww->in_turn && row_next(ww)) return;
    ww->parked = ww->rested && worker_rest(ww)->turn;
    if (!ww->parked) world_worker_step(ww);
}

const struct world_machine gpu_machine = {
    .ops = &gpu_fabric_ops,
    .init = gpu_init,
    .step_due = gpu_step_due,
    .step_begin = gpu_step_begin,
};
