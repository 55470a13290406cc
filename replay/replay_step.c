/* replay_step.c - runs the streams of a step on live links, see replay_step.h. */
#include "replay/replay_step.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "replay/live.h"
#include "sim/memory.h"
#include "sim/progress.h"
#include "sim/stats.h"
#include "sim/units.h"

enum { BATCHES_MAX = 2, NAMES_MAX = STEP_COMPUTE_OPS + UINT8_MAX };

static const uint64_t WORK_SPIN_PS = 100 * PS_PER_US;      /* a sleep may last this much longer than requested */
static const uint64_t WORK_SLEEP_MAX_PS = 500 * PS_PER_US; /* longest sleep at a time; links must be polled in
                                                            * between */

struct replay_step;

/* A stream.  Its worker runs the stream's kernels one after another.  A kernel begins when those that it waits for
 * have ended. */
struct stream {
    struct fabric_worker worker;
    struct replay_step *step;
    uint32_t at; /* the kernel that runs or, between kernels, the next one */
    bool runs;
    uint64_t until_ps;            /* when the current timed work ends */
    struct fabric_worker **inner; /* workers of the current communication that are not done */
    uint32_t inner_count, inner_max;
};

/* A batch, and its communication. */
struct batch {
    struct live_world *world;
    struct kernel_rank *rank;
    uint32_t next;                /* the communication kernel of this batch that runs or, between kernels, the next
                                   * one */
    struct kernel_launch *launch; /* the launch of kernel `next`; NULL until it is prepared */
};

struct replay_step {
    const struct replay_plan *plan;
    struct bootstrap *bootstrap;
    struct batch batch[BATCHES_MAX];
    const struct schedule *schedule;
    double rows;
    struct stream stream[SCHEDULE_STREAMS_MAX];
    uint32_t *gate;                /* [kernels] the earlier kernel whose end the host awaits before it launches this
                                    * one, or SCHEDULE_NONE */
    struct replay_step_span *span; /* [repeat][kernels] */
    double *delay_us;              /* [repeat] how long this rank waited for a CPU that others used */
    struct replay_step_span *now;  /* [kernels] of this iteration; end_us is 0 until the kernel has ended */
};

static uint32_t kernel_count(const struct replay_step *s) { return s->schedule->kernels->len; }
static struct fabric *step_fabric(const struct replay_step *s) { return live_world_fabric(s->batch[0].world); }
static double clock_us(const struct replay_step *s) { return units_us(fabric_now_ps(step_fabric(s))); }

/* ---- a stream ---- */

static uint32_t stream_next(const struct replay_step *s, uint32_t stream, uint32_t from)
{
    while (from < kernel_count(s) && schedule_kernel(s->schedule, from)->stream != stream) from++;
    return from;
}

static bool kernel_ready(const struct replay_step *s, uint32_t kernel)
{
    const struct schedule_kernel *k = schedule_kernel(s->schedule, kernel);
    if (s->gate[kernel] != SCHEDULE_NONE && s->now[s->gate[kernel]].end_us <= 0) return false;
    for (uint32_t i = 0; i < k->num_waits; i++)
        if (s->now[k->wait[i]].end_us <= 0) return false;
    return true;
}

/* Returns the first communication kernel of the batch, from kernel `from` on.  If there is none, returns the number
 * of kernels. */
static uint32_t comm_next(const struct replay_step *s, uint32_t batch, uint32_t from)
{
    for (; from < kernel_count(s); from++) {
        const struct schedule_kernel *k = schedule_kernel(s->schedule, from);
        if (k->op == STEP_COMM && k->batch == batch) break;
    }
    return from;
}

/* Prepares the launch of the batch's next communication kernel.  With payload, this computes the output of the
 * experts.  That is not communication, so it is done during timed work. */
static void comm_prepare(struct replay_step *s, uint32_t batch)
{
    struct batch *b = &s->batch[batch];
    if (b->launch || b->next == kernel_count(s)) return;
    b->launch = kernel_rank_launch(b->rank, schedule_kernel(s->schedule, b->next)->phase);
}

static void kernel_begin(struct replay_step *s, struct stream *stream)
{
    const struct schedule_kernel *k = schedule_kernel(s->schedule, stream->at);
    stream->runs = true;
    if (k->op == STEP_COMM) comm_prepare(s, k->batch);
    s->now[stream->at].begin_us = clock_us(s);
    if (k->op != STEP_COMM) {
        const double us = program_work_us(&s->plan->work, (enum step_op)k->op, s->rows);
        stream->until_ps = fabric_now_ps(step_fabric(s)) + (uint64_t)(us * (double)PS_PER_US);
        for (uint32_t b = 0; b < s->schedule->batches; b++) comm_prepare(s, b);
        return;
    }
    assert(s->batch[k->batch].next == stream->at);
    const struct kernel_launch *launch = s->batch[k->batch].launch;
    if (launch->worker_count > stream->inner_max) {
        stream->inner = g_renew(struct fabric_worker *, stream->inner, launch->worker_count);
        stream->inner_max = launch->worker_count;
    }
    stream->inner_count = launch->worker_count;
    if (launch->worker_count) memcpy(stream->inner, launch->worker, sizeof *stream->inner * launch->worker_count);
}

/* Returns whether the stream's timed work has ended.  If it has not, and this rank does not communicate, sleeps
 * until shortly before the end.  On a busy machine, a process that wakes up gets a CPU at once.  A process that has
 * spun has to wait for one. */
static bool work_ended(const struct replay_step *s, const struct stream *stream)
{
    const uint64_t now_ps = fabric_now_ps(step_fabric(s));
    if (now_ps >= stream->until_ps) return true;
    for (uint32_t i = 0; i < SCHEDULE_STREAMS_MAX; i++) {
        const struct stream *other = &s->stream[i];
        if (!other->runs || schedule_kernel(s->schedule, other->at)->op != STEP_COMM) continue;
        sched_yield(); /* leaves the CPU to ranks that communicate */
        return false;
    }
    const uint64_t left_ps = stream->until_ps - now_ps;
    if (left_ps <= WORK_SPIN_PS) return false;
    const uint64_t sleep_ps = MIN(left_ps - WORK_SPIN_PS, WORK_SLEEP_MAX_PS);
    const struct timespec sleep_time = { .tv_nsec = (long)(sleep_ps / PS_PER_NS) };
    nanosleep(&sleep_time, NULL);
    return false;
}

/* Steps the stream's kernel, and returns whether it has ended.  Sets *moved if the kernel progressed. */
static bool kernel_ended(const struct replay_step *s, struct stream *stream, bool *moved)
{
    const struct schedule_kernel *k = schedule_kernel(s->schedule, stream->at);
    if (k->op != STEP_COMM) {
        *moved = true; /* timed work waits for no other rank, so it never hangs */
        return work_ended(s, stream);
    }
    struct fabric *fabric = live_world_fabric(s->batch[k->batch].world);
    const uint64_t before = live_world_operations(fabric);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < stream->inner_count; i++) {
        const enum worker_step step = fabric_worker_step(stream->inner[i]);
        *moved |= step != WORKER_WAIT;
        if (step != WORKER_DONE) stream->inner[kept++] = stream->inner[i];
    }
    stream->inner_count = kept;
    *moved |= live_world_operations(fabric) != before;
    return kept == 0;
}

static void comm_go_on(struct replay_step *s, uint32_t ended)
{
    const struct schedule_kernel *k = schedule_kernel(s->schedule, ended);
    if (k->op != STEP_COMM) return;
    s->batch[k->batch].launch = NULL;
    s->batch[k->batch].next = comm_next(s, k->batch, ended + 1);
}

static enum worker_step stream_step(struct fabric_worker *w)
{
    struct stream *stream = fabric_container_of(w, struct stream, worker);
    struct replay_step *s = stream->step;
    bool moved = false;
    if (stream->at == kernel_count(s)) return WORKER_DONE;
    if (!stream->runs) {
        if (!kernel_ready(s, stream->at)) return WORKER_WAIT;
        kernel_begin(s, stream);
    }
    if (!kernel_ended(s, stream, &moved)) return moved ? WORKER_MORE : WORKER_WAIT;
    s->now[stream->at].end_us = clock_us(s);
    stream->runs = false;
    comm_go_on(s, stream->at);
    stream->at = stream_next(s, schedule_kernel(s->schedule, stream->at)->stream, stream->at + 1);
    return stream->at == kernel_count(s) ? WORKER_DONE : WORKER_MORE;
}

static void stream_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct stream *stream = fabric_container_of(w, struct stream, worker);
    if (stream->at == kernel_count(stream->step)) return;
    const struct schedule_kernel *k = schedule_kernel(stream->step->schedule, stream->at);
    if (!stream->runs || !stream->inner_count || k->op != STEP_COMM) {
        g_snprintf(text, text_size, "layer %u: %s of batch %u has not begun", k->layer,
                   step_op_name((enum step_op)k->op), k->batch);
        return;
    }
    char inner[160] = "";
    fabric_worker_describe(stream->inner[0], inner, sizeof inner);
    g_snprintf(text, text_size, "layer %u: %s: %s", k->layer,
               kernel_phase_name(stream->step->plan->item[0].job, k->phase), inner);
}

static const struct worker_role stream_role = { .step = stream_step, .describe = stream_describe };

/* ---- iterations ---- */

static bool step_iterate(struct replay_step *s, GError **error)
{
    struct fabric_worker *worker[SCHEDULE_STREAMS_MAX];
    memset(s->now, 0, sizeof *s->now * kernel_count(s));
    for (uint32_t i = 0; i < SCHEDULE_STREAMS_MAX; i++) {
        s->stream[i].at = stream_next(s, i, 0);
        s->stream[i].step = s;
        s->stream[i].worker = fabric_worker_of(step_fabric(s), &stream_role);
        s->stream[i].worker.index = i;
        worker[i] = &s->stream[i].worker;
    }
    for (uint32_t b = 0; b < s->schedule->batches; b++) {
        s->batch[b].next = comm_next(s, b, 0);
        s->batch[b].launch = NULL;
        comm_prepare(s, b);
    }
    if (!live_world_barrier(s->batch[0].world, error)) return false;
    return live_world_run(s->batch[0].world, worker, SCHEDULE_STREAMS_MAX, error);
}

static bool step_check(const struct replay_step *s, uint32_t iteration, GError **error)
{
    for (uint32_t b = 0; b < s->schedule->batches; b++) {
        char text[256] = "";
        const uint32_t failed = kernel_rank_check(s->batch[b].rank, text, sizeof text);
        if (!failed) continue;
        return error_run(error, "rank %u: batch %u iteration %u: %u checks failed: %s", s->bootstrap->rank, b,
                         iteration, failed, text);
    }
    return true;
}

/* How long this thread has waited for a CPU so far, in us; 0 if the operating system does not count it. */
static double delay_us(void)
{
    g_autofree char *text = NULL;
    unsigned long long ran, waited;
    const bool told = g_file_get_contents("/proc/thread-self/schedstat", &text, NULL, NULL) &&
                      sscanf(text, "%llu %llu", &ran, &waited) == 2;
    return told ? (double)waited / 1e3 : 0;
}

static bool step_iterations(struct replay_step *s, GError **error)
{
    const struct replay_plan *plan = s->plan;
    const uint32_t total = plan->warmup + plan->repeat;
    struct progress *progress = s->bootstrap->rank == 0 ? progress_new("iterations", total) : NULL;
    bool good = true;
    for (uint32_t i = 0; good && i < total; i++) {
        const double before_us = delay_us();
        good = step_iterate(s, error);
        if (good && i >= plan->warmup) {
            const size_t place = i - plan->warmup;
            s->delay_us[place] = delay_us() - before_us;
            memcpy(s->span + place * kernel_count(s), s->now, sizeof *s->now * kernel_count(s));
        }
        if (good && plan->check && (i == 0 || i + 1 == total)) good = step_check(s, i, error);
        progress_advance(progress, 1);
    }
    progress_free(progress);
    return good;
}

/* Makes the worlds, kernels and streams.  Collective. */
static bool step_open(struct replay_step *s, GError **error)
{
    const struct replay_plan *plan = s->plan;
    const struct kernel_job *job = plan->item[0].job;
    s->schedule = plan->program;
    s->gate = g_new(uint32_t, kernel_count(s));
    for (uint32_t k = 0, gate = SCHEDULE_NONE; k < kernel_count(s); k++) {
        s->gate[k] = gate;
        if (schedule_kernel(s->schedule, k)->host_waits) gate = k;
    }
    s->now = g_new0(struct replay_step_span, kernel_count(s));
    s->span = g_new0(struct replay_step_span, (gsize)plan->repeat * kernel_count(s));
    s->delay_us = g_new0(double, plan->repeat);
    g_autofree double *rows = program_rows(&plan->item[0].load.routing, 1);
    s->rows = rows[s->bootstrap->rank];
    for (uint32_t b = 0; b < s->schedule->batches; b++) {
        struct fabric_needs needs;
        kernel_job_needs(job, true, &needs);
        needs.queue_count = MAX(needs.queue_count, 1);
        needs.queue_depth = MAX(needs.queue_depth, 1);
        struct live_options options = plan->command->live;
        options.ranks_per_node = job->ranks_per_node;
        options.nvlink_disabled = case_peers_by_rdma(plan->case_options);
        s->batch[b].world = live_world_new(&options, &needs, s->bootstrap, error);
        if (!s->batch[b].world) return false;
        s->batch[b].rank = kernel_rank_new(job, live_world_fabric(s->batch[b].world));
    }
    live_command_note(plan->command, s->batch[0].world);
    if (live_world_one_clock(s->batch[0].world)) return true;
    return error_input(error, "--schedule: expected ranks of one host, whose clocks are one");
}

static void step_close(struct replay_step *s)
{
    for (uint32_t b = 0; b < BATCHES_MAX; b++) {
        kernel_rank_free(s->batch[b].rank);
        live_world_free(s->batch[b].world);
    }
    for (uint32_t i = 0; i < SCHEDULE_STREAMS_MAX; i++) g_free(s->stream[i].inner);
    FREE_ALL(s->gate, s->span, s->delay_us, s->now);
}

/* ---- results ---- */

void replay_step_sum_up(const struct schedule *schedule, const struct kernel_job *job,
                        const struct replay_step_span *span, uint32_t ranks, struct replay_step_sum *sum)
{
    const uint32_t kernels = schedule->kernels->len;
    double first_us = INFINITY, last_us = 0;
    *sum = (struct replay_step_sum){ 0 };
    for (uint32_t k = 0; k < kernels; k++) {
        const struct schedule_kernel *kernel = schedule_kernel(schedule, k);
        const uint32_t name = kernel->op == STEP_COMM ? (uint32_t)STEP_COMPUTE_OPS + kernel->phase : kernel->op;
        const uint32_t meeting = program_meeting(schedule, job, k);
        double all_us = 0;
        for (uint32_t r = 0; meeting != SCHEDULE_NONE && r < ranks; r++)
            all_us = fmax(all_us, span[(size_t)r * kernels + meeting].begin_us);
        sum->kernels[name]++;
        for (uint32_t r = 0; r < ranks; r++) {
            const struct replay_step_span *at = &span[(size_t)r * kernels + k];
            const double waited_us = fmax(fmin(all_us, at->end_us) - at->begin_us, 0);
            first_us = fmin(first_us, at->begin_us);
            last_us = fmax(last_us, at->end_us);
            sum->mean_us[name] += (at->end_us - at->begin_us) / ranks;
            sum->waiting_us[name] += waited_us / ranks;
            sum->waited_us += waited_us / ranks;
        }
    }
    sum->step_us = last_us - first_us;
    for (uint32_t n = 0; n < NAMES_MAX; n++) {
        sum->mean_us[n] /= MAX(sum->kernels[n], 1);
        sum->waiting_us[n] /= MAX(sum->kernels[n], 1);
    }
}

static void row_add(struct record *record, const char *phase, const char *metric, double *values, uint32_t count)
{
    record_add(record, phase, RECORD_ALL, metric, stats_median(values, count), "us");
}

/* Adds rows with the medians over the counted iterations. */
static void rows_add(struct record *record, const struct replay_step *s, const struct replay_step_sum *sum,
                     uint32_t count)
{
    const struct kernel_job *job = s->plan->item[0].job;
    g_autofree double *value = g_new(double, count);
    for (uint32_t i = 0; i < count; i++) value[i] = sum[i].step_us;
    row_add(record, "step", "time_us", value, count);
    record_add(record, "step", RECORD_ALL, "time_us_min", stats_min(value, count), "us");
    record_add(record, "step", RECORD_ALL, "time_us_max", stats_max(value, count), "us");
    for (uint32_t i = 0; i < count; i++) value[i] = sum[i].waited_us;
    row_add(record, "step", "waited_us", value, count);
    record_add(record, "step", RECORD_ALL, "waited_us_min", stats_min(value, count), "us");
    record_add(record, "step", RECORD_ALL, "waited_us_max", stats_max(value, count), "us");
    for (uint32_t i = 0; i < count; i++) value[i] = sum[i].delay_us;
    row_add(record, "step", "delayed_us", value, count);
    for (uint32_t n = 0; n < NAMES_MAX; n++) {
        if (!sum->kernels[n]) continue;
        const char *name = n < STEP_COMPUTE_OPS ? step_op_name((enum step_op)n)
                                                : kernel_phase_name(job, n - (uint32_t)STEP_COMPUTE_OPS);
        for (uint32_t i = 0; i < count; i++) value[i] = sum[i].mean_us[n];
        row_add(record, name, "time_us", value, count);
        for (uint32_t i = 0; i < count; i++) value[i] = sum[i].waiting_us[n];
        if (n >= STEP_COMPUTE_OPS) row_add(record, name, "waiting_us", value, count);
    }
}

static int sums_compare(const void *a, const void *b)
{
    const double x = ((const struct replay_step_sum *)a)->delay_us, y = ((const struct replay_step_sum *)b)->delay_us;
    return x < y ? -1 : x > y;
}

/* Makes the record.  Only the less disturbed half of the iterations counts.  In the other half, ranks waited because
 * other processes used the CPUs, which says nothing about the schedule. */
static bool record_make(struct replay_step *s, const struct replay_step_span *all, const double *delay,
                        const struct contention *contention, GError **error)
{
    const struct replay_plan *plan = s->plan;
    const uint32_t kernels = kernel_count(s), ranks = s->bootstrap->rank_count, repeat = plan->repeat;
    g_autofree struct replay_step_sum *sum = g_new(struct replay_step_sum, repeat);
    g_autofree struct replay_step_span *one = g_new(struct replay_step_span, (gsize)ranks * kernels);
    for (uint32_t i = 0; i < repeat; i++) {
        for (uint32_t r = 0; r < ranks; r++)
            memcpy(one + (size_t)r * kernels, all + ((size_t)r * repeat + i) * kernels, sizeof *one * kernels);
        replay_step_sum_up(s->schedule, plan->item[0].job, one, ranks, &sum[i]);
        for (uint32_t r = 0; r < ranks; r++) sum[i].delay_us += delay[(size_t)r * repeat + i];
    }
    qsort(sum, repeat, sizeof *sum, sums_compare);
    g_autoptr(record) record = record_new();
    replay_record_header(plan, s->bootstrap, record);
    g_autofree char *keys = g_strdup(record_get(record, RECORD_CASE_KEYS));
    record_set(record, RECORD_CASE_KEYS, "%s work layers-simulated schedule", keys);
    record_set(record, "schedule", "%s", step_overlap_name(plan->overlap));
    record_set(record, "work", "%s", plan->work_text);
    record_set(record, "layers-simulated", "%u of %u", plan->schedule_layers, plan->schedule_layers);
    record_set(record, "iterations-counted", "%u of %u", (repeat + 1) / 2, repeat);
    contention_record(contention, record);
    rows_add(record, s, sum, (repeat + 1) / 2);
    const char *output = plan->command->output ? plan->command->output : "-";
    return record_write(record, output, plan->command->record_format, error);
}

bool replay_step_main(struct bootstrap *b, const struct replay_plan *plan, GError **error)
{
    struct replay_step s = { .plan = plan, .bootstrap = b };
    struct contention_watch watch;
    struct contention contention = { 0 };
    g_autofree struct replay_step_span *all = NULL;
    g_autofree double *delay = NULL;
    bool good = step_open(&s, error) && contention_begin(b, &watch, error) && step_iterations(&s, error) &&
                contention_end(b, &watch, &contention, error);
    if (good) {
        const size_t bytes = sizeof *s.span * plan->repeat * kernel_count(&s);
        all = g_malloc(bytes * b->rank_count);
        delay = g_new(double, (gsize)b->rank_count * plan->repeat);
        good = bootstrap_allgather(b, s.span, bytes, all, error) && /* the exchange also ensures that no rank frees
                                                                     * memory to which others still write */
               bootstrap_allgather(b, s.delay_us, sizeof *delay * plan->repeat, delay, error);
    }
    if (good && b->rank == 0) good = record_make(&s, all, delay, &contention, error);
    step_close(&s);
    return good;
}
