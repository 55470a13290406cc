/* sim.c - the clock and the event queue behind sim.h.
 *
 * The queue is a binary heap of (time, sequence, event) records, so that ordering never touches the memory of
 * the events themselves.  Does not know what an event does. */
#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>

struct entry {
    uint64_t          time_ps;
    uint64_t          sequence;
    struct sim_event *event;
};

struct sim {
    uint64_t     now_ps;
    uint64_t     sequence;      /* of the event scheduled last; the first gets 1 */
    uint64_t     event_count;   /* run */
    uint32_t     pending_count;
    uint32_t     pending_count_max;
    struct entry heap[];
};

static bool entry_before(const struct entry *a, const struct entry *b)
{
    return a->time_ps != b->time_ps ? a->time_ps < b->time_ps : a->sequence < b->sequence;
}

struct sim *sim_new(uint32_t event_count_max)
{
    struct sim *const sim = calloc(1, sizeof *sim + (size_t)event_count_max * sizeof sim->heap[0]);

    if (sim)
        sim->pending_count_max = event_count_max;
    return sim;
}

void sim_free(struct sim *sim)
{
    free(sim);
}

void sim_reset(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->pending_count; i++)
        sim->heap[i].event->sequence = 0;
    sim->now_ps = sim->sequence = sim->event_count = 0;
    sim->pending_count = 0;
}

uint64_t sim_now_ps(const struct sim *sim)
{
    return sim->now_ps;
}

uint64_t sim_event_count(const struct sim *sim)
{
    return sim->event_count;
}

void sim_schedule_at(struct sim *sim, struct sim_event *event, uint64_t time_ps)
{
    assert(time_ps >= sim->now_ps);
    assert(!sim_event_pending(event));
    assert(sim->pending_count < sim->pending_count_max);
    const struct entry entry = { time_ps, ++sim->sequence, event };
    uint32_t hole = sim->pending_count++;

    event->time_ps = time_ps;
    event->sequence = entry.sequence;
    while (hole > 0 && entry_before(&entry, &sim->heap[(hole - 1) / 2])) {
        sim->heap[hole] = sim->heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    sim->heap[hole] = entry;
}

static struct sim_event *heap_pop(struct sim *sim)
{
    struct entry *const heap = sim->heap;
    struct sim_event *const first = heap[0].event;
    const uint32_t count = --sim->pending_count;
    const struct entry last = heap[count];
    uint32_t hole = 0;

    for (uint32_t child = 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && entry_before(&heap[child + 1], &heap[child]))
            child++;
        if (!entry_before(&heap[child], &last))
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = last;
    return first;
}

bool sim_step(struct sim *sim)
{
    if (sim->pending_count == 0)
        return false;
    struct sim_event *const event = heap_pop(sim);

    sim->now_ps = event->time_ps;
    sim->event_count++;
    event->sequence = 0;
    event->run(sim, event);
    return true;
}

uint64_t sim_run(struct sim *sim)
{
    const uint64_t event_count = sim->event_count;

    while (sim_step(sim))
        ;
    return sim->event_count - event_count;
}
