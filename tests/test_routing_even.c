/* test_routing_even.c - evened routings: next to equal loads, tokens that reach as many nodes and ranks as before. */
#include <string.h>
#include "tests/unit.h"
#include "traces/generate.h"
#include "traces/routing_even.h"
#include "traces/routing_statistics.h"

enum { RANKS = 32, NODE = 8, EXPERTS = 256, TOPK = 8 };

static void routing_draw(const char *distribution, uint32_t masked, struct routing *routing)
{
    const struct routing_options options = { .ranks = RANKS,
                                             .tokens = 64,
                                             .topk = TOPK,
                                             .experts = EXPERTS,
                                             .masked_places = masked,
                                             .seed = 1,
                                             .distribution = distribution };
    CU_ASSERT_FATAL(routing_generate(&options, routing, NULL));
}

static void statistics_make(const struct routing *routing, struct routing_statistics *s)
{
    routing_statistics_init(s, RANKS, EXPERTS, TOPK, NODE);
    routing_statistics_add(s, routing);
}

TEST("loads even out, tokens go as far")
{
    static const char *const drawn[] = { "uniform", "zipf:0.8", "hot-expert:0.5", "hot-rank:0.3", "zipf-packed:1" };
    for (size_t i = 0; i < G_N_ELEMENTS(drawn); i++) {
        g_auto(routing) routing;
        struct routing_statistics before, after;
        routing_draw(drawn[i], 10, &routing);
        statistics_make(&routing, &before);
        routing_even(&routing, NODE);
        statistics_make(&routing, &after);
        const struct load_spread experts = load_spread(after.expert_pairs, EXPERTS),
                                 ranks = load_spread(after.rank_tokens, RANKS);
        CU_ASSERT(load_spread(before.expert_pairs, EXPERTS).max_over_mean > 1.3);
        CU_ASSERT(experts.max_over_mean < 1.07 && experts.min_over_mean > 0.93);
        CU_ASSERT(ranks.max_over_mean < 1.02 && ranks.min_over_mean > 0.98);
        CU_ASSERT(after.unused == before.unused && after.repeated == 0);
        CU_ASSERT(memcmp(after.distinct_ranks, before.distinct_ranks, (TOPK + 1) * sizeof(uint64_t)) == 0);
        CU_ASSERT(memcmp(after.distinct_nodes, before.distinct_nodes, (TOPK + 1) * sizeof(uint64_t)) == 0);
        routing_statistics_clear(&before);
        routing_statistics_clear(&after);
    }
}

TEST("equal calls, equal routings")
{
    g_auto(routing) one, other;
    routing_draw("zipf:0.8", 0, &one);
    routing_draw("zipf:0.8", 0, &other);
    routing_even(&one, 0);
    routing_even(&other, RANKS);
    CU_ASSERT(memcmp(one.rank[0].experts, other.rank[0].experts, sizeof(int32_t) * RANKS * 64 * TOPK) == 0);
}

/* Ranks with no token, and with one. */
TEST("few tokens")
{
    static const uint32_t tokens[2] = { 0, 1 };
    static const int32_t first[2] = { 3, ROUTING_NONE };
    g_auto(routing) routing;
    routing_alloc(&routing, 2, 2, 4, tokens, 0);
    memcpy(routing.rank[1].experts, first, sizeof first);
    routing_even(&routing, 1);
    CU_ASSERT(routing.rank[1].experts[0] == 3 && routing.rank[1].experts[1] == ROUTING_NONE);
}
