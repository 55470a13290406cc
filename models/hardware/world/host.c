/* host.c - what the seam's operations cost a live rank, which is a process bound to a core of the host.  Several
 * ranks may share a core.
 *
 * Every operation takes CPU time.  A process is one thread.  In rounds, it steps all its workers one after another,
 * even those that have nothing to do, and polls the links.  Processes of one core take turns.  A process keeps the core
 * while its workers have something to do, or for slice_ps if others wait.  Switching to another process costs
 * switch_ps.  A put that holds back its doorbell costs nothing until the doorbell rings.  Bytes that come in by a link
 * cost the receiver's core time, too, whichever process runs there: interrupts do that work.  Bytes that arrive while
 * an interrupt is being handled need no further one.
 *
 * A slowed rank works as fast as any other while it has its core, but it has the core less often (cgroup's cpu.max, or
 * a signal that stops it).  After each step it stays off the core for the time by which it has to be slower, and others
 * run meanwhile. */
#include "models/hardware/world/stepping.h"
#include "models/hardware/world/world_internal.h"

#include <assert.h>
#include <errno.h>

/* The core of a rank.  Ranks are bound to cores in rotation, as replay binds them. */
static struct core *rank_core(const struct world_rank *rank)
{
    return &rank->world->core[rank->fabric.rank % rank->world->cluster->host.cores];
}

/* How long a rank's work of duration_ps keeps the core.  If the rank is slowed, the work takes longer than that, and
 * owed_ps grows by the difference. */
static uint64_t core_share(struct world_rank *rank, uint64_t duration_ps)
{
    const uint64_t slowed_ps = rank_slowed_ps(rank, duration_ps);
    if (slowed_ps <= duration_ps) return slowed_ps;
    rank->owed_ps += slowed_ps - duration_ps;
    return duration_ps;
}

static uint64_t charge(struct world_rank *rank, uint64_t duration_ps)
{
    struct world_worker *ww = rank->now.worker;
    assert(ww);
    const uint64_t core_ps = core_share(rank, duration_ps);
    ww->cursor_ps = rank->now.last_end_ps = port_reserve(&rank_core(rank)->port, ww->cursor_ps, core_ps, 0);
    return ww->cursor_ps;
}

/* ---- turns ---- */

static bool rank_runs(const struct world_rank *rank, uint64_t now_ps)
{
    return rank->ready_first && rank->held_until_ps <= now_ps;
}

/* The soonest time at which a rank of the core that has work may run.  UINT64_MAX: no rank has work. */
static uint64_t core_held_until(const struct core *core)
{
    const struct world *w = core->rank->world;
    const uint32_t cores = w->cluster->host.cores;
    uint64_t until_ps = UINT64_MAX;
    for (uint32_t rank = core->rank->fabric.rank % cores; rank < w->options.ranks; rank += cores)
        if (w->rank[rank].ready_first && w->rank[rank].held_until_ps < until_ps) until_ps = w->rank[rank].held_until_ps;
    return until_ps;
}

/* The rank that the core runs next.  It is the one that has the core, until its slice ends.  After that, it is the next
 * rank that can run, in order.  NULL: no rank can run. */
static struct world_rank *core_next(const struct core *core, uint64_t now_ps)
{
    struct world *w = core->rank->world;
    const uint32_t cores = w->cluster->host.cores, last = core->rank->fabric.rank;
    if (rank_runs(core->rank, now_ps) && now_ps < core->slice_end_ps) return core->rank;
    for (uint32_t rank = last + cores; rank < w->options.ranks; rank += cores)
        if (rank_runs(&w->rank[rank], now_ps)) return &w->rank[rank];
    for (uint32_t rank = last % cores; rank <= last; rank += cores)
        if (rank_runs(&w->rank[rank], now_ps)) return &w->rank[rank];
    return NULL;
}

/* Steps the core's next worker.  If bytes that arrived during the last step made that step longer, waits for its end
 * first. */
void host_core_run(struct sim *sim, struct sim_event *event)
{
    struct core *core = fabric_container_of(event, struct core, event);
    if (core->port.free_ps > sim_now_ps(sim)) {
        sim_schedule_at(sim, event, core->port.free_ps);
        return;
    }
    core->waits_for_held = false;
    struct world_rank *rank = core_next(core, sim_now_ps(sim));
    if (!rank) {
        const uint64_t until_ps = core_held_until(core);
        core->waits_for_held = until_ps != UINT64_MAX;
        if (core->waits_for_held) sim_schedule_at(sim, event, until_ps);
        return;
    }
    struct world_worker *ww = rank->ready_first;
    rank->ready_first = worker_rest(ww)->ready_next;
    rank->ready_count--;
    world_worker_step(ww);
}

static void host_line_up(struct world_worker *ww)
{
    struct world_rank *rank = worker_rank(ww);
    struct core *core = rank_core(rank);
    struct sim *sim = rank->world->sim;
    const uint64_t now = sim_now_ps(sim);
    ww->settled_ps = 0; /* no wake moves this step any more */
    worker_rest(ww)->ready_next = NULL;
    if (rank->ready_first) worker_rest(rank->ready_last)->ready_next = ww;
    else rank->ready_first = ww;
    rank->ready_last = ww;
    rank->ready_count++;
    const uint64_t due_ps = core->port.free_ps > now ? core->port.free_ps : now;
    if (!sim_event_pending(&core->event)) sim_schedule_at(sim, &core->event, due_ps);
    else if (core->waits_for_held && sim_event_time_ps(&core->event) > due_ps)
        sim_reschedule_at(sim, &core->event, due_ps);
    core->waits_for_held = false;
}

static uint64_t host_step(struct world_rank *rank, uint64_t now_ps)
{
    const struct cluster_host *host = &rank->world->cluster->host;
    struct core *core = rank_core(rank);
    const bool other = core->rank != rank;
    if (other || now_ps >= core->slice_end_ps) core->slice_end_ps = now_ps + host->slice_ps;
    uint64_t busy_ps = other ? host->switch_ps : 0;
    core->rank = rank;
    if (!rank->begun) {
        rank->begun = true;
        rank->begin_ps = now_ps + busy_ps;
    }
    if (!rank->round_left) {
        rank->round_left = 1 + rank->ready_count;
        busy_ps += core_share(rank, rank->running * host->step_ps + host->progress_ps);
    }
    rank->round_left--;
    return port_reserve(&core->port, now_ps, busy_ps, 0);
}

static void host_step_end(struct world_rank *rank)
{
    struct core *core = rank_core(rank);
    if (rank->owed_ps) rank->held_until_ps = core->port.free_ps + rank->owed_ps;
    rank->owed_ps = 0;
    sim_schedule_at(rank->world->sim, &core->event, core->port.free_ps);
}

static uint64_t host_link_ps(const struct world *w, const struct request *r)
{
    const struct cluster_host *host = &w->cluster->host;
    const bool short_one = !r->put && !r->answer; /* a signal, or the request of a get */
    const uint64_t bytes_ps = short_one ? 0 : cluster_curve_ps(&host->put, r->wire_bytes);
    return bytes_ps + (short_one || r->signal ? host->signal_ps : 0);
}

static uint64_t host_send(struct world_rank *source, const struct request *r)
{
    return charge(source, host_link_ps(source->world, r));
}

static uint64_t host_receive(struct world_rank *target, uint64_t now_ps, const struct request *r)
{
    struct core *core = rank_core(target);
    const bool idle = now_ps > core->received_ps;
    const uint64_t interrupt_ps = idle ? target->world->cluster->host.interrupt_ps : 0;
    core->received_ps = port_reserve(&core->port, now_ps, interrupt_ps + host_link_ps(target->world, r), 0);
    return core->received_ps;
}

static int host_store(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    struct world_rank *rank = rank_of(f);
    if (world_store_begins(rank, write)) return world_store_in_turn(f, worker, write);
    const struct work_rates *store = rank->cast ? &rank->world->message : &rank->world->store;
    charge(rank, store->row_ps + rate_time(store->warp, write->charge_bytes));
    world_store_payload(rank, write);
    return 0;
}

static int host_put(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write,
                    const struct fabric_signal *signal)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    struct qp *const qp = nic_qp(rank, write->peer, write->queue);
    if (world_queue_full(rank, qp, signal ? 2 : 1)) return -EAGAIN;
    const struct loop *p = world_loop(rank, write->site, write->given);
    nic_post(rank, qp,
             signal ? world_request_write_signal(rank, write, p, signal) : world_request_write(rank, write, p),
             rank->now.worker->cursor_ps, !signal && write->defer);
    return 0;
}

/* Loads from a peer of the host take as long as stores: a core reads a peer's mapping as fast as it writes to it. */
static int host_get(struct fabric *f, struct fabric_worker *worker, const struct fabric_read *read)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    if (fabric_path(f, read->peer) != FABRIC_RDMA) {
        charge(rank, rank->world->store.row_ps + rate_time(rank->world->store.warp, read->charge_bytes));
        world_load_payload(rank, read);
        return 0;
    }
    struct qp *const qp = nic_qp(rank, read->peer, read->queue);
    if (world_queue_full(rank, qp, 1)) return -EAGAIN;
    nic_post(rank, qp, world_request_read(rank, read), rank->now.worker->cursor_ps, false);
    return 0;
}

static int host_signal(struct fabric *f, struct fabric_worker *worker, const struct fabric_signal *signal)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    if (fabric_path(f, signal->peer) == FABRIC_RDMA) {
        struct qp *const qp = nic_qp(rank, signal->peer, signal->queue);
        if (world_queue_full(rank, qp, 1)) return -EAGAIN;
        nic_post(rank, qp, world_request_signal(rank, signal), rank->now.worker->cursor_ps, false);
        return 0;
    }
    world_word_schedule(&w->rank[signal->peer], signal->word, signal->value, signal->add, charge(rank, 0));
    return 0;
}

static void host_signal_add(struct fabric *f, struct fabric_worker *worker, uint32_t word, uint64_t addend,
                            enum site site)
{
    (void)worker, (void)site;
    struct world_rank *rank = rank_of(f);
    world_word_schedule(rank, word, addend, true, rank->now.worker->cursor_ps);
}

/* The time of a copy.  A CPU that copies a row to several places reads the row once for each. */
static uint64_t copy_ps(const struct work_rates *copy, const struct fabric_work *work)
{
    const uint64_t once_ps = work->rows * copy->row_ps + rate_time(copy->warp, work->read_bytes);
    const bool several = work->read_bytes && work->write_bytes > work->read_bytes;
    return several ? once_ps * work->write_bytes / work->read_bytes : once_ps;
}

static void host_work(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work)
{
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    if (world_rows_begin(rank, work->site)) {
        world_work_in_turn(f, worker, work);
        return;
    }
    const struct loop *p = work->site ? world_loop(rank, work->site, work->given) : &w->loop[SITE_NONE];
    const struct work_rates *reduce = p->weighted ? &w->reduce : &w->sum;
    uint64_t busy_ps = 0;
    switch (work->kind) {
    case FABRIC_WORK_SCAN: busy_ps = rate_time(w->scan, work->read_bytes); break;
    case FABRIC_WORK_COPY:
        if (p->to_shared || p->engine == LOOP_AWAIT || p->engine == LOOP_LAUNCH || p->engine == LOOP_WAIT) return;
        busy_ps = p->engine == LOOP_ARITHMETIC ? p->lasts_ps : copy_ps(&w->copy, work);
        break;
    case FABRIC_WORK_CAST: /* a GPU's warps share one row; a core casts it as one row, however it is divided */
        busy_ps = w->cast.row_ps + rate_time(w->cast.warp, work->read_bytes);
        break;
    case FABRIC_WORK_REDUCE:
        busy_ps =
            reduce->row_ps * work->write_bytes / CLUSTER_REDUCE_ROW_BYTES + rate_time(reduce->warp, work->read_bytes);
        break;
    case FABRIC_WORK_KINDS: break;
    }
    if (work->kind != FABRIC_WORK_SCAN) rank->cast = work->kind == FABRIC_WORK_CAST;
    charge(rank, busy_ps);
    if (f->payload && work->run) work->run(work->context, work->argument);
}

static const struct fabric_ops host_fabric_ops = {
    .now_ps = world_now_ps,
    .store = host_store,
    .put = host_put,
    .signal = host_signal,
    .get = host_get,
    .signal_add = host_signal_add,
    .flush = world_flush,
    .work = host_work,
    .watch = world_watch,
    .wake_at = world_wake_at,
};

static struct work_rates rates_of(const struct cluster_work *work)
{
    return (struct work_rates){ work->row_ps, rate_make(work->warp_rate_bps) };
}

/* Scales rates to the measured time of a loop that touches as many bytes as the kernels do.  The costs of rows and of
 * bytes scale by one factor, which stays constant beyond the largest loop.  Without a measured loop the rates stay as
 * they are. */
static struct work_rates loop_rates(const struct world *w, struct work_rates rates, const struct cluster_curve *loop,
                                    uint64_t size_bytes)
{
    const uint64_t touched_bytes = w->options.needs.touched_bytes;
    const double line_ps = (double)rates.row_ps + (double)rate_time(rates.warp, size_bytes);
    if (!loop->count || !touched_bytes || line_ps <= 0) return rates;
    const uint64_t most_bytes = (uint64_t)loop->size_bytes[loop->count - 1];
    const uint64_t at_bytes = touched_bytes < most_bytes ? touched_bytes : most_bytes;
    const double factor = (double)cluster_curve_ps(loop, at_bytes) / line_ps;
    return (struct work_rates){ (uint64_t)((double)rates.row_ps * factor + 0.5),
                                (rate_q20)((double)rates.warp * factor + 0.5) };
}

static void loop_init(struct world *w)
{
    const struct cluster_host *c = &w->cluster->host;
    const uint64_t row_bytes = CLUSTER_REDUCE_ROW_BYTES, summed_bytes = CLUSTER_LOOP_TOPK * row_bytes;
    w->message = loop_rates(w, w->store, &c->loop.message, CLUSTER_LOOP_MESSAGE_BYTES);
    w->store = loop_rates(w, w->store, &c->loop.store, row_bytes);
    w->copy = loop_rates(w, w->copy, &c->loop.copy, CLUSTER_LOOP_MESSAGE_BYTES);
    w->cast = loop_rates(w, w->cast, &c->loop.cast, row_bytes);
    w->reduce = loop_rates(w, w->reduce, &c->loop.reduce, summed_bytes);
}

static void host_init(struct world *w)
{
    const struct cluster_host *c = &w->cluster->host;
    w->store = (struct work_rates){ c->store_ps, rate_make(c->store_rate_bps) };
    w->copy = rates_of(&c->copy);
    w->cast = rates_of(&c->cast);
    w->reduce = rates_of(&c->reduce);
    w->sum = rates_of(&c->sum);
    w->scan = rate_make(c->scan_rate_bps);
    w->sm_count = UINT16_MAX; /* a host has no SMs, so this is no limit */
    w->poll_ps = c->poll_ps;
    loop_init(w);
    for (uint32_t i = 0; i < c->cores && i < w->options.ranks; i++)
        w->core[i] = (struct core){ .event.kind = EVENT_CORE, .rank = &w->rank[i] };
}

/* How long the port was busy until time_ps.  Work booked for later does not count. */
static uint64_t busy_until(const struct port *port, uint64_t time_ps)
{
    const uint64_t after_ps = port->free_ps > time_ps ? port->free_ps - time_ps : 0;
    return port->busy_ps - (after_ps < port->busy_ps ? after_ps : port->busy_ps);
}

static uint64_t host_busy_ps(const struct world_rank *rank)
{
    const struct world *w = rank->world;
    const uint32_t cores = w->cluster->host.cores;
    uint64_t busy_ps = 0;
    for (uint32_t i = 0; i < cores; i++) busy_ps += busy_until(&w->core[i].port, rank->end_ps);
    return busy_ps / cores;
}

const struct world_machine host_machine = {
    .ops = &host_fabric_ops,
    .init = host_init,
    .step_due = host_line_up,
    .step_begin = host_step,
    .step_end = host_step_end,
    .link_ps = host_link_ps,
    .send = host_send,
    .receive = host_receive,
    .busy_ps = host_busy_ps,
};
