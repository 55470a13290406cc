/* formats.c - BF16 and FP8 E4M3 conversions and the two row operations that the kernels do with them: quantise
 * in blocks of 128 and sum rows in FP32.
 *
 * Every conversion is a straight line of integer operations on the bit pattern, so that compilers vectorise the
 * loops and the rounding does not depend on the rounding mode's library.  Knows nothing of tokens, ranks or
 * slots. */
#include "models/moe/formats.h"

#include <assert.h>
#include <string.h>

/* Bit patterns of FP32: the sign, infinity, the quiet NaN that conversions give. */
#define F32_SIGN     UINT32_C(0x80000000)
#define F32_INFINITY UINT32_C(0x7f800000)

/* E4M3: exponent bias 7, largest 448 = 0x7e, NaN 0x7f, smallest normal 2^-6, subnormals multiples of 2^-9. */
#define E4M3_MAX     448.0f
#define E4M3_NAN     0x7f
#define AMAX_MIN     1e-4f

static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_make(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* All ones where condition holds: selections without branches, whatever the optimiser thinks of them.
 * Comparisons are signed, as narrow vector units have no others. */
static inline uint32_t mask_greater(uint32_t a, uint32_t b) { return (uint32_t) - ((int32_t)a > (int32_t)b); }

static inline uint32_t select(uint32_t mask, uint32_t yes, uint32_t no) { return (yes & mask) | (no & ~mask); }

static inline uint16_t bf16_round(uint32_t bits)
{
    const uint32_t nan = mask_greater(bits & ~F32_SIGN, F32_INFINITY);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)select(nan, 0x7fc0, rounded);
}

static inline uint8_t e4m3_round(uint32_t bits)
{
    const uint32_t sign = bits >> 24 & 0x80;
    const uint32_t magnitude = bits & ~F32_SIGN;
    const uint32_t nan = mask_greater(magnitude, F32_INFINITY);
    const uint32_t limit = UINT32_C(0x43e00000); /* 448 */
    const uint32_t clamped = select(mask_greater(magnitude, limit), limit, magnitude);
    /* Normal: rebias by 7 - 127, round the 20 bits that go to nearest even; a carry moves the exponent up. */
    const uint32_t normal = (clamped - (UINT32_C(120) << 23) + 0x7ffff + (clamped >> 20 & 1)) >> 20;
    /* Subnormal: at 2^14 an FP32 unit is 2^-9, so the addition itself rounds to the multiple wanted. */
    const uint32_t small = f32_bits(f32_make(clamped) + 16384.0f) - f32_bits(16384.0f);
    const uint32_t code = select(mask_greater(UINT32_C(121) << 23, clamped), small, normal);
    return (uint8_t)(sign | select(nan, E4M3_NAN, code));
}

static inline uint32_t e4m3_widen(uint8_t code)
{
    const uint32_t sign = (uint32_t)(code & 0x80) << 24;
    const uint32_t magnitude = code & 0x7f;
    const uint32_t normal = (magnitude << 20) + (UINT32_C(120) << 23);
    const uint32_t small = f32_bits((float)(int32_t)magnitude * 0x1p-9f);
    const uint32_t value = select(mask_greater(8, magnitude), small, normal);
    return sign | select(mask_greater(magnitude, E4M3_NAN - 1), UINT32_C(0x7fc00000), value);
}

uint16_t format_bf16_from_f32(float value) { return bf16_round(f32_bits(value)); }

float format_f32_from_bf16(uint16_t bits) { return f32_make((uint32_t)bits << 16); }

uint8_t format_e4m3_from_f32(float value) { return e4m3_round(f32_bits(value)); }

float format_f32_from_e4m3(uint8_t bits) { return f32_make(e4m3_widen(bits)); }

uint8_t format_ue8m0_from_f32(float scale)
{
    const uint32_t bits = f32_bits(scale);
    assert((bits & ~F32_INFINITY) == 0); /* positive, a power of two */
    return (uint8_t)(bits >> 23);
}

float format_f32_from_ue8m0(uint8_t bits) { return f32_make((uint32_t)bits << 23); }

/* The largest magnitude of a block, NaN left out as fmaxf() does, at least AMAX_MIN.  Magnitudes of BF16 are
 * ordered as their bit patterns are. */
static float block_amax(const uint16_t *block)
{
    int16_t most = 0;
    for (uint32_t i = 0; i < FORMATS_BLOCK; i++) {
        const int16_t magnitude = (int16_t)(block[i] & 0x7fff);
        const int16_t number = (int16_t)(magnitude & -(magnitude <= 0x7f80));
        most = number > most ? number : most;
    }
    const float amax = format_f32_from_bf16((uint16_t)most);
    return amax > AMAX_MIN ? amax : AMAX_MIN;
}

/* The smallest power of two that is not below value (positive, normal). */
static float power_of_two_above(float value)
{
    const uint32_t bits = f32_bits(value);
    return f32_make((bits + 0x7fffff) & F32_INFINITY);
}

void format_row_to_fp8(const uint16_t *restrict row, uint32_t hidden, bool round_scale, uint8_t *restrict out,
                       float *restrict scales)
{
    assert(hidden % FORMATS_BLOCK == 0);
    for (uint32_t block = 0; block < hidden / FORMATS_BLOCK; block++) {
        const uint16_t *from = row + (size_t)block * FORMATS_BLOCK;
        uint8_t *to = out + (size_t)block * FORMATS_BLOCK;
        const float amax = block_amax(from);
        const float exact = amax * (1.0f / E4M3_MAX);
        const float stored = round_scale ? power_of_two_above(exact) : exact;
        const float factor = round_scale ? 1.0f / stored : 1.0f / amax * E4M3_MAX;
        for (uint32_t i = 0; i < FORMATS_BLOCK; i++)
            to[i] = e4m3_round(f32_bits(f32_make((uint32_t)from[i] << 16) * factor));
        scales[block] = stored;
    }
}

void format_row_from_fp8(const uint8_t *restrict row, const float *restrict scales, uint32_t hidden,
                         uint16_t *restrict out)
{
    assert(hidden % FORMATS_BLOCK == 0);
    for (uint32_t block = 0; block < hidden / FORMATS_BLOCK; block++) {
        const uint8_t *from = row + (size_t)block * FORMATS_BLOCK;
        uint16_t *to = out + (size_t)block * FORMATS_BLOCK;
        const float scale = scales[block];
        for (uint32_t i = 0; i < FORMATS_BLOCK; i++)
            to[i] = bf16_round(f32_bits(f32_make(e4m3_widen(from[i])) * scale));
    }
}

enum { REDUCE_PIECE = 256 }; /* sums kept in registers and the first cache level */

static void piece_add(float *restrict sum, const uint16_t *restrict row)
{
    for (uint32_t i = 0; i < REDUCE_PIECE; i++) sum[i] += f32_make((uint32_t)row[i] << 16);
}

static void piece_add_weighted(float *restrict sum, const uint16_t *restrict row, float weight)
{
    for (uint32_t i = 0; i < REDUCE_PIECE; i++) {
        const float product = f32_make((uint32_t)row[i] << 16) * weight;
        sum[i] += product;
    }
}

static void piece_round(const float *restrict sum, uint16_t *restrict out)
{
    for (uint32_t i = 0; i < REDUCE_PIECE; i++) out[i] = bf16_round(f32_bits(sum[i]));
}

/* What is left of a row that is no multiple of the piece, one value at a time. */
static void tail_reduce(const uint16_t *const *rows, const float *weight, uint32_t row_count, uint32_t start,
                        uint32_t hidden, uint16_t *out)
{
    for (uint32_t i = start; i < hidden; i++) {
        float sum = 0;
        for (uint32_t j = 0; j < row_count; j++) {
            const float value = format_f32_from_bf16(rows[j][i]);
            const float product = weight ? value * weight[j] : value;
            sum += product;
        }
        out[i] = format_bf16_from_f32(sum);
    }
}

void format_rows_reduce(const uint16_t *const *rows, const float *weight, uint32_t row_count, uint32_t hidden,
                        uint16_t *out)
{
    uint32_t start = 0;
    for (; start + REDUCE_PIECE <= hidden; start += REDUCE_PIECE) {
        float sum[REDUCE_PIECE] = { 0 };
        for (uint32_t j = 0; j < row_count; j++) {
            if (weight) piece_add_weighted(sum, rows[j] + start, weight[j]);
            else piece_add(sum, rows[j] + start);
        }
        piece_round(sum, out + start);
    }
    tail_reduce(rows, weight, row_count, start, hidden, out);
}
