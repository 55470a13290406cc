/* moe_two_sided.h - private to NVLink two-sided kernels (PROTOCOLS.md 1.15): memory map and state of a rank.
 *
 * A warp sends one channel's rows to one rank, and a warp there takes them out, through a FIFO that lies at the
 * receiver.  The bytes carry their own flags (LL128): nobody releases, and the receiver polls the FIFO itself.
 *
 *   prepare    each rank tells each other how many tokens will come
 *   dispatch   sender (peer, channel) ──NVLink──► fifo[source][channel]; receiver (peer, channel) ──► row
 *   combine    the rows go back in the same order, each to a place of its token; then these are summed
 *
 * Heap, only where payload is stored: the FIFOs of dispatch and of combine, [ranks][channels][slots].
 * Signal words: counts[source], a count plus one; heard[target], that it has taken a count; and for dispatch and for
 * combine sent[source][channel], slots written, and freed[target][channel], entries of the FIFO that the target has
 * taken out.  Between two uses of a FIFO lies a prepare, in which every rank hears from every other one. */
#ifndef MODELS_MOE_MOE_TWO_SIDED_H
#define MODELS_MOE_MOE_TWO_SIDED_H

#include "models/moe/moe_ht.h"

enum {
    TS_LINE_BYTES = 128,
    TS_LINES_FLAGGED = 15,          /* lines of data whose flags fill one more line */
    TS_ENTRIES = 4,                 /* of a FIFO */
    TS_ENTRY_LINES = 2048,          /* 256 KiB */
    TS_PEERS_MOST = 8,              /* of a block */
    TS_SHARED_BYTES = 232448 - 256, /* of a block, less its warps' barriers */
    TS_COUNT_WARPS = 32,            /* of a block that counts tokens, eight threads a token */
    TS_COUNT_TOKENS = 128,
    TS_HEARD_MOST = 4, /* peers that a block of prepare hears from, 128 threads each */
    TS_MOVE_WARPS = 16,
};

struct ts_rank;

/* A warp that sends to a peer, or takes what comes from it: every channels-th row. */
struct ts_warp {
    struct fabric_worker worker;
    struct ts_rank *rank;
    uint16_t peer, channel;
    uint32_t item, end;    /* the next of the rows for the peer, or of those from it; their number */
    uint32_t moved, freed; /* rows so far; entries that the peer has been told are free */
    bool combine, stored;
};

/* A block that counts the tokens for a peer and tells it, or one that hears from a peer. */
struct ts_count {
    struct fabric_worker worker;
    struct ts_rank *rank;
    uint16_t peer;
    bool counted;    /* or heard */
    uint32_t count;  /* heard, plus one */
    uint64_t before; /* what the peer says when it has heard the count before this one */
};

/* An SM's share of a kernel's local work, which neither sends nor waits. */
struct ts_local {
    struct fabric_worker worker;
    struct ts_rank *rank;
    struct fabric_work work;
};

/* The FIFOs of a kernel that moves rows, and its grid: blocks of so many peers, for senders and for receivers. */
struct ts_fifo {
    uint64_t offset; /* in the heap */
    uint32_t bytes;  /* of a slot in shared memory and in the FIFO, flags included */
    uint32_t entry_slots, channels, peers;
};

struct ts_rank {
    struct ht_rank ht;
    struct ts_fifo fifo[2]; /* dispatch's, combine's */
    uint32_t *token;        /* [ranks][tokens] the tokens that go to each rank, in order */
    uint8_t *back;          /* [tokens][topk] rows that have come back, by rank; payload only */
    struct ts_warp *warp;   /* [2][ranks][channels] senders, receivers */
    struct ts_count *count; /* [2][ranks] */
    struct ts_local *local; /* [SMs] */
    uint32_t launched;      /* the last phase */
};

#endif
