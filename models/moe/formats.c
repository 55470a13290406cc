/* formats.c - conversions of BF16 and FP8 E4M3, and what the kernels do with rows: quantise in blocks of 128 values,
 * turn into logarithms and back, and sum in FP32.
 *
 * Conversions of BF16 and FP8 work on bit patterns, without branches.  So compilers vectorise the loops.  Rounding is
 * done by integer operations, except for subnormals of FP8, which an FP32 addition rounds.  Knows nothing of tokens,
 * ranks or slots. */
#include "models/moe/formats.h"

#include <assert.h>
#include <string.h>

/* Bit patterns of FP32: the sign and infinity. */
#define F32_SIGN     UINT32_C(0x80000000)
#define F32_INFINITY UINT32_C(0x7f800000)

/* E4M3 has an exponent bias of 7.  Its largest value is 448 (0x7e), and NaN is 0x7f.  The smallest normal value is
 * 2^-6, and subnormals are multiples of 2^-9. */
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

/* Returns all ones if a > b, else 0.  With this mask select() needs no branch.  The comparison is signed, because
 * narrow vector units have no unsigned one. */
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
    /* A normal value: the exponent's bias changes from 127 to 7.  20 bits are dropped, with rounding to nearest even.
     * A carry raises the exponent. */
    const uint32_t normal = (clamped - (UINT32_C(120) << 23) + 0x7ffff + (clamped >> 20 & 1)) >> 20;
    /* A subnormal value: near 2^14 FP32's last bit is worth 2^-9, so the addition itself rounds to a multiple of
     * 2^-9. */
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
    assert((bits & ~F32_INFINITY) == 0); /* the scale is positive and a power of two */
    return (uint8_t)(bits >> 23);
}

float format_f32_from_ue8m0(uint8_t bits) { return f32_make((uint32_t)bits << 23); }

/* Returns the largest magnitude of a block, at least AMAX_MIN.  NaN does not count, as with fmaxf().  Magnitudes of
 * BF16 are ordered like their bit patterns. */
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

/* The smallest power of two that is at least `value`, a positive normal number. */
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

enum { REDUCE_PIECE = 256 }; /* values that are summed together: their sums stay in registers and the L1 cache */

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

/* Sums the end of a row that is shorter than a piece, value by value. */
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

/* ---- LogFMT ---- */

enum { LOGS_GROUP = 16, LOGS_GROUP_BYTES = 20, LOGS_BITS = 9, LOGS_MOST = (1 << LOGS_BITS) - 1, LOGS_META_BYTES = 4 };
#define LOGS_CLIP 32.0f /* amin counts as at least 2^-32 amax */

/* log2 of a value that is not negative, by the series of atanh, accurate to 1e-9 before it is rounded to float.  log2
 * of 0 is minus infinity; log2 of NaN and of infinity is infinity. */
static float log2_of(float value)
{
    const uint32_t bits = f32_bits(value);
    if (bits == 0) return f32_make(F32_SIGN | F32_INFINITY);
    if (bits >= F32_INFINITY) return f32_make(F32_INFINITY);
    const float whole = bits >> 23 ? value : value * 0x1p24f; /* makes subnormals normal */
    const int32_t shift = bits >> 23 ? 0 : 24;
    const uint32_t middle = f32_bits(whole) - UINT32_C(0x3f3504f3); /* the value's bits minus those of sqrt(1/2) */
    const int32_t exponent = (int32_t)middle >> 23;
    const double mantissa = (double)f32_make(f32_bits(whole) - (uint32_t)exponent * (UINT32_C(1) << 23));
    const double s = (mantissa - 1) / (mantissa + 1), square = s * s;
    const double series = s * (1 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7 + square / 9))));
    return (float)(series * 2.8853900817779268 + (exponent - shift)); /* 2 / ln 2 */
}

/* 2^x for -1000 < x < 127, with a relative error below 1e-8 before it is rounded to float. */
static float exp2_of(float x)
{
    assert(x > -1000.0f && x < 127.0f);
    const int32_t whole = (int32_t)(x + 1024.5f) - 1024;
    const double r = ((double)x - whole) * 0.69314718055994531;
    const double series =
        1 + r * (1 + r / 2 * (1 + r / 3 * (1 + r / 4 * (1 + r / 5 * (1 + r / 6 * (1 + r / 7 * (1 + r / 8)))))));
    const uint64_t scale_bits = (uint64_t)(whole + 1023) << 52;
    double scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    return (float)(series * scale);
}

/* How the numbers of a block of 128 values are decoded. */
struct logs_block {
    float amax_log, amin_log, step;
    bool fits;
};

static struct logs_block logs_block_of(uint16_t amax, uint16_t amin)
{
    const float amax_log = log2_of(format_f32_from_bf16(amax)), least = amax_log - LOGS_CLIP;
    const float log = log2_of(format_f32_from_bf16(amin)), amin_log = log > least ? log : least;
    return (struct logs_block){ .amax_log = amax_log,
                                .amin_log = amin_log,
                                .step = (amax_log - amin_log) / (float)(LOGS_MOST - 1),
                                .fits = amax_log < 0 && amin_log < amax_log };
}

/* Finds the smallest and the largest magnitude in the block.  NaN does not count.  Magnitudes of BF16 are ordered like
 * their bit patterns. */
static void block_range(const uint16_t *block, uint16_t *amax, uint16_t *amin)
{
    *amax = 0;
    *amin = 0x7f80;
    for (uint32_t i = 0; i < FORMATS_BLOCK; i++) {
        const uint16_t magnitude = block[i] & 0x7fff;
        if (magnitude > 0x7f80) continue;
        *amax = magnitude > *amax ? magnitude : *amax;
        *amin = magnitude < *amin ? magnitude : *amin;
    }
}

static void logs_meta_write(uint8_t *meta, uint16_t amax, uint16_t amin)
{
    memcpy(meta, &amax, sizeof amax);
    memcpy(meta + sizeof amax, &amin, sizeof amin);
}

static struct logs_block logs_meta_read(const uint8_t *row, uint32_t block)
{
    uint16_t both[2];
    memcpy(both, row + (size_t)block * LOGS_META_BYTES, sizeof both);
    return logs_block_of(both[0], both[1]);
}

static uint32_t logs_piece(uint32_t hidden) { return hidden % 1024 ? FORMATS_LOGS_LEAST : 1024; }

/* Whether all blocks of a piece can be stored as logarithms. */
static bool logs_piece_fits(const uint8_t *row, uint32_t first, uint32_t values)
{
    bool fits = true;
    for (uint32_t i = first; i < first + values; i += FORMATS_BLOCK)
        fits = fits && logs_meta_read(row, i / FORMATS_BLOCK).fits;
    return fits;
}

/* Writes 16 values: their numbers of 9 bits one after another, the lowest bits first, then their signs.  A NaN becomes
 * 0. */
static void logs_group_write(const uint16_t *from, float inverse, float rounding, uint8_t *to)
{
    uint64_t word = 0;
    uint32_t filled = 0, signs = 0;
    for (uint32_t i = 0; i < LOGS_GROUP; i++) {
        const uint16_t magnitude = from[i] & 0x7fff;
        const float number = log2_of(format_f32_from_bf16(magnitude)) * inverse + rounding;
        const uint32_t code = number < 1 || magnitude > 0x7f80 ? 0 : number < LOGS_MOST ? (uint32_t)number : LOGS_MOST;
        signs |= (uint32_t)(from[i] >> 15) << i;
        word |= (uint64_t)code << filled;
        for (filled += LOGS_BITS; filled >= 8; filled -= 8, word >>= 8) *to++ = (uint8_t)word;
    }
    *to++ = (uint8_t)signs;
    *to = (uint8_t)(signs >> 8);
}

/* Writes a block.  Returns the place after it. */
static uint8_t *logs_block_write(const uint16_t *from, const struct logs_block *b, uint8_t *to)
{
    const float inverse = 1.0f / b->step;
    const float rounding = 2.0f - log2_of((1.0f + exp2_of(b->step)) * 0.5f) * inverse - b->amin_log * inverse;
    for (uint32_t i = 0; i < FORMATS_BLOCK; i += LOGS_GROUP, to += LOGS_GROUP_BYTES)
        logs_group_write(from + i, inverse, rounding, to);
    return to;
}

uint32_t format_row_to_logs(const uint16_t *row, uint32_t hidden, uint8_t *out)
{
    assert(hidden % FORMATS_LOGS_LEAST == 0);
    const uint32_t piece = logs_piece(hidden);
    uint8_t *to = out + (size_t)hidden / FORMATS_BLOCK * LOGS_META_BYTES;
    for (uint32_t i = 0; i < hidden; i += FORMATS_BLOCK) {
        uint16_t amax, amin;
        block_range(row + i, &amax, &amin);
        logs_meta_write(out + i / FORMATS_BLOCK * LOGS_META_BYTES, amax, amin);
    }
    for (uint32_t first = 0; first < hidden; first += piece) {
        const bool fits = logs_piece_fits(out, first, piece);
        if (!fits) {
            memcpy(to, row + first, 2 * (size_t)piece);
            to += 2 * (size_t)piece;
        }
        for (uint32_t i = first; fits && i < first + piece; i += FORMATS_BLOCK) {
            const struct logs_block block = logs_meta_read(out, i / FORMATS_BLOCK);
            to = logs_block_write(row + i, &block, to);
        }
    }
    return (uint32_t)(to - out);
}

uint32_t format_logs_bytes(uint32_t hidden, bool all)
{
    return hidden / FORMATS_BLOCK * LOGS_META_BYTES + (all ? hidden / LOGS_GROUP * LOGS_GROUP_BYTES : 2 * hidden);
}

uint32_t format_logs_row_bytes(const uint8_t *row, uint32_t hidden)
{
    const uint32_t piece = logs_piece(hidden);
    uint32_t size_bytes = hidden / FORMATS_BLOCK * LOGS_META_BYTES;
    for (uint32_t first = 0; first < hidden; first += piece)
        size_bytes += logs_piece_fits(row, first, piece) ? piece / LOGS_GROUP * LOGS_GROUP_BYTES : 2 * piece;
    return size_bytes;
}

static void logs_group_add(const uint8_t *from, const struct logs_block *b, float weight, float *sum)
{
    assert(b->fits);
    const uint32_t signs = from[LOGS_GROUP_BYTES - 2] | (uint32_t)from[LOGS_GROUP_BYTES - 1] << 8;
    uint64_t word = 0;
    uint32_t filled = 0;
    for (uint32_t i = 0; i < LOGS_GROUP; i++) {
        for (; filled < LOGS_BITS; filled += 8) word |= (uint64_t)*from++ << filled;
        const uint32_t code = (uint32_t)word & LOGS_MOST;
        word >>= LOGS_BITS;
        filled -= LOGS_BITS;
        const float magnitude = code ? exp2_of((float)(code - 1) * b->step + b->amin_log) : 0.0f;
        const float product = (signs >> i & 1 ? -magnitude : magnitude) * weight;
        sum[i] += product;
    }
}

void format_logs_add(const uint8_t *row, uint32_t hidden, float weight, float *sum)
{
    assert(hidden % FORMATS_LOGS_LEAST == 0);
    const uint32_t piece = logs_piece(hidden);
    const uint8_t *from = row + (size_t)hidden / FORMATS_BLOCK * LOGS_META_BYTES;
    for (uint32_t first = 0; first < hidden; first += piece) {
        const bool fits = logs_piece_fits(row, first, piece);
        for (uint32_t i = first; fits && i < first + piece; i += FORMATS_BLOCK) {
            const struct logs_block block = logs_meta_read(row, i / FORMATS_BLOCK);
            for (uint32_t g = 0; g < FORMATS_BLOCK; g += LOGS_GROUP, from += LOGS_GROUP_BYTES)
                logs_group_add(from, &block, weight, sum + i + g);
        }
        for (uint32_t i = first; !fits && i < first + piece; i++, from += sizeof(uint16_t)) {
            uint16_t bits;
            memcpy(&bits, from, sizeof bits);
            const float product = format_f32_from_bf16(bits) * weight;
            sum[i] += product;
        }
    }
}

void format_row_round(const float *sum, uint32_t hidden, uint16_t *out)
{
    for (uint32_t i = 0; i < hidden; i++) out[i] = format_bf16_from_f32(sum[i]);
}
