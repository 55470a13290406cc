/* test_moe_ll_mask.c - do the low-latency kernels survive ranks that fail, and ranks that are only slow?
 *
 * Aim: living ranks mask exactly the ranks that failed (check 15 of PROTOCOLS.md section 4).  The rows and sums of the
 * living ranks are right without the failed ones.  No rank waits twice for a failed one.  Nothing that a masked rank
 * still writes is seen.  Method: random groups and failures over the adversarial fabrics of support_loop; one rank that
 * begins late; the public shrink test, call by call, in the simulated world; and faults planted into right outputs. */
#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/hardware/world/world.h"
#include "models/moe/moe_ll.h"
#include "sim/units.h"
#include "tests/support_job.h"
#include "tests/support_moe.h"
#include "tests/support_sim.h"
#include "tests/unit.h"

/* The timeout is longer than any rank's steps take, in the adversarial world and in the simulated one. */
static const uint64_t timeout_ps = 20000 * PS_PER_US;

static void fail_plan(struct moe_options *o, uint32_t rank, enum moe_call call, uint32_t iteration)
{
    o->failure[o->failure_count++] = (struct moe_failure){ .rank = rank, .iteration = iteration, .call = call };
}

static struct moe_options options_of(uint32_t nodes, uint32_t local)
{
    struct moe_options o = moe_options_small(MOE_LOW_LATENCY, nodes * local, local);
    o.hidden = 512;
    o.dtype = MOE_FP8;
    o.mask_timeout_ps = timeout_ps;
    return o;
}

static struct moe_options options_draw(struct rng *rng)
{
    static const struct {
        uint32_t nodes, local;
    } shape[] = { { 1, 4 }, { 1, 8 }, { 2, 2 }, { 4, 2 }, { 8, 1 }, { 1, 2 } };
    const uint32_t at = (uint32_t)rng_below(rng, sizeof shape / sizeof shape[0]);
    struct moe_options o = options_of(shape[at].nodes, shape[at].local);
    o.tokens_max = 1 + (uint32_t)rng_below(rng, 30);
    o.topk = 1 + (uint32_t)rng_below(rng, 4);
    o.experts = o.ranks * (2 + (uint32_t)rng_below(rng, 4));
    o.dtype = rng_below(rng, 2) ? MOE_FP8 : MOE_BF16;
    o.seed = rng_next(rng);
    o.hook = rng_below(rng, 2);
    o.num_sms = 1 + (uint32_t)rng_below(rng, 8);
    const uint32_t first = (uint32_t)rng_below(rng, o.ranks), count = (uint32_t)rng_below(rng, o.ranks);
    for (uint32_t i = 0; i < count; i++)
        fail_plan(&o, (first + i) % o.ranks, (enum moe_call)rng_below(rng, 3), (uint32_t)rng_below(rng, 3));
    return o;
}

TEST("random failures over adversarial fabrics") { moe_test_random_groups(options_draw, 300); }
TEST("sizes only: the same steps") { moe_test_sizes_only(options_draw, 30); }

/* ---- a fabric that checks that a rank sends nothing to ranks that it has masked ---- */

static struct kernel_rank **watched;
static const struct fabric_ops *honest;
static struct fabric_ops watching;
static uint32_t sent_to_masked;

static void peer_watch(const struct fabric *f, uint16_t peer)
{
    sent_to_masked += kernel_rank_masks(watched[f->rank], peer);
}

static int watch_store(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    peer_watch(f, write->peer);
    return honest->store(f, w, write);
}

static int watch_put(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                     const struct fabric_signal *signal)
{
    peer_watch(f, write->peer);
    return honest->put(f, w, write, signal);
}

static int watch_signal(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    peer_watch(f, signal->peer);
    return honest->signal(f, w, signal);
}

/* Wraps the fabric of one rank.  Must be called for all ranks of a group in order, from rank 0 on. */
static void fabric_wrap(struct fabric *f, struct kernel_rank **rank)
{
    watched = rank;
    if (f->rank == 0) {
        sent_to_masked = 0;
        honest = f->ops;
        watching = *honest;
        watching.store = watch_store;
        watching.put = watch_put;
        watching.signal = watch_signal;
    }
    f->ops = &watching;
}

/* ---- a rank that is only slow ---- */

/* A late rank.  Its first kernel is one worker that waits for a while.  After that, the rank's calls run later than
 * those of the other ranks, and its writes arrive among theirs. */
struct late {
    struct moe_group *group;
    uint32_t rank;
    struct fabric_worker worker, *workers[1];
    struct kernel_launch nap;
    uint64_t wake_ps;
    bool napped, in_the_midst; /* in_the_midst: other ranks still had kernels to launch when this rank began */
};

static enum worker_step nap_step(struct fabric_worker *w)
{
    struct late *late = fabric_container_of(w, struct late, worker);
    fabric_wake_at(w, late->wake_ps);
    return fabric_now_ps(w->fabric) < late->wake_ps ? WORKER_WAIT : WORKER_DONE;
}

static void nap_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct late *late = fabric_container_of(w, const struct late, worker);
    snprintf(text, text_size, "sleeps until %llu", (unsigned long long)late->wake_ps);
}

static const struct worker_role nap_role = { .step = nap_step, .describe = nap_describe };

static struct kernel_launch *late_next(void *context, uint32_t rank)
{
    struct late *late = context;
    struct moe_group *group = late->group;
    if (rank == late->rank && !late->napped) {
        late->napped = true;
        return &late->nap;
    }
    if (rank == late->rank && group->launched[rank] == 0)
        for (uint32_t r = 0; r < group->job.options.ranks; r++)
            late->in_the_midst |= r != rank && group->launched[r] < group->until;
    if (group->launched[rank] == group->until) return NULL;
    return kernel_rank_launch(group->rank[rank], group->launched[rank]++ % kernel_phase_count(&group->job.job));
}

/* Runs four iterations in which one rank begins after_ps after the timeout of the others.  Returns the group after its
 * run. */
static struct moe_group *late_run(const struct moe_options *o, uint32_t rank, uint64_t after_ps, uint64_t seed,
                                  uint32_t *in_the_midst)
{
    struct routing routing = moe_routing_drawn(o, DRAW_UNIFORM);
    const struct loop_options loop = {
        .payload = true, .seed = seed, .deliver_percent = seed % 2 ? 10 : 60, .spurious = seed % 5 == 0
    };
    struct moe_group *group = moe_group_new(o, &routing, &loop);
    struct late late = { .group = group,
                         .rank = rank,
                         .wake_ps = timeout_ps + after_ps,
                         .workers = { &late.worker },
                         .nap = { .phase = "nap", .worker = late.workers, .worker_count = 1 } };
    late.worker = fabric_worker_of(loop_fabric(group->loop, rank), &nap_role);
    group->until = 4 * kernel_phase_count(&group->job.job);
    for (uint32_t r = 0; r < o->ranks; r++) fabric_wrap(loop_fabric(group->loop, r), group->rank);
    CU_ASSERT_TRUE_FATAL(loop_run(group->loop, late_next, &late, false));
    CU_ASSERT_EQUAL(sent_to_masked, 0);
    CU_ASSERT_EQUAL(loop_counts(group->loop)->breaches, 0);
    *in_the_midst += late.in_the_midst;
    return group;
}

static struct moe_options late_options(uint64_t seed)
{
    struct moe_options o = seed % 3 ? options_of(4, 2) : options_of(1, 4);
    o.hook = seed % 4 == 1;
    o.tokens_max = 12;
    return o;
}

/* Returns the time that the steps of an iteration take.  The timeouts of ranks run out at most this far apart. */
static uint64_t iteration_steps(const struct moe_options *o)
{
    g_autoptr(moe_group) group = moe_group_drawn(o, DRAW_UNIFORM, 1, 10);
    CU_ASSERT_TRUE(moe_group_run(group, 1, false));
    return loop_counts(group->loop)->steps;
}

/* A late rank must have the same effect on the other ranks as a failed rank, wherever it writes. */
TEST("a rank that is late, not dead")
{
    uint32_t in_the_midst = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct moe_options o = late_options(seed);
        const uint32_t late = (uint32_t)seed % o.ranks;
        const uint64_t steps = iteration_steps(&o);
        g_autoptr(moe_group) group = late_run(&o, late, steps + steps * (seed % 8) / 8, seed, &in_the_midst);
        for (uint32_t r = 0; r < o.ranks; r++) CU_ASSERT_EQUAL(kernel_rank_masks(group->rank[late], r), r != late);
        fail_plan(&group->job.options, late, MOE_CALL_DISPATCH, 0);
        for (uint32_t r = 0; r < o.ranks; r++) {
            char text[256] = "";
            const uint32_t failed = r == late ? 0 : kernel_rank_check(group->rank[r], text, sizeof text);
            CU_ASSERT_EQUAL(failed, 0);
            if (failed) printf("\n      seed %llu, rank %u: %s\n", (unsigned long long)seed, r, text);
        }
    }
    CU_ASSERT(in_the_midst >= 20);
}

/* A rank begins while the timeouts of the others run out.  Some ranks mask the late rank and others do not.  These two
 * groups may then mask each other.  In every case, no rank may wait for ever or break the contract. */
TEST("a rank that is late to some")
{
    uint32_t in_the_midst = 0, mixed = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const struct moe_options o = late_options(seed);
        const uint32_t late = (uint32_t)seed % o.ranks;
        const uint64_t steps = iteration_steps(&o);
        g_autoptr(moe_group) group = late_run(&o, late, steps * (seed % 10) / 20, seed, &in_the_midst);
        uint32_t masks = 0;
        for (uint32_t r = 0; r < o.ranks; r++)
            for (uint32_t peer = 0; peer < o.ranks; peer++) masks += kernel_rank_masks(group->rank[r], peer);
        mixed += masks > 0 && masks != 2 * (o.ranks - 1);
    }
    CU_ASSERT(in_the_midst >= 20);
    CU_ASSERT(mixed > 0);
}

/* ---- the public shrink test, in the simulated world ---- */

/* Asserts that, after a phase of the first iteration, every living rank has masked exactly those ranks that have failed
 * so far, as options.failure says. */
static void masks_expect(const struct job_sim *group, const struct moe_options *o, uint32_t phase)
{
    const bool sends_only = o->hook && (phase == 0 || phase == 2); /* a rank that does not wait for a peer cannot notice
                                                                    * that the peer failed */
    for (uint32_t r = 0; r < o->ranks; r++)
        for (uint32_t peer = 0; !kernel_absent(group->job, r, phase, 0) && peer < o->ranks; peer++) {
            const bool expected = kernel_absent(group->job, peer, phase, 0),
                       found = kernel_rank_masks(group->rank[r], peer);
            if (!sends_only) CU_ASSERT_EQUAL(found, expected);
            if (!sends_only && found != expected) printf("\n      phase %u: rank %u, peer %u\n", phase, r, peer);
        }
}

static void checks_expect_none(const struct job_sim *group)
{
    for (uint32_t r = 0; r < group->job->ranks; r++) {
        char text[256] = "";
        CU_ASSERT_EQUAL(kernel_rank_check(group->rank[r], text, sizeof text), 0);
        if (text[0]) printf("\n      rank %u: %s\n", r, text);
    }
}

/* Runs a phase and returns the time of its slowest rank. */
static uint64_t phase_run(struct job_sim *group, uint32_t phase)
{
    uint64_t most_ps = 0;
    job_sim_run(group, phase);
    for (uint32_t r = 0; r < group->job->ranks; r++)
        if (group->time_ps[r] > most_ps) most_ps = group->time_ps[r];
    return most_ps;
}

/* A failure costs one timeout in the first call that waits for the failed rank.  It costs later calls nothing. */
static void shrink_run(struct moe_options o, uint32_t nodes_of, bool nvlink_disabled)
{
    fail_plan(&o, 1, MOE_CALL_DISPATCH, 0);
    fail_plan(&o, 3, MOE_CALL_COMBINE, 0);
    if (o.ranks > 5) fail_plan(&o, 5, MOE_CALL_CLEAN, 0);
    const struct cluster cluster = support_cluster(nodes_of);
    g_auto(routing) routing = moe_routing_drawn(&o, DRAW_UNIFORM);
    struct moe_job job;
    struct job_sim group;
    moe_job_init(&job, &o, &routing);
    job_sim_init(&group, &job.job, &cluster, true, nvlink_disabled);
    const uint32_t phases = kernel_phase_count(&job.job);
    for (uint32_t r = 0; r < o.ranks; r++) fabric_wrap(world_fabric(group.world, r), group.rank);
    for (uint32_t iteration = 0; iteration < 3; iteration++) {
        for (uint32_t phase = 0; phase < phases; phase++) {
            const uint64_t took_ps = phase_run(&group, phase);
            const bool clean = phase + 1 == phases, meets = o.hook ? phase % 2 == 1 || clean : true;
            const bool lost = iteration == 0 && meets && (!clean || o.ranks > 5);
            CU_ASSERT_EQUAL(took_ps >= timeout_ps, lost);
            CU_ASSERT_TRUE(took_ps < timeout_ps + timeout_ps / 2);
            if (iteration == 0) masks_expect(&group, &o, phase);
        }
        checks_expect_none(&group);
    }
    CU_ASSERT_EQUAL(sent_to_masked, 0);
    job_sim_clear(&group);
}

TEST("shrink: dispatch, combine, clean")
{
    for (uint32_t hook = 0; hook < 2; hook++) {
        struct moe_options o = options_of(1, 8);
        o.hook = hook;
        shrink_run(o, 8, false);
        shrink_run(o, 8, true);
        o = options_of(4, 2);
        o.hook = hook;
        shrink_run(o, 2, false);
        o = options_of(1, 4);
        o.hook = hook;
        shrink_run(o, 4, false);
    }
}

/* If no rank fails, masking changes neither times nor outputs of dispatch and combine. */
TEST("masking nobody costs nothing")
{
    const struct cluster cluster = support_cluster(8);
    struct moe_options o = options_of(1, 8);
    g_auto(routing) routing = moe_routing_drawn(&o, DRAW_UNIFORM);
    struct moe_job masking, plain;
    struct job_sim with, without;
    moe_job_init(&masking, &o, &routing);
    o.mask_timeout_ps = 0;
    moe_job_init(&plain, &o, &routing);
    job_sim_init(&with, &masking.job, &cluster, true, false);
    job_sim_init(&without, &plain.job, &cluster, true, false);
    CU_ASSERT_EQUAL(kernel_phase_count(with.job), kernel_phase_count(without.job) + 1);
    for (uint32_t phase = 0; phase < 2; phase++) {
        job_sim_run(&with, phase);
        job_sim_run(&without, phase);
        for (uint32_t r = 0; r < o.ranks; r++) CU_ASSERT_EQUAL(with.time_ps[r], without.time_ps[r]);
    }
    job_sim_run(&with, 2);
    for (uint32_t r = 0; r < o.ranks; r++) /* a launch and two barriers, each at least as long as a signal takes */
        CU_ASSERT(with.time_ps[r] >= cluster.gpu.launch_ps + 2 * cluster.nvlink.latency_ps);
    checks_expect_none(&with);
    checks_expect_none(&without);
    job_sim_clear(&with);
    job_sim_clear(&without);
}

/* With a timeout of 1 ps, ranks mask all others, but never themselves, and no rank waits for ever. */
TEST("no patience at all")
{
    const struct cluster cluster = support_cluster(2);
    struct moe_options o = options_of(4, 2);
    o.mask_timeout_ps = 1;
    g_auto(routing) routing = moe_routing_drawn(&o, DRAW_UNIFORM);
    struct moe_job job;
    struct job_sim group;
    moe_job_init(&job, &o, &routing);
    job_sim_init(&group, &job.job, &cluster, true, false);
    for (uint32_t phase = 0; phase < 3 * kernel_phase_count(&job.job); phase++)
        job_sim_run(&group, phase % kernel_phase_count(&job.job));
    for (uint32_t r = 0; r < o.ranks; r++)
        for (uint32_t peer = 0; peer < o.ranks; peer++)
            CU_ASSERT_EQUAL(kernel_rank_masks(group.rank[r], peer), peer != r);
    job_sim_clear(&group);
    for (uint64_t seed = 1; seed <= 20; seed++) { /* here a rank's own signals may be late, too */
        g_autoptr(moe_group) loop = moe_group_drawn(&o, DRAW_UNIFORM, seed, 2);
        CU_ASSERT_TRUE(moe_group_run(loop, 2, false));
        for (uint32_t r = 0; r < o.ranks; r++) CU_ASSERT_FALSE(kernel_rank_masks(loop->rank[r], r));
    }
}

/* Returns only the first kernel of each rank.  During that of rank 0, rank 0 masks rank 1, as if the time of another
 * receiver had run out. */
static struct kernel_launch *sudden_next(void *context, uint32_t rank)
{
    struct moe_group *group = context;
    if (group->launched[rank]++) return NULL;
    struct kernel_launch *kernel = kernel_rank_launch(group->rank[rank], 0);
    if (rank == 0) ((struct ll_rank *)group->rank[0])->mask[1] = 1;
    return kernel;
}

/* If a rank is masked while receivers still wait for it, they must take nothing from it, even if its data arrive in
 * time. */
TEST("masked while receivers wait")
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct moe_options o = options_of(2, 2);
        g_autoptr(moe_group) group = moe_group_drawn(&o, DRAW_UNIFORM, seed, 95);
        CU_ASSERT_TRUE_FATAL(loop_run(group->loop, sudden_next, group, false));
        const struct ll_rank *r = ll_rank_of(group->rank[0]);
        uint32_t rows[4] = { 0 };
        for (uint32_t i = 0; i < r->g.experts; i++) rows[i % r->g.ranks] += r->range_count[i];
        for (uint32_t source = 0; source < 4; source++) CU_ASSERT_EQUAL(rows[source] > 0, source != 1);
        for (uint32_t peer = 0; peer < 4; peer++) CU_ASSERT_EQUAL(kernel_rank_masks(group->rank[1], peer), peer == 0);
    }
}

/* ---- planted faults ---- */

enum plant { PLANT_NONE, PLANT_FORGOTTEN, PLANT_HASTY, PLANT_ROWS, PLANT_SUM, PLANT_KINDS };

/* Plants a fault in rank 0.  Rank 1 failed at dispatch. */
static void plant(struct ll_rank *r, enum plant fault)
{
    switch (fault) {
    case PLANT_FORGOTTEN: r->mask[1] = 0; break;
    case PLANT_HASTY: r->mask[2] = 1; break;
    case PLANT_ROWS:
        r->range_count[1] = 1;
        r->packed_count[0]++;
        break;
    case PLANT_SUM: /* the sum of all weights, as if the failed rank's rows had come back */
        for (uint32_t t = 0; t < r->own->tokens; t++) {
            uint16_t row[512];
            float sum = 0;
            moe_input_row(r->base.options, 0, t, row);
            for (uint32_t j = 0; j < r->g.topk; j++)
                sum += r->own->experts[t * r->g.topk + j] == ROUTING_NONE ? 0 : ll_weight(r, t, j);
            for (uint32_t i = 0; i < 512; i++)
                r->combined[t * 512 + i] = format_bf16_from_f32(sum * format_f32_from_bf16(row[i]));
        }
        break;
    case PLANT_NONE:
    case PLANT_KINDS: break;
    }
}

TEST("checks catch planted faults")
{
    static const int number[PLANT_KINDS] = { 0, 15, 15, 13, 14 };
    for (int fault = PLANT_NONE; fault < PLANT_KINDS; fault++) {
        struct moe_options o = options_of(2, 2);
        fail_plan(&o, 1, MOE_CALL_DISPATCH, 0);
        g_autoptr(moe_group) group = moe_group_drawn(&o, DRAW_UNIFORM, 3, 50);
        CU_ASSERT_TRUE_FATAL(moe_group_run(group, 2, false));
        plant(ll_rank_of(group->rank[0]), (enum plant)fault);
        if (!moe_group_expect(group, 0, number[fault])) fprintf(stderr, "planted: fault %d\n", fault);
    }
}

/* Without a timeout, the other ranks wait for ever, and their descriptions say so. */
TEST("without masking a failure hangs")
{
    struct moe_options o = options_of(1, 4);
    o.mask_timeout_ps = 0;
    g_autoptr(moe_group) group = moe_group_drawn(&o, DRAW_UNIFORM, 1, 50);
    fail_plan(&group->job.options, 2, MOE_CALL_DISPATCH, 0);
    CU_ASSERT_FALSE(moe_group_run(group, 1, true));
    CU_ASSERT_PTR_NOT_NULL(strstr(loop_hang(group->loop), "waits for the count of rank 2"));
}
