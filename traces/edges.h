/* edges.h - the load of an all-to-allv: a list of messages by source, each with its destination and bytes.
 *
 * It is plain data, which the modules behind edges_make.h make and the kernels read.  Needs nothing but libc. */
#ifndef TRACES_EDGES_H
#define TRACES_EDGES_H

#include <stdint.h>

enum { EDGES_RANKS_MAX = 65535, EDGES_MAX = 1 << 28, EDGE_BYTES_MAX = 1 << 30 };

struct edges {
    uint32_t ranks;
    uint32_t *first;         /* [ranks + 1]; messages first[s] .. first[s + 1] - 1 are those of source s */
    uint16_t *target;        /* [message] */
    uint32_t *size_bytes;    /* [message] */
    uint64_t *target_offset; /* [message] its offset in the bytes that its target receives, which are in the order of
                              * the sources */
    uint64_t *sent_bytes, *received_bytes; /* [rank] */
    uint32_t *received;                    /* [rank] number of messages that the rank receives */
};

static inline uint32_t edges_count(const struct edges *e) { return e->first[e->ranks]; }

/* For code that makes edges.  edges_alloc() allocates arrays for ranks and messages, with first[] 0.  Once first,
 * target and size_bytes are filled in, edges_finish() computes the other fields. */
void edges_alloc(struct edges *edges, uint32_t ranks, uint32_t count);
void edges_finish(struct edges *edges);
/* Frees and clears the edges, which may already be clear. */
void edges_free(struct edges *edges);

#endif
