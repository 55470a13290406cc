/* test_rng.c - the generator against the published outputs of its two algorithms, and its distributions by counts and
 * moments.  The seeds are fixed, so a test that passes once passes always.  The bounds are five standard deviations
 * wide, so other seeds would pass, too. */
#include "sim/rng.h"
#include "tests/unit.h"

#include <math.h>
#include <string.h>

TEST("published outputs")
{
    static const uint64_t splitmix_1234567[] = {
        UINT64_C(6457827717110365317),
        UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431),
    };
    static const uint64_t xoshiro_1234[] = {
        11520,
        0,
        1509978240,
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
    };
    struct rng rng = rng_seeded(1234567);
    CU_ASSERT_EQUAL(memcmp(rng.state, splitmix_1234567, sizeof splitmix_1234567), 0);
    rng = (struct rng){ { 1, 2, 3, 4 } };
    for (size_t i = 0; i < sizeof xoshiro_1234 / sizeof xoshiro_1234[0]; i++)
        CU_ASSERT_EQUAL(rng_next(&rng), xoshiro_1234[i]);
}

TEST("seeds")
{
    struct rng first, second, other;
    int equal = 0;
    rng_seed(&first, 0); /* a seed like any other */
    rng_seed(&second, 0);
    rng_seed(&other, 1);
    for (int i = 0; i < 1000; i++) {
        const uint64_t number = rng_next(&first);
        CU_ASSERT_EQUAL(number, rng_next(&second));
        equal += number == rng_next(&other);
    }
    CU_ASSERT_EQUAL(equal, 0);
}

TEST("below is uniform")
{
    enum { DRAWS = 120000 };
    struct rng rng = rng_seeded(11);
    for (uint64_t limit = 1; limit <= 12; limit++) {
        uint32_t counts[12] = { 0 };
        const double expected = (double)DRAWS / (double)limit;
        for (int i = 0; i < DRAWS; i++) {
            const uint64_t number = rng_below(&rng, limit);
            CU_ASSERT_FATAL(number < limit);
            counts[number]++;
        }
        for (uint64_t k = 0; k < limit; k++) CU_ASSERT(fabs(counts[k] - expected) <= 5 * sqrt(expected));
    }
}

/* At a limit of 1.5 * 2^63, a plain remainder would draw the lowest third twice as often. */
TEST("below is unbiased at large limits")
{
    const uint64_t limit = UINT64_C(3) << 62;
    uint32_t low = 0;
    struct rng rng = rng_seeded(12);
    for (int i = 0; i < 90000; i++) {
        const uint64_t number = rng_below(&rng, limit);
        CU_ASSERT_FATAL(number < limit);
        low += number < limit / 3;
    }
    CU_ASSERT(fabs(low - 30000.0) < 5 * sqrt(30000.0 * 2 / 3));
    for (int i = 0; i < 1000; i++) CU_ASSERT_FATAL(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

TEST("uniform")
{
    enum { DRAWS = 100000 };
    double sum = 0, squares = 0;
    struct rng rng = rng_seeded(13);
    for (int i = 0; i < DRAWS; i++) {
        const double number = rng_uniform(&rng);
        CU_ASSERT_FATAL(number >= 0.0 && number < 1.0);
        sum += number;
        squares += number * number;
    }
    CU_ASSERT_DOUBLE_EQUAL(sum / DRAWS, 0.5, 5 * sqrt(1.0 / 12 / DRAWS));
    CU_ASSERT_DOUBLE_EQUAL(squares / DRAWS, 1.0 / 3, 5 * sqrt(4.0 / 45 / DRAWS));
}

TEST("normal")
{
    enum { DRAWS = 100000 };
    double sum = 0, squares = 0, fourths = 0;
    uint32_t within_one = 0;
    struct rng rng = rng_seeded(14);
    for (int i = 0; i < DRAWS; i++) {
        const double number = rng_normal(&rng);
        CU_ASSERT_FATAL(isfinite(number));
        sum += number;
        squares += number * number;
        fourths += number * number * number * number;
        within_one += fabs(number) < 1.0;
    }
    CU_ASSERT_DOUBLE_EQUAL(sum / DRAWS, 0.0, 5 * sqrt(1.0 / DRAWS));
    CU_ASSERT_DOUBLE_EQUAL(squares / DRAWS, 1.0, 5 * sqrt(2.0 / DRAWS));
    CU_ASSERT_DOUBLE_EQUAL(fourths / DRAWS, 3.0, 5 * sqrt(96.0 / DRAWS));
    CU_ASSERT_DOUBLE_EQUAL((double)within_one / DRAWS, 0.682689, 5 * sqrt(0.2166 / DRAWS));
}
