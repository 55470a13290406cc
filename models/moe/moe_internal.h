/* moe_internal.h - private to models/moe: the table of functions that moe.c calls a family by, and what families
 * share. */
#ifndef MODELS_MOE_MOE_INTERNAL_H
#define MODELS_MOE_MOE_INTERNAL_H

#include "models/moe/moe.h"

/* The rank struct of each family begins with a struct moe_rank. */
struct moe_rank {
    struct kernel_rank kernel;
    const struct moe_options *options;
    struct fabric *fabric;
    const struct routing *routing;
};

static inline const struct moe_job *moe_job_of(const struct kernel_job *job)
{
    return fabric_container_of(job, const struct moe_job, job);
}
static inline const struct moe_options *moe_options_of(const struct kernel_job *job)
{
    return &moe_job_of(job)->options;
}
static inline struct moe_rank moe_rank_of(const struct kernel_job *job, struct fabric *fabric)
{
    return (struct moe_rank){
        .kernel.job = job, .options = moe_options_of(job), .fabric = fabric, .routing = moe_job_of(job)->routing
    };
}

/* A family.  refuse() returns NULL if the family's kernels can run the options.  Else it writes the reason to text and
 * returns text. */
struct moe_family {
    const struct kernel_family kernels;
    const char *(*refuse)(const struct moe_options *o, char *text, size_t text_size);
};
extern const struct moe_family moe_family_ll;         /* moe_ll.c */
extern const struct moe_family moe_family_intranode;  /* moe_ht_intra.c */
extern const struct moe_family moe_family_internode;  /* moe_ht_inter.c */
extern const struct moe_family moe_family_v2;         /* moe_v2.c */
extern const struct moe_family moe_family_one_sided;  /* moe_one_sided.c */
extern const struct moe_family moe_family_two_sided;  /* moe_two_sided.c */
extern const struct moe_family moe_family_mori;       /* moe_mori.c */
extern const struct moe_family moe_family_mori_inter; /* moe_mori_inter.c */
extern const struct moe_family moe_family_mega;       /* moe_mega.c */
extern const struct moe_family moe_family_pplx;       /* moe_pplx.c */
extern const struct moe_family moe_family_nccl_ht;    /* moe_nccl_ht.c */
extern const struct moe_family moe_family_nccl_ll;    /* moe_nccl_ll.c */

/* Fills in the steps of Hybrid-EP's call of this phase, if the options ask for them (moe_hybrid_ep.c). */
void moe_hybrid_ep_steps(const struct kernel_rank *rank, uint32_t phase, struct kernel_steps *steps);

/* Whether a choice of a token is the first one of its rank.  false if the choice has no expert. */
static inline bool moe_first_of_rank(const int32_t *choice, uint32_t place, uint32_t local_experts)
{
    if (choice[place] < 0) return false;
    for (uint32_t i = 0; i < place; i++)
        if (choice[i] >= 0 && (uint32_t)choice[i] / local_experts == (uint32_t)choice[place] / local_experts)
            return false;
    return true;
}

/* A cheap hash of an input's seed and place. */
static inline uint64_t moe_hash(uint64_t x) { return kernel_hash(x + UINT64_C(0x9e3779b97f4a7c15)); }

/* Writes row `token` of the rank's input x: `hidden` values in BF16, from the options' data mode and seed.  Any rank
 * can compute any row. */
void moe_input_row(const struct moe_options *o, uint32_t rank, uint32_t token, uint16_t *row);

/* Divides n items among channels (get_channel_task_range, PROTOCOLS.md 1).  Channel c gets the items [*start, *end). */
static inline void moe_channel_range(uint32_t n, uint32_t channels, uint32_t c, uint32_t *start, uint32_t *end)
{
    const uint32_t per = (n + channels - 1) / channels;
    *start = per * c < n ? per * c : n;
    *end = *start + per < n ? *start + per : n;
}

/* The high half of a signal word is the number of the launch that wrote it.  A word of an older launch reads as 0, so
 * words never need to be zeroed. */
static inline uint64_t moe_word_make(uint32_t epoch, uint32_t value) { return (uint64_t)epoch << 32 | value; }
static inline uint32_t moe_word_value(uint64_t word, uint32_t epoch)
{
    return (uint32_t)(word >> 32) == epoch ? (uint32_t)word : 0;
}

static inline uint64_t moe_align(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
static inline uint32_t moe_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t moe_ceiling(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

/* Shared memory of an SM, 227 KB: the most that a block may take on the GPUs that the libraries compile for. */
enum { MOE_SHARED_BYTES = 232448 };

/* How many ranks a node has. */
static inline uint32_t moe_local(const struct moe_options *o) { return moe_min(o->ranks, o->ranks_per_node); }

/* The most rows that a rank may have for another. */
static inline uint64_t moe_rows_most(const struct moe_options *o)
{
    return (uint64_t)o->tokens_max * moe_min(o->topk, o->experts / o->ranks);
}

#endif
