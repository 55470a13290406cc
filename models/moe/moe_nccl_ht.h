/* moe_nccl_ht.h - private to NCCL EP's high-throughput kernels within a node (PROTOCOLS.md 1.19): memory map, words and
 * state of a rank.
 *
 * A block has two pipelines, each with a ring of stages in shared memory.  A stage holds one row.  The bulk engine
 * brings it in and, in dispatch, stores it to each rank that needs it.
 *
 *     layout     routing of all ranks ──► the place of each row at its target
 *     dispatch   token ──► stage ──bulk stores──► in[place] of each target      a barrier at the end
 *     combine    out[place] of each target ──bulk loads──► stage ──► sum        a barrier at the start
 *
 * Heap, only where payload is stored: in and out [rows that may come]; came [pipelines][buffers], where rows end that
 * combine loads from peers.
 *
 * Signal words: told[source], which says that the source has come to the barrier; open, which the rank tells itself
 * behind the barrier.  Private words: finished, how many stages have ended; for each pipeline turn, how many items have
 * passed. */
#ifndef MODELS_MOE_MOE_NCCL_HT_H
#define MODELS_MOE_MOE_NCCL_HT_H

#include "models/moe/moe_ht.h"

enum {
    NH_SHARED_BYTES = 232448, /* shared memory of an SM */
    NH_TOKENS_MAX = 8192,     /* of a rank */
    NH_PIPELINES = 2,         /* of a block; each SM has one block */
    NH_STAGES = 6,            /* of a pipeline */
    NH_IN_FLIGHT = 4,         /* dispatch: tokens whose stores may be under way when the pipeline goes on */
    NH_CHUNK = 64,            /* tokens of a chunk */
    NH_GROUP = 4,             /* combine: tokens of a group */
    NH_MAP_LOAD = 16,         /* tokens of which a load of the map tells whether the node needs them */
    NH_SCAN_WARPS = 16,
    NH_SUM_WARPS = 2,   /* warps of a pipeline that add */
    NH_SUM_STAGES = 14, /* combine: rows that a block has in shared memory, with two sums */
};

struct nh_rank;

/* What goes through a pipeline: in dispatch a token; in combine a token's row of one rank. */
struct nh_item {
    uint32_t token, rank; /* rank: NH_NONE if the token has no row */
};
enum { NH_NONE = UINT16_MAX };

/* The items of all pipelines.  Those of pipeline p are item[first[p]] to item[first[p + 1] - 1], in order. */
struct nh_list {
    struct nh_item *item;
    uint32_t *first; /* [pipelines + 1] */
};

/* A stage of a pipeline's ring.  It takes every NH_STAGES-th item. */
struct nh_stage {
    struct fabric_worker worker;
    struct nh_rank *rank;
    uint32_t pipeline, number; /* number: of its item among those of the pipeline */
    uint32_t target;           /* dispatch: the next rank that gets the token */
    uint8_t state;
    bool passed; /* the item's turn has come, and the next item has been told */
};

/* Stands for the thread of a block that takes part in the barrier of all ranks. */
struct nh_gate {
    struct fabric_worker worker;
    struct nh_rank *rank;
    uint32_t next, come; /* how many ranks are told; how many have come */
    uint8_t state;
    bool combine;
};

struct nh_map {
    uint64_t in, out, came, end;
};

struct nh_rank {
    struct ht_rank ht;
    struct nh_map map;
    uint32_t *place;           /* [tokens][ranks] the token's place among all rows that come to a rank that needs it */
    struct nh_list token, row; /* dispatch's and combine's items */
    uint32_t pipelines, buffers;
    struct nh_stage *stage; /* [pipelines][NH_STAGES] */
    struct nh_gate gate;
    struct site_given add[2];   /* bytes of a row that a warp adds; [1]: of a token's last row */
    uint64_t finished, *turned; /* values of private words: when this launch has ended; [pipelines] when it began */
};

static inline uint32_t nh_word_open(const struct nh_rank *r) { return r->ht.g.ranks; }
static inline uint32_t nh_word_finished(const struct nh_rank *r) { return r->ht.g.ranks + 1; }
static inline uint32_t nh_word_turn(const struct nh_rank *r, uint32_t pipeline) { return r->ht.g.ranks + 2 + pipeline; }

static inline bool nh_is_open(const struct nh_rank *r) { return ht_word(&r->ht, nh_word_open(r)) > 0; }

/* The first rank at or after `from` that needs the token; the number of ranks if there is none. */
static inline uint32_t nh_target_next(const struct nh_rank *r, uint32_t token, uint32_t from)
{
    while (from < r->ht.g.ranks && !ht_goes_to(&r->ht, token, from)) from++;
    return from;
}
static inline uint64_t nh_place(const struct nh_rank *r, uint32_t token, uint32_t rank)
{
    return r->place[(size_t)token * r->ht.g.ranks + rank];
}

/* moe_nccl_ht_pipes.c: makes the pipelines' lists, and launches dispatch and combine. */
void nh_lists_make(struct nh_rank *r);
void nh_dispatch_launch(struct nh_rank *r);
void nh_combine_launch(struct nh_rank *r);

#endif
