/* moe_ht_expand.c - the layout by experts of V2 (PROTOCOLS.md 1.7) and NCCL EP (1.19).  Dispatch gives a token a row
 * for each of its experts on a rank, and an expert's rows are together.  Combine sums a token's rows on that rank or at
 * the token's source.  The experts of a row are read from the routing, which has the same choices as the row brings. */
#include "models/moe/formats.h"
#include "models/moe/moe_ht.h"

#include <string.h>

void ht_expand_alloc(struct ht_rank *h)
{
    if (!h->base.options->expand) return;
    uint64_t rows = 0;
    for (uint32_t source = 0; source < h->g.ranks; source++) rows += ht_tokens_between(h, source, h->g.rank, 1);
    h->expanded_at = kernel_keep(h, rows + 1, sizeof h->expanded_at[0]);
    if (h->base.fabric->payload) h->expanded_index = kernel_keep(h, rows * h->g.topk, sizeof h->expanded_index[0]);
}

/* The local expert of a choice; UINT32_MAX if the choice's expert is not on this rank. */
static uint32_t local_expert(const struct ht_rank *h, int32_t expert)
{
    const uint32_t local = (uint32_t)expert - h->g.rank * h->g.local_experts;
    return expert >= 0 && local < h->g.local_experts ? local : UINT32_MAX;
}

uint32_t ht_experts_begin(const struct ht_rank *h, uint32_t rank, uint32_t ranks, uint32_t *begin)
{
    const uint32_t experts = ranks * h->g.local_experts, first = rank * h->g.local_experts;
    uint32_t rows = 0;
    memset(begin, 0, experts * sizeof begin[0]);
    for (uint32_t source = 0; source < h->g.ranks; source++) {
        const struct routing_rank *from = &h->base.routing->rank[source];
        for (size_t i = 0; i < (size_t)from->tokens * h->g.topk; i++)
            if (from->experts[i] >= 0 && (uint32_t)from->experts[i] - first < experts)
                begin[(uint32_t)from->experts[i] - first]++;
    }
    for (uint32_t e = 0; e < experts; e++) {
        const uint32_t count = (uint32_t)moe_align(begin[e], h->base.options->expert_alignment);
        if (e % h->g.local_experts == 0) rows = 0;
        begin[e] = rows;
        rows += count;
    }
    return rows;
}

void ht_expand_make(struct ht_rank *h)
{
    if (!h->expanded_at) return;
    uint32_t next[h->g.local_experts], row = 0, at = 0;
    h->expanded_rows = ht_experts_begin(h, h->g.rank, 1, next);
    for (uint32_t source = 0; source < h->g.ranks; source++) {
        const struct routing_rank *from = &h->base.routing->rank[source];
        for (uint32_t t = 0; t < from->tokens; t++) {
            const uint32_t before = at;
            for (uint32_t j = 0; j < h->g.topk; j++) {
                const uint32_t e = local_expert(h, from->experts[(size_t)t * h->g.topk + j]);
                if (e == UINT32_MAX) continue;
                if (h->expanded_index) h->expanded_index[at] = next[e]++;
                at++;
            }
            if (at > before) h->expanded_at[++row] = at;
        }
    }
    if (!h->base.fabric->payload || h->expanded_x) return;
    h->expanded_x = kernel_keep(h, h->expanded_rows, h->dispatch_slot.row_bytes);
    h->expanded_scales = kernel_keep(h, h->expanded_rows, h->dispatch_slot.scale_bytes);
}

void ht_expand_row(struct ht_rank *h, uint32_t row)
{
    const size_t row_bytes = h->dispatch_slot.row_bytes, scale_bytes = h->dispatch_slot.scale_bytes;
    for (uint32_t i = h->expanded_at[row]; i < h->expanded_at[row + 1]; i++) {
        memcpy(h->expanded_x + h->expanded_index[i] * row_bytes, h->t.recv_x + row * row_bytes, row_bytes);
        memcpy(h->expanded_scales + h->expanded_index[i] * scale_bytes, h->t.recv_scales + row * scale_bytes,
               scale_bytes);
    }
}

void ht_expanded_pack(const struct ht_rank *h, uint32_t row, uint32_t place, uint8_t *slot)
{
    const uint32_t hidden = h->g.hidden, first = h->expanded_at[row], all = h->expanded_at[row + 1] - first;
    const uint32_t from = place == UINT32_MAX ? 0 : place, count = place == UINT32_MAX ? all : 1;
    uint16_t widened[count][hidden];
    const uint16_t *source[count];
    for (uint32_t i = 0; i < count; i++) {
        const size_t at = h->expanded_index[first + from + i];
        ht_row_widen(h->base.options, h->expanded_x + at * h->dispatch_slot.row_bytes,
                     h->expanded_scales + at * h->dispatch_slot.scale_bytes, widened[i]);
        source[i] = widened[i];
    }
    ht_slot_pack_combine(h, row, slot);
    format_rows_reduce(source, NULL, count, hidden, (uint16_t *)(void *)slot);
}
