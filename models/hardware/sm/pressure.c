/* pressure.c - the memory of a GPU as a server of all its kernels, see pressure.h. */
#include "models/hardware/sm/pressure.h"

#include <assert.h>
#include <math.h>

/* With more bytes in flight than this, a byte of an SM also waits behind the SM's other bytes.  Such waits are the part
 * of a kernel's cycle that is spent in shared queues.  [K] a scan of five values over kernels that run with loads on
 * H100, tests/accuracy/h100_loads.csv. */
#define SM_QUEUE_BYTES 32768.0
static const double use_most = 0.9999;

bool pressure_known(const struct cluster_gpu *gpu) { return gpu->hbm_queue_ps > 0; }

struct memory {
    double read, write, copy; /* bytes a second */
    double queue_ps, burst_ps;
    double most_ps; /* an upper limit of every wait: how long reads take of all bytes that the SMs can have in flight */
};

struct use {
    double rho, writes; /* how busy the memory is; the share of writes among its bytes */
};

static struct memory memory_of(const struct cluster_gpu *gpu)
{
    const double copy = (double)gpu->hbm_rate_bps / 8;
    return (struct memory){ .read = gpu->hbm_read_rate_bps ? (double)gpu->hbm_read_rate_bps / 8 : copy,
                            .write = gpu->hbm_write_rate_bps ? (double)gpu->hbm_write_rate_bps / 8 : copy,
                            .copy = copy,
                            .queue_ps = (double)gpu->hbm_queue_ps,
                            .burst_ps = (double)gpu->hbm_write_burst_ps,
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
    const double shared = fmax(1, l->flight_bytes / SM_QUEUE_BYTES);
    return shared * (reads * load_wait_ps(m, use) + (1 - reads) * use.writes * queue_ps(m, use));
}

static bool is_bound(const struct pressure_load *l) { return l->bound && l->sms > 0 && l->read_bps + l->write_bps > 0; }

/* How long a cycle of kernel l takes in an idle memory: its time alone without the waits that it causes itself, and at
 * least the time that an SM takes to load and store. */
static double idle_turn_ps(const struct cluster_gpu *gpu, const struct memory *m, const struct pressure_load *l)
{
    const double alone_ps = l->flight_bytes * l->sms / (l->read_bps + l->write_bps) * 1e12;
    const double least_ps = l->flight_bytes / (2 * (double)gpu->store.sm_rate_bps / 8) * 1e12;
    return fmax(alone_ps - turn_wait_ps(m, l, use_of(m, l->read_bps, l->write_bps)), least_ps);
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
            const double most = speed_at(m, &load[i], idle_ps[i], (struct use){ 0 });
            read += f * most * load[i].read_bps;
            write += f * most * load[i].write_bps;
            taken += f * most * (load[i].read_bps + load[i].write_bps);
        }
        use = use_of(m, read, write);
        for (uint32_t i = 0; i < count; i++) {
            speed[i] = speed_at(m, &load[i], idle_ps[i], use);
            asked += speed[i] * (load[i].read_bps + load[i].write_bps);
        }
        if (use.rho < use_most && asked > taken) low = f;
        else high = f;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!is_bound(&load[i])) speed[i] = fmin(1, high);
    return use;
}

struct pressure pressure_solve(const struct cluster_gpu *gpu, const struct pressure_load *own,
                               const struct pressure_load *load, uint32_t count, double *rate)
{
    const struct memory m = memory_of(gpu);
    const struct pressure_load nothing = { 0 };
    double idle_ps[PRESSURE_LOADS_MAX] = { 0 }, fill = 0;
    struct pressure c = { 0 };
    assert(pressure_known(gpu) && count <= PRESSURE_LOADS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        double alone;
        if (is_bound(&load[i])) idle_ps[i] = idle_turn_ps(gpu, &m, &load[i]);
        (void)settle(&m, &nothing, &load[i], 1, &idle_ps[i], &alone);
        rate[i] = alone;
    }
    double speed[PRESSURE_LOADS_MAX];
    const struct use use = settle(&m, own, load, count, idle_ps, speed);
    for (uint32_t i = 0; i < count; i++) {
        fill += speed[i] * (load[i].read_bps + load[i].write_bps);
        rate[i] = fmin(1, speed[i] / rate[i]);
    }
    if (fill <= 0) return c;
    c.load_ps = (uint64_t)load_wait_ps(&m, use);
    c.store_ps = (uint64_t)(use.writes * queue_ps(&m, use));
    const double kept = own->read_bps + own->write_bps;
    if (gpu->l2_bytes) c.l2_bytes = (uint64_t)fmax((double)gpu->l2_bytes * kept / (kept + fill), 1e6);
    return c;
}

uint64_t pressure_longer_ps(const struct pressure *c, const struct cluster_gpu *gpu, bool fresh,
                            uint64_t footprint_bytes)
{
    if (!fresh || !gpu->l2_bytes) return c->load_ps;
    const double l2 = (double)gpu->l2_bytes, left = c->l2_bytes ? (double)c->l2_bytes : l2;
    const double idle = fmin((double)footprint_bytes / l2, 1), now = fmin((double)footprint_bytes / left, 1);
    const double more_ps = gpu->load_ps > gpu->load_l2_ps ? (double)(gpu->load_ps - gpu->load_l2_ps) : 0;
    return (uint64_t)((now - idle) * more_ps + now * (double)c->load_ps);
}

uint64_t pressure_store_ps(const struct pressure *c, uint64_t size_bytes)
{
    return c ? (uint64_t)((double)c->store_ps * (double)size_bytes / SM_QUEUE_BYTES) : 0;
}
