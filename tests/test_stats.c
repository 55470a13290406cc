/* test_stats.c - statistics against values worked out by hand, numpy's definition of percentiles, the
 * definition of Gini over all pairs, and the edges: nothing, one value, all equal, one has all, cancellation,
 * infinity. */
#include "sim/rng.h"
#include "sim/stats.h"
#include "tests/unit.h"

#include <math.h>

#define CLOSE(a, b) CU_ASSERT_DOUBLE_EQUAL(a, b, 1e-12)

TEST("small sets by hand")
{
    const double values[] = { 4, 1, 3, 2 };
    CLOSE(stats_sum(values, 4), 10);
    CLOSE(stats_mean(values, 4), 2.5);
    CLOSE(stats_median(values, 4), 2.5);
    CLOSE(stats_median(values, 3), 3);
    CLOSE(stats_min(values, 4), 1);
    CLOSE(stats_max(values, 4), 4);
    CLOSE(stats_gini(values, 4), 0.25);
    CLOSE(stats_entropy_bits(values, 4), 1.8464393446710154);
    CLOSE(stats_imbalance(values, 4), 1.6);
    CU_ASSERT(values[0] == 4 && values[1] == 1 && values[2] == 3 && values[3] == 2);
}

TEST("percentiles are numpy's")
{
    const double values[] = { 15, 20, 35, 40, 50, 7 }; /* numpy.percentile(values, p) */
    CLOSE(stats_percentile(values, 6, 0), 7);
    CLOSE(stats_percentile(values, 6, 10), 11);
    CLOSE(stats_percentile(values, 6, 25), 16.25);
    CLOSE(stats_percentile(values, 6, 40), 20);
    CLOSE(stats_percentile(values, 6, 90), 45);
    CLOSE(stats_percentile(values, 6, 99), 49.5);
    CLOSE(stats_percentile(values, 6, 100), 50);
    CLOSE(stats_percentile(values, 1, 73), 15);
}

TEST("shares at their ends")
{
    const double equal[] = { 3, 3, 3, 3, 3, 3, 3, 3 }, one[] = { 0, 0, 0, 0, 9, 0, 0, 0 };
    CLOSE(stats_gini(equal, 8), 0);
    CLOSE(stats_gini(one, 8), 1 - 1.0 / 8);
    CLOSE(stats_entropy_bits(equal, 8), 3);
    CLOSE(stats_entropy_bits(one, 8), 0);
    CLOSE(stats_imbalance(equal, 8), 1);
    CLOSE(stats_imbalance(one, 8), 8);
}

TEST("gini is that of all pairs")
{
    double values[100], differences = 0;
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < 100; i++) values[i] = (double)rng_below(&rng, 50) * rng_uniform(&rng);
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 100; k++) differences += fabs(values[i] - values[k]);
    CLOSE(stats_gini(values, 100), differences / (100.0 * 100.0) / (2 * stats_mean(values, 100)));
}

TEST("nothing and zero")
{
    const double zeros[] = { 0, 0 };
    CU_ASSERT(stats_sum(NULL, 0) == 0);
    CU_ASSERT(isnan(stats_mean(NULL, 0)));
    CU_ASSERT(isnan(stats_min(NULL, 0)));
    CU_ASSERT(isnan(stats_max(NULL, 0)));
    CU_ASSERT(isnan(stats_median(NULL, 0)));
    CU_ASSERT(isnan(stats_gini(NULL, 0)));
    CU_ASSERT(isnan(stats_gini(zeros, 2)));
    CU_ASSERT(isnan(stats_entropy_bits(zeros, 2)));
    CU_ASSERT(isnan(stats_imbalance(zeros, 2)));
    CU_ASSERT(stats_mean(zeros, 2) == 0);
}

TEST("large and small do not cancel")
{
    const double values[] = { 1, 1e100, 1, -1e100 }, ends[] = { -INFINITY, INFINITY, INFINITY };
    CU_ASSERT(stats_sum(values, 4) == 2);
    CU_ASSERT(stats_sum(ends + 1, 2) == INFINITY);
    CU_ASSERT(stats_percentile(ends, 3, 80) == INFINITY);
    CU_ASSERT(stats_percentile(ends, 3, 50) == INFINITY);
    CU_ASSERT(stats_percentile(ends, 3, 0) == -INFINITY);
}

TEST("between points and beyond")
{
    const double xs[] = { 10, 20, 40 }, ys[] = { 5, 6, 10 };
    CLOSE(stats_interpolate(xs, ys, 3, 0), 5);
    CLOSE(stats_interpolate(xs, ys, 3, 10), 5);
    CLOSE(stats_interpolate(xs, ys, 3, 15), 5.5);
    CLOSE(stats_interpolate(xs, ys, 3, 20), 6);
    CLOSE(stats_interpolate(xs, ys, 3, 25), 7);
    CLOSE(stats_interpolate(xs, ys, 3, 40), 10);
    CLOSE(stats_interpolate(xs, ys, 3, 100), 22);
    CLOSE(stats_interpolate(xs, ys, 1, 100), 5);
}
