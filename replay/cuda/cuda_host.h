/* cuda_host.h - private to `eptwin measure --fabric cuda`: benchmarks of work that the host gives to a GPU. */
#ifndef REPLAY_CUDA_HOST_H
#define REPLAY_CUDA_HOST_H

#include "replay/cuda/cuda_bench.h"

bool cuda_host_pass(struct cuda_bench *b, GError **error);
/* Measures copies to the second GPU's memory, and a flag that goes to and fro between streams of two GPUs. */
bool cuda_host_to_pass(struct cuda_bench *b, GError **error);
/* Measures dense GEMMs of cuBLASLt.  Gives no values if cuBLASLt cannot be opened. */
bool cuda_gemm_pass(struct cuda_bench *b, GError **error);

#endif
