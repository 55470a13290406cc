/* world_timeline.c - the tracks of a timeline, and what ports do with requests.
 *
 * A rank is a process of the timeline.  Its tracks are the kernel, the two directions of NVLink, three of the NIC, each
 * warp lane of each worker that did something, and the waits of each worker.  Signals that come in by the NIC have a
 * track of their own, because they come in between puts.  Knows no world. */
#include "models/hardware/world/world_timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include "models/hardware/world/causes.h"
#include "sim/memory.h"
#include "sim/timeline.h"

struct world_timeline *world_timeline_new(struct timeline *out, struct causes *causes, uint32_t ranks)
{
    static const char *const port[TRACKS_OF_PORTS] = { "kernel",       "NVLink egress", "NVLink ingress",
                                                       "NIC transmit", "NIC receive",   "NIC receive, signals" };
    struct world_timeline *t = memory_new(1, sizeof *t);
    *t = (struct world_timeline){ out, causes, memory_new(ranks, sizeof t->rank[0]), ranks };
    for (uint32_t r = 0; r < ranks; r++) {
        char name[32];
        snprintf(name, sizeof name, "rank %u", r);
        timeline_name_process(out, r, name);
        for (uint32_t i = 0; i < TRACKS_OF_PORTS; i++) timeline_name_track(out, r, i, port[i]);
    }
    return t;
}

void world_timeline_free(struct world_timeline *t)
{
    if (!t) return;
    causes_free(t->causes);
    for (uint32_t r = 0; r < t->ranks; r++) free(t->rank[r].named);
    free(t->rank);
    free(t);
}

void world_timeline_launch(struct world_timeline *t, uint32_t rank, uint32_t worker_count)
{
    struct lanes *lanes = &t->rank[rank];
    causes_launch(t->causes, rank, worker_count);
    if (worker_count <= lanes->count) return;
    lanes->named = memory_grow(lanes->named, worker_count, sizeof lanes->named[0]);
    while (lanes->count < worker_count) lanes->named[lanes->count++] = 0;
}

uint32_t world_timeline_lane(struct world_timeline *t, uint32_t rank, uint32_t worker, uint32_t lane)
{
    const uint32_t track = TRACKS_OF_PORTS + worker * TRACKS_A_WORKER + lane;
    uint64_t *named = &t->rank[rank].named[worker];
    if (*named >> lane & 1) return track;
    char warp[20] = "";
    if (lane && lane != LANE_WAITS) snprintf(warp, sizeof warp, ", warp %u", lane);
    timeline_name_worker(t->out, rank, track, worker, lane == LANE_WAITS ? ", waits" : warp);
    *named |= (uint64_t)1 << lane;
    return track;
}

void world_timeline_request(struct world_timeline *t, const struct request *r, bool transmit, uint64_t begin_ps,
                            uint64_t end_ps)
{
    const uint32_t receive = r->put || r->answer ? TRACK_NIC_RX : TRACK_NIC_RX_SIGNALS;
    timeline_span(t->out, &(struct timeline_span){
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
    if (transmit) causes_sent(t->causes, r, begin_ps);
    else causes_received(t->causes, r, receive, begin_ps, end_ps);
}
