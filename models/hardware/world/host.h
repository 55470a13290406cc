/* host.h - a core of a host.  Ranks are processes and take turns on it.  Private to models/hardware. */
#ifndef MODELS_HARDWARE_HOST_H
#define MODELS_HARDWARE_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/machine/link.h"
#include "sim/sim.h"

struct world_rank;

/* A core of a host and the rank whose turn it is. */
struct core {
    struct port port;
    struct sim_event event;  /* the step on the core ends: then the core is free, or the next rank's */
    struct world_rank *rank; /* the rank whose turn it is, or was last */
    uint64_t slice_end_ps;   /* from then on other ranks come first */
    uint64_t received_ps;    /* when its work on the last incoming request is done */
    bool waits_for_held;     /* event waits for a rank that is held back; it may run sooner */
};

/* What its event runs. */
sim_handler host_core_run;

#endif
