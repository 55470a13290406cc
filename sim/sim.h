/* sim.h - the discrete-event engine: a clock in integer picoseconds and a queue of events.
 *
 * Events are ordered by (time, sequence): events of one instant run in the order in which they were scheduled.  An
 * event lives inside its owner's struct, and its handler finds that struct with container_of.  The engine allocates
 * memory only when more events are pending than sim_new() made room for.  One thread at a time may use an engine.
 * This header includes no other of this repository but units.h and memory.h, which says what happens when memory runs
 * out. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

/* The first members of an engine.  The inline functions below read them. */
struct sim_clock {
    uint64_t now_ps;
    uint64_t event_count; /* events that have run */
    uint64_t entry_count; /* entries that came into the queue */
};
static inline const struct sim_clock *sim_clock(const struct sim *sim) { return (const void *)sim; }

/* An event.  It is small, because owners have millions of events, of few kinds. */
struct sim_event {
    uint64_t due_ps : 60; /* set by the engine: its time + 1; 0: not pending */
    uint64_t kind : 4;    /* below SIM_KINDS: selects its handler */
};
_Static_assert(sizeof(struct sim_event) == 8, "large worlds have millions");

enum { SIM_KINDS = 15 };
/* The latest time: about thirteen days. */
#define SIM_TIME_MAX_PS ((UINT64_C(1) << 60) - 2)

/* Makes an engine with room for event_count pending events.  It grows when more are pending. */
struct sim *sim_new(uint32_t event_count);
/* Frees the engine.  Does not touch any event, not even one that is pending. */
void sim_free(struct sim *sim);

/* Sets the handler of a kind of events, before any of them is scheduled. */
typedef void sim_handler(struct sim *sim, struct sim_event *event);
void sim_handler_set(struct sim *sim, uint32_t kind, sim_handler *handler);

/* Makes the engine call far() and later near() for most events, a few places before they run. far() can prefetch the
 * memory that an event will read, and near() the memory to which that memory points.  They must change nothing. */
typedef void sim_look(const struct sim *sim, const struct sim_event *event);
void sim_look_ahead(struct sim *sim, sim_look *far, sim_look *near);

/* The context of all events: any pointer.  It is NULL at first. */
void sim_owner_set(struct sim *sim, void *owner);
void *sim_owner(const struct sim *sim);

static inline uint64_t sim_now_ps(const struct sim *sim) { return sim_clock(sim)->now_ps; }

/* Schedules an event that is not pending, at time_ps >= now.  The event must stay in place until it runs.
 * No time is later than SIM_TIME_MAX_PS: an assertion catches sums that saturated or wrapped. */
void sim_schedule_at(struct sim *sim, struct sim_event *event, uint64_t time_ps);
static inline bool sim_event_pending(const struct sim_event *event) { return event->due_ps != 0; }
/* The time of a pending event. */
static inline uint64_t sim_event_time_ps(const struct sim_event *event) { return event->due_ps - 1; }

/* Moves a pending event to time_ps >= now, behind the events already scheduled there.  The old queue entry stays, and
 * takes up room in the queue, until its time passes.  Do not free the event before then, even if it has run.  If the
 * event is moved back to the old time before that time comes, it runs at its old place in the order. */
void sim_reschedule_at(struct sim *sim, struct sim_event *event, uint64_t time_ps);

/* Events in an array that are due at one time.  One entry of the queue stands for all of them. */
struct sim_row {
    struct sim_event event; /* used by the engine alone */
    struct sim_event *first;
    int32_t stride_bytes; /* the distance from one event to the next */
    uint32_t count;
    void (*done)(struct sim *sim, struct sim_row *row); /* called after the last event; may free the row */
};
/* Schedules the row's events, of which none is pending, one after another.  Each of them may then be moved like any
 * other event.  The row must stay in place until done().  If its events have all been moved, done() may never be
 * called. */
void sim_schedule_row(struct sim *sim, struct sim_row *row, uint64_t time_ps);

/* Runs until at most *idle events are pending, or event_count have run (UINT64_MAX: no limit).  A row that has begun
 * runs to its end.  Returns true if more are pending.  Events may change *idle.  Events that are left stay pending. */
bool sim_run_down(struct sim *sim, const uint32_t *idle, uint64_t event_count);
/* Runs the events that are due before end_ps, until at most *idle are pending.  Afterwards events may be scheduled from
 * end_ps on. */
void sim_run_before(struct sim *sim, uint64_t end_ps, const uint32_t *idle);
/* A time before which no event is due.  Perhaps none is due at that time either, because its event may have moved.
 * UINT64_MAX: at most *idle are pending. */
uint64_t sim_next_ps(const struct sim *sim, const uint32_t *idle);
/* How often an event was scheduled or moved since sim_new().  If two calls return the same, nothing was scheduled or
 * moved between them. */
static inline uint64_t sim_scheduled(const struct sim *sim) { return sim_clock(sim)->entry_count; }
/* Events run since sim_new(). */
static inline uint64_t sim_event_count(const struct sim *sim) { return sim_clock(sim)->event_count; }

#endif
