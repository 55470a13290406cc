/* nccl_plan.c - the choices of NCCL's host code, as in its published sources. */
#include "models/coll/nccl_plan.h"

#include <assert.h>
#include <stdlib.h>
#include "models/coll/coll_internal.h"

enum { WARP_LANES = 32, THREADS_MOST = 640, RING_THREADS = 512, THREADS_LEAST = 96 };
enum { PROTOCOLS = 3 };
/* The least traffic of a channel in bytes, and what it was before NCCL 2.29.2. */
enum { TRAFFIC_LEAST = 32 << 10, TRAFFIC_LEAST_BEFORE = 16 << 10 };

/* ---- the tuner (tuning.cc) ---- */

static const double base_us[2][PROTOCOLS] = { { 6.6, 14.0, 8.4 }, { 6.8, 14.0, 8.4 } }; /* ring, tree */
static const double nvlink_us[2][PROTOCOLS] = { { 0.6, 1.9, 3.4 }, { 0.6, 1.25, 4.0 } };
static const double net_us[2][PROTOCOLS] = { { 2.7, 4.0, 14.0 }, { 5.0, 8.5, 14.0 } };
static const double net_post_us = 1.0;

/* The highest rates that the tuner allows: mosts[0] for Hopper's GPUs, mosts[1] for Blackwell's.  Arrays have a rate
 * for one node, for two and for more.  LL's rates are of all channels together.  The others are of one ring that the
 * search finds. */
struct mosts {
    double ll_gbs[3]; /* between nodes these depend on the CPU, not on the GPU; they are for Intel's CPUs */
    double line_ring_gbs, line_tree_gbs[3], tree_gbs[3];
};
static const struct mosts mosts[2] = {
    { { 141.0, 39.0, 20.4 }, 36.7, { 36.7, 36.7, 29.0 }, { 38.7, 41.4, 36.0 } },
    { { 282.0, 39.0, 20.4 }, 40.0, { 55.6, 31.67, 20.0 }, { 70.0, 42.8, 24.0 } },
};

/* The share of its rate that a tree reaches, by log2(bytes / 64). */
static const double tree_part[PROTOCOLS][24] = {
    { 1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0 },
    { 1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1.0, 1.0, 1.0 },
    { .9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9 },
};

enum form {
    FORM_EACH,
    FORM_SUM_ALL,
    FORM_PIPELINE
}; /* EACH: all-gather, reduce-scatter; PIPELINE: to or from a root */

struct shape {
    uint32_t ranks, nodes, peers;
    enum form form;
    uint32_t operations; /* how many follow each other in a channel */
};

static struct shape shape_of(const struct coll_options *o)
{
    const uint32_t peers = o->ranks < o->ranks_per_node ? o->ranks : o->ranks_per_node;
    const enum form form = o->kernel == COLL_ALLREDUCE ? FORM_SUM_ALL : FORM_EACH;
    return (struct shape){ o->ranks, o->ranks / peers, peers, form, 1 };
}

static uint32_t ring_steps(const struct shape *s)
{
    if (s->form == FORM_PIPELINE) return s->ranks;
    return s->form == FORM_SUM_ALL ? 2 * (s->ranks - 1) : s->ranks - 1;
}

static uint32_t log2_of(uint64_t n)
{
    uint32_t log = 0;
    while (n >>= 1) log++;
    return log;
}

static uint32_t column_of(const struct shape *s) { return s->nodes < 3 ? s->nodes - 1 : 2; }

static double least_of(double a, double b) { return a < b ? a : b; }

static double ring_gbs(const struct coll_options *o, const struct shape *s, uint32_t protocol)
{
    const struct mosts *most = &mosts[o->nccl.blackwell];
    const double bus = (double)o->nccl.bus_bps / 8e9;
    double gbs = bus;
    if (protocol == 0) gbs = least_of(bus * .5, most->ll_gbs[column_of(s)]);
    if (protocol == 1) gbs = least_of(bus * .92, o->nccl.found * most->line_ring_gbs);
    return gbs * s->ranks / ring_steps(s);
}

static double tree_gbs(const struct coll_options *o, const struct shape *s, uint32_t protocol, uint64_t size_bytes)
{
    /* On two nodes the search reports, for a tree, twice the bandwidth within a node.  NCCL uses that number. */
    const struct mosts *most = &mosts[o->nccl.blackwell];
    const uint32_t column = column_of(s);
    const double found = (double)o->nccl.bus_bps / 8e9 * (s->nodes == 2 ? 2 : 1), channels = o->nccl.found;
    const double bus = least_of(found * .92, channels * most->tree_gbs[column]);
    const uint32_t log = log2_of(size_bytes / 64);
    double gbs = bus;
    if (protocol == 0) gbs = least_of(bus / 3.8, most->ll_gbs[column]);
    if (protocol == 1)
        gbs = least_of(bus * (s->nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0), channels * most->line_tree_gbs[column]);
    return .5 * gbs * (size_bytes >= 64 && log < 23 ? tree_part[protocol][log] : 1);
}

/* What a pipeline's links take.  If the GPUs are in the same order in all channels, NCCL counts one link.  Between
 * nodes of several GPUs they are not: each channel leaves a node by another NIC. */
static double pipeline_us(const struct shape *s, uint32_t protocol)
{
    if (s->nodes == 1) return nvlink_us[0][protocol];
    return (s->peers == 1 ? 1 : ring_steps(s)) * net_us[0][protocol];
}

static double ring_us(const struct coll_options *o, const struct shape *s, uint32_t protocol, uint64_t size_bytes)
{
    const bool sum_all = s->form == FORM_SUM_ALL;
    const uint32_t steps = ring_steps(s), crossings = (sum_all ? 2 : 1) * (s->nodes - 1);
    const double post = s->nodes == 1 ? 0 : protocol == 2 ? 3 * net_post_us : net_post_us;
    const double within = nvlink_us[0][protocol] > post ? nvlink_us[0][protocol] : post;
    const double between = net_us[s->peers == 1][protocol];
    const double links = (steps - crossings) * within + crossings * between;
    double us = s->operations * (base_us[0][protocol] + (s->form == FORM_PIPELINE ? pipeline_us(s, protocol) : links));
    const bool long_parts = size_bytes / ((uint64_t)o->nccl.channels * s->ranks) >= 64;
    if (protocol == 2 && s->nodes > 1 && sum_all && long_parts) us *= 1.4;
    return us + (double)size_bytes / 1e3 / ring_gbs(o, s, protocol);
}

static double tree_us(const struct coll_options *o, const struct shape *s, uint32_t protocol, uint64_t size_bytes)
{
    const double hops = (s->peers - 1) * nvlink_us[1][protocol] + log2_of(s->nodes) * net_us[1][protocol];
    return base_us[1][protocol] + 2 * hops + (double)size_bytes / 1e3 / tree_gbs(o, s, protocol, size_bytes);
}

static void choose(const struct coll_options *o, const struct shape *s, uint64_t size_bytes, struct nccl_plan *plan)
{
    static const enum coll_protocol protocols[] = { COLL_LL, COLL_LL128, COLL_SIMPLE };
    double least_us = 0;
    plan->algorithm = COLL_RING;
    plan->protocol = o->protocol ? o->protocol : COLL_SIMPLE;
    if (s->ranks == 1) return;
    for (uint32_t tree = 0; tree < 2; tree++) {
        if (tree && (s->form != FORM_SUM_ALL || o->algorithm == COLL_RING)) continue;
        if (!tree && o->algorithm == COLL_TREE) continue;
        for (uint32_t p = 0; p < PROTOCOLS; p++) {
            if (o->protocol ? o->protocol != protocols[p] : p == 1 && s->nodes > 1 && o->nccl.split_lines) continue;
            const double us = tree ? tree_us(o, s, p, size_bytes) : ring_us(o, s, p, size_bytes);
            if (least_us > 0 && us >= least_us) continue;
            least_us = us;
            plan->algorithm = tree ? COLL_TREE : COLL_RING;
            plan->protocol = protocols[p];
        }
    }
}

/* ---- channels and threads (enqueue.cc) ---- */

static void channels_choose(const struct coll_options *o, uint64_t size_bytes, struct nccl_plan *plan)
{
    const bool tree = plan->algorithm == COLL_TREE, ll = plan->protocol == COLL_LL;
    uint32_t channels = o->nccl.channels;
    uint32_t threads = plan->protocol == COLL_LL128 ? THREADS_MOST : RING_THREADS;
    const uint64_t threshold = plan->protocol == COLL_SIMPLE ? 64 : ll && !tree ? 8 * (uint64_t)o->ranks : 8;
    while (channels >= 2 && size_bytes < channels * threads * threshold) channels--;
    while (threads % 128 == 0 && size_bytes < channels * threads * threshold) threads /= 2;
    if (threads < THREADS_LEAST && (plan->protocol != COLL_SIMPLE || tree)) threads = THREADS_LEAST;
    if (tree) threads = THREADS_MOST;
    plan->channels = channels;
    plan->warps = threads / WARP_LANES;
}

static uint64_t aligned(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static uint64_t traffic_least(const struct coll_options *o)
{
    return o->nccl.before_229 ? TRAFFIC_LEAST_BEFORE : TRAFFIC_LEAST;
}

/* Divides the bytes among channels.  A channel gets whole cells, each with at least 32 KiB of traffic (16 KiB before
 * 2.29.2).  Traffic is the bytes times how often each is sent.  LL's traffic counts four times. */
static void parts_make(const struct coll_options *o, struct nccl_plan *plan)
{
    const uint64_t least = traffic_least(o);
    const uint64_t times = (o->kernel == COLL_ALLREDUCE ? 2 : o->ranks) * (plan->protocol == COLL_LL ? 4u : 1u);
    const uint64_t cell = aligned((least + times - 1) / times, 16), size = o->size_bytes;
    const uint64_t cells = (size + cell - 1) / cell, traffic = size * times;
    const uint64_t all = traffic > least ? traffic : least;
    const uint64_t each = all / plan->channels > least ? all / plan->channels : least;
    uint64_t mid = (each + cell * times - 1) / (cell * times);
    mid = mid < cells ? mid : cells;
    assert(cells > 0 && mid > 0);
    plan->channels = (uint32_t)((cells + mid - 1) / mid);
    plan->lo_bytes = plan->mid_bytes = mid * cell;
    plan->hi_bytes = size - (plan->channels - 1) * plan->mid_bytes;
    if (plan->channels == 1) plan->lo_bytes = size;
}

/* Sets the chunk of a tree with LL128.  The longer the tree, the smaller its chunks.  A chunk is a whole number of
 * passes of a warp. */
static void line_tree_chunk(const struct coll_options *o, struct nccl_plan *plan)
{
    enum { TURN_BYTES = 1920 };
    const struct shape s = shape_of(o);
    const double steps = 1 + log2_of(s.nodes) + 0.1 * s.peers;
    uint64_t chunk = plan->chunk_bytes;
    while ((double)(plan->mid_bytes / chunk) < steps * 64 / s.peers && chunk > 131072) chunk /= 2;
    while ((double)(plan->mid_bytes / chunk) < steps * 16 / s.peers && chunk > 32768) chunk /= 2;
    plan->chunk_bytes = chunk / TURN_BYTES * TURN_BYTES;
}

/* Sets places and chunks.  `parted`: with Simple a ring's chunk takes four places, and is sent in two slices. */
static void chunks_set(struct nccl_plan *plan, bool parted)
{
    enum { LL_STEP = 32 << 10, LL128_STEP = 576000, SIMPLE_STEP = 512 << 10 }; /* bytes of data in a place */
    plan->step_bytes = plan->protocol == COLL_LL ? LL_STEP : plan->protocol == COLL_LL128 ? LL128_STEP : SIMPLE_STEP;
    plan->chunk_steps = parted ? NCCL_STEPS / 2 : 1;
    plan->slices = parted ? 2 : 1;
    plan->chunk_bytes = plan->chunk_steps * plan->step_bytes;
}

void nccl_plan_make(const struct coll_options *o, struct nccl_plan *plan)
{
    const uint64_t all = o->kernel == COLL_ALLREDUCE ? o->size_bytes : o->size_bytes * o->ranks;
    const struct shape s = shape_of(o);
    *plan = (struct nccl_plan){ 0 };
    choose(o, &s, all, plan);
    channels_choose(o, all, plan);
    parts_make(o, plan);
    chunks_set(plan, plan->protocol == COLL_SIMPLE && plan->algorithm == COLL_RING);
    if (plan->protocol == COLL_LL128 && plan->algorithm == COLL_TREE) line_tree_chunk(o, plan);
}

uint64_t nccl_part_begin(const struct nccl_plan *plan, uint32_t channel)
{
    assert(channel < plan->channels);
    return channel ? plan->lo_bytes + (channel - 1) * plan->mid_bytes : 0;
}

uint64_t nccl_part_bytes(const struct nccl_plan *plan, uint32_t channel)
{
    if (plan->channels == 1 || channel == 0) return plan->lo_bytes;
    return channel + 1 == plan->channels ? plan->hi_bytes : plan->mid_bytes;
}

/* ---- blocks of different sizes (allgatherv_sched.cc, enqueue.cc) ---- */

static uint64_t most_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

bool nccl_gathers_blocks(const struct coll_options *o)
{
    uint32_t roots = 0;
    for (uint32_t r = 0; r < o->ranks; r++) roots += coll_size_of(o, r) > 0;
    const bool apart = o->nccl.before_229 || o->nccl.mesh; /* RCCL has NCCL_ALLGATHERV_ENABLE off */
    return o->kernel == COLL_ALLGATHER && !apart && roots > 1;
}

/* NCCL chooses as for an all-gather whose blocks all have the size of the largest.  Chunks are those of a broadcast.
 * There are threads enough to read 64 works at once. */
void nccl_plan_blocks(const struct coll_options *o, struct nccl_plan *plan)
{
    enum { WARPS_LEAST = 9 };
    const struct shape s = shape_of(o);
    uint64_t most = 0;
    for (uint32_t r = 0; r < o->ranks; r++) most = most_of(most, coll_size_of(o, r));
    *plan = (struct nccl_plan){ 0 };
    choose(o, &s, most * o->ranks, plan);
    channels_choose(o, most * o->ranks, plan);
    chunks_set(plan, false);
    const uint32_t least = WARPS_LEAST - (plan->protocol == COLL_SIMPLE); /* Simple has one more, which only signals */
    if (plan->warps < least) plan->warps = least;
}

uint64_t nccl_block_part(const struct nccl_plan *plan, uint64_t size_bytes, uint32_t channel, uint64_t *begin)
{
    enum { PART_ALIGN = 256 };
    const uint64_t part = (size_bytes + plan->channels - 1) / plan->channels;
    const uint64_t end = coll_min(aligned((channel + 1) * part, PART_ALIGN), size_bytes);
    *begin = coll_min(aligned(channel * part, PART_ALIGN), size_bytes);
    return end - *begin;
}

/* A broadcast or reduction of a group. */
struct task {
    uint64_t size_bytes;
    uint32_t bin;
    uint16_t root;
    uint8_t plan;
};

/* NCCL sorts by size, in KiB, and of that only by the highest bit and the two that follow. */
static uint32_t bin_of(uint64_t size_bytes)
{
    const uint64_t kib = coll_min(size_bytes, 1 << 30) >> 10;
    const uint32_t log = log2_of(kib | 1);
    return log < 2 ? (uint32_t)kib : (log - 1) << 2 | (kib >> (log - 2) & 3);
}

static int task_compare(const void *a, const void *b)
{
    const struct task *one = a, *two = b;
    return one->bin != two->bin ? (one->bin > two->bin) - (one->bin < two->bin) : one->root - two->root;
}

/* Lists the blocks that have bytes, the smallest first.  Returns how many there are. */
static uint32_t tasks_list(const struct coll_options *o, struct task *task)
{
    uint32_t tasks = 0;
    for (uint32_t r = 0; r < o->ranks; r++) {
        const uint64_t size = coll_size_of(o, r);
        if (size) task[tasks++] = (struct task){ .size_bytes = size, .bin = bin_of(size), .root = (uint16_t)r };
    }
    qsort(task, tasks, sizeof *task, task_compare);
    return tasks;
}

/* Makes a plan for each run of tasks that are less than four times as large as the first of them.  Returns the number
 * of plans. */
static uint32_t tasks_plan(const struct coll_options *o, struct task *task, uint32_t tasks, struct nccl_plan *plan)
{
    struct shape s = shape_of(o);
    s.form = FORM_PIPELINE;
    s.operations = (tasks + o->nccl.channels - 1) / o->nccl.channels;
    uint32_t plans = 0;
    for (uint32_t i = 0, end; i < tasks; i = end, plans++) {
        uint64_t all = 0;
        assert(plans < NCCL_PLANS);
        for (end = i; end < tasks && (end == i || task[end].size_bytes < 4 * task[i].size_bytes); end++) {
            all += task[end].size_bytes;
            task[end].plan = (uint8_t)plans;
        }
        plan[plans] = (struct nccl_plan){ 0 };
        choose(o, &s, all, &plan[plans]);
        channels_choose(o, all, &plan[plans]);
        chunks_set(&plan[plans], false);
    }
    return plans;
}

static uint32_t times_of(const struct nccl_plan *p) { return p->protocol == COLL_LL ? 4 : 1; }

/* The traffic that each channel is to have. */
static uint64_t share_of(const struct coll_options *o, const struct task *task, uint32_t tasks,
                         const struct nccl_plan *plan)
{
    uint64_t traffic = 0, channels = 0;
    for (uint32_t i = 0; i < tasks; i++) {
        const struct nccl_plan *p = &plan[task[i].plan];
        traffic += most_of(traffic_least(o), task[i].size_bytes * times_of(p));
        channels += p->channels;
    }
    const uint64_t share = traffic / coll_min(channels, o->nccl.channels);
    return o->nccl.before_229 ? most_of(share, TRAFFIC_LEAST_BEFORE) : aligned(share, 16);
}

/* Each task goes on in the channel where the one before has ended, until the channel has its share.  It fills channels
 * by whole cells.  The last channel takes all that is left. */
uint32_t nccl_works_make(const struct coll_options *o, struct nccl_plan plan[NCCL_PLANS], uint32_t *plans,
                         struct nccl_work *work)
{
    struct task *task = kernel_alloc(o->ranks, sizeof *task);
    const uint32_t tasks = tasks_list(o, task);
    *plans = tasks_plan(o, task, tasks, plan);
    const uint64_t share = share_of(o, task, tasks, plan);
    uint32_t works = 0, channel = 0;
    uint64_t filled = 0;
    for (uint32_t i = 0; i < tasks; i++) {
        const uint32_t times = times_of(&plan[task[i].plan]);
        const uint64_t cell = aligned((traffic_least(o) + times - 1) / times, 16), all = task[i].size_bytes;
        for (uint64_t begin = 0, size; begin < all; begin += size) {
            const bool last = channel + 1 == o->nccl.channels;
            size = last ? all - begin : coll_min(all - begin, aligned((share - filled + times - 1) / times, cell));
            work[works++] = (struct nccl_work){ begin, size, task[i].root, (uint16_t)channel, task[i].plan };
            plan[0].channels = channel + 1;
            filled += aligned(size, cell) * times;
            if (filled < share || last) continue;
            channel++;
            filled = 0;
        }
    }
    free(task);
    assert(works > 0 && works <= o->ranks + o->nccl.channels);
    return works;
}
