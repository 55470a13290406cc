/* moe_v2_gate.c - the barriers that begin and end a V2 kernel (PROTOCOLS.md 1.7), the warps that count how many tokens
 * will come, and what the kernel's workers share.  Knows no worker that moves rows. */
#include "models/moe/moe_v2.h"

#include <stdio.h>

void v2_worker_add(struct v2_rank *r, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                   uint32_t warps)
{
    ht_kernel_add(&r->ht, w, role, sm, warps);
    fabric_watch(w, v2_word_private(r, V2_OPEN), 1, 0);
    ++*v2_grown(r, V2_FINISHED);
}

enum worker_step v2_finish(struct fabric_worker *w, const struct v2_rank *r)
{
    fabric_signal_add(w, v2_word_private(r, V2_FINISHED), 1, SITE_NONE);
    return WORKER_DONE;
}

void v2_stage_rows(struct fabric_worker *w, uint8_t site, struct site_given *given, uint32_t rows, uint64_t read_bytes)
{
    fabric_work(w,
                &(struct fabric_work){
                    .kind = FABRIC_WORK_COPY, .rows = rows, .read_bytes = read_bytes, .site = site, .given = given });
}

bool v2_tell(struct fabric_worker *w, const struct v2_rank *r, uint32_t peer, uint32_t channel, uint32_t word,
             uint32_t count, bool finished, uint32_t *told)
{
    const uint32_t value = count << 1 | finished;
    if (*told == value) return true;
    if (!ht_word_send(w, &r->ht, peer, v2_queue(r, channel), word, value)) return false;
    *told = value;
    return true;
}

/* How many warps the worker that posts to all peers has, at least `least`.  Each peer that the NIC reaches has a thread
 * that posts.  These threads post at the same time, so each counts as a warp. */
static uint32_t posting_warps(const struct v2_rank *r, uint32_t least)
{
    const struct fabric *f = r->ht.base.fabric;
    const uint32_t peers = v2_hybrid(r) ? r->ht.g.nodes - 1 : r->ht.g.ranks - moe_min(r->ht.g.ranks, f->ranks_per_node);
    return peers < least ? least : moe_min(peers, UINT8_MAX);
}

/* ---- gate ---------------------------------------------------------------------------------------------- */

enum { GATE_PHASE, GATE_COME, GATE_OPEN, GATE_WORKERS, GATE_FLUSH, GATE_CLOSE, GATE_END };

static bool gate_arrived(struct v2_gate *k)
{
    const struct v2_rank *r = k->rank;
    for (; k->next < r->channels * k->from_count; k->next++) {
        const uint32_t channel = k->next / k->from_count, from = k->next % k->from_count;
        const uint32_t word = v2_word(r, (enum v2_word)k->kind, channel, from);
        if (ht_word(&r->ht, word) & 1) continue;
        fabric_watch(&k->worker, word, 1, moe_word_make(r->ht.epoch, 1));
        return false;
    }
    return true;
}

/* Charges for a barrier's count of its uses, which tells which word is in use.  The count is read when the barrier
 * begins, and raised when the barrier ends. */
static bool gate_phase(struct v2_gate *k)
{
    ht_scan_here(&k->worker, SITE_V2_BARRIER_LOOK, 1, 8);
    return true;
}

/* Whether all peers of the node and of the rail have reached this kernel. */
static bool gate_come(struct v2_gate *k)
{
    const bool nvl = ht_barrier_step(&k->worker, &k->nvl, k->rank->ht.epoch);
    return ht_barrier_step(&k->worker, &k->rdma, k->rank->ht.epoch) && nvl;
}

static bool gate_open(struct v2_gate *k)
{
    fabric_signal_add(&k->worker, v2_word_private(k->rank, V2_OPEN), 1, SITE_NONE);
    return true;
}

static bool gate_workers(struct v2_gate *k)
{
    const uint32_t word = v2_word_private(k->rank, V2_FINISHED);
    const uint64_t all = *v2_grown(k->rank, V2_FINISHED);
    if (fabric_load(k->worker.fabric, word) != all) {
        fabric_watch(&k->worker, word, 1, all);
        return false;
    }
    ht_barrier_begin(&k->nvl);
    return gate_phase(k);
}

/* Whether puts have arrived.  In direct mode, all puts must have arrived before the last barrier.  In hybrid mode the
 * gate need not wait, because words go behind the puts. */
static bool gate_flush(struct v2_gate *k)
{
    const struct fabric *f = k->rank->ht.base.fabric;
    const uint32_t all = v2_hybrid(k->rank) ? 0 : (uint32_t)f->rank_count * f->queue_count;
    for (; k->flushed < all; k->flushed++) {
        const uint16_t peer = (uint16_t)(k->flushed % f->rank_count), queue = (uint16_t)(k->flushed / f->rank_count);
        if (fabric_path(f, peer) == FABRIC_RDMA && fabric_flush(&k->worker, peer, queue)) return false;
    }
    return true;
}

/* Whether the rank's stores to itself have arrived.  They have arrived when its own word of the barrier has. */
static bool self_arrived(const struct v2_gate *k)
{
    return k->told_self && ht_word(&k->rank->ht, k->nvl.word + k->nvl.number) >= k->nvl.round;
}

static bool gate_self(struct v2_gate *k)
{
    const struct ht_rank *h = &k->rank->ht;
    if (!k->told_self)
        k->told_self = ht_word_send(&k->worker, h, h->g.rank, 0, k->nvl.word + k->nvl.number, k->nvl.round);
    return self_arrived(k);
}

static bool gate_close(struct v2_gate *k)
{
    if (k->kind == V2_COMBINE_OUT) return gate_arrived(k);
    const bool self = gate_self(k);
    return ht_barrier_step(&k->worker, &k->nvl, k->rank->ht.epoch) && self && gate_arrived(k);
}

static enum worker_step gate_step(struct fabric_worker *w)
{
    static bool (*const pass[GATE_END])(struct v2_gate * k) = {
        gate_phase, gate_come, gate_open, gate_workers, gate_flush, gate_close,
    };
    struct v2_gate *k = fabric_container_of(w, struct v2_gate, worker);
    for (; k->stage != GATE_END; k->stage++)
        if (!pass[k->stage](k)) return WORKER_WAIT;
    return WORKER_DONE;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_gate *k = fabric_container_of(w, struct v2_gate, worker);
    const struct v2_rank *r = k->rank;
    const int nvl = ht_barrier_missing(w->fabric, &k->nvl, r->ht.epoch);
    const int rdma = ht_barrier_missing(w->fabric, &k->rdma, r->ht.epoch);
    const char *end = k->stage <= GATE_COME ? "the begin of the kernel" : "the end of the kernel";
    const bool barrier = k->stage != GATE_CLOSE || (k->kind != V2_COMBINE_OUT && nvl >= 0);
    if (k->stage == GATE_WORKERS) snprintf(text, text_size, "%s waits for its own workers", end);
    else if (k->stage == GATE_FLUSH) snprintf(text, text_size, "%s waits for its puts", end);
    else if (barrier) ht_barrier_describe(text, text_size, end, nvl >= 0 ? nvl : rdma, "a barrier");
    else if (!k->from_count || (k->kind != V2_COMBINE_OUT && !self_arrived(k)))
        snprintf(text, text_size, "%s waits for its own stores", end);
    else {
        const uint32_t channel = k->next / k->from_count, from = k->next % k->from_count;
        snprintf(text, text_size, "%s waits for channel %u of rank %u", end, channel,
                 k->kind < V2_OUT ? ht_neighbour(&r->ht.g, from) : ht_rail(&r->ht.g, from));
    }
}

static const struct worker_role gate_role = { .step = gate_step, .describe = gate_describe };

void v2_gate_launch(struct v2_rank *r, enum v2_word kind, uint32_t from_count)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t nvl_round = r->gate.nvl.round, rdma_round = r->gate.rdma.round;
    r->gate = (struct v2_gate){
        .rank = r,
        .kind = kind,
        .from_count = from_count,
        .nvl = ht_barrier_node(g),
        .rdma = ht_barrier_rail(g, g->local),
    };
    r->gate.nvl.round = nvl_round;
    r->gate.rdma.round = rdma_round;
    ht_barrier_begin(&r->gate.nvl);
    ht_barrier_begin(&r->gate.rdma);
    ++*v2_grown(r, V2_OPEN);
    ht_kernel_add(&r->ht, &r->gate.worker, &gate_role, 0, posting_warps(r, 1));
    fabric_watch(&r->gate.worker, 0, g->local + g->nodes, 0);
    fabric_watch(&r->gate.worker, v2_word_private(r, V2_FINISHED), 1, 0);
    if (from_count) fabric_watch(&r->gate.worker, v2_word(r, kind, 0, 0), r->channels * from_count, 0);
}

/* ---- notify -------------------------------------------------------------------------------------------- */

enum {
    NOTIFY_READ,
    NOTIFY_COUNT,
    NOTIFY_GATHER,
    NOTIFY_NODES,
    NOTIFY_NODES_CAME,
    NOTIFY_RANKS,
    NOTIFY_CAME,
    NOTIFY_END
};

/* Reads an array of size_bytes, and ends the step. */
static bool array_read(struct v2_notify *n, uint8_t site, struct site_given *given, uint64_t size_bytes)
{
    fabric_work(&n->worker, &(struct fabric_work){
                                .kind = FABRIC_WORK_SCAN, .site = site, .given = given, .read_bytes = size_bytes });
    n->read = true;
    return true;
}

/* The threads read the counts of all ranks and experts.  What they make of these is in shared memory. */
static bool counts_read(struct v2_notify *n)
{
    return array_read(n, SITE_V2_COUNTS_SUM, &n->rank->counts, n->rank->counts.size[0] * 8);
}

/* The SM reads its share of the tokens.  A warp reads a token's top-k choices, waits for them, and counts in shared
 * memory. */
static bool notify_read(struct v2_notify *n)
{
    const struct ht_rank *h = &n->rank->ht;
    const uint64_t size_bytes = (uint64_t)h->g.tokens * h->g.topk * 4 / h->base.options->num_sms;
    return !h->g.tokens || array_read(n, SITE_V2_CHOICES_COUNT, &n->rank->choices, size_bytes);
}

static bool notify_count(struct v2_notify *n)
{
    fabric_signal_add(&n->worker, v2_word_private(n->rank, V2_NOTIFIED), 1, SITE_NONE);
    return true;
}

static bool notify_gather(struct v2_notify *n)
{
    const uint64_t notified = fabric_load(n->worker.fabric, v2_word_private(n->rank, V2_NOTIFIED));
    if (notified != *v2_grown(n->rank, V2_NOTIFIED)) return false;
    return counts_read(n);
}

static bool notify_nodes(struct v2_notify *n)
{
    const struct v2_rank *r = n->rank;
    const struct ht_geometry *g = &r->ht.g;
    for (; g->nodes > 1 && n->next < g->nodes; n->next++)
        if (!ht_word_send(&n->worker, &r->ht, ht_rail(&r->ht.g, n->next), 0, v2_word_counts(r, true) + g->node, 1))
            return false;
    return true;
}

static bool notify_nodes_came(struct v2_notify *n)
{
    const struct v2_rank *r = n->rank;
    for (; r->ht.g.nodes > 1 && n->next < r->ht.g.nodes; n->next++)
        if (!ht_word(&r->ht, v2_word_counts(r, true) + n->next)) return false;
    return r->ht.g.nodes == 1 || counts_read(n);
}

/* Tells each rank of the node how many of this rank's tokens it gets.  In hybrid mode the number would be that of the
 * tokens that this rank passes on.  Nothing in the model reads it, so it is 0. */
static bool notify_ranks(struct v2_notify *n)
{
    const struct v2_rank *r = n->rank;
    return ht_node_tell(&n->worker, &r->ht, &n->next, v2_word_counts(r, false) + r->ht.g.self,
                        v2_hybrid(r) ? NULL : r->ht.layout.tokens_per_rank, SITE_NONE);
}

static bool notify_came(struct v2_notify *n)
{
    const struct v2_rank *r = n->rank;
    for (; n->next < r->ht.g.local; n->next++)
        if (!ht_word(&r->ht, v2_word_counts(r, false) + n->next)) return false;
    return counts_read(n);
}

static enum worker_step notify_step(struct fabric_worker *w)
{
    static bool (*const pass[NOTIFY_END])(struct v2_notify * n) = {
        notify_read, notify_count, notify_gather, notify_nodes, notify_nodes_came, notify_ranks, notify_came,
    };
    struct v2_notify *n = fabric_container_of(w, struct v2_notify, worker);
    if (!v2_is_open(n->rank)) return WORKER_WAIT;
    const uint32_t end = w->sm == 0 ? NOTIFY_END : NOTIFY_GATHER;
    for (n->read = false; !n->read && n->stage < end; n->stage++, n->next = 0)
        if (!pass[n->stage](n)) return WORKER_WAIT;
    return n->read ? WORKER_MORE : v2_finish(w, n->rank);
}

static void notify_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct v2_notify *n = fabric_container_of(w, struct v2_notify, worker);
    const uint32_t next = moe_min(n->next, (n->stage < NOTIFY_RANKS ? n->rank->ht.g.nodes : n->rank->ht.g.local) - 1);
    if (n->stage <= NOTIFY_GATHER)
        snprintf(text, text_size, "v2 notify on SM %u waits for the kernel to open or for other SMs", w->sm);
    else
        snprintf(text, text_size, "v2 notify waits for the counts of rank %u",
                 n->stage < NOTIFY_RANKS ? ht_rail(&n->rank->ht.g, next) : ht_neighbour(&n->rank->ht.g, next));
}

static const struct worker_role notify_role = { .step = notify_step, .describe = notify_describe };

void v2_notify_launch(struct v2_rank *r)
{
    const uint32_t sms = r->ht.base.options->num_sms;
    *v2_grown(r, V2_NOTIFIED) += sms;
    r->choices = (struct site_given){ .size = { r->ht.g.tokens, V2_NOTIFY_WARPS * sms } };
    r->counts = (struct site_given){ .size = { r->ht.g.ranks + r->ht.g.experts, 32 * V2_NOTIFY_WARPS } };
    for (uint32_t sm = 0; sm < sms; sm++) {
        struct v2_notify *n = &r->notify[sm];
        *n = (struct v2_notify){ .rank = r };
        v2_worker_add(r, &n->worker, &notify_role, sm, sm ? V2_NOTIFY_WARPS : posting_warps(r, V2_NOTIFY_WARPS));
        if (sm) continue;
        n->worker.moment = WORKER_COUNTS;
        fabric_watch(&n->worker, v2_word_private(r, V2_NOTIFIED), 1, 0);
        fabric_watch(&n->worker, v2_word_counts(r, false), r->ht.g.local + r->ht.g.nodes, 0);
    }
}
