/* gpu_lanes.c - when operations of a warp group run, and with whom it shares its SM. */
#include "models/hardware/gpu.h"

uint64_t gpu_lane_begin(struct world_worker *ww, uint32_t warps, uint32_t *lanes)
{
    struct stepping *now = &ww->rank->now;
    const uint32_t all = ww->worker->warps;
    *lanes = warps && warps < all ? warps : all;
    if (now->lane_warps + *lanes > all) {
        now->lane_start_ps = ww->cursor_ps;
        now->lane_warps = 0;
    }
    now->lane_warps = (uint16_t)(now->lane_warps + *lanes);
    return now->lane_start_ps;
}

void gpu_lane_end(struct world_worker *ww, uint64_t end_ps)
{
    struct stepping *now = &ww->rank->now;
    const uint64_t start_ps = now->lane_start_ps;
    if (end_ps > start_ps) end_ps = start_ps + rank_slowed_ps(ww->rank, end_ps - start_ps);
    now->last_end_ps = end_ps;
    if (end_ps > ww->cursor_ps) ww->cursor_ps = end_ps;
}

/* Warp groups of one SM move rows in lockstep phases (a chunk, a barrier, a release), and what was measured
 * is that each then takes as long as if all that are at it shared the SM evenly, whether or not another is
 * just between two chunks. Those are at it that moved rows since this one last began to. */
uint64_t gpu_share_ps(struct world_rank *rank, struct world_worker *ww, uint64_t service_ps)
{
    const uint64_t since_ps = ww->moved_from_ps ? ww->moved_from_ps : sim_now_ps(rank->world->sim);
    uint32_t groups = 1;
    const uint32_t own = ww->worker->index + 1;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next)
        groups += i != own && rank->mover[i - 1].moved_to_ps > since_ps;
    return groups * service_ps;
}

/* The same of groups that are not in step: each of the others takes its share for the part of its turns that it moves
 * rows.  So does the own one where not even its warps are in step, since each looks for its rows itself. */
uint64_t gpu_mixed_ps(struct world_rank *rank, struct world_worker *ww, bool sought, uint64_t service_ps)
{
    enum { WHOLE = 256 };
    const uint64_t since_ps = ww->moved_from_ps ? ww->moved_from_ps : sim_now_ps(rank->world->sim);
    const uint32_t own = ww->worker->index + 1, part = rank->mover[own - 1].moving_256;
    uint64_t parts = sought && part ? part : WHOLE;
    for (uint32_t i = rank->sm_first[ww->sm]; i; i = rank->mover[i - 1].sm_next) {
        const struct mover *m = &rank->mover[i - 1];
        if (i != own && m->moved_to_ps > since_ps) parts += m->moving_256 ? m->moving_256 : WHOLE;
    }
    return service_ps * parts / WHOLE;
}

void gpu_moved_note(struct world_worker *ww, uint64_t from_ps, uint64_t to_ps)
{
    struct mover *m = &ww->rank->mover[ww->worker->index];
    if (ww->moved_from_ps && from_ps > ww->moved_from_ps && m->moved_to_ps > ww->moved_from_ps) {
        const uint64_t part = 256 * (m->moved_to_ps - ww->moved_from_ps) / (from_ps - ww->moved_from_ps);
        m->moving_256 = (uint32_t)(part < 1 ? 1 : part > 256 ? 256 : part) & 0x3ff;
    }
    ww->moved_from_ps = from_ps;
    m->moved_to_ps = to_ps;
}
