/* moe.h - the dispatch/combine protocol of one rank: options, phases, kernels, tensors.
 *
 * A struct moe_rank holds what one rank of an expert-parallel group keeps between calls.  Its phases (layout,
 * notify, dispatch, combine, ...) are kernels: sets of workers that a world steps to the end.  The kernel
 * families (moe_ll.c, moe_ht_intra.c, moe_ht_inter.c, moe_v2.c) share this interface; what each does step by step
 * follows PROTOCOLS.md (DeepEP at dd758ca), sections 1.1 to 1.7.  Needs libc and the seam, nothing else. */
#ifndef MODELS_MOE_MOE_H
#define MODELS_MOE_MOE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "models/fabric.h"
#include "models/kernel.h"
#include "traces/routing.h"

enum moe_kernel_family {
    MOE_LOW_LATENCY, /* PROTOCOLS.md 1.4 */
    MOE_NORMAL,      /* 1.1 to 1.3: intranode up to ranks_per_node ranks, else internode */
    MOE_V2,          /* 1.7 */
};

enum moe_dtype { MOE_BF16, MOE_FP8 };

enum moe_data {
    MOE_DATA_PATTERN,  /* x = rank - 128, last 128 columns the token index (public low-latency test) */
    MOE_DATA_CONSTANT, /* x = rank (public normal test) */
    MOE_DATA_RANDOM,   /* normal deviates x 0.1, from the seed */
};

/* Ring and chunk sizes of the normal kernels, in tokens (PROTOCOLS.md 2). */
struct moe_chunks {
    uint32_t nvl_send, nvl_recv, rdma_send, rdma_recv;
};

/* A planned failure: from its call of that iteration on, a rank launches nothing any more. */
enum moe_call { MOE_CALL_DISPATCH, MOE_CALL_COMBINE, MOE_CALL_CLEAN };
struct moe_failure {
    uint32_t rank, iteration;
    enum moe_call call;
};
enum { MOE_FAILURES_MAX = 16 };

struct moe_options {
    enum moe_kernel_family family;
    uint32_t ranks, ranks_per_node;
    uint32_t tokens_max; /* most tokens of any rank (num_max_dispatch_tokens_per_rank) */
    uint32_t hidden, topk, experts;
    enum moe_dtype dtype; /* of dispatch; combine is BF16 */
    enum moe_data data;
    uint64_t seed;
    bool round_scale, ue8m0;  /* FP8 scales as powers of two; stored as exponents */
    bool hook;                /* low latency: send and receive as kernels of their own */
    uint64_t mask_timeout_ps; /* low latency: whoever keeps a rank waiting longer is masked; 0: nobody is */
    struct moe_failure failure[MOE_FAILURES_MAX];
    uint32_t failure_count;
    bool logfmt;               /* low latency combine: rows return as LogFMT (formats.h) */
    bool zero_copy;            /* low latency combine: the rows already lie in the send buffer */
    bool uccl;                 /* normal, internode: as UCCL's port has it (PROTOCOLS.md 1.10) */
    bool cached;               /* normal: dispatch with a cached handle and no top-k (as the public tuning loop) */
    bool expand;               /* V2: a row for each expert of a token here, not one for each token */
    bool single_reduction;     /* V2 combine: rows are summed only at the token's source */
    bool hybrid_ep;            /* V2: include the work of Hybrid-EP's calls around these kernels */
    bool weights;              /* combine carries top-k weights */
    uint32_t expert_alignment; /* normal: per-expert counts are rounded up to this */
    bool worst_tokens;         /* normal: outputs sized at the worst case, no host wait */
    uint32_t num_bias;         /* normal combine: 0 to 2 bias tensors */
    uint32_t num_sms;          /* SMs that the kernels use */
    uint32_t device_sms;       /* of the GPU, which some kernels use all of; 0: as num_sms */
    struct moe_chunks dispatch, combine;
    uint32_t deepep; /* the version (moe_deepep.h) whose kernels they are; 0: as PROTOCOLS.md */
};

/* Checks the options against the kernels' limits.  NULL if they are fine, else text (filled with the reason:
 * which option, what was expected, what was found). */
const char *moe_options_refuse(const struct moe_options *options, char *text, size_t text_size);

/* The recommended chunk sizes by number of ranks (PROTOCOLS.md 2); rdma_recv is rounded up to rdma_send. */
void moe_options_recommend(struct moe_options *options);

/* The V2 kernels' analytic number of SMs (PROTOCOLS.md 1.7): enough to read and write what the tighter of the links,
 * given in GB/s, can carry; even, at least 4. */
uint32_t moe_v2_sms(const struct moe_options *options, double rdma_gbs, double nvl_gbs);

/* The requirements of these options on a fabric. */
void moe_options_needs(const struct moe_options *options, bool payload, struct fabric_needs *needs);

struct moe_rank;

/* Makes the rank's state on a connected fabric.  options, fabric and routing (of all ranks; a rank reads only
 * its own row, the checks read all) must outlive it. */
struct moe_rank *moe_rank_new(const struct moe_options *options, struct fabric *fabric, const struct routing *routing);
void moe_rank_free(struct moe_rank *rank);

/* The phases of one iteration, in launch order.  All ranks launch all of them. */
uint32_t moe_phase_count(const struct moe_options *options);
const char *moe_phase_name(const struct moe_options *options, uint32_t phase);

/* Prepares phase for its next launch and returns it; owned by the rank, valid until the next call.  Phases
 * must be launched in order, iteration after iteration; a rank may run ahead of its peers. */
struct kernel_launch *moe_rank_launch(struct moe_rank *rank, uint32_t phase);

/* Whether a rank has failed, as planned, when it comes to phase of iteration (from 0). */
bool moe_options_failed(const struct moe_options *options, uint32_t rank, uint32_t phase, uint32_t iteration);
/* Whether the rank has masked peer: it neither sends to it nor waits for it any more. */
bool moe_rank_masks(const struct moe_rank *rank, uint32_t peer);

/* The bytes that the last iteration moved, as the public tests count them (PROTOCOLS.md 3.1), and those that it
 * received. */
void moe_rank_traffic(const struct moe_rank *rank, uint32_t phase, struct kernel_traffic *traffic);

/* The outputs of the last iteration, in a canonical order (where the protocol leaves the order of rows to
 * arrival, rows are sorted by source and slot).  Only with payload.  Returns their number (at most max). */
uint32_t moe_rank_outputs(struct moe_rank *rank, struct kernel_tensor *tensor, uint32_t max);

/* Runs the checks of PROTOCOLS.md section 4 that apply on the outputs of the last iteration.
 * Returns the number of failed checks; text gets the first failure (number of the check, place, expected,
 * found).  Only with payload. */
uint32_t moe_rank_check(const struct moe_rank *rank, char *text, size_t text_size);

/* Dispatch and combine as a job of models/kernel.h. */
struct moe_job {
    struct kernel_job job;
    struct moe_options options;
    const struct routing *routing;
};
/* options are copied, routing must outlive the job. */
void moe_job_init(struct moe_job *job, const struct moe_options *options, const struct routing *routing);

#endif
