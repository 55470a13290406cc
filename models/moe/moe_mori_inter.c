/* moe_mori_inter.c - AMD's MoRI between nodes (PROTOCOLS.md 1.16).
 *
 * A token goes once to each other node that needs it (low latency: to every other node).  There its proxy passes it on:
 * the rank that has the same number within its node as the token's rank.
 *
 *     dispatch   token ── copy ──► staged ── put of a chunk ──► came[node][place] of the proxy ── stores ──► in
 *     combine    made ── copy ──► out[source][token] ── loads of a node's ranks ──► partial[node][place] of the proxy
 *                ── put of a chunk ──► back[node][place] ── sum of nodes ──► combined
 *
 * Heap: staged [tokens_max] and came [nodes][tokens_max].  Without payload they have only the choices.  Only where
 * payload is stored: in, made and out [ranks][tokens_max]; partial and back [nodes][tokens_max]; gathered
 * [warps][local], where loads end.
 *
 * In low latency, a token's place at a proxy is its number.  Other kernels send only needed tokens: they follow one
 * another within their chunk, and empty chunks have no places.  In `in`, `made` and `out`, a row's place is its token's
 * number at the source.  A row has come if its meta is not 0, and the reader sets the meta to 0 again.
 *
 * The library takes a row's place at a rank, and a chunk's place at its proxy, from counters, in no particular
 * order.  Here a row's place follows from its token's number, and chunks are in order. */
#include "models/moe/moe_ht.h"

#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_mori.h"

enum {
    MI_CHUNK = 64, /* the most tokens of a put; each has a lane */
    MI_QUEUES = 2, /* QPs to a peer, as in MoRI's tuning; MoRI's default is 1 */
    MI_DEPTH = 1024,
    MI_WARPS_MAX = 16, /* the most warps of a block */
    MI_SHARES = 4,     /* low latency: how many warps share the sum of a row for another node */
    MI_TEAMS = 8,      /* other kernels: how many blocks share a chunk */
};

enum mi_phase { MI_STAGE, MI_DISPATCH, MI_GIVE, MI_MEET, MI_COMBINE, MI_SUM, MI_PHASES };

struct mi_map {
    uint64_t staged, came, in, made, out, partial, back, gathered, end;
};

struct mi_rank;

/* What a warp does next in its kernel. */
enum mi_state { MI_BEGIN, MI_SEND, MI_SENT, MI_ANNOUNCE, MI_RELAY, MI_ADD, MI_COUNT, MI_POST };

struct mi_warp {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t number, item, round, pass, target, node; /* number: the warp's number in the grid */
    uint32_t place, share;                            /* combine: the place of the row that the warp sums, and which
                                                       * part of the row it sums */
    uint8_t state;                                    /* enum mi_state */
    bool looked;                                      /* the choices that the item needs have been read */
    uint8_t bits;                                     /* combine: bit i: rank i of this node has a row of the token */
};

/* An SM's share of a kernel that uses only the rank's own memory: `count` items from `first` on. */
struct mi_local {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t first, count;
    enum mi_phase phase;
};

/* Stands for the warp that ends its kernel last and then tells the peers, and for the barrier at combine's start. */
struct mi_gate {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t next, come;
    enum mi_phase phase;
};

struct mi_rank {
    struct ht_rank ht;
    struct mi_map map;
    uint32_t blocks, far_blocks, warps;  /* blocks of the grid; those of them that serve other nodes; warps of a
                                          * block */
    uint32_t sms, chunks;                /* SMs of the GPU; the most chunks of a rank's tokens */
    uint32_t sent;                       /* how many of the warps that serve other nodes have sent all their chunks in
                                          * this launch */
    uint32_t told[HT_LOCAL_MAX];         /* how many rows this rank has moved to each rank of its node */
    uint32_t *send_place;                /* [nodes][tokens] a token's place at the proxy; UINT32_MAX: the token is
                                          * not sent */
    uint32_t *send_chunks;               /* [nodes] how many chunks are sent to the node */
    uint32_t *chunk_tokens, *chunk_done; /* [nodes][chunks] how many tokens have come; how many parts of their sums are
                                          * done */
    uint32_t *row_place;                 /* with payload: [rows] the received row's place in `in`, `made` and `out` */
    struct mi_warp *warp;
    struct mi_local *local;
    struct mi_gate gate;
    struct site_given near, relayed, sum, nodes;
    enum mi_phase launched;
};

static const char *const phase_names[MI_PHASES + 1] = { "dispatch_stage",  "dispatch", "combine_stage",
                                                        "combine_barrier", "combine",  "combine_sum" };

static struct mi_rank *rank_of(struct kernel_rank *rank) { return (struct mi_rank *)rank; }

/* ---- geometry ---- */

static bool low_latency(const struct mi_rank *r) { return r->ht.base.options->family == MOE_MORI_LL; }
static uint32_t block_warps(const struct moe_options *o) { return o->num_warps ? o->num_warps : MI_WARPS_MAX / 2; }

/* How many blocks serve other nodes: what the user says, else two thirds, as in the library's test. */
static uint32_t far_blocks(const struct moe_options *o) { return o->rdma_sms ? o->rdma_sms : o->num_sms * 2 / 3; }

static const char *mi_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    if (o->ranks_per_node > HT_LOCAL_MAX || o->ranks / o->ranks_per_node > HT_NODES_MAX)
        KERNEL_REFUSE("num-ranks: MoRI's kernels reach %d nodes of %d ranks here, found %u of %u", HT_NODES_MAX,
                      HT_LOCAL_MAX, o->ranks / o->ranks_per_node, o->ranks_per_node);
    if (block_warps(o) > MI_WARPS_MAX)
        KERNEL_REFUSE("num-warps: expected 1 to %d, found %u", MI_WARPS_MAX, block_warps(o));
    if (o->num_sms < 2) KERNEL_REFUSE("num-sms: MoRI's kernels between nodes need 2, found %u", o->num_sms);
    if (o->rdma_sms >= o->num_sms)
        KERNEL_REFUSE("rdma-sms: expected fewer than num-sms %u, found %u", o->num_sms, o->rdma_sms);
    if (o->zero_copy) KERNEL_REFUSE("zero-copy: MoRI's kernels between nodes have none here");
    return ht_refuse(o, text, text_size);
}

/* Makes the slots.  A slot of dispatch has values, scales, source, choices and weights.  Without payload only its
 * choices are stored. */
static void slots_make(const struct moe_options *o, bool payload, struct ht_slot *dispatch, struct ht_slot *combine)
{
    ht_slots_plain(o, payload, dispatch, combine);
    dispatch->meta_bytes = 4;
    dispatch->index = payload ? dispatch->meta + dispatch->meta_bytes : 0;
    dispatch->weight += dispatch->meta_bytes;
    dispatch->bytes += dispatch->meta_bytes;
    dispatch->stored = payload ? dispatch->bytes : 4 * dispatch->topk;
}

static uint64_t part_take(uint64_t *at, uint64_t size)
{
    const uint64_t from = *at;
    *at = moe_align(*at + size, 128);
    return from;
}

static void map_make(const struct moe_options *o, bool payload, struct mi_map *m)
{
    struct ht_slot dispatch, combine;
    slots_make(o, payload, &dispatch, &combine);
    const uint64_t nodes = o->ranks / o->ranks_per_node, most = o->tokens_max;
    uint64_t at = 0;
    m->staged = part_take(&at, most * dispatch.stored);
    m->came = part_take(&at, nodes * most * dispatch.stored);
    m->in = part_take(&at, payload ? o->ranks * most * dispatch.stored : 0);
    m->made = part_take(&at, o->ranks * most * combine.stored);
    m->out = part_take(&at, o->ranks * most * combine.stored);
    m->partial = part_take(&at, nodes * most * combine.stored);
    m->back = part_take(&at, nodes * most * combine.stored);
    m->gathered = part_take(&at, (uint64_t)o->num_sms * block_warps(o) * o->ranks_per_node * combine.stored);
    m->end = at;
}

static uint32_t chunks_of(const struct moe_options *o) { return (o->tokens_max + MI_CHUNK - 1) / MI_CHUNK; }

/* Words that peers raise.  The proxy on each other node raises three kinds.  `chunk` is 1 + the tokens of one chunk,
 * `chunks` is 1 + the places of all chunks of the proxy, and `back` says that the proxy's sums have come on one queue.
 * Each rank of this node raises two.  `told` is 1 + the rows that the rank has sent, and `ready` says that the rank's
 * output can be read. */
static uint32_t word_chunk(const struct mi_rank *r, uint32_t node, uint32_t chunk) { return node * r->chunks + chunk; }
static uint32_t word_chunks(const struct mi_rank *r, uint32_t node) { return r->ht.g.nodes * r->chunks + node; }
static uint32_t word_told(const struct mi_rank *r, uint32_t local) { return word_chunks(r, r->ht.g.nodes) + local; }
static uint32_t word_ready(const struct mi_rank *r, uint32_t local) { return word_told(r, r->ht.g.local) + local; }
static uint32_t word_back(const struct mi_rank *r, uint32_t node, uint32_t queue)
{
    return word_ready(r, r->ht.g.local) + node * MI_QUEUES + queue;
}
/* Private words.  One counts the warps that have finished.  The other stands for counters that no warp waits for. */
static uint32_t word_finished(const struct mi_rank *r) { return word_back(r, r->ht.g.nodes, 0); }
static uint32_t word_counted(const struct mi_rank *r) { return word_finished(r) + 1; }

static void mi_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    const uint32_t nodes = o->ranks / o->ranks_per_node;
    struct mi_map map;
    map_make(o, payload, &map);
    *needs = (struct fabric_needs){ .heap_bytes = map.end,
                                    .word_count = nodes * (chunks_of(o) + 1 + MI_QUEUES) + 2 * o->ranks_per_node + 2,
                                    .queue_count = MI_QUEUES,
                                    .queue_depth = MI_DEPTH };
}

static uint32_t token_chunks(const struct mi_rank *r) { return (r->ht.g.tokens + MI_CHUNK - 1) / MI_CHUNK; }

/* Gives tokens their places at a node's proxy.  Low latency sends all tokens.  Other kernels send only tokens that a
 * rank of the node needs, one after another within their chunk. */
static void places_make(struct mi_rank *r, uint32_t node)
{
    const struct ht_geometry *g = &r->ht.g;
    for (uint32_t token = 0, count = 0; token < g->tokens; token++) {
        const bool goes = low_latency(r) || r->ht.layout.bits[(size_t)token * g->nodes + node];
        r->send_place[(size_t)node * g->tokens + token] = goes ? r->send_chunks[node] * MI_CHUNK + count++ : UINT32_MAX;
        if ((token + 1) % MI_CHUNK && token + 1 < g->tokens) continue;
        r->send_chunks[node] += count > 0;
        count = 0;
    }
}

static struct kernel_rank *mi_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct mi_rank *r = kernel_alloc(1, sizeof *r);
    struct ht_rank *h = &r->ht;
    r->blocks = o->num_sms;
    r->far_blocks = far_blocks(o);
    r->warps = block_warps(o);
    r->sms = o->device_sms ? o->device_sms : o->num_sms;
    r->chunks = chunks_of(o);
    ht_rank_init(h, job, f, true, 1, r->blocks * r->warps + r->sms + 1);
    ht_layout_make(h);
    slots_make(o, f->payload, &h->dispatch_slot, &h->combine_slot);
    map_make(o, f->payload, &r->map);
    r->send_chunks = kernel_keep(r, h->g.nodes, sizeof r->send_chunks[0]);
    r->send_place = kernel_keep(r, (uint64_t)h->g.nodes * h->g.tokens, sizeof r->send_place[0]);
    for (uint32_t node = 0; node < h->g.nodes; node++) places_make(r, node);
    r->chunk_tokens = kernel_keep(r, (uint64_t)h->g.nodes * r->chunks, sizeof r->chunk_tokens[0]);
    r->chunk_done = kernel_keep(r, (uint64_t)h->g.nodes * r->chunks, sizeof r->chunk_done[0]);
    r->warp = kernel_keep(r, (uint64_t)r->blocks * r->warps, sizeof r->warp[0]);
    r->local = kernel_keep(r, r->sms, sizeof r->local[0]);
    const struct ht_slot *s = &h->dispatch_slot;
    r->near = (struct site_given){ .size = { s->row_bytes, s->scale_bytes, s->row_bytes / h->g.hidden } };
    r->relayed = r->near;
    r->sum.size[0] = moe_min(o->topk, h->g.local);
    r->nodes.size[0] = h->g.nodes;
    return &h->base.kernel;
}

static uint8_t *heap_at(const struct mi_rank *r, uint64_t part, uint64_t slot, uint64_t stored)
{
    return r->ht.base.fabric->heap + part + slot * stored;
}

static uint64_t place(const struct mi_rank *r, uint64_t area, uint32_t number)
{
    return area * r->ht.base.options->tokens_max + number;
}

static uint32_t send_place(const struct mi_rank *r, uint32_t node, uint32_t token)
{
    return r->send_place[(size_t)node * r->ht.g.tokens + token];
}

/* The place, among the tokens of all ranks, of the token that came from `node` to the place `number`; for this node, of
 * the rank's own token `number`.  Without payload returns 0, because the place is not needed. */
static uint64_t row_at(const struct mi_rank *r, uint32_t node, uint32_t number)
{
    const struct ht_slot *s = &r->ht.dispatch_slot;
    uint32_t meta = 0;
    if (!r->ht.base.fabric->payload) return 0;
    if (node == r->ht.g.node) return place(r, r->ht.g.rank, number);
    memcpy(&meta, heap_at(r, r->map.came, place(r, node, number), s->stored) + s->meta, sizeof meta);
    return meta - 1;
}

/* The choices of a token of the proxy on `node`.  For this rank's own tokens they are in the routing.  For tokens of
 * another node they are in the message that brought the token. */
static const int32_t *choices_of(const struct mi_rank *r, uint32_t node, uint32_t token)
{
    const struct ht_slot *s = &r->ht.dispatch_slot;
    if (node == r->ht.g.node) return r->ht.base.routing->rank[r->ht.g.rank].experts + (size_t)token * r->ht.g.topk;
    return (const int32_t *)(const void *)(heap_at(r, r->map.came, place(r, node, token), s->stored) + s->index);
}

/* The index within this node of the rank that a choice sends its token to.  Returns g.local if the choice has no
 * expert, if that rank is on another node, or if an earlier choice has the same rank. */
static uint32_t choice_local(const struct mi_rank *r, const int32_t *choice, uint32_t number)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t rank = (uint32_t)choice[number] / g->local_experts;
    const bool goes = moe_first_of_rank(choice, number, g->local_experts) && rank / g->local == g->node;
    return goes ? rank % g->local : g->local;
}

static uint8_t choices_bits(const struct mi_rank *r, const int32_t *choice)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < r->ht.g.topk; i++) bits |= 1u << choice_local(r, choice, i);
    return (uint8_t)(bits & ((1u << r->ht.g.local) - 1));
}

/* ---- kernels that use only their own memory ---- */

static void tokens_stage(const struct mi_local *l)
{
    const struct mi_rank *r = l->rank;
    const struct ht_rank *h = &r->ht;
    const struct ht_slot *s = &h->dispatch_slot;
    for (uint32_t token = l->first; token < l->first + l->count; token++) {
        const uint32_t meta = (uint32_t)place(r, h->g.rank, token) + 1;
        uint8_t *slot = heap_at(r, r->map.staged, token, s->stored);
        if (h->base.fabric->payload) ht_slot_pack(h, token, 0, &meta, slot);
        else memcpy(slot, choices_of(r, h->g.node, token), s->stored);
    }
}

static void rows_stage(const struct mi_local *l)
{
    const struct mi_rank *r = l->rank;
    const uint64_t stored = r->ht.combine_slot.stored;
    for (uint32_t row = l->first; row < l->first + l->count; row++)
        memcpy(heap_at(r, r->map.out, r->row_place[row], stored), heap_at(r, r->map.made, r->row_place[row], stored),
               stored);
}

static void nodes_sum(struct mi_local *l)
{
    struct mi_rank *r = l->rank;
    const struct ht_geometry *g = &r->ht.g;
    const uint64_t stored = r->ht.combine_slot.stored;
    for (uint32_t token = l->first; token < l->first + l->count; token++) {
        const uint8_t *slot[HT_NODES_MAX];
        uint32_t count = 0;
        for (uint32_t n = 0; n < g->nodes; n++)
            if (r->ht.layout.bits[(size_t)token * g->nodes + n])
                slot[count++] = n == g->node ? heap_at(r, r->map.partial, place(r, n, token), stored)
                                             : heap_at(r, r->map.back, place(r, n, send_place(r, n, token)), stored);
        ht_token_combine(&r->ht, token, slot, count);
    }
}

static void local_run(void *context, uint64_t argument)
{
    struct mi_local *l = context;
    (void)argument;
    if (l->phase == MI_STAGE) tokens_stage(l);
    else if (l->phase == MI_GIVE) rows_stage(l);
    else nodes_sum(l);
}

/* How many warps share a row: several if there are more warps than rows. */
static uint32_t shares_of(uint32_t warps, uint32_t rows) { return rows ? (warps + rows - 1) / rows : 1; }

/* How many parts of rows the SM's warps take.  Tokens' rows are divided into `shares` parts, which go to all warps of
 * the grid in turn.  A row from the experts goes whole to one warp. */
static uint32_t parts_of(const struct mi_local *l, uint32_t shares)
{
    const struct mi_rank *r = l->rank;
    if (l->phase == MI_GIVE) return l->count;
    const uint32_t all = r->ht.g.tokens * shares, warps = r->sms * r->warps, before = l->worker.sm * r->warps;
    const uint32_t left = all % warps > before ? all % warps - before : 0;
    return all / warps * r->warps + moe_min(left, r->warps);
}

static enum worker_step local_step(struct fabric_worker *w)
{
    struct mi_local *l = fabric_container_of(w, struct mi_local, worker);
    struct mi_rank *r = l->rank;
    const struct ht_rank *h = &r->ht;
    const bool stages = l->phase == MI_STAGE;
    const uint32_t shares = l->phase == MI_GIVE ? 1 : shares_of(r->sms * r->warps, h->g.tokens);
    const uint32_t parts = parts_of(l, shares);
    const uint64_t bytes = (uint64_t)parts * (stages ? h->dispatch_slot.bytes : h->combine_slot.bytes) / shares;
    if (parts || l->count)
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                              .rows = parts,
                                              .read_bytes = l->phase == MI_SUM ? bytes * h->g.nodes : bytes,
                                              .write_bytes = bytes,
                                              .site = l->phase == MI_SUM ? SITE_MORI_NODES_SUM : SITE_MORI_STAGE_ROW,
                                              .given = l->phase == MI_SUM ? &r->nodes : NULL,
                                              .run = local_run,
                                              .context = l });
    return WORKER_DONE;
}

static const struct worker_role local_role = { .step = local_step };

/* Launches a kernel that works in the rank's own memory.  Without payload nothing calls local_run(), but tokens'
 * choices are needed, so they are copied here. */
static void locals_launch(struct mi_rank *r, enum mi_phase phase)
{
    const uint32_t all = phase == MI_GIVE ? ht_recv_rows(&r->ht) : r->ht.g.tokens;
    for (uint32_t sm = 0; sm < r->sms; sm++) {
        struct mi_local *l = &r->local[sm];
        *l = (struct mi_local){ .rank = r, .phase = phase };
        uint32_t end;
        moe_channel_range(all, r->sms, sm, &l->first, &end);
        l->count = end - l->first;
        if (phase == MI_STAGE && !r->ht.base.fabric->payload) tokens_stage(l);
        ht_kernel_add(&r->ht, &l->worker, &local_role, sm, r->warps);
    }
}

/* ---- dispatch ---- */

struct mi_row {
    const struct mi_rank *rank;
    uint32_t node, token;
};

static void row_fill(const void *context, uint8_t *target)
{
    const struct mi_row *x = context;
    const struct mi_rank *r = x->rank;
    const struct ht_slot *s = &r->ht.dispatch_slot;
    const uint32_t meta = (uint32_t)place(r, r->ht.g.rank, x->token) + 1;
    if (x->node == r->ht.g.node) ht_slot_pack(&r->ht, x->token, 0, &meta, target);
    else memcpy(target, heap_at(r, r->map.came, place(r, x->node, x->token), s->stored), s->stored);
}

/* Stores a token of the proxy on `node` to a rank of this node. */
static bool row_store(struct mi_warp *v, uint32_t node, uint32_t token, uint32_t local)
{
    struct mi_rank *r = v->rank;
    const struct ht_slot *s = &r->ht.dispatch_slot;
    const bool payload = r->ht.base.fabric->payload;
    const struct mi_row row = { r, node, token };
    const struct fabric_write write = { .target_offset = r->map.in + row_at(r, node, token) * (payload ? s->stored : 0),
                                        .charge_bytes = s->bytes,
                                        .peer = ht_neighbour(&r->ht.g, local),
                                        .rows = 1,
                                        .warps = 1,
                                        .site = node == r->ht.g.node ? SITE_MORI_NEAR_ROW : SITE_MORI_RELAY_ROW,
                                        .given = node == r->ht.g.node ? &r->near : &r->relayed,
                                        .fill = payload ? row_fill : NULL,
                                        .data = &row,
                                        .size_bytes = payload ? s->stored : 0 };
    if (fabric_store(&v->worker, &write)) return false;
    r->told[local]++;
    return true;
}

static enum worker_step finish(struct mi_warp *v)
{
    fabric_signal_add(&v->worker, word_finished(v->rank), 1, SITE_NONE);
    return WORKER_DONE;
}

/* Stores the rank's own tokens to ranks of this node.  A block has consecutive tokens, and its warps take the pairs of
 * tokens and choices in turn.  For each pair a warp takes a slot by an atomic at the target. */
static enum worker_step near_step(struct fabric_worker *w)
{
    struct mi_warp *v = fabric_container_of(w, struct mi_warp, worker);
    struct mi_rank *r = v->rank;
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t block = v->number / r->warps - r->far_blocks;
    uint32_t first, end, reads = 0;
    moe_channel_range(g->tokens, r->blocks - r->far_blocks, block, &first, &end);
    for (; v->item < (end - first) * g->topk; v->item += r->warps) {
        const uint32_t token = first + v->item / g->topk;
        const uint32_t local = choice_local(r, choices_of(r, g->node, token), v->item % g->topk);
        reads += !v->looked;
        if (local == g->local) continue;
        if (!v->looked) {
            ht_scan_here(w, SITE_MORI_CHOICES_READ, reads, 4 * (uint64_t)g->topk * reads);
            ht_scan_here(w, SITE_MORI_SLOTS_TAKE, 1, 0);
            v->looked = true;
            return WORKER_MORE;
        }
        if (!row_store(v, g->node, token, local)) return WORKER_WAIT;
        v->looked = false;
        v->item += r->warps;
        return WORKER_MORE;
    }
    if (reads) ht_scan_here(w, SITE_MORI_CHOICES_READ, reads, 4 * (uint64_t)g->topk * reads);
    return finish(v);
}

/* Puts a chunk.  Tokens that follow one another are one put.  The last put carries a signal. */
static bool chunk_put(struct mi_warp *v, uint32_t node, uint32_t chunk)
{
    const struct mi_rank *r = v->rank;
    const struct ht_slot *s = &r->ht.dispatch_slot;
    const uint32_t first = chunk * MI_CHUNK, end = moe_min(first + MI_CHUNK, r->ht.g.tokens);
    uint32_t from = first + v->target, all = 0;
    for (uint32_t token = first; token < end; token++) all += send_place(r, node, token) != UINT32_MAX;
    for (;;) {
        while (from < end && send_place(r, node, from) == UINT32_MAX) from++;
        if (from == end) break;
        const uint32_t at = send_place(r, node, from);
        uint32_t count = 1;
        while (from + count < end && send_place(r, node, from + count) != UINT32_MAX) count++;
        const struct fabric_write write = { .target_offset = r->map.came + place(r, r->ht.g.node, at) * s->stored,
                                            .charge_bytes = (uint64_t)count * s->bytes,
                                            .peer = ht_rail(&r->ht.g, node),
                                            .queue = (uint16_t)(chunk % MI_QUEUES),
                                            .defer = true,
                                            .data = heap_at(r, r->map.staged, from, s->stored),
                                            .size_bytes = count * s->stored };
        const struct fabric_signal signal = { .value = moe_word_make(r->ht.epoch, all + 1),
                                              .word = word_chunk(r, r->ht.g.node, at / MI_CHUNK),
                                              .peer = write.peer,
                                              .queue = write.queue };
        const bool last = at % MI_CHUNK + count == all;
        if (fabric_put(&v->worker, &write, last ? &signal : NULL)) return false;
        from += count;
        v->target = from - first;
    }
    v->target = 0;
    return true;
}

/* Sends chunks to the other nodes.  A block has consecutive chunks, and each of its warps serves different nodes. */
static enum worker_step chunks_send(struct mi_warp *v)
{
    const struct mi_rank *r = v->rank;
    const struct ht_geometry *g = &r->ht.g;
    uint32_t first, end;
    moe_channel_range(token_chunks(r), r->far_blocks, v->number / r->warps, &first, &end);
    for (; v->node < g->nodes; v->node += r->warps, v->item = 0) {
        if (v->node == g->node || first + v->item >= end) continue;
        if (!v->looked) {
            ht_scan_here(&v->worker, SITE_MORI_CHUNK_READ, g->topk, 4 * (uint64_t)g->topk * MI_CHUNK);
            v->looked = true;
            return WORKER_MORE;
        }
        if (!chunk_put(v, v->node, first + v->item)) return WORKER_WAIT;
        v->looked = false;
        v->item++;
        return WORKER_MORE;
    }
    fabric_signal_add(&v->worker, word_counted(r), 1, SITE_NONE);
    v->state = MI_SENT;
    return WORKER_MORE;
}

/* Announces the number of chunks.  The last warp to finish sending does this. */
static bool chunks_announce(struct mi_warp *v)
{
    const struct mi_rank *r = v->rank;
    for (; v->node < r->ht.g.nodes; v->node++)
        if (v->node != r->ht.g.node &&
            !ht_word_send(&v->worker, &r->ht, ht_rail(&r->ht.g, v->node), 0, word_chunks(r, r->ht.g.node),
                          r->send_chunks[v->node] * MI_CHUNK + 1))
            return false;
    return true;
}

/* An item of a warp that serves other nodes: a place where a token of another node may come, and one of the token's
 * choices. */
struct far_item {
    uint32_t node, place, choice;
};

/* Finds the warp's current item.  In low latency, warps take items in turn.  In other kernels MI_TEAMS blocks share a
 * chunk, and a warp takes all choices of one of the chunk's tokens in each round.  False: there are no more items. */
static bool far_item(struct mi_warp *v, struct far_item *x)
{
    const struct mi_rank *r = v->rank;
    const uint32_t most = r->ht.base.options->tokens_max, topk = r->ht.g.topk, others = r->ht.g.nodes - 1;
    if (low_latency(r)) {
        *x = (struct far_item){ ht_node_after(&r->ht.g, v->item / topk / most), v->item / topk % most, v->item % topk };
        return v->item < most * topk * others;
    }
    for (; v->item < MI_TEAMS * r->chunks * others; v->item += r->far_blocks, v->round = 0) {
        const uint32_t at = (v->item % MI_TEAMS + v->round * MI_TEAMS) * r->warps + v->number % r->warps;
        *x = (struct far_item){ ht_node_after(&r->ht.g, v->item / MI_TEAMS % others),
                                v->item / (MI_TEAMS * others) * MI_CHUNK + at, v->target };
        if (at < MI_CHUNK) return true;
    }
    return false;
}

static void far_next(struct mi_warp *v)
{
    const struct mi_rank *r = v->rank;
    if (low_latency(r)) v->item += r->far_blocks * r->warps;
    else if (++v->target == r->ht.g.topk) {
        v->target = 0;
        v->round++;
    }
    v->looked = false;
}

/* Whether the token has come.  *unknown says whether it may still come. */
static bool token_came(const struct mi_rank *r, uint32_t node, uint32_t token, bool *unknown)
{
    const uint32_t first = token / MI_CHUNK * MI_CHUNK, count = ht_word(&r->ht, word_chunk(r, node, token / MI_CHUNK));
    const uint32_t all = count ? 0 : ht_word(&r->ht, word_chunks(r, node));
    *unknown = !count && (!all || first < all - 1);
    return count && token - first < count - 1;
}

static void relay_look(struct mi_warp *v, uint32_t items)
{
    ht_scan_here(&v->worker, SITE_MORI_RELAY_READ, 2 * items, 4 * (uint64_t)(v->rank->ht.g.topk + 1) * items);
}

/* Passes on tokens of other nodes.  In low latency, a token's choices are read for each item.  In other kernels they
 * are read once, because the warp has all choices of the token. */
static enum worker_step relay(struct mi_warp *v)
{
    struct mi_rank *r = v->rank;
    const struct ht_geometry *g = &r->ht.g;
    struct far_item x;
    uint32_t reads = 0;
    for (; far_item(v, &x); far_next(v)) {
        bool unknown;
        const bool came = token_came(r, x.node, x.place, &unknown), first = low_latency(r) || x.choice == 0;
        const uint32_t local = came ? choice_local(r, choices_of(r, x.node, x.place), x.choice) : g->local;
        if ((unknown && reads) || (local < g->local && !v->looked)) {
            reads += local < g->local && first;
            if (reads) relay_look(v, reads);
            if (local < g->local) ht_scan_here(&v->worker, SITE_MORI_SLOTS_TAKE, 1, 0);
            v->looked = local < g->local;
            return WORKER_MORE;
        }
        if (unknown) return WORKER_WAIT;
        if (local < g->local) {
            if (!row_store(v, x.node, x.place, local)) return WORKER_WAIT;
            far_next(v);
            return WORKER_MORE;
        }
        reads += first;
    }
    if (reads) relay_look(v, reads);
    return finish(v);
}

static enum worker_step far_step(struct fabric_worker *w)
{
    struct mi_warp *v = fabric_container_of(w, struct mi_warp, worker);
    struct mi_rank *r = v->rank;
    if (v->state == MI_BEGIN) {
        v->node = v->number % r->warps;
        v->state = MI_SEND;
    }
    if (v->state == MI_SEND) return chunks_send(v);
    if (v->state == MI_SENT) {
        v->state = ++r->sent == r->far_blocks * r->warps ? MI_ANNOUNCE : MI_RELAY;
        v->item = low_latency(r) ? v->number : v->number / r->warps;
        v->node = 0;
    }
    if (v->state == MI_ANNOUNCE) {
        if (!chunks_announce(v)) return WORKER_WAIT;
        v->state = MI_RELAY;
    }
    return relay(v);
}

/* ---- combine ---- */

/* Returns the warp's next pass along its part of a row that `shares` warps share. */
static struct mori_part part_of(const struct mi_warp *v, uint32_t shares)
{
    return mori_part_of(v->rank->ht.g.hidden, shares, v->share, v->pass);
}

/* Where in this rank's memory a rank's row for the token lies, once it has been read. */
static uint64_t gathered_at(const struct mi_warp *v, uint32_t local)
{
    const struct mi_rank *r = v->rank;
    const uint64_t stored = r->ht.combine_slot.stored;
    if (local == r->ht.g.self) return r->map.out + row_at(r, v->node, v->place) * stored;
    return r->map.gathered + ((uint64_t)v->number * r->ht.g.local + local) * stored;
}

/* Asks for the rows of a pass, all at once or one in each step. */
static enum worker_step rows_pull(struct mi_warp *v, const struct mori_part *p)
{
    const bool at_once = mori_rows_at_once(p, v->rank->ht.g.topk);
    const struct mi_rank *r = v->rank;
    const struct ht_slot *s = &r->ht.combine_slot;
    const uint64_t in_row = s->stored ? 2 * (uint64_t)p->from + p->at : 0;
    for (; v->target < r->ht.g.local; v->target++) {
        if (v->target == r->ht.g.self || !(v->bits >> v->target & 1)) continue;
        const struct fabric_read read = { .source_offset =
                                              r->map.out + row_at(r, v->node, v->place) * s->stored + in_row,
                                          .target = r->ht.base.fabric->heap + gathered_at(v, v->target) + in_row,
                                          .charge_bytes = p->bytes,
                                          .size_bytes = s->stored ? p->bytes : 0,
                                          .peer = ht_neighbour(&r->ht.g, v->target),
                                          .warps = 1,
                                          .site = SITE_MORI_PULL };
        if (fabric_get(&v->worker, &read)) return WORKER_WAIT;
        if (!at_once) {
            v->target++;
            return WORKER_MORE;
        }
    }
    v->target = 0;
    return WORKER_DONE;
}

static void part_sum(void *context, uint64_t argument)
{
    const struct mi_warp *v = context;
    const struct mi_rank *r = v->rank;
    const struct mori_part p = part_of(v, (uint32_t)argument);
    const uint16_t *row[HT_LOCAL_MAX];
    uint32_t count = 0;
    for (uint32_t local = 0; local < r->ht.g.local; local++)
        if (v->bits >> local & 1)
            row[count++] = (const uint16_t *)(const void *)(r->ht.base.fabric->heap + gathered_at(v, local)) + p.from;
    uint8_t *out = heap_at(r, r->map.partial, place(r, v->node, v->place), r->ht.combine_slot.stored);
    format_rows_reduce(row, NULL, count, p.values, (uint16_t *)(void *)out + p.from);
}

/* Does one pass along a part of a token's row.  *done gets true after the last pass. */
static enum worker_step pass_step(struct mi_warp *v, uint32_t shares, bool *done)
{
    struct mi_rank *r = v->rank;
    const struct mori_part p = part_of(v, shares);
    if (!v->looked) {
        ht_scan_here(&v->worker, SITE_MORI_CHOICES_READ, 1, 4 * r->ht.g.topk);
        v->bits = choices_bits(r, choices_of(r, v->node, v->place));
        v->looked = true;
        return WORKER_MORE;
    }
    const enum worker_step pulled = p.bytes ? rows_pull(v, &p) : WORKER_DONE;
    if (pulled != WORKER_DONE) return pulled;
    fabric_work(&v->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                   .rows = 1,
                                                   .warps = 1,
                                                   .read_bytes = p.bytes,
                                                   .write_bytes = p.bytes,
                                                   .site = SITE_MORI_PULLED_SUM,
                                                   .given = &r->sum,
                                                   .run = p.last && p.values && v->bits ? part_sum : NULL,
                                                   .context = v,
                                                   .argument = shares });
    v->pass++;
    *done = p.last;
    if (p.last) {
        v->pass = 0;
        v->looked = false;
    }
    return WORKER_MORE;
}

/* Sums this node's rows for the rank's own tokens.  In low latency, all these warps take tokens, or parts of them, in
 * turn.  In other kernels a block has consecutive tokens. */
static enum worker_step near_sum_step(struct fabric_worker *w)
{
    struct mi_warp *v = fabric_container_of(w, struct mi_warp, worker);
    const struct mi_rank *r = v->rank;
    const bool parts = low_latency(r);
    const uint32_t blocks = r->blocks - r->far_blocks, block = v->number / r->warps - r->far_blocks;
    const uint32_t stride = (parts ? blocks : 1) * r->warps, shares = parts ? shares_of(stride, r->ht.g.tokens) : 1;
    uint32_t first = 0, end = r->ht.g.tokens;
    if (!parts) moe_channel_range(r->ht.g.tokens, blocks, block, &first, &end);
    if (v->state == MI_BEGIN) {
        v->item = parts ? v->number - r->far_blocks * r->warps : v->number % r->warps;
        v->node = r->ht.g.node;
        v->state = MI_SEND;
    }
    if (v->item >= (end - first) * shares) return WORKER_DONE;
    v->place = first + v->item / shares;
    v->share = v->item % shares;
    bool done = false;
    const enum worker_step next = pass_step(v, shares, &done);
    if (done) v->item += stride;
    return next;
}

static bool sums_put(struct mi_warp *v, uint32_t chunk)
{
    const struct mi_rank *r = v->rank;
    const uint64_t stored = r->ht.combine_slot.stored;
    const uint32_t count = r->chunk_tokens[word_chunk(r, v->node, chunk)], first = chunk * MI_CHUNK;
    const struct fabric_write write = {
        .target_offset = r->map.back + place(r, r->ht.g.node, first) * stored,
        .charge_bytes = (uint64_t)count * r->ht.combine_slot.bytes,
        .peer = ht_rail(&r->ht.g, v->node),
        .queue = (uint16_t)(chunk % MI_QUEUES),
        .data = heap_at(r, r->map.partial, place(r, v->node, first), stored),
        .size_bytes = (uint32_t)(count * stored),
    };
    return fabric_put(&v->worker, &write, NULL) == 0;
}

/* How many places all chunks that came from a node have. */
static uint32_t places_of(const struct mi_rank *r, uint32_t node)
{
    uint32_t chunks = 0;
    while (chunks < r->chunks && r->chunk_tokens[word_chunk(r, node, chunks)]) chunks++;
    return chunks * MI_CHUNK;
}

/* How many parts of a chunk must be done before its sums are sent back.  In low latency a part is a quarter of a row.
 * In other kernels it is a warp's share of the chunk. */
static uint32_t chunk_parts(const struct mi_rank *r)
{
    return low_latency(r) ? MI_SHARES * MI_CHUNK : MI_TEAMS * r->warps;
}

/* Sets the warp's place and share to its next part of rows for tokens of other nodes.  *chunk gets the part's chunk.
 * In low latency, warps take quarters of rows in turn.  In other kernels MI_TEAMS blocks share a chunk.  *part gets
 * false if there is nothing to sum at this place.  False: there are no more parts. */
static bool part_find(struct mi_warp *v, uint32_t *chunk, bool *part)
{
    const struct mi_rank *r = v->rank;
    const uint32_t others = r->ht.g.nodes - 1;
    if (low_latency(r)) {
        while (v->node != r->ht.g.node && v->item >= places_of(r, v->node) * MI_SHARES) {
            v->node = (v->node + 1) % r->ht.g.nodes;
            v->item = v->number;
        }
        if (v->node == r->ht.g.node) return false;
        v->place = v->item / MI_SHARES;
        v->share = v->item % MI_SHARES;
        *chunk = v->place / MI_CHUNK;
        *part = v->place % MI_CHUNK < r->chunk_tokens[word_chunk(r, v->node, *chunk)];
        return true;
    }
    for (; v->item < MI_TEAMS * r->chunks * others; v->item += r->far_blocks, v->round = 0) {
        const uint32_t at = (v->item % MI_TEAMS + v->round * MI_TEAMS) * r->warps + v->number % r->warps;
        v->node = ht_node_after(&r->ht.g, v->item / MI_TEAMS % others);
        *chunk = v->item / (MI_TEAMS * others);
        v->place = *chunk * MI_CHUNK + at;
        *part = at < r->chunk_tokens[word_chunk(r, v->node, *chunk)];
        if (r->chunk_tokens[word_chunk(r, v->node, *chunk)]) return true;
    }
    return false;
}

/* Sums this node's rows for tokens of other nodes.  The warp that finishes a chunk's last part sends the chunk's sums
 * back. */
static enum worker_step far_sum_step(struct fabric_worker *w)
{
    struct mi_warp *v = fabric_container_of(w, struct mi_warp, worker);
    struct mi_rank *r = v->rank;
    if (v->state == MI_BEGIN) {
        v->node = ht_node_after(&r->ht.g, 0);
        v->item = low_latency(r) ? v->number : v->number / r->warps;
        v->state = MI_SEND;
    }
    uint32_t chunk;
    bool part;
    if (!part_find(v, &chunk, &part)) return finish(v);
    if (v->state == MI_SEND && part) {
        bool done = false;
        const enum worker_step next = pass_step(v, low_latency(r) ? MI_SHARES : 1, &done);
        if (done && low_latency(r)) v->state = MI_ADD;
        v->round += done && !low_latency(r);
        return next;
    }
    if (v->state == MI_SEND || v->state == MI_ADD) {
        fabric_signal_add(w, word_counted(r), 1, SITE_NONE);
        v->state = MI_COUNT;
        return WORKER_MORE;
    }
    if (v->state == MI_COUNT)
        v->state = ++r->chunk_done[word_chunk(r, v->node, chunk)] == chunk_parts(r) ? MI_POST : MI_SEND;
    if (v->state == MI_POST && !sums_put(v, chunk)) return WORKER_WAIT;
    v->state = MI_SEND;
    v->round = 0;
    v->item += low_latency(r) ? r->far_blocks * r->warps : r->far_blocks;
    return WORKER_MORE;
}

/* ---- the barriers ---- */

static bool gate_tell_near(struct mi_gate *k)
{
    const struct mi_rank *r = k->rank;
    const uint32_t self = r->ht.g.self;
    const bool meets = k->phase == MI_MEET;
    return ht_node_tell(&k->worker, &r->ht, &k->next, meets ? word_ready(r, self) : word_told(r, self),
                        meets ? NULL : r->told, SITE_MORI_TELL);
}

static bool gate_tell_far(struct mi_gate *k)
{
    const struct mi_rank *r = k->rank;
    for (; k->next < r->ht.g.nodes * MI_QUEUES; k->next++) {
        const uint32_t node = k->next / MI_QUEUES, queue = k->next % MI_QUEUES;
        if (node != r->ht.g.node &&
            !ht_word_send(&k->worker, &r->ht, ht_rail(&r->ht.g, node), queue, word_back(r, r->ht.g.node, queue), 1))
            return false;
    }
    return true;
}

static uint32_t gate_words(const struct mi_gate *k, uint32_t *first)
{
    const struct mi_rank *r = k->rank;
    *first = k->phase == MI_DISPATCH ? word_chunks(r, 0) : k->phase == MI_MEET ? word_ready(r, 0) : word_back(r, 0, 0);
    return k->phase == MI_DISPATCH ? r->ht.g.nodes + r->ht.g.local
           : k->phase == MI_MEET   ? r->ht.g.local
                                   : r->ht.g.nodes * MI_QUEUES;
}

/* Whether all words that the gate awaits have come.  Some kinds have a word for each node: chunks in dispatch, back in
 * combine.  For these the gate does not await the word of its own node. */
static bool gate_come(struct mi_gate *k)
{
    const struct mi_rank *r = k->rank;
    uint32_t first;
    const uint32_t count = gate_words(k, &first);
    for (; k->come < count; k->come++) {
        const uint32_t node = k->phase == MI_DISPATCH ? k->come : k->come / MI_QUEUES;
        if (k->phase != MI_MEET && node == r->ht.g.node) continue;
        if (!ht_word(&r->ht, first + k->come)) return false;
    }
    return true;
}

/* Whether dispatch's puts are complete.  Dispatch ends only then.  Other phases do not wait for puts. */
static bool gate_quiet(struct mi_gate *k)
{
    const struct mi_rank *r = k->rank;
    for (uint32_t node = 0; k->phase == MI_DISPATCH && node < r->ht.g.nodes; node++)
        for (uint16_t queue = 0; queue < MI_QUEUES && node != r->ht.g.node; queue++)
            if (fabric_flush(&k->worker, ht_rail(&r->ht.g, node), queue)) return false;
    return true;
}

static uint64_t *finished(const struct mi_rank *r) { return ht_grown(&r->ht); }

static enum worker_step gate_step(struct fabric_worker *w)
{
    struct mi_gate *k = fabric_container_of(w, struct mi_gate, worker);
    const struct mi_rank *r = k->rank;
    if (k->phase != MI_MEET && fabric_load(w->fabric, word_finished(r)) != *finished(r)) return WORKER_WAIT;
    if (!(k->phase == MI_COMBINE ? gate_tell_far(k) : gate_tell_near(k))) return WORKER_WAIT;
    return gate_come(k) && gate_quiet(k) ? WORKER_DONE : WORKER_WAIT;
}

static void gate_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct mi_gate *k = fabric_container_of(w, struct mi_gate, worker);
    const struct mi_rank *r = k->rank;
    if (k->phase != MI_MEET && fabric_load(w->fabric, word_finished(r)) != *finished(r))
        snprintf(text, text_size, "MoRI's barrier waits for the other warps");
    else
        snprintf(text, text_size, "MoRI's barrier waits for rank %u",
                 k->phase == MI_COMBINE                               ? ht_rail(&r->ht.g, k->come / MI_QUEUES)
                 : k->phase == MI_DISPATCH && k->come < r->ht.g.nodes ? ht_rail(&r->ht.g, k->come)
                 : k->phase == MI_DISPATCH                            ? ht_neighbour(&r->ht.g, k->come - r->ht.g.nodes)
                                                                      : ht_neighbour(&r->ht.g, k->come));
}

static const struct worker_role gate_role = { .step = gate_step, .describe = gate_describe };

static void gate_launch(struct mi_rank *r, enum mi_phase phase, uint32_t behind)
{
    uint32_t first;
    r->gate = (struct mi_gate){ .rank = r, .phase = phase };
    *finished(r) += behind;
    ht_kernel_add(&r->ht, &r->gate.worker, &gate_role, 0, 1);
    const uint32_t count = gate_words(&r->gate, &first);
    fabric_watch(&r->gate.worker, first, count, 0);
    if (behind) fabric_watch(&r->gate.worker, word_finished(r), 1, *finished(r));
}

/* ---- phases ---- */

static void warp_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct mi_warp *v = fabric_container_of(w, struct mi_warp, worker);
    const struct mi_rank *r = v->rank;
    struct mi_warp at = *v;
    struct far_item x;
    if (r->launched == MI_DISPATCH && v->state == MI_RELAY && !v->looked && far_item(&at, &x))
        snprintf(text, text_size, "MoRI's warp %u waits for rank %u", v->number, ht_rail(&r->ht.g, x.node));
    else snprintf(text, text_size, "MoRI's warp %u has no room", v->number);
}

static const struct worker_role near_role = { .step = near_step, .describe = warp_describe };
static const struct worker_role far_role = { .step = far_step, .describe = warp_describe };
static const struct worker_role near_sum_role = { .step = near_sum_step, .describe = warp_describe };
static const struct worker_role far_sum_role = { .step = far_sum_step, .describe = warp_describe };

/* Makes the warp watch the words of the chunks whose tokens it passes on, and the numbers of chunks of their nodes. */
static void relay_watch(struct mi_warp *v)
{
    const struct mi_rank *r = v->rank;
    struct mi_warp x = { .rank = v->rank, .number = v->number };
    struct far_item item;
    uint32_t before = UINT32_MAX;
    x.item = low_latency(r) ? v->number : v->number / r->warps;
    for (; far_item(&x, &item); far_next(&x)) {
        const uint32_t word = word_chunk(r, item.node, item.place / MI_CHUNK);
        if (word == before) continue;
        fabric_watch(&v->worker, word, 1, 0);
        if (before == UINT32_MAX || before / r->chunks != item.node)
            fabric_watch(&v->worker, word_chunks(r, item.node), 1, 0);
        before = word;
    }
}

static void warps_launch(struct mi_rank *r, enum mi_phase phase)
{
    const bool dispatch = phase == MI_DISPATCH;
    for (uint32_t i = 0; i < r->blocks * r->warps; i++) {
        struct mi_warp *v = &r->warp[i];
        const bool far = i / r->warps < r->far_blocks;
        const struct worker_role *role =
            dispatch ? (far ? &far_role : &near_role) : (far ? &far_sum_role : &near_sum_role);
        *v = (struct mi_warp){ .rank = r, .number = i, .item = dispatch && !far ? i % r->warps : 0 };
        ht_kernel_add(&r->ht, &v->worker, role, i / r->warps, dispatch ? 1 : r->ht.g.local);
        if (dispatch && far) relay_watch(v);
    }
    gate_launch(r, phase, (dispatch ? r->blocks : r->far_blocks) * r->warps);
}

/* Reads how many rows and tokens have come in dispatch.  The next launch changes the epoch, and then the words read as
 * 0. */
static void counts_read(struct mi_rank *r)
{
    struct ht_rank *h = &r->ht;
    uint32_t rows = 0;
    for (uint32_t local = 0; local < h->g.local; local++) rows += ht_word(h, word_told(r, local)) - 1;
    h->recv_before[h->g.ranks] = rows;
    for (uint32_t i = 0; i < h->g.nodes * r->chunks; i++) {
        const uint32_t count = ht_word(h, i);
        r->chunk_tokens[i] = count ? count - 1 : 0;
        r->chunk_done[i] = 0;
    }
}

/* Gives the experts the rows that have come, and writes their results to `made`. */
static void rows_view(struct mi_rank *r)
{
    struct ht_rank *h = &r->ht;
    const struct ht_slot *s = &h->dispatch_slot;
    const uint32_t most = h->base.options->tokens_max, zero = 0;
    uint32_t row = 0;
    kernel_drop(r, r->row_place);
    r->row_place = kernel_keep(r, ht_recv_rows(h), sizeof r->row_place[0]);
    ht_tensors_recv(h);
    for (uint32_t source = 0; source < h->g.ranks; source++) {
        h->recv_before[source] = row;
        for (uint32_t token = 0; token < most && row < ht_recv_rows(h); token++) {
            uint8_t *slot = heap_at(r, r->map.in, place(r, source, token), s->stored);
            if (memcmp(slot + s->meta, &zero, sizeof zero) == 0) continue;
            ht_slot_unpack(h, slot, h->g.rank * h->g.local_experts, row);
            h->t.recv_meta[2 * (size_t)row] -= 1;
            memcpy(slot + s->meta, &zero, sizeof zero);
            r->row_place[row++] = (uint32_t)place(r, source, token);
        }
    }
    h->recv_before[h->g.ranks] = row;
    ht_experts_count(h);
    ht_tensors_combine(h);
    for (uint32_t i = 0; i < row; i++)
        ht_slot_pack_combine(h, i, heap_at(r, r->map.made, r->row_place[i], h->combine_slot.stored));
}

static struct kernel_launch *mi_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct mi_rank *r = rank_of(rank);
    struct ht_rank *h = &r->ht;
    const bool payload = h->base.fabric->payload;
    if (phase == MI_GIVE) counts_read(r);
    r->launched = (enum mi_phase)phase;
    ht_kernel_begin(h, phase_names[phase]);
    h->kernel.follows = phase != MI_STAGE && phase != MI_GIVE;
    h->kernel.span = phase == MI_DISPATCH ? "dispatch_span" : phase == MI_SUM ? "combine_span" : NULL;
    if (phase == MI_STAGE && payload) ht_inputs_make(h);
    if (phase == MI_GIVE && payload) rows_view(r);
    r->sent = 0;
    if (phase == MI_DISPATCH) memset(r->told, 0, sizeof r->told);
    if (phase == MI_DISPATCH || phase == MI_COMBINE) warps_launch(r, (enum mi_phase)phase);
    else if (phase == MI_MEET) gate_launch(r, MI_MEET, 0);
    else locals_launch(r, (enum mi_phase)phase);
    return &h->kernel;
}

static void mi_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct mi_rank *r = (const struct mi_rank *)rank;
    const struct ht_rank *h = &r->ht;
    if (phase != MI_DISPATCH && phase != MI_COMBINE) return;
    const struct ht_slot *s = phase == MI_DISPATCH ? &h->dispatch_slot : &h->combine_slot;
    uint64_t rows = r->launched == MI_DISPATCH ? 0 : ht_recv_rows(h);
    for (uint32_t i = 0; r->launched == MI_DISPATCH && i < h->g.local; i++) rows += ht_word(h, word_told(r, i)) - 1;
    const uint64_t sent = ht_traffic_tokens(h, phase == MI_DISPATCH, rows, traffic);
    traffic->logical_rdma_bytes = sent * (s->row_bytes + s->scale_bytes);
    traffic->logical_nvl_bytes = rows * (s->row_bytes + s->scale_bytes);
}

const struct moe_family moe_family_mori_inter = {
    .kernels = { .needs = mi_needs,
                 .phases = phase_names,
                 .rank_new = mi_create,
                 .launch = mi_launch,
                 .traffic = mi_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check },
    .refuse = mi_refuse,
};
