/* bootstrap.h - how the processes of a live run find each other, and how they exchange small amounts of data before
 * and between kernels.  There are two exchanges: an all-gather and a barrier.  Both have a timeout, and their error
 * names the rank at fault.
 *
 * Processes can be connected in three ways: one parent forks them, they use TCP with a shared secret, or they use
 * PMIx (mpirun, srun).  Kernels send none of their data through a bootstrap. */
#ifndef REPLAY_BOOTSTRAP_H
#define REPLAY_BOOTSTRAP_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/error.h"
#include "sim/text.h"

#define BOOTSTRAP_ERROR (g_quark_from_static_string("eptwin-bootstrap"))
/* The code of an error that another process reports, so that this rank need not print it. */
enum bootstrap_error { BOOTSTRAP_PEER_FAILED = ERROR_RUN };

enum { BOOTSTRAP_WAIT_PEERS = 24 };

/* What a rank waits for.  A stalled rank sends this, and the other ranks answer with theirs. */
struct bootstrap_wait {
    uint64_t serial; /* number of the rank's current run, from 1, equal on all ranks; 0 between runs */
    uint32_t peer_count;
    uint16_t peer[BOOTSTRAP_WAIT_PEERS]; /* ranks that this rank waits for; if they do not all fit, the first ones */
    uint32_t anybody;                    /* not 0 if the rank waits for something that any rank may send */
    char text[144];
};
_Static_assert(sizeof(struct bootstrap_wait) == 208, "crosses the bootstrap");

struct bootstrap;

struct bootstrap_ops {
    const char *name;
    bool (*allgather)(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error);
    void (*abort)(struct bootstrap *b, const char *reason);
    bool (*check)(struct bootstrap *b, GError **error); /* NULL if there is nothing to check */
    void (*free)(struct bootstrap *b);
    bool (*hang)(struct bootstrap *b, const struct bootstrap_wait *wait, GError **error); /* may be NULL */
};

struct bootstrap {
    const struct bootstrap_ops *ops;
    uint32_t rank, rank_count;
    uint32_t timeout_ms; /* limit of one exchange; its error names the ranks that did not come */
    /* Called repeatedly while an exchange waits, so that a waiting rank still serves its links.  Other ranks may
     * need these links before they can come to the exchange.  Returns whether an operation completed.  NULL if there
     * is nothing to serve. */
    bool (*serve)(void *context);
    void *serve_context;
    /* Writes into *wait what this rank waits for.  Called when a stalled rank asks all ranks.  NULL if this rank can
     * wait only for an exchange. */
    void (*tell)(void *context, struct bootstrap_wait *wait);
    void *tell_context;
};

/* Copies every rank's `in` to out[rank_count][size_bytes], at most 256 MiB in all.  All ranks call it with the same
 * size.  If a rank has another size or has died, the call fails on all ranks with an error that names that rank. */
static inline bool bootstrap_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out,
                                       GError **error)
{
    return b->ops->allgather(b, in, size_bytes, out, error);
}

/* Returns when every rank has called bootstrap_barrier(). */
static inline bool bootstrap_barrier(struct bootstrap *b, GError **error)
{
    return b->ops->allgather(b, NULL, 0, NULL, error);
}

/* Returns false if a rank is known to have died or given up.  It does not wait.  Ranks call it between exchanges. */
static inline bool bootstrap_check(struct bootstrap *b, GError **error)
{
    return !b->ops->check || b->ops->check(b, error);
}

/* Checks as bootstrap_check() does, for 300 ms.  A rank whose link has failed calls it: the cause may be that a peer is
 * dying, of which the link learns before the bootstrap does. */
bool bootstrap_watch(struct bootstrap *b, GError **error);

/* A rank that has waited too long calls this function.  The function asks all ranks what they wait for, ends the run
 * for all, sets *error to a text that names the rank at fault, and returns false.  The rank at fault is the caller, or
 * a rank that the caller waits for, directly or through others.  Among these, a rank that is known to be stopped is
 * named first, then all ranks that do not answer, then a rank that waits for nobody, then the rank in the earliest run.
 * Other ranks answer while they wait in an exchange, or when they call bootstrap_check(). */
static inline bool bootstrap_hang(struct bootstrap *b, const struct bootstrap_wait *wait, GError **error)
{
    if (b->ops->hang) return b->ops->hang(b, wait, error);
    return error_run(error, "rank %u: %s", b->rank, wait->text);
}

/* Tells the other ranks that this rank gives up and why.  Their current or next exchange fails with this reason. */
static inline void bootstrap_abort(struct bootstrap *b, const char *reason) { b->ops->abort(b, reason); }

static inline void bootstrap_free(struct bootstrap *b)
{
    if (b) b->ops->free(b);
}

/* Forks rank_count children; each runs child(b, context) and exits with its return value.  The parent relays their
 * exchanges and watches them.  Returns the run's exit status: 0 if all children returned 0, else that of the first
 * failure.  After a failure the parent ends the other children, and reports which rank failed and how (exit status or
 * signal).  No child outlives the parent.  When SIGHUP, SIGINT or SIGTERM comes, the parent ends its children and
 * returns 1.  bootstrap_fork_run() owns b, but a child may free it. */
int bootstrap_fork_run(uint32_t rank_count, uint32_t timeout_ms, int (*child)(struct bootstrap *b, void *context),
                       void *context);

/* A secret of any bytes, NULs included. */
struct bootstrap_secret {
    const void *bytes;
    size_t size_bytes;
};

struct bootstrap_tcp_options {
    uint32_t rank, rank_count;
    const char *root; /* "host:port" of rank 0, which listens only at this address; ":port" is loopback.  Several
                       * addresses are separated by spaces: rank 0 listens at the first one where it can, and the
                       * other ranks try them all. */
    struct bootstrap_secret secret; /* shared by all; every message is authenticated with it */
    uint32_t timeout_ms;
    const char *name;                              /* the name of this way to bootstrap; NULL means "tcp" */
    void (*listens)(void *context, uint16_t port); /* called on rank 0 when the other ranks may connect; may be NULL */
    void (*end)(void);                             /* called when all connections are closed, or when none could be
                                                    * made; may be NULL */
    void *context;
};
/* Connects the ranks, and returns when all have joined.  Processes without the secret are refused and change
 * nothing.  A rank that is pushed out by many such processes tries again until timeout_ms have passed. */
struct bootstrap *bootstrap_tcp_new(const struct bootstrap_tcp_options *options, GError **error);

/* Connects ranks that mpirun or srun started.  NULL and *error if neither started this process, or if this build is
 * without PMIx. */
struct bootstrap *bootstrap_pmix_new(uint32_t timeout_ms, GError **error);
/* Whether mpirun or srun seems to have started this process. */
bool bootstrap_pmix_detected(void);

#endif
