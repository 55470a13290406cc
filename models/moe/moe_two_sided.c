/* moe_two_sided.c - NVLink two-sided kernels of TensorRT-LLM (PROTOCOLS.md 1.15).
 *
 * A warp sends one channel's rows to one rank.  A warp of that rank takes them out of a FIFO in its own memory.  The
 * bytes carry their own flags (LL128).  So the sender need not release, and the receiver polls the FIFO itself.
 *
 *     prepare    each rank tells each other rank how many tokens will come
 *     dispatch   sender (peer, channel) ──NVLink──► fifo[source][channel]; receiver (peer, channel) ──► row
 *     combine    the rows go back in the same order, each to a place of its token; then they are summed
 *
 * Heap, only where payload is stored: the FIFOs of dispatch and of combine, [ranks][channels][slots].
 *
 * Signal words: counts[source] is 1 + the source's count; heard[target] says that the target has read this rank's
 * count. Dispatch and combine each have sent[source][channel], how many slots are written, and freed[target][channel],
 * how many entries of the FIFO the target has emptied.  Between two uses of a FIFO there is a prepare, in which every
 * rank hears from every other rank.
 *
 * Rows for a rank are in the order of their tokens.  The library takes their places from an atomic.  Sums are made in
 * single precision and rounded once. */
#include "models/moe/moe_ht.h"

#include <stdio.h>
#include <string.h>
#include "models/moe/moe_one_sided.h"

enum {
    TS_LINE_BYTES = 128,
    TS_LINES_FLAGGED = 15,                    /* lines of data whose flags take one more line */
    TS_ENTRIES = 4,                           /* entries of a FIFO */
    TS_ENTRY_LINES = 2048,                    /* lines of an entry: 256 KiB */
    TS_PEERS_MOST = 8,                        /* the most peers of a block */
    TS_SHARED_BYTES = MOE_SHARED_BYTES - 256, /* shared memory of a block, without its warps' barriers */
    TS_COUNT_WARPS = 32,                      /* warps of a block that counts tokens; a token has eight threads */
    TS_COUNT_TOKENS = 128,
    TS_HEARD_MOST = 4, /* the most peers that a block of prepare hears from, with 128 threads each */
    TS_MOVE_WARPS = 16,
};

struct ts_rank;

/* A warp that sends rows to a peer, or takes rows that come from it.  With n channels it has every n-th row. */
struct ts_warp {
    struct fabric_worker worker;
    struct ts_rank *rank;
    uint16_t peer, channel;
    uint32_t item, end;    /* the number of the next row, among all rows for the peer or from it; how many such rows
                            * there are */
    uint32_t moved, freed; /* how many rows are moved; how many entries the peer has been told are free */
    bool combine, begun, stored;
    bool waited; /* a receiver has waited for its next row */
};

/* A block that counts the tokens for a peer and tells the peer; or a part of a block that hears a peer's count. */
struct ts_count {
    struct fabric_worker worker;
    struct ts_rank *rank;
    uint16_t peer;
    bool counted;    /* the block has counted the tokens, or heard the count */
    uint32_t count;  /* 1 + the count that the block has heard */
    uint64_t before; /* the value that heard[peer] got when the peer had read the preceding count */
};

/* The FIFOs of a kernel that moves rows, and its grid: channels, and how many peers a block has. */
struct ts_fifo {
    uint64_t offset; /* where the FIFOs begin in the heap */
    uint32_t bytes;  /* bytes of a slot in shared memory and in the FIFO, flags included */
    uint32_t entry_slots, channels, peers;
};

struct ts_rank {
    struct ht_rank ht;
    struct ts_fifo fifo[2]; /* for dispatch, for combine */
    uint32_t *token;        /* [ranks][tokens] the tokens that go to each rank, in order */
    uint8_t *back;          /* [tokens][topk] rows that have come back, in the order of ranks; only with payload */
    struct ts_warp *warp;   /* [2][ranks][channels] senders, receivers */
    struct ts_count *count; /* [2][ranks] */
    struct ht_local *local; /* [SMs] */
    uint32_t launched;      /* the phase that was launched last */
};

enum ts_phase {
    TS_PREPARE,
    TS_PREPARE_SUM,
    TS_PREPARE_MOVE,
    TS_DISPATCH,
    TS_DISPATCH_SANITIZE,
    TS_COMBINE_ZERO,
    TS_COMBINE,
    TS_COMBINE_SUM,
    TS_PHASES
};

static const char *const phase_names[TS_PHASES + 1] = { "prepare",  "prepare_sum",       "prepare_move",
                                                        "dispatch", "dispatch_sanitize", "combine_zero",
                                                        "combine",  "combine_sum" };
static const char *const spans[TS_PHASES] = {
    [TS_PREPARE_MOVE] = "prepare_span", [TS_DISPATCH_SANITIZE] = "dispatch_span", [TS_COMBINE_SUM] = "combine_span"
};

/* ---- geometry ---- */

/* Makes the slots.  A slot of dispatch has the row, scales, experts and weights, each of which takes a multiple of 16
 * bytes.  A slot takes whole lines. */
static void slots_make(const struct moe_options *o, bool payload, struct ht_slot *dispatch, struct ht_slot *combine)
{
    ht_slots_plain(o, payload, dispatch, combine);
    dispatch->index = dispatch->meta = (uint32_t)moe_align(dispatch->row_bytes + dispatch->scale_bytes, 16);
    dispatch->weight = dispatch->index + (uint32_t)moe_align(4 * dispatch->topk, 16);
    dispatch->bytes = (uint32_t)moe_align(dispatch->weight + 4 * dispatch->topk, TS_LINE_BYTES);
    combine->bytes = (uint32_t)moe_align(combine->row_bytes, TS_LINE_BYTES);
    dispatch->stored = payload ? dispatch->bytes : 0;
    combine->stored = payload ? combine->bytes : 0;
}

static uint32_t flagged_bytes(const struct ht_slot *slot)
{
    const uint32_t lines = slot->bytes / TS_LINE_BYTES;
    return (lines + moe_ceiling(lines, TS_LINES_FLAGGED)) * TS_LINE_BYTES;
}

/* Makes the grid.  A block has as many peers as its shared memory has room for.  There are as many channels as half of
 * the SMs have room for, but at least one. */
static void grid_make(const struct moe_options *o, struct ts_fifo *f)
{
    const uint32_t blocks = moe_ceiling(o->ranks, TS_PEERS_MOST), most = o->num_sms / 2 / blocks;
    const uint32_t room = moe_min(moe_min(o->ranks, TS_PEERS_MOST), TS_SHARED_BYTES / f->bytes);
    const uint32_t a_channel = moe_ceiling(o->ranks, room);
    f->peers = moe_ceiling(o->ranks, a_channel);
    f->channels = moe_min(blocks * most / a_channel, most);
    if (!f->channels) f->channels = 1;
}

/* Makes the FIFOs of dispatch and combine.  Returns the size of the heap. */
static uint64_t fifos_make(const struct moe_options *o, bool payload, struct ts_fifo fifo[2])
{
    struct ht_slot slot[2];
    uint64_t end = 0;
    slots_make(o, payload, &slot[0], &slot[1]);
    for (uint32_t i = 0; i < 2; i++) {
        struct ts_fifo *f = &fifo[i];
        *f = (struct ts_fifo){ .offset = end, .bytes = flagged_bytes(&slot[i]) };
        f->entry_slots = TS_ENTRY_LINES * TS_LINE_BYTES / f->bytes;
        grid_make(o, f);
        end += (uint64_t)o->ranks * f->channels * TS_ENTRIES * f->entry_slots * slot[i].stored;
    }
    return end;
}

static const char *ts_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const uint32_t least = 2 * moe_ceiling(o->ranks, TS_PEERS_MOST);
    struct ht_slot dispatch, combine;
    slots_make(o, true, &dispatch, &combine);
    if (o->num_sms < least)
        KERNEL_REFUSE("num-sms: two-sided takes at least %u for %u ranks, found %u", least, o->ranks, o->num_sms);
    if (flagged_bytes(&dispatch) > TS_SHARED_BYTES || flagged_bytes(&combine) > TS_SHARED_BYTES)
        KERNEL_REFUSE("hidden: a block of two-sided has %d bytes of shared memory for a row, found %u values",
                      TS_SHARED_BYTES, o->hidden);
    return os_limits_refuse(o, "two-sided", text, text_size);
}

static uint32_t word_sent(const struct ts_rank *r, uint32_t kind, uint32_t peer, uint32_t channel)
{
    const uint32_t ranks = r->ht.g.ranks, before = kind ? 2 * ranks * r->fifo[0].channels : 0;
    return 2 * ranks + before + peer * r->fifo[kind].channels + channel;
}
static uint32_t word_freed(const struct ts_rank *r, uint32_t kind, uint32_t peer, uint32_t channel)
{
    return word_sent(r, kind, peer, channel) + r->ht.g.ranks * r->fifo[kind].channels;
}

static void ts_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    struct ts_fifo fifo[2];
    const struct moe_options *o = moe_options_of(job);
    const uint64_t heap_bytes = fifos_make(o, payload, fifo);
    *needs = (struct fabric_needs){ .heap_bytes = heap_bytes,
                                    .word_count = 2 * o->ranks * (1 + fifo[0].channels + fifo[1].channels),
                                    .queue_count = 1,
                                    .queue_depth = 1 };
}

static struct kernel_rank *ts_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct ts_rank *r = kernel_alloc(1, sizeof *r);
    struct ht_rank *h = &r->ht;
    fifos_make(o, f->payload, r->fifo);
    const uint32_t channels = r->fifo[r->fifo[1].channels > r->fifo[0].channels].channels;
    const uint32_t warps = 2 * o->ranks * channels;
    ht_rank_init(h, job, f, false, 1, warps > o->num_sms ? warps : o->num_sms);
    ht_layout_make(h);
    slots_make(o, f->payload, &h->dispatch_slot, &h->combine_slot);
    r->token = kernel_keep(r, (uint64_t)h->g.ranks * h->g.tokens, sizeof r->token[0]);
    for (uint32_t to = 0; to < h->g.ranks; to++)
        for (uint32_t t = 0, n = 0; t < h->g.tokens; t++)
            if (ht_goes_to(&r->ht, t, to)) r->token[(size_t)to * h->g.tokens + n++] = t;
    r->back = kernel_keep(r, f->payload ? (uint64_t)h->g.tokens * h->g.topk : 0, h->combine_slot.bytes);
    r->warp = kernel_keep(r, warps, sizeof r->warp[0]);
    r->count = kernel_keep(r, 2 * h->g.ranks, sizeof r->count[0]);
    r->local = kernel_keep(r, o->num_sms, sizeof r->local[0]);
    return &h->base.kernel;
}

/* Raises a word that a peer polls, without a release. */
static bool word_tell(struct fabric_worker *w, const struct ts_rank *r, uint16_t peer, uint32_t word, uint32_t value)
{
    return fabric_signal(w, &(struct fabric_signal){ .value = moe_word_make(r->ht.epoch, value),
                                                     .word = word,
                                                     .peer = peer,
                                                     .site = SITE_TWO_SIDED_TELL }) == 0;
}

/* ---- prepare ---- */

/* The value that the last prepare on this fabric gave to `heard`, whatever routing it was for. */
static uint64_t *prepared(const struct ts_rank *r) { return ht_grown(&r->ht); }

static uint32_t word_heard(const struct ts_rank *r, uint32_t peer) { return r->ht.g.ranks + peer; }

static enum worker_step count_step(struct fabric_worker *w)
{
    struct ts_count *c = fabric_container_of(w, struct ts_count, worker);
    const struct ts_rank *r = c->rank;
    const uint32_t tokens = r->ht.g.tokens;
    if (!c->counted) {
        ht_scan_here(w, SITE_TWO_SIDED_COUNT, moe_ceiling(tokens, TS_COUNT_TOKENS) + 1, 4ull * tokens * r->ht.g.topk);
        c->counted = true;
        return WORKER_MORE;
    }
    if (fabric_load(w->fabric, word_heard(r, c->peer)) < c->before) return WORKER_WAIT;
    const uint32_t count = r->ht.layout.tokens_per_rank[c->peer];
    return word_tell(w, r, c->peer, r->ht.g.rank, count + 1) ? WORKER_DONE : WORKER_WAIT;
}

static enum worker_step hear_step(struct fabric_worker *w)
{
    struct ts_count *c = fabric_container_of(w, struct ts_count, worker);
    const struct ts_rank *r = c->rank;
    if (!c->counted) {
        c->count = ht_word(&r->ht, c->peer);
        if (!c->count) return WORKER_WAIT;
        ht_scan_here(w, SITE_TWO_SIDED_COUNT_PEEK, 1, 0);
        c->counted = true;
        return WORKER_MORE;
    }
    if (!word_tell(w, r, c->peer, word_heard(r, r->ht.g.rank), 1)) return WORKER_WAIT;
    ht_scan_here(w, SITE_TWO_SIDED_PLACES, 1, 4 * (c->count - 1)); /* the block writes the places of the rows that will
                                                                    * come */
    return WORKER_DONE;
}

static void count_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ts_count *c = fabric_container_of(w, struct ts_count, worker);
    snprintf(text, text_size, "two-sided prepare waits for the count of rank %u", c->peer);
}

static const struct worker_role count_role = { .step = count_step, .describe = count_describe };
static const struct worker_role hear_role = { .step = hear_step, .describe = count_describe };

/* Launches prepare.  The first blocks each tell one peer.  The blocks after them each hear from at most
 * TS_HEARD_MOST peers. */
static void prepare_launch(struct ts_rank *r)
{
    const uint32_t ranks = r->ht.g.ranks, sms = r->ht.base.options->num_sms;
    for (uint32_t i = 0; i < 2 * ranks; i++) {
        struct ts_count *c = &r->count[i];
        *c = (struct ts_count){ .rank = r, .peer = (uint16_t)(i % ranks), .before = *prepared(r) };
        const bool hears = i >= ranks;
        const uint32_t block = hears ? ranks + c->peer / TS_HEARD_MOST : i;
        ht_kernel_add(&r->ht, &c->worker, hears ? &hear_role : &count_role, block % sms,
                      hears ? TS_COUNT_WARPS / TS_HEARD_MOST / 2 : TS_COUNT_WARPS);
        fabric_watch(&c->worker, hears ? c->peer : word_heard(r, c->peer), 1, 0);
    }
    *prepared(r) = moe_word_make(r->ht.epoch, 1);
}

/* ---- rows ---- */

static uint64_t slot_at(const struct ts_warp *p, uint32_t source, uint32_t number)
{
    const struct ts_rank *r = p->rank;
    const struct ts_fifo *f = &r->fifo[p->combine];
    const uint64_t slots = (uint64_t)TS_ENTRIES * f->entry_slots, way = (uint64_t)source * f->channels + p->channel;
    const uint32_t stored = p->combine ? r->ht.combine_slot.stored : r->ht.dispatch_slot.stored;
    return f->offset + (way * slots + number % slots) * stored;
}

static const struct ht_slot *slot_of(const struct ts_warp *p)
{
    return p->combine ? &p->rank->ht.combine_slot : &p->rank->ht.dispatch_slot;
}

static void row_fill(const void *context, uint8_t *slot)
{
    const struct ts_warp *p = context;
    const struct ht_rank *h = &p->rank->ht;
    if (p->combine) ht_slot_pack_combine(h, h->recv_before[p->peer] + p->item, slot);
    else ht_slot_pack(h, p->rank->token[(size_t)p->peer * h->g.tokens + p->item], 0, slot, slot); /* without meta */
}

/* Charges a warp that has rows for its first read.  False: the warp has been charged before, or has no rows. */
static bool warp_begin(struct ts_warp *p)
{
    if (p->begun || p->item >= p->end) return false;
    p->begun = true;
    ht_scan_here(&p->worker, SITE_TWO_SIDED_START, 1, 0);
    return true;
}

static enum worker_step send_step(struct fabric_worker *w)
{
    struct ts_warp *p = fabric_container_of(w, struct ts_warp, worker);
    struct ts_rank *r = p->rank;
    const struct ht_slot *slot = slot_of(p);
    if (warp_begin(p)) return WORKER_MORE;
    if (p->item >= p->end) return WORKER_DONE;
    const uint32_t freed = ht_word(&r->ht, word_freed(r, p->combine, p->peer, p->channel));
    if (p->moved / r->fifo[p->combine].entry_slots >= freed + TS_ENTRIES) return WORKER_WAIT;
    const struct fabric_write write = {
        .target_offset = slot_at(p, r->ht.g.rank, p->moved),
        .charge_bytes = slot->bytes,
        .peer = p->peer,
        .rows = 1,
        .site = p->combine ? SITE_TWO_SIDED_SEND_BACK : SITE_TWO_SIDED_SEND,
        .fill = slot->stored ? row_fill : NULL,
        .data = p,
        .size_bytes = slot->stored,
    };
    if (!p->stored && fabric_store(w, &write)) return WORKER_WAIT;
    p->stored = true;
    if (!word_tell(w, r, p->peer, word_sent(r, p->combine, r->ht.g.rank, p->channel), p->moved + 1)) return WORKER_WAIT;
    p->moved++;
    p->item += r->fifo[p->combine].channels;
    p->stored = false;
    return WORKER_MORE;
}

static uint8_t *back_at(const struct ts_rank *r, uint32_t token, uint32_t place)
{
    return r->back + ((size_t)token * r->ht.g.topk + place) * r->ht.combine_slot.bytes;
}

static void receive_run(void *context, uint64_t argument)
{
    const struct ts_warp *p = context;
    struct ht_rank *h = &p->rank->ht;
    const uint8_t *slot = h->base.fabric->heap + slot_at(p, p->peer, p->moved);
    (void)argument;
    if (p->combine) {
        const uint32_t token = p->rank->token[(size_t)p->peer * h->g.tokens + p->item];
        memcpy(back_at(p->rank, token, ht_targets_before(h, token, p->peer)), slot, h->combine_slot.bytes);
    } else {
        ht_slot_unpack(h, slot, h->g.rank * h->g.local_experts, h->recv_before[p->peer] + p->item);
    }
}

/* A receiver that waits is in the middle of a poll when a row comes.  So half a poll passes on average before the poll
 * that finds the row.  Instead, every second wait is charged with a whole poll. */
static bool looks_early(const struct ts_warp *p) { return (p->moved + p->peer + p->channel) % 2; }

static enum worker_step receive_step(struct fabric_worker *w)
{
    struct ts_warp *p = fabric_container_of(w, struct ts_warp, worker);
    struct ts_rank *r = p->rank;
    const struct ts_fifo *f = &r->fifo[p->combine];
    const struct ht_slot *slot = slot_of(p);
    if (warp_begin(p)) return WORKER_MORE;
    const uint32_t freed = p->moved / f->entry_slots;
    if (freed > p->freed && !word_tell(w, r, p->peer, word_freed(r, p->combine, r->ht.g.rank, p->channel), freed))
        return WORKER_WAIT;
    p->freed = freed;
    if (p->item >= p->end) return WORKER_DONE;
    if (ht_word(&r->ht, word_sent(r, p->combine, p->peer, p->channel)) <= p->moved) {
        p->waited = true;
        return WORKER_WAIT;
    }
    const bool early = p->waited && looks_early(p);
    p->waited = false;
    if (early) {
        fabric_work(w,
                    &(struct fabric_work){
                        .kind = FABRIC_WORK_COPY, .rows = 1, .site = SITE_TWO_SIDED_LOOK, .read_bytes = slot->bytes });
        return WORKER_MORE;
    }
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                          .rows = 1,
                                          .site = p->combine ? SITE_TWO_SIDED_RECEIVE_BACK : SITE_TWO_SIDED_RECEIVE,
                                          .read_bytes = slot->bytes,
                                          .write_bytes = slot->bytes,
                                          .run = receive_run,
                                          .context = p });
    p->moved++;
    p->item += f->channels;
    return WORKER_MORE;
}

static void warp_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ts_warp *p = fabric_container_of(w, struct ts_warp, worker);
    snprintf(text, text_size, "two-sided channel %u waits for rank %u: row %u of %u", p->channel, p->peer, p->item,
             p->end);
}

static const struct worker_role send_role = { .step = send_step, .describe = warp_describe };
static const struct worker_role receive_role = { .step = receive_step, .describe = warp_describe };

/* Launches senders and receivers.  The blocks of all senders come first, channel by channel.  The blocks of all
 * receivers follow, channel by channel.  In combine, rows go the opposite way. */
static void rows_launch(struct ts_rank *r, bool combine)
{
    const struct ht_rank *h = &r->ht;
    const struct ts_fifo *f = &r->fifo[combine];
    const uint32_t ranks = h->g.ranks, a_channel = moe_ceiling(ranks, f->peers), sms = h->base.options->num_sms;
    for (uint32_t i = 0; i < 2 * ranks * f->channels; i++) {
        struct ts_warp *p = &r->warp[i];
        const bool receives = i >= ranks * f->channels;
        const uint32_t peer = i % ranks, channel = i / ranks % f->channels;
        const uint32_t block = peer / f->peers + a_channel * (i / ranks);
        const uint32_t there = h->layout.tokens_per_rank[peer], here = h->recv_before[peer + 1] - h->recv_before[peer];
        *p = (struct ts_warp){ .rank = r,
                               .peer = (uint16_t)peer,
                               .channel = (uint16_t)channel,
                               .item = channel,
                               .end = combine == receives ? there : here,
                               .combine = combine };
        ht_kernel_add(&r->ht, &p->worker, receives ? &receive_role : &send_role, block % sms, 1);
        fabric_watch(&p->worker,
                     receives ? word_sent(r, combine, peer, channel) : word_freed(r, combine, peer, channel), 1, 0);
    }
}

/* ---- local kernels ---- */

static void sum_run(void *context, uint64_t argument)
{
    const struct ht_local *l = context;
    struct ts_rank *r = fabric_container_of(l->rank, struct ts_rank, ht);
    (void)argument;
    for (uint32_t token = l->worker.sm; token < r->ht.g.tokens; token += r->ht.base.options->num_sms) {
        const uint8_t *row[HT_TOPK_MAX];
        const uint32_t rows = ht_targets_before(&r->ht, token, r->ht.g.ranks);
        for (uint32_t i = 0; i < rows; i++) row[i] = back_at(r, token, i);
        ht_token_combine(&r->ht, token, row, rows);
    }
}

/* ---- phases ---- */

static void counts_read(struct ts_rank *r)
{
    for (uint32_t source = 0; source < r->ht.g.ranks; source++)
        r->ht.recv_before[source + 1] = r->ht.recv_before[source] + r->count[r->ht.g.ranks + source].count - 1;
}

static void local_phase(struct ts_rank *r, enum ts_phase phase)
{
    struct ht_rank *h = &r->ht;
    const struct moe_options *o = h->base.options;
    const uint64_t row_bytes = h->combine_slot.row_bytes, places = (uint64_t)h->g.tokens * h->g.topk;
    const uint32_t sms = o->num_sms, most = h->recv_before[h->g.ranks] / h->g.ranks;
    const struct fabric_work scan = { .kind = FABRIC_WORK_SCAN, .site = SITE_TWO_SIDED_PLACES };
    struct fabric_work work = { .kind = FABRIC_WORK_COPY, .site = SITE_TWO_SIDED_FILL, .rows = 4 * OS_WARPS };
    if (phase == TS_PREPARE_SUM || phase == TS_PREPARE_MOVE) {
        const uint32_t blocks = phase == TS_PREPARE_SUM ? 2 : moe_min(2 * h->g.ranks, sms);
        work = scan;
        work.rows = phase == TS_PREPARE_SUM ? 1 : 2 + moe_ceiling(most, 32 * TS_MOVE_WARPS);
        ht_local_launch(h, r->local, blocks, TS_MOVE_WARPS, work);
        return;
    }
    if (phase == TS_DISPATCH_SANITIZE)
        work.write_bytes = ((uint64_t)o->tokens_max * h->g.ranks - ht_recv_rows(h)) * 4 * h->g.topk;
    else work.write_bytes = (phase == TS_COMBINE_ZERO ? places : h->g.tokens) * row_bytes;
    if (phase == TS_COMBINE_SUM) {
        work.site = SITE_TWO_SIDED_SUM;
        work.read_bytes = places * row_bytes;
        work.run = sum_run;
    }
    ht_local_launch(h, r->local, sms, 4 * OS_WARPS, work);
}

static struct kernel_launch *ts_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct ts_rank *r = (struct ts_rank *)rank;
    struct ht_rank *h = &r->ht;
    const bool payload = h->base.fabric->payload;
    if (phase == TS_PREPARE_SUM) counts_read(r);
    r->launched = phase;
    ht_kernel_begin(h, phase_names[phase]);
    h->kernel.follows = phase != TS_PREPARE && phase != TS_DISPATCH && phase != TS_COMBINE_ZERO;
    h->kernel.span = spans[phase];
    switch ((enum ts_phase)phase) {
    case TS_PREPARE: prepare_launch(r); break;
    case TS_DISPATCH:
        if (payload) ht_inputs_make(h);
        if (payload) ht_tensors_recv(h);
        rows_launch(r, false);
        break;
    case TS_COMBINE:
        if (payload) ht_tensors_combine(h);
        rows_launch(r, true);
        break;
    case TS_DISPATCH_SANITIZE:
        if (payload) ht_experts_count(h);
        /* fall through */
    case TS_PREPARE_SUM:
    case TS_PREPARE_MOVE:
    case TS_COMBINE_ZERO:
    case TS_COMBINE_SUM: local_phase(r, (enum ts_phase)phase); break;
    case TS_PHASES: break;
    }
    return &h->kernel;
}

static void ts_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct ts_rank *r = (const struct ts_rank *)rank;
    const struct ht_rank *h = &r->ht;
    if (phase != TS_DISPATCH && phase != TS_COMBINE) return;
    const struct ht_slot *s = phase == TS_DISPATCH ? &h->dispatch_slot : &h->combine_slot;
    const uint64_t sent = ht_traffic_tokens(h, phase == TS_DISPATCH, ht_recv_rows(h), traffic);
    traffic->logical_nvl_bytes = sent * (s->row_bytes + s->scale_bytes);
}

const struct moe_family moe_family_two_sided = {
    .kernels = { .needs = ts_needs,
                 .phases = phase_names,
                 .rank_new = ts_create,
                 .launch = ts_launch,
                 .traffic = ts_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check },
    .refuse = ts_refuse,
};
