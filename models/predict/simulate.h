/* simulate.h - predicts one case on one cluster: builds the simulated world, runs the protocol's kernels in it
 * and writes times, bandwidths, bounds and bottleneck into a record. */
#ifndef MODELS_SIMULATE_H
#define MODELS_SIMULATE_H

#include <glib.h>
#include <stdbool.h>
#include "models/case.h"
#include "models/cluster.h"
#include "reports/record.h"
#include "sim/timeline.h"

/* What a caller wants in addition to the rows for all ranks. */
struct simulate_wishes {
    bool per_rank;           /* rows of each rank */
    bool waits;              /* for each rank a list "waits_us": how long it waited for each rank (models/waits.h) */
    bool usage;              /* for each phase lists such as "used_nic_tx": how busy parts were over time */
    uint32_t threads;        /* the most threads; 0: one.  The number does not change the record */
    const char **one_thread; /* gets the reason if only one thread can run the case, else NULL; may itself be NULL */
    const struct transport *transport; /* replaces the transport of the case or of the cluster's [nic]; may be NULL */
    struct timeline *timeline;         /* gets what workers and ports do; may be NULL */
    struct progress *progress;         /* a bar that events advance; may be NULL */
    /* Names of phases, NULL-terminated.  If the kernel has all of them, the run ends after the last of them.  NULL: it
     * ends after all phases. */
    const char *const *phases;
};

/* Simulates the case (with load from case_load()); messages have sizes but no contents.  Adds the rows of every phase
 * to record: time_us and bandwidths, bounds, busy shares, bottleneck.  False and *error if the case does not fit the
 * cluster or the protocol refuses it. */
bool simulate_load(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                   const struct simulate_wishes *wishes, struct record *record, GError **error);

/* Whether the kernels accept the case; else *error says why not.  Simulates nothing. */
bool simulate_takes(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                    GError **error);

/* Simulates the case and adds rows for all ranks.  phases: see simulate_wishes. */
bool simulate_phases(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                     const char *const *phases, struct record *record, GError **error);

/* Simulates the case with the load that it describes, and adds rows for all ranks. */
bool simulate_case(const struct case_options *c, const struct cluster *cluster, uint32_t threads, struct record *record,
                   GError **error);

#endif
