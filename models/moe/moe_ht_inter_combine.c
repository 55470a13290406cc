/* moe_ht_inter_combine.c - internode combine (PROTOCOLS.md 1.3): rows go back the way that they came, and are summed
 * twice.
 *
 *     returner, SM 2c           one warp for each rank of the node: returns the channel's rows which that rank has
 *                               forwarded, into its NVLink ring, which is divided evenly between the nodes of origin
 *     merger, SM 2c + 1         some warps for each node: a warp takes a token, sums its rows from this node's ranks,
 *                               rounds the sum and puts it into the send ring; one write sends a chunk
 *     merge keeper, SM 2c + 1   one warp: gives back NVLink slots that the slowest warp of a merger has read
 *     reducers, keeper, SM 2c   sum what came from the nodes (moe_ht_reduce.c) */
#include "models/moe/moe_ht_inter.h"

#include <assert.h>
#include <stdio.h>

/* ---- returner ------------------------------------------------------------------------------------------ */

static void returner_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot)
{
    const struct inter_returner *s = fabric_container_of(w, struct inter_returner, worker);
    ht_slot_pack_combine(&s->rank->ht, s->part[s->filling].row + sequence, slot);
}

static bool returner_ready(const struct inter_returner *s, uint32_t node)
{
    const struct ht_rank *h = &s->rank->ht;
    const struct inter_part *part = &s->part[node];
    if (part->tail == part->count) return false;
    const uint32_t head = ht_word(h, s->ring.head_word + node);
    assert(head <= part->tail && part->tail - head <= s->ring.slots);
    return s->ring.slots - (part->tail - head) >= h->base.options->combine.nvl_send;
}

/* Begins a chunk for each node whose part of the ring has room. */
static void returner_begin(struct inter_returner *s)
{
    const struct ht_rank *h = &s->rank->ht;
    for (uint32_t n = 0; n < h->g.nodes; n++) {
        if (!returner_ready(s, n)) continue;
        s->part[n].pending = moe_min(h->base.options->combine.nvl_send, s->part[n].count - s->part[n].tail);
        s->under_way |= 1u << n;
    }
    s->pending = s->under_way;
}

/* The first pending node at or after the channel's first node, in rotation.  Channels have different first nodes. */
static uint32_t returner_next(const struct inter_returner *s)
{
    const uint32_t first = (s->channel + 1) % s->rank->ht.g.nodes, behind = s->pending >> first << first;
    return (uint32_t)__builtin_ctz(behind ? behind : s->pending);
}

/* Writes the pending rows of one node.  If no other node has pending rows, the last row is left for the next step,
 * which also sends the tails.  Rows go one after another, because the warps of an SM take turns at its bulk engine. */
static bool returner_rows_write(struct inter_returner *s)
{
    const struct ht_slot *slot = &s->rank->ht.combine_slot;
    s->filling = returner_next(s);
    struct inter_part *part = &s->part[s->filling];
    const bool last = !(s->pending & (s->pending - 1));
    struct ht_ring ring = s->ring;
    ring.offset += (uint64_t)s->filling * ring.slots * slot->stored;
    ring.tail = part->tail;
    ring.pending = part->pending;
    const uint32_t most = last && part->pending > 1 ? part->pending - 1 : part->pending;
    if (!ht_ring_write_some(&s->worker, &ring, slot, returner_fill, most)) return false;
    s->left -= ring.tail - part->tail;
    part->tail = ring.tail;
    part->pending = ring.pending;
    if (!part->pending) s->pending &= ~(1u << s->filling);
    return true;
}

/* Writes a chunk for each node whose part of the ring has room, then sends the tails of these parts.  The first step
 * reads where the peer's buffer is and which rows are to be returned. */
static enum worker_step returner_step(struct fabric_worker *w)
{
    struct inter_returner *s = fabric_container_of(w, struct inter_returner, worker);
    if (!s->read)
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTER_RANGES_READ, .rows = 2 });
    s->read = true;
    if (!s->under_way) returner_begin(s);
    if (s->pending) {
        if (!returner_rows_write(s)) return WORKER_WAIT;
        if (s->pending) return WORKER_MORE;
    }
    while (s->under_way) {
        const uint32_t n = (uint32_t)__builtin_ctz(s->under_way);
        if (!ht_word_send(w, &s->rank->ht, s->ring.peer, 0, s->ring.tail_word + n, s->part[n].tail)) return WORKER_WAIT;
        s->under_way &= s->under_way - 1;
    }
    if (!s->left) return WORKER_DONE;
    for (uint32_t n = 0; n < s->rank->ht.g.nodes; n++)
        if (returner_ready(s, n)) return WORKER_MORE;
    return WORKER_WAIT;
}

static void returner_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_returner *s = fabric_container_of(w, struct inter_returner, worker);
    uint32_t n = 0;
    while (n + 1 < s->rank->ht.g.nodes && s->part[n].tail == s->part[n].count) n++;
    snprintf(text, text_size,
             "combine sender of channel %u waits for rank %u to free slots of node %u: %u of %u sent, "
             "%u read",
             s->channel, s->ring.peer, n, s->part[n].tail, s->part[n].count,
             ht_word(&s->rank->ht, s->ring.head_word + n));
}

/* Prefetches what the next step will read.  A step reads words only if a chunk begins or ends. */
static void returner_ahead(const struct fabric_worker *w)
{
    const struct inter_returner *s = fabric_container_of(w, const struct inter_returner, worker);
    ht_lines_ahead(s, offsetof(struct inter_returner, part[s->rank->ht.g.nodes]));
    if (!(s->pending & (s->pending - 1))) __builtin_prefetch(w->fabric->words + s->ring.head_word);
}

static const struct worker_role returner_role = { .step = returner_step,
                                                  .describe = returner_describe,
                                                  .ahead = returner_ahead };

static void returner_launch(struct inter_rank *r, uint32_t channel, uint32_t target)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    struct inter_returner *s = &r->returner[channel * g->local + target];
    *s = (struct inter_returner){
        .rank = r,
        .channel = channel,
        .target = target,
        .ring = { .offset = inter_nvl_ring(r, channel, g->self),
                  .slots = h->base.options->combine.nvl_recv / g->nodes,
                  .site = ht_site(h, MOE_DEEPEP_BULK_COMBINE, SITE_INTER_RETURN_ROW, SITE_INTER_RETURN_LOADS),
                  .given = &r->return_row,
                  .peer = ht_neighbour(&r->ht.g, target),
                  .tail_word = inter_word_nvl(r, INTER_NVL_TAIL, channel, g->self, 0),
                  .head_word = inter_word_nvl(r, INTER_NVL_HEAD, channel, target, 0) },
    };
    for (uint32_t n = 0; n < g->nodes; n++) {
        const uint32_t at = (n * g->local + target) * g->channels + channel;
        s->part[n].row = r->rows_first[at];
        s->part[n].count = r->rows_count[at];
        s->left += s->part[n].count;
    }
    ht_kernel_add(h, &s->worker, &returner_role, 2 * channel, 1);
    fabric_watch(&s->worker, inter_word_nvl(r, INTER_NVL_HEAD, channel, target, 0), g->nodes, 0);
}

/* ---- merger -------------------------------------------------------------------------------------------- */

/* The index, among the node's tokens, of the worker's token with this number.  The worker takes every parts'th token of
 * each chunk.  Returns count if there is no such token. */
static uint32_t merger_token(const struct inter_merger *m, uint32_t number)
{
    const uint32_t chunk = m->rank->ht.base.options->combine.rdma_send;
    const uint32_t of_chunk = (chunk - m->part + m->parts - 1) / m->parts, turn = number / of_chunk;
    return moe_min(turn * chunk + m->part + (number - turn * of_chunk) * m->parts, m->count);
}

static bool merger_leads(const struct inter_merger *m) { return m->part + 1 == m->parts; }

/* Advances m->position to the rows of `token`, by counting the rows of the tokens before it. */
static void merger_advance(struct inter_merger *m, uint32_t token)
{
    for (; m->upto < token; m->upto++)
        for (uint32_t left = m->bits[m->upto]; left; left &= left - 1) m->position[__builtin_ctz(left)]++;
}

/* How many of the next tokens, at most `most`, have all their rows.  *rows gets the number of these rows. */
static uint32_t merger_ready(struct inter_merger *m, uint32_t most, uint32_t *rows)
{
    const struct inter_rank *r = m->rank;
    uint32_t position[HT_LOCAL_MAX], count = 0;
    for (uint32_t i = 0; i < r->ht.g.local; i++) position[i] = m->position[i];
    for (; count < most; count++) {
        const uint32_t bits = m->bits[m->upto + count];
        for (uint32_t left = bits; left; left &= left - 1) {
            const uint32_t i = (uint32_t)__builtin_ctz(left);
            if (m->tail[i] > position[i]) continue;
            const uint32_t word = inter_word_nvl(r, INTER_NVL_TAIL, m->channel, i, m->node);
            m->tail[i] = ht_word(&r->ht, word);
            if (m->tail[i] > position[i]) continue;
            m->awaited = (struct ht_awaited){ .word = word, .value = position[i] + 1 };
            return count;
        }
        for (uint32_t left = bits; left; left &= left - 1) position[__builtin_ctz(left)]++;
        *rows += (uint32_t)__builtin_popcount(bits);
    }
    return count;
}

static uint64_t merger_slot(const struct inter_merger *m, uint32_t position)
{
    const struct inter_rank *r = m->rank;
    const struct ht_rank *h = &r->ht;
    const uint64_t rings = m->node == h->g.node ? r->map.rdma_recv : r->map.rdma_send;
    return inter_rail_ring(r, rings, m->channel, m->node) +
           (uint64_t)(position % h->base.options->combine.rdma_recv) * h->combine_slot.stored;
}

/* Sums the rows of the next `argument` tokens. */
static void merger_run(void *context, uint64_t argument)
{
    const struct inter_merger *m = context;
    const struct inter_rank *r = m->rank;
    const struct ht_rank *h = &r->ht;
    uint8_t *heap = h->base.fabric->heap;
    const uint32_t slots = h->base.options->combine.nvl_recv / h->g.nodes;
    uint32_t position[HT_LOCAL_MAX];
    for (uint32_t i = 0; i < h->g.local; i++) position[i] = m->position[i];
    for (uint32_t t = m->upto; t < m->upto + argument; t++) {
        const uint8_t *slot[HT_LOCAL_MAX];
        uint32_t slot_count = 0;
        for (uint32_t left = m->bits[t]; left; left &= left - 1) {
            const uint32_t i = (uint32_t)__builtin_ctz(left);
            const uint64_t at = (uint64_t)m->node * slots + position[i]++ % slots;
            slot[slot_count++] = heap + inter_nvl_ring(r, m->channel, i) + at * h->combine_slot.stored;
        }
        ht_slots_reduce(h, slot, slot_count, heap + merger_slot(m, t));
    }
}

/* How many tokens the node's workers have summed altogether. */
static uint32_t merger_summed(const struct inter_merger *m)
{
    const struct inter_rank *r = m->rank;
    if (m->parts == 1) return m->done;
    const uint32_t first = inter_merger_first(r, m->node);
    uint32_t summed = 0;
    for (uint32_t i = 0; i < m->parts; i++)
        summed += (uint32_t)(fabric_load(m->worker.fabric, inter_word_reduced(r, m->channel, first + i)) -
                             r->merger[m->channel * INTER_WARPS + first + i].reduced_base);
    return summed;
}

/* Sends the open chunk if all its tokens are summed: one write, then the tail.  False: there is no room. */
static bool merger_send(struct inter_merger *m)
{
    const struct inter_rank *r = m->rank;
    const struct ht_rank *h = &r->ht;
    const uint32_t peer = ht_rail(&r->ht.g, m->node), summed = merger_summed(m), count = m->chunk_end - m->issued;
    assert(m->told <= m->issued && m->issued <= m->chunk_end && summed <= m->chunk_end && m->chunk_end <= m->count);
    if (summed != m->chunk_end) return true;
    if (count) {
        const uint32_t at = m->issued % h->base.options->combine.rdma_recv, bytes = count * h->combine_slot.stored;
        assert(at + count <= h->base.options->combine.rdma_recv); /* a ring has whole chunks */
        const struct fabric_write write = {
            .target_offset =
                inter_rail_ring(r, r->map.rdma_recv, m->channel, h->g.node) + (uint64_t)at * h->combine_slot.stored,
            .charge_bytes = (uint64_t)count * h->combine_slot.bytes,
            .peer = (uint16_t)peer,
            .queue = (uint16_t)m->channel,
            .rows = (uint8_t)moe_min(count, UINT8_MAX),
            .data = h->base.fabric->heap + merger_slot(m, m->issued),
            .size_bytes = bytes,
        };
        if (m->node != h->g.node && fabric_put(&m->worker, &write, NULL)) return false;
        m->issued = m->chunk_end;
    }
    if (m->told == m->issued) return true;
    const uint32_t word = inter_word_rail(r, INTER_RDMA_TAIL, m->channel, h->g.node);
    const struct ht_look look = inter_look(r, INTER_RDMA_TAIL, m->channel, m->node);
    if (m->node == h->g.node) ht_look_once(&m->worker, &look);
    if (!ht_word_send(&m->worker, h, peer, m->channel, word, m->issued)) return false;
    m->told = m->issued;
    return true;
}

/* Opens the next chunk if its slots are free. */
static bool merger_chunk_open(struct inter_merger *m)
{
    const struct inter_rank *r = m->rank;
    const struct moe_chunks *chunks = &r->ht.base.options->combine;
    const uint32_t count = moe_min(chunks->rdma_send, m->count - m->told);
    const uint32_t head = ht_word(&r->ht, inter_word_rail(r, INTER_RDMA_HEAD, m->channel, m->node));
    assert(head <= m->told && m->told - head <= chunks->rdma_recv);
    if (chunks->rdma_recv - (m->told - head) < count) return false;
    m->chunk_end = m->told + count;
    const struct ht_look look = inter_look(r, INTER_RDMA_HEAD, m->channel, m->node);
    ht_look_once(&m->worker, &look);
    if (m->parts > 1)
        fabric_signal_add(&m->worker, inter_word_opened(r, m->channel, m->node), count, SITE_HT_SHARED_ADD);
    return true;
}

/* The end of the open chunk.  The lead knows the end.  Other workers read it from a word. */
static uint32_t merger_open(const struct inter_merger *m)
{
    if (merger_leads(m)) return m->chunk_end;
    const uint32_t word = inter_word_opened(m->rank, m->channel, m->node);
    return (uint32_t)(fabric_load(m->worker.fabric, word) - m->opened_base);
}

/* Sums the next tokens whose rows have come, at most `most`.  False: there is none. */
static bool merger_sum(struct inter_merger *m, uint32_t most)
{
    const struct inter_rank *r = m->rank;
    const struct ht_slot *slot = &r->ht.combine_slot;
    uint32_t rows = 0;
    const uint32_t count = merger_ready(m, most, &rows);
    if (count == 0) return false;
    const uint64_t row = slot->row_bytes + slot->topk * sizeof(float);
    const enum site site = ht_site(&r->ht, MOE_DEEPEP_FORWARDERS, SITE_INTER_MERGE_ROW, SITE_INTER_MERGE_LOADS);
    fabric_work(&m->worker, &(struct fabric_work){ .kind = FABRIC_WORK_REDUCE,
                                                   .site = site,
                                                   .warps = (uint16_t)(count < m->worker.warps ? count : 0),
                                                   .rows = count,
                                                   .read_bytes = rows * row,
                                                   .write_bytes = count * row,
                                                   .run = merger_run,
                                                   .context = m,
                                                   .argument = count });
    merger_advance(m, m->upto + count);
    m->done += count;
    const uint32_t number = inter_merger_first(r, m->node) + m->part;
    fabric_signal_add(&m->worker, inter_word_reduced(r, m->channel, number), count, SITE_HT_SHARED_ADD);
    return true;
}

static enum worker_step merger_step(struct fabric_worker *w)
{
    struct inter_merger *m = fabric_container_of(w, struct inter_merger, worker);
    const bool leads = merger_leads(m);
    if (m->awaited.word && (m->parts == 1 || !leads) && !ht_awaited_come(&m->rank->ht, &m->awaited)) return WORKER_WAIT;
    m->awaited.word = 0;
    if (leads && !merger_send(m)) return WORKER_WAIT;
    if (leads && m->told == m->count) return WORKER_DONE;
    if (leads && m->told == m->chunk_end && !merger_chunk_open(m)) return WORKER_WAIT;
    const uint32_t token = merger_token(m, m->done), open = merger_open(m);
    if (token == m->count) return leads ? WORKER_WAIT : WORKER_DONE;
    if (token >= open) return WORKER_WAIT;
    merger_advance(m, token);
    if (!merger_sum(m, m->parts > 1 ? 1 : moe_min(w->warps, open - token))) return WORKER_WAIT;
    if (leads && !merger_send(m)) return WORKER_WAIT;
    return leads && m->told == m->count ? WORKER_DONE : WORKER_MORE;
}

static void merger_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_merger *m = fabric_container_of(w, struct inter_merger, worker);
    const struct inter_rank *r = m->rank;
    const uint32_t token = merger_token(m, m->done);
    if (token == m->count || token >= merger_open(m)) {
        snprintf(text, text_size,
                 "combine forwarder of channel %u waits for rank %u to free slots: %u of %u sent, "
                 "%u read",
                 m->channel, ht_rail(&r->ht.g, m->node), m->told, m->count,
                 ht_word(&r->ht, inter_word_rail(r, INTER_RDMA_HEAD, m->channel, m->node)));
        return;
    }
    uint32_t i = 0;
    while (i + 1 < r->ht.g.local && (!(m->bits[token] >> i & 1) || m->tail[i] > m->position[i])) i++;
    snprintf(text, text_size, "combine forwarder of channel %u to rank %u waits for row %u of rank %u", m->channel,
             ht_rail(&r->ht.g, m->node), m->position[i], ht_neighbour(&r->ht.g, i));
}

static void merger_ahead(const struct fabric_worker *w)
{
    const struct inter_merger *m = fabric_container_of(w, const struct inter_merger, worker);
    ht_lines_ahead(m, sizeof *m);
    __builtin_prefetch(&m->bits[m->upto]);
    if (m->awaited.word) __builtin_prefetch(w->fabric->words + m->awaited.word);
}

static const struct worker_role merger_role = { .step = merger_step,
                                                .describe = merger_describe,
                                                .ahead = merger_ahead };

static void merger_launch(struct inter_rank *r, uint32_t channel, uint32_t node, uint32_t part, uint32_t parts)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t number = inter_merger_first(r, node) + part, at = channel * g->nodes + node;
    struct inter_merger *m = &r->merger[channel * INTER_WARPS + number];
    *m = (struct inter_merger){
        .rank = r,
        .channel = channel,
        .node = node,
        .part = part,
        .parts = parts,
        .bits = r->bits + r->rail_first[at],
        .count = r->rail_count[at],
        .reduced_base = fabric_load(r->ht.base.fabric, inter_word_reduced(r, channel, number)),
        .opened_base = fabric_load(r->ht.base.fabric, inter_word_opened(r, channel, node)),
    };
    ht_kernel_add(&r->ht, &m->worker, &merger_role, 2 * channel + 1, inter_merge_warps(r->ht.base.options) / parts);
    for (uint32_t i = 0; i < g->local; i++)
        fabric_watch(&m->worker, inter_word_nvl(r, INTER_NVL_TAIL, channel, i, node), 1, 0);
    if (!merger_leads(m)) {
        fabric_watch(&m->worker, inter_word_opened(r, channel, node), 1, 0);
        return;
    }
    fabric_watch(&m->worker, inter_word_rail(r, INTER_RDMA_HEAD, channel, node), 1, 0);
    if (parts > 1) fabric_watch(&m->worker, inter_word_reduced(r, channel, number + 1 - parts), parts, 0);
}

/* Launches a node's mergers.  With few tokens each warp is a worker, because a warp may be free while another works.
 * With many tokens one worker has all warps, because fewer workers need fewer steps. */
static void mergers_launch(struct inter_rank *r, uint32_t channel, uint32_t node)
{
    enum { FEW_ROUNDS = 4 };
    const uint32_t warps = inter_merge_warps(r->ht.base.options), count = r->rail_count[channel * r->ht.g.nodes + node];
    const uint32_t parts = count <= FEW_ROUNDS * warps ? warps : 1;
    for (uint32_t i = 0; i < parts; i++) merger_launch(r, channel, node, i, parts);
}

/* ---- merge keeper -------------------------------------------------------------------------------------- */

/* Counts the rows of each rank's ring that the slowest warp of the node's mergers has read.  False: the mergers have
 * ended. */
static bool merged_count(struct inter_merge_keeper *k, uint32_t node)
{
    const struct inter_rank *r = k->rank;
    const struct inter_merger *m = &r->merger[k->channel * INTER_WARPS + inter_merger_first(r, node)];
    const uint32_t lag = m->worker.warps - 1u; /* the slowest of the worker's warps may be this many tokens behind */
    uint32_t least = m->count;
    for (uint32_t i = 0; i < m->parts; i++) {
        const uint32_t word = inter_word_reduced(r, k->channel, inter_merger_first(r, node) + i);
        const uint32_t done = (uint32_t)(fabric_load(k->worker.fabric, word) - m[i].reduced_base);
        least = moe_min(least, merger_token(&m[i], done));
    }
    if (least == m->count) return false;
    assert(k->upto[node] <= least);
    for (; k->upto[node] + lag < least; k->upto[node]++)
        for (uint32_t left = m->bits[k->upto[node]]; left; left &= left - 1) k->head[node][__builtin_ctz(left)]++;
    return true;
}

/* Notes which mergers have advanced since the last call. */
static void mergers_look(struct inter_merge_keeper *k)
{
    const struct inter_rank *r = k->rank;
    const uint32_t nodes = r->ht.g.nodes, warps = inter_merge_warps(r->ht.base.options);
    const uint32_t word = inter_word_reduced(r, k->channel, 0);
    for (uint32_t node = 0; node < nodes; node++)
        for (uint32_t i = node * warps; i < node * warps + k->parts[node]; i++) {
            const uint64_t now = fabric_load(k->worker.fabric, word + i);
            if (now == k->seen[i]) continue;
            k->seen[i] = now;
            k->changed |= 1u << node;
        }
}

static enum worker_step merge_keeper_step(struct fabric_worker *w)
{
    struct inter_merge_keeper *k = fabric_container_of(w, struct inter_merge_keeper, worker);
    const struct inter_rank *r = k->rank;
    const struct ht_geometry *g = &r->ht.g;
    for (mergers_look(k); k->changed; k->changed &= k->changed - 1) {
        const uint32_t node = (uint32_t)__builtin_ctz(k->changed);
        if (!merged_count(k, node)) {
            k->ended |= 1u << node;
            continue;
        }
        for (uint32_t i = 0; i < g->local; i++) {
            if (k->head[node][i] == k->published[node][i]) continue;
            if (!ht_word_send(w, &r->ht, ht_neighbour(&r->ht.g, i), 0,
                              inter_word_nvl(r, INTER_NVL_HEAD, k->channel, g->self, node), k->head[node][i]))
                return WORKER_WAIT;
            k->published[node][i] = k->head[node][i];
        }
    }
    return k->ended == (1u << g->nodes) - 1 ? WORKER_DONE : WORKER_WAIT;
}

static void merge_keeper_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_merge_keeper *k = fabric_container_of(w, struct inter_merge_keeper, worker);
    snprintf(text, text_size, "NVLink head keeper of channel %u waits for the forwarders", k->channel);
}

static void merge_keeper_ahead(const struct fabric_worker *w)
{
    const struct inter_merge_keeper *k = fabric_container_of(w, const struct inter_merge_keeper, worker);
    enum { LINE_WORDS = 8 };
    ht_lines_ahead(k, offsetof(struct inter_merge_keeper, upto[k->rank->ht.g.nodes]));
    for (uint32_t i = 0; i < INTER_WARPS; i += LINE_WORDS)
        __builtin_prefetch(w->fabric->words + inter_word_reduced(k->rank, k->channel, i));
}

static const struct worker_role merge_keeper_role = { .step = merge_keeper_step,
                                                      .describe = merge_keeper_describe,
                                                      .ahead = merge_keeper_ahead };

static void merge_keeper_launch(struct inter_rank *r, uint32_t channel)
{
    struct inter_merge_keeper *k = &r->merge_keeper[channel];
    *k = (struct inter_merge_keeper){ .rank = r, .channel = channel, .changed = (1u << r->ht.g.nodes) - 1 };
    for (uint32_t node = 0; node < r->ht.g.nodes; node++)
        k->parts[node] = (uint8_t)r->merger[channel * INTER_WARPS + inter_merger_first(r, node)].parts;
    ht_kernel_add(&r->ht, &k->worker, &merge_keeper_role, 2 * channel + 1, 1);
    fabric_watch(&k->worker, inter_word_reduced(r, channel, 0), INTER_WARPS, 0);
}

/* ---- launch -------------------------------------------------------------------------------------------- */

static void reducers_launch(struct inter_rank *r, uint32_t channel)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    const uint32_t warps = g->nodes * inter_merge_warps(h->base.options) - g->local;
    const uint32_t groups = ht_reducer_groups(h, warps);
    for (uint32_t i = 0; i < groups; i++) {
        struct ht_reducer *d = &r->reducer[channel * INTER_GROUPS + i];
        *d = (struct ht_reducer){
            .rank = h,
            .channel = channel,
            .group = i,
            .tail_word = inter_word_rail(r, INTER_RDMA_TAIL, channel, 0),
            .done_word = inter_word_done(r, channel, i),
            .ring_offset = inter_rail_ring(r, r->map.rdma_recv, channel, 0),
            .ring_bytes = r->map.rdma_bytes,
            .slots = h->base.options->combine.rdma_recv,
            .look = inter_look(r, INTER_RDMA_TAIL, channel, 0),
        };
        ht_reducer_launch(h, d, groups, warps, 2 * channel);
    }
    r->reduce_keeper[channel] = (struct ht_head_keeper){
        .rank = h,
        .reducer = &r->reducer[channel * INTER_GROUPS],
        .channel = channel,
        .group_count = groups,
        .least = h->base.options->combine.rdma_send,
        .queue = inter_head_queue(h->base.options, channel),
        .head_word = inter_word_rail(r, INTER_RDMA_HEAD, channel, g->node),
        .peer_first = g->self,
        .peer_stride = g->local,
    };
    ht_head_keeper_launch(h, &r->reduce_keeper[channel], 2 * channel);
}

/* Sets the sizes for the loop that returns rows: warps of forwarders and of receivers, nodes, ranks of a node. */
static void return_give(struct inter_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t forwarders = g->nodes * inter_merge_warps(r->ht.base.options), receivers = forwarders - g->local;
    r->return_row = (struct site_given){ .size = { forwarders, receivers, g->nodes, g->local } };
}

void inter_combine_launch(struct inter_rank *r)
{
    r->ht.sum_site = SITE_INTER_SUM_ROW;
    r->ht.sum_row = (struct site_given){ .size = { moe_min(r->ht.g.nodes, INTER_TOPK_NODES) } };
    const struct ht_geometry *g = &r->ht.g;
    return_give(r);
    if (r->ht.base.fabric->payload) ht_tensors_combine(&r->ht);
    for (uint32_t c = 0; c < g->channels; c++) {
        for (uint32_t i = 0; i < g->local; i++) returner_launch(r, c, (i + c) % g->local);
        reducers_launch(r, c);
        for (uint32_t i = 0; i < g->nodes; i++) mergers_launch(r, c, (i + c) % g->nodes);
        merge_keeper_launch(r, c);
    }
}
