/* moe_ht_inter.c - the internode kernel family: limits, memory map, phases and notify (PROTOCOLS.md 1.3).  Dispatch
 * is in moe_ht_inter_dispatch.c and moe_ht_inter_forward.c, combine in moe_ht_inter_combine.c. */
#include "models/moe/moe_ht_inter.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *rdma_refuse(const char *phase, const struct moe_chunks *c, char *text, size_t text_size)
{
    if (c->rdma_send == 0) KERNEL_REFUSE("%s rdma-chunk: expected at least 1 token, found 0", phase);
    if (c->rdma_recv % c->rdma_send)
        KERNEL_REFUSE("%s rdma-buffer: expected a multiple of rdma-chunk %u, found %u", phase, c->rdma_send,
                      c->rdma_recv);
    if (c->rdma_send > c->rdma_recv / 2)
        KERNEL_REFUSE("%s rdma-buffer: expected at least twice rdma-chunk %u, found %u", phase, c->rdma_send,
                      c->rdma_recv);
    return NULL;
}

static const char *combine_refuse(const struct moe_options *o, uint32_t nodes, char *text, size_t text_size)
{
    const struct moe_chunks *c = &o->combine;
    const uint32_t warps = inter_merge_warps(o), part = c->nvl_recv / nodes;
    const uint32_t reducers = nodes * warps - o->ranks_per_node;
    const uint32_t larger = c->nvl_send > c->rdma_send ? c->nvl_send : c->rdma_send;
    if (c->nvl_recv % nodes)
        KERNEL_REFUSE("combine nvl-buffer: expected a multiple of the number of nodes %u, found %u", nodes,
                      c->nvl_recv);
    if (part <= larger)
        KERNEL_REFUSE("combine nvl-buffer: expected more than %u slots for each of %u nodes, found %u", larger, nodes,
                      part);
    if (part < warps + c->nvl_send)
        KERNEL_REFUSE("combine nvl-buffer: expected nvl-chunk %u and %u more slots for each of %u nodes, found %u",
                      c->nvl_send, warps, nodes, part);
    if (c->rdma_send < warps)
        KERNEL_REFUSE("combine rdma-chunk: expected at least %u, a token for each warp of a forwarder, found %u", warps,
                      c->rdma_send);
    /* Heads advance by chunks, as far as the slowest reducer warp has read.  Each other reducer warp may hold one
     * more slot. */
    if (c->rdma_recv + 2 < 2 * c->rdma_send + reducers)
        KERNEL_REFUSE("combine rdma-buffer: expected at least two chunks of %u and %u more, found %u", c->rdma_send,
                      reducers - 2, c->rdma_recv);
    return NULL;
}

static const char *inter_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    static const uint8_t counts[] = { 2, 3, 4, 6, 8, 12, 16, 18, 20 };
    const uint32_t nodes = o->ranks / o->ranks_per_node;
    if (o->ranks_per_node != 2 && o->ranks_per_node != 4 && o->ranks_per_node != 8)
        KERNEL_REFUSE("ranks-per-node: the kernels for several nodes take 2, 4 or 8, found %u", o->ranks_per_node);
    if (nodes > HT_NODES_MAX || !memchr(counts, (int)nodes, sizeof counts))
        KERNEL_REFUSE("num-ranks: expected 2, 3, 4, 6, 8, 12, 16, 18 or 20 nodes of %u ranks, for which DeepEP has "
                      "normal kernels (v2: up to 32 nodes), found %u",
                      o->ranks_per_node, nodes);
    const char *reason = ht_refuse(o, text, text_size);
    if (!reason) reason = rdma_refuse("dispatch", &o->dispatch, text, text_size);
    if (!reason) reason = rdma_refuse("combine", &o->combine, text, text_size);
    return reason ? reason : combine_refuse(o, nodes, text, text_size);
}

/* Makes dispatch's slot in a ring between nodes.  Without payload it has only the words that say where its token
 * goes. */
static void rail_slot(const struct moe_options *o, bool payload, struct ht_slot *slot)
{
    ht_slot_dispatch(o, payload, true, slot);
    if (payload) return;
    slot->stored = 2 * sizeof(uint32_t);
    slot->meta = 0;
}

static uint64_t region_add(uint64_t *end, uint64_t count, uint64_t size_bytes)
{
    const uint64_t start = *end;
    *end = moe_align(start + count * size_bytes, 128);
    return start;
}

static uint32_t counts_words(const struct moe_options *o)
{
    return o->ranks_per_node + o->experts / o->ranks * o->ranks_per_node + 1;
}

static uint32_t counts_nvl_words(const struct moe_options *o)
{
    return o->ranks / o->ranks_per_node + o->experts / o->ranks;
}

static void map_make(const struct moe_options *o, bool payload, struct inter_map *m)
{
    const uint32_t local = o->ranks_per_node, nodes = o->ranks / local, channels = o->num_sms / 2;
    struct ht_slot dispatch, combine;
    rail_slot(o, payload, &dispatch);
    ht_slot_combine(o, payload, true, &combine);
    const uint64_t rdma_d = (uint64_t)o->dispatch.rdma_recv * dispatch.stored;
    const uint64_t rdma_c = (uint64_t)o->combine.rdma_recv * combine.stored;
    const uint64_t nvl_d = payload ? (uint64_t)o->dispatch.nvl_recv * dispatch.stored : 0;
    const uint64_t nvl_c = (uint64_t)o->combine.nvl_recv * combine.stored;
    uint64_t end = 0;
    m->rdma_bytes = moe_align(rdma_d > rdma_c ? rdma_d : rdma_c, 128);
    m->nvl_bytes = moe_align(nvl_d > nvl_c ? nvl_d : nvl_c, 128);
    m->counts_send = region_add(&end, nodes, counts_words(o) * 4);
    m->counts_recv = region_add(&end, nodes, counts_words(o) * 4);
    m->counts_nvl = region_add(&end, local, counts_nvl_words(o) * 4);
    m->meta_send = region_add(&end, channels * nodes, (2 * local + 2) * 4);
    m->meta_recv = region_add(&end, channels * nodes, (2 * local + 2) * 4);
    m->rdma_send = region_add(&end, channels * nodes, m->rdma_bytes);
    m->rdma_recv = region_add(&end, channels * nodes, m->rdma_bytes);
    m->nvl = region_add(&end, channels * local, m->nvl_bytes);
    m->end = end;
}

static void inter_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    const uint32_t local = o->ranks_per_node, nodes = o->ranks / local, channels = o->num_sms / 2;
    const uint32_t chunks_d = o->dispatch.rdma_recv / o->dispatch.rdma_send;
    const uint32_t chunks_c = o->combine.rdma_recv / o->combine.rdma_send;
    struct inter_map map;
    map_make(o, payload, &map);
    *needs = (struct fabric_needs){
        .heap_bytes = map.end,
        .word_count = local + nodes +
                      channels * (INTER_RAIL_WORDS * nodes + INTER_NVL_WORDS * local * nodes + 1 + nodes * local +
                                  INTER_WARPS + nodes + INTER_GROUPS),
        .queue_count = (uint16_t)inter_queues(o),
        .queue_depth = o->uccl ? 2 * INTER_COMMANDS
                               : (uint32_t)moe_align(2 * (chunks_d > chunks_c ? chunks_d : chunks_c) + 16, 64),
        .channels = o->uccl,
    };
}

static void workers_alloc(struct inter_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    r->sender = kernel_keep(r, g->channels, sizeof r->sender[0]);
    r->coordinator = kernel_keep(r, g->channels, sizeof r->coordinator[0]);
    r->forwarder = kernel_keep(r, (uint64_t)g->channels * g->local, sizeof r->forwarder[0]);
    r->head_keeper = kernel_keep(r, g->channels, sizeof r->head_keeper[0]);
    r->receiver = kernel_keep(r, (uint64_t)g->channels * g->local, sizeof r->receiver[0]);
    r->returner = kernel_keep(r, (uint64_t)g->channels * g->local, sizeof r->returner[0]);
    r->merger = kernel_keep(r, (uint64_t)g->channels * INTER_WARPS, sizeof r->merger[0]);
    r->merge_keeper = kernel_keep(r, g->channels, sizeof r->merge_keeper[0]);
    r->reducer = kernel_keep(r, (uint64_t)g->channels * INTER_GROUPS, sizeof r->reducer[0]);
    r->reduce_keeper = kernel_keep(r, g->channels, sizeof r->reduce_keeper[0]);
}

/* Counts the tokens of the rail's ranks that have an expert on this node.  Needed only with a cached handle. */
static void rail_before_make(struct inter_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    for (uint32_t n = 0; n < g->nodes; n++)
        r->rail_before[n + 1] =
            r->rail_before[n] + ht_tokens_between(&r->ht, ht_rail(&r->ht.g, n), g->node * g->local, g->local);
}

static struct kernel_rank *inter_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct inter_rank *r = kernel_alloc(1, sizeof *r);
    const uint32_t channels = o->num_sms / 2, local = o->ranks_per_node, nodes = o->ranks / local;
    const uint32_t dispatch_workers = channels * (2 * local + 3);
    const uint32_t combine_workers = channels * (local + INTER_WARPS + INTER_GROUPS + 2);
    ht_rank_init(&r->ht, job, f, true, 2 * channels > nodes ? 2 * channels : nodes,
                 dispatch_workers > combine_workers ? dispatch_workers : combine_workers);
    map_make(o, f->payload, &r->map);
    rail_slot(o, f->payload, &r->ht.dispatch_slot);
    r->nvl_slot = r->ht.dispatch_slot;
    if (!f->payload) r->nvl_slot.stored = 0;
    r->counts = kernel_keep(r, counts_nvl_words(o), sizeof r->counts[0]);
    r->rail_first = kernel_keep(r, (uint64_t)channels * nodes, sizeof r->rail_first[0]);
    r->rail_count = kernel_keep(r, (uint64_t)channels * nodes, sizeof r->rail_count[0]);
    r->rows_first = kernel_keep(r, (uint64_t)channels * o->ranks, sizeof r->rows_first[0]);
    r->rows_count = kernel_keep(r, (uint64_t)channels * o->ranks, sizeof r->rows_count[0]);
    r->forwarded_base = kernel_keep(r, (uint64_t)channels * o->ranks, sizeof r->forwarded_base[0]);
    r->sent_base = kernel_keep(r, channels, sizeof r->sent_base[0]);
    workers_alloc(r);
    if (o->cached) rail_before_make(r);
    return &r->ht.base.kernel;
}

/* ---- notify -------------------------------------------------------------------------------------------- */

enum notify_stage {
    NOTIFY_END,
    NOTIFY_QUIET,
    NOTIFY_BARRIER,
    NOTIFY_RDMA_BARRIER,
    NOTIFY_NVL_BARRIER,
    NOTIFY_ZERO,
    NOTIFY_COUNTS_RDMA,
    NOTIFY_QUIET_FIRST,
    NOTIFY_COUNTS_NVL,
    NOTIFY_SUM,
};
static const uint8_t notify_program[] = {
    NOTIFY_QUIET,      NOTIFY_BARRIER,     NOTIFY_ZERO, NOTIFY_COUNTS_RDMA, NOTIFY_QUIET_FIRST, NOTIFY_RDMA_BARRIER,
    NOTIFY_COUNTS_NVL, NOTIFY_NVL_BARRIER, NOTIFY_SUM,  NOTIFY_BARRIER,     NOTIFY_END,
};
static const uint8_t cached_notify_program[] = { NOTIFY_QUIET, NOTIFY_BARRIER, NOTIFY_ZERO, NOTIFY_BARRIER,
                                                 NOTIFY_END };

/* Waits until all requests on the first `queues` QPs to every other node are complete.  Each QP has a thread that polls
 * it. */
static bool notify_quiet(struct inter_notify *n, uint32_t queues)
{
    const struct ht_geometry *g = &n->rank->ht.g;
    const uint32_t threads = 32u * n->worker.warps, looks = ((g->nodes - 1) * queues + threads - 1) / threads;
    if (!n->looked)
        fabric_work(&n->worker,
                    &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTER_QUIET, .rows = looks });
    n->looked = true;
    for (; n->next < g->nodes * queues; n->next++) {
        const uint32_t node = n->next / queues;
        if (node == g->node) continue;
        if (fabric_flush(&n->worker, ht_rail(&n->rank->ht.g, node), (uint16_t)(n->next % queues))) return false;
    }
    return true;
}

/* Sends a list of counts to each node: the tokens for each of the node's ranks, for each of its experts, and for the
 * node. */
static bool counts_rdma_send(struct inter_notify *n)
{
    struct inter_rank *r = n->rank;
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    const uint32_t words = counts_words(h->base.options), experts = g->local_experts * g->local;
    for (; n->next < g->nodes; n->next++) {
        const uint32_t node = n->next;
        const bool home = node == g->node;
        const uint64_t from = home ? r->map.counts_recv : r->map.counts_send;
        uint32_t *row = (void *)(h->base.fabric->heap + from + (uint64_t)node * words * 4);
        memcpy(row, h->layout.tokens_per_rank + (size_t)node * g->local, g->local * 4);
        memcpy(row + g->local, h->layout.tokens_per_expert + (size_t)node * experts, experts * 4);
        row[words - 1] = h->layout.tokens_per_node[node];
        const struct fabric_write write = {
            .target_offset = r->map.counts_recv + (uint64_t)g->node * words * 4,
            .charge_bytes = words * 4,
            .peer = ht_rail(&r->ht.g, node),
            .warps = 1,
            .data = row,
            .size_bytes = words * 4,
        };
        if (!home && fabric_put(&n->worker, &write, NULL)) return false;
    }
    return true;
}

/* Tells each rank of the node how many tokens it and each of its experts get from this rail's ranks. */
static bool counts_nvl_send(struct inter_notify *n)
{
    struct inter_rank *r = n->rank;
    const struct ht_geometry *g = &r->ht.g;
    const struct moe_options *o = r->ht.base.options;
    uint8_t *heap = r->ht.base.fabric->heap;
    const uint32_t words = counts_words(o), used = g->nodes + g->local_experts;
    for (; n->next < g->local; n->next++) {
        const uint32_t peer = ht_neighbour(&r->ht.g, n->next);
        memset(r->counts, 0, used * 4);
        for (uint32_t node = 0; node < g->nodes; node++) {
            const uint32_t *row = (const void *)(heap + r->map.counts_recv + (uint64_t)node * words * 4);
            r->counts[node] = row[n->next];
            for (uint32_t e = 0; e < g->local_experts; e++)
                r->counts[g->nodes + e] += row[g->local + n->next * g->local_experts + e];
        }
        const struct fabric_write write = {
            .target_offset = r->map.counts_nvl + (uint64_t)g->self * counts_nvl_words(o) * 4,
            .peer = (uint16_t)peer,
            .charge_bytes = used * 4,
            .site = SITE_INTER_COUNTS_SEND,
            .data = r->counts,
            .size_bytes = used * 4,
        };
        if (peer == g->rank) memcpy(heap + write.target_offset, r->counts, used * 4);
        else if (fabric_store(&n->worker, &write)) return false;
    }
    return true;
}

static void counts_sum(struct inter_notify *n)
{
    struct inter_rank *r = n->rank;
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    const struct moe_options *o = h->base.options;
    const uint8_t *heap = h->base.fabric->heap;
    const uint32_t words = counts_words(o), nvl_words = counts_nvl_words(o);
    memset(h->expert_counts, 0, g->local_experts * sizeof(uint32_t));
    for (uint32_t node = 0; node < g->nodes; node++) {
        const uint32_t *rail = (const void *)(heap + r->map.counts_recv + (uint64_t)node * words * 4);
        r->rail_before[node + 1] = r->rail_before[node] + rail[words - 1];
        for (uint32_t i = 0; i < g->local; i++) {
            const uint32_t *row = (const void *)(heap + r->map.counts_nvl + (uint64_t)i * nvl_words * 4);
            const uint32_t source = node * g->local + i;
            h->recv_before[source + 1] = h->recv_before[source] + row[node];
        }
    }
    /* With worst_tokens the host does not wait for counts, so expert_counts stays 0. */
    const uint32_t *experts = (const uint32_t *)(const void *)(heap + r->map.counts_nvl) + g->nodes;
    for (uint32_t e = 0; !o->worst_tokens && e < g->local_experts; e++) {
        for (uint32_t i = 0; i < g->local; i++) h->expert_counts[e] += experts[i * nvl_words + e];
        h->expert_counts[e] = (uint32_t)moe_align(h->expert_counts[e], o->expert_alignment);
    }
    ht_scan_here(&n->worker, SITE_INTER_COUNTS_SUM, g->ranks, (uint64_t)g->local * nvl_words * 4);
}

/* Steps both barriers, which run at the same time. */
static bool notify_barriers(struct inter_notify *n)
{
    const uint32_t epoch = n->rank->ht.epoch;
    const bool nvl = ht_barrier_step(&n->worker, &n->nvl, epoch);
    return ht_sync_step(&n->worker, &n->rdma, epoch) && nvl;
}

static bool notify_stage(struct inter_notify *n)
{
    struct inter_rank *r = n->rank;
    switch (*n->program) {
    case NOTIFY_QUIET: return notify_quiet(n, inter_queues(r->ht.base.options));
    case NOTIFY_QUIET_FIRST: return notify_quiet(n, 1);
    case NOTIFY_BARRIER: return notify_barriers(n);
    case NOTIFY_RDMA_BARRIER: return ht_sync_step(&n->worker, &n->rdma, r->ht.epoch);
    case NOTIFY_NVL_BARRIER: return ht_barrier_step(&n->worker, &n->nvl, r->ht.epoch);
    case NOTIFY_ZERO: return true; /* costs nothing here: only the next barrier waits for these stores */
    case NOTIFY_COUNTS_RDMA: return counts_rdma_send(n);
    case NOTIFY_COUNTS_NVL: return counts_nvl_send(n);
    case NOTIFY_SUM: counts_sum(n); return true;
    default: assert(!"unknown stage"); return true;
    }
}

static enum worker_step notify_step(struct fabric_worker *w)
{
    struct inter_notify *n = fabric_container_of(w, struct inter_notify, worker);
    for (; *n->program != NOTIFY_END; n->program++) {
        if (!notify_stage(n)) return WORKER_WAIT;
        n->next = 0;
        n->looked = false;
        if (*n->program == NOTIFY_BARRIER || *n->program == NOTIFY_RDMA_BARRIER) ht_barrier_begin(&n->rdma);
        if (*n->program == NOTIFY_BARRIER || *n->program == NOTIFY_NVL_BARRIER) ht_barrier_begin(&n->nvl);
    }
    return WORKER_DONE;
}

static void notify_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct inter_notify *n = fabric_container_of(w, struct inter_notify, worker);
    const uint32_t epoch = n->rank->ht.epoch, queues = inter_queues(n->rank->ht.base.options);
    const int rdma = ht_sync_missing(&n->rdma), nvl = ht_barrier_missing(w->fabric, &n->nvl, epoch);
    switch (*n->program) {
    case NOTIFY_BARRIER: ht_barrier_describe(text, text_size, "notify", rdma >= 0 ? rdma : nvl, "a barrier"); break;
    case NOTIFY_RDMA_BARRIER: ht_barrier_describe(text, text_size, "notify", rdma, "a network barrier"); break;
    case NOTIFY_NVL_BARRIER: ht_barrier_describe(text, text_size, "notify", nvl, "an NVLink barrier"); break;
    case NOTIFY_QUIET:
        snprintf(text, text_size, "notify waits for QP %u to rank %u to be quiet", n->next % queues,
                 ht_rail(&n->rank->ht.g, n->next / queues));
        break;
    default: snprintf(text, text_size, "notify waits for room to send counts (stage %u)", *n->program);
    }
}

static const struct worker_role notify_role = { .step = notify_step, .describe = notify_describe };

/* The warps of a block of cached_notify: one for each channel, from 4 to 32. */
static uint32_t cached_warps(const struct ht_geometry *g) { return g->channels < 4 ? 4 : moe_min(g->channels, 32); }

/* How many rows of NVLink heads, 32 B each, fit into a warp's 8 KiB of shared memory beside a barrier of 8 B.  A warp
 * loads, fills and stores this many rows together, and waits twice for them. */
enum { GAP_BATCH = 255 };

/* The bytes that a rank moves between two scans of its heads: rows sent back, rows received, and sums.  They push the
 * heads out of the L2. */
static uint64_t heads_footprint(const struct ht_rank *h)
{
    return (2u * ht_recv_rows(h) + 2u * h->g.tokens) * (uint64_t)h->combine_slot.row_bytes;
}

/* Adds the scan that fills the gaps of the RDMA heads.  A token that does not go to a node has no head in the node's
 * ring, so it gets one.  Each channel has a warp. */
static void rdma_heads_scan_add(struct inter_rank *r, uint32_t warps)
{
    struct ht_rank *h = &r->ht;
    ht_scan_add(h, 1, warps,
                (struct ht_scan_part){ .site = SITE_INTER_RAIL_HEADS,
                                       .rows = h->g.tokens / h->g.channels,
                                       .given.size = { h->g.nodes, heads_footprint(h) } });
}

/* Adds the scan of one of `sms` SMs.  It fills the gaps of NVLink heads for rows from every sms-th node.  Each channel
 * has a warp, which works in batches of GAP_BATCH rows and waits for shared memory once for each row. */
static void nvl_heads_scan_add(struct inter_rank *r, uint32_t warps, uint32_t sm, uint32_t sms)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    uint32_t batches = 0, rows = 0;
    for (uint32_t n = sm; n < g->nodes; n += sms) {
        rows += r->rail_before[n + 1] - r->rail_before[n];
        batches += (r->rail_before[n + 1] - r->rail_before[n]) / g->channels / GAP_BATCH + 1;
    }
    struct ht_scan *s =
        ht_scan_add(h, 2 + sm, warps, (struct ht_scan_part){ .site = SITE_INTER_NVL_BATCHES, .rows = batches });
    s->part[1] = (struct ht_scan_part){ .site = SITE_INTER_NVL_HEADS, .rows = rows / g->channels };
}

/* Adds the scans of the SMs other than SM 0.  For combine, SM 1 fills the gaps of the RDMA heads, and the other SMs
 * fill those of the NVLink heads. */
static void notify_scans_add(struct inter_rank *r, enum ht_phase phase)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    const uint32_t threads = 32 * INTER_NOTIFY_WARPS;
    if (phase == HT_NOTIFY)
        for (uint32_t n = 0; n < g->nodes; n++)
            ht_scan_add(h, 1 + n, INTER_NOTIFY_WARPS,
                        (struct ht_scan_part){ .site = SITE_INTER_CHANNEL_COUNT,
                                               .rows = g->tokens / threads,
                                               .read_bytes = (uint64_t)g->tokens * g->local });
    if (phase != HT_CACHED_NOTIFY_COMBINE) return;
    const uint32_t warps = cached_warps(g), sms = 2 * g->channels - 2;
    rdma_heads_scan_add(r, warps);
    for (uint32_t sm = 0; sm < sms && sm < g->nodes; sm++) nvl_heads_scan_add(r, warps, sm, sms);
}

static void notify_launch(struct inter_rank *r, enum ht_phase phase)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    r->notify = (struct inter_notify){
        .rank = r,
        .program = phase == HT_NOTIFY ? notify_program : cached_notify_program,
        .nvl = ht_barrier_node(g),
        .rdma = ht_barrier_rail(g, g->local),
    };
    ht_barrier_begin(&r->notify.rdma);
    ht_barrier_begin(&r->notify.nvl);
    ht_kernel_add(h, &r->notify.worker, &notify_role, 0, phase == HT_NOTIFY ? INTER_NOTIFY_WARPS : cached_warps(g));
    fabric_watch(&r->notify.worker, 0, g->local + g->nodes, 0);
    notify_scans_add(r, phase);
}

static struct kernel_launch *inter_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct inter_rank *r = (struct inter_rank *)rank;
    const enum ht_phase kind = ht_phase_of(r->ht.base.options, phase);
    ht_kernel_begin(&r->ht, ht_phase_name(rank->job, phase));
    if (kind == HT_LAYOUT) ht_layout_launch(&r->ht);
    else if (kind == HT_DISPATCH) inter_dispatch_launch(r);
    else if (kind == HT_COMBINE) inter_combine_launch(r);
    else notify_launch(r, kind);
    return &r->ht.kernel;
}

const struct moe_family moe_family_internode = {
    .kernels = { .needs = inter_needs,
                 .phase_count = ht_phase_count,
                 .phase_name = ht_phase_name,
                 .rank_new = inter_create,
                 .launch = inter_launch,
                 .traffic = ht_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check,
                 .begins_loop = ht_begins_loop,
                 .behind_barrier = ht_behind_barrier },
    .refuse = inter_refuse,
};
