/* moe_pplx.c - pplx-garden's dispatch and combine (PROTOCOLS.md 1.18): the family, its memory and its checks.
 *
 * Rows of an expert are in the order of tokens.  The library takes their places from an atomic, in no particular
 * order. */
#include "models/moe/moe_pplx.h"

#include <stdlib.h>
#include <string.h>
#include "models/moe/checks.h"
#include "models/moe/formats.h"

/* [0]: sending and receiving are one launch; [1]: they are launched separately (hook). */
static const struct pp_phase {
    const char *name;
    struct pp_launch launch;
} phases[2][6] = {
    { { "dispatch", { false, true, true } },
      { "dispatch_sync", { false, false, false } },
      { "combine", { true, true, true } },
      { "combine_sync", { true, false, false } } },
    { { "dispatch_send", { false, true, false } },
      { "dispatch_recv", { false, false, true } },
      { "dispatch_sync", { false, false, false } },
      { "combine_send", { true, true, false } },
      { "combine_recv", { true, false, true } },
      { "combine_sync", { true, false, false } } },
};
static const struct pp_phase *phase_of(const struct kernel_job *job, uint32_t phase)
{
    return &phases[moe_options_of(job)->hook][phase];
}
static uint32_t pp_phase_count(const struct kernel_job *job) { return moe_options_of(job)->hook ? 6 : 4; }
static const char *pp_phase_name(const struct kernel_job *job, uint32_t phase) { return phase_of(job, phase)->name; }

static struct pp_rank *rank_of(struct kernel_rank *rank) { return (struct pp_rank *)rank; }

/* ---- geometry ---- */

static const char *pp_refuse(const struct moe_options *o, char *text, size_t text_size)
{
    const uint32_t local = moe_local(o);
    if (local > PP_LOCAL_MAX || o->ranks / local > HT_NODES_MAX)
        KERNEL_REFUSE("num-ranks: pplx's kernels reach %d nodes of %d ranks here, found %u of %u", HT_NODES_MAX,
                      PP_LOCAL_MAX, o->ranks / local, local);
    if (o->experts > PP_EXPERTS_MAX)
        KERNEL_REFUSE("num-experts: pplx's kernels take at most %d, found %u", PP_EXPERTS_MAX, o->experts);
    return ht_refuse(o, text, text_size);
}

/* Makes the slots.  A slot of dispatch has values, scales, and 16 B that are not used. */
static void slots_make(const struct moe_options *o, bool payload, struct ht_slot *dispatch, struct ht_slot *combine)
{
    ht_slots_plain(o, payload, dispatch, combine);
    dispatch->bytes = (uint32_t)moe_align(dispatch->row_bytes + dispatch->scale_bytes, 16) + 16;
    dispatch->stored = payload ? dispatch->bytes : 0;
}

static uint32_t first_rows(const struct moe_options *o)
{
    return moe_rows_most(o) < PP_PRIVATE ? (uint32_t)moe_rows_most(o) : PP_PRIVATE;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void map_make(const struct moe_options *o, bool payload, struct pp_map *m)
{
    struct ht_slot dispatch, combine;
    slots_make(o, payload, &dispatch, &combine);
    const uint64_t come = moe_rows_most(o) * o->ranks, choices = (uint64_t)o->tokens_max * o->topk;
    const uint64_t places = come + o->experts / o->ranks * (o->expert_alignment - 1);
    m->counts = 0;
    m->send = moe_align(4ull * o->ranks * o->experts, 128);
    m->recv = m->send + moe_align(larger(choices * dispatch.stored, come * combine.stored), 128);
    m->out =
        m->recv +
        moe_align(larger((come + (uint64_t)o->ranks * first_rows(o)) * dispatch.stored, choices * combine.stored), 128);
    m->made = m->out + moe_align(places * dispatch.stored, 128);
    m->end = m->made + places * combine.stored;
}

static void pp_needs(const struct kernel_job *job, bool payload, struct fabric_needs *needs)
{
    const struct moe_options *o = moe_options_of(job);
    struct pp_map map;
    map_make(o, payload, &map);
    *needs = (struct fabric_needs){ .heap_bytes = map.end,
                                    .word_count = PP_SOURCE_WORDS * o->ranks + PP_PRIVATE_WORDS,
                                    .queue_count = PP_NICS,
                                    .queue_depth = PP_DEPTH };
}

/* ---- a rank ---- */

static struct kernel_rank *pp_create(const struct kernel_job *job, struct fabric *f)
{
    const struct moe_options *o = moe_options_of(job);
    struct pp_rank *r = kernel_alloc(1, sizeof *r);
    struct ht_rank *h = &r->ht;
    r->blocks = o->num_sms;
    ht_rank_init(h, job, f, o->ranks > o->ranks_per_node, 1, r->blocks + 1);
    slots_make(o, f->payload, &h->dispatch_slot, &h->combine_slot);
    map_make(o, f->payload, &r->map);
    r->first_rows = first_rows(o);
    r->sent_before = kernel_keep(r, h->g.experts + 1, sizeof r->sent_before[0]);
    r->position = kernel_keep(r, (uint64_t)h->g.tokens * h->g.topk, sizeof r->position[0]);
    r->come_before = kernel_keep(r, h->g.ranks + 1, sizeof r->come_before[0]);
    r->before_here = kernel_keep(r, h->g.ranks, sizeof r->before_here[0]);
    r->expert_place = kernel_keep(r, h->g.local_experts, sizeof r->expert_place[0]);
    r->block = kernel_keep(r, r->blocks, sizeof r->block[0]);
    r->sum.size[0] = h->g.topk;
    ht_choices_sort(h, r->sent_before, r->position);
    return &h->base.kernel;
}

/* ---- phases ---- */

/* Does the experts' work: each row goes back as it came, in BF16. */
static void rows_give(struct pp_rank *r)
{
    struct ht_rank *h = &r->ht;
    const struct ht_slot *s = &h->dispatch_slot;
    uint8_t *heap = h->base.fabric->heap;
    for (uint32_t i = 0; i < r->rows; i++) {
        const uint8_t *row = heap + pp_dispatched(r, r->map.out, r->row[i].place);
        uint8_t *made = heap + pp_returned(r, r->map.made, r->row[i].place);
        ht_row_widen(h->base.options, row, row + s->scale, (uint16_t *)(void *)made);
    }
    if (!h->t.combined_x)
        h->t.combined_x = kernel_keep(r, (uint64_t)h->g.tokens * h->g.hidden, sizeof h->t.combined_x[0]);
}

static void counts_make(struct pp_rank *r)
{
    uint32_t *counts = pp_counts(r, r->ht.g.rank);
    for (uint32_t e = 0; e < r->ht.g.experts; e++) counts[e] = r->sent_before[e + 1] - r->sent_before[e];
    r->learned = false;
}

/* Launches a phase.  Words that peers raise between two barriers of all ranks carry the number of the first launch
 * after the earlier barrier.  So a launch that receives without sending keeps the epoch. */
static struct kernel_launch *pp_launch(struct kernel_rank *rank, uint32_t phase)
{
    struct pp_rank *r = rank_of(rank);
    struct ht_rank *h = &r->ht;
    const struct fabric *f = h->base.fabric;
    const struct pp_launch *l = &r->launch;
    const uint32_t epoch = h->epoch;
    uint64_t *grown = ht_grown(h);
    r->launch = phase_of(rank->job, phase)->launch;
    ht_kernel_begin(h, pp_phase_name(rank->job, phase));
    if (!l->sends && l->receives) h->epoch = epoch;
    h->kernel.leaves = l->sends && !l->receives;
    r->opened = grown[0];
    grown[0] += pp_barriers_sending(r) + l->receives;
    if (l->sends) {
        const uint32_t told = l->combine ? 1 : 2;
        r->to_host = grown[1];
        r->to_gpu = grown[2];
        grown[1] += told;
        grown[2] += told;
    }
    if (l->sends && !l->combine) counts_make(r);
    if (l->sends && !l->combine && f->payload) ht_inputs_make(h);
    if (l->sends && l->combine && f->payload) rows_give(r);
    pp_blocks_launch(r);
    pp_host_launch(r);
    return &h->kernel;
}

/* Counts the rows' bytes.  Every choice is a row, even if it goes to this rank itself. */
static void pp_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct pp_rank *r = (const struct pp_rank *)rank;
    const struct pp_launch *l = &phase_of(rank->job, phase)->launch;
    const struct ht_slot *s = l->combine ? &r->ht.combine_slot : &r->ht.dispatch_slot;
    uint64_t sent = r->sent_before[r->ht.g.experts], near = l->combine ? r->rows - r->far_rows : 0;
    if (!l->sends && !l->receives) return;
    for (uint32_t i = 0; !l->combine && i < r->ht.g.local; i++) near += pp_rows_to(r, pp_rank_first(r) + i);
    traffic->tokens_sent = l->combine ? r->rows : sent;
    traffic->tokens_received = l->combine ? sent : r->rows;
    traffic->logical_nvl_bytes = near * (s->row_bytes + s->scale_bytes);
    traffic->logical_rdma_bytes = (traffic->tokens_sent - near) * (s->row_bytes + s->scale_bytes);
}

static uint32_t pp_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    const struct pp_rank *r = rank_of(rank);
    const struct ht_rank *h = &r->ht;
    const struct kernel_tensor all[] = {
        { "expert_counts", h->expert_counts, h->g.local_experts * sizeof h->expert_counts[0] },
        { "recv_x", h->base.fabric->heap + r->map.out, (uint64_t)r->places * h->dispatch_slot.stored },
        { "combined_x", h->t.combined_x, (uint64_t)h->g.tokens * h->g.hidden * sizeof h->t.combined_x[0] },
    };
    return kernel_tensors_give(all, sizeof all / sizeof all[0], tensor, max);
}

/* ---- checks ---- */

/* Checks an expert's rows that came from a rank, from *place on.  They must be the rank's tokens that chose the expert,
 * in order.  *place gets the place behind them. */
static void rows_check(const struct pp_rank *r, uint32_t expert, uint32_t source, uint32_t *place,
                       struct check_report *report)
{
    const struct ht_geometry *g = &r->ht.g;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    const uint32_t tokens = r->ht.base.routing->rank[source].tokens, end = *place + r->ht.expert_counts[expert];
    uint8_t expected[slot->row_bytes + slot->scale_bytes];
    for (uint32_t i = 0; i < tokens * g->topk; i++) {
        if (ht_expert(&r->ht, source, i) != (int32_t)(g->rank * g->local_experts + expert)) continue;
        ht_row_make(r->ht.base.options, source, i / g->topk, expected, expected + slot->scale);
        const uint8_t *found = r->ht.base.fabric->heap + pp_dispatched(r, r->map.out, *place);
        if (*place >= end || *place >= r->places || memcmp(expected, found, sizeof expected) != 0)
            check_fail(report, CHECK_RECV_ROWS, "expert %u: place %u has not rank %u's token %u", expert, *place,
                       source, i / g->topk);
        ++*place;
    }
}

/* Checks that each expert's rows begin at a multiple of the alignment, and that sources follow one another in the order
 * in which blocks take their rows. */
static void experts_check(const struct pp_rank *r, struct check_report *report)
{
    const struct ht_geometry *g = &r->ht.g;
    uint32_t first = 0;
    for (uint32_t e = 0; e < g->local_experts; e++) {
        uint32_t place = first;
        for (uint32_t n = 1; n < g->nodes; n++)
            for (uint32_t i = 0; i < g->local; i++)
                rows_check(r, e, (g->node + n) % g->nodes * g->local + i, &place, report);
        for (uint32_t i = 1; i <= g->local; i++)
            rows_check(r, e, g->node * g->local + (g->self + i) % g->local, &place, report);
        if (place - first != r->ht.expert_counts[e])
            check_fail(report, CHECK_EXPERT_COUNTS, "expert %u: expected %u rows, found %u", e, place - first,
                       r->ht.expert_counts[e]);
        first = (uint32_t)moe_align(place, r->ht.base.options->expert_alignment);
    }
}

static void combined_check(const struct pp_rank *r, struct check_report *report)
{
    const struct ht_geometry *g = &r->ht.g;
    const struct ht_slot *slot = &r->ht.dispatch_slot;
    uint16_t *rows = kernel_alloc(2 * (uint64_t)g->hidden, sizeof rows[0]), *sum = rows + g->hidden;
    uint8_t packed[slot->row_bytes + slot->scale_bytes];
    for (uint32_t t = 0; t < g->tokens; t++) {
        const uint16_t *row[HT_TOPK_MAX];
        float weight[HT_TOPK_MAX];
        uint32_t count = 0;
        ht_row_make(r->ht.base.options, g->rank, t, packed, packed + slot->scale);
        ht_row_widen(r->ht.base.options, packed, packed + slot->scale, rows);
        for (uint32_t j = 0; j < g->topk; j++) {
            if (ht_expert(&r->ht, g->rank, t * g->topk + j) < 0) continue;
            row[count] = rows;
            weight[count++] = ht_weight(&r->ht, g->rank, t, j);
        }
        format_rows_reduce(row, weight, count, g->hidden, sum);
        if (memcmp(sum, r->ht.t.combined_x + (size_t)t * g->hidden, g->hidden * sizeof sum[0]) != 0)
            check_fail(report, CHECK_COMBINE, "token %u is not the weighted sum of its experts' rows", t);
    }
    free(rows);
}

static uint32_t pp_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    const struct pp_rank *r = (const struct pp_rank *)rank;
    struct check_report report = { .text = text, .text_size = text_size };
    experts_check(r, &report);
    combined_check(r, &report);
    return check_failures(&report);
}

const struct moe_family moe_family_pplx = {
    .kernels = { .needs = pp_needs,
                 .phase_count = pp_phase_count,
                 .phase_name = pp_phase_name,
                 .rank_new = pp_create,
                 .launch = pp_launch,
                 .traffic = pp_traffic,
                 .outputs = pp_outputs,
                 .check = pp_check },
    .refuse = pp_refuse,
};
