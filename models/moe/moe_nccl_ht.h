/* moe_nccl_ht.h - private to NCCL EP's high-throughput kernels (PROTOCOLS.md 1.19): memory map, words and state of a
 * rank.
 *
 * A block has two pipelines, each with a ring of stages in shared memory.  A stage holds one row.  The bulk engine
 * brings it in and, in dispatch, stores it to each rank of the node that needs it.  Tokens cross nodes once, between
 * ranks with the same place in their nodes, and their rows come back as the sum of a node.
 *
 *     layout     routing of all ranks ──► the place of each row at its target
 *     dispatch   token ──► stage ──bulk stores──► in[place] of each target      a barrier of the node at the end
 *                send ──puts──► far[node] ──► stage ──bulk stores──► in[place] of each target
 *     combine    out[place] of each target ──bulk loads──► stage ──► sum        a barrier of the node at the start
 *                out[place] ──► stage ──► red[node] ──puts──► back[node] ──► stage ──► sum
 *
 * Heap, only where payload is stored: in and out [rows that may come]; came [pipelines][buffers], the targets of rows
 * that combine loads from peers.  Between nodes also send [tokens], and far, red and back [node][tokens].
 *
 * Signal words: told[rank of the node], which says that it has reached the barrier; open, which the rank raises itself
 * after the barrier; between nodes far and back [node][chunk], which say that a chunk's puts have arrived.  Private
 * words: finished, how many stages have ended; for each pipeline turn, how many items have passed, and back, how many
 * stages combine has given back; for each block made, how many sums for other nodes have been stored. */
#ifndef MODELS_MOE_MOE_NCCL_HT_H
#define MODELS_MOE_MOE_NCCL_HT_H

#include "models/moe/moe_ht.h"

enum {
    NH_TOKENS_MAX = 8192,           /* of a rank */
    NH_PIPELINES = 2,               /* of a block at most; each SM has one block */
    NH_CHUNKS = NH_TOKENS_MAX / 64, /* of a rank at most */
    NH_SUMS = 2,                    /* combine: sums in shared memory that the engine stores */
    NH_GROUP = 4,                   /* combine: tokens of a group */
    NH_MAP_LOAD = 16,               /* tokens of which a load of the map tells whether the node needs them */
    NH_BATCH = 8,                   /* combine: the most rows of a put, and how many sums are counted together */
    NH_SCAN_WARPS = 16,
    NH_SUM_WARPS = 4, /* warps of a block that add up the rows of its own tokens; between nodes as many for others' */
};
#define NH_NO_PLACE UINT32_MAX

/* In what the libraries' kernels differ. */
struct nh_form {
    const char *name;
    uint8_t pipelines;          /* of a block; between nodes combine has NH_PIPELINES */
    uint8_t stages, stages_far; /* of a pipeline; of one of combine between nodes */
    uint8_t scan, scan_rows;    /* sites of layout: its passes over tokens; what it writes for a row of its own, or 0 */
    uint8_t scan_sms[2];        /* layout's SMs in one domain and between nodes; 0: num_sms */
    uint8_t in_flight;          /* dispatch: tokens whose stores may be under way when the pipeline goes on */
    uint16_t chunk;             /* tokens of a chunk */
    bool tells_all;             /* between nodes all NH_CHUNKS chunks are told of, else those that a rank may have */
    bool lanes;                 /* each row of a token has a lane of the filling warp, and they go on together */
    uint8_t ask, places, add, round; /* sites: asking for a token's stores; finding its rows, adding one to the sum,
                                      * rounding the sum */
};

struct nh_rank;

/* What goes through a pipeline: in dispatch a token; in combine a row of a token. */
struct nh_item {
    uint32_t token;
    uint8_t node;  /* whose token it is: that of the rank of this node with the same place as this one */
    uint8_t kind;  /* enum nh_kind */
    uint16_t from; /* dispatch: the token's place in its chunk of far; combine: which of the token's places the row
                    * has, or its node */
};
enum nh_kind { NH_NEAR, NH_FAR, NH_NONE }; /* a row of this node; one that other nodes have put; no row */

/* The items of all pipelines.  Those of pipeline p are item[first[p]] to item[first[p + 1] - 1], in order. */
struct nh_list {
    struct nh_item *item;
    uint32_t *first; /* [pipelines + 1] */
    uint32_t stages; /* of a pipeline */
};

/* A stage of a pipeline's ring.  With n stages, it takes every n-th item. */
struct nh_stage {
    struct fabric_worker worker;
    struct nh_rank *rank;
    uint32_t pipeline, number; /* number: of its item among those of the pipeline */
    uint32_t target;           /* dispatch: the token's next place; combine: the next node to be awaited */
    uint8_t state;
    bool passed; /* the item's turn has come, and the next item has been told */
};

/* Stands for the thread of a block that takes part in the barrier of the node. */
struct nh_gate {
    struct fabric_worker worker;
    struct nh_rank *rank;
    uint32_t next, come; /* how many ranks are told; how many have come */
    uint32_t awaited;    /* how many of the chunks' words have come */
    uint8_t state;
    bool combine;
};

/* Between nodes: a warp that puts chunks to other nodes. */
struct nh_putter {
    struct fabric_worker worker;
    struct nh_rank *rank;
    uint32_t number, chunk; /* chunk: the number of its next chunk among all chunks for all nodes */
    uint32_t token;         /* the next token of the chunk */
    uint32_t part;          /* dispatch: the next part of that token */
    uint32_t sent, before;  /* combine: rows put of this chunk; of the block's chunks before */
    uint16_t flushed;
    bool looked;
};

/* Where a row goes: a rank of the node, and the row's number among those that come to it. */
struct nh_place {
    uint32_t row; /* NH_NO_PLACE: the token has no more places */
    uint32_t rank;
};

struct nh_map {
    uint64_t in, out, came, send, far, red, back, end;
};

struct nh_rank {
    struct ht_rank ht;
    const struct nh_form *form;
    struct nh_map map;
    struct nh_place *place; /* [node][tokens_max][width] of the tokens of the rank of that node with the same place as
                             * this one, in the order of ranks and, by experts, of experts */
    uint32_t width;         /* the most places of a token on a node */
    uint32_t gap_rows;      /* by experts: rows of this rank between experts */
    struct ht_local *gaps;  /* [blocks] */
    struct nh_list token, row; /* dispatch's and combine's items */
    uint32_t pipelines, buffers;
    uint32_t sum_warps;       /* of a pipeline of combine */
    uint32_t send_bytes;      /* of a token in send, which has probabilities for the experts of all nodes */
    struct nh_stage *stage;   /* [pipelines][stages] */
    struct nh_putter *putter; /* [pipelines], between nodes */
    struct nh_gate gate;
    struct site_given find,
        ask[HT_TOPK_MAX + 1];       /* ranks of the node; ask: bulk stores to each, and a token's places */
    struct site_given add, round;   /* bytes of a row that a warp adds; that it rounds */
    uint64_t finished;              /* the value of the private word when this launch has ended */
    uint64_t *turned, *made_before; /* [2 * pipelines], [blocks]: values of the private words when this launch began */
};

static inline uint32_t nh_blocks(const struct nh_rank *r) { return r->pipelines / NH_PIPELINES; }
static inline uint32_t nh_node_before(const struct nh_rank *r, uint32_t n)
{
    return (r->ht.g.node + r->ht.g.nodes - n) % r->ht.g.nodes;
}

static inline uint32_t nh_word_open(const struct nh_rank *r) { return r->ht.g.local; }
static inline uint32_t nh_word_finished(const struct nh_rank *r) { return r->ht.g.local + 1; }
static inline uint32_t nh_word_turn(const struct nh_rank *r, uint32_t pipeline)
{
    return r->ht.g.local + 2 + 2 * pipeline;
}
static inline uint32_t nh_word_back(const struct nh_rank *r, uint32_t pipeline)
{
    return nh_word_turn(r, pipeline) + 1;
}
static inline uint32_t nh_word_made(const struct nh_rank *r, uint32_t block)
{
    return nh_word_turn(r, r->pipelines) + block;
}
static inline uint32_t nh_word_chunk(const struct nh_rank *r, bool combine, uint32_t node, uint32_t chunk)
{
    return nh_word_made(r, nh_blocks(r)) + ((combine ? r->ht.g.nodes : 0) + node) * NH_CHUNKS + chunk;
}
static inline bool nh_is_open(const struct nh_rank *r) { return ht_word(&r->ht, nh_word_open(r)) > 0; }
static inline bool nh_chunk_came(const struct nh_rank *r, bool combine, uint32_t node, uint32_t chunk)
{
    const uint32_t word = nh_word_chunk(r, combine, node, chunk);
    return ht_word_reached(r->ht.base.fabric, word, moe_word_make(r->ht.epoch, 1));
}
/* How many chunks a rank has. */
static inline uint32_t nh_chunks(const struct nh_rank *r)
{
    return moe_ceiling(r->ht.base.options->tokens_max, r->form->chunk);
}

/* The places on this node of a token of `node` (see nh_rank), and how many there are. */
static inline struct nh_place *nh_places(const struct nh_rank *r, uint32_t node, uint32_t token)
{
    return r->place + ((size_t)node * r->ht.base.options->tokens_max + token) * r->width;
}
static inline uint32_t nh_copies(const struct nh_rank *r, uint32_t node, uint32_t token)
{
    const struct nh_place *place = nh_places(r, node, token);
    uint32_t count = 0;
    while (count < r->width && place[count].row != NH_NO_PLACE) count++;
    return count;
}
static inline bool nh_needed(const struct nh_rank *r, uint32_t node, uint32_t token)
{
    return nh_places(r, node, token)->row != NH_NO_PLACE;
}
/* Whether a node needs one of this rank's own tokens. */
static inline bool nh_goes_to_node(const struct nh_rank *r, uint32_t token, uint32_t node)
{
    return r->ht.g.nodes > 1 ? r->ht.layout.mask[token] >> node & 1 : nh_needed(r, 0, token);
}
/* How many tokens the rank of a node with the same place as this one has. */
static inline uint32_t nh_tokens(const struct nh_rank *r, uint32_t node)
{
    return r->ht.base.routing->rank[ht_rail(&r->ht.g, node)].tokens;
}

/* The number, from a part of the heap on, of a row of a token of `node`. */
static inline uint64_t nh_row_of(const struct nh_rank *r, uint32_t node, uint32_t token)
{
    return (uint64_t)node * r->ht.base.options->tokens_max + token;
}

/* moe_nccl_ht_items.c.  nh_lists_make() finds places, and makes the pipelines' lists.  nh_token_pack() writes a token
 * of this rank, with probabilities for the experts of `nodes` nodes from `node` on. */
void nh_lists_make(struct nh_rank *r);
void nh_token_pack(const struct nh_rank *r, uint32_t token, uint32_t node, uint32_t nodes, uint8_t *slot);
/* moe_nccl_ht_pipes.c: launch dispatch and combine. */
void nh_dispatch_launch(struct nh_rank *r);
void nh_combine_launch(struct nh_rank *r);
/* moe_nccl_ht_gate.c: add the workers of the barrier, and those that put. */
void nh_gate_launch(struct nh_rank *r, bool combine);
void nh_putters_launch(struct nh_rank *r, bool combine);

#endif
