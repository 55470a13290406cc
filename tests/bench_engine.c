/* bench_engine.c - events per second of the engine, measured by the hold model.
 *
 * In the hold model a constant number of events is pending, and each event that runs schedules itself again after a
 * random increment.  Each number is the median of several runs.
 *
 * bench_engine [RUNS]: default 5. */
#include "sim/rng.h"
#include "sim/sim.h"
#include "sim/stats.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/bench.h"

enum { INCREMENT_COUNT = 8192, HOLD_COUNT = 500000, RUN_COUNT_MAX = 99 };

/* An event in an object of one cache line.  Each run of the event touches the object, as a simulator would. */
struct holder {
    struct sim_event event;
    uint64_t run_count;
    uint64_t padding[4];
};

static uint64_t increments_ps[INCREMENT_COUNT];
static uint64_t increment_index;
static struct holder *holders;

static uint64_t increment_next_ps(void) { return increments_ps[increment_index++ % INCREMENT_COUNT]; }

static void holder_run(struct sim *sim, struct sim_event *event)
{
    ((struct holder *)event)->run_count++;
    sim_schedule_at(sim, event, sim_now_ps(sim) + increment_next_ps());
}

static double hold(uint32_t pending_count)
{
    const uint32_t none = 0;
    struct sim *const sim = sim_new(pending_count);
    sim_handler_set(sim, 0, holder_run);
    for (uint32_t i = 0; i < pending_count; i++) {
        holders[i].event = (struct sim_event){ .kind = 0 };
        sim_schedule_at(sim, &holders[i].event, increment_next_ps());
    }
    (void)sim_run_down(sim, &none, 2 * (uint64_t)pending_count); /* until the queue is in its steady state */
    const double start = bench_cpu_seconds();
    (void)sim_run_down(sim, &none, HOLD_COUNT);
    const double seconds = bench_cpu_seconds() - start;
    sim_free(sim);
    return HOLD_COUNT / seconds;
}

/* ---- increments in ps, with means of 1 to 1.5 us ---- */

static double draw_exponential(struct rng *rng) { return -1e6 * log(1 - rng_uniform(rng)); }
static double draw_uniform(struct rng *rng) { return 2e6 * rng_uniform(rng); }

/* Nine in ten increments are below 10 ns, one in ten is 10 to 20 us.  Such skew ruins calendar queues of one width. */
static double draw_bimodal(struct rng *rng)
{
    return rng_uniform(rng) < 0.9 ? 1e4 * rng_uniform(rng) : 1e7 * (1 + rng_uniform(rng));
}

static double draw_constant(struct rng *rng)
{
    (void)rng;
    return 1e6;
}
static double draw_ties(struct rng *rng) { return 1e6 * (double)rng_below(rng, 3); }

static const struct {
    const char *name;
    double (*draw)(struct rng *rng);
} distributions[] = {
    { "exponential", draw_exponential }, { "uniform", draw_uniform },   { "bimodal", draw_bimodal },
    { "constant", draw_constant },       { "three values", draw_ties },
};

enum { DISTRIBUTION_COUNT = sizeof distributions / sizeof distributions[0] };

static void bench_row(const char *distribution, uint32_t pending_count, int run_count)
{
    double rate[RUN_COUNT_MAX];
    for (int run = 0; run < run_count; run++) rate[run] = hold(pending_count);
    printf("%-14s %8u %13.1f\n", distribution, pending_count, stats_median(rate, (uint32_t)run_count) / 1e6);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const uint32_t pending_counts[] = { 10, 1000, 100000, 1000000 };
    const int run_count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    struct rng rng;
    if (run_count < 1 || run_count > RUN_COUNT_MAX) {
        fprintf(stderr, "bench_engine: expected 1 to %d runs, found '%s'\n", RUN_COUNT_MAX, argv[1]);
        return 2;
    }
    holders = calloc(1000000, sizeof *holders);
    assert(holders);
    printf("engine: million holds a second of CPU time, median of %d runs\n%-14s %8s %13s\n", run_count, "increments",
           "pending", "holds");
    for (int i = 0; i < DISTRIBUTION_COUNT; i++) {
        rng_seed(&rng, 1);
        for (int k = 0; k < INCREMENT_COUNT; k++) increments_ps[k] = (uint64_t)distributions[i].draw(&rng);
        for (size_t k = 0; k < sizeof pending_counts / sizeof pending_counts[0]; k++)
            bench_row(distributions[i].name, pending_counts[k], run_count);
    }
    free(holders);
    return 0;
}
