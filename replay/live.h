/* live.h - the live world of one rank: real memory, real links, real time.
 *
 * A live world is a struct fabric (models/fabric.h).  It reaches peers in two ways:
 *     - by shared memory, if they are on the same host and stand in for NVLink peers (or if there is no link);
 *     - by a link otherwise: verbs (link_verbs.c), libfabric (link_ofi.c), or shared memory again (link_shm.c).  The
 *       last is a "network" between groups of local processes, with posted and completed operations like the others.
 *
 * A rank's words and heap are one shared-memory object, words first.  Every rank of the host maps it, and the link
 * registers it.  It has no name in the file system, so nothing is left behind, however the run ends. */
#ifndef REPLAY_LIVE_H
#define REPLAY_LIVE_H

#include <glib.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"
#include "replay/bootstrap/bootstrap.h"
#include "sim/error.h"

#define LIVE_ERROR (g_quark_from_static_string("eptwin-live"))
/* Another rank failed, has told all ranks why, and reports it. */
enum live_error { LIVE_PEER_FAILED = ERROR_RUN };

/* How a signal crosses the link (PROTOCOLS.md 1.5). */
enum live_signalling {
    LIVE_SIGNAL_WRITE,  /* inline write of the absolute value: needs in-order placement on a QP */
    LIVE_SIGNAL_ATOMIC, /* 8-byte fetch-and-add of the difference to the value last sent */
    LIVE_SIGNAL_IMM,    /* write with immediate: the receiver's CPU sets the word */
};

struct live_options {
    const char *fabric;   /* --fabric: the link between nodes, "shm", "verbs" or "ofi"; NULL: all ranks are on one
                           * host, and puts are stores */
    const char *provider; /* ofi: "tcp", "shm", "verbs", ...; NULL: the first preferred provider found */
    const char *device;   /* verbs: a name, or a list "a,b" with one name for each local rank; NULL: automatic */
    uint32_t port, service_level, traffic_class;
    int32_t gid_index; /* -1: automatic */
    enum live_signalling signalling;
    uint32_t ranks_per_node; /* local processes that form an NVLink domain */
    bool nvlink_disabled;
    uint32_t timeout_ms; /* if nothing has progressed for this long, the run ends and the error names a cause */
    bool gpu_memory;     /* the heap is in GPU memory, through dma-buf; refused if not available */
    uint64_t family;     /* ofi: a number of this run, by which the parent finds and removes what its ranks leave; 0:
                          * there is no parent */
};

/* A network below the live fabric.  Offsets are those in the shared object, in which words precede the heap.  Puts,
 * signals and gets return 0, -EAGAIN if there is no room, or another negative errno.  Then link->failure tells the
 * cause.
 *
 * The live world guarantees this to a link.  It names only peers with remote[peer] set, and queues below
 * needs->queue_count.  size_bytes is not 0, and ranges lie inside both objects.  All calls come from one thread.
 *
 * A link guarantees this to the live world.  A put or signal that returns -EAGAIN has posted nothing, but may ring
 * the doorbell of earlier deferred puts, because otherwise a queue full of them would never drain.  A put or a
 * signal takes one place of queue_depth, and a put with a signal takes two.  flush rings the doorbell, too. */
struct live_link;
struct live_put {
    uint64_t source, target; /* source: offset in own memory; target: offset in the peer's memory */
    uint32_t size_bytes;
    uint16_t peer, queue; /* queue: index of the QP to the peer */
    bool defer;           /* the doorbell may wait, if no signal follows */
    bool signals; /* a signal follows, as signal() would post it.  If there is no room for both, posts neither */
    bool add;
    uint64_t word, value; /* offset of the word at the peer; the word's value */
};
struct live_link_ops {
    const char *name;
    int (*put)(struct live_link *link, const struct live_put *put);
    /* Sets the peer's word at offset `target` to value, or adds value to it if `add`.  This happens after all
     * earlier puts to (peer, queue). */
    int (*signal)(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t target, uint64_t value, bool add);
    /* Reads size_bytes from offset `source` of the peer to offset `target` of this rank. */
    int (*get)(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t source, uint64_t target,
               uint32_t size_bytes);
    int (*flush)(struct live_link *link, uint16_t peer, uint16_t queue);
    /* Reads completions and does whatever else needs the CPU, for a limited time.  Returns how many operations
     * completed, or a negative errno. */
    int (*progress)(struct live_link *link);
    void (*free)(struct live_link *link);
};

enum { LIVE_CARRIER_BYTES = 80, LIVE_CARRIERS_BYTES = 512 };

struct live_link {
    const struct live_link_ops *ops;
    char carrier[LIVE_CARRIER_BYTES]; /* what carries the link's bytes: library or provider, device, port */
    char failure[256];                /* cause of the failure: peer, QP state, status of the work completion */
};

/* GPU memory as it is exported for NICs. */
struct live_dmabuf {
    int fd;
    uint64_t offset;
};

struct live_memory {
    uint8_t *base; /* words, then heap */
    uint64_t size_bytes;
    const struct live_dmabuf *dmabuf; /* NULL: host memory */
};

/* These functions make a link: they register memory, and connect to every peer with remote[peer] set.  Addresses are
 * exchanged through b.  NULL and *error on failure. */
struct live_link *link_shm_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, uint8_t *const *peer_base,
                               GError **error);
struct live_link *link_verbs_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                                 const struct live_memory *memory, const bool *remote, GError **error);
struct live_link *link_ofi_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, GError **error);
/* Removes the names of shared-memory objects that ranks of o->family have left behind.  All these ranks must have
 * ended. */
void link_ofi_clean(const struct live_options *o);

struct live_world;

/* Sets the defaults: no link, 8 ranks a node, automatic GID, and a timeout of 30 s. */
void live_options_init(struct live_options *options);

/* Makes the live world of this rank.  Collective over b, which must outlive the world.  On failure, every rank gets
 * NULL and *error. */
struct live_world *live_world_new(const struct live_options *options, const struct fabric_needs *needs,
                                  struct bootstrap *b, GError **error);
void live_world_free(struct live_world *world);
struct fabric *live_world_fabric(struct live_world *world);
/* Whether all ranks are on one host, so that their fabrics have one clock. */
bool live_world_one_clock(const struct live_world *world);

/* Steps the workers in turn until all are done.  Returns false if the link failed, or if nothing progressed for
 * timeout_ms.  Then *error says what broke, or which worker waits for what. */
bool live_world_run(struct live_world *world, struct fabric_worker **workers, uint32_t worker_count, GError **error);
/* How many operations the rank with this fabric has done so far. */
uint64_t live_world_operations(const struct fabric *f);
/* Polls the link once.  It is called between kernels and in measurements.  Returns how many operations completed, or
 * a negative errno. */
int live_world_progress(struct live_world *world);
/* Switches the timing of polls on or off.  It is off at first. */
void live_world_time_polls(struct live_world *world, bool on);
/* The time spent so far in timed polls that completed something. */
uint64_t live_world_polled_ps(const struct live_world *world);
/* Returns when every rank has called live_world_barrier().  It is a dissemination barrier, made of signals over the
 * fabric itself.  So ranks leave it as closely together as the links allow.  Errors are as in live_world_run(). */
bool live_world_barrier(struct live_world *world, GError **error);
/* Says why a put, signal, get or flush returned a negative errno other than -EAGAIN; "" if none did. */
const char *live_world_failure(const struct live_world *world);
/* The names of all ranks' carriers, as in "verbs r0 port 1, verbs r1 port 1".  The first function names the carriers
 * of stores to peers of the same node, and the second those of network operations.  "none" if no rank has such a
 * peer. */
const char *live_world_nvlink_carrier(const struct live_world *world);
const char *live_world_network_carrier(const struct live_world *world);
/* These functions say how many ranks of the run are on this host, and how many and which CPUs these ranks may use in
 * all. */
uint32_t live_world_local_ranks(const struct live_world *world);
uint32_t live_world_cpus(const struct live_world *world);
const cpu_set_t *live_world_cpu_set(const struct live_world *world);
/* Binds this thread to one CPU of a set that is not empty: to that with number index, modulo the number of CPUs.
 * False and errno on failure. */
bool live_cpu_bind(const cpu_set_t *cpus, uint32_t index);

#endif
