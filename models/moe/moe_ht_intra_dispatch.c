/* moe_ht_intra_dispatch.c - intranode dispatch (PROTOCOLS.md 1.2): a token goes once to each rank that needs it.
 *
 *     sender, SM 2c        for each destination rank: sends the channel's tokens for it, in chunks, to the ring there
 *     receiver, SM 2c + 1  for each source rank: copies from the ring into recv_x, behind the rows of lower ranks and
 *                          channels
 *
 * The warps of an SM are split evenly over the ranks, and each copies its own tokens. */
#include "models/moe/moe_ht_intra.h"

#include <assert.h>
#include <stdio.h>

static uint32_t scale_count(const struct ht_rank *h) { return h->dispatch_slot.scale_bytes / sizeof(float); }

/* ---- sender -------------------------------------------------------------------------------------------- */

static const uint32_t *sender_tokens(const struct intra_sender *s)
{
    return &s->rank->ht.layout.list[(size_t)s->ring.peer * s->rank->ht.g.tokens + s->first];
}

static void sender_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot)
{
    const struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    const uint32_t token = sender_tokens(s)[sequence], meta[2] = { token };
    ht_slot_pack(&s->rank->ht, token, s->ring.peer * s->rank->ht.g.local_experts, meta, slot);
}

/* Tells the receiver which of this rank's tokens for it are in the channel, by words with 1 + start and 1 + end.  The
 * first warp does this while the other warps begin to send. */
static bool sender_announce(struct intra_sender *s)
{
    const struct intra_rank *r = s->rank;
    if (!s->announced)
        fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTRA_RANGES_READ });
    for (; s->announced < 2; s->announced++) {
        const uint32_t value = s->first + (s->announced ? s->count : 0) + 1;
        const struct fabric_signal told = {
            .value = moe_word_make(r->ht.epoch, value),
            .word = intra_word(r, s->announced ? INTRA_END : INTRA_START, s->channel, r->ht.g.rank),
            .peer = s->ring.peer,
            .site = SITE_INTRA_TELL,
        };
        if (fabric_signal(&s->worker, &told)) return false;
    }
    return true;
}

/* A row's flag is read twice.  Between the two reads other warps may push the flag out of the L1.  Returns for how many
 * rows this happens: for all, unless the SM's senders have fewer rows on average than this sender. */
static uint32_t rows_between(const struct intra_sender *s, uint32_t rows)
{
    const uint32_t ranks = s->rank->ht.g.ranks;
    const struct intra_sender *group = &s->rank->sender[intra_pair(s->rank, s->channel, 0)];
    uint64_t all = 0;
    for (uint32_t peer = 0; peer < ranks; peer++) all += group[peer].count;
    const uint64_t between = s->count ? rows * all / ((uint64_t)s->count * ranks) : 0;
    return between < rows ? (uint32_t)between : rows;
}

static void flags_read(struct intra_sender *s, uint8_t site, uint32_t rows)
{
    if (rows) fabric_work(&s->worker, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = site, .rows = rows });
}

/* Reads the flags of all tokens up to the chunk's last one, and notes the heads for combine. */
static void sender_scan(struct intra_sender *s)
{
    const uint32_t last = s->ring.tail + s->ring.pending;
    const uint32_t to = last == s->count ? s->scan_end : sender_tokens(s)[last - 1] + 1;
    const uint32_t rows = to - s->scanned;
    assert(last <= s->count && s->scanned <= to && to <= s->scan_end);
    const uint32_t sent = moe_min(s->ring.pending, rows), again = sent - rows_between(s, sent);
    flags_read(s, SITE_INTRA_FLAG_READ, 2 * sent - again);
    flags_read(s, SITE_INTRA_FLAG_AGAIN, again);
    flags_read(s, SITE_INTRA_FLAG_SKIP, rows - sent);
    s->scanned = to;
}

/* Whether most rows of the chunk are in the L2, because another sender has read them.  A row that goes to several ranks
 * is in the L2 for all its senders but the first one.  The first is the sender to this rank itself, because it
 * reads its heads from the rank's own memory.  If the row does not go to this rank, any of its senders may be the
 * first.  Senders to other ranks start their first chunk at the same time, so in this chunk each of them waits for
 * memory. */
static bool sender_rows_read(const struct intra_sender *s)
{
    const struct ht_rank *h = &s->rank->ht;
    const uint32_t *token = sender_tokens(s) + s->ring.tail;
    double first = 0; /* expected number of rows that this sender is the first to read */
    if (s->ring.peer == h->g.rank) return false;
    for (uint32_t i = 0; i < s->ring.pending; i++) {
        const uint32_t mask = h->layout.mask[token[i]];
        if (!(mask >> h->g.rank & 1)) first += s->ring.tail ? 1.0 / __builtin_popcount(mask) : 1;
    }
    return 2 * first < s->ring.pending;
}

static enum worker_step sender_step(struct fabric_worker *w)
{
    struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    struct ht_rank *h = &s->rank->ht;
    struct ht_ring *ring = &s->ring;
    if (!sender_announce(s)) return WORKER_WAIT;
    if (!ring->pending && ring->published == ring->tail) {
        if (ring->tail < s->count) {
            if (ht_ring_space(h, ring) < s->chunk) return WORKER_WAIT;
            ring->pending = moe_min(s->chunk, s->count - ring->tail);
            ring->given = &s->rank->send_row[sender_rows_read(s)];
            intra_sender_peek(s);
        }
        sender_scan(s);
    }
    if (!ht_ring_write(w, ring, &h->dispatch_slot, sender_fill)) return WORKER_WAIT;
    if (!ht_ring_publish(w, h, ring)) return WORKER_WAIT;
    if (ring->tail == s->count) return WORKER_DONE;
    return ht_ring_space(h, ring) < s->chunk ? WORKER_WAIT : WORKER_MORE;
}

static void sender_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct intra_sender *s = fabric_container_of(w, struct intra_sender, worker);
    snprintf(text, text_size, "dispatch sender of channel %u waits for rank %u to free slots: %u of %u sent, %u read",
             s->channel, s->ring.peer, s->ring.tail, s->count, ht_word(&s->rank->ht, s->ring.head_word));
}

static const struct worker_role sender_role = { .step = sender_step, .describe = sender_describe };

static void sender_launch(struct intra_rank *r, uint32_t channel, uint32_t peer)
{
    struct ht_rank *h = &r->ht;
    struct intra_sender *s = &r->sender[intra_pair(r, channel, peer)];
    const uint32_t *prefix = &h->layout.rank_prefix[(size_t)peer * (h->g.channels + 1) + channel];
    intra_sender_init(r, s, channel, peer, &h->base.options->dispatch);
    s->ring.by_number = true;
    s->ring.site = SITE_INTRA_SEND_ROW;
    s->first = prefix[0];
    s->count = prefix[1] - prefix[0];
    moe_channel_range(h->g.tokens, h->g.channels, channel, &s->scanned, &s->scan_end);
    ht_kernel_add(h, &s->worker, &sender_role, 2 * channel, INTRA_WARPS / h->g.ranks);
    fabric_watch(&s->worker, s->ring.head_word, 1, 0);
}

/* ---- receiver ------------------------------------------------------------------------------------------ */

/* Copies slots to recv_x.  The low half of argument is the first slot's number, the high half the number of slots. */
static void receiver_run(void *context, uint64_t argument)
{
    const struct intra_receiver *v = context;
    struct ht_rank *h = &v->rank->ht;
    const uint32_t first = (uint32_t)argument, count = (uint32_t)(argument >> 32);
    const uint32_t slots = h->base.options->dispatch.nvl_recv;
    const uint8_t *ring = h->base.fabric->heap + intra_ring_offset(v->rank, v->channel, v->source);
    const uint32_t row = v->rank->channel_row[v->source * h->g.channels + v->channel];
    for (uint32_t i = first; i < first + count; i++)
        ht_slot_unpack(h, ring + (size_t)(i % slots) * h->dispatch_slot.stored, h->g.rank * h->g.local_experts,
                       row + i);
}

static bool receiver_know(struct intra_receiver *v)
{
    struct intra_rank *r = v->rank;
    const uint32_t start = ht_word(&r->ht, intra_word(r, INTRA_START, v->channel, v->source));
    const uint32_t end = ht_word(&r->ht, intra_word(r, INTRA_END, v->channel, v->source));
    if (!start || !end) return false;
    v->count = end - start;
    r->channel_row[v->source * r->ht.g.channels + v->channel] = r->ht.recv_before[v->source] + start - 1;
    r->channel_count[v->source * r->ht.g.channels + v->channel] = v->count;
    return v->known = true;
}

static bool receiver_publish(struct intra_receiver *v)
{
    const struct intra_rank *r = v->rank;
    assert(v->published <= v->head && v->head <= v->count);
    if (v->published == v->head) return true;
    const uint32_t word = intra_word(r, INTRA_HEAD, v->channel, r->ht.g.rank);
    if (!ht_word_send(&v->worker, &r->ht, v->source, 0, word, v->head)) return false;
    v->published = v->head;
    return true;
}

static enum worker_step receiver_step(struct fabric_worker *w)
{
    struct intra_receiver *v = fabric_container_of(w, struct intra_receiver, worker);
    struct ht_rank *h = &v->rank->ht;
    if (!v->known && !receiver_know(v)) return WORKER_WAIT;
    if (!receiver_publish(v)) return WORKER_WAIT;
    if (v->head == v->count) return WORKER_DONE;
    const uint32_t count = ht_word(h, intra_word(v->rank, INTRA_TAIL, v->channel, v->source)) - v->head;
    if (count == 0) return WORKER_WAIT;
    assert(v->head + count <= v->count && count <= h->base.options->dispatch.nvl_recv);
    const uint64_t bytes = (uint64_t)count * h->dispatch_slot.bytes;
    fabric_work(
        w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                  .site = ht_site(h, MOE_DEEPEP_BULK, SITE_INTRA_RECEIVE_ROW, SITE_INTRA_RECEIVE_LOADS),
                                  .given = &v->rank->receive_row,
                                  .warps = (uint16_t)(count < w->warps ? count : 0),
                                  .rows = count,
                                  .read_bytes = bytes,
                                  .write_bytes = bytes,
                                  .run = receiver_run,
                                  .context = v,
                                  .argument = (uint64_t)count << 32 | v->head });
    const uint32_t lanes = 32u * w->warps;
    const uint32_t waits =
        (count * scale_count(h) + lanes - 1) / lanes + (count * h->dispatch_slot.topk + lanes - 1) / lanes;
    if (waits)
        fabric_work(w,
                    &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTRA_RECEIVE_REST, .rows = waits });
    v->head += count;
    if (!receiver_publish(v)) return WORKER_WAIT;
    return v->head == v->count ? WORKER_DONE : WORKER_WAIT;
}

static void receiver_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct intra_receiver *v = fabric_container_of(w, struct intra_receiver, worker);
    if (!v->known)
        snprintf(text, text_size, "dispatch receiver of channel %u waits for the range of rank %u", v->channel,
                 v->source);
    else
        snprintf(text, text_size, "dispatch receiver of channel %u waits for tokens of rank %u: %u of %u read",
                 v->channel, v->source, v->head, v->count);
}

static const struct worker_role receiver_role = { .step = receiver_step, .describe = receiver_describe };

static void receiver_launch(struct intra_rank *r, uint32_t channel, uint32_t source)
{
    struct intra_receiver *v = &r->receiver[intra_pair(r, channel, source)];
    *v = (struct intra_receiver){ .rank = r, .channel = channel, .source = source };
    ht_kernel_add(&r->ht, &v->worker, &receiver_role, 2 * channel + 1, INTRA_WARPS / r->ht.g.ranks);
    fabric_watch(&v->worker, intra_word(r, INTRA_START, channel, source), 1, 0);
    fabric_watch(&v->worker, intra_word(r, INTRA_END, channel, source), 1, 0);
    fabric_watch(&v->worker, intra_word(r, INTRA_TAIL, channel, source), 1, 0);
}

void intra_dispatch_launch(struct intra_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    for (uint32_t read = 0; read < 2; read++)
        r->send_row[read] = (struct site_given){ .size = { scale_count(&r->ht), r->ht.dispatch_slot.topk, read } };
    r->receive_row = (struct site_given){ .size = { g->ranks, g->channels } };
    if (r->ht.base.fabric->payload) ht_tensors_recv(&r->ht);
    for (uint32_t c = 0; c < r->ht.g.channels; c++) {
        for (uint32_t peer = 0; peer < r->ht.g.ranks; peer++) sender_launch(r, c, peer);
        for (uint32_t peer = 0; peer < r->ht.g.ranks; peer++) receiver_launch(r, c, peer);
    }
}
