/* moe_ht_inter.h - private to the internode kernels (PROTOCOLS.md 1.3): memory map and state of a rank.
 *
 *     rank (node n, number i) ──RDMA──► rank (node m, number i) ──NVLink──► rank (node m, number j)
 *     dispatch:  sender, coordinator         forwarder to j                      receiver from i
 *     combine:   reducer         ◄──RDMA──   merger for node n      ◄──NVLink──  returner to i
 *
 * The ranks with the same number on all nodes are a rail.  A token crosses the network once for each node that needs
 * it, on the rail of its source.  On that node it is copied to the ranks that need it.  Combine goes the opposite way:
 * rows are summed on the node, rounded, sent, and summed again at the source.
 *
 * Heap, u32 counts first, then rings of slots (p: ranks of a node, N: nodes, C: channels):
 *     counts_send, counts_recv [N][p + experts of a node + 1]                     counts_nvl [p][N + experts of a rank]
 *     meta_send, meta_recv [C][N][2p + 2]          rdma_send, rdma_recv [C][N][slots]  nvl [C][p][slots]
 *
 * Signal words: barrier_nvl[p]; barrier_rdma[N]; meta, rdma_tail and rdma_head [C][N]; start, end, nvl_tail and
 * nvl_head [C][p][N].  Private words: sent[C], forwarded[C][N][p], reduced[C][warps], opened[C][N], done[C][groups]. */
#ifndef MODELS_MOE_MOE_HT_INTER_H
#define MODELS_MOE_MOE_HT_INTER_H

#include "models/moe/moe_ht.h"

enum {
    INTER_SENDER_WARPS = 7,
    INTER_WARPS = 24,       /* warps that combine's mergers share.  Each node needs at least one, so this is also the
                             * most nodes */
    INTER_WARPS_FEWER = 16, /* INTER_WARPS in UCCL's port and in older versions of DeepEP */
    INTER_GROUPS = 24,      /* the most workers that step the RDMA reducers of a channel */
    INTER_NOTIFY_WARPS = 16,
    INTER_COMMANDS = 8, /* UCCL: chunks of a channel, to all nodes, that may be in flight; each is a put and a signal */
    INTER_TOPK_NODES = 8, /* the kernels are compiled to send a token to at most this many nodes */
};
enum inter_rail_word { INTER_META, INTER_RDMA_TAIL, INTER_RDMA_HEAD, INTER_RAIL_WORDS };
enum inter_nvl_word { INTER_START, INTER_END, INTER_NVL_TAIL, INTER_NVL_HEAD, INTER_NVL_WORDS };

struct inter_rank;

struct inter_notify {
    struct fabric_worker worker;
    struct inter_rank *rank;
    const uint8_t *program; /* the stages that remain */
    struct ht_barrier nvl, rdma;
    uint32_t next; /* the next peer or QP of the stage */
    bool looked;   /* the state of the QPs that must become quiet has been read */
};

/* Seven warps that put a channel's tokens into the send rings of the nodes that need them. */
struct inter_sender {
    struct fabric_worker worker;
    struct inter_rank *rank;
    uint32_t channel, token, first, end;
    uint32_t announced; /* how many nodes have been told the channel's ranges */
    bool read;          /* the ranges have been read */
};

/* One warp that sends by RDMA what the senders have put into a channel's send rings. */
struct inter_coordinator {
    struct fabric_worker worker;
    struct inter_rank *rank;
    uint32_t channel;
    uint32_t issued[HT_NODES_MAX], told[HT_NODES_MAX];
};

/* One warp that passes tokens that have come by RDMA on to one rank of its node. */
struct inter_forwarder {
    struct fabric_worker worker;
    struct inter_rank *rank;
    uint32_t channel, target; /* channel; index of the rank within the node */
    uint32_t relayed;         /* how many words of the ranges are passed on */
    uint32_t node;            /* the node whose tokens were passed on last */
    uint32_t scanned;         /* how many tokens the current chunk has been picked from */
    uint32_t pick_tail;       /* ring.tail when the tokens in pick were picked */
    uint32_t left;            /* how many tokens of all nodes together are left to pass on */
    struct ht_look look;      /* reads of the tails */
    struct ht_ring ring;
    struct {
        uint32_t head, tail, count; /* numbers of tokens: passed on; known to have come; all */
    } from[HT_NODES_MAX];
    uint8_t pick[UINT8_MAX]; /* indices, among the scanned tokens, of those that the rank needs */
};

/* One warp that gives back slots of the RDMA rings once all forwarders have read them. */
struct inter_head_keeper {
    struct fabric_worker worker;
    struct inter_rank *rank;
    uint32_t channel;
    uint32_t ended;               /* one bit for each node whose tokens all forwarders have passed on */
    uint8_t behind[HT_NODES_MAX]; /* [node] the slowest forwarder of those whose words were last read */
    uint64_t due[HT_NODES_MAX];   /* [node] no slot can be given back to the node until the word of the forwarder
                                   * `behind` has this value */
    uint32_t published[HT_NODES_MAX];
};

struct inter_receiver {
    struct fabric_worker worker;
    struct inter_rank *rank;
    uint32_t channel, source; /* channel; index of the forwarding rank within the node */
    bool known;
    uint32_t head, seen, published, count; /* numbers of rows: copied; known to have come; told to the producer; all */
    uint32_t row[HT_NODES_MAX];            /* the next row from each source node */
};

/* Combine: one warp for each rank of the node, which returns the rows that came from that rank. */
struct inter_returner {
    struct fabric_worker worker;
    struct inter_rank *rank;
    uint32_t channel, target;
    uint32_t filling;    /* the node whose part of the ring gets rows */
    bool read;           /* the place of the peer's buffer and the rows to be returned have been read */
    uint32_t under_way;  /* one bit for each node with an unfinished chunk (rows or tail) */
    uint32_t pending;    /* one bit for each node whose unfinished chunk has rows left */
    uint32_t left;       /* rows that are left, of all nodes together */
    struct ht_ring ring; /* the first node's part of the ring, with no slot written.  The part of node n begins n *
                          * slots slots later */
    struct inter_part {
        uint32_t tail, pending, count; /* numbers of rows: written; left in the chunk; all */
        uint32_t row;                  /* the place in recv_x of the first row */
    } part[HT_NODES_MAX];
};

/* Combine: the warps that sum this node's rows of tokens from one source node, and send the sums back.  One worker
 * stands for all of them; with few tokens, each warp has its own worker.  The last of these workers, the lead, opens
 * chunks and sends them. */
struct inter_merger {
    struct fabric_worker worker;
    struct inter_rank *rank;
    struct ht_awaited awaited; /* the row without which the worker cannot go on */
    uint32_t channel, node;
    uint32_t part, parts;            /* the worker's index among the node's mergers, and their number */
    const uint8_t *bits;             /* [count] bit i: rank i of this node has a row of the token */
    uint32_t count, done;            /* tokens of the node; tokens that this worker has summed */
    uint32_t chunk_end, told;        /* lead: the end of the open chunk; how many slots the peer has been told of */
    uint32_t issued;                 /* lead: how many slots have been sent; the peer may not have been told of all of
                                      * them */
    uint32_t upto;                   /* position includes the rows of all tokens before this one */
    uint32_t position[HT_LOCAL_MAX]; /* [rank] the place of the next row in the rank's ring */
    uint32_t tail[HT_LOCAL_MAX];     /* [rank] the ring's tail when it was last read */
    uint64_t reduced_base, opened_base;
};

/* Combine: gives back slots of the NVLink rings that the mergers have read. */
struct inter_merge_keeper {
    struct fabric_worker worker;
    struct inter_rank *rank;
    uint32_t channel;
    uint32_t ended;              /* one bit for each node whose mergers have ended */
    uint32_t changed;            /* one bit for each node whose mergers have read rows that have not been given back */
    uint8_t parts[HT_NODES_MAX]; /* mergers of each node */
    uint64_t seen[INTER_WARPS];  /* [merger] the value of the merger's word when it was last read */
    uint32_t upto[HT_NODES_MAX]; /* [node] how many tokens head includes */
    uint32_t head[HT_NODES_MAX][HT_LOCAL_MAX], published[HT_NODES_MAX][HT_LOCAL_MAX];
};

struct inter_map {
    uint64_t counts_send, counts_recv, counts_nvl, meta_send, meta_recv, rdma_send, rdma_recv, nvl, end;
    uint64_t rdma_bytes, nvl_bytes; /* bytes of one ring of each kind */
};

struct inter_rank {
    struct ht_rank ht;
    struct inter_map map;
    struct ht_slot nvl_slot; /* dispatch's slot as stored in the NVLink rings */
    struct site_given put_row, forward_row, receive_row, return_row;
    uint32_t rail_before[HT_NODES_MAX + 1]; /* [node] how many tokens come on the rail from lower nodes; the last entry:
                                             * from all nodes */
    uint32_t *counts;                       /* the counts that the next peer gets */
    uint8_t *bits;                          /* [rail tokens] bit i: rank i of this node needs the token */
    uint32_t bits_max;
    uint32_t *rail_first, *rail_count;    /* [channel][node] where in bits the node's tokens begin, and how many there
                                           * are */
    uint32_t *rows_first, *rows_count;    /* [rank][channel] where in recv_x the rows begin, and how many there are */
    uint64_t *forwarded_base, *sent_base; /* values of private words at the launch, needed because these words only
                                           * grow */
    struct inter_notify notify;
    struct inter_sender *sender;             /* [channel] */
    struct inter_coordinator *coordinator;   /* [channel] */
    struct inter_forwarder *forwarder;       /* [channel][local] */
    struct inter_head_keeper *head_keeper;   /* [channel] */
    struct inter_receiver *receiver;         /* [channel][local] */
    struct inter_returner *returner;         /* [channel][local] */
    struct inter_merger *merger;             /* [channel][INTER_WARPS], by node */
    struct inter_merge_keeper *merge_keeper; /* [channel] */
    struct ht_reducer *reducer;              /* [channel][group] */
    struct ht_head_keeper *reduce_keeper;    /* [channel] */
};

static inline uint32_t inter_word_rail(const struct inter_rank *r, enum inter_rail_word kind, uint32_t channel,
                                       uint32_t node)
{
    const struct ht_geometry *g = &r->ht.g;
    return g->local + g->nodes + ((uint32_t)kind * g->channels + channel) * g->nodes + node;
}
static inline uint32_t inter_word_nvl(const struct inter_rank *r, enum inter_nvl_word kind, uint32_t channel,
                                      uint32_t number, uint32_t node)
{
    const struct ht_geometry *g = &r->ht.g;
    return inter_word_rail(r, INTER_RAIL_WORDS, 0, 0) +
           (((uint32_t)kind * g->channels + channel) * g->local + number) * g->nodes + node;
}
static inline uint32_t inter_word_sent(const struct inter_rank *r, uint32_t channel)
{
    return inter_word_nvl(r, INTER_NVL_WORDS, 0, 0, 0) + channel;
}
static inline uint32_t inter_forwarded_at(const struct inter_rank *r, uint32_t channel, uint32_t node, uint32_t target)
{
    return (channel * r->ht.g.nodes + node) * r->ht.g.local + target;
}
static inline uint32_t inter_word_forwarded(const struct inter_rank *r, uint32_t channel, uint32_t node,
                                            uint32_t target)
{
    return inter_word_sent(r, r->ht.g.channels) + inter_forwarded_at(r, channel, node, target);
}
static inline uint32_t inter_word_reduced(const struct inter_rank *r, uint32_t channel, uint32_t number)
{
    return inter_word_forwarded(r, r->ht.g.channels, 0, 0) + channel * INTER_WARPS + number;
}
static inline uint32_t inter_word_opened(const struct inter_rank *r, uint32_t channel, uint32_t node)
{
    return inter_word_reduced(r, r->ht.g.channels, 0) + channel * r->ht.g.nodes + node;
}
static inline uint32_t inter_word_done(const struct inter_rank *r, uint32_t channel, uint32_t group)
{
    return inter_word_opened(r, r->ht.g.channels, 0) + channel * INTER_GROUPS + group;
}

/* inter_rail_ring() returns the offset of a node's ring among the rail's `rings`.  inter_nvl_ring() returns the offset
 * of the NVLink ring whose producer has this number. */
static inline uint64_t inter_rail_ring(const struct inter_rank *r, uint64_t rings, uint32_t channel, uint32_t node)
{
    return rings + ((uint64_t)channel * r->ht.g.nodes + node) * r->map.rdma_bytes;
}
static inline uint64_t inter_nvl_ring(const struct inter_rank *r, uint32_t channel, uint32_t number)
{
    return r->map.nvl + ((uint64_t)channel * r->ht.g.local + number) * r->map.nvl_bytes;
}
/* How many u32 words a channel's ranges have: a start for each rank of a node, an end for each, and a start and an end
 * for the node. */
static inline uint32_t inter_meta_words(const struct inter_rank *r) { return 2 * r->ht.g.local + 2; }
static inline uint64_t inter_meta_offset(const struct inter_rank *r, uint64_t metas, uint32_t channel, uint32_t node)
{
    return metas + ((uint64_t)channel * r->ht.g.nodes + node) * inter_meta_words(r) * sizeof(uint32_t);
}
/* The ranges that came from the node; NULL if they have not come yet. */
static inline const uint32_t *inter_meta(const struct inter_rank *r, uint32_t channel, uint32_t node)
{
    if (!ht_word(&r->ht, inter_word_rail(r, INTER_META, channel, node))) return NULL;
    return (const void *)(r->ht.base.fabric->heap + inter_meta_offset(r, r->map.meta_recv, channel, node));
}

/* The number of QPs to a peer.  Heads have QPs of their own.  In older versions of DeepEP they share the rows' QPs. */
static inline uint32_t inter_queues(const struct moe_options *o)
{
    return moe_deepep_before(o->deepep, MOE_DEEPEP_HEADS) ? o->num_sms / 2 : o->num_sms / 2 * 2;
}
static inline uint32_t inter_head_queue(const struct moe_options *o, uint32_t channel)
{
    return (o->num_sms / 2 + channel) % inter_queues(o);
}

/* How many warps the mergers of one node have. */
static inline uint32_t inter_merge_warps(const struct moe_options *o)
{
    const bool fewer = o->uccl || moe_deepep_before(o->deepep, MOE_DEEPEP_FORWARDERS);
    const uint32_t nodes = o->ranks / o->ranks_per_node, warps = fewer ? INTER_WARPS_FEWER : INTER_WARPS;
    return nodes < warps ? warps / nodes : 1;
}
/* Returns how a worker reads this word.  UCCL has the words in the host's memory: first all heads, then all tails, both
 * in the order of channels and nodes. */
static inline struct ht_look inter_look(const struct inter_rank *r, enum inter_rail_word kind, uint32_t channel,
                                        uint32_t node)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t before = kind == INTER_RDMA_HEAD ? 0 : g->channels;
    return (struct ht_look){ .host = r->ht.base.options->host_words, .place = (before + channel) * g->nodes + node };
}
/* The index of a node's first merger in r->merger. */
static inline uint32_t inter_merger_first(const struct inter_rank *r, uint32_t node)
{
    return node * inter_merge_warps(r->ht.base.options);
}

void inter_dispatch_launch(struct inter_rank *r);
void inter_forward_launch(struct inter_rank *r, uint32_t channel); /* the workers of SM 2c, and the receivers */
void inter_forward_give(struct inter_rank *r);
void inter_combine_launch(struct inter_rank *r);

#endif
