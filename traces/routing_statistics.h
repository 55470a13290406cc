/* routing_statistics.h - how evenly a routing spreads its tokens: loads, inequality, how far tokens go.
 *
 * Knows routing and how many ranks share a node; knows no time. */
#ifndef TRACES_ROUTING_STATISTICS_H
#define TRACES_ROUTING_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>
#include "traces/routing.h"

enum { ROUTING_LINKS_RANKS_MAX = 4096 };

struct routing_statistics {
    uint32_t ranks, nodes, experts, topk, ranks_per_node;
    uint64_t tokens;          /* of all ranks */
    uint64_t places, unused;  /* top-k places; how many of them are ROUTING_NONE */
    uint64_t repeated;        /* places that name an expert their token already has */
    uint64_t bad_weights;     /* weights that are negative, or that are not 0 at an unused place */
    uint64_t *expert_pairs;   /* [experts] (token, expert) pairs */
    uint64_t *rank_pairs;     /* [ranks] pairs that a rank receives */
    uint64_t *rank_tokens;    /* [ranks] tokens that a rank receives, each once */
    uint64_t *node_tokens;    /* [nodes] tokens that a node receives, each once */
    uint64_t *links;          /* [ranks][ranks] tokens from source to destination, each once; NULL for more than
                               * ROUTING_LINKS_RANKS_MAX ranks */
    uint64_t *distinct_ranks; /* [topk + 1] tokens by the number of ranks they go to */
    uint64_t *distinct_nodes; /* [topk + 1], for nodes */
};

/* Statistics of nothing yet.  ranks_per_node 0 means all ranks share one node. */
void routing_statistics_init(struct routing_statistics *statistics, uint32_t ranks, uint32_t experts, uint32_t topk,
                             uint32_t ranks_per_node);
void routing_statistics_clear(struct routing_statistics *statistics);

/* Adds a routing of equal ranks, experts and topk (asserted). */
void routing_statistics_add(struct routing_statistics *statistics, const struct routing *routing);

/* Of `count` loads: the greatest and the least over the mean (0 if all are 0), Gini's coefficient (0: even, towards
 * 1: one has all) and the entropy over its maximum (1: even, 0: one has all). */
struct load_spread {
    double max_over_mean, min_over_mean, gini, entropy;
};
struct load_spread load_spread(const uint64_t *load, uint64_t count);

/* The mean of a histogram indexed by value. */
double histogram_mean(const uint64_t *histogram, uint32_t count);

#endif
