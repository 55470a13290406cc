/* step_gpu.h - what compute kernels need of a GPU: tables/gpus.ini, by the words of the cluster's name. */
#ifndef MODELS_STEP_STEP_GPU_H
#define MODELS_STEP_STEP_GPU_H

#include <glib.h>
#include <stdbool.h>

#define STEP_GPU_ERROR (g_quark_from_static_string("eptwin-step-gpu"))
enum step_gpu_error { STEP_GPU_ERROR_NAME, STEP_GPU_ERROR_KEY };

struct step_gpu {
    char *name, *tables; /* tables: whose count where it has none of an op; NULL: nobody's */
    double bf16_tflops, fp8_tflops;
    double gemm_share; /* the share of these that large GEMMs reach */
    double small_us;   /* the time of a kernel that does next to nothing */
    double gap_us;     /* from a kernel's end to the next one's begin */
    double memory_gb;
    double memory_gbs, tables_memory_gbs;  /* rate of reads: of its memory; of the memory of `tables`' GPU */
    double clock_ghz, sustained_clock_ghz; /* at which tables were measured; under the load of whole layers */
};

/* The GPU of that name, or (name NULL) of the cluster whose name is given.  NULL and *error where none is meant. */
struct step_gpu *step_gpu_load(const char *name, const char *cluster, GError **error);
void step_gpu_free(struct step_gpu *gpu);

#endif
