/* replay_timeline.h - a timeline of one iteration of a replay, in the form of `simulate --timeline`.  On every rank,
 * a fabric that wraps the live fabric reads the clock before and after each operation.  Then rank 0 merges the
 * entries of all ranks.
 *
 * Each rank is a process of the timeline.  Its tracks are the kernel, each worker's operations, and each worker's
 * waits.  Of a put, the timeline shows only the call that posts it, because this fabric does not see what the
 * network does. */
#ifndef REPLAY_REPLAY_TIMELINE_H
#define REPLAY_REPLAY_TIMELINE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"
#include "models/waits.h"
#include "replay/bootstrap/bootstrap.h"
#include "sim/timeline.h"

struct replay_timeline;

/* Makes a timeline around the fabric `inner`, which must outlive it.  The timeline keeps the last entries_max
 * entries, for which it takes memory at once. */
struct replay_timeline *replay_timeline_new(struct fabric *inner, uint32_t entries_max);
void replay_timeline_free(struct replay_timeline *t);

/* The fabric on which kernels must run, so that their operations are recorded. */
struct fabric *replay_timeline_fabric(struct replay_timeline *t);

/* Switches recording on or off.  It is off at first. */
void replay_timeline_on(struct replay_timeline *t, bool on);
bool replay_timeline_is_on(const struct replay_timeline *t); /* t may be NULL */

/* Records a kernel that has ended. */
void replay_timeline_phase(struct replay_timeline *t, const char *phase, uint64_t begin_ps, uint64_t end_ps);
/* Records a wait.  It is a callback of struct waits_options, and context is the timeline. */
void replay_timeline_wait(void *context, const struct waits_note *note);

/* Collective.  Adds the entries of all ranks to rank 0's `all`, unless it is NULL.  Other ranks ignore `all`.  Times
 * are by one clock, which is 0 at the first entry.  one_clock says that all ranks read the same clock.  If it is false,
 * exchanges compare each rank's clock with rank 0's, and the name of the rank's process states the bounds of the
 * error.  False and *error as in bootstrap_allgather(). */
bool replay_timeline_gather(struct replay_timeline *t, struct bootstrap *b, bool one_clock, struct timeline *all,
                            GError **error);

#endif
