/* cuda_flows.h - private to `eptwin measure --fabric cuda`: runs flows.  In a flow, warps move rows, or work on
 * rows, for a given time.  A flow is described by its kernel, its numbers of SMs and warps, the size of its rows,
 * and where they come from and go. */
#ifndef REPLAY_CUDA_FLOWS_H
#define REPLAY_CUDA_FLOWS_H

#include "replay/cuda/cuda_bench.h"

/* Footprints of source and target.  CUDA_IN_L2 fits well into L2, but not into the L1s of all SMs that share it.
 * CUDA_BEYOND_L2 does not fit into L2. */
#define CUDA_IN_L2     (UINT64_C(8) << 20)
#define CUDA_BEYOND_L2 CUDA_SOURCE_BYTES

struct cuda_flow {
    const char *kernel; /* copy_5, load_8, store_8, bulk, cast, sum, ... */
    uint32_t gpu, blocks, warps, row_bytes;
    uint64_t footprint; /* bytes of rows at the source and, if it has room, at each target; 0: CUDA_IN_L2 */
    uint64_t source;    /* address; 0: the GPU's own source area */
    uint32_t source_offset, target_offset; /* bytes from the start of a 128-byte line to the start of a row */
    uint32_t target_count;                 /* 0: the GPU's own target area */
    uint64_t target[CUDA_TARGETS_MOST];
    uint32_t by_block, by_warp; /* factors of the block and of the warp in the index of the warp's target */
    bool packed;                /* a row begins at the next multiple of 16 bytes after the previous row; otherwise,
                                 * at the next 128-byte line */
    uint32_t rows;              /* rows of each warp; 0: as many as the time allows */
    /* For bulk copies, as in struct cuda_args.  For logs and exps, a block gets at least shared_offset
     * bytes of shared memory. */
    uint32_t flags, fan, stages, ahead, shared_offset;
    /* For sums: the rows of each sum, and whether a whole block makes one sum. */
    uint32_t count, team;
    double time_us; /* 0: the default */
};

/* Whether the shared memory that a block of the flow needs fits into that of an SM. */
bool cuda_flow_fits(const struct cuda_bench *b, const struct cuda_flow *flow);

/* Runs flows at the same time, each on its own GPU.  Sets rate_gbs[count] to the bytes of each flow's rows divided
 * by the time from the start of its first warp to the end of its last warp.  Adding up the warps' own rates would
 * give more than a link carries, because the warps that end last get the bandwidth of those that have ended. */
bool cuda_flows_run(struct cuda_bench *b, const struct cuda_flow *flows, uint32_t count, double *rate_gbs,
                    GError **error);

/* As cuda_flows_run(), but gives the runs' raw results instead of rates. */
bool cuda_flows_outcome(struct cuda_bench *b, const struct cuda_flow *flows, uint32_t count,
                        struct cuda_outcome *outcome, GError **error);

/* Measures the rate at which the flow reads rows that GPU `writer` has just written.  Each row is read at most once.
 * A row lies in the slice of L2 that belongs to its address, and this slice may be far from the SM that reads the row.
 * flow->source is not used. */
bool cuda_flow_fresh(struct cuda_bench *b, const struct cuda_flow *flow, uint32_t writer, double *rate_gbs,
                     GError **error);
/* Makes GPU `writer` write rows of `footprint` bytes in all into the target area of GPU `gpu`.  Sets *place to their
 * address. */
bool cuda_fresh_write(struct cuda_bench *b, uint32_t writer, uint32_t gpu, uint32_t row_bytes, bool packed,
                      uint64_t footprint, uint64_t *place, GError **error);

/* Makes the run of a flow, for callers that run something else at the same time. */
struct cuda_run cuda_flow_run(struct cuda_bench *b, const struct cuda_flow *flow);

/* Whether this run skips the entry with this index of a list.  A quick run skips two of three, but never the last. */
bool cuda_quick_skips(const struct cuda_bench *b, uint32_t index, uint32_t count);

#endif
