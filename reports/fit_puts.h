/* fit_puts.h - fits the CPU time of a put.
 *
 * The input is CPU times of puts by many ranks, measured in three ways:
 *     burst    puts in a burst, each with its own doorbell;
 *     chained  puts in a burst, several behind one doorbell;
 *     alone    single puts, with other work of the rank between them.
 *
 * A put in a burst shares interrupts with its neighbours.  If the burst waits for the link, its puts come one by
 * one, like single puts, and share none.  Times are sums over both ends.  This module works only on numbers: it
 * knows no records, units or files. */
#ifndef REPORTS_FIT_PUTS_H
#define REPORTS_FIT_PUTS_H

#include "reports/fit.h"

/* Costs by size.  Sizes rise; costs never fall. */
enum { FIT_CURVE_MAX = 32 };
struct fit_curve {
    double size_bytes[FIT_CURVE_MAX], us[FIT_CURVE_MAX];
    uint32_t count;
};

/* CPU times of puts by size.  chained and alone may lack some or all sizes of burst.  stream is the time of a put by
 * size when one rank has the link to itself.  Its sizes rise, may differ from those of burst, and may be missing
 * altogether. */
struct fit_puts {
    struct fit_point burst[FIT_POINTS_MAX], chained[FIT_POINTS_MAX], alone[FIT_POINTS_MAX], stream[FIT_POINTS_MAX];
    uint32_t burst_count, chained_count, alone_count, stream_count;
    double chain; /* how many puts of `chained` share a doorbell; at least 2 */
    double busy;  /* wall time over CPU time of a put, on a rank whose CPUs never idle */
};

/* The CPU time of ringing a doorbell.  It does not depend on the put's size, so it is one number: the median over
 * sizes.  It is at least 0, and 0 where nothing was chained. */
double fit_puts_doorbell(const struct fit_puts *puts);

/* The CPU time that a single put takes beyond a put in a burst without a doorbell: its interrupts and its doorbell.
 * The result is the median over sizes, and at least 0.  If the bursts of some sizes did not wait for the link, only
 * those sizes count.  *count is the number of sizes used.  If it is 0, so is the result. */
double fit_puts_interrupt(const struct fit_puts *puts, double doorbell, uint32_t *count);

/* The CPU time of puts without doorbells and interrupts, multiplied by share, at each size of burst (the smallest
 * FIT_CURVE_MAX sizes).  *waited is the number of sizes whose bursts waited for the link.  False if there is no
 * size. */
bool fit_puts_curve(const struct fit_puts *puts, double doorbell, double interrupt, double share,
                    struct fit_curve *curve, uint32_t *waited);

#endif
