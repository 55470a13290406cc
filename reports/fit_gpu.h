/* fit_gpu.h - from a record of `eptwin measure --fabric cuda` to the sections [gpu] and [nvlink] of a cluster file.
 *
 * Which rows become which key stands in one table (fit_gpu.c).  Every key gets a comment: its rows, and an interval
 * that holds the true median with the stated probability, from the smallest and largest of the passes: of n passes
 * 1 - 2^(1-n), whatever the distribution.  A key that the rows cannot tell is named with the reason, not guessed. */
#ifndef REPORTS_FIT_GPU_H
#define REPORTS_FIT_GPU_H

#include <stdbool.h>
#include "reports/record.h"

/* Whether the record is of GPUs: header fabric is cuda. */
bool fit_gpu_record(const struct record *record);

/* The text of the cluster file, which the caller frees; NULL and *error when a row is unusable.  path names the record;
 * name is the cluster's name (NULL: the GPU's); include: the file from which keys come that the record does
 * not
 * tell (NULL: none, the file is then to be completed by hand); doubts (or NULL) gets the names of keys whose interval
 * is
 * wider than a quarter of the value. */
char *fit_gpu_text(const struct record *record, const char *path, const char *name, const char *include,
                   GString *doubts, GError **error);

#endif
