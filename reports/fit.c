/* fit.c - fits lines whose sum of |log(line / measured)| is least.  It tries every line through two of the points.  It
 * also tries every line through one point with fixed = 0 or slope = 0, because no cost may be negative.  There are only
 * a few points, so that this takes little time. */
#include "reports/fit.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/stats.h"

static double fit_cost(const struct fit_point *points, uint32_t count, double fixed, double slope)
{
    double cost = 0;
    for (uint32_t i = 0; i < count; i++) cost += fabs(log((fixed + slope * points[i].n) / points[i].t));
    return cost;
}

/* Tries the line fixed + n * slope.  If neither number is negative, and the line's sum of deviations is less than
 * *cost, sets *line to this line and *cost to this sum. */
static void fit_try(const struct fit_point *points, uint32_t count, double fixed, double slope, double *cost,
                    struct fit_line *line)
{
    if (!(fixed >= 0) || !(slope >= 0)) return;
    const double candidate = fit_cost(points, count, fixed, slope);
    if (!(candidate < *cost)) return;
    *cost = candidate;
    line->fixed = fixed;
    line->slope = slope;
}

static bool fit_points_check(const struct fit_point *points, uint32_t count)
{
    bool different = false;
    if (count < 2 || count > FIT_POINTS_MAX) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!(points[i].n >= 0) || !isfinite(points[i].n) || !(points[i].t > 0) || !isfinite(points[i].t)) return false;
        different |= points[i].n != points[0].n;
    }
    return different;
}

static void fit_errors_find(const struct fit_point *points, uint32_t count, struct fit_line *line)
{
    double error_pct[FIT_POINTS_MAX];
    for (uint32_t i = 0; i < count; i++)
        error_pct[i] = fabs(line->fixed + line->slope * points[i].n - points[i].t) / points[i].t * 100.0;
    line->error_pct_median = stats_median(error_pct, count);
    line->error_pct_worst = stats_max(error_pct, count);
}

bool fit_line_find(const struct fit_point *points, uint32_t count, struct fit_line *line)
{
    if (!fit_points_check(points, count)) return false;
    double cost = INFINITY;
    struct fit_line best = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        const struct fit_point *a = &points[i];
        fit_try(points, count, a->t, 0, &cost, &best);                      /* slope may not be less than 0 */
        if (a->n > 0) fit_try(points, count, 0, a->t / a->n, &cost, &best); /* fixed may not be less than 0 */
        for (uint32_t k = i + 1; k < count; k++) {
            const struct fit_point *b = &points[k];
            if (a->n == b->n) continue;
            const double slope = (b->t - a->t) / (b->n - a->n);
            fit_try(points, count, a->t - slope * a->n, slope, &cost, &best);
        }
    }
    assert(isfinite(cost));
    fit_errors_find(points, count, &best);
    *line = best;
    return true;
}

int fit_point_order(const void *a, const void *b)
{
    const struct fit_point *x = a, *y = b;
    return x->n < y->n ? -1 : x->n > y->n;
}

bool fit_bent_find(const struct fit_point *points, uint32_t count, struct fit_bent *bent)
{
    enum { PART_MIN = 3 };
    struct fit_line whole;
    if (count < 2 * PART_MIN || !fit_line_find(points, count, &whole)) return false;
    const double whole_cost = fit_cost(points, count, whole.fixed, whole.slope);
    if (whole_cost / count < 0.05) return false;
    struct fit_point sorted[FIT_POINTS_MAX];
    memcpy(sorted, points, count * sizeof *points);
    qsort(sorted, count, sizeof *sorted, fit_point_order);
    double cost = whole_cost / 2;
    bool found = false;
    for (uint32_t k = PART_MIN; k + PART_MIN <= count; k++) {
        struct fit_line low, high;
        if (sorted[k - 1].n == sorted[k].n) continue;
        if (!fit_line_find(sorted, k, &low) || !fit_line_find(sorted + k, count - k, &high)) continue;
        const double both =
            fit_cost(sorted, k, low.fixed, low.slope) + fit_cost(sorted + k, count - k, high.fixed, high.slope);
        if (both >= cost) continue;
        cost = both;
        found = true;
        *bent = (struct fit_bent){ low, high, sorted[k - 1].n };
    }
    return found;
}
