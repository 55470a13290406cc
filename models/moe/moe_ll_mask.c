/* moe_ll_mask.c - low-latency kernels that survive the failure of ranks (PROTOCOLS.md 1.4, "shrink"): masks, planned
 * failures, and the clean kernel.
 *
 * Every rank keeps its own mask.  It waits for each peer's count (dispatch), flag (combine) or barrier signal
 * (clean).  When that wait reaches the timeout, the rank masks the peer for good.  The rank sends nothing more to the
 * peer, and treats the peer's experts like -1 in the routing.  The peer may be slow and not dead.  Counts and rows that
 * the peer sends later go to words and slots that the rank does not read any more.
 *
 * Data sent to a rank before it was masked may still be on their way two calls later.  Then the memory that they are
 * read from is written again.  Only the masked rank could tell that they had arrived.  A queue has room for two calls.
 * The clean kernel's signals find room because the NIC of a rank answers even if the rank launches nothing.  If a
 * peer's NIC is gone, the link breaks. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "models/moe/moe_ll.h"

bool ll_failed(const struct moe_options *o, uint32_t rank, uint32_t phase, uint32_t iteration)
{
    assert(rank < o->ranks && o->failure_count <= MOE_FAILURES_MAX);
    const uint32_t call = o->hook ? phase / 2 : phase;
    for (uint32_t i = 0; i < o->failure_count; i++) {
        const struct moe_failure *failure = &o->failure[i];
        if (failure->rank != rank) continue;
        return iteration > failure->iteration || (iteration == failure->iteration && call >= failure->call);
    }
    return false;
}

const char *ll_mask_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    assert(o->failure_count <= MOE_FAILURES_MAX);
    if (o->failure_count == 0) return NULL;
    if (!o->mask_timeout_ps) KERNEL_REFUSE("fail: needs mask-timeout, or the others wait for ever");
    for (uint32_t i = 0; i < o->failure_count; i++) {
        const uint32_t rank = o->failure[i].rank;
        if (rank >= o->ranks) KERNEL_REFUSE("fail: expected ranks from 0 to %u, found %u", o->ranks - 1, rank);
        for (uint32_t j = 0; j < i; j++)
            if (o->failure[j].rank == rank) KERNEL_REFUSE("fail: rank %u fails twice", rank);
    }
    if (o->failure_count < o->ranks) return NULL;
    KERNEL_REFUSE("fail: expected a rank that lives, found that all %u fail", o->ranks);
}

static void rank_mask(struct ll_rank *r, uint32_t rank)
{
    r->mask[rank] = 1;
    for (uint64_t i = 0; i < (uint64_t)r->own->tokens * r->g.topk; i++)
        if (r->experts[i] != ROUTING_NONE && (uint32_t)r->experts[i] / r->g.local_experts == rank)
            r->experts_left[i] = ROUTING_NONE;
}

/* Sets the deadline when the worker has to wait for the first time. */
bool ll_give_up(struct ll_rank *r, struct fabric_worker *w, uint32_t source)
{
    if (r->mask[source]) return true;
    const uint64_t now_ps = fabric_now_ps(w->fabric);
    uint64_t *deadline_ps = &r->deadline_ps[w->index];
    if (!*deadline_ps) *deadline_ps = now_ps + r->base.options->mask_timeout_ps;
    fabric_wake_at(w, *deadline_ps);
    if (now_ps < *deadline_ps || source == w->fabric->rank) return false; /* a rank never masks itself */
    rank_mask(r, source);
    return true;
}

/* ---- clean ---- */

/* On GPUs the kernel zeroes its buffers, with one barrier before and one after.  Here words with an old call number
 * read as 0, so only the barriers remain.  Each peer has a thread, which takes part in two rounds with it. */

enum { CLEAN_ROUNDS = 2 };

static enum worker_step cleaner_step(struct fabric_worker *w)
{
    struct ll_cleaner *c = fabric_container_of(w, struct ll_cleaner, worker);
    struct ll_rank *r = c->rank;
    for (; c->round < CLEAN_ROUNDS; c->round++, c->sent = false, r->deadline_ps[w->index] = 0) {
        const struct fabric_signal signal = { .peer = c->peer,
                                              .word = ll_word_sync(r, w->fabric->rank),
                                              .value = moe_word_make(r->call, c->round + 1) };
        const int rc = c->sent ? 0 : fabric_signal(w, &signal);
        if (rc == -EAGAIN) return WORKER_WAIT;
        assert(rc == 0);
        c->sent = true;
        if (fabric_load(w->fabric, ll_word_sync(r, c->peer)) >= signal.value) continue;
        if (!ll_given_up(r, w, c->peer)) return WORKER_WAIT;
        break;
    }
    return WORKER_DONE;
}

static void cleaner_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ll_cleaner *c = fabric_container_of(w, struct ll_cleaner, worker);
    if (c->sent) snprintf(text, text_size, "clean waits for rank %u in barrier %u", c->peer, c->round + 1);
    else snprintf(text, text_size, "clean has no room on the queue to rank %u", c->peer);
}

static const struct worker_role cleaner_role = { .step = cleaner_step, .describe = cleaner_describe };

struct kernel_launch *ll_clean_launch(struct ll_rank *r)
{
    for (uint16_t peer = 0; peer < r->g.ranks; peer++) {
        struct ll_cleaner *c = &r->cleaner[peer];
        if (peer == r->base.fabric->rank || r->mask[peer]) continue;
        *c = (struct ll_cleaner){ .rank = r, .peer = peer };
        ll_worker_add(r, &c->worker, &cleaner_role, 0, 1);
        fabric_watch(&c->worker, ll_word_sync(r, peer), 1, 0);
    }
    return &r->kernel;
}
