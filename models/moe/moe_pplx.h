/* moe_pplx.h - private to pplx-garden's kernels (PROTOCOLS.md 1.18): memory map, words and state of a rank.
 *
 * A token has a row for each of its choices, and goes to each of its experts.  GPUs write rows to ranks of their node.
 * They leave rows for other nodes in send.  From there the NIC writes them, at the request of a thread of the host.
 *
 *   dispatch   token ──NVLink stores──► recv[source], the first PP_PRIVATE rows; the target reads further rows in send
 *              token ── copy ──► send ── put by the host ──► recv[source]; further rows once counts are known
 *              rows ── copy ──► out, in the order of experts
 *   combine    made ── copy ──► send ── put by the host ──► recv[number of the choice], or NVLink stores; sums
 *
 * Heap: counts [source][experts], how many rows a source has for each expert.  Only where payload is stored: send and
 * recv, which hold dispatch's rows and then combine's; out and made [places].
 *
 * Signal words: each source has one word of each kind of enum pp_word.  The private words follow. */
#ifndef MODELS_MOE_MOE_PPLX_H
#define MODELS_MOE_MOE_PPLX_H

#include "models/moe/moe_ht.h"

enum {
    PP_LOCAL_MAX = 8,     /* ranks of a node */
    PP_EXPERTS_MAX = 512, /* the most experts: a block has a thread for each */
    PP_WARPS = 16,        /* warps of a block; each SM has one block */
    PP_PRIVATE = 256,     /* rows that a rank may write to another before it knows where more may go */
    PP_STAGES = 8,        /* the most rows that a block of combine moves together */
    PP_NICS = 2,          /* QPs to a peer, one on each NIC of a GPU */
    PP_DEPTH = 16,
};

/* The kernels of a launch: one that sends, one that receives, or both, one after the other.  A launch with neither is
 * the host's barrier. */
struct pp_launch {
    bool combine, sends, receives;
};

/* A source raises PP_COUNTS with its counts, PP_FIRST with its first rows, PP_REST with its further rows, and PP_BACK
 * with the rows that it returns.  PP_NEAR says that its stores by NVLink are done.  PP_READ says that it has read what
 * it needs in other ranks' send.  PP_BARRIER is the barrier's word. */
enum pp_word { PP_COUNTS, PP_FIRST, PP_REST, PP_BACK, PP_NEAR, PP_READ, PP_BARRIER, PP_SOURCE_WORDS };

struct pp_map {
    uint64_t counts, send, recv, out, made, end;
};

struct pp_rank;

struct pp_block {
    struct fabric_worker worker;
    struct pp_rank *rank;
    uint32_t number, item, target; /* item: the next token or row; target: the next peer, choice or row */
    uint8_t state, synced;         /* synced: how many barriers of the grid the block has passed */
    bool receives, arrives, loaded;
};

/* The thread of the host. */
struct pp_host {
    struct fabric_worker worker;
    struct pp_rank *rank;
    struct ht_barrier barrier;
    uint32_t next; /* the next rank to be served, as its place in the order of service */
    uint8_t state;
};

/* A row that comes.  Rows are in the order in which blocks take them. */
struct pp_row {
    uint32_t source, number; /* number: the row's index among the source's rows for this rank */
    uint32_t expert, place;  /* the expert's index on this rank; the row's place in out */
};

struct pp_rank {
    struct ht_rank ht;
    struct pp_map map;
    uint32_t first_rows; /* PP_PRIVATE, but no more than the most rows of a rank for another */
    /* This rank's own choices are numbered in the order of their experts. */
    uint32_t *sent_before; /* [experts + 1] the number of each expert's first choice */
    uint32_t *position;    /* [tokens x topk] each choice's number; UINT32_MAX: the choice has no expert */
    /* The following members are known once all counts have come. */
    bool learned;
    uint32_t rows, far_rows, rows_room, places;
    struct pp_row *row;               /* [rows] rows of other nodes come first */
    uint32_t *come_before;            /* [ranks + 1] rows that come from lower ranks */
    uint32_t *before_here;            /* [ranks] rows that a rank has for lower ranks than this one */
    uint32_t *expert_place;           /* [local experts] the first place of an expert's rows */
    uint64_t opened, to_host, to_gpu; /* values of private words when this launch began */
    uint32_t arrived, staged;         /* how many blocks have come to the grid's barriers; how many have left their rows
                                       * in send */
    uint32_t blocks;
    struct pp_block *block;
    struct pp_host host;
    struct site_given sum;
    struct pp_launch launch;
};

static inline uint32_t pp_word(const struct pp_rank *r, enum pp_word word, uint32_t source)
{
    return (uint32_t)word * r->ht.g.ranks + source;
}
/* Private words.  They count the blocks that have come to the grid's barriers, the barriers that have opened, what the
 * GPU has told the host, and what the host has told the GPU.  No worker waits for the first. */
static inline uint32_t pp_word_arrived(const struct pp_rank *r) { return pp_word(r, PP_SOURCE_WORDS, 0); }
static inline uint32_t pp_word_open(const struct pp_rank *r) { return pp_word_arrived(r) + 1; }
static inline uint32_t pp_word_to_host(const struct pp_rank *r) { return pp_word_arrived(r) + 2; }
static inline uint32_t pp_word_to_gpu(const struct pp_rank *r) { return pp_word_arrived(r) + 3; }
enum { PP_PRIVATE_WORDS = 4 };

static inline bool pp_told(const struct pp_rank *r, uint32_t word, uint64_t before, uint32_t number)
{
    return fabric_load(r->ht.base.fabric, word) >= before + number;
}
/* Whether the source's word of this kind has been raised since this call began. */
static inline bool pp_come(const struct pp_rank *r, enum pp_word word, uint32_t source)
{
    return ht_word(&r->ht, pp_word(r, word, source)) > 0;
}

static inline uint32_t pp_rank_first(const struct pp_rank *r) { return r->ht.g.node * r->ht.g.local; }
static inline bool pp_is_near(const struct pp_rank *r, uint32_t rank) { return rank / r->ht.g.local == r->ht.g.node; }
/* pp_rows_to() returns how many rows go to a rank, pp_rows_from() how many come from it. */
static inline uint32_t pp_rows_to(const struct pp_rank *r, uint32_t rank)
{
    const uint32_t first = rank * r->ht.g.local_experts;
    return r->sent_before[first + r->ht.g.local_experts] - r->sent_before[first];
}
static inline uint32_t pp_rows_from(const struct pp_rank *r, uint32_t rank)
{
    return r->come_before[rank + 1] - r->come_before[rank];
}
static inline uint32_t *pp_counts(const struct pp_rank *r, uint32_t source)
{
    return (uint32_t *)(void *)(r->ht.base.fabric->heap + r->map.counts) + (size_t)source * r->ht.g.experts;
}

/* The heap offset of row number `row` in a part of the heap: of dispatch's rows, and of combine's.  Without payload,
 * rows have 0 bytes. */
static inline uint64_t pp_dispatched(const struct pp_rank *r, uint64_t part, uint64_t row)
{
    return part + row * r->ht.dispatch_slot.stored;
}
static inline uint64_t pp_returned(const struct pp_rank *r, uint64_t part, uint64_t row)
{
    return part + row * r->ht.combine_slot.stored;
}
/* The number in recv of the first row behind the places for all sources' first rows. */
static inline uint64_t pp_rest_begin(const struct pp_rank *r) { return (uint64_t)r->first_rows * r->ht.g.ranks; }

/* Whether each token has a block.  Then its row stays in registers between the two halves of the kernel that sends. */
static inline bool pp_quick(const struct pp_rank *r) { return r->ht.g.tokens <= r->blocks; }
/* How many barriers of the grid the kernel that sends has.  The kernel that receives has one. */
static inline uint32_t pp_barriers_sending(const struct pp_rank *r)
{
    return !r->launch.sends ? 0 : !r->launch.combine && pp_quick(r) ? 3 : 2;
}

/* Add the workers of r->launch. */
void pp_blocks_launch(struct pp_rank *r); /* moe_pplx_blocks.c */
void pp_host_launch(struct pp_rank *r);   /* moe_pplx_host.c */

#endif
