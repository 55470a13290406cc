/* cuda_waits.h - private to `eptwin measure --fabric cuda`: passes that measure how long kernels wait, and
 * work that the host gives to a GPU. */
#ifndef REPLAY_CUDA_WAITS_H
#define REPLAY_CUDA_WAITS_H

#include "replay/cuda/cuda_bench.h"

bool cuda_clock_pass(struct cuda_bench *b, GError **error);
bool cuda_launch_pass(struct cuda_bench *b, GError **error);
bool cuda_alone_pass(struct cuda_bench *b, GError **error);
bool cuda_chase_pass(struct cuda_bench *b, GError **error);
bool cuda_after_pass(struct cuda_bench *b, GError **error);
bool cuda_flag_pass(struct cuda_bench *b, GError **error);
bool cuda_adding_pass(struct cuda_bench *b, GError **error);
bool cuda_barrier_pass(struct cuda_bench *b, GError **error);

/* These functions measure how long GPU 0 waits for the memory of GPU `peer`, which may be itself. */
bool cuda_alone_to(struct cuda_bench *b, uint32_t peer, GError **error);
bool cuda_chase_to(struct cuda_bench *b, uint32_t peer, GError **error);
bool cuda_after_to(struct cuda_bench *b, uint32_t peer, GError **error);
bool cuda_adding_to(struct cuda_bench *b, uint32_t peer, GError **error);

/* Both measure GPU 0's reads of its own memory that GPU `writer` has just written.  The first reads rows, and then
 * calls the second, which reads single lines. */
bool cuda_fresh_from(struct cuda_bench *b, uint32_t writer, const char *place, GError **error);
bool cuda_chase_fresh(struct cuda_bench *b, uint32_t writer, const char *place, GError **error);

/* Makes the two runs in which a flag goes to and fro between the first two GPUs.  The caller may run other work at the
 * same time. */
void cuda_flag_runs(struct cuda_bench *b, const char *kernel, uint32_t blocks, uint32_t threads, uint32_t bytes,
                    uint32_t rounds, struct cuda_run run[2]);

bool cuda_host_pass(struct cuda_bench *b, GError **error);
/* Measures copies to the second GPU's memory, and a flag that goes to and fro between streams of two GPUs. */
bool cuda_host_to_pass(struct cuda_bench *b, GError **error);
/* Measures dense GEMMs of cuBLASLt.  Gives no values if cuBLASLt cannot be opened. */
bool cuda_gemm_pass(struct cuda_bench *b, GError **error);

#endif
