/* coll_nccl.h - private to coll_nccl*.c: collectives by NCCL's rings and trees.
 *
 * A channel is a block of warps on an SM, with its part of the bytes and its own ring or tree.  For each chunk it
 * runs a list of steps ("primitives").  A primitive may take what others have sent, add the rank's own bytes, keep the
 * result and send it on (src/device/all_gather.h, reduce_scatter.h, all_reduce.h).  From one rank to another there is
 * a link: a buffer of 8 places in the receiver's memory and two words.  One word counts the places that the sender has
 * filled, the other those that the receiver has emptied.
 *
 *     coll_nccl.c        a rank: its operations and memory, and whether results are right
 *     coll_nccl_order.c  which primitives a block runs, and with which peers
 *     coll_nccl_block.c  how a block runs a primitive, and how the host's thread sends between nodes */
#ifndef MODELS_COLL_COLL_NCCL_H
#define MODELS_COLL_COLL_NCCL_H

#include "models/coll/coll_internal.h"
#include "models/coll/nccl_plan.h"

enum { PACK_BYTES = 16 };
enum { WORD_FILLED, WORD_EMPTIED, WORD_MADE, WORDS_A_LINK }; /* MADE: at the sender, for its thread */
enum { PLACE_BITS = 20 }; /* FILLED also has, in its low bits, how many bytes of the next place have come */
enum { MADE_PLACES = 2 * NCCL_STEPS };
enum { GIVEN_TWO = 1, GIVEN_KEPT = 2, GIVEN_CAME = 4, GIVENS = 8 };
enum { PROTOCOLS_END = COLL_SIMPLE + 1 };
enum { LINKS_MOST = 3, TREE_LINKS = 4 };
enum { BLOCKS_A_CHANNEL = 2 };
enum { OPERATIONS = 2 };

/* One end of a link.  `here` and `there` are the link's numbers at this rank and at the peer.  The number at a rank
 * tells which of the rank's words and places belong to the link. */
struct link {
    uint64_t steps; /* how many places this side has filled or emptied, in all launches */
    uint16_t peer, here, there;
};

struct primitive {
    bool receive, send, own, keep; /* own: it adds the rank's own bytes; keep: it stores the result */
    uint64_t from, to, size_bytes; /* heap offsets of the rank's own bytes and of the result; bytes of the chunk */
};

/* The part of the host's thread that sends on one link of a block. */
struct sender {
    struct fabric_worker worker;
    const struct block *block;
    struct link link;                 /* link.steps: how many places the thread has put, in all launches */
    uint64_t last_steps;              /* what link.steps will be at the end of the launch */
    uint64_t size_bytes[MADE_PLACES]; /* of the slice in each place */
    uint8_t protocol[MADE_PLACES];    /* enum coll_protocol of the slice */
    bool announced;                   /* the next message's size has already been sent */
};

struct block {
    struct fabric_worker worker;
    struct sender sender[LINKS_MOST]; /* by outgoing link; unused if no NIC takes the link's bytes */
    struct nccl_rank *rank;
    struct operation *op;
    const struct nccl_plan *plan; /* of the current work */
    struct link in[LINKS_MOST], out[LINKS_MOST];
    uint32_t number, ins, outs; /* number: the channel's number */
    uint32_t primitive, slice;
    uint32_t work;          /* the current one of the operation's works, if it has works */
    bool down;              /* tree: it hands results down */
    bool done;              /* it has run all its primitives */
    uint8_t begun;          /* which code has been read (kernel_begin()) */
    bool made;              /* the piece has been made in the rank's own memory */
    uint32_t stored, told;  /* to how many targets the piece is stored; how many peers have been told of the slice */
    uint64_t begin, sliced; /* where in the channel's part the chunk, or the round of chunks, begins; bytes of the
                             * primitive's slices that are done */
    uint64_t part_bytes;    /* of the channel's part, or of the current work; of blocks of different sizes, the longest
                             * part */
    uint64_t moved, piece;  /* bytes of the slice that are done; bytes of the current piece */
    uint64_t shown;         /* bytes of the slice that the next rank knows of */
    struct primitive now;
};

/* One collective, which is a phase of the run.  Offsets are in the heap. */
struct operation {
    struct coll_options options; /* the run's options, with the operation's own kernel and size */
    struct nccl_plan
        plan[NCCL_PLANS]; /* the first is also what all works have in common: algorithm, channels, slices */
    uint32_t plans;
    struct nccl_work *work; /* [works]; no works: each channel has a part of each block */
    uint32_t works;
    uint64_t heap_begin;                           /* where the rank's own bytes begin */
    uint64_t block_bytes;                          /* from one rank's block to the next */
    uint64_t result_begin, places_begin, heap_end; /* of the result; of the places */
    uint64_t place_bytes;
    uint32_t word_begin, word_end;
    struct site_given given_start, given[PROTOCOLS_END][GIVENS], given_put[PROTOCOLS_END],
        given_function[PROTOCOLS_END];
};

struct nccl_rank {
    struct coll_rank base;
    struct operation op[OPERATIONS];
    struct block *block[OPERATIONS]; /* [BLOCKS_A_CHANNEL * channels] */
    uint32_t peers, nodes;
};

static inline bool nccl_by_tree(const struct nccl_plan *p) { return p->algorithm == COLL_TREE; }
static inline uint32_t nccl_links(const struct nccl_plan *p) { return nccl_by_tree(p) ? TREE_LINKS : 1; }
static inline uint32_t nccl_slice_steps(const struct nccl_plan *p) { return p->chunk_steps / p->slices; }

/* Prepares a block whose rank, op, number, down and counts of steps are set: its links and its first primitive.  Sets
 * b->done if the channel has nothing to do. */
void nccl_order_begin(struct block *b);
/* Goes on to the next primitive; sets b->done after the last. */
void nccl_order_next(struct block *b);
/* Whether the rank is the root of the channel's tree. */
bool nccl_is_root(const struct nccl_rank *r, uint32_t channel);
/* How many primitives a round has. */
uint32_t nccl_primitives(const struct block *b);
/* How many bytes a block sends in a launch, on each of its outgoing links.  *places gets how many places they fill. */
uint64_t nccl_sent(const struct block *b, uint64_t *places);

/* Adds a prepared block, and the host's threads that send for it, to the launch. */
void nccl_block_add(struct block *b, uint32_t warps);
/* Whether a NIC takes what the block sends to the peer. */
bool nccl_by_nic(const struct block *b, uint16_t peer);

#endif
