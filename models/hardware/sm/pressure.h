/* pressure.h - how other kernels on a GPU slow a kernel: its loads and stores wait longer, and the L2 holds less of its
 * rows.
 *
 * The memory is a server.  Let it be busy for the share rho of the time, and let w be the share of writes.  Compared
 * with an idle memory,
 *
 *     a load waits longer by       S rho / (2 (1 - rho))  +  T rho w
 *     a store waits longer by      w S rho / (2 (1 - rho))
 *
 * S is [contention] hbm-queue, T is hbm-write-burst.  The terms with S are the mean wait of M/D/1 (at most the time of
 * all SMs' bytes in flight).  The term with T is for bursts of writes before a load.  `measure` finds the rates for
 * reads alone, for writes alone, and for half of each.  The cost of a byte in any other mixture follows from the
 * parabola through these three rates.  A kernel's own bytes are a share of all bytes that go through the L2.  The same
 * share of the rows that it has just written stays there.
 *
 * The L2 is another such server, for other kernels whose data stay there.  All their bytes cost the same, S is
 * [contention] l2-queue, and T is 0.  All loads of the slowed kernel wait for this server, whether they miss the L2 or
 * hit it.
 *
 * The two SMs of a pair have one port, at [gpu] store-sm-rate: they copy together what one of them copies alone.  Where
 * each of two kernels has one SM of a pair, loads and stores of one kernel wait behind stores of the other.  These
 * stores come in bursts of the bytes that an SM has in flight.  The mean wait is half of a burst, times the share of
 * time in which the port is busy with these stores.
 *
 * The other kernels go on asking as fast as the memory's waits let them, and the answer is the fixed point. */
#ifndef MODELS_HARDWARE_PRESSURE_H
#define MODELS_HARDWARE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"

struct world;

/* What a memory under load costs, relative to an idle one. */
struct pressure {
    uint64_t load_ps, near_ps; /* how much longer a load that misses the L2 takes; how much longer one that hits it
                                * takes */
    uint64_t store_ps;         /* how much longer sm_bytes of stores take in the SM's queue */
    double sm_bytes;           /* what comes to an SM during the wait for one load */
    uint64_t l2_bytes;         /* bytes of fresh rows that the L2 holds; 0: all */
};

/* Another kernel, as it runs alone on the GPU: its bytes of HBM or of the L2 a second, and its SMs.  Each SM has
 * flight_bytes in flight. */
struct pressure_load {
    double read_bps, write_bps; /* bytes a second */
    double sms, flight_bytes;
    bool l2;     /* its data stay in the L2: the bytes are the L2's and not HBM's */
    bool paired; /* its SMs are in pairs with SMs of the kernel that it slows */
    bool bound;  /* the memory bounds it, so any waiting slows it; otherwise only a memory that cannot keep up slows
                  * it */
};

/* Whether the cluster file has [contention]. */
bool pressure_known(const struct cluster_gpu *gpu);
enum { PRESSURE_LOADS_MAX = 8 };
/* Bytes in flight on an SM whose kernel moves bytes: 1024 threads with four values of 16 bytes each. */
enum { PRESSURE_FLIGHT_BYTES = 65536 };

/* Returns how the memory behaves under the kernels load[count] and under `own`, the kernel itself.  The bytes a second
 * of `own` do not change. rate[count] gets the speed of each kernel of load[], relative to its speed when it runs
 * alone. */
struct pressure pressure_solve(const struct cluster_gpu *gpu, const struct pressure_load *own,
                               const struct pressure_load *load, uint32_t count, double *rate);

/* How much longer a load takes under this pressure (NULL: none).  fresh: it loads rows that have just been written and
 * have footprint_bytes in all.  Most kernels run alone, so pressure_longer_ps() is called for the others only. */
uint64_t pressure_longer_ps(const struct pressure *pressure, const struct cluster_gpu *gpu, bool fresh,
                            uint64_t footprint_bytes);
static inline uint64_t pressure_load_ps(const struct pressure *pressure, const struct cluster_gpu *gpu, bool fresh,
                                        uint64_t footprint_bytes)
{
    return pressure && pressure->load_ps ? pressure_longer_ps(pressure, gpu, fresh, footprint_bytes) : 0;
}
/* How much longer an SM takes for stores of size_bytes. */
uint64_t pressure_store_ps(const struct pressure *pressure, uint64_t size_bytes);

/* From now on, until the next call, the rank's kernels run under this pressure.  NULL: they run alone. */
void world_pressure_set(struct world *world, uint32_t rank, const struct pressure *pressure);

#endif
