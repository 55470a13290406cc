/* looks.h - words in the host's memory that a GPU's warps read.  Private to models/hardware.
 *
 * Reads of one 64-byte line of that memory are served one after another, each for `host-look`.  A warp that polls such
 * a word reads it again as soon as its last read is back, so it always stands in the queue of that line.  A read in a
 * queue of N warps takes N times `host-look`.  A worker joins the queue with a read that polls, and leaves it when one
 * of its steps does anything else.  A step that waits goes on polling.  When the word changes, the worker's next read
 * is on average in the middle of the queue. */
#ifndef MODELS_HARDWARE_LOOKS_H
#define MODELS_HARDWARE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include "models/cluster.h"
#include "models/fabric.h"
#include "models/kernels/loops.h"

/* The reads of a rank; NULL if it has made none. */
struct looks;

/* One of the rank's `workers` workers reads words (a scan with the word `host`) from start_ps on.  Returns when it has
 * read all. */
uint64_t looks_take(struct looks **of_rank, uint32_t workers, const struct cluster_node *node,
                    const struct fabric_worker *worker, const struct fabric_work *work, const struct loop *p,
                    uint64_t start_ps);
/* A worker that waits in a queue has stepped.  The first operation of its step could begin at begin_ps, and the last
 * one ended at end_ps.  Returns whether the worker is still in the queue. */
bool looks_goes_on(struct looks *looks, uint32_t worker, enum worker_step step, uint64_t begin_ps, uint64_t end_ps);
/* How long after the change of a word a worker in the queue sees it. */
uint64_t looks_seen_ps(const struct looks *looks, const struct cluster_node *node, uint32_t worker);
void looks_free(struct looks *looks);

#endif
