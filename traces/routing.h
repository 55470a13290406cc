/* routing.h - the routing of one (step, layer): which experts every token of every rank goes to.
 *
 * It is plain data.  Trace readers and generators make it; protocols and statistics read it.  Needs nothing but
 * libc. */
#ifndef TRACES_ROUTING_H
#define TRACES_ROUTING_H

#include <stdint.h>

enum { ROUTING_NONE = -1 }; /* an unused top-k place */

/* Limits of every routing, generated or read. */
enum { ROUTING_RANKS_MAX = 1 << 20, ROUTING_EXPERTS_MAX = 1 << 20, ROUTING_TOPK_MAX = 256 };

struct routing_rank {
    uint32_t tokens;
    int32_t *experts; /* [tokens][topk], ROUTING_NONE or 0 .. experts-1 */
    float *weights;   /* [tokens][topk], or NULL if the trace has none */
};

struct routing {
    uint32_t ranks, topk, experts; /* expert e is on rank e / (experts / ranks) */
    struct routing_rank *rank;     /* [ranks] */
};

/* Allocates rank[] and, for each rank, tokens[r] * topk experts, set to ROUTING_NONE.  If with_weights, also allocates
 * weights, set to 0.  Aborts if memory runs out, like GLib.  Free with routing_free(). */
void routing_alloc(struct routing *routing, uint32_t ranks, uint32_t topk, uint32_t experts, const uint32_t *tokens,
                   int with_weights);

/* Frees what routing_alloc() made, and clears the struct.  A cleared struct may be freed again. */
void routing_free(struct routing *routing);

#endif
