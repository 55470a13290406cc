/* bench_live.c - speed of the live world itself: stores, puts, signals, the loop that steps workers, barriers.
 *
 * Threads make the ranks, but one thread uses them, so that only the cost of the calls is measured.  Numbers are
 * medians of several runs.  The sizes are those of a low-latency message and of a signal. */
#include <stdio.h>
#include "sim/stats.h"
#include "tests/bench.h"
#include "tests/support_live.h"

enum { RUNS = 7, CALLS = 200000, MESSAGE_BYTES = 7408, AREA_BYTES = 8 << 20, WORKERS = 256 };

static double now_ns(void) { return 1e9 * bench_seconds(CLOCK_MONOTONIC); }

static enum worker_step idle_step(struct fabric_worker *w)
{
    return fabric_load(w->fabric, 1) ? WORKER_DONE : WORKER_WAIT;
}

static uint32_t rounds_left;

static enum worker_step round_step(struct fabric_worker *w)
{
    if (--rounds_left) return WORKER_MORE;
    w->fabric->words[1] = 1; /* releases the other workers */
    return WORKER_DONE;
}

struct bench {
    struct live_world *world[2];
    struct fabric_worker worker;
};

static void bench_store(struct bench *b, uint32_t i)
{
    const uint64_t place = (uint64_t)(i % (AREA_BYTES / MESSAGE_BYTES)) * MESSAGE_BYTES;
    const struct fabric_write write = { .target_offset = place,
                                        .charge_bytes = MESSAGE_BYTES,
                                        .peer = 1,
                                        .data = b->worker.fabric->heap + place,
                                        .size_bytes = MESSAGE_BYTES };
    if (fabric_path(b->worker.fabric, 1) == FABRIC_NVLINK) {
        if (fabric_store(&b->worker, &write) < 0) printf("store failed\n");
    } else {
        while (fabric_put(&b->worker, &write, NULL) < 0) live_world_progress(b->world[0]);
    }
}

static void bench_signal(struct bench *b, uint32_t i)
{
    const struct fabric_signal signal = { .value = i + 1, .peer = 1 };
    while (fabric_signal(&b->worker, &signal) < 0) live_world_progress(b->world[0]);
}

static void bench_calls(struct bench *b, const char *name, void (*call)(struct bench *b, uint32_t i), uint32_t bytes)
{
    double ns[RUNS];
    for (uint32_t run = 0; run < RUNS; run++) {
        const double start_ns = now_ns();
        for (uint32_t i = 0; i < CALLS; i++) call(b, i);
        while (fabric_flush(&b->worker, 1, 0) < 0) live_world_progress(b->world[0]);
        ns[run] = (now_ns() - start_ns) / CALLS;
    }
    const double median_ns = stats_median(ns, RUNS);
    printf("  %-34s %9.1f ns", name, median_ns);
    if (bytes) printf("  %6.2f GB/s", bytes / median_ns);
    printf("\n");
}

static const struct worker_role idle_role = { .step = idle_step }, round_role = { .step = round_step };

/* Times a kernel of WORKERS workers, of which all but one only wait. */
static void bench_steps(struct bench *b)
{
    enum { ROUNDS = 20000 };
    struct fabric_worker worker[WORKERS], *workers[WORKERS];
    double ns[RUNS];
    for (uint32_t run = 0; run < RUNS; run++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            worker[i] = b->worker;
            worker[i].role = worker_role_number(&worker[i].fabric->roles, i ? &idle_role : &round_role);
            workers[i] = &worker[i];
        }
        rounds_left = ROUNDS;
        b->worker.fabric->words[1] = 0;
        const double start_ns = now_ns();
        if (!live_world_run(b->world[0], workers, WORKERS, NULL)) printf("run failed\n");
        ns[run] = (now_ns() - start_ns) / ROUNDS / WORKERS;
    }
    printf("  %-34s %9.1f ns\n", "step of a waiting worker", stats_median(ns, RUNS));
}

static void bench_world(const char *link)
{
    struct live_options options = support_options(link, link ? 1 : 2);
    const struct fabric_needs needs = { AREA_BYTES, 16, 1, 128, 0, false };
    struct bootstrap **bootstraps = support_bootstraps_new(2);
    struct bench b = { .world = { NULL } };
    GError *error = NULL;
    if (!support_worlds_new(&options, &needs, bootstraps, 2, b.world, &error)) {
        printf("%s\n", error->message);
        return;
    }
    b.worker.fabric = live_world_fabric(b.world[0]);
    bench_calls(&b, link ? "put of 7408 bytes" : "store of 7408 bytes", bench_store, MESSAGE_BYTES);
    bench_calls(&b, link ? "signal by the link" : "signal by shared memory", bench_signal, 0);
    bench_steps(&b);
    for (uint32_t rank = 0; rank < 2; rank++) live_world_free(b.world[rank]);
    support_bootstraps_free(bootstraps, 2);
}

int main(void)
{
    printf("live world, median of %d runs\n", RUNS);
    bench_world(NULL);
    bench_world("shm");
    return 0;
}
