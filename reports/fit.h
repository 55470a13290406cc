/* fit.h - straight lines through measured times: t = fixed + n * slope, as parts have them (a cost of each
 * operation and one of each byte).
 *
 * Robust: of the lines through two of the points (or one, where a cost would be negative) the one with the least sum
 * of |log(line / measured)|, so that a 4 us message counts as much as a 4 ms one, twice too long as much as twice too
 * short, and a minority of outliers moves nothing.  Neither fixed nor slope is ever negative.
 * Numbers only: knows no records, units or cluster files. */
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

/* Two lines that take turns: the first up to n = knee, the second from there on. */
struct fit_bent {
    struct fit_line low, high;
    double knee; /* the largest n of the low line */
};

/* False unless there are 2 to FIT_POINTS_MAX points with at least two different n, all of them finite. */
bool fit_line_find(const struct fit_point *points, uint32_t count, struct fit_line *line);

/* False when there are fewer than 6 points, or when two lines are not clearly better than one: they must at
 * least halve the sum, and one line must be off by more than 5 % in the mean. */
bool fit_bent_find(const struct fit_point *points, uint32_t count, struct fit_bent *bent);

#endif
