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

/* Row n of the token, of count: its bytes at the team's column are fetched while those of the others are.  Kernels that
 * find out which rows there are keep where they lie in local memory, and look there for each column. */
#define SUM_PLACE(n) \
    and.b32 at, row, source_mask; \
    mad.wide.u32 s##n, at, source_stride, source; \
    add.u32 row, row, 1;
#define SUM_PLACE_LOCAL(n) \
    SUM_PLACE(n) \
    st.local.u64 [found + 8 * n], s##n;
#define AT_HAND(n)
#define LOOKED_UP(n) ld.local.u64 s##n, [found + 8 * n];
#define SUM_LOAD(n, load, look) { \
    .reg .b64 s; \
    .reg .pred none; \
    setp.le.u32 none, count, n; \
    @none bra loaded; \
    look(n) \
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
/* The same without a weight, value by value. */
#define PLAIN_WORD(low, high, word) { \
    .reg .b16 a, b; \
    mov.b32 {a, b}, word; \
    cvt.f32.bf16 low, a; \
    cvt.f32.bf16 high, b; \
    }
#define PLAIN_ADD(n) \
    setp.le.u32 p, count, n; \
    @p bra summed; \
    PLAIN_WORD(low, high, x##n) add.f32 f0, f0, low; add.f32 f1, f1, high; \
    PLAIN_WORD(low, high, y##n) add.f32 f2, f2, low; add.f32 f3, f3, high; \
    PLAIN_WORD(low, high, z##n) add.f32 f4, f4, low; add.f32 f5, f5, high; \
    PLAIN_WORD(low, high, w##n) add.f32 f6, f6, low; add.f32 f7, f7, high;
#define PLAIN_PACK(word, low, high) { \
    .reg .b16 a, b; \
    cvt.rn.bf16.f32 a, low; \
    cvt.rn.bf16.f32 b, high; \
    mov.b32 word, {a, b}; \
    }
/* What a sum begins with: nothing, or two biases where a kernel is given any, which here it is not. */
#define NO_BIAS \
    mov.f32 f0, 0f00000000; mov.f32 f1, 0f00000000; mov.f32 f2, 0f00000000; mov.f32 f3, 0f00000000; \
    mov.f32 f4, 0f00000000; mov.f32 f5, 0f00000000; mov.f32 f6, 0f00000000; mov.f32 f7, 0f00000000;
#define BIAS(first, second, x, y) { \
    .reg .f32 more0, more1; \
    PLAIN_WORD(first, second, x) PLAIN_WORD(more0, more1, y) \
    add.f32 first, first, more0; \
    add.f32 second, second, more1; \
    }
#define TWO_BIASES { \
    .reg .b32 i<4>, j<4>; \
    .reg .pred none; \
    .reg .b64 wide_whole; \
    setp.eq.u32 none, whole, 0; \
    cvt.u64.u32 wide_whole, whole; \
    mov.b32 i0, 0; mov.b32 i1, 0; mov.b32 i2, 0; mov.b32 i3, 0; \
    @!none ld.global.nc.v4.u32 {i0, i1, i2, i3}, [wide_whole]; \
    mov.b32 j0, i3; mov.b32 j1, i3; mov.b32 j2, i3; mov.b32 j3, i3; \
    @!none ld.global.nc.v4.u32 {j0, j1, j2, j3}, [wide_whole + 16]; \
    BIAS(f0, f1, i0, j0) BIAS(f2, f3, i1, j1) BIAS(f4, f5, i2, j2) BIAS(f6, f7, i3, j3) \
    }
#define WEIGHTED_PACK(word, low, high) cvt.rn.bf16x2.f32 word, high, low;

#define EIGHT(does) does(0) does(1) does(2) does(3) does(4) does(5) does(6) does(7)

#define FROM_MEMORY ld.param.u64 source, [ARG_SOURCE];
#define FROM_SHARED mov.u64 source, shared_memory;

/* Where a lane's 16 bytes of a sum go. */
#define KEEP_DIRECT \
    cvt.u64.u32 wide, column; \
    add.u64 wide, wide, d; \
    STORE_16 [wide], {x0, y0, z0, w0};
#define TOKEN_DIRECT
/* The warp has 8 places of 512 bytes in shared memory, whose bytes the bulk engine stores; rows must be whole ones of
 * 512 bytes.  Before it takes a place again that one's store is written, and all are before the next token. */
#define KEEP_STAGED { \
    .reg .pred others; \
    .reg .b32 place, mine16, base; \
    .reg .b64 first; \
    cp.async.bulk.wait_group 7; \
    bar.warp.sync 0xffffffff; \
    shl.b32 place, warp, 12; \
    and.b32 mine16, column, 4095; \
    add.u32 place, place, mine16; \
    mov.u32 base, shared_memory; \
    add.u32 place, place, base; \
    st.shared.v4.u32 [place], {x0, y0, z0, w0}; \
    fence.proxy.async.shared::cta; \
    bar.warp.sync 0xffffffff; \
    setp.ne.u32 others, lane, 0; \
    @others bra stored; \
    cvt.u64.u32 first, column; \
    add.u64 first, first, d; \
    cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [first], [place], 512, 0x1000000000000000; \
    cp.async.bulk.commit_group; \
stored: \
    bar.warp.sync 0xffffffff; \
    }
#define TOKEN_STAGED \
    cp.async.bulk.wait_group 0; \
    bar.warp.sync 0xffffffff;

/* A team (a warp, or a whole block) sums count rows for each of its tokens, at most eight.  All loads of a column are
 * under way at once.  Rows lie one after another in the footprint, weighted by 1/8.  where and load say which memory
 * that is; place and look how rows are found; begin, bias, adding, packing and keep what is done before a token and
 * with each piece of its sum. */
#define SUM_KERNEL(name, where, load, place, look, begin, bias, adding, packing, keep) \
ENTRY_UP_TO(768, name) { \
    HEAD \
    .local .align 8 .b8 places[64]; \
    .reg .b32 token, row, at, source_mask, target_mask, source_stride, target_stride, row_bytes, rows, column; \
    .reg .b32 found, count, team, teams, mine, width, whole; \
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
    mov.u32 found, places; \
    and.b32 team, whole, 64; \
    add.u32 found, found, team; /* + 0, which only the run knows */ \
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
    EIGHT(place) \
    and.b32 at, token, target_mask; \
    mad.wide.u32 d, at, target_stride, target; \
    shl.b32 column, mine, 4; \
    begin \
piece: \
    .pragma "nounroll"; \
    setp.ge.u32 p, column, row_bytes; \
    @p bra ended; \
    SUM_LOAD(0, load, look) SUM_LOAD(1, load, look) SUM_LOAD(2, load, look) SUM_LOAD(3, load, look) \
    SUM_LOAD(4, load, look) SUM_LOAD(5, load, look) SUM_LOAD(6, load, look) SUM_LOAD(7, load, look) \
    bias \
    EIGHT(adding) \
summed: \
    packing(x0, f0, f1) packing(y0, f2, f3) packing(z0, f4, f5) packing(w0, f6, f7) \
    keep \
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

    PTX(SUM_KERNEL(sum, FROM_MEMORY, LOAD_16, SUM_PLACE, AT_HAND, TOKEN_DIRECT, NO_BIAS, SUM_ADD, WEIGHTED_PACK,
                   KEEP_DIRECT))
    /* As the public normal kernels are built where nobody asks for more: volatile loads. */
    PTX(SUM_KERNEL(sum_staged, FROM_MEMORY, ld.volatile.global.v4.u32, SUM_PLACE_LOCAL, LOOKED_UP, TOKEN_STAGED,
                   TWO_BIASES, PLAIN_ADD, PLAIN_PACK, KEEP_STAGED))
    PTX(SUM_KERNEL(sum_shared, FROM_SHARED, ld.shared.v4.u32, SUM_PLACE, AT_HAND, TOKEN_DIRECT, NO_BIAS, SUM_ADD,
                   WEIGHTED_PACK, KEEP_DIRECT));
