/* live_internal.h - private to live*.c: the state of a live world.
 *
 *      object of rank r (memfd, without a name)        mapped by r and by every peer of the same host
 *      +--------------+---------------+-----+---------------------------------+
 *      | signal words | barrier words | pad | heap                            |
 *      +--------------+---------------+-----+---------------------------------+
 *      0              8 * word_count        heap_offset (whole pages) */
#ifndef REPLAY_LIVE_INTERNAL_H
#define REPLAY_LIVE_INTERNAL_H

#include "replay/live.h"

enum { LIVE_BARRIER_WORDS = 16 }; /* rounds of a barrier of 65,536 ranks */

struct live_barrier {
    struct fabric_worker worker;
    uint64_t generation;   /* the next value of the barrier words */
    uint32_t posted, seen; /* rounds of the current barrier whose signal is posted; whose signal has come */
};

struct live_world {
    struct fabric fabric;
    struct live_world *next; /* another world of this rank, polled together with this one; NULL if there are no more */
    struct live_options options;
    struct bootstrap *bootstrap;
    struct live_memory memory;
    int memory_fd;
    uint64_t heap_offset;
    uint8_t **peer_base;    /* [rank] where this process maps the rank's object; NULL if it does not */
    bool *remote;           /* [rank] whether the rank is reached through the link */
    struct live_link *link; /* NULL if no link is needed */
    char nvlink_carrier[LIVE_CARRIER_BYTES], network_carrier[LIVE_CARRIERS_BYTES];
    uint64_t operations; /* operations done so far; a change means progress */
    bool polls_timed;
    uint64_t polled_ps; /* time in polls that completed something */
    int broken;         /* first errno of the data path that was not -EAGAIN */
    uint32_t local_ranks;
    cpu_set_t cpus; /* CPUs that this rank and the others of its host may use */
    uint32_t cpu_count;
    struct fabric_worker **active;                   /* workers of the current run that are not done */
    uint32_t active_max, active_count, worker_count; /* the array's size; workers that are not done; workers at the
                                                      * start of the run */
    uint64_t wake_ps; /* the latest time at which a worker of this round asks to be woken; 0: none */
    uint64_t runs;    /* number of runs started so far */
    struct live_barrier barrier;
};

/* live_ops.c: the operations of the seam, on mappings and links. */
extern const struct fabric_ops live_ops;
uint64_t live_now_ps(const struct fabric *f);
/* Keeps rc in the world if it is the first error of the data path other than -EAGAIN.  Returns rc. */
int live_broken(struct live_world *world, int rc);

/* live.c: the first of a rank's worlds, which are a list; NULL if the rank has none. */
struct live_world *live_worlds(const struct bootstrap *b);
/* live_run.c: polls the links of a list of worlds, and returns whether an operation completed. */
bool live_worlds_progress(struct live_world *first);

#endif
