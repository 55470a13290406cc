/* moe_v2.h - private to the V2 kernels (PROTOCOLS.md 1.7): memory map and state of a rank.
 *
 * Areas have room for all tokens that can ever come, and every token's slot is known before the first token is sent.
 * So there is no flow control.  A warp has one buffer in shared memory.  It loads a token there with the bulk copy
 * engine, and stores it from there once for each target.
 *
 *     direct (one node)      any warp ──NVLink──► up[source number][its tokens]
 *     direct (nodes)         likewise, and ──RDMA──► to ranks beyond NVLink, from out_send
 *     hybrid (nodes)         sender c ──RDMA──► out[source node][c][..]; forwarder c ──NVLink──► up[number][c][..]
 *
 * Hybrid kernels have C channels, with one warp of each role in a channel.  Token t of a rank belongs to channel t % C.
 * A kernel begins with a barrier, after which its peers' areas are free.  It ends with a barrier, after which all rows
 * have come.  Hybrid combine has no barrier at its end: it ends when the words of all nodes have come.  While
 * dispatch's warps move rows, its notify warps count how many rows will come; a cached dispatch has none.  The next
 * kernel, the epilogue, copies the rows that have come into the output, sorted by source rank and token.  Combine takes
 * the rows back to the same places in its own areas, and its epilogue sums them.  In direct mode all ranks count as one
 * node, whichever links connect them.
 *
 * Heap: up and combine_up [local][C][up_slots].  C is 1 in direct mode.  Hybrid kernels also have out_send [tokens],
 * out, combine_out_send and combine_out [N][C][out_slots].  Direct kernels over several nodes also have out_send and
 * combine_out_send.
 *
 * Signal words: barrier_nvl[local], barrier_rdma[N]; counts_nvl[local], which is 1 + a count; counts_rdma[N].  Hybrid
 * kernels also have up and combine_up [C][local], out and combine_out [C][N].  Their value is twice the number of slots
 * written, plus 1 when all are written.  Private words: open, notified and finished. */
#ifndef MODELS_MOE_MOE_V2_H
#define MODELS_MOE_MOE_V2_H

#include <string.h>
#include "models/moe/moe_ht.h"

enum {
    V2_SHARED_ALIGN = 32, /* alignment of a token's parts in memory */
    V2_NOTIFY_WARPS = 4,
    V2_WARPS_MAX = 32,
    V2_CHANNELS = 4,   /* hybrid: channels of an SM */
    V2_OUT_EVERY = 6,  /* tokens put to a node before it is told of them; the most tokens of a forwarder's chunk */
    V2_UP_EVERY = 3,   /* rows that are returned before the peer is told of them */
    V2_LOCAL_MAX = 64, /* hybrid: the most ranks of a node */
    V2_META_MAX = 4 + HT_RANKS_MAX / 8,
    V2_QUEUES_MAX = 129,
    V2_DIRECT_QUEUES = 9, /* QPs to a peer in direct mode with puts */
};

struct v2_rank;

/* A token that a forwarder has passed on: the ranks that got it, its place in the area, its source's node. */
struct v2_pass {
    uint64_t bits;
    uint32_t sequence;
    uint16_t node;
};

/* Hybrid: the way from a channel to one rank of the node. */
struct v2_way {
    struct ht_ring area;                    /* the area that is being written */
    uint32_t pick[V2_OUT_EVERY], pick_tail; /* forwarder: the tokens of the chunk that go this way; the slot of the
                                             * first of these tokens */
    uint32_t told;
};

/* Hybrid combine: how many rows a rank of the node had returned to a merger when the merger last read the rank's word,
 * and how many of them are summed. */
struct v2_returned {
    uint32_t come, summed;
};

/* Hybrid: one warp that sends a channel's tokens to the nodes that need them. */
struct v2_sender {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, token; /* token: the next one */
    uint32_t node;           /* the node that gets the token next */
    bool copied;             /* the token has been copied to the areas that it goes from */
    uint32_t sent[HT_NODES_MAX], told[HT_NODES_MAX];
};

/* Hybrid: one warp that passes a channel's tokens on to the ranks of its node that need them. */
struct v2_forwarder {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, node, target; /* the channel; the node that was last served; the rank whose area is being
                                     * written */
    uint32_t read[HT_NODES_MAX];
    uint32_t picked;    /* tokens of the current chunk */
    struct v2_way *way; /* [local] */
};

/* Hybrid combine: one warp that returns each of a channel's rows to the rank of the node that passed it on. */
struct v2_returner {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, target; /* the channel; the rank whose rows are being returned */
    struct v2_way *way;       /* [local] */
};

/* Hybrid combine: one warp that sums the node's rows of each token and sends the sum to the token's source. */
struct v2_merger {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t channel, done;   /* the channel; how many tokens are summed, in the order in which they were passed on */
    uint32_t flushed;         /* how many nodes' puts have been flushed */
    bool reduced;             /* the next token's sum is made but not sent */
    struct v2_returned *from; /* [local] */
    uint32_t sent[HT_NODES_MAX], told[HT_NODES_MAX];
};

/* Direct mode: one warp.  In dispatch it sends every stride-th token to the ranks that need it.  In combine it returns
 * rows. */
struct v2_warp {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t item, end, stride; /* the next item, the end of the warp's items, and the step between them; dispatch:
                                 * tokens; combine: rows */
    uint32_t target;            /* dispatch: the next rank that gets the token; combine: the token's source */
    uint32_t to;                /* the rank to which the row now goes */
    uint32_t place;             /* combine that returns all expanded rows: the next expanded row of the current row */
    bool staged, copied;        /* the row is in shared memory; the row is in the send area */
    uint16_t queue;             /* the QP of the warp's puts */
    uint8_t stage_site;         /* enum site */
    struct site_given *stage;
};

/* The notify warps of an SM.  They count the SM's share of tokens.  On SM 0 they also tell the peers how many tokens
 * will come. */
struct v2_notify {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t stage, next;
    bool read; /* the step has read an array */
};

/* Opens a kernel when all peers have reached it.  Closes it when its workers have finished and all rows for this rank
 * have come. */
struct v2_gate {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t kind, from_count;     /* the kind of words that must say at the end that all slots are written; how many
                                    * producers raise such words */
    uint32_t stage, next, flushed; /* flushed: how many QPs of peers are flushed */
    bool told_self;                /* the rank has signalled to itself, behind the stores of its own workers */
    struct ht_barrier nvl, rdma;
};

/* An SM's share of the rows (after dispatch) or of the tokens (after combine). */
struct v2_epilogue {
    struct fabric_worker worker;
    struct v2_rank *rank;
    uint32_t first, end;
    bool combine, counted;
};

struct v2_map {
    uint64_t up, combine_up, out_send, out, combine_out_send, combine_out, end;
    uint32_t up_slots, out_slots; /* slots of a channel for one source */
};

struct v2_rank {
    struct ht_rank ht;
    struct v2_map map;
    struct ht_slot up_slot; /* dispatch's slot as stored in the up areas */
    uint32_t channels;
    uint32_t dispatch_warps, combine_warps, copy_warps, reduce_warps; /* warps of an SM; dispatch_warps and
                                                                       * combine_warps are for direct mode */
    uint32_t combine_buffer_bytes;                                    /* a warp's buffer in shared memory */
    struct site_given stage[2][128 / V2_SHARED_ALIGN]; /* sizes for loading rows (stage[0]) or tokens (stage[1]) into
                                                        * shared memory, by the place in a line at which the buffer
                                                        * begins */
    struct site_given store[128 / V2_SHARED_ALIGN];    /* sizes for storing a slot from shared memory, by the place in a
                                                        * line at which the slot begins at the peer */
    struct site_given copy, reduce, merge, gather[HT_TOPK_MAX];
    uint32_t pass_max;
    struct v2_pass *pass;              /* [channel][pass_max] */
    uint32_t *pass_count;              /* [channel] */
    uint32_t *up_count;                /* [channel][local] slots that came from each rank of the node */
    uint32_t *up_row;                  /* [local][channel][up_slots] each slot's row of recv_x; only with payload */
    uint64_t *row_slot;                /* [rows] heap offset of each row's slot; only with payload */
    struct v2_way *way;                /* [channel][local] */
    struct v2_returned *returned;      /* [channel][local] */
    struct v2_sender *sender;          /* [channel] */
    struct v2_forwarder *forwarder;    /* [channel] */
    struct v2_returner *returner;      /* [channel] */
    struct v2_merger *merger;          /* [channel] */
    struct v2_warp *warp;              /* [num_sms][V2_WARPS_MAX] */
    struct v2_notify *notify;          /* [num_sms] */
    struct site_given choices, counts; /* what each of them reads: tokens and warps; counts and threads */
    struct v2_epilogue *epilogue;      /* [epilogue_sms] */
    uint32_t epilogue_sms;
    struct v2_gate gate;
    uint32_t launched; /* the phase that was launched last */
};

static inline bool v2_hybrid(const struct v2_rank *r) { return r->ht.g.nodes > 1; }
static inline uint16_t v2_queue(const struct v2_rank *r, uint32_t channel)
{
    return (uint16_t)(channel % r->ht.base.fabric->queue_count);
}

enum v2_word { V2_UP, V2_COMBINE_UP, V2_OUT, V2_COMBINE_OUT };
static inline uint32_t v2_word_counts(const struct v2_rank *r, bool rdma)
{
    return r->ht.g.local + r->ht.g.nodes + (rdma ? r->ht.g.local : 0);
}
static inline uint32_t v2_word(const struct v2_rank *r, enum v2_word kind, uint32_t channel, uint32_t from)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t base = 2 * (g->local + g->nodes);
    if (kind < V2_OUT) return base + ((uint32_t)kind * r->channels + channel) * g->local + from;
    return base + 2 * r->channels * g->local + (((uint32_t)kind - V2_OUT) * r->channels + channel) * g->nodes + from;
}
enum v2_private { V2_OPEN, V2_NOTIFIED, V2_FINISHED, V2_PRIVATE_WORDS };
_Static_assert((int)V2_PRIVATE_WORDS <= (int)KERNEL_COUNTS - (int)KERNEL_GROWN, "a place for each");
/* The value that a private word has once all kernels launched so far have raised it. */
static inline uint64_t *v2_grown(const struct v2_rank *r, enum v2_private word) { return &ht_grown(&r->ht)[word]; }
static inline uint32_t v2_word_private(const struct v2_rank *r, enum v2_private which)
{
    return v2_word(r, V2_OUT, 0, 0) + 2 * r->channels * r->ht.g.nodes + (uint32_t)which;
}
static inline bool v2_is_open(const struct v2_rank *r)
{
    return fabric_load(r->ht.base.fabric, v2_word_private(r, V2_OPEN)) >= *v2_grown(r, V2_OPEN);
}

/* Writes a slot's meta: the token's source and number, and the ranks that need it.  meta has room for V2_META_MAX
 * bytes. */
static inline void v2_meta_make(const struct v2_rank *r, uint32_t token, uint8_t *meta)
{
    const struct ht_geometry *g = &r->ht.g;
    const uint32_t source_token = g->rank * r->ht.base.options->tokens_max + token;
    memset(meta, 0, r->ht.dispatch_slot.meta_bytes);
    memcpy(meta, &source_token, sizeof source_token);
    const uint32_t bytes = g->nodes * g->groups;
    memcpy(meta + sizeof source_token, &r->ht.layout.bits[(size_t)token * bytes], bytes);
}

/* The first target (rank or node) of one of the rank's own tokens, at or after `from`.  Returns layout.targets if there
 * is none. */
static inline uint32_t v2_target(const struct v2_rank *r, uint32_t token, uint32_t from)
{
    const struct ht_layout *l = &r->ht.layout;
    if (!v2_hybrid(r)) return ht_target_next(&r->ht, token, from);
    while (from < l->targets && !(l->mask[token] >> from & 1)) from++;
    return from;
}

static inline uint32_t v2_up_at(const struct v2_rank *r, uint32_t from, uint32_t channel)
{
    return (from * r->channels + channel) * r->map.up_slots;
}
static inline uint64_t v2_out_at(const struct v2_rank *r, uint32_t node, uint32_t channel, uint32_t sequence)
{
    return ((uint64_t)node * r->channels + channel) * r->map.out_slots + sequence;
}

/* Whether combine sends all expanded rows without summing them first. */
static inline bool v2_sends_all(const struct moe_options *o) { return o->expand && o->single_reduction; }

/* moe_v2_gate.c has the following functions.  v2_stage_rows() loads rows, one after another, into the warp's shared
 * memory. */
void v2_stage_rows(struct fabric_worker *w, uint8_t site, struct site_given *given, uint32_t rows, uint64_t read_bytes);
static inline void v2_stage(struct fabric_worker *w, uint8_t site, struct site_given *given, uint64_t read_bytes)
{
    v2_stage_rows(w, site, given, 1, read_bytes);
}
/* Tells a peer how many slots of an area are written, and whether these are all slots.  Does nothing if *told says that
 * the peer knows this.  False: step again later. */
bool v2_tell(struct fabric_worker *w, const struct v2_rank *r, uint32_t peer, uint32_t channel, uint32_t word,
             uint32_t count, bool finished, uint32_t *told);
/* Adds the worker that opens and closes the kernel.  At the end, each of from_count producers must have said by its
 * word of this kind that all slots are written.  If the producers are on other nodes, no barrier follows. */
void v2_gate_launch(struct v2_rank *r, enum v2_word kind, uint32_t from_count);
void v2_notify_launch(struct v2_rank *r);
/* Adds a worker that waits until the kernel is open. */
void v2_worker_add(struct v2_rank *r, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                   uint32_t warps);
/* Counts a worker as finished.  Returns WORKER_DONE. */
enum worker_step v2_finish(struct fabric_worker *w, const struct v2_rank *r);

/* moe_v2_direct.c */
void v2_direct_dispatch_launch(struct v2_rank *r);
void v2_direct_combine_launch(struct v2_rank *r);
/* moe_v2_dispatch.c and moe_v2_combine.c: hybrid mode. */
void v2_dispatch_launch(struct v2_rank *r);
void v2_combine_launch(struct v2_rank *r);
/* moe_v2_epilogue.c */
void v2_copy_launch(struct v2_rank *r);
void v2_reduce_launch(struct v2_rank *r);

#endif
