/* sweep_table.h - the results of a sweep as the report needs them: points with their swept values and the times of
 * their phases.  They are read from the file that `eptwin sweep` writes (models/predict/sweep.h describes it). */
#ifndef REPORTS_SWEEP_TABLE_H
#define REPORTS_SWEEP_TABLE_H

#include "reports/sweep_rank.h"

struct sweep_point {
    char *const *value; /* [names] */
    double *time_us;    /* [phases] the slowest rank's time; NAN: the point lacks the phase */
};

struct sweep_table {
    char *source;               /* the file */
    struct sweep_results *file; /* what it holds; the texts below are its */
    const char *baseline;       /* the point that speedups are relative to: "num-sms=24"; or "" */
    GPtrArray *options;         /* char *: facts that all points share, such as "kernel: normal" */
    GPtrArray *names;           /* char *: the swept names, from the outer loop to the inner */
    GPtrArray *phases;          /* char *: in the order of the file */
    int goal;                   /* the phase by whose time points are ranked */
    GPtrArray *points;          /* struct sweep_point *: the points that could be simulated */
    guint impossible;           /* number of points that could not be simulated */
    char *problem;              /* why the first of these points could not be simulated, or NULL */
    int compare;                /* the name whose values are compared; -1: none was asked for */
};

/* Reads a sweep's file from text.  Ignores incomplete lines.  NULL and *error if the columns are not those of a sweep,
 * or no point has a time. */
struct sweep_table *sweep_table_parse(const char *source, const char *text, GError **error);
void sweep_table_free(struct sweep_table *table);

/* The index of a name or of a phase, or -1. */
int sweep_table_name(const struct sweep_table *table, const char *name);
int sweep_table_phase(const struct sweep_table *table, const char *phase);
/* The values of a name, each once: sorted if they are numbers with one unit, else in the order of the file.  Free the
 * array. */
GPtrArray *sweep_table_values(const struct sweep_table *table, int name);
/* The number with which a value begins, 25 for "25GB/s"; NAN if there is none. */
double sweep_value_number(const char *value);
/* Whether all values of a name are numbers with one unit. */
bool sweep_table_numeric(const struct sweep_table *table, int name);

#endif
