/* device.c - runs a schedule on the SMs of GPUs, see device.h.
 *
 * Between two events of a rank each of its compute kernels works at a constant rate.  An event is a timer, or the
 * end of a meeting.  At an event the rank accounts for the time since the last event and ends kernels that are done.
 * Then it starts kernels and shares the SMs anew. */
#include "models/step/device.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"
#include "sim/rng.h"
#include "sim/units.h"

enum { GROUPS_MAX = 8 }; /* the most groups of blocks that came at different times; later blocks join the last group */

struct group {
    uint32_t sms;
    double left_ps;
};

struct running {
    uint32_t kernel, have, wanted; /* the kernel; the SMs that it has; the further SMs that it wants */
    double left_ps, rate, slow;    /* left_ps: remaining work, as time at rate 1 */
    double power;                  /* as in struct step_cost */
    double one_ps;                 /* if the op is several kernels in sequence: the work of one of them */
    uint32_t kernels_after;        /* kernels of the sequence after the one that runs */
    struct group group[GROUPS_MAX];
    uint32_t groups;
    bool meeting, begun;
};

struct rank {
    uint32_t head[SCHEDULE_STREAMS_MAX]; /* index of each stream's next kernel in its list */
    uint64_t stream_free_ps[SCHEDULE_STREAMS_MAX];
    bool stream_busy[SCHEDULE_STREAMS_MAX];
    struct running running[DEVICE_RUNNING_MAX];
    uint32_t running_count, free_sms, host, ended;
    uint64_t host_ps; /* when the host has launched all kernels before kernel `host` */
    bool host_blocked;
    uint64_t last_ps;
    double passed_ps, full_ps; /* passed_ps: time of this step so far and of the step before it.  full_ps: how long
                                * full power would take to draw the energy of that time */
    bool *done;                /* [kernels] whether each has ended */
    uint64_t *told_ps;         /* [kernels] when the host launched each; UINT64_MAX: it has not yet */
    struct device_times *times;
};

struct device {
    struct device_options options;
    uint32_t kernels;
    uint32_t *list[SCHEDULE_STREAMS_MAX], list_count[SCHEDULE_STREAMS_MAX];
    struct rank *rank;
};

struct device *device_new(const struct device_options *o)
{
    struct device *d = memory_new(1, sizeof *d);
    d->options = *o;
    d->kernels = o->schedule->kernels->len;
    for (int s = 0; s < SCHEDULE_STREAMS_MAX; s++) d->list[s] = memory_new(d->kernels + 1, sizeof d->list[s][0]);
    for (uint32_t k = 0; k < d->kernels; k++) {
        const uint32_t s = schedule_kernel(o->schedule, k)->stream;
        assert(s < SCHEDULE_STREAMS_MAX);
        d->list[s][d->list_count[s]++] = k;
    }
    d->rank = memory_new(o->ranks, sizeof d->rank[0]);
    for (uint32_t r = 0; r < o->ranks; r++) {
        struct rank *rank = &d->rank[r];
        rank->free_sms = o->sms;
        rank->done = memory_new(d->kernels + 1, sizeof rank->done[0]);
        rank->told_ps = memory_new(d->kernels + 1, sizeof rank->told_ps[0]);
        rank->times = memory_new(d->kernels + 1, sizeof rank->times[0]);
        for (uint32_t k = 0; k < d->kernels; k++) rank->told_ps[k] = UINT64_MAX;
    }
    return d;
}

void device_free(struct device *d)
{
    if (!d) return;
    for (uint32_t r = 0; r < d->options.ranks; r++) {
        free(d->rank[r].done);
        free(d->rank[r].told_ps);
        free(d->rank[r].times);
    }
    for (int s = 0; s < SCHEDULE_STREAMS_MAX; s++) free(d->list[s]);
    free(d->rank);
    free(d);
}

static const struct step_cost *cost_of(const struct device *d, uint32_t rank, uint32_t kernel)
{
    return d->options.cost(d->options.context, rank, kernel);
}

/* `speed` affects only the share of the time that depends on the clock, `slow` the whole time. */
double device_clocked_us(const struct device *d, uint32_t rank, uint32_t kernel)
{
    const struct step_cost *cost = cost_of(d, rank, kernel);
    const double speed = d->options.speed ? d->options.speed[rank] : 1;
    const double slow = d->options.slow ? d->options.slow[rank] : 1;
    return slow * cost->us * (1 - cost->clock_share + cost->clock_share / speed);
}

/* How long the kernel takes alone on this rank, with jitter. */
static double work_ps(const struct device *d, uint32_t rank, uint32_t kernel)
{
    double us = device_clocked_us(d, rank, kernel);
    if (d->options.jitter > 0) {
        struct rng rng;
        rng_seed(&rng, d->options.seed ^ ((uint64_t)(rank + 1) << 32 | kernel));
        const double u = rng_uniform(&rng), v = rng_uniform(&rng);
        const double normal = sqrt(-2 * log1p(-u)) * cos(2 * 3.14159265358979323846 * v);
        us *= exp(d->options.jitter * normal);
    }
    return fmax(us, 1e-3) * (double)PS_PER_US;
}

double device_alone_us(const struct device *d, uint32_t rank, uint32_t kernel)
{
    return work_ps(d, rank, kernel) / (double)PS_PER_US;
}

/* ---- accounting for the time since the last event ---- */

static void kernel_end(struct device *d, struct rank *rank, uint32_t place, uint64_t now)
{
    const struct running *run = &rank->running[place];
    const uint32_t stream = schedule_kernel(d->options.schedule, run->kernel)->stream;
    rank->times[run->kernel].end_ps = now;
    rank->done[run->kernel] = true;
    rank->ended++;
    rank->free_sms += run->have;
    rank->stream_busy[stream] = false;
    rank->stream_free_ps[stream] = now;
    rank->head[stream]++;
    memmove(&rank->running[place], &rank->running[place + 1], (--rank->running_count - place) * sizeof *run);
}

static const double nothing_left_ps = 0.5;

static void sms_return(struct rank *rank, struct running *run)
{
    rank->free_sms += run->have;
    run->wanted += run->have;
    run->have = 0;
}

/* Takes worked_ps from the blocks' shares.  Blocks with nothing left to do give back their SMs.  True if no work
 * remains. */
static bool shares_work(struct rank *rank, struct running *run, double worked_ps)
{
    uint32_t left = 0;
    for (uint32_t g = 0; g < run->groups; g++) {
        struct group group = run->group[g];
        group.left_ps -= worked_ps;
        if (group.left_ps > nothing_left_ps) {
            run->group[left++] = group;
            continue;
        }
        run->have -= group.sms;
        rank->free_sms += group.sms;
    }
    run->groups = left;
    return left == 0 && run->wanted == 0;
}

static double before_next_ps(const struct running *run) { return run->left_ps - run->one_ps * run->kernels_after; }

/* If one of an op's kernels has ended, returns its SMs, so that waiting kernels get them before the op's next
 * kernel. */
static void sms_hand_on(struct rank *rank, struct running *run)
{
    if (!run->kernels_after || before_next_ps(run) > nothing_left_ps) return;
    run->kernels_after--;
    sms_return(rank, run);
}

static void work_done(struct device *d, struct rank *rank, uint64_t now)
{
    const double passed_ps = (double)(now - rank->last_ps);
    rank->last_ps = now;
    rank->passed_ps += passed_ps;
    for (uint32_t i = 0; i < rank->running_count;) {
        struct running *run = &rank->running[i];
        bool end = false;
        if (!run->meeting) rank->full_ps += passed_ps * run->power * run->have / d->options.sms;
        if (!run->meeting && run->groups) {
            end = shares_work(rank, run, passed_ps * run->rate);
        } else if (!run->meeting && run->have) {
            run->left_ps -= passed_ps * run->rate;
            end = run->left_ps <= nothing_left_ps;
            if (!end) sms_hand_on(rank, run);
        }
        if (end) kernel_end(d, rank, i, now);
        else i++;
    }
}

/* ---- starting kernels ---- */

static void host_go_on(struct device *d, struct rank *rank, uint64_t now)
{
    while (rank->host < d->kernels) {
        if (rank->host_blocked) {
            const uint32_t awaited = rank->host - 1;
            if (!rank->done[awaited]) return;
            rank->host_ps = rank->times[awaited].end_ps + d->options.sync_ps;
            rank->host_blocked = false;
        }
        rank->host_ps += d->options.launch_ps;
        rank->told_ps[rank->host] = rank->host_ps;
        rank->host_blocked = schedule_kernel(d->options.schedule, rank->host)->host_waits;
        rank->host++;
    }
    (void)now;
}

/* The time when the kernel is launched and all kernels that it waits for have ended.  UINT64_MAX: not yet known. */
static uint64_t ready_ps(const struct device *d, const struct rank *rank, uint32_t kernel)
{
    const struct schedule_kernel *k = schedule_kernel(d->options.schedule, kernel);
    uint64_t ready = rank->told_ps[kernel];
    for (uint32_t i = 0; i < k->num_waits; i++) {
        if (!rank->done[k->wait[i]]) return UINT64_MAX;
        const uint64_t after_ps = rank->times[k->wait[i]].end_ps + d->options.gap_ps;
        if (after_ps > ready) ready = after_ps;
    }
    return ready;
}

static void kernel_start(struct device *d, uint32_t r, uint32_t kernel, uint64_t ready)
{
    struct rank *rank = &d->rank[r];
    const struct step_cost *cost = cost_of(d, r, kernel);
    assert(rank->running_count < DEVICE_RUNNING_MAX && cost->sms > 0);
    struct running *run = &rank->running[rank->running_count++];
    *run = (struct running){ .kernel = kernel,
                             .wanted = cost->sms < d->options.sms ? cost->sms : d->options.sms,
                             .slow = 1,
                             .power = cost->power,
                             .meeting = cost->occupancy == OCCUPANCY_MEETING };
    if (!run->meeting) run->left_ps = work_ps(d, r, kernel);
    if (cost->occupancy == OCCUPANCY_TILES && cost->kernels > 1) {
        run->kernels_after = cost->kernels - 1;
        run->one_ps = run->left_ps / cost->kernels;
    }
    rank->times[kernel] = (struct device_times){ .ready_ps = ready, .begin_ps = UINT64_MAX };
    rank->stream_busy[schedule_kernel(d->options.schedule, kernel)->stream] = true;
}

/* Starts each stream's next kernel if it is ready.  Returns the earliest known time at which another becomes ready;
 * UINT64_MAX: none is known. */
static uint64_t streams_start(struct device *d, uint32_t r, uint64_t now)
{
    struct rank *rank = &d->rank[r];
    uint64_t next = UINT64_MAX;
    for (uint32_t s = 0; s < SCHEDULE_STREAMS_MAX; s++) {
        if (rank->stream_busy[s] || rank->head[s] == d->list_count[s]) continue;
        const uint32_t kernel = d->list[s][rank->head[s]];
        uint64_t ready = ready_ps(d, rank, kernel);
        const bool first = rank->head[s] == 0;
        const uint64_t free_ps = first ? 0 : rank->stream_free_ps[s] + d->options.gap_ps;
        if (ready < free_ps) ready = free_ps;
        if (ready <= now) kernel_start(d, r, kernel, ready);
        else if (ready < next) next = ready;
    }
    return next;
}

static uint32_t priority_of(const struct device *d, const struct running *run)
{
    return d->options.schedule->priority[schedule_kernel(d->options.schedule, run->kernel)->stream];
}

static void sms_take(struct device *d, uint32_t r, struct running *run, uint64_t now)
{
    struct rank *rank = &d->rank[r];
    const uint32_t take = rank->free_sms < run->wanted ? rank->free_sms : run->wanted;
    if (!take) return;
    const bool shares = cost_of(d, r, run->kernel)->occupancy == OCCUPANCY_SHARES;
    if (shares && run->groups < GROUPS_MAX) run->group[run->groups++] = (struct group){ take, run->left_ps };
    else if (shares) run->group[GROUPS_MAX - 1].sms += take;
    rank->free_sms -= take;
    run->wanted -= take;
    run->have += take;
    uint64_t *begin = &rank->times[run->kernel].begin_ps;
    if (run->meeting ? run->wanted == 0 : *begin == UINT64_MAX) *begin = now;
}

/* Shares the SMs anew.  First, kernels of short blocks return their SMs.  Then the other kernels take the SMs that they
 * want.  Last, kernels of short blocks take what is left.  In both groups, streams take SMs by priority. */
static void sms_share(struct device *d, uint32_t r, uint64_t now)
{
    struct rank *rank = &d->rank[r];
    for (uint32_t i = 0; i < rank->running_count; i++) {
        struct running *run = &rank->running[i];
        if (run->meeting || cost_of(d, r, run->kernel)->occupancy != OCCUPANCY_SHORT) continue;
        sms_return(rank, run);
    }
    for (int brief = 0; brief < 2; brief++)
        for (uint32_t priority = 0; priority < SCHEDULE_STREAMS_MAX; priority++)
            for (uint32_t i = 0; i < rank->running_count; i++) {
                struct running *run = &rank->running[i];
                const bool is_short = cost_of(d, r, run->kernel)->occupancy == OCCUPANCY_SHORT;
                if (is_short == (brief == 1) && priority_of(d, run) == priority && run->wanted)
                    sms_take(d, r, run, now);
            }
}

/* ---- rates and clocks ---- */

static double share_rate(const struct step_cost *cost, double share)
{
    const double bytes_rate = fmin(1, share / DEVICE_BYTES_SHARE);
    return 1 / (cost->clock_share / share + (1 - cost->clock_share) / bytes_rate);
}

/* The rate of each block of a kernel with equal shares.  A block's arithmetic does not depend on the other blocks.  The
 * memory's rate is divided among all blocks, so fewer blocks run faster. */
static double block_rate(const struct step_cost *cost, double share)
{
    return 1 / (cost->clock_share + (1 - cost->clock_share) * fmax(share, DEVICE_BYTES_SHARE));
}

/* The clock that the power drawn so far allows, over the nominal clock (device.h). */
static double lift_of(const struct device *d, uint32_t r)
{
    const struct rank *rank = &d->rank[r];
    return rank->full_ps > 0 ? fmin(fmax(cbrt(rank->passed_ps / rank->full_ps), 1), fmax(d->options.lift, 1)) : 1;
}

double device_clock(const struct device *d, uint32_t rank)
{
    return (d->options.speed ? d->options.speed[rank] : 1) * lift_of(d, rank);
}

static void rates_set(struct device *d, uint32_t r)
{
    struct rank *rank = &d->rank[r];
    struct device_running seen[DEVICE_RUNNING_MAX];
    uint32_t count = 0, place[DEVICE_RUNNING_MAX];
    for (uint32_t i = 0; i < rank->running_count; i++) {
        const struct running *run = &rank->running[i];
        if (!run->have || (run->meeting && run->wanted)) continue;
        const uint32_t all = cost_of(d, r, run->kernel)->sms;
        const double share = fmin(1, (double)run->have / (all < d->options.sms ? all : d->options.sms));
        place[count] = i;
        seen[count++] = (struct device_running){ .kernel = run->kernel, .sms_share = share, .slow = 1 };
    }
    if (d->options.contend) d->options.contend(d->options.context, r, seen, count);
    const double clock = lift_of(d, r);
    for (uint32_t i = 0; i < count; i++) {
        struct running *run = &rank->running[place[i]];
        const struct step_cost *cost = cost_of(d, r, run->kernel);
        assert(seen[i].slow > 0 && isfinite(seen[i].slow));
        run->rate = (run->groups ? block_rate : share_rate)(cost, seen[i].sms_share) / seen[i].slow;
        run->rate /= 1 - cost->clock_share + cost->clock_share / clock;
    }
}

static uint64_t next_end_ps(const struct rank *rank, uint64_t now)
{
    double soonest_ps = INFINITY;
    for (uint32_t i = 0; i < rank->running_count; i++) {
        const struct running *run = &rank->running[i];
        if (run->meeting || !run->have) continue;
        double left_ps = before_next_ps(run);
        for (uint32_t g = 0; g < run->groups; g++)
            left_ps = g ? fmin(left_ps, run->group[g].left_ps) : run->group[g].left_ps;
        soonest_ps = fmin(soonest_ps, left_ps / run->rate);
    }
    return isinf(soonest_ps) ? UINT64_MAX : now + (uint64_t)ceil(fmax(soonest_ps, 0));
}

static void rank_go_on(struct device *d, uint32_t r)
{
    struct rank *rank = &d->rank[r];
    const uint64_t now = d->options.now_ps(d->options.context, r);
    work_done(d, rank, now);
    host_go_on(d, rank, now);
    uint64_t next = streams_start(d, r, now);
    sms_share(d, r, now);
    rates_set(d, r);
    const uint64_t end = next_end_ps(rank, now);
    if (end < next) next = end;
    for (uint32_t i = 0; i < rank->running_count; i++) {
        struct running *run = &rank->running[i];
        if (!run->meeting || run->begun || run->wanted) continue;
        run->begun = true;
        d->options.begin(d->options.context, r, run->kernel);
    }
    if (next != UINT64_MAX) d->options.timer_set(d->options.context, r, next);
}

/* Lets the rank begin with the power of a previous step, which was like this one but without waiting for other ranks.
 * Steps follow each other, and the power limit averages over more than a step (a tenth of a second). */
static void step_before(struct device *d, uint32_t r)
{
    struct rank *rank = &d->rank[r];
    double stream_ps[SCHEDULE_STREAMS_MAX] = { 0 }, *end_ps = memory_new(d->kernels + 1, sizeof *end_ps);
    for (uint32_t k = 0; k < d->kernels; k++) {
        const struct schedule_kernel *kernel = schedule_kernel(d->options.schedule, k);
        const struct step_cost *cost = cost_of(d, r, k);
        double begin_ps = stream_ps[kernel->stream];
        for (uint32_t i = 0; i < kernel->num_waits; i++) begin_ps = fmax(begin_ps, end_ps[kernel->wait[i]]);
        stream_ps[kernel->stream] = end_ps[k] = begin_ps + cost->us * PS_PER_US;
        rank->passed_ps = fmax(rank->passed_ps, end_ps[k]);
        rank->full_ps += cost->us * PS_PER_US * cost->power * fmin(cost->sms, d->options.sms) / d->options.sms;
    }
    free(end_ps);
}

void device_start(struct device *d)
{
    for (uint32_t r = 0; r < d->options.ranks; r++)
        d->rank[r].last_ps = d->rank[r].host_ps = d->options.now_ps(d->options.context, r);
    for (uint32_t r = 0; r < d->options.ranks && d->options.lift > 1; r++) step_before(d, r);
    for (uint32_t r = 0; r < d->options.ranks; r++) rank_go_on(d, r);
}

void device_timer(struct device *d, uint32_t rank) { rank_go_on(d, rank); }

void device_ended(struct device *d, uint32_t r)
{
    struct rank *rank = &d->rank[r];
    uint32_t place = 0;
    while (place < rank->running_count && !(rank->running[place].meeting && rank->running[place].begun)) place++;
    assert(place < rank->running_count);
    const uint64_t now = d->options.now_ps(d->options.context, r);
    work_done(d, rank, now); /* this may end kernels, so the meeting is searched again */
    for (place = 0; !(rank->running[place].meeting && rank->running[place].begun);) place++;
    kernel_end(d, rank, place, now);
    rank_go_on(d, r);
}

const struct device_times *device_times(const struct device *d, uint32_t rank, uint32_t kernel)
{
    assert(rank < d->options.ranks && kernel < d->kernels);
    return &d->rank[rank].times[kernel];
}

bool device_finished(const struct device *d, char *text, size_t text_size)
{
    for (uint32_t r = 0; r < d->options.ranks; r++) {
        const struct rank *rank = &d->rank[r];
        if (rank->ended == d->kernels) continue;
        uint32_t kernel = 0;
        while (rank->done[kernel]) kernel++;
        const struct schedule_kernel *k = schedule_kernel(d->options.schedule, kernel);
        snprintf(text, text_size, "rank %u: layer %u: %s of batch %u has not ended", r, k->layer, step_op_name(k->op),
                 k->batch);
        return false;
    }
    return true;
}
