/* cuda_ptx.h - macros to write PTX in the cuda_ptx_*.c.  PTX stands between the brackets of PTX(...), where comments
 * and macros of the C preprocessor work.  Each PTX(...) becomes one line of text, because PTX needs no line breaks.
 *
 * Private to the cuda_ptx_*.c.  Registers have names, and HEAD declares those that all kernels use.  A macro with
 * labels opens its own scope with { }.  A wait that lasts longer than WAIT_CYCLES, some seconds, ends the kernel
 * with an error.  So if a GPU fails, the GPUs that wait for it fail too. */
#ifndef REPLAY_CUDA_PTX_H
#define REPLAY_CUDA_PTX_H

#include "replay/cuda/cuda_args.h"

/* The text below is PTX, not C. */
/* clang-format off */

#define PTX(...)   PTX_TEXT(__VA_ARGS__)
#define PTX_TEXT(...) #__VA_ARGS__ "\n"

/* The first line of each text of PTX. */
#define HEADER PTX(.version 8.0 .target sm_90 .address_size 64)

/* A kernel whose blocks have up to 1024 threads.  Each thread may use as many registers as that number allows. */
#define ENTRY(name) ENTRY_UP_TO(1024, name)
#define ENTRY_UP_TO(threads, name) \
    .visible .entry name(.param .align 8 .b8 a[ARG_BYTES]) .maxntid threads, 1, 1 .minnctapersm 1

#define WAIT_CYCLES 8000000000

/* Computes a thread's numbers: `me` is the number of its warp in the grid, and `all` the number of warps. */
#define HEAD \
    .reg .pred p, q; \
    .reg .b32 tid, lane, warp, warps, block, blocks, me, all, done; \
    .reg .b64 c0, c1, t0, t1, limit, out; \
    mov.u32 tid, %tid.x; \
    and.b32 lane, tid, 31; \
    shr.u32 warp, tid, 5; \
    mov.u32 warps, %ntid.x; \
    add.u32 warps, warps, 31; \
    shr.u32 warps, warps, 5; \
    mov.u32 block, %ctaid.x; \
    mov.u32 blocks, %nctaid.x; \
    mad.lo.u32 me, block, warps, warp; \
    mul.lo.u32 all, blocks, warps; \
    mov.u32 done, 0; \
    ld.param.u64 limit, [ARG_CYCLES];

/* Reads the arguments that all kernels which move rows need. */
#define ROWS_ARGS \
    .reg .b32 source_mask, target_mask, source_stride, target_stride, row_bytes, rows; \
    ld.param.u32 source_mask, [ARG_SOURCE_MASK]; \
    ld.param.u32 target_mask, [ARG_TARGET_MASK]; \
    ld.param.u32 source_stride, [ARG_SOURCE_STRIDE]; \
    ld.param.u32 target_stride, [ARG_TARGET_STRIDE]; \
    ld.param.u32 row_bytes, [ARG_ROW_BYTES]; \
    ld.param.u32 rows, [ARG_ROWS];

/* Loads and stores that leave nothing in L1.  Dispatch and combine move rows with them. */
#define LOAD_16  ld.global.nc.L1::no_allocate.L2::256B.v4.u32
#define STORE_16 st.global.L1::no_allocate.v4.u32

/* Reads the clocks at the start of a kernel: t0 in ns, c0 in cycles. */
#define START \
    mov.u64 t0, %globaltimer; \
    mov.u64 c0, %clock64;

/* Ends a round that began at the label `next`.  Jumps to this label until `rows` rounds are done. */
#define ROUND_END \
    add.u32 done, done, 1; \
    setp.lo.u32 p, done, rows; \
    @p bra next;

/* Reads a word into `seen`, with the instruction `look`, as long as a condition holds.  The third argument is the
 * instruction that sets p to this condition. */
#define AWAIT(look, word, ...) \
    mov.u64 from, %clock64; \
again: \
    mov.u64 now, %clock64; \
    sub.u64 now, now, from; \
    setp.gt.u64 p, now, WAIT_CYCLES; \
    @p trap; \
    look seen, [word]; \
    __VA_ARGS__; \
    @p bra again;

/* Waits in a loop until `limit` cycles have passed since c0. */
#define SPIN \
next: \
    .pragma "nounroll"; \
    mov.u64 c1, %clock64; \
    sub.u64 c1, c1, c0; \
    setp.lo.u64 p, c1, limit; \
    @p bra next;

/* Adds this block to the word at `go`, waits until the word is at least go_count, and starts the clocks.  The word
 * counts the blocks of all GPUs and of all runs so far.  If `go` is 0, the block does not wait. */
#define GO { \
    .reg .pred alone, other; \
    .reg .b32 seen, need; \
    .reg .b64 word, from, now; \
    ld.param.u64 word, [ARG_GO]; \
    ld.param.u32 need, [ARG_GO_COUNT]; \
    setp.eq.u64 alone, word, 0; \
    @alone bra begin; \
    setp.ne.u32 other, tid, 0; \
    @other bra joined; \
    red.release.sys.global.add.u32 [word], 1; \
    mov.u64 from, %clock64; \
again: \
    mov.u64 now, %clock64; \
    sub.u64 now, now, from; \
    setp.gt.u64 other, now, WAIT_CYCLES; \
    @other trap; \
    ld.acquire.sys.global.u32 seen, [word]; \
    setp.lo.u32 other, seen, need; \
    @other bra again; \
joined: \
    bar.sync 0; \
begin: \
    START \
    }

/* Sets p to whether rows are left and there is time for them.  p is equal in all lanes of a warp. */
#define TIME_LEFT(rows) \
    mov.u64 c1, %clock64; \
    sub.u64 c1, c1, c0; \
    setp.lo.u64 p, c1, limit; \
    setp.lo.and.u32 p, done, rows, p; \
    vote.sync.all.pred p, p, 0xffffffff;

/* Writes to `out` this warp's start and end (ns), its cycles, and how much work it did. */
#define FINISH(done32) { \
    .reg .pred silent; \
    .reg .b64 place, done64; \
    mov.u64 c1, %clock64; \
    mov.u64 t1, %globaltimer; \
    sub.u64 c1, c1, c0; \
    ld.param.u64 out, [ARG_OUT]; \
    mad.wide.u32 place, me, RESULT_BYTES, out; \
    cvt.u64.u32 done64, done32; \
    setp.ne.u32 silent, lane, 0; \
    @silent bra said; \
    st.global.v2.u64 [place], {t0, t1}; \
    st.global.v2.u64 [place + 16], {c1, done64}; \
said: \
    ret; \
    }

/* clang-format on */
extern const char cuda_ptx_copies[], cuda_ptx_latencies[], cuda_ptx_works[];

#endif
