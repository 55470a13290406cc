/* looks.h - words in the host's memory that a GPU's warps read.  Private to models/hardware.
 *
 * Reads of the same 64 B there are served one after another, each for `host-look-turn`.  A warp that polls such a word
 * reads it again as soon as its last read is back, so it always stands in the line of those 64 B, and a read in a line
 * of N warps takes N turns, or `host-look` if that is longer.  A worker stands in line from a look that polls until a
 * step of it does anything else.  A step that waits instead goes on polling: a word that changes finds the worker's
 * next read in the middle of the line, on average. */
#ifndef MODELS_HARDWARE_LOOKS_H
#define MODELS_HARDWARE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"

struct world_rank;
struct world_worker;

/* The reads of a rank that has made any. */
struct looks;

/* The stepped worker reads words (FABRIC_WORK_LOOK) from start_ps on.  Returns when it has read all. */
uint64_t looks_take(struct world_worker *ww, const struct fabric_work *work, uint64_t start_ps);
/* A worker that waits in a line has stepped; the first operation of its step could begin at begin_ps. */
void looks_step_end(struct world_worker *ww, bool waits, uint64_t begin_ps);
/* How long after the change of a word a worker in a line sees it. */
uint64_t looks_seen_ps(struct world_worker *ww);
/* looks may be NULL */
void looks_free(struct looks *looks);

#endif
