/* moe_one_sided.h - private to NVLink one-sided kernels (PROTOCOLS.md 1.12) and MoRI's (1.14): memory map and state
 * of a rank.
 *
 * A thread block takes a token.  Dispatch pushes it to each rank that needs it.  Each source has its own part of the
 * target's area, so rows that have come are neither forwarded nor copied.  Experts leave their output in a second area,
 * at the same places.  Combine pulls the output from there and sums it.
 *
 *     dispatch   token ──NVLink stores──► in[source][slot] of each target      a barrier at the end
 *     combine    out[source][slot] of each target ──NVLink loads──► sum        a barrier at the start
 *
 * Heap, only where payload is stored: in, out and made [ranks][tokens_max]; gathered [blocks][topk], where a block's
 * loads end.  made is the experts' output, which is copied to out; with zero-copy, experts write to out themselves.
 *
 * Signal words: counts[source], which dispatch sets to 1 + a count at its end; ready[source], which combine sets at its
 * start.  Private words: open and finished. */
#ifndef MODELS_MOE_MOE_ONE_SIDED_H
#define MODELS_MOE_MOE_ONE_SIDED_H

#include "models/moe/moe_ht.h"

enum {
    OS_RANKS_MAX = 64, /* the ranks of a token are the bits of one number */
    OS_WARPS = 8,      /* warps of a block: 256 threads */
    OS_BLOCKS = 8,     /* blocks of an SM, which has 2048 threads */
};

enum os_phase { OS_DISPATCH_PREPARE, OS_DISPATCH, OS_DISPATCH_SANITIZE, OS_COMBINE_PREPARE, OS_COMBINE, OS_PHASES };

struct os_rank;

/* A thread block on an SM.  With n blocks, it takes every n-th token. */
struct os_block {
    struct fabric_worker worker;
    struct os_rank *rank;
    uint32_t number, token, target; /* the block's index among all blocks; its next token; the next rank that gets this
                                     * token */
    uint32_t pass;                  /* combine: the number of the current pass over a row */
    bool chosen;                    /* the token's slots at its ranks have been taken or read */
};

/* Stands for the block of dispatch that ends last and tells the peers, and for the first block of combine.  With
 * `behind` it waits until all blocks have finished. */
struct os_gate {
    struct fabric_worker worker;
    struct os_rank *rank;
    uint32_t next, come; /* how many ranks are told; how many ranks' words have come */
    bool combine, behind;
};

struct os_map {
    uint64_t in, out, made, gathered, end;
};

struct os_rank {
    struct ht_rank ht;
    struct os_map map;
    uint32_t sms, blocks;
    uint32_t launched; /* the phase that was launched last */
    struct os_block *block;
    struct ht_local *local; /* [sms] */
    struct os_gate gate;
    uint64_t opened, finished; /* the values that the private words will have when the launched kernel has ended */
};

/* MoRI's kernels use these functions, too.  os_rank_init() fills a zeroed rank, but the caller sets blocks, block and
 * local.  MoRI's kernels also replace the map. */
void os_map_make(const struct moe_options *o, bool payload, struct os_map *m);
struct fabric_needs os_needs_of(const struct moe_options *o, const struct os_map *map);
void os_rank_init(struct os_rank *r, const struct kernel_job *job, struct fabric *f, uint32_t workers);
static inline uint32_t os_word_open(const struct os_rank *r) { return 2 * r->ht.g.ranks; }
static inline uint32_t os_word_finished(const struct os_rank *r) { return 2 * r->ht.g.ranks + 1; }
/* Returns the store of b's token to b's target.  Each of `warps` warps moves a part.  b must outlive the store. */
struct fabric_write os_token_write(const struct os_block *b, uint8_t warps, uint8_t site);
void os_gate_launch(struct os_rank *r, bool combine, bool behind);
/* Reads how many rows came from each rank.  Must be called before the next launch, which changes the words' epoch. */
void os_counts_read(struct os_rank *r);
void os_rows_view(struct os_rank *r);
void os_rows_give(struct os_rank *r);
void os_traffic_of(const struct os_rank *r, enum os_phase phase, struct kernel_traffic *traffic);
/* Checks the limits that other kernels within a node have, too.  Its text calls the kernels `name`. */
const char *os_limits_refuse(const struct moe_options *o, const char *name, char *text, size_t text_size);

#endif
