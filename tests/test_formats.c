/* test_formats.c - are the conversions of models/moe/formats.c exact?
 *
 * Aim: every BF16 and FP8 value, every halfway case between neighbours, and the row operations, bit for bit.  Method: a
 * slow reference searches all codes for the nearest value in double precision.  Golden vectors come from PyTorch 2.11
 * (tests/golden).  They have NaN beyond 448 where the kernels saturate; the tests below allow for that difference. */
#include "models/moe/formats.h"
#include "sim/rng.h"
#include "tests/support_npy.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float make_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the value of a non-negative E4M3 code, by definition. */
static double e4m3_value(uint32_t code)
{
    const uint32_t exponent = code >> 3, mantissa = code & 7;
    return exponent ? ldexp(1 + mantissa / 8.0, (int)exponent - 7) : ldexp(mantissa / 8.0, -6);
}

/* Searches for the nearest code.  Of two that are equally near, the even code is returned. */
static uint8_t e4m3_search(float value)
{
    if (isnan(value)) return (uint8_t)(signbit(value) ? 0xff : 0x7f);
    const double magnitude = fabs((double)value);
    uint32_t best = 0;
    for (uint32_t code = 0; code <= 0x7e; code++) {
        const double distance = fabs(e4m3_value(code) - magnitude), least = fabs(e4m3_value(best) - magnitude);
        if (distance < least || (distance == least && code % 2 == 0)) best = code;
    }
    return (uint8_t)(best | (signbit(value) ? 0x80 : 0));
}

TEST("every BF16 value comes back")
{
    uint32_t wrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = format_f32_from_bf16((uint16_t)bits);
        wrong += bits_f32(value) != bits << 16;
        const uint16_t back = format_bf16_from_f32(value);
        wrong += isnan(value) ? (back & 0x7fff) <= 0x7f80 : back != bits;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* Tests the middle between each BF16 value and the next, and its neighbours.  The nearer value is chosen, and at the
 * middle the even one. */
TEST("BF16 halfway cases go to even")
{
    uint32_t wrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        if ((bits & 0x7fff) >= 0x7f80) continue; /* infinities and NaN have no next value */
        wrong += format_bf16_from_f32(make_f32(bits << 16 | 0x7fff)) != bits;
        wrong += format_bf16_from_f32(make_f32(bits << 16 | 0x8000)) != bits + (bits & 1);
        wrong += format_bf16_from_f32(make_f32(bits << 16 | 0x8001)) != bits + 1;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(format_bf16_from_f32(make_f32(0x7f800001)) & 0x7fff, 0x7fc0); /* stays a NaN, and does not become
                                                                                   * infinity */
}

TEST("BF16 as PyTorch rounds")
{
    g_auto(npy) from, to;
    npy_read(&from, "f32_bits");
    npy_read(&to, "f32_to_bf16_bits");
    CU_ASSERT_EQUAL_FATAL(from.item_count, to.item_count);
    const uint32_t *f32 = from.data;
    const uint16_t *bf16 = to.data;
    uint32_t wrong = 0;
    for (uint64_t i = 0; i < from.item_count; i++) {
        const uint16_t got = format_bf16_from_f32(make_f32(f32[i]));
        wrong += isnan(make_f32(f32[i])) ? (got & 0x7fff) <= 0x7f80 : got != bf16[i];
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(from.item_count > 50000);
}

TEST("every E4M3 code")
{
    g_auto(npy) golden;
    npy_read(&golden, "e4m3fn_all_to_f32_bits");
    CU_ASSERT_EQUAL_FATAL(golden.item_count, 256);
    const uint32_t *f32 = golden.data;
    for (uint32_t code = 0; code < 256; code++) {
        const float value = format_f32_from_e4m3((uint8_t)code);
        if ((code & 0x7f) == 0x7f) {
            CU_ASSERT(isnan(value) && isnan(make_f32(f32[code])));
            CU_ASSERT_EQUAL(signbit(value) != 0, code >= 0x80);
            continue;
        }
        CU_ASSERT_EQUAL(bits_f32(value), f32[code]);
        CU_ASSERT_EQUAL(fabs((double)value), e4m3_value(code & 0x7f));
        CU_ASSERT_EQUAL(format_e4m3_from_f32(value), code);
    }
}

/* Every BF16 value is compared with the search and with PyTorch.  PyTorch gives NaN where the kernels saturate: from
 * 464 on, which is the middle between 448 and 480.  E4M3 does not have 480. */
TEST("E4M3 from every BF16 value")
{
    g_auto(npy) golden;
    npy_read(&golden, "bf16_all_to_e4m3fn_torch");
    CU_ASSERT_EQUAL_FATAL(golden.item_count, 65536);
    const uint8_t *torch = golden.data;
    uint32_t wrong = 0, wrong_torch = 0, saturated = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = format_f32_from_bf16((uint16_t)bits);
        const uint8_t got = format_e4m3_from_f32(value);
        wrong += got != e4m3_search(value);
        if (!isnan(value) && fabsf(value) > 464) {
            saturated++;
            wrong_torch += (torch[bits] & 0x7f) != 0x7f || (got & 0x7f) != 0x7e || (got ^ torch[bits]) & 0x80;
        } else {
            wrong_torch += got != torch[bits];
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(wrong_torch, 0);
    CU_ASSERT(saturated > 30000);
}

TEST("E4M3 halfway cases go to even")
{
    for (uint32_t code = 0; code < 0x7e; code++) {
        const float middle = (float)((e4m3_value(code) + e4m3_value(code + 1)) / 2); /* exact in FP32 */
        const uint8_t even = (uint8_t)(code + (code & 1));
        CU_ASSERT_EQUAL(format_e4m3_from_f32(middle), even);
        CU_ASSERT_EQUAL(format_e4m3_from_f32(-middle), even | 0x80);
        CU_ASSERT_EQUAL(format_e4m3_from_f32(nextafterf(middle, 0)), code);
        CU_ASSERT_EQUAL(format_e4m3_from_f32(nextafterf(middle, 448)), code + 1);
    }
    CU_ASSERT_EQUAL(format_e4m3_from_f32(INFINITY), 0x7e);
    CU_ASSERT_EQUAL(format_e4m3_from_f32(-INFINITY), 0xfe);
    CU_ASSERT_EQUAL(format_e4m3_from_f32(make_f32(1)), 0); /* FP32 subnormals become 0 */
    CU_ASSERT_EQUAL(format_e4m3_from_f32(make_f32(0x80000001)), 0x80);
}

TEST("E4M3 as PyTorch rounds")
{
    g_auto(npy) from, to;
    npy_read(&from, "f32_in448_bits");
    npy_read(&to, "f32_in448_to_e4m3fn");
    CU_ASSERT_EQUAL_FATAL(from.item_count, to.item_count);
    const uint32_t *f32 = from.data;
    const uint8_t *codes = to.data;
    uint32_t wrong = 0;
    for (uint64_t i = 0; i < from.item_count; i++) wrong += format_e4m3_from_f32(make_f32(f32[i])) != codes[i];
    CU_ASSERT_EQUAL(wrong, 0);
}

TEST("UE8M0 scales")
{
    for (uint32_t exponent = 1; exponent < 255; exponent++) {
        const float scale = (float)ldexp(1.0, (int)exponent - 127);
        CU_ASSERT_EQUAL(format_ue8m0_from_f32(scale), exponent);
        CU_ASSERT_EQUAL(format_f32_from_ue8m0((uint8_t)exponent), scale);
    }
}

/* Returns the value that LogFMT stores for `value`, by definition: the nearest of the 511 numbers with its sign, or 0
 * if that is nearer than the smallest number. */
static double logs_nearest(double value, double amax, double amin)
{
    const double top = log2(amax), bottom = amin > 0 ? fmax(log2(amin), top - 32) : top - 32,
                 step = (top - bottom) / 510;
    double best = exp2(bottom - step), held = 0;
    for (uint32_t n = 0; n < 511; n++) {
        const double number = exp2(bottom + n * step);
        if (fabs(number - fabs(value)) < fabs(best - fabs(value))) best = held = number;
    }
    return copysign(held, value);
}

enum { LOGS_HIDDEN = 1024 };

static uint32_t logs_back(const uint16_t *row, uint32_t hidden, float *back)
{
    uint8_t logs[4 * LOGS_HIDDEN];
    const uint32_t size_bytes = format_row_to_logs(row, hidden, logs);
    CU_ASSERT_EQUAL(format_logs_row_bytes(logs, hidden), size_bytes);
    for (uint32_t i = 0; i < hidden; i++) back[i] = 0;
    format_logs_add(logs, hidden, 1.0f, back);
    return size_bytes;
}

/* Random values lie within few or many powers of two, and some are 0.  Each must come back as the nearest number.  A
 * value that is halfway between two numbers, within the accuracy of the logarithms, may become either. */
TEST("LogFMT rounds to the nearest number")
{
    struct rng rng = rng_seeded(11);
    uint32_t wrong = 0, apart = 0, values = 0;
    for (uint32_t trial = 0; trial < 64; trial++) {
        uint16_t row[LOGS_HIDDEN];
        float back[LOGS_HIDDEN];
        const double powers = trial % 4 == 3 ? 60 : 1 + trial % 4 * 5; /* with 60 powers of two, values that are too
                                                                        * small become 0 */
        for (uint32_t i = 0; i < LOGS_HIDDEN; i++) {
            const double magnitude = exp2(-0.01 - powers * rng_uniform(&rng));
            const float value = (float)(rng_below(&rng, 2) ? magnitude : -magnitude);
            row[i] = trial % 8 == 5 && rng_below(&rng, 9) == 0 ? 0x8000 : format_bf16_from_f32(value);
        }
        CU_ASSERT_EQUAL_FATAL(logs_back(row, LOGS_HIDDEN, back), format_logs_bytes(LOGS_HIDDEN, true));
        for (uint32_t block = 0; block < LOGS_HIDDEN; block += FORMATS_BLOCK) {
            double amax = 0, amin = 1;
            for (uint32_t i = block; i < block + FORMATS_BLOCK; i++) {
                amax = fmax(amax, fabs((double)format_f32_from_bf16(row[i])));
                amin = fmin(amin, fabs((double)format_f32_from_bf16(row[i])));
            }
            for (uint32_t i = block; i < block + FORMATS_BLOCK; i++, values++) {
                const double value = (double)format_f32_from_bf16(row[i]), nearest = logs_nearest(value, amax, amin);
                if (fabs((double)back[i] - nearest) <= 1e-5 * fabs(nearest)) continue;
                apart++;
                wrong += fabs((double)back[i] - value) > fabs(nearest - value) + 1e-4 * fabs(value);
            }
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT(apart < values / 200);
}

/* Pieces have 1024 or 512 values.  One block that does not fit keeps its whole piece in BF16. */
TEST("LogFMT leaves pieces that do not fit")
{
    static const struct {
        uint16_t bits;
        bool fits;
    } spoilt[] = { { 0x3f80, false }, { 0x3f7f, true }, { 0x7f80, false }, { 0, true }, { 0x7fc0, true } };
    for (uint32_t hidden = 512; hidden <= LOGS_HIDDEN; hidden += 512)
        for (uint32_t k = 0; k < sizeof spoilt / sizeof spoilt[0]; k++) {
            uint16_t row[LOGS_HIDDEN];
            float back[LOGS_HIDDEN];
            for (uint32_t i = 0; i < hidden; i++) row[i] = format_bf16_from_f32((float)(i % 100 + 1) / 128.0f);
            row[200] = spoilt[k].bits; /* 1, the value just below 1, infinity, 0, NaN */
            CU_ASSERT_EQUAL(logs_back(row, hidden, back), format_logs_bytes(hidden, spoilt[k].fits));
            for (uint32_t i = 0; i < hidden && !spoilt[k].fits; i++)
                CU_ASSERT_EQUAL(back[i], format_f32_from_bf16(row[i]));
            if (spoilt[k].bits == 0 || spoilt[k].bits == 0x7fc0) CU_ASSERT_EQUAL(back[200], 0.0f);
        }
    uint16_t alike[LOGS_HIDDEN];
    float back[LOGS_HIDDEN];
    for (uint32_t i = 0; i < LOGS_HIDDEN; i++) alike[i] = 0xbe80; /* -0.25 everywhere, so amin equals amax */
    CU_ASSERT_EQUAL(logs_back(alike, LOGS_HIDDEN, back), format_logs_bytes(LOGS_HIDDEN, false));
    CU_ASSERT_EQUAL(back[77], -0.25f);
}

/* A row whose bits can be worked out by hand: amax is 1/2 and amin is 1/4 or 0. */
TEST("LogFMT's bits")
{
    uint16_t row[512];
    uint8_t logs[4 * 512];
    for (uint32_t i = 0; i < 512; i++) row[i] = i % 16 == 0 ? 0xbf00 : i % 16 == 3 ? 0 : 0x3e80;
    row[128 * 2 + 3] = 0x3e80; /* in the third block, one value of the first group is not 0 */
    CU_ASSERT_EQUAL(format_row_to_logs(row, 512, logs), 16 + 640);
    CU_ASSERT_EQUAL(logs[0] | logs[1] << 8, 0x3f00);
    CU_ASSERT_EQUAL(logs[2] | logs[3] << 8, 0);
    const uint8_t *group = logs + 16;
    CU_ASSERT_EQUAL(group[0] | (group[1] & 1) << 8, 511);                  /* value 0 is amax, code 511 */
    CU_ASSERT_EQUAL(group[3] >> 3 | (group[4] & 15) << 5, 0);              /* value 3 is 0, code 0 */
    CU_ASSERT_EQUAL(group[18] | group[19] << 8, 1);                        /* of the signs, only that of the first value
                                                                            * is set */
    const uint32_t number = group[1] >> 1 | (uint32_t)(group[2] & 3) << 7; /* value 1 is 1/4, 31 of 32 powers of two
                                                                            * above the least number */
    CU_ASSERT_EQUAL(number, 1 + 31 * 510 / 32);
}

TEST("rows to FP8 and back as PyTorch")
{
    g_auto(npy) x, codes, scales, back;
    npy_read(&x, "x_bf16_bits");
    npy_read(&codes, "x_e4m3");
    npy_read(&scales, "x_scale_f32");
    npy_read(&back, "x_back_bf16_bits");
    const uint32_t rows = (uint32_t)x.dimension[0], hidden = (uint32_t)x.dimension[1];
    CU_ASSERT_EQUAL_FATAL(hidden, 7168);
    g_autofree uint8_t *got = malloc(hidden);
    g_autofree float *got_scales = malloc(hidden / FORMATS_BLOCK * sizeof *got_scales);
    g_autofree uint16_t *got_back = malloc(hidden * sizeof *got_back);
    for (uint32_t row = 0; row < rows; row++) {
        const float *golden_scales = (const float *)scales.data + (size_t)row * (hidden / FORMATS_BLOCK);
        format_row_to_fp8((uint16_t *)x.data + (size_t)row * hidden, hidden, false, got, got_scales);
        CU_ASSERT_EQUAL(memcmp(got, (uint8_t *)codes.data + (size_t)row * hidden, hidden), 0);
        CU_ASSERT_EQUAL(memcmp(got_scales, golden_scales, hidden / FORMATS_BLOCK * sizeof *got_scales), 0);
        format_row_from_fp8(got, got_scales, hidden, got_back);
        CU_ASSERT_EQUAL(memcmp(got_back, (uint16_t *)back.data + (size_t)row * hidden, hidden * 2), 0);
    }
    CU_ASSERT(rows > 0);
}

/* A block of zeros has the least scale.  NaN does not affect the scale.  Rounded scales are powers of two, and are at
 * least the exact scale and less than twice that. */
TEST("scales of blocks")
{
    uint16_t row[2 * FORMATS_BLOCK] = { 0 }, back[2 * FORMATS_BLOCK];
    uint8_t codes[2 * FORMATS_BLOCK];
    float exact[2], rounded[2];
    row[FORMATS_BLOCK] = format_bf16_from_f32(3.0f);
    row[FORMATS_BLOCK + 1] = 0x7fc0;
    format_row_to_fp8(row, 2 * FORMATS_BLOCK, false, codes, exact);
    CU_ASSERT_EQUAL(exact[0], 1e-4f * (1.0f / 448.0f));
    CU_ASSERT_EQUAL(exact[1], 3.0f * (1.0f / 448.0f));
    CU_ASSERT_EQUAL(codes[0], 0);
    CU_ASSERT_EQUAL(codes[FORMATS_BLOCK], 0x7e);
    CU_ASSERT_EQUAL(codes[FORMATS_BLOCK + 1], 0x7f);
    format_row_to_fp8(row, 2 * FORMATS_BLOCK, true, codes, rounded);
    for (uint32_t block = 0; block < 2; block++) {
        int exponent;
        CU_ASSERT_EQUAL(frexpf(rounded[block], &exponent), 0.5f);
        CU_ASSERT(rounded[block] >= exact[block] && rounded[block] < 2 * exact[block]);
    }
    CU_ASSERT_EQUAL(rounded[1], 0x1p-7f);
    format_row_from_fp8(codes, rounded, 2 * FORMATS_BLOCK, back);
    CU_ASSERT_EQUAL(format_f32_from_bf16(back[FORMATS_BLOCK]), 3.0f); /* 3 x 128 is an E4M3 value */
    for (uint32_t i = 0; i < FORMATS_BLOCK; i++) row[i] = format_bf16_from_f32(-448.0f);
    format_row_to_fp8(row, FORMATS_BLOCK, true, codes, rounded);
    CU_ASSERT_EQUAL(rounded[0], 1.0f); /* a power of two stays */
    CU_ASSERT_EQUAL(codes[5], 0xfe);
}

TEST("weighted sums as PyTorch")
{
    g_auto(npy) rows, weights, sums;
    npy_read(&rows, "combine_rows_bf16_bits");
    npy_read(&weights, "combine_w_f32");
    npy_read(&sums, "combine_out_bf16_bits");
    const uint32_t tokens = (uint32_t)rows.dimension[0], topk = (uint32_t)rows.dimension[1];
    const uint32_t hidden = (uint32_t)rows.dimension[2];
    CU_ASSERT_EQUAL_FATAL(topk, 8);
    g_autofree uint16_t *got = malloc(hidden * sizeof *got);
    for (uint32_t token = 0; token < tokens; token++) {
        const uint16_t *row[8];
        for (uint32_t j = 0; j < topk; j++) row[j] = (uint16_t *)rows.data + ((size_t)token * topk + j) * hidden;
        const uint16_t *golden = (uint16_t *)sums.data + (size_t)token * hidden;
        format_rows_reduce(row, (float *)weights.data + token * topk, topk, hidden, got);
        CU_ASSERT_EQUAL(memcmp(got, golden, hidden * sizeof *got), 0);
        /* A width that is not a multiple of the vectors' width gives the same sums. */
        memset(got, 0, hidden * sizeof *got);
        format_rows_reduce(row, (float *)weights.data + token * topk, topk, hidden - 77, got);
        CU_ASSERT_EQUAL(memcmp(got, golden, (hidden - 77) * sizeof *got), 0);
        CU_ASSERT_EQUAL(got[hidden - 77], 0);
    }
    CU_ASSERT(tokens > 0);
}

/* Without weights, sums are plain and keep the order of the rows.  Another order would give another sum. */
TEST("sums keep the order of rows")
{
    enum { HIDDEN = 384 };
    uint16_t one[HIDDEN], big[HIDDEN], minus_big[HIDDEN], out[HIDDEN];
    for (uint32_t i = 0; i < HIDDEN; i++) {
        one[i] = format_bf16_from_f32(1.0f);
        big[i] = format_bf16_from_f32(0x1p30f);
        minus_big[i] = format_bf16_from_f32(-0x1p30f);
    }
    const uint16_t *lost[] = { one, big, minus_big }, *kept[] = { big, minus_big, one };
    format_rows_reduce(lost, NULL, 3, HIDDEN, out);
    CU_ASSERT_EQUAL(out[0], 0);
    CU_ASSERT_EQUAL(out[HIDDEN - 1], 0);
    format_rows_reduce(kept, NULL, 3, HIDDEN, out);
    CU_ASSERT_EQUAL(format_f32_from_bf16(out[0]), 1.0f);
    CU_ASSERT_EQUAL(format_f32_from_bf16(out[HIDDEN - 1]), 1.0f);
    format_rows_reduce(kept, NULL, 0, HIDDEN, out);
    CU_ASSERT_EQUAL(out[7], 0);
}
