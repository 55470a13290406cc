/* simulate_text.h - a prediction in words, for people: a table of its phases, and how each one's time comes about. */
#ifndef MODELS_PREDICT_SIMULATE_TEXT_H
#define MODELS_PREDICT_SIMULATE_TEXT_H

#include <glib.h>
#include "models/cluster.h"
#include "reports/record.h"

/* One line a phase: median and slowest rank, bandwidths (GB/s of 1e9 bytes), what bounds it and how busy that is, and
 * what share of the slowest rank's time the tightest bound is. */
void simulate_table_append(const struct record *record, GString *out);

/* For each phase the times that full rates alone would give, and a sum that leads from the bottleneck at full rate and
 * even load to the slowest rank's time.  The record needs rows of every rank. */
void simulate_explain_append(const struct record *record, const struct cluster *cluster, GString *out);

/* The record without the rows of single ranks. */
struct record *simulate_record_of_all(const struct record *record);

#endif
