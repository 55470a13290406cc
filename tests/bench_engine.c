/* bench_engine.c - events per second of the engine and of other queues, measured in one run by the hold model.
 *
 * In the hold model a constant number of events is pending, and each event that runs schedules itself again after a
 * random increment.  The other queues are the candidates that were considered: a textbook binary heap, a 4-ary heap and
 * a radix heap (one bit a level).  They hold records of (time, sequence, event).  Each number is the median of several
 * runs.  The queues take turns, so that a slow moment of the machine does not hit one queue alone.
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

struct entry {
    uint64_t time_ps, sequence;
    struct holder *holder;
};

static uint64_t increments_ps[INCREMENT_COUNT];
static uint64_t increment_index, hold_count;
static struct holder *holders;

static uint64_t increment_next_ps(void) { return increments_ps[increment_index++ % INCREMENT_COUNT]; }

/* ---- the engine ---- */

static void holder_run(struct sim *sim, struct sim_event *event)
{
    ((struct holder *)event)->run_count++;
    sim_schedule_at(sim, event, sim_now_ps(sim) + increment_next_ps());
}

static double hold_engine(uint32_t pending_count)
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
    (void)sim_run_down(sim, &none, hold_count);
    const double seconds = bench_cpu_seconds() - start;
    sim_free(sim);
    return (double)hold_count / seconds;
}

/* ---- heaps of records, binary or wider ---- */

static struct entry *heap;
static uint32_t heap_count;

static inline bool entry_before(const struct entry *a, const struct entry *b)
{
    return a->time_ps != b->time_ps ? a->time_ps < b->time_ps : a->sequence < b->sequence;
}

static inline void heap_push(struct entry entry, uint32_t arity)
{
    uint32_t hole = heap_count++;
    while (hole > 0 && entry_before(&entry, &heap[(hole - 1) / arity])) {
        heap[hole] = heap[(hole - 1) / arity];
        hole = (hole - 1) / arity;
    }
    heap[hole] = entry;
}

static inline struct entry heap_pop(uint32_t arity)
{
    const struct entry first = heap[0], last = heap[--heap_count];
    uint32_t hole = 0;
    for (uint32_t child = 1; child < heap_count; child = arity * hole + 1) {
        uint32_t least = child;
        for (uint32_t i = child + 1; i < child + arity && i < heap_count; i++)
            if (entry_before(&heap[i], &heap[least])) least = i;
        if (!entry_before(&heap[least], &last)) break;
        heap[hole] = heap[least];
        hole = least;
    }
    heap[hole] = last;
    return first;
}

static inline double hold_heap(uint32_t pending_count, uint32_t arity)
{
    uint64_t sequence = 0;
    double start = 0;
    heap = malloc(pending_count * sizeof *heap);
    assert(heap);
    heap_count = 0;
    for (; sequence < pending_count; sequence++)
        heap_push((struct entry){ increment_next_ps(), sequence, &holders[sequence] }, arity);
    for (uint64_t i = 0; i < hold_count + 2 * (uint64_t)pending_count; i++) {
        if (i == 2 * (uint64_t)pending_count) start = bench_cpu_seconds();
        struct entry entry = heap_pop(arity);
        entry.holder->run_count++;
        entry.time_ps += increment_next_ps();
        entry.sequence = sequence++;
        heap_push(entry, arity);
    }
    const double seconds = bench_cpu_seconds() - start;
    free(heap);
    return (double)hold_count / seconds;
}

static double hold_binary(uint32_t pending_count) { return hold_heap(pending_count, 2); }
static double hold_quaternary(uint32_t pending_count) { return hold_heap(pending_count, 4); }

/* ---- radix heap: times in bucket b differ from the last time run in bit b-1, and in no higher bit ---- */

static struct bucket {
    struct entry *entries;
    uint32_t count, capacity, next;
} buckets[65];

static void radix_push(struct entry entry, uint64_t last_ps)
{
    const uint64_t differing = entry.time_ps ^ last_ps;
    struct bucket *const bucket = &buckets[differing ? 64 - __builtin_clzll(differing) : 0];
    if (bucket->count == bucket->capacity) {
        bucket->capacity = bucket->capacity ? 2 * bucket->capacity : 64;
        bucket->entries = realloc(bucket->entries, bucket->capacity * sizeof *bucket->entries);
        assert(bucket->entries);
    }
    bucket->entries[bucket->count++] = entry;
}

/* First in, first out in bucket 0, so that ties keep their order. */
static struct entry radix_pop(uint64_t *last_ps)
{
    struct bucket *const first = &buckets[0];
    if (first->next == first->count) {
        struct bucket *bucket = first + 1;
        first->next = first->count = 0;
        while (bucket->count == 0) bucket++;
        *last_ps = bucket->entries[0].time_ps;
        for (uint32_t i = 1; i < bucket->count; i++)
            if (bucket->entries[i].time_ps < *last_ps) *last_ps = bucket->entries[i].time_ps;
        for (uint32_t i = 0; i < bucket->count; i++) radix_push(bucket->entries[i], *last_ps);
        bucket->count = 0;
    }
    return first->entries[first->next++];
}

static double hold_radix(uint32_t pending_count)
{
    uint64_t sequence = 0, last_ps = 0;
    double start = 0;
    for (; sequence < pending_count; sequence++)
        radix_push((struct entry){ increment_next_ps(), sequence, &holders[sequence] }, last_ps);
    for (uint64_t i = 0; i < hold_count + 2 * (uint64_t)pending_count; i++) {
        if (i == 2 * (uint64_t)pending_count) start = bench_cpu_seconds();
        struct entry entry = radix_pop(&last_ps);
        entry.holder->run_count++;
        entry.time_ps += increment_next_ps();
        entry.sequence = sequence++;
        radix_push(entry, last_ps);
    }
    const double seconds = bench_cpu_seconds() - start;
    for (int i = 0; i < 65; i++) free(buckets[i].entries), buckets[i] = (struct bucket){ 0 };
    return (double)hold_count / seconds;
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

static const struct {
    const char *name;
    double (*hold)(uint32_t pending_count);
} queues[] = {
    { "engine", hold_engine },
    { "binary heap", hold_binary },
    { "4-ary heap", hold_quaternary },
    { "radix heap", hold_radix },
};

enum {
    DISTRIBUTION_COUNT = sizeof distributions / sizeof distributions[0],
    QUEUE_COUNT = sizeof queues / sizeof queues[0],
};

static void bench_row(const char *distribution, uint32_t pending_count, int run_count)
{
    double rates[QUEUE_COUNT][RUN_COUNT_MAX];
    hold_count = HOLD_COUNT;
    for (int run = 0; run < run_count; run++)
        for (int queue = 0; queue < QUEUE_COUNT; queue++) rates[queue][run] = queues[queue].hold(pending_count);
    printf("%-14s %8u", distribution, pending_count);
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        printf(" %13.1f", stats_median(rates[queue], (uint32_t)run_count) / 1e6);
    printf("\n");
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
    printf("engine: million holds a second of CPU time, median of %d runs\n%-14s %8s", run_count, "increments",
           "pending");
    for (int queue = 0; queue < QUEUE_COUNT; queue++) printf(" %13s", queues[queue].name);
    printf("\n");
    for (int i = 0; i < DISTRIBUTION_COUNT; i++) {
        rng_seed(&rng, 1);
        for (int k = 0; k < INCREMENT_COUNT; k++) increments_ps[k] = (uint64_t)distributions[i].draw(&rng);
        for (size_t k = 0; k < sizeof pending_counts / sizeof pending_counts[0]; k++)
            bench_row(distributions[i].name, pending_counts[k], run_count);
    }
    free(holders);
    return 0;
}
