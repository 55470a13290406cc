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

/* Beside an idle memory. */
struct pressure {
    uint64_t load_ps, store_ps; /* a load that misses the L2 takes this longer; a store of the SM's queue */
    uint64_t l2_bytes;          /* what the L2 holds of fresh rows; 0: all of it */
};

/* Another kernel, as it is alone on the GPU: bytes of HBM a second, and SMs.  Each SM asks for flight_bytes at a time.
 * */
struct pressure_load {
    double read_bps, write_bps; /* bytes a second */
    double sms, flight_bytes;
    bool bound; /* by memory: its waits slow it; else only a memory that cannot keep up */
};

/* Whether the cluster says what its memory does under load. */
bool pressure_known(const struct cluster_gpu *gpu);
enum { PRESSURE_LOADS_MAX = 8 };
/* What an SM has in flight of a kernel that moves bytes: 1024 threads, each four values of 16 bytes. */
enum { PRESSURE_FLIGHT_BYTES = 65536 };

/* What loads and own (the kernel itself, bytes a second that do not change) make of the memory.  rate[count]: which
 * share of its speed alone each load keeps. */
struct pressure pressure_solve(const struct cluster_gpu *gpu, const struct pressure_load *own,
                               const struct pressure_load *load, uint32_t count, double *rate);

/* From now on, and until the next call, the rank's kernels work while that runs.  NULL: alone. */
void world_pressure_set(struct world *world, uint32_t rank, const struct pressure *pressure);

#endif
