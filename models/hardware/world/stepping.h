/* stepping.h - steps and wakes of workers, and the bytes that they move.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_STEPPING_H
#define MODELS_HARDWARE_STEPPING_H

#include <stdint.h>
#include "models/fabric.h"
#include "sim/sim.h"

struct world_rank;
struct world_worker;

/* A wake that a worker has asked for; it is a separate event. */
struct world_wake {
    struct sim_event event;
    uint32_t launch; /* the rank's launch in which the worker asked for it */
    uint32_t worker;
    uint16_t rank;
};

/* Steps the worker now. */
void world_worker_step(struct world_worker *ww);
sim_handler stepping_wake_run; /* EVENT_WAKE */

/* store() and work() one by one (models/kernels/sites.h), for GPUs and hosts alike.  The first row is moved, or the
 * first load of a scan made, at once, by the fabric's own operation.  Each time the worker's next step is due, one more
 * is moved or made instead. */
int world_store_in_turn(struct fabric *f, struct fabric_worker *worker, const struct fabric_write *write);
void world_work_in_turn(struct fabric *f, struct fabric_worker *worker, const struct fabric_work *work);

/* fabric_now_ps() and fabric_wake_at() for all kinds of ranks. */
uint64_t world_now_ps(const struct fabric *f);
void world_wake_at(struct fabric *f, struct fabric_worker *w, uint64_t time_ps);

/* Moves the bytes of a store at once, because no worker reads them before the signal. */
void world_store_payload(struct world_rank *source, const struct fabric_write *write);
void world_load_payload(struct world_rank *target, const struct fabric_read *read);

#endif
