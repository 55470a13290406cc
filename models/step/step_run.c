/* step_run.c - binds a schedule's devices to the simulated world, see step_run.h. */
#include "models/step/step_run.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/hardware/world/agenda.h"
#include "models/hardware/sm/pressure.h"
#include "models/hardware/machine/graph.h"
#include "models/hardware/machine/transport.h"
#include "models/hardware/world/world.h"
#include "models/kernel.h"
#include "models/predict/fault.h"
#include "models/predict/launches.h"
#include "models/step/program.h"
#include "sim/rng.h"
#include "sim/units.h"

/* Timed work holds no SMs: it only passes time. */
enum { WORK_SMS = 1 << 16 };

struct step_run {
    const struct step_run_options *options;
    struct kernel_job *job;
    struct graph *graph;
    struct transport transport;
    struct world *world;
    struct kernel_rank **rank;
    struct kernel_launch *listed; /* the last launch whose workers' list the world has taken */
    struct schedule *schedule;
    struct device *device;
    struct step_cost *cost;          /* [ranks][STEP_COMPUTE_OPS + phases] */
    struct world_result *alone;      /* [phases][ranks] */
    double *rows, *speed, *slowness; /* [ranks] */
    uint32_t *slow;                  /* [ranks] */
    uint32_t phases;
    uint64_t start_ps;
};

/* ---- construction ---- */

static void speeds_draw(struct step_run *run)
{
    struct rng rng;
    rng_seed(&rng, run->options->seed);
    run->speed = g_new(double, run->job->ranks);
    run->slowness = g_new(double, run->job->ranks);
    for (uint32_t r = 0; r < run->job->ranks; r++) {
        const double u = rng_uniform(&rng), v = rng_uniform(&rng);
        const double normal = sqrt(-2 * log1p(-u)) * cos(2 * G_PI * v);
        run->speed[r] = CLAMP(1 + run->options->spread * normal, 0.5, 1.5);
        run->slowness[r] = run->slow[r] ? (double)run->slow[r] / WORLD_SLOW_ONE : 1;
    }
}

static bool world_make(struct step_run *run, GError **error)
{
    const struct case_options *c = run->options->c;
    const struct cluster *cluster = run->options->cluster;
    const struct kernel_job *job = run->job;
    const struct transport *backend = c->backend ? transport_find(c->backend) : NULL;
    struct fabric_needs needs;
    uint32_t gpus;
    if (c->backend && !backend) {
        g_set_error(error, STEP_RUN_ERROR, STEP_RUN_ERROR_INPUT,
                    "backend: expected one that `eptwin cluster backends` lists, found \"%s\"", c->backend);
        return false;
    }
    if (job->ranks > job->ranks_per_node && !graph_node_nics(cluster, 1)) {
        g_set_error(error, STEP_RUN_ERROR, STEP_RUN_ERROR_INPUT,
                    "%s: ranks of several nodes need a [nic] and a [network] section", cluster->path);
        return false;
    }
    const uint32_t together = MIN(job->ranks, job->ranks_per_node), joined = MAX(cluster->nvlink.gpus, 1);
    if (!c->nvlink_disabled && !cluster->host.cores && together > joined) {
        g_set_error(error, STEP_RUN_ERROR, STEP_RUN_ERROR_INPUT,
                    "ranks-per-node: expected at most the %u GPUs that %s joins ([nvlink] gpus), found %u", joined,
                    cluster->path, together);
        return false;
    }
    run->slow = g_new0(uint32_t, job->ranks);
    if (!launches_slow(c->slow, job->ranks, run->slow, error)) return false;
    run->transport = backend ? *backend : transport_of(&cluster->nic);
    const uint32_t nodes = world_nodes(cluster, job->ranks, job->ranks_per_node, &gpus);
    run->graph = graph_new(cluster, nodes, gpus, error);
    const struct fault_target target = { run->graph, &run->transport, job->ranks, run->slow };
    if (!run->graph || !fault_apply(c->fault, &target, error)) return false;
    kernel_job_needs(job, false, &needs);
    run->world = world_new(cluster, &(struct world_options){ .ranks = job->ranks,
                                                             .ranks_per_node = job->ranks_per_node,
                                                             .nvlink_disabled = c->nvlink_disabled,
                                                             .needs = needs,
                                                             .slow = run->slow,
                                                             .graph = run->graph,
                                                             .transport = &run->transport });
    run->rank = g_new0(struct kernel_rank *, job->ranks);
    for (uint32_t r = 0; r < job->ranks; r++) run->rank[r] = kernel_rank_new(job, world_fabric(run->world, r));
    return true;
}

static struct step_cost *cost_at(const struct step_run *run, uint32_t rank, uint32_t what)
{
    return &run->cost[(size_t)rank * (STEP_COMPUTE_OPS + run->phases) + what];
}

static void costs_make(struct step_run *run)
{
    const struct routing *routing = &run->options->load->routing;
    run->cost = g_new0(struct step_cost, (gsize)run->job->ranks * (STEP_COMPUTE_OPS + run->phases));
    for (uint32_t r = 0; r < run->job->ranks; r++)
        for (int op = 0; op < STEP_COMPUTE_OPS; op++)
            *cost_at(run, r, (uint32_t)op) = costs_of(run->options->costs, (enum step_op)op, routing->rank[r].tokens,
                                                      run->rows[r], (double)routing->experts / routing->ranks);
}

/* ---- kernels of the world ---- */

static struct kernel_launch *phase_launch(struct step_run *run, uint32_t rank, uint32_t phase)
{
    if (run->listed) kernel_launch_forget_list(run->listed);
    return run->listed = kernel_rank_launch(run->rank[rank], phase);
}

struct alone {
    struct step_run *run;
    uint32_t phase; /* the first of the program's */
};

static void alone_launch(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                         uint32_t *worker_count)
{
    const struct alone *alone = context;
    const uint32_t phase = alone->phase + kernel;
    const struct kernel_launch *launch = phase_launch(alone->run, rank, phase);
    struct step_cost *cost = cost_at(alone->run, rank, STEP_COMPUTE_OPS + phase);
    *cost = (struct step_cost){ .occupancy = OCCUPANCY_MEETING, .sms = 1, .source = "simulated" };
    for (uint32_t i = 0; i < launch->worker_count; i++)
        if (launch->worker[i]->sm >= cost->sms) cost->sms = launch->worker[i]->sm + 1u;
    *worker = launch->worker;
    *worker_count = launch->worker_count;
}

static bool hangs(const struct step_run *run, uint32_t phase, const char *text, GError **error)
{
    g_set_error(error, STEP_RUN_ERROR, STEP_RUN_ERROR_STUCK, "%s can never end: %s", kernel_phase_name(run->job, phase),
                text);
    return false;
}

static bool phases_run_alone(struct step_run *run, GError **error)
{
    const uint32_t ranks = run->job->ranks;
    run->alone = g_new0(struct world_result, (gsize)run->phases * ranks);
    for (uint32_t p = 0, together; p < run->phases; p += together) {
        struct alone alone = { run, p };
        char text[256] = "";
        uint32_t stuck;
        together = p + 1 < run->phases && program_is_receive(run->job, p + 1) ? 2 : 1;
        const struct world_program program = {
            .kernels = together, .launch = alone_launch, .context = &alone, .result = &run->alone[(size_t)p * ranks]
        };
        if (!world_run_program(run->world, &program, &stuck, text, sizeof text))
            return hangs(run, p + stuck, text, error);
        for (uint32_t i = 0; i < together * ranks; i++)
            cost_at(run, i % ranks, STEP_COMPUTE_OPS + p + i / ranks)->us =
                units_us(run->alone[(size_t)p * ranks + i].time_ps);
    }
    return true;
}

/* ---- the step ---- */

static uint32_t what_of(const struct step_run *run, uint32_t kernel)
{
    const struct schedule_kernel *k = schedule_kernel(run->schedule, kernel);
    return k->op == STEP_COMM ? (uint32_t)STEP_COMPUTE_OPS + k->phase : k->op;
}

const struct step_cost *step_run_cost(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    return cost_at(run, rank, what_of(run, kernel));
}

static const struct step_cost *device_cost(void *context, uint32_t rank, uint32_t kernel)
{
    return step_run_cost(context, rank, kernel);
}

static uint64_t device_now(void *context) { return world_clock_ps(((const struct step_run *)context)->world); }

static void device_timer_set(void *context, uint32_t rank, uint64_t time_ps)
{
    world_timer_set(((const struct step_run *)context)->world, rank, time_ps);
}

static void device_begin(void *context, uint32_t rank, uint32_t kernel)
{
    struct step_run *run = context;
    const struct kernel_launch *launch = phase_launch(run, rank, schedule_kernel(run->schedule, kernel)->phase);
    world_kernel_begin(run->world, rank, launch->worker, launch->worker_count);
}

/* What a kernel asks of the memory, alone.  Half of what dispatch and combine move is read. */
static struct pressure_load load_of(const struct step_run *run, uint32_t rank, const struct device_running *k)
{
    const struct step_cost *cost = step_run_cost(run, rank, k->kernel);
    const struct schedule_kernel *kernel = schedule_kernel(run->schedule, k->kernel);
    const double seconds = cost->us / 1e6;
    if (seconds <= 0) return (struct pressure_load){ 0 }; /* timed work of an op that was given no time */
    if (kernel->op == STEP_COMM) {
        const struct world_result *alone = &run->alone[(size_t)kernel->phase * run->job->ranks + rank];
        const double bps = (double)alone->use[WORLD_HBM].bytes / 2 / seconds;
        return (struct pressure_load){ .read_bps = bps, .write_bps = bps };
    }
    /* Times of tables know better than the bytes counted here, but nobody moves more than the memory does. */
    const double most = (double)run->options->cluster->gpu.hbm_rate_bps / 8;
    const double bps = (cost->read_bytes + cost->write_bytes) / seconds, less = bps > most ? most / bps : 1;
    return (struct pressure_load){ .read_bps = less * cost->read_bytes / seconds,
                                   .write_bps = less * cost->write_bytes / seconds,
                                   .sms = k->sms_share * cost->sms,
                                   .flight_bytes = PRESSURE_FLIGHT_BYTES,
                                   .bound = cost->clock_share < 0.5 };
}

static void device_contend(void *context, uint32_t rank, struct device_running *running, uint32_t count)
{
    struct step_run *run = context;
    const struct cluster_gpu *gpu = &run->options->cluster->gpu;
    struct pressure_load own = { 0 }, load[DEVICE_RUNNING_MAX] = { 0 };
    double rate[DEVICE_RUNNING_MAX];
    uint32_t loads = 0, place[DEVICE_RUNNING_MAX];
    if (count < 2) {
        world_pressure_set(run->world, rank, NULL);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct pressure_load l = load_of(run, rank, &running[i]);
        if (schedule_kernel(run->schedule, running[i].kernel)->op == STEP_COMM) {
            own = l;
            continue;
        }
        place[loads] = i;
        load[loads++] = l;
    }
    const struct pressure c = pressure_solve(gpu, &own, load, loads, rate);
    world_pressure_set(run->world, rank, &c);
    for (uint32_t i = 0; i < loads; i++) {
        const double clock_share = step_run_cost(run, rank, running[place[i]].kernel)->clock_share;
        running[place[i]].slow =
            load[i].bound ? clock_share + (1 - clock_share) / fmax(rate[i], 1e-3) : 1 / fmax(rate[i], 1e-3);
    }
}

static void agenda_begin(void *context)
{
    struct step_run *run = context;
    run->start_ps = world_clock_ps(run->world);
    device_start(run->device);
}

static void agenda_timer(void *context, uint32_t rank) { device_timer(((struct step_run *)context)->device, rank); }

static void agenda_ended(void *context, uint32_t rank, const struct world_result *result)
{
    (void)result;
    device_ended(((struct step_run *)context)->device, rank);
}

static bool schedule_run(struct step_run *run, GError **error)
{
    const struct step_run_options *o = run->options;
    const struct world_agenda agenda = {
        .begin = agenda_begin, .timer = agenda_timer, .ended = agenda_ended, .context = run
    };
    char text[256] = "";
    run->device = device_new(&(struct device_options){ .schedule = run->schedule,
                                                       .ranks = run->job->ranks,
                                                       .sms = o->costs->work ? WORK_SMS : o->cluster->gpu.sms,
                                                       .cost = device_cost,
                                                       .now_ps = device_now,
                                                       .timer_set = device_timer_set,
                                                       .begin = device_begin,
                                                       .contend = o->contention ? device_contend : NULL,
                                                       .context = run,
                                                       .slow = run->slowness,
                                                       .speed = run->speed,
                                                       .jitter = o->jitter,
                                                       .seed = o->seed,
                                                       .launch_ps = o->launch_ps,
                                                       .sync_ps = o->sync_ps,
                                                       .gap_ps = o->gap_ps });
    if (world_run_agenda(run->world, &agenda, text, sizeof text) && device_finished(run->device, text, sizeof text))
        return true;
    g_set_error(error, STEP_RUN_ERROR, STEP_RUN_ERROR_STUCK, "the step can never end: %s", text);
    return false;
}

/* That the communication kernels may use. */
static uint32_t sms_of(const struct step_run_options *o)
{
    const uint32_t cores = o->cluster->host.cores;
    return cores ? case_host_sms(o->c, cores) : o->cluster->gpu.sms;
}

struct step_run *step_run_new(const struct step_run_options *options, GError **error)
{
    struct step_run *run = g_new0(struct step_run, 1);
    run->options = options;
    const bool timed = options->costs->work != NULL; /* times that no machine makes: a host will do */
    if (!options->cluster->gpu.sms && !timed) {
        g_set_error(error, STEP_RUN_ERROR, STEP_RUN_ERROR_INPUT, "%s: expected GPUs, found a host",
                    options->cluster->path);
        step_run_free(run);
        return NULL;
    }
    run->job = case_job(options->c, options->load, options->cluster, sms_of(options), error);
    if (run->job) run->phases = kernel_phase_count(run->job);
    if (run->job) run->schedule = program_new(options->overlap, &options->layers, options->c, run->job, error);
    if (run->schedule && world_make(run, error)) {
        run->rows = program_rows(&options->load->routing);
        speeds_draw(run);
        costs_make(run);
        if (phases_run_alone(run, error) && schedule_run(run, error)) return run;
    }
    step_run_free(run);
    return NULL;
}

void step_run_free(struct step_run *run)
{
    if (!run) return;
    device_free(run->device);
    for (uint32_t r = 0; run->rank && r < run->job->ranks; r++) kernel_rank_free(run->rank[r]);
    world_free(run->world);
    graph_free(run->graph);
    schedule_free(run->schedule);
    g_free(run->rank);
    g_free(run->job);
    g_free(run->cost);
    g_free(run->alone);
    g_free(run->rows);
    g_free(run->speed);
    g_free(run->slowness);
    g_free(run->slow);
    g_free(run);
}

/* ---- what it says ---- */

uint32_t step_run_ranks(const struct step_run *run) { return run->job->ranks; }
const struct schedule *step_run_schedule(const struct step_run *run) { return run->schedule; }
const struct kernel_job *step_run_job(const struct step_run *run) { return run->job; }
double step_run_rows(const struct step_run *run, uint32_t rank) { return run->rows[rank]; }
double step_run_speed(const struct step_run *run, uint32_t rank) { return run->speed[rank]; }
uint64_t step_run_events(const struct step_run *run) { return world_event_count(run->world); }
uint32_t step_run_meeting(const struct step_run *run, uint32_t kernel)
{
    return program_meeting(run->schedule, run->job, kernel);
}

double step_run_alone_us(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    return step_run_cost(run, rank, kernel)->us;
}

struct step_span step_run_span(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    const struct device_times *t = device_times(run->device, rank, kernel);
    assert(t->ready_ps >= run->start_ps && t->ready_ps <= t->begin_ps && t->begin_ps <= t->end_ps);
    return (struct step_span){ units_us(t->ready_ps - run->start_ps), units_us(t->begin_ps - run->start_ps),
                               units_us(t->end_ps - run->start_ps) };
}
