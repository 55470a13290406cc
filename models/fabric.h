/* fabric.h - the seam: all that kernels (models/moe, models/coll) may ask of the world they run in.
 *
 * A struct fabric is one rank's view of a set of GPUs (or processes standing in for them) that reach each
 * other with one-sided operations.  The simulated world (models/hardware) and the live worlds (replay)
 * implement it; kernels use it and know nothing below it.
 *
 * Memory.  Every rank owns two symmetric areas: a heap of bytes and an array of 64-bit signal words, both
 * zero at the start.  Offsets and word numbers mean the same on every rank.  A rank reads its own directly
 * and writes the others' only through the operations below.
 *
 * Paths.  fabric_path() says how a peer is reached: itself, by NVLink (the worker's own stores reach its
 * memory) or by RDMA (a NIC moves the bytes).  fabric_store() is for the first two, fabric_put() and
 * fabric_put_signal() for the last, fabric_get() for NVLink and RDMA.
 *
 * Contract
 *  1. Nothing blocks.  -EAGAIN means full: nothing was done, the worker returns WORKER_WAIT and tries again.
 *     Any other negative errno ends the run.
 *  2. Order.  A signal becomes visible at the peer after the data of every earlier store() by the same worker
 *     and of every earlier put() on the same (peer, queue).  Order is handed on: a worker that has seen another's
 *     signal_add() signals after the stores that the other made before it (release and acquire are cumulative, as
 *     on GPUs and CPUs).  Signals to one word arrive in the order posted.
 *     Between queues, and between data of different puts, there is no order.
 *  3. A signal word has one remote writer, that only raises it: signal() stores an absolute value.
 *     (So a live world may use an ordered inline write, a fetch-and-add of the difference or a write with
 *     immediate.)  A word written with signal_add() is private to its rank: any worker of it may add.
 *     A counter is a word that every rank may add to: by signals with add set, and by nothing else.  All of them reach
 *     it by RDMA, or none does: atomics of NICs and of processors do not see each other.
 *  4. store(): the source, and what fill() needs, may be reused when the call returns.
 *     put(): the source lies in the rank's own heap and belongs to the fabric until fabric_flush() of that
 *     (peer, queue) returned 0, or until the peer's answer proves that it has arrived.
 *     get(): the target lies in the rank's own heap.  By NVLink the bytes are there when the call returns.  By RDMA the
 *     target belongs to the fabric until fabric_flush() of that (peer, queue) returned 0; a get is not ordered
 *     with what else is posted there.
 *  5. A target range must not be read by the peer's workers until a signal posted after the data was seen.
 *  6. FABRIC_DEFER on a put lets the fabric hold back the doorbell until the next put without it, get, signal or
 *     flush on the same (peer, queue).  put_signal() is a put and a signal behind it, on the put's (peer, queue), with
 *     one doorbell: both are posted, or neither.  They take two places of the queue, which must have as many.
 *  7. work() is local work (cast, copy, reduce, scan).  A live world does it now, the simulated world charges
 *     the worker for it.  It never fails.
 *  8. Zero-sized writes and gets are legal and deliver nothing.  Peer == own rank is legal for store and signal.
 *  9. now_ps() does not move during a step in the simulated world.
 * 10. A worker that waits with a wake_ps is stepped once now_ps() has reached it, whatever else happens or does not.
 *     One that has gone by during a step has been seen: it wakes no more.
 *
 * Workers.  A kernel is a set of workers, each an explicit state machine that its world steps.  A step does a
 * bounded piece of work and says what it wants next:
 *    WORKER_MORE  step again once what the operations cost has passed;
 *    WORKER_WAIT  step again when a watched word changed, space became free, or the worker's wake_ps has come;
 *    WORKER_DONE  never step again in this launch.
 * Steps may be spurious: a worker checks its own condition each time.  Of words that may change during the launch
 * it reads only those that it watches: a world may bring others up to date late.  A watch may name the least value
 * that the worker waits for: while the word is below, a world may leave the worker unstepped, and a counter behind. */
#ifndef MODELS_FABRIC_H
#define MODELS_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FABRIC_MUST_CHECK __attribute__((warn_unused_result))

struct fabric;
struct fabric_worker;

enum worker_step { WORKER_MORE, WORKER_WAIT, WORKER_DONE };

enum worker_moment {
    WORKER_PLAIN,
    WORKER_COUNTS,           /* the host then knows how many rows come */
    WORKER_CLOSES,           /* by then the next kernel may have been launched: as soon as all others had ended */
};

/* One warp group of a kernel.  Owned by the protocol object that it drives; embed it and use container_of. */
struct fabric_worker {
    enum worker_step (*step)(struct fabric_worker *w);
    /* Writes what the worker waits for, for the message of a run that hangs.  A peer that it waits for is the first
     * "rank N" behind the word "waits", or the first at all where it does not say "waits": live worlds follow these. */
    void (*describe)(const struct fabric_worker *w, char *text, size_t text_size);
    struct fabric *fabric;
    uint64_t wake_ps;        /* its own to set, in a step: when it wants one at the latest while it waits; 0: never */
    uint32_t index;          /* its number among the workers of this rank, unique, from 0 */
    uint16_t sm;             /* the SM that it runs on */
    uint16_t warps;          /* how many warps of that SM it has */
    uint8_t  moment;         /* enum worker_moment: what else its end is */
};

/* A worker's operations follow one another, each taking all its warps, except those that name fewer: they run
 * side by side, each on its own warps, as far as the worker has them. */

enum fabric_path { FABRIC_SELF, FABRIC_NVLINK, FABRIC_RDMA };

/* What the warps of a kernel do to move a row or to read an index array, as their code says it.  What that costs is the
 * world's matter, and a live world need not look.  A pattern outlives the run; none (NULL) is a row of one access after
 * another, from wherever it lies.
 *
 *   loads and stores (FABRIC_LDST)      a lane issues in_flight loads of width_bytes, waits for them, stores what came,
 *                                       and so on: a row takes bytes / (32 lanes x width x in_flight) waits
 *   bulk copy engine (FABRIC_BULK)      a row moves in turns parts, each from memory into shared memory and out again;
 *                                       in_flight of them are under way at once, 1: each part is awaited twice
 *   index arrays (FABRIC_WORK_SCAN)     each lane makes rows loads, in_flight of them at once; lines says how many
 *                                       lines of 128 B a load of the 32 lanes touches
 *
 * and beside its bytes a row waits steps times for memory, one wait after another: a token number that says where the
 * row lies, a scale, a top-k choice. */
enum fabric_engine { FABRIC_LDST, FABRIC_BULK };

/* Who must see a word that a worker adds to. */
enum fabric_scope {
    FABRIC_BLOCK,                       /* the warps of its SM: a word in shared memory */
    FABRIC_DEVICE,                      /* all of its GPU: an atomic, released after the stores before it */
    FABRIC_ALONG,                       /* the same, by another lane at once with the add before this one */
};

struct fabric_pattern {
    enum fabric_engine engine;
    uint8_t  width_bytes;               /* LDST: of a lane's access; 0: 16 */
    uint8_t  in_flight;                 /* 0: 1 */
    uint8_t  turns;                     /* BULK; 0: 1 */
    uint8_t  steps;
    uint8_t  lines;                     /* 0: 1 */
    uint8_t  source_line;               /* BULK: where in a 128-byte line rows read start; those written start on one */
    uint8_t  shared_bytes;              /* BULK: static shared memory, behind which its buffers lie */
    bool     packed;                    /* BULK, store(): the target's rows lie one behind another, not in lines */
    bool     shifted;                   /* BULK: rows change their place in a line on the way, by all distances */
    bool     staged;                    /* BULK, store() and copies: it lies in the warp's shared memory already */
    bool     fresh;                     /* what is read was written just before by this GPU, or by a peer into it */
    uint64_t footprint_bytes;           /* LDST, BULK: what the whole kernel reads so; 0: little */
};

enum { FABRIC_SPANS_MAX = 3 };

struct fabric_span {
    const void *data;
    uint32_t    size_bytes;
};

/* A run of bytes at a peer, gathered from spans, or made in place by fill().  charge_bytes is what the link carries; it
 * equals the bytes written in a live world and is more where the simulated world stores only part of the payload. */
struct fabric_write {
    uint64_t           target_offset;   /* in the peer's heap */
    uint64_t           charge_bytes;
    uint16_t           peer;
    uint16_t           queue;           /* QP of this peer; ignored by store() */
    uint8_t            span_count;      /* put(): at most 1 */
    uint8_t            flags;           /* FABRIC_DEFER */
    uint8_t            warps;           /* of the worker's, that do it side by side with its next ones; 0: all */
    uint8_t            rows;            /* token rows in it, for costs by row; 0 counts as 1 */
    struct fabric_span span[FABRIC_SPANS_MAX];
    /* store(), instead of spans: writes fill_bytes to target, and reads none of them.  A store() that returns 0 has
     * called it once: bytes that come from many places go straight to the peer, as a kernel's stores do. */
    void             (*fill)(const void *context, uint8_t *target);
    const void        *context;
    uint32_t           fill_bytes;
    const struct fabric_pattern *pattern;
};

/* A run of bytes of a peer, brought to the own heap.  charge_bytes as of a write. */
struct fabric_read {
    uint64_t source_offset;   /* in the peer's heap */
    void    *target;          /* in the own heap */
    uint64_t charge_bytes;
    uint32_t size_bytes;
    uint16_t peer;
    uint16_t queue;           /* QP of this peer; ignored by NVLink */
};

enum { FABRIC_DEFER = 1 };

struct fabric_signal {
    uint64_t value;       /* what the word becomes, or what is added to it */
    uint32_t word;        /* of the peer */
    uint16_t peer;
    uint16_t queue;       /* where peer is reached by RDMA: the QP, in order with its puts */
    bool     add;         /* the word is a counter */
    bool     release;     /* the kernel releases here, also where this worker has stored nothing: others may have */
};

enum fabric_work_kind {
    FABRIC_WORK_CAST,     /* quantise rows */
    FABRIC_WORK_COPY,     /* move rows within local memory */
    FABRIC_WORK_REDUCE,   /* sum rows in FP32 */
    FABRIC_WORK_SCAN,     /* read index arrays, count, prefix sums */
    FABRIC_WORK_COMPUTE,  /* arithmetic of another kernel, for busy_ps if nobody else is on the SM */
    FABRIC_WORK_STAGE,    /* bring rows into the warp's shared memory with the bulk copy engine, once what was stored
                           * from there is written; here they are read when they are stored */
    FABRIC_WORK_PEEK,     /* read a word in a peer's memory; here its own copy is read, which the peer raised */
};

struct fabric_work {
    enum fabric_work_kind kind;
    bool     weighted;          /* sums: of rows times a weight each */
    uint16_t warps;             /* of the worker's, that do it side by side with its next ones; 0: all */
    uint32_t rows;              /* that warps take one each: of tokens, or stretches of one; scans: loads of a lane */
    const struct fabric_pattern *pattern;
    uint64_t read_bytes, write_bytes;
    uint64_t busy_ps;           /* COMPUTE */
    void   (*run)(void *context, uint64_t argument);   /* does it; not called where payload is not stored */
    void    *context;
    uint64_t argument;
};

struct fabric_ops {
    const char *name;
    uint64_t (*now_ps)(const struct fabric *f);
    int  (*store)(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write);
    int  (*put)(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write);
    int  (*signal)(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal);
    int  (*put_signal)(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                       const struct fabric_signal *signal);
    int  (*get)(struct fabric *f, struct fabric_worker *w, const struct fabric_read *read);
    void (*signal_add)(struct fabric *f, struct fabric_worker *w, uint32_t word, uint64_t addend,
                       enum fabric_scope scope);
    int  (*flush)(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue);
    void (*work)(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work);
    void (*watch)(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count, uint64_t least);
};

struct fabric {
    const struct fabric_ops *ops;
    uint64_t *words;               /* own signal words; other ranks raise them: read with fabric_load() */
    uint8_t  *heap;                /* own heap */
    uint64_t  heap_bytes;
    uint32_t  word_count;
    uint16_t  rank, rank_count;
    uint16_t  ranks_per_node;      /* ranks of one NVLink domain are consecutive */
    uint16_t  queue_count;         /* QPs to each peer */
    bool      nvlink_disabled;     /* same-node peers by RDMA too (the public tests' --disable-nvlink) */
    bool      payload;             /* rows are stored and moved; false: only sizes and control data are */
};

static inline enum fabric_path fabric_path(const struct fabric *f, uint16_t peer)
{
    if (peer == f->rank) return FABRIC_SELF;
    if (f->nvlink_disabled) return FABRIC_RDMA;
    const bool one_node = f->rank_count <= f->ranks_per_node;       /* no divisions */
    return one_node || peer / f->ranks_per_node == f->rank / f->ranks_per_node ? FABRIC_NVLINK : FABRIC_RDMA;
}

/* For the worlds: how many bytes are written, and to write them. */
static inline uint64_t fabric_write_bytes(const struct fabric_write *write)
{
    uint64_t size_bytes = write->fill ? write->fill_bytes : 0;
    for (uint32_t i = 0; i < write->span_count; i++) size_bytes += write->span[i].size_bytes;
    return size_bytes;
}

static inline void fabric_write_copy(const struct fabric_write *write, uint8_t *target)
{
    if (write->fill) write->fill(write->context, target);
    for (uint32_t i = 0; i < write->span_count; i++) {
        const struct fabric_span *span = &write->span[i];
        if (span->size_bytes) memcpy(target, span->data, span->size_bytes);
        target += span->size_bytes;
    }
}

/* The current value of an own word; what was written before the signal that raised it is visible after. */
static inline uint64_t fabric_load(const struct fabric *f, uint32_t word)
{
    return __atomic_load_n(&f->words[word], __ATOMIC_ACQUIRE);
}

static inline uint64_t fabric_now_ps(const struct fabric *f) { return f->ops->now_ps(f); }

FABRIC_MUST_CHECK static inline int fabric_store(struct fabric_worker *w, const struct fabric_write *write)
{
    return w->fabric->ops->store(w->fabric, w, write);
}

FABRIC_MUST_CHECK static inline int fabric_put(struct fabric_worker *w, const struct fabric_write *write)
{
    return w->fabric->ops->put(w->fabric, w, write);
}

FABRIC_MUST_CHECK static inline int fabric_signal(struct fabric_worker *w, const struct fabric_signal *signal)
{
    return w->fabric->ops->signal(w->fabric, w, signal);
}

/* signal->peer and queue are write's. */
FABRIC_MUST_CHECK static inline int fabric_put_signal(struct fabric_worker *w, const struct fabric_write *write,
                                                      const struct fabric_signal *signal)
{
    return w->fabric->ops->put_signal(w->fabric, w, write, signal);
}

FABRIC_MUST_CHECK static inline int fabric_get(struct fabric_worker *w, const struct fabric_read *read)
{
    return w->fabric->ops->get(w->fabric, w, read);
}

/* Adds to an own, private word, in order after this worker's earlier work. */
static inline void fabric_signal_add(struct fabric_worker *w, uint32_t word, uint64_t addend, enum fabric_scope scope)
{
    w->fabric->ops->signal_add(w->fabric, w, word, addend, scope);
}

/* 0 once every put and signal of this rank on (peer, queue) is complete at the peer, and every get here; -EAGAIN
 * before. */
FABRIC_MUST_CHECK static inline int fabric_flush(struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    return w->fabric->ops->flush(w->fabric, w, peer, queue);
}

static inline void fabric_work(struct fabric_worker *w, const struct fabric_work *work)
{
    w->fabric->ops->work(w->fabric, w, work);
}

/* Declares, before the launch, that a change of these own words is a reason to step this worker.
 * A word may have several watchers; watches hold until the end of the kernel. */
static inline void fabric_watch(struct fabric_worker *w, uint32_t word, uint32_t word_count)
{
    w->fabric->ops->watch(w->fabric, w, word, word_count, 0);
}

/* The same of one word for a worker that does nothing with it before it is at least this. */
static inline void fabric_watch_least(struct fabric_worker *w, uint32_t word, uint64_t least)
{
    w->fabric->ops->watch(w->fabric, w, word, 1, least);
}

#define fabric_container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#endif
