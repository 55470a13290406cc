/* moe_one_sided.h - private to NVLink one-sided kernels (PROTOCOLS.md 1.12): memory map and state of a rank.
 *
 * A thread block takes a token.  Dispatch pushes it to each rank that needs it, into the part of that rank's area that
 * is this rank's alone; nobody forwards, and nobody copies what has come.  Experts leave their output in a second area,
 * at the same places.  Combine pulls it from there and sums it.
 *
 *   dispatch   token ──NVLink stores──► in[source][slot] of each target      a barrier at the end
 *   combine    out[source][slot] of each target ──NVLink loads──► sum        a barrier at the beginning
 *
 * Heap, only where payload is stored: in, out [ranks][tokens_max], made (the same: what experts leave elsewhere),
 * gathered [blocks][topk], where a block's loads end.
 * Signal words: counts[source], a count plus one, at dispatch's end; ready[source], at combine's beginning; and the
 * private open and finished. */
#ifndef MODELS_MOE_MOE_ONE_SIDED_H
#define MODELS_MOE_MOE_ONE_SIDED_H

#include "models/moe/moe_ht.h"

enum {
    OS_RANKS_MAX = 64, /* bits of a number that a token's block keeps, one for each rank */
    OS_WARPS = 8,      /* of a block: 256 threads */
    OS_BLOCKS = 8,     /* of an SM, by its 2048 threads */
};

struct os_rank;

/* A thread block on an SM: it takes every stride-th token. */
struct os_block {
    struct fabric_worker worker;
    struct os_rank *rank;
    uint32_t number, token, target; /* its number among all blocks; its next token; the rank that gets it next */
    uint32_t pass;                  /* of combine along the row */
    bool chosen;                    /* the token's ranks, and its slots there, are known */
};

/* The last block of dispatch, which tells the peers, and the first block of combine. */
struct os_gate {
    struct fabric_worker worker;
    struct os_rank *rank;
    uint32_t next, come; /* ranks told; ranks that have answered */
    bool combine;
};

/* Local work of a kernel that neither sends nor waits: an SM's.  Rows: of the experts, copied to where combine reads
 * them; each warp takes a part. */
struct os_local {
    struct fabric_worker worker;
    struct os_rank *rank;
    uint64_t size_bytes;
    uint32_t rows;
    uint8_t site; /* enum site */
};

struct os_map {
    uint64_t in, out, made, gathered, end;
};

struct os_rank {
    struct ht_rank ht;
    struct os_map map;
    uint32_t *position; /* [tokens][ranks] the token's slot at a rank that it goes to */
    uint32_t sms, blocks;
    uint32_t launched; /* the last phase */
    struct os_block *block;
    struct os_local *local; /* [sms] */
    struct os_gate gate;
    uint64_t opened, finished; /* values of the private words when all launches so far have ended */
};

#endif
