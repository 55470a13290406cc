/* qp_room.c - lets workers wait until a QP has room or everything on it is complete. */
#include "models/hardware/nic/nic_internal.h"

#include <assert.h>
#include <errno.h>

/* Wakes the workers that can go on because a request of the QP completes at time_ps.
 * The time of a completion is known before it comes.  Where requests complete in any order, a completion whose time
 * becomes known later may still come sooner.  So a worker that waits for room stays on the list after its wake-up is
 * set, because room may come before that time. */
static void space_wake(struct world_rank *rank, struct qp *qp, uint64_t time_ps)
{
    const bool sooner = qp->unknown && rank->world->transport.order != TRANSPORT_WIRE;
    struct waiter **at = &qp_rest_of(rank->world, qp)->waiter;
    while (*at) {
        struct waiter *const waiter = *at;
        struct world_worker *const worker = &rank->worker[waiter->worker];
        const bool wakes = !waiter->flush || !qp->unknown;
        const uint64_t wake_ps = waiter->flush ? qp->done_ps : time_ps;
        if (wakes && !worker->done) world_worker_wake(rank->world->sim, worker, wake_ps, wake_ps);
        if (!worker->done && (!wakes || sooner)) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        pool_put(&rank->world->waiters, waiter);
    }
}

/* Removes the stepped worker, which has room now, from those that wait for room. */
static void waiter_forget(struct world_rank *rank, struct qp *qp)
{
    for (struct waiter **at = &qp_rest_of(rank->world, qp)->waiter; *at; at = &(*at)->next) {
        struct waiter *const waiter = *at;
        if (waiter->worker != rank->now.worker->worker->index || waiter->flush) continue;
        *at = waiter->next;
        pool_put(&rank->world->waiters, waiter);
        return;
    }
}

/* Lets the stepped worker run again at time_ps, when the QP has room or, for a flush, is complete.  0: that time is not
 * known, so the worker joins the QP's waiters. */
static void want_space(struct world_rank *rank, struct qp *qp, uint64_t time_ps, bool flush)
{
    struct world_worker *ww = rank->now.worker;
    if (time_ps) {
        if (!rank->now.space_ps || time_ps < rank->now.space_ps) rank->now.space_ps = time_ps;
        return;
    }
    struct qp_rest *rest = nic_qp_more(rank->world, qp);
    for (struct waiter *other = rest->waiter; other; other = other->next)
        if (other->worker == ww->worker->index && other->flush == flush) return;
    struct waiter *const waiter = pool_get(&rank->world->waiters);
    *waiter = (struct waiter){ .next = rest->waiter, .worker = ww->worker->index, .flush = flush };
    rest->waiter = waiter;
}

/* ---- acks: when places of a QP become free, where their number is limited ---- */

/* Removes all acks, when the time of the last one has come. */
static void acks_clear(struct world *w, struct qp *qp)
{
    arena_name *const last_name = qp_ack_last(w, qp);
    struct ack *const last = arena_at(&w->arena, *last_name);
    if (last) pool_put_list(&w->acks, last->next, last);
    *last_name = 0;
    qp->unacked = qp->unknown;
}

/* Inserts an ack after all acks that come at the same time or earlier. */
static void ack_add(struct world *w, struct qp *qp, uint64_t time_ps)
{
    arena_name *const last_name = qp_ack_last(w, qp);
    struct ack *const ack = pool_get(&w->acks), *before = arena_at(&w->arena, *last_name);
    const bool last = !before || before->time_ps <= time_ps;
    while (!last && before->next->time_ps <= time_ps) before = before->next;
    *ack = (struct ack){ .time_ps = time_ps, .next = before ? before->next : ack };
    if (before) before->next = ack;
    if (last) *last_name = arena_name_of(&w->arena, ack);
}

/* Adds the acks of `places` places that complete at time_ps.  If all earlier acks have come, they are removed first,
 * because nobody asks for room at a time that has passed. */
static void acks_add(struct world *w, struct qp *qp, uint32_t places, uint64_t time_ps)
{
    assert(qp->unacked >= qp->unknown);
    const bool in_order = w->transport.order == TRANSPORT_WIRE;
    if (qp->unacked > qp->unknown && qp->done_ps <= sim_now_ps(w->sim)) acks_clear(w, qp);
    if (in_order && qp->unacked > qp->unknown) ack_add(w, qp, qp->done_ps); /* that ack is not the last any more */
    for (uint32_t i = in_order ? 1 : 0; i < places; i++) ack_add(w, qp, time_ps);
}

static void places_complete(struct world *w, struct world_rank *poster, struct qp *qp, uint32_t places,
                            uint64_t time_ps, bool limited)
{
    assert(qp->unknown >= places); /* no more requests complete than were posted */
    if (w->transport.order == TRANSPORT_WIRE) time_ps = later(time_ps, qp->done_ps);
    if (limited) acks_add(w, qp, places, time_ps);
    qp->done_ps = later(qp->done_ps, time_ps);
    qp->unknown -= places;
    if (qp->rested && qp_rest_of(w, qp)->waiter) space_wake(poster, qp, time_ps);
}

void world_qp_complete(struct world *w, uint16_t poster, struct qp *qp, uint16_t queue, uint32_t places,
                       uint64_t time_ps)
{
    struct qp *const room = nic_room(&w->rank[poster], qp, queue);
    if (room != qp) places_complete(w, &w->rank[poster], qp, places, time_ps, false);
    places_complete(w, &w->rank[poster], room, places, time_ps, w->queue_depth);
}

/* When the soonest acknowledgement that has not been read comes.  0: this is not known. */
static uint64_t ack_next_ps(const struct world *w, struct qp *qp)
{
    const struct ack *const last = arena_at(&w->arena, *qp_ack_last(w, qp));
    if (last) return last->next->time_ps;
    return w->transport.order == TRANSPORT_WIRE && qp->unacked > qp->unknown ? qp->done_ps : 0;
}

static void acks_read(struct world *w, struct qp *qp, uint64_t now_ps)
{
    if (qp->done_ps <= now_ps) acks_clear(w, qp);
    arena_name *const last_name = qp_ack_last(w, qp);
    for (struct ack *last; (last = arena_at(&w->arena, *last_name)) && last->next->time_ps <= now_ps;) {
        struct ack *const ack = last->next;
        if (ack == last) *last_name = 0;
        else last->next = ack->next;
        assert(qp->unacked > qp->unknown); /* unacked counts the listed acks and unknown places */
        qp->unacked--;
        pool_put(&w->acks, ack);
    }
}

bool world_queue_full(struct world_rank *rank, struct qp *qp, uint32_t places)
{
    struct world *w = rank->world;
    if (!w->queue_depth) return false;
    assert(w->queue_depth >= places);
    const uint64_t now_ps = rank->now.worker->cursor_ps;
    request_look_ahead(w, qp->held_last);          /* the next request may join the train of this one */
    const bool coming = qp->unacked > qp->unknown; /* an ack is on its way or has come unread */
    if (coming && (qp->done_ps <= now_ps || qp->unacked + places > w->queue_depth)) acks_read(w, qp, now_ps);
    if (qp->unacked + places <= w->queue_depth) {
        if (qp->rested && qp_rest_of(w, qp)->waiter) waiter_forget(rank, qp);
        return false;
    }
    if (qp->held_last) nic_ring(rank, qp); /* only requests in flight will make room */
    want_space(rank, qp, ack_next_ps(w, qp), false);
    return true;
}

int world_flush(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    (void)w;
    struct world_rank *rank = rank_of(f);
    struct qp *qp = nic_qp_find(rank, peer, queue);
    if (!qp) return 0;
    if (qp->held_last) nic_ring(rank, qp);
    /* Where a thread posts, the thread sees what is complete, and tells the GPU. */
    const struct transport *t = &rank->world->transport;
    const bool asked = t->poster == CLUSTER_POST_PROXY && qp->done_ps;
    const uint64_t told_ps = qp->done_ps + (asked ? t->proxy_ps + transport_quiet_ps(t, f->rank_count) : 0);
    if (qp->unknown == 0 && told_ps <= sim_now_ps(rank->world->sim)) { /* memory holds what is in by now */
        acks_read(rank->world, qp, qp->done_ps);
        nic_qp_give_back(rank, peer, queue);
        return 0;
    }
    want_space(rank, qp, qp->unknown ? 0 : told_ps, true);
    return -EAGAIN;
}
