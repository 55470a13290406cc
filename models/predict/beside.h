/* beside.h - a load on the GPUs while dispatch and combine run, as --compute and --compute-sms describe it. Private
 * to models/predict. */
#ifndef MODELS_PREDICT_BESIDE_H
#define MODELS_PREDICT_BESIDE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/case.h"
#include "models/cluster.h"
#include "models/hardware/sm/pressure.h"
#include "models/hardware/world/world.h"

enum { BESIDE_PHASES_MAX = 16 };

struct beside { /* all zero before beside_parse() */
    bool read, wanted;
    struct pressure_load load;
    double slow; /* the factor by which the GPU's own work takes longer because the load lowers the clock; 0 means 1 */
    double part; /* the share of the time in which the load moves bytes and computes; 0 means 1 */
    struct pressure_load own[BESIDE_PHASES_MAX]; /* each phase's demand on the memory, learned from earlier rounds */
};

/* How many rounds the case runs.  With --compute there are several, so that the kernels' demand on the memory and their
 * time under the load converge. */
uint32_t beside_rounds(const struct beside *beside);

/* Reads a load that is given as bytes a second (see below): sets these and l2.  Returns false for any other text. */
bool beside_rate_parse(const char *text, struct pressure_load *load);

/* Reads the load of --compute.  It is one of:
 *
 * bytes of HBM a second that it moves when alone: "read:1900GB/s", "write:2700GB/s" or "copy:2600GB/s" (a copy's
 * bytes are those read plus those written), with ":l2" if its data stay in the L2;
 *
 * a GEMM that runs repeatedly: "gemm:8192x7168x4096" or "grouped:32x256x7168x4096", BF16 or with ":fp8".  The
 * numbers are rows (of each expert), k and n.  Times come from the shipped tables, else from a roofline.  Tensor cores
 * lower the SMs' clock, as in bursts: a power limit lowers it further only after 50 ms, which `eptwin step` counts;
 *
 * any time: arithmetic, which needs no memory.
 *
 * The load has the SMs of --compute-sms.  Without this option it has all SMs but kernel_sms, those of the kernels.  A
 * case of other kernels than ll, normal and v2 has no load here: those of models/coll have arithmetic of their own.  A
 * second call changes nothing. */
bool beside_parse(const struct case_options *c, const struct cluster *cluster, uint32_t kernel_sms,
                  struct beside *beside, GError **error);
/* From now on the world's ranks run the given phase under this load.  Returns the load's speed during the phase over
 * its speed alone on its SMs.  NAN: there is no load; it is a GEMM, for whose speed the number of SMs counts more; or
 * its data are in the L2, out of which the phase drives them. */
double beside_set(const struct beside *beside, const struct cluster *cluster, struct world *world, uint32_t ranks,
                  uint32_t phase);
/* Sets own[phase] from the phase's results, for the next round. */
void beside_learn(struct beside *beside, uint32_t phase, const struct world_result *result, uint32_t ranks);

#endif
