/* bulk.h - the bulk copy engine of an SM: rows into shared memory, out of it, and over the links.  Private to
 * models/hardware.
 *
 * bulk.c says how long copies take.  bulk_turns.c lets stores wait for their CPC's share of the links, where the
 * cluster names CPCs (egress.h). */
#ifndef MODELS_HARDWARE_BULK_H
#define MODELS_HARDWARE_BULK_H

#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"
#include "models/kernels/loops.h"
#include "sim/rng.h"
#include "sim/sim.h"

struct world;
struct world_rank;
struct world_worker;

enum { GPU_LINE_BYTES = 128 }; /* of the caches; the words `chase` and `lined` count in them */

/* ---- bulk.c, for the stepped worker ---- */

/* A load of rows into shared memory: the engine's time, the latency of a row, and the soonest end. */
struct bulk_load {
    uint64_t engine_ps, in_ps, end_ps;
};
struct bulk_load bulk_load_of(struct world_rank *rank, const struct fabric_work *work, const struct loop *p,
                              uint64_t start_ps);
/* Brings rows into shared memory from start_ps on, after the worker's earlier stores from there are written.  Returns
 * the time at which the worker may go on. */
uint64_t bulk_stage(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start_ps);
/* Stores bytes of shared memory at a peer or in the GPU's own memory. off_line is how far the two places differ in
 * their 128-byte lines.  Returns when the engine has taken the bytes, so that the worker may go on.  *linked_ps is
 * when the links and the peer's memory have taken them; a slowed GPU does not delay that.  It is 0 for the GPU's own
 * memory. */
uint64_t bulk_store(struct world_rank *rank, uint16_t peer, uint32_t off_line, uint64_t size_bytes, uint64_t start_ps,
                    uint64_t *linked_ps);
/* The off_line of bulk_store() between the stepped worker's buffer in shared memory and a loop's target. */
uint32_t bulk_off_line(struct world_worker *ww, const struct loop *p);
/* Moves rows of a loop that words describe, not a program.  `busy` warps do it, each with a buffer in shared memory.
 * They copy rows through the buffer, or sum loads into it.  Memory serves all rows at once, and the latency of the
 * first row is added.  Returns when the last row is moved. */
uint64_t bulk_rows(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start_ps,
                   uint32_t busy);
/* How many extra passes, in eighths, the engine takes for rows of a loop because they do not begin at lines.  Packed
 * rows lie at all distances from lines. */
uint32_t bulk_in_passes_8(const struct world *w, const struct loop *p);
uint32_t bulk_out_passes_8(const struct world *w, const struct loop *p);
/* How long the engine takes for a store to a peer, with off_line as for bulk_store().  A row that is off its line takes
 * extra passes, as a loaded one does. */
uint64_t bulk_put_ps(const struct world *w, uint32_t off_line, uint64_t size_bytes);
/* Returns how long the links out of a GPU take for a store by the bulk engine, and counts the time of its bytes.  If
 * off_line is not 0, they take longer, and the links into the peer take longer by the same time. */
uint64_t bulk_link_take_ps(struct world_rank *from, const struct world_rank *to, uint32_t off_line,
                           uint64_t size_bytes);
/* Takes a store, by the engine or by a warp, into the target GPU, and notes the flows of both ends.  Returns when the
 * last byte is in. */
uint64_t bulk_link_arrive(struct world_rank *from, struct world_rank *to, uint64_t now_ps, uint64_t sent_ps,
                          uint32_t off_line, uint64_t size_bytes);
/* Returns when the warp learns that its store is written.  The store left the SM at left_ps.  own: it goes into the
 * GPU's own memory. */
uint64_t bulk_written_ps(const struct world *w, uint64_t left_ps, bool own);

/* ---- bulk_turns.c ---- */

/* A request that waits for its SM's engine: a store, or a load from the GPU's own memory. */
struct bulk_turn {
    struct bulk_turn *next;           /* of the same warp */
    struct bulk_turn *ahead, *behind; /* of a warp's first request: those of the warps before and behind it */
    struct world_worker *ww;
    uint64_t size_bytes;
    uint64_t came_ps;
    struct bulk_load load;
    uint32_t off_line;
    uint16_t peer;
    bool loads;
};
struct bulk_engine {
    struct sim_event event; /* runs when the first request may have left the engine */
    struct world_rank *rank;
    struct bulk_turn *first, *last; /* the first requests of the first and of the last warp */
    uint64_t mark;                  /* the first store's mark (egress.h) */
    uint64_t begun_ps, taken_ps; /* of the last store: when it began; when the engine, but not yet the links, is done */
    uint64_t away_bytes;         /* of all its stores to peers */
    struct rng rng;
    bool idle; /* the first request has not begun */
};

/* Queues a store of the stepped worker at its SM's engine.  The store is the last operation of its step.  The worker is
 * parked until its last bulk_turn has ended. */
void bulk_turn_take(struct world_worker *ww, uint16_t peer, uint32_t off_line, uint64_t size_bytes);
/* Queues a load of the stepped worker in the same way. */
void bulk_turn_load(struct world_worker *ww, uint64_t size_bytes, struct bulk_load load);
/* How long a load, an atomic or a word of this SM waits now for stores that the links hold up. */
uint64_t bulk_ahead_ps(struct world_rank *rank, uint16_t sm);
sim_handler bulk_engine_run; /* EVENT_STORED */

#endif
