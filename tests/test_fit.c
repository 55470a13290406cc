/* test_fit.c - lines through measured times.
 *
 * Aim: planted costs are found again, exactly without noise, closely with it, and in spite of outliers; a bend is
 * found where it is and only when there is one; nothing negative comes out.  Method: random planted lines over
 * the sizes that a measurement uses; the result is also held against a fine search around it, which must not find
 * a better line. */
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <math.h>

#include "reports/fit.h"
#include "sim/rng.h"

enum { SIZES = 20 };

/* 8 B to 4 MB. */
static void points_plant(struct fit_point *points, double fixed, double slope, double noise, struct rng *rng)
{
    for (int i = 0; i < SIZES; i++) {
        points[i].n = 8.0 * (double)(1u << i);
        points[i].t = (fixed + slope * points[i].n) * (1 + noise * (2 * rng_uniform(rng) - 1));
    }
}

static bool close_to(double value, double expected, double percent)
{
    return fabs(value - expected) <= fabs(expected) * percent / 100;
}

static void test_exact(void)
{
    struct rng rng;
    rng_seed(&rng, 5);
    for (int run = 0; run < 100; run++) {
        struct fit_point points[SIZES];
        struct fit_line line;
        const double fixed = pow(10, 2 * rng_uniform(&rng) - 1), slope = pow(10, -3 - 3 * rng_uniform(&rng));
        points_plant(points, fixed, slope, 0, &rng);
        CU_ASSERT_TRUE_FATAL(fit_line_find(points, SIZES, &line));
        CU_ASSERT_TRUE(close_to(line.fixed, fixed, 1e-6));
        CU_ASSERT_TRUE(close_to(line.slope, slope, 1e-6));
        CU_ASSERT_TRUE(line.error_pct_worst < 1e-6);
    }
}

/* A fifth of the points are off by factors of 2 to 10: the others still decide. */
static void test_noise_and_outliers(void)
{
    struct rng rng;
    rng_seed(&rng, 6);
    for (int run = 0; run < 100; run++) {
        struct fit_point points[SIZES];
        struct fit_line line;
        points_plant(points, 3, 1e-4, 0.02, &rng);
        for (int k = 0; k < SIZES / 5; k++) points[rng_below(&rng, SIZES)].t *= 2 + 8 * rng_uniform(&rng);
        CU_ASSERT_TRUE_FATAL(fit_line_find(points, SIZES, &line));
        CU_ASSERT_TRUE(close_to(line.fixed, 3, 4));
        CU_ASSERT_TRUE(close_to(line.slope, 1e-4, 4));
        CU_ASSERT_TRUE(line.error_pct_median < 4);
    }
}

static double cost_of(const struct fit_point *points, int count, double fixed, double slope)
{
    double cost = 0;
    for (int i = 0; i < count; i++) cost += fabs(fixed + slope * points[i].n - points[i].t) / points[i].t;
    return cost;
}

/* No line nearby is better, also where the points are nothing like a line. */
static void test_best(void)
{
    struct rng rng;
    rng_seed(&rng, 7);
    for (int run = 0; run < 50; run++) {
        struct fit_point points[12];
        struct fit_line line;
        for (int i = 0; i < 12; i++) points[i] = (struct fit_point){ rng_uniform(&rng) * 100, 1 + 50 * rng_uniform(&rng) };
        CU_ASSERT_TRUE_FATAL(fit_line_find(points, 12, &line));
        CU_ASSERT_TRUE(line.fixed >= 0 && line.slope >= 0);
        const double best = cost_of(points, 12, line.fixed, line.slope);
        for (int a = -20; a <= 20; a++)
            for (int b = -20; b <= 20; b++) {
                const double fixed = line.fixed + a * 0.5, slope = line.slope + b * 0.01;
                if (fixed >= 0 && slope >= 0) CU_ASSERT_TRUE(cost_of(points, 12, fixed, slope) >= best - 1e-9);
            }
    }
}

static void test_bounds(void)
{
    static const struct fit_point falling[] = { { 1, 9 }, { 2, 8 }, { 3, 7 }, { 4, 6 } };
    static const struct fit_point steep[] = { { 10, 1 }, { 20, 5 }, { 30, 9 }, { 40, 13 } };
    struct fit_line line;
    CU_ASSERT_TRUE(fit_line_find(falling, 4, &line));
    CU_ASSERT_EQUAL(line.slope, 0);
    CU_ASSERT_TRUE(line.fixed >= 6 && line.fixed <= 9);
    CU_ASSERT_TRUE(fit_line_find(steep, 4, &line));
    CU_ASSERT_EQUAL(line.fixed, 0);
    CU_ASSERT_TRUE(line.slope > 0);
}

static void test_refusals(void)
{
    static const struct fit_point one[] = { { 1, 1 } }, same[] = { { 1, 1 }, { 1, 2 } }, zero[] = { { 1, 0 }, { 2, 1 } };
    const struct fit_point unknown[] = { { 1, NAN }, { 2, 1 } }, negative[] = { { -1, 1 }, { 2, 1 } };
    struct fit_line line;
    CU_ASSERT_FALSE(fit_line_find(one, 1, &line));
    CU_ASSERT_FALSE(fit_line_find(same, 2, &line));
    CU_ASSERT_FALSE(fit_line_find(zero, 2, &line));
    CU_ASSERT_FALSE(fit_line_find(unknown, 2, &line));
    CU_ASSERT_FALSE(fit_line_find(negative, 2, &line));
}

static void test_bent(void)
{
    struct rng rng;
    rng_seed(&rng, 8);
    for (int run = 0; run < 50; run++) {
        struct fit_point points[SIZES];
        struct fit_bent bent;
        points_plant(points, 2, 1e-4, 0.02, &rng);
        CU_ASSERT_FALSE(fit_bent_find(points, SIZES, &bent));           /* straight, with noise */
        const double knee = points[11].n;
        for (int i = 12; i < SIZES; i++)
            points[i].t = (40 + 5e-5 * points[i].n) * (1 + 0.02 * rng_uniform(&rng));
        CU_ASSERT_TRUE_FATAL(fit_bent_find(points, SIZES, &bent));
        CU_ASSERT_EQUAL(bent.knee, knee);
        CU_ASSERT_TRUE(close_to(bent.low.fixed, 2, 4));
        CU_ASSERT_TRUE(close_to(bent.high.slope, 5e-5, 5));
        CU_ASSERT_FALSE(fit_bent_find(points, 5, &bent));
    }
}

int main(void)
{
    if (CU_initialize_registry() != CUE_SUCCESS) return 1;
    CU_pSuite suite = CU_add_suite("fit", NULL, NULL);
    CU_add_test(suite, "planted lines", test_exact);
    CU_add_test(suite, "noise and outliers", test_noise_and_outliers);
    CU_add_test(suite, "no better line", test_best);
    CU_add_test(suite, "no negative cost", test_bounds);
    CU_add_test(suite, "refusals", test_refusals);
    CU_add_test(suite, "bends", test_bent);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    const bool failed = CU_get_number_of_failures() > 0 || CU_get_error() != CUE_SUCCESS;
    CU_cleanup_registry();
    return failed;
}
