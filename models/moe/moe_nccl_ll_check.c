/* moe_nccl_ll_check.c - checks of what NCCL EP's low-latency dispatch and combine leave behind (PROTOCOLS.md 4, checks
 * 13 and 14), and their outputs in canonical order.  Expected values are computed anew from the routing of all ranks.
 */
#include <stdlib.h>
#include <string.h>
#include "models/moe/moe_nccl_ll.h"

static bool here(const struct ll_rank *r, int32_t expert)
{
    return expert != ROUTING_NONE && (uint32_t)expert / r->g.local_experts == r->base.fabric->rank;
}

/* One received token: its rows must be its source's, at the places of its choices on this rank. */
static void check_token(const struct ll_rank *r, struct check_report *report, uint32_t source, uint32_t slot)
{
    const struct routing_rank *from = &r->base.routing->rank[source];
    const uint64_t at = nccl_ll_slot(r, source, slot);
    const uint32_t token = r->nccl->token[at];
    bool found = false;
    if (token >= from->tokens) {
        check_fail(report, CHECK_LL_DISPATCH, "rank %u sent token %u, which it does not have", source, token);
        return;
    }
    for (uint32_t j = 0; j < r->g.topk; j++) {
        const int32_t expert = from->experts[(uint64_t)token * r->g.topk + j], row = r->nccl->row[at * r->g.topk + j];
        const bool expected = here(r, expert) && (nccl_ll_expert_major(r) || !found);
        found |= here(r, expert);
        if (expected != (row >= 0)) {
            check_fail(report, CHECK_LL_DISPATCH, "token %u of rank %u, choice %u: expected %s row, found %s", token,
                       source, j, expected ? "a" : "no", row >= 0 ? "one" : "none");
            continue;
        }
        if (row >= 0) ll_check_row(r, report, (uint32_t)expert, source, (uint64_t)row);
        if (!r->nccl->recv_expert) continue;
        const int32_t local = here(r, expert) ? expert % (int32_t)r->g.local_experts : -1;
        if (r->nccl->recv_expert[at * r->g.topk + j] != local)
            check_fail(report, CHECK_LL_DISPATCH, "token %u of rank %u, choice %u: expected local expert %d, found %d",
                       token, source, j, local, r->nccl->recv_expert[at * r->g.topk + j]);
    }
    if (!found) check_fail(report, CHECK_LL_DISPATCH, "token %u of rank %u chose no expert here", token, source);
}

/* Check 13: each token must come once, and experts must have as many rows as were chosen. */
static void check_dispatch(const struct ll_rank *r, struct check_report *report)
{
    const struct routing *all = r->base.routing;
    uint64_t *rows = kernel_alloc(r->g.local_experts, sizeof *rows);
    uint32_t *tokens = kernel_alloc(r->g.tokens_max, sizeof *tokens);
    for (uint32_t s = 0; s < r->g.ranks; s++) {
        const uint32_t came = r->nccl->came[s];
        uint32_t expected = 0;
        for (uint32_t t = 0; t < all->rank[s].tokens; t++) {
            bool comes = false;
            for (uint32_t j = 0; j < r->g.topk; j++) {
                const int32_t expert = all->rank[s].experts[(uint64_t)t * r->g.topk + j];
                if (!here(r, expert)) continue;
                rows[(uint32_t)expert % r->g.local_experts]++;
                comes = true;
            }
            expected += comes;
        }
        if (came != expected) {
            check_fail(report, CHECK_LL_DISPATCH, "rank %u: expected %u tokens, found %u", s, expected, came);
            continue;
        }
        for (uint32_t i = 0; i < came; i++) check_token(r, report, s, i);
        memcpy(tokens, &r->nccl->token[nccl_ll_slot(r, s, 0)], came * sizeof *tokens);
        const uint32_t *twice = ll_repeated(tokens, came);
        if (twice) check_fail(report, CHECK_LL_DISPATCH, "token %u of rank %u came twice", *twice, s);
    }
    for (uint32_t e = 0; e < r->g.local_experts && nccl_ll_expert_major(r); e++)
        if (r->packed_count[e] != rows[e])
            check_fail(report, CHECK_LL_DISPATCH, "local expert %u: expected %llu rows, found %u", e,
                       (unsigned long long)rows[e], r->packed_count[e]);
    free(tokens);
    free(rows);
}

uint32_t nccl_ll_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    const struct ll_rank *r = (const struct ll_rank *)rank;
    struct check_report report = { .text = text, .text_size = text_size };
    check_dispatch(r, &report);
    ll_check_combine(r, &report);
    return check_failures(&report);
}

enum { ROWS, SCALES, TOKENS, EXPERTS, WEIGHTS, TENSORS };

/* Copies what belongs to a row behind what was copied before. */
static void row_copy(struct ll_rank *r, uint8_t *out[TENSORS], uint64_t row)
{
    const struct nccl_ll *n = r->nccl;
    memcpy(out[ROWS], r->recv_x + row * r->g.row_bytes, r->g.row_bytes);
    out[ROWS] += r->g.row_bytes;
    out[SCALES] = ll_scales_write(r, r->recv_scale + row * r->g.scale_count, out[SCALES]);
    memcpy(out[TOKENS], &r->recv_source_token[row], sizeof(uint32_t));
    out[TOKENS] += sizeof(uint32_t);
    if (!n->recv_expert) return;
    memcpy(out[EXPERTS], &n->recv_expert[row * r->g.topk], r->g.topk * sizeof n->recv_expert[0]);
    memcpy(out[WEIGHTS], &n->recv_weight[row * r->g.topk], r->g.topk * sizeof n->recv_weight[0]);
    out[EXPERTS] += r->g.topk * sizeof n->recv_expert[0];
    out[WEIGHTS] += r->g.topk * sizeof n->recv_weight[0];
}

/* Copies the rows of one local expert (rank-major: all rows), sorted by source and token. */
static void expert_copy(struct ll_rank *r, uint8_t *out[TENSORS], uint64_t first, uint64_t end)
{
    const struct nccl_ll *n = r->nccl;
    uint32_t *slot = kernel_alloc(r->g.tokens_max, sizeof *slot);
    for (uint32_t s = 0; s < r->g.ranks; s++) {
        memset(slot, 0, r->g.tokens_max * sizeof *slot);
        for (uint32_t i = 0; i < n->came[s]; i++) slot[n->token[nccl_ll_slot(r, s, i)]] = i + 1;
        for (uint32_t token = 0; token < r->g.tokens_max; token++) {
            if (!slot[token]) continue;
            const int32_t *row = &n->row[nccl_ll_slot(r, s, slot[token] - 1) * r->g.topk];
            for (uint32_t j = 0; j < r->g.topk; j++)
                if (row[j] >= 0 && (uint64_t)row[j] >= first && (uint64_t)row[j] < end)
                    row_copy(r, out, (uint64_t)row[j]);
        }
    }
    free(slot);
}

uint32_t nccl_ll_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    static const char *const name[TENSORS] = { "recv_x", "recv_scales", "recv_source_token", "recv_topk_idx",
                                               "recv_topk_weights" };
    struct ll_rank *r = ll_rank_of(rank);
    const bool pairs = nccl_ll_expert_major(r);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < r->g.experts; i++) rows += r->range_count[i];
    const uint64_t choice_bytes = pairs ? 0 : r->g.topk * sizeof(float);
    const uint64_t bytes[TENSORS] = { r->g.row_bytes, r->g.scale_count * (r->base.options->ue8m0 ? 1 : sizeof(float)),
                                      sizeof(uint32_t), choice_bytes, choice_bytes };
    uint8_t *out[TENSORS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < TENSORS; i++) {
        kernel_drop(r, r->nccl->canonical[i]);
        out[i] = r->nccl->canonical[i] = kernel_keep(r, rows * bytes[i], 1);
        if (count < max && bytes[i])
            tensor[count++] = (struct kernel_tensor){ name[i], r->nccl->canonical[i], rows * bytes[i] };
    }
    const uint64_t slots = (uint64_t)r->g.ranks * r->g.tokens_max;
    for (uint32_t e = 0; e < (pairs ? r->g.local_experts : 1); e++) expert_copy(r, out, e * slots, (e + 1) * slots);
    if (count < max)
        tensor[count++] =
            (struct kernel_tensor){ "combined_x", r->combined, (uint64_t)r->own->tokens * r->g.combine_bytes };
    return count;
}
