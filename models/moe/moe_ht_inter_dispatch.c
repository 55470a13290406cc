/* moe_ht_inter_dispatch.c - internode dispatch, the sending half (PROTOCOLS.md 1.3), on SM 2c + 1:
 *
 *     sender       seven warps, stepped as one worker: each warp puts a token of the channel into the send ring of each
 *                  node that needs it; tokens for its own node go straight into its own receive ring
 *     coordinator  one warp: sends chunks of a ring with one write each, then the tail on the same QP
 *
 * A slot of a send ring is free again when all forwarders of the peer have read its token. */
#include "models/moe/moe_ht_inter.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *sender_slot(const struct inter_sender *s, uint32_t node, uint32_t position)
{
    const struct inter_rank *r = s->rank;
    const struct ht_rank *h = &r->ht;
    const uint64_t rings = node == h->g.node ? r->map.rdma_recv : r->map.rdma_send;
    assert(node < h->g.nodes);
    return h->base.fabric->heap + inter_rail_ring(r, rings, s->channel, node) +
           (uint64_t)(position % h->base.options->dispatch.rdma_recv) * h->dispatch_slot.stored;
}

/* Writes the channel's ranges to meta: a start for each rank of the node, an end for each, and both for the node. */
static void ranges_make(const struct inter_sender *s, uint32_t node, uint32_t *meta)
{
    const struct ht_geometry *g = &s->rank->ht.g;
    const struct ht_layout *l = &s->rank->ht.layout;
    const uint32_t stride = g->channels + 1;
    for (uint32_t i = 0; i < g->local; i++) {
        const uint32_t *prefix = &l->rank_prefix[(size_t)(node * g->local + i) * stride + s->channel];
        meta[i] = prefix[0];
        meta[g->local + i] = prefix[1];
    }
    const uint32_t *prefix = &l->node_prefix[(size_t)node * stride + s->channel];
    meta[2 * g->local] = prefix[0];
    meta[2 * g->local + 1] = prefix[1];
}

/* Tells a node the channel's ranges, by one warp.  The signal costs nothing, because the node's forwarders poll the
 * ranges themselves. */
static bool ranges_tell(struct inter_sender *s, uint32_t node)
{
    const struct inter_rank *r = s->rank;
    const struct ht_geometry *g = &r->ht.g;
    const bool home = node == g->node;
    const uint64_t target = inter_meta_offset(r, r->map.meta_recv, s->channel, g->node);
    const uint64_t from = home ? target : inter_meta_offset(r, r->map.meta_send, s->channel, node);
    const uint32_t bytes = inter_meta_words(r) * sizeof(uint32_t);
    uint32_t *meta = (void *)(r->ht.base.fabric->heap + from);
    ranges_make(s, node, meta);
    const struct fabric_signal signal = {
        .value = moe_word_make(r->ht.epoch, 1),
        .word = inter_word_rail(r, INTER_META, s->channel, g->node),
        .peer = ht_rail(&r->ht.g, node),
        .queue = (uint16_t)s->channel,
    };
    if (home) return fabric_signal(&s->worker, &signal) == 0;
    return fabric_put(&s->worker,
                      &(struct fabric_write){ .target_offset = target,
                                              .charge_bytes = bytes,
                                              .peer = signal.peer,
                                              .queue = signal.queue,
                                              .site = SITE_INTER_META_PUT,
                                              .warps = 1,
                                              .data = meta,
                                              .size_bytes = bytes },
                      &signal) == 0;
}

/* The i-th node that is told its ranges.  The warps work in rounds of one node each, and a round begins when the
 * previous one has been posted.  The rank's own node, which takes no time, is the last of its round. */
static uint32_t announce_order(const struct ht_geometry *g, uint32_t i)
{
    const uint32_t first = i - i % INTER_SENDER_WARPS, end = moe_min(first + INTER_SENDER_WARPS, g->nodes);
    if (g->node < first || g->node >= end || i < g->node) return i;
    return i + 1 < end ? i + 1 : g->node;
}

/* Tells all nodes the channel's ranges.  Before that, each warp reads the ranges for its node. */
static bool sender_announce(struct inter_sender *s)
{
    const struct ht_geometry *g = &s->rank->ht.g;
    if (!s->read)
        fabric_work(&s->worker,
                    &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTER_RANGES_READ, .rows = 1 });
    s->read = true;
    for (; s->announced < g->nodes; s->announced++)
        if (!ranges_tell(s, announce_order(g, s->announced))) return false;
    return true;
}

static bool token_fits(const struct inter_sender *s, uint32_t token)
{
    const struct inter_rank *r = s->rank;
    const struct ht_layout *l = &r->ht.layout;
    const uint32_t slots = r->ht.base.options->dispatch.rdma_recv;
    for (uint32_t left = l->mask[token]; left; left &= left - 1) {
        const uint32_t node = (uint32_t)__builtin_ctz(left);
        const uint32_t head = ht_word(&r->ht, inter_word_rail(r, INTER_RDMA_HEAD, s->channel, node));
        assert(head <= l->position[(size_t)token * l->targets + node]); /* the token has not been sent yet */
        if (l->position[(size_t)token * l->targets + node] - head >= slots) return false;
    }
    return true;
}

/* Writes tokens to the rings.  The low half of argument is the first token, the high half the number of tokens. */
static void sender_run(void *context, uint64_t argument)
{
    const struct inter_sender *s = context;
    const struct ht_rank *h = &s->rank->ht;
    const struct ht_layout *l = &h->layout;
    const uint32_t first = (uint32_t)argument, count = (uint32_t)(argument >> 32);
    for (uint32_t t = first; t < first + count; t++)
        for (uint32_t left = l->mask[t]; left; left &= left - 1) {
            const uint32_t node = (uint32_t)__builtin_ctz(left);
            const uint32_t meta[2] = { h->g.node, l->bits[(size_t)t * h->g.nodes + node] };
            ht_slot_pack(h, t, 0, meta, sender_slot(s, node, l->position[(size_t)t * l->targets + node]));
        }
}

/* Writes the part of a slot that control flow needs. */
static void token_meta_write(const struct inter_sender *s, uint32_t token)
{
    const struct ht_rank *h = &s->rank->ht;
    const struct ht_layout *l = &h->layout;
    for (uint32_t left = l->mask[token]; left; left &= left - 1) {
        const uint32_t node = (uint32_t)__builtin_ctz(left);
        const uint32_t meta[2] = { h->g.node, l->bits[(size_t)token * h->g.nodes + node] };
        uint8_t *slot = sender_slot(s, node, l->position[(size_t)token * l->targets + node]);
        memcpy(slot + h->dispatch_slot.meta, meta, sizeof meta);
    }
}

/* Puts the next `count` tokens into the rings.  Each warp writes one token, to one node after another. */
static void tokens_put(struct inter_sender *s, uint32_t count)
{
    struct ht_rank *h = &s->rank->ht;
    uint32_t rows = 0, copies = 0;
    for (uint32_t t = s->token; t < s->token + count; t++) {
        token_meta_write(s, t);
        rows += h->layout.mask[t] != 0;
        copies += (uint32_t)__builtin_popcount(h->layout.mask[t]);
    }
    fabric_work(&s->worker,
                &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTER_FLAGS_READ, .rows = count });
    if (rows)
        fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                       .site = SITE_INTER_PUT_ROW,
                                                       .given = &s->rank->put_row,
                                                       .rows = rows,
                                                       .warps = (uint16_t)(rows < s->worker.warps ? rows : 0),
                                                       .read_bytes = (uint64_t)rows * h->dispatch_slot.bytes,
                                                       .write_bytes = (uint64_t)copies * h->dispatch_slot.bytes,
                                                       .run = sender_run,
                                                       .context = s,
                                                       .argument = (uint64_t)count << 32 | s->token });
}

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct inter_sender *s = fabric_container_of(w, struct inter_sender, worker);
    if (!sender_announce(s)) return WORKER_WAIT;
    assert(s->first <= s->token && s->token <= s->end);
    if (s->token == s->end) return WORKER_DONE;
    const uint32_t most = moe_min(w->warps, s->end - s->token);
    uint32_t count = 0;
    while (count < most && token_fits(s, s->token + count)) count++;
    if (count == 0) return WORKER_WAIT;
    tokens_put(s, count);
    fabric_signal_add(w, inter_word_sent(s->rank, s->channel), count, SITE_HT_SHARED_ADD);
    s->token += count;
    if (s->token == s->end) return WORKER_DONE;
    return token_fits(s, s->token) ? WORKER_MORE : WORKER_WAIT;
}

static void sender_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_sender *s = fabric_container_of(w, struct inter_sender, worker);
    const struct inter_rank *r = s->rank;
    if (s->announced < r->ht.g.nodes)
        snprintf(text, text_size, "dispatch sender of channel %u has no room for ranges to rank %u", s->channel,
                 ht_rail(&r->ht.g, announce_order(&r->ht.g, s->announced)));
    else
        snprintf(text, text_size,
                 "dispatch sender of channel %u waits for free slots: token %u of %u to %u needs "
                 "nodes %#x",
                 s->channel, s->token, s->first, s->end, s->token < s->end ? r->ht.layout.mask[s->token] : 0);
}

static const struct worker_role sender_role = { .step = sender_step, .describe = sender_describe };

/* ---- coordinator --------------------------------------------------------------------------------------- */

/* How many slots of the node's ring the first `tokens` tokens of the channel take. */
static uint32_t ring_tail(const struct inter_coordinator *k, uint32_t node, uint32_t tokens)
{
    const struct inter_sender *s = &k->rank->sender[k->channel];
    const struct ht_layout *l = &k->rank->ht.layout;
    if (s->first + tokens < s->end) return l->position[(size_t)(s->first + tokens) * l->targets + node];
    const uint32_t *prefix = &l->node_prefix[(size_t)node * (k->rank->ht.g.channels + 1) + k->channel];
    return prefix[1] - prefix[0];
}

/* Sends the next slots of a node's ring.  False: there is no room. */
static bool chunk_send(struct inter_coordinator *k, uint32_t node, uint32_t count)
{
    const struct inter_rank *r = k->rank;
    const struct ht_rank *h = &r->ht;
    const uint32_t at = k->issued[node] % h->base.options->dispatch.rdma_recv, stored = h->dispatch_slot.stored;
    const uint64_t source = inter_rail_ring(r, r->map.rdma_send, k->channel, node) + (uint64_t)at * stored;
    assert(count > 0 && at + count <= h->base.options->dispatch.rdma_recv); /* a ring has whole chunks */
    const struct fabric_write write = {
        .target_offset = inter_rail_ring(r, r->map.rdma_recv, k->channel, h->g.node) + (uint64_t)at * stored,
        .charge_bytes = (uint64_t)count * h->dispatch_slot.bytes,
        .peer = ht_rail(&r->ht.g, node),
        .queue = (uint16_t)k->channel,
        .rows = (uint8_t)moe_min(count, UINT8_MAX),
        .data = h->base.fabric->heap + source,
        .size_bytes = count * stored,
    };
    if (node != h->g.node && fabric_put(&k->worker, &write, NULL)) return false;
    k->issued[node] += count;
    return true;
}

static bool chunk_tell(struct inter_coordinator *k, uint32_t node)
{
    const struct inter_rank *r = k->rank;
    assert(k->told[node] <= k->issued[node]);
    if (k->told[node] == k->issued[node]) return true;
    const uint32_t word = inter_word_rail(r, INTER_RDMA_TAIL, k->channel, r->ht.g.node);
    const struct fabric_signal signal = { .value = moe_word_make(r->ht.epoch, k->issued[node]),
                                          .word = word,
                                          .peer = ht_rail(&r->ht.g, node),
                                          .queue = (uint16_t)k->channel,
                                          .site = node == r->ht.g.node ? SITE_INTER_CHUNK_TELL : SITE_NONE };
    const struct ht_look look = inter_look(r, INTER_RDMA_TAIL, k->channel, node);
    if (node == r->ht.g.node) ht_look_once(&k->worker, &look);
    if (fabric_signal(&k->worker, &signal)) return false;
    k->told[node] = k->issued[node];
    return true;
}

/* Sends a chunk to each node for which a chunk is ready, in rotation.  Channels begin with different nodes, and so do
 * the ranks of different nodes, except in old versions of DeepEP.  So they do not all send to the same node. */
static enum worker_step coordinator_step(struct fabric_worker *w)
{
    struct inter_coordinator *k = fabric_container_of(w, struct inter_coordinator, worker);
    const struct ht_rank *h = &k->rank->ht;
    const struct inter_sender *s = &k->rank->sender[k->channel];
    const uint32_t least = h->base.options->dispatch.rdma_send;
    const uint32_t start = moe_deepep_before(h->base.options->deepep, MOE_DEEPEP_STARTS) ? 0 : h->g.node;
    const uint64_t sent = fabric_load(w->fabric, inter_word_sent(k->rank, k->channel));
    const uint32_t tokens = (uint32_t)(sent - k->rank->sent_base[k->channel]);
    bool moved = false, all = true;
    assert(tokens <= s->end - s->first);
    for (uint32_t i = 0; i < h->g.nodes; i++) {
        const uint32_t node = (i + k->channel + start) % h->g.nodes;
        if (!chunk_tell(k, node)) return WORKER_WAIT;
        const uint32_t total = ring_tail(k, node, s->end - s->first);
        const uint32_t ready = ring_tail(k, node, tokens) - k->issued[node];
        assert(k->issued[node] + ready <= total && ready <= total); /* neither value has wrapped around */
        if (k->issued[node] == total) continue;
        all = false;
        if (ready == 0 || (ready < least && k->issued[node] + ready != total)) continue;
        if (!chunk_send(k, node, moe_min(ready, least)) || !chunk_tell(k, node)) return WORKER_WAIT;
        moved = true;
    }
    return all ? WORKER_DONE : moved ? WORKER_MORE : WORKER_WAIT;
}

static void coordinator_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_coordinator *k = fabric_container_of(w, struct inter_coordinator, worker);
    const struct inter_sender *s = &k->rank->sender[k->channel];
    for (uint32_t node = 0; node < k->rank->ht.g.nodes; node++) {
        const uint32_t total = ring_tail(k, node, s->end - s->first);
        if (k->told[node] == total) continue;
        snprintf(text, text_size, "dispatch coordinator of channel %u has sent %u of %u tokens to rank %u", k->channel,
                 k->told[node], total, ht_rail(&k->rank->ht.g, node));
        return;
    }
    snprintf(text, text_size, "dispatch coordinator of channel %u has sent everything", k->channel);
}

static const struct worker_role coordinator_role = { .step = coordinator_step, .describe = coordinator_describe };

/* ---- launch -------------------------------------------------------------------------------------------- */

static void bits_resize(struct inter_rank *r)
{
    const uint32_t tokens = r->rail_before[r->ht.g.nodes];
    if (r->bits && tokens <= r->bits_max) return;
    kernel_drop(r, r->bits);
    r->bits = kernel_keep(r, tokens, 1);
    r->bits_max = tokens;
}

static void senders_launch(struct inter_rank *r, uint32_t channel)
{
    struct ht_rank *h = &r->ht;
    struct inter_sender *s = &r->sender[channel];
    struct inter_coordinator *k = &r->coordinator[channel];
    *s = (struct inter_sender){ .rank = r, .channel = channel };
    moe_channel_range(h->g.tokens, h->g.channels, channel, &s->first, &s->end);
    s->token = s->first;
    ht_kernel_add(h, &s->worker, &sender_role, 2 * channel + 1, INTER_SENDER_WARPS);
    fabric_watch(&s->worker, inter_word_rail(r, INTER_RDMA_HEAD, channel, 0), h->g.nodes, 0);
    *k = (struct inter_coordinator){ .rank = r, .channel = channel };
    r->sent_base[channel] = fabric_load(h->base.fabric, inter_word_sent(r, channel));
    ht_kernel_add(h, &k->worker, &coordinator_role, 2 * channel + 1, 1);
    fabric_watch(&k->worker, inter_word_sent(r, channel), 1, 0);
}

/* Sets the sizes for the loop that puts rows into the rings: words of scales of a row, choices for all nodes, and the
 * bytes that a dispatch moves, which push tokens out of the L2. */
static void put_give(struct inter_rank *r)
{
    enum { LANES = 32 };
    const struct ht_rank *h = &r->ht;
    const struct ht_slot *slot = &h->dispatch_slot;
    r->put_row = (struct site_given){ .size = { slot->scale_bytes / sizeof(float), slot->topk * h->g.nodes,
                                                (uint64_t)(2 * ht_recv_rows(h) + 2 * h->g.tokens) * slot->bytes } };
}

void inter_dispatch_launch(struct inter_rank *r)
{
    put_give(r);
    if (r->ht.base.fabric->payload) ht_tensors_recv(&r->ht);
    bits_resize(r);
    inter_forward_give(r);
    for (uint32_t c = 0; c < r->ht.g.channels; c++) {
        senders_launch(r, c);
        inter_forward_launch(r, c);
    }
}
