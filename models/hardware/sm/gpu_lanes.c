/* gpu_lanes.c - when operations of a warp group run, and with whom it shares its SM. */
#include "models/hardware/sm/gpu.h"

/* Since when the worker's moves share the SM with those of others: it last began to, or it begins now. */
static uint64_t moved_since_ps(const struct world_rank *rank, const struct world_worker *ww)
{
    const uint64_t from_ps = ww->mover ? rank->mover[ww->mover - 1].from_ps : 0;
    return from_ps ? from_ps : sim_now_ps(rank->world->sim);
}

/* Warp groups of one SM move rows in lockstep phases (a chunk, a barrier, a release), and what was measured
 * is that each then takes as long as if all that are at it shared the SM evenly, whether or not another is
 * just between two chunks. Those are at it that moved rows since this one last began to. */
uint64_t gpu_share_ps(struct world_rank *rank, struct world_worker *ww, uint64_t service_ps)
{
    const uint64_t since_ps = moved_since_ps(rank, ww);
    uint32_t groups = 1;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next)
        groups += i != ww->mover && rank->mover[i - 1].to_ps > since_ps;
    return groups * service_ps;
}

/* Groups that are not in step: each of the others takes its share for the part of its turns that it moves
 * rows.  So does this group where not even its warps are in step, since each looks for its rows itself. */
uint64_t gpu_mixed_ps(struct world_rank *rank, struct world_worker *ww, bool sought, uint64_t service_ps)
{
    const uint64_t since_ps = moved_since_ps(rank, ww);
    const uint32_t part = ww->mover ? rank->mover[ww->mover - 1].moving_256 : 0;
    uint64_t parts = sought && part ? part : GPU_WHOLE;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next) {
        const struct mover *m = &rank->mover[i - 1];
        if (i != ww->mover && m->to_ps > since_ps) parts += m->moving_256 ? m->moving_256 : GPU_WHOLE;
    }
    return service_ps * parts / GPU_WHOLE;
}

/* Its place among the SM's movers, made when it first moves rows. */
static struct mover *mover_of(struct world_worker *ww)
{
    struct world_rank *rank = worker_rank(ww);
    if (ww->mover) return &rank->mover[ww->mover - 1];
    rank->mover = entries_grow(rank->mover, rank->mover_count, &rank->mover_max, sizeof rank->mover[0]);
    rank->mover[rank->mover_count++] = (struct mover){ .sm_next = rank->sm_first[ww->sm] & RANK_WORKERS_MAX };
    rank->sm_first[ww->sm] = ww->mover = rank->mover_count;
    return &rank->mover[ww->mover - 1];
}

void gpu_moved_note(struct world_worker *ww, uint64_t from_ps, uint64_t to_ps)
{
    struct mover *m = mover_of(ww);
    if (m->from_ps && from_ps > m->from_ps && m->to_ps > m->from_ps) {
        const uint64_t part = 256 * (m->to_ps - m->from_ps) / (from_ps - m->from_ps);
        m->moving_256 = (uint32_t)(part < 1 ? 1 : part > 256 ? 256 : part) & 0x3ff;
    }
    m->from_ps = from_ps;
    m->to_ps = to_ps;
}
