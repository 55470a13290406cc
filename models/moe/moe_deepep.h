/* moe_deepep.h - versions of DeepEP, and how they differ from the one in PROTOCOLS.md.
 *
 * A version is the date of its commit on the main branch as YYYYMMDD (commit date, UTC offset as committed).  0 is the
 * version of PROTOCOLS.md.  Knows no case and no transport. */
#ifndef MODELS_MOE_MOE_DEEPEP_H
#define MODELS_MOE_MOE_DEEPEP_H

#include <stdbool.h>
#include <stdint.h>

/* The changes.  Each was made by one commit. */
enum moe_deepep_change {
    MOE_DEEPEP_FIRST,
    MOE_DEEPEP_ZERO_COPY,     /* low latency gets zero-copy */
    MOE_DEEPEP_IBGDA,         /* between nodes the GPU posts for normal kernels, on one QP a channel */
    MOE_DEEPEP_STARTS,        /* each node's coordinators begin with a different node */
    MOE_DEEPEP_LL_NVLINK,     /* low latency reaches peers of its node by NVLink */
    MOE_DEEPEP_BULK,          /* within a node the bulk engine copies received rows and stores sums */
    MOE_DEEPEP_HEADS,         /* heads of rings between nodes have their own QPs */
    MOE_DEEPEP_BULK_DISPATCH, /* between nodes the bulk engine forwards and copies rows of dispatch */
    MOE_DEEPEP_BULK_COMBINE,  /* between nodes the bulk engine returns rows of combine */
    MOE_DEEPEP_FORWARDERS,    /* combine has 24 warps of forwarders, not 16, and the bulk engine serves their sums */
    MOE_DEEPEP_LOGFMT,        /* low latency gets LogFMT */
    MOE_DEEPEP_V2,            /* the V2 kernels appear */
    MOE_DEEPEP_CHANGES
};

struct moe_deepep {
    const char *name, *commit;
    uint32_t date;
    const char *what;
};

/* Returns the change's entry in the table.  Changes of recommended chunks are not in it: moe_options_recommend() has
 * their dates. */
const struct moe_deepep *moe_deepep_at(enum moe_deepep_change change);
/* Whether the version is older than the change. */
bool moe_deepep_before(uint32_t version, enum moe_deepep_change change);

#endif
