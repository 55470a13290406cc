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
#include "models/predict/turns.h"

enum { BESIDE_PHASES_MAX = 16 };

struct beside_phase {
    struct pressure_load own; /* the phase's demand on the memory, learned from earlier rounds */
    struct pressure pressure; /* how the load slows the phase */
    double rate; /* the speed that the memory leaves a load that it bounds, over the load's speed alone on its SMs */
    double us;   /* mean time of a rank in the last round */
};

struct beside { /* all zero before beside_parse() */
    bool read, wanted;
    struct pressure_load load;
    struct turns turns; /* the load's GEMMs; count 0: it has none */
    double slow; /* the factor by which the GPU's own work takes longer because the load lowers the clock; 0 means 1 */
    double part; /* of GEMMs, the share of the time in which they move bytes and compute */
    struct beside_phase phase[BESIDE_PHASES_MAX];
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
 * numbers are rows (of each expert), k and n.  Several GEMMs, joined by "+", take turns.  Times come from the shipped
 * tables, else from a roofline.  Tensor cores lower the SMs' clock, as in bursts: a power limit lowers it further only
 * after 50 ms, which `eptwin step` counts;
 *
 * any time: arithmetic, which needs no memory.
 *
 * The load has the SMs of --compute-sms.  Without this option it has all SMs but kernel_sms, those of the kernels.  A
 * case of other kernels than ll, normal and v2 has no load here: those of models/coll have arithmetic of their own.  A
 * second call changes nothing. */
bool beside_parse(const struct case_options *c, const struct cluster *cluster, uint32_t kernel_sms,
                  struct beside *beside, GError **error);
/* Sets the phase's pressure and rate, by its own demand. */
void beside_solve(struct beside *beside, const struct cluster *cluster, uint32_t phase);
/* Sets the phase's demand and time from its results. */
void beside_learn(struct beside *beside, uint32_t phase, const struct world_result *result, uint32_t ranks);
/* How much longer the load takes beside the phase, both over and over, than alone on its SMs (GEMMs: in all, and each
 * in slowdown[turns.count]).  NAN: there is no load, or its data are in the L2, out of which the phase drives them. */
double beside_slowdown(const struct beside *beside, uint32_t phase, double slowdown[TURNS_KERNELS_MAX]);

#endif
