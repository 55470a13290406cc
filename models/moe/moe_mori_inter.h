/* moe_mori_inter.h - private to MoRI's kernels between nodes (PROTOCOLS.md 1.16): memory map, words and state of a
 * rank.
 *
 * A token goes once to each other node that needs it (low latency: to every other node).  There its proxy passes it on:
 * the rank that has the same number within its node as the token's rank.
 *
 *     dispatch   token ── copy ──► staged ── put of a chunk ──► came[node][place] of the proxy ── stores ──► in
 *     combine    made ── copy ──► out[source][token] ── loads of a node's ranks ──► partial[node][place] of the proxy
 *                ── put of a chunk ──► back[node][place] ── sum of nodes ──► combined
 *
 * Heap: staged [tokens_max] and came [nodes][tokens_max].  Without payload they have only the choices.  Only where
 * payload is stored: in, made and out [ranks][tokens_max]; partial and back [nodes][tokens_max]; gathered
 * [warps][local], where loads end.
 *
 * In low latency, a token's place at a proxy is its number.  Other kernels send only needed tokens: they follow one
 * another within their chunk, and empty chunks have no places.  In `in`, `made` and `out`, a row's place is its token's
 * number at the source.  A row has come if its meta is not 0, and the reader sets the meta to 0 again. */
#ifndef MODELS_MOE_MOE_MORI_INTER_H
#define MODELS_MOE_MOE_MORI_INTER_H

#include "models/moe/moe_ht.h"

enum {
    MI_CHUNK = 64, /* the most tokens of a put; each has a lane */
    MI_QUEUES = 2, /* QPs to a peer, as in MoRI's tuning; MoRI's default is 1 */
    MI_DEPTH = 1024,
    MI_WARPS_MAX = 16, /* the most warps of a block */
    MI_SHARES = 4,     /* low latency: how many warps share the sum of a row for another node */
    MI_TEAMS = 8,      /* other kernels: how many blocks share a chunk */
};

enum mi_phase { MI_STAGE, MI_DISPATCH, MI_GIVE, MI_MEET, MI_COMBINE, MI_SUM, MI_PHASES };

struct mi_map {
    uint64_t staged, came, in, made, out, partial, back, gathered, end;
};

struct mi_rank;

/* What a warp does next in its kernel. */
enum mi_state { MI_BEGIN, MI_SEND, MI_SENT, MI_ANNOUNCE, MI_RELAY, MI_ADD, MI_COUNT, MI_POST };

struct mi_warp {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t number, item, round, pass, target, node; /* number: the warp's number in the grid */
    uint32_t place, share;                            /* combine: the place of the row that the warp sums, and which
                                                       * part of the row it sums */
    uint8_t state;                                    /* enum mi_state */
    bool looked;                                      /* the choices that the item needs have been read */
    uint8_t bits;                                     /* combine: bit i: rank i of this node has a row of the token */
};

/* An SM's share of a kernel that uses only the rank's own memory: `count` items from `first` on. */
struct mi_local {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t first, count;
    enum mi_phase phase;
};

/* Stands for the warp that ends its kernel last and then tells the peers, and for the barrier at combine's start. */
struct mi_gate {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t next, come;
    enum mi_phase phase;
};

struct mi_rank {
    struct ht_rank ht;
    struct mi_map map;
    uint32_t blocks, far_blocks, warps;  /* blocks of the grid; those of them that serve other nodes; warps of a
                                          * block */
    uint32_t sms, chunks;                /* SMs of the GPU; the most chunks of a rank's tokens */
    uint32_t sent;                       /* how many of the warps that serve other nodes have sent all their chunks in
                                          * this launch */
    uint32_t told[HT_LOCAL_MAX];         /* how many rows this rank has moved to each rank of its node */
    uint32_t *send_place;                /* [nodes][tokens] a token's place at the proxy; UINT32_MAX: the token is
                                          * not sent */
    uint32_t *send_chunks;               /* [nodes] how many chunks are sent to the node */
    uint32_t *chunk_tokens, *chunk_done; /* [nodes][chunks] how many tokens have come; how many parts of their sums are
                                          * done */
    uint32_t *row_place;                 /* with payload: [rows] the received row's place in `in`, `made` and `out` */
    struct mi_warp *warp;
    struct mi_local *local;
    struct mi_gate gate;
    struct site_given near, relayed, sum, nodes;
    enum mi_phase launched;
};

#endif
