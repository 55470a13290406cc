/* import_table.h - imported rows as a table of cases for validate, and in words. */
#ifndef REPORTS_IMPORT_IMPORT_TABLE_H
#define REPORTS_IMPORT_IMPORT_TABLE_H

#include "reports/import/import.h"

/* An option of a case that the user states where the log does not. */
struct import_given {
    const char *name, *text;
};

/* Puts what was given into rows of eptwin's kernels, whatever the log states, but for the kernel, which a test's name
 * says; said gets a line for each option that stands instead of the log's.  Where the kernel given is p2p, the streams
 * of puts and gets that perftest and NVSHMEM timed become rows of that kernel, between two nodes. */
void import_rows_fill(const GPtrArray *rows, const struct import_given *given, uint32_t count, GString *said);

/* The rows as CSV: one column for each word and number that any row has, after where it stands, and the given options
 * that no column has.  A row whose time is not known has its bandwidth as measured_gbs, by its metric. */
void import_table_append(const GPtrArray *rows, const struct import_given *given, uint32_t count, GString *out);

/* The cases among rows that simulate predicts: rows of one log with the same options, sweeps of a tuner left out.
 * Arrays of rows, in the order of the log. */
GPtrArray *import_cases(const GPtrArray *rows);

/* A summary of the log: tools, rows, cases, missing facts, omitted and unknown lines. */
void import_summary_append(const struct import_log *log, const GPtrArray *rows, GString *out);
/* A line a case: its number, where it stands, its options and phases. */
void import_cases_append(const GPtrArray *cases, GString *out);

#endif
