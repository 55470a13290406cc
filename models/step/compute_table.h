/* compute_table.h - measured times of compute kernels by op, GPU, type, shape, tokens and context.
 *
 * A table is CSV with the columns op, gpu, dtype, shape, tokens, context, us, in any order; others are not read.  It
 * may be compressed by zstd.  The meaning of an op's columns:
 *
 *     op                    shape            tokens            context
 *     mla_decode            heads            sequences         tokens of each in the cache
 *     mla_prefill           heads            sequences         new tokens of each
 *     gqa_decode, _prefill  heads/kv/size    sequences         as for mla
 *     experts_masked        hidden x inter   rows of the rank  its experts (both GEMMs, low latency's layout)
 *     experts_contiguous    hidden x inter   rows of the rank  its experts (both GEMMs, rows without gaps)
 *     shared_expert         hidden x inter   tokens            1
 *     gemm                  k x n            rows              1
 *     grouped               k x n            rows of the rank  its experts
 *     attention, gate, ...  hidden           tokens            1           (a step's ops by their names, schedule.h)
 *     up, down, order, ...  hidden           rows of the rank  its experts (a step's ops that see experts' rows)
 *     up_dgrad, up_wgrad, ...: likewise in a backward pass, for the gradients of its input and of its weights
 *
 * The times of an op, GPU, type and shape are a surface over tokens and context. */
#ifndef MODELS_STEP_COMPUTE_TABLE_H
#define MODELS_STEP_COMPUTE_TABLE_H

#include <glib.h>
#include <stdbool.h>

struct compute_table;

/* Loads a table, or makes one of the GEMMs in a record of `eptwin measure --fabric cuda`.  NULL and *error,
 * "path:line: column: expected ..., found ...", on failure: a column or a value is missing, there are no rows, a
 * number is not positive, or a point has two different times. */
struct compute_table *compute_table_load(const char *path, GError **error);
struct compute_table *compute_table_parse(const char *source, const char *text, size_t size_bytes, GError **error);
/* The alphabetically first op of the table that is not in `ops`.  NULL: all are.  Free with g_free(). */
char *compute_table_stranger(const struct compute_table *table, const char *const *ops);
void compute_table_free(struct compute_table *table);

struct compute_point {
    const char *op, *gpu, *dtype, *shape;
    double tokens, context;
};

/* The time of the point in us.  It is interpolated in the logarithms of tokens, context and time: along tokens at the
 * two nearest contexts, then between these.  Below the smallest point it is that point's time.  Above the largest, time
 * grows with tokens as between the last two points, and in proportion to the context.  *beyond: whether the point is
 * outside the measured ones.  NAN: the table has no such surface. */
double compute_table_us(const struct compute_table *table, const struct compute_point *point, bool *beyond);
/* The largest number of tokens that was measured on the point's surface.  NAN: the table has no such surface. */
double compute_table_last(const struct compute_table *table, const struct compute_point *point);

#endif
