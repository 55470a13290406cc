/* costs.h - what the compute kernels of a step take on a rank: from tables, else from a roofline.
 *
 * The user's own table counts before the shipped one, the GPU's own surfaces before those of the GPU whose tables count
 * for it (tables/gpus.ini).  A roofline is the longer of arithmetic (at the share of the data sheet's rate that large
 * GEMMs reach) and of bytes (at the cluster file's rates of HBM), and a few empty kernels.  It also says, for times of
 * tables, which share of them feels the clock, and the bytes. */
#ifndef MODELS_STEP_COSTS_H
#define MODELS_STEP_COSTS_H

#include <stdbool.h>
#include <stdint.h>
#include "models/step/compute_table.h"
#include "models/step/device.h"
#include "models/step/net.h"
#include "models/step/program.h"
#include "models/step/schedule.h"
#include "models/step/step_gpu.h"

struct costs_options {
    const struct net *net;
    const struct step_gpu *gpu;
    const struct compute_table *own, *shipped; /* own: the user's; NULL: none */
    bool prefill;                              /* or training */
    bool train;
    bool fp8;              /* GEMMs of FP8, else BF16 */
    bool contiguous;       /* rows of experts without gaps (normal kernels), else by expert and source (low latency) */
    uint32_t attention_tp; /* ranks that share the heads of attention, and its sequences */
    double context;        /* tokens of a sequence */
    double read_gbs, write_gbs;      /* of its memory */
    double clock_ghz;                /* of the tensor cores' load; 0: at which the tables were measured */
    uint32_t sms, leave_sms;         /* of the GPU; that GEMMs leave (of experts; training: all) */
    const struct program_work *work; /* timed work in place of kernels: then nothing above counts; NULL: none */
};

/* False and *error where a table has rows of an op that no step asks for. */
bool costs_table_check(const struct compute_table *table, const char *source, GError **error);

/* The op of a layer for `tokens` of the rank, of which `rows` come to its `experts` (ops of experts alone).  In a
 * backward pass each GEMM has two as large as itself, dgrad and wgrad, and attention's core, in dgrad, five products
 * for two; what has no weights takes as long as forward. */
struct step_cost costs_of(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                          double rows, double experts);

/* Operations of GEMMs and attention that training the net on `tokens` asks for, in all layers: three times those of the
 * forward pass.  What a kernel computes again does not count. */
double costs_train_flops(const struct costs_options *o, double tokens);

/* A GEMM of rows by k by n on all SMs, or (experts > 0) as many of these in one kernel.  Needs no net. */
struct step_cost costs_of_gemm(const struct costs_options *o, uint32_t experts, uint32_t rows, uint32_t k, uint32_t n);

/* Bytes of weights and of the cache on a GPU. */
double costs_weight_bytes(const struct costs_options *o, uint32_t ranks, uint32_t experts);
double costs_cache_bytes(const struct costs_options *o, double tokens);

#endif
