/* moe_ht_inter_forward.c - internode dispatch, the receiving half (PROTOCOLS.md 1.3):
 *
 *     forwarder, SM 2c      one warp for each rank of the node: reads the tokens that came by RDMA from one node after
 *                           another, and copies those that its rank needs into the NVLink ring there, in chunks
 *     head keeper, SM 2c    one warp: when all forwarders have read RDMA slots, gives them back, at least a chunk
 *     receiver, SM 2c + 1   one warp for each forwarding rank of the node: copies from the NVLink ring into recv_x,
 *                           behind the rows of lower ranks and channels */
#include "models/moe/moe_ht_inter.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- forwarder ----------------------------------------------------------------------------------------- */

static const uint8_t *rail_slot(const struct inter_rank *r, uint32_t channel, uint32_t node, uint32_t position)
{
    const struct ht_rank *h = &r->ht;
    return h->base.fabric->heap + inter_rail_ring(r, r->map.rdma_recv, channel, node) +
           (uint64_t)(position % h->base.options->dispatch.rdma_recv) * h->dispatch_slot.stored;
}

/* Passes each node's ranges on to the receiver once they have come.  The words get 1 + start and 1 + end. */
static bool forwarder_relay(struct inter_forwarder *d)
{
    struct inter_rank *r = d->rank;
    const struct ht_geometry *g = &r->ht.g;
    for (; d->relayed < 2 * g->nodes; d->relayed++) {
        const uint32_t node = d->relayed / 2;
        const uint32_t *meta = inter_meta(r, d->channel, node);
        if (!meta) return false;
        const bool end = d->relayed % 2;
        const uint32_t word = inter_word_nvl(r, end ? INTER_END : INTER_START, d->channel, g->self, node);
        if (!ht_word_send(&d->worker, &r->ht, d->ring.peer, 0, word, meta[end ? g->local + d->target : d->target] + 1))
            return false;
        const uint32_t *range = &meta[2 * g->local];
        const uint32_t count = range[1] - range[0];
        r->rail_first[d->channel * g->nodes + node] = r->rail_before[node] + range[0];
        r->rail_count[d->channel * g->nodes + node] = count;
        if (end) continue;
        d->from[node].count = count;
        d->left += count;
    }
    return true;
}

/* The next node in rotation with tokens that have come and are not passed on yet; -1 if there is none. */
static int forwarder_next(struct inter_forwarder *d)
{
    const struct inter_rank *r = d->rank;
    const uint32_t nodes = r->ht.g.nodes, tails = inter_word_rail(r, INTER_RDMA_TAIL, d->channel, 0);
    uint32_t node = d->node;
    for (uint32_t i = 0; i < nodes; i++) {
        node = node + 1 < nodes ? node + 1 : 0;
        if (d->from[node].head == d->from[node].count) continue;
        if (d->look.host || d->from[node].head == d->from[node].tail)
            d->from[node].tail = ht_word(&r->ht, tails + node);
        if (d->from[node].head < d->from[node].tail) return (int)node;
    }
    return -1;
}

/* How many tails the forwarder reads in its rotation, up to the tail of `node`.  It reads only the tails of nodes from
 * which it still has tokens to pass on. */
static uint32_t forwarder_words(const struct inter_forwarder *d, int node)
{
    const uint32_t nodes = d->rank->ht.g.nodes;
    uint32_t words = 0, at = d->node;
    for (uint32_t i = 0; i < nodes; i++) {
        at = at + 1 < nodes ? at + 1 : 0;
        words += d->from[at].head < d->from[at].count;
        if ((int)at == node) break;
    }
    return words;
}

/* Reads tokens that have come from the node, at most 255, until a chunk of them is for the forwarder's rank. */
static void forwarder_scan(struct inter_forwarder *d)
{
    struct inter_rank *r = d->rank;
    const struct ht_rank *h = &r->ht;
    const uint32_t most = h->base.options->dispatch.nvl_send, slots = h->base.options->dispatch.rdma_recv;
    const uint32_t head = d->from[d->node].head, tail = d->from[d->node].tail;
    const uint32_t available = moe_min(tail - head, UINT8_MAX);
    const uint8_t *ring = rail_slot(r, d->channel, d->node, 0) + h->dispatch_slot.meta;
    uint8_t *seen = &r->bits[r->rail_first[d->channel * h->g.nodes + d->node] + head];
    uint32_t found = 0, i = 0, at = head % slots;
    assert(head < tail && tail <= d->from[d->node].count && most <= UINT8_MAX);
    for (; i < available && found < most; i++) {
        uint32_t meta[2];
        memcpy(meta, ring + (uint64_t)at * h->dispatch_slot.stored, sizeof meta);
        at = at + 1 < slots ? at + 1 : 0;
        seen[i] = (uint8_t)meta[1];
        if (meta[1] >> d->target & 1) d->pick[found++] = (uint8_t)i;
    }
    d->scanned = i;
    d->pick_tail = d->ring.tail;
    d->ring.pending = found;
    ht_scan_here(&d->worker, SITE_INTER_META_READ, i, (uint64_t)i * sizeof(uint32_t[2]));
}

static void forwarder_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot)
{
    const struct inter_forwarder *d = fabric_container_of(w, struct inter_forwarder, worker);
    const uint32_t at = d->from[d->node].head + d->pick[sequence - d->pick_tail];
    memcpy(slot, rail_slot(d->rank, d->channel, d->node, at), d->rank->nvl_slot.stored);
}

static enum worker_step forwarder_step(struct fabric_worker *w)
{
    struct inter_forwarder *d = fabric_container_of(w, struct inter_forwarder, worker);
    struct inter_rank *r = d->rank;
    struct ht_rank *h = &r->ht;
    const uint32_t chunk = h->base.options->dispatch.nvl_send;
    if (!forwarder_relay(d)) return WORKER_WAIT;
    if (!d->scanned && d->ring.published == d->ring.tail && d->left) {
        if (ht_ring_space(h, &d->ring) < chunk) return WORKER_WAIT;
        const int node = forwarder_next(d);
        if (!ht_look_begin(w, &d->look, forwarder_words(d, node))) return WORKER_MORE;
        if (node < 0) return WORKER_WAIT;
        d->look.under_way = false;
        d->node = (uint32_t)node;
        forwarder_scan(d);
    }
    const uint32_t rows = d->ring.pending; /* written one after another, the last one in a step of its own */
    if (rows && !ht_ring_write_some(w, &d->ring, &r->nvl_slot, forwarder_fill, rows > 1 ? rows - 1 : 1))
        return WORKER_WAIT;
    if (rows > 1) return WORKER_MORE;
    if (d->scanned) {
        d->from[d->node].head += d->scanned;
        assert(d->from[d->node].head <= d->from[d->node].tail && d->scanned <= d->left);
        d->left -= d->scanned;
        fabric_signal_add(w, inter_word_forwarded(r, d->channel, d->node, d->target), d->scanned, SITE_HT_SHARED_ADD);
        d->scanned = 0;
    }
    if (!ht_ring_publish(w, h, &d->ring)) return WORKER_WAIT;
    if (!d->left) return WORKER_DONE;
    const bool space = ht_ring_space(h, &d->ring) >= chunk;
    return space && (d->look.host || forwarder_next(d) >= 0) ? WORKER_MORE : WORKER_WAIT;
}

static void forwarder_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    struct inter_forwarder d = *fabric_container_of(w, const struct inter_forwarder, worker);
    if (d.relayed < 2 * d.rank->ht.g.nodes) {
        snprintf(text, text_size, "forwarder of channel %u to rank %u waits for the ranges of rank %u", d.channel,
                 d.ring.peer, ht_rail(&d.rank->ht.g, d.relayed / 2));
        return;
    }
    if (forwarder_next(&d) >= 0) {
        snprintf(text, text_size, "forwarder of channel %u waits for rank %u to free slots: %u sent, %u read",
                 d.channel, d.ring.peer, d.ring.tail, ht_word(&d.rank->ht, d.ring.head_word));
        return;
    }
    uint32_t node = 0;
    while (node + 1 < d.rank->ht.g.nodes && d.from[node].head == d.from[node].count) node++;
    snprintf(text, text_size, "forwarder of channel %u to rank %u waits for tokens of rank %u: %u of %u came",
             d.channel, d.ring.peer, ht_rail(&d.rank->ht.g, node), d.from[node].head, d.from[node].count);
}

/* Prefetches what the next step will read.  A step reads words only if a chunk begins or ends. */
static void forwarder_ahead(const struct fabric_worker *w)
{
    const struct inter_forwarder *d = fabric_container_of(w, const struct inter_forwarder, worker);
    ht_lines_ahead(d, offsetof(struct inter_forwarder, from[d->rank->ht.g.nodes]));
    if (d->ring.pending > 1) return;
    __builtin_prefetch(w->fabric->words + d->ring.head_word);
    __builtin_prefetch(w->fabric->words + inter_word_rail(d->rank, INTER_RDMA_TAIL, d->channel, 0));
}

static const struct worker_role forwarder_role = { .step = forwarder_step,
                                                   .describe = forwarder_describe,
                                                   .ahead = forwarder_ahead };

static void forwarder_launch(struct inter_rank *r, uint32_t channel, uint32_t target)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    struct inter_forwarder *d = &r->forwarder[channel * g->local + target];
    const uint32_t peer = ht_neighbour(&r->ht.g, target);
    *d = (struct inter_forwarder){
        .rank = r,
        .channel = channel,
        .target = target,
        .node = 2 * channel % g->nodes,
        .look = inter_look(r, INTER_RDMA_TAIL, channel, 0),
        .ring = { .site = ht_site(h, MOE_DEEPEP_BULK_DISPATCH, SITE_INTER_FORWARD_ROW, SITE_INTER_FORWARD_LOADS),
                  .given = &r->forward_row,
                  .offset = inter_nvl_ring(r, channel, g->self),
                  .slots = h->base.options->dispatch.nvl_recv,
                  .tail_word = inter_word_nvl(r, INTER_NVL_TAIL, channel, g->self, 0),
                  .head_word = inter_word_nvl(r, INTER_NVL_HEAD, channel, target, 0),
                  .peer = (uint16_t)peer },
    };
    for (uint32_t n = 0; n < g->nodes; n++)
        r->forwarded_base[inter_forwarded_at(r, channel, n, target)] =
            fabric_load(h->base.fabric, inter_word_forwarded(r, channel, n, target));
    ht_kernel_add(h, &d->worker, &forwarder_role, 2 * channel, 1);
    fabric_watch(&d->worker, inter_word_rail(r, INTER_META, channel, 0), g->nodes, 0);
    fabric_watch(&d->worker, inter_word_rail(r, INTER_RDMA_TAIL, channel, 0), g->nodes, 0);
    fabric_watch(&d->worker, d->ring.head_word, 1, 0);
}

/* ---- head keeper --------------------------------------------------------------------------------------- */

static uint32_t forwarded(const struct inter_head_keeper *k, uint32_t node, uint32_t target)
{
    const struct inter_rank *r = k->rank;
    const uint64_t now = fabric_load(k->worker.fabric, inter_word_forwarded(r, k->channel, node, target));
    return (uint32_t)(now - r->forwarded_base[inter_forwarded_at(r, k->channel, node, target)]);
}

/* How many tokens of the node's ring the slowest forwarder has read.  The search begins with the forwarder that was
 * last the slowest.  If it meets a forwarder below `least`, it stops and returns how many that one has read. */
static uint32_t forwarded_min(struct inter_head_keeper *k, uint32_t node, uint32_t least)
{
    const uint32_t local = k->rank->ht.g.local, first = k->behind[node];
    uint32_t min = UINT32_MAX;
    for (uint32_t i = 0; i < local && min >= least; i++) {
        const uint32_t target = first + i < local ? first + i : first + i - local;
        const uint32_t head = forwarded(k, node, target);
        if (head < min) k->behind[node] = (uint8_t)target;
        min = moe_min(min, head);
    }
    return min;
}

/* Gives back a node's slots, at least a chunk at a time.  False: there is no room to tell the node. */
static bool head_tell(struct inter_head_keeper *k, uint32_t node)
{
    const struct inter_rank *r = k->rank;
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t chunk = r->ht.base.options->dispatch.rdma_send;
    const uint32_t *meta = inter_meta(r, k->channel, node);
    const uint32_t count = meta ? meta[2 * g->local + 1] - meta[2 * g->local] : UINT32_MAX;
    const uint32_t least = k->published[node] + chunk, head = forwarded_min(k, node, moe_min(least, count));
    if (head >= least) {
        if (!ht_word_send(&k->worker, &r->ht, ht_rail(&r->ht.g, node), inter_head_queue(r->ht.base.options, k->channel),
                          inter_word_rail(r, INTER_RDMA_HEAD, k->channel, g->node), head))
            return false;
        assert(k->published[node] < head);
        k->published[node] = head;
    }
    if (head == count) k->ended |= 1u << node;
    if (!meta) return true;
    const uint64_t base = r->forwarded_base[inter_forwarded_at(r, k->channel, node, k->behind[node])];
    k->due[node] = base + moe_min(k->published[node] + chunk, count);
    return true;
}

static enum worker_step head_keeper_step(struct fabric_worker *w)
{
    struct inter_head_keeper *k = fabric_container_of(w, struct inter_head_keeper, worker);
    const struct inter_rank *r = k->rank;
    const uint32_t nodes = r->ht.g.nodes;
    for (uint32_t node = 0; node < nodes; node++) {
        if (k->ended >> node & 1) continue;
        const uint32_t word = inter_word_forwarded(r, k->channel, node, k->behind[node]);
        if (fabric_load(w->fabric, word) >= k->due[node] && !head_tell(k, node)) return WORKER_WAIT;
    }
    return k->ended == (1u << nodes) - 1 ? WORKER_DONE : WORKER_WAIT;
}

static void head_keeper_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_head_keeper *k = fabric_container_of(w, struct inter_head_keeper, worker);
    snprintf(text, text_size, "RDMA head keeper of channel %u waits for the forwarders", k->channel);
}

static void head_keeper_ahead(const struct fabric_worker *w)
{
    const struct inter_head_keeper *k = fabric_container_of(w, const struct inter_head_keeper, worker);
    const uint32_t nodes = k->rank->ht.g.nodes;
    ht_lines_ahead(k, offsetof(struct inter_head_keeper, due[nodes]));
    for (uint32_t node = 0; node < nodes; node++)
        __builtin_prefetch(w->fabric->words + inter_word_forwarded(k->rank, k->channel, node, k->behind[node]));
}

static const struct worker_role head_keeper_role = { .step = head_keeper_step,
                                                     .describe = head_keeper_describe,
                                                     .ahead = head_keeper_ahead };

static void head_keeper_launch(struct inter_rank *r, uint32_t channel)
{
    struct inter_head_keeper *k = &r->head_keeper[channel];
    const struct ht_geometry *g = &r->ht.g;
    *k = (struct inter_head_keeper){ .rank = r, .channel = channel };
    ht_kernel_add(&r->ht, &k->worker, &head_keeper_role, 2 * channel, 1);
    fabric_watch(&k->worker, inter_word_forwarded(r, channel, 0, 0), g->nodes * g->local, 0);
    fabric_watch(&k->worker, inter_word_rail(r, INTER_META, channel, 0), g->nodes, 0);
}

/* ---- receiver ------------------------------------------------------------------------------------------ */

/* Copies slots to their rows of recv_x.  The low half of argument is the first slot's number, the high half the number
 * of slots. */
static void receiver_run(void *context, uint64_t argument)
{
    struct inter_receiver *v = context;
    struct ht_rank *h = &v->rank->ht;
    const uint8_t *ring = h->base.fabric->heap + inter_nvl_ring(v->rank, v->channel, v->source);
    const uint32_t first = (uint32_t)argument, count = (uint32_t)(argument >> 32);
    for (uint32_t i = first; i < first + count; i++) {
        const uint8_t *slot = ring + (size_t)(i % h->base.options->dispatch.nvl_recv) * h->dispatch_slot.stored;
        uint32_t node;
        memcpy(&node, slot + h->dispatch_slot.meta, sizeof node);
        ht_slot_unpack(h, slot, h->g.rank * h->g.local_experts, v->row[node]++);
    }
}

static bool receiver_know(struct inter_receiver *v)
{
    struct inter_rank *r = v->rank;
    const struct ht_geometry *g = &r->ht.g;
    uint32_t count = 0;
    for (uint32_t node = 0; node < g->nodes; node++) {
        const uint32_t start = ht_word(&r->ht, inter_word_nvl(r, INTER_START, v->channel, v->source, node));
        const uint32_t end = ht_word(&r->ht, inter_word_nvl(r, INTER_END, v->channel, v->source, node));
        if (!start || !end) return false;
        const uint32_t source = node * g->local + v->source;
        assert(start <= end);
        v->row[node] = r->ht.recv_before[source] + start - 1;
        r->rows_first[source * g->channels + v->channel] = v->row[node];
        r->rows_count[source * g->channels + v->channel] = end - start;
        count += end - start;
    }
    v->count = count;
    return v->known = true;
}

static bool receiver_publish(struct inter_receiver *v)
{
    const struct inter_rank *r = v->rank;
    assert(v->published <= v->head && v->head <= v->count);
    if (v->published == v->head) return true;
    const uint32_t word = inter_word_nvl(r, INTER_NVL_HEAD, v->channel, r->ht.g.self, 0);
    if (!ht_word_send(&v->worker, &r->ht, ht_neighbour(&r->ht.g, v->source), 0, word, v->head)) return false;
    v->published = v->head;
    return true;
}

/* Copies rows one after another, because a row's place depends on its source, which must be read first. */
static void receiver_copy(struct inter_receiver *v, uint32_t rows)
{
    const struct ht_rank *h = &v->rank->ht;
    const uint64_t bytes = (uint64_t)rows * h->dispatch_slot.bytes;
    const enum site site = ht_site(h, MOE_DEEPEP_BULK_DISPATCH, SITE_INTER_RECEIVE_ROW, SITE_INTER_RECEIVE_LOADS);
    fabric_work(&v->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .site = site,
                                                   .given = &v->rank->receive_row,
                                                   .rows = rows,
                                                   .read_bytes = bytes,
                                                   .write_bytes = bytes,
                                                   .run = receiver_run,
                                                   .context = v,
                                                   .argument = (uint64_t)rows << 32 | v->head });
    v->head += rows;
}

/* Copies the rows that one read of the tail has shown.  Gives their slots back in the step that copies the last row. */
static enum worker_step receiver_step(struct fabric_worker *w)
{
    struct inter_receiver *v = fabric_container_of(w, struct inter_receiver, worker);
    if (!v->known && !receiver_know(v)) return WORKER_WAIT;
    const uint32_t rows = v->seen - v->head;
    if (rows) receiver_copy(v, rows > 1 ? rows - 1 : 1);
    if (rows > 1) return WORKER_MORE;
    if (!receiver_publish(v)) return WORKER_WAIT;
    if (v->head == v->count) return WORKER_DONE;
    v->seen = ht_word(&v->rank->ht, inter_word_nvl(v->rank, INTER_NVL_TAIL, v->channel, v->source, 0));
    assert(v->head <= v->seen && v->seen <= v->count);
    assert(v->seen - v->head <= v->rank->ht.base.options->dispatch.nvl_recv);
    return v->head < v->seen ? WORKER_MORE : WORKER_WAIT;
}

static void receiver_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_receiver *v = fabric_container_of(w, struct inter_receiver, worker);
    snprintf(text, text_size, "dispatch receiver of channel %u waits for %s of rank %u: %u of %u read", v->channel,
             v->known ? "tokens" : "the ranges", ht_neighbour(&v->rank->ht.g, v->source), v->head, v->count);
}

static void receiver_ahead(const struct fabric_worker *w)
{
    const struct inter_receiver *v = fabric_container_of(w, const struct inter_receiver, worker);
    if (v->head + 1 < v->seen) return;
    __builtin_prefetch(w->fabric->words + inter_word_nvl(v->rank, INTER_NVL_TAIL, v->channel, v->source, 0));
}

static const struct worker_role receiver_role = { .step = receiver_step,
                                                  .describe = receiver_describe,
                                                  .ahead = receiver_ahead };

static void receiver_launch(struct inter_rank *r, uint32_t channel, uint32_t source)
{
    const struct ht_geometry *g = &r->ht.g;
    struct inter_receiver *v = &r->receiver[channel * g->local + source];
    *v = (struct inter_receiver){ .rank = r, .channel = channel, .source = source };
    ht_kernel_add(&r->ht, &v->worker, &receiver_role, 2 * channel + 1, 1);
    fabric_watch(&v->worker, inter_word_nvl(r, INTER_START, channel, source, 0), g->nodes, 0);
    fabric_watch(&v->worker, inter_word_nvl(r, INTER_END, channel, source, 0), g->nodes, 0);
    fabric_watch(&v->worker, inter_word_nvl(r, INTER_NVL_TAIL, channel, source, 0), 1, 0);
}

/* Sets the sizes for the loops that forward and receive rows: nodes, ranks of a node, words of scales, choices. */
void inter_forward_give(struct inter_rank *r)
{
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    const uint64_t scales = slot->scale_bytes / sizeof(float);
    r->receive_row = r->forward_row =
        (struct site_given){ .size = { r->ht.g.nodes, r->ht.g.local, scales, slot->topk } };
}

void inter_forward_launch(struct inter_rank *r, uint32_t channel)
{
    const uint32_t local = r->ht.g.local;
    for (uint32_t i = 0; i < local; i++) forwarder_launch(r, channel, (i + channel) % local);
    head_keeper_launch(r, channel);
    for (uint32_t i = 0; i < local; i++) receiver_launch(r, channel, (i + channel) % local);
}
