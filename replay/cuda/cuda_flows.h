/* cuda_flows.h - private to `eptwin measure --fabric cuda`: rows that warps move or work on for a while, described in
 * the
 * terms of a kernel: who, how many, how large, from where, to where. */
#ifndef REPLAY_CUDA_FLOWS_H
#define REPLAY_CUDA_FLOWS_H

#include "replay/cuda/cuda_bench.h"

/* Footprints of source and of target: well inside L2 but beyond the L1 of all SMs that share it, and beyond L2. */
#define CUDA_IN_L2     (UINT64_C(8) << 20)
#define CUDA_BEYOND_L2 CUDA_SOURCE_BYTES

struct cuda_flow {
    const char *kernel; /* copy_5, load_8, store_8, bulk, cast, sum, ... */
    uint32_t gpu, blocks, warps, row_bytes;
    uint64_t footprint;                    /* of rows at the source and at each target; 0: CUDA_IN_L2 */
    uint64_t source;                       /* 0: the GPU's own */
    uint32_t source_offset, target_offset; /* bytes that rows lie behind the begin of a 128-byte line */
    uint32_t target_count;                 /* 0: the GPU's own */
    uint64_t target[CUDA_TARGETS_MOST];
    uint32_t by_block, by_warp; /* which target a warp has */
    bool packed;                /* rows lie one behind the other,
        16 bytes apart; else each in its own lines */
    uint32_t rows;              /* of a warp; 0: as many as there is time for */
    /* bulk; of logs and exps shared_offset is the shared memory that a block asks for at least: */
    uint32_t flags, fan, stages, ahead, shared_offset;
    /* sum: rows of a sum, and whether a block makes one together */
    uint32_t count, team;
    double time_us; /* 0: the default */
};

/* Whether the warps' stages have room in an SM's shared memory. */
bool cuda_flow_fits(const struct cuda_bench *b, const struct cuda_flow *flow);

/* Runs flows at once, GPUs each their own.  rate_gbs[count]: bytes of a flow's rows in the time from its first warp's
 * begin
 * until the last one's rows were complete.  (Sums of warps' own rates would count more than a link carries: what warps
 * that end early leave of it, others have.) */
bool cuda_flows_run(struct cuda_bench *b, const struct cuda_flow *flows, uint32_t count, double *rate_gbs,
                    GError **error);

/* As cuda_flows_run(), but gives the runs' raw results instead of rates. */
bool cuda_flows_outcome(struct cuda_bench *b, const struct cuda_flow *flows, uint32_t count,
                        struct cuda_outcome *outcome, GError **error);

/* The rate of rows each read once by the flow, which have just been written by a GPU: that one's stores leave them in
 * the L2 where they belong, but not near each SM that reads them.  flow->source and ->target are not used. */
bool cuda_flow_fresh(struct cuda_bench *b, const struct cuda_flow *flow, uint32_t writer, double *rate_gbs,
                     GError **error);
/* Writes footprint bytes at GPU gpu's place for what is fresh, which is returned. */
bool cuda_fresh_write(struct cuda_bench *b, uint32_t writer, uint32_t gpu, uint32_t row_bytes, bool packed,
                      uint64_t footprint, uint64_t *place, GError **error);

/* The run of a flow, for callers that run something at the same time. */
struct cuda_run cuda_flow_run(struct cuda_bench *b, const struct cuda_flow *flow);

/* The entries of a list that a quick run leaves out: two of three, but never the last. */
bool cuda_quick_skips(const struct cuda_bench *b, uint32_t index, uint32_t count);

#endif
