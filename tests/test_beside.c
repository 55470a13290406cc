/* test_beside.c - kernels of one GPU that share its memory: how long loads and stores wait, and how much each kernel is
 * slowed. */
#include "models/cluster.h"
#include "models/hardware/sm/pressure.h"
#include "tests/unit.h"

/* A GPU whose memory moves 1000 GB/s, be it reads, writes or both.  The memory's S (hbm-queue) is 100 ns, and its T
 * (hbm-write-burst) is 1000 ns.  The L2 has 50 MB, moves 4000 GB/s and has an S of 20 ns.  A load takes 800 ns, so that
 * 32000 bytes come to an SM meanwhile.  An SM stores at most 50 GB/s. */
static const struct cluster_gpu gpu = {
    .sms = 100,
    .hbm_rate_bps = UINT64_C(8000000000000),
    .hbm_read_rate_bps = UINT64_C(8000000000000),
    .hbm_write_rate_bps = UINT64_C(8000000000000),
    .load_ps = 800000,
    .load_l2_ps = 800000,
    .hbm_queue_ps = 100000,
    .hbm_write_burst_ps = 1000000,
    .l2_sms_rate_bps = UINT64_C(32000000000000),
    .l2_queue_ps = 20000,
    .l2_bytes = 50000000,
    .store_sm_rate_bps = UINT64_C(400000000000),
};
static const struct pressure_load nothing;

TEST("loads that ask for a steady rate")
{
    double rate;
    /* Reads keep the memory busy for a share rho = 0.5 of the time.  They wait S rho / (2 (1 - rho)) = 100 * 0.5 / 1 =
     * 50 ns. */
    struct pressure_load l = { .read_bps = 500e9, .sms = 100 };
    struct pressure c = pressure_solve(&gpu, &nothing, &l, 1, &rate);
    CU_ASSERT_DOUBLE_EQUAL((double)c.load_ps, 50000, 10);
    CU_ASSERT_EQUAL(c.store_ps, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate, 1, 1e-9);
    /* If a share w = 0.5 of these bytes are writes, loads wait T rho w = 1000 * 0.5 * 0.5 = 250 ns longer, and stores
     * wait w * 50 ns. */
    l = (struct pressure_load){ .read_bps = 250e9, .write_bps = 250e9, .sms = 100 };
    c = pressure_solve(&gpu, &nothing, &l, 1, &rate);
    CU_ASSERT_DOUBLE_EQUAL((double)c.load_ps, 300000, 10);
    CU_ASSERT_DOUBLE_EQUAL((double)c.store_ps, 25000, 10);
    CU_ASSERT_EQUAL(pressure_store_ps(&c, 32000), c.store_ps);
    /* The kernel's own 100 GB/s add to the load's 500 GB/s, so rho is 0.6.  The kernel gets 100 / 600 of the L2. */
    const struct pressure_load own = { .read_bps = 50e9, .write_bps = 50e9 };
    c = pressure_solve(&gpu, &own, &l, 1, &rate);
    CU_ASSERT_DOUBLE_EQUAL((double)c.load_ps, 100000 * 0.6 / 0.8 + 1000000 * 0.6 * 0.5, 10);
    CU_ASSERT_DOUBLE_EQUAL((double)c.l2_bytes, 50e6 / 6, 100);
}

TEST("loads whose data stay in the L2")
{
    double rate[2];
    /* The other kernel reads or writes at half of the L2's rate, and HBM is idle.  Every load waits S rho / (2 (1 -
     * rho)) = 20 * 0.5 / 1 = 10 ns longer. */
    for (int writes = 0; writes < 2; writes++) {
        const struct pressure_load l = {
            .read_bps = writes ? 0 : 2e12, .write_bps = writes ? 2e12 : 0, .sms = 50, .l2 = true
        };
        const struct pressure c = pressure_solve(&gpu, &nothing, &l, 1, rate);
        CU_ASSERT_DOUBLE_EQUAL((double)c.near_ps, 10000, 10);
        CU_ASSERT_EQUAL(c.load_ps, c.near_ps);
        CU_ASSERT_DOUBLE_EQUAL((double)c.store_ps, writes ? 10000 : 0, 10);
        CU_ASSERT_DOUBLE_EQUAL(rate[0], 1, 1e-9);
        CU_ASSERT_EQUAL(pressure_load_ps(&c, &gpu, false, 0), c.load_ps);
        CU_ASSERT_EQUAL(pressure_load_ps(&c, &gpu, true, 0), c.near_ps); /* a hit waits, too */
    }
    /* A second kernel asks for half of HBM's rate.  Then loads that miss the L2 wait for HBM and the L2, 50 + 10 ns,
     * and loads that hit the L2 wait 10 ns. */
    const struct pressure_load both[] = { { .read_bps = 500e9, .sms = 50 },
                                          { .read_bps = 2e12, .sms = 50, .l2 = true } };
    const struct pressure c = pressure_solve(&gpu, &nothing, both, 2, rate);
    CU_ASSERT_DOUBLE_EQUAL((double)c.load_ps, 60000, 10);
    CU_ASSERT_DOUBLE_EQUAL((double)c.near_ps, 10000, 10);
    CU_ASSERT_DOUBLE_EQUAL(rate[0], 1, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(rate[1], 1, 1e-9);
}

/* An SM of the load stores 10 GB/s, a fifth of the port's rate, in bursts of 50000 bytes, which take 1000 ns.  Behind
 * them, loads and stores wait half of a burst times that fifth, 100 ns.  Only SMs that share a port with the kernel's
 * SMs count, and reads do not. */
TEST("loads on the other SM of a pair")
{
    double rate;
    struct pressure_load l = { .write_bps = 100e9, .sms = 10, .flight_bytes = 50000, .l2 = true };
    const struct pressure apart = pressure_solve(&gpu, &nothing, &l, 1, &rate);
    l.paired = true;
    const struct pressure paired = pressure_solve(&gpu, &nothing, &l, 1, &rate);
    CU_ASSERT_DOUBLE_EQUAL((double)(paired.load_ps - apart.load_ps), 100000, 10);
    CU_ASSERT_DOUBLE_EQUAL((double)(paired.near_ps - apart.near_ps), 100000, 10);
    CU_ASSERT_DOUBLE_EQUAL((double)(paired.store_ps - apart.store_ps), 100000, 10);
    l = (struct pressure_load){ .read_bps = 100e9, .sms = 10, .flight_bytes = 50000, .l2 = true, .paired = true };
    CU_ASSERT_TRUE(pressure_solve(&gpu, &nothing, &l, 1, &rate).load_ps < 1000);
}

TEST("arithmetic takes nothing of the memory")
{
    double rate = 0;
    const struct pressure_load arithmetic = { .sms = 100, .flight_bytes = 65536, .bound = true };
    const struct pressure c = pressure_solve(&gpu, &nothing, &arithmetic, 1, &rate);
    CU_ASSERT_EQUAL(c.load_ps, 0);
    CU_ASSERT_EQUAL(c.store_ps, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate, 1, 1e-9);
    const struct cluster_gpu unknown = { .hbm_rate_bps = 8 };
    CU_ASSERT_FALSE(pressure_known(&unknown));
    CU_ASSERT_TRUE(pressure_known(&gpu));
}

/* Loads ask for more than the memory gives.  Then none gets its demand, and the load with the fewest bytes in flight is
 * slowed most. */
TEST("loads that ask for more than there is")
{
    double rate[2], less[2];
    const struct pressure_load steady[] = { { .read_bps = 800e9, .sms = 60 }, { .read_bps = 800e9, .sms = 60 } };
    struct pressure c = pressure_solve(&gpu, &nothing, steady, 2, rate);
    CU_ASSERT_DOUBLE_EQUAL(rate[0], 1 / 1.6, 0.01); /* two loads of 800 GB/s share 1000 GB/s */
    CU_ASSERT_DOUBLE_EQUAL(rate[1], rate[0], 1e-9);
    CU_ASSERT_TRUE(c.load_ps > 10 * gpu.hbm_queue_ps);
    CU_ASSERT_TRUE(c.load_ps <= UINT64_C(6553600)); /* 64 KiB of each of 100 SMs at 1000 GB/s */
    const struct pressure_load bound = {
        .read_bps = 900e9, .sms = 60, .flight_bytes = PRESSURE_FLIGHT_BYTES, .bound = true
    };
    const struct pressure_load own = { .read_bps = 300e9 };
    c = pressure_solve(&gpu, &own, &bound, 1, rate);
    CU_ASSERT_TRUE(rate[0] > 0.7 && rate[0] < 0.85); /* 700 of the 900 GB/s that the load asks for are left, and waiting
                                                      * costs some of them */
    const struct pressure_load two[] = { bound, { .write_bps = 200e9, .sms = 20 } };
    (void)pressure_solve(&gpu, &own, two, 2, less);
    CU_ASSERT_TRUE(less[0] < rate[0]); /* the more loads there are, the less each gets */
}
