/* units.h - integer time, bytes and rates, and the only place where one is converted to another.
 *
 * Time is picoseconds in uint64_t (213 days), sizes are bytes, rates are bits per second.  Conversions run in 128
 * bits and round up.  So nothing takes less time than it should, and nothing takes zero time because its quotient
 * was small. */
#ifndef SIM_UNITS_H
#define SIM_UNITS_H

#include <assert.h>
#include <stdint.h>

#define PS_PER_NS UINT64_C(1000)
#define PS_PER_US UINT64_C(1000000)
#define PS_PER_S  UINT64_C(1000000000000)

/* The time to move size_bytes at rate_bps (> 0), rounded up.  It must fit the clock. */
static inline uint64_t units_transfer_ps(uint64_t size_bytes, uint64_t rate_bps)
{
    assert(rate_bps > 0);
    if (size_bytes < UINT64_C(2000000)) { /* 8 * 2e6 * 1e12 fits into 64 bits: common sizes take the fast path */
        const uint64_t bits_ps = size_bytes * 8 * PS_PER_S;

        return bits_ps / rate_bps + (bits_ps % rate_bps != 0);
    }
    const unsigned __int128 bits_ps = (unsigned __int128)size_bytes * 8 * PS_PER_S;
    const unsigned __int128 time_ps = (bits_ps + rate_bps - 1) / rate_bps;

    assert(time_ps <= UINT64_MAX);
    return (uint64_t)time_ps;
}

/* Gigabytes (1e9) per second at which size_bytes moved in time_ps; 0 when no time passed. */
static inline double units_gbs(uint64_t size_bytes, uint64_t time_ps)
{
    return time_ps ? (double)size_bytes * 1000.0 / (double)time_ps : 0.0;
}

static inline double units_us(uint64_t time_ps) { return (double)time_ps / (double)PS_PER_US; }

#endif
