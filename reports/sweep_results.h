/* sweep_results.h - the file that `eptwin sweep` writes, in memory: header, columns, rows, and the rows of each point.
 *
 * models/predict/sweep.h describes the file.  Knows no plan and no metric. */
#ifndef REPORTS_SWEEP_RESULTS_H
#define REPORTS_SWEEP_RESULTS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct sweep_results {
    char *header;          /* lines "# key: value" that all points share; equal in two files of one sweep */
    GPtrArray *inputs;     /* char *: each input with its digest */
    uint64_t points;       /* how many points the whole plan has, as the file says */
    char *baseline;        /* the point that speedups are relative to: "num-sms=24"; NULL or "": there is none */
    char **column;         /* NULL-terminated */
    uint32_t names;        /* number of columns between "point" and "phase" */
    GPtrArray *row;        /* char **: a row's cells, one for each column */
    GHashTable *points_of; /* sweep_results_key() -> GPtrArray of the point's rows (borrowed) */
};

/* Makes results without header, columns and rows. */
struct sweep_results *sweep_results_alloc(void);
void sweep_results_free(struct sweep_results *results);
typedef struct sweep_results sweep_results;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sweep_results, sweep_results_free)
/* Whether a text begins like the file of a sweep. */
bool sweep_results_told(const char *text);
/* Reads header and columns of a text, and sets *rows to where its rows begin.  NULL if it is not the text of a
 * sweep. */
struct sweep_results *sweep_results_parse(const char *text, const char **rows);
/* Adds rows, given as lines of the file, each only once.  Returns how many lines it leaves out, because they are
 * incomplete. */
uint32_t sweep_results_add_text(struct sweep_results *results, const char *text);
/* The number of the line of the file's text that has this row's cells. */
uint32_t sweep_results_line(const struct sweep_results *results, const char *text, char *const *cell);
/* Adds a row, and takes its cells. */
void sweep_results_add_row(struct sweep_results *results, char **cell);
/* The swept values of a row's point, with a ',' after each.  Free with g_free(). */
char *sweep_results_key(const struct sweep_results *results, char *const *cell);
/* The rows of the point whose first row is row i; NULL: row i is not the first of its point. */
const GPtrArray *sweep_results_point(const struct sweep_results *results, guint i);
uint64_t sweep_results_points(const struct sweep_results *results);
/* The index of a column, or -1. */
int sweep_results_column(const struct sweep_results *results, const char *name);
/* A cell's number; NAN if it has none, or if column is -1. */
double sweep_cell_number(char *const *cell, int column);
/* The phase by whose time points are ranked unless somebody says otherwise: the layer or the step; if no point has one,
 * as those of collectives, the phase that takes longest.  NULL: no row has a time. */
const char *sweep_results_ranked_by(const struct sweep_results *results);
/* The header and the line of columns, with which a file begins.  Free with g_free(). */
char *sweep_results_begin(const struct sweep_results *results);

#endif
