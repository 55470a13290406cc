/* edges.h - the load of an all-to-allv: a list of messages by source, each with its destination and bytes.
 *
 * It is plain data.  Functions of edges_make.h make it, and kernels read it.  Needs nothing but libc. */
#ifndef TRACES_EDGES_H
#define TRACES_EDGES_H

#include <stdint.h>

enum { EDGES_RANKS_MAX = 65535, EDGES_MAX = 1 << 28, EDGE_BYTES_MAX = 1 << 30 };

struct edges {
    uint32_t ranks;
    uint32_t *first;         /* [ranks + 1]; messages first[s] .. first[s + 1] - 1 are those of source s */
    uint16_t *target;        /* [messages] the destination */
    uint32_t *size_bytes;    /* [messages] */
    uint64_t *target_offset; /* [messages] where the message begins in its target's received bytes, which are in the
                              * order of sources */
    uint64_t *sent_bytes, *received_bytes; /* [ranks] */
    uint32_t *received;                    /* [ranks] number of messages that the rank receives */
};

static inline uint32_t edges_count(const struct edges *e) { return e->first[e->ranks]; }

/* For code that makes edges. edges_alloc() allocates the arrays and clears first[].  The caller then fills in first,
 * target and size_bytes, and edges_finish() computes the other fields. */
void edges_alloc(struct edges *edges, uint32_t ranks, uint32_t count);
void edges_finish(struct edges *edges);
/* Frees and clears the edges.  Edges that are already clear may be freed again. */
void edges_free(struct edges *edges);

#endif
