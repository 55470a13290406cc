/* fit_puts.c - separates the parts of the CPU time of puts: their own work, their doorbells, interrupts. */
#include "reports/fit_puts.h"

#include <math.h>
#include <stdlib.h>
#include "sim/stats.h"

/* A burst waits for its link if a put of a lone rank's stream takes longer than FIT_LINK_SLOW times the CPU time of the
 * burst's put, and longer than FIT_LINK_BUSY times its wall time (fit_puts.h: busy).  FIT_LINK_BUSY is below 1 because
 * the wall time includes what waiting costs the CPUs. */
static const double FIT_LINK_SLOW = 1.25, FIT_LINK_BUSY = 0.75;

static double fit_point_at(const struct fit_point *points, uint32_t count, double n)
{
    for (uint32_t i = 0; i < count; i++)
        if (points[i].n == n) return points[i].t;
    return NAN;
}

/* How much longer a put takes when it is posted in one way than in another, in us, for one size. */
struct fit_extra {
    double more, weight;
};

static int fit_extra_order(const void *a, const void *b)
{
    const struct fit_extra *x = a, *y = b;
    return (x->more > y->more) - (x->more < y->more);
}

/* The weighted median.  Weights fall with a put's time, because the error of a difference grows with the numbers from
 * which it is computed. */
static double fit_extra_median(struct fit_extra *extra, uint32_t count)
{
    double all = 0, passed = 0;
    uint32_t i = 0;
    for (uint32_t k = 0; k < count; k++) all += extra[k].weight;
    qsort(extra, count, sizeof *extra, fit_extra_order);
    while (i + 1 < count && passed + extra[i].weight < all / 2) passed += extra[i++].weight;
    return extra[i].more;
}

/* Only one put of a chain rings a doorbell, so that n puts save n - 1 doorbells. */
double fit_puts_doorbell(const struct fit_puts *puts)
{
    struct fit_extra extra[FIT_POINTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < puts->burst_count; i++) {
        const struct fit_point *burst = &puts->burst[i];
        const double chained = fit_point_at(puts->chained, puts->chained_count, burst->n);
        if (isnan(chained) || !(burst->t > 0)) continue;
        extra[count++] = (struct fit_extra){ (burst->t - chained) * puts->chain / (puts->chain - 1), 1 / burst->t };
    }
    return count ? fmax(fit_extra_median(extra, count), 0) : 0;
}

/* Whether the i-th burst waited for the link.  If so, its puts came one by one, and each took an interrupt. */
static bool fit_put_waits(const struct fit_puts *puts, uint32_t i)
{
    double size_bytes[FIT_POINTS_MAX], us[FIT_POINTS_MAX];
    if (!puts->stream_count) return false;
    for (uint32_t k = 0; k < puts->stream_count; k++) {
        size_bytes[k] = puts->stream[k].n;
        us[k] = puts->stream[k].t;
    }
    const double stream = stats_interpolate(size_bytes, us, puts->stream_count, puts->burst[i].n);
    return stream > fmax(FIT_LINK_SLOW, FIT_LINK_BUSY * puts->busy) * puts->burst[i].t;
}

/* Sets extra[] to the cost of a single put beyond that of a put in a burst without its doorbell.  Counts only sizes
 * whose burst waited for the link (`waited`), or only sizes whose burst did not.  Returns the number of these sizes. */
static uint32_t fit_extras(const struct fit_puts *puts, double doorbell, bool waited, struct fit_extra *extra)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < puts->burst_count; i++) {
        const struct fit_point *burst = &puts->burst[i];
        const double alone = fit_point_at(puts->alone, puts->alone_count, burst->n);
        if (isnan(alone) || !(burst->t > 0) || fit_put_waits(puts, i) != waited) continue;
        extra[count++] = (struct fit_extra){ alone - (burst->t - doorbell), 1 / burst->t };
    }
    return count;
}

double fit_puts_interrupt(const struct fit_puts *puts, double doorbell, uint32_t *count)
{
    struct fit_extra extra[FIT_POINTS_MAX];
    *count = fit_extras(puts, doorbell, false, extra);
    if (!*count) *count = fit_extras(puts, doorbell, true, extra);
    return *count ? fmax(fit_extra_median(extra, *count), 0) : 0;
}

/* Makes costs never fall as sizes grow.  If a size costs less than the one before, both get their mean.  This goes on
 * until no cost falls. */
static void fit_points_level(struct fit_point *points, uint32_t count)
{
    uint32_t start[FIT_POINTS_MAX], runs = 0; /* start: the first index of each run of equal values */
    for (uint32_t i = 0; i < count; i++) {
        start[runs++] = i;
        while (runs > 1 && points[start[runs - 2]].t > points[start[runs - 1]].t) {
            const uint32_t first = start[runs - 2], second = start[runs - 1];
            const double mean =
                (points[first].t * (second - first) + points[second].t * (i + 1 - second)) / (i + 1 - first);
            for (uint32_t k = first; k <= i; k++) points[k].t = mean;
            runs--;
        }
    }
}

bool fit_puts_curve(const struct fit_puts *puts, double doorbell, double interrupt, double share,
                    struct fit_curve *curve, uint32_t *waited)
{
    struct fit_point bare[FIT_POINTS_MAX];
    *waited = 0;
    for (uint32_t i = 0; i < puts->burst_count; i++) {
        const bool waits = fit_put_waits(puts, i);
        *waited += waits;
        const double less = doorbell + (waits ? interrupt : 0);
        bare[i] = (struct fit_point){ puts->burst[i].n, fmax(puts->burst[i].t - less, 0) };
    }
    qsort(bare, puts->burst_count, sizeof *bare, fit_point_order);
    fit_points_level(bare, puts->burst_count);
    curve->count = 0;
    for (uint32_t i = 0; i < puts->burst_count && curve->count < FIT_CURVE_MAX; i++) {
        if (i && bare[i].n == bare[i - 1].n) continue;
        curve->size_bytes[curve->count] = bare[i].n;
        curve->us[curve->count++] = bare[i].t * share;
    }
    return curve->count > 0;
}
