/* cuda_ptx_latencies.c - PTX of kernels that time waits of one thread, one block or one grid: for loads, atomics,
 * fences, flags, barriers and launches.  See cuda_ptx.h for the macros. */
#include "replay/cuda/cuda_ptx.h"

/* The text below is PTX, not C. */
/* clang-format off */

/* ---- one thread, one operation after another ---- */

/* A kernel that times an operation on the word at `own`, which holds 0.  Each result v, also 0, is added to the
 * address, so that the next operation waits for it. */
#define ALONE_KERNEL(name, times, ...) \
ENTRY(name) { \
    HEAD \
    .reg .b32 v, zero, rows, near; \
    .reg .b64 addr, wide; \
    .shared .align 16 .b32 near_word; \
    ld.param.u64 addr, [ARG_OWN]; \
    ld.param.u32 rows, [ARG_ROWS]; \
    ld.param.u32 zero, [ARG_COUNT]; \
    mov.u32 near, near_word; \
    mov.u32 v, zero; \
    st.shared.u32 [near], v; \
    START \
next: \
    .pragma "nounroll"; \
    TIMES_##times(__VA_ARGS__) \
    add.u32 done, done, times; \
    setp.lo.u32 p, done, rows; \
    @p bra next; \
    cvt.u64.u32 wide, v; \
    add.u64 addr, addr, wide; \
    st.global.u32 [addr], zero; \
    FINISH(done) \
}
#define TIMES_1(...) __VA_ARGS__
#define TIMES_4(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__

#define FOLLOW cvt.u64.u32 wide, v; add.u64 addr, addr, wide;
#define FOLLOW_NEAR add.u32 near, near, v;

/* A kernel of dependent loads.  Each address is that of one of 2^(32 - team) lines, which are source_stride bytes
 * apart.  A pseudo-random sequence chooses the line.  Each loaded value, which is 0, is added to the sequence's state,
 * so that the next load waits for this one.  The sequence may choose a line more than once, or never. */
#define CHASE_KERNEL(name, ...) \
ENTRY(name) { \
    HEAD \
    .reg .b32 v, state, shift, stride, rows, place, w1, w2, w3; \
    .reg .b64 addr, source; \
    ld.param.u64 source, [ARG_SOURCE]; \
    ld.param.u32 rows, [ARG_ROWS]; \
    ld.param.u32 shift, [ARG_TEAM]; \
    ld.param.u32 stride, [ARG_SOURCE_STRIDE]; \
    ld.param.u32 state, [ARG_INDEX]; \
    mov.u32 v, 0; \
    GO \
next: \
    .pragma "nounroll"; \
    mad.lo.u32 state, state, 1664525, 1013904223; \
    add.u32 state, state, v; \
    shr.u32 place, state, shift; \
    mad.wide.u32 addr, place, stride, source; \
    __VA_ARGS__ \
    ROUND_END \
    setp.eq.u32 p, state, 0x9e3779b9; \
    @p st.global.u32 [source], v; \
    FINISH(done) \
}

/* ---- ends of stores ---- */

/* A kernel that times the wait for the end of stores.  In each round, each warp stores row_bytes to its target.
 * Then the block meets at a barrier, and its thread 0 executes the operation that waits for the stores.  With
 * FLAG_EVERY_WARP, one lane of each warp executes the operation, without a barrier before it.  Cycles count only this
 * operation. */
#define AFTER_KERNEL(name, ...) \
ENTRY(name) { \
    HEAD \
    .reg .pred every, mine; \
    .reg .b32 row, at, target_mask, target_stride, row_bytes, rows, lane16, left, v; \
    .reg .b64 d, target, table, word, sum, from, to; \
    ld.param.u32 target_mask, [ARG_TARGET_MASK]; \
    ld.param.u32 target_stride, [ARG_TARGET_STRIDE]; \
    ld.param.u32 row_bytes, [ARG_ROW_BYTES]; \
    ld.param.u32 rows, [ARG_ROWS]; \
    ld.param.u64 table, [ARG_TARGETS]; \
    ld.global.u64 target, [table]; \
    ld.param.u64 word, [ARG_PEER]; \
    mad.wide.u32 word, me, 128, word; \
    ld.param.u32 v, [ARG_FLAGS]; \
    and.b32 v, v, FLAG_EVERY_WARP; \
    setp.ne.u32 every, v, 0; \
    setp.eq.u32 mine, tid, 0; \
    @every setp.eq.u32 mine, lane, 0; \
    shl.b32 lane16, lane, 4; \
    mov.u32 row, me; \
    mov.u64 sum, 0; \
    GO \
next: \
    .pragma "nounroll"; \
    and.b32 at, row, target_mask; \
    mad.wide.u32 d, at, target_stride, target; \
    cvt.u64.u32 from, lane16; \
    add.u64 d, d, from; \
    mov.u32 left, row_bytes; \
more: \
    .pragma "nounroll"; \
    setp.le.u32 p, left, lane16; \
    @p bra stored; \
    st.global.L1::no_allocate.v4.u32 [d], {row, row, row, row}; \
    add.u64 d, d, 512; \
    setp.le.u32 p, left, 512; \
    @p bra stored; \
    sub.u32 left, left, 512; \
    bra more; \
stored: \
    bar.warp.sync 0xffffffff; \
    @every bra timed; \
    bar.sync 0; \
timed: \
    @!mine bra ended; \
    mov.u64 from, %clock64; \
    __VA_ARGS__ \
    mov.u64 to, %clock64; \
    sub.u64 to, to, from; \
    add.u64 sum, sum, to; \
ended: \
    bar.warp.sync 0xffffffff; \
    bar.sync 0; \
    add.u32 row, row, all; \
    ROUND_END \
    mov.u64 c0, %clock64; \
    sub.u64 c0, c0, sum; \
    FINISH(done) \
}

/* ---- flags ---- */

/* A kernel in which two blocks send each other the numbers 1, 2, ...  Thread 0 of a block stores a flag and waits
 * for the flag of the other block.  If row_bytes is not 0, all threads first store that many bytes to the target.
 * The flags of different blocks are 128 bytes apart. */
#define FLAG_KERNEL(name, send, look) \
ENTRY(name) { \
    HEAD \
    .reg .pred first; \
    .reg .b32 i, rows, seen, value, row_bytes, at, width, flags, other, index; \
    .reg .b64 own, peer, target, table, d, from, now; \
    ld.param.u64 own, [ARG_OWN]; \
    ld.param.u64 peer, [ARG_PEER]; \
    ld.param.u32 rows, [ARG_ROWS]; \
    ld.param.u32 row_bytes, [ARG_ROW_BYTES]; \
    ld.param.u32 flags, [ARG_FLAGS]; \
    ld.param.u32 index, [ARG_INDEX]; \
    ld.param.u64 table, [ARG_TARGETS]; \
    ld.global.u64 target, [table]; \
    mov.u32 other, block; \
    and.b32 flags, flags, FLAG_PAIRS; \
    setp.eq.u32 p, flags, 0; \
    @p bra paired; \
    xor.b32 other, block, 1; \
    and.b32 index, block, 1; \
paired: \
    mad.wide.u32 own, block, 128, own; \
    mad.wide.u32 peer, other, 128, peer; \
    setp.eq.u32 first, index, 0; \
    mov.u32 width, %ntid.x; \
    shl.b32 width, width, 4; \
    mov.u32 i, 0; \
    mov.u32 value, 1; \
    mov.u32 done, rows; \
    GO \
    @!first bra await; \
next: \
    .pragma "nounroll"; \
    setp.eq.u32 p, row_bytes, 0; \
    @p bra flag; \
    shl.b32 at, tid, 4; \
payload: \
    .pragma "nounroll"; \
    setp.ge.u32 p, at, row_bytes; \
    @p bra written; \
    cvt.u64.u32 d, at; \
    add.u64 d, d, target; \
    st.global.L1::no_allocate.v4.u32 [d], {value, value, value, value}; \
    add.u32 at, at, width; \
    bra payload; \
written: \
    bar.sync 0; \
flag: \
    setp.ne.u32 p, tid, 0; \
    @p bra sent; \
    send [peer], value; \
sent: \
    add.u32 i, i, 1; \
    @first bra await; \
    setp.ge.u32 p, i, rows; \
    @p bra over; \
await: \
    setp.ne.u32 p, tid, 0; \
    @p bra came; \
    mov.u64 from, %clock64; \
    mov.u32 value, i; \
    @!first add.u32 value, i, 1; \
again: \
    look seen, [own]; \
    setp.ge.u32 p, seen, value; \
    @p bra came; \
    mov.u64 now, %clock64; \
    sub.u64 now, now, from; \
    setp.gt.u64 p, now, WAIT_CYCLES; \
    @p trap; \
    bra again; \
came: \
    NEXT_VALUE(name) \
    setp.eq.u32 p, row_bytes, 0; \
    @p bra on; \
    bar.sync 0; \
on: \
    setp.lo.u32 p, i, rows; \
    @p bra next; \
over: \
    FINISH(done) \
}
/* Sets `value` to what is sent next: the number of the round or, if a signal adds, 1. */
#define NEXT_VALUE(name) NEXT_##name
#define NEXT_flag_release_gpu add.u32 value, i, 1;
#define NEXT_flag_release_sys add.u32 value, i, 1;
#define NEXT_flag_relaxed_sys add.u32 value, i, 1;
#define NEXT_flag_add_sys     mov.u32 value, 1;

/* 2048 multiply-adds in four dependent chains: 32 KiB of code without a branch. */
#define CODE_4 \
    mad.lo.u32 v, v, v, lane; mad.lo.u32 w, w, w, lane; \
    mad.lo.u32 x, x, x, lane; mad.lo.u32 y, y, y, lane;
#define CODE_32   CODE_4 CODE_4 CODE_4 CODE_4 CODE_4 CODE_4 CODE_4 CODE_4
#define CODE_256  CODE_32 CODE_32 CODE_32 CODE_32 CODE_32 CODE_32 CODE_32 CODE_32
#define CODE_2048 CODE_256 CODE_256 CODE_256 CODE_256 CODE_256 CODE_256 CODE_256 CODE_256

/* 64 pieces of code, 20 instructions each.  They run one after another, and each is far from the previous one. */
#define AT(n, next) \
    at_##n: \
    CODE_4 CODE_4 CODE_4 CODE_4 \
    add.u32 i, i, 1; \
    setp.lo.u32 p, i, 64; \
    @p bra at_##next; \
    bra over;
#define PATH \
    AT(0, 27) AT(1, 28) AT(2, 29) AT(3, 30) \
    AT(4, 31) AT(5, 32) AT(6, 33) AT(7, 34) \
    AT(8, 35) AT(9, 36) AT(10, 37) AT(11, 38) \
    AT(12, 39) AT(13, 40) AT(14, 41) AT(15, 42) \
    AT(16, 43) AT(17, 44) AT(18, 45) AT(19, 46) \
    AT(20, 47) AT(21, 48) AT(22, 49) AT(23, 50) \
    AT(24, 51) AT(25, 52) AT(26, 53) AT(27, 54) \
    AT(28, 55) AT(29, 56) AT(30, 57) AT(31, 58) \
    AT(32, 59) AT(33, 60) AT(34, 61) AT(35, 62) \
    AT(36, 63) AT(37, 0) AT(38, 1) AT(39, 2) \
    AT(40, 3) AT(41, 4) AT(42, 5) AT(43, 6) \
    AT(44, 7) AT(45, 8) AT(46, 9) AT(47, 10) \
    AT(48, 11) AT(49, 12) AT(50, 13) AT(51, 14) \
    AT(52, 15) AT(53, 16) AT(54, 17) AT(55, 18) \
    AT(56, 19) AT(57, 20) AT(58, 21) AT(59, 22) \
    AT(60, 23) AT(61, 24) AT(62, 25) AT(63, 26)

#define CODE_KERNEL(name, ...) \
ENTRY(name) { \
    HEAD \
    .reg .b32 i, v, w, x, y, rows; \
    .reg .b64 word; \
    ld.param.u64 word, [ARG_OWN]; \
    ld.param.u32 rows, [ARG_ROWS]; \
    add.u32 v, tid, 1; \
    add.u32 w, tid, 2; \
    add.u32 x, tid, 3; \
    add.u32 y, tid, 4; \
    GO \
next: \
    .pragma "nounroll"; \
    mov.u32 i, 0; \
    __VA_ARGS__ \
over: \
    ROUND_END \
    add.u32 v, v, w; \
    add.u32 v, v, x; \
    add.u32 v, v, y; \
    setp.eq.u32 p, v, 0x9e3779b9; \
    @p st.global.u32 [word], v; \
    FINISH(done) \
}

const char cuda_ptx_latencies[] =
    HEADER
    PTX(ALONE_KERNEL(alone_nothing, 4, add.u32 v, v, zero; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_relaxed_gpu, 4, ld.relaxed.gpu.global.u32 v, [addr]; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_relaxed_sys, 4, ld.relaxed.sys.global.u32 v, [addr]; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_acquire_gpu, 4, ld.acquire.gpu.global.u32 v, [addr]; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_acquire_sys, 4, ld.acquire.sys.global.u32 v, [addr]; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_volatile, 4, ld.volatile.global.u32 v, [addr]; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_nc, 4, ld.global.nc.L1::no_allocate.L2::256B.u32 v, [addr]; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_weak, 4, ld.global.u32 v, [addr]; FOLLOW))
    PTX(ALONE_KERNEL(alone_ld_shared, 4, ld.shared.u32 v, [near]; FOLLOW_NEAR))
    PTX(ALONE_KERNEL(alone_atom_shared, 4, atom.shared.add.u32 v, [near], zero; FOLLOW_NEAR))
    PTX(ALONE_KERNEL(alone_atom_gpu, 4, atom.relaxed.gpu.global.add.u32 v, [addr], zero; FOLLOW))
    PTX(ALONE_KERNEL(alone_atom_sys, 4, atom.relaxed.sys.global.add.u32 v, [addr], zero; FOLLOW))
    PTX(ALONE_KERNEL(alone_atom_release_gpu, 4, atom.release.gpu.global.add.u32 v, [addr], zero; FOLLOW))
    PTX(ALONE_KERNEL(alone_atom_release_sys, 4, atom.release.sys.global.add.u32 v, [addr], zero; FOLLOW))
    PTX(ALONE_KERNEL(alone_red_gpu, 4, red.relaxed.gpu.global.add.u32 [addr], zero;))
    PTX(ALONE_KERNEL(alone_red_sys, 4, red.relaxed.sys.global.add.u32 [addr], zero;))
    PTX(ALONE_KERNEL(alone_st_relaxed_sys, 4, st.relaxed.sys.global.u32 [addr], zero;))
    PTX(ALONE_KERNEL(alone_st_release_gpu, 4, st.release.gpu.global.u32 [addr], zero;))
    PTX(ALONE_KERNEL(alone_st_release_sys, 4, st.release.sys.global.u32 [addr], zero;))
    PTX(ALONE_KERNEL(alone_fence_cta, 1, fence.acq_rel.cta;))
    PTX(ALONE_KERNEL(alone_fence_gpu, 1, fence.acq_rel.gpu;))
    PTX(ALONE_KERNEL(alone_fence_sys, 1, fence.acq_rel.sys;))
    PTX(ALONE_KERNEL(alone_store_fence_cta, 1, st.relaxed.sys.global.u32 [addr], zero; fence.acq_rel.cta;))
    PTX(ALONE_KERNEL(alone_store_fence_gpu, 1, st.relaxed.sys.global.u32 [addr], zero; fence.acq_rel.gpu;))
    PTX(ALONE_KERNEL(alone_store_fence_sys, 1, st.relaxed.sys.global.u32 [addr], zero; fence.acq_rel.sys;))
    PTX(ALONE_KERNEL(alone_clock, 4, mov.u64 c1, %clock64; cvt.u32.u64 v, c1; and.b32 v, v, zero;))
    PTX(ALONE_KERNEL(alone_globaltimer, 4, mov.u64 c1, %globaltimer; cvt.u32.u64 v, c1; and.b32 v, v, zero;))

    PTX(CHASE_KERNEL(chase_sys, ld.relaxed.sys.global.u32 v, [addr];))
    PTX(CHASE_KERNEL(chase_gpu, ld.relaxed.gpu.global.u32 v, [addr];))
    PTX(CHASE_KERNEL(chase_nc, ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {v, w1, w2, w3}, [addr];
                     xor.b32 w1, w1, w2; xor.b32 w1, w1, w3; or.b32 v, v, w1;))

    PTX(AFTER_KERNEL(after_nothing, add.u32 v, v, 1;))
    PTX(AFTER_KERNEL(after_fence_cta, fence.acq_rel.cta;))
    PTX(AFTER_KERNEL(after_fence_gpu, fence.acq_rel.gpu;))
    PTX(AFTER_KERNEL(after_fence_sys, fence.acq_rel.sys;))
    PTX(AFTER_KERNEL(after_st_release_gpu, st.release.gpu.global.u32 [word], done;))
    PTX(AFTER_KERNEL(after_st_release_sys, st.release.sys.global.u32 [word], done;))
    PTX(AFTER_KERNEL(after_atom_release_gpu, atom.release.gpu.global.add.u32 v, [word], 1; add.u32 row, row, v;
                     sub.u32 row, row, v;))
    PTX(AFTER_KERNEL(after_red_release_gpu, red.release.gpu.global.add.u32 [word], 1;))
    PTX(AFTER_KERNEL(after_red_release_sys, red.release.sys.global.add.u32 [word], 1;))

    PTX(FLAG_KERNEL(flag_release_gpu, st.release.gpu.global.u32, ld.acquire.gpu.global.u32))
    PTX(FLAG_KERNEL(flag_release_sys, st.release.sys.global.u32, ld.acquire.sys.global.u32))
    PTX(FLAG_KERNEL(flag_relaxed_sys, st.relaxed.sys.global.u32, ld.relaxed.sys.global.u32))
    PTX(FLAG_KERNEL(flag_add_sys, red.release.sys.global.add.u32, ld.acquire.sys.global.u32))

    /* A barrier of a grid.  Each block adds 1 to a word, and waits until all blocks have done so. */
    PTX(ENTRY(grid_barrier) {
        HEAD
        .reg .b32 rows, seen, need;
        .reg .b64 word, from, now;
        ld.param.u64 word, [ARG_OWN];
        ld.param.u32 rows, [ARG_ROWS];
        mov.u32 need, 0;
        GO
next:
        .pragma "nounroll";
        bar.sync 0;
        add.u32 need, need, blocks;
        setp.ne.u32 p, tid, 0;
        @p bra met;
        red.release.gpu.global.add.u32 [word], 1;
        AWAIT(ld.acquire.gpu.global.u32, word, setp.lo.u32 p, seen, need)
met:
        bar.sync 0;
        ROUND_END
        FINISH(done)
    })

    /* The barrier of all GPUs, as in the public kernels.  Thread t adds 1 to word t of its own GPU and subtracts 1
     * from its GPU's word in GPU t's memory.  Then it waits until word t of its own GPU is at most 0. */
    PTX(ENTRY(gpu_barrier) {
        HEAD
        .reg .pred taking;
        .reg .b32 rows, count, index;
        .reg .s32 seen;
        .reg .b64 own, peer, table, from, now;
        ld.param.u64 own, [ARG_OWN];
        ld.param.u64 table, [ARG_TARGETS];
        ld.param.u32 rows, [ARG_ROWS];
        ld.param.u32 count, [ARG_TARGET_COUNT];
        ld.param.u32 index, [ARG_INDEX];
        setp.lo.u32 taking, tid, count;
        mad.wide.u32 own, tid, 4, own;
        mad.wide.u32 table, tid, 8, table;
        @taking ld.global.u64 peer, [table];
        mad.wide.u32 peer, index, 4, peer;
        GO
next:
        .pragma "nounroll";
        @!taking bra met;
        red.relaxed.sys.global.add.u32 [own], 1;
        red.relaxed.sys.global.add.u32 [peer], 0xffffffff;
        AWAIT(ld.acquire.sys.global.s32, own, setp.gt.s32 p, seen, 0)
met:
        bar.warp.sync 0xffffffff;
        bar.sync 0;
        ROUND_END
        FINISH(done)
    })

    PTX(ENTRY(block_barrier) {
        HEAD
        .reg .b32 rows;
        ld.param.u32 rows, [ARG_ROWS];
        GO
next:
        .pragma "nounroll";
        bar.sync 0;
        ROUND_END
        FINISH(done)
    })

    PTX(CODE_KERNEL(code, CODE_2048))
    PTX(CODE_KERNEL(code_jumps, PATH))
    PTX(CODE_KERNEL(code_other, CODE_2048 CODE_2048 CODE_2048 CODE_2048 CODE_2048 CODE_2048))

    /* `empty` does nothing.  `lookup` reads the address of a word, and then the word.  `stamp` reports when it ran.
     * `spin` runs for a number of cycles. */
    PTX(ENTRY(empty) { ret; })
    PTX(ENTRY(lookup) {
        .reg .pred p;
        .reg .b32 v;
        .reg .b64 word;
        ld.param.u64 word, [ARG_OWN];
        ld.global.u64 word, [word];
        ld.global.u32 v, [word];
        setp.eq.u32 p, v, 0x9e3779b9;
        @p st.global.u32 [word], v;
        ret;
    })
    PTX(ENTRY(stamp) {
        HEAD
        START
        FINISH(done)
    })
    /* Two kernels in sequence.  `early` allows the launch of the next kernel, and then spins.  `late` waits for the
     * end of the kernel before it. */
    PTX(ENTRY(early) {
        HEAD
        START
        griddepcontrol.launch_dependents;
        SPIN
        FINISH(done)
    })
    PTX(ENTRY(late) {
        HEAD
        griddepcontrol.wait;
        START
        FINISH(done)
    })
    /* Is launched as `late` is, and notes its begin before it waits. */
    PTX(ENTRY(soon) {
        HEAD
        START
        griddepcontrol.wait;
        FINISH(done)
    })
    PTX(ENTRY(spin) {
        HEAD
        START
        SPIN
        FINISH(done)
    });
