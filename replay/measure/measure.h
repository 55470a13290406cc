/* measure.h - private to `eptwin measure`: a table of micro-benchmarks, and the runner that takes samples of them on
 * all ranks, in passes over all: a machine's speed drifts, and so each has its share of fast and slow times.
 * replay/README.md says what every row means. */
#ifndef REPLAY_MEASURE_H
#define REPLAY_MEASURE_H

#include <glib.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include "replay/bootstrap/bootstrap.h"
#include "replay/agree.h"
#include "replay/contention.h"
#include "replay/live.h"
#include "replay/live_command.h"
#include "reports/record.h"

enum {
    MEASURE_VALUES = 6,            /* metrics that one benchmark gives at once */
    MEASURE_QUEUES = 8,            /* to each peer; kernels have one for each channel or expert */
    MEASURE_AREA_BYTES = 16 << 20, /* of the heap: sources; as much again: targets */
    MEASURE_QUEUE_DEPTH = 128,
    MEASURE_PUT_CHAIN = 4, /* puts behind one doorbell, as low-latency kernels have them */
    MEASURE_WORDS = 1024,  /* one a source rank */
    MEASURE_ROWS_MAX = 4096,
    MEASURE_STRIDE = 7919, /* prime: rows that follow each other lie apart, as a kernel's slots do */
};

/* Where the i-th of the rows of an area lies that holds so many: all of them have their turn. */
static inline uint64_t measure_place(uint64_t i, uint64_t rows) { return i % rows * MEASURE_STRIDE % rows; }

/* Rows cross from rank 0 to the process that writes the record in memory that both have. */
struct measure_row {
    char phase[32], metric[24], unit[8];
    uint32_t size_bytes;
}; /* no size: 0 */
struct measure_rows {
    char nvlink_carrier[LIVE_CARRIER_BYTES], network_carrier[LIVE_CARRIERS_BYTES];
    struct contention contention; /* of the pass, among those whose samples count, where others took most */
    uint32_t passes_disturbed, passes_repeated;
    uint32_t count;
    struct measure_row row[MEASURE_ROWS_MAX];
    double sample[]; /* [row][repeat]; NAN: nobody took part */
};

struct measure {
    struct live_command *command;
    struct bootstrap *bootstrap;
    uint32_t repeat, sample_ms;
    bool memory; /* this run has as many ranks as CPUs, or comes closest */
    bool most;   /* this run has the most ranks */
    struct measure_rows *rows;

    /* of the rank, while it runs */
    struct live_world *store_world;  /* all ranks by shared memory; NULL: they are on several hosts */
    struct live_world *link_world;   /* all ranks by the link */
    struct live_world *atomic_world; /* the link with signals by fetch-and-add; NULL: not asked for or not there */
    bool alone;                      /* this benchmark runs on rank 0 only */
    uint8_t *sums;                   /* the target of measure_sum(), MEASURE_AREA_BYTES; NULL before its first call */
    struct measure_loop *loop;       /* rows of measure_loop_run(); NULL before the first */
    uint64_t serial;                 /* the next value of signal words; grows alike on all ranks */
    uint32_t pass;                   /* over all benchmarks: one sample of each */
    uint32_t row;                    /* that the next metric of this pass goes to */
    uint32_t *operations;            /* [row of its first metric]: of a sample, found in the first pass */
};

/* One benchmark: count operations of size_bytes, on every rank.  value[]: what this rank found, NAN where it
 * took no part; they are averaged over the ranks that did.  value[0] is the time of one operation in
 * microseconds: from it the runner chooses how many operations make a sample. */
struct measure_test {
    const char *phase;
    const char *metric[MEASURE_VALUES], *unit[MEASURE_VALUES];
    bool (*run)(struct measure *m, uint32_t size_bytes, uint32_t count, double *value, GError **error);
    const uint32_t *sizes; /* ends with 0; NULL: it has no size, metrics have no suffix */
};

/* A sample of test at each of its sizes, which rank 0 keeps.  suffix is put after the phase. */
bool measure_test_run(struct measure *m, const struct measure_test *test, const char *suffix, GError **error);

/* Touches what rows and stores go to, as this process sees it: the first touch of a page takes microseconds
 * (measure_local.c). */
bool measure_pages_touch(struct measure *m, GError **error);
/* Benchmarks of one process alone: work on rows, steps, polls (measure_local.c). */
bool measure_local_run(struct measure *m, GError **error);
/* The benchmarks of work, on all ranks at once, with the suffix _xN. */
bool measure_local_crowd_run(struct measure *m, const char *suffix, GError **error);
/* Copies by as many ranks at once as there are CPUs: the bandwidth of memory. */
bool measure_memory_run(struct measure *m, GError **error);
/* Between two ranks: stores, puts, signals (measure_links.c). */
bool measure_pair_run(struct measure *m, GError **error);
/* Rows that all ranks pass round as low-latency kernels do, at several sizes of the loop (measure_loop.c). */
bool measure_loop_run(struct measure *m, const char *suffix, GError **error);
/* Of the heap, behind both areas. */
uint64_t measure_loop_heap_bytes(uint32_t ranks);
void measure_loop_free(struct measure_loop *l);
/* The CPU time of puts and signals between all ranks. */
bool measure_load_run(struct measure *m, const char *suffix, GError **error);
/* Between all ranks. */
bool measure_crowd_run(struct measure *m, const char *suffix, GError **error);

/* The i-th sum of two rows, as kernels make them in combine: from all over the area. */
void measure_sum(struct measure *m, uint64_t i);

double measure_now_us(void);
/* How much longer CPU work takes where this many ranks take turns on the CPUs, and nothing else runs. */
double measure_turns(const struct measure *m);
/* Pins this process to the index-th of the CPUs of this host's ranks (modulo their number); was: where it was. */
bool measure_cpu_pin(const struct measure *m, uint32_t index, cpu_set_t *was, GError **error);
/* CPU time of this thread, without the time of other processes. */
double measure_cpu_us(void);

#endif
