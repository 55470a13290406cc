/* simulate_text.h - a prediction in words, for people: a table of its phases, and how each phase's time arises. */
#ifndef MODELS_PREDICT_SIMULATE_TEXT_H
#define MODELS_PREDICT_SIMULATE_TEXT_H

#include <glib.h>
#include "models/case.h"
#include "models/cluster.h"
#include "reports/record.h"

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
