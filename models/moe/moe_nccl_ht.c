/* moe_nccl_ht.c - NCCL EP's high-throughput kernels (PROTOCOLS.md 1.19): limits, memory map, the kernel that finds the
 * places of rows, phases and tensors.
 *
 * Flat, a token has one row on each rank that needs it; by experts (--expand), one for each of its experts there. */
#include "models/moe/moe_nccl_ht.h"

#include <string.h>

enum nh_phase { NH_LAYOUT, NH_DISPATCH, NH_COMBINE };
static const char *const phase_names[] = { "layout", "dispatch", "combine", NULL };

static struct nh_rank *rank_of(struct kernel_rank *rank) { return (struct nh_rank *)rank; }

/* ---- limits and memory ---- */

static const struct nh_form *form_of(const struct moe_options *o)
{
    static const struct nh_form nccl = { .name = "nccl-ht",
                                         .pipelines = 2,
                                         .stages = 6,
                                         .stages_far = 4,
                                         .scan = SITE_NCCL_HT_SCAN,
                                         .scan_rows = SITE_NCCL_HT_SCAN_ROWS,
                                         .in_flight = 4,
                                         .chunk = 64,
                                         .tells_all = true,
                                         .lanes = true,
                                         .ask = SITE_NCCL_HT_ASK,
                                         .places = SITE_NCCL_HT_PLACES_READ,
                                         .add = SITE_NCCL_HT_ADD,
                                         .round = SITE_NCCL_HT_ROUND };
    static const struct nh_form hybrid = { .name = "hybrid-ep",
                                           .pipelines = 1,
                                           .stages = 10,
                                           .stages_far = 5,
                                           .scan = SITE_HYBRID_EP_SCAN,
                                           .scan_sms = { 32, 128 },
                                           .chunk = 128,
                                           .ask = SITE_HYBRID_EP_ASK,
                                           .places = SITE_HYBRID_EP_PLACES,
                                           .add = SITE_HYBRID_EP_ADD,
                                           .round = SITE_HYBRID_EP_ROUND };
    return o->family == MOE_HYBRID_EP ? &hybrid : &nccl;
}

static uint32_t nodes_of(const struct moe_options *o) { return o->ranks / moe_local(o); }
static uint32_t experts_near(const struct moe_options *o) { return o->experts / nodes_of(o); }

/* The SMs of layout, at most all of the GPU. */
static uint32_t scan_sms(const struct moe_options *o)
{
    const uint32_t own = form_of(o)->scan_sms[nodes_of(o) > 1];
    if (!own) return o->num_sms;
    return o->device_sms && own > o->device_sms ? o->device_sms : own;
}

/* Makes the slots.  A token comes with a probability for each expert of the node; in FP8 also with scales. */
static void slots_make(const struct moe_options *o, bool payload, struct ht_slot *dispatch, struct ht_slot *combine)
{
    ht_slots_plain(o, payload, dispatch, combine);
    dispatch->weight = (uint32_t)moe_align(dispatch->row_bytes + dispatch->scale_bytes, 16);
    dispatch->bytes = dispatch->weight + 4 * experts_near(o);
    dispatch->stored = payload ? dispatch->bytes : 0;
    if (!o->hybrid_ep) return;
    combine->bytes += 4 * experts_near(o); /* calls bring probabilities back */
    combine->stored = payload ? combine->bytes : 0;
}

/* How many bytes of shared memory a block of dispatch takes: its stages, and for each pipeline the places of two
 * chunks, one in use and the next. */
static uint64_t shared_bytes(const struct moe_options *o)
{
    struct ht_slot dispatch, combine;
    slots_make(o, false, &dispatch, &combine);
    const struct nh_form *form = form_of(o);
    const uint64_t stage =
        moe_align(dispatch.row_bytes, 128) + moe_align(4ull * experts_near(o), 16) + dispatch.scale_bytes;
    return form->pipelines * (form->stages * (stage + 16) + 2 * moe_align(4ull * form->chunk * moe_local(o), 128));
}

static const char *nh_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const struct nh_form *form = form_of(o);
    if (nodes_of(o) > HT_NODES_MAX)
        KERNEL_REFUSE("num-ranks: %s takes at most %d nodes, found %u", form->name, HT_NODES_MAX, nodes_of(o));
    if (experts_near(o) % 4)
        KERNEL_REFUSE("num-experts: %s takes a multiple of 4 for each node, found %u", form->name, experts_near(o));
    if (o->expert_alignment & (o->expert_alignment - 1) || (o->expert_alignment > 1 && !o->expand))
        KERNEL_REFUSE("expert-alignment: %s takes a power of two, and with --expand only, found %u", form->name,
                      o->expert_alignment);
    if (o->tokens_max > NH_TOKENS_MAX)
        KERNEL_REFUSE("num-tokens: %s takes at most %d, found %u", form->name, NH_TOKENS_MAX, o->tokens_max);
    if (o->dtype == MOE_FP8 && o->hidden % 512)
        KERNEL_REFUSE("hidden: %s takes a multiple of 512 in FP8, found %u", form->name, o->hidden);
    const uint64_t sums = 2ull * (form->pipelines * form->stages + NH_SUMS) * o->hidden, stages = shared_bytes(o);
    if (sums > MOE_SHARED_BYTES || stages > MOE_SHARED_BYTES)
        KERNEL_REFUSE("hidden: %s's blocks have %d B of shared memory, %u values and %u experts take %llu", form->name,
                      MOE_SHARED_BYTES, o->hidden, o->experts, (unsigned long long)(sums > stages ? sums : stages));
    return ht_refuse(o, text, text_size);
}

/* The most rows that may come to a rank, with gaps between experts; the most places of a token on a node. */
static uint64_t rows_most(const struct moe_options *o)
{
    const uint64_t gaps = (uint64_t)(o->experts / o->ranks) * (o->expert_alignment - 1);
    return o->ranks * (o->expand ? moe_rows_most(o) + gaps : o->tokens_max);
}
static uint32_t width_of(const struct moe_options *o)
{
    return moe_min(o->topk, o->expand ? experts_near(o) : moe_local(o));
}
static uint32_t pipelines_of(const struct moe_options *o) { return NH_PIPELINES * o->num_sms; }
/* How many buffers a pipeline of combine has, so that a token's first row is still there when its last one comes. */
static uint32_t buffers_of(const struct moe_options *o) { return form_of(o)->stages + width_of(o); }

/* The bytes of a token in send, rounded up so that each begins at 16 B. */
static uint32_t send_bytes_of(const struct moe_options *o, const struct ht_slot *dispatch)
{
    return dispatch->stored ? (uint32_t)moe_align(dispatch->weight + 4 * o->experts, 16) : 0;
}

static uint64_t part_add(struct nh_map *m, uint64_t bytes)
{
    const uint64_t at = m->end;
    m->end = moe_align(at + bytes, 128);
    return at;
}

static void map_make(const struct moe_options *o, bool payload, struct nh_map *m)
{
    struct ht_slot dispatch, combine;
    slots_make(o, payload, &dispatch, &combine);
    const uint64_t far = nodes_of(o) > 1 ? (uint64_t)nodes_of(o) * o->tokens_max : 0;
    *m = (struct nh_map){ 0 };
    m->in = part_add(m, rows_most(o) * dispatch.stored);
    m->out = part_add(m, rows_most(o) * combine.stored);
    m->came = part_add(m, (uint64_t)pipelines_of(o) * buffers_of(o) * combine.stored);
    if (!far) return;
    m->send = part_add(m, (uint64_t)o->tokens_max * send_bytes_of(o, &dispatch));
    m->far = part_add(m, far * dispatch.stored);
    m->red = part_add(m, far * combine.stored);
    m->back = part_add(m, far * combine.stored);
}

/* About how many bytes a rank reads and writes in an iteration: its tokens and sums, and the rows that come and go. The
 * calls copy these to and from other buffers. */
static uint64_t touched_bytes(const struct moe_options *o)
{
    struct ht_slot dispatch, combine;
    slots_make(o, false, &dispatch, &combine);
    const uint64_t rows = (uint64_t)o->tokens_max * (o->expand ? o->topk : moe_min(o->topk, o->ranks));
    return ((uint64_t)o->tokens_max + 2 * rows) * (dispatch.bytes + combine.bytes);
}

static void nh_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    const uint32_t nodes = nodes_of(o), chunks = nodes > 1 ? 2 * nodes * NH_CHUNKS : 0;
    struct nh_map map;
    map_make(o, payload, &map);
    *needs = (struct fabric_needs){ .heap_bytes = map.end,
                                    .word_count = moe_local(o) + 2 + 2 * pipelines_of(o) + o->num_sms + chunks,
                                    .queue_count = (uint16_t)(nodes > 1 ? pipelines_of(o) : 1),
                                    .queue_depth = 3 * form_of(o)->chunk + 1,
                                    .touched_bytes = touched_bytes(o) };
}

static struct kernel_rank *nh_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct nh_rank *r = kernel_alloc(1, sizeof *r);
    r->form = form_of(o);
    r->pipelines = pipelines_of(o);
    r->buffers = buffers_of(o);
    ht_rank_init(&r->ht, job, f, nodes_of(o) > 1, scan_sms(o), (r->form->stages + 1) * r->pipelines + o->num_sms + 1);
    ht_layout_make(&r->ht);
    slots_make(o, f->payload, &r->ht.dispatch_slot, &r->ht.combine_slot);
    map_make(o, f->payload, &r->map);
    r->width = width_of(o);
    nh_lists_make(r);
    ht_expand_alloc(&r->ht);
    r->gaps = kernel_keep(r, o->num_sms, sizeof r->gaps[0]);
    r->stage = kernel_keep(r, (uint64_t)r->form->stages * r->pipelines, sizeof r->stage[0]);
    r->sum_warps = nodes_of(o) > 1 ? NH_SUM_WARPS : NH_SUM_WARPS / r->form->pipelines;
    r->send_bytes = send_bytes_of(o, &r->ht.dispatch_slot);
    r->find.size[0] = moe_local(o);
    for (uint32_t i = 0; i <= o->topk; i++)
        r->ask[i] = (struct site_given){ .size = { moe_local(o), o->dtype == MOE_FP8 ? 3 : 2, i } };
    r->add.size[0] = r->round.size[0] = r->ht.combine_slot.row_bytes / r->sum_warps;
    r->putter = kernel_keep(r, r->pipelines, sizeof r->putter[0]);
    r->made_before = kernel_keep(r, o->num_sms, sizeof r->made_before[0]);
    r->turned = kernel_keep(r, 2 * r->pipelines, sizeof r->turned[0]);
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

/* Where a received row lies from a part of the heap on; by experts, its n-th copy. */
static uint8_t *row_at(const struct ht_rank *h, uint64_t part, uint32_t row, uint32_t n, uint64_t stored)
{
    const uint32_t at = h->expanded_at ? h->expanded_index[h->expanded_at[row] + n] : row;
    return h->base.fabric->heap + part + at * stored;
}

/* By experts, each copy has the weight of its own expert. */
static void row_unpack(struct nh_rank *r, uint32_t source, uint32_t token, uint32_t row)
{
    struct ht_rank *h = &r->ht;
    const struct ht_slot *s = &h->dispatch_slot;
    struct ht_tensors *t = &h->t;
    const uint8_t *slot = row_at(h, r->map.in, row, 0, s->stored);
    uint32_t copy = 0;
    memcpy(t->recv_x + (size_t)row * s->row_bytes, slot, s->row_bytes);
    memcpy(t->recv_scales + (size_t)row * s->scale_bytes, slot + s->scale, s->scale_bytes);
    if (h->g.nodes > 1) t->recv_meta[2 * (size_t)row] = source * h->base.options->tokens_max + token;
    for (uint32_t j = 0; j < h->g.topk; j++) {
        const int64_t index = index_here(h, source, token * h->g.topk + j);
        const uint64_t expert = (uint64_t)h->g.self * h->g.local_experts + (uint64_t)(index < 0 ? 0 : index);
        float weight = 0;
        if (index >= 0) {
            slot = row_at(h, r->map.in, row, copy++, s->stored);
            memcpy(&weight, slot + s->weight + expert * sizeof weight, sizeof weight);
        }
        t->recv_index[(size_t)row * h->g.topk + j] = index;
        t->recv_weights[(size_t)row * h->g.topk + j] = weight;
    }
}

/* Makes what dispatch sends; between nodes tokens lie where puts take them. */
static void inputs_make(struct nh_rank *r)
{
    const struct ht_geometry *g = &r->ht.g;
    ht_inputs_make(&r->ht);
    for (uint32_t t = 0; g->nodes > 1 && t < g->tokens; t++)
        nh_token_pack(r, t, 0, g->nodes, r->ht.base.fabric->heap + r->map.send + (uint64_t)t * r->send_bytes);
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
    const struct ht_slot *in = &h->dispatch_slot;
    uint32_t row = 0;
    ht_tensors_recv(h);
    ht_expand_make(h);
    for (uint32_t source = 0; source < h->g.ranks; source++)
        for (uint32_t t = 0; t < h->base.routing->rank[source].tokens; t++) {
            if (!wants(h, source, t)) continue;
            row_unpack(r, source, t, row);
            for (uint32_t n = 0; h->expanded_at && n < ht_expanded_count(h, row); n++) {
                const uint32_t at = h->expanded_index[h->expanded_at[row] + n];
                const uint8_t *slot = row_at(h, r->map.in, row, n, in->stored);
                memcpy(h->expanded_x + (uint64_t)at * in->row_bytes, slot, in->row_bytes);
                memcpy(h->expanded_scales + (uint64_t)at * in->scale_bytes, slot + in->scale, in->scale_bytes);
            }
            row++;
        }
    ht_experts_count(h);
    ht_tensors_combine(h);
    for (row = 0; row < ht_recv_rows(h); row++)
        for (uint32_t n = 0; n < ht_expanded_count(h, row); n++) {
            uint8_t *slot = row_at(h, r->map.out, row, n, h->combine_slot.stored);
            if (h->expanded_at) ht_expanded_pack(h, row, n, slot);
            else ht_slot_pack_combine(h, row, slot);
        }
}

/* ---- phases ---- */

/* How many of `tokens` each lane of block `sm` takes.  Each block takes as many as the first, until none is left. */
static uint32_t scan_turns(uint32_t tokens, uint32_t sms, uint32_t sm)
{
    const uint32_t lanes = 32 * NH_SCAN_WARPS, turns = moe_ceiling(tokens, lanes * sms), first = sm * turns * lanes;
    const uint32_t left = tokens > first ? moe_ceiling(tokens - first, lanes) : 0;
    return left < turns ? left : turns;
}

/* Adds three parts by experts.  A block takes all tokens for one rank of the node, or for several if there are more
 * ranks than blocks.  Each warp takes a run of tokens, so few warps have this rank's own tokens, for which they do
 * more. */
static void remap_add(const struct nh_rank *r, struct ht_scan_part *part, uint32_t ranks)
{
    const struct moe_options *o = r->ht.base.options;
    const struct site_given given = { .size = { o->ranks, r->ht.g.local_experts, o->topk } };
    const uint32_t of_warp = moe_ceiling(o->ranks * o->tokens_max, NH_SCAN_WARPS);
    const uint32_t own = of_warp < o->tokens_max ? of_warp : o->tokens_max;
    part[0] = (struct ht_scan_part){ .site = SITE_NCCL_HT_REMAP, .rows = ranks * moe_ceiling(of_warp, 32) };
    part[1] = (struct ht_scan_part){ .site = SITE_NCCL_HT_REMAP_OWN, .rows = ranks * moe_ceiling(own, 32) };
    part[2] = (struct ht_scan_part){ .site = SITE_NCCL_HT_REMAP_SUMS, .rows = ranks };
    for (uint32_t i = 0; i < 3; i++) part[i].given = given;
}

/* Launches the kernel that reads the map of all ranks' choices.  Each lane takes some tokens of all ranks, whose
 * experts on this node it reads.  A block reads what each block before it has counted. */
static void scan_launch(struct nh_rank *r)
{
    const struct moe_options *o = r->ht.base.options;
    const struct nh_form *form = r->form;
    const uint32_t sms = scan_sms(o), tokens = o->ranks * o->tokens_max, local = r->ht.g.local;
    const struct site_given node = { .size = { local, o->experts / o->ranks, o->experts } };
    for (uint32_t sm = 0; sm < sms; sm++) {
        const uint32_t turns = scan_turns(tokens, sms, sm), own = scan_turns(ht_recv_rows(&r->ht), sms, sm);
        const struct ht_scan_part before = { .site = SITE_NCCL_HT_SCAN_BEFORE, .rows = sm + 1 };
        struct ht_scan_part *part = ht_scan_add(&r->ht, sm, NH_SCAN_WARPS, before)->part;
        if (turns) *++part = (struct ht_scan_part){ .site = form->scan, .rows = turns, .given = node };
        if (own && form->scan_rows)
            *++part = (struct ht_scan_part){ .site = form->scan_rows, .rows = own, .given = node };
        if (o->expand && sm < local) remap_add(r, part + 1, moe_ceiling(local - sm, sms));
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
        if (payload) inputs_make(r);
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
    const uint64_t sent = ht_traffic_tokens(h, phase == NH_DISPATCH, ht_recv_rows(h), traffic);
    traffic->logical_rdma_bytes = h->g.nodes > 1 ? sent * (s->row_bytes + s->scale_bytes) : 0;
    traffic->logical_nvl_bytes =
        (h->g.nodes > 1 ? ht_recv_rows(h) : traffic->tokens_sent) * (s->row_bytes + s->scale_bytes);
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
                 .steps = moe_hybrid_ep_steps,
                 .begins_loop = nh_begins_loop },
    .refuse = nh_refuse,
};
