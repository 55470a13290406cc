/* host.c - what the seam's operations cost a live rank: a process that steps all its workers in one thread, bound to a
 * core of the host that it may share with other ranks.
 *
 * Every operation is CPU time.  It starts when the core is free.  A process that waited longer than switch_ps takes
 * that long to come back where another ran meanwhile; one that goes on does not: ranks that outnumber the cores take
 * turns in slices much longer than an operation, which queueing them by operation stands in for.  Bytes that come in by
 * a link cost the receiver's core time too, from when they begin to, whichever process runs there: interrupts do that
 * work, and what comes in while they are at it takes no further one. */
#include "models/hardware/world_internal.h"

#include <assert.h>
#include <errno.h>

/* Ranks are bound to the cores in turn, as replay binds them. */
static struct core *rank_core(const struct world_rank *rank)
{
    return &rank->world->core[rank->fabric.rank % rank->world->cluster->host.cores];
}

/* Runs for duration_ps from start_ps at the earliest; returns the end. */
static uint64_t cpu_run(struct world_rank *rank, uint64_t start_ps, uint64_t duration_ps)
{
    const uint64_t switch_ps = rank->world->cluster->host.switch_ps;
    const bool waited = start_ps > rank->ran_until_ps + switch_ps;
    struct core *core = rank_core(rank);
    if (waited && core->last != rank) duration_ps += switch_ps;
    core->last = rank;
    rank->ran_until_ps = port_reserve(&core->port, start_ps, duration_ps, 0);
    return rank->ran_until_ps;
}

static uint64_t charge(struct world_rank *rank, uint64_t duration_ps)
{
    struct world_worker *ww = rank->current;
    assert(ww);
    ww->cursor_ps = ww->last_end_ps = cpu_run(rank, ww->cursor_ps, duration_ps);
    return ww->cursor_ps;
}

uint64_t host_step(struct world_rank *rank, uint64_t now_ps)
{
    return cpu_run(rank, now_ps, rank->world->cluster->host.step_ps);
}

uint64_t host_receive_ps(const struct world *w, uint64_t size_bytes)
{
    const struct cluster_host *host = &w->cluster->host;
    return size_bytes ? cluster_curve_ps(&host->put, size_bytes) : host->signal_ps;
}

uint64_t host_receive(struct world_rank *target, uint64_t now_ps, uint64_t size_bytes)
{
    struct core *core = rank_core(target);
    const bool idle = now_ps > core->received_ps;
    const uint64_t interrupt_ps = idle ? target->world->cluster->host.interrupt_ps : 0;
    core->received_ps = port_reserve(&core->port, now_ps, interrupt_ps + host_receive_ps(target->world, size_bytes), 0);
    return core->received_ps;
}

static int host_store(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    charge(rank, rank->world->store.row_ps + rate_time(rank->world->store.warp, write->charge_bytes));
    world_store_payload(rank, write);
    return 0;
}

static int host_put(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    if (world_queue_full(rank, write->peer, write->queue)) return -EAGAIN;
    const bool defer = write->flags & FABRIC_DEFER;
    const uint64_t ready_ps = charge(rank, cluster_curve_ps(&w->cluster->host.put, write->charge_bytes));
    nic_post(world_request_write(rank, write), ready_ps, defer);
    return 0;
}

static int host_signal(struct fabric *f, struct fabric_worker *worker, const struct fabric_signal *signal)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    if (fabric_path(f, signal->peer) == FABRIC_RDMA) {
        if (world_queue_full(rank, signal->peer, signal->queue)) return -EAGAIN;
        nic_post(world_request_signal(rank, signal), charge(rank, w->cluster->host.signal_ps), false);
        return 0;
    }
    world_word_schedule(&w->rank[signal->peer], signal->word, signal->value, false, charge(rank, 0));
    return 0;
}

static void host_signal_add(struct fabric *f, struct fabric_worker *worker, uint32_t word, uint64_t addend)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    world_word_schedule(rank, word, addend, true, rank->current->cursor_ps);
}

enum { REDUCE_ROW_BYTES = 14336 };      /* of the row made whose time [host] reduce-row and sum-row are */

static void host_work(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work)
{
    (void)worker;
    struct world_rank *rank = rank_of(f);
    struct world *w = rank->world;
    const struct work_rates *reduce = work->weighted ? &w->reduce : &w->sum;
    const struct work_rates *k = work->kind == FABRIC_WORK_CAST ? &w->cast
                                 : work->kind == FABRIC_WORK_REDUCE ? reduce : &w->copy;
    if (work->kind == FABRIC_WORK_PEEK) return;
    if (work->kind == FABRIC_WORK_SCAN) charge(rank, rate_time(w->scan, work->read_bytes));
    else if (work->kind == FABRIC_WORK_REDUCE)
        charge(rank, k->row_ps * work->write_bytes / REDUCE_ROW_BYTES + rate_time(k->warp, work->read_bytes));
    else charge(rank, work->rows * k->row_ps + rate_time(k->warp, work->read_bytes));
    if (f->payload && work->run) work->run(work->context, work->argument);
}

const struct fabric_ops host_fabric_ops = {
    .name = "sim-host", .now_ps = world_now_ps, .store = host_store, .put = host_put, .signal = host_signal,
    .signal_add = host_signal_add, .flush = world_flush, .work = host_work, .watch = world_watch,
};
