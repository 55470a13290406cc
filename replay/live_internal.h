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
    uint64_t generation;   /* number of the current barrier, and the value that its signals write */
    uint32_t posted, seen; /* rounds of the current barrier whose signal has been posted, and whose signal has come */
};

struct live_world {
    struct fabric fabric;
    struct live_world *next; /* another world of this rank, which is polled together with this one; NULL: none */
    struct live_options options;
    struct bootstrap *bootstrap;
    struct live_memory memory;
    int memory_fd;
    uint64_t heap_offset;
    uint8_t **peer_base;    /* [rank] where this process has mapped the rank's memory object; NULL: not mapped */
    bool *remote;           /* [rank] whether the rank is reached through the link */
    struct live_link *link; /* NULL if no link is needed */
    char nvlink_carrier[LIVE_CARRIER_BYTES], network_carrier[LIVE_CARRIERS_BYTES];
    uint64_t operations; /* operations done so far; if the number grows, the run progresses */
    bool polls_timed;
    uint64_t polled_ps; /* time spent in polls that completed something */
    int broken;         /* the first errno of an operation that was not -EAGAIN */
    uint32_t local_ranks;
    cpu_set_t cpus; /* CPUs that the ranks of this host may use */
    uint32_t cpu_count;
    struct fabric_worker **active;                   /* workers of the current run that are not done */
    uint32_t active_max, active_count, worker_count; /* the array's size; workers that are not done; workers at the
                                                      * start of the run */
    uint64_t wake_ps; /* latest time for which a worker asked to be woken in this round; 0: none */
    uint64_t runs;    /* number of runs started so far */
    struct live_barrier barrier;
};

/* live_ops.c: the operations of struct fabric, on mapped memory and links. */
extern const struct fabric_ops live_ops;
uint64_t live_now_ps(const struct fabric *f);
/* Records rc in the world, if it is the first error of an operation other than -EAGAIN.  Returns rc. */
int live_broken(struct live_world *world, int rc);

/* live.c: returns the first world in the list of this rank's worlds; NULL if the rank has none. */
struct live_world *live_worlds(const struct bootstrap *b);
/* live_run.c: polls the links of a list of worlds, and returns whether an operation completed. */
bool live_worlds_progress(struct live_world *first);

#endif
