/* sim.h - the discrete-event engine: a clock in integer picoseconds and a queue of events.
 *
 * Events are ordered by (time, sequence): those of the same instant run in the order in which they were
 * scheduled.  An event lives inside the struct that it belongs to and is found again with container_of; the
 * engine allocates nothing more until more are pending than sim_new() was told.  One thread.  Includes nothing
 * of ours but units.h. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

struct sim_event {
    void   (*run)(struct sim *sim, struct sim_event *event);
    uint64_t time_ps;       /* set by the engine */
    uint64_t sequence;      /* set by the engine; 0: not pending */
};

/* Makes an engine with room for event_count pending events; it grows when there are more, and ends the program with one
 * line where memory is out for that.  NULL when memory is out. */
struct sim *sim_new(uint32_t event_count);
void        sim_free(struct sim *sim);

/* Back to time 0 with no events; keeps the memory.  Events still pending become not pending, so they must
 * still be in place here (sim_free() touches no event). */
void        sim_reset(struct sim *sim);

uint64_t    sim_now_ps(const struct sim *sim);

/* Schedules event (not pending now) at time_ps >= now. The event must stay in place until it runs.
 * UINT64_MAX is no time: a sum that saturates or wraps is caught by an assertion. */
void        sim_schedule_at(struct sim *sim, struct sim_event *event, uint64_t time_ps);
static inline bool sim_event_pending(const struct sim_event *event) { return event->sequence != 0; }

/* Moves a pending event to time_ps >= now, behind those scheduled there before.  What it leaves behind counts as an
 * event more until that time has come or nothing is pending, and so long the event must stay in place even after it
 * ran; should it be back at that very time by then, it runs where it was before. */
void        sim_reschedule_at(struct sim *sim, struct sim_event *event, uint64_t time_ps);

/* Runs the next event; false when none is pending. */
bool        sim_step(struct sim *sim);
/* Runs until none is pending; returns how many ran. */
uint64_t    sim_run(struct sim *sim);
/* Runs until no more than *idle are pending, a number that events may change; those stay for later. */
void        sim_run_down(struct sim *sim, const uint32_t *idle);
uint64_t    sim_event_count(const struct sim *sim);     /* run since the start or sim_reset() */

#endif
