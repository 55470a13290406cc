/* bulk_turns.c - the requests of an SM's warps to its bulk copy engine, which serves one after the other.
 *
 * The engine does not begin a request before the previous one has left the SM.  A store to a peer leaves when the
 * links, which the GPU's CPCs share (egress.h), have taken it.  So while the links are full, a warp's store to its own
 * memory waits behind another warp's store to a peer, and so does a load.  (Two H200s, 64 SMs, 15 warps each with a row
 * of 14464 B on its way to the peer: a load takes 33 us, as long as 11 such rows.)
 *
 * Other loads, atomics and words wait behind what the SM has handed to the links but the links have not taken.  (The
 * same H200s, 16 to 132 SMs: a load takes 0.33 to 2.1 us longer, in which 6.5 KB of its SM's stores leave.)
 *
 * Warps take turns, one request each.  So a warp that has one row for several peers stores it to the second one when
 * all waiting warps have stored theirs to the first.  If all begin with the same peer, the links into the others are
 * idle.  Warps that begin at one time come in no order. */
#include "models/hardware/sm/bulk.h"
#include "models/hardware/sm/gpu.h"

/* Whether the request is a store to a peer. */
static bool turn_away(const struct bulk_engine *e, const struct bulk_turn *turn)
{
    return !turn->loads && turn->peer != e->rank->fabric.rank;
}

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

static void load_begin(struct bulk_engine *e, struct bulk_turn *turn)
{
    struct world_rank *rank = e->rank;
    struct world *w = rank->world;
    const uint64_t now_ps = sim_now_ps(w->sim), size_bytes = turn->size_bytes;
    const uint64_t taken_ps = own_reserve(rank, &rank->sm[turn->ww->sm], now_ps, turn->load.engine_ps, size_bytes);
    const uint64_t read_ps = own_reserve(rank, &rank->hbm, now_ps, rate_time(w->hbm_rows, size_bytes), size_bytes);
    turn->load.end_ps = later(turn->load.end_ps, later(read_ps, now_ps + turn->load.in_ps));
    sim_schedule_at(w->sim, &e->event, later(taken_ps, now_ps + 1));
}

static void store_begin(struct bulk_engine *e, const struct bulk_turn *turn)
{
    struct world_rank *rank = e->rank;
    struct world *w = rank->world;
    const uint64_t now_ps = sim_now_ps(w->sim);
    const bool own = turn->peer == rank->fabric.rank;
    const uint64_t takes_ps =
        own ? rate_time(w->bulk_out, turn->size_bytes) : bulk_put_ps(w, turn->off_line, turn->size_bytes);
    const uint64_t engine_ps = rank_slowed_ps(rank, takes_ps);
    uint64_t end_ps = port_reserve(&rank->sm[turn->ww->sm], now_ps, engine_ps, turn->size_bytes);
    e->begun_ps = now_ps;
    e->taken_ps = end_ps;
    if (!own) end_ps = later(end_ps, links_take(e, turn, now_ps));
    end_ps = later(end_ps, port_reserve(&w->rank[turn->peer].hbm, now_ps, rate_time(w->hbm_rows, turn->size_bytes),
                                        turn->size_bytes));
    sim_schedule_at(w->sim, &e->event, later(end_ps, now_ps + 1));
}

static void turn_begin(struct bulk_engine *e)
{
    if (e->first->loads) load_begin(e, e->first);
    else store_begin(e, e->first);
}

/* Puts a warp, by its first request, behind another one.  at NULL: before all. */
static void warp_put(struct bulk_engine *e, struct bulk_turn *at, struct bulk_turn *turn)
{
    turn->ahead = at;
    turn->behind = at ? at->behind : e->first;
    *(turn->behind ? &turn->behind->ahead : &e->last) = turn;
    *(at ? &at->behind : &e->first) = turn;
}

static void turn_end(struct bulk_engine *e)
{
    struct world *w = e->rank->world;
    struct bulk_turn *turn = e->first;
    struct world_worker *ww = turn->ww;
    struct rest *rest = worker_rest(ww);
    const uint64_t now_ps = sim_now_ps(w->sim), next_ps = later(now_ps, turn->load.end_ps);
    if (!turn->loads)
        rest->staged_ps = later(rest->staged_ps, bulk_written_ps(w, now_ps, turn->peer == e->rank->fabric.rank));
    if (turn_away(e, turn)) {
        e->away_bytes -= turn->size_bytes;
        held_note(e->rank, &w->rank[turn->peer], e->begun_ps, e->taken_ps, now_ps);
    }
    e->first = turn->behind;
    *(e->first ? &e->first->ahead : &e->last) = NULL;
    if (turn->next) warp_put(e, e->last, turn->next);
    else rest->turn = NULL;
    pool_put(&w->turns, turn);
    if (rest->turn || !ww->parked) return;
    ww->parked = false;
    sim_schedule_at(w->sim, &ww->event, later(next_ps, rest->staged_ps));
}

void bulk_engine_run(struct sim *sim, struct sim_event *event)
{
    struct bulk_engine *e = fabric_container_of(event, struct bulk_engine, event);
    const struct bulk_turn *turn = e->first;
    const struct world_rank *rank = e->rank;
    uint64_t again_ps = 0;
    if (e->idle) {
        e->idle = false;
        turn_begin(e);
        return;
    }
    if (turn_away(e, turn))
        again_ps = egress_look(&e->rank->shares, rank->sm_cpc[turn->ww->sm], e->mark, sim_now_ps(sim));
    if (again_ps) {
        sim_schedule_at(sim, event, again_ps);
        return;
    }
    turn_end(e);
    if (e->first) turn_begin(e);
}

static struct bulk_engine *engine_of(const struct world_worker *ww)
{
    struct world_rank *rank = worker_rank(ww);
    if (rank->engine) return &rank->engine[ww->sm];
    rank->engine = memory_new(rank->world->sm_count, sizeof rank->engine[0]);
    for (uint32_t i = 0; i < rank->world->sm_count; i++)
        rank->engine[i] = (struct bulk_engine){ .event.kind = EVENT_STORED,
                                                .rank = rank,
                                                .rng = rng_seeded((uint64_t)rank->fabric.rank << 32 | i) };
    return &rank->engine[ww->sm];
}

/* The warp behind which a new one comes: the last one, or, if it asks for a load, any of those at the end that asked
 * for theirs at the same time. */
static struct bulk_turn *place_of(struct bulk_engine *e, const struct bulk_turn *turn)
{
    const struct bulk_turn *begun = e->idle ? NULL : e->first, *last;
    struct bulk_turn *at = e->last;
    uint32_t same = 0;
    for (; turn->loads && at && at != begun; at = at->ahead, same++) {
        last = worker_rest(at->ww)->turn;
        if (!last->loads || last->came_ps != turn->came_ps) break;
    }
    for (uint64_t skip = same ? rng_below(&e->rng, same + 1) : 0; skip > 0; skip--) at = at ? at->behind : e->first;
    return at;
}

static void turn_add(struct bulk_engine *e, const struct bulk_turn *as)
{
    struct world *w = e->rank->world;
    struct bulk_turn *turn = pool_get(&w->turns);
    *turn = *as;
    turn->came_ps = sim_now_ps(w->sim);
    if (turn_away(e, turn)) e->away_bytes += turn->size_bytes;
    if (!e->first) {
        e->idle = true;
        sim_schedule_at(w->sim, &e->event, turn->came_ps);
    }
    struct rest *rest = worker_rest(turn->ww);
    if (rest->turn) rest->turn->next = turn;
    else warp_put(e, place_of(e, turn), turn);
    rest->turn = turn;
}

uint64_t bulk_ahead_ps(struct world_rank *rank, uint16_t sm)
{
    const uint64_t most_bytes = rank->world->cluster->gpu.engine.ahead_bytes;
    const struct bulk_engine *e = rank->engine ? &rank->engine[sm] : NULL;
    if (!e || !e->first || e->idle || !turn_away(e, e->first)) return 0;
    const uint64_t now_ps = sim_now_ps(rank->world->sim), first_bytes = e->first->size_bytes;
    uint64_t left_ps = sim_event_time_ps(&e->event);
    if (left_ps <= e->taken_ps) left_ps = egress_look(&rank->shares, rank->sm_cpc[sm], e->mark, now_ps);
    if (left_ps <= e->taken_ps) return 0; /* the engine is the limit, not the links */
    const uint64_t byte_ps = (left_ps - e->begun_ps) / first_bytes;
    const uint64_t all_ps = left_ps - now_ps + (e->away_bytes - first_bytes) * byte_ps;
    return all_ps < most_bytes * byte_ps ? all_ps : most_bytes * byte_ps;
}

void bulk_turn_take(struct world_worker *ww, uint16_t peer, uint32_t off_line, uint64_t size_bytes)
{
    turn_add(engine_of(ww),
             &(struct bulk_turn){ .ww = ww, .size_bytes = size_bytes, .peer = peer, .off_line = off_line });
}

void bulk_turn_load(struct world_worker *ww, uint64_t size_bytes, struct bulk_load load)
{
    turn_add(engine_of(ww), &(struct bulk_turn){ .ww = ww, .size_bytes = size_bytes, .load = load, .loads = true });
}
