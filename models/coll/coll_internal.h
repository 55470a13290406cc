/* coll_internal.h - private to models/coll: how a kernel plugs into coll.c, and the parts that kernels share
 * (coll_parts.c). */
#ifndef MODELS_COLL_COLL_INTERNAL_H
#define MODELS_COLL_COLL_INTERNAL_H

#include "models/coll/coll.h"

struct coll_rank;

struct coll_kernel_ops {
    const char *const *phase;   /* names of its phases; NULL after the last */
    const char *const *overlap; /* their names while arithmetic runs; NULL: the kernel allows none */
    size_t rank_bytes;          /* size of its rank struct, which begins with a struct coll_rank */
    uint32_t words;             /* how many words the kernel has; needs() puts them after the family's words */
    const char *(*refuse)(const struct coll_options *o, const struct edges *edges, char *text, size_t text_size);
    void (*needs)(const struct coll_job *job, bool payload, struct fabric_needs *needs);
    void (*init)(struct coll_rank *r);
    void (*fill)(struct coll_rank *r);                   /* makes this iteration's inputs, while no rank reads or writes
                                                          * them */
    void (*launch)(struct coll_rank *r, uint32_t phase); /* adds the workers of a phase */
    void (*traffic)(const struct coll_rank *r, uint32_t phase, struct kernel_traffic *traffic);
    uint32_t (*outputs)(struct coll_rank *r, struct kernel_tensor *tensor, uint32_t max);
    uint32_t (*check)(const struct coll_rank *r, char *text, size_t text_size);
    bool (*absent)(const struct coll_options *o, uint32_t rank, uint32_t phase); /* NULL: no rank ever is */
};

extern const struct coll_kernel_ops coll_alltoallv, coll_nccl_messages, coll_allgather, coll_allgather_streams,
    coll_allgather_leader, coll_ring_gather, coll_reducescatter, coll_allreduce, coll_ag_rs, coll_p2p, coll_p2p_issued;

/* The barrier's words come first, then the kernel's. */
enum { COLL_SYNC_ROUNDS = 16, COLL_WORDS = COLL_SYNC_ROUNDS };
enum { COLL_CHUNK_BYTES = 64 << 10 }; /* bytes that a step stores at most */

struct coll_sync {
    struct fabric_worker worker;
    uint64_t generation;   /* the value that the barriers' words get next */
    uint32_t posted, seen; /* rounds of this barrier: posted; answered */
};

struct coll_compute {
    struct fabric_worker worker;
    uint64_t left_ps;
};

struct coll_rank {
    struct kernel_rank kernel;
    const struct coll_kernel_ops *ops;
    const struct coll_options *options;
    const struct coll_job *job;
    struct fabric *fabric;
    uint32_t iteration; /* from 1 */
    uint32_t turn;      /* how often the kernel's phases were launched: twice an iteration if they run again with
                         * arithmetic */
    struct coll_sync sync;
    struct coll_compute *compute; /* [compute_sms] */
    struct kernel_launch launch;
    uint32_t worker_max;
};

/* Adds a worker to the launch in preparation. */
void coll_worker_add(struct coll_rank *r, struct fabric_worker *w, const struct worker_role *role, uint32_t sm,
                     uint32_t warps);

/* Shared by the all-gathers: where a rank's block is in the heap; the making of the rank's own block; the outputs;
 * their check. */
uint64_t coll_gather_offset(const struct coll_options *o, uint32_t rank);
void coll_gather_fill(struct coll_rank *base);
uint32_t coll_gather_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max);
uint32_t coll_gather_check(const struct coll_rank *base, char *text, size_t text_size);

/* For both all-to-allvs.  coll_messages_fill() fills the heap with what the rank sends, in the order of its list.  What
 * it receives follows in the heap, by source. */
void coll_messages_fill(struct coll_rank *base);
uint32_t coll_messages_outputs(struct coll_rank *base, struct kernel_tensor *tensor, uint32_t max);
uint32_t coll_messages_check(const struct coll_rank *base, char *text, size_t text_size);

/* Adds the barrier's worker. */
void coll_sync_launch(struct coll_rank *r);

/* Fills in the bytes that a rank makes for a place in an iteration.  The kernel numbers the places.  A reader can
 * compute the bytes from these three numbers.  The check returns how many bytes are wrong; *at is the first of them. */
void coll_pattern_fill(uint8_t *data, uint64_t size_bytes, uint32_t rank, uint32_t place, uint32_t iteration);
uint64_t coll_pattern_check(const uint8_t *data, uint64_t size_bytes, uint32_t rank, uint32_t place, uint32_t iteration,
                            uint64_t *at);

/* The first byte at which `found` differs from the sum of all ranks' bytes for a place; size_bytes if none does. */
uint64_t coll_sum_check(const struct coll_rank *r, const uint8_t *found, uint64_t size_bytes, uint32_t place);

/* Stores the next bytes of source, at most COLL_CHUNK_BYTES, from *done on, and advances *done.  source NULL: only
 * sizes matter.  Does nothing if all size_bytes are stored. */
int coll_store_some(struct fabric_worker *w, uint16_t peer, const uint8_t *source, uint64_t target_offset,
                    uint64_t size_bytes, uint64_t *done);

static inline uint64_t coll_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t coll_align(uint64_t n) { return (n + 63) / 64 * 64; }

#endif
