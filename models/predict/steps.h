/* steps.h - the duration of a library's call: a kernel and the steps around it.  Private to models/predict. */
#ifndef MODELS_PREDICT_STEPS_H
#define MODELS_PREDICT_STEPS_H

#include "models/cluster.h"
#include "models/kernel.h"

struct steps_in {
    uint64_t peers_bps, port_bps; /* bits/s, by graph_least_in() */
};

/* The time of the steps without the kernel, in a job of `ranks` GPUs, of which per_node share NVLink.  in: the lowest
 * rates into any of these GPUs.
 *     gather   NCCL's call through PyTorch ([calls] nccl-call), then all ranks' bytes into the GPU over NVLink, and
 *              those of other nodes once into the node by all its NICs; both at once
 *     read     those bytes at [gpu] hbm-rate
 *     host     [calls] host-sync
 *     copies   [calls] copy each; their bytes read and written at [gpu] hbm-rate */
uint64_t steps_ps(const struct cluster *cluster, const struct steps_in *in, uint32_t ranks, uint32_t per_node,
                  const struct kernel_steps *steps);

#endif
