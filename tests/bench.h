/* bench.h - reads the clock that the benches use. */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <time.h>

/* Seconds on the given clock.  bench_cpu_seconds() uses CLOCK_PROCESS_CPUTIME_ID, which counts this process alone,
 * because the machine may have other work. */
static inline double bench_seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline double bench_cpu_seconds(void) { return bench_seconds(CLOCK_PROCESS_CPUTIME_ID); }

#endif
