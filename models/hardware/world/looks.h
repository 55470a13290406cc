/* looks.h - words in the host's memory that a GPU's warps read.  Private to models/hardware.
 *
 * Reads of the same 64 B there are served one after another, each for `host-look`.  A warp that polls such a word
 * reads it again as soon as its last read is back, so it always stands in the line of those 64 B, and a read in a line
 * of N warps takes N turns.  A worker stands in line from a look that polls until a
 * step of it does anything else.  A step that waits instead goes on polling: a word that changes finds the worker's
 * next read in the middle of the line, on average. */
#ifndef MODELS_HARDWARE_LOOKS_H
#define MODELS_HARDWARE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "models/fabric.h"

/* The reads of a rank that has made any; else NULL. */
struct looks;

/* One of the rank's so many workers reads words (FABRIC_WORK_LOOK) from start_ps on.  Returns when it has read all. */
uint64_t looks_take(struct looks **of_rank, uint32_t workers, const struct cluster_node *node,
                    const struct fabric_worker *worker, const struct fabric_work *work, uint64_t start_ps);
/* A worker that waits in a line has stepped.  The first operation of its step could begin at begin_ps, the last one
 * ended at end_ps.  Whether the worker is still in the line. */
bool looks_goes_on(struct looks *looks, uint32_t worker, bool waits, uint64_t begin_ps, uint64_t end_ps);
/* How long after the change of a word a worker in a line sees it. */
uint64_t looks_seen_ps(const struct looks *looks, const struct cluster_node *node, uint32_t worker);
void looks_free(struct looks *looks);

#endif
