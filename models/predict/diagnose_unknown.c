/* diagnose_unknown.c - how likely the rows are if the reason is none of the causes that diagnose knows.
 *
 * A mark is the change that a reason makes to the rows' times.  The mark of an unknown reason has one of four kinds,
 * which are equally likely before the rows are read:
 *
 *   a factor   all times are longer by one factor
 *   factors    each time is longer by a factor of its own.  So this is likelier than a known cause whose residuals
 *              exceed the rows' noise
 *   a time     all times are longer by one constant: a latency, a wait, a launch.  The ln of this constant is uniform
 *              from 1 us to 10 ms
 *   a relative the reason resembles a known cause.  Its mark is as far from that cause's mark as the nearest mark of
 *              another cause is.  Where the rows hardly tell known causes apart, they do not tell an unknown one apart
 *              either */
#include "models/predict/diagnose.h"

#include <math.h>
#include "models/predict/diagnose_rank.h"

enum { FORMS = 4, TIMES = 28 };
#define TIME_LEAST_US 1.0
#define EFFECT_LEAST  0.02 /* a hypothesis that changes no row by more has no mark */

static double time_density(const struct validate_table *table, const struct rank_rows *rows, bool baseline)
{
    g_autofree double *residual = g_new(double, rows->count + 1);
    double sum = -INFINITY, us = TIME_LEAST_US;
    for (int t = 0; t < TIMES; t++, us *= M_SQRT2) {
        for (uint32_t i = 0; i < rows->count; i++) {
            const bool time = !rows->waits || !rows->waits[i];
            residual[i] = rows->before[i] - (time ? log1p(us / table->row[i].predicted_us) : 0);
        }
        const struct rank_rows later = { residual, rows->before, rows->waits, rows->count };
        sum = rank_ln_add(sum, rank_cause_density(&later, baseline));
    }
    return sum - log(TIMES);
}

/* The root mean square of the difference between two marks. */
static double mark_distance(const double *a, const double *b, const struct rank_rows *rows)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        if (isnan(rows->before[i])) continue;
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        n++;
    }
    return sqrt(sum / MAX(n, 1u));
}

static bool marks(const struct hypothesis *h, const struct rank_rows *rows)
{
    bool changes = false;
    for (uint32_t i = 0; i < rows->count && !h->fails; i++)
        changes |= !isnan(rows->before[i]) && fabs(rows->before[i] - h->residual[i]) > EFFECT_LEAST;
    return changes;
}

/* How far mark k is from the nearest mark of another cause. */
static double mark_apart(const struct hypothesis *const *mark, uint32_t count, uint32_t k, const struct rank_rows *rows)
{
    double nearest = INFINITY;
    for (uint32_t j = 0; j < count; j++)
        if (mark[j]->cause != mark[k]->cause)
            nearest = fmin(nearest, mark_distance(mark[k]->residual, mark[j]->residual, rows));
    return nearest;
}

static double relative_density(const struct hypothesis *h, uint32_t count, const struct rank_rows *rows, bool baseline)
{
    g_autofree const struct hypothesis **mark = g_new(const struct hypothesis *, count + 1);
    uint32_t n = 0;
    double sum = -INFINITY;
    for (uint32_t k = 0; k < count; k++)
        if (marks(&h[k], rows)) mark[n++] = &h[k];
    for (uint32_t k = 0; k < n; k++) {
        const struct rank_rows near = { mark[k]->residual, rows->before, rows->waits, rows->count };
        const double apart = mark_apart(mark, n, k, rows);
        if (isfinite(apart)) sum = rank_ln_add(sum, rank_near_density(&near, baseline, apart));
    }
    return sum - log(MAX(n, 1u));
}

double diagnose_unknown_density(const struct validate_table *table, const struct rank_rows *rows,
                                const struct hypothesis *h, uint32_t count, bool baseline)
{
    const double factor = rank_ln_add(rank_factor_density(rows, false), rank_factor_density(rows, true)),
                 time = time_density(table, rows, baseline), relative = relative_density(h, count, rows, baseline);
    return rank_ln_add(rank_ln_add(factor, time), relative) - log(FORMS);
}
