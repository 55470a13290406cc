/* moe_ll.c - the low-latency kernel family: limits, memory map and phases.  The two kernels are in moe_ll_dispatch.c
 * and moe_ll_combine.c, their grid barrier in moe_ll_gate.c, and their checks in moe_ll_check.c.  moe_ll_mask.c makes a
 * rank stop waiting for dead ranks. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_ll.h"

struct ll_geometry ll_geometry_of(const struct moe_options *o)
{
    struct ll_geometry g = { .experts = o->experts,
                             .ranks = o->ranks,
                             .local_experts = o->experts / o->ranks,
                             .tokens_max = o->tokens_max,
                             .topk = o->topk,
                             .hidden = o->hidden };
    g.groups = (o->experts + o->num_sms - 1) / o->num_sms;
    g.warps_per_group = g.groups < LL_WARPS_PER_SM ? LL_WARPS_PER_SM / g.groups : 1;
    g.grid = (o->experts + g.groups - 1) / g.groups;
    /* For combine's sums an SM has one or two groups of warps.  A group sums one token at a time.  It has one warp for
     * every 1 KB of the row, and one warp that loads (PROTOCOLS.md 1.4). */
    g.sum_warps = 2 * moe_align(o->hidden, o->hidden % 1024 ? 512 : 1024) / LL_SUM_WARP_BYTES;
    g.sum_groups = g.groups * g.warps_per_group / (g.sum_warps + 1) > 1 ? 2 : 1;
    g.sms = o->num_sms;
    g.scale_count = o->dtype == MOE_FP8 ? o->hidden / FORMATS_BLOCK : 0;
    g.row_bytes = o->dtype == MOE_FP8 ? o->hidden : 2 * o->hidden;
    g.message_bytes = LL_HEADER_BYTES + g.row_bytes + 4 * g.scale_count;
    g.combine_bytes = 2 * o->hidden;
    g.combine_stride = 2 * o->hidden + o->hidden / FORMATS_BLOCK * 4;
    /* With random data all pieces fit LogFMT.  Other data have equal or large values, so no piece fits. */
    g.return_bytes = o->logfmt ? format_logs_bytes(o->hidden, o->data == MOE_DATA_RANDOM) : g.combine_bytes;
    const uint64_t slots = (uint64_t)o->experts * o->tokens_max;
    const uint64_t dispatch_send = (uint64_t)o->tokens_max * g.message_bytes;
    const uint64_t combine = slots * g.combine_stride;
    g.send_bytes = moe_align(dispatch_send > combine ? dispatch_send : combine, 128);
    g.recv_bytes = moe_align(slots * (g.message_bytes > g.combine_stride ? g.message_bytes : g.combine_stride), 128);
    g.packed_rows = slots;
    g.queues = g.local_experts;
    g.finish_words = g.experts;
    g.finish_experts = 1;
    return g;
}

static const char *ll_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const struct ll_geometry g = ll_geometry_of(o);
    if (o->topk > LL_TOPK_MAX)
        KERNEL_REFUSE("num-topk: the low-latency kernels take at most %d, found %u", LL_TOPK_MAX, o->topk);
    if (o->dtype == MOE_FP8 && o->hidden % 512)
        KERNEL_REFUSE("hidden: FP8 needs a multiple of 512, found %u", o->hidden);
    if (o->logfmt && o->hidden % FORMATS_LOGS_LEAST)
        KERNEL_REFUSE("hidden: logfmt needs a multiple of %d, found %u", FORMATS_LOGS_LEAST, o->hidden);
    if (g.groups * g.warps_per_group < o->topk + 1)
        KERNEL_REFUSE("num-topk: %u warps on an SM cannot serve %u places and a counter", g.groups * g.warps_per_group,
                      o->topk);
    if (g.sum_warps > UINT8_MAX) /* one warp sums 1 KB of a row, and a value has 2 B */
        KERNEL_REFUSE("hidden: the low-latency kernels take at most %d, found %u", UINT8_MAX / 2 * LL_SUM_WARP_BYTES,
                      o->hidden);
    if (o->tokens_max > LL_TOKENS_MAX)
        KERNEL_REFUSE("num-tokens: the low-latency kernels take at most %d, found %u", LL_TOKENS_MAX, o->tokens_max);
    if (o->experts > LL_EXPERTS_MAX)
        KERNEL_REFUSE("num-experts: the low-latency kernels take at most %d, found %u", LL_EXPERTS_MAX, o->experts);
    if (g.groups > UINT8_MAX) /* each group takes at least one warp of an SM */
        KERNEL_REFUSE("num-sms: expected at least %u for %u experts (%d a SM), found %u",
                      (o->experts + UINT8_MAX - 1) / UINT8_MAX, o->experts, UINT8_MAX, o->num_sms);
    if (g.local_experts > UINT16_MAX)
        KERNEL_REFUSE("num-experts: at most %u for each rank, found %u", UINT16_MAX, g.local_experts);
    return ll_mask_refuse(o, text, text_size);
}

/* About how many bytes a rank reads or writes in a dispatch and a combine.  For each token these are its input row, its
 * output row and its message.  For each choice they are a message that comes, a row that is unpacked, a row that an
 * expert makes, and a row that comes back.  On average a rank receives as much as it sends. */
static uint64_t touched_bytes(const struct moe_options *o, const struct ll_geometry *g)
{
    if (o->flushed) return UINT64_MAX;
    const uint64_t choice = g->message_bytes + g->row_bytes + 2 * g->combine_bytes;
    return (uint64_t)o->tokens_max * (4 * (uint64_t)o->hidden + g->message_bytes + o->topk * choice);
}

static void ll_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    const struct ll_geometry g = ll_geometry_of(o);
    *needs = (struct fabric_needs){
        .heap_bytes = payload ? 2 * (g.send_bytes + g.recv_bytes) : 0,
        .word_count = LL_WORDS_AN_EXPERT * g.experts + LL_WORDS_EXTRA + g.sms + (o->mask_timeout_ps ? g.ranks : 0),
        .queue_count = (uint16_t)g.queues,
        .queue_depth = o->uccl ? LL_COMMANDS : 2 * (o->tokens_max + 1),
        .channels = o->uccl,
        .touched_bytes = touched_bytes(o, &g),
    };
}

static const char *const ll_phase_names[2][5] = {
    { "dispatch", "combine", "clean" },
    { "dispatch_send", "dispatch_recv", "combine_send", "combine_recv", "clean" },
};
uint32_t ll_phase_count(const struct kernel_job *job)
{
    const struct moe_options *o = moe_options_of(job);
    return (o->hook ? 4 : 2) + (o->mask_timeout_ps > 0);
}
const char *ll_phase_name(const struct kernel_job *job, uint32_t phase)
{
    assert(phase < ll_phase_count(job));
    return ll_phase_names[moe_options_of(job)->hook][phase];
}
static bool ll_absent(const struct kernel_job *job, uint32_t rank, uint32_t phase, uint32_t iteration)
{
    return ll_failed(moe_options_of(job), rank, phase, iteration);
}

/* Makes the input, which never changes, and allocates the outputs.  Zeroed memory takes up pages only where rows
 * arrive. */
static void tensors_alloc(struct ll_rank *r)
{
    r->input = kernel_keep(r, (size_t)r->own->tokens * r->g.hidden, sizeof r->input[0]);
    for (uint32_t t = 0; t < r->own->tokens; t++)
        moe_input_row(r->base.options, r->base.fabric->rank, t, r->input + (size_t)t * r->g.hidden);
    r->range_begin = kernel_keep(r, r->g.experts, sizeof r->range_begin[0]);
    const size_t slots = r->g.packed_rows;
    r->recv_x = kernel_keep(r, slots, r->g.row_bytes);
    r->recv_scale = kernel_keep(r, slots, sizeof r->recv_scale[0] * (r->g.scale_count + 1));
    r->recv_source_token = kernel_keep(r, slots, sizeof r->recv_source_token[0]);
    r->expert_out = kernel_keep(r, slots * r->g.hidden, sizeof r->expert_out[0]);
    r->combined = kernel_keep(r, (size_t)r->own->tokens * r->g.hidden, sizeof r->combined[0]);
}

static void mask_alloc(struct ll_rank *r)
{
    const size_t places = (size_t)r->own->tokens * r->g.topk;
    r->mask = kernel_keep(r, r->g.ranks, sizeof r->mask[0]);
    r->experts = r->experts_left = kernel_keep(r, places, sizeof r->experts[0]);
    r->cleaner = kernel_keep(r, r->g.ranks, sizeof r->cleaner[0]);
    r->deadline_ps = kernel_keep(r, ll_workers_max(&r->g), sizeof r->deadline_ps[0]);
    if (places) memcpy(r->experts_left, r->own->experts, places * sizeof r->experts[0]);
}

static void groups_alloc(struct ll_rank *r)
{
    const size_t dispatch_bytes = r->g.grid * (sizeof r->sender[0] + sizeof r->counter[0]);
    const size_t combine_bytes = (size_t)r->g.sms * r->g.sum_groups * sizeof r->reducer[0];
    r->groups = kernel_keep(r, 1, dispatch_bytes > combine_bytes ? dispatch_bytes : combine_bytes);
    r->sender = r->groups;
    r->counter = (struct ll_counter *)(void *)(r->sender + r->g.grid);
    r->reducer = r->groups;
}

struct ll_rank *ll_rank_make(const struct kernel_job *job, struct fabric *f, struct ll_geometry g,
                             const struct ll_dispatch_kind *dispatch, const struct ll_combine_kind *combine)
{
    const struct moe_options *o = moe_options_of(job);
    struct ll_rank *r = kernel_alloc(1, sizeof *r + g.experts * sizeof r->pair[0]);
    r->base = moe_rank_of(job, f);
    r->g = g;
    r->dispatch = dispatch;
    r->combine = combine;
    r->own = &r->base.routing->rank[f->rank];
    r->experts = r->own->experts;
    assert(r->own->tokens <= g.tokens_max);
    r->finish_target = kernel_keep(r, g.experts, sizeof r->finish_target[0]);
    r->slot_counter = kernel_keep(r, g.experts, sizeof r->slot_counter[0]);
    r->packed_count = kernel_keep(r, g.local_experts, sizeof r->packed_count[0]);
    r->range_count = kernel_keep(r, g.experts, sizeof r->range_count[0]);
    groups_alloc(r);
    if (o->mask_timeout_ps) mask_alloc(r);
    if (f->payload) tensors_alloc(r);
    return r;
}

static struct kernel_rank *ll_create(const struct kernel_job *job, struct fabric *f)
{
    return &ll_rank_make(job, f, ll_geometry_of(moe_options_of(job)), &ll_dispatch_deepep, &ll_combine_deepep)
                ->base.kernel;
}

struct kernel_launch *ll_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct ll_rank *r = ll_rank_of(rank);
    const bool hook = r->base.options->hook, clean = phase == (hook ? 4 : 2);
    const bool combine = hook ? phase >= 2 : phase == 1;
    const bool send = !hook || phase % 2 == 0, receive = !hook || phase % 2 == 1;
    if (send && !clean) r->call++;
    if (!r->worker) r->worker = kernel_keep(r, ll_workers_max(&r->g), sizeof r->worker[0]);
    if (r->deadline_ps) memset(r->deadline_ps, 0, ll_workers_max(&r->g) * sizeof r->deadline_ps[0]);
    r->kernel = (struct kernel_launch){ .phase = ll_phase_name(rank->job, phase),
                                        .site = r->dispatch->kernel,
                                        .worker = r->worker,
                                        .remade = &r->worker,
                                        .leaves = send && !receive };
    r->failed = ll_failed(r->base.options, r->base.fabric->rank, phase, ll_iteration(r));
    if (r->failed) return &r->kernel;
    if (clean) return ll_clean_launch(r);
    if (combine && send && r->base.fabric->payload) r->combine->expert_run(r);
    return combine ? ll_combine_launch(r, send, receive) : ll_dispatch_launch(r, send, receive);
}

void ll_traffic_tokens(const struct ll_rank *r, struct kernel_traffic *traffic)
{
    const uint64_t places = (uint64_t)r->own->tokens * r->g.topk;
    for (uint64_t i = 0; i < places; i++) traffic->tokens_sent += r->experts[i] != ROUTING_NONE;
    for (uint32_t i = 0; i < r->g.experts; i++) traffic->tokens_received += r->range_count[i];
}

/* Counts bytes as the public test does (PROTOCOLS.md 3.1): every choice counts, by NVLink or by RDMA, except choices of
 * experts on ranks that are masked. */
static void ll_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct ll_rank *r = (const struct ll_rank *)rank;
    const struct moe_options *o = r->base.options;
    const bool hook = o->hook, combine = hook ? phase >= 2 : phase == 1;
    if (r->failed || phase == (hook ? 4 : 2)) return;
    ll_traffic_tokens(r, traffic);
    const uint32_t returned = o->logfmt ? format_logs_bytes(r->g.hidden, true) : r->g.combine_bytes;
    traffic->logical_rdma_bytes = traffic->tokens_sent * (combine ? returned : r->g.message_bytes);
    traffic->logical_nvl_bytes = traffic->logical_rdma_bytes;
}

void ll_route(struct kernel_rank *rank, const struct routing *routing)
{
    struct ll_rank *r = ll_rank_of(rank);
    const struct routing_rank *own = &routing->rank[r->base.fabric->rank];
    assert(!r->mask && own->tokens == r->own->tokens);
    r->base.routing = routing;
    r->own = own;
    r->experts = own->experts;
}

static bool ll_rank_masks(const struct kernel_rank *rank, uint32_t peer)
{
    return ll_masks((const struct ll_rank *)rank, peer);
}

const struct moe_family moe_family_ll = {
    .kernels = { .needs = ll_needs,
                 .phase_count = ll_phase_count,
                 .phase_name = ll_phase_name,
                 .rank_new = ll_create,
                 .launch = ll_launch,
                 .traffic = ll_traffic,
                 .outputs = ll_outputs,
                 .check = ll_check,
                 .absent = ll_absent,
                 .route = ll_route,
                 .masks = ll_rank_masks },
    .refuse = ll_refuse,
};
