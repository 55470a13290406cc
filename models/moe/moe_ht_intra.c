/* moe_ht_intra.c - the intranode kernel family: limits, memory map, phases and notify (PROTOCOLS.md 1.2).  Dispatch
 * and combine are in moe_ht_intra_dispatch.c and moe_ht_intra_combine.c.  Knows only NVLink peers. */
#include "models/moe/moe_ht_intra.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *intra_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    if (o->ranks != 2 && o->ranks != 4 && o->ranks != 8)
        KERNEL_REFUSE("num-ranks: the kernels for one node take 2, 4 or 8 (v2: larger NVLink domains), found %u",
                      o->ranks);
    /* Heads advance as far as the slowest reducer warp has read.  Each other reducer warp may hold one more slot. */
    const uint32_t least = o->combine.nvl_send + INTRA_REDUCER_WARPS - 1;
    if (o->combine.nvl_recv < least)
        KERNEL_REFUSE("combine nvl-buffer: expected at least nvl-chunk + %d = %u, found %u", INTRA_REDUCER_WARPS - 1,
                      least, o->combine.nvl_recv);
    return ht_refuse(o, text, text_size);
}

static uint64_t counts_bytes(const struct moe_options *o)
{
    return (uint64_t)(o->ranks + o->experts / o->ranks) * sizeof(uint32_t);
}

static uint64_t ring_bytes(const struct moe_options *o, bool payload)
{
    struct ht_slot dispatch, combine;
    ht_slot_dispatch(o, payload, false, &dispatch);
    ht_slot_combine(o, payload, false, &combine);
    const uint64_t a = (uint64_t)o->dispatch.nvl_recv * dispatch.stored;
    const uint64_t b = (uint64_t)o->combine.nvl_recv * combine.stored;
    return moe_align(a > b ? a : b, 128);
}

static void intra_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    const uint32_t channels = o->num_sms / 2;
    *needs = (struct fabric_needs){
        .heap_bytes = moe_align(o->ranks * counts_bytes(o), 128) + channels * o->ranks * ring_bytes(o, payload),
        .word_count = o->ranks + INTRA_WORDS * channels * o->ranks + channels * INTRA_GROUPS,
        .queue_count = 1,
        .queue_depth = 64,
    };
}

static struct kernel_rank *intra_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct intra_rank *r = kernel_alloc(1, sizeof *r);
    const uint32_t channels = o->num_sms / 2, pairs = channels * o->ranks;
    const uint32_t scans = 1 + (o->ranks > channels ? o->ranks : channels);
    const uint32_t combine_workers = pairs + channels * (INTRA_GROUPS + 1);
    ht_rank_init(&r->ht, job, f, false, scans, 2 * pairs > combine_workers ? 2 * pairs : combine_workers);
    r->ring_offset = moe_align(o->ranks * counts_bytes(o), 128);
    r->ring_bytes = ring_bytes(o, f->payload);
    r->channel_row = kernel_keep(r, pairs, sizeof r->channel_row[0]);
    r->channel_count = kernel_keep(r, pairs, sizeof r->channel_count[0]);
    r->sender = kernel_keep(r, pairs, sizeof r->sender[0]);
    r->receiver = kernel_keep(r, pairs, sizeof r->receiver[0]);
    r->reducer = kernel_keep(r, (uint64_t)channels * INTRA_GROUPS, sizeof r->reducer[0]);
    r->keeper = kernel_keep(r, channels, sizeof r->keeper[0]);
    return &r->ht.base.kernel;
}

/* ---- notify -------------------------------------------------------------------------------------------- */

enum notify_stage { NOTIFY_END, NOTIFY_BARRIER, NOTIFY_EXCHANGE, NOTIFY_SUM, NOTIFY_ZERO };
static const uint8_t notify_program[] = { NOTIFY_BARRIER, NOTIFY_EXCHANGE, NOTIFY_BARRIER, NOTIFY_SUM,
                                          NOTIFY_ZERO,    NOTIFY_BARRIER,  NOTIFY_END };
static const uint8_t cached_notify_program[] = { NOTIFY_BARRIER, NOTIFY_ZERO, NOTIFY_BARRIER, NOTIFY_END };

/* Writes the counts for the next peer: how many tokens this rank has for each rank, and for each expert of the peer. */
static void counts_fill(const void *data, uint8_t *target)
{
    const struct intra_notify *n = data;
    const struct ht_rank *h = &n->rank->ht;
    const uint32_t ranks = h->g.ranks, experts = h->g.local_experts;
    memcpy(target, h->layout.tokens_per_rank, ranks * sizeof(uint32_t));
    memcpy(target + ranks * sizeof(uint32_t), h->layout.tokens_per_expert + (size_t)n->peer * experts,
           experts * sizeof(uint32_t));
}

/* Sends this rank's counts to each peer. */
static bool counts_send(struct intra_notify *n)
{
    struct ht_rank *h = &n->rank->ht;
    const struct ht_geometry *g = &h->g;
    const uint32_t rank_bytes = g->ranks * 4, expert_bytes = g->local_experts * 4;
    const uint64_t offset = g->rank * counts_bytes(h->base.options);
    for (; n->peer < g->ranks; n->peer++) {
        const struct fabric_write write = {
            .target_offset = offset,
            .charge_bytes = rank_bytes + expert_bytes,
            .peer = (uint16_t)n->peer,
            .site = SITE_INTRA_COUNTS_SEND,
            .fill = counts_fill,
            .data = n,
            .size_bytes = rank_bytes + expert_bytes,
        };
        if (n->peer == g->rank) counts_fill(n, h->base.fabric->heap + offset);
        else if (fabric_store(&n->worker, &write)) return false;
    }
    return true;
}

static void counts_sum(struct intra_notify *n)
{
    struct ht_rank *h = &n->rank->ht;
    const struct ht_geometry *g = &h->g;
    const struct moe_options *o = h->base.options;
    const uint64_t row_bytes = counts_bytes(o);
    for (uint32_t e = 0; e < g->local_experts; e++) h->expert_counts[e] = 0;
    for (uint32_t source = 0; source < g->ranks; source++) {
        const uint32_t *row = (const void *)(h->base.fabric->heap + source * row_bytes);
        h->recv_before[source + 1] = h->recv_before[source] + row[g->rank];
        for (uint32_t e = 0; e < g->local_experts; e++) h->expert_counts[e] += row[g->ranks + e];
    }
    /* With worst_tokens the host does not wait for counts, so expert_counts stays 0. */
    for (uint32_t e = 0; e < g->local_experts; e++)
        h->expert_counts[e] = o->worst_tokens ? 0 : (uint32_t)moe_align(h->expert_counts[e], o->expert_alignment);
    fabric_work(&n->worker,
                &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTRA_COUNTS_SUM, .rows = g->ranks });
}

static enum worker_step notify_step(struct fabric_worker *w)
{
    struct intra_notify *n = fabric_container_of(w, struct intra_notify, worker);
    for (; *n->program != NOTIFY_END; n->program++) {
        switch (*n->program) {
        case NOTIFY_BARRIER:
            if (!ht_barrier_step(w, &n->barrier, n->rank->ht.epoch)) return WORKER_WAIT;
            ht_barrier_begin(&n->barrier);
            break;
        case NOTIFY_EXCHANGE:
            if (!n->peer)
                fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN,
                                                      .site = SITE_INTRA_COUNTS_READ,
                                                      .rows = n->rank->ht.g.local_experts });
            if (!counts_send(n)) return WORKER_WAIT;
            break;
        case NOTIFY_SUM: counts_sum(n); break;
        case NOTIFY_ZERO:
            if (n->phase == HT_CACHED_NOTIFY)
                fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_INTRA_MATRIX_READ });
            else if (n->phase == HT_NOTIFY) n->barrier.to_host = true; /* the counts were stored to the host's memory */
            break;
        default: assert(!"unknown stage");
        }
    }
    return WORKER_DONE;
}

static void notify_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct intra_notify *n = fabric_container_of(w, struct intra_notify, worker);
    const int missing = ht_barrier_missing(w->fabric, &n->barrier, n->rank->ht.epoch);
    char barrier[32];
    snprintf(barrier, sizeof barrier, "barrier %u", n->barrier.round);
    if (*n->program == NOTIFY_EXCHANGE) snprintf(text, text_size, "notify has no room for counts to rank %u", n->peer);
    else ht_barrier_describe(text, text_size, "notify", missing, barrier);
}

static const struct worker_role notify_role = { .step = notify_step, .describe = notify_describe };

static void notify_launch(struct intra_rank *r, enum ht_phase phase)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    r->notify = (struct intra_notify){
        .rank = r,
        .program = phase == HT_NOTIFY ? notify_program : cached_notify_program,
        .phase = phase,
        .barrier = ht_barrier_node(g),
    };
    ht_barrier_begin(&r->notify.barrier);
    const uint32_t warps =
        phase == HT_CACHED_NOTIFY_COMBINE && g->ranks > INTRA_NOTIFY_WARPS ? g->ranks : INTRA_NOTIFY_WARPS;
    ht_kernel_add(h, &r->notify.worker, &notify_role, 0, warps);
    fabric_watch(&r->notify.worker, 0, g->ranks, 0);
    if (phase == HT_NOTIFY) /* SM 1 + r counts the tokens of each channel for rank r, with a warp for each channel and a
                             * lane for each token */
        for (uint32_t peer = 0; peer < g->ranks; peer++)
            ht_scan_add(h, 1 + peer, warps,
                        (struct ht_scan_part){ .site = SITE_INTRA_CHANNEL_COUNT,
                                               .rows = g->tokens / g->channels,
                                               .read_bytes = g->tokens,
                                               .given.size = { g->channels, warps } });
    if (phase == HT_CACHED_NOTIFY_COMBINE) /* SM 1 + c fills the gaps in send_head of channel c */
        for (uint32_t c = 0; c < g->channels; c++) {
            const uint32_t rows = (g->tokens + g->channels - 1) / g->channels;
            ht_scan_add(h, 1 + c, warps,
                        (struct ht_scan_part){
                            .site = SITE_INTRA_GAPS, .rows = rows, .read_bytes = (uint64_t)rows * g->ranks * 4 });
        }
}

/* ---- launches ------------------------------------------------------------------------------------------ */

static struct kernel_launch *intra_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct intra_rank *r = (struct intra_rank *)rank;
    const enum ht_phase kind = ht_phase_of(r->ht.base.options, phase);
    ht_kernel_begin(&r->ht, ht_phase_name(rank->job, phase));
    if (kind == HT_LAYOUT) ht_layout_launch(&r->ht);
    else if (kind == HT_DISPATCH) intra_dispatch_launch(r);
    else if (kind == HT_COMBINE) intra_combine_launch(r);
    else notify_launch(r, kind);
    return &r->ht.kernel;
}

const struct moe_family moe_family_intranode = {
    .kernels = { .needs = intra_needs,
                 .phase_count = ht_phase_count,
                 .phase_name = ht_phase_name,
                 .rank_new = intra_create,
                 .launch = intra_launch,
                 .traffic = ht_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check,
                 .begins_loop = ht_begins_loop,
                 .behind_barrier = ht_behind_barrier },
    .refuse = intra_refuse,
};
