/* bench_traces.c - speed of the trace readers and generators on one core, and their memory.
 *
 * Random access is timed on a large .ept with many (step, layer)s.  Its routing is drawn at random, so that it does not
 * compress better than captured routing.  This process reads the whole trace in random order; its peak memory must not
 * grow with the file.  Throughput is by CPU time, latency by wall-clock time.
 *
 * bench_traces [GIGABYTES]: size of that trace on disk, default 1. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "sim/rng.h"
#include "sim/stats.h"
#include "tests/bench.h"
#include "tests/support_trace.h"
#include "traces/generate.h"

enum { RANKS = 64, TOKENS = 512, TOPK = 8, LAYERS = 32, RUNS = 5, ACCESSES = 200 };

static void fail(const char *what, const GError *error)
{
    fprintf(stderr, "bench_traces: %s: %s\n", what, error ? error->message : "failed");
    exit(1);
}

/* A few drawn routings, written again and again.  Frames are compressed one by one, so repeats do not compress
 * better. */
enum { DRAWN = 8 };
static struct routing drawn[DRAWN];

static void draw(const char *distribution)
{
    for (uint32_t d = 0; d < DRAWN; d++) {
        const struct routing_options options = {
            .ranks = RANKS, .tokens = TOKENS, .topk = TOPK, .experts = 256, .seed = d, .distribution = distribution
        };
        routing_free(&drawn[d]);
        if (!routing_generate(&options, &drawn[d], NULL)) fail("generate", NULL);
    }
}

static bool produce(void *context, uint32_t step, uint32_t layer, struct routing *out, GError **error)
{
    struct sample one = { .info = { .steps = 1, .layers = 1 }, .blocks = &drawn[(step * LAYERS + layer) % DRAWN] };
    (void)context;
    return sample_produce(&one, 0, 0, out, error);
}

static struct trace_info shape(uint32_t steps)
{
    return (struct trace_info){ .steps = steps,
                                .layers = LAYERS,
                                .ranks = RANKS,
                                .topk = TOPK,
                                .experts = 256,
                                .tokens_max = TOKENS,
                                .model = "",
                                .provenance = "" };
}

static double file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (double)status.st_size : 0;
}

static void write_trace(const char *path, uint32_t steps)
{
    GError *error = NULL;
    const struct trace_info info = shape(steps);
    if (!trace_write(path, &(struct trace_write_options){ 0 }, &info, produce, NULL, NULL, &error))
        fail("write", error);
}

/* Reads the whole file RUNS times; returns the median time in seconds. */
static double read_seconds(const char *path)
{
    double seconds[RUNS];
    for (int run = 0; run < RUNS; run++) {
        const double start = bench_seconds(CLOCK_PROCESS_CPUTIME_ID);
        GError *const error = trace_read_all(path, NULL);
        if (error) fail("read", error);
        seconds[run] = bench_seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
    }
    return stats_median(seconds, RUNS);
}

static long peak_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

/* Times reading a whole binary file, whose routing is drawn from this distribution. */
static void bench_binary(const char *name, const char *distribution)
{
    const uint32_t steps = 8;
    const double places = (double)steps * LAYERS * RANKS * TOKENS * TOPK;
    const char *const path = temporary_path(name);
    draw(distribution);
    write_trace(path, steps);
    const double seconds = read_seconds(path);
    printf("%-10s read      %8.2f GB/s of int32 indices, %5.2f GB/s of uint8 as stored (%s, file %.0f MB)\n", name + 2,
           places * 4 / seconds / 1e9, places / seconds / 1e9, distribution, file_bytes(path) / 1e6);
    remove(path);
}

static void bench_formats(void)
{
    bench_binary("b.ept", "lognormal:0.5");
    bench_binary("b.ept", "lognormal:1.5");
    bench_binary("b.npy", "lognormal:0.5");
    bench_binary("b.npy.zst", "lognormal:0.5");
    static const char *const texts[] = { "b.csv", "b.jsonl" };
    for (size_t n = 0; n < G_N_ELEMENTS(texts); n++) {
        const char *const path = temporary_path(texts[n]);
        write_trace(path, 1);
        const double seconds = read_seconds(path);
        printf("%-10s parse     %8.0f MB/s of text, file %.0f MB\n", texts[n] + 2, file_bytes(path) / seconds / 1e6,
               file_bytes(path) / 1e6);
        remove(path);
    }
}

/* Times a first access: opening a trace and reading one (step, layer).  Then times many random reads of an open trace.
 */
static void bench_random_access(double gigabytes)
{
    const char *const path = temporary_path("large.ept");
    const uint32_t steps = (uint32_t)(gigabytes * 1e9 / ((double)LAYERS * RANKS * TOKENS * TOPK)) + 1;
    double first[RUNS], ms[ACCESSES];
    struct rng rng = rng_seeded(1);
    write_trace(path, steps);
    for (int run = 0; run < RUNS; run++) {
        const double start = bench_seconds(CLOCK_MONOTONIC);
        struct routing routing;
        g_autoptr(trace) trace = trace_open(path, NULL, NULL);
        if (!trace || !trace_read(trace, steps / 2, (uint32_t)run, 0, &routing, NULL)) fail("random access", NULL);
        first[run] = (bench_seconds(CLOCK_MONOTONIC) - start) * 1e3;
        routing_free(&routing);
    }
    struct trace *const trace = trace_open(path, NULL, NULL);
    for (int i = 0; i < ACCESSES; i++) {
        struct routing routing;
        const uint32_t step = (uint32_t)rng_below(&rng, steps), layer = (uint32_t)rng_below(&rng, LAYERS);
        const double start = bench_seconds(CLOCK_MONOTONIC);
        if (!trace || !trace_read(trace, step, layer, 0, &routing, NULL)) fail("random access", NULL);
        ms[i] = (bench_seconds(CLOCK_MONOTONIC) - start) * 1e3;
        routing_free(&routing);
    }
    trace_close(trace);
    printf("ept        random    %8.2f ms to open and read one (step, layer) of %u in %.2f GB; then median %.2f ms, "
           "p99 %.2f ms\n",
           stats_median(first, RUNS), steps * LAYERS, file_bytes(path) / 1e9, stats_median(ms, ACCESSES),
           stats_percentile(ms, ACCESSES, 99));
    remove(path);
}

static void bench_generators(void)
{
    static const struct {
        const char *name;
        uint32_t groups, kept;
    } kinds[] = { { "uniform", 0, 0 }, { "uniform", 8, 4 }, { "zipf:1.1", 0, 0 } };
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
        const struct routing_options options = { .ranks = 8,
                                                 .tokens = 4096,
                                                 .topk = 8,
                                                 .experts = 256,
                                                 .groups = kinds[k].groups,
                                                 .topk_groups = kinds[k].kept,
                                                 .seed = 1,
                                                 .distribution = kinds[k].name };
        double ms[RUNS];
        for (int run = 0; run < RUNS; run++) {
            struct routing routing;
            const double start = bench_seconds(CLOCK_PROCESS_CPUTIME_ID);
            if (!routing_generate(&options, &routing, NULL)) fail("generate", NULL);
            ms[run] = (bench_seconds(CLOCK_PROCESS_CPUTIME_ID) - start) * 1e3;
            routing_free(&routing);
        }
        printf("generate   %-9s %8.2f ms for 8 ranks x 4096 tokens, top-8 of 256%s\n", kinds[k].name,
               stats_median(ms, RUNS), kinds[k].kept ? " in 4 of 8 groups" : "");
    }
}

int main(int argc, char **argv)
{
    const double gigabytes = argc > 1 ? g_ascii_strtod(argv[1], NULL) : 1;
    bench_generators();
    draw("lognormal:0.5");
    const long before = peak_mb();
    bench_random_access(gigabytes);
    printf("ept        memory    %ld MB at most while writing and reading that trace, %ld MB before\n", peak_mb(),
           before);
    bench_formats();
    printf("all        memory    %ld MB at most (text formats are held in memory)\n", peak_mb());
    for (uint32_t d = 0; d < DRAWN; d++) routing_free(&drawn[d]);
    temporary_clear();
    return 0;
}
