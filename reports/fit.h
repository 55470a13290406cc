/* fit.h - fits straight lines to measured times: t = fixed + n * slope, the cost of an operation plus the cost of its
 * bytes.
 *
 * The fit is robust.  It tries the lines through two of the points, and those through one point with one cost 0.  Of
 * the lines without a negative cost, it takes the one with the least sum of |log(line / measured)|.  So a message of
 * 4 us counts as much as one of 4 ms, a time that is twice too long counts as much as one that is twice too short, and
 * a few outliers change nothing.
 *
 * Knows only numbers, not records, units or cluster files. */
#ifndef REPORTS_FIT_H
#define REPORTS_FIT_H

#include <stdbool.h>
#include <stdint.h>

enum { FIT_POINTS_MAX = 256 };

struct fit_point {
    double n, t; /* n >= 0, t > 0 */
};

int fit_point_order(const void *a, const void *b); /* for qsort: by n */

struct fit_line {
    double fixed, slope;
    double error_pct_median, error_pct_worst; /* of the points, relative to the measured time */
};

/* Two lines: the first up to n = knee, the second beyond it. */
struct fit_bent {
    struct fit_line low, high;
    double knee; /* the largest n of the low line */
};

/* Finds the line.  False unless there are 2 to FIT_POINTS_MAX points, all finite, with at least two different n. */
bool fit_line_find(const struct fit_point *points, uint32_t count, struct fit_line *line);

/* Finds two lines, each for at least 3 points.  False if two lines are not clearly better than one.  They are if one
 * line has a mean error of at least 5 %, and two lines have less than half its sum of deviations. */
bool fit_bent_find(const struct fit_point *points, uint32_t count, struct fit_bent *bent);

#endif
