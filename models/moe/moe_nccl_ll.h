/* moe_nccl_ll.h - private to NCCL EP's low-latency kernels (PROTOCOLS.md 1.20): what they have beyond moe_ll.h.
 *
 * The halves of the heap, in slots:
 *
 *     send: dispatch [token][message]               combine [packed row][slot]
 *     recv: dispatch [source][slot][message]        combine [token][choice][slot]
 *
 * A message is a header and a row.  The header has the number of the source's token and all its choices; rank-major,
 * their weights, too.  Without payload only headers are kept.  The finish words count messages by ranks.  Private words
 * beyond moe_ll.h's are arrived[source], which lie where masking has its words. */
#ifndef MODELS_MOE_MOE_NCCL_LL_H
#define MODELS_MOE_MOE_NCCL_LL_H

#include "models/moe/moe_ll.h"

enum { NCCL_LL_TOPK_MAX = 9, NCCL_LL_GROUPS_MAX = 14, NCCL_LL_QUEUES = 4, NCCL_LL_TOKENS_MAX = 8192 };

/* Expert-major, a received token has a row for each of its choices on the rank; rank-major, one row.  An item is what
 * warps deal out among them: a token's choice, or a token. */
struct nccl_ll {
    uint32_t header_bytes, kept_bytes;   /* bytes of a message's header; bytes of a message that the heap keeps */
    bool near;                           /* NVLink reaches all ranks */
    struct site_given arrive, arrived;   /* sizes of the sites at which a group waits for all counts of its source */
    struct site_given choices, sent_row; /* sizes of dispatch's sites */
    uint64_t arrived_target;             /* the value that arrived[] must reach */
    uint16_t *came;                      /* [ranks] tokens received */
    uint32_t *token;                     /* [ranks][tokens_max] their numbers at the source */
    int32_t *row;         /* [ranks][tokens_max][topk] packed rows of their choices; -1: none.  Rank-major,
                           * only the first choice on the rank has one */
    int32_t *recv_expert; /* rank-major, with payload: [ranks][tokens_max][topk] choices; -1: not here */
    float *recv_weight;   /* their weights */

    /* What combine's groups return: choices, as numbers of row[], of one group after another. */
    uint32_t *returned;
    uint32_t *returned_begin; /* [experts + 1] */
    uint8_t *at_once;         /* [experts] rows that a group returns at a time */
    uint32_t *reads;          /* [experts] entries of row[] that its warps read in vain, and one more */
    uint8_t *canonical[5];    /* made by outputs() */
};

static inline bool nccl_ll_expert_major(const struct ll_rank *r) { return r->base.options->expand; }
static inline uint32_t nccl_ll_word_arrived(const struct ll_rank *r, uint32_t source)
{
    return ll_word_sync(r, source);
}
static inline uint32_t nccl_ll_items_a_token(const struct ll_rank *r)
{
    return nccl_ll_expert_major(r) ? r->g.topk : 1;
}
/* The number of a received token among [ranks][tokens_max]. */
static inline uint64_t nccl_ll_slot(const struct ll_rank *r, uint32_t source, uint32_t slot)
{
    return (uint64_t)source * r->g.tokens_max + slot;
}

/* How warps of a group share its items. */
struct nccl_ll_share {
    uint32_t items[LL_WARPS_PER_SM], rows[LL_WARPS_PER_SM]; /* items of each warp; how many of them are rows */
};
/* How many rows in all; of how many warps it is the work if each has as many as the busiest one has; how many items of
 * the busiest warp are no rows. */
struct nccl_ll_work {
    uint32_t rows, warps, others;
};
struct nccl_ll_work nccl_ll_work_of(const struct nccl_ll_share *share);

extern const struct ll_dispatch_kind nccl_ll_dispatch;
uint32_t nccl_ll_check(const struct kernel_rank *rank, char *text, size_t text_size);
uint32_t nccl_ll_outputs(struct kernel_rank *rank, struct kernel_tensor *tensor, uint32_t max);

#endif
