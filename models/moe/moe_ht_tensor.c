/* moe_ht_tensor.c - the tensors of a rank in the high-throughput kernels: inputs, slots as bytes, outputs, traffic.
 * Used only where payload is stored, except for the traffic.  Knows no workers and no order of events. */
#include "models/moe/formats.h"
#include "models/moe/moe_ht.h"

#include <string.h>

/* ---- inputs -------------------------------------------------------------------------------------------- */

void ht_row_make(const struct moe_options *o, uint32_t rank, uint32_t token, uint8_t *row, uint8_t *scales)
{
    if (o->dtype == MOE_BF16) {
        uint16_t values[o->hidden];
        moe_input_row(o, rank, token, values);
        memcpy(row, values, sizeof values);
        return;
    }
    uint16_t values[o->hidden];
    float scale[o->hidden / FORMATS_BLOCK];
    moe_input_row(o, rank, token, values);
    format_row_to_fp8(values, o->hidden, o->round_scale, row, scale);
    if (!o->ue8m0) {
        memcpy(scales, scale, sizeof scale);
        return;
    }
    for (uint32_t i = 0; i < o->hidden / FORMATS_BLOCK; i++) scales[i] = format_ue8m0_from_f32(scale[i]);
}

void ht_row_widen(const struct moe_options *o, const uint8_t *row, const uint8_t *scales, uint16_t *out)
{
    if (o->dtype == MOE_BF16) {
        memcpy(out, row, 2 * (size_t)o->hidden);
        return;
    }
    float scale[o->hidden / FORMATS_BLOCK];
    if (o->ue8m0)
        for (uint32_t i = 0; i < o->hidden / FORMATS_BLOCK; i++) scale[i] = format_f32_from_ue8m0(scales[i]);
    else memcpy(scale, scales, sizeof scale);
    format_row_from_fp8(row, scale, o->hidden, out);
}

/* The weight of a choice: the trace's weight if the trace has weights, else a weight as in the public test.  With
 * constant data that is the rank, with other data an arbitrary value. */
float ht_weight(const struct ht_rank *h, uint32_t rank, uint32_t token, uint32_t place)
{
    const struct routing_rank *row = &h->base.routing->rank[rank];
    if (row->weights) return row->weights[(size_t)token * h->g.topk + place];
    if (h->base.options->data == MOE_DATA_CONSTANT) return (float)rank;
    const uint64_t hash = moe_hash(h->base.options->seed ^ (uint64_t)rank << 48 ^ (uint64_t)token << 8 ^ place);
    return (float)(hash >> 40) / (float)(1u << 24);
}

/* Makes a row of a bias tensor.  As in the public tests, the first bias is all ones, and the second arbitrary. */
static void bias_row(const struct moe_options *o, uint32_t which, uint32_t rank, uint32_t token, uint16_t *row)
{
    const uint64_t base = moe_hash(o->seed + 1) ^ (uint64_t)rank << 52 ^ (uint64_t)token << 20;
    for (uint32_t i = 0; i < o->hidden; i++) {
        const float value = (float)(int32_t)(moe_hash(base + i) >> 40) / (float)(1u << 23) - 1.0f;
        row[i] = format_bf16_from_f32(which == 0 ? 1.0f : value);
    }
}

void ht_inputs_make(struct ht_rank *h)
{
    const struct moe_options *o = h->base.options;
    const struct ht_slot *s = &h->dispatch_slot;
    struct ht_tensors *t = &h->t;
    if (t->x) return;
    t->x = kernel_keep(h, h->g.tokens, s->row_bytes);
    t->scales = kernel_keep(h, h->g.tokens, s->scale_bytes);
    t->weights = kernel_keep(h, (uint64_t)h->g.tokens * h->g.topk, sizeof(float));
    for (uint32_t token = 0; token < h->g.tokens; token++) {
        ht_row_make(o, h->g.rank, token, t->x + (size_t)token * s->row_bytes,
                    t->scales + (size_t)token * s->scale_bytes);
        for (uint32_t j = 0; j < h->g.topk; j++)
            t->weights[(size_t)token * h->g.topk + j] = ht_weight(h, h->g.rank, token, j);
    }
    for (uint32_t b = 0; b < o->num_bias; b++) {
        t->bias[b] = kernel_keep(h, (uint64_t)h->g.tokens * o->hidden, sizeof(uint16_t));
        for (uint32_t token = 0; token < h->g.tokens; token++)
            bias_row(o, b, h->g.rank, token, t->bias[b] + (size_t)token * o->hidden);
    }
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

static void recv_resize(struct ht_rank *h, uint32_t rows)
{
    struct ht_tensors *t = &h->t;
    void *old[] = { t->recv_x, t->recv_scales, t->recv_meta, t->recv_index, t->recv_weights, t->combine_x };
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++) kernel_drop(h, old[i]);
    t->recv_rows_max = rows;
    t->recv_x = kernel_keep(h, rows, h->dispatch_slot.row_bytes);
    t->recv_scales = kernel_keep(h, rows, h->dispatch_slot.scale_bytes);
    t->recv_meta = kernel_keep(h, rows, 2 * sizeof(uint32_t));
    t->recv_index = kernel_keep(h, (uint64_t)rows * h->g.topk, sizeof(int64_t));
    t->recv_weights = kernel_keep(h, (uint64_t)rows * h->g.topk, sizeof(float));
    t->combine_x = kernel_keep(h, (uint64_t)rows * h->g.hidden, sizeof(uint16_t));
}

void ht_tensors_recv(struct ht_rank *h)
{
    const struct moe_options *o = h->base.options;
    const uint32_t rows = o->worst_tokens ? o->tokens_max * o->ranks : ht_recv_rows(h);
    ht_inputs_make(h);
    if (!h->t.recv_x || h->t.recv_rows_max != rows) recv_resize(h, rows);
    for (uint64_t i = (uint64_t)ht_recv_rows(h) * h->g.topk; i < (uint64_t)rows * h->g.topk; i++)
        h->t.recv_index[i] = -1;
}

void ht_experts_count(struct ht_rank *h)
{
    const struct ht_geometry *g = &h->g;
    memset(h->expert_counts, 0, g->local_experts * sizeof h->expert_counts[0]);
    for (uint64_t i = 0; i < (uint64_t)ht_recv_rows(h) * g->topk; i++)
        if (h->t.recv_index[i] >= 0) h->expert_counts[h->t.recv_index[i]]++;
    for (uint32_t e = 0; e < g->local_experts; e++)
        h->expert_counts[e] = (uint32_t)moe_align(h->expert_counts[e], h->base.options->expert_alignment);
}

void ht_tensors_combine(struct ht_rank *h)
{
    struct ht_tensors *t = &h->t;
    const struct ht_slot *s = &h->dispatch_slot;
    for (uint32_t row = 0; row < ht_recv_rows(h); row++)
        ht_row_widen(h->base.options, t->recv_x + (size_t)row * s->row_bytes,
                     t->recv_scales + (size_t)row * s->scale_bytes, t->combine_x + (size_t)row * h->g.hidden);
    if (t->combined_x) return;
    t->combined_x = kernel_keep(h, (uint64_t)h->g.tokens * h->g.hidden, sizeof(uint16_t));
    t->combined_weights = kernel_keep(h, (uint64_t)h->g.tokens * h->g.topk, sizeof(float));
}

/* ---- slots --------------------------------------------------------------------------------------------- */

/* The expert's index on the rank whose first expert is expert_first; -1 if the expert is not on that rank. */
static int64_t index_rebase(const struct ht_rank *h, int32_t expert, uint32_t expert_first)
{
    const uint32_t local = (uint32_t)expert - expert_first;
    return expert >= 0 && local < h->g.local_experts ? (int64_t)local : -1;
}

/* Writes a token into a slot.  Within a node the sender turns experts into indices on its target, whose first expert is
 * expert_first.  Between nodes it sends them unchanged. */
void ht_slot_pack(const struct ht_rank *h, uint32_t token, uint32_t expert_first, const void *meta, uint8_t *slot)
{
    const struct ht_slot *s = &h->dispatch_slot;
    const struct ht_tensors *t = &h->t;
    const int32_t *experts = &h->base.routing->rank[h->g.rank].experts[(size_t)token * h->g.topk];
    memcpy(slot, t->x + (size_t)token * s->row_bytes, s->row_bytes);
    memcpy(slot + s->scale, t->scales + (size_t)token * s->scale_bytes, s->scale_bytes);
    memcpy(slot + s->meta, meta, s->meta_bytes);
    for (uint32_t j = 0; j < s->topk; j++) {
        float weight = t->weights[(size_t)token * h->g.topk + j];
        if (s->index_bytes == sizeof(int64_t)) {
            const int64_t index = index_rebase(h, experts[j], expert_first);
            if (index < 0) weight = 0;
            memcpy(slot + s->index + j * sizeof index, &index, sizeof index);
        } else {
            memcpy(slot + s->index + j * sizeof experts[j], &experts[j], sizeof experts[j]);
        }
        memcpy(slot + s->weight + j * sizeof weight, &weight, sizeof weight);
    }
}

void ht_slot_unpack(struct ht_rank *h, const uint8_t *slot, uint32_t expert_first, uint32_t row)
{
    const struct ht_slot *s = &h->dispatch_slot;
    struct ht_tensors *t = &h->t;
    memcpy(t->recv_x + (size_t)row * s->row_bytes, slot, s->row_bytes);
    memcpy(t->recv_scales + (size_t)row * s->scale_bytes, slot + s->scale, s->scale_bytes);
    memcpy(&t->recv_meta[2 * (size_t)row], slot + s->meta, moe_min(s->meta_bytes, 2 * sizeof t->recv_meta[0]));
    for (uint32_t j = 0; j < s->topk; j++) {
        int64_t index;
        float weight;
        memcpy(&weight, slot + s->weight + j * sizeof weight, sizeof weight);
        if (s->index_bytes == sizeof index) {
            memcpy(&index, slot + s->index + j * sizeof index, sizeof index);
        } else {
            int32_t expert;
            memcpy(&expert, slot + s->index + j * sizeof expert, sizeof expert);
            index = index_rebase(h, expert, expert_first);
            if (index < 0) weight = 0;
        }
        t->recv_index[(size_t)row * h->g.topk + j] = index;
        t->recv_weights[(size_t)row * h->g.topk + j] = weight;
    }
}

void ht_slot_pack_combine(const struct ht_rank *h, uint32_t row, uint8_t *slot)
{
    const struct ht_slot *s = &h->combine_slot;
    memcpy(slot, h->t.combine_x + (size_t)row * h->g.hidden, s->row_bytes);
    memcpy(slot + s->meta, &h->t.recv_meta[2 * (size_t)row], s->meta_bytes);
    memcpy(slot + s->weight, h->t.recv_weights + (size_t)row * h->g.topk, s->topk * sizeof(float));
}

static float weights_sum(const struct ht_slot *s, const uint8_t *const *slot, uint32_t slot_count, uint32_t place)
{
    float sum = 0;
    for (uint32_t i = 0; i < slot_count; i++) {
        float weight;
        memcpy(&weight, slot[i] + s->weight + place * sizeof weight, sizeof weight);
        sum += weight;
    }
    return sum;
}

void ht_token_combine(struct ht_rank *h, uint32_t token, const uint8_t *const *slot, uint32_t slot_count)
{
    const struct ht_slot *s = &h->combine_slot;
    struct ht_tensors *t = &h->t;
    const uint16_t *row[2 + HT_NODES_MAX + HT_TOPK_MAX];
    uint32_t count = 0;
    for (uint32_t b = 0; b < h->base.options->num_bias; b++) row[count++] = t->bias[b] + (size_t)token * h->g.hidden;
    for (uint32_t i = 0; i < slot_count; i++) row[count++] = (const uint16_t *)(const void *)slot[i];
    format_rows_reduce(row, NULL, count, h->g.hidden, t->combined_x + (size_t)token * h->g.hidden);
    for (uint32_t j = 0; j < s->topk; j++)
        t->combined_weights[(size_t)token * h->g.topk + j] = weights_sum(s, slot, slot_count, j);
}

void ht_slots_reduce(const struct ht_rank *h, const uint8_t *const *slot, uint32_t slot_count, uint8_t *out)
{
    const struct ht_slot *s = &h->combine_slot;
    const uint16_t *row[HT_TOPK_MAX];
    for (uint32_t i = 0; i < slot_count; i++) row[i] = (const uint16_t *)(const void *)slot[i];
    format_rows_reduce(row, NULL, slot_count, h->g.hidden, (uint16_t *)(void *)out);
    memcpy(out + s->meta, slot[0] + s->meta, s->meta_bytes);
    for (uint32_t j = 0; j < s->topk; j++) {
        const float sum = weights_sum(s, slot, slot_count, j);
        memcpy(out + s->weight + j * sizeof sum, &sum, sizeof sum);
    }
}

/* ---- results ------------------------------------------------------------------------------------------- */

uint64_t ht_traffic_tokens(const struct ht_rank *h, bool dispatch, uint64_t rows, struct kernel_traffic *traffic)
{
    const uint32_t *counts = h->g.nodes > 1 ? h->layout.tokens_per_node : h->layout.tokens_per_rank;
    uint64_t sent = 0;
    for (uint32_t i = 0; i < h->layout.targets; i++) sent += counts[i];
    traffic->tokens_sent = dispatch ? sent : rows;
    traffic->tokens_received = dispatch ? rows : sent;
    return sent;
}

void ht_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic)
{
    const struct ht_rank *h = (const struct ht_rank *)rank;
    const enum ht_phase kind = ht_phase_of(h->base.options, phase);
    if (kind != HT_DISPATCH && kind != HT_COMBINE) return;
    const struct ht_slot *s = kind == HT_DISPATCH ? &h->dispatch_slot : &h->combine_slot;
    /* The public tests count UE8M0 like FP32 scales: 4 bytes for each 128 values. */
    const uint64_t row = s->row_bytes + (s->scale_bytes ? h->g.hidden / 128 * 4 : 0);
    const uint64_t sent = ht_traffic_tokens(h, kind == HT_DISPATCH, ht_recv_rows(h), traffic);
    traffic->logical_rdma_bytes = h->g.nodes > 1 ? sent * row : 0;
    traffic->logical_nvl_bytes = ht_recv_rows(h) * row;
}

uint32_t ht_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    const struct ht_rank *h = (const struct ht_rank *)rank;
    const struct ht_tensors *t = &h->t;
    const uint64_t rows = t->recv_rows_max, topk = h->dispatch_slot.topk;
    const uint64_t tokens = t->combined_x ? h->g.tokens : 0;
    const struct kernel_tensor all[] = {
        { "recv_x", t->recv_x, ht_recv_rows(h) * (uint64_t)h->dispatch_slot.row_bytes },
        { "recv_scales", t->recv_scales, ht_recv_rows(h) * (uint64_t)h->dispatch_slot.scale_bytes },
        { "recv_topk_idx", t->recv_index, rows * topk * sizeof(int64_t) },
        { "recv_topk_weights", t->recv_weights, ht_recv_rows(h) * topk * sizeof(float) },
        { "recv_meta", t->recv_meta, ht_recv_rows(h) * 2 * sizeof(uint32_t) },
        { "recv_before", h->recv_before, (h->g.ranks + 1) * sizeof(uint32_t) },
        { "expert_counts", h->expert_counts, h->base.options->cached ? 0 : h->g.local_experts * sizeof(uint32_t) },
        { "combined_x", t->combined_x, tokens * h->g.hidden * sizeof(uint16_t) },
        { "combined_topk_weights", t->combined_weights, tokens * h->combine_slot.topk * sizeof(float) },
        { "expanded_x", h->expanded_x, h->expanded_rows * (uint64_t)h->dispatch_slot.row_bytes },
    };
    return kernel_tensors_give(all, sizeof all / sizeof all[0], tensor, max);
}
