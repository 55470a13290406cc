/* support_job.c - see support_job.h. */
#include "tests/support_job.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "models/hardware/world/world.h"
#include "sim/units.h"
#include "tests/support_live.h"
#include "tests/support_loop.h"
#include "tests/support_sim.h"

enum { TENSORS_MAX = 16, RANKS_MAX = 64 };

static void rank_check(const struct kernel_rank *rank)
{
    char text[256] = "";
    const uint32_t failed = kernel_rank_check(rank, text, sizeof text);
    if (failed) printf("\n      %u checks failed, first: %s\n", failed, text);
    CU_ASSERT_EQUAL(failed, 0);
}

/* ---- simulated ---- */

void job_sim_init(struct job_sim *sim, const struct kernel_job *job, const struct cluster *cluster, bool payload,
                  bool nvlink_disabled)
{
    struct fabric_needs needs;
    kernel_job_needs(job, payload, &needs);
    const struct world_options options = {
        .ranks = job->ranks,
        .ranks_per_node = job->ranks_per_node,
        .nvlink_disabled = nvlink_disabled,
        .payload = payload,
        .needs = needs,
    };
    *sim = (struct job_sim){ .job = job, .world = world_new(cluster, &options) };
    CU_ASSERT_PTR_NOT_NULL_FATAL(sim->world);
    sim->rank = g_new0(struct kernel_rank *, job->ranks);
    sim->time_ps = g_new0(uint64_t, job->ranks);
    for (uint32_t r = 0; r < job->ranks; r++) {
        sim->rank[r] = kernel_rank_new(job, world_fabric(sim->world, r));
        CU_ASSERT_PTR_NOT_NULL_FATAL(sim->rank[r]);
    }
}

void job_sim_clear(struct job_sim *sim)
{
    for (uint32_t r = 0; r < sim->job->ranks; r++) kernel_rank_free(sim->rank[r]);
    world_free(sim->world);
    g_free(sim->rank);
    g_free(sim->time_ps);
}

void job_sim_run(struct job_sim *sim, uint32_t phase)
{
    const uint32_t ranks = sim->job->ranks;
    g_autofree struct fabric_worker ***worker = g_new0(struct fabric_worker **, ranks);
    g_autofree uint32_t *count = g_new0(uint32_t, ranks);
    g_autofree struct world_result *result = g_new0(struct world_result, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        const struct kernel_launch *launch = kernel_rank_launch(sim->rank[r], phase);
        worker[r] = launch->worker;
        count[r] = launch->worker_count;
    }
    char why[256] = "";
    const bool ended = world_run(sim->world, worker, count, result, why, sizeof why);
    if (!ended) printf("\n      %s\n", why);
    CU_ASSERT_TRUE_FATAL(ended);
    for (uint32_t r = 0; r < ranks; r++) sim->time_ps[r] = result[r].time_ps;
}

/* Fills time_ps[] with the times of all phases and ranks, one after another. */
static void sim_times(const struct kernel_job *job, uint32_t iterations, bool payload, bool nvlink_disabled,
                      uint64_t *time_ps)
{
    const struct cluster cluster = support_cluster(job->ranks_per_node);
    struct job_sim sim;
    job_sim_init(&sim, job, &cluster, payload, nvlink_disabled);
    for (uint32_t i = 0; i < iterations; i++)
        for (uint32_t phase = 0; phase < kernel_phase_count(job); phase++) {
            job_sim_run(&sim, phase);
            memcpy(time_ps, sim.time_ps, job->ranks * sizeof *time_ps);
            time_ps += job->ranks;
        }
    job_sim_clear(&sim);
}

static void sim_repeats(const struct kernel_job *job, uint32_t iterations, bool nvlink_disabled)
{
    const size_t bytes = sizeof(uint64_t) * iterations * kernel_phase_count(job) * job->ranks;
    g_autofree uint64_t *first = g_malloc(bytes), *again = g_malloc(bytes), *sizes = g_malloc(bytes);
    sim_times(job, iterations, true, nvlink_disabled, first);
    sim_times(job, iterations, true, nvlink_disabled, again);
    sim_times(job, iterations, false, nvlink_disabled, sizes);
    CU_ASSERT_EQUAL(memcmp(first, again, bytes), 0);
    CU_ASSERT_EQUAL(memcmp(first, sizes, bytes), 0);
}

/* ---- live ---- */

struct job_live {
    const struct kernel_job *job;
    struct bootstrap **bootstrap;
    struct live_world *world[RANKS_MAX];
    struct kernel_rank *rank[RANKS_MAX];
    struct fabric_ops ops;
};

/* A rank's clock is its thread's CPU time, so that other load on the machine makes no rank late. */
static uint64_t thread_now_ps(const struct fabric *f)
{
    (void)f;
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * PS_PER_S + (uint64_t)now.tv_nsec * PS_PER_NS;
}

static void live_init(struct job_live *live, const struct kernel_job *job, const struct live_options *options)
{
    struct fabric_needs needs;
    GError *error = NULL;
    CU_ASSERT_FATAL(job->ranks <= RANKS_MAX);
    kernel_job_needs(job, true, &needs);
    needs.queue_count = MAX(needs.queue_count, 1);
    needs.queue_depth = MAX(needs.queue_depth, 1);
    *live = (struct job_live){ .job = job, .bootstrap = support_bootstraps_new(job->ranks) };
    const bool made = support_worlds_new(options, &needs, live->bootstrap, job->ranks, live->world, &error);
    if (error) puts(error->message);
    CU_ASSERT_TRUE_FATAL(made);
    for (uint32_t r = 0; r < job->ranks; r++) {
        struct fabric *f = live_world_fabric(live->world[r]);
        live->ops = *f->ops;
        live->ops.now_ps = thread_now_ps;
        f->ops = &live->ops;
        live->rank[r] = kernel_rank_new(job, f);
        CU_ASSERT_PTR_NOT_NULL_FATAL(live->rank[r]);
    }
}

static void live_clear(struct job_live *live)
{
    for (uint32_t r = 0; r < live->job->ranks; r++) {
        kernel_rank_free(live->rank[r]);
        live_world_free(live->world[r]);
    }
    support_bootstraps_free(live->bootstrap, live->job->ranks);
}

static void live_run(struct job_live *live, uint32_t phase)
{
    g_autoptr(GPtrArray) worker = g_ptr_array_new();
    for (uint32_t r = 0; r < live->job->ranks; r++) {
        const struct kernel_launch *launch = kernel_rank_launch(live->rank[r], phase);
        for (uint32_t i = 0; i < launch->worker_count; i++) g_ptr_array_add(worker, launch->worker[i]);
    }
    char why[256] = "";
    const bool ended = support_worlds_run(live->world, live->job->ranks, (struct fabric_worker **)worker->pdata,
                                          worker->len, why, sizeof why);
    if (!ended) printf("\n      %s\n", why);
    CU_ASSERT_TRUE_FATAL(ended);
}

static void outputs_compare(struct kernel_rank *a, struct kernel_rank *b)
{
    struct kernel_tensor x[TENSORS_MAX], y[TENSORS_MAX];
    const uint32_t count = kernel_rank_outputs(a, x, TENSORS_MAX);
    CU_ASSERT_EQUAL_FATAL(kernel_rank_outputs(b, y, TENSORS_MAX), count);
    CU_ASSERT(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_STRING_EQUAL(x[i].name, y[i].name);
        CU_ASSERT_EQUAL_FATAL(x[i].size_bytes, y[i].size_bytes);
        const bool same = memcmp(x[i].data, y[i].data, x[i].size_bytes) == 0;
        if (!same) printf("\n      %s differs between the worlds\n", x[i].name);
        CU_ASSERT_TRUE(same);
    }
}

void job_two_worlds_over(const struct kernel_job *job, uint32_t iterations, const struct live_options *options)
{
    const struct cluster cluster = support_cluster(job->ranks_per_node);
    struct job_sim sim;
    struct job_live live;
    job_sim_init(&sim, job, &cluster, true, options->nvlink_disabled);
    live_init(&live, job, options);
    for (uint32_t i = 0; i < iterations; i++) {
        for (uint32_t phase = 0; phase < kernel_phase_count(job); phase++) {
            job_sim_run(&sim, phase);
            live_run(&live, phase);
        }
        for (uint32_t r = 0; r < job->ranks; r++) {
            rank_check(sim.rank[r]);
            rank_check(live.rank[r]);
            outputs_compare(sim.rank[r], live.rank[r]);
        }
    }
    job_sim_clear(&sim);
    live_clear(&live);
}

void job_two_worlds(const struct kernel_job *job, uint32_t iterations, bool nvlink_disabled)
{
    struct live_options options = support_options("shm", job->ranks_per_node);
    options.nvlink_disabled = nvlink_disabled;
    job_two_worlds_over(job, iterations, &options);
    sim_repeats(job, iterations, nvlink_disabled);
}

/* ---- adversarial ---- */

struct job_group {
    const struct kernel_job *job;
    struct kernel_rank *rank[RANKS_MAX];
    uint32_t launched[RANKS_MAX], until;
};

static struct kernel_launch *group_next(void *context, uint32_t rank)
{
    struct job_group *group = context;
    if (group->launched[rank] == group->until) return NULL;
    return kernel_rank_launch(group->rank[rank], group->launched[rank]++ % kernel_phase_count(group->job));
}

static struct loop_counts group_run(const struct kernel_job *job, uint32_t iterations,
                                    const struct loop_options *options)
{
    struct loop_options with_needs = *options;
    kernel_job_needs(job, options->payload, &with_needs.needs);
    struct loop *loop = loop_new(&with_needs);
    struct job_group group = { .job = job, .until = iterations * kernel_phase_count(job) };
    for (uint32_t r = 0; r < job->ranks; r++) group.rank[r] = kernel_rank_new(job, loop_fabric(loop, r));
    CU_ASSERT_TRUE(loop_run(loop, group_next, &group, false));
    CU_ASSERT_EQUAL(loop_counts(loop)->breaches, 0);
    for (uint32_t r = 0; r < job->ranks; r++) {
        if (options->payload) rank_check(group.rank[r]);
        kernel_rank_free(group.rank[r]);
    }
    const struct loop_counts counts = *loop_counts(loop);
    loop_free(loop);
    return counts;
}

void job_loop(const struct kernel_job *job, uint32_t iterations, uint64_t seed, bool nvlink_disabled)
{
    static const uint32_t deliver[] = { 2, 10, 50, 90 };
    struct loop_options options = {
        .ranks = (uint16_t)job->ranks,
        .ranks_per_node = (uint16_t)job->ranks_per_node,
        .payload = true,
        .nvlink_disabled = nvlink_disabled,
        .seed = seed,
        .refuse_percent = seed % 3 * 10,
        .deliver_percent = deliver[seed % 4],
        .spurious = seed % 2,
    };
    const struct loop_counts with = group_run(job, iterations, &options);
    options.payload = false;
    const struct loop_counts without = group_run(job, iterations, &options);
    CU_ASSERT_EQUAL(memcmp(&with, &without, sizeof with), 0);
    CU_ASSERT(with.signals > 0);
}
