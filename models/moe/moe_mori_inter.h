/* moe_mori_inter.h - private to MoRI's kernels between nodes (PROTOCOLS.md 1.16): memory map, words and state of a
 * rank.
 *
 * A token goes to each other node once, to the rank of the same number there, its proxy, which passes it on.
 *
 *   dispatch   token ── copy ──► staged ── put of a chunk ──► came[node][place] of the proxy ── stores ──► in
 *   combine    made ── copy ──► out[source][token] ── loads of a node's ranks ──► partial[node][place] of the proxy
 *              ── put of a chunk ──► back[node][place] ── sum of nodes ──► combined
 *
 * Heap: staged [tokens_max], came [nodes][tokens_max], without payload the choices alone; and only where payload is
 * stored: in, made, out [ranks][tokens_max], partial, back [nodes][tokens_max], gathered [warps][local], where loads
 * end.  At a proxy a token's place is its number or, if only those go that are needed, its number among those of its
 * chunk; empty chunks have none.  In in, made and out it is the token's number at its source.  A row there has come if
 * its meta, which is zeroed when it is read, is not 0. */
#ifndef MODELS_MOE_MOE_MORI_INTER_H
#define MODELS_MOE_MOE_MORI_INTER_H

#include "models/moe/moe_ht.h"

enum {
    MI_CHUNK = 64, /* tokens of a put: a lane looks at each */
    MI_QUEUES = 2, /* QPs to a peer, as MoRI's tuning has them; its default is 1 */
    MI_DEPTH = 1024,
    MI_WARPS_MAX = 16, /* of a block */
    MI_SHARES = 4,     /* low latency: warps that share a row for another node */
    MI_TEAMS = 8,      /* else: blocks that share a chunk */
};

enum mi_phase { MI_STAGE, MI_DISPATCH, MI_GIVE, MI_MEET, MI_COMBINE, MI_SUM, MI_PHASES };

struct mi_map {
    uint64_t staged, came, in, made, out, partial, back, gathered, end;
};

struct mi_rank;

/* Where a warp is in its kernel; each begins with the first that it has. */
enum mi_state { MI_BEGIN, MI_SEND, MI_SENT, MI_ANNOUNCE, MI_RELAY, MI_ADD, MI_COUNT, MI_POST };

struct mi_warp {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t number, item, round, pass, target, node; /* number: in the grid */
    uint32_t place, share;                            /* combine: of the row that it sums, and which part */
    uint8_t state;                                    /* enum mi_state */
    bool looked;                                      /* what the item needs is read */
    uint8_t bits;                                     /* combine: the ranks of this node that have a row of the token */
};

/* A block of a kernel that works in own memory: warps take items, from first on. */
struct mi_local {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t first, count;
    enum mi_phase phase;
};

/* The last warp to come, which tells the peers, and the barrier at combine's beginning. */
struct mi_gate {
    struct fabric_worker worker;
    struct mi_rank *rank;
    uint32_t next, come;
    enum mi_phase phase;
};

struct mi_rank {
    struct ht_rank ht;
    struct mi_map map;
    uint32_t blocks, far_blocks, warps;  /* of the grid; those that serve other nodes; of a block */
    uint32_t sms, chunks;                /* of the GPU; of a rank's tokens, at most */
    uint32_t sent;                       /* far warps that have sent in this launch */
    uint32_t told[HT_LOCAL_MAX];         /* rows that this rank has moved to each rank of its node */
    uint32_t *send_place;                /* [nodes][tokens] a token's place at the proxy; UINT32_MAX: it is not sent */
    uint32_t *send_chunks;               /* [nodes] */
    uint32_t *chunk_tokens, *chunk_done; /* [nodes][chunks] tokens that have come; parts that are summed */
    uint32_t *row_place;                 /* with payload, [rows] the slot of the area that a received row lies in */
    struct mi_warp *warp;
    struct mi_local *local;
    struct mi_gate gate;
    struct fabric_given near, relayed, sum, nodes;
    enum mi_phase launched;
};

#endif
