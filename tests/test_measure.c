/* test_measure.c - is a measured latency the latency of the link?
 *
 * Aim: the ping-pongs of replay/measure/measure_links.c.  Method: a link of shared memory on which each signal takes a
 * known time, which is long compared with the machine's own delays.  The latency must be the time of one signal, not of
 * a round trip. */
#include <math.h>
#include <string.h>
#include "replay/live_internal.h"
#include "replay/measure/measure.h"
#include "tests/support_live.h"
#include "tests/unit.h"

enum { RANKS = 2, DELAY_US = 10000 };

static const struct live_link_ops *honest;

static int delayed_signal(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t target, uint64_t value,
                          bool add)
{
    g_usleep(DELAY_US);
    return honest->signal(link, peer, queue, target, value, add);
}

static struct measure_rows *rows;
static struct live_world *world[RANKS];

static bool pair_run(struct bootstrap *b, void *context)
{
    struct measure m = { .bootstrap = b, .repeat = 1, .sample_ms = 1, .rows = rows, .link_world = world[b->rank] };
    g_autoptr(GError) error = NULL;
    (void)context;
    m.operations = g_new0(uint32_t, MEASURE_ROWS_MAX);
    const bool fine = measure_pair_run(&m, &error);
    if (!fine) printf("\n      %s\n", error->message);
    g_free(m.operations);
    g_free(m.sums);
    return fine;
}

TEST("latencies are one way")
{
    const struct fabric_needs needs = { .heap_bytes = UINT64_C(2) * MEASURE_AREA_BYTES,
                                        .word_count = MEASURE_WORDS,
                                        .queue_count = MEASURE_QUEUES,
                                        .queue_depth = MEASURE_QUEUE_DEPTH };
    struct live_options options = support_options("shm", 1);
    struct bootstrap **b = support_bootstraps_new(RANKS);
    CU_ASSERT_TRUE_FATAL(support_worlds_new(&options, &needs, b, RANKS, world, NULL));
    honest = world[0]->link->ops;
    struct live_link_ops delayed = *honest;
    delayed.signal = delayed_signal;
    for (int r = 0; r < RANKS; r++) world[r]->link->ops = &delayed;
    rows = g_malloc0(sizeof *rows + MEASURE_ROWS_MAX * sizeof rows->sample[0]);
    CU_ASSERT_EQUAL(support_bootstraps_run(b, RANKS, pair_run, NULL), 0);
    uint32_t latencies = 0;
    double least_us = INFINITY;
    for (uint32_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->row[i].metric, "latency_us") != 0) continue;
        latencies++;
        CU_ASSERT(rows->sample[i] >= DELAY_US);
        least_us = fmin(least_us, rows->sample[i]);
    }
    CU_ASSERT(least_us < 1.7 * DELAY_US); /* at least one sample is not slowed by other processes */
    CU_ASSERT_EQUAL(latencies, 7);        /* one for each of six sizes of puts, and one for signals */
    g_free(rows);
    for (int r = 0; r < RANKS; r++) live_world_free(world[r]);
    support_bootstraps_free(b, RANKS);
}
