/* fit_cluster.h - makes a cluster file for the machine of records of `eptwin measure`.
 *
 * One table says which rows become which key (fit_cluster.c, and fit_gpu.c for GPUs; reports/README.md).  Every key
 * gets a comment that names its rows and, if they were fitted by a line, how far they are from it.  Keys of GPUs get an
 * interval from the smallest to the largest sample.  With n passes the true median lies in the interval with the stated
 * probability, 1 - 2^(1-n), whatever the distribution.  A key that the rows of GPUs do not give is named with the
 * reason, and never guessed. */
#ifndef REPORTS_FIT_CLUSTER_H
#define REPORTS_FIT_CLUSTER_H

#include <glib.h>
#include <stdbool.h>
#include "reports/record.h"

/* The text of the cluster file, which the caller frees.  NULL and *error if rows are missing or unusable. path names
 * the record in comments and messages. name is the cluster's name (NULL: the machine's). doubts (or NULL) gets the
 * names of the rates whose rows are off their line by more than 25 % in the median. */
char *fit_cluster_text(const struct record *record, const char *path, const char *name, GString *doubts,
                       GError **error);

/* Whether the record is of GPUs: its header says that fabric is cuda. */
bool fit_gpu_record(const struct record *record);

/* The sections [gpu], [node] and, for several GPUs, [nvlink] of a cluster file, which the caller frees.  NULL and
 * *error if a row is unusable.  path names the record. name is the cluster's name (NULL: the GPU's).  include is the
 * file that gives the keys that the record does not give (NULL: none, so the file must be completed by hand).  doubts
 * (or NULL) gets the names of keys whose interval is wider than a quarter of the value.  For keys that vary even on
 * idle machines, this limit is larger. */
char *fit_gpu_text(const struct record *record, const char *path, const char *name, const char *include,
                   GString *doubts, GError **error);

/* The median of each row over records[count].  A machine's speed drifts; the median of measurements taken at different
 * times does not depend on one slow moment.  They must have the same rows in the same order and the same header,
 * except for keys that give the length of the measurement or the machine's other load.  A row that is not a number in
 * one record (a word, or not known) is not a number in the result. path[count] names the records.  The caller owns the
 * result.  NULL and *error (file, header or row, expected, found) if they do not fit together. count >= 1. */
struct record *fit_records_median(struct record *const *records, char *const *path, uint32_t count, GError **error);

#endif
