/* fit_puts.h - what a put takes of CPUs, from the puts of many ranks that were measured in three ways: each with its
 * doorbell in a burst; several behind one doorbell in a burst; alone, the rank at work between them.
 *
 * A put of a burst shares interrupts with its neighbours, unless the burst waits for the link: then its puts come one
 * by one, as those alone do.  Times are of both ends together.  Numbers only: knows no records, units or files. */
#ifndef REPORTS_FIT_PUTS_H
#define REPORTS_FIT_PUTS_H

#include "reports/fit.h"

/* Costs by size, sizes rising, costs not falling. */
enum { FIT_CURVE_MAX = 32 };
struct fit_curve {
    double size_bytes[FIT_CURVE_MAX], us[FIT_CURVE_MAX];
    uint32_t count;
};

/* CPU times of puts by size.  chained and alone may lack sizes of burst, or all; stream, the time of a put by size
 * where one rank has the link for itself, has sizes of its own, rising, or none. */
struct fit_puts {
    struct fit_point burst[FIT_POINTS_MAX], chained[FIT_POINTS_MAX], alone[FIT_POINTS_MAX], stream[FIT_POINTS_MAX];
    uint32_t burst_count, chained_count, alone_count, stream_count;
    double chain;                   /* puts behind one doorbell in chained, at least 2 */
    double busy;                    /* times of its CPU time that a put takes a rank where CPUs never idle */
};

/* What ringing a doorbell takes: whatever its put's size, and so one number, the median over sizes; at least 0, and 0
 * where nothing was chained. */
double fit_puts_doorbell(const struct fit_puts *puts);

/* What a put takes more that comes alone than one in a burst without a doorbell: interrupts, and its doorbell.  The
 * median over sizes, of those whose bursts did not wait for the link, if any; at least 0.  *count: how many sizes; of
 * none the result is 0. */
double fit_puts_interrupt(const struct fit_puts *puts, double doorbell, uint32_t *count);

/* What puts take without doorbells and interrupts, times share, at each size of burst (the smallest FIT_CURVE_MAX).
 * *waited: how many sizes waited for the link.  False where there is no size. */
bool fit_puts_curve(const struct fit_puts *puts, double doorbell, double interrupt, double share,
                    struct fit_curve *curve, uint32_t *waited);

#endif
