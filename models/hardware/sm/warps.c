/* warps.c - an SM's warps run a program, see warps.h.  Knows no world, no clock and no cluster file. */
#include "models/hardware/sm/warps.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { SCHEDULERS = 4, CHAIN_CYCLES = 4, EIGHTHS = 8 };
enum { FLIGHT = 32 }; /* the most loads of a warp, or requests of a team or a warp, in flight */
enum { STEPS_MOST = 1 << 24, STEPS_ALONE = 1 << 12 }; /* more steps are cut off; so many run before any are added up */

struct line { /* a queue of times at which an awaited value will be there */
    uint64_t ps[FLIGHT];
    uint32_t first, end;
};

struct warp {
    uint64_t now_ps;
    uint64_t stored_ps; /* when its stores so far are performed; kept if loads wait for stores */
    struct line load, out;
    uint32_t left;            /* bytes that its current store still has to store */
    uint32_t waited, through; /* how many BULK_IN requests of its team it has waited for, and how many of them it has
                               * finished with */
    uint32_t round, number;
    uint32_t again[LOOP_NESTED + 1];
    uint8_t at, depth;
    bool done, blocked;
};

struct team {
    struct line in;
};

/* The warps that run are place[first] to place[end - 1], in order of time.  Warps of equal times are in the order in
 * which they were added. */
enum { PLACES = 4 * WARPS_MOST };
struct order {
    uint32_t first, end;
    struct place {
        uint64_t ps; /* the warp's time */
        uint32_t warp;
    } place[PLACES];
};

struct run {
    const struct warps_sm *sm;
    const struct loop_op *op;
    uint32_t op_count, team_warps, warp_count, rounds;
    struct warp warp[WARPS_MOST]; /* only the first warp_count are used */
    struct team team[WARPS_MOST];
    struct order order;
    uint64_t port_ps, way_ps, scheduler_ps[SCHEDULERS]; /* until when each is busy */
    uint64_t port_busy_ps, way_busy_ps, scheduled_ps;   /* how long each was busy altogether */
    uint64_t lead_ps, round_ps[WARPS_ROUNDS];
};

static uint64_t later_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t serve(uint64_t *free_ps, uint64_t from_ps, uint64_t takes_ps)
{
    *free_ps = later_of(*free_ps, from_ps) + takes_ps;
    return *free_ps;
}

static void line_add(struct line *line, uint64_t ps) { line->ps[line->end++ % FLIGHT] = ps; }
static uint64_t line_take(struct line *line) { return line->ps[line->first++ % FLIGHT]; }
static bool line_full(const struct line *line) { return line->end - line->first == FLIGHT; }

static bool order_empty(const struct order *o) { return o->first == o->end; }
static uint32_t order_first(const struct order *o) { return o->place[o->first].warp; }

/* Adds a warp.  The end of the list that is nearer makes room: a warp that issues comes near the first, a warp that
 * waits comes near the last. */
static void order_add(struct run *r, uint32_t warp)
{
    struct order *o = &r->order;
    const uint64_t ps = r->warp[warp].now_ps;
    if (o->end == PLACES) {
        memmove(&o->place[1], &o->place[o->first], (o->end - o->first) * sizeof o->place[0]);
        o->end = 1 + o->end - o->first;
        o->first = 1;
    }
    uint32_t at;
    if (o->first && (order_empty(o) || o->place[(o->first + o->end) / 2].ps > ps)) {
        for (at = --o->first; at + 1 < o->end && o->place[at + 1].ps <= ps; at++) o->place[at] = o->place[at + 1];
    } else {
        for (at = o->end++; at > o->first && o->place[at - 1].ps > ps; at--) o->place[at] = o->place[at - 1];
    }
    o->place[at] = (struct place){ ps, warp };
}

/* Returns when the bytes of an access are through the port and, if they enter or leave the SM, through its way. */
static uint64_t access_end_ps(struct run *r, const struct warp *v, uint8_t place, rate_q20 rate, uint32_t bytes)
{
    const uint64_t takes_ps = rate_time(rate, bytes);
    uint64_t end_ps = serve(&r->port_ps, v->now_ps, takes_ps);
    r->port_busy_ps += takes_ps;
    if (place == LOOP_SHARED) return end_ps;
    r->way_busy_ps += takes_ps;
    return later_of(end_ps, serve(&r->way_ps, v->now_ps, takes_ps));
}

static uint64_t engine_end_ps(struct run *r, const struct warp *v, rate_q20 rate, uint32_t passes, uint32_t bytes)
{
    const uint64_t takes_ps = rate_time(rate, bytes) + passes * rate_time(r->sm->skew, bytes) / EIGHTHS;
    r->way_busy_ps += takes_ps;
    return serve(&r->way_ps, v->now_ps, takes_ps);
}

/* Runs a load, which issues its accesses one after another. */
static void load_run(struct run *r, struct warp *v, const struct loop_op *o)
{
    for (uint32_t left = o->n, bytes; left; left -= bytes) {
        bytes = left < o->by ? left : o->by;
        if (line_full(&v->load)) v->now_ps = later_of(v->now_ps, line_take(&v->load));
        const uint64_t come_ps = access_end_ps(r, v, o->place, r->sm->load, bytes) + r->sm->load_ps[o->place];
        line_add(&v->load, later_of(come_ps, v->stored_ps));
        v->now_ps += r->sm->access_ps;
    }
}

/* Runs a store.  It issues its accesses one after another, each after the load that brings its value.  Returns false if
 * a load has not come yet; other warps run until then. */
static bool store_run(struct run *r, struct warp *v, const struct loop_op *o)
{
    const bool shared = o->place == LOOP_SHARED;
    if (!v->left) v->left = o->n;
    for (uint32_t bytes; v->left; v->left -= bytes) {
        bytes = v->left < o->by ? v->left : o->by;
        if (v->load.first != v->load.end) {
            const uint64_t come_ps = v->load.ps[v->load.first % FLIGHT];
            if (come_ps > v->now_ps) {
                v->now_ps = come_ps;
                return false;
            }
            (void)line_take(&v->load);
        }
        if (!shared && v->now_ps < r->lead_ps) r->lead_ps = v->now_ps;
        const uint64_t end_ps = access_end_ps(r, v, o->place, shared ? r->sm->load : r->sm->store, bytes);
        if (r->sm->stored_ps) v->stored_ps = end_ps + r->sm->stored_ps;
        v->now_ps += r->sm->access_ps;
    }
    return true;
}

static void instructions_run(struct run *r, struct warp *v, const struct loop_op *o)
{
    const uint64_t takes_ps = o->n * r->sm->cycle_ps, chain = o->code == LOOP_CHAIN ? CHAIN_CYCLES : 1;
    const uint64_t end_ps = serve(&r->scheduler_ps[v->number % SCHEDULERS], v->now_ps, takes_ps);
    r->scheduled_ps += takes_ps;
    v->now_ps = later_of(end_ps, v->now_ps + chain * takes_ps);
}

static void team_wake(struct run *r, uint32_t team, uint64_t now_ps)
{
    for (uint32_t i = team * r->team_warps; i < (team + 1) * r->team_warps; i++) {
        struct warp *v = &r->warp[i];
        if (!v->blocked) continue;
        v->blocked = false;
        v->now_ps = later_of(v->now_ps, now_ps);
        order_add(r, i);
    }
}

/* How many of the team's BULK_IN requests every warp of the team, except `but`, has finished with. */
static uint32_t least_through(const struct run *r, uint32_t team, const struct warp *but)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = team * r->team_warps; i < (team + 1) * r->team_warps; i++)
        if (&r->warp[i] != but && r->warp[i].through < least) least = r->warp[i].through;
    return least == UINT32_MAX ? r->team[team].in.end : least;
}

/* Runs an operation that asks something of the bulk engine or waits for it.  Returns false if the warp must try
 * again. */
static bool engine_step(struct run *r, struct warp *v, const struct loop_op *o)
{
    const struct warps_sm *sm = r->sm;
    const uint32_t number = v->number / r->team_warps;
    struct line *in = &r->team[number].in;
    switch (o->code) {
    case LOOP_BULK_IN:
        in->ps[in->end++ % FLIGHT] = engine_end_ps(r, v, sm->load, sm->in_passes, o->n) + sm->in_ps[o->place];
        team_wake(r, number, v->now_ps);
        v->now_ps += sm->turn_ps;
        return true;
    case LOOP_BULK_WAIT:
        if (v->through != v->waited) team_wake(r, number, v->now_ps);
        v->through = v->waited;
        if (v->waited == in->end) {
            v->blocked = true;
            return false;
        }
        v->now_ps = later_of(v->now_ps, in->ps[v->waited++ % FLIGHT]);
        return true;
    case LOOP_BULK_LEFT: v->blocked = in->end - least_through(r, number, v) > o->n; return !v->blocked;
    case LOOP_BULK_OUT:
        if (line_full(&v->out)) v->now_ps = later_of(v->now_ps, line_take(&v->out));
        if (v->now_ps < r->lead_ps) r->lead_ps = v->now_ps;
        line_add(&v->out, engine_end_ps(r, v, sm->put, sm->out_passes, o->n) + sm->read_ps);
        v->now_ps += sm->turn_ps;
        return true;
    default:
        while (v->out.end - v->out.first > o->n) v->now_ps = later_of(v->now_ps, line_take(&v->out));
        return true;
    }
}

/* Runs the begin or the end of a block.  Returns the index of the warp's next operation. */
static uint32_t flow_step(struct run *r, struct warp *v, const struct loop_op *o)
{
    switch (o->code) {
    case LOOP_REPEAT:
        if (!o->n) return v->at + o->by + 1u;
        v->again[v->depth++] = o->n;
        return v->at + 1u;
    case LOOP_FIRST:
    case LOOP_OTHERS:
        if ((v->number % r->team_warps < o->n) != (o->code == LOOP_FIRST)) return v->at + o->by + 1u;
        v->again[v->depth++] = 1;
        return v->at + 1u;
    default: /* END: its block begins o->by operations before it */
        if (--v->again[v->depth - 1]) return v->at - o->by + 1u;
        v->depth--;
        return v->at + 1u;
    }
}

static void warp_step(struct run *r, struct warp *v)
{
    if (v->at == r->op_count) {
        r->round_ps[v->round] = later_of(r->round_ps[v->round], v->now_ps);
        v->done = ++v->round == r->rounds;
        v->at = 0;
        return;
    }
    const struct loop_op *o = &r->op[v->at];
    switch (o->code) {
    case LOOP_LOAD:
        load_run(r, v, o);
        v->at++;
        break;
    case LOOP_STORE: v->at = (uint8_t)(v->at + store_run(r, v, o)); break;
    case LOOP_USE:
        while (v->load.first != v->load.end) v->now_ps = later_of(v->now_ps, line_take(&v->load));
        v->at++;
        break;
    case LOOP_ALU:
    case LOOP_CHAIN:
        instructions_run(r, v, o);
        v->at++;
        break;
    case LOOP_FENCE:
        v->now_ps += r->sm->fence_ps;
        v->at++;
        break;
    case LOOP_REPEAT:
    case LOOP_FIRST:
    case LOOP_OTHERS:
    case LOOP_END: v->at = (uint8_t)flow_step(r, v, o); break;
    default: v->at = (uint8_t)(v->at + engine_step(r, v, o)); break;
    }
}

/* Lets all blocked warps go on.  Called when no warp runs, so that nothing else would wake them.  Returns false if no
 * warp is blocked. */
static bool blocked_wake(struct run *r)
{
    bool any = false;
    for (uint32_t i = 0; i < r->warp_count; i++) {
        struct warp *v = &r->warp[i];
        if (!v->blocked) continue;
        v->blocked = false;
        v->at++;
        order_add(r, i);
        any = true;
    }
    return any;
}

/* ---- steps that repeat ----
 *
 * In a long loop the SM soon comes back to a state in which it was before, only later: all times differ by the same,
 * and the loop's counters have fallen.  What happened between the two states happens again and again, as long as no
 * counter reaches its end.  So these turns are added up at once, and the answer is exactly that of all steps. */

struct steady {
    struct run then;        /* the state when its first warp was at an END */
    uint32_t passed, until; /* how many ENDs were passed since; at how many the next state is kept */
};

static uint64_t ahead_ps(uint64_t ps, uint64_t now_ps) { return ps > now_ps ? ps - now_ps : 0; }

/* Whether the last `count` times of two lines are equally far ahead. */
static bool lines_same(const struct line *a, uint64_t a_ps, const struct line *b, uint64_t b_ps, uint32_t count)
{
    for (uint32_t i = 1; i <= count && i <= FLIGHT; i++)
        if (ahead_ps(a->ps[(a->end - i) % FLIGHT], a_ps) != ahead_ps(b->ps[(b->end - i) % FLIGHT], b_ps)) return false;
    return true;
}

/* Whether a warp is in the same state at both times.  One counter may have fallen, by *turns. */
static bool warps_same(const struct run *then, const struct run *now, uint32_t i, uint64_t then_ps, uint64_t now_ps,
                       uint32_t *turns)
{
    const struct warp *a = &then->warp[i], *b = &now->warp[i];
    const struct line *in_a = &then->team[i / now->team_warps].in, *in_b = &now->team[i / now->team_warps].in;
    *turns = 0;
    if (a->done != b->done || in_a->end - a->through != in_b->end - b->through) return false;
    if (b->done) return true;
    if (a->round != b->round || a->at != b->at || a->depth != b->depth) return false;
    for (uint32_t d = 0; d < b->depth; d++) {
        if (a->again[d] == b->again[d]) continue;
        if (*turns || a->again[d] < b->again[d]) return false;
        *turns = a->again[d] - b->again[d];
    }
    const uint32_t loads = b->load.end - b->load.first, outs = b->out.end - b->out.first, ins = in_b->end - b->waited;
    return a->blocked == b->blocked && a->left == b->left &&
           ahead_ps(a->now_ps, then_ps) == ahead_ps(b->now_ps, now_ps) &&
           ahead_ps(a->stored_ps, then_ps) == ahead_ps(b->stored_ps, now_ps) && a->load.end - a->load.first == loads &&
           a->out.end - a->out.first == outs && in_a->end - a->waited == ins &&
           lines_same(&a->load, then_ps, &b->load, now_ps, loads) &&
           lines_same(&a->out, then_ps, &b->out, now_ps, outs) && lines_same(in_a, then_ps, in_b, now_ps, ins);
}

/* Whether what all warps share is in the same state at both times. */
static bool shared_same(const struct run *then, const struct run *now, uint64_t then_ps, uint64_t now_ps)
{
    bool same = ahead_ps(then->port_ps, then_ps) == ahead_ps(now->port_ps, now_ps) &&
                ahead_ps(then->way_ps, then_ps) == ahead_ps(now->way_ps, now_ps);
    for (uint32_t i = 0; i < SCHEDULERS; i++)
        same = same && ahead_ps(then->scheduler_ps[i], then_ps) == ahead_ps(now->scheduler_ps[i], now_ps);
    const uint32_t waiting = now->order.end - now->order.first;
    same = same && then->order.end - then->order.first == waiting;
    for (uint32_t i = 0; same && i < waiting; i++)
        same = then->order.place[then->order.first + i].warp == now->order.place[now->order.first + i].warp;
    return same;
}

static void line_shift(struct line *line, uint64_t ps)
{
    for (uint32_t i = 0; i < FLIGHT; i++) line->ps[i] += ps;
}

/* Adds `times` turns, each of which is what happened since `then`. */
static void turns_add(struct run *r, const struct run *then, const uint32_t *turns, uint64_t times, uint64_t turn_ps)
{
    const uint64_t ps = times * turn_ps;
    for (uint32_t i = 0; i < r->warp_count; i++) {
        struct warp *v = &r->warp[i];
        if (v->done) continue;
        v->now_ps += ps;
        v->stored_ps += ps;
        line_shift(&v->load, ps);
        line_shift(&v->out, ps);
        for (uint32_t d = 0; d < v->depth; d++)
            if (v->again[d] != then->warp[i].again[d]) v->again[d] -= (uint32_t)times * turns[i];
    }
    for (uint32_t i = 0; i < r->warp_count / r->team_warps; i++) line_shift(&r->team[i].in, ps);
    for (uint32_t i = r->order.first; i < r->order.end; i++) r->order.place[i].ps += ps;
    r->port_ps += ps;
    r->way_ps += ps;
    for (uint32_t i = 0; i < SCHEDULERS; i++) r->scheduler_ps[i] += ps;
    r->port_busy_ps += times * (r->port_busy_ps - then->port_busy_ps);
    r->way_busy_ps += times * (r->way_busy_ps - then->way_busy_ps);
    r->scheduled_ps += times * (r->scheduled_ps - then->scheduled_ps);
}

/* If the SM is in the state in which it was at `then`, adds as many turns as all loops still have. */
static bool turns_take(struct run *r, const struct run *then)
{
    const uint32_t first = order_first(&r->order);
    const uint64_t then_ps = then->warp[first].now_ps, now_ps = r->warp[first].now_ps;
    uint32_t turns[WARPS_MOST], times = UINT32_MAX;
    if (!shared_same(then, r, then_ps, now_ps)) return false;
    for (uint32_t i = 0; i < r->warp_count; i++) {
        if (!warps_same(then, r, i, then_ps, now_ps, &turns[i])) return false;
        for (uint32_t d = 0; turns[i] && d < r->warp[i].depth; d++)
            if (r->warp[i].again[d] != then->warp[i].again[d] && (r->warp[i].again[d] - 1) / turns[i] < times)
                times = (r->warp[i].again[d] - 1) / turns[i];
    }
    if (times == UINT32_MAX) return false;
    turns_add(r, then, turns, times, now_ps - then_ps);
    return true;
}

/* Called before each step.  Compares the state at ENDs with one that was kept before, and keeps another one each time
 * that twice as many ENDs were passed. */
static void steady_look(struct run *r, struct steady *s)
{
    const struct warp *v = &r->warp[order_first(&r->order)];
    if (v->at == r->op_count || r->op[v->at].code != LOOP_END) return;
    if (s->passed++ < s->until) {
        if (!turns_take(r, &s->then)) return;
        s->until = 0;
    }
    s->until = s->until ? 2 * s->until : WARPS_MOST;
    s->passed = 0;
    s->then = *r;
}

/* Steps warps until all are done, at most `most` times.  Each time, steps the warp whose time is least.  Returns
 * whether all are done. */
static bool warps_step(struct run *r, uint32_t most, struct steady *steady)
{
    for (uint32_t steps = 0; steps < most; steps++) {
        if (order_empty(&r->order) && !blocked_wake(r)) return true;
        if (steady) steady_look(r, steady);
        const uint32_t i = order_first(&r->order);
        r->order.first++;
        warp_step(r, &r->warp[i]);
        if (!r->warp[i].done && !r->warp[i].blocked) order_add(r, i);
    }
    return false;
}

/* Steps warps until all are done.  Returns false if that takes too many steps. */
static bool warps_go(struct run *r, bool each)
{
    for (uint32_t i = 0; i < r->warp_count; i++) order_add(r, i);
    if (warps_step(r, STEPS_ALONE, NULL)) return true;
    struct steady steady = { .then = *r };
    return warps_step(r, STEPS_MOST, each ? NULL : &steady);
}

struct warps_cost warps_run(const struct warps_sm *sm, const struct loop_op *op, uint32_t op_count, uint32_t team,
                            uint32_t teams, uint32_t rounds, bool each)
{
    struct run r;
    team = team > 1 ? team : 1;
    team = team < WARPS_MOST ? team : WARPS_MOST;
    teams = teams > 1 ? teams : 1;
    teams = teams < WARPS_MOST / team ? teams : WARPS_MOST / team;
    memset((char *)&r + offsetof(struct run, port_ps), 0, sizeof r - offsetof(struct run, port_ps));
    memset(r.warp, 0, teams * team * sizeof r.warp[0]);
    memset(r.team, 0, teams * sizeof r.team[0]);
    r.sm = sm;
    r.op = op;
    r.op_count = op_count;
    r.team_warps = team;
    r.warp_count = teams * team;
    r.rounds = rounds < WARPS_ROUNDS ? rounds : WARPS_ROUNDS;
    r.lead_ps = UINT64_MAX;
    r.order.first = r.order.end = 1;
    for (uint32_t i = 0; i < r.warp_count; i++) r.warp[i].number = i;
    const bool whole = warps_go(&r, each);
    uint32_t ahead = 0;
    for (uint32_t i = 0; i < op_count; i++)
        if (op[i].code == LOOP_BULK_LEFT) ahead = op[i].n + 1;
    const uint64_t last_ps = r.round_ps[r.rounds - 1];
    const uint64_t busy_ps = later_of(later_of(r.way_busy_ps, r.port_busy_ps), r.scheduled_ps / SCHEDULERS);
    return (struct warps_cost){ .first_ps = r.round_ps[0],
                                .next_ps = last_ps > r.round_ps[0] ? last_ps - r.round_ps[0] : 0,
                                .lead_ps = r.lead_ps < r.round_ps[0] ? r.lead_ps : r.round_ps[0],
                                .way_ps = busy_ps / (r.rounds * teams),
                                .ahead = ahead,
                                .cut = !whole };
}
