/* moe_nccl_ll.c - NCCL EP's low-latency kernels (PROTOCOLS.md 1.20): limits, memory, and what combine does otherwise
 * than DeepEP's.  Dispatch is in moe_nccl_ll_dispatch.c, checks are in moe_nccl_ll_check.c.  What both libraries share
 * is in moe_ll_*.c. */
#include "models/moe/moe_nccl_ll.h"
#include <stdio.h>
#include "models/moe/formats.h"

enum { TOKEN_BYTES = 4, EXPERT_BYTES = 2, WEIGHED_BYTES = 8, COMBINE_BLOCK = 512 };

static uint32_t header_bytes(const struct moe_options *o)
{
    return (uint32_t)moe_align(TOKEN_BYTES + o->topk * (o->expand ? EXPERT_BYTES : WEIGHED_BYTES), 16);
}

static struct ll_geometry geometry_of(const struct moe_options *o, bool payload)
{
    struct ll_geometry g = ll_geometry_of(o);
    g.message_bytes = header_bytes(o) + g.row_bytes + 4 * g.scale_count;
    g.packed_rows = (uint64_t)g.tokens_max * (o->expand ? g.experts : g.ranks);
    g.queues = moe_min(g.local_experts, NCCL_LL_QUEUES);
    g.finish_words = g.ranks;
    g.finish_experts = g.local_experts;
    const uint64_t kept = payload ? g.message_bytes : header_bytes(o), stride = payload ? g.combine_stride : 0;
    const uint64_t send[2] = { g.tokens_max * kept, g.packed_rows * stride };
    const uint64_t recv[2] = { g.ranks * g.tokens_max * kept, (uint64_t)g.tokens_max * g.topk * stride };
    g.send_bytes = moe_align(send[0] > send[1] ? send[0] : send[1], 128);
    g.recv_bytes = moe_align(recv[0] > recv[1] ? recv[0] : recv[1], 128);
    return g;
}

static const char *refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const struct ll_geometry g = geometry_of(o, false);
    if (o->topk > NCCL_LL_TOPK_MAX)
        KERNEL_REFUSE("num-topk: NCCL EP's low latency takes at most %d, found %u", NCCL_LL_TOPK_MAX, o->topk);
    if (o->hidden % COMBINE_BLOCK)
        KERNEL_REFUSE("hidden: NCCL EP's low latency needs a multiple of %d, found %u", COMBINE_BLOCK, o->hidden);
    if (o->tokens_max > NCCL_LL_TOKENS_MAX)
        KERNEL_REFUSE("num-tokens: NCCL EP's low latency takes at most %d, found %u", NCCL_LL_TOKENS_MAX,
                      o->tokens_max);
    if (o->experts > UINT16_MAX) /* a header has 16 bits for an expert */
        KERNEL_REFUSE("num-experts: NCCL EP's low latency takes at most %d, found %u", UINT16_MAX, o->experts);
    if (g.groups > NCCL_LL_GROUPS_MAX)
        KERNEL_REFUSE("num-sms: NCCL EP's low latency needs at least %u for %u experts (%d on an SM), found %u",
                      moe_ceiling(o->experts, NCCL_LL_GROUPS_MAX), o->experts, NCCL_LL_GROUPS_MAX, o->num_sms);
    if (g.grid < 2) KERNEL_REFUSE("num-experts: NCCL EP's low latency needs two SMs, found experts for one");
    if (g.sum_warps >= g.groups * g.warps_per_group)
        KERNEL_REFUSE("hidden: an SM's %u warps cannot sum rows of %u values", g.groups * g.warps_per_group, o->hidden);
    return NULL;
}

static void needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    const struct ll_geometry g = geometry_of(o, payload);
    const uint32_t most = o->tokens_max * moe_min(o->topk, g.local_experts); /* rows for one rank */
    /* As touched_bytes() of moe_ll.c, but each rank has at most one message of a token. */
    const uint64_t ranks = moe_min(o->topk, o->ranks);
    const uint64_t rows = o->expand ? o->topk : ranks;
    *needs = (struct fabric_needs){
        .heap_bytes = 2 * (g.send_bytes + g.recv_bytes),
        .word_count = LL_WORDS_AN_EXPERT * g.experts + LL_WORDS_EXTRA + g.sms + g.ranks,
        .queue_count = (uint16_t)g.queues,
        .queue_depth = 2 * (most + g.local_experts),
        .touched_bytes = (uint64_t)o->tokens_max * (4 * (uint64_t)o->hidden + ranks * g.message_bytes +
                                                    rows * (g.row_bytes + 2 * (uint64_t)g.combine_bytes)),
    };
}

/* ---- combine ---- */

struct nccl_ll_work nccl_ll_work_of(const struct nccl_ll_share *share)
{
    struct nccl_ll_work work = { 0 };
    uint32_t most = 0;
    for (uint32_t i = 0; i < LL_WARPS_PER_SM; i++) {
        work.rows += share->rows[i];
        const uint32_t others = share->items[i] - share->rows[i];
        if (share->rows[i] > most) {
            most = share->rows[i];
            work.others = others;
        } else if (share->rows[i] == most && others > work.others) {
            work.others = others;
        }
    }
    work.warps = most ? moe_ceiling(work.rows, most) : 0;
    return work;
}

/* Finds the rows that a group returns: of the items of its destination's tokens it takes every n-th, where n is the
 * number of local experts, and its warps take them in turns. */
static uint32_t group_prepare(struct ll_rank *r, uint32_t number, uint32_t end)
{
    struct nccl_ll *n = r->nccl;
    const uint32_t destination = number / r->g.local_experts, lane = number % r->g.local_experts;
    const uint32_t of_token = nccl_ll_items_a_token(r), items = n->came[destination] * of_token;
    const uint64_t first = nccl_ll_slot(r, destination, 0) * r->g.topk;
    struct nccl_ll_share share = { 0 };
    for (uint32_t i = lane, turn = 0; i < items; i += r->g.local_experts, turn++) {
        const uint32_t warp = turn % r->g.warps_per_group;
        uint64_t at = first + (of_token > 1 ? i : (uint64_t)i * r->g.topk);
        share.items[warp]++;
        if (!nccl_ll_expert_major(r))
            while (n->row[at] < 0) at++; /* rank-major, a token has one row */
        if (n->row[at] < 0) continue;
        share.rows[warp]++;
        n->returned[end++] = (uint32_t)at;
    }
    const struct nccl_ll_work work = nccl_ll_work_of(&share);
    n->at_once[number] = (uint8_t)(work.warps ? work.warps : 1);
    n->reads[number] = 1 + work.others;
    return end;
}

static void prepare(struct ll_rank *r)
{
    for (uint32_t e = 0; e < r->g.experts; e++)
        r->nccl->returned_begin[e + 1] = group_prepare(r, e, r->nccl->returned_begin[e]);
}

static uint32_t rows(const struct ll_returner *t)
{
    const uint32_t *begin = ll_returner_rank(t)->nccl->returned_begin;
    return begin[t->number + 1] - begin[t->number];
}

static struct ll_returned returned(const struct ll_returner *t, uint32_t i)
{
    const struct ll_rank *r = ll_returner_rank(t);
    const uint32_t at = r->nccl->returned[r->nccl->returned_begin[t->number] + i];
    const uint64_t row = (uint64_t)r->nccl->row[at];
    return (struct ll_returned){ row, row, (uint64_t)r->nccl->token[at / r->g.topk] * r->g.topk + at % r->g.topk };
}

static uint32_t at_once(const struct ll_returner *t) { return ll_returner_rank(t)->nccl->at_once[t->number]; }
static uint32_t reads(const struct ll_returner *t) { return ll_returner_rank(t)->nccl->reads[t->number]; }

/* Expert-major, each choice has a row.  Rank-major, each rank has one, which its experts have weighted. */
static bool summed(const struct ll_rank *r, uint32_t token, uint32_t place, uint64_t *slot, float *weight)
{
    const int32_t *experts = &r->experts[(uint64_t)token * r->g.topk];
    if (experts[place] == ROUTING_NONE) return false;
    if (!nccl_ll_expert_major(r) && !moe_first_of_rank(experts, place, r->g.local_experts)) return false;
    *slot = (uint64_t)token * r->g.topk + place;
    *weight = nccl_ll_expert_major(r) ? ll_weight(r, token, place) : 1;
    return true;
}

/* Rank-major, what stands for the experts also multiplies a row by the weights of its choices, as callers must. */
static void rows_weigh(struct ll_rank *r)
{
    const struct nccl_ll *n = r->nccl;
    for (uint32_t source = 0; source < r->g.ranks; source++) {
        for (uint64_t row = nccl_ll_slot(r, source, 0); row < nccl_ll_slot(r, source, n->came[source]); row++) {
            uint16_t *out = r->expert_out + row * r->g.hidden;
            float weight = 0;
            ll_row_widen(r, row, out);
            for (uint32_t j = 0; j < r->g.topk; j++)
                if (n->recv_expert[row * r->g.topk + j] >= 0) weight += n->recv_weight[row * r->g.topk + j];
            for (uint32_t i = 0; i < r->g.hidden; i++)
                out[i] = format_bf16_from_f32(format_f32_from_bf16(out[i]) * weight);
        }
    }
}

static void expert_run(struct ll_rank *r)
{
    if (nccl_ll_expert_major(r)) ll_expert_run(r);
    else rows_weigh(r);
}

static const struct ll_combine_kind nccl_ll_combine = {
    .flags_zero = SITE_NCCL_EP_LL_FLAGS_ZERO,
    .layout_read = SITE_NCCL_EP_LL_LAYOUT_READ,
    .return_row = SITE_NCCL_EP_LL_RETURN_ROW,
    .clean_look = SITE_NCCL_EP_LL_CLEAN_LOOK,
    .flag_tell = SITE_NCCL_EP_LL_FLAG_TELL,
    .choices_sum = SITE_NCCL_EP_LL_CHOICES_SUM,
    .sum_rows = SITE_NCCL_EP_LL_SUM_ROWS,
    .rings_every = 1,
    .expert_run = expert_run,
    .prepare = prepare,
    .rows = rows,
    .returned = returned,
    .at_once = at_once,
    .reads = reads,
    .summed = summed,
};

/* ---- the family ---- */

static struct kernel_rank *create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    const struct ll_geometry g = geometry_of(o, f->payload);
    struct ll_rank *r = ll_rank_make(job, f, g, &nccl_ll_dispatch, &nccl_ll_combine);
    struct nccl_ll *n = r->nccl = kernel_keep(r, 1, sizeof *n);
    const uint64_t slots = (uint64_t)g.ranks * g.tokens_max;
    n->header_bytes = header_bytes(o);
    n->kept_bytes = f->payload ? g.message_bytes : n->header_bytes;
    n->arrive = n->arrived = (struct site_given){ .size = { g.local_experts * g.warps_per_group } };
    n->choices = (struct site_given){ .size = { g.topk, moe_ceiling(r->own->tokens, LL_LANES) } };
    n->sent_row = (struct site_given){ .size = { g.row_bytes, g.scale_count } };
    n->near = true;
    for (uint32_t i = 0; i < g.ranks; i++) n->near &= fabric_path(f, (uint16_t)i) != FABRIC_RDMA;
    n->came = kernel_keep(r, g.ranks, sizeof n->came[0]);
    n->token = kernel_keep(r, slots, sizeof n->token[0]);
    n->row = kernel_keep(r, slots * g.topk, sizeof n->row[0]);
    n->returned = kernel_keep(r, slots * (o->expand ? moe_min(g.topk, g.local_experts) : 1), sizeof n->returned[0]);
    n->returned_begin = kernel_keep(r, g.experts + 1, sizeof n->returned_begin[0]);
    n->at_once = kernel_keep(r, g.experts, sizeof n->at_once[0]);
    n->reads = kernel_keep(r, g.experts, sizeof n->reads[0]);
    if (f->payload && !o->expand) {
        n->recv_expert = kernel_keep(r, slots * g.topk, sizeof n->recv_expert[0]);
        n->recv_weight = kernel_keep(r, slots * g.topk, sizeof n->recv_weight[0]);
    }
    return &r->base.kernel;
}

/* ep_bench counts a row of BF16 for each choice, both ways, whatever is sent. */
static void traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    (void)phase;
    const struct ll_rank *r = (const struct ll_rank *)rank;
    ll_traffic_tokens(r, traffic);
    traffic->logical_rdma_bytes = traffic->logical_nvl_bytes = traffic->tokens_sent * r->g.combine_bytes;
}

const struct moe_family moe_family_nccl_ll = {
    .kernels = { .needs = needs,
                 .phase_count = ll_phase_count,
                 .phase_name = ll_phase_name,
                 .rank_new = create,
                 .launch = ll_launch,
                 .traffic = traffic,
                 .outputs = nccl_ll_outputs,
                 .check = nccl_ll_check,
                 .route = ll_route },
    .refuse = refuse,
};
