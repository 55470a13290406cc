/* moe_nccl_ht.c - NCCL EP's high-throughput kernels within a node (PROTOCOLS.md 1.19): limits, memory map, the kernel
 * that finds the places of rows, phases and tensors.
 *
 * The kernels were taken from DeepEP's Hybrid-EP.  The layout is flat: a token has one row on each rank that needs it.
 */
#include "models/moe/moe_nccl_ht.h"

#include <string.h>
#include "models/moe/moe_one_sided.h"

enum nh_phase { NH_LAYOUT, NH_DISPATCH, NH_COMBINE };
static const char *const phase_names[] = { "layout", "dispatch", "combine", NULL };

static struct nh_rank *rank_of(struct kernel_rank *rank) { return (struct nh_rank *)rank; }

/* ---- limits and memory ---- */

/* Makes the slots.  A token comes with a probability for each expert of the node; in FP8 also with scales. */
static void slots_make(const struct moe_options *o, bool payload, struct ht_slot *dispatch, struct ht_slot *combine)
{
    ht_slot_dispatch(o, payload, true, dispatch);
    dispatch->meta_bytes = 0;
    dispatch->weight = (uint32_t)moe_align(dispatch->row_bytes + dispatch->scale_bytes, 16);
    dispatch->bytes = dispatch->weight + 4 * o->experts;
    dispatch->stored = payload ? dispatch->bytes : 0;
    ht_slot_combine(o, payload, true, combine);
    combine->meta_bytes = 0;
    combine->bytes = combine->row_bytes;
    combine->stored = payload ? combine->bytes : 0;
}

/* How many bytes of shared memory a block of dispatch takes: its stages, and for each pipeline the places of two
 * chunks, one in use and the next. */
static uint64_t shared_bytes(const struct moe_options *o)
{
    struct ht_slot dispatch, combine;
    slots_make(o, false, &dispatch, &combine);
    const uint64_t stage = moe_align(dispatch.row_bytes, 128) + moe_align(4ull * o->experts, 16) + dispatch.scale_bytes;
    return NH_PIPELINES * (NH_STAGES * (stage + 16) + 2 * moe_align(4ull * NH_CHUNK * o->ranks, 128));
}

static const char *nh_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    if (o->ranks > o->ranks_per_node)
        KERNEL_REFUSE("num-ranks: expected at most %u, found %u: nccl-ht is here within one NVLink domain only",
                      o->ranks_per_node, o->ranks);
    if (o->experts % 4) KERNEL_REFUSE("num-experts: nccl-ht takes a multiple of 4, found %u", o->experts);
    if (o->tokens_max > NH_TOKENS_MAX)
        KERNEL_REFUSE("num-tokens: nccl-ht takes at most %d, found %u", NH_TOKENS_MAX, o->tokens_max);
    if (o->dtype == MOE_FP8 && o->hidden % 512)
        KERNEL_REFUSE("hidden: nccl-ht takes a multiple of 512 in FP8, found %u", o->hidden);
    const uint64_t sums = 2ull * NH_SUM_STAGES * o->hidden, stages = shared_bytes(o);
    if (sums > NH_SHARED_BYTES || stages > NH_SHARED_BYTES)
        KERNEL_REFUSE("hidden: nccl-ht's blocks have %d B of shared memory, %u values and %u experts take %llu",
                      NH_SHARED_BYTES, o->hidden, o->experts, (unsigned long long)(sums > stages ? sums : stages));
    return ht_refuse(o, text, text_size);
}

static uint64_t rows_most(const struct moe_options *o) { return (uint64_t)o->ranks * o->tokens_max; }
static uint32_t pipelines_of(const struct moe_options *o) { return NH_PIPELINES * o->num_sms; }
/* How many buffers a pipeline of combine has, so that a token's first row is still there when its last one comes. */
static uint32_t buffers_of(const struct moe_options *o) { return NH_STAGES + moe_min(o->topk, o->ranks); }

static void map_make(const struct moe_options *o, bool payload, struct nh_map *m)
{
    struct ht_slot dispatch, combine;
    slots_make(o, payload, &dispatch, &combine);
    m->in = 0;
    m->out = moe_align(rows_most(o) * dispatch.stored, 128);
    m->came = m->out + moe_align(rows_most(o) * combine.stored, 128);
    m->end = m->came + (uint64_t)pipelines_of(o) * buffers_of(o) * combine.stored;
}

static void nh_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    struct nh_map map;
    map_make(o, payload, &map);
    *needs = (struct fabric_needs){
        .heap_bytes = map.end, .word_count = o->ranks + 2 + pipelines_of(o), .queue_count = 1, .queue_depth = 1
    };
}

/* Finds the place of each of this rank's rows, and how many rows come from each rank.  The library's kernel finds them
 * in a map of all ranks' choices. */
static void places_make(struct nh_rank *r)
{
    struct ht_rank *h = &r->ht;
    const struct ht_geometry *g = &h->g;
    for (uint32_t to = 0; to < g->ranks; to++) {
        uint32_t place = 0;
        for (uint32_t source = 0; source < g->rank; source++) place += ht_tokens_between(h, source, to, 1);
        for (uint32_t t = 0; t < g->tokens; t++)
            if (ht_goes_to(h, t, to)) r->place[(size_t)t * g->ranks + to] = place++;
    }
    for (uint32_t source = 0; source < g->ranks; source++)
        h->recv_before[source + 1] = h->recv_before[source] + ht_tokens_between(h, source, g->rank, 1);
}

static struct kernel_rank *nh_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct nh_rank *r = kernel_alloc(1, sizeof *r);
    r->pipelines = pipelines_of(o);
    r->buffers = buffers_of(o);
    ht_rank_init(&r->ht, job, f, false, o->num_sms, NH_STAGES * r->pipelines + 1);
    ht_layout_make(&r->ht);
    slots_make(o, f->payload, &r->ht.dispatch_slot, &r->ht.combine_slot);
    map_make(o, f->payload, &r->map);
    r->place = kernel_keep(r, (uint64_t)r->ht.g.tokens * r->ht.g.ranks, sizeof r->place[0]);
    places_make(r);
    nh_lists_make(r);
    r->stage = kernel_keep(r, (uint64_t)NH_STAGES * r->pipelines, sizeof r->stage[0]);
    r->add[0].size[0] = r->add[1].size[0] = r->ht.combine_slot.row_bytes / NH_SUM_WARPS;
    r->turned = kernel_keep(r, r->pipelines, sizeof r->turned[0]);
    return &r->ht.base.kernel;
}

/* ---- tensors ---- */

/* The index of a choice's expert on this rank; -1: the expert is not on this rank. */
static int64_t index_here(const struct ht_rank *h, uint32_t source, uint32_t choice)
{
    const int32_t expert = ht_expert(h, source, choice);
    const uint32_t first = h->g.rank * h->g.local_experts, local = (uint32_t)expert - first;
    return expert >= 0 && local < h->g.local_experts ? (int64_t)local : -1;
}

static void row_unpack(struct ht_rank *h, const uint8_t *slot, uint32_t source, uint32_t token, uint32_t row)
{
    const struct ht_slot *s = &h->dispatch_slot;
    struct ht_tensors *t = &h->t;
    memcpy(t->recv_x + (size_t)row * s->row_bytes, slot, s->row_bytes);
    memcpy(t->recv_scales + (size_t)row * s->scale_bytes, slot + s->scale, s->scale_bytes);
    for (uint32_t j = 0; j < h->g.topk; j++) {
        const int64_t index = index_here(h, source, token * h->g.topk + j);
        const uint64_t expert = (uint64_t)h->g.rank * h->g.local_experts + (uint64_t)(index < 0 ? 0 : index);
        float weight = 0;
        if (index >= 0) memcpy(&weight, slot + s->weight + expert * sizeof weight, sizeof weight);
        t->recv_index[(size_t)row * h->g.topk + j] = index;
        t->recv_weights[(size_t)row * h->g.topk + j] = weight;
    }
}

static bool wants(const struct ht_rank *h, uint32_t source, uint32_t token)
{
    for (uint32_t j = 0; j < h->g.topk; j++)
        if (index_here(h, source, token * h->g.topk + j) >= 0) return true;
    return false;
}

/* Gives the experts the rows that have come, and puts what they make of them where peers load it. */
static void rows_turn(struct nh_rank *r)
{
    struct ht_rank *h = &r->ht;
    uint8_t *heap = h->base.fabric->heap;
    uint32_t row = 0;
    ht_tensors_recv(h);
    for (uint32_t source = 0; source < h->g.ranks; source++)
        for (uint32_t t = 0; t < h->base.routing->rank[source].tokens; t++) {
            if (!wants(h, source, t)) continue;
            row_unpack(h, heap + r->map.in + (uint64_t)row * h->dispatch_slot.stored, source, t, row);
            row++;
        }
    os_experts_count(h);
    ht_tensors_combine(h);
    for (row = 0; row < ht_recv_rows(h); row++)
        ht_slot_pack_combine(h, row, heap + r->map.out + (uint64_t)row * h->combine_slot.stored);
}

/* ---- phases ---- */

/* Launches the kernel that reads the map of all ranks' choices.  Each lane takes some tokens of all ranks.  Then a
 * block reads what each block before it has counted. */
static void scan_launch(struct nh_rank *r)
{
    const struct moe_options *o = r->ht.base.options;
    const uint32_t lanes = 32 * NH_SCAN_WARPS * o->num_sms, tokens = o->ranks * o->tokens_max;
    const struct ht_scan_part map = { .site = SITE_NCCL_HT_SCAN,
                                      .rows = moe_ceiling(tokens, lanes),
                                      .given.size = { o->ranks, o->experts / o->ranks } };
    for (uint32_t sm = 0; sm < o->num_sms; sm++) {
        struct ht_scan *s = ht_scan_add(&r->ht, sm, NH_SCAN_WARPS, map);
        s->part[1] = (struct ht_scan_part){ .site = SITE_NCCL_HT_SCAN_BEFORE, .rows = sm + 1 };
    }
}

static struct kernel_launch *nh_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct nh_rank *r = rank_of(rank);
    struct ht_rank *h = &r->ht;
    const bool payload = h->base.fabric->payload;
    ht_kernel_begin(h, phase_names[phase]);
    switch ((enum nh_phase)phase) {
    case NH_LAYOUT: scan_launch(r); break;
    case NH_DISPATCH:
        if (payload) ht_inputs_make(h);
        nh_dispatch_launch(r);
        break;
    case NH_COMBINE:
        if (payload) rows_turn(r);
        nh_combine_launch(r);
        break;
    }
    h->kernel.site = SITE_NONE;
    return &h->kernel;
}

static void nh_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct ht_rank *h = (const struct ht_rank *)rank;
    if (phase == NH_LAYOUT) return;
    const struct ht_slot *s = phase == NH_DISPATCH ? &h->dispatch_slot : &h->combine_slot;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < h->g.ranks; i++) rows += h->layout.tokens_per_rank[i];
    traffic->tokens_sent = phase == NH_DISPATCH ? rows : ht_recv_rows(h);
    traffic->tokens_received = phase == NH_DISPATCH ? ht_recv_rows(h) : rows;
    traffic->logical_nvl_bytes = traffic->tokens_sent * (s->row_bytes + s->scale_bytes);
}

/* The library's test finds the places once and then times calls of dispatch and combine. */
static bool nh_begins_loop(const struct kernel_job *job, uint32_t phase)
{
    (void)job;
    return phase == NH_DISPATCH;
}

const struct moe_family moe_family_nccl_ht = {
    .kernels = { .needs = nh_needs,
                 .phases = phase_names,
                 .rank_new = nh_create,
                 .launch = nh_launch,
                 .traffic = nh_traffic,
                 .outputs = ht_outputs,
                 .check = ht_check,
                 .begins_loop = nh_begins_loop },
    .refuse = nh_refuse,
};
