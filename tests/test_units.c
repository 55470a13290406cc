/* test_units.c - compares conversions with long arithmetic: rounding, the border between the narrow and the wide path,
 * and the largest values.  test_sim.c tests that a rate of 0 and times beyond the clock fail an assertion. */
#include "sim/rng.h"
#include "sim/units.h"
#include "tests/unit.h"

#include <stdbool.h>

/* Checks by definition: the result is the least time in which the rate moves all the bits. */
static bool is_least_time(uint64_t size_bytes, uint64_t rate_bps, uint64_t time_ps)
{
    const unsigned __int128 needed = (unsigned __int128)size_bytes * 8 * PS_PER_S;
    const unsigned __int128 moved = (unsigned __int128)time_ps * rate_bps;
    return moved >= needed && (time_ps == 0 || moved - rate_bps < needed);
}

TEST("transfer, known")
{
    CU_ASSERT_EQUAL(units_transfer_ps(1, UINT64_C(400000000000)), 20); /* 400 Gb/s: 20 ps a byte */
    CU_ASSERT_EQUAL(units_transfer_ps(4096, UINT64_C(400000000000)), 81920);
    CU_ASSERT_EQUAL(units_transfer_ps(1, 3), UINT64_C(2666666666667)); /* rounded up */
    CU_ASSERT_EQUAL(units_transfer_ps(0, 1), 0);
    CU_ASSERT_EQUAL(units_transfer_ps(1, UINT64_MAX), 1); /* never 0 */
    CU_ASSERT_EQUAL(units_transfer_ps(1999999, 1), UINT64_C(15999992) * PS_PER_S);
    CU_ASSERT_EQUAL(units_transfer_ps(UINT64_MAX, UINT64_C(8) * PS_PER_S), UINT64_MAX);
}

TEST("transfer, by property")
{
    static const uint64_t edges[] = { 1, 2, 1999998, 1999999, 2000000, 2000001, UINT64_C(1) << 40 };
    struct rng rng = rng_seeded(7);
    for (int i = 0; i < 200000; i++) {
        const uint64_t any = rng_next(&rng) >> (24 + rng_below(&rng, 40));
        const uint64_t size = i % 2 ? edges[rng_below(&rng, 7)] : any;
        const uint64_t rate = (rng_next(&rng) >> rng_below(&rng, 30)) | 1;
        CU_ASSERT_FATAL(is_least_time(size, rate, units_transfer_ps(size, rate)));
    }
}

TEST("transfer, both paths meet")
{
    for (uint64_t rate = 1; rate < PS_PER_S; rate = rate * 3 + 1) {
        const uint64_t narrow = units_transfer_ps(1999999, rate), wide = units_transfer_ps(2000000, rate);
        CU_ASSERT(narrow <= wide);
        CU_ASSERT(wide - narrow <= 8 * PS_PER_S / rate + 1);
    }
}

TEST("rates and us")
{
    CU_ASSERT_DOUBLE_EQUAL(units_gbs(50000, PS_PER_US), 50.0, 1e-12);
    CU_ASSERT_EQUAL(units_gbs(50000, 0), 0.0);
    CU_ASSERT_EQUAL(units_gbs(0, 5), 0.0);
    CU_ASSERT_DOUBLE_EQUAL(units_us(1500000), 1.5, 1e-12);
    CU_ASSERT_EQUAL(PS_PER_NS * 1000, PS_PER_US);
    CU_ASSERT_EQUAL(PS_PER_US * 1000000, PS_PER_S);
}
