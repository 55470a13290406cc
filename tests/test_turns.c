/* test_turns.c - compute kernels and communication, over and over on one GPU of 10 SMs: each holds SMs in its way,
 * waits for those of the other, and slows the other's memory and clock. */
#include "models/predict/turns.h"
#include "tests/unit.h"

/* Communication takes 30 us on 4 SMs.  It begins with the compute kernel, which holds all SMs from then on, so it
 * begins again with the next one. */
static void turn(struct step_cost cost, double tensor_clock, double rate, double expected_us)
{
    const struct turns turns = { .cost = { cost },
                                 .count = 1,
                                 .sms = 10,
                                 .tensor_clock = tensor_clock,
                                 .comm_sms = 4,
                                 .comm_us = 30,
                                 .rate = rate };
    double us;
    turns_run(&turns, &us);
    CU_ASSERT_DOUBLE_EQUAL(us, expected_us, 1e-3);
}

TEST("a kernel in turn with communication")
{
    struct step_cost cost = { .us = 100, .occupancy = OCCUPANCY_TILES, .sms = 10, .clock_share = 1, .tensor = 1 };
    turn(cost, 1, 1, 30 + 100 - 30 * 0.6);
    turn(cost, 1, 0.5, 30 + 100 - 30 * 0.6);       /* arithmetic does not wait for memory */
    turn(cost, 0.8, 1, 30 + 100 - 30 * 0.6 * 1.1); /* six of ten tensor cores: a clock of 0.88 and not 0.8 */
    cost.clock_share = 0;
    turn(cost, 1, 1, 100); /* moving bytes needs no more than 0.6 of the SMs */
    turn(cost, 1, 0.5, 30 + 100 - 30 * 0.5);
}

/* The load's own SMs are no others' SMs: only memory slows it. */
TEST("a kernel that leaves communication its SMs")
{
    struct step_cost cost = { .us = 100, .occupancy = OCCUPANCY_TILES, .sms = 6, .clock_share = 1 };
    turn(cost, 1, 0.5, 100);
    cost.clock_share = 0;
    turn(cost, 1, 0.5, 200);
}

TEST("two kernels in turn")
{
    const struct step_cost first = { .us = 100, .occupancy = OCCUPANCY_TILES, .sms = 10, .clock_share = 1 },
                           second = { .us = 50, .occupancy = OCCUPANCY_TILES, .sms = 10, .clock_share = 1 };
    const struct turns turns = {
        .cost = { first, second }, .count = 2, .sms = 10, .tensor_clock = 1, .comm_sms = 4, .comm_us = 30, .rate = 1
    };
    double us[2];
    turns_run(&turns, us);
    CU_ASSERT_DOUBLE_EQUAL(us[0], 30 + 100 - 30 * 0.6, 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(us[1], 30 + 50 - 30 * 0.6, 1e-3);
}
