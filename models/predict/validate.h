/* validate.h - a table of measured cases.  It is read from CSV, simulated on all cores, written back with predictions,
 * and summed up as distributions of the error.
 *
 * A column with the name of an option of a case (case.h) sets that option.  "phase", "measured_us", "measured_gbs",
 * "measured_pct", "outside_us", "seeds" and "metric" say what was measured.  Every other column is a label, kept
 * unchanged.  No two columns may name one option, in whatever spelling.  For validate and diagnose. */
#ifndef MODELS_VALIDATE_H
#define MODELS_VALIDATE_H

#include <glib.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"

struct validate_row {
    uint32_t line; /* the line on which the row begins */
    char **cell;   /* one for each column, as read; NULL-terminated */
    struct case_options options;
    char **settings;    /* keys of the cluster file that this row sets, "nic.rate=25 GB/s"; NULL: none */
    char **phase;       /* the phases whose times are added: "dispatch", or "cached_notify_dispatch+dispatch" */
    const char *metric; /* points into a cell; NULL: the kernel decides */
    bool native;        /* another tool's own figure (metric native_...), which is kept and not predicted */
    double measured_us, measured_gbs; /* NAN: not given */
    double measured_pct;              /* a share of the phase's time that metric names (wait_matrix.h), or how much
                                       * longer the load of --compute takes; NAN: none */
    double outside_us;                /* time that the measurement includes in addition to its phases */
    uint32_t seeds; /* the prediction is a mean over this many seeds; the first is the options' seed */
    char *problem;  /* why there is no prediction; NULL: no problem so far */
    uint32_t job;   /* number of the row's job; rows of one case share it */
    unsigned known; /* facts that labels tell, as bits that the table's user defines; 0: none */
    double predicted_us, predicted_gbs, predicted_pct, error_pct; /* NAN: none */
    char *posted_by, *bottleneck;                                 /* posted_by: as accuracy_poster() says */
};

struct validate_table {
    char *path;
    char **column; /* names; NULL-terminated */
    uint32_t column_count, row_count, job_count;
    struct validate_row *row;
    char *warning; /* lines about columns whose names are similar to an option's; NULL: none */
};

/* Reads path ("-": standard input).  base holds the options of rows that do not set them.  A bad row gets its
 * problem and stays.  NULL and *error if the file as a whole cannot be used. */
struct validate_table *validate_table_read(const char *path, const struct case_options *base, GError **error);
/* Reads a text in memory; path names it in messages. */
struct validate_table *validate_table_parse(const char *path, const char *text, size_t size_bytes,
                                            const struct case_options *base, GError **error);
void validate_table_free(struct validate_table *table);
typedef struct validate_table validate_table;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(validate_table, validate_table_free)

/* Whether nothing is simulated for a row: it has a problem, or is another tool's own figure. */
static inline bool validate_row_idle(const struct validate_row *row) { return row->problem || row->native; }

/* Whether the row's measurement is a percentage: how long ranks wait for each other, or how much longer a load takes.
 */
static inline bool validate_row_waits(const struct validate_row *row) { return isfinite(row->measured_pct); }

/* A copy of a row's case and measurement, without results and cells.  The copy's metric points into a cell of `row`.
 * Freed with its table, or by validate_row_clear(). */
struct validate_row validate_row_copy(const struct validate_row *row);
void validate_row_clear(struct validate_row *row);
/* Numbers the jobs: rows with equal options and settings share one.  Reading a table does this, too. */
void validate_jobs_number(struct validate_table *table);

/* Index of a column, or -1. */
int validate_column_find(const struct validate_table *table, const char *name);
/* Whether the options name a cluster that can be read, or the table has a column for it. */
bool validate_cluster_named(const struct case_options *base, const struct validate_table *table, GError **error);

/* Prints the problems of rows to standard error and returns how many rows have one.  A problem of several rows is one
 * line, that of the first. */
uint32_t validate_problems_print(const struct validate_table *table);

/* The table as CSV with posted_by, predicted_us, predicted_gbs, error_pct and bottleneck added (or replaced). */
void validate_table_append(const struct validate_table *table, GString *out);

/* Simulates every row without a problem.  Jobs are shared out to worker processes, with a progress bar.  A case that
 * cannot be simulated, or whose worker dies, becomes a problem of its rows.  False and *error if no worker can be
 * started. */
bool validate_table_run(struct validate_table *table, uint32_t workers, GError **error);

/* Appends the distribution of error_pct as text: of all rows, then by phase, kernel, num-tokens and each column of
 * `by`. */
void validate_summary_append(const struct validate_table *table, char **by, GString *out);

#endif
