/* test_sim.c - the engine runs events by (time, order of scheduling), whatever the times.
 *
 * Method: events schedule one another by a seeded plan, in the engine and in a reference, a plain sorted array.  Every
 * event that runs must be the first one of the reference.  The plans have many cases that break queues: ties, skew over
 * forty powers of two, queues that grow from nothing and drain, the end of time.  Calls that must trip an assertion run
 * in a child process. */
#include "sim/rng.h"
#include "sim/sim.h"
#include "sim/units.h"
#include "tests/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENT_COUNT = 3000 };

enum { KIND_MEMBER, KIND_IGNORE, KIND_NOTE, KIND_ROW_MEMBER, KIND_DOWN, KIND_NOBODYS };
static sim_handler member_run, ignore_run, note_run, row_member_run, down_run;

static struct sim *engine_new(uint32_t event_count)
{
    static sim_handler *const handler[] = { member_run, ignore_run, note_run, row_member_run, down_run };
    struct sim *const sim = sim_new(event_count);
    for (uint32_t kind = 0; kind < KIND_NOBODYS; kind++) sim_handler_set(sim, kind, handler[kind]);
    return sim;
}

static const uint32_t none = 0; /* events that may stay pending */

/* Runs until event_count events have run or none is pending, and returns how many have run. */
static uint64_t engine_run(struct sim *sim, uint64_t event_count)
{
    const uint64_t before = sim_event_count(sim);
    (void)sim_run_down(sim, &none, event_count);
    return sim_event_count(sim) - before;
}

struct planned {
    uint64_t time_ps, order;
    int index;
};

struct member {
    struct sim_event event;
    struct world *world;
}; /* event is the first member, so that a cast from it gives the struct */

/* The reference, and the plan, which says how many events each event schedules and how far in the future. */
struct world {
    struct sim *sim;
    struct rng rng;
    uint64_t (*delay_ps)(struct rng *rng);
    struct member members[EVENT_COUNT];
    int idle[EVENT_COUNT], idle_count;   /* stack of members that are not pending */
    struct planned planned[EVENT_COUNT]; /* pending events, sorted; the last entry runs next */
    int planned_count;
    int planned_count_wanted; /* about how many events should be pending */
    uint64_t order, run_count, wrong_count, digest, now_ps;
};

static void world_plan(struct world *world, int index, uint64_t time_ps)
{
    const struct planned planned = { time_ps, world->order++, index };
    int place = world->planned_count++;
    while (place > 0 && world->planned[place - 1].time_ps <= time_ps) {
        world->planned[place] = world->planned[place - 1];
        place--;
    }
    world->planned[place] = planned;
}

static void world_schedule(struct world *world, uint64_t time_ps)
{
    const int index = world->idle[--world->idle_count];
    world_plan(world, index, time_ps);
    sim_schedule_at(world->sim, &world->members[index].event, time_ps);
}

/* Moves a random pending event, but only to a later time.  If it came back to an old time, it would run at its old
 * place. */
static void world_move(struct world *world, uint64_t time_ps)
{
    const int place = (int)rng_below(&world->rng, (uint64_t)world->planned_count);
    if (world->planned[place].time_ps >= time_ps) return;
    const int index = world->planned[place].index, later = --world->planned_count - place;
    memmove(&world->planned[place], &world->planned[place + 1], (size_t)later * sizeof world->planned[0]);
    world_plan(world, index, time_ps);
    sim_reschedule_at(world->sim, &world->members[index].event, time_ps);
}

static void world_breed(struct world *world)
{
    const uint64_t room = SIM_TIME_MAX_PS - sim_now_ps(world->sim);
    const int wanted = world->planned_count_wanted; /* 0: schedules no more events */
    uint64_t count = wanted == 0 ? 0 : rng_below(&world->rng, world->planned_count < wanted ? 4 : 2);
    while (count-- > 0 && world->idle_count > 0) {
        const uint64_t delay_ps = world->delay_ps(&world->rng);
        world_schedule(world, sim_now_ps(world->sim) + (delay_ps < room ? delay_ps : room));
    }
}

static void member_run(struct sim *sim, struct sim_event *event)
{
    struct world *const world = ((struct member *)event)->world;
    const struct planned planned = world->planned[--world->planned_count];
    world->run_count++;
    world->wrong_count += event != &world->members[planned.index].event || sim_now_ps(sim) != planned.time_ps ||
                          sim_now_ps(sim) < world->now_ps || sim_event_pending(event);
    world->now_ps = sim_now_ps(sim);
    world->digest = (world->digest ^ planned.order ^ planned.time_ps) * UINT64_C(0x100000001b3);
    world->idle[world->idle_count++] = planned.index;
    world_breed(world);
}

static void world_start(struct world *world, uint64_t seed, uint64_t (*delay_ps)(struct rng *rng), int wanted)
{
    sim_free(world->sim);
    memset(world, 0, sizeof *world);
    world->sim = engine_new(EVENT_COUNT);
    world->delay_ps = delay_ps;
    world->planned_count_wanted = wanted;
    rng_seed(&world->rng, seed);
    for (int i = 0; i < EVENT_COUNT; i++) {
        world->members[i] = (struct member){ { .kind = KIND_MEMBER }, world };
        world->idle[world->idle_count++] = i;
    }
    world_breed(world);
    world_schedule(world, 0);
}

/* Runs about run_count events, while the wanted number of pending events changes at random.  Then runs all that are
 * left. */
static void world_run(struct world *world, uint64_t run_count)
{
    const int wanted = world->planned_count_wanted;
    while (world->run_count < run_count) {
        world->planned_count_wanted = (int)rng_below(&world->rng, (uint64_t)wanted) + 1;
        for (uint64_t i = rng_below(&world->rng, 3 * (uint64_t)wanted); i > 0; i--)
            if (!engine_run(world->sim, 1)) world_schedule(world, sim_now_ps(world->sim));
    }
    world->planned_count_wanted = 0;
    engine_run(world->sim, UINT64_MAX);
}

static uint64_t delay_zero(struct rng *rng)
{
    (void)rng;
    return 0;
}
static uint64_t delay_constant(struct rng *rng)
{
    (void)rng;
    return 1000;
}
static uint64_t delay_ties(struct rng *rng) { return 64 * rng_below(rng, 3); }
static uint64_t delay_near(struct rng *rng) { return rng_below(rng, 100); }
static uint64_t delay_uniform(struct rng *rng) { return rng_below(rng, 2000000); }
static uint64_t delay_skewed(struct rng *rng) { return rng_next(rng) >> (24 + rng_below(rng, 40)); }
static uint64_t delay_end(struct rng *rng)
{
    return rng_below(rng, 4) ? rng_below(rng, 50) : rng_next(rng) >> rng_below(rng, 64);
}
static uint64_t delay_mixed(struct rng *rng)
{
    static uint64_t (*const delays[])(struct rng * rng) = { delay_zero, delay_constant, delay_ties,
                                                            delay_near, delay_uniform,  delay_skewed };
    return delays[rng_below(rng, sizeof delays / sizeof delays[0])](rng);
}

static uint64_t (*const plans[])(struct rng *rng) = { delay_zero,    delay_constant, delay_ties, delay_near,
                                                      delay_uniform, delay_skewed,   delay_end,  delay_mixed };
enum { PLAN_COUNT = sizeof plans / sizeof plans[0] };

static struct world *world_new(void) { return calloc(1, sizeof(struct world)); }

static void world_free(struct world *world)
{
    sim_free(world->sim);
    free(world);
}

TEST("order is that of the reference")
{
    static const int sizes[] = { 1, 3, 40, 70, 300, 2900 };
    struct world *const world = world_new();
    for (int plan = 0; plan < PLAN_COUNT; plan++)
        for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
            world_start(world, (uint64_t)plan * 100 + size, plans[plan], sizes[size]);
            world_run(world, 10000);
            CU_ASSERT_EQUAL(world->wrong_count, 0);
            CU_ASSERT_EQUAL(world->planned_count, 0);
            CU_ASSERT_EQUAL(sim_event_count(world->sim), world->run_count);
            CU_ASSERT(world->run_count >= 10000);
            CU_ASSERT_EQUAL(engine_run(world->sim, 1), 0);
        }
    world_free(world);
}

/* Runs the plan in windows of time.  Events from outside are scheduled and moved only when a window has ended, and only
 * to times at or after its end. */
static void windows_run(struct world *world, uint64_t run_count)
{
    const struct planned *const planned = world->planned;
    while (world->run_count < run_count) {
        const uint64_t from_ps = sim_next_ps(world->sim, &none), width_ps = 1 + rng_below(&world->rng, 3000);
        CU_ASSERT_EQUAL(from_ps == UINT64_MAX, world->planned_count == 0);
        if (world->planned_count) CU_ASSERT(from_ps <= planned[world->planned_count - 1].time_ps);
        const uint64_t end_ps = (world->planned_count ? from_ps : sim_now_ps(world->sim)) + width_ps;
        if (end_ps > SIM_TIME_MAX_PS / 2) break;
        sim_run_before(world->sim, end_ps, &none);
        CU_ASSERT(sim_now_ps(world->sim) < end_ps);
        if (world->planned_count) CU_ASSERT(planned[world->planned_count - 1].time_ps >= end_ps);
        for (uint64_t i = rng_below(&world->rng, 40); i > 0; i--) {
            const uint64_t time_ps = end_ps + world->delay_ps(&world->rng) % (SIM_TIME_MAX_PS / 4);
            if (world->planned_count > 9 && rng_below(&world->rng, 8) == 0) world_move(world, time_ps);
            else if (world->idle_count) world_schedule(world, time_ps);
        }
    }
    world->planned_count_wanted = 0;
    engine_run(world->sim, UINT64_MAX);
}

TEST("windows")
{
    struct world *const world = world_new();
    for (int plan = 1; plan < PLAN_COUNT; plan++) /* without delays no window would end */
        for (int wanted = 1; wanted < EVENT_COUNT; wanted *= 7) {
            world_start(world, (uint64_t)plan + 1000, plans[plan], wanted);
            windows_run(world, 10000);
            CU_ASSERT_EQUAL(world->wrong_count, 0);
            CU_ASSERT_EQUAL(world->planned_count, 0);
        }
    const uint32_t two = 2;
    world_start(world, 1, delay_constant, 0);
    world_schedule(world, 5);
    world_schedule(world, 7);
    sim_run_before(world->sim, 10, &two); /* leaves the last two of three events */
    CU_ASSERT_EQUAL(world->run_count, 1);
    CU_ASSERT_EQUAL(sim_next_ps(world->sim, &two), UINT64_MAX);
    world_free(world);
}

TEST("same seed, same run")
{
    struct world *const first = world_new(), *const second = world_new();
    for (uint64_t seed = 0; seed < 20; seed++) {
        world_start(first, seed, delay_mixed, 500);
        world_run(first, 3000);
        world_start(second, seed, delay_mixed, 500);
        world_run(second, 3000);
        CU_ASSERT_EQUAL(first->digest, second->digest);
        CU_ASSERT_EQUAL(first->now_ps, second->now_ps);
    }
    world_start(first, 1, delay_mixed, 500);
    world_start(second, 2, delay_mixed, 500);
    world_run(first, 3000);
    world_run(second, 3000);
    CU_ASSERT_NOT_EQUAL(first->digest, second->digest); /* otherwise the digest would prove nothing */
    world_free(first);
    world_free(second);
}

static void ignore_run(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    (void)event;
}

/* Schedules events with delays of every magnitude, so that they fill all levels of the queue.  The engine was made for
 * exactly as many events or, if `grows`, for one.  Then it must grow, even while it empties a slot.  ASan and valgrind
 * notice bad accesses. */
static void full_engine_run(bool grows)
{
    for (uint32_t count = 1; count <= 1500; count += count < 100 ? 1 : 97) {
        struct sim *const sim = engine_new(grows ? 1 : count);
        struct sim_event *const events = calloc(count, sizeof *events);
        struct rng rng = rng_seeded(count);
        uint64_t last_ps = 0;
        for (int round = 0; round < 3; round++) {
            for (uint32_t i = 0; i < count; i++) {
                const uint64_t delay_ps = (1 + rng_below(&rng, 63)) << 6 * rng_below(&rng, 9);
                events[i].kind = KIND_IGNORE;
                sim_schedule_at(sim, &events[i], sim_now_ps(sim) + delay_ps);
                last_ps = sim_event_time_ps(&events[i]) > last_ps ? sim_event_time_ps(&events[i]) : last_ps;
            }
            CU_ASSERT_EQUAL(engine_run(sim, UINT64_MAX), count);
            CU_ASSERT_EQUAL(sim_now_ps(sim), last_ps);
        }
        free(events);
        sim_free(sim);
    }
}

TEST("full engine") { full_engine_run(false); }

/* Many events share slots, so that chunks run out while slots are emptied. */
TEST("engine grows")
{
    enum { COUNT = 40000 };
    struct sim_event *const events = calloc(COUNT, sizeof *events);
    struct sim *const sim = engine_new(1);
    struct rng rng = rng_seeded(1);
    full_engine_run(true);
    for (uint32_t i = 0; i < COUNT; i++) {
        events[i].kind = KIND_IGNORE;
        sim_schedule_at(sim, &events[i], 1 + rng_below(&rng, 1u << 20));
    }
    for (uint64_t last_ps = 0, i = 0; i < COUNT; i++) {
        CU_ASSERT_FATAL(engine_run(sim, 1));
        CU_ASSERT_FATAL(sim_now_ps(sim) >= last_ps);
        last_ps = sim_now_ps(sim);
    }
    CU_ASSERT_EQUAL(engine_run(sim, 1), 0);
    free(events);
    sim_free(sim);
}

struct moved {
    struct sim_event event;
    uint64_t order;
};

static int moved_compare(const void *a, const void *b)
{
    const struct moved *const one = *(struct moved *const *)a, *const other = *(struct moved *const *)b;
    if (sim_event_time_ps(&one->event) != sim_event_time_ps(&other->event))
        return sim_event_time_ps(&one->event) < sim_event_time_ps(&other->event) ? -1 : 1;
    return one->order < other->order ? -1 : 1;
}

static struct sim_event *ran[2000];
static uint32_t ran_count;
static void note_run(struct sim *sim, struct sim_event *event)
{
    (void)sim;
    ran[ran_count++] = event;
}

/* Half of the events are moved to earlier times.  Half of these are moved back to later ones, onto times of other
 * events, with many ties.  Each event must run once, at its last time.  After the last one has run, the queue must be
 * empty. */
TEST("moved events")
{
    for (uint32_t count = 1; count <= 2000; count += count < 100 ? 9 : 431) {
        struct sim *const sim = engine_new(3 * count);
        struct moved *const moved = calloc(count, sizeof *moved), **const order = calloc(count, sizeof *order);
        struct rng rng = rng_seeded(count);
        uint64_t place = 0;
        for (uint32_t i = 0; i < count; i++) {
            order[i] = &moved[i];
            moved[i] = (struct moved){ { .kind = KIND_NOTE }, place++ };
            sim_schedule_at(sim, &moved[i].event, i % 2 ? 5000 + rng_below(&rng, 300) : rng_next(&rng) >> 20);
        }
        for (uint32_t i = 0; i < count; i += 2) {
            moved[i].order = place++;
            sim_reschedule_at(sim, &moved[i].event, 1000 + rng_below(&rng, 300));
        }
        for (uint32_t i = 0; i + 1 < count; i += 4) {
            moved[i].order = place++;
            sim_reschedule_at(sim, &moved[i].event, sim_event_time_ps(&moved[i + 1].event));
        }
        qsort(order, count, sizeof *order, moved_compare);
        const uint64_t last_ps = sim_event_time_ps(&order[count - 1]->event);
        uint32_t wrong = 0;
        ran_count = 0;
        CU_ASSERT_EQUAL(engine_run(sim, UINT64_MAX), count);
        CU_ASSERT_EQUAL(sim_now_ps(sim), last_ps);
        CU_ASSERT_EQUAL_FATAL(ran_count, count);
        for (uint32_t i = 0; i < count; i++) wrong += ran[i] != &order[i]->event;
        CU_ASSERT_EQUAL(wrong, 0);
        free(moved);
        free(order);
        CU_ASSERT_EQUAL(engine_run(sim, 1), 0);
        sim_free(sim);
    }
}

/* ---- rows ---- */

enum { ROW_MEMBERS = 640, ROW_EVENTS = 16, ROWS = ROW_MEMBERS / ROW_EVENTS, ROW_RUNS_MAX = 20 * ROW_MEMBERS };

/* A plan that can run with rows, or with the events of the rows scheduled one by one. */
struct row_plan {
    struct sim_event members[ROW_MEMBERS];
    struct sim_row rows[ROWS];
    struct rng rng;
    bool by_row;
    uint32_t ran[ROW_RUNS_MAX], ran_count, done_count;
};

static void row_done(struct sim *sim, struct sim_row *row)
{
    struct row_plan *const plan = sim_owner(sim);
    plan->done_count += row >= plan->rows && row < plan->rows + ROWS;
}

/* The event that runs moves another event to an earlier time, but not before now.  If the other event is not pending,
 * it is scheduled again. */
static void row_member_run(struct sim *sim, struct sim_event *event)
{
    struct row_plan *const plan = sim_owner(sim);
    struct sim_event *const other = &plan->members[rng_below(&plan->rng, ROW_MEMBERS)];
    const uint64_t time_ps = sim_now_ps(sim) + rng_below(&plan->rng, 40) * rng_below(&plan->rng, 40);
    plan->ran[plan->ran_count++] = (uint32_t)(event - plan->members);
    if (plan->ran_count + ROW_MEMBERS > ROW_RUNS_MAX) return;
    if (!sim_event_pending(other)) sim_schedule_at(sim, other, time_ps);
    else if (sim_event_time_ps(other) > time_ps) sim_reschedule_at(sim, other, time_ps);
}

static void row_plan_schedule(struct sim *sim, struct row_plan *plan)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint64_t time_ps = 100 + 50 * (r / 4); /* four rows at each time */
        struct sim_event *const last = &plan->members[r * ROW_EVENTS + ROW_EVENTS - 1];
        plan->rows[r] = (struct sim_row){
            .first = last, .stride_bytes = -(int32_t)sizeof *last, .count = ROW_EVENTS, .done = row_done
        };
        if (plan->by_row) sim_schedule_row(sim, &plan->rows[r], time_ps);
        for (uint32_t i = 0; !plan->by_row && i < ROW_EVENTS; i++) sim_schedule_at(sim, last - i, time_ps);
    }
}

static uint64_t row_plan_run(struct row_plan *plan, bool by_row, uint64_t seed)
{
    struct sim *const sim = engine_new(16);
    *plan = (struct row_plan){ .by_row = by_row };
    for (uint32_t i = 0; i < ROW_MEMBERS; i++) plan->members[i].kind = KIND_ROW_MEMBER;
    sim_owner_set(sim, plan);
    rng_seed(&plan->rng, seed);
    row_plan_schedule(sim, plan);
    for (uint32_t i = 0; i < 5; i++) sim_reschedule_at(sim, &plan->members[rng_below(&plan->rng, ROW_MEMBERS)], i);
    engine_run(sim, UINT64_MAX);
    const uint64_t end_ps = sim_now_ps(sim), count = sim_event_count(sim);
    CU_ASSERT_EQUAL(count, plan->ran_count);
    sim_free(sim);
    return end_ps;
}

/* Events of a row run at the same times and in the same order as if they had been scheduled one by one. */
TEST("rows")
{
    static struct row_plan by_row, by_event;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const uint64_t row_end_ps = row_plan_run(&by_row, true, seed), end_ps = row_plan_run(&by_event, false, seed);
        CU_ASSERT_EQUAL(row_end_ps, end_ps);
        CU_ASSERT_EQUAL(by_row.ran_count, by_event.ran_count);
        CU_ASSERT(by_row.ran_count > 2 * ROW_MEMBERS);
        CU_ASSERT_EQUAL(memcmp(by_row.ran, by_event.ran, sizeof by_row.ran), 0);
        CU_ASSERT_EQUAL(by_row.done_count, ROWS);
        CU_ASSERT_EQUAL(by_event.done_count, 0);
    }
}

TEST("end of time")
{
    static const uint64_t times_ps[] = { SIM_TIME_MAX_PS,         SIM_TIME_MAX_PS - 1,
                                         SIM_TIME_MAX_PS - 63,    SIM_TIME_MAX_PS - 64,
                                         SIM_TIME_MAX_PS,         UINT64_C(1) << 59,
                                         (UINT64_C(1) << 59) - 1, 0,
                                         UINT64_C(15) << 56,      (UINT64_C(15) << 56) - 1 };
    enum { COUNT = sizeof times_ps / sizeof times_ps[0] };
    struct sim_event events[COUNT * 10];
    struct sim *const sim = engine_new(COUNT * 10);
    uint64_t before_ps = 0;
    for (int i = 0; i < COUNT * 10; i++) { /* so many that they fill slots as well as the sorted front */
        events[i] = (struct sim_event){ .kind = KIND_IGNORE };
        sim_schedule_at(sim, &events[i], times_ps[i % COUNT]);
    }
    for (int i = 0; i < COUNT * 10; i++) {
        CU_ASSERT(engine_run(sim, 1));
        CU_ASSERT(sim_now_ps(sim) >= before_ps);
        before_ps = sim_now_ps(sim);
    }
    CU_ASSERT_EQUAL(before_ps, SIM_TIME_MAX_PS);
    sim_schedule_at(sim, &events[0], SIM_TIME_MAX_PS);
    CU_ASSERT_EQUAL(engine_run(sim, UINT64_MAX), 1);
    sim_free(sim);
}

static uint32_t down_idle;

static void down_run(struct sim *sim, struct sim_event *event)
{
    (void)event;
    down_idle = sim_now_ps(sim) >= 30 ? 5 : 0;
}

/* Events decide how many events may stay pending.  The events left pending must run later, at their times and in their
 * order. */
TEST("run down")
{
    struct sim *const sim = engine_new(10);
    struct sim_event events[10];
    for (uint64_t i = 0; i < 10; i++) {
        events[i] = (struct sim_event){ .kind = KIND_DOWN };
        sim_schedule_at(sim, &events[i], 10 * i);
    }
    down_idle = 0;
    CU_ASSERT(sim_run_down(sim, &down_idle, 3)); /* true, because more events are pending */
    CU_ASSERT_EQUAL(sim_event_count(sim), 3);
    CU_ASSERT(!sim_run_down(sim, &down_idle, UINT64_MAX));
    CU_ASSERT_EQUAL(sim_now_ps(sim), 40); /* at 30 ps six events were left, which is one more than may stay */
    CU_ASSERT_EQUAL(sim_event_count(sim), 5);
    CU_ASSERT_EQUAL(engine_run(sim, UINT64_MAX), 5);
    CU_ASSERT_EQUAL(sim_now_ps(sim), 90);
    sim_free(sim);
}

/* ---- what must assert ---- */

static struct sim_event two_events[2];
static struct sim *volatile doomed; /* not a local variable, so that no leak is reported when a child aborts */
static uint64_t result;

static void fail_in_the_past(struct sim *sim)
{
    sim_schedule_at(sim, &two_events[0], 10);
    engine_run(sim, 1);
    sim_schedule_at(sim, &two_events[0], 9);
}

static void fail_after_the_end(struct sim *sim) { sim_schedule_at(sim, &two_events[0], SIM_TIME_MAX_PS + 1); }
static void fail_without_handler(struct sim *sim)
{
    two_events[0].kind = KIND_NOBODYS;
    sim_schedule_at(sim, &two_events[0], 1);
}

static void fail_by_wrapping(struct sim *sim)
{
    sim_schedule_at(sim, &two_events[0], SIM_TIME_MAX_PS - 5);
    engine_run(sim, 1);
    sim_schedule_at(sim, &two_events[0], sim_now_ps(sim) + 10);
}

static void fail_pending_twice(struct sim *sim)
{
    sim_schedule_at(sim, &two_events[0], 1);
    sim_schedule_at(sim, &two_events[0], 2);
}

static void fail_moving_none(struct sim *sim) { sim_reschedule_at(sim, &two_events[0], 1); }

static void fail_without_rate(struct sim *sim) { result = units_transfer_ps(1, sim_now_ps(sim)); }

static void fail_beyond_the_clock(struct sim *sim)
{
    result = units_transfer_ps(UINT64_C(1) << 50, 1 + sim_now_ps(sim));
}

static void fail_with_empty_range(struct sim *sim)
{
    struct rng rng = rng_seeded(1);
    result = rng_below(&rng, sim_now_ps(sim));
}

static bool aborts(void (*fail)(struct sim *sim), uint32_t event_count_max)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL); /* libraries of the fabrics catch it when they are loaded */
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        two_events[0].kind = two_events[1].kind = KIND_IGNORE;
        doomed = engine_new(event_count_max);
        fail(doomed);
        _exit(result != 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST("programmer errors assert")
{
    CU_ASSERT(aborts(fail_in_the_past, 2));
    CU_ASSERT(aborts(fail_after_the_end, 2));
    CU_ASSERT(aborts(fail_without_handler, 2));
    CU_ASSERT(aborts(fail_by_wrapping, 2));
    CU_ASSERT(aborts(fail_pending_twice, 2));
    CU_ASSERT(aborts(fail_moving_none, 2));
    CU_ASSERT(aborts(fail_without_rate, 1));
    CU_ASSERT(aborts(fail_beyond_the_clock, 1));
    CU_ASSERT(aborts(fail_with_empty_range, 1));
}
