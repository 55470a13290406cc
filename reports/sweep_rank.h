/* sweep_rank.h - the points of a sweep by a figure, the best first, and the best of them for each combination of work,
 * because points of different work cannot be compared. */
#ifndef REPORTS_SWEEP_RANK_H
#define REPORTS_SWEEP_RANK_H

#include "reports/sweep_results.h"

/* What points are ranked by: phases and a metric, such as "combine.time_us" or "dispatch+combine.slowest_us". */
struct sweep_goal {
    char **phase;
    char *metric;
    bool more_is_better;
};

/* A point with its figure. */
struct sweep_ranked {
    char *const *row; /* the point's row for the longest of the goal's phases */
    double value;     /* the figure, negated if more is better, so that less is always better */
    double speedup;   /* how many times faster than its baseline the point ends the goal's phases; NAN: it has none */
    uint64_t number;
};

/* All points that have a figure (struct sweep_ranked), the best first. */
GArray *sweep_rank(const struct sweep_results *results, const struct sweep_goal *goal);
/* Those that a table shows.  If no work was swept, they are all, the best first.  If work and settings were swept, they
 * are the best point of each combination of work.  If only work was swept, they are all, in the order of the plan. */
GArray *sweep_rank_shown(const struct sweep_results *results, const GArray *ranked);
/* Sorts points by their number in the plan. */
gint sweep_number_order(gconstpointer a, gconstpointer b);

/* Whether a swept name is a setting of a launch (SMs, chunks, buffers). */
bool sweep_name_is_launch(const char *name);
/* The swept names that describe work (tokens, routing), as the file says, or those that do not: "num-ranks,
 * num-tokens".  "": there are none.  Freed by the caller. */
char *sweep_names_text(const struct sweep_results *results, bool work);
/* The row's values of some names, "num-tokens 64, dtype fp8".  Freed by the caller. */
char *sweep_values_text(const struct sweep_results *results, char *const *row, const bool *of);

#endif
