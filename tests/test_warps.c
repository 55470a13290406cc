/* test_warps.c - how long do programs take on the warps of an SM?
 *
 * Aim: models/hardware/sm/warps.c.  Method: programs of a few operations, as a sheet has them, on an SM whose times are
 * round numbers, so that the answer can be worked out by hand. */
#include <stdio.h>
#include "models/hardware/sm/warps.h"
#include "sim/rng.h"
#include "tests/unit.h"

/* Times in ns: a cycle takes 1, an access 10, a load 200, a load from shared memory 30.  The bulk engine brings bytes
 * after 300, a request to it takes 20, and it has read its source 50 after the last byte.  Bytes take no time. */
static struct warps_sm sm_of(void)
{
    return (struct warps_sm){
        .cycle_ps = 1000,
        .access_ps = 10000,
        .load_ps = { [LOOP_SOURCE] = 200000, [LOOP_SHARED] = 30000, [LOOP_L2] = 100000 },
        .in_ps = { [LOOP_SOURCE] = 300000 },
        .turn_ps = 20000,
        .read_ps = 50000,
    };
}

static struct warps_cost cost_by(const struct warps_sm *sm, const char *program, uint32_t team, uint32_t teams,
                                 bool each)
{
    char text[400];
    snprintf(text, sizeof text, "LL_CAST_ROW { %s } @ a.cu:1", program);
    GError *error = NULL;
    g_autoptr(loops) loops = loops_parse("sheet", text, strlen(text), &error);
    if (error) printf("\n      %s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(loops);
    struct loop_op op[LOOP_OPS];
    const struct loop_row row = { .bytes = 1000, .rows = 1, .warps = team };
    const uint32_t count = loops_program(loops, SITE_LL_CAST_ROW, NULL, &row, op);
    return warps_run(sm, op, count, team, teams, WARPS_ROUNDS, each);
}

static struct warps_cost cost_of(const struct warps_sm *sm, const char *program, uint32_t team, uint32_t teams)
{
    return cost_by(sm, program, team, teams, false);
}

/* Tests the time of one round of a program, in ns. */
TEST("waits")
{
    static const struct {
        const char *program;
        uint32_t team, teams;
        uint64_t ns;
    } runs[] = {
        { "load 1024, use", 1, 1, 210 }, /* the second access begins 10 ns after the first */
        { "load 1024", 1, 1, 20 },
        { "load 1024 by 256, use", 1, 1, 230 },
        { "load 0, use", 1, 1, 0 },
        { "load 512, use, load 512 from l2, use, load 512 from shared, use", 1, 1, 330 },
        { "load 1024, store 1024", 1, 1, 220 }, /* the second value has arrived when the first is stored */
        { "load 512, store 1024", 1, 1, 220 },  /* the second access of the store has no load to wait for */
        { "load 1024, store 512, use", 1, 1, 210 },
        { "alu 8", 1, 1, 8 },
        { "alu 8", 1, 4, 8 },
        { "alu 8", 1, 5, 16 }, /* five teams on four schedulers, so two share one */
        { "chain 8", 1, 1, 32 },
        { "chain 8", 1, 8, 32 }, /* two teams share a scheduler, and each runs while the other waits */
        { "repeat 3 { alu 2, repeat 2 { alu 1 } }", 1, 1, 12 },
        { "repeat 0 { alu 2 }, alu 1", 1, 1, 1 },
        { "first 1 { load 512, use }, alu 3", 4, 1, 203 },
        { "first 0 { load 512, use }, alu 3", 4, 1, 3 },
        { "bulk-in 512, alu 5, bulk-wait", 1, 1, 300 },
        { "bulk-in 512, bulk-in 512, bulk-wait", 1, 1, 300 },
        { "bulk-in 512, bulk-in 512, bulk-wait, bulk-wait", 1, 1, 320 },
        { "bulk-out 512", 1, 1, 20 },
        { "bulk-out 512, bulk-read 0", 1, 1, 50 },
        { "bulk-out 512, bulk-out 512, bulk-read 1", 1, 1, 50 },
        { "bulk-out 512, bulk-out 512, bulk-read 0", 1, 1, 70 },
        { "first 1 { alu 7, bulk-in 512 }, bulk-wait", 4, 1, 307 }, /* all warps wait for the bytes that the first warp
                                                                     * asks for */
        { "others 1 { alu 3 }", 4, 1, 3 },
        { "others 1 { alu 3 }", 1, 1, 0 },
        { "first 1 { bulk-in 512, bulk-left 1, bulk-in 512 }, others 1 { bulk-wait, alu 7, bulk-wait }", 2, 1, 320 },
        { "first 1 { bulk-in 512, bulk-left 0, bulk-in 512 }, others 1 { bulk-wait, alu 7, bulk-wait }", 2, 1, 607 },
        { "bulk-wait, alu 5", 2, 1, 5 }, /* no bytes were asked for */
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const struct warps_sm sm = sm_of();
        const struct warps_cost cost = cost_of(&sm, runs[i].program, runs[i].team, runs[i].teams);
        const bool good = cost.first_ps == runs[i].ns * 1000;
        if (!good) printf("\n      %s: %g ns\n", runs[i].program, (double)cost.first_ps / 1e3);
        CU_ASSERT(good);
    }
}

/* A byte takes 1 ns into the SM, 2 out of it, 3 out of it by the bulk engine, and 8 for each further pass. */
TEST("bytes")
{
    static const struct {
        const char *program;
        uint32_t teams;
        uint64_t ns, way_ns;
    } runs[] = {
        { "load 100, use", 1, 300, 100 },
        { "load 100, use", 3, 500, 100 },
        { "load 100, store 100", 1, 310, 300 },      /* no operation waits for the stored bytes */
        { "store 100, load 100, use", 1, 500, 300 }, /* stored bytes use the path before loaded bytes can */
        { "load 100 from shared, use", 2, 230, 100 },
        { "bulk-in 100, bulk-wait", 1, 500, 200 }, /* one more pass for an eighth of the bytes: 100 ns more */
        { "bulk-in 100, bulk-wait", 2, 700, 200 },
        { "bulk-in 100, load 100 from shared, use, bulk-wait", 1, 500, 200 }, /* the engine does not use the port of
                                                                               * loads from shared memory */
        { "bulk-in 100, load 100, use, bulk-wait", 1, 500, 300 }, /* loaded bytes wait for the engine's bytes on the
                                                                   * path */
        { "bulk-out 100, bulk-read 0", 1, 550, 500 },
        { "alu 100", 1, 100, 25 }, /* a warp occupies one of four schedulers */
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct warps_sm sm = sm_of();
        sm.load = rate_make(8000000000);
        sm.store = rate_make(4000000000);
        sm.put = rate_make(8000000000 / 3);
        sm.skew = rate_make(1000000000);
        sm.in_passes = 1;
        sm.out_passes = 2;
        const struct warps_cost cost = cost_of(&sm, runs[i].program, 1, runs[i].teams);
        const double ns = (double)cost.first_ps / 1e3, way_ns = (double)cost.way_ps / 1e3;
        const bool good = ns > (double)runs[i].ns - 1 && ns < (double)runs[i].ns + 1 &&
                          way_ns > (double)runs[i].way_ns - 1 && way_ns < (double)runs[i].way_ns + 1;
        if (!good) printf("\n      %s: %g ns, way %g ns\n", runs[i].program, ns, way_ns);
        CU_ASSERT(good);
    }
}

/* Requests that a warp has in flight at the end of a round stay in flight during its next round. */
TEST("rounds")
{
    const struct warps_sm sm = sm_of();
    const struct warps_cost copy = cost_of(&sm, "load 512, store 512", 1, 1);
    CU_ASSERT(copy.first_ps == 210000 && copy.next_ps == 210000 && copy.lead_ps == 200000);
    const struct warps_cost ahead = cost_of(&sm, "bulk-in 512, bulk-out 512", 1, 1);
    CU_ASSERT(ahead.first_ps == 40000 && ahead.next_ps == 40000 && ahead.lead_ps == 20000);
    const struct warps_cost read = cost_of(&sm, "load 512, use", 1, 1);
    CU_ASSERT_EQUAL(read.lead_ps, read.first_ps); /* no bytes leave the SM */
}

/* If loads follow stores, each turn of the loop waits until the stores of the previous turn are performed.  Nothing
 * waits for the stores of the last turn. */
TEST("stores before loads")
{
    struct warps_sm sm = sm_of();
    sm.stored_ps = 500000;
    CU_ASSERT_EQUAL(cost_of(&sm, "repeat 2 { load 100, store 100 }", 1, 1).first_ps,
                    710000); /* first load 200 ns + its store performed 500 ns + second store 10 ns */
    CU_ASSERT_EQUAL(cost_of(&sm, "load 100, store 100", 1, 1).first_ps, 210000);
    sm.stored_ps = 0;
    CU_ASSERT_EQUAL(cost_of(&sm, "repeat 2 { load 100, store 100 }", 1, 1).first_ps, 420000);
}

/* Programs with more repeats, bytes, rounds or warps than the machine follows end, too. */
TEST("ends")
{
    const struct warps_sm sm = sm_of();
    CU_ASSERT_EQUAL(cost_of(&sm, "repeat 4000000000 { alu 1 }", 1, 1).first_ps, UINT64_C(4000000000000));
    const char *const longest = "repeat 4000000000 { repeat 4000000000 { repeat 4000000000 { alu 1 } } }";
    CU_ASSERT(cost_of(&sm, longest, 1, 1).cut);
    CU_ASSERT(cost_of(&sm, "load 1000000, use", 1, 1).first_ps > 0);
    CU_ASSERT_EQUAL(cost_of(&sm, "alu 4", 1, 1000000).first_ps, 4000 * WARPS_MOST / 4);
    CU_ASSERT_EQUAL(cost_of(&sm, "alu 4", 1000, 1).first_ps, 4000 * WARPS_MOST / 4);
}

/* The times of an SM of the test below: none a multiple of another. */
static struct warps_sm sm_drawn(struct rng *rng)
{
    struct warps_sm sm = {
        .cycle_ps = 500 + rng_below(rng, 100),
        .access_ps = 1000 + rng_below(rng, 4000),
        .load_ps = { 400000 + rng_below(rng, 300000), 200000 + rng_below(rng, 90000), 30000, 250000 },
        .in_ps = { 600000 + rng_below(rng, 90000), 400000, 0, 400000 },
        .stored_ps = rng_below(rng, 2) * 700123,
        .turn_ps = 20000 + rng_below(rng, 9000),
        .fence_ps = 7000,
        .read_ps = 50000 + rng_below(rng, 90000),
        .in_passes = (uint32_t)rng_below(rng, 3),
        .out_passes = (uint32_t)rng_below(rng, 3),
    };
    sm.load = rate_make(8 * (50 + rng_below(rng, 100)) * UINT64_C(1000000000));
    sm.store = rate_make(8 * (20 + rng_below(rng, 100)) * UINT64_C(1000000000));
    sm.put = rate_make(8 * (20 + rng_below(rng, 100)) * UINT64_C(1000000000));
    sm.skew = rate_make(UINT64_C(800000000000));
    return sm;
}

/* Turns of long loops that are added up give exactly what all steps give. */
TEST("turns that repeat")
{
    static const char *const programs[] = {
        "chain 32, repeat 3000 { load 512, use, store 512 }",
        "repeat 2000 { load 4096, store 4096, alu 12 }, load 100, store 100",
        "repeat 40 { repeat 300 { load 512, use, alu 105, chain 16, store 256, store 4 by 4 }, fence }",
        "repeat 3000 { bulk-read 1, bulk-in 2048, bulk-wait, bulk-out 2048 }, bulk-read 0",
        "repeat 900 { load 2048 by 1024 from l2, store 512 to shared, use }, repeat 2000 { chain 3, load 128, use }",
        ("first 1 { repeat 2000 { bulk-left 2, chain 25, bulk-in 7168 } },"
         " others 1 { repeat 2000 { bulk-wait, load 1792 from shared, use, alu 40, store 512 } }"),
        "first 2 { repeat 5000 { load 512, use } }, others 2 { repeat 3000 { alu 7, chain 5 } }, bulk-out 512",
    };
    static const uint32_t shapes[][2] = { { 1, 1 }, { 1, 3 }, { 1, 24 }, { 4, 1 }, { 8, 4 }, { 32, 2 } };
    struct rng rng = rng_seeded(11);
    for (size_t i = 0; i < G_N_ELEMENTS(programs); i++)
        for (size_t k = 0; k < G_N_ELEMENTS(shapes); k++) {
            const struct warps_sm sm = sm_drawn(&rng);
            const struct warps_cost all = cost_by(&sm, programs[i], shapes[k][0], shapes[k][1], true);
            const struct warps_cost sum = cost_by(&sm, programs[i], shapes[k][0], shapes[k][1], false);
            const bool same = all.first_ps == sum.first_ps && all.next_ps == sum.next_ps && !all.cut && !sum.cut &&
                              all.lead_ps == sum.lead_ps && all.way_ps == sum.way_ps && all.ahead == sum.ahead;
            if (!same)
                printf("\n      %s, %u x %u: %.3f, then %.3f us, expected %.3f, then %.3f\n", programs[i], shapes[k][0],
                       shapes[k][1], (double)sum.first_ps / 1e6, (double)sum.next_ps / 1e6, (double)all.first_ps / 1e6,
                       (double)all.next_ps / 1e6);
            CU_ASSERT(same);
        }
}
