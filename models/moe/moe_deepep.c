/* moe_deepep.c - the table of DeepEP's changes (moe_deepep.h), made from the commits themselves. */
#include "models/moe/moe_deepep.h"

#include <assert.h>

static const struct moe_deepep table[MOE_DEEPEP_CHANGES] = {
    [MOE_DEEPEP_FIRST] = { "first", "ebfe47e", 20250225,
                           "a thread of the host posts what normal kernels send between nodes (IBRC), on one QP a "
                           "peer; low latency goes by the NIC alone" },
    [MOE_DEEPEP_ZERO_COPY] = { "zero-copy", "dcaf73e", 20250318, "low latency has zero-copy" },
    [MOE_DEEPEP_IBGDA] = { "ibgda", "3e54b78", 20250422,
                           "GPUs post what normal kernels send between nodes, on a QP for each channel" },
    [MOE_DEEPEP_STARTS] = { "starts", "63c29d0", 20250510, "in dispatch, nodes begin with different nodes" },
    [MOE_DEEPEP_LL_NVLINK] = { "ll-nvlink", "aae9fa9", 20250523, "low latency reaches peers of its node by NVLink" },
    [MOE_DEEPEP_BULK] = { "bulk", "c8dceba", 20250606,
                          "within a node the bulk engine copies received rows and stores sums" },
    [MOE_DEEPEP_HEADS] = { "heads", "05df555", 20250613, "heads of rings between nodes go on QPs of their own" },
    [MOE_DEEPEP_BULK_DISPATCH] = { "bulk-dispatch", "a2fa3b7", 20250704,
                                   "between nodes the bulk engine forwards and copies rows of dispatch" },
    [MOE_DEEPEP_BULK_COMBINE] = { "bulk-combine", "06f417d", 20250710,
                                  "between nodes the bulk engine returns rows of combine" },
    [MOE_DEEPEP_FORWARDERS] = { "forwarders", "f9c06bb", 20250721,
                                "combine's forwarders between nodes are 24 warps, not 16, and the bulk engine brings "
                                "what they sum" },
    [MOE_DEEPEP_LOGFMT] = { "logfmt", "c5facf5", 20250807, "low latency has LogFMT" },
    [MOE_DEEPEP_V2] = { "v2", "b306af0", 20260430, "there are the V2 kernels" },
};

const struct moe_deepep *moe_deepep_at(enum moe_deepep_change change)
{
    assert(change < MOE_DEEPEP_CHANGES);
    return &table[change];
}

bool moe_deepep_before(uint32_t version, enum moe_deepep_change change)
{
    return version && version < moe_deepep_at(change)->date;
}
