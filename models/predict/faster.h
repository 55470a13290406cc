/* faster.h - predictions in which all parts of one kind are twice as fast.  They prove what bounds a phase: the kind of
 * parts that shortens the slowest rank's time most. */
#ifndef MODELS_PREDICT_FASTER_H
#define MODELS_PREDICT_FASTER_H

#include <glib.h>
#include <stdbool.h>
#include "models/case.h"
#include "models/cluster.h"
#include "models/cluster_keys.h"
#include "reports/record.h"

/* Predicts the case, with the parts of a kind twice as fast: double rates, half times.  Nominal rates stay, so kernels
 * choose the settings that they chose before.  False and *error if the prediction fails or the cluster's file cannot be
 * read again. */
bool faster_predict(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                    enum cluster_part kind, struct record *record, GError **error);

/* By how many percent the slowest rank's time of a phase is shorter in `after`; NAN: not known. */
double faster_gain_pct(const struct record *before, const struct record *after, const char *phase);

/* The kind of parts to which a bottleneck of a record belongs; CLUSTER_PART_NONE: to none of them. */
enum cluster_part faster_kind(const char *bottleneck);

/* record: the case's prediction.  Predicts the case again for each kind of part, with all parts of that kind twice as
 * fast, and appends a table that says how much time each phase saves.  If that contradicts the part that the record
 * names as the bottleneck, appends a sentence that takes the name back.  Appends nothing if the cluster is a host,
 * whose cores do all work.  False and *error if a prediction fails. */
bool faster_append(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                   const struct record *record, GString *out, GError **error);

#endif
