/* moe_ll_check.c - checks of what low-latency dispatch and combine leave behind (PROTOCOLS.md 4, checks 12 to 15), and
 * their outputs in canonical order.  Expected values are computed anew from the routing of all ranks.  Knows nothing of
 * how the outputs were made. */
#include <stdlib.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_ll.h"

/* How many tokens of source chose expert; 0 if source had already failed. */
static uint32_t expected_count(const struct ll_rank *r, uint32_t source, uint32_t expert)
{
    const struct routing_rank *from = &r->base.routing->rank[source];
    uint32_t count = 0;
    if (ll_failed(r->base.options, source, 0, ll_iteration(r))) return 0;
    for (uint64_t i = 0; i < (uint64_t)from->tokens * r->g.topk; i++) count += from->experts[i] == (int32_t)expert;
    return count;
}

static bool token_chose(const struct ll_rank *r, uint32_t source, uint32_t token, uint32_t expert)
{
    const struct routing_rank *from = &r->base.routing->rank[source];
    if (token >= from->tokens) return false;
    for (uint32_t j = 0; j < r->g.topk; j++)
        if (from->experts[(uint64_t)token * r->g.topk + j] == (int32_t)expert) return true;
    return false;
}

/* Check 13 on one row: it must equal, bit for bit, the quantised row of its token at the source. */
void ll_check_row(const struct ll_rank *r, struct check_report *report, uint32_t expert, uint32_t source, uint64_t row)
{
    const struct moe_options *o = r->base.options;
    const uint32_t token = r->recv_source_token[row];
    if (!token_chose(r, source, token, expert)) {
        check_fail(report, CHECK_LL_DISPATCH, "expert %u holds token %u of rank %u, which did not choose it", expert,
                   token, source);
        return;
    }
    uint16_t in[o->hidden];
    moe_input_row(o, source, token, in);
    bool same;
    if (o->dtype == MOE_FP8) {
        uint8_t out[o->hidden];
        float scale[r->g.scale_count];
        format_row_to_fp8(in, o->hidden, o->round_scale, out, scale);
        same = !memcmp(out, r->recv_x + row * r->g.row_bytes, r->g.row_bytes) &&
               !memcmp(scale, r->recv_scale + row * r->g.scale_count, sizeof scale);
    } else {
        same = !memcmp(in, r->recv_x + row * r->g.row_bytes, r->g.row_bytes);
    }
    if (!same)
        check_fail(report, CHECK_LL_DISPATCH, "expert %u, token %u of rank %u: received row differs from the one sent",
                   expert, token, source);
}

static int compare_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

const uint32_t *ll_repeated(uint32_t *token, uint32_t count)
{
    qsort(token, count, sizeof token[0], compare_u32);
    for (uint32_t i = 1; i < count; i++)
        if (token[i] == token[i - 1]) return &token[i];
    return NULL;
}

/* Check 13 on counts and ranges: the rows of each source must be together, and each token must come once. */
static void check_dispatch(const struct ll_rank *r, struct check_report *report)
{
    uint32_t *tokens = kernel_alloc(r->g.tokens_max, sizeof *tokens);
    for (uint32_t e = 0; e < r->g.local_experts; e++) {
        const uint32_t expert = r->base.fabric->rank * r->g.local_experts + e;
        uint64_t total = 0;
        for (uint32_t s = 0; s < r->g.ranks; s++) {
            const struct ll_range range = ll_range_at(r, e * r->g.ranks + s);
            const uint32_t expected = expected_count(r, s, expert);
            total += expected;
            if (range.count != expected) {
                check_fail(report, CHECK_LL_DISPATCH, "expert %u from rank %u: expected %u tokens, found %u", expert, s,
                           expected, range.count);
                continue;
            }
            const uint64_t first = (uint64_t)e * r->g.ranks * r->g.tokens_max + range.begin;
            for (uint32_t i = 0; i < range.count; i++) ll_check_row(r, report, expert, s, first + i);
            memcpy(tokens, r->recv_source_token + first, range.count * sizeof *tokens);
            const uint32_t *twice = ll_repeated(tokens, range.count);
            if (twice)
                check_fail(report, CHECK_LL_DISPATCH, "expert %u: token %u of rank %u came twice", expert, *twice, s);
        }
        if (r->packed_count[e] != total)
            check_fail(report, CHECK_LL_DISPATCH, "expert %u: expected %llu rows in all, found %u", expert,
                       (unsigned long long)total, r->packed_count[e]);
    }
    free(tokens);
}

/* The factor by which combine multiplies a token's row: the sum of the weights of its valid choices, without choices
 * whose ranks have failed. */
static float weight_sum(const struct ll_rank *r, uint32_t token)
{
    const struct moe_options *o = r->base.options;
    float sum = 0;
    for (uint32_t j = 0; j < r->g.topk; j++) {
        const int32_t expert = r->own->experts[(uint64_t)token * r->g.topk + j];
        if (expert != ROUTING_NONE &&
            !ll_failed(o, (uint32_t)expert / r->g.local_experts, o->hook ? 2 : 1, ll_iteration(r)))
            sum += ll_weight(r, token, j);
    }
    return sum;
}

/* Check 14: a combined row must be the token's row times weight_sum().  calc_diff (checks.h) of all rows must be below
 * 1e-5 for BF16 and 9e-4 for FP8, and no value may be NaN. */
void ll_check_combine(const struct ll_rank *r, struct check_report *report)
{
    const struct moe_options *o = r->base.options;
    const double limit = o->dtype == MOE_FP8 ? 9e-4 : 1e-5;
    struct check_diff rows = { 0 };
    for (uint32_t t = 0; t < r->own->tokens; t++) {
        uint16_t in[o->hidden];
        moe_input_row(o, r->base.fabric->rank, t, in);
        const double weight = weight_sum(r, t);
        for (uint32_t i = 0; i < o->hidden; i++) {
            const double y = format_f32_from_bf16(r->combined[(uint64_t)t * o->hidden + i]);
            if (y != y) {
                check_fail(report, CHECK_LL_COMBINE, "token %u, column %u is NaN", t, i);
                return;
            }
            check_diff_add(&rows, format_f32_from_bf16(in[i]) * weight, y);
        }
    }
    const double diff = check_diff_value(&rows);
    if (!o->round_scale && !(diff < limit))
        check_fail(report, CHECK_LL_COMBINE, "combine: expected a difference below %g, found %g", limit, diff);
    if (o->round_scale && !(diff < 0.007))
        check_fail(report, CHECK_LL_DISPATCH, "rounded scales: expected a difference below 0.007, found %g", diff);
}

/* Check 15: exactly the ranks that have failed must be masked. */
static void check_mask(const struct ll_rank *r, struct check_report *report)
{
    static const char *const word[] = { "in the group", "masked" };
    const struct moe_options *o = r->base.options;
    const uint32_t last = kernel_phase_count(r->base.kernel.job) - 1;
    for (uint32_t i = 0; r->mask && i < r->g.ranks; i++) {
        const bool expected = ll_failed(o, i, last, ll_iteration(r)), found = ll_masks(r, i);
        if (expected != found)
            check_fail(report, CHECK_MASK, "rank %u: expected it %s, found it %s", i, word[expected], word[found]);
    }
}

uint32_t ll_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    const struct ll_rank *r = (const struct ll_rank *)rank;
    struct check_report report = { .text = text, .text_size = text_size };
    if (r->failed) return 0;
    check_mask(r, &report);
    check_dispatch(r, &report);
    ll_check_combine(r, &report);
    return check_failures(&report);
}

uint8_t *ll_scales_write(const struct ll_rank *r, const float *scale, uint8_t *out)
{
    if (!r->base.options->ue8m0) {
        memcpy(out, scale, r->g.scale_count * sizeof scale[0]);
        return out + r->g.scale_count * sizeof scale[0];
    }
    for (uint32_t i = 0; i < r->g.scale_count; i++) *out++ = format_ue8m0_from_f32(scale[i]);
    return out;
}

/* Copies the received rows without the gaps, sorted by expert, then source, then token. */
static void canonical_rows(struct ll_rank *r)
{
    uint8_t *row_out = r->canonical[0], *scale_out = r->canonical[1], *source_out = r->canonical[2];
    for (uint32_t i = 0; i < r->g.experts; i++) {
        const struct ll_range range = ll_range_at(r, i);
        const uint64_t first = (uint64_t)(i / r->g.ranks) * r->g.ranks * r->g.tokens_max + range.begin;
        for (uint32_t token = 0; token < r->g.tokens_max; token++) {
            for (uint64_t row = first; row < first + range.count; row++) {
                if (r->recv_source_token[row] != token) continue;
                memcpy(row_out, r->recv_x + row * r->g.row_bytes, r->g.row_bytes);
                scale_out = ll_scales_write(r, r->recv_scale + row * r->g.scale_count, scale_out);
                memcpy(source_out, &token, sizeof token);
                row_out += r->g.row_bytes, source_out += sizeof token;
            }
        }
    }
}

uint32_t ll_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max)
{
    struct ll_rank *r = ll_rank_of(rank);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < r->g.experts; i++) rows += r->range_count[i];
    const uint64_t scale_bytes = r->base.options->ue8m0 ? 1 : sizeof(float);
    const uint64_t bytes[3] = { rows * r->g.row_bytes, rows * r->g.scale_count * scale_bytes, rows * sizeof(uint32_t) };
    static const char *const name[3] = { "recv_x", "recv_scales", "recv_source_token" };
    uint32_t count = 0;
    for (; count < 3 && count < max; count++) {
        kernel_drop(r, r->canonical[count]);
        r->canonical[count] = kernel_keep(r, bytes[count], 1);
        tensor[count] = (struct kernel_tensor){ name[count], r->canonical[count], bytes[count] };
    }
    if (count == 3) canonical_rows(r);
    if (count < max)
        tensor[count++] =
            (struct kernel_tensor){ "combined_x", r->combined, (uint64_t)r->own->tokens * r->g.combine_bytes };
    return count;
}
