/* sweep.h - predictions over all combinations of values.  The points of a plan run on all cores and on several
 * machines.  The rows of a point are kept as soon as they are known.  Tables show them.
 *
 *     plan (names, values) ──► points, numbered, the last name's values in the innermost loop
 *     run: points of this shard that no file has yet ──► FILE.part, a point's rows in one write ──► FILE, sorted
 *
 * A point is one dispatch and combine or, if the plan has a net or timed work, a whole step (models/step).
 *
 * A results file is CSV with header lines: the common values of all points, and digests of inputs.  Then come the
 * columns: point; one for each swept name; phase; phases; metrics; speedup; problem.  phases is how many rows the
 * point must have: a point with fewer rows was cut off and is run again.  slowest_us is the slowest rank's time;
 * speedup is the baseline's slowest_us over the point's.  The last row of a point that dispatches and combines has
 * phase "layer": the sum that compare_layer_find() makes.  A step has one row, of phase "step", and metrics of its own.
 * Equal plans give equal bytes, however they were divided, interrupted or resumed. */
#ifndef MODELS_PREDICT_SWEEP_H
#define MODELS_PREDICT_SWEEP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "models/predict/estimate.h"
#include "models/step/step_options.h"
#include "reports/sweep_rank.h"
#include "sim/error.h"

#define SWEEP_ERROR (g_quark_from_static_string("eptwin-sweep"))
enum sweep_error { SWEEP_ERROR_BUSY = ERROR_RUN };

enum { SWEEP_VALUES_MAX = 10000, SWEEP_POINTS_MAX = 10000000, SWEEP_FILE_BYTES_MAX = 1 << 30 };

/* ---- the plan ---- */

enum sweep_kind { SWEEP_CASE, SWEEP_STEP, SWEEP_KEY };

struct sweep_name {
    char *name;           /* an option ("num-sms", "batch"), or a key of the cluster file ("nic.rate") */
    enum sweep_kind kind; /* whether it is of models/case.h, of models/step/step_options.h, or of the cluster file */
    char **value;         /* NULL-terminated */
    uint32_t count;
};

struct sweep_plan {
    struct case_options base; /* the values that all points share */
    struct step_options step; /* the step options; points are steps only if a net or timed work is given or swept */
    GPtrArray *settings;      /* char *: keys of the cluster file with one value, "nic.rate=25GB/s" */
    GArray *names;            /* struct sweep_name: the names that have several values */
    char *baseline;           /* "num-sms=24,dtype=fp8"; NULL: the first value of each name */
};

/* Fills topic[] with the options of a case and of a step, for a command line on which each of them takes a list of
 * values.  `given` keeps what the user enters (char *: name, values, name, values, ...).  sweep_entries_add() adds it
 * to the plan, and returns false and sets *error as sweep_plan_add() does. */
enum { SWEEP_TOPICS = 1 + CASE_TOPICS };
void sweep_entries_topics(struct sweep_plan *plan, GPtrArray *given, struct command_topic topic[SWEEP_TOPICS]);
bool sweep_entries_add(struct sweep_plan *plan, const GPtrArray *given, GError **error);

/* Whether a swept name describes the work (tokens, routing), so that no value of it is best. */
bool sweep_name_is_work(const char *name);

void sweep_plan_init(struct sweep_plan *plan);
void sweep_plan_clear(struct sweep_plan *plan);
/* Adds a name with its values, words or ranges (sim/ranges.h): "8,16,32", "4:33:4", "8:65:x2".  Timed work has one
 * value, because its grammar has commas.  False and *error (with the name) for an unknown name, a value that the
 * option refuses, a repeated value, or no value. */
bool sweep_plan_add(struct sweep_plan *plan, const char *name, bool key, const char *values, GError **error);
/* Completes the plan.  Puts names in order: clusters and keys in the outer loops; SMs, chunks and buffers in the inner
 * ones.  Checks the number of points and the baseline, and that options of steps come with a net or timed work. */
bool sweep_plan_settle(struct sweep_plan *plan, GError **error);

/* Whether the plan's points are steps. */
bool sweep_plan_of_steps(const struct sweep_plan *plan);
/* The swept name; NULL: it is not swept. */
const struct sweep_name *sweep_plan_find(const struct sweep_plan *plan, const char *name);
uint64_t sweep_plan_points(const struct sweep_plan *plan);
/* The value of a name at a point. */
const char *sweep_plan_value(const struct sweep_plan *plan, uint64_t point, uint32_t name);
/* The values that speedups are relative to: "num-sms=24,dtype=fp8".  A point is compared with the point that has these
 * values and shares all others.  If the user gives no baseline, it is the first value of each setting.  Work is no
 * setting, because a difference in work is no gain.  "" if no setting is swept.  Freed by the caller. */
char *sweep_plan_baseline(const struct sweep_plan *plan);
/* Sets *c to the case of a point. */
void sweep_plan_case(const struct sweep_plan *plan, uint64_t point, struct case_options *c);
/* Sets *o to the step options of a point. */
void sweep_plan_step(const struct sweep_plan *plan, uint64_t point, struct step_options *o);
/* The digests of all points' inputs, each as "cluster h800-cx7 0123456789abcdef".  Inputs are clusters, with the
 * keys that all points share (points state swept keys), and the files that options name.  The digest of a cluster
 * that cannot be read is "unreadable".  Free with g_strfreev(). */
char **sweep_plan_inputs(const struct sweep_plan *plan);
/* A cluster is a file and its keys.  These functions return the number of a point's cluster, how many clusters there
 * are, and the cluster with a number. */
uint32_t sweep_plan_cluster_index(const struct sweep_plan *plan, uint64_t point);
uint32_t sweep_plan_clusters(const struct sweep_plan *plan);
struct cluster *sweep_plan_cluster(const struct sweep_plan *plan, uint32_t index, GError **error);

/* ---- the results ---- */

struct sweep_results *sweep_results_new(const struct sweep_plan *plan);
/* Reads a file and adds its complete points that `results` lacks.  A file that does not exist adds nothing.  False and
 * *error if the file is of another sweep, or of no sweep. */
bool sweep_results_add_file(struct sweep_results *results, const char *path, GError **error);
/* Reads the complete points of a file.  NULL and *error on failure. */
struct sweep_results *sweep_results_read(const char *path, GError **error);
/* Whether `results` has the point's rows. */
bool sweep_results_have(const struct sweep_results *results, const struct sweep_plan *plan, uint64_t point);
/* Numbers the points by the plan (NULL: keeps their numbers), sorts them, computes speedups against the baseline, and
 * writes the file. */
bool sweep_results_write(struct sweep_results *results, const struct sweep_plan *plan, const char *path,
                         GError **error);
/* The columns of a file from "phase" on, NULL-terminated: of kernels, or of steps. */
const char *const *sweep_metric_columns(bool of_steps);

/* ---- running ---- */

struct sweep_run_options {
    const char *path; /* the results file */
    uint32_t jobs;
    uint32_t shard, shards;    /* runs the points with number % shards == shard */
    const char *const *phases; /* phases after these are not simulated; NULL: all phases are simulated */
    bool quiet;
};
/* Runs the points that `results` lacks, adds them, and writes the file, sorted.  An impossible point has a problem in
 * its row.  False and *error if files fail.  SWEEP_ERROR_BUSY: another process is running the points into this file. */
bool sweep_run(const struct sweep_plan *plan, const struct sweep_run_options *options, struct sweep_results *results,
               GError **error);
/* Runs those of `points` (uint64_t) that `results` lacks, and adds them.  Writes no file. */
bool sweep_run_points(const struct sweep_plan *plan, const GArray *points, uint32_t jobs, struct sweep_results *results,
                      GError **error);

/* The row of a point that is a step, as text (sweep_step.c). */
char *sweep_step_text(const struct sweep_plan *plan, uint64_t point, const struct cluster *cluster, uint32_t threads);
/* Adds the cost of `count` steps like this point to `many`. */
void sweep_step_estimate(const struct sweep_plan *plan, uint64_t point, const struct cluster *cluster, uint32_t count,
                         struct estimate_many *many);
/* A line of the file: the point's number and values, then the cells, one for each column from "phase" on.  Commas and
 * quotes in a cell become ';'. */
char *sweep_line_text(const struct sweep_plan *plan, uint64_t point, const char *const *cell);
/* The line of an impossible point. */
char *sweep_problem_text(const struct sweep_plan *plan, uint64_t point, const char *problem);

/* ---- looking ---- */

/* Whether the results are of steps. */
bool sweep_results_of_steps(const struct sweep_results *results);

/* Reads what points are ranked by: a column of the results, and phases over which it adds up. */
bool sweep_goal_parse(const char *text, struct sweep_goal *goal, GError **error);
void sweep_goal_clear(struct sweep_goal *goal);

/* sweep_rank().  NULL and *error if no point has a figure. */
GArray *sweep_points_rank(const struct sweep_results *results, const struct sweep_goal *goal, GError **error);
/* A figure with five digits, or more if more stand before the decimal point.  Freed by the caller. */
char *sweep_figure_text(double figure);
/* Appends how many points are impossible, how many lack the phases that are asked for, and how many are still to be
 * run.  shown: how many points are none of these. */
void sweep_left_append(const struct sweep_results *results, guint shown, GString *out);

/* Appends at most `limit` points of sweep_rank_shown().  If SMs were swept, also appends fronts of SMs against the
 * goal: one for each combination of the names that are not settings of a launch. */
bool sweep_text_append(const struct sweep_results *results, const struct sweep_goal *goal, uint32_t limit, GString *out,
                       GError **error);
/* Appends a table that compares the values of one swept name.  It has a column for each value, with the goal's figure,
 * and a line for each combination of the other names, at most `limit` lines.  Ratios are relative to the first value.
 */
bool sweep_compare_append(const struct sweep_results *results, const struct sweep_goal *goal, const char *name,
                          uint32_t limit, GString *out, GError **error);
/* The column of a name that was swept; -1 and *error if it was not. */
int sweep_compare_column(const struct sweep_results *results, const char *name, GError **error);

#endif
