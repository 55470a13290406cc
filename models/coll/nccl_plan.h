/* nccl_plan.h - what NCCL's host decides before its kernel runs: algorithm, protocol, channels, warps, chunks.
 *
 * It follows NCCL 2.29.2, or 2.28.9: src/graph/tuning.cc (times of algorithms and protocols, in us and GB/s),
 * src/enqueue.cc (topoGetAlgoInfo: channels and threads; scheduleCollTasksToPlan: a channel's part;
 * calcCollChunking: chunks), src/include/device.h and collectives.h (steps and sizes of the buffers between two
 * GPUs).  It has rings and trees, but not NVLS, NVLS trees, collnet and PAT.  Knows no world and no memory. */
#ifndef MODELS_COLL_NCCL_PLAN_H
#define MODELS_COLL_NCCL_PLAN_H

#include "models/coll/coll.h"

enum { NCCL_STEPS = 8 }; /* places in the buffer between two GPUs */

struct nccl_plan {
    enum coll_algorithm algorithm; /* COLL_RING or COLL_TREE */
    enum coll_protocol protocol;
    uint32_t channels, warps;               /* how many channels; warps of each that move data */
    uint32_t chunk_steps, slices;           /* places that a chunk takes; slices that it is sent in */
    uint64_t chunk_bytes;                   /* the most data that a primitive moves */
    uint64_t step_bytes;                    /* data in one place */
    uint64_t lo_bytes, mid_bytes, hi_bytes; /* data of the first channel; of each channel between; of the last */
};

/* Makes the plan of an all-gather, a reduce-scatter or an all-reduce.  o->algorithm and o->protocol may leave the
 * choice to NCCL. */
void nccl_plan_make(const struct coll_options *o, struct nccl_plan *plan);

/* Where a channel's part of a block begins, and how many bytes it has.  For an all-reduce, the block is all bytes. */
uint64_t nccl_part_begin(const struct nccl_plan *plan, uint32_t channel);
uint64_t nccl_part_bytes(const struct nccl_plan *plan, uint32_t channel);

#endif
