/* moe_deepep.h - versions of DeepEP, and their differences from the one that PROTOCOLS.md describes.
 *
 * Its main branch is a line of commits, each with a date (commit date, UTC offset as committed).  A version is the date
 * of its commit as YYYYMMDD; 0 is the one of PROTOCOLS.md.  Knows no case and no transport. */
#ifndef MODELS_MOE_MOE_DEEPEP_H
#define MODELS_MOE_MOE_DEEPEP_H

#include <stdbool.h>
#include <stdint.h>

/* Commits since which something is as it is. */
enum moe_deepep_change {
    MOE_DEEPEP_FIRST,
    MOE_DEEPEP_ZERO_COPY,     /* low latency has zero-copy */
    MOE_DEEPEP_IBGDA,         /* the GPU posts what normal kernels send between nodes, on a QP a channel */
    MOE_DEEPEP_STARTS,        /* nodes begin with different nodes */
    MOE_DEEPEP_LL_NVLINK,     /* low latency reaches peers of its node by NVLink */
    MOE_DEEPEP_BULK,          /* within a node the bulk engine copies received rows and stores sums */
    MOE_DEEPEP_HEADS,         /* heads of rings between nodes have QPs of their own */
    MOE_DEEPEP_BULK_DISPATCH, /* between nodes it forwards and copies rows of dispatch, */
    MOE_DEEPEP_BULK_COMBINE,  /* returns those of combine */
    MOE_DEEPEP_FORWARDERS,    /* and brings and stores what forwarders sum, 24 warps, not 16 */
    MOE_DEEPEP_LOGFMT,        /* low latency has LogFMT */
    MOE_DEEPEP_V2,            /* there are the V2 kernels */
    MOE_DEEPEP_CHANGES
};

struct moe_deepep {
    const char *name, *commit;
    uint32_t date;
    const char *what;
};

/* The table.  Recommended chunks changed too: moe_options_recommend() has those by date. */
const struct moe_deepep *moe_deepep_at(enum moe_deepep_change change);
/* Whether that version is older than the change. */
bool moe_deepep_before(uint32_t version, enum moe_deepep_change change);

#endif
