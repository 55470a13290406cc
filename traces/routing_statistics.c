/* routing_statistics.c - counting where tokens go; see routing_statistics.h. */
#include "traces/routing_statistics.h"

#include <assert.h>
#include <glib.h>
#include <math.h>
#include "sim/memory.h"
#include "sim/stats.h"

void routing_statistics_init(struct routing_statistics *s, uint32_t ranks, uint32_t experts, uint32_t topk,
                             uint32_t ranks_per_node)
{
    const uint32_t a_node = ranks_per_node ? ranks_per_node : ranks;
    *s = (struct routing_statistics){ .ranks = ranks,
                                      .experts = experts,
                                      .topk = topk,
                                      .ranks_per_node = a_node,
                                      .nodes = (ranks + a_node - 1) / a_node };
    s->expert_pairs = g_new0(uint64_t, experts);
    s->rank_pairs = g_new0(uint64_t, ranks);
    s->rank_tokens = g_new0(uint64_t, ranks);
    s->node_tokens = g_new0(uint64_t, s->nodes);
    s->links = ranks <= ROUTING_LINKS_RANKS_MAX ? g_new0(uint64_t, (size_t)ranks * ranks) : NULL;
    s->distinct_ranks = g_new0(uint64_t, topk + 1);
    s->distinct_nodes = g_new0(uint64_t, topk + 1);
}

void routing_statistics_clear(struct routing_statistics *s)
{
    FREE_ALL(s->distinct_nodes, s->distinct_ranks, s->links, s->node_tokens, s->rank_tokens, s->rank_pairs,
             s->expert_pairs);
    *s = (struct routing_statistics){ 0 };
}

/* Whether value is among the first `count` values of seen[].  If it is not, adds it. */
static bool seen_before(uint32_t *seen, uint32_t *count, uint32_t value)
{
    for (uint32_t i = 0; i < *count; i++)
        if (seen[i] == value) return true;
    seen[(*count)++] = value;
    return false;
}

struct token_scratch {
    uint32_t *experts, *ranks, *nodes;
};

static void token_add(struct routing_statistics *s, const struct token_scratch *seen, uint32_t source,
                      const int32_t *experts, uint32_t local_experts)
{
    uint32_t expert_count = 0, rank_count = 0, node_count = 0;
    for (uint32_t k = 0; k < s->topk; k++) {
        if (experts[k] == ROUTING_NONE) {
            s->unused++;
            continue;
        }
        const uint32_t expert = (uint32_t)experts[k], rank = expert / local_experts, node = rank / s->ranks_per_node;
        s->expert_pairs[expert]++;
        s->rank_pairs[rank]++;
        s->repeated += seen_before(seen->experts, &expert_count, expert);
        if (!seen_before(seen->ranks, &rank_count, rank)) {
            s->rank_tokens[rank]++;
            if (s->links) s->links[(size_t)source * s->ranks + rank]++;
        }
        if (!seen_before(seen->nodes, &node_count, node)) s->node_tokens[node]++;
    }
    s->distinct_ranks[rank_count]++;
    s->distinct_nodes[node_count]++;
}

void routing_statistics_add(struct routing_statistics *s, const struct routing *routing)
{
    assert(routing->ranks == s->ranks && routing->experts == s->experts && routing->topk == s->topk);
    const struct token_scratch seen = { g_new(uint32_t, s->topk), g_new(uint32_t, s->topk), g_new(uint32_t, s->topk) };
    for (uint32_t r = 0; r < s->ranks; r++) {
        const struct routing_rank *const rank = &routing->rank[r];
        const size_t places = (size_t)rank->tokens * s->topk;
        s->tokens += rank->tokens;
        s->places += places;
        for (uint32_t t = 0; t < rank->tokens; t++)
            token_add(s, &seen, r, rank->experts + (size_t)t * s->topk, s->experts / s->ranks);
        for (size_t i = 0; rank->weights && i < places; i++)
            s->bad_weights += rank->weights[i] < 0 || (rank->experts[i] < 0 && rank->weights[i] != 0);
    }
    FREE_ALL(seen.nodes, seen.ranks, seen.experts);
}

struct load_spread load_spread(const uint64_t *load, uint64_t count)
{
    struct load_spread spread = { 0 };
    g_autofree double *values = g_new(double, count);
    for (uint64_t i = 0; i < count; i++) values[i] = (double)load[i];
    if (stats_sum(values, count) > 0) {
        spread.max_over_mean = stats_imbalance(values, count);
        spread.min_over_mean = stats_min(values, count) / stats_mean(values, count);
        spread.gini = stats_gini(values, count);
        spread.entropy = count > 1 ? stats_entropy_bits(values, count) / log2((double)count) : 1;
    }
    return spread;
}

double histogram_mean(const uint64_t *histogram, uint32_t count)
{
    double sum = 0, weighted = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)histogram[i];
        weighted += (double)histogram[i] * i;
    }
    return sum > 0 ? weighted / sum : 0;
}
