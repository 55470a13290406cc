/* moe_ht.h - private to models/moe: the common parts of the intranode and internode kernels (PROTOCOLS.md 1.1 to 1.3),
 * many of which later families use, too.
 *
 * These are a rank's place in the group, the layout of its own tokens (which ranks need which tokens), the form of
 * a token on a link (a slot), rings of slots, barriers, the tensors of a rank, and their checks.  Each family decides
 * which workers move the slots, and over which links (moe_ht_intra.c, moe_ht_inter.c, ...).
 *
 * Without payload, a slot in memory has only what control flow needs (slot.stored bytes), but links still carry
 * slot.bytes.  Workers take the same steps with payload and without.
 *
 * If memory runs out, the program ends with a message. */
#ifndef MODELS_MOE_MOE_HT_H
#define MODELS_MOE_MOE_HT_H

#include "models/moe/moe_deepep.h"
#include "models/moe/moe_internal.h"

enum {
    HT_LOCAL_MAX = 8, /* ranks of a node; V2 has more (moe_v2.h) */
    HT_NODES_MAX = 32,
    HT_RANKS_MAX = 2048,
    HT_TOPK_MAX = 32,
};

struct ht_geometry {
    uint32_t ranks, nodes, local; /* local: ranks of one node */
    uint32_t groups;              /* groups of eight ranks in a node: ht_layout.bits has a byte for each */
    uint32_t rank, node, self;    /* self: this rank's index within its node */
    uint32_t channels, tokens;    /* tokens: of this rank */
    uint32_t channel_tokens;      /* of these, how many a channel has, as long as tokens are left */
    uint32_t hidden, topk, experts, local_experts;
};

/* The rank of a node that has this rank's index; rank n of this node; and the n-th of the other nodes, from the next
 * one on. */
static inline uint16_t ht_rail(const struct ht_geometry *g, uint32_t node)
{
    return (uint16_t)(node * g->local + g->self);
}
static inline uint16_t ht_neighbour(const struct ht_geometry *g, uint32_t n)
{
    return (uint16_t)(g->node * g->local + n);
}
static inline uint32_t ht_node_after(const struct ht_geometry *g, uint32_t n) { return (g->node + 1 + n) % g->nodes; }

/* The layout kernel's result for this rank's own tokens, and the order of each token within its channel. */
struct ht_layout {
    uint32_t *tokens_per_rank;   /* [ranks] tokens that have an expert there */
    uint32_t *tokens_per_node;   /* [nodes] tokens that have an expert there */
    uint32_t *tokens_per_expert; /* [experts] choices of the expert */
    uint8_t *bits;               /* [tokens][nodes][groups] bit i: rank i of the group's eight needs the token */
    uint32_t *rank_prefix;       /* [ranks][channels + 1] how many tokens for the rank come before channel c */
    uint32_t *node_prefix;       /* [nodes][channels + 1] how many tokens for the node come before channel c */
    uint32_t targets;            /* how many rings a token may enter: with one node, a ring for each rank; else one for
                                  * each node */
    uint32_t *mask;              /* [tokens] bit i: the token enters the ring of target i; unused on one node with
                                  * several groups */
    uint32_t *position;          /* [tokens][targets] how many earlier tokens of the channel enter the target's ring.
                                  * If the token enters it, this is its place there (send_head); else it is unused on
                                  * one node with several groups.  V2 counts in channels of its own */
    uint32_t *list;              /* one node only: [ranks][tokens] the tokens for each rank, in order */
};

/* The form of a token as it is sent.  Its row is at offset 0.  scale, meta, index and weight are the offsets of its
 * other parts. */
struct ht_slot {
    uint32_t bytes;  /* bytes of the slot on a link */
    uint32_t stored; /* bytes of the slot in memory */
    uint32_t row_bytes, scale_bytes;
    uint32_t scale, meta, index, weight;
    uint32_t meta_bytes;
    uint32_t topk;        /* 0: the slot carries no top-k choices */
    uint32_t index_bytes; /* bytes of one index; 0: there are no indices, only weights */
};

struct ht_tensors {
    uint8_t *x, *scales; /* [tokens] rows as dispatched */
    float *weights;      /* [tokens][topk] */
    uint32_t recv_rows_max;
    uint8_t *recv_x, *recv_scales; /* [recv rows] */
    uint32_t *recv_meta;     /* [recv rows][2] intranode: source token, 0; internode: source node, bits of the ranks
                              * that need the token; V2: rank and token in one number, the first four bytes of
                              * such bits */
    int64_t *recv_index;     /* [recv rows][topk] local expert or -1 */
    float *recv_weights;     /* [recv rows][topk] 0 where the index is -1 */
    uint16_t *combine_x;     /* [recv rows][hidden] the experts' output */
    uint16_t *bias[2];       /* [tokens][hidden] */
    uint16_t *combined_x;    /* [tokens][hidden] */
    float *combined_weights; /* [tokens][topk] */
};

struct ht_rank;

/* A worker that only reads or writes index arrays.  Its parts come one after another, and each has its own site. */
enum { HT_SCAN_PARTS = 6 };
struct ht_scan_part {
    uint8_t site; /* enum site; SITE_NONE ends the list */
    uint32_t rows;
    uint64_t read_bytes;
    struct site_given given;
};
struct ht_scan {
    struct fabric_worker worker;
    struct ht_rank *rank;
    struct ht_scan_part part[HT_SCAN_PARTS];
    bool layout; /* the scan also makes the layout */
};

/* An SM's share of a kernel's local work, which neither sends nor waits. */
struct ht_local {
    struct fabric_worker worker;
    struct ht_rank *rank;
    struct fabric_work work;
};

struct ht_rank {
    struct moe_rank base;
    struct ht_geometry g;
    struct ht_layout layout;
    struct ht_slot dispatch_slot, combine_slot;
    struct site_given sum_row;              /* sizes for the loop that sums rows in combine; set at combine's launch */
    uint8_t sum_site;                       /* enum site */
    uint32_t epoch;                         /* the number of this launch among all launches on the fabric */
    uint32_t recv_before[HT_RANKS_MAX + 1]; /* [rank] rows received from lower ranks; the last entry: all rows */
    uint32_t *expert_counts;                /* [local experts] rows for each expert, rounded up to the alignment */
    struct ht_tensors t;
    uint32_t *expanded_at;    /* [rows + 1] expand: for each row, how many expanded rows the rows before it have */
    uint32_t *expanded_index; /* [expanded rows] the place of each in the output, which is ordered by expert, then by
                               * row; only with payload */
    uint32_t expanded_rows;   /* rows of the output, including the gaps between experts */
    uint8_t *expanded_x, *expanded_scales;
    struct ht_scan *scan;
    uint32_t scan_count, scan_max;
    struct kernel_launch kernel; /* the kernel that is being launched */
    uint32_t worker_max;
};

/* Returns the site of a loop: `before` if the version of DeepEP is older than the change, else `now`. */
static inline enum site ht_site(const struct ht_rank *h, enum moe_deepep_change since, enum site now, enum site before)
{
    return moe_deepep_before(h->base.options->deepep, since) ? before : now;
}

static inline uint32_t ht_recv_rows(const struct ht_rank *h) { return h->recv_before[h->g.ranks]; }
static inline bool ht_word_reached(const struct fabric *f, uint32_t word, uint64_t value)
{
    return fabric_load(f, word) >= value;
}

/* A word, and the value that it must reach in this launch before the worker can go on.  If word is 0, the worker waits
 * for no word. */
struct ht_awaited {
    uint32_t word, value;
};
static inline bool ht_awaited_come(const struct ht_rank *h, const struct ht_awaited *a)
{
    return ht_word_reached(h->base.fabric, a->word, moe_word_make(h->epoch, a->value));
}

/* Prefetches the first size_bytes of a worker's object, which will be read soon, except the first two cache lines.  The
 * world prefetches those. */
static inline void ht_lines_ahead(const void *object, size_t size_bytes)
{
    enum { LINE_BYTES = 64, LINES_BEFORE = 2 };
    for (size_t at = LINES_BEFORE * LINE_BYTES; at < size_bytes; at += LINE_BYTES)
        __builtin_prefetch((const char *)object + at, 1);
}

/* Checks the limits that the intranode and internode kernels share.  Returns the reason to refuse the options; NULL:
 * there is none. */
const char *ht_refuse(const struct moe_options *o, char *text, size_t text_size);
void ht_slot_dispatch(const struct moe_options *o, bool payload, bool internode, struct ht_slot *slot);
void ht_slot_combine(const struct moe_options *o, bool payload, bool internode, struct ht_slot *slot);
/* Makes the slots of libraries whose rows, scales, experts and weights are arrays of their own: slots of dispatch
 * without meta, whose parts follow one another, and slots of combine that are rows alone. */
void ht_slots_plain(const struct moe_options *o, bool payload, struct ht_slot *dispatch, struct ht_slot *combine);

/* Fills the shared part of a zeroed rank.  worker_max is the most workers that a kernel has.  With a cached handle,
 * also computes the layout and recv_before from the routing. */
void ht_rank_init(struct ht_rank *h, const struct kernel_job *job, struct fabric *f, bool internode, uint32_t scan_max,
                  uint32_t worker_max);
void ht_layout_make(struct ht_rank *h);
/* Whether the token has an expert on the rank.  Valid only if all ranks are one node. */
static inline bool ht_goes_to(const struct ht_rank *h, uint32_t token, uint32_t rank)
{
    return h->layout.bits[(size_t)token * h->g.groups + rank / 8] >> rank % 8 & 1;
}
/* If all ranks are one node: the first rank at or after `from` that needs the token (the number of ranks: none does);
 * how many ranks before `rank` need it; its number among the tokens for a rank that needs it. */
static inline uint32_t ht_target_next(const struct ht_rank *h, uint32_t token, uint32_t from)
{
    while (from < h->g.ranks && !ht_goes_to(h, token, from)) from++;
    return from;
}
static inline uint32_t ht_targets_before(const struct ht_rank *h, uint32_t token, uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t to = 0; to < rank; to++) count += ht_goes_to(h, token, to);
    return count;
}
static inline uint32_t ht_number_at(const struct ht_rank *h, uint32_t token, uint32_t rank)
{
    const uint32_t channel = token / h->g.channel_tokens;
    return h->layout.rank_prefix[(size_t)rank * (h->g.channels + 1) + channel] +
           h->layout.position[(size_t)token * h->g.ranks + rank];
}
/* The expert of a rank's choice; negative: the choice has no expert.  A rank's choices are numbered token by token,
 * topk of them for each token. */
static inline int32_t ht_expert(const struct ht_rank *h, uint32_t rank, uint32_t choice)
{
    return h->base.routing->rank[rank].experts[choice];
}
/* Numbers this rank's choices in the order of their experts.  before[experts + 1] gets, for each expert, how many
 * choices are of smaller experts.  place[tokens x topk] gets each choice's number, or UINT32_MAX if the choice has no
 * expert. */
void ht_choices_sort(const struct ht_rank *h, uint32_t *before, uint32_t *place);
/* How many tokens of source have an expert on one of the `targets` ranks from target on. */
uint32_t ht_tokens_between(const struct ht_rank *h, uint32_t source, uint32_t target, uint32_t targets);

/* Phases. */
uint32_t ht_phase_count(const struct kernel_job *job);
const char *ht_phase_name(const struct kernel_job *job, uint32_t phase);
/* Whether a loop of the public tests begins with the phase.  The tests time dispatch in one loop and combine in
 * another.  The second loop begins with the notify before combine. */
bool ht_begins_loop(const struct kernel_job *job, uint32_t phase);
bool ht_behind_barrier(const struct kernel_job *job, uint32_t phase);
enum ht_phase { HT_LAYOUT, HT_NOTIFY, HT_CACHED_NOTIFY, HT_DISPATCH, HT_CACHED_NOTIFY_COMBINE, HT_COMBINE };
enum ht_phase ht_phase_of(const struct moe_options *o, uint32_t phase);

/* Begins a launch: empties the kernel's list of workers and starts a new epoch.  The caller then adds workers, and sets
 * what else holds for the launch. */
void ht_kernel_begin(struct ht_rank *h, const char *phase);
/* The values that the rank's private words will have once the kernels launched so far have ended.  Each family says
 * which word each value is of. */
static inline uint64_t *ht_grown(const struct ht_rank *h) { return kernel_counts(h->base.fabric) + KERNEL_GROWN; }
void ht_kernel_add(struct ht_rank *h, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                   uint32_t warps);
struct ht_scan *ht_scan_add(struct ht_rank *h, uint32_t sm, uint32_t warps, struct ht_scan_part first);
void ht_layout_launch(struct ht_rank *h);
/* Launches work in the rank's own memory, divided evenly between `sms` SMs.  Each SM's worker has `warps` warps.
 * work.run gets the SM's struct ht_local. */
void ht_local_launch(struct ht_rank *h, struct ht_local *local, uint32_t sms, uint32_t warps, struct fabric_work work);
/* Charges the worker for reading index arrays at this site. */
static inline void ht_scan_here(struct fabric_worker *w, uint8_t site, uint32_t rows, uint64_t read_bytes)
{
    fabric_work(
        w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = site, .rows = rows, .read_bytes = read_bytes });
}

/* A barrier of `count` ranks: first, first + stride, and so on.  Each rank raises word + its index at all others. */
struct ht_barrier {
    uint32_t word;
    uint16_t first, stride, count, number; /* number: this rank's index among the ranks */
    uint16_t sent;
    uint16_t shift; /* ht_sync_step(): the signalled rank is this many places after this rank, and the awaited rank is
                     * as many places before it */
    bool entered;
    bool to_host; /* the barrier follows stores to the host's memory */
    uint32_t round;
};
/* The barrier of the rank's node, and that of its rail: the ranks that have its number within their nodes. */
struct ht_barrier ht_barrier_node(const struct ht_geometry *g);
struct ht_barrier ht_barrier_rail(const struct ht_geometry *g, uint32_t word);
void ht_barrier_begin(struct ht_barrier *b);
/* Takes part in the barrier.  True once all ranks have come; until then call it again.  It sends nothing twice. */
bool ht_barrier_step(struct fabric_worker *w, struct ht_barrier *b, uint32_t epoch);
/* The first rank that has not reached the round, or -1. */
int ht_barrier_missing(const struct fabric *f, const struct ht_barrier *b, uint32_t epoch);
/* Writes that `who` waits in a barrier: for rank `missing`, or for nobody any more if it is -1.  On a live link the
 * last rank may come after the step that did not see it. */
void ht_barrier_describe(char *text, size_t text_size, const char *who, int missing, const char *barrier);
/* Takes part in a barrier by dissemination, as NVSHMEM makes it between nodes.  In round k, from 0 on, a warp signals
 * the rank 2^k places after this one, and awaits the signal of the rank 2^k places before it.  True once all ranks have
 * come. */
bool ht_sync_step(struct fabric_worker *w, struct ht_barrier *b, uint32_t epoch);
/* The rank that ht_sync_step() awaits, or -1. */
int ht_sync_missing(const struct ht_barrier *b);

/* The producer's end of a ring of slots.  The ring lies in the memory of an NVLink peer or of this rank.  An ht_fill
 * writes the slot with a sequence number. */
struct ht_ring {
    uint64_t offset; /* offset of the ring in the peer's heap */
    uint32_t slots;
    uint32_t tail, published, pending; /* slots written; slots of which the peer has been told; slots planned but not
                                        * yet written */
    uint32_t tail_word, head_word;     /* a word of the peer; a word of this rank */
    uint16_t peer;
    uint8_t site;             /* enum site: the site of the stores */
    struct site_given *given; /* sizes for the site */
    bool by_number;           /* a slot's number decides which warp fills it; the first warp tells the peer */
};
typedef void ht_fill(const struct fabric_worker *w, uint32_t sequence, uint8_t *slot);
/* How many slots are free. */
uint32_t ht_ring_space(const struct ht_rank *h, const struct ht_ring *ring);
/* Writes the planned slots.  False: some are left, so step again later. */
bool ht_ring_write(struct fabric_worker *w, struct ht_ring *ring, const struct ht_slot *slot, ht_fill *fill);
/* Writes some of the planned slots: at most `most`, and none beyond the ring's end.  False: none is written, so step
 * again later. */
bool ht_ring_write_some(struct fabric_worker *w, struct ht_ring *ring, const struct ht_slot *slot, ht_fill *fill,
                        uint32_t most);
/* Tells the peer how many slots are written.  False: step again later. */
bool ht_ring_publish(struct fabric_worker *w, const struct ht_rank *h, struct ht_ring *ring);

/* A worker's reads of words in the host's memory (UCCL's heads and tails). */
struct ht_look {
    bool host;      /* false: the words are in the GPU's memory, so ht_look functions charge nothing */
    bool under_way; /* the words are being read; the worker sets it to false when it has found what it waits for */
    uint32_t place; /* the index of the first word */
};
/* Begins to read `words` words.  True: the worker may use them at once.  False: it must return WORKER_MORE, and may use
 * them in its next step. */
bool ht_look_begin(struct fabric_worker *w, struct ht_look *look, uint32_t words);
/* Charges the worker for one read of a word in the host's memory, or one addition to it. */
void ht_look_once(struct fabric_worker *w, const struct ht_look *look);

/* The receiving end of combine (moe_ht_reduce.c).  Each warp takes every stride'th token of a channel.  It sums the
 * token's rows once they have come from all targets.  A worker stands for a group of warps, and one of its steps sums
 * at most as many tokens as the group has warps.  A slot is free when the slowest warp has summed the slot's token or a
 * later one. */
struct ht_reducer {
    struct fabric_worker worker;
    struct ht_rank *rank;
    struct ht_awaited awaited; /* the row without which the worker cannot go on */
    uint32_t channel, group;
    uint32_t first_token, first_warp, stride;
    uint32_t done, count;             /* how many tokens are summed; how many the group has */
    uint32_t tail_word;               /* the tail of target 0's ring; the tails of other targets follow */
    uint32_t done_word;               /* private word: how many tokens are done */
    uint64_t done_base;               /* the word's value at the launch, because private words only grow */
    uint64_t ring_offset, ring_bytes; /* offset of target 0's ring; distance between the rings of two targets */
    uint32_t slots;
    struct ht_look look;
    uint32_t tail[HT_NODES_MAX]; /* each ring's tail when it was last read */
};

/* One warp that tells each target how far the slowest warp has read the target's ring.  It tells a target whenever at
 * least `least` more slots have been read. */
struct ht_head_keeper {
    struct fabric_worker worker;
    struct ht_rank *rank;
    const struct ht_reducer *reducer; /* [group_count] */
    uint32_t channel, group_count, least;
    uint32_t head_word, queue, peer_first, peer_stride;
    uint32_t published[HT_NODES_MAX];
};

/* The number of groups of the reducing warps.  With few tokens in a channel each warp is a group, because a warp may be
 * free while another works.  Otherwise there are only a few groups, because fewer groups need fewer steps. */
uint32_t ht_reducer_groups(const struct ht_rank *h, uint32_t warps);
/* Launches d as one of `groups` groups of the warps.  The caller has set d's group, words and rings. */
void ht_reducer_launch(struct ht_rank *h, struct ht_reducer *d, uint32_t groups, uint32_t warps, uint32_t sm);
void ht_head_keeper_launch(struct ht_rank *h, struct ht_head_keeper *k, uint32_t sm);

/* Raises a word of this launch at a peer.  False: step again later. */
bool ht_word_send(struct fabric_worker *w, const struct ht_rank *h, uint32_t peer, uint32_t queue, uint32_t word,
                  uint32_t value);
/* Raises a word at each rank of the node, this one included, in the order of ranks: to 1, or to 1 more than the rank's
 * entry of counts.  *next is the first rank that is still to be told, and `first` the site of the first rank's signal.
 * False: the worker must step again. */
bool ht_node_tell(struct fabric_worker *w, const struct ht_rank *h, uint32_t *next, uint32_t word,
                  const uint32_t *counts, enum site first);
static inline uint32_t ht_word(const struct ht_rank *h, uint32_t word)
{
    return moe_word_value(fabric_load(h->base.fabric, word), h->epoch);
}

/* Tensors; only with payload. */
void ht_row_make(const struct moe_options *o, uint32_t rank, uint32_t token, uint8_t *row, uint8_t *scales);
void ht_row_widen(const struct moe_options *o, const uint8_t *row, const uint8_t *scales, uint16_t *out);
float ht_weight(const struct ht_rank *h, uint32_t rank, uint32_t token, uint32_t place);
void ht_inputs_make(struct ht_rank *h);     /* makes rows, weights and biases, once */
void ht_tensors_recv(struct ht_rank *h);    /* makes room for the rows that will come; top-k indices behind these rows
                                             * are -1 */
void ht_experts_count(struct ht_rank *h);   /* counts the rows that each expert has got */
void ht_tensors_combine(struct ht_rank *h); /* makes combine's input, and room for its output */
void ht_slot_pack(const struct ht_rank *h, uint32_t token, uint32_t expert_first, const void *meta, uint8_t *slot);
void ht_slot_unpack(struct ht_rank *h, const uint8_t *slot, uint32_t expert_first, uint32_t row);
void ht_slot_pack_combine(const struct ht_rank *h, uint32_t row, uint8_t *slot);
/* Makes the combined row of a token: the sum of the biases and then of the rows, in the given order. */
void ht_token_combine(struct ht_rank *h, uint32_t token, const uint8_t *const *slot, uint32_t slot_count);

/* Sums rows into a slot that is sent to another node.  The sum is rounded to BF16 and has no bias. */
void ht_slots_reduce(const struct ht_rank *h, const uint8_t *const *slot, uint32_t slot_count, uint8_t *out);

/* The layout by experts (moe_ht_expand.c).  ht_expand_make() computes where the expanded rows are.  It must be called
 * when the rows of a dispatch are known. */
void ht_expand_alloc(struct ht_rank *h);
/* Computes where the rows of each expert of these ranks begin on its rank.  Returns how many the last rank has,
 * including the gaps between experts. */
uint32_t ht_experts_begin(const struct ht_rank *h, uint32_t rank, uint32_t ranks, uint32_t *begin);
void ht_expand_make(struct ht_rank *h);
/* How many expanded rows a received row becomes; 1 without expansion. */
static inline uint32_t ht_expanded_count(const struct ht_rank *h, uint32_t row)
{
    return h->expanded_at ? h->expanded_at[row + 1] - h->expanded_at[row] : 1;
}
void ht_expand_row(struct ht_rank *h, uint32_t row);
/* Writes to slot what combine sends for a received row: its expanded row number `place` or, if place is UINT32_MAX, the
 * sum of all its expanded rows. */
void ht_expanded_pack(const struct ht_rank *h, uint32_t row, uint32_t place, uint8_t *slot);

/* Counts a phase's tokens: those that dispatch sends, once to each ring that they enter, and `rows`, which come.  They
 * go the other way in combine.  Returns how many dispatch sends. */
uint64_t ht_traffic_tokens(const struct ht_rank *h, bool dispatch, uint64_t rows, struct kernel_traffic *traffic);
void ht_traffic(const struct kernel_rank *rank, uint32_t phase, struct kernel_traffic *traffic);
uint32_t ht_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max);
/* Checks 1 to 10 of PROTOCOLS.md 4 (moe_ht_check.c). */
uint32_t ht_check(const struct kernel_rank *rank, char *text, size_t text_size);

#endif
