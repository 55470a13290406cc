/* stepping.c - steps and wakes the workers of a simulated world, and moves the bytes of their stores and loads.  Does
 * not know the cost of operations, which the rank's machine (gpu.c, host.c) gives. */
#include "models/hardware/world/stepping.h"
#include "models/hardware/world/world_internal.h"

#include <assert.h>
#include <string.h>

/* ---- bytes of kernels ---- */

void world_store_payload(struct world_rank *source, const struct fabric_write *write)
{
    struct fabric *target = &source->world->rank[write->peer].fabric;
    const uint64_t size_bytes = write->size_bytes;
    if (!size_bytes) return;
    assert(write->target_offset + size_bytes <= target->heap_bytes);
    fabric_write_copy(write, target->heap + write->target_offset);
}

void world_load_payload(struct world_rank *target, const struct fabric_read *read)
{
    const struct fabric *source = &target->world->rank[read->peer].fabric;
    assert(read->source_offset + read->size_bytes <= source->heap_bytes);
    if (read->size_bytes) memcpy(read->target, source->heap + read->source_offset, read->size_bytes);
}

/* ---- steps and wakes ---- */

uint64_t world_now_ps(const struct fabric *f) { return sim_now_ps(((const struct world_rank *)f)->world->sim); }

void world_wake_at(struct fabric *f, struct fabric_worker *w, uint64_t time_ps)
{
    (void)w;
    struct stepping *now = &rank_of(f)->now;
    assert(now->worker);
    if (time_ps > world_now_ps(f) && (!now->wake_ps || time_ps < now->wake_ps)) now->wake_ps = time_ps;
}

static void wake_schedule(struct world_worker *ww);

/* Wakes a worker.  Does nothing if the wake's launch is over.  Also does nothing if the worker has stepped since then
 * and now wants no wake or a later one. */
void stepping_wake_run(struct sim *sim, struct sim_event *event)
{
    struct world_wake *wake = fabric_container_of(event, struct world_wake, event);
    struct world *w = sim_owner(sim);
    struct world_rank *rank = &w->rank[wake->rank];
    struct world_worker *ww = wake->launch == rank->launch ? &rank->worker[wake->worker] : NULL;
    pool_put(&w->wakes, wake);
    w->wakes_pending--;
    w->idle = (w->ranks_running ? 0 : w->wakes_pending) + (w->usage != NULL);
    if (!ww || ww->done) return;
    const uint64_t now = sim_now_ps(sim);
    struct rest *rest = worker_rest(ww);
    if (rest->wake_ps <= now) rest->wake_ps = 0;
    if (rest->wanted_ps > now) wake_schedule(ww);
    else if (rest->wanted_ps) world_worker_wake(sim, ww, now, now);
}

/* Schedules the wake as a separate event, because the worker's next step must not wait for it. */
static void wake_schedule(struct world_worker *ww)
{
    const struct world_rank *rank = worker_rank(ww);
    struct world *w = rank->world;
    struct rest *rest = worker_rest(ww);
    const uint64_t wanted_ps = rest->wanted_ps;
    if (rest->wake_ps && rest->wake_ps <= wanted_ps) return;
    struct world_wake *wake = pool_get(&w->wakes);
    *wake = (struct world_wake){
        .event.kind = EVENT_WAKE, .launch = rank->launch, .worker = ww->worker->index, .rank = rank->fabric.rank
    };
    rest->wake_ps = wanted_ps;
    w->wakes_pending++;
    sim_schedule_at(w->sim, &wake->event, wanted_ps);
}

/* ---- rows in turn ---- */

/* Begins to move `rows` rows like `row`, one after another.  The caller moves the first.  If the worker's last rows
 * in this launch were like these, their price is used again. */
static struct turns *turns_begin(struct world_rank *rank, const struct turns *row, uint32_t rows)
{
    struct world_worker *ww = rank->now.worker;
    assert(rows > 0 && (ww->worker->warps == 1 || row->kind == FABRIC_WORK_SCAN) && !ww->in_turn);
    if (!rank->turns) rank->turns = arena_take(&rank->world->arena, rank->worker_max * sizeof rank->turns[0]);
    struct turns *t = worker_turns(ww);
    if (t->launch != rank->launch || t->given != row->given || t->site != row->site || t->peer != row->peer ||
        t->read_bytes != row->read_bytes || t->write_bytes != row->write_bytes)
        *t = *row;
    t->launch = rank->launch;
    t->left = rows - 1;
    ww->in_turn = true;
    return t;
}

int world_store_in_turn(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    struct fabric_write first = *write; /* it carries the bytes of all rows: no worker reads them before the signal */
    first.charge_bytes /= write->rows;
    first.rows = 1;
    const struct turns row = { .write_bytes = first.charge_bytes,
                               .given = write->given,
                               .peer = write->peer,
                               .site = write->site,
                               .stores = true };
    struct world_rank *rank = rank_of(f);
    const struct turns *turns = turns_begin(rank, &row, write->rows);
    const int result = f->ops->store(f, worker, &first);
    rank->now.worker->in_turn = !result && turns->left > 0;
    return result;
}

void world_work_in_turn(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work)
{
    struct world_rank *rank = rank_of(f);
    struct fabric_work first = *work;
    const uint64_t *size = work->given ? work->given->size : NULL;
    const bool scan = work->kind == FABRIC_WORK_SCAN;
    const uint32_t rows = scan ? loops_times(rank->world->loops, (enum site)work->site, size, work->rows) : work->rows;
    first.read_bytes /= rows;
    first.write_bytes /= rows;
    first.rows = 1;
    const struct turns row = { .read_bytes = first.read_bytes,
                               .write_bytes = first.write_bytes,
                               .given = work->given,
                               .peer = f->rank,
                               .site = work->site,
                               .kind = (uint8_t)work->kind };
    const struct turns *turns = turns_begin(rank, &row, rows);
    f->ops->work(f, worker, &first);
    rank->now.worker->in_turn = turns->left > 0;
}

/* Moves the worker's next row. */
static enum worker_step turn_take(struct world_worker *ww)
{
    struct fabric *f = ww->worker->fabric;
    struct turns *row = worker_turns(ww);
    if (!row->stores) {
        f->ops->work(f, ww->worker,
                     &(struct fabric_work){ .kind = (enum fabric_work_kind)row->kind,
                                            .rows = 1,
                                            .site = row->site,
                                            .given = row->given,
                                            .read_bytes = row->read_bytes,
                                            .write_bytes = row->write_bytes });
    } else {
        const struct fabric_write write = {
            .charge_bytes = row->write_bytes, .peer = row->peer, .rows = 1, .site = row->site, .given = row->given
        };
        const int result = f->ops->store(f, ww->worker, &write);
        assert(!result); /* a store always has room */
        (void)result;
    }
    ww->in_turn = --row->left > 0;
    return WORKER_MORE;
}

/* ---- awaited words ---- */

/* Returns whether the worker's next step is left out until the awaited word has its value.  That step is due at due_ps
 * and would find nothing; 0: no step is due.  A letter changes its word only when a step reads it, so a worker that may
 * get letters takes every step.  So does a core, because each step takes some of its time, and so does a worker with
 * other work under way. */
static bool await_begin(struct world_worker *ww, uint64_t due_ps)
{
    const struct world_rank *rank = worker_rank(ww);
    const struct stepping *now = &rank->now;
    if (rank->fabric.words[now->awaited] >= now->least) return false;
    if (rank->world->machine->busy_ps || rank->world->letters_used || ww->due || ww->looks || ww->in_turn) return false;
    struct rest *rest = worker_rest(ww);
    if (rest->turn) return false;
    rest->awaited = now->awaited;
    rest->least = now->least;
    rest->skipped_ps = due_ps;
    ww->awaits = true;
    return true;
}

void world_worker_step(struct world_worker *ww)
{
    struct world_rank *rank = worker_rank(ww);
    const struct world_machine *machine = rank->world->machine;
    struct sim *sim = rank->world->sim;
    const uint64_t now = sim_now_ps(sim);
    ww->cursor_ps = machine->step_begin(rank, now);
    ww->settled_ps = UINT64_MAX;
    ww->awaits = false;
    struct rest *rest = ww->rested ? worker_rest(ww) : NULL;
    if (rest) rest->wanted_ps = 0;
    if (ww->due || (rest && rest->mail)) words_read(ww, now);
    rank->world->beside = &rank->pressure;
    rank->now = (struct stepping){ .worker = ww, .lane_start_ps = ww->cursor_ps, .last_end_ps = ww->cursor_ps };
    const uint64_t begin_ps = ww->cursor_ps;
    const enum worker_step stepped = ww->in_turn ? turn_take(ww) : fabric_worker_step(ww->worker);
    if (ww->looks) ww->looks = looks_goes_on(rank->looks, ww->worker->index, stepped, begin_ps, ww->cursor_ps);
    switch (stepped) {
    case WORKER_MORE:
        assert(ww->cursor_ps > now || machine->busy_ps); /* on a host the rank's next round costs time */
        if (rank->now.least && await_begin(ww, ww->cursor_ps)) break;
        sim_schedule_at(sim, &ww->event, ww->cursor_ps);
        ww->settled_ps = now;
        break;
    case WORKER_WAIT:
        if (rank->now.least) (void)await_begin(ww, 0);
        if (ww->rested || ww->due) words_wait(ww);
        if (rank->now.space_ps) world_worker_wake(sim, ww, rank->now.space_ps, rank->now.space_ps);
        if (rank->now.wake_ps) {
            worker_rest(ww)->wanted_ps = rank->now.wake_ps;
            wake_schedule(ww);
        }
        break;
    case WORKER_DONE:
        assert(!ww->rested || !worker_rest(ww)->turn);
        ww->done = true;
        rank->putting -= ww->puts;
        ww->settled_ps = 0;
        if (!machine->busy_ps) ww->cursor_ps = later(ww->cursor_ps, worker_first_ps(ww));
        if (ww->cursor_ps > rank->end_ps) rank->end_ps = ww->cursor_ps;
        if (ww->worker->moment != WORKER_CLOSES)
            rank->let_ps = later(rank->let_ps, later(ww->cursor_ps, worker_staged_ps(ww)));
        if (ww->worker->moment == WORKER_COUNTS && ww->cursor_ps > rank->counts_ps) rank->counts_ps = ww->cursor_ps;
        if (--rank->running == 0) launch_rank_done(rank);
        break;
    }
    if (machine->step_end) machine->step_end(rank);
    rank->now.worker = NULL;
}
