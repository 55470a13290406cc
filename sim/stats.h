/* stats.h - descriptive statistics of doubles: eptwin's one definition of each.
 *
 * Values may come in any order, are not changed, and must not be NaN (functions that sort assert this).  count == 0
 * gives NAN, because there is no mean of nothing.  It needs only libc and libm. */
#ifndef SIM_STATS_H
#define SIM_STATS_H

#include <stddef.h>

double stats_sum(const double *values, size_t count); /* compensated (Neumaier); 0 for no values */
double stats_mean(const double *values, size_t count);
double stats_min(const double *values, size_t count);
double stats_max(const double *values, size_t count);

/* Linear between the two values around rank (count - 1) * percent / 100 of the sorted values, like numpy's default.
 * percent is in [0, 100]; 50 gives the median. */
double stats_percentile(const double *values, size_t count, double percent);
double stats_median(const double *values, size_t count);

/* The value at x of the line through the points (xs[i], ys[i]), with xs rising.  It is straight between the points and
 * constant before the first.  After the last it continues the line through the last two.  count >= 1. */
double stats_interpolate(const double *xs, const double *ys, size_t count, double x);

/* How unequally values (>= 0, such as loads of experts or ranks) share their sum; NAN if the sum is 0.
 *
 * Gini: mean absolute difference of all pairs, divided by twice the mean, from 0 (all equal) to 1 - 1/count (one has
 * all).  Entropy: -sum p log2 p of the shares p, in bits, from 0 (one has all) to log2(count) (all equal).  Imbalance:
 * maximum divided by mean, from 1 (all equal) to count (one has all). */
double stats_gini(const double *values, size_t count);
double stats_entropy_bits(const double *values, size_t count);
double stats_imbalance(const double *values, size_t count);

#endif
