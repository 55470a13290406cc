/* costs.h - the times of a step's compute kernels on a rank, from tables or, for ops that no table has, from a
 * roofline.
 *
 * The user's own table takes precedence over the shipped one.  In a table, the GPU's own surfaces take precedence
 * over those of the GPU whose tables it uses (tables/gpus.ini).  A roofline is the longer of two times, one for
 * arithmetic (at the share of the data sheet's rate that large GEMMs reach) and one for bytes (at the cluster file's
 * rates of HBM).  The time of an empty kernel is added for each kernel of the op.  For times from tables, too, the
 * roofline gives the power, the bytes, and the share of time that depends on the clock.
 *
 * Tables are measured with equally many rows for each expert.  Drawn rows begin more tiles, so they take longer. */
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
    bool prefill;                              /* the step is prefill or training */
    bool train;
    bool fp8;                   /* GEMMs are FP8; else BF16 */
    bool contiguous;            /* experts' rows have no gaps (normal kernels); false: each expert has room for the
                                 * rows of each source (low latency) */
    uint32_t attention_tp;      /* how many ranks share attention's heads and its sequences */
    double context;             /* tokens of a sequence */
    double read_gbs, write_gbs; /* rates of the GPU's memory, in GB/s */
    double clock_ghz;           /* clock under continuous load; 0: the clock at which the tables were measured */
    uint32_t sms, leave_sms;    /* SMs of the GPU; how many of them are left to communication (in inference by experts'
                                 * GEMMs, in training by all GEMMs and attention) */
    const struct program_work *work; /* timed work in place of kernels; the fields above are then not used.  NULL: no
                                      * timed work */
};

/* Checks that steps ask for every op of the table.  False and *error if the table has another op. */
bool costs_table_check(const struct compute_table *table, const char *source, GError **error);

/* The rows that come to a rank's experts, and their number when each expert's rows are filled up to whole tiles: a
 * grouped GEMM computes a whole tile even if an expert's last rows only begin it.  tokens: how many tokens they are of.
 * Normal kernels bring a token to a rank once, for all of its experts there. */
struct costs_rows {
    double all, tiled, tokens;
};
uint32_t costs_tile_rows(const struct costs_options *o);

/* The clock of the tables over the clock under continuous load.  It is at least 1. */
double costs_clock_lift(const struct costs_options *o);

/* The clock of the SMs, divided by the set clock, at which communication kernels were measured.  clock: the rank's
 * clock over the nominal one (device_clock()).  tensor: the share of all tensor cores' rate that is in use.  The larger
 * this share is, the lower is the clock, within 20 us and at any power. */
double costs_sm_clock(const struct costs_options *o, double clock, double tensor);

/* The cost of a layer's op on a rank with `tokens` tokens and `experts` experts.  rows: the rows that come to these
 * experts.  rows and experts count only for ops of experts.  In a backward pass each GEMM becomes two of its size,
 * dgrad and wgrad.  Attention's core has five products in dgrad instead of two.  Ops without weights take as long as
 * forward. */
struct step_cost costs_of(const struct costs_options *o, enum step_op op, enum step_pass pass, double tokens,
                          struct costs_rows rows, double experts);

/* The floating-point operations of GEMMs and attention that training on `tokens` needs in all layers: three times those
 * of the forward pass.  What a kernel computes again does not count. */
double costs_train_flops(const struct costs_options *o, double tokens);

/* The cost of a GEMM of rows by k by n on all SMs.  With experts > 0, the cost of one kernel with that many such
 * GEMMs. o needs no net. */
struct step_cost costs_of_gemm(const struct costs_options *o, uint32_t experts, uint32_t rows, uint32_t k, uint32_t n);

/* The bytes of weights on a GPU; and the bytes of its key-value cache for `tokens` tokens of each GPU's batch.  In
 * decode each of these tokens is of another sequence. */
double costs_weight_bytes(const struct costs_options *o, uint32_t ranks, uint32_t experts);
double costs_cache_bytes(const struct costs_options *o, double tokens);

#endif
