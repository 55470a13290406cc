/* span.h - the time of a chain of kernels.  Each is launched while the previous one still runs (programmatic launch),
 * so together they take less than the sum of their durations.  Private to models/predict. */
#ifndef MODELS_PREDICT_SPAN_H
#define MODELS_PREDICT_SPAN_H

#include <stdbool.h>
#include "models/cluster.h"
#include "models/hardware/world/world.h"
#include "reports/record.h"

/* A chain of one rank's kernels.  Each but the first was launched before the previous one had ended.  Times count from
 * the start of the first. */
struct span {
    uint64_t end_ps;
    uint64_t let_ps;    /* when the next kernel may begin */
    uint64_t counts_ps; /* when the host knew the counts that it waits for; 0: it waits for no counts */
    uint64_t awaits_ps; /* how long the last kernel, once it had begun, waited for the end of the one before */
    uint64_t rdma_bytes, nvl_bytes; /* logical bytes of all these kernels */
};

/* Adds a kernel with the world's result.  follows: the kernel was launched while the one before it still ran.  Then its
 * time_ps becomes the time from its own begin to its end, which includes the wait for the end of the one before.
 * host_waits: the host launches nothing before it knows the counts. */
void span_add(struct span *span, struct world_result *result, bool follows, bool host_waits,
              const struct cluster *cluster);
/* Records the spans of all ranks under name. */
void span_record(const struct span *span, uint32_t ranks, const char *name, struct record *record);

#endif
