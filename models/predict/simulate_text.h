/* simulate_text.h - a prediction in words, for people: a table of its phases, and how each one's time comes about. */
#ifndef MODELS_PREDICT_SIMULATE_TEXT_H
#define MODELS_PREDICT_SIMULATE_TEXT_H

#include <glib.h>
#include "reports/record.h"

/* One line a phase: median and slowest rank, bandwidths (GB/s of 1e9 bytes), which part bounds it, how busy that is,
 * and its work.  Then how long data are on the wire after kernels that end before they have arrived. */
void simulate_table_append(const struct record *record, GString *out);

/* For each phase how long parts are busy, and a sum that leads from the busiest one, at full rate and even load, to the
 * slowest rank's time.  The record needs rows of every rank. */
void simulate_explain_append(const struct record *record, GString *out);

/* The record without the rows of single ranks. */
struct record *simulate_record_of_all(const struct record *record);

#endif
