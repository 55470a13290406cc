/* moe.h - dispatch and combine as a kernel family (models/kernel.h): options, their limits, the job.
 *
 * A rank of an expert-parallel group keeps its state between calls.  Its phases (layout, notify, dispatch, combine,
 * ...) are kernels.  Each family follows its section of PROTOCOLS.md, which describes DeepEP at commit dd758ca.  Needs
 * libc and the seam, nothing else. */
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
    MOE_NORMAL,      /* PROTOCOLS.md 1.1 to 1.3: intranode up to ranks_per_node ranks, else internode */
    MOE_V2,          /* PROTOCOLS.md 1.7 */
    MOE_ONE_SIDED,   /* PROTOCOLS.md 1.12 */
    MOE_TWO_SIDED,   /* PROTOCOLS.md 1.15 */
    MOE_MORI,        /* PROTOCOLS.md 1.14 within a node, 1.16 between nodes */
    MOE_MORI_LL,     /* PROTOCOLS.md 1.14, 1.16: MoRI's low-latency kernels, which split work into smaller parts */
    MOE_MEGA,        /* PROTOCOLS.md 1.17: dispatch, the experts and combine in one kernel */
    MOE_PPLX,        /* PROTOCOLS.md 1.18 */
    MOE_NCCL_HT,     /* PROTOCOLS.md 1.19 */
    MOE_NCCL_LL,     /* PROTOCOLS.md 1.20: NCCL EP's low latency */
    MOE_HYBRID_EP,   /* PROTOCOLS.md 1.21: DeepEP's branch hybrid-ep of 2025, from which NCCL_HT came */
};

enum moe_dtype { MOE_BF16, MOE_FP8 };

enum moe_data {
    MOE_DATA_PATTERN,  /* x = rank - 128; the last 128 columns hold the token index (public low-latency test) */
    MOE_DATA_CONSTANT, /* x = rank (public normal test) */
    MOE_DATA_RANDOM,   /* nearly normal deviates with mean 0 and standard deviation 0.1, from the seed */
};

/* Ring and chunk sizes of the normal kernels, in tokens (PROTOCOLS.md 2). */
struct moe_chunks {
    uint32_t nvl_send, nvl_recv, rdma_send, rdma_recv;
};

/* A planned failure: from this call in this iteration on, the rank launches nothing. */
enum moe_call { MOE_CALL_DISPATCH, MOE_CALL_COMBINE, MOE_CALL_CLEAN };
struct moe_failure {
    uint32_t rank, iteration;
    enum moe_call call;
};
enum { MOE_FAILURES_MAX = 16 };

struct moe_options {
    enum moe_kernel_family family;
    uint32_t ranks, ranks_per_node;
    uint32_t tokens_max; /* the most tokens of any rank (num_max_dispatch_tokens_per_rank) */
    uint32_t hidden, topk, experts;
    enum moe_dtype dtype; /* the type of dispatched values; combine always sends BF16 */
    enum moe_data data;
    uint64_t seed;
    bool round_scale, ue8m0;  /* FP8: scales are rounded to powers of two; scales are stored as exponents */
    bool hook;                /* low latency (NCCL EP's, too), pplx: send and receive are separate kernels */
    uint64_t mask_timeout_ps; /* low latency: a rank masks a peer for which it has waited this long; 0: it masks none */
    struct moe_failure failure[MOE_FAILURES_MAX];
    uint32_t failure_count;
    bool logfmt;               /* low latency combine: rows return as LogFMT (formats.h) */
    bool flushed;              /* low latency: caches are flushed before each call */
    bool zero_copy;            /* combine (low latency, one-sided, MoRI): the experts write their rows to where combine
                                * takes them from, so combine need not copy them first */
    bool uccl;                 /* normal, internode: as in UCCL's port (PROTOCOLS.md 1.10) */
    bool host_words;           /* UCCL: words that peers on other nodes change are in the host's memory */
    bool cached;               /* normal: dispatch reuses an earlier handle and sends no top-k choices, as in the tuning
                                * loop of the public test */
    bool expand;               /* V2, NCCL EP: a token has a row for each of its experts on a rank, instead of one */
    bool single_reduction;     /* V2 combine: rows are summed only at the token's source */
    bool direct;               /* V2 over several nodes: not the hybrid mode; a token goes to each rank separately */
    bool hybrid_ep;            /* Hybrid-EP: calls also have their steps, and combine returns probabilities */
    bool weights;              /* combine carries top-k weights */
    uint32_t expert_alignment; /* an expert's count of rows is rounded up to a multiple of this (all but low latency and
                                * MegaMoE) */
    bool worst_tokens;         /* normal: outputs have room for the most rows possible, so the host does not wait for
                                * counts */
    uint32_t num_bias;         /* normal combine: 0 to 2 bias tensors */
    uint32_t num_sms;          /* SMs that the kernels use */
    uint32_t num_warps;        /* MoRI: warps of a block; 0: 8 */
    uint32_t rdma_sms;         /* MoRI between nodes: how many of num_sms serve other nodes; 0: two thirds */
    uint32_t intermediate;     /* MegaMoE: values between the two layers of an expert; 0: 2048 */
    bool mega_first;           /* MegaMoE as in the first version of DeepGEMM that has it (7f2a703) */
    uint32_t device_sms;       /* SMs of the GPU; some kernels use all of them; 0: num_sms */
    struct moe_chunks dispatch, combine;
    uint32_t deepep; /* the version of the kernels (moe_deepep.h); 0: that of PROTOCOLS.md */
};

/* Returns NULL if the options are within the kernels' limits.  Else writes to text the option's name, what was
 * expected and what was found, and returns text. */
const char *moe_options_refuse(const struct moe_options *options, char *text, size_t text_size);

/* Sets the chunk sizes that are recommended for the number of ranks (PROTOCOLS.md 2).  rdma_recv is rounded up to a
 * multiple of rdma_send. */
void moe_options_recommend(struct moe_options *options);

/* Returns the number of SMs that the V2 kernels use by their formula (PROTOCOLS.md 1.7): enough SMs to read and write
 * what the slower kind of link carries.  The rates of links are in GB/s.  The number is even, and at least 4. */
uint32_t moe_v2_sms(const struct moe_options *options, double rdma_gbs, double nvl_gbs);

/* Dispatch and combine as a job of models/kernel.h.  The rows that a rank moves are counted as in the public tests
 * (PROTOCOLS.md 3.1).  Outputs whose order depends on arrival are sorted by source and slot.  Checks are those of
 * PROTOCOLS.md section 4. */
struct moe_job {
    struct kernel_job job;
    struct moe_options options;
    const struct routing *routing;
};
/* Copies options.  routing must outlive the job. */
void moe_job_init(struct moe_job *job, const struct moe_options *options, const struct routing *routing);

#endif
