/* moe_ht_check.c - checks of what the high-throughput and V2 kernels leave behind: checks 1 to 10 of PROTOCOLS.md 4.
 * For check 11 the same checks run on one node.  Check 16 is about V2's rows and sums.  The expected values are
 * computed anew from the routing of all ranks.  Knows nothing of how the tensors were made.
 *
 * The public internode test's assertion on combined rows never fires (PROTOCOLS.md 4, item 9).  The check here can
 * fail.  It applies the test's tolerance.  It also compares rows bit for bit with sums made in the order that the
 * kernels promise. */
#include "models/moe/checks.h"
#include "models/moe/formats.h"
#include "models/moe/moe_ht.h"

#include <string.h>

/* Whether the token has an expert on the rank.  Reads the token's choices, not the layout, which is to be checked. */
static bool token_wants(const struct ht_rank *h, uint32_t source, uint32_t token, uint32_t rank)
{
    const int32_t *expert = &h->base.routing->rank[source].experts[(size_t)token * h->g.topk];
    for (uint32_t j = 0; j < h->g.topk; j++)
        if (expert[j] >= 0 && (uint32_t)expert[j] / h->g.local_experts == rank) return true;
    return false;
}

static uint32_t expert_total(const struct ht_rank *h, uint32_t source, uint32_t expert)
{
    const struct routing_rank *row = &h->base.routing->rank[source];
    uint32_t count = 0;
    for (size_t i = 0; i < (size_t)row->tokens * h->g.topk; i++) count += row->experts[i] == (int32_t)expert;
    return count;
}

/* Check 1: the layout. */
static void layout_check(const struct ht_rank *h, struct check_report *report)
{
    const struct ht_geometry *g = &h->g;
    const struct ht_layout *l = &h->layout;
    uint32_t of_node[HT_NODES_MAX] = { 0 };
    uint64_t of_rank[HT_RANKS_MAX] = { 0 };
    for (uint32_t t = 0; t < g->tokens; t++)
        for (uint32_t n = 0; n < g->nodes; n++) {
            uint8_t bits[HT_RANKS_MAX / 8] = { 0 };
            const uint8_t *found = &l->bits[((size_t)t * g->nodes + n) * g->groups];
            for (uint32_t i = 0; i < g->local; i++) {
                const bool wants = token_wants(h, g->rank, t, n * g->local + i);
                of_rank[n * g->local + i] += wants;
                bits[i / 8] |= (uint8_t)(wants << i % 8);
            }
            bool any = false;
            for (uint32_t i = 0; i < g->groups; i++) {
                any |= bits[i] != 0;
                if (found[i] != bits[i])
                    check_fail(report, CHECK_LAYOUT,
                               "is_token_in_rank of token %u, node %u: expected bits %#x, found %#x", t, n, bits[i],
                               found[i]);
            }
            of_node[n] += any;
        }
    for (uint32_t r = 0; r < g->ranks; r++)
        if (of_rank[r] != l->tokens_per_rank[r])
            check_fail(report, CHECK_LAYOUT, "num_tokens_per_rank[%u]: expected %u, found %u", r, (uint32_t)of_rank[r],
                       l->tokens_per_rank[r]);
    for (uint32_t n = 0; n < g->nodes; n++)
        if (of_node[n] != l->tokens_per_node[n])
            check_fail(report, CHECK_LAYOUT, "num_tokens_per_rdma_rank[%u]: expected %u, found %u", n, of_node[n],
                       l->tokens_per_node[n]);
    for (uint32_t e = 0; e < g->experts; e++)
        if (expert_total(h, g->rank, e) != l->tokens_per_expert[e])
            check_fail(report, CHECK_LAYOUT, "num_tokens_per_expert[%u]: expected %u, found %u", e,
                       expert_total(h, g->rank, e), l->tokens_per_expert[e]);
}

/* Check 2: how many rows came from each rank.  With worst_tokens this is a part of check 7. */
static void recv_rows_check(const struct ht_rank *h, struct check_report *report)
{
    const uint32_t number = h->base.options->worst_tokens ? CHECK_WORST_TOKENS : CHECK_RECV_ROWS;
    uint32_t rows = 0;
    for (uint32_t source = 0; source < h->g.ranks; source++) {
        if (h->recv_before[source] != rows)
            check_fail(report, number, "rows from ranks below %u: expected %u, found %u", source, rows,
                       h->recv_before[source]);
        for (uint32_t t = 0; t < h->base.routing->rank[source].tokens; t++)
            rows += token_wants(h, source, t, h->g.rank);
    }
    if (ht_recv_rows(h) != rows)
        check_fail(report, CHECK_RECV_ROWS, "rows of recv_x: expected %u, found %u", rows, ht_recv_rows(h));
}

/* Check 3: how many rows each expert got.  With worst_tokens this is a part of check 7. */
static void expert_counts_check(const struct ht_rank *h, struct check_report *report)
{
    const struct moe_options *o = h->base.options;
    for (uint32_t e = 0; e < h->g.local_experts; e++) {
        uint32_t count = 0;
        for (uint32_t source = 0; source < h->g.ranks; source++)
            count += expert_total(h, source, h->g.rank * h->g.local_experts + e);
        count = (uint32_t)moe_align(count, o->expert_alignment);
        if (o->worst_tokens) count = 0; /* expert_counts stays 0 */
        if (h->expert_counts[e] != count)
            check_fail(report, o->worst_tokens ? CHECK_WORST_TOKENS : CHECK_EXPERT_COUNTS,
                       "num_recv_tokens_per_expert[%u]: expected %u, found %u", e, count, h->expert_counts[e]);
    }
}

/* The number of the check that has failed.  V2's public test compares all results of dispatch and combine as one
 * check. */
static uint32_t exact_number(const struct ht_rank *h, uint32_t number)
{
    return h->base.options->family == MOE_V2 ? CHECK_V2 : number;
}

/* Fills in the two words of meta that the row of this token must have. */
static void row_meta_expect(const struct ht_rank *h, uint32_t source, uint32_t token, uint32_t meta[2])
{
    const bool v2 = h->base.options->family == MOE_V2, internode = h->dispatch_slot.index_bytes == sizeof(int32_t);
    const uint32_t first = v2 ? 0 : h->g.node * h->g.local;
    meta[0] = v2 ? source * h->base.options->tokens_max + token : internode ? source / h->g.local : token;
    meta[1] = 0;
    if (h->base.options->family >= MOE_ONE_SIDED) { /* within a node, only a row's place tells which token it is */
        meta[0] = h->g.nodes > 1 ? source * h->base.options->tokens_max + token : 0;
        return;
    }
    /* V2: the first four bytes that say which ranks need the token */
    for (uint32_t byte = 0; byte < (v2 ? moe_min(h->g.nodes * h->g.groups, 4) : 1) && internode; byte++)
        for (uint32_t i = 8 * (byte % h->g.groups); i < moe_min(8 * (byte % h->g.groups) + 8, h->g.local); i++)
            meta[1] |= (uint32_t)token_wants(h, source, token, first + byte / h->g.groups * h->g.local + i)
                       << (8 * byte + i % 8);
}

/* Check 4 on one row; with a cached handle, check 8. */
static void row_check(const struct ht_rank *h, struct check_report *report, uint32_t row, uint32_t source,
                      uint32_t token)
{
    const struct ht_slot *s = &h->dispatch_slot;
    const uint32_t number = exact_number(h, h->base.options->cached ? CHECK_CACHED : CHECK_ORDER);
    uint8_t x[s->row_bytes], scales[s->scale_bytes + 1];
    ht_row_make(h->base.options, source, token, x, scales);
    if (memcmp(x, h->t.recv_x + (size_t)row * s->row_bytes, s->row_bytes))
        check_fail(report, number, "recv_x row %u: expected token %u of rank %u, found another", row, token, source);
    if (memcmp(scales, h->t.recv_scales + (size_t)row * s->scale_bytes, s->scale_bytes))
        check_fail(report, number, "recv_x_scales row %u: expected those of token %u of rank %u, found others", row,
                   token, source);
    uint32_t meta[2];
    row_meta_expect(h, source, token, meta);
    const uint32_t *found = &h->t.recv_meta[2 * (size_t)row];
    if (found[0] != meta[0] || found[1] != meta[1])
        check_fail(report, number, "source of row %u: expected %u,%u, found %u,%u", row, meta[0], meta[1], found[0],
                   found[1]);
}

/* Checks 5 and 6 on one row: its top-k indices and weights. */
static void row_topk_check(const struct ht_rank *h, struct check_report *report, uint32_t row, uint32_t source,
                           uint32_t token, uint32_t *counts)
{
    const int32_t *expert = &h->base.routing->rank[source].experts[(size_t)token * h->g.topk];
    for (uint32_t j = 0; j < h->dispatch_slot.topk; j++) {
        const bool mine = expert[j] >= 0 && (uint32_t)expert[j] / h->g.local_experts == h->g.rank;
        const int64_t index = mine ? expert[j] % (int32_t)h->g.local_experts : -1;
        const float weight = mine ? ht_weight(h, source, token, j) : 0;
        const int64_t index_found = h->t.recv_index[(size_t)row * h->g.topk + j];
        const float weight_found = h->t.recv_weights[(size_t)row * h->g.topk + j];
        if (index_found >= 0 && index_found < h->g.local_experts) counts[index_found]++;
        if (index_found != index)
            check_fail(report, CHECK_TOPK_INDEX, "recv_topk_idx[%u][%u]: expected %lld, found %lld", row, j,
                       (long long)index, (long long)index_found);
        if (memcmp(&weight, &weight_found, sizeof weight))
            check_fail(report, CHECK_TOPK_WEIGHTS, "recv_topk_weights[%u][%u]: expected %g, found %g", row, j,
                       (double)weight, (double)weight_found);
    }
}

/* Checks 4 to 8 on all rows.  Rows must be sorted by source rank, then by token. */
static void rows_check(const struct ht_rank *h, struct check_report *report)
{
    uint32_t row = 0, counts[h->g.local_experts];
    memset(counts, 0, sizeof counts);
    for (uint32_t source = 0; source < h->g.ranks; source++)
        for (uint32_t t = 0; t < h->base.routing->rank[source].tokens; t++) {
            if (!token_wants(h, source, t, h->g.rank)) continue;
            if (row == ht_recv_rows(h)) return; /* check 2 has reported the missing rows */
            row_check(h, report, row, source, t);
            row_topk_check(h, report, row, source, t, counts);
            row++;
        }
    for (uint32_t e = 0; h->dispatch_slot.topk && e < h->g.local_experts; e++) {
        uint32_t count = 0;
        for (uint32_t source = 0; source < h->g.ranks; source++)
            count += expert_total(h, source, h->g.rank * h->g.local_experts + e);
        if (counts[e] != count)
            check_fail(report, CHECK_TOPK_INDEX, "recv_topk_idx equal to %u: expected %u, found %u", e, count,
                       counts[e]);
    }
    const uint32_t rows_max = h->base.options->worst_tokens ? h->base.options->tokens_max * h->g.ranks : row;
    if (h->t.recv_rows_max != rows_max)
        check_fail(report, h->base.options->worst_tokens ? CHECK_WORST_TOKENS : CHECK_RECV_ROWS,
                   "rows allocated: expected %u, found %u", rows_max, h->t.recv_rows_max);
    for (size_t i = (size_t)row * h->g.topk; i < (size_t)h->t.recv_rows_max * h->g.topk; i++)
        if (h->t.recv_index[i] != -1)
            check_fail(report, CHECK_WORST_TOKENS, "recv_topk_idx behind the rows, place %zu: expected -1, found %lld",
                       i, (long long)h->t.recv_index[i]);
}

/* Part of check 4: by experts, each copy of a row is as the row. */
static void copies_check(const struct ht_rank *h, struct check_report *report)
{
    const size_t bytes = h->dispatch_slot.row_bytes, scale_bytes = h->dispatch_slot.scale_bytes;
    for (uint32_t row = 0; row < ht_recv_rows(h); row++)
        for (uint32_t i = h->expanded_at[row]; i < h->expanded_at[row + 1]; i++) {
            const size_t at = h->expanded_index[i];
            if (memcmp(h->expanded_x + at * bytes, h->t.recv_x + row * bytes, bytes) ||
                memcmp(h->expanded_scales + at * scale_bytes, h->t.recv_scales + row * scale_bytes, scale_bytes))
                check_fail(report, exact_number(h, CHECK_ORDER),
                           "expanded_x row %zu: expected row %u of recv_x, found"
                           " another",
                           at, row);
        }
}

/* NCCL EP's high throughput and Hybrid-EP: a rank gives all its rows, and nodes are added from the own one backwards.
 */
static bool by_pipelines(const struct moe_options *o) { return o->family == MOE_NCCL_HT || o->family == MOE_HYBRID_EP; }

/* How many rows of a token are summed on a rank: one or, with expand, one for each expert of the token there. */
static uint32_t copies_at(const struct ht_rank *h, uint32_t token, uint32_t rank)
{
    const int32_t *expert = &h->base.routing->rank[h->g.rank].experts[(size_t)token * h->g.topk];
    uint32_t count = 0;
    if (!h->base.options->expand) return token_wants(h, h->g.rank, token, rank);
    for (uint32_t j = 0; j < h->g.topk; j++)
        count += expert[j] >= 0 && (uint32_t)expert[j] / h->g.local_experts == rank;
    return count;
}

/* Collects the rows that are summed on a node, and returns their number.  Each rank gives one row, which is the rounded
 * sum if the rank has several.  In NCCL EP, and with single_reduction, a rank gives all its rows. */
static uint32_t node_rows(const struct ht_rank *h, uint32_t token, uint32_t node, const uint16_t *x,
                          uint16_t (*rank_sum)[h->g.hidden], const uint16_t **row)
{
    const bool all = h->base.options->single_reduction || by_pipelines(h->base.options);
    uint32_t count = 0;
    for (uint32_t i = 0; i < h->g.local; i++) {
        const uint16_t *copy[HT_TOPK_MAX];
        const uint32_t copies = copies_at(h, token, node * h->g.local + i);
        const bool summed = copies > 1 && !all;
        for (uint32_t k = 0; k < copies; k++) copy[k] = x;
        if (summed) format_rows_reduce(copy, NULL, copies, h->g.hidden, rank_sum[i]);
        for (uint32_t k = 0; k < (summed ? 1 : copies); k++) row[count++] = summed ? rank_sum[i] : x;
    }
    return count;
}

/* Makes the sum that combine promises.  First the rows of each node are summed, in the order of ranks, and the sum is
 * rounded.  Then the biases and these sums are summed, in the order of nodes.  NCCL EP sums its own node's rows one by
 * one, and then the sums of the nodes before it, back from its own. */
static void token_expect(const struct ht_rank *h, uint32_t token, const uint16_t *x, uint16_t *out)
{
    const uint32_t hidden = h->g.hidden;
    uint16_t node_sum[h->g.nodes][hidden], rank_sum[h->g.local][hidden];
    const uint16_t *row[2 + HT_NODES_MAX + HT_TOPK_MAX];
    uint32_t count = 0;
    for (uint32_t b = 0; b < h->base.options->num_bias; b++) row[count++] = h->t.bias[b] + (size_t)token * hidden;
    const bool back = by_pipelines(h->base.options);
    for (uint32_t i = 0; i < h->g.nodes; i++) {
        const uint32_t n = back ? (h->g.node + h->g.nodes - i) % h->g.nodes : i;
        const uint16_t *copy[HT_TOPK_MAX];
        const uint32_t copies = node_rows(h, token, n, x, rank_sum, copy);
        if (copies == 0) continue;
        if (h->g.nodes == 1 || (back && i == 0)) {
            memcpy(&row[count], copy, copies * sizeof copy[0]);
            count += copies;
        } else {
            format_rows_reduce(copy, NULL, copies, hidden, node_sum[n]);
            row[count++] = node_sum[n];
        }
    }
    format_rows_reduce(row, NULL, count, hidden, out);
}

/* Check 9: the combined rows.  They must equal the expected sums bit for bit, as V2's public test demands.  They must
 * also be within the tolerance of the other public tests, which allows for two sums in sequence.  V2 may make three, so
 * its limit for BF16 is doubled.  With a bias, the compared sums include the bias, because rounding to BF16 at its
 * magnitude is no error of the rows. */
static void combine_check(const struct ht_rank *h, struct check_report *report)
{
    const struct moe_options *o = h->base.options;
    const struct ht_slot *s = &h->dispatch_slot;
    struct check_diff diff = { 0 };
    for (uint32_t t = 0; t < h->g.tokens; t++) {
        uint16_t x[o->hidden], widened[o->hidden], expected[o->hidden];
        const uint16_t *found = h->t.combined_x + (size_t)t * o->hidden;
        moe_input_row(o, h->g.rank, t, x);
        ht_row_widen(o, h->t.x + (size_t)t * s->row_bytes, h->t.scales + (size_t)t * s->scale_bytes, widened);
        token_expect(h, t, widened, expected);
        uint32_t ranks = 0;
        for (uint32_t r = 0; r < h->g.ranks; r++) ranks += copies_at(h, t, r);
        for (uint32_t i = 0; i < o->hidden; i++) {
            double sum = format_f32_from_bf16(x[i]) * (double)ranks;
            for (uint32_t b = 0; b < o->num_bias; b++)
                sum += (double)format_f32_from_bf16(h->t.bias[b][(size_t)t * o->hidden + i]);
            const double scale = o->num_bias || !ranks ? 1 : ranks;
            check_diff_add(&diff, format_f32_from_bf16(found[i]) / scale, sum / scale);
            if (found[i] != expected[i])
                check_fail(report, exact_number(h, CHECK_COMBINE), "combined_x[%u][%u]: expected %g, found %g", t, i,
                           (double)format_f32_from_bf16(expected[i]), (double)format_f32_from_bf16(found[i]));
        }
    }
    const double fp8_limit = o->round_scale ? 7e-3 : 5e-4;
    /* Without rounded scales, constant rows become 448 in FP8 and come back exactly.  With rounded scales they do so up
     * to 16, because FP8 holds these numbers exactly. */
    const bool exact = o->data == MOE_DATA_CONSTANT && (!o->round_scale || h->g.rank <= 16);
    /* A node's sum is rounded to BF16, and then the sum.  Where all numbers are alike, both make (2 * 2^-8)^2 / 2. */
    const double rounded = o->family == MOE_V2 ? 1e-5 : by_pipelines(o) && h->g.nodes > 1 ? 3.1e-5 : 5e-6;
    const double limit = o->dtype == MOE_FP8 && !exact ? fp8_limit : rounded;
    const double value = check_diff_value(&diff);
    if (!(value < limit))
        check_fail(report, CHECK_COMBINE, "combined_x: expected a difference below %g, found %g", limit, value);
}

/* Check 10: the combined top-k weights. */
static void combine_weights_check(const struct ht_rank *h, struct check_report *report)
{
    struct check_diff diff = { 0 };
    for (uint32_t t = 0; t < h->g.tokens; t++)
        for (uint32_t j = 0; j < h->g.topk; j++) {
            const size_t at = (size_t)t * h->g.topk + j;
            const bool valid = h->base.routing->rank[h->g.rank].experts[at] >= 0;
            check_diff_add(&diff, h->t.combined_weights[at], valid ? ht_weight(h, h->g.rank, t, j) : 0);
        }
    if (!(check_diff_value(&diff) < 1e-9))
        check_fail(report, CHECK_COMBINE_WEIGHTS, "combined_topk_weights: expected a difference below 1e-9, found %g",
                   check_diff_value(&diff));
}

uint32_t ht_check(const struct kernel_rank *rank, char *text, size_t text_size)
{
    const struct ht_rank *h = (const struct ht_rank *)rank;
    struct check_report report = { .text = text, .text_size = text_size };
    layout_check(h, &report);
    recv_rows_check(h, &report);
    if (!h->base.options->cached) expert_counts_check(h, &report);
    rows_check(h, &report);
    if (h->expanded_x) copies_check(h, &report);
    if (h->t.combined_x) combine_check(h, &report);
    if (h->t.combined_x && h->combine_slot.topk) combine_weights_check(h, &report);
    return check_failures(&report);
}
