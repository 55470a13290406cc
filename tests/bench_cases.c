/* bench_cases.c - how long whole predictions take on one core, and how fast rows are converted.
 *
 * Each figure is the median of several runs, in CPU time of a process of its own, and the most memory that it had.  A
 * case is drawn and simulated from nothing each time, all its phases; validate does better where rows share a routing.
 *
 * bench_cases [RUNS]: default 3.  Reads models/clusters and tests/peers below the current folder. */
#include "models/case.h"
#include "models/cluster.h"
#include "models/moe/formats.h"
#include "models/predict/simulate.h"
#include "sim/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS_MAX = 99, OPTIONS_MAX = 8 };

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct bench_case {
    const char *what, *cluster;
    uint32_t repeats;                     /* in one run, where one case is too short to time */
    const char *options[2 * OPTIONS_MAX]; /* name, value, ... */
};

static const struct bench_case cases[] = {
    { "normal, 4 ranks, 4096 tokens",
      "models/clusters/h200.ini",
      10,
      { "kernel", "normal", "num-ranks", "4", "cached", "true" } },
    { "normal, 8 ranks, 4096 tokens",
      "models/clusters/h800-cx7.ini",
      5,
      { "kernel", "normal", "num-ranks", "8", "cached", "true" } },
    { "normal, 64 ranks, 4096 tokens",
      "models/clusters/h800-cx7.ini",
      1,
      { "kernel", "normal", "num-ranks", "64", "cached", "true" } },
    { "ll, 8 ranks, 128 tokens", "models/clusters/h800-cx7.ini", 5, { "kernel", "ll", "num-ranks", "8" } },
    { "ll, 256 ranks, 128 tokens", "models/clusters/h800-cx7.ini", 1, { "kernel", "ll", "num-ranks", "256" } },
    { "ll, 1024 ranks, 128 tokens", "models/clusters/h800-cx7.ini", 1, { "kernel", "ll", "num-ranks", "1024" } },
    { "ll, 2048 ranks, 128 tokens", "models/clusters/h800-cx7.ini", 1, { "kernel", "ll", "num-ranks", "2048" } },
    { "alltoallv, 256 ranks, uneven",
      "tests/peers/port.ini",
      5,
      { "kernel", "alltoallv", "num-ranks", "256", "ranks-per-node", "1", "matrix", "lognormal:65536:0.6" } },
    { "alltoallv, 1024 ranks, uneven",
      "tests/peers/port.ini",
      1,
      { "kernel", "alltoallv", "num-ranks", "1024", "ranks-per-node", "1", "matrix", "lognormal:65536:0.7" } },
    { "alltoallv, 1024 ranks, 64 KB",
      "tests/peers/port.ini",
      1,
      { "kernel", "alltoallv", "num-ranks", "1024", "ranks-per-node", "1", "matrix", "uniform:65536" } },
};

static void bench_fail(const char *what, GError *error)
{
    fprintf(stderr, "bench_cases: %s: %s\n", what, error->message);
    exit(1);
}

static double case_seconds(const struct bench_case *b, const struct case_options *c, const struct cluster *cluster,
                           uint64_t *events)
{
    const double start = cpu_seconds();
    for (uint32_t i = 0; i < b->repeats; i++) {
        GError *error = NULL;
        struct record *record = record_new();
        if (!simulate_case(c, cluster, record, &error)) bench_fail(b->what, error);
        const char *text = record_get(record, "events");
        *events = text ? g_ascii_strtoull(text, NULL, 10) : 0;
        record_free(record);
    }
    return (cpu_seconds() - start) / b->repeats;
}

static void case_bench(const struct bench_case *b, uint32_t runs)
{
    GError *error = NULL;
    struct case_options c;
    case_init(&c);
    for (uint32_t i = 0; i < 2 * OPTIONS_MAX && b->options[i]; i += 2)
        if (!case_set(&c, b->options[i], b->options[i + 1], &error)) bench_fail(b->what, error);
    struct cluster *cluster = cluster_load(b->cluster, &error);
    if (!cluster) bench_fail(b->what, error);
    double seconds[RUNS_MAX];
    uint64_t events = 0;
    for (uint32_t i = 0; i < runs; i++) seconds[i] = case_seconds(b, &c, cluster, &events);
    const double median = stats_median(seconds, runs);
    printf("%-32s %9.2f ms %9.1f cases/s %12.0f events/s", b->what, 1e3 * median, 1 / median, (double)events / median);
    cluster_free(cluster);
    case_clear(&c);
}

/* ---- rows ---- */

enum { HIDDEN = 7168, ROWS = 8, ROW_REPEATS = 400 };

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
        const double start = cpu_seconds();
        for (uint32_t j = 0; j < ROW_REPEATS; j++) run(b);
        rate[i] = (double)ROW_REPEATS * ROWS * HIDDEN * sizeof(uint16_t) / (cpu_seconds() - start) / 1e9;
    }
    printf("%-32s %9.2f GB/s of BF16\n", what, stats_median(rate, runs));
}

static void rows_bench(uint32_t runs)
{
    struct row_bench *b = g_new0(struct row_bench, 1);
    for (uint32_t j = 0; j < ROWS; j++) {
        b->rows[j] = b->row[j];
        b->weight[j] = 0.125f * (float)j;
        for (uint32_t i = 0; i < HIDDEN; i++)
            b->row[j][i] = format_bf16_from_f32((float)((i * 37 + j * 101) % 2001) * 0.01f - 10.0f);
    }
    row_bench_print("BF16 to FP8 with scales", rows_to_fp8, b, runs);
    row_bench_print("FP8 with scales to BF16", rows_from_fp8, b, runs);
    row_bench_print("weighted sum of 8 rows", rows_sum, b, runs);
    g_free(b);
}

/* In a process of its own, whose memory is then known. */
static void case_bench_apart(const struct bench_case *b, uint32_t runs)
{
    struct rusage usage;
    int status = 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        case_bench(b, runs);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0) exit(1);
    printf(" %8.0f MB\n", (double)usage.ru_maxrss / 1024);
}

int main(int argc, char **argv)
{
    guint64 runs = 3;
    if (argc > 2 || (argc == 2 && !g_ascii_string_to_unsigned(argv[1], 10, 1, RUNS_MAX, &runs, NULL))) {
        fprintf(stderr, "bench_cases: expected a number of runs from 1 to %d\n", RUNS_MAX);
        return 2;
    }
    for (uint32_t i = 0; i < G_N_ELEMENTS(cases); i++) case_bench_apart(&cases[i], (uint32_t)runs);
    rows_bench((uint32_t)runs);
    return 0;
}
