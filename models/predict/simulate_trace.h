/* simulate_trace.h - predicts every (step, layer) of a trace, on all cores, and sums them up. */
#ifndef MODELS_SIMULATE_TRACE_H
#define MODELS_SIMULATE_TRACE_H

#include "models/predict/simulate.h"

struct simulate_trace_options {
    const char *steps, *layers; /* sim/ranges.h; NULL: only the case's step or layer */
    uint32_t jobs;              /* threads; 0: one a core */
};

/* Predicts the trace, and adds rows for each phase:
 *     slowest_us   the slowest rank's time, as a mean over all (step, layer); also its median, p99 and worst
 *     layers_us    the sum of slowest_us over the layers, as a mean over steps
 *     time_us      the mean time over ranks and over all (step, layer)
 * Each layer has rows of its own, too ("dispatch_layer3").  Shows a progress bar on a terminal.  False and *error on
 * failure. */
bool simulate_trace(const struct case_options *c, const struct cluster *cluster,
                    const struct simulate_trace_options *options, struct record *record, GError **error);

#endif
