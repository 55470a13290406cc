/* moe_mega.h - private to the fused kernel MegaMoE (PROTOCOLS.md 1.17): memory map and state of a rank.
 *
 * Every SM has warps of three kinds, which work at the same time on what is ready:
 *
 *     dispatch   lists of choices ──NVLink──► their experts' ranks; a barrier; then each rank pulls its experts' rows
 *     tensor     blocks of BLOCK_M rows by 128 columns: linear 1 once the rows have come, linear 2 after linear 1
 *     epilogue   activates linear 1's results; sends linear 2's results ──NVLink──► the token's rank; a barrier; sums
 *
 * A rank's rows are ordered by expert.  The rows of an expert are taken from all ranks in rotation, one from each.
 *
 * Heap, the first three only where payload is stored:
 *     in [tokens_max]                          rows that other ranks pull
 *     pool [rows]                              rows that this rank has pulled
 *     back [columns / 128][tokens_max x topk]  results that come back
 *     list [source]                            what the rank `source` has chosen here: the index of its first choice
 *                                              for this rank among all its choices; how many choices each of this
 *                                              rank's experts gets; with payload, those choices
 *
 * Signal words: barrier[source].  Private words: open, and a bell for each group of warps that waits. */
#ifndef MODELS_MOE_MOE_MEGA_H
#define MODELS_MOE_MOE_MEGA_H

#include "models/moe/moe_ht.h"

enum {
    MEGA_RANKS_MAX = 72, /* the most ranks: an NVLink domain has no more */
    MEGA_DISPATCH_WARPS = 4,
    MEGA_TENSOR_WARPS = 4, /* two load, one multiplies, and one has nothing to do */
    MEGA_EPILOGUE_WARPS = 8,
    MEGA_COLUMNS = 128,       /* columns of a block */
    MEGA_ACCUMULATORS = 2,    /* how many multiplied blocks may wait for the epilogue */
    MEGA_SIXTEENS = 192 / 16, /* rows of a block are multiplied in groups of sixteen */
    MEGA_SCALED = 32,         /* how many values share a scale of one byte */
    MEGA_INTERMEDIATE = 2048, /* the default of moe_options.intermediate */
};

struct mega_rank;

/* A block of rows by columns.  An SM takes blocks in the library's order.  In each wave of experts, all blocks of
 * linear 1 come first, then all blocks of linear 2. */
struct mega_block {
    uint32_t expert, rows, column; /* rows: the index of the expert's block of rows */
    bool second;                   /* the block is one of linear 2 */
};
struct mega_order {
    uint32_t expert, number;
    bool second;
};

/* An SM with its three groups of warps.  In shared memory the groups tell each other the blocks and counts below. */
struct mega_sm {
    struct fabric_worker dispatch, tensor, epilogue;
    struct mega_rank *rank;
    struct mega_order order;
    struct mega_block block, made[MEGA_ACCUMULATORS]; /* the tensor warps' next block; multiplied blocks, which the
                                                       * epilogue takes next */
    uint32_t number, multiplied, taken; /* the SM's number; blocks multiplied so far; how many the epilogue has taken */
    uint32_t row, expert;               /* dispatch: the next row to be pulled, and the row's expert */
    uint32_t target, peer, token;       /* dispatch: the next rank that gets its list, then the next row to be pulled;
                                         * epilogue: the next rank that gets rows, then the next token to be summed */
    uint16_t waiting;                   /* 1 + the next SM whose tensor warps wait for the same rows; 0: none */
    uint8_t pulled;                     /* how many halves of the current rows are pulled */
    bool come;                          /* the current rows lie in the pool */
    bool counted, listed;               /* dispatch: choices are counted; lists are sent */
    bool chosen, registered, waited, loaded, tensor_waits, ended;
    bool moved, epilogue_waits, rung, summed;
};

/* Sizes for the sheet's lines about a linear layer.  again has the bytes of the weights, rows and rows_awaited have the
 * bytes of the rows, and multiply[] has rows and depth. */
struct mega_given {
    struct site_given again, rows, rows_awaited, multiply[MEGA_SIXTEENS];
};

struct mega_gate {
    struct fabric_worker worker;
    struct mega_rank *rank;
    struct ht_barrier barrier;
    uint32_t opened;
    bool counts_told, told; /* the counts have been added to the other ranks' counts; this rank has raised its own word
                             * of the barrier */
};

struct mega_map {
    uint64_t in, pool, back, list, list_bytes, end;
    uint64_t back_rows; /* the most choices of a rank */
};

struct mega_rank {
    struct ht_rank ht;
    struct mega_map map;
    uint32_t intermediate, block_rows, wave; /* wave: how many experts a wave has */
    /* This rank's own choices, sorted by expert. */
    uint32_t *sent_before; /* [experts + 1] where each expert's choices begin */
    uint32_t *sent;        /* [tokens x topk] the choices: token x topk + place */
    uint32_t *place; /* [tokens x topk] each choice's number in this order; UINT32_MAX: the choice has no expert */
    /* The following members are known once the lists of all ranks have come (lists_read()).  Rows and blocks are in the
     * order of this rank's experts. */
    uint32_t *row_before, *block_before; /* [local experts + 1] rows, blocks of rows */
    uint32_t rows_room, blocks_room;
    uint16_t *source;           /* [rows] the rank that a row comes from */
    uint32_t *choice;           /* [rows] the row's number among the choices at its source */
    uint32_t *come, *activated; /* [blocks] how many rows have come; how many blocks of columns of linear 1 are done */
    uint16_t *waiting;          /* [blocks] 1 + the first SM that waits for the block */
    uint64_t opens, rings;      /* values of the words `open` and the gate's bell when this launch began */
    struct mega_given given[2];
    struct site_given sum_given;
    struct mega_sm *sm;
    struct mega_gate gate;
    uint16_t *combined; /* [tokens][hidden] */
};

/* These functions of moe_mega_tiles.c launch the tensor warps and the epilogue's warps, and make the sizes for their
 * loops. */
void mega_tensor_launch(struct mega_rank *r, struct mega_sm *s);
void mega_given_make(struct mega_rank *r);
void mega_epilogue_launch(struct mega_rank *r, struct mega_sm *s);

static inline uint32_t mega_word_open(const struct mega_rank *r) { return r->ht.g.ranks; }
static inline uint32_t mega_word_gate(const struct mega_rank *r) { return r->ht.g.ranks + 1; }
static inline uint32_t mega_word_tensor(const struct mega_sm *s) { return s->rank->ht.g.ranks + 2 + 2 * s->number; }
static inline uint32_t mega_word_epilogue(const struct mega_sm *s) { return mega_word_tensor(s) + 1; }

static inline const uint32_t *mega_list_from(const struct mega_rank *r, uint32_t source)
{
    return (const uint32_t *)(const void *)(r->ht.base.fabric->heap + r->map.list + source * r->map.list_bytes);
}

/* The choice from which a row comes, at its source: token x topk + place. */
static inline uint32_t mega_choice_of(const struct mega_rank *r, uint32_t row)
{
    const uint32_t *list = mega_list_from(r, r->source[row]);
    return list[1 + r->ht.g.local_experts + r->choice[row] - list[0]];
}

/* Whether all ranks have reached the barrier of this number (from 1). */
static inline bool mega_open(const struct mega_rank *r, uint32_t number)
{
    return fabric_load(r->ht.base.fabric, mega_word_open(r)) >= r->opens + number;
}

/* Wakes the tensor warps that wait for this block of rows. */
static inline void mega_waiting_wake(struct mega_rank *r, struct fabric_worker *w, uint32_t block)
{
    enum site site = SITE_NONE;
    for (uint32_t i = r->waiting[block]; i; site = SITE_MEGA_WAKE_LANE) {
        struct mega_sm *s = &r->sm[i - 1];
        i = s->waiting;
        s->waiting = 0;
        s->registered = false;
        fabric_signal_add(w, mega_word_tensor(s), 1, site);
    }
    r->waiting[block] = 0;
}

static inline uint32_t mega_block_number(const struct mega_rank *r, const struct mega_block *b)
{
    return r->block_before[b->expert] + b->rows;
}
static inline uint32_t mega_expert_rows(const struct mega_rank *r, uint32_t expert)
{
    return r->row_before[expert + 1] - r->row_before[expert];
}
/* How many rows of a block are tokens. */
static inline uint32_t mega_block_rows(const struct mega_rank *r, const struct mega_block *b)
{
    return moe_min(mega_expert_rows(r, b->expert) - b->rows * r->block_rows, r->block_rows);
}

#endif
