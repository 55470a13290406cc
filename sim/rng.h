/* rng.h - the seeded generator (xoshiro256** seeded by splitmix64).  A seed gives the same numbers on every machine
 * and in every version.  The seed is never taken from the time.  Do not use it for secrets.  It needs only libc and
 * libm. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
static inline struct rng rng_seeded(uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    return rng;
}

uint64_t rng_below(struct rng *rng, uint64_t limit); /* uniform in [0, limit), unbiased; limit > 0 */
double rng_uniform(struct rng *rng);                 /* [0, 1), 53 bits */
double rng_normal(struct rng *rng);                  /* mean 0, deviation 1 (Box-Muller) */

/* The next 64 bits.  This is inline, so loops that draw much keep the state in registers. */
static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t *const s = rng->state;
    const uint64_t product = s[1] * 5, result = (product << 7 | product >> 57) * 9, shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = s[3] << 45 | s[3] >> 19;
    return result;
}

#endif
