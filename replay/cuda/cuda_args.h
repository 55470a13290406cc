/* cuda_args.h - the parameter of the kernels in cuda_ptx_*.c.  Each kernel has one, a struct cuda_args
 * (cuda_bench.h) passed by value.  The PTX reads its fields at the offsets below.
 *
 * A kernel reads only the fields that it needs.  Row numbers wrap around: row i is at source + (i & source_mask) *
 * source_stride, so a footprint is (mask + 1) * stride bytes.  Of `all` warps, warp `me` moves the rows index + me,
 * index + me + all, ... */
#ifndef REPLAY_CUDA_ARGS_H
#define REPLAY_CUDA_ARGS_H

/* Offsets as PTX reads them; cuda_bench.c asserts that they are those of the struct. */
#define ARG_OUT           a + 0
#define ARG_SOURCE        a + 8
#define ARG_TARGETS       a + 16
#define ARG_GO            a + 24
#define ARG_OWN           a + 32
#define ARG_PEER          a + 40
#define ARG_CYCLES        a + 48
#define ARG_GO_COUNT      a + 56
#define ARG_SOURCE_MASK   a + 60
#define ARG_TARGET_MASK   a + 64
#define ARG_SOURCE_STRIDE a + 68
#define ARG_TARGET_STRIDE a + 72
#define ARG_ROW_BYTES     a + 76
#define ARG_ROWS          a + 80
#define ARG_TARGET_COUNT  a + 84
#define ARG_BY_BLOCK      a + 88
#define ARG_BY_WARP       a + 92
#define ARG_FAN           a + 96
#define ARG_STAGES        a + 100
#define ARG_AHEAD         a + 104
#define ARG_SHARED_STRIDE a + 108
#define ARG_SHARED_OFFSET a + 112
#define ARG_FLAGS         a + 116
#define ARG_COUNT         a + 120
#define ARG_TEAM          a + 124
#define ARG_INDEX         a + 128
#define ARG_BYTES         136

/* Bits of ARG_FLAGS, as PTX tests them. */
#define FLAG_IN           1  /* bulk: loads to shared memory */
#define FLAG_OUT          2  /* bulk: stores from shared memory */
#define FLAG_EVERY_WARP   4  /* each warp waits for its own stores; without the flag, one thread of the block waits */
#define FLAG_WHOLE        16 /* bulk: a stage is reused once its store is complete, not once the store has read it */
#define FLAG_PAIRS        8  /* flags: blocks 2i and 2i + 1 of one grid are a pair; without it, blocks i of two GPUs */

/* The result of a warp: 4 words of 8 bytes in the table at ARG_OUT. */
#define RESULT_BYTES      32

#endif
