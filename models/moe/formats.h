/* formats.h - the number formats of the kernels: BF16, FP8 E4M3 (finite, no infinities), a scale for each 128 values,
 * LogFMT.
 *
 * Conversions round to nearest even, keep subnormals, and keep NaN as NaN.  Values beyond +-448 saturate in FP8, as
 * in the kernels' cast (PyTorch gives NaN there).  Rows are quantised in blocks of 128 (PROTOCOLS.md 1.4).  amax is the
 * block's largest magnitude, at least 1e-4.  A value x becomes x * (448 / amax), and the stored scale is amax / 448.
 * Both divisions are multiplications by the rounded reciprocal, as PyTorch does on a GPU, bit for bit.  With rounded
 * scales both factors are powers of two.  UE8M0 stores the scale's biased exponent in a byte.
 *
 * A LogFMT row (PROTOCOLS.md 1.4) begins with the largest and the smallest magnitude of each block of 128 values, amax
 * and amin, in BF16.  Pieces of 1024 values follow, or of 512 if the row is no multiple of 1024.  A piece is stored
 * with 10 bits a value if, in each of its blocks, amax is below 1 and amin is smaller than amax.  Any other piece is
 * BF16.
 *
 * With 10 bits a value, every 16 values are stored as 16 numbers of 9 bits, then their 16 signs.  The number 0 stands
 * for the value 0, and the number n for 2^(log2 amin + (n - 1) step).  The number 511 stands for amax, which determines
 * step.  If amin is below 2^-32 amax, 2^-32 amax takes its place.  Rounding is to the nearest value, not to the nearest
 * exponent.  These logarithms are right to 1e-7 and a GPU's to 2^-22, so a GPU may round a value halfway between two
 * numbers to the other one.  Needs libc only. */
#ifndef MODELS_MOE_FORMATS_H
#define MODELS_MOE_FORMATS_H

#include <stdbool.h>
#include <stdint.h>

enum { FORMATS_BLOCK = 128 };      /* values that share a scale */
enum { FORMATS_LOGS_LEAST = 512 }; /* the number of values of a row in LogFMT is a multiple of this */

uint16_t format_bf16_from_f32(float value);
float format_f32_from_bf16(uint16_t bits);
uint8_t format_e4m3_from_f32(float value);
float format_f32_from_e4m3(uint8_t bits);
uint8_t format_ue8m0_from_f32(float scale); /* scale must be a power of two */
float format_f32_from_ue8m0(uint8_t bits);

/* Quantises `hidden` BF16 values (a multiple of 128).  scales gets hidden/128 floats. */
void format_row_to_fp8(const uint16_t *row, uint32_t hidden, bool round_scale, uint8_t *out, float *scales);
/* Turns a row of format_row_to_fp8() back into BF16. */
void format_row_from_fp8(const uint8_t *row, const float *scales, uint32_t hidden, uint16_t *out);

/* Writes a BF16 row of `hidden` values (a multiple of FORMATS_LOGS_LEAST) as LogFMT.  Returns its bytes, at most
 * format_logs_bytes(hidden, false). */
uint32_t format_row_to_logs(const uint16_t *row, uint32_t hidden, uint8_t *out);
/* format_logs_row_bytes() returns the bytes of the LogFMT row that begins at `row`. format_logs_bytes() returns the
 * bytes of a row whose pieces all have 10 bits a value (`all`), or all are BF16. */
uint32_t format_logs_row_bytes(const uint8_t *row, uint32_t hidden);
uint32_t format_logs_bytes(uint32_t hidden, bool all);
/* sum[i] += weight * value i of a LogFMT row, in FP32: first multiply, then add. */
void format_logs_add(const uint8_t *row, uint32_t hidden, float weight, float *sum);
/* out[i] = bf16(sum[i]) */
void format_row_round(const float *sum, uint32_t hidden, uint16_t *out);

/* Sums rows with their weights: out[i] = bf16(sum of weight[j] * rows[j][i]).  The sum is in FP32.  It starts at 0,
 * takes j in ascending order, and first multiplies, then adds (never fused).  If weight is NULL, nothing is multiplied.
 * rows has row_count pointers to `hidden` BF16 values. */
void format_rows_reduce(const uint16_t *const *rows, const float *weight, uint32_t row_count, uint32_t hidden,
                        uint16_t *out);

#endif
