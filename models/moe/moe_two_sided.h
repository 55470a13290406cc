/* moe_two_sided.h - private to NVLink two-sided kernels (PROTOCOLS.md 1.15): memory map and state of a rank.
 *
 * A warp sends one channel's rows to one rank.  A warp of that rank takes them out of a FIFO in its own memory.  The
 * bytes carry their own flags (LL128).  So the sender need not release, and the receiver polls the FIFO itself.
 *
 *     prepare    each rank tells each other rank how many tokens will come
 *     dispatch   sender (peer, channel) ──NVLink──► fifo[source][channel]; receiver (peer, channel) ──► row
 *     combine    the rows go back in the same order, each to a place of its token; then they are summed
 *
 * Heap, only where payload is stored: the FIFOs of dispatch and of combine, [ranks][channels][slots].
 *
 * Signal words: counts[source] is 1 + the source's count; heard[target] says that the target has read this rank's
 * count. Dispatch and combine each have sent[source][channel], how many slots are written, and freed[target][channel],
 * how many entries of the FIFO the target has emptied.  Between two uses of a FIFO there is a prepare, in which every
 * rank hears from every other rank. */
#ifndef MODELS_MOE_MOE_TWO_SIDED_H
#define MODELS_MOE_MOE_TWO_SIDED_H

#include "models/moe/moe_ht.h"

enum {
    TS_LINE_BYTES = 128,
    TS_LINES_FLAGGED = 15,          /* lines of data whose flags take one more line */
    TS_ENTRIES = 4,                 /* entries of a FIFO */
    TS_ENTRY_LINES = 2048,          /* lines of an entry: 256 KiB */
    TS_PEERS_MOST = 8,              /* the most peers of a block */
    TS_SHARED_BYTES = 232448 - 256, /* shared memory of a block, without its warps' barriers */
    TS_COUNT_WARPS = 32,            /* warps of a block that counts tokens; a token has eight threads */
    TS_COUNT_TOKENS = 128,
    TS_HEARD_MOST = 4, /* the most peers that a block of prepare hears from, with 128 threads each */
    TS_MOVE_WARPS = 16,
};

struct ts_rank;

/* A warp that sends rows to a peer, or takes rows that come from it.  With n channels it has every n-th row. */
struct ts_warp {
    struct fabric_worker worker;
    struct ts_rank *rank;
    uint16_t peer, channel;
    uint32_t item, end;    /* the number of the next row, among all rows for the peer or from it; how many such rows
                            * there are */
    uint32_t moved, freed; /* how many rows are moved; how many entries the peer has been told are free */
    bool combine, begun, stored;
    bool waited; /* a receiver has waited for its next row */
};

/* A block that counts the tokens for a peer and tells the peer; or a part of a block that hears a peer's count. */
struct ts_count {
    struct fabric_worker worker;
    struct ts_rank *rank;
    uint16_t peer;
    bool counted;    /* the block has counted the tokens, or heard the count */
    uint32_t count;  /* 1 + the count that the block has heard */
    uint64_t before; /* the value that heard[peer] got when the peer had read the preceding count */
};

/* The FIFOs of a kernel that moves rows, and its grid: channels, and how many peers a block has. */
struct ts_fifo {
    uint64_t offset; /* where the FIFOs begin in the heap */
    uint32_t bytes;  /* bytes of a slot in shared memory and in the FIFO, flags included */
    uint32_t entry_slots, channels, peers;
};

struct ts_rank {
    struct ht_rank ht;
    struct ts_fifo fifo[2]; /* for dispatch, for combine */
    uint32_t *token;        /* [ranks][tokens] the tokens that go to each rank, in order */
    uint8_t *back;          /* [tokens][topk] rows that have come back, in the order of ranks; only with payload */
    struct ts_warp *warp;   /* [2][ranks][channels] senders, receivers */
    struct ts_count *count; /* [2][ranks] */
    struct ht_local *local; /* [SMs] */
    uint32_t launched;      /* the phase that was launched last */
};

#endif
