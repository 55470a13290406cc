/* cuda_bench.h - private to `eptwin measure --fabric cuda`: the GPUs with their memory and kernels, runs of a kernel on
 * one or several GPUs, and the values that a pass measures.
 *
 * The memory of a GPU.  All GPUs have areas of the same sizes, and each GPU can reach those of the others:
 *
 *     source   CUDA_SOURCE_BYTES of BF16 numbers
 *     target   CUDA_TARGET_BYTES for each GPU that may write to it
 *     zeros    CUDA_ZEROS_BYTES, read by kernels that time dependent loads
 *     words    flags and counters; cuda_bench_words_clear() clears those that kernels use
 *     table    addresses of targets, for this GPU's runs
 *     results  RESULT_BYTES for each warp
 *
 * Every function that returns bool sets *error when it returns false, and then the measurement ends. */
#ifndef REPLAY_CUDA_BENCH_H
#define REPLAY_CUDA_BENCH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "replay/cuda/cuda_args.h"
#include "replay/cuda/cuda_driver.h"
#include "sim/progress.h"
#include "sim/rng.h"

/* The head of a loop over the indices of an array: for (EACH(i, list)). */
#define EACH(i, list) \
    uint32_t i = 0; \
    i < G_N_ELEMENTS(list); \
    i++

/* Calls a function of the driver for the bench `b`.  False and *error if it fails. */
#define CALL(function, ...) cuda_driver_check(&b->driver, b->driver.function(__VA_ARGS__), #function, error)

enum { CUDA_GPUS_MOST = 8, CUDA_RUNS_MOST = 2 * CUDA_GPUS_MOST, CUDA_TARGETS_MOST = 16 };
enum { CUDA_WORDS_BYTES = 2 << 20, CUDA_WORDS_OWN_BYTES = 4096, CUDA_SHARED_BARS = 1024, CUDA_SHARED_STATIC = 16 };
#define CUDA_SOURCE_BYTES (UINT64_C(1) << 30)
#define CUDA_TARGET_BYTES (UINT64_C(1) << 30)
#define CUDA_ZEROS_BYTES  (UINT64_C(1) << 31)

/* The parameter of every kernel, as kernels get it.  cuda_args.h has the offsets. */
struct cuda_args {
    uint64_t out, source, targets, go, own, peer, cycles;
    uint32_t go_count, source_mask, target_mask, source_stride, target_stride, row_bytes, rows, target_count;
    uint32_t by_block, by_warp, fan, stages, ahead, shared_stride, shared_offset, flags, count, team, index, pad;
};

struct cuda_gpu {
    int device;
    cuda_context context;
    cuda_module module[3];
    GHashTable *functions; /* kernel functions by name; the names are not copied */
    cuda_stream stream[2]; /* stream[1] runs a second kernel at the same time */
    cuda_event event[2];
    uint64_t source, target, zeros, words, table, results;
    void *host; /* 4 KiB of the host's memory that the GPU reaches at host_words */
    uint64_t host_words;
    char name[64];
};

/* One kernel on one GPU. */
struct cuda_run {
    const char *kernel;
    uint32_t gpu, blocks, threads;
    uint32_t shared_bytes; /* dynamic shared memory of a block */
    uint32_t cluster;      /* blocks of a cluster; 0: no clusters */
    bool cooperative;
    bool early;  /* may be launched before the previous kernel has ended */
    bool beside; /* runs on the GPU's second stream */
    uint32_t target_count;
    uint64_t target[CUDA_TARGETS_MOST]; /* addresses; if target_count is 0, the GPU's own target area is used */
    struct cuda_args args;              /* the caller sets all fields but out, targets, target_count, go, go_count */
};

/* The results of a run's warps, combined. */
struct cuda_outcome {
    uint64_t from_ns, to_ns;                  /* when the first warp started and the last one ended, by the GPU's
                                               * timer */
    uint64_t last_from_ns;                    /* when the last warp started */
    double rows_per_ns;                       /* sum of the warps' rates, each measured over the time of that warp */
    double rows, cycles;                      /* rows: the sum over warps; cycles: the mean over warps that did
                                               * something */
    uint32_t warps;                           /* warps that did something */
    uint64_t target_to_ns[CUDA_TARGETS_MOST]; /* [target] end of the last warp in blocks with this target */
};

struct cuda_row {
    char phase[96], metric[32], unit[8];
    uint32_t size_bytes;
    double *sample;
};

struct cuda_bench {
    struct cuda_driver driver;
    uint32_t gpu_count;
    struct cuda_gpu gpu[CUDA_GPUS_MOST];
    uint32_t sms, shared_most, l2_bytes;
    double cycles_per_ns; /* clock of the SMs, measured at the start */
    bool quick;
    const char *kernel; /* the kernel launched last; messages name it */
    size_t cublaslt;    /* version of the library that ran GEMMs; 0: no library was found */
    uint32_t repeat, pass;
    uint32_t go_count; /* blocks so far of runs made together: each adds 1 to GPU 0's first word, and then waits until
                        * the word has this value */
    GArray *rows;      /* struct cuda_row */
    uint32_t row;      /* the row that gets the next value of this pass */
    struct rng rng;    /* draws the first row of footprints beyond L2 */
    struct progress *progress;
};

/* Opens the first gpu_count GPUs.  With 0, opens all that can reach each other. */
struct cuda_bench *cuda_bench_new(uint32_t gpu_count, bool quick, GError **error);
void cuda_bench_free(struct cuda_bench *b);

/* Runs runs[count] at the same time, and sets outcome[count].  The blocks of several runs begin together. */
bool cuda_bench_run(struct cuda_bench *b, struct cuda_run *runs, uint32_t count, struct cuda_outcome *outcome,
                    GError **error);
/* Launches a kernel without waiting for its end.  Its results are not read. */
bool cuda_bench_launch(struct cuda_bench *b, const struct cuda_run *run, GError **error);
/* Times the work that GPU 0's first stream is given between the two calls.  The stream first waits for `us`, so that
 * the caller has this time to give it all the work.  *us gets the measured time. */
bool cuda_bench_time_begin(struct cuda_bench *b, double us, GError **error);
bool cuda_bench_time_end(struct cuda_bench *b, double *us, GError **error);
/* Runs `before` and right after it `after`.  outcome: of both. */
bool cuda_bench_pair(struct cuda_bench *b, const struct cuda_run *before, const struct cuda_run *after,
                     struct cuda_outcome outcome[2], GError **error);
bool cuda_bench_words_clear(struct cuda_bench *b, GError **error);

/* Keeps a value that this pass measured; NAN if it could not be measured.  In the first pass, makes a new row, whose
 * phase is given by `format`. */
void cuda_bench_keep(struct cuda_bench *b, const char *metric, const char *unit, uint32_t size_bytes, double value,
                     const char *format, ...) G_GNUC_PRINTF(6, 7);

/* The address of words that kernels may use.  It changes with each pass, because the slice of L2 that holds a word
 * is nearer to some SMs than to others. */
static inline uint64_t cuda_words(const struct cuda_bench *b, uint32_t gpu)
{
    return b->gpu[gpu].words + CUDA_WORDS_OWN_BYTES + b->pass % 16 * 37 * 128;
}
static inline uint64_t cuda_cycles(const struct cuda_bench *b, double us)
{
    return (uint64_t)(us * 1e3 * b->cycles_per_ns);
}

static inline double cuda_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* A group of benchmarks, and the function that makes one pass over it.  The tables in cuda_one_gpu.c and
 * cuda_many_gpus.c end with a NULL name. */
struct cuda_part {
    const char *name;
    bool (*pass)(struct cuda_bench *b, GError **error);
};
extern const struct cuda_part cuda_one_gpu_parts[], cuda_many_gpus_parts[];

#endif
