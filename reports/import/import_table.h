/* import_table.h - imported rows as a table of cases for validate, and in words. */
#ifndef REPORTS_IMPORT_IMPORT_TABLE_H
#define REPORTS_IMPORT_IMPORT_TABLE_H

#include "reports/import/import.h"

/* An option of a case that the user states because the log does not. */
struct import_given {
    const char *name, *text;
};

/* Puts the given options into rows of eptwin's kernels, even where the log states others.  The kernel is not replaced,
 * because the test's name states it. said gets a line for each option that replaces the log's.  If the given kernel is
 * p2p, the streams of puts and gets that perftest and NVSHMEM timed become rows of that kernel, between two nodes. Rows
 * that may be of the given kernel become rows of it. */
void import_rows_fill(const GPtrArray *rows, const struct import_given *given, uint32_t count, GString *said);

/* Appends the rows as CSV.  The columns are the place in the log, each word and number that any row has, and the given
 * options that no other column has.  If a row has no time, measured_gbs has its bandwidth, next to the name of its
 * metric. */
void import_table_append(const GPtrArray *rows, const struct import_given *given, uint32_t count, GString *out);

/* The cases that simulate can predict, as arrays of rows in the order of the log.  A case is the rows of one log with
 * equal options, without the sweeps of a tuner. */
GPtrArray *import_cases(const GPtrArray *rows);

/* Appends a summary of the log: tools, rows, cases, missing facts, omitted and unknown lines. */
void import_summary_append(const struct import_log *log, const GPtrArray *rows, GString *out);
/* Appends a line for each case: its number, its place, its options and phases. */
void import_cases_append(const GPtrArray *cases, GString *out);

#endif
