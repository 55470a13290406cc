/* gpu_lanes.c - which warp groups share an SM, and how much longer each then takes. */
#include "models/hardware/sm/gpu.h"

/* The time since which the worker has shared the SM with other workers that move rows.  That is when it last began to
 * move rows.  If it has moved none yet, it is the current time. */
static uint64_t moved_since_ps(const struct world_rank *rank, const struct world_worker *ww)
{
    const uint64_t from_ps = ww->mover ? rank->mover[ww->mover - 1].from_ps : 0;
    return from_ps ? from_ps : sim_now_ps(rank->world->sim);
}

/* Warp groups of one SM move rows in lockstep phases (a chunk, a barrier, a release).  Measurements show that each
 * group then takes as long as if all of them shared the SM evenly, even while another is between two chunks.  A group
 * counts if it has moved rows since this group last began to move rows. */
uint64_t gpu_share_ps(struct world_rank *rank, struct world_worker *ww, uint64_t service_ps)
{
    const uint64_t since_ps = moved_since_ps(rank, ww);
    uint32_t groups = 1;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next)
        groups += i != ww->mover && rank->mover[i - 1].to_ps > since_ps;
    return groups * service_ps;
}

/* How many groups share the SM where groups are not in step.  Another group counts for the fraction of its cycle in
 * which it moves rows.  So does this group, if each of its warps finds its rows itself, because then not even its warps
 * are in step.  Warps do not move the bulk engine's rows: loads and stores meet these only at the SM's port. */
uint64_t gpu_groups_256(const struct world_rank *rank, const struct world_worker *ww, const struct loop *p)
{
    const uint64_t since_ps = moved_since_ps(rank, ww);
    const uint32_t part = ww->mover ? rank->mover[ww->mover - 1].moving_256 : 0;
    uint64_t parts = p->sought && part ? part : GPU_WHOLE;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next) {
        const struct mover *m = &rank->mover[i - 1];
        if (i == ww->mover || m->to_ps <= since_ps || (m->bulk && p->engine != LOOP_BULK)) continue;
        parts += m->moving_256 ? m->moving_256 : GPU_WHOLE;
    }
    return parts;
}

uint64_t gpu_scanning_256(const struct world_rank *rank, const struct world_worker *ww)
{
    const uint64_t since_ps = moved_since_ps(rank, ww);
    uint64_t parts = GPU_WHOLE;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next) {
        const struct mover *m = &rank->mover[i - 1];
        if (i != ww->mover && m->to_ps > since_ps) parts += m->scanning_256;
    }
    return parts;
}

/* Makes the worker's entry among the SM's movers, when it first moves rows. */
static __attribute__((noinline)) void mover_add(struct world_worker *ww, bool bulk, uint64_t from_ps, uint64_t to_ps)
{
    struct world_rank *rank = worker_rank(ww);
    rank->mover = entries_grow(rank->mover, rank->mover_count, &rank->mover_max, sizeof rank->mover[0]);
    rank->mover[rank->mover_count++] = (struct mover){
        .from_ps = from_ps, .to_ps = to_ps, .sm_next = rank->sm_first[ww->sm] & RANK_WORKERS_MAX, .bulk = bulk
    };
    rank->sm_first[ww->sm] = ww->mover = rank->mover_count;
}

static uint32_t part_256(uint64_t part_ps, uint64_t turn_ps)
{
    return part_ps < turn_ps ? (uint32_t)(GPU_WHOLE * part_ps / turn_ps) : GPU_WHOLE;
}

void gpu_moved_note(struct world_worker *ww, bool bulk, uint64_t from_ps, uint64_t to_ps)
{
    if (!ww->mover) {
        mover_add(ww, bulk, from_ps, to_ps);
        return;
    }
    struct mover *m = &worker_rank(ww)->mover[ww->mover - 1];
    uint32_t moving_256 = m->moving_256, scanning_256 = m->scanning_256;
    if (m->from_ps && from_ps > m->from_ps && m->to_ps > m->from_ps) {
        const uint64_t turn_ps = from_ps - m->from_ps;
        moving_256 = part_256(m->to_ps - m->from_ps, turn_ps);
        if (!moving_256) moving_256 = 1;
        scanning_256 = m->scanned ? part_256((uint64_t)m->scanned * MOVER_SCAN_PS, turn_ps) : 0;
    }
    *m = (struct mover){ .from_ps = from_ps,
                         .to_ps = to_ps,
                         .sm_next = m->sm_next,
                         .moving_256 = moving_256 & 0x3ff,
                         .bulk = bulk,
                         .scanning_256 = scanning_256 & 0x1ff };
}

void gpu_scanned_note(struct world_worker *ww, uint64_t duration_ps)
{
    if (!ww->mover) return;
    struct mover *m = &worker_rank(ww)->mover[ww->mover - 1];
    const uint64_t units = m->scanned + duration_ps / MOVER_SCAN_PS, most = (1u << 22) - 1;
    m->scanned = (units < most ? units : most) & most;
}
