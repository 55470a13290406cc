/* support_loop.h - a group of fabrics in one process, as adversarial as the contract of models/fabric.h allows.
 *
 * Workers are stepped in a seeded random order.  A waiting worker is stepped only when a word that it watches has
 * changed, or when an operation of its last step found no room.  With `spurious`, a waiting worker is also stepped now
 * and then without a reason.  Each step moves time by a picosecond.  When nothing else can happen, time moves to the
 * next time at which a worker wants to be woken.  Data and signals arrive late, and out of order wherever the contract
 * promises no order.  A put reads its source only when it arrives.  If the source has changed by then, that is a
 * breach.  Some operations are refused with -EAGAIN.  Breaches of the contract are counted and printed: a word with two
 * writers or lowered, a put from foreign memory, a store to a peer without NVLink, and others. */
#ifndef TESTS_SUPPORT_LOOP_H
#define TESTS_SUPPORT_LOOP_H

#include "models/moe/moe.h"

struct loop_options {
    uint16_t ranks, ranks_per_node;
    struct fabric_needs needs;
    bool payload, nvlink_disabled;
    uint64_t seed;
    uint32_t refuse_percent;  /* percent of the operations that are answered with -EAGAIN */
    uint32_t deliver_percent; /* with this probability, in percent, an operation is delivered before a worker is
                               * stepped; at least 1 */
    bool spurious;            /* now and then steps a worker that was not woken */
    bool deaf;                /* a breach of the contract: time wakes no worker */
};

/* What the workers asked for.  `trace` is a hash over all operations in order, without the payload. */
struct loop_counts {
    uint64_t steps, stores, puts, gets, signals, adds, works, refusals;
    uint64_t store_bytes, put_bytes, get_bytes, work_read_bytes, work_write_bytes, work_rows;
    uint64_t trace;
    uint64_t breaches;
};

struct loop;

struct loop *loop_new(const struct loop_options *options);
void loop_free(struct loop *loop);
struct fabric *loop_fabric(struct loop *loop, uint32_t rank);
const struct loop_counts *loop_counts(const struct loop *loop);

/* Returns the next kernel of a rank, or NULL when the rank has no more. */
typedef struct kernel_launch *loop_next(void *context, uint32_t rank);

/* Steps all ranks to the end.  Each rank begins its next kernel as soon as it can.  Returns false if nothing can move.
 * Then it prints the description of every waiting worker on standard error, unless quiet. */
bool loop_run(struct loop *loop, loop_next *next, void *context, bool quiet);
/* The descriptions of the workers that waited at the end of the last run, a line each.  Empty if the run ended well. */
const char *loop_hang(const struct loop *loop);

#endif
