/* moe_mori.h - private to MoRI's kernels within a node and between nodes: the passes of combine's sums. */
#ifndef MODELS_MOE_MOE_MORI_H
#define MODELS_MOE_MOE_MORI_H

#include "models/moe/moe_internal.h"

/* A warp has 64 lanes and sums its part of a row in passes.  In most passes each lane loads four bytes of each row.  In
 * passes over the remainder each lane loads one value. */
enum { MORI_PASS_BYTES = 64 * 4, MORI_REST_BYTES = 64 * 2 };

struct mori_part {
    uint32_t from, values;
    uint32_t at, bytes; /* where the pass begins, counted from the part's first byte; bytes of the pass */
    bool last;
};

/* Returns pass number `pass` of part number `share` of a row with `hidden` values that `shares` warps share. */
static inline struct mori_part mori_part_of(uint32_t hidden, uint32_t shares, uint32_t share, uint32_t pass)
{
    const uint32_t wide = (hidden + shares - 1) / shares;
    struct mori_part p = { .from = share * wide };
    p.values = p.from < hidden ? moe_min(wide, hidden - p.from) : 0;
    const uint32_t all = 2 * p.values, whole = all / MORI_PASS_BYTES;
    const bool rest = pass >= whole;
    p.at = rest ? whole * MORI_PASS_BYTES + (pass - whole) * MORI_REST_BYTES : pass * MORI_PASS_BYTES;
    p.bytes = moe_min(rest ? MORI_REST_BYTES : MORI_PASS_BYTES, all - p.at);
    p.last = p.at + p.bytes == all;
    return p;
}

/* Whether the pass asks for all its rows before it adds the first one.  The library has such a loop for some numbers of
 * rows.  In its other loops, and in passes over remainders, each row is awaited before the next one is asked for. */
static inline bool mori_rows_at_once(const struct mori_part *p, uint32_t rows)
{
    return p->bytes == MORI_PASS_BYTES && rows <= 10 && (rows == 1 || rows % 2 == 0);
}

#endif
