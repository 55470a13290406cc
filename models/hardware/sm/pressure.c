/* pressure.c - the memory of a GPU as a server of all its kernels, see pressure.h. */
#include "models/hardware/sm/pressure.h"

#include <assert.h>
#include <math.h>

static const double use_most = 0.9999;

bool pressure_known(const struct cluster_gpu *gpu) { return gpu->l2_sms_rate_bps > 0; }

/* The bytes that come to an SM during the wait for one load, if all SMs load.  With more of them in flight, a byte of
 * an SM also waits behind the SM's other bytes.  Such waits are the part of a kernel's cycle that is spent in shared
 * queues. */
static double sm_queue_bytes(const struct cluster_gpu *gpu)
{
    return (double)gpu->l2_sms_rate_bps / 8 / gpu->sms * (double)gpu->load_ps / 1e12;
}

struct memory {
    double read, write, copy; /* bytes a second */
    bool l2;                  /* true: it is the L2, for kernels whose data stay there; false: HBM */
    double queue_ps, burst_ps;
    double sm_bytes; /* see sm_queue_bytes() */
    double most_ps; /* an upper limit of every wait: how long reads take of all bytes that the SMs can have in flight */
};

struct use {
    double rho, writes; /* how busy the memory is; the share of writes among its bytes */
};

static struct memory l2_of(const struct cluster_gpu *gpu)
{
    const double rate = (double)gpu->l2_sms_rate_bps / 8;
    return (struct memory){ .read = rate,
                            .write = rate,
                            .copy = rate,
                            .l2 = true,
                            .queue_ps = (double)gpu->l2_queue_ps,
                            .sm_bytes = sm_queue_bytes(gpu),
                            .most_ps = 1e12 * PRESSURE_FLIGHT_BYTES * gpu->sms / rate };
}

static struct memory hbm_of(const struct cluster_gpu *gpu)
{
    const double copy = (double)gpu->hbm_rate_bps / 8;
    return (struct memory){ .read = gpu->hbm_read_rate_bps ? (double)gpu->hbm_read_rate_bps / 8 : copy,
                            .write = gpu->hbm_write_rate_bps ? (double)gpu->hbm_write_rate_bps / 8 : copy,
                            .copy = copy,
                            .queue_ps = (double)gpu->hbm_queue_ps,
                            .burst_ps = (double)gpu->hbm_write_burst_ps,
                            .sm_bytes = sm_queue_bytes(gpu),
                            .most_ps = 1e12 * PRESSURE_FLIGHT_BYTES * gpu->sms /
                                       (gpu->hbm_read_rate_bps ? (double)gpu->hbm_read_rate_bps / 8 : copy) };
}

static struct use use_of(const struct memory *m, double read_bps, double write_bps)
{
    const double all = read_bps + write_bps;
    if (all <= 0) return (struct use){ 0, 0 };
    const double w = write_bps / all, turn = 4 * (1 / m->copy - (1 / m->read + 1 / m->write) / 2);
    return (struct use){ all * ((1 - w) / m->read + w / m->write + turn * w * (1 - w)), w };
}

static double queue_ps(const struct memory *m, struct use use)
{
    const double rho = fmin(use.rho, use_most);
    return fmin(m->queue_ps * rho / (2 * (1 - rho)), m->most_ps);
}

static double load_wait_ps(const struct memory *m, struct use use)
{
    return queue_ps(m, use) + m->burst_ps * fmin(use.rho, 1) * use.writes;
}

/* How much longer the bytes in flight of an SM of kernel l wait than they would in an idle memory. */
static double turn_wait_ps(const struct memory *m, const struct pressure_load *l, struct use use)
{
    const double reads = l->read_bps / (l->read_bps + l->write_bps);
    const double shared = fmax(1, l->flight_bytes / m->sm_bytes);
    return shared * (reads * load_wait_ps(m, use) + (1 - reads) * use.writes * queue_ps(m, use));
}

static bool is_bound(const struct pressure_load *l) { return l->bound && l->sms > 0 && l->read_bps + l->write_bps > 0; }

/* How long a cycle of kernel l takes in an idle memory.  It is the time alone without the waits that the kernel causes
 * itself, but at least the time that an SM takes to load and store. */
static double idle_turn_ps(const struct cluster_gpu *gpu, const struct memory *m, const struct pressure_load *l)
{
    const double alone_ps = l->flight_bytes * l->sms / (l->read_bps + l->write_bps) * 1e12;
    const double least_ps = l->flight_bytes / (2 * (double)gpu->store_sm_rate_bps / 8) * 1e12;
    return fmax(alone_ps - turn_wait_ps(m, l, use_of(m, l->read_bps, l->write_bps)), fmin(least_ps, alone_ps));
}

/* The speed of kernel l when the memory is used this much, relative to its speed alone.  In an idle memory its cycle
 * takes idle_ps. */
static double speed_at(const struct memory *m, const struct pressure_load *l, double idle_ps, struct use use)
{
    if (!is_bound(l)) return 1;
    const double all = l->flight_bytes * l->sms * 1e12 / (l->read_bps + l->write_bps);
    return all / (idle_ps + turn_wait_ps(m, l, use));
}

/* Finds the use of the memory whose waits make the kernels of load[] ask for just this use.  Sets the speed[] of each
 * kernel. */
static struct use settle(const struct memory *m, const struct pressure_load *own, const struct pressure_load *load,
                         uint32_t count, const double *idle_ps, double *speed)
{
    double low = 0, high = 1; /* as shares of what the kernels would ask of an idle memory */
    struct use use = { 0 };
    for (int step = 0; step < 48; step++) {
        const double f = (low + high) / 2;
        double read = own->read_bps, write = own->write_bps, asked = 0, taken = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (load[i].l2 != m->l2) continue;
            const double most = speed_at(m, &load[i], idle_ps[i], (struct use){ 0 });
            read += f * most * load[i].read_bps;
            write += f * most * load[i].write_bps;
            taken += f * most * (load[i].read_bps + load[i].write_bps);
        }
        use = use_of(m, read, write);
        for (uint32_t i = 0; i < count; i++) {
            if (load[i].l2 != m->l2) continue;
            speed[i] = speed_at(m, &load[i], idle_ps[i], use);
            asked += speed[i] * (load[i].read_bps + load[i].write_bps);
        }
        if (use.rho < use_most && asked > taken) low = f;
        else high = f;
    }
    for (uint32_t i = 0; i < count; i++)
        if (load[i].l2 == m->l2 && !is_bound(&load[i])) speed[i] = fmin(1, high);
    return use;
}

/* What the kernels that use one memory cost the kernel itself.  All is zero if there are none. */
struct cost {
    double load_ps, store_ps; /* how much longer a load waits, and a store */
    double fill_bps;          /* bytes a second of these kernels */
};

/* Returns what the kernels that use memory m cost, and sets their rate[]. */
static struct cost cost_of(const struct cluster_gpu *gpu, const struct memory *m, const struct pressure_load *own,
                           const struct pressure_load *load, uint32_t count, double *rate)
{
    const struct pressure_load nothing = { 0 };
    double idle_ps[PRESSURE_LOADS_MAX] = { 0 }, speed[PRESSURE_LOADS_MAX] = { 0 };
    struct cost cost = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        if (load[i].l2 != m->l2) continue;
        if (is_bound(&load[i])) idle_ps[i] = idle_turn_ps(gpu, m, &load[i]);
        (void)settle(m, &nothing, &load[i], 1, &idle_ps[i], &rate[i]);
    }
    const struct use use = settle(m, own, load, count, idle_ps, speed);
    for (uint32_t i = 0; i < count; i++) {
        if (load[i].l2 != m->l2) continue;
        cost.fill_bps += speed[i] * (load[i].read_bps + load[i].write_bps);
        rate[i] = fmin(1, speed[i] / rate[i]);
    }
    if (cost.fill_bps <= 0) return cost;
    cost.load_ps = load_wait_ps(m, use);
    cost.store_ps = use.writes * queue_ps(m, use);
    return cost;
}

/* How long a load or a store of the kernel waits at the port of its pair of SMs, behind stores of kernel l, which goes
 * at this speed. */
static double pair_wait_ps(const struct cluster_gpu *gpu, const struct pressure_load *l, double speed)
{
    const double port = (double)gpu->store_sm_rate_bps / 8;
    if (!l->paired || l->sms <= 0 || port <= 0) return 0;
    return fmin(speed * l->write_bps / l->sms / port, 1) * l->flight_bytes / port * 1e12 / 2;
}

struct pressure pressure_solve(const struct cluster_gpu *gpu, const struct pressure_load *own,
                               const struct pressure_load *load, uint32_t count, double *rate)
{
    assert(pressure_known(gpu) && count <= PRESSURE_LOADS_MAX);
    const struct memory memory = hbm_of(gpu);
    const struct cost hbm = cost_of(gpu, &memory, own, load, count, rate);
    struct cost l2 = { 0 };
    bool near = false;
    for (uint32_t i = 0; i < count; i++) near |= load[i].l2;
    if (near) {
        const struct memory cache = l2_of(gpu);
        l2 = cost_of(gpu, &cache, own, load, count, rate);
    }
    const double fill = hbm.fill_bps + l2.fill_bps, kept = own->read_bps + own->write_bps;
    if (fill <= 0) return (struct pressure){ 0 };
    double port_ps = 0; /* the other SM of a pair runs one kernel at a time, so the longest wait counts */
    for (uint32_t i = 0; i < count; i++) port_ps = fmax(port_ps, pair_wait_ps(gpu, &load[i], rate[i]));
    return (struct pressure){
        .load_ps = (uint64_t)(hbm.load_ps + l2.load_ps + port_ps),
        .near_ps = (uint64_t)(l2.load_ps + port_ps),
        .store_ps = (uint64_t)(hbm.store_ps + l2.store_ps + port_ps),
        .sm_bytes = sm_queue_bytes(gpu),
        .l2_bytes = gpu->l2_bytes ? (uint64_t)fmax((double)gpu->l2_bytes * kept / (kept + fill), 1e6) : 0,
    };
}

uint64_t pressure_longer_ps(const struct pressure *c, const struct cluster_gpu *gpu, bool fresh,
                            uint64_t footprint_bytes)
{
    if (!fresh || !gpu->l2_bytes) return c->load_ps;
    const double l2 = (double)gpu->l2_bytes, left = c->l2_bytes ? (double)c->l2_bytes : l2;
    const double idle = fmin((double)footprint_bytes / l2, 1), now = fmin((double)footprint_bytes / left, 1);
    const double more_ps = gpu->load_ps > gpu->load_l2_ps ? (double)(gpu->load_ps - gpu->load_l2_ps) : 0;
    const double near_ps = (double)c->near_ps;
    return (uint64_t)((now - idle) * more_ps + near_ps + now * ((double)c->load_ps - near_ps));
}

uint64_t pressure_store_ps(const struct pressure *c, uint64_t size_bytes)
{
    return c && c->store_ps ? (uint64_t)((double)c->store_ps * (double)size_bytes / c->sm_bytes) : 0;
}
