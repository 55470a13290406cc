/* nccl_plan.c - the choices of NCCL's host code, as in its published sources. */
#include "models/coll/nccl_plan.h"

#include <assert.h>

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

struct shape {
    uint32_t ranks, nodes, peers;
    bool sum_all;
};

static struct shape shape_of(const struct coll_options *o)
{
    const uint32_t peers = o->ranks < o->ranks_per_node ? o->ranks : o->ranks_per_node;
    return (struct shape){ o->ranks, o->ranks / peers, peers, o->kernel == COLL_ALLREDUCE };
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
    const uint32_t steps = s->sum_all ? 2 * (s->ranks - 1) : s->ranks - 1;
    double gbs = bus;
    if (protocol == 0) gbs = least_of(bus * .5, most->ll_gbs[column_of(s)]);
    if (protocol == 1) gbs = least_of(bus * .92, o->nccl.found * most->line_ring_gbs);
    return gbs * s->ranks / steps;
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

static double ring_us(const struct coll_options *o, const struct shape *s, uint32_t protocol, uint64_t size_bytes)
{
    const uint32_t steps = s->sum_all ? 2 * (s->ranks - 1) : s->ranks - 1;
    const uint32_t crossings = s->nodes == 1 ? 0 : s->sum_all ? 2 * (s->nodes - 1) : s->nodes - 1;
    const double post = s->nodes == 1 ? 0 : protocol == 2 ? 3 * net_post_us : net_post_us;
    const double within = nvlink_us[0][protocol] > post ? nvlink_us[0][protocol] : post;
    const double between = net_us[s->peers == 1][protocol];
    double us = base_us[0][protocol] + (steps - crossings) * within + crossings * between;
    const bool long_parts = size_bytes / ((uint64_t)o->nccl.channels * s->ranks) >= 64;
    if (protocol == 2 && s->nodes > 1 && s->sum_all && long_parts) us *= 1.4;
    return us + (double)size_bytes / 1e3 / ring_gbs(o, s, protocol);
}

static double tree_us(const struct coll_options *o, const struct shape *s, uint32_t protocol, uint64_t size_bytes)
{
    const double hops = (s->peers - 1) * nvlink_us[1][protocol] + log2_of(s->nodes) * net_us[1][protocol];
    return base_us[1][protocol] + 2 * hops + (double)size_bytes / 1e3 / tree_gbs(o, s, protocol, size_bytes);
}

static void choose(const struct coll_options *o, uint64_t size_bytes, struct nccl_plan *plan)
{
    static const enum coll_protocol protocols[] = { COLL_LL, COLL_LL128, COLL_SIMPLE };
    const struct shape s = shape_of(o);
    double least_us = 0;
    plan->algorithm = COLL_RING;
    plan->protocol = o->protocol ? o->protocol : COLL_SIMPLE;
    if (s.ranks == 1) return;
    for (uint32_t tree = 0; tree < 2; tree++) {
        if (tree && (!s.sum_all || o->algorithm == COLL_RING)) continue;
        if (!tree && o->algorithm == COLL_TREE) continue;
        for (uint32_t p = 0; p < PROTOCOLS; p++) {
            if (o->protocol ? o->protocol != protocols[p] : p == 1 && s.nodes > 1 && o->nccl.split_lines) continue;
            const double us = tree ? tree_us(o, &s, p, size_bytes) : ring_us(o, &s, p, size_bytes);
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

/* Divides the bytes among channels.  A channel gets whole cells, each with at least 32 KiB of traffic (16 KiB before
 * 2.29.2).  Traffic is the bytes times how often each is sent.  LL's traffic counts four times. */
static void parts_make(const struct coll_options *o, struct nccl_plan *plan)
{
    const uint64_t least = o->nccl.before_229 ? TRAFFIC_LEAST_BEFORE : TRAFFIC_LEAST;
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

void nccl_plan_make(const struct coll_options *o, struct nccl_plan *plan)
{
    enum { LL_STEP = 32 << 10, LL128_STEP = 576000, SIMPLE_STEP = 512 << 10 }; /* bytes of data in a place */
    const uint64_t all = o->kernel == COLL_ALLREDUCE ? o->size_bytes : o->size_bytes * o->ranks;
    *plan = (struct nccl_plan){ .chunk_steps = 1, .slices = 1 };
    choose(o, all, plan);
    channels_choose(o, all, plan);
    parts_make(o, plan);
    plan->step_bytes = plan->protocol == COLL_LL ? LL_STEP : plan->protocol == COLL_LL128 ? LL128_STEP : SIMPLE_STEP;
    if (plan->protocol == COLL_SIMPLE && plan->algorithm == COLL_RING) {
        plan->chunk_steps = NCCL_STEPS / 2;
        plan->slices = 2;
    }
    plan->chunk_bytes = plan->chunk_steps * plan->step_bytes;
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
