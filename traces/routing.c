/* routing.c - memory of one routing.
 *
 * Knows only the shape.  The experts of all ranks follow one another in memory, and so do their weights.  So even
 * thousands of ranks need only three allocations: ranks, experts and weights. rank[0] owns experts and weights. */
#include "traces/routing.h"

#include <assert.h>
#include <glib.h>
#include <string.h>

void routing_alloc(struct routing *routing, uint32_t ranks, uint32_t topk, uint32_t experts, const uint32_t *tokens,
                   int with_weights)
{
    assert(ranks > 0 && topk > 0);
    size_t places = 0;
    for (uint32_t r = 0; r < ranks; r++) places += (size_t)tokens[r] * topk;
    struct routing_rank *const rank = g_new0(struct routing_rank, ranks);
    /* at least one element, so that there is something to free even if no rank has tokens */
    int32_t *const experts_of = g_new(int32_t, places + 1);
    float *const weights_of = with_weights ? g_new0(float, places + 1) : NULL;
    memset(experts_of, 0xff, (places + 1) * sizeof *experts_of); /* all bits set is ROUTING_NONE */
    size_t at = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        rank[r].tokens = tokens[r];
        rank[r].experts = experts_of + at;
        rank[r].weights = weights_of ? weights_of + at : NULL;
        at += (size_t)tokens[r] * topk;
    }
    *routing = (struct routing){ .ranks = ranks, .topk = topk, .experts = experts, .rank = rank };
}

void routing_free(struct routing *routing)
{
    if (routing->rank) {
        g_free(routing->rank[0].experts);
        g_free(routing->rank[0].weights);
        g_free(routing->rank);
    }
    *routing = (struct routing){ 0 };
}

_Static_assert(ROUTING_NONE == -1, "routing_alloc() fills with all bits set");
