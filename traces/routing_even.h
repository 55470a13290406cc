/* routing_even.h - the same tokens on evenly loaded experts: what a routing would be without its skew.
 *
 * Knows routing and how many ranks share a node.  Knows no time. */
#ifndef TRACES_ROUTING_EVEN_H
#define TRACES_ROUTING_EVEN_H

#include "traces/routing.h"

/* Moves the experts of each token so that all experts get about as many tokens.  The experts of a token move together,
 * by whole nodes, by ranks within the node and by experts within the rank, each in rotation.  So a token goes to as
 * many nodes, ranks and experts as before, and as many of its experts share a rank.  Which ranks these are changes: a
 * token may leave its own rank, or come to it.  If ranks_per_node is 0, all ranks share one node.  The number of
 * experts must be a multiple of the ranks, and that of the ranks a multiple of ranks_per_node (asserted). */
void routing_even(struct routing *routing, uint32_t ranks_per_node);

#endif
