/* fit_gpu.h - makes the sections [gpu], [node] and, for several GPUs, [nvlink] of a cluster file from a record of
 * `eptwin measure --fabric cuda`.
 *
 * One table says which rows become which key (fit_gpu.c).  Every key gets a comment: its rows, and an interval from
 * the smallest to the largest sample.  With n passes the true median lies in the interval with the stated
 * probability, 1 - 2^(1-n), whatever the distribution.  A key that the rows do not give is named with the reason,
 * and never guessed. */
#ifndef REPORTS_FIT_GPU_H
#define REPORTS_FIT_GPU_H

#include <stdbool.h>
#include "reports/record.h"

/* Whether the record is of GPUs: its header says that fabric is cuda. */
bool fit_gpu_record(const struct record *record);

/* The text of the cluster file, which the caller frees.  NULL and *error if a row is unusable.  path names the record.
 * name is the cluster's name (NULL: the GPU's).  include is the file that gives the keys that the record does not give
 * (NULL: none, so the file must be completed by hand).  doubts (or NULL) gets the names of keys whose interval is wider
 * than a quarter of the value.  For keys that vary even on idle machines, this limit is larger. */
char *fit_gpu_text(const struct record *record, const char *path, const char *name, const char *include,
                   GString *doubts, GError **error);

#endif
