/* measure.h - private to `eptwin measure`: a table of micro-benchmarks, and the runner that takes samples of them on
 * all ranks.
 *
 * The speed of a machine changes over time.  So the runner makes several passes over all benchmarks, and each
 * benchmark is sampled at fast and at slow times.  replay/README.md explains every row. */
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

enum {
    MEASURE_VALUES = 6,            /* the most metrics that one benchmark gives at once */
    MEASURE_QUEUES = 8,            /* queues to each peer; kernels have one queue for each channel or expert */
    MEASURE_AREA_BYTES = 16 << 20, /* size of each of the heap's two areas: sources, and targets */
    MEASURE_QUEUE_DEPTH = 128,
    MEASURE_PUT_CHAIN = 4, /* puts behind one doorbell, as in low-latency kernels */
    MEASURE_WORDS = 1024,  /* signal words: one for each source rank */
    MEASURE_ROWS_MAX = 4096,
    MEASURE_STRIDE = 7919, /* a prime, so that all rows are used, and successive rows are far apart, as a kernel's
                            * slots are */
};

/* The number of the place of row i in an area with `rows` places.  Successive i use all places. */
static inline uint64_t measure_place(uint64_t i, uint64_t rows) { return i % rows * MEASURE_STRIDE % rows; }

struct measure_row {
    char phase[32], metric[24], unit[8];
    uint32_t size_bytes; /* 0: the metric does not depend on a size */
};
/* The rows of the record.  They are in memory that rank 0 shares with the process that writes the record. */
struct measure_rows {
    char nvlink_carrier[LIVE_CARRIER_BYTES], network_carrier[LIVE_CARRIERS_BYTES];
    struct contention contention; /* of the counted pass in which others and the hypervisor took most CPU time */
    uint32_t passes_disturbed, passes_repeated;
    uint32_t count;
    struct measure_row row[MEASURE_ROWS_MAX];
    double sample[]; /* [row][repeat]; NAN if no rank took part */
};

/* The world that a benchmark measures.  If this world does not exist, the benchmark is left out. */
enum measure_over { MEASURE_LINK, MEASURE_STORE, MEASURE_ATOMIC };

struct measure {
    struct live_command *command;
    struct bootstrap *bootstrap;
    uint32_t repeat, sample_ms;
    bool memory; /* whether this run measures memory: the first with a rank for every CPU or, without one, the last */
    bool most;   /* whether this run has the most ranks of all runs */
    struct measure_rows *rows;

    /* The worlds of a run; NULL between runs. */
    struct live_world *store_world;  /* reaches all ranks by shared memory; NULL if the ranks are on several hosts */
    struct live_world *link_world;   /* reaches all ranks by the link */
    struct live_world *atomic_world; /* like link_world, but signals are fetch-and-adds; NULL if not wanted or
                                      * impossible */
    bool alone;                      /* this benchmark runs on rank 0 only */
    uint8_t *sums;                   /* the target of measure_sum(), MEASURE_AREA_BYTES; NULL before its first call */
    struct measure_loop *loop;       /* rows of measure_loop_run(); NULL before its first call */
    const struct measure_test *test; /* the benchmark that runs */
    uint64_t serial;                 /* the value that signal words get next; equal on all ranks */
    uint32_t pass;                   /* the current pass over all benchmarks; each pass gives one sample */
    uint32_t row;                    /* the row of the next metric in this pass */
    uint32_t *operations;            /* [row of a benchmark's first metric] number of operations that make a sample,
                                      * found in the first pass */
};

/* A benchmark.  run() does `count` operations of size_bytes on every rank.  It sets value[] to this rank's results,
 * or to NAN if the rank took no part.  The runner takes the mean over the ranks that took part.  value[0] is the
 * time of one operation in us, from which the runner chooses how many operations make a sample. */
struct measure_test {
    const char *phase;
    const char *metric[MEASURE_VALUES], *unit[MEASURE_VALUES];
    bool (*run)(struct measure *m, uint32_t size_bytes, uint32_t count, double *value, GError **error);
    const uint32_t *sizes; /* ends with 0; NULL: there are no sizes, and metrics have no suffix */
    enum measure_over over;
    /* For benchmarks of work on rows: the kind of work, and a function that works on row i.  context belongs to
     * measure_local.c. */
    enum fabric_work_kind kind;
    void (*work)(void *context, uint64_t i);
};

/* The role of workers that are never stepped.  They only issue operations. */
extern const struct worker_role measure_no_role;

static inline struct live_world *measure_world(const struct measure *m, enum measure_over over)
{
    return over == MEASURE_STORE ? m->store_world : over == MEASURE_ATOMIC ? m->atomic_world : m->link_world;
}

/* Takes one sample of `test` at each of its sizes.  Rank 0 keeps the samples.  suffix is appended to the phase. */
bool measure_test_run(struct measure *m, const struct measure_test *test, const char *suffix, GError **error);
/* Calls measure_test_run() for each of the tests whose world exists. */
bool measure_tests_run(struct measure *m, const struct measure_test *test, uint32_t count, const char *suffix,
                       GError **error);

/* Touches the memory of rows and stores in this process, because the first access to a page takes microseconds
 * (measure_local.c). */
bool measure_pages_touch(struct measure *m, GError **error);
/* Runs the benchmarks of one process alone: work on rows, steps, polls (measure_local.c). */
bool measure_local_run(struct measure *m, GError **error);
/* Runs the benchmarks of work on rows, on all ranks at once.  Their phases have the suffix _xN. */
bool measure_local_crowd_run(struct measure *m, const char *suffix, GError **error);
/* Measures the bandwidth of memory with copies by as many ranks as there are CPUs, at the same time. */
bool measure_memory_run(struct measure *m, GError **error);
/* Runs the benchmarks between two ranks: stores, puts, signals (measure_links.c). */
bool measure_pair_run(struct measure *m, GError **error);
/* Measures rows that pass from rank to rank, as in low-latency kernels, for several amounts of memory that the loop
 * touches (measure_loop.c). */
bool measure_loop_run(struct measure *m, const char *suffix, GError **error);
/* How many bytes of the heap measure_loop_run() needs after the two areas. */
uint64_t measure_loop_heap_bytes(uint32_t ranks);
void measure_loop_free(struct measure_loop *l);
/* Measures the CPU time of puts and signals between all ranks. */
bool measure_load_run(struct measure *m, const char *suffix, GError **error);
/* Runs the benchmarks between all ranks. */
bool measure_crowd_run(struct measure *m, const char *suffix, GError **error);

/* Adds two rows, as combine does.  Rows of successive i are far apart in the area. */
void measure_sum(struct measure *m, uint64_t i);

double measure_now_us(void);
/* By which factor CPU work takes longer because ranks share CPUs, if nothing else runs; 1 if each rank has a CPU. */
double measure_turns(const struct measure *m);
/* Binds this process to one of the CPUs that this host's ranks may use: to that with number index, modulo the number
 * of CPUs.  Sets *was to the CPUs that the process could use before. */
bool measure_cpu_pin(const struct measure *m, uint32_t index, cpu_set_t *was, GError **error);

#endif
