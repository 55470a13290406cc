/* report.h - shows records: as one HTML page that needs no other file, or as text for a terminal.
 *
 * A case is a prediction and its measurement, two predictions of equal work, or one record alone.  Equal records give
 * equal bytes. */
#ifndef REPORTS_REPORT_H
#define REPORTS_REPORT_H

#include <glib.h>
#include "reports/compare.h"
#include "reports/drawing.h"
#include "reports/record.h"
#include "reports/sweep_table.h"

struct report_series {
    const char *name; /* "predicted" or "measured"; "first" or "second" of two predictions; else the record's kind */
    const char *path;
    const struct record *record;
    bool predicted;
    bool second; /* drawn in the second colour: a measurement, or the second prediction */
};

struct report_case {
    char *title; /* unique in a report */
    struct report_series series[2];
    int series_count;
    struct compare *compare; /* compares the two series; NULL: there is only one */
    bool title_differs;      /* the title says in what two predictions differ */
};

/* Makes cases of the records.  Records and paths are borrowed.  Every measurement is paired with the first prediction
 * of its case.  Then each remaining prediction is paired with the first remaining one of equal work.  Each record
 * without a pair is a case alone.  Free with g_ptr_array_unref(). */
GPtrArray *report_cases_new(const struct record *const *records, const char *const *paths, guint count);

/* Gives all cases their titles. */
void report_titles_set(GPtrArray *cases);
/* The facts that several cases have in common, in words; "" for one case.  Free it. */
char *report_common(const GPtrArray *cases);

/* The phases of a case that have a metric of this name or, if the name ends in '_', a metric whose name begins with
 * it; in order, at most count_max.  Free the array. */
GPtrArray *report_case_phases(const struct report_case *c, const char *metric, guint count_max);
/* A metric's value on a rank. report_samples() returns the values on all ranks for a phase, ascending.  Free the
 * array. */
struct report_sample {
    double value;
    int32_t rank;
};
GArray *report_samples(const struct record *record, const char *phase, const char *metric);
double report_samples_median(const GArray *samples); /* there must be at least one sample */
/* The time of the slowest rank; if the record does not tell it, the mean. */
double report_slowest_us(const struct record *record, const char *phase);
/* How many of a case's series are shown with their bounds and busy shares: two if both are predictions, else one. */
int report_explaining(const struct report_case *c);

/* Makes a new drawing of a record's machine, or NULL.  The code that makes a page supplies this function. */
struct report_machines {
    struct drawing *(*draw)(void *context, const struct record *record);
    void *context;
};

/* The whole page.  sweeps: struct sweep_table *, or NULL.  machines NULL: none is drawn.  version: the program's. */
GString *report_html(const GPtrArray *cases, const GPtrArray *sweeps, const struct report_machines *machines,
                     const char *version);
/* The report for a terminal, width columns wide. */
GString *report_text(const GPtrArray *cases, int width);

extern const char report_style[]; /* of the page: CSS */

/* The plots, each with its heading.  Nothing is appended if the case has no rows for it. */
void report_plot_times(const struct report_case *c, GString *out);
void report_plot_bounds(const struct report_case *c, GString *out);
void report_plot_busy(const struct report_case *c, GString *out);
void report_plot_split(const struct report_case *c, GString *out);
void report_plot_streams(const struct report_case *c, GString *out);
void report_plot_usage(const struct report_case *c, GString *out);
void report_plot_sizes(const struct report_case *c, GString *out);
void report_plot_ranks(const struct report_case *c, GString *out);
void report_plot_waits(const struct report_case *c, GString *out);
void report_plot_layers(const struct report_case *c, GString *out);
void report_plot_machine(const struct report_case *c, const struct report_machines *machines, GString *out);
/* report_sweep() appends a sweep's best points, curves and fronts. titled: the page's heading already is the sweep's
 * title. report_sweep_title() returns this title, which the caller frees. */
void report_sweep(const struct sweep_table *table, bool titled, GString *out);
char *report_sweep_title(const struct sweep_table *table);
/* Predicted against measured times of all cases, with lines at errors of 10 %. */
void report_plot_scatter(const GPtrArray *cases, GString *out);

#endif
