/* pressure.h - what other kernels of a GPU take from a kernel: its loads wait longer, its stores too, and the L2 holds
 * less of its rows.
 *
 * The memory is a server.  Used to the share rho, of which w writes, it makes
 *
 *     a load wait        S rho / (2 (1 - rho))  +  T rho w       S: [gpu] hbm-queue, T: hbm-write-burst
 *     a store wait       w S rho / (2 (1 - rho))
 *
 * longer than an idle one: the mean wait of M/D/1 (no longer than all SMs' bytes in flight take), and bursts of writes
 * before it.  A byte costs the server the time of
 * the rate that `measure` finds for reads alone, writes alone, and half of each; a mixture lies on the parabola through
 * these.  Rows that a kernel has just written stay in the L2 for the share that its own bytes have of all that go
 * through it.  The other kernels go on asking, as fast as its waits let it: the answer is the fixed point. */
#ifndef MODELS_HARDWARE_PRESSURE_H
#define MODELS_HARDWARE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"

struct world;

/* Relative to an idle memory. */
struct pressure {
    uint64_t load_ps, store_ps; /* how much longer a load that misses the L2 takes; a store in the SM's queue */
    uint64_t l2_bytes;          /* bytes of fresh rows that the L2 holds; 0: all */
};

/* Another kernel, as it runs alone on the GPU: bytes of HBM a second, and SMs.  Each SM has flight_bytes in flight. */
struct pressure_load {
    double read_bps, write_bps; /* bytes a second */
    double sms, flight_bytes;
    bool bound; /* the memory bounds it, so that any waiting slows it; else only a memory that cannot keep up slows
                 * it */
};

/* Whether the cluster says how its memory behaves under load. */
bool pressure_known(const struct cluster_gpu *gpu);
enum { PRESSURE_LOADS_MAX = 8 };
/* Bytes that an SM of a kernel that moves bytes has in flight: 1024 threads, four values of 16 bytes each. */
enum { PRESSURE_FLIGHT_BYTES = 65536 };

/* How the memory behaves under loads and own (the kernel itself, whose bytes a second do not change).  rate[count]: the
 * share of its speed alone that each load keeps. */
struct pressure pressure_solve(const struct cluster_gpu *gpu, const struct pressure_load *own,
                               const struct pressure_load *load, uint32_t count, double *rate);

/* How much longer under that pressure (NULL: none) a load takes, of rows that have just been written (fresh, so many
 * bytes in all) or not; and how much longer an SM takes for stores. */
uint64_t pressure_load_ps(const struct pressure *pressure, const struct cluster_gpu *gpu, bool fresh,
                          uint64_t footprint_bytes);
uint64_t pressure_store_ps(const struct pressure *pressure, uint64_t size_bytes);

/* From now on, until the next call, the rank's kernels run under that pressure.  NULL: alone. */
void world_pressure_set(struct world *world, uint32_t rank, const struct pressure *pressure);

#endif
