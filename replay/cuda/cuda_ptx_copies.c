/* cuda_ptx_copies.c - PTX of kernels that move rows.  They load and store 16 bytes a lane, as the public kernels do,
 * or make bulk copies through shared memory.  Other kernels add to many words.  See cuda_ptx.h for the macros. */
#include "replay/cuda/cuda_ptx.h"

/* The text below is PTX, not C. */
/* clang-format off */

#define LOAD(n, offset)  LOAD_16 {x##n, y##n, z##n, w##n}, [s + offset];
#define STORE(n, offset) STORE_16 [d + offset], {x##n, y##n, z##n, w##n};
#define FOLD(n, offset) \
    xor.b32 folded, folded, x##n; xor.b32 folded, folded, y##n; \
    xor.b32 folded, folded, z##n; xor.b32 folded, folded, w##n;

/* Loads and stores of the end of a row.  Lanes beyond the end of the row store nothing, but they do load.  A load by
 * all lanes needs no predicate, and a thread has only 7 predicates.  So up to 512 bytes after the last row are read. */
#define ALIKE(offset, ...)  { .reg .pred has; setp.gt.u32 has, left, offset; @has __VA_ARGS__ }
#define WITHIN(offset, ...) { \
    .reg .pred has; \
    .reg .b32 from; \
    add.u32 from, mine, offset; \
    setp.gt.u32 has, left, from; \
    @has __VA_ARGS__ \
    }
#define LOAD_REST(n, offset)  ALIKE(offset, LOAD(n, offset))
#define STORE_REST(n, offset) WITHIN(offset, STORE(n, offset))

/* With DO_n, a warp makes n loads or stores of 512 bytes.  All n loads are in flight before the first one is used. */
#define DO_1(does) does(0, 0)
#define DO_2(does) does(0, 0) does(1, 512)
#define DO_5(does) DO_2(does) does(2, 1024) does(3, 1536) does(4, 2048)
#define DO_8(does) DO_5(does) does(5, 2560) does(6, 3072) does(7, 3584)

/* A kernel whose warps move rows as in the public kernels.  A row is moved in pieces, and all loads of a piece are
 * in flight together.  The macros `first` and `second` load and use a full piece.  first_rest and second_rest load and
 * use what is left of the row when it is less than a piece.  The macros `before` and `after` run before and after each
 * row.  A warp's target has the index block * by_block + warp * by_warp, modulo the number of targets. */
#define ROWS_KERNEL(name, piece, first, second, first_rest, second_rest, before, after) \
ENTRY(name) { \
    HEAD \
    .reg .b32 row, at, step, left, mine; \
    .reg .b32 x<8>, y<8>, z<8>, w<8>, folded; \
    .reg .b64 s, d, source, target, table; \
    ROWS_ARGS \
    ld.param.u64 source, [ARG_SOURCE]; \
    TARGET_FIND(target, 0) \
    shl.b32 mine, lane, 4; \
    cvt.u64.u32 d, mine; \
    add.u64 source, source, d; \
    add.u64 target, target, d; \
    ld.param.u32 row, [ARG_INDEX]; \
    add.u32 row, row, me; \
    mov.u32 folded, tid; \
    VALUES \
    GO \
next: \
    and.b32 at, row, source_mask; \
    mad.wide.u32 s, at, source_stride, source; \
    and.b32 at, row, target_mask; \
    mad.wide.u32 d, at, target_stride, target; \
    mov.u32 left, row_bytes; \
    before \
whole: \
    .pragma "nounroll"; \
    setp.lo.u32 p, left, piece; \
    @p bra rest; \
    first \
    second \
    add.u64 s, s, piece; \
    add.u64 d, d, piece; \
    sub.u32 left, left, piece; \
    bra whole; \
rest: \
    setp.eq.u32 p, left, 0; \
    @p bra moved; \
    first_rest \
    second_rest \
moved: \
    bar.warp.sync 0xffffffff; \
    after \
    add.u32 row, row, all; \
    add.u32 done, done, 1; \
    TIME_LEFT(rows) \
    @p bra next; \
    fence.acq_rel.sys; \
    setp.eq.u32 p, folded, 0x9e3779b9;      /* never true, but the compiler cannot know that, so the loads stay */ \
    @p st.global.u32 [target], folded; \
    FINISH(done) \
}

/* Sets `address` to that of this warp's target.  `further` is added to the target's index in the table. */
#define TARGET_FIND(address, further) { \
    .reg .b32 count, turn, by_block, by_warp; \
    .reg .b64 table; \
    ld.param.u32 count, [ARG_TARGET_COUNT]; \
    ld.param.u32 by_block, [ARG_BY_BLOCK]; \
    ld.param.u32 by_warp, [ARG_BY_WARP]; \
    mul.lo.u32 turn, block, by_block; \
    mad.lo.u32 turn, warp, by_warp, turn; \
    add.u32 turn, turn, further; \
    rem.u32 turn, turn, count; \
    ld.param.u64 table, [ARG_TARGETS]; \
    mad.wide.u32 table, turn, 8, table; \
    ld.global.u64 address, [table]; \
    }

#define VALUE(n, offset) mov.b32 x##n, tid; mov.b32 y##n, tid; mov.b32 z##n, lane; mov.b32 w##n, lane;
#define VALUES DO_8(VALUE)
#define NOTHING

#define COPY_KERNEL(n, piece) \
    ROWS_KERNEL(copy_##n, piece, DO_##n(LOAD), DO_##n(STORE), DO_##n(LOAD_REST), DO_##n(STORE_REST), \
                NOTHING, NOTHING)
#define LOAD_KERNEL(n, piece) \
    ROWS_KERNEL(load_##n, piece, DO_##n(LOAD), DO_##n(FOLD), DO_##n(LOAD_REST), DO_##n(FOLD), \
                NOTHING, NOTHING)
#define STORE_KERNEL(n, piece) \
    ROWS_KERNEL(store_##n, piece, NOTHING, DO_##n(STORE), NOTHING, DO_##n(STORE_REST), NOTHING, NOTHING)

/* What a message of low-latency dispatch needs besides its row.  Before the row, the warp awaits the result of an
 * atomic, which gives the message's slot.  After the row, one lane adds to a counter. */
#define PLACE_TAKE { \
    .reg .pred other; \
    .reg .b32 old; \
    .reg .b64 word; \
    ld.param.u64 word, [ARG_OWN]; \
    mad.wide.u32 word, me, 128, word; \
    mov.u32 old, 0; \
    setp.ne.u32 other, lane, 0; \
    @!other atom.relaxed.gpu.global.add.u32 old, [word], 0; \
    shfl.sync.idx.b32 old, old, 0, 31, 0xffffffff; \
    mad.wide.u32 d, old, 16, d; \
    }
#define PLACE_RELEASE { \
    .reg .pred other; \
    .reg .b32 old; \
    .reg .b64 word; \
    ld.param.u64 word, [ARG_OWN]; \
    mad.wide.u32 word, me, 128, word; \
    setp.ne.u32 other, lane, 0; \
    @!other atom.release.gpu.global.add.u32 old, [word + 64], 1; \
    }

/* Loads of 4 bytes a lane, as kernels read arrays of indices. */
#define LOAD_4(n, offset) ld.global.nc.L1::no_allocate.L2::256B.u32 x##n, [s + offset];
#define LOAD_4_REST(n, offset) ALIKE(offset, LOAD_4(n, offset))
#define FOLD_4(n, offset) xor.b32 folded, folded, x##n;

/* ---- bulk copies ---- */

/* One lane of each warp brings rows to shared memory and, from there, to `fan` targets.  A warp has `stages` stages
 * of shared memory.  When it stores row r, it has begun to load the rows up to r + ahead.  When the next load begins,
 * stages - ahead - 1 stores, which is 0 or 1, may still read their stages.
 *
 *     shared: | 32 warps x 4 mbarriers, 1024 B | shared_offset B unused | warp 0: stage 0, stage 1, ... | ... */
#define BULK_IN { \
    .reg .b32 at, bar; \
    .reg .b64 s; \
    and.b32 at, row, source_mask; \
    mad.wide.u32 s, at, source_stride, source; \
    mad.lo.u32 at, in_stage, shared_stride, places; \
    mad.lo.u32 bar, in_stage, 8, bars; \
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], row_bytes; \
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [s], row_bytes, [bar]; \
    add.u32 row, row, all; \
    add.u32 in_stage, in_stage, 1; \
    setp.eq.u32 q, in_stage, stages; \
    @q mov.u32 in_stage, 0; \
    }

#define BULK_ARRIVED { \
    .reg .pred here; \
    .reg .b32 bar, parity; \
    mad.lo.u32 bar, out_stage, 8, bars; \
    shr.u32 parity, parities, out_stage; \
    and.b32 parity, parity, 1; \
again: \
    mbarrier.try_wait.parity.shared::cta.b64 here, [bar], parity; \
    @!here bra again; \
    mov.u32 parity, 1; \
    shl.b32 parity, parity, out_stage; \
    xor.b32 parities, parities, parity; \
    }

#define BULK_STORE(n) { \
    .reg .pred none; \
    .reg .b64 d; \
    setp.le.u32 none, fan, n; \
    @none bra stored; \
    mad.wide.u32 d, at, target_stride, target##n; \
    cp.async.bulk.global.shared::cta.bulk_group [d], [place], row_bytes; \
stored: \
    }

#define BULK_OUT { \
    .reg .b32 at, place; \
    mad.lo.u32 place, out_stage, shared_stride, places; \
    and.b32 at, out_row, target_mask; \
    BULK_STORE(0) BULK_STORE(1) BULK_STORE(2) BULK_STORE(3) \
    cp.async.bulk.commit_group; \
    add.u32 out_row, out_row, all; \
    }

#define BULK_INIT(n) \
    mbarrier.init.shared::cta.b64 [bars + n], 1;

/* A kernel in which each thread adds to a word.  The words begin at `own`, `stride` bytes apart.  The clock is read
 * after every eighth addition. */
#define ADDING_KERNEL(name, ...) \
ENTRY(name) { \
    HEAD \
    .reg .b32 i, stride, mask, rows, old; \
    .reg .b64 word; \
    ld.param.u64 word, [ARG_OWN]; \
    ld.param.u32 stride, [ARG_SOURCE_STRIDE]; \
    ld.param.u32 mask, [ARG_SOURCE_MASK]; \
    ld.param.u32 rows, [ARG_ROWS]; \
    mad.lo.u32 i, me, 32, lane; \
    and.b32 i, i, mask; \
    mad.wide.u32 word, i, stride, word; \
    GO \
next: \
    .pragma "nounroll"; \
    __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ \
    __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ \
    add.u32 done, done, 8; \
    TIME_LEFT(rows) \
    @p bra next; \
    fence.acq_rel.sys; \
    FINISH(done) \
}

const char cuda_ptx_copies[] =
    HEADER
    PTX(.extern .shared .align 1024 .b8 shared_memory[];)
    PTX(COPY_KERNEL(1, 512))
    PTX(COPY_KERNEL(2, 1024))
    PTX(COPY_KERNEL(5, 2560))
    PTX(COPY_KERNEL(8, 4096))
    PTX(LOAD_KERNEL(1, 512))
    PTX(LOAD_KERNEL(2, 1024))
    PTX(LOAD_KERNEL(5, 2560))
    PTX(LOAD_KERNEL(8, 4096))
    PTX(STORE_KERNEL(1, 512))
    PTX(STORE_KERNEL(8, 4096))
    PTX(ROWS_KERNEL(load_words_1, 512, DO_1(LOAD_4), DO_1(FOLD_4), DO_1(LOAD_4_REST), DO_1(FOLD_4),
                    NOTHING, NOTHING))
    PTX(ROWS_KERNEL(load_words_8, 4096, DO_8(LOAD_4), DO_8(FOLD_4), DO_8(LOAD_4_REST), DO_8(FOLD_4),
                    NOTHING, NOTHING))
    PTX(ROWS_KERNEL(message, 4096, DO_8(LOAD), DO_8(STORE), DO_8(LOAD_REST), DO_8(STORE_REST),
                    PLACE_TAKE, PLACE_RELEASE))

    PTX(ENTRY(bulk) {
        HEAD
        .reg .pred in, outward, one_may_read, whole;
        .reg .b32 row, out_row, fan, flags;
        .reg .b32 stages, ahead, shared_stride, places, bars, in_stage, out_stage, parities, spare, asked;
        .reg .b64 source, target0, target1, target2, target3;
        ROWS_ARGS
        ld.param.u32 fan, [ARG_FAN];
        ld.param.u32 stages, [ARG_STAGES];
        ld.param.u32 ahead, [ARG_AHEAD];
        ld.param.u32 shared_stride, [ARG_SHARED_STRIDE];
        ld.param.u32 places, [ARG_SHARED_OFFSET];
        ld.param.u64 source, [ARG_SOURCE];
        ld.param.u32 flags, [ARG_FLAGS];
        TARGET_FIND(target0, 0)
        TARGET_FIND(target1, 1)
        TARGET_FIND(target2, 2)
        TARGET_FIND(target3, 3)

        mov.u32 bars, shared_memory;
        add.u32 places, places, bars;
        add.u32 places, places, 1024;
        mad.lo.u32 bars, warp, 32, bars;
        mul.lo.u32 spare, warp, stages;
        mad.lo.u32 places, spare, shared_stride, places;
        setp.ne.u32 p, lane, 0;
        @p bra ready;
        BULK_INIT(0) BULK_INIT(8) BULK_INIT(16) BULK_INIT(24)
        fence.mbarrier_init.release.cluster;
        fence.proxy.async.shared::cta;
ready:
        bar.warp.sync 0xffffffff;
        and.b32 spare, flags, FLAG_IN;
        setp.ne.u32 in, spare, 0;
        and.b32 spare, flags, FLAG_OUT;
        setp.ne.u32 outward, spare, 0;
        and.b32 spare, flags, FLAG_WHOLE;
        setp.ne.u32 whole, spare, 0;
        sub.u32 spare, stages, ahead;
        setp.eq.u32 one_may_read, spare, 2;
        ld.param.u32 row, [ARG_INDEX];
        add.u32 row, row, me;
        mov.u32 out_row, row;
        mov.u32 in_stage, 0;
        mov.u32 out_stage, 0;
        mov.u32 parities, 0;
        GO
        setp.ne.u32 p, lane, 0;
        @p bra ended;

        mov.u32 asked, 0;
early:
        .pragma "nounroll";
        setp.ge.u32 p, asked, ahead;
        @p bra next;
        @!in bra next;
        BULK_IN
        add.u32 asked, asked, 1;
        bra early;
next:
        .pragma "nounroll";
        @!outward bra may_load;
        @whole bra keep_none;
        @one_may_read bra keep_one;
        cp.async.bulk.wait_group.read 0;
        bra may_load;
keep_none:
        cp.async.bulk.wait_group 0;
        bra may_load;
keep_one:
        cp.async.bulk.wait_group.read 1;
may_load:
        @!in bra loaded;
        BULK_IN
        BULK_ARRIVED
loaded:
        @!outward bra sent;
        BULK_OUT
sent:
        add.u32 out_stage, out_stage, 1;
        setp.eq.u32 p, out_stage, stages;
        @p mov.u32 out_stage, 0;
        add.u32 done, done, 1;
        mov.u64 c1, %clock64;
        sub.u64 c1, c1, c0;
        setp.lo.u64 p, c1, limit;
        setp.lo.and.u32 p, done, rows, p;
        @p bra next;

        /* Waits for the loads in flight, because they must end before the kernel ends and loses its shared memory. */
late:
        .pragma "nounroll";
        setp.eq.u32 p, asked, 0;
        @p bra drained;
        BULK_ARRIVED
        add.u32 out_stage, out_stage, 1;
        setp.eq.u32 p, out_stage, stages;
        @p mov.u32 out_stage, 0;
        sub.u32 asked, asked, 1;
        bra late;
drained:
        cp.async.bulk.wait_group 0;
ended:
        FINISH(done)
    })

    PTX(ADDING_KERNEL(red_gpu, red.relaxed.gpu.global.add.u32 [word], 1;))
    PTX(ADDING_KERNEL(red_sys, red.relaxed.sys.global.add.u32 [word], 1;))
    PTX(ADDING_KERNEL(atom_gpu, atom.relaxed.gpu.global.add.u32 old, [word], 1;))
    PTX(ADDING_KERNEL(atom_sys, atom.relaxed.sys.global.add.u32 old, [word], 1;))
    PTX(ADDING_KERNEL(atom_release_gpu, atom.release.gpu.global.add.u32 old, [word], 1;))
    PTX(ADDING_KERNEL(atom_release_sys, atom.release.sys.global.add.u32 old, [word], 1;))
    PTX(ADDING_KERNEL(store_words, st.relaxed.sys.global.u32 [word], lane;));
