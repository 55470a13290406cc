/* moe_ll.h - private to the low-latency kernels of DeepEP (PROTOCOLS.md 1.4) and of NCCL EP (1.20): geometry, memory
 * map and state of a rank.  Their differences are in struct ll_dispatch_kind and
 * struct ll_combine_kind.
 *
 * Heap, only where payload is stored.  Calls (dispatch, combine, dispatch, ...) alternate between the two halves:
 *
 *     | send 0 | send 1 | recv 0 | recv 1 |
 *       send: dispatch  [token][message]                  combine  [local expert][destination][token][slot]
 *       recv: dispatch  [local expert][source][token][message]     combine  [expert][token][slot]
 *
 * A dispatch message is a header of 16 bytes, which has the number of the source's token, and the row: `hidden` values
 * in FP8 and hidden / 128 scales, or `hidden` values in BF16.  A combine slot has room for a row of BF16 or of LogFMT
 * (formats.h).
 *
 * Signal words that peers raise: counts[local expert][source] of dispatch, flags[expert] of combine, and with masking
 * sync[source].  Private words: finish[expert], gate, open, clean, block[SM].  The real kernels zero words between
 * calls.  Here the high half of each word that peers raise is the number of the call instead. */
#ifndef MODELS_MOE_MOE_LL_H
#define MODELS_MOE_MOE_LL_H

#include "models/moe/checks.h"
#include "models/moe/moe_internal.h"

enum {
    LL_HEADER_BYTES = 16,
    LL_WARPS_PER_SM = 32,
    LL_LANES = 32,
    LL_TOPK_MAX = 11,
    LL_DOORBELL_EVERY = 4,
    LL_SUM_WARP_BYTES = 1024,
    LL_COMMANDS = 32 /* UCCL: how many commands of a channel, to all peers, may be in flight */
};

struct ll_geometry {
    uint32_t experts, ranks, local_experts, tokens_max, topk, hidden;
    uint32_t groups, warps_per_group, grid; /* warp groups of an SM; warps of a group; SMs that have groups */
    uint32_t sum_warps, sum_groups, sms;    /* combine's sums: warps of a group, which sums one token at a time; groups
                                             * of an SM; the most SMs that have groups */
    uint32_t message_bytes, row_bytes, scale_count; /* dispatch: bytes of a message; bytes of its values; number of its
                                                     * scales */
    uint32_t combine_bytes, combine_stride;         /* bytes of a BF16 row; bytes of a combine slot */
    uint32_t return_bytes;                          /* without payload: bytes of a returning row (BF16 or LogFMT) */
    uint64_t send_bytes, recv_bytes;                /* bytes of one half of the heap */
    uint64_t packed_rows;                           /* rows for which the outputs of dispatch have room */
    uint32_t queues;                                /* QPs to each peer */
    uint32_t finish_words, finish_experts; /* finish words; how many experts each of them counts messages for */
};

struct ll_rank;

struct ll_sender {
    struct fabric_worker worker;
    struct ll_rank *rank;
    uint32_t token, place;
    bool cast, stored, adding; /* cast: the token's message is made; stored: messages have been stored by NVLink, and
                                * their experts' finish counters are not raised yet */
};
struct ll_counter {
    struct fabric_worker worker;
    struct ll_rank *rank;
    uint32_t word, word_end, raised; /* the finish words that it adds to itself; how many it has raised for SM 0 */
};
struct ll_gate {
    struct fabric_worker worker;
    struct ll_rank *rank;
};
/* A warp group.  A rank has one for each expert of all ranks, with the expert's number.  In dispatch (receiver) the
 * group tells the expert's rank how many tokens come, and then unpacks the tokens that one source sent to one local
 * expert.  In combine (returner) the group returns the rows of these unpacked tokens, and then waits for the flag of
 * the expert with its number.  Large worlds have millions of groups, so a group has no pointer to its rank: its number
 * is its place in the rank's pair[]. */
struct ll_receiver {
    struct fabric_worker worker;
    uint32_t expert : 22; /* the group's number */
    bool tell : 1, receive : 1;
    bool alone : 1;  /* the kernel receives without sending */
    bool looked : 1; /* the count's word in the host's memory is being read, or has been; NCCL EP: the count has come */
    bool arrived : 1; /* NCCL EP: all counts of the source have come */
    uint16_t local_expert, source;
};
struct ll_returner {
    struct fabric_worker worker;
    uint32_t number : 22; /* the group's number: destination x local experts + local expert */
    uint32_t ahead : 6;   /* how many rows are packed but not yet returned */
    bool send : 1, receive : 1, flagged : 1;
    bool looked : 1;     /* the layout is read; once flagged, the flag's word in the host's memory is, or has been */
    uint16_t count, row; /* how many rows the group returns; how many it has returned */
};
union ll_pair {
    struct ll_receiver receiver;
    struct ll_returner returner;
};
enum { LL_EXPERTS_MAX = (1 << 22) - 1, LL_TOKENS_MAX = UINT16_MAX };
_Static_assert(LL_WARPS_PER_SM < 1 << 6, "rows packed beyond those returned are at most one for each warp");
struct ll_zeroer {
    struct fabric_worker worker;
    struct ll_rank *rank;
};
struct ll_cleaner {
    struct fabric_worker worker;
    struct ll_rank *rank;
    uint32_t round;
    uint16_t peer;
    bool sent;
};
struct ll_reducer {
    struct fabric_worker worker;
    struct ll_rank *rank;
    uint32_t token, stride;
    bool chosen;
};

/* The rows that a local expert received from one source: `count` of the expert's packed rows, from row `begin` on. */
struct ll_range {
    uint32_t begin, count;
};

/* A row that a group of combine returns: its number among packed rows, and its slots in the sender's and in the
 * receiver's part of the heap. */
struct ll_returned {
    uint64_t row, from, to;
};

/* What the kernels of a library do otherwise than the other's.  Members of type uint8_t without a comment are sites. */
struct ll_dispatch_kind {
    uint8_t kernel, grid_come, grid_open; /* combine's, too */
    uint8_t counts_zero, finish_lane, block_add, peers_again, count_tell;
    const struct worker_role *receiver;
    /* Whether a message goes out for this choice of a token. */
    bool (*message_goes)(const struct ll_rank *r, uint32_t token, uint32_t place);
    /* Lets all warps of the sender make the token's message. */
    void (*message_make)(struct ll_sender *s);
    /* Sends it to the expert, or to the expert's rank.  -EAGAIN: nothing has changed. */
    int (*message_send)(struct ll_sender *s, uint32_t expert);
    /* Charges a counter for its reading of all choices. */
    void (*choices_read)(struct ll_counter *c);
    /* Prepares what receivers need besides; lets a receiver watch more words.  NULL: nothing is needed. */
    void (*receive_prepare)(struct ll_rank *r);
    void (*receiver_watch)(struct ll_receiver *v);
};
struct ll_combine_kind {
    uint8_t flags_zero, layout_read, return_row, clean_look, flag_tell, choices_sum, sum_rows;
    uint8_t rings_every; /* for how many of a group's puts it rings once */
    /* Fills combine's input from dispatch's outputs. */
    void (*expert_run)(struct ll_rank *r);
    /* Before the launch: finds the rows that each group returns.  NULL: they are known. */
    void (*prepare)(struct ll_rank *r);
    /* How many rows a group returns, and the n-th of them; how many it returns at a time; how many entries of the
     * layout each of its warps reads before. */
    uint32_t (*rows)(const struct ll_returner *t);
    struct ll_returned (*returned)(const struct ll_returner *t, uint32_t n);
    uint32_t (*at_once)(const struct ll_returner *t);
    uint32_t (*reads)(const struct ll_returner *t);
    /* Whether a row is added for this choice of a token.  Gives the row's slot and its weight. */
    bool (*summed)(const struct ll_rank *r, uint32_t token, uint32_t place, uint64_t *slot, float *weight);
};

struct ll_rank {
    struct moe_rank base;
    struct ll_geometry g;
    const struct ll_dispatch_kind *dispatch;
    const struct ll_combine_kind *combine;
    struct nccl_ll *nccl; /* what only NCCL EP's kernels have (moe_nccl_ll.h) */
    const struct routing_rank *own;
    const int32_t *experts; /* [own tokens][topk] choices, without those of experts on masked ranks */
    int32_t *experts_left;  /* with masking: a copy of the choices, to which `experts` points, because the routing must
                             * not change */
    uint8_t *mask;          /* [ranks] 1: the rank is masked; NULL: there is no masking */
    bool failed;            /* the rank has failed, as planned */
    uint32_t call;          /* the number of this dispatch or combine, from 1; odd and even calls use different halves
                             * of the heap */
    uint64_t gate_target, open_target, clean_target, block_target; /* the values that the private words must reach; they
                                                                    * only grow */
    uint32_t *finish_target;                                       /* [experts] low halves of the values that the finish
                                                                    * words must reach */
    uint16_t *slot_counter;                                        /* [experts] how many tokens this call has sent to
                                                                    * each */
    uint32_t *packed_count;                                        /* [local experts] rows received */
    uint16_t *range_count; /* [local experts][ranks] count of each struct ll_range */
    uint32_t *range_begin; /* [local experts][ranks] begin of each; only with payload */

    void *groups;               /* memory for the workers of dispatch or of combine: no kernel has both */
    struct ll_sender *sender;   /* [grid], in groups */
    struct ll_counter *counter; /* [grid], in groups, after the senders */
    struct ll_reducer *reducer; /* [SMs][groups of sums], in groups */
    struct ll_zeroer zeroer;
    struct site_given receive_row;          /* dispatch's sizes */
    struct site_given return_row, sum_rows; /* combine's sizes */
    struct ll_gate gate;
    struct ll_cleaner *cleaner;    /* [ranks], with masking */
    uint64_t *deadline_ps;         /* with masking: [ll_workers_max()] when each worker stops waiting for its peer; 0:
                                    * it does not wait yet */
    struct fabric_worker **worker; /* the workers of the kernel that is being launched */
    struct kernel_launch kernel;

    /* Tensors, only with payload. */
    uint16_t *input;             /* [own tokens][hidden]: x */
    uint8_t *recv_x;             /* [local experts][ranks * tokens_max][row_bytes] */
    float *recv_scale;           /* [local experts][ranks * tokens_max][scale_count] */
    uint32_t *recv_source_token; /* [local experts][ranks * tokens_max] */
    uint16_t *expert_out;        /* [local experts][ranks * tokens_max][hidden]: combine's input */
    uint16_t *combined;          /* [own tokens][hidden] */
    uint8_t *canonical[3];       /* made by ll_outputs() */

    union ll_pair pair[]; /* [experts] pairs of dispatch or of combine */
};

static inline struct ll_rank *ll_receiver_rank(const struct ll_receiver *v)
{
    return fabric_container_of((const union ll_pair *)(const void *)v - v->expert, struct ll_rank, pair);
}
static inline struct ll_rank *ll_returner_rank(const struct ll_returner *t)
{
    return fabric_container_of((const union ll_pair *)(const void *)t - t->number, struct ll_rank, pair);
}

/* Returns the n-th range of [local experts][ranks].  Without payload its begin is 0. */
static inline struct ll_range ll_range_at(const struct ll_rank *r, uint32_t n)
{
    return (struct ll_range){ .begin = r->range_begin ? r->range_begin[n] : 0, .count = r->range_count[n] };
}

static inline struct ll_rank *ll_rank_of(struct kernel_rank *rank) { return (struct ll_rank *)rank; }

static inline bool ll_masks(const struct ll_rank *r, uint32_t rank) { return r->mask && r->mask[rank]; }

static inline uint32_t ll_word_count_at(const struct ll_rank *r, uint32_t local_expert, uint32_t source)
{
    return local_expert * r->g.ranks + source;
}
static inline uint32_t ll_word_flag(const struct ll_rank *r, uint32_t expert) { return r->g.experts + expert; }
static inline uint32_t ll_word_finish(const struct ll_rank *r, uint32_t number) { return 2 * r->g.experts + number; }
static inline uint32_t ll_finish_number(const struct ll_rank *r, uint32_t expert)
{
    return expert / r->g.finish_experts;
}
static inline uint32_t ll_word_finish_of(const struct ll_rank *r, uint32_t expert)
{
    return ll_word_finish(r, ll_finish_number(r, expert));
}
static inline uint32_t ll_word_gate(const struct ll_rank *r) { return 3 * r->g.experts; }
static inline uint32_t ll_word_open(const struct ll_rank *r) { return 3 * r->g.experts + 1; }
static inline uint32_t ll_word_clean(const struct ll_rank *r) { return 3 * r->g.experts + 2; }
enum { LL_WORDS_AN_EXPERT = 3, LL_WORDS_EXTRA = 3 };
static inline uint32_t ll_word_block(const struct ll_rank *r, uint32_t sm)
{
    return LL_WORDS_AN_EXPERT * r->g.experts + LL_WORDS_EXTRA + sm;
}
static inline uint32_t ll_word_sync(const struct ll_rank *r, uint32_t source)
{
    return ll_word_block(r, r->g.sms) + source;
}

/* Dispatch is every odd call, combine every even one. */
static inline uint32_t ll_iteration(const struct ll_rank *r) { return (r->call - 1) / 2; }

static inline uint64_t ll_send_offset(const struct ll_rank *r) { return (r->call & 1) * r->g.send_bytes; }
static inline uint64_t ll_recv_offset(const struct ll_rank *r)
{
    return 2 * r->g.send_bytes + (r->call & 1) * r->g.recv_bytes;
}

/* The combine weight of a token's choice: the trace's weight if the trace has weights, else an arbitrary one. */
static inline float ll_weight(const struct ll_rank *r, uint32_t token, uint32_t place)
{
    if (r->own->weights) return r->own->weights[(uint64_t)token * r->g.topk + place];
    return (float)((token * 7 + place * 13) % 16 + 1) / 64.0f;
}

/* The most choices of experts that a rank's tokens can make. */
static inline uint64_t ll_choices(const struct ll_rank *r) { return (uint64_t)r->g.tokens_max * r->g.topk; }

/* Lets a worker that awaits the word look at the host's memory, where that word is one of UCCL's.  Groups await words
 * of their own node in the GPU's memory, and then look once.  came: the word has its value.  Returns true if the worker
 * looks now, so that its step must return WORKER_MORE. */
bool ll_host_look(struct fabric_worker *w, const struct ll_rank *r, uint32_t peer, uint32_t word, bool came);
/* moe_ll.c: parts of the family's table that NCCL EP's has, too. */
struct ll_geometry ll_geometry_of(const struct moe_options *o);
struct ll_rank *ll_rank_make(const struct kernel_job *job, struct fabric *f, struct ll_geometry g,
                             const struct ll_dispatch_kind *dispatch, const struct ll_combine_kind *combine);
uint32_t ll_phase_count(const struct kernel_job *job);
const char *ll_phase_name(const struct kernel_job *job, uint32_t phase);
struct kernel_launch *ll_launch(struct kernel_rank *rank, uint32_t phase);
void ll_route(struct kernel_rank *rank, const struct routing *routing);
extern const struct ll_dispatch_kind ll_dispatch_deepep; /* moe_ll_dispatch.c */
extern const struct ll_combine_kind ll_combine_deepep;   /* moe_ll_combine.c */
/* Lets the group tell its count.  True once it is told and the rank's grid barrier is open. */
bool ll_receiver_open(struct ll_receiver *v);
/* Of receivers' roles (models/worker.h). */
void ll_receiver_describe(const struct fabric_worker *w, char *text, size_t text_size);
void ll_receiver_ahead(const struct fabric_worker *w);
/* Launch dispatch and combine.  A launch sends (receive == false), receives (send == false) or does both. */
struct kernel_launch *ll_dispatch_launch(struct ll_rank *r, bool send, bool receive);
struct kernel_launch *ll_combine_launch(struct ll_rank *r, bool send, bool receive);
/* Launches the clean kernel (moe_ll_mask.c).  Masking needs it between iterations.  It is a barrier of all living
 * ranks. */
struct kernel_launch *ll_clean_launch(struct ll_rank *r);
/* Must be called while w waits for source.  Masks source if w has waited for as long as the timeout.  True if source is
 * masked, so that w need not wait for it. */
bool ll_give_up(struct ll_rank *r, struct fabric_worker *w, uint32_t source);
static inline bool ll_given_up(struct ll_rank *r, struct fabric_worker *w, uint32_t source)
{
    return r->mask && ll_give_up(r, w, source);
}
/* Whether a rank has failed, as planned, before this phase of this iteration (from 0). */
bool ll_failed(const struct moe_options *o, uint32_t rank, uint32_t phase, uint32_t iteration);
const char *ll_mask_refuse(const struct moe_options *o, char *text, size_t text_size);
/* Writes a received row in BF16. */
void ll_row_widen(const struct ll_rank *r, uint64_t row, uint16_t *out);
/* Fills combine's input with what dispatch received, dequantised: the experts are identities. */
void ll_expert_run(struct ll_rank *r);
/* Counts the choices that the rank sends, and those that it has received. */
void ll_traffic_tokens(const struct ll_rank *r, struct kernel_traffic *traffic);
uint32_t ll_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max);
uint32_t ll_check(const struct kernel_rank *rank, char *text, size_t text_size);
/* Parts of ll_check(). */
void ll_check_row(const struct ll_rank *r, struct check_report *report, uint32_t expert, uint32_t source, uint64_t row);
void ll_check_combine(const struct ll_rank *r, struct check_report *report);
/* A token that is twice or more among these, which get sorted; NULL: there is none. */
const uint32_t *ll_repeated(uint32_t *token, uint32_t count);
/* Writes a row's scales as users get them: as floats, or with UE8M0 as exponents.  Returns the place after them. */
uint8_t *ll_scales_write(const struct ll_rank *r, const float *scale, uint8_t *out);

/* The most workers of a kernel. */
static inline uint32_t ll_workers_max(const struct ll_geometry *g) { return 2 * g->sms + g->experts + 2; }
/* moe_ll_gate.c: gives the next worker of the kernel that is being launched its number, role, SM and warps. */
void ll_worker_add(struct ll_rank *r, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                   uint32_t warps);
/* Adds the grid barrier.  Once all warp groups have come, it opens the receiving side. */
void ll_gate_add(struct ll_rank *r);
/* Makes the gate wait for the groups.  Must be called after all groups have been added. */
void ll_gate_watch(struct ll_rank *r);

#endif
