/* moe_ht_intra_combine.c - intranode combine (PROTOCOLS.md 1.2): every received row goes back and is summed.
 *
 *     sender, SM 2c           for each rank: sends the channel's rows that came from it, in chunks, to that rank's ring
 *     reducers, SM 2c + 1     23 warps, each of which takes every 23rd token of the channel (moe_ht_reduce.c)
 *     keeper, SM 2c + 1       one warp: tells each rank how far its ring has been read */
#include "models/moe/moe_ht_intra.h"

#include <stdio.h>

/* ---- sender -------------------------------------------------------------------------------------------- */

static void sender_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot)
{
    const struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    ht_slot_pack_combine(&s->rank->ht, s->first + sequence, slot);
}

static uint32_t sender_chunk(const struct intra_sender *s) { return moe_min(s->chunk, s->count - s->ring.tail); }

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    struct ht_rank *h = &s->rank->ht;
    struct ht_ring *ring = &s->ring;
    if (!ring->tail && !ring->pending)
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTRA_RETURN_RANGES_READ });
    if (!ring->pending && ring->published == ring->tail) {
        if (ht_ring_space(h, ring) < sender_chunk(s)) return WORKER_WAIT;
        ring->pending = sender_chunk(s);
        if (ring->pending) intra_sender_peek(s);
    }
    if (!ht_ring_write(w, ring, &h->combine_slot, sender_fill)) return WORKER_WAIT;
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

static const struct worker_role sender_role = { .step = sender_step, .describe = sender_describe };

static void sender_launch(struct intra_rank *r, uint32_t channel, uint32_t peer)
{
    struct ht_rank *h = &r->ht;
    struct intra_sender *s = &r->sender[intra_pair(r, channel, peer)];
    intra_sender_init(r, s, channel, peer, &h->base.options->combine);
    s->ring.site = SITE_INTRA_RETURN_ROW;
    s->ring.given = &r->return_row;
    s->first = r->channel_row[peer * h->g.channels + channel];
    s->count = r->channel_count[peer * h->g.channels + channel];
    ht_kernel_add(h, &s->worker, &sender_role, 2 * channel, INTRA_WARPS / h->g.ranks);
    fabric_watch(&s->worker, s->ring.head_word, 1, 0);
}

/* ---- receiving end ------------------------------------------------------------------------------------- */

static void receivers_launch(struct intra_rank *r, uint32_t channel)
{
    struct ht_rank *h = &r->ht;
    const uint32_t groups = ht_reducer_groups(h, INTRA_REDUCER_WARPS);
    r->keeper[channel] = (struct ht_head_keeper){
        .rank = h,
        .reducer = &r->reducer[channel * INTRA_GROUPS],
        .channel = channel,
        .group_count = groups,
        .least = 1,
        .head_word = intra_word(r, INTRA_HEAD, channel, h->g.rank),
        .peer_stride = 1,
    };
    for (uint32_t g = 0; g < groups; g++) {
        struct ht_reducer *d = &r->reducer[channel * INTRA_GROUPS + g];
        *d = (struct ht_reducer){
            .rank = h,
            .channel = channel,
            .group = g,
            .tail_word = intra_word(r, INTRA_TAIL, channel, 0),
            .done_word = intra_word_done(r, channel, g),
            .ring_offset = intra_ring_offset(r, channel, 0),
            .ring_bytes = r->ring_bytes,
            .slots = h->base.options->combine.nvl_recv,
        };
        ht_reducer_launch(h, d, groups, INTRA_REDUCER_WARPS, 2 * channel + 1);
    }
    ht_head_keeper_launch(h, &r->keeper[channel], 2 * channel + 1);
}

/* The most bytes of returning rows that the rings hold. */
static uint64_t rings_bytes(const struct intra_rank *r)
{
    const struct ht_rank *h = &r->ht;
    uint64_t slots = 0;
    for (uint32_t rank = 0; rank < h->g.ranks; rank++)
        slots += moe_min(h->layout.tokens_per_rank[rank], h->g.channels * h->base.options->combine.nvl_recv);
    return slots * h->combine_slot.bytes;
}

void intra_combine_launch(struct intra_rank *r)
{
    const struct ht_slot *slot = &r->ht.combine_slot;
    const uint64_t sent_bytes = (uint64_t)ht_recv_rows(&r->ht) * slot->row_bytes;
    r->return_row = (struct site_given){ .size = { slot->topk, sent_bytes } };
    r->ht.sum_site = ht_site(&r->ht, MOE_DEEPEP_BULK, SITE_INTRA_SUM_ROW, SITE_INTRA_SUM_LOADS);
    r->ht.sum_row = (struct site_given){ .size = { r->ht.g.ranks, rings_bytes(r) } };
    if (r->ht.base.fabric->payload) ht_tensors_combine(&r->ht);
    for (uint32_t c = 0; c < r->ht.g.channels; c++) {
        for (uint32_t i = 0; i < r->ht.g.ranks; i++) sender_launch(r, c, (c + i) % r->ht.g.ranks);
        receivers_launch(r, c);
    }
}
