/* sweep_table.h - the results of a sweep as the report needs them: points with the values that were swept and the times
 * of their phases, read from the file that `eptwin sweep` writes (models/predict/sweep.h says what stands in it). */
#ifndef REPORTS_SWEEP_TABLE_H
#define REPORTS_SWEEP_TABLE_H

#include <glib.h>
#include <stdbool.h>

struct sweep_point {
    char **value;      /* [names] */
    double *time_us;   /* [phases] the slowest rank's, NAN where it has none */
    double *speedup;   /* [phases], against the baseline; NAN where there is none */
    char **bottleneck; /* [phases], "" where it has none */
};

struct sweep_table {
    char *source;       /* the file */
    char *baseline;     /* the baseline of speedups, "num-sms=24"; "" */
    GPtrArray *options; /* char *: a fact that all points share, "kernel: normal" */
    GPtrArray *names;   /* char *: the swept names, from the outer loop to the inner */
    char **work;        /* NULL-terminated: those of them that say what there is to do */
    GPtrArray *phases;  /* char *, in their order */
    GPtrArray *points;  /* struct sweep_point * that could be simulated */
    guint impossible;   /* points that could not */
    char *problem;      /* of the first of these; NULL for none */
    int compare;        /* the name whose values are shown side by side; -1: none was asked for */
};

/* Whether a text begins as the file of a sweep does. */
bool sweep_table_told(const char *text);
/* Lines that were cut are left out.  NULL and *error where the columns are not those of a sweep. */
struct sweep_table *sweep_table_parse(const char *source, const char *text, GError **error);
void sweep_table_free(struct sweep_table *table);

/* The place of a name or of a phase, or -1. */
int sweep_table_name(const struct sweep_table *table, const char *name);
int sweep_table_phase(const struct sweep_table *table, const char *phase);
/* Whether a name says what there is to do: no point is better than one of other work. */
bool sweep_table_is_work(const struct sweep_table *table, int name);
/* The values of a name, each once: by number where all are numbers, else as they come.  Free the array. */
GPtrArray *sweep_table_values(const struct sweep_table *table, int name);
/* A value's number, "25GB/s" is 25; NAN where it begins with none. */
double sweep_value_number(const char *value);
/* Whether all values of a name are numbers with one unit. */
bool sweep_table_numeric(const struct sweep_table *table, int name);

#endif
