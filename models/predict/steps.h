/* steps.h - what a library's call takes: a kernel and the steps around it.  Private to models/predict. */
#ifndef MODELS_PREDICT_STEPS_H
#define MODELS_PREDICT_STEPS_H

#include "models/cluster.h"
#include "models/kernel.h"

/* The steps alone, in a job of ranks GPUs of which per_node share NVLink:
 *   gather   NCCL's call through PyTorch ([calls] nccl-call), then all ranks' bytes into the GPU over NVLink, those of
 *            other nodes once into the node by all its NICs ([nvlink] ingress-rate, [nic] rate); both at once
 *   read     those bytes at [gpu] hbm-rate
 *   host     [gpu] host-sync
 *   copies   [calls] copy each; their bytes read and written at [gpu] hbm-rate */
uint64_t steps_ps(const struct cluster *cluster, uint32_t ranks, uint32_t per_node, const struct kernel_steps *steps);

#endif
