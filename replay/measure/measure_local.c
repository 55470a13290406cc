/* measure_local.c - the cost of work on a rank's own CPU.  Rows are copied, cast, reduced, summed and scanned as
 * kernels do it.  Other benchmarks step a waiting worker, poll an idle link, start a kernel, and let processes share
 * a CPU.
 *
 * Rows are spread over an area larger than the caches of one core, as a kernel's rows are. */
#include "replay/measure/measure.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include "models/cluster.h"
#include "models/moe/formats.h"

enum { REDUCE_ROWS_MAX = 8, SCAN_BYTES = 64 << 10, MEMORY_BYTES = 64 << 10 };

static struct live_world *any_world(const struct measure *m) { return m->store_world ? m->store_world : m->link_world; }

/* ---- work on rows, through the fabric's work(), as kernels do it ---- */

struct row_work {
    uint8_t *from, *to;
    uint32_t size_bytes; /* size of a BF16 row */
    uint32_t rows_in_area;
    uint32_t reduced; /* reduce: number of rows in a sum */
    uint64_t sum;
};

static uint16_t *row_at(const struct row_work *r, uint64_t i)
{
    return (uint16_t *)(void *)(r->from + measure_place(i, r->rows_in_area) * r->size_bytes);
}

static void work_copy(void *context, uint64_t i)
{
    const struct row_work *r = context;
    memcpy(r->to + measure_place(i + 1, r->rows_in_area) * r->size_bytes, row_at(r, i), r->size_bytes);
}

static void work_cast(void *context, uint64_t i)
{
    const struct row_work *r = context;
    uint8_t *out = r->to + (i % r->rows_in_area) * r->size_bytes;
    const uint32_t hidden = r->size_bytes / 2;
    float *scales = (float *)(void *)(out + hidden);
    format_row_to_fp8(row_at(r, i), hidden, false, out, scales);
}

static void rows_sum(const struct row_work *r, const float *weight, uint64_t i)
{
    const uint16_t *rows[REDUCE_ROWS_MAX];
    for (uint32_t j = 0; j < r->reduced; j++) rows[j] = row_at(r, i * r->reduced + j);
    uint16_t *out = (uint16_t *)(void *)(r->to + (i % r->rows_in_area) * r->size_bytes);
    format_rows_reduce(rows, weight, r->reduced, r->size_bytes / 2, out);
}

static void work_reduce(void *context, uint64_t i)
{
    static const float weight[REDUCE_ROWS_MAX] = { 0.25f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.0625f, 0.0625f };
    rows_sum(context, weight, i);
}

static void work_sum(void *context, uint64_t i) { rows_sum(context, NULL, i); }

static void work_scan(void *context, uint64_t i)
{
    struct row_work *r = context;
    const int32_t *index = (const int32_t *)(const void *)row_at(r, i);
    for (uint32_t j = 0; j < r->size_bytes / sizeof *index; j++) r->sum += index[j] == (int32_t)(i & 63);
}

static void area_fill(struct fabric *f)
{
    uint16_t *values = (uint16_t *)(void *)f->heap;
    if (values[1]) return; /* filled before */
    for (uint32_t i = 0; i < MEASURE_AREA_BYTES / sizeof *values; i++)
        values[i] = format_bf16_from_f32((float)(i % 251) / 64.0f - 1.5f);
}

static void measure_sums_make(struct measure *m)
{
    if (!m->sums) m->sums = memset(g_malloc(MEASURE_AREA_BYTES), 1, MEASURE_AREA_BYTES);
}

/* The sums are written to memory that only this rank writes.  Its pages are touched before the first sum. */
void measure_sum(struct measure *m, uint64_t i)
{
    struct fabric *f = live_world_fabric(m->link_world);
    if (!m->sums) area_fill(f);
    measure_sums_make(m);
    const struct row_work r = { .from = f->heap,
                                .to = m->sums,
                                .size_bytes = CLUSTER_REDUCE_ROW_BYTES,
                                .reduced = 2,
                                .rows_in_area = MEASURE_AREA_BYTES / CLUSTER_REDUCE_ROW_BYTES };
    rows_sum(&r, NULL, i);
}

static enum worker_step no_step(struct fabric_worker *w)
{
    (void)w;
    return WORKER_DONE;
}

const struct worker_role measure_no_role = { .step = no_step };

/* Does the work on rows first to last - 1 through the fabric's work(), and returns its CPU time in us. */
static double rows_work(struct fabric *f, const struct measure_test *test, struct row_work *r, uint64_t first,
                        uint64_t last)
{
    struct fabric_worker worker = fabric_worker_of(f, &measure_no_role);
    const double start_us = contention_thread_us();
    for (uint64_t i = first; i < last; i++) {
        const struct fabric_work work = { .kind = test->kind,
                                          .rows = 1,
                                          .read_bytes = (uint64_t)r->size_bytes * MAX(r->reduced, 1),
                                          .run = test->work,
                                          .context = r,
                                          .argument = i };
        fabric_work(&worker, &work);
    }
    const double took_us = contention_thread_us() - start_us;
    __asm__ volatile("" : : "r"(r->sum)); /* uses the scan's result, so that the compiler keeps the scan */
    return took_us;
}

/* Describes work on rows of `size` bytes at `from`.  For sums, `size` is the size of all rows of a sum together, and
 * a row has a fixed size. */
static struct row_work rows_of(enum fabric_work_kind kind, uint32_t size, uint8_t *from, uint8_t *to)
{
    const bool reduce = kind == FABRIC_WORK_REDUCE;
    struct row_work r = { .from = from,
                          .to = to,
                          .size_bytes = reduce ? CLUSTER_REDUCE_ROW_BYTES : size,
                          .reduced = reduce ? size / CLUSTER_REDUCE_ROW_BYTES : 0 };
    r.rows_in_area = MEASURE_AREA_BYTES / r.size_bytes;
    return r;
}

static void rows_value(const struct measure *m, uint32_t size, uint32_t count, double took_us, double *value)
{
    value[2] = took_us / count;
    value[0] = value[2] * measure_turns(m);
    value[1] = size / value[0] / 1e3;
}

static void rows_time(struct measure *m, const struct measure_test *test, uint32_t size, uint32_t count, double *value)
{
    struct fabric *f = live_world_fabric(any_world(m));
    area_fill(f);
    struct row_work r = rows_of(test->kind, size, f->heap, f->heap + MEASURE_AREA_BYTES);
    rows_value(m, size, count, rows_work(f, test, &r, 0, count), value);
}

/* ---- rows that pass from rank to rank, as a kernel's do ---- */

/* Stores each of the rows first to last - 1 to one peer; the peers take turns.  Returns the CPU time in us. */
static double rows_send(struct fabric *f, const struct row_work *r, uint64_t first, uint64_t last)
{
    struct fabric_worker worker = fabric_worker_of(f, &measure_no_role);
    const double start_us = contention_thread_us();
    for (uint64_t i = first; i < last; i++) {
        const uint64_t place = measure_place(i, r->rows_in_area) * r->size_bytes;
        const struct fabric_write write = {
            .target_offset = MEASURE_AREA_BYTES + place,
            .charge_bytes = r->size_bytes,
            .peer = (uint16_t)((f->rank + 1 + i % (f->rank_count - 1)) % f->rank_count),
            .data = f->heap + place,
            .size_bytes = r->size_bytes,
        };
        const int rc = fabric_store(&worker, &write);
        g_assert(rc == 0); /* stores to memory never wait */
    }
    return contention_thread_us() - start_us;
}

struct handed {
    double store_us, work_us; /* CPU time of a store, and of the work on a row */
};

/* Measures rows that are stored to peers, and that the peers then read.  This is repeated for each area full of
 * rows.  So a rank reads only rows that a peer has just written, and writes only over rows that a peer has just
 * read. */
static bool rows_hand(struct measure *m, uint32_t size, uint32_t count, struct handed *handed, GError **error)
{
    struct fabric *f = live_world_fabric(m->store_world);
    area_fill(f);
    measure_sums_make(m);
    struct row_work r = rows_of(m->test->kind, size, f->heap + MEASURE_AREA_BYTES, m->sums);
    const uint64_t each = MAX(r.reduced, 1), round = r.rows_in_area / each;
    *handed = (struct handed){ 0 };
    for (uint64_t first = 0; first < count; first += round) {
        const uint64_t last = MIN(first + round, count);
        if (!live_world_barrier(m->store_world, error)) return false;
        handed->store_us += rows_send(f, &r, first * each, last * each) / (double)(count * each);
        if (!live_world_barrier(m->store_world, error)) return false;
        handed->work_us += rows_work(f, m->test, &r, first, last) / count;
    }
    return true;
}

static bool test_written(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    struct handed handed;
    if (!rows_hand(m, size, count, &handed, error)) return false;
    rows_value(m, size, count, handed.work_us * count, value);
    return true;
}

static bool test_store_read(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    struct handed handed;
    if (!rows_hand(m, size, count, &handed, error)) return false;
    rows_value(m, size, count, handed.store_us * count, value);
    return true;
}

static bool test_rows(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)error;
    rows_time(m, m->test, size, count, value);
    return true;
}

/* ---- the loop that steps workers ---- */

struct step_worker {
    struct fabric_worker worker;
    uint32_t left;    /* steps until this worker ends */
    const bool *over; /* a waiting worker ends when *over is set */
    bool *ends;       /* set by a counting worker at its end */
};

static enum worker_step waiting_step(struct fabric_worker *w)
{
    const struct step_worker *s = fabric_container_of(w, struct step_worker, worker);
    if (fabric_load(w->fabric, MEASURE_WORDS - 1)) return WORKER_DONE;
    return *s->over ? WORKER_DONE : WORKER_WAIT;
}

static enum worker_step counting_step(struct fabric_worker *w)
{
    struct step_worker *s = fabric_container_of(w, struct step_worker, worker);
    if (--s->left) return WORKER_MORE;
    *s->ends = true;
    return WORKER_DONE;
}

static const struct worker_role waiting_role = { .step = waiting_step }, counting_role = { .step = counting_step };

/* Measures the time of a step of a waiting worker.  Many workers wait, and one more keeps the loop running for
 * `count` rounds. */
static bool test_step(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    enum { WORKERS = 64 };
    (void)size;
    if (m->bootstrap->rank != 0) return true;
    struct step_worker s[WORKERS];
    struct fabric_worker *worker[WORKERS];
    bool over = false;
    for (uint32_t i = 0; i < WORKERS; i++) {
        s[i] = (struct step_worker){ .left = count, .over = &over, .ends = &over };
        s[i].worker = fabric_worker_of(live_world_fabric(any_world(m)), i ? &waiting_role : &counting_role);
        s[i].worker.index = i;
        worker[i] = &s[i].worker;
    }
    const double start_us = measure_now_us();
    if (!live_world_run(any_world(m), worker, WORKERS, error)) return false;
    value[0] = (measure_now_us() - start_us) / count / WORKERS;
    return true;
}

static bool test_launch(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)size;
    if (m->bootstrap->rank != 0) return true;
    struct fabric_worker worker = fabric_worker_of(live_world_fabric(any_world(m)), &measure_no_role);
    struct fabric_worker *workers = &worker;
    const double start_us = measure_now_us();
    for (uint32_t i = 0; i < count; i++)
        if (!live_world_run(any_world(m), &workers, 1, error)) return false;
    value[0] = (measure_now_us() - start_us) / count;
    return true;
}

static bool test_poll(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)size;
    if (m->bootstrap->rank != 0) return true;
    const double start_us = measure_now_us();
    for (uint32_t i = 0; i < count; i++) {
        const int rc = live_world_progress(m->link_world);
        if (rc >= 0) continue;
        return error_run(error, "%s", live_world_failure(m->link_world));
    }
    value[0] = (measure_now_us() - start_us) / count;
    return true;
}

static bool test_clock(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)size, (void)error;
    if (m->bootstrap->rank != 0) return true;
    const double start_us = measure_now_us();
    double last_us = start_us;
    for (uint32_t i = 0; i < count; i++) last_us = measure_now_us();
    value[0] = (last_us - start_us) / count;
    return true;
}

/* ---- two processes on one CPU ---- */

bool measure_cpu_pin(const struct measure *m, uint32_t index, cpu_set_t *was, GError **error)
{
    const cpu_set_t *all = live_world_cpu_set(any_world(m));
    const bool fine = sched_getaffinity(0, sizeof *was, was) == 0 && live_cpu_bind(all, index);
    if (!fine) error_run(error, "sched_setaffinity: %s", g_strerror(errno));
    return fine;
}

/* Measures how long the switch from one process to another takes.  Ranks 0 and 1 share a CPU, and each yields until
 * the other has answered. */
static bool test_switch(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)size;
    const uint32_t rank = m->bootstrap->rank;
    const uint64_t base = m->serial;
    m->serial += count + 1;
    cpu_set_t was;
    if (rank > 1) return true;
    struct fabric *f = live_world_fabric(m->store_world);
    struct fabric_worker worker = fabric_worker_of(f, &measure_no_role);
    if (!measure_cpu_pin(m, 0, &was, error)) return false;
    struct fabric_signal signal = { .word = rank, .peer = (uint16_t)!rank };
    int rc = 0;
    const double start_us = measure_now_us();
    for (uint32_t i = 1; i <= count && rc == 0; i++) {
        signal.value = base + i;
        if (rank == 0) rc = fabric_signal(&worker, &signal);
        while (fabric_load(f, !rank) < base + i) sched_yield();
        if (rank == 1) rc = fabric_signal(&worker, &signal);
    }
    if (rank == 0) value[0] = (measure_now_us() - start_us) / count / 2;
    sched_setaffinity(0, sizeof was, &was);
    return rc == 0;
}

/* Measures how long the scheduler lets a rank run at a time: its CPU time divided by the number of its
 * interruptions.  As many ranks share one CPU as in the run, but at least two. */
static bool test_slice(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    enum { LOOK_US = 8000 };
    (void)size;
    const uint32_t turns = (uint32_t)ceil(measure_turns(m)), ranks = MIN(m->bootstrap->rank_count, MAX(turns, 2));
    cpu_set_t was;
    if (ranks < 2 || m->bootstrap->rank >= ranks) return true;
    if (!measure_cpu_pin(m, 0, &was, error)) return false;
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    const double end_us = measure_now_us() + (double)count * LOOK_US, start_cpu_us = contention_thread_us();
    while (measure_now_us() < end_us) {}
    const double cpu_us = contention_thread_us() - start_cpu_us;
    getrusage(RUSAGE_THREAD, &after);
    value[0] = cpu_us / MAX(after.ru_nivcsw - before.ru_nivcsw, 1);
    sched_setaffinity(0, sizeof was, &was);
    return true;
}

/* ---- tables ---- */

/* Bytes of BF16 rows of 512 to 7168 values; cast needs whole blocks of 128 values. */
static const uint32_t row_sizes[] = { 1024, 2048, 4096, 8192, 14336, 0 };
static const uint32_t reduce_sizes[] = { CLUSTER_REDUCE_ROW_BYTES, 2 * CLUSTER_REDUCE_ROW_BYTES,
                                         4 * CLUSTER_REDUCE_ROW_BYTES, 8 * CLUSTER_REDUCE_ROW_BYTES, 0 };
static const uint32_t scan_sizes[] = { 4096, SCAN_BYTES, 0 };

#define READ_METRICS \
    { "time_us", "read_gbs", "cpu_us" }, { "us", "GB/s", "us" }

static const struct measure_test row_tests[] = {
    { "copy", READ_METRICS, .run = test_rows, .sizes = row_sizes, .kind = FABRIC_WORK_COPY, .work = work_copy },
    { "cast", READ_METRICS, .run = test_rows, .sizes = row_sizes, .kind = FABRIC_WORK_CAST, .work = work_cast },
    { "reduce", READ_METRICS, .run = test_rows, .sizes = reduce_sizes, .kind = FABRIC_WORK_REDUCE,
      .work = work_reduce },
    { "sum", READ_METRICS, .run = test_rows, .sizes = reduce_sizes, .kind = FABRIC_WORK_REDUCE, .work = work_sum },
    { "scan", READ_METRICS, .run = test_rows, .sizes = scan_sizes, .kind = FABRIC_WORK_SCAN, .work = work_scan },
};

/* Benchmarks that run on all ranks at once.  They need ranks that share memory. */
static const struct measure_test handed_tests[] = {
    { "store_read",
      { "time_us", "write_gbs", "cpu_us" },
      { "us", "GB/s", "us" },
      .run = test_store_read,
      .sizes = row_sizes,
      .over = MEASURE_STORE,
      .kind = FABRIC_WORK_COPY,
      .work = work_copy },
    { "copy_written", READ_METRICS, .run = test_written, .sizes = row_sizes, .over = MEASURE_STORE,
      .kind = FABRIC_WORK_COPY, .work = work_copy },
    { "reduce_written", READ_METRICS, .run = test_written, .sizes = reduce_sizes, .over = MEASURE_STORE,
      .kind = FABRIC_WORK_REDUCE, .work = work_reduce },
    { "sum_written", READ_METRICS, .run = test_written, .sizes = reduce_sizes, .over = MEASURE_STORE,
      .kind = FABRIC_WORK_REDUCE, .work = work_sum },
};

/* Runs a benchmark of rows on rank 0, while the other ranks sleep in the bootstrap. */
static bool test_alone(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    m->alone = true;
    const bool fine = m->bootstrap->rank != 0 || test_rows(m, size, count, value, error);
    m->alone = false;
    return fine;
}

bool measure_pages_touch(struct measure *m, GError **error)
{
    enum { PIECE_BYTES = 1 << 20 };
    struct fabric *f = live_world_fabric(any_world(m));
    struct fabric_worker worker = fabric_worker_of(f, &measure_no_role);
    memset(f->heap + MEASURE_AREA_BYTES, 0, MEASURE_AREA_BYTES);
    for (uint16_t peer = 0; peer < f->rank_count; peer++) {
        if (peer == f->rank || fabric_path(f, peer) == FABRIC_RDMA) continue;
        for (uint32_t at = 0; at < MEASURE_AREA_BYTES; at += PIECE_BYTES) {
            const struct fabric_write write = {
                .target_offset = MEASURE_AREA_BYTES + at,
                .charge_bytes = PIECE_BYTES,
                .peer = peer,
                .data = f->heap + at,
                .size_bytes = PIECE_BYTES,
            };
            if (fabric_store(&worker, &write) < 0) break;
        }
    }
    return live_world_barrier(any_world(m), error);
}

bool measure_local_run(struct measure *m, GError **error)
{
    static const struct measure_test loop_tests[] = {
        { "step", { "time_us" }, { "us" }, .run = test_step },
        { "launch", { "time_us" }, { "us" }, .run = test_launch },
        { "poll", { "time_us" }, { "us" }, .run = test_poll },
        { "clock", { "time_us" }, { "us" }, .run = test_clock },
        { "switch", { "time_us" }, { "us" }, .run = test_switch, .over = MEASURE_STORE },
        { "slice", { "time_us" }, { "us" }, .run = test_slice },
    };
    if (!measure_tests_run(m, loop_tests, G_N_ELEMENTS(loop_tests), "", error)) return false;
    for (uint32_t i = 0; i < G_N_ELEMENTS(row_tests); i++) {
        struct measure_test test = row_tests[i];
        test.run = test_alone;
        if (!measure_test_run(m, &test, "", error)) return false;
    }
    return true;
}

/* Measures the bandwidth of memory, reads and writes together.  As many ranks as there are CPUs copy rows at the
 * same time. */
static bool test_memory(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)size, (void)error;
    double copy[3];
    rows_time(m, &row_tests[0], MEMORY_BYTES, count, copy);
    value[0] = copy[0];
    value[1] = 2 * copy[1] * m->bootstrap->rank_count;
    return true;
}

bool measure_memory_run(struct measure *m, GError **error)
{
    static const struct measure_test test = {
        "memory", { "time_us", "total_gbs" }, { "us", "GB/s" }, .run = test_memory
    };
    return measure_test_run(m, &test, "", error);
}

bool measure_local_crowd_run(struct measure *m, const char *suffix, GError **error)
{
    return measure_tests_run(m, row_tests, G_N_ELEMENTS(row_tests), suffix, error) &&
           measure_tests_run(m, handed_tests, G_N_ELEMENTS(handed_tests), suffix, error);
}
