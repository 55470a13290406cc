/* costs.h - the times of a step's compute kernels on a rank: from tables, else from a roofline.
 *
 * The user's own table counts before the shipped one, and the GPU's own surfaces before those of the GPU whose tables
 * it uses (tables/gpus.ini).  A roofline is the longer of two times, for arithmetic (at the share of the data sheet's
 * rate that large GEMMs reach) and for bytes (at the cluster file's rates of HBM), and a few empty kernels.  For times
 * of tables it also gives the share that depends on the clock, the power, and the bytes.  Tables are of experts with
 * equally many rows; drawn ones begin more tiles. */
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
    const struct compute_table *own, *shipped; /* own: the user's table; NULL: none */
    bool prefill;                              /* or training */
    bool train;
    bool fp8;                   /* GEMMs are FP8; else BF16 */
    bool contiguous;            /* experts' rows have no gaps (normal kernels); else they are by expert and source (low
                            * latency) */
    uint32_t attention_tp;      /* ranks that share attention's heads, and its sequences */
    double context;             /* tokens of a sequence */
    double read_gbs, write_gbs; /* of its memory */
    double clock_ghz;           /* clock under continuous load; 0: that at which the tables were measured */
    uint32_t sms, leave_sms;    /* of the GPU; that GEMMs leave (of experts; training: all) */
    const struct program_work *work; /* timed work in place of kernels: then the above is not used; NULL: none */
};

/* False and *error where a table has rows of an op that no step asks for. */
bool costs_table_check(const struct compute_table *table, const char *source, GError **error);

/* Rows that come to a rank's experts, and those with each expert's filled up to whole tiles: a grouped GEMM computes a
 * tile that an expert's last rows begin. */
struct costs_rows {
    double all, tiled;
};
uint32_t costs_tile_rows(const struct costs_options *o);

/* How much faster than under continuous load the clock can be: up to that of the tables. */
double costs_clock_lift(const struct costs_options *o);

/* The op of a layer for `tokens` of the rank, of which `rows` come to its `experts` (ops of experts alone).  In a
 * backward pass each GEMM has two as large as itself, dgrad and wgrad, and attention's core, in dgrad, five products
 * for two; what has no weights takes as long as forward. */
struct step_cost costs_of(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                          struct costs_rows rows, double experts);

/* Operations of GEMMs and attention that training the net on `tokens` asks for, in all layers: three times those of the
 * forward pass.  What a kernel computes again does not count. */
double costs_train_flops(const struct costs_options *o, double tokens);

/* The cost of a GEMM of rows by k by n on all SMs, or (experts > 0) of as many of these in one kernel.  Needs no
 * net. */
struct step_cost costs_of_gemm(const struct costs_options *o, uint32_t experts, uint32_t rows, uint32_t k, uint32_t n);

/* Bytes of weights on a GPU, and of the cache. */
double costs_weight_bytes(const struct costs_options *o, uint32_t ranks, uint32_t experts);
double costs_cache_bytes(const struct costs_options *o, double tokens);

#endif
