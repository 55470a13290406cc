/* stats.c - the formulas of stats.h. */
#include "sim/stats.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"

/* Neumaier's sum: the rounding error of each addition is kept, and added at the end. */
struct accumulator {
    double sum, lost;
};

static void accumulate(struct accumulator *total, double value)
{
    const double sum = total->sum + value;
    if (isfinite(sum))
        total->lost += fabs(total->sum) >= fabs(value) ? (total->sum - sum) + value : (value - sum) + total->sum;
    total->sum = sum;
}

double stats_sum(const double *values, size_t count)
{
    struct accumulator total = { 0.0, 0.0 };
    for (size_t i = 0; i < count; i++) accumulate(&total, values[i]);
    return total.sum + total.lost;
}

double stats_mean(const double *values, size_t count) { return count ? stats_sum(values, count) / (double)count : NAN; }

double stats_min(const double *values, size_t count)
{
    double least = count ? values[0] : NAN;
    for (size_t i = 1; i < count; i++) least = values[i] < least ? values[i] : least;
    return least;
}

double stats_max(const double *values, size_t count)
{
    double most = count ? values[0] : NAN;
    for (size_t i = 1; i < count; i++) most = values[i] > most ? values[i] : most;
    return most;
}

static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    assert(!isnan(x) && !isnan(y));
    return (x > y) - (x < y);
}

/* A sorted copy of values (count > 0), to be freed. */
static double *sorted_copy(const double *values, size_t count)
{
    double *const sorted = memory_grow(NULL, count, sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_values);
    return sorted;
}

double stats_percentile(const double *values, size_t count, double percent)
{
    assert(percent >= 0.0 && percent <= 100.0);
    if (count == 0) return NAN;
    double *const sorted = sorted_copy(values, count);
    const double rank = (double)(count - 1) * (percent / 100.0);
    const size_t below = (size_t)rank;
    const size_t above = below + 1 < count ? below + 1 : below;
    const double share = rank - (double)below;
    /* Equal values are not interpolated, because the difference of equal infinities is NaN.  Nor are values at a whole
     * rank, which are exact. */
    const double value = share > 0.0 && sorted[below] < sorted[above]
                             ? sorted[below] * (1.0 - share) + sorted[above] * share
                             : sorted[below];
    free(sorted);
    return value;
}

double stats_median(const double *values, size_t count) { return stats_percentile(values, count, 50.0); }

double stats_interpolate(const double *xs, const double *ys, size_t count, double x)
{
    size_t i = 1;
    assert(count > 0);
    if (count == 1 || x <= xs[0]) return ys[0];
    while (i + 1 < count && x > xs[i]) i++;
    return ys[i - 1] + (ys[i] - ys[i - 1]) * (x - xs[i - 1]) / (xs[i] - xs[i - 1]);
}

/* For sorted values x_1 ... x_n: the sum of (2 i - n - 1) x_i, divided by n and by the sum of x_i. */
double stats_gini(const double *values, size_t count)
{
    const double sum = stats_sum(values, count);
    struct accumulator weighted = { 0.0, 0.0 };
    if (!(sum > 0.0)) return NAN;
    double *const sorted = sorted_copy(values, count);
    assert(sorted[0] >= 0.0);
    for (size_t i = 0; i < count; i++) accumulate(&weighted, (2.0 * (double)i + 1.0 - (double)count) * sorted[i]);
    free(sorted);
    return (weighted.sum + weighted.lost) / ((double)count * sum);
}

double stats_entropy_bits(const double *values, size_t count)
{
    const double sum = stats_sum(values, count);
    struct accumulator bits = { 0.0, 0.0 };
    if (!(sum > 0.0)) return NAN;
    for (size_t i = 0; i < count; i++) {
        assert(values[i] >= 0.0);
        if (values[i] > 0.0) accumulate(&bits, values[i] / sum * log2(sum / values[i]));
    }
    return bits.sum + bits.lost;
}

double stats_imbalance(const double *values, size_t count)
{
    const double mean = stats_mean(values, count);
    return mean > 0.0 ? stats_max(values, count) / mean : NAN;
}
