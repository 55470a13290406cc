/* recording.c - a fabric around the simulated fabric: it records each operation in a timeline.
 *
 * It is used only if a timeline is asked for, so a world without one pays nothing.  Waits and kernels, which are
 * recorded once a kernel has ended, are in this file, too. */
#include "models/hardware/world/causes.h"
#include "models/hardware/world/stepping.h"
#include "models/hardware/world/world_internal.h"
#include "models/hardware/world/world_timeline.h"

#include "sim/timeline.h"

/* Notes the operation that has just been charged to the stepped worker, on `warps` of the worker's warps (0: all).  A
 * host's operation has no lane and began at cursor_ps. */
static struct causes_place operation_note(struct world_rank *rank, const char *name, uint32_t warps, uint64_t cursor_ps,
                                          uint64_t size_bytes)
{
    const struct world_worker *ww = rank->now.worker;
    const bool host = rank->world->machine->busy_ps != NULL;
    const uint32_t all = ww->worker->warps, taken = warps && warps < all ? warps : all;
    const uint32_t lane = host || rank->now.lane_warps < taken ? 0 : (rank->now.lane_warps - taken) % LANE_WAITS;
    const uint64_t begin_ps = host ? cursor_ps : rank->now.lane_start_ps;
    const uint32_t track = world_timeline_lane(rank->world->record, rank->fabric.rank, ww->worker->index, lane);
    timeline_span(rank->world->record->out,
                  &(struct timeline_span){
                      .name = name,
                      .begin_ps = begin_ps,
                      .end_ps = rank->now.last_end_ps > begin_ps ? rank->now.last_end_ps : begin_ps,
                      .size_bytes = size_bytes,
                      .process = rank->fabric.rank,
                      .track = track,
                  });
    const struct causes_place place = { rank->fabric.rank, ww->worker->index, track, begin_ps };
    causes_posted(rank->world->record->causes, &place);
    return place;
}

/* Notes a port that may have just served size_bytes.  The port was busy for as long as its total busy time has grown
 * since `before`. */
static void port_note(const struct world_rank *rank, uint32_t track, const struct port *now, const struct port *before,
                      uint64_t size_bytes)
{
    if (now->busy_ps == before->busy_ps) return;
    timeline_span(rank->world->record->out, &(struct timeline_span){
                                                .name = "store",
                                                .begin_ps = now->free_ps - (now->busy_ps - before->busy_ps),
                                                .end_ps = now->free_ps,
                                                .size_bytes = size_bytes,
                                                .process = rank->fabric.rank,
                                                .track = track,
                                            });
}

static int recorded_store(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write)
{
    struct world_rank *rank = rank_of(f), *target = &rank->world->rank[write->peer];
    if (world_store_begins(rank, write)) return world_store_in_turn(f, worker, write);
    const struct port egress = rank->egress, ingress = target->ingress;
    const uint64_t cursor_ps = rank->now.worker->cursor_ps;
    const int result = rank->world->machine->ops->store(f, worker, write);
    if (result) return result;
    operation_note(rank, "store", write->warps, cursor_ps, write->charge_bytes);
    port_note(rank, TRACK_EGRESS, &rank->egress, &egress, write->charge_bytes);
    port_note(target, TRACK_INGRESS, &target->ingress, &ingress, write->charge_bytes);
    return 0;
}

static int recorded_put(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write,
                        const struct fabric_signal *signal)
{
    struct world_rank *rank = rank_of(f);
    const uint64_t cursor_ps = rank->now.worker->cursor_ps;
    const int result = rank->world->machine->ops->put(f, worker, write, signal);
    const char *name = signal ? "post put and signal" : "post put";
    if (!result) operation_note(rank, name, write->warps, cursor_ps, write->charge_bytes);
    return result;
}

static int recorded_signal(struct fabric *f, struct fabric_worker *worker, const struct fabric_signal *signal)
{
    struct world_rank *rank = rank_of(f);
    const uint64_t cursor_ps = rank->now.worker->cursor_ps;
    const int result = rank->world->machine->ops->signal(f, worker, signal);
    const bool rdma = fabric_path(f, signal->peer) == FABRIC_RDMA;
    if (result) return result;
    const struct causes_place place = operation_note(rank, rdma ? "post signal" : "signal", 0, cursor_ps, 0);
    if (!rdma) causes_raised(rank->world->record->causes, signal->peer, signal->word, &place);
    return 0;
}

static int recorded_get(struct fabric *f, struct fabric_worker *worker, const struct fabric_read *read)
{
    struct world_rank *rank = rank_of(f), *source = &rank->world->rank[read->peer];
    const struct port egress = source->egress, ingress = rank->ingress;
    const bool rdma = fabric_path(f, read->peer) == FABRIC_RDMA;
    const uint64_t cursor_ps = rank->now.worker->cursor_ps;
    const int result = rank->world->machine->ops->get(f, worker, read);
    if (result) return result;
    operation_note(rank, rdma ? "post get" : "load", 0, cursor_ps, read->charge_bytes);
    port_note(source, TRACK_EGRESS, &source->egress, &egress, read->charge_bytes);
    port_note(rank, TRACK_INGRESS, &rank->ingress, &ingress, read->charge_bytes);
    return 0;
}

static void recorded_signal_add(struct fabric *f, struct fabric_worker *worker, uint32_t word, uint64_t addend,
                                enum site site)
{
    struct world_rank *rank = rank_of(f);
    const struct causes_place place = { f->rank, rank->now.worker->worker->index, CAUSES_NO_TRACK,
                                        rank->now.worker->cursor_ps };
    rank->world->machine->ops->signal_add(f, worker, word, addend, site);
    causes_raised(rank->world->record->causes, f->rank, word, &place);
}

static void recorded_work(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work)
{
    static const char *const name[] = {
        [FABRIC_WORK_CAST] = "cast",
        [FABRIC_WORK_COPY] = "copy",
        [FABRIC_WORK_REDUCE] = "reduce",
        [FABRIC_WORK_SCAN] = "scan",
    };
    struct world_rank *rank = rank_of(f);
    const struct loop *p = work->kind == FABRIC_WORK_COPY ? world_loop(rank, work->site, work->given) : NULL;
    const char *const other = !p                             ? NULL
                              : p->to_shared                 ? "bulk load"
                              : p->engine == LOOP_ARITHMETIC ? "compute"
                              : p->engine > LOOP_COPY        ? "call"
                                                             : NULL;
    if (world_rows_begin(rank, work->site)) {
        world_work_in_turn(f, worker, work);
        return;
    }
    const uint64_t cursor_ps = rank->now.worker->cursor_ps;
    rank->world->machine->ops->work(f, worker, work);
    operation_note(rank, other ? other : name[work->kind], work->warps, cursor_ps, work->read_bytes);
}

static void recorded_watch(struct fabric *f, struct fabric_worker *worker, uint32_t word, uint32_t word_count,
                           uint64_t least)
{
    if (rank_of(f)->now.worker) return; /* in a step: with a timeline, a worker takes every step */
    causes_watch(rank_of(f)->world->record->causes, f->rank, worker->index, word, word_count);
    world_watch(f, worker, word, word_count, least);
}

const struct fabric_ops recording_ops = {
    .now_ps = world_now_ps,
    .store = recorded_store,
    .put = recorded_put,
    .signal = recorded_signal,
    .get = recorded_get,
    .signal_add = recorded_signal_add,
    .flush = world_flush,
    .work = recorded_work,
    .watch = recorded_watch,
    .wake_at = world_wake_at,
};

/* ---- waits and kernels ---- */

void world_timeline_wait(const struct world *w, uint32_t rank, uint32_t worker, uint64_t begin_ps, uint64_t end_ps,
                         const char *text)
{
    struct world_timeline *t = w->record;
    const struct causes_place place = { rank, worker, world_timeline_lane(t, rank, worker, LANE_WAITS), begin_ps };
    timeline_span(t->out, &(struct timeline_span){ .name = "wait",
                                                   .begin_ps = begin_ps,
                                                   .end_ps = end_ps,
                                                   .process = rank,
                                                   .track = place.track,
                                                   .detail = text });
    causes_waited(t->causes, &place, end_ps, text);
}

/* Records the critical path of the kernel that ran last, from the worker that ended last on any rank. */
static void path_note(const struct world *w, const char *name, const struct world_result *result)
{
    const struct world_worker *last = NULL;
    for (uint32_t r = 0; r < w->options.ranks; r++)
        for (uint32_t i = 0; i < w->rank[r].worker_count; i++) {
            const struct world_worker *ww = &w->rank[r].worker[i];
            if (ww->cursor_ps <= result[r].end_ps && (!last || ww->cursor_ps > last->cursor_ps)) last = ww;
        }
    if (!last) return;
    const uint32_t rank = last->worker->fabric->rank;
    causes_path(w->record->causes, name, rank, last->worker->index, result[rank].begin_ps, last->cursor_ps);
}

void world_timeline_note(const struct world *w, const char *name, const struct world_result *result)
{
    for (uint32_t r = 0; w->record && r < w->options.ranks; r++)
        timeline_span(w->record->out, &(struct timeline_span){
                                          .name = name,
                                          .begin_ps = result[r].begin_ps,
                                          .end_ps = result[r].end_ps,
                                          .process = r,
                                          .track = TRACK_KERNEL,
                                      });
    if (w->record && !w->several) path_note(w, name, result);
}
