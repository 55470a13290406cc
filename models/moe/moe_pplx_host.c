/* moe_pplx_host.c - the thread of the host of pplx-garden's kernels (PROTOCOLS.md 1.18): it makes the NIC write, learns
 * which rows come, and tells the GPU. */
#include "models/moe/moe_pplx.h"

#include <stdio.h>
#include <stdlib.h>

enum host_state { HOST_COUNTS, HOST_FIRST, HOST_LEARN, HOST_REST, HOST_AWAIT, HOST_BACK };

/* far_count() returns how many ranks other nodes have, and far_rank() the rank with this number among them.  The next
 * node's ranks come first. */
static uint32_t far_count(const struct pp_rank *r) { return r->ht.g.ranks - r->ht.g.local; }
static uint32_t far_rank(const struct pp_rank *r, uint32_t number)
{
    return (pp_rank_first(r) + r->ht.g.local + number) % r->ht.g.ranks;
}

static void tell_gpu(struct pp_host *k) { fabric_signal_add(&k->worker, pp_word_to_gpu(k->rank), 1, SITE_NONE); }

/* Puts rows and a signal.  Together they stand for a write with an immediate value.  At the peer a thread of the
 * library polls for such values and counts them. */
static bool rows_put(struct pp_host *k, uint32_t peer, const struct ht_slot *slot, uint64_t from, uint64_t to,
                     uint32_t rows, enum pp_word word)
{
    const struct pp_rank *r = k->rank;
    const struct fabric_write write = {
        .target_offset = to,
        .charge_bytes = (uint64_t)rows * slot->bytes,
        .peer = (uint16_t)peer,
        .queue = (uint16_t)((r->ht.g.rank + peer) % PP_NICS), /* this rank and the peer both use all NICs equally */
        .site = SITE_PPLX_PUT,
        .data = r->ht.base.fabric->heap + from,
        .size_bytes = rows * slot->stored,
    };
    const struct fabric_signal signal = { .value = moe_word_make(r->ht.epoch, 1),
                                          .word = pp_word(r, word, r->ht.g.rank),
                                          .peer = write.peer,
                                          .queue = write.queue };
    return fabric_put(&k->worker, &write, &signal) == 0;
}

/* ---- dispatch ---- */

/* Sends this rank's counts to all other ranks.  Ranks of this node get them by NVLink, and are told after all counts
 * have been stored.  In the library the NIC writes these counts, too. */
static bool counts_send(struct pp_host *k)
{
    const struct pp_rank *r = k->rank;
    const struct ht_geometry *g = &r->ht.g;
    const struct ht_slot slot = { .bytes = 4 * g->experts, .stored = 4 * g->experts };
    const uint64_t at = r->map.counts + (uint64_t)g->rank * slot.bytes;
    for (; k->next < g->ranks - 1; k->next++) {
        const uint32_t peer = (g->rank + 1 + k->next) % g->ranks;
        const struct fabric_write write = { .target_offset = at,
                                            .charge_bytes = slot.bytes,
                                            .peer = (uint16_t)peer,
                                            .site = SITE_PPLX_COUNTS_SEND,
                                            .data = r->ht.base.fabric->heap + at,
                                            .size_bytes = slot.bytes };
        if (pp_is_near(r, peer) ? fabric_store(&k->worker, &write) != 0
                                : !rows_put(k, peer, &slot, at, at, 1, PP_COUNTS))
            return false;
    }
    for (; k->next < g->ranks + g->local - 2; k->next++) {
        const uint32_t peer = pp_rank_first(r) + (g->self + 2 + k->next - g->ranks) % g->local;
        if (!ht_word_send(&k->worker, &r->ht, peer, 0, pp_word(r, PP_COUNTS, g->rank), 1)) return false;
    }
    k->next = 0;
    return true;
}

/* Puts the first rows.  At each peer a part of recv is for this rank alone, so there is always room for them. */
static bool first_put(struct pp_host *k)
{
    const struct pp_rank *r = k->rank;
    for (; k->next < far_count(r); k->next++) {
        const uint32_t peer = far_rank(r, k->next);
        const uint64_t from = r->sent_before[peer * r->ht.g.local_experts];
        const uint64_t to = (uint64_t)r->ht.g.rank * r->first_rows;
        if (!rows_put(k, peer, &r->ht.dispatch_slot, pp_dispatched(r, r->map.send, from),
                      pp_dispatched(r, r->map.recv, to), moe_min(pp_rows_to(r, peer), r->first_rows), PP_FIRST))
            return false;
    }
    k->next = 0;
    return true;
}

static bool counts_come(const struct pp_rank *r)
{
    for (uint32_t s = 0; s < r->ht.g.ranks; s++)
        if (s != r->ht.g.rank && !pp_come(r, PP_COUNTS, s)) return false;
    return true;
}

static void counts_sum(struct pp_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t first = g->rank * g->local_experts;
    r->places = 0;
    for (uint32_t e = 0; e < g->local_experts; e++) r->ht.expert_counts[e] = 0;
    for (uint32_t s = 0; s < g->ranks; s++) {
        const uint32_t *counts = pp_counts(r, s);
        r->before_here[s] = 0;
        r->come_before[s + 1] = r->come_before[s];
        for (uint32_t e = 0; e < first; e++) r->before_here[s] += counts[e];
        for (uint32_t e = 0; e < g->local_experts; e++) {
            r->come_before[s + 1] += counts[first + e];
            r->ht.expert_counts[e] += counts[first + e];
        }
    }
    for (uint32_t e = 0; e < g->local_experts; e++) {
        r->expert_place[e] = r->places;
        r->places += (uint32_t)moe_align(r->ht.expert_counts[e], r->ht.base.options->expert_alignment);
    }
    r->ht.recv_before[g->ranks] = r->rows = r->come_before[g->ranks];
}

/* Lists the rows of a source, expert after expert. */
static void source_list(struct pp_rank *r, uint32_t source, uint32_t *row, uint32_t *taken)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t *counts = pp_counts(r, source) + (size_t)g->rank * g->local_experts;
    uint32_t number = 0;
    for (uint32_t e = 0; e < g->local_experts; e++)
        for (uint32_t i = 0; i < counts[e]; i++)
            r->row[(*row)++] = (struct pp_row){ source, number++, e, r->expert_place[e] + taken[e]++ };
}

/* Lists the rows that come, those that take longest first: the rows of other nodes, then of this node's other ranks,
 * then the rank's own. */
static void rows_list(struct pp_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    uint32_t row = 0, *taken = kernel_alloc(g->local_experts, sizeof taken[0]);
    if (r->rows > r->rows_room) {
        kernel_drop(r, r->row);
        r->row = kernel_keep(r, r->rows, sizeof r->row[0]);
        r->rows_room = r->rows;
    }
    for (uint32_t i = 0; i < far_count(r); i++) source_list(r, far_rank(r, i), &row, taken);
    r->far_rows = row;
    for (uint32_t i = 1; i < g->local; i++) source_list(r, pp_rank_first(r) + (g->self + i) % g->local, &row, taken);
    source_list(r, g->rank, &row, taken);
    free(taken);
}

/* Adds up the counts, computes each coming row's place in out, and copies the list of rows to the GPU. */
static void learn(struct pp_host *k)
{
    struct pp_rank *r = k->rank;
    const struct ht_geometry *g = &r->ht.g;
    counts_sum(r);
    rows_list(r);
    ht_scan_here(&k->worker, SITE_PPLX_COUNTS_SUM, g->ranks * (g->rank + 2) * g->local_experts, 0);
    if (r->rows) ht_scan_here(&k->worker, SITE_PPLX_ROWS_LIST, r->rows, 0);
    r->learned = true;
    tell_gpu(k);
}

static bool rest_put(struct pp_host *k)
{
    const struct pp_rank *r = k->rank;
    const uint32_t local = r->ht.g.local_experts;
    for (; k->next < far_count(r); k->next++) {
        const uint32_t peer = far_rank(r, k->next), rows = pp_rows_to(r, peer);
        if (rows <= r->first_rows) continue;
        uint64_t to = pp_rest_begin(r);
        for (uint32_t s = 0; s < r->ht.g.rank; s++)
            for (uint32_t e = 0; e < local; e++) to += pp_counts(r, s)[peer * local + e];
        const uint64_t from = r->sent_before[peer * local] + r->first_rows;
        if (!rows_put(k, peer, &r->ht.dispatch_slot, pp_dispatched(r, r->map.send, from),
                      pp_dispatched(r, r->map.recv, to), rows - r->first_rows, PP_REST))
            return false;
    }
    k->next = 0;
    return true;
}

static bool far_come(struct pp_host *k)
{
    const struct pp_rank *r = k->rank;
    for (; k->next < far_count(r); k->next++) {
        const uint32_t source = far_rank(r, k->next);
        if (!pp_come(r, PP_FIRST, source)) return false;
        if (pp_rows_from(r, source) > r->first_rows && !pp_come(r, PP_REST, source)) return false;
    }
    return true;
}

/* Does the host's part of dispatch.  A launch that sends without receiving also reads the counts, if they come before
 * the blocks end.  Then the launch that receives need not wait for them. */
static enum worker_step dispatch_step(struct fabric_worker *w)
{
    struct pp_host *k = fabric_container_of(w, struct pp_host, worker);
    struct pp_rank *r = k->rank;
    if (k->state == HOST_COUNTS) {
        if (!pp_told(r, pp_word_to_host(r), r->to_host, 1) || !counts_send(k)) return WORKER_WAIT;
        k->state = HOST_FIRST;
    }
    if (k->state == HOST_FIRST) {
        if (!pp_told(r, pp_word_to_host(r), r->to_host, 2) || !first_put(k)) return WORKER_WAIT;
        k->state = HOST_LEARN;
    }
    if (k->state == HOST_LEARN) {
        const bool ended = pp_told(r, pp_word_open(r), r->opened, pp_barriers_sending(r));
        if (!r->launch.receives && (r->learned || ended)) return WORKER_DONE;
        if (!r->learned) {
            if (!counts_come(r)) return WORKER_WAIT;
            learn(k);
            return WORKER_MORE;
        }
        k->state = HOST_REST;
    }
    if (k->state == HOST_REST) {
        if (!rest_put(k)) return WORKER_WAIT;
        k->state = HOST_AWAIT;
    }
    if (!far_come(k)) return WORKER_WAIT;
    tell_gpu(k);
    return WORKER_DONE;
}

/* ---- combine ---- */

static enum worker_step combine_step(struct fabric_worker *w)
{
    struct pp_host *k = fabric_container_of(w, struct pp_host, worker);
    const struct pp_rank *r = k->rank;
    if (k->state == HOST_BACK) {
        if (!pp_told(r, pp_word_to_host(r), r->to_host, 1)) return WORKER_WAIT;
        for (; k->next < far_count(r); k->next++) {
            const uint32_t peer = far_rank(r, k->next);
            if (!rows_put(k, peer, &r->ht.combine_slot, pp_returned(r, r->map.send, r->come_before[peer]),
                          pp_returned(r, r->map.recv, r->before_here[peer]), pp_rows_from(r, peer), PP_BACK))
                return WORKER_WAIT;
        }
        if (!r->launch.receives) return WORKER_DONE;
        k->state = HOST_AWAIT;
        k->next = 0;
    }
    for (; k->next < far_count(r); k->next++)
        if (!pp_come(r, PP_BACK, far_rank(r, k->next))) return WORKER_WAIT;
    tell_gpu(k);
    return WORKER_DONE;
}

/* ---- the barrier between dispatch and combine ---- */

static enum worker_step barrier_step(struct fabric_worker *w)
{
    struct pp_host *k = fabric_container_of(w, struct pp_host, worker);
    return ht_barrier_step(w, &k->barrier, k->rank->ht.epoch) ? WORKER_DONE : WORKER_WAIT;
}

/* The rank that the thread waits for, or the number of ranks if it waits for none. */
static uint32_t awaited(const struct pp_host *k)
{
    const struct pp_rank *r = k->rank;
    const uint32_t ranks = r->ht.g.ranks;
    if (!r->launch.sends && !r->launch.receives)
        return (uint32_t)ht_barrier_missing(r->ht.base.fabric, &k->barrier, r->ht.epoch);
    if (k->state == HOST_AWAIT) return k->next < far_count(r) ? far_rank(r, k->next) : ranks;
    for (uint32_t s = 0; k->state == HOST_LEARN && s < ranks; s++)
        if (s != r->ht.g.rank && !pp_come(r, PP_COUNTS, s)) return s;
    return ranks;
}

static void host_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct pp_host *k = fabric_container_of(w, struct pp_host, worker);
    const uint32_t missing = awaited(k);
    if (missing < k->rank->ht.g.ranks) snprintf(text, text_size, "pplx's host waits for rank %u", missing);
    else snprintf(text, text_size, "pplx's host waits for the blocks or has no room");
}

static const struct worker_role dispatch_role = { .step = dispatch_step, .describe = host_describe };
static const struct worker_role combine_role = { .step = combine_step, .describe = host_describe };
static const struct worker_role barrier_role = { .step = barrier_step, .describe = host_describe };

void pp_host_launch(struct pp_rank *r)
{
    struct pp_host *k = &r->host;
    const struct pp_launch *l = &r->launch;
    const bool barrier = !l->sends && !l->receives;
    *k = (struct pp_host){ .rank = r,
                           .barrier = { .word = pp_word(r, PP_BARRIER, 0),
                                        .count = (uint16_t)r->ht.g.ranks,
                                        .number = (uint16_t)r->ht.g.rank,
                                        .stride = 1 } };
    k->state = l->combine ? l->sends ? HOST_BACK : HOST_AWAIT : l->sends ? HOST_COUNTS : HOST_LEARN;
    ht_barrier_begin(&k->barrier);
    /* The thread has no SM, but a worker needs one.  It gets the last block's SM.  There its stores delay no other
     * worker, because the last block releases nothing before they are done. */
    ht_kernel_add(&r->ht, &k->worker,
                  barrier      ? &barrier_role
                  : l->combine ? &combine_role
                               : &dispatch_role,
                  r->blocks - 1, 1);
    fabric_watch(&k->worker, pp_word_to_host(r), 1, 0);
    fabric_watch(&k->worker, pp_word_open(r), 1, 0);
    fabric_watch(&k->worker, pp_word(r, PP_COUNTS, 0), PP_SOURCE_WORDS * r->ht.g.ranks, 0);
}
