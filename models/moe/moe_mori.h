/* moe_mori.h - private to MoRI's kernels within a node and between nodes: the passes of combine's sums. */
#ifndef MODELS_MOE_MOE_MORI_H
#define MODELS_MOE_MOE_MORI_H

#include "models/moe/moe_internal.h"

/* A warp goes along its part of a row in passes, in which each lane loads four bytes of each row, and then along the
 * remainder, one value for each lane at a time. */
enum { MORI_PASS_BYTES = 64 * 4, MORI_REST_BYTES = 64 * 2 };

struct mori_part {
    uint32_t from, values;
    uint32_t at, bytes; /* the bytes of this pass, counted from the part's first */
    bool last;
};

/* Pass `pass` of part `share`, if `shares` warps share a row of `hidden` values. */
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

/* Does the pass ask for all its rows before it adds the first?  The library has such a loop for some numbers of rows.
 * In every other loop, and in those over remainders, each row is awaited before the next is asked for. */
static inline bool mori_rows_at_once(const struct mori_part *p, uint32_t rows)
{
    return p->bytes == MORI_PASS_BYTES && rows <= 10 && (rows == 1 || rows % 2 == 0);
}

#endif
