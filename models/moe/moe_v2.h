/* moe_v2.h - private to the V2 kernels (protocols.md 1.7): memory map and state of a rank.
 *
 * Every token has its slot before anything is sent, so there is no flow control: a channel (one warp of each role)
 * has room for all tokens that it can ever get.  Token t of a rank belongs to channel t mod C.
 *
 *   direct (one node)      sender c ──NVLink──► up[source number][c][its tokens]
 *   hybrid (nodes)         sender c ──RDMA──► out[source node][c][..]; forwarder c ──NVLink──► up[number][c][..]
 *
 * A kernel ends with a barrier; the next one, the epilogue, copies what has come into the output, sorted by source
 * rank and token.  Combine takes the rows back to the same places in areas of its own, and its epilogue sums them.
 *
 * Heap: up [local][C][up_slots], combine_up the same; hybrid: out_send [tokens], out [N][C][out_slots], and combine's
 * out_send and out [N][C][out_slots].
 * Signal words: barrier_nvl[local], barrier_rdma[N]; up and combine_up [C][local], out and combine_out [C][N], where
 * a value is twice the number of slots written, plus one when they are all; and the private finished. */
#ifndef MODELS_MOE_MOE_V2_H
#define MODELS_MOE_MOE_V2_H

#include <string.h>
#include "models/moe/moe_ht.h"

enum {
    V2_WARPS = 4,                           /* channels of an SM */
    V2_OUT_EVERY = 6, V2_UP_EVERY = 3,      /* tokens between tails, and in a forwarder's chunk */
    V2_META_MAX = 4 + HT_NODES_MAX,
    V2_EPILOGUE_WARPS = 32,
    V2_QUEUES_MAX = 129,
};

struct v2_rank;

/* What a forwarder (in direct mode the sender itself) has passed on to its node, in order. */
struct v2_pass { uint16_t node; uint8_t bits; uint32_t sequence; };

/* Hybrid: one warp that sends a channel's tokens to the nodes that need them. */
struct v2_sender {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, token;                /* next one */
    uint32_t node;                          /* that is next to get it */
    bool copied;                            /* it lies in the send area */
    uint32_t sent[HT_NODES_MAX], told[HT_NODES_MAX];
};

/* One warp that passes on to its node's ranks what came for a channel; in direct mode the rank's own tokens. */
struct v2_forwarder {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, node, target;         /* node last served; rank whose area is being written */
    uint32_t read[HT_NODES_MAX];
    uint32_t picked;                        /* tokens of the chunk under way */
    uint32_t pick[HT_LOCAL_MAX][V2_OUT_EVERY], pick_tail[HT_LOCAL_MAX];
    uint32_t told[HT_LOCAL_MAX];
    struct ht_ring area[HT_LOCAL_MAX];
};

/* Combine: one warp that takes a channel's rows back to the ranks of the node that passed them on. */
struct v2_returner {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, target;               /* number of the rank whose rows are under way */
    uint32_t told[HT_LOCAL_MAX];
    struct ht_ring area[HT_LOCAL_MAX];
};

/* Hybrid combine: one warp that sums the node's rows of each token and sends the sum to its source. */
struct v2_merger {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, done;                 /* tokens, in the order of pass */
    bool reduced;                           /* the next one's sum is made but not sent */
    uint32_t position[HT_LOCAL_MAX];
    uint32_t sent[HT_NODES_MAX], told[HT_NODES_MAX];
};

/* Waits until all workers of the rank have finished and everything has come, then for all peers. */
struct v2_gate {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t kind, from_count;              /* the words that must say finished: kind, of how many producers */
    uint32_t stage, next;
    struct ht_barrier nvl, rdma;
};

/* An SM's share of the rows (after dispatch) or tokens (after combine). */
struct v2_epilogue {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t first, end;
    bool combine;
};

struct v2_map {
    uint64_t up, combine_up, out_send, out, combine_out_send, combine_out, end;
    uint32_t up_slots, out_slots;           /* of a channel from one source */
};

struct v2_rank {
    struct ht_rank ht;
    struct v2_map map;
    struct ht_slot up_slot;                 /* dispatch's slot as the up areas store it */
    uint32_t channels;
    uint32_t *position;                     /* [tokens][targets] as in struct ht_layout, for these channels */
    uint32_t pass_max;
    struct v2_pass *pass;                   /* [channel][pass_max] */
    uint32_t *pass_count;                   /* [channel] */
    uint32_t *up_count;                     /* [channel][local] slots that came from each rank of the node */
    uint32_t *up_row;                       /* [local][channel][up_slots] row of recv_x of each slot; payload only */
    uint64_t *row_slot;                     /* [rows] heap offset of each row's slot; payload only */
    struct v2_sender *sender;               /* [channel] */
    struct v2_forwarder *forwarder;         /* [channel] */
    struct v2_returner *returner;           /* [channel] */
    struct v2_merger *merger;               /* [channel] */
    struct v2_epilogue *epilogue;           /* [num_sms] */
    struct v2_gate gate;
    uint64_t finished;                      /* what the private word is when all workers launched so far have ended */
};

static inline bool v2_hybrid(const struct v2_rank *r) { return r->ht.g.nodes > 1; }
static inline uint32_t v2_rail(const struct v2_rank *r, uint32_t node) { return node * r->ht.g.local + r->ht.g.self; }
static inline uint32_t v2_neighbour(const struct v2_rank *r, uint32_t n) { return r->ht.g.node * r->ht.g.local + n; }
static inline uint16_t v2_queue(const struct v2_rank *r, uint32_t channel)
{
    return (uint16_t)(channel % r->ht.base.fabric->queue_count);
}

enum v2_word { V2_UP, V2_COMBINE_UP, V2_OUT, V2_COMBINE_OUT };
static inline uint32_t v2_word(const struct v2_rank *r, enum v2_word kind, uint32_t channel, uint32_t from)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t base = g->local + g->nodes;
    if (kind < V2_OUT) return base + ((uint32_t)kind * r->channels + channel) * g->local + from;
    return base + 2 * r->channels * g->local + (((uint32_t)kind - V2_OUT) * r->channels + channel) * g->nodes + from;
}
static inline uint32_t v2_word_finished(const struct v2_rank *r)
{
    return v2_word(r, V2_OUT, 0, 0) + 2 * r->channels * r->ht.g.nodes;
}

/* What a slot tells of its token; V2_META_MAX bytes. */
static inline void v2_meta_make(const struct v2_rank *r, uint32_t token, uint8_t *meta)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t source_token = g->rank * r->ht.base.options->tokens_max + token;
    memset(meta, 0, V2_META_MAX);
    memcpy(meta, &source_token, sizeof source_token);
    memcpy(meta + sizeof source_token, &r->ht.layout.bits[(size_t)token * g->nodes], g->nodes);
}

static inline uint32_t v2_up_at(const struct v2_rank *r, uint32_t from, uint32_t channel)
{
    return (from * r->channels + channel) * r->map.up_slots;
}
static inline uint64_t v2_out_at(const struct v2_rank *r, uint32_t node, uint32_t channel, uint32_t sequence)
{
    return ((uint64_t)node * r->channels + channel) * r->map.out_slots + sequence;
}

void v2_dispatch_launch(struct v2_rank *r);
void v2_combine_launch(struct v2_rank *r);
void v2_worker_add(struct v2_rank *r, struct fabric_worker *w, uint32_t channel);
/* Counts a worker of the channel as finished and ends it. */
enum worker_step v2_finish(struct fabric_worker *w, const struct v2_rank *r);
/* The kernel's last worker; the words of kind from from_count producers must say that everything has come. */
void v2_gate_launch(struct v2_rank *r, enum v2_word kind, uint32_t from_count);
/* Tells a peer how many slots of an area are written and whether they are all, unless it knows. */
bool v2_tell(struct fabric_worker *w, const struct v2_rank *r, uint32_t peer, uint32_t channel, uint32_t word,
             uint32_t count, bool finished, uint32_t *told);

#endif
