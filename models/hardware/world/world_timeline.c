/* world_timeline.c - what workers, ports and kernels do, as spans of a timeline.
 *
 * A rank is a process of the timeline.  Its tracks are the kernel, the NVLink port's two directions, the NIC's two
 * (signals come in between puts), each warp lane of each worker that did something, and the worker's waits.  Knows
 * where costs are found afterwards, not what they are. */
#include "models/hardware/world/causes.h"
#include "models/hardware/world/world_internal.h"
#include "models/hardware/world/world_timeline.h"

#include <stdio.h>
#include "sim/timeline.h"

void world_timeline_rank_init(struct world_rank *rank)
{
    static const char *const port[TRACKS_OF_PORTS] = { "kernel",       "NVLink egress", "NVLink ingress",
                                                       "NIC transmit", "NIC receive",   "NIC receive, signals" };
    struct timeline *timeline = rank->world->options.timeline;
    char name[32];
    snprintf(name, sizeof name, "rank %u", rank->fabric.rank);
    timeline_name_process(timeline, rank->fabric.rank, name);
    for (uint32_t i = 0; i < TRACKS_OF_PORTS; i++) timeline_name_track(timeline, rank->fabric.rank, i, port[i]);
}

void world_timeline_launch(struct world_rank *rank, uint32_t worker_count)
{
    causes_launch(rank->world->causes, rank->fabric.rank, worker_count);
    if (worker_count <= rank->lanes_named_count) return;
    rank->lanes_named = memory_grow(rank->lanes_named, worker_count, sizeof rank->lanes_named[0]);
    for (uint32_t i = rank->lanes_named_count; i < worker_count; i++) rank->lanes_named[i] = 0;
    rank->lanes_named_count = worker_count;
}

uint32_t world_timeline_lane(struct world_rank *rank, uint32_t worker, uint32_t lane)
{
    const uint32_t track = TRACKS_OF_PORTS + worker * TRACKS_A_WORKER + lane;
    if (rank->lanes_named[worker] >> lane & 1) return track;
    char name[48];
    if (lane == LANE_WAITS) snprintf(name, sizeof name, "worker %u, waits", worker);
    else if (lane) snprintf(name, sizeof name, "worker %u, warp %u", worker, lane);
    else snprintf(name, sizeof name, "worker %u", worker);
    timeline_name_track(rank->world->options.timeline, rank->fabric.rank, track, name);
    rank->lanes_named[worker] |= (uint64_t)1 << lane;
    return track;
}

void world_timeline_nic_note(const struct world *w, const struct request *r, bool transmit, uint64_t begin_ps,
                             uint64_t end_ps)
{
    const uint32_t receive = r->put || r->answer ? TRACK_NIC_RX : TRACK_NIC_RX_SIGNALS;
    timeline_span(w->options.timeline, &(struct timeline_span){
                                           .name = r->put      ? "put"
                                                   : r->get    ? "get"
                                                   : r->answer ? "answer"
                                                               : "signal",
                                           .begin_ps = begin_ps,
                                           .end_ps = end_ps,
                                           .size_bytes = r->wire_bytes,
                                           .process = transmit ? r->source : r->target,
                                           .track = transmit ? TRACK_NIC_TX : receive,
                                       });
    if (transmit) causes_sent(w->causes, r, begin_ps);
    else causes_received(w->causes, r, receive, begin_ps, end_ps);
}

void world_timeline_post_note(const struct world *w, const struct request *r) { causes_post(w->causes, r); }

void world_timeline_wait(const struct world *w, uint32_t rank, uint32_t worker, uint64_t begin_ps, uint64_t end_ps,
                         const char *text)
{
    const struct causes_place place = { rank, worker, world_timeline_lane(&w->rank[rank], worker, LANE_WAITS),
                                        begin_ps };
    timeline_span(w->options.timeline, &(struct timeline_span){ .name = "wait",
                                                                .begin_ps = begin_ps,
                                                                .end_ps = end_ps,
                                                                .process = rank,
                                                                .track = place.track,
                                                                .detail = text });
    causes_waited(w->causes, &place, end_ps, text);
}

void world_timeline_answer_note(const struct world *w, const struct request *get, const struct request *answer)
{
    causes_answered(w->causes, get, answer);
}

/* The critical path of the kernel that ran last: from its last worker of all ranks. */
static void path_note(const struct world *w, const char *name, const struct world_result *result)
{
    const struct world_worker *last = NULL;
    for (uint32_t r = 0; r < w->options.ranks; r++)
        for (uint32_t i = 0; i < w->rank[r].worker_count; i++) {
            const struct world_worker *ww = &w->rank[r].worker[i];
            if (ww->cursor_ps <= result[r].end_ps && (!last || ww->cursor_ps > last->cursor_ps)) last = ww;
        }
    if (!last) return;
    const uint32_t rank = last->worker->fabric->rank;
    causes_path(w->causes, name, rank, last->worker->index, result[rank].begin_ps, last->cursor_ps);
}

void world_timeline_note(const struct world *w, const char *name, const struct world_result *result)
{
    for (uint32_t r = 0; w->options.timeline && r < w->options.ranks; r++)
        timeline_span(w->options.timeline, &(struct timeline_span){
                                               .name = name,
                                               .begin_ps = result[r].begin_ps,
                                               .end_ps = result[r].end_ps,
                                               .process = r,
                                               .track = TRACK_KERNEL,
                                           });
    if (w->options.timeline && !w->several) path_note(w, name, result);
}
