/* step_gpu.h - what compute kernels need to know about a GPU: tables/gpus.ini, by the words of the cluster's name. */
#ifndef MODELS_STEP_STEP_GPU_H
#define MODELS_STEP_STEP_GPU_H

#include <glib.h>
#include <stdbool.h>

struct step_gpu {
    char *name, *tables; /* tables: the GPU whose surfaces are used for ops for which this GPU has none; NULL: no GPU */
    double bf16_tflops, fp8_tflops;
    double gemm_share; /* the share of the two rates above that large GEMMs reach */
    double small_us;   /* time of a kernel that does almost nothing */
    double gap_us;     /* from the end of a kernel to the begin of the next */
    double memory_gb;
    double memory_gbs, tables_memory_gbs;  /* rate in GB/s at which the GPU reads its memory; that of the GPU that
                                            * `tables` names */
    double clock_ghz, sustained_clock_ghz; /* the clock that is set while tables are measured; the clock under the
                                            * continuous load of whole layers, derived from the times of GEMMs */
    double tensor_clock_ghz;               /* clock of the SMs while all tensor cores work, where clock_ghz is set */
    double pause_clock_ghz;                /* clock of the SMs between GEMMs under continuous load */
    /* The power that tiles of zeros draw, and that copies of memory draw, as shares of the power of tiles of random
     * numbers. */
    double zeros_power, copies_power;
    /* Training.  core_backward: the rate of the products of attention's core backward, as a share of their rate
     * forward. fp8_wgrad: the time of a GEMM of FP8 both of whose operands have a scale for 128 numbers, over that of
     * one whose weights have a scale for 128 x 128. */
    double core_backward, fp8_wgrad;
};

/* The GPU with this name or, if name is NULL, the GPU of the cluster with the given name.  NULL and *error if there is
 * none. */
struct step_gpu *step_gpu_load(const char *name, const char *cluster, GError **error);
/* Whether the names of a device and of a cluster, such as "NVIDIA H800" and "H20 + ConnectX-7", name different GPUs.
 * False if one names no GPU that is known. */
bool step_gpu_differs(const char *device, const char *cluster);
void step_gpu_free(struct step_gpu *gpu);

#endif
