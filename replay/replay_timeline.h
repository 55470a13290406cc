/* replay_timeline.h - a timeline of one iteration of a replay, in the form of `simulate --timeline`.  On every rank, a
 * fabric around the live fabric reads the clock before and after each operation.  Then the entries of all ranks are
 * merged.
 *
 * A rank is a process of the timeline.  Its tracks are the kernel, each worker's operations, and each worker's waits.
 * Of a put, the timeline shows only the call that posts it, because this fabric does not see what the network does. */
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

/* Makes a timeline around the fabric inner, which must outlive it.  It keeps the last entries_max entries, and takes
 * memory for all of them now. */
struct replay_timeline *replay_timeline_new(struct fabric *inner, uint32_t entries_max);
void replay_timeline_free(struct replay_timeline *t);

/* The fabric that kernels must run on, so that their operations are recorded. */
struct fabric *replay_timeline_fabric(struct replay_timeline *t);

/* Switches recording on or off.  It is off at first. */
void replay_timeline_on(struct replay_timeline *t, bool on);
bool replay_timeline_is_on(const struct replay_timeline *t); /* t may be NULL */

/* Records a kernel that has ended. */
void replay_timeline_phase(struct replay_timeline *t, const char *phase, uint64_t begin_ps, uint64_t end_ps);
/* Records a wait, as a callback of struct waits_options; context is the timeline. */
void replay_timeline_wait(void *context, const struct waits_note *note);

/* Adds the entries of all ranks to rank 0's `all`, if it is not NULL, by one clock that is 0 at the first entry.
 * Collective; other ranks ignore `all`.  one_clock says that all ranks read the same clock.  Otherwise an exchange
 * compares each rank's clock with rank 0's, and the name of the rank's process states the bounds of the error.  False
 * and *error as in bootstrap_allgather(). */
bool replay_timeline_gather(struct replay_timeline *t, struct bootstrap *b, bool one_clock, struct timeline *all,
                            GError **error);

#endif
