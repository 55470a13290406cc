/* live.h - the live world of one rank: real memory, real links, real time.
 *
 * A live world is a struct fabric (models/fabric.h) over
 *   - shared memory, for the peers of the same host that stand in for NVLink (and for all, with link NULL);
 *   - a link, for the others: verbs (link_verbs.c), libfabric (link_ofi.c) or shared memory again (link_shm.c:
 *     a "network" between groups of local processes, posted and completed like the others).
 * Heap and words of a rank are one shared-memory object (words first, then the heap), mapped by every rank of
 * the host and registered by the link; its name is gone from the file system before the run starts, so that
 * nothing is left behind however it ends. */
#ifndef REPLAY_LIVE_H
#define REPLAY_LIVE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"
#include "replay/bootstrap.h"

#define LIVE_ERROR (g_quark_from_static_string("eptwin-live"))

/* How a signal crosses the link (protocols.md 1.5). */
enum live_signalling {
    LIVE_SIGNAL_WRITE,          /* inline write of the absolute value: needs in-order placement on a QP */
    LIVE_SIGNAL_ATOMIC,         /* 8-byte fetch-and-add of the difference */
    LIVE_SIGNAL_IMM,            /* write with immediate, completed by the receiver */
};

struct live_options {
    const char *link;           /* "shm", "verbs", "ofi" */
    const char *provider;       /* ofi: "tcp", "shm", "verbs", ...; NULL: best found */
    const char *device;         /* verbs: device name, or a list "a,b" dealt out by local rank; NULL: automatic */
    uint32_t port, service_level, traffic_class;
    int32_t  gid_index;         /* -1: automatic */
    enum live_signalling signalling;
    uint32_t ranks_per_node;    /* local processes that form an NVLink domain */
    bool     nvlink_disabled;
    uint32_t timeout_ms;        /* without progress, the run ends with a named cause */
    bool     gpu_memory;        /* heap in GPU memory through dma-buf: refused with the reason where not available */
};

struct live_needs {
    uint64_t heap_bytes;
    uint32_t word_count;
    uint16_t queue_count;
    uint32_t queue_depth;
};

/* One network below the live fabric.  Offsets are into the shared object (words, then heap); the data path
 * returns 0, -EAGAIN (full) or another negative errno after link->failure was filled. */
struct live_link;
struct live_link_ops {
    const char *name;
    /* Writes size_bytes from own offset source to the peer's offset target, on this peer's QP queue. */
    int  (*put)(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t source, uint64_t target,
                uint32_t size_bytes, bool defer);
    /* Raises the peer's word at offset target to value, after all earlier puts of (peer, queue). */
    int  (*signal)(struct live_link *link, uint16_t peer, uint16_t queue, uint64_t target, uint64_t value);
    int  (*flush)(struct live_link *link, uint16_t peer, uint16_t queue);
    /* Polls completions and whatever else needs the CPU. */
    int  (*progress)(struct live_link *link);
    void (*free)(struct live_link *link);
};

struct live_link {
    const struct live_link_ops *ops;
    char failure[256];          /* what broke: peer, QP state, work completion status */
};

struct live_memory {
    uint8_t *base;              /* words, then heap */
    uint64_t size_bytes;
};

/* Constructors of links: register memory, connect to every peer that is not reached by shared memory (those
 * with remote[peer] set), exchanging addresses through b.  NULL and *error on failure. */
struct live_link *link_shm_new(const struct live_options *o, const struct live_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, uint8_t *const *peer_base,
                               GError **error);
struct live_link *link_verbs_new(const struct live_options *o, const struct live_needs *needs, struct bootstrap *b,
                                 const struct live_memory *memory, const bool *remote, GError **error);
struct live_link *link_ofi_new(const struct live_options *o, const struct live_needs *needs, struct bootstrap *b,
                               const struct live_memory *memory, const bool *remote, GError **error);

struct live_world;

/* Collective over b.  NULL and *error on failure (every rank gets one). */
struct live_world *live_world_new(const struct live_options *options, const struct live_needs *needs,
                                  struct bootstrap *b, GError **error);
void live_world_free(struct live_world *world);
struct fabric *live_world_fabric(struct live_world *world);

/* Steps the workers in turn until all are done.  False and *error (which worker waits for what, or what broke)
 * after timeout_ms without any progress or when the link failed. */
bool live_world_run(struct live_world *world, struct fabric_worker **workers, uint32_t worker_count,
                    GError **error);
/* Polls the link once (between kernels, in measurements); 0 or negative errno. */
int live_world_progress(struct live_world *world);

#endif
