/* cuda_ptx_works.c - PTX of work on rows: BF16 quantised to FP8 with a scale for 128 channels, and weighted sums of
 * rows in FP32, as the public low-latency and normal kernels do them.  See cuda_ptx.h for the language. */
#include "replay/cuda/cuda_ptx.h"

/* What follows is PTX, not C. */
/* clang-format off */

#define LOAD_16  ld.global.nc.L1::no_allocate.L2::256B.v4.u32
#define STORE_16 st.global.L1::no_allocate.v4.u32

/* The two BF16 of a word as FP32. */
#define UNPACK(low, high, word) \
    shl.b32 low, word, 16; \
    and.b32 high, word, 0xffff0000;

#define LARGEST(v) abs.f32 h, v; max.f32 most, most, h;
#define LANES(distance) \
    shfl.sync.bfly.b32 h, most, distance, 0x1f, 0xffffffff; \
    max.f32 most, most, h;

/* Row n of the token, of count: its bytes at the team's column are fetched while those of the others are. */
#define SUM_PLACE(n) \
    and.b32 at, row, source_mask; \
    mad.wide.u32 s##n, at, source_stride, source; \
    add.u32 row, row, 1;
#define SUM_LOAD(n, load) { \
    .reg .b64 s; \
    .reg .pred none; \
    setp.le.u32 none, count, n; \
    @none bra loaded; \
    cvt.u64.u32 s, column; \
    add.u64 s, s, s##n; \
    load {x##n, y##n, z##n, w##n}, [s]; \
loaded: \
    }
#define SUM_ADD(n) \
    setp.le.u32 p, count, n; \
    @p bra summed; \
    UNPACK(low, high, x##n) fma.rn.f32 f0, low, weight, f0; fma.rn.f32 f1, high, weight, f1; \
    UNPACK(low, high, y##n) fma.rn.f32 f2, low, weight, f2; fma.rn.f32 f3, high, weight, f3; \
    UNPACK(low, high, z##n) fma.rn.f32 f4, low, weight, f4; fma.rn.f32 f5, high, weight, f5; \
    UNPACK(low, high, w##n) fma.rn.f32 f6, low, weight, f6; fma.rn.f32 f7, high, weight, f7;
#define EIGHT(does) does(0) does(1) does(2) does(3) does(4) does(5) does(6) does(7)

#define FROM_MEMORY ld.param.u64 source, [ARG_SOURCE];
#define FROM_SHARED mov.u64 source, shared_memory;

/* A team (a warp, or a whole block) sums count rows for each of its tokens, at most eight.  All loads of a column are
 * under way at once.  Rows lie one after another in the footprint, weighted by 1/8.  where and load say which memory
 * that is. */
#define SUM_KERNEL(name, where, load) \
ENTRY_UP_TO(768, name) { \
    HEAD \
    .reg .b32 token, row, at, source_mask, target_mask, source_stride, target_stride, row_bytes, rows, column; \
    .reg .b32 count, team, teams, mine, width, whole; \
    .reg .b32 x<8>, y<8>, z<8>, w<8>; \
    .reg .f32 f<8>, low, high, weight; \
    .reg .b64 source, target, table, s<8>, d, wide; \
    ld.param.u32 source_mask, [ARG_SOURCE_MASK]; \
    ld.param.u32 target_mask, [ARG_TARGET_MASK]; \
    ld.param.u32 source_stride, [ARG_SOURCE_STRIDE]; \
    ld.param.u32 target_stride, [ARG_TARGET_STRIDE]; \
    ld.param.u32 row_bytes, [ARG_ROW_BYTES]; \
    ld.param.u32 rows, [ARG_ROWS]; \
    ld.param.u32 count, [ARG_COUNT]; \
    ld.param.u32 whole, [ARG_TEAM]; \
    where \
    ld.param.u64 table, [ARG_TARGETS]; \
    ld.global.u64 target, [table]; \
    mov.f32 weight, 0f3E000000; \
    mov.u32 team, me; \
    mov.u32 teams, all; \
    mov.u32 mine, lane; \
    mov.u32 width, 512; \
    setp.eq.u32 p, whole, 0; \
    @p bra chosen; \
    mov.u32 team, block; \
    mov.u32 teams, blocks; \
    mov.u32 mine, tid; \
    shl.b32 width, warps, 9; \
chosen: \
    ld.param.u32 token, [ARG_INDEX]; \
    add.u32 token, token, team; \
    GO \
next: \
    .pragma "nounroll"; \
    mul.lo.u32 row, token, count; \
    EIGHT(SUM_PLACE) \
    and.b32 at, token, target_mask; \
    mad.wide.u32 d, at, target_stride, target; \
    shl.b32 column, mine, 4; \
piece: \
    .pragma "nounroll"; \
    setp.ge.u32 p, column, row_bytes; \
    @p bra ended; \
    SUM_LOAD(0, load) SUM_LOAD(1, load) SUM_LOAD(2, load) SUM_LOAD(3, load) \
    SUM_LOAD(4, load) SUM_LOAD(5, load) SUM_LOAD(6, load) SUM_LOAD(7, load) \
    mov.f32 f0, 0f00000000; mov.f32 f1, 0f00000000; mov.f32 f2, 0f00000000; mov.f32 f3, 0f00000000; \
    mov.f32 f4, 0f00000000; mov.f32 f5, 0f00000000; mov.f32 f6, 0f00000000; mov.f32 f7, 0f00000000; \
    EIGHT(SUM_ADD) \
summed: \
    cvt.rn.bf16x2.f32 x0, f1, f0; \
    cvt.rn.bf16x2.f32 y0, f3, f2; \
    cvt.rn.bf16x2.f32 z0, f5, f4; \
    cvt.rn.bf16x2.f32 w0, f7, f6; \
    cvt.u64.u32 wide, column; \
    add.u64 wide, wide, d; \
    STORE_16 [wide], {x0, y0, z0, w0}; \
    add.u32 column, column, width; \
    bra piece; \
ended: \
    bar.warp.sync 0xffffffff; \
    add.u32 token, token, teams; \
    add.u32 done, done, 1; \
    TIME_LEFT(rows) \
    @p bra next; \
    setp.eq.u32 p, whole, 0; \
    setp.eq.or.u32 p, warp, 0, p; \
    @!p mov.u32 done, 0; \
    FINISH(done) \
}

const char cuda_ptx_works[] =
    HEADER
    PTX(.extern .shared .align 1024 .b8 shared_memory[];)
    /* A block quantises a token, then the next: eight channels a lane, a scale for sixteen lanes, a barrier at the end
     * of each token.  The scales lie behind the row. */
    PTX(ENTRY(cast) {
        HEAD
        .reg .b32 token, at, source_mask, target_mask, source_stride, target_stride, row_bytes, rows, column, width;
        .reg .b32 x, y, z, w, half, lane16, index;
        .reg .b16 pair0, pair1;
        .reg .f32 f<8>, h, most, scale, inverse;
        .reg .b64 source, target, table, s, d, wide;
        ld.param.u32 source_mask, [ARG_SOURCE_MASK];
        ld.param.u32 target_mask, [ARG_TARGET_MASK];
        ld.param.u32 source_stride, [ARG_SOURCE_STRIDE];
        ld.param.u32 target_stride, [ARG_TARGET_STRIDE];
        ld.param.u32 row_bytes, [ARG_ROW_BYTES];
        ld.param.u32 rows, [ARG_ROWS];
        ld.param.u64 source, [ARG_SOURCE];
        ld.param.u64 table, [ARG_TARGETS];
        ld.global.u64 target, [table];
        ld.param.u32 token, [ARG_INDEX];
        add.u32 token, token, block;
        shl.b32 lane16, lane, 4;
        shl.b32 width, warps, 9;
        GO
next:
        .pragma "nounroll";
        and.b32 at, token, source_mask;
        mad.wide.u32 s, at, source_stride, source;
        and.b32 at, token, target_mask;
        mad.wide.u32 d, at, target_stride, target;
        shl.b32 index, warp, 9;
piece:
        .pragma "nounroll";
        setp.ge.u32 p, index, row_bytes;        /* alike in all lanes */
        @p bra cast_done;
        add.u32 column, index, lane16;
        cvt.u64.u32 wide, column;
        add.u64 wide, wide, s;
        mov.b32 x, 0; mov.b32 y, 0; mov.b32 z, 0; mov.b32 w, 0;
        setp.lo.u32 q, column, row_bytes;
        @q LOAD_16 {x, y, z, w}, [wide];
        UNPACK(f0, f1, x) UNPACK(f2, f3, y) UNPACK(f4, f5, z) UNPACK(f6, f7, w)
        mov.f32 most, 0f38D1B717;               /* 1e-4 */
        LARGEST(f0) LARGEST(f1) LARGEST(f2) LARGEST(f3) LARGEST(f4) LARGEST(f5) LARGEST(f6) LARGEST(f7)
        LANES(8) LANES(4) LANES(2) LANES(1)
        div.full.f32 scale, 0f43E00000, most;   /* 448 / most */
        mul.f32 inverse, most, 0f3B124925;      /* most / 448 */
        mul.f32 f0, f0, scale; mul.f32 f1, f1, scale; mul.f32 f2, f2, scale; mul.f32 f3, f3, scale;
        mul.f32 f4, f4, scale; mul.f32 f5, f5, scale; mul.f32 f6, f6, scale; mul.f32 f7, f7, scale;
        cvt.rn.satfinite.e4m3x2.f32 pair0, f1, f0;
        cvt.rn.satfinite.e4m3x2.f32 pair1, f3, f2;
        mov.b32 x, {pair0, pair1};
        cvt.rn.satfinite.e4m3x2.f32 pair0, f5, f4;
        cvt.rn.satfinite.e4m3x2.f32 pair1, f7, f6;
        mov.b32 y, {pair0, pair1};
        @!q bra skip;
        shr.u32 half, column, 1;
        cvt.u64.u32 wide, half;
        add.u64 wide, wide, d;
        st.global.v2.u32 [wide], {x, y};
        and.b32 half, lane, 15;
        setp.ne.u32 p, half, 0;
        @p bra skip;
        shr.u32 half, row_bytes, 1;             /* behind the row: 4 bytes for each 256 of the source */
        shr.u32 at, column, 6;
        add.u32 half, half, at;
        cvt.u64.u32 wide, half;
        add.u64 wide, wide, d;
        st.global.f32 [wide], inverse;
skip:
        bar.warp.sync 0xffffffff;
        add.u32 index, index, width;
        bra piece;
cast_done:
        bar.sync 0;
        add.u32 token, token, blocks;
        add.u32 done, done, 1;
        mov.u64 c1, %clock64;
        sub.u64 c1, c1, c0;
        setp.lo.u64 p, c1, limit;
        setp.lo.and.u32 p, done, rows, p;
        bar.red.or.pred p, 0, p;                /* the block goes on or ends as one */
        @p bra next;
        setp.ne.u32 p, warp, 0;
        @p mov.u32 done, 0;
        FINISH(done)
    })

    PTX(SUM_KERNEL(sum, FROM_MEMORY, LOAD_16))
    PTX(SUM_KERNEL(sum_shared, FROM_SHARED, ld.shared.v4.u32));
