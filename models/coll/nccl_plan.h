/* nccl_plan.h - what NCCL's host decides before its kernel runs: algorithm, protocol, channels, warps, chunks.
 *
 * It follows NCCL 2.29.2, or 2.28.9: src/graph/tuning.cc (times of algorithms and protocols, in us and GB/s),
 * src/enqueue.cc (topoGetAlgoInfo: channels and threads; ncclPrepareTasks: what is chosen for several operations at
 * once; scheduleCollTasksToPlan: a channel's part; calcCollChunking: chunks), src/scheduler/allgatherv_sched.cc,
 * src/include/device.h and collectives.h (steps and sizes of the buffers between two GPUs).  It has rings and trees,
 * but not NVLS, NVLS trees, collnet and PAT.  Knows no world and no memory. */
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

/* NCCL has no all-gather and no reduce-scatter of blocks of different sizes (o->rows).  Engines issue a group of
 * broadcasts, one from each rank, or of reductions, one to each.
 *
 * From 2.29.2 on, a group of broadcasts is one kernel (AllGatherV): a ring's all-gather in which each channel has a
 * part of every block.  nccl_gathers_blocks() tells whether this is so, nccl_plan_blocks() makes its plan, and
 * nccl_block_part() returns the bytes of a channel's part of a block.  *begin gets where it begins. */
bool nccl_gathers_blocks(const struct coll_options *o);
void nccl_plan_blocks(const struct coll_options *o, struct nccl_plan *plan);
uint64_t nccl_block_part(const struct nccl_plan *plan, uint64_t size_bytes, uint32_t channel, uint64_t *begin);

/* Else a kernel runs a list of works: parts of broadcasts from a root, or of reductions to it.  A channel runs its
 * works one after another.  The ring is a pipeline that begins at the root, or ends there. */
struct nccl_work {
    uint64_t begin, size_bytes; /* the part of the root's block */
    uint16_t root, channel;
    uint8_t plan;
};
enum { NCCL_PLANS = 20 }; /* sizes within a factor of 4 share a plan */
/* Makes the works of all blocks that have bytes, and returns how many there are: at most o->ranks + o->nccl.channels.
 * *plans gets the number of plans.  plan[0].channels is how many channels have works. */
uint32_t nccl_works_make(const struct coll_options *o, struct nccl_plan plan[NCCL_PLANS], uint32_t *plans,
                         struct nccl_work *work);

/* Where a channel's part of a block begins, and how many bytes it has.  For an all-reduce, the block is all bytes. */
uint64_t nccl_part_begin(const struct nccl_plan *plan, uint32_t channel);
uint64_t nccl_part_bytes(const struct nccl_plan *plan, uint32_t channel);

#endif
