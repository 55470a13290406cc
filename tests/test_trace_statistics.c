/* test_trace_statistics.c - counting where tokens go, on a routing small enough to count by hand, and spreads
 * at their ends. */
#include <string.h>
#include "traces/routing_statistics.h"
#include "tests/unit.h"

/* Four ranks have two experts each.  A node has two ranks. */
TEST("a routing by hand")
{
    static const uint32_t tokens[4] = { 2, 1, 0, 1 };
    static const int32_t first[6] = { 0, 1, 7, /**/ 2, 2, ROUTING_NONE };
    static const int32_t second[3] = { 4, 5, 6 }, last[3] = { ROUTING_NONE, ROUTING_NONE, ROUTING_NONE };
    static const uint64_t pairs[8] = { 1, 1, 2, 0, 1, 1, 1, 1 }, rank_pairs[4] = { 2, 2, 2, 2 };
    static const uint64_t rank_tokens[4] = { 1, 1, 1, 2 }, node_tokens[2] = { 2, 2 };
    static const uint64_t ranks[4] = { 1, 1, 2, 0 }, nodes[4] = { 1, 2, 1, 0 };
    g_auto(routing) routing;
    struct routing_statistics s;
    routing_alloc(&routing, 4, 3, 8, tokens, 1);
    memcpy(routing.rank[0].experts, first, sizeof first);
    memcpy(routing.rank[1].experts, second, sizeof second);
    memcpy(routing.rank[3].experts, last, sizeof last);
    routing.rank[0].weights[1] = -0.5f;
    routing.rank[0].weights[5] = 0.5f;
    routing_statistics_init(&s, 4, 8, 3, 2);
    routing_statistics_add(&s, &routing);
    CU_ASSERT(s.tokens == 4 && s.places == 12 && s.unused == 4 && s.repeated == 1 && s.bad_weights == 2);
    CU_ASSERT(memcmp(s.expert_pairs, pairs, sizeof pairs) == 0);
    CU_ASSERT(memcmp(s.rank_pairs, rank_pairs, sizeof rank_pairs) == 0);
    CU_ASSERT(memcmp(s.rank_tokens, rank_tokens, sizeof rank_tokens) == 0);
    CU_ASSERT(memcmp(s.node_tokens, node_tokens, sizeof node_tokens) == 0);
    CU_ASSERT(memcmp(s.distinct_ranks, ranks, sizeof ranks) == 0);
    CU_ASSERT(memcmp(s.distinct_nodes, nodes, sizeof nodes) == 0);
    CU_ASSERT(s.links[0] == 1 && s.links[1] == 1 && s.links[3] == 1 && s.links[4 + 2] == 1 && s.links[4 + 0] == 0);
    CU_ASSERT_DOUBLE_EQUAL(histogram_mean(s.distinct_ranks, 4), 1.25, 1e-12);
    routing_statistics_clear(&s);
}

TEST("spreads at their ends")
{
    static const uint64_t even[4] = { 5, 5, 5, 5 }, one[4] = { 0, 8, 0, 0 }, none[4] = { 0 };
    const struct load_spread e = load_spread(even, 4), o = load_spread(one, 4), n = load_spread(none, 4);
    CU_ASSERT(e.max_over_mean == 1 && e.min_over_mean == 1);
    CU_ASSERT_DOUBLE_EQUAL(e.gini, 0, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(e.entropy, 1, 1e-12);
    CU_ASSERT(o.max_over_mean == 4 && o.min_over_mean == 0);
    CU_ASSERT_DOUBLE_EQUAL(o.gini, 0.75, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(o.entropy, 0, 1e-12);
    CU_ASSERT(n.max_over_mean == 0 && n.gini == 0 && n.entropy == 0);
}

/* Beyond this number of ranks there is no matrix of links, which would fill memory. */
TEST("many ranks have no links")
{
    struct routing_statistics s;
    routing_statistics_init(&s, ROUTING_LINKS_RANKS_MAX + 1, ROUTING_LINKS_RANKS_MAX + 1, 1, 8);
    CU_ASSERT_PTR_NULL(s.links);
    routing_statistics_clear(&s);
}
