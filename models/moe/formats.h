/* formats.h - the number formats of the kernels: BF16, FP8 E4M3 (finite, no infinities), per-128 scales.
 *
 * Conversions are exact: round to nearest even, subnormals kept, NaN preserved as NaN; to FP8 values beyond
 * +-448 saturate (as the kernels' cast does; PyTorch gives NaN there).  Rows are quantised in blocks of 128
 * (PROTOCOLS.md 1.4): amax >= 1e-4, x * (448 / amax), stored scale amax / 448, both divisions as a multiplication by
 * the rounded reciprocal (as PyTorch does on a GPU, bit for bit); with rounded scales both are powers of two; UE8M0
 * stores the scale's biased exponent in a byte.  Needs libc only. */
#ifndef MODELS_MOE_FORMATS_H
#define MODELS_MOE_FORMATS_H

#include <stdbool.h>
#include <stdint.h>

enum { FORMATS_BLOCK = 128 }; /* values that share a scale */

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

/* out[i] = bf16(sum over j ascending of weight[j] * row[j][i]), in FP32, multiply then add (never fused), starting at
 * 0.  weight may be NULL: all one, no multiply.  rows: row_count pointers to hidden BF16 values. */
void format_rows_reduce(const uint16_t *const *rows, const float *weight, uint32_t row_count, uint32_t hidden,
                        uint16_t *out);

#endif
