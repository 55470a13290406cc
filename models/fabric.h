/* fabric.h - the seam: the interface between kernels (models/moe, models/coll) and the world they run in.
 *
 * A struct fabric is one rank's view of a set of GPUs, or of processes standing in for GPUs.  They reach each other
 * with one-sided operations.  The simulated world (models/hardware) and the live worlds (replay) implement a fabric.
 * Kernels use it and know nothing below it.
 *
 * Memory.  Every rank owns two symmetric areas: a heap of bytes and an array of 64-bit signal words.  Both are zero
 * at the start.  Offsets and word numbers mean the same on every rank.  A rank reads its own areas directly.  It
 * writes the areas of other ranks only through the operations below.
 *
 * Paths.  fabric_path() says how a rank reaches a peer.  SELF: the peer is the rank itself.  NVLINK: the worker's own
 * stores reach the peer's memory.  RDMA: a NIC moves the bytes.  fabric_store() is for SELF and NVLINK, fabric_put()
 * is for RDMA, and fabric_get() is for NVLINK and RDMA.
 *
 * Contract
 *  1. Nothing blocks.  -EAGAIN means full: the call did nothing, and the worker returns WORKER_WAIT and tries again
 *     later.  Any other negative errno ends the run.
 *  2. Order.  A signal becomes visible at the peer after the data of every earlier store() by the same worker
 *     and of every earlier put() on the same (peer, queue).  Order is cumulative, like release and acquire on GPUs and
 *     CPUs: if worker B has seen a signal_add() of worker A, B's later signals also follow A's stores before that
 *     signal_add().  Signals to one word arrive in the order posted.
 *     There is no order between queues, nor between the data of different puts.
 *  3. A signal word has one remote writer, which only raises it: signal() stores an absolute value.
 *     A word written with signal_add() is private to its rank: any worker of that rank may add to it.  Every rank may
 *     add to a counter, but only with signals that have add set.  Either all ranks reach the counter by RDMA or none
 *     does, because atomics of NICs and of processors do not see each other.
 *  4. store(): the source, and what fill() needs, may be reused when the call returns.
 *     put(): the source lies in the rank's own heap.  It belongs to the fabric until fabric_flush() of that
 *     (peer, queue) has returned 0, or until the peer's answer proves that the data have arrived.
 *     get(): the target lies in the rank's own heap.  By NVLink the bytes are there when the call returns.  By RDMA the
 *     target belongs to the fabric until fabric_flush() of that (peer, queue) has returned 0.  A get has no order with
 *     the other requests on its queue.
 *  5. The peer's workers must not read a target range before they have seen a signal posted after the data.
 *  6. `defer` of a put lets the fabric hold back the doorbell.  It rings at the latest with the next get, signal, flush
 *     or put without `defer` on the same (peer, queue).  A put with a signal posts both, the signal last, with one
 *     doorbell, or posts neither.  They take two places of the queue, so the queue must have at least two.
 *  7. work() is local work (cast, copy, reduce, scan).  A live world does it at once; the simulated world charges
 *     the worker for it.  It never fails.
 *  8. Zero-sized writes and gets are legal and deliver nothing.  Peer == own rank is legal for store and signal.
 *  9. In the simulated world now_ps() does not move during a step.
 * 10. After a step that calls wake_at() and returns WORKER_WAIT, the worker is stepped once now_ps() has reached that
 *     time, whether or not anything else happens.  If a step names several times, only the soonest one that is still to
 *     come when the step ends counts.  A time holds for this one wait: a later step must name it again. */
#ifndef MODELS_FABRIC_H
#define MODELS_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "models/kernels/sites.h"
#include "models/worker.h"

#define FABRIC_MUST_CHECK __attribute__((warn_unused_result))

enum fabric_path { FABRIC_SELF, FABRIC_NVLINK, FABRIC_RDMA };

/* Writes size_bytes at a peer.  The link carries charge_bytes.  In a live world both are equal.  A simulated world that
 * stores only part of the payload is charged for more than it stores. */
struct fabric_write {
    uint64_t target_offset; /* offset in the peer's heap */
    uint64_t charge_bytes;
    const void *data; /* the bytes to write; with fill(), the argument of fill() */
    /* NULL, or of a store(): writes the bytes to target, without reading target, so that bytes from many places go
     * straight to the peer.  A store() that returns 0 has called it once. */
    void (*fill)(const void *data, uint8_t *target);
    struct site_given *given;
    uint32_t size_bytes;
    uint16_t peer;
    uint16_t queue; /* put(): the number of a QP to this peer */
    bool defer;     /* put(): hold back the doorbell until later */
    uint8_t warps;  /* how many warps write; 0: all of the worker's */
    uint8_t rows;   /* how many rows of tokens are written; 0 counts as 1 */
    uint8_t first;  /* store(): the warp that takes the first row; later warps take the other rows in rotation */
    uint8_t site;   /* enum site: the place in the kernel's code */
};

/* Reads bytes of a peer into the rank's own heap.  charge_bytes is as in struct fabric_write. */
struct fabric_read {
    uint64_t source_offset; /* offset in the peer's heap */
    void *target;           /* a place in the rank's own heap */
    uint64_t charge_bytes;
    uint32_t size_bytes;
    uint16_t peer;
    uint16_t queue; /* the number of a QP to this peer; NVLink ignores it */
    uint8_t warps;  /* NVLink: how many warps read; 0: all of the worker's */
    uint8_t site;   /* NVLink: enum site; the site's line names no sizes */
};

struct fabric_signal {
    uint64_t value; /* the word's new value; with add: the amount to add to it */
    uint32_t word;  /* number of a word of the peer */
    uint16_t peer;
    uint16_t queue; /* RDMA: the QP; the signal arrives after the puts on it */
    uint16_t warps; /* RDMA: how many warps signal; 0: all of the worker's */
    bool add;       /* the word is a counter, to which value is added */
    uint8_t site;   /* enum site; the site's line names no sizes */
};

enum fabric_work_kind {
    FABRIC_WORK_CAST,   /* quantise rows */
    FABRIC_WORK_COPY,   /* move rows within local memory, or do what the site's line says instead */
    FABRIC_WORK_REDUCE, /* sum rows in FP32 */
    FABRIC_WORK_SCAN,   /* read index arrays, count, prefix sums */
    FABRIC_WORK_KINDS
};

struct fabric_work {
    enum fabric_work_kind kind;
    uint16_t warps; /* how many warps work; 0: all of the worker's */
    uint32_t rows;  /* rows of tokens or parts of rows, of which a warp works on one at a time; SCAN: loads of each
                     * lane, or words of the host's memory */
    uint8_t site;   /* enum site: the place in the kernel's code */
    struct site_given *given;
    uint64_t read_bytes, write_bytes;
    void (*run)(void *context, uint64_t argument); /* does the work in a world that stores payload; other worlds do not
                                                    * call it */
    void *context;
    uint64_t argument; /* without `run`: of a SCAN of words of the host's memory, 8 B each, the first word's number; the
                        * model keeps these words among the rank's own */
};

/* What a kernel needs from a fabric. */
struct fabric_needs {
    uint64_t heap_bytes;
    uint32_t word_count;
    uint16_t queue_count;   /* QPs to each peer */
    uint32_t queue_depth;   /* the most work requests in flight on one QP */
    uint64_t touched_bytes; /* about how many bytes a rank reads and writes before it touches the same bytes again;
                             * UINT64_MAX: caches are flushed in between; 0: not known */
    bool channels;          /* where threads of the host post: a queue's requests to all peers share a channel, which
                             * has queue_depth, and whose thread posts at once what it is handed */
};

/* What a world implements: ten operations and a hint. */
struct fabric_ops {
    uint64_t (*now_ps)(const struct fabric *f);
    int (*store)(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write);
    int (*put)(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
               const struct fabric_signal *signal);
    int (*signal)(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal);
    int (*get)(struct fabric *f, struct fabric_worker *w, const struct fabric_read *read);
    void (*signal_add)(struct fabric *f, struct fabric_worker *w, uint32_t word, uint64_t addend, enum site site);
    int (*flush)(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue);
    void (*work)(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work);
    void (*watch)(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least);
    void (*wake_at)(struct fabric *f, struct fabric_worker *w, uint64_t time_ps);
    /* Hint: a worker will soon add to this word, and post on this QP unless the peer is the rank itself.  So the world
     * may prefetch the memory of both.  NULL: the world does not prefetch. */
    void (*ahead)(const struct fabric *f, uint32_t word, uint16_t peer, uint16_t queue);
};

struct fabric {
    const struct fabric_ops *ops;
    uint64_t *words; /* the rank's own signal words; other ranks raise them, so read them with fabric_load() */
    uint8_t *heap;   /* the rank's own heap */
    uint64_t heap_bytes;
    uint32_t word_count;
    uint16_t rank, rank_count;
    uint16_t ranks_per_node; /* ranks of one NVLink domain are consecutive */
    uint16_t node_first;     /* the first rank of this rank's domain */
    uint16_t queue_count;    /* QPs to each peer */
    uint8_t kernel;          /* enum site of the kernel, set before its launch: its line holds for all its workers */
    bool nvlink_disabled;    /* same-node peers are reached by RDMA too (the public tests' --disable-nvlink) */
    bool payload;            /* true: rows are stored and moved; false: sizes and control data only */
    struct worker_roles roles;
};

/* Returns a worker of this role on the fabric's rank, with one warp. */
static inline struct fabric_worker fabric_worker_of(struct fabric *f, const struct worker_role *role)
{
    return (struct fabric_worker){ .fabric = f, .role = worker_role_number(&f->roles, role), .warps = 1 };
}

static inline enum worker_step fabric_worker_step(struct fabric_worker *w)
{
    return w->fabric->roles.role[w->role]->step(w);
}

/* Writes what the worker waits for; writes nothing if its role does not say. */
static inline void fabric_worker_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct worker_role *role = w->fabric->roles.role[w->role];
    if (role->describe) role->describe(w, text, text_size);
}

static inline enum fabric_path fabric_path(const struct fabric *f, uint16_t peer)
{
    if (peer == f->rank) return FABRIC_SELF;
    if (f->nvlink_disabled) return FABRIC_RDMA;
    return (uint16_t)(peer - f->node_first) < f->ranks_per_node ? FABRIC_NVLINK : FABRIC_RDMA;
}

/* For the worlds: writes the bytes of a store or put to target. */
static inline void fabric_write_copy(const struct fabric_write *write, uint8_t *target)
{
    if (write->fill) write->fill(write->data, target);
    else if (write->size_bytes) memcpy(target, write->data, write->size_bytes);
}

/* Returns the current value of a word of this rank.  Data written before the signal that raised the word are visible
 * after the call. */
static inline uint64_t fabric_load(const struct fabric *f, uint32_t word)
{
    return __atomic_load_n(&f->words[word], __ATOMIC_ACQUIRE);
}

static inline uint64_t fabric_now_ps(const struct fabric *f) { return f->ops->now_ps(f); }

FABRIC_MUST_CHECK static inline int fabric_store(struct fabric_worker *w, const struct fabric_write *write)
{
    return w->fabric->ops->store(w->fabric, w, write);
}

/* Posts a put, and then the signal if there is one.  signal->peer and signal->queue must equal those of write. */
FABRIC_MUST_CHECK static inline int fabric_put(struct fabric_worker *w, const struct fabric_write *write,
                                               const struct fabric_signal *signal)
{
    return w->fabric->ops->put(w->fabric, w, write, signal);
}

FABRIC_MUST_CHECK static inline int fabric_signal(struct fabric_worker *w, const struct fabric_signal *signal)
{
    return w->fabric->ops->signal(w->fabric, w, signal);
}

FABRIC_MUST_CHECK static inline int fabric_get(struct fabric_worker *w, const struct fabric_read *read)
{
    return w->fabric->ops->get(w->fabric, w, read);
}

/* Adds to a private word of this rank, after this worker's earlier work; the site's line names no sizes. */
static inline void fabric_signal_add(struct fabric_worker *w, uint32_t word, uint64_t addend, enum site site)
{
    w->fabric->ops->signal_add(w->fabric, w, word, addend, site);
}

static inline void fabric_ahead(const struct fabric *f, uint32_t word, uint16_t peer, uint16_t queue)
{
    if (f->ops->ahead) f->ops->ahead(f, word, peer, queue);
}

/* Returns 0 once all of this rank's requests on (peer, queue) are complete: puts and signals at the peer, gets here.
 * Until then it returns -EAGAIN. */
FABRIC_MUST_CHECK static inline int fabric_flush(struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    return w->fabric->ops->flush(w->fabric, w, peer, queue);
}

static inline void fabric_work(struct fabric_worker *w, const struct fabric_work *work)
{
    w->fabric->ops->work(w->fabric, w, work);
}

/* Before the launch: declares that the worker is to be stepped when one of these words of its rank changes, and that it
 * has nothing to do while the word is below `least` (0: it has).  A word may have several watchers.  Watches hold until
 * the end of the kernel.
 * In a step: says that the next step has nothing to do while `word`, which it watches already, is below `least`.  A
 * world may leave out steps in which there is nothing to do. */
static inline void fabric_watch(struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least)
{
    w->fabric->ops->watch(w->fabric, w, word, word_count, least);
}

/* Asks for a step: if the current one ends with WORKER_WAIT, the next is due at time_ps at the latest (rule 10). */
static inline void fabric_wake_at(struct fabric_worker *w, uint64_t time_ps)
{
    w->fabric->ops->wake_at(w->fabric, w, time_ps);
}

#endif
