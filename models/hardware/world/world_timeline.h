/* world_timeline.h - the timeline of a simulated run: spans of workers, requests and kernels.  Private to
 * models/hardware.  To be called only where the world has a timeline. */
#ifndef MODELS_HARDWARE_WORLD_TIMELINE_H
#define MODELS_HARDWARE_WORLD_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"

struct request;
struct world;
struct world_rank;

enum {
    TRACK_KERNEL,
    TRACK_EGRESS,
    TRACK_INGRESS,
    TRACK_NIC_TX,
    TRACK_NIC_RX,
    TRACK_NIC_RX_SIGNALS,
    TRACKS_OF_PORTS,
    TRACKS_A_WORKER = 64,
    LANE_WAITS = 63
};

/* The track of a worker's lane, named when it is first used: most workers use one. */
uint32_t world_timeline_lane(struct world_rank *rank, uint32_t worker, uint32_t lane);
void world_timeline_rank_init(struct world_rank *rank);
void world_timeline_launch(struct world_rank *rank, uint32_t worker_count);
/* The stepped worker posts the request. */
void world_timeline_post_note(const struct world *w, const struct request *r);
/* A port sends the request, or takes it in, from begin_ps to end_ps. */
void world_timeline_nic_note(const struct world *w, const struct request *r, bool transmit, uint64_t begin_ps,
                             uint64_t end_ps);
void world_timeline_answer_note(const struct world *w, const struct request *get, const struct request *answer);

/* recording.c: with a timeline, these operations record, and call the machine's own operations. */
extern const struct fabric_ops recording_ops;

#endif
