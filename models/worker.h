/* worker.h - workers: what runs a kernel, step by step, in any world.
 *
 * A kernel is a set of workers.  Each is an explicit state machine that its world steps.  A step does a
 * bounded piece of work and returns what the worker wants next:
 *    WORKER_MORE  step it again once the time that its operations cost has passed;
 *    WORKER_WAIT  step it again when a watched word has changed, space has become free, or its wake_at() is due;
 *    WORKER_DONE  never step it again in this launch.
 * Steps may be spurious, so a worker checks its own condition each time.  Among the words that may change during the
 * launch, a worker reads only those that it watches: a world may update the others late.  A watch may name the least
 * value that the worker waits for.  While the word is below that value, a world may leave the worker unstepped and a
 * counter out of date.
 *
 * A worker's operations run one after another, and each takes all warps of the worker.  Operations that name fewer
 * warps run at the same time, each on its own warps, as far as the worker has enough. */
#ifndef MODELS_WORKER_H
#define MODELS_WORKER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;
struct fabric_worker;

enum worker_step { WORKER_MORE, WORKER_WAIT, WORKER_DONE };

enum worker_moment {
    WORKER_PLAIN,
    WORKER_COUNTS, /* once all workers with this moment have ended, the host knows how many rows will come */
    WORKER_CLOSES, /* the next kernel may be launched before this worker ends, once all workers without this moment
                    * have ended */
};

/* A warp role: what is common to all workers that have it.  It never changes. */
struct worker_role {
    enum worker_step (*step)(struct fabric_worker *w);
    /* Writes what the worker waits for.  The message about a hanging run shows this text.  Live worlds find the awaited
     * peer in it: the first "rank N" after the word "waits", or the first "rank N" if "waits" is not in the text. */
    void (*describe)(const struct fabric_worker *w, char *text, size_t text_size);
    /* Prefetches what the next step will read, and changes nothing.  A world that steps many workers in no particular
     * order may call it for a worker that it will step soon.  NULL: nothing to prefetch. */
    void (*ahead)(const struct fabric_worker *w);
};

/* The object of this type whose member the pointer points to. */
#define fabric_container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* One warp group of a kernel.  Embed it in the protocol's object that the worker drives.  fabric_container_of() finds
 * that object again. */
struct fabric_worker {
    struct fabric *fabric;
    uint32_t index;     /* the worker's number among those of this rank, from 0 */
    uint16_t sm;        /* the SM that it runs on */
    uint8_t warps;      /* how many warps of that SM it has */
    uint8_t role : 6;   /* number of its role, from worker_role_number(), below WORKER_ROLES_MAX */
    uint8_t moment : 2; /* enum worker_moment: what happens when it ends */
};
_Static_assert(sizeof(struct fabric_worker) <= 16, "large worlds have millions");

/* The roles of all kernels that run on one rank's fabric, by number; NULL: no role has it yet. */
enum { WORKER_ROLES_MAX = 64 };
struct worker_roles {
    const struct worker_role *role[WORKER_ROLES_MAX];
};

/* Returns the number of a role, and gives it one if it has none.  The number never changes.  The role must outlive the
 * fabric. */
static inline uint8_t worker_role_number(struct worker_roles *roles, const struct worker_role *role)
{
    uint8_t number = 0;
    while (roles->role[number] && roles->role[number] != role) {
        number++;
        assert(number < WORKER_ROLES_MAX);
    }
    roles->role[number] = role;
    return number;
}

#endif
