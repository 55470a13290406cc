/* bench_estimates.c - how good estimates are.  Divides each estimate by what the whole prediction then needs.  Events
 * are estimated by the table alone and after the pilot.  CPU time and memory are estimated after the pilot.
 *
 * bench_estimates [NAME...]: all cases, or those whose names begin with a NAME.  Reads models/clusters below the
 * current folder. */
#include "models/predict/estimate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "models/predict/simulate.h"
#include "tests/bench.h"

enum { OPTIONS_MAX = 6 };

static const struct bench_case {
    const char *what, *cluster;
    const char *options[2 * OPTIONS_MAX]; /* name, value, ... */
} cases[] = {
    { "ll 64", "h100-cx7", { "num-ranks", "64" } },
    { "ll 256", "h100-cx7", { "num-ranks", "256" } },
    { "ll 256, 1024 experts", "h100-cx7", { "num-ranks", "256", "num-experts", "1024" } },
    { "ll 512, ibrc", "h800-cx7", { "num-ranks", "512", "backend", "ibrc" } },
    { "ll 1024", "h100-cx7", { "num-ranks", "1024" } },
    { "ll 2048", "h800-cx7", { "num-ranks", "2048" } },
    { "normal 16", "h100-cx7", { "kernel", "normal", "num-ranks", "16" } },
    { "normal 32, ibrc", "h100-cx7", { "kernel", "normal", "num-ranks", "32", "backend", "ibrc" } },
    { "normal 64", "h100-cx7", { "kernel", "normal", "num-ranks", "64" } },
    { "normal 64, loop", "h800-cx7", { "kernel", "normal", "num-ranks", "64", "launch", "loop" } },
    { "normal 8, 65536 tokens", "h100-cx7", { "kernel", "normal", "num-ranks", "8", "num-tokens", "65536" } },
    { "normal 16, zipf", "h100-cx7", { "kernel", "normal", "num-ranks", "16", "routing", "zipf:1.2" } },
    { "v2 16", "h100-cx7", { "kernel", "v2", "num-ranks", "16" } },
    { "v2 64", "h100-cx7", { "kernel", "v2", "num-ranks", "64" } },
    { "alltoallv 1024", "h100-cx7", { "kernel", "alltoallv", "num-ranks", "1024", "matrix", "uniform:65536" } },
    { "alltoallv 512, uneven",
      "h100-cx7",
      { "kernel", "alltoallv", "num-ranks", "512", "matrix", "lognormal:1000000" } },
    { "alltoallv 256, of routing", "h100-cx7", { "kernel", "alltoallv", "num-ranks", "256" } },
    { "allgather 256", "h100-cx7", { "kernel", "allgather", "num-ranks", "256" } },
};

/* What child processes report. */
static struct shared {
    struct estimate table, pilot;
    double events, seconds;
    bool piloted;
} * shared;

static void case_fail(const struct bench_case *b, GError *error)
{
    fprintf(stderr, "bench_estimates: %s: %s\n", b->what, error->message);
    _exit(1);
}

static void case_run(const struct bench_case *b, bool whole)
{
    GError *error = NULL;
    struct case_options c;
    struct case_load load;
    struct record *record = record_new();
    case_init(&c);
    for (uint32_t i = 0; i < 2 * OPTIONS_MAX && b->options[i]; i += 2)
        if (!case_set(&c, b->options[i], b->options[i + 1], &error)) case_fail(b, error);
    g_autofree char *path = g_strdup_printf("models/clusters/%s.ini", b->cluster);
    struct cluster *cluster = cluster_load(path, &error);
    if (!cluster) case_fail(b, error);
    case_node_settle(&c, cluster->nvlink.gpus);
    const double begin = bench_cpu_seconds();
    if (!case_load(&c, &load, &error)) case_fail(b, error);
    if (whole) {
        if (!simulate_load(&c, cluster, &load, &(struct simulate_wishes){ 0 }, record, &error)) case_fail(b, error);
        shared->events = g_ascii_strtod(record_get(record, "events"), NULL);
        shared->seconds = bench_cpu_seconds() - begin;
    } else {
        shared->table = shared->pilot = estimate_case(&c, &load);
        shared->piloted = estimate_pilot(&shared->pilot, &c, &load, cluster);
    }
    _exit(0); /* ends the child without freeing memory */
}

static double case_run_apart(const struct bench_case *b, bool whole)
{
    struct rusage usage;
    int status = 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) case_run(b, whole);
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0) exit(1);
    return 1024.0 * (double)usage.ru_maxrss;
}

static bool case_wanted(const struct bench_case *b, int count, char **names)
{
    bool wanted = count == 0;
    for (int i = 0; i < count; i++) wanted |= g_str_has_prefix(b->what, names[i]);
    return wanted;
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    printf("%-28s %10s %8s %8s   %s\n", "estimated over found", "events", "CPU s", "MB",
           "events by table, by pilot, time, memory");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct bench_case *b = &cases[i];
        if (!case_wanted(b, argc - 1, argv + 1)) continue;
        case_run_apart(b, false);
        const double bytes = case_run_apart(b, true);
        printf("%-28s %10.0f %8.2f %8.1f   %.2f %.2f %.2f %.2f%s\n", b->what, shared->events, shared->seconds,
               bytes / 1e6, shared->table.events / shared->events, shared->pilot.events / shared->events,
               shared->pilot.seconds / shared->seconds, shared->pilot.bytes / bytes,
               shared->piloted ? "" : ", no pilot");
    }
    return 0;
}
