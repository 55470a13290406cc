/* simulate_command.h - the parts of `eptwin simulate` beside a prediction: whole traces, and words for people. */
#ifndef MODELS_PREDICT_SIMULATE_COMMAND_H
#define MODELS_PREDICT_SIMULATE_COMMAND_H

#include <glib.h>
#include "models/predict/simulate.h"

struct simulate_trace_options {
    const char *steps, *layers; /* sim/ranges.h; NULL: only the case's step or layer */
    uint32_t jobs;              /* threads; 0: one a core */
};

/* Predicts every (step, layer) of the trace, on all cores, and adds rows for each phase:
 *     slowest_us   the slowest rank's time, as a mean over all (step, layer); also its median, p99 and worst
 *     layers_us    the sum of slowest_us over the layers, as a mean over steps
 *     time_us      the mean time over ranks and over all (step, layer)
 * Each layer has rows of its own, too ("dispatch_layer3").  Shows a progress bar on a terminal.  False and *error on
 * failure. */
bool simulate_trace(const struct case_options *c, const struct cluster *cluster,
                    const struct simulate_trace_options *options, struct record *record, GError **error);

/* Appends a line for each phase: the slowest and the median rank's time, how far measured rows were off, bandwidths
 * (GB/s of 1e9 bytes), the part that bounds it, how busy that part is, and its work.  Below that, for kernels that end
 * before their data have arrived: how long data are still on the wire.  c and cluster: what was simulated. */
void simulate_table_append(const struct case_options *c, const struct record *record, const struct cluster *cluster,
                           GString *out);

/* Appends for each phase how long parts are busy, and the sum from the busiest part's time at full rate and even load
 * to the slowest rank's time (simulate_text.c).  The record needs rows of every rank. */
void simulate_explain_append(const struct record *record, GString *out);

/* The record without the rows of single ranks. */
struct record *simulate_record_of_all(const struct record *record);

#endif
