/* turns.c - runs compute kernels beside a communication kernel on one device, see turns.h. */
#include "models/predict/turns.h"

#include <assert.h>
#include <glib.h>
#include <math.h>
#include "sim/units.h"

/* Kernels run this many times in turn.  The first turns are left out of the mean: all kernels begin together in them.
 */
enum { ROUNDS = 40, FIRST_ROUND = 4, COMMS_MAX = 100000 };

struct bench {
    const struct turns *turns;
    struct schedule schedule;
    struct step_cost comm;
    struct device *device;
    uint64_t now_ps, timer_ps, comm_end_ps; /* UINT64_MAX: none */
};

static const struct step_cost *cost(void *context, uint32_t rank, uint32_t kernel)
{
    const struct bench *b = context;
    const struct schedule_kernel *k = schedule_kernel(&b->schedule, kernel);
    (void)rank;
    return k->op == STEP_COMM ? &b->comm : &b->turns->cost[k->phase];
}

static uint64_t now_ps(void *context, uint32_t rank)
{
    (void)rank;
    return ((const struct bench *)context)->now_ps;
}

static void timer_set(void *context, uint32_t rank, uint64_t time_ps)
{
    (void)rank;
    ((struct bench *)context)->timer_ps = time_ps;
}

static void comm_begin(void *context, uint32_t rank, uint32_t kernel)
{
    struct bench *b = context;
    (void)rank;
    (void)kernel;
    b->comm_end_ps = b->now_ps + (uint64_t)llround(b->turns->comm_us * (double)PS_PER_US);
}

static double clock_at(const struct turns *t, double tensor) { return 1 - fmin(tensor, 1) * (1 - t->tensor_clock); }

static void contend(void *context, uint32_t rank, struct device_running *running, uint32_t count)
{
    const struct bench *b = context;
    const struct turns *t = b->turns;
    double tensor = 0, rate = 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct step_cost *k = cost(context, rank, running[i].kernel);
        tensor += running[i].sms_share * k->tensor;
        if (k == &b->comm) rate = fmax(t->rate, 1e-3);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct step_cost *k = cost(context, rank, running[i].kernel);
        const double faster = clock_at(t, tensor) / clock_at(t, k->tensor);
        running[i].slow = k->clock_share / faster + (1 - k->clock_share) / rate;
    }
}

static void kernel_add(struct bench *b, uint8_t stream, uint8_t op, uint32_t phase)
{
    const struct schedule_kernel k = { .stream = stream, .op = op, .phase = (uint8_t)phase };
    g_array_append_val(b->schedule.kernels, k);
}

/* Runs until the last compute kernel has ended. */
static void bench_run(struct bench *b, uint32_t last)
{
    device_start(b->device);
    while (!device_times(b->device, 0, last)->end_ps) {
        const bool ends = b->comm_end_ps <= b->timer_ps;
        b->now_ps = MIN(b->comm_end_ps, b->timer_ps);
        assert(b->now_ps != UINT64_MAX);
        *(ends ? &b->comm_end_ps : &b->timer_ps) = UINT64_MAX;
        (ends ? device_ended : device_timer)(b->device, 0);
    }
}

void turns_run(const struct turns *t, double *us)
{
    struct bench b = { .turns = t, .timer_ps = UINT64_MAX, .comm_end_ps = UINT64_MAX };
    double turn_us = 0;
    for (uint32_t i = 0; i < t->count; i++) turn_us += t->cost[i].us;
    assert(t->count && t->comm_us > 0);
    const double comms = ceil(3 * ROUNDS * turn_us / (t->comm_us + t->gap_us)); /* more than run meanwhile */
    b.comm = (struct step_cost){ .us = t->comm_us, .occupancy = OCCUPANCY_MEETING, .sms = t->comm_sms };
    b.schedule.kernels = g_array_new(FALSE, TRUE, sizeof(struct schedule_kernel));
    for (uint32_t i = 0; i < ROUNDS * t->count; i++) kernel_add(&b, STREAM_MAIN, STEP_UP, i % t->count);
    for (uint32_t i = 0; i < fmin(comms, COMMS_MAX); i++) kernel_add(&b, STREAM_COMM, STEP_COMM, 0);
    b.device = device_new(&(struct device_options){ .schedule = &b.schedule,
                                                    .ranks = 1,
                                                    .sms = t->sms,
                                                    .cost = cost,
                                                    .now_ps = now_ps,
                                                    .timer_set = timer_set,
                                                    .begin = comm_begin,
                                                    .contend = contend,
                                                    .context = &b,
                                                    .gap_ps = (uint64_t)(t->gap_us * (double)PS_PER_US) });
    bench_run(&b, ROUNDS * t->count - 1);
    for (uint32_t i = 0; i < t->count; i++) us[i] = 0;
    for (uint32_t i = FIRST_ROUND * t->count; i < ROUNDS * t->count; i++) {
        const struct device_times *k = device_times(b.device, 0, i);
        us[i % t->count] += units_us(k->end_ps - k->begin_ps) / (ROUNDS - FIRST_ROUND);
    }
    device_free(b.device);
    g_array_free(b.schedule.kernels, TRUE);
}
