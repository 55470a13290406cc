/* simulate.c - makes one prediction: builds the world and its ranks, runs kernels one after another, and finds each
 * kernel's bounds from the ports.  Knows the kernels only through kernel.h and the hardware only through world.h. */
#include "models/predict/simulate.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/cluster_command.h"
#include "models/hardware/machine/graph.h"
#include "models/hardware/world/world.h"
#include "models/kernel.h"
#include "models/kernels/loops.h"
#include "models/waits.h"
#include "models/predict/beside.h"
#include "models/predict/case_machine.h"
#include "models/predict/launches.h"
#include "models/predict/on_cores.h"
#include "models/predict/span.h"
#include "models/predict/steps.h"
#include "reports/compare.h"
#include "sim/memory.h"
#include "sim/stats.h"
#include "sim/units.h"

/* The busiest part bounds the phase if it is busy for at least PART_BOUND_PERCENT of the slowest rank's time.  Below
 * STEPS_BOUND_PERCENT, steps and latencies bound the phase.  A rival is a part of another kind that is busy for
 * RIVAL_PERCENT of the busiest part's time.  It would become the bound if the busiest part were faster.  A part may be
 * busy and yet hold nothing up, if the work of others takes as long.  NVLink holds too little up if stores and loads
 * wait for it for less than HELD_PERCENT of their time.  (NVLink was busy for 75 to 97 % of 35 normal dispatches and
 * combines.  In 3 of them stores waited for 0.4 to 3.8 % of their time, and NVLink twice as fast saved 0 to 2 %.  In
 * the others they waited for 18 % or more, and it saved 7 to 48 %.) */
enum { PART_BOUND_PERCENT = 75, STEPS_BOUND_PERCENT = 25, RIVAL_PERCENT = 75, HELD_PERCENT = 10 };
enum { LOOP_ROUNDS = 2 };

struct run {
    const struct cluster *cluster;
    struct cluster by_pcie; /* the cluster without NVLink */
    struct kernel_job *job;
    struct world *world;
    struct kernel_rank **rank;
    struct world_result *result;     /* [ranks] results of the phase that is being recorded */
    struct world_result *results;    /* [rounds][phases][ranks] results of the program that runs */
    uint32_t *masked;                /* ... and how many peers each rank had masked before that kernel */
    struct kernel_launch *launch;    /* [phases] as rank 0 launched them, without their workers */
    struct kernel_launch **launched; /* [ranks] the latest launch of each rank */
    struct case_machine machine;
    uint64_t *arrival_ps;
    uint32_t first_phase;     /* the first phase of the program that is running */
    uint32_t program_phases;  /* how many phases the program runs, one after another */
    uint32_t program_kernels; /* how many kernels the program runs: its phases, once or several times */
    uint32_t program_kernel;  /* which kernel of the program is being recorded */
    struct span *span;        /* [ranks] */
    struct waits **waits;     /* [ranks]; NULL: waits are not counted */
    double *waits_us;         /* [phases][ranks][ranks] how long each rank waits for each rank */
    uint32_t *waits_phase;    /* [ranks] 1 + the phase whose waits are being counted; 0: none */
    bool waits_recorded;
    bool usage_recorded;
    bool host_waits; /* the host waits for counts before it launches the next kernel */
    struct beside *beside;
};

static void run_clear(struct run *run)
{
    for (uint32_t r = 0; run->rank && r < run->job->ranks; r++) kernel_rank_free(run->rank[r]);
    for (uint32_t r = 0; run->waits && r < run->job->ranks; r++) waits_free(run->waits[r]);
    world_free(run->world);
    case_machine_clear(&run->machine);
    FREE_ALL(run->rank, run->results, run->masked, run->launch, run->launched, run->arrival_ps, run->span, run->waits,
             run->waits_us, run->waits_phase, run->job);
}

/* Records notes about the machine in the header. */
static void machine_record(const struct run *run, const struct case_options *c, struct record *record)
{
    const bool nics_used =
        run->machine.graph->nodes > 1 || c->nvlink_disabled || run->cluster->nvlink.gpus < run->machine.graph->gpus;
    g_autoptr(GPtrArray) notes =
        cluster_notes(run->machine.graph, c->backend ? &run->machine.transport : NULL, nics_used);
    if (!notes->len) return;
    g_ptr_array_add(notes, NULL);
    g_autofree char *text = g_strjoinv("; ", (char **)notes->pdata);
    record_set(record, "notes", "%s", text);
}

/* Removes NVLink from the machine of normal kernels.  They still map their peers' memory, and CUDA maps it over PCIe.
 * Other kernels use the NIC. */
static bool nvlink_disable(struct run *run, const struct case_options *c, GError **error)
{
    if (!c->nvlink_disabled || case_peers_by_rdma(c)) return true;
    if (!graph_peers_by_pcie(run->cluster, &run->by_pcie))
        return error_input(error,
                           "disable-nvlink: normal kernels then store over PCIe: expected pcie-rate in [node] of %s, "
                           "found none (PCIe 5.0 x16: --set node.pcie-rate=57GB/s)",
                           run->cluster->path);
    run->cluster = &run->by_pcie;
    return true;
}

static bool rank_make(void *context, uint32_t rank, void *memory)
{
    const struct run *run = context;
    (void)memory;
    run->rank[rank] = kernel_rank_new(run->job, world_fabric(run->world, rank));
    return true;
}

static bool run_init(struct run *run, const struct case_options *c, const struct simulate_wishes *wishes,
                     GError **error)
{
    if (!nvlink_disable(run, c, error)) return false;
    const struct kernel_job *o = run->job;
    run->arrival_ps = g_new0(uint64_t, o->ranks);
    if (!case_machine_make(&run->machine, c, run->cluster, o, wishes->transport, error)) return false;
    for (uint32_t r = 0; run->beside->slow > 0 && r < o->ranks; r++)
        run->machine.slow[r] =
            (uint32_t)((run->machine.slow[r] ? run->machine.slow[r] : WORLD_SLOW_ONE) * run->beside->slow);
    struct fabric_needs needs;
    kernel_job_needs(o, false, &needs);
    const struct world_options world = {
        .ranks = o->ranks,
        .ranks_per_node = o->ranks_per_node,
        .nvlink_disabled = case_peers_by_rdma(c),
        .needs = needs,
        .slow = run->machine.slow,
        .timeline = wishes->timeline,
        .usage = wishes->usage,
        .progress = wishes->progress,
        .threads = wishes->threads,
        .graph = run->machine.graph,
        .transport = &run->machine.transport,
        .loops = run->machine.loops,
    };
    run->world = world_new(run->cluster, &world);
    if (wishes->one_thread) *wishes->one_thread = world_why_one_thread(run->world);
    run->rank = g_new0(struct kernel_rank *, o->ranks);
    run->span = g_new0(struct span, o->ranks);
    run->launch = g_new0(struct kernel_launch, kernel_phase_count(o));
    run->launched = g_new0(struct kernel_launch *, o->ranks);
    run->results = g_new0(struct world_result, (gsize)LOOP_ROUNDS * o->ranks * kernel_phase_count(o));
    run->masked = g_new0(uint32_t, (gsize)LOOP_ROUNDS * o->ranks * kernel_phase_count(o));
    on_cores_run(
        &(struct on_cores){ .jobs = o->ranks, .cores = MAX(wishes->threads, 1), .run = rank_make, .context = run });
    return true;
}

/* ---- what the record says of a phase ---- */

/* Whether the rank takes no part in the phase.  A simulation is one iteration, number 0. */
static bool rank_absent(const struct run *run, uint32_t rank, uint32_t phase)
{
    return kernel_absent(run->job, rank, phase, 0);
}

/* Marks in `set` the ranks that some living rank has masked by this phase, and returns their number. */
static uint32_t masked_count(const struct run *run, uint32_t phase, uint8_t *set)
{
    const uint32_t ranks = run->job->ranks;
    uint32_t count = 0;
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t peer = 0; !rank_absent(run, r, phase) && peer < ranks; peer++)
            set[peer] |= kernel_rank_masks(run->rank[r], peer);
    for (uint32_t peer = 0; peer < ranks; peer++) count += set[peer];
    assert(count <= ranks);
    return count;
}

/* How many peers the rank has masked by now. */
static uint32_t masked_by(const struct run *run, uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t peer = 0; run->job->mask_timeout_ps && peer < run->job->ranks; peer++)
        count += kernel_rank_masks(run->rank[rank], peer);
    return count;
}

/* Whether the rank masked a peer in the kernel that is being recorded. */
static bool masks_now(const struct run *run, uint32_t rank)
{
    const uint32_t ranks = run->job->ranks, next = run->program_kernel + 1;
    const uint32_t after = next < run->program_kernels ? run->masked[(gsize)next * ranks + rank] : masked_by(run, rank);
    return after > run->masked[(gsize)run->program_kernel * ranks + rank];
}

static void record_masked(struct record *record, const struct run *run, uint32_t phase)
{
    if (!run->job->mask_timeout_ps) return;
    g_autofree uint8_t *set = g_new0(uint8_t, run->job->ranks);
    const uint32_t count = masked_count(run, phase, set);
    record_add(record, kernel_phase_name(run->job, phase), RECORD_ALL, "masked_ranks", count, "");
    g_autofree char *text = case_ranks_text(set, run->job->ranks);
    record_set(record, "ranks-masked", "%s", text);
}

/* Records the time and bandwidths of one rank, or of the mean rank.  If a port is still busy after the kernel's end,
 * the port's physical bandwidth counts the time until the port is done. */
static void record_rank(struct record *record, const char *phase, int32_t rank, const struct world_result *result,
                        const struct kernel_traffic *traffic)
{
    record_add(record, phase, rank, "time_us", units_us(result->time_ps), "us");
    record_add(record, phase, rank, "logical_rdma_gbs", units_gbs(traffic->logical_rdma_bytes, result->time_ps),
               "GB/s");
    record_add(record, phase, rank, "logical_nvl_gbs", units_gbs(traffic->logical_nvl_bytes, result->time_ps), "GB/s");
    if (traffic->messages)
        record_add(record, phase, rank, "message_us", units_us(result->time_ps) / (double)traffic->messages, "us");
    const struct world_use *nic = &result->use[traffic->gets ? WORLD_NIC_RX : WORLD_NIC_TX];
    const struct world_use *nvlink = &result->use[traffic->gets ? WORLD_NVLINK_INGRESS : WORLD_NVLINK_EGRESS];
    record_add(record, phase, rank, "physical_nic_gbs", units_gbs(nic->bytes, result->time_ps + nic->late_ps), "GB/s");
    record_add(record, phase, rank, "physical_nvl_gbs", units_gbs(nvlink->bytes, result->time_ps + nvlink->late_ps),
               "GB/s");
}

/* How long a launch and one message from sender to receiver take.  For a kernel that sends nothing, how long a launch
 * takes.  On a host, how long a step and a poll take. */
static double latency_bound_us(const struct run *run)
{
    const struct cluster *c = run->cluster;
    const struct transport *t = &run->machine.transport;
    bool rdma = false, peers = false;
    if (c->host.cores) return units_us(c->host.step_ps + c->host.poll_ps);
    for (uint32_t r = 0; r < run->job->ranks; r++) {
        rdma |= run->result[r].use[WORLD_NIC_TX].bytes > 0;
        peers |= run->result[r].use[WORLD_NVLINK_EGRESS].bytes + run->result[r].use[WORLD_NVLINK_INGRESS].bytes > 0;
    }
    if (!rdma && !peers) return units_us(run->result[0].launch_ps);
    const uint64_t posted_ps = t->post_ps + t->doorbell_ps + (t->poster == CLUSTER_POST_GPU ? 0 : t->proxy_ps);
    const uint64_t path_ps = rdma ? posted_ps + c->nic.fetch_ps + c->network.latency_ps + c->nic.deliver_ps
                                  : c->nvlink.fence_ps + c->nvlink.latency_ps;
    return units_us(run->result[0].launch_ps + path_ps + c->gpu.poll_ps);
}

/* Lower bounds of the time: for a kind of part, how long the busiest part of this kind is busy while the slowest rank
 * runs.  Links are those between switches and those of a node's PCIe. */
enum bound {
    BOUND_SEND,
    BOUND_RECEIVE,
    BOUND_LINK,
    BOUND_POST,
    BOUND_WORK,
    BOUND_MEMORY, /* memory of GPUs; a host's memory is part of its cores' work */
    BOUND_LATENCY,
    BOUND_COUNT
};

static const enum bound bound_of[WORLD_RESOURCE_COUNT] = {
    [WORLD_NVLINK_EGRESS] = BOUND_SEND, [WORLD_NIC_TX] = BOUND_SEND,       [WORLD_NVLINK_INGRESS] = BOUND_RECEIVE,
    [WORLD_NIC_RX] = BOUND_RECEIVE,     [WORLD_RECEIVING] = BOUND_RECEIVE, [WORLD_ATOMICS] = BOUND_RECEIVE,
    [WORLD_LINK] = BOUND_LINK,          [WORLD_POSTING] = BOUND_POST,      [WORLD_SM] = BOUND_WORK,
    [WORLD_CORE] = BOUND_WORK,          [WORLD_HBM] = BOUND_MEMORY,
};

struct bounds {
    double us[BOUND_COUNT];
    bool there[BOUND_COUNT];
    struct world_part part[WORLD_RESOURCE_COUNT]; /* the busiest part of each kind; busy_ps 0: none was busy */
    enum world_resource busiest;                  /* the busiest kind; WORLD_RESOURCE_COUNT: none */
    double late_us;                               /* for how long the slowest rank runs before the last one begins */
    double awaits_us;                             /* for how long its kernel waits for the end of the one before */
    double timeout_us;                            /* for how long it waits for ranks that it then masks */
    enum bound tightest;
};

/* Finds what the slowest rank waits for outside its own kernel: the last rank's begin, the kernel before, and ranks
 * that do not answer.  If it ends before the last rank begins, it does not wait for that rank. */
static void waits_find(const struct run *run, uint32_t phase, double slowest_us, struct bounds *b)
{
    const struct world_result *slowest = NULL;
    uint64_t last_ps = 0;
    for (uint32_t r = 0; r < run->job->ranks; r++) {
        const struct world_result *result = &run->result[r];
        if (rank_absent(run, r, phase)) continue;
        last_ps = MAX(last_ps, result->begin_ps);
        if (!slowest || result->time_ps > slowest->time_ps) slowest = result;
    }
    if (!slowest) return;
    if (slowest->end_ps > last_ps) b->late_us = fmin(units_us(last_ps - slowest->begin_ps), slowest_us);
    b->awaits_us = units_us(run->span[slowest - run->result].awaits_ps);
    if (masks_now(run, (uint32_t)(slowest - run->result)))
        b->timeout_us = fmin(units_us(run->job->mask_timeout_ps), slowest_us);
}

static void bounds_find(const struct run *run, double slowest_us, struct bounds *b)
{
    const bool host = run->cluster->host.cores > 0;
    *b = (struct bounds){ .tightest = BOUND_LATENCY, .busiest = WORLD_RESOURCE_COUNT };
    b->there[BOUND_SEND] = b->there[BOUND_RECEIVE] = b->there[BOUND_WORK] = b->there[BOUND_LATENCY] = true;
    b->there[BOUND_MEMORY] = !host;
    b->us[BOUND_LATENCY] = latency_bound_us(run);
    if (b->us[BOUND_LATENCY] > slowest_us) /* the kernel was launched early, so less of its latency counts */
        b->us[BOUND_LATENCY] = fmin(units_us(host ? run->cluster->host.step_ps : run->result[0].launch_ps), slowest_us);
    for (int i = 0; i < WORLD_RESOURCE_COUNT; i++) {
        struct world_part *part = &b->part[i];
        const enum bound bound = bound_of[i];
        if (!world_busiest(run->world, run->program_kernel, i, part)) continue;
        b->there[bound] = true;
        b->us[bound] = fmax(b->us[bound], fmin(units_us(part->busy_ps), slowest_us));
        const uint64_t most_ps = b->busiest < WORLD_RESOURCE_COUNT ? b->part[b->busiest].busy_ps : 0;
        if (part->busy_ps > most_ps || (part->busy_ps == most_ps && i == WORLD_LINK)) b->busiest = i;
    }
    for (int i = 0; i < BOUND_COUNT; i++)
        if (b->us[i] > b->us[b->tightest]) b->tightest = (enum bound)i;
    assert(isfinite(b->us[b->tightest]) && b->us[b->tightest] >= 0 && b->us[b->tightest] <= slowest_us);
}

static double percent_of(uint64_t part_ps, uint64_t whole_ps)
{
    return whole_ps ? 100.0 * (double)part_ps / (double)whole_ps : 0;
}

/* Records how busy parts are: the busy time of all ranks' parts, divided by the sum of the ranks' times.  If a part
 * finishes after its rank, the rank's time lasts until then.  On a host it includes the wait for the first turn on a
 * core. */
static void record_busy(struct record *record, uint32_t phase_index, const struct run *run, uint64_t total_ps)
{
    const char *phase = kernel_phase_name(run->job, phase_index);
    for (int i = 0; i < WORLD_RESOURCE_COUNT; i++) {
        uint64_t busy_ps = 0, late_ps = 0;
        for (uint32_t r = 0; r < run->job->ranks; r++) {
            const struct world_use *use = &run->result[r].use[i];
            if (rank_absent(run, r, phase_index)) continue;
            busy_ps += use->busy_ps;
            late_ps += use->late_ps;
        }
        g_autofree char *metric = g_strdup_printf("busy_%s_pct", world_resource_name(i));
        if (busy_ps) record_add(record, phase, RECORD_ALL, metric, percent_of(busy_ps, total_ps + late_ps), "%");
    }
}

static void record_some(struct record *record, const char *phase, const char *named, const char *what, double value,
                        const char *unit)
{
    g_autofree char *metric = g_strdup_printf("%s_%s", named, what);
    if (value > 0) record_add(record, phase, RECORD_ALL, metric, value, unit);
}

/* Records the busiest part of each kind: its name, how long it is busy in the slowest rank's time, its bytes and its
 * rate.  A part that is busy for less than a hundredth of that time is left out, unless it is a link. */
static void record_parts(struct record *record, const char *phase, const struct bounds *b, double slowest_us)
{
    for (int i = 0; i < WORLD_RESOURCE_COUNT; i++) {
        const struct world_part *part = &b->part[i];
        const double us = fmin(units_us(part->busy_ps), slowest_us);
        if (!part->busy_ps || (100 * us < slowest_us && i != WORLD_LINK)) continue;
        g_autofree char *named = g_strconcat("busiest_", world_resource_name(i), NULL);
        record_add_text(record, phase, RECORD_ALL, named, part->name);
        record_some(record, phase, named, "us", us, "us");
        record_some(record, phase, named, "bytes", (double)part->bytes, "B");
        record_some(record, phase, named, "rate_gbs", (double)part->rate_bps / 8e9, "GB/s");
    }
}

/* Whether both kinds of parts belong to one device, as its directions or units.  One change makes both faster. */
static bool one_device(const struct cluster *c, enum world_resource a, enum world_resource b)
{
    const uint32_t pcie = c->nvlink.over == CLUSTER_PEERS_BY_PCIE ? 1U << WORLD_LINK : 0;
    const uint32_t devices[] = { 1U << WORLD_NIC_TX | 1U << WORLD_NIC_RX | 1U << WORLD_RECEIVING | 1U << WORLD_ATOMICS,
                                 1U << WORLD_NVLINK_EGRESS | 1U << WORLD_NVLINK_INGRESS | pcie };
    const uint32_t both = 1U << a | 1U << b;
    return a == b || (devices[0] & both) == both || (devices[1] & both) == both;
}

/* The rival of the busiest part: the busiest part of a kind that would not become faster along with it.
 * WORLD_RESOURCE_COUNT if no such part is busy for RIVAL_PERCENT as long. */
static enum world_resource rival_find(const struct cluster *c, const struct bounds *b)
{
    enum world_resource rival = WORLD_RESOURCE_COUNT;
    uint64_t most_ps = b->part[b->busiest].busy_ps * RIVAL_PERCENT / 100;
    for (int i = 0; i < WORLD_RESOURCE_COUNT; i++) {
        if (one_device(c, i, b->busiest) || b->part[i].busy_ps < most_ps || !b->part[i].busy_ps) continue;
        most_ps = b->part[i].busy_ps;
        rival = i;
    }
    return rival;
}

/* Records the bottleneck, which is one of:
 *     COMPARE_TIMEOUT  if ranks are masked after a timeout that is half of the slowest rank's time
 *     COMPARE_BEFORE   if the slowest rank's kernel waits for half of its time for the end of the one before
 *     a part           the busiest one, if it is busy for PART_BOUND_PERCENT of the slowest rank's time and has no
 *                      rival, if latency takes no longer, and if operations wait for it for HELD_PERCENT of their
 *                      time, where that is known
 *     COMPARE_STEPS    if no part is busy for STEPS_BOUND_PERCENT of this time, or for twice that while latency takes
 *                      longer than any part: warps' own steps, launches, and ways of words and messages follow one
 *                      another
 *     COMPARE_LATE     if no part is busy for half of this time, and the last rank begins after half of it
 *     COMPARE_NO_PART  in all other cases
 * Also records the busiest part's bytes, its rate, the rate that most parts of its kind have (if that is higher), and
 * its load over the mean. */
static void record_bottleneck(struct record *record, const char *phase, const struct run *run, const struct bounds *b,
                              double slowest_us)
{
    static const char named[] = "bottleneck";
    const bool some = b->busiest < WORLD_RESOURCE_COUNT;
    const struct world_part *part = some ? &b->part[b->busiest] : NULL;
    const double busy_us = some ? fmin(units_us(part->busy_ps), slowest_us) : 0;
    const double busy_pct = slowest_us > 0 ? 100 * busy_us / slowest_us : 0;
    const enum world_resource rival = some ? rival_find(run->cluster, b) : WORLD_RESOURCE_COUNT;
    const bool latency_longer = b->tightest == BOUND_LATENCY; /* latency takes longer than any part is busy */
    const bool late = 2 * b->late_us > slowest_us && busy_pct < 2 * STEPS_BOUND_PERCENT;
    const bool waits = late || busy_pct < STEPS_BOUND_PERCENT * (latency_longer ? 2 : 1);
    const bool holds = !some || part->held < 0 || 100 * part->held >= HELD_PERCENT;
    const bool alone = busy_pct >= PART_BOUND_PERCENT && rival == WORLD_RESOURCE_COUNT && !latency_longer && holds;
    record_add_text(record, phase, RECORD_ALL, named,
                    2 * b->timeout_us > slowest_us  ? COMPARE_TIMEOUT
                    : 2 * b->awaits_us > slowest_us ? COMPARE_BEFORE
                    : waits                         ? late ? COMPARE_LATE : COMPARE_STEPS
                    : alone                         ? world_resource_name(b->busiest)
                                                    : COMPARE_NO_PART);
    record_add(record, phase, RECORD_ALL, "bottleneck_busy_pct", busy_pct, "%");
    if (!some) return;
    if (rival < WORLD_RESOURCE_COUNT && !waits) {
        record_add_text(record, phase, RECORD_ALL, "bottleneck_rival", b->part[rival].name);
        record_add(record, phase, RECORD_ALL, "bottleneck_rival_busy_pct",
                   100 * fmin(units_us(b->part[rival].busy_ps), slowest_us) / slowest_us, "%");
    }
    record_add_text(record, phase, RECORD_ALL, "bottleneck_part", part->name);
    record_some(record, phase, named, "us", busy_us, "us");
    record_some(record, phase, named, "bytes", (double)part->bytes, "B");
    record_some(record, phase, named, "rate_gbs", (double)part->rate_bps / 8e9, "GB/s");
    record_some(record, phase, named, "usual_gbs", part->usual_bps > part->rate_bps ? (double)part->usual_bps / 8e9 : 0,
                "GB/s");
    record_some(record, phase, named, "over_mean", part->over_mean, "");
    if (part->held >= 0) record_add(record, phase, RECORD_ALL, "bottleneck_held_pct", 100 * part->held, "%");
}

static void record_bounds(struct record *record, const char *phase, const struct run *run, const struct bounds *b,
                          double slowest_us)
{
    const char *const work = run->cluster->host.cores ? "core" : "sm";
    const char *const name[BOUND_COUNT] = { "send", "receive", "link", "posting", work, "hbm", "latency" };
    for (int i = 0; i < BOUND_COUNT; i++) {
        if (!b->there[i]) continue;
        g_autofree char *metric = g_strdup_printf("bound_%s_us", name[i]);
        record_add(record, phase, RECORD_ALL, metric, b->us[i], "us");
    }
    record_some(record, phase, "last", "begins_us", b->late_us, "us");
    record_some(record, phase, "previous", "ends_us", b->awaits_us, "us");
    record_some(record, phase, "mask", "timeout_us", b->timeout_us, "us");
    record_add_text(record, phase, RECORD_ALL, "bound_tightest", name[b->tightest]);
    record_add(record, phase, RECORD_ALL, "efficiency_pct", slowest_us > 0 ? 100 * b->us[b->tightest] / slowest_us : 0,
               "%");
    if (b->part[WORLD_LINK].busy_ps && slowest_us > 0)
        record_add(record, phase, RECORD_ALL, "busy_link_pct", 100 * b->us[BOUND_LINK] / slowest_us, "%");
}

/* Records for how long after the kernel's end data are still on their way to each rank. This is for kernels that do not
 * wait for their data and that no other kernel follows at once. */
static void record_wire(struct record *record, const struct run *run, uint32_t phase_index)
{
    const char *phase = kernel_phase_name(run->job, phase_index);
    if (!run->launch[phase_index].leaves || run->program_kernels > 1) return;
    g_autofree double *us = g_new(double, run->job->ranks);
    uint32_t ranks = 0;
    for (uint32_t r = 0; r < run->job->ranks; r++) {
        const struct world_result *result = &run->result[r];
        if (rank_absent(run, r, phase_index)) continue;
        us[ranks] = units_us(result->arrived_ps - MIN(result->arrived_ps, result->end_ps));
        record_add(record, phase, (int32_t)r, "wire_us", us[ranks++], "us");
    }
    record_add(record, phase, RECORD_ALL, "wire_us", stats_mean(us, ranks), "us");
    record_add(record, phase, RECORD_ALL, "wire_us_median", stats_median(us, ranks), "us");
    record_add(record, phase, RECORD_ALL, "wire_us_max", stats_max(us, ranks), "us");
    record_add(record, phase, RECORD_ALL, "wire_us_min", stats_min(us, ranks), "us");
}

static void use_add(struct world_result *sum, const struct world_result *result)
{
    for (int i = 0; i < WORLD_RESOURCE_COUNT; i++) {
        sum->use[i].bytes += result->use[i].bytes;
        sum->use[i].late_ps += result->use[i].late_ps;
    }
}

/* Records a phase: with per_rank each rank's rows, then rows for all ranks.  Means are over ranks that take part. */
static void record_phase(struct record *record, const struct run *run, uint32_t phase_index, bool per_rank)
{
    const char *phase = kernel_phase_name(run->job, phase_index);
    uint32_t ranks = 0;
    struct kernel_traffic sum = { 0 };
    struct world_result mean = { 0 };
    g_autofree double *time_us = g_new(double, run->job->ranks);
    uint64_t total_ps = 0, wait_ps = 0;
    for (uint32_t r = 0; r < run->job->ranks; r++) {
        struct kernel_traffic traffic;
        if (rank_absent(run, r, phase_index)) continue;
        kernel_rank_traffic(run->rank[r], phase_index, &traffic);
        if (per_rank) record_rank(record, phase, (int32_t)r, &run->result[r], &traffic);
        sum.logical_rdma_bytes += traffic.logical_rdma_bytes;
        sum.logical_nvl_bytes += traffic.logical_nvl_bytes;
        sum.messages += traffic.messages;
        sum.gets = traffic.gets;
        total_ps += run->result[r].time_ps;
        wait_ps += run->result[r].wait_ps;
        use_add(&mean, &run->result[r]);
        time_us[ranks++] = units_us(run->result[r].time_ps);
    }
    assert(ranks > 0 && ranks <= run->job->ranks); /* a case without a living rank has been refused */
    mean.time_ps = total_ps / ranks;
    for (int i = 0; i < WORLD_RESOURCE_COUNT; i++) {
        mean.use[i].bytes /= ranks;
        mean.use[i].late_ps /= ranks;
    }
    sum.logical_rdma_bytes /= ranks;
    sum.logical_nvl_bytes /= ranks;
    sum.messages /= ranks;
    record_rank(record, phase, RECORD_ALL, &mean, &sum);
    record_add(record, phase, RECORD_ALL, "time_us_median", stats_median(time_us, ranks), "us");
    record_add(record, phase, RECORD_ALL, "time_us_max", stats_max(time_us, ranks), "us");
    record_add(record, phase, RECORD_ALL, "time_us_min", stats_min(time_us, ranks), "us");
    const double slowest_us = stats_max(time_us, ranks);
    struct bounds bounds;
    bounds_find(run, slowest_us, &bounds);
    waits_find(run, phase_index, slowest_us, &bounds);
    record_busy(record, phase_index, run, total_ps + wait_ps);
    record_bottleneck(record, phase, run, &bounds, slowest_us);
    record_bounds(record, phase, run, &bounds, slowest_us);
    record_parts(record, phase, &bounds, slowest_us);
    record_wire(record, run, phase_index);
    record_masked(record, run, phase_index);
}

/* Turns a kernel's simulated time into the time that is measured for its phase.  Adds the host's calls if the
 * measurement includes them.  Subtracts the launch if the phase launches no kernel, or if the time of the calls already
 * includes the launch. */
static uint64_t called_ps(const struct cluster *c, enum kernel_call call, uint64_t time_ps)
{
    assert(call == KERNEL_BARE || call == KERNEL_WAITED || time_ps >= c->gpu.launch_ps);
    switch (call) {
    case KERNEL_BARE: break;
    case KERNEL_WAITED: return time_ps + c->calls.wait_ps;
    case KERNEL_COPIED: return time_ps - c->gpu.launch_ps + c->calls.wait_ps;
    case KERNEL_STREAMED:
    case KERNEL_PROCESS: return time_ps - c->gpu.launch_ps;
    case KERNEL_PROCESS_COPIED: return time_ps - c->gpu.launch_ps + c->calls.copy_ps + c->calls.wait_ps;
    case KERNEL_NCCL: return MAX(time_ps - c->gpu.launch_ps + c->calls.nccl_ps, c->calls.nccl_call_ps);
    }
    return time_ps;
}

static void call_add(struct run *run, uint32_t phase)
{
    const enum kernel_call call = kernel_called(run->job, phase);
    for (uint32_t r = 0; r < run->job->ranks; r++)
        run->result[r].time_ps = called_ps(run->cluster, call, run->result[r].time_ps);
}

/* Adds a kernel to each rank's span (span.h).  Returns the name of the span that ends with this kernel, or NULL. */
static const char *spans_add(struct run *run, uint32_t phase)
{
    const struct kernel_launch *launch = &run->launch[phase];
    for (uint32_t r = 0; r < run->job->ranks; r++) {
        span_add(&run->span[r], &run->result[r], launch->follows, run->host_waits, run->cluster);
        struct kernel_traffic own;
        kernel_rank_traffic(run->rank[r], phase, &own);
        run->span[r].rdma_bytes = (launch->follows ? run->span[r].rdma_bytes : 0) + own.logical_rdma_bytes;
        run->span[r].nvl_bytes = (launch->follows ? run->span[r].nvl_bytes : 0) + own.logical_nvl_bytes;
    }
    return launch->span;
}

/* Records the library's call that the phase belongs to, if the phase names the steps around it and the machine has
 * GPUs. */
static void record_call(struct record *record, const struct run *run, uint32_t phase)
{
    const uint32_t ranks = run->job->ranks;
    g_autofree struct span *span = g_new0(struct span, ranks);
    struct kernel_steps steps;
    struct steps_in in = { 0 };
    if (run->cluster->host.cores) return;
    for (uint32_t r = 0; r < ranks; r++) {
        kernel_rank_steps(run->rank[r], phase, &steps);
        if (!steps.call) return;
        if (r == 0) graph_least_in(run->machine.graph, &in.peers_bps, &in.port_bps);
        span[r].end_ps = run->result[r].time_ps + steps_ps(run->cluster, &in, ranks, run->job->ranks_per_node, &steps);
        struct kernel_traffic own;
        kernel_rank_traffic(run->rank[r], phase, &own);
        span[r].rdma_bytes = own.logical_rdma_bytes;
        span[r].nvl_bytes = own.logical_nvl_bytes;
    }
    span_record(span, ranks, steps.call, record);
}

/* ---- whom ranks wait for ---- */

/* Puts a wait on the timeline. */
static void wait_note(void *context, const struct waits_note *note)
{
    world_timeline_wait(context, note->worker->fabric->rank, note->worker->index, note->begin_ps, note->end_ps,
                        note->text);
}

static void waits_init(struct run *run, bool timeline)
{
    const uint32_t ranks = run->job->ranks;
    const struct waits_options options = { .busy_until_ps = world_busy_until_ps,
                                           .note = timeline ? wait_note : NULL,
                                           .context = run->world };
    run->waits = g_new0(struct waits *, ranks);
    run->waits_us = g_new0(double, (gsize)kernel_phase_count(run->job) * ranks * ranks);
    run->waits_phase = g_new0(uint32_t, ranks);
    for (uint32_t r = 0; r < ranks; r++) run->waits[r] = waits_new(world_fabric(run->world, r), &options);
}

/* Keeps the rank's waits of the phase that it has just ended, in waits_us. */
static void waits_keep(struct run *run, uint32_t rank)
{
    const uint32_t ranks = run->job->ranks;
    if (!run->waits || !run->waits_phase[rank]) return;
    assert(run->waits_phase[rank] <= kernel_phase_count(run->job));
    waits_end(run->waits[rank]);
    double *us = &run->waits_us[((gsize)(run->waits_phase[rank] - 1) * ranks + rank) * ranks];
    for (uint32_t peer = 0; peer < ranks; peer++) us[peer] = waits_us(run->waits[rank], peer);
    run->waits_phase[rank] = 0;
}

static struct fabric_worker **waits_launch(struct run *run, uint32_t rank, uint32_t phase,
                                           const struct kernel_launch *launch)
{
    if (!run->waits) return launch->worker;
    waits_keep(run, rank);
    run->waits_phase[rank] = phase + 1;
    return waits_wrap(run->waits[rank], launch->worker, launch->worker_count);
}

static void record_waits(struct record *record, const struct run *run, uint32_t phase)
{
    const uint32_t ranks = run->job->ranks;
    for (uint32_t r = 0; run->waits_recorded && r < ranks; r++)
        if (!rank_absent(run, r, phase))
            record_add_list(record, kernel_phase_name(run->job, phase), (int32_t)r, "waits_us",
                            &run->waits_us[((gsize)phase * ranks + r) * ranks], ranks);
}

/* Records how busy parts were over time, in percent, while the program's kernels ran. */
static void record_usage(struct record *record, const struct run *run, const char *phase)
{
    uint64_t interval_ps = 0;
    bool any = false;
    for (int kind = 0; run->usage_recorded && kind < WORLD_USAGE_KINDS; kind++) {
        double share[WORLD_USAGE_MAX + 1];
        const uint32_t count = world_usage(run->world, kind, share, &interval_ps);
        for (uint32_t i = 0; i < count; i++) share[i] = fmin(round(1000 * share[i]) / 10, 100);
        g_autofree char *metric = g_strconcat("used_", world_usage_name(kind), NULL);
        if (count) record_add_list(record, phase, RECORD_ALL, metric, share, count);
        any |= count > 0;
    }
    if (any) record_add(record, phase, RECORD_ALL, "used_interval_us", units_us(interval_ps), "us");
}

static void phase_launch(void *context, uint32_t rank, uint32_t kernel, struct fabric_worker ***worker,
                         uint32_t *worker_count)
{
    struct run *run = context;
    const uint32_t phase = run->first_phase + kernel % run->program_phases;
    assert(rank < run->job->ranks && phase < kernel_phase_count(run->job));
    run->masked[(gsize)kernel * run->job->ranks + rank] = masked_by(run, rank);
    if (run->beside->wanted) world_pressure_set(run->world, rank, &run->beside->phase[phase].pressure);
    struct kernel_launch *const launch = run->launched[rank] = kernel_rank_launch(run->rank[rank], phase);
    if (rank == 0) run->launch[phase] = *launch;
    *worker = waits_launch(run, rank, phase, launch);
    *worker_count = launch->worker_count;
}

static void phase_launched(void *context, uint32_t rank)
{
    const struct run *run = context;
    kernel_launch_forget_list(run->launched[rank]);
}

/* Runs `kernels` kernels: the `count` phases from `first` on, over and over.  A rank begins a kernel when its previous
 * kernel ends, and does not wait for other ranks.  It begins its first kernel at arrival_ps. */
static bool run_kernels(struct run *run, uint32_t first, uint32_t count, uint32_t kernels, GError **error)
{
    const uint32_t ranks = run->job->ranks;
    assert(count > 0 && first + count <= kernel_phase_count(run->job));
    run->first_phase = first;
    run->program_phases = count;
    run->program_kernels = kernels;
    const struct world_program program = { .kernels = kernels,
                                           .launch = phase_launch,
                                           .launched = phase_launched,
                                           .context = run,
                                           .arrival_ps = run->arrival_ps,
                                           .result = run->results };
    char text[256] = "";
    uint32_t stuck = 0;
    if (!world_run_program(run->world, &program, &stuck, text, sizeof text))
        return error_run(error, "%s can never end: %s", kernel_phase_name(run->job, first + stuck % count), text);
    for (uint32_t r = 0; r < ranks; r++) waits_keep(run, r);
    return true;
}

static struct world_result *kernel_results(const struct run *run, uint32_t kernel)
{
    return &run->results[(gsize)kernel * run->job->ranks];
}

/* In millionths of the time, below which times in whole picoseconds say nothing. */
static double longer_pct(double factor) { return round(1e6 * (factor - 1)) / 1e4; }

/* Records how much longer the load of --compute takes, and each of its GEMMs if it has several. */
static void record_beside(struct record *record, const struct run *run, uint32_t phase)
{
    double each[TURNS_KERNELS_MAX];
    const char *name = kernel_phase_name(run->job, phase);
    const double all = beside_slowdown(run->beside, phase, each);
    if (isnan(all)) return;
    record_add(record, name, RECORD_ALL, "compute_slowdown_pct", longer_pct(all), "%");
    for (uint32_t i = 0; run->beside->turns.count > 1 && i < run->beside->turns.count; i++) {
        g_autofree char *metric = g_strdup_printf("compute_%u_slowdown_pct", i + 1);
        record_add(record, name, RECORD_ALL, metric, longer_pct(each[i]), "%");
    }
}

/* Records a phase from a kernel of the program that has run. */
static void kernel_record(struct run *run, uint32_t phase, uint32_t kernel, struct record *record, bool per_rank)
{
    run->program_kernel = kernel;
    run->result = kernel_results(run, kernel);
    world_timeline_note(run->world, kernel_phase_name(run->job, phase), run->result);
    call_add(run, phase);
    const char *span = spans_add(run, phase);
    record_phase(record, run, phase, per_rank);
    record_waits(record, run, phase);
    record_beside(record, run, phase);
    if (span) span_record(run->span, run->job->ranks, span, record);
    record_call(record, run, phase);
}

/* Sets arrival_ps from the ends of the kernel with results `before`: a rank's delay is how much later than the first
 * rank it ended that kernel.  Returns whether these delays exceed a hundredth of the time of the kernel with results
 * `result`, so that they matter to it. */
static bool arrive_after(struct run *run, const struct world_result *before, const struct world_result *result)
{
    enum { PARTS = 100 };
    const uint32_t ranks = run->job->ranks;
    uint64_t first_ps = UINT64_MAX, last_ps = 0, longest_ps = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        run->arrival_ps[r] = before[r].end_ps;
        first_ps = MIN(first_ps, run->arrival_ps[r]);
        last_ps = MAX(last_ps, run->arrival_ps[r]);
        longest_ps = MAX(longest_ps, result[r].time_ps);
    }
    for (uint32_t r = 0; r < ranks; r++) run->arrival_ps[r] -= first_ps;
    return (last_ps - first_ps) * PARTS > longest_ps;
}

static bool launches_loop(const struct case_options *c) { return c->launch && !strcmp(c->launch, "loop"); }

/* Runs `count` phases from `first` on together, and records them.  In a loop each rank begins the first round at its
 * arrival (--arrival), and the last round is recorded.  If the last phase follows a barrier, the last round leaves this
 * phase out: the phase would differ from its first round only in when each rank leaves the barrier.  If these delays
 * matter, the phase runs once more with them.  Otherwise the phase's first round is recorded. */
static bool run_and_record(struct run *run, const struct case_options *c, uint32_t first, uint32_t count,
                           struct record *record, bool per_rank, GError **error)
{
    const bool loop = launches_loop(c);
    const uint32_t ranks = run->job->ranks, last = first + count - 1, before = loop ? (LOOP_ROUNDS - 1) * count : 0;
    const bool apart = loop && count > 1 && kernel_behind_barrier(run->job, last);
    const struct launches_kernel kernel = { ranks, c->seed, first, kernel_phase_name(run->job, first) };
    if (!launches_arrival(c->arrival, &kernel, run->arrival_ps, error)) return false;
    for (uint32_t i = 0; i < count; i++) beside_solve(run->beside, run->cluster, first + i);
    if (!run_kernels(run, first, count, before + count - apart, error)) return false;
    for (uint32_t i = 0; i < count - apart; i++) {
        beside_learn(run->beside, first + i, kernel_results(run, before + i), ranks);
        kernel_record(run, first + i, before + i, record, per_rank);
    }
    record_usage(record, run, count == 1 || loop ? kernel_phase_name(run->job, first) : "stream");
    if (!apart) return true;
    const bool again = arrive_after(run, kernel_results(run, before + count - 2), kernel_results(run, count - 1));
    if (again && !run_kernels(run, last, 1, 1, error)) return false;
    kernel_record(run, last, again ? 0 : count - 1, record, per_rank);
    return true;
}

/* How many phases from `first` on run in one program.  The first `needed` phases of the job must run. */
static uint32_t phases_together(const struct kernel_job *job, const struct case_options *c, uint32_t first,
                                uint32_t needed)
{
    if (!c->launch || !strcmp(c->launch, "barrier")) return 1;
    uint32_t count = 1;
    if (!launches_loop(c)) return needed - first;
    while (first + count < kernel_phase_count(job) && !kernel_begins_loop(job, first + count)) count++;
    return count;
}

/* How many phases must run so that all named ones have run.  All phases, if a name is unknown or none is given. */
static uint32_t phases_needed(const struct kernel_job *job, const char *const *phases)
{
    const uint32_t count = kernel_phase_count(job);
    uint32_t needed = 0;
    for (; phases && *phases; phases++) {
        uint32_t phase = 0;
        while (phase < count && strcmp(kernel_phase_name(job, phase), *phases) != 0) phase++;
        needed = MAX(needed, phase + 1);
    }
    assert(count > 0);
    return needed && needed <= count ? needed : count;
}

/* Records "5:8x|7:2x": how much slower these ranks' GPUs are, by --slow and faults together. */
static void record_slowed(struct record *record, const struct run *run)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t r = 0; r < run->job->ranks; r++)
        if (run->machine.slow[r] && run->machine.slow[r] != WORLD_SLOW_ONE)
            g_string_append_printf(text, "%s%u:%.4gx", text->len ? "|" : "", r,
                                   (double)run->machine.slow[r] / WORLD_SLOW_ONE);
    if (text->len) record_set(record, "slowed-ranks", "%s", text->str);
}

static struct kernel_job *job_make(const struct case_options *c, const struct cluster *cluster,
                                   const struct case_load *load, GError **error)
{
    const uint32_t sms = cluster->host.cores ? case_host_sms(c, cluster->host.cores) : cluster->gpu.sms;
    return case_job(c, load, cluster, sms, error);
}

bool simulate_takes(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                    GError **error)
{
    g_autofree struct kernel_job *job = job_make(c, cluster, load, error);
    return job != NULL;
}

static bool simulate_beside(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                            const struct simulate_wishes *wishes, struct beside *beside, struct record *record,
                            GError **error)
{
    struct run run = { .cluster = cluster, .host_waits = c->cpu_sync, .beside = beside };
    run.job = job_make(c, cluster, load, error);
    if (!run.job || !beside_parse(c, cluster, run.job->num_sms, beside, error)) {
        g_free(run.job);
        return false;
    }
    case_job_record(c, run.job, record);
    bool good = run_init(&run, c, wishes, error);
    if (good) machine_record(&run, c, record);
    if (good) record_slowed(record, &run);
    if (good && (wishes->waits || wishes->timeline)) waits_init(&run, wishes->timeline);
    run.waits_recorded = wishes->waits;
    run.usage_recorded = wishes->usage;
    const uint32_t phases = good ? phases_needed(run.job, wishes->phases) : 0;
    for (uint32_t phase = 0, together; good && phase < phases; phase += together) {
        together = phases_together(run.job, c, phase, phases);
        good = run_and_record(&run, c, phase, together, record, wishes->per_rank, error);
    }
    if (good) record_set(record, "events", "%" G_GUINT64_FORMAT, world_event_count(run.world));
    run_clear(&run);
    return good;
}

bool simulate_load(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                   const struct simulate_wishes *wishes, struct record *record, GError **error)
{
    struct beside beside = { 0 };
    for (uint32_t round = 1; c->compute && round < beside_rounds(&beside); round++) {
        struct record *unused = record_new();
        const bool good = simulate_beside(c, cluster, load, &(struct simulate_wishes){ 0 }, &beside, unused, error);
        record_free(unused);
        if (!good) return false;
    }
    return simulate_beside(c, cluster, load, wishes, &beside, record, error);
}

bool simulate_phases(const struct case_options *c, const struct cluster *cluster, const struct case_load *load,
                     const char *const *phases, struct record *record, GError **error)
{
    return simulate_load(c, cluster, load, &(struct simulate_wishes){ .phases = phases }, record, error);
}

bool simulate_case(const struct case_options *c, const struct cluster *cluster, uint32_t threads, struct record *record,
                   GError **error)
{
    struct case_load load;
    bool good = case_load(c, &load, error);
    if (good) good = simulate_load(c, cluster, &load, &(struct simulate_wishes){ .threads = threads }, record, error);
    case_load_free(&load);
    return good;
}
