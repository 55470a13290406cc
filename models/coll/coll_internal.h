/* coll_internal.h - private to models/coll: the table of functions that coll.c calls a kernel by, and the functions
 * that kernels share (coll_parts.c). */
#ifndef MODELS_COLL_COLL_INTERNAL_H
#define MODELS_COLL_COLL_INTERNAL_H

#include <assert.h>
#include <errno.h>
#include "models/coll/coll.h"

struct coll_rank;

struct coll_kernel_ops {
    const char *const *phase;   /* names of the kernel's phases; NULL after the last */
    const char *const *overlap; /* the names while arithmetic runs; NULL: the kernel never runs beside it */
    size_t rank_bytes;          /* size of the kernel's rank struct, which begins with a struct coll_rank */
    /* What the kernel refuses besides coll_options_refuse(); NULL: nothing. */
    const char *(*refuse)(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size);
    void (*needs)(const struct coll_job *job, bool payload, struct fabric_needs *needs);
    void (*init)(struct coll_rank *r);   /* NULL: zeroed memory is right */
    void (*fill)(struct coll_rank *r);   /* makes this iteration's inputs, at a time when no rank reads or writes
                                          * them */
    void (*launch)(struct coll_rank *r); /* adds the workers of r->phase */
    void (*traffic)(const struct coll_rank *r, uint32_t phase, struct kernel_traffic *traffic);
    uint32_t (*outputs)(struct coll_rank *r, struct kernel_tensor *tensor, uint32_t max);
    uint32_t (*check)(const struct coll_rank *r, char *text, size_t text_size);
    bool (*absent)(const struct coll_options *o, uint32_t rank, uint32_t phase); /* whether the rank takes no part in
                                                                                  * the phase; NULL: every rank takes
                                                                                  * part */
};

extern const struct coll_kernel_ops coll_alltoallv, coll_nccl_messages, coll_allgather, coll_allgather_streams,
    coll_allgather_leader, coll_ring_gather, coll_reducescatter, coll_allreduce, coll_ag_rs, coll_p2p, coll_p2p_issued;

/* The first COLL_WORDS signal words are the barrier's.  The kernel's words follow. */
enum { COLL_SYNC_ROUNDS = 16, COLL_WORDS = COLL_SYNC_ROUNDS };
enum { COLL_CHUNK_BYTES = 64 << 10 }; /* the most bytes that one store carries */

struct coll_sync {
    struct fabric_worker worker;
    uint64_t generation;   /* the value that the barriers' words get next */
    uint32_t posted, seen; /* in this barrier: how many signals have been sent; how many have come */
};

struct coll_compute {
    struct fabric_worker worker;
    struct site_given *length;
};

struct coll_rank {
    struct kernel_rank kernel;
    const struct coll_kernel_ops *ops;
    const struct coll_options *options;
    const struct coll_job *job;
    struct fabric *fabric;
    uint32_t phase;     /* of the kernel's own phases, the one that was launched last */
    uint32_t iteration; /* from 1 */
    uint32_t turn;      /* how often the kernel's phases were launched: once an iteration, twice if they also run with
                         * arithmetic */
    struct coll_sync sync;
    struct coll_compute *compute; /* [compute_sms] */
    struct site_given compute_length;
    struct kernel_launch launch;
    uint32_t worker_max;
};

/* Adds a worker to the launch in preparation. */
void coll_worker_add(struct coll_rank *r, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                     uint32_t warps);

/* The size of a rank's block, and the distance in memory from one rank's block to the next. */
static inline uint64_t coll_size_of(const struct coll_options *o, uint32_t rank)
{
    return o->rows ? o->rows[rank] * o->size_bytes : o->size_bytes;
}
uint64_t coll_block_bytes(const struct coll_options *o);

/* The all-gathers share these functions.  coll_gather_offset() gives the heap offset of a rank's block.
 * coll_gather_fill() makes the bytes of this rank's own block.  coll_gather_outputs() returns the outputs, and
 * coll_gather_check() checks them. */
uint64_t coll_gather_offset(const struct coll_options *o, uint32_t rank);
void coll_gather_fill(struct coll_rank *base);
uint32_t coll_gather_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max);
uint32_t coll_gather_check(const struct coll_rank *base, char *text, size_t text_size);

/* Both all-to-allvs use these functions.  coll_messages_fill() makes the bytes that the rank sends, at the start of the
 * heap, in the order of job->edges.  The bytes that the rank receives lie behind these, in the order of sources. */
void coll_messages_fill(struct coll_rank *base);
uint32_t coll_messages_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max);
uint32_t coll_messages_check(const struct coll_rank *base, char *text, size_t text_size);

/* Adds the barrier's worker. */
void coll_sync_launch(struct coll_rank *r);

/* coll_pattern_fill() makes bytes that depend on nothing but three numbers: rank, place and iteration.  The kernel
 * decides what a place is.  So any rank can check bytes that another rank made.  coll_pattern_check() returns how many
 * bytes are wrong, and *at gets the index of the first. */
void coll_pattern_fill(uint8_t *data, uint64_t size_bytes, uint32_t rank, uint32_t place, uint32_t iteration);
uint64_t coll_pattern_check(const uint8_t *data, uint64_t size_bytes, uint32_t rank, uint32_t place, uint32_t iteration,
                            uint64_t *at);

/* Returns the index of the first byte of `found` that differs from the sum of all ranks' bytes for a place; size_bytes
 * if none differs. */
uint64_t coll_sum_check(const struct coll_rank *r, const uint8_t *found, uint64_t size_bytes, uint32_t place);

/* A write of bytes from one place of this rank's heap to a place of the peer's. */
struct fabric_write coll_write(const struct fabric *f, uint64_t from, uint16_t peer, uint64_t to, uint64_t size_bytes,
                               enum site site);
/* Stores the next bytes, at most COLL_CHUNK_BYTES, of those that coll_write() writes, from *done on, and advances
 * *done.  Does nothing if all size_bytes are stored. */
int coll_store_some(struct fabric_worker *w, uint64_t from, uint16_t peer, uint64_t to, uint64_t size_bytes,
                    uint64_t *done);

/* The step of a worker whose store or put returned rc, and which has more to do. */
static inline enum worker_step coll_step_of(int rc)
{
    assert(rc == 0 || rc == -EAGAIN || rc == -EINPROGRESS);
    return rc == -EAGAIN ? WORKER_WAIT : WORKER_MORE;
}

/* How many ranks a node of the fabric has.  If NVLink is disabled, every rank is a node of its own. */
static inline uint32_t coll_peers(const struct fabric *f)
{
    const uint32_t most = f->ranks_per_node < f->rank_count ? f->ranks_per_node : f->rank_count;
    return f->nvlink_disabled ? 1 : most;
}

static inline uint64_t coll_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t coll_align(uint64_t n) { return (n + 63) / 64 * 64; }

#endif
