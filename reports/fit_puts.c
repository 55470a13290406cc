/* fit_puts.c - separates what puts take: their own work, their doorbells, interrupts. */
#include "reports/fit_puts.h"

#include <math.h>
#include <stdlib.h>

static const double FIT_CROWD_WAITS = 1.25;     /* a burst waits for the link that takes so many times what CPUs need */

static double fit_point_at(const struct fit_point *points, uint32_t count, double n)
{
    for (uint32_t i = 0; i < count; i++)
        if (points[i].n == n) return points[i].t;
    return NAN;
}

struct fit_extra { double more, weight; };

static int fit_extra_order(const void *a, const void *b)
{
    const struct fit_extra *x = a, *y = b;
    return (x->more > y->more) - (x->more < y->more);
}

/* The median by weight: errors of a difference are as large as what it is taken from. */
static double fit_extra_median(struct fit_extra *extra, uint32_t count)
{
    double all = 0, passed = 0;
    uint32_t i = 0;
    for (uint32_t k = 0; k < count; k++) all += extra[k].weight;
    qsort(extra, count, sizeof *extra, fit_extra_order);
    while (i + 1 < count && passed + extra[i].weight < all / 2) passed += extra[i++].weight;
    return extra[i].more;
}

/* What the i-th put of a burst takes without its doorbell, behind another's: of a chain all but one are such, and they
 * save the difference. */
static double fit_put_bare(const struct fit_puts *puts, uint32_t i)
{
    const struct fit_point *burst = &puts->burst[i];
    const double chained = fit_point_at(puts->chained, puts->chained_count, burst->n);
    return isnan(chained) || chained > burst->t ? burst->t
                                                : fmax(chained - (burst->t - chained) / (puts->chain - 1), 0);
}

/* Whether the i-th burst waited for the link: then its puts came one by one, and each took an interrupt. */
static bool fit_put_waits(const struct fit_puts *puts, uint32_t i)
{
    const double stream = fit_point_at(puts->stream, puts->stream_count, puts->burst[i].n);
    return stream > FIT_CROWD_WAITS * puts->busy * puts->burst[i].t;
}

/* By how much puts alone are dearer than those of bursts that waited as asked; how many there are. */
static uint32_t fit_extras(const struct fit_puts *puts, bool waited, struct fit_extra *extra)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < puts->burst_count; i++) {
        const double more = fit_point_at(puts->alone, puts->alone_count, puts->burst[i].n) - fit_put_bare(puts, i);
        if (isnan(more) || !(puts->burst[i].t > 0) || fit_put_waits(puts, i) != waited) continue;
        extra[count++] = (struct fit_extra){ more, 1 / puts->burst[i].t };
    }
    return count;
}

double fit_puts_interrupt(const struct fit_puts *puts, uint32_t *count)
{
    struct fit_extra extra[FIT_POINTS_MAX];
    *count = fit_extras(puts, false, extra);
    if (!*count) *count = fit_extras(puts, true, extra);
    return *count ? fmax(fit_extra_median(extra, *count), 0) : 0;
}

/* Costs do not fall with size: neighbours that do are one, their mean, until none does. */
static void fit_points_level(struct fit_point *points, uint32_t count)
{
    uint32_t start[FIT_POINTS_MAX], runs = 0;       /* of runs of one value */
    for (uint32_t i = 0; i < count; i++) {
        start[runs++] = i;
        while (runs > 1 && points[start[runs - 2]].t > points[start[runs - 1]].t) {
            const uint32_t first = start[runs - 2], second = start[runs - 1];
            const double mean = (points[first].t * (second - first) + points[second].t * (i + 1 - second)) /
                                (i + 1 - first);
            for (uint32_t k = first; k <= i; k++) points[k].t = mean;
            runs--;
        }
    }
}

bool fit_puts_curve(const struct fit_puts *puts, double interrupt, double share, struct fit_curve *curve,
                    uint32_t *waited)
{
    struct fit_point bare[FIT_POINTS_MAX];
    *waited = 0;
    for (uint32_t i = 0; i < puts->burst_count; i++) {
        const bool waits = fit_put_waits(puts, i);
        *waited += waits;
        bare[i] = (struct fit_point){ puts->burst[i].n, fmax(fit_put_bare(puts, i) - (waits ? interrupt : 0), 0) };
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
