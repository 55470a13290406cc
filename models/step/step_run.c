/* step_run.c - binds a schedule's devices to the simulated world, see step_run.h. */
#include "models/step/step_run.h"

#include <assert.h>
#include <math.h>
#include "models/hardware/world/agenda.h"
#include "models/hardware/sm/pressure.h"
#include "models/hardware/world/world.h"
#include "models/kernel.h"
#include "models/predict/case_machine.h"
#include "models/step/program.h"
#include "sim/rng.h"
#include "sim/units.h"

/* SMs of a device whose work is timed.  They are so many that no kernel waits for one: timed work only takes time. */
enum { WORK_SMS = 1 << 16 };

/* The number of compute ops over all passes.  Phases are numbered after them. */
enum { COMPUTE_WHATS = STEP_COMPUTE_OPS * STEP_PASSES };

/* How a phase ran on a rank while no other kernel ran. */
struct ran_alone {
    uint64_t time_ps, hbm_bytes;
    uint32_t sms;
};

struct step_alone {
    struct ran_alone **ran; /* [loads][passes] the phases of a routing: [phases][ranks] */
    uint32_t comms;
};

/* The kernels of one routing, forward or backward. */
struct comm {
    struct kernel_job *job;
    const struct routing *routing;
    struct kernel_rank **rank; /* [ranks] the state of each rank */
    bool borrows;              /* `rank` is the first routing's.  Before each launch, phase_launch() gives
                                * the rank's state this routing */
    struct step_cost *cost;    /* [ranks][COMPUTE_WHATS + phases] costs of kernels */
    double *rows;              /* [ranks] rows that come to the rank's experts */
    uint32_t phases;
};

struct step_run {
    const struct step_run_options *options;
    struct comm *comm; /* [loads][passes] */
    uint32_t comms, ranks, passes;
    const char **name; /* [step_run_whats()] names of the kinds of kernels */
    struct case_machine machine;
    struct world *world;
    struct schedule *schedule;
    struct device *device;
    double *speed, *slowness; /* [ranks] factor on the GPU's clock; factor on the time of a slow rank */
    uint64_t start_ps;
};

/* ---- communication ---- */

static struct comm *comm_at(const struct step_run *run, uint32_t load, bool backward)
{
    return &run->comm[load * run->passes + backward];
}

/* The communication of the kernel's layer.  Layer n of those with experts has routing n modulo loads.  A pass counts
 * k->layer in the order in which it comes to layers, so a backward pass counts from the last layer. */
static const struct comm *comm_of(const struct step_run *run, uint32_t kernel)
{
    const struct schedule_kernel *k = schedule_kernel(run->schedule, kernel);
    const struct schedule_layers *layers = &run->options->layers;
    const uint32_t last = layers->sparse - 1, at = k->layer < layers->dense ? 0 : MIN(k->layer - layers->dense, last);
    const bool backward = k->pass != PASS_FORWARD;
    return comm_at(run, (backward ? last - at : at) % run->options->loads, backward);
}

static const struct comm *first_comm(const struct step_run *run) { return &run->comm[0]; }

/* Whether there are several routings, and the state of a rank can change from one to the next. */
static bool routes(const struct step_run *run)
{
    return run->options->loads > 1 && first_comm(run)->job->family->route != NULL;
}

/* The kernel's index in its rank's costs. */
static uint32_t place_of(const struct step_run *run, uint32_t kernel)
{
    const struct schedule_kernel *k = schedule_kernel(run->schedule, kernel);
    if (k->op == STEP_COMM) return (uint32_t)COMPUTE_WHATS + k->phase;
    return (uint32_t)k->op * STEP_PASSES + k->pass;
}

static struct step_cost *cost_at(const struct step_run *run, const struct comm *comm, uint32_t rank, uint32_t place)
{
    assert(rank < run->ranks);
    return &comm->cost[(size_t)rank * (COMPUTE_WHATS + comm->phases) + place];
}

static const char *name_of(const char *kernel, const char *suffix)
{
    g_autofree char *name = g_strconcat(kernel, suffix, NULL);
    return g_intern_string(name);
}

static void names_make(struct step_run *run)
{
    uint32_t what = 0;
    run->name = g_new0(const char *, step_run_whats(run));
    for (; what < COMPUTE_WHATS; what++)
        run->name[what] = name_of(step_op_name((enum step_op)(what / STEP_PASSES)),
                                  step_pass_suffix((enum step_pass)(what % STEP_PASSES)));
    for (uint32_t b = 0; b < run->passes; b++)
        for (uint32_t p = 0; p < comm_at(run, 0, b)->phases; p++)
            run->name[what++] = name_of(kernel_phase_name(comm_at(run, 0, b)->job, p), b ? "_backward" : "");
}

/* ---- construction ---- */

static void speeds_draw(struct step_run *run)
{
    struct rng rng;
    rng_seed(&rng, run->options->seed);
    run->speed = g_new(double, run->ranks);
    run->slowness = g_new(double, run->ranks);
    for (uint32_t r = 0; r < run->ranks; r++) {
        const double u = rng_uniform(&rng), v = rng_uniform(&rng);
        const double normal = sqrt(-2 * log1p(-u)) * cos(2 * G_PI * v);
        run->speed[r] = CLAMP(1 + run->options->spread * normal, 0.5, 1.5);
        if (run->options->speed) run->speed[r] *= run->options->speed[r];
        run->slowness[r] = run->machine.slow[r] ? (double)run->machine.slow[r] / WORLD_SLOW_ONE : 1;
    }
}

/* The largest needs of any job, because all jobs share words and heap.  The launch's number tells which kernel a
 * word belongs to.  touched_bytes stays 0 for GPUs: between two calls a GPU's L2 sees weights and other data. */
static struct fabric_needs needs_of(const struct step_run *run)
{
    struct fabric_needs all = { 0 }, one;
    for (uint32_t i = 0; i < run->comms; i++) {
        kernel_job_needs(run->comm[i].job, false, &one);
        all.heap_bytes = MAX(all.heap_bytes, one.heap_bytes);
        all.word_count = MAX(all.word_count, one.word_count);
        all.queue_count = MAX(all.queue_count, one.queue_count);
        all.queue_depth = MAX(all.queue_depth, one.queue_depth);
        if (run->options->cluster->host.cores) all.touched_bytes = MAX(all.touched_bytes, one.touched_bytes);
    }
    return all;
}

static bool world_make(struct step_run *run, GError **error)
{
    const struct case_options *c = run->options->c;
    const struct cluster *cluster = run->options->cluster;
    const struct kernel_job *job = first_comm(run)->job;
    if (!case_machine_make(&run->machine, c, cluster, job, NULL, error)) return false;
    run->world = world_new(cluster, &(struct world_options){ .ranks = job->ranks,
                                                             .ranks_per_node = job->ranks_per_node,
                                                             .nvlink_disabled = c->nvlink_disabled,
                                                             .needs = needs_of(run),
                                                             .slow = run->machine.slow,
                                                             .graph = run->machine.graph,
                                                             .loops = run->machine.loops,
                                                             .transport = &run->machine.transport,
                                                             .threads = run->options->threads,
                                                             .agenda = true });
    if (run->options->one_thread) *run->options->one_thread = world_why_one_thread(run->world);
    for (uint32_t i = 0; i < run->comms; i++) {
        struct comm *comm = &run->comm[i];
        comm->borrows = i && routes(run);
        if (comm->borrows) comm->rank = first_comm(run)->rank;
        if (comm->borrows) continue;
        comm->rank = g_new0(struct kernel_rank *, run->ranks);
        for (uint32_t r = 0; r < run->ranks; r++)
            comm->rank[r] = kernel_rank_new(comm->job, world_fabric(run->world, r));
    }
    return true;
}

static struct ran_alone *ran_alone(const struct step_run *run, const struct comm *comm, uint32_t phase, uint32_t rank)
{
    return &run->options->alone->ran[comm - run->comm][(size_t)phase * run->ranks + rank];
}

static void costs_make(struct step_run *run, struct comm *comm)
{
    const struct routing *routing = comm->routing;
    comm->rows = program_rows(routing, 1);
    g_autofree double *tiles = program_rows(routing, costs_tile_rows(run->options->costs));
    g_autofree double *tokens = program_tokens(routing);
    const uint32_t stride = run->passes > 1 ? 1 : STEP_PASSES; /* without a backward pass, its ops need no costs */
    comm->cost = g_new0(struct step_cost, (gsize)run->ranks * (COMPUTE_WHATS + comm->phases));
    for (uint32_t r = 0; r < run->ranks; r++)
        for (uint32_t what = 0; what < COMPUTE_WHATS; what += stride)
            *cost_at(run, comm, r, what) =
                costs_of(run->options->costs, (enum step_op)(what / STEP_PASSES), (enum step_pass)(what % STEP_PASSES),
                         routing->rank[r].tokens, (struct costs_rows){ comm->rows[r], tiles[r], tokens[r] },
                         (double)routing->experts / routing->ranks);
    for (uint32_t r = 0; r < run->ranks; r++)
        for (uint32_t p = 0; p < comm->phases; p++) {
            const struct ran_alone *alone = ran_alone(run, comm, p, r);
            *cost_at(run, comm, r, COMPUTE_WHATS + p) = (struct step_cost){
                .occupancy = OCCUPANCY_MEETING, .sms = alone->sms, .us = units_us(alone->time_ps), .source = "simulated"
            };
        }
}

/* ---- kernels of the world ---- */

static struct kernel_launch *phase_launch(const struct step_run *run, const struct comm *comm, uint32_t rank,
                                          uint32_t phase)
{
    if (routes(run)) comm->job->family->route(comm->rank[rank], comm->routing);
    return kernel_rank_launch(comm->rank[rank], phase);
}

struct alone {
    const struct step_run *run;
    const struct comm *comm;
    struct ran_alone *ran;         /* [phases][ranks] */
    uint32_t phase;                /* the phase that the program's first kernel launches */
    struct kernel_launch **launch; /* [ranks] the latest launch of each rank */
};

static void alone_launch(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                         uint32_t *worker_count)
{
    const struct alone *alone = context;
    const uint32_t phase = alone->phase + kernel;
    const struct kernel_launch *launch = alone->launch[rank] = phase_launch(alone->run, alone->comm, rank, phase);
    uint32_t *sms = &alone->ran[(size_t)phase * alone->run->ranks + rank].sms;
    *sms = 1;
    for (uint32_t i = 0; i < launch->worker_count; i++)
        if (launch->worker[i]->sm >= *sms) *sms = launch->worker[i]->sm + 1u;
    *worker = launch->worker;
    *worker_count = launch->worker_count;
}

static void alone_launched(void *context, uint32_t rank)
{
    const struct alone *alone = context;
    kernel_launch_forget_list(alone->launch[rank]);
}

static bool hangs(const struct kernel_job *job, uint32_t phase, const char *text, GError **error)
{
    return error_run(error, "%s can never end: %s", kernel_phase_name(job, phase), text);
}

/* Runs each phase of the routing on all ranks with no other kernel, a receive right after its send. */
static bool phases_run_alone(const struct step_run *run, const struct comm *comm, struct ran_alone *ran, GError **error)
{
    const uint32_t ranks = run->ranks;
    g_autofree struct kernel_launch **launch = g_new0(struct kernel_launch *, ranks);
    g_autofree struct world_result *result = g_new(struct world_result, (gsize)2 * ranks);
    for (uint32_t p = 0, together; p < comm->phases; p += together) {
        struct alone alone = { run, comm, ran, p, launch };
        char text[256] = "";
        uint32_t stuck;
        together = p + 1 < comm->phases && program_is_receive(comm->job, p + 1) ? 2 : 1;
        const struct world_program program = {
            .kernels = together,
            .launch = alone_launch,
            .launched = alone_launched,
            .context = &alone,
            .result = result,
        };
        if (!world_run_program(run->world, &program, &stuck, text, sizeof text))
            return hangs(comm->job, p + stuck, text, error);
        for (uint32_t i = 0; i < together * ranks; i++) {
            struct ran_alone *r = &ran[(size_t)p * ranks + i];
            r->time_ps = result[i].time_ps;
            r->hbm_bytes = result[i].use[WORLD_HBM].bytes;
        }
    }
    return true;
}

/* ---- the step ---- */

const struct step_cost *step_run_cost(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    return cost_at(run, comm_of(run, kernel), rank, place_of(run, kernel));
}

static const struct step_cost *device_cost(void *context, uint32_t rank, uint32_t kernel)
{
    return step_run_cost(context, rank, kernel);
}

static uint64_t device_now(void *context, uint32_t rank)
{
    return world_clock_ps(((const struct step_run *)context)->world, rank);
}

static void device_timer_set(void *context, uint32_t rank, uint64_t time_ps)
{
    world_timer_set(((const struct step_run *)context)->world, rank, time_ps);
}

/* Slows the rank's communication by the clock that its compute kernels allow, because a GPU has one clock.  tensor: as
 * costs_sm_clock() says. */
static void clock_set(struct step_run *run, uint32_t rank, double tensor)
{
    const double clock = costs_sm_clock(run->options->costs, device_clock(run->device, rank), tensor);
    world_slow_set(run->world, rank, (uint32_t)lround(fmax(run->machine.slow[rank] / fmin(clock, 1), 1)));
}

static void device_begin(void *context, uint32_t rank, uint32_t kernel)
{
    struct step_run *run = context;
    if (!run->options->contention) clock_set(run, rank, 0);
    struct kernel_launch *launch =
        phase_launch(run, comm_of(run, kernel), rank, schedule_kernel(run->schedule, kernel)->phase);
    world_kernel_begin(run->world, rank, launch->worker, launch->worker_count);
    kernel_launch_forget_list(launch);
}

/* A kernel's demand on the memory when it runs alone.  Of the bytes that a phase moves, half count as read. */
static struct pressure_load load_of(const struct step_run *run, uint32_t rank, const struct device_running *k)
{
    const struct step_cost *cost = step_run_cost(run, rank, k->kernel);
    const struct schedule_kernel *kernel = schedule_kernel(run->schedule, k->kernel);
    const double seconds = cost->us / 1e6;
    if (seconds <= 0) return (struct pressure_load){ 0 }; /* timed work gave the op no time */
    if (kernel->op == STEP_COMM) {
        const uint64_t bytes = ran_alone(run, comm_of(run, k->kernel), kernel->phase, rank)->hbm_bytes;
        const double bps = (double)bytes / 2 / seconds;
        return (struct pressure_load){ .read_bps = bps, .write_bps = bps };
    }
    /* The bytes are estimates.  Divided by a time from a table, they may exceed the memory's rate, so they are reduced
     * to it. */
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
    double rate[DEVICE_RUNNING_MAX], tensor = 0;
    uint32_t loads = 0, place[DEVICE_RUNNING_MAX];
    for (uint32_t i = 0; i < count; i++)
        if (schedule_kernel(run->schedule, running[i].kernel)->op != STEP_COMM)
            tensor += running[i].sms_share * step_run_cost(run, rank, running[i].kernel)->tensor;
    clock_set(run, rank, tensor);
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
    run->start_ps = world_clock_ps(run->world, 0);
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
                                                       .ranks = run->ranks,
                                                       .sms = o->costs->work ? WORK_SMS : o->cluster->gpu.sms,
                                                       .cost = device_cost,
                                                       .now_ps = device_now,
                                                       .timer_set = device_timer_set,
                                                       .begin = device_begin,
                                                       .contend = o->contention ? device_contend : NULL,
                                                       .context = run,
                                                       .slow = run->slowness,
                                                       .speed = run->speed,
                                                       .lift = costs_clock_lift(o->costs),
                                                       .jitter = o->jitter,
                                                       .seed = o->seed,
                                                       .launch_ps = o->launch_ps,
                                                       .sync_ps = o->sync_ps,
                                                       .gap_ps = o->gap_ps });
    if (world_run_agenda(run->world, &agenda, text, sizeof text) && device_finished(run->device, text, sizeof text))
        return true;
    return error_run(error, "the step can never end: %s", text);
}

/* How many SMs the communication kernels may use, or how many workers on a host. */
static uint32_t sms_of(const struct step_run_options *o)
{
    const uint32_t cores = o->cluster->host.cores;
    return cores ? case_host_sms(o->c, cores) : o->cluster->gpu.sms;
}

static bool comms_make(struct step_run *run, GError **error)
{
    const struct step_run_options *o = run->options;
    run->passes = o->backward ? 2 : 1;
    run->comm = g_new0(struct comm, (gsize)o->loads * run->passes);
    for (uint32_t i = 0; i < o->loads * run->passes; i++) {
        struct comm *comm = &run->comm[i];
        const struct case_options *c = i % run->passes ? o->backward : o->c;
        comm->routing = &o->load[i / run->passes].routing;
        comm->job = case_job(c, &o->load[i / run->passes], o->cluster, sms_of(o), error);
        if (!comm->job) return false;
        run->comms++;
        run->ranks = comm->job->ranks;
        comm->phases = kernel_phase_count(comm->job);
    }
    names_make(run);
    return true;
}

static struct schedule *schedule_of(const struct step_run *run, GError **error)
{
    const struct step_run_options *o = run->options;
    return program_new(o->overlap, &o->layers, o->c, first_comm(run)->job,
                       o->backward ? comm_at(run, 0, true)->job : NULL, error);
}

/* Makes the run's kernels and its schedule, without a world.  NULL and *error if one is refused. */
static struct step_run *run_make(const struct step_run_options *options, GError **error)
{
    struct step_run *run = g_new0(struct step_run, 1);
    run->options = options;
    const bool timed = options->costs->work != NULL; /* times are given, so the cluster needs no GPUs */
    if (!options->cluster->gpu.sms && !timed)
        error_input(error, "%s: expected GPUs, found a host", options->cluster->path);
    else if (comms_make(run, error) && (run->schedule = schedule_of(run, error)) != NULL) return run;
    step_run_free(run);
    return NULL;
}

bool step_run_fits(const struct step_run_options *options, GError **error)
{
    struct step_run *run = run_make(options, error);
    const bool fits = run != NULL;
    step_run_free(run);
    return fits;
}

struct step_alone *step_alone_new(const struct step_run_options *options, GError **error)
{
    struct step_run *run = run_make(options, error);
    struct step_alone *alone = NULL;
    bool good = run && world_make(run, error);
    if (good) {
        alone = g_new0(struct step_alone, 1);
        alone->comms = run->comms;
        alone->ran = g_new0(struct ran_alone *, run->comms);
    }
    for (uint32_t i = 0; good && i < run->comms; i++) {
        alone->ran[i] = g_new0(struct ran_alone, (gsize)run->comm[i].phases * run->ranks);
        good = phases_run_alone(run, &run->comm[i], alone->ran[i], error);
    }
    step_run_free(run);
    if (good) return alone;
    step_alone_free(alone);
    return NULL;
}

void step_alone_free(struct step_alone *alone)
{
    if (!alone) return;
    for (uint32_t i = 0; i < alone->comms; i++) g_free(alone->ran[i]);
    g_free(alone->ran);
    g_free(alone);
}

struct step_run *step_run_new(const struct step_run_options *options, GError **error)
{
    struct step_run *run = run_make(options, error);
    if (run && world_make(run, error)) {
        speeds_draw(run);
        for (uint32_t i = 0; i < run->comms; i++) costs_make(run, &run->comm[i]);
        if (schedule_run(run, error)) return run;
    }
    step_run_free(run);
    return NULL;
}

static void comm_clear(struct comm *comm, uint32_t ranks)
{
    if (comm->borrows) comm->rank = NULL;
    for (uint32_t r = 0; comm->rank && r < ranks; r++) kernel_rank_free(comm->rank[r]);
    g_free(comm->rank);
    g_free(comm->job);
    g_free(comm->cost);
    g_free(comm->rows);
}

void step_run_free(struct step_run *run)
{
    if (!run) return;
    device_free(run->device);
    for (uint32_t i = 0; i < run->comms; i++) comm_clear(&run->comm[i], run->ranks);
    world_free(run->world);
    case_machine_clear(&run->machine);
    schedule_free(run->schedule);
    g_free(run->comm);
    g_free(run->name);
    g_free(run->speed);
    g_free(run->slowness);
    g_free(run);
}

/* ---- results ---- */

uint32_t step_run_ranks(const struct step_run *run) { return run->ranks; }
uint32_t step_run_loads(const struct step_run *run) { return run->options->loads; }
const struct schedule *step_run_schedule(const struct step_run *run) { return run->schedule; }

uint32_t step_run_whats(const struct step_run *run)
{
    uint32_t whats = COMPUTE_WHATS;
    for (uint32_t b = 0; b < run->passes; b++) whats += comm_at(run, 0, b)->phases;
    return whats;
}

uint32_t step_run_what(const struct step_run *run, uint32_t kernel)
{
    const struct schedule_kernel *k = schedule_kernel(run->schedule, kernel);
    const bool behind = k->op == STEP_COMM && k->pass != PASS_FORWARD;
    return place_of(run, kernel) + (behind ? first_comm(run)->phases : 0);
}

const char *step_run_what_name(const struct step_run *run, uint32_t what) { return run->name[what]; }

uint32_t step_run_meeting(const struct step_run *run, uint32_t kernel)
{
    return program_meeting(run->schedule, comm_of(run, kernel)->job, kernel);
}

double step_run_alone_us(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    return step_run_cost(run, rank, kernel)->us;
}

double step_run_clocked_us(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    return device_clocked_us(run->device, rank, kernel);
}

double step_run_own_us(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    return device_alone_us(run->device, rank, kernel);
}

double step_run_rows(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    return comm_of(run, kernel)->rows[rank];
}

struct step_span step_run_span(const struct step_run *run, uint32_t rank, uint32_t kernel)
{
    const struct device_times *t = device_times(run->device, rank, kernel);
    assert(t->ready_ps >= run->start_ps && t->ready_ps <= t->begin_ps && t->begin_ps <= t->end_ps);
    return (struct step_span){ units_us(t->ready_ps - run->start_ps), units_us(t->begin_ps - run->start_ps),
                               units_us(t->end_ps - run->start_ps) };
}
