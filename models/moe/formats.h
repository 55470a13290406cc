/* formats.h - the number formats of the kernels: BF16, FP8 E4M3 (finite, no infinities), per-128 scales, LogFMT.
 *
 * Conversions are exact: round to nearest even, subnormals kept, NaN preserved as NaN; to FP8 values beyond
 * +-448 saturate (as the kernels' cast does; PyTorch gives NaN there).  Rows are quantised in blocks of 128
 * (PROTOCOLS.md 1.4): amax >= 1e-4, x * (448 / amax), stored scale amax / 448, both divisions as a multiplication by
 * the rounded reciprocal (as PyTorch does on a GPU, bit for bit); with rounded scales both are powers of two; UE8M0
 * stores the scale's biased exponent in a byte.
 *
 * A LogFMT row (PROTOCOLS.md 1.4) is, in order, amax and amin of each 128 values, BF16, and its pieces one behind
 * another: of 1024 values, or of 512 where the row is no multiple of 1024.  A piece in which each 128 values stay below
 * 1 and differ in magnitude is 10 bits a value: 16 numbers of 9 bits, then their 16 signs.  0 is 0; n is
 * 2^(log2 amin + (n - 1) step), amin at least 2^-32 amax, step such that 511 is amax; rounding is to the nearest value,
 * not to the nearest exponent.  Any other piece is BF16.  The logarithms are right to 1e-7, those of a GPU to 2^-22, so
 * that a value between two numbers may become the other one there.  Needs libc only. */
#ifndef MODELS_MOE_FORMATS_H
#define MODELS_MOE_FORMATS_H

#include <stdbool.h>
#include <stdint.h>

enum { FORMATS_BLOCK = 128 };      /* values that share a scale */
enum { FORMATS_LOGS_LEAST = 512 }; /* a row in LogFMT has a multiple of this many values */

uint16_t format_bf16_from_f32(float value);
float format_f32_from_bf16(uint16_t bits);
uint8_t format_e4m3_from_f32(float value);
float format_f32_from_e4m3(uint8_t bits);
uint8_t format_ue8m0_from_f32(float scale); /* scale: a power of two */
float format_f32_from_ue8m0(uint8_t bits);

/* Quantises hidden (a multiple of 128) BF16 values.  scales gets hidden/128 floats. */
void format_row_to_fp8(const uint16_t *row, uint32_t hidden, bool round_scale, uint8_t *out, float *scales);
/* The inverse, to BF16. */
void format_row_from_fp8(const uint8_t *row, const float *scales, uint32_t hidden, uint16_t *out);

/* A BF16 row of hidden values (a multiple of FORMATS_LOGS_LEAST) as LogFMT.  Returns its bytes, at most
 * format_logs_bytes(hidden, false). */
uint32_t format_row_to_logs(const uint16_t *row, uint32_t hidden, uint8_t *out);
/* The bytes of the LogFMT row at row, from its beginning; the bytes of a row whose pieces are all of 10 bits, or
 * none. */
uint32_t format_logs_row_bytes(const uint8_t *row, uint32_t hidden);
uint32_t format_logs_bytes(uint32_t hidden, bool all);
/* sum[i] += weight * value i of a LogFMT row, in FP32, multiply then add. */
void format_logs_add(const uint8_t *row, uint32_t hidden, float weight, float *sum);
/* out[i] = bf16(sum[i]) */
void format_row_round(const float *sum, uint32_t hidden, uint16_t *out);

/* out[i] = bf16(sum over j ascending of weight[j] * row[j][i]), in FP32, multiply then add (never fused), starting at
 * 0.  weight may be NULL: all one, no multiply.  rows: row_count pointers to hidden BF16 values. */
void format_rows_reduce(const uint16_t *const *rows, const float *weight, uint32_t row_count, uint32_t hidden,
                        uint16_t *out);

#endif
