/* launch.h - when kernels begin and end.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_LAUNCH_H
#define MODELS_HARDWARE_LAUNCH_H

#include "sim/sim.h"

struct world_rank;

/* Schedules what comes after the rank's kernel, whose last worker is done. */
void launch_rank_done(struct world_rank *rank);
sim_handler launch_begin_run; /* EVENT_BEGIN */
sim_handler launch_event_run; /* EVENT_LAUNCH */
sim_handler launch_timer_run; /* EVENT_TIMER */

#endif
