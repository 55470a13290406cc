/* test_span.c - kernels that begin before the previous one has ended: the duration of each, and of all together
 * (models/predict/span.h).
 *
 * Method: two kernels with durations worked out by hand.  The second is launched before the first ends, or when it
 * ends, or late by the host. */
#include "models/predict/span.h"
#include "sim/units.h"
#include "tests/unit.h"

static const struct cluster machine = {
    .gpu = { .launch_ps = 3 * PS_PER_US, .begin_ps = PS_PER_US, .setup_ps = PS_PER_US / 2, .poll_ps = PS_PER_US / 2 },
    .node.release_system_ps = PS_PER_US,
    .calls.host_sync_ps = 50 * PS_PER_US
};

/* Makes a span of a first kernel.  It ends at 100 us, lets the next one begin at let_us, and has told the host its
 * counts at 20 us. */
static struct span first(uint64_t let_us)
{
    struct span span = { .end_ps = 1 }; /* left from an earlier iteration, and replaced by span_add() */
    struct world_result result = { .time_ps = 100 * PS_PER_US,
                                   .let_ps = let_us * PS_PER_US,
                                   .counts_ps = 20 * PS_PER_US };
    span_add(&span, &result, false, false, &machine);
    CU_ASSERT_EQUAL(result.time_ps, 100 * PS_PER_US);
    return span;
}

/* Adds a kernel whose workers take 10 us.  Checks its own duration, that of the span, and how long it waited. */
static void follow(uint64_t let_us, bool host_waits, uint64_t time_ps, uint64_t span_ps, uint64_t awaits_ps)
{
    struct span span = first(let_us);
    struct world_result result = { .time_ps = 13 * PS_PER_US };
    span_add(&span, &result, true, host_waits, &machine);
    CU_ASSERT_EQUAL(result.time_ps, time_ps);
    CU_ASSERT_EQUAL(span.end_ps, span_ps);
    CU_ASSERT_EQUAL(span.awaits_ps, awaits_ps);
}

/* The second kernel lasts from 93 us to 110.5 us.  All workers but the one that closes are done at 90 us.
 * The kernel may begin two polls of 0.5 us and a release later.  The first ends at 100 us.  The second goes on 0.5 us
 * later, and its workers take 10 us. */
TEST("waits for the end")
{
    follow(90, false, 17 * PS_PER_US + PS_PER_US / 2, 110 * PS_PER_US + PS_PER_US / 2, 7 * PS_PER_US);
}

TEST("is set up behind the end")
{
    follow(100, false, 10 * PS_PER_US + PS_PER_US / 2, 111 * PS_PER_US + PS_PER_US / 2, 0);
}

TEST("host launches late")
{
    /* The second kernel is launched at 70 us, because the host has the counts at 20 us and needs 50 us more.  It begins
     * at 71 us, and ends 10.5 us after the first. */
    follow(60, true, 39 * PS_PER_US + PS_PER_US / 2, 110 * PS_PER_US + PS_PER_US / 2, 29 * PS_PER_US);
    struct span span = first(90);
    span.counts_ps = 80 * PS_PER_US;
    struct world_result result = { .time_ps = 13 * PS_PER_US };
    span_add(&span, &result, true, true, &machine);
    CU_ASSERT_EQUAL(result.time_ps, 10 * PS_PER_US + PS_PER_US / 2);
    CU_ASSERT_EQUAL(span.end_ps, 141 * PS_PER_US + PS_PER_US / 2);
}

TEST("record")
{
    struct span span[2] = { first(90), first(90) };
    span[1].end_ps = 200 * PS_PER_US;
    span[0].nvl_bytes = span[1].nvl_bytes = 150000000;
    g_autoptr(record) record = record_new();
    span_record(span, 2, "both_span", record);
    CU_ASSERT_DOUBLE_EQUAL(record_find(record, "both_span", RECORD_ALL, "time_us")->value, 150, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(record_find(record, "both_span", RECORD_ALL, "time_us_max")->value, 200, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(record_find(record, "both_span", RECORD_ALL, "logical_nvl_gbs")->value, 1000, 1e-6);
}
