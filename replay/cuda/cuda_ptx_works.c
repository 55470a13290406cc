/* cuda_ptx_works.c - PTX of work on rows.  The kernels quantise BF16 to FP8 with a scale for 128 channels.  They sum
 * rows in FP32, with weights like the public low-latency kernels, or without like the normal kernels.  They also turn
 * BF16 in shared memory into logarithms of 10 bits (LogFMT, models/moe/formats.h) and back.  See cuda_ptx.h for the
 * macros. */
#include "replay/cuda/cuda_ptx.h"

/* The text below is PTX, not C. */
/* clang-format off */

/* Unpacks the two BF16 of a word into the FP32 numbers low and high. */
#define UNPACK(low, high, word) \
    shl.b32 low, word, 16; \
    and.b32 high, word, 0xffff0000;

#define LARGEST(v) abs.f32 h, v; max.f32 most, most, h;
#define LANES(distance) \
    shfl.sync.bfly.b32 h, most, distance, 0x1f, 0xffffffff; \
    max.f32 most, most, h;

/* SUM_PLACE computes the address of row n of a token.  If the token has more than n rows, SUM_LOAD loads the lane's 16
 * bytes of row n.  The loads of all rows are in flight together.  Public kernels that look up which rows a token has
 * keep the addresses in local memory, and read them again for each load.  Like them, SUM_PLACE_LOCAL writes the
 * addresses there, and LOOKED_UP reads them. */
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
/* Adds a row without a weight, value by value. */
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
/* Begins a sum with zero, not with biases. */
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

/* Stores a lane's 16 bytes of a sum directly. */
#define KEEP_DIRECT \
    cvt.u64.u32 wide, column; \
    add.u64 wide, wide, d; \
    STORE_16 [wide], {x0, y0, z0, w0};
#define TOKEN_DIRECT
/* Stores a sum with the bulk engine, from shared memory.  A warp has 8 places of 512 bytes there, so rows must be
 * multiples of 512 bytes.  The warp reuses a place only after the place has been stored.  Before the next token, the
 * warp waits for all stores. */
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

/* A kernel of sums.  A team, which is a warp or a whole block, sums `count` rows, at most eight, for each of its
 * tokens, in pieces of 16 bytes a lane.  All loads of a piece are in flight at once.  The rows of a token are next to
 * each other, and each has the weight 1/8 (PLAIN_ADD adds it without a weight).  The macros `where` and `load` choose
 * the memory, and `place` and `look` compute addresses of rows.  `begin` runs before each token.  `bias`, `adding`,
 * `packing` and `keep` run for each piece of a sum. */
#define SUM_KERNEL(name, where, load, place, look, begin, bias, adding, packing, keep) \
ENTRY_UP_TO(768, name) { \
    HEAD \
    .local .align 8 .b8 places[64]; \
    .reg .b32 token, row, at, column; \
    .reg .b32 found, count, team, teams, mine, width, whole; \
    .reg .b32 x<8>, y<8>, z<8>, w<8>; \
    .reg .f32 f<8>, low, high, weight; \
    .reg .b64 source, target, table, s<8>, d, wide; \
    ROWS_ARGS \
    ld.param.u32 count, [ARG_COUNT]; \
    ld.param.u32 whole, [ARG_TEAM]; \
    where \
    ld.param.u64 table, [ARG_TARGETS]; \
    ld.global.u64 target, [table]; \
    mov.f32 weight, 0f3E000000; \
    mov.u32 found, places; \
    and.b32 team, whole, 64; \
    add.u32 found, found, team; /* adds 0, but the compiler cannot know that */ \
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

/* Loads word n of the 16 words of a lane, each of two BF16.  Puts their signs into bits 2n and 2n + 1 of `signs`.
 * Puts their magnitudes into local memory, because the loop that reads them is not unrolled. */
#define LOGS_LOOK(n) \
    ld.shared.u32 x, [from + 4 * n]; \
    shr.u32 y, x, 15; and.b32 y, y, 1; shl.b32 y, y, 2 * n; or.b32 signs, signs, y; \
    shr.u32 y, x, 31; shl.b32 y, y, 2 * n + 1; or.b32 signs, signs, y; \
    and.b32 x, x, 0x7fff7fff; \
    st.local.u32 [words + 4 * n], x; \
    max.bf16x2 most, most, x; \
    min.bf16x2 least, least, x;
/* Sets result to the largest or smallest of 128 values.  Four lanes have 32 of them each. */
#define LOGS_FOUR(op, result, pair) \
    UNPACK(low, high, pair) \
    op.f32 result, low, high; \
    shfl.sync.bfly.b32 h, result, 2, 0x1f, 0xffffffff; op.f32 result, result, h; \
    shfl.sync.bfly.b32 h, result, 1, 0x1f, 0xffffffff; op.f32 result, result, h;
#define LOGS_AND(distance) \
    shfl.sync.bfly.b32 y, x, distance, 0x1f, 0xffffffff; \
    and.b32 x, x, y;
#define LOGS_NUMBER(code, value) \
    lg2.approx.f32 h, value; \
    fma.rn.f32 h, h, inverse, rounding; \
    max.f32 h, h, 0f00000000; \
    cvt.rmi.u32.f32 code, h;
/* Computes the LogFMT numbers e<even> and e<odd> from the two values of word n after `place`. */
#define LOGS_NUMBERS(n, even, odd) \
    ld.local.u32 x, [place + 4 * n]; \
    UNPACK(low, high, x) \
    LOGS_NUMBER(e##even, low) LOGS_NUMBER(e##odd, high)
#define LOGS_SHIFTED(way, n, bits) way.b32 y, e##n, bits; or.b32 x, x, y;

/* Decodes value n of the 16 values of a lane, with its sign, and adds it with a weight.  code_of sets y to the
 * value's bits, of which nine count.  If the value is 0, a jump skips the power, as in compiled code.  So each value
 * waits for the previous one. */
#define EXPS_ADD(code_of, n) { \
    .reg .pred none; \
    code_of \
    and.b32 y, y, 511; \
    mov.f32 h, 0f00000000; \
    setp.eq.u32 none, y, 0; \
    @none bra power_known; \
    sub.u32 z, y, 1; \
    cvt.rn.f32.u32 h, z; \
    fma.rn.f32 h, h, step, least; \
    ex2.approx.f32 h, h; \
power_known: \
    shr.u32 y, signs, n; \
    and.b32 y, y, 1; \
    setp.eq.u32 none, y, 0; \
    neg.f32 low, h; \
    selp.f32 h, h, low, none; \
    fma.rn.f32 f##n, h, weight, f##n; \
    }
#define EXPS_IN(word, bits) shr.u32 y, word, bits;
#define EXPS_OVER(first, second, bits) shf.r.wrap.b32 y, first, second, bits;
#define EXPS_KEEP(n) add.f32 f0, f0, f##n;

const char cuda_ptx_works[] =
    HEADER
    PTX(.extern .shared .align 1024 .b8 shared_memory[];)
    /* A block quantises one token after another.  Each lane has eight channels, and sixteen lanes share a scale.
     * There is a barrier at the end of each token.  The scales follow the row. */
    PTX(ENTRY(cast) {
        HEAD
        .reg .b32 token, at, column, width;
        .reg .b32 x, y, z, w, half, lane16, index;
        .reg .b16 pair0, pair1;
        .reg .f32 f<8>, h, most, scale, inverse;
        .reg .b64 source, target, table, s, d, wide;
        ROWS_ARGS
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
        setp.ge.u32 p, index, row_bytes;        /* equal in all lanes */
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
        shr.u32 half, row_bytes, 1;             /* scales follow the row: 4 bytes for each 256 bytes of the source */
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
        bar.red.or.pred p, 0, p;                /* p becomes equal in the block, so that all threads go on or all end */
        @p bra next;
        setp.ne.u32 p, warp, 0;
        @p mov.u32 done, 0;
        FINISH(done)
    })

    PTX(SUM_KERNEL(sum, FROM_MEMORY, LOAD_16, SUM_PLACE, AT_HAND, TOKEN_DIRECT, NO_BIAS, SUM_ADD, WEIGHTED_PACK,
                   KEEP_DIRECT))
    /* sum_staged uses volatile loads, as the public normal kernels do by default. */
    PTX(SUM_KERNEL(sum_staged, FROM_MEMORY, ld.volatile.global.v4.u32, SUM_PLACE_LOCAL, LOOKED_UP, TOKEN_STAGED,
                   TWO_BIASES, PLAIN_ADD, PLAIN_PACK, KEEP_STAGED))
    PTX(SUM_KERNEL(sum_shared, FROM_SHARED, ld.shared.v4.u32, SUM_PLACE, AT_HAND, TOKEN_DIRECT, NO_BIAS, SUM_ADD,
                   WEIGHTED_PACK, KEEP_DIRECT))
    /* Each warp turns 1024 values of its shared memory into logarithms, 32 values a lane.  It does this once for
     * each 2048 bytes of a row. */
    PTX(ENTRY(logs) {
        HEAD
        .local .align 8 .b8 words[64];
        .reg .b32 row_bytes, rows, column, from, into, to, place, half, x, y, most, least, signs, e<16>;
        .reg .f32 h, low, high, largest, smallest, step, inverse, rounding;
        ld.param.u32 row_bytes, [ARG_ROW_BYTES];
        ld.param.u32 rows, [ARG_ROWS];
        mov.u32 from, shared_memory;
        shl.b32 x, warp, 12;
        add.u32 from, from, x;
        mad.lo.u32 into, lane, 40, from;
        add.u32 into, into, 2048;
        shl.b32 x, lane, 6;
        add.u32 from, from, x;
        mov.u32 half, 0;
        mov.u32 x, 0x3e803d00;                  /* 1/4 and 1/32 */
fill:
        add.u32 to, from, half;
        st.shared.u32 [to], x;
        add.u32 half, half, 4;
        setp.lt.u32 p, half, 64;
        @p bra fill;
        GO
next:
        .pragma "nounroll";
        mov.u32 column, 0;
piece:
        .pragma "nounroll";
        mov.u32 signs, 0;
        mov.u32 most, 0;
        mov.u32 least, 0x7f807f80;
        LOGS_LOOK(0) LOGS_LOOK(1) LOGS_LOOK(2) LOGS_LOOK(3) LOGS_LOOK(4) LOGS_LOOK(5) LOGS_LOOK(6) LOGS_LOOK(7)
        LOGS_LOOK(8) LOGS_LOOK(9) LOGS_LOOK(10) LOGS_LOOK(11) LOGS_LOOK(12) LOGS_LOOK(13) LOGS_LOOK(14) LOGS_LOOK(15)
        LOGS_FOUR(max, largest, most)
        LOGS_FOUR(min, smallest, least)
        lg2.approx.f32 largest, largest;
        lg2.approx.f32 smallest, smallest;
        sub.f32 h, largest, 0f42000000;         /* 32 */
        max.f32 smallest, smallest, h;
        setp.lt.f32 p, largest, 0f00000000;
        setp.lt.and.f32 p, smallest, largest, p;
        selp.u32 x, 1, 0, p;
        LOGS_AND(4) LOGS_AND(8) LOGS_AND(16)
        setp.gt.u32 p, x, 1;                    /* never true, so that no warp skips the work below */
        @p bra unfit;
        sub.f32 step, largest, smallest;
        div.rn.f32 step, step, 0f43FF0000;      /* 510 */
        rcp.rn.f32 inverse, step;
        ex2.approx.f32 h, step;
        add.f32 h, h, 0f3F800000;
        mul.f32 h, h, 0f3F000000;
        lg2.approx.f32 h, h;
        mul.f32 h, h, inverse;
        mov.f32 rounding, 0f40000000;
        sub.f32 rounding, rounding, h;
        mul.f32 h, smallest, inverse;
        sub.f32 rounding, rounding, h;
        mov.u32 half, 0;
        mov.u32 to, into;
        mov.u32 place, words;
sixteen:
        .pragma "nounroll";
        LOGS_NUMBERS(0, 0, 1) LOGS_NUMBERS(1, 2, 3) LOGS_NUMBERS(2, 4, 5) LOGS_NUMBERS(3, 6, 7)
        LOGS_NUMBERS(4, 8, 9) LOGS_NUMBERS(5, 10, 11) LOGS_NUMBERS(6, 12, 13) LOGS_NUMBERS(7, 14, 15)
        mov.b32 x, e0; LOGS_SHIFTED(shl, 1, 9) LOGS_SHIFTED(shl, 2, 18) LOGS_SHIFTED(shl, 3, 27)
        st.shared.u32 [to], x;
        shr.u32 x, e3, 5; LOGS_SHIFTED(shl, 4, 4) LOGS_SHIFTED(shl, 5, 13) LOGS_SHIFTED(shl, 6, 22)
        LOGS_SHIFTED(shl, 7, 31)
        st.shared.u32 [to + 4], x;
        shr.u32 x, e7, 1; LOGS_SHIFTED(shl, 8, 8) LOGS_SHIFTED(shl, 9, 17) LOGS_SHIFTED(shl, 10, 26)
        st.shared.u32 [to + 8], x;
        shr.u32 x, e10, 6; LOGS_SHIFTED(shl, 11, 3) LOGS_SHIFTED(shl, 12, 12) LOGS_SHIFTED(shl, 13, 21)
        LOGS_SHIFTED(shl, 14, 30)
        st.shared.u32 [to + 12], x;
        shr.u32 x, e14, 2; LOGS_SHIFTED(shl, 15, 7)
        shl.b32 y, signs, 16; or.b32 x, x, y;
        shr.u32 signs, signs, 16;
        st.shared.u32 [to + 16], x;
        add.u32 to, to, 20;
        add.u32 place, place, 32;
        add.u32 half, half, 1;
        setp.lt.u32 p, half, 2;
        @p bra sixteen;
unfit:
        fence.proxy.async.shared::cta;
        bar.warp.sync 0xffffffff;
        add.u32 column, column, 2048;
        setp.lt.u32 p, column, row_bytes;
        @p bra piece;
        add.u32 done, done, 1;
        TIME_LEFT(rows)
        @p bra next;
        FINISH(done)
    })
    /* Each warp decodes 512 LogFMT values from shared memory, 16 values a lane, and adds them with a weight.  It
     * does this once for each 1024 bytes of a row in BF16. */
    PTX(ENTRY(exps) {
        HEAD
        .reg .b32 row_bytes, rows, column, from, meta, x<5>, y, z, signs;
        .reg .f32 f<16>, h, low, most, least, step, weight;
        ld.param.u32 row_bytes, [ARG_ROW_BYTES];
        ld.param.u32 rows, [ARG_ROWS];
        mov.f32 weight, 0f3E000000;
        mov.f32 f0, 0f00000000; mov.f32 f1, f0; mov.f32 f2, f0; mov.f32 f3, f0; mov.f32 f4, f0; mov.f32 f5, f0;
        mov.f32 f6, f0; mov.f32 f7, f0; mov.f32 f8, f0; mov.f32 f9, f0; mov.f32 f10, f0; mov.f32 f11, f0;
        mov.f32 f12, f0; mov.f32 f13, f0; mov.f32 f14, f0; mov.f32 f15, f0;
        mov.u32 meta, shared_memory;
        shl.b32 y, warp, 10;
        add.u32 meta, meta, y;
        mad.lo.u32 from, lane, 20, meta;
        add.u32 meta, meta, 640;
        mov.u32 y, 0xb6db6db6;                  /* a pattern in which no 9-bit number is 0 */
        st.shared.u32 [from], y;
        st.shared.u32 [from + 4], y;
        st.shared.u32 [from + 8], y;
        st.shared.u32 [from + 12], y;
        st.shared.u32 [from + 16], y;
        mov.f32 h, 0fBF800000;                  /* -1 and -4 */
        st.shared.f32 [meta], h;
        mov.f32 h, 0fC0800000;
        st.shared.f32 [meta + 128], h;
        GO
next:
        .pragma "nounroll";
        mov.u32 column, 0;
piece:
        .pragma "nounroll";
        ld.volatile.shared.f32 most, [meta];
        ld.volatile.shared.f32 least, [meta + 128];
        ld.volatile.shared.u32 x0, [from];
        ld.volatile.shared.u32 x1, [from + 4];
        ld.volatile.shared.u32 x2, [from + 8];
        ld.volatile.shared.u32 x3, [from + 12];
        ld.volatile.shared.u32 x4, [from + 16];
        sub.f32 step, most, least;
        div.rn.f32 step, step, 0f43FF0000;
        shr.u32 signs, x4, 16;
        EXPS_ADD(EXPS_IN(x0, 0), 0) EXPS_ADD(EXPS_IN(x0, 9), 1) EXPS_ADD(EXPS_IN(x0, 18), 2)
        EXPS_ADD(EXPS_OVER(x0, x1, 27), 3) EXPS_ADD(EXPS_IN(x1, 4), 4) EXPS_ADD(EXPS_IN(x1, 13), 5)
        EXPS_ADD(EXPS_IN(x1, 22), 6) EXPS_ADD(EXPS_OVER(x1, x2, 31), 7) EXPS_ADD(EXPS_IN(x2, 8), 8)
        EXPS_ADD(EXPS_IN(x2, 17), 9) EXPS_ADD(EXPS_OVER(x2, x3, 26), 10) EXPS_ADD(EXPS_IN(x3, 3), 11)
        EXPS_ADD(EXPS_IN(x3, 12), 12) EXPS_ADD(EXPS_IN(x3, 21), 13) EXPS_ADD(EXPS_OVER(x3, x4, 30), 14)
        EXPS_ADD(EXPS_IN(x4, 7), 15)
        fence.proxy.async.shared::cta;
        bar.warp.sync 0xffffffff;
        add.u32 column, column, 1024;
        setp.lt.u32 p, column, row_bytes;
        @p bra piece;
        add.u32 done, done, 1;
        TIME_LEFT(rows)
        @p bra next;
        EXPS_KEEP(1) EXPS_KEEP(2) EXPS_KEEP(3) EXPS_KEEP(4) EXPS_KEEP(5) EXPS_KEEP(6) EXPS_KEEP(7) EXPS_KEEP(8)
        EXPS_KEEP(9) EXPS_KEEP(10) EXPS_KEEP(11) EXPS_KEEP(12) EXPS_KEEP(13) EXPS_KEEP(14) EXPS_KEEP(15)
        st.shared.f32 [meta + 4], f0;           /* so that the compiler does not remove the sums */
        FINISH(done)
    });
