/* bench_verbs.c - the speed that a replay gets from a verbs link, to compare with perftest.  It measures the bandwidth
 * of 64 KB puts, as ib_write_bw does.  It measures the one-way latency of 8 bytes, as ib_write_lat does: half of a
 * ping-pong, the median of many.
 *
 * Two processes have a device each (chosen automatically, or argv[1] as for --device).  The live world steps their
 * workers as it steps those of a kernel.  Without a device the bench says so and measures nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "replay/bootstrap/bootstrap.h"
#include "replay/live.h"
#include "tests/support_live.h"
#include "tests/bench.h"

enum { PUT_BYTES = 64 << 10, PUT_COUNT = 1000, PONG_COUNT = 2000, AREA_BYTES = 16 << 20, QUEUE_DEPTH = 128 };

static double now_us(void) { return 1e6 * bench_seconds(CLOCK_MONOTONIC); }

struct bench {
    struct fabric_worker worker;
    uint32_t done; /* puts posted, or exchanges completed */
    bool sent;
    double start_us;
    double exchange_us[PONG_COUNT];
};

static enum worker_step put_step(struct fabric_worker *w)
{
    struct bench *b = fabric_container_of(w, struct bench, worker);
    while (b->done < PUT_COUNT) {
        const uint64_t place = (uint64_t)b->done % (AREA_BYTES / PUT_BYTES) * PUT_BYTES;
        const struct fabric_write write = {
            .target_offset = place,
            .charge_bytes = PUT_BYTES,
            .peer = 1,
            .data = w->fabric->heap + place,
            .size_bytes = PUT_BYTES,
        };
        if (fabric_put(w, &write, NULL) < 0) return WORKER_WAIT;
        b->done++;
    }
    return fabric_flush(w, 1, 0) < 0 ? WORKER_WAIT : WORKER_DONE;
}

/* Rank 0 sends and measures the time until the answer; rank 1 answers. */
static enum worker_step pong_step(struct fabric_worker *w)
{
    struct bench *b = fabric_container_of(w, struct bench, worker);
    const bool serves = w->fabric->rank == 0;
    while (b->done < PONG_COUNT) {
        const bool answered = fabric_load(w->fabric, 1) > b->done;
        const struct fabric_signal signal = { .value = b->done + 1, .word = 1, .peer = serves };
        if (serves && !b->sent) {
            b->start_us = now_us();
            if (fabric_signal(w, &signal) < 0) return WORKER_WAIT;
            b->sent = true;
        }
        if (!answered) return WORKER_WAIT;
        if (!serves && fabric_signal(w, &signal) < 0) return WORKER_WAIT;
        b->exchange_us[b->done++] = now_us() - b->start_us;
        b->sent = false;
    }
    return WORKER_DONE;
}

static void bench_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct bench *b = fabric_container_of(w, struct bench, worker);
    snprintf(text, text_size, "measurement: %u done", b->done);
}

static const struct worker_role put_role = { .step = put_step, .describe = bench_describe };
static const struct worker_role pong_role = { .step = pong_step, .describe = bench_describe };

static int double_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool bench_run(struct live_world *world, const struct worker_role *role, struct bench *b, GError **error)
{
    *b = (struct bench){ .worker = fabric_worker_of(live_world_fabric(world), role) };
    struct fabric_worker *worker = &b->worker;
    b->start_us = now_us();
    return live_world_run(world, &worker, 1, error);
}

/* Rank 1 sleeps in the bootstrap while puts come in, as the server of ib_write_bw does.  If it polled, it would take
 * CPU time from a device that is emulated in software. */
static bool bench_both(struct live_world *world, struct bootstrap *bootstrap, struct bench *b, GError **error)
{
    const bool first = bootstrap->rank == 0;
    if (!bench_run(world, &pong_role, b, error)) return false;
    if (first) {
        qsort(b->exchange_us, PONG_COUNT, sizeof b->exchange_us[0], double_compare);
        printf("latency_8 %.3f us\n", b->exchange_us[PONG_COUNT / 2] / 2);
    }
    if (!live_world_barrier(world, error)) return false;
    if (first) {
        if (!bench_run(world, &put_role, b, error)) return false;
        const double us = now_us() - b->start_us;
        printf("put_65536 %.2f MiB/s\n", PUT_COUNT * (double)PUT_BYTES / (1 << 20) / us * 1e6);
    }
    return bootstrap_barrier(bootstrap, error);
}

static int rank_main(struct bootstrap *b, void *context)
{
    struct live_options options = support_options("verbs", 1);
    options.device = context;
    const struct fabric_needs needs = { AREA_BYTES, 8, 1, QUEUE_DEPTH, 0, false };
    g_autoptr(GError) error = NULL;
    struct live_world *world = live_world_new(&options, &needs, b, &error);
    g_autofree struct bench *bench = g_new0(struct bench, 1);
    const bool fine = world && bench_both(world, b, bench, &error);
    const bool skipped = !world && strstr(error->message, "found: none");
    if (skipped && b->rank == 0) printf("bench_verbs: no RDMA device on this machine, nothing to measure\n");
    if (!fine && !skipped) fprintf(stderr, "bench_verbs: %s\n", error->message);
    live_world_free(world);
    return fine || skipped ? 0 : 1;
}

int main(int argc, char **argv) { return bootstrap_fork_run(2, 60000, rank_main, argc > 1 ? argv[1] : NULL); }
