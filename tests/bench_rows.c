/* bench_rows.c - how fast one core converts and sums the values of tokens.  Prints medians of several runs, by CPU
 * time.
 *
 * bench_rows [RUNS]: default 3.  Whole predictions are timed by bench-runs. */
#include "models/moe/formats.h"

#include <glib.h>
#include <stdio.h>
#include "sim/stats.h"
#include "tests/bench.h"

enum { RUNS_MAX = 99, HIDDEN = 7168, ROWS = 8, ROW_REPEATS = 400 };

struct row_bench {
    uint16_t row[ROWS][HIDDEN], back[HIDDEN];
    uint8_t code[HIDDEN];
    float scale[HIDDEN / FORMATS_BLOCK], weight[ROWS];
    const uint16_t *rows[ROWS];
};

static void rows_to_fp8(struct row_bench *b)
{
    for (uint32_t j = 0; j < ROWS; j++) format_row_to_fp8(b->row[j], HIDDEN, false, b->code, b->scale);
}

static void rows_from_fp8(struct row_bench *b)
{
    for (uint32_t j = 0; j < ROWS; j++) format_row_from_fp8(b->code, b->scale, HIDDEN, b->back);
}

static void rows_sum(struct row_bench *b) { format_rows_reduce(b->rows, b->weight, ROWS, HIDDEN, b->back); }

static void row_bench_print(const char *what, void (*run)(struct row_bench *b), struct row_bench *b, uint32_t runs)
{
    double rate[RUNS_MAX];
    for (uint32_t i = 0; i < runs; i++) {
        const double start = bench_cpu_seconds();
        for (uint32_t j = 0; j < ROW_REPEATS; j++) run(b);
        rate[i] = (double)ROW_REPEATS * ROWS * HIDDEN * sizeof(uint16_t) / (bench_cpu_seconds() - start) / 1e9;
    }
    printf("%-32s %9.2f GB/s of BF16\n", what, stats_median(rate, runs));
}

static void rows_bench(uint32_t runs)
{
    g_autofree struct row_bench *b = g_new0(struct row_bench, 1);
    for (uint32_t j = 0; j < ROWS; j++) {
        b->rows[j] = b->row[j];
        b->weight[j] = 0.125f * (float)j;
        for (uint32_t i = 0; i < HIDDEN; i++)
            b->row[j][i] = format_bf16_from_f32((float)((i * 37 + j * 101) % 2001) * 0.01f - 10.0f);
    }
    row_bench_print("BF16 to FP8 with scales", rows_to_fp8, b, runs);
    row_bench_print("FP8 with scales to BF16", rows_from_fp8, b, runs);
    row_bench_print("weighted sum of 8 rows", rows_sum, b, runs);
}

int main(int argc, char **argv)
{
    guint64 runs = 3;
    if (argc > 2 || (argc == 2 && !g_ascii_string_to_unsigned(argv[1], 10, 1, RUNS_MAX, &runs, NULL))) {
        fprintf(stderr, "bench_rows: expected a number of runs from 1 to %d\n", RUNS_MAX);
        return 2;
    }
    rows_bench((uint32_t)runs);
    return 0;
}
