/* moe_ht_intra_combine.c - intranode combine (protocols.md 1.2): every received row goes back and is summed.
 *
 *   sender, SM 2c           for each rank: the channel's rows that came from it, in chunks, into the ring there
 *   reducers, SM 2c + 1     23 warps, each takes every 23rd token of the channel once all its rows have come; they
 *                           are stepped in groups: a step reduces as many tokens as the group has warps, at most
 *   coordinator, SM 2c + 1  one warp: tells each rank how far the slowest reducer warp has read its ring
 *
 * A reducer warp has read a rank's ring up to the row of its last token, or, where that token has no row from the
 * rank, up to the next one that has.  So slots come free only as the slowest warp goes on. */
#include "models/moe/moe_ht_intra.h"

#include <stdio.h>

/* ---- sender -------------------------------------------------------------------------------------------- */

static void sender_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot)
{
    const struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    ht_slot_pack_combine(&s->rank->ht, s->first + sequence, slot);
}

static uint32_t sender_chunk(const struct intra_sender *s)
{
    return moe_min(s->chunk, s->count - s->ring.tail);
}

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    struct ht_rank *h = &s->rank->ht;
    struct ht_ring *ring = &s->ring;
    if (!ring->pending && ring->published == ring->tail) {
        if (ht_ring_space(h, ring) < sender_chunk(s)) return WORKER_WAIT;
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_PEEK });
        ring->pending = sender_chunk(s);
        if (ring->pending) intra_sender_peek(s);
    }
    if (!ht_ring_write(w, h, ring, &h->combine_slot, sender_fill)) return WORKER_WAIT;
    if (!ht_ring_publish(w, h, ring)) return WORKER_WAIT;
    if (ring->tail == s->count) return WORKER_DONE;
    return ht_ring_space(h, ring) < sender_chunk(s) ? WORKER_WAIT : WORKER_MORE;
}

static void sender_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    snprintf(text, text_size, "combine sender of channel %u waits for rank %u to free slots: %u of %u sent, %u read",
             s->channel, s->ring.peer, s->ring.tail, s->count, ht_word(&s->rank->ht, s->ring.head_word));
}

static void sender_launch(struct intra_rank *r, uint32_t channel, uint32_t peer)
{
    struct ht_rank *h = &r->ht;
    struct intra_sender *s = &r->sender[intra_pair(r, channel, peer)];
    intra_sender_init(r, s, channel, peer, &h->base.options->combine);
    s->worker.step = sender_step;
    s->worker.describe = sender_describe;
    s->first = r->channel_row[peer * h->g.channels + channel];
    s->count = r->channel_count[peer * h->g.channels + channel];
    ht_kernel_add(h, &s->worker, 2 * channel, INTRA_WARPS / h->g.ranks);
    fabric_watch(&s->worker, s->ring.head_word, 1);
}

/* ---- reducers ------------------------------------------------------------------------------------------ */

/* The warps of group g are [first_warp(g), first_warp(g + 1)). */
static uint32_t group_first_warp(uint32_t group) { return group * INTRA_REDUCER_WARPS / INTRA_GROUPS; }

/* The group's tokens in the order in which its warps take them. */
static uint32_t token_at(const struct intra_reducer *d, uint32_t i)
{
    const uint32_t warps = d->worker.warps;
    return d->first_token + i / warps * INTRA_REDUCER_WARPS + d->first_warp + i % warps;
}

static bool token_ready(struct intra_reducer *d, uint32_t token)
{
    const struct intra_rank *r = d->rank;
    const uint32_t *position = &r->ht.layout.position[(size_t)token * r->ht.g.ranks];
    for (uint32_t left = r->ht.layout.bits[token]; left; left &= left - 1) {
        const uint32_t source = (uint32_t)__builtin_ctz(left);
        if (d->tail[source] > position[source]) continue;
        d->tail[source] = ht_word(&r->ht, intra_word(r, INTRA_TAIL, d->channel, source));
        if (d->tail[source] <= position[source]) return false;
    }
    return true;
}

/* argument: the first token's place in the group's order, and above it how many. */
static void reducer_run(void *context, uint64_t argument)
{
    const struct intra_reducer *d = context;
    struct ht_rank *h = &d->rank->ht;
    const uint32_t first = (uint32_t)argument, count = (uint32_t)(argument >> 32);
    for (uint32_t i = first; i < first + count; i++) {
        const uint32_t token = token_at(d, i);
        const uint8_t *slot[HT_LOCAL_MAX];
        uint32_t slot_count = 0;
        for (uint32_t left = h->layout.bits[token]; left; left &= left - 1) {
            const uint32_t source = (uint32_t)__builtin_ctz(left);
            const uint32_t at = h->layout.position[(size_t)token * h->g.ranks + source] % h->base.options->combine.nvl_recv;
            slot[slot_count++] = h->base.fabric->heap + intra_ring_offset(d->rank, d->channel, source)
                                 + (size_t)at * h->combine_slot.stored;
        }
        ht_token_combine(h, token, slot, slot_count);
    }
}

static enum worker_step reducer_step(struct fabric_worker *w)
{
    struct intra_reducer *d = fabric_container_of(w, struct intra_reducer, worker);
    struct ht_rank *h = &d->rank->ht;
    if (d->done == d->count) return WORKER_DONE;
    const uint32_t most = moe_min(w->warps, d->count - d->done);
    uint32_t count = 0, rows = 0;
    for (; count < most && token_ready(d, token_at(d, d->done + count)); count++)
        rows += (uint32_t)__builtin_popcount(h->layout.bits[token_at(d, d->done + count)]);
    if (count == 0) return WORKER_WAIT;
    const struct ht_slot *slot = &h->combine_slot;
    const uint64_t row = slot->row_bytes + slot->topk * sizeof(float);
    fabric_work(w, &(struct fabric_work){
        .kind = FABRIC_WORK_REDUCE, .warps = (uint16_t)(count < w->warps ? count : 0), .rows = count,
        .read_bytes = rows * row + (uint64_t)count * h->base.options->bias_count * slot->row_bytes,
        .write_bytes = count * row, .run = reducer_run, .context = d, .argument = (uint64_t)count << 32 | d->done });
    d->done += count;
    fabric_signal_add(w, intra_word_done(d->rank, d->channel, d->group), count);
    if (d->done == d->count) return WORKER_DONE;
    return token_ready(d, token_at(d, d->done)) ? WORKER_MORE : WORKER_WAIT;
}

static void reducer_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct intra_reducer *d = fabric_container_of(w, struct intra_reducer, worker);
    const struct ht_rank *h = &d->rank->ht;
    if (d->done == d->count) {
        snprintf(text, text_size, "reducer %u of channel %u has nothing left", d->group, d->channel);
        return;
    }
    const uint32_t token = token_at(d, d->done);
    for (uint32_t left = h->layout.bits[token]; left; left &= left - 1) {
        const uint32_t source = (uint32_t)__builtin_ctz(left);
        if (d->tail[source] > h->layout.position[(size_t)token * h->g.ranks + source]) continue;
        snprintf(text, text_size, "reducer %u of channel %u waits for the row of token %u from rank %u", d->group,
                 d->channel, token, source);
        return;
    }
    snprintf(text, text_size, "reducer %u of channel %u has token %u complete", d->group, d->channel, token);
}

static void reducer_launch(struct intra_rank *r, uint32_t channel, uint32_t group)
{
    struct ht_rank *h = &r->ht;
    struct intra_reducer *d = &r->reducer[channel * INTRA_GROUPS + group];
    *d = (struct intra_reducer){ .worker = { .step = reducer_step, .describe = reducer_describe }, .rank = r,
                                 .channel = channel, .group = group, .first_warp = group_first_warp(group) };
    moe_channel_range(h->g.tokens, h->g.channels, channel, &d->first_token, &d->end_token);
    ht_kernel_add(h, &d->worker, 2 * channel + 1, group_first_warp(group + 1) - d->first_warp);
    const uint32_t tokens = d->end_token - d->first_token, left = tokens % INTRA_REDUCER_WARPS;
    d->count = tokens / INTRA_REDUCER_WARPS * d->worker.warps;
    if (left > d->first_warp) d->count += moe_min(left - d->first_warp, d->worker.warps);
    const uint32_t done_word = intra_word_done(r, channel, group);
    r->done_base[channel * INTRA_GROUPS + group] = fabric_load(h->base.fabric, done_word);
    fabric_watch(&d->worker, intra_word(r, INTRA_TAIL, channel, 0), h->g.ranks);
}

/* ---- coordinator --------------------------------------------------------------------------------------- */

/* How far the slowest warp has read each ring; false: all warps have finished. */
static bool heads_min(const struct intra_coordinator *k, uint32_t *head)
{
    const struct intra_rank *r = k->rank;
    const uint32_t ranks = r->ht.g.ranks;
    bool busy = false;
    for (uint32_t s = 0; s < ranks; s++) head[s] = UINT32_MAX;
    for (uint32_t g = 0; g < INTRA_GROUPS; g++) {
        const uint32_t at = k->channel * INTRA_GROUPS + g;
        const struct intra_reducer *d = &r->reducer[at];
        const uint64_t base = r->done_base[at];
        const uint32_t done = (uint32_t)(fabric_load(k->worker.fabric, intra_word_done(r, k->channel, g)) - base);
        if (done == d->count) continue;
        busy = true;
        if (done < d->worker.warps) {       /* some warp has not read anything yet */
            for (uint32_t s = 0; s < ranks; s++) head[s] = 0;
            continue;
        }
        const uint32_t token = token_at(d, done - d->worker.warps), bits = r->ht.layout.bits[token];
        const uint32_t *position = &r->ht.layout.position[(size_t)token * ranks];
        for (uint32_t s = 0; s < ranks; s++) head[s] = moe_min(head[s], position[s] + (bits >> s & 1));
    }
    return busy;
}

static enum worker_step coordinator_step(struct fabric_worker *w)
{
    struct intra_coordinator *k = fabric_container_of(w, struct intra_coordinator, worker);
    const struct intra_rank *r = k->rank;
    uint32_t head[HT_LOCAL_MAX];
    if (!heads_min(k, head)) return WORKER_DONE;
    for (uint32_t s = 0; s < r->ht.g.ranks; s++) {
        if (head[s] <= k->published[s]) continue;
        if (!ht_word_send(w, &r->ht, s, 0, intra_word(r, INTRA_HEAD, k->channel, r->ht.g.rank), head[s]))
            return WORKER_WAIT;
        k->published[s] = head[s];
    }
    return WORKER_WAIT;
}

static void coordinator_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct intra_coordinator *k = fabric_container_of(w, struct intra_coordinator, worker);
    snprintf(text, text_size, "coordinator of channel %u waits for the reducers", k->channel);
}

static void coordinator_launch(struct intra_rank *r, uint32_t channel)
{
    struct intra_coordinator *k = &r->coordinator[channel];
    *k = (struct intra_coordinator){ .worker = { .step = coordinator_step, .describe = coordinator_describe },
                                     .rank = r, .channel = channel };
    ht_kernel_add(&r->ht, &k->worker, 2 * channel + 1, 1);
    fabric_watch(&k->worker, intra_word_done(r, channel, 0), INTRA_GROUPS);
}

void intra_combine_launch(struct intra_rank *r)
{
    if (r->ht.base.fabric->payload) ht_tensors_combine(&r->ht);
    for (uint32_t c = 0; c < r->ht.g.channels; c++) {
        for (uint32_t i = 0; i < r->ht.g.ranks; i++) sender_launch(r, c, (c + i) % r->ht.g.ranks);
        coordinator_launch(r, c);
        for (uint32_t g = 0; g < INTRA_GROUPS; g++) reducer_launch(r, c, g);
    }
}
