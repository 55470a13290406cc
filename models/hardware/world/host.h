/* host.h - a core of a host.  Ranks are processes and take turns on it.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_HOST_H
#define MODELS_HARDWARE_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/machine/link.h"
#include "sim/sim.h"

struct world_rank;

/* A core of a host, and the rank that has it. */
struct core {
    struct port port;
    struct sim_event event;  /* the end of the core's current step; then the core is free, or another rank gets it */
    struct world_rank *rank; /* the rank that has the core; if none has: the one that had it last */
    uint64_t slice_end_ps;   /* after this time, other ranks go first */
    uint64_t received_ps;    /* when its work on the last incoming request is done */
    bool waits_for_held;     /* the event is for a rank that is held back; another rank may make it come sooner */
};

/* The handler of a core's event. */
sim_handler host_core_run;

#endif
