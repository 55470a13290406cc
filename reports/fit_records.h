/* fit_records.h - makes one measurement of a machine from several.  A machine's speed drifts; the median of
 * measurements taken at different times does not depend on one slow moment.  Knows records, not the meaning of their
 * rows. */
#ifndef REPORTS_FIT_RECORDS_H
#define REPORTS_FIT_RECORDS_H

#include "reports/record.h"

/* The median of each row over records[count].  They must have the same rows in the same order and the same header,
 * except for keys that give the length of the measurement or the machine's other load.  A row that is not a number in
 * one record (a word, or not known) is not a number in the result. path[count] names the records.  The caller owns the
 * result.  NULL and *error (file, header or row, expected, found) if they do not fit together. count >= 1. */
struct record *fit_records_median(struct record *const *records, char *const *path, uint32_t count, GError **error);

#endif
