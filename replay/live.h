/* live.h - the live world of one rank: real memory, real links, real time.
 *
 * A live world is a struct fabric (models/fabric.h) over
 *     - shared memory, for the peers on the same host that stand in for NVLink (for all peers, if link is NULL);
 *     - a link, for the others: verbs (link_verbs.c), libfabric (link_ofi.c), or shared memory again (link_shm.c: a
 *       "network" between groups of local processes, posted and completed like the others).
 *
 * Heap and words of a rank are one shared-memory object (words first, then the heap).  Every rank of the host maps
 * it, and the link registers it.  Its name is removed from the file system before the run starts, so nothing is left
 * behind, however the run ends. */
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

enum live_error {
    LIVE_BAD_INPUT,          /* an option, a case or a file is wrong */
    LIVE_FAILED = ERROR_RUN, /* this rank is the first to know */
    LIVE_PEER_FAILED,        /* another rank failed and has told all ranks why: that rank reports it */
    LIVE_UNAVAILABLE,        /* this build, machine or device does not have what was asked for */
};

/* How a signal crosses the link (PROTOCOLS.md 1.5). */
enum live_signalling {
    LIVE_SIGNAL_WRITE,  /* inline write of the absolute value: needs in-order placement on a QP */
    LIVE_SIGNAL_ATOMIC, /* 8-byte fetch-and-add of the difference */
    LIVE_SIGNAL_IMM,    /* write with immediate, completed by the receiver */
};

struct live_options {
    const char *fabric;   /* --fabric: the link between nodes, "shm", "verbs" or "ofi"; NULL: no link, so that puts are
                           * stores (one host) */
    const char *provider; /* ofi: "tcp", "shm", "verbs", ...; NULL: the best that is found */
    const char *device;   /* verbs: a name, or a list "a,b" dealt out by local rank; NULL: automatic */
    uint32_t port, service_level, traffic_class;
    int32_t gid_index; /* -1: automatic */
    enum live_signalling signalling;
    uint32_t ranks_per_node; /* local processes that form an NVLink domain */
    bool nvlink_disabled;
    uint32_t timeout_ms; /* after this time without progress the run ends and names a cause */
    bool gpu_memory;     /* heap in GPU memory through dma-buf; refused if not available */
    uint64_t family;     /* ofi: a number of this run only, by which a parent removes what its ranks leave; 0: no parent
                          * does */
};

/* One network below the live fabric.  Offsets are into the shared object (words, then heap).  The data path returns
 * 0, -EAGAIN (full), or another negative errno after link->failure was filled in.
 *
 * The live world guarantees to a link: remote[peer] is set for every peer that it names; size_bytes > 0; ranges lie
 * inside both objects; queue < needs->queue_count; all calls come from one thread.
 *
 * A link guarantees: a put or signal that returns -EAGAIN has done nothing except ring the doorbell of earlier deferred
 * puts (else a queue full of deferred puts would never drain); a signal takes a place of queue_depth like a put, and a
 * put with a signal takes two; flush also rings the doorbell. */
struct live_link;
struct live_put_signal {
    uint64_t source, target; /* source: offset in own memory; target: offset in the peer's memory */
    uint32_t size_bytes;
    uint16_t peer, queue;
    uint64_t word, value; /* offset of the word at the peer; the word's value */
    bool add;
};
struct live_link_ops {
    const char *name;
    /* Writes size_bytes from own offset source to the peer's offset target, on the peer's QP with index `queue`. */
    int (*put)(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t source, uint64_t target,
               uint32_t size_bytes, bool defer);
    /* Sets the peer's word at offset target to value, or adds value if `add`, after all earlier puts of (peer,
     * queue). */
    int (*signal)(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t target, uint64_t value, bool add);
    /* Posts both, with the signal after the put, or neither. */
    int (*put_signal)(struct live_link *link, const struct live_put_signal *both);
    /* Reads size_bytes from the peer's offset source to own offset target. */
    int (*get)(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t source, uint64_t target,
               uint32_t size_bytes);
    int (*flush)(struct live_link *link, uint16_t peer, uint16_t queue);
    /* Reads completions and does whatever else needs the CPU, for a bounded time.  Returns how many operations
     * completed (0: nothing moved) or a negative errno. */
    int (*progress)(struct live_link *link);
    void (*free)(struct live_link *link);
};

enum { LIVE_CARRIER_BYTES = 80, LIVE_CARRIERS_BYTES = 512 };

struct live_link {
    const struct live_link_ops *ops;
    char carrier[LIVE_CARRIER_BYTES]; /* what carries the link's bytes: library or provider, device, port */
    char failure[256];                /* what failed: peer, QP state, work completion status */
};

/* Where GPU memory is exported for NICs. */
struct live_dmabuf {
    int fd;
    uint64_t offset;
};

struct live_memory {
    uint8_t *base; /* words, then heap */
    uint64_t size_bytes;
    const struct live_dmabuf *dmabuf; /* NULL: host memory */
};

/* Make a link: register memory, and connect to every peer with remote[peer] set.  b exchanges the addresses.  NULL and
 * *error on failure. */
struct live_link *link_shm_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, uint8_t *const *peer_base,
                               GError **error);
struct live_link *link_verbs_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                                 const struct live_memory *memory, const bool *remote, GError **error);
struct live_link *link_ofi_new(const struct live_options *o, const struct fabric_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, GError **error);
/* Removes the names of shared-memory objects that the ranks of o->family have left.  All these ranks must have
 * ended. */
void link_ofi_clean(const struct live_options *o);

struct live_world;

/* Sets the defaults: only shared memory, 8 ranks a node, automatic GID, 30 s without progress. */
void live_options_init(struct live_options *options);

/* Makes the live world of this rank.  Collective over b, which must outlive the world.  NULL and *error on failure (on
 * every rank). */
struct live_world *live_world_new(const struct live_options *options, const struct fabric_needs *needs,
                                  struct bootstrap *b, GError **error);
void live_world_free(struct live_world *world);
struct fabric *live_world_fabric(struct live_world *world);
/* Whether all ranks are on one host, so that their fabrics have one clock. */
bool live_world_one_clock(const struct live_world *world);

/* Steps the workers in turns until all are done.  False and *error (which worker waits for what, or what broke) after
 * timeout_ms without progress or if the link failed. */
bool live_world_run(struct live_world *world, struct fabric_worker **workers, uint32_t worker_count, GError **error);
/* How many operations the rank with this fabric has done so far. */
uint64_t live_world_operations(const struct fabric *f);
/* Polls the link once, for callers between kernels and in measurements.  Returns how many operations completed, or a
 * negative errno. */
int live_world_progress(struct live_world *world);
/* Whether polls are timed from now on.  At first they are not. */
void live_world_time_polls(struct live_world *world, bool on);
/* The time spent so far in timed polls that completed something. */
uint64_t live_world_polled_ps(const struct live_world *world);
/* Returns when every rank has called live_world_barrier().  It is a dissemination barrier of signals over the fabric
 * itself, so that ranks leave it as closely together as the links allow.  Errors as in live_world_run(). */
bool live_world_barrier(struct live_world *world, GError **error);
/* Why a data-path call returned a negative errno other than -EAGAIN; "" if no call did. */
const char *live_world_failure(const struct live_world *world);
/* The carriers of all ranks by name: of their stores to peers of their node, and of their operations over the network
 * ("verbs r0 port 1, verbs r1 port 1"). "none" if no rank has such a peer. */
const char *live_world_nvlink_carrier(const struct live_world *world);
const char *live_world_network_carrier(const struct live_world *world);
/* These functions say how many ranks of the run share this host, and how many and which CPUs they may use together
 * (each rank perhaps only one). */
uint32_t live_world_local_ranks(const struct live_world *world);
uint32_t live_world_cpus(const struct live_world *world);
const cpu_set_t *live_world_cpu_set(const struct live_world *world);
/* Binds this thread to CPU number index, modulo their count, of a set that is not empty.  False and errno on
 * failure. */
bool live_cpu_bind(const cpu_set_t *cpus, uint32_t index);

#endif
