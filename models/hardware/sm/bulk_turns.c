/* bulk_turns.c - stores from an SM's shared memory by its bulk copy engine, one after the other.
 *
 * The engine does not begin a store before the previous one has left the SM.  A store to a peer leaves when the
 * links, which the GPU's CPCs share (egress.h), have taken it.  So while the links are full, a warp's store to its
 * own memory waits behind another warp's store to a peer.  Loads do not wait for stores that the links hold up.
 *
 * Where the engine is the limit, warps wait equally long (H100: waits differ by 11 to 19 %).  Where the links are the
 * limit, all warps of an SM have stores on their way, and these end in no order (waits differ by 40 to 70 %).  But a
 * warp's stores to several peers leave in order.  So if all warps begin with the same peer, the links into the other
 * peers are idle. */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/gpu.h"

#include <assert.h>

/* Takes time of the links at both ends for a store.  Returns when the last byte is in. */
static uint64_t links_take(struct bulk_engine *e, const struct bulk_turn *turn, uint64_t now_ps)
{
    struct world_rank *from = e->rank, *to = &from->world->rank[turn->peer];
    const struct world_worker *ww = turn->ww;
    const uint64_t out_ps = bulk_link_take_ps(from, to, turn->off_line, turn->size_bytes);
    e->mark = egress_ask(&from->shares, from->sm_cpc[ww->sm], now_ps, out_ps);
    const uint64_t sent_ps = port_reserve(&from->egress, now_ps, out_ps, turn->size_bytes);
    return bulk_link_arrive(from, to, now_ps, sent_ps, turn->off_line, turn->size_bytes);
}

static void turn_begin(struct bulk_engine *e)
{
    struct world_rank *rank = e->rank;
    struct world *w = rank->world;
    const struct bulk_turn *turn = e->first;
    const uint64_t now_ps = sim_now_ps(w->sim);
    const bool own = turn->peer == rank->fabric.rank;
    const uint64_t engine_ps = rank_slowed_ps(rank, rate_time(own ? w->bulk_out : w->bulk_put, turn->size_bytes));
    uint64_t end_ps = port_reserve(&rank->sm[turn->ww->sm], now_ps, engine_ps, turn->size_bytes);
    if (!own) {
        const uint64_t in_ps = links_take(e, turn, now_ps);
        e->held = in_ps > end_ps;
        end_ps = later(end_ps, in_ps);
    }
    end_ps = later(end_ps, port_reserve(&w->rank[turn->peer].hbm, now_ps, rate_time(w->hbm_rows, turn->size_bytes),
                                        turn->size_bytes));
    sim_schedule_at(w->sim, &e->event, later(end_ps, now_ps + 1));
}

/* Moves the next store to the front.  While the links hold stores up, the waiting ones leave in random order, but the
 * stores of one warp keep their order.  All of them leave before any store that comes later. */
static void turn_choose(struct bulk_engine *e)
{
    if (!e->waiting)
        for (const struct bulk_turn *t = e->first; t; t = t->next) e->waiting++;
    if (!e->waiting) return;
    uint64_t at = e->held ? rng_below(&e->rng, e->waiting) : 0;
    e->waiting--;
    struct bulk_turn *turn = e->first, *before = NULL;
    while (at--) turn = turn->next;
    const struct world_worker *ww = turn->ww;
    for (turn = e->first; turn->ww != ww; turn = turn->next) before = turn;
    if (!before) return;
    before->next = turn->next;
    if (e->last == turn) e->last = before;
    turn->next = e->first;
    e->first = turn;
}

static void turn_end(struct bulk_engine *e)
{
    struct world *w = e->rank->world;
    struct bulk_turn *turn = e->first;
    struct world_worker *ww = turn->ww;
    struct rest *rest = worker_rest(ww);
    const uint64_t now_ps = sim_now_ps(w->sim);
    rest->staged_ps = later(rest->staged_ps, bulk_written_ps(w, now_ps, turn->peer == e->rank->fabric.rank));
    e->first = turn->next;
    turn_choose(e);
    pool_put(&w->turns, turn);
    assert(rest->turns > 0);
    if (--rest->turns || !ww->parked) return;
    ww->parked = false;
    sim_schedule_at(w->sim, &ww->event, now_ps);
}

void bulk_engine_run(struct sim *sim, struct sim_event *event)
{
    struct bulk_engine *e = fabric_container_of(event, struct bulk_engine, event);
    const struct bulk_turn *turn = e->first;
    const struct world_rank *rank = e->rank;
    uint64_t again_ps = 0;
    if (turn->peer != rank->fabric.rank)
        again_ps = egress_look(&e->rank->shares, rank->sm_cpc[turn->ww->sm], e->mark, sim_now_ps(sim));
    if (again_ps) {
        e->held = true;
        sim_schedule_at(sim, event, again_ps);
        return;
    }
    turn_end(e);
    if (e->first) turn_begin(e);
}

static void engines_new(struct world_rank *rank)
{
    rank->engine = memory_new(rank->world->sm_count, sizeof rank->engine[0]);
    for (uint32_t i = 0; i < rank->world->sm_count; i++)
        rank->engine[i] = (struct bulk_engine){ .event.kind = EVENT_STORED,
                                                .rank = rank,
                                                .rng = rng_seeded((uint64_t)rank->fabric.rank << 32 | i) };
}

void bulk_turn_take(struct world_worker *ww, uint16_t peer, uint32_t off_line, uint64_t size_bytes)
{
    struct world_rank *rank = worker_rank(ww);
    if (!rank->engine) engines_new(rank);
    struct bulk_engine *e = &rank->engine[ww->sm];
    struct bulk_turn *turn = pool_get(&rank->world->turns);
    *turn = (struct bulk_turn){ .ww = ww, .size_bytes = size_bytes, .peer = peer, .off_line = off_line };
    worker_rest(ww)->turns++;
    if (e->first) e->last->next = turn;
    else e->first = turn;
    e->last = turn;
    if (e->first == turn) turn_begin(e);
}
