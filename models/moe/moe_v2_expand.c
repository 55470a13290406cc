/* moe_v2_expand.c - V2's expanded layout (PROTOCOLS.md 1.7).  Dispatch gives a token a row for each of its experts on a
 * rank, and an expert's rows are together.  Combine sums a token's rows on that rank or at the token's source.  The
 * experts of a row are read from the routing, which has the same choices as the row brings. */
#include "models/moe/formats.h"
#include "models/moe/moe_v2.h"

#include <string.h>

void v2_expand_alloc(struct v2_rank *r)
{
    const struct ht_rank *h = &r->ht;
    if (!h->base.options->expand) return;
    uint64_t rows = 0;
    for (uint32_t source = 0; source < h->g.ranks; source++) rows += ht_tokens_between(h, source, h->g.rank, 1);
    r->expanded_at = kernel_keep(r, rows + 1, sizeof r->expanded_at[0]);
    if (h->base.fabric->payload) r->expanded_index = kernel_keep(r, rows * h->g.topk, sizeof r->expanded_index[0]);
}

/* The local expert of a choice; UINT32_MAX if the choice's expert is not on this rank. */
static uint32_t local_expert(const struct ht_rank *h, int32_t expert)
{
    const uint32_t local = (uint32_t)expert - h->g.rank * h->g.local_experts;
    return expert >= 0 && local < h->g.local_experts ? local : UINT32_MAX;
}

/* Computes where each expert's rows begin.  Returns the number of rows, including the gaps between experts. */
static uint32_t experts_begin(const struct v2_rank *r, uint32_t *begin)
{
    const struct ht_rank *h = &r->ht;
    uint32_t rows = 0;
    memset(begin, 0, h->g.local_experts * sizeof begin[0]);
    for (uint32_t source = 0; source < h->g.ranks; source++) {
        const struct routing_rank *from = &h->base.routing->rank[source];
        for (size_t i = 0; i < (size_t)from->tokens * h->g.topk; i++)
            if (local_expert(h, from->experts[i]) != UINT32_MAX) begin[local_expert(h, from->experts[i])]++;
    }
    for (uint32_t e = 0; e < h->g.local_experts; e++) {
        const uint32_t count = (uint32_t)moe_align(begin[e], h->base.options->expert_alignment);
        begin[e] = rows;
        rows += count;
    }
    return rows;
}

void v2_expand_make(struct v2_rank *r)
{
    const struct ht_rank *h = &r->ht;
    if (!r->expanded_at) return;
    uint32_t next[h->g.local_experts], row = 0, at = 0;
    r->expanded_rows = experts_begin(r, next);
    for (uint32_t source = 0; source < h->g.ranks; source++) {
        const struct routing_rank *from = &h->base.routing->rank[source];
        for (uint32_t t = 0; t < from->tokens; t++) {
            const uint32_t before = at;
            for (uint32_t j = 0; j < h->g.topk; j++) {
                const uint32_t e = local_expert(h, from->experts[(size_t)t * h->g.topk + j]);
                if (e == UINT32_MAX) continue;
                if (r->expanded_index) r->expanded_index[at] = next[e]++;
                at++;
            }
            if (at > before) r->expanded_at[++row] = at;
        }
    }
    if (!h->base.fabric->payload || r->expanded_x) return;
    r->expanded_x = kernel_keep(r, r->expanded_rows, h->dispatch_slot.row_bytes);
    r->expanded_scales = kernel_keep(r, r->expanded_rows, h->dispatch_slot.scale_bytes);
}

void v2_expand_row(struct v2_rank *r, uint32_t row)
{
    const struct ht_rank *h = &r->ht;
    const size_t row_bytes = h->dispatch_slot.row_bytes, scale_bytes = h->dispatch_slot.scale_bytes;
    for (uint32_t i = r->expanded_at[row]; i < r->expanded_at[row + 1]; i++) {
        memcpy(r->expanded_x + r->expanded_index[i] * row_bytes, h->t.recv_x + row * row_bytes, row_bytes);
        memcpy(r->expanded_scales + r->expanded_index[i] * scale_bytes, h->t.recv_scales + row * scale_bytes,
               scale_bytes);
    }
}

void v2_expanded_pack(const struct v2_rank *r, uint32_t row, uint32_t place, uint8_t *slot)
{
    const struct ht_rank *h = &r->ht;
    const uint32_t hidden = h->g.hidden, first = r->expanded_at[row], all = r->expanded_at[row + 1] - first;
    const uint32_t from = place == UINT32_MAX ? 0 : place, count = place == UINT32_MAX ? all : 1;
    uint16_t widened[count][hidden];
    const uint16_t *source[count];
    for (uint32_t i = 0; i < count; i++) {
        const size_t at = r->expanded_index[first + from + i];
        ht_row_widen(h->base.options, r->expanded_x + at * h->dispatch_slot.row_bytes,
                     r->expanded_scales + at * h->dispatch_slot.scale_bytes, widened[i]);
        source[i] = widened[i];
    }
    ht_slot_pack_combine(h, row, slot);
    format_rows_reduce(source, NULL, count, hidden, (uint16_t *)(void *)slot);
}

uint32_t v2_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    const struct v2_rank *r = (const struct v2_rank *)rank;
    const uint32_t count = ht_outputs(rank, tensor, max);
    if (!r->expanded_x || count == max) return count;
    tensor[count] = (struct kernel_tensor){ .name = "expanded_x",
                                            .data = r->expanded_x,
                                            .size_bytes = (uint64_t)r->expanded_rows * r->ht.dispatch_slot.row_bytes };
    return count + 1;
}
