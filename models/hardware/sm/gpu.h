/* gpu.h - private to models/hardware/sm: how the files in this folder see the world: the warps of a group, the rows
 * that they move, and the cost of both.
 *
 * All times are picoseconds of the simulated clock.  A function of this header whose name ends in _ps returns a
 * duration.  It changes nothing unless its comment says so. */
#ifndef MODELS_HARDWARE_GPU_H
#define MODELS_HARDWARE_GPU_H

#include "models/hardware/world/world_internal.h"

#include <assert.h>

enum { GPU_WARP_LANES = 32, GPU_WHOLE = 256 };

/* The rate of bytes out of the SM alone.  `both` is the rate of bytes that first come in and then go out. */
static inline rate_q20 gpu_rate_without(rate_q20 both, rate_q20 in) { return both > in ? both - in : both; }

static inline uint64_t gpu_ceiling(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

/* Makes an SM or the memory of a GPU, which may be slowed, serve a request from from_ps on.  Returns when a GPU that is
 * not slowed would be done.  The caller passes that time to gpu_lane_end(), which stretches it. */
static inline uint64_t own_reserve(const struct world_rank *rank, struct port *port, uint64_t from_ps,
                                   uint64_t service_ps, uint64_t bytes)
{
    const uint64_t done_ps = port_reserve(port, from_ps, rank_slowed_ps(rank, service_ps), bytes);
    return rank->slow == WORLD_SLOW_ONE ? done_ps : from_ps + (done_ps - from_ps) * WORLD_SLOW_ONE / rank->slow;
}

/* The time that work of duration_ps takes on a rank's NVLink.  slow: its egress_slow or ingress_slow. */
static inline uint64_t link_slowed_ps(uint32_t slow, uint64_t duration_ps)
{
    return slow == WORLD_SLOW_ONE ? duration_ps : duration_ps * slow / WORLD_SLOW_ONE;
}

/* Whether the port is busy at now_ps for a peer other than this one. */
static inline bool flows_others_busy(const struct flows *f, uint16_t peer, uint64_t now_ps)
{
    return (f->peer == peer ? f->others_end_ps : f->end_ps) > now_ps;
}

static inline void flows_note(struct flows *f, uint16_t peer, uint64_t end_ps)
{
    if (f->peer != peer) {
        f->others_end_ps = later(f->others_end_ps, f->end_ps);
        f->peer = peer;
    }
    f->end_ps = end_ps;
}

/* How many of `lanes` warps are busy with rows, if each warp takes one row at a time. */
static inline uint32_t gpu_warps_busy(uint32_t rows, uint32_t lanes) { return rows && rows < lanes ? rows : lanes; }

/* Operations of one step run at the same time on different warps.  An operation for which too few warps are free begins
 * when the earlier ones have ended. gpu_lane_begin() returns when an operation on `warps` warps (0: all) begins, and
 * sets `lanes` to their number. gpu_lane_end() ends it at end_ps, the time for a GPU that is not slowed.
 * gpu_lane_end_from() stretches only the time from from_ps on, because a slowed GPU waits no longer than others for a
 * link or for earlier work. gpu_lane_reach() makes the operation wait until end_ps as well. */
static inline uint64_t gpu_lane_begin(struct world_worker *ww, uint32_t warps, uint32_t *lanes)
{
    struct stepping *now = &worker_rank(ww)->now;
    const uint32_t all = ww->worker->warps;
    *lanes = warps && warps < all ? warps : all;
    if (now->lane_warps + *lanes > all) {
        now->lane_start_ps = ww->cursor_ps;
        now->lane_warps = 0;
    }
    now->lane_warps = (uint16_t)(now->lane_warps + *lanes);
    return now->lane_start_ps;
}

static inline void gpu_lane_end_from(struct world_worker *ww, uint64_t from_ps, uint64_t end_ps)
{
    if (end_ps > from_ps) end_ps = from_ps + rank_slowed_ps(worker_rank(ww), end_ps - from_ps);
    worker_rank(ww)->now.last_end_ps = end_ps;
    if (end_ps > ww->cursor_ps) ww->cursor_ps = end_ps;
}

static inline void gpu_lane_end(struct world_worker *ww, uint64_t end_ps)
{
    gpu_lane_end_from(ww, worker_rank(ww)->now.lane_start_ps, end_ps);
}

static inline void gpu_lane_reach(struct world_worker *ww, uint64_t end_ps)
{
    if (end_ps > worker_rank(ww)->now.last_end_ps) gpu_lane_end_from(ww, end_ps, end_ps);
}

/* How far the first warp is behind the others, because of work that it alone had to do. */
static inline uint64_t worker_behind_ps(struct world_worker *ww)
{
    const uint64_t first_ps = worker_first_ps(ww);
    return first_ps > ww->cursor_ps ? first_ps - ww->cursor_ps : 0;
}

/* gpu_lanes.c.  How long rows take that need the SM for service_ps, if the SM's groups share it evenly.  This holds for
 * groups that are in step. */
uint64_t gpu_share_ps(struct world_rank *rank, struct world_worker *ww, uint64_t service_ps);
/* How many groups move rows on the SM, this one included, in 256ths.  Another group counts for the fraction of its
 * cycle in which it moves rows, and so does this group if its warps look for their rows themselves (`sought`).  Groups
 * whose rows the bulk engine moves count only for rows of the engine. */
uint64_t gpu_groups_256(const struct world_rank *rank, const struct world_worker *ww, const struct loop *p);
/* How many groups scan arrays at once, this one included, in 256ths.  Another group that moves rows counts for the
 * fraction of its cycle in which it scans. */
uint64_t gpu_scanning_256(const struct world_rank *rank, const struct world_worker *ww);
/* Notes that the group has scanned an array for duration_ps.  The group's cycle ends when it next moves rows. */
void gpu_scanned_note(struct world_worker *ww, uint64_t duration_ps);
/* Notes that the group, or the bulk engine for it, moves rows from from_ps to to_ps.  During that time it shares its SM
 * with other groups that move rows. */
void gpu_moved_note(struct world_worker *ww, bool bulk, uint64_t from_ps, uint64_t to_ps);

/* gpu_rows.c.  How long a wait of the loop for memory takes. */
uint64_t gpu_load_ps(const struct world *w, const struct loop *p);
/* How much longer than in the L2 a wait of the loop takes.  Data outside the L2 take more_ps longer, and other kernels
 * may slow the memory. */
uint64_t gpu_far_ps(const struct world *w, const struct loop *p, uint64_t more_ps);
/* How long memory takes to read and write rows.  Bytes outside the L2 move at the rate `far`.  The L2 holds as much as
 * it can of a footprint that has just been written. */
uint64_t gpu_memory_ps(const struct world *w, const struct loop *p, uint64_t read_bytes, uint64_t write_bytes,
                       rate_q20 far);
/* How much longer the first wait for an array takes.  Notes that the worker has waited for it. */
uint64_t gpu_touch_ps(struct world_worker *ww, const struct loop *p);

/* The time of waits that alone take chain_ps, one after another.  Their share of the SM takes share_ps.  The longer of
 * these two times hides most of the shorter one. */
uint64_t gpu_shared_ps(uint64_t chain_ps, uint64_t share_ps);
/* The same of waits for a part that others use all the time.  The larger its share of the time, the longer each wait
 * takes.  (Sums by 1 to 24 warps of an SM, 1 to 8 rows, in the L2 and outside: within 8 %; sums of 1 to 1024 tokens by
 * all SMs out of the L2: tests/accuracy/measured.) */
uint64_t gpu_contended_ps(uint64_t chain_ps, uint64_t share_ps);

/* gpu_program.c.  The cost of an operation's rows, if its loop is a program. row.warps warps of the worker move
 * them. */
struct gpu_rows {
    uint64_t ps, lead_ps; /* until all are moved; until the first byte leaves the SM */
    uint64_t served_ps;   /* how long they keep the SM busy */
    uint32_t ahead;       /* as struct warps_cost has it */
};
/* Whether the cost of these rows does not depend on what the SM's other warps do. */
static inline bool gpu_program_alone(const struct loop *p) { return p->engine == LOOP_BULK && !p->team; }

/* The price that was kept for the next row of the stepped worker.  NULL: it moves no rows in turn, has kept no fixed
 * price, or has a memory that other kernels slow. */
static inline const struct price *gpu_turn_price(const struct world_rank *rank)
{
    const struct world_worker *ww = rank->now.worker;
    if (!ww->in_turn || rank->pressure.load_ps || rank->pressure.store_ps) return NULL;
    const struct price *price = &worker_turns(ww)->price;
    return price->fixed ? price : NULL;
}

/* Keeps the price of a row for the worker's next rows, if it moves rows in turn and no other kernel slows the
 * memory. */
static inline void gpu_turn_note(const struct world_rank *rank, const struct price *price)
{
    const struct world_worker *ww = rank->now.worker;
    if (ww->in_turn && !rank->pressure.load_ps && !rank->pressure.store_ps) worker_turns(ww)->price = *price;
}
/* A number that tells GPUs apart.  It depends on their parameters and on what calls leave in the L2 (fabric_needs). */
uint64_t gpu_number(const struct cluster *c, uint64_t touched_bytes);
/* With whom an operation's rows share the SM. */
struct gpu_sharing {
    uint32_t groups_256; /* groups, in 256ths (gpu_groups_256()) */
    bool rounds;         /* rows take whole rounds of the group's warps; otherwise they count in proportion */
};
struct gpu_rows gpu_program(const struct world *w, const struct loop *p, const struct site_given *given,
                            struct loop_row row, struct gpu_sharing sharing, bool to_peer);
/* A group that moves rows alone on its SM takes whole rounds.  Others use what a last round leaves of the SM, and warps
 * that look for their rows themselves (`sought`) are in no rounds.  With whom a group's first rows share the SM is not
 * known yet.  (Clocked: tests/accuracy/measured.) */
static inline struct gpu_sharing gpu_program_sharing(const struct world_rank *rank, const struct loop *p)
{
    const struct world_worker *ww = rank->now.worker;
    if (gpu_program_alone(p)) return (struct gpu_sharing){ .groups_256 = GPU_WHOLE };
    const uint32_t groups_256 = (uint32_t)gpu_groups_256(rank, ww, p);
    return (struct gpu_sharing){ groups_256, groups_256 == GPU_WHOLE && ww->mover && !p->sought && !p->team };
}
/* Where the price with this key is kept: kernels move millions of rows of few prices.  The price is known if the place
 * has the key; otherwise the caller makes the price, and the place now has the key.  Under pressure of other kernels
 * the price is never known. */
struct kept_price *gpu_price_place(struct world_rank *rank, const struct price_key *key, bool *known);
/* How long a group takes for an array if all its warps go through the program for each row. */
uint64_t gpu_program_scan_ps(struct world_rank *rank, const struct world_worker *ww, const struct loop *p,
                             const struct site_given *given, uint32_t rows, uint32_t warps);

/* gpu_work.c.  Charges the stepped worker for work of this price that begins at `start` and waits for touch_ps first.
 * Returns when it is done. */
uint64_t gpu_priced_work_end(struct world_rank *rank, const struct price *price, uint64_t start, uint64_t touch_ps);
/* Returns when a cast, copy or sum is done that `lanes` warps begin at `start`. */
uint64_t gpu_work_end(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start,
                      uint32_t lanes);
/* The same for a scan, which uses no port. */
uint64_t gpu_scan_end(struct world_rank *rank, const struct fabric_work *work, const struct loop *p, uint64_t start,
                      uint32_t lanes);

#endif
