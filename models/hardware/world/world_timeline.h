/* world_timeline.h - the timeline of a simulated run: tracks, and spans of requests.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_WORLD_TIMELINE_H
#define MODELS_HARDWARE_WORLD_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include "models/fabric.h"

struct causes;
struct request;
struct timeline;

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

struct world_timeline {
    struct timeline *out;
    struct causes *causes; /* the timeline owns it */
    struct lanes {
        uint64_t *named; /* [count] for each worker, one bit for each lane that has its name */
        uint32_t count;
    } * rank; /* [ranks] */
    uint32_t ranks;
};

struct world_timeline *world_timeline_new(struct timeline *out, struct causes *causes, uint32_t ranks);
void world_timeline_free(struct world_timeline *t);
/* Notes that a rank launches a kernel with worker_count workers. */
void world_timeline_launch(struct world_timeline *t, uint32_t rank, uint32_t worker_count);
/* The track of a worker's lane.  It is named when it is first used, because most workers use one lane. */
uint32_t world_timeline_lane(struct world_timeline *t, uint32_t rank, uint32_t worker, uint32_t lane);
/* Records that a port sends the request, or takes it in, from begin_ps to end_ps. */
void world_timeline_request(struct world_timeline *t, const struct request *r, bool transmit, uint64_t begin_ps,
                            uint64_t end_ps);

/* recording.c: these operations are used with a timeline.  They record, and call the machine's own operations. */
extern const struct fabric_ops recording_ops;

#endif
