/* routing_statistics.h - how evenly a routing spreads its tokens (loads, inequality), and how far the tokens go.
 *
 * Knows routing and how many ranks share a node.  Knows no time. */
#ifndef TRACES_ROUTING_STATISTICS_H
#define TRACES_ROUTING_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>
#include "traces/routing.h"

enum { ROUTING_LINKS_RANKS_MAX = 4096 };

struct routing_statistics {
    uint32_t ranks, nodes, experts, topk, ranks_per_node;
    uint64_t tokens;          /* number of tokens of all ranks */
    uint64_t places, unused;  /* top-k places, and how many of them are ROUTING_NONE */
    uint64_t repeated;        /* places that name an expert their token already has */
    uint64_t bad_weights;     /* number of weights that are negative, or not 0 at an unused place */
    uint64_t *expert_pairs;   /* [experts] (token, expert) pairs with the expert */
    uint64_t *rank_pairs;     /* [ranks] (token, expert) pairs that the rank receives */
    uint64_t *rank_tokens;    /* [ranks] tokens that a rank receives, each once */
    uint64_t *node_tokens;    /* [nodes] tokens that a node receives, each once */
    uint64_t *links;          /* [ranks][ranks] tokens from source to destination, each once; NULL for more than
                               * ROUTING_LINKS_RANKS_MAX ranks */
    uint64_t *distinct_ranks; /* [topk + 1] how many tokens go to 0, 1, ..., topk ranks */
    uint64_t *distinct_nodes; /* [topk + 1] how many tokens go to 0, 1, ..., topk nodes */
};

/* Makes statistics without routing.  If ranks_per_node is 0, all ranks share one node. */
void routing_statistics_init(struct routing_statistics *statistics, uint32_t ranks, uint32_t experts, uint32_t topk,
                             uint32_t ranks_per_node);
void routing_statistics_clear(struct routing_statistics *statistics);

/* Adds a routing, which must have the ranks, experts and topk of the statistics (asserted). */
void routing_statistics_add(struct routing_statistics *statistics, const struct routing *routing);

/* How unequal `count` loads are. max_over_mean and min_over_mean are the largest and the smallest load over the mean,
 * or 0 if all loads are 0. gini is Gini's coefficient: 0 if all loads are equal, near 1 if one has all. entropy is
 * relative to its maximum: 1 if all loads are equal, 0 if one has all. */
struct load_spread {
    double max_over_mean, min_over_mean, gini, entropy;
};
struct load_spread load_spread(const uint64_t *load, uint64_t count);

/* The mean value of a histogram, where histogram[v] counts the value v. */
double histogram_mean(const uint64_t *histogram, uint32_t count);

#endif
