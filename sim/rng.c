/* rng.c - xoshiro256** 1.0 of Blackman and Vigna (public domain algorithm), seeded by splitmix64.
 *
 * Integers and rng_uniform() are the same on every machine.  rng_normal() is as exact as the libm that it calls.  There
 * is no global generator. */
#include "sim/rng.h"

#include <assert.h>
#include <math.h>

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Seeds by four successive outputs of splitmix64.  They are never all zero, which is the one state that xoshiro must
 * not have. */
void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) rng->state[i] = splitmix64(&seed);
}

/* Lemire's multiplication: the high word of next * limit.  A product whose low word is below 2^64 mod limit is
 * drawn again, so that equally many products give each result. */
uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    assert(limit > 0);
    unsigned __int128 product = (unsigned __int128)rng_next(rng) * limit;
    if ((uint64_t)product < limit) {
        const uint64_t rejected = -limit % limit;
        while ((uint64_t)product < rejected) product = (unsigned __int128)rng_next(rng) * limit;
    }
    return (uint64_t)(product >> 64);
}

double rng_uniform(struct rng *rng) { return (double)(rng_next(rng) >> 11) * 0x1p-53; }

/* Returns one value for each call.  The second value of the method, which uses the sine, is dropped, so that the state
 * stays four words. */
double rng_normal(struct rng *rng)
{
    const double two_pi = 6.283185307179586476925286766559;
    const double radius = sqrt(-2.0 * log(1.0 - rng_uniform(rng))); /* (0, 1]: log is finite */
    return radius * cos(two_pi * rng_uniform(rng));
}
